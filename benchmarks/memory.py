"""Specifications that once took 6 to 22 GB: refused with a number, replaced with a sentence, or solved.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/memory.py

Every case runs in a fork that can map no more than 6 GB, with a time limit and the process's own clock, as in
time_limits.py. Prints the largest resident memory and the seconds of each; exits with 1 if one is late, or
ends in anything but a plan or a refusal.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable

from time_limits import GAUSS, LATE_SECONDS, LATE_SHARE, ONE, PURE, in_fork, prefix

import leastnoise as ln
from leastnoise.core.errors import LeastnoiseError

# Bytes that a design may map in all.
MEMORY = 6_000_000_000


def all_ranges(n: int) -> ln.Workload:
    """All ranges of n values, n (n + 1) / 2 of them."""
    return ln.assemble([ln.AllRanges("a")], ln.Schema(a=range(n)))


def deep_cube() -> ln.Workload:
    """All tables of up to 20 of 40 attributes."""
    schema = ln.Schema({f"a{i}": ("u", "v") for i in range(40)})
    return ln.assemble([ln.Cube(*schema.names, order=20)], schema)


CASES: dict[str, tuple[Callable[[], ln.Workload], ln.GDP | ln.PureDP, str]] = {
    "cube of order 20 over 40": (deep_cube, GAUSS, "auto"),
    "prefix 20,000": (lambda: prefix(20_000), GAUSS, "auto"),
    "all ranges 20,000": (lambda: all_ranges(20_000), GAUSS, "auto"),
    "lowrank 4,000": (lambda: prefix(4_000), GAUSS, "lowrank"),
    "p-identity 4,096": (lambda: prefix(4_096), PURE, "p-identity"),
    "coa 8,000": (lambda: prefix(8_000), GAUSS, "coa"),
    "eigen 8,000": (lambda: prefix(8_000), GAUSS, "eigen"),
    "replace-one prefix 8,000": (lambda: prefix(8_000), ONE, "auto"),
    "smoothing 2,000": (lambda: prefix(2_000), GAUSS, "smoothing"),
    "all ranges 1,413": (lambda: all_ranges(1_413), GAUSS, "auto"),
}
# Solved whatever is done with the others.
SOLVED = ("all ranges 1,413",)


def tried(name: str, limit: float) -> tuple[float, str]:
    """Seconds, and how it ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began = time.process_time()
    try:
        made, goal, method = CASES[name]
        plan = ln.design(made(), goal, method=method, time_limit=limit)
        ending = f"SOLVED by {plan.method}, gap {plan.certificate.gap:.2g}; {plan.note}"
    except LeastnoiseError as error:
        ending = f"REFUSED, {type(error).__name__}: {error}"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return time.process_time() - began, f"{most:.2f} GiB  {' '.join(ending.split())[:400]}"


def main() -> int:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    asked = parser.parse_args()
    n_wrong = 0
    for name in asked.cases:
        seconds, words = in_fork(asked.limit, lambda name=name: tried(name, asked.limit))
        is_in_time = seconds <= (1 + LATE_SHARE) * asked.limit + LATE_SECONDS
        is_right = is_in_time and ("SOLVED" in words or ("REFUSED" in words and name not in SOLVED))
        n_wrong += not is_right
        print(f"{'     ' if is_right else 'WRONG'} {name:26} {seconds:7.1f} s  {words}")
        sys.stdout.flush()
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
