"""The search of `joint_search` where queries have caps: least largest variance, and total within caps.

Every query j of a product has the variance v_j = Σ_i (1/ω_i) Π_a (L_a R_a)[j_a, i_a]², L_a its rows on the
basis of the axis. In place of (1) there, L-BFGS lowers

    log ‖v/c‖_β + log ‖u‖_β                                                 largest v/c at profile 1  (1)
    log Σ γ/ω + log ‖u‖_β + (ρ/2) max(0, s + λ/ρ)² ,  s = log ‖v/c‖_β + log ‖u‖_β                     (2)

(2) is the augmented Lagrangian of the total under max v/c ≤ 1: after every descent λ becomes max(0, λ + ρ s).
The slopes of ‖v/c‖_β in v are weights of the queries, as those of ‖u‖_β in u are weights of the cells. Then
ω is brought to its optimum for the bases found (`solver.capped_product_weights`).
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
from leastnoise.planning.joint.joint_problem import AxisState, JointProblem
from leastnoise.planning.joint.joint_search import NORMS, STEPS, JointVariables
from leastnoise.solver import (
    CappedProducts,
    CappedQueries,
    StopDescent,
    minimise_smooth,
    towards_cells,
    towards_rows,
    weights_within_caps,
)

# The norms for totals within caps, in turn. Softer ones exceed the largest share by so much that no weights
# would keep the caps: with 8 and 32 first, totals ended 2 % higher.
WITHIN_NORMS = (128.0, 512.0, 2048.0)

# Steps for each of these, at most.
WITHIN_STEPS = 500

# Descents for each of them, with a new multiplier each.
_ROUNDS = 5

# ρ of (2).
_PENALTY = 20.0

# Pairs of steps and gradients that stand for the Hessian.
_PAIRS = 20

# A step that gains a smaller share of the value ends a descent.
_TOL = 1e-9

# Added where something could be zero.
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class CappedJointPoint:
    """Bases and weights, at profile 1.

    Attributes:
        bases: C of every axis.
        omega: ω, an array over the rows of all axes.
        q: dual weights of the cells, Σq = 1.
        p: dual weights of the queries, for every different product.
        achieved: the largest v/c, or the total.
        ended: how the search for them ended.
    """

    bases: list[Array]
    omega: Array
    q: Array
    p: list[Array]
    achieved: float
    ended: Ended


class CappedJointProblem:
    """A problem and the caps of its products, those that ask the same as one.

    Attributes:
        asked: for every different product that has a cap the kinds that it asks, and its cap.
        caps: of every product as it was given.
    """

    def __init__(self, problem: JointProblem, caps: Array) -> None:
        self.problem, self.caps = problem, caps
        merged: dict[tuple[int, ...], float] = {}
        for kinds, cap in zip(problem.asked.tolist(), caps.tolist(), strict=True):
            if math.isfinite(cap):
                merged[tuple(kinds)] = min(merged.get(tuple(kinds), math.inf), cap)
        self.asked = merged
        backend = problem.backend
        self._rows = [
            [backend.matrix(axis.rows(kind)) for kind in range(len(axis.grams))] for axis in problem.axes
        ]

    def along_axes(self, states: Sequence[AxisState]) -> list[list[Any]]:
        """L R of every axis and kind, (m, r); 1ᵀ of an axis that is held is its first row."""
        problem = self.problem
        found = []
        for a, state in enumerate(states):
            of_kinds = [L @ state.inverse for L in self._rows[a]]
            if problem.pinned[a]:
                of_kinds[-1] = problem.backend.matrix(np.eye(1, problem.axes[a].rank))
            found.append(of_kinds)
        return found

    def queries(self, along: Sequence[Sequence[Any]]) -> list[CappedQueries]:
        """The squares of every different product, and its cap."""
        squares = [[own.T * own.T for own in of_kinds] for of_kinds in along]
        return [
            CappedQueries([squares[a][kind] for a, kind in enumerate(kinds)], cap)
            for kinds, cap in self.asked.items()
        ]

    def slopes(
        self, states: Sequence[AxisState], along: Sequence[Sequence[Any]], inverse: Any, p: Sequence[Any]
    ) -> tuple[list[Any], Any]:
        """The gradient of Σ p v in every C for fixed p and s = 1/ω; and the slope in s, Σ (⊗ S) p."""
        queries = self.queries(along)
        sums: list[list[Any]] = [[None] * len(own) for own in along]
        priced: Any = 0.0
        for kinds, own, weights in zip(self.asked, queries, p, strict=True):
            of_rows: list[Any] = []
            of_queries: list[Any] = []
            towards_cells(own.squares, inverse, of_rows)
            priced = priced + towards_rows(own.squares, weights, of_queries)
            for a, kind in enumerate(kinds):
                M = (of_rows[len(kinds) - 1 - a].T @ of_queries[a].T).T
                sums[a][kind] = M if sums[a][kind] is None else sums[a][kind] + M
        found = []
        for a, state in enumerate(states):
            of_R: Any = None
            for kind, M in enumerate(sums[a]):
                is_held = self.problem.pinned[a] and kind == len(sums[a]) - 1
                if M is not None and not is_held:
                    part = self._rows[a][kind].T @ (2 * along[a][kind] * M)
                    of_R = part if of_R is None else of_R + part
            R = state.inverse
            found.append(0.0 * R if of_R is None else -(R.T @ of_R @ R.T))
        return found, priced


@dataclass
class _Merit:
    """(1), or (2) with its multiplier."""

    capped: CappedJointProblem
    variables: JointVariables
    is_total: bool
    multiplier: float = 0.0
    excess: float = 0.0

    def value(self, z: Array, norm: float) -> tuple[float, Array]:
        capped, problem = self.capped, self.capped.problem
        bases, omega = self.variables.unpacked(z)
        states = problem.states(bases)
        along = capped.along_axes(states)
        inverse = problem.needed / (omega + _TINY)
        kept: list[Any] = []
        u = problem.profile(states, omega, kept)
        of_profile, q = _log_norm([u], norm)
        shares = [own.variances(inverse) / own.cap for own in capped.queries(along)]
        of_variances, p = _log_norm(shares, norm)
        if not (math.isfinite(of_profile) and math.isfinite(of_variances)):
            raise StopDescent
        p = [own / cap for own, cap in zip(p, capped.asked.values(), strict=True)]
        self.excess = of_profile + of_variances
        value, price, on_total = self.excess, 1.0, 0.0
        gamma = total = None
        if self.is_total:
            gamma = problem.gamma(states) * problem.needed
            total = float((gamma * inverse).sum())
            price = max(0.0, self.multiplier + _PENALTY * self.excess)
            value = math.log(total) + of_profile + price**2 / (2 * _PENALTY)
            on_total = 1.0 / total
        slopes, of_inverse = capped.slopes(states, along, inverse, [price * own for own in p])
        weight_of_u = price + (1.0 if self.is_total else 0.0)
        others, priced = problem.slopes(states, on_total * inverse, kept, weight_of_u * q[0])
        if gamma is not None:
            of_inverse = of_inverse + on_total * gamma
        of_omega = omega * priced - of_inverse * inverse
        return value, self.variables.gradient(
            [one + other for one, other in zip(slopes, others, strict=True)], of_omega
        )


def _log_norm(arrays: Sequence[Any], norm: float) -> tuple[float, list[Any]]:
    """log ‖x‖_β over all entries of some arrays, and its slopes."""
    top = max(float(own.max()) for own in arrays)
    if not 0 < top < math.inf:
        return math.nan, []
    powers = [(own / top) ** norm for own in arrays]
    whole = sum(float(own.sum()) for own in powers)
    slopes = [own / (x + _TINY) / whole for own, x in zip(powers, arrays, strict=True)]
    return math.log(top) + math.log(whole) / norm, slopes


def capped_descent(
    capped: CappedJointProblem,
    bases: Sequence[Array],
    omega: Array,
    *,
    is_total: bool,
    norms: Sequence[float] = NORMS,
    steps: int = STEPS,
    deadline: Deadline = NEVER,
    told: Callable[[], None] = lambda: None,
) -> tuple[list[Array], Array, Ended]:
    """Bases and weights where the descent of (1) or (2) ends, and how it ended."""
    variables = JointVariables(capped.problem)
    merit = _Merit(capped, variables, is_total)
    z = variables.packed(bases, omega)
    rounds = _ROUNDS if is_total else 1
    ended: Ended = "converged"
    for norm in norms:
        for _ in range(rounds):

            def value(z: Array, norm: float = norm) -> tuple[float, Array]:
                told()
                return merit.value(z, norm)

            found = minimise_smooth(
                value, z, tol=_TOL, max_steps=steps // rounds, n_pairs=_PAIRS, deadline=deadline
            )
            z, ended = found.x, found.ended
            if is_total:
                merit.value(z, norm)
                merit.multiplier = max(0.0, merit.multiplier + _PENALTY * merit.excess)
        if ended == "deadline":
            break
    found_bases, found_omega = variables.unpacked(z)
    backend = capped.problem.backend
    return [backend.numpy(C) for C in found_bases], backend.numpy(found_omega), ended


def capped_weights(
    capped: CappedJointProblem,
    bases: Sequence[Array],
    *,
    keeping: CappedJointPoint | None,
    tol: float,
    start: CappedJointPoint | None = None,
    ended: Ended = "converged",
    deadline: Deadline = NEVER,
) -> CappedJointPoint:
    """The best weights for some bases: least largest v/c, or, beside weights that keep caps, least total.

    Args:
        keeping: weights for these bases that keep all caps at profile 1; None for the least largest v/c.
        start: dual weights to start from; equal ones unless given.
        ended: how the search for the bases ended.
    """
    problem = capped.problem
    backend = problem.backend
    states = problem.states([backend.matrix(C) for C in bases])
    queries = capped.queries(capped.along_axes(states))
    cells = [state.squares for state in states]
    q, p = _equal_duals(problem, queries) if start is None else (start.q, start.p)
    gamma = anchor = None
    if keeping is not None:
        gamma = problem.gamma(states) * problem.needed
    rows = CappedProducts(cells, queries, gamma, problem.needed, backend)
    if keeping is not None:
        anchor = rows.anchor(keeping.omega)
        if start is None:
            # Small beside the weights of the queries themselves.
            unit = anchor.total / max(len(queries), 1)
            p = [own * unit * _FIRST_SHARE for own in p]
    flat = np.concatenate([own.reshape(-1) for own in p])
    found = weights_within_caps(rows, anchor, flat, q.reshape(-1), tol=tol, deadline=deadline)
    return CappedJointPoint(
        list(bases),
        found.root**2,
        found.q.reshape(problem.cells),
        rows.by_product(found.p),
        found.achieved,
        worst_ending([ended, found.ended]),
    )


def _equal_duals(problem: JointProblem, queries: Sequence[CappedQueries]) -> tuple[Array, list[Array]]:
    """Equal weights of all cells, and of all queries beside their caps."""
    q = np.full(problem.cells, 1.0 / math.prod(problem.cells))
    return q, [np.full(own.shape, 1.0 / (own.cap * math.prod(own.shape))) for own in queries]


# Of what all queries weigh together, the dual weights of caps start with this share.
_FIRST_SHARE = 0.1
