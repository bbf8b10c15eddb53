"""Covariances of numerators with their denominators: in pieces, against one table of all pairs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.query import Workload
from leastnoise.release import matched_covariances as pieces
from leastnoise.release.ratio_answers import source_of
from leastnoise.strategy import Measured

SCHEMA = ln.Schema(v=range(5), a=range(6), b=tuple("abcd"))
QUERIES = [
    ln.Mean("v", by=("b", "a"), guess=1, name="mean"),
    ln.Share(ln.Marginal("a", "b"), of=ln.Marginal("a"), name="share"),
    ln.Mean("v", by="b", among=ln.Prefix("a"), guess=1, name="prefix"),
    ln.Ratio(ln.Where("v >= 2") * ln.Marginal("b", "a"), ln.Marginal("b"), name="ratio"),
]


# Designs that take seconds.
SLOW = ("joint", "residuals")


@cache
def plan_of(method: str) -> ln.Plan:
    return ln.design(ln.assemble(QUERIES, SCHEMA), ln.GDP(1), method=method)


@pytest.mark.parametrize("entries", [1, 8, 50])
@pytest.mark.parametrize(
    "method", ["identity", "queries", *(pytest.param(name, marks=pytest.mark.thorough) for name in SLOW)]
)
def test_pieces_give_what_one_table_gives(method: str, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(method)
    strategy = plan.fixed_strategy()
    sizes: list[int] = []
    own = type(strategy).covariances_of

    def noting(self: Measured, left: Workload, right: Workload) -> np.ndarray:
        sizes.append(left.shape[0])
        return own(self, left, right)

    for ratio in plan.workload.ratios:
        source = source_of(plan, ratio)
        asked = strategy, source.numerator, source.denominator, ratio.parts.rows
        table = strategy.covariances_of(source.numerator, source.denominator)
        whole = np.array([table[i, row] for i, row in enumerate(ratio.parts.rows)])
        scale = np.sqrt(plan.fixed_strategy().variances_of(source.numerator).max()) + 1
        with monkeypatch.context() as patch:
            patch.setattr(pieces, "_MAX_TABLE", 0)
            patch.setattr(pieces, "_ENTRIES", entries)
            patch.setattr(type(strategy), "covariances_of", noting)
            sizes.clear()
            found = pieces.matched_covariances(*asked)
        assert np.abs(found - whole).max() <= 1e-9 * scale**2
        # Cut into pieces, in truth: no table holds all pairs.
        assert len(sizes) > 1 or source.numerator.shape[0] * source.denominator.shape[0] <= entries


def test_rows_that_are_no_product_have_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = ln.Cube("a", "b", order=1, name="cube")
    workload = ln.assemble([ln.Ratio(cube, cube, name="ratio")], SCHEMA)
    plan = ln.design(workload, ln.GDP(1), method="identity")
    source = source_of(plan, workload.ratios[0])
    monkeypatch.setattr(pieces, "_MAX_TABLE", 0)
    strategy = plan.fixed_strategy()
    found = pieces.matched_covariances(strategy, source.numerator, source.denominator, source.parts.rows)
    assert np.allclose(found, strategy.variances_of(source.numerator))
