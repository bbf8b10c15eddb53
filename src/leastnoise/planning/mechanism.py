"""What a data-dependent method is: stages that look at counts and noise in turn, within an exact budget.

Every other method fixes rows before anybody looks at data. Here what is measured next depends on
what was released before, so there is no strategy and no standard error to state beforehand.

    counts, integers ──► measure(counts, laplace, gaussian) ──► integers that are released ──► estimates

`measure` alone sees counts, and noise reaches it from outside. It holds to integers: a float may
come from what was released already, never from the counts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.privacy import Goal

if TYPE_CHECKING:
    from leastnoise.planning.method import Request

# Units of a count in which costs, scores and answers are whole numbers.
GRID = 2**20

# Where ε per record is beyond 2^±120, noise or its reciprocal would leave the range of floats.
_GOAL_BITS = 120

# A stage with less of the budget than this releases nothing but noise, and with 1e-300 of it noise beyond
# the range of floats.
LEAST_SHARE = Fraction(1, 10**6)


class DiscreteLaplace(Protocol):
    """Where noise comes from: `noise.discrete_laplace` with its bits filled in."""

    def __call__(self, scale: int, size: int) -> list[int]:
        """Independent integers x with probability ∝ exp(−|x|/scale)."""
        ...


class RoundedGaussian(Protocol):
    """The same for `noise.rounded_gaussian`."""

    def __call__(self, scale: int, size: int) -> list[int]:
        """Independent draws from N(0, scale²), each rounded to the nearest integer."""
        ...


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """The stages of a data-dependent method, made for one workload and goal.

    Attributes:
        goal: what they must keep.
        shares: what each stage spends, by name: ε where the goal is pure, else μ². A record that is added or
            removed spends their sum.
    """

    name: ClassVar[str]

    goal: Goal
    shares: Mapping[str, Fraction]

    @property
    @abstractmethod
    def note(self) -> str:
        """What it does, in one line."""

    @property
    @abstractmethod
    def most_integers(self) -> int:
        """How many integers `measure` releases at most."""

    @abstractmethod
    def measure(
        self, counts: Array, laplace: DiscreteLaplace, gaussian: RoundedGaussian | None = None
    ) -> Array:
        """What is released, a vector of Python integers: the private step.

        Args:
            counts: x, (n,), int64 or Python integers.
            gaussian: needed unless the goal is pure.
        """

    @abstractmethod
    def fits(self, measurements: Array) -> bool:
        """Whether `measure` could have released this vector of integers."""

    @abstractmethod
    def estimates(self, measurements: Array) -> Array:
        """An estimate of every cell, (n,), from what was released alone."""

    @property
    def spent(self) -> Fraction:
        """The ε or μ² that one record spends, exactly.

        Guarantee:
            Stages that see what earlier ones released add up, ε as well as μ². Replacing a record is
            removing one and adding one, which costs twice the ε, or four times the μ².

        Reference:
            Dwork, McSherry, Nissim and Smith (2006), sequential composition; Dwork and Roth
            (2014), Theorem 2.2, for groups. Dong, Roth and Su (2022), Gaussian differential privacy,
            arXiv:1905.02383, Corollary 3.3 and Theorem 2.14, for both with μ.
        """
        return sum(self.shares.values(), Fraction(0)) * times_between_neighbours(self.goal)


def times_between_neighbours(goal: Goal) -> int:
    """How many times what a record spends a neighbour does: records that must be added or removed, or their
    square where the budget is a μ²."""
    return goal.noise.times(goal.relation.steps)


def split_budget(goal: Goal, parts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """The ε or μ² of each stage: its part of what adding or removing a record may spend."""
    assert sum(parts.values()) == 1, "the parts of a budget must add up to it"
    budget = goal.budget / times_between_neighbours(goal)
    return {stage: part * budget for stage, part in parts.items()}


def refuse_unless_pure_total(request: Request) -> str | None:
    """The reason why a data-dependent method for pure privacy cannot serve a request, or None."""
    if not request.privacy.noise.is_pure:
        return "it is for pure privacy, PureDP(epsilon)"
    return refuse_unless_promising_nothing(request)


def refuse_unless_promising_nothing(request: Request) -> str | None:
    """The reason why no data-dependent method can serve a request, or None."""
    if request.objective.kind != "total":
        return "its errors depend on the data, so that it can promise none; it minimises total variance only"
    if not Fraction(1, 2**_GOAL_BITS) <= request.privacy.budget <= 2**_GOAL_BITS:
        what = "epsilon" if request.privacy.noise.is_pure else "mu squared"
        return f"{what} per record must lie between {2.0**-_GOAL_BITS:.0e} and {2.0**_GOAL_BITS:.0e}"
    return None


def share_option(name: str, given: Any) -> Fraction:
    """An option that is a share of the budget, exactly: a number, or text such as "1/4".

    Raises:
        MethodError: unless it lies between 0 and 1, and is LEAST_SHARE away from both.
    """
    wanted = f'{name} must lie between 0 and 1, by {float(LEAST_SHARE):g} at least, as 0.25 or as text, "1/4"'
    is_text = isinstance(given, str) and re.fullmatch(r"[0-9]{1,9}/[1-9][0-9]{0,8}", given, re.ASCII)
    if not is_text and not isinstance(given, float):
        got = repr(given[:40]) if isinstance(given, str) else f"a value of type {type(given).__name__}"
        raise MethodError(f"{wanted}, got {got}", field="share", given=got)
    if not LEAST_SHARE <= (Fraction(given) if is_text else given) <= 1 - LEAST_SHARE:
        raise MethodError(f"{wanted}, got {given!r}", field="share", given=given)
    return Fraction(given)


def least_scale(sensitivity: int, epsilon: Fraction) -> int:
    """The least whole scale at which discrete Laplace noise on integers spends at most ε.

    The probabilities of two integers that are Δ apart differ by a factor of exp(Δ/scale) at most.
    """
    return max(-(-sensitivity * epsilon.denominator // epsilon.numerator), 1)
