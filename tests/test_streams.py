"""Plans over many periods: what is due when, rows in the order of time, and streams published from a ledger.

The oracle counts records in loops. It knows neither operators nor strategies.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
import stream_stress
from leastnoise.core.errors import (
    AlreadySpentError,
    DesignError,
    InputError,
    LedgerMismatchError,
    MethodError,
    NotYetError,
    OverBudgetError,
    PlanFileError,
    RecordsNotCounted,
    WorkloadError,
)
from leastnoise.planning import ends_of_rows, n_due, plan_through
from leastnoise.planning.families import dense
from leastnoise.query import due_by, due_of_batches
from leastnoise.release import load_stream, stored_release
from support import REFUSAL_CODES, refuses

MONTHS = tuple(f"2026-{month:02}" for month in range(1, 13))


def drawn(seed: int) -> tuple[ln.Workload, str]:
    """A workload nobody chose, over a schema in which one attribute is time; and its name."""
    rng = np.random.default_rng(seed)
    T = int(rng.integers(3, 7))
    names = [str(name) for name in rng.permutation(["month", "sex", "region"])[: rng.integers(1, 4)]]
    if "month" not in names:
        names[int(rng.integers(len(names)))] = "month"
    values: dict[str, Any] = {"month": MONTHS[:T], "sex": ("F", "M"), "region": ("n", "s", "e")}
    schema = ln.Schema({name: values[name] for name in names})
    over_time = [
        ln.Marginal("month"),
        ln.Prefix("month"),
        ln.Windows("month", int(rng.integers(1, T + 1))),
        ln.Changes("month", int(rng.integers(1, T))),
        ln.Ranges("month", [(MONTHS[0], MONTHS[1]), (MONTHS[1], MONTHS[T - 1])]),
        ln.Where(f"month == '{MONTHS[int(rng.integers(T))]}'"),
        ln.Total(),
    ]
    queries: list[Any] = []
    for number in range(int(rng.integers(1, 4))):
        query = over_time[int(rng.integers(len(over_time)))]
        others = [name for name in names if name != "month" and rng.random() < 0.5]
        if others:
            query = query * ln.Marginal(*others)
        queries.append(query.having(name=f"query {number}", weight=float(rng.uniform(0.5, 2))))
    return ln.assemble(queries, schema), "month"


def counted(workload: ln.Workload, records: list[dict[str, int]]) -> list[float]:
    """Every answer by a loop over the records, from what rows say of one record."""
    answers = []
    for block in workload.blocks:
        meaning = block.meaning(workload.schema)
        starts = meaning.starts
        for i in range(block.n_rows):
            row = meaning.row(i, starts)
            answers.append(sum(row.adds(record) for record in records))
    return answers


def last_counted(workload: ln.Workload, over: str) -> list[int]:
    """For every query the last period in which some record would count, found by trying all cells."""
    assert workload.schema is not None
    shape = workload.schema.shape
    cells = [dict(zip(workload.schema.names, cell, strict=True)) for cell in np.ndindex(*shape)]
    found = []
    for block in workload.blocks:
        meaning = block.meaning(workload.schema)
        starts = meaning.starts
        for i in range(block.n_rows):
            row = meaning.row(i, starts)
            found.append(max((cell[over] for cell in cells if row.adds(cell)), default=0))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_queries_are_due_in_the_last_period_that_they_count(seed: int) -> None:
    workload, over = drawn(seed)
    due = np.concatenate(due_of_batches(workload, over))
    assert due.tolist() == last_counted(workload, over)
    for period in range(workload.schema[over].size):  # type: ignore[index]
        part = due_by(workload, over, period)
        labels = [label for label, when in zip(workload.labels, due, strict=True) if when <= period]
        assert labels == ([] if part is None else list(part.labels))
        if part is not None:
            assert np.array_equal(part.dense(), workload.dense()[due <= period])


@cache
def planned(seed: int, method: str = "auto") -> ln.Plan:
    workload, over = drawn(seed)
    return ln.design(workload, ln.GDP(2), over=over, method=method)


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_time_costs_nothing(seed: int) -> None:
    workload, _ = drawn(seed)
    plain = ln.design(workload, ln.GDP(2))
    assert planned(seed).certificate.achieved == pytest.approx(plain.certificate.achieved, rel=2e-6)
    assert planned(seed).certificate.status == "optimal"


@pytest.mark.parametrize("seed", range(0, 25, 3))
def test_joint_weights_are_put_in_the_order_of_time_at_no_loss(seed: int) -> None:
    workload, _ = drawn(seed)
    plain = ln.design(workload, ln.GDP(2), method="joint")
    plan = planned(seed, "joint")
    assert plan.certificate.achieved == pytest.approx(plain.certificate.achieved, rel=2e-6)
    np.testing.assert_allclose(plan.stderr, plain.stderr, rtol=2e-6)


@pytest.mark.parametrize("method", ["dense", "residuals", "joint", "queries"])
@pytest.mark.parametrize("seed", range(25))
def test_each_period_answers_what_is_due_from_rows_that_have_ended(seed: int, method: str) -> None:
    answers_what_is_due(planned(seed, method), seed)


@pytest.mark.parametrize("seed", range(25))
def test_few_queries_over_many_cells_are_published_in_time_at_no_loss(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small workloads take the way of large ones, which had no order of time before."""
    workload, over = drawn(seed)
    monkeypatch.setattr(dense, "MAX_CELLS", 1)
    monkeypatch.setattr(dense, "MAX_ROW_ENTRIES", 1)
    plain = ln.design(workload, ln.GDP(2), method="dense")
    plan = ln.design(workload, ln.GDP(2), method="dense", over=over)
    assert plan.fixed_strategy().to_parts()[0] == {"kind": "combined"}
    assert plan.certificate.achieved == pytest.approx(plain.certificate.achieved, rel=2e-6)
    assert plan.fixed_strategy().spent <= 4
    answers_what_is_due(plan, seed)


def answers_what_is_due(plan: ln.Plan, seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = plan.workload.schema
    assert schema is not None
    rows, periods = (
        plan.fixed_strategy().dense(),
        np.indices(schema.shape)[schema.names.index("month")].reshape(-1),
    )
    ends = np.array([max(periods[np.flatnonzero(row)], default=0) for row in rows])
    assert ends.tolist() == ends_of_rows(plan).tolist()
    records = [{name: int(rng.integers(schema[name].size)) for name in schema} for _ in range(30)]
    counts = np.zeros(schema.shape, dtype=np.int64)
    for record in records:
        counts[tuple(record[name] for name in schema)] += 1
    for period, count in enumerate(np.cumsum(n_due(plan))):
        if not count:
            continue
        part = plan_through(plan, period)
        # Nothing that is measured by then counts a later record.
        assert np.array_equal(part.fixed_strategy().dense(), rows[ends <= period])
        assert not part.fixed_strategy().dense()[:, periods > period].any()
        y = (rows[ends <= period].astype(object) @ counts.reshape(-1)).astype(object)
        answers = part.fixed_strategy().answers_of(part.workload, y)
        assert answers == pytest.approx(counted(part.workload, records), abs=1e-6)
        assert part.workload.shape[0] == count
        # And as accurately as at the very end.
        known = dict(zip(plan.workload.labels, np.asarray(plan.stderr).tolist(), strict=True))
        if len(known) == plan.workload.shape[0]:
            found = dict(zip(part.workload.labels, np.asarray(part.stderr).tolist(), strict=True))
            assert found == pytest.approx({label: known[label] for label in found}, rel=1e-6)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_no_record_spends_more_than_the_goal_over_all_periods(seed: int) -> None:
    plan = planned(seed)
    strategy = plan.fixed_strategy()
    rows = strategy.dense().astype(object)
    assert max((rows**2).sum(axis=0)) <= 4 * strategy.scale**2


def test_rows_in_any_other_order_are_refused(tmp_path: Path) -> None:
    schema = ln.Schema(month=MONTHS[:4])
    workload = ln.assemble([ln.Prefix("month")], schema)
    plain = ln.design(workload, ln.GDP(1))
    with refuses(DesignError, "over"):
        replace(plain, over="month")
    ordered = ln.design(workload, ln.GDP(1), over="month")
    path = ordered.save(tmp_path / "plan")
    assert ln.load_plan(path).over == "month"
    assert ln.load_plan(path).digest == ordered.digest != plain.digest


@pytest.mark.parametrize(
    ("goal", "kind"),
    [(ln.PureDP(1), NotYetError), (ln.GDP(1, neighbours="replace-one"), NotYetError)],
)
def test_what_nobody_has_shown_is_refused(goal: Any, kind: type[Exception]) -> None:
    workload = ln.assemble([ln.Prefix("month")], ln.Schema(month=MONTHS[:4]))
    with refuses(kind, "over"):
        ln.design(workload, goal, over="month")


def test_over_names_an_attribute_without_other_cells() -> None:
    schema = ln.Schema(month=ln.Categories(MONTHS[:3], other="later"), sex=("F", "M"))
    workload = ln.assemble([ln.Marginal("month")], schema)
    with refuses(WorkloadError, "over", "month"):
        ln.design(workload, ln.GDP(1), over="month")
    with refuses(WorkloadError, "over", "week"):
        ln.design(workload, ln.GDP(1), over="week")
    bare = ln.Workload.from_matrix(np.eye(3))
    with refuses(WorkloadError, "over", "month"):
        ln.design(bare, ln.GDP(1), over="month")


# Streams ------------------------------------------------------------------------------------------------

SCHEMA = ln.Schema(month=MONTHS[:4], sex=("F", "M"))


def asked() -> ln.Workload:
    queries = [ln.Prefix("month"), ln.Marginal("month", "sex"), ln.Windows("month", 2), ln.Total()]
    return ln.assemble(queries, SCHEMA)


@cache
def exact_plan() -> ln.Plan:
    """So little noise that every answer rounds to the truth."""
    return ln.design(asked(), ln.GDP(10_000), over="month")


def table(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"month": rng.choice(MONTHS[:4], n), "sex": rng.choice(["F", "M"], n)})


def new_ledger(folder: Path) -> ln.Ledger:
    return ln.Ledger(folder / "town.ledger", dataset="town", limit=ln.GDP(15_000))


def truth(release: ln.Release, frame: pd.DataFrame) -> list[float]:
    places = {name: {value: i for i, value in enumerate(values)} for name, values in VALUES.items()}
    records = [
        {"month": places["month"][month], "sex": places["sex"][sex]}
        for month, sex in zip(frame["month"], frame["sex"], strict=True)
    ]
    return counted(release.plan.workload, records)


VALUES = {"month": MONTHS[:4], "sex": ("F", "M")}


def test_a_stream_publishes_what_is_due_and_keeps_it(tmp_path: Path) -> None:
    ledger, frame = new_ledger(tmp_path), table()
    stream = ln.open_stream(exact_plan(), ledger, stream_id="admissions", table="town 2026")
    spent = ledger.remaining
    assert (stream.published, stream.next_period) == ((), MONTHS[0])
    seen: dict[str, float] = {}
    for number, month in enumerate(MONTHS[:4]):
        # Only the records of the past are there yet.
        so_far = frame[frame["month"] <= month]
        release = stream.measure(month, so_far)
        assert np.rint(release.answers).tolist() == truth(release, so_far)
        # Later records change nothing about the past.
        answers = dict(zip(release.plan.workload.labels, release.answers.tolist(), strict=True))
        assert all(answers[label] == pytest.approx(value, abs=1e-6) for label, value in seen.items())
        seen |= answers
        assert stream.published == MONTHS[: number + 1]
    assert stream.next_period is None
    assert str(ledger.remaining) == str(spent)
    assert len(ledger.entries) == 1
    ledger.verify()
    again = load_stream(new_ledger(tmp_path), "admissions")
    assert [one.answers.tolist() for one in again.releases][-1] == release.answers.tolist()
    assert again.releases[-1].plan.certificate.status == "optimal"


def test_a_plan_over_periods_is_measured_by_its_stream_alone(tmp_path: Path) -> None:
    """`measure` released all months at once, the current one unfinished, and charged for them again."""
    ledger = new_ledger(tmp_path)
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    published = stream.measure(MONTHS[0], table())
    for plan in (exact_plan(), published.plan):
        with refuses(InputError, "plan", ..., "stream.measure", "without over="):
            ln.measure(plan, table(), ledger=ledger)
        with refuses(InputError, "plan", ..., "open_stream"):
            ln.measure(plan, table())
    assert len(ledger.entries) == 1


def test_a_period_warns_of_records_left_out(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    frame = table(2000).assign(sex=" F")
    for _ in range(2):
        with pytest.warns(RecordsNotCounted, match="none of the answers") as seen:
            release = stream.measure(MONTHS[0], frame)
        assert str(seen[0].message).startswith(release.warnings[0]) and seen[0].filename == __file__


def test_what_is_stored_is_handed_out_again_whatever_the_table_holds(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    first = stream.measure(MONTHS[0], table())
    again = stream.measure(MONTHS[0], table(seed=1))
    assert again.answers.tolist() == first.answers.tolist()
    assert stream.release(MONTHS[0]).measurements.tolist() == first.measurements.tolist()


def test_periods_come_in_order_or_are_given_up(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    with refuses(InputError, "period", MONTHS[2], MONTHS[0], MONTHS[1]):
        stream.measure(MONTHS[2], table())
    with refuses(LedgerMismatchError, "period", MONTHS[0]):
        stream.release(MONTHS[0])
    with refuses(InputError, "period", "2027-01"):
        stream.measure("2027-01", table())
    release = stream.measure(MONTHS[2], table(), skip=True)
    assert stream.published == (MONTHS[2],)
    assert np.rint(release.answers).tolist() == truth(release, table())
    # What was due in a period that was given up came with the later one.
    assert np.rint(stream.release(MONTHS[1]).answers).tolist() == truth(stream.release(MONTHS[1]), table())


def test_nothing_is_published_before_something_is_due(tmp_path: Path) -> None:
    plan = ln.design(ln.assemble([ln.Windows("month", 3)], SCHEMA), ln.GDP(10), over="month")
    stream = ln.open_stream(plan, new_ledger(tmp_path), stream_id="a")
    assert stream.next_period == MONTHS[2]
    with refuses(InputError, "period", MONTHS[0], MONTHS[2]):
        stream.measure(MONTHS[0], table())
    stream.measure(MONTHS[2], table())
    assert stream.published == (MONTHS[2],)


def test_a_stream_is_paid_for_once(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ln.open_stream(exact_plan(), ledger, stream_id="a")
    left = str(ledger.remaining)
    ln.open_stream(exact_plan(), ledger, stream_id="a")
    assert (str(ledger.remaining), len(ledger.entries)) == (left, 1)
    ln.open_stream(exact_plan(), ledger, stream_id="b")
    with pytest.raises(OverBudgetError):
        ln.open_stream(exact_plan(), ledger, stream_id="c")
    other = ln.design(asked(), ln.GDP(1), over="month")
    with pytest.raises(LedgerMismatchError):
        ln.open_stream(other, ledger, stream_id="a")
    with refuses(LedgerMismatchError, "stream_id", "nobody's"):
        load_stream(ledger, "nobody's")


def test_a_stream_that_was_stopped_after_it_was_paid_for_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new_ledger(tmp_path)

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ln.Ledger, "store", stopped)
        with pytest.raises(KeyboardInterrupt):
            ln.open_stream(exact_plan(), ledger, stream_id="a")
    with pytest.raises(AlreadySpentError):
        load_stream(ledger, "a")
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    assert len(ledger.entries) == 1
    stream.measure(MONTHS[0], table())


def test_what_others_stored_meanwhile_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = new_ledger(tmp_path)
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    other = load_stream(new_ledger(tmp_path), "a")
    store = ln.Ledger.store_part
    found = []

    def late(self: ln.Ledger, *arguments: Any, **named: Any) -> bool:
        if self is ledger and not found:
            found.append(other.measure(MONTHS[0], table(seed=3)))
        return store(self, *arguments, **named)

    monkeypatch.setattr(ln.Ledger, "store_part", late)
    release = stream.measure(MONTHS[0], table())
    assert release.measurements.tolist() == found[0].measurements.tolist()
    assert stream.published == (MONTHS[0],)


def test_few_queries_are_streamed_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "MAX_CELLS", 1)
    monkeypatch.setattr(dense, "MAX_ROW_ENTRIES", 1)
    plan = ln.design(asked(), ln.GDP(10_000), method="dense", over="month")
    assert plan.fixed_strategy().to_parts()[0] == {"kind": "combined"}
    plan.save(tmp_path / "plan")
    assert ln.load_plan(tmp_path / "plan").digest == plan.digest
    stream = ln.open_stream(plan, new_ledger(tmp_path), stream_id="a")
    for month in MONTHS[:3]:
        release = stream.measure(month, table())
        assert release.answers == pytest.approx(truth(release, table()), abs=0.01)
        release.save(tmp_path / month)
        assert np.array_equal(ln.load_release(tmp_path / month).answers, release.answers)


def test_rows_are_measured_once(tmp_path: Path) -> None:
    """With noise that shows: what a later period repeats of an earlier one has not been drawn again."""
    plan = ln.design(asked(), ln.GDP(0.1), over="month")
    stream = ln.open_stream(plan, new_ledger(tmp_path), stream_id="a")
    releases = [stream.measure(month, table()) for month in MONTHS[:4]]
    ends = ends_of_rows(plan)
    for number, release in enumerate(releases[:-1]):
        mine = releases[-1].measurements[ends <= number]
        assert mine.tolist() == release.measurements.tolist()
    errors = np.abs(releases[-1].answers - truth(releases[-1], table()))
    assert errors.max() > 1


def test_a_release_of_a_period_is_saved_and_loaded(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    release = stream.measure(MONTHS[0], table())
    loaded = ln.load_release(release.save(tmp_path / "january"))
    assert list(loaded.plan.workload.labels) == list(release.plan.workload.labels)
    assert loaded.answers.tolist() == release.answers.tolist()
    assert loaded.receipt == release.receipt
    assert loaded.plan.horizon is not None
    assert loaded.plan.horizon.digest == exact_plan().digest
    assert "2026-01" in ln.summarize(loaded).text()


def kept_first(frame: pd.DataFrame, k: int) -> pd.DataFrame:
    """The first k records of each person, where no person has two in a month: by a loop, without a hash."""
    seen: dict[Any, int] = {}
    kept = []
    for place, (_, row) in enumerate(frame.sort_values("month").iterrows()):
        seen[row["person"]] = seen.get(row["person"], 0) + 1
        if seen[row["person"]] <= k:
            kept.append(place)
    return frame.sort_values("month").iloc[kept]


def visits(seed: int) -> pd.DataFrame:
    """People who come at most once a month."""
    rng = np.random.default_rng(seed)
    rows = [
        {"person": person, "month": month, "sex": str(rng.choice(["F", "M"]))}
        for person in range(25)
        for month in MONTHS[:4]
        if rng.random() < 0.6
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=seed)


@cache
def plan_of_two() -> ln.Plan:
    return ln.design(asked(), ln.GDP(10_000, records_per_person=2), over="month")


@pytest.mark.parametrize("seed", range(3))
def test_the_earliest_records_of_a_person_count_in_every_period(seed: int, tmp_path: Path) -> None:
    """In one order of a hash, a record of April would displace one that was published in January."""
    limit = ln.GDP(15_000, records_per_person=2)
    stream = ln.open_stream(plan_of_two(), ln.Ledger(tmp_path / "a.ledger", dataset="town", limit=limit))
    frame = visits(seed)
    for month in MONTHS[:4]:
        so_far = frame[frame["month"] <= month]
        release = stream.measure(month, ln.vectorize(so_far, SCHEMA, person="person"))
        assert release.is_truncated
        # The same from the records of the whole year: nothing that came later changed what was kept.
        assert np.rint(release.answers).tolist() == truth(release, kept_first(so_far, 2))
        kept = kept_first(frame, 2)
        assert np.rint(release.answers).tolist() == truth(release, kept[kept["month"] <= month])
    assert stream.release(MONTHS[1]).is_truncated


def test_people_are_told_apart_alike_in_all_periods(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    frame = table().assign(person=range(200), other=range(200))
    stream.measure(MONTHS[0], ln.vectorize(frame, SCHEMA, person="person"))
    others = [
        frame,
        ln.vectorize(frame, SCHEMA, person="other"),
        ln.vectorize(frame, SCHEMA, person="person", person_unknown=[0]),
    ]
    for source in others:
        with refuses(InputError, "person", ..., MONTHS[0]):
            stream.measure(MONTHS[1], source)
    stream.measure(MONTHS[1], ln.vectorize(frame, SCHEMA, person="person"))
    assert stream.published == MONTHS[:2]


def test_means_by_period_are_due_with_their_period(tmp_path: Path) -> None:
    schema = ln.Schema(month=MONTHS[:3], age=range(10))
    workload = ln.assemble([ln.Mean("age", by=("month",), name="mean age")], schema)
    plan = ln.design(workload, ln.GDP(10_000), over="month")
    stream = ln.open_stream(plan, new_ledger(tmp_path), stream_id="a")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"month": rng.choice(MONTHS[:3], 300), "age": rng.integers(0, 10, 300)})
    for number, month in enumerate(MONTHS[:3]):
        release = stream.measure(month, frame)
        found = release["mean age"]["estimate"].tolist()
        wanted = [frame.loc[frame["month"] == one, "age"].mean() for one in MONTHS[: number + 1]]
        assert found == pytest.approx(wanted, abs=1e-3)


def test_a_plan_of_one_period_opens_no_stream_and_a_plain_one_neither(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    with refuses(InputError, "plan"):
        ln.open_stream(ln.design(asked(), ln.GDP(1)), ledger)
    with refuses(InputError, "plan"):
        ln.open_stream(plan_through(exact_plan(), 0), ledger)
    assert not ledger.entries


def test_altered_parts_are_found(tmp_path: Path) -> None:
    import sqlite3

    ledger = new_ledger(tmp_path)
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    stream.measure(MONTHS[0], table())
    with sqlite3.connect(tmp_path / "town.ledger") as connection:
        connection.execute("DROP TRIGGER answers_never_updates")
        connection.execute("UPDATE answers SET body = x'00' WHERE number = 3")
    with pytest.raises((ln.LeastnoiseError, PlanFileError)):
        load_stream(new_ledger(tmp_path), "a").release(MONTHS[0])


def test_best_running_sums_of_a_year() -> None:
    """Known optima, to the digits that are published."""
    schema = ln.Schema(day=range(365))
    plan = ln.design(ln.assemble([ln.Prefix("day")], schema), ln.GDP(1), over="day", method="residuals")
    assert plan.certificate.achieved / 365 == pytest.approx(6.939, abs=1e-3)
    largest = ln.design(
        ln.assemble([ln.Prefix("day")], schema),
        ln.GDP(1),
        over="day",
        method="residuals",
        objective=ln.MaxVariance(),
    )
    assert largest.certificate.achieved == pytest.approx(6.980, abs=1e-3)
    assert math.isclose(
        float(np.max(largest.known_stderr() ** 2)), largest.certificate.achieved, rel_tol=1e-9
    )


# Killed, and from a shell ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_stream_survives_being_killed(tmp_path: Path) -> None:
    found = stream_stress.kill(tmp_path, kills=20, seed=5)
    wrong = {name: found[name] for name in ("unpaid", "paid twice", "unstored", "different", "drawn twice")}
    assert not any(wrong.values()), wrong
    assert found["completed"] == found["streams"]


@pytest.mark.thorough
def test_a_twin_that_hands_out_before_it_stores_is_found(tmp_path: Path) -> None:
    found = stream_stress.kill(tmp_path, kills=2, seed=5, is_twin=True)
    assert found["unstored"] + found["different"] + found["unpaid"] > 0


SPECIFICATION = """
[schema]
month = ["2026-01", "2026-02", "2026-03", "2026-04"]
sex = ["F", "M"]

[privacy]
mu = 10000

[[query]]
kind = "prefix"
attribute = "month"
name = "so far"

[[query]]
kind = "marginal"
attributes = ["month", "sex"]
name = "by sex"

[design]
over = "month"
"""


def run(*arguments: str) -> Any:
    from typer.testing import CliRunner

    from leastnoise.app.cli.main import app

    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_a_scheduler_publishes_period_by_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPECIFICATION)
    table().to_csv("people.csv", index=False)
    assert run("ledger", "create", "a.ledger", "--dataset", "town", "--mu", "15000").exit_code == 0
    publish = ("publish", "town.toml", "--data", "people.csv", "--ledger", "a.ledger", "--period")
    first = run(*publish, MONTHS[0])
    assert first.exit_code == 0, first.output
    assert "All periods together spend" in first.output
    left = str(ln.Ledger("a.ledger").remaining)
    # The same command again writes the same answers, and costs nothing.
    written = Path("town-2026-01-answers.csv").read_text()
    again = run(*publish, MONTHS[0])
    assert (again.exit_code, Path("town-2026-01-answers.csv").read_text()) == (0, written)
    refused = run(*publish, MONTHS[2])
    assert refused.exit_code != 0
    assert "--skip" in refused.output
    last = run(*publish, MONTHS[2], "--skip")
    assert last.exit_code == 0
    answers = pd.read_csv("town-2026-03-answers.csv")
    so_far = answers[answers["query"] == "so far"]["answer"].round().tolist()
    assert so_far == [int((table()["month"] <= month).sum()) for month in MONTHS[:3]]
    assert str(ln.Ledger("a.ledger").remaining) == left
    assert "published through 2026-03, next 2026-04" in run("ledger", "show", "a.ledger").output
    Path("town.toml").write_text(SPECIFICATION.replace("10000", "9000"))
    changed = run(*publish, MONTHS[3])
    assert changed.exit_code != 0
    assert "does not ask for what stream" in changed.output


def test_the_shell_measures_a_plan_over_periods_only_by_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPECIFICATION)
    table(2000).assign(sex=" F").to_csv("people.csv", index=False)
    exact_plan().save(tmp_path / "town.plan")
    run("ledger", "create", "a.ledger", "--dataset", "town", "--mu", "15000")
    paid = ("--data", "people.csv", "--ledger", "a.ledger")
    for command in (("publish", "town.toml"), ("measure", "town.plan")):
        refused = run(*command, *paid)
        assert refused.exit_code in REFUSAL_CODES and "--period" in refused.output
    assert not ln.Ledger("a.ledger").entries
    # What readers must know first is said once, on one line of its own.
    first = run("publish", "town.toml", *paid, "--period", MONTHS[0])
    assert first.exit_code == 0, first.output
    assert first.stderr.count("none of the answers") == 1 and "RecordsNotCounted" not in first.output


def test_answers_of_a_stream_are_fetched_by_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of a stream was answered by "no saved release"."""
    monkeypatch.chdir(tmp_path)
    ledger = new_ledger(tmp_path)
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    assert run("ledger", "fetch", "town.ledger", "a").exit_code != 0
    releases = [stream.measure(month, table(), not_counted=False) for month in MONTHS[:2]]
    with refuses(PlanFileError, "release_id", "a"):
        stored_release(ledger, "a")
    assert run("ledger", "fetch", "town.ledger", "a").exit_code == 0
    assert run("ledger", "fetch", "town.ledger", "a", "--period", MONTHS[0]).exit_code == 0
    for month, release in zip(MONTHS, releases, strict=False):
        answers = pd.read_csv(f"a-{month}-answers.csv")["answer"]
        assert answers.round().tolist() == np.rint(release.answers).tolist()
    assert run("ledger", "fetch", "town.ledger", "a", "--period", MONTHS[3]).exit_code != 0
    ln.measure(ln.design(asked(), ln.GDP(1)), table(), ledger=ledger, release_id="b")
    assert run("ledger", "fetch", "town.ledger", "b", "--period", MONTHS[0]).exit_code != 0


def with_strangers(seed: int) -> pd.DataFrame:
    """A table of which some records have no declared month, or no declared sex, or neither."""
    frame, rng = table(seed=seed), np.random.default_rng(seed)
    frame.loc[rng.random(len(frame)) < 0.2, "month"] = "1999-01"
    frame.loc[rng.random(len(frame)) < 0.2, "sex"] = "?"
    return frame


@pytest.mark.parametrize("seed", range(4))
def test_every_period_tells_how_many_records_no_cell_took(seed: int, tmp_path: Path) -> None:
    """It was refused. Of the table as it is then, whether a record names a period or not."""
    frame, ledger = with_strangers(seed), new_ledger(tmp_path)
    stream = ln.open_stream(exact_plan(), ledger, stream_id="a")
    left, by = str(ledger.remaining), (["sex"] if seed % 2 else True)
    for number, month in enumerate(MONTHS[:4]):
        if number == 1 and seed == 3:
            continue
        so_far = frame[: 50 * (number + 1)]
        release = stream.measure(month, so_far, skip=True, not_counted=by)
        strangers = so_far[~(so_far["month"].isin(MONTHS[:4]) & so_far["sex"].isin(["F", "M"]))]
        assert release.not_counted is not None
        assert round(release.not_counted.estimate) == len(strangers)
        named = {name: round(found.estimate) for name, found in release.not_counted.by_attribute.items()}
        assert named == ({"sex": int((strangers["sex"] == "?").sum())} if seed % 2 else {})
        # Kept by the ledger, and by a file, which believes no smaller noise than a period may have.
        again = load_stream(new_ledger(tmp_path), "a").release(month)
        loaded = ln.load_release(release.save(tmp_path / month))
        assert again.not_counted == loaded.not_counted == release.not_counted
    if seed == 3:
        assert stream.release(MONTHS[1]).not_counted is None
    assert str(ledger.remaining) == left
    assert stream.measure(MONTHS[3], frame, not_counted=False).not_counted is not None


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_a_record_in_no_cell_spends_at_most_the_price_over_all_periods(seed: int, tmp_path: Path) -> None:
    """A row of the plan's whole price in every period would spend it once per period."""
    plan = planned(seed)
    schema = plan.workload.schema
    assert schema is not None
    ledger = ln.Ledger(tmp_path / "a.ledger", dataset="town", limit=ln.GDP(3))
    stream = ln.open_stream(plan, ledger, stream_id="a")
    frame = pd.DataFrame({name: ["?"] for name in schema.names})
    asked = list(schema.names)[: seed % 3] or True
    if stream.next_period is None:
        pytest.fail("nothing is due")
    while stream.next_period is not None:
        stream.measure(stream.next_period, frame, not_counted=asked)
    rows = [release.not_counted.row for release in stream.releases if release.not_counted is not None]
    assert len(rows) == len(stream.published)
    spent = sum(Fraction(row.factor**2 * row.n_measured, row.scale**2) for row in rows)
    strategy = plan.fixed_strategy()
    columns = (strategy.dense().astype(object) ** 2).sum(axis=0)
    assert 0 < spent <= Fraction(int(max(columns)), strategy.scale**2)
    # A file that claims less noise than that is refused.
    found = stream.releases[-1].not_counted
    assert found is not None
    louder = replace(found, row=replace(found.row, factor=2 * found.row.factor))
    path = replace(stream.releases[-1], not_counted=louder).save(tmp_path / "louder")
    with pytest.raises(PlanFileError):
        ln.load_release(path)


def test_records_that_may_get_or_lose_a_cell_are_not_told_apart(tmp_path: Path) -> None:
    """With person= a later record displaces one without a cell; a revision moves a record out of all."""
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(100_000))
    frame = table().assign(who=range(200))
    person = ln.vectorize(frame, SCHEMA, person="who")
    for number, (source, options) in enumerate([(person, {}), (table(), {"revisions": 1})]):
        stream = ln.open_stream(exact_plan(), ledger, stream_id=str(number), **options)  # type: ignore[arg-type]
        for asked in (True, ["sex"]):
            with refuses(NotYetError, "not_counted"):
                stream.measure(MONTHS[0], source, not_counted=asked)
        assert stream.published == ()
        assert stream.measure(MONTHS[0], source).not_counted is None


def test_a_scheduler_is_told_how_many_records_no_cell_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPECIFICATION)
    with_strangers(0).to_csv("people.csv", index=False)
    run("ledger", "create", "a.ledger", "--dataset", "town", "--mu", "50000")
    publish = ("publish", "town.toml", "--data", "people.csv", "--ledger", "a.ledger", "--period")
    refused = run(*publish, MONTHS[0], "--not-counted", "--revisions", "1")
    assert (refused.exit_code != 0, ln.Ledger("a.ledger").entries) == (True, ())
    assert "matched no declared value" in run(*publish, MONTHS[0], "--not-counted").output
    assert "matched no declared value" not in run(*publish, MONTHS[1], "--no-not-counted").output


def test_what_cannot_be_ordered_in_time_at_size_is_said_with_a_way_out() -> None:
    schema = ln.Schema(month=range(24), region=range(100), age=range(18))
    queries: list[Any] = [ln.Marginal("month", "region", "age")]
    crossed = [*queries, ln.Prefix("month") * ln.Prefix("age")]
    with refuses(MethodError, "over", "month", "dense", "residuals", "Marginal") as caught:
        ln.design(ln.assemble(crossed, schema), ln.GDP(1), over="month")
    # Not a line about each of the methods that know no periods.
    assert "wavelet" not in str(caught.value)
    # Before, targets under a goal were refused as well.
    within = ln.assemble([*queries, (ln.Prefix("month") * ln.Marginal("region")).having(stderr=8)], schema)
    plan = ln.design(within, ln.GDP(1), over="month")
    assert plan.factor is not None and plan.factor <= 1 and plan.certificate.gap <= 1e-6


def test_late_records_count_in_full_in_their_period_of_arrival(tmp_path: Path) -> None:
    """By the column that says when they arrived; by the column of what they are about, in part."""
    rng = np.random.default_rng(3)
    months = rng.integers(4, size=300)
    arrived = np.minimum(months + rng.integers(2, size=300), 3)
    frame = pd.DataFrame({"month": np.array(MONTHS)[months], "arrived": np.array(MONTHS)[arrived]})
    ledger = new_ledger(tmp_path)
    ends = {}
    for name in ("month", "arrived"):
        workload = ln.assemble([ln.Prefix(name)], ln.Schema({name: MONTHS[:4]}))
        plan = ln.design(workload, ln.GDP(5_000), over=name)
        stream = ln.open_stream(plan, ledger, stream_id=name)
        for number in range(4):
            release = stream.measure(MONTHS[number], frame[arrived <= number])
        ends[name] = np.rint(release.answers).tolist()
    assert ends["arrived"] == [int((arrived <= number).sum()) for number in range(4)]
    assert ends["month"][-1] < 300


def test_a_scheduler_is_told_the_price_of_records_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPECIFICATION)
    table().to_csv("people.csv", index=False)
    run("ledger", "create", "a.ledger", "--dataset", "town", "--mu", "50000")
    publish = ("publish", "town.toml", "--data", "people.csv", "--ledger", "a.ledger", "--period", MONTHS[0])
    for option, text in (("--returns", "4"), ("--returns", "2,0"), ("--revisions", "often")):
        refused = run(*publish, option, text)
        assert (refused.exit_code != 0, ln.Ledger("a.ledger").entries) == (True, ())
    assert run(*publish[:-2], "--revisions", "1").exit_code != 0
    first = run(*publish, "--revisions", "1")
    stream = load_stream(ln.Ledger("a.ledger"), "town")
    assert first.exit_code == 0
    assert stream.price.revisions == 1
    assert first.output.index(str(stream.price).split(" (")[0]) < first.output.index("so far")
    # Later calls go on as it was opened; others are refused.
    assert run(*publish).exit_code == 0
    assert run(*publish, "--revisions", "1").exit_code == 0
    assert run(*publish, "--returns", "2,1").exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--period", "2026-01"), "--ledger"),
        (("--period", "2026-09", "--ledger", "a.ledger"), "2026-01, 2026-02"),
    ],
)
def test_what_a_period_needs_is_said(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPECIFICATION)
    table().to_csv("people.csv", index=False)
    run("ledger", "create", "a.ledger", "--dataset", "town", "--mu", "15000")
    refused = run("publish", "town.toml", "--data", "people.csv", *arguments)
    assert refused.exit_code != 0
    assert says in refused.output
