"""Raw columns of a table in PostgreSQL, by one statement: ``COPY … TO STDOUT`` as CSV.

The server writes values by the output functions of their types, under settings that this file makes for the
statement, and reads none: no value can stop it. Here the texts of a column become the Arrow type of its
PostgreSQL type, value by value:

    whole numbers     int64
    real, double      float32, float64: the server writes the digits that tell the number exactly
    numeric(p, s)     decimals; NaN is a null
    numeric           text, for each value may have other decimal places: the shortest text of the number, so
                      that equal numbers have one text, with the column's decimal mark; NaN is a null
    dates, moments    days and microseconds, by their digits; infinity, and what 64 bits do not hold, are the
                      last numbers there are, in no calendar
    text              as it is; CHAR(n) without its padding
"""

# ruff: noqa: S608 - queries hold what Ibis compiled and identifiers made here.

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise.data.arrow_values import bits, stored
from leastnoise.data.connections import NESTED, IbisTable, unknown_type
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.raw_table import DroppedRecords

# Settings under which values are written out, for one statement.
_SETTINGS = {
    "DateStyle": "ISO",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
_MICROSECONDS_OF_DAY = 86_400_000_000
# Decimals of Arrow have as many digits, at most.
_MAX_DIGITS = 76
_FEW_DIGITS = 38


class PostgresTable(IbisTable):
    """A table or an expression of Ibis on PostgreSQL."""

    def _types(self, names: Sequence[str]) -> list[Any]:
        query = self._query(names)
        with self._statement():
            return [column.type for column in self._columns(names, query)]

    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        query = self._query(names)
        with self._statement() as encoding:
            columns = self._columns(names, query)
            statement = f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)"
            with self.backend.con.cursor() as cursor, cursor.copy(statement) as copy:
                # Never asked to go back: the server closes every quote.
                reader = CsvReader(_Received(copy, encoding), ",", dropped)
                for texts in reader.blocks(range(len(names))):
                    read = zip(columns, texts, marks, strict=True)
                    yield [column.read(text, mark) for column, text, mark in read]

    def stop(self) -> None:
        """Have the server end the statement; from another thread."""
        self.backend.con.cancel()

    def _columns(self, names: Sequence[str], query: str) -> list[_Column]:
        with self._cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS raw LIMIT 0")
            given = [(column.type_code, column.precision, column.scale) for column in cursor.description]
            told = "SELECT oid::bigint, typtype::text, typcategory::text FROM pg_type"
            cursor.execute(f"{told} WHERE oid::bigint = ANY(%s)", [[oid for oid, _, _ in given]])
            families = {oid: (kind, category) for oid, kind, category in cursor.fetchall()}
        return [_column(name, *told, *families[told[0]]) for name, told in zip(names, given, strict=True)]

    @contextmanager
    def _statement(self) -> Iterator[str]:
        """The connection within a transaction that leaves nothing behind; told is how texts are encoded.

        Within a transaction of the caller's it is a savepoint, to which it goes back at the end.
        """
        connection = self.backend.con
        with connection.transaction(force_rollback=True):
            for name, value in _SETTINGS.items():
                connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            yield self._encoding()

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.backend.con.cursor(row_factory=tuple_row)

    def _encoding(self) -> str:
        """How the texts of the statement are encoded: as the server holds them, wherever Python can read it.

        The server would stop at a letter that it cannot turn into UTF-8.
        """
        from psycopg import NotSupportedError

        with self._cursor() as cursor:
            cursor.execute("SELECT set_config('client_encoding', current_setting('server_encoding'), true)")
            try:
                return str(self.backend.con.info.encoding)
            except NotSupportedError:
                cursor.execute("SELECT set_config('client_encoding', 'UTF8', true)")
                return "utf-8"


class _Received:
    """The bytes that a server sends, as a file to read in UTF-8."""

    def __init__(self, copy: Any, encoding: str) -> None:
        self._copy = copy
        is_plain = codecs.lookup(encoding).name in ("utf-8", "ascii")
        self._decoder = None if is_plain else codecs.getincrementaldecoder(encoding)("replace")
        self._rest = b""

    def read(self, n_bytes: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        pieces, length = [self._rest], len(self._rest)
        while length < n_bytes and (piece := self._copy.read()):
            pieces.append(piece if self._decoder is None else self._decoder.decode(piece).encode())
            length += len(pieces[-1])
        data = b"".join(pieces)
        self._rest = data[n_bytes:]
        return data[:n_bytes]

    def seek(self, position: int) -> None:
        """What is sent cannot be sent again; a server closes every quote, so nobody goes back."""
        raise OSError("a copy is read once")


# ------------------------------------------------------------------ types


class _Column(NamedTuple):
    """The Arrow type of a column, and how its texts become one of that type, with their decimal mark."""

    type: Any
    read: Callable[[Any, str], Any]


def _column(
    name: str, oid: int, precision: int | None, scale: int | None, kind: str, category: str
) -> _Column:
    """How a column is read whose PostgreSQL type has this number, and is of this kind and category.

    Raises:
        DataError: if nothing is known of the type.
    """
    if oid in _BY_OID:
        return _Column(*_BY_OID[oid])
    if oid == 1700:
        return _numeric(precision, scale)
    if kind == "e" or (kind == "b" and category == "S"):
        # Enumerations, and types that others made for text.
        return _TEXT
    if category in ("A", "C", "R") or kind in ("c", "r", "m") or oid in (114, 3802):
        # Refused by its type before a value is asked for; so are all others that are no values of a schema.
        return _Column(NESTED, _unread)
    if oid == 17 or category == "V":
        return _Column(pa.binary(), _unread)
    if category == "T":
        return _Column(pa.month_day_nano_interval(), _unread)
    raise unknown_type(name)


def _unread(texts: Any, mark: str) -> Any:
    raise AssertionError("a column of this type is refused before it is read")


def _numeric(precision: int | None, scale: int | None) -> _Column:
    """Decimals where the type tells their places, and Arrow has as many digits; else texts."""
    if precision is None or scale is None or scale < 0 or max(precision, scale) > _MAX_DIGITS:
        return _Column(pa.large_string(), _written_numbers)
    n_digits = max(precision, scale)
    kind = (pa.decimal128 if n_digits <= _FEW_DIGITS else pa.decimal256)(n_digits, scale)
    places = rf"[.][0-9]{{{scale}}}" if scale else ""
    pattern = rf"^-?[0-9]{{1,{max(1, n_digits - scale)}}}{places}$"

    def read(texts: Any, mark: str) -> Any:
        is_own = pc.match_substring_regex(texts, pattern)
        return pc.if_else(is_own, texts, pa.scalar(None, texts.type)).cast(kind)

    return _Column(kind, read)


def _written_numbers(texts: Any, mark: str) -> Any:
    """Numbers in their shortest text."""
    has_places = pc.match_substring(texts, ".")
    short = pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters=".")
    numbers = pc.if_else(has_places, short, texts)
    numbers = pc.if_else(pc.equal(numbers, "NaN"), pa.scalar(None, texts.type), numbers)
    return numbers if mark == "." else pc.replace_substring(numbers, ".", mark)


def _int64(texts: Any, mark: str) -> Any:
    return texts.cast(pa.int64())


def _float32(texts: Any, mark: str) -> Any:
    return texts.cast(pa.float32())


def _float64(texts: Any, mark: str) -> Any:
    return texts.cast(pa.float64())


def _truth(texts: Any, mark: str) -> Any:
    return pc.equal(texts, "t")


def _text(texts: Any, mark: str) -> Any:
    return texts


def _unpadded(texts: Any, mark: str) -> Any:
    return pc.utf8_rtrim(texts, characters=" ")


# ------------------------------------------------------------------ dates and moments

# What the server writes of the years 1 to 9999; all else, a time of 24:00:00 too, is read one by one.
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = " ([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]{1,6})?"
_ODD_MOMENT = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:[.](\d{1,6}))?(?:[+]00)?)?( BC)?")


def _dates(texts: Any, mark: str) -> Any:
    """Days since 1970."""
    days = _numbers(texts, f"^{_DAY}$", pa.date32(), lambda text: _odd_moment(text) // _MICROSECONDS_OF_DAY)
    return _filled(days.astype(np.int32), pa.date32(), texts)


def _local_moments(texts: Any, mark: str) -> Any:
    kind = pa.timestamp("us")
    return _filled(_numbers(texts, f"^{_DAY}{_CLOCK}$", kind, _odd_moment), kind, texts)


def _zoned_moments(texts: Any, mark: str) -> Any:
    kind = pa.timestamp("us", "UTC")
    return _filled(_numbers(texts, f"^{_DAY}{_CLOCK}[+]00$", kind, _odd_moment), kind, texts)


def _times(texts: Any, mark: str) -> Any:
    """Microseconds of a day, which may end with 24:00:00."""
    within = pc.binary_join_element_wise(
        pa.scalar("1970-01-01", texts.type), texts, pa.scalar(" ", texts.type)
    )
    return _filled(stored(_local_moments(within, mark)), pa.time64("us"), texts)


def _numbers(texts: Any, pattern: str, kind: Any, odd: Callable[[str], int]) -> npt.NDArray[np.int64]:
    """Days or microseconds since 1970, by Arrow where a text is usual; of nulls, anything.

    Args:
        pattern: of usual texts.
        odd: reads any other one; what its type does not hold becomes the last number that it does.
    """
    # A day that no month has, which no server writes, would stop Arrow.
    days = pc.utf8_slice_codeunits(texts, 0, 10)
    days = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    is_usual = pc.and_(pc.match_substring_regex(texts, pattern), days.is_valid())
    usual = pc.if_else(is_usual, texts, pa.scalar(None, texts.type)).cast(kind)
    numbers = stored(usual).astype(np.int64)
    ends = np.iinfo(stored(usual).dtype)
    is_odd = pc.and_(pc.invert(is_usual), texts.is_valid()).fill_null(False)
    for place in np.flatnonzero(bits(is_odd)).tolist():
        numbers[place] = min(max(odd(texts[place].as_py()), int(ends.min)), int(ends.max))
    return numbers


def _odd_moment(text: str) -> int:
    """The microseconds of a moment that few tables hold: infinite, before the year 1 or after 9999."""
    if text in ("infinity", "-infinity"):
        return 2**80 if text == "infinity" else -(2**80)
    match = _ODD_MOMENT.fullmatch(text)
    if match is None:
        return 2**80
    year, month, day = (int(part) for part in match.groups()[:3])
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    days = _days(1 - year if match[8] else year, month, day)
    seconds = (24 * days + hour) * 3600 + 60 * minute + second
    return 1_000_000 * seconds + int((match[7] or "").ljust(6, "0"))


def _days(year: int, month: int, day: int) -> int:
    """The number of a day since 1970, in the calendar that goes on in both directions."""
    # Years that begin in March have their leap day last.
    y = year - (month <= 2)
    return 365 * y + y // 4 - y // 100 + y // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468


def _filled(numbers: npt.NDArray[Any], kind: Any, texts: Any) -> Any:
    """Numbers as an array of an Arrow type, null where there is no text."""
    present = pa.array(np.asarray(texts.is_valid())).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [present, pa.py_buffer(numbers)])


_TEXT = _Column(pa.large_string(), _text)
_BY_OID: dict[int, tuple[Any, Callable[[Any, str], Any]]] = {
    16: (pa.bool_(), _truth),
    18: (pa.large_string(), _text),
    19: (pa.large_string(), _text),
    20: (pa.int64(), _int64),
    21: (pa.int64(), _int64),
    23: (pa.int64(), _int64),
    25: (pa.large_string(), _text),
    26: (pa.int64(), _int64),
    700: (pa.float32(), _float32),
    701: (pa.float64(), _float64),
    1042: (pa.large_string(), _unpadded),
    1043: (pa.large_string(), _text),
    1082: (pa.date32(), _dates),
    1083: (pa.time64("us"), _times),
    1114: (pa.timestamp("us"), _local_moments),
    1184: (pa.timestamp("us", "UTC"), _zoned_moments),
    2950: (pa.large_string(), _text),
}
