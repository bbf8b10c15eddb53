"""What a stream costs where records change after they were published, or people come back.

A plan over periods is priced for records that enter once and keep their values. Anything beyond that is a
promise about the table which the publisher makes, and which has its own price: the scale of the noise is that
of the plan, so that the answers are the same and the privacy spent is more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from leastnoise.core.directed import root_above
from leastnoise.core.errors import InputError, NotYetError, PlanFileError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.planning import Plan, period_labels
from leastnoise.privacy import Charge
from leastnoise.strategy import most_of_returning, most_revised

# Any number of changes of all attributes but the period; and of all.
VALUES = "values"
ANY = "any"


@dataclass(frozen=True)
class StreamPrice(NotebookValue):
    """What all periods of a plan cost together, exactly, given what may happen to a person's records.

    Attributes:
        plan: that of all periods.
        revisions: how often a record may change after it entered: a number of moves to any other cell;
            "values" for any number of changes that keep its period; "any" for any changes at all.
        returns: (k, b) where a person has at most one record in a period, in at most k periods, any two of
            them at least b apart; None where the goal's ``records_per_person`` says all.
    """

    _unlisted = unlisted("per_record rules to_parts")

    plan: Plan
    revisions: int | str = 0
    returns: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        period_labels(self.plan)
        number = type(self.revisions) is int and self.revisions >= 0
        if not number and self.revisions not in (VALUES, ANY):
            raise InputError.must(
                "revisions", 'be a number of moves, "values" or "any"', given=self.revisions
            )
        if self.returns is None:
            return
        pair = self.returns
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(type(n) is int and n > 0 for n in pair):
            raise InputError.must(
                "returns", "be two positive numbers: periods of a person, and how far apart", given=pair
            )
        if self.revisions != 0:
            raise NotYetError(
                "people who come back and records that change are priced one at a time",
                field="returns",
                given=pair,
                remedy="leave out revisions= or returns=",
            )
        if self.plan.privacy.records_per_person != 1:
            raise InputError.must(
                "returns",
                "say all that a person adds, for a goal with records_per_person=1",
                given=pair,
            )

    @cached_property
    def per_record(self) -> Fraction:
        """μ² that one record, or one person who comes back, spends over all periods, exactly."""
        strategy, workload, over = self.plan.fixed_strategy(), self.plan.workload, str(self.plan.over)
        if self.returns is not None:
            shift = most_of_returning(strategy, workload, over, *self.returns)
        elif self.revisions == 0:
            return self.plan.charge.worst
        else:
            shift = most_revised(strategy, workload, over, self.revisions)
        # A record that keeps its values, and a person who comes once, are always among those covered.
        return max(Fraction(shift, strategy.scale**2), self.plan.charge.worst)

    @property
    def charge(self) -> Charge:
        """What the ledger is charged when a stream is opened at this price."""
        plain = self.plan.charge
        if self.per_record == plain.worst:
            return plain
        return replace(plain, worst=self.per_record, per_cell=None)

    @property
    def mu(self) -> float:
        """The μ of Gaussian differential privacy that a person spends over all periods, rounded up."""
        return root_above(self.per_record * self.plan.privacy.records_per_person**2)

    @property
    def factor(self) -> float:
        """How many times μ is that of the plan. Noise larger by this factor would keep to the plan's goal."""
        return root_above(self.per_record / self.plan.charge.worst)

    @property
    def rules(self) -> dict[str, str]:
        """What is promised about records, as a ledger keeps it; {} for records that keep their values."""
        found = {} if self.revisions == 0 else {"revisions": str(self.revisions)}
        return (
            found
            if self.returns is None
            else {**found, "returns": "{} periods, {} apart".format(*self.returns)}
        )

    @property
    def covers(self) -> str:
        """In one sentence, what may happen to a person's records at this price."""
        if self.returns is not None:
            return (
                "This covers people with at most one record in a period, in at most {} periods, any two of "
                "them at least {} apart.".format(*self.returns)
            )
        if self.revisions == 0:
            return "This covers records that enter once and never change."
        if self.revisions == VALUES:
            return f"This covers records that keep their {self.plan.over} and change otherwise, at any time."
        if self.revisions == ANY:
            return "This covers records that change in any way, any number of times."
        times = "once" if self.revisions == 1 else f"{self.revisions} times"
        return f"This covers records that move to another cell at most {times} after they were published."

    def to_parts(self) -> dict[str, Any]:
        """Plain values that `stream_price_from_parts` reads back; the plan is stored elsewhere."""
        return {
            "revisions": self.revisions,
            "returns": None if self.returns is None else list(self.returns),
        }

    def __str__(self) -> str:
        spent = f"all {len(period_labels(self.plan))} periods together spend μ = {self.mu:.4g}"
        if not self.rules:
            return spent
        said = ", ".join(f"{name} {value}" for name, value in self.rules.items())
        return f"{spent} ({said}), {self.factor:.3g} times that of records that enter once and never change"


def stream_price(
    plan: Plan, *, revisions: int | str = 0, returns: tuple[int, int] | None = None
) -> StreamPrice:
    """What `open_stream` would charge for a plan. Charges nothing.

    Args:
        plan: from ``design(workload, privacy, over="month")``.
        revisions: how a record may change after its period was published: at most this many moves to any
            cell, "values" for any number of changes within its period, or "any".
        returns: (4, 13) where a person has at most one record in a period, in at most 4 periods, any two of
            them at least 13 apart. None for one record in all.

    Guarantee:
        For all such histories, everything published over all periods is μ-GDP for one person, also where
        records depend on what was published before. Computed in integers.

    Raises:
        InputError: if the plan is not one over periods, or there is no such kind.
        TooLargeError: if the plan has too many coefficients for that.

    Example:
        >>> from leastnoise.planning import design
        >>> from leastnoise.privacy import GDP
        >>> from leastnoise.query import Prefix, Schema, assemble
        >>> workload = assemble([Prefix("week")], Schema(week=range(8)))
        >>> plan = design(workload, GDP(1), over="week")
        >>> print(f"{stream_price(plan, returns=(2, 4)).mu:.2f}")
        1.62
    """
    if not isinstance(plan, Plan):
        raise InputError.must("plan", "be a Plan from design()", given=type(plan))
    return StreamPrice(plan, revisions, returns)


def stream_price_from_parts(content: Any, plan: Plan, name: str) -> StreamPrice | None:
    """What `StreamPrice.to_parts` wrote into the release of a period; its price is worked out anew.

    Args:
        name: what errors call the file.

    Raises:
        PlanFileError: if it was written by something else, or the plan is not that of a period.
    """
    if content is None:
        return None
    wrong = PlanFileError(
        f"{name!r} holds a price of its stream that does not fit its plan", field="path", given=name
    )
    if not isinstance(content, dict) or set(content) != {"revisions", "returns"} or plan.horizon is None:
        raise wrong
    returns = content["returns"]
    try:
        pair = tuple(returns) if isinstance(returns, list) else returns
        return StreamPrice(plan.horizon, content["revisions"], pair)
    except (InputError, NotYetError):
        raise wrong from None
