"""Which two tables are neighbours: the relations that users may choose, each with its arithmetic.

    "add-remove"    what one person is is added or removed
    "replace-one"   it is replaced by another, or by one that is not counted

What one person is stands in `ONE_PERSON` and nowhere else: pages and docstrings quote it, which a test holds.

A relation is a set of changes d of the cell counts. A strategy A spends on it

    max over d of  ‖A d‖²/σ²  (Gaussian)   or   ‖A d‖₁/b  (Laplace)                                     (1)

Every relation here allows d = ±j e_i for j up to m, its `records`; one that `replaces` allows j (e_i − e_k)
as well. So the worst change is m times a column of A, or m times the difference of two columns of [A 0].

A relation is its name, the text that users and files spell, with the methods below. Whatever depends on the
relation asks it: a further one is one class and one entry of `NEIGHBOURS` here, and its tests.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import PrivacyError
from leastnoise.core.operators import Array
from leastnoise.privacy.noise_kinds import Noise, listed_names

# What a promise is about, whether people are identified or not and under every relation; `statement` says it
# of one goal. Where records are limited a single one is no unit: one more may displace another of the same
# person, and a record that swaps two cells is a replacement.
ONE_PERSON = (
    "Neighbouring tables differ in one record, or, with records_per_person=k, in up to k records of one "
    "person; with person=, they differ in all records of one person, of which at most k are counted (k is 1 "
    "unless given)."
)


class ColumnCosts(Protocol):
    """Columns that no matrix holds, as those of products: bounds on what one and two of them cost."""

    def added(self) -> int:
        """No column costs more."""

    def replaced(self) -> int:
        """No difference of two columns costs more."""


class Neighbours(str):
    """A neighbouring relation: its name, and its arithmetic.

    Attributes:
        records: m, the most records of one cell that a neighbour has more or fewer.
        replaces: whether a neighbour may also have them in another cell. Then differences of two columns
            count, the dual weights of a certificate may stand on pairs of cells, and what a record of one
            cell pays says nothing of a pair, so that charges add up by their worst cases.
    """

    __slots__ = ()

    records: ClassVar[int] = 1
    replaces: ClassVar[bool] = False

    # What a record costs --------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many records must be added or removed to get from a table to a neighbour."""
        return self.records * (2 if self.replaces else 1)

    @property
    def adds_by_cell(self) -> bool:
        """Whether what releases cost adds up cell by cell: a person's cell is the same in all of them."""
        return not self.replaces

    def cell_costs(self, matrix: Array, noise: Noise) -> tuple[int, ...]:
        """For every column of an integer matrix, the most that a change of its cell costs, exactly.

        Guarantee:
            No change that the relation allows and that touches a cell costs more than is given for it.
        """
        if self.replaces:
            costs = exact.largest_pair_costs(matrix, noise.power)
        else:
            costs = noise.column_costs(matrix)
        return tuple(self.change_cost(cost, noise) for cost in costs)

    def cost_of_products(self, columns: ColumnCosts, noise: Noise) -> int:
        """The same for columns that are not held as a matrix: no change of any cell costs more."""
        largest = max(columns.added(), columns.replaced()) if self.replaces else columns.added()
        return self.change_cost(largest, noise)

    def change_cost(self, column: int, noise: Noise) -> int:
        """What the largest change costs along a column, or along a difference of two, of a known cost."""
        return noise.times(self.records) * column

    def may_weigh(self, pairs: Array | None) -> bool:
        """Whether dual weights of these pairs of cells prove a bound; None for weights of cells alone."""
        return pairs is None or self.replaces

    def column_budget(self, budget: Fraction, noise: Noise) -> Fraction:
        """What a column, or a difference of two where the relation replaces, may cost within a budget.

        Guarantee:
            Noise that keeps the budget keeps this. Certificates prove their bounds for noise that does.
        """
        return budget / self.change_cost(1, noise)

    # In words -------------------------------------------------------------------------------------

    def statement(self, records_per_person: int, *, by_person: bool = False) -> str:
        """Between which tables a promise holds.

        Args:
            by_person: whether it is about all records of one person, of which only some are counted.

        Example:
            >>> print(ADD_REMOVE.statement(3))
            adding or removing up to 3 records of one person
        """
        k = records_per_person
        if by_person:
            counted = "one is counted" if k == 1 else f"at most {k} are counted"
            return f"{self._verb} all records of one person, of which {counted}"
        return f"{self._verb} {self._object if k == 1 else f'up to {k} records of one person'}"

    _verb: ClassVar[str] = "adding or removing"
    _object: ClassVar[str] = "one record"

    def question(self, record: str) -> tuple[str, str]:
        """What changes between two neighbours, and what it would tell, for a sentence about a person."""
        return f"Without {record} of one person", "whether a certain person is in the table"


class _ReplaceOne(Neighbours):
    __slots__ = ()

    replaces = True
    _verb = "replacing"

    def question(self, record: str) -> tuple[str, str]:
        change = f"With {record} of one person replaced by any other"
        return change, "which of two records a certain person has"


ADD_REMOVE = Neighbours("add-remove")
REPLACE_ONE: Neighbours = _ReplaceOne("replace-one")

NEIGHBOURS: dict[str, Neighbours] = {relation: relation for relation in (ADD_REMOVE, REPLACE_ONE)}


def neighbours_named(name: str) -> Neighbours:
    """The neighbouring relation of that name.

    Raises:
        PrivacyError: for an unknown name, listing those there are.
    """
    if not isinstance(name, str) or name not in NEIGHBOURS:
        raise PrivacyError.must("neighbours", f"be {listed_names(NEIGHBOURS)}", given=name)
    return NEIGHBOURS[name]
