"""What the adaptive mechanism's paper computes: one method on one workload, its error and the bound.

    Eigen-Design   Program 2, method "eigen"
    Wavelet        Haar wavelets of every attribute
    Hierarchical   a binary tree over every attribute
    Fourier        Fourier queries, those that no marginal needs left out
    DataCube       some of the marginals asked for, BMAX
    noise on cells no competitor of the paper's; what Fourier is with no query left out
    leastnoise     the certified optimum, method "dense"

An error is the root of the mean variance of all queries at ε = 0.5 and δ = 0.0001, with the paper's own
calibration, σ² = 2 ln(2/δ)/ε². Its lower bound is the singular value bound; for leastnoise it is the
bound that is proved with the plan, which is never lower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.reproduction import Setting
from leastnoise.papers.reproductions.rows import IS_CUT, Plain, Row
from leastnoise.planning import Plan, design
from leastnoise.privacy import ApproxDP
from leastnoise.query import (
    Cube,
    Marginal,
    Schema,
    TotalVariance,
    Workload,
    assemble,
    workload_all_ranges,
    workload_k_way,
    workload_k_way_ranges,
    workload_predicates,
    workload_prefix,
)

EPSILON = 0.5
DELTA = 1e-4
PAPER = ApproxDP(epsilon=EPSILON, delta=DELTA, calibration="classic")

EIGEN = "Eigen-Design"
OURS = "leastnoise"
CELLS = "noise on cells"

# A name of the paper, the method, and its options.
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    EIGEN: ("eigen", {}),
    "Wavelet": ("wavelet", {}),
    "Hierarchical": ("hierarchical", {"branching": 2}),
    "Fourier": ("fourier", {}),
    "DataCube": ("datacube", {}),
    CELLS: ("identity", {}),
    OURS: ("dense", {}),
}

# Predicates drawn for every cell: with fewer, a random matrix is far from any structure of its own.
_PREDICATES_PER_CELL = 4

RELATIVE = TotalVariance(relative_to="uniform")


def sizes_of(shape: str) -> tuple[int, ...]:
    """8x16x16 as numbers."""
    return tuple(int(size) for size in shape.split("x"))


def n_cells(shape: str) -> int:
    """How many cells a shape has."""
    return math.prod(sizes_of(shape))


@dataclass(frozen=True, eq=False)
class PaperWorkload:
    """A workload of the paper.

    Attributes:
        workload: what is planned for.
        n_queries: how many queries its errors are the mean over.
        order: where each cell went, for permuted ranges; None elsewhere.
    """

    workload: Workload
    n_queries: int
    order: Array | None = None


def paper_workload(workload: str, shape: str, seed: int = 0, *, is_relative: bool = False) -> PaperWorkload:
    """A workload by the paper's name for it.

    Args:
        seed: of the draw, where something is drawn.
        is_relative: weigh permuted ranges by one over their squared length in L2; the others are
            weighed by the objective.

    Raises:
        InputError: for an unknown name.
    """
    sizes = sizes_of(shape)
    generator = np.random.default_rng(seed)
    if workload == "permuted ranges":
        return _permuted_ranges(math.prod(sizes), generator, is_relative)
    if workload == "permuted 2-way marginals":
        plain = workload_k_way(sizes, 2)
        W = plain.dense().astype(np.int64)[:, generator.permutation(math.prod(sizes))]
        return PaperWorkload(Workload.from_matrix(W, schema=_schema(sizes)), plain.shape[0])
    if workload == "all ranges":
        found = workload_all_ranges(sizes)
    elif workload == "random ranges":
        found = _random_ranges(sizes, math.prod(sizes), generator)
    elif workload == "random marginals":
        found = _random_marginals(sizes, generator)
    elif workload == "CDF":
        found = workload_prefix(math.prod(sizes))
    elif workload == "predicates":
        drawn = workload_predicates(
            _PREDICATES_PER_CELL * math.prod(sizes), math.prod(sizes), generator=generator
        )
        found = Workload.from_matrix(drawn.dense().astype(np.int64), schema=_schema(sizes))
    elif workload == "all marginals":
        schema = _schema(sizes)
        found = assemble([Cube(*schema.names)], schema)
    elif workload in ("1-way marginals", "2-way marginals"):
        found = workload_k_way(sizes, int(workload[0]))
    elif workload in ("1-way range marginals", "2-way range marginals"):
        found = workload_k_way_ranges(sizes, int(workload[0]))
    else:
        raise InputError(
            f"the adaptive mechanism's paper has no workload {workload!r}", field="workload", given=workload
        )
    return PaperWorkload(found, found.shape[0])


def _schema(sizes: Sequence[int]) -> Schema:
    return Schema({f"a{i}": range(size) for i, size in enumerate(sizes, start=1)})


def _random_ranges(sizes: Sequence[int], m: int, generator: np.random.Generator) -> Workload:
    """Two steps, as Xiao et al. (2010) draw them: how many attributes and which; then a range of each."""
    d = len(sizes)
    rows = []
    for _ in range(m):
        chosen = generator.choice(d, int(generator.integers(1, d + 1)), replace=False)
        factors = [np.ones(n, dtype=np.int64) for n in sizes]
        for a in chosen.tolist():
            low, high = np.sort(generator.integers(0, sizes[a], 2))
            factors[a][:low] = 0
            factors[a][high + 1 :] = 0
        rows.append(reduce(np.kron, factors))
    return Workload.from_matrix(np.array(rows), schema=_schema(sizes))


def _random_marginals(sizes: Sequence[int], generator: np.random.Generator) -> Workload:
    """As many different marginals as there are attributes: how many attributes, all of them never; which."""
    d = len(sizes)
    found: set[tuple[int, ...]] = set()
    while len(found) < min(d, 2**d - 2):
        k = int(generator.integers(1, d))
        found.add(tuple(sorted(generator.choice(d, k, replace=False).tolist())))
    schema = _schema(sizes)
    return assemble([Marginal(*(schema.names[a] for a in chosen)) for chosen in sorted(found)], schema)


def _permuted_ranges(n: int, generator: np.random.Generator, is_relative: bool) -> PaperWorkload:
    """A triangle R with RᵀR = WᵀW, its columns in a random order.

    By the paper's proposition 6 every strategy has the same error on R as on W, and the two million
    ranges of 2,048 cells in random order would not fit as a matrix.
    """
    plain = workload_all_ranges(n)
    weights = RELATIVE.weights(plain) if is_relative else None
    order = generator.permutation(n)
    V = plain.weighted_gram(weights)[np.ix_(order, order)]
    return PaperWorkload(Workload.from_matrix(np.linalg.cholesky(V).T), plain.shape[0], order)


def planned(
    setting: Setting,
    workload: Workload,
    method: str,
    *,
    options: Mapping[str, Any] | None = None,
    objective: TotalVariance | None = None,
) -> Plan:
    """The plan of a method, by the paper's name for it or the package's."""
    name, fixed = METHODS.get(method, (method, {}))
    if name == "fourier" and any(block.name == "rows" for block in workload.blocks):
        # Queries that name no attributes need all of the orthonormal basis, and equal noise on
        # that is equal noise on the cells.
        name = "identity"
    n = workload.shape[1]
    return design(
        workload,
        PAPER,
        method=name,
        options={**fixed, **(options or {})},
        objective=objective,
        time_limit=setting.search_seconds,
        backend=setting.backend_for(n) if name == "dense" else "numpy",
    )


def error_of(
    setting: Setting,
    *,
    workload: str,
    shape: str,
    method: str,
    seed: int = 0,
    option: str = "",
    value: Plain = None,
) -> Iterator[Row]:
    """One row: the error of a method on a workload, the bound, and how long it took to plan.

    Args:
        option: an option of the method, with its value.
    """
    question = paper_workload(workload, shape, seed)
    began = time.process_time()
    plan = planned(setting, question.workload, method, options={option: value} if option else None)
    found = plan.certificate
    yield {
        "case": shape if seed < 2 else f"{shape}, draw {seed}",
        "cells": n_cells(shape),
        "queries": question.n_queries,
        "error": math.sqrt(found.achieved / question.n_queries),
        "lower_bound": math.sqrt(found.lower_bound / question.n_queries),
        "over_bound": math.sqrt(found.achieved / found.lower_bound),
        "percent": 100 * (math.sqrt(found.achieved / found.lower_bound) - 1),
        "panel": f"{workload}, {n_cells(shape):,} cells",
        "seconds": time.process_time() - began,
        "note": plan.note,
        IS_CUT: plan.ended == "deadline",
    }


def variances(plan: Plan, question: PaperWorkload, shape: str) -> Array:
    """The variance of every query, permuted ranges included."""
    if question.order is None:
        assert plan.stderr is not None
        return np.asarray(plan.stderr**2)
    back = np.argsort(question.order)
    strategy: Any = plan.fixed_strategy()
    covariance = strategy.covariance[np.ix_(back, back)]
    return np.asarray(workload_all_ranges(n_cells(shape)).operator.quadratic(covariance))


def true_answers(question: PaperWorkload, counts: Array) -> Array:
    """The true answers on a table of counts; of permuted ranges those of the ranges."""
    plain = question.workload if question.order is None else workload_all_ranges(len(counts))
    return np.asarray(plain.operator.apply(counts.astype(float)))
