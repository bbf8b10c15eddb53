"""Records of CSV files, held against a loop over bytes; and one hostile record, which moves no other."""

from __future__ import annotations

from pathlib import Path

from leastnoise.data.csv_records import CsvReader, Dropped, TextColumn
from leastnoise.data.text_files import TextFile

Row = list[bytes | None]

# ------------------------------------------------------------------ the rules, one byte at a time


def records_by_loop(data: bytes, longest: int) -> tuple[list[Row], Dropped]:
    """The fields of every record, the header's first, and what is dropped of the others."""
    data = data if data.endswith(b"\n") or not data else data + b"\n"
    rows: list[Row] = []
    dropped = Dropped()
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


def texts_of(column: TextColumn) -> list[bytes | None]:
    """The texts that string views stand for, by the words of the Arrow format."""
    found: list[bytes | None] = []
    for k, view in enumerate(column.views):
        length, content = int(view[0]), view.tobytes()[4:]
        if length <= 12:
            assert not any(content[length:]), "what is beyond a text is zero"
            text = content[:length]
        else:
            _, _, buffer, start = (int(part) for part in view)
            text = column.buffers[buffer].tobytes()[start : start + length]
            assert content[:4] == text[:4]
        found.append(text if column.present is None or column.present[k] else None)
    return found


def records_read(path: Path, compression: str = "none") -> tuple[list[Row], Dropped]:
    dropped = Dropped()
    with TextFile(str(path), compression) as file:
        reader = CsvReader(file, ",", dropped)
        rows: list[Row] = [[name.encode("utf-8", "surrogateescape") or None for name in reader.header]]
        for block in reader.blocks(range(len(reader.header))):
            rows += [list(row) for row in zip(*map(texts_of, block), strict=True)]
    return rows, dropped
