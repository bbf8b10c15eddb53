"""The verbs from a shell; no logic of its own.

Everything heavy is imported inside the command that needs it, so that
`leastnoise --help` answers at once.
"""

from __future__ import annotations

import errno
import glob
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from leastnoise.cli.audit import audit
from leastnoise.cli.designing import designed, designing
from leastnoise.cli.explain import explain, tradeoff
from leastnoise.cli.init import init
from leastnoise.cli.ledger import ledger_app
from leastnoise.cli.report import report
from leastnoise.cli.reproduce import reproduce
from leastnoise.cli.terminal import say as _say
from leastnoise.cli.terminal import spinner
from leastnoise.printable import printable
from leastnoise.wholefile import check_folder, check_replaceable

if TYPE_CHECKING:
    from leastnoise.plan import Plan
    from leastnoise.release import Release


class _Commands(TyperGroup):
    """The commands; what goes wrong in one is told in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        from leastnoise.errors import LeastnoiseError

        try:
            return super().invoke(ctx)
        except LeastnoiseError as error:
            message = str(error)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            message = f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"
        except MemoryError:
            message = "there is not enough memory for this"
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None
        typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    cls=_Commands,
    name="leastnoise",
    help="Publish a batch of counts with the least noise differential privacy allows, and the proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# No square brackets in these: Typer takes them for markup and leaves them out.
SpecFile = Annotated[Path, typer.Argument(help="a TOML file with schema, privacy and queries")]
DataFile = Annotated[str, typer.Option("--data", help="a CSV or Parquet file, or a glob of them")]
TimeLimit = Annotated[float | None, typer.Option(help="seconds; the best plan so far is taken")]
Person = Annotated[
    str | None, typer.Option("--person", help="the column that names the person, for records_per_person")
]
Force = Annotated[bool, typer.Option("--force", help="replace an earlier release of the same name")]
AnswersFile = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="the answers, as .csv, .parquet, .json or .xlsx; NAME-answers.csv unless given"
    ),
]


LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="the ledger that pays for it; `leastnoise ledger create` begins one"),
]
ReleaseId = Annotated[
    str | None, typer.Option("--release-id", help="what the ledger knows it by; asking again costs nothing")
]


def main() -> None:
    """Run the command line: errors in one line, no traceback, nothing about the data."""
    for stream in (sys.stdout, sys.stderr):
        # Where the terminal's encoding has no ε, a question mark is better than no answer.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="leastnoise")


def _version(wanted: bool) -> None:
    if wanted:
        import leastnoise

        typer.echo(f"leastnoise {leastnoise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


def demo(
    out: Annotated[Path, typer.Option(help="the folder for what it writes")] = Path("leastnoise-demo"),
    people: Annotated[int, typer.Option(min=1, max=10**7, help="how many people to invent")] = 200_000,
    epsilon: Annotated[float, typer.Option(help="the privacy budget")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="for inventing the people; the noise has no seed")] = 2026,
) -> None:
    """Invent a town, publish its statistics privately, and show what that cost."""
    from leastnoise.demo import run_demo

    run_demo(out, n_people=people, epsilon=epsilon, seed=seed, designing=designing)


def design(
    spec: SpecFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="where to save the plan")] = None,
    time_limit: TimeLimit = None,
) -> None:
    """Choose the noise for a specification and save the plan. Needs no data."""
    from leastnoise.spec.reading import load_spec

    asked = load_spec(spec)
    target = out or spec.with_suffix(".plan")
    _check_outputs([target], [spec])
    plan = designed(asked, time_limit)
    plan.save(target)
    _say(plan)
    _say(f"\nwrote {target}")


def release(
    plan: Annotated[Path, typer.Argument(help="a plan that `leastnoise design` saved")],
    data: DataFile,
    out: AnswersFile = None,
    person: Person = None,
    ledger: LedgerFile = None,
    release_id: ReleaseId = None,
    force: Force = False,
) -> None:
    """Measure a saved plan on a table: the one step that spends privacy."""
    from leastnoise.plan import load_plan

    chosen = load_plan(plan)
    outputs = _outputs(plan, data, out, force, chosen.workload.shape[0], release_id)
    result = _measure(chosen, data, person, _budget(ledger, release_id))
    _save(result, outputs)
    _say_where(result, outputs)


def publish(
    spec: SpecFile,
    data: DataFile,
    out: AnswersFile = None,
    person: Person = None,
    ledger: LedgerFile = None,
    release_id: ReleaseId = None,
    time_limit: TimeLimit = None,
    force: Force = False,
) -> None:
    """Do the whole walk: read the specification, design, measure, write the answers."""
    from leastnoise.data import vectorize
    from leastnoise.report import summarize
    from leastnoise.spec.reading import load_spec

    asked = load_spec(spec)
    outputs = _outputs(spec, data, out, force, asked.workload.shape[0], release_id)
    vectorize(data, asked.schema, person=person)  # found missing now rather than after a long design
    budget = _budget(ledger, release_id)
    result = _measure(designed(asked, time_limit), data, person, budget)
    _save(result, outputs)
    _say(f"{summarize(result)}\n")
    _say_where(result, outputs)


def compare(
    spec: SpecFile,
    method: Annotated[list[str] | None, typer.Option(help="a method to include; all unless given")] = None,
    time_limit: Annotated[float | None, typer.Option(help="seconds for each method; 10 unless given")] = None,
    public_data: Annotated[
        str | None,
        typer.Option(help="a PUBLIC table, to simulate methods that depend on the data; never private data"),
    ] = None,
) -> None:
    """Put every method side by side, with its distance from the proven bound."""
    import leastnoise
    from leastnoise.spec.reading import load_spec

    asked = load_spec(spec)
    with _comparing() as progress:
        table = leastnoise.compare(
            asked.workload,
            asked.privacy,
            methods=method,
            objective=asked.design_settings().get("objective"),
            time_limit=time_limit,
            data=public_data,
            progress=progress,
        )
    _say(table)


def methods() -> None:
    """List the methods that `design` and `compare` know."""
    from leastnoise.compare import methods as known

    _say(known())


def _budget(ledger: Path | None, release_id: str | None) -> dict[str, Any]:
    """What `measure` is told of the ledger, opened now rather than after a long design."""
    from leastnoise.errors import InputError
    from leastnoise.ledger import Ledger

    if ledger is None:
        return {} if release_id is None else {"release_id": release_id}
    if not ledger.exists():
        raise InputError(
            f"there is no ledger {str(ledger)!r}; begin one with: leastnoise ledger create {ledger} "
            "--dataset NAME --epsilon E --delta D"
        )
    return {"ledger": Ledger(ledger), "release_id": release_id}


def _measure(plan: Plan, data: str, person: str | None, budget: dict[str, Any]) -> Release:
    import leastnoise
    from leastnoise.errors import InputError

    schema = plan.workload.schema
    if schema is None:
        raise InputError("a plan without a schema is measured on counts, in Python; a table needs a schema")
    known = _paid_for(budget)
    try:
        with _measuring():
            return leastnoise.measure(plan, leastnoise.vectorize(data, schema, person=person), **budget)
    except KeyboardInterrupt:
        for release_id in _paid_for(budget) - known:
            typer.echo(
                f"release {release_id} is paid for and stored; the same command with --release-id "
                f"{release_id} hands it out at no cost",
                err=True,
            )
        raise


def _paid_for(budget: dict[str, Any]) -> set[str]:
    """What the ledger knows of, to tell after an interruption whether anything was spent."""
    return {entry.release_id for entry in budget["ledger"].entries} if "ledger" in budget else set()


class _Outputs(NamedTuple):
    """What a release is written to: the answers, the release itself, and the page to pass on."""

    answers: Path
    saved: Path
    page: Path


def _outputs(
    source: Path, data: str, out: Path | None, force: bool, n_answers: int, release_id: str | None
) -> _Outputs:
    """Where the answers and the release go, checked before anything is measured."""
    from leastnoise.errors import InputError
    from leastnoise.report import answers_writer

    answers = out or source.with_name(f"{source.stem}-answers.csv")
    # "." and "/" have no name to put a suffix to, and are refused below.
    saved, page = (
        answers.with_suffix(suffix) if answers.name else answers / suffix for suffix in (".release", ".html")
    )
    _check_outputs([answers, saved, page], [source, Path(data), *map(Path, glob.glob(data, recursive=True))])
    answers_writer(answers, n_answers=n_answers)  # refused now rather than after the release is paid for
    for path in (answers, saved, page):
        if path.exists() and not force:
            again = (
                "A second release spends privacy again; keep the first, or give"
                if release_id is None
                else "A release whose id the ledger knows costs nothing; give"
            )
            raise InputError(f"{str(path)!r} exists. {again} another --out, or --force to replace it")
    return _Outputs(answers, saved, page)


def _check_outputs(outputs: list[Path], inputs: list[Path]) -> None:
    from leastnoise.errors import InputError

    if len(set(outputs)) < len(outputs):
        raise InputError(f"--out is for the answers; {outputs[0]} is kept for the release beside it")
    for path in outputs:
        check_folder(path)
        if path.exists() and any(known.exists() and path.samefile(known) for known in inputs):
            raise InputError(f"writing {str(path)!r} would replace what is read; choose another --out")
        check_replaceable(path)
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{str(path)!r} cannot be written; choose another place with --out")


def _save(result: Release, outputs: _Outputs) -> None:
    """Save before anything is shown: what was measured is paid for, even if nobody reads on."""
    from leastnoise.interruption import finished_first
    from leastnoise.report import summarize, write_answers

    # All three files or, where the disk is full, as many as there is room for; the release first.
    with finished_first():
        result.save(outputs.saved)
        write_answers(result, outputs.answers)
        summarize(result).to_html(outputs.page)


def _say_where(result: Release, outputs: _Outputs) -> None:
    _say(f"wrote {outputs.answers}")
    _say(f"wrote {outputs.saved} (load_release() reads it back)")
    _say(f"wrote {outputs.page} (open it in a browser)")
    if result.receipt is not None:
        _say(f"release id {result.receipt.release_id}\nledger head {result.receipt.head}")


@contextmanager
def _comparing() -> Iterator[Callable[[Any], None]]:
    """A progress callback that shows whose turn it is."""
    with spinner("comparing methods") as update:

        def show(turn: Any) -> None:
            gap = "" if turn.gap is None else f", gap to the optimum {turn.gap:.1e}"
            update(f"comparing methods: {turn.method}, {turn.number} of {turn.n_turns}{gap}")

        yield show


@contextmanager
def _measuring() -> Iterator[None]:
    """Show the library's own warnings in one line each; others may quote the table, and are not shown."""
    from leastnoise.errors import UnrecordedSpending

    with warnings.catch_warnings(record=True) as caught, spinner("measuring"):
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, UnrecordedSpending):
            typer.echo(f"warning: {warning.message}", err=True)


# In the order in which a publisher meets them.
_COMMANDS: tuple[Callable[..., None], ...] = (
    demo,
    init,
    publish,
    design,
    release,
    report,
    explain,
    tradeoff,
    compare,
    methods,
    audit,
    reproduce,
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(ledger_app, name="ledger")
