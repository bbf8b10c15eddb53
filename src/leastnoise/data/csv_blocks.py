"""All records of a block of a CSV file at once, by the rules that `csv_records` lists.

Records are found by the parity of quotes: a separator is outside quotes where the number of
quotes before it is even. That agrees with the rules wherever every odd quote comes after a
separator or a quote and every even one before a separator, a line end or a quote, which is
checked. Where it is not so, quotes that are letters are left out, and parity is taken again.
What is still not so is a quote that does not close: the records end before its own.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Bytes on either side of a block that may be read along with the fields at its ends.
_GUARD = 16
# Bytes of a text that are held in the 16 bytes of its view, at most.
_INLINE = 12

# The bytes that quotes and line ends are.
QUOTE = ord('"')
# Stands for the quote of files that have none.
NO_QUOTE = -1
LINE_FEED = ord("\n")
_CARRIAGE_RETURN = ord("\r")

_Bytes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]


@dataclass(repr=False)
class DroppedRecords:
    """How many records were left out before anything was counted, by reason. True numbers, for the owner.

    Attributes:
        too_long: records of more than MAX_RECORD bytes.
        unclosed: lines with a quote that does not close.
        not_utf8: records that hold something else than UTF-8.
        too_few: records with fewer fields than the header.
        not_json: lines of JSON that are no object.
    """

    too_long: int = 0
    unclosed: int = 0
    not_utf8: int = 0
    too_few: int = 0
    not_json: int = 0

    def __repr__(self) -> str:
        return "DroppedRecords(not private)"


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


class CsvBlock:
    """The whole records at the start of some bytes, as far as the parity of quotes finds them.

    Attributes:
        n_records: how many.
        stop: where the last of them ends.
        is_regular: False if records from ``stop`` on must be taken one by one.
    """

    def __init__(self, data: bytes, separator: int, n_fields: int, is_end: bool, quote: int = QUOTE) -> None:
        n = len(data)
        padding = bytes(_GUARD + -n % 8)
        self._buffer = np.frombuffer(b"".join([bytes(_GUARD), data, padding]), dtype=np.uint8)
        self._data = self._buffer[_GUARD:-_GUARD]
        self._n_fields = n_fields
        self._is_ascii = data.isascii()
        self._quote = quote
        self._has_quotes = quote != NO_QUOTE and quote in data
        self._has_returns = _CARRIAGE_RETURN in data
        self._doubled = np.empty(0, dtype=np.int64)
        is_feed = self._data == LINE_FEED
        is_separator = is_feed | (self._data == separator)
        wrong_at = n
        if self._has_quotes:
            is_quote = self._data == self._quote
            inside = _parity(is_quote)
            may_touch = is_separator
            if self._has_returns:
                may_touch = is_separator | _ends_line(self._data, is_feed, n)
            wrong_at = _wrong_at(is_quote, inside, may_touch, n)
            if wrong_at < n:
                is_quote = _without_letters(is_quote, is_separator)
                inside = _parity(is_quote)
                wrong_at = _wrong_at(is_quote, inside, may_touch, n)
            self._doubled = _doubled(is_quote, inside)
            is_separator = is_separator > inside
        # Where fields end, and which of those end a record.
        ends = np.flatnonzero(is_separator[:wrong_at])
        is_last = self._data[ends] == LINE_FEED
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

    def kept(self, longest: int, dropped: DroppedRecords) -> _Mask | None:
        """Which records are not dropped; None if none is. One of more bytes than the longest is."""
        starts, stops = self._ends[self._first] + 1, self._ends[self._last + 1]
        lengths = stops - starts
        is_text = self._is_utf8(stops)
        if self._is_even and is_text is None and lengths.max() <= longest:
            return None
        is_text = np.ones(self.n_records, dtype=np.bool_) if is_text is None else is_text
        is_full = self._last - self._first + 1 >= self._n_fields
        lengths -= (lengths > 0) & (self._buffer[stops + _GUARD - 1] == _CARRIAGE_RETURN)
        is_long = lengths > longest
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
            is_last = buffer[stops] == LINE_FEED
            stops -= is_last & (stops > starts) & (buffer[stops - 1] == _CARRIAGE_RETURN)
        if self._has_quotes:
            is_quoted = buffer[starts] == self._quote
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
    returns = data == _CARRIAGE_RETURN
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


def column_of(texts: Sequence[bytes | None]) -> TextColumn:
    """A column of these texts, one after another in one guarded buffer; None stands for null."""
    lengths = np.array([len(text or b"") for text in texts], dtype=np.int64)
    joined = b"".join([bytes(_GUARD), *(text or b"" for text in texts), bytes(_GUARD)])
    buffer = np.frombuffer(joined, dtype=np.uint8)
    starts = _GUARD + np.cumsum(lengths) - lengths
    present = np.array([text is not None for text in texts], dtype=np.bool_)
    return TextColumn(_views(buffer, starts, lengths), None if present.all() else present, [buffer])


def constant_column(text: bytes | None, n: int) -> TextColumn:
    """The same text n times; None stands for null."""
    one = column_of([text])
    present = None if one.present is None else np.repeat(one.present, n)
    return TextColumn(np.repeat(one.views, n, axis=0), present, one.buffers)


def joined(parts: Sequence[TextColumn]) -> TextColumn:
    """Columns one after the other, as one."""
    if len(parts) == 1:
        return parts[0]
    buffers: list[_Bytes] = []
    for part in parts:
        part.views[part.views[:, 0] > _INLINE, 2] += len(buffers)
        buffers += part.buffers
    present = [np.ones(len(part.views), np.bool_) if part.present is None else part.present for part in parts]
    return TextColumn(np.concatenate([part.views for part in parts]), np.concatenate(present), buffers)
