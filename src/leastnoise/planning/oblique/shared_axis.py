"""Attributes that are asked in many ways as one axis, part of every block by rows of the block's own.

Census tables ask of age and household running sums, groups and values, one by one and crossed; of sex and
race their values, and groups of equal sizes. Nothing changes when such values are renamed, so that totals and
residuals of these have the uniform centre, and age by household is best measured in another way for each set
s of them: rows A_s over the combinations t of age and household. With the numbers ρ and h of the attributes
that are split (`total_variance`), a product j with rows W_j over t has the total

    Σ_s a_js trace(W_j X_s⁺ W_jᵀ) ,  X_s = A_sᵀA_s ,  a_js = Π_{a in s} ρ_{j,a,s} Π_{a not in s} h_{j,a}  (1)

and a record costs Σ_s (X_s)_tt at most: `least_total` finds the best A_s for given ρ. For given A_s the
residual rows of an attribute in block s are a problem of that attribute alone. Both are done in turns.
Residuals (`splitting`) split age and household too, with one precision for each block: on the dozen
census-like tables of benchmarks/unions.py that ends 2.4 % above the optimum, and this 1.5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import AllOnes, Array
from leastnoise.core.progress import Ended
from leastnoise.planning.oblique.axis_split import AxisQuestions, Placed, questions_of, residual_place
from leastnoise.planning.oblique.tied_axes import tied
from leastnoise.query import AxisSet, Products
from leastnoise.solver import Columns, Optimum, least_total
from leastnoise.strategy import AxisForm, BlockProposal, centred_form, split_form, whole_form_of_rows

# Combinations of the values of the shared axis, at most.
MAX_VALUES = 4_096

# Rows that products ask of it, all together, at most.
_MAX_ROWS = 2_048

# Operations of a step over the shared axis, at most, about a tenth of a second: of 40 to 100 steps each turn.
_MAX_OPERATIONS = 4e9

# Values of another axis, at most, where more than its values is asked.
_MAX_SPLIT = 512

# Blocks, at most.
_MAX_BLOCKS = 64

# Turns, at most, and the share of the total below which a gain ends them.
_MAX_TURNS = 6
_LEAST_GAIN = 2e-4

# The gap to which the shared axis is worked out, and residual rows of the others.
_GAP = 3e-4
_SPLIT_GAP = 1e-6

# Values are alike where sums and squares of rows agree to this share.
_ALIKE = 1e-9

# Directions weaker than this beside the strongest are rounding.
_WEAK = 1e-11


def shared_places(products: Products) -> AxisSet | None:
    """The axes whose values are not alike, all of which together are small enough to share; else None."""
    mentioned = [a for a, kinds in enumerate(products.kinds) if kinds]
    shared = tuple(a for a in mentioned if not _is_alike(products, a))
    size = math.prod(products.sizes[a] for a in shared)
    if not shared or len(shared) == len(mentioned) or size > MAX_VALUES:
        return None
    return shared


def _is_alike(products: Products, axis: int) -> bool:
    """Whether every kind of rows of an axis counts every value alike: plain counts, groups of one size."""
    kinds = products.kinds[axis]
    if all(kind.is_identity for kind in kinds):
        return True
    if products.sizes[axis] > _MAX_SPLIT:
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


@dataclass(frozen=True, eq=False)
class SharedAxis:
    """What was found.

    Attributes:
        products: with the shared axes tied.
        place: of the shared axis.
        blocks: the sets of other axes.
        parts: for every block and each of its axes of which more than values is asked, its residual rows.
        found: the rows over the shared axis.
    """

    products: Products
    place: int
    blocks: list[AxisSet]
    parts: dict[tuple[AxisSet, int], Placed]
    asked: dict[AxisSet, Array]
    found: Optimum

    @property
    def total(self) -> float:
        """Total variance, weighted, at profile 1."""
        return self.found.achieved

    @property
    def ended(self) -> Ended:
        """How the search over the shared axis ended."""
        return self.found.ended

    def proposal(self, *, tol: float) -> BlockProposal:
        """The blocks with integer rows for every axis."""
        products, forms = self.products, self._first_forms()
        blocks, shares, chosen = [], [], []
        for s, root in zip(self.blocks, self.found.roots, strict=True):
            share = float((root**2).sum(axis=0).max())
            own = []
            for a in s:
                if (s, a) in self.parts:
                    own.append(len(forms[a]))
                    forms[a].append(_split_form(self.parts[s, a], tol))
                else:
                    own.append(0)
            chosen.append((len(forms[self.place]),))
            scaled = root / math.sqrt(share)
            forms[self.place].append(whole_form_of_rows(scaled, self.asked[s], in_time=False, tol=tol))
            blocks.append((s, tuple(own)))
            shares.append(share)
        return BlockProposal(
            products.axes, tuple(map(tuple, forms)), tuple(blocks), np.array(shares), whole=tuple(chosen)
        )

    def _first_forms(self) -> list[list[AxisForm]]:
        """A form for every axis of which nothing but values is asked."""
        return [
            [centred_form(size)] if kinds and all(kind.is_identity for kind in kinds) else []
            for kinds, size in zip(self.products.kinds, self.products.sizes, strict=True)
        ]


def _split_form(placed: Placed, tol: float) -> AxisForm:
    questions = placed.questions
    root = questions.cells.spread(placed.oblique.root)
    return split_form(root, np.ones(root.shape[1], dtype=np.int64), questions.basis, tol=tol)


def share_axis(products: Products, weights: Array, *, deadline: Deadline = NEVER) -> SharedAxis | None:
    """The best noise of this kind; None where it does not apply, or there is too much of it.

    Args:
        weights: of the products, all positive.

    Raises:
        DesignError: if weights are too far apart to tell directions from rounding.
    """
    shared = shared_places(products)
    if shared is None:
        return None
    # From the last, so that the places before it stay.
    for a in reversed(shared[1:]):
        products = tied(products, shared[0], a)
    turns = _Turns(products, shared[0], weights, deadline)
    return turns.run() if turns.is_small else None


class _Turns:
    """Rows of the shared axis and residual rows of the others, in turns."""

    def __init__(self, products: Products, place: int, weights: Array, deadline: Deadline) -> None:
        self.products, self.place, self.weights, self.deadline = products, place, weights, deadline
        self.asked = [dict(zip(term.places, term.kinds, strict=True)) for term in products.terms]
        self.others = [tuple(a for a in sorted(own) if a != place) for own in self.asked]
        self.blocks = sorted(
            {s for own in self.others for count in range(len(own) + 1) for s in combinations(own, count)}
        )
        self.members = {
            s: [j for j, own in enumerate(self.others) if set(s) <= set(own)] for s in self.blocks
        }
        self.placed: dict[tuple[AxisSet, int], Placed] = {}
        self._questions: dict[tuple[int, tuple[int, ...]], AxisQuestions] = {}

    @property
    def is_small(self) -> bool:
        """Whether the shared axis is asked few enough rows, in few enough blocks."""
        kinds = self.products.kinds[self.place]
        return len(self.blocks) <= _MAX_BLOCKS and sum(kind.n_rows for kind in kinds) <= _MAX_ROWS

    def run(self) -> SharedAxis | None:
        """Turns until nothing is gained."""
        rows = [self._rows(j) for j in range(len(self.asked))]
        # At first as if every row of the shared axis had the same variance.
        costs = {(j, s): float(len(rows[j])) for s in self.blocks for j in self.members[s]}
        best: SharedAxis | None = None
        q: Array | None = None
        for _ in range(_MAX_TURNS):
            self._place_all(costs)
            factors = [self._factor(s, rows) for s in self.blocks]
            if sum(4.0 * R.size * len(R) + 10.0 * len(R) ** 3 for R in factors) > _MAX_OPERATIONS:
                return None
            found = least_total(Columns(factors), tol=_GAP, start=q, time_limit=self.deadline.left)
            gain = math.inf if best is None else 1 - found.achieved / best.total
            if gain > 0:
                asked = {s: np.vstack([rows[j] for j in self.members[s]]) for s in self.blocks}
                best = SharedAxis(self.products, self.place, self.blocks, dict(self.placed), asked, found)
            if gain < _LEAST_GAIN or self.deadline.is_past or not self.placed:
                break
            q = found.q + float(found.q.max()) * _ALIKE
            for s, root in zip(self.blocks, found.roots, strict=True):
                gains = np.linalg.pinv(root)
                for j in self.members[s]:
                    costs[j, s] = float(((rows[j] @ gains) ** 2).sum())
        return best

    def _rows(self, j: int) -> Array:
        """W_j: what a product asks of the shared axis."""
        kind = self.asked[j].get(self.place)
        if kind is None:
            return AllOnes(self.products.sizes[self.place]).dense()
        return self.products.kinds[self.place][kind].operator.dense()

    def _factor(self, s: AxisSet, rows: Sequence[Array]) -> Array:
        """R_s, of full rank, with R_sᵀR_s = Σ_j w_j a_js W_jᵀW_j."""
        from scipy import linalg

        stacked = np.vstack(
            [math.sqrt(self.weights[j] * self._share(j, s)) * rows[j] for j in self.members[s]]
        )
        Q, triangle = linalg.qr(stacked.T, mode="economic", check_finite=False)
        _, values, turn = linalg.svd(triangle.T, full_matrices=False, check_finite=False)
        kept = values > _WEAK * values[0]
        return np.asarray((values[kept, None] * turn[kept]) @ Q.T)

    def _share(self, j: int, s: AxisSet, without: int | None = None) -> float:
        """a_js, or without the number of one axis."""
        return math.prod(self._number(j, s, a) for a in self.others[j] if a != without)

    def _number(self, j: int, s: AxisSet, a: int) -> float:
        """ρ or h of an axis in a block, for the rows that a product asks of it."""
        kind, size = self.asked[j][a], self.products.sizes[a]
        if self._has_values_only(a):
            return (size - 1) ** 2 / size if a in s else 1 / size
        if a not in s:
            return float(self.products.kinds[a][kind].gram.sum()) / size**2
        return float(self.placed[s, a].rho[self._kinds_in(s, a).index(kind)])

    def _has_values_only(self, a: int) -> bool:
        return all(kind.is_identity for kind in self.products.kinds[a])

    def _kinds_in(self, s: AxisSet, a: int) -> tuple[int, ...]:
        """The kinds of rows of an axis that are answered from a block."""
        return tuple(sorted({self.asked[j][a] for j in self.members[s]}))

    def _place_all(self, costs: dict[tuple[int, AxisSet], float]) -> None:
        """The best residual rows of every axis in every block, for what the shared axis costs there."""
        for s in self.blocks:
            for a in s:
                if not self._has_values_only(a):
                    self.placed[s, a] = self._best_placed(s, a, costs)

    def _best_placed(self, s: AxisSet, a: int, costs: dict[tuple[int, AxisSet], float]) -> Placed:
        kinds, size = self._kinds_in(s, a), self.products.sizes[a]
        key = a, kinds
        if key not in self._questions:
            self._questions[key] = questions_of([self.products.kinds[a][kind].operator for kind in kinds])
        questions = self._questions[key]
        u = np.zeros(len(kinds))
        for j in self.members[s]:
            # Others in this block that have no rows yet count alike.
            known = all(b == a or self._has_values_only(b) or (s, b) in self.placed for b in s)
            share = self._share(j, s, without=a) if known else 1.0
            u[kinds.index(self.asked[j][a])] += self.weights[j] * share * costs[j, s]
        cells = len(questions.cells.first)
        g = np.bincount(questions.cells.kind, minlength=cells) / size
        return residual_place(questions, g, u, start=None, tol=_SPLIT_GAP, deadline=self.deadline)
