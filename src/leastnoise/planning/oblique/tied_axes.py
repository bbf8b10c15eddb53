"""Axes put together: two small attributes as one, where a split of each would waste too much.

Where very different things are asked of two attributes together, as sums of one by the values of the other,
no split of each suits all. Taken as one axis they are a problem of one axis, solved to its optimum: what is
wasted is only what the other axes waste. The price is an array of the size of the combinations, squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import AllOnes, Array, Identity, Kronecker, Operator
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.query import Axis, AxisRows, Products


def tied(products: Products, first: int, second: int) -> Products:
    """The same products with two axes as one, in the place of the first; first < second."""
    one, other = products.axes[first], products.axes[second]
    both = Axis(one.names + other.names, one.sizes + other.sizes, one.places + other.places)
    known: dict[tuple[int | None, int | None], int] = {}
    terms = []
    for term in products.terms:
        asked = dict(zip(term.places, term.kinds, strict=True))
        factors = dict(zip(term.places, term.axis_factors, strict=True))
        key = (asked.pop(first, None), asked.pop(second, None))
        if key != (None, None):
            asked[first] = known.setdefault(key, len(known))
            # Those of the second axis are multiplied behind those of the first.
            factors[first] = factors.get(first, ()) + factors.pop(second, ())
        mentioned = sorted(asked)
        terms.append(
            term._replace(
                places=tuple(a - (a > second) for a in mentioned),
                kinds=tuple(asked[a] for a in mentioned),
                axis_factors=tuple(factors[a] for a in mentioned),
            )
        )
    kinds = tuple(_together(products, first, second, a, b) for a, b in known)
    axes = [both if a == first else axis for a, axis in enumerate(products.axes) if a != second]
    of_axes = [kinds if a == first else own for a, own in enumerate(products.kinds) if a != second]
    return replace(products, axes=tuple(axes), kinds=tuple(of_axes), terms=tuple(terms))


def _together(products: Products, first: int, second: int, a: int | None, b: int | None) -> AxisRows:
    """Rows of both axes; one that is not mentioned is added up."""
    parts: list[Operator] = [
        AllOnes(products.axes[axis].size) if kind is None else products.kinds[axis][kind].operator
        for axis, kind in ((first, a), (second, b))
    ]
    if all(isinstance(part, Identity) for part in parts):
        return AxisRows(Identity(math.prod(part.shape[1] for part in parts)))
    return AxisRows(Kronecker(parts))


def tied_where_useful(
    products: Products,
    weights: Array | Sequence[float],
    *,
    max_size: int = 400,
    worth: float = 0.005,
    deadline: Deadline = NEVER,
) -> Products:
    """The products with pairs of axes tied as long as some pair lowers the total by at least this share.

    Args:
        weights: of the products.
        max_size: combinations of values that a tied axis may have.
        worth: below it, axes are left as they are, because blocks of smaller axes are quicker to measure.
        deadline: when no further pair is tried.
    """

    def total(tried: Products) -> float:
        return split_products(tried, weights, tol=_TRIAL_TOL, deadline=deadline).total

    best = total(products)
    while True:
        trials: list[tuple[float, int, Products]] = []
        for first, second in _pairs(products, max_size):
            if deadline.is_past:
                break
            candidate = tied(products, first, second)
            trials.append((total(candidate), len(trials), candidate))
        if not trials or min(trials)[0] > best * (1 - worth):
            break
        best, _, products = min(trials)
    if deadline.is_past:
        return products
    # Pairs may gain nothing where all together do.
    whole = _all_tied(products, max(max_size, _MAX_WHOLE))
    if whole is not None and total(whole) <= best * (1 - worth):
        return whole
    return products


# Combinations of values of all axes together, at most, where that one trial is made.
_MAX_WHOLE = 1_024

# The relative fall of the total below which the sweeps of a trial end.
_TRIAL_TOL = 1e-4

# Pairs of axes tried at most, those of fewest values first.
_MAX_TRIALS = 12


def _all_tied(products: Products, max_size: int) -> Products | None:
    """All axes that something mentions as one; None if there is one already, or it would be too large."""
    mentioned = [place for place, kinds in enumerate(products.kinds) if kinds]
    if len(mentioned) < 2 or math.prod(products.sizes[place] for place in mentioned) > max_size:
        return None
    while len(mentioned) > 1:
        products = tied(products, mentioned[0], mentioned[1])
        mentioned = [place for place, kinds in enumerate(products.kinds) if kinds]
    return products


def _pairs(products: Products, max_size: int) -> list[tuple[int, int]]:
    """Pairs of axes that some product mentions together, at least one of them asked in several ways."""
    together = {pair for places in products.sets for pair in combinations(places, 2)}
    sizes = products.sizes
    found = [
        pair
        for pair in together
        if sizes[pair[0]] * sizes[pair[1]] <= max_size and any(len(products.kinds[a]) > 1 for a in pair)
    ]
    return sorted(found, key=lambda pair: (sizes[pair[0]] * sizes[pair[1]], pair))[:_MAX_TRIALS]
