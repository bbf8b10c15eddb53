"""The certified optimum of unions of products with a shared axis: what is not asked value by value.

Let Z be the attributes of which some query asks otherwise than value by value, as one axis of all their
combinations, and let the others be asked value by value or not at all. Such a workload stays the same when
values of the others are renamed, so that the optimum has a matrix of its own over Z for every set s of
others, and dual weights that depend on Z alone:

    H_s = Σ_j w_j a_js V_j ,  R_sᵀ R_s = H_s ,   maximise (Σ_s tr (R_s diag(q) R_sᵀ)^½)² / Σq             (1)

with V_j what product j asks of Z and a_js its share in block s (`marginals.row_variances`). An attribute that
all products ask alike is factored out and solved by itself. What is measured is, for every set s,

    L_s ⊗_{a in s} (n_a I − 11ᵀ) ⊗_{a not in s} 1ᵀ

with integer rows L_s over Z: blocks of products with a whole axis of several forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastnoise.bounds import whole_axis_work
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.resources import seconds_for
from leastnoise.planning.families.optimum_capped import find_capped, serves_caps, witness_of
from leastnoise.planning.families.product_requests import ProductRequest, table_sizes
from leastnoise.planning.families.shared_products import (
    MOST_NUMBERS,
    SharedNoise,
    SharedProducts,
    free_axes,
    root_of,
    root_of_rows,
    shared_products,
)
from leastnoise.planning.method import Request, SearchResult
from leastnoise.planning.oblique.axis_split import asked_basis
from leastnoise.planning.oblique.proposal import with_small_weights
from leastnoise.query import first_not_spanned
from leastnoise.solver import Columns, Run, least_total, second_try
from leastnoise.strategy import AxisForm, BlockProposal, centred_form, identity_form, whole_form_of_rows

# Operations of the search before it can first end, for each number of the matrices and each value.
_FIRST = 2.0 * 30

# Numbers of the rows of all blocks, at most, in units of those of the matrices.
_HELD = 4.0

# Operations, at most, a minute or two.
_MOST_WORK = 5e12

# The same where variances have caps.
_FIRST_CAPPED = 2.0 * 300


def serves(request: Request, question: ProductRequest) -> bool:
    """Whether a request is of this kind, and small enough."""
    if request.privacy.relation.replaces:
        return False
    shared = shared_products(request, question.products)
    if shared is None:
        return False
    size, first, weights = shared.products.sizes[shared.axis], _FIRST, question.weights
    if question.caps is not None:
        if not serves_caps(request, shared, question.caps):
            return False
        first, weights = _FIRST_CAPPED, np.ones(len(weights))
    kinds, counts = shared.asked(weights)
    # What is measured in every block is held.
    held = float(shared.ranks(kinds, counts).sum()) * size
    if question.caps is None:
        counts = counts[:, _alike(counts)[0]]
    ranks = shared.ranks(kinds, counts)
    work = first * float(ranks @ ranks) * size + whole_axis_work(size, len(ranks))
    if max(float(ranks @ ranks), held / _HELD) > MOST_NUMBERS or work > _MOST_WORK:
        return False
    left = request.deadline.left
    return left is None or not request.is_promised or seconds_for(work) <= left


def is_smaller(request: Request, question: ProductRequest) -> bool:
    """Whether a request is served over an axis that is not all that is asked of."""
    free = free_axes(question.products, request.over)
    asked = [a for a, kinds in enumerate(question.products.kinds) if kinds]
    return free is not None and len(free) < len(asked) and serves(request, question)


def find(request: Request, question: ProductRequest) -> SearchResult:
    """The optimum of a request that `serves` has let pass."""
    shared = shared_products(request, question.products)
    assert shared is not None
    watch = Watch.starting(request.deadline.left, request.progress)
    products, axis = shared.products, shared.axis
    whole: dict[int, tuple[AxisForm, Array]] = {}
    if question.caps is not None:
        found = find_capped(request, question, shared, watch)
        witness = witness_of(shared, found, question)
    else:
        found = _least_total(request, question, shared, watch)
        whole = {a: _alone(shared, a, request) for a in shared.common if not shared.is_plain(a)}
        witness = shared.witness(found.q, question.products)
        q = [whole[a][1] if a in whole else own for a, own in enumerate(witness.q)]
        witness = replace(witness, q=tuple(q))
    proposal = _proposal(request, shared, found, {a: form for a, (form, _) in whole.items()})
    name = " and ".join(products.axes[axis].names)
    note = (
        f"one matrix over {name} for each of {len(proposal.blocks):,} sets of other attributes, "
        f"{found.how} in {found.steps} steps"
    )
    return SearchResult(proposal, witness, "stopped", note, found.ended, grid_tol=found.grid_tol)


def _least_total(
    request: Request, question: ProductRequest, shared: SharedProducts, watch: Watch
) -> SharedNoise:
    """(1), and its proof."""
    weights, used = question.weights, shared.used
    if (weights == 0).any() and first_not_spanned(request.workload, request.objective) is None:
        weights = with_small_weights(weights, table_sizes(question.products))
    n = shared.products.sizes[shared.axis]
    kinds, counts = shared.asked(weights)
    # Blocks that are multiples of one another are one as large as all of them, c² + d² … by (c + d + …)².
    first, group = _alike(counts)
    sizes = np.sqrt(counts.sum(axis=0))
    together = np.bincount(group, sizes)
    blocks = []
    for number, place in enumerate(first.tolist()):
        if together[number] > 0:
            R = root_of_rows(kinds, counts[:, place].tolist())[:, used]
            blocks.append(R * (together[number] / sizes[place]))
    tol = request.tol / 2
    found = least_total(Columns(blocks), tol=tol, time_limit=watch.deadline.left, progress=watch.listener)
    if not found.has_converged and found.ended != "deadline":
        # Many values of Z that serve nearly alike, as those of a mean do, keep Newton's method busy.
        found = second_try(found, blocks, Run(tol, Watch(watch.deadline, watch.listener, found.steps)))
    # Where products without weight are alone in a block, nothing is asked of it.
    of_group = np.cumsum(together > 0) - 1
    roots = []
    for own, size in zip(group.tolist(), sizes.tolist(), strict=True):
        part = found.roots[of_group[own]] if size > 0 else np.zeros((0, len(used)))
        root = np.zeros((len(part), n))
        root[:, used] = part * math.sqrt(size / together[own]) if size > 0 else part
        roots.append(root)
    q = np.zeros(n)
    q[used] = found.q
    return SharedNoise(q, [], roots, found.steps, found.ended, how=found.how)


def _alike(counts: Array) -> tuple[Array, Array]:
    """The first of the blocks that are multiples of one another, and which of these each block is."""
    shares = np.round(counts / np.maximum(counts.sum(axis=0), np.finfo(float).tiny), _DIGITS)
    _, first, group = np.unique(shares, axis=1, return_index=True, return_inverse=True)
    return first, group.reshape(-1)


# Shares of what blocks ask that agree to this many decimal digits are one.
_DIGITS = 13


def _alone(shared: SharedProducts, a: int, request: Request) -> tuple[AxisForm, Array]:
    """The rows of an axis that all products ask alike, and the weights of its values."""
    kind = shared.kind_along(0, a)
    used = np.flatnonzero(np.diag(kind.gram) > 0)
    R = root_of(np.asarray(kind.gram, dtype=float)[np.ix_(used, used)])
    found = least_total(R, tol=request.tol / 4, time_limit=request.deadline.left)
    root, q = np.zeros((len(R), shared.products.sizes[a])), np.zeros(shared.products.sizes[a])
    root[:, used], q[used] = found.root, found.q
    basis = asked_basis([kind.operator], with_total=False)
    asked = np.eye(len(q), dtype=np.int64) if basis is None else basis
    return whole_form_of_rows(root, asked, in_time=False, tol=request.tol), q


def _proposal(
    request: Request, shared: SharedProducts, found: SharedNoise, whole: dict[int, AxisForm]
) -> BlockProposal:
    products, axis, common = shared.products, shared.axis, shared.common
    mentioned = {a for s in products.sets for a in s} | {axis}
    forms_of_axis: list[AxisForm] = []
    known: dict[bytes, int] = {}
    blocks, shares, chosen = [], [], []
    for number, s in enumerate(shared.lattice[0].subsets):
        root = found.roots[number]
        share = float((root**2).sum(axis=0).max())
        if share <= 0 or any(products.sizes[a] == 1 for a in s):
            continue
        form = _form(request, shared, number, root / math.sqrt(share), min(request.tol, found.grid_tol))
        key = b"" if form.rows is None else form.rows.astype(str).tobytes() + str(form.rows.shape).encode()
        place = known.setdefault(key, len(forms_of_axis))
        if place == len(forms_of_axis):
            forms_of_axis.append(form)
        blocks.append((s, (0,) * len(s)))
        shares.append(share)
        chosen.append(tuple(place if a == axis else 0 for a in sorted((axis, *common))))
    forms: list[Sequence[AxisForm]] = []
    for a, size in enumerate(products.sizes):
        if a == axis:
            forms.append(forms_of_axis)
        elif a in whole:
            forms.append([whole[a]])
        elif a in mentioned:
            forms.append([identity_form(size) if a in common else centred_form(size)])
        else:
            forms.append([])
    return BlockProposal(
        products.axes, tuple(map(tuple, forms)), tuple(blocks), np.array(shares), whole=tuple(chosen)
    )


def _form(request: Request, shared: SharedProducts, number: int, root: Array, tol: float) -> AxisForm:
    """Rows of Z for a block, in integers; in the order of time where it is time."""
    if request.over is None:
        return whole_form_of_rows(root, shared.basis(number), in_time=False, tol=tol)
    asked = np.vstack([shared.kind(j).operator.dense() for j in shared.members(number)])
    return whole_form_of_rows(root, asked, in_time=True, tol=tol)
