"""What drives the cost of a plan, for a terminal of any width."""

from __future__ import annotations

import textwrap
from typing import Any

from leastnoise.core.printable import printable
from leastnoise.report.cost_drivers import Drivers
from leastnoise.report.cost_drivers.driver_table import SHOWN


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


def in_lines(found: Drivers, width: int) -> list[str]:
    """What the plan costs and what giving way would buy, in lines of at most that many characters.

    What a reader may change is named as at a shell.
    """
    lines: list[str] = []
    for says in found.cost_in_words():
        lines += [*([""] if lines else []), *textwrap.wrap(printable(says), width)]
    for says in [*found.left_out(where=""), *found.sentences(SHOWN, more="--most")]:
        lines += ["", *textwrap.wrap(printable(says), width)]
    return lines
