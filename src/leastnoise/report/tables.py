"""Tables for the terminal."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from leastnoise.core.errors import QueryError
from leastnoise.core.printable import printable
from leastnoise.planning import Plan
from leastnoise.query import MEAN_ABSOLUTE, Objective, Targets, Workload
from leastnoise.release import Release
from leastnoise.report.baseline_noise import Baselines, baselines
from leastnoise.report.driver_table import SHOWN, Drivers
from leastnoise.report.figures import figure, number, outward, times, with_margin
from leastnoise.strategy import Measured


def cost_table(plan: Plan) -> Any:
    """A Rich table: standard errors of this plan beside those of noise that was not shaped.

    For every batch the root mean square of its standard errors, then what the plan was chosen for:
    the total or the largest variance, the total absolute error, or the largest standard error as a
    multiple of its target.

    Raises:
        MethodError: where the plan depends on the data, so that its errors are not known.
    """
    plan.fixed_strategy()
    simple = baselines(plan)
    columns = (simple.per_count, simple.per_cell)
    table = _table("Standard errors: this plan; noise on each count; noise on each cell, added up")
    table.add_column("counts")
    each_count = "each count, at most" if simple.per_count.is_bound else "each count"
    for heading in ("this plan", each_count, "each cell"):
        table.add_column(heading, justify="right")
    spreads = plan.spreads or []
    for place, (name, spread) in enumerate(zip(plan.workload.names, spreads, strict=True)):
        others = [column.rms[place] for column in columns]
        table.add_row(_literal(name), *_times([math.sqrt(spread.mean_square), *others]))
    table.add_section()
    what, values = aim_of(plan, simple)
    table.add_row(what, *_times(values))
    return table


def aim_of(plan: Plan, simple: Baselines) -> tuple[str, list[float]]:
    """What a plan was chosen for, and what it comes to: by the plan, on each count, on each cell."""
    objective = plan.objective
    own = _own_value(plan.workload, plan.fixed_strategy(), objective)
    values = [own, simple.per_count.value, simple.per_cell.value]
    if isinstance(objective, Targets):
        return "largest, in targets", [math.sqrt(value) for value in values]
    return objective.unit(plan.workload), values


def _own_value(workload: Workload, strategy: Measured, objective: Objective) -> float:
    """What the objective makes of a plan's own variances, whether or not a privacy goal was given."""
    caps = objective.batch_caps(workload)
    if objective.kind == "largest" and caps is not None:
        return strategy.largest_share(workload, caps)
    if objective.kind == "absolute":
        return MEAN_ABSOLUTE * strategy.total_stderr(workload, objective.batch_weights(workload))
    return strategy.total_variance(workload, objective.batch_weights(workload))


def cross_table(release: Release, name: str, *, level: float = 0.95) -> Any:
    """A Rich table of one batch over two attributes: answers with ± the half-widths of their 95% intervals.

    Half-widths are rounded up far enough to cover the rounding of the answers too. Adjusted answers may lie
    outside of their intervals, and have these beside them; so do answers at another level, as ± means 95%.

    Raises:
        QueryError: if there is no batch of that name, or it is not over two attributes.
    """
    workload = release.plan.workload
    rows = workload.rows_of(name)
    block = workload.blocks[workload.names.index(name)]
    factors = (workload.schema and block.query.factors(workload.schema)) or []
    if len(factors) != 2:
        raise QueryError(
            f"a cross table has two attributes, query {name!r} has {len(factors)}", field="name", given=name
        )
    down, across = factors
    shape = (down.labels.length, across.labels.length)
    answers = release.answers[rows].reshape(shape)
    lower, upper = (ends[rows].reshape(shape) for ends in release.interval(level))
    has_margins = release.is_centred and level == 0.95

    def cell(i: int, j: int) -> str:
        if has_margins:
            return with_margin(answers[i, j], (upper[i, j] - lower[i, j]) / 2)
        return f"{number(answers[i, j], 0)} ({' to '.join(outward(lower[i, j], upper[i, j], 0))})"

    table = _table(f"{name} ({'±' if has_margins else 'intervals'} at {100 * level:.4g}%)")
    table.add_column(_literal(down.title))
    for label in across.labels:
        table.add_column(_literal(label), justify="right")
    for i, label in enumerate(down.labels):
        table.add_row(_literal(label), *(cell(i, j) for j in range(shape[1])))
    return table


def drivers_table(found: Drivers) -> Any:
    """A Rich table: what was asked of every batch, its largest standard error, and its share of the cost."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title="What drives the cost", title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    table.add_column("counts")
    for heading in found.heads:
        table.add_column(heading, justify="right")
    for driver in found.drivers[:SHOWN]:
        cells = (driver.name, *found.figures(driver))
        table.add_row(*(Text(printable(cell)) for cell in cells))
        for query in driver.queries:
            named = Text(f"  {printable(query.label)}")
            table.add_row(named, "", Text(f"{query.stderr:,.4g}"), Text(f"{100 * query.share:.1f} %"))
    return table


def drivers_lines(found: Drivers, width: int) -> list[str]:
    """What the plan costs and what relaxing would buy, in lines of at most `width` characters.

    What a reader may change is named as at a shell.
    """
    lines: list[str] = []
    for says in found.cost_to_text():
        lines += [*([""] if lines else []), *textwrap.wrap(printable(says), width)]
    for says in [*found.left_out(where=""), *found.sentences(SHOWN, more="--most")]:
        lines += ["", *textwrap.wrap(printable(says), width)]
    return lines


def _table(title: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=_literal(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False)


def _literal(text: str) -> Any:
    """The text as it is: what looks like markup stays, what would steer a terminal is written out."""
    from rich.text import Text

    return Text(printable(text))


def _times(values: list[float]) -> list[str]:
    """The plan's own figure, then the others with how many times as much they are."""
    ours, *others = values
    factors = [f" ({shown})" if (shown := times(ours, other)) else "" for other in others]
    return [figure(ours), *(figure(o) + f for o, f in zip(others, factors, strict=True))]
