"""Commands on saved plans and releases: they read no table and spend nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import leastnoise
from leastnoise.app.cli.facts import release_facts, rows_of_frame
from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import (
    Force,
    check_new,
    check_outputs,
    is_stdout,
    outputs_of,
    save,
    say_where,
    write_out,
)
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.core.errors import InputError, PlanFileError
from leastnoise.core.whole_file import check_folder, check_replaceable
from leastnoise.planning import Plan, load_plan
from leastnoise.release import AdjustProgress, Release, load_release
from leastnoise.report import answers_writer, summarize, write_quantile_table

ReleaseFile = Annotated[
    Path, typer.Argument(help="a saved release; publish writes it as NAME-answers.release")
]


def report(
    source: Annotated[Path, typer.Argument(help="a saved release or plan")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="the page to write, or - for standard output"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an existing page")] = False,
) -> Facts:
    """Write a report as one HTML page: answers, accuracy and privacy loss. Needs no data."""
    subject = saved_release_or_plan(source)
    if out is not None and is_stdout(out):
        write_out(summarize(subject).html())
        return {}
    target = out or source.with_suffix(".html")
    _check(target, force)
    with spinner("writing the page"):
        summarize(subject).to_html(target)
    say(f"wrote {target}")
    return {"page": target}


def _check(target: Path, force: bool) -> None:
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"a report is written as HTML: --out must end in .html, got {str(target)!r}",
            field="out",
            given=str(target),
        )
    check_folder(target)
    check_replaceable(target)
    check_new(target, force=force)


def _answers_option(word: str) -> Any:
    """The option --out of a command that writes NAME-WORD.csv by default."""
    help = f"file for the answers: .csv, .parquet, .json or .xlsx; NAME-{word}.csv by default"
    return typer.Option("--out", "-o", help=help)


def adjust(
    source: ReleaseFile,
    out: Annotated[Path | None, _answers_option("adjusted")] = None,
    integer: Annotated[
        bool, typer.Option("--integer", "--whole", help="also make them whole numbers")
    ] = False,
    keep_negative: Annotated[bool, typer.Option("--keep-negative", help="keep negative counts")] = False,
    least_squares: Annotated[
        bool,
        typer.Option(
            "--least-squares",
            help="take the counts nearest to what was measured, not drawn towards independent attributes",
        ),
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="stop after this many seconds with the best found; by default 300, and only a precise result"
        ),
    ] = None,
    force: Force = False,
) -> Facts:
    """Make the counts of a release consistent and non-negative, or whole. Costs no privacy."""
    release = saved_release(source)
    outputs = outputs_of(
        source,
        [source],
        out=out or source.with_name(f"{source.stem}-adjusted.csv"),
        force=force,
        n_answers=release.plan.workload.shape[0],
    )
    adjusted = _adjusted(release, integer, not keep_negative, least_squares, time_limit)
    save(adjusted, outputs)
    if adjusted.adjusted is None:
        say("the answers agree already, and nothing was asked that would change them")
    else:
        say(adjusted.adjusted.statement())
    say_where(outputs)
    return release_facts(adjusted, outputs)


def _adjusted(
    release: Release, integer: bool, nonnegative: bool, least_squares: bool, time_limit: float | None
) -> Release:
    fit: Literal["least squares"] | None = "least squares" if least_squares else None
    with spinner("adjusting") as update:

        def show(state: AdjustProgress) -> None:
            update(f"adjusting: step {state.step}, within {state.precision:.1g} standard errors of the best")

        return leastnoise.adjust(release, nonnegative, integer, fit=fit, progress=show, time_limit=time_limit)


def present(
    source: ReleaseFile,
    out: Annotated[Path | None, _answers_option("presented")] = None,
    round_to: Annotated[float | None, typer.Option(help="show counts as multiples of this, as in 5")] = None,
    flag_above: Annotated[
        str | None,
        typer.Option(help="coefficient of variation above which a number is marked unreliable, as in 20%"),
    ] = None,
    suppress_above: Annotated[
        str | None, typer.Option(help="coefficient of variation above which it is left out, as in 50%")
    ] = None,
    force: Force = False,
) -> Facts:
    """Round the counts of a release, mark unreliable ones or leave them out. Costs no privacy."""
    release = saved_release(source)
    shown = leastnoise.present(
        release, round_to=round_to, flag_above=_share(flag_above), suppress_above=_share(suppress_above)
    )
    outputs = outputs_of(
        source,
        [source],
        out=out or source.with_name(f"{source.stem}-presented.csv"),
        force=force,
        n_answers=release.plan.workload.shape[0],
    )
    save(shown, outputs)
    assert shown.presented is not None
    say(shown.presented.statement())
    say_where(outputs)
    return release_facts(shown, outputs)


def _share(text: str | None) -> float | str | None:
    """A share as typed: a number, or a text that ends in %."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def quantiles(
    source: ReleaseFile,
    attribute: Annotated[str, typer.Argument(help="an ordered attribute: a range, or bins")],
    at: Annotated[
        list[float] | None, typer.Option(help="a share, as in --at 0.5; repeatable; quartiles by default")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="another attribute: quantiles for each of its values")
    ] = None,
    level: Annotated[float, typer.Option(help="confidence level of each interval")] = 0.95,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="also write them to this .csv, .parquet, .json or .xlsx file"),
    ] = None,
    force: Force = False,
) -> Facts:
    """Compute quantiles, with intervals, from a release. Costs no privacy."""
    if out is not None:
        check_outputs([out], [source])
        answers_writer(out)
        check_new(out, force=force)
    release = saved_release(source)
    shares = at or [0.25, 0.5, 0.75]
    table = release.quantiles(attribute, shares, level=level, by=by)
    say(table.to_string())
    say(f"\nEach true quantile is between lower and upper with probability {100 * level:.4g} % or more.")
    if out is not None:
        privacy = release.plan.privacy
        say(f"wrote {write_quantile_table(table, out, attribute, privacy, level=level, by=by)}")
    return {
        "attribute": attribute,
        "by": by,
        "level": level,
        "file": out,
        "rows": rows_of_frame(table, with_index=True),
    }


def saved_release(source: Path) -> Release:
    """The release that a file holds."""
    _check_kind(source)
    return load_release(source)


def saved_release_or_plan(source: Path) -> Plan | Release:
    """The release or the plan that a file holds."""
    _check_kind(source)
    if source.suffix.lower() == ".plan":
        return load_plan(source)
    try:
        return load_release(source)
    except PlanFileError as error:
        try:
            return load_plan(source)
        except PlanFileError:
            # Neither: what was wrong with it as a release is the better answer.
            raise error from None


# Files that people have beside a release, and what they are.
_OTHER_FILES = {
    ".csv": "a table",
    ".tsv": "a table",
    ".parquet": "a table",
    ".json": "a table",
    ".xlsx": "a table",
    ".html": "a page",
    ".htm": "a page",
    ".toml": "a specification",
}


def _check_kind(source: Path) -> None:
    """Refuse what is surely no release or plan, and name the one that was probably meant."""
    if not source.name:
        raise InputError(
            f"{str(source)!r} is not a file",
            field="source",
            given=str(source),
            remedy="name a release, as in x.release",
        )
    kind = _OTHER_FILES.get(source.suffix.lower())
    if kind is None:
        return
    is_a = f"{str(source)!r} is {kind}, not a saved release or plan"
    for near in (source.with_suffix(".release"), source.with_suffix(".plan")):
        if near.is_file():
            raise InputError(
                f"{is_a}",
                field="source",
                given=str(source),
                remedy=f"you probably mean the file beside it: {near}",
            )
    if kind == "a specification":
        raise InputError(
            f"{is_a}",
            field="source",
            given=str(source),
            remedy=f"`leastnoise design {source}` saves a plan, `leastnoise publish {source}` a release",
        )
    raise InputError(
        f"{is_a}",
        field="source",
        given=str(source),
        remedy="`leastnoise publish` writes NAME-answers.release beside the answers: name that one",
    )
