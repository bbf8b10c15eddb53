"""Goals, the Gaussian curve and its inverses: spent is at most promised, in exact arithmetic."""

from __future__ import annotations

import dataclasses
import decimal
import itertools
import json
import math
import pickle
import random
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.core.errors import PrivacyError
from leastnoise.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Goal,
    PureDP,
    delta_of,
    epsilon_of,
    gaussian_delta_bounds,
    goal_from_dict,
)
from leastnoise.privacy.gaussian_curve import (
    classic_mu_squared_of,
    mu_of_pure,
    mu_squared_of,
    pure_of_mu_squared,
)
from support import extra, refuses

# The enclosure's promise.
ENCLOSURE_WIDTH = Fraction(1, 10**20)
# What mu_squared_of may leave unspent; ten times that must already overspend.
SLACK = 1 + Fraction(1, 10**12)
TIGHT = 1 + Fraction(1, 10**11)
# With δ = 1 − 1e-16 a step of 1e-11 in μ² changes 1 − δ in its tenth digit, δ in
# its 26th; the 20 digits of the enclosure show a step of this size.
FLAT = 1 + Fraction(1, 10**4)
# Rounding down to 64 bits.
DYADIC = 1 + Fraction(1, 2**62)
# One float multiplication, addition or rounding, a few times over.
FEW_ULPS = 1e-15
# NormalDist().inv_cdf has about 16 digits of a probability near 1/2 to work with.
QUANTILE = 1e-12
# How far the bound 2√(2ε) lies above the pure μ at ε = 1e12 (7.5e-12).
LARGE_PURE = 1 + 1e-11
# The float formula subtracts two probabilities of size 1 with 16 digits each.
FLOAT_FORMULA = 1e-15
# dp-accounting stops its root search at 1e-12 and evaluates the curve in floats;
# on the grid below it was at most 2.6e-11 away, in relative terms.
ACCOUNTANT = 1e-10

EPSILONS = (1e-10, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4)
DELTAS = (1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-2, 0.5)
GRID = tuple(itertools.product(EPSILONS, DELTAS))
GOALS: tuple[Goal, ...] = (PureDP(0.5), ApproxDP(1, 1e-6), ZCDP(0.125), GDP(Fraction(1, 3)))


def is_within(mu_squared: Fraction, epsilon: float, delta: float) -> bool:
    """Whether spending μ² provably keeps (ε, δ)."""
    return gaussian_delta_bounds(mu_squared, epsilon)[1] <= Fraction(delta)


def is_beyond(mu_squared: Fraction, epsilon: float, delta: float) -> bool:
    """Whether spending μ² provably breaks (ε, δ)."""
    return gaussian_delta_bounds(mu_squared, epsilon)[0] > Fraction(delta)


def is_calibrated(mu_squared: Fraction, epsilon: float, delta: float) -> bool:
    """Whether μ² keeps (ε, δ) and a little more would not."""
    return is_within(mu_squared, epsilon, delta) and is_beyond(mu_squared * TIGHT, epsilon, delta)


def magnitudes(seed: int, n: int) -> list[tuple[Fraction, Fraction]]:
    """Pairs (μ², ε) whose δ runs from 1 down to about 1e-4000."""
    generator = random.Random(seed)
    pairs: list[tuple[Fraction, Fraction]] = []
    while len(pairs) < n:
        m = Fraction(10 ** generator.uniform(-24, 5))
        a = generator.choice((-1, 1)) * 10 ** generator.uniform(-3, 2.1)
        epsilon = m / 2 - Fraction(a) * Fraction(math.sqrt(m))
        if epsilon >= 0:
            pairs.append((m, epsilon))
    return pairs


# The enclosure -------------------------------------------------------------------------------


def arb_says_inside(bounds: tuple[Decimal, Decimal], m: Fraction, epsilon: Fraction) -> bool:
    """Whether δ(ε; μ), from the textbook formula in ball arithmetic, lies within the bounds."""
    flint = extra("flint")

    def ball(value: Decimal | Fraction) -> Any:
        return flint.arb(flint.fmpq(*value.as_integer_ratio()))

    # 12,000 bits are 3,600 digits: with a = 126, δ is 1 − 1e-3450.
    with flint.ctx.workprec(12000):
        mu, eps, root = ball(m).sqrt(), ball(epsilon), flint.arb(2).sqrt()
        a, b = mu / 2 - eps / mu, -mu / 2 - eps / mu
        truth = ((-a / root).erfc() - eps.exp() * (-b / root).erfc()) / 2
        return bool(ball(bounds[0]) <= truth) and bool(truth <= ball(bounds[1]))


def test_enclosure_holds_the_truth_at_many_magnitudes() -> None:
    for m, epsilon in magnitudes(1, 300):
        assert arb_says_inside(gaussian_delta_bounds(m, epsilon), m, epsilon), (float(m), float(epsilon))


def test_a_shifted_enclosure_is_noticed() -> None:
    for m, epsilon in magnitudes(2, 50):
        lower, upper = map(Fraction, gaussian_delta_bounds(m, epsilon))
        for shift in (1 + ENCLOSURE_WIDTH, 1 - ENCLOSURE_WIDTH):
            moved = (lower * shift, upper * shift)
            assert not arb_says_inside(moved, m, epsilon)  # type: ignore[arg-type]


def test_enclosure_is_narrow() -> None:
    for m, epsilon in magnitudes(3, 300):
        lower, upper = map(Fraction, gaussian_delta_bounds(m, epsilon))
        assert 0 < lower < upper <= lower * (1 + ENCLOSURE_WIDTH)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 11.9, 12.1])
def test_enclosure_agrees_with_the_float_formula(mu: float, epsilon: float) -> None:
    def Phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    direct = Phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * Phi(-mu / 2 - epsilon / mu)
    lower, _ = gaussian_delta_bounds(Fraction(mu) ** 2, epsilon)
    assert float(lower) == pytest.approx(direct, rel=0, abs=FLOAT_FORMULA)


def test_enclosure_is_continuous_where_the_method_changes() -> None:
    """Mills ratios come from a series up to 6 and from a continued fraction beyond."""
    for r in (6 - Fraction(1, 10**18), Fraction(6), 6 + Fraction(1, 10**18)):
        # μ = 1: x = ε − 1/2 and y = ε + 1/2.
        for epsilon in (r + Fraction(1, 2), r - Fraction(1, 2)):
            assert arb_says_inside(gaussian_delta_bounds(1, epsilon), Fraction(1), epsilon)


def test_enclosure_survives_extremes() -> None:
    tiny, huge = Fraction(1, 10**400), Fraction(10) ** 400
    lower, upper = gaussian_delta_bounds(Fraction(1, 100), 10**4)
    assert 0 < lower < upper and upper.adjusted() == -2171470250
    lower, upper = gaussian_delta_bounds(tiny, 10**4)
    assert lower == 0 < upper < Decimal("1e-1000000")
    lower, upper = gaussian_delta_bounds(huge, 0)
    assert 1 - ENCLOSURE_WIDTH < lower < upper == 1
    lower, upper = gaussian_delta_bounds(tiny, 0)
    assert 0 < lower < upper
    assert gaussian_delta_bounds(0, 1) == (0, 0)


def test_nothing_depends_on_the_decimal_context_of_the_caller() -> None:
    def everything() -> tuple[object, ...]:
        return (
            gaussian_delta_bounds(Fraction(1, 3), Fraction(7, 3)),
            mu_squared_of(1, 1e-6),
            epsilon_of(1, 1e-6),
            delta_of(1, 1),
            mu_of_pure(1),
            pure_of_mu_squared(1),
            ApproxDP(1, 1e-6, "classic").mu_squared,
        )

    usual = everything()
    with decimal.localcontext(decimal.Context(prec=1, Emin=-1, Emax=1)) as context:
        for signal in context.traps:
            context.traps[signal] = True
        assert everything() == usual
        assert not any(context.flags.values())


# From (ε, δ) to μ² ---------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_mu_squared_is_safe_and_tight(epsilon: float, delta: float) -> None:
    assert is_calibrated(mu_squared_of(epsilon, delta), epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_a_wrong_scale_is_noticed(epsilon: float, delta: float) -> None:
    m = mu_squared_of(epsilon, delta)
    sigma_down, sigma_up = 1 - Fraction(1, 10**9), 1 + Fraction(1, 10**9)
    assert not is_calibrated(m / sigma_down**2, epsilon, delta)
    assert not is_calibrated(m / sigma_up**2, epsilon, delta)


def test_mu_squared_is_dyadic() -> None:
    for epsilon, delta in GRID:
        denominator = mu_squared_of(epsilon, delta).denominator
        assert denominator & (denominator - 1) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, 0.25),
        (0, 1e-300),
        (1, Fraction(1, 10**400)),
        (Fraction(1, 10**400), 1e-300),
        (1e-300, 0.5),
        (1e300, 1e-6),
        (1, 1 - 2**-53),
        (1e4, 1 - 2**-53),
    ],
)
def test_mu_squared_at_the_edges(epsilon: Any, delta: Any) -> None:
    m = mu_squared_of(epsilon, delta)
    assert is_within(m, epsilon, delta)
    assert is_beyond(m * FLAT, epsilon, delta)


def test_mu_squared_agrees_with_dp_accounting() -> None:
    dp_accounting = extra("dp_accounting")
    for epsilon, delta in itertools.product((1e-3, 0.1, 1, 10, 100), (1e-12, 1e-6, 1e-2, 0.3)):
        sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
        assert math.sqrt(mu_squared_of(epsilon, delta)) == pytest.approx(1 / sigma, rel=ACCOUNTANT)
        ours = epsilon_of(1 / Fraction(sigma) ** 2, delta)
        assert ours == pytest.approx(dp_accounting.get_epsilon_gaussian(sigma, delta), rel=ACCOUNTANT)


# From μ² to ε and δ --------------------------------------------------------------------------


def test_delta_is_the_least_float_proved() -> None:
    for m, epsilon in magnitudes(4, 200):
        lower, upper = gaussian_delta_bounds(m, epsilon)
        delta = delta_of(m, epsilon)
        assert upper <= Fraction(delta)
        below = math.nextafter(delta, 0)
        assert below == 0 or lower > Fraction(below)


def test_delta_is_never_rounded_to_zero() -> None:
    smallest = math.ulp(0.0)
    assert delta_of(Fraction(1, 100), 10**4) == smallest
    assert delta_of(Fraction(1, 10**800), 0) == smallest
    assert delta_of(10**6, 0) == 1.0
    assert delta_of(0, 1) == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_epsilon_is_the_least_float_proved(epsilon: float, delta: float) -> None:
    m = mu_squared_of(epsilon, delta)
    back = epsilon_of(m, delta)
    assert is_within(m, back, delta)
    assert back == 0 or is_beyond(m, math.nextafter(back, 0), delta)
    assert back <= epsilon
    # Composing the two: the slack of μ² is all that separates them.
    assert epsilon_of(m * TIGHT, delta) > epsilon


def test_epsilon_is_zero_when_delta_covers_everything() -> None:
    assert epsilon_of(1, delta_of(1, 0)) == 0.0
    assert 0 < epsilon_of(1, math.nextafter(delta_of(1, 0), 0)) < FEW_ULPS
    assert epsilon_of(0, 1e-6) == 0.0
    assert epsilon_of(10**400, 0.5) == math.inf


def test_delta_and_epsilon_compose() -> None:
    for mu, epsilon in itertools.product((0.01, 0.3, 1.0, 4.0), (1e-3, 0.5, 3.0)):
        m = Fraction(mu) ** 2
        if (delta := delta_of(m, epsilon)) > math.ulp(0.0):
            assert epsilon_of(m, delta) <= epsilon


exponents = st.floats(-8, 3).map(lambda t: 10.0**t)


@settings(max_examples=60, deadline=None)
@given(exponents, exponents, exponents)
def test_delta_grows_with_mu_and_falls_with_epsilon(mu: float, epsilon: float, growth: float) -> None:
    m, more = Fraction(mu) ** 2, 1 + Fraction(growth)
    lower, upper = gaussian_delta_bounds(m, epsilon)
    assert gaussian_delta_bounds(m * more, epsilon)[1] >= lower
    assert gaussian_delta_bounds(m, Fraction(epsilon) * more)[0] <= upper
    assert delta_of(m, Fraction(epsilon) * more) <= delta_of(m, epsilon) <= delta_of(m * more, epsilon)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-8, 3).map(lambda t: 10.0**t),
    st.floats(-300, -0.01).map(lambda t: 10.0**t),
    st.floats(1e-9, 1e-1),
)
def test_mu_squared_grows_with_epsilon_and_delta(epsilon: float, delta: float, growth: float) -> None:
    m = mu_squared_of(epsilon, delta)
    assert is_within(m, epsilon, delta)
    assert mu_squared_of(epsilon * (1 + growth), delta) * SLACK >= m
    assert mu_squared_of(epsilon, min(delta * (1 + growth), 0.99)) * SLACK >= m


# Pure privacy --------------------------------------------------------------------------------


def arb_product(mu: float, epsilon: float) -> Any:
    """Φ(−μ/2) (1 + e^ε) − 1 in ball arithmetic; not positive when μ is enough."""
    flint = extra("flint")
    with flint.ctx.workprec(30000):
        return (flint.arb(mu) / (2 * flint.arb(2).sqrt())).erfc() / 2 * (1 + flint.arb(epsilon).exp()) - 1


@pytest.mark.parametrize("epsilon", [1e-300, *EPSILONS])
def test_mu_of_pure_is_the_least_float_proved(epsilon: float) -> None:
    mu = mu_of_pure(epsilon)
    assert arb_product(mu, epsilon) <= 0
    assert arb_product(math.nextafter(mu, 0), epsilon) > 0


def test_mu_of_pure_agrees_with_the_normal_quantile() -> None:
    from statistics import NormalDist

    for epsilon in (0.1, 1.0, 3.0):
        direct = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon)))
        assert mu_of_pure(epsilon) == pytest.approx(direct, rel=QUANTILE)


def test_mu_of_pure_covers_randomised_response() -> None:
    """At ε' = 0 an ε-DP mechanism can reach δ = tanh(ε/2), and the Gaussian curve meets it there."""
    for epsilon in (1e-3, 0.1, 1.0, 5.0):
        assert delta_of(Fraction(mu_of_pure(epsilon)) ** 2, 0) == pytest.approx(
            math.tanh(epsilon / 2), rel=FEW_ULPS
        )


def test_mu_of_pure_does_not_jump_where_it_turns_to_a_bound() -> None:
    before, after = mu_of_pure(10**12), mu_of_pure(10**12 + 1)
    assert before < after < before * LARGE_PURE


@pytest.mark.parametrize(
    "m", [Fraction(1, 2**120), 1e-6, Fraction(1, 3), 4, 4.0001, 5476, 5477, 1e9, 2.0**120]
)
def test_pure_of_mu_squared_is_the_inverse_rounded_down(m: Any) -> None:
    epsilon = pure_of_mu_squared(m)
    assert Fraction(mu_of_pure(epsilon)) ** 2 <= m
    # A little more spends too much; where the tail of the normal law is no float, one per cent more.
    more = epsilon * (1 + (Fraction(1, 10**11) if m <= 5476 else Fraction(1, 100)))
    assert Fraction(mu_of_pure(more)) ** 2 > m


# Classic calibration -------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_classic_rounds_towards_privacy(epsilon: float, delta: float) -> None:
    m = classic_mu_squared_of(epsilon, delta)
    with decimal.localcontext(prec=60, Emin=-10000, Emax=10000):
        exact_m = Decimal(epsilon) ** 2 / (2 * (2 / Decimal(delta)).ln())
        assert m < Fraction(exact_m) < m * DYADIC


def test_classic_goal_spends_less_than_the_exact_one() -> None:
    classic, exact = ApproxDP(1, 1e-6, "classic"), ApproxDP(1, 1e-6)
    assert classic.mu_squared == classic_mu_squared_of(1, 1e-6)
    assert classic.mu_squared < exact.mu_squared  # type: ignore[operator]
    assert is_within(classic.mu_squared, 1, 1e-6)  # type: ignore[arg-type]


def test_classic_goal_is_refused_where_it_overspends() -> None:
    assert not is_within(classic_mu_squared_of(20, 1e-6), 20, 1e-6)
    with refuses(PrivacyError, "calibration", "classic", "its delta is 0.000101; use calibration='exact'"):
        ApproxDP(20, 1e-6, calibration="classic")


# Goals ---------------------------------------------------------------------------------------


def test_goals_allow_exact_rationals() -> None:
    assert ZCDP(0.1).mu_squared == 2 * Fraction(0.1)
    assert GDP(0.1).mu_squared == Fraction(0.1) ** 2
    assert PureDP(0.1).epsilon_per_record == Fraction(0.1)
    assert ApproxDP(1, 1e-6).mu_squared == mu_squared_of(1, 1e-6)
    assert PureDP(1).mu_squared is None
    assert [goal.epsilon_per_record for goal in GOALS[1:]] == [None] * 3
    assert [goal.noise for goal in GOALS] == ["laplace", "gaussian", "gaussian", "gaussian"]


def test_records_per_person_divide_what_one_record_may_spend() -> None:
    for goal in GOALS:
        three = dataclasses.replace(goal, records_per_person=3)
        if goal.mu_squared is None:
            assert three.epsilon_per_record == goal.epsilon_per_record / 3  # type: ignore[operator]
        else:
            assert three.mu_squared == goal.mu_squared / 9


def test_goals_take_their_parameters_by_position_or_by_name() -> None:
    assert PureDP(1) == PureDP(epsilon=1)
    assert ApproxDP(1, 1e-6, "exact") == ApproxDP(epsilon=1, delta=1e-6)
    assert ZCDP(0.5) == ZCDP(rho=0.5)
    assert GDP(2) == GDP(mu=2)
    with pytest.raises(TypeError):
        PureDP(1, "replace-one")  # type: ignore[misc]


def test_goals_are_frozen_and_compare_by_value() -> None:
    goal = ApproxDP(1, 1e-6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        goal.epsilon = 2  # type: ignore[misc]
    assert goal.mu_squared is goal.mu_squared
    assert pickle.loads(pickle.dumps(goal)) == goal == ApproxDP(1.0, 1e-6)
    assert len({goal, ApproxDP(1, 1e-6), ApproxDP(1, 1e-6, neighbours="replace-one")}) == 2
    assert PureDP(1) != ZCDP(1)
    with pytest.raises(TypeError, match="abstract"):
        Goal()  # type: ignore[abstract]


def test_numpy_scalars_become_plain_numbers() -> None:
    goal = ApproxDP(np.int64(1), np.float64(1e-6), records_per_person=np.int32(2))  # type: ignore[arg-type]
    assert [type(x) for x in (goal.epsilon, goal.delta, goal.records_per_person)] == [int, float, int]
    assert type(ZCDP(np.float32(0.5)).rho) is float  # type: ignore[arg-type]


def test_goals_travel_through_json_exactly() -> None:
    third = Fraction(1, 3)
    for goal in (
        *GOALS,
        PureDP(third),
        ZCDP(Fraction(3)),
        ApproxDP(0.1, Fraction(1, 10**400), neighbours="replace-one", records_per_person=7),
        ApproxDP(1, 1e-6, calibration="classic"),
    ):
        back = goal_from_dict(json.loads(json.dumps(goal.to_dict())))
        assert back == goal and back.mu_squared == goal.mu_squared
        for f in dataclasses.fields(goal):
            assert type(getattr(back, f.name)) is type(getattr(goal, f.name))


def test_a_dict_may_leave_out_what_the_constructor_may() -> None:
    assert goal_from_dict({"goal": "ApproxDP", "epsilon": 1, "delta": 1e-6}) == ApproxDP(1, 1e-6)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (PureDP(1.0), "ε-differential privacy with ε = 1, adding or removing one record"),
        (
            ApproxDP(1, 1e-6),
            "(ε, δ)-differential privacy with ε = 1, δ = 1e-06, adding or removing one record",
        ),
        (
            ApproxDP(1, 1e-6, "classic"),
            "(ε, δ)-differential privacy (classic calibration) with ε = 1, δ = 1e-06, "
            "adding or removing one record",
        ),
        (
            ZCDP(Fraction(1, 3), records_per_person=4),
            "ρ-zero-concentrated differential privacy with ρ = 1/3, "
            "adding or removing up to 4 records of one person",
        ),
        (
            GDP(0.5, neighbours="replace-one"),
            "μ-Gaussian differential privacy with μ = 0.5, replacing one record",
        ),
        (
            PureDP(2, neighbours="replace-one", records_per_person=2),
            "ε-differential privacy with ε = 2, replacing up to 2 records of one person",
        ),
    ],
)
def test_statements(goal: Goal, words: str) -> None:
    assert goal.statement() == words


def test_goals_print_themselves() -> None:
    assert str(ApproxDP(1.0, 1e-6)) == "(1, 1e-06)-DP, adding or removing one record"
    assert str(PureDP(0.5)) == "0.5-DP, adding or removing one record"
    assert str(ZCDP(0.5, neighbours="replace-one")) == "0.5-zCDP, replacing one record"
    assert str(GDP(1)) == "1-GDP, adding or removing one record"
    assert repr(ApproxDP(1, 1e-6)) == "ApproxDP(epsilon=1, delta=1e-06)"
    unusual = ApproxDP(1, 1e-6, "classic", neighbours="replace-one", records_per_person=2)
    assert eval(repr(unusual)) == unusual


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PureDP, ZCDP, GDP, lambda value: ApproxDP(value, 1e-6)])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, r"(epsilon|rho|mu) must be a number \(int, float or Fraction\), got True of type bool"),
        (np.True_, "must be a number .* of type bool"),
        ("1", "must be a number .* got '1' of type str"),
        (None, "must be a number .* of type NoneType"),
        (1j, "must be a number .* of type complex"),
        (Decimal(1), "must be a number .* of type Decimal"),
        (math.nan, "must be finite, got nan"),
        (math.inf, "must be finite, got inf"),
        (np.longdouble(1) / 3, "must be representable as a float, got .*; give a Fraction"),
        (0, "must be positive, got 0"),
        (-0.5, "must be positive, got -0.5"),
    ],
)
def test_goals_refuse_what_is_no_positive_number(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        kind(value)


@pytest.mark.parametrize(
    ("delta", "refusal"),
    [
        (0, ("delta", 0, "delta must be positive, got 0; for delta = 0 use PureDP")),
        (0.0, ("delta", 0, "for delta = 0 use PureDP")),
        (-1e-6, ("delta", -1e-06)),
        (1, ("delta", 1)),
        (math.nan, ("delta", math.nan)),
        ("1e-6", ("delta", "1e-6")),
    ],
)
def test_delta_refusals(delta: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(PrivacyError, *refusal):
        ApproxDP(1, delta)


@pytest.mark.parametrize("k", [0, -1, True, 1.5, 2.0, "2", None])
def test_records_per_person_refusals(k: Any) -> None:
    with refuses(
        PrivacyError, "records_per_person", ..., "records_per_person must be a positive whole number, got"
    ):
        PureDP(1, records_per_person=k)


def test_unknown_options_are_refused() -> None:
    with refuses(PrivacyError, "neighbours", "swap"):
        PureDP(1, neighbours="swap")
    with refuses(PrivacyError, "calibration", "rdp"):
        ApproxDP(1, 1e-6, calibration="rdp")


@pytest.mark.parametrize(
    ("saved", "refusal"),
    [
        ({}, ("goal", None, "goal must be one of PureDP, ApproxDP, ZCDP, GDP, got None")),
        ({"goal": "RDP"}, ("goal", "RDP")),
        ({"goal": ["GDP"]}, ("goal", ["GDP"])),
        ({"goal": "GDP", "mu": 1, "seed": 0}, ("GDP", ["'seed'"])),
        ({"goal": "GDP", "epsilon": 1}, ("GDP", ["'epsilon'"])),
        ({"goal": "ApproxDP", "epsilon": 1}, ("ApproxDP", ["delta"])),
        ({"goal": "GDP", "mu": "1"}, ("mu", "1")),
        ({"goal": "GDP", "mu": "1/0"}, ("mu", "1/0")),
        ({"goal": "GDP", "mu": "0/3"}, ("mu", ..., "mu must be positive")),
        ({"goal": "GDP", "mu": "1e3"}, ("mu", "1e3")),
        ({"goal": "GDP", "mu": "-1/3"}, ("mu", "-1/3")),
        ({"goal": "GDP", "mu": 1, "records_per_person": "2/1"}, ("records_per_person", "2/1")),
    ],
)
def test_dict_refusals(saved: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    with refuses(PrivacyError, *refusal):
        goal_from_dict(saved)


def test_curve_functions_check_their_arguments() -> None:
    for call, refusal in (
        (lambda: delta_of(-1, 1), ("mu_squared", -1)),
        (lambda: delta_of(1, -1), ("epsilon", -1)),
        (lambda: delta_of(math.nan, 1), ("mu_squared", math.nan)),
        (lambda: epsilon_of(1, 0), ("delta", 0, "delta must lie strictly between 0 and 1, got 0")),
        (lambda: epsilon_of(1, 1.5), ("delta", 1.5)),
        (lambda: mu_squared_of(True, 0.5), ("epsilon", True)),
        (lambda: mu_of_pure(0), ("epsilon", 0)),
        (lambda: pure_of_mu_squared(0), ("mu_squared", 0)),
    ):
        with refuses(PrivacyError, *refusal):
            call()


def test_the_optional_judges_are_not_imported() -> None:
    loaded = "any(m in sys.modules for m in ('flint', 'dp_accounting'))"
    code = f"import sys, leastnoise.privacy.goals; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
