"""The workloads that the papers draw or enumerate, to compare with their numbers.

Where several attributes are named, they are called a1, a2, … with the values 0, 1, …
of the sizes given, and the queries stay implicit. Where a workload is drawn, the
generator is given explicitly and the same state gives the same workload.

References, by short name:
    LRM: Yuan et al. (2012), Low-Rank Mechanism, section 6.
    COA: Yuan et al. (2016), Convex Optimization for Linear Query Processing, section 5.
    AM: Li and Miklau (2012), An Adaptive Mechanism, sections 2 and 5.
    Fitness for use: Xiao et al. (2021), section 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import mul

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators import EveryRange, require_room
from leastnoise.query.queries import AllRanges, Linear, Marginal, Prefix, Query, Ranges, Total
from leastnoise.query.schema import Schema
from leastnoise.query.workload import Workload, assemble


def workload_discrete(
    n_queries: int, n_cells: int, *, probability: float = 0.02, generator: np.random.Generator
) -> Workload:
    """Queries whose coefficients are 1 with the given probability and −1 otherwise.

    Reference:
        LRM, WDiscrete, with probability 0.02; fitness for use, section 7.4, with 0.2.
    """
    shape = _shape(n_queries, n_cells)
    is_number = isinstance(probability, (int, float)) and not isinstance(probability, bool)
    if not is_number or not 0 <= probability <= 1:
        raise WorkloadError.must("probability", "lie between 0 and 1", given=probability)
    heads = _checked(generator).random(shape) < probability
    return Workload.from_matrix(np.where(heads, 1, -1))


def workload_range(n_queries: int, n_cells: int, *, generator: np.random.Generator) -> Workload:
    """Ranges over one attribute, both ends drawn uniformly and put in order.

    Reference:
        LRM, WRange; fitness for use, section 7.3.
    """
    m, n = _whole("n_queries", n_queries), _whole("n_cells", n_cells)
    ends = np.sort(_checked(generator).integers(0, n, (m, 2)), axis=1)
    return assemble([Ranges("a1", [(low, high) for low, high in ends.tolist()])], _schema([n]))


def workload_marginal(n_queries: int, sizes: Sequence[int], *, generator: np.random.Generator) -> Workload:
    """Queries drawn independently and uniformly from all counts of all two-way marginals.

    Every count of every pair of attributes is as likely as any other, and may be drawn
    again; a pair of larger attributes has more counts and is drawn more often.

    Reference:
        COA, WMarginal, which leaves repetition open.
    """
    from scipy.sparse import csr_array

    schema = _schema(sizes)
    if len(schema.shape) < 2:
        raise WorkloadError.must("sizes", "hold two sizes or more, one for each attribute", given=sizes)
    m, n = _shape(n_queries, schema.n_cells)
    pairs = list(combinations(range(len(schema.shape)), 2))
    tables = [(schema.shape[a], schema.shape[b]) for a, b in pairs]
    ends = np.cumsum([math.prod(table) for table in tables])
    drawn = _checked(generator).integers(0, int(ends[-1]), m)
    chosen = np.searchsorted(ends, drawn, side="right")
    cells = np.arange(n).reshape(schema.shape)
    members = []
    for number, table in zip(drawn.tolist(), chosen.tolist(), strict=True):
        place = divmod(number - int(ends[table]) + math.prod(tables[table]), tables[table][1])
        index = dict(zip(pairs[table], place, strict=True))
        members.append(cells[tuple(index.get(axis, slice(None)) for axis in range(cells.ndim))].reshape(-1))
    starts = np.cumsum([0, *(len(row) for row in members)])
    columns = np.concatenate(members)
    return Workload.from_matrix(
        csr_array((np.ones(len(columns), dtype=np.int64), columns, starts), shape=(m, n)), schema=schema
    )


def workload_related(n_queries: int, n_cells: int, rank: int, *, generator: np.random.Generator) -> Workload:
    """W = C·A with C (n_queries, rank) and A (rank, n_cells) of standard normal entries.

    Reference:
        LRM, WRelated; the rank is its s.
    """
    m, n = _shape(n_queries, n_cells)
    s = _whole("rank", rank)
    if s > min(m, n):
        raise WorkloadError.must(
            "rank", f"be at most {min(m, n):,} for {m:,} queries over {n:,} cells", given=s
        )
    draw = _checked(generator)
    A = draw.standard_normal((s, n))
    return Workload.from_matrix(draw.standard_normal((m, s)) @ A)


def workload_all_ranges(sizes: int | Sequence[int]) -> Workload:
    """Every range of one attribute; of several, every product of one range of each.

    Reference:
        AM, the workload of all range queries.
    """
    schema = _schema(sizes)
    return assemble([_product([AllRanges(name) for name in schema])], schema)


def workload_prefix(n_cells: int) -> Workload:
    """Every prefix of one attribute: its cumulative distribution.

    Reference:
        AM, the CDF workload; fitness for use, Table 2.
    """
    return assemble([Prefix("a1")], _schema(n_cells))


def workload_k_way(sizes: Sequence[int], k: int) -> Workload:
    """All marginals of k attributes, one batch for each choice; k = 0 is the total.

    Reference:
        AM, all k-way marginals.
    """
    schema = _schema(sizes)
    chosen = combinations(schema, _way(k, schema))
    return assemble([Marginal(*names) if names else Total() for names in chosen], schema)


def workload_k_way_ranges(sizes: Sequence[int], k: int) -> Workload:
    """All range marginals of k attributes: every product of one range of each, added up over the others.

    Reference:
        AM, all k-way range marginals.
    """
    schema = _schema(sizes)
    chosen = combinations(schema, _way(k, schema))
    return assemble([_product([AllRanges(name) for name in names]) for names in chosen], schema)


def workload_permuted_ranges(n_cells: int, *, generator: np.random.Generator) -> Workload:
    """Every range of n cells, the cells then put in a random order.

    The columns are those of all ranges in another order, so a strategy that adapts
    to the workload does as well as before, and one that relies on order does not.

    Reference:
        AM, Table 2, permuted ranges.
    """
    from scipy.sparse import csr_array

    n = _whole("n_cells", n_cells)
    every = EveryRange(n)
    require_room(*every.shape, "the permuted ranges")
    places = _checked(generator).permutation(n)
    lengths = every.high - every.low + 1
    starts = np.concatenate([[0], np.cumsum(lengths)])
    cells = np.arange(starts[-1]) - np.repeat(starts[:-1] - every.low, lengths)
    ones = np.ones(len(cells), dtype=np.int64)
    return Workload.from_matrix(csr_array((ones, places[cells], starts), shape=every.shape))


def workload_predicates(n_queries: int, n_cells: int, *, generator: np.random.Generator) -> Workload:
    """Predicates drawn uniformly from all: every cell belongs to each with probability 1/2.

    Reference:
        AM, section 5, uniformly sampled predicate queries.
    """
    shape = _shape(n_queries, n_cells)
    return Workload.from_matrix(_checked(generator).integers(0, 2, shape))


# The OMB race categories of 2010 (fitness for use, section 7.2).
_RACES = ("White", "Black", "American Indian", "Asian", "Pacific", "Other")


def workload_pl94() -> Workload:
    """The redistricting file PL 94-171 of 2010: 319 queries over 252 cells, with their targets.

    People by age (below 18, or 18 and over), ethnicity, and any of the 63 sets of six races. Variance at
    most 1 for the counts by age, by ethnicity and of one race only, 2 for every combination of races, 4 for
    every cell.

    Reference:
        Fitness for use, section 7.2.
    """
    sets = [chosen for size in range(1, len(_RACES) + 1) for chosen in combinations(_RACES, size)]
    schema = Schema(
        age=("under 18", "18 and over"),
        ethnicity=("not Hispanic", "Hispanic"),
        race=[" and ".join(chosen) for chosen in sets],
    )
    by_race = Marginal("race").operator(schema).dense(np.int64)
    labels = list(Marginal("race").labels(schema))
    n_single = len(_RACES)
    return assemble(
        [
            Marginal("age", stderr=1),
            Marginal("ethnicity", stderr=1),
            Linear(by_race[:n_single], labels[:n_single], name="one race", stderr=1),
            Linear(by_race[n_single:], labels[n_single:], name="several races", stderr=math.sqrt(2)),
            Marginal("age", "ethnicity", "race", stderr=2),
        ],
        schema,
    )


def workload_age_pyramid() -> Workload:
    """An age pyramid: 351 ranges of 116 ages, for men, women and all, over 232 cells, with their targets.

    Every prefix of the ages, and 18 to 115. Variance at most 1 for 0 to 17 and for 18 to 115, 10 for the
    others.

    Reference:
        Fitness for use, section 7.5.
    """
    schema = Schema(sex=("M", "F"), age=range(116))
    voting = Ranges("age", [(0, 17), (18, 115)])
    others = Ranges("age", [(0, age) for age in range(116) if age != 17])
    queries = []
    for people in (Marginal("sex"), Total()):
        queries += [
            (people * voting).having(stderr=1, name=f"voting age, {people.title()}"),
            (people * others).having(stderr=math.sqrt(10), name=f"age up to, {people.title()}"),
        ]
    return assemble(queries, schema)


def _product(queries: Sequence[Query]) -> Query:
    return reduce(mul, queries) if queries else Total()


def _schema(sizes: int | Sequence[int]) -> Schema:
    given = [sizes] if not isinstance(sizes, Sequence) else list(sizes)
    if not given or isinstance(sizes, str):
        raise WorkloadError.must("sizes", "be the numbers of values of the attributes", given=sizes)
    whole = [_whole("every size", size) for size in given]
    return Schema({f"a{i}": range(size) for i, size in enumerate(whole, start=1)})


def _shape(n_queries: int, n_cells: int) -> tuple[int, int]:
    m, n = _whole("n_queries", n_queries), _whole("n_cells", n_cells)
    require_room(m, n, "the workload")
    return m, n


def _way(k: int, schema: Schema) -> int:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 <= k <= len(schema.shape):
        raise WorkloadError.must(
            "k", f"be a whole number from 0 to the {len(schema.shape)} attributes", given=k
        )
    return int(k)


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise WorkloadError.must(name, "be a whole number, 1 or more", given=value)
    return int(value)


def _checked(generator: np.random.Generator) -> np.random.Generator:
    if not isinstance(generator, np.random.Generator):
        raise WorkloadError.must(
            "generator",
            "be a numpy.random.Generator, as in numpy.random.default_rng(1)",
            given=type(generator),
        )
    return generator
