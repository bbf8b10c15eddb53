"""The families: their rows against drawings, their accuracy by dense linear algebra, their refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import certify
from leastnoise.core.errors import DesignError, MethodError
from leastnoise.core.merged_cells import distinct_cells
from leastnoise.core.operators import kronecker
from leastnoise.planning import (
    Method,
    Request,
    all_methods,
    design,
    load_plan,
    method_named,
    plan_by,
)
from leastnoise.planning.families.fixed_rows import best_branchings, branchings, haar, is_small, tree
from leastnoise.planning.method import refuse_large
from leastnoise.privacy import GDP, Goal, PureDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    MaxVariance,
    Prefix,
    Schema,
    Total,
    TotalVariance,
    Workload,
    assemble,
)
from leastnoise.strategy import RealStrategy
from support import refuses
from tolerances import ROUNDING, SOLVER

HEURISTICS = ("identity", "workload", "hierarchical", "wavelet")


# Drawings ------------------------------------------------------------------------------------


def drawn(text: str) -> list[list[int]]:
    signs = {"1": 1, "-": -1, ".": 0}
    return [[signs[c] for c in line.split()] for line in text.strip().splitlines()]


TREE_4 = drawn("""
    1 1 1 1
    1 1 . .
    . . 1 1
    1 . . .
    . 1 . .
    . . 1 .
    . . . 1
""")
TREE_5_BY_3 = drawn("""
    1 1 1 1 1
    1 1 . . .
    . . 1 . .
    . . . 1 1
    1 . . . .
    . 1 . . .
    . . . 1 .
    . . . . 1
""")
HAAR_4 = drawn("""
    1 1 1 1
    1 1 - -
    1 - . .
    . . 1 -
""")
HAAR_3 = drawn("""
    1 1 1
    1 1 -
    1 - .
    . . 1
""")


def test_drawings() -> None:
    assert tree(4, 2).tolist() == TREE_4
    assert tree(5, 3).tolist() == TREE_5_BY_3
    assert tree(1, 2).tolist() == [[1]] == haar(1).tolist()
    assert haar(2).tolist() == [[1, 1], [1, -1]]
    assert haar(4).tolist() == HAAR_4
    assert haar(3).tolist() == HAAR_3


def is_tree(rows: Any, n: int, branching: int) -> bool:
    """Whether 0/1 rows are all nodes of a tree: each splits into 2 to `branching` near-equal children."""
    nodes = []
    for row in rows.tolist():
        where = [i for i, value in enumerate(row) if value]
        if set(row) - {0, 1} or where != list(range(where[0], where[-1] + 1)):
            return False
        nodes.append((where[0], where[-1] + 1))
    if len(set(nodes)) < len(nodes) or (0, n) not in nodes:
        return False
    reached = set()
    waiting = [(0, n)]
    while waiting:
        low, high = waiting.pop()
        reached.add((low, high))
        if high - low == 1:
            continue
        inside = [(a, b) for a, b in nodes if low <= a and b <= high and (a, b) != (low, high)]
        children = [c for c in inside if not any(d != c and d[0] <= c[0] and c[1] <= d[1] for d in inside)]
        sizes = [b - a for a, b in children]
        if not 2 <= len(children) <= branching or sum(sizes) != high - low or max(sizes) - min(sizes) > 1:
            return False
        waiting += children
    return reached == set(nodes)


@pytest.mark.parametrize("branching", [2, 3, 4, 5])
@pytest.mark.parametrize("n", range(1, 18))
def test_every_tree(n: int, branching: int) -> None:
    rows = tree(n, branching)
    assert is_tree(rows, n, branching) and np.linalg.matrix_rank(rows) == n
    assert len(rows) <= 2 * n
    if n > 2:
        assert not is_tree(rows[1:], n, branching)
        assert not is_tree(np.vstack([rows, rows[-1:]]), n, branching)
        assert not is_tree(rows[:-1], n, branching)


def test_very_bushy_trees_are_flat() -> None:
    assert tree(6, 10**9).tolist() == [[1] * 6, *np.eye(6, dtype=int).tolist()]


@pytest.mark.parametrize("n", range(1, 18))
def test_every_wavelet(n: int) -> None:
    full = 2 ** math.ceil(math.log2(n))
    rows = haar(full)
    assert np.array_equal(rows @ rows.T, np.diag(np.diag(rows @ rows.T))), "orthogonal at powers of two"
    assert rows.shape == (full, full) and (rows[1:].sum(axis=1) == 0).all()
    part = haar(n)
    kept = np.array([row for row in rows[:, :n].tolist() if any(row)])
    assert np.array_equal(part, kept) and np.linalg.matrix_rank(part) == n


def test_kronecker_is_numpys() -> None:
    A, B, C = tree(3, 2), haar(2), np.eye(2, dtype=int)
    assert np.array_equal(kronecker([A, B, C]), np.kron(np.kron(A, B), C))
    assert not np.array_equal(kronecker([B, A]), np.kron(A, B))


# Accuracy ------------------------------------------------------------------------------------


def rows_of(method: str, workload: Workload) -> Any:
    sizes = (workload.shape[1],) if workload.schema is None else workload.schema.shape
    if method == "identity":
        return np.eye(workload.shape[1])
    if method == "workload":
        return np.unique(workload.dense(), axis=0)
    return kronecker([tree(n, 2) if method == "hierarchical" else haar(n) for n in sizes])


def total_by_hand(A: Any, workload: Workload, goal: Goal) -> float:
    W = workload.dense() * np.sqrt(workload.weights)[:, None]
    spread = np.linalg.norm(W @ np.linalg.pinv(A.astype(float))) ** 2
    if goal.noise == "laplace":
        return float(spread * 2 * (np.abs(A).sum(axis=0).max() / float(goal.epsilon_per_record)) ** 2)  # type: ignore[arg-type]
    return float(spread * (A**2).sum(axis=0).max() / float(goal.mu_squared))  # type: ignore[arg-type]


def workloads() -> list[Workload]:
    two = Schema(a=range(5), b=("x", "y", "z"))
    return [
        assemble([Prefix("a")], Schema(a=range(13))),
        assemble([AllRanges("a")], Schema(a=range(9))),
        assemble([Prefix("a") * Marginal("b"), Marginal("b", weight=5), Total()], two),
        assemble([Total()], two),
        Workload.from_matrix([[1, -2, 0], [0, 1, 1], [1, -2, 0]], weights=[1, 2, 3]),
        Workload.from_matrix([[7]]),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("workload", workloads(), ids=repr)
@pytest.mark.parametrize("method", HEURISTICS)
@pytest.mark.parametrize("goal", [GDP(0.7), PureDP(0.3, records_per_person=2)], ids=str)
def test_expected_variance_by_dense_linear_algebra(method: str, workload: Workload, goal: Goal) -> None:
    plan = design(workload, goal, method=method)
    expected = total_by_hand(rows_of(method, workload), workload, goal)
    # The noise scale is rounded up to a whole number of at least 2^27 grid steps.
    assert plan.certificate.achieved == pytest.approx(expected, rel=1e-7)
    wrong = rows_of("hierarchical" if method == "identity" else "identity", workload)
    if workload.shape[1] > 1 and method != "workload":
        assert plan.certificate.achieved != pytest.approx(total_by_hand(wrong, workload, goal), rel=1e-7)
    assert plan.method == method and plan.claim == "heuristic"


@pytest.mark.thorough
@pytest.mark.parametrize("workload", workloads(), ids=repr)
def test_no_family_is_below_the_certified_bound(workload: Workload) -> None:
    best = design(workload, GDP(1)).certificate
    assert best.status == "optimal"
    for method in HEURISTICS:
        plan = design(workload, GDP(1), method=method)
        own = certify(workload, plan)
        assert own.lower_bound <= best.achieved * (1 + ROUNDING)
        assert best.lower_bound <= own.achieved
        assert own.status == ("optimal" if own.gap <= SOLVER else "heuristic")


FAMILIES = [m for m in all_methods() if not m.is_data_dependent]


def keeps_the_laws(method: Method, workload: Workload, goal: Goal, folder: Path) -> bool | None:
    """Whether a family obeys what every family must; None where it refuses.

    It refuses in words or serves, leaves it to the certificate to call it optimal, proves no more than the
    optimum allows, and its plan is the same after it was saved.
    """
    request = Request(workload, goal, time_limit=60.0)
    reason = request.why_not(method)
    if reason is not None:
        assert reason.strip() and reason == request.why_not(method)
        return None
    plan = plan_by(method, request)
    own = certify(workload, plan)
    is_proved = own.gap <= SOLVER and goal.noise == "gaussian"
    if plan.claim not in ("stopped", "heuristic") or (own.status == "optimal") != is_proved:
        return False
    if goal.noise == "gaussian":
        best = design(workload, goal, method="dense").certificate
        if own.lower_bound > best.achieved * (1 + ROUNDING) or own.achieved < best.lower_bound:
            return False
    path = folder / "a.plan"
    path.unlink(missing_ok=True)
    plan.save(path)
    return load_plan(path).certificate.achieved == own.achieved


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [GDP(0.7), PureDP(0.3), GDP(1, neighbours="replace-one")], ids=str)
@pytest.mark.parametrize("method", FAMILIES, ids=lambda method: method.name)
def test_every_family_keeps_the_laws(method: Method, goal: Goal, tmp_path: Path) -> None:
    zero = Workload.from_matrix(np.zeros((1, 3)))
    for workload in (*workloads(), zero):
        assert keeps_the_laws(method, workload, goal, tmp_path) in (True, None)


def test_broken_families_break_the_laws(tmp_path: Path) -> None:
    identity, workload = method_named("identity"), assemble([Prefix("a")], Schema(a=range(4)))

    def changed(**changes: Any) -> Method:
        return replace(identity, find=lambda request: replace(identity.find(request), **changes))

    assert keeps_the_laws(changed(), workload, GDP(1), tmp_path)
    with refuses(DesignError, "claim", "optimal"):
        keeps_the_laws(changed(claim="optimal"), workload, GDP(1), tmp_path)
    for proposal in (RealStrategy(np.eye(3, dtype=int)), RealStrategy(np.eye(4, dtype=int)[:3])):
        with pytest.raises(DesignError):
            keeps_the_laws(changed(proposal=proposal), workload, GDP(1), tmp_path)
    with pytest.raises(DesignError):
        keeps_the_laws(changed(q=np.full(4, -1.0)), workload, GDP(1), tmp_path)


@pytest.mark.parametrize("branching", [2, 3, 16])
def test_branching_is_used(branching: int) -> None:
    workload = assemble([Prefix("a")], Schema(a=range(16)))
    plan = design(workload, GDP(1), method="hierarchical", options={"branching": branching})
    assert plan.certificate.achieved == pytest.approx(
        total_by_hand(tree(16, branching), workload, GDP(1)), rel=1e-7
    )
    assert plan.note == f"noise on every node of a tree with {branching} branches"
    assert plan.options == {"branching": branching}


# Best branching ------------------------------------------------------------------------------


def test_branchings_tried() -> None:
    assert branchings(1) == [2] == branchings(2)
    assert branchings(9) == list(range(2, 10))
    # The fewest branches with which 100 values have height 1, 2, 3, …
    assert branchings(100) == [*range(2, 17), 100]
    assert {1000, 32, 10, 6} <= set(branchings(1000)) and 999 not in branchings(1000)
    for n in (20, 100, 1000):
        assert math.isqrt(n - 1) + 1 in branchings(n), "height 2"


GOALS: list[Goal] = [GDP(1), PureDP(1), GDP(1, neighbours="replace-one"), PureDP(1, neighbours="replace-one")]


@pytest.mark.thorough
@pytest.mark.parametrize("objective", [TotalVariance(), MaxVariance()], ids=str)
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_best_branching_is_the_best_of_all_plans(goal: Goal, objective: TotalVariance | MaxVariance) -> None:
    workload = assemble([AllRanges("a")], Schema(a=range(30)))

    def value(branching: Any) -> float:
        plan = design(
            workload, goal, method="hierarchical", options={"branching": branching}, objective=objective
        )
        return objective.value(workload, plan.stderr**2)

    each = {branching: value(branching) for branching in branchings(30)}
    assert value("best") == pytest.approx(min(each.values()), rel=1e-7)
    assert value("best") < each[2] * 0.99, "binary trees are not the best here"


def test_best_branching_of_several_attributes() -> None:
    workload = assemble([AllRanges("a") * Marginal("b")], Schema(a=range(12), b=range(5)))
    for goal in (GDP(1), PureDP(1)):
        chosen = best_branchings(Request(workload, goal))
        best = design(workload, goal, method="hierarchical", options={"branching": "best"})
        rows = kronecker([tree(n, b) for n, b in zip((12, 5), chosen, strict=True)])
        assert best.certificate.achieved == pytest.approx(total_by_hand(rows, workload, goal), rel=1e-7)
        # A table of b needs no tree over it: the fewest levels.
        assert chosen[1] == 5 and best.note == f"noise on every node of a tree with {chosen[0]} x 5 branches"
        for other in ([2, 2], [chosen[0], 2], [12, 5] if chosen[0] != 12 else [3, 5]):
            rows = kronecker([tree(n, b) for n, b in zip((12, 5), other, strict=True)])
            assert best.certificate.achieved < total_by_hand(rows, workload, goal)


# The hybrid of wavelets and cells ------------------------------------------------------------


def test_which_attributes_the_hybrid_leaves_as_they_are() -> None:
    """Xiao et al.: n ≤ P² H with P = 1 + log₂ n and H = (2 + log₂ n)/2; 512 ≤ 550 but 1,024 > 726."""
    for depth in range(14):
        n = 2**depth
        assert is_small(n) == (n <= (1 + depth) ** 2 * (2 + depth) / 2) == (depth < 10)
    assert is_small(500) and not is_small(730)


@pytest.mark.thorough
def test_the_hybrid_measures_small_attributes_by_cell() -> None:
    workload = assemble([AllRanges("a") * AllRanges("b")], Schema(a=range(7), b=range(4)))
    hybrid = design(workload, PureDP(1), method="wavelet", options={"hybrid": True})
    plain = design(workload, PureDP(1), method="wavelet")
    cells = design(workload, PureDP(1), method="identity")
    assert hybrid.certificate.achieved == pytest.approx(cells.certificate.achieved, rel=1e-7)
    assert hybrid.certificate.achieved < plain.certificate.achieved
    assert hybrid.note == "noise on Haar wavelet coefficients, 2 of 2 attributes left as they are"
    mixed = assemble([Prefix("a") * Marginal("b")], Schema(a=range(1100), b=range(2)))
    found = method_named("wavelet").find(Request(mixed, PureDP(1), {"hybrid": True}))
    assert np.array_equal(found.proposal.coefficients, np.kron(haar(1100), np.eye(2)))
    assert not np.array_equal(found.proposal.coefficients, np.kron(haar(1100), haar(2)))


def test_a_hybrid_that_gains_nothing_is_refused() -> None:
    workload = assemble([Prefix("a")], Schema(a=range(8)))
    with refuses(MethodError, "method", "wavelet", "its hybrid is for Laplace noise; with"):
        design(workload, GDP(1), method="wavelet", options={"hybrid": True})
    with refuses(MethodError, "hybrid", 1):
        design(workload, PureDP(1), method="wavelet", options={"hybrid": 1})


def test_a_query_asked_twice_is_measured_once() -> None:
    plan = design(Workload.from_matrix([[1, 1], [0, 0], [1, 1], [1, 0]]), GDP(1), method="workload")
    assert plan.strategy.shape == (2, 2)
    assert plan.note == "noise on each of 2 different queries"


# Refusals ------------------------------------------------------------------------------------


def test_unknown_methods_and_options_are_refused_by_name() -> None:
    workload = Workload.from_matrix(np.eye(2))
    with refuses(MethodError, "method", "best", "no method 'best'; there are dense,", "identity, workload,"):
        design(workload, GDP(1), method="best")
    with refuses(MethodError, "options", "branching", "'identity' has no option branching; its"):
        design(workload, GDP(1), method="identity", options={"branching": 2})
    with refuses(MethodError, "options", "depth", "'hierarchical' has no option depth; its"):
        design(workload, GDP(1), method="hierarchical", options={"depth": 2})
    assert [method_named(m.name) for m in all_methods()] == list(all_methods())


@pytest.mark.parametrize("branching", [1, 0, -2, 2.0, "2", "worst", True, None, [2], 10**30])
def test_branchings_that_make_no_tree_are_refused(branching: Any) -> None:
    with refuses(
        MethodError, "branching", ..., 'branching must be a whole number, 2 or more, or "best", got'
    ):
        design(
            Workload.from_matrix(np.eye(2)), GDP(1), method="hierarchical", options={"branching": branching}
        )


def test_arrays_are_no_options() -> None:
    both = np.array([2, 3])
    workload = Workload.from_matrix(np.eye(2))
    with refuses(
        MethodError, "branching", ..., "branching must be", 'or "best", got a value of type ndarray'
    ):
        design(workload, GDP(1), method="hierarchical", options={"branching": both})
    for objective in (TotalVariance(), MaxVariance()):
        for refine in (both, 1, "yes"):
            with refuses(MethodError, "refine", ..., "refine must be True or False, got"):
                design(workload, GDP(1), method="dense", objective=objective, options={"refine": refine})
    with refuses(MethodError, "options", "3", "'identity' has no option 3; its options: none"):
        design(workload, GDP(1), method="identity", options={3: 1})  # type: ignore[dict-item]


def test_what_a_method_cannot_do_it_says_and_who_can() -> None:
    workload = Workload.from_matrix([[0.5, 1.0]])
    with refuses(
        MethodError,
        "method",
        "dense",
        "'dense' cannot do this: its noise is Gaussian",
        "identity, hierarchical, wavelet",
    ):
        design(workload, PureDP(1), method="dense")
    with refuses(
        MethodError, "method", "workload", "'workload' cannot do this:", "whole numbers below 2^30; dense"
    ):
        design(workload, GDP(1), method="workload")


DENSE_ROWS = (*HEURISTICS, "dense", "fourier", "datacube", "eigen", "eigen-separation", "principal-vectors")


@pytest.mark.parametrize("name", [*DENSE_ROWS, "weighted-basis"])
def test_large_workloads_are_refused_before_anything_is_built(name: str) -> None:
    huge = assemble([Total()], Schema(a=range(10**6), b=range(10**6)))
    reason = method_named(name).refuses(Request(huge, GDP(1)))
    assert reason is not None and "1,000,000,000,000" in reason


def test_the_size_from_which_rows_are_refused() -> None:
    assert refuse_large(2**13, 2**13) is None
    assert (
        refuse_large(2**13 + 1, 2**13)
        == "it would measure 8,193 rows over 8,192 cells, too many for a matrix in memory"
    )


# The dense family ----------------------------------------------------------------------------


def test_weak_cells_are_told_apart() -> None:
    """Columns 1e-10 beside the largest were rounded to the same zeros, and the design crashed."""
    for values in ([1, 2e-10, 3e-10], [1, 1.5e-10, 1.6e-10, 1e-3]):
        plan = design(Workload.from_matrix(np.diag(values)), GDP(1))
        assert plan.certificate.status == "optimal"
        # All cells could have their own variance at once; what is lost of the total is the gap.
        excess = plan.stderr**2 - np.array(values) ** 2
        assert (excess >= -SOLVER * np.array(values) ** 2).all()
        assert excess.sum() <= SOLVER * np.square(values).sum()


def test_equal_cells_share_their_weight() -> None:
    R = np.array([[1.0, 2, 1, 0, 2], [1e-9, 0, 1e-9, 0, 0]])
    cells = distinct_cells(R, np.array([True, True, True, False, True]))
    assert sorted(cells.first.tolist()) == [0, 1] and sorted(cells.counts.tolist()) == [2, 2]
    assert cells.kind[0] == cells.kind[2] != cells.kind[1] == cells.kind[3]


def test_unused_and_repeated_cells_change_nothing() -> None:
    rng = np.random.default_rng(5)
    W = rng.normal(size=(6, 4))
    once = design(Workload.from_matrix(W), GDP(1)).certificate
    wide = np.hstack([W, np.zeros((6, 3)), W[:, :2], W[:, :2]])
    plan = design(Workload.from_matrix(wide), GDP(1))
    assert plan.certificate.achieved == pytest.approx(once.achieved, rel=SOLVER)
    assert (plan.witness.q[4:7] == 0).all() and (plan.profile[4:7] == 0).all()


def test_weighted_independent_cells_have_a_closed_form() -> None:
    """W = I with weights w: every cell may spend everything, so the total is Σ w."""
    for weights in ([3.0], [1.0, 1.0], [1.0, 1e3, 1e-3, 7.0]):
        found = design(Workload.from_matrix(np.eye(len(weights)), weights=weights), GDP(2)).certificate
        assert found.achieved == pytest.approx(sum(weights) / 4, rel=SOLVER)
        assert found.lower_bound <= sum(weights) / 4 * (1 + ROUNDING)
