"""The table that a command reads: files, an address, or what another program pipes in."""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.core.errors import InputError
from leastnoise.data import is_address, kind_of

DataFile = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="TABLE",
        help="a CSV, JSON Lines, Parquet, Feather or Excel file, a folder or a glob of them (repeatable); an "
        "address such as postgres://HOST/DATABASE?table=NAME or duckdb://FILE/TABLE; or - for CSV from "
        "standard input, -.jsonl or -.parquet for another format",
    ),
]

# What `vectorize` takes of a table that is named.
TableSource = str | list[str]


class SpooledTable(str):
    """The path of a file in a private folder, which is removed with this name."""


def table_source(given: Sequence[str]) -> TableSource:
    """What the options name. Standard input goes into a private folder first: scans read a table again.

    Raises:
        InputError: if standard input is named beside another table, or nothing is piped in.
    """
    for one in given:
        if one != "-" and not one.startswith("-."):
            continue
        if len(given) > 1:
            raise InputError.must("data", "be - alone, or files", given=list(given))
        return _spooled(one)
    return given[0] if len(given) == 1 else list(given)


def _spooled(name: str) -> SpooledTable:
    file_name = f"standard-input{name[1:] or '.csv'}"
    kind_of(file_name)
    if sys.stdin.isatty():
        raise InputError(
            "--data - reads what another program pipes in, and nothing does",
            field="data",
            given=name,
            remedy="pipe a table in, as in: zcat people.csv.gz | leastnoise publish spec.toml --data -",
        )
    folder = tempfile.mkdtemp(prefix="leastnoise-")
    path = SpooledTable(os.path.join(folder, file_name))
    # At the end of the command, whatever ends it, but for SIGKILL.
    weakref.finalize(path, shutil.rmtree, folder, ignore_errors=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def files_read(source: TableSource) -> list[Path]:
    """The files that a source may name, which no output may replace."""
    named = [source] if isinstance(source, str) else source
    files = [one for one in named if not is_address(one)]
    return [Path(path) for one in files for path in (one, *glob.glob(one, recursive=True))]
