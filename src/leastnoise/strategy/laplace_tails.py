"""How far a weighted sum of Laplace noise reaches: a quantile that is never too small, and hardly too large.

The error of an answer is S = Σ_r g_r X_r, with g a row of W A⁺ and independent X_r with
P(X_r = k) ∝ exp(−|k|/b). Wanted is t with P(|S| > t) ≤ α, in these steps:

1. *From the grid to the line.* X is a difference of two geometric variables, which are the whole
   parts of exponential ones with mean b. Those differ by b·L, L a Laplace variable of scale 1, so
   |X − b·L| < 1 and |S − b Σ g_r L_r| ≤ Σ_r |g_r|. The last sum is added to the quantile found below.
2. *Crumbs.* Coefficients that sum to at most d = 10⁻⁹ of the largest are left out. As
   E exp(|L| c/(2d)) = 1/(1 − c/(2d)) and Π(1 − c/(2d)) ≥ 1 − Σ c/(2d) = ½, their part exceeds
   2d·log(2/β) with probability β at most; this is added, and β taken from α.
3. *Shape.* All |g_r| are divided by the largest and rounded up to a grid. Σ g_r L_r without one of
   its terms has a symmetric density that falls from 0 on (log-concave), so P(|S| > t) cannot fall
   when one |g_r| rises. Answers with the same rounded shape share one quantile.
4. *The tail of a shape*, `quantile` below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from leastnoise.core.operators import Array

# The share of α that each source of slack may take: two aliases, the terms left out, the crumbs.
_SLACK = 1e-4
_CRUMBS = 1e-9

# A pseudo-inverse leaves crumbs of 1e-16 beside a single coefficient, which is then taken as alone.
_ALONE = 1e-12

# Shapes are rounded up to 2^-31 of their largest coefficient. The offset keeps coefficients that
# differ by rounding alone, and are simple fractions of the largest, on the same side of a grid point.
_SHAPE_STEPS = 2.0**31
_SHAPE_OFFSET = 0.382

# What all distinct shapes together may cost, in coefficients; a shape costs as many beside its own.
# One took 0.4 ms at 30 and at 1,000 coefficients, so this is about a quarter of a minute.
_MOST_WORK = 2**25
_WORK_OF_A_SHAPE = 1_000

# Factors computed for one shape at most: 64 MiB of complex numbers.
_MOST_FACTORS = 2**22

# Rounding of one factor, several times over: 128 units of 2^-53.
_ROUNDING = 2.0**-46

# Below this scale the grid of the noise shows in a quantile, and the exponential bound may be less.
_FINE_SCALE = 2**20

# Points at which the exponential bound is tried; every one of them is valid.
_CHERNOFF_POINTS = np.linspace(0.02, 0.98, 49)
_TILTS = 28


def half_widths(blocks: Callable[[], Iterable[Array]], *, scale: int, alpha: float) -> Array:
    """t with P(|Σ_r g_r X_r| > t) ≤ α for every row g, in the order of the blocks.

    One coefficient: the exact tail of X. Several: above the true quantile by less than
    0.1 % for α up to 1/2 and b from 2^28 on. Where the distinct shapes together would
    take too long, every row gets `chernoff`, which is safe and wider.

    Args:
        blocks: gives the rows g, (j, r) at a time, and gives them again when called again.
        scale: b.
    """
    shapes: dict[bytes, int] = {}
    described = []
    for G in blocks():
        described.append(_described(G, shapes))
        if sum(len(key) // 4 + _WORK_OF_A_SHAPE for key in shapes) > _MOST_WORK:
            return np.concatenate([chernoff(G, scale, alpha) for G in blocks()])
    quantiles = np.array([quantile(_coefficients(key), alpha * (1 - _SLACK)) for key in shapes])
    halves = [rows.half_widths(quantiles, scale, alpha) for rows in described]
    if scale < _FINE_SCALE:
        bounds = (chernoff(G, scale, alpha) for G in blocks())
        halves = [np.minimum(half, bound) for half, bound in zip(halves, bounds, strict=True)]
    return np.concatenate(halves)


def quantile(coefficients: Array, alpha: float) -> float:
    """t with P(|S| > t) ≤ α for S = Σ_r g_r L_r, L_r independent Laplace variables of scale 1.

    Let M(z) = E exp(zS) = Π_r 1/(1 − g_r² z²) and 0 < θ < 1/max g. The function
    Q(t) = exp(θt) P(S > t) is continuous, falls exponentially on both sides, and

        ∫ Q(t) exp(iut) dt = M(z)/z,   z = θ + iu.

    Poisson's summation formula with a step Δ and T = 2π/Δ gives

        Q(t) ≤ Σ_n Q(t + nT) = (Δ/2π) Σ_k M(z_k)/z_k · exp(−i u_k t),   u_k = kΔ,

    where the sums run over all whole numbers. What a sum over k has too much lies in the
    terms n ≠ 0, none of which is negative: the formula bounds the tail from above for every
    θ and Δ. Those are chosen so that the excess is about 10⁻⁴ of α.

    The terms beyond |k| = K are bounded, not guessed. With h_r = g_r²/(1 − g_r² θ²),

        M(z)/M(θ) = Π_r 1/(1 + h_r (u² − 2iθu)),   |1 + h(u² − 2iθu)| ≥ 1 + hu²,

    and log(1 + hu²) grows in log u with a slope of 2hu²/(1 + hu²), which grows too. So for
    u ≥ v = KΔ and β = Σ_r h_r v²/(1 + h_r v²), |M(z)/M(θ)| ≤ Π_r 1/(1 + h_r v²) · (v/u)^(2β), and

        2 Σ_{k>K} |M(z_k)/(M(θ) z_k)| ≤ Π_r 1/(1 + h_r v²) / (βΔ).

    Rounding: Δ has 24 bits, so that every u_k is exact. Of h_r, 1 − g_r θ is the only
    difference, off by 2·2^-53/(1 − θ max g), and a relative error of h_r moves its factor by no
    more, since |x| ≤ |1 + x| where Re x ≥ 0. Equal coefficients share a factor, taken to a
    power, which costs the logarithm of the factor in units. All steps together stay below
    `_ROUNDING`, 128 such units, times (r/(1 − θ max g) + K + v t + (r + 1)(1 + log M(θ)) + θt)
    of the sum of absolute values, which is added. P(|S| > t) is twice P(S > t).

    Args:
        coefficients: g, (r,), positive.

    Guarantee:
        P(|S| > t) ≤ α for the coefficients given, whatever K, θ and Δ were chosen.
    """
    g, n = _merged(coefficients, alpha)
    theta, spacing, v, longest = _contour(g, n, alpha)
    r = len(coefficients)
    K = max(1, min(math.ceil(v / spacing), _MOST_FACTORS // len(g)))
    u = spacing * np.arange(1, K + 1)
    h = _tilted_squares(g, theta)
    factors = (1 + (u * u - 2j * theta * u)[:, None] * h) ** -n
    terms = np.multiply.reduce(factors, axis=1) / (theta + 1j * u)
    log_moment = -float(n @ np.log1p(-theta * g) + n @ np.log1p(theta * g))
    slips = r / (1 - theta * g[0]) + K + u[-1] * longest + (r + 1) * (1 + log_moment) + theta * longest
    rounding = _ROUNDING * float(slips)
    sizes = 1 / theta + 2 * float(np.abs(terms).sum())
    left_out = math.exp(_log_cut_off(h, n, float(u[-1]), spacing)) + rounding * sizes

    def log_ratio(t: float) -> float:
        """The logarithm of the bound on P(|S| > t) divided by α."""
        total = 1 / theta + 2 * float((terms * np.exp(-1j * u * t)).real.sum()) + left_out
        return math.log(spacing / math.pi * total * (1 + rounding) / alpha) + log_moment - theta * t

    return _least(log_ratio, -math.log(alpha) * float(g[0]), longest)


def chernoff(G: Array, scale: int, alpha: float) -> Array:
    """t with P(|Σ_r g_r X_r| > t) ≤ α for each row g of G, (j, r): the exponential bound.

    For any θ in the domain, P(|S| > t) ≤ 2 exp(−θt) Π_r E exp(θ g_r X_r), and
    E exp(sX) = 1/(1 − v (cosh s − 1)) with v = 1/(2 sinh²(1/(2b))). One coefficient: exact.
    """
    G = np.abs(G)
    v = 0.5 / math.sinh(0.5 / scale) ** 2
    # cosh s − 1 = 2 sinh²(s/2), which keeps its digits where s is 1e-9.
    largest_s = 2 * math.asinh(math.sqrt(0.5 / v))
    peak = G.max(axis=1)
    safe = np.where(peak > 0, peak, 1)
    half = np.full(len(G), np.inf)
    for share in _CHERNOFF_POINTS:
        theta = share * largest_s / safe
        log_moment = -np.log1p(-2 * v * np.sinh(theta[:, None] * G / 2) ** 2).sum(axis=1)
        half = np.minimum(half, (math.log(2 / alpha) + log_moment) / theta)
    return np.where(_is_alone(peak, G.sum(axis=1)), _exact_steps(scale, alpha) * peak, half)


def half_widths_by_norms(total: Array, squares: Array, peak: Array, *, scale: int, alpha: float) -> Array:
    """t with P(|Σ_r g_r X_r| > t) ≤ α for rows g of which only norms are known: safe, and wider.

    With X within 1 of b L, as in step 1, and u = θ b max|g| in (0, 1), the exponential bound needs
    Σ_r −log(1 − θ²b²g_r²), which is at most −log(1 − u²) Σg²/max|g|², as −log(1 − x)/x rises.

    Args:
        total: Σ|g|, or more.
        squares: Σg², or more.
        peak: max|g|, or more.
    """
    safe = np.where(peak > 0, peak, 1.0)
    effective = squares / safe**2
    half = np.full(np.shape(safe), np.inf)
    for u in _CHERNOFF_POINTS:
        half = np.minimum(half, (math.log(2 / alpha) - effective * math.log1p(-u * u)) / u)
    return np.where(peak > 0, half * scale * safe + total, 0.0)


# ------------------------------------------------------------------------ rows and shapes


@dataclass(frozen=True, eq=False)
class _TailRows:
    """What a block of rows needs besides the quantiles of shapes; all (j,).

    Attributes:
        peak: the largest |g_r|.
        total: Σ_r |g_r|.
        crumbs: the part of it that no shape holds.
        shape: which shape a row has, −1 where it has one coefficient or none.
    """

    peak: Array
    total: Array
    crumbs: Array
    shape: Array

    def half_widths(self, quantiles: Array, scale: int, alpha: float) -> Array:
        """Steps 1 to 3 of this file, undone: from the quantiles of shapes to those of rows."""
        of_shape = np.append(quantiles, 0.0)[self.shape]
        on_the_line = self.peak * of_shape + 2 * self.crumbs * math.log(2 / (_SLACK * alpha))
        # b as a float and two products and a sum are off by less than 2^-50.
        half = (float(scale) * on_the_line + self.total) * (1 + 2.0**-49)
        return np.where(self.shape < 0, _exact_steps(scale, alpha) * self.peak, half)


def _described(G: Array, shapes: dict[bytes, int]) -> _TailRows:
    """What a block of rows needs; shapes not seen before are added, each with its place."""
    rising = np.sort(np.abs(G), axis=1)
    peak, sums = rising[:, -1], np.cumsum(rising, axis=1)
    is_crumb = sums <= _CRUMBS * peak[:, None]
    n_crumbs, crumbs = is_crumb.sum(axis=1), np.where(is_crumb, sums, 0).max(axis=1)
    is_simple = _is_alone(peak, sums[:, -1])
    place = np.full(len(G), -1)
    for row in np.flatnonzero(~is_simple):
        kept = rising[row, n_crumbs[row] :][::-1]
        steps = np.ceil(kept / kept[0] * _SHAPE_STEPS + _SHAPE_OFFSET).astype(np.uint32)
        place[row] = shapes.setdefault(steps.tobytes(), len(shapes))
    return _TailRows(peak, sums[:, -1], crumbs, place)


def _coefficients(shape: bytes) -> Array:
    """The coefficients that a shape stands for, the largest first."""
    return np.frombuffer(shape, dtype=np.uint32) / _SHAPE_STEPS


def _is_alone(peak: Array, total: Array) -> Array:
    """Which rows have one coefficient, or none."""
    return np.asarray(total <= peak * (1 + _ALONE))


def _exact_steps(scale: int, alpha: float) -> float:
    """The least k with P(|X| > k) = 2 exp(−(k+1)/b)/(1 + exp(−1/b)) ≤ α."""
    return float(max(0, math.ceil(-scale * math.log(alpha * (1 + math.exp(-1 / scale)) / 2) - 1)))


# ------------------------------------------------------------------------ parts of a quantile


def _merged(coefficients: Array, alpha: float) -> tuple[Array, Array]:
    """Coefficients rounded up, distinct and the largest first, and how often each occurs.

    The tail cannot fall when a coefficient rises. Squares go up to a grid that adds to
    log M(θ) at most about 10⁻⁴, as θ² is at most about min(1/max g², log(2/α)/Σg²). What is
    small beside the rest comes together in few values: 999 coefficients of 10⁻⁴ beside a 1,
    which need thousands of terms, took 0.3 s one by one and take a millisecond.
    """
    squares = coefficients**2
    largest = max(float(squares.max()), float(squares.sum()) / math.log(2 / alpha))
    step = _SLACK * largest / len(squares)
    steps, n = np.unique(np.ceil(squares / step), return_counts=True)
    # A quotient, a product and a root are off by less than 2^-51.
    return np.sqrt(steps * step)[::-1] * (1 + 2.0**-50), n[::-1].astype(float)


def _contour(g: Array, n: Array, alpha: float) -> tuple[float, float, float, float]:
    """θ, Δ, the last u, and a t that is long enough; the bound holds for any, and is tight for these.

    The terms n ≠ 0 of Poisson's formula are at most exp(−θT) on the left, and on the right
    M(θ') exp(−θ't − (θ' − θ)T) for any θ' > θ; T must bring both to 10⁻⁴ of α/2. For that t is
    taken rather too small: log(1/α) is the quantile of the largest coefficient alone, and at
    α = 1/2 that of a Laplace variable is 0.73 times that of a normal one of the same variance.
    """
    squares = float(n @ g**2)
    odds = np.geomspace(min(0.1, 0.3 * float(g[0]) / math.sqrt(squares)), 40, _TILTS)
    thetas = odds / (1 + odds) / g[0]
    log_moments = -np.log1p(-((thetas[:, None] * g) ** 2)) @ n
    longest = float(((math.log(2 / alpha) + log_moments) / thetas).min()) * (1 + _ROUNDING * float(n.sum()))
    normal = -math.sqrt(2 * squares) * NormalDist().inv_cdf(alpha / 2)
    shortest = max(-math.log(alpha) * float(g[0]), 0.7 * normal)
    decay = log_moments - thetas * shortest
    needed = math.log(2 / (alpha * _SLACK))
    ahead = thetas - thetas[:, None]
    right = np.where(ahead > 0, (decay + needed) / np.where(ahead > 0, ahead, 1), np.inf).min(axis=1)
    periods = np.maximum(needed / thetas, right)
    # K is about T·v/2π, and v falls with the tail's height as if all of about that number of rows were equal.
    alike = squares**2 / float(n @ g**4)
    best = int(np.argmin(np.log(periods) + decay / (2 * alike)))
    theta = float(thetas[best])
    mantissa, exponent = math.frexp(2 * math.pi / float(periods[best]))
    spacing = math.ldexp(math.floor(mantissa * 2**24), exponent - 24)
    h = _tilted_squares(g, theta)
    allowed = math.log(math.pi * alpha * _SLACK / spacing) - float(decay[best])
    v = 1 / math.sqrt(float(n @ h))
    while _log_cut_off(h, n, v, spacing) > allowed:
        v *= 2
    # Back by up to a factor of 2, to 9 % of the least: fewer terms.
    for factor in (2**0.5, 2**0.25, 2**0.125):
        if _log_cut_off(h, n, v / factor, spacing) <= allowed:
            v /= factor
    return theta, spacing, v, longest


def _tilted_squares(g: Array, theta: float) -> Array:
    """h_r = g_r²/(1 − g_r² θ²)."""
    return np.asarray(g * g / ((1 - theta * g) * (1 + theta * g)))


def _log_cut_off(h: Array, n: Array, v: float, spacing: float) -> float:
    """The logarithm of what bounds all terms beyond v = KΔ together, over M(θ)."""
    x = h * v * v
    return -float(n @ np.log1p(x)) - math.log(float(n @ (x / (1 + x))) * spacing)


def _least(log_ratio: Callable[[float], float], low: float, high: float) -> float:
    """About the least t from low to high at which a falling bound keeps α, never one at which it does not.

    `high` itself is long enough, and `low` is not longer than the least.
    """
    from scipy import optimize

    if log_ratio(high) > 0:
        return high
    if log_ratio(low) <= 0:
        return low
    t = float(optimize.brentq(log_ratio, low, high, xtol=1e-7 * high, rtol=1e-7))
    while log_ratio(t) > 0:
        t = min(t * (1 + 1e-7) + 1e-9 * high, high)
    return t
