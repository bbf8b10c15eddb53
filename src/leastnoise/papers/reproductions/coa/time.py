"""COA, figures 11 to 13: how long COA, LRM and ESM search, beside the certified optimum."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import leastnoise as ln
from leastnoise.core.operators import Array
from leastnoise.papers.coa import coa
from leastnoise.papers.low_rank_rounds import low_rank, random_start
from leastnoise.papers.lowrank import RANK_FACTOR
from leastnoise.papers.reproductions.coa.setup import (
    DRAWN_NAMES,
    ENDS_EARLY,
    KINDS,
    NOTES,
    ON_GPU_ONLY,
    OWN_RULE,
    SIMILAR,
    claim_for_each,
    drawn,
    is_similar,
    ratios,
    seconds_of,
)
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import IS_CUT, Plain, Row, curve, listed, where
from leastnoise.papers.reproductions.verdicts import Check, statement
from leastnoise.papers.smoothing import smoothing
from leastnoise.query import Workload

METHODS = ("dense", "coa", "lowrank", "smoothing")

# Seconds for one search in these figures.
_LIMIT = 30.0

# Seconds where COA itself needs minutes: it is let to its end, as its time is the subject, and what it is
# compared with must not be cut off before.
_LONG_LIMIT = 300.0

# The size on a core at which both take minutes; one workload is run there.
_LONG = 2048

# Where the text sees COA ahead of LRM, and where it may fall behind.
_SMALL = 5000


def timed(setting: Setting, *, workload: str, m: int, n: int, method: str, draw: int) -> Iterator[Row]:
    """How long one search takes, from the queries to its last iterate."""
    queries = drawn(workload, m, n, draw)
    W = queries.dense().astype(float)
    r = math.ceil(RANK_FACTOR * int(np.linalg.matrix_rank(W))) if method == "lowrank" else 0
    backend = setting.backend_for(n)
    # What is imported, and a GPU made ready, before the first search of a process is no part of it.
    small = np.random.default_rng(0).integers(0, 2, (8, 16)).astype(float)
    _search(method, Workload.from_matrix(small), small, 10, backend, _LIMIT)
    # Another process may hold the core, but not this one's time. What a GPU does is on no such clock.
    clock = time.process_time if backend == "numpy" else time.monotonic
    began = clock()
    iterations, ended, is_cut = _search(
        method, queries, W, r, backend, min(setting.time_limit, _limit(method, n))
    )
    yield {
        "seconds": clock() - began,
        "clock": "processor" if backend == "numpy" else "wall",
        "iterations": iterations,
        "ended": ended,
        IS_CUT: is_cut,
    }


def _search(
    method: str, queries: Workload, W: Array, r: int, backend: str, limit: float
) -> tuple[int | None, str, bool]:
    """How many steps a search took, where it counts them; what ended it, and whether that was the limit."""
    if method == "dense":
        plan = ln.design(queries, ln.GDP(1), method="dense", backend=backend, time_limit=limit)
        return None, plan.certificate.status, plan.ended == "deadline"
    if method == "lowrank":
        # On W itself, as printed; the method `lowrank` of the library first reduces W to its row space.
        start = random_start(r, W.shape[1], 2, np.random.default_rng(0))
        by_lrm = low_rank(W, start, norm=2, backend=backend, time_limit=limit)
        return len(by_lrm.errors), by_lrm.ended, by_lrm.ended == "time"
    gram = W.T @ W
    if method == "coa":
        by_coa = coa(gram, backend=backend, time_limit=limit)
        return by_coa.iterations, by_coa.ended, by_coa.ended == "time"
    by_esm = smoothing(gram, backend=backend, time_limit=limit)
    return by_esm.iterations, by_esm.ended, by_esm.ended == "time"


def _limit(method: str, n: int) -> float:
    if method == "coa" or (method == "lowrank" and n == _LONG):
        return _LONG_LIMIT
    return 2 * _LIMIT if n > _SMALL else _LIMIT


# Points --------------------------------------------------------------------------------------


def _task(kind: str, m: int, n: int, method: str) -> Task:
    seconds = min(seconds_of(method, m, n), _limit(method, n))
    arguments: dict[str, Plain] = {"workload": kind, "m": m, "n": n, "method": method, "draw": 1}
    return Task(timed, arguments, 40.0 if n > 4096 else seconds, n)


def _queries_tasks(setting: Setting) -> Sequence[Task]:
    n, numbers = (128, (16, 128, 1024)) if setting.is_quick else (1024, (32, 512, 8192))
    return [_task(kind, m, n, method) for kind in KINDS for m in numbers for method in METHODS]


def _is_run(kind: str, m: int, n: int) -> bool:
    """Whether a workload is run: COA takes a core four minutes at 2,048 cells, whichever workload it is.

    The claim about 8,192 cells is one about 1,024 queries.
    """
    return kind == "WRange" or n < _LONG or (n > _SMALL and m == 1024)


def _cells_tasks(m: int, setting: Setting) -> Sequence[Task]:
    sizes = (16, 64, 128) if setting.is_quick else (32, 128, 512, _LONG, 8192)
    return [
        _task(kind, m // 16 if setting.is_quick else m, n, method)
        for kind in KINDS
        for n in sizes
        if _is_run(kind, m, n)
        for method in METHODS
        # 200 steps of ESM take minutes there, and no claim is made of it.
        if n <= 2000 or method != "smoothing"
    ]


# Checks --------------------------------------------------------------------------------------


def _of_each_workload(
    checks_of: Callable[[Printed, Sequence[Row]], Iterable[Check]], known: Printed, rows: Sequence[Row]
) -> Iterator[Check]:
    for kind in KINDS:
        for check in checks_of(known, where(rows, workload=kind)):
            yield replace(check, claim=f"{kind}: {check.claim}")


def _queries_checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    for key, method in (("coa-constant", "coa"), ("lrm-grows", "lowrank")):
        seconds, steps = (curve(rows, "m", column, method=method) for column in ("seconds", "iterations"))
        if len(seconds) < 2:
            yield statement(known.says[key], None)
            continue
        first, last = min(seconds), max(seconds)
        grows = seconds[last] / seconds[first]
        each = grows * steps[first] / steps[last]
        ours = f"m = {last:,g} takes {grows:.3g} times as long as m = {first:,g}, a step {each:.3g} times"
        if method == "coa":
            is_constant = max(seconds.values()) <= SIMILAR * min(seconds.values())
            why = f"there are {listed(sorted(set(steps.values())))} steps"
            yield statement(known.says[key], is_constant, ours, why=why)
        else:
            yield statement(known.says[key], grows > 1, ours)


def _cells_checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    slower = ratios(rows, "lowrank", "coa", "n", "seconds")
    what = "LRM's time over COA's"
    # Only figure 12 has a claim of its own about large domains.
    has_large = "slower" in known.says
    small = {n: ratio for n, ratio in slower.items() if n < _SMALL or not has_large}
    yield claim_for_each(known, "faster", small, lambda ratio: ratio > 1, what=what)
    if not has_large:
        return
    large = {n: ratio for n, ratio in slower.items() if n >= _SMALL}
    yield claim_for_each(known, "slower", large, lambda ratio: ratio < 1, what=what, cause=ON_GPU_ONLY)
    steps = curve(rows, "n", "iterations", method="coa")
    yield claim_for_each(
        known,
        "ten-steps",
        steps,
        lambda count: count <= known.limits["ten-steps"],
        what="steps of COA:",
        cause=ENDS_EARLY,
    )
    rounds = {
        n: count for n, count in curve(rows, "n", "iterations", method="lowrank").items() if n in slower
    }
    yield claim_for_each(
        known,
        "many-rounds",
        rounds,
        lambda count: is_similar(count / known.limits["many-rounds"]),
        what="rounds of LRM:",
        cause=OWN_RULE,
    )


_TIME_NOTES = (
    "Times are CPU seconds on one core, from the queries to the last iterate; above 4,096 cells they are "
    "wall-clock seconds on one GPU, compared only with each other. Ours (dense) include rounding to "
    "integers and the proof. Only ratios and growth are checked.",
    f"ESM and LRM are cut off after {_LIMIT:g} s, {2 * _LIMIT:g} s on a GPU; COA, and LRM at {_LONG:,} "
    f"cells, after {_LONG_LIMIT:g} s.",
    "LRM runs on W as printed, from one random start, with r = 1.2 times the rank and γ = 0.01.",
    NOTES[2],
    NOTES[3],
    NOTES[4],
)


def _over_cells(number: int, m: int) -> Reproduction:
    return Reproduction(
        f"coa/figure-{number}",
        f"time against the number of cells n, {m:,} queries",
        partial(_cells_tasks, m),
        partial(_of_each_workload, _cells_checks),
        Drawing("n", "seconds", "method", panel="workload", log="xy", x_title="cells n", names=DRAWN_NAMES),
        (f"Figure {number} of the KDD version too; quick: {m // 16} queries, up to 128 cells.", *_TIME_NOTES),
    )


TIME: tuple[Reproduction, ...] = (
    Reproduction(
        "coa/figure-11",
        "time against the number of queries m, 1,024 cells",
        _queries_tasks,
        partial(_of_each_workload, _queries_checks),
        Drawing("m", "seconds", "method", panel="workload", log="xy", x_title="queries m", names=DRAWN_NAMES),
        ("Figure 11 of the KDD version too; quick: 128 cells, up to 1,024 queries.", *_TIME_NOTES),
    ),
    _over_cells(12, 1024),
    _over_cells(13, 2048),
)
