"""The total of several charges, exactly.

Charges form groups. A group is of releases that were confirmed to be about one version of one table, counted
by the same rules; in it a record of cell i has paid Σ_r u_i, so that a person with up to k records has paid
at most k² max_i Σ_r u_i (μ², Gaussian) or k max_i Σ_r u_i (ε, Laplace). Between groups nobody knows which
cell of one a person of the other is in, so the largest of each add up:

    Σ over groups g of  weight_g · max_i Σ_{r in g} u_i

A charge that belongs to no group is one by itself, and so is every charge where neighbours replace a record.

    Gaussian:  stacked answers, each divided by its σ, move by d with ‖d‖² = Σ_r ‖d_r‖²; k records move
               them by at most k times what the worst single one does, by the triangle inequality.
    Laplace:   privacy losses add up along the k records and along the releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from operator import add

from leastnoise.core.errors import PrivacyError
from leastnoise.privacy.accounting.charge import CellCosts, Charge, shown
from leastnoise.privacy.noise_kinds import noise_named

# Sums over cells are first compared to this many binary digits; only ties are compared exactly.
_COMPARED_BITS = 256


@dataclass(frozen=True)
class SummedCosts:
    """Costs of the same cells from several charges, added up for each denominator apart.

    One common denominator would grow with every charge of another noise scale. Each charge takes work in
    proportion to the cells, however many came before: 60 of 20,000 cells are added up in 2 s.

    Attributes:
        by_unit: for each denominator, the sums of the numerators.
        floors: each cell's total in units of 2^-256, too small by less than the number of charges.
        classes: which cells have paid the same in every charge, as the number of one of them.
        count: the number of charges.
    """

    by_unit: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    floors: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()
    count: int = 0

    def plus(self, costs: CellCosts) -> SummedCosts:
        """These sums with one charge more.

        Raises:
            PrivacyError: if it speaks of another number of cells.
        """
        n, unit, new = len(costs), costs.unit, costs.numerators
        if self.count and len(self.floors) != n:
            raise PrivacyError("two charges name the same cells and differ in their number", field="cells")
        before = self.by_unit.get(unit)
        after = new if before is None else tuple(map(add, before, new))
        found: dict[tuple[int, int], int] = {}
        pairs = zip(self.classes or (0,) * n, new, strict=True)
        return SummedCosts(
            by_unit={**self.by_unit, unit: after},
            floors=tuple(
                map(add, self.floors or (0,) * n, ((cost << _COMPARED_BITS) // unit for cost in new))
            ),
            classes=tuple(found.setdefault(pair, i) for i, pair in enumerate(pairs)),
            count=self.count + 1,
        )

    @cached_property
    def largest(self) -> Fraction:
        """max_i Σ_r u_i, exactly."""
        least = max(self.floors) - self.count
        candidates = {cell for cell, floor in zip(self.classes, self.floors, strict=True) if floor >= least}
        return max(self._total(cell) for cell in candidates)

    @cached_property
    def least(self) -> Fraction:
        """min_i Σ_r u_i, exactly."""
        most = min(self.floors) + self.count
        candidates = {cell for cell, floor in zip(self.classes, self.floors, strict=True) if floor <= most}
        return min(self._total(cell) for cell in candidates)

    def _total(self, cell: int) -> Fraction:
        return sum((Fraction(sums[cell], unit) for unit, sums in self.by_unit.items()), Fraction(0))


@dataclass(frozen=True)
class _Group:
    """Charges of one kind of noise about one version of one table.

    Attributes:
        terms: what all of them must share: the digest of the cells and the bound of records per person.
        weight: how many times one record's cost a person pays at most.
        first: the costs of the first charge.
        sums: of all of them; None as long as there is one, whose costs need not be added to anything.
        no_cell: what a record that no cell takes has spent on all of them.
    """

    terms: tuple[str, int]
    weight: int
    first: CellCosts
    sums: SummedCosts | None = None
    no_cell: Fraction = Fraction(0)

    def plus(self, charge: Charge) -> _Group:
        if self.terms != _terms(charge):
            raise PrivacyError(
                "costs are added cell by cell only between charges for the same schema and the same "
                "number of records per person",
                field="cells",
            )
        assert charge.per_cell is not None
        sums = SummedCosts().plus(self.first) if self.sums is None else self.sums
        return replace(self, sums=sums.plus(charge.per_cell), no_cell=self.no_cell + charge.no_cell)

    @cached_property
    def total(self) -> Fraction:
        """What one person has spent on the group: μ² or ε.

        "No cell" is one more column of all strategies together, and zero wherever others are not: a person
        with k records changes the answers by at most k times the largest of all these columns.
        """
        largest = self.first.largest if self.sums is None else self.sums.largest
        return self.weight * max(largest, self.no_cell)

    @property
    def slack(self) -> Fraction:
        """How much further one record may spend in the emptiest cell before the largest sum grows."""
        sums = SummedCosts().plus(self.first) if self.sums is None else self.sums
        return max(sums.largest, self.no_cell) - sums.least


def _terms(charge: Charge) -> tuple[str, int]:
    return charge.cells, charge.records_per_person


@dataclass(frozen=True)
class _NoiseTotals:
    """Charges of one kind of noise: the groups that may still grow, and what all of them come to."""

    groups: Mapping[str, _Group] = field(default_factory=dict)
    total: Fraction = Fraction(0)
    count: int = 0

    def plus(self, charge: Charge, group: str | None) -> _NoiseTotals:
        if group is None or not charge.adds_by_cell:
            return replace(self, total=self.total + charge.per_person, count=self.count + 1)
        assert charge.per_cell is not None
        before = self.groups.get(group)
        if before is None:
            after = _Group(_terms(charge), charge.weight, charge.per_cell, no_cell=charge.no_cell)
        else:
            after = before.plus(charge)
        grown = after.total - (before.total if before is not None else 0)
        return _NoiseTotals({**self.groups, group: after}, self.total + grown, self.count + 1)


@dataclass(frozen=True)
class Tally:
    """What one person has spent over a series of charges, in the order they were made.

    Attributes:
        neighbours: the notion that all of them share; None as long as there are none.

    Example:
        >>> half = Charge("gaussian", "add-remove", 1, Fraction(1, 2), CellCosts((1, 0), 2), "c", "p")
        >>> other = Charge("gaussian", "add-remove", 1, Fraction(1, 2), CellCosts((0, 1), 2), "c", "q")
        >>> Tally().plus(half, group="town").plus(other, group="town").mu_squared
        Fraction(1, 2)
        >>> tally_of([half, other]).mu_squared
        Fraction(1, 1)
    """

    neighbours: str | None = None
    _gaussian: _NoiseTotals = _NoiseTotals()
    _pure: _NoiseTotals = _NoiseTotals()
    _pure_at_first_gaussian: Fraction | None = None
    _pure_parts: Mapping[Fraction, int] = field(default_factory=dict)
    _late_parts: Mapping[Fraction, int] = field(default_factory=dict)

    def plus(self, charge: Charge, times: int = 1, *, group: str | None = None) -> Tally:
        """The tally with one charge more, or with the same one several times in a row.

        Args:
            group: the releases confirmed to be about the same version of the same table; None for a
                charge that is added with its worst case.

        Raises:
            PrivacyError: if it speaks of other neighbours than those before it, or of other cells or records
                per person than its group.
        """
        if self.neighbours not in (None, charge.neighbours):
            raise PrivacyError(
                f"charges for {self.neighbours} and {charge.neighbours} neighbours do not add up",
                field="neighbours",
                given=str(charge.neighbours),
                remedy="keep one ledger for each notion",
            )
        if not charge.worst or not times:
            return replace(self, neighbours=charge.neighbours)
        all_of_them = charge if times == 1 else charge.times(times)
        if not charge.noise_kind.is_pure:
            first = self._pure_at_first_gaussian
            return replace(
                self,
                neighbours=charge.neighbours,
                _gaussian=self._gaussian.plus(all_of_them, group),
                _pure_at_first_gaussian=self._pure.total if first is None else first,
            )
        # Each by itself: where pure releases are converted, several small ones cost less than one large one.
        added = Counter({charge.per_person: times})
        return replace(
            self,
            neighbours=charge.neighbours,
            _pure=self._pure.plus(all_of_them, group),
            _pure_parts=added + Counter(self._pure_parts),
            _late_parts=added + Counter(self._late_parts) if self.has_gaussian else self._late_parts,
        )

    def slack(self, noise: str, group: str | None) -> Fraction:
        """How much further one record may spend in some cell before the largest sum of a group grows.

        Zero where there is no such group: then all that a charge costs is added.
        """
        part = self._pure if noise_named(noise).is_pure else self._gaussian
        found = None if group is None else part.groups.get(group)
        return Fraction(0) if found is None else found.slack

    @property
    def has_gaussian(self) -> bool:
        """Whether Gaussian noise was used at all."""
        return self._gaussian.count > 0

    @property
    def has_pure(self) -> bool:
        """Whether mechanisms of pure privacy were used at all."""
        return self._pure.count > 0

    @property
    def mu_squared(self) -> Fraction:
        """The μ² of the Gaussian releases for one person, exactly."""
        return self._gaussian.total

    @property
    def epsilon(self) -> Fraction:
        """The ε of the pure releases for one person by simple composition, exactly."""
        return self._pure.total

    @property
    def pure_parts(self) -> Mapping[Fraction, int]:
        """The ε of each pure release for one person, and how often it occurs."""
        return self._pure_parts

    @property
    def epsilon_before_gaussian(self) -> Fraction:
        """The ε of the pure releases made before the first Gaussian one, exactly."""
        first = self._pure_at_first_gaussian
        return self._pure.total if first is None else first

    @property
    def pure_parts_after_gaussian(self) -> Mapping[Fraction, int]:
        """The ε of each pure release made after the first Gaussian one, and how often it occurs."""
        return self._late_parts

    def __repr__(self) -> str:
        spent = [f"μ² = {shown(self.mu_squared)}"] if self.has_gaussian else []
        spent += [f"ε = {shown(self.epsilon)}"] if self.has_pure else []
        return f"Tally({', '.join(spent) or 'nothing'} per person)"


def tally_of(charges: Iterable[Charge]) -> Tally:
    """The total of charges by their worst cases, in the order given.

    Raises:
        PrivacyError: if they speak of different neighbours.
    """
    tally = Tally()
    for charge in charges:
        tally = tally.plus(charge)
    return tally
