"""Pure privacy on the workloads that peers are measured on: error per query and seconds, one core.

    OMP_NUM_THREADS=1 python benchmarks/pure.py [--large] [--starts 4] [--seeds 1]

Error per query is Δ₁² trace(WᵀW (AᵀA)⁻¹)/m, that is, the mean variance at L1 sensitivity 1 over that of the
noise. Beside it stand the numbers that HDMM printed, with its times, on a machine with two cores: p-identity,
best of 25 starts (3 for 1,024 cells), and for marginals its own optimiser. Errors can be compared; times are
of this run and indicative.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import leastnoise as ln
from leastnoise.strategies.weighted_marginals import best_weights, tables

# Error and seconds of HDMM; None where it gave no time.
HDMM: dict[str, tuple[float, float | None]] = {
    "prefix 256": (27.01, 3.3),
    "all ranges 256": (32.52, 1.7),
    "prefix 1024": (46.20, 23.0),
    "2-way marginals, 5 attributes of 10": (85.60, None),
}


def _workload(query: Any, n: int) -> ln.Workload:
    return ln.assemble([query("value")], ln.Schema(value=range(n)))


def _designed(workload: ln.Workload, method: str, options: dict[str, int]) -> tuple[float, float]:
    started = time.perf_counter()
    plan = ln.design(workload, ln.PureDP(1), method=method, options=options)
    achieved = plan.certificate.achieved
    return achieved / 2 / workload.shape[0], time.perf_counter() - started


def _lines(large: bool, starts: int | None, seeds: int) -> Iterator[tuple[str, str, float, float]]:
    sizes = [("prefix 256", ln.Prefix, 256), ("all ranges 256", ln.AllRanges, 256)]
    if large:
        sizes.append(("prefix 1024", ln.Prefix, 1024))
    given = {} if starts is None else {"starts": starts}
    for name, query, n in sizes:
        workload = _workload(query, n)
        for seed in range(seeds):
            yield (
                name,
                f"p-identity, seed {seed}",
                *_designed(workload, "p-identity", {**given, "seed": seed}),
            )
        if n <= 256:
            yield (name, "weighted-basis", *_designed(workload, "weighted-basis", {}))
            yield (name, "auto", *_designed(workload, "auto", {}))
    started = time.perf_counter()
    asked = {frozenset(pair): 1.0 for pair in combinations(range(5), 2)}
    _, total = best_weights(tables((10,) * 5, asked))
    name = "2-way marginals, 5 attributes of 10"
    yield name, "cross tables, closed form", total / 1000, time.perf_counter() - started


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", action="store_true", help="1,024 cells too, half a minute")
    parser.add_argument("--starts", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    # What is loaded when first used is not what is measured.
    _designed(_workload(ln.Prefix, 16), "auto", {})
    print(f"{'workload':<36} {'method':<26} {'per query':>10} {'seconds':>8} {'HDMM':>8} {'seconds':>8}")
    for name, method, error, seconds in _lines(arguments.large, arguments.starts, arguments.seeds):
        theirs, their_seconds = HDMM[name]
        shown = "–" if their_seconds is None else f"{their_seconds:.1f}"
        print(f"{name:<36} {method:<26} {error:>10.4f} {seconds:>8.2f} {theirs:>8.2f} {shown:>8}", flush=True)


if __name__ == "__main__":
    main()
