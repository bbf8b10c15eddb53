"""Tables in files whose bytes are written here: fields, JSON Lines, sheets of Excel, and SQLite."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import sqlite3
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from neighbours_cells import NO_TEXT, UNCLEAR, Either, Thing
from neighbours_values import ODD_TEXTS, TEXTS, Form


class Unwritable(Exception):
    """A source that cannot hold these values."""


@dataclass(frozen=True)
class Line:
    """A whole line of a file of text, which is a record or none."""

    stored: bytes
    is_record: bool | None = False


class Table(NamedTuple):
    """Records as raw values; in files of text a record may be a `Line`."""

    names: list[str]
    forms: list[Form]
    records: Sequence[tuple[Any, ...] | Line]

    def raws(self, k: int) -> list[Any]:
        return [record[k] for record in self.records if isinstance(record, tuple)]

    def columns(self) -> dict[str, Any]:
        """What each column is held as."""
        return {
            name: form.held(self.raws(k))
            for k, (name, form) in enumerate(zip(self.names, self.forms, strict=True))
        }


fresh = (f"t{i}" for i in itertools.count())
# What columns of any values usually hold.
PLAIN = [*TEXTS, 0, 1, 2, 2020, 2026, 18, 1.0, 2020.0, True]


# ------------------------------------------------------------------ files of text

FIELDS = Form("", "text", TEXTS, ODD_TEXTS, str)
GARBAGE = (
    Line(b"\xff\xfe"),
    Line(b"\xff\xfe\x00,a,\xff"),
    Line(b"a\xff\xc3,b,c,d,e"),
    Line(b"\x00"),
    Line(b"\xef\xbb\xbf"),
    Line(b"lone"),
)


def _quoted(text: str | None, separator: str, rng: random.Random) -> str:
    if text is None:
        return ""
    is_plain = text and not set(text) & {separator, '"', "\r", "\n"}
    return text if is_plain and rng.random() < 0.7 else '"' + text.replace('"', '""') + '"'


def csv(suffix: str, separator: str) -> Callable[[Table, Path, random.Random], Any]:
    def write(table: Table, folder: Path, rng: random.Random) -> Any:
        # A field that nobody asks for keeps a record of nulls from being an empty line.
        lines = [separator.join([*table.names, "rest"]).encode()]
        for record in table.records:
            if isinstance(record, Line):
                lines.append(record.stored)
            else:
                lines.append(separator.join(_quoted(raw, separator, rng) for raw in (*record, "x")).encode())
        end = rng.choice([b"\n", b"\r\n"])
        content = rng.choice([b"", b"\xef\xbb\xbf"]) + end.join([*lines, *rng.choice([[], [b""]])])
        path = folder / f"{next(fresh)}.{suffix}"
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith("gz") else content)
        return path

    return write


class Json(NamedTuple):
    """A value as it is written in JSON, and what it is."""

    text: str
    reading: Any

    def __repr__(self) -> str:
        return self.text


_JSON = [Json(json.dumps(value), value) for value in PLAIN]
_ODD_JSON = [
    *(Json(json.dumps(text, ensure_ascii=i % 2 == 0), text) for i, text in enumerate(ODD_TEXTS)),
    *(
        Json(text, float(text))
        for text in ("NaN", "Infinity", "-Infinity", "1e400", "2020.5", "1e300", "-0.0", "0.1")
    ),
    *(Json(text, int(text)) for text in ("9223372036854775808", "-0", "99", "20260315", "1" + "0" * 400)),
    *(Json("1" * 5000, UNCLEAR), Json("false", False), Json('"\\ud800"', None), Json('"a\\udcff"', None)),
    *(
        Json("[1, [2]]", Thing([1])),
        Json('{"a": 1}', Thing({"a": 1})),
        Json("null", None),
        Json("[" * 40 + "]" * 40, Thing([])),
    ),
]
JSON_LINES = (
    *(
        Line(b"\xff\xfe"),
        Line(b"\xff\xfe{\x00}\x00"),
        Line(b"\xef\xbb\xbf{}", None),
        Line(b"[1]"),
        Line(b"{"),
        Line(b"nul"),
    ),
    *(
        Line(b'{"v0": "a\xff"}'),
        Line(b"[" * 100_000),
        Line(b'{"v0": "a"} {"v0": "a"}'),
        Line(b'"a"'),
        Line(b"\xfe\xff\x00{"),
    ),
)


def json_lines(table: Table, folder: Path, rng: random.Random) -> Any:
    lines = []
    for record in table.records:
        if isinstance(record, Line):
            lines.append(record.stored)
            continue
        # What is null may be missing as well.
        pairs = [(n, "null" if raw is None else raw.text) for n, raw in zip(table.names, record, strict=True)]
        held = [f"{json.dumps(n)}: {text}" for n, text in pairs if text != "null" or rng.random() < 0.5]
        lines.append(("{" + ", ".join(held) + "}").encode())
    path = folder / f"{next(fresh)}.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" * rng.randint(0, 1))
    return path


JSON_FORM = Form("", "text", _JSON, _ODD_JSON, lambda raw: raw.reading)


# ------------------------------------------------------------------ spreadsheets and SQLite


class Cell(NamedTuple):
    """A cell of a sheet: its attributes and what is in it, as XML, and what it is."""

    attributes: str
    inside: str
    reading: Any

    def __repr__(self) -> str:
        return f"<c{self.attributes}>{self.inside[:40]}</c>"


def _text_cell(text: str) -> Cell:
    return Cell(' t="inlineStr"', f'<is><t xml:space="preserve">{escape(text)}</t></is>', text)


def _number_cell(text: str, reading: Any, more: str = "") -> Cell:
    return Cell(more, f"<v>{text}</v>", reading)


_NO_XML = set(map(chr, [*range(32), 0x2028, 0xFEFF])) | {"_"}
_CELLS = [
    *map(_text_cell, TEXTS),
    *(_number_cell(str(n), n) for n in (0, 1, 2, 2020, 2026)),
    _number_cell("2020.0", 2020),
]
_ODD_CELLS = [
    *(_text_cell(text) for text in ODD_TEXTS if text and text == text.strip() and not set(text) & _NO_XML),
    *(_number_cell("2020.5", 2020.5), _number_cell("1E300", 1e300), _number_cell("1e999", float("inf"))),
    # A cell that cannot be read is a null.
    *(_number_cell(text, None) for text in ("abc", "1.2.3", "1e", "0x10", "--1", "")),
    *(Cell(' t="s"', f"<v>{index}</v>", None) for index in ("99999", "-5", "x", "1.5")),
    *(
        Cell(' t="b"', "<v>1</v>", True),
        Cell(' t="b"', "<v>x</v>", Either()),
        Cell(' t="e"', "<v>#N/A</v>", Either()),
    ),
    # Styled as a date: beyond the calendar, before it, no number at all.
    *(
        _number_cell(text, UNCLEAR, ' s="1"')
        for text in ("46096", "99999999", "-1", "1e300", "nan", "inf", "2958466")
    ),
    *(
        Cell(' t="d"', f"<v>{text}</v>", UNCLEAR)
        for text in ("2026-03-15", "2026-02-30", "soon", "9999-99-99T99:99")
    ),
    *(_number_cell("nan", UNCLEAR), _number_cell("-inf", UNCLEAR), _number_cell("1" * 400, UNCLEAR)),
]
SHEET_FORM = Form("", "text", _CELLS, _ODD_CELLS, lambda raw: raw.reading)
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PARTS = {"workbook": "sheet.main", "worksheets/sheet1": "worksheet", "styles": "styles"}
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_OVERRIDES = "".join(
    f'<Override PartName="/xl/{part}.xml" ContentType="{_KIND}.{kind}+xml"/>' for part, kind in _PARTS.items()
)
_BOOK = {
    "[Content_Types].xml": f"""<Types xmlns="{_PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>{_OVERRIDES}</Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships">
<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">
<sheets><sheet name="people" sheetId="1" r:id="r1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships">
<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="r2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>""",
    # The second style is that of a date.
    "xl/styles.xml": f"""<styleSheet xmlns="{_MAIN}"><fonts><font/></fonts>
<fills><fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>
<cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>""",
}


def sheet(table: Table, folder: Path, rng: random.Random) -> Any:
    rows: list[Sequence[Any]] = [[_text_cell(name) for name in (*table.names, "rest")]]
    rows += [[*record, _text_cell("x")] for record in table.records if isinstance(record, tuple)]
    written = [
        f'<row r="{i}">'
        + "".join(
            f'<c r="{chr(65 + k)}{i}"{raw.attributes}>{raw.inside}</c>'
            for k, raw in enumerate(row)
            if raw is not None
        )
        + "</row>"
        for i, row in enumerate(rows, start=1)
    ]
    content = f'<worksheet xmlns="{_MAIN}"><sheetData>{"".join(written)}</sheetData></worksheet>'
    path = folder / f"{next(fresh)}.xlsx"
    with zipfile.ZipFile(path, "w") as book:
        for name, part in {**_BOOK, "xl/worksheets/sheet1.xml": content}.items():
            book.writestr(name, part)
    return path


class Stored(NamedTuple):
    """Bytes that SQLite holds as text."""

    value: bytes


_SQLITE = [
    *(ODD_TEXTS[:-1]),
    *(
        2**63 - 1,
        -(2**63),
        99,
        -1,
        20260315,
        2020.5,
        float("inf"),
        -0.0,
        1e300,
        5e-324,
        2.0**53,
        b"a",
        b"\xff",
    ),
    *(Stored(text) for text in (b"a\xff", b"\xed\xa0\x80", b"\xff\xfe")),
]
SQLITE_FORM = Form(
    *("", "text", PLAIN, _SQLITE),
    lambda raw: (
        NO_TEXT
        if isinstance(raw, Stored)
        else None
        if isinstance(raw, bytes)
        else int(raw)
        if raw is True
        else raw
    ),
)


def sqlite(table: Table, folder: Path, rng: random.Random) -> Any:
    path = folder / f"{next(fresh)}.sqlite"
    kinds = rng.choices(["", "BLOB"], k=len(table.names))
    with sqlite3.connect(path) as connection:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(table.names, kinds, strict=True))
        connection.execute(f"CREATE TABLE people ({columns})")
        for record in table.records:
            places = ", ".join("CAST(? AS TEXT)" if isinstance(raw, Stored) else "?" for raw in record)
            plain = [raw.value if isinstance(raw, Stored) else raw for raw in record]
            connection.execute(f"INSERT INTO people VALUES ({places})", plain)
    connection.close()
    return f"sqlite://{path}/people"
