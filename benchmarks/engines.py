"""190 two-way tables of 20 attributes on every engine, and planning the scans for 4,950 tables.

    python benchmarks/engines.py [--before PATH] [--share 0.25] [--parts planning parquet frame csv duckdb …]

Processor seconds of all processes that a line starts, servers and Java included; equal digests are equal
counts. With --before, the `src` folder of another version is measured in the same run, line by line;
--share takes a part of the records.
PostgreSQL is started from the programs on this machine, Spark in local mode with two threads.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parent.parent / "tests"
ROWS = {
    "planning": 0,
    "parquet": 4_000_000,
    "frame": 4_000_000,
    "csv": 10_000_000,
    "duckdb": 4_000_000,
    "person": 2_000_000,
    "postgres": 300_000,
    "spark": 2_000_000,
    "texts": 2_000_000,
}
LABELS = {
    "planning": "planning the scans, 100 attributes, all pairs",
    "parquet": "Parquet file, {} records",
    "frame": "pandas frame, {} records",
    "csv": "CSV file, {} records",
    "duckdb": "DuckDB table, {} records",
    "person": "Parquet file, {} records, at most 2 per person",
    "postgres": "PostgreSQL, {} records, server and client",
    "spark": "Spark local, {} records, first count",
    "texts": "the same as texts, first count",
}
AGAIN = "  the same once more"


def main() -> None:
    """Print one line for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", help="the src folder of another version")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the records to take")
    parser.add_argument("--parts", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        found = PARTS[arguments.one[0]](arguments.one[1])
        print(json.dumps(found if isinstance(found, list) else [found]))
        return
    own = str(Path(__file__).resolve().parent.parent / "src")
    versions = ([("before", arguments.before)] if arguments.before else []) + [("now", own)]
    print(f"{'':<50} {'':<7} {'cpu s':>7} {'wall s':>7} {'GiB':>5}  counts")
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.parts:
            rows = int(arguments.share * ROWS[part])
            path = _table(folder, rows, part == "csv")
            labels = (LABELS[part].format(f"{rows:,}"), AGAIN)
            for name, source in versions:
                for label, found in zip(labels, _measured(part, path, source), strict=False):
                    figures = f"{found['cpu']:>7.2f} {found['wall']:>7.2f} {found['peak']:>5.2f}"
                    print(f"{label:<50} {name:<7} {figures}  {found['counts']}")
                    sys.stdout.flush()


def _table(folder: str, rows: int, as_csv: bool) -> str:
    import duckdb

    path = f"{folder}/wide{rows}.parquet"
    if not os.path.exists(path):
        columns = ", ".join(f"floor(random() * 10)::TINYINT AS a{k:02d}" for k in range(20))
        person = f"(random() * {rows} / 3)::BIGINT AS id"
        duckdb.execute(f"COPY (SELECT {columns}, {person} FROM range({rows})) TO '{path}'")
    if as_csv:
        duckdb.execute(f"COPY (SELECT * EXCLUDE (id) FROM '{path}') TO '{path}.csv' (HEADER)")
        path += ".csv"
    return path


def _measured(part: str, path: str, source: str) -> list[dict[str, Any]]:
    """What a process of its own finds with one version of the library, count by count."""
    command = [sys.executable, __file__, "--one", part, path]
    environment = os.environ | {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def _schema(n: int = 20) -> Any:
    import leastnoise as ln

    return ln.Schema(**{f"a{k:02d}": range(10) for k in range(n)})


def _timed(
    run: Callable[[], Sequence[Any]], seconds: Callable[[], float] = time.process_time
) -> dict[str, Any]:
    import resource

    begun, wall = seconds(), time.perf_counter()
    tables = run()
    digest = hashlib.sha256(b"".join(np.asarray(table, dtype=np.int64).tobytes() for table in tables))
    return {
        "cpu": seconds() - begun,
        "wall": time.perf_counter() - wall,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "counts": digest.hexdigest()[:12] if tables else "",
    }


def _planning(path: str) -> dict[str, Any]:
    from leastnoise.data import table_cover

    # Under its name of before, too.
    plan = getattr(table_cover, "covering_blocks", None) or table_cover.plan_scans
    schema = _schema(100)
    pairs = list(itertools.combinations(schema.names, 2))

    def run() -> list[Any]:
        plan(pairs, schema)
        return []

    return _timed(run)


def _pairs_of(source: Any) -> dict[str, Any]:
    """The 190 tables of a source."""
    import leastnoise as ln

    schema = _schema()
    data = ln.vectorize(source, schema)
    return _timed(lambda: data.tables(list(itertools.combinations(schema.names, 2))))


def _frame(path: str) -> dict[str, Any]:
    import pandas

    return _pairs_of(pandas.read_parquet(path))


def _duckdb(path: str) -> dict[str, Any]:
    import duckdb

    # The whole file: a view on it would be Parquet again.
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE wide AS FROM '{path}'")
        return _pairs_of(engine.table("wide"))


def _person(path: str) -> dict[str, Any]:
    import leastnoise as ln

    schema = _schema()
    data = ln.vectorize(path, schema, person="id")
    pairs = list(itertools.combinations(schema.names, 2))
    return _timed(lambda: data.tables(pairs, records_per_person=2))


def _postgres(path: str) -> dict[str, Any]:
    import leastnoise as ln

    sys.path.insert(0, str(TESTS))
    from postgres_server import Server, server_programs

    programs = server_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed here")
    schema = _schema()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        server = Server(programs, Path(folder))
        try:
            engine = server.connect()
            import duckdb

            rows = duckdb.sql(f"SELECT {', '.join(schema.names)} FROM '{path}'").fetchall()
            columns = ", ".join(f"{name} smallint" for name in schema.names)
            engine.con.execute(f"CREATE TABLE wide ({columns})")
            with engine.con.cursor() as cursor, cursor.copy("COPY wide FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            engine.con.commit()
            process = engine.con.info.backend_pid
            data = ln.vectorize(engine.table("wide"), schema)
            pairs = list(itertools.combinations(schema.names, 2))
            return _timed(lambda: data.tables(pairs), lambda: _seconds_of(process) + time.process_time())
        finally:
            server.stop()


def spark_engine() -> Any:
    """Spark on this machine, two tasks at a time, as an engine of Ibis."""
    import ibis
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(name, value)
    return ibis.pyspark.connect(builder.getOrCreate())


def _spark(path: str, as_texts: bool = False) -> list[dict[str, Any]]:
    import duckdb

    import leastnoise as ln

    schema = _schema()
    if as_texts:
        columns = ", ".join(f"'value ' || {name} AS {name}" for name in schema.names)
        duckdb.execute(f"COPY (SELECT {columns} FROM '{path}') TO '{path}.texts.parquet'")
        path += ".texts.parquet"
        schema = ln.Schema(**{name: [f"value {k}" for k in range(10)] for name in schema.names})
    engine = spark_engine()
    data = ln.vectorize(engine.read_parquet(path), schema)
    pairs = list(itertools.combinations(schema.names, 2))
    return [_timed(lambda: data.tables(pairs), _seconds_of_all) for _ in range(2)]


def _seconds_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _seconds_of_all() -> float:
    """Processor seconds of this process and all that descend from it, those that have ended included."""
    children: dict[int, list[tuple[int, int]]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(
            (int(status.parent.name), sum(map(int, fields[11:15])))
        )
    total, waiting = 0, [os.getpid()]
    while waiting:
        for process, ticks in children.get(waiting.pop(), []):
            total += ticks
            waiting.append(process)
    return total / os.sysconf("SC_CLK_TCK") + sum(os.times()[:2])


PARTS: dict[str, Callable[[str], dict[str, Any] | list[dict[str, Any]]]] = {
    "planning": _planning,
    "parquet": _pairs_of,
    "frame": _frame,
    "csv": _pairs_of,
    "duckdb": _duckdb,
    "person": _person,
    "postgres": _postgres,
    "spark": _spark,
    "texts": lambda path: _spark(path, as_texts=True),
}


if __name__ == "__main__":
    main()
