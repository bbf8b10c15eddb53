"""The rows of unions.py, few_columns.py and replace_one.py, many draws each, one or two cores for each draw.

    python benchmarks/draws.py [--draws 10] [--only blocks,sets] [--time-limit 560] [--write draws.json]
    python benchmarks/draws.py --only random --draws 50 --cores 1 --limits 1 2 5 10 20

Draws run side by side, as many as there are cores or pairs of them; each has its own to itself (`taskset`,
Linux). For every row: the median and the largest gap, the most seconds by the clock and of all threads of the
process, and the largest peak of memory. Workloads that have no seed are drawn once. At the time limit what
runs is ended and counted as not finished.

With --limits every draw is designed within each of these times as well, in increasing order and first. The
last column then says how many times the best plan of the draw the worst plan is after each, how many draws
got worse with more time, how many lost to plain noise, and the most seconds beyond a limit. With --cores 1
the clock of the library is that of the process, so that busy cores give the same figures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

if "--draw" in sys.argv and os.environ.get("OMP_NUM_THREADS") == "1":
    # Before the library is imported, which keeps some of these by name.
    time.monotonic = time.process_time

import few_columns
import replace_one
import unions

import leastnoise as ln
from leastnoise.core.resources import operations_per_second

# A workload, the privacy goal it is designed for, and the gap to stop at.
Draw = tuple[ln.Workload, Any, float]

# The gap that `design` stops at unless told otherwise.
USUAL_GAP = 1e-6

# A later plan is worse where its objective is larger by more than the gap that is asked for.
SAME = 1 + 1e-6

# The gap asked of prefix sums of a thousand values where records are replaced.
REPLACED_GAP = 4e-3


@dataclass(frozen=True)
class Row:
    """A row: how a draw of it is made from a seed, and whether draws differ."""

    make: Callable[[int], Draw]
    is_random: bool


def _of_unions(name: str, size: int) -> Callable[[int], Draw]:
    return lambda seed: (unions.ROWS[name].make(size, seed), unions.ROWS[name].goal, USUAL_GAP)


def _of_few_columns(name: str) -> Callable[[int], Draw]:
    make, tol = few_columns.PROBLEMS[name]
    return lambda seed: (make(seed), ln.GDP(1), tol)


# The longest first.
ROWS = {
    "ordered": Row(_of_unions("ordered", 10_000), False),
    "random": Row(_of_unions("random", 40), True),
    "pairs-45": Row(_of_unions("pairs", 45), True),
    "pairs-30": Row(_of_unions("pairs", 30), True),
    "pairs-15": Row(_of_unions("pairs", 15), True),
    "mixed": Row(_of_unions("mixed", 4_000), True),
    "lists": Row(_of_unions("lists", 1_000), True),
    "six": Row(_of_unions("six", 3_840), True),
    "targets": Row(_of_unions("targets", 100), True),
    "months": Row(_of_unions("months", 60), True),
    "wheres": Row(_of_few_columns("wheres"), True),
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


def one(name: str, seed: int, limits: list[float]) -> dict[str, Any]:
    """One draw, in this process."""
    import resource

    warnings.simplefilter("ignore", ln.LeastnoiseWarning)
    operations_per_second()
    tried = [within(limit, name, seed) for limit in limits]
    workload, goal, tol = ROWS[name].make(seed)
    began, of_process = time.perf_counter(), time.process_time()
    plan = ln.design(workload, goal, tol=tol)
    found: dict[str, Any] = {
        "row": name,
        "seed": seed,
        "shape": workload.shape,
        "method": plan.method,
        "achieved": plan.certificate.achieved,
        "gap": plan.certificate.gap,
        "ended": plan.ended,
        "clock": time.perf_counter() - began,
        "process": time.process_time() - of_process,
        "limits": tried,
    }
    if limits:
        try:
            found["plain"] = ln.design(workload, goal, method="plain").certificate.achieved
        except ln.LeastnoiseError:
            found["plain"] = math.inf
    return found | {"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def within(limit: float, name: str, seed: int) -> dict[str, Any]:
    """The plan of a draw within a time limit; an objective of infinity where it is refused."""
    workload, goal, tol = ROWS[name].make(seed)
    of_process = time.process_time()
    try:
        plan = ln.design(workload, goal, tol=tol, time_limit=limit)
    except ln.LeastnoiseError as error:
        told = {"achieved": math.inf, "ended": str(error)[:90]}
    else:
        told = {"achieved": plan.certificate.achieved, "ended": plan.ended, "method": plan.method}
    return told | {"limit": limit, "process": time.process_time() - of_process}


def run_all(given: argparse.Namespace, waiting: queue.SimpleQueue[tuple[str, int]]) -> list[dict[str, Any]]:
    """What all draws found, each set of cores taking the next as soon as it is free."""
    ends = time.monotonic() + given.time_limit
    cores = sorted(os.sched_getaffinity(0))
    limits = ["--limits", *map(str, given.limits)] if given.limits else []
    found: list[dict[str, Any]] = []

    def work(own: list[int]) -> None:
        threads = {
            f"{library}_NUM_THREADS": str(len(own)) for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
        }
        while True:
            try:
                name, seed = waiting.get_nowait()
            except queue.Empty:
                return
            command = ["taskset", "-c", ",".join(map(str, own)), sys.executable, __file__]
            try:
                done = subprocess.run(
                    [*command, "--draw", name, str(seed), *limits],
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

    several = given.cores
    sets = [cores[i : i + several] for i in range(0, len(cores) - len(cores) % several, several)] or [cores]
    workers = [threading.Thread(target=work, args=(own,)) for own in sets[: given.jobs]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def print_worst(found: list[dict[str, Any]]) -> None:
    """A line of Markdown for every row."""
    print(
        "| row | draws | method | median gap | largest gap | most seconds | of the process | GB | with time |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in ROWS:
        own = [draw for draw in found if draw["row"] == name and "gap" in draw]
        missing = sum(draw["row"] == name for draw in found) - len(own)
        if own:
            worst = {key: max(draw[key] for draw in own) for key in ("gap", "clock", "process", "gigabytes")}
            methods = ", ".join(sorted({draw["method"] for draw in own}))
            left = f" ({missing} not finished)" if missing else ""
            print(
                f"| {name} | {len(own)}{left} | {methods} | {statistics.median(d['gap'] for d in own):.1e} "
                f"| {worst['gap']:.1e} | {worst['clock']:.1f} | {worst['process']:.1f} "
                f"| {worst['gigabytes']:.2f} | {with_time(own)} |"
            )
        elif missing:
            print(f"| {name} | 0 ({missing} not finished) | | | | | | | |")


def with_time(own: list[dict[str, Any]]) -> str:
    """How the draws of a row fared within their time limits."""
    if not own[0]["limits"]:
        return ""
    worst: dict[float, float] = {}
    n_worse, n_plain, late = 0, 0, 0.0
    for draw in own:
        plans = [*draw["limits"], draw]
        best = min(plan["achieved"] for plan in plans)
        for plan in draw["limits"]:
            worst[plan["limit"]] = max(worst.get(plan["limit"], 0.0), plan["achieved"] / best)
            late = max(late, plan["process"] - plan["limit"])
        n_worse += any(b["achieved"] > a["achieved"] * SAME for a, b in pairwise(plans))
        n_plain += any(plan["achieved"] > draw["plain"] * SAME for plan in plans)
    told = ", ".join(f"{limit:g} s: {ratio:.4f}" for limit, ratio in worst.items())
    return f"{told}; {n_worse} worse with time, {n_plain} lost to plain, at most {late:.1f} s late"


def main() -> None:
    """Every row, the worst of its draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first draw")
    parser.add_argument("--cores", type=int, default=2, help="cores of each draw")
    parser.add_argument("--jobs", type=int, help="draws side by side, at most; all cores by default")
    parser.add_argument("--limits", type=float, nargs="*", default=[], help="time limits to try as well")
    parser.add_argument(
        "--time-limit", type=float, default=36_000.0, help="seconds by the clock for everything"
    )
    parser.add_argument("--write", type=Path, help="a file for all draws, as JSON")
    parser.add_argument("--draw", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.draw:
        print(json.dumps(one(given.draw[0], int(given.draw[1]), given.limits)))
        return
    waiting: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for name in given.only.split(","):
        for seed in range(given.first, given.first + given.draws) if ROWS[name].is_random else (0,):
            waiting.put((name, seed))
    found = run_all(given, waiting)
    print_worst(found)
    if given.write:
        given.write.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
