"""Streams under processes that are killed at any moment: nothing unpaid, nothing twice, nothing lost.

    python tests/stream_stress.py --kills 500

Each run opens a stream, publishes its periods in order and notes what was handed out, in a process that is
killed after a random time, or at one of the steps between which something could go wrong. Another process
then goes on.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.planning import ends_of_rows
from leastnoise.release import load_stream

MONTHS = ("1", "2", "3", "4")
COUNTS = np.array([5, 7, 11, 13], dtype=np.int64)

# Where a process may be killed: before and after what a stream does with its ledger.
STOPS = ("check", "spend", "store", "fetch_parts", "store_part")


def planned() -> ln.Plan:
    """A small plan over four periods, with noise that two draws never share."""
    workload = ln.assemble([ln.Prefix("month"), ln.Marginal("month")], ln.Schema(month=MONTHS))
    return ln.design(workload, ln.GDP(1), over="month")


def published(folder: Path, plan: ln.Plan, stop: tuple[str, int, bool] | None, is_twin: bool = False) -> None:
    """Open the stream and publish every period, noting what is handed out; killed where ``stop`` says.

    The twin hands out what it drew before that is stored.
    """
    ledger = ln.Ledger(folder / "a.ledger", dataset="town", limit=ln.GDP(1))
    if stop is not None:
        _killed_at(*stop)
    if is_twin:
        _hand_out_first(folder)
    stream = ln.open_stream(plan, ledger, stream_id="s")
    for month in MONTHS:
        release = stream.measure(month, COUNTS)
        _hand_out(folder, month, release.measurements.tolist())


def _hand_out(folder: Path, month: str, numbers: list[int]) -> None:
    handle = os.open(folder / "outbox", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{month} {' '.join(map(str, numbers))}\n".encode())
    os.close(handle)


def _hand_out_first(folder: Path) -> None:
    store = ln.Ledger.store_part

    def early(self: ln.Ledger, entry: Any, period: str, answers: bytes, *, n_before: int) -> bool:
        drawn = exact.from_limbs(container.from_bytes(answers, "stream part", "s")[1]["measurements"])
        if period == MONTHS[0]:
            _hand_out(folder, period, drawn.tolist())
        return store(self, entry, period, answers, n_before=n_before)

    ln.Ledger.store_part = early  # type: ignore[method-assign]


def _killed_at(step: str, turn: int, before: bool) -> None:
    """Kill this process at the turn-th call of a step of the ledger."""
    work = getattr(ln.Ledger, step)
    turns = Counter[str]()

    def counted(self: ln.Ledger, *arguments: Any, **named: Any) -> Any:
        turns[step] += 1
        if turns[step] == turn and before:
            os.kill(os.getpid(), signal.SIGKILL)
        found = work(self, *arguments, **named)
        if turns[step] == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(ln.Ledger, step, counted)


def _in_child(
    folder: Path,
    plan: ln.Plan,
    stop: tuple[str, int, bool] | None = None,
    seconds: float | None = None,
    is_twin: bool = False,
) -> bool:
    """Whether a process that publishes all was killed before it was done."""
    child = os.fork()
    if child == 0:
        try:
            published(folder, plan, stop, is_twin)
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def judged(folder: Path, plan: ln.Plan) -> Counter[str]:
    """What is wrong with what was paid, stored and handed out, counted."""
    found: Counter[str] = Counter()
    place = folder / "a.ledger"
    outbox = (folder / "outbox").read_text().splitlines() if (folder / "outbox").exists() else []
    if not place.exists():
        found["unpaid"] += len(outbox)
        return found
    ledger = ln.Ledger(place)
    ledger.verify()
    found["paid twice"] += len(ledger.entries) > 1
    if not ledger.entries or not ledger.entries[0].is_stored:
        found["unpaid"] += len(outbox)
        return found
    stream = load_stream(ledger, "s")
    stored = {one.plan.period: one.measurements.tolist() for one in stream.releases}
    ends = ends_of_rows(plan)
    for line in outbox:
        month, *numbers = line.split()
        period = MONTHS.index(month)
        if period not in stored:
            found["unstored"] += 1
        elif list(map(int, numbers)) != stored[period]:
            found["different"] += 1
    # Rows that were measured once are the same in every later release.
    for period, own in stored.items():
        for later, more in stored.items():
            if later > period and np.array(more, dtype=object)[ends[ends <= later] <= period].tolist() != own:
                found["drawn twice"] += 1
    return found


def kill(folder: Path, *, kills: int, seed: int = 0, is_twin: bool = False) -> dict[str, Any]:
    """Kill processes that publish until so many were killed, going on with each stream until it is done."""
    rng, plan = random.Random(seed), planned()
    wrong: Counter[str] = Counter()
    killed = streams = done = 0
    while killed < kills:
        streams += 1
        own = folder / f"{streams}"
        own.mkdir()
        for _ in range(12):
            by_step = rng.random() < 0.7
            stop = (rng.choice(STOPS), rng.randint(1, 6), rng.random() < 0.5) if by_step else None
            seconds = None if by_step else rng.expovariate(1 / 0.05)
            if is_twin:
                # The one moment at which it is found out.
                stop, seconds = ("store_part", 1, True), None
            was_killed = _in_child(own, plan, stop, seconds, is_twin)
            killed += was_killed
            wrong += judged(own, plan)
            if not was_killed:
                break
        _in_child(own, plan)
        wrong += judged(own, plan)
        stream = load_stream(ln.Ledger(own / "a.ledger"), "s")
        done += stream.published == MONTHS
    names = ("unpaid", "paid twice", "unstored", "different", "drawn twice")
    return {"streams": streams, "killed": killed, "completed": done} | {name: wrong[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill(Path(folder), kills=given.kills, seed=given.seed)
    print(", ".join(f"{name} {count}" for name, count in found.items()))
    names = ("unpaid", "paid twice", "unstored", "different", "drawn twice")
    raise SystemExit(any(found[name] for name in names) or found["completed"] != found["streams"])


if __name__ == "__main__":
    main()
