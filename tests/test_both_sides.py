"""Passes over all columns: both sides of the optimum, against another solver of the same problem."""

from __future__ import annotations

import numpy as np
import pytest

from leastnoise.core.deadline import Deadline, Watch
from leastnoise.core.operators import Array
from leastnoise.solver import Run, generated_from_both_sides, least_total, least_total_over_all
from tolerances import ROUNDING

GAP = 1e-3


class Columns:
    """Columns as an array, to pass over or to take some of."""

    def __init__(self, entries: Array) -> None:
        self.entries, self.shape = entries, entries.shape

    def gram(self, q: Array) -> Array:
        return (self.entries * q) @ self.entries.T

    def prices(self, M: Array) -> Array:
        return ((M @ self.entries) ** 2).sum(axis=0)

    def take(self, index: Array) -> Array:
        return self.entries[:, index]


def random_columns(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 8))
    share = rng.uniform(0.2, 0.8)
    entries = (rng.random((k, int(rng.integers(20, 60)))) < share).astype(float)
    return np.hstack([np.eye(k), entries[:, entries.any(axis=0)]]) * rng.uniform(0.5, 2, size=(k, 1))


def test_both_sides_enclose_the_optimum_and_meet() -> None:
    for seed in range(6):
        R = random_columns(seed)
        found = least_total_over_all(Columns(R), Run(GAP))
        optimum = least_total(R, tol=1e-8)
        assert found.ended == "converged" and found.gap <= GAP
        assert found.lower_bound <= optimum.achieved * (1 + ROUNDING)
        assert optimum.lower_bound <= found.achieved * (1 + ROUNDING)
        # What is claimed of the noise and of the weights, from these alone.
        assert ((found.root @ R) ** 2).sum(axis=0).max() <= 1 + ROUNDING
        total = np.trace(np.linalg.inv(found.root.T @ found.root))
        assert total == pytest.approx(found.achieved, rel=ROUNDING)
        N = R * np.sqrt(found.q / found.q.sum())
        assert np.linalg.svd(N, compute_uv=False).sum() ** 2 >= found.lower_bound * (1 - GAP / 10)


def test_smoothed_noise_closes_what_weights_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    R = random_columns(3)
    monkeypatch.setattr("leastnoise.solver.both_sides._STEPS", 1)
    with_noise = least_total_over_all(Columns(R), Run(1e-9))
    monkeypatch.setattr("leastnoise.solver.both_sides._sharpen", lambda sides, beta: None)
    without = least_total_over_all(Columns(R), Run(1e-9))
    assert with_noise.achieved < without.achieved
    assert without.ended == "exhausted"


def test_a_past_deadline_still_gives_both_sides() -> None:
    R = random_columns(1)
    found = least_total_over_all(Columns(R), Run(1e-12, Watch(Deadline.after(0))))
    assert found.ended == "deadline" and found.steps == 1
    assert 0 < found.lower_bound <= found.achieved < np.inf


def test_working_sets_find_what_passes_over_all_columns_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leastnoise.solver.both_sides._JOINING", 2)
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        R = np.hstack([np.eye(5), (rng.random((5, 400)) < 0.5) + 0.1 * rng.random((5, 400))])
        found = generated_from_both_sides(Columns(R), Run(GAP))
        optimum = least_total(R, tol=1e-6)
        assert found.ended == "converged" and found.gap <= GAP
        assert np.count_nonzero(found.q) < R.shape[1] / 2
        assert optimum.lower_bound <= found.achieved * (1 + ROUNDING)
        assert found.lower_bound <= optimum.achieved * (1 + GAP / 100)
        assert ((found.root @ R) ** 2).sum(axis=0).max() <= 1 + ROUNDING
