"""The ratios of a release: numerators and denominators divided, with intervals from their joint error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.planning import Plan
from leastnoise.query import Labels, RatioParts, RatioQuery, RatioRows, Workload
from leastnoise.release.deviations import DeviationErrors, deviation_intervals
from leastnoise.release.matched_covariances import matched_covariances
from leastnoise.release.ratios import DETERMINED, RatioErrors, RatioIntervals, ratio_intervals

Answers = Callable[[Workload], Array]


@dataclass(frozen=True, eq=False)
class RatioSource:
    """Where one ratio query finds its numbers.

    Attributes:
        numerator: the numerators, as a workload of their own.
        denominator: the denominators, likewise.
        parts: how they are divided.
        labels: what each ratio is called.
        sums: of a standard deviation the sums, whose squares are the numerators; None for ratios.
    """

    numerator: Workload
    denominator: Workload
    parts: RatioParts
    labels: Labels
    sums: Workload | None = None


def source_of(plan: Plan, ratio: RatioRows) -> RatioSource:
    """Where a ratio of the plan's workload finds its numbers."""
    only = plan.workload.only
    sums = only(ratio.further[0]) if ratio.parts.is_deviation else None
    return RatioSource(only(ratio.numerator), only(ratio.denominator), ratio.parts, ratio.labels, sums)


def further_source(plan: Plan, query: RatioQuery) -> RatioSource:
    """Where a further ratio finds its numbers, if the plan answers both of its parts.

    Raises:
        QueryError: if the plan did not measure enough to answer one of them.
    """
    schema = plan.workload.schema
    if schema is None:
        raise InputError.must("query", "be rows of a matrix, where the plan has no schema", given=query.kind)
    parts = query.parts(schema)
    labels = parts.shown_as.labels(schema)
    sums = plan.asked(parts.further[0][1]) if parts.is_deviation else None
    return RatioSource(plan.asked(parts.numerator), plan.asked(parts.denominator), parts, labels, sums)


def ratio_columns(
    plan: Plan, source: RatioSource, answers: Answers, unadjusted: Answers, level: float
) -> dict[str, Any]:
    """Columns estimate, stderr, lower, upper and note, one entry for each ratio.

    A ratio that is not determined has NaN in each and the reason as its note; elsewhere the note is "". Where
    the plan depends on the data, only estimates are known.

    Args:
        answers: the answers to a workload, from which ratios are estimated.
        unadjusted: its unbiased answers, whose errors are known.
    """
    if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InputError.must("level", "lie between 0 and 1, as in 0.95", given=level)
    found = found_intervals(plan, source, answers, unadjusted, level)
    if plan.strategy is None:
        return {"estimate": found.estimate, "note": _notes(found)}
    numbers = {name: getattr(found, name) for name in ("estimate", "stderr", "lower", "upper")}
    return numbers | {"note": _notes(found)}


def found_intervals(
    plan: Plan, source: RatioSource, answers: Answers, unadjusted: Answers, level: float
) -> RatioIntervals:
    """Estimates from `answers` with intervals from `unadjusted`; of no width where errors are not known."""
    rows = source.parts.rows
    estimates = answers(source.numerator), answers(source.denominator)[rows]
    sums = None if source.sums is None else replace(source, numerator=source.sums, sums=None)
    if plan.strategy is None:
        zeros = np.zeros(len(rows))
        errors = RatioErrors(*estimates, zeros, zeros, zeros)
        if sums is None:
            return _intervals(errors, level, source.parts, estimates)
        first = answers(sums.numerator)
        of_sums = RatioErrors(first, estimates[1], zeros, zeros, zeros)
        return _deviations(DeviationErrors(errors, of_sums, zeros), level, source, None)
    if sums is None:
        errors = ratio_errors(plan, source, unadjusted, level)
        return _intervals(errors, level, source.parts, estimates)
    # Where intervals hold at once, each of three fails with a third of what is left.
    each = 1 - 2 * (1 - level) / 3
    both = [ratio_errors(plan, one, unadjusted, each) for one in (source, sums)]
    covariance = matched_covariances(
        plan.fixed_strategy(), source.numerator, sums.numerator, np.arange(len(rows))
    )
    moments = estimates[0], answers(sums.numerator), estimates[1]
    return _deviations(DeviationErrors(both[0], both[1], covariance), level, source, moments)


def _deviations(
    errors: DeviationErrors,
    level: float,
    source: RatioSource,
    estimates: tuple[Array, Array, Array] | None,
) -> RatioIntervals:
    assert source.parts.means is not None
    largest = source.parts.possible[1]
    return deviation_intervals(errors, level, means=source.parts.means, largest=largest, estimates=estimates)


def ratio_errors(plan: Plan, source: RatioSource, unadjusted: Answers, level: float) -> RatioErrors:
    """Numerators and denominators with the variances and covariances of their errors."""
    strategy, rows = plan.fixed_strategy(), source.parts.rows
    above, below = source.numerator, source.denominator
    half_widths = None
    if not strategy.noise.has_normal_errors:
        # Each interval fails with half of what is left, so that both hold at once.
        alpha = (1 - level) / 2
        half_widths = (
            strategy.laplace_half_widths(above, alpha),
            strategy.laplace_half_widths(below, alpha)[rows],
        )
    return RatioErrors(
        numerator=unadjusted(above),
        denominator=unadjusted(below)[rows],
        var_numerator=strategy.variances_of(above),
        covariance=matched_covariances(strategy, above, below, rows),
        var_denominator=strategy.variances_of(below)[rows],
        half_widths=half_widths,
    )


def _intervals(
    errors: RatioErrors, level: float, parts: RatioParts, estimates: tuple[Array, Array]
) -> RatioIntervals:
    return ratio_intervals(
        errors,
        level,
        shift=parts.shift,
        possible=parts.possible,
        positive=parts.positive,
        estimates=estimates,
    )


def _notes(found: RatioIntervals) -> list[str]:
    return ["" if reason == DETERMINED else f"not determined: {reason}" for reason in found.reasons]
