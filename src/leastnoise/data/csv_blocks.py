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
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise.data.raw_table import DroppedRecords

# The bytes that quotes and line ends are.
QUOTE = ord('"')
# Stands for the quote of files that have none.
NO_QUOTE = -1
LINE_FEED = ord("\n")
_CARRIAGE_RETURN = ord("\r")

_Bytes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]


class CsvBlock:
    """The whole records at the start of some bytes, as far as the parity of quotes finds them.

    Attributes:
        n_records: how many.
        stop: where the last of them ends.
        is_regular: False if records from ``stop`` on must be taken one by one.
    """

    def __init__(self, data: bytes, separator: int, n_fields: int, is_end: bool, quote: int = QUOTE) -> None:
        n = len(data)
        self._data = np.frombuffer(data, dtype=np.uint8)
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
        lengths -= (lengths > 0) & (self._data[stops - 1] == _CARRIAGE_RETURN)
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

    def columns(self, places: Sequence[int], kept: _Mask | None) -> list[Any]:
        """The fields at some places of the records that are kept: Arrow arrays of texts."""
        data, ends = self._undoubled() if self._doubled.size else (self._data, self._ends)
        return [self._column(data, ends, place, kept) for place in places]

    def _undoubled(self) -> tuple[_Bytes, _Places]:
        """The bytes with one quote instead of two where they are doubled, and where fields end in those."""
        is_left = np.ones(len(self._data), dtype=np.bool_)
        is_left[self._doubled] = False
        fields = np.searchsorted(self._ends, self._doubled)
        n_before = np.cumsum(np.bincount(fields, minlength=len(self._ends))[: len(self._ends)])
        return self._data[is_left], self._ends - n_before

    def _column(self, data: _Bytes, ends: _Places, place: int, kept: _Mask | None) -> Any:
        fields: _Places | slice = slice(place, None, self._n_fields)
        if kept is not None or not self._is_even:
            fields = self._first[... if kept is None else kept] + place
        starts, stops = ends[:-1][fields] + 1, ends[1:][fields]
        if self._has_returns and place == self._n_fields - 1:
            is_last = data[stops] == LINE_FEED
            stops = stops - (is_last & (stops > starts) & (data[stops - 1] == _CARRIAGE_RETURN))
        if not self._has_quotes:
            return _texts(data, starts, stops, stops > starts)
        is_quoted = data[starts] == self._quote
        starts += is_quoted
        stops = stops - is_quoted
        return _texts(data, starts, stops, (stops > starts) | is_quoted)


def _texts(data: _Bytes, starts: _Places, stops: _Places, present: _Mask) -> Any:
    """The texts that begin and end at these places of some bytes, in order: an Arrow array.

    What is between two texts is an element as well, and left out: PyArrow then copies all texts at once,
    in 4 to 7 ns each.
    """
    n = len(starts)
    if not n:
        return pa.array([], type=pa.large_string())
    borders = np.empty(2 * n, dtype=np.int64)
    borders[0::2], borders[1::2] = starts, stops
    pieces = [None, pa.py_buffer(borders), pa.py_buffer(data)]
    every_second = pa.array(np.arange(0, 2 * n, 2))
    texts = pc.take(
        pa.Array.from_buffers(pa.large_binary(), 2 * n - 1, pieces), every_second, boundscheck=False
    )
    _, borders, copied = texts.buffers()
    bits = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    # The bytes are known to be UTF-8.
    return pa.Array.from_buffers(pa.large_string(), n, [bits, borders, copied])


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
    """Whether the number of quotes up to and with each byte is odd."""
    padded = np.zeros(len(quote) + -len(quote) % 8, dtype=np.bool_)
    padded[: len(quote)] = quote
    words = padded.view("<u8")
    for shift in (8, 16, 32):
        words ^= words << np.uint64(shift)
    before = np.bitwise_xor.accumulate(words >> np.uint64(56))
    words[1:] ^= before[:-1] * np.uint64(0x0101010101010101)
    return padded[: len(quote)]
