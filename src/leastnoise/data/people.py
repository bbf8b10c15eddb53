"""Whose record it is: the rules by which an id tells a person from all others.

The bound on what one person can change holds only if no two people share an id and nobody has two. So ids are
compared exactly, as text, and an id that cannot be told apart exactly belongs to nobody: its records are left
out, like those without an id.

    text              as it is. "7.0" is "7": one missing id makes pandas write all others so.
    whole numbers     their digits, whatever the type: 7, 7.0 and "7" are one person.
    floats            whole ones below 2^53 in size (float32: 2^24), by their digits. All others are nobody's:
                      beyond, different numbers have become the same float before anybody could look.
    placeholders      ids that stand for "unknown", such as 0 or "n/a", are declared in ``person_unknown=``
                      and belong to nobody: shared by many, they would be one person with many records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise.core.errors import DataError
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.data.arrow_values import (
    NOWHERE,
    is_temporal,
    is_text_type,
    plain_array,
    python_values,
    readable_texts,
    stored,
)
from leastnoise.query import SECONDS_OF_DAY, text_of

# Whole numbers below this in size are told apart by floats with as many bits of precision.
_WHOLE_BELOW = {"double": 2**53, "float": 2**24, "halffloat": 2**11}

# Text that other programs write for a whole float: digits and ".0". Fifteen digits are below 2^53.
_WHOLE_FLOAT_TEXT = r"^(0|-?[1-9][0-9]{0,14})[.]0$"


@dataclass(frozen=True)
class Person:
    """The column that names the person, and the ids in it that name nobody, as text."""

    column: str
    unknown: tuple[str, ...] = ()

    def ids(self, column: Any) -> Any:
        """Whose each record is, as an Arrow array of texts; null for nobody's.

        Guarantee:
            An id depends on the stored value and its type alone. No value raises or warns.
        """
        with np.errstate(all="ignore"):
            found = _ids_of(plain_array(column))
        # A placeholder that is no text equals no id.
        held = [text.encode("utf-8", "surrogatepass") for text in self.unknown]
        unknown = pa.array(held, type=pa.large_binary()).view(pa.large_string())
        return pc.if_else(pc.is_in(found, value_set=unknown), pa.scalar(None, pa.large_string()), found)


def _ids_of(column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _ids_of(plain_array(column.dictionary)).take(column.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if is_text_type(kind):
        texts, is_wrong = readable_texts(column)
        found = texts.view(pa.large_string())
        if is_wrong is not None:
            found = pc.if_else(pa.array(is_wrong), pa.scalar(None, pa.large_string()), found)
        is_float = pc.match_substring_regex(found, _WHOLE_FLOAT_TEXT)
        return pc.if_else(is_float, pc.utf8_slice_codeunits(found, 0, -2), found)
    if pa.types.is_integer(kind):
        return column.cast(pa.large_string())
    if pa.types.is_floating(kind):
        number = stored(column).astype(np.float64)
        is_whole = (np.floor(number) == number) & (np.abs(number) < _WHOLE_BELOW[str(kind)])
        # By way of integers, where minus zero is zero.
        digits = pa.array(np.where(is_whole, number, 0).astype(np.int64)).cast(pa.large_string())
        known = pc.and_(pa.array(is_whole), column.is_valid())
        return pc.if_else(known, digits, pa.scalar(None, pa.large_string()))
    texts = map(_written, python_values(column), column.is_valid().to_pylist())
    finest = _finest(kind)
    if finest is not None:
        # Python's times stop at the microsecond, its dates at the day; what is finer keeps its number.
        unit, name = finest
        texts = (
            f"{number}{name}" if text is not None and number % unit else text
            for text, number in zip(texts, stored(column).tolist(), strict=True)
        )
    return pa.array(texts, type=pa.large_string())


def _finest(kind: Any) -> tuple[int, str] | None:
    """How many of the stored numbers Python takes for one moment or day, and the name of their unit."""
    if pa.types.is_date64(kind):
        return SECONDS_OF_DAY * 1000, " ms"
    return (1000, " ns") if is_temporal(kind) and getattr(kind, "unit", None) == "ns" else None


def _written(value: Any, is_there: bool) -> str | None:
    """An id of another type as text; decimals without the zeros behind a point that say nothing."""
    if not is_there or value is None or value is NOWHERE:
        return None
    text = text_of(value)
    return re.sub(r"[.]0*$", "", text) if re.fullmatch(r"-?[0-9]+[.]0*", text) else text


def checked_person(column: str | None, unknown: Iterable[Any]) -> Person | None:
    """The person's column with its placeholders, once both are checked.

    Raises:
        DataError: if the column is no name, or placeholders are given without one or are no ids.
    """
    if column is not None and not isinstance(column, str):
        raise DataError.must("person", "be the name of a column", given=type(column))
    if isinstance(unknown, str) or not isinstance(unknown, Iterable):
        raise DataError.must("person_unknown", "be a list of ids, as in ['unknown', 0]", given=unknown)
    texts = tuple(dict.fromkeys(_id_text(value) for value in unknown))
    if column is None:
        if texts:
            raise DataError(
                Argument("person_unknown", is_subject=True),
                " lists ids of a column; ",
                Remedy("name it too, as in ", Argument("person", "id")),
                field="person_unknown",
            )
        return None
    return Person(column, texts)


def _id_text(value: Any) -> str:
    """An id as it is compared."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    raise DataError(
        "an id in ",
        Argument("person_unknown", is_subject=True),
        f" is a text or a whole number, got {value!r}",
        field="person_unknown",
        given=value,
    )
