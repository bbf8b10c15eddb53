"""A draft of a specification, from the names and types of a table's columns."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import check_new
from leastnoise.app.cli.publish_commands import Encoding, Quote, Separator, Sheet
from leastnoise.app.cli.terminal import note, say
from leastnoise.app.drafting.codebook import read_codebook
from leastnoise.app.drafting.columns import Column, columns_of, is_identifier
from leastnoise.app.drafting.draft import Wishes, draft_spec, next_commands
from leastnoise.app.drafting.questions import ask_records, ask_wishes, column_named
from leastnoise.app.specification import FILL_IN
from leastnoise.app.specification.json_schema import schema_text
from leastnoise.core.errors import InputError
from leastnoise.core.printable import counted
from leastnoise.core.whole_file import check_folder, written_whole
from leastnoise.data import FileFormat


def init(
    table: Annotated[
        str | None,
        typer.Argument(help="a CSV, TSV, Parquet or Excel file; only column names and types are read"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="the file to write; NAME.toml by default")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--person", help="the column that identifies the person, if one person can have several records"
        ),
    ] = None,
    records_per_person: Annotated[
        int | None,
        typer.Option("--records-per-person", min=1, help="count at most this many records of each person"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="the columns to publish, separated by commas; all by default"),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            "--codebook",
            help="a public CSV or JSON file of values, with the columns column, code, label and parent",
        ),
    ] = None,
    separator: Separator = None,
    quote: Quote = '"',
    encoding: Encoding = None,
    sheet: Sheet = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask; use the defaults")] = False,
    force: Annotated[bool, typer.Option("--force", help="overwrite an existing file")] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="print the JSON schema of specification files, for use in editors"),
    ] = False,
) -> Facts:
    """Draft a specification for you to complete. Reads the column names and types, never a value."""
    if schema:
        typer.echo(schema_text(), nl=False)
        return {"file": None, "n_to_fill_in": 0, "next": [], "schema": json.loads(schema_text())}
    if table is None:
        raise InputError("name the table, as in: leastnoise init people.csv", field="table", given=None)
    target = _new_file(out, table, force=force)
    format = FileFormat(separator, quote or None, encoding, sheet)
    found = columns_of(table, format)
    declared = {} if codebook is None else _codebook(codebook, found)
    wishes = replace(_wishes(found, person, records_per_person, may_ask=not yes), declared=declared)
    if columns is not None:
        wishes = _only(wishes, found, columns)
    text = draft_spec(found, wishes, spec=str(target), table=table, format=format)
    with written_whole(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say(f"wrote {target}")
    _say_what_is_next(text, target, table, wishes)
    following = list(next_commands(wishes, spec=str(target), table=table))
    return {"file": target, "n_to_fill_in": _n_to_fill_in(text), "next": following, "schema": None}


def _n_to_fill_in(text: str) -> int:
    return sum(FILL_IN in line for line in text.splitlines() if not line.startswith("#"))


def _only(wishes: Wishes, found: Sequence[Column], listed: str) -> Wishes:
    """The wishes for the columns that are listed, and no others."""
    names = [column.name for column in found]
    try:
        chosen = {column_named(part.strip(), names) for part in listed.split(",") if part.strip()}
    except ValueError as error:
        raise InputError(f"--columns: {error}", field="columns", given=listed) from None
    left_out = frozenset(names) - chosen - {wishes.person}
    return replace(wishes, left_out=left_out, named=frozenset(filter(is_identifier, chosen)))


def _codebook(path: Path, found: Sequence[Column]) -> dict[str, dict[str, Any]]:
    """What the codebook declares of the table's columns."""
    declared = read_codebook(path)
    names = [column.name for column in found]
    for name in declared:
        if name not in names:
            note(f"the codebook lists {name!r}, which is not a column of the table")
    return {name: own for name, own in declared.items() if name in names}


def _new_file(out: Path | None, table: str, *, force: bool) -> Path:
    """Where the draft goes, once it is known that it may be written there."""
    target = out or Path(Path(table).name.split(".")[0].replace("*", "") or "people").with_suffix(".toml")
    if target.suffix.lower() != ".toml":
        raise InputError(
            f"a specification's name ends in .toml, got {str(target)!r}", field="out", given=str(target)
        )
    check_folder(target)
    check_new(target, force=force)
    return target


def _wishes(
    columns: Sequence[Column], person: str | None, records_per_person: int | None, *, may_ask: bool
) -> Wishes:
    """The wishes by the options; where these leave something open and there is a terminal, by asking."""
    is_asked = may_ask and sys.stdin.isatty()
    if person is None:
        if records_per_person is not None and records_per_person > 1:
            raise InputError(
                "--records-per-person needs --person, the column that tells whose record is whose",
                field="person",
                given=None,
            )
        return ask_wishes(columns, _ask, note) if is_asked else Wishes()
    try:
        column_named(person, [column.name for column in columns])
    except ValueError as error:
        raise InputError(f"--person: {error}", field="person", given=person) from None
    if records_per_person is None and not is_asked:
        raise InputError(
            "--person needs --records-per-person, how many records of one person count at most; what "
            "is beyond it is left out, and the noise grows with it",
            field="records_per_person",
            given=None,
        )
    most = ask_records(_ask, note) if records_per_person is None else records_per_person
    return Wishes(person=person, records_per_person=most)


def _say_what_is_next(text: str, target: Path, table: str, wishes: Wishes) -> None:
    """What is left to fill in, and the commands that follow, to be copied."""
    to_fill = _n_to_fill_in(text)
    if to_fill:
        say(
            f'fill in {counted(to_fill, "place")} marked "{FILL_IN}", and delete columns that you do not '
            "want to count by, with the queries that use them"
        )
    say("next steps:")
    for command in next_commands(wishes, spec=str(target), table=table):
        say(f"  {command}")


def _ask(question: str, default: str) -> str:
    return str(typer.prompt(question, default=default or None, err=True))
