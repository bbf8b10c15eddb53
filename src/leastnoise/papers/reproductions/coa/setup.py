"""What the experiments of COA have in common: workloads, noise, one method at a time, and a few words.

Section 5 gives workloads, sizes and privacy, and draws curves without numbers. What it says of them in
words is what is checked, so the words need a meaning that does not depend on what comes out:

    similar, comparable        within a factor of two, a narrow strip on the paper's logarithmic axes
    much, significantly        by more than a factor of two
    orders of magnitude        factors of ten
    negligible                 less than one per cent
    usually, often, generally  in more than half of the settings
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Setting, Task
from leastnoise.papers.reproductions.rows import IS_CUT, Row, listed, mean, number_in, numbers, where
from leastnoise.papers.reproductions.verdicts import Cause, Check, statement_about
from leastnoise.query import Workload, workload_discrete, workload_marginal, workload_range, workload_related

# Factors that the words above stand for, and a share.
SIMILAR = 2.0
ORDER = 10.0
NEGLIGIBLE = 0.01

# Section 5: the privacy of all experiments but the last two.
EPSILON = 0.1
DELTA = 1e-4

KINDS = ("WDiscrete", "WMarginal", "WRange", "WRelated")

# Our methods by the paper's names. Its Gaussian mechanism is noise on data.
PAPER_NAMES = {
    "identity": "GM",
    "wavelet": "WM",
    "hierarchical": "HM",
    "smoothing": "ESM",
    "eigen": "AM",
    "lowrank": "LRM",
    "coa": "COA",
}
# What every picture calls them; ours beside them.
DRAWN_NAMES = {
    **PAPER_NAMES,
    "dense": "ours, certified",
    "dense, with θ": "ours, with θ",
    "coa-homotopy": "COA, homotopy",
    "coa, run on": "COA, run on",
    "workload": "noise on queries",
}
OTHERS = ("identity", "wavelet", "hierarchical", "smoothing", "eigen")

# Searches that run on a GPU too, and from how many cells on they do where the setting has one.
ON_GPU = ("dense", "coa", "coa-homotopy", "lowrank", "smoothing")
GPU_FROM = 512

# COA with θ as in section 5, but so many steps that its own rule ends it: what is left then is due to θ.
RUN_ON = "coa, run on"
_RUN_ON_STEPS = 600

# Causes --------------------------------------------------------------------------------------

ENDS_EARLY = Cause(
    "the listing stops after 30 steps and keeps θ = 1e-3 in its objective",
    tested="we also ran COA until a step gained less than 1e-5 (up to 600 steps), and the homotopy, which "
    "lowers θ to 1e-10. With 1,024 queries of WRange over 512 cells, COA is 69 % above the bound after 30 "
    "steps and 0.5 % when it runs on; the homotopy is 0.01 % above",
)
STAGES = Cause(
    "the stages of the homotopy stop after 30 steps, as COA does",
    tested="with few queries COA needs more steps: 128 to 600 for 32 queries over 512 cells (see "
    "COA, run on)",
)
IMPOSSIBLE = Cause(
    "no strategy can improve on it by that much", tested="the certified optimum of the same workload does not"
)
NEAR_OPTIMUM = Cause(
    "AM's strategy is so close to the optimum that nothing can be much better",
    tested="the optimum is certified for every workload, and AM is 1 to 32 % above it",
)
WITHOUT_ORDER = Cause(
    "normal coefficients have no order that a tree or a wavelet could exploit",
    tested="figure 9: WM has 3.34 to 3.35 and HM 6.10 to 6.11 times the error of GM for every m, so "
    "only the number of cells matters",
)
STABLE = Cause(
    "AM and ESM stay some way above the optimum",
    tried="eight numbers of cells, three draws of each up to 128",
)
GRADIENT = Cause(
    "the line search accepts a step because it lowers the objective; the gradient norm may grow",
    tested="figure 1: the objective falls at every step of all four runs; the gradient norm grows at 7 to "
    "11 of 30 steps",
)
LOST_RANK = Cause(
    "with as many queries as cells, LRM's first start loses the rank of W, and the next, with ten "
    "times the penalty, stops short of the optimum",
    tested="only at m = 512 does a start lose rank, and only there is LRM beaten; over 128 cells, ten times "
    "the penalty raises its error by 10 % on WRange and by 22 % on WDiscrete",
)
SLOW_ESM = Cause(
    "with few queries, ESM is still far from the optimum after its 200 steps",
    tested="with 1,500 steps it has 1.8 times the error of AM on 32 queries of WDiscrete over 512 cells, "
    "not 2.2",
)
OWN_RULE = Cause(
    "LRM's own stopping rule, ‖W − BL‖_F ≤ 0.01, stops it sooner",
    tested="figure 12: that rule stopped every run we checked (see the column ended)",
)
ON_GPU_ONLY = Cause(
    "COA is not slower than LRM over 8,192 cells",
    tried="one GPU; on two CPU cores, as in the paper, either method takes hours",
)

NOTES = (
    "Errors are variances per query, ‖W A⁺‖_F² σ²/m with the paper's σ = √(2 ln(2/δ))/ε: what its average "
    "over 20 executions estimates. They do not depend on the data, so no data set is needed.",
    "GM is noise on data (method identity); noise on the queries is shown beside it as method workload, "
    "which takes only integer coefficients and so leaves out WRelated.",
    "WDiscrete has 1 with probability 0.02 and −1 otherwise, WRelated a rank of half of min(m, n): the "
    "defaults of the low-rank paper, to whose settings section 5 refers.",
    "WMarginal draws from all two-way marginals of three attributes whose sizes are powers of two, as equal "
    "as the number of cells allows; the paper does not say which. WM and HM take the cells in a row.",
    "Similar or comparable means within a factor of two, much a larger factor, an order of magnitude ten, "
    "negligible less than 1 %, and usually or often more than half of the settings.",
)


def noise_scale(delta: float = DELTA) -> float:
    """σ² for sensitivity 1, by the paper's formula: 2 ln(2/δ)/ε²."""
    return 2 * math.log(2 / delta) / EPSILON**2


def three_sizes(n: int) -> tuple[int, int, int]:
    """A power of two as a product of three, as equal as they can be."""
    bits = n.bit_length() - 1
    first, second = (bits + 2) // 3, (bits + 1) // 3
    return 2**first, 2**second, 2 ** (bits - first - second)


def drawn(kind: str, m: int, n: int, draw: int, share: float = 0.5) -> Workload:
    """One of the four workloads of section 5, without the names of attributes.

    Args:
        draw: the seed.
        share: the rank of WRelated, as a share of min(m, n).
    """
    generator = np.random.default_rng(draw)
    if kind == "WDiscrete":
        return workload_discrete(m, n, generator=generator)
    if kind == "WRange":
        return workload_range(m, n, generator=generator)
    if kind == "WMarginal":
        return Workload.from_matrix(workload_marginal(m, three_sizes(n), generator=generator).dense())
    return workload_related(m, n, max(1, round(share * min(m, n))), generator=generator)


def suits_gpu(method: str, n: int) -> bool:
    """Whether a search of this size runs on a GPU where the setting has one."""
    return method in ON_GPU and n >= GPU_FROM


def backend_of(setting: Setting, method: str, n: int) -> str:
    """Where a search of this size runs."""
    return setting.backend if suits_gpu(method, n) else "numpy"


def one_method(
    setting: Setting, *, workload: str, m: int, n: int, method: str, draw: int, share: float = 0.5
) -> Iterator[Row]:
    """The error per query that one method has on one draw of a workload, and the bound that it proves."""
    queries = drawn(workload, m, n, draw, share)
    began = time.process_time()
    name, options = ("coa", {"max_iterations": _RUN_ON_STEPS}) if method == RUN_ON else (method, {})
    plan = ln.design(
        queries,
        ln.GDP(1),
        method=name,
        options=options,
        time_limit=setting.search_seconds,
        backend=backend_of(setting, method, n),
    )
    found = plan.certificate
    yield {
        "error": found.achieved * noise_scale() / m,
        "lower_bound": found.lower_bound * noise_scale() / m,
        "status": found.status,
        "how": plan.note,
        IS_CUT: plan.ended == "deadline",
        "seconds": time.process_time() - began,
    }


# Seconds on one core for 512 cells, measured, and for rounding and proof; they grow with the cube of n.
_SEARCH = {RUN_ON: 70.0, "coa-homotopy": 45.0, "smoothing": 12.0, "coa": 5.0, "dense": 1.2, "eigen": 0.9}
_PROOF = {"identity": 0.01, "workload": 0.03}


def seconds_of(method: str, m: int, n: int) -> float:
    """An estimate of the time of one search on one core, without a limit."""
    if method == "lowrank":
        # 75 s for 1,024 queries over 512 cells, 3 s for 128 over 128, 0.25 s for 1,024 over 64.
        return 75 * (min(m, n) / 512) ** 2 * ((m + n) / 1536) ** 0.25
    return max(0.02, _SEARCH.get(method, 0.05) * (n / 512) ** 3)


def tasks_of(
    kind: str, m: int, n: int, methods: Sequence[str], draws: Sequence[int], share: float = 0.5
) -> Iterator[Task]:
    """A task for each method and draw."""
    for method in methods:
        if method == "workload" and kind == "WRelated":
            continue
        for draw in draws:
            yield Task(
                one_method,
                {"workload": kind, "m": m, "n": n, "share": share, "method": method, "draw": draw},
                seconds=seconds_of(method, m, n) + _PROOF.get(method, 0.06) * (n / 512) ** 3,
                n_cells=n,
                may_use_gpu=suits_gpu(method, n),
            )


# Reading rows --------------------------------------------------------------------------------


def settings_of(rows: Sequence[Row], column: str) -> list[float]:
    """The different numbers in a column, ascending."""
    return sorted(set(numbers(rows, column)))


def ratios(
    rows: Sequence[Row], upper: str, lower: str, along: str, column: str = "error"
) -> dict[float, float]:
    """One method's number over another's, wherever both were run on the same draws."""
    found = {}
    for value in settings_of(rows, along):
        draws = [
            {row.get("draw"): number for row in here if (number := number_in(row, column)) is not None}
            for here in (where(rows, method=method, **{along: value}) for method in (upper, lower))
        ]
        shared = draws[0].keys() & draws[1].keys()
        above, below = (
            mean([number for draw, number in of_one.items() if draw in shared]) for of_one in draws
        )
        if above is not None and below:
            found[value] = above / below
    return found


# Checks --------------------------------------------------------------------------------------


def claim_for_each(
    known: Printed,
    key: str,
    values: dict[float, float],
    holds: Callable[[float], bool],
    *,
    what: str,
    why: str = "",
    cause: Cause | None = None,
) -> Check:
    """A claim about ratios that must hold for each of them, with the range that came out."""
    fails = [x for x, value in values.items() if not holds(value)]
    return statement_about(
        values,
        known.says[key],
        lambda values: not fails,
        lambda values: f"{what} {spread(values)}" + (f", not at {listed(fails)}" if fails else ""),
        why=why,
        cause=cause,
    )


def spread(values: Mapping[Any, float]) -> str:
    """The least and the largest of some ratios."""
    low, high = min(values.values()), max(values.values())
    return f"{low:.3g}" if len(values) == 1 else f"{low:.3g} to {high:.3g}"


def is_similar(ratio: float) -> bool:
    """Within a factor of two."""
    return 1 / SIMILAR <= ratio <= SIMILAR
