"""The convex program of COA handed to a semidefinite solver: the independent cross-check of `dense`.

With W = U R, U orthonormal, the total variance depends on R alone, and

    minimise  trace Y      subject to  diag X ≤ 1,   [X  Rᵀ; R  Y] positive semidefinite        (18)

in which W and Wᵀ change places against the print. Its optimum is exact for Gaussian noise. The covariance
Y of the answers R x is all that is used of it: by Schur's complement Rᵀ Y⁻¹ R ⪯ X, so noise of that
covariance has a profile of at most 1, and no inverse of X is needed.

For Laplace noise the paper adds rows A with L1 columns of at most 1 and [X  Aᵀ; A  I] positive
semidefinite, and drops diag X ≤ 1 (19). Then X has no upper limit and the infimum is 0. With diag X ≤ 1
put back, A = 0 fits every X: the optimum is that of (18), which bounds Laplace noise from below and
leaves A open. The A taken here is the root of Rᵀ Y⁻¹ R, triangular or symmetric, with the smaller
L1 columns; divided by their size it satisfies (19).

Reference:
    Yuan, Yang, Zhang and Hao (2016), Convex Optimization for Linear Query Processing under Approximate
    Differential Privacy, full version, appendix 1.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.bounds import Status
from leastnoise.core.deadline import Deadline
from leastnoise.core.decompositions import svd
from leastnoise.core.errors import DesignError, InputError
from leastnoise.core.extras import missing_package, require
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress
from leastnoise.planning import (
    Method,
    Request,
    SearchResult,
    from_covariance,
    from_rows,
    is_add_remove,
    is_one_of,
    nothing_asked,
    refuse_unless_total,
    scaled_note,
    shown,
    weighted_factor,
)
from leastnoise.privacy import GAUSSIAN
from leastnoise.strategy import Basis, RealStrategy, integer_basis

# Cells that each solver takes: prefix sums of 48 cells need 35 s of Clarabel (interior points) on one core,
# those of 128 cells 6 s of SCS (operator splitting), whose gap is larger.
MAX_CELLS = {"CLARABEL": 48, "SCS": 128}

# Each solver's name for a limit in seconds.
_TIME_LIMIT = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}

# Each solver's name for a limit on its steps, and that limit: its own default.
_STEP_LIMIT = {"CLARABEL": ("max_iter", 200), "SCS": ("max_iters", 100_000)}


@dataclass(frozen=True, eq=False)
class SdpResult:
    """What the solver ended with.

    Attributes:
        value: trace Y.
        X: (n, n).
        Y: (k, k), the covariance of the answers R x.
        A: (n, n) for the L1 program (19), else None.
        q: the multipliers of diag X ≤ 1, (n,).
        status: the solver's own word, "optimal" or "optimal_inaccurate".
        seconds: how long it took.
        ended: how the solver ended; it may converge to an inaccurate solution, where rounding leaves no step.
    """

    value: float
    X: Array
    Y: Array
    A: Array | None
    q: Array
    status: str
    seconds: float
    ended: Ended


def sdp(
    R: Array,
    *,
    l1: bool = False,
    is_bounded: bool = True,
    solver: str = "CLARABEL",
    time_limit: float | None = None,
) -> SdpResult:
    """Solve (18), or (19) with `l1`, for R, (k, n), of rank k.

    Args:
        is_bounded: demand diag X ≤ 1; without it (19) is as printed, and its infimum is 0.
        solver: "CLARABEL" or "SCS".
        time_limit: seconds, looked at before and after the model is written out, and by the solver
            between its steps: one of Clarabel's for 48 cells takes seconds.

    Raises:
        MissingExtraError: if CVXPY is not installed.
        DesignError: if the solver fails.
    """
    if not is_one_of(solver, MAX_CELLS):
        raise InputError(
            f"solver must be one of {', '.join(MAX_CELLS)}, got {shown(solver)}", field="solver", given=solver
        )
    deadline = Deadline.after(time_limit)
    cvxpy = _cvxpy()
    _left(deadline, solver)
    # Neither the strategy nor the weights depend on the unit.
    unit = float(np.abs(R).max())
    program = _program(cvxpy, R / unit, l1=l1, is_bounded=is_bounded)
    try:
        ended = _solve(program.problem, solver, deadline)
    except cvxpy.error.SolverError:
        raise DesignError(
            f"the solver {solver} failed",
            field="solver",
            given=solver,
            remedy="give it more time or try method 'dense'",
        ) from None
    X, Y, A, status = program.X.value, program.Y.value, program.A, str(program.problem.status)
    if not status.startswith("optimal") or not np.linalg.eigvalsh(Y)[0] > 0:
        raise DesignError(
            f"the solver {solver} found no noise ({status})",
            field="solver",
            given=solver,
            remedy="give it more time or try method 'dense'",
        )
    n = R.shape[1]
    q = np.maximum(program.profile.dual_value, 0) if is_bounded else np.zeros(n)
    return SdpResult(
        unit**2 * float(program.problem.value),
        np.asarray(X),
        unit**2 * np.asarray(Y),
        None if A is None else np.asarray(A.value),
        np.asarray(q).reshape(n),
        status,
        deadline.elapsed,
        ended,
    )


@dataclass(frozen=True, eq=False)
class _Program:
    """(18) or (19) in the terms of CVXPY: the problem, its variables, and the constraint diag X ≤ 1."""

    problem: Any
    X: Any
    Y: Any
    A: Any | None
    profile: Any


def _program(cvxpy: Any, R: Array, *, l1: bool, is_bounded: bool) -> _Program:
    k, n = R.shape
    X, Y = cvxpy.Variable((n, n), symmetric=True), cvxpy.Variable((k, k), symmetric=True)
    profile = cvxpy.diag(X) <= 1
    constraints = [cvxpy.bmat([[X, R.T], [R, Y]]) >> 0]
    if is_bounded:
        constraints.append(profile)
    A = cvxpy.Variable((n, n)) if l1 else None
    if A is not None:
        constraints.append(cvxpy.bmat([[X, A.T], [A, np.eye(n)]]) >> 0)
        constraints.append(cvxpy.sum(cvxpy.abs(A), axis=0) <= 1)
    return _Program(cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(Y)), constraints), X, Y, A, profile)


def _solve(problem: Any, solver: str, deadline: Deadline) -> Ended:
    name, most = _STEP_LIMIT[solver]
    limits: dict[str, float] = {name: most}
    with warnings.catch_warnings():
        # That a solution may be inaccurate is in the status.
        warnings.simplefilter("ignore")
        # The model is written out first, which `solve` does not count as its own time.
        problem.get_problem_data(solver)
        left = _left(deadline, solver)
        if left is not None:
            limits[_TIME_LIMIT[solver]] = left
        problem.solve(solver=solver, **limits)
    stats = problem.solver_stats
    if problem.status == "optimal":
        return "converged"
    if left is not None and (stats.solve_time or 0.0) >= left:
        return "deadline"
    return "exhausted" if (stats.num_iters or 0) >= most else "converged"


def _left(deadline: Deadline, solver: str) -> float | None:
    """Seconds left; None where there is no limit.

    Raises:
        DesignError: if that is nothing.
    """
    if deadline.is_past:
        raise DesignError(
            f"time was up before the solver {solver} began",
            field="solver",
            given=solver,
            remedy="give it more time or try method 'dense'",
        )
    return deadline.left


def _cvxpy() -> Any:
    return require("cvxpy", extra="checks", why="method 'sdp'", field="method", given="sdp")


# The method ----------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    if request.backend != "numpy":
        return f"it runs on backend 'numpy' alone, not {request.backend!r}"
    solver = SDP.option(request, "solver")
    if not is_one_of(solver, MAX_CELLS):
        return f"solver must be one of {', '.join(MAX_CELLS)}, got {shown(solver)}"
    reason = refuse_unless_total(request, MAX_CELLS[solver], allows_laplace=True)
    # Last: nobody should install it only to hear another reason.
    if reason is None and importlib.util.find_spec("cvxpy") is None:
        return str(missing_package("cvxpy", extra="checks", why="it"))
    return reason


def _find(request: Request) -> SearchResult:
    solver = SDP.option(request, "solver")
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    basis = integer_basis(request.workload)
    R = weighted_factor(request, basis)
    result = sdp(R, solver=solver, time_limit=_left(request.deadline, solver))
    if request.progress is not None:
        request.progress(Progress(1, math.inf, result.seconds))
    inaccurate = "" if result.status == "optimal" else f", {result.status.replace('_', ' ')}"
    note = f"a semidefinite program by {solver}{inaccurate}"
    if request.privacy.noise == GAUSSIAN:
        claim: Status = "stopped" if is_add_remove(request) else "heuristic"
        note += scaled_note(request)
        return SearchResult(from_covariance(R, result.Y, basis), result.q, claim, note, result.ended)
    proposal, root = _least_l1(R, result.Y, basis)
    note += f", its {root} root under Laplace noise" + scaled_note(request)
    return SearchResult(proposal, result.q, "heuristic", note, result.ended)


def _least_l1(R: Array, Y: Array, basis: Basis) -> tuple[RealStrategy, str]:
    """The root of RᵀY⁻¹R, triangular or symmetric, with the smaller L1 columns, and which it is."""
    from scipy import linalg

    triangular = linalg.solve_triangular(linalg.cholesky(Y, lower=True), R, lower=True)
    triangular = linalg.qr(triangular, mode="r")[0]
    _, values, vectors = svd(triangular)
    symmetric = (vectors.T * values) @ vectors
    roots = {"triangular": triangular, "symmetric": symmetric}
    name = min(roots, key=lambda name: float(np.abs(roots[name]).sum(axis=0).max()))
    return from_rows(roots[name], basis), name


SDP = Method(
    "sdp",
    "the optimum for Gaussian noise by a semidefinite solver (CVXPY), up to "
    + " or ".join(f"{cells} cells ({solver})" for solver, cells in MAX_CELLS.items()),
    _refuses,
    _find,
    {"solver": ("CLARABEL", "CLARABEL, accurate, or SCS, for more cells")},
    is_quick=False,
)
