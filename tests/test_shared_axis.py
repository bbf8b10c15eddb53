"""Attributes measured as one axis by rows of their own in every block.

The judges are all rows written out, the pseudo-inverse of NumPy, and the dense optimum.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.deadline import NEVER
from leastnoise.planning.families import optimum, residuals
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.query import Workload, products_of
from leastnoise.strategy import BlockProposal
from tolerances import ROUNDING, SOLVER


def census(seed: int) -> Workload:
    """Some tables of age, sex, race and household, always with running sums and a hierarchy."""
    rng = np.random.default_rng(seed)
    races = ln.Hierarchy({f"g{g}": [f"r{g}{i}" for i in range(2)] for g in range(2)})
    schema = ln.Schema(age=range(6), sex=("F", "M"), race=races, household=range(4))
    M = ln.Marginal
    always = [ln.Prefix("age") * M("sex"), M("race", "household"), ln.Levels("race")]
    others = [
        ln.Total(),
        M("age"),
        M("sex") * ln.Levels("race"),
        ln.Ranges("age", [(0, 2), (3, 5)]) * M("sex", "race"),
        ln.Where("age >= 2") * M("race"),
        ln.Ranges("age", [(0, 1), (2, 5)]) * M("household"),
        ln.Prefix("household") * M("sex"),
        M("race", "sex", "household"),
    ]
    chosen = [query for query in others if rng.random() < 0.6]
    weighted = [query.having(weight=float(rng.integers(1, 5))) for query in always + chosen]
    return ln.assemble(weighted, schema)


def found_for(workload: Workload) -> tuple[float, BlockProposal]:
    products = products_of(workload)
    assert products is not None
    weights = np.array([workload.blocks[term.block].weights[0] for term in products.terms])
    found = optimum.beside_residuals(products, weights, tol=1e-6, deadline=NEVER)
    assert found is not None and "over age" in found[2]
    return found[:2]


def test_what_it_costs_is_what_all_rows_written_out_say() -> None:
    for seed in range(3):
        workload = census(seed)
        total, proposal = found_for(workload)
        strategy = proposal.measured_within(ln.GDP(1), tol=1e-6)
        A = strategy.dense().astype(float) / strategy.scale
        # One record more spends μ² = 1 at the most.
        assert max((A**2).sum(axis=0)) == pytest.approx(1, rel=1e-6) and strategy.spent <= 1
        W, w = workload.dense(), workload.weights
        variances = ((W @ np.linalg.pinv(A, rcond=1e-12)) ** 2).sum(axis=1)
        assert float(w @ variances) == pytest.approx(total, rel=1e-5)
        assert strategy.variances_of(workload) == pytest.approx(variances, rel=1e-4)
        x = np.random.default_rng(seed).integers(0, 9, size=W.shape[1])
        y = (A * strategy.scale) @ x
        assert strategy.answers_of(workload, y) == pytest.approx(W @ x, rel=ROUNDING, abs=1e-6)


def test_it_is_near_the_dense_optimum_and_never_below() -> None:
    for seed in range(4):
        workload = census(seed)
        total, _ = found_for(workload)
        certificate = ln.design(workload, ln.GDP(1), method="dense").certificate
        assert certificate.lower_bound <= total * (1 + ROUNDING)
        # A matrix over age and household for races and for groups of them would take the rest.
        assert total <= 1.02 * certificate.achieved


@pytest.mark.thorough
def test_residuals_take_it_where_it_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """On census-like tables residuals ended 2.6 % above their bound where 1.8 % can be had."""
    # Pairs of attributes of so few values would be tied, which is as good.
    monkeypatch.setattr(residuals, "tied_where_useful", lambda products, *_, **__: products)
    # As where the attributes that are asked in several ways have too many values together.
    monkeypatch.setattr(optimum, "serves", lambda request, question: False)
    quick = partial(split_products, tol=1e-3)
    monkeypatch.setattr(residuals, "split_products", quick)
    workload = census(13)
    plan = ln.design(workload, ln.GDP(1), method="residuals")
    assert "with rows of its own over age" in plan.note
    assert plan.certificate.achieved == pytest.approx(found_for(workload)[0], rel=1e-4)
    products = products_of(workload)
    assert products is not None
    weights = np.array([workload.blocks[term.block].weights[0] for term in products.terms])
    assert plan.certificate.achieved < 0.99 * quick(products, weights).total


def test_largest_variances_of_many_rows_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are very many another search takes over: both end at the same optimum, with its proof."""
    schema = ln.Schema(day=range(12), sex=("F", "M"), region=range(3))
    tables = [ln.Prefix("day"), ln.Prefix("day") * ln.Marginal("sex"), ln.Marginal("day", "region", weight=3)]
    asked = ln.assemble(tables, schema)

    def largest() -> ln.Certificate:
        plan = ln.design(asked, ln.GDP(1), objective=ln.MaxVariance(), method="residuals")
        assert plan.ended == "converged"
        return ln.certify(asked, plan)

    few = largest()
    monkeypatch.setattr("leastnoise.planning.families.optimum_capped._FEW_WEIGHTS", 5)
    many = largest()
    assert few.gap <= SOLVER and many.gap <= SOLVER
    assert many.achieved == pytest.approx(few.achieved, rel=SOLVER)
    assert many.achieved != few.achieved
