"""Total variance within targets where hardly any room is left: gaps of `dense` on random workloads.

    OMP_NUM_THREADS=1 python benchmarks/tight_targets.py [--draws 1000]

Each draw is designed with budgets a thousandth and a millionth above the least that meets its targets. Draws
that are refused or have a gap above 1e-6 are printed.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import leastnoise as ln

# What budgets exceed the least by.
SLACKS = (1e-3, 1e-6)


def workload(seed: int) -> ln.Workload:
    """Random sets, intervals, real rows or prefix sums, with random targets and weights."""
    rng = np.random.default_rng([7, seed])
    n, m = int(rng.integers(3, 30)), int(rng.integers(2, 60))
    kind = int(rng.integers(4))
    if kind == 0:
        W = rng.integers(0, 2, size=(m, n))
    elif kind == 1:
        W = np.zeros((m, n), dtype=int)
        for row in W:
            low, high = sorted(rng.integers(0, n + 1, size=2))
            row[low : high + 1] = 1
    else:
        W = rng.standard_normal((m, n)) if kind == 2 else np.tril(np.ones((n, n), dtype=int))
    W = W[np.abs(W).sum(axis=1) > 0]
    targets = np.exp(rng.normal(size=len(W)) * rng.choice([0.1, 0.5, 1.0]))
    return ln.Workload.from_matrix(W, stderr=targets, weights=np.exp(rng.normal(size=len(W))))


def gap(seed: int, slack: float) -> float:
    """The gap of the least total variance within targets, with a budget this share above the least."""
    asked = workload(seed)
    least = ln.design(asked, method="dense", tol=1e-9).certificate.achieved
    return ln.design(asked, ln.GDP(math.sqrt(least * (1 + slack))), method="dense").certificate.gap


def main() -> None:
    """Every draw at every slack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1_000)
    n_missed = 0
    n_designs = parser.parse_args().draws * len(SLACKS)
    for seed in range(n_designs // len(SLACKS)):
        for slack in SLACKS:
            try:
                found = gap(seed, slack)
            except ln.LeastnoiseError as error:
                print(f"draw {seed}, slack {slack:g}: {error}", flush=True)
            else:
                if found <= 1e-6:
                    continue
                print(f"draw {seed}, slack {slack:g}: gap {found:.1e}", flush=True)
            n_missed += 1
    print(f"{n_designs} designs, {n_missed} refused or with a gap above 1e-6")


if __name__ == "__main__":
    main()
