"""`plot()` of a release and of a plan.

A release shows its counts with their intervals, a plan its standard errors beside those of plain noise and
its targets. Both are drawn from what reports show, and nothing else is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import InputError, NotYetError
from leastnoise.core.printable import counted
from leastnoise.planning import Plan
from leastnoise.query import Query, RatioQuery
from leastnoise.release import Release
from leastnoise.report import plan_sentences as words
from leastnoise.report.answer_tables import AnswerTable, tables_of
from leastnoise.report.baseline_noise import baselines
from leastnoise.report.charts.canvas import LINE, MARGIN, Canvas, text_width
from leastnoise.report.charts.picture import Picture
from leastnoise.report.charts.pictures import ticks
from leastnoise.report.drawn_tables import draw_table
from leastnoise.report.figures import figure, times
from leastnoise.report.rendering import shortened

# Queries that one picture of a release shows, and tables of them together; others are named.
_MAX_QUERIES = 8
_MAX_TABLES = 12

# Batches of a plan that are drawn.
_MAX_BATCHES = 40

# Characters of the name of a batch.
_MAX_NAME = 34


# -------------------------------------------------------------------------------- releases


def plot_release(release: Release, query: str | Query | None, level: float) -> Picture:
    """The answers to one query, or to the first of all of them, with their intervals.

    Raises:
        InputError: if `level` is no probability.
        QueryError: if there is no query of that name, or the plan does not answer it.
        NotYetError: for all answers of a release in blocks.
    """
    if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InputError.must("level", "lie between 0 and 1, as in 0.95", given=level)
    if query is None and release.is_in_blocks:
        raise NotYetError(
            "a release in blocks has too many answers for one picture",
            field="query",
            remedy="name a table, as in release.plot(Marginal('age'))",
        )
    if query is not None and not isinstance(query, (str, Query)):
        raise InputError.must(
            "query", "be the name of a query or a query such as Marginal('age')", given=type(query)
        )
    names = list(release)
    asked: Sequence[str | Query] = names[:_MAX_QUERIES] if query is None else [query]
    canvas = Canvas()
    if len(asked) > 1:
        canvas.heading(f"{counted(len(names), 'table')} with {level:.0%} intervals", large=True)
    n_tables = 0
    for one in asked:
        if n_tables >= _MAX_TABLES:
            break
        tables, n_left = _tables(release, one, level)
        room = _MAX_TABLES - n_tables
        for table in tables[:room]:
            draw_table(canvas, table)
        n_tables += len(tables)
        n_left += max(0, len(tables) - room)
        if n_left:
            canvas.paragraph(f"{counted(n_left, 'further table')} of this query not drawn.")
    for note in _release_notes(release, names[len(asked) :] if query is None else []):
        canvas.paragraph(note)
    title = "Answers of a release" if len(asked) > 1 else _title(asked[0])
    return canvas.to_picture(title)


def _title(query: str | Query) -> str:
    return query if isinstance(query, str) else query.name or query.title()


def _release_notes(release: Release, others: Sequence[str]) -> list[str]:
    """What readers of the picture must know, and what it leaves out."""
    notes = [f"Warning: {sentence}." for sentence in release.warnings]
    # A picture is shown by itself: what was not counted stands nowhere else.
    whom = words.of_the_counted(release)
    notes += [f"Answers are{whom[1:]}."] if whom else []
    notes += [how.statement() for how in (release.adjusted, release.presented) if how is not None]
    if others:
        shown = ", ".join(repr(shortened(name, _MAX_NAME)) for name in others[:6])
        more = ", …" if len(others) > 6 else ""
        notes.append(f"Not drawn: {shown}{more}; release.plot(name) draws each.")
    return notes


def _tables(release: Release, query: str | Query, level: float) -> tuple[list[AnswerTable], int]:
    """The tables of one query as they are presented, and how many are left out."""
    _, labels, columns = release.columns_of(query, level)
    workload = release.plan.workload
    is_ratio = isinstance(query, RatioQuery) or (isinstance(query, str) and workload.ratio(query) is not None)
    answers = np.asarray(columns["estimate" if is_ratio else "answer"], dtype=float)
    ends = (columns["lower"], columns["upper"]) if "lower" in columns else None
    if is_ratio or not np.isfinite(answers).all():
        # Ratios are no product of factors, and what is left out has no place on a line or in a shade.
        lower, upper = ends or (None, None)
        return [AnswerTable(_title(query), None, labels, answers, lower, upper, None, level, False)], 0
    one = workload.only(query) if isinstance(query, str) else release.plan.asked(query)
    (block,) = one.blocks
    is_centred = release.is_centred and (release.presented is None or release.presented.round_to is None)
    return tables_of(
        block, workload.schema, answers, ends, level=level, is_centred=is_centred, is_listed=False
    )


# -------------------------------------------------------------------------------- plans


# What the bars of a plan are.
_WAYS = ("this plan", "noise on each count", "noise on each cell, added up")

# Height of a bar, and of the bars of one batch with the room below.
_BAR = 9
_BATCH = 3 * _BAR + 13


def plot_plan(plan: Plan) -> Picture:
    """Standard errors of every batch: of the plan, of plain noise on each count and on each cell.

    Raises:
        MethodError: where they depend on the data.
    """
    plan.fixed_strategy()
    simple, spreads = baselines(plan), plan.spreads or []
    blocks = plan.workload.blocks[:_MAX_BATCHES]
    trios = [
        (math.sqrt(spread.mean_square), count, cell)
        for spread, count, cell in zip(spreads, simple.per_count.rms, simple.per_cell.rms, strict=True)
    ][:_MAX_BATCHES]
    targets = [float(block.targets.min()) for block in blocks]
    names = [shortened(block.name, _MAX_NAME) for block in blocks]
    title = "Standard errors of this plan and of plain noise"
    canvas = Canvas()
    canvas.heading(title, large=True)
    canvas.paragraph(f"All with the same privacy: {plan.privacy}. Shorter is better.")
    canvas.legend(_WAYS, "way")
    left = MARGIN + max(map(text_width, names)) + 10
    wide = max(240.0, canvas.width - left - 90 - MARGIN)
    canvas.widen(left + wide + 90)
    shown = [value for trio in trios for value in trio] + targets + [s.high for s in spreads[:_MAX_BATCHES]]
    marks = ticks(0.0, max(filter(math.isfinite, shown)), 5)
    unit = wide / marks[-1]
    top = canvas.y + LINE + 4
    for mark in marks:
        x = left + mark * unit
        canvas.path(f"M{x:.1f} {top:.1f}v{_BATCH * len(blocks)}", "axis" if mark == 0 else "grid")
    canvas.scale_texts([(left + mark * unit, f"{mark:,.10g}") for mark in marks], top - 4)
    for place, (name, trio, target) in enumerate(zip(names, trios, targets, strict=True)):
        y = top + 5 + _BATCH * place
        canvas.text(left - 8, y + 1.5 * _BAR + 4, name, "plain", "end")
        _draw_errors(canvas, name, (*trio, spreads[place].high, target), left, y, unit)
        canvas.text(left + wide + 10, y + 8, figure(trio[0]), "plain")
        canvas.text(left + wide + 10, y + 2 * _BAR + 6, times(trio[0], min(trio[1:])))
    canvas.y = top + _BATCH * len(blocks) + 4
    for note in _plan_notes(plan, targets, len(blocks), is_bound=simple.per_count.is_bound):
        canvas.paragraph(note)
    return canvas.to_picture(title)


def _draw_errors(
    canvas: Canvas, name: str, values: Sequence[float], left: float, y: float, unit: float
) -> None:
    """The bars of one batch: three root mean squares; then a line to the largest, and the target."""
    *rms, largest, target = values
    for number, (way, value) in enumerate(zip(_WAYS, rms, strict=True)):
        # What has no end has no bar.
        if math.isfinite(value):
            said = f"{name}, {way}: {figure(value)}"
            canvas.box(left, y + _BAR * number, value * unit, _BAR - 1, f"way s{number + 1}", said)
    canvas.path(f"M{left + rms[0] * unit:.1f} {y + 4:.1f}H{left + largest * unit:.1f}m0 -3v6", "error")
    if math.isfinite(target):
        canvas.path(f"M{left + target * unit:.1f} {y - 3:.1f}v{3 * _BAR + 5}", "target")


def _plan_notes(plan: Plan, targets: Sequence[float], n_drawn: int, *, is_bound: bool) -> list[str]:
    """How to read the picture, and what it leaves out."""
    notes = [
        "Bars are root mean squares over the counts of a query; the black line leads to the largest. To the "
        "right: that of this plan, and how many times as much the better of the other two has."
    ]
    if any(map(math.isfinite, targets)):
        kept = words.targets_kept(plan)
        notes.append(f"Brown: the target of a query, its narrowest.{'' if kept is None else f' {kept}'}")
    if is_bound:
        notes.append("Noise on each count may have less than is drawn: only a bound on it is known.")
    n_left = len(plan.workload.blocks) - n_drawn
    if n_left:
        notes.append(f"{counted(n_left, 'further table')} not drawn.")
    return notes
