"""Releases as mbi sees them, against the integer rows that were measured, and the models it fits to them."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import MethodError, MissingExtraError, QueryError, TooLargeError, WorkloadError
from leastnoise.core.operators import Array
from leastnoise.release import Release, count_tables
from leastnoise.release.to_mbi import BlockQuery, ForMbi, domain_for_mbi, measurements_for_mbi, to_mbi
from leastnoise.strategy import Measured, Strategy, identity_form
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.tables import WeightedTables
from strategy_kinds import KINDS, PRODUCTS, SCHEMA, made
from support import extra, refuses
from tolerances import JUDGE, ROUNDING

jax = extra("jax")
# mbi warns while it is imported unless both are set; nothing else here uses JAX.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)
mbi = extra("mbi")
# Once it computes, JAX warns at every fork of this process, which here is an error. Other tests of the same
# process fork on purpose, into children that never touch JAX. There is no public way to say so.
bridge = extra("jax._src.xla_bridge")
assert bridge._at_fork_handler_installed is False
bridge._at_fork_handler_installed = True

COUNTS = np.random.default_rng(8).integers(400, 4000, SCHEMA.n_cells)


def with_strategy(strategy: Measured, y: Array) -> Release:
    goal: Any = ln.ZCDP(10**9) if strategy.noise == "gaussian" else ln.PureDP(10**9)
    plan = ln.design(ln.assemble([ln.Total()], SCHEMA), goal, method="identity")
    return Release(dataclasses.replace(plan, strategy=strategy), y)


def exactly(name: str) -> Release:
    """What a strategy would release without any noise."""
    strategy = made(name)
    tables = count_tables(ln.assemble([ln.Total()], SCHEMA), COUNTS, 1)
    return with_strategy(strategy, strategy.exact_answers(tables))


def table_of(cells: Any) -> Any:
    return mbi.Factor(mbi.Domain(SCHEMA.names, SCHEMA.shape), cells.reshape(SCHEMA.shape))


def matrix_of(measurement: Any) -> Array:
    """A query over all cells, column by column, as JAX traces it."""
    column = jax.vmap(lambda cells: measurement.query(table_of(cells).project(measurement.clique)))
    return np.asarray(column(np.eye(SCHEMA.n_cells))).T


def tells_the_same(release: Release, measurements: list[Any]) -> bool:
    """Whether rows and numbers, in units of their noise, are those of the release in units of its own."""
    strategy = release.plan.fixed_strategy()
    noise = math.sqrt(strategy.noise_variance)
    A = np.array(strategy.dense() / noise, dtype=float)
    y = np.array(release.measurements / noise, dtype=float)
    Q = np.vstack([matrix_of(m) / m.stddev for m in measurements])
    z = np.concatenate([m.noisy_measurement / m.stddev for m in measurements])
    if Q.shape != A.shape:
        return False
    is_same = np.abs(Q - A).max() <= ROUNDING * np.abs(A).max()
    return bool(is_same and np.abs(z - y).max() <= ROUNDING * np.abs(y).max())


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_measurements_are_those_of_the_release(name: str) -> None:
    release = exactly(name)
    measurements = measurements_for_mbi(release)
    assert tells_the_same(release, measurements)
    for measurement in measurements:
        # Units of counts: no record weighs more than one, and some weigh something like it.
        assert 0.1 < np.abs(matrix_of(measurement)).max() <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_nothing_remains_unexplained_at_the_true_table(name: str) -> None:
    for measurement in measurements_for_mbi(exactly(name)):
        expected = np.asarray(measurement.query(table_of(COUNTS.astype(float)).project(measurement.clique)))
        assert np.abs(measurement.noisy_measurement - expected).max() <= ROUNDING * COUNTS.sum()
        wrong = dataclasses.replace(measurement, noisy_measurement=measurement.noisy_measurement * (1 + 1e-6))
        assert np.abs(wrong.noisy_measurement - expected).max() > ROUNDING * COUNTS.sum()


@pytest.mark.thorough
def test_wrong_measurements_are_noticed() -> None:
    release = exactly("several forms")
    right = measurements_for_mbi(release)
    assert tells_the_same(release, right)
    last = right[-1]
    assert isinstance(last.query, BlockQuery)
    in_another_order = last.query.forms[::-1]
    uncentred = tuple(identity_form(f.size) if f.kind == "centred" else f for f in last.query.forms)
    twins = [
        right[:-1],
        [*right, last],
        right[::-1],
        [*right[:-1], dataclasses.replace(last, stddev=last.stddev * (1 + 1e-6))],
        [*right[:-1], dataclasses.replace(last, noisy_measurement=last.noisy_measurement * (1 + 1e-6))],
        [*right[:-1], dataclasses.replace(last, query=BlockQuery(uncentred))],
        [
            *right[:-1],
            dataclasses.replace(last, clique=last.clique[::-1], query=BlockQuery(in_another_order)),
        ],
    ]
    assert [tells_the_same(release, twin) for twin in twins] == [False] * len(twins)


@pytest.mark.parametrize("name", KINDS)
def test_norms_of_queries_are_known(name: str) -> None:
    measurements = measurements_for_mbi(exactly(name))
    for measurement in measurements:
        table = math.prod(SCHEMA[attribute].size for attribute in measurement.clique)
        # Over all cells, sums over the other attributes make the norm larger by as many cells.
        over_all = np.linalg.norm(matrix_of(measurement), 2) ** 2 * table / SCHEMA.n_cells
        known = measurement.query.op_norm_sq()
        if name in (*PRODUCTS, "dense", "queries"):
            assert known == pytest.approx(over_all, rel=ROUNDING)
        else:
            assert over_all * (1 - ROUNDING) <= known <= 10 * over_all, "a bound, not far from it"
    loss = mbi.marginal_loss.calculate_l2_lipschitz_from_metadata
    assert loss(domain_for_mbi(exactly(name)), measurements) is not None


def test_two_releases_of_one_plan_share_their_queries() -> None:
    release = exactly("several forms")
    again = Release(release.plan, release.measurements.copy())
    pairs = zip(measurements_for_mbi(release), measurements_for_mbi(again), strict=True)
    assert all(one.query == other.query and hash(one.query) == hash(other.query) for one, other in pairs)
    queries = [m.query for m in measurements_for_mbi(release)]
    assert len(set(queries)) == len(queries)


@pytest.mark.thorough
def test_measurements_survive_a_file_of_mbi(tmp_path: Any) -> None:
    release = exactly("tied")
    mbi.save(measurements_for_mbi(release), tmp_path / "measurements.npz")
    assert tells_the_same(release, mbi.load(tmp_path / "measurements.npz"))


def test_the_domain_is_the_schema() -> None:
    given = to_mbi(exactly("tied"))
    assert isinstance(given, ForMbi)
    assert given.domain == mbi.Domain(("region", "one", "age", "sex"), (3, 1, 4, 2))
    assert [m.clique for m in given.measurements] == [
        (),
        ("region", "sex"),
        ("age",),
        ("region", "sex", "age"),
    ]
    assert [m.clique for m in measurements_for_mbi(exactly("dense"))] == [SCHEMA.names]


# Of classes of cells, what they tell of all records is not worked out.
@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("classes", "side by side")])
def test_the_total_is_that_of_the_release(name: str) -> None:
    given = to_mbi(exactly(name))
    assert given.total == pytest.approx(COUNTS.sum(), rel=ROUNDING)


def test_mbi_adds_up_what_was_measured_as_it_is() -> None:
    own = mbi.estimation.minimum_variance_unbiased_total
    for name in ("centred", "plain", "tables"):
        assert own(measurements_for_mbi(exactly(name))) == pytest.approx(COUNTS.sum(), rel=ROUNDING)
    # Where it cannot, it takes 1: `total` is there for that.
    assert own(measurements_for_mbi(exactly("dense"))) == 1.0


def test_a_total_below_one_is_one() -> None:
    strategy = made("centred")
    y = np.array([-1000] * strategy.n_measured, dtype=object)
    given = to_mbi(with_strategy(strategy, y))
    # The first block is the total, three times.
    assert given.estimated_total == -1000 / 3
    assert given.total == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_of_other_tests_stay_silent() -> None:
    assert jax.jit(lambda x: x + 1)(1.0) == 2
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    assert [str(one.message) for one in found if "JAX" in str(one.message)] == []


# ------------------------------------------------------------------ models


def fitted(given: ForMbi, measurements: list[Any] | None = None) -> Any:
    estimator = mbi.estimation.MirrorDescent()
    used = given.measurements if measurements is None else measurements
    return estimator.estimate(given.domain, used, known_total=given.total, iters=3000, tol=1e-13)


def far_from_answers(model: Any, release: Release) -> float:
    """The largest difference of a model's cross tables and the release's answers, in standard errors."""
    assert release.stderr is not None
    # A cross table lists its attributes as the schema does.
    asked = [[n for n in SCHEMA.names if n in query.attributes] for query in PAIRS]
    tables = [model.project(names).values for names in asked]
    found = np.concatenate([np.asarray(table).reshape(-1) for table in tables])
    return float((np.abs(found - release.answers) / release.stderr).max())


PAIRS = [ln.Marginal("region", "age"), ln.Marginal("sex", "region"), ln.Marginal("age", "sex")]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
@pytest.mark.parametrize(
    ("method", "goal", "kind"),
    [
        ("residuals", ln.ZCDP(0.5), Structured),
        ("marginals", ln.PureDP(3), WeightedTables),
        ("dense", ln.ZCDP(0.5), Strategy),
    ],
)
def test_a_model_agrees_with_the_answers(method: str, goal: Any, kind: type) -> None:
    # Counts are far from zero, so that the best model is the least-squares one: the answers of the release.
    release = ln.measure(ln.design(ln.assemble(PAIRS, SCHEMA), goal, method=method), COUNTS)
    assert type(release.plan.strategy) is kind
    given = to_mbi(release)
    model = fitted(given)
    assert float(model.total) == pytest.approx(release.answer(ln.Total())["answer"].iloc[0], rel=ROUNDING)
    assert far_from_answers(model, release) < JUDGE
    assert np.asarray(model.project(("one",)).values) == pytest.approx([given.total], rel=JUDGE)


@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
def test_a_model_of_wrong_noise_disagrees_with_the_answers() -> None:
    # Of tables that overlap, each counts for as much as its noise allows. The six numbers in which they
    # overlap change by about a standard error: that all stay within JUDGE has a chance far below CHANCE.
    # For the total one table of all cells would be best.
    asked = ln.assemble(PAIRS, SCHEMA)
    plan = ln.design(asked, ln.PureDP(3), method="marginals", objective=ln.MaxVariance())
    release = ln.measure(plan, COUNTS)
    given = to_mbi(release)
    first, *others = given.measurements
    assert others
    wrong = [dataclasses.replace(first, stddev=first.stddev / 10), *others]
    assert far_from_answers(fitted(given, wrong), release) > JUDGE


# ------------------------------------------------------------------ refusals


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
def test_what_cannot_be_handed_over_is_refused() -> None:
    matrix = ln.Workload.from_matrix(np.eye(3))
    with refuses(WorkloadError, "schema", None, "give a schema to Workload.from_matrix"):
        to_mbi(ln.measure(ln.design(matrix, ln.ZCDP(0.5)), [1, 2, 3]))
    small = ln.assemble([ln.Marginal("a")], ln.Schema(a=range(4)))
    adaptive = ln.design(small, ln.PureDP(1), method="mwem")
    with refuses(MethodError, "method", "mwem", "depends on the data"):
        to_mbi(ln.measure(adaptive, [5, 6, 7, 8]))
    wide = ln.Schema(a=range(10**6 + 1))
    plan = ln.design(ln.assemble([ln.Where("a < 1")], ln.Schema(a=range(4))), ln.ZCDP(0.5))
    strategy = Strategy(np.ones((1, wide.n_cells), dtype=int), scale=10, noise="gaussian")
    plan = dataclasses.replace(plan, workload=ln.assemble([ln.Total()], wide), strategy=strategy)
    with refuses(TooLargeError, "plan", 1000001):
        to_mbi(Release(plan, np.array([5], dtype=object)))


@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
def test_a_total_that_was_not_measured_is_not_made_up() -> None:
    asked = ln.assemble([ln.Where("age < 1")], SCHEMA)
    given = to_mbi(ln.measure(ln.design(asked, ln.ZCDP(0.5)), COUNTS))
    assert given.estimated_total is None
    assert given.measurements
    with refuses(QueryError, "known_total", None, "pass known_total= where that is public, or add Total"):
        given.total


@pytest.mark.parametrize("present", [None, ModuleType("mbi")])
def test_without_mbi_the_line_to_type_is_given(
    present: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None stops the import; an empty module is like the versions before 2.
    release = exactly("centred")
    monkeypatch.setitem(sys.modules, "mbi", present)
    with refuses(MissingExtraError, "mbi", None, "pip install 'leastnoise"):
        to_mbi(release)
