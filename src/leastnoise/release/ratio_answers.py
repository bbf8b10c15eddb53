"""The ratios of a release: numerators and denominators divided, with intervals from their joint error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.planning import Plan
from leastnoise.query import Labels, RatioParts, RatioQuery, RatioRows, Workload
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
    """

    numerator: Workload
    denominator: Workload
    parts: RatioParts
    labels: Labels


def source_of(plan: Plan, ratio: RatioRows) -> RatioSource:
    """Where a ratio of the plan's workload finds its numbers."""
    only = plan.workload.only
    return RatioSource(only(ratio.numerator), only(ratio.denominator), ratio.parts, ratio.labels)


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
    return RatioSource(plan.asked(parts.numerator), plan.asked(parts.denominator), parts, labels)


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
    parts, rows = source.parts, source.parts.rows
    estimates = answers(source.numerator), answers(source.denominator)[rows]
    if plan.strategy is None:
        zeros = np.zeros(len(rows))
        found = _intervals(RatioErrors(*estimates, zeros, zeros, zeros), level, parts, estimates)
        return {"estimate": found.estimate, "note": _notes(found)}
    errors = ratio_errors(plan, source, unadjusted, level)
    found = _intervals(errors, level, parts, estimates)
    numbers = {name: getattr(found, name) for name in ("estimate", "stderr", "lower", "upper")}
    return numbers | {"note": _notes(found)}


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
