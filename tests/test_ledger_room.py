"""What a ledger leaves in the terms of the plan at hand: found exactly, refused early, never wrongly."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import (
    AlreadySpentError,
    DesignError,
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    OverBudgetError,
    PrivacyError,
)
from leastnoise.planning import all_methods
from leastnoise.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    CellCosts,
    Charge,
    Goal,
    Ledger,
    PureDP,
    Remaining,
    least_limit,
)
from leastnoise.privacy.accounting import Tally, full_charge, tally_of, within
from leastnoise.privacy.ledger import LEAST_SHARE_SPENT
from leastnoise.privacy.ledger.advice import goal_to_text
from leastnoise.privacy.ledger.history import History, opening_row
from leastnoise.release.release_file import stored_goal, stored_release
from ledger_stress import TABLE
from support import refuses

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"))
COUNTS = np.arange(12)
PARAMETER = {PureDP: "epsilon", ApproxDP: "epsilon", ZCDP: "rho", GDP: "mu"}


def costing(*costs: Fraction | int, noise: str = "gaussian", **others: Any) -> Charge:
    """A charge of these costs, cell by cell."""
    cells = CellCosts.of(Fraction(cost) for cost in costs)
    return replace(Charge(noise, "add-remove", 1, cells.largest, cells, "cells", "plan"), **others)


def plan_of(goal: Goal | None, *queries: ln.Query, **settings: Any) -> ln.Plan:
    return ln.design(ln.assemble(queries or [ln.Marginal("age", "sex")], SCHEMA), goal, **settings)


# ------------------------------------------------------------------ what is left, as it may be typed

SPENT = {
    "nothing": (),
    "gaussian": (costing(Fraction(1, 90), Fraction(1, 100)),),
    "pure": (costing(Fraction(1, 9), noise="laplace"),),
    "pure, then gaussian": (costing(Fraction(1, 9), noise="laplace"), costing(Fraction(1, 90))),
}
KINDS = [ApproxDP(1, 1e-6), ApproxDP(3, 1e-9), ApproxDP(0.5, 1e-6, calibration="classic"), ZCDP(1), GDP(1)]
KINDS += [ApproxDP(2, 1e-8), PureDP(1), PureDP(1, records_per_person=2), GDP(1, records_per_person=3)]


def fits(goal: Goal, limit: Goal, spent: tuple[Charge, ...], planned: bool = False) -> bool:
    """Whether any plan for a goal fits: the ledger's own rule, asked for the whole goal in every cell."""
    return within(limit, tally_of(spent).plus(full_charge(goal)), planned=planned)


def typed(goal: Goal, value: Decimal) -> Goal:
    changed: Any = {PARAMETER[type(goal)]: float(value)}
    return replace(goal, **changed)


def searched(goal: Goal, limit: Goal, spent: tuple[Charge, ...]) -> Decimal | None:
    """The largest number of four digits that fits, by bisection over all there are; no closed form."""
    exponents = range(-12, 4)
    for exponent in reversed(exponents):
        if not fits(typed(goal, Decimal(1000).scaleb(exponent)), limit, spent):
            continue
        low, high = 1000, 10000
        while high - low > 1:
            middle = (low + high) // 2
            if fits(typed(goal, Decimal(middle).scaleb(exponent)), limit, spent):
                low = middle
            else:
                high = middle
        return Decimal(low).scaleb(exponent)
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("goal", KINDS, ids=repr)
@pytest.mark.parametrize("limit", [ApproxDP(1, 1e-8), ZCDP(0.3), GDP(0.7), PureDP(1)], ids=repr)
@pytest.mark.parametrize("spent", SPENT.values(), ids=SPENT)
def test_what_is_left_is_the_largest_goal_of_the_plans_own_kind(
    goal: Goal, limit: Goal, spent: tuple[Charge, ...]
) -> None:
    if isinstance(limit, PureDP):
        spent = tuple(charge for charge in spent if charge.noise == "laplace")
        if goal.noise == "gaussian":
            with refuses(PrivacyError, "limit", None, "never satisfies a limit of pure privacy"):
                Remaining(limit, tally_of(spent)).like(goal)
            return
    found = Remaining(limit, tally_of(spent)).like(goal)
    assert found is not None
    name = PARAMETER[type(goal)]
    assert replace(found, **{name: getattr(goal, name)}) == goal  # type: ignore[arg-type]
    assert fits(found, limit, spent)
    if isinstance(goal, ApproxDP) and goal.calibration == "classic":
        # Its formula holds for small ε only, so that no more than the goal's own is offered.
        assert found.epsilon <= goal.epsilon  # type: ignore[attr-defined]
        return
    assert Decimal(repr(getattr(found, name))) == searched(goal, limit, spent)


def test_of_a_series_fixed_beforehand_more_is_left() -> None:
    spent = (costing(Fraction(1, 9), noise="laplace"), costing(Fraction(1, 90)))
    limit, goal = ApproxDP(1, 1e-6), ApproxDP(1, 1e-5)
    along = Remaining(limit, tally_of(spent)).like(goal)
    planned = Remaining(limit, tally_of(spent), planned=True).like(goal)
    assert isinstance(along, ApproxDP) and isinstance(planned, ApproxDP)
    assert planned.epsilon > along.epsilon
    assert fits(planned, limit, spent, planned=True) and not fits(planned, limit, spent)


def test_an_epsilon_at_another_delta_overspends() -> None:
    """What used to be said, the ε left at the limit's δ, is refused when typed beside the plan's own."""
    limit, goal = ApproxDP(1.5, 1e-8), ApproxDP(1, 1e-6)
    spent = (costing(goal.budget),)
    left = Remaining(limit, tally_of(spent))
    assert not fits(replace(goal, epsilon=left.value), limit, spent)
    found = left.like(goal)
    assert isinstance(found, ApproxDP) and fits(found, limit, spent)
    assert not fits(
        replace(found, epsilon=float(Decimal(repr(found.epsilon)) + Decimal("1e-4"))), limit, spent
    )


def test_nothing_left_is_none() -> None:
    used = tally_of([costing(GDP(1).budget)])
    for goal in (GDP(1), ApproxDP(1, 1e-6), ZCDP(0.1), PureDP(1)):
        assert Remaining(GDP(1), used).like(goal) is None
    with refuses(PrivacyError, "neighbours", "replace-one"):
        Remaining(GDP(1), Tally()).like(GDP(1, neighbours="replace-one"))
    with refuses(PrivacyError, "records_per_person", 1):
        Remaining(GDP(1, records_per_person=2), Tally()).like(GDP(1))


def test_goals_are_written_as_specifications_hold_them() -> None:
    told = [goal_to_text(goal) for goal in (ApproxDP(0.5, 1e-6), PureDP(2), ZCDP(Fraction(1, 3)), GDP(1))]
    assert told == ["epsilon = 0.5 with delta = 1e-06", "epsilon = 2", "rho = 1/3", "mu = 1"]


# ------------------------------------------------------------------ how often, and how large a limit

SERIES = [ApproxDP(1, 1e-6), ApproxDP(0.5, 1e-6, calibration="classic"), ZCDP(0.05), GDP(0.3), PureDP(0.1)]
SERIES += [
    PureDP(0.3, records_per_person=3),
    ApproxDP(2, 1e-9, records_per_person=2, neighbours="replace-one"),
]


def whole_limit(goal: Goal, value: Decimal) -> Goal:
    found = typed(goal, value)
    return replace(found, calibration="exact") if isinstance(found, ApproxDP) else found


def fits_so_often(limit: Goal, goal: Goal, times: int) -> bool:
    """Asked charge by charge, as a ledger would be."""
    return within(limit, [full_charge(goal)] * times)


@pytest.mark.parametrize("goal", SERIES, ids=repr)
@pytest.mark.parametrize("times", [1, 2, 7])
def test_the_least_limit_for_so_many_releases(goal: Goal, times: int) -> None:
    found = least_limit(goal, times)
    name = PARAMETER[type(goal)]
    assert found.neighbours == goal.neighbours and found.records_per_person == goal.records_per_person
    assert getattr(found, "delta", None) == getattr(goal, "delta", None)
    assert fits_so_often(found, goal, times)
    value = Decimal(repr(getattr(found, name)))
    assert len(value.normalize().as_tuple().digits) <= 4
    below = value - Decimal(1).scaleb(
        value.adjusted() - (3 if value.normalize().as_tuple().digits != (1,) else 4)
    )
    assert not fits_so_often(whole_limit(goal, below), goal, times)


def test_a_limit_that_adds_up_the_epsilons_is_no_least_one() -> None:
    """Twins: n times ε is far more than Gaussian noise needs, and √n times too little, also for pure ones."""
    goal = ApproxDP(1, 1e-6)
    found = least_limit(goal, 4)
    assert isinstance(found, ApproxDP) and found.epsilon < 0.6 * 4 * goal.epsilon
    assert not fits_so_often(ApproxDP(2, 1e-6), goal, 4)
    pure = least_limit(PureDP(0.25), 4)
    assert pure == PureDP(1.0) and not fits_so_often(PureDP(0.5), PureDP(0.25), 4)


@pytest.mark.thorough
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("limit", [ApproxDP(2, 1e-6), ZCDP(0.3), GDP(0.7), PureDP(2)], ids=repr)
@pytest.mark.parametrize("spent", SPENT.values(), ids=SPENT)
def test_how_often_a_charge_fits_is_counted_as_the_ledger_would(
    limit: Goal, spent: tuple[Charge, ...], planned: bool
) -> None:
    charges = [costing(Fraction(1, 60), Fraction(1, 50)), costing(Fraction(1, 7), 0, noise="laplace")]
    if isinstance(limit, PureDP):
        spent, charges = tuple(c for c in spent if c.noise == "laplace"), charges[1:]
    if any(charge.per_cell and len(charge.per_cell) == 1 for charge in spent):
        charges = [replace(charge, cells="others") for charge in charges]
    for charge in charges:
        # One after the other, in a tally that knows nothing of repetitions.
        tally, n = tally_of(spent).plus(charge), 0
        while n < 40 and within(limit, tally, planned=planned):
            tally, n = tally.plus(charge), n + 1
        left = Remaining(limit, tally_of(spent), planned=planned)
        assert left.times(charge, most=40) == n
        assert left.times(charge, most=3) == min(n, 3)
        assert left.times(charge, most=1000) == n or n == 40


def test_what_a_person_who_changes_cells_has_spent() -> None:
    """Whoever was in the dearest cell of one plan last year, and of another now, has spent both."""
    yearly, other = costing(Fraction(1, 9), 0), costing(0, Fraction(1, 9))
    for first, second in (
        (yearly, yearly),
        (yearly, replace(other, cells="of another schema")),
        (yearly, other),
    ):
        worst = first.worst + second.worst
        assert tally_of([first, second]).mu_squared == worst
    # Added cell by cell it would be too little, which is why that needs a table that is confirmed unchanged.
    assert Tally().plus(yearly, group="town").plus(other, group="town").mu_squared < worst


def test_repeated_charges_are_those_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    def totals(n_at_once: int) -> tuple[Any, ...]:
        tally = tally_of(
            [costing(Fraction(1, 9), Fraction(1, 3)), costing(Fraction(1, 8), 0, noise="laplace")]
        )
        for charge in (costing(Fraction(2, 7), Fraction(1, 5)), costing(Fraction(1, 6), 0, noise="laplace")):
            for _ in range(12 // n_at_once):
                tally = tally.plus(charge, n_at_once)
        parts = (dict(tally.pure_parts), dict(tally.pure_parts_after_gaussian))
        return tally.mu_squared, tally.epsilon, tally.epsilon_before_gaussian, *parts

    assert totals(1) == totals(3) == totals(12)
    assert tally_of([]).plus(costing(1), 0).mu_squared == 0
    # A twin that takes twelve pure releases for one large one does not agree, nor one that counts them once.
    whole = costing(Fraction(1, 6), 0, noise="laplace")
    assert Tally().plus(whole.times(12)).pure_parts != Tally().plus(whole, 12).pure_parts
    monkeypatch.setattr(Charge, "times", lambda charge, factor: charge)
    assert totals(12) != totals(1)


def test_a_charge_that_never_fits_is_not_counted() -> None:
    with refuses(PrivacyError, "limit", None, "pure privacy"):
        Remaining(PureDP(1), Tally()).times(costing(1), most=10)
    with refuses(PrivacyError, "records_per_person", 1):
        Remaining(GDP(1, records_per_person=2), Tally()).times(costing(1), most=10)


@pytest.mark.parametrize("limit", [ApproxDP(2, 1e-6), ZCDP(0.1), GDP(0.6)], ids=repr)
def test_why_a_pure_release_costs_more_is_said_where_it_does(limit: Goal, path: Path) -> None:
    """Also which Gaussian one would fit, which is then accepted, and not a digit more."""
    ledger = Ledger(path, dataset="people", limit=limit)
    first, pure = GDP(0.23), PureDP(0.5)
    if isinstance(limit, ApproxDP):
        # Before the first Gaussian release its ε counts as it is.
        with pytest.raises(OverBudgetError) as caught:
            ledger.check(full_charge(PureDP(3)), "pure", goal=PureDP(3))
        assert "costs more than its epsilon" not in str(caught.value)
    ledger.spend(full_charge(first), "first")
    with pytest.raises(OverBudgetError) as caught:
        ledger.check(full_charge(pure), "pure", goal=pure)
    told = re.search(
        r"(costs more than its epsilon after Gaussian ones|counts under this limit)\b.*; with Gaussian "
        r"noise, (\w+) = (\S+)( with delta = 1e-06)? would fit\. Nothing was spent\.$",
        str(caught.value),
    )
    assert told is not None, caught.value
    assert told[2] == PARAMETER[type(limit)] and bool(told[4]) == isinstance(limit, ApproxDP)
    value = Decimal(told[3])
    above = typed(limit, value + Decimal(1).scaleb(value.adjusted() - 3))
    with pytest.raises(OverBudgetError):
        ledger.check(full_charge(above), "more", goal=above)
    assert ledger.check(full_charge(typed(limit, value)), "more") is None


# ------------------------------------------------------------------ refusals that say what would fit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


def refused(ledger: Ledger, plan: ln.Plan) -> str:
    before = ledger.head
    with pytest.raises(OverBudgetError, match=r"Nothing was spent\.$") as caught:
        ln.measure(plan, COUNTS, ledger=ledger)
    assert ledger.head == before
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("limit", "goal"),
    [
        (ApproxDP(1.5, 1e-8), ApproxDP(1.0, 1e-6)),
        (ApproxDP(1.5, 1e-6), ZCDP(0.05)),
        (GDP(1), ApproxDP(4.0, 1e-6, records_per_person=2)),
        (PureDP(1), PureDP(0.75)),
        (ZCDP(0.3), PureDP(0.7)),
    ],
    ids=repr,
)
def test_the_epsilon_that_a_refusal_names_is_accepted(limit: Goal, goal: Goal, path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=limit)
    settings = {"method": "identity"}
    ln.measure(plan_of(goal, **settings), COUNTS, ledger=ledger)
    told = refused(ledger, plan_of(goal, **settings))
    found = re.search(r"; set (epsilon|rho|mu) to at most (\S+?)( with delta = 1e-06)? \(in a spec", told)
    assert found is not None, told
    assert found[1] == PARAMETER[type(goal)] and bool(found[3]) == isinstance(goal, ApproxDP)
    value = Decimal(found[2])
    above = value + Decimal(1).scaleb(value.adjusted() - 3)
    # The plan of method "identity" spends as much in every cell, so that not one digit more fits.
    refused(ledger, plan_of(typed(goal, above), **settings))
    ln.measure(plan_of(typed(goal, value), **settings), COUNTS, ledger=ledger)
    assert "; nothing is left" in refused(ledger, plan_of(goal, **settings)) or len(ledger.entries) == 2


def test_targets_that_cost_too_much_are_told_by_how_much(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=ApproxDP(1, 1e-6))
    women, men = ln.Where("sex == 'F'", stderr=9), ln.Where("sex == 'M'", stderr=30)
    ln.measure(plan_of(None, women, men, method="dense"), COUNTS, ledger=ledger)
    ages = ln.Marginal("age", stderr=3)
    told = refused(ledger, plan_of(None, ages))
    assert "left" in told and "at δ = 1e-06" in told and "leastnoise explain" in told
    found = re.search(r"standard errors (\S+) times as large it would fit", told)
    assert found is not None, told
    refused(ledger, plan_of(None, ages.having(stderr=3 * float(found[1]) * 0.98)))
    # A design may spend more than the least by its tolerance, which the three digits cover as a rule.
    ln.measure(plan_of(None, ages.having(stderr=3 * float(found[1]) * 1.001)), COUNTS, ledger=ledger)


def test_nothing_left_and_far_too_much_are_told_plainly(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(1))
    with refuses(OverBudgetError, "limit", ..., "design it for a smaller goal"):
        ledger.check(costing(10**400), "far too much")
    with refuses(OverBudgetError, "limit", ..., "standard errors 2 times as large it would fit"):
        ledger.check(costing(4), "too much")
    ledger.spend(costing(1), "all")
    with refuses(OverBudgetError, "limit", ..., "nothing is left for a plan that counts everybody"):
        ledger.check(costing(1), "more")
    with refuses(OverBudgetError, "limit", ..., "nothing is left for a plan with delta = 1e-06"):
        ledger.spend(costing(1), "more", goal=ApproxDP(1, 1e-6))


# ------------------------------------------------------------------ refused before a long design


def plans(spent: list[Charge], goal: Goal, draw: np.random.Generator) -> list[Charge]:
    """Plans that spend a sure share of a goal in a cell: the cheapest, in the emptiest cell, and others."""
    most = LEAST_SHARE_SPENT * goal.budget
    totals = [sum(charge.per_cell[i] for charge in spent if charge.per_cell) for i in range(3)]
    found = [costing(*(most if i == totals.index(min(totals)) else 0 for i in range(3)))]
    for _ in range(5):
        shares = [Fraction(int(share), 10) for share in draw.integers(0, 11, 3)]
        shares[int(draw.integers(3))] = Fraction(1)
        found.append(costing(*(share * most for share in shares)))
    return found


def early_refusals() -> Counter[tuple[bool, bool]]:
    """For histories and goals drawn at random: whether a plan could fit, and whether it is ruled out."""
    draw, judged = np.random.default_rng(8), Counter[tuple[bool, bool]]()
    for _ in range(300):
        spent = [costing(*(Fraction(int(c), 40) for c in draw.integers(0, 9, 3))) for _ in range(3)]
        limit, goal = (GDP(Fraction(int(draw.integers(low, 13)), 8)) for low in (5, 2))
        tally = Tally()
        for charge in spent:
            tally = tally.plus(charge, group="town")
        if within(limit, tally):
            history = History(opening_row("people", limit, planned=False))
            history.tally = tally
            fits = any(within(limit, tally.plus(plan, group="town")) for plan in plans(spent, goal, draw))
            judged[fits, history.rules_out(goal, LEAST_SHARE_SPENT, "town")] += 1
    return judged


@pytest.mark.thorough
def test_no_plan_that_fits_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = early_refusals()
    assert judged[True, True] == 0 and judged[True, False] > 20
    # Nor is anything let through in vain that the cheapest plan could tell.
    assert judged[False, False] == 0 and judged[False, True] > 20
    # Whoever forgets that another cell may have room refuses what would fit.
    monkeypatch.setattr(Tally, "slack", lambda *_: Fraction(0))
    assert early_refusals()[True, True] > 0


@pytest.mark.thorough
def test_every_method_spends_nearly_all_of_its_goal() -> None:
    """A goal is refused early because every plan that counts anybody spends it: measured by method."""
    seen = set()
    for goal in (ApproxDP(1, 1e-6), GDP(0.01, records_per_person=3), PureDP(2)):
        for method in all_methods():
            for stderr in (None, 4000):
                asked = [ln.Marginal("age", "sex", stderr=stderr), ln.Prefix("age", stderr=stderr)]
                try:
                    plan = plan_of(goal, *asked, method=method.name, time_limit=5)
                except DesignError:
                    continue
                seen.add(method.name)
                assert (
                    plan.charge.worst
                    >= Fraction(999_999, 10**6) * goal.budget
                    > LEAST_SHARE_SPENT * goal.budget
                )
    assert len(seen) > 15, seen


def test_what_only_a_design_can_tell_is_not_refused_early(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(1))
    ledger.spend(costing(1, 0), "first", table=TABLE)
    ledger.check_goal(GDP(1), same_table_as="first")  # the second cell has room for all of it
    for options in ({}, {"same_table_as": "absent"}):
        with refuses(OverBudgetError, "limit", ..., "and no plan for 1-GDP"):
            ledger.check_goal(GDP(1), **options)
    ledger.check_goal(GDP(1), share=Fraction(0))
    with refuses(LedgerMismatchError, "neighbours", "replace-one", "Nothing was spent"):
        ledger.check_goal(GDP(1, neighbours="replace-one"), share=Fraction(0))
    planned = Ledger(path.with_name("b.ledger"), dataset="people", limit=GDP(1), planned=True)
    planned.check_goal(GDP(2))
    with refuses(InputError, "goal", int):
        ledger.check_goal(1)  # type: ignore[arg-type]
    with refuses(InputError, "share", ..., "between 0 and 1"):
        ledger.check_goal(GDP(1), share=Fraction(2))


def test_the_room_in_the_emptiest_cell_is_exact() -> None:
    """Added up in floats, 1/10 and 2/10 leave more or less than they do."""
    first, second = costing(Fraction(1, 10), 0, 1), costing(Fraction(2, 10), Fraction(3, 10), 0)
    alone = Tally().plus(first, group="town")
    assert alone.slack("gaussian", "town") == 1
    spent = alone.plus(second, group="town").plus(second)
    assert spent.slack("gaussian", "town") == Fraction(7, 10)
    for other in (("laplace", "town"), ("gaussian", "others"), ("gaussian", None)):
        assert spent.slack(*other) == 0


# ------------------------------------------------------------------ stored releases


def test_a_stored_release_is_had_by_its_id_alone(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(2))
    given = ln.measure(plan_of(GDP(1)), COUNTS, ledger=ledger, release_id="first")
    before = ledger.head
    again = stored_release(Ledger(path), "first")
    assert (again.measurements == given.measurements).all() and again.receipt == given.receipt
    assert again.plan.digest == given.plan.digest and ledger.head == before
    assert stored_goal(ledger, "first") == GDP(1) and stored_goal(ledger, "none") is None
    with refuses(LedgerMismatchError, "release_id", "second"):
        stored_release(ledger, "second")
    ledger.spend(costing(1), "second")
    with refuses(AlreadySpentError, "release_id", "second"):
        stored_release(ledger, "second")


def test_what_is_stored_under_the_name_of_another_is_not_handed_out(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(2))
    plan = plan_of(GDP(1))
    given = ln.measure(plan, COUNTS, ledger=ledger, release_id="first")
    entry = ledger.spend(plan.charge, "second")
    ledger.store(entry, given.to_bytes())
    with refuses(LedgerFileError, "release_id", "second", "paid for"):
        stored_release(ledger, "second")
    entry = ledger.spend(costing(1), "third")
    ledger.store(entry, b"made by something else")
    assert stored_goal(ledger, "third") is None
