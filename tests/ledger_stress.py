"""A ledger under many processes, under kill -9 and with flipped bytes, at any size.

The tests run these small; large, each is one command:

    python tests/ledger_stress.py contend --processes 32 --spends 200
    python tests/ledger_stress.py kill --kills 500
    python tests/ledger_stress.py flip --step 1
    python tests/ledger_stress.py crowd --processes 32 --kills 500
    python tests/ledger_stress.py contend --processes 32 --spends 50 --ledger start
    python tests/ledger_stress.py move --kills 200

Each prints one line of JSON and exits with 1 if anything went wrong. They run in a process of their own
because they fork. ``--ledger`` is the address of a ledger in PostgreSQL, or ``start``, which starts a server.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from leastnoise.core.errors import (
    AlreadySpentError,
    LeastnoiseError,
    LedgerError,
    LedgerFileError,
    LedgerMismatchError,
    OverBudgetError,
)
from leastnoise.privacy import ZCDP, CellCosts, Charge, CountedTable, Entry, Ledger
from leastnoise.privacy.ledger import move_ledger, moving

# A seventh squared: no float holds it.
UNIT = Fraction(1, 49)
PATIENCE = 600.0


def charge_of(plan: str = "plan") -> Charge:
    return Charge("gaussian", "add-remove", 1, UNIT, CellCosts((1, 0, 1), 49), "cells", plan)


# A table whose digest is noted with every charge, as that of a file is.
TABLE = CountedTable(by="digest", version=bytes(range(32)))


def new_ledger(path: Path | str, charges: int) -> Ledger:
    """A ledger that has room for exactly so many charges."""
    return Ledger(path, dataset="people", limit=ZCDP(charges * UNIT / 2), timeout=PATIENCE)


# ------------------------------------------------------------------ many processes


def contend(
    folder: Path, *, processes: int, spends: int, too_many: int = 5, ledger: str | None = None
) -> dict[str, Any]:
    """Processes that all spend from one ledger until nothing is left, each trying a few times too often."""
    path = ledger or folder / "contended.ledger"
    began = time.monotonic()
    children = [
        _in_child(folder / f"{i}.json", lambda i=i: _spender(path, i, processes * spends, spends + too_many))
        for i in range(processes)
    ]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    reports = [json.loads((folder / f"{i}.json").read_text()) for i in range(processes) if not failed]
    passed = [release for report in reports for release in report["passed"]]
    contended = Ledger(path, timeout=PATIENCE)
    recorded = [entry.release_id for entry in contended.entries]
    verified = contended.verify()
    result = {
        "processes": processes,
        "passed": len(passed),
        "refused": sum(report["refused"] for report in reports),
        "overspent": max(0, len(recorded) - processes * spends),
        "lost": len(set(passed) - set(recorded)),
        "unasked": len(set(recorded) - set(passed)),
        "stored": verified.n_stored,
        "failed": failed,
        "seconds": round(time.monotonic() - began, 1),
    }
    wrong = failed or result["overspent"] or result["lost"] or result["unasked"]
    result["right"] = not wrong and len(passed) == processes * spends and contended.remaining.goal is None
    return result


def _spender(path: Path | str, name: int, charges: int, attempts: int) -> dict[str, Any]:
    # Whoever comes first makes the file.
    ledger, passed, refused = new_ledger(path, charges), [], 0
    for attempt in range(attempts):
        release_id = f"{name}-{attempt}"
        try:
            ledger.check(charge_of(), release_id, table=TABLE)
            entry = ledger.spend(charge_of(), release_id, table=TABLE)
        except OverBudgetError:
            refused += 1
            continue
        passed.append(release_id)
        if attempt % 8 == 0:
            ledger.store(entry, os.urandom(64))
    return {"passed": passed, "refused": refused}


def _in_child(report: Path | None, work: Callable[[], Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        found = work()
        if report is not None:
            report.write_text(json.dumps(found))
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)


# ------------------------------------------------------------------ kill -9


STEPS = ("begin", "checked", "spent", "drawn", "stored", "handed out")


def measured(ledger: Ledger, release_id: str, outbox: Path, at: Callable[[str], None]) -> None:
    """The order of `measure`: spend, draw, store, hand out."""
    at("begin")
    ledger.check(charge_of(), release_id, table=TABLE)
    at("checked")
    entry = ledger.spend(charge_of(), release_id, table=TABLE)
    at("spent")
    noise = os.urandom(16)
    at("drawn")
    ledger.store(entry, noise)
    at("stored")
    hand_out(outbox, release_id, noise)
    at("handed out")


def pays_afterwards(ledger: Ledger, release_id: str, outbox: Path, at: Callable[[str], None]) -> None:
    """A planted twin: hands out first and pays for it then."""
    ledger.check(charge_of(), release_id)
    noise = os.urandom(16)
    hand_out(outbox, release_id, noise)
    at("handed out")
    ledger.store(ledger.spend(charge_of(), release_id), noise)


def stores_afterwards(ledger: Ledger, release_id: str, outbox: Path, at: Callable[[str], None]) -> None:
    """A planted twin: hands out before the answers are stored."""
    entry = ledger.spend(charge_of(), release_id)
    noise = os.urandom(16)
    hand_out(outbox, release_id, noise)
    at("handed out")
    ledger.store(entry, noise)


def repeats_noise(ledger: Ledger, release_id: str, outbox: Path, at: Callable[[str], None]) -> None:
    """A planted twin: every process draws the same noise."""
    noise = random.Random(0).randbytes(16)
    ledger.store(ledger.spend(charge_of(), release_id), noise)
    hand_out(outbox, release_id, noise)
    at("handed out")


ORDERS = {order.__name__: order for order in (measured, pays_afterwards, stores_afterwards, repeats_noise)}


def hand_out(outbox: Path, release_id: str, noise: bytes) -> None:
    append_line(outbox, f"{release_id} {noise.hex()}")


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, whole or not at all."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def kill(folder: Path, *, kills: int, order: str = "measured", seed: int = 0) -> dict[str, Any]:
    """Processes that are killed, half of them at each step in turn, half at any moment."""
    path, outbox, rng = folder / "killed.ledger", folder / "outbox", random.Random(seed)
    outbox.touch()
    ledger = new_ledger(path, 2 * kills + 10)
    # How long an undisturbed release takes here, so that moments are drawn from all of it.
    began = time.monotonic()
    for i in range(3):
        os.waitpid(
            _in_child(None, lambda i=i: ORDERS[order](ledger, f"whole {i}", outbox, lambda step: None)), 0
        )
    usual = (time.monotonic() - began) / 3
    found: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for i in range(kills):
        is_at_step = i % 2 == 0
        stop = STEPS[i // 2 % len(STEPS)] if is_at_step else ""
        child = _in_child(None, lambda i=i, stop=stop: ORDERS[order](ledger, f"r{i}", outbox, _killer(stop)))
        if not is_at_step:
            time.sleep(rng.uniform(0, usual))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found["killed"] += os.WIFSIGNALED(status)
        found["failed"] += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
        found["left a journal"] += path.with_name(f"{path.name}-journal").exists()
        states[_judged(path, outbox, f"r{i}", found)] += 1
    bodies = Counter(line.split(" ")[-1] for line in outbox.read_text().splitlines())
    found["repeated"] = sum(count - 1 for count in bodies.values())
    try:
        Ledger(path).verify()
    except LedgerError:
        found["corrupt"] += 1
    faults = ("unpaid", "unstored", "different", "repeated", "replayed", "corrupt", "failed")
    result = {name: found[name] for name in ("killed", "left a journal", *faults)}
    return {**result, "states": dict(states), "right": not any(found[name] for name in faults)}


def _killer(stop: str) -> Callable[[str], None]:
    def at(step: str) -> None:
        if step == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def _judged(path: Path, outbox: Path, release_id: str, found: Counter[str]) -> str:
    """How far a killed release came, by a ledger opened afresh; faults are counted."""
    handed = dict(line.split(" ")[-2:] for line in outbox.read_text().splitlines()).get(release_id)
    try:
        fresh = Ledger(path, dataset="people")
        entry = next((e for e in fresh.entries if e.release_id == release_id), None)
    except LedgerError:
        found["corrupt"] += 1
        return "corrupt"
    if entry is None:
        found["unpaid"] += handed is not None
        return "nothing spent"
    if not entry.is_stored:
        found["unstored"] += handed is not None
        try:
            fresh.check(charge_of(), release_id)
            found["replayed"] += 1
        except AlreadySpentError:
            pass
        return "spent"
    answers = fresh.check(charge_of(), release_id)
    found["different"] += handed is not None and bytes.fromhex(handed) != answers
    return "stored" if handed is None else "handed out"


# ------------------------------------------------------------------ two connections each, killed at random


def crowd(
    folder: Path, *, ledger: str, processes: int, kills: int, order: str = "measured", seed: int = 0
) -> dict[str, Any]:
    """Processes with two connections each, killed at any moment and replaced; they share one ledger."""
    rng, began, most = random.Random(seed), time.monotonic(), 10**6
    outbox, paid, stop = folder / "outbox", folder / "paid", folder / "stop"
    for path in (outbox, paid):
        path.touch()
    new_ledger(ledger, most)
    numbers = itertools.count()
    found: Counter[str] = Counter()

    def started() -> int:
        name = next(numbers)
        return _in_child(None, lambda: _two_at_once(ledger, name, order, outbox, paid, stop))

    children = [started() for _ in range(processes)]
    while found["killed"] < kills:
        # Until something more was handed out, so that every kill meets a ledger at work.
        size = outbox.stat().st_size
        while outbox.stat().st_size == size:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        child = children.pop(rng.randrange(processes))
        os.kill(child, signal.SIGKILL)
        found["killed"] += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        children.append(started())
    stop.touch()
    found["failed"] = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    fresh = Ledger(ledger, timeout=PATIENCE)
    entries = {entry.release_id: entry for entry in fresh.entries}
    lines = [line.split(" ") for line in outbox.read_text().splitlines()]
    for release_id, noise in lines:
        entry = entries.get(release_id)
        if entry is None:
            found["unpaid"] += 1
        elif not entry.is_stored:
            found["unstored"] += 1
        else:
            found["different"] += fresh.check(charge_of(), release_id) != bytes.fromhex(noise)
    found["repeated"] = len(lines) - len({noise for _, noise in lines})
    found["twice"] = len(lines) - len({release_id for release_id, _ in lines})
    found["lost"] = len(set(paid.read_text().split()) - set(entries))
    found["miscounted"] = int(fresh.remaining.mu_squared != (most - len(entries)) * UNIT)
    verified = fresh.verify()
    faults = ("unpaid", "unstored", "different", "repeated", "twice", "lost", "miscounted", "failed")
    return {
        "processes": processes,
        "killed": found["killed"],
        "paid": verified.n_entries,
        "stored": verified.n_stored,
        "handed out": len(lines),
        **{fault: found[fault] for fault in faults},
        "seconds": round(time.monotonic() - began, 1),
        "right": not any(found[fault] for fault in faults),
    }


def _two_at_once(ledger: str, name: int, order: str, outbox: Path, paid: Path, stop: Path) -> None:
    """Two threads, each with a ledger object and so a connection of its own."""
    failed: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            mine = Ledger(ledger, timeout=PATIENCE)
            for i in itertools.count():
                if stop.exists():
                    return
                release_id = f"{name}-{thread}-{i}"

                def at(step: str, release_id: str = release_id) -> None:
                    if step == "spent":
                        append_line(paid, release_id)

                ORDERS[order](mine, release_id, outbox, at)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


# ------------------------------------------------------------------ moves, killed at random


def move(folder: Path, *, ledger: str, kills: int, seed: int = 0) -> dict[str, Any]:
    """A ledger that moves from a file to a database and back; each move is killed, judged, and run again.

    Half of them are killed before and after each step in turn, half at any moment.
    """
    rng = random.Random(seed)
    places = (str(folder / f"{i}.ledger") if i % 2 == 0 else f"{ledger}_{i}" for i in itertools.count())
    source = next(places)
    first = new_ledger(Path(source), 9)
    for i in range(3):
        first.store(first.spend(charge_of(), f"r{i}", table=TABLE), os.urandom(10_000))
    heads = [first.head]
    usual = 0.0
    found: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for i in range(kills + 2):
        target = next(places)
        began = time.monotonic()
        # Undisturbed at first, there and back, to see how long a move takes.
        stop = MOVING[i // 2 % len(MOVING)] if i >= 2 and i % 2 == 0 else None
        child = _in_child(None, lambda at=(source, target, stop): _moved_until(*at))
        if i >= 2 and stop is None:
            time.sleep(rng.uniform(0, usual))
            os.kill(child, signal.SIGKILL)
        found["killed"] += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        usual = max(usual, time.monotonic() - began) if i < 2 else usual
        lives = (is_live(source), is_live(target))
        found["two live"] += all(lives)
        states["source lives" if lives[0] else "target lives" if lives[1] else "both closed"] += 1
        moved = move_ledger(source, target)
        found["not one live"] += (is_live(source), is_live(target)) != (False, True)
        for head in (heads[0], heads[-1]):
            found["incomplete"] += moved.verify(head=head).n_stored != 3
        heads.append(moved.head)
        source = target
    faults = ("two live", "not one live", "incomplete")
    result = {name: found[name] for name in ("killed", *faults)}
    return {**result, "states": dict(states), "right": not any(found[name] for name in faults)}


MOVING = (("_closed_copy", True), ("_closed_copy", False), ("_go_on", True), ("_go_on", False))


def _moved_until(source: str, target: str, stop: tuple[str, bool] | None) -> None:
    """Move; killed before or after a step, if one is named."""
    if stop is not None:
        name, is_before = stop
        step = getattr(moving, name)

        def killed(*arguments: Any) -> None:
            if not is_before:
                step(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(moving, name, killed)
    move_ledger(source, target)


def is_live(place: str) -> bool:
    """Whether something could be spent there."""
    try:
        return Ledger(place, timeout=PATIENCE).check(charge_of(), "one more") is None
    except (LedgerFileError, LedgerMismatchError):
        return False


# ------------------------------------------------------------------ flipped bytes


def flip(folder: Path, *, step: int, first: int = 100, seed: int = 0) -> dict[str, Any]:
    """A small ledger with one byte changed, at each of the first offsets and at every step-th one after them.

    Each change must be refused, or be without effect: the same history, and the next release is recorded
    as it should be.
    """
    rng = random.Random(seed)
    source = folder / "whole.ledger"
    ledger = new_ledger(source, 9)
    for i in range(3):
        entry = ledger.spend(charge_of(f"plan {i}"), f"r{i}", after=["plan 0"] if i else [], table=TABLE)
        if i < 2:
            ledger.store(entry, bytes([i]) * 300)
    whole, truth = source.read_bytes(), _state(ledger)
    offsets = sorted({*range(min(first, len(whole))), *range(0, len(whole), step)})
    found: Counter[str] = Counter()
    wrong_at = []
    target = folder / "flipped.ledger"
    for offset in offsets:
        changed = bytearray(whole)
        changed[offset] ^= rng.randrange(1, 256)
        target.write_bytes(changed)
        outcome = _outcome(target, truth)
        found[outcome] += 1
        if outcome == "wrong":
            wrong_at.append(offset)
    return {
        "bytes": len(whole),
        "flips": len(offsets),
        "detected": found["detected"],
        "harmless": found["harmless"],
        "wrong": wrong_at,
        "right": not wrong_at,
    }


State = tuple[str, Any, tuple[Entry, ...], str, list[bytes | None]]


def _state(ledger: Ledger) -> State:
    entries = ledger.entries
    answers = [ledger.check(e.charge, e.release_id) for e in entries if e.is_stored]
    return ledger.dataset, ledger.limit, entries, ledger.head, answers


def _outcome(path: Path, truth: State) -> str:
    try:
        ledger = Ledger(path, dataset="people")
        ledger.verify()
        if _state(ledger) != truth:
            return "wrong"
        entry = ledger.spend(charge_of("next"), "next")
        ledger.store(entry, b"next")
        again = Ledger(path)
        again.verify()
        is_right = again.entries[:-1] == truth[2] and again.entries[-1].head == entry.head
        return "harmless" if is_right and again.check(charge_of("next"), "next") == b"next" else "wrong"
    except LedgerError:
        return "detected"
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return "wrong"
    finally:
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)


# ------------------------------------------------------------------ rights


NOBODY = 65534


def without_rights(folder: Path) -> dict[str, Any]:
    """What a user gets to hear who may not write to the file, or not to its folder.

    Root may do anything, so it becomes nobody first.
    """
    is_root = os.geteuid() == 0
    said: dict[str, Any] = {}
    for name, file_mode, folder_mode in (("file", 0o444, 0o777), ("folder", 0o644, 0o555)):
        inner = folder / name
        inner.mkdir()
        path = inner / "read-only.ledger"
        new_ledger(path, 3).spend(charge_of(), "r0")
        path.chmod(file_mode)
        if is_root and name == "folder":
            os.chown(path, NOBODY, NOBODY)
        inner.chmod(folder_mode)
        os.waitpid(_in_child(folder / f"{name}.json", lambda path=path: _reader(path)), 0)
        inner.chmod(0o755)
        said[name] = json.loads((folder / f"{name}.json").read_text())
    is_told = all(found["entries"] == 1 and found["check"] and found["spend"] for found in said.values())
    return {**said, "right": is_told}


def _reader(path: Path) -> dict[str, Any]:
    was_root = os.geteuid() == 0
    if was_root:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    ledger = Ledger(path)
    said: dict[str, Any] = {"entries": len(ledger.entries), "check": None, "spend": None}
    for name, step in (("check", ledger.check), ("spend", ledger.spend)):
        try:
            step(charge_of(), "r1")
        except LeastnoiseError as error:
            said[name] = f"{type(error).__name__}: {error}"
    if was_root:
        os.seteuid(0)
    return said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    contending = commands.add_parser("contend")
    contending.add_argument("--processes", type=int, default=32)
    contending.add_argument("--spends", type=int, default=200)
    killing = commands.add_parser("kill")
    killing.add_argument("--kills", type=int, default=500)
    killing.add_argument("--order", choices=sorted(ORDERS), default="measured")
    crowding = commands.add_parser("crowd")
    crowding.add_argument("--processes", type=int, default=32)
    crowding.add_argument("--kills", type=int, default=500)
    crowding.add_argument("--ledger", default="start")
    crowding.add_argument("--order", choices=sorted(ORDERS), default="measured")
    contending.add_argument("--ledger")
    moves = commands.add_parser("move")
    moves.add_argument("--kills", type=int, default=200)
    moves.add_argument("--ledger", default="start")
    flipping = commands.add_parser("flip")
    flipping.add_argument("--step", type=int, default=1)
    commands.add_parser("without-rights")
    options = vars(parser.parse_args())
    work: dict[str, Callable[..., dict[str, Any]]] = {
        "contend": contend,
        "crowd": crowd,
        "kill": kill,
        "move": move,
        "flip": flip,
        "without-rights": without_rights,
    }
    command = options.pop("command")
    # In memory where the disk is beside the point: there, a commit waits for nothing.
    is_in_memory = command == "flip" and os.access("/dev/shm", os.W_OK)
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm" if is_in_memory else None) as folder,
        contextlib.ExitStack() as server,
    ):
        Path(folder).chmod(0o755)
        if options.get("ledger") == "start":
            from postgres_server import started

            options["ledger"] = server.enter_context(started()).url("stress")
        result = work[command](Path(folder), **options)
    print(json.dumps(result))
    sys.exit(0 if result["right"] else 1)


if __name__ == "__main__":
    main()
