"""Records of CSV files, held against a loop over bytes; and one hostile record, which moves no other."""

from __future__ import annotations

import csv
import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pyarrow
import pytest

from leastnoise import Categories, Integers, Schema, vectorize
from leastnoise.core.errors import DataError
from leastnoise.data import DroppedRecords, TextFile, csv_blocks, csv_records
from leastnoise.data.csv_records import CsvReader
from support import extra, refuses

Row = list[bytes | None]

# ------------------------------------------------------------------ the rules, one byte at a time


def records_by_loop(data: bytes, longest: int) -> tuple[list[Row], DroppedRecords]:
    """The fields of every record, the header's first, and what is dropped of the others."""
    data = data if data.endswith(b"\n") or not data else data + b"\n"
    rows: list[Row] = []
    dropped = DroppedRecords()
    i = 0
    while i < len(data):
        start, fields = i, []
        state = "field"
        text = bytearray()
        while state not in ("ended", "unclosed"):
            byte = data[i : i + 1]
            if state == "field" and byte == b'"':
                state, i = "quoted", i + 1
            elif state == "field":
                state = "plain"
            elif state == "plain" and byte in (b",", b"\n"):
                if byte == b"\n" and text.endswith(b"\r"):
                    del text[-1]
                fields.append(bytes(text) or None)
                text.clear()
                state, i = ("ended" if byte == b"\n" else "field"), i + 1
            elif state == "plain" or (state == "quoted" and byte not in (b'"', b"")):
                text += byte
                i += 1
            elif data[i : i + 2] == b'""':
                text += b'"'
                i += 2
            else:
                after = data[i + 1 : i + 3]
                fields.append(bytes(text))
                text.clear()
                i += 2 + (after == b"\r\n")
                is_line_end = after[:1] == b"\n" or after == b"\r\n"
                state = "ended" if is_line_end else "field" if after[:1] == b"," else "unclosed"
        if state == "unclosed":
            assert rows or start, "the header closes its quotes"
            dropped.unclosed += 1
            i = data.index(b"\n", start) + 1
            continue
        record = data[start : i - 1].removesuffix(b"\r")
        if len(record) > longest:
            dropped.too_long += 1
        elif record.decode("utf-8", "replace").encode() != record:
            dropped.not_utf8 += 1
        elif rows and len(fields) < len(rows[0]):
            dropped.too_few += record != b""
        else:
            rows.append(fields[: len(rows[0])] if rows else fields)
    return rows, dropped


def texts_of(column: Any) -> list[bytes | None]:
    """The texts of an Arrow array, whose layout is checked by Arrow itself."""
    column.validate(full=True)
    assert column.type == pyarrow.large_string()
    return [None if text is None else text.encode() for text in column.to_pylist()]


def records_read(path: Path, compression: str = "none") -> tuple[list[Row], DroppedRecords]:
    dropped = DroppedRecords()
    with TextFile(str(path), compression) as file:
        reader = CsvReader(file, ",", dropped)
        rows: list[Row] = [[name.encode("utf-8", "surrogateescape") or None for name in reader.header]]
        for block in reader.blocks(range(len(reader.header))):
            rows += [list(row) for row in zip(*map(texts_of, block), strict=True)]
    return rows, dropped


def as_fields(rows: list[list[str | None]]) -> list[Row]:
    return [[None if field is None else field.encode() for field in row] for row in rows]


PIECES = [
    *(b'"', b'""', b'"""', b",", b"\n", b"\r", b"\r\n", b',"', b'",', b'"\n', b'\n"', b'"x"', b"a", b"bc"),
    *(b"\0", b" ", b"\xc3\xa9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"0123456789abcdef"),
]


def check_any_bytes(n_files: int, seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for _ in range(n_files):
        longest = rng.choice([5, 10, 20, 50, 10**6])
        monkeypatch.setattr(csv_records, "MAX_RECORD", longest)
        monkeypatch.setattr(csv_records, "_BLOCK", rng.choice([*range(1, 65), 100, 1000]))
        monkeypatch.setattr(csv_records, "_FEW", rng.choice([1, 10, 50, 1000]))
        weights = [rng.random() ** 2 for _ in PIECES]
        body = b"".join(rng.choices(PIECES, weights, k=rng.choice([3, 10, 30, 100])))
        data = rng.choice([b"h\n", b"h,i\r\n", b"h,i,j\n", b'"h",i\n']) + body
        path.write_bytes(data)
        assert records_read(path) == records_by_loop(data, longest), data


@pytest.mark.thorough
def test_any_bytes_are_read_by_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_any_bytes(300, 1, tmp_path / "t.csv", monkeypatch)


@pytest.mark.parametrize(
    ("holder", "name", "broken"),
    [
        # Parity is believed where quotes are not as they should be.
        (csv_blocks, "_wrong_at", lambda quote, inside, may_touch, n: n),
        # Quotes in fields that do not begin with one are left out, and so are some others.
        (csv_blocks, "_without_letters", lambda quote, is_separator: np.zeros_like(quote)),
        # A carriage return is a part of the line end, wherever it is.
        (csv_blocks, "_ends_line", lambda data, is_feed, n: data == ord("\r")),
        # A line with an open quote takes the rest of the file along.
        (CsvReader, "_go_to", lambda reader, offset: reader._take(len(reader._rest))),
        # Doubled quotes stay as they are.
        (csv_blocks.CsvBlock, "_undoubled", lambda block: (block._data, block._ends)),
        # Bytes that are no text are taken for text.
        (csv_blocks.CsvBlock, "_is_utf8", lambda block, stops: None),
    ],
)
def test_a_reader_that_breaks_a_rule_is_noticed(
    holder: Any, name: str, broken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, broken)
    with pytest.raises((AssertionError, IndexError, pyarrow.ArrowInvalid)):
        check_any_bytes(400, 2, tmp_path / "t.csv", monkeypatch)


# ------------------------------------------------------------------ as libraries write files


def by_csv(rows: list[list[str]], path: Path, quoting: Any = csv.QUOTE_MINIMAL, end: str = "\r\n") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting, lineterminator=end).writerows([NAMES, *rows])


def by_csv_quoted(rows: list[list[str]], path: Path) -> None:
    by_csv(rows, path, csv.QUOTE_ALL, "\n")


def by_pandas(rows: list[list[str]], path: Path) -> None:
    pandas.DataFrame(rows, columns=NAMES).to_csv(path, index=False)


def by_polars(rows: list[list[str]], path: Path) -> None:
    polars = extra("polars")
    polars.DataFrame(rows, schema=dict.fromkeys(NAMES, polars.String), orient="row").write_csv(path)


def by_duckdb(rows: list[list[str]], path: Path) -> None:
    listed = ", ".join("(?, ?, ?)" for _ in rows)
    fields = [field for row in rows for field in row]
    query = f"SELECT * FROM (VALUES {listed}) rows({', '.join(NAMES)})"
    with duckdb.connect() as engine:
        engine.execute(f"COPY ({query}) TO '{path}' (FORMAT csv, HEADER)", fields)


WRITERS = [by_csv, by_csv_quoted, by_pandas, by_polars, by_duckdb]
# The last field tells nothing: where it ends in a carriage return, that is taken for a part of the line end.
NAMES = ["x", "y", "last"]
HOSTILE = [
    *(
        '"',
        '""',
        ",",
        "\n",
        "\r",
        "\r\n",
        '",',
        ',"',
        '\n"',
        '"\n',
        "\0",
        "1,a,\n",
        '\n1,a,z\n"',
        "\x1a",
        "é",
    ),
    *("\u2028", "\x85", "\x0b", "\ufeff", "\\", "'", "#", ";", "\t", "1", "a", " ", "z" * 30),
]


def ordinary(rng: random.Random) -> list[str]:
    return [rng.choice("1234"), rng.choice("abc"), rng.choice(["z", "well, yes", 'said "no"', "two\nlines"])]


def hostile(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(HOSTILE, k=rng.choice([1, 3, 10, 60]))) for _ in NAMES]


def check_hostile(writer: Any, n_files: int, seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hostile record is read as it is or dropped, and all others are read as they are."""
    rng = random.Random(seed)
    for _ in range(n_files):
        longest = rng.choice([200, 400, 10**6])
        monkeypatch.setattr(csv_records, "MAX_RECORD", longest)
        monkeypatch.setattr(csv_records, "_BLOCK", rng.choice([7, 64, 300, 10_000]))
        monkeypatch.setattr(csv_records, "_FEW", rng.choice([1, 20, 1000]))
        rows = [ordinary(rng) for _ in range(rng.choice([0, 3, 12]))]
        place = rng.randint(0, len(rows))
        bad = hostile(rng)
        writer([*rows[:place], bad, *rows[place:]], path)
        read = [row[:2] for row in records_read(path)[0][1:]]
        others = [row[:2] for row in as_fields(rows)]
        # No writer tells an empty text from none in the same way.
        own = [field or None for field in as_fields([bad])[0][:2]]
        if len(read) == len(others):
            assert 2 * sum(map(len, bad)) + 20 > longest, "a record that is short enough is read"
            assert read == others
        else:
            assert [field or None for field in read[place]] == own
            assert [*read[:place], *read[place + 1 :]] == others


@pytest.mark.thorough
@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_one_hostile_record_moves_no_other(
    writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_hostile(writer, 20 if writer is by_duckdb else 100, 3, tmp_path / "t.csv", monkeypatch)


def test_a_writer_that_does_not_double_quotes_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(rows: list[list[str]], path: Path) -> None:
        lines = [",".join(f'"{field}"' for field in row) for row in [NAMES, *rows]]
        path.write_bytes("\n".join(lines).encode())

    with pytest.raises((AssertionError, IndexError)):
        check_hostile(careless, 80, 3, tmp_path / "t.csv", monkeypatch)


SCHEMA = Schema(
    x=Integers(range(1, 5), null="other", outside="other", other="none"),
    y=Categories(["a", "b"], null="other", outside="other", other="none"),
)


def counted(path: Path) -> Any:
    return vectorize(path, SCHEMA).vector()


@pytest.mark.thorough
@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_one_hostile_record_moves_one_count_by_one(writer: Any, tmp_path: Path) -> None:
    rng = random.Random(4)
    for _ in range(4):
        rows = [ordinary(rng) for _ in range(40)]
        expected = np.zeros(15, dtype=int)
        for x, y, _note in rows:
            expected[3 * (int(x) - 1) + "abc".index(y)] += 1
        rows.insert(rng.randint(0, 40), hostile(rng))
        writer(rows, tmp_path / "t.csv")
        change = counted(tmp_path / "t.csv") - expected
        assert np.abs(change).sum() <= 1 and change.sum() in (0, 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "field",
    [
        "z" * 5_000_000,
        "1,a,\n" * 13_200_000,
        '"\n1,a,\n' * 500_000,
        "\r" * 5_000_000,
        "\0" * 5_000_000,
        ',"' * 2_000_000,
    ],
    ids=["letters", "forged records", "quotes", "carriage returns", "zeros", "separators"],
)
def test_a_record_of_many_megabytes_moves_no_other(field: str, tmp_path: Path) -> None:
    """The engine's own reader lost its place in a quoted field of 66 MB: 880,000 counts moved."""
    rows = [["1", "a", "z"]] * 3 + [["2", "b", field]] + [["3", "a", "z"]] * 5
    by_csv(rows, tmp_path / "t.csv")
    found = counted(tmp_path / "t.csv").reshape(5, 3)
    assert found[:4, :2].tolist() == [[3, 0], [0, 0], [5, 0], [0, 0]] and found.sum() == 8


# ------------------------------------------------------------------ files that no library writes


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # A quote that never closes costs its own line.
        (['1,"a,z', "2,b,z", "3,a,z"], [0, 1, 1]),
        # One before a letter closes nothing.
        (['1,"a,z', '2,b,"said"', '3,a,"z"'], [0, 1, 1]),
        (['1,"a"b,z', "2,b,z", "3,a,z"], [0, 1, 1]),
        # A quote inside a field is a letter.
        (['1,a,5" disk', '2,b,a "b" c', '3,a,"', "3,a,z"], [1, 1, 1]),
        # Nor does a carriage return end a record.
        (["1,a,z\r2,b,z", "3,a,z"], [1, 0, 1]),
        # Every line of its own has too few fields, or too many.
        (["1", "2,b,z,more", "", "3,a,z"], [0, 1, 1]),
    ],
)
@pytest.mark.parametrize("block", [3, 2**18])
def test_broken_lines_cost_themselves(
    lines: list[str], expected: list[int], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "_BLOCK", block)
    text = "\n".join(["x,y,last", *lines])
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.csv", "t.csv.gz"):
        assert vectorize(tmp_path / name, Schema(x=range(1, 4))).vector().tolist() == expected


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "most"),
    [
        # Quotes that are letters send nobody to be read one by one.
        (b'2,b,a 5" disk', 0),
        (b'2,b,5"', 0),
        (b'2,"b","said ""no"", he"', 0),
        # A line that is dropped does so to few after it.
        (b'"2,b,z', csv_records._FEW // 5),
        (b'2,"b"c,z', csv_records._FEW // 5),
    ],
)
def test_an_odd_line_leaves_the_others_to_be_read_at_once(
    line: bytes, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines after it in its block were read one by one, ten times as slowly."""
    asked: list[bytes] = []
    whole = CsvReader._checked

    def watched(reader: CsvReader, record: bytes) -> Any:
        asked.append(record)
        return whole(reader, record)

    monkeypatch.setattr(CsvReader, "_checked", watched)
    lines = [b"1,a,z"] * 2000 + [line] + [b"3,a,z"] * 20_000
    data = b"\n".join([b"x,y,last", *lines])
    (tmp_path / "t.csv").write_bytes(data)
    assert records_read(tmp_path / "t.csv") == records_by_loop(data, 2**21)
    assert len(asked) <= most


@pytest.mark.thorough
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_an_open_quote_is_gone_back_over(
    compress: Any, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "_BLOCK", 16)
    monkeypatch.setattr(csv_records, "MAX_RECORD", 40)
    content = 'x,y\n1,"é\n' + "2,b\n" * 100 + '3,"' + "z\n" * 50 + '"\n4,a'
    (tmp_path / "t").write_bytes(compress(content.encode(encoding)))
    dropped = DroppedRecords()
    with TextFile(str(tmp_path / "t"), "gzip" if compress is gzip.compress else "none") as file:
        blocks = list(CsvReader(file, ",", dropped).blocks([0]))
    found = Counter(text for [column] in blocks for text in texts_of(column))
    assert found == {b"2": 100, b"4": 1}
    assert dropped == DroppedRecords(unclosed=1, too_long=1)


@pytest.mark.thorough
def test_letters_that_utf_16_cannot_hold_cost_their_record(tmp_path: Path) -> None:
    text = "x,y\n1,a\n2,\ud800\n3,b\n"
    for encoding in ("utf-16-le", "utf-16-be"):
        content = ("\ufeff" + text).encode(encoding, "surrogatepass")
        for more, expected in ((b"", [1, 0, 1]), (b"4", [1, 0, 1])):
            (tmp_path / "t.csv").write_bytes(content + more)
            assert vectorize(tmp_path / "t.csv", Schema(x=range(1, 4))).vector().tolist() == expected


def test_headers_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MAX_RECORD", 20)
    for header, words in {
        b'x,"y\nz\n': "must close the quotation marks",
        b"x," + b"y" * 40: "shorter than 20",
    }.items():
        (tmp_path / "t.csv").write_bytes(header)
        with refuses(DataError, "header", ..., words):
            vectorize(tmp_path / "t.csv", Schema(x=range(3)))


# ------------------------------------------------------------------ what ends a scan


@pytest.mark.thorough
@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("as it was"), OSError("secret")])
def test_what_ends_a_scan_reaches_whoever_asked(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_csv([["1", "a", "z"]], tmp_path / "t.csv")

    def failing(reader: CsvReader, places: Any) -> Any:
        raise error
        yield

    monkeypatch.setattr(CsvReader, "blocks", failing)
    with pytest.raises(DataError if isinstance(error, OSError) else type(error)) as caught:
        counted(tmp_path / "t.csv")
    assert "secret" not in str(caught.value)
