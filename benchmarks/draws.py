"""The rows of unions.py, few_columns.py and replace_one.py, ten draws each, two cores for each draw.

    python benchmarks/draws.py [--draws 10] [--only blocks,sets] [--time-limit 560] [--write draws.json]

Draws run side by side, as many as there are pairs of cores; each has its pair to itself (`taskset`, Linux).
For every row: the largest gap, the most seconds by the clock and of all threads of the process, and the
largest peak of memory. Workloads that have no seed are drawn once. At the time limit what runs is ended and
counted as not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import few_columns
import replace_one
import unions

import leastnoise as ln

# A workload, the privacy goal it is designed for, and the gap to stop at.
Draw = tuple[ln.Workload, Any, float]

# The gap that `design` stops at unless told otherwise.
USUAL_GAP = 1e-6

# The gap asked of prefix sums of a thousand values where records are replaced.
REPLACED_GAP = 4e-3


@dataclass(frozen=True)
class Row:
    """A row: how a draw of it is made from a seed, and whether draws differ."""

    make: Callable[[int], Draw]
    is_random: bool


def _of_unions(name: str, size: int) -> Callable[[int], Draw]:
    return lambda seed: (unions.ROWS[name].make(size, seed), ln.GDP(1), USUAL_GAP)


def _of_few_columns(name: str) -> Callable[[int], Draw]:
    make, tol = few_columns.PROBLEMS[name]
    return lambda seed: (make(seed), ln.GDP(1), tol)


# The longest first.
ROWS = {
    "strips3-128": Row(_of_unions("strips3", 128), False),
    "strips-256": Row(_of_unions("strips", 256), False),
    "blocks": Row(_of_unions("blocks", 8), True),
    "strips3-64": Row(_of_unions("strips3", 64), False),
    "census": Row(_of_unions("census", 489_984), False),
    "prefix-1000-replaced": Row(lambda _: (replace_one.prefix(1_000), replace_one.GOAL, REPLACED_GAP), False),
    "sparse-sets": Row(_of_few_columns("sparse-sets"), True),
    "sets": Row(_of_few_columns("sets"), True),
    "ranges": Row(_of_few_columns("ranges"), False),
    "circles": Row(_of_few_columns("circles"), True),
    "polygons": Row(_of_few_columns("polygons"), True),
    "strips3-32": Row(_of_unions("strips3", 32), False),
    "windows-128": Row(_of_unions("windows", 128), False),
    "conditions-30": Row(_of_few_columns("conditions-30"), True),
    "quadtree-256": Row(_of_unions("quadtree", 256), False),
    "strips-64": Row(_of_unions("strips", 64), False),
    "quadtree-64": Row(_of_unions("quadtree", 64), False),
    "band": Row(_of_few_columns("band"), True),
    "kernel": Row(_of_few_columns("kernel"), False),
    "conditions-8": Row(_of_few_columns("conditions-8"), True),
}


def one(name: str, seed: int) -> dict[str, Any]:
    """One draw, in this process."""
    import resource

    workload, goal, tol = ROWS[name].make(seed)
    began, of_process = time.perf_counter(), time.process_time()
    plan = ln.design(workload, goal, tol=tol)
    return {
        "row": name,
        "seed": seed,
        "method": plan.method,
        "achieved": plan.certificate.achieved,
        "gap": plan.certificate.gap,
        "clock": time.perf_counter() - began,
        "process": time.process_time() - of_process,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def run_all(waiting: queue.SimpleQueue[tuple[str, int]], ends: float) -> list[dict[str, Any]]:
    """What all draws found, each pair of cores taking the next as soon as it is free."""
    cores = sorted(os.sched_getaffinity(0))
    found: list[dict[str, Any]] = []

    def work(pair: list[int]) -> None:
        threads = {
            f"{library}_NUM_THREADS": str(len(pair)) for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
        }
        while True:
            try:
                name, seed = waiting.get_nowait()
            except queue.Empty:
                return
            command = ["taskset", "-c", ",".join(map(str, pair)), sys.executable, __file__]
            try:
                done = subprocess.run(
                    [*command, "--draw", name, str(seed)],
                    capture_output=True,
                    text=True,
                    timeout=max(ends - time.monotonic(), 1),
                    env={**os.environ, **threads},
                )
                told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
                failed = done.stderr[-300:]
            except subprocess.TimeoutExpired:
                told, failed = {}, "not finished"
            found.append(told or {"row": name, "seed": seed, "failed": failed})
            print(json.dumps(found[-1]), flush=True)

    pairs = [cores[i : i + 2] for i in range(0, len(cores) - len(cores) % 2, 2)] or [cores]
    workers = [threading.Thread(target=work, args=(pair,)) for pair in pairs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def print_worst(found: list[dict[str, Any]]) -> None:
    """A line of Markdown for every row."""
    print("| row | draws | method | largest gap | most seconds, two cores | of the process | GB |")
    print("|---|---|---|---|---|---|---|")
    for name in ROWS:
        own = [draw for draw in found if draw["row"] == name and "gap" in draw]
        missing = sum(draw["row"] == name for draw in found) - len(own)
        if own:
            worst = {key: max(draw[key] for draw in own) for key in ("gap", "clock", "process", "gigabytes")}
            methods = ", ".join(sorted({draw["method"] for draw in own}))
            left = f" ({missing} not finished)" if missing else ""
            print(
                f"| {name} | {len(own)}{left} | {methods} | {worst['gap']:.1e} | {worst['clock']:.1f} "
                f"| {worst['process']:.1f} | {worst['gigabytes']:.2f} |"
            )
        elif missing:
            print(f"| {name} | 0 ({missing} not finished) | | | | | |")


def main() -> None:
    """Every row, the worst of its draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument(
        "--time-limit", type=float, default=36_000.0, help="seconds by the clock for everything"
    )
    parser.add_argument("--write", type=Path, help="a file for all draws, as JSON")
    parser.add_argument("--draw", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.draw:
        print(json.dumps(one(given.draw[0], int(given.draw[1]))))
        return
    ends = time.monotonic() + given.time_limit
    waiting: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for name in given.only.split(","):
        for seed in range(given.draws if ROWS[name].is_random else 1):
            waiting.put((name, seed))
    found = run_all(waiting, ends)
    print_worst(found)
    if given.write:
        given.write.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
