"""What every kind of strategy obeys: the laws are stated once, and tried on one list of instances.

The judge is the matrix of integer rows, written out, and counts by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import AnyClasses, Workload
from leastnoise.release import Release, adjust, count_tables
from leastnoise.release.answer_pieces import answer_pieces
from leastnoise.strategy import CountTables, Measured, StoredIntegers, strategy_from_parts
from leastnoise.strategy.measured import TablesAsked
from strategy_kinds import CONDITIONS, KINDS, SCHEMA, made
from tolerances import ROUNDING

COUNTS = np.random.default_rng(9).integers(0, 400, SCHEMA.n_cells)

# Forms of one axis in several blocks make the sensitivity an upper bound.
BOUNDED = ("several forms",)

# All but classes of cells, which may hold cells of several periods.
OF_CELLS = tuple(name for name in KINDS if name not in ("classes", "side by side"))

# Kinds whose answers may come from a part of what is measured.
APART = ("several forms", "queries", "side by side")


def asked(strategy: Measured) -> Workload:
    """What a strategy can answer of many queries of many kinds."""
    queries = [
        ln.Total(name="all"),
        ln.Marginal("region"),
        ln.Marginal("sex", "age"),
        ln.Marginal("region", "sex"),
        ln.Prefix("age"),
        ln.AllRanges("age") * ln.Marginal("sex"),
        ln.Where("sex = 'F'", name="women"),
        ln.Where("region = 'n' or age = 0", name="either"),
    ]
    able = [query for query in queries if strategy.can_answer_all(ln.assemble([query], SCHEMA))]
    assert len(able) >= 2, "an instance that answers next to nothing tries no law"
    return ln.assemble(able, SCHEMA)


def rows_of(strategy: Measured) -> Array:
    """A in units of the noise: integers of some kinds are wider than floats are precise."""
    unit = math.isqrt(int(strategy.noise_variance)) or 1
    return np.array([[float(a / unit) for a in row] for row in strategy.dense().astype(object)])


def tables(counts: Any, allowed: Sequence[TablesAsked] | None = None) -> CountTables:
    """Counts as a table gives them; of some cross tables or classes only, where these are named."""
    every = count_tables(ln.assemble([ln.Total()], SCHEMA), counts, 1)

    def ask(asked: TablesAsked) -> Sequence[Array]:
        if allowed is not None and (asked is None or isinstance(asked, AnyClasses)):
            assert any(asked is one for one in allowed)
        elif allowed is not None and asked is not None:
            named = [one for one in allowed if one is not None and not isinstance(one, AnyClasses)]
            assert set(asked) <= {table for one in named for table in one}
        return every(asked)

    return ask


def noisy(strategy: Measured) -> Array:
    rng = np.random.default_rng(3)
    noise = np.rint(rng.normal(0, math.sqrt(strategy.noise_variance), strategy.n_measured)).tolist()
    exact_answers = strategy.exact_answers(tables(COUNTS)).tolist()
    return np.array([y + int(z) for y, z in zip(exact_answers, noise, strict=True)], dtype=object)


class OnDisk(StoredIntegers):
    """Integers that are read some at a time."""

    def __init__(self, integers: Array) -> None:
        self._integers = integers

    def __len__(self) -> int:
        return len(self._integers)

    def between(self, start: int, stop: int) -> Array:
        return self._integers[start:stop]


@pytest.mark.parametrize("name", KINDS)
def test_the_sensitivity_is_that_of_the_columns(name: str) -> None:
    strategy = made(name)
    power = 2 if strategy.noise == "gaussian" else 1
    A = strategy.dense().astype(object)
    costs = [sum(abs(int(a)) ** power for a in column) for column in A.T]
    assert list(strategy.column_costs) == costs
    assert strategy.sensitivity >= max(costs)
    assert strategy.sensitivity == max(costs) or name in BOUNDED
    assert costs[strategy.costliest_cell] == max(costs)
    farthest = strategy.farthest_from(3)
    assert farthest is None or farthest != 3


@pytest.mark.parametrize("name", KINDS)
def test_what_is_measured_are_the_rows_times_the_counts(name: str) -> None:
    strategy = made(name)
    A = strategy.dense().astype(object)
    assert A.shape == (strategy.n_measured, strategy.n_cells)
    expected = (A @ COUNTS.astype(object)).tolist()
    assert strategy.exact_answers(tables(COUNTS)).tolist() == expected
    x, y = np.random.default_rng(1).normal(size=(2, 100))
    x, y = x[: strategy.n_cells], np.resize(y, strategy.n_measured)
    real = A.astype(float)
    size = float(np.abs(real).max())
    np.testing.assert_allclose(strategy.apply(x), real @ x, rtol=ROUNDING, atol=100 * ROUNDING * size)
    np.testing.assert_allclose(strategy.adjoint(y), real.T @ y, rtol=ROUNDING, atol=100 * ROUNDING * size)


@pytest.mark.parametrize("name", KINDS)
def test_blocks_hold_all_that_is_measured_and_ask_for_the_tables_they_name(name: str) -> None:
    strategy = made(name)
    starts = strategy.block_starts.tolist()
    assert starts[0] == 0 and starts[-1] == strategy.n_measured and starts == sorted(set(starts))
    found = []
    for number in range(len(starts) - 1):
        named = strategy.part_tables(number, number + 1)
        given = tables(COUNTS, named)
        part = strategy.exact_part(number, number + 1, given)
        assert len(part) == starts[number + 1] - starts[number]
        found += part.tolist()
    assert found == strategy.exact_answers(tables(COUNTS)).tolist()


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_the_rows(name: str) -> None:
    strategy = made(name)
    found = []
    for part in strategy.parts():
        rows: Array = np.ones((1, 1), dtype=object)
        for form in part.forms:
            rows = np.kron(rows, form.entries())
        k = part.multipliers
        if isinstance(k, int):
            rows = rows * k
        else:
            rows = (rows * k.astype(object)[:, None])[k != 0]
        if part.cells is not None:
            rows = part.cells.spread(rows)
        names = SCHEMA.names if part.axes is None else [name for own in part.axes for name in own]
        kept = [name for name in names if SCHEMA[name].size > 1]
        for row in rows:
            shape = [SCHEMA[name].size for name in kept]
            own = row.reshape(shape)
            order = sorted(range(len(kept)), key=lambda i: SCHEMA.names.index(kept[i]))
            own = own.transpose(order)
            wide = [SCHEMA[n].size if n in kept else 1 for n in SCHEMA.names]
            found.append(np.broadcast_to(own.reshape(wide), SCHEMA.shape).reshape(-1).tolist())
    assert found == strategy.dense().astype(object).tolist()


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_unbiased_and_of_the_variances_that_are_said(name: str) -> None:
    strategy = made(name)
    workload = asked(strategy)
    W = workload.dense()
    truth = W @ COUNTS
    exactly = strategy.answers_of(workload, strategy.exact_answers(tables(COUNTS)))
    np.testing.assert_allclose(exactly, truth, rtol=0, atol=1e3 * ROUNDING * truth.max())
    # How every measured integer enters every answer.
    scale = math.sqrt(strategy.noise_variance)
    L = strategy.error_map(workload)(np.eye(strategy.n_measured) * scale)
    largest = float((L**2).sum(axis=1).max())
    close = {"rtol": 1e3 * ROUNDING, "atol": 1e3 * ROUNDING * largest}
    np.testing.assert_allclose(strategy.variances_of(workload), (L**2).sum(axis=1), **close)
    np.testing.assert_allclose(strategy.covariances_of(workload, workload), L @ L.T, **close)
    means = [spread.mean_square for spread in strategy.spreads(workload)]
    parts = [
        (L[workload.rows_of(one)] ** 2).sum() / block.n_rows
        for one, block in zip(workload.names, workload.blocks, strict=True)
    ]
    np.testing.assert_allclose(means, parts, **close)
    total = strategy.total_variance(workload, [np.ones(1)] * len(workload.blocks))
    assert total == pytest.approx(float((L**2).sum()), rel=1e3 * ROUNDING)
    share = strategy.largest_share(workload, [np.full(1, 2.0)] * len(workload.blocks))
    assert share == pytest.approx(largest / 2, rel=1e3 * ROUNDING)
    # No unbiased answer has less variance than least squares.
    A = rows_of(strategy)
    best = (np.linalg.pinv(A.T @ A) @ W.T * W.T).sum(axis=0)
    unit = math.isqrt(int(strategy.noise_variance)) or 1
    best *= strategy.noise_variance / unit**2
    assert (strategy.variances_of(workload) >= best * (1 - 1e-6)).all()
    if name not in APART:
        np.testing.assert_allclose(strategy.variances_of(workload), best, rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_integers_on_a_disk_answer_as_those_in_memory(name: str) -> None:
    strategy = made(name)
    workload, y = asked(strategy), noisy(strategy)
    expected = strategy.answers_of(workload, y)
    variances = strategy.variances_of(workload)
    np.testing.assert_allclose(strategy.stored_answers(workload, OnDisk(y)), expected, rtol=1e-12)
    terms = [term for block in workload.blocks for term in block.query.terms(SCHEMA)]
    for measured in (y, OnDisk(y)):
        pieces = strategy.answer_pieces(workload, measured)
        start = 0
        for number, term in enumerate(terms):
            stop = start + math.prod(factor.labels.length for factor in term)
            answers, errors = pieces(number, start, stop)
            np.testing.assert_allclose(answers, expected[start:stop], rtol=1e-12)
            np.testing.assert_allclose(errors, variances[start:stop], rtol=1e-12)
            start = stop
        assert start == workload.shape[0]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_known_of_the_cells_are_the_rows(name: str) -> None:
    strategy = made(name)
    A = rows_of(strategy)
    unit = math.isqrt(int(strategy.noise_variance)) or 1
    G = A.T @ A * (unit**2 / strategy.noise_variance)
    everyone = ln.assemble([ln.Total()], SCHEMA)
    total = strategy.known_total(everyone)
    assert (total is not None and total.is_of_all) == strategy.can_answer_all(everyone)
    if total is not None and total.is_of_all:
        ones = np.ones(strategy.n_cells)
        best = math.sqrt(float(ones @ np.linalg.pinv(G) @ ones))
        assert total.error >= best * (1 - 1e-6)
    held, products = strategy.held_rows(), strategy.product_gram()
    if held is not None:
        np.testing.assert_allclose(held / unit, A, rtol=ROUNDING, atol=0)
    if products is not None:
        found = np.array([products.times(row) for row in np.eye(strategy.n_cells)])
        np.testing.assert_allclose(found, G, rtol=0, atol=100 * ROUNDING * float(np.abs(G).max()))
        # Every component is known, so that the sum of what they tell alone is no less than what all do.
        P = np.array([products.covariance_times(row) for row in np.eye(strategy.n_cells)])
        assert np.linalg.eigvalsh(P).min() >= -ROUNDING * float(np.abs(P).max())


@pytest.mark.parametrize("name", OF_CELLS)
def test_what_ends_by_a_period_counts_nothing_later(name: str) -> None:
    strategy = made(name)
    everyone = ln.assemble([ln.Total()], SCHEMA)
    periods = np.indices(SCHEMA.shape)[SCHEMA.names.index("age")].reshape(-1)
    A = strategy.dense().astype(object)
    is_time = not any(part.axes is not None and ("age",) not in part.axes for part in strategy.parts())
    if not is_time:
        with pytest.raises(DesignError):
            strategy.last_periods(everyone, "age")
        return
    ends = [max(periods[np.flatnonzero(row)], default=0) for row in A]
    assert strategy.last_periods(everyone, "age").tolist() == ends


@pytest.mark.parametrize("name", KINDS)
def test_a_strategy_read_from_a_file_measures_the_same(name: str) -> None:
    strategy = made(name)
    structure, arrays = strategy.to_parts()
    content = {"structure": structure} if structure else {}
    again = strategy_from_parts(
        content,
        arrays,
        CONDITIONS,
        scale=strategy.scale,
        noise=str(strategy.noise),
        neighbours=str(strategy.neighbours),
    )
    assert type(again) is type(strategy)
    assert again.dense().astype(object).tolist() == strategy.dense().astype(object).tolist()
    assert again.spent == strategy.spent
    more, others = again.to_parts()
    assert more == structure and arrays.keys() == others.keys()
    assert all(np.array_equal(arrays[key], others[key]) for key in arrays)


@pytest.mark.parametrize("name", KINDS)
def test_a_strategy_does_not_change_and_takes_another_scale(name: str) -> None:
    strategy = made(name)
    with pytest.raises(AttributeError):
        strategy.scale = 1
    workload = asked(strategy)
    before = strategy.variances_of(workload)
    wider = strategy.with_scale(2 * strategy.scale)
    assert wider.spent < strategy.spent
    assert (wider.variances_of(workload) > 1.5 * before).all()
    assert np.array_equal(strategy.variances_of(workload), before)


def release_of(strategy: Measured) -> Release:
    from dataclasses import replace

    goal: Any = ln.ZCDP(10**9) if strategy.noise == "gaussian" else ln.PureDP(10**9)
    plan = ln.design(ln.assemble([ln.Total()], SCHEMA), goal, method="identity")
    return Release(replace(plan, strategy=strategy, workload=asked(strategy)), noisy(strategy))


@pytest.mark.parametrize("name", KINDS)
def test_releases_are_adjusted_whatever_is_measured(name: str) -> None:
    release = release_of(made(name))
    workload = release.plan.workload
    for integer in (False, True):
        found = adjust(release, integer=integer)
        assert found.estimates.min() >= 0
        np.testing.assert_allclose(found.answers, workload.dense() @ found.estimates, rtol=1e-9)
        assert not integer or (found.estimates == np.rint(found.estimates)).all()
    agreeing = adjust(release, nonnegative=False)
    np.testing.assert_allclose(
        agreeing.answers, workload.dense() @ agreeing.estimates, rtol=0, atol=1e-6 * COUNTS.sum()
    )


@pytest.mark.parametrize("name", [one for one in KINDS if made(one).noise == "gaussian"])
def test_answers_come_in_pieces_whatever_is_measured(name: str) -> None:
    release = release_of(made(name))
    pieces = list(answer_pieces(release, rows=5))
    answers = np.concatenate([piece["answer"] for piece in pieces])
    np.testing.assert_allclose(answers, release.answers, rtol=1e-12)
    lower, upper = release.interval()
    np.testing.assert_allclose(np.concatenate([piece["lower"] for piece in pieces]), lower, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate([piece["upper"] for piece in pieces]), upper, rtol=1e-9)
