"""COA, Lemma 4 and the semidefinite programs (18) and (19), beside the certified optimum."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

import leastnoise as ln
from leastnoise.papers.coa import coa
from leastnoise.papers.reproductions.coa.setup import ENDS_EARLY, KINDS, NOTES, SIMILAR, drawn, spread
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, number_in, numbers, where
from leastnoise.papers.reproductions.verdicts import Cause, Check, statement_about
from leastnoise.papers.sdp import sdp
from leastnoise.query import Workload, workload_all_ranges, workload_prefix

SHRINKS = Cause(
    "the proof bounds the minimum; F has no upper bound among feasible X, as X may shrink to zero",
    tested="F at I/6, which is feasible, is 6 times the bound",
)
UNBOUNDED = Cause(
    "without a limit on X program (19) has infimum 0",
    tested="solved as printed, its value is 0; with diag X ≤ 1 it is the Gaussian optimum",
)

# Interior points stop at about this share of the value.
_SOLVER = 1e-4

_ALL = ("prefix", "all ranges", *KINDS)


def _queries(kind: str, n: int) -> Workload:
    if kind == "prefix":
        return workload_prefix(n)
    if kind == "all ranges":
        return workload_all_ranges(n)
    return drawn(kind, 2 * n, n, 1)


# Lemma 4 -------------------------------------------------------------------------------------


def _lemma_tasks(setting: Setting) -> Sequence[Task]:
    n, seconds = (32, 0.1) if setting.is_quick else (256, 3.0)
    return [
        Task(within_bounds, {"workload": kind, "n": n, "theta": theta}, seconds, n)
        for kind in _ALL
        for theta in (1e-3, 1.0)
    ]


def within_bounds(setting: Setting, *, workload: str, n: int, theta: float) -> Iterator[Row]:
    """Both bounds, and F at COA's last iterate, at the certified optimum, and at a sixth of the identity.

    θ is this times the mean diagonal, as in the listing. The upper bound has ρ = 1: its proof needs an
    invertible A, so that the singular vectors are all n of them.
    """
    queries = _queries(workload, n)
    W = queries.dense().astype(float)
    gram = W.T @ W
    added = theta * float(np.mean(np.diag(gram)))
    V = gram + added * np.eye(n)
    norm = float(np.linalg.svd(W, compute_uv=False).sum())
    lower = max(2 * norm - n, norm**2 / n) + added
    upper = float(np.trace(gram)) + added * n
    # The rows √θ·I ask for the rest of V, so that the optimum of the whole is that of Program (9).
    whole = Workload.from_matrix(np.vstack([W, np.sqrt(added) * np.eye(n)]))
    certified = ln.design(whole, ln.GDP(1), method="dense", time_limit=setting.search_seconds).certificate
    by_coa = coa(gram, theta=theta, time_limit=setting.search_seconds)
    values = {
        "lower bound of the lemma": lower,
        "dense, proved bound": certified.lower_bound,
        "dense": certified.achieved,
        "coa": by_coa.objectives[-1],
        "coa, worst iterate": max(by_coa.objectives),
        "upper bound of the lemma": upper,
        "a sixth of the identity": float(np.trace(np.linalg.inv(np.eye(n) / 6) @ V)),
    }
    for method, value in values.items():
        yield {
            "method": method,
            "value": value,
            "over_lower": value / lower,
            "over_upper": value / upper,
        }


def _lemma_checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    def over(column: str, *methods: str) -> dict[float, float]:
        return dict(enumerate(value for method in methods for value in numbers(rows, column, method=method)))

    # Two sums of the same squares may differ by rounding where a bound is attained.
    room = 1 + 1e-11
    by_search = ("dense", "coa", "coa, worst iterate")
    yield statement_about(
        over("over_lower", *by_search, "a sixth of the identity"),
        known.says["lower"],
        lambda found: min(found.values()) * room >= 1,
        lambda found: f"F over the lower bound {spread(found)}",
    )
    yield statement_about(
        over("over_upper", *by_search),
        known.says["upper"],
        lambda found: max(found.values()) <= room,
        lambda found: f"F over the upper bound {spread(found)}",
    )
    yield statement_about(
        over("over_upper", "a sixth of the identity"),
        known.says["upper-any"],
        lambda found: max(found.values()) <= room,
        lambda found: f"F at I/6, which is feasible, over the upper bound {spread(found)}",
        cause=SHRINKS,
    )
    yield statement_about(
        over("over_lower", "dense, proved bound"),
        known.says["sharper"],
        lambda found: min(found.values()) >= 1 - 1e-9,
        lambda found: f"the proved bound of the dual over that of the lemma {spread(found)}",
    )


# The semidefinite programs -------------------------------------------------------------------


def _sdp_tasks(setting: Setting) -> Sequence[Task]:
    sizes = {4: 0.2, 8: 0.3, 16: 1.5} if setting.is_quick else {4: 0.2, 8: 0.3, 16: 1.5, 24: 6.0, 32: 25.0}
    return [
        Task(programs, {"workload": kind, "n": n}, seconds, n)
        for kind in _ALL
        for n, seconds in sizes.items()
    ]


def programs(setting: Setting, *, workload: str, n: int) -> Iterator[Row]:
    """(18) and (19) by a solver, COA as printed, and the certified optimum with its bound."""
    queries = _queries(workload, n)
    values: dict[str, tuple[float, float, float]] = {}
    for method in ("dense", "coa", "sdp"):
        began = time.process_time()
        found = ln.design(queries, ln.GDP(1), method=method, time_limit=setting.search_seconds).certificate
        values[method] = found.achieved, found.lower_bound, time.process_time() - began
    W = queries.dense().astype(float)
    _, d, Vt = np.linalg.svd(W, full_matrices=False)
    rank = int(np.linalg.matrix_rank(W))
    R = d[:rank, None] * Vt[:rank]
    if n <= 16:
        # The L1 programs have twice the constraints; what they show does not depend on the size.
        for method, is_bounded in (("(19), diag X at most 1", True), ("(19) as printed", False)):
            began = time.process_time()
            result = sdp(R, l1=True, is_bounded=is_bounded, time_limit=setting.search_seconds)
            values[method] = result.value, float("nan"), time.process_time() - began
    bound = values["dense"][1]
    for method, (value, lower, seconds) in values.items():
        yield {
            "method": method,
            "value": value,
            "lower_bound": None if np.isnan(lower) else lower,
            "over_bound": value / bound,
            "seconds": seconds,
        }


def _sdp_checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    def is_exact(found: list[float]) -> bool:
        return all(abs(value - 1) <= _SOLVER for value in found)

    yield statement_about(
        numbers(rows, "over_bound", method="sdp"),
        known.says["exact"],
        is_exact,
        lambda found: f"(18) over the proved bound {_close(found)}",
    )
    yield statement_about(
        numbers(rows, "over_bound", method="coa"),
        known.says["coa"],
        lambda found: max(found) - 1 <= _SOLVER,
        lambda found: f"COA over the proved bound {_close(found)}",
        cause=ENDS_EARLY,
    )
    yield statement_about(
        numbers(rows, "over_bound", method="(19) as printed"),
        known.says["relaxation"],
        lambda found: min(found) >= _SOLVER,
        lambda found: f"(19) as printed over the Gaussian optimum {_close(found)}",
        cause=UNBOUNDED,
    )
    yield statement_about(
        numbers(rows, "over_bound", method="(19), diag X at most 1"),
        known.says["corrected"],
        is_exact,
        lambda found: f"(19) with diag X ≤ 1 over the Gaussian optimum {_close(found)}",
    )
    yield statement_about(
        _times_over(rows),
        known.says["slow"],
        lambda found: min(found.values()) > SIMILAR,
        lambda found: f"time of (18) over COA's, from 16 cells on: {spread(found)}",
    )


def _times_over(rows: Sequence[Row]) -> dict[float, float]:
    found: dict[float, float] = {}
    for row in where(rows, method="sdp"):
        here = where(rows, method="coa", workload=row.get("workload"), n=row.get("n"))
        by_coa = number_in(here[0], "seconds") if here else None
        seconds, n = number_in(row, "seconds"), number_in(row, "n")
        if n is not None and n >= 16 and seconds is not None and by_coa:
            found[float(len(found))] = seconds / by_coa
    return found


def _close(found: Sequence[float]) -> str:
    return f"{min(found):.6f} to {max(found):.6f}"


THEORY: tuple[Reproduction, ...] = (
    Reproduction(
        "coa/lemma-4",
        "both bounds on the objective of Program (9)",
        _lemma_tasks,
        _lemma_checks,
        Drawing("workload", "over_lower", "method", panel="theta", log="y", y_title="over the lower bound"),
        (
            "θ is 0.001 and 1 times the mean diagonal of WᵀW, as in the listing; profile 1, no noise scale.",
            "ρ = 1: A is to be invertible, so S must hold all n singular vectors.",
            "In the KDD version the lemma has the same number.",
            NOTES[3],
        ),
    ),
    Reproduction(
        "coa/sdp",
        "the semidefinite programs (18) and (19) beside the certified optimum",
        _sdp_tasks,
        _sdp_checks,
        Drawing("n", "over_bound", "method", panel="workload", y_title="over the proved bound"),
        (
            "Full version only. Solved by Clarabel through CVXPY, with W and Wᵀ exchanged, as the Schur "
            "complement needs; it handles at most 48 cells. (19) is solved up to 16 cells.",
            "Total variance at profile 1, no noise scale.",
        ),
    ),
)
