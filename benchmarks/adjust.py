"""Adjusting releases of sparse tables: time, proven precision, and squared errors before and after.

python benchmarks/adjust.py [--quick] [--agreeing]

Times are process time on one core, and as multiples of one product with the information matrix. With
--agreeing, what answers gain that are made to agree and nothing else.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import leastnoise as ln
from leastnoise.release import adjust
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


def main() -> None:
    """Print one line for each problem."""
    warnings.simplefilter("ignore")
    if "--agreeing" in sys.argv:
        agreeing()
        return
    heads = ("problem", "cells", "people", "seconds", "products", "precision", "whole", "error", "rounded")
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
            real = adjust(release)
            seconds = time.process_time() - started
            started = time.process_time()
            whole = adjust(release, integer=True)
            both = time.process_time() - started
            truth = plan.workload.operator.apply(x.astype(float))
            errors = [float(((r.answers - truth) ** 2).sum()) for r in (release, real, whole)]
            print(
                f"{name:<12}{n:>11,}{people:>11,}{seconds:>11.2f}{seconds / product:>11.0f}"
                f"{real.adjusted.precision:>11.2g}{both:>11.2f}{errors[1] / errors[0]:>11.1%}"
                f"{errors[2] / errors[0]:>11.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
