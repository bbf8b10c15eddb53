"""The lower bound of a plan over products: dual weights that are products themselves.

Weights of all cells, or of all queries, cannot be listed for 10^40 cells. They do not have to: q = ⊗_a q_a,
one factor for every axis, and p_j ⊗_a π_{j,a}, a number for every product of queries times weights of the
rows that it asks of each axis, are weights like any others. With F(p, q) of `union_norm`, no Gaussian noise
of privacy profile at most μ² answers the workload with less than

    total variance               F(w, q)² / (μ² Π_a Σq_a)
    largest v_j/c_j              F(p, q)² / (μ² Π_a Σq_a Σ_j p_j c_j)                                    (1)
    total variance within caps   F(w + p, q)² / (μ² Π_a Σq_a) − Σ_j p_j c_j

where Σ_j runs over queries. This is the bound of `certificate`, whatever the number of cells. Sums of
absolute errors have such a bound too: see `absolute_error` and `absolute_unions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leastnoise.bounds.absolute_error import plain_stderr_bound, stderr_sum_bound, table_stderr_bound
from leastnoise.bounds.absolute_unions import MAX_ENTRIES, n_entries, union_stderr_bound
from leastnoise.bounds.apart import apart_bound, check_apart
from leastnoise.bounds.union_norm import union_norm_below
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.operators import Array, RowScaled
from leastnoise.query import (
    MEAN_ABSOLUTE,
    Axis,
    AxisRows,
    AxisSet,
    Objective,
    Products,
    Workload,
    axes_from_plain,
    axes_to_plain,
    products_of,
    workload_of_rows,
)


@dataclass(frozen=True, eq=False)
class ProductWitness:
    """Dual weights of product form.

    Attributes:
        q: weights of the values of every axis; a single one for an axis that no query mentions.
        p: one number for every product of queries, for objectives with caps; else None.
        rows: for (product, axis), weights of the rows that the product asks of the axis, which go with p;
            ones unless given.
        axes: those that all this speaks of; unless given, those of the workload's own products.
        apart: where a record is replaced and only cross tables are asked for, weights of pairs of records by
            the axes in which they differ, () for a record beside none; they take the place of q. Else None.
    """

    q: tuple[Array, ...]
    p: Array | None = None
    rows: Mapping[tuple[int, int], Array] = field(default_factory=dict)
    axes: tuple[Axis, ...] | None = None
    apart: Mapping[AxisSet, float] | None = None

    def to_arrays(self) -> dict[str, Array]:
        """Arrays from which `product_witness_from_parts` makes it again."""
        # A table of one cell has no axes at all, and a list of nothing would be one of floats.
        sizes = np.array([len(own) for own in self.q], dtype=np.int64)
        arrays = {"q": np.concatenate([*self.q, []]), "q_sizes": sizes}
        if self.p is not None:
            arrays["p"] = self.p
        if self.rows:
            arrays["p_places"] = np.array(list(self.rows), dtype=np.int64).reshape(-1, 2)
            arrays["p_sizes"] = np.array([len(own) for own in self.rows.values()], dtype=np.int64)
            arrays["p_rows"] = np.concatenate(list(self.rows.values()))
        if self.apart is not None:
            arrays["apart"] = np.array(list(self.apart.values()), dtype=float)
            arrays["apart_sizes"] = np.array([len(s) for s in self.apart], dtype=np.int64)
            arrays["apart_axes"] = np.array([a for s in self.apart for a in s], dtype=np.int64)
        return arrays

    def axes_to_plain(self) -> list[Any] | None:
        """Plain values from which `axes_from_plain` makes the axes again."""
        return None if self.axes is None else axes_to_plain(self.axes)


def product_witness_from_parts(arrays: Mapping[str, Array], plain_axes: Any) -> ProductWitness:
    """The weights that `to_arrays` wrote; whether they fit is checked when they are used.

    Raises:
        PlanFileError: if they are no weights.
    """
    q = _cut(arrays["q"], arrays["q_sizes"])
    p = arrays.get("p")
    if p is not None and (p.ndim != 1 or p.dtype.kind != "f"):
        raise PlanFileError("the file holds dual weights that are not lists of numbers", field="witness")
    axes = None if plain_axes is None else tuple(axes_from_plain(plain_axes))
    apart = _apart_from_arrays(arrays) if "apart" in arrays else None
    if "p_places" not in arrays:
        return ProductWitness(tuple(q), p, axes=axes, apart=apart)
    places = arrays["p_places"]
    rows = _cut(arrays["p_rows"], arrays["p_sizes"])
    if places.dtype.kind != "i" or places.shape != (len(rows), 2):
        raise PlanFileError("the file holds dual weights of rows that it does not name", field="witness")
    named = zip(places.tolist(), rows, strict=True)
    return ProductWitness(tuple(q), p, {(term, place): own for (term, place), own in named}, axes, apart)


def _apart_from_arrays(arrays: Mapping[str, Array]) -> dict[AxisSet, float]:
    weights, sizes, axes = arrays["apart"], arrays["apart_sizes"], arrays["apart_axes"]
    are_lists = weights.ndim == sizes.ndim == axes.ndim == 1 and weights.dtype.kind == "f"
    are_lists = are_lists and sizes.dtype.kind == axes.dtype.kind == "i" and len(sizes) == len(weights)
    if not are_lists or (sizes < 0).any() or int(sizes.sum()) != len(axes):
        raise PlanFileError(
            "the file holds dual weights of pairs that are not lists of numbers", field="witness"
        )
    ends = np.cumsum(sizes)
    sets = [tuple(axes[e - size : e].tolist()) for e, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    return dict(zip(sets, weights.tolist(), strict=True))


def _cut(values: Array, sizes: Array) -> list[Array]:
    """One list of numbers cut into several."""
    are_lists = values.ndim == sizes.ndim == 1 and values.dtype.kind == "f" and sizes.dtype.kind == "i"
    if not are_lists or (sizes < 0).any() or int(sizes.sum()) != len(values):
        raise PlanFileError("the file holds dual weights that are not lists of numbers", field="witness")
    ends = np.cumsum(sizes)
    return [values[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


def checked_product_witness(
    witness: ProductWitness, workload: Workload, objective: Objective
) -> ProductWitness:
    """The weights, those of products without a cap set to zero, after checking that they fit.

    Raises:
        DesignError: saying what must hold.
    """
    products = _products(witness, workload)
    if products is None:
        raise DesignError(
            "weights of product form prove nothing about a matrix over all cells", field="witness"
        )
    # The bound does not depend on the weights of an axis that is always added up.
    sizes = [size if kinds else 1 for size, kinds in zip(products.sizes, products.kinds, strict=True)]
    fits = tuple(weights.shape for weights in witness.q) == tuple((size,) for size in sizes)
    for (number, place), weights in witness.rows.items():
        is_asked = 0 <= number < len(products.terms) and place in products.terms[number].places
        fits &= is_asked and weights.shape == (_kind(products, number, place).n_rows,)
    fits &= witness.p is None or witness.p.shape == (len(products.terms),)
    if not fits:
        raise DesignError(
            "the witness has weights of other axes or queries than the workload's",
            field="witness",
            remedy="certify the workload that the plan was designed for",
        )
    given = [*witness.q, *witness.rows.values(), *([] if witness.p is None else [witness.p])]
    if not all(np.isfinite(weights).all() and (weights >= 0).all() for weights in given):
        raise DesignError("the witness must hold finite weights, zero or more", field="witness")
    if witness.apart is not None:
        check_apart(witness.apart, products)
    if objective.kind == "absolute":
        return witness
    caps = objective.batch_caps(workload)
    if caps is None or witness.p is None:
        return ProductWitness(witness.q, axes=witness.axes, apart=witness.apart)
    of_terms = per_term(caps, products)
    p = np.where(np.isfinite(of_terms), witness.p, 0)
    return ProductWitness(witness.q, p, witness.rows, witness.axes, witness.apart)


def _products(witness: ProductWitness, workload: Workload) -> Products | None:
    products = products_of(workload, witness.axes)
    # Axes that leave something out would speak of fewer cells.
    if products is not None and products.n_cells != workload.shape[1]:
        raise DesignError("the witness is about other cells than the workload's", field="witness")
    return products


def _without_idle_axes(products: Products) -> Products:
    """The same products without the axes that none of them mentions."""
    kept = [place for place, kinds in enumerate(products.kinds) if kinds]
    if len(kept) == len(products.axes):
        return products
    number = {place: new for new, place in enumerate(kept)}
    terms = [term._replace(places=tuple(number[place] for place in term.places)) for term in products.terms]
    axes, kinds = [products.axes[place] for place in kept], [products.kinds[place] for place in kept]
    return Products(tuple(axes), tuple(kinds), tuple(terms))


def _kind(products: Products, number: int, place: int) -> AxisRows:
    term = products.terms[number]
    return products.kinds[place][term.kinds[term.places.index(place)]]


def with_row_weights(products: Products, rows: Mapping[tuple[int, int], Array]) -> Products:
    """The same products with rows multiplied by the roots of their weights, given by product and axis."""
    if not rows:
        return products
    kinds = [list(own) for own in products.kinds]
    known: dict[tuple[int, int, bytes], int] = {}
    terms = list(products.terms)
    for (number, place), weights in rows.items():
        term = terms[number]
        position = term.places.index(place)
        kind = products.terms[number].kinds[position]
        key = (place, kind, weights.tobytes())
        if key not in known:
            known[key] = len(kinds[place])
            scaled = RowScaled(products.kinds[place][kind].operator, np.sqrt(weights))
            kinds[place].append(AxisRows(scaled))
        changed = (*term.kinds[:position], known[key], *term.kinds[position + 1 :])
        terms[number] = term._replace(kinds=changed)
    return Products(products.axes, tuple(map(tuple, kinds)), tuple(terms))


def with_weighted_terms(products: Products, rows: Mapping[tuple[int, int], Array]) -> Products:
    """The products, and behind them the same once more, with rows multiplied by the roots of their weights.

    With weights w and then p, W of both together is diag(w + p ⊗ π)^½ W.
    """
    weighted = with_row_weights(products, rows)
    return Products(products.axes, weighted.kinds, (*products.terms, *weighted.terms))


def per_term(of_batches: Sequence[Array], products: Products) -> Array:
    """One number for every product, from those of its query.

    Raises:
        DesignError: if numbers differ within a query.
    """
    if any(len(numbers) != 1 and not (numbers == numbers[0]).all() for numbers in of_batches):
        raise DesignError(
            "queries of one batch must have one weight and one target to be taken as products",
            field="workload",
        )
    values = np.array([float(numbers[0]) for numbers in of_batches])
    return np.asarray(values[np.array([term.block for term in products.terms], dtype=np.intp)])


def product_dual_bound(
    workload: Workload, objective: Objective, witness: ProductWitness, *, unit_variance: float
) -> tuple[float, float]:
    """The line of (1) for the objective, and the size of the numbers it was computed from.

    Args:
        witness: as `checked_product_witness` gives it.
        unit_variance: the least variance of a row over its squared sensitivity: 1/μ² for Gaussian noise.
    """
    products = _products(witness, workload)
    assert products is not None
    if objective.kind == "absolute":
        w = per_term(objective.batch_weights(workload), products)
        size = MEAN_ABSOLUTE * math.sqrt(unit_variance) * _stderr_bound(products, w, witness)
        return size, size
    p = witness.p
    caps = objective.batch_caps(workload)

    def at_profile_1(weights: Array, of_rows: Products) -> float:
        if witness.apart is not None:
            return apart_bound(products, weights, witness.apart)
        # In units of the largest: the bound does not depend on the unit of q, nor on idle axes.
        q = [
            own / (own.max(initial=0) or 1.0)
            for own, kinds in zip(witness.q, of_rows.kinds, strict=True)
            if kinds
        ]
        F = union_norm_below(_without_idle_axes(of_rows), weights, q)
        return F * F / math.prod(math.fsum(weights) for weights in q) if F > 0 else 0.0

    if objective.kind == "largest":
        if p is None or caps is None or not p.any():
            return 0.0, 0.0
        p = p / p.max()
        of_rows = with_row_weights(products, witness.rows)
        size = unit_variance * (
            at_profile_1(p, of_rows) / math.fsum(allowed(p, caps, products, witness.rows))
        )
        return size, size
    w = per_term(objective.batch_weights(workload), products)
    if p is None or caps is None or not p.any():
        size = unit_variance * at_profile_1(w, products)
        return size, size
    if not witness.rows:
        size = unit_variance * at_profile_1(w + p, products)
        return size - math.fsum(allowed(p, caps, products, {})), size
    both = with_weighted_terms(products, witness.rows)
    size = unit_variance * at_profile_1(np.concatenate([w, p]), both)
    return size - math.fsum(allowed(p, caps, products, witness.rows)), size


def _stderr_bound(products: Products, weights: Array, witness: ProductWitness) -> float:
    """What no Gaussian noise of profile 1 has less than, as the weighted sum of standard errors.

    Raises:
        DesignError: if the products are too many, or the weights of another form.
    """
    if witness.p is None:
        return 0.0
    if products.are_marginals and not witness.rows and (witness.apart is not None or _are_alike(witness.q)):
        return table_stderr_bound(products, weights, witness.p, witness.apart or {(): 1.0})
    if len(products.terms) > 1 and not witness.rows and witness.apart is None:
        asked = _without_idle_axes(products)
        if n_entries(asked) <= MAX_ENTRIES:
            of_axes = [own for own, kinds in zip(witness.q, products.kinds, strict=True) if kinds]
            return union_stderr_bound(asked, weights, witness.p, of_axes)
    if len(products.terms) > 1 or witness.apart is not None:
        raise DesignError(
            "these weights of product form prove nothing about absolute errors of so many products and cells",
            field="witness",
            remedy="design the plan again",
        )
    (term,) = products.terms
    least = float(weights[0])
    for place, number in zip(term.places, term.kinds, strict=True):
        kind, q = products.kinds[place][number], witness.q[place]
        p = witness.rows.get((0, place))
        if kind.is_identity and p is None:
            least *= plain_stderr_bound(q)
        else:
            n_rows = kind.operator.shape[0]
            rows = np.ones(n_rows) if p is None else p
            least *= stderr_sum_bound(workload_of_rows(kind.operator), np.ones(n_rows), rows, q)
    return least


def _are_alike(q: Sequence[Array]) -> bool:
    """Whether the values of every axis have the same weight, and some."""
    return all((own == own[0]).all() and own[0] > 0 for own in q)


def allowed(
    p: Array, caps: Sequence[Array], products: Products, rows: Mapping[tuple[int, int], Array]
) -> Array:
    """Σ p_j c_j over the queries of every product; those without a cap have no weight."""
    of_terms = per_term(caps, products)
    found = np.zeros(len(of_terms))
    for number in np.flatnonzero(p > 0).tolist():
        term = products.terms[number]
        weights = [
            math.fsum(rows[number, place])
            if (number, place) in rows
            else float(products.kinds[place][kind].n_rows)
            for place, kind in zip(term.places, term.kinds, strict=True)
        ]
        found[number] = float(p[number]) * float(of_terms[number]) * math.prod(weights)
    return found
