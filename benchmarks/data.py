"""Counting ten million records over five attributes, beside a hand-written DuckDB query.

    python benchmarks/data.py [--rows 10000000]

Times are of this run; memory is the peak of a process of its own for each line.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import duckdb

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


def _leastnoise(path: str) -> None:
    ln.vectorize(path, SCHEMA).vector()


def _by_hand(path: str) -> None:
    duckdb.connect().execute(BY_HAND.format(path=path)).fetchnumpy()


def _timed(task: object, path: str, results: multiprocessing.Queue[tuple[float, float]]) -> None:
    started = time.perf_counter()
    task(path)  # type: ignore[operator]
    seconds = time.perf_counter() - started
    results.put((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        parquet, csv = Path(folder) / "people.parquet", Path(folder) / "people.csv"
        duckdb.execute(f"COPY ({TABLE.format(rows=arguments.rows)}) TO '{parquet}'")
        duckdb.execute(f"COPY (FROM '{parquet}') TO '{csv}' (HEADER)")
        print(f"{arguments.rows:,} records, {SCHEMA.n_cells:,} cells")
        print(f"{'':<24} {'seconds':>8} {'peak GiB':>9}")
        for name, task, path in (
            ("by hand, Parquet", _by_hand, parquet),
            ("leastnoise, Parquet", _leastnoise, parquet),
            ("leastnoise, CSV", _leastnoise, csv),
        ):
            results: multiprocessing.Queue[tuple[float, float]] = context.Queue()
            process = context.Process(target=_timed, args=(task, str(path), results))
            process.start()
            seconds, peak = results.get()
            process.join()
            print(f"{name:<24} {seconds:>8.2f} {peak:>9.2f}")


if __name__ == "__main__":
    main()
