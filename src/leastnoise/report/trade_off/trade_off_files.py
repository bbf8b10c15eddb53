"""The trade-off as a file: a picture, a page or a list."""

from __future__ import annotations

import csv
from pathlib import Path

from leastnoise.core.errors import InputError
from leastnoise.core.printable import no_formulas
from leastnoise.core.whole_file import written_whole
from leastnoise.report.charts import to_page, to_svg
from leastnoise.report.trade_off.trade_off_table import Tradeoff

KINDS = (".svg", ".html", ".csv")


def check_kind(path: str | Path) -> None:
    """Return if a file of that name can be written.

    Raises:
        InputError: naming the kinds there are.
    """
    target = Path(path)
    if target.suffix.lower() not in KINDS:
        raise InputError(f"a trade-off is written as {', '.join(KINDS)}, by its ending; got {str(path)!r}")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {str(target.parent)!r} to write {target.name!r} to")


def write_tradeoff(table: Tradeoff, path: str | Path) -> Path:
    """Write a trade-off as .svg (a picture), .html (the same to hover over) or .csv; returns the path.

    All or nothing: a file of that name is replaced once the new one is complete.

    Raises:
        InputError: for another ending.
        MissingExtraError: for a picture or page where Altair is not installed.
    """
    check_kind(path)
    target = Path(path)
    kind = target.suffix.lower()
    if kind == ".csv":
        with (
            written_whole(target) as temporary,
            # A label may hold what UTF-8 cannot; it is written out as \\udc80.
            temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
        ):
            rows = table.rows()
            writer = csv.writer(file)
            writer.writerow(rows[0])
            for row in rows:
                writer.writerow(no_formulas(row).values())
        return target
    chart = table.plot()
    text = (
        to_svg(chart) if kind == ".svg" else to_page(chart, title=f"Accuracy against privacy: {table.what}")
    )
    with written_whole(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target
