"""Changes from one release to a later one: differences and quotients of the same query, with intervals.

The noise of two releases is assumed to be independent: each call of `measure` draws its own. The same release
twice has no noise in the difference at all, and is refused.

Counts: a difference has an exact interval for Gaussian noise, from the sum of the variances; a quotient has
Fieller's. Means, shares and ratios: a difference has the interval of `difference_ends`, nearly exact, and a
quotient that of two intervals that hold at once. Laplace noise and standard deviations: from intervals that
hold at once, everywhere. docs/ratios.md has the measured coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.query import Labels, Query, RatioQuery, StandardDeviation, Workload
from leastnoise.release.answer_table import shaped_frame
from leastnoise.release.ratio_answers import (
    RatioSource,
    found_intervals,
    further_source,
    ratio_errors,
    source_of,
)
from leastnoise.release.ratios import DETERMINED, RatioErrors, difference_ends, ratio_intervals
from leastnoise.release.release import Release


@dataclass(frozen=True, eq=False)
class _Estimates:
    """The numbers of one release for one query, (k,): NaN where one is not determined.

    Attributes:
        lower: the lower ends at the level that was asked for; `upper` likewise.
        variance: of counts under Gaussian noise; None for ratios and other noise.
        possible: what the numbers can be.
    """

    query: Query
    labels: Labels
    estimate: Array
    lower: Array
    upper: Array
    variance: Array | None
    possible: tuple[float, float]
    reasons: tuple[str, ...]


def changes(
    earlier: Release, later: Release, query: str | Query, *, relative: bool = False, level: float = 0.95
) -> Any:
    """A pandas frame of how answers changed from one release to a later one, with intervals.

    Columns earlier, later, change, lower, upper and note; the change is later - earlier, or later / earlier
    if `relative`. Each interval contains the true change with probability `level`: exactly for counts under
    Gaussian noise, nearly for differences of ratios, at least otherwise. A change is not determined where one
    of its ratios is not, or where an earlier answer is too small to divide by; the note says why. Adjusted
    answers are not used: changes are computed from the measurements.

    Assumes that the noise of the two releases is independent, as it is for two calls of `measure`.

    Args:
        earlier: the release to compare with.
        later: the release that came after it.
        query: the name of a query that both releases have, or any query that both can answer.
        relative: whether a change is a quotient, later / earlier, rather than a difference.
        level: the confidence of the intervals, between 0 and 1.

    Raises:
        InputError: if both are the same release, or the query has other rows in one of them.
        QueryError: if one of them cannot answer it.
        MethodError: if a plan depends on the data, so that errors are not known.
    """
    if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InputError.must("level", "lie between 0 and 1, as in 0.95", given=level)
    _require_apart(earlier, later)
    is_normal = all(one.plan.fixed_strategy().noise.has_normal_errors for one in (earlier, later))
    # The ends for a standard deviation are cut at 0 and say nothing of its variance there.
    is_normal &= not _is_deviation(query, earlier)
    # Two independent intervals hold at once with the product of their probabilities.
    both = level if is_normal and not _divides(query, earlier, relative) else math.sqrt(level)
    first, second = (_estimates(one.unadjusted, query, both) for one in (earlier, later))
    if list(first.labels) != list(second.labels):
        raise InputError.must("query", "have the same rows in both releases", given=query)
    change, lower, upper, reasons = _compared(first, second, relative, is_normal, level)
    notes = ["" if reason == DETERMINED else f"not determined: {reason}" for reason in reasons]
    columns: dict[str, Any] = {"earlier": first.estimate, "later": second.estimate, "change": change}
    columns |= {"lower": lower, "upper": upper, "note": notes}
    return shaped_frame(second.query, second.labels, later.plan.workload.schema, columns)


def _require_apart(earlier: Release, later: Release) -> None:
    """Refuse two copies of one release: their noise is the same."""
    is_same = earlier.plan.digest == later.plan.digest and np.array_equal(
        earlier.held_measurements, later.held_measurements
    )
    receipts = [(one.receipt.dataset, one.receipt.release_id) for one in (earlier, later) if one.receipt]
    # Periods of a stream have one id, and later ones hold the noise of earlier ones.
    if is_same or len(receipts) > len(set(receipts)):
        raise InputError(
            "both are the same release or of one stream, so that their noise is not independent",
            field="later",
            remedy="give two releases that were measured apart",
        )


def _divides(query: str | Query, release: Release, relative: bool) -> bool:
    """Whether ratios are divided by ratios."""
    is_ratio = isinstance(query, RatioQuery) or (
        isinstance(query, str) and release.plan.workload.ratio(query) is not None
    )
    return relative and is_ratio


def _is_deviation(query: str | Query, release: Release) -> bool:
    ratio = release.plan.workload.ratio(query) if isinstance(query, str) else None
    return isinstance(query if ratio is None else ratio.query, StandardDeviation)


def _estimates(release: Release, query: str | Query, level: float) -> _Estimates:
    plan = release.plan
    if isinstance(query, RatioQuery):
        return _of_ratio(release, further_source(plan, query), level)
    if isinstance(query, str):
        ratio = plan.workload.ratio(query)
        if ratio is not None:
            return _of_ratio(release, source_of(plan, ratio), level)
        return _of_counts(release, plan.workload.only(query), level)
    return _of_counts(release, plan.asked(query), level)


def _of_counts(release: Release, workload: Workload, level: float) -> _Estimates:
    strategy, (block,) = release.plan.fixed_strategy(), workload.blocks
    answers = release.answers_to(workload)
    if strategy.noise.has_normal_errors:
        variance = strategy.variances_of(workload)
        half = -NormalDist().inv_cdf((1 - level) / 2) * np.sqrt(variance)
    else:
        variance, half = None, strategy.laplace_half_widths(workload, 1 - level)
    possible, reasons = (-math.inf, math.inf), (DETERMINED,) * len(answers)
    ends = answers - half, answers + half
    return _Estimates(block.query, block.labels, answers, *ends, variance, possible, reasons)


def _of_ratio(release: Release, source: RatioSource, level: float) -> _Estimates:
    parts = source.parts
    if parts.is_deviation:
        found = found_intervals(release.plan, source, release.answers_to, release.answers_to, level)
        ends = found.lower, found.upper
        return _Estimates(
            parts.shown_as, source.labels, found.estimate, *ends, None, parts.possible, found.reasons
        )
    errors = ratio_errors(release.plan, source, release.answers_to, level)
    # Ends that were cut would say nothing of the variance on that side.
    found = ratio_intervals(errors, level, shift=parts.shift, positive=parts.positive)
    ends = found.lower, found.upper
    labels, query = source.labels, parts.shown_as
    return _Estimates(query, labels, found.estimate, *ends, None, parts.possible, found.reasons)


def _compared(
    first: _Estimates, second: _Estimates, relative: bool, is_normal: bool, level: float
) -> tuple[Array, Array, Array, list[str]]:
    """The changes, both ends of their intervals, and why one is not determined."""
    known = [one or other for one, other in zip(first.reasons, second.reasons, strict=True)]
    if relative:
        found = ratio_intervals(_quotients(first, second), level)
        missing = [early or late for early, late in zip(known, found.reasons, strict=True)]
        is_known = np.array([reason == DETERMINED for reason in missing])
        numbers = (
            np.where(is_known, values, np.nan) for values in (found.estimate, found.lower, found.upper)
        )
        change, lower, upper = numbers
        return change, lower, upper, missing
    change = second.estimate - first.estimate
    if first.variance is not None and second.variance is not None:
        half = -NormalDist().inv_cdf((1 - level) / 2) * np.sqrt(first.variance + second.variance)
        return change, change - half, change + half, known
    if is_normal:
        lower, upper = difference_ends(
            (first.estimate, first.lower, first.upper), (second.estimate, second.lower, second.upper)
        )
    else:
        lower, upper = second.lower - first.upper, second.upper - first.lower
    least, largest = second.possible[0] - first.possible[1], second.possible[1] - first.possible[0]
    return (
        np.clip(change, least, largest),
        np.clip(lower, least, largest),
        np.clip(upper, least, largest),
        known,
    )


def _quotients(first: _Estimates, second: _Estimates) -> RatioErrors:
    """Later numbers over earlier ones: by their variances, or by intervals that hold at once."""
    zeros = np.zeros(len(first.estimate))
    if first.variance is not None and second.variance is not None:
        return RatioErrors(second.estimate, first.estimate, second.variance, zeros, first.variance)
    # Half of the longer side, so that the interval holds the one that is meant.
    halves = [np.maximum(one.estimate - one.lower, one.upper - one.estimate) for one in (second, first)]
    nans = [np.where(np.isfinite(one.estimate), one.estimate, 0.0) for one in (second, first)]
    spread = (np.where(np.isfinite(half), half, 0.0) for half in halves)
    half_widths = next(spread), next(spread)
    return RatioErrors(nans[0], nans[1], zeros, zeros, zeros, half_widths)
