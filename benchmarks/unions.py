"""Unions of products: grids, census tables, random blocks, targets, each with the bound that its plan has.

    python benchmarks/unions.py                          every row, ten draws each; hours on two cores
    python benchmarks/unions.py --only strips --most 64  rows of one name, up to a size
    python benchmarks/unions.py --only blocks --seeds 10 ten draws of a random workload, the worst reported
    python benchmarks/unions.py --only tight --seeds 10  ten draws of crossing tables within tight targets
    python benchmarks/unions.py --only strips --most 512 --backend cuda
    python benchmarks/unions.py --only census-optimum    the optimum of the census tables, by their symmetry

A row is a workload from a generator of this file; random ones take a seed. `above` is the total variance
above the proved bound (or the largest variance, or μ² of targets), by `design` with the method given, "auto"
unless another is. Rows of targets are compared with the dense optimum instead, which takes minutes for each.
Random conditions, polygons and cell sets are in few_columns.py. Seconds are those of the process, all threads
together.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

import leastnoise as ln
from leastnoise.query import products_of


def grid(n: int, *more: int) -> ln.Schema:
    """x and y of n values each, and further attributes of these sizes."""
    return ln.Schema(x=range(n), y=range(n), **{f"z{i}": range(size) for i, size in enumerate(more)})


def strips(n: int, seed: int = 0) -> ln.Workload:
    """Running sums along x for every y, and along y for every x: P ⊗ I + I ⊗ P."""
    along = [ln.Prefix("x") * ln.Marginal("y"), ln.Marginal("x") * ln.Prefix("y")]
    return ln.assemble(along, grid(n))


def windows(n: int, seed: int = 0) -> ln.Workload:
    """Sums of 4 neighbouring cells in both directions."""
    own = [(a, a + 3) for a in range(n - 3)]
    along = [ln.Ranges("x", own) * ln.Marginal("y"), ln.Marginal("x") * ln.Ranges("y", own)]
    return ln.assemble(along, grid(n))


def quadtree(n: int, seed: int = 0) -> ln.Workload:
    """Squares of side 1, 2, 4, … n/2, without the whole."""
    tiles = [[(a, a + 2**k - 1) for a in range(0, n, 2**k)] for k in range(n.bit_length() - 1)]
    return ln.assemble([ln.Ranges("x", own) * ln.Ranges("y", own) for own in tiles], grid(n))


def strips3(n: int, seed: int = 0) -> ln.Workload:
    """Running sums along each of three axes, n by n by 4, for all values of the other two."""
    names = ("x", "y", "z0")
    queries = []
    for along in names:
        others = ln.Marginal(*(name for name in names if name != along))
        queries.append(ln.Prefix(along) * others)
    return ln.assemble(queries, grid(n, 4))


def census(n: int, seed: int = 0) -> ln.Workload:
    """Tables like those of a census summary file: 116 ages, 2 sexes, 64 races, 33 households."""
    races = ln.Hierarchy({f"g{g}": [f"r{g}{i}" for i in range(8)] for g in range(8)})
    schema = ln.Schema(age=range(116), sex=("F", "M"), race=races, household=range(33))
    five = [(a, min(a + 4, 115)) for a in range(0, 116, 5)]
    stages = [(0, 4), (5, 17), (18, 24), (25, 64), (65, 115)]
    M = ln.Marginal
    queries: list[ln.Query] = [
        ln.Total(),
        ln.Prefix("age") * M("sex"),
        M("age"),
        ln.Levels("race"),
        M("sex") * ln.Levels("race"),
        ln.Ranges("age", five) * M("sex", "race"),
        ln.Where("age >= 18") * M("race"),
        M("household"),
        ln.Ranges("age", stages) * M("household"),
        ln.Prefix("household") * M("sex"),
        ln.Where("age < 18") * M("household"),
        M("race", "sex", "household"),
    ]
    return ln.assemble(queries, schema)


def blocks(n: int, seed: int = 0) -> ln.Workload:
    """n random products over 6 attributes of 4 to 10 values: each crosses 2 or 3 of them."""
    rng = np.random.default_rng([2026, seed])
    sizes = rng.integers(4, 11, size=6).tolist()
    schema = ln.Schema(**{f"a{i}": range(size) for i, size in enumerate(sizes)})

    def rows(i: int) -> ln.Query:
        name, size = f"a{i}", sizes[i]
        kind = int(rng.integers(4))
        if kind == 0:
            return ln.Marginal(name)
        if kind == 1:
            return ln.Prefix(name)
        if kind == 2:
            return ln.AllRanges(name)
        return ln.Ranges(name, [(a, a + 1) for a in range(size - 1)])

    queries = []
    for _ in range(n):
        chosen = sorted(rng.choice(6, size=int(rng.integers(2, 4)), replace=False).tolist())
        query = rows(chosen[0])
        for i in chosen[1:]:
            query = query * rows(i)
        queries.append(query)
    return ln.assemble(queries, schema)


def kinds(n: int, seed: int = 0) -> ln.Workload:
    """Running sums, ranges, groups and values of n and 30 values, crossed with three other attributes."""
    schema = ln.Schema(a=range(n), b=range(30), c=range(20), d=range(2), e=range(8))
    groups = ln.Ranges("b", [(10 * i, 10 * i + 9) for i in range(3)])
    queries = [
        ln.Prefix("a") * ln.Marginal("d"),
        ln.Marginal("a") * ln.Marginal("e"),
        ln.AllRanges("a"),
        ln.Marginal("a") * ln.Prefix("b"),
        ln.Marginal("b", "d", "e"),
        groups * ln.Marginal("d", "e"),
        ln.Total(),
    ]
    return ln.assemble(queries, schema)


def monthly(n: int, seed: int = 0) -> ln.Workload:
    """n months of cases: tables of region, sex, age and income, a mean, and months within a target."""
    schema = ln.Schema(
        month=range(n), region=range(4), sex=("F", "M"), age=range(7), income=range(5), value=range(31)
    )
    queries = [
        ln.Marginal("month", "region"),
        ln.Marginal("month", "sex"),
        ln.Marginal("age", "income"),
        ln.Mean("value", by=("age",)),
        ln.Marginal("month").having(within=(2.8, 0.95)),
    ]
    return ln.assemble(queries, schema)


@dataclass(frozen=True)
class Row:
    """A workload, its sizes, and the gap that is asked of it, in per cent."""

    make: Callable[[int, int], ln.Workload]
    sizes: tuple[int, ...]
    most: float
    is_random: bool = False


ROWS = {
    "strips": Row(strips, (64, 256, 512), 0.5),
    "windows": Row(windows, (128,), 0.5),
    "quadtree": Row(quadtree, (64, 256), 0.1),
    "strips3": Row(strips3, (32, 64, 128), 1.0),
    "census": Row(census, (489_984,), 2.0),
    "kinds": Row(kinds, (40,), 1e-4),
    "monthly": Row(monthly, (60,), 1e-4),
    "blocks": Row(blocks, (8,), 2.0, is_random=True),
}


def crossing_tables(seed: int) -> ln.Workload:
    """Tables of two of three attributes, and some of one, with targets and weights of their own."""
    rng = np.random.default_rng(1000 + seed)
    schema = ln.Schema(**{name: range(int(rng.integers(3, 9))) for name in "abc"})
    kinds = (ln.Marginal, ln.Prefix, ln.AllRanges)
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    chosen: list[tuple[str, ...]] = [pairs[i] for i in rng.permutation(3)[: 2 + int(rng.integers(2))]]
    chosen += [(name,) for name in "abc" if rng.random() < 0.4]
    queries = []
    for names in chosen:
        query: ln.Query = kinds[rng.integers(3)](names[0])
        for name in names[1:]:
            query = query * kinds[rng.integers(3)](name)
        stderr, weight = 3 * np.exp(rng.normal() / 2), np.exp(rng.normal())
        queries.append(query.having(stderr=float(np.round(stderr, 2)), weight=float(np.round(weight, 2))))
    return ln.assemble(queries, schema)


# The side of the grid on which targets are compared with the dense optimum.
CAPPED_SIZE = 46

# Standard errors asked of sums along x and along y.
TARGETS = (3.0, 2.0)

# Budgets for totals within targets, beside the least μ.
SLACKS = (1.02, 1.1, 1.5)


def designed(workload: ln.Workload, goal: ln.Goal | None, given: argparse.Namespace, **more: Any) -> Any:
    """A plan, and the seconds of the process that it took."""
    began = time.process_time()
    plan = ln.design(workload, goal, time_limit=given.time_limit, backend=given.backend, **more)
    return plan, time.process_time() - began


def run_row(name: str, size: int, given: argparse.Namespace) -> None:
    """One line: the worst of all seeds."""
    row = ROWS[name]
    found = []
    for seed in range(given.seeds if row.is_random else 1):
        plan, seconds = designed(row.make(size, seed), ln.GDP(1), given, method=given.method)
        found.append((100 * plan.certificate.gap, seconds, plan.method, plan.certificate.achieved, seed))
    gap, _, method, achieved, seed = max(found)
    slowest = max(seconds for _, seconds, *_ in found)
    told = f"{len(found)} seeds, worst {seed}" if len(found) > 1 else ""
    print(
        f"{name:9} {size:>8,}  {method:10} {achieved:14.6g}  {gap:8.4f} % above  (≤ {row.most} %)  "
        f"{slowest:7.1f} s  {told}",
        flush=True,
    )


def run_capped(given: argparse.Namespace) -> None:
    """Joint beside dense on strips over 46 by 46: largest variance, targets, totals within them."""
    asked = strips(CAPPED_SIZE)
    schema = asked.schema
    assert schema is not None
    pairs = zip(asked.blocks, TARGETS, strict=True)
    targets = ln.assemble([block.query.having(stderr=error) for block, error in pairs], schema)

    def compare(what: str, workload: ln.Workload, goal: ln.Goal | None, **more: Any) -> Any:
        dense, took_dense = designed(workload, goal, given, method="dense", **more)
        plan, took = designed(workload, goal, given, method="joint", **more)
        above = 100 * (plan.certificate.achieved / dense.certificate.achieved - 1)
        print(
            f"{what:28} joint {plan.certificate.achieved:12.6g} in {took:6.1f} s, "
            f"dense {dense.certificate.achieved:12.6g} in {took_dense:6.1f} s: {above:7.3f} % above (≤ 1 %), "
            f"own bound {100 * plan.certificate.gap:.2f} % below",
            flush=True,
        )
        return dense

    compare("largest variance", asked, ln.GDP(1), objective=ln.MaxVariance())
    least = compare("targets", targets, None)
    for slack in given.slacks:
        compare(f"total within, {slack} times μ", targets, ln.GDP(slack * least.mu))


def run_tight(given: argparse.Namespace) -> None:
    """Residuals beside dense on crossing tables: totals within targets at the first slack, every draw."""
    slack = given.slacks[0]
    for seed in range(given.seeds):
        asked = crossing_tables(seed)
        least = ln.design(asked, method="dense").mu
        assert least is not None
        dense, took_dense = designed(asked, ln.GDP(slack * least), given, method="dense")
        plan, took = designed(asked, ln.GDP(slack * least), given, method="residuals")
        best, found = dense.certificate.achieved, plan.certificate
        print(
            f"tight, {slack} times μ, draw {seed}: residuals in {took:5.1f} s, dense in {took_dense:5.1f} s: "
            f"{100 * (found.achieved / best - 1):6.2f} % above (≤ 3 %), "
            f"bound {100 * (1 - found.lower_bound / best):6.2f} % low (≤ 3 %)",
            flush=True,
        )


def run_census_optimum() -> None:
    """Both sides of the optimum of the census tables, which says whether a plan or its bound is loose.

    Sexes are alike, and so are races within a group and groups: some optimum is Σ_s E_s ⊗ X_s, with E_s the
    products of the projections on the total and the difference of sexes, and on the total, groups and races
    within groups. For weights q of ages and households, with V_s what is asked where E_s is, m_s its rank and
    N = 128 combinations of sex and race,

        total ≥ F²/Σq ,  F = Σ_s m_s trace (R_s diag(q/N) R_sᵀ)^½ ,  R_sᵀR_s = V_s
    """
    asked = products_of(census(0))
    assert asked is not None
    age, sex, race, household = range(4)
    between, within = np.zeros(64), np.zeros(64)
    between[:8], between[8:16] = 0.25, -0.25
    within[:2] = np.array([1, -1]) / math.sqrt(2)
    of_sex = [np.ones(2) / math.sqrt(2), np.array([1, -1]) / math.sqrt(2)]
    of_race = [(1, np.ones(64) / 8), (7, between), (56, within)]
    sectors = []
    for v in of_sex:
        for rank, w in of_race:
            rows = []
            for term in asked.terms:
                V = [np.ones((size, size)) for size in asked.sizes]
                for a, kind in zip(term.places, term.kinds, strict=True):
                    V[a] = np.asarray(asked.kinds[a][kind].gram, dtype=float)
                weight = float(v @ V[sex] @ v) * float(w @ V[race] @ w)
                if weight > ROUNDED:
                    rows.append(math.sqrt(weight) * np.kron(root(V[age]), root(V[household])))
            W = np.vstack(rows)
            values, vectors = np.linalg.eigh(W @ W.T)
            sectors.append((rank, vectors[:, values > ROUNDED * values[-1]].T @ W))
    n, n_alike = asked.sizes[age] * asked.sizes[household], asked.sizes[sex] * asked.sizes[race]
    sides = [0.0, math.inf]

    def value(z: np.ndarray) -> tuple[float, np.ndarray]:
        q, F, u = z * z, 0.0, np.zeros(n)
        for rank, R in sectors:
            values, vectors = np.linalg.eigh((R * (q / n_alike)) @ R.T)
            values = np.maximum(values, 1e-15 * values[-1])
            F += rank * float(np.sqrt(values).sum())
            u += rank / n_alike * (((vectors / values**0.25).T @ R) ** 2).sum(axis=0)
        total = float(q.sum())
        sides[:] = max(sides[0], F * F / total), min(sides[1], F * float(u.max()))
        return -2 * math.log(F) + math.log(total), 2 * z * (1 / total - u / F)

    began = time.process_time()
    optimize.minimize(value, np.full(n, n**-0.5), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    seconds = time.process_time() - began
    print(f"census optimum: between {sides[0]:.1f} and {sides[1]:.1f}, in {seconds:.1f} s", flush=True)


# Eigenvalues and weights below this share are rounding.
ROUNDED = 1e-11


def root(V: np.ndarray) -> np.ndarray:
    """Rows whose Gram matrix is V, as many as its rank."""
    values, vectors = np.linalg.eigh(V)
    kept = values > ROUNDED * values[-1]
    return (vectors[:, kept] * np.sqrt(values[kept])).T


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=[*ROWS, "capped", "tight", "census-optimum"], help="rows of one name"
    )
    parser.add_argument("--least", type=int, default=0, help="leave out smaller sizes")
    parser.add_argument("--most", type=int, default=10**9, help="leave out larger sizes")
    parser.add_argument("--seeds", type=int, default=10, help="draws of every random workload")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--time-limit", type=float, default=None)
    parser.add_argument("--slacks", type=float, nargs="*", default=list(SLACKS))
    given = parser.parse_args(arguments)
    for name, row in ROWS.items():
        if given.only in (None, name):
            for size in row.sizes:
                if given.least <= size <= given.most:
                    run_row(name, size, given)
    if given.only in (None, "capped"):
        run_capped(given)
    if given.only in (None, "tight"):
        run_tight(given)
    if given.only in (None, "census-optimum"):
        run_census_optimum()


if __name__ == "__main__":
    main()
