"""Answers and quantiles as a file for a spreadsheet, a database or another program, chosen by its suffix.

    .csv       opens in a spreadsheet without running anything
    .parquet   typed columns
    .json      one object, with what has to be known about the answers
    .xlsx      Excel; needs the extra "excel"

A label may be any text that the schema declares, such as ``=cmd()``. No file holds a control character of it:
each is written out, as ``\\x1b``, or in JSON as an escape, which a reader of the file turns back. In CSV
and Excel a text that some spreadsheet would take for a formula gets an apostrophe before it; a value of an
attribute that is a plain number, as -5, stays as it is. In Excel texts go into cells of text, never of
formulas or links. Files are written whole or not at all.

A column is a list of texts, `Texts` where few different ones repeat, or an array of numbers.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError, TooLargeError
from leastnoise.core.extras import require
from leastnoise.core.printable import no_formula, without_controls
from leastnoise.core.whole_file import written_whole
from leastnoise.privacy import Goal
from leastnoise.release import Release, Texts, answer_table, distinct_names, in_unicode, interval_columns
from leastnoise.report.publication import Publication

# Rows of a sheet of Excel, the heading included.
_EXCEL_ROWS = 2**20

# Characters of a cell of Excel.
_EXCEL_TEXT = 32_767

# What is a number in every spreadsheet, and no formula.
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)

Columns = Mapping[str, Any]
Facts = Mapping[str, Any]
# Where to, the columns, what has to be known about them, and what they are.
Writer = Callable[[Path, Columns, Facts, str], None]


def write_answers(
    release: Release, path: str | Path, *, level: float = 0.95, publication: Publication | None = None
) -> Path:
    """Write one row per count: batch, label, attributes, answer, standard error, interval; returns the path.

    The suffix sets the format: .csv, .parquet, .json or .xlsx. A file of that name is replaced once the new
    one is complete. Standard error and interval are left out where the plan depends on the data. An adjusted
    release has one more column, "unadjusted", which standard errors and intervals refer to.

    After the label comes a column for every attribute that the queries mention, in schema order, and for
    every condition or group under the heading that ``release["name"]`` gives it: the value that the row
    counts, empty where it sums over all values. If its name is taken by another column, ``attribute_`` comes
    in front.

    The number of records in no cell comes with the answers: in a CSV file as the last rows, whose query is
    "not counted", elsewhere among the facts about the answers.

    Means, shares and ratios follow the counts, with a standard error to first order; a last column, "note",
    says which of them are not determined. A presented release is written as it is shown.

    The publisher's statements come with the answers in every format but CSV, which has no place for them.

    Args:
        release: the release whose answers are written.
        path: the file to write, which ends in .csv, .parquet, .json or .xlsx.
        level: the confidence of the intervals, between 0 and 1.
        publication: what the publisher says about it; None for nothing.

    Raises:
        InputError: if the suffix is none of these.
        MissingExtraError: if the package that writes the format is not installed.
        TooLargeError: if there are more rows than an Excel sheet holds.
    """
    target = Path(path)
    workload = release.plan.workload
    n_ratios = sum(len(ratio.labels) for ratio in workload.ratios)
    # Refuses what cannot be written before the columns are computed.
    answers_writer(target, n_answers=workload.shape[0] + n_ratios)
    columns = file_columns(release, level)
    return write_columns(release, target, columns, level=level, publication=publication)


def file_columns(release: Release, level: float) -> dict[str, Any]:
    """The columns of a file of answers, with the ends of intervals still called lower and upper."""
    return answer_table(release, level=level, taken=interval_columns(level).values())


def write_columns(
    release: Release,
    target: Path,
    columns: Mapping[str, Any],
    *,
    level: float,
    publication: Publication | None,
) -> Path:
    """Write what `file_columns` gave for a release, as `write_answers` does."""
    write = answers_writer(target)
    renamed = interval_columns(level)
    facts = {
        "privacy": str(release.plan.privacy),
        "level": level,
        "adjusted": None if release.adjusted is None else release.adjusted.statement(),
        "not_counted": not_counted_facts(release, level),
        "warnings": list(release.warnings),
    }
    if release.price is not None:
        facts["paid"] = f"{release.price}. {release.price.covers}"
    if release.presented is not None:
        facts["presented"] = release.presented.statement()
    if publication is not None:
        facts |= {name: _in_unicode(text) for name, text in publication.to_dict().items()}
    with written_whole(target) as temporary:
        named = {renamed.get(name, name): values for name, values in columns.items()}
        write(temporary, named, facts, "answers")
    return target


def not_counted_facts(release: Release, level: float) -> list[dict[str, Any]] | None:
    """How many records are in no cell, a row each as a file of answers has them; None if not measured."""
    found = release.not_counted
    if found is None:
        return None
    numbers = {"records that matched no declared value": found.total} | {
        f"records without a declared value of {name}": number for name, number in found.by_attribute.items()
    }
    rows = []
    for label, number in numbers.items():
        lower, upper = number.interval(level)
        ends = dict(zip(interval_columns(level).values(), (lower, upper), strict=True))
        row = {"query": "not counted", "label": label, "answer": number.estimate, "stderr": number.stderr}
        rows.append(row | ends)
    return rows


def write_quantiles(
    release: Release,
    path: str | Path,
    attribute: str,
    levels: Sequence[float],
    *,
    level: float = 0.95,
    by: str | None = None,
) -> Path:
    """Write what ``release.quantiles`` gives as .csv, .parquet, .json or .xlsx; returns the path.

    The columns are attribute, share, group, quantile, from, to, lower and upper, whatever was asked: without
    `by` no row has a group, and a quantile of whole numbers is from and to itself. An end that is open is
    "inf" in CSV and Parquet, and empty in JSON and Excel.

    Raises:
        InputError: if the suffix is none of these.
        MissingExtraError: if what writes it is not installed.
        QueryError: if the attribute has no order, or the plan does not determine its distribution.
        MethodError: where the plan depends on the data, so that errors are not known.
    """
    target = Path(path)
    answers_writer(target)  # refuses a suffix that cannot be written before quantiles are computed
    table = release.quantiles(attribute, levels, level=level, by=by)
    return write_quantile_table(table, target, attribute, release.plan.privacy, level=level, by=by)


def write_quantile_table(
    table: Any, path: str | Path, attribute: str, privacy: Goal, *, level: float, by: str | None
) -> Path:
    """Write a table that ``release.quantiles`` gave for an attribute, as `write_quantiles` does."""
    target = Path(path)
    write = answers_writer(target)
    # By place: the groups may be called as the shares are, or as a column.
    shares = table.index if by is None else table.index.get_level_values(1)
    groups = None if by is None else table.index.get_level_values(0)
    found = table.reset_index(drop=True)
    numbers = {name: np.array(found[name], dtype=float) for name in ("lower", "upper")}
    is_binned = "from" in found
    columns: dict[str, Any] = {
        "attribute": [attribute] * len(found),
        "share": np.array(shares, dtype=float),
        "group": Texts((), np.full(len(found), -1)) if groups is None else [str(group) for group in groups],
        "quantile": list(found["quantile"]) if is_binned else np.array(found["quantile"], dtype=float),
        "from": np.array(found["from" if is_binned else "quantile"], dtype=float),
        "to": np.array(found["to" if is_binned else "quantile"], dtype=float),
        **numbers,
    }
    facts = {"privacy": str(privacy), "level": level, "by": by}
    with written_whole(target) as temporary:
        write(temporary, columns, facts, "quantiles")
    return target


def answers_writer(path: str | Path, *, n_answers: int | None = None) -> Writer:
    """The function that writes answers to a file of that name; call this before anything is measured.

    Args:
        n_answers: how many there will be, where that is known.

    Raises:
        InputError: if the suffix is none that answers are written as.
        MissingExtraError: if what writes it is not installed.
        TooLargeError: if there are more answers than the file can hold.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InputError.must(
            "path", f"end in {', '.join(_WRITERS)}", given=str(path), remedy="CSV opens in every spreadsheet"
        )
    if suffix == ".xlsx":
        _imported_excel()
        if n_answers is not None and n_answers >= _EXCEL_ROWS:
            raise TooLargeError(
                f"a sheet of Excel holds {_EXCEL_ROWS - 1:,} answers, there are {n_answers:,}",
                field="path",
                given=n_answers,
                remedy="write .parquet or .csv instead",
            )
    return _WRITERS[suffix]


def _write_csv(path: Path, columns: Columns, facts: Facts, what: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(distinct_names(map(_cell, columns)))
        writer.writerows(zip(*(_in_csv(values) for values in columns.values()), strict=True))
        # A CSV file has no other place for what has to be known beside the answers.
        for row in facts.get("not_counted") or ():
            texts = {name: _cell(v) if isinstance(v, str) else f"{v:.15g}" for name, v in row.items()}
            writer.writerow([texts.get(name, "") for name in columns])


def _in_csv(values: Any) -> Iterator[str | None]:
    if isinstance(values, Texts):
        return values.changed(_number_or_cell).or_else("")
    if isinstance(values, list):
        return map(_cell, values)
    # Fifteen digits are what a spreadsheet keeps; ten would round 2^40 people to hundreds.
    return ("" if math.isnan(value) else f"{value:.15g}" for value in values)


def _cell(text: str) -> str:
    """A text as a cell of a spreadsheet."""
    return _in_unicode(no_formula(text))


def _number_or_cell(text: str) -> str:
    return text if _PLAIN_NUMBER.fullmatch(text) else _cell(text)


def _write_parquet(path: Path, columns: Columns, facts: Facts, what: str) -> None:
    import duckdb
    import pandas as pd

    # Numbered, as names of attributes may be any text; they get their names in the query.
    held = {str(i): _in_pandas(values, pd) for i, values in enumerate(columns.values())}
    names = distinct_names(map(_written_out, columns))
    # Categories would come out as a type of their own.
    chosen = ", ".join(
        f'"{i}"{"::VARCHAR" if isinstance(values, Texts) else ""} AS {_named(name)}'
        for i, (name, values) in enumerate(zip(names, columns.values(), strict=True))
    )
    known = ", ".join(
        f"{_quoted(key)}: {_quoted(_written_out(_fact_text(value)))}" for key, value in facts.items() if value
    )
    with duckdb.connect() as engine:
        engine.register("answers", pd.DataFrame(held))
        engine.execute(
            f"COPY (SELECT {chosen} FROM answers) TO {_quoted(str(path))} "  # noqa: S608 - quoted, no values of people
            f"(FORMAT PARQUET, KV_METADATA {{{known}}})"
        )


def _fact_text(value: Any) -> str:
    """A fact as a text; rows as JSON, which programs read."""
    return _plain_json(value) if isinstance(value, list) else str(value)


def _in_pandas(values: Any, pd: Any) -> Any:
    if isinstance(values, Texts):
        # Two texts may be written out alike, and categories must differ.
        texts = [_written_out(text) for text in values.known]
        if len(set(texts)) < len(texts) or not texts:
            return pd.Series(list(values.changed(_written_out).or_else(None)), dtype=object)
        return pd.Series(pd.Categorical.from_codes(values.codes, texts))
    if isinstance(values, list):
        return pd.Series([_written_out(text) for text in values], dtype=object)
    return pd.Series(values, dtype=float)


def _written_out(text: str) -> str:
    return _in_unicode(without_controls(text))


def _in_unicode(text: str) -> str:
    (shown,) = in_unicode({"label": [text]})["label"]
    return str(shown)


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _write_json(path: Path, columns: Columns, facts: Facts, what: str) -> None:
    names = distinct_names(map(_in_unicode, columns))
    values = [_plain(held, _in_unicode, _in_unicode) for held in columns.values()]
    with path.open("w", encoding="ascii") as file:
        head = _plain_json(facts)
        file.write(f'{head[:-1]}, "{what}": [')
        for number, row in enumerate(zip(*values, strict=True)):
            file.write(",\n" if number else "\n")
            file.write(_plain_json(dict(zip(names, row, strict=True))))
        file.write("\n]}\n")


def _plain_json(value: Any) -> str:
    # ASCII alone, with every other character escaped; and of a label that is "</script>" no part may end a
    # script that holds the file.
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _plain(
    values: Any, attribute: Callable[[str], str], label: Callable[[str], str]
) -> Iterator[str | float | None]:
    """Texts as each function writes them, numbers, and None where there is none or it is beyond all."""
    if isinstance(values, Texts):
        return values.changed(attribute).or_else(None)
    if isinstance(values, list):
        return map(label, values)
    return (float(value) if math.isfinite(value) else None for value in values)


def _write_excel(path: Path, columns: Columns, facts: Facts, what: str) -> None:
    xlsxwriter = _imported_excel()
    # Nothing in other files, and nothing in the text that is taken for a formula, a link or a number.
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    with xlsxwriter.Workbook(str(path), options) as book:
        sheet = book.add_worksheet(what)
        about = book.add_worksheet("about")
        for j, name in enumerate(distinct_names(map(_cell, columns))):
            sheet.write_string(0, j, _cut(name))
        values = [_plain(held, _number_or_cell, _cell) for held in columns.values()]
        for i, row in enumerate(zip(*values, strict=True), start=1):
            for j, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(i, j, _cut(value))
                elif value is not None:
                    sheet.write_number(i, j, value)
        for i, (name, value) in enumerate(facts.items()):
            about.write_string(i, 0, name)
            about.write_string(i, 1, _cut("no" if value in (None, []) else _cell(_fact_text(value))))


def _cut(text: str) -> str:
    """A text that a cell holds; Excel drops longer ones altogether."""
    return text if len(text) <= _EXCEL_TEXT else f"{text[: _EXCEL_TEXT - 1]}…"


def _imported_excel() -> Any:
    return require("xlsxwriter", extra="excel", why="writing an Excel file")


_WRITERS: dict[str, Writer] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".json": _write_json,
    ".xlsx": _write_excel,
}
