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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import AllOnes, Array
from leastnoise.core.resources import seconds_for
from leastnoise.planning.families.marginals import row_variances
from leastnoise.planning.families.product_requests import ProductRequest, common_axes, uniform
from leastnoise.planning.method import Request, SearchResult
from leastnoise.planning.oblique.axis_split import asked_basis
from leastnoise.planning.oblique.tied_axes import tied
from leastnoise.query import AxisRows, Lattice, Products
from leastnoise.solver import Columns, OneAxisPoint, OneAxisProblem, least_largest_over_one_axis, least_total
from leastnoise.strategy import AxisForm, BlockProposal, centred_form, identity_form, whole_form_of_rows

# Numbers of all matrices over the shared axis together, at most: a gigabyte with what is made from them.
_MOST_NUMBERS = 2**24

# Combinations of values of the shared axis, at most.
MAX_KINDS = 4_096

# Operations of the search before it can first end, for each number of the matrices and each value.
_FIRST = 2.0 * 30

# Directions of a block below this share of the strongest are rounding.
_WEAK = 1e-13


@dataclass(frozen=True, eq=False)
class _Shared:
    """The products of a request with Z as one axis.

    Attributes:
        axis: the place of Z.
        common: axes that all products ask alike, which are factored out.
    """

    products: Products
    axis: int
    common: tuple[int, ...]

    @cached_property
    def lattice(self) -> tuple[Lattice, Array]:
        """The sets s and a_js, (products, sets)."""
        lattice, A = row_variances(self.products, (self.axis, *self.common))
        return lattice, A.toarray()

    def kind(self, j: int) -> AxisRows:
        """What a product asks of Z: its rows, or their sum."""
        return self.kind_along(j, self.axis)

    def kind_along(self, j: int, axis: int) -> AxisRows:
        """What a product asks of an axis."""
        term = self.products.terms[j]
        asked = dict(zip(term.places, term.kinds, strict=True)).get(axis)
        return (
            AxisRows(AllOnes(self.products.sizes[axis]))
            if asked is None
            else self.products.kinds[axis][asked]
        )

    @cached_property
    def ranks(self) -> Array:
        """How many rows the matrix of every block has, at most."""
        _, A = self.lattice
        n = self.products.sizes[self.axis]
        kinds = [(self.axis in term.places, self.kind(j)) for j, term in enumerate(self.products.terms)]
        distinct = {id(kind) if is_asked else -1: kind.n_rows for is_asked, kind in kinds}
        of_kind = {key: np.zeros(A.shape[1], dtype=bool) for key in distinct}
        for j, (is_asked, kind) in enumerate(kinds):
            of_kind[id(kind) if is_asked else -1] |= A[j] > 0
        rows = sum(n_rows * of_kind[key].astype(float) for key, n_rows in distinct.items())
        return np.minimum(rows, float(n))

    def members(self, number: int) -> list[int]:
        """The products that a block is part of."""
        return [int(j) for j in np.flatnonzero(self.lattice[1][:, number])]

    def basis(self, number: int) -> Array:
        """Rows that span what products ask of Z in a block."""
        kinds = {id(kind): kind for kind in map(self.kind, self.members(number))}
        found = asked_basis([kind.operator for kind in kinds.values()], with_total=False)
        return np.eye(self.products.sizes[self.axis], dtype=np.int64) if found is None else found


def _free_axes(products: Products, over: str | None) -> tuple[int, ...] | None:
    """The axes that are not asked value by value, or the one that is time; None where time is not all."""
    free = tuple(a for a, kinds in enumerate(products.kinds) if not all(kind.is_identity for kind in kinds))
    if over is None:
        return free
    time = next((a for a, axis in enumerate(products.axes) if axis.names == (over,)), None)
    return (time,) if time is not None and set(free) <= {time} else None


def _shared(request: Request, products: Products) -> _Shared | None:
    """The products with Z as one axis; None where there is no such axis, or it is too large."""
    free = _free_axes(products, request.over)
    if not free or (request.objective.kind == "largest" and len(free) > 1):
        return None
    # What all products ask alike is a problem of its own, but for time, whose rows are put in order.
    alike = set(common_axes(products))
    if request.over is None and request.objective.kind != "largest":
        free = tuple(a for a in free if a not in alike) or free[:1]
    size = math.prod(products.sizes[a] for a in free)
    if (
        size > MAX_KINDS
        or sum(2 ** len(set(s) - {*free, *alike}) for s in products.sets) * size > _MOST_NUMBERS
    ):
        return None
    for a in reversed(free[1:]):
        products = tied(products, free[0], a)
    common = tuple(a for a in common_axes(products) if a != free[0])
    return _Shared(products, free[0], common)


def serves(request: Request, question: ProductRequest) -> bool:
    """Whether a request is of this kind, and small enough."""
    if request.privacy.relation.replaces or request.objective.kind == "total-within-caps":
        return False
    shared = _shared(request, question.products)
    if shared is None:
        return False
    ranks = shared.ranks
    if float(ranks @ ranks) > _MOST_NUMBERS:
        return False
    left = request.deadline.left
    if left is None or not request.is_promised:
        return True
    work = _FIRST * float(ranks @ ranks) * shared.products.sizes[shared.axis]
    return seconds_for(work) <= left


def is_smaller(request: Request, question: ProductRequest) -> bool:
    """Whether a request is served over an axis that is not all that is asked of."""
    free = _free_axes(question.products, request.over)
    asked = [a for a, kinds in enumerate(question.products.kinds) if kinds]
    return free is not None and len(free) < len(asked) and serves(request, question)


def find(request: Request, question: ProductRequest) -> SearchResult:
    """The optimum of a request that `serves` has let pass."""
    shared = _shared(request, question.products)
    assert shared is not None
    watch = Watch.starting(request.deadline.left, request.progress)
    if request.objective.kind == "largest":
        assert question.caps is not None
        found, how = _least_largest(shared, question.caps, request.tol / 2, watch), "a fixed point"
    else:
        found, how = _least_total(shared, question.weights, request.tol / 2, watch), "Newton's method"
    products, axis = shared.products, shared.axis
    whole = {a: _alone(shared, a, request) for a in shared.common if not shared.kind_along(0, a).is_identity}
    proposal = _proposal(request, shared, found, {a: form for a, (form, _) in whole.items()})
    q = list(uniform(products))
    for a, (_, own) in whole.items():
        q[a] = own
    if products.kinds[axis]:
        q[axis] = found.q
    axes = None if products is question.products else products.axes
    witness = ProductWitness(tuple(q), axes=axes)
    if request.objective.kind == "largest":
        witness = _with_queries(witness, shared, found)
    name = " and ".join(products.axes[axis].names)
    note = (
        f"one matrix over {name} for each of {len(proposal.blocks):,} sets of other attributes, "
        f"{how} in {found.steps} steps"
    )
    return SearchResult(proposal, witness, "stopped", note, found.ended)


def _least_total(shared: _Shared, weights: Array, tol: float, watch: Watch) -> OneAxisPoint:
    """(1), and its proof."""
    _, A = shared.lattice
    n = shared.products.sizes[shared.axis]
    of_kind: dict[int, AxisRows] = {}
    summed: dict[int, Array] = {}
    for j, weight in enumerate(weights.tolist()):
        kind = shared.kind(j)
        count = shared.products.terms[j].n_rows / kind.n_rows
        key = id(kind) if shared.axis in shared.products.terms[j].places else -1
        of_kind[key] = kind
        summed[key] = summed.get(key, 0.0) + weight * count * A[j]
    used = np.any([np.diag(kind.gram) > 0 for kind in of_kind.values()], axis=0)
    index = np.flatnonzero(used)
    blocks = []
    for number in range(A.shape[1]):
        H = sum(summed[key][number] * of_kind[key].gram for key in of_kind)
        blocks.append(_root(np.asarray(H, dtype=float)[np.ix_(index, index)]))
    found = least_total(Columns(blocks), tol=tol, time_limit=watch.deadline.left, progress=watch.listener)
    roots = []
    for own in found.roots:
        root = np.zeros((len(own), n))
        root[:, index] = own
        roots.append(root)
    q = np.zeros(n)
    q[index] = found.q
    return OneAxisPoint(q, [], roots, found.achieved, found.lower_bound, found.steps, found.ended)


def _root(H: Array) -> Array:
    """R of full rank with RᵀR = H."""
    from scipy import linalg

    squares, vectors = linalg.eigh(H, check_finite=False, driver="evd")
    kept = squares > _WEAK * squares[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(squares[kept])).T)


def _least_largest(shared: _Shared, caps: Array, tol: float, watch: Watch) -> OneAxisPoint:
    _, A = shared.lattice
    rows = [shared.kind(j).operator.dense() for j in range(len(A))]
    counts = np.array([term.n_rows / len(W) for term, W in zip(shared.products.terms, rows, strict=True)])
    return least_largest_over_one_axis(OneAxisProblem(rows, A, counts), caps, tol=tol, watch=watch)


def _alone(shared: _Shared, a: int, request: Request) -> tuple[AxisForm, Array]:
    """The rows of an axis that all products ask alike, and the weights of its values."""
    kind = shared.kind_along(0, a)
    used = np.flatnonzero(np.diag(kind.gram) > 0)
    R = _root(np.asarray(kind.gram, dtype=float)[np.ix_(used, used)])
    found = least_total(R, tol=request.tol / 4, time_limit=request.deadline.left)
    root, q = np.zeros((len(R), shared.products.sizes[a])), np.zeros(shared.products.sizes[a])
    root[:, used], q[used] = found.root, found.q
    basis = asked_basis([kind.operator], with_total=False)
    asked = np.eye(len(q), dtype=np.int64) if basis is None else basis
    return whole_form_of_rows(root, asked, in_time=False, tol=request.tol), q


def _with_queries(witness: ProductWitness, shared: _Shared, found: OneAxisPoint) -> ProductWitness:
    """Dual weights of cells together with those of queries, row by row of Z."""
    p = np.zeros(len(shared.products.terms))
    of_rows = {}
    for j, (term, own) in enumerate(zip(shared.products.terms, found.p, strict=True)):
        largest = float(own.max(initial=0.0))
        p[j] = largest
        if shared.axis in term.places and largest > 0:
            of_rows[j, shared.axis] = own / largest
    return ProductWitness(witness.q, p, of_rows, axes=witness.axes)


def _proposal(
    request: Request, shared: _Shared, found: OneAxisPoint, whole: dict[int, AxisForm]
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
        form = _form(request, shared, number, root / math.sqrt(share))
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


def _form(request: Request, shared: _Shared, number: int, root: Array) -> AxisForm:
    """Rows of Z for a block, in integers; in the order of time where it is time."""
    if request.over is None:
        return whole_form_of_rows(root, shared.basis(number), in_time=False, tol=request.tol)
    asked = np.vstack([shared.kind(j).operator.dense() for j in shared.members(number)])
    return whole_form_of_rows(root, asked, in_time=True, tol=request.tol)
