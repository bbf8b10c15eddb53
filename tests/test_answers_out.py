"""Answers as files and frames, read back by other programs."""

from __future__ import annotations

import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import InputError, MissingExtraError, TooLargeError, UnrecordedSpending
from leastnoise.release import Release, adjust
from leastnoise.report import write_answers
from leastnoise.report.answers import answers_writer
from support import extra, refuses

SUFFIXES = [".csv", ".parquet", ".json", ".xlsx"]
# What no file may take for anything but text, and what some readers stumble over.
TEXTS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "http://example.org",
    "00123",
    "1e5",
    "TRUE",
    "",
    "null",
    'a "quoted", label',
    "two\nlines",
    "tab\there",
    "</script><script>alert(1)</script>",
    "_x0041_",
    "Zürich 東京 😀",
    "'already",
]


def measured(plan: ln.Plan, counts: Any) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(plan, np.asarray(counts))


def released(labels: list[str] | None = None) -> Release:
    texts = TEXTS if labels is None else labels
    query = ln.Linear(np.eye(len(texts)), labels=texts, name="=rows()")
    return measured(
        ln.design(ln.assemble([query], ln.Schema(a=range(len(texts)))), ln.GDP(1)), range(len(texts))
    )


def needed(suffix: str) -> None:
    if suffix == ".xlsx":
        extra("xlsxwriter")
        extra("openpyxl")


def read_back(path: Path) -> list[dict[str, Any]]:
    """The rows of a file by a reader that knows nothing of its writer."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [{k: v if k in ("query", "label") else float(v) for k, v in row.items()} for row in rows]
    if path.suffix == ".parquet":
        import duckdb

        found = duckdb.read_parquet(str(path))
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))["answers"]
    sheet = extra("openpyxl").load_workbook(path)["answers"]
    head, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in rows]


def shown_in(suffix: str, text: str) -> str:
    """What a reader of the file finds: JSON gives every text back, spreadsheets have an apostrophe."""
    if suffix == ".json":
        return text
    shown = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"'{shown}" if suffix != ".parquet" and text[:1] in ("=", "+", "-", "@") else shown


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_hold_what_was_released(suffix: str, tmp_path: Path) -> None:
    needed(suffix)
    release = released()
    path = write_answers(release, tmp_path / f"answers{suffix}", level=0.9)
    rows = read_back(path)
    assert list(rows[0]) == ["query", "label", "answer", "stderr", "lower_90", "upper_90"]
    labels = [row["label"] for row in rows]
    # Excel has no empty text.
    assert [label or "" for label in labels] == [shown_in(suffix, text) for text in TEXTS]
    assert {row["query"] for row in rows} == {shown_in(suffix, "=rows()")}
    figures = np.array([[row[k] for k in list(row)[2:]] for row in rows], dtype=float)
    expected = np.column_stack([release.answers, release.stderr, *release.interval(0.9)])
    digits = 1e-14 if suffix in (".csv", ".xlsx") else 0.0
    assert figures == pytest.approx(expected, rel=digits, abs=digits)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_adjusted_answers_are_marked_in_files(suffix: str, tmp_path: Path) -> None:
    needed(suffix)
    release = adjust(released(), integer=True)
    path = write_answers(release, tmp_path / f"a{suffix}")
    rows = read_back(path)
    assert [row["unadjusted"] for row in rows] == pytest.approx(
        release.unadjusted.answers.tolist(), rel=1e-14
    )
    assert [row["answer"] for row in rows] == release.answers.tolist()
    said = release.adjusted.statement()
    if suffix == ".json":
        assert json.loads(path.read_text())["adjusted"] == said
    if suffix == ".parquet":
        import duckdb

        known = dict(duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{path}')").fetchall())
        assert known[b"adjusted"].decode() == said
    if suffix == ".xlsx":
        about = extra("openpyxl").load_workbook(path)["about"]
        assert dict(about.iter_rows(values_only=True))["adjusted"] == said


def test_excel_holds_text_and_no_formula(tmp_path: Path) -> None:
    needed(".xlsx")
    path = write_answers(released(), tmp_path / "a.xlsx")
    sheet = extra("openpyxl").load_workbook(path)["answers"]
    kinds = {cell.data_type for row in sheet.iter_rows(min_row=2, max_col=2) for cell in row}
    assert kinds <= {"s", "n"} and "f" not in kinds
    assert not sheet._hyperlinks
    # A writer that guesses would make a formula of the same text.
    xlsxwriter = extra("xlsxwriter")
    with xlsxwriter.Workbook(str(tmp_path / "twin.xlsx")) as book:
        book.add_worksheet("answers").write(0, 0, "=1+1")
    assert extra("openpyxl").load_workbook(tmp_path / "twin.xlsx")["answers"]["A1"].data_type == "f"


def test_long_texts_are_cut_for_excel(tmp_path: Path) -> None:
    needed(".xlsx")
    (row,) = read_back(write_answers(released(["x" * 40_000]), tmp_path / "a.xlsx"))
    assert len(row["label"]) == 32_767 and row["label"].endswith("…")


def test_json_cannot_end_a_script(tmp_path: Path) -> None:
    text = write_answers(released(), tmp_path / "a.json").read_text(encoding="ascii")
    assert "<" not in text and json.loads(text)["level"] == 0.95


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_outside_unicode_are_written_out(suffix: str, tmp_path: Path) -> None:
    needed(suffix)
    (row,) = read_back(write_answers(released(["x\udc80"]), tmp_path / f"a{suffix}"))
    assert row["label"] == "x\\udc80"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_path_with_a_quote_is_written(suffix: str, tmp_path: Path) -> None:
    needed(suffix)
    path = write_answers(released(["x"]), tmp_path / f"o'clock; --{suffix}")
    assert len(read_back(path)) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_write_leaves_the_old_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(suffix)
    path = tmp_path / f"a{suffix}"
    path.write_text("before")
    release = released()
    columns = release.columns()

    def cut_short(self: Release, **given: Any) -> dict[str, Any]:
        return columns | {"label": [*columns["label"][:-1], None]}

    monkeypatch.setattr(Release, "columns", cut_short)
    with pytest.raises((AttributeError, TypeError)):
        write_answers(release, path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)


def test_what_cannot_be_written_is_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt", "a", "a.xls", ".csv"):
        with refuses(InputError, "path"):
            answers_writer(name)
    for suffix in (".CSV", ".csv", ".parquet", ".json"):
        assert callable(answers_writer(f"a{suffix}", n_answers=10**9))
    without("xlsxwriter", monkeypatch)
    with refuses(MissingExtraError, "xlsxwriter", None, "pip install 'leastnoise"):
        answers_writer("a.xlsx")


def test_more_rows_than_excel_holds_are_refused_beforehand() -> None:
    extra("xlsxwriter")
    assert callable(answers_writer("a.xlsx", n_answers=2**20 - 1))
    with refuses(TooLargeError, "path", 1048576):
        answers_writer("a.xlsx", n_answers=2**20)


# ------------------------------------------------------------------------------------ frames


@pytest.mark.thorough
def test_frames_of_three_kinds_agree() -> None:
    polars, _ = extra("polars"), extra("pyarrow")
    release = released()
    pandas_frame, polars_frame, table = release.to_frame(), release.to_polars(), release.to_arrow()
    assert isinstance(polars_frame, polars.DataFrame)
    assert list(pandas_frame) == polars_frame.columns == table.column_names
    for name in pandas_frame:
        assert pandas_frame[name].tolist() == polars_frame[name].to_list() == table[name].to_pylist()
    assert table.schema.metadata is None
    adjusted = adjust(release)
    assert adjusted.to_arrow().schema.metadata[b"adjusted"].decode() == adjusted.adjusted.statement()
    assert "unadjusted" in adjusted.to_polars().columns


def test_frames_take_a_level() -> None:
    extra("polars")
    release = released()
    lower, upper = release.interval(0.5, simultaneous=True)
    frame = release.to_polars(level=0.5, simultaneous=True)
    assert frame["lower"].to_list() == lower.tolist() and frame["upper"].to_list() == upper.tolist()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    without("polars", monkeypatch)
    with pytest.raises(MissingExtraError, match=r"pip install 'leastnoise\[polars\]'"):
        release.to_polars()


def test_nothing_true_is_written(tmp_path: Path) -> None:
    """A count that no noise reaches by chance is in no file."""
    plan = ln.design(ln.assemble([ln.Marginal("a")], ln.Schema(a=range(2))), ln.GDP(1e-6))
    release = measured(plan, [987654321, 123456789])
    # The standard error is a million, so that no noise at all has a chance of one in two million.
    assert not set(release.answers.tolist()) & {987654321.0, 123456789.0}
    for suffix in SUFFIXES[:3]:
        data = write_answers(release, tmp_path / f"a{suffix}").read_bytes()
        assert b"987654321" not in data and b"123456789" not in data
