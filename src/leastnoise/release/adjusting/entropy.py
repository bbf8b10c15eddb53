"""Non-negative cells between the measurements and independent attributes, at the estimated least error.

    minimise  ½ hᵀG h + bᵀh + τ KL(x ‖ x₀)  over  x ≥ 0, 1ᵀx = T,        h = x − x̂                         (1)

with KL(x ‖ x₀) = Σ x_i ln(x_i/x₀_i). x₀ is the table of T records in which all attributes are independent,
made of the estimated counts of each attribute alone; with one attribute, all its cells are alike. The noise
leaves many tables possible. Least squares (`nonnegative`) takes the one that follows the noise most closely;
(1) takes one with no more structure than the measurements show.

*Choice of τ.* For x(τ) as a function of the measurements y, noise of variance ν has (Stein)

    E ‖x(τ) − x‖²_G = E [ ‖x(τ) − x̂‖²_G − k + 2 Σ_i ∂(A x(τ))_i/∂y_i ] ,                                 (2)

k the number of independent rows measured. The derivative is that of all that is done here, x₀ and T
included. Its sum is estimated by a few random directions, the same for all τ: with noise e drawn anew and dx
what it does to x(τ), the mean of eᵀA dx/ν. From a first guess τ falls
to a quarter, a sixteenth, … (or rises) as long as (2) falls, and ends where a parabola through three values
is least. (2) holds for Gaussian noise and is an approximation for Laplace noise; it chooses τ and nothing
else.

*Proof.* With g = G h + b, the minimiser of gᵀx + τ KL(x ‖ x₀) is x⁺ = T softmax(ln x₀ − g/τ). The quadratic
part q of (1) has q(x*) = q(x) + gᵀ(x* − x) + ½‖x − x*‖²_G at the minimiser x*, and (1) grows from x* to x by
½‖x − x*‖²_G or more. Together

    ‖x − x*‖²_G ≤ τ KL(x ‖ x⁺) ,                                                                         (3)

so that every answer is at most the root of that, in its own standard errors, away from that of x*. Near x*
this says too much where counts are large. With r = g + τ ln(x/x₀) less any constant, δ = ‖x − x*‖_G and any
vector d, such as a Newton step, δ² + τ KL(x* ‖ x) ≤ rᵀ(x − x*) ≤ ‖d‖_G δ + (r + G d)ᵀ(x − x*) gives

    δ² ≤ ‖d‖_G δ + c ,   c = τ Σ x_i (exp(−ρ_i) − 1 + ρ_i) ,   ρ = (r + G d)/τ ,                          (4)

and the lesser of the two bounds counts. Nothing about the search is trusted.

*Steps.* Newton's, (G + τ diag(1/x)) d = right side with 1ᵀd = 0, by conjugate gradients; cells that grow do
so by d, cells that shrink by the factor exp(d/x), so that none reaches zero.

Reference:
    Stein (1981), Estimation of the mean of a multivariate normal distribution, Ann. Stat. 9, Theorem 1.
    Ramani, Blu and Unser (2008), Monte-Carlo SURE, IEEE Trans. Image Process. 17: random directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import Information
from leastnoise.release.adjusting.nonnegative import conjugate_gradients, nearest_of_total

# No answer may be further from that of the minimiser than this many of its standard errors.
PRECISION = 0.01

# The same while τ is being chosen.
_SEARCH_PRECISION = 0.3

# τ rises or falls by this factor.
_STEP = 4.0

# Records of structure that the first τ is guessed from at least: even independent attributes show some.
_LEAST_STRUCTURE = 1e-3

# Steps of τ at most, in either direction.
_MAX_STEPS = 10

# (2) has to fall to this share of itself for the search to go on.
_LEAST_FALL = 0.98

# Directions that the derivative of (2) is estimated from: at least this many,
_MIN_DIRECTIONS = 2

# at most this many,
_MAX_DIRECTIONS = 16

# and between these as many as give this many independent numbers.
_NUMBERS = 2_000

# The derivative of ln x₀ is a difference quotient over this share of a direction.
_DIFFERENCE = 1e-3

# Conjugate gradients leave this share of the right side in a Newton step,
_NEWTON_TOL = 0.1

# and this share in a derivative.
_DERIVATIVE_TOL = 0.03

# Newton steps for each τ.
_MAX_NEWTON = 100

# Cells of fewer records than this share of τ, beside the mean of G's diagonal, leave g as it is.
_SMALL = 0.1

# A step is taken where it gains at least this share of what its slope promises,
_LEAST_GAIN = 1e-4

# and halved down to this length.
_MIN_STEP = 1e-6

# Visits of cells by products with G at which the search ends: some minutes.
_MAX_VISITS = 10**10

# Standard errors below zero from which on the mean of a cut normal distribution is taken as 1/|z|.
_LEAST_SCORE = -30.0

# The logarithm of the least cell, beside that of the largest: anything less rounds to nothing.
_LOWEST = -500.0


class EntropyFit(NamedTuple):
    """What was found.

    Attributes:
        cells: x > 0, (n,).
        precision: by (3), no answer is further from that of the minimiser of (1), in its standard errors.
        ended: how the search ended.
        strength: τ.
    """

    cells: Array
    precision: float
    ended: Ended
    strength: float


class NoiseDirections(NamedTuple):
    """Noise drawn anew, not that of the release, and what it does to a release.

    Attributes:
        cells: the change of x̂, (draws, n).
        pulls: Aᵀe/ν, (draws, n).
    """

    cells: Array
    pulls: Array


def drawn_directions(information: Information, noise_variance: float, n_measured: int) -> NoiseDirections:
    """Directions for (2); the same whenever the same plan is given."""
    rng = np.random.default_rng(0)
    n_draws = min(max(_MIN_DIRECTIONS, math.ceil(_NUMBERS / n_measured)), _MAX_DIRECTIONS)
    cells, pulls = [], []
    for _ in range(n_draws):
        e = math.sqrt(noise_variance) * rng.standard_normal(n_measured)
        change = information.estimates(e)
        cells.append(change)
        # G x̂ − b is Aᵀy/ν, whatever y.
        pulls.append(information.times(change) - information.linear(change, e))
    return NoiseDirections(np.array(cells), np.array(pulls))


def entropy_cells(
    information: Information,
    estimates: Array,
    linear: Array,
    shape: Sequence[int],
    directions: NoiseDirections,
    *,
    precision: float = PRECISION,
    watch: AdjustWatch | None = None,
) -> EntropyFit:
    """The minimiser of (1) for the τ of least estimated error, up to a distance that is proved.

    Args:
        estimates: x̂, with a positive sum, which is T.
        shape: how many values the attributes have.
    """
    search = _EntropySearch(information, estimates, linear, shape, directions, watch or AdjustWatch())
    return search.run(precision)


class _EntropyPoint(NamedTuple):
    """Logarithms of cells, the cells, the cells less their estimates, g there, and the root of (3)."""

    logs: Array
    x: Array
    h: Array
    g: Array
    distance: float


class _EntropySearch:
    def __init__(
        self,
        information: Information,
        estimates: Array,
        linear: Array,
        shape: Sequence[int],
        directions: NoiseDirections,
        watch: AdjustWatch,
    ) -> None:
        self.information, self.estimates, self.linear = information, estimates, linear
        self.directions, self.watch = directions, watch
        self.total = float(estimates.sum())
        self.n_products = 0
        self.most_products = _MAX_VISITS // information.n_cells
        n = information.n_cells
        # vᵀGv of signs v is about the sum of the diagonal, exactly that on average.
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=n)
        self.unit = float(signs @ self.times(signs)) / n
        start = _Independence(shape, directions.cells)
        self.log_start = start.logs(estimates) + math.log(self.total)
        self.start_changes = [start.change(estimates, change) for change in directions.cells]

    def times(self, h: Array) -> Array:
        self.n_products += 1
        return self.information.times(h)

    def is_over(self) -> bool:
        return self.n_products > self.most_products or self.watch.is_over()

    # -------------------------------------------------------------------------- the choice of τ

    def run(self, precision: float) -> EntropyFit:
        """Search for τ, then come near to the minimiser of (1) for it."""
        self.tau = self._guess()
        self.best = self._point(self.log_start, np.exp(self.log_start) - self.estimates, self.tau)
        with self.watch.keeping_the_best():
            self._choose()
            self._settle(self.tau, self.best, precision)
        ended = self.watch.ended(is_converged=self.best.distance <= precision)
        return EntropyFit(self.best.x, self.best.distance, ended, self.tau)

    def _guess(self) -> float:
        """2k/KL for the estimates, negative ones cut off.

        At a quarter of it both parts of (1) weigh alike. On Adult the least error was at 3 and at ½ times
        that; steps from above are cheaper than those from below.
        """
        cells = nearest_of_total(self.estimates, self.total, np.zeros_like(self.estimates))
        held = cells > 0
        structure = float(cells[held] @ (np.log(cells[held]) - self.log_start[held]))
        k = float((self.directions.cells * self.directions.pulls).sum()) / len(self.directions.cells)
        return 2 * k / max(structure, _LEAST_STRUCTURE)

    def _choose(self) -> None:
        """Set τ and a point near its minimiser."""
        first = self.tau
        risks: dict[int, float] = {}
        points: dict[int, _EntropyPoint] = {}

        def falls(step: int, before: int) -> bool:
            """Whether the estimated error falls from one step to the next by enough."""
            self._settle(first * _STEP**step, points.get(before, self.best), _SEARCH_PRECISION)
            points[step] = self.best
            # The least is among the last three: memory for them alone.
            for old in list(points)[:-3]:
                del points[old]
            risks[step] = self._risk(self.tau, self.best)
            return before != step and risks[step] < risks[before] - (1 - _LEAST_FALL) * abs(risks[before])

        falls(0, 0)
        for sign in (-1, 1):
            step = 0
            while abs(step) < _MAX_STEPS and not self.is_over() and falls(step + sign, step):
                step += sign
            if step:
                break
        least = min(risks, key=lambda step: risks[step])
        place = float(least)
        if least - 1 in risks and least + 1 in risks:
            place += _vertex(risks[least - 1], risks[least], risks[least + 1])
        self.tau = first * _STEP**place
        self.best = self._seen_at(points[least], self.tau)

    def _risk(self, tau: float, point: _EntropyPoint) -> float:
        """(2), without k."""
        Gh = point.g - self.linear
        explained = 0.0
        Gx = self.times(point.x)
        for change, pull, start in zip(
            self.directions.cells, self.directions.pulls, self.start_changes, strict=True
        ):
            # The total moves as the estimated one does; the rest solves (1) to first order.
            share = float(change.sum()) / self.total
            right = pull + tau * start - share * Gx
            dx = share * point.x + self._solved(point.x, tau, right, _DERIVATIVE_TOL)
            explained += float(pull @ dx)
        # ‖x(τ) − x̂‖²_G of the least-squares x̂, less what is the same for all τ.
        return float(point.h @ (Gh + 2 * self.linear)) + 2 * explained / len(self.start_changes)

    # ------------------------------------------------------------------------- the minimiser of (1)

    def _point(self, logs: Array, h: Array, tau: float) -> _EntropyPoint:
        x = np.exp(logs)
        g = self.times(h) + self.linear
        return _EntropyPoint(logs, x, h, g, self._distance(logs, x, g, tau))

    def _seen_at(self, point: _EntropyPoint, tau: float) -> _EntropyPoint:
        """The same cells, and how far they are from the minimiser for another τ."""
        return point._replace(distance=self._distance(point.logs, point.x, point.g, tau))

    def _distance(self, logs: Array, x: Array, g: Array, tau: float) -> float:
        """The root of (3)."""
        near = self.log_start - g / tau
        near = near - near.max()
        ratio = logs - near + math.log(float(np.exp(near).sum())) - math.log(self.total)
        # x ln(x/x⁺) − x + x⁺, term by term: none is negative, and the sum is KL.
        with np.errstate(over="ignore"):
            terms = x * ratio + x * np.expm1(-ratio)
        return math.sqrt(tau * max(0.0, float(terms.sum())))

    def _settle(self, tau: float, start: _EntropyPoint, precision: float) -> None:
        """Set the best point to one near the minimiser for τ, from another point."""
        self.tau = tau
        self.best = point = self._seen_at(start, tau)
        for _ in range(_MAX_NEWTON):
            if point.distance <= precision or self.is_over():
                return
            pull = -(point.g + tau * (point.logs - self.log_start))
            right = pull - float(pull @ point.x) / self.total
            d = self._solved(point.x, tau, right, _NEWTON_TOL)
            rates, refined = self._refined(point.x, tau, right, d)
            point = point._replace(distance=min(point.distance, refined))
            self.watch.tell(point.distance)
            if point.distance < self.best.distance:
                self.best = point
            if point.distance <= precision:
                return
            found = self._searched(point, tau, rates, right, -float(right @ d))
            if found is None:
                return
            point = found
            if point.distance < self.best.distance:
                self.best = point

    def _refined(self, x: Array, tau: float, right: Array, d: Array) -> tuple[Array, float]:
        """d/x of a Newton step d, and δ of (4).

        In small cells it is −ρ, the same for an exact d: conjugate gradients leave d of cells of 10⁻²⁰⁰
        records as it comes, and such a cell never returned.
        """
        Gd = self.times(d)
        ratio = (Gd - right) / tau
        ratio = ratio - float(ratio @ x) / self.total
        a = math.sqrt(max(0.0, float(d @ Gd)))
        with np.errstate(over="ignore"):
            c = tau * max(0.0, float((x * ratio + x * np.expm1(-ratio)).sum()))
        rates = np.where(self.unit * x < _SMALL * tau, -ratio, d / x)
        return rates, (a + math.sqrt(a * a + 4 * c)) / 2

    def _searched(
        self, at: _EntropyPoint, tau: float, rates: Array, right: Array, slope: float
    ) -> _EntropyPoint | None:
        """The first point of steps 1, ½, ¼, … with enough gain; None where rounding leaves none."""
        # How far a small cell may grow at once and stay one.
        room = math.log(_SMALL * tau / self.unit) - at.logs
        t = 1.0
        while t > _MIN_STEP:
            growth = t * rates
            up = np.maximum(np.log1p(np.maximum(growth, 0.0)), np.minimum(growth, room))
            growth = np.where(growth > 0, up, growth)
            growth = np.maximum(growth, math.log(self.total) + _LOWEST - at.logs)
            growth -= math.log(float(at.x @ np.exp(growth)) / self.total)
            # All in terms of changes: of 10¹⁰ records, cells and (1) hold fewer digits than the noise has.
            change = at.x * np.expm1(growth)
            point = self._point(at.logs + growth, at.h + change, tau)
            square = float(change @ (point.g - at.g)) / 2
            gain = -float(right @ change) + square + tau * float((point.x * growth - change).sum())
            if gain <= _LEAST_GAIN * t * slope:
                return point
            t /= 2
        return None

    def _solved(self, x: Array, tau: float, right: Array, tol: float) -> Array:
        """d with (G + τ diag(1/x)) d = right + a multiple of 1, and 1ᵀd = 0.

        In units of the diagonal, that of G taken as its mean: without these a cube of 27,000 heavy-tailed
        cells took 900 products where now it takes 70.
        """
        scale = np.sqrt(x / (self.unit * x + tau))
        diagonal = tau / (self.unit * x + tau)
        ones = scale / np.linalg.norm(scale)

        def centred(v: Array) -> Array:
            return np.asarray(v - ones * float(ones @ v))

        def product(p: Array) -> Array:
            return centred(scale * self.times(scale * p) + diagonal * p)

        return np.asarray(scale * conjugate_gradients(product, centred(scale * right), tol, self.is_over))


class _Independence:
    """x₀ of (1) for T = 1, as logarithms.

    An estimated count m of one attribute, with standard error s, may be negative. It counts as the mean of a
    normal distribution around m that is cut at zero, which is m itself where m is large.

    Args:
        changes: what noise drawn anew does to estimated cells, (draws, n), which s is taken from.
    """

    def __init__(self, shape: Sequence[int], changes: Array) -> None:
        self.shape = tuple(shape)
        varied = [a for a, size in enumerate(self.shape) if size > 1]
        # The counts of one attribute alone are all there is to know: no table to be drawn to.
        self.axes = varied if len(varied) > 1 else []
        self.errors = {
            a: math.sqrt(float(np.mean([self._counts(change, a) ** 2 for change in changes])))
            for a in self.axes
        }

    def logs(self, cells: Array) -> Array:
        """ln x₀ of estimated cells, (n,)."""
        from scipy import special

        if not self.axes:
            return np.full(len(cells), -math.log(len(cells)))
        total = np.zeros(self.shape)
        for a in self.axes:
            z = self._counts(cells, a) / self.errors[a]
            mean = z + np.exp(-z * z / 2 - special.log_ndtr(z)) / math.sqrt(2 * math.pi)
            # Far below zero the two terms cancel; the mean is then about 1/|z|.
            mean = np.where(z > _LEAST_SCORE, mean, 1 / np.maximum(-z, 1.0))
            own = np.log(mean / mean.sum())
            total += own.reshape([-1 if axis == a else 1 for axis in range(len(self.shape))])
        return total.reshape(-1)

    def change(self, cells: Array, change: Array) -> Array:
        """The derivative of ln x₀ in a direction, (n,)."""
        step = _DIFFERENCE * change
        return np.asarray((self.logs(cells + step) - self.logs(cells - step)) / (2 * _DIFFERENCE))

    def _counts(self, cells: Array, a: int) -> Array:
        others = tuple(axis for axis in range(len(self.shape)) if axis != a)
        return np.asarray(cells.reshape(self.shape).sum(axis=others))


def _vertex(before: float, at: float, after: float) -> float:
    """Where a parabola through values at −1, 0 and 1, of which that at 0 is least, is least itself."""
    curvature = before - 2 * at + after
    return (before - after) / (2 * curvature) if curvature > 0 else 0.0
