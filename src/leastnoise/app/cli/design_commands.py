"""Commands that need no data: they design, explain, compare and audit plans."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import leastnoise
from leastnoise.app.cli.approval import approval_digest, approval_lines
from leastnoise.app.cli.exit_codes import REFUSED
from leastnoise.app.cli.facts import plan_facts, rows_of_frame
from leastnoise.app.cli.invocation import Ended, Facts
from leastnoise.app.cli.outputs import (
    Force,
    check_new,
    check_outputs,
)
from leastnoise.app.cli.plan_cache import NoCache, keep_plan, kept_plan
from leastnoise.app.cli.terminal import console, designing, say, spinner, warn
from leastnoise.app.specification import Spec, load_spec
from leastnoise.core.errors import InputError
from leastnoise.core.printable import printable
from leastnoise.core.progress import gap_to_text
from leastnoise.core.whole_file import check_replaceable
from leastnoise.planning import Plan, all_methods, gap_warning, load_plan
from leastnoise.report import (
    Drivers,
    PlansSideBySide,
    Turn,
    check_kind,
    cost_table,
    design_without_delta,
    drivers,
    drivers_lines,
    drivers_table,
    plan_text,
    write_tradeoff,
)

# No square brackets in these: Typer takes them for markup and leaves them out.
SpecFile = Annotated[Path, typer.Argument(help="a TOML file with schema, privacy and queries")]
TimeLimit = Annotated[
    float | None, typer.Option(help="stop after this many seconds with the best plan found")
]
AcceptGap = Annotated[
    float | None,
    typer.Option(
        "--accept-gap",
        help="the gap to the proven optimum above which a plan is warned of; 0.05 by default",
    ),
]
# Seconds for designing changes again, unless given: as long as people wait at a terminal.
_PATIENCE = 60.0


def design(
    spec: SpecFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="where to save the plan")] = None,
    time_limit: TimeLimit = None,
    accept_gap: AcceptGap = None,
    no_cache: NoCache = False,
    force: Force = False,
) -> Facts:
    """Design the noise for a specification and save the plan. Needs no data."""
    asked = load_spec(spec)
    target = out or spec.with_suffix(".plan")
    check_outputs([target], [spec])
    check_new(target, force=force)
    plan = designed(asked, time_limit, cache=not no_cache)
    plan.save(target)
    say(plan)
    warn_of_gap(plan, asked.accept_gap if accept_gap is None else accept_gap)
    say(f"\nwrote {target}")
    _say_approval(plan, asked)
    return {"file": target, "plan": plan_facts(plan), "approval": approval_digest(plan, asked)}


def warn_of_gap(plan: Plan, accepted: float) -> None:
    """Warn of a plan that may be further from the least possible noise than is accepted."""
    gap = gap_warning(plan, accepted)
    if gap is not None:
        warn(f"{gap}; --accept-gap sets how much that is")


def _say_approval(plan: Plan, asked: Spec) -> None:
    """Say by which digest others approve a plan of a specification."""
    digest, covers = approval_lines(plan, asked)
    say(f"{digest}\n{textwrap.fill(printable(covers), console().width)}")


def designed(spec: Spec, time_limit: float | None, *, cache: bool = True) -> Plan:
    """The plan of a specification, designed now or kept from an earlier command.

    Args:
        time_limit: overrides that of the specification.
        cache: whether a plan that was kept may be used, and this one is kept.
    """
    settings = spec.design_settings()
    if time_limit is not None:
        settings["time_limit"] = time_limit
    kept = kept_plan(spec, settings.get("time_limit")) if cache else None
    if kept is not None:
        return kept
    with designing() as progress:
        plan = leastnoise.design(spec.workload, spec.asked_privacy, progress=progress, **settings)
    if cache:
        keep_plan(plan, spec, settings.get("time_limit"))
    return plan


def explain(
    source: Annotated[Path, typer.Argument(help="a specification (.toml) or a saved plan")],
    relax: Annotated[
        float, typer.Option(help="factor by which targets are relaxed to see what that saves")
    ] = 2.0,
    most: Annotated[
        int, typer.Option(min=0, help="redesign at most this many queries with relaxed targets")
    ] = 12,
    after: Annotated[
        list[Path] | None, typer.Option(help="a saved plan that this one was designed after; repeat in order")
    ] = None,
    without_delta: Annotated[
        bool, typer.Option("--without-delta", help="also design it for the same epsilon without delta")
    ] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="seconds for the design, and again for all redesigns (default 60)")
    ] = None,
    no_cache: NoCache = False,
) -> Facts:
    """Explain a plan: expected accuracy, the cost of simpler noise, and which targets drive the cost."""
    earlier = [load_plan(path) for path in after or []]
    is_spec = source.suffix.lower() == ".toml"
    spec = load_spec(source) if is_spec else None
    plan = load_plan(source) if spec is None else designed(spec, time_limit, cache=not no_cache)
    with spinner("comparing with simpler noise"):
        summary = plan_text(plan, by_person=spec is not None and spec.person is not None)
        costs = None if plan.strategy is None else cost_table(plan)
    say(f"{summary}\n")
    if spec is not None:
        _say_approval(plan, spec)
        say("")
    approval = None if spec is None else approval_digest(plan, spec)
    if without_delta:
        _explain_without_delta(plan, {} if spec is None else spec.design_settings(), time_limit)
    if costs is None:
        return {"plan": plan_facts(plan), "drivers": [], "approval": approval}
    console().print(costs)
    found = _explain_cost(plan, relax, most, earlier, time_limit)
    return {"plan": plan_facts(plan), "drivers": rows_of_frame(found.to_frame()), "approval": approval}


def _explain_without_delta(plan: Plan, settings: dict[str, Any], time_limit: float | None) -> None:
    """Say what the request would have without its delta, as `design` answers when the delta is left out."""
    settings.pop("objective", None)
    own = settings.pop("time_limit", None)
    limit = own if time_limit is None else time_limit
    with designing() as progress:
        found = design_without_delta(plan, time_limit=limit, progress=progress, **settings)
    width = console().width
    lines = [line for says in found.sentences() for line in textwrap.wrap(printable(says), width)]
    say("\n".join(lines) + "\n")


def _explain_cost(
    plan: Plan, relax: float, most: int, earlier: list[Plan], time_limit: float | None
) -> Drivers:
    # Without the earlier plans nothing can be designed after them; shares are known all the same.
    is_missing = bool(plan.after) and not earlier
    with _watching("designing changes") as progress:
        found = drivers(
            plan,
            relax=relax,
            most=0 if is_missing else most,
            after=earlier,
            time_limit=_PATIENCE if time_limit is None else time_limit,
            progress=progress,
        )
    screen = console()
    say("")
    screen.print(drivers_table(found))
    say("")
    say("\n".join(drivers_lines(found, screen.width)))
    if is_missing:
        say("\nTo see what relaxed targets would save, name the earlier plans with --after")
    return found


def tradeoff(
    spec: SpecFile,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="an epsilon to try; repeatable; by default from 0.1 to 10")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="the delta to use if the specification has none; 1e-6 by default")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="also write the table to this .svg, .html or .csv file")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="seconds for all designs together")] = None,
    force: Force = False,
) -> Facts:
    """Show what accuracy costs in privacy: standard errors for several values of epsilon. Needs no data."""
    asked = load_spec(spec)
    if out is not None:
        check_kind(out)
        check_replaceable(out)
        check_new(out, force=force)
    settings = asked.design_settings()
    if time_limit is not None:
        settings["time_limit"] = time_limit
    with _watching("designing") as progress:
        table = leastnoise.tradeoff(
            asked.workload, asked.asked_privacy, epsilons=epsilon, delta=delta, progress=progress, **settings
        )
    say(table)
    if out is not None:
        write_tradeoff(table, out)
        say(f"\nwrote {out}")
    return {"file": out, "rows": rows_of_frame(table.to_frame())}


@contextmanager
def _watching(what: str) -> Iterator[Callable[[Turn], None]]:
    """A progress callback that shows which of several designs is being made."""
    with spinner(what) as update:

        def show(turn: Turn) -> None:
            gap = gap_to_text(turn.gap)
            update(f"{what}: {printable(turn.subject)}, {turn.number} of {turn.n_turns}{gap}")

        yield show


def compare(
    spec: SpecFile,
    other: Annotated[
        Path | None, typer.Argument(help="a second specification: compares the plans of both")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="a method, with options as in hierarchical:branching=4; repeatable; all by default"
        ),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="seconds for each method; 10 by default")] = None,
    public_data: Annotated[
        str | None,
        typer.Option(help="a PUBLIC table on which to simulate data-dependent methods; never private data"),
    ] = None,
) -> Facts:
    """Compare the methods: error, gap to the proven lower bound, and time."""
    asked = load_spec(spec)
    if other is not None:
        both = {str(spec): asked, str(other): load_spec(other)}
        return _compare_plans(both, method, time_limit, public_data)
    settings = asked.design_settings()
    own = settings.pop("method", "auto"), settings.pop("options", {})
    settings.pop("time_limit", None)
    chosen = None if method is None else [_method_with_options(text) for text in method]
    if chosen is None and own[1]:
        # What the specification asks is a row of its own beside every method as it is.
        chosen = [own, *(one.name for one in all_methods())]
    with _watching("comparing methods") as progress:
        table = leastnoise.compare(
            asked.workload,
            asked.asked_privacy,
            methods=chosen,
            time_limit=time_limit,
            data=public_data,
            progress=progress,
            **settings,
        )
    say(table)
    return {"rows": rows_of_frame(table.to_frame())}


def _compare_plans(
    specs: dict[str, Spec], method: list[str] | None, time_limit: float | None, public_data: str | None
) -> Facts:
    """Say what two specifications promise and how accurate each is, side by side."""
    for name, given in {"method": method, "public_data": public_data}.items():
        if given is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} is for the methods of one specification",
                field=name,
                remedy="name one specification",
            )
    if len(specs) < 2:
        raise InputError("name two different specifications, or one", field="other", given=next(iter(specs)))
    plans = PlansSideBySide({name: designed(spec, time_limit) for name, spec in specs.items()})
    say(plans)
    return {"rows": plans.rows()}


def _method_with_options(text: str) -> str | tuple[str, dict[str, Any]]:
    """A method as it is typed: its name, and after a colon its options, such as hierarchical:branching=4."""
    name, colon, listed = text.partition(":")
    if not colon:
        return name
    options: dict[str, Any] = {}
    for part in listed.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key or not equals:
            raise InputError.must("method", "be a name, or name:option=value,option=value", given=text)
        try:
            options[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            # A word without quotes: shells take quotes away.
            options[key] = value
    return name, options


def methods() -> Facts:
    """List the methods that `design` and `compare` know."""
    known = leastnoise.methods()
    say(known)
    return {"methods": [{"name": one.name, "summary": one.summary} for one in known.methods]}


def audit(
    plan: Annotated[Path, typer.Argument(help="a plan saved by `leastnoise design`")],
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="number of simulated releases per table; a sufficient number by default"),
    ] = None,
) -> Facts:
    """Check a plan's privacy by simulation: draw its noise many times. Needs no data, spends nothing."""
    chosen = load_plan(plan)
    with spinner("auditing"):
        report = leastnoise.audit(chosen, draws=draws)
    say(report)
    facts = {
        "plan": plan_facts(chosen),
        "keeps_its_word": report.keeps_its_word,
        "faults": report.faults,
        "draws": report.draws,
        "said": report.said,
        "at_least": report.at_least,
        "level": report.level,
    }
    if not report.keeps_its_word:
        raise Ended(REFUSED.code, facts)
    return facts
