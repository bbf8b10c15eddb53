"""Answers as a file for a spreadsheet, a database or another program, chosen by its suffix.

    .csv       opens in a spreadsheet without running anything
    .parquet   typed columns
    .json      one object, with what has to be known about the answers
    .xlsx      Excel; needs the extra "excel"

A label may be any text that the schema declares, such as ``=cmd()``. In CSV a text that some spreadsheet
would take for a formula gets an apostrophe before it; the other formats hold text as text, and it stays as it
is. In Excel it goes into cells of text, never of formulas or links. Files are written whole or not at all.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from leastnoise.errors import InputError, MissingExtraError, TooLargeError
from leastnoise.printable import no_formula
from leastnoise.release import Release, in_unicode
from leastnoise.wholefile import written_whole

# What a sheet of Excel holds: rows, the heading included, and characters of a cell.
_EXCEL_ROWS, _EXCEL_TEXT = 2**20, 32_767

# Columns of text; all others are numbers.
_TEXTS = ("query", "label")

Columns = Mapping[str, Any]
Facts = Mapping[str, Any]


def write_answers(release: Release, path: str | Path, *, level: float = 0.95) -> Path:
    """Write one row per count: batch, label, answer, standard error and interval; returns the path.

    The suffix says how: .csv, .parquet, .json or .xlsx. All or nothing: a file of that name is replaced once
    the new one is complete. The last two are left out where the plan depends on the data. An adjusted release
    has a column more, "unadjusted", which standard errors and intervals are about.

    Raises:
        InputError: if the suffix is none of these.
        MissingExtraError: if what writes it is not installed.
        TooLargeError: if Excel cannot hold so many rows.
    """
    target = Path(path)
    write = answers_writer(target, n_answers=release.plan.workload.shape[0])
    columns = release.columns(level=level)
    renamed = {"lower": f"lower_{level:g}", "upper": f"upper_{level:g}"}
    facts = {
        "privacy": str(release.plan.privacy),
        "level": level,
        "adjusted": None if release.adjusted is None else release.adjusted.statement(),
    }
    with written_whole(target) as temporary:
        write(temporary, {renamed.get(name, name): values for name, values in columns.items()}, facts)
    return target


def answers_writer(
    path: str | Path, *, n_answers: int | None = None
) -> Callable[[Path, Columns, Facts], None]:
    """What writes answers to a file of that name; to be asked for before anything is measured.

    Args:
        n_answers: how many there will be, where that is known.

    Raises:
        InputError: if the suffix is none that answers are written as.
        MissingExtraError: if what writes it is not installed.
        TooLargeError: if the file could not hold so many.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(
            f"answers are written to files that end in {', '.join(_WRITERS)}, got {str(path)!r}; CSV opens "
            "in every spreadsheet"
        )
    if suffix == ".xlsx":
        _imported_excel()
        if n_answers is not None and n_answers >= _EXCEL_ROWS:
            raise TooLargeError(
                f"a sheet of Excel holds {_EXCEL_ROWS - 1:,} answers, there are {n_answers:,}; write "
                ".parquet or .csv instead"
            )
    return _WRITERS[suffix]


def _write_csv(path: Path, columns: Columns, facts: Facts) -> None:
    # A label may hold what UTF-8 cannot; it is written out as \udc80.
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for name, label, *figures in zip(*columns.values(), strict=True):
            # Fifteen digits are what a spreadsheet keeps; ten would round 2^40 people to hundreds.
            writer.writerow([no_formula(name), no_formula(label), *(f"{value:.15g}" for value in figures)])


def _write_parquet(path: Path, columns: Columns, facts: Facts) -> None:
    import duckdb
    import pandas as pd

    held = {
        name: pd.Series(values, dtype=object if name in _TEXTS else float)
        for name, values in in_unicode(columns).items()
    }
    known = ", ".join(f"{_quoted(key)}: {_quoted(str(value))}" for key, value in facts.items() if value)
    with duckdb.connect() as engine:
        engine.register("answers", pd.DataFrame(held))
        engine.execute(
            f"COPY (SELECT * FROM answers) TO {_quoted(str(path))} "  # noqa: S608 - quoted, no values of people
            f"(FORMAT PARQUET, KV_METADATA {{{known}}})"
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _write_json(path: Path, columns: Columns, facts: Facts) -> None:
    with path.open("w", encoding="ascii") as file:
        head = _plain_json(facts)
        file.write(f'{head[:-1]}, "answers": [')
        for number, row in enumerate(_rows(columns)):
            file.write(",\n" if number else "\n")
            file.write(_plain_json(row))
        file.write("\n]}\n")


def _plain_json(value: Any) -> str:
    # Of a label that is "</script>" no part may end a script that holds the file.
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _rows(columns: Columns) -> Iterator[dict[str, Any]]:
    held = in_unicode(columns)
    for row in zip(*held.values(), strict=True):
        yield {name: value if name in _TEXTS else float(value) for name, value in zip(held, row, strict=True)}


def _write_excel(path: Path, columns: Columns, facts: Facts) -> None:
    xlsxwriter = _imported_excel()
    # Nothing in other files, and nothing in the text that is taken for a formula, a link or a number.
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    with xlsxwriter.Workbook(str(path), options) as book:
        sheet = book.add_worksheet("answers")
        about = book.add_worksheet("about")
        for j, name in enumerate(columns):
            sheet.write_string(0, j, name)
        for i, row in enumerate(_rows(columns), start=1):
            for j, value in enumerate(row.values()):
                if isinstance(value, str):
                    sheet.write_string(i, j, _cut(value))
                else:
                    sheet.write_number(i, j, value)
        for i, (name, value) in enumerate(facts.items()):
            about.write_string(i, 0, name)
            about.write_string(i, 1, _cut("no" if value is None else str(value)))


def _cut(text: str) -> str:
    """A text that a cell holds; Excel drops longer ones altogether."""
    return text if len(text) <= _EXCEL_TEXT else f"{text[: _EXCEL_TEXT - 1]}…"


def _imported_excel() -> Any:
    try:
        import xlsxwriter
    except ImportError:
        raise MissingExtraError("an Excel file needs XlsxWriter: pip install 'leastnoise[excel]'") from None
    return xlsxwriter


_WRITERS: dict[str, Callable[[Path, Columns, Facts], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".json": _write_json,
    ".xlsx": _write_excel,
}
