"""Targets without a budget: the least loss at some δ, for all records of a person, against brute force."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import InputError, PrivacyError, QueryError, SpecError
from leastnoise.privacy import delta_of
from support import refuses

SCHEMA = ln.Schema(a=("x", "y"))
TEXT = """
[schema]
a = ["x", "y"]

[privacy]
{privacy}

[[query]]
kind = "marginal"
attributes = ["a"]
{target}
"""


@functools.cache
def changes_by_one_person(n: int, k: int, neighbours: str) -> np.ndarray:
    """All changes of n counts that one person's records make, as columns.

    A person has up to k records; adding or removing the person changes the counts by any sum of them.
    Where records are replaced, each of them may be exchanged for another one, or for one in no cell.
    """
    unit = [*np.eye(n), np.zeros(n)]
    changes = unit if neighbours == "add-remove" else [one - other for one in unit for other in unit]
    chosen = itertools.combinations_with_replacement(changes, k)
    return np.unique([np.sum(some, axis=0) for some in chosen], axis=0).T


def worst_loss(rows: np.ndarray, k: int, neighbours: str) -> float:
    """The largest squared change of the measured rows that one person's records make."""
    return float(np.max(np.sum((rows @ changes_by_one_person(rows.shape[1], k, neighbours)) ** 2, axis=0)))


def least_by_search(workload: np.ndarray, caps: np.ndarray, k: int, neighbours: str) -> float:
    """The least μ² of any Gaussian noise on two cells within the caps, by a search over all shapes.

    N(0, I) on the rows of an upper triangle R has the variances of W (RᵀR)⁻¹ Wᵀ: up to rotation every
    strategy of two cells is such an R, three numbers of which one is scale.
    """

    def loss(shape: np.ndarray) -> float:
        rows = np.array([[math.exp(shape[0]), shape[1]], [0.0, 1.0]])
        spread = workload @ np.linalg.inv(rows.T @ rows) @ workload.T
        rows = rows * math.sqrt(float(np.max(np.diag(spread) / caps)))
        return worst_loss(rows, k, neighbours)

    starts = [(0.0, 0.0), (1.0, 0.5), (-1.0, -0.5), (0.3, -1.0)]
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 2000, "maxfev": 2000}
    return min(minimize(loss, start, method="Nelder-Mead", options=options).fun for start in starts)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_least_loss_is_that_of_brute_force(k: int, neighbours: str) -> None:
    generator = np.random.default_rng(10 * k + len(neighbours))
    for _ in range(3):
        W = generator.integers(-2, 3, size=(3, 2))
        W[0] = [1, 1 + generator.integers(0, 2)]
        W[1] = [0, 1]
        stderr = generator.uniform(3, 30, size=3)
        workload = ln.Workload.from_matrix(W, stderr=stderr)
        least = ln.LeastLoss(delta=1e-6, neighbours=neighbours, records_per_person=k)
        plan = ln.design(workload, least)
        assert plan.strategy is not None
        noise = math.sqrt(plan.strategy.noise_variance - 1 / 12)
        spent = worst_loss(plan.strategy.dense() / noise, k, neighbours)
        best = least_by_search(W.astype(float), stderr**2, k, neighbours)
        assert float(plan.spent_per_person) == pytest.approx(spent, rel=1e-9)
        assert plan.certificate.achieved == pytest.approx(spent, rel=1e-6)
        # The grid of whole numbers and the room for rounding cost up to the tolerance of the design.
        assert best * (1 - 1e-6) <= spent <= best * (1 + 1e-5)
        assert plan.certificate.lower_bound <= best * (1 + 1e-6)
        assert plan.factor is not None and plan.factor <= 1


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, Fraction(1, 10**7)])
@pytest.mark.parametrize("k", [1, 4])
def test_the_epsilon_at_a_delta_is_the_least_of_six_digits(delta: float, k: int) -> None:
    workload = ln.assemble([ln.Marginal("a", stderr=7)], SCHEMA)
    plan = ln.design(workload, ln.LeastLoss(delta=delta, records_per_person=k))
    goal = plan.privacy
    assert isinstance(goal, ln.ApproxDP)
    assert (goal.delta, goal.records_per_person) == (delta, k)
    # Kept exactly, by the plan's own strategy; and not with one unit less in the sixth digit.
    assert goal.budget * k * k >= plan.spent_per_person
    digit = 10.0 ** (math.floor(math.log10(float(goal.epsilon))) - 5)
    assert delta_of(plan.spent_per_person, float(goal.epsilon)) <= delta
    assert delta_of(plan.spent_per_person, float(goal.epsilon) - digit * 1.01) > delta


def test_a_plan_without_a_budget_is_read_back(tmp_path: Path) -> None:
    workload = ln.assemble([ln.Marginal("a", within=20)], SCHEMA)
    least = ln.LeastLoss(delta=1e-6, records_per_person=3)
    plan = ln.design(workload, least)
    again = ln.load_plan(plan.save(tmp_path / "a.plan"))
    assert again.digest == plan.digest
    assert again.asked_privacy == least
    assert ln.design(workload).asked_privacy == ln.LeastLoss()


@pytest.mark.parametrize("size", [50, 50.0, "5%"])
def test_within_means_95_percent_unless_a_level_is_given(size: float | str) -> None:
    """A half-width alone was refused, and how to write it was to be looked up."""
    alone, pair = (ln.Marginal("a", within=given, expected=1000) for given in (size, (size, 0.95)))
    assert alone == pair
    assert alone.target == pytest.approx(50 / 1.959963984540054)
    assert alone.target_to_text().endswith("at 95%")
    target = f'within = "{size}"' if isinstance(size, str) else f"within = {size}"
    spec = parse_spec(TEXT.format(privacy="epsilon = 1", target=f"{target}\nexpected = 1000"))
    assert spec.queries == (pair,)
    assert parse_spec(spec.to_toml()).queries == (pair,)


@pytest.mark.parametrize("given", [True, 0, -1, math.inf, math.nan, "5", (5,), (1, 2, 3), (5, 1.0), {}])
def test_what_a_half_width_cannot_be(given: object) -> None:
    with refuses(QueryError, "within", given):
        ln.Marginal("a", within=given)


def test_a_person_costs_as_often_as_they_have_records() -> None:
    workload = ln.assemble([ln.Marginal("a", stderr=10)], SCHEMA)
    one, three = (ln.design(workload, ln.LeastLoss(records_per_person=k)) for k in (1, 3))
    assert one.mu is not None and three.mu is not None
    assert three.mu == pytest.approx(3 * one.mu, rel=1e-12)
    assert three.stderr == pytest.approx(one.stderr, rel=1e-12)


def test_trade_off_and_comparison_keep_the_people() -> None:
    workload = ln.assemble([ln.Marginal("a", stderr=10)], SCHEMA)
    least = ln.LeastLoss(delta=1e-7, records_per_person=2)
    plan = ln.design(workload, least)
    needed = next(one for one in ln.tradeoff(workload, least, epsilons=[1]).needed if one.factor == 1)
    assert needed.epsilon == pytest.approx(float(plan.privacy.epsilon), rel=1e-4)
    found = ln.compare(workload, least, methods=["dense"]).contenders[0]
    assert found.achieved == pytest.approx(plan.certificate.achieved, rel=1e-4)
    with refuses(InputError, "delta", 1e-6):
        ln.tradeoff(workload, least, delta=1e-6)


def test_what_a_least_loss_cannot_be() -> None:
    workload = ln.assemble([ln.Marginal("a", stderr=10)], SCHEMA)
    with refuses(PrivacyError, "delta", 1.5):
        ln.LeastLoss(delta=1.5)
    with refuses(PrivacyError, "delta", 0):
        ln.LeastLoss(delta=0)
    with refuses(PrivacyError, "records_per_person", 0):
        ln.LeastLoss(records_per_person=0)
    with refuses(PrivacyError, "neighbours", "all"):
        ln.LeastLoss(neighbours="all")
    with refuses(PrivacyError, "delta", 0.5):
        ln.design(workload, ln.LeastLoss(delta=0.5))
    with refuses(InputError, "privacy", None):
        ln.design(ln.assemble([ln.Total()], SCHEMA), ln.LeastLoss(delta=1e-6))
    first = ln.design(workload, ln.GDP(1))
    with refuses(InputError, "privacy", None):
        ln.design(workload, ln.LeastLoss(), after=[first])


def test_a_specification_may_hold_a_delta_alone() -> None:
    text = TEXT.format(privacy="delta = 1e-6\nrecords_per_person = 3", target="within = 50")
    spec = parse_spec(text)
    assert spec.privacy is None
    assert spec.asked_privacy == ln.LeastLoss(delta=1e-6, records_per_person=3)
    assert spec.records_per_person == 3
    assert parse_spec(spec.to_toml()).asked_privacy == spec.asked_privacy
    exact = parse_spec(TEXT.format(privacy='delta = "1/1000000"', target="within = 50"))
    assert exact.least.delta == Fraction(1, 10**6)
    assert parse_spec(exact.to_toml()).least == exact.least


@pytest.mark.parametrize(
    ("privacy", "target", "refusal"),
    [
        ("delta = 1e-6", "", ("privacy", ["delta"])),
        ("delta = 1e-6", "weight = 2", ("privacy", ["delta"])),
        ("delta = 2", "stderr = 5", ("privacy.delta", 2)),
        ("delta = '1e-6'", "stderr = 5", ("privacy.delta", "1e-6")),
        ("delta = 1e-6\nrecords_per_person = 0", "stderr = 5", ("privacy.records_per_person", 0)),
        ("calibration = 'classic'", "stderr = 5", ("privacy.calibration", "classic")),
        ("neighbours = 'all'", "stderr = 5", ("privacy.neighbours", "all")),
    ],
)
def test_a_delta_alone_needs_targets_and_sense(
    privacy: str, target: str, refusal: tuple[object, ...]
) -> None:
    with refuses(SpecError, *refusal):
        parse_spec(TEXT.format(privacy=privacy, target=target))
