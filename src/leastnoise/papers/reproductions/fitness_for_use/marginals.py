"""Figures 2 and 3 of the fitness-for-use paper: marginals of binary attributes with rising targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
from leastnoise.papers.reproductions.printed import printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, cell
from leastnoise.papers.reproductions.verdicts import Check, statement
from leastnoise.query import Marginal, Schema, Workload, assemble

# The figures' own range is not in the text. Up to so many attributes every mechanism is run, and beyond them
# those that need no matrix.
_QUICK, _FULL, _BEYOND = (2, 3, 4, 5, 6, 7), (2, 3, 4, 5, 6, 7, 8, 9, 10), (12, 14, 16, 20)

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
    rows = [best]
    if d in _BEYOND:
        rows += on_both_scales({LEAST_TOTAL: least_total("marginals", asked, setting)}, least)
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
        rows += [*on_both_scales(costs, least, float(searched["cost"] or math.nan)), searched]
    for row in rows:
        yield {"workload": workload, "d": d, **row}


def _tasks(workload: str, setting: Setting) -> list[Task]:
    sizes = _QUICK if setting.is_quick else (*_FULL, *_BEYOND)
    return [Task(one_size, {"workload": workload, "d": d}, seconds=_guess(d)) for d in sizes]


def _guess(d: int) -> float:
    return 1.0 if d < 6 or d in _BEYOND else min(160.0, 5.0 ** (d - 5))


def figure_2_tasks(setting: Setting) -> Sequence[Task]:
    """One for every number of attributes."""
    return _tasks("A", setting)


def figure_3_tasks(setting: Setting) -> Sequence[Task]:
    """One for every number of attributes."""
    return _tasks("B", setting)


def _checks(name: str, rows: Sequence[Row]) -> list[Check]:
    """The two claims of section 7.6, and the proof beside SM-II."""
    says = printed(name).says
    sizes = sorted({int(row["d"] or 0) for row in rows if row.get("method") == SMII})
    sizes = [d for d in sizes if d >= _FIRST]
    worse, better = [], []
    for d in sizes:
        ratios = {method: cell(rows, "ratio", d=d, method=method) for method in (GM, HM, CA, SMII)}
        known = {method: ratio for method, ratio in ratios.items() if ratio is not None}
        if len(known) == len(ratios):
            worse.append(min(known[GM], known[HM]))
            better.append(max(known[CA], known[SMII]))
    outperforms = all(high > low for high, low in zip(worse, better, strict=True)) if worse else None
    gaps = [(d, gap) for d in sizes if (gap := cell(rows, "ratio", d=d, method=CA)) is not None]
    widens = all(low[1] < high[1] for low, high in pairwise(gaps)) if len(gaps) > 1 else None
    factors = [high / low for high, low in zip(worse, better, strict=True)]
    below = (
        "–"
        if not factors
        else f"the better of the rest is {min(factors):.2f} to {max(factors):.2f} times worse"
    )
    searched = [row for row in rows if row.get("method") == SMII]
    return [
        statement(says["outperform"], outperforms, below),
        statement(says["widens"], widens, ", ".join(f"{gap:.2f} (d = {d})" for d, gap in gaps) or "–"),
        beside_the_optimum("SM-II meets the targets at the least cost", searched),
    ]


def figure_2_checks(rows: Sequence[Row]) -> Sequence[Check]:
    """What the text says of workload A."""
    return _checks("fitness-for-use/figure-2", rows)


def figure_3_checks(rows: Sequence[Row]) -> Sequence[Check]:
    """What the text says of workload B."""
    return _checks("fitness-for-use/figure-3", rows)


_NOTES = (
    "The figures' numbers of attributes are not in the text: 2 to 10 for all mechanisms, up to 20 for those "
    "that need no matrix.",
    "HM is the tree of Qardaji's formula over all cells in one row: up to "
    "128 cells the root and the cells alone.",
    "SM-II is stopped after 8 s in the quick size and 150 s in the full one.",
)

MARGINALS = (
    Reproduction(
        "fitness-for-use/figure-2",
        "One-way marginals of binary attributes with rising targets",
        figure_2_tasks,
        figure_2_checks,
        Drawing("d", "ratio", "method", log="y", y_title="cost over the certified optimum"),
        _NOTES,
    ),
    Reproduction(
        "fitness-for-use/figure-3",
        "Two-way marginals with the first attribute, with rising targets",
        figure_3_tasks,
        figure_3_checks,
        Drawing("d", "ratio", "method", log="y", y_title="cost over the certified optimum"),
        _NOTES,
    ),
)
