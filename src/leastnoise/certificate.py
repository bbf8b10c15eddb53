"""How good a plan is, proved from both sides, whoever found it.

For weights w and any cell weights q ≥ 0, no Gaussian noise of privacy profile at
most μ² answers the workload W with less total variance than

    F(q)² / (μ² Σ_i q_i),        F(q) = ‖ diag(√w) W diag(√q) ‖_*                 (1)

and the plan's own total variance follows from its integer strategy. Where neighbours
replace a record, weights may stand on pairs of cells as well: the same bound holds
with W D for W, D having a column e_i − e_j for every pair. The pair of a cell and no
cell at all has the column e_i, so weights of cells alone prove a bound there too. Everything
is recomputed here from the workload, the strategy and q; the solver is not asked.

The nuclear norm is bounded from below without trusting a decomposition: F ≥ ⟨N, U⟩/‖U‖₂
for every U, and ‖U‖₂ is bounded from matrix products. Small workloads take U from the
singular vectors of N = diag(√w) W diag(√q). For larger ones, with K = NᵀN or NNᵀ,
whichever is smaller, any matrix E and any positive λ,

    F ≥ trace(Eᵀ K E Λ^{−½}) / (‖E‖₂ ‖Λ^{−½} Eᵀ K E Λ^{−½}‖₂^½)                   (2)

which is U = N E Λ^{−½} Eᵀ (or E Λ^{−½} Eᵀ N). With E the eigenvectors of K, both norms
are 1 up to rounding. A poor decomposition gives a weaker bound, never a wrong one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from leastnoise.errors import DesignError
from leastnoise.operators import Array, require_room
from leastnoise.privacy import Goal
from leastnoise.strategy import Strategy
from leastnoise.workload import Workload

Status = Literal["optimal", "stopped", "heuristic", "data-dependent"]

# A plan further than this from its bound is not called optimal, whatever gap was asked for.
MOST_OPTIMAL = 1e-2

# Rounding of the two sides stays below this; more is a fault, and is said.
_DISAGREEMENT = 1e-6

# Up to this many entries the queries themselves are decomposed; beyond, a Gram
# matrix, which loses directions weaker than 1e-7.
_SVD_ENTRIES = 2**20

# Eigenvalues of K below this share of the largest may be nothing but rounding.
# Leaving them out only lowers the bound.
_NOISE_FLOOR = 1e-14


@dataclass(frozen=True, eq=False)
class Witness:
    """Dual weights that prove the lower bound: p of the queries, q of the cells.

    Where a record is replaced by another, q may hold weights of pairs instead: `pairs`,
    (len(q), 2), then lists the two cells of each, the smaller first. The number of cells, n,
    stands for no cell: a record that is not counted. Only pairs that have a weight are listed.
    """

    p: Array | None
    q: Array
    pairs: Array | None = None


@dataclass(frozen=True, eq=False)
class Certificate:
    """Both sides of a plan's optimality.

    Attributes:
        achieved: what the plan reaches.
        lower_bound: what no noise of the kind `among` can undercut under the same privacy.
        status: "optimal" (the gap asked for was reached), "stopped" (the solver ended
            early), "heuristic" (the method does not aim at the optimum).
        witness: the dual weights (p, q) behind the bound.
        unit: what the two numbers measure.
        among: the noise that the bound speaks of, "Gaussian" or "Laplace".
    """

    achieved: float
    lower_bound: float
    status: Status
    witness: Witness
    unit: str
    among: str = "Gaussian"

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1; the difference itself where the bound is not positive."""
        if self.lower_bound > 0:
            return self.achieved / self.lower_bound - 1
        return self.achieved - self.lower_bound

    def __str__(self) -> str:
        return (
            f"{self.status}: {self.unit} {self.achieved:.6g}, and no {self.among} noise can have less than "
            f"{self.lower_bound:.6g} (gap {self.gap:.1e})"
        )


class _PlanLike(Protocol):
    @property
    def strategy(self) -> Strategy: ...
    @property
    def privacy(self) -> Goal: ...
    @property
    def witness(self) -> Witness: ...
    @property
    def tol(self) -> float: ...
    @property
    def claim(self) -> Status: ...


def certify(workload: Workload, plan: _PlanLike) -> Certificate:
    """The certificate of a plan for a workload, recomputed from scratch.

    Guarantee:
        `lower_bound` holds for every Gaussian noise within the plan's privacy goal,
        up to floating-point rounding of a few matrix products. For pure privacy it
        holds for Laplace noise of one scale on any rows, and on whole-number rows
        also for discrete Laplace noise; it is loose, so no such plan is called
        optimal. `achieved` is the weighted total variance of the integer strategy
        that `measure` uses.

    Raises:
        DesignError: if the strategy cannot answer the workload, spends more than
            its goal, or the witness does not fit.
    """
    strategy, q, pairs = plan.strategy, np.asarray(plan.witness.q, dtype=float), plan.witness.pairs
    n = workload.shape[1]
    if strategy.shape[1] != n or (pairs is None and q.shape != (n,)):
        raise DesignError(
            f"the plan is for {strategy.shape[1]:,} cells with a witness of {q.size:,}, "
            f"the workload has {n:,}; certify the workload that the plan was designed for"
        )
    if not (np.isfinite(q).all() and (q >= 0).all()):
        raise DesignError("the witness must hold finite weights, zero or more")
    if strategy.neighbours != plan.privacy.neighbours:
        raise DesignError(
            f"the noise was scaled for {strategy.neighbours} neighbours, the goal is for "
            f"{plan.privacy.neighbours}; design the plan again"
        )
    if pairs is not None:
        if plan.privacy.neighbours != "replace-one":
            raise DesignError("weights of pairs prove nothing where a record is added or removed")
        if not are_pairs(pairs, q, n):
            raise DesignError(f"the pairs of a witness must be two different cells each, below {n + 1:,}")
    budget = plan.privacy.budget
    if strategy.noise != plan.privacy.noise or strategy.spent > budget:
        raise DesignError("the strategy spends more than its privacy goal allows")
    achieved = total_variance(workload, strategy)
    is_laplace = strategy.noise == "laplace"
    unit_variance = _least_laplace_variance(float(budget)) if is_laplace else 1 / float(budget)
    at_profile_1 = (
        total_variance_bound(workload, q) if pairs is None else pair_variance_bound(workload, q, pairs)
    )
    lower_bound = unit_variance * at_profile_1
    if not (math.isfinite(achieved) and math.isfinite(lower_bound)):
        raise DesignError("the total variance is too large for floats; scale weights or rows down")
    if achieved < lower_bound * (1 - _DISAGREEMENT):
        raise DesignError(
            "the two sides of the certificate contradict each other by more than rounding; bring the sizes "
            "of the queries or their weights closer together"
        )
    # Where both sides meet, rounding may leave the bound above; then neither is known better.
    achieved = max(achieved, lower_bound)
    is_optimal = achieved <= (1 + min(plan.tol, MOST_OPTIMAL)) * lower_bound and not is_laplace
    status: Status = "optimal" if is_optimal else plan.claim
    among = "Laplace" if is_laplace else "Gaussian"
    return Certificate(achieved, lower_bound, status, Witness(None, q, pairs), "total variance", among)


def _least_laplace_variance(epsilon: float) -> float:
    """The least variance per row, over Δ₁², of Laplace noise that spends ε.

    Discrete Laplace noise of scale b = Δ₁/ε has variance v(1/b), v(x) = 1/(2 sinh²(x/2)).
    x² v(x) falls as x grows and Δ₁ ≥ 1 on whole-number rows, so v(ε/Δ₁) ≥ Δ₁² v(ε). The
    continuous kind has 2Δ₁²/ε², which is more. And Δ₁ ≥ Δ, the norm of the Gaussian bound.
    """
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def total_variance(workload: Workload, strategy: Strategy) -> float:
    """Σ_j w_j v_j, the weighted total variance of a strategy's answers.

    Raises:
        DesignError: if some query is outside what the strategy measures.
    """
    # Row by row, whatever their weights: a light query must not get lost behind heavy ones.
    if not strategy.can_answer(workload.operator):
        raise DesignError("the strategy does not span the queries; it was made for another workload")
    # In counts, so that squares of weights and scales do not meet.
    G = strategy.pseudo_inverse * math.sqrt(strategy.noise_variance)
    M = _weighted_rows(workload)
    with np.errstate(over="ignore", invalid="ignore"):
        if M is not None:
            MG = M @ G
            return float(np.vdot(MG, MG))
        return float(np.vdot(G, workload.weighted_gram() @ G))


def total_variance_bound(workload: Workload, q: Array) -> float:
    """F(q)²/Σq: at profile 1, no Gaussian noise has less total variance. See (1)."""
    largest = float(q.max(initial=0))
    if largest <= 0:
        return 0.0
    q = q / largest  # the bound does not depend on the unit of q
    m, n = workload.shape
    if m * n <= _SVD_ENTRIES:
        rows = workload.operator.dense() * np.sqrt(workload.weights)[:, None]
        unit = float(np.abs(rows).max())
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit * np.sqrt(q)) / math.sqrt(math.fsum(q))
        return F * F  # infinite where F ** 2 would raise
    M = _weighted_rows(workload)
    with np.errstate(over="ignore", invalid="ignore"):
        if M is not None:
            # ‖N‖_* is also trace (N Nᵀ)^½, the smaller matrix where queries are few.
            K = (M * q) @ M.T
        else:
            root = np.sqrt(q)
            K = workload.weighted_gram() * root[:, None] * root[None, :]
    scale = float(np.diag(K).max())
    if not 0 < scale < math.inf:
        return scale
    return scale * (trace_root_below(K / scale) ** 2 / math.fsum(q))


def are_pairs(pairs: Array, q: Array, n: int) -> bool:
    """Whether an array lists one pair of two of n cells, or of a cell and n itself, for every weight."""
    return (
        q.ndim == 1
        and pairs.shape == (len(q), 2)
        and pairs.dtype.kind == "i"
        and bool(((pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] <= n)).all())
    )


def pair_variance_bound(workload: Workload, q: Array, pairs: Array) -> float:
    """F(q)²/Σq with q on pairs of cells, for noise of profile 1 where a record is replaced.

    F(q) = ‖ diag(√w) W D diag(√q) ‖_*, whose square is W Lap(q) Wᵀ: the weighted
    Laplacian of the graph of pairs, less the row and column of no cell.
    """
    from scipy import linalg

    listed = q > 0
    if not listed.any():
        return 0.0
    q, pairs = q[listed] / float(q.max()), pairs[listed]
    m, n = workload.shape
    touched, places = np.unique(pairs, return_inverse=True)
    require_room(len(touched), len(q), "the pairs of the witness")
    X = np.zeros((len(touched), len(q)))
    first, second = places.reshape(pairs.shape).T
    X[first, np.arange(len(q))] = np.sqrt(q)
    X[second, np.arange(len(q))] = -np.sqrt(q)
    X, cells = X[touched < n], touched[touched < n]
    if m * max(n, len(q)) <= _SVD_ENTRIES:
        rows = (workload.operator.dense() * np.sqrt(workload.weights)[:, None])[:, cells]
        unit = float(np.abs(rows).max())
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit @ X) / math.sqrt(math.fsum(q))
        return F * F
    M = _weighted_rows(workload)
    with np.errstate(over="ignore", invalid="ignore"):
        V = workload.weighted_gram()[np.ix_(cells, cells)] if M is None else M[:, cells].T @ M[:, cells]
    scale = float(np.diag(V).max())
    if not 0 < scale < math.inf:
        return scale
    # K = Xᵀ V X has few directions and many columns. E spans them, found from a root of V.
    V = V / scale
    values, vectors = linalg.eigh(V)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    _, strengths, E = linalg.svd(root @ X, full_matrices=False)
    return scale * (_trace_root_along(strengths**2, E.T, V, X @ E.T) ** 2 / math.fsum(q))


def nuclear_norm_below(N: Array) -> float:
    """A lower bound on ‖N‖_*: ⟨N, U Vᵀ⟩ / (‖U‖₂ ‖V‖₂), U and V from a singular value decomposition.

    Nothing is squared, so directions down to 1e-15 of the strongest count.
    """
    from scipy import linalg

    U, _, Vt = linalg.svd(N, full_matrices=False)
    norms = (1 + _distance_from_identity(U.T @ U)) * (1 + _distance_from_identity(Vt @ Vt.T))
    bound = float(np.vdot(U.T @ N, Vt)) / math.sqrt(norms)
    return max(bound, 0.0) if math.isfinite(bound) else 0.0


def trace_root_below(K: Array) -> float:
    """A lower bound on trace K^½, for K symmetric and positive semidefinite, by (2)."""
    from scipy import linalg

    kept = np.diag(K) > 0
    if not kept.any():
        return 0.0
    K = K[np.ix_(kept, kept)]
    values, E = linalg.eigh(K)
    return _trace_root_along(values, E, K, E)


def _trace_root_along(values: Array, E: Array, K: Array, Y: Array) -> float:
    """(2) for the matrix whose form along E is Yᵀ K Y, and any values that may be its eigenvalues."""
    strong = values > max(_NOISE_FLOOR * len(values) * values.max(), 0)
    values, E, Y = values[strong], E[:, strong], Y[:, strong]
    # H = Λ^{−½} Yᵀ K Y Λ^{−½} is the identity up to rounding, and so is Eᵀ E.
    H = (Y.T @ (K @ Y)) / np.sqrt(values)[:, None] / np.sqrt(values)[None, :]
    # With λ_a D_a for λ_a, D_a the absolute sum of row a of H, the second norm of (2) is
    # at most 1, and a direction known to few digits pays for itself alone.
    D = np.maximum(np.abs(H).sum(axis=0), np.abs(H).sum(axis=1)) + np.finfo(float).tiny
    norm_EE = 1 + _distance_from_identity(E.T @ E)
    inner = math.fsum(np.diag(H) * np.sqrt(values / D))
    bound = inner / math.sqrt(norm_EE)
    return bound if math.isfinite(bound) else 0.0


def _weighted_rows(workload: Workload) -> Array | None:
    """diag(√w) W where there are fewer queries than cells, None where their Gram matrix is smaller."""
    m, n = workload.shape
    if m > n:
        return None
    return workload.operator.dense() * np.sqrt(workload.weights)[:, None]


def _distance_from_identity(matrix: Array) -> float:
    """A bound on ‖matrix − I‖₂: the smaller of two norms that dominate it."""
    difference: Any = matrix - np.eye(len(matrix))
    row_sums = np.abs(difference).sum(axis=1).max(initial=0)
    column_sums = np.abs(difference).sum(axis=0).max(initial=0)
    return min(float(np.linalg.norm(difference)), math.sqrt(row_sums * column_sums))
