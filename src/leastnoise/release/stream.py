"""A plan over many periods, published one period after the other.

The whole horizon is paid for once, before its first period. Each period then measures the rows that end by it
(`strategy.time_order`) and stores them, at no further cost:

    open      check, spend, store the plan
    measure   read the table, draw noise for the rows that are new, store them, hand out what is due

Rows that were measured are never measured again. Whoever is killed before a period is stored has handed
nothing out, and whoever comes later draws anew; whoever is killed after that finds it stored.

What is promised, for tables that only grow: records are added or removed as they enter, each counts in the
period that it names, and keeps its values. Given everything published before, the rows that end in period t
shift by the entries of the record's own column; rows that ended before the record's period do not count it.
So the whole stream is as private as the plan, also where later records depend on what was published earlier.
Records in no declared cell are in none of these rows; how many they are is a row of its own in every period,
which all of them together pay for out of the same price (`leastnoise.release.not_counted`).
Where records per person are bounded, the earliest ones count: a later record displaces none that earlier
periods have counted, so that all periods count the same records of a person.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Theorem 2.1; docs/proofs.md has the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import (
    AlreadySpentError,
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    NotYetError,
)
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.operators import Array
from leastnoise.core.random_bits import RandomBits, SystemBits
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.data import Data
from leastnoise.planning import Plan, ends_of_rows, n_due, period_labels, plan_from_parts, plan_through
from leastnoise.privacy import CountedTable, Entry, Ledger
from leastnoise.release.counts import TableCounter, count_tables, opened_source
from leastnoise.release.measuring import noise_for, with_noise
from leastnoise.release.not_counted import (
    USUAL_SHARE,
    NotCounted,
    NotCountedRow,
    not_counted_from_parts,
    row_for,
)
from leastnoise.release.paid import check_readable
from leastnoise.release.release import Receipt, Release, warn_of_rest
from leastnoise.release.release_file import STREAM, is_stream
from leastnoise.release.stream_price import StreamPrice, stream_price

_PART = "stream part"


def open_stream(
    plan: Plan,
    ledger: Ledger,
    *,
    stream_id: str | None = None,
    table: str | None = None,
    revisions: int | str = 0,
    returns: tuple[int, int] | None = None,
) -> Stream:
    """Pay for a plan over many periods, and return the stream that publishes them.

    Args:
        plan: from ``design(workload, privacy, over="month")``.
        ledger: the ledger that pays for all periods at once, now.
        stream_id: the id of the stream in the ledger; a new one by default. Opening an open stream again
            returns it and costs nothing.
        table: a name for the table, which the ledger only displays.
        revisions: how records may change after their period was published, as in `stream_price`.
        returns: in how many periods a person may have a record, and how far apart, as in `stream_price`.

    Raises:
        InputError: if the plan has no periods, or revisions or returns are not of this kind.
        LedgerError: if the ledger cannot pay for it or cannot be used; nothing is spent.
    """
    if not isinstance(plan, Plan):
        raise InputError.must("plan", "be a Plan from design()", given=type(plan))
    if not isinstance(ledger, Ledger):
        raise InputError.must("ledger", "be a Ledger", given=type(ledger))
    if plan.horizon is not None:
        raise InputError.must("plan", "be the plan of all periods, not of one", given=plan.period)
    period_labels(plan)
    plan.fixed_strategy().require_measurable()
    chosen = f"{SystemBits().bits(128):032x}" if stream_id is None else stream_id
    body = container.to_bytes(STREAM, *plan.to_parts())
    price = stream_price(plan, revisions=revisions, returns=returns)
    counted = CountedTable(rules={STREAM: str(plan.over), **price.rules}, label=table)
    # The largest goal that would fit is known only where the plan's own price is charged.
    goal = plan.privacy if plan.has_goal and not price.rules else None
    _check_opened_alike(ledger, chosen, counted.rules)
    try:
        stored = ledger.check(price.charge, chosen, table=counted, expected_bytes=2 * len(body), goal=goal)
    except AlreadySpentError:
        # Paid for and stopped before its plan was stored. No noise was drawn, so that nothing is lost.
        entry = next(one for one in ledger.entries if one.release_id == chosen)
        if entry.charge.plan_digest != plan.digest:
            raise
        ledger.store(entry, body)
        return load_stream(ledger, chosen)
    if stored is None:
        check_readable(plan)
        ledger.store(ledger.spend(price.charge, chosen, table=counted, goal=goal), body)
    return load_stream(ledger, chosen)


def _check_opened_alike(ledger: Ledger, stream_id: str, rules: Mapping[str, str]) -> None:
    """Refuse to open a stream again for records that may do something else than those it was paid for.

    Raises:
        LedgerMismatchError: saying so; nothing is spent.
    """
    entry = next((one for one in ledger.entries if one.release_id == stream_id), None)
    if entry is not None and is_stream(entry) and dict(entry.table.rules) != dict(rules):  # type: ignore[union-attr]
        raise LedgerMismatchError(
            f"stream {stream_id!r} was paid for with other revisions or returns, or over another attribute",
            field="stream_id",
            given=stream_id,
            remedy="open it as it was opened, or open another, which pays again",
        )


def load_stream(ledger: Ledger, stream_id: str) -> Stream:
    """A stream that was opened before, from its ledger alone.

    Raises:
        LedgerMismatchError: if the ledger knows no stream of that id.
        LedgerFileError: if what is stored is not the plan that was paid for.
    """
    found = ledger.fetch_parts(stream_id)
    if found is None:
        raise _no_stream(ledger, stream_id)
    entry, body, _ = found
    if not is_stream(entry):
        raise _no_stream(ledger, stream_id)
    plan = plan_from_parts(*container.from_bytes(body, STREAM, stream_id), stream_id)
    if plan.digest != entry.charge.plan_digest:
        raise LedgerFileError(
            f"what is stored as the plan of stream {stream_id!r} is not what was paid for",
            field="stream_id",
            given=stream_id,
            remedy="restore the file",
        )
    return Stream(ledger, stream_id, plan)


def covers_rest(asked: bool | Sequence[str] | None, source: Any, *, moves: bool) -> bool:
    """Whether the price of a stream covers telling how many records are in no cell.

    Of a person's records, later ones with a cell displace those without; a record that changes may lose its
    cell, or get one. Both would be in rows of the plan and in the rows of these numbers.

    Args:
        asked: as ``not_counted`` of `Stream.measure`.
        moves: whether the stream is paid for records that change, or people who come back.

    Raises:
        NotYetError: if it is asked for and not covered.
    """
    is_counting_people = bool(_people_of(source))
    if (is_counting_people or moves) and asked:
        where = "of a person some are left out" if is_counting_people else "they change or people come back"
        raise NotYetError(
            f"the price of a stream does not cover telling how many records are in no cell where {where}",
            field="not_counted",
            remedy="leave it out, and measure it with a plan of its own",
        )
    return not (is_counting_people or moves)


def _people_of(source: Any) -> dict[str, Any]:
    """How people are told apart in a table, as it is stored with a period; {} where they are not."""
    if not isinstance(source, Data) or source.who is None:
        return {}
    return {"person": source.who.column, "person_unknown": list(source.who.unknown)}


def _people_in(content: dict[str, Any]) -> dict[str, Any]:
    """The same of a period that is stored."""
    return {name: content[name] for name in ("person", "person_unknown") if name in content}


def _no_stream(ledger: Ledger, stream_id: str) -> LedgerMismatchError:
    return LedgerMismatchError(
        f"the ledger {ledger.name!r} knows no stream {stream_id!r}",
        field="stream_id",
        given=stream_id,
        remedy="`leastnoise ledger show`, or ledger.entries in Python, lists what it does",
    )


@dataclass(frozen=True, eq=False)
class Stream(NotebookValue):
    """A plan over many periods that is paid for, published period by period.

    Attributes:
        ledger: where it was paid for, and where everything published is stored.
        stream_id: its id there.
        plan: the plan of all periods.
        last_published: the last period that was published; an error before the first.
    """

    ledger: Ledger
    stream_id: str
    plan: Plan

    @property
    def price(self) -> StreamPrice:
        """What was paid for all periods, and which changes to a person's records that covers."""
        rules = self._rules
        text = rules.get("revisions", "0")
        revisions = int(text) if text.isdigit() else text
        pair = [int(word) for word in rules.get("returns", "").split() if word.isdigit()]
        return StreamPrice(self.plan, revisions, None if not pair else (pair[0], pair[1]))

    @property
    def _rules(self) -> Mapping[str, str]:
        table = self._fetched()[0].table
        return {} if table is None else table.rules

    @property
    def periods(self) -> tuple[str, ...]:
        """The names of all periods, in order."""
        return period_labels(self.plan)

    @property
    def published(self) -> tuple[str, ...]:
        """The names of the published periods, in order, read from the ledger now."""
        return tuple(part.period for part in self._fetched()[0].parts)

    @property
    def last_published(self) -> str:
        """The last period that was published.

        Raises:
            LedgerMismatchError: if there is none.
        """
        done = self.published
        if not done:
            raise LedgerMismatchError(
                f"stream {self.stream_id!r} has not published any period yet",
                field="stream_id",
                given=self.stream_id,
            )
        return done[-1]

    @property
    def next_period(self) -> str | None:
        """The first unpublished period with queries due; None where everything is published."""
        parts = self._fetched()[0].parts
        done = -1 if not parts else self.periods.index(parts[-1].period)
        due = n_due(self.plan)
        return next((self.periods[i] for i in range(done + 1, len(due)) if due[i]), None)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of all published periods, in order. Costs nothing."""
        entry, parts = self._fetched()
        known = self._measurements(entry, parts)
        places = [self.periods.index(part.period) for part in entry.parts]
        return tuple(self._release(entry, parts, known, place) for place in places)

    def release(self, period: str) -> Release:
        """The release of a published period. Costs nothing and needs no data.

        Args:
            period: the name of the period, such as "2026-03".

        Raises:
            LedgerMismatchError: if the period is not published yet.
        """
        index = self._index(period)
        found = self._stored(index)
        if found is None:
            raise LedgerMismatchError(
                f"stream {self.stream_id!r} has not published {period!r} yet", field="period", given=period
            )
        return found

    def measure(
        self,
        period: str,
        source: Any,
        *,
        skip: bool = False,
        not_counted: bool | Sequence[str] | None = None,
        most_not_counted: float = USUAL_SHARE,
    ) -> Release:
        """Publish everything that is due by a period, from the table as it is now; the one private step.

        Records of later periods may be in the table and are not counted. A period that is stored already is
        returned again, whatever the table holds now. Costs nothing: all periods are paid for.

        Args:
            period: the name of the period, such as "2026-03".
            source: what `measure` takes.
            skip: whether to publish this period though earlier ones are not published. Those are then never
                published separately; what was due in them comes with this one.
            not_counted: whether to measure, too, how many records of the table as it is now are in no cell,
                as in `measure`. The periods share the cost, so that its standard error is √T times that of
                one release with T periods; nothing is charged for it. None measures it where it is covered:
                not with ``person=``, nor in a stream with revisions or returns, where a record may be in a
                cell in one period and in none in another.
            most_not_counted: the share of all records in no cell above which this warns, as `measure` does.

        Raises:
            InputError: if there is no such period, nothing is due by it, or earlier ones are not published.
            NotYetError: if ``not_counted`` is asked for where it is not covered.
            DataError: if the source does not fit the plan.
            LedgerError: if it could not be stored; nothing was handed out.
        """
        index = self._index(period)
        part = plan_through(self.plan, index)
        opened = opened_source(self.plan.workload, source)
        who = _people_of(opened)
        if who and "returns" in self._rules:
            raise NotYetError(
                "records of a person are left out by their number, not by how far apart their periods are",
                field="person",
                remedy="give a table that keeps to what returns= promises, without person=",
            )
        row = self._row_of_rest(opened, not_counted, most_not_counted)
        while True:
            stored = self._stored(index)
            if stored is not None:
                warn_of_rest(stored, stacklevel=3)
                return stored
            entry, parts = self._fetched()
            first = 0 if not entry.parts else self.periods.index(entry.parts[-1].period) + 1
            self._check_none_missed(first, index, skip)
            self._check_same_people(entry, parts, who)
            body = self._measured(part, opened, row, first, index, SystemBits())
            if self.ledger.store_part(entry, self.periods[index], body, n_before=len(parts)):
                release = self.release(period)
                warn_of_rest(release, stacklevel=3)
                return release

    def _row_of_rest(
        self, source: Any, asked: bool | Sequence[str] | None, most: float
    ) -> NotCountedRow | None:
        """How a period measures its records in no cell; None where it does not.

        Guarantee:
            All periods together spend at most the plan's price for a record that is in no cell throughout.
        """
        is_covered = covers_rest(asked, source, moves=self._moves)
        return row_for(self.plan, source, asked if is_covered else False, most, n_times=len(self.periods))

    @property
    def _moves(self) -> bool:
        """Whether it was paid for records that change, or people who come back."""
        return bool(set(self._rules) & {"revisions", "returns"})

    def _measured(
        self,
        part: Plan,
        source: Any,
        row: NotCountedRow | None,
        first: int,
        index: int,
        bits: RandomBits,
    ) -> bytes:
        """The rows that end from the first period to the last, with noise, as they are stored."""
        strategy = part.fixed_strategy()
        most = part.privacy.records_per_person
        by = () if row is None else row.attributes
        tables = count_tables(part.workload, source, most, by, earliest_by=self.plan.over)
        ends = self._ends[self._ends <= index]
        read = strategy.exact_answers(tables)[ends >= first]
        noisy = read + noise_for(strategy, len(read), bits)
        content = {"first": first, "last": index, "count": len(read), **_people_of(source)}
        # An array without any entries has no limbs to be stored.
        arrays = {"measurements": exact.to_limbs(noisy)} if len(read) else {}
        if row is not None:
            assert isinstance(tables, TableCounter)
            rest = with_noise(row, row.multiplied(tables.rest), bits)
            content["not_counted"], arrays["not_counted"] = NotCounted(row, tuple(rest.tolist())).to_parts()
        return container.to_bytes(_PART, content, arrays)

    def _check_none_missed(self, first: int, index: int, skip: bool) -> None:
        due = n_due(self.plan)
        missed = [self.periods[i] for i in range(first, index) if due[i]]
        if missed and not skip:
            more = " and more" if len(missed) > 3 else ""
            raise InputError(
                f"{', '.join(missed[:3])}{more} must be published first, or ",
                Remedy(
                    "be given up for good: ",
                    Argument("skip"),
                    " publishes what was due then with this period",
                ),
                field="period",
                given=self.periods[index],
            )

    def _check_same_people(self, entry: Entry, parts: list[bytes], who: dict[str, Any]) -> None:
        """Refuse another column of the person than in the periods before, where a person may have two ids."""
        for part, body in zip(entry.parts, parts, strict=True):
            before = _people_in(container.from_bytes(body, _PART, self.stream_id)[0])
            if before != who:
                column = before.get("person")
                named = "without a column" if column is None else f"with person={column!r}"
                raise InputError(
                    f"{part.period} was measured {named}, and all periods must be measured alike: with the "
                    "same column and the same ids for nobody",
                    field="person",
                    given=who.get("person"),
                )

    @property
    def _ends(self) -> Array:
        return np.asarray(ends_of_rows(self.plan))

    def _index(self, period: str) -> int:
        if not isinstance(period, str) or period not in self.periods:
            raise InputError.unknown("period", period, self.periods)
        return self.periods.index(period)

    def _fetched(self) -> tuple[Entry, list[bytes]]:
        found = self.ledger.fetch_parts(self.stream_id)
        if found is None or found[0].charge.plan_digest != self.plan.digest:
            raise _no_stream(self.ledger, self.stream_id)
        return found[0], found[2]

    def _stored(self, index: int) -> Release | None:
        """The release of a period, if all that it is answered from is stored."""
        entry, parts = self._fetched()
        if not entry.parts or self.periods.index(entry.parts[-1].period) < index:
            return None
        return self._release(entry, parts, self._measurements(entry, parts), index)

    def _release(self, entry: Entry, parts: list[bytes], known: Array, index: int) -> Release:
        # All parts were measured alike.
        is_truncated = bool(_people_in(container.from_bytes(parts[0], _PART, self.stream_id)[0]))
        receipt = Receipt(self.ledger.dataset, self.stream_id, entry.head)
        plan, measurements = plan_through(self.plan, index), known[self._ends <= index]
        # Told by the period that measured it; not by one that was given up.
        not_counted = None
        for one, body in zip(entry.parts, parts, strict=True):
            if one.period == self.periods[index]:
                content, arrays = container.from_bytes(body, _PART, self.stream_id)
                not_counted = not_counted_from_parts(content.get("not_counted"), arrays, plan, self.stream_id)
        return Release(
            plan,
            measurements,
            receipt,
            is_truncated=is_truncated,
            not_counted=not_counted,
            price=self.price if self._moves else None,
        )

    def _measurements(self, entry: Entry, parts: list[bytes]) -> Array:
        """All noisy integers that are stored, in the order of the plan's rows; zero for those that are not.

        Raises:
            LedgerFileError: if what is stored does not fit the plan.
        """
        ends = self._ends
        known: Array = np.zeros(len(ends), dtype=object)
        first = 0
        for part, body in zip(entry.parts, parts, strict=True):
            content, arrays = container.from_bytes(body, _PART, self.stream_id)
            last = self.periods.index(part.period) if part.period in self.periods else -1
            fits = (content.get("first"), content.get("last")) == (first, last) and last >= first
            rows = np.flatnonzero((ends >= first) & (ends <= last)) if fits else np.arange(0)
            values = (
                exact.from_limbs(arrays["measurements"])
                if "measurements" in arrays
                else np.zeros(0, dtype=object)
            )
            if not fits or len(values) != len(rows):
                raise LedgerFileError(
                    f"what is stored for {part.period!r} does not fit the plan of stream {self.stream_id!r}",
                    field="stream_id",
                    given=self.stream_id,
                    remedy="restore the file",
                )
            known[rows] = values
            first = last + 1
        return known

    def __repr__(self) -> str:
        done = len(self.published)
        following = self.next_period
        ends = "all published" if following is None else f"next {following}"
        return f"Stream({self.stream_id!r}, {done} of {len(self.periods)} periods published, {ends})"
