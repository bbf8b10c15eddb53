"""The counts of some tables, from one reading of the records, held together.

Tables are counted in blocks of a few attributes, of which those that were asked for are sums. Where all
blocks together are small, they are what is held, and a table is added up when it is asked for. Where they are
not, records are taken a million at a time and the tables themselves are held: the 161,700 tables of three out
of 100 attributes with ten values each, and a million records, took 3 minutes of one processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import TooLargeError
from leastnoise.data.counting import Placed, Question, Tally, add_cells
from leastnoise.data.table_cover import Subset, first_holders, n_cells, summed
from leastnoise.query import CellClasses

# Counts that are held at once, at most: eight bytes each, 2 GiB in all.
MAX_HELD_COUNTS = 2**28
# Cells of all blocks that are held as they are, at most.
MAX_HELD_CELLS = 2**24
# Records that are held at once where blocks are not, about: a hundred attributes of up to 256 values take
# 100 MiB.
_RECORDS_AT_ONCE = 2**20


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
            tally = Tally(self._question)
            for placed in records:
                tally.add(placed)
            self.hold(tally)
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

    def __call__(self, subsets: Sequence[Subset] | CellClasses | None) -> list[npt.NDArray[np.int64]]:
        schema = self._question.schema
        if isinstance(subsets, CellClasses):
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
