"""Bugs that would break the promise, planted one at a time, and the check that notices each.

A check is a small, independent test of one property: true for the library as it is. A bug is a change to the
library in memory that somebody could make by mistake. `test_planted_bugs.py` runs every check alone and
beside every bug that it must notice; ``seen_by`` names the test of the library itself that guards the same
property.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import leastnoise as ln
from joint_audit import told_apart
from leastnoise.bounds import cell_bound, certificate
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import LeastnoiseError, PlanFileError, PrivacyError, UnrecordedSpending
from leastnoise.core.random_bits import SystemBits
from leastnoise.data import counting, handle, limiting, placing
from leastnoise.planning import Plan, plan_checks
from leastnoise.planning import plan as plan_module
from leastnoise.privacy import CellCosts, Charge, Ledger, gaussian_delta_bounds
from leastnoise.privacy import goals as privacy
from leastnoise.privacy.accounting import limits, tally
from leastnoise.privacy.ledger import history, rows, spending
from leastnoise.query import Axis
from leastnoise.release import count_tables, intervals, measuring, noise, not_counted
from leastnoise.release import release as release_module
from leastnoise.release.release import Receipt
from leastnoise.report import auditing as audit
from leastnoise.strategy import AxisForm, Strategy, budget, centred_form, rounding
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from ledger_stress import TABLE, charge_of, new_ledger
from test_ledger import EDITS, edit, overspends
from test_person import kept_by_engine, obeys, records
from test_statistics import SeededBits
from tolerances import ROUNDING

Check = Callable[[Path], bool]
SCHEMA = ln.Schema(age=range(4), sex=("F", "M"))
WORKLOAD = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], SCHEMA)


def refuses(step: Callable[[], Any], kind: type[Exception] = LeastnoiseError) -> bool:
    try:
        step()
    except kind:
        return True
    return False


# ------------------------------------------------------------------ the noise


def gaussian_noise_is_as_wide_as_said(folder: Path) -> bool:
    return _keeps_its_word(ln.design(WORKLOAD, ln.GDP(1), method="hierarchical"))


def laplace_noise_is_as_wide_as_said(folder: Path) -> bool:
    return _keeps_its_word(ln.design(WORKLOAD, ln.PureDP(1), method="identity"))


def _keeps_its_word(plan: Plan) -> bool:
    """A small audit of the first cell's record, by the bounds of the real one."""
    own = plan.fixed_strategy()
    a = own.exact_answers(lambda _: [np.eye(8, dtype=np.int64)[0]]).astype(float) / own.scale
    direction = a / np.linalg.norm(a) if own.noise == "gaussian" else (a == a.max()).astype(float)
    group = max(1, round(2.4 / float(direction @ a)))
    apart = group * float(direction @ a)
    truths = [own.exact_answers(lambda _, m=m: [m * np.eye(8, dtype=np.int64)[0]]) for m in (0, group)]
    statistics = []
    for seed, truth in enumerate(truths):
        y = np.array([measuring.with_noise(own, truth, SeededBits(9999 * seed + i)) for i in range(1500)])
        statistics.append((y - truths[0]).astype(float) / own.scale @ direction)
    bound = audit._gaussian_bound if own.noise == "gaussian" else audit._laplace_bound
    return bound(statistics[0], statistics[1], apart, 1e-6) <= apart


def every_integer_has_noise_of_its_own(folder: Path) -> bool:
    """No two draws agree, nor do two that are a chunk apart: a chance of 1e-4 for the seed used here."""
    plan = ln.design(ln.assemble([ln.Marginal("a")], ln.Schema(a=range(64))), ln.GDP(1e-6), method="identity")
    y = measuring.measured(plan, np.zeros(64, dtype=np.int64), SeededBits(1))
    many = noise.rounded_gaussian(2**60, 40_000, SeededBits(2))
    return len(set(y.tolist())) == 64 and len(set(many)) == 40_000


def noise_takes_both_signs(folder: Path) -> bool:
    drawn = noise.rounded_gaussian(1000, 2000, SeededBits(3))
    drawn += noise.discrete_laplace(1000, 2000, SeededBits(4))
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], 4000, 0.5)
    return bool(low - 10 <= sum(value < 0 for value in drawn) <= high)


def releases_differ(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    with pytest.warns(UnrecordedSpending):
        first, second = (ln.measure(plan, [5] * 8).measurements.tolist() for _ in range(2))
    return bool(first != second)


# ------------------------------------------------------------------ the sensitivity


def brute_force(A: Any, power: int, *, replaced: bool) -> int:
    columns = [tuple(int(a) for a in column) for column in np.array(A, dtype=object).T]
    changes = list(columns)
    if replaced:
        changes += [tuple(a - b for a, b in zip(x, y, strict=True)) for x, y in combinations(columns, 2)]
    return max(sum(abs(d) ** power for d in change) for change in changes)


def random_matrices() -> list[Any]:
    rng = np.random.default_rng(0)
    found = [rng.integers(-9, 10, (5, 6)) for _ in range(5)]
    # Wide enough that squares pass 2^63 and floats lose digits.
    found += [rng.integers(-(2**60), 2**60, (5, 6)) for _ in range(5)]
    return found


def dense_sensitivity_is_that_of_all_columns(folder: Path) -> bool:
    return all(
        Strategy(A, scale=1, noise=kind).sensitivity == brute_force(A, power, replaced=False)
        for A in random_matrices()
        for kind, power in (("gaussian", 2), ("laplace", 1))
    )


def replaced_sensitivity_is_that_of_all_pairs(folder: Path) -> bool:
    return all(
        Strategy(A, scale=1, noise=kind, neighbours="replace-one").sensitivity
        == brute_force(A, power, replaced=True)
        for A in random_matrices()
        for kind, power in (("gaussian", 2), ("laplace", 1))
    )


def structured() -> Structured:
    """Blocks of different multipliers, put together by hand so that no design stands between."""
    axes = [Axis(("age",), (4,), (0,)), Axis(("sex",), (2,), (1,))]
    held = [
        ProductBlock((), (), 5),
        ProductBlock((0,), (0,), 7),
        ProductBlock((1,), (0,), 2),
        ProductBlock((0, 1), (0, 0), 3),
    ]
    return Structured(axes, [[centred_form(4)], [centred_form(2)]], held, scale=100, noise="gaussian")


def structured_sensitivity_is_that_of_its_matrix(folder: Path) -> bool:
    own = structured()
    return own.sensitivity == brute_force(_columns(own), 2, replaced=False)


def _columns(own: Structured) -> Any:
    """The matrix that is measured, from measuring one record after another."""
    found = []
    for cell in range(8):
        x = np.eye(8, dtype=np.int64)[cell].reshape(4, 2)

        def ask(subsets: Any, x: Any = x) -> list[Any]:
            sums = {("age",): x.sum(axis=1), ("sex",): x.sum(axis=0), (): x.sum(), ("age", "sex"): x}
            return [np.asarray(sums[names]) for names in subsets]

        found.append(own.exact_answers(ask))
    return np.array(found, dtype=object).T


def residuals_do_not_see_their_centre(folder: Path) -> bool:
    return refuses(lambda: AxisForm("split", 2, np.array([[1, -2]]), np.array([1, 1])))


# ------------------------------------------------------------------ the budget of a plan


def designs_keep_their_goal(folder: Path) -> bool:
    """What the integers spend, worked out here, against the goal as it was asked."""
    goals = [
        (ln.GDP(1), Fraction(1)),
        (ln.GDP(Fraction(1, 3), records_per_person=3), Fraction(1, 9)),
        (ln.PureDP(Fraction(1, 3), records_per_person=2), Fraction(1, 3)),
        (ln.GDP(1, neighbours="replace-one"), Fraction(1)),
    ]
    for goal, allowed in goals:
        plan = ln.design(WORKLOAD, goal, method="hierarchical")
        own = plan.fixed_strategy()
        power, k = (2 if own.noise == "gaussian" else 1), goal.records_per_person
        worst = brute_force(own.dense(), power, replaced=goal.neighbours == "replace-one")
        if Fraction(worst * k**power, own.scale**power) > allowed:
            return False
    return True


def a_hair_above_the_goal_is_refused(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    own = plan.fixed_strategy()
    # The largest goal below what is spent that floats cannot tell from it.
    goal = ln.ZCDP(own.spent / 2 * (1 - Fraction(1, 10**25)))
    return refuses(lambda: replace(plan, privacy=goal), PrivacyError)


def a_saved_plan_is_not_believed(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    content, arrays = plan.to_parts()
    content["scale"] = str(int(content["scale"]) // 2)
    path = container.write(folder / "less.plan", "plan", content, arrays)
    return refuses(lambda: ln.load_plan(path), PlanFileError)


def directions_survive_rounding(folder: Path) -> bool:
    """The rank of the integers by elimination in fractions, and every query in their span."""
    W = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    plan = ln.design(ln.Workload.from_matrix(W, weights=[1, 1e-8, 1]), ln.GDP(1), method="dense")
    own = plan.fixed_strategy()
    return _rank(own.dense()) == 3 and own.can_answer_all(plan.workload)


def _rank(A: Any) -> int:
    rest = [[Fraction(int(a)) for a in row] for row in A]
    rank = 0
    for column in range(len(rest[0])):
        pivot = next((row for row in rest[rank:] if row[column]), None)
        if pivot is None:
            continue
        rest.remove(pivot)
        rest.insert(rank, pivot)
        for i in range(rank + 1, len(rest)):
            share = rest[i][column] / pivot[column]
            rest[i] = [a - share * b for a, b in zip(rest[i], pivot, strict=True)]
        rank += 1
    return rank


def claimed_epsilon_is_not_too_low(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    found = plan.epsilon(delta=1e-6)
    return gaussian_delta_bounds(plan.spent_per_person, found)[0] <= Fraction(1e-6)


def claimed_delta_is_not_too_low(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    found = Fraction(plan.delta(epsilon=1.0))
    return gaussian_delta_bounds(plan.spent_per_person, 1.0)[0] <= found


# ------------------------------------------------------------------ from a table to integers


def empty_cells_are_counted(folder: Path) -> bool:
    table = pd.DataFrame({"age": [1], "sex": ["M"]})
    return ln.vectorize(table, SCHEMA).counts("age", "sex").tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]


def records_without_a_value_are_dropped(folder: Path) -> bool:
    schema = ln.Schema(age=ln.Integers(range(4), outside="clamp"), sex=ln.Categories(("F", "M"), other="x"))
    table = pd.DataFrame({"age": ["1", None, "2"], "sex": ["F", "M", None]})
    return int(ln.vectorize(table, schema).vector().sum()) == 1


def nobody_counts_more_than_k_times(folder: Path) -> bool:
    import random

    return obeys(kept_by_engine, records(), 2, random.Random(2))


def records_in_no_cell_keep_the_promise(folder: Path) -> bool:
    return told_apart(ln.GDP(1), "x") <= 1


_with_noise = measuring.with_noise


def _no_noise_on_the_rest(strategy: Any, integers: Any, bits: Any) -> Any:
    if isinstance(strategy, not_counted.NotCountedRow):
        return integers
    return _with_noise(strategy, integers, bits)


_kept_records = limiting.kept_records


def _rest_not_truncated(sizes: Any, most: int, time: int | None = None) -> str:
    return _kept_records(sizes, most, time) + " OR rest"


def no_cell_is_free(folder: Path) -> bool:
    """A ledger with room for the plan and nothing else takes the release."""
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    ledger = Ledger(folder / "one.ledger", dataset="town", limit=ln.GDP(1))
    table = ln.vectorize(pd.DataFrame({"age": [1], "sex": ["x"]}), SCHEMA)
    return ln.measure(plan, table, ledger=ledger).not_counted is not None


_within_cost = not_counted.within_cost


def _half_the_noise(noise: Any, room: Fraction, *others: Any) -> Any:
    row = _within_cost(noise, room, *others)
    return replace(row, scale=row.scale // 2)


def sums_count_no_cell(folder: Path) -> bool:
    costs = CellCosts((1, 0), 4)
    charge = Charge("gaussian", "add-remove", 1, costs.largest, costs, "cells", "plan")
    summed = tally.Tally()
    for _ in range(2):
        summed = summed.plus(charge.with_no_cell(Fraction(3, 4)), group="town")
    return summed.mu_squared == Fraction(3, 2)


def _without_no_cell(group: Any) -> Fraction:
    largest = group.first.largest if group.sums is None else group.sums.largest
    return Fraction(group.weight * largest)


def no_error_quotes_the_table(folder: Path) -> bool:
    with closing(duckdb.connect()) as connection:
        table = connection.sql("SELECT CAST('CANARY' || a AS INTEGER) AS age, 'F' AS sex FROM range(3) t(a)")
        try:
            ln.vectorize(table, SCHEMA).vector()
        except Exception as error:
            return "CANARY" not in f"{error}{error.__cause__}{error.__context__}"
    return False


def integers_are_exact_at_any_size(folder: Path) -> bool:
    A = np.array([[2**30 + 1, 3], [-(2**33) + 1, 2**31]])
    counts = np.array([2**61 + 1, 2**60 + 7])
    expected = [sum(int(a) * int(x) for a, x in zip(row, counts, strict=True)) for row in A]
    own = Strategy(A, scale=1, noise="gaussian")
    found = own.answers(counts).tolist()
    drawn = noise.rounded_gaussian(1, 2, SeededBits(5))
    noisy = measuring.with_noise(own, own.answers(counts), SeededBits(5)).tolist()
    return found == expected and noisy == [e + n for e, n in zip(expected, drawn, strict=True)]


def structured_integers_are_those_of_the_matrix(folder: Path) -> bool:
    return bool((_columns(structured()) == structured().dense()).all())


# ------------------------------------------------------------------ the certificate and the intervals


def the_bound_is_below_the_optimum(folder: Path) -> bool:
    """Counts of cells: each is measured with all of the budget, so the optimum is Σ w/μ² in closed form."""
    weights = [1.0, 4.0, 9.0]
    workload = ln.Workload.from_matrix(np.eye(3, dtype=int), weights=weights)
    plan = ln.design(workload, ln.GDP(2), method="dense")
    optimum = sum(weights) / 4
    found = plan.certificate
    return found.lower_bound <= optimum * (1 + 1e-9) and optimum <= found.achieved * (1 + 1e-9)


def what_is_achieved_is_the_weighted_variance(folder: Path) -> bool:
    weights = [1.0, 4.0, 9.0]
    W = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    plan = ln.design(ln.Workload.from_matrix(W, weights=weights), ln.GDP(2), method="dense")
    inverse = W @ np.linalg.inv(plan.fixed_strategy().dense().astype(float))
    variances = (inverse**2).sum(axis=1) * (plan.fixed_strategy().scale ** 2 + 1 / 12)
    return math.isclose(plan.certificate.achieved, float(variances @ weights), rel_tol=1e-9)


def single_intervals_have_their_width(folder: Path) -> bool:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    lower, upper = ln.Release(plan, np.zeros(8, dtype=object)).interval(0.95)
    expected = stats.norm.isf(0.025) * plan.known_stderr()
    return bool(np.allclose((upper - lower) / 2, expected, rtol=ROUNDING))


def simultaneous_intervals_are_wider(folder: Path) -> bool:
    """Independent cells: all of n hold at once where each holds with level^(1/n)."""
    plan = ln.design(ln.assemble([ln.Marginal("a")], ln.Schema(a=range(16))), ln.GDP(1), method="identity")
    lower, upper = ln.Release(plan, np.zeros(16, dtype=object)).interval(0.9, simultaneous=True)
    each = stats.norm.isf((1 - 0.9 ** (1 / 16)) / 2) * plan.known_stderr()
    return bool((np.abs((upper - lower) / 2 / each - 1) < 0.02).all())


# ------------------------------------------------------------------ the ledger


def plan_and_ledger(folder: Path) -> tuple[Plan, Ledger]:
    plan = ln.design(WORKLOAD, ln.GDP(1), method="identity")
    return plan, Ledger(folder / "town.ledger", dataset="town", limit=ln.GDP(2))


def a_release_is_paid_for_before_noise_is_drawn(folder: Path) -> bool:
    plan, ledger = plan_and_ledger(folder)
    events: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("check", "spend", "store"):
            patch.setattr(Ledger, name, _logged(name, getattr(Ledger, name), events))
        patch.setattr(measuring, "_read", _logged("read", measuring._read, events))
        patch.setattr(measuring, "with_noise", _logged("draw", measuring.with_noise, events))
        ln.measure(plan, [1] * 8, ledger=ledger)
    return events == ["check", "read", "spend", "draw", "store"]


def _logged(name: str, step: Callable[..., Any], events: list[str]) -> Callable[..., Any]:
    def logged(*arguments: Any, **options: Any) -> Any:
        events.append(name)
        return step(*arguments, **options)

    return logged


def every_release_is_in_the_ledger(folder: Path) -> bool:
    plan, ledger = plan_and_ledger(folder)
    given = ln.measure(plan, [1] * 8, ledger=ledger, release_id="first")
    assert given.receipt is not None
    spent = [entry.charged for entry in ledger.entries if entry.is_stored]
    return spent == [plan.spent_per_person] and ledger.entries[0].head == given.receipt.head


def the_same_id_gives_the_same_noise(folder: Path) -> bool:
    plan, ledger = plan_and_ledger(folder)
    found = [ln.measure(plan, [1] * 8, ledger=ledger, release_id="first") for _ in range(2)]
    is_same = found[0].measurements.tolist() == found[1].measurements.tolist()
    return is_same and len(ledger.entries) == 1


def two_charges(folder: Path) -> tuple[Fraction, Fraction]:
    """What two releases in different cells are charged: the second costs what the largest sum grows by."""
    ledger = Ledger(folder / "two.ledger", dataset="two", limit=ln.GDP(1))
    for name, costs in (("first", (3, 1)), ("second", (1, 3))):
        ledger.spend(
            Charge("gaussian", "add-remove", 1, Fraction(3, 100), CellCosts(costs, 100), "cells", name),
            name,
            table=replace(TABLE, same_as="first" if name == "second" else None),
        )
    second = ledger.entries[1].charged
    assert ledger.remaining.mu_squared is not None
    return second, 1 - ledger.remaining.mu_squared


def what_is_free_is_charged_once(folder: Path) -> bool:
    return two_charges(folder) == (Fraction(1, 100), Fraction(4, 100))


def exactly_the_limit_can_be_spent(folder: Path) -> bool:
    ledger = new_ledger(folder / "exact.ledger", 7)
    for i in range(7):
        ledger.spend(charge_of(), f"r{i}", table=replace(TABLE, same_as="r0" if i else None))
    return refuses(lambda: ledger.spend(charge_of(), "r7")) and ledger.remaining.goal is None


def a_check_is_repeated_when_spending(folder: Path) -> bool:
    return not overspends(Ledger, folder / "contended.ledger")


def a_changed_row_is_found(folder: Path) -> bool:
    for column, change in EDITS.items():
        ledger = new_ledger(folder / f"{column}.ledger", 9)
        ledger.spend(charge_of(), "r0")
        edit(ledger.path, change)
        if not refuses(lambda ledger=ledger: Ledger(ledger.path)):  # type: ignore[misc]
            return False
    return True


def other_neighbours_and_kinds_are_refused(folder: Path) -> bool:
    ledger = Ledger(folder / "pure.ledger", dataset="pure", limit=ln.PureDP(1))
    replaced = Charge("laplace", "replace-one", 1, Fraction(1, 9), None, "cells", "plan")
    gaussian = Charge("gaussian", "add-remove", 1, Fraction(1, 9), None, "cells", "plan")
    return all(refuses(lambda charge=charge: ledger.spend(charge, "r")) for charge in (replaced, gaussian))  # type: ignore[misc]


def another_table_adds_its_worst_case(folder: Path) -> bool:
    """Two plans about different cells of one schema: of two tables both are paid in full, or refused."""
    ledger = Ledger(folder / "tables.ledger", dataset="two", limit=ln.GDP(1))
    charges = [
        Charge("gaussian", "add-remove", 1, Fraction(3, 4), CellCosts(costs, 4), "cells", "plan")
        for costs in ((3, 1), (1, 3))
    ]
    ledger.spend(charges[0], "first", table=TABLE)
    other = replace(TABLE, version=bytes(32))
    claims = (other, replace(other, same_as="first"))
    attempts = [lambda claim=claim: ledger.spend(charges[1], "second", table=claim) for claim in claims]
    return all(map(refuses, attempts))


# ------------------------------------------------------------------ the bugs


@dataclass(frozen=True)
class Bug:
    """A mistake, the check that notices it, and the test of the library that guards the same property."""

    name: str
    breaks: str
    noticed_by: Check
    seen_by: str
    plant: Callable[[pytest.MonkeyPatch], None]


def _scaled_noise(name: str, percent: int) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        draw = getattr(noise, name)
        patch.setattr(measuring, name, lambda scale, size, bits: draw(scale * percent // 100, size, bits))

    return plant


def _set(target: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(target, name, value)


def _all_of(*plants: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in plants:
            one(patch)

    return plant


def _changed(target: Any, name: str, change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """A function whose result is changed."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(target, name)
        patch.setattr(target, name, lambda *given, **options: change(right(*given, **options)))

    return plant


def _one_draw_for_all(own: Any, integers: Any, bits: Any) -> Any:
    draw = noise.discrete_laplace if own.noise == "laplace" else noise.rounded_gaussian
    return integers + np.array(draw(own.scale, 1, bits) * own.n_measured, dtype=object)


def _repeated_chunks(law: Any, scale: int, size: int, bits: Any) -> list[int]:
    first = noise._block(law, scale, min(noise._BLOCK, size), bits, 63 - law.log_modulus, noise._CHUNK)
    return (first * (size // max(len(first), 1) + 1))[:size]


def _through_floats(own: Any, integers: Any, bits: Any) -> Any:
    draw = noise.discrete_laplace if own.noise == "laplace" else noise.rounded_gaussian
    noisy = integers.astype(float) + np.array(draw(own.scale, own.n_measured, bits), dtype=float)
    return np.array([int(value) for value in noisy], dtype=object)


def _draws_first(ledger: Any, plan: Any, source: Any, *_: Any) -> Any:
    charge = plan.charge
    ledger.check(charge, "id", plan.after)
    read = measuring._read(plan, count_tables(plan.workload, source, 1))
    noisy = measuring._noisy(plan, read, SystemBits())
    entry = ledger.spend(charge, "id", plan.after)
    given = ln.Release(plan, noisy, Receipt(ledger.dataset, "id", entry.head))
    ledger.store(entry, given.to_bytes())
    return given


def _never_pays(ledger: Any, plan: Any, source: Any, *_: Any) -> Any:
    ledger.check(plan.charge, "id", plan.after)
    read = measuring._read(plan, count_tables(plan.workload, source, 1))
    return ln.Release(plan, measuring._noisy(plan, read, SystemBits()), Receipt("town", "id", "0"))


def _replays_with_new_noise(patch: pytest.MonkeyPatch) -> None:
    right = measuring.release_from_parts

    def wrong(*given: Any) -> Any:
        found = right(*given)
        return replace(found, measurements=found.measurements + np.array(1, dtype=object))

    patch.setattr(measuring, "release_from_parts", wrong)


def _sensitivity(cost: Callable[[Structured], int]) -> Callable[[pytest.MonkeyPatch], None]:
    return _set(Structured, "sensitivity", property(cost))


def _block_costs(own: Structured, *, multiplied: bool = True) -> list[int]:
    return [
        (block.multiplier**2 if multiplied else 1)
        * math.prod(form.largest_cost(2) for form in own.block_forms(block).values())
        for block in own.blocks
    ]


def _coarse(C: Any, *rest: Any) -> Any:
    grid = np.rint(C / np.abs(C).max() * 8).astype(np.int64)
    return np.triu(grid)


def _moved_together(x: Any) -> Any:
    # The domain as it occurs: cells that hold somebody, moved together.
    return np.concatenate([x[x > 0], np.zeros((x == 0).sum(), dtype=np.int64)]).reshape(x.shape)


def _in_row_order(sizes: Any, most: int, time: int | None = None) -> str:
    numbered = "SELECT *, row_number() OVER () AS seq FROM placed WHERE who IS NOT NULL"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY who ORDER BY seq) AS nth FROM ({numbered})"
    return f"SELECT * EXCLUDE (who, nth, seq) FROM ({ranked}) WHERE nth <= {most}"


def _float_total(self: Any) -> Fraction:
    columns = [sum(sums[i] / unit for unit, sums in self.by_unit.items()) for i in range(len(self.floors))]
    return Fraction(max(columns))


def _adds_largest(self: Any, charge: Any, group: Any) -> Any:
    return _plus(self, charge, None)


def _charges_the_first_only(self: Any, charge: Any, group: Any) -> Any:
    return self if self.count else _plus(self, charge, group)


_plus = tally._NoiseTotals.plus


def _trusts_the_check(patch: pytest.MonkeyPatch) -> None:
    right = Ledger.spend

    def spend(self: Any, *given: Any, **options: Any) -> Any:
        with pytest.MonkeyPatch.context() as while_spending:
            while_spending.setattr(spending, "_check_charge", lambda *given: None)
            return right(self, *given, **options)

    patch.setattr(Ledger, "spend", spend)


def _skips_the_profile(before: str, number: int, kind: str, content: str, profile: bytes | None) -> str:
    return _digest_of(before, number, kind, content, None)


_digest_of = rows.digest_of


def _wraps(matrix: Any, counts: Any) -> Any:
    with np.errstate(over="ignore"):
        return (matrix.astype(np.int64) @ counts.astype(np.int64)).astype(object)


def _float_costs(matrix: Any) -> list[int]:
    return [int(total) for total in (matrix.astype(float) ** 2).sum(axis=0)]


def _budget_for_one_record(self: Any) -> Any:
    return self._mu_squared()


def _ignores_simultaneous(*given: Any) -> Any:
    return intervals.half_widths(*given[:4], False, given[5])


def _unweighted(self: Any, workload: Any) -> Any:
    return np.ones(workload.shape[0])


def _multiplies_nothing(self: Any, tables: Any) -> Any:
    parts, start = _exact_answers(self, tables), 0
    for block, shape in zip(self.blocks, self.block_shapes, strict=True):
        size = math.prod(shape)
        parts[start : start + size] //= block.multiplier
        start += size
    return parts


_exact_answers = Structured.exact_answers

WHERE_BUDGETS_ARE_COMPARED = (budget, plan_checks, certificate)


def _float_comparison(own: Any, goal: Any, spare: Any) -> bool:
    return float(own.spent) <= float(goal.budget)


def _with_sides_that_may_contradict(
    plant: Callable[[pytest.MonkeyPatch], None],
) -> Callable[[pytest.MonkeyPatch], None]:
    """The library compares both sides of a certificate; here that is switched off too."""

    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(certificate, "_DISAGREEMENT", math.inf)
        plant(patch)

    return both


def _bound_of_other_weights(patch: pytest.MonkeyPatch) -> None:
    right = cell_bound.total_variance_bound
    patch.setattr(
        cell_bound,
        "total_variance_bound",
        lambda workload, q, weights: right(workload, q, np.full_like(weights, weights.max())),
    )


BUGS = [
    Bug(
        "half the noise",
        "the Gaussian sampler is given half the scale",
        gaussian_noise_is_as_wide_as_said,
        "test_audit.py::test_a_plan_keeps_what_it_says_and_with_less_noise_is_found_out",
        _scaled_noise("rounded_gaussian", 50),
    ),
    Bug(
        "half the Laplace noise",
        "the Laplace sampler is given half the scale",
        laplace_noise_is_as_wide_as_said,
        "test_audit.py::test_a_plan_keeps_what_it_says_and_with_less_noise_is_found_out",
        _scaled_noise("discrete_laplace", 50),
    ),
    Bug(
        "one-sided noise",
        "the sign of the noise is lost",
        noise_takes_both_signs,
        "test_noise.py::test_variance_is_right_and_a_twin_is_rejected",
        _changed(noise, "draw_many", lambda drawn: [abs(value) for value in drawn]),
    ),
    Bug(
        "noise shared by rows",
        "one draw is added to every integer",
        every_integer_has_noise_of_its_own,
        "test_statistics.py::test_answers_err_together_as_the_covariance_says",
        _set(measuring, "with_noise", _one_draw_for_all),
    ),
    Bug(
        "noise shared by chunks",
        "the first block of draws is repeated",
        every_integer_has_noise_of_its_own,
        "test_planted_bugs.py::test_checks_hold",
        _set(noise, "draw_many", _repeated_chunks),
    ),
    Bug(
        "noise shared by releases",
        "the generator has a seed",
        releases_differ,
        "test_planted_bugs.py::test_checks_hold",
        _set(measuring, "SystemBits", lambda: SeededBits(0)),
    ),
    Bug(
        "L1 for L2",
        "Δ² is taken from absolute sums",
        dense_sensitivity_is_that_of_all_columns,
        "test_exact.py::test_inexact_products_are_noticed",
        _set(exact, "column_square_sums", lambda A: exact.column_absolute_sums(A)),
    ),
    Bug(
        "L2 for L1",
        "Δ₁ is taken as the root of the sum of squares",
        dense_sensitivity_is_that_of_all_columns,
        "test_exact.py::test_inexact_products_are_noticed",
        _set(exact, "column_absolute_sums", lambda A: [math.isqrt(c) for c in exact.column_square_sums(A)]),
    ),
    Bug(
        "sensitivity in floats",
        "squares are added up in floats",
        dense_sensitivity_is_that_of_all_columns,
        "test_replace_one.py::test_wrong_sensitivities_are_noticed",
        _set(exact, "column_square_sums", _float_costs),
    ),
    Bug(
        "replacing taken for adding",
        "a replaced record is charged as an added one",
        replaced_sensitivity_is_that_of_all_pairs,
        "test_replace_one.py::test_wrong_sensitivities_are_noticed",
        _set(
            exact,
            "largest_pair_costs",
            lambda A, power, *_: exact.column_square_sums(A) if power == 2 else exact.column_absolute_sums(A),
        ),
    ),
    Bug(
        "multiplier forgotten in Δ",
        "blocks count once whatever their multiplier",
        structured_sensitivity_is_that_of_its_matrix,
        "test_structured.py::test_sensitivity_is_that_of_its_matrix",
        _sensitivity(lambda own: sum(_block_costs(own, multiplied=False))),
    ),
    Bug(
        "block missing from Δ",
        "the last block is left out of the sensitivity",
        structured_sensitivity_is_that_of_its_matrix,
        "test_structured.py::test_sensitivity_is_that_of_its_matrix",
        _sensitivity(lambda own: sum(_block_costs(own)[:-1])),
    ),
    Bug(
        "centred cost n − 1",
        "a centred axis is charged n − 1 instead of n(n − 1)",
        structured_sensitivity_is_that_of_its_matrix,
        "test_structured.py::test_sensitivity_is_that_of_its_matrix",
        _set(AxisForm, "_plain_cost", lambda self, power: max(self.size - 1, 1)),
    ),
    Bug(
        "multiplier forgotten in the integers",
        "blocks are measured without their multiplier",
        structured_integers_are_those_of_the_matrix,
        "test_structured.py::test_a_broken_twin_is_noticed",
        _set(Structured, "exact_answers", _multiplies_nothing),
    ),
    Bug(
        "centre not annihilated",
        "residuals are not checked against their centre",
        residuals_do_not_see_their_centre,
        "test_structured.py::test_files_are_not_trusted",
        _set(exact, "product", lambda left, right: np.zeros((len(left), right.shape[1]), dtype=np.int64)),
    ),
    Bug(
        "scale rounded down",
        "σ is the largest integer below what the budget needs, and nobody looks again",
        designs_keep_their_goal,
        "test_strategy.py::test_spent_is_at_most_promised_and_one_less_would_overspend",
        _all_of(
            _changed(budget, "least_scale", lambda scale: max(scale - 1, 1)),
            *(_set(module, "is_within", lambda *_: True) for module in WHERE_BUDGETS_ARE_COMPARED),
        ),
    ),
    Bug(
        "records per person ignored",
        "a person's records are charged as one",
        designs_keep_their_goal,
        "test_privacy.py::test_records_per_person_divide_what_one_record_may_spend",
        _all_of(
            _set(privacy.Goal, "mu_squared", property(_budget_for_one_record)),
            _set(privacy.PureDP, "epsilon_per_record", property(lambda self: Fraction(self.epsilon))),
        ),
    ),
    Bug(
        "budget compared in floats",
        "what is spent is rounded before it is compared",
        a_hair_above_the_goal_is_refused,
        "test_faults.py::test_mistake_a_budget_compared_in_floats",
        _all_of(*(_set(module, "is_within", _float_comparison) for module in WHERE_BUDGETS_ARE_COMPARED)),
    ),
    Bug(
        "plan file believed",
        "a loaded plan is not checked against its goal",
        a_saved_plan_is_not_believed,
        "test_faults.py::test_mistake_a_plan_file_that_is_believed",
        _set(Plan, "__post_init__", lambda self: None),
    ),
    Bug(
        "rank lost in rounding",
        "a coarse grid rounds a direction away",
        directions_survive_rounding,
        "test_strategy.py::test_rounding_keeps_the_row_space_of_an_ill_conditioned_strategy",
        _set(rounding, "rounded_triangle", _coarse),
    ),
    Bug(
        "ε rounded down",
        "the ε of a plan is the float below",
        claimed_epsilon_is_not_too_low,
        "test_privacy.py::test_epsilon_is_the_least_float_proved",
        _changed(plan_module, "epsilon_of", lambda value: math.nextafter(value, 0)),
    ),
    Bug(
        "δ rounded down",
        "the δ of a plan is the float below",
        claimed_delta_is_not_too_low,
        "test_privacy.py::test_delta_is_the_least_float_proved",
        _changed(plan_module, "delta_of", lambda value: math.nextafter(value, 0)),
    ),
    Bug(
        "domain read from the data",
        "only cells that occur are listed",
        empty_cells_are_counted,
        "test_data.py::test_empty_table_keeps_every_cell",
        _changed(counting.CountedTables, "table", _moved_together),
    ),
    Bug(
        "nulls counted",
        "a missing value is taken for one outside the domain, and moved",
        records_without_a_value_are_dropped,
        "test_data.py::test_other_takes_every_value_but_null",
        _set(placing, "null_mask", lambda column: None),
    ),
    Bug(
        "truncation by row order",
        "which records of a person stay depends on their order in the table",
        nobody_counts_more_than_k_times,
        "test_person.py::test_broken_truncation_is_noticed",
        _set(limiting, "kept_records", _in_row_order),
    ),
    Bug(
        "truncation left out",
        "all records of a person stay",
        nobody_counts_more_than_k_times,
        "test_person.py::test_broken_truncation_is_noticed",
        _set(handle, "limited", lambda records, question: records),
    ),
    Bug(
        "records in no cell without noise",
        "the number of records in no cell is released as it is",
        records_in_no_cell_keep_the_promise,
        "test_not_counted.py::test_the_joint_output_keeps_the_promise",
        _set(measuring, "with_noise", _no_noise_on_the_rest),
    ),
    Bug(
        "records in no cell not truncated",
        "all records of a person that match nothing are counted",
        records_in_no_cell_keep_the_promise,
        "test_not_counted.py::test_the_joint_output_keeps_the_promise",
        _set(limiting, "kept_records", _rest_not_truncated),
    ),
    Bug(
        "records in no cell at four times the budget",
        "half the noise on the number of records in no cell",
        no_cell_is_free,
        "test_not_counted.py::test_no_cell_costs_at_most_what_the_dearest_cell_does",
        _set(not_counted, "within_cost", _half_the_noise),
    ),
    Bug(
        "no cell left out of a sum",
        "what records in no cell spent is not added up over the releases of a table",
        sums_count_no_cell,
        "test_not_counted.py::test_sums_of_a_group_count_no_cell_as_one_more",
        _set(tally._Group, "total", property(_without_no_cell)),
    ),
    Bug(
        "errors quote the table",
        "the engine's own message, with the value it failed on, gets out",
        no_error_quotes_the_table,
        "test_leaks.py::test_the_words_of_the_engine_would_be_noticed",
        _set(handle, "withheld", lambda step, run: run()),
    ),
    Bug(
        "float in the path",
        "integers and noise meet in floats",
        integers_are_exact_at_any_size,
        "test_leaks.py::test_no_float_lies_between_the_counts_and_the_measurements",
        _set(measuring, "with_noise", _through_floats),
    ),
    Bug(
        "int64 wraps",
        "counts are multiplied in 64 bits",
        integers_are_exact_at_any_size,
        "test_exact.py::test_inexact_products_are_noticed",
        _set(exact, "matrix_times_counts", _wraps),
    ),
    Bug(
        "certificate of other weights",
        "the bound is computed for queries without their weights",
        the_bound_is_below_the_optimum,
        "test_certificate.py::test_no_witness_raises_the_bound_above_the_optimum",
        _with_sides_that_may_contradict(_bound_of_other_weights),
    ),
    Bug(
        "bound too high",
        "the lower bound is 1 % above what is proved",
        the_bound_is_below_the_optimum,
        "test_certificate.py::test_the_bound_is_below_the_nuclear_norm_and_close",
        _with_sides_that_may_contradict(
            _changed(cell_bound, "total_variance_bound", lambda bound: 1.01 * bound)
        ),
    ),
    Bug(
        "variance without its weights",
        "what is achieved leaves the weights out",
        what_is_achieved_is_the_weighted_variance,
        "test_certificate.py::test_random_plans_lie_above_their_bounds",
        _with_sides_that_may_contradict(_changed(Strategy, "total_variance", lambda total: total / 2)),
    ),
    Bug(
        "intervals too narrow",
        "half-widths are a tenth too short",
        single_intervals_have_their_width,
        "test_statistics.py::test_single_intervals_hold_as_often_as_they_say",
        _changed(release_module, "half_widths", lambda half: 0.9 * half),
    ),
    Bug(
        "simultaneous is single",
        "intervals for all answers at once are those for each",
        simultaneous_intervals_are_wider,
        "test_statistics.py::test_single_intervals_would_not_hold_all_at_once",
        _set(release_module, "half_widths", _ignores_simultaneous),
    ),
    Bug(
        "noise before payment",
        "noise is drawn, then the release is paid for",
        a_release_is_paid_for_before_noise_is_drawn,
        "test_ledger_stress.py::test_planted_twins_are_caught",
        _set(measuring, "_measured_with", _draws_first),
    ),
    Bug(
        "unpaid release",
        "a release is handed out and never charged",
        every_release_is_in_the_ledger,
        "test_ledger_stress.py::test_planted_twins_are_caught",
        _set(measuring, "_measured_with", _never_pays),
    ),
    Bug(
        "replay with new noise",
        "asking again for a release draws again",
        the_same_id_gives_the_same_noise,
        "test_ledger.py::test_a_release_is_paid_for_once_and_given_out_again",
        _replays_with_new_noise,
    ),
    Bug(
        "free release charged twice",
        "the largest costs add up although they fall on different cells",
        what_is_free_is_charged_once,
        "test_ledger.py::test_a_plan_after_others_is_charged_what_the_largest_cell_grows",
        _set(tally._NoiseTotals, "plus", _adds_largest),
    ),
    Bug(
        "free release never charged",
        "only the first release over the same cells counts",
        what_is_free_is_charged_once,
        "test_ledger.py::test_a_plan_after_others_is_charged_what_the_largest_cell_grows",
        _set(tally._NoiseTotals, "plus", _charges_the_first_only),
    ),
    Bug(
        "equal cells are one table",
        "costs add up cell by cell wherever the schema is the same",
        another_table_adds_its_worst_case,
        "test_same_table.py::test_tables_with_one_schema_do_not_share_their_cells",
        _all_of(
            _set(spending, "base_of", lambda history, *given: next(iter(history.entries), None)),
            _set(spending, "_check_same_version", lambda *given: None),
        ),
    ),
    Bug(
        "the same table on trust",
        "a request that names a table is not compared with it",
        another_table_adds_its_worst_case,
        "test_same_table.py::test_a_version_that_moved_people_is_another_table",
        _set(spending, "_check_same_version", lambda *given: None),
    ),
    Bug(
        "ledger sums in floats",
        "charges are added up in floats",
        exactly_the_limit_can_be_spent,
        "test_accounting.py::test_sums_are_rational_and_a_twin_with_floats_overspends",
        _set(tally.SummedCosts, "largest", property(_float_total)),
    ),
    Bug(
        "check not repeated",
        "spending trusts what the check said earlier",
        a_check_is_repeated_when_spending,
        "test_ledger.py::test_two_who_were_told_yes_do_not_both_spend",
        _trusts_the_check,
    ),
    Bug(
        "column outside the chain",
        "the digest of a row leaves out the costs of the cells",
        a_changed_row_is_found,
        "test_ledger.py::test_a_chain_that_leaves_out_a_column_would_miss_its_change",
        _set(rows, "digest_of", _skips_the_profile),
    ),
    Bug(
        "any kind of charge",
        "neighbours and kinds of noise are not compared with the limit",
        other_neighbours_and_kinds_are_refused,
        "test_ledger.py::test_what_does_not_fit_the_limit_is_refused",
        _all_of(
            _set(history, "check_kind", lambda limit, charge: None),
            _set(limits, "check_kind", lambda limit, charge: None),
            _set(history, "within", lambda *given, **options: True),
        ),
    ),
]
CHECKS = sorted({bug.noticed_by for bug in BUGS}, key=lambda check: check.__name__)
