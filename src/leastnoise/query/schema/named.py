"""Attributes that hold names: what all of them share, and categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.core.look_alikes import escaped
from leastnoise.query.schema.attribute import (
    Attribute,
    Mask,
    Value,
    compare_numbers,
    is_number,
    listed,
    plain,
    text_of,
    whole_of,
)
from leastnoise.query.schema.cleaning import Cleaning
from leastnoise.query.schema.code_list import CODE, read_code_list

# Values that are listed in full where an attribute is shown in short.
_LISTED = 8


@dataclass(frozen=True, init=False, repr=False)
class Named(Attribute):
    """Values known by name, all text or all whole numbers: categories, or the leaves of a hierarchy.

    Attributes:
        labels: what people call some of the names, which are then codes: pairs (name, label). Records and
            conditions hold codes; answers show labels.
    """

    values: tuple[Value, ...]
    labels: tuple[tuple[str, str], ...]

    own_steps: ClassVar[tuple[str, ...]] = ("digits", "decimal", "thousands")

    @property
    def n_values(self) -> int:
        return len(self.values)

    @cached_property
    def _index(self) -> dict[Value, int]:
        return {value: i for i, value in enumerate(self.values)}

    @property
    def is_text(self) -> bool:
        """Whether the values are text; otherwise they are whole numbers."""
        return isinstance(self.values[0], str)

    def span_label(self, first: int, last: int) -> str:
        return self.label(first) if first == last else f"{self.label(first)} to {self.label(last)}"

    def label(self, i: int) -> str:
        """The label of cell i."""
        return self.called(self.values[i]) if i < self.n_values else str(self.other)

    def called(self, name: Value) -> str:
        """The label of a value or a region, or its name where it has no label.

        Args:
            name: a declared value, or the name of a region.
        """
        return self._called.get(str(name), str(name))

    @cached_property
    def _called(self) -> dict[str, str]:
        """The label of each code that has one, with the code behind it where several share the label."""
        times = Counter(label for _, label in self.labels)
        return {name: f"{label} ({name})" if times[label] > 1 else label for name, label in self.labels}

    def _set_labels(self, labels: Any, names: Iterable[str]) -> None:
        """Check and keep the labels; nothing may be called like something else.

        Args:
            names: all that may have a label.
        """
        if labels is None:
            labels = {}
        is_text = isinstance(labels, Mapping) and all(
            isinstance(label, str) and label for label in labels.values()
        )
        if not is_text:
            wanted = "be a dict of values to texts, as in {'F': 'female', 'M': 'male'}"
            raise SchemaError.must("labels", wanted, given=type(labels))
        plain_labels = {str(plain(name)): label for name, label in labels.items()}
        declared = set(names)
        for name, label in plain_labels.items():
            if name not in declared:
                raise SchemaError.must("labels", "be of declared values", given=name)
            if label in declared and label != name:
                raise SchemaError.must("labels", "not be the name of another value", given=label)
        object.__setattr__(self, "labels", tuple(sorted(plain_labels.items())))
        times = Counter(map(self.called, declared))
        taken = next((text for text, number in sorted(times.items()) if number > 1), None)
        if taken is not None:
            raise SchemaError.must("labels", "differ", given=taken)

    def to_dict(self) -> dict[str, Any]:
        labels = {"labels": dict(self.labels)} if self.labels else {}
        found = super().to_dict()
        return {self.kind: found.pop(self.kind)} | labels | found

    def values_label(self) -> str:
        shown = ", ".join(escaped([self.called(value) for value in self.values[:_LISTED]]))
        return shown if self.n_values <= _LISTED else f"{shown}, … ({self.n_values:,} values)"

    def prefix_label(self, i: int) -> str:
        return f"up to {self.label(i)}"

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices from one named value to another, both included."""
        first, last = self.position(low), self.position(high)
        return None if first is None or last is None or first > last else (first, last)

    def _names(self, text: str) -> bool:
        return any(text in (str(value), self.called(value)) for value in self.values)

    def _position(self, value: Any) -> int | None:
        if isinstance(value, bool) or not (isinstance(value, str) or is_number(value)):
            return None
        return self._index.get(value)

    def _placed(self, value: Any) -> int | None:
        if self.is_text:
            return self._compared_index.get(text_of(value))
        number = whole_of(value)
        return None if number is None else self._index.get(number)

    @cached_property
    def compared(self) -> tuple[Value, ...]:
        """The values in the form in which cleaned values are compared with them."""
        if self.clean is None or not self.is_text:
            return self.values
        return tuple(self.clean.folded(str(value)) for value in self.values)

    @cached_property
    def _compared_index(self) -> dict[Value, int]:
        return {value: i for i, value in enumerate(self.compared)}

    def _cleaned(self, value: Any, clean: Cleaning) -> Any:
        if not self.is_text:
            return super()._cleaned(value, clean)
        return clean.code(clean.folded(text_of(value)))

    def _check_cleaning(self, clean: Cleaning) -> None:
        own = ("digits",) if self.is_text else ("decimal", "thousands")
        for step in ("digits", "decimal", "thousands"):
            if step in clean.to_dict() and step not in own:
                raise SchemaError.must(
                    "clean", f"hold steps for {'text' if self.is_text else 'numbers'}", given=step
                )
        super()._check_cleaning(clean)
        if not self.is_text:
            return
        words = {clean.folded(word) for word in (*clean.nulls, *(word for word, _ in clean.synonyms))}
        seen: set[str] = set()
        for value in map(str, self.values):
            compared = clean.folded(value)
            if (
                clean.trimmed(value) != value
                or clean.code(compared) != compared
                or (clean.trim and not value)
            ):
                raise SchemaError.must("clean", "leave declared values as they are", given=value)
            if compared in seen:
                step, off = _step_that_equates(clean, value, self.values)
                raise SchemaError.must(step, f"be {off} where values differ by it alone", given=value)
            if compared in words:
                raise SchemaError.must("clean", "give declared values no second meaning", given=value)
            seen.add(compared)


def _step_that_equates(clean: Cleaning, value: str, values: Sequence[Value]) -> tuple[str, str]:
    """The step that makes a declared value equal to another, and what it must be instead."""
    bare = clean.only(("trim", "normalise"))
    is_normal = sum(bare.folded(str(other)) == bare.folded(value) for other in values) > 1
    return ("normalise", "left out") if is_normal else ("ignore_case", "false")


@dataclass(frozen=True, init=False, repr=False)
class Categories(Named):
    """Named values in the order given; with ``other=`` one more cell takes every value not named.

    Args:
        values: the categories in a list, all text or all whole numbers.
        other: the label of one more cell, for undeclared values, nulls or both; None for no such cell.
        outside: where undeclared values go: "drop" leaves the record out, "other" counts it in the other
            cell. By default "other" where there is such a cell, else "drop".
        null: where nulls and NaN go: "drop" leaves the record out, "other" counts it in the other cell.
        clean: what is done to the text of a value before it is placed: a `Cleaning`, or a dict of its
            arguments. None for nothing.
        labels: a dict of labels, for values that are codes; answers show the labels. None for none.

    Example:
        >>> Categories(["F", "M"], null="other", other="unknown").size
        3
        >>> Categories(["1", "2"], labels={"1": "female", "2": "male"}).label(1)
        'male'
    """

    kind: ClassVar[str] = "categories"

    def __init__(
        self,
        values: Sequence[Value],
        other: str | None = None,
        *,
        outside: str | None = None,
        null: str = "drop",
        clean: Any = None,
        labels: Mapping[Any, str] | None = None,
    ) -> None:
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            raise SchemaError.must(
                "categories",
                "be written out in a list, as in Categories(['F', 'M'])",
                given=type(values),
                remedy="they are public knowledge and never read from the table",
            )
        object.__setattr__(self, "values", checked_names([plain(value) for value in values], "categories"))
        self._set_labels(labels, map(str, self.values))
        self._set_policies(outside, null, other, clean)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        code: str = CODE,
        label: str | None = None,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
    ) -> Categories:
        """The categories in a code list: a public CSV or JSON file of codes and their labels.

        The file is read immediately and becomes part of the schema: use a codebook or a register, never the
        private table.

        Args:
            path: the CSV or JSON file.
            code: the name of the column of codes.
            label: the name of the column of labels; by default "label", if there is such a column.
            outside, null, other, clean: as for `Categories`.

        Raises:
            SchemaError: if the file is not such a list; the message names the line and quotes nothing from
                it.
        """
        found = read_code_list(path, code=code, label=label)
        return cls(found.codes, other, outside=outside, null=null, clean=clean, labels=found.labels)

    def numbers(self) -> list[int] | None:
        return None if self.is_text else [int(value) for value in self.values]

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        if sign in ("==", "!="):
            found = self._position(value)
            if found is None:
                wanted = f"be compared with one of its values, {listed(self.values, value)}"
                raise QueryError.must(name, wanted, given=value, remedy=self._or_other())
            mask = np.arange(self.n_values) == found
            return mask if sign == "==" else ~mask
        if self.is_text:
            raise QueryError.must(name, "be compared by == or !=, as names have no order", given=sign)
        if not is_number(value):
            raise QueryError.must(name, "be compared with a number", given=value)
        # One by one in Python, where numbers beyond 64 bits compare exactly.
        return np.array([compare_numbers(sign, own, value) for own in self.values], dtype=bool)

    def _values_to_plain(self) -> list[Value]:
        return list(self.values)


def checked_names(values: Sequence[Any], what: str) -> tuple[Value, ...]:
    """The values, if they are all text or all whole numbers and differ."""
    if not values:
        raise SchemaError.must(what, "hold at least one value", given=[])
    kinds = {type(value) for value in values}
    if not (kinds <= {str} or kinds <= {int}):
        raise SchemaError.must(
            what,
            "be all text or all whole numbers",
            given=sorted(kind.__name__ for kind in kinds),
            remedy="use Bins for measured numbers",
        )
    seen: set[Value] = set()
    for value in values:
        if value in seen:
            raise SchemaError.must(what, "differ", given=value)
        seen.add(value)
    return tuple(values)
