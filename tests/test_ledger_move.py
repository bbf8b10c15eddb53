"""A ledger that moves between a file and PostgreSQL: one live budget at any time, wherever it is stopped."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leastnoise.core.errors import InputError, LedgerError, LedgerMismatchError
from leastnoise.privacy import GDP, Ledger
from leastnoise.privacy.ledger import move_ledger
from ledger_stress import TABLE, UNIT, charge_of, is_live, new_ledger
from postgres_server import Server
from support import refuses
from test_ledger_stress import run

pytestmark = pytest.mark.xdist_group("engines")

names = (f"moved_{i}" for i in itertools.count())


class Killed(BaseException):
    """Stops a move where it stands, as kill -9 would."""


def stopping(monkeypatch: pytest.MonkeyPatch, name: str, *, before: bool) -> None:
    from leastnoise.privacy.ledger import moving

    right = getattr(moving, name)

    def stopped(*arguments: Any) -> Any:
        if not before:
            right(*arguments)
        raise Killed

    monkeypatch.setattr(moving, name, stopped)


def places(server: Server, folder: Path, way: str) -> tuple[str, str]:
    here, there = str(folder / f"{next(names)}.ledger"), server.url(next(names), password="secret")
    return (here, there) if way == "to database" else (there, here)


def filled(place: str) -> Ledger:
    ledger = new_ledger(Path(place) if "://" not in place else place, 9)
    for i in range(3):
        entry = ledger.spend(
            charge_of(f"plan {i}"), f"r{i}", table=replace(TABLE, same_as="r0") if i else TABLE
        )
        ledger.store(entry, f"answers {i}".encode())
    return ledger


@pytest.mark.parametrize("way", ["to database", "to file"])
def test_a_ledger_moves_with_all_it_has(server: Server, tmp_path: Path, way: str) -> None:
    source, target = places(server, tmp_path, way)
    ledger = filled(source)
    entries, key, head = ledger.entries, ledger.new_digest().digest(), ledger.head
    moved = move_ledger(source, target)
    assert (moved.entries, moved.new_digest().digest()) == (entries, key)
    assert moved.verify(head=head).n_stored == 3
    assert moved.verify(head=ledger.head).remaining.mu_squared == 6 * UNIT
    assert (is_live(source), is_live(target)) == (False, True)
    # The source gives what it has, and nothing more.
    assert ledger.check(charge_of("plan 0"), "r0") == b"answers 0"
    assert ledger.moved_to == moved.name
    assert f"closed: moved to {moved.name!r}" in str(ledger.verify())
    assert moved.moved_to is None
    assert f"closed: moved to {moved.name!r}" in repr(ledger)
    for step in (ledger.check, ledger.spend):
        with refuses(LedgerMismatchError, "ledger", ..., "is closed: it was moved to", "use that one"):
            step(charge_of(), "new")
    with refuses(LedgerMismatchError, "ledger", ..., "is closed"):
        ledger.check_goal(GDP(0.1))
    # Costs are still added cell by cell, with the version that came along.
    assert moved.spend(charge_of(), "new", table=replace(TABLE, same_as="r0")).group == "r0"
    # Again is no harm; elsewhere is refused.
    assert move_ledger(source, target).entries == moved.entries
    third = str(tmp_path / "third.ledger") if way == "to file" else server.url(next(names))
    with refuses(LedgerMismatchError, "target", ..., "was moved to"):
        move_ledger(source, third)
    assert not is_live(third)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["to database", "to file"])
@pytest.mark.parametrize(
    ("name", "before", "source_lives"),
    [("_closed_copy", True, True), ("_closed_copy", False, True), ("_go_on", True, False)],
)
def test_a_move_that_is_killed_leaves_one_live_ledger_at_most_and_goes_on(
    server: Server,
    tmp_path: Path,
    way: str,
    name: str,
    before: bool,
    source_lives: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = places(server, tmp_path, way)
    filled(source)
    with monkeypatch.context() as patch:
        stopping(patch, name, before=before)
        with pytest.raises(Killed):
            move_ledger(source, target)
    assert (is_live(source), is_live(target)) == (source_lives, False)
    # The other way round would let both live, if two did it at a time.
    with pytest.raises(LedgerError):
        move_ledger(target, source)
    assert (is_live(source), is_live(target)) == (source_lives, False)
    if (name, before) != ("_closed_copy", True):
        with refuses(LedgerMismatchError, "ledger", ..., "not in use yet"):
            Ledger(target).spend(charge_of(), "new")
    moved = move_ledger(source, target)
    assert (is_live(source), is_live(target)) == (False, True)
    assert moved.verify().n_stored == 3


def test_what_an_interrupted_move_left_is_no_ledger_once_more_was_spent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places(server, tmp_path, "to database")
    ledger = filled(source)
    with monkeypatch.context() as patch:
        stopping(patch, "_closed_copy", before=False)
        with pytest.raises(Killed):
            move_ledger(source, target)
    ledger.store(ledger.spend(charge_of(), "meanwhile"), b"x")
    with refuses(
        LedgerMismatchError, "target", ..., "never in use: remove it and move again. Nothing was moved"
    ):
        move_ledger(source, target)
    assert (is_live(source), is_live(target)) == (True, False)
    other = server.url(next(names))
    assert len(move_ledger(source, other).entries) == 4
    with refuses(LedgerMismatchError, "target", ..., "was moved to"):
        move_ledger(source, target)
    assert (is_live(source), is_live(target), is_live(other)) == (False, False, True)


def test_what_an_interrupted_move_left_goes_on_under_its_own_name_only(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the source would be closed for a name under which nothing can go on."""
    source, target = places(server, tmp_path, "to file")
    filled(source)
    with monkeypatch.context() as patch:
        stopping(patch, "_closed_copy", before=False)
        with pytest.raises(Killed):
            move_ledger(source, target)
    renamed = Path(target).rename(tmp_path / "renamed.ledger")
    with refuses(LedgerMismatchError, "target", "renamed.ledger"):
        move_ledger(source, renamed)
    assert is_live(source)
    renamed.rename(target)
    assert move_ledger(source, target).verify().n_stored == 3


def test_a_ledger_does_not_move_over_another_or_away_from_a_release(server: Server, tmp_path: Path) -> None:
    source, target = places(server, tmp_path, "to database")
    ledger = filled(source)
    filled(target)
    with refuses(LedgerMismatchError, "target", ..., "already holds something"):
        move_ledger(source, target)
    assert is_live(source)
    assert is_live(target)
    with refuses(InputError, "target", None, "move the file itself"):
        move_ledger(source, tmp_path / "other.ledger")
    with refuses(InputError, "target", None, "the same ledger"):
        move_ledger(target, target)
    entry = ledger.spend(charge_of(), "at work")
    empty = server.url(next(names))
    with refuses(
        LedgerMismatchError, "abandon_unstored", None, "1 release paid for but not stored", "paid for"
    ):
        move_ledger(source, empty)
    assert not is_live(empty)
    moved = move_ledger(source, empty, abandon_unstored=True)
    with refuses(LedgerMismatchError, "ledger", ..., "must not be handed out"):
        ledger.store(entry, b"late")
    assert len(moved.entries) == 4


def test_a_ledger_moves_back_and_forth_under_odd_names(server: Server, tmp_path: Path) -> None:
    first, second = str(tmp_path / "a\tledger"), server.url(next(names))
    heads = [filled(first).head]
    last = str(tmp_path / ("b" * 220))
    for source, target in ((first, second), (second, last)):
        heads.append(move_ledger(source, target).head)
    back = Ledger(last)
    for head in heads:
        back.verify(head=head)
    assert back.spend(charge_of(), "new").charged == UNIT


@pytest.mark.thorough
def test_moves_that_are_killed_at_random_are_completed(server: Server) -> None:
    found = run("move", "--kills", 8, "--ledger", server.url(next(names)))
    assert found["right"], found
    # Each step in turn is a place to be killed at, so each of these is reached.
    assert found["killed"] >= 4
    assert set(found["states"]) == {"source lives", "both closed", "target lives"}
