"""The papers' workloads: by brute force on small sizes, by their distribution where they are drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import TooLargeError, WorkloadError
from leastnoise.core.operators import Kronecker, Matrix, SparseMatrix
from leastnoise.planning import design
from leastnoise.privacy import GDP
from leastnoise.query import (
    Workload,
    workload_age_pyramid,
    workload_all_ranges,
    workload_discrete,
    workload_k_way,
    workload_k_way_ranges,
    workload_marginal,
    workload_pl94,
    workload_predicates,
    workload_prefix,
    workload_range,
    workload_related,
)
from leastnoise.query.generators import workload_permuted_ranges
from support import refuses
from tolerances import CHANCE, ROUNDING

Draw = Callable[[np.random.Generator], Workload]

DRAWN: dict[str, tuple[Draw, tuple[int, int], int]] = {
    "discrete": (lambda g: workload_discrete(9, 5, probability=0.2, generator=g), (9, 5), 5),
    "range": (lambda g: workload_range(40, 6, generator=g), (40, 6), 6),
    "marginal": (lambda g: workload_marginal(400, (2, 3, 4), generator=g), (400, 24), 18),
    "related": (lambda g: workload_related(9, 7, 3, generator=g), (9, 7), 3),
    "permuted ranges": (lambda g: workload_permuted_ranges(6, generator=g), (21, 6), 6),
    "predicates": (lambda g: workload_predicates(30, 5, generator=g), (30, 5), 5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_shape_rank_and_generator(name: str) -> None:
    draw, shape, rank = DRAWN[name]
    first, again, other = (draw(np.random.default_rng(seed)).dense() for seed in (1, 1, 2))
    assert first.shape == shape and np.linalg.matrix_rank(first) == rank
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    generator = np.random.default_rng(1)
    draw(generator)
    assert not np.array_equal(draw(generator).dense(), first), "a generator moves on"


@pytest.mark.parametrize("name", DRAWN)
def test_every_kind_can_be_designed_for_and_saved(name: str) -> None:
    workload = DRAWN[name][0](np.random.default_rng(3))
    assert design(workload, GDP(1)).certificate.status == "optimal"
    assert Workload.from_dict(workload.to_dict()).digest == workload.digest


# Distributions -------------------------------------------------------------------------------


def is_plausible(counts: Any, shares: Any) -> bool:
    """Whether independent counts have these shares: Hoeffding's bound on each, CHANCE in all."""
    counts, shares = np.asarray(counts, dtype=float), np.asarray(shares, dtype=float)
    total = counts.sum()
    slack = math.sqrt(math.log(2 * len(counts) / CHANCE) / (2 * total))
    return bool((np.abs(counts / total - shares) <= slack).all())


@pytest.mark.parametrize("probability", [0.02, 0.2, 0.5])
def test_discrete_entries(probability: float) -> None:
    g = np.random.default_rng(4)
    W = workload_discrete(500, 400, probability=probability, generator=g).dense()
    assert set(np.unique(W)) == {-1, 1}
    counts = [(W == 1).sum(), (W == -1).sum()]
    assert is_plausible(counts, [probability, 1 - probability])
    assert not is_plausible(counts, [probability + 0.02, 0.98 - probability])
    default = workload_discrete(500, 400, generator=g).dense()
    assert is_plausible([(default == 1).sum(), (default == -1).sum()], [0.02, 0.98])
    assert (workload_discrete(2, 2, probability=1, generator=g).dense() == 1).all()
    assert (workload_discrete(2, 2, probability=0, generator=g).dense() == -1).all()


def test_predicate_entries() -> None:
    W = workload_predicates(500, 400, generator=np.random.default_rng(5)).dense()
    assert set(np.unique(W)) == {0, 1}
    assert is_plausible([(W == 0).sum(), (W == 1).sum()], [0.5, 0.5])
    assert not is_plausible([(W == 0).sum(), (W == 1).sum()], [0.48, 0.52])


def test_ranges_have_uniform_ends() -> None:
    """Two uniform ends in order: (i, i) with probability 1/n², (i, j) with 2/n²."""
    n = 5
    W = workload_range(40_000, n, generator=np.random.default_rng(6)).dense()
    seen: Counter[tuple[Any, Any]] = Counter()
    for row, times in zip(*np.unique(W, axis=0, return_counts=True), strict=True):
        where = np.flatnonzero(row)
        assert row[where[0] : where[-1] + 1].all() and set(row) <= {0, 1}
        seen[(where[0], where[-1])] += int(times)
    ends = [(i, j) for i in range(n) for j in range(i, n)]
    shares = [(1 if i == j else 2) / n**2 for i, j in ends]
    assert is_plausible([seen[e] for e in ends], shares)
    assert not is_plausible([seen[e] for e in ends], np.full(len(ends), 1 / len(ends)))


def two_way_rows(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every count of every two-way marginal, cell by cell."""
    cells = list(product(*map(range, sizes)))
    return [
        tuple(int(cell[a] == x and cell[b] == y) for cell in cells)
        for a, b in combinations(range(len(sizes)), 2)
        for x in range(sizes[a])
        for y in range(sizes[b])
    ]


def test_marginal_counts_are_equally_likely() -> None:
    sizes = (2, 3, 4)
    seen = rows_of(workload_marginal(30_000, sizes, generator=np.random.default_rng(7)))
    every = two_way_rows(sizes)
    assert set(seen) == set(every) and len(every) == 6 + 8 + 12
    assert is_plausible([seen[row] for row in every], np.full(26, 1 / 26))
    # Pairs of attributes drawn first, then counts, would favour the small table.
    by_table = np.repeat([1 / 18, 1 / 24, 1 / 36], [6, 8, 12])
    assert not is_plausible([seen[row] for row in every], by_table)


@pytest.mark.thorough
def test_permuted_ranges_are_ranges_in_another_order() -> None:
    n = 6
    plain = workload_all_ranges(n).dense()
    orders = set()
    for seed in range(20):
        W = workload_permuted_ranges(n, generator=np.random.default_rng(seed)).dense()
        # Row 0 to n − 1 are the ranges from the first cell: each adds the next cell in order.
        order = [int(np.flatnonzero(row)[0]) for row in np.diff(W[:n], axis=0, prepend=0)]
        assert sorted(order) == list(range(n)) and np.array_equal(W[:, order], plain)
        orders.add(tuple(order))
    assert len(orders) > 15
    # The first cell goes everywhere equally often.
    g = np.random.default_rng(8)
    places = [
        int(np.flatnonzero(workload_permuted_ranges(3, generator=g).dense()[0])[0]) for _ in range(3000)
    ]
    assert is_plausible([places.count(i) for i in range(3)], np.full(3, 1 / 3))
    assert not is_plausible([places.count(i) for i in range(3)], [0.45, 0.3, 0.25])


def test_related_entries_have_the_moments_of_a_product_of_normals() -> None:
    """Entries of C·A are sums of s products: mean 0, variance s; over all seeds, each independent."""
    s = 4
    draws = [
        workload_related(4, 4, s, generator=np.random.default_rng(seed)).dense()[0, 0] for seed in range(4000)
    ]
    # The fourth moment is 3s² + 6s = 72, so the mean square has standard error √(72 − 16)/√4000 = 0.118.
    assert abs(np.mean(draws)) < 5.2 * math.sqrt(s / 4000)
    assert abs(np.mean(np.square(draws)) - s) < 0.8
    assert abs(np.mean(np.square(draws)) - 2 * s) > 0.8


# Enumerations --------------------------------------------------------------------------------


def range_rows(sizes: tuple[int, ...], attributes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every product of one range of each attribute, cell by cell."""
    cells = list(product(*map(range, sizes)))
    spans = [[(i, j) for i in range(sizes[a]) for j in range(i, sizes[a])] for a in attributes]
    return [
        tuple(
            int(all(low <= cell[a] <= high for a, (low, high) in zip(attributes, chosen, strict=True)))
            for cell in cells
        )
        for chosen in product(*spans)
    ]


def rows_of(workload: Workload) -> Counter[tuple[int, ...]]:
    return Counter(tuple(int(a) for a in row) for row in workload.dense())


@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 3), (1, 2, 3)])
def test_all_ranges_by_brute_force(sizes: tuple[int, ...]) -> None:
    found = workload_all_ranges(sizes)
    assert rows_of(found) == Counter(range_rows(sizes, tuple(range(len(sizes)))))
    assert found.schema is not None and found.schema.names == tuple(f"a{i + 1}" for i in range(len(sizes)))
    if len(sizes) == 1:
        assert rows_of(workload_all_ranges(sizes[0])) == rows_of(found)


def test_prefixes_by_brute_force() -> None:
    assert np.array_equal(workload_prefix(5).dense(), np.tril(np.ones((5, 5))))


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_k_way_marginals_and_ranges_by_brute_force(k: int) -> None:
    sizes = (2, 3, 2)
    cells = list(product(*map(range, sizes)))
    expected = Counter(
        tuple(int(all(cell[a] == x for a, x in zip(chosen, values, strict=True))) for cell in cells)
        for chosen in combinations(range(3), k)
        for values in product(*(range(sizes[a]) for a in chosen))
    )
    found = workload_k_way(sizes, k)
    assert rows_of(found) == expected and len(found.names) == math.comb(3, k)
    ranges = workload_k_way_ranges(sizes, k)
    by_hand = Counter(row for chosen in combinations(range(3), k) for row in range_rows(sizes, chosen))
    assert rows_of(ranges) == by_hand and len(ranges.names) == math.comb(3, k)
    # Ranges of marginals add up counts of marginals: they span the same.
    assert np.linalg.matrix_rank(ranges.dense()) == np.linalg.matrix_rank(found.dense())
    if k == 3:
        assert rows_of(ranges) == rows_of(workload_all_ranges(sizes))


def with_caps(workload: Workload) -> Counter[tuple[tuple[int, ...], int]]:
    """Rows with the whole number that is their cap on the variance."""
    caps = workload.targets**2
    assert np.allclose(caps, caps.round(), rtol=ROUNDING)
    rows = workload.dense().astype(int).tolist()
    return Counter(zip(map(tuple, rows), caps.round().astype(int).tolist(), strict=True))


def test_redistricting_by_brute_force() -> None:
    """Fitness for use, section 7.2: a (2, 2, 63) histogram, five groups of queries, caps 1, 2 and 4."""
    cells = [
        (age, ethnicity, races)
        for age in (0, 1)
        for ethnicity in (0, 1)
        for size in range(1, 7)
        for races in combinations(range(6), size)
    ]
    sets = list(dict.fromkeys(races for _, _, races in cells))
    conditions: list[tuple[Callable[[Any], bool], int]] = [
        *((lambda cell, a=a: cell[0] == a, 1) for a in (0, 1)),
        *((lambda cell, e=e: cell[1] == e, 1) for e in (0, 1)),
        *((lambda cell, r=r: cell[2] == r, 1 if len(r) == 1 else 2) for r in sets),
        *((lambda cell, own=own: cell == own, 4) for own in cells),
    ]
    expected = Counter((tuple(int(holds(cell)) for cell in cells), cap) for holds, cap in conditions)
    found = workload_pl94()
    assert found.shape == (319, 252) and len(sets) == 63
    assert with_caps(found) == expected
    wrong = Counter((row, 2 if cap == 4 else cap) for row, cap in expected.elements())
    assert with_caps(found) != wrong
    assert len(set(found.labels)) == 319


def test_age_pyramid_by_brute_force() -> None:
    """Fitness for use, section 7.5: prefixes and [18, 115], by sex and for all, caps 1 and 10."""
    cells = [(sex, age) for sex in (0, 1) for age in range(116)]
    spans = [(0, age) for age in range(116)] + [(18, 115)]
    expected = Counter(
        (
            tuple(int(sex in people and low <= age <= high) for sex, age in cells),
            1 if (low, high) in ((0, 17), (18, 115)) else 10,
        )
        for people in ((0,), (1,), (0, 1))
        for low, high in spans
    )
    found = workload_age_pyramid()
    assert found.shape == (351, 232) and with_caps(found) == expected
    assert with_caps(found) != Counter((row, 10) for row, _ in expected.elements())
    assert Workload.from_dict(found.to_dict()).digest == found.digest


def test_structure_stays_implicit() -> None:
    for workload in (
        workload_all_ranges((10**4, 10**4)),
        workload_prefix(10**6),
        workload_k_way([100] * 10, 3),
        workload_k_way_ranges([100] * 10, 2),
        workload_range(10, 10**9, generator=np.random.default_rng(1)),
    ):
        assert all(isinstance(block.operator, Kronecker) for block in workload.blocks)
    g = np.random.default_rng(1)
    assert isinstance(workload_marginal(5, (3, 3, 3), generator=g).operator, SparseMatrix)
    assert isinstance(workload_permuted_ranges(5, generator=g).operator, SparseMatrix)
    assert isinstance(workload_discrete(5, 3, generator=g).operator, Matrix)


# Refusals ------------------------------------------------------------------------------------

G = np.random.default_rng(9)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda: workload_discrete(0, 3, generator=G), ("n_queries", 0)),
        (lambda: workload_discrete(3, -1, generator=G), ("n_cells", -1)),
        (lambda: workload_discrete(3, True, generator=G), ("n_cells", True)),
        (lambda: workload_discrete(3, 2, probability=1.5, generator=G), ("probability", 1.5)),
        (lambda: workload_discrete(3, 2, probability=math.nan, generator=G), ("probability", math.nan)),
        (lambda: workload_discrete(3, 2, probability=True, generator=G), ("probability", True)),
        (lambda: workload_range(2.0, 3, generator=G), ("n_queries", 2.0)),  # type: ignore[arg-type]
        (lambda: workload_range(2, 3, generator=7), ("generator", int)),  # type: ignore[arg-type]
        (lambda: workload_predicates(2, 3, generator=None), ("generator", type(None))),  # type: ignore[arg-type]
        (lambda: workload_marginal(2, (5,), generator=G), ("sizes", (5,))),
        (lambda: workload_marginal(2, (), generator=G), ("sizes", ())),
        (lambda: workload_marginal(2, (5, 0), generator=G), ("every size", 0)),
        (lambda: workload_related(4, 5, 5, generator=G), ("rank", 5)),
        (lambda: workload_related(4, 5, 0, generator=G), ("rank", 0)),
        (lambda: workload_all_ranges("12"), ("sizes", "12")),  # type: ignore[arg-type]
        (lambda: workload_all_ranges([2, "3"]), ("every size", "3")),  # type: ignore[list-item]
        (lambda: workload_prefix(0), ("every size", 0)),
        (lambda: workload_k_way((2, 3), 3), ("k", 3)),
        (lambda: workload_k_way((2, 3), -1), ("k", -1)),
        (lambda: workload_k_way_ranges((2, 3), 1.0), ("k", 1.0)),  # type: ignore[arg-type]
        (lambda: workload_k_way_ranges((2, 3), True), ("k", True)),
        (lambda: workload_permuted_ranges(0, generator=G), ("n_cells", 0)),
    ],
)
def test_bad_sizes_are_refused_by_words(call: Callable[[], Workload], refusal: tuple[Any, ...]) -> None:
    with refuses(WorkloadError, *refusal):
        call()


def test_what_does_not_fit_is_refused_before_it_is_drawn() -> None:
    for call in (
        lambda: workload_discrete(10**6, 10**6, generator=G),
        lambda: workload_related(10**6, 10**6, 2, generator=G),
        lambda: workload_predicates(10**6, 10**6, generator=G),
        lambda: workload_marginal(10**6, (10**3, 10**3), generator=G),
        lambda: workload_permuted_ranges(10**4, generator=G),
    ):
        with refuses(TooLargeError, "workload"):
            call()
