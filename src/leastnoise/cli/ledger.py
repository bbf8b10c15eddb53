"""The ledger from a shell: create, show, fetch, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leastnoise.cli.outputs import (
    AnswersFile,
    Force,
    check_new,
    check_outputs,
    outputs_of,
    save,
    say_where,
)
from leastnoise.cli.paying import Payment, opened
from leastnoise.cli.refusals import Commands
from leastnoise.cli.terminal import say

if TYPE_CHECKING:
    from leastnoise.accounting import Remaining
    from leastnoise.ledger import Ledger
    from leastnoise.privacy import Goal

ledger_app = typer.Typer(
    cls=Commands, help="The budget across releases.", no_args_is_help=True, rich_markup_mode=None
)

LedgerFile = Annotated[Path, typer.Argument(help="the file of the ledger")]


@ledger_app.command()
def create(
    path: LedgerFile,
    dataset: Annotated[str, typer.Option(help="a name for the people it is about; fixed from now on")],
    epsilon: Annotated[float | None, typer.Option(help="the most epsilon one person may ever spend")] = None,
    delta: Annotated[
        float | None, typer.Option(help="the delta that goes with epsilon; none for pure")
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help="instead: the most rho of zero-concentrated privacy")
    ] = None,
    mu: Annotated[float | None, typer.Option(help="instead: the most mu of Gaussian privacy")] = None,
    neighbours: Annotated[str, typer.Option(help="add-remove or replace-one")] = "add-remove",
    records_per_person: Annotated[int, typer.Option(min=1, help="the most records of one person")] = 1,
) -> None:
    """Begin a ledger for a dataset, with the most that one person may ever spend."""
    from leastnoise.errors import InputError
    from leastnoise.ledger import Ledger

    if path.exists():
        raise InputError(f"{str(path)!r} exists; a ledger is begun once. See: leastnoise ledger show {path}")
    limit = _limit(epsilon, delta, rho, mu, neighbours, records_per_person)
    say(f"{Ledger(path, dataset=dataset, limit=limit)}\nwrote {path}; release with --ledger {path}")


@ledger_app.command()
def show(
    path: LedgerFile,
    spec: Annotated[
        Path | None, typer.Option(help="a specification: say what is left in the terms of its [privacy]")
    ] = None,
) -> None:
    """List what was released, what each cost, and what one more release may spend."""
    ledger = opened(path)
    say(f"dataset  {ledger.dataset}\nlimit    {ledger.limit}\nleft     {ledger.remaining}")
    for line in _room_for_one_more(ledger, spec):
        say(f"         {line}")
    say(f"head     {ledger.head}\n")
    for row in ledger.rows:
        # Whole and in lines of their own: ids and heads are there to be copied.
        say(row["release_id"])
        stored = "answers stored" if row["stored"] else "answers never stored"
        say(f"  {row['at']}  charged {row['unit']} {row['charged']:.6g}  {stored}")
        say(f"  paid at head {row['head']}")
    if not ledger.rows:
        say("nothing was released yet")


@ledger_app.command()
def fetch(
    path: LedgerFile,
    release_id: Annotated[str, typer.Argument(help="what the release is known by, as `show` lists it")],
    out: AnswersFile = None,
    force: Force = False,
) -> None:
    """Write the answers of a stored release again. Costs nothing, and needs neither data nor plan."""
    from leastnoise.release import stored_release

    ledger = opened(path)
    result = stored_release(ledger, release_id)
    n_answers = result.plan.workload.shape[0]
    outputs = outputs_of(path, [path], out=out, force=force, n_answers=n_answers)
    save(result, outputs)
    say_where(outputs)
    Payment(ledger, release_id).say_receipt(result)


@ledger_app.command()
def verify(
    path: LedgerFile,
    head: Annotated[
        str | None, typer.Option(help="a head that a release printed; it must still be there")
    ] = None,
) -> None:
    """Recompute everything from the first row on, and compare with a head that was noted."""
    say(f"verified: {opened(path).verify(head=head)}")


@ledger_app.command()
def export(
    path: LedgerFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="a .csv or .jsonl file; it holds no answers")],
    force: Force = False,
) -> None:
    """Write the rows of the ledger, without any answers."""
    ledger = opened(path)
    check_outputs([out], [path])
    check_new(out, force=force)
    say(f"wrote {ledger.export(out)}")


def _room_for_one_more(ledger: Ledger, spec: Path | None) -> list[str]:
    """What a further release may spend, in the terms of the limit and of a plan at hand or of the last one.

    Each has its own delta, and an epsilon at one of them says little about another.
    """
    from leastnoise.release import stored_goal
    from leastnoise.spec import load_spec

    # Looked up once: of a series fixed beforehand it is searched for.
    remaining = ledger.remaining
    own = _most(remaining, ledger.limit)
    lines = [f"for one more release: {own}"]
    if spec is not None:
        goal = load_spec(spec).privacy
        by_targets = f"what its targets need; see: leastnoise explain {spec}"
        return [*lines, f"for {spec.name}: {by_targets if goal is None else _most(remaining, goal)}"]
    stored = [entry.release_id for entry in ledger.entries if entry.is_stored]
    goal = stored_goal(ledger, stored[-1]) if stored else None
    like_last = own if goal is None else _most(remaining, goal)
    return lines if like_last == own else [*lines, f"for one like the last: {like_last}"]


def _most(remaining: Remaining, goal: Goal) -> str:
    from leastnoise.errors import PrivacyError
    from leastnoise.ledger import in_words

    try:
        found = remaining.like(goal)
    except PrivacyError as error:
        return f"nothing: {error}"
    return "nothing" if found is None else f"at most {in_words(found)}"


def _limit(
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    mu: float | None,
    neighbours: str,
    records_per_person: int,
) -> Goal:
    from leastnoise.errors import InputError
    from leastnoise.privacy import GDP, ZCDP, ApproxDP, PureDP

    common: dict[str, Any] = {"neighbours": neighbours, "records_per_person": records_per_person}
    given = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(given) != 1 or (delta is not None and epsilon is None):
        raise InputError("give the limit as --epsilon (with --delta, unless pure), as --rho or as --mu")
    if rho is not None:
        return ZCDP(rho, **common)
    if mu is not None:
        return GDP(mu, **common)
    assert epsilon is not None
    return PureDP(epsilon, **common) if delta is None else ApproxDP(epsilon, delta, **common)
