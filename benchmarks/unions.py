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
from itertools import pairwise
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


def months(n: int, seed: int = 0) -> ln.Workload:
    """48 to n months: two to four tables, one within ±10 to ±100, and a mean by age or sex."""
    rng = np.random.default_rng([11, seed])
    sizes = {"month": int(rng.integers(48, n + 1)), "region": 4, "sex": 2, "age": 7, "income": 5, "value": 31}
    pairs = [("month", "region"), ("month", "sex"), ("age", "income"), ("region", "sex"), ("region", "age")]
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[: int(rng.integers(2, 5))]]
    within = float(np.round(10 ** rng.uniform(1, 2), 1))
    bound = int(rng.integers(len(chosen)))
    queries: list[ln.Query] = [ln.Marginal(*names) for names in chosen]
    queries[bound] = queries[bound].having(within=(within, 0.95))
    queries.append(ln.Mean("value", by=(("age", "sex")[int(rng.integers(2))],)))
    return ln.assemble(queries, ln.Schema({name: range(size) for name, size in sizes.items()}))


def asked_of(name: str, size: int, rng: np.random.Generator) -> ln.Query:
    """Some kind of rows over one attribute: values, running sums, ranges, windows, groups, a set or a sum."""
    kind = int(rng.integers(8))
    if kind == 0 or size == 2:
        return ln.Marginal(name)
    if kind == 1:
        return ln.Prefix(name)
    if kind == 2:
        return ln.AllRanges(name)
    if kind == 3:
        width = int(rng.integers(2, size + 1))
        return ln.Ranges(name, [(a, a + width - 1) for a in range(size - width + 1)])
    if kind == 4:
        ends = np.sort(rng.integers(0, size, (int(rng.integers(1, 9)), 2)), axis=1)
        return ln.Ranges(name, [(int(low), int(high)) for low, high in np.unique(ends, axis=0)])
    if kind == 5:
        cuts = [0, *np.unique(rng.integers(1, size, int(rng.integers(1, 6)))).tolist(), size]
        return ln.Ranges(name, [(low, high - 1) for low, high in pairwise(cuts)])
    if kind == 6:
        return ln.Where(f"{name} in {tuple(np.flatnonzero(rng.random(size) < 0.5).tolist() or [0, 1])}")
    return ln.Sum(name)


def any_weight(query: ln.Query, rng: np.random.Generator) -> ln.Query:
    """The query with a weight over two decades."""
    return query.having(weight=float(np.round(10 ** rng.uniform(-1, 1), 3)))


def crossed(queries: Sequence[ln.Query]) -> ln.Query:
    """All of them crossed."""
    return math.prod(queries[1:], start=queries[0])


def any_products(most: int, seed: int = 0) -> ln.Workload:
    """4 to 12 products of any kinds over 4 to 6 attributes of 2 to 40 values, weights over two decades."""
    rng = np.random.default_rng([3, seed])
    n = int(rng.integers(4, 7))
    sizes = np.round(np.exp(rng.uniform(math.log(2), math.log(most), n))).astype(int).tolist()
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)})
    queries = []
    for _ in range(int(rng.integers(4, 13))):
        chosen = rng.choice(n, size=int(rng.integers(1, 5)), replace=False).tolist()
        queries.append(any_weight(crossed([asked_of(f"a{i}", sizes[i], rng) for i in chosen]), rng))
    return ln.assemble(queries, schema)


def mixed(most: int, seed: int = 0) -> ln.Workload:
    """Any kinds of rows over one to three attributes, below `most` cells, crossed with tables of others."""
    rng = np.random.default_rng([5, seed])
    shared: list[int] = []
    for _ in range(int(rng.integers(1, 4))):
        room = most // math.prod(shared)
        if room >= 2:
            shared.append(int(np.exp(rng.uniform(math.log(2), math.log(min(room, 200))))))
    others = rng.integers(2, 31, int(rng.integers(1, 4))).tolist()
    sizes = {f"z{i}": size for i, size in enumerate(shared)} | {
        f"v{i}": size for i, size in enumerate(others)
    }
    queries = []
    for _ in range(int(rng.integers(3, 11))):
        own = [asked_of(f"z{i}", size, rng) for i, size in enumerate(shared) if rng.random() < 0.6]
        own += [ln.Marginal(f"v{i}") for i in range(len(others)) if rng.random() < 0.4]
        queries.append(any_weight(crossed(own or [ln.Total()]), rng))
    return ln.assemble(queries, ln.Schema({name: range(size) for name, size in sizes.items()}))


def census_lists(most: int, seed: int = 0) -> ln.Workload:
    """Tables as statistical offices list them, of ages, sexes, races in groups, households and areas."""
    rng = np.random.default_rng([7, seed])
    groups, each = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    ages = int(rng.integers(18, most // (groups * each) + 1))
    races = ln.Hierarchy({f"g{g}": [f"r{g}{i}" for i in range(each)] for g in range(groups)})
    schema = ln.Schema(age=range(ages), sex=("F", "M"), race=races, area=range(int(rng.integers(4, 60))))
    five = [(a, min(a + 4, ages - 1)) for a in range(0, ages, 5)]
    M = ln.Marginal
    tables: list[ln.Query] = [
        M("age", "sex"),
        ln.Prefix("age") * M("sex"),
        ln.Levels("race"),
        M("area"),
        ln.Levels("race") * M("area"),
        ln.Ranges("age", five) * M("sex", "area"),
        ln.Ranges("age", five) * ln.Levels("race"),
        ln.Where(f"age >= {ages // 3}") * M("race", "area"),
        ln.Prefix("age") * M("area"),
        M("race", "sex", "area"),
        ln.Ranges("age", five) * M("race", "sex"),
    ]
    chosen = [tables[i] for i in rng.permutation(len(tables))[: int(rng.integers(4, 10))]]
    return ln.assemble([ln.Total(), *(any_weight(query, rng) for query in chosen)], schema)


def pairs(n: int, seed: int = 0) -> ln.Workload:
    """All tables of two of n attributes of 2 to 6 values, and up to twenty conditions on 2 to 5 of them."""
    rng = np.random.default_rng([13, n, seed])
    sizes = rng.integers(2, 7, n).tolist()
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)})
    queries: list[ln.Query] = [ln.Cube(*schema.names, order=(2,))]
    for _ in range(int(rng.integers(1, 21))):
        parts = []
        for i in rng.choice(n, size=int(rng.integers(2, 6)), replace=False).tolist():
            sign = ("==", ">=", "<")[int(rng.integers(3))]
            parts.append(f"a{i} {sign} {int(rng.integers(1, sizes[i]))}")
        queries.append(ln.Where((" and ", " or ")[int(rng.integers(2))].join(parts)))
    return ln.assemble(queries, schema)


def ordered(n: int, seed: int = 0) -> ln.Workload:
    """Running sums and wide windows over n moments, crossed with one and two small attributes."""
    schema = ln.Schema(moment=range(n), sex=("F", "M"), region=range(5))
    wide = [(a, a + n // 4 - 1) for a in range(0, n - n // 4 + 1, max(n // 100, 1))]
    queries = [
        ln.Prefix("moment") * ln.Marginal("sex"),
        ln.Ranges("moment", wide) * ln.Marginal("region"),
        ln.Marginal("sex", "region"),
    ]
    return ln.assemble(queries, schema)


def six_products(n: int, seed: int = 0) -> ln.Workload:
    """Six products of tables, running sums and ranges of two or three of 16, 12, 5 and 4 values."""
    rng = np.random.default_rng([17, seed])
    sizes = (16, 12, 5, 4)
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)})
    kinds = (ln.Marginal, ln.Prefix, ln.AllRanges)
    queries = []
    for _ in range(6):
        chosen = rng.choice(4, size=int(rng.integers(2, 4)), replace=False).tolist()
        queries.append(any_weight(crossed([kinds[rng.integers(3)](f"a{i}") for i in chosen]), rng))
    return ln.assemble(queries, schema)


def many_targets(n: int, seed: int = 0) -> ln.Workload:
    """Forty groups of random ranges, targets over six decades; odd seeds ask for all ranges too."""
    rng = np.random.default_rng([19, seed])
    schema = ln.Schema(a=range(n))
    queries: list[ln.Query] = [ln.AllRanges("a").having(stderr=1e3)] if seed % 2 else []
    for _ in range(40):
        ends = np.unique(np.sort(rng.integers(0, n, (50, 2)), axis=1), axis=0)
        stderr = float(10 ** rng.uniform(-3, 3))
        queries.append(ln.Ranges("a", [(int(low), int(high)) for low, high in ends]).having(stderr=stderr))
    return ln.assemble(queries, schema)


# The privacy goal of rows that name none.
GOAL = ln.GDP(1)


@dataclass(frozen=True)
class Row:
    """A workload, its sizes, the gap that is asked of it, in per cent, and the goal, if any."""

    make: Callable[[int, int], ln.Workload]
    sizes: tuple[int, ...]
    most: float
    is_random: bool = False
    goal: ln.Goal | None = GOAL


ROWS = {
    "strips": Row(strips, (64, 256, 512), 0.5),
    "windows": Row(windows, (128,), 0.5),
    "quadtree": Row(quadtree, (64, 256), 0.1),
    "strips3": Row(strips3, (32, 64, 128), 1.0),
    "census": Row(census, (489_984,), 2.0),
    "kinds": Row(kinds, (40,), 1e-4),
    "monthly": Row(monthly, (60,), 1e-4),
    "blocks": Row(blocks, (8,), 2.0, is_random=True),
    "random": Row(any_products, (40,), 1.0, is_random=True),
    "mixed": Row(mixed, (4_000,), 0.01, is_random=True),
    "lists": Row(census_lists, (1_000,), 0.01, is_random=True),
    "months": Row(months, (60,), 0.1, is_random=True, goal=ln.ApproxDP(epsilon=1, delta=1e-6)),
    "pairs": Row(pairs, (15, 30, 45), 0.5, is_random=True),
    "ordered": Row(ordered, (10_000,), 1.0),
    "six": Row(six_products, (3_840,), 1.0, is_random=True),
    "targets": Row(many_targets, (100,), 1e-4, is_random=True, goal=None),
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
        plan, seconds = designed(row.make(size, seed), row.goal, given, method=given.method)
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
