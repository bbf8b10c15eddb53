"""What methods for products have in common: which requests they can serve, and numbers for each product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.bounds import per_term
from leastnoise.core.errors import LeastnoiseError
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.resources import Needs, matrices, products
from leastnoise.planning.method import Request
from leastnoise.query import Products, TotalVariance, products_of

# Counts of one query beyond this many could neither be measured nor published.
MAX_TABLE = 2**32

NO_PRODUCTS = (
    "it needs products over attributes; a matrix over all cells is not one, nor is a condition that ties "
    "attributes in crossing orders"
)


@dataclass(frozen=True, eq=False)
class ProductRequest:
    """A request as products, with a weight and a cap for each.

    Attributes:
        weights: w, (products,).
        caps: c, (products,), ∞ where there is none; None where the objective has none.
    """

    products: Products
    weights: Array
    caps: Array | None


def refuse_unstructured(request: Request) -> str | None:
    """The reason why a request is not about products, or None."""
    objective = request.objective
    if isinstance(objective, TotalVariance) and objective.relative_to is not None:
        return "it takes one weight for each batch of queries, and relative_to gives each query its own"
    if any(len(caps) > 1 for caps in objective.batch_caps(request.workload) or []):
        return "it takes one target for each batch of queries, and expected= gives each query its own"
    try:
        products = products_of(request.workload)
    except LeastnoiseError as error:
        return str(error)
    if products is None:
        return NO_PRODUCTS
    largest = max(term.n_rows for term in products.terms)
    if largest > MAX_TABLE:
        return (
            f"one of its queries asks for {in_figures(largest)} counts, and at most {MAX_TABLE:,} are planned"
        )
    weights = per_term(objective.batch_weights(request.workload), products)
    counted = [term for term, w in zip(products.terms, weights.tolist(), strict=True) if w > 0]
    if counted and all(products.is_zero(term) for term in counted):
        return "the queries that have a weight count nobody, whatever the table holds; leave them out"
    return None


def product_request(request: Request) -> ProductRequest:
    """The products of a request that `refuse_unstructured` has let pass."""
    products = products_of(request.workload)
    assert products is not None
    objective = request.objective
    caps = objective.batch_caps(request.workload)
    weights = request.term_weights
    if weights is None:
        weights = per_term(objective.batch_weights(request.workload), products)
    return ProductRequest(products, weights, None if caps is None else per_term(caps, products))


def largest_axis(request: Request) -> int:
    """How many values the largest axis has: matrices are as large as that, however many cells there are."""
    return max(product_request(request).products.sizes, default=1)


def axis_needs(request: Request, *, held: float, first: float, step: float) -> Needs:
    """The needs of a method whose matrices are those of single axes, where more than plain counts are asked.

    Args:
        held, first, step: matrices and products for an axis, as in `dense_needs`.
    """
    products_asked = product_request(request).products
    after = _PAIRS_HELD if request.privacy.relation.replaces else _AFTER_HELD
    memory = work = between = last = 0.0
    for size, kinds in zip(products_asked.sizes, products_asked.kinds, strict=True):
        rows = [min(kind.operator.shape[0], size) / size for kind in kinds if not kind.is_identity]
        if not rows:
            continue
        # Kinds of a row or two add next to nothing: 8 of them took 19 matrices, as one did.
        full = max(sum(rows), 1.0)
        memory += matrices(max(held, after) + _MORE_HELD * (full - 1), size, size)
        work += products(first * full, size, size)
        between = max(between, products(step, size, size))
        last += products(_AFTER_PRODUCTS * full, size, size)
    on_device = request.backend != "numpy"
    return Needs(memory, 0.0 if on_device else work, 0.0 if on_device else between, last)


# Matrices of an axis held at once by rounding and proof, also where columns are compared in pairs, and
# products that they take; and matrices more for each further kind of as many rows as values.
_MORE_HELD = 3.0
_AFTER_HELD = 11.0
_PAIRS_HELD = 22.0
_AFTER_PRODUCTS = 20.0


def table_sizes(products: Products) -> Array:
    """How many queries every product has."""
    return np.array([float(term.n_rows) for term in products.terms])


def common_axes(products: Products) -> tuple[int, ...]:
    """The axes of which every product asks the same: they factor out of the workload."""
    first = products.terms[0]
    common = dict(zip(first.places, first.kinds, strict=True))
    for term in products.terms[1:]:
        if not common:
            break
        mine = dict(zip(term.places, term.kinds, strict=True))
        common = {place: kind for place, kind in common.items() if mine.get(place) == kind}
    return tuple(sorted(common))


def uniform(products: Products) -> tuple[Array, ...]:
    """Equal weights of the values of every axis; one stands for all of an axis that nothing mentions."""
    sizes = zip(products.sizes, products.kinds, strict=True)
    return tuple(np.ones(size if kinds else 1) for size, kinds in sizes)
