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

The records of a block are found all at once by the parity of quotes: a separator is
outside quotes where the number of quotes before it is even. That agrees with the rules
wherever every odd quote comes after a separator or a quote and every even one before a
separator, a line end or a quote, which is checked. Where it is not so, quotes that are
letters are left out, and parity is taken again. What is still not so is a line with a
quote that does not close: there, a few records are taken one by one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError
from leastnoise.data.text_files import TextFile

# Bytes of a record without its line end; a longer record is dropped. DuckDB's own reader takes as many.
MAX_RECORD = 2**21
# Bytes that are read at once. A scan of 2 million records of four fields took 0.88 s in blocks of 2^18
# bytes and 0.83 s in these, because the engine's threads take turns less often.
_BLOCK = 2**20
# Bytes of records that are taken one by one where a line is dropped, and then at once. Where every line of
# a file is dropped, it takes 1.5 times as long as without ever trying.
_FEW = 2**11
# Bytes on either side of a block that may be read along with the fields at its ends.
_GUARD = 16
# Texts of at most so many bytes are held in the 16 bytes that stand for them.
_INLINE = 12

_QUOTE, _LF, _CR = b'"\n\r'

_Bytes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]


@dataclass(repr=False)
class Dropped:
    """How many records were left out before anything was counted, by reason. True numbers, for the owner.

    Attributes:
        too_long: records of more than MAX_RECORD bytes.
        unclosed: lines with a quote that does not close.
        not_utf8: records that hold something else than UTF-8.
        too_few: records with fewer fields than the header.
    """

    too_long: int = 0
    unclosed: int = 0
    not_utf8: int = 0
    too_few: int = 0

    def __repr__(self) -> str:
        return "Dropped(not private)"


class TextColumn(NamedTuple):
    """Texts of one column, as Arrow holds them: the layout "string view".

    Attributes:
        views: shape (n, 4): the length; then the text itself, or its first four bytes,
            the number of a buffer and where in that buffer the text begins.
        present: which are not null; None if all are.
        buffers: what the views point into.
    """

    views: npt.NDArray[np.uint32]
    present: _Mask | None
    buffers: list[_Bytes]


# ------------------------------------------------------------------ one record after the other


class _Syntax:
    """Patterns of fields parted by one separator. None of them goes back over a byte."""

    def __init__(self, separator: str) -> None:
        self.separator = separator.encode()
        s = re.escape(self.separator)
        inside = rb'[^"]*+(?:""[^"]*+)*+'
        plain = rb'(?!")[^' + s + rb"\n]*+"
        self.inside = re.compile(inside)
        self.plain = re.compile(rb"[^" + s + rb"\n]*+")
        self.quoted = re.compile(b'"' + inside + b'"')
        # As many fields as there are, each with the separator after it.
        self.fields = re.compile(b'(?:(?:"' + inside + b'"|' + plain + b")" + s + b")*+")


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
                is_quoted = data[position] == _QUOTE
                self.state = "quoted" if is_quoted else "plain"
                position += is_quoted
            elif self.state == "plain":
                position = self._syntax.plain.match(data, position).end()  # type: ignore[union-attr]
                if position < len(data):
                    self.state = "ended" if data[position] == _LF else "field"
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
        if record[position : position + 1] == b'"':
            stop = syntax.quoted.match(record, position).end()  # type: ignore[union-attr]
            fields.append(record[position + 1 : stop - 1].replace(b'""', b'"'))
        else:
            stop = record.find(syntax.separator, position)
            stop = len(record) if stop < 0 else stop
            fields.append(record[position:stop] or None)
        if stop == len(record):
            return fields
        position = stop + 1


# ------------------------------------------------------------------ a file


class CsvReader:
    """The records of one file, from its header on.

    Args:
        dropped: where to count what is left out.

    Raises:
        DataError: if the header is too long or does not close a quote.
    """

    def __init__(self, file: TextFile, separator: str, dropped: Dropped) -> None:
        self._file = file
        self._syntax = _Syntax(separator)
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
                raise DataError("the first line of a table must close the quotation marks that it opens")
            if len(line) > MAX_RECORD:
                raise DataError(f"the first line of a table must be shorter than {MAX_RECORD:,} bytes")
            if walk.state == "ended" or self._is_end:
                break
        self._take(stop)
        # Names that are no UTF-8 match no column; they must not raise.
        return [(name or b"").decode("utf-8", "surrogateescape") for name in _split(line, self._syntax)]

    def blocks(self, places: Sequence[int]) -> Generator[list[TextColumn], None, None]:
        """The columns at these places of the header, some records at a time."""
        # Bytes that records are looked for in at once: few after a line that is dropped, where others like
        # it may follow.
        width = widest = 2 * (MAX_RECORD + _BLOCK)
        while True:
            self._fill()
            if not len(self._rest):
                return
            # One block for the engine, whose threads would wait for many small ones.
            pieces: list[list[TextColumn]] = []
            is_rest_begun = False
            while len(self._rest) and not is_rest_begun:
                data = self._rest[:width]
                is_all = len(data) == len(self._rest)
                block = _Block(data, self._syntax.separator[0], len(self.header), self._is_end and is_all)
                if block.n_records:
                    pieces.append(block.columns(places, block.kept(self._dropped)))
                self._take(block.stop)
                if block.is_regular:
                    width, is_rest_begun = min(2 * width, widest), is_all
                else:
                    rows, is_rest_begun = self._one_by_one()
                    pieces.append([_column_of([row[place] for row in rows]) for place in places])
                    width = _FEW
            if pieces:
                yield [_joined(parts) for parts in zip(*pieces, strict=True)]
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


def _without_line_end(record: bytes) -> bytes:
    return record.removesuffix(b"\n").removesuffix(b"\r")


# ------------------------------------------------------------------ all records of a block at once


class _Block:
    """The whole records at the start of some bytes, as far as the parity of quotes finds them.

    Attributes:
        n_records: how many.
        stop: where the last of them ends.
        is_regular: False if records from ``stop`` on must be taken one by one.
    """

    def __init__(self, data: bytes, separator: int, n_fields: int, is_end: bool) -> None:
        n = len(data)
        padding = bytes(_GUARD + -n % 8)
        self._buffer = np.frombuffer(b"".join([bytes(_GUARD), data, padding]), dtype=np.uint8)
        self._data = self._buffer[_GUARD:-_GUARD]
        self._n_fields = n_fields
        self._is_ascii = data.isascii()
        self._has_quotes = _QUOTE in data
        self._has_returns = _CR in data
        self._doubled = np.empty(0, dtype=np.int64)
        is_feed = self._data == _LF
        is_separator = is_feed | (self._data == separator)
        wrong_at = n
        if self._has_quotes:
            quote = self._data == _QUOTE
            inside = _parity(quote)
            may_touch = is_separator
            if self._has_returns:
                may_touch = is_separator | _ends_line(self._data, is_feed, n)
            wrong_at = _wrong_at(quote, inside, may_touch, n)
            if wrong_at < n:
                quote = _without_letters(quote, is_separator)
                inside = _parity(quote)
                wrong_at = _wrong_at(quote, inside, may_touch, n)
            self._doubled = _doubled(quote, inside)
            is_separator = is_separator > inside
        # Where fields end, and which of those end a record.
        ends = np.flatnonzero(is_separator[:wrong_at])
        is_last = self._data[ends] == _LF
        self.n_records = int(np.count_nonzero(is_last))
        # The fields that begin and end each record, by number. In most blocks every record has as many
        # fields as the header.
        n_ends = self.n_records * n_fields
        self._is_even = bool(is_last[n_fields - 1 : n_ends : n_fields].sum() == self.n_records)
        self._last = np.arange(n_fields - 1, n_ends, n_fields) if self._is_even else np.flatnonzero(is_last)
        self._first = np.concatenate([[0], self._last[:-1] + 1])
        n_ends = int(self._last[-1]) + 1 if self.n_records else 0
        self.stop = int(ends[n_ends - 1]) + 1 if self.n_records else 0
        self.is_regular = wrong_at == n and not (is_end and self.stop < n)
        # A field of its own ends before the first.
        self._ends = np.concatenate([[-1], ends[:n_ends]])

    def kept(self, dropped: Dropped) -> _Mask | None:
        """Which records are not dropped; None if none is."""
        starts, stops = self._ends[self._first] + 1, self._ends[self._last + 1]
        lengths = stops - starts
        is_text = self._is_utf8(stops)
        if self._is_even and is_text is None and lengths.max() <= MAX_RECORD:
            return None
        is_text = np.ones(self.n_records, dtype=np.bool_) if is_text is None else is_text
        is_full = self._last - self._first + 1 >= self._n_fields
        lengths -= (lengths > 0) & (self._buffer[stops + _GUARD - 1] == _CR)
        is_long = lengths > MAX_RECORD
        dropped.too_long += int(is_long.sum())
        dropped.not_utf8 += int((~is_text & ~is_long).sum())
        dropped.too_few += int((~is_full & is_text & ~is_long & (lengths > 0)).sum())
        return is_full & is_text & ~is_long

    def _is_utf8(self, stops: _Places) -> _Mask | None:
        """Which records are in UTF-8, given where they end; None if all are."""
        if self._is_ascii or _is_utf8(self._data[: self.stop].data):
            return None
        is_text = np.ones(self.n_records, dtype=np.bool_)
        # Record by record, so that a block in another encoding takes no longer than its length.
        for record in np.unique(np.searchsorted(stops, np.flatnonzero(self._data[: self.stop] & 0x80))):
            start = int(stops[record - 1]) + 1 if record else 0
            is_text[record] = _is_utf8(self._data[start : stops[record]].data)
        return is_text

    def columns(self, places: Sequence[int], kept: _Mask | None) -> list[TextColumn]:
        """The fields at some places of the records that are kept."""
        buffer, ends = self._undoubled() if self._doubled.size else (self._buffer, self._ends)
        return [self._column(buffer, ends, place, kept) for place in places]

    def _undoubled(self) -> tuple[_Bytes, _Places]:
        """The bytes with one quote instead of two where they are doubled, and where fields end in those."""
        is_left = np.ones(len(self._buffer), dtype=np.bool_)
        is_left[self._doubled + _GUARD] = False
        fields = np.searchsorted(self._ends, self._doubled)
        n_before = np.cumsum(np.bincount(fields, minlength=len(self._ends))[: len(self._ends)])
        return self._buffer[is_left], self._ends - n_before

    def _column(self, buffer: _Bytes, ends: _Places, place: int, kept: _Mask | None) -> TextColumn:
        fields: _Places | slice = slice(place, None, self._n_fields)
        if kept is not None or not self._is_even:
            fields = self._first[... if kept is None else kept] + place
        starts, stops = ends[:-1][fields] + (_GUARD + 1), ends[1:][fields] + _GUARD
        if self._has_returns and place == self._n_fields - 1:
            is_last = buffer[stops] == _LF
            stops -= is_last & (stops > starts) & (buffer[stops - 1] == _CR)
        if self._has_quotes:
            is_quoted = buffer[starts] == _QUOTE
            starts += is_quoted
            stops -= is_quoted
        lengths = stops - starts
        present = lengths > 0
        if self._has_quotes:
            present |= is_quoted
        return TextColumn(_views(buffer, starts, lengths), None if present.all() else present, [buffer])


def _is_utf8(data: Any) -> bool:
    try:
        codecs.utf_8_decode(data, "strict", True)
    except UnicodeDecodeError:
        return False
    return True


def _ends_line(data: _Bytes, is_feed: _Mask, n: int) -> _Mask:
    """Which carriage returns come before a line feed.

    What follows the last of n bytes is not known, and may be one.
    """
    returns = data == _CR
    is_known = returns[: n - 1]
    is_known &= is_feed[1:n]
    return returns


def _wrong_at(quote: _Mask, inside: _Mask, may_touch: _Mask, n: int) -> int:
    """Where parity and the rules first disagree, n if nowhere.

    What follows the last byte is not known, and agrees.

    Args:
        may_touch: the separators and line ends. No quote comes between the two bytes of a line end, so that
            it does not matter which of them comes before a quote and which after one.
    """
    near = np.ones(len(quote) + 2, dtype=np.bool_)
    np.logical_or(quote, may_touch, out=near[1:-1])
    near[n + 1 :] = True
    wrong = (quote & inside) > near[:-2]
    wrong |= (quote > inside) > near[2:]
    return int(wrong.argmax()) if wrong.any() else n


def _without_letters(quote: _Mask, is_separator: _Mask) -> _Mask:
    """The quotes without those that are letters.

    Of the pieces between separators, wherever those are, only such with an odd number of quotes matter.
    One that begins with a quote leads from outside quotes inside and back. Any other leads outside: from
    inside by closing a field, from outside because its quotes are letters. So a piece begins inside quotes
    if there is an odd number of the first kind since the last of the second.
    """
    places = np.flatnonzero(quote)
    before = np.concatenate([[-1], np.flatnonzero(is_separator)])
    pieces, first, piece_of, n_quotes = np.unique(
        np.searchsorted(before, places) - 1, return_index=True, return_inverse=True, return_counts=True
    )
    begins = places[first] == before[pieces] + 1
    is_odd = n_quotes % 2 == 1
    n_led_inside = np.concatenate([[0], np.cumsum(begins & is_odd)[:-1]])
    since = np.maximum.accumulate(np.where(is_odd & ~begins, np.arange(len(pieces)) + 1, 0))
    since = np.concatenate([[0], since[:-1]])
    is_outside = (n_led_inside - n_led_inside[since]) % 2 == 0
    left = quote.copy()
    left[places[(is_outside & ~begins)[piece_of]]] = False
    return left


def _doubled(quote: _Mask, inside: _Mask) -> _Places:
    """The first quotes of doubled ones: those that close a field with another quote after them."""
    return np.flatnonzero((quote > inside)[:-1] & quote[1:])


def _parity(quote: _Mask) -> _Mask:
    """Whether the number of quotes up to and with each byte is odd. The length is a multiple of eight."""
    words = quote.view("<u8").copy()
    for shift in (8, 16, 32):
        words ^= words << np.uint64(shift)
    before = np.bitwise_xor.accumulate(words >> np.uint64(56))
    words[1:] ^= before[:-1] * np.uint64(0x0101010101010101)
    return words.view(np.bool_)


# Row k keeps the first k bytes of a text that lies in its view, the last row the first four of a longer one.
_KEPT_BYTES = np.zeros((_INLINE + 2, 16), dtype=np.uint8)
for _k in range(_INLINE + 1):
    _KEPT_BYTES[_k, 4 : 4 + _k] = 0xFF
_KEPT_BYTES[-1, 4:8] = 0xFF
_KEPT = _KEPT_BYTES.view("V16").ravel()


def _views(buffer: _Bytes, starts: _Places, lengths: _Places) -> npt.NDArray[np.uint32]:
    """Texts in a buffer as string views, shape (n, 4); four bytes before and twelve after each are read."""
    pieces = np.ndarray((len(buffer) - 15,), dtype="V16", buffer=buffer, strides=(1,))
    views = pieces[starts - 4].view("<u4").reshape(-1, 4)
    views &= _KEPT.take(np.minimum(lengths, _INLINE + 1)).view("<u4").reshape(-1, 4)
    views[:, 0] = lengths
    far = np.flatnonzero(lengths > _INLINE)
    views[far, 3] = starts[far]
    return views


def _column_of(texts: Sequence[bytes | None]) -> TextColumn:
    lengths = np.array([len(text or b"") for text in texts], dtype=np.int64)
    joined = b"".join([bytes(_GUARD), *(text or b"" for text in texts), bytes(_GUARD)])
    buffer = np.frombuffer(joined, dtype=np.uint8)
    starts = _GUARD + np.cumsum(lengths) - lengths
    present = np.array([text is not None for text in texts], dtype=np.bool_)
    return TextColumn(_views(buffer, starts, lengths), None if present.all() else present, [buffer])


def _joined(parts: Sequence[TextColumn]) -> TextColumn:
    """Columns one after the other, as one."""
    if len(parts) == 1:
        return parts[0]
    buffers: list[_Bytes] = []
    for part in parts:
        part.views[part.views[:, 0] > _INLINE, 2] += len(buffers)
        buffers += part.buffers
    present = [np.ones(len(part.views), np.bool_) if part.present is None else part.present for part in parts]
    return TextColumn(np.concatenate([part.views for part in parts]), np.concatenate(present), buffers)
