"""Tables for the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from leastnoise.plan import Plan
from leastnoise.release import Release
from leastnoise.report.baselines import baselines


def cost_table(plan: Plan) -> Any:
    """A Rich table: standard errors of this plan beside those of noise that was not shaped."""
    from rich.table import Table
    from rich.text import Text

    simple = baselines(plan)
    table = Table(
        title="Typical standard error: this plan, noise on every count, noise on every cell",
        title_justify="left",
    )
    for heading in ("counts", "this plan", "per count", "per cell"):
        table.add_column(heading, justify="left" if heading == "counts" else "right")
    for name in plan.workload.names:
        rows = plan.workload.rows_of(name)
        ours, count, cell = (
            float(np.sqrt(np.mean(errors[rows] ** 2)))
            for errors in (plan.stderr, simple.per_count, simple.per_cell)
        )
        table.add_row(Text(name), f"{ours:,.1f}", _times(count, ours), _times(cell, ours))
    totals = [
        float(np.sum(plan.workload.weights * errors**2))
        for errors in (plan.stderr, simple.per_count, simple.per_cell)
    ]
    table.add_section()
    table.add_row("total variance", "1", *(f"{total / totals[0]:,.1f} times" for total in totals[1:]))
    return table


def cross_table(release: Release, name: str, *, level: float = 0.95) -> Any:
    """A Rich table of one batch over two attributes: answers with half-widths of their intervals."""
    from rich.table import Table
    from rich.text import Text

    frame = release[name]
    half = (frame["upper"] - frame["lower"]) / 2
    # In the order of the schema; the levels of a pandas index are sorted.
    rows, columns = (list(dict.fromkeys(frame.index.get_level_values(i))) for i in (0, 1))
    table = Table(title=f"{name} (± at {level:.0%})", title_justify="left")
    table.add_column(Text(str(frame.index.names[0])))
    for column in columns:
        table.add_column(Text(str(column)), justify="right")
    for row in rows:
        cells = [f"{frame['answer'][row, c]:,.0f} ± {half[row, c]:,.0f}" for c in columns]
        table.add_row(Text(str(row)), *cells)
    return table


def _times(other: float, ours: float) -> str:
    return f"{other:,.1f}  ({other / ours:,.1f} times)" if ours > 0 else f"{other:,.1f}"
