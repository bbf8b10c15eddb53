"""Figure 3: errors of the adaptive mechanism and its competitors on ranges and marginals, 2,048 cells.

The figure's axes are not in the text. Its parts are read as: a and c, workload errors of ranges and of
marginals; b and d, their relative errors over ε on two tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from leastnoise.papers.reproductions.adaptive.adaptive_tasks import (
    EIGEN,
    EPSILON,
    OURS,
    RELATIVE,
    error_of,
    n_cells,
    paper_workload,
    planned,
    true_answers,
    variances,
)
from leastnoise.papers.reproductions.adaptive.adult_and_census import COARSE, TABLES, counts_of
from leastnoise.papers.reproductions.adaptive.checks import (
    AS_MUCH_AS,
    DATA,
    NOT_DATA,
    SHAPE,
    ErrorRatios,
    band,
    certified,
    near_bound,
    never_beaten,
    ratios,
    spread_of,
)
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import IS_CUT, Row, numbers, where
from leastnoise.papers.reproductions.verdicts import Check, number, statement_about

FOR_RANGES = ("Wavelet", "Hierarchical")
FOR_MARGINALS = ("Fourier", "DataCube")
_RANGES = ("all ranges", "random ranges")
_MARGINALS = ("2-way marginals", "random marginals")

EPSILONS = (0.1, 0.5, 1.0)

# Xiao et al. (2010) divide by no less than a thousandth of the people.
SANITY = 1e-3

_SEED = 1


def relative_of(
    setting: Setting, *, table: str, shape: str, workload: str, method: str, seed: int
) -> Iterator[Row]:
    """The mean over all queries of E|noise| / max(answer, a thousandth of the people), one row for each ε.

    Gaussian noise of standard deviation s has E|noise| = s √(2/π), and s is in proportion to 1/ε.
    Eigen-Design and leastnoise minimise variances relative to a uniform table.
    """
    counts, source = counts_of(table, shape, setting.data)
    question = paper_workload(workload, shape, seed, is_relative=True)
    objective = RELATIVE if method in (EIGEN, OURS) and question.order is None else None
    plan = planned(setting, question.workload, method, objective=objective)
    noise = np.sqrt(variances(plan, question, shape) * 2 / math.pi)
    answers = np.maximum(np.abs(true_answers(question, counts)), SANITY * float(counts.sum()))
    mean = float(np.mean(noise / answers))
    for epsilon in EPSILONS:
        yield {
            "panel": f"{table}, {workload}",
            "epsilon": epsilon,
            "relative_error": mean * EPSILON / epsilon,
            "gap": plan.certificate.gap,
            "data": source,
            IS_CUT: plan.ended == "deadline",
        }


# Points --------------------------------------------------------------------------------------


def _shapes(kind: str, setting: Setting) -> tuple[str, ...]:
    if kind == "ranges":
        return ("256", "16x16", "4x8x8") if setting.is_quick else ("2048", "64x32", "8x16x16", "8x8x8x4")
    return (
        ("4x8x8", "4x4x4x4", "2x2x2x2x2x2x2x2")
        if setting.is_quick
        else ("8x16x16", "8x8x16x2", "8x8x8x4", "2x2x2x2x2x2x2x2x2x2x2")
    )


def _estimate(shape: str, method: str) -> float:
    """Seconds on one core, from 0.5 at 256 cells and 20 at 2,048; crossed trees have many rows."""
    n = n_cells(shape)
    crossed = 1.5 ** shape.count("x") if method == "Hierarchical" else 1.0
    return 0.3 + 20 * (n / 2048) ** 2 * crossed


def _error_tasks(kind: str, setting: Setting) -> list[Task]:
    workloads, competitors = (_RANGES, FOR_RANGES) if kind == "ranges" else (_MARGINALS, FOR_MARGINALS)
    return [
        Task(
            error_of,
            {"workload": workload, "shape": shape, "method": method, "seed": seed},
            seconds=_estimate(shape, method),
            n_cells=n_cells(shape),
        )
        for shape in _shapes(kind, setting)
        for workload in workloads
        for seed in (range(1, 4) if workload == "random marginals" else (_SEED,))
        for method in (EIGEN, *competitors, OURS)
    ]


def _relative_tasks(kind: str, setting: Setting) -> list[Task]:
    workloads, competitors = (_RANGES, FOR_RANGES) if kind == "ranges" else (_MARGINALS, FOR_MARGINALS)
    tables = COARSE if setting.is_quick else TABLES
    return [
        Task(
            relative_of,
            {"table": table, "shape": shape, "workload": workload, "method": method, "seed": _SEED},
            seconds=2 * _estimate(shape, method),
            n_cells=n_cells(shape),
        )
        for table, shape in tables.items()
        for workload in workloads
        for method in (EIGEN, *competitors, OURS)
    ]


# Checks --------------------------------------------------------------------------------------

_FIELDS = ("workload", "shape", "seed")


def _workload_checks(kind: str, known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    """What section 5.1 and the introduction say of workload errors."""
    found = ratios(rows, _FIELDS)
    if kind == "ranges":
        yield band(found, known, SHAPE)
        yield near_bound(found, known)
    else:
        yield statement_about(
            [1 / ratio.bound for ratio in found if ratio.bound],
            known.says["bound"],
            lambda over: max(over) <= 1.00005,
            lambda over: f"at most {max(over):.6f} times the bound",
        )
        yield band(found, known, NOT_DATA)
    for competitor in FOR_RANGES if kind == "ranges" else FOR_MARGINALS:
        gains = [ratio.competitors[competitor] for ratio in found if competitor in ratio.competitors]
        yield number(
            f"{known.says['as much as']} ({competitor})",
            known.number(gain=f"over {competitor}"),
            max(gains, default=None),
            why="" if kind == "ranges" else _fourier_is_datacube(found),
            cause=AS_MUCH_AS,
        )
    yield certified(found)


def _fourier_is_datacube(found: Sequence[ErrorRatios]) -> str:
    """Both have the total variance (marginals) x (rank) where DataCube measures every marginal asked for."""
    pairs = [
        ratio.competitors["Fourier"] / ratio.competitors["DataCube"]
        for ratio in found
        if set(FOR_MARGINALS) <= set(ratio.competitors)
    ]
    equal = sum(math.isclose(pair, 1, rel_tol=1e-5) for pair in pairs)
    return (
        f"Fourier and DataCube have the same error on {equal} of {len(pairs)} workloads, in total variance "
        "the number of marginals times their rank, because both measure all marginals and combine them by "
        "least squares"
    )


def _relative_checks(kind: str, known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    """What section 5.1 says of relative errors."""
    # The factors are the same at every ε.
    found = ratios(where(rows, epsilon=EPSILON), ("table", "workload", "shape"), "relative_error")
    yield band(found, known, DATA if kind == "ranges" else NOT_DATA)
    yield never_beaten(found, known.says["less"])
    ours = [ratio.ours for ratio in found if ratio.ours is not None]
    yield statement_about(
        numbers(rows, "gap", method=OURS),
        "leastnoise proves its optimum for the scaled workload, which minimises no relative error itself",
        lambda gaps: max(gaps) <= 1e-4,
        lambda gaps: f"{spread_of(ours)} of the eigen strategy's relative error",
        printed="–",
    )


_SHAPES = (
    "The shapes of the 2,048 cells are not in the text: 2048, 64x32, 8x16x16 and 8x8x8x4 for ranges; "
    "8x16x16, 8x8x16x2, 8x8x8x4 and eleven binary attributes for marginals.",
)
_DRAWS = {
    "ranges": "As many random ranges as cells, in two steps: how many attributes and which, then a range of "
    "each.",
    "marginals": "Random marginals: as many different ones as attributes, of 1 to all but one attribute; "
    "three draws.",
}
_TABLE_NOTES = (
    "US Census is a synthetic substitute: 15 million people spread unevenly from a fixed seed; Adult is "
    "adult.data where available, as counts not weighted by fnlwgt.",
    "A relative error is E|noise| / max(answer, 0.1 % of the people), the mean over all queries.",
    "Eigen-Design and leastnoise minimise the variances of rows scaled to length 1 (section 3.4).",
    "Noise is proportional to 1/ε for every method, so the ratios are the same at every ε.",
)

_ERRORS = Drawing(
    "case",
    "error",
    "method",
    panel="workload",
    x_title="shape of the domain",
    y_title="root mean square error",
    names={"leastnoise": "ours"},
)
_RELATIVE = Drawing(
    "epsilon", "relative_error", "method", panel="panel", log="xy", names={"leastnoise": "ours"}
)

_PARTS = (
    ("a", "workload error on all ranges and on random ranges, 2,048 cells", "ranges", False),
    ("b", "relative error on ranges of two tables, against epsilon", "ranges", True),
    ("c", "workload error on two-way and random marginals, 2,048 cells", "marginals", False),
    ("d", "relative error on marginals of two tables, against epsilon", "marginals", True),
)

FIGURE_3 = tuple(
    Reproduction(
        f"adaptive/figure-3{part}",
        title,
        partial(_relative_tasks if is_relative else _error_tasks, kind),
        partial(_relative_checks if is_relative else _workload_checks, kind),
        _RELATIVE if is_relative else _ERRORS,
        (*(_TABLE_NOTES if is_relative else _SHAPES), _DRAWS[kind]),
    )
    for part, title, kind, is_relative in _PARTS
)
