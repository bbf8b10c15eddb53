"""The ledger: nothing unpaid, nothing twice, nothing altered unseen."""

from __future__ import annotations

import csv
import json
import os
import pickle
import resource
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import (
    AlreadySpentError,
    InputError,
    LedgerBusyError,
    LedgerError,
    LedgerFileError,
    LedgerMismatchError,
    OverBudgetError,
    TooLargeError,
)
from leastnoise.privacy import GDP, ZCDP, ApproxDP, CellCosts, Charge, CountedTable, Ledger, PureDP
from leastnoise.privacy.ledger import history, rows, spending, storage
from leastnoise.privacy.ledger import sqlite_file as file
from leastnoise.privacy.ledger.history import closing_row, continuing_row, spend_row
from leastnoise.privacy.ledger.rows import sealed
from ledger_stress import TABLE, UNIT, charge_of, new_ledger
from support import refuses


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger's file with room for nine charges; three are spent, of which two are stored."""
    made = new_ledger(tmp_path_factory.mktemp("ledger") / "people.ledger", 9)
    for i in range(3):
        same = replace(TABLE, same_as="r0") if i else TABLE
        entry = made.spend(charge_of(f"plan {i}"), f"r{i}", table=same)
        if i < 2:
            made.store(entry, f"answers {i}".encode())
    return made.path.read_bytes()


@pytest.fixture
def ledger(path: Path, content: bytes) -> Ledger:
    path.write_bytes(content)
    return Ledger(path, dataset="people")


def costing(*numerators: int, unit: int = 1, plan: str = "plan") -> Charge:
    costs = CellCosts(numerators, unit)
    return Charge("gaussian", "add-remove", 1, costs.largest, costs, "cells", plan)


# ------------------------------------------------------------------ one file for one dataset and one limit


def test_a_new_ledger_is_its_owners_only(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert (ledger.dataset, ledger.limit, ledger.planned, ledger.entries) == ("people", GDP(1), False, ())
    assert repr(ledger) == "Ledger('people.ledger', 'people', 0 releases, left: μ = 1 of 1)"


def test_dataset_and_limit_are_fixed(path: Path) -> None:
    Ledger(path, dataset="people", limit=ApproxDP(1, 1e-6))
    assert Ledger(path).dataset == "people"
    assert Ledger(path, dataset="people").limit == ApproxDP(1, 1e-6)
    assert Ledger(path, dataset="people", limit=ApproxDP(Fraction(1), 1e-6)).planned is False
    with refuses(LedgerMismatchError, "dataset", "others"):
        Ledger(path, dataset="others")
    with refuses(LedgerMismatchError, "limit", ..., "has the limit ApproxDP"):
        Ledger(path, dataset="people", limit=ApproxDP(2, 1e-6))
    with refuses(LedgerMismatchError, "planned", None, "made with planned=False"):
        Ledger(path, planned=True)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"dataset": "people"}, ("path", None, "there is no ledger")),
        ({"limit": GDP(1)}, ("dataset", None, "needs dataset=")),
        ({"dataset": "", "limit": GDP(1)}, ("dataset", None, "dataset must be")),
        ({"dataset": "a\nb", "limit": GDP(1)}, ("dataset", None, "dataset must be")),
        ({"dataset": "people", "limit": 1.0}, ("limit", float)),
        ({"dataset": "people", "limit": GDP(1), "planned": 1}, ("planned", 1)),
        ({"dataset": "people", "limit": GDP(1), "timeout": "long"}, ("timeout", "long")),
        ({"dataset": "people", "limit": GDP(1), "timeout": float("nan")}, ("timeout", float("nan"))),
        (
            {"dataset": "people", "limit": GDP(Fraction(10**5000, 10**5000 + 1))},
            ("limit", None, "more digits"),
        ),
        (
            {"dataset": "people", "limit": GDP(Fraction(10) ** 400)},
            ("limit", None, "no plan can be designed"),
        ),
        ({"dataset": "people", "limit": PureDP(1e-40)}, ("limit", None, "no plan can be designed")),
    ],
)
def test_a_ledger_that_cannot_be_opened_is_not_made(
    path: Path, arguments: Any, refusal: tuple[Any, ...]
) -> None:
    with refuses((InputError, LedgerError), *refusal):
        Ledger(path, **arguments)
    assert list(path.parent.iterdir()) == []


def test_odd_paths_are_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new = {"dataset": "people", "limit": GDP(1)}
    for odd, says in (("", "path of"), (3, "path of"), ("a\0b", "path of"), ("..", "one file")):
        with refuses(InputError, "path", odd, says):
            Ledger(odd, **new)  # type: ignore[arg-type]
    with refuses(LedgerFileError, "path", ..., "there is no folder"):
        Ledger(tmp_path / "absent" / "x.ledger", **new)
    with refuses(LedgerFileError, "path", ..., "no regular file"):
        Ledger(tmp_path, **new)
    os.mkfifo(tmp_path / "pipe")
    with refuses(LedgerFileError, "path", ..., "no regular file"):
        Ledger(tmp_path / "pipe", **new)
    (tmp_path / "link").symlink_to(path)
    with refuses(LedgerFileError, "path", ..., "is a link"):
        Ledger(tmp_path / "link", **new)
    assert not path.exists()
    Ledger(path, **new)
    with refuses(LedgerFileError, "path", ..., "is a link"):
        Ledger(tmp_path / "link", **new)
    # What SQLite would take for a database in memory is an ordinary name.
    Ledger(":memory:", **new)
    Ledger("file:x?mode=memory", **new)
    assert (tmp_path / ":memory:").is_file()
    assert (tmp_path / "file:x?mode=memory").is_file()


def test_second_names_and_open_doors_are_refused(ledger: Ledger, path: Path) -> None:
    other = path.with_name("other")
    os.link(path, other)
    with refuses(LedgerFileError, "path", ..., "second name"):
        ledger.check(charge_of(), "r9")
    other.unlink()
    # A name left by somebody who was killed while making the ledger goes by itself.
    os.link(path, path.with_name(f".{path.name}.abc.part"))
    assert ledger.check(charge_of(), "r9") is None
    assert sorted(path.parent.iterdir()) == [path]
    path.chmod(0o606)
    with refuses(LedgerFileError, "path", ..., "chmod o-w"):
        Ledger(path)


# ------------------------------------------------------------------ check, spend, store


def test_a_release_is_paid_for_once_and_given_out_again(ledger: Ledger) -> None:
    charge = charge_of("mine")
    assert ledger.check(charge, "new") is None
    assert len(ledger.entries) == 3
    entry = ledger.spend(charge, "new")
    assert (entry.release_id, entry.charged, entry.is_stored) == ("new", UNIT, False)
    assert entry.head == ledger.head
    ledger.store(entry, b"noisy")
    before = ledger.head
    assert ledger.check(charge, "new") == b"noisy"
    assert Ledger(ledger.address).check(charge, "new") == b"noisy"
    assert ledger.head == before
    assert [e.is_stored for e in ledger.entries] == [True, True, False, True]
    with refuses(LedgerMismatchError, "release_id", "new"):
        ledger.check(charge_of("another"), "new")


def test_what_was_paid_for_and_never_stored_is_not_replayed(ledger: Ledger) -> None:
    for again in (ledger.check, ledger.spend):
        with refuses(AlreadySpentError, "release_id", "r2", "new release id"):
            again(charge_of("plan 2"), "r2")
    # Even a stored one cannot be paid for twice under its id.
    with refuses(AlreadySpentError, "release_id", "r0"):
        ledger.spend(charge_of("plan 0"), "r0")
    assert len(ledger.entries) == 3


def test_answers_are_stored_once_and_only_for_what_was_paid(ledger: Ledger, tmp_path: Path) -> None:
    stored, spent = ledger.entries[1:]
    with refuses(LedgerMismatchError, "release_id", "r1"):
        ledger.store(stored, b"others")
    elsewhere = new_ledger(tmp_path / "elsewhere", 2)
    with refuses(LedgerMismatchError, "release_id", "r2", "paid for"):
        elsewhere.store(spent, b"x")
    entry = elsewhere.spend(charge_of(), "r2")
    with refuses(LedgerMismatchError, "release_id", "r2", "paid for"):
        ledger.store(entry, b"x")
    with refuses(InputError, "entry", None, "needs the Entry"):
        ledger.store(spent, "text")  # type: ignore[arg-type]
    ledger.store(spent, b"")
    assert ledger.check(charge_of("plan 2"), "r2") == b""


def test_large_releases_are_refused_before_they_are_paid_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refuses(TooLargeError, "answers", 537133068):
        ledger.check(charge_of(), "new", expected_bytes=2**29 + 1)
    with refuses(InputError, "expected_bytes", -1):
        ledger.check(charge_of(), "new", expected_bytes=-1)
    monkeypatch.setattr(storage, "MAX_ANSWER_BYTES", 1000)
    with refuses(TooLargeError, "answers", 1001):
        ledger.store(ledger.entries[2], bytes(1001))


def test_exactly_the_limit_may_be_spent(ledger: Ledger) -> None:
    same = replace(TABLE, same_as="r0")
    for i in range(6):
        assert ledger.remaining.goal is not None
        ledger.spend(charge_of(), f"more {i}", table=same if i % 2 else None)
    assert ledger.remaining.goal is None
    for refused in (ledger.check, ledger.spend):
        with refuses(
            OverBudgetError, "limit", ..., "has ρ = 0 of 0.0918367 left", "Nothing was spent"
        ) as caught:
            refused(charge_of(), "one more")
    assert caught.value.remaining.mu_squared == 0
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    # Another cell has room: what counts is the largest sum.
    assert ledger.spend(costing(0, 6, 0, unit=49), "free", table=same).charged == 0
    for others in (same, TABLE, None):
        with pytest.raises(OverBudgetError):
            ledger.spend(costing(0, 1, 0, unit=49 * 10**30), "a hair", table=others)
        with refuses(OverBudgetError, "limit", ..., "would add more than 1e"):
            ledger.spend(costing(0, 10**400, 0), "more than a float holds", table=others)


def test_what_does_not_fit_the_limit_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    replaced = Charge("gaussian", "replace-one", 1, UNIT, None, "cells", "plan")
    with refuses(LedgerMismatchError, "neighbours", "replace-one"):
        ledger.check(replaced, "new")
    pure = Ledger(tmp_path / "pure", dataset="people", limit=PureDP(1))
    with refuses(LedgerMismatchError, "limit", None, "Gaussian noise never satisfies"):
        pure.check(charge_of(), "new")
    several = Ledger(tmp_path / "several", dataset="people", limit=GDP(1, records_per_person=3))
    with refuses(LedgerMismatchError, "records_per_person", 1):
        several.check(charge_of(), "new")
    for arguments, refusal in (
        ((None, "new"), ("charge", type(None))),
        ((charge_of(), ""), ("release_id", None, "release_id must be")),
        ((charge_of(), "a\tb"), ("release_id", None, "release_id must be")),
        ((charge_of(), "new", "digest"), ("after", None, "after must be")),
        ((charge_of(), "new", [None]), ("after", None, "after must be")),
    ):
        for step in (ledger.check, ledger.spend):
            with refuses(InputError, *refusal):
                step(*arguments)  # type: ignore[arg-type]


def test_a_plan_after_others_is_charged_what_the_largest_cell_grows(path: Path) -> None:
    ledger = Ledger(path, dataset="people", limit=GDP(1))
    ledger.spend(costing(3, 1, unit=4, plan="first"), "r1", table=TABLE)
    second = costing(1, 3, unit=4, plan="second")
    for table in (None, CountedTable()):
        with refuses(LedgerMismatchError, "same_table_as", None, "only the same can confirm"):
            ledger.spend(second, "r2", after=["first"], table=table)
    entry = ledger.spend(second, "r2", after=["first"], table=TABLE)
    assert (entry.charged, second.worst, entry.after) == (Fraction(1, 4), Fraction(3, 4), ("first",))
    assert ledger.remaining.goal is None


@pytest.mark.parametrize("after", [["absent"], ["plan 0", "absent"], ["plan 0", "plan 0"]])
def test_a_plan_after_others_needs_all_of_them_here(ledger: Ledger, after: list[str]) -> None:
    for step in (ledger.check, ledger.spend):
        with refuses(LedgerMismatchError, "same_table_as", None, "measure those first"):
            step(charge_of(), "new", after, table=TABLE)
    assert ledger.check(charge_of(), "new", ["plan 2", "plan 0"], table=TABLE) is None
    ledger.spend(charge_of("plan 0"), "of another table", table=TABLE)
    with refuses(LedgerMismatchError, "same_table_as", None, "not about one confirmed version"):
        ledger.check(charge_of(), "new", ["plan 0", "plan 0"], table=TABLE)
    ledger.spend(charge_of("plan 0"), "once more", table=replace(TABLE, same_as="r1"))
    assert ledger.check(charge_of(), "new", ["plan 0", "plan 0"], table=TABLE) is None
    # With one of them in either group, the request has to say which it means.
    with refuses(LedgerMismatchError, "same_table_as", None, "about 2 tables; say which table is meant"):
        ledger.check(charge_of(), "new", ["plan 0"], table=TABLE)
    assert ledger.check(charge_of(), "new", ["plan 0"], table=replace(TABLE, same_as="r2")) is None
    with refuses(
        LedgerMismatchError, "same_table_as", None, "were not released about the table of 'of another table'"
    ):
        ledger.check(charge_of(), "new", ["plan 1"], table=replace(TABLE, same_as="of another table"))


def test_kinds_of_noise_in_one_ledger(tmp_path: Path) -> None:
    limit = ApproxDP(1, 1e-6)
    gaussian = Charge("gaussian", "add-remove", 1, Fraction(4, 100), None, "cells", "g")
    pure = Charge("laplace", "add-remove", 1, Fraction(1, 20), None, "cells", "l")
    along = Ledger(tmp_path / "along", dataset="people", limit=limit)
    planned = Ledger(tmp_path / "planned", dataset="people", limit=limit, planned=True)
    for ledger in (along, planned):
        ledger.spend(gaussian, "first")
        for i in range(4):
            ledger.spend(pure, f"pure {i}")
    with pytest.raises(OverBudgetError):
        along.spend(pure, "pure 4")
    assert planned.spend(pure, "pure 4").charged == Fraction(1, 20)
    assert Ledger(planned.path).planned is True


# ------------------------------------------------------------------ the check is repeated while others wait


class Trusting(Ledger):
    """A planted twin: spends what an earlier check has let through, without looking again."""

    def spend(self, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spending, "_check_charge", lambda *given: None)
            return super().spend(*arguments)


def overspends(kind: type[Ledger], path: Path) -> bool:
    """Two who have both been told that the last charge is theirs."""
    new_ledger(path, 1)
    first, second = kind(path), kind(path)
    for ledger, release_id in ((first, "a"), (second, "b")):
        assert ledger.check(charge_of(), release_id) is None
    first.spend(charge_of(), "a")
    try:
        second.spend(charge_of(), "b")
    except OverBudgetError:
        return False
    return True


def test_two_who_were_told_yes_do_not_both_spend(tmp_path: Path) -> None:
    assert not overspends(Ledger, tmp_path / "right")
    assert overspends(Trusting, tmp_path / "twin")
    with refuses(LedgerFileError, "limit", "twin"):
        Ledger(tmp_path / "twin")


def test_threads_share_a_ledger(path: Path) -> None:
    ledger = new_ledger(path, 12)
    outcomes: list[str] = []

    def spend(name: int) -> None:
        for i in range(4):
            try:
                ledger.store(ledger.spend(charge_of(), f"{name}-{i}"), b"x")
                outcomes.append("passed")
            except OverBudgetError:
                outcomes.append("refused")

    threads = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["passed"] * 12 + ["refused"] * 4
    assert ledger.verify().n_stored == 12


def test_who_waits_too_long_is_told(ledger: Ledger) -> None:
    hasty = Ledger(ledger.path, timeout=0.01)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(hasty.entries) == 3
        with refuses(
            LedgerBusyError,
            "ledger",
            "people.ledger",
            "longer with timeout=. Nothing was spent",
        ):
            hasty.check(charge_of(), "new")
        with refuses(LedgerBusyError, "ledger", "people.ledger", "must not be handed out"):
            hasty.store(ledger.entries[2], b"x")
        other.execute("ROLLBACK")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerBusyError):
            hasty.remaining
        other.execute("ROLLBACK")
    assert hasty.check(charge_of(), "new") is None


def test_a_ledger_within_a_ledgers_transaction_does_not_hang(ledger: Ledger) -> None:
    hasty = Ledger(ledger.address, timeout=0.01)
    with hasty._seen.writing("") as _, refuses(LedgerBusyError, "ledger", hasty.name, "in this process"):
        hasty.check(charge_of(), "new")


# ------------------------------------------------------------------ durability


def is_durable(path: Path) -> bool:
    """Whether a commit is on the disk when it returns, folder included."""
    with file.LedgerFile(path).transaction(writes=True, timeout=1, aftermath="") as log:
        [mode] = log.connection.execute("PRAGMA journal_mode").fetchone()
        [synchronous] = log.connection.execute("PRAGMA synchronous").fetchone()
    return (mode, synchronous) == ("delete", 3)


def test_commits_are_synced(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_durable(ledger.path)
    right = file._connection
    for twin in ("synchronous = FULL", "synchronous = OFF", "journal_mode = MEMORY"):

        def careless(path: str, timeout: float, twin: str = twin) -> sqlite3.Connection:
            connection = right(path, timeout)
            connection.execute(f"PRAGMA {twin}")
            return connection

        monkeypatch.setattr(file, "_connection", careless)
        assert not is_durable(ledger.path)


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_nothing(ledger: Ledger) -> None:
    size, before = ledger.path.stat().st_size, ledger.head
    costs = CellCosts(tuple(map(int, np.random.default_rng(0).integers(0, 2**40, 4000))), 49 * 2**41)
    many = Charge("gaussian", "add-remove", 1, costs.largest, costs, "others", "plan")
    with no_room_beyond(size):
        with refuses(LedgerFileError, "ledger", "people.ledger", "cannot grow by", "Nothing was spent"):
            ledger.check(charge_of(), "new")
        with refuses(LedgerFileError, "ledger", "people.ledger", "disk", "Nothing was spent"):
            ledger.spend(many, "new")
        with refuses(LedgerFileError, "ledger", "people.ledger", "disk", "must not be handed out"):
            ledger.store(ledger.entries[2], os.urandom(50_000))
    assert ledger.head == before
    assert ledger.verify().n_entries == 3
    ledger.store(ledger.entries[2], b"tried again")
    assert ledger.check(charge_of("plan 2"), "r2") == b"tried again"


# ------------------------------------------------------------------ what is altered is refused


def edit(path: Path, *changes: tuple[Any, ...]) -> None:
    """Run statements, each with its values, past the triggers; everything else stays as it was."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement, *values in changes:
            assert connection.execute(statement, values).rowcount != 0
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")


CHEAPER = """UPDATE log SET content = replace(content, '"worst":"1/49"', '"worst":"1/98"') WHERE number = 1"""
OTHER_NAME = "UPDATE log SET content = replace(content, 'r0', 'r9') WHERE number = 1"


@pytest.mark.parametrize(
    "statement",
    [
        CHEAPER,
        OTHER_NAME,
        "UPDATE log SET content = content || ' ' WHERE number = 1",
        "UPDATE log SET content = replace(content, 'people', 'others') WHERE number = 0",
        "UPDATE log SET kind = 'store' WHERE number = 1",
        "UPDATE log SET kind = 3 WHERE number = 1",
        "UPDATE log SET profile = NULL WHERE number = 1",
        "UPDATE log SET profile = x'00' WHERE number = 2",
        "UPDATE log SET digest = upper(digest) WHERE number = 3",
        "UPDATE log SET number = 17 WHERE number = 5",
        "UPDATE log SET number = -1 WHERE number = 0",
        "DELETE FROM log WHERE number = 3",
        "DELETE FROM log WHERE number = 0",
        "DELETE FROM log",
        "INSERT INTO log SELECT 99, kind, content, profile, digest FROM log WHERE number = 1",
        "INSERT INTO log SELECT -7, kind, content, profile, digest FROM log WHERE number = 1",
        "UPDATE log SET content = x'ff' WHERE number = 1",
        "UPDATE log SET content = CAST(x'ff' AS TEXT) WHERE number = 1",
        "UPDATE log SET content = zeroblob(5000000) WHERE number = 1",
    ],
)
def test_an_altered_row_is_found_on_opening(ledger: Ledger, statement: str) -> None:
    edit(ledger.path, (statement,))
    with pytest.raises(LedgerFileError):
        Ledger(ledger.path)
    with pytest.raises(LedgerFileError):
        ledger.verify()


def test_triggers_keep_careless_hands_away(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        for statement in (CHEAPER, "DELETE FROM log", "DELETE FROM answers", "UPDATE answers SET number = 9"):
            with pytest.raises(sqlite3.IntegrityError, match="a ledger only grows"):
                connection.execute(statement)
    assert ledger.verify().n_entries == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE answers SET body = x'00' WHERE number = 1",
        "UPDATE answers SET body = 'text' WHERE number = 1",
        "UPDATE answers SET number = 5 WHERE number = 1",
        "DELETE FROM answers WHERE number = 1",
        "INSERT INTO answers VALUES (5, x'00')",
    ],
)
def test_altered_answers_are_not_given_out(ledger: Ledger, statement: str) -> None:
    edit(ledger.path, (statement,))
    with refuses(LedgerFileError, "answers"):
        ledger.verify()
    if "INSERT" not in statement:
        with refuses(LedgerFileError, "answers", "r0"):
            ledger.check(charge_of("plan 0"), "r0")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (x)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE INDEX more ON log (kind)",
        "DROP TABLE answers",
        "DROP TRIGGER log_never_deletes",
        "CREATE TRIGGER more AFTER INSERT ON log BEGIN DELETE FROM answers; END",
        "ALTER TABLE log ADD COLUMN more",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 3",
        "DROP TABLE versions",
        "DROP TRIGGER secret_never_updates",
        "PRAGMA application_id = 2",
        "PRAGMA journal_mode = WAL",
    ],
)
def test_other_tables_than_a_ledgers_are_refused(ledger: Ledger, statement: str) -> None:
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute(statement)
    for step in (lambda: Ledger(ledger.path), lambda: ledger.spend(charge_of(), "new")):
        with pytest.raises(LedgerFileError):
            step()


def rehashed(path: Path, change: Callable[[dict[str, Any]], None], number: int) -> None:
    """Change one row's content and every digest from there on: what only a noted head can show."""
    with closing(sqlite3.connect(path)) as connection:
        found = [rows.Row._make(row) for row in connection.execute("SELECT * FROM log ORDER BY number")]
    before, changes = rows.NOTHING, []
    for row in found:
        content = json.loads(row.content)
        if row.number == number:
            change(content)
        new = rows.sealed(before, row.number, row.kind, content, row.profile)
        setting = "UPDATE log SET content = ?, digest = ? WHERE number = ?"
        changes.append((setting, new.content, new.digest, row.number))
        before = new.digest
    edit(path, *changes)


def test_a_history_written_anew_is_found_by_a_noted_head_only(ledger: Ledger) -> None:
    noted = ledger.head
    rehashed(ledger.path, lambda content: content.update(at="2020-01-01T00:00:00Z"), 1)
    assert Ledger(ledger.path).verify().n_entries == 3
    with refuses(LedgerFileError, "head", ..., "does not contain the head"):
        Ledger(ledger.path).verify(head=noted)
    with refuses(LedgerFileError, "row", None, "gone or changed"):
        ledger.spend(charge_of(), "new")


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"format": 3}),
        (0, {"format": 2.0}),
        (0, {"limit": {"goal": "GDP", "mu": -1}}),
        (0, {"limit": {"goal": "GDP", "mu": 1}}),
        (0, {"limit": 1}),
        (0, {"planned": 1}),
        (0, {"dataset": 1}),
        (0, {"more": 1}),
        (1, {"release_id": 1}),
        (1, {"release_id": "r1"}),
        (1, {"after": ["absent"]}),
        (1, {"after": "plan 0"}),
        (1, {"after": [1]}),
        (1, {"charge": 1}),
        (1, {"charge": {}}),
        (1, {"more": 1}),
        (1, {"table": None}),
        (1, {"table": {}}),
        (2, {"size": -1}),
        (2, {"size": 10**6}),
        (2, {"sha256": "0" * 64}),
        (2, {"spend": 5}),
        (2, {"release_id": "absent"}),
    ],
)
def test_a_history_that_could_not_have_happened_is_refused(ledger: Ledger, number: int, change: Any) -> None:
    rehashed(ledger.path, lambda content: content.update(change), number)
    with pytest.raises(LedgerFileError):
        Ledger(ledger.path).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"worst": "2/98"},
        {"worst": "01/49"},
        {"worst": "-1/49"},
        {"worst": "1/0"},
        {"worst": 0.02},
        {"worst": "9" * 5000 + "/1"},
        {"worst": "1/98"},
        {"noise": "none"},
        {"noise": ["gaussian"]},
        {"neighbours": "replace-one"},
        {"records_per_person": 2.0},
        {"records_per_person": -1},
        {"per_cell": None},
        {"per_cell": {"cells": 10**12, "width": 1, "unit": "49/1"}},
        {"per_cell": {"cells": 3, "width": 1, "unit": "50/1"}},
        {"cells": None},
        {"plan": ""},
    ],
)
def test_a_charge_that_could_not_have_been_made_is_refused(ledger: Ledger, change: Any) -> None:
    rehashed(ledger.path, lambda content: content["charge"].update(change), 1)
    with pytest.raises(LedgerFileError):
        Ledger(ledger.path)


def test_more_than_the_limit_is_refused_however_it_got_there(ledger: Ledger) -> None:
    rehashed(ledger.path, lambda content: content.update(limit=ZCDP(UNIT).to_dict()), 0)
    with refuses(LedgerFileError, "limit", "people.ledger"):
        Ledger(ledger.path)


def ignoring(column: str) -> Callable[..., str]:
    """A planted twin: a chain that leaves out a column."""
    right = rows.digest_of

    def digest_of(before: str, number: int, kind: str, content: str, profile: bytes | None) -> str:
        values = {"before": before, "number": number, "kind": kind, "content": content, "profile": profile}
        return right(**(values | {column: None if column == "profile" else ""}))  # type: ignore[arg-type]

    return digest_of


# The same charge with less in its last cell.
LESS = CellCosts((1, 0, 0), 49).to_bytes()[1]
EDITS: dict[str, tuple[Any, ...]] = {
    "content": (OTHER_NAME,),
    "profile": ("UPDATE log SET profile = ? WHERE number = 1", LESS),
}


@pytest.mark.parametrize("column", EDITS)
def test_a_chain_that_leaves_out_a_column_would_miss_its_change(
    path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = new_ledger(path, 9)
    right.spend(charge_of(), "r0")
    edit(path, EDITS[column])
    with refuses(LedgerFileError, "row", 1):
        Ledger(path)
    monkeypatch.setattr(rows, "digest_of", ignoring(column))
    twin = new_ledger(path.with_name("twin"), 9)
    twin.spend(charge_of(), "r0")
    edit(twin.path, EDITS[column])
    assert Ledger(twin.path).entries != twin.entries


@pytest.mark.parametrize("column", ["before", "number", "kind", "content", "profile"])
def test_every_column_is_in_the_chain(column: str) -> None:
    values: dict[str, Any] = {"before": "a", "number": 1, "kind": "spend", "content": "{}", "profile": b"x"}
    others = {"before": "b", "number": 2, "kind": "store", "content": "{ }", "profile": None}
    changed = values | {column: others[column]}
    assert rows.digest_of(**values) != rows.digest_of(**changed)
    twin = ignoring(column)
    assert twin(**values) == twin(**changed)
    # An absent profile is no empty one, and text does not flow from one column into the next.
    assert rows.digest_of("a", 1, "s", "x", None) != rows.digest_of("a", 1, "s", "x", b"")
    assert rows.digest_of("a", 1, "sx", "", None) != rows.digest_of("a", 1, "s", "x", None)


def test_nothing_follows_a_closing_row_but_its_own_continuation(ledger: Ledger) -> None:
    seen = ledger._seen
    token, other = "a" * 64, "b" * 64
    seen.write("", lambda adding, history: adding.append(closing_row(history, "elsewhere", token)))
    assert repr(ledger) == "Ledger('people.ledger', 'people', closed: moved to 'elsewhere')"
    for step in (ledger.check, ledger.spend):
        with refuses(
            LedgerMismatchError, "ledger", "people.ledger", "is closed: it was moved to 'elsewhere'"
        ):
            step(charge_of(), "new")
    with refuses(LedgerMismatchError, "ledger", "people.ledger", "is closed", "must not be handed out"):
        ledger.store(ledger.entries[2], b"late")
    assert ledger.check(charge_of("plan 0"), "r0") == b"answers 0"
    closed, whole = seen.history, ledger.path.read_bytes()
    right = continuing_row(closed, "here")
    wrong = sealed(closed.head, closed.n_rows, "continue", {"at": "x", "from": "y", "token": other}, None)
    for row, is_right in (
        (spend_row(closed, charge_of(), "forged", ()), False),
        (closing_row(closed, "elsewhere", token), False),
        (wrong, False),
        (right, True),
    ):
        ledger.path.write_bytes(whole)
        with file.LedgerFile(ledger.path).transaction(writes=True, timeout=1, aftermath="") as log:
            log.append(row)
        if is_right:
            assert Ledger(ledger.path).spend(charge_of(), "new").charged == UNIT
        else:
            with refuses(LedgerFileError, "row", 7):
                Ledger(ledger.path)


# ------------------------------------------------------------------ damaged files and older copies


@pytest.mark.parametrize("keep", [0, 1, 99, 100, 511, 512, 4095, 4096, 5000, 8192, 12287])
def test_a_file_cut_short_is_refused(ledger: Ledger, keep: int) -> None:
    whole = ledger.path.read_bytes()
    assert keep < len(whole)
    ledger.path.write_bytes(whole[:keep])
    for step in (
        lambda: Ledger(ledger.path, dataset="people", limit=ledger.limit),
        lambda: ledger.check(charge_of(), "new"),
        lambda: ledger.spend(charge_of(), "new"),
    ):
        with pytest.raises(LedgerFileError):
            step()
    assert ledger.path.stat().st_size == keep


def test_other_files_are_refused(path: Path) -> None:
    for content in (b"text\n" * 100, os.urandom(8192), b"SQLite format 3\0" + bytes(4080)):
        path.write_bytes(content)
        with refuses(LedgerFileError, "path", ..., "not a ledger"):
            Ledger(path, dataset="people", limit=GDP(1))
        assert path.read_bytes() == content
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE log (x)")
    with refuses(LedgerFileError, "path", ..., "not a ledger"):
        Ledger(path)


def test_what_never_was_a_ledger_is_not_called_damaged(path: Path, ledger: Ledger) -> None:
    whole = ledger.path.read_bytes()
    other = path.with_name("admissions.csv")
    for content in (b"age,sex\n1,F\n", b"S", os.urandom(8192)):
        other.write_bytes(content)
        if content[:1] != b"S":
            with refuses(LedgerFileError, "path", ..., "is not a ledger; name the file that `leastnoise"):
                Ledger(other)
    # What begins as one may have been cut short: that is said as before.
    for keep in (0, 1, 16, 99):
        other.write_bytes(whole[:keep])
        with refuses(LedgerFileError, "path", ..., "damaged, truncated or not a ledger; restore it"):
            Ledger(other)


def test_a_ledger_that_vanished_is_not_made_anew(ledger: Ledger) -> None:
    ledger.path.unlink()
    for step in (lambda: ledger.check(charge_of(), "new"), lambda: ledger.remaining, ledger.verify):
        with refuses(LedgerFileError, "path", None, "there is no ledger"):
            step()
    assert not ledger.path.exists()
    assert repr(ledger) == "Ledger('people.ledger', 'people', which cannot be read now)"


def test_an_older_copy_is_found_by_who_has_seen_a_newer_one(ledger: Ledger) -> None:
    copy = ledger.path.with_name("copy")
    shutil.copy(ledger.path, copy)
    entry = ledger.spend(charge_of(), "new")
    os.replace(copy, ledger.path)
    with refuses(LedgerFileError, "row", None, "older copy"):
        ledger.spend(charge_of(), "newer")
    fresh = Ledger(ledger.path)
    # Alone, an older copy looks as it did when it was new; a printed head tells.
    assert len(fresh.entries) == 3
    with refuses(LedgerFileError, "head", ..., "older than the release that printed it"):
        fresh.verify(head=entry.head)


def test_heads_printed_earlier_stay_in_the_ledger(ledger: Ledger) -> None:
    heads = [entry.head for entry in ledger.entries] + [ledger.head]
    ledger.spend(charge_of(), "new")
    for head in heads:
        verified = ledger.verify(head=head)
    assert (verified.n_entries, verified.n_stored, verified.head) == (4, 2, ledger.head)
    assert str(verified).startswith(
        "4 releases of 'people', 2 of them stored; left: ρ = 0.0510204 of 0.0918367;"
    )
    with refuses(LedgerFileError, "head", ..., "does not contain"):
        ledger.verify(head="0" * 64)


# ------------------------------------------------------------------ for people and other programs


def test_rows_and_exports_are_plain_and_hold_no_answers(ledger: Ledger, tmp_path: Path) -> None:
    ledger.spend(charge_of("=cmd()"), "=HYPERLINK(1)", after=["plan 0", "plan 1"], table=TABLE)
    found = ledger.rows
    assert [row["release_id"] for row in found] == ["r0", "r1", "r2", "=HYPERLINK(1)"]
    assert [row["stored"] for row in found] == [True, True, False, False]
    assert found[0]["charged_exactly"] == "1/49"
    assert Fraction(found[0]["charged"]) >= UNIT
    lines = ledger.export(tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == found
    with ledger.export(tmp_path / "x.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["release_id"] for row in table] == ["r0", "r1", "r2", "'=HYPERLINK(1)"]
    assert table[3]["plan"] == "'=cmd()"
    assert table[3]["after"] == "plan 0 plan 1"
    for name in ("x.csv", "x.jsonl"):
        assert b"answers 0" not in (tmp_path / name).read_bytes()
    with refuses(InputError, "path", "x.txt"):
        ledger.export(tmp_path / "x.txt")


def test_a_ledger_is_not_exported_over_itself(ledger: Ledger, tmp_path: Path) -> None:
    ledger.path.rename(tmp_path / "own.csv")
    with refuses(InputError, "path", None, "overwritten"):
        Ledger(tmp_path / "own.csv").export(tmp_path / "own.csv")


def test_a_ledger_travels_to_other_processes_by_its_path(ledger: Ledger) -> None:
    again = pickle.loads(pickle.dumps(ledger))
    assert again.entries == ledger.entries
    again.spend(charge_of(), "there")
    assert ledger.entries[-1].release_id == "there"


def test_each_row_is_parsed_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    right = history.charge_from_parts

    def counted(content: Any, packed: Any) -> Charge:
        parsed.append(content["plan"])
        return right(content, packed)

    monkeypatch.setattr(history, "charge_from_parts", counted)
    for _ in range(3):
        ledger.entries
    assert parsed == []
    Ledger(ledger.address)
    assert parsed == ["plan 0", "plan 1", "plan 2"]
