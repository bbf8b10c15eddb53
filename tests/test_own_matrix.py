"""A strategy matrix of one's own, and queries and methods from outside the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse

import leastnoise as ln
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.core.operators import Matrix
from leastnoise.planning import Method, SearchResult, method_list, uniform_weights
from leastnoise.query import QUERY_KINDS, Labels
from leastnoise.query.queries import Factor, Term
from leastnoise.query.queries.meaning import Table, interval_aspect
from leastnoise.query.queries.one_attribute import OfOneAttribute
from leastnoise.strategy import RealStrategy
from tolerances import ROUNDING, SOLVER

SCHEMA = ln.Schema(age=range(8), sex=("F", "M"))
SUMS = ln.assemble([ln.Prefix("age") * ln.Marginal("sex"), ln.Marginal("age")], SCHEMA)
GOALS = [ln.GDP(1), ln.ApproxDP(1, 1e-6), ln.ZCDP(0.5), ln.PureDP(1), ln.GDP(1, neighbours="replace-one")]


def covariance(A: np.ndarray) -> np.ndarray:
    """The covariance of least squares over the rows, at noise of variance 1, written out."""
    return np.asarray(np.linalg.pinv(A.T @ A))


@pytest.mark.parametrize("seed", range(4))
def test_whole_rows_are_measured_as_they_are(seed: int) -> None:
    """Sensitivity and standard errors are those of the matrix itself, in closed form."""
    rng = np.random.default_rng(seed)
    A = np.vstack([np.eye(16, dtype=np.int64), rng.integers(-3, 4, (5, 16))])
    plan = ln.plan_from(SUMS, A, ln.GDP(1))
    scaled = plan.strategy.dense()
    factor = Fraction(int(np.abs(scaled).max()), int(np.abs(A).max()))
    assert all(Fraction(int(x)) == factor * int(y) for x, y in zip(scaled.flat, A.flat, strict=True))
    squares = int((A**2).sum(axis=0).max())
    assert plan.strategy.sensitivity == factor**2 * squares
    W = SUMS.dense()
    expected = np.sqrt(squares * np.einsum("mi,ij,mj->m", W, covariance(A), W))
    assert plan.stderr == pytest.approx(expected, rel=SOLVER)


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_real_rows_are_those_of_their_shape(goal: Any) -> None:
    """Real rows, and any multiple of them, have the noise of the matrix, and keep the goal exactly."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(20, 16))
    plan, again = ln.plan_from(SUMS, A, goal), ln.plan_from(SUMS, 1e-3 * A, goal)
    assert plan.strategy.spent <= goal.budget
    assert again.stderr == pytest.approx(plan.stderr, rel=SOLVER)
    if goal == ln.GDP(1):
        W = SUMS.dense()
        expected = np.sqrt((A**2).sum(axis=0).max() * np.einsum("mi,ij,mj->m", W, covariance(A), W))
        assert plan.stderr == pytest.approx(expected, rel=SOLVER)


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_the_bound_is_that_of_the_optimum(goal: Any) -> None:
    """The certificate compares the matrix with the least that there is, and can be rechecked."""
    plan, best = ln.plan_from(SUMS, np.eye(16, dtype=int), goal), ln.design(SUMS, goal)
    proof = ln.certify(SUMS, plan)
    assert proof.achieved == pytest.approx(plan.certificate.achieved, rel=ROUNDING)
    assert proof.lower_bound <= best.certificate.achieved * (1 + SOLVER)
    assert best.certificate.achieved <= proof.achieved * (1 + SOLVER)
    if not goal.noise.is_pure:
        assert proof.lower_bound >= best.certificate.lower_bound * (1 - 1e-2)


def test_a_plan_from_the_optimum_is_the_optimum() -> None:
    """What `design` measures, given back as a matrix, is as good."""
    best = ln.design(SUMS, ln.GDP(1))
    again = ln.plan_from(SUMS, best.strategy.dense() / 2.0**40, ln.GDP(1))
    assert again.certificate.achieved == pytest.approx(best.certificate.achieved, rel=SOLVER)


def test_it_is_saved_measured_and_loaded(tmp_path: Path) -> None:
    """It is a plan like any other."""
    plan = ln.plan_from(SUMS, scipy.sparse.identity(16, dtype=np.int64, format="csr"), ln.GDP(1))
    plan.save(tmp_path / "mine.plan")
    loaded = ln.load_plan(tmp_path / "mine.plan")
    assert loaded.digest == plan.digest and loaded.method == "own"
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(loaded, np.arange(16))
    assert release.answers.shape == (24,)


def test_a_matrix_that_does_not_fit_is_refused() -> None:
    """By what is wrong with it: its columns, its numbers, or a query that it cannot answer."""
    for A in (np.eye(5), np.zeros((3, 16)), np.full((3, 16), np.nan), "rows", np.zeros((0, 16))):
        with pytest.raises(ln.LeastnoiseError) as refused:
            ln.plan_from(SUMS, A, ln.GDP(1))
        assert refused.value.field == "A"
    with pytest.raises(ln.LeastnoiseError, match="no combination of the rows of A") as refused:
        ln.plan_from(SUMS, np.eye(16)[:15], ln.GDP(1))
    assert refused.value.field == "A"
    with pytest.raises(ln.LeastnoiseError, match="plan_from"):
        ln.design(SUMS, ln.GDP(1), method="own")


def test_it_is_compared_like_a_method() -> None:
    """By its name, with its gap to the best bound; a matrix that does not fit says why."""
    others = {"mine": np.eye(16, dtype=int), "short": np.eye(16)[:3]}
    table = ln.compare(SUMS, ln.GDP(1), methods=["dense", "identity"], others=others)
    rows = {contender.method: contender for contender in table.contenders}
    assert rows["mine"].achieved == pytest.approx(rows["identity"].achieved, rel=SOLVER)
    assert rows["mine"].gap == pytest.approx(rows["identity"].gap, rel=SOLVER)
    assert rows["short"].achieved is None and "no combination" in str(rows["short"])
    for wrong in ({"dense": np.eye(16)}, [np.eye(16)]):
        with pytest.raises(ln.LeastnoiseError) as refused:
            ln.compare(SUMS, ln.GDP(1), methods=["dense"], others=wrong)  # type: ignore[arg-type]
        assert refused.value.field == "others"


@dataclass(frozen=True, repr=False)
class FromTop(OfOneAttribute):
    """For every value, how many records have that value or a larger one."""

    kind: ClassVar[str] = "from-top"

    def terms(self, schema: ln.Schema) -> list[Term]:
        values = schema[self.attribute]
        labels = Labels(values.n_values, lambda k: f">= {values.label(k)}")
        rows = Matrix(np.triu(np.ones((values.n_values, values.n_values))))
        return [[Factor((self.attribute,), rows, labels)]]

    def tables(self, schema: ln.Schema) -> Sequence[Table]:
        values = schema[self.attribute]
        n = values.n_values
        return [
            (interval_aspect(self.attribute, n, lambda k: (k, n - 1), lambda k: f">= {values.label(k)}"),)
        ]


def find_halves(request: Any) -> SearchResult:
    """Every cell, and the sum of all."""
    n = request.workload.shape[1]
    rows = np.vstack([np.eye(n, dtype=np.int64), np.ones((1, n), dtype=np.int64)])
    return SearchResult(
        RealStrategy(rows), uniform_weights(request.workload), "heuristic", "cells and all", "converged"
    )


HALVES = Method("cells-and-all", "noise on every cell and on the total", lambda request: None, find_halves)


@pytest.fixture
def registered() -> Iterator[None]:
    ln.register(FromTop)
    ln.register(HALVES)
    yield
    del QUERY_KINDS[FromTop.kind]
    del method_list._ADDED[HALVES.name]


@pytest.mark.usefixtures("registered")
def test_queries_and_methods_from_outside_are_known_by_their_names(tmp_path: Path) -> None:
    """In plans and their files, in comparisons and the list of methods."""
    workload = ln.assemble([FromTop("age")], SCHEMA)
    plan = ln.design(workload, ln.GDP(1), method=HALVES.name)
    plan.save(tmp_path / "top.plan")
    assert ln.load_plan(tmp_path / "top.plan").digest == plan.digest
    assert HALVES.name in str(ln.methods())
    table = ln.compare(workload, ln.GDP(1), methods=["dense", HALVES.name])
    assert {contender.method for contender in table.contenders} == {"dense", HALVES.name}
    # Registered again, as a notebook does when a cell is run twice.
    ln.register(FromTop)


@pytest.mark.usefixtures("registered")
def test_names_are_not_taken_twice() -> None:
    """Neither a method of the package nor a kind of query is replaced."""

    class Other(FromTop):
        kind: ClassVar[str] = "prefix"

    taken = Method("dense", "another", lambda request: None, find_halves)
    for wrong in (Other, taken, 3, int):
        with pytest.raises(ln.LeastnoiseError):
            ln.register(wrong)  # type: ignore[type-var]
    assert QUERY_KINDS["prefix"] is ln.Prefix
