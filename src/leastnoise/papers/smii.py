"""SM-II, the algorithm printed for "fitness for use", and the two it was compared with.

Queries W = L B, noise of covariance Σ on B x, caps c on the variances. With

    u_i = b_iᵀ Σ⁻¹ b_i  (profile of cell i),   h_j = l_j Σ l_jᵀ / c_j  (share of its cap that query j uses)

the least α = max u with h ≤ 1 is sought (Problem 1). SM-II minimises the sum of two soft maxima instead,

    F(Σ) = (1/t₁) log Σ_i exp(t₁ u_i) + (1/t₂) log Σ_j exp(t₂ h_j)                (8)

for rising t₁ = t₂ by Newton's method with five steps of conjugate gradients, and divides the
result by max h. Plain gradient descent on (8) and a barrier method on Problem 1 itself are the
paper's comparators (sections 7.1.2 and 7.1.1; the latter is in barrier.py).

Read as printed, except where the print cannot be meant: (8) lacks an exp in its second sum. (11)
lacks 1/c_j. In (14), t₁ belongs to the products of gradients and not to ∇²g_i, and the
symbol ⊗ between sums of gradients is their outer product; so the derivatives here are those of (8).
Algorithm 1 searches along a line for the new t with a direction made for the old one, which need not
descend; here a raised t starts a new step. Left open by the paper: TOL, NTTOL and MAXITER, which
`PUBLIC_SETTINGS` takes from the authors' public program. The default NTTOL = 1e-4 is the largest power of
ten that reaches all digits of Table 2; with their 1e-3, 64 prefix sums cost 4.475, as by their program.

Reference:
    Xiao, Ding, Wang, Zhang and Kifer (2021), Optimizing Fitness-For-Use of Differentially Private
    Linear Queries, Algorithms 1 to 3 and section 6.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from leastnoise.core.decompositions import svd
from leastnoise.core.errors import DesignError, MethodError
from leastnoise.core.numerical_rank import numerical_rank
from leastnoise.core.operators import MAX_ENTRIES, Array
from leastnoise.core.progress import Progress
from leastnoise.papers.barrier import interior_point
from leastnoise.papers.fitness import (
    BASES,
    Iterate,
    SmiiResult,
    Step,
    StepRecord,
    lower_bound,
    representation,
    starting_covariance,
)
from leastnoise.planning import (
    Method,
    Request,
    SearchResult,
    choice_option,
    dense_needs,
    from_covariance,
    nothing_asked,
    positive_option,
    scaled_note,
    whole_option,
)
from leastnoise.privacy import GAUSSIAN
from leastnoise.strategy import integer_basis

Optimiser = Literal["newton-cg", "gradient"]

# TOL, NTTOL, MU and MAXITER of the authors' public program, which the paper does not print.
PUBLIC_SETTINGS: dict[str, float | int] = {
    "tol": 1e-3,
    "step_tol": 1e-3,
    "growth": 2.0,
    "max_steps": 1_000_000,
}

# Section 6.2: the residual at which conjugate gradients stop,
_CG_TOL = 1e-10

# the share of the predicted decrease that a step must bring,
_SUFFICIENT = 0.01

# and the factor between the steps tried.
_SHORTER = 0.5

# The paper's line search never gives up. After this many halvings a step is nothing but rounding.
_MAX_HALVINGS = 60


class _SoftMax:
    """F of equation (8) at one point and one t, with its derivatives."""

    def __init__(self, point: Iterate, t: float) -> None:
        self.point, self.t = point, t
        first, self.q = _soft_max(point.u, t)
        second, self.p = _soft_max(point.h, t)
        self.value = first + second

    @cached_property
    def from_cells(self) -> Array:
        """Σ_i q_i y_i y_iᵀ, minus the gradient of the first soft maximum."""
        y = self.point.y
        return (y * self.q) @ y.T

    @cached_property
    def gradient(self) -> Array:
        """∇F, (k, k), equation (13)."""
        K = self.point.K
        return (K.T * self.p) @ K - self.from_cells

    def hessian_product(self, P: Array) -> Array:
        """∇²F applied to a symmetric P, equation (14)."""
        point, y, K = self.point, self.point.y, self.point.K
        half = point.inverse @ P @ self.from_cells
        along_cells = np.einsum("ai,ai->i", P @ y, y)
        along_queries = np.einsum("ja,ja->j", K @ P, K)
        return (
            half
            + half.T
            + self.t * (y * (self.q * (along_cells - self.q @ along_cells))) @ y.T
            + self.t * (K.T * (self.p * (along_queries - self.p @ along_queries))) @ K
        )


def _soft_max(values: Array, t: float) -> tuple[float, Array]:
    """(1/t) log Σ exp(t a) and its gradient."""
    largest = float(values.max())
    shares = np.exp(t * (values - largest))
    total = float(shares.sum())
    return largest + math.log(total) / t, shares / total


def smii(
    L: Array,
    B: Array,
    c: Array,
    *,
    start: Array | None = None,
    optimiser: Optimiser = "newton-cg",
    growth: float = 2.0,
    tol: float = 1e-3,
    step_tol: float = 1e-4,
    cg_steps: int = 5,
    max_steps: int = 1_000_000,
    time_limit: float | None = None,
    progress: Callable[[Step], None] | None = None,
) -> SmiiResult:
    """The covariance that Algorithm 1 finds for queries L B with variance caps c.

    Args:
        L, B: (m, k) and (k, n), both of rank k.
        c: positive and finite, (m,).
        start: Q, (r, n), whose row space holds B; its independent noise gives the first Σ. B unless given.
        optimiser: "gradient" follows −∇F instead of Newton's direction.
        growth: MU, the factor by which t rises.
        tol: TOL, the (n + m)/t at which to stop.
        step_tol: NTTOL, the |⟨s, ∇F⟩| at which t rises.
        cg_steps: MAXCG.
        max_steps: MAXITER.

    Raises:
        DesignError: if the first covariance does not reach every direction of B.
    """
    record = StepRecord(max_steps, time_limit, progress)
    K = L / np.sqrt(c)[:, None]
    point = Iterate(starting_covariance(L, B, c, start), K, B)
    t = 1.0
    balances = []
    while True:
        soft = _SoftMax(point, t)
        ended = record.add(point, t)
        if ended is not None:
            balances.append((soft.p / c, soft.q))
            break
        s = _conjugate_gradient(soft, cg_steps) if optimiser == "newton-cg" else -soft.gradient
        slope = float(np.vdot(s, soft.gradient))
        found = None if abs(slope) < step_tol else _line_search(soft, s, slope, B)
        if found is not None:
            point = found
            continue
        balances.append((soft.p / c, soft.q))
        if (B.shape[1] + len(c)) / t < tol:
            break
        t *= growth
    return SmiiResult(
        point.Sigma / float(point.h.max()),
        tuple(balances),
        tuple(record.history),
        ended is None,
        ended or "converged",
    )


def _conjugate_gradient(soft: _SoftMax, steps: int) -> Array:
    """An approximate solution s of ∇²F s = −∇F, Algorithm 2."""
    s = np.zeros_like(soft.gradient)
    residual = -soft.gradient
    direction = residual
    square = float(np.vdot(residual, residual))
    for _ in range(steps):
        image = soft.hessian_product(direction)
        bend = float(np.vdot(direction, image))
        if bend <= 0:  # F is convex: only rounding is left
            break
        s = s + (square / bend) * direction
        residual = residual - (square / bend) * image
        square, previous = float(np.vdot(residual, residual)), square
        if square <= _CG_TOL:
            break
        direction = residual + (square / previous) * direction
    return s


def _line_search(soft: _SoftMax, s: Array, slope: float, B: Array) -> Iterate | None:
    """The first point along s that is definite and low enough, Algorithm 3; None if only rounding is left."""
    length = 1.0
    for _ in range(_MAX_HALVINGS):
        try:
            found = Iterate(soft.point.Sigma + length * s, soft.point.K, B)
        except np.linalg.LinAlgError:
            found = None
        if found is not None:
            value = _SoftMax(found, soft.t).value
            if value < soft.value and value <= soft.value + length * _SUFFICIENT * slope:
                return found
        length *= _SHORTER
    return None


# The method ----------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    if request.objective.kind != "largest":
        return f"it minimises the largest variance beside its cap, not the {request.objective}"
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    m, n = request.workload.shape
    if m * n > MAX_ENTRIES // 8:
        return f"it would hold {m:,} queries over {n:,} cells densely, more than fit"
    return None


def _find(request: Request) -> SearchResult:
    workload = request.workload
    zero = nothing_asked(request)
    if zero is not None:
        return zero
    optimiser = _one_of(request, "optimiser", ("newton-cg", "gradient", "interior-point"))
    basis_name = _one_of(request, "basis", ("auto", *BASES))
    growth = positive_option("growth", SMII.option(request, "growth"))
    if growth <= 1:
        raise MethodError(f"growth must be above 1, got {growth!r}", field="growth", given=growth)
    c = np.asarray(request.objective.caps(workload), dtype=float)
    W = workload.dense()
    touched = W.any(axis=0)
    basis = integer_basis(workload)
    asked = _with_caps(W, c, basis.rank)
    L, B = representation(W, basis_name)
    L, caps = L[asked], c[asked]
    directions = svd(L)[2][: basis.rank]
    # The paper's t has a unit: its caps are near 1 for coefficients near 1.
    caps = caps / (caps / np.abs(W[asked]).max(axis=1) ** 2).min()
    shared = {
        "start": _start(request, B),
        "max_steps": whole_option("max_steps", SMII.option(request, "max_steps")),
        "time_limit": request.time_limit,
        "progress": _tell(request),
    }
    if optimiser == "interior-point":
        outcome = interior_point(L, B, caps, tol=request.tol, **shared)  # type: ignore[arg-type]
    else:
        outcome = smii(
            L,
            B,
            caps,
            optimiser="gradient" if optimiser == "gradient" else "newton-cg",
            growth=growth,
            tol=positive_option("tol", SMII.option(request, "tol")),
            step_tol=positive_option("step_tol", SMII.option(request, "step_tol")),
            cg_steps=whole_option("cg_steps", SMII.option(request, "cg_steps")),
            **shared,  # type: ignore[arg-type]
        )
    p, q = max(outcome.balances, key=lambda pair: lower_bound(L, B, caps, *pair))
    weights = np.zeros(len(c))
    weights[asked] = p
    return SearchResult(
        # What the queries see of the noise, which is all of it where they span B.
        from_covariance(directions @ B, directions @ outcome.covariance @ directions.T, basis),
        np.where(touched, q, 0.0),
        "stopped" if optimiser == "interior-point" else "heuristic",
        f"{_TITLES[optimiser]}, {outcome.history[-1].step} steps{scaled_note(request)}",
        outcome.ended,
        p=weights,
    )


def _with_caps(W: Array, caps: Array, rank: int) -> Array:
    """Which queries, (m,) booleans, count something and have a cap; all others must follow from them.

    Raises:
        DesignError: if others do not, or there is none.
    """
    asked = np.isfinite(caps) & W.any(axis=1)
    if not asked.any():
        raise DesignError(
            "no query that counts anything has a cap, so any noise would do",
            field="stderr",
            remedy="give one a target",
        )
    if numerical_rank(W[asked]) < rank:
        raise DesignError(
            "queries without a cap ask for something that no query with one does, so any noise would "
            "do for them",
            field="stderr",
            remedy="give them targets or leave them out",
        )
    return np.asarray(asked)


_TITLES = {
    "newton-cg": "SM-II, Newton's method on two soft maxima",
    "gradient": "gradient descent on two soft maxima",
    "interior-point": "a barrier method on the covariance",
}


def _tell(request: Request) -> Callable[[Step], None] | None:
    """The request's progress, told how far the search itself believes to be: (n + m)/t."""
    told = request.progress
    if told is None:
        return None
    m, n = request.workload.shape
    return lambda step: told(Progress(step.step, (m + n) / step.sharpness, step.seconds))


def _start(request: Request, B: Array) -> Array | None:
    given = SMII.option(request, "start")
    if not isinstance(given, str):
        return _rows(given, B.shape[1])
    if given not in ("basis", "cells"):
        raise MethodError(
            f'start must be "basis", "cells" or rows of numbers, got {given!r}', field="start", given=given
        )
    return None if given == "basis" else np.eye(B.shape[1])


def _rows(given: npt.ArrayLike, n: int) -> Array:
    try:
        rows = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        rows = np.zeros(0)
    if rows.ndim != 2 or rows.shape[1] != n or not np.isfinite(rows).all():
        raise MethodError(
            f"start must be rows of {n:,} finite numbers each, one for every cell", field="start"
        )
    return rows


def _one_of(request: Request, name: str, allowed: tuple[str, ...]) -> str:
    return choice_option(name, SMII.option(request, name), allowed)


SMII = Method(
    "smii",
    'the printed algorithm of "fitness for use": two soft maxima, for the largest variance beside its cap',
    _refuses,
    _find,
    {
        "optimiser": ("newton-cg", 'or its comparators "gradient" and "interior-point"'),
        "basis": (
            "auto",
            'B: "cells", "prefixes" or "queries" (independent ones); the better of the first two',
        ),
        "start": ("basis", 'Q, whose independent noise is the first guess: "basis" (B), "cells", or rows'),
        "growth": (2.0, "MU, the factor by which the soft maxima sharpen"),
        "tol": (1e-3, "TOL, the paper's gap (cells + queries)/t at which it stops"),
        "step_tol": (1e-4, "NTTOL, the predicted decrease at which the soft maxima sharpen"),
        "cg_steps": (5, "MAXCG, conjugate gradients per step"),
        "max_steps": (1_000_000, "MAXITER"),
    },
    is_quick=False,
    needs=dense_needs(held=14, first=60, step=30, rounded=None),
)
