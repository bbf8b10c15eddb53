"""The privacy curve of Gaussian noise, with every rounding proved.

Gaussian noise on answers of L2 sensitivity Δ is μ-GDP with μ = Δ/σ, and gives
(ε, δ)-differential privacy exactly when δ is at least

    δ(ε; μ) = Φ(a) − e^ε Φ(b),      a, b = ±μ/2 − ε/μ

(Balle and Wang 2018, arXiv:1805.06530, Theorem 8). This file encloses δ(ε; μ)
between two decimal numbers and inverts it in every direction, always rounding
towards more spending. It works with μ², which is rational where μ is not.

Nothing here trusts a float: approximate steps only choose where to look, and
the answer is then proved with the enclosure.
"""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from leastnoise.core.directed import ONE, TWO, Arithmetic, Interval, arithmetic, clip, density, mills
from leastnoise.core.errors import PrivacyError
from leastnoise.core.remedies import Argument, Remedy

__all__ = [
    "Number",
    "classic_mu_squared_of",
    "delta_of",
    "epsilon_of",
    "gaussian_delta_bounds",
    "mu_of_pure",
    "mu_squared_of",
    "pure_of_mu_squared",
]

Number = int | float | Fraction

# ---------------------------------------------------------------------------
# The curve.


class _CurvePoint(NamedTuple):
    delta: Interval  # δ(ε; μ)
    density: Interval  # φ(a), its derivative in μ
    tail: Interval  # e^ε Φ(b), minus its derivative in ε


def _curve_point(m: Fraction, epsilon: Fraction, digits: int) -> _CurvePoint:
    """The curve at μ² = m > 0, ε ≥ 0, enclosed to about ``digits`` significant digits.

    With r, s = ε ∓ m/2, x = |r|/μ, y = s/μ we have a = −r/μ, b = −s/μ and
    e^ε φ(b) = φ(a), because a² − b² = −2ε. So, M being the Mills ratio,

        δ = φ(x) [M(x) − M(y)]         if r ≥ 0
        δ = 1 − φ(x) [M(x) + M(y)]     if r < 0.

    r, s and x²/2 = r²/(2m) are rational: only μ and the functions are rounded.
    """
    r, s = epsilon - m / 2, epsilon + m / 2
    half_square = r * r / (2 * m)
    # Digits lost: x²/2 enters an exponential, and the subtraction leaves about μ/(1 + x).
    exponent = max(0, _magnitude(half_square))
    prec = digits + 12 + exponent + max(0, exponent // 2 - _magnitude(m) // 2)
    for _ in range(4):
        A = arithmetic(prec)
        mu = A.sqrt(A.enclose(m))
        phi = density(A.enclose(half_square), prec)
        M_x = mills(A.divide(A.enclose(abs(r)), mu), prec)
        M_y = mills(A.divide(A.enclose(s), mu), prec)
        if r >= 0:
            delta = A.multiply(phi, clip(A.subtract(M_x, M_y)))
        else:
            delta = A.subtract(ONE, A.multiply(phi, A.add(M_x, M_y)))
        delta = clip(delta)
        is_narrow = A.up.subtract(delta.hi, delta.lo) <= delta.lo.scaleb(-digits, A.down)
        if is_narrow or delta.hi.adjusted() < decimal.MIN_EMIN:  # no decimal is smaller
            break
        prec *= 2
    return _CurvePoint(delta, phi, A.multiply(phi, M_y))


def _magnitude(value: Fraction) -> int:
    """The decimal exponent of a positive rational, to within 1; −1 for zero."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    return math.floor(bits * math.log10(2)) if value else -1


_MU_SQUARED_SLACK = Fraction(1, 10**12)
# The searches find 16 digits; more would be wasted, and one that has not arrived
# after this many steps is finished by bisection.
_SEARCH_DIGITS = 20
_SEARCH_STEPS = 60
# Twelve digits settle nearly every comparison; a δ within 1e-400 of the curve is
# left unsettled, which counts as spending more.
_SETTLING_DIGITS = (12, 25, 50, 100, 200, 400)


def _is_at_most(m: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether δ(ε; μ) ≤ ``delta`` is proved; False when it is not or cannot be."""
    for digits in _SETTLING_DIGITS:
        bounds = _curve_point(m, epsilon, digits).delta
        if bounds.hi <= delta:
            return True
        if bounds.lo > delta:
            return False
    return False


def gaussian_delta_bounds(mu_squared: Number, epsilon: Number) -> tuple[Decimal, Decimal]:
    """Two decimals with δ(ε; μ) between them, at most 1e-20 apart in relative terms.

    Decimals, because δ can be 1e-2000000000 and a fraction that small does not
    fit in memory. Comparing a Decimal with a Fraction is exact in Python.

    Guarantee:
        lower ≤ Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) ≤ upper, whatever the arguments.
        Where δ is below the least decimal the lower bound is 0.

    Example:
        >>> lower, upper = gaussian_delta_bounds(1, 1)
        >>> print(f"{lower:.12f} {upper:.12f}")
        0.126936737507 0.126936737507
    """
    m, eps = _at_least_zero("mu_squared", mu_squared), _at_least_zero("epsilon", epsilon)
    if m == 0:
        return Decimal(0), Decimal(0)
    bounds = _curve_point(m, eps, 21).delta
    return bounds.lo, min(bounds.hi, Decimal(1))


def delta_of(mu_squared: Number, epsilon: Number) -> float:
    """The δ that μ-GDP gives at ε, rounded up: the least float that is proved.

    Guarantee:
        Never below δ(ε; μ); zero only if ``mu_squared`` is zero.

    Example:
        >>> delta_of(1, 1)
        0.12693673750664397
    """
    return _float_up(gaussian_delta_bounds(mu_squared, epsilon)[1])


def epsilon_of(mu_squared: Number, delta: Number) -> float:
    """The ε of μ-GDP at δ, rounded up: the smallest float that is proved, possibly 0.

    Args:
        mu_squared: μ², zero or more.
        delta: δ, between 0 and 1.

    Guarantee:
        δ(ε; μ) ≤ ``delta`` at the returned ε. It is infinite if no float is large enough.

    Example:
        >>> epsilon_of(1, 1e-6)
        4.886554117462213
    """
    m, d = _at_least_zero("mu_squared", mu_squared), _probability("delta", delta)
    if m == 0 or _is_at_most(m, Fraction(0), d):
        return 0.0
    # Newton's steps on ln δ, concave in ε: it is the tail of a log-concave
    # variable convolved with an exponential. From above the root they stay
    # above. The start is above: ε = ρ + 2√(ρ ln(1/δ)) with ρ = m/2 (Bun and
    # Steinke 2016, Proposition 1.3).
    A = arithmetic(_SEARCH_DIGITS)
    rho, log = A.enclose(m / 2).hi, _log(1 / d, A).hi
    eps = A.up.add(rho, A.up.multiply(Decimal(2), A.up.sqrt(A.up.multiply(rho, log))))
    for _ in range(_SEARCH_STEPS):
        here = _curve_point(m, Fraction(eps), _SEARCH_DIGITS)
        if not here.delta.lo:
            break
        excess = A.up.ln(A.up.divide(here.delta.hi, A.enclose(d).lo))
        step = A.up.divide(A.up.multiply(excess, here.delta.hi), here.tail.hi)
        eps = max(A.up.add(eps, step), Decimal(0))
        if step.copy_abs() <= eps.scaleb(-17, A.up):
            break
    return _least_float(lambda e: _is_at_most(m, Fraction(e), d), float(eps))


def mu_squared_of(epsilon: Number, delta: Number) -> Fraction:
    """The largest μ² that stays within (ε, δ), rounded down by at most 1e-12 of it.

    A fraction whose denominator is a power of two; ``epsilon`` may be zero.

    Guarantee:
        δ(ε; μ) ≤ ``delta`` for the returned μ².

    Example:
        >>> round(float(mu_squared_of(1, 1e-6)), 9)
        0.056028964
    """
    eps, d = _at_least_zero("epsilon", epsilon), _probability("delta", delta)
    # Newton's steps on ln δ as a function of ln μ: dδ/dμ = φ(a), and e^t φ(a(e^t))
    # is log-concave in t, hence so is its integral δ. From below the root they
    # stay below. Two starts are below: the zero-concentrated bound, and
    # δ(ε; μ) ≤ δ(0; μ) ≤ μ/√(2π).
    A = arithmetic(_SEARCH_DIGITS)
    log, wide = _log(1 / d, A).hi, A.enclose(eps).lo
    roots = A.up.add(A.up.sqrt(A.up.add(wide, log)), A.up.sqrt(log))
    ratio = A.down.divide(wide, roots)
    m = _dyadic(max(6 * d * d, 2 * Fraction(A.down.multiply(ratio, ratio))))
    for _ in range(_SEARCH_STEPS):
        here = _curve_point(m, eps, _SEARCH_DIGITS)
        if not here.delta.lo:
            break
        missing = A.up.ln(A.up.divide(A.enclose(d).lo, here.delta.hi))
        slope = A.up.divide(A.up.multiply(A.sqrt(A.enclose(m)).hi, here.density.hi), here.delta.hi)
        step = float(A.up.divide(missing, slope))
        m = _dyadic(m * Fraction(math.exp(2 * max(-20.0, min(step, 20.0)))))
        if abs(step) <= 1e-15:
            break
    # Now the proof: a safe lower end, an unsafe upper end, close together.
    factor = 1 + Fraction(1, 2**42)
    lo, hi = _dyadic(m / factor), _dyadic(m * factor)
    while not _is_at_most(lo, eps, d):
        factor = _dyadic(factor * factor)
        lo, hi = _dyadic(lo / factor), lo
    while _is_at_most(hi, eps, d):
        factor = _dyadic(factor * factor)
        lo, hi = hi, _dyadic(hi * factor)
    while hi > lo * (1 + _MU_SQUARED_SLACK):
        middle = _dyadic((lo + hi) / 2)
        if _is_at_most(middle, eps, d):
            lo = middle
        else:
            hi = middle
    return lo


def mu_of_pure(epsilon: Number) -> float:
    """The μ of the Gaussian curve that ε-differential privacy implies, rounded up.

    μ = 2 Φ⁻¹(e^ε / (1 + e^ε)), that is Φ(−μ/2) = c with c = 1 / (1 + e^ε). The
    trade-off function of ε-DP is the straight line from (0, 1) to (c, c) and its
    mirror image; that of μ-GDP is convex, passes through the same two points and
    so lies below.

    Guarantee:
        Whatever is ``epsilon``-DP is μ-GDP for the returned μ.

    Example:
        >>> mu_of_pure(1)
        1.232035385344901
    """
    eps = _positive("epsilon", epsilon)
    if eps > 10**12:
        # Φ(−x) ≤ e^(−x²/2) / 2, so 2√(2ε) is enough, and at this size too much by less than 1e-11.
        A = arithmetic(_SEARCH_DIGITS)
        return _float_up(A.sqrt(A.enclose(8 * eps)).hi)
    lost = max(0, -_magnitude(eps)) + max(0, _magnitude(eps))

    def excess(mu: Fraction, digits: int) -> tuple[Interval, Interval]:
        """Φ(−μ/2) (1 + e^ε), which must not exceed 1, and M(μ/2)."""
        A = arithmetic(digits + 12 + lost)
        M = mills(A.enclose(mu / 2), A.prec)
        tail = A.multiply(density(A.enclose(mu * mu / 8), A.prec), M)
        return A.multiply(tail, A.add(ONE, A.exp(A.enclose(eps)))), M

    def is_safe(mu: float) -> bool:
        for digits in _SETTLING_DIGITS:
            product = excess(Fraction(mu), digits)[0]
            if product.hi <= 1:
                return True
            if product.lo > 1:
                return False
        return False

    # Newton's steps on ln Φ(−μ/2), concave, from the bound 2√(2ε) above the root.
    A = arithmetic(_SEARCH_DIGITS + lost)
    mu = A.sqrt(A.enclose(8 * eps)).hi
    for _ in range(_SEARCH_STEPS):
        product, M = excess(Fraction(mu), _SEARCH_DIGITS)
        step = A.up.multiply(A.up.multiply(Decimal(2), M.hi), A.up.ln(product.hi))
        mu = max(A.up.add(mu, step), Decimal(0))
        if step.copy_abs() <= mu.scaleb(-17, A.up):
            break
    return _least_float(is_safe, float(mu))


# What `pure_of_mu_squared` gives up of its first guess, a float, before the proof is asked.
_PURE_SLACK = 2.0**-40

# Standard deviations up to which the tail of the normal law is a float.
_FLOAT_TAIL = 37


def pure_of_mu_squared(mu_squared: Number) -> Fraction:
    """The largest ε for which ε-differential privacy implies μ-GDP, rounded down.

    ε = ln(Φ(μ/2) / Φ(−μ/2)), the inverse of `mu_of_pure`; by at most 1e-12 of it too small for μ up to 74,
    and by at most a hundredth beyond.

    Guarantee:
        Whatever is ε-DP for the returned ε is μ-GDP: by `mu_of_pure`, whose square is compared exactly.

    Example:
        >>> round(float(pure_of_mu_squared(1)), 9)
        0.806965346
    """
    m = _positive("mu_squared", mu_squared)
    x = math.sqrt(m) / 2
    if x <= 1:
        guess = 2 * math.atanh(math.erf(x / math.sqrt(2)))
    elif x <= _FLOAT_TAIL:
        tail = math.erfc(x / math.sqrt(2)) / 2
        guess = math.log1p(-tail) - math.log(tail)
    else:
        # Φ(−x) ≤ e^(−x²/2) / 2.
        guess = float(m / 8)
    slack = _PURE_SLACK
    while True:
        epsilon = Fraction(guess * (1 - slack))
        if Fraction(mu_of_pure(epsilon)) ** 2 <= m:
            return epsilon
        slack *= 2


def classic_mu_squared_of(epsilon: Number, delta: Number) -> Fraction:
    """μ² = ε² / (2 ln(2/δ)), the papers' calibration, rounded down.

    For reproducing them only. It does not check that the exact curve agrees,
    and for large ε it does not.

    Example:
        >>> round(float(classic_mu_squared_of(1, 1e-6)), 9)
        0.034462182
    """
    eps, d = _positive("epsilon", epsilon), _probability("delta", delta)
    A = arithmetic(40)
    twice_log = A.multiply(TWO, _log(2 / d, A))
    return _dyadic(Fraction(A.divide(A.enclose(eps * eps), twice_log).lo))


# ---------------------------------------------------------------------------
# Numbers in and out.


def _log(value: Fraction, A: Arithmetic) -> Interval:
    """ln of a rational of at least 1."""
    return clip(A.ln(A.enclose(value)))


def _float_up(value: Decimal) -> float:
    """The least float that is at least ``value``."""
    nearest = float(value)
    return nearest if Decimal.from_float(nearest) >= value else math.nextafter(nearest, math.inf)


def _dyadic(value: Fraction) -> Fraction:
    """A positive rational rounded down to 64 significant bits."""
    shift = value.numerator.bit_length() - value.denominator.bit_length() - 64
    power = Fraction(2) ** shift
    return math.floor(value / power) * power


def _least_float(is_safe: Callable[[float], bool], guess: float) -> float:
    """The least float where a monotone test holds, knowing that it fails at 0."""
    step = max(math.ulp(guess), math.ulp(0.0))
    lo, hi = 0.0, guess
    if math.isfinite(hi) and is_safe(hi):
        lo = max(hi - step, 0.0)
        while lo > 0 and is_safe(lo):
            step *= 2
            lo, hi = max(lo - step, 0.0), lo
    else:
        while math.isfinite(hi) and not is_safe(hi):
            lo, hi = hi, hi + step
            step *= 2
    while math.isfinite(hi) and lo < (middle := lo + (hi - lo) / 2) < hi:
        if is_safe(middle):
            hi = middle
        else:
            lo = middle
    return hi


def exact_number(name: str, value: Any) -> Number:
    """The same number as a Python int, float or Fraction; refuses what is none of them."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        kind = type(value).__name__
        raise PrivacyError(
            Argument(name, is_subject=True),
            f" must be a number (int, float or Fraction), got {value!r} of type {kind}",
            field=name,
            given=value,
        )
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, Fraction):
        return value
    nearest = float(value)
    if not math.isfinite(nearest):
        raise PrivacyError.must(name, "be finite", given=value)
    if nearest != value:
        raise PrivacyError.must(
            name, "be representable as a float", given=value, remedy=Remedy("give a Fraction")
        )
    return nearest


def _at_least_zero(name: str, value: Any) -> Fraction:
    exact = Fraction(exact_number(name, value))
    if exact < 0:
        raise PrivacyError.must(name, "not be negative", given=value)
    return exact


def _positive(name: str, value: Any) -> Fraction:
    exact = Fraction(exact_number(name, value))
    if exact <= 0:
        raise PrivacyError.must(name, "be positive", given=value)
    return exact


def _probability(name: str, value: Any) -> Fraction:
    exact = Fraction(exact_number(name, value))
    if not 0 < exact < 1:
        raise PrivacyError.must(name, "lie strictly between 0 and 1", given=value)
    return exact
