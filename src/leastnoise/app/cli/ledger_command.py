"""The ledger from a shell: create, show, fetch, verify, export, move, grants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.design_commands import designed
from leastnoise.app.cli.facts import ledger_facts, release_facts
from leastnoise.app.cli.invocation import Facts, as_command
from leastnoise.app.cli.outputs import (
    AnswersFile,
    Force,
    check_new,
    check_outputs,
    file_name,
    is_stdout,
    outputs_of,
    save,
    say_where,
    write_out,
)
from leastnoise.app.cli.payment import (
    Payment,
    check_known,
    exists,
    file_of,
    opened,
    release_of,
    shown_place,
    typed,
)
from leastnoise.app.cli.refusals import CommandGroup, PlainCommand
from leastnoise.app.cli.terminal import OUTPUT, say
from leastnoise.app.specification import Spec, load_spec
from leastnoise.core.errors import InputError, PrivacyError
from leastnoise.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Goal,
    Ledger,
    PureDP,
    Remaining,
    Verification,
    epsilon_of,
    full_charge,
    goal_to_text,
    grants_for,
    least_limit,
    move_ledger,
    rows_text,
)
from leastnoise.release import Release, is_stream, load_stream, stored_goal, stored_release

ledger = typer.Typer(
    cls=CommandGroup,
    help="Keep the privacy budget across releases.",
    no_args_is_help=True,
    add_completion=False,
)


def _command(function: Callable[..., Facts]) -> Callable[..., Facts]:
    """Make a function a command of this group."""
    ledger.command(function.__name__, cls=PlainCommand)(as_command(function))
    return function


LedgerPlace = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER", help="the ledger's file, or postgresql://USER@HOST/DATABASE?ledger=NAME"
    ),
]


class RowFormat(StrEnum):
    """How rows are written to standard output."""

    csv = "csv"
    jsonl = "jsonl"


# A ledger is made for at most this many releases, and at most as many further ones are counted.
_MOST_TIMES = 1000


@_command
def create(
    place: LedgerPlace,
    dataset: Annotated[
        str, typer.Option(help="a name for the people whose data it covers; cannot be changed later")
    ],
    epsilon: Annotated[float | None, typer.Option(help="limit on epsilon, over all releases")] = None,
    delta: Annotated[
        float | None, typer.Option(help="the delta that belongs to epsilon; leave out for pure privacy")
    ] = None,
    rho: Annotated[float | None, typer.Option(help="or: limit on rho, zero-concentrated privacy")] = None,
    mu: Annotated[float | None, typer.Option(help="or: limit on mu, Gaussian privacy")] = None,
    spec: Annotated[
        Path | None,
        typer.Option("--for", help="or: a specification; sets the limit to what --times releases of it need"),
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_TIMES, help="with --for: the number of releases; 1 by default"),
    ] = None,
    neighbours: Annotated[str | None, typer.Option(help="add-remove (default) or replace-one")] = None,
    records_per_person: Annotated[
        int | None,
        typer.Option(
            min=1, help="every release must protect at least this many records per person; 1 by default"
        ),
    ] = None,
) -> Facts:
    """Create a ledger for a dataset, with a limit on the privacy loss over all releases."""
    file, name = file_of(place), typed(place)
    if exists(place):
        shown = name if file is not None else shown_place(place)
        raise InputError(
            f"{shown!r} exists already",
            field="path",
            given=shown,
            remedy=f"see it with: leastnoise ledger show {name}",
        )
    size = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    people = {"neighbours": neighbours, "records_per_person": records_per_person}
    limit = _limit_asked_for(size, people, spec, times)
    made = Ledger(place, dataset=dataset, limit=limit)
    say(made)
    say(f"limit {limit}" + ("" if spec is None else f": {spec.name} fits {_so_often(times or 1)}"))
    if isinstance(limit, PureDP):
        say(
            "note: this limit is pure and cannot be changed: it refuses every release with a delta; give "
            "--delta 1e-6 to allow them"
        )
    if limit.records_per_person > 1:
        k = limit.records_per_person
        say(f"note: every specification needs records_per_person = {k} or more in its [privacy]")
    say(f"{'wrote' if file is not None else 'made'} {name}; release with --ledger {name}")
    return {"place": shown_place(place), **ledger_facts(made)}


def _limit_asked_for(
    size: Mapping[str, float | None], people: Mapping[str, Any], spec: Path | None, times: int | None
) -> Goal:
    """The limit by the options: its own size, or what `times` releases of a specification need.

    Raises:
        InputError: if options contradict each other.
    """
    if spec is not None:
        others = [
            f"--{name.replace('_', '-')}" for name, given in {**size, **people}.items() if given is not None
        ]
        if others:
            raise InputError(
                "--for takes the limit from the specification's own [privacy]",
                field="limit",
                given=others[0],
                remedy=f"leave out {others[0]}",
            )
        return _limit_for(spec, times or 1)
    if times is not None:
        raise InputError(
            "--times says how often a specification is released",
            field="times",
            given=times,
            remedy="name it with --for SPEC.toml",
        )
    return _limit(**size, **{name: given for name, given in people.items() if given is not None})


@_command
def show(
    place: LedgerPlace,
    spec: Annotated[
        Path | None, typer.Option(help="show what is left in terms of this specification")
    ] = None,
) -> Facts:
    """List the releases, what each cost, and how much budget is left."""
    ledger = opened(place)
    say(f"dataset  {ledger.dataset}\nlimit    {ledger.limit}\nleft     {ledger.remaining}")
    moved_to = ledger.moved_to
    if moved_to is not None:
        say(f"closed   moved to {moved_to}")
    for line in () if moved_to is not None else _room_for_one_more(ledger, spec):
        say(f"         {line}")
    say(f"head     {ledger.head}\n")
    rows = ledger.rows
    for row in rows:
        # Whole and in lines of their own: ids and heads are there to be copied.
        say(row["release_id"])
        stored = "answers stored" if row["stored"] else "answers never stored"
        say(f"  {row['at']}  charged {_charged_text(ledger, row)}  {stored}")
        for line in _published(ledger, row["release_id"]):
            say(f"  {line}")
        if row["table"] is not None:
            say(f"  table {row['table']!r}, as it was called")
        if row["group"] not in (None, row["release_id"]):
            say(f"  added cell by cell to {row['group']}: the same table, confirmed")
        say(f"  paid at head {row['head']}")
    if not rows:
        say("nothing was released yet")
    elif any(row["unit"] == "μ²" for row in rows):
        say("\nthe ε of releases does not add up to what was spent: their μ² does, and ε grows more slowly")
    return {"place": shown_place(place), **ledger_facts(ledger), "moved_to": moved_to, "rows": rows}


def _charged_text(ledger: Ledger, row: Mapping[str, Any]) -> str:
    """What a release cost: ε first, which people know, and μ² in brackets, which is what adds up."""
    exact = f"{row['unit']} {row['charged']:.6g}"
    delta = getattr(ledger.limit, "delta", None)
    if row["unit"] != "μ²" or not delta:
        return exact
    return f"ε {epsilon_of(Fraction(row['charged']), delta):.4g} at δ = {delta:g} ({exact})"


def _published(ledger: Ledger, release_id: str) -> list[str]:
    """What was published of a stream, and what is due next; nothing for any other release."""
    entry = next(one for one in ledger.entries if one.release_id == release_id)
    if not is_stream(entry) or not entry.is_stored:
        return []
    stream = load_stream(ledger, release_id)
    done, following = stream.published, stream.next_period
    through = f"published through {done[-1]}" if done else "nothing published yet"
    return [
        f"stream over {stream.plan.over}: {through}, {'all' if following is None else f'next {following}'}"
    ]


@_command
def fetch(
    place: LedgerPlace,
    release_id: Annotated[str, typer.Argument(help="the id of the release, as listed by `show`")],
    period: Annotated[
        str | None, typer.Option("--period", help="which period of a stream; its last one by default")
    ] = None,
    out: AnswersFile = None,
    force: Force = False,
) -> Facts:
    """Write the answers of a stored release again. Costs nothing; needs neither data nor plan."""
    ledger = opened(place)
    check_known(ledger, release_id)
    result, name = _stored(ledger, release_id, period)
    n_answers = result.plan.workload.shape[0]
    # After the release: a ledger has many, and each its own answers.
    file = file_of(place)
    named_after = (Path("ledger") if file is None else file).with_name(f"{file_name(name)}.release")
    outputs = outputs_of(
        named_after, [] if file is None else [file], out=out, force=force, n_answers=n_answers
    )
    save(result, outputs)
    say_where(outputs)
    Payment(ledger, release_id).say_receipt(result)
    return release_facts(result, outputs, ledger)


def _stored(ledger: Ledger, release_id: str, period: str | None) -> tuple[Release, str]:
    """A stored release, or one period of a stream, and what its files are named after.

    Raises:
        InputError: if a period is named of what is no stream.
        LedgerMismatchError: if the stream has not published it.
    """
    entry = next(one for one in ledger.entries if one.release_id == release_id)
    if is_stream(entry):
        stream = load_stream(ledger, release_id)
        chosen = period if period is not None else stream.last_published
        return stream.release(chosen), f"{release_id}-{chosen}"
    if period is not None:
        raise InputError.must("period", f"be left out: {release_id!r} is not a stream", given=period)
    return stored_release(ledger, release_id), release_id


@_command
def verify(
    place: LedgerPlace,
    head: Annotated[
        str | None,
        typer.Option(help="a head printed by an earlier release, which must still be in the ledger"),
    ] = None,
) -> Facts:
    """Verify the ledger: recompute it from the first row and look for a head that you noted."""
    ledger = opened(place)
    found = ledger.verify(head=head)
    say(f"verified: {found}")
    return _verified_facts(found)


def _verified_facts(found: Verification) -> Facts:
    return {
        "dataset": found.dataset,
        "n_entries": found.n_entries,
        "n_stored": found.n_stored,
        "head": found.head,
        "left": str(found.remaining),
        "moved_to": found.moved_to,
    }


@_command
def export(
    place: LedgerPlace,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="a .csv or .jsonl file; standard output by default"),
    ] = Path("-"),
    format: Annotated[RowFormat, typer.Option(help="on standard output: csv or jsonl")] = RowFormat.csv,
    force: Force = False,
) -> Facts:
    """Export the rows of the ledger, without any answers."""
    ledger = opened(place)
    if OUTPUT.get().is_json and str(out) == "-":
        return {"file": None, "rows": ledger.rows}
    if is_stdout(out):
        write_out(rows_text(ledger.rows, format.value))
        return {}
    file = file_of(place)
    check_outputs([out], [] if file is None else [file])
    check_new(out, force=force)
    say(f"wrote {ledger.export(out)}")
    return {"file": out, "rows": ledger.rows}


@_command
def move(
    source: LedgerPlace,
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="a database address, or a new file to move back to"),
    ],
    abandon_unstored: Annotated[
        bool,
        typer.Option(
            "--abandon-unstored",
            help="move even if some paid releases were never stored; make sure no process is storing them",
        ),
    ] = False,
) -> Facts:
    """Move a ledger from a file to PostgreSQL or back, and close the source. Safe to run again."""
    opened(source)
    moved = move_ledger(source, target, abandon_unstored=abandon_unstored)
    say(moved)
    found = moved.verify()
    say(f"verified: {found}")
    say(f"closed {typed(source)}; release with --ledger {typed(target)}")
    return {"place": shown_place(target), **_verified_facts(found)}


@_command
def grants(
    place: LedgerPlace,
    role: Annotated[str, typer.Argument(help="the role that makes releases; it may only read and append")],
) -> Facts:
    """Print the SQL that lets another PostgreSQL role spend from this ledger."""
    text = grants_for(place, role)
    if not OUTPUT.get().is_json:
        write_out(f"{text}\n")
    return {"sql": text}


def _room_for_one_more(ledger: Ledger, spec: Path | None) -> list[str]:
    """What a further release may spend, in the terms of the limit and of a plan at hand or of the last one.

    Each has its own delta, and an epsilon at one of them says little about another.
    """
    # Looked up once: of a series fixed beforehand it is searched for.
    remaining = ledger.remaining
    own = _most(remaining, ledger.limit)
    lines = [f"for one more release: {own}"]
    if spec is not None:
        asked = load_spec(spec)
        goal = asked.privacy
        by_targets = f"what its targets need; see: leastnoise explain {spec}"
        most = by_targets if goal is None else _most(remaining, goal)
        return [*lines, f"for {spec.name}: {most}{_more_times(ledger, remaining, asked)}"]
    stored = [entry.release_id for entry in ledger.entries if entry.is_stored]
    goal = stored_goal(ledger, stored[-1]) if stored else None
    like_last = own if goal is None else _most(remaining, goal)
    return lines if like_last == own else [*lines, f"for one like the last: {like_last}"]


def _most(remaining: Remaining, goal: Goal) -> str:
    try:
        found = remaining.like(goal)
    except PrivacyError as error:
        return f"nothing: {error}"
    return "nothing" if found is None else f"at most {goal_to_text(found)}"


def _more_times(ledger: Ledger, remaining: Remaining, spec: Spec) -> str:
    """How often a specification still fits: by its plan where that was released, else by its goal."""
    released, goal = release_of(ledger, spec), spec.privacy
    if released is not None:
        charge = released.charge
    elif goal is not None:
        charge = full_charge(goal)
    else:
        return ""
    try:
        n = remaining.times(charge, most=_MOST_TIMES + 1)
    except PrivacyError:
        # Said already, with what to do.
        return ""
    if n > _MOST_TIMES:
        return f"; as it is, it fits more than {_so_often(_MOST_TIMES)}"
    if n == 0:
        return "; as it is, it does not fit"
    return f"; as it is, it fits {_so_often(n, more=True)}"


def _so_often(times: int, *, more: bool = False) -> str:
    return f"{times:,}{' more' if more else ''} time{'' if times == 1 else 's'}"


def _limit_for(path: Path, times: int) -> Goal:
    """The smallest limit that a specification fits into the given number of times."""
    spec = load_spec(path)
    # What targets need is known once a plan meets them.
    goal = designed(spec, None).privacy if spec.privacy is None else spec.privacy
    return least_limit(goal, times)


def _limit(
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    mu: float | None,
    **people: Any,
) -> Goal:
    given = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(given) != 1 or (delta is not None and epsilon is None):
        raise InputError(
            "give the limit as --epsilon (with --delta, unless pure), as --rho or as --mu, or have "
            "it found for a specification: --for SPEC.toml --times N",
            field="limit",
        )
    if rho is not None:
        return ZCDP(rho, **people)
    if mu is not None:
        return GDP(mu, **people)
    assert epsilon is not None
    return PureDP(epsilon, **people) if delta is None else ApproxDP(epsilon, delta, **people)
