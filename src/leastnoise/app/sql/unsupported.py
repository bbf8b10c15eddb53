"""What SQL may ask that counts with noise cannot answer, and what to ask instead."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

# What is wrong, and what to do.
Refusal = tuple[str, str | None]


def _by_true_counts(clause: str) -> Refusal:
    return f"{clause} would choose rows by their true counts", "leave it out and choose among the answers"


_WINDOWS = ("window functions are not supported", "ask for the counts and combine the answers")
_QUANTILE = ("a quantile needs a distribution", "ask for Prefix(attribute), then call release.quantiles()")
_EXTREME = "ask for a distribution with Prefix(attribute)"
_SPREAD = (
    "a variance needs counts",
    "ask for COUNT(*) grouped by the attribute and compute it from the answers",
)
DISTINCT = ("distinct values are not counted: which of them occur must stay hidden", None)
CLAUSES: dict[str, Refusal] = {
    "with_": ("WITH is not supported", "ask about the table itself"),
    "distinct": ("DISTINCT is not supported", "group counts with GROUP BY"),
    "joins": ("JOIN is not supported", "join the tables first, and declare the joined table"),
    "laterals": ("LATERAL is not supported", "ask about one table"),
    "having": _by_true_counts("HAVING"),
    "qualify": _by_true_counts("QUALIFY"),
    "windows": _WINDOWS,
    "order": ("ORDER BY is not supported: answers come in the schema's order", "leave it out and sort them"),
    "limit": _by_true_counts("LIMIT"),
    "offset": _by_true_counts("OFFSET"),
    "sample": ("samples are not supported", "ask about the whole table"),
    "into": ("INTO is not supported: nothing is written", "leave it out"),
}
INSTEAD: dict[type[Any], Refusal] = {
    exp.Avg: ("AVG is computed with nothing else", "ask for AVG(attribute) alone"),
    exp.Min: ("the smallest value belongs to one person", _EXTREME),
    exp.Max: ("the largest value belongs to one person", _EXTREME),
    exp.Median: _QUANTILE,
    exp.Quantile: _QUANTILE,
    exp.PercentileCont: _QUANTILE,
    exp.PercentileDisc: _QUANTILE,
    exp.ApproxDistinct: DISTINCT,
    exp.Window: _WINDOWS,
    exp.Stddev: _SPREAD,
    exp.StddevSamp: _SPREAD,
    exp.StddevPop: _SPREAD,
    exp.Variance: _SPREAD,
    exp.VariancePop: _SPREAD,
    exp.Subquery: ("subqueries are not supported", "ask for each count in a statement of its own"),
    exp.Star: ("* stands for all columns", "name those to group by, and COUNT(*)"),
    exp.Literal: ("a constant says nothing", "name the count instead, as in COUNT(*) AS adults"),
}
