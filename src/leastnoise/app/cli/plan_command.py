"""The planner from a shell: a page on this machine, or one file to pass on."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.app.cli.design_commands import SpecFile
from leastnoise.app.cli.invocation import Facts, check_alone
from leastnoise.app.cli.outputs import Force, check_new, check_outputs
from leastnoise.app.cli.payment import opened
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.app.planner import private_entry, serve, static_page
from leastnoise.core.progress import gap_to_text
from leastnoise.core.whole_file import written_whole


def plan(
    spec: SpecFile,
    static: Annotated[
        Path | None,
        typer.Option("--static", help="write one self-contained page here, to read and pass on"),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="also show what this ledger has left, and how often the plan fits")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="a fixed port; any that is free by default")
    ] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="open the page in the default browser")
    ] = True,
    force: Force = False,
) -> Facts:
    """Choose privacy and accuracy in a browser, table by table. Runs on this machine; reads no data."""
    if ledger is not None:
        opened(ledger)
    if static is not None:
        check_outputs([static], [spec])
        check_new(static, force=force)
        with spinner("designing") as update:
            page = static_page(
                spec,
                ledger=ledger,
                tell=lambda said: update(f"{said['stage']}: step {said['step']}{gap_to_text(said['gap'])}"),
            )
        with written_whole(static) as new:
            new.write_text(page, encoding="utf-8")
        say(f"wrote {static} (open it in a browser; its privacy slider works)")
        return {"page": static}
    check_alone("static", None)

    with ExitStack() as until_stopped:

        def tell(url: str) -> None:
            say(f"the planner is at {url}")
            say("for this machine only, while this command runs; stop it with Ctrl-C")
            if open_page:
                # The arguments of a browser can be read by other users: they may not hold the address.
                webbrowser.open(until_stopped.enter_context(private_entry(url)).as_uri())

        serve(spec, ledger=ledger, port=port, opened=tell)
    return {"page": None}
