"""Attributes, and values of every type up to its ends, to draw tables from.

A form is a type as a source holds it. Its raw values are what is stored: the bits of a float, the number of
units of a timestamp, the bytes of a text. `Form.reading` says what a raw value is.
"""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import leastnoise as ln
from leastnoise.core.errors import SchemaError
from neighbours_cells import NO_TEXT, UNCLEAR, Day, Moment

# ------------------------------------------------------------------ attributes

OTHER = {"outside": "other", "null": "other", "other": "none"}
_POLICIES: list[dict[str, str]] = [
    *({}, {"outside": "clamp"}, OTHER, OTHER, {"outside": "other", "other": "none"}),
    *({"null": "other", "other": "none"}, {"outside": "clamp", "null": "other", "other": "none"}),
    {"outside": "drop", "null": "other", "other": "none"},
]
_inf = math.inf
_EDGES: list[list[float]] = [
    *([0, 2000, 4000], [0, 2000, 3000], [-_inf, 2000, _inf], [0.5, 2020.25, 2021], [-1e308, 0, 5e-324, 1]),
    *([2**53, 2**53 + 2], list(range(50)), [-_inf, 0], [1, 1e300], [-(2**63), 0, 2**63, 2**64]),
]
_RANGES = [
    *(range(2020, 2027), range(40), range(-4, 19, 2), range(2**53 - 2, 2**53 + 3)),
    *(range(2**63 - 3, 2**63 + 3), range(-(2**63), 3 - 2**63), range(2**64 - 3, 2**64)),
]
_LISTS: list[Sequence[Any]] = [
    *(("a", "b", "é"), ("F", "M"), ("2026", "2020", "1"), ("00012", "18"), ("true", "false")),
    *(("e\u0301", "é", " a", ""), ("inf", "nan", "x"), ("a\0", "a", "\ufeffa", "NULL")),
]
_CODES = [(2026, 2020), (0, -1, 10**20, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1)]
_TREE = {"North": ["a", "b"], "South": {"Hill": ["c", "é"], "Dale": ["F"]}}
# A kind of attribute, and what it is made of.
_NUMBERS: list[tuple[Any, Any]] = [
    *((ln.Integers, values) for values in _RANGES),
    *((ln.Bins, edges) for edges in _EDGES),
    *((ln.Categories, values) for values in _CODES),
    (ln.Hierarchy, {"A": [1, 2], "B": {"C": [2020], "D": [2026]}}),
]
_NAMES: list[tuple[Any, Any]] = [*((ln.Categories, values) for values in _LISTS), (ln.Hierarchy, _TREE)]
_ZONES = (None, None, "UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia")
_SPANS = [
    *(
        ("2020-01-01", "2026-12-31", ("week", "month", "quarter", "year")),
        ("2026-03-01", "2026-03-31", ("day",)),
    ),
    *(
        ("0001-01-01", "0001-03-31", ("day", "month", "quarter")),
        ("9999-10-01", "9999-12-25", ("day", "week", "month")),
    ),
    *(("1969-12-25", "1970-01-05", ("day", "week")), ("1900-01-01", "2100-12-31", ("year", "quarter"))),
    *(("1677-09-01", "1677-10-31", ("day", "month")), ("2262-04-01", "2262-04-30", ("day",))),
]
_CLEANING: dict[str, list[Any]] = {
    "trim": [True],
    "normalise": ["NFC", "NFKC"],
    "ignore_case": [True],
    "nulls": [["NA", "."], ["99", "-9"], ["nan", "NULL"], [""]],
    "synonyms": [{"female": "F"}, {"A": "a"}, {"65+": 2020}, {"none": 0}, {"now": "2026-03-15"}],
    "digits": [5],
    "decimal": [","],
    "thousands": [".", ",", " ", "'"],
    "dates": [["%d.%m.%Y"], ["%Y%m%d", "%m/%d/%y"], ["%d %b %Y %H:%M %z"]],
}


def attribute(rng: random.Random, hint: str) -> Any:
    """Any attribute, mostly of a kind that can read columns of this sort, which is a form's hint."""
    if rng.random() < 0.05:
        hint = rng.choice(["number", "text", "time"])
    while True:
        more: dict[str, Any] = dict(rng.choice(_POLICIES))
        if rng.random() < 0.35:
            steps = rng.sample(list(_CLEANING), rng.randint(1, 3))
            more["clean"] = {step: rng.choice(_CLEANING[step]) for step in steps}
        # What some kinds do not know, such as clamped names, is drawn again.
        with suppress(SchemaError):
            if hint in ("time", "zoned") or (hint in ("text", "whole") and rng.random() < 0.2):
                first, last, units = rng.choice(_SPANS)
                zone = rng.choice(_ZONES[2:] if hint == "zoned" else _ZONES)
                return ln.Periods(first, last, by=rng.choice(units), zone=zone, **more)
            share = {"number": 0.8, "whole": 0.7, "name": 0}.get(hint, 0.25)
            kind, declared = rng.choice(_NUMBERS if rng.random() < share else _NAMES)
            return kind(declared, **more)


# ------------------------------------------------------------------ raw values

TEXTS = ["a", "b", "c", "é", "F", "M", "1", "2", "18", "2020", "2021", "2026", "2026-03-15", "1970-01-01"]
ODD_TEXTS = [
    *(
        "",
        " a",
        "a ",
        "A",
        "e\u0301",
        "a\0",
        "\0",
        "\ufeffa",
        "\ufeff",
        "=1+1",
        "a\r",
        "a\nb",
        'a"b',
        '"',
        "'",
    ),
    *(
        "\\N",
        "NULL",
        "NA",
        ".",
        "x" * 5000,
        "\u2028",
        "true",
        "female",
        "FEMALE",
        "65+",
        "none",
        "\u00a0a\u3000",
    ),
    *(
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e3",
        "2020.0",
        "2020.",
        "2.02e3",
        "1,234",
        "1.234,5",
        "1 234",
        "1'234",
    ),
    *(
        "9" * 5000,
        "-" + "9" * 400,
        "1e999999999",
        "1e-999999999",
        "0x10",
        "１",
        "\u0661",
        "+1",
        "-0",
        ".5",
        "1e",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "9007199254740993",
        "12",
        "99",
        "-9",
    ),
    *("2026-02-30", "0001-01-01", "9999-12-31", "10000-01-01", "2026-03-15T23:59:60", "2026-W53", "2026-Q1"),
    *(
        "2026-03-15T23:59:59+14:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "31.12.2026",
        "now",
    ),
    *(
        "2026-03-15 10:30:00.123456789 -05:30",
        "20260315",
        "2026-03",
        "0000",
        "15 Mar 2026 23:00 -0500",
        "nOw",
    ),
]
# Bytes that are no text in UTF-8: a lone surrogate, a cut character, bytes of another encoding.
NO_UTF8 = [b"\xed\xa0\x80", b"a\xff", b"\xff\xfe", b"\xc3", b"\xe9", b"2020\xff", b"\xf5\x80\x80\x80"]
_WHOLE = [0, 1, 2, 3, 18, 2020, 2021, 2026]
_FLOATS = [
    *(
        math.nan,
        math.nan,
        math.nan,
        math.nan,
        -math.nan,
        _inf,
        -_inf,
        5000.0,
        -5000.0,
        2020.5,
        -0.0,
        0.1,
        1e300,
        -1e300,
        5e-324,
        -5e-324,
    ),
    *(
        2.0**24,
        2.0**24 + 1,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        2.0**64,
        2.0**31,
        65504.0,
        4000.0,
        3999.9,
    ),
]
_NAN_BITS = {16: [0x7C01, 0xFFFF], 32: [0x7F800001, 0xFFFFFFFF], 64: [0x7FF0000000000001, 2**64 - 1]}
_LETTER = {16: "e", 32: "f", 64: "d"}
# Microseconds since 1970: within declared periods, and around the ends of calendars and of 64 bits.
_MOMENTS = [1_577_836_800_000_000, 1_600_000_000_000_000, 1_773_532_800_000_000, 1_773_619_199_999_999, 0]
_ODD_MOMENTS = [
    *(
        1,
        -1,
        -62_135_596_800_000_000,
        -62_135_596_800_000_001,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
    ),
    *(-62_135_560_000_000_000, 253_402_290_000_000_000, -9_223_372_036_854_775, 9_223_372_036_854_775),
]
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, eq=False)
class Form:
    """A type as a source holds it.

    Attributes:
        label: what it is called; "" for values that stand for themselves.
        hint: what sort of attribute can read it: "number", "whole" (numbers that may be years), "text",
            "name", "time" or "zoned".
        usual, odd: raw values to draw from; None is a null.
        reading: what a raw value is.
        held: from raw values to what the source holds.
        whole_below: below which size floats tell whole numbers apart; 0 for what is no float.
    """

    label: str
    hint: str
    usual: Sequence[Any]
    odd: Sequence[Any]
    reading: Callable[[Any], Any]
    held: Callable[[list[Any]], Any] = list
    whole_below: int = 0
    has_nulls: bool = True

    def draw(self, rng: random.Random, *, odd: float, among: Sequence[Any] = ()) -> Any:
        """A raw value, with this chance an odd one, among all or a few."""
        if self.has_nulls and rng.random() < 0.07:
            return None
        return rng.choice((among or self.odd) if rng.random() < odd else self.usual)

    def read(self, raw: Any) -> Any:
        return None if raw is None else self.reading(raw)

    def id(self, raw: Any) -> Any:
        """Whose a record with this id is: a text, None for nobody, UNCLEAR where that is not documented."""
        reading = self.read(raw)
        if isinstance(reading, bool):
            return str(reading).lower()
        if isinstance(reading, float):
            is_exact = abs(reading) < (self.whole_below or 2**53) and reading == int(reading)
            return (
                str(int(reading))
                if is_exact
                else None
                if self.whole_below or math.isnan(reading)
                else UNCLEAR
            )
        if isinstance(reading, str):
            return reading[:-2] if re.fullmatch("(0|-?[1-9][0-9]{0,14})[.]0", reading) else reading
        if isinstance(reading, Decimal) and not reading.is_finite():
            return None if reading.is_nan() else UNCLEAR
        if isinstance(reading, Decimal):
            return str(int(reading)) if reading == int(reading) else UNCLEAR
        return reading if reading is None else str(Decimal(reading)) if isinstance(reading, int) else UNCLEAR

    def shown(self, raw: Any) -> str:
        """A raw value for a person to read, short."""
        text = shown(raw) if raw is None or self.whole_below == 0 else f"{self.reading(raw)!r} ({raw:#x})"
        return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} signs)"


def shown(raw: Any) -> str:
    """Any values as Python writes them, if it does."""
    try:
        return repr(raw)
    except ValueError:
        return "a number of many digits"


# ------------------------------------------------------------------ Arrow types

ARROW_TYPES: dict[str, Any] = {
    **{str(t): t for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): t for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "bool": pa.bool_()},
    **{"string": pa.string(), "large_string": pa.large_string(), "string_view": pa.string_view()},
    **{f"decimal128({p},{s})": pa.decimal128(p, s) for p, s in ((5, 0), (18, 2), (38, 0), (38, 38))},
    **{f"decimal256({p},{s})": pa.decimal256(p, s) for p, s in ((20, 3), (76, 0), (76, 70))},
    **{"date32": pa.date32(), "date64": pa.date64(), "null": pa.null()},
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in _PER_SECOND},
    **{
        f"timestamp[{unit}, {zone}]": pa.timestamp(unit, zone)
        for unit in _PER_SECOND
        for zone in ("UTC", "+05:30")
    },
    **{f"time32[{unit}]": pa.time32(unit) for unit in ("s", "ms")},
    **{f"time64[{unit}]": pa.time64(unit) for unit in ("us", "ns")},
}
# What no schema can mean: refused, whatever the values are.
REFUSED_TYPES: dict[str, Any] = {
    **{"binary": pa.binary(), "duration": pa.duration("s"), "list": pa.list_(pa.int64())},
    "struct": pa.struct([("a", pa.int64())]),
}


def arrow_form(name: str, encoding: str = "") -> Form:
    """A column of an Arrow type.

    Args:
        name: in ARROW_TYPES or REFUSED_TYPES.
        encoding: "" for none, "dictionary", "words" for a dictionary without null among its entries, "runs".
    """
    plain = _plain_form(name)
    if not encoding:
        return plain
    held = {"dictionary": _dictionary, "words": _words, "runs": _runs}[encoding]
    values = [*plain.usual, *plain.odd, None]
    return Form(
        f"{encoding} of {name}",
        *(plain.hint, plain.usual, plain.odd, plain.reading),
        lambda raws: held(raws, values, plain.held),
        plain.whole_below,
    )


def _plain_form(name: str) -> Form:
    if name in REFUSED_TYPES:
        values = {"binary": b"a", "duration": 1, "list": [1], "struct": {"a": 1}}
        kind = REFUSED_TYPES[name]
        return Form(
            name,
            "text",
            [values[name]],
            [values[name]],
            lambda raw: UNCLEAR,
            lambda raws: pa.array(raws, kind),
        )
    kind = ARROW_TYPES[name]
    if pa.types.is_null(kind):
        return Form(name, "number", [None], [None], lambda raw: None, lambda raws: pa.nulls(len(raws)))
    if name == "bool":
        return Form(name, "number", [True], [False], bool, lambda raws: pa.array(raws, kind))
    if "string" in name:
        storage = {"string": pa.binary(), "large_string": pa.large_binary(), "string_view": pa.binary_view()}[
            name
        ]
        texts, odd = ([text.encode() for text in some] for some in (TEXTS, ODD_TEXTS))
        return Form(
            name,
            "text",
            texts,
            [*odd, *NO_UTF8],
            text_reading,
            lambda raws: pa.array(raws, storage).view(kind),
        )
    width = kind.bit_width
    held = lambda raws: _fixed(raws, kind, width)  # noqa: E731
    if pa.types.is_floating(kind):
        usual, odd = ([_bits(value, width) for value in some] for some in (map(float, _WHOLE), _FLOATS))
        precision = {16: 2**11, 32: 2**24, 64: 2**53}[width]
        return Form(
            name, "number", usual, [*odd, *_NAN_BITS[width]], lambda raw: _float(raw, width), held, precision
        )
    if pa.types.is_integer(kind):
        low, high = (0, 2**width - 1) if name.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
        odd = [
            low,
            high,
            low + 1,
            high - 1,
            -1,
            5000,
            -5000,
            2**24 + 1,
            2**53,
            2**53 + 1,
            2**63 - 1,
            20260315,
            99,
        ]
        usual, odd = ([value for value in some if low <= value <= high] for some in (_WHOLE, odd))
        return Form(name, "whole", usual, odd, int, held)
    if pa.types.is_decimal(kind):
        return _decimal_form(name, kind, width, held)
    return _time_form(name, kind, width, held)


def _decimal_form(name: str, kind: Any, width: int, held: Any) -> Form:
    most, beyond = 10**kind.precision - 1, 2 ** (width - 1) - 1
    unit = 10**kind.scale
    usual = [value * unit for value in _WHOLE if value * unit <= most]
    # The storage has room for more digits than the type declares.
    odd = [
        most,
        -most,
        1,
        -1,
        unit // 2 + 1,
        beyond,
        -beyond - 1,
        min(2020 * unit + 1, most),
        min(5000 * unit, most),
    ]

    def reading(raw: int) -> Any:
        digits = tuple(map(int, str(abs(raw))))
        return Decimal((raw < 0, digits, -kind.scale)) if abs(raw) <= most else UNCLEAR

    return Form(name, "number", usual, odd, reading, held)


def _time_form(name: str, kind: Any, width: int, held: Any) -> Form:
    ends = [2 ** (width - 1) - 1, -(2 ** (width - 1)), 1 - 2 ** (width - 1), 2 ** (width - 1) - 10**6]
    if name.startswith("time") and not name.startswith("timestamp"):
        day = 86_400 * _PER_SECOND[kind.unit]
        return Form(
            name, "name", [0, 1, day // 2], [day - 1, day, day + 1, -1, *ends], lambda raw: UNCLEAR, held
        )
    if name == "date32":
        usual, odd = ([moment // (86_400 * 10**6) for moment in some] for some in (_MOMENTS, _ODD_MOMENTS))
        return Form(name, "time", usual, [*odd, *ends], Day, held)
    per_second = 10**3 if name == "date64" else _PER_SECOND[kind.unit]
    usual, odd = ([moment * per_second // 10**6 for moment in some] for some in (_MOMENTS, _ODD_MOMENTS))
    odd = [*(value for value in odd if abs(value) < 2**63), *ends]
    if name == "date64":
        usual, odd = ([value // 86_400_000 * 86_400_000 for value in some] for some in (usual, odd))
        odd = [value for value in odd if abs(value) < 2**63]
        return Form(name, "time", usual, [*odd, 1], lambda raw: Day(raw // 86_400_000), held)
    if kind.tz is None:
        reading: Callable[[int], Any] = lambda raw: Day(raw // (86_400 * per_second), is_date=False)  # noqa: E731
    else:
        reading = lambda raw: Moment(raw // per_second)  # noqa: E731
    return Form(name, "time" if kind.tz is None else "zoned", usual, odd, reading, held)


def text_reading(raw: bytes) -> Any:
    """What stored bytes are: text, or none that UTF-8 can tell; some sources put signs for those."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return NO_TEXT


def _bits(value: float, width: int) -> int:
    try:
        packed = struct.pack(f"<{_LETTER[width]}", value)
    except OverflowError:
        packed = struct.pack(f"<{_LETTER[width]}", math.copysign(math.inf, value))
    return int.from_bytes(packed, "little")


def _float(bits: int, width: int) -> float:
    return float(struct.unpack(f"<{_LETTER[width]}", bits.to_bytes(width // 8, "little"))[0])


def _fixed(raws: list[Any], kind: Any, width: int) -> Any:
    """An array by its buffers: no conversion looks at a value."""
    data = b"".join((raw or 0).to_bytes(width // 8, "little", signed=(raw or 0) < 0) for raw in raws)
    is_valid = np.packbits(
        np.array([raw is not None for raw in raws], dtype=bool), bitorder="little"
    ).tobytes()
    return pa.Array.from_buffers(kind, len(raws), [pa.py_buffer(is_valid), pa.py_buffer(data)])


def _dictionary(raws: list[Any], values: list[Any], held: Any) -> Any:
    """Entries that no record has, a null among them; nulls by index and by entry; all in one fixed order."""
    places = [None if raw is None and i % 2 else values.index(raw) for i, raw in enumerate(raws)]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), held(values))


def _words(raws: list[Any], values: list[Any], held: Any) -> Any:
    entries = held(values[:-1])
    return pa.DictionaryArray.from_arrays(
        pa.array([None if raw is None else values.index(raw) for raw in raws], pa.int32()), entries
    )


def _runs(raws: list[Any], values: list[Any], held: Any) -> Any:
    ends = [i + 1 for i in range(len(raws)) if i + 1 == len(raws) or raws[i] != raws[i + 1]]
    runs = held([raws[i - 1] for i in ends])
    kind = pa.run_end_encoded(pa.int32(), runs.type)
    return pa.Array.from_buffers(kind, len(raws), [None], children=[pa.array(ends, pa.int32()), runs])
