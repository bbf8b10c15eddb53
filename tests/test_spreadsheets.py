"""A cell of a spreadsheet, whatever it holds, concerns its own record and stops nothing."""

from __future__ import annotations

import random
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise import Bins, Categories, Periods, Schema, vectorize
from leastnoise.data import spreadsheets
from support import extra

extra("openpyxl")

OTHER: dict[str, Any] = {"null": "other", "outside": "other", "other": "none"}
SCHEMA = Schema(
    name=Categories(["a", "b", "c"], **OTHER),
    n=Categories(["1", "2", "true"], **OTHER),
    pay=Bins([0, 10, 2_000], **OTHER),
    day=Periods("2026-01", "2026-02", **OTHER),
)
ROWS = [["a", 1, 1.5, date(2026, 1, 3)], ["b", True, 1200.5, date(2026, 2, 1)], ["c", 2, 4, date(2026, 1, 9)]]

# What may stand between <c …> and </c>.
CONTENTS = (
    *("", "<v></v>", "<v>x</v>", "<v>1</v>", "<v>-1</v>", "<v>999999</v>", "<v>7</v>", "<v>1e400</v>"),
    *("<v>-1e400</v>", "<v>nan</v>", "<v>inf</v>", "<v>1e5_0</v>", "<v> 2 </v>", "<v>٣</v>", "<v>²</v>"),
    *(
        f"<v>{'9' * 5000}</v>",
        "<v>2958466</v>",
        "<v>-693594</v>",
        "<v>60</v>",
        "<v>1e15</v>",
        "<v>0.99999999</v>",
    ),
    *("<v>2026-01-05</v>", "<v>2026-13-45T99:99:99</v>", "<v>25:61</v>", "<v>P9Y</v>", "<v><x>1</x></v>"),
    *("<v>1</v><v>2</v>", "<f>1/0</f>", "<f>A1</f><v>x</v>", "<v>#DIV/0!</v>", "<is/>", "<is><t/></is>"),
    *(
        "<is><t>a</t></is>",
        "<is><r><t>a</t></r><r/><zz/><rPh><t>c</t></rPh></is>",
        "<is><r><rPr><b/></rPr></r></is>",
    ),
    *(
        "<is><t>a</t><t>b</t><phoneticPr/></is>",
        "<!-- note --><v>1</v>",
        "<row r='9'><c r='A9'><v>1</v></c></row>",
    ),
    "<sheetData><row><c r='A1' t='inlineStr'><is><t>a</t></is></c></row></sheetData>",
)
KINDS = (None, "n", "s", "str", "inlineStr", "b", "e", "d", "zz", "")
STYLES = (None, "0", "1", "999999", "-1", "x", "")
PLACES = (None, "", "A1", "C5", "B2", "ZZZ1", "XFD1048576", "a1", "5", "C", "$A$1", "A0", "A-1", "é3")
NUMBERS = (None, "1", "2", "3", "0", "-5", "x", "", "1000000", "99999999999999999999", "1.5")


def sheet(folder: Path) -> Path:
    book = extra("openpyxl").Workbook()
    for row in (["name", "n", "pay", "day"], *ROWS):
        book.active.append(row)
    book.save(folder / "true.xlsx")
    return folder / "true.xlsx"


def altered(path: Path, change: Callable[[str, str], str], name: str) -> Path:
    """A copy of a workbook with every part changed."""
    with zipfile.ZipFile(path) as true, zipfile.ZipFile(path.with_name(name), "w") as made:
        for part in true.namelist():
            held = true.read(part)
            is_sheet = part.endswith(("sheet1.xml", "sharedStrings.xml"))
            made.writestr(part, change(part, held.decode()).encode() if is_sheet else held)
    return path.with_name(name)


def without(k: int) -> Callable[[str, str], str]:
    def change(part: str, text: str) -> str:
        found = [] if "shared" in part else re.findall("<row .*?</row>", text, re.DOTALL)[1:]
        return text.replace(found[k], "") if found else text

    return change


def odd_cell(rng: random.Random, k: int) -> Callable[[str, str], str]:
    """One cell of record k as nobody would write it, and now and then the number of its row or its string."""
    place, kind, style = rng.choice(PLACES), rng.choice(KINDS), rng.choice(STYLES)
    given = {"r": place, "s": style, "t": kind}
    marks = "".join(f' {name}="{value}"' for name, value in given.items() if value is not None)
    cell = f"<c{marks}>{rng.choice(CONTENTS)}</c>"
    number, at = rng.choice([*NUMBERS, *["same"] * 10]), rng.randrange(len(ROWS[0]))
    string = rng.choice(["same"] * 4 + ["<si/>", "<si><zz/></si>", "<si><r/><t>c</t><rPh>x</rPh></si>"])

    def change(part: str, text: str) -> str:
        if "shared" in part:
            # Strings 4 to 6 are those of the three records, behind the header.
            items = re.findall("<si>.*?</si>", text, re.DOTALL)
            return text if string == "same" else text.replace(items[4 + k], string)
        row = re.findall("<row .*?</row>", text, re.DOTALL)[1 + k]
        cells = re.findall("<c .*?</c>|<c [^>]*/>", row, re.DOTALL)
        changed = row.replace(cells[at], cell)
        if number != "same":
            own = "" if number is None else f'r="{number}" '
            changed = re.sub(r'^<row r="\d+" ', f"<row {own}", changed)
        return text.replace(row, changed)

    return change


def counted(path: Path) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return vectorize(path, SCHEMA).vector()


def wrong_cells(folder: Path, seed: int, n: int) -> list[str]:
    """Cells, of n drawn ones, that change more than what their own record counts, or that stop or warn."""
    rng = random.Random(seed)
    true = sheet(folder)
    rest = [counted(altered(true, without(k), f"without{k}.xlsx")) for k in range(len(ROWS))]
    assert all((counted(true) - one).sum() == 1 for one in rest)
    wrong = []
    for _ in range(n):
        k = rng.randrange(len(ROWS))
        path = altered(true, odd_cell(rng, k), "odd.xlsx")
        try:
            change = counted(path) - rest[k]
        except Exception as error:
            wrong.append(repr(error))
            continue
        if change.min() < 0 or change.sum() > 1:
            wrong.append(zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml").decode())
    return wrong


def test_an_odd_cell_concerns_its_record_alone(tmp_path: Path) -> None:
    assert wrong_cells(tmp_path, seed=1, n=150) == []


@pytest.mark.thorough
def test_many_odd_cells(tmp_path: Path) -> None:
    assert wrong_cells(tmp_path, seed=2, n=1_000) == []


def test_a_reader_that_believes_rows_and_cells_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: openpyxl's own rows."""

    def believing(path: str, name: str | None, places: Any, n_rows: int) -> Any:
        book = extra("openpyxl").load_workbook(path, read_only=True, data_only=True)
        header, *rows = book.worksheets[0].iter_rows(values_only=True)
        chosen = places([str(one) for one in header])
        yield [[row[place] for place in chosen] for row in rows if any(one is not None for one in row)]

    for name, module in list(sys.modules.items()):
        if name.startswith("leastnoise.data.") and hasattr(module, "sheet_rows"):
            monkeypatch.setattr(module, "sheet_rows", believing)
    assert len(wrong_cells(tmp_path, seed=1, n=60)) > 10


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ('<c t="n"><v>abc</v></c>', None),
        ('<c t="s"><v>7</v></c>', None),
        ('<c t="s"><v>-1</v></c>', None),
        ('<c t="s"><v>abc</v></c>', None),
        ('<c t="s"><v>0</v></c>', "first"),
        ('<c t="b"><v>7</v></c>', None),
        ('<c t="b"><v>1</v></c>', True),
        ('<c t="d"><v>soon</v></c>', None),
        ('<c t="zz"><v>1</v></c>', None),
        ('<c s="1"><v>1e15</v></c>', None),
        ('<c s="x"><v>1.0</v></c>', 1.0),
        ("<c><v>12</v></c>", 12),
        ('<c t="inlineStr"><is><r><t>a</t></r><zz/><rPh><t>c</t></rPh><r><t>b</t></r></is></c>', "ab"),
        ('<c t="inlineStr"/>', None),
        ('<c t="str"><v>text</v></c>', "text"),
        ('<c t="e"><v>#N/A</v></c>', "#N/A"),
    ],
)
def test_what_cannot_be_read_is_a_null(cell: str, value: object) -> None:
    from types import SimpleNamespace
    from xml.etree import ElementTree

    from openpyxl.utils.datetime import WINDOWS_EPOCH

    book = SimpleNamespace(epoch=WINDOWS_EPOCH, _date_formats={1}, _timedelta_formats=set())
    cells = spreadsheets._Cells(SimpleNamespace(parent=book, _shared_strings=["first"]))
    assert cells.value(ElementTree.fromstring(cell)) == value
