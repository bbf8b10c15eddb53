"""Pure privacy on the workloads that peers are measured on: error per query and seconds of one core.

    OMP_NUM_THREADS=1 python benchmarks/pure.py [--sizes 256] [--seeds 1] [--auto] [--largest]

Error per query is Δ₁² trace(WᵀW (AᵀA)⁻¹)/m, that is, the mean variance at L1 sensitivity 1 over that of the
noise; the worst and the best of several seeds. Beside it stand the numbers that HDMM printed, with its
times, on a machine with two cores: p-identity, best of 25 starts (3 for 1,024 cells), and for marginals its
own optimiser. Errors can be compared; times are processor seconds of this run, the longest, and indicative.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.planning.families.weighted_tables import best_weights, tables

# Error and seconds of HDMM; None where it gave no time.
HDMM: dict[str, tuple[float | None, float | None]] = {
    "prefix 256": (27.01, 3.3),
    "all ranges 256": (32.52, 1.7),
    "prefix 1024": (46.20, 23.0),
}


def _workload(kind: str, n: int) -> ln.Workload:
    queries: dict[str, Any] = {"prefix": ln.Prefix, "all ranges": ln.AllRanges}
    schema = ln.Schema(value=range(n))
    if kind in queries:
        return ln.assemble([queries[kind]("value")], schema)
    ends = np.sort(np.random.default_rng(5).integers(0, n, (2 * n, 2)), axis=1)
    return ln.assemble([ln.Ranges("value", [(int(low), int(high)) for low, high in ends])], schema)


def _designed(
    workload: ln.Workload, method: str, options: dict[str, Any], **more: Any
) -> tuple[float, float]:
    """What the plan achieves per unit of noise, and processor seconds."""
    started = time.process_time()
    plan = ln.design(workload, ln.PureDP(1), method=method, options=options, **more)
    return plan.certificate.achieved / 2, time.process_time() - started


def _lines(sizes: Sequence[int], seeds: int, auto: bool) -> Iterator[tuple[str, str, float, float, float]]:
    for n in sizes:
        for kind in ("prefix", "all ranges", "random ranges"):
            workload = _workload(kind, n)
            for method in ("p-identity", "auto") if auto else ("p-identity",):
                runs = [_designed(workload, method, {"seed": seed, "workers": 1}) for seed in range(seeds)]
                errors = [achieved / workload.shape[0] for achieved, _ in runs]
                yield f"{kind} {n}", method, min(errors), max(errors), max(seconds for _, seconds in runs)


def _largest(sizes: Sequence[int]) -> Iterator[tuple[str, str, float, float, float]]:
    for n in sizes:
        workload = _workload("prefix", n)
        for method in ("p-identity", "auto"):
            largest, seconds = _designed(workload, method, {"workers": 1}, objective=ln.MaxVariance())
            yield f"prefix {n}, largest variance", method, largest, largest, seconds


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256], help="numbers of cells")
    parser.add_argument("--seeds", type=int, default=1, help="seeds from 0 on, for each")
    parser.add_argument(
        "--auto", action="store_true", help='method="auto" too, ten seconds and more for each'
    )
    parser.add_argument("--largest", action="store_true", help="the largest variance of prefix sums instead")
    arguments = parser.parse_args()
    # What is loaded when first used is not what is measured.
    _designed(_workload("prefix", 16), "auto", {})
    print(
        f"{'workload':<36} {'method':<12} {'best':>9} {'worst':>9} {'seconds':>8} {'HDMM':>8} {'seconds':>8}"
    )
    if arguments.largest:
        lines = _largest(arguments.sizes)
    else:
        lines = _lines(arguments.sizes, arguments.seeds, arguments.auto)
    for name, method, best, worst, seconds in lines:
        theirs = ["–" if number is None else f"{number:.2f}" for number in HDMM.get(name, (None, None))]
        ours = f"{best:>9.4f} {worst:>9.4f} {seconds:>8.2f}"
        print(f"{name:<36} {method:<12} {ours} {theirs[0]:>8} {theirs[1]:>8}", flush=True)
    closed_form = two_way_marginals()
    print(f"2-way marginals, 5 attributes of 10, in closed form: {closed_form:.4f} per query, HDMM 85.60")


def two_way_marginals() -> float:
    """The error per query of all pairs of five attributes of ten values, found without a matrix."""
    asked = {frozenset(pair): 1.0 for pair in combinations(range(5), 2)}
    _, total, _ = best_weights(tables((10,) * 5, asked))
    return total / 1000


if __name__ == "__main__":
    main()
