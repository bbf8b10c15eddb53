"""Releases that a ledger pays for: check, read, spend, draw, store, hand out."""

from __future__ import annotations

import pickle
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.bounds import ProductWitness
from leastnoise.core.errors import (
    AlreadySpentError,
    DataError,
    InputError,
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    OverBudgetError,
    PlanFileError,
    RandomnessError,
    StoringDelayed,
    UnstoredError,
)
from leastnoise.core.interruption import Interruption
from leastnoise.privacy.ledger.sqlite_log import SqliteLog
from leastnoise.release import measuring, paid
from leastnoise.release import release_file as reading
from support import refuses
from test_ledger import no_room_beyond

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"))
COUNTS = np.arange(12)


def plan_of(goal: Any = None) -> ln.Plan:
    asked = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], SCHEMA)
    return ln.design(asked, goal or ln.GDP(1))


@pytest.fixture
def ledger(tmp_path: Path) -> ln.Ledger:
    return ln.Ledger(tmp_path / "budget.db", dataset="town", limit=ln.GDP(2))


def test_a_release_is_paid_for_stored_and_handed_out(ledger: ln.Ledger, tmp_path: Path) -> None:
    plan = plan_of()
    given = ln.measure(plan, COUNTS, ledger=ledger, release_id="first")
    (entry,) = ledger.entries
    assert entry.release_id == "first" and entry.stored is not None
    assert entry.charge.plan_digest == plan.digest
    assert given.receipt is not None
    assert given.receipt.head == entry.head
    again = ln.load_release(given.save(tmp_path / "a.release"))
    assert again.receipt == given.receipt
    ledger.verify(head=given.receipt.head)


def test_asking_again_costs_nothing_and_reads_nothing(ledger: ln.Ledger) -> None:
    plan = plan_of()
    first = ln.measure(plan, COUNTS, ledger=ledger, release_id="first")
    left = ledger.remaining.mu_squared
    again = ln.measure(plan, "no such file.csv", ledger=ledger, release_id="first")
    assert (again.measurements == first.measurements).all()
    assert ledger.remaining.mu_squared == left
    fresh = ln.measure(plan, COUNTS, ledger=ledger)
    assert (fresh.measurements != first.measurements).any()
    assert fresh.receipt is not None and fresh.receipt.release_id != "first"
    with pytest.raises(LedgerMismatchError):
        ln.measure(plan_of(ln.GDP(0.5)), COUNTS, ledger=ledger, release_id="first")


def test_what_the_budget_does_not_hold_is_refused_before_data_is_read(ledger: ln.Ledger) -> None:
    for _ in range(4):
        ln.measure(plan_of(), COUNTS, ledger=ledger)
    with pytest.raises(OverBudgetError):
        ln.measure(plan_of(), "no such file.csv", ledger=ledger)
    assert len(ledger.entries) == 4


def test_a_table_that_cannot_be_read_costs_nothing(ledger: ln.Ledger) -> None:
    with pytest.raises(DataError):
        ln.measure(plan_of(), "no such file.csv", ledger=ledger)
    with pytest.raises(DataError):
        ln.measure(plan_of(), [1, 2, 3], ledger=ledger)
    assert ledger.entries == ()


def test_a_generator_that_fails_leaves_the_budget_spent(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RandomnessError("no randomness")

    monkeypatch.setattr(measuring, "rounded_gaussian", fails)
    with pytest.raises(RandomnessError):
        ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="broken")
    monkeypatch.undo()
    (entry,) = ledger.entries
    assert entry.stored is None
    with pytest.raises(AlreadySpentError):
        ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="broken")


def test_noise_is_drawn_after_spending_and_handed_out_after_storing(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watched(name: str, do: Any) -> Any:
        def act(*args: Any, **given: Any) -> Any:
            seen.append(name)
            return do(*args, **given)

        return act

    for name in ("check", "spend", "store"):
        monkeypatch.setattr(ln.Ledger, name, watched(name, getattr(ln.Ledger, name)))
    monkeypatch.setattr(measuring, "_read", watched("read", measuring._read))
    monkeypatch.setattr(measuring, "rounded_gaussian", watched("draw", measuring.rounded_gaussian))
    ln.measure(plan_of(), COUNTS, ledger=ledger)
    assert seen == ["check", "read", "spend", "draw", "store"]


def test_structured_plans_are_paid_for_by_their_worst_cell(tmp_path: Path) -> None:
    schema = ln.Schema(**{f"a{i}": range(10) for i in range(30)})
    plan = ln.design(ln.assemble([ln.Cube(*schema.names, order=1)], schema), ln.GDP(1))
    assert plan.charge.per_cell is None
    assert plan.charge.worst == plan.strategy.spent if plan.strategy else False
    book = ln.Ledger(tmp_path / "b.db", dataset="wide", limit=ln.GDP(1.2))
    import pandas

    table = pandas.DataFrame({name: np.arange(20) % 10 for name in schema.names})
    given = ln.measure(plan, table, ledger=book)
    assert given.receipt is not None
    with pytest.raises(OverBudgetError):
        ln.measure(plan, table, ledger=book)


def test_arguments_that_make_no_sense(ledger: ln.Ledger, tmp_path: Path) -> None:
    with refuses(InputError, "release_id", "first"):
        ln.measure(plan_of(), COUNTS, release_id="first")
    with refuses(InputError, "ledger", str):
        ln.measure(plan_of(), COUNTS, ledger="budget.db")  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        ln.measure(plan_of(ln.GDP(1, neighbours="replace-one")), COUNTS, ledger=ledger)
    given = ln.measure(plan_of(), COUNTS, ledger=ledger)
    content, arrays = given._to_parts()
    with refuses(PlanFileError, "path", "x"):
        reading.release_from_parts({**content, "receipt": {"head": 7}}, arrays, "x")


@pytest.mark.thorough
def test_the_ledger_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,sex\n" + "3,F\n2,M\n" * 20)
    Path("ask.toml").write_text(
        '[schema]\nage = { bins = [0, 1, 2, 3, 4, 5] }\nsex = { categories = ["F", "M"] }\n'
        "[privacy]\nepsilon = 1\ndelta = 1e-6\n"
        '[[query]]\nkind = "marginal"\nattributes = ["age", "sex"]\n'
    )

    def run(*words: str, ok: bool = True) -> str:
        done = CliRunner().invoke(app, words)
        assert (done.exit_code == 0) == ok, done.output
        return done.output

    missing = run("publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", ok=False)
    assert "leastnoise ledger create b.db" in missing
    begun = run("ledger", "create", "b.db", "--dataset", "d", "--epsilon", "1.5", "--delta", "1e-6")
    assert "left: ε = 1.5" in begun
    assert "exists already" in run("ledger", "create", "b.db", "--dataset", "d", "--mu", "1", ok=False)
    assert "nothing was released yet" in run("ledger", "show", "b.db")
    done = run("publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", "--release-id", "spring")
    assert "release id spring" in done
    first = Path("ask-answers.csv").read_text()
    run(
        "publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", "--release-id", "spring", "--force"
    )
    assert Path("ask-answers.csv").read_text() == first
    assert "spring" in run("ledger", "show", "b.db")
    assert "1 of them stored" in run("ledger", "verify", "b.db")
    assert "head" in run("ledger", "verify", "b.db", "--head", "0" * 64, ok=False)
    run("ledger", "export", "b.db", "-o", "rows.csv")
    assert "spring" in Path("rows.csv").read_text()
    refused = run("ledger", "create", "c.db", "--dataset", "d", "--rho", "1", "--mu", "1", ok=False)
    assert "--epsilon" in refused


# ------------------------------------------------------------------ what is paid for is stored


@pytest.fixture
def hasty(ledger: ln.Ledger) -> ln.Ledger:
    """The same ledger, opened by somebody who waits for a hundredth of a second."""
    return ln.Ledger(ledger.path, timeout=0.01)


@pytest.fixture
def reader(ledger: ln.Ledger) -> Iterator[sqlite3.Connection]:
    """Somebody who reads the file by other means."""
    with closing(sqlite3.connect(ledger.path, isolation_level=None, timeout=0)) as connection:
        yield connection


def begin_to_read(reader: sqlite3.Connection) -> None:
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM log").fetchone()


def before_storing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen once, between paying and storing."""
    right, done = ln.Ledger.store, list[bool]()

    def store(*given: Any, **options: Any) -> None:
        if not done:
            done.append(True)
            act()
        right(*given, **options)

    monkeypatch.setattr(ln.Ledger, "store", store)


def while_waiting(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> list[int]:
    """Have something happen when it is asked for the n-th time whether to go on."""
    right, asked = Interruption.is_heard, list[int]()

    def is_heard(self: Interruption) -> bool:
        asked.append(len(asked))
        if len(asked) == number:
            act()
        assert isinstance(right, property) and right.fget is not None
        return bool(right.fget(self))

    monkeypatch.setattr(Interruption, "is_heard", property(is_heard))
    return asked


def test_a_reader_delays_storing_and_does_not_defeat_it(
    hasty: ln.Ledger, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held past the time-out, a reader used to make a paid release unstorable: paid and lost."""
    before_storing(monkeypatch, lambda: begin_to_read(reader))
    asked = while_waiting(monkeypatch, 5, lambda: reader.execute("ROLLBACK"))
    given = ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first")
    assert len(asked) >= 5 and hasty.entries[0].is_stored
    assert (ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first").answers == given.answers).all()


def test_no_new_reader_comes_in_while_a_release_waits_to_be_stored(
    hasty: ln.Ledger, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that take turns, each before the last is done, could otherwise keep it out for ever."""
    refused = []

    def next_reader() -> None:
        with closing(sqlite3.connect(hasty.path, isolation_level=None, timeout=0)) as other:
            try:
                begin_to_read(other)
            except sqlite3.OperationalError as error:
                refused.append(str(error))
        reader.execute("ROLLBACK")

    before_storing(monkeypatch, lambda: begin_to_read(reader))
    while_waiting(monkeypatch, 5, next_reader)
    ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first")
    assert refused == ["database is locked"] and hasty.entries[0].is_stored


def test_a_writer_delays_storing_and_does_not_defeat_it(
    hasty: ln.Ledger, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_storing(monkeypatch, lambda: reader.execute("BEGIN EXCLUSIVE"))
    while_waiting(monkeypatch, 9, lambda: reader.execute("ROLLBACK"))
    ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first")
    assert hasty.entries[0].is_stored


def test_a_full_disk_delays_storing(ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as full:
        # One page can still be written, and the answers take more.
        before_storing(monkeypatch, lambda: full.enter_context(no_room_beyond(4096)))
        monkeypatch.setattr(paid, "pause", lambda *_: full.close())
        with pytest.warns(StoringDelayed, match=r"paid for and cannot be stored yet: .*disk"):
            ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="first")
    assert ledger.entries[0].is_stored and ledger.verify().n_stored == 1


def test_who_stops_storing_keeps_the_answers(
    hasty: ln.Ledger, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    before_storing(monkeypatch, lambda: begin_to_read(reader))
    while_waiting(monkeypatch, 3, lambda: signal.raise_signal(signal.SIGINT))
    try:
        with refuses(
            UnstoredError,
            "release_id",
            "first",
            "'first' is paid for and its answers are not stored",
        ) as caught:
            ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first")
    finally:
        signal.signal(signal.SIGINT, before)
    error = caught.value
    assert error.release_id == "first" and not hasty.entries[0].is_stored
    with pytest.raises(TypeError, match="do not leave this process"):
        pickle.dumps(error)
    reader.execute("ROLLBACK")
    given = error.store()
    assert hasty.entries[0].is_stored and len(hasty.entries) == 1
    stored = ln.measure(plan_of(), COUNTS, ledger=hasty, release_id="first")
    assert (stored.measurements == given.measurements).all()
    # Once more does no harm: what is stored is what was given.
    assert (error.store().measurements == given.measurements).all()
    # Nothing but store() hands out the noisy integers.
    shown = repr((error, error.args, vars(error)))
    assert not any(str(number) in shown for number in given.measurements if abs(number) > 99)


def test_answers_that_are_stored_otherwise_are_not_handed_out(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SqliteLog.add_answers

    def altered(log: SqliteLog, number: int, body: bytes) -> None:
        right(log, number, body[:-1] + bytes([body[-1] ^ 1]))

    monkeypatch.setattr(SqliteLog, "add_answers", altered)
    monkeypatch.setattr(paid, "pause", lambda seconds, interruption: interruption.hear(2, None))
    # Spark, where it ran before in this process, has left a handler of its own, which would be called.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(StoringDelayed), refuses(UnstoredError, "release_id", ..., "missing or altered"):
            ln.measure(plan_of(), COUNTS, ledger=ledger)
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_warnings_are_errors_the_answers_are_kept(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy() -> None:
        raise LedgerBusyError("others hold it.")

    before_storing(monkeypatch, busy)
    with refuses(UnstoredError, "release_id", "first", "others hold it") as caught:
        ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="first")
    assert caught.value.store().receipt is not None and ledger.entries[0].is_stored


@pytest.mark.parametrize("method", ["marginals", "residuals", "dense"])
def test_a_plan_over_one_cell_is_read_back(ledger: ln.Ledger, method: str) -> None:
    """Plans over one cell used to be paid for, stored and unreadable."""
    plan = ln.design(ln.assemble([ln.Total()], ln.Schema(a=("x",))), ln.GDP(1), method=method)
    given = ln.measure(plan, [5], ledger=ledger, release_id="first")
    again = ln.measure(plan, [5], ledger=ledger, release_id="first")
    assert (again.measurements == given.measurements).all()


def test_a_plan_that_could_not_be_read_back_costs_nothing(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ln.design(ln.assemble([ln.Total()], ln.Schema(a=("x",))), ln.GDP(1), method="marginals")
    right = ProductWitness.to_arrays

    def as_it_was(witness: ProductWitness) -> dict[str, Any]:
        arrays = right(witness)
        return {**arrays, "q_sizes": arrays["q_sizes"].astype(float)}

    monkeypatch.setattr(ProductWitness, "to_arrays", as_it_was)
    with refuses(PlanFileError, "plan", None, "could not be read back from a ledger", "Nothing was spent"):
        ln.measure(plan, "no such file.csv", ledger=ledger)
    monkeypatch.setattr(paid, "plan_from_parts", lambda *_: plan_of())
    with refuses(PlanFileError, "plan", None, "as another"):
        ln.measure(plan_of(ln.GDP(0.5)), COUNTS, ledger=ledger)
    assert ledger.entries == ()


@pytest.mark.thorough
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_in_a_shell_has_to_be_meant(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("sex\nF\nM\n")
    Path("ask.toml").write_text(
        '[schema]\nsex = { categories = ["F", "M"] }\n[privacy]\nmu = 1\n[[query]]\nkind = "total"\n'
    )
    ledger = ln.Ledger("b.db", dataset="d", limit=ln.GDP(2))
    right, pressed = ln.Ledger.store, list[int]()

    def store(*given: Any, **options: Any) -> None:
        if len(pressed) < times:
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)
            raise LedgerBusyError("others hold it.")
        right(*given, **options)

    monkeypatch.setattr(ln.Ledger, "store", store)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asked = ("publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", "--release-id", "spring")
        done = CliRunner().invoke(app, asked)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "release spring is paid for and not stored yet: still trying" in done.output
    assert ledger.entries[0].is_stored is (times == 1)
    assert (done.exit_code == 0) is (times == 1)
    if times == 2:
        assert "its answers are lost; its budget stays spent. A new --release-id pays again" in done.output
