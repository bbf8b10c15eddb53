"""What was done to the answers of a release after they were measured, and what is still true of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from leastnoise.core.errors import PlanFileError
from leastnoise.core.operators import (
    AllOnes,
    Array,
    CumulativeSum,
    EveryLevel,
    EveryRange,
    Groups,
    Identity,
    Operator,
    Padded,
    SomeRanges,
)
from leastnoise.core.progress import ENDINGS, Ended
from leastnoise.query import Linear, QueryBlock, Workload

# Entries of these are zeros and ones.
_INDICATORS = (AllOnes, CumulativeSum, EveryLevel, EveryRange, Groups, Identity, SomeRanges)

# Answers this near to those of least squares have their errors and intervals: 1/1000 of a standard error.
NEAR_ENOUGH = 1e-3

# How non-negative cells are chosen: drawn towards independent attributes, or nearest to the measurements.
Fit = Literal["entropy", "least squares"]
FITS: tuple[Fit, ...] = get_args(Fit)

# What a file says of an adjustment only where there is something to say. Older files say "stopped" of one
# that its time limit ended.
_OPTIONAL = ("ended", "centred", "stopped", "fit")

# What a sentence says of a search that ended, in these ways, before it was near enough.
_ENDINGS: dict[Ended, str] = {
    "converged": "ended early",
    "exhausted": "ended early",
    "deadline": "was stopped by its time limit",
    "interrupted": "was interrupted",
}


@dataclass(frozen=True, eq=False)
class Adjustment:
    """One table of cells from which all answers of an adjusted release are added up.

    Attributes:
        nonnegative: whether no cell is below zero.
        integer: whether cells are whole numbers.
        cells: the table, (n,), in schema order.
        precision: before rounding, no answer is further from that of the exact cells of this fit, the
            non-negative ones if asked for, than this many of its own standard errors. Proved for
            non-negative cells; None where it is not known, because the plan depends on the data.
        ended: how the search ended: "converged" at its precision; "exhausted" where steps gained no more;
            "deadline" at its time limit; "interrupted" by the user. Rounding may be cut short, too.
        centred: whether intervals are around the adjusted answers, which err no more than the unadjusted
            ones: those of least-squares cells under Gaussian noise.
        fit: "least squares" for the cells nearest to the measurements, "entropy" for those drawn towards
            independent attributes as far as lowers the estimated error.
    """

    nonnegative: bool
    integer: bool
    cells: Array
    precision: float | None
    ended: Ended = "converged"
    centred: bool = False
    fit: Fit = "least squares"

    def __post_init__(self) -> None:
        self.cells.setflags(write=False)

    @property
    def kinds(self) -> str:
        """ "non-negative", "whole numbers" or both; "made to agree" where neither was asked for."""
        kinds = [("non-negative", self.nonnegative), ("whole numbers", self.integer)]
        return " ".join(kind for kind, is_so in kinds if is_so) or "made to agree"

    @property
    def is_unbiased(self) -> bool:
        """Whether answers were made to agree and nothing else."""
        return not (self.nonnegative or self.integer)

    @property
    def _is_near(self) -> bool:
        """Whether answers are those of least squares, for all that can be seen in them."""
        return self.precision is not None and self.precision <= NEAR_ENOUGH

    def statement(self) -> str:
        """What a reader has to know, in one sentence or two."""
        early = ""
        # A hundredth is what is aimed at; a little more is as good.
        is_cut = self.ended in ("deadline", "interrupted")
        if self.precision is not None and (is_cut or self.precision > 0.1):
            rounding = " before rounding" if self.integer else ""
            far = f"{self.precision:.2g} standard errors from the best answers{rounding}"
            early = f" The search {_ENDINGS[self.ended]}, up to {far}."
        elif is_cut:
            early = f" The search {_ENDINGS[self.ended]}; how far from the best answers is not known."
        if self.is_unbiased:
            around = "these" if self.centred else "the unadjusted"
            # Only the best answers are known to err no more, and those that are near enough to them.
            less = ", and these err no more" if self._is_near else ""
            return (
                f"Answers were adjusted after they were measured ({self.kinds}): they add up, and are "
                f"unbiased. Standard errors are those of the unadjusted answers{less}; "
                f"intervals are around {around} answers and hold the true count as often as they say, or "
                f"more.{early}"
            )
        drawn = (
            "They are drawn towards independent attributes as far as lowers their estimated error. "
            if self.fit == "entropy"
            else ""
        )
        return (
            f"Answers were adjusted after they were measured ({self.kinds}): they add up, and are biased. "
            f"{drawn}Standard errors and intervals are those of the unadjusted answers; intervals hold the "
            f"true count as often as they say.{early}"
        )

    def possible(self, workload: Workload, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Intervals cut down to what a true count can be, or moved to answers that err less.

        They hold it as often as before. A count is never below zero, so an interval loses nothing there.
        Where it held nothing else, what is left is the nearest possible count.
        """
        if self.centred:
            # As long as those of the unadjusted answers, whose errors are at least as large.
            half = (upper - lower) / 2
            answers = workload.operator.apply(self.cells)
            return answers - half, answers + half
        if self.nonnegative:
            is_count = has_no_negative_entry(workload)
            lower = np.where(is_count, np.maximum(lower, 0.0), lower)
            upper = np.where(is_count, np.maximum(upper, 0.0), upper)
        if self.integer:
            starts = np.cumsum([0, *(block.n_rows for block in workload.blocks)])
            for block, start in zip(workload.blocks, starts[:-1], strict=True):
                if block.operator.is_integer:
                    rows = slice(start, start + block.n_rows)
                    inner = np.ceil(lower[rows]), np.floor(upper[rows])
                    nearest = np.rint((lower[rows] + upper[rows]) / 2)
                    is_empty = inner[0] > inner[1]
                    lower[rows] = np.where(is_empty, nearest, inner[0])
                    upper[rows] = np.where(is_empty, nearest, inner[1])
        return lower, upper

    def __repr__(self) -> str:
        known = "" if self.precision is None else f", precision={self.precision:.2g}"
        return f"Adjustment({self.kinds}, {len(self.cells):,} cells{known})"

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays that `adjustment_from_parts` reads back."""
        plain: dict[str, Any] = {
            "nonnegative": self.nonnegative,
            "integer": self.integer,
            "precision": self.precision,
        }
        # Only where they say something: files of all other adjustments are read by earlier versions too.
        if self.ended != "converged":
            plain["ended"] = self.ended
        if self.centred:
            plain["centred"] = True
        if self.fit != "least squares":
            plain["fit"] = self.fit
        return plain, {"adjusted_cells": self.cells}


def interval_ends(
    adjusted: Adjustment | None, workload: Workload, unadjusted: Array, half: Array
) -> tuple[Array, Array]:
    """The ends of intervals around unadjusted answers, cut to what is possible where they were adjusted."""
    lower, upper = unadjusted - half, unadjusted + half
    return (lower, upper) if adjusted is None else adjusted.possible(workload, lower, upper)


def adjustment_from_parts(
    plain: Any, arrays: Mapping[str, Array], n_cells: int, name: str
) -> Adjustment | None:
    """The adjustment that `Adjustment.to_parts` took apart; None where there was none.

    Raises:
        PlanFileError: if the cells are not what they are said to be.
    """
    cells = arrays.get("adjusted_cells")
    if plain is None and cells is None:
        return None
    unfit = PlanFileError(
        f"{name!r} holds adjusted cells that are not what it says they are", field="path", given=name
    )
    if (
        not isinstance(plain, dict)
        or sorted(set(plain) - set(_OPTIONAL)) != ["integer", "nonnegative", "precision"]
        or cells is None
    ):
        raise unfit
    nonnegative, integer, precision = plain["nonnegative"], plain["integer"], plain["precision"]
    centred, stopped = plain.get("centred", False), plain.get("stopped", False)
    if not all(isinstance(given, bool) for given in (nonnegative, integer, centred, stopped)):
        raise unfit
    ended = plain.get("ended", "deadline" if stopped else "converged")
    if not isinstance(ended, str) or ended not in ENDINGS:
        raise unfit
    fit = plain.get("fit", "least squares")
    if fit not in FITS or (fit == "entropy" and not nonnegative):
        raise unfit
    # Only answers that were made to agree and nothing else can stand in the middle of their intervals.
    if centred and (nonnegative or integer or precision is None):
        raise unfit
    if precision is not None and not (isinstance(precision, float) and precision >= 0):
        raise unfit
    if cells.shape != (n_cells,) or cells.dtype != np.float64 or not np.isfinite(cells).all():
        raise unfit
    if (nonnegative and (cells < 0).any()) or (integer and (cells != np.rint(cells)).any()):
        raise unfit
    return Adjustment(nonnegative, integer, cells, precision, ended, centred, fit)


def has_no_negative_entry(workload: Workload) -> Array:
    """Which queries only add up cells, each with a weight of zero or more, (m,)."""
    return np.concatenate([_of_block(block, workload) for block in workload.blocks])


def _of_block(block: QueryBlock, workload: Workload) -> Array:
    if workload.schema is None or isinstance(block.query, Linear):
        return _of_rows(block.operator)
    parts = []
    for term in block.query.terms(workload.schema):
        mask = np.ones(1, dtype=bool)
        for factor in term:
            mask = np.logical_and.outer(mask, _of_rows(factor.operator)).reshape(-1)
        parts.append(mask)
    return np.concatenate(parts)


def _of_rows(operator: Operator) -> Array:
    if isinstance(operator, _INDICATORS) or (
        isinstance(operator, Padded) and isinstance(operator.inner, _INDICATORS)
    ):
        return np.ones(operator.shape[0], dtype=bool)
    step = max(1, 2**22 // operator.shape[1])
    starts = range(0, operator.shape[0], step)
    ends = [np.arange(start, min(start + step, operator.shape[0])) for start in starts]
    return np.concatenate([(operator.rows(index) >= 0).all(axis=1) for index in ends])
