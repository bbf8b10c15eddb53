"""Totals within targets that only just fit the budget: the optimum all the same, and never open."""

from __future__ import annotations

import math

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import InfeasibleError
from leastnoise.core.operators import Array
from tolerances import SOLVER

WITHIN = ln.TotalVariance(within_targets=True)

# Least budgets are known to this share.
KNOWN = 1e-9

# What two nuclear norms and a pseudo-inverse may lose, beside numbers of the size of the weighted targets.
RECOMPUTED = 1e-11


def drawn(seed: int) -> tuple[Array, Array, Array]:
    """Random queries, their weights and their targets."""
    rng = np.random.default_rng([22, seed])
    m, n = int(rng.integers(3, 13)), int(rng.integers(3, 11))
    kinds = (
        lambda: rng.integers(-3, 4, (m, n)).astype(float),
        lambda: (rng.random((m, n)) < 0.4).astype(float),
        lambda: rng.normal(size=(m, n)),
        lambda: np.tril(np.ones((n, n))),
    )
    W = np.vstack([kinds[seed % 4](), np.ones((1, n))])
    W = W[np.abs(W).sum(axis=1) > 0]
    return W, np.exp(0.7 * rng.normal(size=len(W))), 3 * np.exp(0.7 * rng.normal(size=len(W)))


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 7, 9])
def test_totals_within_targets_are_optimal_down_to_the_least_budget(seed: int) -> None:
    # What was spared of the targets for rounding cost up to 1e-3 of the total where they are tight.
    W, weights, stderr = drawn(seed)
    asked = ln.Workload.from_matrix(W, weights=weights, stderr=stderr)
    least = ln.design(asked, tol=KNOWN, method="dense").mu
    assert least is not None
    for slack in (1e-2, 1e-4, 1e-6):
        mu = least * math.sqrt(1 + slack)
        plan = ln.design(asked, ln.GDP(mu), objective=WITHIN, method="dense")
        certificate = plan.certificate
        assert certificate.status == "optimal" and certificate.gap <= SOLVER
        # Again, from the strategy and the weights alone.
        A = plan.strategy.dense().astype(float)
        loads = W @ np.linalg.pinv(A)
        variances = (loads**2).sum(axis=1) * (A**2).sum(axis=0).max() / mu**2
        assert (variances <= stderr**2 * (1 + 1e-9)).all()
        assert weights @ variances == pytest.approx(certificate.achieved, rel=SOLVER)
        p, q = certificate.witness.p, certificate.witness.q
        norm = np.linalg.norm(np.sqrt(weights + p)[:, None] * W * np.sqrt(q), "nuc")
        whole, spent = norm**2 / (mu**2 * q.sum()), p @ stderr**2
        assert whole - spent == pytest.approx(certificate.lower_bound, abs=RECOMPUTED * whole)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_not_open_whether_targets_can_be_met(seed: int) -> None:
    W, weights, stderr = drawn(seed)
    asked = ln.Workload.from_matrix(W, weights=weights, stderr=stderr)
    least = ln.design(asked, tol=KNOWN, method="dense").mu
    assert least is not None
    plan = ln.design(asked, ln.GDP(least * (1 + 5e-9)), objective=WITHIN, method="dense")
    assert plan.factor is not None and plan.factor <= 1
    with pytest.raises(InfeasibleError):
        ln.design(asked, ln.GDP(least * (1 - 5e-8)), objective=WITHIN, method="dense")
