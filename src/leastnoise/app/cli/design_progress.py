"""A design that is waited for at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from leastnoise.app.cli.terminal import gap_in_words, spinner

if TYPE_CHECKING:
    from leastnoise.app.specification import Spec
    from leastnoise.planning import Plan


@contextmanager
def designing() -> Iterator[Callable[[Any], None]]:
    """A progress callback that shows the gap shrinking, whatever is minimised."""
    started = time.monotonic()
    with spinner("designing") as update:

        def show(progress: Any) -> None:
            update(f"designing: step {progress.step}{gap_in_words(progress.gap)}")

        yield show
    typer.echo(f"designed in {time.monotonic() - started:.1f} s", err=True)


def designed(spec: Spec, time_limit: float | None) -> Plan:
    """The plan of a specification, its own time limit replaced by one that is given."""
    import leastnoise

    settings = spec.design_settings()
    if time_limit is not None:
        settings["time_limit"] = time_limit
    with designing() as progress:
        return leastnoise.design(spec.workload, spec.privacy, progress=progress, **settings)
