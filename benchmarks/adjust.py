"""Adjusting releases of sparse tables: time, proven precision, and squared errors before and after.

python benchmarks/adjust.py [--quick]

Times are process time on one core, and as multiples of one product with the information matrix.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import leastnoise as ln
from leastnoise.adjust import adjust
from leastnoise.adjust.information import information_of


def sparse_counts(n: int, people: int) -> np.ndarray:
    """Heavy-tailed counts: most cells are empty, a few hold thousands."""
    rng = np.random.default_rng(0)
    share = rng.pareto(0.7, n)
    return rng.multinomial(people, share / share.sum())


def problems(quick: bool) -> dict[str, ln.Plan]:
    """Plans over one ordered attribute, and over three of a hundred values (thirty in a hurry)."""
    size = 30 if quick else 100
    wide = ln.Schema(a=range(size), b=range(size), c=range(size))
    line = ln.Schema(a=range(256 if quick else 1024))
    cube = [ln.Cube("a", "b", "c")]
    ordered = [ln.Prefix("a") * ln.Marginal("b", "c")]
    return {
        "line": ln.design(ln.assemble([ln.Prefix("a"), ln.Marginal("a")], line), ln.GDP(1)),
        "cube": ln.design(ln.assemble(cube, wide), ln.GDP(1)),
        "prefix": ln.design(ln.assemble(ordered, wide), ln.GDP(1), method="product"),
        "pairs only": ln.design(ln.assemble([ln.Cube("a", "b", "c", order=2)], wide), ln.GDP(1)),
    }


def main() -> None:
    """Print one line for each problem."""
    warnings.simplefilter("ignore")
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
