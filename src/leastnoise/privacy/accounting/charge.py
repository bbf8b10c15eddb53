"""What one release costs, exactly.

A record of cell i pays u_i: μ² for Gaussian noise, ε for Laplace. A charge holds the largest of them
and, where the cells can be counted, every one. A person with up to k records pays at most k² or k
times as much: k records change the answers by at most k times the largest change that one can make.

A record that no cell takes pays u_0: what measuring the number of such records spends, and nothing where it
is not measured. Under add-remove neighbours a record is in one cell or in none, so that the worst of all is
max(max_i u_i, u_0), not a sum: the column of the combined strategy for "no cell" is zero in all other rows.
Where a record is replaced it moves from a cell to none and changes both, so that worst cases add up.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any, overload

import numpy as np

from leastnoise.core.errors import PrivacyError, TooLargeError
from leastnoise.privacy.neighbours import Neighbours, neighbours_named
from leastnoise.privacy.noise_kinds import Noise, noise_named

# Larger profiles are not written down; such plans are charged by their largest cell.
MAX_CELLS = 2**22
_MAX_PROFILE_BYTES = 2**28

# Python reads integers of up to 4300 digits from text.
_FRACTION = re.compile(r"(0|[1-9][0-9]{0,3999})/([1-9][0-9]{0,3999})", re.ASCII)
_MAX_TEXT = 200


@dataclass(frozen=True)
class CellCosts(Sequence[Fraction]):
    """What a record of each cell spends: whole numbers over one common denominator.

    Example:
        >>> costs = CellCosts((1, 2, 0), unit=9)
        >>> costs[1], costs.largest, len(costs)
        (Fraction(2, 9), Fraction(2, 9), 3)
    """

    numerators: tuple[int, ...]
    unit: int

    def __post_init__(self) -> None:
        if not self.numerators or type(self.unit) is not int or self.unit < 1:
            raise PrivacyError(
                "the costs of cells need at least one cell and a positive whole unit", field="cells"
            )
        if not all(type(cost) is int and cost >= 0 for cost in self.numerators):
            raise PrivacyError("the costs of cells must be Python integers of at least zero", field="cells")
        if len(self.numerators) > MAX_CELLS or len(self.numerators) * self._width > _MAX_PROFILE_BYTES:
            raise TooLargeError(
                f"the costs of {len(self.numerators):,} cells are too many to keep (at most {MAX_CELLS:,})",
                field="cells",
                given=len(self.numerators),
                remedy="charge the plan by its largest cell, per_cell=None",
            )

    @classmethod
    def of(cls, costs: Iterable[Fraction]) -> CellCosts:
        """The same costs, given as rationals."""
        rationals = [Fraction(cost) for cost in costs]
        unit = lcm(*(cost.denominator for cost in rationals))
        return cls(tuple(cost.numerator * (unit // cost.denominator) for cost in rationals), unit)

    @property
    def largest(self) -> Fraction:
        """The most that any cell spends."""
        return Fraction(max(self.numerators), self.unit)

    @property
    def _width(self) -> int:
        return max(1, (max(self.numerators).bit_length() + 7) // 8)

    @overload
    def __getitem__(self, index: int) -> Fraction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fraction, ...]: ...
    def __getitem__(self, index: int | slice) -> Fraction | tuple[Fraction, ...]:
        if isinstance(index, slice):
            return tuple(Fraction(cost, self.unit) for cost in self.numerators[index])
        return Fraction(self.numerators[index], self.unit)

    def __len__(self) -> int:
        return len(self.numerators)

    def __iter__(self) -> Iterator[Fraction]:
        return (Fraction(cost, self.unit) for cost in self.numerators)

    def to_bytes(self) -> tuple[dict[str, Any], bytes]:
        """Its measures, as JSON holds them, and its numerators packed."""
        n, width = len(self.numerators), self._width
        raw = b"".join(cost.to_bytes(width, "big") for cost in self.numerators)
        # Byte by byte across the cells: the leading bytes of neighbouring cells agree.
        planes = np.frombuffer(raw, np.uint8).reshape(n, width).T.tobytes()
        return {"cells": n, "width": width, "unit": _fraction_to_text(Fraction(self.unit))}, zlib.compress(
            planes, 6
        )

    @classmethod
    def from_bytes(cls, measures: Mapping[str, Any], packed: bytes) -> CellCosts:
        """What `to_bytes` packed, unpacked without trusting any size it claims.

        Raises:
            PrivacyError: if it was packed by something else.
        """
        n, width = measures.get("cells"), measures.get("width")
        unit = fraction_from_text(measures.get("unit"))
        if type(n) is not int or type(width) is not int or unit.denominator != 1 or len(measures) != 3:
            raise PrivacyError(
                "the cell costs in the ledger have been modified since they were written", field="cells"
            )
        if not (1 <= n <= MAX_CELLS and width >= 1 and n * width <= _MAX_PROFILE_BYTES):
            raise PrivacyError("the cell costs in the ledger have an invalid size", field="cells")
        unpacking = zlib.decompressobj()
        try:
            planes = unpacking.decompress(packed, n * width + 1)
        except zlib.error:
            raise PrivacyError("the costs of cells are damaged", field="cells") from None
        if len(planes) != n * width or not unpacking.eof or unpacking.unused_data:
            raise PrivacyError("the costs of cells are damaged", field="cells")
        raw = np.frombuffer(planes, np.uint8).reshape(width, n).T.tobytes()
        numerators = (int.from_bytes(raw[i : i + width], "big") for i in range(0, n * width, width))
        return cls(tuple(numerators), unit.numerator)

    def __repr__(self) -> str:
        return f"CellCosts({len(self):,} cells, at most {shown(self.largest)})"


@dataclass(frozen=True)
class Charge:
    """What one release costs.

    Attributes:
        noise: the name of its kind: "gaussian", costs being μ², or "laplace", costs being ε: any mechanism
            of pure privacy.
        neighbours: the name of the neighbouring relation.
        records_per_person: k, the most records of one person that the release counts.
        worst: the most that one record spends, exactly, in a cell or in none.
        per_cell: what a record of each cell spends, exactly; None where the cells are too many.
        cells: a digest of what the cells are. That it is the same is needed for costs to be added cell by
            cell, and not enough: the table must be the same too, which a ledger confirms.
        plan_digest: a digest of the plan that is measured.
        no_cell: what a record that no cell takes spends, exactly.
    """

    noise: str
    neighbours: str
    records_per_person: int
    worst: Fraction
    per_cell: CellCosts | None
    cells: str
    plan_digest: str
    no_cell: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        noise_named(self.noise)
        neighbours_named(self.neighbours)
        if type(self.records_per_person) is not int or not 1 <= self.records_per_person < 2**63:
            raise PrivacyError.must(
                "records_per_person", "be a positive whole number", given=self.records_per_person
            )
        if not isinstance(self.worst, Fraction) or self.worst < 0:
            raise PrivacyError.must("worst", "be a Fraction of at least zero", given=self.worst)
        if not isinstance(self.no_cell, Fraction) or not 0 <= self.no_cell <= self.worst:
            raise PrivacyError.must(
                "no_cell", "be a Fraction from zero to the worst cost", given=self.no_cell
            )
        if self.per_cell is not None and self._worst_of(self.per_cell) != self.worst:
            raise PrivacyError.must("worst", "be the largest of the cell costs", given=self.worst)
        for name in ("cells", "plan_digest"):
            if not is_short_text(getattr(self, name)):
                raise PrivacyError.must(
                    name, f"be a text of 1 to {_MAX_TEXT} printable characters", given=getattr(self, name)
                )

    def _worst_of(self, costs: CellCosts) -> Fraction:
        """The most that one record spends that is in one cell, in none, or moved where neighbours replace."""
        if self.relation.replaces:
            return costs.largest + self.no_cell
        return max(costs.largest, self.no_cell)

    def with_no_cell(self, cost: Fraction) -> Charge:
        """The charge of a release that also measures, at this cost, how many records no cell takes.

        Guarantee:
            Under add-remove neighbours it is no dearer as long as the cost is at most `worst`. Where a
            record is replaced, it is dearer by the whole cost.
        """
        if self.relation.replaces:
            return replace(self, worst=self.worst + cost, no_cell=cost)
        return replace(self, worst=max(self.worst, cost), no_cell=cost)

    @property
    def noise_kind(self) -> Noise:
        """The kind of noise, with its arithmetic."""
        return noise_named(self.noise)

    @property
    def relation(self) -> Neighbours:
        """Which tables are neighbours, with the arithmetic that follows from it."""
        return neighbours_named(self.neighbours)

    @property
    def weight(self) -> int:
        """How many times one record's cost a person pays at most: k² (μ²) or k (ε)."""
        return self.noise_kind.times(self.records_per_person)

    @property
    def per_person(self) -> Fraction:
        """What one person spends at most: μ² or ε."""
        return self.weight * self.worst

    @property
    def adds_by_cell(self) -> bool:
        """Whether its costs are known cell by cell, and may be added so: not where a record is replaced."""
        return self.per_cell is not None and self.relation.adds_by_cell

    def times(self, factor: Fraction | int) -> Charge:
        """The charge with every cost multiplied, exactly; the factor is positive.

        Costs of one kind add up cell by cell, so this is what that many releases of one plan cost together.
        """
        by, costs = Fraction(factor), self.per_cell
        if costs is not None:
            numerators = tuple(cost * by.numerator for cost in costs.numerators)
            costs = CellCosts(numerators, costs.unit * by.denominator)
        return replace(self, worst=self.worst * by, per_cell=costs, no_cell=self.no_cell * by)

    def to_parts(self) -> tuple[dict[str, Any], bytes | None]:
        """Plain values that JSON holds, and the packed costs of the cells, for `charge_from_parts`.

        Raises:
            TooLargeError: if a number has more than 4000 digits.
        """
        measures, packed = (None, None) if self.per_cell is None else self.per_cell.to_bytes()
        content = {
            "noise": str(self.noise),
            "neighbours": str(self.neighbours),
            "records_per_person": self.records_per_person,
            "worst": _fraction_to_text(self.worst),
            "per_cell": measures,
            "cells": self.cells,
            "plan": self.plan_digest,
        }
        if self.no_cell:
            # Left out where nothing is spent, so that rows from before keep their digest.
            content["no_cell"] = _fraction_to_text(self.no_cell)
        return content, packed

    def __repr__(self) -> str:
        return f"Charge({self.noise_kind.symbol} = {shown(self.per_person)} per person, {self.neighbours})"


def charge_from_parts(content: Mapping[str, Any], packed: bytes | None) -> Charge:
    """The charge that `Charge.to_parts` wrote.

    Raises:
        PrivacyError: for anything else.
    """
    names = {"noise", "neighbours", "records_per_person", "worst", "per_cell", "cells", "plan"}
    if set(content) not in (names, names | {"no_cell"}):
        raise PrivacyError("the ledger entry has been modified since it was written", field="charge")
    no_cell = fraction_from_text(content["no_cell"]) if "no_cell" in content else Fraction(0)
    if "no_cell" in content and not no_cell:
        raise PrivacyError("the ledger entry has been modified since it was written", field="charge")
    measures = content["per_cell"]
    if (measures is None) != (packed is None) or not (measures is None or isinstance(measures, dict)):
        raise PrivacyError("the ledger entry holds only part of its cell costs", field="cells")
    return Charge(
        noise=content["noise"],
        neighbours=content["neighbours"],
        records_per_person=content["records_per_person"],
        worst=fraction_from_text(content["worst"]),
        per_cell=None if measures is None or packed is None else CellCosts.from_bytes(measures, packed),
        cells=content["cells"],
        plan_digest=content["plan"],
        no_cell=no_cell,
    )


def is_short_text(value: Any) -> bool:
    """Whether a value is fit to name something: 1 to 200 printable characters."""
    return isinstance(value, str) and 1 <= len(value) <= _MAX_TEXT and value.isprintable()


def shown(value: Fraction) -> str:
    """A rational for people, to six digits.

    Example:
        >>> shown(Fraction(1, 3)), shown(Fraction(10) ** 400)
        ('0.333333', 'more than 1e+308')
    """
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "more than 1e+308"


def _fraction_to_text(value: Fraction) -> str:
    # Comparing with a power of ten first: printing more digits is refused by Python itself.
    if max(value.numerator, value.denominator) >= 10**4000:
        raise TooLargeError(
            "a charge has more than 4000 digits",
            field="charge",
            remedy="round the plan's noise scale to fewer",
        )
    return f"{value.numerator}/{value.denominator}"


def fraction_from_text(text: Any) -> Fraction:
    """The rational that a file holds as "a/b", in lowest terms.

    Raises:
        PrivacyError: for anything else.
    """
    found = _FRACTION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise PrivacyError(
            "an exact number in the ledger has been modified since it was written", field="charge"
        )
    value = Fraction(int(found[1]), int(found[2]))
    if value.denominator != int(found[2]):
        raise PrivacyError("an exact number is not in lowest terms", field="charge")
    return value
