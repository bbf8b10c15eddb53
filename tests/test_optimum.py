"""Unions of products with a shared axis: the blocks of the solver, and plans against the dense optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.operators import Array
from leastnoise.planning.families import shared_products
from leastnoise.query import Query, Workload
from leastnoise.solver import Columns, Optimum, least_total, load_backend
from support import extra
from tolerances import ROUNDING, SOLVER

# Blocks that share their weights ----------------------------------------------------------------


def drawn_blocks(seed: int) -> list[Array]:
    """Up to six blocks over the same cells, some of one shape, of sizes over three decades."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    sizes = rng.integers(1, n + 1, size=int(rng.integers(1, 4)))
    heights = rng.choice(sizes, size=int(rng.integers(1, 7)))
    blocks = [10.0 ** rng.uniform(-1.5, 1.5) * rng.normal(size=(int(k), n)) for k in heights]
    return [np.eye(n), *blocks] if rng.random() < 0.3 else blocks


def is_proved(found: Optimum, blocks: list[Array]) -> bool:
    """Both sides from the blocks, the roots and q alone."""
    profile = sum((root**2).sum(axis=0) for root in found.roots)
    achieved = sum(
        float(np.linalg.norm(R @ np.linalg.pinv(root)) ** 2)
        for R, root in zip(blocks, found.roots, strict=True)
    )
    norms = [np.linalg.svd(R * np.sqrt(found.q), compute_uv=False).sum() for R in blocks]
    bound = float(sum(norms)) ** 2 / float(found.q.sum())
    agrees = abs(achieved / found.achieved - 1) < 1e-9 and abs(bound / found.lower_bound - 1) < 1e-9
    return bool(profile.max() <= 1 + ROUNDING and agrees and achieved <= (1 + SOLVER) * bound)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_that_share_weights_reach_their_optimum(seed: int) -> None:
    blocks = drawn_blocks(seed)
    found = least_total(Columns(blocks), tol=SOLVER)
    assert is_proved(found, blocks)
    # A twin whose first block is measured a little less.
    found.roots[0][:] *= 0.999
    assert not is_proved(found, blocks)


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_of_blocks_are_those_of_their_sum(seed: int) -> None:
    blocks = drawn_blocks(seed)
    n = blocks[0].shape[1]
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.5, 2, n)
    point = Columns(blocks).evaluate(q)

    def profile(weights: Array) -> Array:
        """Of noise of covariance (R diag(q) Rᵀ)^½ in every block."""
        total = np.zeros(n)
        for R in blocks:
            values, vectors = np.linalg.eigh((R * weights) @ R.T)
            total += ((vectors.T @ R) ** 2 / np.sqrt(values)[:, None]).sum(axis=0)
        return total

    assert point.u == pytest.approx(profile(point.q), rel=1e-7)
    for i in range(n):
        unit = np.eye(n)[i]
        step = 1e-5 * point.q[i]
        change = (profile(point.q + step * unit) - profile(point.q - step * unit)) / (2 * step)
        assert point.hessian_product(unit) == pytest.approx(-change, rel=1e-5, abs=1e-7)
        assert point.hessian_diagonal()[i] == pytest.approx(point.hessian_product(unit)[i], rel=1e-9)
    G = point.hessian_root()
    assert G is not None and (G.T @ G)[0] == pytest.approx(point.hessian_product(np.eye(n)[0]), rel=1e-7)
    # Noise to first order is that of the changed weights to second.
    errors = []
    for size in (1e-2, 1e-3):
        moved = point.moved(size * point.q * np.linspace(-1, 1, n))
        assert moved is not None
        errors.append(np.abs(moved.u - profile(point.q * (1 + size * np.linspace(-1, 1, n)))).max())
    assert errors[1] <= errors[0] / 50 + 1e-9


def test_a_block_that_counts_often_is_one_that_is_larger() -> None:
    """Three equal blocks, or one nine times as large in its Gram matrix."""
    rng = np.random.default_rng(1)
    R, other = rng.normal(size=(4, 6)), rng.normal(size=(6, 6))
    thrice = least_total(Columns([R, R, R, other]), tol=SOLVER)
    once = least_total(Columns([3 * R, other]), tol=SOLVER)
    assert thrice.achieved == pytest.approx(once.achieved, rel=2 * SOLVER)
    assert once.achieved != pytest.approx(least_total(Columns([R, other]), tol=SOLVER).achieved, rel=1e-2)


def test_weak_blocks_keep_their_digits() -> None:
    """One of two equal shapes has directions that squares would lose."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    blocks = [np.geomspace(1, 1e-8, 5)[:, None] * turn, rng.normal(size=(5, 5))]
    assert is_proved(least_total(Columns(blocks), tol=SOLVER), blocks)


def test_blocks_on_torch_agree_with_numpy() -> None:
    extra("torch")
    for seed in range(6):
        blocks = drawn_blocks(seed)
        here = least_total(Columns(blocks), tol=1e-8)
        there = least_total(Columns(blocks, load_backend("torch")), tol=1e-8)
        assert there.achieved == pytest.approx(here.achieved, rel=3e-8)
        assert is_proved(there, blocks)


def test_blocks_in_order_start_from_a_coarser_problem() -> None:
    n = 300
    blocks = [np.tril(np.ones((n, n))), np.triu(np.ones((n, n))) * np.linspace(1, 2, n)]
    cells = Columns(blocks)
    assert cells.halves() is not None and Columns([R[:, ::-1] for R in blocks]).halves() is not None
    assert Columns([np.eye(n), *blocks]).halves() is not None
    order = np.random.default_rng(3).permutation(n)
    assert Columns([R[:, order] for R in blocks]).halves() is None
    assert is_proved(least_total(cells, tol=SOLVER), blocks)


# Plans ----------------------------------------------------------------------------------------------


def drawn_union(seed: int) -> Workload:
    """Products over some of four small attributes, of which one or two are asked value by value only."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, size=4).tolist()
    names = "abcd"
    plain = set(rng.choice(list(names), size=int(rng.integers(1, 3)), replace=False).tolist())
    schema = ln.Schema(**{name: range(size) for name, size in zip(names, sizes, strict=True)})

    def rows(name: str) -> Query:
        size = sizes[names.index(name)]
        if name in plain:
            return ln.Marginal(name)
        pairs = ln.Ranges(name, [(i, i + 1) for i in range(size - 1)])
        every = (ln.Marginal(name), ln.Prefix(name), ln.AllRanges(name), pairs)
        return every[int(rng.integers(4))]

    queries: list[Query] = [ln.Total()] if rng.random() < 0.3 else []
    for _ in range(int(rng.integers(2, 5))):
        own = rng.choice(list(names), size=int(rng.integers(1, 4)), replace=False).tolist()
        query = rows(own[0])
        for name in own[1:]:
            query = query * rows(name)
        queries.append(query.having(weight=float(10.0 ** rng.uniform(-1, 1))))
    if rng.random() < 0.3:
        # An attribute that all of them ask alike.
        schema = ln.Schema(**{name: range(size) for name, size in zip(names, sizes, strict=True)}, e=range(3))
        queries = [ln.Prefix("e") if isinstance(q, ln.Total) else q * ln.Prefix("e") for q in queries]
    return ln.assemble(queries, schema)


def is_the_optimum(seed: int) -> bool:
    """Whether a drawn union has the optimum of the dense method; True too where it is of another kind."""
    workload = drawn_union(seed)
    judge = ln.design(workload, ln.GDP(1), method="dense", tol=1e-8).certificate
    plan = ln.design(workload, ln.GDP(1), method="residuals", tol=1e-7)
    found: Any = plan.certificate
    is_sound = found.lower_bound <= judge.achieved * (1 + 1e-8)
    is_possible = judge.lower_bound <= found.achieved * (1 + 1e-8)
    if "one matrix over" not in plan.note:
        return bool(is_sound and is_possible)
    again = ln.certify(workload, plan)
    is_same = abs(again.lower_bound / found.lower_bound - 1) < 1e-9
    return bool(is_sound and is_possible and is_same and found.gap <= 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_plan_is_the_dense_optimum(seed: int) -> None:
    assert is_the_optimum(seed)


@pytest.mark.thorough
def test_hundreds_of_plans_are_the_dense_optimum() -> None:
    assert [seed for seed in range(300) if not is_the_optimum(seed)] == []


def is_the_optimum_under_caps(seed: int) -> bool:
    """The same with caps over two decades: the largest variance, and the total within targets."""
    rng = np.random.default_rng(seed)
    drawn = drawn_union(seed)
    queries = [block.query for block in drawn.blocks]
    is_within = bool(rng.integers(2))
    has_target = rng.random(len(queries)) < (0.6 if is_within else 1.0)
    has_target[0] = True
    asked = [
        query.having(weight=1.0, stderr=float(10.0 ** rng.uniform(0, 1))) if has else query.having(weight=1.0)
        for query, has in zip(queries, has_target.tolist(), strict=True)
    ]
    workload = ln.assemble(asked, drawn.schema)
    objective = ln.Targets() if has_target.all() else None
    goal = ln.GDP(1)
    if is_within or objective is None:
        # Targets that can be kept, with little room or much.
        alone = ln.assemble(
            [q for q, has in zip(asked, has_target.tolist(), strict=True) if has], drawn.schema
        )
        least = ln.design(alone, objective=ln.Targets(), method="dense").mu
        assert least is not None
        goal, objective = (
            ln.GDP(least * float(10.0 ** rng.uniform(1e-3, 0.7))),
            ln.TotalVariance(within_targets=True),
        )
    judge = ln.design(workload, goal, objective=objective, method="dense", tol=1e-7).certificate
    plan = ln.design(workload, goal, objective=objective, method="residuals", tol=1e-6)
    found = plan.certificate
    is_sound = found.lower_bound <= judge.achieved * (1 + 1e-8)
    is_possible = judge.lower_bound <= found.achieved * (1 + 1e-8)
    is_near = "interior-point" not in plan.note or found.gap <= 1e-5
    return bool(is_sound and is_possible and is_near)


@pytest.mark.parametrize("seed", range(8))
def test_the_plan_under_caps_is_the_dense_optimum(seed: int) -> None:
    assert is_the_optimum_under_caps(seed)


@pytest.mark.thorough
def test_hundreds_of_plans_under_caps_are_the_dense_optimum() -> None:
    assert [seed for seed in range(200) if not is_the_optimum_under_caps(seed)] == []


def test_what_is_too_large_is_left_to_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = ln.Schema(a=range(6), b=range(5), c=range(3))
    queries: list[Query] = [ln.Prefix("a") * ln.Marginal("c"), ln.Prefix("b"), ln.AllRanges("a")]
    workload = ln.assemble(queries, schema)
    exact = ln.design(workload, ln.GDP(1), method="residuals")
    assert "one matrix over a and b" in exact.note and exact.certificate.gap <= 1e-6
    monkeypatch.setattr(shared_products, "MAX_KINDS", 29)
    split = ln.design(workload, ln.GDP(1), method="residuals")
    assert "oblique residuals" in split.note
    assert exact.certificate.lower_bound <= split.certificate.achieved * (1 + ROUNDING)
    assert split.certificate.lower_bound <= exact.certificate.achieved * (1 + ROUNDING)


def test_values_that_serve_nearly_alike_do_not_keep_the_search_busy() -> None:
    """A mean: all values but its two ends lose their weight, slowly. Newton's method stopped 1.9 % short."""
    schema = ln.Schema(month=range(24), region=range(4), sex=range(2), age=range(7), nights=range(31))
    asked = [
        ln.Prefix("month"),
        ln.Marginal("month", "region", "sex"),
        ln.Marginal("age", "sex", "region"),
        ln.Mean("nights", expected=5000),
    ]
    plan = ln.design(ln.assemble(asked, schema), ln.ApproxDP(1, 1e-6), method="residuals")
    assert plan.certificate.status == "optimal" and plan.certificate.gap <= 1e-6
