"""Pictures of one batch of answers: lines, maps, and small multiples of both or of cross tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.operators import Array, CumulativeSum
from leastnoise.query import Factor, Labels
from leastnoise.report.answer_tables import (
    AnswerTable,
    inner,
    is_sequence,
    n_combinations,
    places_by,
    row_names,
    titles_of,
)
from leastnoise.report.batches import (
    MAX_CROSS_COLUMNS,
    MAX_LINES,
    MAX_SUM_LINES,
    AnswerList,
    DrawnView,
    Panel,
    SmallMultiples,
    crossed,
    listed,
    margin_notes,
)
from leastnoise.report.charts.pictures import (
    PANEL,
    Series,
    ShadedMap,
    line_chart,
    shaded_map,
    shades,
    value_range,
)
from leastnoise.report.figures import number

# Points of a line, and of one in a panel.
_MAX_POINTS = 160
_MAX_PANEL_POINTS = 60

# A band of this share of the height is hidden by its line.
_NARROW = 0.005

# Squares of a map, down and across.
_MAX_MAP_ROWS = 60
_MAX_MAP_COLUMNS = 100

# Values of which every range is drawn.
_MAX_RANGE_VALUES = 40

# Panels of small multiples, and squares of all of their maps together.
_MAX_PANELS = 16
_MAX_SQUARES = 6_000

# Rows and columns up to which a panel is a cross table with its numbers.
_MAX_PANEL_ROWS = 24
_MAX_PANEL_COLUMNS = 6

# Characters of a label across from which on it stands down instead, where labels there are shorter.
_LONG_LABEL = 14


# -------------------------------------------------------------------------------- lines


def drawn_lines(table: AnswerTable, factors: Sequence[Factor], sequence: Factor) -> DrawnView:
    """A line along one factor for every combination of the others."""
    others = [factor for factor in factors if factor is not sequence]
    order = places_by(factors, [sequence], others)
    points = _evenly(sequence.labels.length, _MAX_POINTS)
    series = _series(table, others, order[points])
    labels = [sequence.labels[int(i)] for i in points]
    description = _line_description(table, sequence, others)
    notes = _line_notes(table, sequence, len(points))
    numbers = crossed(table, [sequence], others, is_shaded=False, places=order) if others else listed(table)
    names = tuple(line.name for line in series) if others else ()
    return DrawnView(table.name, line_chart(series, labels, description), tuple(notes), numbers, names)


def _series(table: AnswerTable, others: Sequence[Factor], order: Array) -> list[Series]:
    """A line for every column of places."""
    name = row_names(others)
    found = []
    for k, rows in enumerate(order.T):
        own = f"{name(k)}: " if others else ""
        found.append(
            Series(
                name(k) if others else table.name,
                table.answers[rows],
                None if table.lower is None else table.lower[rows],
                None if table.upper is None else table.upper[rows],
                [f"{own}{table.with_interval(int(row))}" for row in rows],
            )
        )
    return found


def _line_description(table: AnswerTable, sequence: Factor, others: Sequence[Factor]) -> str:
    n_lines = n_combinations(others)
    named = f", one line for each of {n_lines} values of {titles_of(others)}" if others else ""
    band = "" if table.lower is None else f" with {table.level:.0%} bands"
    return f"Line chart of {table.described} by {sequence.title}{named}{band}."


def _line_notes(table: AnswerTable, sequence: Factor, n_points: int) -> list[str]:
    is_sum = inner(sequence) is CumulativeSum
    notes = [f"Across: {sequence.title}{', counts of all up to each value' if is_sum else ''}"]
    if table.half is not None:
        narrow = _NARROW * float(np.abs(table.answers).max(initial=0)) > float(table.half.max())
        hidden = ", narrower here than the lines" if narrow else ""
        notes.append(f"the bands are {table.level:.0%} intervals{hidden}")
    n = sequence.labels.length
    return notes if n_points == n else [*notes, f"drawn: {n_points:,} of {n:,} values, evenly spaced"]


def _evenly(n: int, most: int) -> Array:
    """At most that many of n places, evenly spaced, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


# -------------------------------------------------------------------------------- maps


def range_map(table: AnswerTable, factor: Factor) -> DrawnView:
    """Every range of values: where it starts down, where it ends across."""
    assert table.schema is not None
    values = table.schema[factor.attributes[0]]
    n = values.n_values
    chosen = _evenly(n, _MAX_RANGE_VALUES)
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
    description = f"Map of {table.described}: ranges of {factor.title} by start, down, and end, across."
    notes = ["Ranges start at the value on the left and end at the value above; darker is more"]
    if len(chosen) < n:
        notes.append(f"drawn: {len(chosen):,} of {n:,} values, evenly spaced")
    picture = shaded_map(shades(answers), names, names, titles, description)
    return DrawnView(table.name, picture, tuple(notes), listed(table))


def large_map(table: AnswerTable, down: Factor, across: Factor) -> DrawnView:
    """A cross table as shades, one square for each answer."""
    factors = table.factors or ()
    down, across = _long_labels_down(down, across)
    picture, notes = _map_of(table, down, across, places_by(factors, [down], [across]), table.described)
    notes = [*_map_notes(table, down, across, factors), *notes]
    return DrawnView(table.name, picture, tuple(notes), listed(table))


def _map_of(
    table: AnswerTable, down: Factor, across: Factor, places: Array, described: str
) -> tuple[ShadedMap, list[str]]:
    """A map, and what is said of values that are not drawn."""
    rows, said_down = _drawn_values(table, down, _MAX_MAP_ROWS)
    columns, said_across = _drawn_values(table, across, _MAX_MAP_COLUMNS)
    chosen = places[np.ix_(rows, columns)]
    names_down = [down.labels[int(i)] for i in rows]
    names_across = [across.labels[int(j)] for j in columns]
    titles = [
        f"{names_down[i]}, {names_across[j]}: {table.with_interval(int(chosen[i, j]))}"
        for i in range(len(rows))
        for j in range(len(columns))
    ]
    description = f"Map of {described}: {down.title} down, {across.title} across."
    levels = shades(table.answers)[chosen]
    return shaded_map(levels, names_down, names_across, titles, description), [*said_down, *said_across]


def _drawn_values(table: AnswerTable, factor: Factor, most: int) -> tuple[Array, list[str]]:
    """Which values of a factor are drawn, and what is said where not all are: never an average."""
    n = factor.labels.length
    if n <= most:
        return np.arange(n), []
    if is_sequence(factor, table.schema):
        return _evenly(n, most), [f"drawn: {most:,} of {n:,} values of {factor.title}, evenly spaced"]
    return np.arange(most), [f"drawn: the first {most:,} of {n:,} values of {factor.title}"]


def _map_notes(table: AnswerTable, down: Factor, across: Factor, factors: Sequence[Factor]) -> list[str]:
    low, high = (float(end) for end in (table.answers.min(), table.answers.max()))
    ends = " to ".join(number(end, table.decimals) for end in (low, high))
    has_sums = any(inner(factor) is CumulativeSum for factor in factors)
    what = "counts of all up to a value" if has_sums else "counts"
    return [f"Down: {down.title}; across: {across.title}", f"darker is more; {what} from {ends}"]


def _long_labels_down(down: Factor, across: Factor) -> tuple[Factor, Factor]:
    """The same two, the other way round where that lets labels be read."""
    lengths = [_longest(factor.labels) for factor in (down, across)]
    is_turned = lengths[1] > max(lengths[0], _LONG_LABEL) and across.labels.length <= _MAX_MAP_ROWS
    return (across, down) if is_turned else (down, across)


def _longest(labels: Labels) -> int:
    return max(len(labels[int(i)]) for i in _evenly(labels.length, _MAX_MAP_COLUMNS))


# -------------------------------------------------------------------------------- small multiples


def small_multiples(table: AnswerTable, factors: Sequence[Factor], sequence: Factor | None) -> SmallMultiples:
    """A picture of one or two factors for each combination of the others, all on one scale."""
    if sequence is not None:
        lines = _line_factor([factor for factor in factors if factor is not sequence], sequence)
        others = [factor for factor in factors if factor is not sequence and factor is not lines]
        if n_combinations(others) <= _MAX_PANELS:
            return _line_panels(table, sequence, [] if lines is None else [lines], others)
    # The two with the most values are in every panel.
    largest = sorted(factors, key=lambda factor: -factor.labels.length)[:2]
    down, across = (factor for factor in factors if any(factor is one for one in largest))
    others = [factor for factor in factors if factor is not down and factor is not across]
    if across.labels.length > down.labels.length <= _MAX_PANEL_COLUMNS:
        down, across = across, down
    if down.labels.length <= _MAX_PANEL_ROWS and across.labels.length <= _MAX_PANEL_COLUMNS:
        return _table_panels(table, down, across, others)
    return _map_panels(table, *_long_labels_down(down, across), others)


def _line_factor(others: Sequence[Factor], sequence: Factor) -> Factor | None:
    """Which factor has a line for each of its values: the smallest, if that leaves few enough panels."""
    most = MAX_SUM_LINES if inner(sequence) is CumulativeSum else MAX_LINES
    fitting = sorted(
        (factor for factor in others if factor.labels.length <= most), key=lambda f: f.labels.length
    )
    n_all = n_combinations(others)
    few = [factor for factor in fitting if n_all // factor.labels.length <= _MAX_PANELS]
    return next(iter([*few, *fitting]), None)


def _line_panels(
    table: AnswerTable, sequence: Factor, lines: list[Factor], others: list[Factor]
) -> SmallMultiples:
    places = places_by(table.factors or (), others, [sequence], lines)
    points = _evenly(sequence.labels.length, _MAX_PANEL_POINTS)
    labels = [sequence.labels[int(i)] for i in points]
    series = [_series(table, lines, own[points]) for own in places]
    scale = value_range([line for own in series for line in own])
    name = row_names(others)
    description = _line_description(table, sequence, lines)
    panels = [
        Panel(
            name(i),
            line_chart(own, labels, f"{name(i)}. {description}", size=PANEL, scale=scale),
        )
        for i, own in enumerate(series)
    ]
    notes = [*_panel_notes(others, len(panels)), *_lowered(_line_notes(table, sequence, len(points)))]
    legend = tuple(line.name for line in series[0]) if lines else ()
    return SmallMultiples(
        table.name, tuple(panels), tuple(notes), _numbers(table, [sequence], lines, others), legend
    )


def _table_panels(table: AnswerTable, down: Factor, across: Factor, others: list[Factor]) -> SmallMultiples:
    places = places_by(table.factors or (), others, [down], [across])
    n_shown = len(places) if table.is_listed else min(len(places), _MAX_PANELS)
    name = row_names(others)
    panels = [
        Panel(
            name(i),
            crossed(
                table, [down], [across], is_shaded=True, places=places[i], name=f"{table.name}: {name(i)}"
            ),
        )
        for i in range(n_shown)
    ]
    notes = [
        *_panel_notes(others, len(panels)),
        f"down: {down.title}; across: {across.title}",
        "darker is more",
    ]
    return SmallMultiples(table.name, tuple(panels), (*notes, *margin_notes(table)), ())


def _map_panels(table: AnswerTable, down: Factor, across: Factor, others: list[Factor]) -> SmallMultiples:
    factors = table.factors or ()
    places = places_by(factors, others, [down], [across])
    n_squares = min(down.labels.length, _MAX_MAP_ROWS) * min(across.labels.length, _MAX_MAP_COLUMNS)
    n_shown = min(len(places), _MAX_PANELS, max(1, _MAX_SQUARES // n_squares))
    name = row_names(others)
    panels: list[Panel] = []
    cut: list[str] = []
    for i in range(n_shown):
        picture, cut = _map_of(table, down, across, places[i], f"{table.described}, {name(i)}")
        panels.append(Panel(name(i), picture))
    notes = [*_panel_notes(others, n_shown), *_lowered(_map_notes(table, down, across, factors)), *cut]
    return SmallMultiples(table.name, tuple(panels), tuple(notes), _numbers(table, [down], [across], others))


def _lowered(notes: list[str]) -> list[str]:
    """The same notes after others."""
    return [f"{note[0].lower()}{note[1:]}" for note in notes]


def _panel_notes(others: Sequence[Factor], n_shown: int) -> list[str]:
    n = n_combinations(others)
    first = f"; drawn: the first {n_shown:,} of {n:,}" if n_shown < n else ""
    return [f"One for each value of {titles_of(others)}, all on one scale{first}"]


def _numbers(
    table: AnswerTable, down: list[Factor], across: list[Factor], others: list[Factor]
) -> tuple[Panel, ...] | AnswerList:
    """The numbers of all panels: a cross table for each, or the first of one list."""
    if not table.is_listed or not across or n_combinations(across) > MAX_CROSS_COLUMNS:
        return listed(table)
    name = row_names(others)
    places = places_by(table.factors or (), others, down, across)
    return tuple(
        Panel(
            name(i),
            crossed(table, down, across, is_shaded=False, places=own, name=f"{table.name}: {name(i)}"),
        )
        for i, own in enumerate(places)
    )
