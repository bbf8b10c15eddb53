"""How many records each cell holds, from codes: whole numbers only, in one reading of the records.

A `Question` says what is counted. Records come a batch at a time; of each batch every attribute's codes are
found once and added up in every block of a few attributes, of which tables are sums. So one reading answers
any number of tables, and what is held in memory follows from the question, never from how many records there
are.

Where all blocks together are small, they are what is held, and a table is added up when it is asked for.
Where they are not, records are taken a million at a time and the tables themselves are held: the 161,700
tables of three out of 100 attributes with ten values each, and a million records, took 3 minutes of one
processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError, TooLargeError
from leastnoise.data.connections import withheld
from leastnoise.data.people import Person
from leastnoise.data.placing import Placer
from leastnoise.data.table_cover import Subset, first_holders, n_cells, summed
from leastnoise.query import AnyClasses, Schema

Array = npt.NDArray[Any]

# Counts that are held at once, at most: eight bytes each, 2 GiB in all.
MAX_HELD_COUNTS = 2**28
# Cells of all blocks that are held as they are, at most.
MAX_HELD_CELLS = 2**24
# Records that are held at once where blocks are not, about: a hundred attributes of up to 256 values take
# 100 MiB.
_RECORDS_AT_ONCE = 2**20


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
    classes: AnyClasses | None = None

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


def by_codes(codes: list[Array], question: Question, who: Any = None) -> Placed:
    """Records by the codes of their cells, of each attribute one array."""
    is_rest = np.zeros(len(codes[0]), dtype=np.bool_)
    for own, size in zip(codes, question.schema.shape, strict=True):
        is_rest |= own == size
    return Placed(codes, is_rest, who)


def placed_batches(batches: Iterable[Sequence[Any]], question: Question) -> Iterator[Placed]:
    """Records in their cells, from batches of the raw columns that a question reads.

    Guarantee:
        The cell of a record depends on its own values and the schema alone.
    """
    placers = [Placer(question.schema[name]) for name in question.schema]
    for columns in batches:
        codes = [place(column) for place, column in zip(placers, columns, strict=False)]
        yield by_codes(codes, question, None if question.person is None else question.person.ids(columns[-1]))


def tallied(records: Iterable[Placed], question: Question) -> Tally:
    """The counts of a question over some records, all of them."""
    tally = Tally(question)
    for placed in records:
        tally.add(placed)
    return tally


# ------------------------------------------------------------------ all tables of a question


class CountedTables:
    """Counts of tables of some attributes, and of the records in none of their cells; `repr` shows none.

    Called with the names of some of these tables, it gives their counts.

    Attributes:
        n_rest: how many records some attribute has no cell for.
        n_left_out: of each attribute that was asked about, how many of them it has no cell for.
        of_classes: how many records each class of cells holds, if classes were asked for.
    """

    def __init__(self, subsets: Iterable[Subset], question: Question) -> None:
        self._asked = list(subsets)
        # A table that is asked for twice is counted once.
        self._subsets = list(dict.fromkeys(self._asked))
        self._question = question
        self._holders = first_holders(self._subsets, question.blocks)
        self._block_of = {
            self._subsets[k]: b for b, block in enumerate(question.blocks) for k in self._holders[block]
        }
        self._tally: Tally | None = None
        self._tables: dict[Subset, npt.NDArray[np.int64]] = {}
        self.n_rest = 0
        self.n_left_out: tuple[int, ...] = ()
        self.of_classes: npt.NDArray[np.int64] = np.zeros(question.n_classes, dtype=np.int64)

    def add(self, records: Iterable[Placed]) -> None:
        """Count all records of a table."""
        if sum(self._question.sizes) <= MAX_HELD_CELLS:
            self.hold(tallied(records, self._question))
        else:
            self._add_up(records)

    def hold(self, tally: Tally) -> None:
        """Take the counts of all blocks."""
        self._tally, self.n_rest, self.n_left_out = tally, tally.n_rest, tally.n_left_out
        self.of_classes = tally.of_classes

    def _add_up(self, records: Iterable[Placed]) -> None:
        question, schema = self._question, self._question.schema
        self._tables = {
            subset: np.zeros([schema[name].size for name in subset], dtype=np.int64)
            for subset in self._subsets
        }
        # Blocks are counted piece by piece; the records in no cell are those of a question without blocks.
        rest = Tally(Question(schema, (), question.left_out_by, classes=question.classes))
        for piece in _in_pieces(records):
            rest.add(piece)
            is_kept = ~piece.is_rest
            codes = dict(zip(schema.names, (own[is_kept] for own in piece.codes), strict=True))
            for block in question.blocks:
                self._add_block(block, [codes[name] for name in block], int(np.count_nonzero(is_kept)))
        self.n_rest, self.n_left_out, self.of_classes = rest.n_rest, rest.n_left_out, rest.of_classes

    def _add_block(self, block: Subset, codes: Sequence[npt.NDArray[np.int64]], n_records: int) -> None:
        schema = self._question.schema
        counts = np.zeros(n_cells(block, schema), dtype=np.int64)
        add_cells(counts, codes, [schema[name].size for name in block], n_records)
        for place in self._holders[block]:
            subset = self._subsets[place]
            table = self._tables[subset]
            table += summed(counts, block, subset, schema)

    def __call__(self, subsets: Sequence[Subset] | AnyClasses | None) -> list[npt.NDArray[np.int64]]:
        schema = self._question.schema
        if isinstance(subsets, AnyClasses):
            assert subsets is self._question.classes, "other classes were counted"
            return [self.of_classes]
        return [self.table(schema.names).ravel()] if subsets is None else [self.table(one) for one in subsets]

    def table(self, subset: Subset) -> npt.NDArray[np.int64]:
        """The counts of one of the tables, zeros included, its axes in the order that was asked for."""
        if self._tally is None:
            return self._tables[subset]
        b, question = self._block_of[subset], self._question
        return summed(self._tally.tables[b], question.blocks[b], subset, question.schema)

    @property
    def tables(self) -> list[npt.NDArray[np.int64]]:
        """All tables, in the order that they were asked for."""
        return self(self._asked)

    @property
    def rest(self) -> tuple[int, ...]:
        """How many records are in no cell, then by attribute."""
        return (self.n_rest, *self.n_left_out)

    def __repr__(self) -> str:
        return f"CountedTables({len(self._subsets)} tables, not private)"


def check_held(sizes: Sequence[int]) -> None:
    """Refuse more counts than are held at once, given how many each table has."""
    if sum(sizes) > MAX_HELD_COUNTS:
        raise TooLargeError(
            f"{len(sizes):,} tables hold {sum(sizes):,} counts together; at most "
            f"{MAX_HELD_COUNTS:,} are held",
            field="tables",
            given=sum(sizes),
            remedy="ask for fewer or coarser attributes in one plan",
        )


def _in_pieces(records: Iterable[Placed]) -> Iterator[Placed]:
    """The same records, about _RECORDS_AT_ONCE at a time."""
    held: list[Placed] = []
    n_held = 0
    for placed in records:
        held.append(placed)
        n_held += len(placed.is_rest)
        if n_held >= _RECORDS_AT_ONCE:
            yield _joined(held)
            held, n_held = [], 0
    if held:
        yield _joined(held)


def _joined(parts: Sequence[Placed]) -> Placed:
    codes = [np.concatenate(own) for own in zip(*(part.codes for part in parts), strict=True)]
    return Placed(codes, np.concatenate([part.is_rest for part in parts]))


# ------------------------------------------------------------------ counts instead of a table


def is_count_vector(source: Any) -> bool:
    """Whether a source is meant as counts, one per cell, and not as a table."""
    if isinstance(source, (list, tuple)):
        return all(isinstance(entry, (int, float, np.number, np.bool_, list, tuple)) for entry in source)
    return isinstance(source, np.ndarray)


def counts_from_vector(source: Any, n: int, shape: tuple[int, ...] | None = None) -> npt.NDArray[Any]:
    """The counts of all cells, shape (n,), from counts given one by one.

    An array of several axes must have the `shape` of the schema, one axis for each
    attribute. The result is a copy: int64, or Python integers from 2⁶³ on.

    Raises:
        DataError: unless these are n whole numbers, none negative, in one of these shapes.
    """
    if isinstance(source, np.ma.MaskedArray) or not isinstance(source, (list, tuple, np.ndarray)):
        raise DataError.must("counts", "be a list, a tuple or a plain array", given=type(source))
    dtype = source.dtype if isinstance(source, np.ndarray) else object
    given = withheld("reading the counts", lambda: np.array(source, dtype=dtype, ndmin=1))
    if given.ndim > 1 and given.shape != shape:
        wanted = "" if shape is None else f", or an array of {' x '.join(map(str, shape))}"
        raise DataError.must(
            "counts",
            f"be a plain list of {n:,} numbers{wanted}, in the order of the schema",
            given=type(source),
        )
    x = given.ravel()
    if x.size != n:
        raise DataError.must(
            "counts", f"be given for every cell, {n:,} in all, zeros included", given=type(source)
        )
    is_whole = x.dtype.kind in "iu" or (
        x.dtype.kind == "O" and all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in x)
    )
    if not is_whole:
        raise DataError.must(
            "counts",
            "be whole numbers of an integer type",
            given=type(source),
            remedy="convert with .astype(int)",
        )
    if (x < 0).any():
        raise DataError("counts must not be negative", field="counts")
    if x.dtype.kind != "i" and (x > 2**63 - 1).any():
        return np.array([int(count) for count in x], dtype=object)
    return x.astype(np.int64)
