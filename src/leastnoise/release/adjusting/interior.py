"""Non-negative cells nearest to the measurements where these say little: an interior-point method.

Where far fewer sums than cells are measured, most directions of the cells are free, and steps from face to
face (`nonnegative`) need thousands of faces. Going through the inside does not. With s ≥ 0 the multipliers
of x ≥ 0 and τ that of 1ᵀx = T, the minimiser of (1) there has

    G h + b − τ 1 = s ,    1ᵀx = T ,    x_i s_i = 0                                                        (1)

and Newton steps for x_i s_i = σμ, μ falling to 0, keep x and s positive. Each solves (G + D) u = v with
D = diag(s/x). G = MᵀS M knows only k sums of the cells (`reduced_sums`), so with Θ = D⁻¹

    (G + D)⁻¹ = Θ − Θ Mᵀ (S⁻¹ + M Θ Mᵀ)⁻¹ M Θ                                                              (2)

needs a factor of k by k, whatever the number of cells. All pairs of five attributes with 114,660 cells
(k = 2,472) take 14 to 40 steps of 0.35 s; steps from face to face took 20,000 products with G, 90 s or more.

How near a point is to the best is judged as in `nonnegative`, by its cells and gradient alone.

Reference:
    Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optim. 2.
    Friedlander and Orban (2012), A primal-dual regularized interior-point method for convex quadratic
    programs, Math. Prog. Comp. 4: D + r I in place of D, which leaves the limit as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import Information
from leastnoise.release.adjusting.reduced_sums import CellSums

# r, as a share of the mean of G's diagonal. Without it, Θ of cells with many records outgrows S⁻¹ by more
# digits than there are: on heavy-tailed counts the factor then failed at a precision of 0.2.
_REGULARISATION = 1e-9

# The share of the nearest cells in the first point; the rest is the same for all, which keeps it inside.
_FIRST_SHARE = 0.9

# Steps at most; 14 to 40 are usual.
_MAX_STEPS = 100

# The share of the way to the boundary that a step goes at most.
_MAX_STEP_SHARE = 0.99


class Inside(NamedTuple):
    """Where the search ended: h = x − x̂, x ≥ 0, its gradient, and how near it is to the best."""

    h: Array
    gradient: Array
    distance: float
    n_steps: int


class _InteriorStep(NamedTuple):
    x: Array
    s: Array
    tau: float


def through_the_inside(
    information: Information,
    known: CellSums | Array,
    estimates: Array,
    linear: Array,
    first: Array,
    *,
    has_total: bool,
    distance: Callable[[Array, Array], float],
    unit: float,
    precision: float,
    watch: AdjustWatch,
) -> Inside:
    """The best point inside that was found before the precision, the limit or rounding ended the search.

    Args:
        known: M and S of (2), or G itself, which is then factorised.
        first: non-negative cells with the total that is asked for, not all zero.
        has_total: whether the total is held.
        distance: how far cells with a gradient can be from the best.
        unit: the mean of G's diagonal.
    """
    n = len(first)
    total = float(first.sum())
    x = _FIRST_SHARE * first + (1 - _FIRST_SHARE) * total / n
    h = x - estimates
    g = information.times(h) + linear
    low = min(float(g.min()), np.inf if has_total else 0.0) - float(np.abs(g - g.mean()).mean())
    tau = low if has_total else 0.0
    s = g - low
    best = Inside(h, g, distance(x, g), 0)
    with watch.keeping_the_best():
        for step in range(1, _MAX_STEPS + 1):
            if best.distance <= precision or watch.is_over():
                break
            newton = _newton(information, known, x, s, unit)
            if newton is None:
                break
            missing = total - float(x.sum()) if has_total else None
            change = _predicted_and_corrected(newton, _InteriorStep(x, s, tau), g, missing)
            if change is None:
                break
            length, dx = change[0], change[1].x
            x, h, s = x + length * dx, h + length * dx, s + length * change[1].s
            tau += length * change[1].tau
            g = information.times(h) + linear
            here = distance(x, g)
            best = Inside(h, g, here, step) if here < best.distance else best
            watch.tell(best.distance)
            # Rounding: what was gained before is not lost again.
            if here > 10 * best.distance and best.distance < 1:
                break
    return best


def _newton(
    information: Information, known: CellSums | Array, x: Array, s: Array, unit: float
) -> Callable[[Array], Array] | None:
    """v ↦ (G + D)⁻¹v; None where rounding leaves no factor."""
    from scipy import linalg

    D = s / x + _REGULARISATION * unit
    try:
        once = _by_cells(known, D) if isinstance(known, np.ndarray) else _by_sums(known, 1 / D)
    except linalg.LinAlgError:
        return None

    def solved(v: Array) -> Array:
        # (2) takes large numbers from one another: what is left over is solved for again.
        u = once(v)
        return u + once(v - information.times(u) - D * u)

    return solved


def _by_sums(sums: CellSums, theta: Array) -> Callable[[Array], Array]:
    """(2), by a factor of k by k."""
    from scipy import linalg

    factor: Any = linalg.cho_factor(
        sums.variances + sums.weighted_gram(theta), overwrite_a=True, check_finite=False
    )

    def once(v: Array) -> Array:
        own = theta * v
        inner = linalg.cho_solve(factor, sums.apply(own), check_finite=False)
        return np.asarray(own - theta * sums.spread(inner))

    return once


def _by_cells(gram: Array, D: Array) -> Callable[[Array], Array]:
    """The same by a factor of n by n, scaled so that large and small D do not spoil it."""
    from scipy import linalg

    scale = 1 / np.sqrt(gram.diagonal() + D)
    system = gram * np.outer(scale, scale)
    system[np.diag_indices(len(D))] = 1.0
    factor: Any = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
    return lambda v: np.asarray(scale * linalg.cho_solve(factor, scale * v, check_finite=False))


def _predicted_and_corrected(
    newton: Callable[[Array], Array], at: _InteriorStep, g: Array, missing: float | None
) -> tuple[float, _InteriorStep] | None:
    """How far to go, and where; None where rounding has spoiled it."""
    x, s, tau = at
    n = len(x)
    mu = float(x @ s) / n
    left = g - tau - s
    ones = None if missing is None else newton(np.ones(n))

    def direction(aim: Array) -> _InteriorStep:
        dx = newton(aim / x - left)
        dtau = 0.0
        if ones is not None and missing is not None:
            dtau = (missing - float(dx.sum())) / float(ones.sum())
            dx = dx + dtau * ones
        return _InteriorStep(dx, (aim - s * dx) / x, dtau)

    def length(step: _InteriorStep) -> float:
        shares = [-values[change < 0] / change[change < 0] for values, change in ((x, step.x), (s, step.s))]
        return min([1.0, *(float(share.min()) for share in shares if len(share))])

    ahead = direction(-x * s)
    reach = length(ahead)
    aimed = float((x + reach * ahead.x) @ (s + reach * ahead.s)) / n
    centring = min(1.0, max(0.0, aimed / mu)) ** 3
    step = direction(centring * mu - x * s - ahead.x * ahead.s)
    if not (np.isfinite(step.x).all() and np.isfinite(step.s).all()):
        return None
    return min(1.0, _MAX_STEP_SHARE * length(step)), step
