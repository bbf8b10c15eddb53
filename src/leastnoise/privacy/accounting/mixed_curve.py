"""The privacy curve of Gaussian noise together with mechanisms of pure privacy, bounded from above.

Whatever is ε₀-differentially private is a randomised response followed by something that sees no data
(Kairouz, Oh and Viswanath 2015, arXiv:1311.0776): with c = 1/(1 + e^ε₀), its output laws P and Q on
two neighbouring tables are

    P = (1 − c) A + c B,   Q = c A + (1 − c) B,   A ∝ (1 − c) P − c Q,   B ∝ (1 − c) Q − c P,

where A and B are probabilities because P ≤ e^ε₀ Q and Q ≤ e^ε₀ P. The response has privacy loss +ε₀ with
probability 1 − c and −ε₀ otherwise. Losses of independent parts add up, so a μ-GDP mechanism
beside ε₁, …, ε_s has the curve

    δ(ε) = Σ_o p_o δ(ε − l_o; μ),     o running over the 2^s outcomes of the responses, l_o their loss,

with δ(x; μ) the Gaussian curve, for negative x by the symmetry δ(−x) = 1 − e^−x + e^−x δ(x). Equal
ε's have binomial outcomes. Where there are too many to list, the losses are moved onto a grid in
a way that can only raise δ. Every rounding is upwards.

The parts must have been fixed beforehand: see `limits` for choices made along the way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from leastnoise.core.directed import ONE, Interval, arithmetic
from leastnoise.privacy.gaussian_curve import Number, epsilon_of, gaussian_delta_bounds, mu_of_pure

# At most this many outcomes are listed one by one, 0.3 ms each. More are moved onto a grid of about as many.
MAX_OUTCOMES = 4096

# Decimal digits of the sums.
_DIGITS = 50

# Bits of the probabilities on a grid.
_GRID_BITS = 192

# Losses and μ² are rounded up to this many bits first, so that the fractions stay short.
_LOSS_BITS = 64

# How closely `mixed_epsilon` is searched, in relative terms.
_EPSILON_SLACK = 1e-9

_A = arithmetic(_DIGITS)


def mixed_delta(mu_squared: Fraction, epsilons: Iterable[Fraction], epsilon: Number) -> Decimal:
    """An upper bound on the δ that μ-GDP noise and mechanisms of pure privacy give together at ε.

    Args:
        epsilons: the ε of each pure mechanism, for everything one person contributes.

    Guarantee:
        Never below the δ of the dominating pair, hence never below that of any such mechanisms run in
        any order, if which ones are run was fixed beforehand. Never above simple composition,
        δ(ε − Σ ε_j; μ). Where outcomes are listed, within 1e-15 of the pair's δ.

    Example:
        >>> print(f"{mixed_delta(Fraction(1), [Fraction(1, 2), Fraction(1, 2)], 1):.6f}")
        0.211010
    """
    at = Fraction(epsilon)
    exact = [Fraction(e) for e in epsilons if e > 0]
    simple = _gaussian(mu_squared, at - sum(exact, Fraction(0)))
    parts = Counter(_rounded_up(e) for e in exact)
    m = _rounded_up(mu_squared) if mu_squared else mu_squared
    total = Decimal(0)
    for loss, probability in _outcomes(parts):
        total = _A.up.add(total, _A.up.multiply(probability, _gaussian(m, at - loss)))
    return min(total, simple, Decimal(1))


def mixed_epsilon(mu_squared: Fraction, epsilons: Iterable[Fraction], delta: Number) -> float:
    """An ε at which `mixed_delta` is at most ``delta``, within 1e-9 of the least one.

    Guarantee:
        mixed_delta(mu_squared, epsilons, ε) ≤ ``delta`` was computed for the returned ε.
    """
    exact = [Fraction(e) for e in epsilons if e > 0]
    allowed = Fraction(delta)

    def is_enough(candidate: float) -> bool:
        return mixed_delta(mu_squared, exact, candidate) <= allowed

    # Simple composition is always enough.
    hi = math.nextafter(float(sum(exact, Fraction(0)) + Fraction(epsilon_of(mu_squared, delta))), math.inf)
    lo = 0.0
    if is_enough(lo):
        return lo
    while hi - lo > _EPSILON_SLACK * hi:
        middle = lo + (hi - lo) / 2
        if is_enough(middle):
            hi = middle
        else:
            lo = middle
    return hi


@lru_cache(maxsize=1024)
def mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """The μ² of the Gaussian curve that ε-differential privacy implies, rounded up."""
    return Fraction(mu_of_pure(epsilon)) ** 2 if epsilon else Fraction(0)


@lru_cache(maxsize=1024)
def rho_of_pure(epsilon: Fraction) -> Fraction:
    """The ρ of zero-concentrated privacy that ε-differential privacy implies, ε tanh(ε/2), rounded up.

    Randomised response is the worst case; with s = α − 1/2 its Rényi divergence of order α over α is
    [g(s²) − g(1/4)] / (s² − 1/4), g(v) = ln cosh(ε√v). That is a slope of chords of g, which is concave
    because tanh(x)/x falls; so it is largest at α = 1, where it is g'(1/4) = ε tanh(ε/2) ≤ ε²/2.

    Example:
        >>> round(float(rho_of_pure(Fraction(1))), 6)
        0.462117
    """
    if not epsilon:
        return epsilon
    upper = _rounded_up(epsilon)
    if upper > 1000:
        return epsilon
    # tanh(ε/2) = (1 − w) / (1 + w), w = e^−ε.
    A = arithmetic(_DIGITS + max(0, -_exponent(upper)))
    w = A.exp_minus(A.enclose(upper))
    tanh = A.up.divide(A.up.subtract(Decimal(1), w.lo), A.down.add(Decimal(1), w.lo))
    bound = _rounded_up(Fraction(A.up.multiply(A.enclose(upper).hi, tanh)))
    return min(bound, epsilon * epsilon / 2, epsilon)


def _gaussian(m: Fraction, x: Fraction) -> Decimal:
    """δ(x; μ) with μ² = m for x of either sign, rounded up."""
    if x >= 0:
        return gaussian_delta_bounds(m, x)[1]
    w = _A.exp(_A.enclose(x))
    mirrored = gaussian_delta_bounds(m, -x)[1]
    # 1 − w (1 − δ(−x)).
    rest = _A.down.multiply(w.lo, _A.down.subtract(Decimal(1), mirrored))
    return min(_A.up.subtract(Decimal(1), rest), Decimal(1))


# ---------------------------------------------------------------------------
# The outcomes of several randomised responses: pairs of a loss and an upper bound on its probability.


def _outcomes(parts: Mapping[Fraction, int]) -> Iterator[tuple[Fraction, Decimal]]:
    if math.prod(count + 1 for count in parts.values()) > MAX_OUTCOMES:
        return _outcomes_on_grid(parts)
    found: dict[Fraction, Decimal] = {Fraction(0): Decimal(1)}
    for epsilon, count in parts.items():
        combined: dict[Fraction, Decimal] = {}
        for loss, probability in found.items():
            for step, chance in _binomial(epsilon, count):
                together = _A.up.multiply(probability, chance)
                combined[loss + step] = _A.up.add(combined.get(loss + step, Decimal(0)), together)
        found = combined
    return iter(found.items())


@lru_cache(maxsize=64)
def _binomial(epsilon: Fraction, count: int) -> tuple[tuple[Fraction, Decimal], ...]:
    """Losses (count − 2j)ε and their probabilities C(count, j) w^j / (1 + w)^count, w = e^−ε, rounded up."""
    w = _A.exp_minus(_A.enclose(epsilon))
    whole, base = Decimal(1), _A.down.add(Decimal(1), w.lo)
    for _ in range(count):
        whole = _A.down.multiply(whole, base)
    found, ways = [], 1
    for j in range(count + 1):
        power = _A.exp_minus(_A.enclose(j * epsilon)).hi if j else Decimal(1)
        chance = _A.up.divide(_A.up.multiply(Decimal(ways), power), whole)
        found.append(((count - 2 * j) * epsilon, min(chance, Decimal(1))))
        ways = ways * (count - j) // (j + 1)
    return tuple(found)


def _outcomes_on_grid(parts: Mapping[Fraction, int]) -> Iterator[tuple[Fraction, Decimal]]:
    """The outcomes with each loss split between the two multiples of h around it.

    An outcome of loss l has probability p on one table and p e^−l on its neighbour. Two outcomes of
    losses a ≤ l ≤ b = a + h whose probabilities add up to these on both tables give it back once they
    are no longer distinguished. So the split mechanism can simulate the other one, and δ can only grow.
    That needs p_b = p (1 − e^−(l−a)) / (1 − e^−h), and p_a = p − p_b. The error is of second order in h.
    """
    reach = sum((epsilon * count for epsilon, count in parts.items()), Fraction(0))
    h = _power_of_two_above(2 * reach / MAX_OUTCOMES)
    one = 2**_GRID_BITS
    found: dict[int, int] = {0: one}
    for epsilon, count in parts.items():
        steps: Counter[int] = Counter()
        for loss, chance in _binomial(epsilon, count):
            below = math.floor(loss / h)
            to_upper = _share_above(loss - below * h, h)
            for place, share in ((below, _A.up.subtract(Decimal(1), to_upper.lo)), (below + 1, to_upper.hi)):
                if share > 0:
                    steps[place] += math.ceil(Fraction(_A.up.multiply(chance, share)) * one)
        combined: Counter[int] = Counter()
        for place, probability in found.items():
            for step, chance_in_units in steps.items():
                combined[place + step] += -(-probability * chance_in_units >> _GRID_BITS)
        found = combined
    return ((place * h, _A.up.divide(Decimal(units), Decimal(one))) for place, units in found.items())


def _share_above(excess: Fraction, h: Fraction) -> Interval:
    """(1 − e^−x) / (1 − e^−h) for 0 ≤ x < h, enclosed."""
    if not excess:
        return Interval(Decimal(0), Decimal(0))
    A = arithmetic(_DIGITS + max(0, -2 * _exponent(excess)))
    part = A.subtract(ONE, A.exp_minus(A.enclose(excess)))
    return A.divide(part, A.subtract(ONE, A.exp_minus(A.enclose(h))))


def _exponent(value: Fraction) -> int:
    """The decimal exponent of a positive rational, to within 1."""
    return math.floor((value.numerator.bit_length() - value.denominator.bit_length()) * math.log10(2))


def _power_of_two_above(value: Fraction) -> Fraction:
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 1)
    while power < value:
        power *= 2
    return power


def _rounded_up(value: Fraction) -> Fraction:
    """A positive rational rounded up to 64 significant bits."""
    shift = value.numerator.bit_length() - value.denominator.bit_length() - _LOSS_BITS
    power = Fraction(2) ** shift
    return math.ceil(value / power) * power
