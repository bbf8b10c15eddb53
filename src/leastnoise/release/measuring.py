"""The one private step: check, read, spend, draw, store, hand out.

Between the counts and the stored noisy integers there are only integers: y = A x + noise, or the stages
of a mechanism that depends on the data.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core import container
from leastnoise.core.errors import DataError, InputError, LargeGap, UnrecordedSpending
from leastnoise.core.interruption import finished_first
from leastnoise.core.operators import Array
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.core.random_bits import RandomBits, SystemBits
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.core.steps import log_step
from leastnoise.data import identity_of, version_digest
from leastnoise.planning import ACCEPTED_GAP, Plan, gap_warning
from leastnoise.privacy import CountedTable, Ledger
from leastnoise.release.block_folder import BlockFolder
from leastnoise.release.block_measuring import BlockProgress, BlockRequest, measure_in_blocks
from leastnoise.release.counts import (
    TableCounter,
    count_tables,
    is_truncated,
    opened_source,
    tables_of_vector,
)
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from leastnoise.release.not_counted import USUAL_SHARE, NotCounted, NotCountedRow, row_for
from leastnoise.release.paid import PaidRelease, check_readable
from leastnoise.release.release import Receipt, Release, warn_of_rest
from leastnoise.release.release_file import release_from_parts
from leastnoise.strategy import CountTables, Measured


def measure(
    plan: Plan,
    source: Any,
    *,
    ledger: Ledger | None = None,
    release_id: str | None = None,
    same_table_as: str | None = None,
    table: str | None = None,
    not_counted: bool | Sequence[str] | None = None,
    most_not_counted: float = USUAL_SHARE,
    accept_gap: float = ACCEPTED_GAP,
    into: str | Path | None = None,
    progress: Told[BlockProgress] = None,
) -> Release:
    """The noisy answers of a plan on a table: the one step that spends privacy budget.

    Args:
        plan: what to measure, from `design` or `load_plan`.
        source: what `vectorize` takes, a `Data`, or a vector of integer counts. `Data` with a ``person`` is
            truncated to the goal's ``records_per_person`` records of each person; for anything else you
            promise that nobody has more.
        ledger: the ledger that pays for it; without one, a warning of one line. The order is: check, read the
            counts, spend, draw noise, store the answers, hand them out. A failure while reading costs
            nothing; one after spending may waste budget, but never gives an answer that was not paid for.
        release_id: the id of the release in the ledger; a new one by default. Asking again for a release
            whose answers are stored returns the same answers and costs nothing.
        same_table_as: the id of an earlier release from this ledger about the same version of the same table.
            The plan is then charged only for the growth of the cell that has spent most, and the table is
            compared with the one measured then: files and vectors of counts by a digest, a frame by being the
            very `Data` of that release. If it is another table, nothing is spent. Without it, and for tables
            in engines, the plan's worst case is charged. A plan designed ``after`` others finds their table
            by itself.
        table: a name for the table, which the ledger only displays.
        not_counted: whether to measure, too, how many records are in no cell: `Release.not_counted`. By
            default this is measured wherever it costs nothing: with add-remove neighbours, from a table,
            unless ``same_table_as`` names a release that has published it. With names of attributes, it also
            measures how many of these records each of them leaves out; all of these numbers are then noisier.
            With replace-one neighbours, asking for it makes the release a tenth more expensive.
        most_not_counted: the share of all records in no cell above which `measure` warns, with
            `leastnoise.core.errors.RecordsNotCounted`, and so does everything that shows the release. Judged
            by the noisy number; `Release.warnings` repeats the sentence.
        accept_gap: the gap of the plan's certificate above which the release warns (`LargeGap`), before
            anything is read: a search that was cut short may be far from the least noise.
        into: a private folder, for plans that measure more integers than memory holds. They are drawn in
            blocks, each on disk before the next, and the ledger records their digests; answers are read from
            there on demand. An interrupted release continues under the same ``release_id``, from the same
            version of the table. `leastnoise.release.block_measuring` says why that is private. Needs
            ``ledger``. None measures in memory.
        progress: with ``into``, called before every block with the number drawn so far. By default a notebook
            shows a bar if this takes more than a second; ``False`` for none.

    Guarantee:
        Neighbouring tables differ in one record, or, with records_per_person=k, in up to k records of one
        person; with person=, they differ in all records of one person, of which at most k are counted (k is 1
        unless given). For them the release satisfies the plan's privacy goal exactly: the
        strategy is an integer matrix whose sensitivity was taken in exact
        arithmetic, the counts are integers, and the noise is exactly a rounded
        Gaussian or a discrete Laplace variable from the system's generator. Where
        the plan depends on the data, the stages of its mechanism add up to the goal,
        each with a proof in its module, and they too hold to integers. The number of
        records in no cell is one cell more, disjoint from all others, and spends at
        most what the dearest of them does (`leastnoise.release.not_counted`); where
        neighbours replace a record it adds its own cost, which the ledger charges.

    Raises:
        InputError: if something given does not hold, or the plan was designed with ``over=`` and belongs to a
            stream; nothing is spent.
        DataError: if the source does not fit the plan; nothing is spent.
        LedgerError: if the ledger cannot pay for it or cannot be used, or the table is not the one named;
            nothing is spent.
        UnstoredError: if somebody stopped it after the payment and before the answers were stored; the error
            keeps them, and its ``store()`` continues.
        RandomnessError: if the system's random generator fails; nothing is released, and the spent budget
            stays spent.
    """
    if not isinstance(plan, Plan):
        raise InputError.must("plan", "be a Plan from design()", given=type(plan))
    if plan.over is not None:
        raise InputError(
            f"this plan publishes period by period, as it was designed with over={plan.over!r}, and is paid "
            "for once for all of them; ",
            Remedy(
                "open_stream(plan, ledger) opens its stream, and stream.measure(period, source) publishes a "
                "period; a plan designed without over= is measured at once"
            ),
            field="plan",
        )
    gap = gap_warning(plan, accept_gap)
    if gap is not None:
        warnings.warn(gap, LargeGap, stacklevel=2)
    if into is None and plan.strategy is not None:
        plan.strategy.require_measurable()
    row = row_for(plan, source, not_counted, most_not_counted, same_table_as=same_table_as)
    if ledger is not None:
        with progress_shown(progress, "measuring", _block_to_line) as tell:
            release = _measured_with(ledger, plan, source, row, release_id, same_table_as, table, into, tell)
        warn_of_rest(release, stacklevel=3)
        return release
    if into is not None:
        raise InputError(
            "the digests of blocks are kept in a ledger; ",
            Remedy("give ", Argument("ledger"), " too"),
            field="ledger",
        )
    _check_needs_no_ledger(plan, release_id, same_table_as, table)
    with progress_shown(progress, "measuring", _block_to_line):
        read = _read_with_rest(plan, source, row)
        spends = plan.privacy.short(by_person=is_truncated(source))
        warnings.warn(
            f"no ledger records this release: it spends {spends}, and so does every repetition",
            UnrecordedSpending,
            stacklevel=2,
        )
        release = _released(plan, read, row, SystemBits(), is_truncated=is_truncated(source))
    warn_of_rest(release, stacklevel=3)
    return release


# What the steps of a release in blocks are called.
_STEPS = {"counting": "counting the table", "comparing": "comparing blocks", "drawing": "drawing noise"}


def _block_to_line(progress: BlockProgress) -> tuple[str, float]:
    said = f"{_STEPS.get(progress.step, progress.step)}: {progress.done:,} of {progress.of:,} blocks done"
    return said, progress.done / max(progress.of, 1)


def _check_needs_no_ledger(
    plan: Plan, release_id: str | None, same_table_as: str | None, table: str | None
) -> None:
    """Refuse what only a ledger can tell or keep."""
    if plan.after:
        raise InputError(
            "this plan was designed after others, and is within its goal only together with them; ",
            Remedy("name the ledger that holds their releases: ", Argument("ledger")),
            field="ledger",
        )
    if release_id is not None:
        raise InputError(
            Argument("release_id"),
            " names a release in a ledger; ",
            Remedy("give ", Argument("ledger"), " too, or leave it out"),
            field="release_id",
            given=release_id,
        )
    if same_table_as is not None or table is not None:
        raise InputError(
            Argument("same_table_as"),
            " and ",
            Argument("table"),
            " are for a ledger; ",
            Remedy("give ", Argument("ledger"), " too, or leave them out"),
            field="same_table_as" if table is None else "table",
        )


def _measured_with(
    ledger: Ledger,
    plan: Plan,
    source: Any,
    row: NotCountedRow | None,
    release_id: str | None,
    same_table_as: str | None,
    label: str | None,
    into: str | Path | None,
    progress: Callable[[BlockProgress], object] | None,
) -> Release:
    """Check, read, spend, draw, store, hand out."""
    if not isinstance(ledger, Ledger):
        raise InputError.must("ledger", "be a Ledger", given=type(ledger))
    chosen = f"{SystemBits().bits(128):032x}" if release_id is None else release_id
    charge = plan.charge if row is None else plan.charge.with_no_cell(row.cost)
    # What was not given cannot be given smaller.
    goal = plan.privacy if plan.has_goal and not plan.after else None
    by, rules, held = identity_of(source)
    table = CountedTable(by=by, rules=rules, label=label, same_as=same_table_as, held=held)
    if into is not None:
        bits = SystemBits()
        return measure_in_blocks(
            BlockRequest(
                plan,
                source,
                ledger,
                chosen,
                charge,
                goal,
                table,
                row,
                BlockFolder(into),
                lambda measured, integers: integers + noise_for(measured, len(integers), bits),
                progress,
            )
        )

    # Check: the answers may be stored already.
    stored = ledger.check(charge, chosen, plan.after, table=table, expected_bytes=_bytes_of(plan), goal=goal)
    if stored is not None:
        return release_from_parts(*container.from_bytes(stored, "release", chosen), chosen)
    check_readable(plan)
    # Read: the last step that costs nothing.
    read, version = _read_once(ledger, plan, source, row)
    # Whoever interrupts from here on would have paid for answers that nobody has.
    with finished_first() as interruption:
        # Spend, then draw.
        entry = ledger.spend(charge, chosen, plan.after, table=replace(table, version=version), goal=goal)
        receipt = Receipt(ledger.dataset, chosen, entry.head)
        release = _released(plan, read, row, SystemBits(), receipt, is_truncated=is_truncated(source))
        # Store, then hand out.
        return PaidRelease(ledger, entry, release, release.to_bytes()).stored(interruption)


def _read_once(
    ledger: Ledger, plan: Plan, source: Any, row: NotCountedRow | None
) -> tuple[_Read, bytes | None]:
    """All that is needed of a table, and the digest of the version that it was read from, if it has one.

    Raises:
        DataError: if the table changed meanwhile.
    """
    opened = opened_source(plan.workload, source)
    version = version_digest(opened, ledger.new_digest())
    read = _read_with_rest(plan, opened, row)
    if version_digest(opened, ledger.new_digest()) != version:
        raise DataError(
            "the table changed while it was counted",
            field="data",
            remedy="count a copy or a snapshot that stays as it is. Nothing was spent",
        )
    return read, version


def _bytes_of(plan: Plan) -> int:
    """About how large a release of a plan is, for the room it needs."""
    content, arrays = plan.to_parts()
    if plan.mechanism is not None:
        n = plan.mechanism.most_integers
    else:
        n = plan.fixed_strategy().n_measured
    return len(json.dumps(content)) + sum(array.nbytes for array in arrays.values()) + 16 * n + 2**16


def measured(plan: Plan, counts: Array, bits: RandomBits) -> Array:
    """What a plan releases about counts, (n,), with noise from these bits: the private step itself."""
    return _noisy(plan, _read(plan, tables_of_vector(plan.workload, counts)), bits)


class _Read(NamedTuple):
    """All that was read of a table, in whole numbers without noise."""

    integers: Array
    rest: Array | None


def _read_with_rest(plan: Plan, source: Any, row: NotCountedRow | None) -> _Read:
    """What the plan measures of a table, and what the row does of the records in no cell."""
    by = () if row is None else row.attributes
    tables = count_tables(plan.workload, source, plan.privacy.records_per_person, by)
    integers = _read(plan, tables)
    rest = None
    if row is not None:
        assert isinstance(tables, TableCounter)
        rest = row.multiplied(tables.rest)
    log_step("table counted")
    return _Read(integers, rest)


def _released(
    plan: Plan,
    read: _Read,
    row: NotCountedRow | None,
    bits: RandomBits,
    receipt: Receipt | None = None,
    *,
    is_truncated: bool,
) -> Release:
    """Draw all noise, and nothing else: what was read is not used again."""
    noisy = _noisy(plan, read.integers, bits)
    not_counted = None
    if row is not None:
        assert read.rest is not None
        not_counted = NotCounted(row, tuple(with_noise(row, read.rest, bits).tolist()))
    log_step("noise drawn")
    return Release(plan, noisy, receipt, is_truncated=is_truncated, not_counted=not_counted)


def _read(plan: Plan, tables: CountTables) -> Array:
    """All that is needed of the table, in whole numbers: what a strategy measures, or the counts."""
    if plan.mechanism is not None:
        return tables(None)[0].reshape(-1)
    return plan.fixed_strategy().exact_answers(tables)


def _noisy(plan: Plan, read: Array, bits: RandomBits) -> Array:
    """What was read with noise, in Python integers, one independent draw per integer."""
    if plan.mechanism is not None:
        return plan.mechanism.measure(
            read,
            lambda scale, size: discrete_laplace(scale, size, bits),
            lambda scale, size: rounded_gaussian(scale, size, bits),
        )
    return with_noise(plan.fixed_strategy(), read, bits)


def with_noise(strategy: Measured | NotCountedRow, integers: Array, bits: RandomBits) -> Array:
    """What a strategy measures, in Python integers, with its noise: one independent draw for each."""
    return integers + noise_for(strategy, strategy.n_measured, bits)


def noise_for(strategy: Measured | NotCountedRow, count: int, bits: RandomBits) -> Array:
    """Independent draws of a strategy's noise, as Python integers."""
    samplers = {"rounded_gaussian": rounded_gaussian, "discrete_laplace": discrete_laplace}
    draw = samplers[strategy.noise.sampler]
    return np.array(draw(strategy.scale, count, bits), dtype=object)
