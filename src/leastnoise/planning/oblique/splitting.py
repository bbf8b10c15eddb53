"""How a union of products is split best: the search over orders of the axes and ways to split each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline, Watch
from leastnoise.core.decompositions import pseudo_inverse
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import Cells, distinct_cells
from leastnoise.core.operators import Array, Operator, RowScaled
from leastnoise.core.progress import Ended
from leastnoise.planning.oblique.axis_split import Placed, asked_basis, factor_rows, residual_place
from leastnoise.planning.oblique.block_layout import BlockLayout, BlockPiece, Form, forms_of
from leastnoise.planning.oblique.centre_search import RowsByKind, Search, all_entries, gathered, spread
from leastnoise.planning.oblique.total_variance import BlockSums
from leastnoise.query import AxisRows, AxisSet, Products
from leastnoise.solver import CappedBlock, ImplicitRows, Run, least_profile, least_total, load_backend

# Sweeps end when the total falls by less than this share.
_TOL = 1e-9

# The first sweeps, that choose among orders, end when the total falls by less than this share.
_COARSE_TOL = 1e-5

# No kind of rows counts for less than this share of another: where a centre has come to answer some product
# without its total, what that product asks of other axes counts for nothing, and still must be answered.
_FLOOR = 1e-12

# The gap to which the least largest variance of a whole axis is worked out.
_LARGEST_TOL = 1e-7

# Axes with several kinds of rows, at most, where every order of them is tried.
_MAX_PERMUTED = 3

# Values of these axes together, at most, where every order of them is tried.
_MAX_PERMUTED_SIZE = 400

# Products that share blocks, at most, where it is compared what blocks of their own would gain.
_MAX_COMPARED = 20_000


@dataclass(frozen=True, eq=False)
class SplitCentre:
    """A centre of one axis.

    Attributes:
        g: (n,), Σg = 1; None stands for equal weights.
        h: for every kind of the axis |W g|²; NaN for kinds that are not asked where this centre holds.
    """

    axis: int
    g: Array | None
    h: Array


@dataclass(frozen=True, eq=False)
class SplitPart:
    """How residual rows of one axis are measured.

    Attributes:
        centre: the place of its centre.
        kinds: the kinds of rows that are answered from it.
        root: C, (r, n): C g = 0, and no column is longer than 1; None stands for I − 11ᵀ/n, scaled.
        basis: integer rows that span these kinds and the total, (r + 1, n); None if they span everything.
        rho: for every kind of the axis trace(W P^# Wᵀ), P = CᵀC; NaN for kinds not answered from it.
    """

    axis: int
    centre: int
    kinds: tuple[int, ...]
    root: Array | None
    basis: Array | None
    rho: Array


@dataclass(frozen=True, eq=False)
class MeasuredAxis:
    """One axis.

    Attributes:
        form: how it is measured.
        root, basis: of a whole axis, the strategy and integer rows that span it; None for others, and
            basis also where everything is spanned.
        cost: what a whole axis multiplies total variances with; 1 for others.
        q: dual weights of its values for a bound of product form, (n,), Σq = 1.
        p: of a whole axis measured for its largest variance, dual weights of its rows, Σp = 1; else None.
    """

    form: Form
    root: Array | None
    basis: Array | None
    cost: float
    q: Array
    p: Array | None = None


@dataclass(frozen=True, eq=False)
class Split:
    """Noise for a union of products.

    Attributes:
        products: what is asked.
        axes, centres, parts: how axes are split.
        blocks: which blocks are measured, and where products find what they ask.
        x: the precision of every block, Σx = 1; 0 for blocks that nobody needs.
        total: total variance, weighted, where no cell's privacy profile exceeds 1; NaN where x was chosen
            for the largest variance.
        sweeps: how often the search went through all axes.
        ended: how that search ended.
    """

    products: Products
    axes: tuple[MeasuredAxis, ...]
    centres: tuple[SplitCentre, ...]
    parts: tuple[SplitPart, ...]
    blocks: BlockLayout
    x: Array
    total: float
    sweeps: int
    ended: Ended

    def pieces(self, term: int) -> list[BlockPiece]:
        """What one product gets from which block, from which parts and centres."""
        return self.blocks.pieces(term)


def split_products(
    products: Products,
    weights: Array | Sequence[float],
    *,
    row_weights: Sequence[Sequence[Array | None]] | None = None,
    tol: float = _TOL,
    deadline: Deadline = NEVER,
) -> Split:
    """Blocks, residual rows and precisions of least total variance, as far as one axis at a time can tell.

    Args:
        weights: of the products, none negative.
        row_weights: further factors for every axis, kind and row, (n_rows,), or None for 1: the weight of a
            query is that of its product, times those of its rows.
        tol: sweeps end when the total falls by less than this share.
        deadline: when the search ends with what it has, which answers everything, with more noise.

    Raises:
        DesignError: if something that only queries of weight zero ask could not be answered.
    """
    return searched(products, weights, row_weights=row_weights, tol=tol, deadline=deadline).to_split()


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search has found, still open to more of it."""

    products: Products
    axes: tuple[MeasuredAxis, ...]
    search: Search
    sweeps: int

    @property
    def total(self) -> float:
        """Total variance at profile 1."""
        return self.search.sums.total

    def to_split(self) -> Split:
        """As plain arrays over all values of every axis."""
        search, blocks = self.search, self.search.blocks
        sums = search.sums
        centres = []
        for place, centre in enumerate(blocks.centres):
            first = int(search.first_of_centre[place])
            of_axis = sums.numbers[first : first + search.rows.n_slots(centre.axis)]
            h = search.rows.per_kind(centre.axis, of_axis)
            state = search.centres.get(place)
            centres.append(SplitCentre(centre.axis, None if state is None else state.g, h))
        parts = []
        for place, part in enumerate(blocks.parts):
            first = int(search.first_of_part[place])
            of_axis = sums.numbers[first : first + search.rows.n_slots(part.axis)]
            rho = search.rows.per_kind(part.axis, of_axis)
            placed = self._placed(place)
            root = None if placed is None else placed.questions.cells.spread(placed.oblique.root)
            basis = None if placed is None else placed.questions.basis
            parts.append(SplitPart(part.axis, part.centre, part.kinds, root, basis, rho))
        return Split(
            self.products,
            tuple(self._with_dual(axis, of_axis) for axis, of_axis in enumerate(self.axes)),
            tuple(centres),
            tuple(parts),
            blocks,
            sums.x,
            sums.total,
            self.sweeps,
            # Orders left out, and centres not set apart, are for want of time too.
            "deadline" if search.deadline.is_past else search.ended,
        )

    def _placed(self, part: int) -> Placed | None:
        state = self.search.centres.get(self.search.blocks.parts[part].centre)
        if state is None:
            return None
        return state.placed[state.parts.index(part)] if state.shared is None else state.shared

    def _with_dual(self, axis: int, of_axis: MeasuredAxis) -> MeasuredAxis:
        """The dual weights of the part that carries most."""
        candidates = [p for p, part in enumerate(self.search.blocks.parts) if part.axis == axis]
        placed = [self._placed(p) for p in candidates]
        found = [p for p in placed if p is not None]
        if not found:
            return of_axis
        best = max(found, key=lambda p: len(p.oblique.root))
        return replace(of_axis, q=spread(best.questions, best.oblique.q))


def searched(
    products: Products,
    weights: Array | Sequence[float],
    *,
    row_weights: Sequence[Sequence[Array | None]] | None = None,
    tol: float = _TOL,
    largest: bool = False,
    deadline: Deadline = NEVER,
) -> Searched:
    """The same as `split_products`, before it is written out.

    Args:
        largest: whether whole axes are measured for their largest variance, not their total.
    """
    of_terms = np.asarray(weights, dtype=float)
    if of_terms.shape != (len(products.terms),) or not (of_terms >= 0).all() or not of_terms.any():
        raise DesignError(
            f"{len(products.terms)} weights are needed, one per product, none negative and not all 0",
            field="weights",
        )
    asked = products if row_weights is None else _reweighted(products, row_weights)
    forms = forms_of(asked)
    axes = tuple(_axis(asked, axis, form, largest, deadline) for axis, form in enumerate(forms))
    of_terms = of_terms * math.prod(axis.cost for axis in axes)
    task = _Task(asked, forms, axes, of_terms, deadline)
    first, *others = _orders(asked, forms)
    best = task.run(first, (), _COARSE_TOL)
    for order in others:
        if deadline.is_past:
            break
        best = min(best, task.run(order, (), _COARSE_TOL), key=_total)
    apart = [] if deadline.is_past else _better_apart(best.search, of_terms)
    if apart and not deadline.is_past:
        best = min(best, task.run(best.search.blocks.order, apart, _COARSE_TOL), key=_total)
    sweeps = best.search.run(until=tol)
    _refuse_unanswered(best.search.sums)
    return replace(best, products=products, sweeps=best.sweeps + sweeps)


def _total(found: Searched) -> float:
    return found.total


@dataclass(frozen=True, eq=False)
class _Task:
    products: Products
    forms: tuple[Form, ...]
    axes: tuple[MeasuredAxis, ...]
    weights: Array
    deadline: Deadline = NEVER

    def run(self, order: Sequence[int], separated: Sequence[AxisSet], tol: float) -> Searched:
        """The search with one order of the axes."""
        blocks = BlockLayout(self.products, self.forms, order, separated)
        rows = RowsByKind([[kind.operator for kind in kinds] for kinds in self.products.kinds])
        search = Search(blocks, rows, tol=_TOL, floor=_FLOOR, deadline=self.deadline)
        numbers = search.start(self._kind_weights())
        search.sums = BlockSums(all_entries(search), self.weights, numbers, blocks.n_blocks)
        sweeps = search.run(until=tol)
        if search.set_apart():
            sweeps += search.run(until=tol)
        return Searched(self.products, self.axes, search, sweeps)

    def _kind_weights(self) -> list[Array]:
        """For every axis, the weights of all products that ask each kind."""
        found = [np.zeros(len(kinds)) for kinds in self.products.kinds]
        if "residual" not in self.forms:
            return found
        for term, weight in zip(self.products.terms, self.weights, strict=True):
            for axis, kind in zip(term.places, term.kinds, strict=True):
                found[axis][kind] += weight
        return found


def _orders(products: Products, forms: Sequence[Form]) -> list[tuple[int, ...]]:
    """Orders of the axes worth trying: those of which most is asked come last."""
    several = [a for a, kinds in enumerate(products.kinds) if len(kinds) > 1 and forms[a] == "residual"]
    several.sort(key=lambda a: (len(products.kinds[a]), products.axes[a].size))
    others = tuple(a for a in range(len(products.axes)) if a not in several)
    size = sum(products.axes[a].size for a in several)
    if 2 <= len(several) <= _MAX_PERMUTED and size <= _MAX_PERMUTED_SIZE:
        return [others + last for last in permutations(several)]
    return [others + tuple(several)]


def _axis(
    products: Products, axis: int, form: Form, largest: bool, deadline: Deadline = NEVER
) -> MeasuredAxis:
    """What is known of an axis before the search."""
    size = products.axes[axis].size
    uniform = np.full(size, 1 / size)
    if form == "identity":
        return MeasuredAxis(form, None, None, float(size), uniform)
    if form != "whole":
        return MeasuredAxis(form, None, None, 1.0, uniform)
    operator = products.kinds[axis][0].operator
    basis = asked_basis([operator], with_total=False)
    rows = factor_rows(operator, size if basis is None else len(basis))
    cells = distinct_cells(rows, np.abs(rows).max(axis=0) > 0)
    scale = float(np.abs(rows).max())
    if largest:
        return _whole_for_largest(operator, cells, basis, deadline)
    found = least_total(rows[:, cells.first] / scale, tol=_TOL, time_limit=deadline.left)
    q = cells.spread((found.q / cells.counts)[None, :])[0]
    return MeasuredAxis(form, cells.spread(found.root), basis, found.achieved * scale**2, q / q.sum())


def _whole_for_largest(
    operator: Operator, cells: Cells, basis: Array | None, deadline: Deadline
) -> MeasuredAxis:
    """A whole axis whose rows have the least largest variance."""
    from scipy import linalg

    n = operator.shape[1]
    Q = None if basis is None else linalg.qr(basis.T.astype(float), mode="economic")[0]
    columns = np.eye(n) if Q is None else Q.T
    rows = ImplicitRows(operator, Q, load_backend("numpy"))
    run = Run(_LARGEST_TOL, Watch(deadline))
    found = least_profile([CappedBlock(rows, columns[:, cells.first])], np.ones(operator.shape[0]), run)
    root = found.root / math.sqrt(float((found.root**2).sum(axis=0).max()))
    q = cells.spread((found.q / cells.counts)[None, :])[0]
    inverse = pseudo_inverse(cells.spread(root))
    cost = float((operator.apply(inverse) ** 2).sum())
    p = found.p / found.p.sum()
    return MeasuredAxis("whole", cells.spread(root), basis, cost, q / q.sum(), p)


def _reweighted(products: Products, row_weights: Sequence[Sequence[Array | None]]) -> Products:
    """The same products with the rows of their kinds multiplied by the roots of these weights."""
    kinds = tuple(
        tuple(
            kind if of_rows is None else AxisRows(RowScaled(kind.operator, np.sqrt(of_rows)))
            for kind, of_rows in zip(of_axis, weights, strict=True)
        )
        for of_axis, weights in zip(products.kinds, row_weights, strict=True)
    )
    return replace(products, kinds=kinds)


def _better_apart(search: Search, weights: Array) -> list[AxisSet]:
    """Sets of axes whose products had better have blocks of their own, at the present centres."""
    mixed = search.blocks.mixed_blocks()
    if sum(map(len, mixed.values())) > _MAX_COMPARED:
        return []
    alone: dict[tuple[int, int], float] = {}
    found = []
    for block, listed in mixed.items():
        if search.deadline.is_past:
            break
        C: dict[tuple[int, ...], float] = {}
        for product, kinds, piece in listed:
            value = float(weights[product])
            for part, kind in zip(piece.parts, kinds, strict=False):
                value *= _alone(search, search.blocks.parts[part].centre, kind, alone)
            for centre, kind in zip(piece.centres, kinds[len(piece.parts) :], strict=True):
                value *= float(search.sums.numbers[search.first_of_centre[centre] + kind])
            key = kinds[: len(piece.parts)]
            C[key] = C.get(key, 0.0) + value
        if sum(map(math.sqrt, C.values())) < math.sqrt(search.sums.C[block]):
            found.append(search.blocks.axes[block])
    return found


def _alone(search: Search, centre: int, kind: int, known: dict[tuple[int, int], float]) -> float:
    """ρ of one kind at the present centre, with residual rows for it alone."""
    key = (centre, kind)
    if key not in known:
        state = search.centres.get(centre)
        if state is None:
            parts = [p for p, part in enumerate(search.blocks.parts) if part.centre == centre]
            known[key] = float(search.sums.numbers[search.first_of_part[parts[0]] + kind])
        else:
            questions = search.rows.asked(state.axis, (kind,)).questions
            at = gathered(questions, state.g)
            placed = residual_place(questions, at, np.ones(1), start=None, tol=_COARSE_TOL)
            known[key] = float(placed.rho[0])
    return known[key]


def _refuse_unanswered(sums: BlockSums) -> None:
    if (sums.weights > 0).all():
        return
    needed = sums.added_up((sums.weights == 0).astype(float)) > 0
    if (needed & (sums.C == 0)).any():
        raise DesignError(
            "a query of weight zero asks for something no other query does, so any noise would do for it; "
            "give it a weight or leave it out",
            field="weights",
        )
