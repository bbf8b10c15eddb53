"""Releases in blocks, whose processes are killed at any moment: nothing unpaid, drawn twice or lost.

    python tests/block_stress.py --kills 500

Each run measures a table into a folder and notes what was handed out, in a process that receives SIGKILL
after a random time, or before or after some call to the disk or to the ledger. Another process then goes on,
until the release is complete. After every kill the ledger, the folder and what was handed out are compared.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.release import block_measuring
from leastnoise.release.block_folder import BlockFolder

SIZES = (3, 2, 4, 2)
SCHEMA = ln.Schema(**{f"a{i}": range(size) for i, size in enumerate(SIZES)})
LIMIT = ln.GDP(1.5)
PER_BLOCK = 12

# Where a process may be killed: every call that puts something on the disk, and every step of the ledger.
STOPS: tuple[tuple[Any, str], ...] = (
    (os, "replace"),
    (os, "fsync"),
    (os, "open"),
    (Path, "write_bytes"),
    (Path, "unlink"),
    (ln.Ledger, "spend"),
    (ln.Ledger, "store"),
    (ln.Ledger, "store_part"),
    (BlockFolder, "claim"),
    (BlockFolder, "write"),
    (BlockFolder, "remove_unrecorded"),
)

WRONG = ("unpaid", "paid twice", "drawn twice", "different", "block lost", "digest wrong", "left over")


@functools.cache
def planned() -> ln.Plan:
    """All tables of two out of four attributes: some 60 integers, in six files here."""
    asked = ln.assemble([ln.Cube(*SCHEMA.names, order=2)], SCHEMA)
    return ln.design(asked, ln.GDP(1), method="marginals")


def n_files() -> int:
    """How many blocks a complete release has."""
    return block_measuring.layout_of(block_measuring.divisible_strategy(planned()), PER_BLOCK).n_files


def measured(folder: Path, is_twin: bool = False) -> None:
    """Measure the table into the folder and note what is handed out.

    The twin hands out each block before the ledger has recorded it.
    """
    block_measuring.INTEGERS_PER_BLOCK = PER_BLOCK
    if is_twin:
        _hand_out_first(folder)
    ledger = ln.Ledger(folder / "town.ledger", dataset="town", limit=LIMIT)
    release = ln.measure(
        planned(), folder / "t.csv", ledger=ledger, release_id="first", into=folder / "blocks"
    )
    for number, digest in enumerate(release.measurements.digests):  # type: ignore[union-attr]
        _hand_out(folder, number, digest)


def _hand_out(folder: Path, number: int, digest: str) -> None:
    with open(folder / "outbox", "ab", buffering=0) as outbox:
        outbox.write(f"{number} {digest}\n".encode())


def _hand_out_first(folder: Path) -> None:
    write = BlockFolder.write

    def early(self: BlockFolder, number: int, integers: Any) -> str:
        digest = write(self, number, integers)
        _hand_out(folder, number, digest)
        return digest

    BlockFolder.write = early  # type: ignore[method-assign]


def _killed_at(owner: Any, name: str, turn: int, before: bool) -> None:
    """Kill this process at the turn-th call of a function."""
    work: Callable[..., Any] = getattr(owner, name)
    n_calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == turn and before:
            os.kill(os.getpid(), signal.SIGKILL)
        found = work(*arguments, **named)
        if n_calls == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, counted)


def _in_child(
    folder: Path,
    stop: tuple[Any, str, int, bool] | None = None,
    seconds: float | None = None,
    is_twin: bool = False,
) -> tuple[bool, int]:
    """Whether a process that measures all was killed before it was done, and how it ended otherwise."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if stop is not None:
                _killed_at(*stop)
            measured(folder, is_twin)
            status = 0
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)


class Judge:
    """What is wrong with what was paid, recorded and handed out, over the life of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recorded: tuple[str, ...] = ()

    def judged(self, *, is_complete: bool = False) -> Counter[str]:
        """What is wrong now, counted."""
        found: Counter[str] = Counter()
        outbox = self._outbox()
        place = self.folder / "town.ledger"
        ledger = ln.Ledger(place) if place.exists() else None
        if ledger is None or not ledger.entries:
            found["unpaid"] += len(outbox)
            blocks = self.folder / "blocks"
            found["unpaid"] += len(list(blocks.glob("*.block"))) if blocks.exists() else 0
            return found
        ledger.verify()
        found["paid twice"] += len(ledger.entries) > 1
        before, self.recorded = self.recorded, block_measuring._recorded(ledger, "first")
        found["drawn twice"] += self.recorded[: len(before)] != before
        found["different"] += sum(
            number >= len(self.recorded) or self.recorded[number] != digest for number, digest in outbox
        )
        for number, digest in enumerate(self.recorded):
            path = self.folder / "blocks" / f"{number:06d}-{digest[:16]}.block"
            if not path.exists():
                found["block lost"] += 1
            elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                found["digest wrong"] += 1
        if is_complete:
            self._judge_whole(found)
        return found

    def _judge_whole(self, found: Counter[str]) -> None:
        release = ln.load_release(self.folder / "blocks")
        found["block lost"] += n_files() - len(self.recorded)
        found["digest wrong"] += release.measurements.digests != self.recorded  # type: ignore[union-attr]
        found["block lost"] += len(np.asarray(release.measurements)) != planned().fixed_strategy().n_measured
        names = {path.name for path in (self.folder / "blocks").iterdir()}
        found["left over"] += len(names) - n_files() - len({"release.json", "release.index"} & names)

    def _outbox(self) -> list[tuple[int, str]]:
        place = self.folder / "outbox"
        lines = place.read_text().splitlines() if place.exists() else []
        return [(int(number), digest) for number, digest in (line.split() for line in lines)]


def write_table(folder: Path, rng: random.Random) -> None:
    """A table of 100 records in a new folder."""
    folder.mkdir()
    rows = [",".join(str(rng.randrange(size)) for size in SIZES) for _ in range(100)]
    (folder / "t.csv").write_text("\n".join([",".join(SCHEMA.names), *rows]) + "\n")


def _next_stop(
    rng: random.Random, first: list[tuple[Any, str, int, bool]]
) -> tuple[tuple[Any, str, int, bool] | None, float | None]:
    """Where the next process is killed, or after how many seconds."""
    if first:
        return first.pop(0), None
    if rng.random() < 0.7:
        return (*rng.choice(STOPS), rng.randint(1, 12), rng.random() < 0.5), None
    return None, rng.uniform(0.0, 0.6)


def kill(folder: Path, *, kills: int, seed: int = 0, is_twin: bool = False) -> dict[str, Any]:
    """Kill processes until ``kills`` were killed, and go on with each release until it is complete."""
    rng, wrong = random.Random(seed), Counter[str]()
    planned()
    # The first call of each once, before and after it; then any call, or any moment.
    first = [(owner, name, 1, before) for owner, name in STOPS for before in (True, False)]
    killed = releases = complete = 0
    while killed < kills:
        releases += 1
        own = folder / f"{releases}"
        write_table(own, rng)
        judge = Judge(own)
        for _ in range(8):
            stop, seconds = _next_stop(rng, first)
            if is_twin:
                # The one moment at which it is found out.
                stop, seconds = (ln.Ledger, "store_part", 1, True), None
            was_killed, _ = _in_child(own, stop, seconds, is_twin)
            killed += was_killed
            wrong += judge.judged()
            if not was_killed:
                break
        _, code = _in_child(own)
        complete += code == 0
        wrong += judge.judged(is_complete=code == 0)
    counts = {name: wrong[name] for name in WRONG}
    return {"releases": releases, "killed": killed, "completed": complete} | counts


def main() -> None:
    """Print what was found; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--twin", action="store_true", help="kill processes that hand out too early")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill(Path(folder), kills=given.kills, seed=given.seed, is_twin=given.twin)
    print(f"seed {given.seed}, " + ", ".join(f"{name} {count}" for name, count in found.items()))
    raise SystemExit(any(found[name] for name in WRONG) or found["completed"] != found["releases"])


if __name__ == "__main__":
    main()
