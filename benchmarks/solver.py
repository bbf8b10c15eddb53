"""The certified design beside the plain fixed-point iteration, in matrix products of the same run.

    python benchmarks/solver.py [--sizes 256,1024] [--backend numpy]

One product is an n-by-n float64 matrix product timed in this run, so the figures
mean the same on a fast and on a slow machine. The fixed point q ← q ∘ u takes the
same eigendecomposition per step as Newton's method and none of its products.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import leastnoise as ln
from leastnoise.operators import Array
from leastnoise.rowspace import factor_gram, integer_basis
from leastnoise.solver import load_backend, minimise_total_variance
from leastnoise.solver.dual import evaluate


def workloads(n: int, generator: np.random.Generator) -> Iterator[tuple[str, ln.Workload]]:
    """The problems, by name."""
    schema = ln.Schema(cell=range(n))
    yield "prefix", ln.assemble([ln.Prefix("cell")], schema)
    yield "all ranges", ln.assemble([ln.AllRanges("cell")], schema)
    ends = np.sort(generator.integers(0, n, (2 * n, 2)), axis=1)
    yield "random ranges", ln.assemble([ln.Ranges("cell", [tuple(pair) for pair in ends.tolist()])], schema)
    rank = max(2, n // 16)
    related = generator.standard_normal((n // 4, rank)) @ generator.standard_normal((rank, n))
    yield "low rank", ln.Workload.from_matrix(related)


def seconds_of_product(n: int, generator: np.random.Generator) -> float:
    """The median time of an n-by-n product."""
    A = generator.standard_normal((n, n))
    times = []
    for _ in range(7):
        started = time.perf_counter()
        A @ A
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def fixed_point_seconds(R: Array, tol: float, limit: float) -> tuple[int, float, float]:
    """Steps, gap and seconds of q ← q ∘ u, stopped at the gap or after so many seconds."""
    device = load_backend("numpy")
    q = np.ones(R.shape[1])
    started = time.perf_counter()
    best_achieved, best_bound, step = np.inf, 0.0, 0
    while True:
        point = evaluate(R, q, device)
        best_achieved = min(best_achieved, point.achieved)
        best_bound = max(best_bound, point.lower_bound)
        gap, seconds = best_achieved / best_bound - 1, time.perf_counter() - started
        if gap <= tol or seconds > limit:
            return step, gap, seconds
        q, step = point.q * point.u, step + 1


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="256,1024")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--tol", type=float, default=1e-6)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    print(
        f"{'problem':<14} {'n':>5} {'m':>8} {'rank':>5} {'steps':>5} {'gap':>8} {'seconds':>8} "
        f"{'products':>8}   fixed point: {'steps':>5} {'gap':>8} {'seconds':>8}"
    )
    for n in (int(size) for size in arguments.sizes.split(",")):
        product = seconds_of_product(n, generator)
        for name, workload in workloads(n, generator):
            R = factor_gram(workload, rank=integer_basis(workload).rank)
            found = minimise_total_variance(R, tol=arguments.tol, backend=arguments.backend)
            steps, gap, seconds = fixed_point_seconds(R, arguments.tol, limit=20 * found.seconds)
            print(
                f"{name:<14} {n:>5} {workload.shape[0]:>8} {len(R):>5} {found.steps:>5} {found.gap:>8.1e} "
                f"{found.seconds:>8.2f} {found.seconds / product:>8.0f}   {'':<12} "
                f"{steps:>5} {gap:>8.1e} {seconds:>8.2f}"
            )


if __name__ == "__main__":
    main()
