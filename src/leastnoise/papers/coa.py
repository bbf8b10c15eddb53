"""COA: Newton's method with conjugate gradients for the least total variance, as printed.

With V = WᵀW + θ·mean(diag WᵀW)·I, over X = AᵀA,

    minimise  F(X) = ⟨X⁻¹, V⟩      subject to  diag X = 1,  X positive definite           (10)

Every step solves for a direction by at most five conjugate gradients on the entries off
the diagonal, then halves it until X stays positive definite and F falls enough. The
homotopy does so for θ = 1, 0.1, …, 1e-10, each started from the last.

Read as in the Matlab listing, where it differs from the text: θ times the mean of the
diagonal, halved steps, a least decrease of 1e-4, steepest descent first, 30 steps. Its test for a line
search that failed names the wrong counter, which changes nothing: the failed step is 2^−49 of a
direction, and the run ends on the next line. The conjugate gradients of Algorithm 2 (line 7)
multiply D where P is meant. Algorithm 3 is not in the listing; it is run with θ times the same mean.

Ending early is the listing's own doing: thirty steps of five conjugate gradients each are 41 % above
the optimum for 256 prefix sums. Nor is it the same in every unit: the steps tried are powers of ½, and
with all queries times √3.7 it ends 12 % above.

Reference:
    Yuan, Yang, Zhang and Hao (2016), Convex Optimization for Linear Query Processing under Approximate
    Differential Privacy, full version: Algorithms 1 to 3 and appendix 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leastnoise.bounds import Status
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, InputError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress
from leastnoise.planning import (
    Method,
    Request,
    SearchResult,
    dense_needs,
    is_add_remove,
    nothing_asked,
    positive_option,
    refuse_unless_total,
    scaled_note,
    whole_option,
)
from leastnoise.solver import load_backend
from leastnoise.strategy import RealStrategy

# A dozen (n, n) matrices of float64 fill 10 GB at this size. The paper ends at 8,192.
MAX_CELLS = 10_000

# Steps that a line search tries at most: the listing's maxiterls.
_MAX_HALVINGS = 50

# The factor between those steps: its beta.
_SHORTER = 0.5

# The share of the predicted decrease that a step must bring: its sigma.
_SUFFICIENT = 1e-4

# Conjugate gradients at most for a direction: its maxitercg.
_MAX_CG = 5

# The residual that ends them.
_CG_TOL = 1e-10

# A step that gains a smaller share than this ends the search: its accuracy.
_ACCURACY = 1e-5

# Algorithm 3: the first θ,
_FIRST_THETA = 1.0

# the factor between one and the next,
_THETA_FACTOR = 0.1

# and how many there are.
_STAGES = 11

# The largest θ, as a share of the diagonal: far above it, rounding loses the queries beside it.
_MOST_THETA = 1e6

StepListener = Callable[[int, float, float], None]
CoaRule = Literal["accuracy", "iterations", "line search", "time"]

# How a search ended that a rule has ended.
_ENDINGS: dict[CoaRule, Ended] = {
    "accuracy": "converged",
    "iterations": "exhausted",
    "line search": "converged",
    "time": "deadline",
}


@dataclass(frozen=True, eq=False)
class CoaResult:
    """Where COA ended, and how it got there.

    Attributes:
        X: (n, n), positive definite, with a diagonal of ones.
        theta: what multiplied the mean of the diagonal of WᵀW.
        objectives: F before the first step and after each, θ included.
        seconds: when each was reached.
        ended: which rule ended it; "line search" means that no step lowered F.
    """

    X: Array
    theta: float
    objectives: tuple[float, ...]
    seconds: tuple[float, ...]
    ended: CoaRule

    @property
    def iterations(self) -> int:
        """How many steps were taken."""
        return len(self.objectives) - 1


def coa(
    gram: Array,
    *,
    theta: float = 1e-3,
    max_iterations: int = 30,
    start: Array | None = None,
    backend: str = "numpy",
    time_limit: float | None = None,
    watch: StepListener | None = None,
) -> CoaResult:
    """Algorithm 1 on the Gram matrix WᵀW, (n, n).

    Args:
        theta: times the mean of the diagonal, added to the diagonal.
        start: X⁰, positive definite with a diagonal of ones; the identity unless given.
        time_limit: seconds, looked at after every step.
        watch: called with step, F and seconds.

    Raises:
        InputError: if the Gram matrix is not a finite square with a positive trace.
        DesignError: if F leaves the range of floats.
    """
    gram = _checked(gram)
    arrays = load_backend(backend)
    deadline = Deadline.after(time_limit)
    V = arrays.matrix(_regularised(gram, theta))
    X = arrays.matrix(np.eye(len(gram)) if start is None else start)
    iX = arrays.inverse(X)
    if iX is None:
        raise InputError("start must be positive definite", field="start")
    G = -(iX @ V @ iX)
    objective = float((V * iX).sum())
    objectives, seconds = [objective], [deadline.elapsed]
    ended: CoaRule = "iterations"
    for step in range(1, max_iterations + 1):
        D = _steepest(G, arrays) if step == 1 else _newton_direction(iX, G, arrays)
        found = _lower(X, D, float((D * G).sum()), V, objective, arrays)
        if found is None:
            ended = "line search"
            break
        last = objective
        X, iX, objective = found
        G = -(iX @ V @ iX)
        objectives.append(objective)
        seconds.append(deadline.elapsed)
        if watch is not None:
            watch(step, objective, seconds[-1])
        if abs(last - objective) / last <= _ACCURACY:
            ended = "accuracy"
            break
        if deadline.is_past:
            ended = "time"
            break
    return CoaResult(arrays.numpy(X), theta, tuple(objectives), tuple(seconds), ended)


def _regularised(gram: Array, theta: float) -> Array:
    """V = WᵀW + θ·mean(diag WᵀW)·I."""
    added = theta * float(np.mean(np.diag(gram)))
    if not math.isfinite(added + float(np.abs(gram).max())):
        raise DesignError(
            "COA left the range of floats", field="workload", remedy="scale weights or rows down"
        )
    return np.asarray(gram + added * np.eye(len(gram)))


def _lower(
    X: Any, D: Any, slope: float, V: Any, objective: float, arrays: Any
) -> tuple[Any, Any, float] | None:
    """The first of X + D, X + D/2, … that is positive definite and low enough, its inverse and F; or None."""
    for halvings in range(_MAX_HALVINGS):
        alpha = _SHORTER**halvings
        tried = X + alpha * D
        inverse = arrays.inverse(tried)
        if inverse is None:
            continue
        value = float((V * inverse).sum())
        if value <= objective + alpha * _SUFFICIENT * slope:
            if not math.isfinite(value):
                raise DesignError(
                    "COA left the range of floats", field="workload", remedy="scale weights or rows down"
                )
            return tried, inverse, value
    return None


def _steepest(G: Any, arrays: Any) -> Any:
    D = -G
    arrays.clear_diagonal(D)
    return D


def _newton_direction(iX: Any, G: Any, arrays: Any) -> Any:
    """Algorithm 2: D with a zero diagonal and about −X⁻¹DG − GDX⁻¹ = −G off the diagonal."""
    R = _steepest(G, arrays)
    D = 0 * R
    P = 1 * R
    squares = float((R * R).sum())
    for _ in range(_MAX_CG):
        if squares == 0:
            break
        HP = -(iX @ P @ G) - G @ P @ iX
        alpha = squares / float((P * HP).sum())
        D = D + alpha * P
        R = R - alpha * HP
        arrays.clear_diagonal(D)
        arrays.clear_diagonal(R)
        last, squares = squares, float((R * R).sum())
        if squares < _CG_TOL:
            break
        P = R + squares / last * P
    return D


def coa_homotopy(
    gram: Array,
    *,
    theta: float = _FIRST_THETA,
    stages: int = _STAGES,
    max_iterations: int = 30,
    backend: str = "numpy",
    time_limit: float | None = None,
    watch: StepListener | None = None,
) -> tuple[CoaResult, ...]:
    """Algorithm 3: COA for θ, θ/10, θ/100, …, each started from the last; what each ended with.

    A time limit that runs out ends the stages early, with at least one done.
    """
    results: list[CoaResult] = []
    deadline = Deadline.after(time_limit)
    done = 0
    for stage in range(stages):
        if results and deadline.is_past:
            break
        results.append(
            coa(
                gram,
                theta=theta * _THETA_FACTOR**stage,
                max_iterations=max_iterations,
                start=results[-1].X if results else None,
                backend=backend,
                time_limit=deadline.left,
                watch=_continued(watch, done, deadline.elapsed),
            )
        )
        done += results[-1].iterations
    return tuple(results)


def _continued(watch: StepListener | None, steps: int, passed: float) -> StepListener | None:
    """The same watch, for steps and seconds counted on."""
    if watch is None:
        return None
    return lambda step, objective, seconds: watch(steps + step, objective, passed + seconds)


def _checked(gram: Array) -> Array:
    gram = np.asarray(gram, dtype=float)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise InputError(f"a Gram matrix is square, got shape {gram.shape}", field="gram", given=gram.shape)
    if not np.isfinite(gram).all() or not np.trace(gram) > 0:
        raise InputError("a Gram matrix must be finite, with a positive trace", field="gram")
    return gram


# The methods ---------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    return refuse_unless_total(request, MAX_CELLS, allows_laplace=False)


def _find(request: Request) -> SearchResult:
    theta = positive_option("theta", COA.option(request, "theta"), most=_MOST_THETA)
    max_iterations = whole_option("max_iterations", COA.option(request, "max_iterations"))
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    gram = request.workload.weighted_gram(request.objective.weights(request.workload))
    result = coa(
        gram,
        theta=theta,
        max_iterations=max_iterations,
        backend=request.backend,
        time_limit=request.time_limit,
        watch=_watch(request),
    )
    return _found(request, result, gram, f"COA as printed, {_steps(result)}", _ENDINGS[result.ended])


def _find_homotopy(request: Request) -> SearchResult:
    theta = positive_option("theta", COA_HOMOTOPY.option(request, "theta"), most=_MOST_THETA)
    stages = whole_option("stages", COA_HOMOTOPY.option(request, "stages"))
    max_iterations = whole_option("max_iterations", COA_HOMOTOPY.option(request, "max_iterations"))
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    gram = request.workload.weighted_gram(request.objective.weights(request.workload))
    results = coa_homotopy(
        gram,
        theta=theta,
        stages=stages,
        max_iterations=max_iterations,
        backend=request.backend,
        time_limit=request.time_limit,
        watch=_watch(request),
    )
    steps = sum(result.iterations for result in results)
    last = results[-1]
    return _found(
        request,
        last,
        gram,
        f"COA by homotopy, {len(results)} of {stages} stages to theta {last.theta:.0e}, {steps} steps in "
        f"all, the last stage {_steps(last)}",
        # Each stage only starts the next: the last one is what was asked for.
        _ENDINGS[last.ended] if len(results) == stages else "deadline",
    )


def _found(request: Request, result: CoaResult, gram: Array, note: str, ended: Ended) -> SearchResult:
    from scipy import linalg

    C = linalg.cholesky(result.X)
    half = linalg.solve_triangular(C, np.eye(len(C)))
    # At the optimum the multipliers of diag X = 1 are the diagonal of X⁻¹VX⁻¹ (Lemma 3).
    inverse = half @ half.T
    q = np.einsum("ij,ij->i", inverse @ gram, inverse)
    claim: Status = "stopped" if is_add_remove(request) else "heuristic"
    return SearchResult(RealStrategy(np.triu(C)), np.maximum(q, 0), claim, note + scaled_note(request), ended)


def _steps(result: CoaResult) -> str:
    """How many steps were taken, and by which of its own rules COA ended, if by one."""
    reason = {
        "accuracy": ", until one gained less than 1e-5",
        "line search": ", until none lowered the total",
    }.get(result.ended, "")
    return f"{result.iterations} steps{reason}"


def _watch(request: Request) -> StepListener | None:
    progress = request.progress
    if progress is None:
        return None
    # COA has no bound of its own, so while it runs nobody knows the gap.
    return lambda step, _objective, seconds: progress(Progress(step, math.inf, seconds))


# A step is up to five conjugate gradients of four products each, an inverse for every length tried, and two
# products for the gradient.
_NEEDS = dense_needs(held=12, first=12, step=28)

COA = Method(
    "coa",
    f"COA as printed: Newton's method with conjugate gradients, Gaussian noise, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
    {
        "theta": (1e-3, "regularisation: this times the mean diagonal of the Gram matrix is added to it"),
        "max_iterations": (30, "steps at most"),
    },
    is_quick=False,
    needs=_NEEDS,
)

COA_HOMOTOPY = Method(
    "coa-homotopy",
    f"COA for a regularisation that shrinks tenfold from stage to stage, up to {MAX_CELLS:,} cells",
    _refuses,
    _find_homotopy,
    {
        "theta": (_FIRST_THETA, "regularisation of the first stage, as for coa"),
        "stages": (_STAGES, "how many, each with a tenth of the regularisation"),
        "max_iterations": (30, "steps of each stage at most"),
    },
    is_quick=False,
    needs=_NEEDS,
)
