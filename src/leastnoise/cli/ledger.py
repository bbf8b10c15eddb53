"""The ledger from a shell: create, show, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leastnoise.cli.terminal import console, say
from leastnoise.printable import printable

if TYPE_CHECKING:
    from leastnoise.ledger import Ledger
    from leastnoise.privacy import Goal

ledger_app = typer.Typer(help="The budget across releases.", no_args_is_help=True, rich_markup_mode=None)

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
def show(path: LedgerFile) -> None:
    """List what was released, what each cost, and what is left."""
    from leastnoise.ledger import Ledger

    ledger = Ledger(path)
    say(f"dataset  {ledger.dataset}\nlimit    {ledger.limit}\nleft     {ledger.remaining}")
    say(f"head     {ledger.head}\n")
    if ledger.entries:
        console().print(_table(ledger))
    else:
        say("nothing was released yet")


@ledger_app.command()
def verify(
    path: LedgerFile,
    head: Annotated[
        str | None, typer.Option(help="a head that a release printed; it must still be there")
    ] = None,
) -> None:
    """Recompute everything from the first row on, and compare with a head that was noted."""
    from leastnoise.ledger import Ledger

    say(f"verified: {Ledger(path).verify(head=head)}")


@ledger_app.command()
def export(
    path: LedgerFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="a .csv or .jsonl file; it holds no answers")],
) -> None:
    """Write the rows of the ledger, without any answers."""
    from leastnoise.ledger import Ledger

    say(f"wrote {Ledger(path).export(out)}")


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


def _table(ledger: Ledger) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("when")
    table.add_column("release")
    table.add_column("charged", justify="right")
    table.add_column("answers")
    for row in ledger.rows:
        cells = (row["at"], row["release_id"], f"{row['unit']} {row['charged']:.6g}")
        stored = "stored" if row["stored"] else "never stored"
        table.add_row(*(Text(printable(str(cell))) for cell in (*cells, stored)))
    return table
