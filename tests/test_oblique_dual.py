"""Dual weights of product form: the slopes are those of F, and the weights nearly the best of their form."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import union_bound
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.planning.oblique import dual_search
from leastnoise.planning.oblique.dual_search import _WeightSearch
from leastnoise.planning.oblique.dual_search import dual_weights as dual_weights_and_end
from leastnoise.planning.oblique.dual_union import MovingUnion, sum_and_marginals
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.query import Products, products_of
from leastnoise.solver import least_total
from tolerances import ROUNDING, SOLVER

# How far below the certified optimum the bound of product form may stay: gaps are printed to 0.1 %.
NEAR = 0.003

# Rounds end when they raise the bound by less than 1e-5; what is left after that is of the same order.
SEARCHED = 1e-4

TREE = {"north": ["a", "b", "c"], "south": ["d", "e"], "west": ["f", "g", "h", "i"]}
P, M, R, W = ln.Prefix, ln.Marginal, ln.AllRanges, ln.Where


def dual_weights(*args: Any, **options: Any) -> tuple[Array, ...]:
    return dual_weights_and_end(*args, **options)[0]


def schema(**sizes: Any) -> ln.Schema:
    return ln.Schema(**{name: range(size) if isinstance(size, int) else size for name, size in sizes.items()})


def asked(queries: Sequence[Any], **sizes: Any) -> tuple[Products, Array]:
    workload = ln.assemble(queries, schema(**sizes))
    products = products_of(workload)
    assert products is not None
    return products, np.array([workload.blocks[term.block].weights[0] for term in products.terms])


CASES = {
    "two kinds on one axis": asked([M("a", "b"), P("a")], a=60, b=2),
    "2-way of three kinds": asked([R("a") * M("b"), R("a") * P("c"), M("b") * P("c")], a=10, b=5, c=6),
    "prefix and table": asked([P("a"), M("b"), P("a") * M("b")], a=30, b=8),
    "three prefixes": asked(
        [P(x) for x in "abc"] + [P(x) * P(y) for x, y in itertools.combinations("abc", 2)], a=8, b=8, c=8
    ),
    "three kinds on one axis": asked([M("a", "b"), P("a") * P("c"), R("a") * P("b"), P("c")], a=12, b=6, c=5),
    "hierarchy": asked(
        [ln.Levels("r"), M("r", "b"), P("c") * M("b"), P("c") * ln.Levels("r")],
        r=ln.Hierarchy(TREE),
        b=3,
        c=6,
    ),
    "conditions": asked(
        [P("a"), P("b"), W("a >= 5 and b > 3"), W("a < 9") * M("b"), W("a >= 9") * M("c")], a=16, b=12, c=2
    ),
    "values that nobody asks": asked([W("a >= 6"), W("a >= 10") * M("b")], a=20, b=5),
    "unequal weights": asked([P("a", weight=1e3), M("a", "b"), P("b", weight=1e-2), ln.Total()], a=16, b=8),
    "common axis": asked([P("a") * M("b"), P("a") * P("c"), P("a")], a=12, b=4, c=5),
}


def matrix(products: Products, weights: Array, rows: Mapping[tuple[int, int], Array]) -> Array:
    """diag(√w) W over all cells."""
    blocks = []
    for term, weight in zip(products.terms, weights, strict=True):
        kinds = dict(zip(term.places, term.kinds, strict=True))
        block = np.full((1, 1), math.sqrt(weight))
        for a, size in enumerate(products.sizes):
            factor = np.ones((1, size))
            if a in kinds:
                factor = products.kinds[a][kinds[a]].operator.dense()
                factor = np.sqrt(rows.get((a, kinds[a]), np.ones(len(factor))))[:, None] * factor
            block = np.kron(block, factor)
        blocks.append(block)
    return np.concatenate(blocks)


def root_by_cells(A: Array, q: Sequence[Array]) -> Array:
    """The diagonal of K^½, K = E AᵀA E, as an array over the values of all axes, by singular values."""
    e = np.sqrt(reduce(np.kron, q))
    _, s, E = np.linalg.svd(A * e, full_matrices=False)
    return np.asarray((s @ E**2).reshape([len(own) for own in q]))


def marginals_by_cells(A: Array, q: Sequence[Array]) -> list[Array]:
    return added_up(root_by_cells(A, q))


def added_up(cells: Array) -> list[Array]:
    """Sums over all axes but one."""
    return [cells.sum(axis=tuple(b for b in range(cells.ndim) if b != a)) for a in range(cells.ndim)]


def padded(products: Products, q: Sequence[Array]) -> list[Array]:
    """Weights of all values, also of axes that nothing mentions."""
    return [np.full(n, 1 / n) if len(own) != n else own for own, n in zip(q, products.sizes, strict=True)]


def some_weights(products: Products, seed: int = 0) -> list[Array]:
    draw = np.random.default_rng(seed)
    return [draw.dirichlet(np.ones(size)) for size in products.sizes]


def plain_where_simple(search: _WeightSearch, q: list[Array]) -> list[Array]:
    return [np.full(len(own), 1 / len(own)) if search._is_simple(a) else own for a, own in enumerate(q)]


def one_axis_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual_search, "_MOST_TOGETHER", 0)


@pytest.fixture(params=["all at once", "one axis at a time"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "all at once":
        one_axis_at_a_time(monkeypatch)


def marginals_by_search(products: Products, weights: Array, q: list[Array], F: float) -> dict[int, Array]:
    """m of all axes that move; what is left out as it does not depend on q, a multiple of it, is added."""
    search = _WeightSearch(products, weights / weights.max(), {}, NEVER)
    problems = search._without_simple(search._terms())
    moving = sorted({a for problem in problems for part in problem for a, _ in part})
    e = {a: np.sqrt(q[a]) for a in moving}
    part, found = sum_and_marginals([search._union(problem, moving, {}) for problem in problems], e)
    unit = math.sqrt(weights.max())
    assert unit * part <= (1 + SOLVER) * F
    return {a: unit * m + (F - unit * part) * q[a] for a, m in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_marginals_are_those_of_the_root_over_all_cells(case: str) -> None:
    products, weights = CASES[case]
    q = plain_where_simple(_WeightSearch(products, weights, {}, NEVER), some_weights(products))
    exact = marginals_by_cells(matrix(products, weights, {}), q)
    F = float(exact[0].sum())
    for a, m in marginals_by_search(products, weights, q, F).items():
        # Eigenvalues that are zero but for rounding have roots of 1e-8 of the largest.
        np.testing.assert_allclose(m, exact[a], atol=SOLVER * F)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["three kinds on one axis", "three prefixes", "hierarchy"])
def test_slopes_are_differences_of_the_norm(case: str) -> None:
    """∂F/∂q(i) = m(i)/(2q(i)); a twin with the diagonal of K in the place of its root is found out."""
    products, weights = CASES[case]
    A = matrix(products, weights, {})
    q = plain_where_simple(_WeightSearch(products, weights, {}, NEVER), some_weights(products))
    F = float(root_by_cells(A, q).sum())
    wrong = added_up((reduce(np.kron, q) * (A**2).sum(axis=0)).reshape(products.sizes))
    for a, m in marginals_by_search(products, weights, q, F).items():
        i = int(np.argmax(q[a]))
        ends = []
        # What a central difference leaves out is the square of the step.
        step = 1e-3 * q[a][i]
        for sign in (1, -1):
            moved = [own.copy() for own in q]
            moved[a][i] += sign * step
            ends.append(float(root_by_cells(A, moved).sum()))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert m[i] / (2 * q[a][i]) == pytest.approx(slope, rel=SOLVER)
        assert F * wrong[a][i] / wrong[a].sum() / (2 * q[a][i]) != pytest.approx(slope, rel=0.01)


@pytest.mark.thorough
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("case", CASES)
def test_no_axis_could_do_better(case: str) -> None:
    """F is concave in the weights of an axis, so no others of it reach more than (F + max m/q)/2."""
    products, weights = CASES[case]
    q = padded(products, dual_weights(products, weights))
    A = matrix(products, weights, {})
    for own, m in zip(q, marginals_by_cells(A, q), strict=True):
        assert math.fsum(own) == pytest.approx(1, rel=ROUNDING)
        counted = own > 1e-9
        best = max((m[counted] / own[counted]).max(), 0.0)
        F = float(m.sum())
        # First order: weights that are wrong by δ have slopes wrong by δ, and F by δ².
        assert (F + best) / 2 <= (1 + math.sqrt(SEARCHED)) * F


@pytest.mark.thorough
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("case", CASES)
def test_bounds_are_near_the_certified_optimum(case: str) -> None:
    products, weights = CASES[case]
    A = matrix(products, weights, {})
    _, s, E = np.linalg.svd(A[:, A.any(axis=0)], full_matrices=False)
    strong = s > SOLVER * s[0]
    optimum = least_total(s[strong, None] * E[strong], tol=SOLVER)
    bound = union_bound(products, weights, padded(products, dual_weights(products, weights)))
    assert bound <= (1 + SOLVER) * optimum.achieved
    assert bound >= (1 - NEAR) * optimum.achieved


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["two kinds on one axis", "three kinds on one axis", "unequal weights"])
def test_weights_of_the_plan_are_improved(case: str) -> None:
    """The gap of these plans is mostly that of their weights, by two percent at least."""
    products, weights = CASES[case]
    start = [axis.q for axis in split_products(products, weights).axes]
    found = padded(products, dual_weights(products, weights, start=start))
    assert union_bound(products, weights, found) > 1.02 * union_bound(products, weights, start)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["three kinds on one axis", "conditions"])
def test_few_directions_of_the_other_axes_are_enough(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    products, weights = CASES[case]
    together = union_bound(products, weights, dual_weights(products, weights))
    one_axis_at_a_time(monkeypatch)
    for directions in (1, 2):
        monkeypatch.setattr(dual_search, "_MOST_BESIDE", directions)
        apart = union_bound(products, weights, dual_weights(products, weights))
        assert apart >= (1 - NEAR) * together


@pytest.mark.parametrize("case", ["three kinds on one axis", "three prefixes"])
def test_an_axis_beside_whole_others_is_exact(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is cut off, the slopes of one axis are those of all axes together."""
    products, weights = CASES[case]
    monkeypatch.setattr(dual_search, "_MOST_BESIDE", 100)
    monkeypatch.setattr(dual_search, "_MOST_OF_ONE", 10_000)
    search = _WeightSearch(products, weights, {}, NEVER)
    q = some_weights(products)
    problems = search._without_simple(search._terms())
    exact = marginals_by_cells(matrix(products, weights, {}), q)
    for a, own in enumerate(q):
        F, m = sum_and_marginals(search._beside(problems, a, q), {a: np.sqrt(own)})
        left_out = float(exact[a].sum()) - F
        np.testing.assert_allclose(m[a] + left_out * own, exact[a], atol=SOLVER * F)


@pytest.mark.parametrize("directions", [1, 2])
def test_cuts_lose_nothing_where_e_is_by_itself(directions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain counts under equal weights, cut like any other axis: one direction holds all of e."""
    products, weights = asked(
        [P("a"), M("a", "b"), P("a") * M("c"), M("b", "c"), P("a") * M("b", "c")], a=9, b=4, c=3
    )
    monkeypatch.setattr(dual_search, "_MOST_BESIDE", directions)
    q = [some_weights(products)[0], np.full(4, 1 / 4), np.full(3, 1 / 3)]
    exact = marginals_by_cells(matrix(products, weights, {}), q)[0]
    search = _WeightSearch(products, weights, {}, NEVER)
    F, m = sum_and_marginals(search._beside([search._terms()], 0, q), {0: np.sqrt(q[0])})
    assert (1 + SOLVER) * exact.sum() >= F
    np.testing.assert_allclose(m[0] + (exact.sum() - F) * q[0], exact, atol=SOLVER * F)


def never_worse(products: Products, weights: Array, start: Sequence[Array], **options: Any) -> bool:
    found = padded(products, dual_weights(products, weights, start=start, **options))
    least = max(
        union_bound(products, weights, q) for q in (start, padded(products, [np.ones(0)] * len(start)))
    )
    return union_bound(products, weights, found) >= (1 - ROUNDING) * least


@pytest.mark.thorough
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("case", CASES)
def test_never_worse_than_what_was_given(case: str) -> None:
    products, weights = CASES[case]
    best = padded(products, dual_weights(products, weights))
    assert never_worse(products, weights, best)
    assert never_worse(products, weights, some_weights(products), rounds=1)
    assert never_worse(products, weights, best, deadline=Deadline.after(0.0))


@pytest.mark.thorough
def test_a_wrong_slope_does_no_harm_because_the_bound_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """With slopes turned round weights get worse; a twin that keeps them all the same is found out."""
    products, weights = CASES["three kinds on one axis"]
    best = padded(products, dual_weights(products, weights))
    right = MovingUnion.norm_and_marginals

    def wrong(union: MovingUnion, e: Mapping[int, Array]) -> tuple[float, dict[int, Array]]:
        F, m = right(union, e)
        # What is asked most gets least: 1/F grows where F falls.
        turned = {a: 2 * F * e[a] ** 2 - own for a, own in m.items()}
        return 1 / F, {a: own / F**2 for a, own in turned.items()}

    monkeypatch.setattr(MovingUnion, "norm_and_marginals", wrong)
    start = [0.9 * own + 0.1 * other for own, other in zip(best, some_weights(products), strict=True)]
    assert never_worse(products, weights, start)

    def keeps_all(search: _WeightSearch, q: Sequence[Array]) -> bool:
        search.q, search.bound = list(q), 1.0
        return True

    monkeypatch.setattr(_WeightSearch, "consider", keeps_all)
    assert not never_worse(products, weights, start)


def test_rows_of_unequal_weight() -> None:
    products, weights = CASES["three kinds on one axis"]
    draw = np.random.default_rng(0)
    rows = {
        (a, kind): draw.uniform(0.1, 3, block.n_rows)
        for a, kinds in enumerate(products.kinds)
        for kind, block in enumerate(kinds)
    }
    A = matrix(products, weights, rows)
    q = dual_weights(products, weights, row_weights=rows)
    for own, m in zip(q, marginals_by_cells(A, q), strict=True):
        assert np.abs(m / m.sum() - own).max() <= math.sqrt(SEARCHED) * own.max()
    without = dual_weights(products, weights)
    assert union_bound(products, weights, q, rows) > union_bound(products, weights, without, rows)


def test_plain_counts_have_equal_weights_and_what_is_not_asked_has_one() -> None:
    products, weights = asked([M("a", "b"), P("a")], a=20, b=7, c=9)
    a, b, c = dual_weights(products, weights)
    assert a.max() > 1.5 * a.min()
    np.testing.assert_array_equal(b, np.full(7, 1 / 7))
    np.testing.assert_array_equal(c, np.ones(1))
    uneven = np.linspace(0.9, 1.1, 7) / 7
    again = dual_weights(products, weights, start=(a, uneven, c))
    np.testing.assert_array_equal(again[1], b)
    np.testing.assert_array_equal(again[2], c)


def test_a_product_of_weight_zero_does_not_count() -> None:
    products, _ = asked([P("a"), M("a") * M("b")], a=20, b=4)
    alone, _ = asked([P("a")], a=20, b=4)
    q = dual_weights(products, np.array([1.0, 0.0]))[0]
    np.testing.assert_allclose(q, dual_weights(alone, np.ones(1))[0], atol=ROUNDING)


@pytest.mark.thorough
def test_many_axes_are_searched_in_time() -> None:
    """10^13 cells, and nothing of their number is built."""
    queries = [P(f"p{i}") for i in range(4)] + [M(f"m{i}") for i in range(5)]
    queries += [x * y for x, y in itertools.combinations(queries, 2)] + [M("p0", "p1")]
    sizes = {f"p{i}": 40 + i for i in range(4)} | {f"m{i}": 10 + i for i in range(5)}
    products, weights = asked(queries, **sizes)
    start = [axis.q for axis in split_products(products, weights).axes]
    before = time.process_time()
    q = dual_weights(products, weights, start=start)
    assert time.process_time() - before < 15
    assert union_bound(products, weights, q) > (1 + SEARCHED) * union_bound(products, weights, start)


def test_weights_that_do_not_fit_are_refused() -> None:
    products, weights = CASES["prefix and table"]
    with pytest.raises(DesignError, match="2 axes need weights of the values of each, got 1"):
        dual_weights(products, weights, start=[np.ones(30)])
    with pytest.raises(DesignError, match="must be finite, and not all zero"):
        dual_weights(products, weights, start=[np.zeros(30), np.ones(8)])
    with pytest.raises(DesignError, match="the weights of a must be 30 numbers, got 29"):
        dual_weights(products, weights, start=[np.ones(29), np.ones(8)])
    with pytest.raises(DesignError, match="finite, zero or more"):
        dual_weights(products, -weights)


def test_weights_are_not_judged_where_nothing_else_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late, the bound was worked out for the only weights there are, and again for the certificate."""

    def judged(*_: Any) -> float:
        raise AssertionError("the bound of the only weights was worked out")

    monkeypatch.setattr(dual_search, "union_bound", judged)
    for products, weights in CASES.values():
        start = [np.arange(1.0, size + 1) for size in products.sizes]
        found, ended = dual_weights_and_end(products, weights, start=start, deadline=Deadline(-math.inf))
        assert ended == "deadline"
        for own, given, kinds in zip(found, start, products.kinds, strict=True):
            assert own == pytest.approx(given / given.sum() if kinds else np.ones(1), rel=ROUNDING)
