"""Figures 2 and 3 of the fitness-for-use paper: marginals of binary attributes with rising targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from leastnoise.papers.reproductions.fitness_for_use.mechanisms import (
    CA,
    GM,
    HM,
    LEAST_TOTAL,
    SMII,
    beside_the_optimum,
    branching,
    least_total,
    noise_on,
    on_both_scales,
    on_tree,
    optimum,
    smii,
    smii_columns,
    tree,
    with_caps,
)
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, cell, where
from leastnoise.papers.reproductions.verdicts import Check, statement, statement_about
from leastnoise.query import Marginal, Schema, Workload, assemble

# The figures' own numbers of attributes are not in the text. Of the quick size,
_QUICK = (2, 3, 4, 5, 6, 7)

# of the full size,
_FULL = (*_QUICK, 8, 9, 10)

# and those for which only mechanisms that need no matrix are run.
_BEYOND = (12, 14, 16, 20)

# From here on a workload has more than one table to weigh against another.
_FIRST = 3


def marginals(workload: str, d: int) -> Workload:
    """Workload A: one-way marginals; B: two-way ones with the first attribute. Targets 1, 2, 3, …"""
    schema = Schema({f"a{i}": range(2) for i in range(1, d + 1)})
    tables: list[tuple[str, ...]] = [(f"a{i}",) for i in range(1, d + 1)]
    if workload == "B":
        tables = [("a1", f"a{i}") for i in range(2, d + 1)]
    return assemble(
        [Marginal(*table, stderr=math.sqrt(rank)) for rank, table in enumerate(tables, start=1)], schema
    )


def one_size(setting: Setting, *, workload: str, d: int) -> Iterator[Row]:
    """A row for every mechanism."""
    asked = marginals(workload, d)
    n = asked.shape[1]
    best = optimum(asked, setting, method="marginals")
    least = float(best["cost"] or math.nan)
    yield best
    if d in _BEYOND:
        yield from on_both_scales({LEAST_TOTAL: least_total("marginals", asked, setting)}, least)
    else:
        # As the paper's methods see it: a matrix, and cells in one row.
        flat = with_caps(asked.dense().astype(np.int64), asked.targets**2)
        costs = {
            GM: noise_on("identity", flat),
            HM: on_tree(tree(n, branching(n, least_height=1)), flat),
            CA: least_total("coa", flat, setting),
            LEAST_TOTAL: least_total("marginals", asked, setting),
        }
        searched = smii_columns(smii(flat, setting, basis="cells"), least)
        yield from on_both_scales(costs, least, float(searched["cost"] or math.nan))
        yield searched


def _tasks(workload: str, setting: Setting) -> list[Task]:
    sizes = _QUICK if setting.is_quick else (*_FULL, *_BEYOND)
    return [Task(one_size, {"workload": workload, "d": d}, seconds=_estimate(d)) for d in sizes]


def _estimate(d: int) -> float:
    return 1.0 if d < 6 or d in _BEYOND else min(160.0, 5.0 ** (d - 5))


def _checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    """The two claims of section 7.6, and the proof beside SM-II."""
    sizes = sorted({int(row["d"] or 0) for row in rows if row.get("method") == SMII})
    sizes = [d for d in sizes if d >= _FIRST]
    factors = []
    for d in sizes:
        ratios = [cell(rows, "ratio", d=d, method=method) for method in (GM, HM, CA, SMII)]
        run = [ratio for ratio in ratios if ratio is not None]
        if len(run) == len(ratios):
            factors.append(min(run[:2]) / max(run[2:]))
    yield statement_about(
        factors,
        known.says["outperform"],
        lambda factors: min(factors) > 1,
        lambda factors: f"the better of the rest is {min(factors):.2f} to {max(factors):.2f} times worse",
    )
    gaps = [(d, gap) for d in sizes if (gap := cell(rows, "ratio", d=d, method=CA)) is not None]
    yield statement(
        known.says["widens"],
        all(low[1] < high[1] for low, high in pairwise(gaps)) if len(gaps) > 1 else None,
        ", ".join(f"{gap:.2f} (d = {d})" for d, gap in gaps) or "–",
    )
    yield beside_the_optimum("SM-II meets the targets at the least cost", where(rows, method=SMII))


_NOTES = (
    "The figures' numbers of attributes are not in the text: 2 to 10 for all mechanisms, up to 20 for those "
    "that need no matrix.",
    "HM is the tree of Qardaji's formula over all cells in one row: up to "
    "128 cells the root and the cells alone.",
)

_TITLES = {
    "A": "One-way marginals of binary attributes with rising targets",
    "B": "Two-way marginals with the first attribute, with rising targets",
}

MARGINALS = tuple(
    Reproduction(
        f"fitness-for-use/figure-{number}",
        title,
        partial(_tasks, workload),
        _checks,
        Drawing(
            "d",
            "ratio",
            "method",
            log="y",
            y_title="cost over the certified optimum",
            names={"certified": "ours, certified"},
        ),
        _NOTES,
    )
    for number, (workload, title) in enumerate(_TITLES.items(), start=2)
)
