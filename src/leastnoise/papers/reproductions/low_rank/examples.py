"""The two examples in the introduction of the low-rank paper: three counts of patients, at ε = 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Plain, Row, cell
from leastnoise.papers.reproductions.verdicts import Check, number, statement, statement_about
from leastnoise.planning import Plan, design
from leastnoise.privacy import GDP, PureDP
from leastnoise.query import Workload

_QUERIES = ("q1", "q2", "q3")
_ON_QUERIES = "noise on queries"
_ON_DATA = "noise on data"
_STRATEGY = "printed strategy"
_SUMS = "three sums"
_CLOSER = "LRM, closer"
_OURS = "leastnoise"

# The states in the order NY, NJ, CA, WA.
EXAMPLES: dict[str, tuple[tuple[int, ...], ...]] = {
    "first": ((1, 1, 1, 1), (1, 1, 0, 0), (0, 0, 1, 1)),
    "second": ((0, 2, 1, 1), (0, 1, 0, 2), (1, 0, 2, 2)),
}

_THIRD = Fraction(1, 3)
_EIGHTH = Fraction(1, 8)

# Rows to measure: those that the paper names, and for the second example three that do better.
ROWS: dict[tuple[str, str], tuple[tuple[Fraction | int, ...], ...]] = {
    ("first", _STRATEGY): ((1, 1, 0, 0), (0, 0, 1, 1)),
    ("second", _STRATEGY): ((0, 1, 0, 0), (0, 0, 0, 1), (_THIRD, 0, 1, 0), (2 * _THIRD, 0, 0, 0)),
    ("second", _SUMS): ((_EIGHTH, 0, 0, 1), (3 * _EIGHTH, 0, 1, 0), (-2 * _EIGHTH, 1, 0, 0)),
}

# How near to a whole number a planned variance must come: plans are rounded to integers.
_NEAR = 1e-4

# γ and starts for a second, closer run of LRM.
_CLOSE_OPTIONS: dict[str, Plain] = {"gamma": 1e-6, "restarts": 5}


def example(setting: Setting, *, example: str, method: str) -> Iterator[Row]:
    """The variance of every query and of all together, and the sensitivity where rows are as in the paper."""
    W = np.array(EXAMPLES[example])
    bound, sensitivity = 0.0, None
    if (example, method) in ROWS:
        variances, sensitivity = measured_rows(W, ROWS[example, method])
    else:
        plan = _plan(Workload.from_matrix(W), method, setting)
        variances = np.square(plan.known_stderr())
        bound = plan.certificate.lower_bound
        if method in (_ON_QUERIES, _ON_DATA):
            # A plan multiplies what it measures by a whole number.
            strategy = plan.fixed_strategy()
            unit = float(np.abs(strategy.dense()).max()) / (W.max() if method == _ON_QUERIES else 1)
            sensitivity = float(strategy.sensitivity) / unit
            if method == _ON_QUERIES:
                # As printed, answers are the noisy queries themselves; here least squares would follow.
                variances = np.full(len(W), float(strategy.noise_variance) / unit**2)
    for query, variance in zip(_QUERIES, variances, strict=True):
        yield {"query": query, "value": float(variance)}
    yield {"query": "all", "value": float(variances.sum()), "lower_bound": bound}
    if sensitivity is not None:
        yield {"query": "sensitivity", "value": sensitivity}


def bound(setting: Setting, *, example: str) -> Iterator[Row]:
    """One row: twice the certified optimum of Gaussian noise, below all Laplace noise."""
    found = design(Workload.from_matrix(np.array(EXAMPLES[example])), GDP(1), method="dense").certificate
    yield {"method": "bound", "query": "all", "value": 2 * found.lower_bound}


def _plan(workload: Workload, method: str, setting: Setting) -> Plan:
    names = {_ON_QUERIES: "workload", _ON_DATA: "identity", _OURS: "auto"}
    options = _CLOSE_OPTIONS if method == _CLOSER else {}
    return design(
        workload,
        PureDP(1.0),
        method=names.get(method, "lowrank"),
        options=options,
        time_limit=setting.search_seconds,
    )


def measured_rows(W: Array, rows: Sequence[Sequence[Fraction | int]]) -> tuple[Array, float]:
    """The variances of W from Laplace noise on rows at ε = 1, by Lemma 1, and the rows' sensitivity."""
    A = np.array([[float(value) for value in row] for row in rows])
    sensitivity = float(np.abs(A).sum(axis=0).max())
    B = np.linalg.lstsq(A.T, W.T.astype(float), rcond=None)[0].T
    if not np.allclose(B @ A, W):
        raise InputError("the rows do not answer these queries", field="rows")
    return 2 * sensitivity**2 * np.square(B).sum(axis=1), sensitivity


def example_1(setting: Setting) -> Sequence[Task]:
    """Three queries of which the first is the sum of the others."""
    methods = (_ON_QUERIES, _ON_DATA, _STRATEGY, "LRM", _OURS)
    return [
        *(Task(example, {"example": "first", "method": method}, 0.5) for method in methods),
        Task(bound, {"example": "first"}),
    ]


def example_2(setting: Setting) -> Sequence[Task]:
    """Three queries without a pattern."""
    methods = (_ON_QUERIES, _ON_DATA, _STRATEGY, _SUMS, "LRM", _CLOSER, _OURS)
    return [
        *(Task(example, {"example": "second", "method": method}, 1.0) for method in methods),
        Task(bound, {"example": "second"}),
    ]


def _numbers(known: Printed, rows: Sequence[Row]) -> list[Check]:
    """Every printed number beside ours."""
    return [
        number(
            ", ".join(str(value) for value in (entry.about["method"], entry.about["query"])),
            entry.value,
            cell(rows, "value", **entry.about),
        )
        for entry in known.numbers
    ]


def _checks_1(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield from _numbers(known, rows)
    found = {
        method: [cell(rows, "value", method=method, query=query) for query in _QUERIES]
        for method in (_ON_QUERIES, _ON_DATA, "LRM")
    }
    values = {method: [value for value in of_one if value is not None] for method, of_one in found.items()}
    yield statement_about(
        values if all(len(of_one) == len(_QUERIES) for of_one in values.values()) else {},
        "LRM's answer has less variance than both simple ways, for every query",
        lambda values: all(
            lrm < min(simple) for lrm, *simple in zip(*reversed(values.values()), strict=True)
        ),
        lambda values: "; ".join(
            f"{method} " + ", ".join(f"{value:.4g}" for value in of_one) for method, of_one in values.items()
        ),
        printed=known.says["better"],
    )
    for method in ("LRM", _OURS):
        for query in _QUERIES:
            yield number(
                f"{method}, {query}, beside the printed strategy",
                known.number(query=query, method=_STRATEGY),
                cell(rows, "value", method=method, query=query),
                is_lower_better=True,
                why=_weak(rows),
            )


def _weak(rows: Sequence[Row]) -> str:
    least = cell(rows, "value", method="bound", query="all")
    return "" if least is None else f"no Laplace noise has less than {least:.4g} in all, a weak bound"


def _checks_2(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield from _numbers(known, rows)
    optimum = known.number(query="all", method=_STRATEGY)
    totals = {
        method: cell(rows, "value", method=method, query="all")
        for method in ("LRM", _CLOSER, _SUMS, _OURS, _ON_QUERIES, _ON_DATA)
    }
    searched = {
        "LRM": 'the paper\'s own algorithm gets below its "optimal" strategy',
        _CLOSER: "the same with gamma 1e-6 and the best of five starts",
        _SUMS: "WA + NY/8, CA + 3NY/8 and NJ − NY/4, sensitivity 1",
        _OURS: "design() under the same privacy",
    }
    for method, why in searched.items():
        yield number(
            f"{method}, all, beside the optimal strategy",
            f"{optimum}.0",
            totals[method],
            is_lower_better=True,
            why=f"{why}; {_weak(rows)}",
        )
    yield statement_about(
        [total for method in searched if (total := totals[method]) is not None],
        f"no strategy has less than {optimum} in all",
        lambda found: min(found) >= float(optimum) * (1 - _NEAR),
        lambda found: f"{min(found):.4f} is reached",
        printed=known.says["optimal"],
        is_better=lambda found: min(found) < float(optimum) * (1 - _NEAR),
        why="the strategy called optimal is not: three sums of sensitivity 1 cost 12 + 10 + 16",
    )
    poor, data = totals[_ON_QUERIES], totals[_ON_DATA]
    yield statement(
        "noise on queries costs more than noise on data",
        None if poor is None or data is None else poor > data,
        "–" if poor is None or data is None else f"{poor:.4g} and {data:.4g}",
        printed=known.says["poor"],
    )


_DRAWING = Drawing("query", "value", "method", x_title="query", y_title="variance, or sensitivity")

EXAMPLES_1_2 = (
    Reproduction(
        "low-rank/example-1",
        "three counts of patients, one the sum of the others",
        example_1,
        _checks_1,
        _DRAWING,
        ("Noise on queries as printed, without the least squares that would follow here and give 16/3.",),
    ),
    Reproduction(
        "low-rank/example-2",
        "three weighted counts of patients without a pattern",
        example_2,
        _checks_2,
        _DRAWING,
        (
            "The strategy that the paper calls optimal, and a better one, are worked out by Lemma 1.",
            "The bound is that of Gaussian noise, doubled; for Laplace noise it is weak, and whether less "
            "than 38 is possible is an open question.",
        ),
    ),
)
