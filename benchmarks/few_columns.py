"""Few queries over many cells: seconds, memory and gaps, the worst of several draws.

    OMP_NUM_THREADS=1 python benchmarks/few_columns.py [--only conditions-8,circles] [--seeds 10]
    OMP_NUM_THREADS=1 python benchmarks/few_columns.py --only two-thousand --seeds 1

    conditions-8    8 random conditions over 50,000 cells (10 × 10 × 10 × 10 × 5)
    conditions-30   30 of them
    polygons        93 random triangles on a 200 by 200 grid
    circles         100 random circles on the same grid
    sets            200 random cell sets over 50,000 cells, half of the cells in each
    sparse-sets     200 random cell sets with a twentieth of the cells in each
    million         500 random conditions over a million cells (10^6)
    two-thousand    2,000 of them
    wheres          5 to 60 conditions (and, or, ranges, sets) over 4 to 9 attributes of 4 to 60 values
    band, kernel    a random band of 5 and a Gaussian kernel of width 8, 256 cells
    ranges          all ranges over 1,413 values, a million queries

Every draw runs in a process of its own; seconds are processor time, the peak is that of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import leastnoise as ln
from leastnoise.core.progress import Progress

NAMES = "abcdef"


def conditions(count: int, shape: tuple[int, ...], seed: int) -> ln.Workload:
    """Random intervals of one to three attributes each, joined by "and" or by "or"."""
    rng = np.random.default_rng(seed)
    queries = []
    for j in range(count):
        parts = []
        for a in sorted(rng.choice(len(shape), size=rng.integers(1, 4), replace=False)):
            low = int(rng.integers(0, shape[a] - 1))
            high = int(rng.integers(low, shape[a]))
            parts.append(f"({NAMES[a]} >= {low} and {NAMES[a]} <= {high})")
        queries.append(ln.Where((" or " if rng.random() < 0.5 else " and ").join(parts), name=f"q{j}"))
    return ln.assemble(queries, ln.Schema(**{name: range(n) for name, n in zip(NAMES, shape, strict=False)}))


def wheres(seed: int) -> ln.Workload:
    """5 to 60 conditions on one to three of 4 to 9 attributes of 4 to 60 values: ranges and sets, and, or."""
    rng = np.random.default_rng([23, seed])
    sizes = rng.integers(4, 61, int(rng.integers(4, 10))).tolist()
    queries = []
    for j in range(int(rng.integers(5, 61))):
        text = ""
        for a in rng.choice(len(sizes), size=int(rng.integers(1, 4)), replace=False).tolist():
            low, high = np.sort(rng.integers(0, sizes[a], 2)).tolist()
            some = tuple(rng.choice(sizes[a], size=int(rng.integers(2, 5)), replace=False).tolist())
            part = f"(a{a} >= {low} and a{a} <= {high})" if rng.random() < 0.7 else f"a{a} in {some}"
            text = f"({text} {('and', 'or')[int(rng.integers(2))]} {part})" if text else part
        queries.append(ln.Where(text, name=f"q{j}"))
    return ln.assemble(queries, ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)}))


def circles(count: int, side: int, seed: int) -> ln.Workload:
    """Random circles of a radius of 5 to 30 % of the side of a grid."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    rows = []
    for _ in range(count):
        (cx, cy), radius = rng.uniform(0, side, size=2), rng.uniform(0.05, 0.3) * side
        rows.append(((x - cx) ** 2 + (y - cy) ** 2 <= radius**2).ravel())
    return ln.Workload.from_matrix(np.array(rows, dtype=np.int64))


def triangles(count: int, side: int, seed: int) -> ln.Workload:
    """Random triangles with corners anywhere on a grid."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    rows = []
    while len(rows) < count:
        corners = rng.uniform(0, side, size=(3, 2))
        sides = []
        for (ax, ay), (bx, by) in zip(corners, np.roll(corners, 1, axis=0), strict=True):
            sides.append((bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0)
        inside = (sides[0] & sides[1] & sides[2]) | ~(sides[0] | sides[1] | sides[2])
        if inside.any():
            rows.append(inside.ravel())
    return ln.Workload.from_matrix(np.array(rows, dtype=np.int64))


def cell_sets(count: int, n: int, share: float, seed: int) -> ln.Workload:
    """Random sets that hold a share of the cells each."""
    rows = np.random.default_rng(seed).random((count, n)) < share
    return ln.Workload.from_matrix(rows.astype(np.int64))


def band(n: int, seed: int) -> ln.Workload:
    """Normal coefficients on the five middle diagonals."""
    W = np.random.default_rng(seed).standard_normal((n, n))
    return ln.Workload.from_matrix(np.where(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 2, W, 0))


def kernel(n: int) -> ln.Workload:
    """exp(−(i − j)²/(2·8²))."""
    return ln.Workload.from_matrix(np.exp(-0.5 * (np.subtract.outer(np.arange(n), np.arange(n)) / 8.0) ** 2))


PROBLEMS: dict[str, tuple[Callable[[int], ln.Workload], float]] = {
    "conditions-8": (lambda seed: conditions(8, (10, 10, 10, 10, 5), seed), 1e-6),
    "conditions-30": (lambda seed: conditions(30, (10, 10, 10, 10, 5), seed), 1e-6),
    "polygons": (lambda seed: triangles(93, 200, seed), 1e-6),
    "circles": (lambda seed: circles(100, 200, seed), 1e-6),
    "sets": (lambda seed: cell_sets(200, 50_000, 0.5, seed), 1e-4),
    "sparse-sets": (lambda seed: cell_sets(200, 50_000, 0.05, seed), 1e-4),
    "million": (lambda seed: conditions(500, (10,) * 6, seed), 1e-3),
    "two-thousand": (lambda seed: conditions(2_000, (10,) * 6, seed), 1e-3),
    "wheres": (wheres, 1e-6),
    "band": (lambda seed: band(256, seed), 1e-6),
    "kernel": (lambda _: kernel(256), 1e-6),
    "ranges": (lambda _: ln.assemble([ln.AllRanges("a")], ln.Schema(a=range(1_413))), 1e-6),
}


# Rows that are run only when named.
NAMED_ONLY = ("two-thousand",)

# Rows that are left to `dense`.
DENSE = ("two-thousand", "million")


# When a search last told of itself, in its seconds.
TOLD = [0.0]


def tell(progress: Progress) -> None:
    """Every few seconds, to follow a long search."""
    if progress.seconds >= TOLD[-1] + 3:
        TOLD.append(progress.seconds)
        print(f"step {progress.step}, gap {progress.gap:.2e}, {progress.seconds:.1f} s", file=sys.stderr)


def one(
    name: str, seed: int, backend: str = "numpy", time_limit: float | None = None
) -> dict[str, float | str]:
    """One draw, in this process."""
    make, tol = PROBLEMS[name]
    workload = make(seed)
    began, by_clock = time.process_time(), time.perf_counter()
    method = "dense" if name in DENSE else "auto"
    plan = ln.design(
        workload,
        ln.GDP(1),
        tol=tol,
        method=method,
        backend=backend,
        time_limit=time_limit,
        progress=tell,
    )
    return {
        "method": plan.method,
        "achieved": plan.certificate.achieved,
        "gap": plan.certificate.gap,
        "seconds": time.process_time() - began if backend == "numpy" else time.perf_counter() - by_clock,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    """Every problem, the worst of its draws."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(name for name in PROBLEMS if name not in NAMED_ONLY))
    parser.add_argument(
        "--backend", default="numpy", help="seconds are those of the clock unless it is numpy"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--time-limit", type=float, help="of one draw, with --draw")
    parser.add_argument("--draw", nargs=2)
    asked = parser.parse_args()
    if asked.draw:
        print(json.dumps(one(asked.draw[0], int(asked.draw[1]), asked.backend, asked.time_limit)))
        return
    for name in asked.only.split(","):
        found = []
        for seed in range(asked.seeds):
            command = [sys.executable, __file__, "--draw", name, str(seed), "--backend", asked.backend]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.append(json.loads(output.splitlines()[-1]))
        worst = {key: max(draw[key] for draw in found) for key in ("gap", "seconds", "gigabytes")}
        ends = min(draw["achieved"] for draw in found), max(draw["achieved"] for draw in found)
        methods = ", ".join(sorted({str(draw["method"]) for draw in found}))
        print(
            f"{name:14} {methods:10} total {ends[0]:.6g} to {ends[1]:.6g}, worst of {len(found)}: gap "
            f"{worst['gap']:.1e}, {worst['seconds']:.1f} s, {worst['gigabytes']:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
