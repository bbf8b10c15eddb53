"""The best weights of products of rows: a convex problem, solved axis by axis.

Every axis a has rows T_a, (r_a, n_a). With C_a = T_a ∘ T_a, γ ≥ 0 and ω ≥ 0 arrays over tuples of rows,

    minimise  Σ_i γ_i/ω_i   subject to   u = (⊗_a C_aᵀ) ω ≤ 1  in every cell                              (1)

For any q ≥ 0, with t = (⊗_a C_a) q, no ω does better than h(q)²/Σq, h(q) = Σ_i √(γ_i t_i), and ω = √(γ/t),
divided by max u, achieves h(q) max u. Both meet at the best q. −2 log h(q) + log Σq falls towards it; its
gradient in q is −u/h + 1/Σq. With q = z² it has no constraint, and L-BFGS closes the gap to 1e-4 in about 300
steps where multiplying q by u takes 20,000.

Nothing larger than the cells is held: every product with ⊗ C_a goes axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.descent import StopDescent, minimise_smooth


def towards_cells(squares: Sequence[Any], weights: Any, kept: list[Any] | None = None) -> Any:
    """(⊗ C_aᵀ) ω, an array over the cells, from one over the rows.

    Args:
        kept: filled with what each product along an axis was taken of, (rest, r_a), the last axis first.
    """
    sizes = [int(own.shape[1]) for own in squares]
    values = weights
    for own in reversed(list(squares)):
        values = values.reshape(-1, own.shape[0])
        if kept is not None:
            kept.append(values)
        # The axis that was last comes first: after all of them they are in their order again.
        values = (values @ own).T
    return values.reshape(sizes)


def towards_rows(squares: Sequence[Any], q: Any, kept: list[Any] | None = None) -> Any:
    """(⊗ C_a) q, an array over the rows, from one over the cells.

    Args:
        kept: filled with what each product along an axis was taken of, (n_a, rest), the first axis first.
    """
    sizes = [int(own.shape[0]) for own in squares]
    values = q
    for own in squares:
        values = values.reshape(own.shape[1], -1)
        if kept is not None:
            kept.append(values)
        values = (own @ values).T
    return values.reshape(sizes)


class AxisProducts(Protocol):
    """Both products with ⊗ C_a, as `towards_cells` and `towards_rows` give them."""

    def towards_cells(self, squares: Sequence[Any], weights: Any) -> Any:
        """(⊗ C_aᵀ) ω."""

    def towards_rows(self, squares: Sequence[Any], q: Any) -> Any:
        """(⊗ C_a) q, wherever γ is positive."""


@dataclass
class BothSides:
    """The best that a search has found so far, on either side.

    Attributes:
        achieved, weights: the least value, and what has it.
        lower_bound, dual: the largest bound, and what proves it.
    """

    achieved: float = math.inf
    lower_bound: float = 0.0
    weights: Any = None
    dual: Any = None

    def keep_weights(self, achieved: float, weights: Callable[[], Any]) -> None:
        """Keep weights that achieve less than those before; they are worked out only then."""
        if achieved < self.achieved:
            self.achieved, self.weights = achieved, weights()

    def keep_dual(self, lower_bound: float, dual: Callable[[], Any]) -> None:
        """Keep dual weights that prove more than those before; they are worked out only then."""
        if lower_bound > self.lower_bound:
            self.lower_bound, self.dual = lower_bound, dual()

    def are_within(self, tol: float) -> bool:
        """Whether both sides are within a share of the bound."""
        return self.achieved <= self.lower_bound + tol * abs(self.lower_bound)


@dataclass(frozen=True, eq=False)
class ProductWeights:
    """The weights found.

    Attributes:
        omega: ω, on the device, with max u = 1.
        q: the dual weights of the cells, on the device, Σq = 1.
        achieved, lower_bound: both sides, for these rows only.
    """

    omega: Any
    q: Any
    achieved: float
    lower_bound: float
    ended: Ended


def product_weights(
    squares: Sequence[Any],
    gamma: Any,
    *,
    start: Any,
    blocks: AxisProducts | None = None,
    tol: float,
    max_steps: int = 2_000,
    backend: Backend = NUMPY,
    deadline: Deadline = NEVER,
) -> ProductWeights:
    """ω of (1), to a relative gap.

    Args:
        squares: C_a of every axis, on the device.
        gamma: γ, on the device; where it is zero, ω is.
        start: q to start from, positive somewhere, on the device.
        blocks: how products with ⊗ C_a are worked out where most of γ is zero; along all axes unless given.
        tol: the gap at which the search may end.
    """
    cells_of = towards_cells if blocks is None else blocks.towards_cells
    rows_of = towards_rows if blocks is None else blocks.towards_rows
    best = BothSides()
    floor = _LEAST_SHARE * float(start.sum()) / math.prod(start.shape)

    def value(z: Array) -> tuple[float, Array]:
        root = backend.matrix(z).reshape(start.shape)
        q = root * root
        total = float(q.sum())
        t = rows_of(squares, q) + _TINY
        both = (gamma * t) ** 0.5
        h = float(both.sum())
        omega = both / t
        u = cells_of(squares, omega)
        worst = float(u.max())
        best.keep_weights(h * worst, lambda: omega / worst)
        best.keep_dual(h * h / total, lambda: q / total)
        if best.are_within(tol):
            raise StopDescent
        slope = 2 * root * (1 / total - u / h)
        return -2 * math.log(h) + math.log(total), backend.numpy(slope).reshape(-1)

    first = np.sqrt(np.maximum(backend.numpy(start), floor)).reshape(-1)
    found = minimise_smooth(
        value,
        first / math.sqrt(float(first @ first)),
        tol=_STEP_TOL,
        max_steps=max_steps,
        n_pairs=20,
        deadline=deadline,
    )
    ended = "converged" if best.are_within(tol) else found.ended
    return ProductWeights(best.weights, best.dual, best.achieved, best.lower_bound, ended)


# Of equal shares, what a cell starts with at least: q = z² does not leave zero.
_LEAST_SHARE = 1e-2

# Added to t, so that nothing divides by zero.
_TINY = 1e-300

# A step that gains a smaller share of the value is rounding.
_STEP_TOL = 1e-15
