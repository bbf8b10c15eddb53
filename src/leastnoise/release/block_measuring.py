"""A release of more integers than memory holds: measured block by block, each on a disk before the next.

The order is that of every release, with the blocks in the place of the answers:

    check     the ledger can pay, the folder is private and has room
    read      every count, from one scan, held in memory
    spend     the whole release, once
    open      the ledger stores the plan and what else a reader needs: no block is drawn before
    draw      a block of about a million integers with its noise, written to the folder and synced, then its
              digest recorded in the ledger; and so on with the next
    hand out  once all blocks are recorded, and not before

A process may be stopped anywhere. Whoever asks for the same release again goes on with the first block that
the ledger has not recorded, and draws no block a second time that it has:

* A block that was drawn and not recorded may be drawn again. Nothing of a release is handed out before its
  last block is recorded, so that nobody has seen the first draw; its file stays in the private folder, no
  reader ever opens a file that the ledger does not know, and it is removed when the release is complete. What
  is published is then one draw of every block, exactly as if the process had never been stopped. A stream
  does the same with a period that was not stored.
* A block that was recorded is never drawn again, whether or not its file is still there: two draws of one
  block would be two measurements for the price of one. A lost or altered file is refused.
* Blocks are independent draws, but of one table. If it changed in between, a person could be counted in one
  cell by some blocks and in another by the rest, which costs more than was paid. So the missing blocks are
  drawn only from the version of the table that the ledger has recorded; from any other the release is spent
  and lost. Tables whose version nothing can confirm are refused at the beginning.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core import container
from leastnoise.core.errors import (
    AlreadySpentError,
    DataError,
    InputError,
    LedgerBusyError,
    LedgerFileError,
    LedgerMismatchError,
    NotYetError,
    PlanFileError,
    TooLargeError,
)
from leastnoise.core.interruption import finished_first
from leastnoise.core.operators import Array
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.core.whole_file import written_whole
from leastnoise.data import Data, ScanProgress, version_digest
from leastnoise.planning import Plan, plan_from_parts
from leastnoise.privacy import Charge, CountedTable, Entry, Goal, Ledger
from leastnoise.query import AnyClasses
from leastnoise.release.block_folder import BlockFolder, FolderIntegers
from leastnoise.release.counts import is_truncated, opened_source, tables_of_vector
from leastnoise.release.not_counted import NotCounted, NotCountedRow, not_counted_from_parts
from leastnoise.release.paid import check_readable
from leastnoise.release.release import Receipt, Release
from leastnoise.strategy import CountTables, Measured

# What a release in blocks is called where it is stored.
IN_BLOCKS = "release in blocks"

# The file that tells what a folder of blocks is.
INDEX = "release.index"

# Integers of a block, about: with their noise they are Python integers, some 170 MiB while they are drawn.
INTEGERS_PER_BLOCK = 2**20

# Integers of one block of the strategy, at most, which is never divided: 700 MiB while it is drawn.
MAX_STRATEGY_BLOCK = 2**22

# Bytes of a limb on the disk.
_LIMB_BYTES = 8

# Bits of a limb, less those by which counts and noise may exceed the scale of the noise.
_LIMB_BITS = 52

# Noise for integers of a strategy or of the row beside it, in Python integers.
Drawing = Callable[[Measured | NotCountedRow, Array], Array]


@dataclass(frozen=True)
class BlockProgress:
    """Where a release in blocks stands; it follows from the plan and the clock, never from a value.

    Attributes:
        step: "counting", "drawing" or "comparing", of blocks that were drawn before.
        done: how many blocks are done; 0 while the table is counted.
        of: how many blocks there are.
    """

    step: str
    done: int
    of: int


class Layout(NamedTuple):
    """Which blocks of a strategy are kept together in one file.

    Attributes:
        ends: the first block of the strategy in each file, and after them how many there are.
        starts: the first integer in each file, and after them how many there are.
    """

    ends: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def n_files(self) -> int:
        """How many files there are."""
        return len(self.ends) - 1


def layout_of(strategy: Measured, per_file: int) -> Layout:
    """Whole blocks of a strategy, in order, as many as make about this many integers in one file."""
    starts = strategy.block_starts
    ends = [0]
    while ends[-1] < len(starts) - 1:
        wanted = int(starts[ends[-1]]) + per_file
        ends.append(max(int(np.searchsorted(starts, wanted, side="right")) - 1, ends[-1] + 1))
    return Layout(tuple(ends), tuple(int(starts[end]) for end in ends))


def divisible_strategy(plan: Plan) -> Measured:
    """The strategy of a plan that is measured in blocks.

    Raises:
        NotYetError: if its noise is not Gaussian, or its strategy depends on the data.
        TooLargeError: if one block alone is too large.
    """
    strategy = plan.strategy
    if strategy is None or not strategy.noise.has_normal_errors:
        raise NotYetError(
            "only plans with Gaussian noise that do not depend on the data are measured into a folder; ",
            Remedy("leave out ", Argument("into")),
            field="into",
            given=plan.method,
        )
    largest = int(np.diff(strategy.block_starts).max(initial=0))
    if largest > MAX_STRATEGY_BLOCK:
        raise TooLargeError(
            f"one block of the plan has {largest:,} integers; at most {MAX_STRATEGY_BLOCK:,} are drawn at "
            "once",
            field="workload",
            given=largest,
            remedy="ask for coarser attributes, or for tables of fewer of them",
        )
    return strategy


@dataclass(frozen=True)
class BlockRequest:
    """A release in blocks, as `measure` was asked for it.

    Attributes:
        table: what is counted, before it is read.
        row: how records in no cell are measured; None where they are not.
        draw: adds the noise.
        progress: told about every block.
    """

    plan: Plan
    source: Any
    ledger: Ledger
    release_id: str
    charge: Charge
    goal: Goal | None
    table: CountedTable
    row: NotCountedRow | None
    folder: BlockFolder
    draw: Drawing
    progress: Callable[[BlockProgress], object] | None = None

    def tell(self, step: str, done: int, of: int) -> None:
        """Tell who watches."""
        if self.progress is not None:
            self.progress(BlockProgress(step, done, of))


def measure_in_blocks(request: BlockRequest) -> Release:
    """The release, once every block is on the disk and recorded; goes on where another process was stopped.

    Raises:
        AlreadySpentError: if it was begun with another version of the table, or with other rules: it is lost.
        LedgerFileError: if a block that was recorded is missing or altered.
        LedgerBusyError: if another process draws the same blocks.
    """
    plan, ledger, folder = request.plan, request.ledger, request.folder
    strategy = divisible_strategy(plan)
    if request.table.by is None:
        raise DataError(
            "a release in blocks may have to go on after an interruption, from the same version of the "
            "table, and nothing can confirm the version of this one",
            field="data",
            remedy="give a file, or the Data that vectorize() makes of a frame",
        )
    folder.prepare()
    begun, per_file = _begun(request)
    # As it was begun, whatever this version would choose.
    layout = layout_of(strategy, per_file)
    folder.claim(ledger.dataset, request.release_id)
    digests = () if begun is None else _recorded(ledger, request.release_id)
    folder.check(digests, lambda number: request.tell("comparing", number + 1, layout.n_files))
    if begun is None or len(digests) < layout.n_files:
        if begun is None:
            check_readable(plan)
            _check_room(strategy, folder)
        request.tell("counting", len(digests), layout.n_files)
        read = _read_once(request, strategy, layout, len(digests))
        _draw_missing(request, strategy, layout, read, begun, len(digests))
    return _complete(request, layout)


def _begun(request: BlockRequest) -> tuple[Entry | None, int]:
    """What the ledger knows of the release, None if it can be paid for, and how many integers a block has.

    Raises:
        LedgerMismatchError: if it is stored as a whole, or was paid for as something else.
    """
    ledger, name = request.ledger, request.release_id
    per_file = INTEGERS_PER_BLOCK
    try:
        stored = ledger.check(
            request.charge,
            name,
            request.plan.after,
            table=request.table,
            expected_bytes=_header_bytes(request.plan),
            goal=request.goal,
        )
        if stored is None:
            return None, per_file
        per_file = _integers_per_block(container.from_bytes(stored, IN_BLOCKS, name)[0], name)
    except AlreadySpentError:
        # Paid for and stopped before anything was drawn that anybody could have seen.
        pass
    except PlanFileError:
        raise LedgerMismatchError(
            f"release {name!r} is stored as a whole, not in blocks; ",
            Remedy("leave out ", Argument("into"), " to have it"),
            field="release_id",
            given=name,
        ) from None
    entry = next(one for one in ledger.entries if one.release_id == name)
    if entry.charge.to_parts() != request.charge.to_parts():
        raise LedgerMismatchError(
            f"release {name!r} was paid for with another plan, or with another not_counted",
            field="release_id",
            given=name,
            remedy="ask for it as it was asked for at first, or use a new release id, which pays again",
        )
    return entry, per_file


def _integers_per_block(content: dict[str, Any], name: str) -> int:
    found = content.get("integers_per_block")
    if type(found) is not int or found < 1:
        raise PlanFileError.must("path", "be a release in blocks", given=name)
    return found


def _header_bytes(plan: Plan) -> int:
    content, arrays = plan.to_parts()
    return len(json.dumps(content)) + sum(array.nbytes for array in arrays.values()) + 2**16


def _recorded(ledger: Ledger, release_id: str) -> tuple[str, ...]:
    """The digests of the blocks that the ledger has recorded, by number."""
    entry = next(one for one in ledger.entries if one.release_id == release_id)
    if entry.stored is None:
        return ()
    found = ledger.fetch_parts(release_id)
    assert found is not None
    try:
        contents = [json.loads(body) for body in found[2]]
        digests = tuple(content["sha256"] for content in contents)
        is_right = [content["block"] for content in contents] == list(range(len(contents)))
        is_right = is_right and all(isinstance(d, str) and len(d) == 64 for d in digests)
    except (ValueError, LookupError, TypeError):
        is_right = False
    if not is_right:
        raise LedgerFileError(
            f"what is stored for release {release_id!r} is not a set of blocks",
            field="release_id",
            given=release_id,
            remedy="restore the file",
        )
    return digests


def _check_room(strategy: Measured, folder: BlockFolder) -> None:
    """Refuse a disk that has no room for the blocks, before anything is spent."""
    limbs = strategy.scale.bit_length() // _LIMB_BITS + 1
    needed = strategy.n_measured * _LIMB_BYTES * limbs
    free = shutil.disk_usage(folder.path).free
    if needed > free:
        raise InputError(
            f"the blocks take about {needed:,} bytes, and {str(folder.path)!r} has {free:,} left. "
            "Nothing was spent",
            field="into",
            given=str(folder.path),
        )


class _ReadTable(NamedTuple):
    """What was read of a table, true numbers without noise, and which version it was."""

    tables: CountTables
    rest: tuple[int, ...] | None
    version: bytes | None


def _read_once(request: BlockRequest, strategy: Measured, layout: Layout, first: int) -> _ReadTable:
    """All counts that the files from the first on need.

    Raises:
        DataError: if the table changed meanwhile.
    """
    plan, ledger, row = request.plan, request.ledger, request.row
    opened = opened_source(plan.workload, request.source)
    version = version_digest(opened, ledger.new_digest())
    if isinstance(opened, Data):

        def told(_: ScanProgress) -> None:
            request.tell("counting", first, layout.n_files)

        asked, classes = _tables_from(request, strategy, layout, first)
        held = opened.counted(
            asked,
            () if row is None else row.attributes,
            records_per_person=None if opened.person is None else plan.privacy.records_per_person,
            classes=classes,
            progress=None if request.progress is None else told,
        )
        counted = _ReadTable(held, held.rest, version)
    else:
        counted = _ReadTable(tables_of_vector(plan.workload, opened), None, version)
    if version_digest(opened, ledger.new_digest()) != version:
        raise DataError(
            "the table changed while it was counted",
            field="data",
            remedy="count a copy or a snapshot that stays as it is. Nothing more was spent",
        )
    return counted


def _tables_from(
    request: BlockRequest, strategy: Measured, layout: Layout, first: int
) -> tuple[list[tuple[str, ...]], AnyClasses | None]:
    """The tables that the files from the first on ask for, each once, and the classes of cells."""
    found: dict[tuple[str, ...], None] = {}
    classes = None
    files = pairwise(layout.ends[first:])
    for asked in chain.from_iterable(strategy.part_tables(start, stop) for start, stop in files):
        if isinstance(asked, AnyClasses):
            classes = asked
        elif asked is None:
            schema = request.plan.workload.schema
            # Without a schema the counts come as a vector of all cells.
            found |= {} if schema is None else {schema.names: None}
        else:
            found |= dict.fromkeys(asked)
    return list(found), classes


def _draw_missing(
    request: BlockRequest,
    strategy: Measured,
    layout: Layout,
    read: _ReadTable,
    entry: Entry | None,
    first: int,
) -> None:
    """Spend unless that is done, then draw, sync and record every block from the first on.

    Guarantee:
        A block is drawn only after the release is paid for, from the version of the table that the payment
        names, and only if the ledger has recorded no draw of it.
    """
    ledger, table = request.ledger, replace(request.table, version=read.version)
    if entry is None:
        with finished_first():
            entry = ledger.spend(
                request.charge, request.release_id, request.plan.after, table=table, goal=request.goal
            )
            _open(request, entry, read)
    else:
        if not ledger.is_same_table(entry, table):
            raise AlreadySpentError(
                f"release {entry.release_id!r} is paid for and {first:,} of its {layout.n_files:,} blocks "
                "are drawn; the others may be drawn only from the table that it was paid for. This one is "
                "another version, is read by other rules, or cannot be confirmed to be the same. "
                "Its budget stays spent",
                field="data",
                remedy="give the table as it was, or use a new release id, which pays again",
            )
        if not entry.is_stored:
            with finished_first():
                _open(request, entry, read)
    for number in range(first, layout.n_files):
        request.tell("drawing", number, layout.n_files)
        exact = strategy.exact_part(layout.ends[number], layout.ends[number + 1], read.tables)
        digest = request.folder.write(number, request.draw(strategy, exact))
        # A digest is recorded once its file is synced: what is recorded and missing was lost later.
        body = json.dumps({"block": number, "sha256": digest}).encode()
        if not ledger.store_part(entry, f"block {number}", body, n_before=number):
            request.folder.remove(number, digest)
            raise LedgerBusyError(
                f"another process draws the blocks of release {entry.release_id!r}",
                field="release_id",
                given=entry.release_id,
                remedy="ask for it again when that has ended",
            )
    request.tell("drawing", layout.n_files, layout.n_files)


def _open(request: BlockRequest, entry: Entry, read: _ReadTable) -> None:
    """Store what a reader needs beside the blocks: from then on blocks are recorded."""
    content, arrays = request.plan.to_parts()
    receipt = Receipt(request.ledger.dataset, request.release_id, entry.head)
    parts: dict[str, Any] = {
        "plan": content,
        "receipt": asdict(receipt),
        "is_truncated": is_truncated(request.source),
        "integers_per_block": INTEGERS_PER_BLOCK,
    }
    if request.row is not None:
        assert read.rest is not None
        rest = request.draw(request.row, request.row.multiplied(read.rest))
        found = NotCounted(request.row, tuple(rest.tolist()))
        parts["not_counted"], own = found.to_parts()
        arrays = {**arrays, "not_counted": own}
    request.ledger.store(entry, container.to_bytes(IN_BLOCKS, parts, arrays), keep_waiting=lambda: True)


def _complete(request: BlockRequest, layout: Layout) -> Release:
    """The release of a folder in which every block is recorded, with its index for later readers."""
    found = request.ledger.fetch_parts(request.release_id)
    assert found is not None
    digests = _recorded(request.ledger, request.release_id)
    assert len(digests) == layout.n_files, "handed out before every block was recorded"
    request.folder.remove_unrecorded(digests)
    content, arrays = container.from_bytes(found[1], IN_BLOCKS, request.release_id)
    body = container.to_bytes(IN_BLOCKS, {**content, "blocks": list(digests)}, arrays)
    with written_whole(request.folder.path / INDEX, is_private=True) as temporary:
        temporary.write_bytes(body)
    return _release(content, arrays, request.folder, digests, request.release_id, request.plan)


def load_blocks(path: str | Path) -> Release:
    """The release in blocks of a folder; its plan is checked as `load_plan` does, blocks as they are read.

    Raises:
        PlanFileError: if the folder holds no complete release.
        LedgerFileError: if a block that is read is missing or altered.
    """
    folder = BlockFolder(path)
    content, arrays = container.read(folder.path / INDEX, IN_BLOCKS)
    digests = content.get("blocks")
    if not isinstance(digests, list) or not all(isinstance(d, str) and len(d) == 64 for d in digests):
        raise PlanFileError.must("path", "be the folder of a complete release", given=folder.path.name)
    return _release(content, arrays, folder, digests, folder.path.name, None)


def _release(
    content: dict[str, Any],
    arrays: dict[str, Array],
    folder: BlockFolder,
    digests: Sequence[str],
    name: str,
    plan: Plan | None,
) -> Release:
    if not isinstance(content.get("plan"), dict) or not isinstance(content.get("is_truncated"), bool):
        raise PlanFileError.must("path", "be a release in blocks", given=name)
    plan = plan_from_parts(content["plan"], arrays, name) if plan is None else plan
    strategy = divisible_strategy(plan)
    layout = layout_of(strategy, _integers_per_block(content, name))
    if layout.n_files != len(digests):
        raise PlanFileError(f"{name!r} holds blocks that do not fit its plan", field="path", given=name)
    return Release(
        plan,
        FolderIntegers(folder, layout.starts, digests),
        Receipt(**content["receipt"]),
        is_truncated=content["is_truncated"],
        not_counted=not_counted_from_parts(content.get("not_counted"), arrays, plan, name),
    )
