"""What the least absolute error gains against the least total variance, and what it takes to find it.

    OMP_NUM_THREADS=1 python benchmarks/absolute.py [--only TEXT]

Every problem is designed twice within μ = 1. "saved" is how much less total absolute error the plan for it
has than the plan for the total variance, and "variance" how much more total variance. The gap is that of the
certificate, recomputed from the workload and the integers that are measured.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

import leastnoise as ln

GOAL = ln.GDP(1)

# The expected absolute error of a normal error, per standard error.
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)

AGES = ln.Schema(age=range(100))
TOWN = ln.Schema(age=range(100), area=range(20), sex=("F", "M"))


def _random(spread: float) -> ln.Workload:
    """Normal rows over 40 cells, whose sizes differ by e^spread as a rule."""
    rng = np.random.default_rng(0)
    return ln.Workload.from_matrix(
        rng.standard_normal((60, 40)) * np.exp(spread * rng.standard_normal((60, 1)))
    )


def _many() -> ln.Workload:
    schema = ln.Schema({f"x{i}": range(2 + i % 5) for i in range(50)})
    return ln.assemble([ln.Cube(*schema.names, order=2)], schema)


PROBLEMS: dict[str, Callable[[], ln.Workload]] = {
    "running sums over 256 values": lambda: ln.assemble([ln.Prefix("x")], ln.Schema(x=range(256))),
    "all ranges over 256 values": lambda: ln.assemble([ln.AllRanges("x")], ln.Schema(x=range(256))),
    "100 ages and their running sums": lambda: ln.assemble([ln.Marginal("age"), ln.Prefix("age")], AGES),
    "100 ages and the sum of all ages": lambda: ln.assemble([ln.Marginal("age"), ln.Sum("age")], AGES),
    "both, and the sum of all ages": lambda: ln.assemble(
        [ln.Marginal("age"), ln.Prefix("age"), ln.Sum("age")], AGES
    ),
    "tables of 2,000, 40 and 2 counts, and the total": lambda: ln.assemble(
        [ln.Marginal("age", "area"), ln.Marginal("area", "sex"), ln.Marginal("sex"), ln.Total()], TOWN
    ),
    "one product, ages up to x by area": lambda: ln.assemble([ln.Prefix("age") * ln.Marginal("area")], TOWN),
    "0-, 1- and 2-way tables of 50 attributes": _many,
    "a union: running sums, tables and the sum of all ages": lambda: ln.assemble(
        [
            ln.Prefix("age") * ln.Marginal("sex"),
            ln.Prefix("age"),
            ln.Sum("age"),
            ln.Marginal("area", "sex"),
            ln.Marginal("area", "job"),
        ],
        ln.Schema(age=range(100), sex=("F", "M"), area=range(20), job=range(8)),
    ),
    "strips both ways of 32 by 32 cells": lambda: ln.assemble(
        [ln.Prefix("x") * ln.Marginal("y"), ln.Marginal("x") * ln.Prefix("y")],
        ln.Schema(x=range(32), y=range(32)),
    ),
    "60 random rows of one size": lambda: _random(0.0),
    "60 random rows, sizes apart by e²": lambda: _random(2.0),
}


def _timed(workload: ln.Workload, objective: ln.AbsoluteError | ln.TotalVariance) -> tuple[ln.Plan, float]:
    began = time.perf_counter()
    plan = ln.design(workload, GOAL, objective=objective)
    return plan, time.perf_counter() - began


def line_of(name: str, workload: ln.Workload) -> str:
    """One row of the table."""
    own, seconds = _timed(workload, ln.AbsoluteError())
    other, other_seconds = _timed(workload, ln.TotalVariance())
    proof = ln.certify(workload, own)
    assert other.stderr is not None
    assert own.stderr is not None
    least = proof.achieved
    usual = MEAN_ABSOLUTE * float(workload.weights @ other.stderr)
    more = float(workload.weights @ own.stderr**2) / other.certificate.achieved - 1
    return (
        f"| {name} | {workload.shape[0]:,} | `{own.method}` | {least:,.6g} | {proof.gap:.1e} | {usual:,.6g} "
        f"| {100 * (1 - least / usual):.2f} % | {100 * more:.2f} % | {seconds:.2f} | {other_seconds:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name holds this text")
    only = parser.parse_args().only
    print(
        "| problem | queries | method | absolute error | gap | of the least variance | saved | variance | s "
        "| variance s |\n|" + "---|" * 10
    )
    for name, make in PROBLEMS.items():
        if only in name:
            print(line_of(name, make()), flush=True)


if __name__ == "__main__":
    main()
