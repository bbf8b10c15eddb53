"""The verbs from a shell; no logic of its own.

Everything heavy is imported inside the command that needs it, so that
`leastnoise --help` answers at once.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from leastnoise.plan import Plan
    from leastnoise.release import Release
    from leastnoise.spec import Spec

app = typer.Typer(
    name="leastnoise",
    help="Publish a batch of counts with the least noise differential privacy allows, and the proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SpecFile = Annotated[Path, typer.Argument(help="a TOML file with [schema], [privacy] and [[query]]")]
DataFile = Annotated[str, typer.Option("--data", help="a CSV or Parquet file, or a glob of them")]
TimeLimit = Annotated[float | None, typer.Option(help="seconds; the best plan so far is taken")]


def main() -> None:
    """Run the command line: errors in one line, no traceback, nothing about the data."""
    from leastnoise.errors import LeastnoiseError

    try:
        app()
    except LeastnoiseError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written", err=True)
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        from leastnoise import __version__

        typer.echo(f"leastnoise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="the folder for what it writes")] = Path("leastnoise-demo"),
    people: Annotated[int, typer.Option(min=1, help="how many people to invent")] = 200_000,
    epsilon: Annotated[float, typer.Option(help="the privacy budget")] = 1.0,
    seed: Annotated[int, typer.Option(help="for inventing the people; the noise has no seed")] = 2026,
) -> None:
    """Invent a town, publish its statistics privately, and show what that cost."""
    from leastnoise.demo import run_demo

    run_demo(out, n_people=people, epsilon=epsilon, seed=seed, designing=_designing, measuring=_measuring)


@app.command()
def design(
    spec: SpecFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="where to save the plan")] = None,
    time_limit: TimeLimit = None,
) -> None:
    """Choose the noise for a specification and save the plan. Needs no data."""
    from leastnoise.spec import load_spec

    plan = _design(load_spec(spec), time_limit)
    typer.echo(plan)
    typer.echo(f"\nsaved {plan.save(out or spec.with_suffix('.plan'))}")


@app.command()
def release(
    plan: Annotated[Path, typer.Argument(help="a plan that `leastnoise design` saved")],
    data: DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="where to write the answers as CSV")] = None,
) -> None:
    """Measure a saved plan on a table: the one step that spends privacy."""
    from leastnoise.plan import load_plan

    result = _measure(load_plan(plan), data)
    _write(result, out or plan.with_suffix(".csv"))


@app.command()
def publish(
    spec: SpecFile,
    data: DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="where to write the answers as CSV")] = None,
    time_limit: TimeLimit = None,
) -> None:
    """Do the whole walk: read the specification, design, measure, write the answers."""
    from leastnoise.report import summarize
    from leastnoise.spec import load_spec

    result = _measure(_design(load_spec(spec), time_limit), data)
    typer.echo(summarize(result))
    _write(result, out or spec.with_suffix(".csv"))


@app.command()
def explain(
    source: Annotated[Path, typer.Argument(help="a specification (.toml) or a saved plan")],
    time_limit: TimeLimit = None,
) -> None:
    """Say what a plan would release, how accurately, and what simpler noise would cost."""
    from leastnoise.plan import load_plan
    from leastnoise.report import summarize
    from leastnoise.report.tables import cost_table
    from leastnoise.spec import load_spec

    plan = _design(load_spec(source), time_limit) if source.suffix == ".toml" else load_plan(source)
    typer.echo(summarize(plan))
    typer.echo("")
    _console().print(cost_table(plan))


@app.command()
def compare(
    spec: SpecFile,
    method: Annotated[list[str] | None, typer.Option(help="a method to include; all unless given")] = None,
    time_limit: TimeLimit = None,
) -> None:
    """Put every method side by side, with its distance from the proven bound."""
    import leastnoise
    from leastnoise.spec import load_spec

    asked = load_spec(spec)
    with _spinner("comparing methods"):
        table = leastnoise.compare(asked.workload, asked.privacy, methods=method, time_limit=time_limit)
    typer.echo(table)


@app.command()
def methods() -> None:
    """List the methods that `design` and `compare` know."""
    from leastnoise.design import methods as known

    typer.echo(known())


def _design(spec: Spec, time_limit: float | None) -> Plan:
    import leastnoise

    settings = dict(spec.design)
    if time_limit is not None:
        settings["time_limit"] = time_limit
    with _designing() as progress:
        return leastnoise.design(spec.workload, spec.privacy, progress=progress, **settings)


def _measure(plan: Plan, data: str) -> Release:
    import leastnoise

    with _measuring():
        return leastnoise.measure(plan, data)


def _write(result: Release, path: Path) -> None:
    from leastnoise.report import write_answers

    typer.echo(f"\nwrote {write_answers(result, path)}")
    typer.echo(f"wrote {result.save(path.with_suffix('.release'))} (load_release() reads it back)")


def _console(**options: Any) -> Any:
    from rich.console import Console

    return Console(highlight=False, **options)


@contextmanager
def _spinner(what: str) -> Iterator[Any]:
    """A line that moves while something takes long; silent where nobody watches."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status(what) as status:
        yield status


@contextmanager
def _designing() -> Iterator[Callable[[Any], None]]:
    """A progress callback that shows the gap shrinking."""
    started = time.monotonic()
    with _spinner("designing") as status:

        def show(progress: Any) -> None:
            if status is not None:
                status.update(f"designing: step {progress.step}, gap to the optimum {progress.gap:.1e}")

        yield show
    typer.echo(f"designed in {time.monotonic() - started:.1f} s", err=True)


@contextmanager
def _measuring() -> Iterator[None]:
    """Show warnings in one line each, as a person at a shell expects."""
    with warnings.catch_warnings(record=True) as caught, _spinner("measuring"):
        warnings.simplefilter("always")
        yield
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
