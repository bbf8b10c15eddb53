"""A ledger in PostgreSQL: the rules of the file, and what only a server can do wrong."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import (
    AlreadySpentError,
    InputError,
    LedgerBusyError,
    LedgerFileError,
    MissingExtraError,
    OverBudgetError,
)
from leastnoise.privacy import GDP, ApproxDP, Ledger, grants_for
from leastnoise.privacy.ledger import postgres_database as postgres
from leastnoise.privacy.ledger import rows, without_password
from leastnoise.privacy.ledger import view as seen
from leastnoise.privacy.ledger.address import parsed
from ledger_stress import TABLE, UNIT, charge_of, new_ledger
from postgres_server import Server, started
from support import extra, refuses
from test_ledger import (  # noqa: F401  (the rules, run again over the fixtures of this file)
    test_a_ledger_within_a_ledgers_transaction_does_not_hang,
    test_a_plan_after_others_is_charged_what_the_largest_cell_grows,
    test_a_plan_after_others_needs_all_of_them_here,
    test_a_release_is_paid_for_once_and_given_out_again,
    test_answers_are_stored_once_and_only_for_what_was_paid,
    test_dataset_and_limit_are_fixed,
    test_each_row_is_parsed_once,
    test_exactly_the_limit_may_be_spent,
    test_heads_printed_earlier_stay_in_the_ledger,
    test_large_releases_are_refused_before_they_are_paid_for,
    test_rows_and_exports_are_plain_and_hold_no_answers,
    test_threads_share_a_ledger,
    test_what_does_not_fit_the_limit_is_refused,
    test_what_was_paid_for_and_never_stored_is_not_replayed,
)
from test_ledger_stress import run

pytestmark = [
    pytest.mark.xdist_group("engines"),
    # A cursor whose connection was cut off cannot be closed, and psycopg says so when it is collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PASSWORD = "canary4711"
names = (f"ledger_{i}" for i in itertools.count())


@pytest.fixture
def path(server: Server) -> str:
    """The address of a ledger that is not there yet; whoever shows the password is found out."""
    return server.url(next(names), password=PASSWORD)


@pytest.fixture
def ledger(path: str) -> Ledger:
    """Room for nine charges; three are spent, of which two are stored."""
    made = new_ledger(path, 9)
    for i in range(3):
        same = replace(TABLE, same_as="r0") if i else TABLE
        entry = made.spend(charge_of(f"plan {i}"), f"r{i}", table=same)
        if i < 2:
            made.store(entry, f"answers {i}".encode())
    return Ledger(path, dataset="people")


def schema_of(ledger: Ledger) -> str:
    return parsed(ledger.address).ledger


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://h/d?ledger=town", "postgresql://h/d?ledger=town"),
        ("postgres://u:first@h:5433/d?ledger=t", "postgresql://u@h:5433/d?ledger=t"),
        ("postgresql://u%40x:second%2F@h/d?ledger=t", "postgresql://u%40x@h/d?ledger=t"),
        ("postgresql://a:1,b:2/d?ledger=t", "postgresql://a:1,b:2/d?ledger=t"),
        ("postgresql://[::1]:5/d?ledger=t", "postgresql://[::1]:5/d?ledger=t"),
        ("postgresql:///d?host=/run/x&ledger=t&password=third", "postgresql://%2Frun%2Fx/d?ledger=t"),
        ("postgresql://h/d?sslmode=require&ledger=t", "postgresql://h/d?ledger=t&sslmode=require"),
        ("postgresql://u:a:b@c@h/d?ledger=t&sslpassword=fourth", "postgresql://u@h/d?ledger=t"),
    ],
)
def test_addresses_are_shown_without_passwords(given: str, shown: str) -> None:
    assert without_password(given) == shown
    # What is shown can be given again.
    assert without_password(shown) == shown
    secrets = [value for name, value in parsed(given).parameters.items() if "password" in name]
    assert not any(secret in repr(parsed(given)) + shown for secret in secrets)


def test_the_driver_reads_the_same_address() -> None:
    """What is left out of an address aside, the driver's own parser is the judge."""
    conninfo = extra("psycopg").conninfo.conninfo_to_dict
    for rest in ("u:p%40:x@h:1,i:2/d?sslmode=require", "u@/d?host=/run", "[::1]/d", "h/d?password=p&user=u"):
        given = f"postgresql://{rest}"
        mine = dict(parsed(f"{given}{'&' if '?' in given else '?'}ledger=town").parameters)
        assert mine == conninfo(given)


@pytest.mark.parametrize(
    "odd",
    [
        "postgresql://h/d",
        "postgresql://h/d?ledger=",
        "postgresql://h/d?ledger=Town",
        "postgresql://h/d?ledger=public",
        "postgresql://h/d?ledger=pg_town",
        "postgresql://h/d?ledger=a%22%3B%20DROP",
        "postgresql://h?ledger=t",
        f"postgresql://h/d?ledger=t&options={PASSWORD}",
        f"postgresql://h/d?ledger=t&{PASSWORD}",
        f"postgresql://h/d?ledger=t&pasword={PASSWORD}",
        f"postgresql://u:{PASSWORD}@h:x:y/d?ledger=t",
        f"postgresql://h/d?ledger=t&password={PASSWORD}&password=x",
        f"postgresql://u:{PASSWORD}%00@h/d?ledger=t",
    ],
)
def test_odd_addresses_are_refused_without_being_repeated(odd: str) -> None:
    with pytest.raises(InputError) as caught:
        Ledger(odd)
    assert PASSWORD not in str(caught.value)
    with refuses(InputError, "address", ..., "is a text, not a Path"):
        Ledger(Path(odd))


def test_without_the_driver_the_line_to_type_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refuses(MissingExtraError, "psycopg", ..., "pip install 'leastnoise[postgres]'"):
        Ledger("postgresql://localhost/d?ledger=town")


# ------------------------------------------------------------------ passwords


def everything_told(error: BaseException) -> str:
    """An error with all it hangs on to, and the variables of every frame."""
    told, found = [], [error]
    while found:
        one = found.pop()
        told.append(f"{one!r} {one}")
        frame = one.__traceback__
        while frame is not None:
            if "leastnoise/ledger" in frame.tb_frame.f_code.co_filename.replace(os.sep, "/"):
                told += [repr(value) for name, value in frame.tb_frame.f_locals.items() if name != "path"]
            frame = frame.tb_next
        found += [other for other in (one.__cause__, one.__context__) if other is not None]
    return " ".join(told)


def test_a_password_is_never_shown(
    server: Server, ledger: Ledger, path: str, tmp_path: Path, caplog: Any, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    with server.plain() as owner:
        owner.execute("DROP ROLE IF EXISTS locked")
        owner.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    wrong = [
        server.url("town", user="locked", password=PASSWORD),
        server.url("town", password=PASSWORD).replace("/postgres?", "/absent?"),
        f"postgresql://tester:{PASSWORD}@127.0.0.1:1/postgres?ledger=town",
        server.url("town", password=PASSWORD) + "&sslmode=require",
        server.url("town", password=PASSWORD) + "&sslmode=nonsense",
    ]
    told = []
    for address in wrong:
        with refuses(LedgerFileError, "ledger", ..., "cannot be reached") as caught:
            Ledger(address, timeout=2)
        told.append(everything_told(caught.value))
    with pytest.raises(OverBudgetError) as refused:
        ledger.check(replace(charge_of(), worst=10 * UNIT, per_cell=None), "too much")
    ledger.export(tmp_path / "x.jsonl")
    told += [str(refused.value), repr(ledger), str(ledger), ledger.address, ledger.name]
    told += [(tmp_path / "x.jsonl").read_text(), str(ledger.rows), repr(ledger._seen.storage)]
    told.append(pickle.dumps(ledger).decode("latin-1"))
    for command in (["show"], ["verify"], ["export", "--out", str(tmp_path / "y.csv")], ["fetch", "absent"]):
        told.append(CliRunner().invoke(app, ["ledger", command[0], path, *command[1:]]).output)
    told += [record.getMessage() for record in caplog.records]
    told += capfd.readouterr()
    assert PASSWORD not in " ".join(told)


def test_a_pickled_ledger_asks_for_its_password_again(ledger: Ledger) -> None:
    # Here the server needs none.
    again = pickle.loads(pickle.dumps(ledger))
    assert again.entries == ledger.entries
    with refuses(InputError, "path", ..., "has no file"):
        ledger.path


# ------------------------------------------------------------------ what commits is kept


def wait_for(server: Server, setting: str, value: str) -> None:
    """Until new connections have it: the settings of the system arrive a moment after they are told."""
    found = ""
    while found != value:
        with server.plain() as other:
            [found] = other.execute(f"SHOW {setting}").fetchone()


@pytest.mark.parametrize("setting", ["synchronous_commit", "fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused(server: Server, ledger: Ledger, setting: str) -> None:
    """Set for a role, or for all."""
    is_for_roles = setting == "synchronous_commit"
    change = "ALTER ROLE tester" if is_for_roles else "ALTER SYSTEM"
    with server.plain() as owner:
        try:
            owner.execute(f"{change} SET {setting} = off")
            owner.execute("SELECT pg_reload_conf()")
            wait_for(server, setting, "off")
            with pytest.raises(LedgerFileError, match=f"runs with {setting} = off.*Nothing was spent"):
                Ledger(ledger.address)
            for step in (ledger.check, ledger.spend):
                with refuses(LedgerFileError, "ledger", ..., f"{setting} = off"):
                    step(charge_of(), "new")
        finally:
            owner.execute(f"{change} RESET {setting}")
            owner.execute("SELECT pg_reload_conf()")
            wait_for(server, setting, "on")
    assert len(Ledger(ledger.address).entries) == 3


def test_a_server_that_only_reads_is_told_before_data_is_read(server: Server, ledger: Ledger) -> None:
    with server.plain() as owner:
        owner.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema_of(ledger)} FROM PUBLIC")
        owner.execute("DROP ROLE IF EXISTS reader")
        owner.execute("CREATE ROLE reader LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {schema_of(ledger)} TO reader")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_of(ledger)} TO reader")
        reader = Ledger(server.url(schema_of(ledger), user="reader"))
        assert len(reader.entries) == 3
        for step in (reader.check, reader.spend):
            with refuses(
                LedgerFileError, "ledger", ..., "may not be used so by this user", "Nothing was spent"
            ):
                step(charge_of(), "new")
        owner.execute("DROP OWNED BY reader")


def test_a_pool_that_changes_sessions_is_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the lock is another session's, as if it had not been asked for in this one."""
    monkeypatch.setattr(postgres.LedgerDatabase, "_wait_for_turn", lambda *_: None)
    with refuses(LedgerFileError, "ledger", ..., "changes sessions between statements; connect"):
        ledger.spend(charge_of(), "new")
    assert len(ledger.entries) == 3


def test_what_is_printed_is_the_present_state(ledger: Ledger) -> None:
    other = Ledger(ledger.address)
    assert "3 releases, left: ρ = 0.0612245 of 0.0918367" in str(other)
    ledger.spend(charge_of(), "new")
    assert "4 releases, left: ρ = 0.0510204 of 0.0918367" in str(other)


def test_a_restored_dump_is_a_sound_ledger_that_a_later_head_tells(server: Server, ledger: Ledger) -> None:
    schema, early = schema_of(ledger), ledger.head
    dump = server.dumped(schema)
    late = ledger.spend(charge_of(), "after the dump").head
    with server.plain() as owner:
        owner.execute(f"DROP SCHEMA {schema} CASCADE")
    server.restore(dump)
    with refuses(LedgerFileError, "row", ..., "older copy"):
        ledger.spend(charge_of(), "new")
    restored = Ledger(ledger.address)
    assert restored.verify(head=early).n_stored == 2
    with refuses(LedgerFileError, "head", ..., "older than the release that printed it"):
        restored.verify(head=late)
    assert restored.spend(charge_of(), "new").charged == UNIT


# ------------------------------------------------------------------ others come first


@contextlib.contextmanager
def no_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the queue: what is left are serialisable transactions."""
    with monkeypatch.context() as patch:
        patch.setattr(postgres.LedgerDatabase, "_wait_for_turn", lambda *_: None)
        patch.setattr(postgres.LedgerDatabase, "_has_turn", lambda *_: True)
        yield


def test_two_racing_spenders_are_serialised_without_the_queue(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the same history when they write: one is told to begin anew, and finds nothing left."""
    new_ledger(path, 1)
    barrier, outcomes, attempts = threading.Barrier(2), [], itertools.count()
    right = seen.SeenLedger._read

    def together(self: Any, log: Any) -> Any:
        found = right(self, log)
        if next(attempts) < 2:
            barrier.wait(10)
        return found

    def spend(name: str) -> None:
        mine = ledgers[name]
        try:
            outcomes.append(mine.spend(charge_of(), name).release_id)
        except OverBudgetError:
            outcomes.append("refused")

    ledgers = {name: Ledger(path) for name in ("a", "b")}
    with no_turns(monkeypatch), monkeypatch.context() as patch:
        patch.setattr(seen.SeenLedger, "_read", together)
        threads = [threading.Thread(target=spend, args=(name,)) for name in ledgers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert next(attempts) > 2
    assert "refused" in outcomes
    [entry] = Ledger(path).entries
    assert sorted(outcomes) == sorted([entry.release_id, "refused"])


def test_who_is_always_overtaken_is_told(
    server: Server, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else writes between every reading and writing of ours."""
    monkeypatch.setattr(seen, "_FIRST_WAIT", 0.0)
    other, n_before = Ledger(ledger.address), itertools.count()
    right = postgres.PostgresLog.append

    def overtaken(self: Any, row: Any) -> None:
        monkeypatch.setattr(postgres.PostgresLog, "append", right)
        other.spend(replace(charge_of(), worst=UNIT * 0, per_cell=None), f"other {next(n_before)}")
        monkeypatch.setattr(postgres.PostgresLog, "append", overtaken)
        right(self, row)

    with no_turns(monkeypatch):
        monkeypatch.setattr(postgres.PostgresLog, "append", overtaken)
        with refuses(LedgerBusyError, "ledger", ..., "first in each of 12 attempts", "Nothing was spent"):
            ledger.spend(charge_of(), "mine")
        monkeypatch.setattr(postgres.PostgresLog, "append", right)
    assert len(ledger.entries) == 3 + seen.MAX_ATTEMPTS
    assert ledger.spend(charge_of(), "mine").release_id == "mine"


def test_who_waits_too_long_is_told_and_who_goes_on_is_next(server: Server, ledger: Ledger) -> None:
    hasty = Ledger(ledger.address, timeout=0.01)
    storage: Any = ledger._seen.storage
    asked = []

    def until_released() -> bool:
        asked.append(True)
        if len(asked) == 2:
            other.close()
        return True

    with server.plain() as other:
        other.execute(f"SELECT pg_advisory_lock({storage._turn})")
        # Readers wait for nobody.
        assert len(hasty.entries) == 3
        with refuses(LedgerBusyError, "ledger", ..., "longer with timeout=. Nothing was spent"):
            hasty.check(charge_of(), "new")
        with refuses(LedgerBusyError, "ledger", ..., "must not be handed out"):
            hasty.store(ledger.entries[2], b"x")
        hasty.store(ledger.entries[2], b"x", keep_waiting=until_released)
    assert len(asked) >= 2
    assert ledger.verify().n_stored == 3


# ------------------------------------------------------------------ a connection that is lost


class Losing:
    """A connection that is lost as COMMIT is sent, before or after it takes effect."""

    def __init__(self, connection: Any, takes_effect: bool) -> None:
        self._connection, self._takes_effect = connection, takes_effect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *arguments: Any, **settings: Any) -> Any:
        if statement != "COMMIT":
            return self._connection.execute(statement, *arguments, **settings)
        if self._takes_effect:
            self._connection.execute(statement)
        os.close(os.dup(self._connection.fileno()))
        self._connection.pgconn.finish()
        raise extra("psycopg").OperationalError("the connection is lost")


def losing(monkeypatch: pytest.MonkeyPatch, *outcomes: bool) -> list[bool]:
    """Lose the connection at the first commits, which take effect or not."""
    left = list(outcomes)
    right = postgres.LedgerDatabase._commits

    def lost(self: Any, log: Any, *arguments: Any) -> bool:
        if left and log.last_added is not None:
            log.connection = Losing(log.connection, left.pop(0))
        return right(self, log, *arguments)

    monkeypatch.setattr(postgres.LedgerDatabase, "_commits", lost)
    return left


@pytest.mark.parametrize("outcomes", [(True,), (False,), (False, False, True), (False,) * 3])
def test_a_commit_of_unknown_outcome_is_resolved(
    ledger: Ledger, outcomes: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = losing(monkeypatch, *outcomes)
    entry = ledger.spend(charge_of(), "new", table=TABLE)
    assert left == []
    assert [e.release_id for e in Ledger(ledger.address).entries] == ["r0", "r1", "r2", "new"]
    losing(monkeypatch, *outcomes)
    ledger.store(entry, b"noisy")
    assert ledger.check(charge_of(), "new") == b"noisy"
    assert ledger.verify().n_entries == 4


@pytest.mark.thorough
def test_a_server_that_crashes_forgets_nothing_that_was_paid() -> None:
    """Four spend while it crashes and starts again; those that it lost during COMMIT wait and look."""
    extra("psycopg")
    with started() as own:
        place = own.url("town")
        new_ledger(place, 10**6)
        paid: list[str] = []
        enough = threading.Event()

        def spend(name: int) -> None:
            mine = Ledger(place, timeout=60)
            with contextlib.suppress(LedgerFileError):
                for i in itertools.count():
                    paid.append(mine.spend(charge_of(), f"{name}-{i}").release_id)
                    if len(paid) >= 20:
                        enough.set()
                    if is_over.is_set():
                        return

        is_over = threading.Event()
        threads = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            assert enough.wait(60)
            own.crash_and_start()
        is_over.set()
        for thread in threads:
            thread.join()
        found = Ledger(place)
        recorded = [entry.release_id for entry in found.entries]
        assert sorted(recorded) == sorted(paid)
        assert found.verify().n_entries == len(set(paid)) >= 20


class Ending(Losing):
    """A connection whose session the server ends while COMMIT is on its way: nobody knows what came first."""

    server: Server

    def execute(self, statement: str, *arguments: Any, **settings: Any) -> Any:
        if statement != "COMMIT":
            return super().execute(statement, *arguments, **settings)
        wire, session = self._connection.pgconn, self._connection.info.backend_pid
        with self.server.plain() as owner:
            wire.send_query(b"COMMIT")
            wire.flush()
            owner.execute("SELECT pg_terminate_backend(%s)", (session,))
        wire.finish()
        raise extra("psycopg").OperationalError("the connection is lost")


def test_sessions_that_are_ended_as_they_commit(
    server: Server, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new_ledger(path, 99)
    monkeypatch.setattr(Ending, "server", server, raising=False)
    right = postgres.LedgerDatabase._commits
    ends = [True]

    def ended(self: Any, log: Any, *arguments: Any) -> bool:
        # The first attempt of each release is lost, the next is not.
        if log.last_added is not None and ends.pop():
            ends.append(False)
            log.connection = Ending(log.connection, True)
        else:
            ends.append(True)
        return right(self, log, *arguments)

    monkeypatch.setattr(postgres.LedgerDatabase, "_commits", ended)
    for i in range(12):
        ends[:] = [True]
        assert ledger.spend(charge_of(), f"r{i}").head == ledger.head
    found = Ledger(path)
    assert [entry.release_id for entry in found.entries] == [f"r{i}" for i in range(12)]
    assert found.remaining.mu_squared == 87 * UNIT


def test_a_lost_commit_is_not_taken_for_somebody_elses(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours had no effect; before we look, another has paid for the same release in the same second."""
    monkeypatch.setattr("leastnoise.privacy.ledger.history._now", lambda: "2026-11-16T00:00:00Z")
    losing(monkeypatch, False)
    other, right = Ledger(ledger.address), postgres.LedgerDatabase._took_effect
    entries = []

    def later(self: Any, lost: Any, *arguments: Any) -> bool:
        entries.append(other.spend(charge_of(), "new"))
        assert lost.last_added == entries[0].number
        return right(self, lost, *arguments)

    monkeypatch.setattr(postgres.LedgerDatabase, "_took_effect", later)
    with refuses(AlreadySpentError, "release_id", "new", "in the meantime"):
        ledger.spend(charge_of(), "new")
    assert len(ledger.entries) == 4


def test_a_server_that_stays_away_leaves_the_outcome_open(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = Ledger(ledger.address, timeout=0.3)
    losing(monkeypatch, True)
    right = postgres.LedgerDatabase._took_effect

    def away(self: Any, *arguments: Any) -> bool:
        def gone(*_: Any) -> Any:
            raise LedgerFileError("cannot be reached")

        with monkeypatch.context() as patch:
            patch.setattr(postgres.LedgerDatabase, "_connected", gone)
            return right(self, *arguments)

    monkeypatch.setattr(postgres.LedgerDatabase, "_took_effect", away)
    with refuses(LedgerFileError, "ledger", ..., "may be paid for; no noise was drawn") as caught:
        hasty.spend(charge_of(), "new")
    assert "Nothing was spent" not in str(caught.value)
    # It was, and its id is used up.
    with pytest.raises(AlreadySpentError):
        hasty.check(charge_of(), "new")


def test_a_session_that_is_ended_half_way_costs_nothing(
    server: Server, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = postgres.PostgresLog.append

    def ended(self: Any, row: Any) -> None:
        right(self, row)
        with server.plain() as owner:
            owner.execute("SELECT pg_terminate_backend(%s)", (self.connection.info.backend_pid,))

    monkeypatch.setattr(postgres.PostgresLog, "append", ended)
    with refuses(LedgerFileError, "ledger", ..., "was lost. Nothing was spent"):
        ledger.spend(charge_of(), "new", table=TABLE)
    assert len(ledger.entries) == 3


def test_a_paid_release_survives_a_lost_commit(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, dataset="town", limit=ApproxDP(1, 1e-6))
    schema = ln.Schema(sex=("F", "M"))
    plan = ln.design(ln.assemble([ln.Marginal("sex")], schema), ApproxDP(0.5, 1e-6))
    losing(monkeypatch, False, True)
    given = ln.measure(plan, [310, 290], ledger=ledger, release_id="first")
    again = ln.measure(plan, [310, 290], ledger=ledger, release_id="first")
    assert given.answers.tolist() == again.answers.tolist()
    assert [entry.is_stored for entry in ledger.entries] == [True]


# ------------------------------------------------------------------ append-only


def test_a_role_that_releases_may_add_and_not_change(server: Server, ledger: Ledger) -> None:
    schema = schema_of(ledger)
    with server.plain() as owner:
        owner.execute("DROP ROLE IF EXISTS analyst")
        owner.execute("CREATE ROLE analyst LOGIN")
        try:
            owner.execute(grants_for(ledger.address, "analyst"))
            analyst = Ledger(server.url(schema, user="analyst"))
            analyst.check(charge_of(), "new", table=TABLE)
            analyst.store(analyst.spend(charge_of(), "new", table=replace(TABLE, same_as="r0")), b"noisy")
            assert analyst.verify().n_stored == 3
            assert analyst.new_digest().digest() == ledger.new_digest().digest()
            with server.plain(user="analyst") as connection:
                for table in ("log", "answers", "versions", "secret"):
                    for statement in (
                        f"UPDATE {schema}.{table} SET number = 9",
                        f"DELETE FROM {schema}.{table}",
                        f"TRUNCATE {schema}.{table}",
                        f"ALTER TABLE {schema}.{table} DISABLE TRIGGER ALL",
                        f"DROP TABLE {schema}.{table}",
                    ):
                        with pytest.raises(extra("psycopg").errors.InsufficientPrivilege):
                            connection.execute(statement)
                with pytest.raises(extra("psycopg").Error, match="does not follow"):
                    connection.execute(
                        f"INSERT INTO {schema}.log SELECT number + 1, kind, content, profile, digest, mark "
                        f"FROM {schema}.log ORDER BY number DESC LIMIT 1"
                    )
        finally:
            owner.execute("DROP OWNED BY analyst")
    assert ledger.verify().n_entries == 4


def test_triggers_refuse_the_owner_too(server: Server, ledger: Ledger) -> None:
    schema = schema_of(ledger)
    with server.plain() as owner:
        owner.execute("SET session_replication_role = replica")
        for table in ("log", "answers", "versions", "secret"):
            for change in (f"UPDATE {schema}.{table} SET number = 9", f"DELETE FROM {schema}.{table}"):
                with pytest.raises(extra("psycopg").Error, match="a ledger only grows"):
                    owner.execute(change)
            with pytest.raises(extra("psycopg").Error, match="a ledger only grows"):
                owner.execute(f"TRUNCATE {schema}.{table}")
    assert ledger.verify().n_entries == 3


def edit(server: Server, schema: str, *changes: tuple[Any, ...]) -> None:
    """What an owner can do: switch the triggers off, change rows, and switch them on again."""
    with server.plain() as owner, owner.transaction():
        owner.execute(f"SET LOCAL search_path = {schema}")
        for table in ("log", "answers", "versions", "secret"):
            owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for statement, *values in changes:
            assert owner.execute(statement, values).rowcount != 0
        for table in ("log", "answers", "versions", "secret"):
            owner.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER only_grows")
        owner.execute("ALTER TABLE log ENABLE ALWAYS TRIGGER follows")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE log SET content = replace(content, '"worst":"1/49"', '"worst":"1/98"') WHERE number = 1""",
        "UPDATE log SET content = content || ' ' WHERE number = 1",
        "UPDATE log SET kind = 'store' WHERE number = 1",
        "UPDATE log SET profile = NULL WHERE number = 1",
        "UPDATE log SET digest = upper(digest) WHERE number = 3",
        "UPDATE log SET number = 17 WHERE number = 5",
        "DELETE FROM log WHERE number = 3",
        "DELETE FROM log",
        "INSERT INTO log SELECT 99, kind, content, profile, digest, mark FROM log WHERE number = 1",
        "UPDATE answers SET body = '\\x00' WHERE number = 1",
        "DELETE FROM answers WHERE number = 1",
        "INSERT INTO answers VALUES (5, '\\x00')",
        "UPDATE versions SET digest = nonce WHERE number = 1",
        "DELETE FROM versions WHERE number = 1",
        "UPDATE secret SET key = '\\x00'",
        "DELETE FROM secret",
    ],
)
def test_what_its_owner_alters_is_found(server: Server, ledger: Ledger, statement: str) -> None:
    edit(server, schema_of(ledger), (statement,))
    with pytest.raises(LedgerFileError):
        ledger.verify()
    with pytest.raises(LedgerFileError):
        Ledger(ledger.address).verify()


def test_rows_that_are_taken_off_the_end_are_found_by_who_saw_them(server: Server, ledger: Ledger) -> None:
    noted = ledger.entries[2].head
    edit(
        server,
        schema_of(ledger),
        ("DELETE FROM log WHERE number = 5",),
        ("DELETE FROM versions WHERE number = 5",),
    )
    with refuses(LedgerFileError, "row", ..., "older copy"):
        ledger.spend(charge_of(), "new")
    # Alone it is a sound ledger that has forgotten something, as a backup that was restored.
    assert Ledger(ledger.address).verify().n_entries == 2
    with refuses(LedgerFileError, "head", ..., "does not contain the head"):
        Ledger(ledger.address).verify(head=noted)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (x int)",
        "CREATE VIEW more AS SELECT 1",
        "ALTER TABLE log ADD COLUMN more int",
        "ALTER TABLE log ALTER content TYPE varchar",
        "ALTER TABLE log ALTER digest DROP NOT NULL",
        "ALTER TABLE log DROP CONSTRAINT log_pkey",
        "ALTER TABLE log SET UNLOGGED",
        "ALTER TABLE log DISABLE TRIGGER only_grows",
        "ALTER TABLE log ENABLE TRIGGER follows",
        "ALTER TABLE log ENABLE ROW LEVEL SECURITY",
        "DROP TRIGGER only_grows ON secret",
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE RULE quietly AS ON INSERT TO log DO INSTEAD NOTHING",
        "CREATE TRIGGER more AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION refuse()",
        "DROP TABLE answers",
    ],
)
def test_other_tables_than_a_ledgers_are_refused(server: Server, ledger: Ledger, statement: str) -> None:
    with server.plain() as owner, owner.transaction():
        owner.execute(f"SET LOCAL search_path = {schema_of(ledger)}")
        owner.execute(statement)
    for step in (lambda: Ledger(ledger.address), lambda: ledger.spend(charge_of(), "new")):
        with refuses(LedgerFileError, "tables", ..., "other tables or triggers"):
            step()


def test_a_schema_that_is_there_already(server: Server) -> None:
    with server.plain() as owner:
        name = next(names)
        owner.execute(f"CREATE SCHEMA {name}")
        # Empty, it is what somebody made who may; filled, it is somebody else's.
        assert Ledger(server.url(name), dataset="people", limit=GDP(1)).entries == ()
        name = next(names)
        owner.execute(f"CREATE SCHEMA {name}; CREATE TABLE {name}.log (x int)")
        with refuses(LedgerFileError, "tables", ..., "other tables or triggers"):
            Ledger(server.url(name), dataset="people", limit=GDP(1))
        with refuses(LedgerFileError, "path", ..., "there is no ledger"):
            Ledger(server.url(next(names)), dataset="people")


def test_the_server_computes_the_digests_of_rows(path: str) -> None:
    """The trigger is a second reading of `rows.digest_of`: rows of all kinds pass, and nothing else."""
    ledger = new_ledger(path, 9)
    storage: Any = ledger._seen.storage
    for profile, kind in ((None, "x"), (b"", "ä"), (bytes(range(256)), "spend")):
        row = rows.sealed(ledger.head, 1, kind, {"a": "b"}, profile)
        for wrong in (
            {"content": "{}"},
            {"kind": "y"},
            {"profile": b"other"},
            {"profile": b"" if profile is None else None},
            {"number": 2},
            {"digest": "0" * 64},
        ):
            with pytest.raises(seen.OvertakenError):
                add(storage, row._replace(**wrong))
        add(storage, row)


def add(storage: Any, row: rows.Row) -> None:
    """Add a row, and take it back if the server has let it pass."""
    with storage.transaction(writes=True, timeout=9, aftermath="") as log:
        log.append(row)
        log.undo()


# ------------------------------------------------------------------ from a shell


def shell(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.mark.thorough
def test_every_command_takes_an_address(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("sex\n" + "F\nM\n" * 40)
    (tmp_path / "town.toml").write_text(
        '[schema]\nsex = ["F", "M"]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n'
        '[[query]]\nkind = "marginal"\nattributes = ["sex"]\n'
    )
    place, shown = server.url(next(names), password=PASSWORD), ""
    made = shell("ledger", "create", place, "--dataset", "town", "--epsilon", "3", "--delta", "1e-6")
    assert made.exit_code == 0, made.output
    assert "release with --ledger 'postgresql://tester@" in made.output
    again = shell("ledger", "create", place, "--dataset", "town", "--epsilon", "3", "--delta", "1e-6")
    assert again.exit_code != 0
    assert f"'{without_password(place)}' exists already" in again.output
    publish = ("publish", "town.toml", "--data", "people.csv", "--ledger", place)
    for words in (
        (*publish, "--release-id", "first"),
        ("ledger", "show", place),
        ("ledger", "verify", place),
        ("ledger", "export", place, "--out", "rows.csv"),
        ("ledger", "fetch", place, "first", "--out", "again.csv"),
        ("ledger", "grants", place, "analysts"),
        ("ledger", "move", place, "town.ledger"),
        ("ledger", "show", place),
        ("ledger", "show", "town.ledger"),
    ):
        done = shell(*words)
        assert done.exit_code == 0, done.output
        shown += done.output
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "town-answers.csv").read_bytes()
    assert "closed   moved to town.ledger" in shown
    assert 'TO "analysts";' in shown
    refused = shell(*publish, "--release-id", "second", "--out", "second.csv")
    assert refused.exit_code != 0
    assert "is closed: it was moved to 'town.ledger'" in refused.output
    assert PASSWORD not in shown + refused.output + made.output + again.output


# ------------------------------------------------------------------ many processes, killed at random


@pytest.mark.thorough
def test_many_processes_killed_at_random(server: Server) -> None:
    """32 processes with two connections each; `make audit` kills 500 of them."""
    found = run("crowd", "--processes", 32, "--kills", 24, "--ledger", server.url(next(names)))
    assert found["right"], found
    assert found["killed"] == 24
    assert found["paid"] >= found["stored"] >= found["handed out"] > 0


@pytest.mark.thorough
def test_a_planted_twin_is_caught_by_the_crowd(server: Server) -> None:
    """Of some 40 threads that are killed, each is between handing out and paying for a third of its time."""
    found = run(
        "crowd",
        "--processes",
        8,
        "--kills",
        20,
        "--order",
        "pays_afterwards",
        "--ledger",
        server.url(next(names)),
    )
    assert not found["right"]
    assert found["unpaid"] > 0
