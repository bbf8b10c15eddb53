"""What a stream costs where records change or people come back, against all histories, one by one.

The oracle goes through histories in loops over the integer rows. It knows neither periods' sums nor Gram
matrices.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.core.directed import root_above
from leastnoise.core.errors import (
    InputError,
    LedgerMismatchError,
    NotYetError,
    OverBudgetError,
    PlanFileError,
)
from leastnoise.planning import plan_through
from leastnoise.privacy import epsilon_of
from leastnoise.release import load_stream
from leastnoise.release.stream_price import stream_price_from_parts
from leastnoise.report.dossier.facts import spent_of
from leastnoise.report.figures import at_least
from leastnoise.strategy import changing_records, most_of_returning
from support import refuses


@cache
def small_plan(seed: int) -> ln.Plan:
    """Three or four periods by at most two values, queries that nobody chose."""
    rng = np.random.default_rng(seed)
    T, is_crossed = int(rng.integers(3, 5)), bool(rng.random() < 0.6)
    schema = ln.Schema(week=range(T), sex=("F", "M")) if is_crossed else ln.Schema(week=range(T))
    along = [ln.Prefix("week"), ln.Marginal("week"), ln.Windows("week", 2), ln.Changes("week")]
    queries: list[Any] = []
    for number, place in enumerate(rng.integers(4, size=2).tolist()):
        query: Any = along[place] * ln.Marginal("sex") if is_crossed and rng.random() < 0.7 else along[place]
        queries.append(query.having(name=f"query {number}", weight=float(rng.uniform(0.5, 2))))
    return ln.design(ln.assemble(queries, schema), ln.GDP(1), over="week")


def rows_and_periods(plan: ln.Plan) -> tuple[list[list[int]], list[int], list[int]]:
    """The integer rows, the period of each cell, and the period in which each row ends."""
    rows = [[int(entry) for entry in row] for row in plan.fixed_strategy().dense()]
    schema = plan.workload.schema
    assert schema is not None
    periods = np.indices(schema.shape)[schema.names.index("week")].reshape(-1).tolist()
    ends = [max((periods[i] for i, entry in enumerate(row) if entry), default=0) for row in rows]
    return rows, periods, ends


def spent_by(plan: ln.Plan, path: tuple[int, ...]) -> Fraction:
    """What a record spends that is in cell path[t] when period t is measured."""
    rows, _, ends = rows_and_periods(plan)
    shift = sum(row[path[end]] ** 2 for row, end in zip(rows, ends, strict=True))
    return Fraction(shift, plan.fixed_strategy().scale ** 2)


def paths(plan: ln.Plan, revisions: int | str) -> list[tuple[int, ...]]:
    _, periods, _ = rows_and_periods(plan)
    T, found = max(periods) + 1, []
    for path in itertools.product(range(len(periods)), repeat=T):
        moves = sum(a != b for a, b in itertools.pairwise(path))
        stays = len({periods[i] for i in path}) == 1
        if revisions == "any" or (stays if revisions == "values" else moves <= int(revisions)):
            found.append(path)
    return found


@pytest.mark.parametrize("revisions", [0, 1, 2, "values", "any"])
@pytest.mark.parametrize("seed", range(6))
def test_records_that_change_spend_what_is_charged(seed: int, revisions: int | str) -> None:
    plan = small_plan(seed)
    largest = max(spent_by(plan, path) for path in paths(plan, revisions))
    assert ln.stream_price(plan, revisions=revisions).per_record == largest


def test_the_price_of_a_plan_is_overspent_by_records_that_change() -> None:
    """Charged as if records kept their values, most of these plans would spend more than was paid."""
    over = {"values": 0, "1": 0}
    for seed in range(6):
        plan = small_plan(seed)
        for name in over:
            kind = name if name == "values" else 1
            over[name] += max(spent_by(plan, path) for path in paths(plan, kind)) > plan.charge.worst
    assert over["1"] >= 5
    assert over["values"] >= 1


def spent_by_people(plan: ln.Plan, most: int, apart: int) -> Fraction:
    """The most that a person spends with one record in each of some periods, by trying all."""
    rows, periods, _ = rows_and_periods(plan)
    worst = 0
    for number in range(1, most + 1):
        for cells in itertools.product(range(len(periods)), repeat=number):
            when = [periods[i] for i in cells]
            if all(b - a >= apart for a, b in itertools.pairwise(when)):
                worst = max(worst, sum(sum(row[i] for i in cells) ** 2 for row in rows))
    return Fraction(worst, plan.fixed_strategy().scale ** 2)


@pytest.mark.parametrize("returns", [(1, 1), (2, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("seed", range(6))
def test_people_who_come_back_spend_at_most_what_is_charged(seed: int, returns: tuple[int, int]) -> None:
    plan = small_plan(seed)
    largest, price = spent_by_people(plan, *returns), ln.stream_price(plan, returns=returns)
    assert largest <= price.per_record
    if plan.workload.schema is not None and len(plan.workload.schema.names) == 1:
        assert largest == price.per_record


@pytest.mark.parametrize("returns", [(2, 1), (3, 1), (2, 2)])
def test_a_twin_without_the_products_of_columns_is_noticed(returns: tuple[int, int]) -> None:
    plans = [small_plan(seed) for seed in range(6)]
    assert any(spent_by_people(plan, *returns) > plan.charge.worst * returns[0] for plan in plans)


@pytest.mark.parametrize("returns", [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 3)])
@pytest.mark.parametrize("seed", range(8))
def test_the_dynamic_program_bounds_all_sets(
    seed: int, returns: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the sets of periods are too many to go through, its bound is not below theirs, nor far above."""
    rng = np.random.default_rng(seed)
    half = rng.integers(-3, 9, size=(9, 9))
    Y = (half @ half.T).astype(object)
    exactly = changing_records._over_all_sets(Y, *returns)
    bound = changing_records._by_rows(np.maximum(Y, 0), *returns)
    by_hand = max(
        sum(int(Y[s, t]) for s in chosen for t in chosen)
        for number in range(1, returns[0] + 1)
        for chosen in itertools.combinations(range(9), number)
        if all(b - a >= returns[1] for a, b in itertools.pairwise(chosen))
    )
    assert exactly == by_hand <= bound
    # By a loop: the largest sum of rows, each over its own best set.
    tops = []
    for t in range(9):
        tops.append(
            max(
                sum(max(int(Y[t, s]), 0) for s in chosen)
                for number in range(1, returns[0] + 1)
                for chosen in itertools.combinations(range(9), number)
                if t in chosen and all(b - a >= returns[1] for a, b in itertools.pairwise(chosen))
            )
        )
    assert bound == max(
        sum(tops[t] for t in chosen)
        for number in range(1, returns[0] + 1)
        for chosen in itertools.combinations(range(9), number)
        if all(b - a >= returns[1] for a, b in itertools.pairwise(chosen))
    )


def test_many_sets_of_periods_take_the_dynamic_program(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(0)
    asked: tuple[Any, ...] = (plan.fixed_strategy(), plan.workload, "week", 2, 1)
    exactly = most_of_returning(*asked)
    monkeypatch.setattr(changing_records, "_MOST_SETS", 0)
    assert exactly <= most_of_returning(*asked) <= 2 * exactly


# Streams ------------------------------------------------------------------------------------------------


def test_a_stream_is_charged_its_price_and_says_it_before(tmp_path: Path) -> None:
    plan = small_plan(0)
    price = ln.stream_price(plan, revisions=1)
    assert price.per_record > plan.charge.worst
    assert f"{price.mu:.4g}" in str(price) and "revisions 1" in str(price)
    small = ln.Ledger(tmp_path / "small.ledger", dataset="town", limit=ln.GDP(1.0))
    with pytest.raises(OverBudgetError):
        ln.open_stream(plan, small, stream_id="a", revisions=1)
    assert not small.entries
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(4))
    stream = ln.open_stream(plan, ledger, stream_id="a", revisions=1)
    assert [entry.charge.worst for entry in ledger.entries] == [price.per_record]
    assert load_stream(ledger, "a").price.per_record == price.per_record
    assert stream.price.rules == {"revisions": "1"}
    ln.open_stream(plan, ledger, stream_id="a", revisions=1)
    assert len(ledger.entries) == 1
    for other in (0, 2, "values"):
        with refuses(LedgerMismatchError, "stream_id", "a"):
            ln.open_stream(plan, ledger, stream_id="a", revisions=other)
    back = ln.open_stream(plan, ledger, stream_id="b", returns=(2, 1))
    assert back.price.returns == (2, 1)
    assert ledger.entries[1].charge.worst == ln.stream_price(plan, returns=(2, 1)).per_record


def test_a_price_is_for_one_kind_of_history() -> None:
    plan = small_plan(0)
    for revisions in (-1, 1.0, "all", True):
        with refuses(InputError, "revisions", revisions):
            ln.stream_price(plan, revisions=revisions)  # type: ignore[arg-type]
    for returns in ((0, 1), (1,), [1, 2], (True, 1)):
        with refuses(InputError, "returns", returns):
            ln.stream_price(plan, returns=returns)  # type: ignore[arg-type]
    with refuses(NotYetError, "returns", (2, 1)):
        ln.stream_price(plan, revisions=1, returns=(2, 1))
    plain = ln.design(plan.workload, ln.GDP(1))
    with refuses(InputError, "plan"):
        ln.stream_price(plain)
    several = ln.design(plan.workload, ln.GDP(1, records_per_person=2), over="week")
    with refuses(InputError, "returns", (2, 1)):
        ln.stream_price(several, returns=(2, 1))
    assert ln.stream_price(several, revisions=1).mu > 1


def test_nobody_is_cut_down_where_people_come_back_in_some_periods(tmp_path: Path) -> None:
    plan = small_plan(0)
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(10))
    stream = ln.open_stream(plan, ledger, stream_id="a", returns=(2, 1))
    schema = plan.workload.schema
    assert schema is not None
    frame = pd.DataFrame({name: [schema[name].label(0)] for name in schema.names} | {"who": [1]})
    with refuses(NotYetError, "person"):
        stream.measure("0", ln.vectorize(frame.assign(week=0), schema, person="who"))


@pytest.mark.parametrize(
    ("options", "covers"),
    [
        ({}, None),
        ({"revisions": 1}, "at most once after"),
        ({"revisions": 2}, "at most 2 times"),
        ({"revisions": "values"}, "keep their week"),
        ({"revisions": "any"}, "in any way"),
        ({"returns": (2, 1)}, "at most 2 periods"),
    ],
)
def test_reports_of_a_period_state_what_was_charged(
    options: dict[str, Any], covers: str | None, tmp_path: Path
) -> None:
    """They stated what unchanged records spend, and the page that of the rows so far."""
    plan = small_plan(0)
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(10))
    stream = ln.open_stream(plan, ledger, stream_id="a", **options)
    schema = plan.workload.schema
    assert schema is not None
    assert stream.next_period is not None
    frame = pd.DataFrame({name: [schema[name].label(0)] for name in schema.names}).assign(week=0)
    measured = stream.measure(stream.next_period, frame)
    (charged,) = (entry.charge.worst for entry in ledger.entries)
    mu = at_least(root_above(charged))
    assert (covers is not None) == (charged > plan.charge.worst)
    for release in (measured, ln.load_release(measured.save(tmp_path / "period"))):
        assert release.spent_per_person == charged == spent_of(release)
        page = ln.summarize(release).to_html(tmp_path / "page.html").read_text()
        text = str(ln.summarize(release))
        for said in (page, text):
            assert f"All periods together spend mu = {mu} in" in said
            assert ("This covers" in said) == (covers is not None)
            assert covers is None or covers in " ".join(said.split())
        assert at_least(epsilon_of(charged, 1e-6)) in page.partition("ε per person")[2][:120]


def test_a_file_with_a_price_that_is_none_is_refused(tmp_path: Path) -> None:
    plan = small_plan(0)
    for content in ("1", {"revisions": 1}, {"revisions": "often", "returns": None}):
        with refuses(PlanFileError, "path", "a file"):
            stream_price_from_parts(content, plan_through(plan, 2), "a file")
    for content in ({"revisions": 1, "returns": [2, 1]}, {"revisions": 0, "returns": [0, 1]}):
        with refuses(PlanFileError, "path", "a file"):
            stream_price_from_parts(content, plan_through(plan, 2), "a file")
    with refuses(PlanFileError, "path", "a file"):
        stream_price_from_parts({"revisions": 1, "returns": None}, plan, "a file")
