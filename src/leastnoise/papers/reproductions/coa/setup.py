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
from leastnoise.papers.reproductions.verdicts import Check, statement_about
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
OTHERS = ("identity", "wavelet", "hierarchical", "smoothing", "eigen")

# Searches that run on a GPU too, and from how many cells on they do where the setting has one.
ON_GPU = ("dense", "coa", "coa-homotopy", "lowrank", "smoothing")
GPU_FROM = 1024

# Seconds that one search may take here; the paper let some run for hours.
TIME_LIMIT = 100.0

NOTES = (
    "Errors are variances per query, ‖W A⁺‖_F² σ²/m with the paper's σ = √(2 ln(2/δ))/ε: what its average "
    "over 20 executions estimates. They do not depend on the data, so no data set is needed.",
    "GM is noise on data (method identity); noise on the queries stands beside it as method workload, which "
    "takes whole coefficients alone and so leaves WRelated out.",
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
    plan = ln.design(
        queries,
        ln.GDP(1),
        method=method,
        time_limit=min(setting.time_limit, TIME_LIMIT),
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
_SEARCH = {"coa-homotopy": 45.0, "smoothing": 12.0, "coa": 5.0, "dense": 1.2, "eigen": 0.9}
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
                seconds=min(seconds_of(method, m, n), TIME_LIMIT) + _PROOF.get(method, 0.06) * (n / 512) ** 3,
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
) -> Check:
    """A claim about ratios that must hold for each of them, with the range that came out."""
    fails = [x for x, value in values.items() if not holds(value)]
    return statement_about(
        values,
        known.says[key],
        lambda values: not fails,
        lambda values: f"{what} {spread(values)}" + (f", not at {listed(fails)}" if fails else ""),
        why=why,
    )


def spread(values: Mapping[Any, float]) -> str:
    """The least and the largest of some ratios."""
    low, high = min(values.values()), max(values.values())
    return f"{low:.3g}" if len(values) == 1 else f"{low:.3g} to {high:.3g}"


def is_similar(ratio: float) -> bool:
    """Within a factor of two."""
    return 1 / SIMILAR <= ratio <= SIMILAR
