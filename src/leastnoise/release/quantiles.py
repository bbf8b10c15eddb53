"""Quantiles of an ordered attribute from a released distribution, with intervals that hold the true ones.

With P_k the number of records that have the k-th value or a smaller one and T that of all, the q-quantile is
the least k with P_k ≥ q T: the least k with

    D_k = P_k − q T ≥ 0 .                                                                                 (1)

D rises with k, and every D_k is a linear query of which a release knows the answer d_k and the law of its
error. Let t_k be such that the error exceeds t_k with probability (1 − level)/2 at most, and falls below −t_k
with no more: noise is symmetric, so this is half of the single interval of that level. The interval of a
quantile is the hull of

    C = { k :  d_k + t_k ≥ 0  and  d_{k−1} − t_{k−1} < 0 } .                                               (2)

*It holds the true quantile κ with probability `level` or more.* κ is one fixed number: the data are not
random, the noise is. D_κ ≥ 0, so d_κ + t_κ < 0 only if the error there falls below −t_κ; and D_{κ−1} < 0, so
d_{κ−1} − t_{κ−1} ≥ 0 only if the error there exceeds t_{κ−1}. Each has probability (1 − level)/2 at most, and
else κ is in C. So every cut point is tested at its own level, and no wider band that holds the whole
distribution at once is needed: of all tests only two could leave κ out. D_n = (1 − q) T ≥ 0 is certain for
the last value, and there is no value before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import Array, Matrix
from leastnoise.core.remedies import AddQuery, Argument
from leastnoise.planning import Plan
from leastnoise.query import (
    Attribute,
    Bins,
    Factor,
    Integers,
    Labels,
    Marginal,
    Periods,
    Prefix,
    Query,
    Schema,
    Term,
    Workload,
    workload_of_query,
)
from leastnoise.release.intervals import half_widths

Answers = Callable[[Workload], Array]


@dataclass(frozen=True)
class _AboveShare(Query):
    """D_k of (1) for every value k of an attribute."""

    attribute: str
    share: float

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        n = values.n_values
        rows = np.zeros((n, values.size))
        rows[:, :n] = np.tril(np.ones((n, n))) - self.share
        return [[Factor((self.attribute,), Matrix(rows), Labels(n, values.prefix_label))]]


def quantile_table(
    plan: Plan,
    answers: Answers,
    unadjusted: Answers,
    attribute: str,
    shares: Sequence[float],
    level: float,
    by: str | None,
) -> Any:
    """The frame of `Release.quantiles`.

    Args:
        answers: the answers to a workload, from which quantiles are estimated.
        unadjusted: its unbiased answers, whose errors are known.
    """
    import pandas as pd

    schema, values = _ordered(plan, attribute)
    wanted = _checked(shares)
    groups = _groups(schema, attribute, by)
    strategy = plan.fixed_strategy()
    _require_distribution(plan, attribute, by)
    distribution = answers(_of_groups(Prefix(attribute), schema, by))
    sums = _by_group(distribution, schema, attribute, by)
    rows: list[list[dict[str, Any]]] = [[] for _ in groups]
    for share in wanted:
        workload = _of_groups(_AboveShare(attribute, share), schema, by)
        stderr = np.sqrt(strategy.variances_of(workload))
        t = half_widths(workload, strategy, stderr, level, False, None)
        ends = [_by_group(v, schema, attribute, by) for v in (unadjusted(workload), t)]
        for number in range(len(groups)):
            estimate = _estimate(sums[number], share)
            low, high = _interval(ends[0][number], ends[1][number], estimate)
            rows[number].append(_shown(values, min(max(estimate, low), high), low, high))
    # One group after the other, as the attribute declares them.
    frame = pd.DataFrame([row for of_group in rows for row in of_group])
    if by is None:
        return frame.set_index(pd.Index(wanted, name="q"))
    # The index is made apart from the columns: the attribute may be called as one of them, or "q".
    index = pd.MultiIndex.from_tuples([(group, q) for group in groups for q in wanted], names=[by, "q"])
    return frame.set_index(index)


def _interval(d: Array, t: Array, estimate: int) -> tuple[int, int]:
    """The ends of the hull of (2); the estimate where C is empty, which the true quantile is not in then."""
    may_reach = d + t >= 0
    may_reach[-1] = True
    may_be_below = np.concatenate([[True], (d - t < 0)[:-1]])
    held = np.flatnonzero(may_reach & may_be_below)
    return (int(held[0]), int(held[-1])) if len(held) else (estimate, estimate)


def _estimate(sums: Array, share: float) -> int:
    """The least k with P_k ≥ q T, of running sums made to rise."""
    # Halfway between the largest of all before and the least of all after: both rise, and so do their means.
    rising = (np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]) / 2
    return int(np.argmax(rising >= share * rising[-1]))


def _shown(values: Attribute, estimate: int, low: int, high: int) -> dict[str, Any]:
    if isinstance(values, Integers):
        return {
            "quantile": values.values[estimate],
            "lower": values.values[low],
            "upper": values.values[high],
        }
    if isinstance(values, Periods):
        return {
            "quantile": values.label(estimate),
            "lower": values.label(low),
            "upper": values.label(high),
        }
    assert isinstance(values, Bins)
    return {
        "quantile": values.label(estimate),
        "from": values.edges[estimate],
        "to": values.edges[estimate + 1],
        "lower": values.edges[low],
        "upper": values.edges[high + 1],
    }


def _of_groups(query: Query, schema: Schema, by: str | None) -> Workload:
    return workload_of_query(query if by is None else query * Marginal(by), schema)


def _by_group(numbers: Array, schema: Schema, attribute: str, by: str | None) -> Array:
    """Numbers of a product with the groups, one row for each group."""
    n = schema[attribute].n_values
    if by is None:
        return numbers.reshape(1, n)
    if schema.names.index(by) < schema.names.index(attribute):
        return numbers.reshape(-1, n)
    return numbers.reshape(n, -1).T


def _ordered(plan: Plan, attribute: str) -> tuple[Schema, Attribute]:
    schema = plan.workload.schema
    if schema is None:
        raise QueryError(
            "quantiles need an attribute, and this plan was made from a matrix without a schema",
            field="attribute",
            given=attribute,
            remedy="give a schema to Workload.from_matrix()",
        )
    values = schema[attribute]
    if not isinstance(values, (Integers, Bins, Periods)):
        wanted = "have an order, declared as a range, as Bins or as Periods"
        raise QueryError.must("attribute", wanted, given=attribute)
    return schema, values


def _checked(shares: Sequence[float]) -> list[float]:
    given = np.atleast_1d(np.asarray(shares, dtype=object)).tolist()
    for share in given:
        is_number = isinstance(share, (int, float, np.integer, np.floating)) and not isinstance(share, bool)
        if not is_number or not 0 < share < 1:
            raise QueryError.must("shares", "lie between 0 and 1, as in [0.25, 0.5]", given=share)
    if not given:
        raise QueryError.must("shares", "hold at least one share, as in [0.5]", given=[])
    return [float(share) for share in given]


def _groups(schema: Schema, attribute: str, by: str | None) -> list[str]:
    if by is None:
        return [""]
    if by == attribute:
        raise QueryError(
            Argument("by"),
            f" is another attribute than the one whose quantiles are asked, got {by!r}",
            field="by",
            given=by,
        )
    return [schema[by].label(i) for i in range(schema[by].size)]


def _require_distribution(plan: Plan, attribute: str, by: str | None) -> None:
    crossed, within = ("", "") if by is None else (f" * Marginal({by!r})", f" within every {by!r}")
    missing = Prefix(attribute) if by is None else Prefix(attribute) * Marginal(by)
    try:
        plan.asked(missing)
    except QueryError:
        raise QueryError(
            f"this plan does not determine how many records have each value of {attribute!r}{within}; ",
            AddQuery(missing, f"Prefix({attribute!r}){crossed}"),
            field="attribute",
            given=attribute,
        ) from None
