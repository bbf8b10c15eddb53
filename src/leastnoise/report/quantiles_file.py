"""Quantiles as a file: one row for every share and group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.core.whole_file import written_whole
from leastnoise.privacy import Goal
from leastnoise.release import Release
from leastnoise.report.answers import answers_writer
from leastnoise.report.columns import Texts


def write_quantiles(
    release: Release,
    path: str | Path,
    attribute: str,
    levels: Sequence[float],
    *,
    level: float = 0.95,
    by: str | None = None,
) -> Path:
    """Write what ``release.quantiles`` gives as .csv, .parquet, .json or .xlsx; returns the path.

    The columns are attribute, share, group, quantile, from, to, lower and upper, whatever was asked: without
    `by` no row has a group, and a quantile of whole numbers is from and to itself. An end that is open is
    "inf" in CSV and Parquet, and empty in JSON and Excel.

    Raises:
        InputError: if the suffix is none of these.
        MissingExtraError: if what writes it is not installed.
        QueryError: if the attribute has no order, or the plan does not determine its distribution.
        MethodError: where the plan depends on the data, so that errors are not known.
    """
    target = Path(path)
    answers_writer(target)  # a suffix that cannot be written is told before quantiles are searched for
    table = release.quantiles(attribute, levels, level=level, by=by)
    return write_quantile_table(table, target, attribute, release.plan.privacy, level=level, by=by)


def write_quantile_table(
    table: Any, path: str | Path, attribute: str, privacy: Goal, *, level: float, by: str | None
) -> Path:
    """Write a table that ``release.quantiles`` gave for an attribute, as `write_quantiles` does."""
    target = Path(path)
    write = answers_writer(target)
    # By place: the groups may be called as the shares are, or as a column.
    shares = table.index if by is None else table.index.get_level_values(1)
    groups = None if by is None else table.index.get_level_values(0)
    found = table.reset_index(drop=True)
    numbers = {name: np.array(found[name], dtype=float) for name in ("lower", "upper")}
    is_binned = "from" in found
    columns: dict[str, Any] = {
        "attribute": [attribute] * len(found),
        "share": np.array(shares, dtype=float),
        "group": Texts((), np.full(len(found), -1)) if groups is None else [str(group) for group in groups],
        "quantile": list(found["quantile"]) if is_binned else np.array(found["quantile"], dtype=float),
        "from": np.array(found["from" if is_binned else "quantile"], dtype=float),
        "to": np.array(found["to" if is_binned else "quantile"], dtype=float),
        **numbers,
    }
    facts = {"privacy": str(privacy), "level": level, "by": by}
    with written_whole(target) as temporary:
        write(temporary, columns, facts, "quantiles")
    return target
