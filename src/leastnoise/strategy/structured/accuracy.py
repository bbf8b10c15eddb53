"""How accurate the answers to a workload are: functions of the workload as a strategy sees it.

A product of a million rows often has one variance, or one for each value of a single axis: batches are
summed up from those, and only who asks for one number per query gets a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from leastnoise.core.operators import Array, require_room
from leastnoise.query import Products, ProductTerm, Workload
from leastnoise.strategy import laplace_tails
from leastnoise.strategy.measured import Spread
from leastnoise.strategy.structured.view import View

# Bounds on Σ|g|, Σg² and max|g|, g being how the measured integers enter each row of a product.
GainNorms = Callable[[View, ProductTerm], tuple[Array, Array, Array]]

# How every measured integer enters the first rows of a product, some rows at a time.
Gains = Callable[[View, ProductTerm, tuple[int, ...]], Iterator[Array]]

# Beyond this many coefficients of noise in answers, intervals with Laplace noise follow from their norms.
_MOST_GAINS = 2**26


def variances(view: View, workload: Workload) -> Array:
    """The variance of the answer to each query, (m,)."""
    require_room(workload.shape[0], 1, "the variances")
    result = np.empty(workload.shape[0])
    for number, term in enumerate(view.products.terms):
        result[_rows(term)] = product_variances(view, number)
    return result


def product_variances(view: View, number: int) -> Array | float:
    """The variance of every row of a product, in the order of its labels; one number where all are equal."""
    constant = float(view.constant_variances[number])
    if not math.isnan(constant):
        return constant
    term = view.products.terms[number]
    values = np.broadcast_to(view.term_variances(term), row_shape(view.products, term))
    return term.in_workload_order(values.reshape(-1))


def spreads(view: View, workload: Workload) -> list[Spread]:
    """Standard errors of each batch of a workload, from the variances that occur in it."""
    constant, sums = view.constant_variances, view.variance_sums
    blocks = np.array([term.block for term in view.products.terms])
    result = []
    for number, block in enumerate(workload.blocks):
        mine = np.flatnonzero(blocks == number)
        # Variances that occur, and how often: a cross table has one.
        values, counts = [constant[mine]], [np.array([view.products.terms[j].n_rows for j in mine])]
        for j in mine[np.isnan(constant[mine])]:
            term = view.products.terms[j]
            varied = view.term_variances(term).reshape(-1)
            values.append(varied)
            counts.append(np.full(len(varied), term.n_rows // len(varied)))
        v, n = np.concatenate(values), np.concatenate(counts)
        known = ~np.isnan(v)
        mean = math.fsum(sums[mine]) / block.n_rows
        low, high = math.sqrt(v[known].min()), math.sqrt(v[known].max())
        result.append(Spread(low, math.sqrt(_median(v[known], n[known])), high, mean))
    return result


def total_variance(view: View, workload: Workload, weights: Sequence[Array]) -> float:
    """Σ_j w_j v_j; for every batch its weights, one for all of its queries or one each."""
    if all(len(own) == 1 for own in weights):
        blocks = np.array([term.block for term in view.products.terms])
        return math.fsum(view.variance_sums * np.concatenate(weights)[blocks])
    w = workload.per_query(weights, "the weights")
    return math.fsum(w * variances(view, workload))


def total_stderr(view: View, workload: Workload, weights: Sequence[Array]) -> float:
    """Σ_j w_j √v_j; for every batch its weights, one for all of its queries or one each."""
    if not all(len(own) == 1 for own in weights):
        w = workload.per_query(weights, "the weights")
        return math.fsum(w * np.sqrt(variances(view, workload)))
    constant = view.constant_variances
    totals = []
    for number, term in enumerate(view.products.terms):
        # Variances that occur in a product occur equally often.
        v = view.term_variances(term) if np.isnan(constant[number]) else constant[number : number + 1]
        totals.append(float(weights[term.block][0]) * term.n_rows * float(np.sqrt(v).mean()))
    return math.fsum(totals)


def largest_share(view: View, workload: Workload, caps: Sequence[Array]) -> float:
    """max_j v_j/c_j; for every batch its caps, one for all of its queries or one each."""
    if all(len(own) == 1 for own in caps):
        # Not by `spreads`, which sort all variances for their median: five times the work.
        constant = view.constant_variances
        largest = np.zeros(len(workload.blocks))
        for number, term in enumerate(view.products.terms):
            same = constant[number]
            most = view.term_variances(term).max() if np.isnan(same) else same
            largest[term.block] = max(largest[term.block], most)
        with np.errstate(over="ignore"):
            # Squares of standard errors, which is what targets are compared with.
            return max(math.sqrt(most) ** 2 / float(own[0]) for most, own in zip(largest, caps, strict=True))
    c = workload.per_query(caps, "the caps")
    with np.errstate(over="ignore"):
        return float((variances(view, workload) / c).max(initial=0))


def laplace_half_widths(
    view: View,
    workload: Workload,
    *,
    gains: Gains,
    gain_norms: GainNorms,
    n_measured: int,
    scale: int,
    alpha: float,
) -> Array:
    """t with P(|e_j| > t_j) ≤ α for the error e_j of every answer, (m,), for Laplace noise."""
    result = np.empty(workload.shape[0])
    shown_rows = [_shown(view, term) for term in view.products.terms]
    work = sum(math.prod(shown) for shown in shown_rows) * n_measured
    for term, shown in zip(view.products.terms, shown_rows, strict=True):
        shape = row_shape(view.products, term)
        if work > _MOST_GAINS:
            norms = [np.broadcast_to(norm, shape) for norm in gain_norms(view, term)]
            values = laplace_tails.half_widths_by_norms(*norms, scale=scale, alpha=alpha)
        else:
            halves = laplace_tails.half_widths(partial(gains, view, term, shown), scale=scale, alpha=alpha)
            values = np.broadcast_to(halves.reshape(shown), shape)
        result[_rows(term)] = term.in_workload_order(values.reshape(-1))
    return result


def _shown(view: View, term: ProductTerm) -> tuple[int, ...]:
    """How many rows of each kind of a product differ: one where all rows have the same variance."""
    return tuple(
        1 if view.is_constant(a, k) else view.products.kinds[a][k].n_rows
        for a, k in zip(term.places, term.kinds, strict=True)
    )


def row_shape(products: Products, term: ProductTerm) -> tuple[int, ...]:
    """How many rows a product has along each of its axes."""
    return tuple(products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True))


def _rows(term: ProductTerm) -> slice:
    """The queries of the workload that a product is."""
    return slice(term.start, term.start + term.n_rows)


def _median(values: Array, counts: Array) -> float:
    """The middle one of values that occur so often."""
    order = np.argsort(values)
    rising = np.cumsum(counts[order])
    return float(values[order][np.searchsorted(rising, rising[-1] / 2)])
