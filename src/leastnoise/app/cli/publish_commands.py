"""Commands that measure a table: the one step that spends privacy, and what is checked before it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import leastnoise
from leastnoise.app.cli.approval import Approved, SavedPlan, check_approved
from leastnoise.app.cli.check_command import similar_columns
from leastnoise.app.cli.data_option import DataFile, TableSource, files_read, table_source
from leastnoise.app.cli.design_commands import AcceptGap, SpecFile, TimeLimit, designed
from leastnoise.app.cli.facts import release_facts
from leastnoise.app.cli.into_folder import (
    Into,
    answer_folder,
    block_arguments,
    hand_out_files,
    refuse_with_into,
)
from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import (
    AnswersFile,
    DossierFolder,
    Force,
    Outputs,
    outputs_of,
    save,
    save_dossier,
    say_warnings,
    say_where,
)
from leastnoise.app.cli.payment import (
    LedgerPlace,
    Payment,
    ReleaseId,
    SameTableAs,
    TableLabel,
    payment,
    typed,
)
from leastnoise.app.cli.period_command import Period, Returns, Revisions, Skip, publish_period
from leastnoise.app.cli.plan_cache import NoCache, difference
from leastnoise.app.cli.terminal import say, spinner, warn
from leastnoise.app.specification import Spec, load_spec
from leastnoise.core.errors import (
    AlreadySpentError,
    DataError,
    DataUnavailableError,
    InputError,
    LargeGap,
    PlanFileError,
    StoringDelayed,
    UnrecordedSpending,
    UnstoredError,
)
from leastnoise.data import Data, FileFormat, vectorize
from leastnoise.planning import Plan, load_plan
from leastnoise.query import Schema
from leastnoise.release import Release, presented
from leastnoise.report import check_dossier, summarize

_PERSON = "the column that identifies the person; at most records_per_person records of each count"
Person = Annotated[str | None, typer.Option("--person", help=_PERSON)]
PersonUnknown = Annotated[
    list[str] | None,
    typer.Option("--person-unknown", help="an id that means 'unknown person', such as 0; repeatable"),
]
NotCounted = Annotated[
    bool | None,
    typer.Option(
        "--not-counted/--no-not-counted",
        help="whether to measure how many records match no declared value; by default where that is free",
    ),
]
MostNotCounted = Annotated[
    float | None,
    typer.Option(
        "--most-not-counted",
        help="the share of all records that match no declared value above which the release warns; 0.05 "
        "by default",
    ),
]
Separator = Annotated[
    str | None, typer.Option("--separator", help="the character between the fields of a CSV file")
]
Quote = Annotated[str, typer.Option("--quote", help="the character around fields; empty for none")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="such as utf-8, utf-16 or cp1252 (Windows)")]
Sheet = Annotated[str | None, typer.Option("--sheet", help="the sheet of an Excel file")]
OtherPerson = Annotated[str | None, typer.Option("--person", help=f"{_PERSON}; overrides the specification")]


def publish(
    spec: SpecFile,
    data: DataFile,
    out: AnswersFile = None,
    dossier: DossierFolder = None,
    person: OtherPerson = None,
    ledger: LedgerPlace = None,
    release_id: ReleaseId = None,
    same_table_as: SameTableAs = None,
    table: TableLabel = None,
    not_counted: NotCounted = None,
    most_not_counted: MostNotCounted = None,
    time_limit: TimeLimit = None,
    accept_gap: AcceptGap = None,
    period: Period = None,
    skip: Skip = False,
    revisions: Revisions = None,
    returns: Returns = None,
    plan: SavedPlan = None,
    approved: Approved = None,
    no_cache: NoCache = False,
    into: Into = None,
    force: Force = False,
) -> Facts:
    """Design, measure and write the answers."""
    asked = load_spec(spec)
    asked = _with_options(asked, person, not_counted, most_not_counted, accept_gap)
    rest = _rest(asked)
    _check_one_period(asked, period, dossier, revisions, returns, plan or approved)
    fixed = _plan_fixed(asked, plan, approved, time_limit, cache=not no_cache)
    source = table_source(data)
    opened = partial(_table, source, asked.schema, asked.person, asked.person_unknown, asked.format)
    if into is not None:
        refuse_with_into(dossier=dossier, period=period, presentation=asked.presentation)
        paid = payment(ledger, release_id, same_table_as, table), time_limit, rest, fixed, not no_cache
        return _published_in_blocks(spec, asked, opened, out, into, *paid)
    if period is not None:
        return publish_period(
            spec,
            asked,
            opened(),
            period,
            ledger=payment(ledger, None, same_table_as, table).ledger,
            stream_id=release_id,
            table=table,
            out=out,
            time_limit=time_limit,
            cache=not no_cache,
            skip=skip,
            rest=rest,
            revisions=revisions,
            returns=returns,
        )
    outputs = _outputs(spec, source, out, force, asked.workload.shape[0], ledger, release_id, dossier)
    payer = payment(ledger, release_id, same_table_as, table)
    result = payer.stored_for(asked) or _designed_and_measured(
        asked, opened(), payer, time_limit, rest, fixed, not no_cache
    )
    check_approved(result.plan, asked, approved)
    return _hand_out(result, asked, outputs, payer, dossier, force=force)


def _published_in_blocks(
    spec: Path,
    asked: Spec,
    opened: Callable[[], Data],
    out: Path | None,
    into: Path,
    payer: Payment,
    *how: Any,
) -> Facts:
    """A release in a folder of Parquet files; ``how`` is the rest of what `_designed_and_measured` takes."""
    folder = answer_folder(spec, out, into, payer)
    result = _designed_and_measured(asked, opened(), payer, *how, into=into)
    return hand_out_files(result, folder, into, payer, asked.publication)


def _designed_and_measured(
    asked: Spec,
    table: Data,
    payer: Payment,
    time_limit: float | None,
    rest: Mapping[str, Any],
    fixed: Plan | None,
    cache: bool,
    *,
    into: Path | None = None,
) -> Release:
    """The release that a specification asks for; ``rest`` as in `_measure`, ``fixed`` as in `_plan_fixed`."""
    payer.check_before_design(asked)
    how = 'name it in the specification, as in person = "patient_id", or with --person'
    _warn_of_trust(asked.records_per_person, table.person, payer, how)
    plan = designed(asked, time_limit, cache=cache) if fixed is None else fixed
    if asked.presentation is not None:
        asked.presentation.check(plan)
    return _measure(plan, table, payer, {**rest, "accept_gap": asked.accept_gap}, into)


def _with_options(
    asked: Spec,
    person: str | None,
    not_counted: bool | None,
    most_not_counted: float | None,
    accept_gap: float | None,
) -> Spec:
    """What is asked: the specification, and what options say in its place.

    Placeholders of the person's column are those of the column that the specification names.
    """
    rest = asked.not_counted
    rest = rest if not_counted is None else replace(rest, measure=not_counted)
    rest = rest if most_not_counted is None else replace(rest, most=most_not_counted)
    if rest != asked.not_counted:
        asked = replace(asked, not_counted=rest)
    if accept_gap is not None:
        asked = replace(asked, design={**asked.design, "accept_gap": accept_gap})
    if person in (None, asked.person):
        return asked
    return replace(asked, person=person, person_unknown=())


def _rest(asked: Spec) -> dict[str, Any]:
    """What `measure` is told about records that match no declared value."""
    return {"not_counted": asked.not_counted.measure, "most_not_counted": asked.not_counted.most}


def _plan_fixed(
    asked: Spec, plan: Path | None, approved: str | None, time_limit: float | None, *, cache: bool
) -> Plan | None:
    """The plan to measure where it is fixed before data is read; None where neither option is given.

    Args:
        asked: as in `check_approved`.

    Raises:
        PlanFileError: if it is no plan for the specification, or not the one that was approved.
    """
    if plan is None and approved is None:
        return None
    if plan is None:
        found = designed(asked, time_limit, cache=cache)
    else:
        found = load_plan(plan)
        other = difference(found, asked)
        if other is not None:
            raise PlanFileError(
                f"{str(plan)!r} is not a plan for this specification: it is {other}",
                field="plan",
                given=str(plan),
                remedy="design it again from this specification. No data was read and nothing was spent",
            )
    check_approved(found, asked, approved)
    return found


def _hand_out(
    result: Release, asked: Spec, outputs: Outputs, payer: Payment, dossier: Path | None, *, force: bool
) -> Facts:
    """Write a release into its files, and say what is in them, where they are and what was paid."""
    if asked.presentation is not None:
        result = presented(result, asked.presentation)
    save(result, outputs, asked.publication)
    with spinner("putting the summary together"):
        summary = str(summarize(result, asked.publication))
    say(f"{summary}\n")
    say_warnings(result)
    say_where(outputs)
    if dossier is not None:
        save_dossier(result, dossier, asked.publication, force=force)
    payer.say_receipt(result)
    return {**release_facts(result, outputs, payer.ledger), "dossier": dossier, "stream": None}


def measure(
    plan: Annotated[Path, typer.Argument(help="a plan saved by `leastnoise design`")],
    data: DataFile,
    out: AnswersFile = None,
    person: Person = None,
    person_unknown: PersonUnknown = None,
    separator: Separator = None,
    quote: Quote = '"',
    encoding: Encoding = None,
    sheet: Sheet = None,
    ledger: LedgerPlace = None,
    release_id: ReleaseId = None,
    same_table_as: SameTableAs = None,
    table: TableLabel = None,
    not_counted: NotCounted = None,
    most_not_counted: MostNotCounted = None,
    accept_gap: AcceptGap = None,
    approved: Approved = None,
    force: Force = False,
) -> Facts:
    """Measure a table with a saved plan: the one step that spends privacy. Also called release."""
    chosen = load_plan(plan)
    _refuse_periods(chosen, plan)
    schema = chosen.workload.schema
    if schema is None:
        raise InputError(
            "a plan without a schema is measured on counts, in Python; a table needs a schema", field="plan"
        )
    format = FileFormat(separator, quote or None, encoding, sheet)
    unknown = tuple(person_unknown or ())
    asked = _with_options(
        Spec(schema, (), None, person=person, person_unknown=unknown, format=format),
        None,
        not_counted,
        most_not_counted,
        accept_gap,
    )
    check_approved(chosen, asked, approved)
    source = table_source(data)
    outputs = _outputs(plan, source, out, force, chosen.workload.shape[0], ledger, release_id)
    payer = payment(ledger, release_id, same_table_as, table)
    _warn_of_trust(chosen.privacy.records_per_person, person, payer, "name the column with --person")
    try:
        table_of = _table(source, schema, person, asked.person_unknown, asked.format)
    except DataUnavailableError:
        stored = payer.stored_of(chosen)
        if stored is None:
            raise
        result = stored
    else:
        result = _measure(chosen, table_of, payer, {**_rest(asked), "accept_gap": asked.accept_gap})
    save(result, outputs)
    say_warnings(result)
    say_where(outputs)
    payer.say_receipt(result)
    return release_facts(result, outputs, payer.ledger)


def _refuse_periods(chosen: Plan, path: Path) -> None:
    """Refuse the plan of a stream, which no release of its own pays for."""
    if chosen.over is not None:
        raise InputError(
            f"{str(path)!r} publishes period by period, as it was designed with over = {chosen.over!r}, and "
            "is paid for once for all of them",
            field="plan",
            given=str(path),
            remedy="`leastnoise publish SPEC --period PERIOD --ledger LEDGER` publishes one, with the "
            "specification that the plan was designed from",
        )


def _measure(
    plan: Plan, table: Data, payer: Payment, rest: Mapping[str, Any], into: Path | None = None
) -> Release:
    """The release; ``rest`` is what else `measure` is told, such as about records of no declared value."""
    payer.check_plan(plan)
    known = payer.known_ids
    try:
        with _measuring() as update:
            try:
                blocks = block_arguments(into, update)
                result = leastnoise.measure(plan, table, **payer.arguments, **rest, **blocks)
            except UnstoredError as error:
                # Only this process holds the answers, and Ctrl-C may not have been meant to discard them.
                typer.echo(
                    f"release {error.release_id} is paid for and not stored yet: still trying; press Ctrl-C "
                    "again to give up its answers for good",
                    err=True,
                )
                try:
                    result = error.store()
                except UnstoredError:
                    raise AlreadySpentError(
                        f"release {error.release_id!r} is paid for and its answers are lost; its budget "
                        "stays spent. A new --release-id pays again",
                        field="release_id",
                        given=error.release_id,
                    ) from None
    except KeyboardInterrupt:
        for release_id in payer.stored_ids - known:
            typer.echo(
                f"release {release_id} is paid for and stored; the same command with --release-id "
                f"{release_id} hands it out at no cost",
                err=True,
            )
        raise
    if payer.release_id in known:
        payer.say_stored_already()
    return result


def _table(
    source: TableSource,
    schema: Schema,
    person: str | None,
    person_unknown: Iterable[str | int],
    format: FileFormat,
) -> Data:
    """The table in files; if a column is missing, the error names columns that are spelled similarly."""
    try:
        return vectorize(source, schema, person=person, person_unknown=person_unknown, format=format)
    except DataError as error:
        hint = similar_columns(source, schema, person, format)
        raise type(error)(*error.args, hint, field=error.field, given=error.given) from None


def _check_one_period(
    asked: Spec,
    period: str | None,
    dossier: Path | None,
    revisions: str | None,
    returns: str | None,
    fixed: Path | str | None,
) -> None:
    """Refuse what is for a release of its own, and would do nothing for a period; and the other way round."""
    if period is None and "over" in asked.design:
        raise InputError(
            f"this specification publishes period by period, as over = {str(asked.design['over'])!r} in "
            "[design] says, and is paid for once for all of them",
            field="period",
            remedy="publish the next period with --period and --ledger, or take over out of [design] to "
            "publish all at once",
        )
    if period is None and (revisions is not None or returns is not None):
        raise InputError(
            "--revisions and --returns are for a stream; name its --period",
            field="revisions" if returns is None else "returns",
        )
    if period is not None and fixed is not None:
        raise InputError(
            "--plan and --approved are for one release; the plan of a stream is stored when it is opened",
            field="plan",
            given=str(fixed),
        )
    if period is not None and dossier is not None:
        raise InputError(
            "--dossier is for one release; write that of a period from its saved release, in Python",
            field="dossier",
            given=str(dossier),
        )


def _warn_of_trust(records_per_person: int, person: str | None, payer: Payment, how: str) -> None:
    """Warn, before anything is paid, that nothing enforces the number of records per person."""
    is_paid = payer.release_id in payer.known_ids
    if records_per_person > 1 and person is None and not is_paid:
        warn(
            f"records_per_person = {records_per_person} is not enforced, because no column identifies the "
            f"person: anyone with more records is protected less; {how}"
        )


def _outputs(
    named_after: Path,
    source: TableSource,
    out: Path | None,
    force: bool,
    n_answers: int,
    ledger: str | None,
    release_id: str | None,
    dossier: Path | None = None,
) -> Outputs:
    """Where a release is written, once it is sure that nothing is overwritten that should be kept."""
    if dossier is not None:
        check_dossier(dossier, force=force)
    again = "; a second release spends privacy again, so keep the first"
    if release_id is not None:
        again = "; a release whose id the ledger knows costs nothing"
    elif ledger is not None:
        again += (
            f": `leastnoise ledger show {typed(ledger)}` lists what was released, and `ledger fetch` gives "
            "it again at no cost"
        )
    inputs = [named_after, *files_read(source)]
    return outputs_of(named_after, inputs, out=out, force=force, n_answers=n_answers, again=again)


@contextmanager
def _measuring() -> Iterator[Callable[[str], None]]:
    """Show the library's own warnings in one line each; others may quote the table, and are not shown.

    Each is shown at once: that no ledger records a release is said before its noise is drawn.
    """
    with warnings.catch_warnings(record=True), spinner("measuring") as update:
        warnings.simplefilter("always")
        record = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, (StoringDelayed, UnrecordedSpending, LargeGap)):
                warn(str(message))
            else:
                record(message, category, *where, **options)

        warnings.showwarning = show
        yield update
