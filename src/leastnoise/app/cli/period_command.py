"""`publish --period`: one period of a plan over many, for a scheduler that runs the same command each time.

The first call designs the plan and pays for all periods; every call publishes what is due by its period, or
writes again what the ledger has stored of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.design_commands import designed, warn_of_gap
from leastnoise.app.cli.facts import release_facts
from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import outputs_of, save, say_warnings, say_where
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.app.specification import Spec
from leastnoise.core.errors import InputError, LedgerMismatchError, RecordsNotCounted
from leastnoise.planning import plan_through
from leastnoise.privacy import Ledger
from leastnoise.release import Stream, covers_rest, is_stream, load_stream, open_stream, stream_price
from leastnoise.report import summarize

Period = Annotated[
    str | None,
    typer.Option(
        "--period",
        help="publish what is due by this value of the attribute that `over` names, such as 2026-03; "
        "the first call pays for all periods",
    ),
]
Skip = Annotated[
    bool,
    typer.Option("--skip", help="publish this period though earlier ones were not, and give those up"),
]

Revisions = Annotated[
    str | None,
    typer.Option(
        "--revisions",
        help="with the first --period: how often a record may change after it was published. A number of "
        "moves, `values` for any changes that keep its period, or `any`; costs more",
    ),
]
Returns = Annotated[
    str | None,
    typer.Option(
        "--returns",
        help="with the first --period: 4,13 where a person has at most one record in a period, in at most 4 "
        "periods that are 13 apart",
    ),
]


def publish_period(
    spec: Path,
    asked: Spec,
    source: Any,
    period: str,
    *,
    ledger: Ledger | None,
    stream_id: str | None,
    table: str | None,
    out: Path | None,
    time_limit: float | None,
    cache: bool,
    skip: bool,
    rest: Mapping[str, Any],
    revisions: str | None = None,
    returns: str | None = None,
) -> Facts:
    """Publish one period of the stream that a specification describes; the facts of its release.

    Args:
        rest: what `Stream.measure` is told about records that match no declared value.
    """
    if ledger is None:
        raise InputError(
            "--period needs --ledger: what was published of earlier periods is stored there", field="ledger"
        )
    if "over" not in asked.design:
        raise InputError(
            "--period needs a time attribute",
            field="over",
            remedy='name it in the specification, as in [design] over = "month"',
        )
    records = {"revisions": _revisions(revisions), "returns": _returns(returns)}
    # Refused before it is paid for.
    covers_rest(rest["not_counted"], source, moves=records != _UNCHANGED)
    stream = _stream(asked, ledger, stream_id or spec.stem, table, time_limit, records, cache=cache)
    if period not in stream.periods:
        raise InputError.unknown("period", period, stream.periods)
    part = plan_through(stream.plan, stream.periods.index(period))
    named = spec.with_name(f"{spec.stem}-{period}{spec.suffix}")
    # Written again at will: what a period has published never changes.
    outputs = outputs_of(named, [spec], out=out, force=True, n_answers=part.workload.shape[0])
    is_known = period in stream.published
    with spinner("measuring"), warnings.catch_warnings():
        # Said below, by the command that finds out more.
        warnings.simplefilter("ignore", RecordsNotCounted)
        release = stream.measure(period, source, skip=skip, **rest)
    save(release, outputs)
    say(f"{summarize(release)}\n")
    say_warnings(release)
    if is_known:
        say(f"{period} was published before: these are the same answers.")
    say_where(outputs)
    following = stream.next_period
    say(f"stream {stream.stream_id}: {'all published' if following is None else f'next is {following}'}")
    told = {"id": stream.stream_id, "period": period, "was_published": is_known, "next": following}
    return {**release_facts(release, outputs, ledger), "dossier": None, "stream": told}


# Records that keep their values, of people who come once: what a plan is priced for.
_UNCHANGED: dict[str, Any] = {"revisions": 0, "returns": None}


def _revisions(text: str | None) -> int | str:
    if text is None:
        return 0
    return int(text) if text.isdecimal() else text


def _returns(text: str | None) -> tuple[int, int] | None:
    """Two numbers that a comma separates."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise InputError.must("returns", "be two numbers, as in 4,13", given=text)
    return int(words[0]), int(words[1])


def _stream(
    asked: Spec,
    ledger: Ledger,
    stream_id: str,
    table: str | None,
    time_limit: float | None,
    records: dict[str, Any],
    *,
    cache: bool,
) -> Stream:
    """The stream of that id, opened now if the ledger does not know it.

    Raises:
        LedgerMismatchError: if what it was opened for is not what the specification asks now.
    """
    entry = next((one for one in ledger.entries if one.release_id == stream_id), None)
    if entry is None or not entry.is_stored:
        # One that was stopped after paying and before storing its plan is completed.
        plan = designed(asked, time_limit, cache=cache)
        warn_of_gap(plan, asked.accept_gap)
        say(f"opening stream {stream_id}: all {len(plan.workload.labels):,} counts are paid for now")
        if records != _UNCHANGED:
            say(f"{stream_price(plan, **records)}")
        return open_stream(plan, ledger, stream_id=stream_id, table=table, **records)
    if not is_stream(entry):
        raise LedgerMismatchError(
            f"{stream_id!r} is a release of its own in this ledger, not a stream",
            field="release_id",
            given=stream_id,
            remedy="name the stream with --release-id",
        )
    stream = load_stream(ledger, stream_id)
    plan, paid = stream.plan, stream.price
    if records not in (_UNCHANGED, {"revisions": paid.revisions, "returns": paid.returns}):
        raise LedgerMismatchError(
            f"stream {stream_id!r} was paid for with other --revisions or --returns",
            field="stream_id",
            given=stream_id,
            remedy="leave them out to go on as it was opened, or open another with --release-id NEW, which "
            "pays again",
        )
    is_same = plan.workload.digest == asked.workload.digest and plan.over == asked.design["over"]
    if not is_same or asked.privacy not in (None, plan.privacy):
        raise LedgerMismatchError(
            f"the specification does not ask for what stream {stream_id!r} was opened for",
            field="spec",
            remedy="go on with the specification it was opened with, or open another with --release-id NEW, "
            "which pays again",
        )
    return stream
