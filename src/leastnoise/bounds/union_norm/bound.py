"""The bound itself: what is asked of all axes, from what is asked of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leastnoise.bounds.union_norm.axes import SplitAxis
from leastnoise.bounds.union_norm.axis_questions import Questions, without_alike
from leastnoise.bounds.union_norm.few_directions import Asked
from leastnoise.bounds.union_norm.truncation import MOST_TOGETHER, MOST_WORK, NOTHING, sum_of_norms
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import MAX_PAIRS, Lattice, Products


def union_norm_below(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    row_weights: Mapping[tuple[int, int], Array] | None = None,
) -> float:
    """A lower bound on F(w, q) = ‖ diag(√w) W diag(√q) ‖_*.

    It is F itself, but for rounding, where one axis or one product is asked, for marginals under equal
    weights, and where those combinations of values that products tell apart are at most 1,500. Axes that all
    products ask alike lose nothing.

    Args:
        weights: w, one of every product; zeros are allowed.
        q: weights of the values of every axis; zeros are allowed.
        row_weights: for (axis, kind) the weights of that kind's rows, whose Gram matrix is then
            Wᵀ diag(·) W; all are 1 unless given.

    Guarantee:
        The bound holds up to floating-point rounding of a few matrix products, like those of `nuclear_norm`.
        Where matrices have to be inverted, what rounding may add is taken off.

    Raises:
        DesignError: if the weights do not fit the products.
        TooLargeError: if a product crosses so many axes that their subsets cannot be listed.
    """
    norm, totals = _norm_and_totals(products, weights, q, row_weights or {})
    return norm * math.exp(math.fsum(0.5 * math.log(total) for total in totals)) if norm > 0 else 0.0


def union_bound(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    row_weights: Mapping[tuple[int, int], Array] | None = None,
) -> float:
    """F(w, q)²/Π_a Σq_a, with F from `union_norm_below`.

    Guarantee:
        At privacy profile 1, no Gaussian noise has less total variance, up to rounding as there.
    """
    norm, _ = _norm_and_totals(products, weights, q, row_weights or {})
    return norm * norm


def _checked(
    products: Products, weights: Array, q: Sequence[Array], row_weights: Mapping[tuple[int, int], Array]
) -> list[Array]:
    """The weights of the axes as floats, after checking that all fit."""
    if weights.shape != (len(products.terms),) or len(q) != len(products.axes):
        raise DesignError(
            f"a bound on {len(products.terms):,} products of {len(products.axes)} attributes needs a weight "
            f"of each product and weights of each attribute's values, got {weights.size:,} and {len(q)}"
        )
    floats = [np.asarray(of_axis, dtype=float) for of_axis in q]
    for place, (axis, of_axis) in enumerate(zip(products.axes, floats, strict=True)):
        if of_axis.shape != (axis.size,):
            raise DesignError(
                f"the weights of {' and '.join(axis.names)} must be {axis.size:,} numbers, "
                f"got {of_axis.size:,}"
            )
        for kind, block in enumerate(products.kinds[place]):
            given = row_weights.get((place, kind))
            if given is not None and np.shape(given) != (block.n_rows,):
                raise DesignError(
                    f"a block of {block.n_rows:,} queries of {' and '.join(axis.names)} needs a weight of "
                    f"each, got {np.size(given):,}"
                )
    for numbers in (weights, *floats, *row_weights.values()):
        if not (np.isfinite(numbers).all() and (np.asarray(numbers) >= 0).all()):
            raise DesignError("the weights behind a bound must be finite, zero or more")
    return floats


def _norm_and_totals(
    products: Products, weights: Array, q: Sequence[Array], row_weights: Mapping[tuple[int, int], Array]
) -> tuple[float, list[float]]:
    """A lower bound on F for q that add up to 1 on every axis, and what they add up to."""
    weights = np.asarray(weights, dtype=float)
    q = _checked(products, weights, q, row_weights)
    totals = [math.fsum(of_axis) for of_axis in q]
    unit = float(weights.max(initial=0))
    if unit <= 0 or min(totals, default=1.0) <= 0:
        return 0.0, totals
    norm = _of_marginals(products, weights / unit, q) if not row_weights else None
    if norm is None:
        terms: dict[Asked, float] = {}
        for term, weight in zip(products.terms, weights.tolist(), strict=True):
            if weight > 0:
                asked = tuple(zip(term.places, term.kinds, strict=True))
                terms[asked] = terms.get(asked, 0.0) + weight / unit
        alike, rest = without_alike(Questions(products, q, row_weights, terms))
        norm = alike * _of_split_axes(rest)
    return norm * math.sqrt(unit), totals


def _of_marginals(products: Products, weights: Array, q: Sequence[Array]) -> float | None:
    """F in closed form for marginals under equal weights; None for anything else.

    For every set s of axes K has the eigenvalue Σ_{t ⊇ s} w_t Π_{a in t∖s} 1/n_a, over Π_{a in s} n_a, and
    Π_{a in s} (n_a − 1) times. Values whose weight is zero do not count.
    """
    counted = [of_axis[of_axis > 0] for of_axis in q]
    are_equal = all((of_axis == of_axis[0]).all() for of_axis in counted)
    if not (products.are_marginals and are_equal) or sum(2 ** len(s) for s in products.sets) > MAX_PAIRS:
        return None
    sizes = np.array([float(len(of_axis)) for of_axis in counted])
    lattice = Lattice(products.sets, len(sizes))
    inside = [np.ones(axes.shape) for _, axes in lattice.groups]
    outside = [1 / sizes[axes] for _, axes in lattice.groups]
    eigenvalues = weights @ lattice.matrix(inside, outside)
    return math.fsum(np.sqrt(eigenvalues) * lattice.product_over((sizes - 1) / np.sqrt(sizes)))


def _of_split_axes(questions: Questions) -> float:
    """The bound on what is asked of axes in different ways."""
    from scipy import sparse

    axes: dict[int, SplitAxis] = {}
    slack = 1.0
    names: dict[tuple[int, int], tuple[int, int]] = {}
    for a, mixtures in questions.mixtures.items():
        axes[a], kept = questions.split(a)
        slack *= math.sqrt(kept) / axes[a].stretch
        names |= {(a, kind): (a, place) for place, kind in enumerate(mixtures)}
    terms = [tuple(names[part] for part in asked) for asked in questions.terms]
    weights = np.array(list(questions.terms.values()))
    # Axes where e is by itself: one number for it, one for all else, and no cut that loses anything.
    simple = {a for a, axis in axes.items() if len(axis.roots) == 1 and axis.across[0] <= NOTHING}
    lattice = Lattice([tuple(a for a, _ in term if a in simple) for term in terms], max(axes, default=0) + 1)
    at_e, others = np.ones(lattice.n_axes), np.ones(lattice.n_axes)
    for a in simple:
        at_e[a] = axes[a].roots[0][0, 0]
        others[a] = max(float(axes[a].norms[0]) - at_e[a], 0.0)
    inside = [np.ones(group.shape) for _, group in lattice.groups]
    per_set = lattice.matrix(inside, [at_e[group] ** 2 for _, group in lattice.groups])
    general = [tuple(part for part in term if part[0] not in simple) for term in terms]
    asked = list(dict.fromkeys(general))
    number = {term: place for place, term in enumerate(asked)}
    sums = sparse.csr_array(
        (weights, (np.array([number[term] for term in general]), np.arange(len(terms)))),
        (len(asked), len(terms)),
    )
    # Column r: what is asked of the other axes by all products that mention the simple axes of set r.
    columns = sparse.csc_array(sums @ per_set)
    scale = lattice.product_over(others) ** 2
    work = math.inf if questions.are_few(MOST_TOGETHER) else MOST_WORK
    return slack * _sum_over_sets(axes, asked, columns, scale, work)


def _sum_over_sets(
    axes: dict[int, SplitAxis], asked: list[Asked], columns: Any, scale: Array, work: float
) -> float:
    """Σ_r F of column r times its scale, those that ask the same products together."""
    columns.sort_indices()
    starts, rows = columns.indptr, columns.indices
    data = columns.data * np.repeat(scale, np.diff(starts))
    # Sets that leave nothing to ask of the other axes are most of them.
    is_last = (np.diff(starts) == 1) & (rows[np.minimum(starts[:-1], len(rows) - 1)] == _place(asked, ()))
    total = [math.fsum(np.sqrt(data[starts[:-1][is_last]]))]
    alike: dict[bytes, list[int]] = {}
    for r in np.flatnonzero(~is_last & (scale > 0)).tolist():
        alike.setdefault(rows[starts[r] : starts[r + 1]].tobytes(), []).append(r)
    for same in alike.values():
        terms = [asked[row] for row in rows[starts[same[0]] : starts[same[0] + 1]]]
        weights = np.stack([data[starts[r] : starts[r + 1]] for r in same], axis=1)
        # The first set is the empty one, which all products have in common: it may take as much as all.
        total.append(sum_of_norms(axes, terms, weights, work if same[0] == 0 else work / len(alike)))
    return math.fsum(total)


def _place(asked: list[Asked], term: Asked) -> int:
    return asked.index(term) if term in asked else -1
