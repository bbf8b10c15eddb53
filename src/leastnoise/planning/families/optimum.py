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
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from leastnoise.bounds import union_bound_work, whole_axis_work
from leastnoise.core.deadline import Deadline, Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.core.resources import seconds_for
from leastnoise.planning.families.optimum_capped import find_capped, serves_caps
from leastnoise.planning.families.product_requests import ProductRequest, table_sizes
from leastnoise.planning.families.shared_products import (
    MOST_NUMBERS,
    SharedProducts,
    free_axes,
    root_of,
    root_of_rows,
    shared_products,
    with_shared,
)
from leastnoise.planning.method import Request, SearchResult
from leastnoise.planning.oblique.axis_split import Placed, asked_basis, questions_of, residual_place
from leastnoise.planning.oblique.proposal import with_small_weights
from leastnoise.query import AxisSet, Products, first_not_spanned
from leastnoise.solver import Columns, Optimum, Run, least_total, second_try
from leastnoise.strategy import (
    AxisForm,
    BlockProposal,
    centred_form,
    identity_form,
    split_form,
    whole_form_of_rows,
)

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
    weights: Array | None = question.weights
    first = _FIRST
    if question.caps is not None:
        if not serves_caps(request, shared, question.caps):
            return False
        weights, first = None, _FIRST_CAPPED
    work, n_blocks = _work(shared, weights, first)
    work += whole_axis_work(shared.products.sizes[shared.axis], n_blocks)
    left = request.deadline.left
    return work <= _MOST_WORK and (left is None or not request.is_promised or seconds_for(work) <= left)


def _work(shared: SharedProducts, weights: Array | None, first: float) -> tuple[float, int]:
    """Operations of the search, infinite where its matrices are too large, and how many blocks differ.

    Args:
        weights: of the queries of every product; None where blocks differ in what caps ask of them.
        first: operations before it can first end, for each number of the matrices and each value.
    """
    size = shared.products.sizes[shared.axis]
    kinds, counts = shared.asked(np.ones(len(shared.products.terms)) if weights is None else weights)
    # What is measured in every block is held.
    held = float(shared.ranks(kinds, counts).sum()) * size
    if weights is not None:
        counts = counts[:, _alike(counts)[0]]
    ranks = shared.ranks(kinds, counts)
    if max(float(ranks @ ranks), held / _HELD) > MOST_NUMBERS:
        return math.inf, len(ranks)
    return first * float(ranks @ ranks) * size, len(ranks)


def is_smaller(request: Request, question: ProductRequest) -> bool:
    """Whether a request is served over an axis that is not all that is asked of."""
    free = free_axes(question.products, request.over)
    asked = [a for a, kinds in enumerate(question.products.kinds) if kinds]
    return free is not None and len(free) < len(asked) and serves(request, question)


def find(request: Request, question: ProductRequest) -> SearchResult:
    """The optimum of a request that `serves` has let pass."""
    shared = shared_products(request, question.products)
    assert shared is not None
    deadline = request.deadline.before(seconds_for(union_bound_work(shared.products)))
    watch = Watch.starting(deadline.left, request.progress)
    products, axis = shared.products, shared.axis
    whole: dict[int, tuple[AxisForm, Array]] = {}
    tol = request.tol
    if question.caps is not None:
        found, witness, tol = find_capped(request, question, shared, watch)
    else:
        weights = question.weights
        if (weights == 0).any() and first_not_spanned(request.workload, request.objective) is None:
            weights = with_small_weights(weights, table_sizes(question.products))
        found = _least_total(shared, weights, Run(request.tol / 2, watch))
        whole = {a: _alone(shared, a, request) for a in shared.common if not shared.is_plain(a)}
        witness = shared.witness(found.q, question.products)
        q = [whole[a][1] if a in whole else own for a, own in enumerate(witness.q)]
        witness = replace(witness, q=tuple(q))
    alone = {a: form for a, (form, _) in whole.items()}
    proposal = _proposal(shared, found, alone, tol, in_time=request.over is not None)
    name = " and ".join(products.axes[axis].names)
    note = (
        f"one matrix over {name} for each of {len(proposal.blocks):,} sets of other attributes, "
        f"{found.how} in {found.steps} steps"
    )
    return SearchResult(proposal, witness, "stopped", note, found.ended, grid_tol=tol)


def _least_total(shared: SharedProducts, weights: Array, run: Run, start: Array | None = None) -> Optimum:
    """(1), and its proof.

    Args:
        weights: of the queries of every product.
        start: weights of the values of Z to begin with.
    """
    used, watch = shared.used, run.watch
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
    found = least_total(
        Columns(blocks),
        tol=run.tol,
        time_limit=watch.deadline.left,
        progress=watch.listener,
        start=None if start is None else start[used],
    )
    if not found.has_converged and found.ended != "deadline":
        # Many values of Z that serve nearly alike, as those of a mean do, keep Newton's method busy.
        found = second_try(found, blocks, Run(run.tol, Watch(watch.deadline, watch.listener, found.steps)))
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
    return replace(found, roots=roots, q=q)


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
    shared: SharedProducts, found: Optimum, alone: Mapping[int, AxisForm], tol: float, *, in_time: bool
) -> BlockProposal:
    """Noise over Z in integers, beside rows of the axes that are factored out."""
    products, axis, common = shared.products, shared.axis, shared.common
    mentioned = {a for s in products.sets for a in s} | {axis}
    forms_of_axis: list[AxisForm] = []
    residuals: dict[int, list[AxisForm]] = {a: [] for a in shared.grouped}
    known: dict[bytes, int] = {}
    blocks, shares, chosen = [], [], []
    for number, s in enumerate(shared.lattice[0].subsets):
        root = found.roots[number]
        share = float((root**2).sum(axis=0).max())
        if share <= 0 or any(products.sizes[a] == 1 for a in s):
            continue
        form = _form(shared, number, root / math.sqrt(share), tol, in_time=in_time)
        key = b"" if form.rows is None else form.rows.astype(str).tobytes() + str(form.rows.shape).encode()
        place = known.setdefault(key, len(forms_of_axis))
        if place == len(forms_of_axis):
            forms_of_axis.append(form)
        for a in residuals.keys() & set(s):
            residuals[a].append(_residual_form(shared.placed[s, a], tol))
        blocks.append((s, tuple(len(residuals[a]) - 1 if a in residuals else 0 for a in s)))
        shares.append(share)
        chosen.append(tuple(place if a == axis else 0 for a in sorted((axis, *common))))
    forms: list[Sequence[AxisForm]] = []
    for a, size in enumerate(products.sizes):
        if a == axis:
            forms.append(forms_of_axis)
        elif a in alone:
            forms.append([alone[a]])
        elif a in residuals:
            forms.append(residuals[a])
        elif a in mentioned:
            forms.append([identity_form(size) if a in common else centred_form(size)])
        else:
            forms.append([])
    return BlockProposal(
        products.axes, tuple(map(tuple, forms)), tuple(blocks), np.array(shares), whole=tuple(chosen)
    )


def _form(shared: SharedProducts, number: int, root: Array, tol: float, *, in_time: bool) -> AxisForm:
    """Rows of Z for a block, in integers; in the order of time where it is time."""
    if not in_time:
        return whole_form_of_rows(root, shared.basis(number), in_time=False, tol=tol)
    asked = np.vstack([shared.kind(j).operator.dense() for j in shared.members(number)])
    return whole_form_of_rows(root, asked, in_time=True, tol=tol)


# Axes whose values are alike ------------------------------------------------------------------------------

# Turns, at most, and the share of the total below which a gain ends them.
_MAX_TURNS = 6
_LEAST_GAIN = 2e-4

# The gap to which Z is worked out in a turn, and residual rows of the others.
_GAP = 3e-4
_RESIDUAL_GAP = 1e-6

# Values of an axis beside Z, at most, where more than its values is asked.
_MAX_ALIKE = 512

# Values are alike where sums and squares of rows agree to this share.
_ALIKE = 1e-9


def beside_residuals(
    products: Products, weights: Array, *, tol: float, deadline: Deadline
) -> tuple[float, BlockProposal, str, Ended] | None:
    """The best noise over Z where other axes are asked in groups of one size too, each with residual rows.

    Census tables ask of age and household running sums, groups and values; of race its values and groups of
    equal sizes. Nothing changes when such values are renamed, so that totals and residuals of these have the
    uniform centre, and a_js of (1) are those of the residual rows that an axis has in block s. For given
    noise over Z the best such rows are a problem of that axis alone: both are found in turns.

    Args:
        weights: of the products, all positive.

    Returns:
        the total at profile 1, the proposal, how it was found and how that ended; None where the products are
        of no such kind, or there is too much of Z.
    """
    mentioned = [a for a, kinds in enumerate(products.kinds) if kinds]
    free = tuple(a for a in mentioned if not _is_alike(products, a))
    shared = with_shared(products, free) if free and len(free) < len(mentioned) else None
    if shared is None or _work(shared, weights, _FIRST)[0] > _MOST_WORK:
        return None
    # In their places after those of Z were put together.
    grouped = tuple(
        a - sum(b < a for b in free[1:])
        for a in mentioned
        if a not in free and not all(kind.is_identity for kind in products.kinds[a])
    )
    shared = replace(shared, grouped=grouped, common=tuple(a for a in shared.common if a not in grouped))
    best: tuple[SharedProducts, Optimum] | None = None
    q: Array | None = None
    for _ in range(_MAX_TURNS):
        costs = _costs_of_rows(shared, weights, best)
        placed = {(s, a): _placed(shared, s, a, costs, deadline) for s, a in shared.kinds_in}
        shared = replace(shared, placed=placed)
        found = _least_total(shared, weights, Run(_GAP, Watch(deadline)), q)
        gain = math.inf if best is None else 1 - found.achieved / best[1].achieved
        if gain > 0:
            best = shared, found
        if gain < _LEAST_GAIN or deadline.is_past or not grouped:
            break
        q = found.q + float(found.q.max()) * _ALIKE
    assert best is not None
    shared, found = best
    name = " and ".join(shared.products.axes[shared.axis].names)
    how = f"rows of its own over {name} for each of {len(found.roots):,} sets of other attributes"
    return found.achieved, _proposal(shared, found, {}, tol, in_time=False), how, found.ended


def _is_alike(products: Products, axis: int) -> bool:
    """Whether every kind of rows of an axis counts every value alike: plain counts, groups of one size."""
    kinds = products.kinds[axis]
    if all(kind.is_identity for kind in kinds):
        return True
    if products.sizes[axis] > _MAX_ALIKE:
        return False
    for kind in kinds:
        V = np.asarray(kind.gram, dtype=float)
        sums, squares = V.sum(axis=0), V.diagonal()
        largest = float(squares.max())
        # Rows that ask nothing, such as an empty condition, or that compare values have no sums to divide by.
        if np.ptp(sums) > _ALIKE * max(float(abs(sums).max()), largest) or np.ptp(squares) > _ALIKE * largest:
            return False
        if np.ptp(V) <= _ALIKE * largest:
            # Multiples of the total have no residuals.
            return False
    return True


def _costs_of_rows(
    shared: SharedProducts, weights: Array, known: tuple[SharedProducts, Optimum] | None
) -> Array:
    """What every product costs in every block, (products, sets).

    At first as if every row of Z had the same variance.
    """
    products, (_, A) = shared.products, shared.lattice
    kinds = [shared.kind(j) for j in range(len(products.terms))]
    n_rows = np.array([term.n_rows / kind.n_rows for term, kind in zip(products.terms, kinds, strict=True)])
    costs = np.array([[float(kind.n_rows)] for kind in kinds]) * np.ones(A.shape)
    if known is not None:
        for s, root in enumerate(known[1].roots):
            gains = np.linalg.pinv(root)
            for j in np.flatnonzero(A[:, s]).tolist():
                costs[j, s] = float((kinds[j].operator.apply(gains) ** 2).sum())
    return np.asarray((weights * n_rows)[:, None] * A * costs)


def _placed(shared: SharedProducts, s: AxisSet, a: int, costs: Array, deadline: Deadline) -> Placed:
    """The best residual rows of an axis in a block for what the rest of each product costs there."""
    products, kinds = shared.products, shared.kinds_in[s, a]
    questions = questions_of([products.kinds[a][kind].operator for kind in kinds])
    u = np.zeros(len(kinds))
    number = shared.lattice[0].subsets.index(s)
    for j in shared.members(number):
        kind = products.terms[j].kinds[products.terms[j].places.index(a)]
        u[kinds.index(kind)] += costs[j, number] / shared.rho(s, a, kind)
    g = np.bincount(questions.cells.kind, minlength=len(questions.cells.first)) / products.sizes[a]
    return residual_place(questions, g, u, start=None, tol=_RESIDUAL_GAP, deadline=deadline)


def _residual_form(placed: Placed, tol: float) -> AxisForm:
    """Residual rows in integers, beside the uniform centre."""
    root = placed.questions.cells.spread(placed.oblique.root)
    return split_form(root, np.ones(root.shape[1], dtype=np.int64), placed.questions.basis, tol=tol)
