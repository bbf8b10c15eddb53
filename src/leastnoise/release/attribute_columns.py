"""A column for every attribute that queries mention: what each row asks of it, so that tables can be pivoted.

Labels are not taken apart. A query is made of products, and row i of one asks for row j of each factor, where
i counts through all factors with the last one fastest. So a column follows from the labels of the factors,
and is kept as numbers of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query import Factor, Labels, Linear, Schema, Workload

# What stands before the name of an attribute that a table has a column for already.
APART = "attribute_"

# Values of an attribute up to which texts are always compared with all of them.
_FEW_VALUES = 2**10

# Rows whose texts are looked up together: a list of them is held in memory.
_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of few different texts.

    Attributes:
        known: the texts.
        codes: for every row which of them it has; −1 for none.
        is_ordered: whether the texts are declared values of an ordered attribute, in order.
    """

    known: tuple[str, ...]
    codes: Array
    is_ordered: bool = False

    def changed(self, change: Callable[[str], str]) -> Texts:
        """The column with every text changed."""
        return Texts(tuple(map(change, self.known)), self.codes, self.is_ordered)

    def or_else(self, nothing: str | None) -> Iterator[str | None]:
        """The text of every row, or what stands for none."""
        # −1 is the last.
        texts = (*self.known, nothing)
        for start in range(0, len(self.codes), _AT_ONCE):
            yield from map(texts.__getitem__, self.codes[start : start + _AT_ONCE].tolist())


def attribute_columns(workload: Workload, taken: Collection[str]) -> dict[str, Texts]:
    """What every row asks of each attribute, for those that queries mention, in schema order.

    A condition, or a group of one's own making, has a column of its own under the title that
    ``release["name"]`` gives it, after that of its first attribute. None stands where a row adds up all
    values. Rows of `Linear` say nothing of attributes.

    Args:
        taken: names that the table has for other columns. An attribute of such a name, in whatever case, has
            "attribute_" before it.
    """
    schema = workload.schema
    if schema is None:
        return {}
    found: dict[str, _ColumnRuns] = {}
    start = 0
    for block in workload.blocks:
        first = start
        for term in [] if isinstance(block.query, Linear) else block.query.terms(schema):
            # The factor that is read last counts fastest.
            each = math.prod(factor.labels.length for factor in term)
            n_rows, times = each, 1
            for factor in term:
                each //= factor.labels.length
                own = found.setdefault(factor.title, _ColumnRuns(_place(factor, schema, len(found))))
                own.attributes.add(factor.attributes)
                own.runs.append((first, own.codes_of(factor), each, times))
                times *= factor.labels.length
            first += n_rows
        start += block.n_rows
    ordered = sorted(found.items(), key=lambda pair: pair[1].place)
    names = distinct_names([title for title, _ in ordered], taken)
    return {name: own.column(start, schema) for name, (_, own) in zip(names, ordered, strict=True)}


def _place(factor: Factor, schema: Schema, n_found: int) -> tuple[int, bool, int]:
    """Where a column stands: at its first attribute, whose own comes before what is made of it."""
    first = factor.attributes[0]
    return schema.names.index(first), factor.title != first, n_found


@dataclass(eq=False)
class _ColumnRuns:
    """What was found for one column: texts by number, and runs of rows."""

    place: tuple[int, bool, int]
    texts: dict[str, int] = field(default_factory=dict)
    runs: list[tuple[int, Array, int, int]] = field(default_factory=list)
    # Tables of a cube share their labels.
    seen: dict[Labels, Array] = field(default_factory=dict)
    # The attributes that its factors are about.
    attributes: set[tuple[str, ...]] = field(default_factory=set)

    def codes_of(self, factor: Factor) -> Array:
        """The number of each label of a factor."""
        labels = factor.labels
        if labels not in self.seen:
            numbers = [self.texts.setdefault(text, len(self.texts)) for text in labels]
            self.seen[labels] = np.array(numbers)
        return self.seen[labels]

    def column(self, n_rows: int, schema: Schema) -> Texts:
        # As few bytes as the texts need: a hundred attributes of a million rows are a hundred of these.
        codes = np.full(n_rows, -1, dtype=np.min_scalar_type(-len(self.texts) - 1))
        for first, own, each, times in self.runs:
            codes[first : first + len(own) * each * times].reshape(times, len(own), each)[:] = own[:, None]
        declared = self._declared(schema)
        if declared is None:
            return Texts(tuple(self.texts), codes)
        known = sorted(self.texts, key=declared.__getitem__)
        places = {text: i for i, text in enumerate(known)}
        # −1 stays −1: it is the last.
        new = np.array([*(places[text] for text in self.texts), -1], dtype=codes.dtype)
        return Texts(tuple(known), new[codes], is_ordered=True)

    def _declared(self, schema: Schema) -> dict[str, int] | None:
        """The place of each declared value of an ordered attribute, if the column has no other texts."""
        (names, *others) = self.attributes
        if others or len(names) > 1 or not schema[names[0]].has_ends:
            return None
        attribute = schema[names[0]]
        # Labels of ranges are many fewer, as a rule, and not worth a list of a million values.
        if attribute.size > 4 * len(self.texts) + _FEW_VALUES:
            return None
        places = {attribute.label(i): i for i in range(attribute.size)}
        return places if self.texts.keys() <= places.keys() else None


def distinct_names(titles: Iterable[str], taken: Collection[str] = ()) -> list[str]:
    """Titles as names of columns, all different whatever their case, as SQL and Excel need them."""
    used = {name.casefold() for name in taken}
    names = []
    for title in titles:
        name = title
        while name.casefold() in used:
            name = f"{APART}{name}"
        used.add(name.casefold())
        names.append(name)
    return names
