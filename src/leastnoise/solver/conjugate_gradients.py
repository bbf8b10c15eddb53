"""Preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array


class Solved(NamedTuple):
    """An approximate solution, and whether its residual fell as far as was asked."""

    x: Array
    has_converged: bool


def conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    b: Array,
    *,
    tol: float,
    max_products: int,
    deadline: Deadline = NEVER,
) -> Solved:
    """x with M x = b, for a positive semidefinite M.

    Args:
        product: x → M x.
        precondition: r → roughly M⁻¹r, positive definite.
        tol: the share of the first residual at which to stop, in the preconditioner's norm. Where rounding
            leaves no curvature to follow, x is as good as it gets and counts as converged.
        deadline: looked at before every product.
    """
    x = np.zeros_like(b)
    residual = b.copy()
    w = precondition(residual)
    direction = w
    rho = first = float(residual @ w)
    for _ in range(max_products):
        if rho <= tol**2 * first or rho <= 0:
            return Solved(x, True)
        if deadline.is_past:
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:
            return Solved(x, True)
        x += (rho / curvature) * direction
        residual -= (rho / curvature) * image
        w = precondition(residual)
        rho, previous = float(residual @ w), rho
        direction = w + (rho / previous) * direction
    return Solved(x, False)
