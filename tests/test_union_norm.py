"""Lower bounds on nuclear norms of unions of products: never too large, exact or close.

Cases are small enough for a singular value decomposition of the workload itself. What large ones go through,
cuts and resolvents, is forced on them by leaving no room for anything else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.bounds import AxisRoots, dense_axis, union_axes, union_bound, union_directions, union_norm
from leastnoise.bounds.union_directions import norm_by_resolvents, sum_of_norms_dense
from leastnoise.bounds.union_norm import union_norm_below
from leastnoise.bounds.union_questions import UnionQuestions
from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.query import Products, Query, products_of
from leastnoise.solver import least_total
from support import refuses
from tolerances import ROUNDING, SOLVER

# A bound that is lost in less than this share of F moves no decision: gaps of plans are printed to 0.1 %.
CLOSE = 1e-3

# Resolvents take off what rounding may have added, about 1e-10 for every direction that products share.
RESOLVENT = 1e-8

# (directions that are decomposed together, operations of resolvents)
WHOLE = (1_500, 4e9)
LITTLE_ROOM = {"decomposed": (16, 0.0), "inverted": (1, 1e6)}


@pytest.fixture(params=LITTLE_ROOM)
def little_room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_room(monkeypatch, *LITTLE_ROOM[request.param])


def leave_room(monkeypatch: pytest.MonkeyPatch, together: int, work: float) -> None:
    monkeypatch.setattr(union_norm, "_MAX_DECOMPOSED", together)
    monkeypatch.setattr(union_norm, "_MAX_OPERATIONS", work)
    monkeypatch.setattr(union_norm, "_MAX_DECOMPOSED_OF_MANY", together)
    monkeypatch.setattr(union_norm, "_MIN_OPERATIONS", work)
    monkeypatch.setattr(union_norm, "_FEW_WEIGHTS", 4 if work else 0)


def union(queries: Sequence[Query], **sizes: Any) -> Products:
    schema = ln.Schema(
        **{name: range(size) if isinstance(size, int) else size for name, size in sizes.items()}
    )
    products = products_of(ln.assemble(queries, schema))
    assert products is not None
    return products


def crossed(queries: Sequence[Query], *orders: int) -> list[Query]:
    found = []
    for order in orders:
        for chosen in combinations(queries, order):
            query = chosen[0]
            for other in chosen[1:]:
                query = query * other
            found.append(query)
    return found


def exact_norm(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    rows: Mapping[tuple[int, int], Array] | None = None,
) -> float:
    """F from the matrix of all queries and cells."""
    blocks = []
    for term, weight in zip(products.terms, weights, strict=True):
        kinds = dict(zip(term.places, term.kinds, strict=True))
        block = np.full((1, 1), math.sqrt(weight))
        for a, own in enumerate(q):
            factor = np.ones((1, len(own)))
            if a in kinds:
                factor = products.kinds[a][kinds[a]].operator.dense()
                if rows and (a, kinds[a]) in rows:
                    factor = np.sqrt(rows[a, kinds[a]])[:, None] * factor
            block = np.kron(block, factor * np.sqrt(own))
        blocks.append(block)
    return float(np.linalg.svd(np.concatenate(blocks), compute_uv=False).sum())


def equal(products: Products) -> list[Array]:
    return [np.ones(size) for size in products.sizes]


def solved(products: Products) -> list[Array]:
    """Weights of every axis from a certified problem of its own: all its questions, and the total."""
    found = []
    for kinds, n in zip(products.kinds, products.sizes, strict=True):
        V = sum((kind.gram / np.trace(kind.gram) for kind in kinds), np.full((n, n), 0.3 / n))
        values, E = np.linalg.eigh(V)
        strong = values > 1e-10 * values[-1]
        R = np.sqrt(values[strong])[:, None] * E[:, strong].T
        found.append(least_total(R, tol=SOLVER).q)
    return found


P, M, R = ln.Prefix, ln.Marginal, ln.AllRanges
TREE = {"x": {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}, "y": {"c": ["c1", "c2", "c3", "c4"]}}

CASES: dict[str, Products] = {
    "1-way prefix": union(crossed([P("a"), P("b")], 1), a=16, b=12),
    "2-way of three kinds": union(crossed([R("a"), M("b"), P("c")], 2), a=10, b=5, c=6),
    "prefix and identity": union(crossed([P("a"), M("b")], 1, 2), a=30, b=8),
    "1- and 2-way prefix": union(crossed([P("a"), P("b"), P("c")], 1, 2), a=8, b=8, c=8),
    "1- to 3-way prefix": union(crossed([P("a"), P("b"), P("c")], 1, 2, 3), a=6, b=6, c=6),
    "marginal and prefix": union([M("a", "b"), P("a")], a=24, b=6),
    "identity and prefix": union([M("a", "b"), P("a"), P("a") * P("b"), P("b")], a=20, b=12),
    "three kinds of one axis": union(
        [M("a", "b"), P("a") * M("c"), P("b") * P("c"), M("a"), R("b") * M("a")], a=7, b=8, c=6
    ),
    "prefix and ranges": union([P("a") * M("b"), R("a"), P("b") * R("a"), M("b")], a=16, b=12),
    "never a total": union([P("a") * P("b"), M("a") * M("b")], a=16, b=12),
    "levels": union(
        [ln.Levels("g") * M("b"), ln.Levels("g"), P("b"), ln.Levels("g") * P("b")], g=ln.Hierarchy(TREE), b=10
    ),
}
WEIGHTS_OF_CELLS = {"equal": equal, "solved": solved}


@pytest.mark.thorough
@pytest.mark.parametrize("cells", WEIGHTS_OF_CELLS)
@pytest.mark.parametrize("case", CASES)
def test_small_unions_are_exact(case: str, cells: str) -> None:
    products = CASES[case]
    q, w = WEIGHTS_OF_CELLS[cells](products), np.ones(len(products.terms))
    assert union_norm_below(products, w, q) == pytest.approx(exact_norm(products, w, q), rel=ROUNDING)


@pytest.mark.thorough
@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("cells", WEIGHTS_OF_CELLS)
@pytest.mark.parametrize("case", CASES)
def test_cuts_lose_little(case: str, cells: str) -> None:
    products = CASES[case]
    q, w = WEIGHTS_OF_CELLS[cells](products), np.ones(len(products.terms))
    F = exact_norm(products, w, q)
    assert (1 - 2 * CLOSE) * F <= union_norm_below(products, w, q) <= (1 + ROUNDING) * F


def test_products_are_the_rows_of_the_workload() -> None:
    schema = ln.Schema(a=range(6), b=range(4))
    workload = ln.assemble([P("a") * M("b"), R("b"), M("a")], schema)
    products = products_of(workload)
    assert products is not None
    q = np.kron(np.arange(1.0, 7), np.arange(4.0))
    F = np.linalg.svd(workload.dense() * np.sqrt(q), compute_uv=False).sum()
    found = union_norm_below(products, np.ones(3), [np.arange(1.0, 7), np.arange(4.0)])
    assert found == pytest.approx(F, rel=ROUNDING)


# Random unions: what is asked of each axis by each product, and weights of everything, zeros included.

KINDS = {"prefix": P, "ranges": R, "plain": M}
weight = st.one_of(st.just(0.0), st.floats(0.01, 100))


@st.composite
def unions(draw: st.DrawFn) -> tuple[Products, Array, list[Array], dict[tuple[int, int], Array]]:
    sizes = draw(st.lists(st.integers(2, 6), min_size=1, max_size=3))
    names = "abc"[: len(sizes)]
    asked = draw(
        st.lists(
            st.tuples(*(st.sampled_from(["total", *KINDS]) for _ in names)),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    queries: list[Query] = []
    for kinds in asked:
        factors = [KINDS[kind](name) for name, kind in zip(names, kinds, strict=True) if kind != "total"]
        queries += crossed(factors, len(factors)) if factors else [ln.Total()]
    products = union(queries, **dict(zip(names, sizes, strict=True)))

    def numbers(count: int) -> Array:
        return np.array(draw(st.lists(weight, min_size=count, max_size=count)))

    rows = {
        (a, kind): numbers(block.n_rows)
        for a, kinds_of_axis in enumerate(products.kinds)
        for kind, block in enumerate(kinds_of_axis)
        if draw(st.booleans())
    }
    return products, numbers(len(products.terms)), [numbers(size) for size in products.sizes], rows


@pytest.mark.thorough
@given(unions())
def test_random_unions_are_exact(
    case: tuple[Products, Array, list[Array], dict[tuple[int, int], Array]],
) -> None:
    products, w, q, rows = case
    F = exact_norm(products, w, q, rows)
    assert (1 - SOLVER) * F <= union_norm_below(products, w, q, rows) <= (1 + ROUNDING) * F


@pytest.mark.thorough
@pytest.mark.parametrize("room", LITTLE_ROOM)
@given(case=unions())
def test_no_cut_exceeds_the_norm(
    room: str, case: tuple[Products, Array, list[Array], dict[tuple[int, int], Array]]
) -> None:
    products, w, q, rows = case
    F = exact_norm(products, w, q, rows)
    together, work = LITTLE_ROOM[room]
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_room(monkeypatch, min(together, 4), work / 100)
        found = union_norm_below(products, w, q, rows)
    # With one or two directions left of every axis, and weights that differ ten-thousandfold.
    assert 0.8 * F <= found <= (1 + ROUNDING) * F


# Broken twins: each must be caught by the comparison with F.

TWIN_CASES = ["1- and 2-way prefix", "identity and prefix"]


def excess(case: str) -> float:
    """By what share the bound exceeds F, with little room."""
    products = CASES[case]
    q, w = solved(products), np.ones(len(products.terms))
    return union_norm_below(products, w, q) / exact_norm(products, w, q) - 1


def root_of(K: Array) -> Array:
    values, E = np.linalg.eigh(K)
    return (E * np.sqrt(np.maximum(values, 0))) @ E.T


def cut_above(self: AxisRoots, kept: int) -> tuple[AxisRoots, Array]:
    """A cut of the matrices K in place of their roots, which raises a norm."""
    first = tuple(root_of(K[:kept, :kept]) for K in self.grams)
    rest = [root_of(K[kept:, kept:]) for K in self.grams]
    others = union_axes.diagonals(rest) if kept < self.size else self.loose[:0]
    return AxisRoots(first, self.loose[:0]), np.concatenate([self.loose, others])


@pytest.mark.thorough
@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("case", TWIN_CASES)
def test_cutting_the_matrices_in_place_of_their_roots_is_caught(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert excess(case) < ROUNDING
    monkeypatch.setattr(AxisRoots, "cut", cut_above)
    assert excess(case) > SOLVER


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("case", TWIN_CASES)
def test_counting_directions_twice_is_caught(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = AxisRoots.cut

    def cut(self: AxisRoots, kept: int) -> tuple[AxisRoots, Array]:
        # The others overlap with the first ones by a direction: they are not orthogonal to them.
        first, _ = original(self, kept)
        return first, original(self, kept - 1)[1] if 1 < kept < self.size else original(self, kept)[1]

    monkeypatch.setattr(AxisRoots, "cut", cut)
    assert excess(case) > SOLVER


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("case", TWIN_CASES)
def test_axes_before_must_stay_in_their_first_directions(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simplified, within = union_norm._simplified, union_norm._within
    whole: dict[int, AxisRoots] = {}

    def remember(axes: Mapping[int, AxisRoots], *rest: Any) -> Any:
        whole.update({a: axis for a, axis in axes.items() if a not in whole or axis.size > whole[a].size})
        return simplified(axes, *rest)

    def anywhere(axes: Mapping[int, AxisRoots], *rest: Any) -> float:
        return within({a: whole[a] for a in axes}, *rest)

    monkeypatch.setattr(union_norm, "_simplified", remember)
    monkeypatch.setattr(union_norm, "_within", anywhere)
    assert excess(case) > SOLVER


# Where the bound must be F itself.


def test_one_axis_is_exact_whatever_is_asked() -> None:
    products = union([P("a"), R("a"), M("a"), ln.Total()], a=40, b=3)
    q, w = [np.linspace(0, 1, 40) ** 2, np.ones(3)], np.array([1.0, 0.5, 3.0, 20.0])
    assert union_norm_below(products, w, q) == pytest.approx(exact_norm(products, w, q), rel=ROUNDING)


@pytest.mark.parametrize("seed", range(12))
def test_a_large_axis_beside_plain_ones_is_decomposed_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond 1,500 values it was cut to a few directions, which lost 2.2 % over 45 by 45 combinations."""
    rng = np.random.default_rng(seed)
    every = [P("a") * M("b"), R("a") * M("c"), M("a") * M("b", "c"), P("a"), M("b"), M("a"), ln.Total()]
    chosen = [every[i] for i in rng.permutation(len(every))[: int(rng.integers(2, 6))]]
    products = union([P("a"), *chosen], a=9, b=3, c=4)
    w = 10.0 ** rng.uniform(-1, 1, len(products.terms))
    q = [
        np.ones(size) if axis.names != ("a",) else rng.uniform(0, 1, size) * (rng.random(size) < 0.8)
        for axis, size in zip(products.axes, products.sizes, strict=True)
    ]
    q[0][0] = 1.0
    exact = exact_norm(products, w, q)
    monkeypatch.setattr(union_norm, "_MAX_DECOMPOSED", 4)
    assert union_norm_below(products, w, q) == pytest.approx(exact, rel=ROUNDING)
    # A twin that counts the total with no product is told apart wherever some product sums the axis up.
    whole = UnionQuestions.norm_of_kinds
    monkeypatch.setattr(
        UnionQuestions, "norm_of_kinds", lambda self, a, kinds, total: whole(self, a, kinds, 0.0)
    )
    if any(0 not in term.places for term in products.terms):
        assert union_norm_below(products, w, q) < exact * (1 - SOLVER)


@pytest.mark.usefixtures("little_room")
def test_axes_that_all_products_ask_alike_factor_out() -> None:
    # Also where the total comes with the rest in one proportion: (2 V_b + 3·11ᵀ) on axis b.
    products = union([P("a") * P("b") * M("c"), P("a") * M("c")], a=7, b=5, c=4)
    q = [np.arange(1.0, 8), np.arange(5.0), np.arange(1.0, 5)]
    w = np.array([2.0, 3.0])
    assert union_norm_below(products, w, q) == pytest.approx(exact_norm(products, w, q), rel=ROUNDING)


@pytest.mark.usefixtures("little_room")
def test_kinds_that_always_come_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    products = union([P("a") * M("b"), R("a") * M("b"), P("a"), R("a")], a=9, b=6)
    q, w = [np.arange(1.0, 10), np.arange(1.0, 7)], np.array([1.0, 4.0, 0.5, 2.0])
    assert union_norm_below(products, w, q) == pytest.approx(exact_norm(products, w, q), rel=RESOLVENT)
    # In other proportions they are two, and taking them for one is caught.
    w = np.array([1.0, 4.0, 2.0, 0.5])
    F = exact_norm(products, w, q)
    assert union_norm_below(products, w, q) < (1 + ROUNDING) * F

    def careless(weights: dict[Any, float], reference: dict[Any, float]) -> float:
        return max(weights[asked] / reference[asked] for asked in weights)

    monkeypatch.setattr("leastnoise.bounds.union_questions._proportion", careless)
    assert union_norm_below(products, w, q) > (1 + SOLVER) * F


def test_marginals_have_a_closed_form_and_the_general_route_agrees() -> None:
    products = union([ln.Cube("a", "b", "c", "d", order=3)], a=2, b=3, c=4, d=5)
    rng = np.random.default_rng(5)
    w, q = rng.random(len(products.terms)), equal(products)
    q[3][1] = 0
    found = union_norm_below(products, w, q)
    assert found == pytest.approx(exact_norm(products, w, q), rel=ROUNDING)
    ones = {(0, 0): np.ones(2)}
    assert union_norm_below(products, w, q, ones) == pytest.approx(found, rel=ROUNDING)


@pytest.mark.thorough
def test_166751_marginals_take_less_than_a_second() -> None:
    names = [f"x{i}" for i in range(100)]
    products = union([ln.Cube(*names, order=3)], **dict.fromkeys(names, 10))
    q, w = [np.full(10, 0.1)] * 100, np.ones(len(products.terms))
    assert len(w) == 166_751
    start = time.process_time()
    found = union_norm_below(products, w, q)
    assert time.process_time() - start < 1
    # By hand: Σ_k C(100, k) (9/√10)^k (Σ_j C(100 − k, j) 10^−j over j ≤ 3 − k)^½.
    by_hand = math.fsum(
        math.comb(100, k)
        * (9 / math.sqrt(10)) ** k
        * math.sqrt(sum(math.comb(100 - k, j) / 10**j for j in range(4 - k)))
        for k in range(4)
    )
    assert found == pytest.approx(by_hand, rel=ROUNDING)


def test_axes_of_plain_counts_are_never_squared() -> None:
    # 40,000² numbers would be 12 GiB. With all weights equal an axis of 4 stands for it, but for its size.
    def norm(n: int) -> float:
        products = union([M("a", "b"), P("c") * M("a"), M("b")], a=n, b=3, c=5)
        return union_norm_below(products, np.ones(3), [np.full(n, 1 / n), np.ones(3), np.arange(1.0, 6)])

    small = union([M("a", "b"), P("c") * M("a"), M("b")], a=4, b=3, c=5)
    q = [np.full(4, 1 / 4), np.ones(3), np.arange(1.0, 6)]
    assert norm(4) == pytest.approx(exact_norm(small, np.ones(3), q), rel=ROUNDING)
    # Only products that mention a see n − 1 further directions; K there is 1/n of what it is without a.
    without = union([M("b"), P("c")], b=3, c=5)
    rest = exact_norm(without, np.ones(2), q[1:])
    total = norm(40_000)
    products = union([M("b"), P("c"), M("b")], b=3, c=5)
    first = exact_norm(products, np.array([1 / 40_000, 1 / 40_000, 1.0]), q[1:])
    assert total == pytest.approx(first + 39_999 / 200 * rest, rel=ROUNDING)


def test_many_different_weights_of_plain_counts_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    products = union([M("a"), P("b"), M("a") * P("b")], a=90, b=4)
    q, w = [np.linspace(1, 2, 90), np.ones(4)], np.ones(3)
    F = exact_norm(products, w, q)
    assert union_norm_below(products, w, q) == pytest.approx(F, rel=ROUNDING)
    monkeypatch.setattr(union_axes, "_MAX_DIRECTIONS", 40)
    assert (1 - 1 / 40) * F < union_norm_below(products, w, q) < (1 - ROUNDING) * F


@pytest.mark.parametrize("case", ["identity and prefix", "prefix and identity"])
def test_axes_beyond_the_limit_keep_a_few_directions(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    products = CASES[case]
    q, w = solved(products), np.ones(len(products.terms))
    F = exact_norm(products, w, q)
    monkeypatch.setattr(union_axes, "_MAX_DIRECTIONS", 10)
    monkeypatch.setattr(union_axes, "_DIRECTIONS_OF_LARGE_AXES", 6)
    monkeypatch.setattr(union_axes, "_GROWN", 3)
    assert (1 - 2 * CLOSE) * F < union_norm_below(products, w, q) < (1 - ROUNDING) * F


# The pieces.


def axes_of(*sizes: int) -> dict[int, AxisRoots]:
    return {a: dense_axis(np.arange(1.0, n + 1), [np.tri(n).T @ np.tri(n)])[0] for a, n in enumerate(sizes)}


def pairs(n_axes: int) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((a, 0) for a in axes) for k in (0, 1, 2) for axes in combinations(range(n_axes), k)]


def test_a_basis_starts_with_the_weights_and_keeps_the_questions() -> None:
    n = 12
    q, V = np.arange(1.0, n + 1), np.tri(n).T @ np.tri(n)
    axis, total = dense_axis(q, [V, np.eye(n)])
    e = np.sqrt(q / q.sum())
    assert total == q.sum()
    for root, gram in zip(axis.roots, (V, np.eye(n)), strict=True):
        K = e[:, None] * gram * e
        assert np.trace(root) == pytest.approx(np.sqrt(np.linalg.eigvalsh(K)).sum(), rel=ROUNDING)
        assert np.linalg.eigvalsh(root.T @ root) == pytest.approx(np.linalg.eigvalsh(K), rel=1e-9)
        # The first direction is e: eᵀ K^k e is the first entry of any power.
        assert (root.T @ root)[0, 0] == pytest.approx(e @ K @ e, rel=ROUNDING)
        assert np.linalg.matrix_power(root.T @ root, 3)[0, 0] == pytest.approx(
            e @ K @ K @ K @ e, rel=ROUNDING
        )


@pytest.mark.parametrize(("kept", "most", "least"), [(1, 4e-2, 3e-2), (2, 4e-3, 3e-3), (4, 3e-5, 2e-5)])
def test_few_directions_hold_almost_everything(
    kept: int, most: float, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The figures that `axes` gives for its choice of directions.
    products = union([P("a"), P("b"), P("c"), P("d")], a=100, b=100, c=100, d=100)
    q, w = equal(products), np.ones(4)
    F = union_norm_below(products, w, q)
    monkeypatch.setattr(union_norm, "_cuts", lambda *_: (np.full(4, float(kept)), False))
    assert least < 1 - union_norm_below(products, w, q) / F < most


def test_one_decomposition_serves_weights_nearby_from_below() -> None:
    axes, terms = axes_of(4, 3, 5), pairs(3)
    rng = np.random.default_rng(3)
    weights = np.exp(0.2 * rng.standard_normal((len(terms), 30)))
    each = math.fsum(sum_of_norms_dense(axes, terms, weights[:, [c]]) for c in range(30))
    assert sum_of_norms_dense(axes, terms, weights, is_exact=True) == pytest.approx(each, rel=ROUNDING)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("leastnoise.bounds.union_directions._RELATIVE_WORK", 0.0)
        few = sum_of_norms_dense(axes, terms, weights)
    assert (1 - 1e-2) * each < few < (1 - ROUNDING) * each


def test_resolvents_agree_with_a_decomposition_and_stay_below() -> None:
    for sizes in ((4, 3, 5), (7, 2), (2, 2, 2, 2)):
        axes, terms = axes_of(*sizes), pairs(len(sizes))
        w = np.logspace(-6, 3, len(terms))
        exact = sum_of_norms_dense(axes, terms, w[:, None])
        assert (1 - RESOLVENT) * exact < norm_by_resolvents(axes, terms, w) < exact


@pytest.mark.parametrize("step", [2.0, 3.0])
def test_a_coarse_rule_stays_below_only_because_its_excess_is_divided_out(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(union_directions, "_STEP", step)
    axes, terms, w = axes_of(2), [((0, 0),), ()], np.array([1.0, 1e-3])
    exact = sum_of_norms_dense(axes, terms, w[:, None])

    def largest_ratio(excess: float) -> float:
        """Over rules that start anywhere within a step: the error is a wave in where they start."""
        monkeypatch.setattr(union_directions, "_EXCESS", excess)
        found = []
        for start in np.exp(np.linspace(0, step, 40)):
            monkeypatch.setattr(union_directions, "_FIRST_SHIFT", 1e-11 * start)
            found.append(norm_by_resolvents(axes, terms, w) / exact)
        return max(found)

    assert largest_ratio(5 * math.exp(-2 * math.pi**2 / step)) < 1 < largest_ratio(0.0)


# Scale.


@pytest.mark.thorough
def test_five_ordered_axes_and_fifteen_others() -> None:
    names = [f"o{i}" for i in range(5)] + [f"c{i}" for i in range(15)]
    queries = [P(name) for name in names[:5]] + [M(name) for name in names[5:]]
    products = union(crossed(queries, 1, 2), **{name: 100 if name[0] == "o" else 10 for name in names})
    q, w = equal(products), np.ones(len(products.terms))
    start = time.process_time()
    found = union_norm_below(products, w, q)
    assert time.process_time() - start < 10
    # The other inequality, with cuts of the matrices in place of their roots, bounds F from above.
    # It loses more.
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(AxisRoots, "cut", cut_above)
        above = union_norm_below(products, w, q)
    assert (1 - 5 * CLOSE) * above < found < (1 + SOLVER) * above


# Invariances and refusals.


def test_the_variance_bound_does_not_depend_on_units() -> None:
    products = CASES["prefix and ranges"]
    q, w = solved(products), np.ones(len(products.terms))
    F = union_norm_below(products, w, q)
    scaled = [1e-30 * q[0], 1e20 * q[1]]
    assert union_norm_below(products, 9 * w, scaled) == pytest.approx(3e-5 * F, rel=ROUNDING)
    assert union_bound(products, w, scaled) == pytest.approx(union_bound(products, w, q), rel=ROUNDING)
    assert union_bound(products, w, q) == pytest.approx(F**2 / (q[0].sum() * q[1].sum()), rel=ROUNDING)


def test_nothing_asked_or_nobody_counted_is_zero() -> None:
    products = CASES["1-way prefix"]
    assert union_norm_below(products, np.zeros(2), equal(products)) == 0
    assert union_bound(products, np.ones(2), [np.ones(16), np.zeros(12)]) == 0


def test_too_many_axes_in_one_product_are_refused_before_they_are_listed() -> None:
    names = [f"x{i}" for i in range(24)]
    one = crossed([P(name) for name in names], 24)
    products = union([*one, P("x0")], **dict.fromkeys(names, 3))
    with refuses(TooLargeError, "workload", 8388609, "Cross fewer attributes in one query"):
        union_norm_below(products, np.ones(2), equal(products))
    # By itself it is a product of norms.
    alone = union(one, **dict.fromkeys(names, 3))
    one_axis = np.linalg.svd(np.tri(3), compute_uv=False).sum()
    assert union_norm_below(alone, np.ones(1), equal(alone)) == pytest.approx(one_axis**24, rel=ROUNDING)


@pytest.mark.parametrize(
    ("w", "q", "rows", "says"),
    [
        (np.ones(3), [np.ones(16), np.ones(12)], {}, "2 products of 2 attributes needs a weight of each"),
        (np.ones(2), [np.ones(16)], {}, "got 2 and 1"),
        (np.ones(2), [np.ones(16), np.ones(11)], {}, "the weights of b must be 12 numbers, got 11"),
        (np.ones(2), [np.ones(16), np.ones(12)], {(1, 0): np.ones(5)}, "a block of 12 queries of b needs"),
        (np.ones(2), [np.ones(16), -np.ones(12)], {}, "must be finite, zero or more"),
        (np.array([1, np.nan]), [np.ones(16), np.ones(12)], {}, "must be finite, zero or more"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    w: Array, q: list[Array], rows: dict[tuple[int, int], Array], says: str
) -> None:
    with refuses(DesignError, "weights", ..., says):
        union_norm_below(CASES["1-way prefix"], w, q, rows)
