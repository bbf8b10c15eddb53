"""How far a table keeps to its schema: true numbers about real records, for the eyes of its owner alone.

Everything else in this package either hides what it counts or adds noise to it. This does
neither: whoever may look at the table itself may look at this, and nobody else. What it finds is
handed to the caller and goes nowhere else; `repr` shows none of it.
"""

# ruff: noqa: S608 - queries are put together from identifiers made here; values are bound.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from leastnoise.core.notebook import NotebookValue
from leastnoise.data.arrow_values import NOWHERE, plain_array, python_values
from leastnoise.data.connections import withheld
from leastnoise.data.counting import Placed, Question, by_codes
from leastnoise.data.handle import Data
from leastnoise.data.limiting import sorting_engine
from leastnoise.data.placing import Placer
from leastnoise.data.raw_table import DroppedRecords
from leastnoise.data.scan_progress import ScanWatch
from leastnoise.query import Attribute, Integers, text_of

# Different undeclared values of a column that are remembered, at most; beyond, the rarest are forgotten.
_MAX_EXAMPLES = 2**18
# The label of a cell for missing values alone, which no declared value is called.
_MISSING = "\0"


@dataclass(frozen=True, eq=False, repr=False)
class ColumnFit:
    """How many records of a column are not what its attribute declares.

    Attributes:
        n_missing: those without a value.
        n_unreadable: of whole numbers or bins, those with a value that is no such number.
        n_undeclared: those with any other value that is not declared.
        n_undeclared_left_out: those of them that the policy does not count elsewhere.
        n_left_out: all that the policies do not count anywhere.
        examples: some values that are not declared, as text, and how often each occurs.
    """

    name: str
    attribute: Attribute
    n_missing: int
    n_unreadable: int
    n_undeclared: int
    n_undeclared_left_out: int
    n_left_out: int
    examples: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        return f"ColumnFit({self.name!r}, not private)"


@dataclass(frozen=True, eq=False, repr=False)
class PersonFit:
    """How many records a limit on the records of one person would cut, among those that count.

    Attributes:
        n_nobody: records that name no person, which are left out.
        n_persons: different persons.
        n_over: persons with more records than the limit.
        n_cut: records beyond it.
    """

    n_nobody: int
    n_persons: int
    n_over: int
    n_cut: int

    def __repr__(self) -> str:
        return "PersonFit(not private)"


@dataclass(frozen=True, eq=False, repr=False)
class SchemaFit(NotebookValue):
    """How far a table keeps to its schema.

    Attributes:
        n_records: all that could be read.
        n_counted: those that every attribute has a cell for.
        columns: one entry for each attribute, in the order of the schema.
        person: what a limit per person would do; None where the data names no person.
        dropped: what of CSV files is no record that could be read, by reason.
    """

    n_records: int
    n_counted: int
    columns: tuple[ColumnFit, ...]
    person: PersonFit | None = None
    dropped: DroppedRecords = field(default_factory=DroppedRecords)

    def __repr__(self) -> str:
        return f"SchemaFit({len(self.columns)} columns, not private)"


def fit_of(data: Data, *, records_per_person: int = 1, n_examples: int = 0) -> SchemaFit:
    """How many records of a table are not what its schema declares, column by column.

    Args:
        data: a table, from `vectorize`.
        records_per_person: the limit to hold persons against, where the data names them.
        n_examples: how many undeclared values to give of each column, the most frequent first.

    Guarantee:
        None: the numbers are true and have no noise. They are for those who may see the table.

    Raises:
        DataError: if the table cannot be read.
    """
    return withheld("checking the table", lambda: _fit(data, records_per_person, n_examples))


def _fit(data: Data, records_per_person: int, n_examples: int) -> SchemaFit:
    question = Question(data.schema, (), person=data.who)
    dropped = DroppedRecords()
    columns = [_ColumnTally(name, data.schema[name], n_examples) for name in data.schema]
    # Records, and those that every attribute has a cell for.
    numbers = np.zeros(2, dtype=np.int64)

    def records() -> Iterator[Placed]:
        for batch in data.batches(question, ScanWatch(None), dropped):
            codes = [own.add(column) for own, column in zip(columns, batch, strict=False)]
            placed = by_codes(codes, question, None if data.who is None else data.who.ids(batch[-1]))
            numbers[0] += len(placed.is_rest)
            numbers[1] += np.count_nonzero(~placed.is_rest)
            yield placed

    person = None
    if data.who is None:
        for _ in records():
            pass
    else:
        person = _persons(records(), data.schema.shape, records_per_person)
    n_records, n_counted = numbers.tolist()
    return SchemaFit(n_records, n_counted, tuple(own.fit() for own in columns), person, dropped)


class _ColumnTally:
    """What is found of one column, batch by batch."""

    def __init__(self, name: str, attribute: Attribute, n_examples: int) -> None:
        self._name, self._attribute, self._n_examples = name, attribute, n_examples
        # By the policies; by what is declared alone, with missing values apart; and as if ends were open, by
        # which a number that is not declared is told from what is no number.
        self._place = Placer(attribute)
        self._declare = Placer(attribute.with_policies(outside="drop", null="other", other=_MISSING))
        self._read = Placer(_open(attribute)) if attribute.has_ends else None
        self._numbers = np.zeros(5, dtype=np.int64)
        self._examples: Counter[str] = Counter()
        self.none = self._place.none

    def add(self, column: Any) -> Any:
        """The codes of some values by the policies."""
        codes, declared = self._place(column), self._declare(column)
        is_missing, is_not_declared = declared == self._attribute.n_values, declared == self._declare.none
        is_read = ~is_missing if self._read is None else self._read(column) != self._read.none
        is_undeclared, is_out = is_not_declared & is_read, codes == self.none
        found = (is_missing, is_not_declared & ~is_read, is_undeclared, is_undeclared & is_out, is_out)
        self._numbers += [int(np.count_nonzero(own)) for own in found]
        if self._n_examples:
            self._remember(column, is_not_declared)
        return codes

    def _remember(self, column: Any, which: Any) -> None:
        """Count the values of a column, as they are written out."""
        chosen = plain_array(column).filter(pa.array(which))
        if pa.types.is_dictionary(chosen.type):
            chosen = chosen.dictionary_decode()
        for value in python_values(chosen):
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            self._examples["a value beyond the calendar" if text is NOWHERE else text_of(text)] += 1
        if len(self._examples) > _MAX_EXAMPLES:
            self._examples = Counter(dict(self._examples.most_common(_MAX_EXAMPLES // 2)))

    def fit(self) -> ColumnFit:
        """What was found."""
        most = sorted(self._examples.items(), key=lambda pair: (-pair[1], pair[0]))[: self._n_examples]
        missing, unreadable, undeclared, undeclared_out, out = self._numbers.tolist()
        return ColumnFit(
            self._name, self._attribute, missing, unreadable, undeclared, undeclared_out, out, tuple(most)
        )


def _open(attribute: Attribute) -> Attribute:
    """An attribute with a cell for everything that is of its kind, declared or not."""
    if isinstance(attribute, Integers):
        # A number between two of a range is a whole number, too.
        attribute = Integers(range(attribute.values[0], attribute.values[-1] + 1), clean=attribute.clean)
    return attribute.with_policies(outside="clamp")


def _persons(records: Iterator[Placed], sizes: tuple[int, ...], limit: int) -> PersonFit:
    each = "SELECT who, count(*) AS times FROM placed WHERE NOT rest GROUP BY who"
    with sorting_engine(records, sizes) as engine:
        numbers = engine.execute(
            "SELECT coalesce(sum(times) FILTER (who IS NULL), 0), count(*) FILTER (who IS NOT NULL), "
            "count(*) FILTER (who IS NOT NULL AND times > $most), "
            "coalesce(sum(times - $most) FILTER (who IS NOT NULL AND times > $most), 0) "
            f"FROM ({each})",
            {"most": min(limit, 2**62)},
        ).fetchone()
    return PersonFit(*map(int, numbers))
