"""Counting CSV files: this package's reader beside DuckDB's own, and beside an older checkout.

    python benchmarks/csv_reading.py [--rows 10000000] [--kinds plain crlf partly wholly breaks letters]
        [--repeat 3] [--older folder/src]

Every count runs in a process of its own, the readers by turns, and the least of the repeated times is
shown. DuckDB reads with one thread, because with several it loses records where a quoted line break meets
the border of two chunks, and is given columns of text, as this package gave it before it had a reader.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

TABLE = """SELECT 'r' || lpad((random() * 20)::INT % 20 || '', 2, '0') AS region,
    (random() * 115)::INT AS age,
    CASE WHEN random() < 0.5 THEN 'F' ELSE 'M' END AS sex,
    [{notes}][1 + (random() * 5)::INT % 5] AS note FROM range({rows})"""

_WORDS = "'none', 'school', 'trade', 'university', 'unknown of the sort'"
_COMMAS = "'none', 'school, high', 'trade', 'said \"no\"', 'unknown, of the sort'"
_BREAKS = (
    "'none', 'two' || chr(10) || 'lines', 'trade', 'said \"no\"' || chr(13) || chr(10), 'unknown, or so'"
)
_INCHES = "'none', 'school', 'trade', 'a 5 inch disk', 'unknown of the sort'"
# What the last column holds, and how the file is written.
KINDS = {
    "plain": (_WORDS, "HEADER"),
    "crlf": (_WORDS, "HEADER"),
    "partly": (_COMMAS, "HEADER"),
    "wholly": (_WORDS, "HEADER, FORCE_QUOTE *"),
    "breaks": (_BREAKS, "HEADER, FORCE_QUOTE *"),
    "letters": (_INCHES, "HEADER"),
}
ABOUT = {
    "plain": "no quotes",
    "crlf": "no quotes, lines end in CR LF",
    "partly": "three fields in twenty quoted, one of them with quotes inside",
    "wholly": "every field quoted",
    "breaks": "every field quoted, line breaks in two of twenty",
    "letters": "quotes as letters in one field of twenty, which no CSV library writes",
}


def _write(kind: str, rows: int, path: Path) -> None:
    notes, options = KINDS[kind]
    with duckdb.connect() as engine:
        engine.execute("SELECT setseed(0.5)")
        engine.execute(f"COPY ({TABLE.format(notes=notes, rows=rows)}) TO '{path}' ({options})")
    replaced = {"crlf": (b"\n", b"\r\n"), "letters": (b" inch ", b'" ')}
    if kind in replaced:
        plain = path.rename(path.with_suffix(".plain"))
        with plain.open("rb") as lines, path.open("wb") as file:
            file.writelines(line.replace(*replaced[kind]) for line in lines)
        plain.unlink()


def _count(path: str, reader: str) -> None:
    """Count in this process and print what it took."""
    import leastnoise as ln

    schema = ln.Schema(
        region=[f"r{i:02d}" for i in range(20)],
        age=range(116),
        sex=("F", "M"),
        note=ln.Categories(["none", "trade"], other="other"),
    )
    if reader == "DuckDB's":
        from leastnoise.data.files import FilesTable

        FilesTable.batches = _batches_by_duckdb
    with tempfile.TemporaryDirectory() as folder:
        # What is loaded with the first count is not counted.
        first = Path(folder) / "first.csv"
        first.write_text("region,age,sex,note\nr01,1,F,none\n", encoding="utf-8")
        ln.vectorize(first, schema).vector()
    wall, processor = time.perf_counter(), time.process_time()
    counts = ln.vectorize(path, schema).vector()
    found = {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "counts": [int(counts.sum()), hash(counts.tobytes())],
    }
    print(json.dumps(found))


def _batches_by_duckdb(table: Any, names: Sequence[str], marks: object, dropped: object) -> Iterator[Any]:
    columns = dict.fromkeys(("region", "age", "sex", "note"), "VARCHAR")
    records = (
        f"read_csv('{table.paths[0]}', columns={columns}, delim=',', header=true, auto_detect=false, "
        "quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false, ignore_errors=true, "
        "strict_mode=false, parallel=false)"
    )
    with duckdb.connect() as engine:
        for batch in engine.sql(f"SELECT {', '.join(names)} FROM {records}").fetch_record_batch(2**16):
            yield batch.columns


def main() -> None:
    """Print a table for every kind of file; equal counts are checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="*", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--older", help="the folder src of another checkout, to be timed too")
    parser.add_argument("--count", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count:
        _count(*arguments.count)
        return
    readers = ["this package's", "DuckDB's", *(["the older one"] if arguments.older else [])]
    print(f"{arguments.rows:,} records of four fields; seconds, and times this package's over the other's")
    print(
        f"{'file':<8} {'reader':<16} {'wall':>6} {'ratio':>6} {'processor':>10} {'ratio':>6} {'peak MiB':>9}"
    )
    for kind in arguments.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{kind}.csv"
            _write(kind, arguments.rows, path)
            runs: dict[str, list[dict[str, Any]]] = {reader: [] for reader in readers}
            for _ in range(arguments.repeat):
                for reader in readers:
                    runs[reader].append(_run(str(path), reader, arguments.older))
        print(f"{kind}: {ABOUT[kind]}")
        least = {
            reader: {part: min(run[part] for run in found) for part in ("wall", "processor", "peak")}
            for reader, found in runs.items()
        }
        own = least["this package's"]
        if len({str(run["counts"]) for found in runs.values() for run in found}) != 1:
            print("  the counts differ")
        for reader, other in least.items():
            ratios = (own["wall"] / other["wall"], own["processor"] / other["processor"])
            print(
                f"{'':<8} {reader:<16} {other['wall']:>6.2f} {ratios[0]:>6.2f} {other['processor']:>10.2f} "
                f"{ratios[1]:>6.2f} {other['peak']:>9.0f}",
                flush=True,
            )


def _run(path: str, reader: str, older: str | None) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if reader == "the older one":
        environment["PYTHONPATH"] = str(older)
    command = [sys.executable, __file__, "--count", path, reader]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(found.stdout.splitlines()[0]))


if __name__ == "__main__":
    main()
