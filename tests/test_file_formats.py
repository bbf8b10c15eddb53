"""Separators, quotes, encodings and sheets: declared, never guessed, and the same records by any of them."""

from __future__ import annotations

import csv
import gzip
import random
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from leastnoise import Bins, Categories, Cleaning, FileFormat, Periods, Schema, vectorize
from leastnoise.app.cli.main import app
from leastnoise.app.specification import parse_spec
from leastnoise.app.specification.json_schema import json_schema
from leastnoise.core.errors import DataError, SpecError
from leastnoise.data import identity_of
from support import extra, refuses

NAMES = ["a", "é", "x;y", "x,y", "it's", 'say "so"', "two\nlines", "ß", "|", " a", ""]
OTHER: dict[str, Any] = {"null": "other", "outside": "other", "other": "none"}
SCHEMA = Schema(name=Categories(NAMES[:-1], **OTHER), n=range(4))


def written(
    rows: list[tuple[str, int]], path: Path, separator: str, quote: str, encoding: str
) -> list[list[int]]:
    """Write a file as the standard library does, and count its records by a loop."""
    with path.open("w", encoding=encoding, newline="") as file:
        kind = csv.QUOTE_MINIMAL
        writer = csv.writer(file, delimiter=separator, quotechar=quote, quoting=kind)
        writer.writerow(["n", "name"])
        writer.writerows([(n, name) for name, n in rows])
    counts = [[0] * 4 for _ in range(len(NAMES))]
    for name, n in rows:
        counts[NAMES.index(name)][n] += 1
    return counts


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "iso-8859-15"])
def test_files_are_read_as_declared(separator: str, quote: str, encoding: str, tmp_path: Path) -> None:
    rng = random.Random(separator + quote + encoding)
    rows = [(rng.choice(NAMES), rng.randrange(4)) for _ in range(500)]
    expected = written(rows, tmp_path / "t.csv", separator, quote, encoding)
    format = FileFormat(separator=separator, quote=quote, encoding=encoding.removesuffix("-sig"))
    assert vectorize(tmp_path / "t.csv", SCHEMA, format=format).counts("name", "n").tolist() == expected
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    assert vectorize(tmp_path / "t.csv.gz", SCHEMA, format=format).counts("name", "n").tolist() == expected


def test_files_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('n\tname\n1\t"a"\n2\t"\n3\ta\n1\t"a\n')
    schema = Schema(name=Categories(['"a"', '"', "a", '"a'], **OTHER), n=range(4))
    found = vectorize(tmp_path / "t.tsv", schema, format=FileFormat(quote=None)).counts("name")
    assert found.tolist() == [1, 1, 1, 1, 0]


def test_bytes_that_are_no_letters_lose_their_record_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"n;name\n1;a\n2;\x81\n3;\xe9\n")
    format = FileFormat(separator=";", encoding="cp1252")
    found = vectorize(tmp_path / "t.csv", SCHEMA, format=format)
    assert found.counts("n").tolist() == [0, 1, 0, 1]


def test_formats_are_checked_and_are_rules_of_reading(tmp_path: Path) -> None:
    for given, field in (
        ({"separator": ";;"}, "separator"),
        ({"separator": "\n"}, "separator"),
        ({"quote": "|"}, "quote"),
        ({"encoding": "ebcdic"}, "encoding"),
        ({"sheet": ""}, "sheet"),
    ):
        with refuses(DataError, field):
            FileFormat(**given)
    (tmp_path / "t.csv").write_text("n;name\n1;a\n")
    format = FileFormat(separator=";")
    declared = identity_of(vectorize(tmp_path / "t.csv", SCHEMA, format=format)).rules
    assert declared["format"] == "FileFormat(separator=';')"
    (tmp_path / "u.csv").write_text("n,name\n1,a\n")
    assert "format" not in identity_of(vectorize(tmp_path / "u.csv", SCHEMA)).rules
    with refuses(DataError, "format"):
        vectorize(extra("pandas").DataFrame({"n": [1], "name": ["a"]}), SCHEMA, format=format)


def sheet(path: Path, rows: list[list[Any]], name: str = "people") -> Path:
    openpyxl = extra("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    book.active.append(["nothing", "here"])
    made = book.create_sheet(name)
    for row in rows:
        made.append(row)
    book.save(path)
    return path


def test_a_sheet_is_read_by_name(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["name", "n", "pay", "day"],
        ["a", 1, 1200.5, date(2026, 3, 1)],
        ["é", "2", "48.000,5", datetime(2026, 4, 30, 23, 59)],
        [None, None, None, None],
        ["a", 3.0, "4,125", "2026-05"],
        ["it's", True, 4.125, "31.12.2026"],
        ["ß", None, "x"],
    ]
    path = sheet(tmp_path / "t.xlsx", rows)
    schema = Schema(
        name=Categories(NAMES[:-1], **OTHER),
        n=Categories(["1", "2", "3", "true"], **OTHER),
        pay=Bins([0, 10, 2_000, 50_000], **OTHER, clean={"decimal": ",", "thousands": "."}),
        day=Periods("2026-01", "2026-12", **OTHER, clean={"dates": ["%d.%m.%Y"]}),
    )
    table = vectorize(path, schema, format=FileFormat(sheet="people"))
    assert table.counts("name").tolist() == [2, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0]
    assert table.counts("n").tolist() == [1, 1, 1, 1, 1]
    assert table.counts("pay").tolist() == [2, 1, 1, 1]
    assert table.counts("day").tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    with refuses(DataError, "name"):
        vectorize(path, schema)
    with refuses(DataError, "sheet"):
        vectorize(path, schema, format=FileFormat(sheet="absent"))


def test_a_sheet_counts_as_its_csv(tmp_path: Path) -> None:
    rng = random.Random(7)
    rows = [(rng.choice(NAMES[:-1]), rng.randrange(4)) for _ in range(12_000)]
    expected = written(rows, tmp_path / "t.csv", ",", '"', "utf-8")
    path = sheet(tmp_path / "t.xlsx", [["n", "name"], *([n, name] for name, n in rows)])
    for source, format in ((path, FileFormat(sheet="people")), (tmp_path / "t.csv", FileFormat())):
        assert vectorize(source, SCHEMA, format=format).counts("name", "n").tolist() == expected


# The lines of [data] below.
KEPT = 'separator = ";"\nencoding = "cp1252"\nclean = { trim = true, decimal = ",", thousands = "." }\n'
SPEC = """
[schema]
name = { categories = ["a", "é"], other = "none" }
pay = { bins = [0, 1000, 50000] }

[data]
separator = ";"
encoding = "cp1252"
clean = { trim = true, decimal = ",", thousands = "." }

[privacy]
epsilon = 1e6
delta = 1e-6

[[query]]
kind = "marginal"
attributes = ["name", "pay"]
"""


def test_a_specification_says_how_files_are_written(tmp_path: Path) -> None:
    spec = parse_spec(SPEC)
    assert spec.format == FileFormat(separator=";", encoding="cp1252")
    assert spec.schema["pay"].clean == Cleaning(trim=True, decimal=",", thousands=".")
    again = parse_spec(spec.to_toml())
    assert (again.format, again.schema) == (spec.format, spec.schema)
    rows = "name; pay\na ; 48.000,5\né; 999,9\n x;3\n"
    (tmp_path / "t.csv").write_text(rows.replace("; pay", ";pay"), encoding="cp1252")
    found = vectorize(tmp_path / "t.csv", spec.schema, format=spec.format).counts("name", "pay")
    assert found.tolist() == [[0, 1], [1, 0], [1, 0]]
    jsonschema = extra("jsonschema")
    jsonschema.validate(tomllib.loads(SPEC), json_schema())
    for wrong in ('separator = ";;"', "colour = 1", "clean = { trims = true }", "clean = { digits = 3 }"):
        with pytest.raises(SpecError):
            parse_spec(SPEC.replace("[data]\n", "[data]\n" + wrong + "\n").replace(KEPT, ""))


def test_init_and_measure_take_the_format_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("name;pay\na;1\n", encoding="cp1252")
    run = typer.testing.CliRunner()
    words = ["init", "t.csv", "--yes", "--separator", ";", "--encoding", "cp1252"]
    assert run.invoke(app, words).exit_code == 0
    text = Path("t.toml").read_text()
    assert '[data]\nseparator = ";"\nencoding = "cp1252"\n' in text and "name = " in text
    Path("s.toml").write_text(SPEC)
    assert run.invoke(app, ["design", "s.toml", "--out", "s.plan"]).exit_code == 0
    words = ["measure", "s.plan", "--data", "t.csv", "--separator", ";", "--out", "answers.csv"]
    assert run.invoke(app, words).exit_code == 0
    assert run.invoke(app, ["publish", "s.toml", "--data", "t.csv", "--out", "other.csv"]).exit_code == 0
