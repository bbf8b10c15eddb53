"""How good a plan is, proved from both sides, whoever found it.

For weights w, caps c, and any dual weights p ≥ 0 of the queries and q ≥ 0 of the cells,
no Gaussian noise of privacy profile at most μ² answers the workload W with less than

    total variance               F(w, q)² / (μ² Σ_i q_i)
    largest v_j/c_j              F(p, q)² / (μ² Σ_i q_i Σ_j p_j c_j)                (1)
    total variance within caps   F(w + p, q)² / (μ² Σ_i q_i) − Σ_j p_j c_j

    F(p, q) = ‖ diag(√p) W diag(√q) ‖_*

and the plan's own number follows from its integer strategy. The middle line, with the
targets squared for c, is also the least μ² that meets them all, times 1/μ²: where it
exceeds 1, they cannot be met. Where neighbours
replace a record, weights may stand on pairs of cells as well: the same bounds hold
with W D for W, D having a column e_i − e_j for every pair. The pair of a cell and no
cell at all has the column e_i, so weights of cells alone prove a bound there too. Everything
is recomputed here from the workload, the strategy, p and q; the solver is not asked.

The nuclear norm is bounded from below without trusting a decomposition: F ≥ ⟨N, U⟩/‖U‖₂
for every U, and ‖U‖₂ is bounded from matrix products. Small workloads take U from the
singular vectors of N = diag(√p) W diag(√q). For larger ones, with K = NᵀN or NNᵀ,
whichever is smaller, any matrix E and any positive λ,

    F ≥ trace(Eᵀ K E Λ^{−½}) / (‖E‖₂ ‖Λ^{−½} Eᵀ K E Λ^{−½}‖₂^½)                   (2)

which is U = N E Λ^{−½} Eᵀ (or E Λ^{−½} Eᵀ N). With E the eigenvectors of K, both norms
are 1 up to rounding. A poor decomposition gives a weaker bound, never a wrong one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np

from leastnoise.errors import DesignError
from leastnoise.objective import Objective, Targets
from leastnoise.operators import Array, require_room
from leastnoise.privacy import Goal
from leastnoise.strategy import Strategy
from leastnoise.workload import Workload

Status = Literal["optimal", "stopped", "heuristic", "data-dependent"]

# A plan further than this from its bound is not called optimal, whatever gap was asked for.
MOST_OPTIMAL = 1e-2

# Rounding of the two sides stays below this; more is a fault, and is said.
_DISAGREEMENT = 1e-6

# A bound that exceeds another number by less than this may do so by rounding.
_CERTAIN = 1e-9

# Up to this many entries the queries themselves are decomposed; beyond, a Gram
# matrix, which loses directions weaker than 1e-7.
_SVD_ENTRIES = 2**20

# Up to this many, low rank is looked for in so many random combinations; it is found when what they
# leave of the sum of squares is below the last number.
_FEW_ENTRIES, _SKETCHES, _WHOLE = 2**26, (128, 512), 1e-13

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
            early), "heuristic" (the method does not aim at the optimum), "data-dependent" (its
            error depends on the data: both numbers are NaN, as nothing is known of either).
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
        if self.status == "data-dependent":
            return "data-dependent: what the error will be depends on the data, and no bound is proved for it"
        return (
            f"{self.status}: {self.unit} {self.achieved:.6g}, and no {self.among} noise can have less than "
            f"{self.lower_bound:.6g} (gap {self.gap:.1e})"
        )


class _Spends(Protocol):
    @property
    def spent(self) -> Fraction: ...


class _PlanLike(Protocol):
    @property
    def strategy(self) -> Strategy | None: ...
    @property
    def mechanism(self) -> _Spends | None: ...
    @property
    def privacy(self) -> Goal: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def has_goal(self) -> bool: ...
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
        optimal. `achieved` is what the integer strategy that `measure` uses has:
        its weighted total variance, its largest variance over the caps, or, for
        targets without a goal, the μ² that a record spends. Of a plan that depends on
        the data only the budget is checked; nothing is claimed about its accuracy.

    Raises:
        DesignError: if the strategy cannot answer the workload, spends more than
            its goal or misses targets it must meet, or the witness does not fit.
    """
    strategy, objective = plan.strategy, plan.objective
    if strategy is None:
        return _data_dependent(workload, plan)
    n = workload.shape[1]
    if strategy.shape[1] != n:
        raise DesignError(
            f"the plan is for {strategy.shape[1]:,} cells, the workload has {n:,}; "
            "certify the workload that the plan was designed for"
        )
    if strategy.neighbours != plan.privacy.neighbours:
        raise DesignError(
            f"the noise was scaled for {strategy.neighbours} neighbours, the goal is for "
            f"{plan.privacy.neighbours}; design the plan again"
        )
    caps = objective.caps(workload)
    witness = checked_witness(plan.witness, workload, plan.privacy, caps)
    budget = plan.privacy.budget
    if strategy.noise != plan.privacy.noise or strategy.spent > budget:
        raise DesignError("the strategy spends more than its privacy goal allows")
    achieved = _achieved(workload, plan, strategy, caps)
    is_laplace = strategy.noise == "laplace"
    unit_variance = _least_laplace_variance(float(budget)) if is_laplace else 1 / float(budget)
    lower_bound, size = dual_bound(
        workload, objective, witness, unit_variance=unit_variance if plan.has_goal else 1.0
    )
    if not (math.isfinite(achieved) and math.isfinite(lower_bound)):
        raise DesignError(
            f"the {objective.unit(workload)} is too large for floats; scale weights or rows down"
        )
    if achieved < lower_bound - size * _DISAGREEMENT:
        raise DesignError(
            "the two sides of the certificate contradict each other by more than rounding; bring the sizes "
            "of the queries or their weights closer together"
        )
    # Where both sides meet, rounding may leave the bound above; then neither is known better.
    achieved = max(achieved, lower_bound)
    is_optimal = achieved <= (1 + min(plan.tol, MOST_OPTIMAL)) * lower_bound and not is_laplace
    status: Status = "optimal" if is_optimal else plan.claim
    among = "Laplace" if is_laplace else "Gaussian"
    unit = objective.unit(workload, has_goal=plan.has_goal)
    return Certificate(achieved, lower_bound, status, witness, unit, among)


def _data_dependent(workload: Workload, plan: _PlanLike) -> Certificate:
    if plan.mechanism is None or plan.mechanism.spent > plan.privacy.budget:
        raise DesignError("the mechanism spends more than its privacy goal allows")
    unit = plan.objective.unit(workload, has_goal=plan.has_goal)
    proves_nothing = Witness(None, np.zeros(workload.shape[1]))
    return Certificate(math.nan, math.nan, "data-dependent", proves_nothing, unit, "Laplace")


def checked_witness(witness: Witness, workload: Workload, goal: Goal, caps: Array | None) -> Witness:
    """The weights as floats, those of queries without a cap set to zero, after checking that they fit.

    Raises:
        DesignError: saying what must hold.
    """
    m, n = workload.shape
    q, pairs = np.asarray(witness.q, dtype=float), witness.pairs
    if pairs is None and q.shape != (n,):
        raise DesignError(
            f"the witness has weights of {q.size:,} cells, the workload has {n:,}; "
            "certify the workload that the plan was designed for"
        )
    if pairs is not None:
        if goal.neighbours != "replace-one":
            raise DesignError("weights of pairs prove nothing where a record is added or removed")
        if not are_pairs(pairs, q, n):
            raise DesignError(f"the pairs of a witness must be two different cells each, below {n + 1:,}")
    p = None if caps is None or witness.p is None else np.asarray(witness.p, dtype=float)
    if p is not None and p.shape != (m,):
        raise DesignError(
            f"the witness has weights of {p.size:,} queries, the workload has {m:,}; "
            "certify the workload that the plan was designed for"
        )
    for weights in (q, p):
        if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise DesignError("the witness must hold finite weights, zero or more")
    if p is not None and caps is not None:
        p = np.where(np.isfinite(caps), p, 0)
    return Witness(p, q, pairs)


def dual_bound(
    workload: Workload, objective: Objective, witness: Witness, *, unit_variance: float
) -> tuple[float, float]:
    """The line of (1) for the objective, and the size of the numbers it was computed from.

    Args:
        witness: as `checked_witness` gives it.
        unit_variance: the least variance of a row over its squared sensitivity: 1/μ² for
            Gaussian noise.
    """
    p, q, pairs = witness.p, witness.q, witness.pairs
    caps = objective.caps(workload)

    def at_profile_1(weights: Array) -> float:
        if pairs is None:
            return total_variance_bound(workload, q, weights)
        return pair_variance_bound(workload, q, pairs, weights)

    if objective.kind == "largest":
        # In units of the largest, so that p c stays within floats; the bound does not depend on it.
        if p is None or caps is None or not p.any():
            return 0.0, 0.0
        p = p / p.max()
        size = unit_variance * (at_profile_1(p) / _allowed(p, caps))
        return size, size
    w = objective.weights(workload)
    if p is None or caps is None or not p.any():
        size = unit_variance * at_profile_1(w)
        return size, size
    with np.errstate(over="ignore"):
        size = unit_variance * at_profile_1(w + p)
    return size - _allowed(p, caps), size


def _allowed(p: Array, caps: Array) -> float:
    """Σ_j p_j c_j; a query without a cap has no weight."""
    with np.errstate(over="ignore"):
        return float(np.sum(p[p > 0] * caps[p > 0]))


def _achieved(workload: Workload, plan: _PlanLike, strategy: Strategy, caps: Array | None) -> float:
    """What the plan itself reaches, in the unit of its objective."""
    objective = plan.objective
    if objective.kind == "total":
        return total_variance(workload, strategy, objective.weights(workload))
    assert caps is not None
    largest = largest_share(workload, strategy, caps)
    if (objective.kind == "total-within-caps" or not plan.has_goal) and largest > 1:
        raise DesignError(
            f"the plan misses its targets by a factor of {math.sqrt(largest):.9g}; design it again"
        )
    if objective.kind == "total-within-caps":
        return total_variance(workload, strategy, objective.weights(workload))
    return largest if plan.has_goal else float(strategy.spent)


def largest_share(workload: Workload, strategy: Strategy, caps: Array) -> float:
    """max_j v_j/c_j, the largest variance of a strategy's answers as a share of its cap.

    Raises:
        DesignError: if some query is outside what the strategy measures.
    """
    _require_span(workload, strategy)
    with np.errstate(over="ignore"):
        return float((strategy.variances(workload.operator) / caps).max(initial=0))


def proves_infeasible(workload: Workload, goal: Goal, witness: Witness) -> bool:
    """Whether dual weights prove that no noise meets the workload's targets within a goal.

    The middle line of (1) bounds, from below, the largest v_j over its target squared at the
    goal's budget; where that exceeds 1, some target is missed whatever the noise.

    Raises:
        DesignError: if the weights do not fit the workload or the goal.
    """
    return targets_bound(workload, goal, witness) > 1 + _CERTAIN


def targets_bound(workload: Workload, goal: Goal, witness: Witness) -> float:
    """What no noise within the goal can undercut: the largest variance over its squared target."""
    targets = Targets()
    fitting = checked_witness(witness, workload, goal, targets.caps(workload))
    budget = float(goal.budget)
    unit_variance = _least_laplace_variance(budget) if goal.noise == "laplace" else 1 / budget
    return dual_bound(workload, targets, fitting, unit_variance=unit_variance)[0]


def _least_laplace_variance(epsilon: float) -> float:
    """The least variance per row, over Δ₁², of Laplace noise that spends ε.

    Discrete Laplace noise of scale b = Δ₁/ε has variance v(1/b), v(x) = 1/(2 sinh²(x/2)).
    x² v(x) falls as x grows and Δ₁ ≥ 1 on whole-number rows, so v(ε/Δ₁) ≥ Δ₁² v(ε). The
    continuous kind has 2Δ₁²/ε², which is more. And Δ₁ ≥ Δ, the norm of the Gaussian bound.
    """
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def _require_span(workload: Workload, strategy: Strategy) -> None:
    # Row by row, whatever their weights: a light query must not get lost behind heavy ones.
    if not strategy.can_answer(workload.operator):
        raise DesignError("the strategy does not span the queries; it was made for another workload")


def total_variance(workload: Workload, strategy: Strategy, weights: Array) -> float:
    """Σ_j w_j v_j, the weighted total variance of a strategy's answers.

    Raises:
        DesignError: if some query is outside what the strategy measures.
    """
    _require_span(workload, strategy)
    # In counts, so that squares of weights and scales do not meet.
    G = strategy.pseudo_inverse * math.sqrt(strategy.noise_variance)
    M = _weighted_rows(workload, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        if M is not None:
            MG = M @ G
            return float(np.vdot(MG, MG))
        return float(np.vdot(G, workload.weighted_gram(weights) @ G))


def total_variance_bound(workload: Workload, q: Array, weights: Array | None = None) -> float:
    """F(w, q)²/Σq: at profile 1, no Gaussian noise has less total variance. See (1).

    Args:
        weights: w, one per query; those of the workload unless given.
    """
    w = workload.weights if weights is None else weights
    largest = float(q.max(initial=0))
    if largest <= 0:
        return 0.0
    q = q / largest  # the bound does not depend on the unit of q
    if np.count_nonzero(w) * workload.shape[1] <= _SVD_ENTRIES:
        rows = _counted_rows(workload, w)
        unit = float(np.abs(rows).max(initial=0))
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit * np.sqrt(q)) / math.sqrt(math.fsum(q))
        return F * F  # infinite where F ** 2 would raise
    if np.count_nonzero(w) * workload.shape[1] <= _FEW_ENTRIES:
        of_few = _few_directions_below(_counted_rows(workload, w), np.sqrt(q))
        if of_few is not None:
            F = of_few / math.sqrt(math.fsum(q))
            return F * F
    M = _weighted_rows(workload, w)
    with np.errstate(over="ignore", invalid="ignore"):
        if M is not None:
            # ‖N‖_* is also trace (N Nᵀ)^½, the smaller matrix where queries are few.
            K = (M * q) @ M.T
        else:
            root = np.sqrt(q)
            K = workload.weighted_gram(w) * root[:, None] * root[None, :]
    scale = float(np.diag(K).max(initial=0))
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


def pair_variance_bound(workload: Workload, q: Array, pairs: Array, weights: Array | None = None) -> float:
    """F(w, q)²/Σq with q on pairs of cells, for noise of profile 1 where a record is replaced.

    F(w, q) = ‖ diag(√w) W D diag(√q) ‖_*, whose square is W Lap(q) Wᵀ: the weighted
    Laplacian of the graph of pairs, less the row and column of no cell. The weights w are
    those of the workload unless given.
    """
    from scipy import linalg

    w = workload.weights if weights is None else weights

    listed = q > 0
    if not listed.any():
        return 0.0
    q, pairs = q[listed] / float(q.max()), pairs[listed]
    n = workload.shape[1]
    touched, places = np.unique(pairs, return_inverse=True)
    require_room(len(touched), len(q), "the pairs of the witness")
    X = np.zeros((len(touched), len(q)))
    first, second = places.reshape(pairs.shape).T
    X[first, np.arange(len(q))] = np.sqrt(q)
    X[second, np.arange(len(q))] = -np.sqrt(q)
    X, cells = X[touched < n], touched[touched < n]
    if np.count_nonzero(w) * max(n, len(q)) <= _SVD_ENTRIES:
        rows = _counted_rows(workload, w)[:, cells]
        unit = float(np.abs(rows).max(initial=0))
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit @ X) / math.sqrt(math.fsum(q))
        return F * F
    M = _weighted_rows(workload, w)
    with np.errstate(over="ignore", invalid="ignore"):
        V = workload.weighted_gram(w)[np.ix_(cells, cells)] if M is None else M[:, cells].T @ M[:, cells]
    scale = float(np.diag(V).max(initial=0))
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


def _few_directions_below(rows: Array, root: Array) -> float | None:
    """A lower bound on ‖N‖_*, N = rows · diag(root), where N has few directions; None where it has many.

    ‖N‖_* ≥ ‖N Z‖_* / ‖Z‖₂ for any Z. Taken from random combinations of the rows of N, Z holds all
    directions but for rounding; how well it does decides whether the bound is good, not whether it holds.
    """
    from scipy import linalg

    unit = float(np.abs(rows).max(initial=0))
    if not 0 < unit < math.inf:
        return None
    N = rows / unit
    N *= root
    m, n = N.shape
    whole = float(np.vdot(N, N))
    for size in _SKETCHES:
        if size > min(m, n) // 4:
            return None
        combined = N.T @ np.random.default_rng(0).standard_normal((m, size))
        Z = linalg.qr(combined, mode="economic", check_finite=False)[0]
        P = N @ Z
        if abs(float(np.vdot(P, P)) / whole - 1) < _WHOLE:
            bound = nuclear_norm_below(P) / math.sqrt(1 + _distance_from_identity(Z.T @ Z))
            return unit * bound
    return None


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


def _weighted_rows(workload: Workload, weights: Array) -> Array | None:
    """diag(√w) W where fewer queries count than there are cells; None where their Gram matrix is smaller."""
    if np.count_nonzero(weights) > workload.shape[1]:
        return None
    return _counted_rows(workload, weights)


def _counted_rows(workload: Workload, weights: Array) -> Array:
    """diag(√w) W without the rows whose weight is zero."""
    counted = np.flatnonzero(weights)
    if len(counted) == len(weights):
        return workload.operator.dense() * np.sqrt(weights)[:, None]
    require_room(len(counted), workload.shape[1], "the queries that count")
    return workload.operator.rows(counted) * np.sqrt(weights[counted])[:, None]


def _distance_from_identity(matrix: Array) -> float:
    """A bound on ‖matrix − I‖₂: the smaller of two norms that dominate it."""
    difference: Any = matrix - np.eye(len(matrix))
    row_sums = np.abs(difference).sum(axis=1).max(initial=0)
    column_sums = np.abs(difference).sum(axis=0).max(initial=0)
    return min(float(np.linalg.norm(difference)), math.sqrt(row_sums * column_sums))
