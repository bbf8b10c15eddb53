"""How one batch of answers is shown: the picture that suits what was asked, and its numbers.

    one count                       a line of text
    few counts                      a table with a bar and an error bar in every row
    values in order                 a line within its band; several where few others are crossed with them
    every range of values           a map: where they start, where they end
    tables of two attributes, more  a cross table, shaded; a map where it is large

What is too long is thinned out, averaged or cut, and the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.operators import Array, CumulativeSum, EveryRange, Identity, Padded
from leastnoise.core.printable import counted
from leastnoise.query import Bins, Block, Factor, Integers, Labels, Linear, Schema, in_counts
from leastnoise.report.figures import decimals_for, number, outward, with_margin
from leastnoise.report.markup import Markup, element, joined, paragraph, shortened, table
from leastnoise.report.pictures import Series, bar, legend, lines, shaded_map, shades

# Rows of a table with bars, and of one that is opened by hand.
_MOST_BARS, _MOST_ROWS = 40, 120

# A cross table is shown in full up to so many rows and columns.
_CROSS = (48, 12)

# Lines beside one another: of plain counts, and of sums up to a value, which cross less; and the most points
# that are drawn of one.
_MOST_LINES, _MOST_SUMS, _MOST_POINTS = 4, 8, 160

# The fewest values that make a line: of sums up to a value, which rise smoothly, and of plain counts.
_FEWEST_SUMS, _FEWEST_COUNTS = 6, 16

# A band of this share of the height is hidden by its line.
_NARROW = 0.005

# Squares of a map.
_MAP = (60, 40)

# Products of one batch (the tables of a cube) that are shown one by one.
_MOST_PRODUCTS = 12


@dataclass(frozen=True, eq=False)
class Part:
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

    def told(self, j: int) -> str:
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


def parts_of(
    block: Block,
    schema: Schema | None,
    answers: Array,
    ends: tuple[Array, Array] | None,
    *,
    level: float,
    is_centred: bool,
) -> tuple[list[Part], int]:
    """A batch as one part, or as the tables of a cube; and how many of these are left out."""
    lower, upper = ends or (None, None)
    asked = _half_widths_asked(block, level)
    if schema is None or isinstance(block.query, Linear):
        whole = Part(block.name, None, block.labels, answers, lower, upper, schema, level, is_centred, asked)
        return [whole], 0
    terms = block.query.terms(schema)
    parts, start = [], 0
    for term in terms[:_MOST_PRODUCTS]:
        rows = slice(start, start + math.prod(factor.labels.length for factor in term))
        name = block.name if len(terms) == 1 else " × ".join(factor.title for factor in term) or "everyone"
        parts.append(
            Part(
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
    return parts, len(terms) - len(parts)


def _half_widths_asked(block: Block, level: float) -> Array | None:
    """How far each answer may be off at a level, where targets were given at that level."""
    if block.query.within is None or block.query.within[1] != level:
        return None
    asked = np.array(in_counts(block.query.within[0], block.query.expected), dtype=float)
    return np.broadcast_to(asked, (block.n_rows,))


def shown(part: Part) -> Markup:
    """A part as the page shows it."""
    if len(part.answers) == 1:
        return _one_count(part)
    factors = part.factors or ()
    if len(factors) == 1 and _inner(factors[0]) is EveryRange:
        return _range_map(part, factors[0])
    sequence = next((f for f in factors if _is_in_order(f, part.schema)), None)
    if sequence is not None:
        most = _MOST_SUMS if _inner(sequence) is CumulativeSum else _MOST_LINES
        if len(part.answers) <= most * sequence.labels.length:
            return _drawn_lines(part, factors, sequence)
    if len(part.answers) <= 12 or len(factors) < 2:
        return _with_bars(part)
    shape = (len(part.answers) // factors[-1].labels.length, factors[-1].labels.length)
    if shape[0] <= _CROSS[0] and shape[1] <= _CROSS[1]:
        return _cross_table(part, factors[:-1], factors[-1:], is_shaded=True)
    return _large_map(part, factors)


# -------------------------------------------------------------------------------- what kind of factor


def _inner(factor: Factor) -> type:
    operator = factor.operator
    return type(operator.inner if isinstance(operator, Padded) else operator)


def _is_in_order(factor: Factor, schema: Schema | None) -> bool:
    """Whether the rows of a factor are points along an axis: values of a number, or sums up to them."""
    if len(factor.attributes) > 1 or schema is None:
        return False
    if _inner(factor) is CumulativeSum:
        return factor.labels.length >= _FEWEST_SUMS
    values = schema[factor.attributes[0]]
    is_scale = isinstance(values, (Integers, Bins)) and values.other is None
    return is_scale and _inner(factor) is Identity and factor.labels.length >= _FEWEST_COUNTS


def _has_sums(factors: Sequence[Factor]) -> bool:
    return any(_inner(factor) is CumulativeSum for factor in factors)


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


def _one_count(part: Part) -> Markup:
    figure = element("strong", number(part.answers[0], part.decimals), class_="one")
    if part.lower is None or part.upper is None:
        return element("p", figure)
    low, high = outward(part.lower[0], part.upper[0], part.decimals)
    return element("p", figure, f" with {part.level:.0%} confidence from {low} to {high}")


def _with_bars(part: Part) -> Markup:
    """A table of the first rows with their intervals, and a bar in each."""
    n = min(len(part.answers), _MOST_BARS)
    drawn = [values[:n] for values in (part.answers, part.lower, part.upper) if values is not None]
    low, high = min(0.0, *(float(v.min()) for v in drawn)), max(0.0, *(float(v.max()) for v in drawn))
    rows = []
    for j, cells in enumerate(_numbers(part, n)):
        ends = None if part.lower is None or part.upper is None else (part.lower[j], part.upper[j])
        picture = element("td", bar(part.answers[j], ends, low, high), class_="picture")
        rows.append(element("tr", *cells, picture))
    heads = (*_heads(part), element("th", "", aria_hidden="true"))
    return joined(table(part.name, heads, rows, class_="bars"), _cut(part, n))


def _listed(part: Part, n: int) -> Markup:
    rows = [element("tr", *cells) for cells in _numbers(part, n)]
    return joined(table(part.name, _heads(part), rows), _cut(part, n))


def _numbers(part: Part, n: int) -> Iterator[list[Markup]]:
    """Label, answer and ends of the first n rows, as cells."""
    labels = _short_labels(part)
    for j in range(n):
        figures = [number(part.answers[j], part.decimals)]
        if part.lower is not None and part.upper is not None:
            figures += outward(part.lower[j], part.upper[j], part.decimals)
        cells = [element("td", figure, class_="number") for figure in figures]
        yield [element("th", labels(j), scope="row"), *cells]


def _short_labels(part: Part) -> Callable[[int], str]:
    """Labels without what heads their column."""
    if part.factors:
        return _row_names(part.factors)
    return lambda j: part.labels[j]


def _heads(part: Part) -> list[Markup]:
    names = ["count"] if not part.factors else [_titles(part.factors)]
    heads = [element("th", name, scope="col") for name in names]
    figures = ["answer"] if part.lower is None else ["answer", f"{part.level:.0%} from", "to"]
    return heads + [element("th", figure, scope="col", class_="number") for figure in figures]


def _cut(part: Part, n: int) -> Markup:
    if n == len(part.answers):
        return Markup("")
    return paragraph(f"The first {n:,} of {counted(len(part.answers), 'count')}.", "note")


def _cross_table(
    part: Part,
    down: Sequence[Factor],
    across: Sequence[Factor],
    *,
    is_shaded: bool,
    order: Array | None = None,
) -> Markup:
    """Answers with half-widths of their intervals, rows by columns.

    Args:
        order: which answer stands where, (rows, columns), where that is not the order of the part.
    """
    n_down = math.prod(factor.labels.length for factor in down)
    n_across = math.prod(factor.labels.length for factor in across)
    places = np.arange(n_down * n_across).reshape(n_down, n_across) if order is None else order
    levels = shades(part.answers[places]) if is_shaded else None
    name_down, name_across = _row_names(down), _row_names(across)
    heads = [element("th", _titles(down), scope="col")]
    heads += [element("th", name_across(j), scope="col", class_="number") for j in range(n_across)]
    rows = []
    shown_rows = min(n_down, _MOST_ROWS)
    for i in range(shown_rows):
        shade = [None if levels is None else f" h{levels[i, j]}" for j in range(n_across)]
        cells = [
            element("td", part.cell(int(places[i, j])), class_=f"number{shade[j] or ''}")
            for j in range(n_across)
        ]
        rows.append(element("tr", element("th", name_down(i), scope="row"), *cells))
    notes = [f"Across: {_titles(across)}"]
    if part.half is not None:
        sign = "±" if part.is_centred else "what is in brackets"
        notes.append(f"{sign} holds the true count with {part.level:.0%} probability")
        if part.has_finer_cells:
            notes.append("beside an answer with a decimal it is about the answer before it was rounded")
    if shown_rows < n_down:
        notes.append(f"the first {shown_rows:,} of {n_down:,} rows")
    crossed = table(part.name, heads, rows, class_="cross shaded" if is_shaded else "cross")
    return joined(crossed, paragraph(f"{'; '.join(notes)}.", "note"))


def _opened(what: Markup) -> Markup:
    return element("details", element("summary", "the numbers"), what)


# -------------------------------------------------------------------------------- pictures


def _drawn_lines(part: Part, factors: Sequence[Factor], sequence: Factor) -> Markup:
    """A line along one factor for every combination of the others."""
    place = next(i for i, factor in enumerate(factors) if factor is sequence)
    others = [factor for i, factor in enumerate(factors) if i != place]
    shape = [factor.labels.length for factor in factors]
    order = np.moveaxis(np.arange(len(part.answers)).reshape(shape), place, 0)
    order = order.reshape(sequence.labels.length, -1)
    n, n_lines = order.shape
    points = np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).round().astype(int))
    name = _row_names(others)
    series = []
    for k in range(n_lines):
        rows = order[points, k]
        own = f"{name(k)}: " if others else ""
        series.append(
            Series(
                name(k) if others else part.name,
                part.answers[rows],
                None if part.lower is None else part.lower[rows],
                None if part.upper is None else part.upper[rows],
                [f"{own}{part.told(int(row))}" for row in rows],
            )
        )
    labels = [sequence.labels[int(i)] for i in points]
    named = f", one line for each of {n_lines} values of {_titles(others)}" if others else ""
    band = "" if part.lower is None else f" with {part.level:.0%} bands"
    sums = _inner(sequence) is CumulativeSum
    description = f"Line chart of {shortened(part.name, 60)} by {sequence.title}{named}{band}."
    notes = [f"Across: {sequence.title}{', counts of all up to each value' if sums else ''}"]
    notes += [] if part.half is None else [_band_in_words(part, part.half)]
    if len(points) < n:
        notes.append(f"drawn: {len(points):,} of {n:,} values, evenly spaced")
    numbers = (
        _cross_table(part, [sequence], others, is_shaded=False, order=order)
        if others
        else _listed(part, min(n, _MOST_ROWS))
    )
    return joined(
        legend([line.name for line in series]) if others else "",
        element("figure", lines(series, labels, description), _caption(notes)),
        _opened(numbers),
    )


def _band_in_words(part: Part, half: Array) -> str:
    narrow = _NARROW * float(np.abs(part.answers).max(initial=0)) > float(half.max())
    return f"the bands are {part.level:.0%} intervals" + (", narrower here than the lines" if narrow else "")


def _range_map(part: Part, factor: Factor) -> Markup:
    """Every range of values: where it starts down, where it ends across."""
    assert part.schema is not None
    values = part.schema[factor.attributes[0]]
    n = values.n_values
    chosen = np.unique(np.linspace(0, n - 1, min(n, min(_MAP))).round().astype(int))
    starts, ends = np.meshgrid(chosen, chosen, indexing="ij")
    # Ranges that start before cell i are the n + (n − 1) + … that come first.
    rows = starts * n - starts * (starts - 1) // 2 + (ends - starts)
    is_range = ends >= starts
    answers = np.where(is_range, part.answers[np.where(is_range, rows, 0)], np.nan)
    titles = [
        f"{factor.labels[int(row)]}: {part.told(int(row))}" if inside else ""
        for row, inside in zip(rows.ravel(), is_range.ravel(), strict=True)
    ]
    names = [values.label(int(i)) for i in chosen]
    description = (
        f"Map of {shortened(part.name, 60)}: ranges of {factor.title} by start, down, and end, across."
    )
    notes = ["Ranges start at the value on the left and end at the value above; darker is more"]
    if len(chosen) < n:
        notes.append(f"drawn: {len(chosen):,} of {n:,} values, evenly spaced")
    return joined(
        element("figure", shaded_map(answers, names, names, titles, description), _caption(notes)),
        _opened(_listed(part, min(len(part.answers), _MOST_ROWS))),
    )


def _large_map(part: Part, factors: Sequence[Factor]) -> Markup:
    """A cross table as shades, neighbours averaged where there are more than squares."""
    n_columns = factors[-1].labels.length
    answers = part.answers.reshape(-1, n_columns)
    sides = [-(-n // most) for n, most in zip(answers.shape, _MAP, strict=True)]
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

    def told(i: int, j: int) -> str:
        if is_whole:
            return f"{rows[i]}, {columns[j]}: {part.told(i * n_columns + j)}"
        return f"from {rows[i]}, {columns[j]}: mean {number(means[i, j], part.decimals)}"

    titles = [told(i, j) for i in range(len(rows)) for j in range(len(columns))]
    description = (
        f"Map of {shortened(part.name, 60)}: {_titles(factors[:-1])} down, {factors[-1].title} across."
    )
    ends = " to ".join(number(float(end), part.decimals) for end in (means.min(), means.max()))
    what = "counts of all up to a value" if _has_sums(factors) else "counts"
    notes = [f"Down: {_titles(factors[:-1])}; across: {factors[-1].title}"]
    notes.append(f"darker is more; {what} from {ends}")
    if not is_whole:
        notes.append(f"a square is the mean of up to {sides[0]} by {sides[1]} counts, named by the first")
    return joined(
        element("figure", shaded_map(means, rows, columns, titles, description), _caption(notes)),
        _opened(_listed(part, min(len(part.answers), _MOST_ROWS))),
    )


def _caption(notes: Sequence[str]) -> Markup:
    if not notes:
        return Markup("")
    return element("figcaption", f"{'; '.join(notes)}.")
