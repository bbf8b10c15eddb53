"""The columns of answers: of all counts, of all ratios, or of one query.

One entry for each row: its answer, and its standard error and interval where they are known. What else a
table of answers holds, such as attributes, is in `answer_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.query import Labels, Query, RatioQuery, Workload
from leastnoise.release.adjustment import interval_ends
from leastnoise.release.intervals import half_widths
from leastnoise.release.ratio_answers import RatioSource, further_source, ratio_columns, source_of

if TYPE_CHECKING:
    from leastnoise.release.release import Release


def columns_of_counts(release: Release, level: float, simultaneous: bool) -> dict[str, Any]:
    """The counts of a release with their errors, by name, as they were measured or adjusted."""
    workload = release.plan.workload
    columns: dict[str, Any] = {
        "query": [block.name for block in workload.blocks for _ in range(block.n_rows)],
        "label": list(workload.labels),
        "answer": release.answers,
    }
    if release.adjusted is not None:
        columns["unadjusted"] = release.unadjusted.answers
    if release.plan.strategy is not None:
        lower, upper = release.interval(level, simultaneous=simultaneous)
        columns |= {"stderr": release.plan.known_stderr(), "lower": lower, "upper": upper}
    return columns


def columns_of_ratios(release: Release, level: float) -> dict[str, Any]:
    """The means, shares and ratios of a release with their errors and notes, by name."""
    errors = [] if release.plan.strategy is None else ["stderr", "lower", "upper"]
    columns: dict[str, list[Any]] = {name: [] for name in ["query", "label", "estimate", *errors, "note"]}
    for ratio in release.plan.workload.ratios:
        found = _of_source(release, source_of(release.plan, ratio), level)
        found |= {"query": [ratio.name] * len(ratio.labels), "label": list(ratio.labels)}
        for name, values in columns.items():
            values += list(found[name])
    texts = ("query", "label", "note")
    return {
        name: values if name in texts else np.array(values, dtype=float) for name, values in columns.items()
    }


def columns_of_query(
    release: Release, query: str | Query, level: float
) -> tuple[Query, Labels, dict[str, Any]]:
    """How one query is shaped, what its rows are called, and its columns as they are presented.

    Raises:
        QueryError: if the plan did not measure enough to answer it.
    """
    plan, source = release.plan, None
    if isinstance(query, RatioQuery):
        source = further_source(plan, query)
    elif isinstance(query, str):
        if query not in plan.workload:
            raise QueryError.unknown("query", query, map(repr, plan.workload))
        ratio = plan.workload.ratio(query)
        source = None if ratio is None else source_of(plan, ratio)
    if source is not None:
        columns = _of_source(release, source, level)
        if release.presented is not None:
            columns = release.presented.presented(columns, is_rounded=False)
        return source.parts.shown_as, source.labels, columns
    workload = plan.workload.only(query) if isinstance(query, str) else plan.asked(query)
    (block,) = workload.blocks
    columns = _of_workload(release, workload, level)
    if release.presented is not None:
        columns = release.presented.presented(columns, is_rounded=True)
    return block.query, block.labels, columns


def _of_source(release: Release, source: RatioSource, level: float) -> dict[str, Any]:
    return ratio_columns(release.plan, source, release.answers_to, release.unadjusted.answers_to, level)


def _of_workload(release: Release, workload: Workload, level: float) -> dict[str, Any]:
    """Answers to a workload, with errors and intervals where they are known."""
    columns: dict[str, Any] = {"answer": release.answers_to(workload)}
    strategy = release.plan.strategy
    if strategy is not None:
        stderr = np.sqrt(strategy.variances_of(workload))
        half = half_widths(workload, strategy, stderr, level, False, None)
        unadjusted = release.unadjusted.answers_to(workload)
        lower, upper = interval_ends(release.adjusted, workload, unadjusted, half)
        if release.adjusted is not None:
            columns["unadjusted"] = unadjusted
        columns |= {"stderr": stderr, "lower": lower, "upper": upper}
    return columns
