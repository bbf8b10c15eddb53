"""Adjusting releases of sparse tables: time, proven precision, and squared errors before and after.

python benchmarks/adjust.py [--quick] [--agreeing] [--mbi ADULT.data]

Times are process time on one core, and as multiples of one product with the information matrix; the last two
columns are by entropy, the others by least squares. With --agreeing, what answers gain that are made to agree
and nothing else. With --mbi and the file adult.data of the UCI repository, both fits beside mbi's from
the same measurements: all 2- and 3-way tables of six attributes.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings

import numpy as np

import leastnoise as ln
from leastnoise.release import adjust, simulated
from leastnoise.release.adjusting.information import information_of


def sparse_counts(n: int, people: int) -> np.ndarray:
    """Heavy-tailed counts: most cells are empty, a few hold thousands."""
    rng = np.random.default_rng(0)
    share = rng.pareto(0.7, n)
    return rng.multinomial(people, share / share.sum())


def problems(quick: bool) -> dict[str, ln.Plan]:
    """Plans over one ordered attribute, over three of a hundred values (thirty in a hurry), and over five."""
    size = 30 if quick else 100
    wide = ln.Schema(a=range(size), b=range(size), c=range(size))
    line = ln.Schema(a=range(256 if quick else 1024))
    cube = [ln.Cube("a", "b", "c")]
    ordered = [ln.Prefix("a") * ln.Marginal("b", "c")]
    five = {"age": 91, "sex": 2, "status": 7, "education": 9, "region": 10}
    many = wide if quick else ln.Schema({name: range(n) for name, n in five.items()})
    pairs = [ln.Cube(*many.names, order=2)]
    return {
        "line": ln.design(ln.assemble([ln.Prefix("a"), ln.Marginal("a")], line), ln.GDP(1)),
        "cube": ln.design(ln.assemble(cube, wide), ln.GDP(1)),
        "prefix": ln.design(ln.assemble(ordered, wide), ln.GDP(1), method="product"),
        "pairs only": ln.design(ln.assemble(pairs, many), ln.GDP(1)),
    }


def bands(n: int, width: int) -> list[tuple[int, int]]:
    """The values of an attribute in groups of so many."""
    return [(low, min(low + width, n) - 1) for low in range(0, n, width)]


def agreeing() -> None:
    """Print what is gained by least squares where pairs of attributes are measured in several blocks."""
    small = ln.Schema(age=range(30), region=range(24), sex=("F", "M"))
    large = ln.Schema(age=range(90), region=range(60), sex=("F", "M"), education=range(8), status=range(6))
    coarse = {
        "ages by coarse region": (
            small,
            [
                ln.Ranges("age", bands(30, 10)) * ln.Marginal("region", "sex"),
                ln.Marginal("age", "sex") * ln.Ranges("region", bands(24, 8)),
            ],
        ),
        "the same and other tables": (
            large,
            [
                ln.Ranges("age", bands(90, 10)) * ln.Marginal("region", "sex"),
                ln.Marginal("age", "sex") * ln.Ranges("region", bands(60, 15)),
                ln.Marginal("education", "status"),
                ln.Prefix("age") * ln.Marginal("sex"),
            ],
        ),
    }
    for name, (schema, queries) in coarse.items():
        plan = ln.design(ln.assemble(queries, schema), ln.GDP(1), method="residuals")
        n = plan.workload.shape[1]
        x = sparse_counts(n, 2 * n)
        truth = plan.workload.operator.apply(x.astype(float))
        errors, seconds = np.zeros(2), 0.0
        for _ in range(20):
            release = ln.measure(plan, x)
            started = time.process_time()
            together = adjust(release, nonnegative=False)
            seconds += time.process_time() - started
            errors += [float(((r.answers - truth) ** 2).sum()) for r in (release, together)]
        print(f"{name:<28}{n:>11,} cells {seconds / 20:8.3f} s {errors[1] / errors[0]:8.1%}", flush=True)


def adult(path: str) -> tuple[np.ndarray, ln.Workload]:
    """Counts and tables of age, hours, sex, race, income and marital status of Adult, 4,800 cells."""
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]

    def codes(column: int, size: int) -> np.ndarray:
        values = sorted({row[column] for row in rows})
        return np.minimum([values.index(row[column]) for row in rows], size - 1)

    ages, hours = (np.array([int(row[column]) for row in rows]) for column in (0, 12))
    sizes = {"age": 8, "hours": 5, "sex": 2, "race": 5, "income": 2, "marital": 6}
    columns = (np.minimum((ages - 17) // 8, 7), np.minimum(hours // 20, 4), codes(9, 2), codes(8, 5))
    counts = np.zeros(tuple(sizes.values()), dtype=np.int64)
    np.add.at(counts, (*columns, codes(14, 2), codes(5, 6)), 1)
    schema = ln.Schema({name: range(size) for name, size in sizes.items()})
    return counts.reshape(-1), ln.assemble([ln.Cube(*sizes, order=(2, 3))], schema)


def beside_mbi(path: str) -> None:
    """Print squared errors of both fits and of mbi, as shares of the release's own, and seconds."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi

    counts, workload = adult(path)
    truth = workload.operator.apply(counts.astype(float))
    for epsilon in (1.0, 0.1):
        plan = ln.design(workload, ln.ApproxDP(epsilon, 1e-6))
        for release in simulated(plan, counts, n_runs=5, generator=np.random.default_rng(1)):
            found, seconds = [release.answers], []
            for fit in ("least squares", "entropy"):
                started = time.process_time()
                found.append(adjust(release, fit=fit).answers)
                seconds.append(time.process_time() - started)
            started = time.process_time()
            given = release.to_mbi()
            model = mbi.estimation.MirrorDescent().estimate(
                given.domain, given.measurements, known_total=given.total
            )
            # JAX computes when a value is asked for: the answers belong to the time.
            table = model.project(plan.workload.schema.names).datavector(flatten=True)
            found.append(workload.operator.apply(np.asarray(table, dtype=float)))
            seconds.append(time.process_time() - started)
            errors = [float(((answers - truth) ** 2).sum()) for answers in found]
            shares = "  ".join(f"{error / errors[0]:.3f}" for error in errors[1:])
            times = "  ".join(f"{spent:.2f}" for spent in seconds)
            print(
                f"epsilon {epsilon}: errors {shares}; seconds {times} (least squares, entropy, mbi)",
                flush=True,
            )


def main() -> None:
    """Print one line for each problem."""
    warnings.simplefilter("ignore")
    if "--agreeing" in sys.argv:
        agreeing()
        return
    if "--mbi" in sys.argv:
        beside_mbi(sys.argv[sys.argv.index("--mbi") + 1])
        return
    heads = (
        "problem",
        "cells",
        "people",
        "seconds",
        "products",
        "precision",
        "whole",
        "error",
        "rounded",
        "seconds",
        "entropy",
    )
    print(f"{heads[0]:<12}" + "".join(f"{head:>11}" for head in heads[1:]))
    for name, plan in problems("--quick" in sys.argv).items():
        n = plan.workload.shape[1]
        for people in (2 * n, n // 20):
            x = sparse_counts(n, people)
            release = ln.measure(plan, x)
            information = information_of(plan)
            started = time.process_time()
            information.times(x.astype(float))
            product = max(time.process_time() - started, 1e-6)
            started = time.process_time()
            real = adjust(release, fit="least squares")
            seconds = time.process_time() - started
            started = time.process_time()
            whole = adjust(release, integer=True, fit="least squares")
            both = time.process_time() - started
            started = time.process_time()
            drawn = adjust(release)
            drawing = time.process_time() - started
            truth = plan.workload.operator.apply(x.astype(float))
            errors = [float(((r.answers - truth) ** 2).sum()) for r in (release, real, whole, drawn)]
            print(
                f"{name:<12}{n:>11,}{people:>11,}{seconds:>11.2f}{seconds / product:>11.0f}"
                f"{real.adjusted.precision:>11.2g}{both:>11.2f}{errors[1] / errors[0]:>11.1%}"
                f"{errors[2] / errors[0]:>11.1%}{drawing:>11.2f}{errors[3] / errors[0]:>11.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
