"""Sentences about a release that can be quoted as they stand.

They are true of the records counted, and where others were left out, or may have been, they say so: nobody
who quotes one has to know what stood beside it. Records and people are whole.

Which counts are quoted follows from the request alone, never from the answers: the largest answer of many is
too large more often than not, so that "19 times in 20" would not hold for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from leastnoise.query import QueryBlock, RatioRows
from leastnoise.release import RELIABLE, SUPPRESSED, Release
from leastnoise.report.answer_tables import half_widths_asked
from leastnoise.report.figures import decimals_for, number, outward, whole_within
from leastnoise.report.plan_sentences import of_the_counted
from leastnoise.report.publication import Publication
from leastnoise.report.summary import LEVEL

# Sentences about counts, each from another batch.
_MAX_COUNTS = 3

# Queries that count records, alone or crossed with one another; sums of values and differences do not.
_COUNTING = (
    *("total", "marginal", "prefix", "all-ranges", "ranges", "windows"),
    *("where", "cases", "cube", "levels"),
)

# The level of every interval of a report, as people say it.
_OFTEN = "19 times in 20"


def quotable_sentences(release: Release, publication: Publication | None) -> list[str]:
    """What a reader may quote: the first count of each of the first batches, and the first ratio.

    Empty where errors are not known: a number without them says nothing.
    """
    if release.plan.strategy is None:
        return []
    workload = release.plan.workload
    unit = "records" if publication is None or publication.unit is None else publication.unit
    lower, upper = release.interval(LEVEL)
    columns = {
        "answer": release.answers,
        "stderr": release.plan.known_stderr(),
        "lower": lower,
        "upper": upper,
    }
    sentences: list[str] = []
    start = 0
    for block in workload.blocks:
        row, start = start, start + block.n_rows
        is_part = any(block.name.startswith(f"{ratio.name}: ") for ratio in workload.ratios)
        if len(sentences) < _MAX_COUNTS and not is_part and _counts_records(block.query.to_dict()):
            own = {name: np.asarray(values[row : row + 1]) for name, values in columns.items()}
            sentences += _of_count(release, block, own, unit)
    for ratio in workload.ratios[:1]:
        sentences += _of_ratio(release, ratio)
    return sentences


def _counts_records(query: Mapping[str, Any]) -> bool:
    if query["kind"] == "product":
        return _counts_records(query["left"]) and _counts_records(query["right"])
    return query["kind"] in _COUNTING


def _often(release: Release) -> str:
    return _OFTEN if release.plan.privacy.noise.has_normal_errors else f"at least {_OFTEN}"


def _of_count(release: Release, block: QueryBlock, columns: dict[str, Any], unit: str) -> list[str]:
    """A sentence about the first count of a batch; none where it is suppressed."""
    if release.presented is not None:
        columns = release.presented.presented(columns, is_rounded=True)
        if list(columns.get("reliability", [RELIABLE])) == [SUPPRESSED]:
            return []
    answer, lower, upper = (float(columns[name][0]) for name in ("answer", "lower", "upper"))
    # The true number is whole.
    low, high = whole_within(lower, upper)
    about = "in all" if block.query.kind == "total" else f"with {block.labels[0]}"
    if answer < 0:
        # Nobody counts fewer than none: what is left to say is how many there are at most.
        hidden = "the noise added for privacy hides how many"
        most = f"There are at most {max(high, 0):,} {unit} {about} ({hidden})"
        return [f"{most}, {_often(release)}{of_the_counted(release)}."]
    shown = round(answer)
    margin = max(high - shown, shown - low)
    widths = half_widths_asked(block, LEVEL)
    asked = None if widths is None else float(widths[0])
    looks_missed = asked is not None and (upper - lower) / 2 <= asked < margin
    if not release.is_centred or release.presented is not None or looks_missed:
        # Adjusted answers may lie anywhere, and a target that is kept is not to look missed.
        truth = f"lies between {max(low, 0):,} and {max(high, 0):,}"
    else:
        truth = f"is within {margin:,} of that" if margin else "is exactly that"
    counted = "1 record" if shown == 1 and unit == "records" else f"{shown:,} {unit}"
    return [
        f"We counted {counted} {about}; the true number {truth}, {_often(release)}{of_the_counted(release)}."
    ]


def _of_ratio(release: Release, ratio: RatioRows) -> list[str]:
    """A sentence about the first ratio of a query; none where it is not determined or suppressed."""
    found = release.ratio_columns(level=LEVEL)
    if release.presented is not None:
        found = release.presented.presented(found, is_rounded=False)
    j = list(found["query"]).index(ratio.name)
    if found["note"][j] or found.get("reliability", [RELIABLE] * (j + 1))[j] == SUPPRESSED:
        return []
    scale, unit = (100.0, "%") if ratio.query.kind == "share" else (1.0, "")
    estimate, lower, upper = (scale * float(found[name][j]) for name in ("estimate", "lower", "upper"))
    decimals = decimals_for(np.array([(upper - lower) / 2]))
    low, high = outward(lower, upper, decimals)
    about = dict.fromkeys([ratio.name, ratio.labels[0]])
    return [
        f"We estimate {number(estimate, decimals)}{unit} ({', '.join(about)}); the true value "
        f"lies between {low}{unit} and {high}{unit}, {_often(release)}{of_the_counted(release)}."
    ]
