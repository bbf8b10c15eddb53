"""Answers that belong together: a batch as one table, or as the tables of a cube."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.operators import Array, CumulativeSum, Identity, Padded
from leastnoise.query import Bins, Factor, Integers, Labels, Linear, Periods, QueryBlock, Schema, in_counts
from leastnoise.report.figures import decimals_for, number, outward, with_margin
from leastnoise.report.rendering import shortened

# Tables of a cube that are shown one by one where the page does not list all of its counts.
_MAX_TABLES = 12

# Values from which on there is a line: of sums up to a value, which rise smoothly, and of plain counts.
_MIN_SUMS = 6
_MIN_COUNTS = 16

# Characters of a name in the description of a picture.
_MAX_DESCRIBED_NAME = 60


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers that belong together: a batch, or one table of a cube.

    Attributes:
        factors: what was crossed, None where it is no product; factors of a single row are left out.
        lower: the lower ends of the intervals, None where errors are not known; so is `upper`.
        is_centred: whether answers lie in the middle of their intervals; adjusted ones may lie outside.
        asked: the half-widths that were asked for at this level; None where none were.
        is_listed: whether the page lists every answer.
    """

    name: str
    factors: tuple[Factor, ...] | None
    labels: Labels
    answers: Array
    lower: Array | None
    upper: Array | None
    schema: Schema | None
    level: float
    is_centred: bool
    asked: Array | None = None
    is_listed: bool = False

    @cached_property
    def half(self) -> Array | None:
        """Half-widths of the intervals."""
        return None if self.upper is None or self.lower is None else (self.upper - self.lower) / 2

    @cached_property
    def decimals(self) -> int:
        """How many are worth showing."""
        return 0 if self.half is None else decimals_for(self.half)

    @cached_property
    def has_finer_cells(self) -> bool:
        """Whether some answer is shown with a digit more, so that an accuracy that is kept looks kept."""
        if self.half is None or self.asked is None or not self.is_centred:
            return False
        unit = 10.0**-self.decimals
        rounded_up = np.ceil(self.half / unit + 0.5) * unit
        return bool(((self.half > 0) & (self.half <= self.asked) & (self.asked < rounded_up)).any())

    @property
    def described(self) -> str:
        """Its name in the description of a picture."""
        return shortened(self.name, _MAX_DESCRIBED_NAME)

    def with_interval(self, j: int) -> str:
        """Answer j with its interval, in a few words."""
        if self.lower is None or self.upper is None:
            return number(self.answers[j], self.decimals)
        low, high = outward(self.lower[j], self.upper[j], self.decimals)
        return f"{number(self.answers[j], self.decimals)} ({self.level:.0%}: {low} to {high})"

    def cell(self, j: int) -> str:
        """Answer j with its interval, as short as can be."""
        answer = number(self.answers[j], self.decimals)
        if self.half is None or self.lower is None or self.upper is None:
            return answer
        if self.is_centred:
            asked = None if self.asked is None else float(self.asked[j])
            return with_margin(self.answers[j], self.half[j], self.decimals, asked)
        return f"{answer} ({' to '.join(outward(self.lower[j], self.upper[j], self.decimals))})"


def tables_of(
    block: QueryBlock,
    schema: Schema | None,
    answers: Array,
    ends: tuple[Array, Array] | None,
    *,
    level: float,
    is_centred: bool,
    is_listed: bool,
) -> tuple[list[AnswerTable], int]:
    """A batch as one table, or as those of a cube; and how many of these are left out."""
    lower, upper = ends or (None, None)
    asked = half_widths_asked(block, level)
    if schema is None or isinstance(block.query, Linear):
        whole = AnswerTable(
            block.name, None, block.labels, answers, lower, upper, schema, level, is_centred, asked, is_listed
        )
        return [whole], 0
    terms = block.query.terms(schema)
    tables, start = [], 0
    for term in terms if is_listed else terms[:_MAX_TABLES]:
        rows = slice(start, start + math.prod(factor.labels.length for factor in term))
        name = block.name if len(terms) == 1 else " × ".join(factor.title for factor in term) or "everyone"
        tables.append(
            AnswerTable(
                name,
                tuple(factor for factor in term if factor.labels.length > 1),
                block.labels[rows],
                answers[rows],
                None if lower is None else lower[rows],
                None if upper is None else upper[rows],
                schema,
                level,
                is_centred,
                None if asked is None else asked[rows],
                is_listed,
            )
        )
        start = rows.stop
    return tables, len(terms) - len(tables)


def half_widths_asked(block: QueryBlock, level: float) -> Array | None:
    """How far each answer may be off at a level, where targets were given at that level."""
    asked_within = block.query.half_width
    if asked_within is None or asked_within[1] != level:
        return None
    asked = np.array(in_counts(asked_within[0], block.query.expected), dtype=float)
    return np.broadcast_to(asked, (block.n_rows,))


def inner(factor: Factor) -> type:
    """What kind of rows a factor has."""
    operator = factor.operator
    return type(operator.inner if isinstance(operator, Padded) else operator)


def is_sequence(factor: Factor, schema: Schema | None) -> bool:
    """Whether the rows of a factor are points along an axis: values of a number, or sums up to them."""
    if len(factor.attributes) > 1 or schema is None:
        return False
    if inner(factor) is CumulativeSum:
        return factor.labels.length >= _MIN_SUMS
    values = schema[factor.attributes[0]]
    is_scale = isinstance(values, (Integers, Bins, Periods)) and values.other is None
    return is_scale and inner(factor) is Identity and factor.labels.length >= _MIN_COUNTS


def row_names(factors: Sequence[Factor]) -> Callable[[int], str]:
    """What combination i of some factors is called."""

    def name(i: int) -> str:
        named = []
        for factor in reversed(factors):
            i, j = divmod(i, factor.labels.length)
            named.append(factor.labels[j])
        return ", ".join(reversed(named))

    return name


def titles_of(factors: Sequence[Factor]) -> str:
    """What some factors are called together."""
    return ", ".join(factor.title for factor in factors)


def n_combinations(factors: Sequence[Factor]) -> int:
    """How many rows some factors have together."""
    return math.prod(factor.labels.length for factor in factors)


def places_by(factors: Sequence[Factor], *groups: Sequence[Factor]) -> Array:
    """Which answer stands where: an axis for each group of factors, in the order of the groups.

    Args:
        factors: those of the table, in its own order; each is in one of the groups.
    """
    chosen = [factor for group in groups for factor in group]
    order = [next(i for i, own in enumerate(factors) if own is factor) for factor in chosen]
    shape = [factor.labels.length for factor in factors]
    places = np.arange(math.prod(shape)).reshape(shape).transpose(order)
    return places.reshape([n_combinations(group) for group in groups])
