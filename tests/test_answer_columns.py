"""A column for every attribute: against labels, in every format, and names that would collide."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.query import Workload
from leastnoise.release.attribute_columns import attribute_columns
from leastnoise.report import write_answers
from support import extra

SCHEMA = ln.Schema(age=range(4), sex=("F", "M"), region=("n", "s", "e"))
QUERIES = [
    ln.Total(name="all"),
    ln.Marginal("region", "age"),
    ln.Cube("age", "sex", "region", order=2, name="cube"),
    ln.Where("age >= 2") * ln.Marginal("sex"),
    ln.Prefix("age") * ln.Cases({"north": "region == 'n'", "rest": "region != 'n'"}, heading="side"),
    ln.AllRanges("age", name="ranges"),
    ln.Where("age >= 2 or sex == 'F'", name="tied"),
    ln.Linear(np.eye(24)[:2], labels=["first", "second"], name="rows"),
]


def texts(workload: Workload, *taken: str) -> dict[str, list[str | None]]:
    return {name: list(column.or_else(None)) for name, column in attribute_columns(workload, taken).items()}


def told(row: dict[str, str | None]) -> str:
    """The label that a row of columns stands for: attributes by name, conditions by themselves."""
    return ", ".join(
        text if name.startswith("where ") else f"{name} {text}"
        for name, text in row.items()
        if text is not None
    )


def test_columns_say_what_labels_say() -> None:
    workload = ln.assemble(QUERIES, SCHEMA)
    columns = texts(workload)
    assert list(columns) == ["age", "where age", "where age and sex", "sex", "region", "side"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert len(rows) == workload.shape[0]
    for row, label in zip(rows, workload.labels, strict=True):
        assert told(row) == ("" if label in ("all", "cube", "first", "second") else label)
    # Told of another order, it would be noticed: the first attribute of a row is the slowest.
    assert columns["age"][1:4] == ["0", "0", "0"] and columns["region"][1:4] == ["n", "s", "e"]


def test_columns_are_those_of_a_frame_of_one_query() -> None:
    workload = ln.assemble([ln.Marginal("sex", "age", name="t")], SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        release = ln.measure(ln.design(workload, ln.GDP(1)), np.arange(24))
    frame = release["t"].reset_index()
    assert texts(workload) == {name: frame[name].tolist() for name in ("age", "sex")}


def test_names_that_are_taken_are_kept_apart() -> None:
    schema = ln.Schema(
        answer=("x", "y"), Label=("a", "b"), attribute_answer=("p", "q"), AGE=range(2), age=range(2)
    )
    asked = ln.assemble([ln.Marginal(*schema.names)], schema)
    names = list(attribute_columns(asked, ["query", "label", "answer"]))
    assert names == [
        "attribute_answer",
        "attribute_Label",
        "attribute_attribute_answer",
        "AGE",
        "attribute_age",
    ]
    assert len({name.casefold() for name in names}) == len(names)


def test_a_matrix_without_a_schema_has_no_attributes() -> None:
    assert attribute_columns(Workload.from_matrix(np.eye(3)), []) == {}


VALUES = ("=cmd()", "-5", "+3.5", "-5 a", "", "x\udc80")


@pytest.fixture(scope="module")
def release() -> ln.Release:
    schema = ln.Schema(**{"=run()": VALUES, "stderr": ("s", "t")})
    asked = ln.assemble([ln.Marginal("=run()", "stderr"), ln.Total(name="all")], schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(ln.design(asked, ln.GDP(1)), np.arange(12))


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".json":
        return list(json.loads(path.read_text())["answers"])
    if path.suffix == ".parquet":
        import duckdb

        found = duckdb.read_parquet(str(path))
        assert [str(kind) for kind in found.types[:4]] == ["VARCHAR"] * 4
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    head, *rows = extra("openpyxl").load_workbook(path)["answers"].iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".xlsx"])
def test_every_format_has_the_columns(suffix: str, release: ln.Release, tmp_path: Path) -> None:
    if suffix == ".xlsx":
        extra("xlsxwriter")
        extra("openpyxl")
    rows = rows_of(write_answers(release, tmp_path / f"a{suffix}"))
    is_spreadsheet = suffix in (".csv", ".xlsx")
    first = "'=run()" if is_spreadsheet else "=run()"
    assert list(rows[0])[:5] == ["query", "label", first, "attribute_stderr", "answer"]
    shown = ["=cmd()", "-5", "+3.5", "-5 a", "", "x\\udc80"]
    if is_spreadsheet:
        # Numbers stay numbers; what a spreadsheet would run does not.
        shown = ["'=cmd()", "-5", "+3.5", "'-5 a", "", "x\\udc80"]
    none = "" if suffix == ".csv" else None
    expected = [text for text in shown for _ in range(2)]
    # Excel has no empty text.
    own = [row[first] if row[first] is not None else "" for row in rows[:-1]]
    assert own == expected
    assert [row["attribute_stderr"] for row in rows] == ["s", "t"] * 6 + [none]
    assert rows[-1][first] == none
    assert [float(row["answer"]) for row in rows] == pytest.approx(release.answers.tolist(), rel=1e-14)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".xlsx"])
def test_columns_that_are_written_out_alike_stay_apart(suffix: str, tmp_path: Path) -> None:
    """Of two columns that JSON wrote out alike the first was lost."""
    if suffix == ".xlsx":
        extra("xlsxwriter")
        extra("openpyxl")
    names = ("a\udc80", "a\\udc80", "b\n", "b\\n")
    schema = ln.Schema(dict.fromkeys(names, ("u", "v")))
    asked = ln.assemble([ln.Marginal(name) for name in names], schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        release = ln.measure(ln.design(asked, ln.GDP(1)), np.arange(16))
    rows = rows_of(write_answers(release, tmp_path / f"a{suffix}"))
    found = list(rows[0])[2:-4]
    assert len(found) == 4 and found[0] == "a\\udc80" and found[1] == "attribute_a\\udc80"
    for number, name in enumerate(found):
        assert [row[name] or "" for row in rows] == [""] * 2 * number + ["u", "v"] + [""] * 2 * (3 - number)


def test_values_that_are_written_out_alike_stay_apart(tmp_path: Path) -> None:
    schema = ln.Schema(a=("x\udc80", "x\\udc80"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        plan = ln.design(ln.assemble([ln.Marginal("a")], schema), ln.GDP(1))
        release = ln.measure(plan, np.array([1, 2]))
    rows = rows_of_one(write_answers(release, tmp_path / "a.parquet"))
    assert rows == ["x\\udc80", "x\\udc80"]


def rows_of_one(path: Path) -> list[str]:
    import duckdb

    return [row[0] for row in duckdb.read_parquet(str(path)).project("a").fetchall()]
