"""Whether queries without a weight or target follow from those that have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.numerical_rank import directions_of, is_within_reach
from leastnoise.core.operators import MAX_ENTRIES, Array, Matrix, Stack, is_whole_space, require_room
from leastnoise.query.objective import MaxVariance, Objective
from leastnoise.query.products import Products, products_of
from leastnoise.query.workload import Workload


def check_spanned(workload: Workload, objective: Objective) -> None:
    """Return if every query without a weight or cap is a linear combination of queries that have one.

    Otherwise any noise would do for it, and no plan would be better than another. For the objectives "total"
    and "absolute" methods find this out themselves.

    Raises:
        DesignError: naming the query.
    """
    if objective.kind in ("total", "absolute"):
        return
    name = first_not_spanned(workload, objective)
    if name is not None:
        # A mean is measured as parts that have names of their own; people know the name that they gave.
        made = (one.name for one in workload.ratios if name in (one.numerator, one.denominator, *one.further))
        raise _not_spanned(next(made, name), objective)


def first_not_spanned(workload: Workload, objective: Objective) -> str | None:
    """The name of a query without a weight or cap that is no linear combination of queries with one, or None.

    With too many cells for dense linear algebra, a query is named if the simple test on products does not
    show that it is such a combination.

    Raises:
        TooLargeError: if the workload is no union of products and has too many cells to compare queries.
    """
    w = objective.batch_weights(workload)
    c = objective.batch_caps(workload) or [np.full(len(weights), np.inf) for weights in w]
    is_total = objective.kind != "largest"
    in_batches = [np.isfinite(caps) | (is_total & (weights > 0)) for caps, weights in zip(c, w, strict=True)]
    if all(counted.all() for counted in in_batches):
        return None
    products = products_of(workload)
    open_to_doubt = None if products is None else _not_seen_to_be_spanned(products, in_batches)
    if products is not None and open_to_doubt is None:
        # Without a row over all cells: at 833,280 of them, 193 rows take a minute.
        return None
    if _too_many(workload):
        if open_to_doubt is None:
            raise TooLargeError(
                f"queries over {workload.shape[1]:,} cells can be compared only if they are products",
                field="workload",
                given=workload.shape[1],
                remedy="give every query a target or a weight",
            )
        return workload.blocks[open_to_doubt].name
    counts = workload.per_query(in_batches, "the caps")
    inside, outside = [], []
    start = 0
    for block in workload.blocks:
        mine = counts[start : start + block.n_rows]
        start += block.n_rows
        if mine.all():
            inside.append(block.operator.basis())
        elif not mine.any():
            outside.append((block.name, block.operator.basis()))
        else:
            require_room(*block.operator.shape, "the queries")
            inside.append(Matrix(block.operator.rows(np.flatnonzero(mine))))
            outside.append((block.name, Matrix(block.operator.rows(np.flatnonzero(~mine)))))
    spanning = Stack(inside).basis()
    if is_whole_space(spanning):
        return None
    require_room(*spanning.shape, "the queries")
    Q = directions_of(spanning.dense())
    for name, operator in outside:
        require_room(*operator.shape, "the queries")
        rows = operator.dense()
        if not is_within_reach(rows - (rows @ Q) @ Q.T, rows).all():
            return name
    return None


def _not_spanned(name: str, objective: Objective) -> DesignError:
    if isinstance(objective, MaxVariance):
        lacks, remedy = "weight 0", "give it a weight or leave it out"
    else:
        lacks = "no target"
        remedy = "give it a target (stderr= or within=), leave it out, or set an epsilon for the whole batch"
    return DesignError(
        f"query {name!r} has {lacks} and does not follow from the queries that have one, so "
        "any noise would do for it",
        field="stderr",
        given=name,
        remedy=remedy,
    )


def _too_many(workload: Workload) -> bool:
    """Whether rows over all cells are too many for dense linear algebra."""
    m, n = workload.shape
    return min(m, n) * n > MAX_ENTRIES


def _not_seen_to_be_spanned(products: Products, counted: Sequence[Array]) -> int | None:
    """The first batch without weight of which some product is not a sum of rows of one that counts, or None.

    On each axis, a counted product must ask for the same rows or for plain counts. This is sufficient and not
    necessary: combinations of several queries are not tried.
    """
    inside = [
        dict(zip(term.places, term.kinds, strict=True))
        for term in products.terms
        if counted[term.block].all()
    ]
    for term in products.terms:
        if counted[term.block].all():
            continue
        mine = dict(zip(term.places, term.kinds, strict=True))
        if not any(_asks_as_much(other, mine, products) for other in inside):
            return term.block
    return None


def _asks_as_much(other: Mapping[int, int], mine: Mapping[int, int], products: Products) -> bool:
    """Whether one product's rows are sums of another's: of every axis it asks the same, or plain counts."""
    for place, kind in mine.items():
        if place not in other:
            return False
        if other[place] != kind and not products.kinds[place][other[place]].is_identity:
            return False
    # Axes that only the other mentions are added up: its rows must add up to everyone.
    return all(products.kinds[place][other[place]].is_identity for place in other.keys() - mine.keys())
