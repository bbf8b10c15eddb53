"""The bound by rotations against nuclear norms of matrices that are written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from leastnoise.bounds import UnionRotations, root_below
from leastnoise.core.deadline import Deadline
from tolerances import ROUNDING


def random_union(seed: int, *, commuting: bool) -> tuple[list[list[int]], np.ndarray, list[list[np.ndarray]]]:
    """Kinds of every product, weights, and Gram matrices of every axis and kind."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, size=int(rng.integers(1, 4))).tolist()
    grams = []
    for n in sizes:
        E = np.linalg.qr(rng.standard_normal((n, n)))[0]
        own = []
        for _ in range(int(rng.integers(1, 4))):
            rows = rng.standard_normal((int(rng.integers(1, n + 1)), n))
            own.append((E * rng.random(n)) @ E.T if commuting else rows.T @ rows)
        grams.append(own)
    asked = [[int(rng.integers(len(own))) for own in grams] for _ in range(int(rng.integers(1, 5)))]
    return asked, rng.random(len(asked)), grams


def nuclear_norm(asked: list[list[int]], weights: np.ndarray, grams: list[list[np.ndarray]]) -> float:
    total: np.ndarray | float = 0.0
    for kinds, weight in zip(asked, weights, strict=True):
        K = np.full((1, 1), weight)
        for own, kind in zip(grams, kinds, strict=True):
            K = np.kron(K, own[kind])
        total = total + K
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(total), 0)).sum())


@pytest.mark.parametrize("seed", range(60))
def test_no_rotation_exceeds_the_norm(seed: int) -> None:
    asked, weights, grams = random_union(seed, commuting=False)
    union = UnionRotations(asked, weights, [[root_below(K) for K in own] for own in grams])
    norm = nuclear_norm(asked, weights, grams)
    values = [union.value()]
    for _ in range(6):
        union.sweep()
        values.append(union.value())
    assert max(values) <= norm * (1 + 1e-7)
    # Sweeps never lower the bound.
    assert all(after >= before * (1 - 1e-9) for before, after in pairwise(values))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_norm_where_gram_matrices_commute(seed: int) -> None:
    asked, weights, grams = random_union(seed, commuting=True)
    union = UnionRotations(asked, weights, [[root_below(K) for K in own] for own in grams])
    assert union.climb() == pytest.approx(nuclear_norm(asked, weights, grams), rel=1e3 * ROUNDING)


@pytest.mark.parametrize("seed", range(5))
def test_a_climb_stops_at_the_deadline(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on for 20 sweeps, whatever the time."""
    asked, weights, grams = random_union(seed, commuting=False)
    union = UnionRotations(asked, weights, [[root_below(K) for K in own] for own in grams])
    swept: list[int] = []
    monkeypatch.setattr(union, "sweep", lambda: swept.append(1))
    found = union.climb(Deadline(ends=0.0))
    assert not swept
    assert 0 < found <= nuclear_norm(asked, weights, grams) * (1 + 1e-7)
