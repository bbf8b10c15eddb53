"""A new neighbouring relation is one class: what is planned, proved and measured with it keeps its promise.

The relation here is not one of the library's: a person has up to three records, all in one cell, and two
tables are neighbours if one person more or fewer is in them. What it promises is checked against tables made
of people, one by one, which shares nothing with the library but the integers that it measures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import certify
from leastnoise.core.errors import PrivacyError, UnrecordedSpending
from leastnoise.planning import Plan
from leastnoise.planning.mechanism import split_budget
from leastnoise.privacy import NEIGHBOURS, NOISES, Goal, Neighbours, Noise
from leastnoise.report import audit
from leastnoise.strategy import GRID_TOLERANCE, Strategy
from leastnoise.strategy.structured.blocks import Structured
from support import refuses
from tolerances import ROUNDING

MOST = 3


class InOneCell(Neighbours):
    """A person has up to three records, all in one cell; a neighbour has one person more or fewer."""

    __slots__ = ()

    records = MOST

    def statement(self, records_per_person: int, *, by_person: bool = False) -> str:
        cells = "all in one cell" if records_per_person == 1 else f"in each of {records_per_person} cells"
        return f"adding or removing a person with up to {self.records} records, {cells}"


class ForgetsHowMany(InOneCell):
    """A broken twin: it takes one record for all that a person has."""

    __slots__ = ()

    def change_cost(self, column: int, noise: Noise) -> int:
        return column


class ForgetsToSquare(InOneCell):
    """A broken twin: three records move answers three times as far, nine times as much in squares."""

    __slots__ = ()

    def change_cost(self, column: int, noise: Noise) -> int:
        return self.records * column


NAME = "in-one-cell"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEIGHBOURS, NAME, InOneCell(NAME))


# The oracle: tables of people ------------------------------------------------------------------


def neighbours_of(people: list[tuple[int, int]], n: int) -> Iterator[list[tuple[int, int]]]:
    """Every table with one person more or fewer; a person is a cell and a number of records in it."""
    for i in range(len(people)):
        yield people[:i] + people[i + 1 :]
    for cell in range(n):
        for records in range(1, MOST + 1):
            yield [*people, (cell, records)]


def answers(rows: list[list[int]], people: list[tuple[int, int]]) -> list[int]:
    return [sum(row[cell] * records for cell, records in people) for row in rows]


def largest_loss(strategy: Strategy | Structured, people: list[tuple[int, int]]) -> Fraction:
    """The μ² or ε by which some neighbour of a table is told from it, from what is measured of both."""
    rows = [[int(a) for a in row] for row in strategy.dense()]
    here = answers(rows, people)
    losses = []
    for other in neighbours_of(people, strategy.n_cells):
        change = [a - b for a, b in zip(here, answers(rows, other), strict=True)]
        if str(strategy.noise) == "gaussian":
            losses.append(Fraction(sum(d * d for d in change), strategy.scale * strategy.scale))
        else:
            # The log of the likelihood ratio of Laplace noise is largest where all noise is of one sign.
            losses.append(Fraction(sum(abs(d) for d in change), strategy.scale))
    return max(losses)


def some_people(rng: random.Random, n: int) -> list[tuple[int, int]]:
    return [(rng.randrange(n), rng.randint(1, MOST)) for _ in range(rng.randint(0, 4))]


def check_promise(plan: Plan, rng: random.Random) -> None:
    """Fail if some table of people is told from a neighbour better than the plan's goal allows."""
    strategy = plan.fixed_strategy()
    assert isinstance(strategy, Strategy | Structured)
    loss = largest_loss(strategy, some_people(rng, strategy.n_cells))
    assert loss <= plan.spent_per_person
    assert loss <= allowed(plan.privacy)


def allowed(goal: Goal) -> Fraction:
    """What a goal allows for one person, from its numbers alone."""
    if isinstance(goal, ln.PureDP):
        return Fraction(goal.epsilon)
    if isinstance(goal, ln.GDP):
        return Fraction(goal.mu) ** 2
    assert isinstance(goal, ln.ZCDP)
    return 2 * Fraction(goal.rho)


# Sensitivity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_sensitivity_is_that_of_tables_of_people(noise: str) -> None:
    rng, n_wrong = random.Random(5), {ForgetsHowMany: 0, ForgetsToSquare: 0}
    for _ in range(60):
        n, r = rng.randint(1, 4), rng.randint(1, 4)
        rows = np.array([[rng.randint(-9, 9) for _ in range(n)] for _ in range(r)])
        strategy = Strategy(rows, scale=rng.randint(1, 50), noise=noise, neighbours=NAME)
        # Every person that may be added to an empty table is one of its neighbours.
        assert strategy.spent == largest_loss(strategy, [])
        assert strategy.spent >= largest_loss(strategy, some_people(rng, n))
        for twin in n_wrong:
            said = Fraction(max(twin(NAME).cell_costs(rows, strategy.noise)), strategy.unit)
            n_wrong[twin] += said < largest_loss(strategy, [])
    assert n_wrong[ForgetsHowMany] > 50
    assert n_wrong[ForgetsToSquare] > 50 if noise == "gaussian" else n_wrong[ForgetsToSquare] == 0


# Plans ------------------------------------------------------------------------------------------

SCHEMA = ln.Schema(a=range(3), b=range(4))
CASES = {
    "dense": ([ln.Prefix("b")], ln.GDP(1, neighbours="add-remove"), ln.TotalVariance()),
    "largest": ([ln.AllRanges("b")], ln.ZCDP(0.3), ln.MaxVariance()),
    "within": ([ln.Prefix("b", stderr=9), ln.Total(stderr=12)], ln.GDP(1), None),
    "product": ([ln.Prefix("a") * ln.Prefix("b")], ln.GDP(0.5), ln.TotalVariance()),
    "marginals": ([ln.Marginal("a"), ln.Marginal("b")], ln.GDP(0.7), ln.TotalVariance()),
    "residuals": ([ln.Prefix("a"), ln.Prefix("b")], ln.GDP(2), ln.TotalVariance()),
    "pure": ([ln.Marginal("a"), ln.Total()], ln.PureDP(1), ln.TotalVariance()),
    "targets": ([ln.Prefix("b", stderr=3)], None, None),
}
METHODS = {"product": "product", "marginals": "marginals", "residuals": "residuals"}


def planned(case: str, *, neighbours: str, times: int = 1) -> Plan:
    """The plan of a case, its goal divided by a factor."""
    queries, goal, objective = CASES[case]
    workload = ln.assemble(queries, SCHEMA)
    if goal is None:
        goal, objective = ln.GDP(1), ln.Targets()
    content = goal.to_dict()
    letter = next(name for name in ("epsilon", "mu", "rho") if name in content)
    power = 2 if letter == "rho" else 1
    value = Fraction(content[letter]) / times**power
    goal = type(goal)(value, neighbours=neighbours)
    return ln.design(workload, goal, objective=objective, method=METHODS.get(case, "auto"))


@pytest.mark.parametrize("case", CASES)
def test_plans_keep_their_promise_and_prove_what_they_should(case: str, tmp_path: Path) -> None:
    plan = planned(case, neighbours=NAME)
    rng = random.Random(case)
    for _ in range(5):
        check_promise(plan, rng)
    # One person with three records in a cell is as far as one record at a third of the budget: both sides
    # of the certificate must be those of that plan.
    other = planned(case, neighbours="add-remove", times=MOST)
    own, its = certify(plan.workload, plan), certify(other.workload, other)
    assert own.achieved == pytest.approx(its.achieved, rel=2 * GRID_TOLERANCE)
    assert own.lower_bound == pytest.approx(its.lower_bound, rel=ROUNDING)
    assert own.status == its.status
    again = ln.load_plan(plan.save(tmp_path / "plan.lnp"))
    assert again.privacy == plan.privacy and again.digest == plan.digest
    assert "up to 3 records, all in one cell" in plan.privacy.statement()
    assert "in each of 2 cells" in ln.GDP(1, neighbours=NAME, records_per_person=2).statement()


def test_what_is_released_tells_no_neighbour_better_than_promised() -> None:
    """The likelihood ratio of a real release, for every neighbour of its table, in rationals."""
    plan = planned("pure", neighbours=NAME)
    strategy, rng = plan.fixed_strategy(), random.Random(2)
    rows = [[int(a) for a in row] for row in strategy.dense()]
    closest = Fraction(0)
    for _ in range(3):
        people = some_people(rng, strategy.n_cells)
        counts = np.zeros(strategy.n_cells, dtype=np.int64)
        for cell, records in people:
            counts[cell] += records
        with pytest.warns(UnrecordedSpending):
            z = [int(value) for value in ln.measure(plan, counts).measurements]
        here = sum(abs(a - b) for a, b in zip(z, answers(rows, people), strict=True))
        for other in neighbours_of(people, strategy.n_cells):
            there = sum(abs(a - b) for a, b in zip(z, answers(rows, other), strict=True))
            closest = max(closest, Fraction(abs(here - there), strategy.scale))
    assert Fraction(1, 2) < closest <= 1


def test_later_plans_stay_within_what_earlier_ones_leave_of_each_cell(tmp_path: Path) -> None:
    goal = ln.GDP(1, neighbours=NAME)
    first = ln.design(ln.assemble([ln.Where("a == 0")], SCHEMA), goal)
    then = ln.design(ln.assemble([ln.Where("a == 1")], SCHEMA), goal, after=[first])
    both = [first.fixed_strategy(), then.fixed_strategy()]
    for cell in range(12):
        for records in range(1, MOST + 1):
            losses = [largest_loss_of(strategy, cell, records) for strategy in both]
            assert sum(losses) <= 1
    # Both queries have the whole budget, because nobody is in the cells of both.
    assert certify(then.workload, then).status == "optimal"
    assert float(then.stderr[0]) == pytest.approx(float(first.stderr[0]), rel=ROUNDING)
    ledger = ln.Ledger(tmp_path / "budget.db", dataset="people", limit=goal)
    table = np.ones(12, dtype=np.int64)
    for number, plan in enumerate((first, then)):
        ln.measure(plan, table, ledger=ledger, release_id=str(number))
    assert ledger.remaining.value < 0.01


def largest_loss_of(strategy: Strategy | Structured, cell: int, records: int) -> Fraction:
    column = [int(row[cell]) * records for row in strategy.dense()]
    return Fraction(sum(a * a for a in column), strategy.scale * strategy.scale)


def test_other_rooms_ask_the_relation() -> None:
    goal = ln.PureDP(1, neighbours=NAME)
    # A mechanism for one record more or fewer is run three times along a person of three records.
    assert sum(split_budget(goal, {"one": Fraction(1, 4), "two": Fraction(3, 4)}).values()) == Fraction(1, 3)
    assert audit(planned("dense", neighbours=NAME), draws=2_000).faults == ()
    with refuses(PrivacyError, "neighbours", "in-two-cells"):
        ln.GDP(1, neighbours="in-two-cells")


@pytest.mark.parametrize("twin", [ForgetsHowMany, ForgetsToSquare])
def test_broken_relations_are_found_out(twin: type[InOneCell], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEIGHBOURS, NAME, twin(NAME))
    for case in ("dense", "marginals"):
        plan = planned(case, neighbours=NAME)
        with pytest.raises(AssertionError):
            check_promise(plan, random.Random(1))
