"""Exponential smoothing: a soft maximum and a non-monotone spectral projected gradient.

The matrix mechanism asks for M = AᵀA that minimises max(diag M)·trace(V M⁻¹), V the Gram matrix of
the queries. The maximum is replaced by the soft one,

    f_μ(v) = max v + μ log Σ_i exp((v_i − max v)/μ),     μ = ε/(10 log n)                      (13)

and the product minimised over positive definite M by projected gradients whose steps have
the spectral length ⟨s, s⟩/⟨s, y⟩ and may raise the objective for a while. The strategy is the
symmetric root of M, under Gaussian noise (ESM in the COA papers) as well as
under Laplace noise (AMM in the low-rank paper), for which M is not made.

Left open by the papers and chosen here: ε = 0.01; the start, the identity; no eigenvalue of M below 1e-7,
the closed set that "positive definite" needs; at most 200 steps. A list of several ε solves for each in
turn, from where the last ended. M often ends near singular, above all where the queries do not ask about
everything, because directions that no query needs shrink as far as they may. That is reported, and the
best iterate seen, by the true maximum, is what is returned.

Reference:
    Yuan et al. (2012), Low-Rank Mechanism, appendix B, with the method of Birgin, Martínez and
    Raydan (2000), Nonmonotone spectral projected gradient methods on convex sets, Algorithm SPG2.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, InputError, MethodError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress
from leastnoise.planning import (
    Method,
    Request,
    SearchResult,
    dense_needs,
    from_rows,
    nothing_asked,
    positive_option,
    refuse_unless_total,
    scaled_note,
    whole_option,
)
from leastnoise.privacy import GAUSSIAN
from leastnoise.solver import Backend, load_backend
from leastnoise.strategy import Basis, RealStrategy

# Up to two eigendecompositions per step: 200 steps take minutes at these sizes on a processor, and 33 s
# for 1,024 random queries over 8,192 cells, the COA paper's largest, on an H200.
MAX_CELLS = {"numpy": 2_000, "torch": 2_000, "cuda": 10_000}

# The least eigenvalue of M, beside its largest diagonal entry.
_FLOOR = 1e-7

# Within this many times that floor M is called near singular.
_NEAR = 100.0

# SPG2: the objectives that a step is measured against, so that it may go up for a while,
_MEMORY = 10

# the share of the predicted decrease that it must bring,
_SUFFICIENT = 1e-4

# the range of spectral steps,
_LEAST_STEP = 1e-30
_MOST_STEP = 1e30

# the range of factors by which a step is shortened,
_SHORTEST = 0.1
_LONGEST = 0.9

# and how often it is shortened at most.
_MAX_SHORTENINGS = 40

# A projected gradient below this, beside objective and M of order 1, ends a run.
_STATIONARY = 1e-8

SmoothingRule = Literal["stationary", "iterations", "line search", "time"]

# How a search ended that a rule has ended.
_ENDINGS: dict[SmoothingRule, Ended] = {
    "stationary": "converged",
    "iterations": "exhausted",
    "line search": "converged",
    "time": "deadline",
}


@dataclass(frozen=True, eq=False)
class SmoothingResult:
    """The best iterate and the way to it.

    Attributes:
        M: (n, n), the iterate with the least max(diag M)·trace(V M⁻¹).
        best: after how many steps it was reached.
        objectives: that product at the start and after each step; it may rise.
        smoothed: f_μ(diag M)·trace(V M⁻¹), what was minimised.
        seconds: when each was reached.
        ended: which rule ended the last μ.
        is_near_singular: whether the best M lies at the edge of what is invertible.
    """

    M: Array
    best: int
    objectives: tuple[float, ...]
    smoothed: tuple[float, ...]
    seconds: tuple[float, ...]
    ended: SmoothingRule
    is_near_singular: bool

    @property
    def iterations(self) -> int:
        """How many steps were taken."""
        return len(self.objectives) - 1


def soft_max(v: Array, mu: float) -> tuple[float, Array]:
    """f_μ(v) and its gradient, which sums to one: equations (13) and (14)."""
    largest = float(v.max())
    shares = np.exp((v - largest) / mu)
    total = float(shares.sum())
    return largest + mu * math.log(total), shares / total


def smoothing(
    gram: Array,
    *,
    accuracies: tuple[float, ...] = (0.01,),
    max_iterations: int = 200,
    backend: str = "numpy",
    time_limit: float | None = None,
    watch: Callable[[int, float, float], None] | None = None,
) -> SmoothingResult:
    """Minimise f_μ(diag M)·trace(V M⁻¹) for the Gram matrix V, (n, n).

    Args:
        accuracies: ε of each run in turn; μ = ε/(10 log n).
        max_iterations: steps of each run at most.
        time_limit: seconds, looked at after every step.
        watch: called with step, max(diag M)·trace(V M⁻¹) and seconds.

    Raises:
        InputError: if the Gram matrix is not a finite square with a positive trace, or for an
            unknown backend.
        MissingExtraError: if the backend is not there.
    """
    gram = np.asarray(gram, dtype=float)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise InputError(f"a Gram matrix is square, got shape {gram.shape}", field="gram", given=gram.shape)
    if not np.isfinite(gram).all() or not np.trace(gram) > 0:
        raise InputError("a Gram matrix must be finite, with a positive trace", field="gram")
    arrays = load_backend(backend)
    n = len(gram)
    unit = float(np.trace(gram))
    descent = _SmoothingDescent(gram / unit, arrays, time_limit, watch, unit)
    M = arrays.matrix(np.eye(n))
    ended: SmoothingRule = "iterations"
    for accuracy in accuracies:
        mu = accuracy / (10 * math.log(max(n, 2)))
        M, ended = descent.run(M, mu, max_iterations)
        if ended == "time":
            break
    least = _NEAR * _FLOOR * float(descent.best.diagonal().max())
    return SmoothingResult(
        arrays.numpy(descent.best),
        int(np.argmin(descent.objectives)),
        tuple(unit * value for value in descent.objectives),
        tuple(unit * value for value in descent.smoothed),
        tuple(descent.seconds),
        ended,
        not _is_above(descent.best, least, arrays),
    )


class _SmoothingDescent:
    """SPG2 on one Gram matrix of trace 1; the record goes on from one μ to the next."""

    def __init__(
        self,
        V: Array,
        arrays: Backend,
        time_limit: float | None,
        watch: Callable[[int, float, float], None] | None,
        unit: float,
    ) -> None:
        self.V, self.arrays = arrays.matrix(V), arrays
        self.watch, self.unit = watch, unit
        self.deadline = Deadline.after(time_limit)
        self.best: Any = None
        self.objectives: list[float] = []
        self.smoothed: list[float] = []
        self.seconds: list[float] = []

    def run(self, M: Any, mu: float, max_iterations: int) -> tuple[Any, SmoothingRule]:
        """The last iterate for this μ, and what ended it."""
        dot = self.arrays.dot
        value, gradient, true = self.evaluate(M, mu)
        recent = deque([value], maxlen=_MEMORY)
        if not self.objectives:
            self.record(0, M, value, true)
        step = None
        for _ in range(max_iterations):
            left = float(abs(_projected(M - gradient, self.arrays) - M).max())
            if left <= _STATIONARY * max(1.0, value):
                return M, "stationary"
            step = 1 / max(left, _LEAST_STEP) if step is None else step
            D = _projected(M - step * gradient, self.arrays) - M
            found = self.search(M, D, dot(D, gradient), value, max(recent), mu)
            if found is None:
                return M, "line search"
            S, value, following, true = found
            M = M + S
            curvature = dot(S, following - gradient)
            step = _MOST_STEP if curvature <= 0 else dot(S, S) / curvature
            step = min(max(step, _LEAST_STEP), _MOST_STEP)
            gradient = following
            recent.append(value)
            self.record(len(self.objectives), M, value, true)
            if self.deadline.is_past:
                return M, "time"
        return M, "iterations"

    def search(
        self, M: Any, D: Any, slope: float, value: float, reference: float, mu: float
    ) -> tuple[Any, float, Any, float] | None:
        """The first shortening of D that lowers the objective below the worst of the last few."""
        alpha = 1.0
        for _ in range(_MAX_SHORTENINGS):
            new, gradient, true = self.evaluate(M + alpha * D, mu)
            if new <= reference + _SUFFICIENT * alpha * slope:
                return alpha * D, new, gradient, true
            # The minimum of the parabola through both values and the slope, where it is of use.
            guess = -0.5 * alpha**2 * slope / (new - value - alpha * slope) if math.isfinite(new) else 0.0
            alpha = guess if _SHORTEST * alpha <= guess <= _LONGEST * alpha else alpha / 2
        return None

    def evaluate(self, M: Any, mu: float) -> tuple[float, Any, float]:
        """The smoothed objective, its gradient and the true objective; infinite where M is singular."""
        inverse = self.arrays.inverse(M)
        if inverse is None:
            return math.inf, 0 * M, math.inf
        v = self.arrays.numpy(M.diagonal())
        soft, shares = soft_max(v, mu)
        trace = self.arrays.dot(self.V, inverse)
        gradient = self.arrays.plus_diagonal(-soft * (inverse @ self.V @ inverse), trace * shares)
        return soft * trace, (gradient + gradient.T) / 2, float(v.max()) * trace

    def record(self, number: int, M: Any, value: float, true: float) -> None:
        """Note an iterate; the first of the best is kept."""
        if not self.objectives or true < min(self.objectives):
            self.best = M
        self.objectives.append(true)
        self.smoothed.append(value)
        self.seconds.append(self.deadline.elapsed)
        if self.watch is not None and number:
            self.watch(number, true * self.unit, self.seconds[-1])


def _projected(M: Any, arrays: Backend) -> Any:
    """The nearest symmetric matrix with no eigenvalue below the floor."""
    # Cholesky's factorisation tells where nothing is to be done: 60 steps for 200 prefix sums take 0.2 s
    # instead of 0.7 s.
    if _is_above(M, _FLOOR, arrays):
        return M
    values, vectors = arrays.eigh((M + M.T) / 2, may_overwrite=True)
    return (vectors * values.clip(min=_FLOOR)) @ vectors.T


def _is_above(M: Any, least: float, arrays: Backend) -> bool:
    """Whether every eigenvalue of the symmetric part of M is above a number."""
    lowered = arrays.plus_diagonal((M + M.T) / 2, np.full(len(M), -least))
    return arrays.cholesky(lowered) is not None


# The method ----------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    return refuse_unless_total(request, MAX_CELLS[request.backend], allows_laplace=True)


def _accuracies(value: Any) -> tuple[float, ...]:
    listed = value if isinstance(value, (list, tuple)) else (value,)
    if not listed:
        raise MethodError("accuracies must hold at least one positive number", field="accuracies")
    return tuple(positive_option("accuracies", accuracy, least=1e-12, most=1e6) for accuracy in listed)


def _find(request: Request) -> SearchResult:
    from scipy import linalg

    accuracies = _accuracies(SMOOTHING.option(request, "accuracies"))
    max_iterations = whole_option("max_iterations", SMOOTHING.option(request, "max_iterations"))
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    gram = request.workload.weighted_gram(request.objective.weights(request.workload))
    progress = request.progress
    result = smoothing(
        gram,
        accuracies=accuracies,
        max_iterations=max_iterations,
        backend=request.backend,
        time_limit=request.time_limit,
        watch=None if progress is None else lambda i, _, s: progress(Progress(i, math.inf, s)),
    )
    try:
        C = linalg.cholesky(result.M)
    except linalg.LinAlgError:
        raise DesignError(
            "exponential smoothing ended at a singular matrix",
            field="workload",
            remedy="try method 'dense' or 'coa'",
        ) from None
    half = linalg.solve_triangular(C, np.eye(len(C)))
    inverse = half @ half.T
    q = np.maximum(np.einsum("ij,ij->i", inverse @ gram, inverse), 0)
    if request.privacy.noise == GAUSSIAN:
        proposal = RealStrategy(np.triu(C))
    else:
        values, vectors = linalg.eigh(result.M, driver="evd")
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        proposal = from_rows(root, Basis(None, len(root)))
    singular = ", near singular" if result.is_near_singular else ""
    return SearchResult(
        proposal,
        q,
        "heuristic",
        f"exponential smoothing, best of {result.iterations} steps after {result.best}{singular}"
        + scaled_note(request),
        _ENDINGS[result.ended],
    )


SMOOTHING = Method(
    "smoothing",
    "exponential smoothing (ESM, AMM): soft maximum and projected gradients, up to "
    f"{MAX_CELLS['numpy']:,} cells, or {MAX_CELLS['cuda']:,} on backend 'cuda'",
    _refuses,
    _find,
    {
        "accuracies": ((0.01,), "the error allowed for each soft maximum in turn, as a share of the start"),
        "max_iterations": (200, "steps for each of them at most"),
    },
    is_quick=False,
    # A step projects twice and evaluates for every length tried.
    needs=dense_needs(held=14, first=19, step=30),
)
