"""Descents by L-BFGS-B: where they end, and how."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.solver import StopDescent, minimise_smooth
from tolerances import SOLVER


@pytest.mark.parametrize("seed", range(20))
def test_bounded_least_squares_agree_with_an_active_set_method(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(8, 5)), rng.normal(size=8)

    def value(x: Array) -> tuple[float, Array]:
        rest = A @ x - b
        return 0.5 * float(rest @ rest), A.T @ rest

    found = minimise_smooth(value, np.full(5, 0.5), tol=1e-15, least=0.0, most=1.0)
    exact = optimize.lsq_linear(A, b, bounds=(0.0, 1.0), method="bvls")
    assert found.ended == "converged" and found.x.min() >= 0 and found.x.max() <= 1
    assert found.value == pytest.approx(exact.cost, rel=SOLVER)


def quartic(x: Array) -> tuple[float, Array]:
    return float((x**4).sum()), 4 * x**3


def test_a_limit_of_steps_is_told() -> None:
    assert minimise_smooth(quartic, np.full(3, 9.0), tol=0.0, max_steps=3).ended == "exhausted"
    assert minimise_smooth(quartic, np.full(3, 9.0), tol=0.0, max_evaluations=3).ended == "exhausted"


def test_a_descent_that_is_cut_short_gives_its_lowest_point() -> None:
    late = minimise_smooth(quartic, np.full(3, 9.0), tol=0.0, deadline=Deadline(-math.inf))
    assert late.ended == "deadline" and late.steps == 1 and (late.x == 9.0).all()
    values = []

    def enough(x: Array) -> tuple[float, Array]:
        value, gradient = quartic(x)
        values.append(value)
        if len(values) == 6:
            raise StopDescent
        return value, gradient

    cut = minimise_smooth(enough, np.full(3, 9.0), tol=0.0)
    assert cut.ended == "exhausted" and cut.value == min(values[:5]) == quartic(cut.x)[0] < values[0]
