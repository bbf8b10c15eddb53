"""How many records each cell holds, from codes: whole numbers only, in one reading of the records.

A `Question` says what is counted. Records come a batch at a time; of each batch every attribute's codes are
found once and added up in every block. So one reading answers any number of tables, and what is held in
memory follows from the question, never from how many records there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.data.people import Person
from leastnoise.data.placing import Placer
from leastnoise.data.table_cover import Subset, n_cells
from leastnoise.query import CellClasses, Schema

Array = npt.NDArray[Any]


class Placed(NamedTuple):
    """Some records in their cells.

    Attributes:
        codes: of each attribute one array; the number of its cells stands for none.
        is_rest: which records some attribute has no cell for.
        who: whose each record is, null for nobody's; None if nobody asked.
    """

    codes: list[Array]
    is_rest: npt.NDArray[np.bool_]
    who: Any = None


@dataclass(frozen=True)
class Question:
    """What is counted: blocks of attributes, and the records that some attribute has no cell for.

    Attributes:
        schema: the declared attributes.
        blocks: the attributes of each table that is counted.
        left_out_by: the attributes of which it is counted how many records they leave out.
        person: the column that tells whose the records are; None if nobody asks.
        limit: how many records of each person count; None for all.
        earliest_by: the attribute of time of which the earliest records of a person count.
        classes: classes of cells whose records are counted, too; None without.
    """

    schema: Schema
    blocks: tuple[Subset, ...]
    left_out_by: tuple[str, ...] = ()
    person: Person | None = None
    limit: int | None = None
    earliest_by: str | None = None
    classes: CellClasses | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.schema.names, *(() if self.person is None else (self.person.column,)))

    @cached_property
    def sizes(self) -> list[int]:
        """How many cells each block has."""
        return [n_cells(block, self.schema) for block in self.blocks]

    @property
    def n_counts(self) -> int:
        """The length of a `Tally`: cells of all blocks, records in no cell, those left out, classes."""
        return sum(self.sizes) + 1 + len(self.left_out_by) + self.n_classes

    @property
    def n_classes(self) -> int:
        """How many classes of cells are counted."""
        return 0 if self.classes is None else self.classes.n


class Tally:
    """Counts while they are added up, and the order in which they stand in one array.

    First the cells of every block, the last attribute fastest; then the number of records in no cell; then of
    each attribute that was asked about, how many records it leaves out; then the records of each class.

    Attributes:
        counts: the numbers so far, shape (question.n_counts,).
    """

    def __init__(self, question: Question, counts: npt.NDArray[np.int64] | None = None) -> None:
        self._question = question
        self.counts = np.zeros(question.n_counts, dtype=np.int64) if counts is None else counts
        names = question.schema.names
        self._places = [[names.index(name) for name in block] for block in question.blocks]
        self._flags = [names.index(name) for name in question.left_out_by]
        self._ends = np.cumsum([0, *question.sizes])

    def add(self, placed: Placed) -> None:
        """Count some records in every block."""
        names = self._question.schema.names
        n_rest = int(np.count_nonzero(placed.is_rest))
        used = {k for block in self._places for k in block}
        # Also where every record has cells: what runs does not depend on whether one has none.
        is_kept = ~placed.is_rest
        codes = {k: placed.codes[k][is_kept] for k in used}
        for table, places in zip(self.tables, self._places, strict=True):
            add_cells(table, [codes[k] for k in places], self._sizes(places), len(is_kept) - n_rest)
        self.counts[self._ends[-1]] += n_rest
        for place, k in enumerate(self._flags, start=int(self._ends[-1]) + 1):
            none = self._question.schema[self._question.schema.names[k]].size
            self.counts[place] += np.count_nonzero(placed.codes[k] == none)
        classes = self._question.classes
        if classes is not None:
            of_schema = {name: own[is_kept] for name, own in zip(names, placed.codes, strict=True)}
            self.counts[len(self.counts) - classes.n :] += classes.counts(classes.of_codes(of_schema))

    def _sizes(self, places: Sequence[int]) -> list[int]:
        schema = self._question.schema
        return [schema[schema.names[k]].size for k in places]

    @property
    def tables(self) -> list[npt.NDArray[np.int64]]:
        """The counts of every block: not copies."""
        return [self.counts[first:last] for first, last in zip(self._ends, self._ends[1:], strict=False)]

    @property
    def n_rest(self) -> int:
        """How many records are in no cell."""
        return int(self.counts[self._ends[-1]])

    @property
    def n_left_out(self) -> tuple[int, ...]:
        """How many records each attribute that was asked about leaves out."""
        first = int(self._ends[-1]) + 1
        return tuple(self.counts[first : first + len(self._flags)].tolist())

    @property
    def of_classes(self) -> npt.NDArray[np.int64]:
        """How many records each class of cells holds."""
        return self.counts[len(self.counts) - self._question.n_classes :]


def add_cells(
    table: npt.NDArray[np.int64], codes: Sequence[Array], sizes: Sequence[int], n_records: int
) -> None:
    """Add to the counts of a table some records that have a cell in each of its attributes.

    Args:
        codes: the cells of the records, one array for each attribute, the last one fastest.
        sizes: how many cells each attribute has.
        n_records: how many records these are.
    """
    # Narrow numbers are quicker, and every partial sum is below the number of cells.
    kind: Any = np.uint16 if len(table) <= 2**16 else np.int64
    cell: Array = np.zeros(n_records, dtype=kind)
    for place, (own, size) in enumerate(zip(codes, sizes, strict=True)):
        if place:
            cell *= size
        np.add(cell, own, out=cell, casting="unsafe")
    if len(table) <= 2 * n_records:
        table += np.bincount(cell, minlength=len(table))
    else:
        np.add.at(table, cell, 1)


def placed_batches(batches: Iterable[Sequence[Any]], question: Question) -> Iterator[Placed]:
    """Records in their cells, from batches of the raw columns that a question reads.

    Guarantee:
        The cell of a record depends on its own values and the schema alone.
    """
    placers = [Placer(question.schema[name]) for name in question.schema]
    for columns in batches:
        codes = [place(column) for place, column in zip(placers, columns, strict=False)]
        is_rest = np.zeros(len(codes[0]), dtype=np.bool_)
        for place, own in zip(placers, codes, strict=True):
            is_rest |= own == place.none
        yield Placed(codes, is_rest, None if question.person is None else question.person.ids(columns[-1]))


def count_batches(batches: Iterable[Sequence[Any]], question: Question) -> Tally:
    """The counts of a question over all records of some batches; no limit of records is applied."""
    tally = Tally(question)
    for placed in placed_batches(batches, question):
        tally.add(placed)
    return tally
