"""Counting ten million records: one wide question beside a hand-written query, then many tables at once.

    python benchmarks/data.py [--rows 10000000] [--engines duckdb spark]

Times are of this run; memory is the peak of a process of its own for each line, and of its Java process
for Spark.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
from engines import spark_engine

import leastnoise as ln

SCHEMA = ln.Schema(
    region=[f"r{i:02d}" for i in range(20)],
    age=range(116),
    sex=("F", "M"),
    education=ln.Categories(["none", "school", "trade", "university"], other="other"),
    income=ln.Bins([*range(0, 100_000, 10_000), float("inf")], outside="clamp"),
)

TABLE = """SELECT 'r' || lpad((random() * 20)::INT % 20 || '', 2, '0') AS region,
    (random() * 115)::INT AS age,
    CASE WHEN random() < 0.5 THEN 'F' ELSE 'M' END AS sex,
    ['none', 'school', 'trade', 'university', 'unknown'][1 + (random() * 5)::INT % 5] AS education,
    random() * 120000 AS income FROM range({rows})"""

BY_HAND = """SELECT region, age, sex, education, least(income // 10000, 9) AS income, count(*)
    FROM read_parquet('{path}') GROUP BY ALL"""

WIDE = ln.Schema(**{f"a{k:02d}": range(10) for k in range(20)})
PAIRS = list(itertools.combinations(WIDE.names, 2))
WIDE_TABLE = (
    "SELECT "
    + ", ".join(f"floor(random() * 10)::TINYINT AS {name}" for name in WIDE.names)
    + " FROM range({rows})"
)

Task = Callable[[str], str]


def _leastnoise(path: str) -> str:
    return _digest([ln.vectorize(path, SCHEMA).vector()])


def _by_hand(path: str) -> str:
    duckdb.connect().execute(BY_HAND.format(path=path)).fetchnumpy()
    return ""


def _tables(path: str) -> str:
    return _digest(ln.vectorize(path, WIDE).tables(PAIRS))


def _tables_one_by_one(path: str) -> str:
    data = ln.vectorize(path, WIDE)
    return _digest([data.counts(*pair) for pair in PAIRS])


def _tables_in_spark(path: str) -> str:
    engine = spark_engine()
    return _digest(ln.vectorize(engine.read_parquet(path), WIDE).tables(PAIRS))


def _digest(tables: list[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest()[:12]


def _timed(task: Task, path: str, results: multiprocessing.Queue[tuple[float, float, str]]) -> None:
    started = time.perf_counter()
    digest = task(path)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + _java_peak()
    results.put((seconds, peak / 2**20, digest))


def _java_peak() -> int:
    """The peak memory of Java processes that this one started, in KiB, where /proc tells."""
    peak = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if fields.get("Name") == "java" and int(fields["PPid"]) == os.getpid():
            peak += int(fields["VmHWM"].split()[0])
    return peak


def _compare(lines: list[tuple[str, Task, Path]]) -> None:
    context = multiprocessing.get_context("spawn")
    print(f"{'':<34} {'seconds':>8} {'peak GiB':>9}  counts")
    for name, task, path in lines:
        results: multiprocessing.Queue[tuple[float, float, str]] = context.Queue()
        process = context.Process(target=_timed, args=(task, str(path), results))
        process.start()
        seconds, peak, digest = results.get()
        process.join()
        print(f"{name:<34} {seconds:>8.2f} {peak:>9.2f}  {digest}", flush=True)


def main() -> None:
    """Print two tables; equal digests are equal counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="*", choices=("duckdb", "spark"), default=["duckdb", "spark"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parquet, csv, wide = (
            Path(folder) / name for name in ("people.parquet", "people.csv", "wide.parquet")
        )
        duckdb.execute(f"COPY ({TABLE.format(rows=arguments.rows)}) TO '{parquet}'")
        duckdb.execute(f"COPY (FROM '{parquet}') TO '{csv}' (HEADER)")
        duckdb.execute(f"COPY ({WIDE_TABLE.format(rows=arguments.rows)}) TO '{wide}'")
        if "duckdb" in arguments.engines:
            print(f"{arguments.rows:,} records, {SCHEMA.n_cells:,} cells")
            _compare(
                [
                    ("by hand, Parquet", _by_hand, parquet),
                    ("leastnoise, Parquet", _leastnoise, parquet),
                    ("leastnoise, CSV", _leastnoise, csv),
                ]
            )
        print(f"\n{arguments.rows:,} records, {len(PAIRS)} tables of two out of {len(WIDE.names)} attributes")
        lines: list[tuple[str, Task, Path]] = []
        if "duckdb" in arguments.engines:
            lines += [
                ("DuckDB, all at once", _tables, wide),
                ("DuckDB, one by one", _tables_one_by_one, wide),
            ]
        if "spark" in arguments.engines:
            if importlib.util.find_spec("pyspark") and shutil.which("java"):
                lines.append(("Spark, local, all at once", _tables_in_spark, wide))
            else:
                print("Spark is left out: it needs pip install 'leastnoise[spark]' and Java")
        _compare(lines)


if __name__ == "__main__":
    main()
