"""How one batch of answers is shown: the picture that suits what was asked, and its numbers.

    one count                       a line of text
    few counts                      a table with a bar and an error bar in every row
    values in order                 a line within its band; several where few others are crossed with them
    every range of values           a map: where they start, where they end
    tables of two attributes, more  a cross table, shaded; a map where it is large

What is too long is thinned out, averaged or cut, and the page says so. Views are plain texts and layouts;
`templates/batch.html` makes the page of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.operators import Array, CumulativeSum, EveryRange, Identity, Padded
from leastnoise.core.printable import counted
from leastnoise.query import Bins, Factor, Integers, Labels, Linear, Periods, QueryBlock, Schema, in_counts
from leastnoise.report.charts.pictures import (
    Bar,
    LineChart,
    Series,
    ShadedMap,
    bar,
    line_chart,
    shaded_map,
    shades,
)
from leastnoise.report.figures import decimals_for, number, outward, with_margin
from leastnoise.report.rendering import shortened

# Rows of a table with bars.
_MAX_BARS = 40

# Rows of a table that is opened by hand.
_MAX_ROWS = 120

# Answers that are shown as bars even where they could be a cross table.
_MAX_PLAIN = 12

# Rows and columns up to which a cross table is shown in full.
_MAX_CROSS_ROWS = 48
_MAX_CROSS_COLUMNS = 12

# Lines in one picture: of plain counts, and of sums up to a value, which cross less.
_MAX_LINES = 4
_MAX_SUM_LINES = 8

# Points of a line.
_MAX_POINTS = 160

# Values from which on there is a line: of sums up to a value, which rise smoothly, and of plain counts.
_MIN_SUMS = 6
_MIN_COUNTS = 16

# A band of this share of the height is hidden by its line.
_NARROW = 0.005

# Squares of a map, down and across.
_MAX_MAP_ROWS = 60
_MAX_MAP_COLUMNS = 40

# Tables of a cube that are shown one by one.
_MAX_TABLES = 12

# Characters of a name in the description of a picture, and in a legend.
_MAX_DESCRIBED_NAME = 60
_MAX_LEGEND_NAME = 40


# What a column is headed with, and its class in the style of the page.
Head = tuple[str, str]


@dataclass(frozen=True)
class OneCount:
    """A single answer; no ends where its error is not known."""

    name: str
    answer: str
    low: str
    high: str
    level: str

    kind = "one"


@dataclass(frozen=True)
class ListedRow:
    """A row of a list: its label, the answer with the ends of its interval, and its bar if it has one."""

    label: str
    figures: tuple[str, ...]
    bar: Bar | None = None


@dataclass(frozen=True)
class AnswerList:
    """Answers below one another."""

    name: str
    heads: tuple[Head, ...]
    rows: tuple[ListedRow, ...]
    has_bars: bool
    n_shown: str
    counts: str
    is_cut: bool

    kind = "list"


@dataclass(frozen=True)
class CrossView:
    """Answers in rows and columns: a label and cells for each row, a text and a shade for each cell."""

    name: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notes: tuple[str, ...]
    is_shaded: bool

    kind = "cross"


@dataclass(frozen=True)
class DrawnView:
    """A picture with its legend and notes, and the numbers to open by hand."""

    name: str
    picture: LineChart | ShadedMap
    notes: tuple[str, ...]
    numbers: AnswerList | CrossView
    names: tuple[str, ...] = ()

    kind = "drawn"


View = OneCount | AnswerList | CrossView | DrawnView


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers that belong together: a batch, or one table of a cube.

    Attributes:
        factors: what was crossed, None where it is no product; factors of a single row are left out.
        lower: the lower ends of the intervals, None where errors are not known; so is `upper`.
        is_centred: whether answers lie in the middle of their intervals; adjusted ones may lie outside.
        asked: the half-widths that were asked for at this level; None where none were.
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
) -> tuple[list[AnswerTable], int]:
    """A batch as one table, or as those of a cube; and how many of these are left out."""
    lower, upper = ends or (None, None)
    asked = _half_widths_asked(block, level)
    if schema is None or isinstance(block.query, Linear):
        whole = AnswerTable(
            block.name, None, block.labels, answers, lower, upper, schema, level, is_centred, asked
        )
        return [whole], 0
    terms = block.query.terms(schema)
    tables, start = [], 0
    for term in terms[:_MAX_TABLES]:
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
            )
        )
        start = rows.stop
    return tables, len(terms) - len(tables)


def _half_widths_asked(block: QueryBlock, level: float) -> Array | None:
    """How far each answer may be off at a level, where targets were given at that level."""
    asked_within = block.query.half_width
    if asked_within is None or asked_within[1] != level:
        return None
    asked = np.array(in_counts(asked_within[0], block.query.expected), dtype=float)
    return np.broadcast_to(asked, (block.n_rows,))


def view_of(table: AnswerTable) -> View:
    """A table of answers as the page shows it."""
    if len(table.answers) == 1:
        return _one_count(table)
    factors = table.factors or ()
    if len(factors) == 1 and _inner(factors[0]) is EveryRange:
        return _range_map(table, factors[0])
    sequence = next((f for f in factors if _is_in_order(f, table.schema)), None)
    if sequence is not None:
        n_lines = _MAX_SUM_LINES if _inner(sequence) is CumulativeSum else _MAX_LINES
        if len(table.answers) <= n_lines * sequence.labels.length:
            return _drawn_lines(table, factors, sequence)
    if len(table.answers) <= _MAX_PLAIN or len(factors) < 2:
        return _listed(table, _MAX_BARS, has_bars=True)
    n_columns = factors[-1].labels.length
    if len(table.answers) // n_columns <= _MAX_CROSS_ROWS and n_columns <= _MAX_CROSS_COLUMNS:
        return _crossed(table, factors[:-1], factors[-1:], is_shaded=True)
    return _large_map(table, factors)


def _inner(factor: Factor) -> type:
    operator = factor.operator
    return type(operator.inner if isinstance(operator, Padded) else operator)


def _is_in_order(factor: Factor, schema: Schema | None) -> bool:
    """Whether the rows of a factor are points along an axis: values of a number, or sums up to them."""
    if len(factor.attributes) > 1 or schema is None:
        return False
    if _inner(factor) is CumulativeSum:
        return factor.labels.length >= _MIN_SUMS
    values = schema[factor.attributes[0]]
    is_scale = isinstance(values, (Integers, Bins, Periods)) and values.other is None
    return is_scale and _inner(factor) is Identity and factor.labels.length >= _MIN_COUNTS


def _row_names(factors: Sequence[Factor]) -> Callable[[int], str]:
    """What combination i of some factors is called."""

    def name(i: int) -> str:
        named = []
        for factor in reversed(factors):
            i, j = divmod(i, factor.labels.length)
            named.append(factor.labels[j])
        return ", ".join(reversed(named))

    return name


def _titles(factors: Sequence[Factor]) -> str:
    return ", ".join(factor.title for factor in factors)


# -------------------------------------------------------------------------------- tables


def _one_count(table: AnswerTable) -> OneCount:
    low, high = "", ""
    if table.lower is not None and table.upper is not None:
        low, high = outward(table.lower[0], table.upper[0], table.decimals)
    return OneCount(table.name, number(table.answers[0], table.decimals), low, high, f"{table.level:.0%}")


def _listed(table: AnswerTable, n_most: int, *, has_bars: bool = False) -> AnswerList:
    """The first rows with their intervals, and a bar in each where asked for."""
    n = min(len(table.answers), n_most)
    # Labels without what heads their column.
    name = _row_names(table.factors) if table.factors else lambda j: table.labels[j]
    drawn = [values[:n] for values in (table.answers, table.lower, table.upper) if values is not None]
    low, high = min(0.0, *(float(v.min()) for v in drawn)), max(0.0, *(float(v.max()) for v in drawn))
    rows = []
    for j in range(n):
        figures = [number(table.answers[j], table.decimals)]
        ends = None
        if table.lower is not None and table.upper is not None:
            ends = (table.lower[j], table.upper[j])
            figures += outward(*ends, table.decimals)
        drawn_bar = bar(table.answers[j], ends, low, high) if has_bars else None
        rows.append(ListedRow(name(j), tuple(figures), drawn_bar))
    heads = [(_titles(table.factors) if table.factors else "count", ""), ("answer", "number")]
    if table.lower is not None:
        heads += [(f"{table.level:.0%} from", "number"), ("to", "number")]
    if has_bars:
        heads.append(("", "picture"))
    counts = counted(len(table.answers), "count")
    is_cut = n < len(table.answers)
    return AnswerList(table.name, tuple(heads), tuple(rows), has_bars, f"{n:,}", counts, is_cut)


def _crossed(
    table: AnswerTable,
    down: Sequence[Factor],
    across: Sequence[Factor],
    *,
    is_shaded: bool,
    order: Array | None = None,
) -> CrossView:
    """Answers with half-widths of their intervals, rows by columns.

    Args:
        order: which answer stands where, (rows, columns), where that is not the order of the table.
    """
    n_down = math.prod(factor.labels.length for factor in down)
    n_across = math.prod(factor.labels.length for factor in across)
    places = np.arange(n_down * n_across).reshape(n_down, n_across) if order is None else order
    levels = shades(table.answers[places]) if is_shaded else None
    name_down, name_across = _row_names(down), _row_names(across)
    heads = [(_titles(down), ""), *((name_across(j), "number") for j in range(n_across))]
    n_shown = min(n_down, _MAX_ROWS)
    rows = []
    for i in range(n_shown):
        cells = [
            (table.cell(int(places[i, j])), "" if levels is None else f" h{levels[i, j]}")
            for j in range(n_across)
        ]
        rows.append((name_down(i), tuple(cells)))
    notes = [f"Across: {_titles(across)}"]
    if table.half is not None:
        sign = "±" if table.is_centred else "what is in brackets"
        notes.append(f"{sign} holds the true count with {table.level:.0%} probability")
        if table.has_finer_cells:
            notes.append("beside an answer with a decimal it is about the answer before it was rounded")
    if n_shown < n_down:
        notes.append(f"the first {n_shown:,} of {n_down:,} rows")
    return CrossView(table.name, tuple(heads), tuple(rows), tuple(notes), is_shaded)


# -------------------------------------------------------------------------------- pictures


def _drawn_lines(table: AnswerTable, factors: Sequence[Factor], sequence: Factor) -> DrawnView:
    """A line along one factor for every combination of the others."""
    place = next(i for i, factor in enumerate(factors) if factor is sequence)
    others = [factor for i, factor in enumerate(factors) if i != place]
    shape = [factor.labels.length for factor in factors]
    order = np.moveaxis(np.arange(len(table.answers)).reshape(shape), place, 0)
    order = order.reshape(sequence.labels.length, -1)
    n, n_lines = order.shape
    points = np.unique(np.linspace(0, n - 1, min(n, _MAX_POINTS)).round().astype(int))
    name = _row_names(others)
    series = []
    for k in range(n_lines):
        rows = order[points, k]
        own = f"{name(k)}: " if others else ""
        series.append(
            Series(
                name(k) if others else table.name,
                table.answers[rows],
                None if table.lower is None else table.lower[rows],
                None if table.upper is None else table.upper[rows],
                [f"{own}{table.with_interval(int(row))}" for row in rows],
            )
        )
    labels = [sequence.labels[int(i)] for i in points]
    named = f", one line for each of {n_lines} values of {_titles(others)}" if others else ""
    band = "" if table.lower is None else f" with {table.level:.0%} bands"
    sums = _inner(sequence) is CumulativeSum
    description = f"Line chart of {_described(table)} by {sequence.title}{named}{band}."
    notes = [f"Across: {sequence.title}{', counts of all up to each value' if sums else ''}"]
    notes += [] if table.half is None else [_band_note(table, table.half)]
    if len(points) < n:
        notes.append(f"drawn: {len(points):,} of {n:,} values, evenly spaced")
    numbers: AnswerList | CrossView = (
        _crossed(table, [sequence], others, is_shaded=False, order=order)
        if others
        else _listed(table, _MAX_ROWS)
    )
    names = tuple(shortened(line.name, _MAX_LEGEND_NAME) for line in series) if others else ()
    return DrawnView(table.name, line_chart(series, labels, description), tuple(notes), numbers, names)


def _band_note(table: AnswerTable, half: Array) -> str:
    narrow = _NARROW * float(np.abs(table.answers).max(initial=0)) > float(half.max())
    return f"the bands are {table.level:.0%} intervals" + (", narrower here than the lines" if narrow else "")


def _range_map(table: AnswerTable, factor: Factor) -> DrawnView:
    """Every range of values: where it starts down, where it ends across."""
    assert table.schema is not None
    values = table.schema[factor.attributes[0]]
    n = values.n_values
    n_chosen = min(n, _MAX_MAP_ROWS, _MAX_MAP_COLUMNS)
    chosen = np.unique(np.linspace(0, n - 1, n_chosen).round().astype(int))
    starts, ends = np.meshgrid(chosen, chosen, indexing="ij")
    # Ranges that start before cell i are the n + (n − 1) + … that come first.
    rows = starts * n - starts * (starts - 1) // 2 + (ends - starts)
    is_range = ends >= starts
    answers = np.where(is_range, table.answers[np.where(is_range, rows, 0)], np.nan)
    titles = [
        f"{factor.labels[int(row)]}: {table.with_interval(int(row))}" if inside else ""
        for row, inside in zip(rows.ravel(), is_range.ravel(), strict=True)
    ]
    names = [values.label(int(i)) for i in chosen]
    description = f"Map of {_described(table)}: ranges of {factor.title} by start, down, and end, across."
    notes = ["Ranges start at the value on the left and end at the value above; darker is more"]
    if len(chosen) < n:
        notes.append(f"drawn: {len(chosen):,} of {n:,} values, evenly spaced")
    picture = shaded_map(answers, names, names, titles, description)
    return DrawnView(table.name, picture, tuple(notes), _listed(table, _MAX_ROWS))


def _large_map(table: AnswerTable, factors: Sequence[Factor]) -> DrawnView:
    """A cross table as shades, neighbours averaged where there are more than squares."""
    n_columns = factors[-1].labels.length
    answers = table.answers.reshape(-1, n_columns)
    most = (_MAX_MAP_ROWS, _MAX_MAP_COLUMNS)
    sides = [-(-n // n_most) for n, n_most in zip(answers.shape, most, strict=True)]
    means = answers
    for axis, side in enumerate(sides):
        starts = np.arange(0, answers.shape[axis], side)
        sums = np.add.reduceat(means, starts, axis=axis)
        lengths = np.minimum(starts + side, answers.shape[axis]) - starts
        means = sums / (lengths[:, None] if axis == 0 else lengths)
    down, across = _row_names(factors[:-1]), _row_names(factors[-1:])
    rows = [down(i * sides[0]) for i in range(means.shape[0])]
    columns = [across(j * sides[1]) for j in range(means.shape[1])]
    is_whole = sides == [1, 1]

    def title(i: int, j: int) -> str:
        if is_whole:
            return f"{rows[i]}, {columns[j]}: {table.with_interval(i * n_columns + j)}"
        return f"from {rows[i]}, {columns[j]}: mean {number(means[i, j], table.decimals)}"

    titles = [title(i, j) for i in range(len(rows)) for j in range(len(columns))]
    description = f"Map of {_described(table)}: {_titles(factors[:-1])} down, {factors[-1].title} across."
    ends = " to ".join(number(float(end), table.decimals) for end in (means.min(), means.max()))
    has_sums = any(_inner(factor) is CumulativeSum for factor in factors)
    what = "counts of all up to a value" if has_sums else "counts"
    notes = [f"Down: {_titles(factors[:-1])}; across: {factors[-1].title}"]
    notes.append(f"darker is more; {what} from {ends}")
    if not is_whole:
        notes.append(f"a square is the mean of up to {sides[0]} by {sides[1]} counts, named by the first")
    picture = shaded_map(means, rows, columns, titles, description)
    return DrawnView(table.name, picture, tuple(notes), _listed(table, _MAX_ROWS))


def _described(table: AnswerTable) -> str:
    """The name of a table in the description of its picture."""
    return shortened(table.name, _MAX_DESCRIBED_NAME)
