"""Non-negative cells that explain the measurements best, and a proof of how close to the best they are.

    minimise  f(x) = ½ hᵀG h + bᵀh  over  x ≥ 0, 1ᵀx = T,     h = x − x̂,  g = G h + b its gradient         (1)

T is the estimated number of records, where the measurements determine it: without that, each of a million
cells that are zero would add a little, and the total would end far outside of its interval.

*Proof.* With x* a minimiser, f convex and quadratic gives ‖x − x*‖²_G ≤ gᵀ(x − x*), and gᵀx* ≥ T min_i g_i.
So the distance δ = ‖x − x*‖_G keeps

    δ² ≤ gᵀx − T min_i g_i                                                                                (2)

and every answer that the measurements determine is at most δ of its own standard error away from the answer
of x*, whose value is unique. This is what the search stops by; nothing about the search is trusted. Where
the number of records is not determined there is no T, and only a part of it is known: a row p > 0 of the row
space of what was measured, s the standard error of p x. With τ = max_i (−g_i)₊/p_i it holds that
−gᵀx* ≤ τ pᵀx* ≤ τ (pᵀx + s δ) and

    δ² ≤ c + τ s δ ,   c = gᵀx + τ pᵀx ,       δ ≤ (τ s + √(τ²s² + 4c))/2                                  (3)

*Search.* Proximal points: f + ½ρ‖x − z‖² is minimised for falling ρ, each time from the last minimiser z.
Its dual is smooth, concave and piecewise quadratic, and semismooth Newton steps climb it: with X(w) the point
of the feasible set nearest to z − (G w + b)/ρ, r = X − x̂ − w and F the cells where X > 0,

    Δ = r + u,   u zero outside F,     P (ρ I + G_FF) P u = −P (G r)_F                                     (4)

where P takes the mean over F away if there is a T. This is solved by a Cholesky factor where G is a small
matrix, else by conjugate gradients. Unlike steps that stop at the first bound they meet, these change as many
cells at once as need be: a million cells take some two hundred products with G, if all are measured. Where
few sums of them are, it begins near the end, where an interior-point method leaves it (`interior`); without
that, 189 answers over 1,920 cells stood at δ = 0.28 from step 200 on. Where it stalls although more is
measured, the interior-point method takes over if G is a matrix.

*End.* At the δ asked for it has converged. Else it ends where δ has not fallen by a tenth in 500 Newton
steps, so that their number is bounded by the logarithm of the first δ; at a number of products; at the
deadline; or at Ctrl-C. The best point so far is kept.

Reference:
    Li, Sun and Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method for solving
    Lasso problems, SIAM J. Optim. 28, Sections 2 and 3: proximal points, and Newton's method on the dual.
    Michelot (1986), A finite algorithm for finding the projection of a point onto the canonical simplex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import Information
from leastnoise.release.adjusting.interior import through_the_inside
from leastnoise.release.adjusting.reduced_sums import CellSums

# No answer may be further from the exact one than this many of its standard errors.
PRECISION = 0.01

# Visits of cells by products with G, some minutes, at which the search ends with the distance it can prove.
# Where all cells are measured, a hundredth of it is enough.
_MAX_VISITS = 10**10

# Cells up to which a step from face to face factorises G; beyond, it takes conjugate gradients.
_MAX_FACTORISED = 2_048

# Cells up to which a G that is held as a matrix is factorised by each of the few steps through the inside.
_MAX_INSIDE = 8_000

# ρ falls by this factor from one round to the next.
_SHRINK = 0.2

# And ends at this share of the mean of G's diagonal.
_MIN_RHO = 1e-3

# Newton steps for each ρ.
_MAX_NEWTON = 40

# The search from face to face has stalled where δ has not fallen to this share in a number of Newton steps.
_LEAST_GAIN = 0.9

# Newton steps without that gain, after which cells that fit in a matrix are looked for through the inside.
_FIRST_NEWTON = 50

# Newton steps without that gain, after which the search ends.
_STALLED_NEWTON = 500


class NonnegativeFit(NamedTuple):
    """What was found.

    Attributes:
        cells: x ≥ 0, (n,).
        precision: δ of (2): no answer is further from the exact one, in its standard errors.
        n_products: how many products with G it took, those of `interior` left out.
        ended: "converged" at the precision asked for; "exhausted" where steps gained no more, or took more
            products than allowed; "deadline" or "interrupted" where the watch says so.
    """

    cells: Array
    precision: float
    n_products: int
    ended: Ended


def nearest_nonnegative(
    information: Information,
    estimates: Array,
    linear: Array,
    *,
    precision: float = PRECISION,
    watch: AdjustWatch | None = None,
) -> NonnegativeFit:
    """The minimiser of (1) up to a distance that is proved."""
    return _FaceSearch(information, estimates, linear, precision, watch or AdjustWatch()).run()


class _FacePoint(NamedTuple):
    """Cells less their estimates, h, the gradient there, and δ."""

    h: Array
    g: Array
    distance: float


class _FaceSearch:
    def __init__(
        self, information: Information, estimates: Array, linear: Array, precision: float, watch: AdjustWatch
    ) -> None:
        self.information, self.estimates, self.linear = information, estimates, linear
        self.precision, self.watch = precision, watch
        self.n_products = 0
        self.n_newton = 0
        self.most_products = _MAX_VISITS // information.n_cells
        # All in terms of h: of 10^12 records, x holds less digits than the noise has.
        self.least = -estimates
        self.total, self.distance = feasible_total_and_distance(information, estimates)
        n = information.n_cells
        # vᵀGv of signs v is about the sum of the diagonal, exactly that on average.
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=n)
        self.unit = float(signs @ self.times(signs)) / n or 1.0
        self.first_rho = self.unit

    @cached_property
    def matrix(self) -> Array | None:
        """G as an array, where there are few cells."""
        n = self.information.n_cells
        held = self.information.matrix()
        if held is not None:
            return held if n <= _MAX_INSIDE else None
        return np.array([self.times(row) for row in np.eye(n)]) if n <= _MAX_FACTORISED else None

    def times(self, h: Array) -> Array:
        self.n_products += 1
        return self.information.times(h)

    def point(self, h: Array, g: Array) -> _FacePoint:
        return _FacePoint(h, g, self.distance(self.cells(h), g))

    def cells(self, h: Array) -> Array:
        return np.maximum(self.estimates + h, 0.0)

    def feasible(self, h: Array) -> Array:
        if self.total is None:
            return np.maximum(h, self.least)
        return nearest_of_total(h, self.total, self.least)

    def run(self) -> NonnegativeFit:
        z = nearest_of_total(np.zeros_like(self.least), max(0.0, float(self.least.sum())), self.least)
        self.best = self.point(z, self.times(z) + self.linear)
        with self.watch.keeping_the_best():
            self._search()
        ended = self.watch.ended(is_converged=self.is_found())
        return NonnegativeFit(self.cells(self.best.h), self.best.distance, self.n_products, ended)

    def _search(self) -> None:
        """Through the inside where few sums are measured, or where faces lead nowhere; else along faces."""
        if self.is_found() or self.is_over():
            return
        sums = self.information.sums() if self.cells(self.best.h).any() else None
        if sums is not None:
            self._inside(sums)
        elif self.matrix is not None:
            self._along_faces(_FIRST_NEWTON)
            if not (self.is_found() or self.is_over()) and self.cells(self.best.h).any():
                self._inside(self.matrix)
        self._along_faces(_STALLED_NEWTON)

    def is_found(self) -> bool:
        return self.best.distance <= self.precision

    def is_over(self) -> bool:
        return self.n_products > self.most_products or self.watch.is_over()

    def _keep(self, point: _FacePoint) -> None:
        """The best point so far is this one, if it is nearer."""
        if point.distance < self.best.distance:
            self.best = point

    def _inside(self, known: CellSums | Array) -> None:
        """A point found through the inside."""
        found = through_the_inside(
            self.information,
            known,
            self.estimates,
            self.linear,
            self.cells(self.best.h),
            has_total=self.total is not None,
            distance=self.distance,
            unit=self.unit,
            precision=self.precision,
            watch=self.watch,
        )
        h = self.feasible(found.h)
        point = self.point(h, self.times(h) + self.linear)
        if point.distance < self.best.distance:
            # What is left to do near the best point is done by short steps.
            self.best, self.first_rho = point, _MIN_RHO * self.unit

    def _along_faces(self, patience: int) -> None:
        """From face to face, until `patience` Newton steps lower the distance by less than a tenth."""
        rho, least_rho = self.first_rho, _MIN_RHO * self.unit
        last = nearest = self.best
        mark, marked_at = nearest.distance, self.n_newton
        while not (self.is_found() or self.is_over()):
            found = self._proximal(last, rho)
            if found.distance > self.precision and not self.watch.is_over():
                polished = self._on_face(found)
                found = polished if polished.distance < found.distance else found
            self._keep(found)
            if found.distance > 2 * nearest.distance and rho < self.unit:
                # Too far to go in one step: from the best end of one again, and no such steps from now on.
                last, rho = nearest, 3 * rho
                least_rho = rho
            else:
                last = found
                nearest = found if found.distance < nearest.distance else nearest
                rho = max(rho * _SHRINK, least_rho)
            if self.best.distance < _LEAST_GAIN * mark:
                mark, marked_at = self.best.distance, self.n_newton
            if self.n_newton - marked_at > patience:
                break

    def _proximal(self, start: _FacePoint, rho: float) -> _FacePoint:
        """About the minimiser of f + ½ρ‖x − z‖², z the start."""
        z = w = start.h
        Gw = start.g - self.linear
        for _ in range(_MAX_NEWTON):
            self.n_newton += 1
            v = Gw + self.linear
            X = self.feasible(z - v / rho)
            r = X - w
            Gr = self.times(r)
            point = self.point(X, v + Gr)
            self._keep(point)
            self.watch.tell(self.best.distance)
            left = float(r @ Gr)
            moved = rho * float((X - z) @ (X - z))
            is_done = left <= max(1e-2 * moved, (0.1 * self.precision) ** 2)
            if point.distance <= self.precision or is_done or self.is_over():
                return point
            step = r + self._solved(self.least < X, -Gr, rho, 1e-4)
            Gstep = self.times(step)
            t = self._step_length(_Line(z, w, v, Gw, step, Gstep, float(Gr @ step)), rho)
            if t == 0.0:
                return point
            w, Gw = w + t * step, Gw + t * Gstep
        return point

    def _solved(self, is_free: Array, right: Array, rho: float, tol: float) -> Array:
        """u of (4) for a right side, zero outside F."""
        free = np.flatnonzero(is_free)
        result = np.zeros_like(right)
        if not len(free):
            return result
        if self.matrix is not None and len(right) <= _MAX_FACTORISED:
            result[free] = self._factorised(free, right[free], rho)
            return result

        def product(q: Array) -> Array:
            wide = np.zeros_like(right)
            wide[free] = q
            return self._centred(self.times(wide)[free]) + rho * q

        result[free] = conjugate_gradients(product, self._centred(right[free]), tol, self.is_over)
        return result

    def _centred(self, values: Array) -> Array:
        """P of (4)."""
        return values if self.total is None else values - values.mean()

    def _factorised(self, free: Array, right: Array, rho: float) -> Array:
        from scipy import linalg

        assert self.matrix is not None
        system = self.matrix[np.ix_(free, free)]
        system[np.diag_indices(len(free))] += rho
        sides = np.stack([right, np.ones_like(right)], axis=1)
        own, ones = linalg.cho_solve(linalg.cho_factor(system), sides).T
        # The multiple of 1 on the right that leaves a sum of zero.
        return np.asarray(own if self.total is None else own - ones * (own.sum() / ones.sum()))

    def _step_length(self, line: _Line, rho: float) -> float:
        """1, ½, ¼, …: the first with enough gain of the dual; 0 where there is none to be seen."""
        z, w, v, Gw, step, Gstep, slope = line
        squares = float(w @ Gw), float(step @ Gw), float(step @ Gstep)

        def dual(t: float) -> float:
            shifted = v + t * Gstep
            X = self.feasible(z - shifted / rho)
            own = squares[0] + 2 * t * squares[1] + t * t * squares[2]
            return -0.5 * own + float(shifted @ X) + 0.5 * rho * float((X - z) @ (X - z))

        here = dual(0.0)
        t = 1.0
        while dual(t) < here + 1e-4 * t * slope - 1e-12 * abs(here):
            t /= 2
            if t < 1e-6:
                return 0.0
        return t

    def _on_face(self, start: _FacePoint) -> _FacePoint:
        """Where the cells above zero are the right ones already, this is the minimiser."""
        step = self._solved(self.least < start.h, -start.g, 1e-9 * self.unit, 1e-6)
        h = self.feasible(start.h + step)
        return self.point(h, self.times(h) + self.linear)


class _Line(NamedTuple):
    """Where a Newton step starts, and where it goes."""

    z: Array
    w: Array
    v: Array
    Gw: Array
    step: Array
    Gstep: Array
    slope: float


def feasible_total_and_distance(
    information: Information, estimates: Array
) -> tuple[float | None, Callable[[Array, Array], float]]:
    """T − 1ᵀx̂, None where T is not determined, and δ of (2) or (3) as a function of cells and gradient.

    Where nothing measured bounds the number of records, it is taken that a minimiser has at most twice as
    many as x and the estimates, each counted as positive: the only thing here that is assumed.
    """
    found = information.total_row()
    if found is not None and found.is_of_all:
        return max(0.0, -float(estimates.sum())), lambda x, g: math.sqrt(float((g - g.min()) @ x))
    p, s = (np.ones(information.n_cells), 0.0) if found is None else (found.row, found.error)
    size = float(np.abs(estimates).sum())

    def distance(x: Array, g: Array) -> float:
        tau = max(0.0, float((-g / p).max()))
        mass = 2 * (float(x.sum()) + size) if found is None else float(p @ x)
        c = max(0.0, float(g @ x) + tau * mass)
        return (tau * s + math.sqrt((tau * s) ** 2 + 4 * c)) / 2

    return None, distance


def nearest_of_total(numbers: Array, total: float, least: Array) -> Array:
    """max(h − θ, least), the nearest to some numbers that have a total and are not below the least."""
    if total <= float(least.sum()):
        return least.copy()
    above, low = numbers, least
    of_others = 0.0
    while True:
        theta = (float(above.sum()) + of_others - total) / len(above)
        is_above = above - theta > low
        # θ only rises, so that what is at its least value stays there.
        if is_above.all() or not is_above.any():
            return np.maximum(numbers - theta, least)
        of_others += float(low[~is_above].sum())
        above, low = above[is_above], low[is_above]


def conjugate_gradients(
    product: Callable[[Array], Array], right: Array, tol: float, is_over: Callable[[], bool]
) -> Array:
    """x with product(x) = right, where the product is symmetric and positive, to a residual of tol · |right|.

    Args:
        is_over: whether to stop early, with the x so far.
    """
    x, r = np.zeros_like(right), right.copy()
    p, square = r.copy(), float(r @ r)
    enough = tol**2 * square
    # Without rounding, as many steps as there are numbers are enough.
    for _ in range(len(right)):
        if square <= enough or is_over():
            break
        q = product(p)
        curvature = float(p @ q)
        if not curvature > 0:
            break
        t = square / curvature
        x += t * p
        r -= t * q
        square, before = float(r @ r), square
        p = r + (square / before) * p
    return x
