"""Plans over time: running sums, tables over months, and what the order of time costs.

    OMP_NUM_THREADS=1 python benchmarks/streams.py [--only sums,tables] [--days 52,365] [--seeds 10]

    sums     running sums over a number of days: the largest and the mean variance at μ = 1, beside the square
             root of their Toeplitz matrix, and plain noise on every day
    tables   24 months by 200 regions, 2 sexes and 18 ages: 172,800 cells
    random   workloads over time drawn at random: over= beside the same plan without it

Seconds are processor time of this process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import leastnoise as ln


def root_of_running_sums(days: int) -> tuple[float, float]:
    """The largest and the mean variance of running sums by the square root of their Toeplitz matrix.

    Reference:
        Henzinger, Upadhyay and Upadhyay (2023), Almost tight error bounds on differentially private continual
        counting: the coefficients r_0 = 1, r_k = (1 − 1/(2k)) r_{k−1}.
    """
    steps = np.arange(1, days)
    roots = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * steps))])
    squares = np.cumsum(roots**2)
    return float(squares[-1] ** 2), float(squares[-1] * squares.mean())


def sums(days: int) -> None:
    """Running sums over a number of days."""
    workload = ln.assemble([ln.Prefix("day")], ln.Schema(day=range(days)))
    largest_root, mean_root = root_of_running_sums(days)
    for name, objective, beside, plain in (
        ("largest", ln.MaxVariance(), largest_root, float(days)),
        ("mean", ln.TotalVariance(), mean_root, (days + 1) / 2),
    ):
        began = time.process_time()
        plan = ln.design(workload, ln.GDP(1), over="day", objective=objective, method="residuals")
        seconds = time.process_time() - began
        value = plan.certificate.achieved / (1 if name == "largest" else days)
        print(
            f"running sums, {days:>5,} days  {name:8} {value:8.4f}  gap {plan.certificate.gap:.1e}  "
            f"{seconds:6.1f} s  Toeplitz root {beside:8.4f}  plain {plain:8.1f}",
            flush=True,
        )


def tables() -> None:
    """Tables and running sums over months, by region, sex and age."""
    schema = ln.Schema(month=range(24), region=range(200), sex=("F", "M"), age=range(18))
    queries = [
        ln.Marginal("month", "region", "sex", "age"),
        ln.Prefix("month") * ln.Marginal("region"),
        ln.Prefix("month") * ln.Marginal("sex", "age"),
        ln.Windows("month", 12) * ln.Marginal("region"),
        ln.Prefix("month"),
    ]
    workload = ln.assemble(queries, schema)
    for name, objective in (("total", ln.TotalVariance()), ("largest", ln.MaxVariance())):
        began = time.process_time()
        plan = ln.design(workload, ln.GDP(1), over="month", objective=objective)
        seconds = time.process_time() - began
        print(
            f"tables, 172,800 cells    {name:8} {plan.certificate.achieved:12.6g}  "
            f"gap {plan.certificate.gap:.1e}  {seconds:6.1f} s  {plan.method}",
            flush=True,
        )


def random_workload(seed: int) -> ln.Workload:
    """Three queries along 6 to 18 months, crossed with what a coin says."""
    rng = np.random.default_rng(seed)
    months = int(rng.integers(6, 19))
    schema = ln.Schema(region=range(int(rng.integers(2, 9))), month=range(months), sex=("F", "M"))
    along = [
        ln.Prefix("month"),
        ln.Marginal("month"),
        ln.Windows("month", int(rng.integers(2, months))),
        ln.Changes("month", int(rng.integers(1, months))),
    ]
    queries = []
    for number, place in enumerate(rng.integers(len(along), size=3).tolist()):
        query: Any = along[place]
        others = [name for name in ("region", "sex") if rng.random() < 0.6]
        query = query * ln.Marginal(*others) if others else query
        queries.append(query.having(name=f"query {number}", weight=float(rng.uniform(0.5, 2))))
    return ln.assemble(queries, schema)


def at_random(seeds: int) -> None:
    """The largest difference between a plan in the order of time and one without it."""
    apart, gaps = [], []
    for seed in range(seeds):
        workload = random_workload(seed)
        plain = ln.design(workload, ln.GDP(1))
        ordered = ln.design(workload, ln.GDP(1), over="month")
        apart.append(ordered.certificate.achieved / plain.certificate.achieved - 1)
        gaps.append(ordered.certificate.gap)
    print(
        f"{seeds} workloads at random: at most {max(apart):.1e} above the plan without over=, gaps up to "
        f"{max(gaps):.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="sums,tables,random")
    parser.add_argument("--days", default="52,365,1024")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    chosen = given.only.split(",")
    for days in given.days.split(",") if "sums" in chosen else ():
        sums(int(days))
    if "tables" in chosen:
        tables()
    if "random" in chosen:
        at_random(given.seeds)


if __name__ == "__main__":
    main()
