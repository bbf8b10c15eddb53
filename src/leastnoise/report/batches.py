"""How one batch of answers is shown: the picture that suits what was asked, and its numbers.

    one count                       a line of text
    few counts                      a table with a bar and an error bar in every row
    values in order                 a line within its band; several where few others are crossed with them
    every range of values           a map: where they start, where they end
    two attributes                  a cross table, shaded; a map where it is large
    three attributes or more        small multiples: a picture of two of them for each value of the others

What is too long is thinned out or cut, never averaged, and the page says so. Views are plain texts and
layouts; `templates/batch.html` makes the page of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leastnoise.core.operators import Array, CumulativeSum, EveryRange
from leastnoise.core.printable import counted
from leastnoise.query import Factor
from leastnoise.report.answer_tables import (
    AnswerTable,
    inner,
    is_sequence,
    n_combinations,
    places_by,
    row_names,
    titles_of,
)
from leastnoise.report.charts.pictures import Bar, LineChart, ShadedMap, bar, shades
from leastnoise.report.figures import number, outward

# Rows up to which all have bars, and rows with bars of a longer list.
_ALL_BARS = 60
_FIRST_BARS = 40

# Rows of a table that is opened by hand, where the page does not list all counts.
MAX_ROWS = 120

# Answers that are shown as bars even where they could be a cross table.
_MAX_PLAIN = 12

# Rows and columns up to which a cross table is shown in full.
_MAX_CROSS_ROWS = 48
MAX_CROSS_COLUMNS = 12

# Lines in one picture: of plain counts, and of sums up to a value, which cross less.
MAX_LINES = 4
MAX_SUM_LINES = 8


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
    """Answers below one another; `all` of them, to open by hand, where these are the first."""

    name: str
    heads: tuple[Head, ...]
    rows: tuple[ListedRow, ...]
    has_bars: bool
    n_shown: str
    counts: str
    is_cut: bool
    all: AnswerList | None = None

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


@dataclass(frozen=True)
class Panel:
    """One of several pictures on one scale: what it is of, and the picture or the table itself."""

    title: str
    content: LineChart | ShadedMap | CrossView


@dataclass(frozen=True)
class SmallMultiples:
    """Pictures or tables beside one another on one scale, and their numbers to open by hand."""

    name: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...]
    numbers: tuple[Panel, ...] | AnswerList
    names: tuple[str, ...] = ()

    kind = "panels"


View = OneCount | AnswerList | CrossView | DrawnView | SmallMultiples


def view_of(table: AnswerTable) -> View:
    """A table of answers as the page shows it."""
    # Here, as pictures need the lists and cross tables of this file.
    from leastnoise.report import batch_pictures as pictures

    if len(table.answers) == 1:
        return one_count(table)
    factors = table.factors or ()
    if len(factors) == 1 and inner(factors[0]) is EveryRange:
        return pictures.range_map(table, factors[0])
    sequence = next((f for f in factors if is_sequence(f, table.schema)), None)
    if sequence is not None and len(factors) < 3:
        n_lines = MAX_SUM_LINES if inner(sequence) is CumulativeSum else MAX_LINES
        if len(table.answers) <= n_lines * sequence.labels.length:
            return pictures.drawn_lines(table, factors, sequence)
    if len(table.answers) <= _MAX_PLAIN or len(factors) < 2:
        return listed(table, has_bars=True)
    if len(factors) > 2:
        return pictures.small_multiples(table, factors, sequence)
    down, across = factors
    if down.labels.length <= _MAX_CROSS_ROWS and across.labels.length <= MAX_CROSS_COLUMNS:
        return crossed(table, [down], [across], is_shaded=True)
    return pictures.large_map(table, down, across)


# -------------------------------------------------------------------------------- tables


def one_count(table: AnswerTable) -> OneCount:
    """A single answer as a line of text."""
    low, high = "", ""
    if table.lower is not None and table.upper is not None:
        low, high = outward(table.lower[0], table.upper[0], table.decimals)
    return OneCount(table.name, number(table.answers[0], table.decimals), low, high, f"{table.level:.0%}")


def listed(table: AnswerTable, *, has_bars: bool = False) -> AnswerList:
    """Answers with their intervals, and a bar in each row where asked for; the first ones of many."""
    n_all = len(table.answers)
    if has_bars:
        n = n_all if n_all <= (_ALL_BARS if table.is_listed else _FIRST_BARS) else _FIRST_BARS
    else:
        n = n_all if table.is_listed else min(n_all, MAX_ROWS)
    # Labels without what heads their column.
    name = row_names(table.factors) if table.factors else lambda j: table.labels[j]
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
    heads = [(titles_of(table.factors) if table.factors else "count", ""), ("answer", "number")]
    if table.lower is not None:
        heads += [(f"{table.level:.0%} from", "number"), ("to", "number")]
    if has_bars:
        heads.append(("", "picture"))
    every = listed(table) if has_bars and n < n_all and table.is_listed else None
    return AnswerList(
        table.name,
        tuple(heads),
        tuple(rows),
        has_bars,
        f"{n:,}",
        counted(n_all, "count"),
        n < n_all,
        every,
    )


def crossed(
    table: AnswerTable,
    down: Sequence[Factor],
    across: Sequence[Factor],
    *,
    is_shaded: bool,
    places: Array | None = None,
    name: str | None = None,
) -> CrossView:
    """Answers with half-widths of their intervals, rows by columns.

    Args:
        places: which answer stands where, (rows, columns), where these are not all of the table.
        name: what it is called, where not like the table.
    """
    if places is None:
        places = places_by(table.factors or (), down, across)
    levels = shades(table.answers)[places] if is_shaded else None
    name_down, name_across = row_names(down), row_names(across)
    n_down, n_across = n_combinations(down), n_combinations(across)
    heads = [(titles_of(down), ""), *((name_across(j), "number") for j in range(n_across))]
    n_shown = n_down if table.is_listed else min(n_down, MAX_ROWS)
    rows = []
    for i in range(n_shown):
        cells = [
            (table.cell(int(places[i, j])), "" if levels is None else f" h{levels[i, j]}")
            for j in range(n_across)
        ]
        rows.append((name_down(i), tuple(cells)))
    notes = [f"Across: {titles_of(across)}", *(["darker is more"] if is_shaded else []), *margin_notes(table)]
    if n_shown < n_down:
        notes.append(f"the first {n_shown:,} of {n_down:,} rows")
    return CrossView(name or table.name, tuple(heads), tuple(rows), tuple(notes), is_shaded)


def margin_notes(table: AnswerTable) -> list[str]:
    """What stands beside answers in a cross table."""
    if table.half is None:
        return []
    sign = "±" if table.is_centred else "what is in brackets"
    notes = [f"{sign} holds the true count with {table.level:.0%} probability"]
    if table.has_finer_cells:
        notes.append("beside an answer with a decimal it is about the answer before it was rounded")
    return notes
