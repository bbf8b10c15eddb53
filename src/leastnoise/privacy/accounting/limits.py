"""Whether charges stay within a limit, and what it leaves.

A limit holds for everything that one person contributes. Whether a further release is allowed may be asked
after the earlier answers were seen, and the next plan may be chosen by them; so the rules below are such that
the limit is kept whatever is chosen along the way:

    PureDP     Σ ε ≤ ε_max                                  Laplace noise only
    GDP        Σ μ² + Σ μ(ε_j)² ≤ μ_max²                    μ(ε): the Gaussian curve that ε-DP implies
    ZCDP       Σ μ²/2 + Σ ρ(ε_j) ≤ ρ_max                    ρ(ε) = ε tanh(ε/2)
    ApproxDP   E = Σ ε_j over the pure releases before the first Gaussian one: E ≤ ε_max. From the first
               Gaussian one on, Σ μ² + Σ μ(ε_j)² ≤ the μ² of (ε_max − E, δ), ε_j those that come later.

They hold for choices along the way because ε, ρ and μ² each add up there as they do for a series fixed
in advance (Rogers, Roth, Ullman and Vadhan 2016, arXiv:1605.08294, for ε; Feldman and Zrnic 2021,
arXiv:2008.11193, for ρ; Smith and Thakurta 2022, arXiv:2210.17520, for μ²). For ApproxDP: the early
losses never exceed E, and given them the rest is (ε_max − E, δ).

The curve of the mixture (`mixed_curve`) is tighter, but comparing it with δ is no such rule: whoever has
seen a large loss in one part can choose the kind of the next part that makes most of it, and a bound on
each series alone is no bound on the choice (arXiv:2602.06756; the tests hold an example). It is used
only where the series is ``planned``, that is fixed before the first answer was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from leastnoise.core.directed import float_below, root_below
from leastnoise.core.errors import PrivacyError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.accounting.charge import Charge
from leastnoise.privacy.accounting.mixed_curve import mixed_delta, mu_squared_of_pure, rho_of_pure
from leastnoise.privacy.accounting.tally import Tally, tally_of
from leastnoise.privacy.gaussian_curve import epsilon_of, mu_squared_of
from leastnoise.privacy.goals import GDP, ZCDP, ApproxDP, Goal, PureDP

# What is left where it has to be searched for, as a share of the answer.
_SEARCH_SLACK = Fraction(1, 10**9)

# Steps of one in the fourth digit that searches for a number to type take at most; rounding takes one.
_MOST_STEPS = 10


def within(limit: Goal, charges: Iterable[Charge] | Tally, *, planned: bool = False) -> bool:
    """Whether one person's spending over a series of charges stays within a limit.

    Args:
        charges: in the order of their releases, or their tally.
        planned: whether all of them were fixed before the first answer was seen. Only matters for
            `ApproxDP` where both kinds of noise occur, or several pure releases.

    Guarantee:
        True is proved, in rational arithmetic or with roundings towards more spending. A
        series of Gaussian charges, or of Laplace charges under `PureDP`, is judged exactly.

    Raises:
        PrivacyError: if the charges do not fit the limit: other neighbours, fewer records per person,
            Gaussian noise under `PureDP`.
    """
    tally = charges if isinstance(charges, Tally) else _fitting_tally(limit, charges)
    if limit.noise.is_pure and tally.has_gaussian:
        raise PrivacyError(_NEVER_PURE, field="limit")
    if _spent(limit, tally) <= _allowed(limit, tally):
        return True
    if not (planned and isinstance(limit, ApproxDP)):
        return False
    return mixed_delta(tally.mu_squared, _listed(tally.pure_parts), limit.epsilon) <= Fraction(limit.delta)


def check_limit(limit: Goal) -> None:
    """Refuse a limit that no plan could be designed for: its μ or ε per record beyond 2^±120.

    Raises:
        PrivacyError: saying so.
    """
    most = limit.noise.unit(2**120)
    if not Fraction(1, most) <= limit.budget <= most:
        raise PrivacyError(
            "a limit must have an epsilon or mu per record between 1e-36 and 1e36; no plan can be "
            "designed for any other",
            field="limit",
        )


def check_kind(limit: Goal, charge: Charge) -> None:
    """Refuse a charge that does not fit a limit, whatever it costs.

    Raises:
        PrivacyError: saying why, and what to do.
    """
    if charge.neighbours != limit.neighbours:
        raise PrivacyError(
            f"the limit is for {limit.neighbours} neighbours, the plan for {charge.neighbours}; ",
            _design_with("the plan", "neighbours", limit.neighbours),
            field="neighbours",
            given=charge.neighbours,
        )
    if charge.records_per_person < limit.records_per_person:
        # A user who declared k in one place has probably forgotten it in the other.
        raise PrivacyError(
            f"the limit is for people with up to {limit.records_per_person} records, the plan for "
            f"{charge.records_per_person}; ",
            _design_with("it", "records_per_person", limit.records_per_person),
            field="records_per_person",
            given=charge.records_per_person,
        )
    if limit.noise.is_pure and not charge.noise_kind.is_pure:
        raise PrivacyError(_NEVER_PURE, field="limit")


def _design_with(what: str, name: str, value: object) -> Remedy:
    return Remedy(f"design {what} with ", Argument(name, value), " (in a specification: in [privacy])")


_NEVER_PURE = (
    "Gaussian noise never satisfies a limit of pure privacy; design the plan for PureDP(epsilon) (in a "
    "specification: epsilon without delta), or keep a ledger whose limit has a delta, a rho or a mu"
)


def full_charge(goal: Goal, worst: Fraction | None = None) -> Charge:
    """The charge of a plan that spends a goal, or some cost per record, in every cell: as much as it can."""
    return Charge(
        noise=goal.noise,
        neighbours=goal.neighbours,
        records_per_person=goal.records_per_person,
        worst=goal.budget if worst is None else worst,
        per_cell=None,
        cells="every cell",
        plan_digest="any plan",
    )


def least_limit(goal: Goal, times: int) -> Goal:
    """The least limit of a goal's own kind under which its plans fit a number of times, in four digits.

    ε, ρ or μ is sought and rounded up; δ, neighbours and records per person are those of ``goal``. Of pure
    plans the ε add up, of Gaussian ones the μ²: four releases need twice the μ of one, not four times.

    Guarantee:
        `within` was asked for as many charges of the whole goal in every cell.

    Raises:
        PrivacyError: if no limit of that kind can be kept.

    Example:
        >>> least_limit(ApproxDP(1, 1e-6), 2)
        ApproxDP(epsilon=1.455, delta=1e-06)
    """
    charge = full_charge(goal)
    kind = replace(goal, calibration="exact") if isinstance(goal, ApproxDP) else goal
    # Starts slightly below, so that rounding does not cost a whole digit: 0.3001 for 0.3.
    value = _four_digits_above(_parameter_near(kind, charge.per_person * times) * (1 - float(_SEARCH_SLACK)))
    for _ in range(_MOST_STEPS):
        limit = _with_parameter(kind, float(value))
        if within(limit, Tally().plus(charge, times)):
            check_limit(limit)
            return limit
        value += Decimal(1).scaleb(value.adjusted() - 3)
    raise PrivacyError(
        f"no limit was found under which a plan for {goal} fits {times:,} times",
        field="limit",
        given=str(goal),
        remedy="give one",
    )


@dataclass(frozen=True)
class Remaining(NotebookValue):
    """What a limit still leaves to one person.

    Attributes:
        limit: the whole of it.
        tally: what has been spent.
        planned: as in `within`.
    """

    limit: Goal
    tally: Tally
    planned: bool = False

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """The μ² that Gaussian noise may still spend, rounded down; None under `PureDP`.

        Exact where nothing was converted. A release that spends as much in every cell fits.
        """
        if self.limit.noise.is_pure:
            return None
        left = _allowed(self.limit, self.tally, with_gaussian=True) - _spent(self.limit, self.tally, True)
        if isinstance(self.limit, ZCDP):
            left *= 2
        rule = max(left, Fraction(0))
        if not (self.planned and self.tally.has_pure and isinstance(self.limit, ApproxDP)):
            return rule
        epsilons, spent = _listed(self.tally.pure_parts), self.tally.mu_squared
        at, delta = self.limit.epsilon, Fraction(self.limit.delta)
        most = max(self.limit.budget_per_person - spent, rule)
        return max(rule, _largest(lambda m: mixed_delta(spent + m, epsilons, at) <= delta, most))

    @cached_property
    def epsilon(self) -> Fraction:
        """The ε that one mechanism of pure privacy may still spend, rounded down."""
        limit, tally = self.limit, self.tally
        left = max(_allowed(limit, tally) - _spent(limit, tally), Fraction(0))
        if isinstance(limit, PureDP) or (isinstance(limit, ApproxDP) and not tally.has_gaussian):
            rule = left
        elif isinstance(limit, ZCDP):
            # ρ(ε) ≥ ε − 1, so the search starts above what is left.
            rule = _largest(lambda e: rho_of_pure(e) <= left, 2 + left)
        else:
            rule = _largest(lambda e: mu_squared_of_pure(e) <= left, 2 + left)
        if not (self.planned and isinstance(limit, ApproxDP)):
            return rule
        parts, delta = _listed(tally.pure_parts), Fraction(limit.delta)

        def is_enough(e: Fraction) -> bool:
            return mixed_delta(tally.mu_squared, [*parts, e], limit.epsilon) <= delta

        return max(rule, _largest(is_enough, rule + 2 * Fraction(limit.epsilon) + 1))

    @cached_property
    def goal(self) -> Goal | None:
        """A goal of the limit's own kind that may still be spent, rounded down; None if nothing is left.

        Guarantee:
            A plan designed for it, by `design(workload, remaining.goal)`, stays within the limit.
        """
        limit = self.limit
        if isinstance(limit, PureDP):
            return replace(limit, epsilon=self.epsilon) if self.epsilon > 0 else None
        left = self.mu_squared
        assert left is not None
        if left <= 0:
            return None
        if left == limit.budget_per_person:
            return limit
        if isinstance(limit, ZCDP):
            return replace(limit, rho=left / 2)
        if isinstance(limit, GDP):
            root = root_below(left)
            return replace(limit, mu=root) if root > 0 else None
        assert isinstance(limit, ApproxDP)
        epsilon = _epsilon_below(left, Fraction(limit.delta))
        return replace(limit, epsilon=epsilon, calibration="exact") if epsilon > 0 else None

    def like(self, goal: Goal) -> Goal | None:
        """The largest goal of the kind of another whose plans still fit, rounded down to four digits.

        ε, ρ or μ is sought; δ, calibration, neighbours and records per person are those of ``goal``. None
        if nothing is left.

        Guarantee:
            Whatever plan is designed for it stays within the limit: `within` was asked for a charge of the
            whole goal in every cell.

        Raises:
            PrivacyError: if no plan of that kind fits the limit, whatever it costs.

        Example:
            >>> Remaining(ApproxDP(1, 1e-8), Tally()).like(ApproxDP(1, 1e-6))
            ApproxDP(epsilon=0.8164, delta=1e-06)
        """
        check_kind(self.limit, full_charge(goal))
        left = self.epsilon if goal.noise.is_pure else self.mu_squared
        assert left is not None
        if left <= 0:
            return None
        # Starts slightly above, so that rounding does not lose a whole digit: 0.2999 for 0.3.
        value = _four_digits_below(_parameter_near(goal, left) * (1 + float(_SEARCH_SLACK)))
        for _ in range(_MOST_STEPS):
            if value <= 0:
                return None
            # Tried as the float that people type: it may lie above the digits it stands for.
            found = _with_parameter(goal, float(value))
            if within(self.limit, self.tally.plus(full_charge(found)), planned=self.planned):
                return found
            value -= Decimal(1).scaleb(value.adjusted() - 3)
        return None

    def times(self, charge: Charge, *, most: int) -> int:
        """How many times a charge still fits, one after the other; ``most`` where it is as many or more.

        Guarantee:
            `within` was asked for this number, and for one more; what it says of fewer follows.

        Raises:
            PrivacyError: if it does not fit the limit, whatever it costs.
        """
        check_kind(self.limit, charge)

        def fits(n: int) -> bool:
            return within(self.limit, self.tally.plus(charge, n), planned=self.planned)

        if fits(most):
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    @property
    def value(self) -> float:
        """The ε, ρ or μ of `goal`, rounded down; 0 if nothing is left."""
        goal = self.goal
        return 0.0 if goal is None else float_below(Fraction(getattr(goal, _letter(goal)[0])))

    def __str__(self) -> str:
        name, letter = _letter(self.limit)
        whole = float(getattr(self.limit, name))
        at = f" at δ = {float(self.limit.delta):g}" if isinstance(self.limit, ApproxDP) else ""
        return f"{letter} = {self.value:.6g} of {whole:g}{at}"

    def __repr__(self) -> str:
        return f"Remaining({self})"


# ---------------------------------------------------------------------------
# The rules. Spent and allowed are in one unit: ε, μ² or ρ, for one person.


def _fitting_tally(limit: Goal, charges: Iterable[Charge]) -> Tally:
    listed = list(charges)
    for charge in listed:
        check_kind(limit, charge)
    return tally_of(listed)


def _spent(limit: Goal, tally: Tally, with_gaussian: bool = False) -> Fraction:
    if isinstance(limit, PureDP):
        return tally.epsilon
    if isinstance(limit, ZCDP):
        return tally.mu_squared / 2 + _converted(rho_of_pure, tally.pure_parts)
    if isinstance(limit, GDP):
        return tally.mu_squared + _converted(mu_squared_of_pure, tally.pure_parts)
    if tally.has_gaussian:
        return tally.mu_squared + _converted(mu_squared_of_pure, tally.pure_parts_after_gaussian)
    return Fraction(0) if with_gaussian else tally.epsilon


def _allowed(limit: Goal, tally: Tally, with_gaussian: bool = False) -> Fraction:
    """What may be spent; ``with_gaussian``: if the next charge is Gaussian."""
    if isinstance(limit, ZCDP):
        return limit.budget_per_person / 2
    if not isinstance(limit, ApproxDP):
        return limit.budget_per_person
    if not (tally.has_gaussian or with_gaussian):
        return Fraction(limit.epsilon)
    early = tally.epsilon_before_gaussian
    if not early:
        return limit.budget_per_person
    if early > limit.epsilon:
        return Fraction(0)
    return min(
        limit.budget_per_person, _mu_squared_of(Fraction(limit.epsilon) - early, Fraction(limit.delta))
    )


_mu_squared_of = lru_cache(maxsize=256)(mu_squared_of)


def _converted(cost: Callable[[Fraction], Fraction], parts: Mapping[Fraction, int]) -> Fraction:
    return sum((count * cost(epsilon) for epsilon, count in parts.items()), Fraction(0))


def _listed(parts: Mapping[Fraction, int]) -> list[Fraction]:
    return [epsilon for epsilon, count in parts.items() for _ in range(count)]


# ---------------------------------------------------------------------------
# Numbers.


def _largest(is_enough: Callable[[Fraction], bool], most: Fraction) -> Fraction:
    """The largest number up to ``most`` for which a monotone test holds, rounded down."""
    if is_enough(most):
        return most
    lo, hi = Fraction(0), most
    while hi - lo > _SEARCH_SLACK * hi and hi > _SEARCH_SLACK:
        middle = Fraction(float(lo + hi) / 2)
        if is_enough(middle):
            lo = middle
        else:
            hi = middle
    return lo


def _letter(goal: Goal) -> tuple[str, str]:
    """The name of a goal's main parameter, and its letter."""
    names = {PureDP: ("epsilon", "ε"), ApproxDP: ("epsilon", "ε"), ZCDP: ("rho", "ρ"), GDP: ("mu", "μ")}
    return names[type(goal)]


def _with_parameter(goal: Goal, value: float) -> Goal:
    changed: Any = {_letter(goal)[0]: value}
    return replace(goal, **changed)


def _parameter_near(goal: Goal, left: Fraction) -> float:
    """About the ε, ρ or μ of the goal of this kind for which one person spends ``left``."""
    if isinstance(goal, PureDP):
        return float(left)
    if isinstance(goal, ZCDP):
        return float(left / 2)
    if isinstance(goal, GDP):
        return math.sqrt(left)
    assert isinstance(goal, ApproxDP)
    if goal.calibration == "exact":
        return _epsilon_below(left, Fraction(goal.delta))
    # ε²/(2 ln(2/δ)) = μ² keeps its promise for small ε only: for this one, and so for those below.
    return min(float(goal.epsilon), math.sqrt(float(left) * 2 * math.log(2 / float(goal.delta))))


def _four_digits_below(value: float) -> Decimal:
    return Context(prec=4, rounding=ROUND_FLOOR).create_decimal(Decimal(value))


def _four_digits_above(value: float) -> Decimal:
    return Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(value))


def _epsilon_below(mu_squared: Fraction, delta: Fraction) -> float:
    """An ε for which a plan of (ε, δ) spends at most ``mu_squared``; 0 if there is none."""
    epsilon, step = epsilon_of(mu_squared, delta), 1e-15
    while epsilon > 0 and _mu_squared_of(epsilon, delta) > mu_squared:
        epsilon *= 1 - step
        step *= 2
        if step > 0.5:
            return 0.0
    return epsilon
