"""Recheck a certificate without trusting the solver or the library's own check.

The example reads a plan from its file, recomputes its privacy loss in exact fractions, and
recomputes its total variance and the lower bound with one NumPy decomposition each.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

import leastnoise as ln


def main() -> None:
    """Design and save a plan, read it back, recompute its total variance and its lower bound."""
    schema = ln.Schema(age=range(80), region=("North", "South", "West"))
    workload = ln.assemble([ln.Marginal("region"), ln.Prefix("age") * ln.Marginal("region")], schema)
    with tempfile.TemporaryDirectory() as folder:
        path = ln.design(workload, ln.ZCDP(0.02)).save(Path(folder) / "regions.plan")
        plan = ln.load_plan(path)

    rows, sigma = plan.strategy.dense(object), plan.strategy.scale
    spent = max(Fraction(sum(int(a) ** 2 for a in column), sigma**2) for column in rows.T)
    print(f"one record spends mu squared = {float(spent):.12f}; the goal allows 2 rho = {2 * 0.02}")

    W, w, q = workload.dense(), workload.weights, plan.certificate.witness.q
    errors = sigma * (W @ np.linalg.pinv(rows.astype(float)))
    achieved = float(w @ (errors**2).sum(axis=1))
    F = np.linalg.norm(np.sqrt(w)[:, None] * W * np.sqrt(q), "nuc")
    lower_bound = float(F**2 / (2 * 0.02 * q.sum()))
    print(f"total variance {achieved:,.4f}, lower bound {lower_bound:,.4f}")

    assert spent <= 2 * Fraction(0.02)
    assert lower_bound <= achieved * (1 + 1e-9) <= (1 + 2e-6) * lower_bound


if __name__ == "__main__":
    main()
