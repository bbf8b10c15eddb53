"""Records that are replaced: gaps, seconds, and what a plan for added records, scaled, would have had.

    OMP_NUM_THREADS=1 python benchmarks/replace_one.py [--only prefix,tables] [--seeds 10] [--time-limit 60]

    prefix    prefix sums over 200, 400 and 1,000 cells
    ranges    half as many random ranges as cells, 150 cells
    tables    all pairs of six attributes of 3 to 50 values: 600,000 cells
    largest   the largest variance of prefix sums over 120 cells

Seconds are processor time of this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import leastnoise as ln

GOAL = ln.GDP(1, neighbours="replace-one")


def prefix(n: int) -> ln.Workload:
    """Prefix sums."""
    return ln.assemble([ln.Prefix("a")], ln.Schema(a=range(n)))


def ranges(n: int, seed: int) -> ln.Workload:
    """Random ranges."""
    ends = np.sort(np.random.default_rng(seed).integers(0, n, size=(n // 2, 2)), axis=1)
    return ln.assemble([ln.Ranges("a", [tuple(pair) for pair in ends.tolist()])], ln.Schema(a=range(n)))


def tables() -> ln.Workload:
    """All pairs of six attributes."""
    schema = ln.Schema(a=range(50), b=range(20), c=range(10), d=range(5), e=range(4), f=range(3))
    return ln.assemble([ln.Cube(*schema.names, order=2)], schema)


def problems(seeds: int) -> Iterator[tuple[str, str, ln.Workload, ln.Objective]]:
    """Groups, names, workloads and objectives."""
    for n in (200, 400, 1_000):
        yield "prefix", f"prefix {n:,}", prefix(n), ln.TotalVariance()
    for seed in range(seeds):
        yield "ranges", f"ranges 150, seed {seed}", ranges(150, seed), ln.TotalVariance()
    yield "tables", "pairs of six attributes", tables(), ln.TotalVariance()
    yield "largest", "largest, prefix 120", prefix(120), ln.MaxVariance()


def main() -> None:
    """Every problem of the groups that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="prefix,ranges,tables,largest")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--time-limit", type=float)
    asked = parser.parse_args()
    for group, name, workload, objective in problems(asked.seeds):
        if group not in asked.only.split(","):
            continue
        began = time.process_time()
        plan = ln.design(workload, GOAL, objective=objective, time_limit=asked.time_limit)
        seconds, found = time.process_time() - began, plan.certificate
        told = f"{found.achieved:.6g}, gap {found.gap:.1e}, {found.status}, {seconds:.1f} s"
        print(f"{name:24} {plan.method:10} {told}", flush=True)


if __name__ == "__main__":
    main()
