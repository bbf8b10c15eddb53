"""One axis split obliquely: the total beside residual rows whose noise is independent of it.

A strategy on one axis with precision X, diag X ≤ 1, splits into α 11ᵀ and (1 − α) P with P g = 0, where
g = X⁻¹1 / (1ᵀX⁻¹1) and α = 1/(1ᵀX⁻¹1). Any (g, P) with P g = 0, 1ᵀg = 1 and diag P ≤ 1 comes about so. A
question w of the axis is (w·g) times the total, and a residual row. In a union of products the first costs
t (w·g)², the second u w P^# wᵀ, with weights u, t that say how often and how precisely either is needed:

    minimise  trace(V_u P^#) + gᵀ V_t g,     V_u = Σ_k u_k V_k,  V_t = Σ_k t_k V_k                       (1)

In terms of g this is convex. Near some (g, P) it is the plain problem of one axis, least trace(M X⁻¹)
with diag X ≤ 1, for the M that has, whatever c > 0,

    v·M v = v·V_u v,   v·M g = v·V_t g / c,   g·M g = trace(V_u P^#) / c²         for all v with 1ᵀv = 0   (2)

Both have the same gradient at the X that joins (g, P) with α = 1/(1 + c). With one kind of rows and c = t/u
this M is V + λ 11ᵀ, λ = ρ/c² − h, and does not depend on g otherwise. A solution of (2) that is none of
(1) shows a direction in which (1) falls, because trace(M X⁻¹) is convex in X. Far from the best g this M may
not be definite, and then g follows its slope, with the best P for every g.

All is done in the coordinates of C, P = CᵀC: no Gram matrix is inverted, and what cells the rows do not
tell apart, or do not span, needs nothing of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.decompositions import svd
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import Cells, distinct_cells
from leastnoise.core.operators import Array, Identity, Operator, is_whole_space, require_room
from leastnoise.query import Workload
from leastnoise.solver import Optimum, least_total
from leastnoise.strategy import integer_basis

# Rows per value of the axis. Up to this number the rows of a kind are factored as they are; beyond, their
# Gram matrix.
_TALL = 8

# Entries of the rows of a kind. Beyond this number, half a gigabyte, their Gram matrix is factored.
_DENSE_ENTRIES = 2**26

# Directions of rows weaker than this beside the strongest are rounding.
_WEAK = 1e-11

# The same for directions of Gram matrices, per row.
_WEAK_GRAM = 1e-14

# c is at least this: α = 1/(1 + c), and P keeps all but a share 1/c of the digits of X.
_LEAST_C = 1e-3

# M counts as definite if it leaves this share of g·Mg beyond what v·Mg needs.
_LEAST_CORNER = 1e-6

# The curvature along which nothing is asked is taken as this share of the mean.
_STIFFNESS = 1e-10

# Shares of the way to a solution of (2) tried in turn.
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.02)


@dataclass(frozen=True, eq=False)
class AxisQuestions:
    """What is asked of one axis, for as many cells as the rows tell apart.

    Attributes:
        rows: (N, n), one column for every cell of a kind.
        owner: for every row, the number that its square is added to.
        n_owners: how many such numbers there are.
        is_total: for every owner, whether it asks for multiples of the total only, (n_owners,).
        cells: which of the values of the axis are one cell.
        basis: integer rows, over all values of the axis, that span what is asked and the total; None if
            everything is asked.
        rank: their number.
    """

    rows: Array
    owner: Array
    n_owners: int
    is_total: Array
    cells: Cells
    basis: Array | None
    rank: int

    def per_owner(self, of_rows: Array) -> Array:
        """Numbers of rows, added up for every owner."""
        return np.bincount(self.owner, weights=of_rows, minlength=self.n_owners)

    def owned_by(self, rows: Array, owner: Array, n_owners: int) -> AxisQuestions:
        """The same axis with other rows of the same span, (N', all values), and other owners."""
        merged = rows[:, self.cells.first]
        return AxisQuestions(
            merged,
            owner,
            n_owners,
            _only_totals(merged, owner, n_owners),
            self.cells,
            self.basis,
            self.rank,
        )


def questions_of(operators: Sequence[Operator]) -> AxisQuestions:
    """The kinds of rows of one axis, each one owner."""
    size = operators[0].shape[1]
    factors = [_factor(operator) for operator in operators]
    rows = np.vstack(factors)
    owner = np.repeat(np.arange(len(factors)), [len(factor) for factor in factors])
    basis = asked_basis(operators)
    cells = Cells.all_of(size)
    if basis is not None:
        # Of cells that no row tells apart, all have the same column in the basis too.
        cells = distinct_cells(np.vstack([rows, np.ones((1, size))]), np.ones(size, dtype=bool))
    merged = rows[:, cells.first]
    return AxisQuestions(
        merged,
        owner,
        len(factors),
        _only_totals(merged, owner, len(factors)),
        cells,
        basis,
        size if basis is None else len(basis),
    )


def asked_basis(operators: Sequence[Operator], *, with_total: bool = True) -> Array | None:
    """Integer rows that span what the operators ask, and the total; None for everything."""
    size = operators[0].shape[1]
    spanning = [operator.basis() for operator in operators]
    if any(is_whole_space(part) for part in spanning):
        return None
    require_room(sum(part.shape[0] for part in spanning) + 1, size, "the rows asked of one attribute")
    are_integers = all(part.is_integer for part in spanning)
    parts = [part.dense(np.int64 if are_integers else np.float64) for part in spanning]
    if with_total:
        parts.insert(0, np.ones((1, size), dtype=parts[0].dtype))
    return integer_basis(Workload.from_matrix(np.vstack(parts))).rows


def _factor(operator: Operator) -> Array:
    """At most n rows, or a few more, with the operator's Gram matrix."""
    from scipy import linalg

    m, n = operator.shape
    if isinstance(operator, Identity):
        return np.eye(n)
    if m <= _TALL * n and m * n <= _DENSE_ENTRIES:
        dense = operator.dense()
        return dense if m <= n else np.asarray(linalg.qr(dense, mode="r", check_finite=False)[0][:n])
    squares, vectors = linalg.eigh(operator.gram(), check_finite=False, driver="evd")
    kept = squares > _WEAK_GRAM * n * squares[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(squares[kept])).T)


def factor_rows(operator: Operator, rank: int) -> Array:
    """As many rows as the rank, with the operator's Gram matrix."""
    return _of_full_rank(_factor(operator), rank)


def _only_totals(rows: Array, owner: Array, n_owners: int) -> Array:
    """Owners whose rows are all multiples of the row of ones."""
    spread = (rows.max(axis=1, initial=-np.inf) - rows.min(axis=1, initial=np.inf)) if rows.size else None
    if spread is None:
        return np.ones(n_owners, dtype=bool)
    size = np.abs(rows).max(axis=1)
    largest = np.zeros(n_owners)
    np.maximum.at(largest, owner, spread - _WEAK * size)
    return largest <= 0


@dataclass(frozen=True, eq=False)
class Oblique:
    """g and P of one axis, for as many cells as are told apart.

    Attributes:
        root: C, (r, n): P = CᵀC, C g = 0, and no column is longer than 1.
        g: (n,), Σg = 1.
        gain: G, (n, r): C G = I, 1ᵀG = 0.
        q: dual weights of the cells, (n,), Σq = 1.
    """

    root: Array
    g: Array
    gain: Array
    q: Array

    @classmethod
    def from_root(cls, beta: Array, q: Array) -> Oblique:
        """The split of a precision X = βᵀβ whose rows, (r + 1, n), span the total."""
        from scipy import linalg

        Q, triangle = linalg.qr(beta.T, mode="economic", check_finite=False)
        inverse = linalg.solve_triangular(triangle, Q.T, check_finite=False).T
        # 1ᵀ = eᵀβ. Turned so that e is the first axis, β is √α 1ᵀ over rows that vanish on g.
        e = inverse.sum(axis=0)
        length = float(np.linalg.norm(e))
        mirror = e / length
        sign = -1.0 if mirror[0] > 0 else 1.0
        mirror[0] -= sign
        mirror /= float(np.linalg.norm(mirror))
        turned = beta - 2 * np.outer(mirror, mirror @ beta)
        back = inverse - 2 * np.outer(inverse @ mirror, mirror)
        root, gain = turned[1:], back[:, 1:]
        g = back[:, 0] / back[:, 0].sum()
        # Rows vanish on g and columns of the gain add up to nothing but for rounding; now to its square.
        root = root - (root @ g)[:, None]
        gain = gain - np.outer(g, gain.sum(axis=0))
        largest = math.sqrt(float((root**2).sum(axis=0).max(initial=0))) or 1.0
        return cls(root / largest, g, gain * largest, q / q.sum())

    def joined(self, c: float) -> Array:
        """β, (r + 1, n): the precision that joins the total and P, with α = 1/(1 + c)."""
        total = np.full((1, len(self.g)), math.sqrt(1 / (1 + c)))
        return np.vstack([total, math.sqrt(c / (1 + c)) * self.root])


@dataclass(frozen=True, eq=False)
class Placed:
    """An axis with its questions, and what they cost."""

    questions: AxisQuestions
    oblique: Oblique

    @cached_property
    def gained(self) -> Array:
        """W G, (N, r)."""
        return self.questions.rows @ self.oblique.gain

    @cached_property
    def centred(self) -> Array:
        """W g, (N,)."""
        return self.questions.rows @ self.oblique.g

    @cached_property
    def rho(self) -> Array:
        """ρ of every owner: what its residual rows cost; 0 where it has none."""
        found = self.questions.per_owner((self.gained**2).sum(axis=1))
        return np.where(self.questions.is_total, 0.0, found)

    @cached_property
    def h(self) -> Array:
        """h of every owner: how much of the total's variance it has."""
        return self.questions.per_owner(self.centred**2)


def first_place(
    questions: AxisQuestions, weights: Array, *, tol: float, deadline: Deadline = NEVER
) -> Placed:
    """The split of the optimum for the axis alone: all owners by their weights, and the total."""
    rows = questions.rows * np.sqrt(weights[questions.owner])[:, None]
    mean = rows.mean(axis=1)
    total = math.sqrt(float(mean @ mean)) or float(np.abs(rows).max(initial=0)) or 1.0
    R = _of_full_rank(np.vstack([rows, np.full((1, rows.shape[1]), total)]), questions.rank)
    found = _solved(R, None, tol, deadline)
    return Placed(questions, Oblique.from_root(found.root, found.q))


def residual_place(
    questions: AxisQuestions,
    g: Array,
    u: Array,
    *,
    start: Array | None,
    tol: float,
    deadline: Deadline = NEVER,
) -> Placed:
    """The best residual rows for a given g, Σg = 1: P of least trace(V_u P^#) with P g = 0, diag P ≤ 1.

    Args:
        g: over the cells of the questions, (n,).
        start: dual weights to begin with, (n,).
    """
    rank = questions.rank - 1
    n = len(g)
    ones = np.ones((1, n))
    if rank == 0:
        return Placed(questions, Oblique(np.zeros((0, n)), g, np.zeros((n, 0)), np.full(n, 1 / n)))
    rows = questions.rows * np.sqrt(u[questions.owner])[:, None]
    R = _of_full_rank(rows - np.outer(rows @ g, ones), rank)
    # A cell whose residual rows all vanish costs nothing and has no say.
    lengths = np.sqrt((R**2).sum(axis=0))
    used = lengths > _WEAK * lengths.max()
    first = None if start is None or not start[used].any() else start[used]
    found = _solved(R[:, used], first, tol, deadline)
    root, q = np.zeros((rank, n)), np.zeros(n)
    root[:, used], q[used] = found.root, found.q
    return Placed(questions, Oblique.from_root(np.vstack([ones, root]), q))


def _of_full_rank(rows: Array, rank: int) -> Array:
    """As many rows as the rank, with the same Gram matrix but for rounding."""

    _, values, turn = svd(rows)
    if rank > len(values) or values[rank - 1] <= _WEAK * values[0]:
        raise DesignError(_LOST, field="weights")
    return np.asarray(values[:rank, None] * turn[:rank])


_LOST = (
    "some queries count for so little beside others of the same attribute that rounding would decide their "
    "noise; bring the weights closer together, or leave out queries of weight zero that nothing else answers"
)


def improvements(
    place: Placed, u: Array, t: Array, *, tol: float, deadline: Deadline = NEVER
) -> Iterator[Placed]:
    """Splits that may have a smaller Σ_k u_k ρ_k + t_k h_k, the boldest first.

    Solutions of (2), nearer and nearer to the split given; then splits along the slope of g. Unless the
    split given is the best of all, one of them is better.

    Args:
        u, t: weights of ρ and h of every owner, none negative.
        tol: the relative gap to which one-axis problems are solved.
        deadline: when they are left where they stand.
    """
    questions, oblique = place.questions, place.oblique
    if len(oblique.root) == 0:
        return
    c, R = _model(place, u, t)
    if R is not None:
        found = _solved(R, oblique.q, tol, deadline)
        for share in _SHARES:
            beta = found.root
            if share < 1:
                beta = _mixed(oblique.joined(c), found.root, share)
            q = (1 - share) * oblique.q + share * found.q / found.q.sum()
            yield Placed(questions, Oblique.from_root(beta, q))
    # The slope of ρ is known where P is the best for its g.
    here = residual_place(questions, oblique.g, u, start=oblique.q, tol=tol, deadline=deadline)
    part = (here.oblique.root, here.oblique.q, float(u @ here.rho))
    for g in centre_steps(questions, oblique.g, t, [part]):
        yield residual_place(questions, g, u, start=here.oblique.q, tol=tol, deadline=deadline)
    yield here


def centre_steps(
    questions: AxisQuestions, g: Array, t: Array, parts: Sequence[tuple[Array, Array, float]]
) -> Iterator[Array]:
    """Centres along the slope of (1), by its curvature, the boldest first.

    With the best P for every g, and q its dual weights, Σq = 1, the slope of ρ in g is −2 ρ P q, and its
    curvature about 2 ρ P; those of h are 2 V_t g and 2 V_t.

    Args:
        t: weights of h of every owner.
        parts: rows C over the cells of the questions, dual weights of these cells, and ρ.
    """
    from scipy import linalg

    n = len(g)
    weighted = questions.rows * np.sqrt(t[questions.owner])[:, None]
    curvature = weighted.T @ weighted
    slope = curvature @ g
    for C, q, rho in parts:
        slope -= rho * (C.T @ (C @ q))
        curvature += rho * (C.T @ C)
    mean = float(np.trace(curvature)) / n
    if mean == 0:
        return
    # In units of the mean, so that the border, which keeps Σg, is neither lost beside it nor drowns it.
    curvature, slope = curvature / mean, slope / mean
    curvature[np.diag_indices(n)] += _STIFFNESS
    ones = np.ones((n, 1))
    bordered = np.block([[curvature, ones], [ones.T, np.zeros((1, 1))]])
    step = linalg.solve(bordered, np.append(-slope, 0.0), assume_a="sym")[:n]
    for share in _SHARES:
        moved = g + share * step
        yield moved / moved.sum()


def _mixed(before: Array, after: Array, share: float) -> Array:
    """A root of (1 − share) X + share X'."""
    from scipy import linalg

    both = np.vstack([math.sqrt(1 - share) * before, math.sqrt(share) * after])
    # In the rows of the first, which span those of the second: full rank, whatever is asked.
    Q, triangle = linalg.qr(before.T, mode="economic", check_finite=False)
    small = linalg.qr(both @ Q, mode="r", check_finite=False)[0][: len(triangle)]
    return np.asarray(small @ Q.T)


def _model(place: Placed, u: Array, t: Array) -> tuple[float, Array | None]:
    """c and R of (2), RᵀR = M; None where M is not definite, far from the best g."""
    from scipy import linalg

    questions, C = place.questions, place.oblique.root
    of_rows_u, of_rows_t = u[questions.owner], t[questions.owner]
    rho_u = float(u @ place.rho)
    h_u, h_t = float(u @ place.h), float(t @ place.h)
    c = max(h_t / h_u, _LEAST_C) if h_u > 0 and h_t > 0 else 1.0
    scale = math.sqrt(rho_u)
    triangle = linalg.qr(place.gained * (np.sqrt(of_rows_u) / scale)[:, None], mode="r", check_finite=False)[
        0
    ][: len(C)]
    strengths = np.abs(np.diag(triangle))
    if len(triangle) < len(C) or strengths.min() <= _WEAK * strengths.max():
        raise DesignError(_LOST, field="weights")
    # R = [T C + y 1ᵀ; √(corner − y·y) 1ᵀ] with Tᵀ y = Gᵀ V_t g / c; everything divided by ρ_u.
    pull = place.gained.T @ (of_rows_t * place.centred) / (c * rho_u)
    y = linalg.solve_triangular(triangle, pull, trans="T", check_finite=False)
    corner = 1 / c**2
    square = float(y @ y)
    if square > (1 - _LEAST_CORNER) * corner:
        return c, None
    R = np.vstack([triangle @ C + y[:, None], np.full((1, C.shape[1]), math.sqrt(corner - square))])
    return c, R


def _solved(R: Array, start: Array | None, tol: float, deadline: Deadline) -> Optimum:
    return least_total(R / np.abs(R).max(), tol=tol, start=start, time_limit=deadline.left)
