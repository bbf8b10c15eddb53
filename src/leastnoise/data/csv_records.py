"""Records of CSV files: one pass over the bytes, before any parser of somebody else's sees them.

What is a record follows from these rules and nothing else, so that one hostile record
moves none of its neighbours in any file whose writer quotes fields and doubles quotes:

    A record ends at a line feed outside quotes, and so does a file. A carriage
    return before that line feed belongs to the line end; any other is a letter.
    A field that begins with a quote is quoted. It ends at the first quote that is
    not doubled, and a separator or the end of the record must follow.
    A quote in a field that does not begin with one is a letter.
    Where a quote does not close like that, that one line is dropped, and the next
    line begins a record.
    A record of more than MAX_RECORD bytes is dropped, and so is one that is not in
    UTF-8 or has fewer fields than the header. Fields beyond the header's are ignored.

The records of a block are found all at once by `CsvBlock`. Where that meets a quote that
does not close, a few records are taken one by one.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.csv_blocks import LINE_FEED, NO_QUOTE, CsvBlock
from leastnoise.data.raw_table import DroppedRecords
from leastnoise.data.text_files import MAX_RECORD

# Bytes that are read at once; a batch of records is about as long, and fits into the caches of a processor.
_BLOCK = 2**20
# Bytes of records that are taken one by one where a line is dropped, and then at once. Where that was one
# line in a thousand, counting 500,000 took 1.3 s so, and 2.5 s with all of them one by one.
_FEW = 2**11


# ------------------------------------------------------------------ one record after the other


class _Syntax:
    """Patterns of fields parted by one separator. None of them goes back over a byte."""

    def __init__(self, separator: str, quote: str | None = '"') -> None:
        self.separator = separator.encode()
        self.quote = (quote or "").encode()
        self.quote_byte = ord(quote) if quote else NO_QUOTE
        s, q = re.escape(self.separator), self.quote
        inside = b"[^" + q + b"]*+(?:" + q + q + b"[^" + q + b"]*+)*+" if q else b"(?!)"
        plain = (b"(?!" + q + b")" if q else b"") + b"[^" + s + rb"\n]*+"
        self.inside = re.compile(inside)
        self.plain = re.compile(rb"[^" + s + rb"\n]*+")
        self.quoted = re.compile(q + inside + q)
        # As many fields as there are, each with the separator after it.
        self.fields = re.compile(b"(?:(?:" + q + inside + q + b"|" + plain + b")" + s + b")*+")


class _Walk:
    """Where a record stands after the bytes given so far: for records that no buffer need hold.

    Attributes:
        state: "field" at the start of a field, "plain" or "quoted" within one; then, when it is
            known, "ended" or "unclosed".
    """

    def __init__(self, syntax: _Syntax) -> None:
        self._syntax = syntax
        self.state = "field"

    def advance(self, data: Any, position: int, is_end: bool) -> int:
        """Where to go on, or where the next record begins once the state is "ended".

        Up to two bytes at the end of the data may be left, to be given again with what follows;
        at the end of the file none are, and the data end in a line feed.
        """
        while position < len(data):
            if self.state == "field":
                position = self._syntax.fields.match(data, position).end()  # type: ignore[union-attr]
                if position == len(data):
                    break
                is_quoted = data[position] == self._syntax.quote_byte
                self.state = "quoted" if is_quoted else "plain"
                position += is_quoted
            elif self.state == "plain":
                position = self._syntax.plain.match(data, position).end()  # type: ignore[union-attr]
                if position < len(data):
                    self.state = "ended" if data[position] == LINE_FEED else "field"
                    position += 1
            else:
                position = self._syntax.inside.match(data, position).end()  # type: ignore[union-attr]
                after = bytes(data[position + 1 : position + 3])
                if position == len(data) or (not is_end and after in (b"", b"\r")):
                    break
                if after[:1] == self._syntax.separator:
                    self.state, position = "field", position + 2
                elif after[:1] == b"\n" or after == b"\r\n":
                    self.state, position = "ended", position + 1 + (2 if after == b"\r\n" else 1)
                else:
                    self.state = "unclosed"
            if self.state in ("ended", "unclosed"):
                return position
        if is_end:
            self.state = "unclosed"
        return position


def _split(record: bytes, syntax: _Syntax) -> list[bytes | None]:
    """The fields of a record without its line end; an empty one without quotes is null."""
    fields: list[bytes | None] = []
    position = 0
    while True:
        if syntax.quote and record[position : position + 1] == syntax.quote:
            stop = syntax.quoted.match(record, position).end()  # type: ignore[union-attr]
            fields.append(record[position + 1 : stop - 1].replace(2 * syntax.quote, syntax.quote))
        else:
            stop = record.find(syntax.separator, position)
            stop = len(record) if stop < 0 else stop
            fields.append(record[position:stop] or None)
        if stop == len(record):
            return fields
        position = stop + 1


# ------------------------------------------------------------------ a file


class Bytes(Protocol):
    """Bytes in UTF-8, read one piece after the other."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none only at the end."""

    def seek(self, position: int, /) -> None:
        """Go back to a position; asked for where a quote does not close."""


class CsvReader:
    """The records of one file, from its header on.

    Args:
        dropped: where to count what is left out.

    Raises:
        DataError: if the header is too long or does not close a quote.
    """

    def __init__(self, file: Bytes, separator: str, dropped: DroppedRecords, quote: str | None = '"') -> None:
        self._file = file
        self._syntax = _Syntax(separator, quote)
        self._dropped = dropped
        # Read and not yet taken, where in the file that begins, whether its last byte ends a line, and
        # whether the file ends with it.
        self._rest = b""
        self._offset = 0
        self._ends_line = True
        self._is_end = False
        self.header = self._header()

    def _header(self) -> list[str]:
        while True:
            self._fill()
            walk = _Walk(self._syntax)
            stop = walk.advance(self._rest, 0, self._is_end)
            line = _without_line_end(self._rest[:stop])
            if walk.state == "unclosed" and len(self._rest):
                raise DataError.must(
                    "header", "close the quotation marks that it opens", given="an open quotation"
                )
            if len(line) > MAX_RECORD:
                raise DataError.must("header", f"be shorter than {MAX_RECORD:,} bytes", given="a longer line")
            if walk.state == "ended" or self._is_end:
                break
        self._take(stop)
        # Names that are no UTF-8 match no column; they must not raise.
        return [(name or b"").decode("utf-8", "surrogateescape") for name in _split(line, self._syntax)]

    def blocks(self, places: Sequence[int]) -> Generator[list[Any], None, None]:
        """The columns at these places of the header, some records at a time: Arrow arrays of texts."""
        # Bytes that records are looked for in at once: few after a line that is dropped, where others like
        # it may follow.
        width = widest = 2 * (MAX_RECORD + _BLOCK)
        while True:
            self._fill()
            if not len(self._rest):
                return
            # One batch, and not many small ones where lines are dropped.
            pieces: list[list[Any]] = []
            is_incomplete = False
            while len(self._rest) and not is_incomplete:
                data = self._rest[:width]
                is_all = len(data) == len(self._rest)
                block = CsvBlock(
                    data,
                    self._syntax.separator[0],
                    len(self.header),
                    self._is_end and is_all,
                    self._syntax.quote_byte,
                )
                if block.n_records:
                    pieces.append(block.columns(places, block.kept(MAX_RECORD, self._dropped)))
                self._take(block.stop)
                if block.is_regular:
                    width, is_incomplete = min(2 * width, widest), is_all
                else:
                    rows, is_incomplete = self._one_by_one()
                    pieces.append([_texts([row[place] for row in rows]) for place in places])
                    width = _FEW
            if pieces:
                yield [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]
            if len(self._rest) > MAX_RECORD + 2:
                self._skip()

    def _fill(self) -> None:
        """Read on. A line feed that is missing at the end of the file is added."""
        if self._is_end:
            return
        pieces = [self._rest]
        n_read = 0
        while n_read < _BLOCK and not self._is_end:
            piece = self._file.read(_BLOCK - n_read)
            n_read += len(piece)
            pieces.append(piece)
            self._is_end = not piece
            self._ends_line = piece.endswith(b"\n") if piece else self._ends_line
        if self._is_end and not self._ends_line:
            pieces.append(b"\n")
        self._rest = b"".join(pieces)

    def _take(self, n_bytes: int) -> None:
        self._rest = self._rest[n_bytes:]
        self._offset += n_bytes

    def _one_by_one(self) -> tuple[list[list[bytes | None]], bool]:
        """The fields of the next few records, and whether what is left is the beginning of one only."""
        data, position, rows = self._rest, 0, []
        n_bytes = min(_FEW, len(data))
        while position < n_bytes:
            walk = _Walk(self._syntax)
            stop = walk.advance(data, position, self._is_end)
            if walk.state == "ended":
                row = self._checked(_without_line_end(data[position:stop]))
                if row is not None:
                    rows.append(row)
                position = stop
            elif walk.state == "unclosed" and (line_end := data.find(b"\n", position)) >= 0:
                self._dropped.unclosed += 1
                position = line_end + 1
            else:
                break
        self._take(position)
        return rows, position < n_bytes

    def _checked(self, record: bytes) -> list[bytes | None] | None:
        """The fields of a record, or None if it is dropped."""
        if len(record) > MAX_RECORD:
            self._dropped.too_long += 1
            return None
        try:
            record.decode()
        except UnicodeDecodeError:
            self._dropped.not_utf8 += 1
            return None
        fields = _split(record, self._syntax)
        if len(fields) < len(self.header):
            self._dropped.too_few += record != b""
            return None
        return fields

    def _skip(self) -> None:
        """Go past a record of more than MAX_RECORD bytes, or past its first line if a quote stays open."""
        walk = _Walk(self._syntax)
        next_line = -1
        while True:
            if next_line < 0 and (line_end := self._rest.find(b"\n")) >= 0:
                next_line = self._offset + line_end + 1
            if walk.state != "unclosed":
                stop = walk.advance(self._rest, 0, self._is_end)
            if walk.state == "ended":
                self._dropped.too_long += 1
                self._take(stop)
                return
            if walk.state == "unclosed" and next_line >= 0:
                self._dropped.unclosed += 1
                self._go_to(next_line)
                return
            self._take(stop if walk.state != "unclosed" else len(self._rest))
            self._fill()

    def _go_to(self, offset: int) -> None:
        """Go on reading from a place in the file that was read before."""
        if offset >= self._offset:
            self._take(offset - self._offset)
        else:
            self._file.seek(offset)
            self._rest, self._offset, self._ends_line, self._is_end = b"", offset, True, False


def _texts(fields: Sequence[bytes | None]) -> Any:
    """Fields, which are known to be UTF-8, as an Arrow array of texts."""
    return pa.array(fields, type=pa.large_binary()).view(pa.large_string())


def _without_line_end(record: bytes) -> bytes:
    return record.removesuffix(b"\n").removesuffix(b"\r")
