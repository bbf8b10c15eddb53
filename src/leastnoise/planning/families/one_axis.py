"""The certified optimum where all attributes but one are asked value by value: tables over time, by region.

Of one attribute anything may be asked, running sums and windows and tables at once; of all others their
values, or nothing. Such a workload stays the same when values of the others are renamed, so that the optimum
has a matrix of its own over the one attribute for every set of others (`solver.one_axis`), and dual weights
that depend on the one attribute alone. What is measured is, for every set s of others,

    L_s ⊗_{a in s} (n_a I − 11ᵀ) ⊗_{a not in s} 1ᵀ

with integer rows L_s over the one attribute: blocks of products with a whole axis of several forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import AllOnes, Array
from leastnoise.planning.families.marginals import row_variances
from leastnoise.planning.families.product_requests import ProductRequest, common_axes, uniform
from leastnoise.planning.method import Request, SearchResult
from leastnoise.query import Products
from leastnoise.solver import (
    OneAxisPoint,
    OneAxisProblem,
    least_largest_over_one_axis,
    least_total_over_one_axis,
)
from leastnoise.strategy import AxisForm, BlockProposal, centred_form, identity_form, whole_form_of_rows

# Numbers of all matrices over the one axis together, at most: a gigabyte with what is made from them.
_MOST_NUMBERS = 2**24

# Values of the one axis, at most.
_MOST_VALUES = 4_096


def free_axis(products: Products, over: str | None) -> int | None:
    """The one axis that is not asked value by value, or the one that is time; None where there are others."""
    free = [a for a, kinds in enumerate(products.kinds) if not all(kind.is_identity for kind in kinds)]
    if over is not None:
        time = next((a for a, axis in enumerate(products.axes) if axis.names == (over,)), None)
        return time if time is not None and set(free) <= {time} else None
    return free[0] if len(free) == 1 else None


def serves(request: Request, question: ProductRequest) -> bool:
    """Whether a request is of this kind, and small enough."""
    products = question.products
    axis = free_axis(products, request.over)
    if axis is None or request.privacy.relation.replaces or request.objective.kind == "total-within-caps":
        return False
    size = products.sizes[axis]
    if size > _MOST_VALUES or sum(2 ** len(s) for s in products.sets) * size > _MOST_NUMBERS:
        return False
    lattice, _ = row_variances(products, (axis, *_common(products, axis)))
    return len(lattice.subsets) * size**2 <= _MOST_NUMBERS


def find(request: Request, question: ProductRequest) -> SearchResult:
    """The optimum of a request that `serves` has let pass."""
    products = question.products
    axis = free_axis(products, request.over)
    assert axis is not None
    common = _common(products, axis)
    lattice, A = row_variances(products, (axis, *common))
    rows = [_rows(products, j, axis) for j in range(len(products.terms))]
    counts = np.array([term.n_rows / len(W) for term, W in zip(products.terms, rows, strict=True)])
    problem = OneAxisProblem(rows, A.toarray(), counts)
    watch = Watch.starting(request.deadline.left, request.progress)
    if request.objective.kind == "largest":
        assert question.caps is not None
        found = least_largest_over_one_axis(problem, question.caps, tol=request.tol / 2, watch=watch)
    else:
        found = least_total_over_one_axis(problem, question.weights, tol=request.tol / 2, watch=watch)
    proposal = _proposal(request, products, axis, common, lattice.subsets, problem, found)
    q = list(uniform(products))
    if products.kinds[axis]:
        q[axis] = found.q
    witness = ProductWitness(tuple(q))
    if request.objective.kind == "largest":
        witness = _with_queries(witness, products, axis, found)
    name = " and ".join(products.axes[axis].names)
    note = (
        f"one matrix over {name} for each of {len(proposal.blocks):,} sets of other attributes, a fixed "
        f"point in {found.steps} steps"
    )
    return SearchResult(proposal, witness, "stopped", note, found.ended)


def _common(products: Products, axis: int) -> tuple[int, ...]:
    return tuple(a for a in common_axes(products) if a != axis)


def _rows(products: Products, term: int, axis: int) -> Array:
    """What a product asks of the one axis: its rows, or their sum."""
    one = products.terms[term]
    asked = dict(zip(one.places, one.kinds, strict=True)).get(axis)
    size = products.sizes[axis]
    return (AllOnes(size) if asked is None else products.kinds[axis][asked].operator).dense()


def _with_queries(
    witness: ProductWitness, products: Products, axis: int, found: OneAxisPoint
) -> ProductWitness:
    """Dual weights of cells together with those of queries, row by row of the one axis."""
    p = np.zeros(len(products.terms))
    of_rows = {}
    for j, (term, own) in enumerate(zip(products.terms, found.p, strict=True)):
        largest = float(own.max(initial=0.0))
        p[j] = largest
        if axis in term.places and largest > 0:
            of_rows[j, axis] = own / largest
    return ProductWitness(witness.q, p, of_rows)


def _proposal(
    request: Request,
    products: Products,
    axis: int,
    common: tuple[int, ...],
    subsets: Sequence[tuple[int, ...]],
    problem: OneAxisProblem,
    found: OneAxisPoint,
) -> BlockProposal:
    mentioned = {a for s in products.sets for a in s} | {axis}
    form_of = partial(_form, request, products, axis)
    forms_of_axis: list[AxisForm] = []
    known: dict[bytes, int] = {}
    blocks, shares, chosen = [], [], []
    for number, s in enumerate(subsets):
        root = found.roots[number]
        share = float((root**2).sum(axis=0).max())
        asked = [problem.rows[j] for j in np.flatnonzero(problem.shares[:, number]).tolist()]
        if share <= 0 or any(products.sizes[a] == 1 for a in s):
            continue
        form = form_of(root / math.sqrt(share), asked)
        key = b"" if form.rows is None else form.rows.astype(str).tobytes() + str(form.rows.shape).encode()
        place = known.setdefault(key, len(forms_of_axis))
        if place == len(forms_of_axis):
            forms_of_axis.append(form)
        blocks.append((s, (0,) * len(s)))
        shares.append(share)
        chosen.append(tuple(place if a == axis else 0 for a in sorted((axis, *common))))
    forms = [
        tuple(forms_of_axis)
        if a == axis
        else ()
        if a not in mentioned
        else (identity_form(size) if a in common else centred_form(size),)
        for a, size in enumerate(products.sizes)
    ]
    return BlockProposal(products.axes, tuple(forms), tuple(blocks), np.array(shares), whole=tuple(chosen))


def _form(request: Request, products: Products, axis: int, root: Array, asked: Sequence[Array]) -> AxisForm:
    """Rows of the one axis for a block, in integers; in the order of time where it is time."""
    is_time = request.over is not None
    return whole_form_of_rows(root, np.vstack(asked), in_time=is_time, tol=request.tol)
