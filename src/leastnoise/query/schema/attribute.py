"""What all kinds of attribute share: cells, labels, policies for undeclared values, text read as numbers."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import QueryError, SchemaError, TooLargeError
from leastnoise.core.look_alikes import told_apart
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import MAX_ENTRIES
from leastnoise.query.schema.cleaning import Cleaning, cleaning_from

WHOLE_TEXT = r"[+-]?[0-9]+([.]0*)?"
EXPONENT_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)[eE][+-]?[0-9]+"
# Digits of a whole number that is told from others by its text, at most; those that declared ones have.
MAX_DIGITS = 10_000
# For bins, whose ends may be open: frames written to CSV spell infinity in one of these ways.
NUMBER_TEXT = r"[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[Ii]nf(inity)?)"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included; truth values and NaN are not."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool) and bool(value == value)


def is_null(value: object) -> bool:
    """Whether a raw value is missing: None, NaN, or a missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, (Real, Decimal)) and bool(value != value)


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python number, text or moment it stands for."""
    if isinstance(value, np.datetime64):
        # Years come by division, which cannot wrap; beyond those of the calendar a moment is only its text.
        year = 0 if np.isnat(value) else 1970 + int(value.astype("datetime64[Y]").astype(np.int64))
        if not 1 <= year <= 9999:
            return None if np.isnat(value) else str(value)
        # In whole microseconds: finer ones would come as a number.
        return value.astype("datetime64[us]").item()
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def text_of(value: Any) -> str:
    """A raw value written out, as text categories compare it; a whole float as a whole number."""
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    if isinstance(value, Decimal):
        # Never with an exponent, in which libraries differ.
        return f"{value:f}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def whole_of(value: Any) -> int | None:
    """The whole number that a raw value equals, be it 18, 18.0 or the text "18.0" or "1.8e1"."""
    if not is_number(value):
        text = text_of(value)
        if re.fullmatch(WHOLE_TEXT, text):
            return _whole_in(text)
        value = float(text) if re.fullmatch(EXPONENT_TEXT, text) else math.nan
    return int(value) if abs(value) < math.inf and value == int(value) else None


def _whole_in(text: str) -> int:
    """The whole number in a text; all of more than MAX_DIGITS digits are one, beyond every other."""
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").partition(".")[0].lstrip("0")
    # Decimal reads any number of digits where int() stops at 4,300, but takes a minute for a million.
    return sign * (10**MAX_DIGITS if len(digits) > MAX_DIGITS else int(Decimal(digits or 0)))


def float_of(value: Any) -> float | None:
    """The float64 nearest to a raw value, or None if it is not a number."""
    if not is_number(value):
        text = text_of(value)
        return float(text) if re.fullmatch(NUMBER_TEXT, text) else None
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)


# What a text that is no number is read as, so that nothing else in it is.
_NO_NUMBER = "?"

Value = str | int | float
Mask = npt.NDArray[np.bool_]

SIGNS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, init=False, repr=False)
class Attribute(NotebookValue, ABC):
    """Declared values in order, one cell each, and at most one more cell, the other cell.

    Attributes:
        outside: where a value that is not declared goes: "drop" leaves
            the record out, "clamp" takes the nearest end, "other" the other cell.
        null: where a null or NaN goes: "drop" or "other".
        other: the label of the other cell, which is the last; None if there is no such cell.
        clean: what is done to the text of a value before it is placed; None for nothing.
    """

    _unlisted = unlisted(
        "any_steps called cells_label compared day_in has_ends is_text matching n_values null_words "
        "numbers numbers_held offsets own_steps position prefix_label span span_label synonym_cells "
        "values_label with_policies"
    )

    outside: str
    null: str
    other: str | None
    clean: Cleaning | None

    # Steps of cleaning that make sense for values of any kind; each kind has further ones.
    any_steps: ClassVar[tuple[str, ...]] = ("trim", "normalise", "ignore_case", "nulls", "synonyms")
    own_steps: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = ""
    has_ends: ClassVar[bool] = False

    def _set_policies(self, outside: str | None, null: str, other: str | None, clean: Any = None) -> None:
        """Check the policies and the cleaning, and keep them; the declared values are set before."""
        if outside is None:
            outside = "drop" if other is None else "other"
        if outside == "clamp" and not self.has_ends:
            raise SchemaError.must("outside", "be 'drop' or 'other' for values without ends", given=outside)
        if outside not in ("drop", "clamp", "other"):
            raise SchemaError.must("outside", "be 'drop', 'clamp' or 'other'", given=outside)
        if null not in ("drop", "other"):
            raise SchemaError.must("null", "be 'drop' or 'other'", given=null)
        if other is None and "other" in (outside, null):
            which = "outside" if outside == "other" else "null"
            raise SchemaError.must(
                "other", f"be the label of a cell if {which}='other', as in other='unknown'", given=None
            )
        if other is not None and (not isinstance(other, str) or self._names(other)):
            raise SchemaError.must("other", "be a text that names no declared value", given=other)
        if other is not None and "other" not in (outside, null):
            raise SchemaError.must(
                "other",
                "be left out where no record would be in its cell",
                given=other,
                remedy="or say outside='other' or null='other'",
            )
        for field, value in {"outside": outside, "null": null, "other": other, "clean": None}.items():
            object.__setattr__(self, field, value)
        cleaning = cleaning_from(clean)
        if cleaning is not None:
            self._check_cleaning(cleaning)
            object.__setattr__(self, "clean", cleaning)

    def _check_cleaning(self, clean: Cleaning) -> None:
        """Refuse steps that no value of this kind could need, and words that mean two things."""
        for step in clean.to_dict():
            if step not in (*self.any_steps, *self.own_steps):
                known = ", ".join((*self.any_steps, *self.own_steps))
                raise SchemaError.must("clean", f"hold steps for these values, which are {known}", given=step)
        meant: dict[str, object] = {}
        for word, value in clean.synonyms:
            cell = self.position(value)
            if cell is None or cell == self.n_values:
                raise SchemaError.must("synonyms", "mean a declared value", given=value)
            if meant.setdefault(clean.folded(word), cell) != cell:
                raise SchemaError.must("synonyms", "mean one value each", given=word)
        for word in clean.nulls:
            if meant.setdefault(clean.folded(word), None) is not None:
                raise SchemaError.must("nulls", "not be synonyms of a value too", given=word)

    # ---------------------------------------------------------------- what each kind says

    @property
    @abstractmethod
    def n_values(self) -> int:
        """The number of declared values, without the other cell."""

    @abstractmethod
    def span_label(self, first: int, last: int) -> str:
        """The label of cells first to last together.

        Args:
            first: the number of the first cell, from 0.
            last: the number of the last cell, included.
        """

    @abstractmethod
    def prefix_label(self, i: int) -> str:
        """The label of all cells up to cell i.

        Args:
            i: the number of the last cell, from 0.
        """

    @abstractmethod
    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The first and the last index of a range from low to high, or None if it holds no value.

        Args:
            low: the value at which the range begins.
            high: the value at which it ends: included for whole numbers, names and periods; for bins, the
                upper edge.
        """

    @abstractmethod
    def _names(self, text: str) -> bool:
        """Whether a text is already the label of something declared."""

    @abstractmethod
    def _position(self, value: Any) -> int | None:
        """The index of a declared value."""

    @abstractmethod
    def _placed(self, value: Any) -> int | None:
        """The index of a raw value that is not null, ends included if the policy is to clamp."""

    @abstractmethod
    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        """Which declared values satisfy ``name sign value``, shape (n_values,)."""

    @abstractmethod
    def _values_to_plain(self) -> Any:
        """The declared values as JSON and TOML hold them."""

    def _cleaned(self, value: Any, clean: Cleaning) -> Any:
        """A raw value that is neither null nor a synonym, as it is placed; numbers without their marks."""
        if not isinstance(value, str):
            return value
        number = clean.number(clean.trimmed(value))
        return _NO_NUMBER if number is None else number

    @cached_property
    def null_words(self) -> frozenset[str]:
        """The words that stand for a null, in the form that is compared."""
        return frozenset() if self.clean is None else frozenset(map(self.clean.folded, self.clean.nulls))

    @cached_property
    def synonym_cells(self) -> dict[str, int]:
        """The words that stand for a declared value, in the form that is compared, with its index."""
        pairs = () if self.clean is None else self.clean.synonyms
        folded = str if self.clean is None else self.clean.folded
        return {folded(word): self.position(value) or 0 for word, value in pairs}

    # ---------------------------------------------------------------- what follows

    @property
    def size(self) -> int:
        """The number of cells, the other cell included."""
        return self.n_values + (self.other is not None)

    def label(self, i: int) -> str:
        """The label of cell i.

        Args:
            i: the number of the cell, from 0.
        """
        return self.span_label(i, i)

    def values_label(self) -> str:
        """A short label of the declared values, as messages show them: "0–115", or "F, M"."""
        return self.span_label(0, self.n_values - 1)

    def cells_label(self) -> str:
        """A short label of the declared values and of the other cell."""
        return self.values_label() + ("" if self.other is None else f" or {self.other}")

    def position(self, value: Value) -> int | None:
        """The index of a declared value, or of the other cell by its label; None for anything else.

        Args:
            value: a declared value, as a query names it.
        """
        value = plain(value)
        if self.other is not None and isinstance(value, str) and value == self.other:
            return self.n_values
        return self._position(value)

    def place(self, value: Any) -> int | None:
        """The cell that a record with this raw value belongs to, or None if it is dropped.

        Accepts any value that a table can hold, None and NaN included, and reads it as the engine does (see
        `leastnoise.data`): the two must always agree.

        Args:
            value: the raw value of a record.
        """
        value = plain(value)
        if self.clean is not None and not is_null(value):
            words = self.clean.folded(text_of(value))
            is_empty = self.clean.trim and not words and isinstance(value, str)
            if words in self.synonym_cells and not is_empty:
                return self.synonym_cells[words]
            value = None if is_empty or words in self.null_words else self._cleaned(value, self.clean)
        if is_null(value):
            return self.n_values if self.null == "other" else None
        found = self._placed(value)
        return self.n_values if found is None and self.outside == "other" else found

    def with_policies(self, *, outside: str, null: str = "drop", other: str | None = None) -> Self:
        """The same declared values with other policies; values without ends are dropped, not clamped.

        Args:
            outside: where undeclared values go.
            null: where nulls go.
            other: the label of the other cell; None for none.
        """
        made = copy(self)
        policies = {"outside": outside if self.has_ends or outside != "clamp" else "drop"}
        for field, value in (policies | {"null": null, "other": other}).items():
            object.__setattr__(made, field, value)
        return made

    def matching(self, name: str, sign: str, value: Any) -> Mask:
        """Which cells satisfy ``name sign value``, shape (size,).

        Args:
            name: what the attribute is called, for messages.
            sign: ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.
            value: what the values are compared with.

        The other cell equals its label and nothing else, and is neither above nor
        below anything.

        Raises:
            QueryError: if this kind of attribute cannot be compared that way.
        """
        if sign not in SIGNS:
            raise QueryError.must("condition", f"compare by one of {', '.join(SIGNS)}", given=sign)
        self._check_listable(name)
        value = plain(value)
        mask = np.zeros(self.size, dtype=bool)
        if self.other is not None and isinstance(value, str) and value == self.other and sign in SIGNS[:2]:
            mask[-1] = True
            return mask if sign == "==" else ~mask
        mask[: self.n_values] = self._compared(name, sign, value)
        if self.other is not None:
            mask[-1] = sign == "!="
        return mask

    def numbers(self) -> list[int] | list[float] | None:
        """The declared values as numbers, or None if they are not numbers."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `Schema.from_dict` reads back; policies only where they are not the default."""
        usual = {"outside": "drop" if self.other is None else "other", "null": "drop", "other": None}
        chosen = {field: getattr(self, field) for field in ("other", "outside", "null")}
        policies = {field: value for field, value in chosen.items() if value != usual[field]}
        clean = {} if self.clean is None else {"clean": self.clean.to_dict()}
        return {self.kind: self._values_to_plain()} | policies | clean

    def __repr__(self) -> str:
        given = {key: value for key, value in self.to_dict().items() if key != self.kind}
        policies = "".join(f", {key}={value!r}" for key, value in given.items())
        return f"{type(self).__name__}({self._shown()}{policies})"

    def _shown(self) -> str:
        return repr(self._values_to_plain())

    def _check_listable(self, name: str) -> None:
        if self.size > MAX_ENTRIES:
            raise TooLargeError.must(
                name,
                f"have at most {MAX_ENTRIES:,} cells to be listed",
                given=self.size,
                remedy="declare Bins instead",
            )

    def _or_other(self) -> str | None:
        """How the other cell is compared with, where there is one."""
        return None if self.other is None else f"the other cell is {self.other!r}, by == or !="


def listed(values: Sequence[Any], beside: Any = None) -> str:
    """The first dozen of some declared values, for a message; those that look alike with escapes.

    Args:
        beside: a value that the message shows too.
    """
    shown = ", ".join(told_apart(values[:12], [beside]))
    return f"{shown}, …" if len(values) > 12 else shown


def compare_numbers(sign: str, left: Any, right: Any) -> Any:
    """``left sign right``, exact between whole numbers and floats of any size."""
    match sign:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right
