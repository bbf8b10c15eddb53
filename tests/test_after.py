"""Plans after other plans: what cells have left, exactly, the optimum within it, and the ledger's view."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import ProductWitness, certify, proves_infeasible
from leastnoise.core import container
from leastnoise.core.errors import (
    DesignError,
    InfeasibleError,
    InputError,
    LedgerMismatchError,
    MethodError,
    OverBudgetError,
    PlanFileError,
    PrivacyError,
)
from leastnoise.core.operators import Array
from leastnoise.planning import Plan, Request, SearchResult, all_methods, design, load_plan, method_named
from leastnoise.planning.plan import summed_costs
from leastnoise.privacy import GDP, ZCDP, ApproxDP, CellCosts, Goal, Ledger, PureDP
from leastnoise.query import (
    Marginal,
    MaxVariance,
    Objective,
    Prefix,
    Query,
    Schema,
    Targets,
    Total,
    TotalVariance,
    Where,
    Workload,
    assemble,
)
from leastnoise.release import measure
from leastnoise.strategy import Strategy, spare_of
from support import extra, refuses
from tolerances import JUDGE, SOLVER

SCHEMA = Schema(age=range(6), sex=("F", "M"))
WOMEN, MEN = Where("sex == 'F'"), Where("sex == 'M'")
COUNTS = np.arange(12)


def over(*queries: Query) -> Workload:
    return assemble(queries, SCHEMA)


# Women are counted with half the noise of men, so that men's cells have three quarters of slack.
FIRST = design(
    over(Where("sex == 'F'", stderr=1), Where("sex == 'M'", stderr=2)),
    method="dense",
    options={"refine": True},
)
OF_MEN = over(MEN, Prefix("age") * MEN)
SECOND = design(OF_MEN, after=[FIRST])


def spent_by_hand(plan: Plan) -> list[Fraction]:
    """Σ_r a_ri²/σ² of every cell, one entry after the other."""
    strategy = plan.fixed_strategy()
    rows = strategy.dense().tolist()
    return [
        sum((Fraction(int(row[i]) ** 2, strategy.scale**2) for row in rows), Fraction(0))
        for i in range(strategy.n_cells)
    ]


def together_by_hand(*plans: Plan) -> list[Fraction]:
    """What a record of each cell spends over plans, each as often as it is given."""
    return [sum(parts, Fraction(0)) for parts in zip(*map(spent_by_hand, plans), strict=True)]


# ------------------------------------------------------------------ a free release, end to end


def test_a_second_release_is_free_in_the_worst_case(tmp_path: Path) -> None:
    limit = ZCDP(FIRST.spent_per_person / 2)
    ledger = Ledger(tmp_path / "town.ledger", dataset="town", limit=limit)
    with refuses(
        LedgerMismatchError, "same_table_as", None, "designed after others, of which 1 were not released"
    ):
        measure(SECOND, COUNTS, ledger=ledger)
    measure(FIRST, COUNTS, ledger=ledger, release_id="first")
    assert ledger.remaining.mu_squared == 0
    release = measure(SECOND, COUNTS, ledger=ledger, release_id="second")
    assert release.plan is SECOND and len(release.answers) == 7
    entry = ledger.entries[1]
    assert entry.charged == 0 and entry.after == (FIRST.digest,) and entry.charge.worst > 0
    assert ledger.remaining.mu_squared == 0
    # Once more the same noise is not free, nor is a plan that takes no notice of the first.
    for again in (SECOND, design(OF_MEN, GDP(Fraction(1, 2)))):
        with pytest.raises(OverBudgetError):
            measure(again, COUNTS, ledger=ledger)
    with refuses(DesignError, "after", ..., "leave no slack:", "counts age 0, sex M;", "and 2 more. Give a"):
        design(over(MEN), after=[FIRST, SECOND])
    assert len(ledger.entries) == 2 and ledger.verify().n_stored == 2


def test_a_third_release_is_free_where_the_second_left_something(tmp_path: Path) -> None:
    of_young = design(over(Where("sex == 'M' and age < 2")), after=[FIRST])
    of_old = design(over(Where("sex == 'M' and age >= 2")), after=[FIRST, of_young])
    ledger = Ledger(tmp_path / "a.ledger", dataset="town", limit=ZCDP(FIRST.spent_per_person / 2))
    for plan in (FIRST, of_young, of_old):
        measure(plan, COUNTS, ledger=ledger)
    assert [entry.charged for entry in ledger.entries] == [FIRST.spent_per_person, 0, 0]
    assert of_old.after == (FIRST.digest, of_young.digest)


def test_a_plan_measured_twice_counts_twice(tmp_path: Path) -> None:
    once, twice = (design(OF_MEN, GDP(2), after=[FIRST] * count) for count in (1, 2))
    assert once.used is not None and twice.used is not None
    assert list(twice.used) == [2 * cost for cost in once.used] == together_by_hand(FIRST, FIRST)
    assert twice.spent_per_person < once.spent_per_person
    # Counted once, what was designed after one measurement would pass after two.
    with refuses(PrivacyError, "privacy", ..., "together with the earlier plans spends more"):
        dataclasses.replace(once, after=twice.after, used=twice.used)
    ledger = Ledger(tmp_path / "a.ledger", dataset="town", limit=GDP(2))
    measure(FIRST, COUNTS, ledger=ledger, release_id="first")
    with refuses(LedgerMismatchError, "same_table_as", None, "of which 1 were not released"):
        measure(twice, COUNTS, ledger=ledger)
    measure(FIRST, COUNTS, ledger=ledger, same_table_as="first")
    measure(twice, COUNTS, ledger=ledger)
    assert sum(entry.charged for entry in ledger.entries) == twice.spent_together <= 4


# ------------------------------------------------------------------ exactly

GOALS: list[Callable[[int], Goal | None]] = [
    lambda k: None,
    lambda k: GDP(Fraction(5, 2) * k, records_per_person=k),
    lambda k: ApproxDP(20 * k, 1e-6, records_per_person=k),
]
OBJECTIVES: list[Objective] = [TotalVariance(), MaxVariance(), Targets(), TotalVariance(within_targets=True)]


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_every_cell_keeps_the_goal_and_no_smaller_scale_would(
    k: int, goal: Callable[[int], Goal | None], objective: Objective
) -> None:
    women = Workload.from_matrix(over(WOMEN).dense(), schema=SCHEMA)
    first = design(women, GDP(k, records_per_person=k))
    loose = over(Where("sex == 'M'", stderr=30), (Prefix("age") * MEN).having(stderr=40))
    plan = design(loose, goal(k), objective=objective, after=[first, first])
    sums = together_by_hand(first, first, plan)
    assert max(sums) <= plan.privacy.budget
    assert plan.spent_together == max(sums) * k * k
    assert plan.certificate.status == "optimal"
    strategy = plan.fixed_strategy()
    assert isinstance(strategy, Strategy)
    smaller = strategy.with_scale(strategy.scale - 1)
    with refuses(PrivacyError, "privacy", ..., "together with the earlier plans spends more"):
        dataclasses.replace(plan, strategy=smaller)
    # Largest of the sums, not sum of the largest: that would be above what was asked for.
    assert 2 * first.strategy.spent + strategy.spent > max(sums)  # type: ignore[union-attr]
    if goal(k) is None:
        assert max(sums) == 2 * max(spent_by_hand(first)) == plan.privacy.budget
    spare = [plan.privacy.budget - spent for spent in sums]
    for shown, exact in zip(plan.spare.tolist(), spare, strict=True):
        assert Fraction(shown) <= exact < Fraction(math.nextafter(shown, math.inf))
    assert plan.profile.tolist() == plan.strategy.profile.tolist()  # type: ignore[union-attr]
    assert plan.charge.per_cell is not None and list(plan.charge.per_cell) == spent_by_hand(plan)


def test_noise_that_takes_no_notice_of_earlier_plans_is_refused() -> None:
    plain = design(OF_MEN, SECOND.privacy)
    with refuses(PrivacyError, "privacy", ..., "together with the earlier plans spends more"):
        dataclasses.replace(plain, after=SECOND.after, used=SECOND.used)


def by_hand(used: CellCosts) -> Plan:
    """A plan of two cells that spends 1/9 in each, after others."""
    workload = Workload.from_matrix(np.eye(2, dtype=int))
    return dataclasses.replace(
        design(workload, ZCDP(Fraction(1, 2))),
        strategy=Strategy(np.eye(2, dtype=int), scale=3, noise="gaussian"),
        after=("0" * 64,),
        used=used,
    )


def test_one_part_in_10_to_the_40_is_seen() -> None:
    fits = CellCosts((8 * 10**40, 0), 9 * 10**40)
    assert by_hand(fits).spare.tolist()[0] == 0
    over_by_a_hair = CellCosts((8 * 10**40 + 1, 0), 9 * 10**40)
    # In floats the two are the same.
    assert float(over_by_a_hair.largest) == float(fits.largest)
    assert float(over_by_a_hair.largest + Fraction(1, 9)) <= 1.0
    with refuses(PrivacyError, "privacy", ..., "together with the earlier plans spends more"):
        by_hand(over_by_a_hair)
    plan = by_hand(fits)
    with refuses(DesignError, "privacy", ..., "the strategy spends more than its privacy"):
        certify(plan.workload, _Altered(plan, used=over_by_a_hair))
    with refuses(
        PrivacyError, "privacy", ..., "already spend μ² = 1 per person, and the goal", "allows 1 for all"
    ):
        by_hand(CellCosts((9 * 10**40 + 1, 0), 9 * 10**40))


class _Altered:
    """A plan but for some of its facts, which it would refuse."""

    def __init__(self, plan: Plan, **facts: Any) -> None:
        self._plan = plan
        vars(self).update(facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)


def test_costs_are_added_up_exactly() -> None:
    rng = np.random.default_rng(3)
    costs = [
        CellCosts(tuple(int(c) for c in rng.integers(0, 2**40, 5)), int(unit))
        for unit in rng.integers(1, 2**40, 7)
    ]
    assert list(summed_costs(costs)) == [sum(parts, Fraction(0)) for parts in zip(*costs, strict=True)]


def test_blocks_of_products_keep_what_is_spare_too() -> None:
    schema = Schema(a=range(5), b=range(4))
    workload = assemble([Prefix("a") * Marginal("b"), Marginal("b")], schema)
    found = method_named("residuals").find(Request(workload, GDP(1)))
    assert isinstance(found, SearchResult)
    used = CellCosts(tuple(range(20)), 40)
    spare = spare_of(GDP(1), used)
    strategy = found.proposal.measured_within(GDP(1), tol=SOLVER, spare=spare)
    assert all(own <= left for own, left in zip(strategy.spent_per_cell, spare, strict=True))
    fuller = strategy.with_scale(strategy.scale - 1)
    assert any(own > left for own, left in zip(fuller.spent_per_cell, spare, strict=True))
    # Cell 19 has half of the budget: a scale for the whole of it would be too small.
    plain = found.proposal.measured_within(GDP(1), tol=SOLVER)
    assert any(own > left for own, left in zip(plain.spent_per_cell, spare, strict=True))


# ------------------------------------------------------------------ the optimum


def earlier(workload: Workload, seed: int) -> tuple[Plan, Array]:
    """A plan that has used parts of GDP(2) from nothing to nearly all, and what it leaves, (n,)."""
    n = workload.shape[1]
    shares = np.random.default_rng(seed).uniform(0, 1.99, n)
    rows = np.diag(np.rint(shares * 2**20).astype(np.int64))
    plan = dataclasses.replace(
        design(Workload.from_matrix(np.eye(n)), GDP(2)),
        strategy=Strategy(rows, scale=2**20, noise="gaussian"),
    )
    return plan, 4 - np.array([float(spent) for spent in spent_by_hand(plan)])


def matrices() -> list[Array]:
    rng = np.random.default_rng(5)
    prefix = np.tril(np.ones((9, 9)))
    return [
        prefix,
        rng.integers(-2, 3, (14, 8)).astype(float),
        # Fewer directions than cells, and a cell that no query counts.
        np.hstack([rng.integers(0, 2, (5, 11)), np.zeros((5, 1))]).astype(float),
        # Cells that no query tells apart, with different budgets.
        np.repeat(np.eye(3), 4, axis=1),
        np.ones((1, 6)),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_optimum_is_that_of_scaled_columns(number: int, objective: Objective) -> None:
    W = matrices()[number]
    caps: dict[str, Any] = {"stderr": np.linspace(8, 9, len(W))} if "arget" in str(objective) else {}
    workload = Workload.from_matrix(W, **caps)
    first, tau = earlier(workload, number)
    plan = design(workload, GDP(2), objective=objective, after=[first])
    # b_i/√τ_i with a budget of 1 is b_i with a budget of τ_i.
    scaled = design(Workload.from_matrix(W / np.sqrt(tau), **caps), GDP(1), objective=objective)
    found, other = plan.certificate, scaled.certificate
    assert found.status == other.status == "optimal"
    assert found.achieved == pytest.approx(other.achieved, rel=2 * SOLVER)
    assert _bound_by_hand(plan, tau) == pytest.approx(found.lower_bound, rel=SOLVER)
    assert found.lower_bound <= found.achieved <= (1 + SOLVER) * found.lower_bound


def _bound_by_hand(plan: Plan, tau: Array) -> float:
    """(4), (5) or (6) with Σ_i q_i τ_i, from one nuclear norm."""
    W, kind = plan.workload.dense(), plan.objective.kind
    witness = plan.witness
    assert not isinstance(witness, ProductWitness)
    w = plan.objective.weights(plan.workload)
    p = np.zeros(len(W)) if witness.p is None else witness.p
    caps = plan.objective.caps(plan.workload)
    rows = p if kind == "largest" else w + p
    F = float(np.linalg.svd(np.sqrt(rows)[:, None] * W * np.sqrt(witness.q), compute_uv=False).sum())
    bound = F**2 / float(witness.q @ tau)
    if caps is None:
        return bound
    return bound / float(p @ caps) if kind == "largest" else bound - float(p @ caps)


def test_a_total_is_as_good_as_the_fullest_cell_allows() -> None:
    workload = Workload.from_matrix(np.ones((1, 6)))
    first, tau = earlier(workload, 1)
    certificate = design(workload, GDP(2), after=[first]).certificate
    assert certificate.achieved == pytest.approx(1 / tau.min(), rel=SOLVER)
    # Weight spread evenly over the cells would prove less than half of that.
    assert certificate.lower_bound > 2 / tau.mean()


def test_a_semidefinite_solver_finds_the_same_optimum() -> None:
    cvxpy = extra("cvxpy")
    W = matrices()[0]
    workload = Workload.from_matrix(W)
    first, tau = earlier(workload, 7)
    plan = design(workload, GDP(2), after=[first])
    Sigma = cvxpy.Variable((9, 9), PSD=True)
    within = [cvxpy.matrix_frac(np.eye(9)[:, i], Sigma) <= tau[i] for i in range(9)]
    judge = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(W.T @ W @ Sigma)), within)
    judge.solve(solver="CLARABEL")
    assert plan.certificate.achieved == pytest.approx(float(judge.value), rel=JUDGE)
    # The noise of a plan that knows nothing of the cells' budgets, scaled to them, is worse by far.
    plain = design(workload, GDP(2)).strategy
    assert isinstance(plain, Strategy)
    fitting = max(float(own) / left for own, left in zip(plain.spent_per_cell, tau, strict=True))
    assert plain.total_variance(workload, [np.ones(1)]) * fitting > 1.2 * plan.certificate.achieved


def test_a_bound_that_forgets_earlier_plans_is_no_match() -> None:
    assert SECOND.certificate.gap < SOLVER
    forgotten = certify(SECOND.workload, _Altered(SECOND, used=None))
    assert forgotten.gap > 0.1 and forgotten.status == "stopped"
    with refuses(DesignError, "workload", 12, "about 2 cells, the workload has 12"):
        certify(OF_MEN, _Altered(SECOND, used=CellCosts((0, 0), 1)))


@pytest.mark.parametrize("share", [1e-3, 1e-6])
def test_budgets_of_very_different_sizes(share: float) -> None:
    left = np.array([1, share * 1.01, 1, 0.3, share * 1.01, 0.01])
    rows = np.diag(np.rint(np.sqrt(1 - left) * 2**30).astype(np.int64))
    first = dataclasses.replace(
        design(Workload.from_matrix(np.eye(6)), GDP(1)),
        strategy=Strategy(rows, scale=2**30, noise="gaussian"),
    )
    for objective in (TotalVariance(), MaxVariance()):
        plan = design(
            Workload.from_matrix(np.tril(np.ones((6, 6)))), GDP(1), objective=objective, after=[first]
        )
        assert plan.certificate.status == "optimal"


# ------------------------------------------------------------------ targets that earlier plans rule out


def test_targets_beyond_what_is_left_are_proved_so() -> None:
    asked = over(Where("sex == 'M'", stderr=0.95))
    with refuses(InfeasibleError, "stderr", ..., "cannot be met with what the earlier plans") as caught:
        design(asked, GDP(Fraction(11, 10)), after=[FIRST])
    error = caught.value
    goal = GDP(Fraction(11, 10))
    assert FIRST.charge.per_cell is not None
    spare = spare_of(goal, FIRST.charge.per_cell)
    assert proves_infeasible(asked, goal, error.witness, spare=spare)
    # Without earlier plans they could be met, and are.
    assert not proves_infeasible(asked, goal, error.witness)
    assert design(asked, goal).factor is not None
    # Both remedies suffice.
    looser = over(Where("sex == 'M'", stderr=0.95 * error.factor * (1 + SOLVER)))
    assert design(looser, goal, after=[FIRST]).spent_together <= goal.budget
    raised = design(asked, GDP(error.mu * (1 + SOLVER)), after=[FIRST])
    assert raised.factor is not None and raised.factor <= 1
    assert f"{math.ceil(error.mu * 1000) / 1000:.4g}" in str(error)
    assert error.epsilon(delta=1e-6) > 0


# ------------------------------------------------------------------ refusals


def test_queries_of_full_cells_are_refused_by_name() -> None:
    with pytest.raises(DesignError) as caught:
        design(over(Total(), Where("age == 1 and sex == 'F'"), MEN), after=[FIRST])
    assert str(caught.value) == (
        "'total'; \"age == 1 and sex == 'F'\" count cells in which the earlier plans leave nothing within "
        "μ² = 1 per person for all plans together: age 0, sex F; age 1, sex F; age 2, sex F; age 3, sex F "
        "and 2 more. Leave those cells out, as with Where(), or give a larger goal"
    )
    design(over(Total()), GDP(Fraction(11, 10)), after=[FIRST])
    first = design(Workload.from_matrix([[1, 0]]), GDP(1))
    with refuses(DesignError, "after", ..., "'rows' counts cells", "for all plans together: cell 0. Leave"):
        design(Workload.from_matrix([[1, 1]]), after=[first])
    assert design(Workload.from_matrix([[0, 1]]), after=[first]).spent_together == first.spent_per_person


def test_the_least_total_variance_leaves_no_slack() -> None:
    first = design(over(Prefix("age"), Marginal("age", "sex")), GDP(1))
    for goal in (None, GDP(1)):
        with refuses(
            DesignError,
            "after",
            ...,
            "the earlier plans leave no slack: within μ² = 1 per person",
            "counts age 0, sex M;",
        ):
            design(over(MEN), goal, after=[first])


REFUSED: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (
        PrivacyError,
        "plan 1 of after is for replace-one neighbours; .* Design one plan for all queries",
        lambda: design(OF_MEN, after=[design(OF_MEN, GDP(1, neighbours="replace-one"))]),
    ),
    (
        PrivacyError,
        "the goal is for replace-one neighbours",
        lambda: design(OF_MEN, GDP(9, neighbours="replace-one"), after=[FIRST]),
    ),
    (
        PrivacyError,
        "plan 2 of after is for laplace noise; only Gaussian releases add up",
        lambda: design(OF_MEN, after=[FIRST, design(over(Total()), PureDP(1), method="identity")]),
    ),
    (PrivacyError, "the goal is for laplace noise", lambda: design(OF_MEN, PureDP(9), after=[FIRST])),
    (
        PrivacyError,
        "the goal is for 2 records per person, plan 1 of after for 1",
        lambda: design(OF_MEN, GDP(9, records_per_person=2), after=[FIRST]),
    ),
    (
        PrivacyError,
        "plan 1 of after is about other cells",
        lambda: design(assemble([Total()], Schema(age=range(12))), after=[FIRST]),
    ),
    (
        PrivacyError,
        "plan 1 of after comes after 1 plan not listed here; list every plan",
        lambda: design(OF_MEN, GDP(9), after=[SECOND]),
    ),
    (
        PrivacyError,
        "the earlier plans already spend μ² = 1 per person, and the goal .* allows 0.25",
        lambda: design(OF_MEN, GDP(Fraction(1, 2)), after=[FIRST]),
    ),
    (
        PrivacyError,
        "the earlier plans spend nothing, .* give a goal",
        lambda: design(
            Workload.from_matrix([[1, 1]]), after=[design(Workload.from_matrix(np.zeros((1, 2))), GDP(1))]
        ),
    ),
    (InputError, r"as in \[plan\], got Plan", lambda: design(OF_MEN, after=FIRST)),  # type: ignore[arg-type]
    (InputError, "after must list plans from design", lambda: design(OF_MEN, after=["a"])),  # type: ignore[list-item]
    (InputError, "at most 1,000 others, got 1,001", lambda: design(OF_MEN, after=[FIRST] * 1001)),
    (
        MethodError,
        "method 'dense' cannot do this: a profile is refined where every cell has the same budget",
        lambda: design(
            OF_MEN, after=[FIRST], objective=MaxVariance(), method="dense", options={"refine": True}
        ),
    ),
]


@pytest.mark.parametrize(("kind", "words", "ask"), REFUSED, ids=[words[:40] for _, words, _ in REFUSED])
def test_what_does_not_add_up_is_refused(kind: type[Exception], words: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=words):
        ask()


def test_plans_whose_cells_are_not_listed_are_refused() -> None:
    schema = Schema(a=range(600), b=range(600))
    large = assemble([Marginal("a"), Marginal("b")], schema)
    with refuses(PrivacyError, "after", 1, "plan 1 of after has more cells than can be listed"):
        design(large, GDP(2), after=[design(large, GDP(1))])


def test_more_cells_than_the_dense_method_holds_are_refused() -> None:
    schema = Schema(a=range(210), b=range(100))
    first = design(assemble([Marginal("a"), Marginal("b")], schema), GDP(1))
    with refuses(
        MethodError, "workload", ..., "dense: it works on at most 20,000 cells; this workload has 21,000"
    ):
        design(assemble([Marginal("a", "b")], schema), GDP(2), after=[first])


@pytest.mark.parametrize("method", [m.name for m in all_methods() if m.name != "dense"])
def test_other_methods_say_why_not(method: str) -> None:
    with refuses(MethodError, "method", ..., "the same budget, and after= leaves each cell"):
        design(OF_MEN, after=[FIRST], method=method)


def test_structured_plans_may_come_first() -> None:
    first = design(over(Marginal("sex"), Prefix("age")), GDP(1), method="residuals")
    plan = design(OF_MEN, GDP(2), after=[first])
    assert plan.spent_together == max(together_by_hand(first, plan)) <= 4


def test_plans_put_together_by_hand_are_checked() -> None:
    for changes, words in (
        ({"after": ()}, "needs both their digests and what they have used"),
        ({"used": None}, "needs both their digests and what they have used"),
        ({"after": ("x",)}, "64 hexadecimal digits each"),
        ({"used": CellCosts((0,), 1)}, "are about 1 cells, this one about 12"),
        ({"privacy": GDP(1, neighbours="replace-one")}, "records are added or removed"),
        ({"has_goal": False}, "Gaussian noise within a goal"),
    ):
        with refuses(PrivacyError, "after", ..., words):
            dataclasses.replace(SECOND, **changes)
    mechanism = design(over(Total()), PureDP(1), method="mwem")
    with refuses(PrivacyError, "after", None, "design this plan without after="):
        dataclasses.replace(mechanism, after=SECOND.after, used=SECOND.used)


# ------------------------------------------------------------------ files and words


def test_files_keep_earlier_plans(tmp_path: Path) -> None:
    for plan in (SECOND, design(OF_MEN, GDP(2), after=[FIRST, FIRST, SECOND])):
        path = plan.save(tmp_path / "plan")
        again = load_plan(path)
        assert again.after == plan.after and again.used == plan.used and again.digest == plan.digest
        assert again.certificate.lower_bound == plan.certificate.lower_bound
        assert again.spare.tolist() == plan.spare.tolist()


def test_digests_tell_what_a_plan_comes_after() -> None:
    assert SECOND.used is not None
    same = CellCosts(SECOND.used.numerators, SECOND.used.unit)
    assert dataclasses.replace(SECOND, used=same).digest == SECOND.digest
    less = CellCosts((0, *SECOND.used.numerators[1:]), SECOND.used.unit)
    others = [dataclasses.replace(SECOND, used=less), dataclasses.replace(SECOND, after=("0" * 64,))]
    assert len({plan.digest for plan in (SECOND, *others)}) == 3


def _without(name: str) -> Callable[[dict[str, Any], dict[str, Array]], None]:
    def drop(content: dict[str, Any], arrays: dict[str, Array]) -> None:
        (content if name in content else arrays).pop(name)

    return drop


def _set(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Array]], None]:
    def put(content: dict[str, Any], arrays: dict[str, Array]) -> None:
        holder: dict[str, Any] = content if name in content else arrays
        holder[name] = change(holder[name])

    return put


FORGED: list[tuple[str, Callable[[dict[str, Any], dict[str, Array]], None]]] = [
    ("tells of earlier plans in part only", _without("after")),
    ("tells of earlier plans in part only", _without("used")),
    ("tells of earlier plans in part only", _without("used_unit")),
    ("tells of earlier plans in part only", _set("after", lambda old: "x")),
    ("64 hexadecimal digits", _set("after", lambda old: [7])),
    ("arrays that do not fit", _set("used", lambda old: old[0])),
    ("arrays that do not fit", _set("used_unit", lambda old: np.vstack([old, old]))),
    ("arrays that do not fit", _set("used", lambda old: old.astype(float))),
    ("about 11 cells, this one about 12", _set("used", lambda old: old[1:])),
    ("whole unit", _set("used_unit", lambda old: 0 * old)),
    ("at least zero", _set("used", lambda old: -old)),
    ("already spend", _set("used", lambda old: 2 * old)),
    ("together with the earlier plans spends more", _set("used", lambda old: np.full_like(old, old.max()))),
    ("records are added or removed", _set("privacy", lambda old: {**old, "neighbours": "replace-one"})),
    ("its method cannot do", _set("claim", lambda old: "data-dependent")),
]


@pytest.mark.parametrize(("words", "change"), FORGED)
def test_forged_files_are_refused(
    words: str, change: Callable[[dict[str, Any], dict[str, Array]], None], tmp_path: Path
) -> None:
    content, arrays = SECOND.to_parts()
    content, arrays = dict(content), dict(arrays)
    change(content, arrays)
    with refuses(PlanFileError, "plan", "forged", words):
        load_plan(container.write(tmp_path / "forged", "plan", content, arrays))


def test_the_plan_says_what_is_free_and_for_whom() -> None:
    text = str(SECOND)
    assert (
        "after 1 earlier plan; together they spend μ² = 1 per person; "
        "in the worst case nothing more than before"
    ) in text
    assert "in the worst case only: people in cells with slack lose protection they had" in text
    paid = str(design(OF_MEN, GDP(2), after=[FIRST, FIRST]))
    assert (
        "after 2 earlier plans; together they spend μ² = 4 per person; in the worst case μ² = 2 more" in paid
    )
    assert "earlier" not in str(FIRST)
    # Privacy by itself is about the plan alone.
    assert SECOND.mu is not None and SECOND.mu**2 == pytest.approx(float(max(spent_by_hand(SECOND))))
    assert SECOND.spent_per_person < SECOND.spent_together == FIRST.spent_together == FIRST.spent_per_person
