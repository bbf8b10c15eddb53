"""Plans over time: running sums, tables over months, and what the order of time costs.

    OMP_NUM_THREADS=1 python benchmarks/streams.py [--only sums,tables] [--days 52,365] [--seeds 10]
    PYTHONPATH=src python benchmarks/streams.py --gpu --days 4096

    sums     running sums over a number of days: the largest and the mean variance at μ = 1, beside the square
             root of their Toeplitz matrix, and plain noise on every day
    tables   24 months by 200 regions, 2 sexes and 18 ages: 172,800 cells
    random   workloads over time drawn at random: over= beside the same plan without it
    returns  running sums over 52 weeks of people who come back in at most 4 weeks, at least 13 apart; beside
             jax-privacy's dense and BLT strategies where that package is installed

With --gpu, running sums alone are designed, by `dense` on a device; --backend torch takes processors.
Seconds are processor time of this process, with --gpu those of a clock on the wall.
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


def sums(days: int, backend: str = "numpy", method: str = "residuals") -> None:
    """Running sums over a number of days."""
    clock = time.process_time if backend == "numpy" else time.perf_counter
    workload = ln.assemble([ln.Prefix("day")], ln.Schema(day=range(days)))
    largest_root, mean_root = root_of_running_sums(days)
    for name, objective, beside, plain in (
        ("largest", ln.MaxVariance(), largest_root, float(days)),
        ("mean", ln.TotalVariance(), mean_root, (days + 1) / 2),
    ):
        began = clock()
        plan = ln.design(workload, ln.GDP(1), over="day", objective=objective, method=method, backend=backend)
        seconds = clock() - began
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


def most_of_returning(C: np.ndarray, most: int, apart: int) -> float:
    """The largest squared norm of a sum of at most so many columns that are so far apart, by trying all."""
    X = C.T @ C
    best, stack = 0.0, [((), 0.0)]
    while stack:
        chosen, total = stack.pop()
        best = max(best, total)
        if len(chosen) < most:
            for t in range(chosen[-1] + apart if chosen else 0, len(X)):
                more = X[t, t] + 2 * sum(X[s, t] for s in chosen)
                stack.append(((*chosen, t), total + more))
    return float(best)


def returns(weeks: int, most: int, apart: int) -> None:
    """Running sums where people come back: plans for one record each at their proved price, and others."""
    sums = np.tri(weeks)

    def tell(name: str, C: np.ndarray, shift: float, seconds: float) -> None:
        variances = ((sums @ np.linalg.pinv(C)) ** 2).sum(axis=1) * shift
        print(
            f"{weeks} weeks, {most} times, {apart} apart  {name:34} largest {variances.max():8.4f}  "
            f"mean {variances.mean():8.4f}  {seconds:6.1f} s",
            flush=True,
        )

    workload = ln.assemble([ln.Prefix("week")], ln.Schema(week=range(weeks)))
    for name, objective in (("largest", ln.MaxVariance()), ("mean", ln.TotalVariance())):
        began = time.process_time()
        plan = ln.design(workload, ln.GDP(1), over="week", objective=objective)
        price = ln.stream_price(plan, returns=(most, apart))
        strategy = plan.fixed_strategy()
        C = strategy.dense().astype(float) / strategy.scale
        paid = float(price.per_record)
        seconds = time.process_time() - began
        assert abs(paid / most_of_returning(C, most, apart) - 1) < 1e-9
        tell(f"leastnoise, {name}, {price.factor:.3f} times μ", C, paid, seconds)
    tell("plain noise per week", np.eye(weeks), float(most), 0.0)
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        from jax_privacy.matrix_factorization import buffered_toeplitz, dense
    except ImportError:
        print("jax-privacy is not installed: type pip install jax-privacy")
        return
    for bands in (None, apart):
        began = time.process_time()
        C = np.asarray(dense.optimize(weeks, epochs=most, bands=bands), dtype=float)
        seconds = time.process_time() - began
        name = "jax-privacy dense" if bands is None else f"jax-privacy dense, {bands} bands"
        tell(name, C, most_of_returning(C, most, apart), seconds)
    began = time.process_time()
    blt = buffered_toeplitz.optimize(n=weeks, min_sep=apart, max_participations=most)
    blt = blt[0] if isinstance(blt, tuple) else blt
    C = np.asarray(blt.materialize(weeks), dtype=float)
    tell("jax-privacy BLT", C, most_of_returning(C, most, apart), time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="sums,tables,random,returns")
    parser.add_argument("--days", default="52,365,1024")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--gpu", action="store_true", help="running sums by `dense` on a device")
    parser.add_argument("--backend", choices=("torch", "cuda"), default="cuda", help="which, with --gpu")
    given = parser.parse_args()
    if given.gpu:
        for days in given.days.split(","):
            sums(int(days), given.backend, "dense")
        return
    chosen = given.only.split(",")
    for days in given.days.split(",") if "sums" in chosen else ():
        sums(int(days))
    if "tables" in chosen:
        tables()
    if "random" in chosen:
        at_random(given.seeds)
    if "returns" in chosen:
        returns(52, 4, 13)


if __name__ == "__main__":
    main()
