"""The descent over bases T_a and weights ω, with the largest profile as a norm that sharpens.

    minimise  log Σ_i γ_i/ω_i + log ‖u‖_β   over C_a and log ω ,  β = 8, 32, 128, 512, 2048 in turn       (1)

by L-BFGS, then ω to its optimum for the bases found (`solver.ProductRows`). (1) does not change where ω
or a row is multiplied by a number, and ‖u‖_β lies between max u and max u · N^(1/β).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.joint.joint_problem import JointProblem
from leastnoise.solver import ProductRows, StopDescent, least_total_by_descent, minimise_smooth

# The norms of the profile, in turn.
NORMS = (8.0, 32.0, 128.0, 512.0, 2048.0)

# The same from a start that is good already: from a plan by residuals, 8 and 32 ended 3 % higher.
SHARP_NORMS = (128.0, 512.0, 2048.0)

# Steps for each of them, at most.
STEPS = 300

# Norms and steps for each, by which starts are compared.
FIRST_NORMS = (8.0, 32.0)
FIRST_STEPS = 60

# Pairs of steps and gradients that stand for the Hessian.
_PAIRS = 20

# The same where there are more than this many variables, whose pairs would take longer than gradients.
_FEW_PAIRS = 10
_MANY_VARIABLES = 300_000

# A step that gains a smaller share of the value ends a descent.
_TOL = 1e-9

# The gap to which ω is worked out where bases are compared.
COMPARED_TOL = 1e-3

# Added where something could be zero, far below every number that counts.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class JointPoint:
    """Bases and weights, at profile 1.

    Attributes:
        bases: C of every axis.
        omega: ω, an array over the rows of all axes.
        q: the dual weights of the cells for these bases, Σq = 1.
        total: Σ γ/ω.
        ended: how the search for them ended.
    """

    bases: list[Array]
    omega: Array
    q: Array
    total: float
    ended: Ended


def weighted(
    problem: JointProblem,
    bases: Sequence[Array],
    *,
    tol: float,
    start: Array | None = None,
    ended: Ended = "converged",
    deadline: Deadline = NEVER,
) -> JointPoint:
    """The best weights for some bases.

    Args:
        start: dual weights of the cells to start from; equal ones unless given.
        ended: how the search for the bases ended.
    """
    backend = problem.backend
    states = problem.states([backend.matrix(C) for C in bases])
    first = np.full(problem.cells, 1.0 / math.prod(problem.cells)) if start is None else start
    gamma = problem.gamma(states)
    least = _LEAST_NEED * float(gamma.sum()) / math.prod(problem.shape)
    # Rows that are needed for next to nothing are measured all the same, or answers would be biased.
    needed = (gamma + least) * problem.needed
    rows = ProductRows([state.squares for state in states], needed, blocks=problem.blocks, backend=backend)
    found = least_total_by_descent(rows, tol=tol, start=first.reshape(-1), time_limit=deadline.left)
    q = (found.q / found.q.sum()).reshape(problem.cells)
    return JointPoint(list(bases), found.root**2, q, found.achieved, worst_ending([ended, found.ended]))


def descended(
    problem: JointProblem,
    point: JointPoint,
    *,
    norms: Sequence[float] = NORMS,
    steps: int = STEPS,
    deadline: Deadline = NEVER,
    told: Callable[[], None] = lambda: None,
) -> tuple[list[Array], Array, Ended]:
    """Bases and weights where the descent (1) ends, and how it ended."""
    variables = JointVariables(problem)
    z = variables.packed(point.bases, point.omega)
    n_pairs = _FEW_PAIRS if len(z) > _MANY_VARIABLES else _PAIRS
    ended: Ended = "converged"
    for norm in norms:

        def value(z: Array, norm: float = norm) -> tuple[float, Array]:
            told()
            return variables.value(z, norm)

        found = minimise_smooth(value, z, tol=_TOL, max_steps=steps, n_pairs=n_pairs, deadline=deadline)
        z, ended = found.x, found.ended
        if ended == "deadline":
            break
    bases, omega = variables.unpacked(z)
    return [problem.backend.numpy(C) for C in bases], problem.backend.numpy(omega), ended


class JointVariables:
    """C of the axes, those of one group once and without rows that are held, and log ω where it counts."""

    def __init__(self, problem: JointProblem) -> None:
        self._problem = problem
        self._first = [a for a, group in enumerate(problem.groups) if group == a]
        self._held = {a: int(problem.pinned[a]) for a in self._first}
        sizes = [(problem.axes[a].rank - self._held[a]) * problem.axes[a].rank for a in self._first]
        self._ends = np.cumsum(sizes).tolist()
        self._counted = problem.blocks.counted > 0

    def packed(self, bases: Sequence[Array], omega: Array) -> Array:
        """The variables of some bases and weights."""
        free = [bases[a][self._held[a] :].reshape(-1) for a in self._first]
        least = _LEAST_WEIGHT * float(omega.max())
        return np.concatenate([*free, np.log(np.maximum(omega[self._counted], least))])

    def unpacked(self, z: Array) -> tuple[list[Any], Any]:
        """C of every axis and ω, on the device."""
        problem, backend = self._problem, self._problem.backend
        parts = np.split(z, self._ends)
        own: dict[int, Any] = {}
        for a, part in zip(self._first, parts, strict=False):
            axis = problem.axes[a]
            C = part.reshape(-1, axis.rank)
            if self._held[a]:
                assert axis.total is not None
                C = np.vstack([axis.total, C])
            own[a] = backend.matrix(C)
        log_omega = np.zeros(problem.shape)
        log_omega[self._counted] = parts[-1]
        omega = backend.exp(backend.matrix(log_omega)) * problem.needed
        return [own[group] for group in problem.groups], omega

    def value(self, z: Array, norm: float) -> tuple[float, Array]:
        """(1) and its gradient."""
        problem = self._problem
        if float(z[self._ends[-1] :].max(initial=0)) > _LARGEST_LOG:
            raise StopDescent
        bases, omega = self.unpacked(z)
        states = problem.states(bases)
        gamma = problem.gamma(states) * problem.needed
        inverse = problem.needed / (omega + _TINY)
        total = float((gamma * inverse).sum())
        kept: list[Any] = []
        u = problem.profile(states, omega, kept)
        top = float(u.max())
        if not (math.isfinite(total) and math.isfinite(top) and total > 0 and top > 0):
            raise StopDescent
        powers = (u / top) ** norm
        whole = float(powers.sum())
        q = powers / (u + _TINY) / whole
        slopes, priced = problem.slopes(states, inverse / total, kept, q)
        of_omega = omega * priced - gamma * inverse / total
        gradient = self.gradient(slopes, of_omega)
        return math.log(total) + math.log(top) + math.log(whole) / norm, gradient

    def gradient(self, slopes: Sequence[Any], of_omega: Any) -> Array:
        """The slopes in the variables, from those in every C and in log ω."""
        problem, backend = self._problem, self._problem.backend
        own: dict[int, Any] = {}
        for slope, group in zip(slopes, problem.groups, strict=True):
            own[group] = own[group] + slope if group in own else slope
        parts = [backend.numpy(own[a][self._held[a] :]).reshape(-1) for a in self._first]
        return np.concatenate([*parts, backend.numpy(of_omega)[self._counted]])


# The logarithm of a weight, at most: beyond, floats have no weight.
_LARGEST_LOG = 700.0

# Beside the mean of γ, what is added to every γ.
_LEAST_NEED = 1e-13

# Beside the largest weight, no weight starts with less: a logarithm that far down would hardly move.
_LEAST_WEIGHT = 1e-12
