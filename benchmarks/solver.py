"""The certified design beside the plain fixed point, COA and SM-II: one table, in Markdown.

    python benchmarks/solver.py [--only p1,p2] [--sizes 64,256] [--match prefix] [--quick] [--time-limit 60]

Every problem runs in a process of its own, through `design` and nothing else. Columns:

steps, gap      of the plan's certificate, which covers the integer strategy that would be measured.
search s        until the solver's last report; `whole s` adds rounding to integers and the proof.
products        search time in n-by-n float64 products, their median timed in the same process.
arrays          peak memory during design beyond what was held before, in n-by-n float64 arrays; the
                kernel's own high-water mark. Left out where such an array is below 1 MiB.
above ours      the other's value over ours, less one.

The fixed point q ← q ∘ u stops at the gap asked for or after 20 times our search time, SM-II at its own
rule or after 20 times our search time; COA runs as printed, to its own end. All are cut at the time
limit. "cut" means that a time limit ended it.

"COA passed" says how many times sooner than COA's end our noise was known to be below COA's final
variance. At any time ours is at most (1 + gap then) times the final lower bound.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core.operators import Array
from leastnoise.core.resources import SMALL_FOR_THREADS, threads_for_matrices_of
from leastnoise.papers.coa import coa
from leastnoise.papers.fitness import representation
from leastnoise.papers.smii import smii
from leastnoise.query import generators as g
from leastnoise.strategy import factor_gram, integer_basis

SEED = 0
PATIENCE = 20  # how many times our search time others get
MARGIN = 1.2  # caps of "within" problems, over the least that can be met
DENSE_ENTRIES = 2**26  # queries beyond this are not written out for SM-II


@dataclass(frozen=True)
class Problem:
    """One row: how to make the workload, and for which objective."""

    group: str
    name: str
    n: int
    objective: str  # "total", "largest", "targets" or "within"
    make: Callable[[np.random.Generator], ln.Workload]


# Problems ------------------------------------------------------------------------------------


def attribute_sizes(n: int) -> tuple[int, ...]:
    """Attributes of four values, and one of two where n is no power of four."""
    bits = n.bit_length() - 1
    return (4,) * (bits // 2) + (2,) * (bits % 2)


def total_variance_problems(n: int) -> Iterator[Problem]:
    """Every generator of the library."""
    sizes = attribute_sizes(n)
    kinds: dict[str, Callable[[np.random.Generator], ln.Workload]] = {
        "prefix": lambda _: g.workload_prefix(n),
        "all ranges": lambda _: g.workload_all_ranges(n),
        "random ranges, m = 2n": lambda rng: g.workload_range(2 * n, n, generator=rng),
        "random ranges, m = n/2": lambda rng: g.workload_range(n // 2, n, generator=rng),
        "discrete 0.02, m = n/2": lambda rng: g.workload_discrete(n // 2, n, generator=rng),
        "discrete 0.2, m = 2n": lambda rng: g.workload_discrete(2 * n, n, probability=0.2, generator=rng),
        "predicates, m = 4n": lambda rng: g.workload_predicates(4 * n, n, generator=rng),
        "related, rank n/8, m = n/2": lambda rng: g.workload_related(n // 2, n, n // 8, generator=rng),
        "sampled marginals, m = n": lambda rng: g.workload_marginal(n, sizes, generator=rng),
        "2-way marginals": lambda _: g.workload_k_way(sizes, 2),
        "2-way range marginals": lambda _: g.workload_k_way_ranges(sizes, 2),
    }
    if n <= 256:  # beyond, the shuffled ranges fill gigabytes
        kinds["permuted ranges"] = lambda rng: g.workload_permuted_ranges(n, generator=rng)
    for name, make in kinds.items():
        yield Problem("p1", name, n, "total", make)


def with_caps(workload: ln.Workload, caps: Array) -> ln.Workload:
    """The same queries, each with a target."""
    return ln.Workload.from_matrix(workload.dense(), stderr=np.sqrt(caps))


def capped_problems(group: str, n: int, objective: str) -> Iterator[Problem]:
    """Fitness for use, Tables 2 and 5 to 8, and the same caps around the total variance."""
    m = 2 * n
    important = max(1, m // 10)

    def ranges(rng: np.random.Generator, is_uniform: bool) -> ln.Workload:
        workload = g.workload_range(m, n, generator=rng)
        return with_caps(workload, np.ones(m) if is_uniform else rng.uniform(1, 10, m))

    def discrete(rng: np.random.Generator, is_uniform: bool) -> ln.Workload:
        workload = g.workload_discrete(m, n, probability=0.2, generator=rng)
        random = np.concatenate([rng.uniform(1, 3, important), rng.uniform(10, 15, m - important)])
        return with_caps(workload, np.ones(m) if is_uniform else random)

    kinds: dict[str, Callable[[np.random.Generator], ln.Workload]] = {
        "prefix, caps 1": lambda _: with_caps(g.workload_prefix(n), np.ones(n)),
        "random ranges, m = 2n, caps 1": partial(ranges, is_uniform=True),
        "random ranges, m = 2n, random caps": partial(ranges, is_uniform=False),
        "discrete 0.2, m = 2n, caps 1": partial(discrete, is_uniform=True),
        "discrete 0.2, m = 2n, random caps": partial(discrete, is_uniform=False),
    }
    for name, make in kinds.items():
        yield Problem(group, name, n, objective, make)


def all_ranges(n: int, _: np.random.Generator) -> ln.Workload:
    """Every range, whatever the generator."""
    return g.workload_all_ranges(n)


GROUPS = ("p1", "p2", "p3", "max-ranges", "lowrank", "named")


def problems(groups: list[str], sizes: list[int] | None, is_quick: bool) -> Iterator[Problem]:
    """The rows asked for, group by group."""
    p1_sizes = sizes or ([64] if is_quick else [64, 256, 1024, 2048])
    capped_sizes = sizes or ([64] if is_quick else [64, 256, 1024])
    for n in p1_sizes if "p1" in groups else ():
        yield from total_variance_problems(n)
    for group, objective in (("p2", "targets"), ("p3", "within")):
        for n in capped_sizes if group in groups else ():
            yield from capped_problems(group, n, objective)
    if "max-ranges" in groups:
        for n in sizes or ([64] if is_quick else [256, 1024]):
            yield Problem("max-ranges", "all ranges", n, "largest", partial(all_ranges, n))
    if "lowrank" in groups:
        n, rank = (512, 25) if is_quick else (8192, 100)
        yield Problem(
            "lowrank",
            f"related, rank {rank}, m = 1,024",
            n,
            "total",
            lambda rng: g.workload_related(1024, n, rank, generator=rng),
        )
    if "named" in groups:
        yield Problem("named", "PL 94-171", 252, "targets", lambda _: g.workload_pl94())
        yield Problem("named", "age pyramid", 232, "targets", lambda _: g.workload_age_pyramid())


# One problem, in a process of its own --------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What `design` is called with."""

    workload: ln.Workload
    privacy: ln.GDP | None
    objective: Any


def asked(problem: Problem, limit: float) -> Asked:
    """The workload, goal and objective of a problem; caps of "within" from the least that can be met."""
    workload = problem.make(np.random.default_rng(SEED))
    if problem.objective == "total":
        return Asked(workload, ln.GDP(1), ln.TotalVariance())
    if problem.objective == "largest":
        return Asked(workload, ln.GDP(1), ln.MaxVariance())
    if problem.objective == "targets":
        return Asked(workload, None, ln.Targets())
    least = ln.design(workload, objective=ln.Targets(), time_limit=limit).certificate.achieved
    loose = with_caps(workload, MARGIN * least * workload.targets**2)
    return Asked(loose, ln.GDP(1), ln.TotalVariance(within_targets=True))


def measured(problem: Problem, limit: float, tol: float) -> dict[str, Any]:
    """Everything the table says about one problem."""
    # Whatever is loaded on first use is loaded here, not while memory and time are watched.
    tiny = ln.Workload.from_matrix(np.tril(np.ones((4, 4), dtype=int)), stderr=1.0)
    ln.design(tiny, ln.GDP(1), objective=ln.TotalVariance())
    if problem.objective != "total":
        ln.design(tiny, objective=ln.Targets())
        ln.design(tiny, ln.GDP(2), objective=ln.TotalVariance(within_targets=True))
    given = asked(problem, limit)
    m, n = given.workload.shape
    with threads_for_matrices_of(n):
        product = seconds_of_product(n)
    before = reset_peak()
    reports: list[tuple[float, float]] = []
    started = time.perf_counter()
    plan = ln.design(
        given.workload,
        given.privacy,
        objective=given.objective,
        tol=tol,
        time_limit=limit,
        progress=lambda step: reports.append((time.perf_counter() - started, step.gap)),
    )
    whole = time.perf_counter() - started
    peak = peak_above(before)
    certificate = plan.certificate
    search = reports[-1][0] if reports else whole
    row: dict[str, Any] = {
        "problem": problem.name,
        "n": n,
        "m": m,
        "rank": integer_basis(given.workload).rank,
        "objective": {"total": "P1", "within": "P3"}.get(problem.objective, "P2"),
        "method": plan.method,
        "value": certificate.achieved,
        "status": certificate.status,
        "steps": len(reports) - 1 if reports else None,
        "gap": certificate.gap,
        "search": search,
        "whole": whole,
        "products": search / product,
        "arrays": None if peak is None or 8 * n * n < 2**20 else peak / (8 * n * n),
    }
    others_limit = min(PATIENCE * search, limit)
    with threads_for_matrices_of(n):
        if problem.objective == "total":
            row["fixed"] = fixed_point(given.workload, certificate.achieved, tol, others_limit)
            row["coa"] = coa_row(given.workload, certificate.achieved, limit)
            row["passed"] = passed(reports, certificate.lower_bound, row["coa"])
        elif problem.objective != "within" and m * n <= DENSE_ENTRIES:
            row["smii"] = smii_row(given, certificate.achieved, others_limit)
    return row


def seconds_of_product(n: int) -> float:
    """The median time of an n-by-n product."""
    A = np.random.default_rng(SEED).standard_normal((n, n))
    times = []
    for _ in range(7):
        started = time.perf_counter()
        A @ A
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def reset_peak() -> int | None:
    """Forget the kernel's high-water mark of this process; bytes held now, None where it cannot be told."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return memory("VmRSS")
    except OSError:
        return None


def peak_above(before: int | None) -> float | None:
    """Bytes of the high-water mark beyond what was held before."""
    return None if before is None else max(memory("VmHWM") - before, 0)


def memory(what: str) -> int:
    """One line of the kernel's account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


def fixed_point(workload: ln.Workload, ours: float, tol: float, limit: float) -> dict[str, Any]:
    """Where q ← q ∘ u stands at the gap asked for, or when its time is up."""
    started = time.perf_counter()
    R = factor_gram(workload, integer_basis(workload))
    R = R[:, workload.operator.column_norms(1) > 0]
    q = np.ones(R.shape[1])
    achieved, bound, step = math.inf, 0.0, 0
    while True:
        squares, U = np.linalg.eigh((R * q) @ R.T)
        d = np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        u = ((U.T @ R) ** 2 / d[:, None]).sum(axis=0)
        F = float(d.sum())
        achieved, bound = min(achieved, F * float(u.max())), max(bound, F**2 / float(q.sum()))
        seconds = time.perf_counter() - started
        if achieved <= (1 + tol) * bound or seconds > limit:
            is_cut = achieved > (1 + tol) * bound
            return {"above": achieved / ours - 1, "seconds": seconds, "steps": step, "is_cut": is_cut}
        q, step = q * u / float((q * u).mean()), step + 1


def coa_row(workload: ln.Workload, ours: float, limit: float) -> dict[str, Any]:
    """Where COA as printed ends."""
    gram = workload.weighted_gram()
    started = time.perf_counter()
    result = coa(gram, time_limit=limit)
    seconds = time.perf_counter() - started
    value = float(np.trace(np.linalg.solve(result.X, gram)))
    return {"above": value / ours - 1, "value": value, "seconds": seconds, "is_cut": result.ended == "time"}


def passed(reports: list[tuple[float, float]], bound: float, other: dict[str, Any]) -> float | None:
    """COA's time over the time at which our variance was first known to be below COA's."""
    for seconds, gap in reports:
        if (1 + gap) * bound < other["value"]:
            return other["seconds"] / seconds
    return None


def smii_row(given: Asked, ours: float, limit: float) -> dict[str, Any]:
    """Where SM-II stands when its time is up, or when it ends by itself."""
    W = given.workload.dense()
    caps = np.asarray(given.objective.caps(given.workload))
    caps_unit = float((caps / np.abs(W).max(axis=1) ** 2).min())
    L, B = representation(W)
    outcome = smii(L, B, caps / caps_unit, time_limit=limit)
    step = outcome.history[-1]
    return {
        "above": outcome.cost / caps_unit / ours - 1,
        "seconds": step.seconds,
        "steps": step.step,
        "is_cut": not outcome.has_converged,
    }


# The table -----------------------------------------------------------------------------------

HEAD = (
    "problem", "n", "m", "rank", "objective", "value", "steps", "gap", "search s", "whole s", "products",
    "arrays", "fixed point: above ours", "steps", "s", "COA: above ours", "s", "COA passed",
    "SM-II: above ours", "steps", "s",
)  # fmt: skip


def cells(row: dict[str, Any]) -> list[str]:
    """One row of the table, as text."""
    fixed, other, soft = row.get("fixed"), row.get("coa"), row.get("smii")
    early = "" if row["status"] == "optimal" else f" ({row['status']})"
    return [
        row["problem"],
        f"{row['n']:,}",
        f"{row['m']:,}",
        f"{row['rank']:,}",
        row["objective"] + ("" if row["method"] == "dense" else f" ({row['method']})"),
        f"{row['value']:.7g}",
        "–" if row["steps"] is None else str(row["steps"]),
        f"{row['gap']:.1e}{early}",
        seconds_text(row["search"]),
        seconds_text(row["whole"]),
        f"{row['products']:,.0f}",
        "–" if row["arrays"] is None else f"{row['arrays']:.1f}",
        *(
            ["–"] * 3
            if fixed is None
            else [above(fixed), str(fixed["steps"]), seconds_text(fixed["seconds"])]
        ),
        *(["–"] * 2 if other is None else [above(other), cut(other)]),
        "–" if other is None else "never" if row["passed"] is None else f"{row['passed']:,.1f} times sooner",
        *(["–"] * 3 if soft is None else [above(soft), str(soft["steps"]), cut(soft)]),
    ]


def above(other: dict[str, Any]) -> str:
    """How far a value is above ours."""
    percent = 100 * other["above"]
    return f"{percent:.1e} %" if abs(percent) < 0.01 else f"{percent:.2f} %"


def cut(other: dict[str, Any]) -> str:
    """Seconds, and whether they were the limit rather than an end."""
    return seconds_text(other["seconds"]) + (", cut" if other["is_cut"] else "")


def seconds_text(seconds: float) -> str:
    """Seconds with two digits that mean something."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


def machine() -> str:
    """What the figures were taken on."""
    import scipy
    from threadpoolctl import threadpool_info

    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    np.ones((2, 2)) @ np.ones((2, 2))
    blas = ", ".join(
        f"{pool['internal_api']} {pool['version']} with {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
    return (
        f"{model}, {usable} usable cores. BLAS: {blas}; one thread below {SMALL_FOR_THREADS} cells. "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"leastnoise {ln.__version__}. Load {os.getloadavg()[0]:.1f} at the start."
    )


def in_own_process(number: int, arguments: argparse.Namespace) -> dict[str, Any] | str:
    """The measurements of one problem, or why there are none."""
    command = [sys.executable, __file__, *sys.argv[1:], "--row", str(number)]
    # Ours, the least caps of "within", three others, and what surrounds them.
    patience = 8 * arguments.time_limit + 300
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return f"killed after {patience:.0f} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(GROUPS), help=f"groups of problems: {', '.join(GROUPS)}")
    parser.add_argument("--sizes", help="cells, as in 64,256, instead of each group's own")
    parser.add_argument("--match", default="", help="only problems whose name holds this")
    parser.add_argument("--quick", action="store_true", help="the smallest size of every group")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each solver on a problem")
    parser.add_argument("--tol", type=float, default=1e-6, help="the gap asked for")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    groups = arguments.only.split(",")
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"--only knows {', '.join(GROUPS)}, not {', '.join(sorted(unknown))}")
    sizes = None if arguments.sizes is None else [int(size) for size in arguments.sizes.split(",")]
    chosen = [p for p in problems(groups, sizes, arguments.quick) if arguments.match in p.name]
    if arguments.row is not None:
        print(json.dumps(measured(chosen[arguments.row], arguments.time_limit, arguments.tol)))
        return
    print(f"`python benchmarks/solver.py {' '.join(sys.argv[1:])}`\n\n{machine()}\n")
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD), flush=True)
    for number, problem in enumerate(chosen):
        found = in_own_process(number, arguments)
        if isinstance(found, str):
            text = [problem.name, f"{problem.n:,}", *["–"] * (len(HEAD) - 3), found]
        else:
            text = cells(found)
        print("| " + " | ".join(text) + " |", flush=True)


if __name__ == "__main__":
    main()
