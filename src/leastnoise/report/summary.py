"""A report on a plan or a release: as text, or as one page."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError, NotYetError
from leastnoise.core.look_alikes import escaped
from leastnoise.core.notebook import NotebookValue, html_text
from leastnoise.core.operators import Array
from leastnoise.core.printable import counted, printable
from leastnoise.core.progress import ending_to_text
from leastnoise.core.whole_file import written_whole
from leastnoise.planning import Plan, period_labels, trials_to_text
from leastnoise.query import QueryBlock
from leastnoise.release import RELIABLE, SUPPRESSED, Release
from leastnoise.report import plan_sentences as words
from leastnoise.report.figures import decimals_for, number, outward
from leastnoise.report.publication import Publication

# Answers of a batch up to which all are shown.
_MAX_SHOWN = 12

# Answers that are shown of a longer batch.
_FIRST_SHOWN = 6

# Confidence of every interval of a report.
LEVEL = 0.95

# Characters of a line at which sentences are wrapped.
_WIDTH = 100

# Height of the frame in which a notebook shows a page, in pixels.
_FRAME_HEIGHT = 600


@dataclass(frozen=True, eq=False)
class Report(NotebookValue):
    """A summary of a plan or a release; prints itself.

    Attributes:
        subject: the plan or the release that it is about.
        publication: what the publisher says about it; None for nothing.
    """

    subject: Plan | Release
    publication: Publication | None = None

    def text(self) -> str:
        """The summary as plain text."""
        said = publication_text(self.publication)
        if isinstance(self.subject, Release):
            return said + release_text(self.subject)
        return said + plan_text(self.subject)

    def html(self) -> str:
        """The summary as one HTML page: no script, nothing loaded from anywhere."""
        # Here, so that importing the library stays quick: most of its users draw no page.
        from leastnoise.report.page import page

        if isinstance(self.subject, Release) and self.subject.is_in_blocks:
            raise NotYetError(
                "a release in blocks has no page; its text says the same",
                field="subject",
                remedy="summarize(release).text()",
            )
        return page(self.subject, self.publication)

    def _repr_html_(self) -> str:
        if isinstance(self.subject, Release) and self.subject.is_in_blocks:
            return html_text(self.text())
        # The frame may run nothing, and the page has no script.
        return (
            f'<iframe sandbox title="report" style="width:100%;height:{_FRAME_HEIGHT}px;border:0" '
            f'srcdoc="{escape(self.html())}"></iframe>'
        )

    def to_html(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all; returns the path.

        The page holds tables and charts, fits screens and paper, light and dark, and loads nothing from
        elsewhere. It depends on the plan or the release alone: the same file gives the same bytes.

        Args:
            path: the file to write; an existing one is replaced.
        """
        target = Path(path)
        content = self.html()
        with written_whole(target) as temporary:
            temporary.write_bytes(content.encode("utf-8"))
        return target

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Report({self.subject!r})"


def summarize(subject: Release | Plan, publication: Publication | None = None) -> Report:
    """A report on a release or a plan: print it, or use `.text()` or `.to_html(path)`.

    Args:
        subject: the release or the plan.
        publication: what the publisher says about it, to be shown too; None for nothing.
    """
    if not isinstance(subject, (Plan, Release)):
        raise InputError.must("subject", "be a Plan or a Release", given=type(subject))
    if publication is not None and not isinstance(publication, Publication):
        raise InputError.must("publication", "be a Publication", given=type(publication))
    return Report(subject, publication)


# ------------------------------------------------------------------------------------ as text


def publication_text(publication: Publication | None) -> str:
    """What the publisher says, a line each; nothing where nothing was said."""
    said = {} if publication is None else publication.to_dict()
    width = max(map(len, said), default=0)
    lines = [f"{name:<{width}}  {printable(text)}" for name, text in said.items()]
    return "".join(f"{line}\n" for line in [*lines, ""]) if lines else ""


def plan_text(plan: Plan, *, by_person: bool = False) -> str:
    """The summary of a plan.

    Args:
        by_person: whether it is known that a column of the table will identify the person.
    """
    return "\n".join(
        [
            *_heading(f"A plan for {counted(plan.workload.shape[0], 'count')}, not measured yet"),
            *_size(plan),
            *_accuracy(plan),
            *_over_time(plan),
            *_privacy(plan, "Measuring it once would spend", by_person=by_person),
            *_proof(plan),
        ]
    )


def _over_time(plan: Plan) -> list[str]:
    """The errors of the last period beside those of releases each by itself; [] without periods."""
    if plan.over is None:
        return []
    # Here, as it draws pictures too: a summary of other plans needs nothing that pages do.
    from leastnoise.report.over_time import error_lines

    lines = [line for text in error_lines(plan) for line in textwrap.wrap(printable(text), _WIDTH)]
    return ["Over time:", *lines, ""] if lines else []


def release_text(release: Release) -> str:
    """The summary of a release."""
    plan = release.plan
    lines = [*_heading(f"A private release of {counted(plan.workload.shape[0], 'count')}")]
    for warning in release.warnings:
        lines += [*textwrap.wrap(f"WARNING: {printable(warning)}", _WIDTH), ""]
    lines += _size(plan)
    if release.is_in_blocks:
        lines += textwrap.wrap(_IN_BLOCKS, _WIDTH)
    ends = None if plan.strategy is None or release.is_in_blocks else release.interval(LEVEL)
    start = 0
    for block in () if release.is_in_blocks else plan.workload.blocks:
        rows = slice(start, start + block.n_rows)
        own = None if ends is None else (ends[0][rows], ends[1][rows])
        if release.presented is None:
            lines += _answers(block, release.answers[rows], own)
        else:
            figures = presented_figures(release, block, rows, own, most=_MAX_SHOWN)
            lines += _listed(block.name, figures, block.n_rows)
        start += block.n_rows
    lines += [] if release.is_in_blocks else _ratios(release)
    exact = "exact" if plan.privacy.noise.has_normal_errors else "on the safe side"
    if ends is not None:
        lines += [
            f"Each interval holds the {words.true_count(release)} with probability {LEVEL:.0%} ({exact});",
            "in Python, release.interval(simultaneous=True) gives wider ones that hold all at once.",
        ]
    if release.adjusted is None and release.presented is None:
        lines.append(
            "Answers can be negative or fractional: nothing was cut off, and only this text rounds them."
        )
    if release.adjusted is not None:
        lines += textwrap.wrap(release.adjusted.statement(), _WIDTH)
    if release.presented is not None:
        lines += textwrap.wrap(release.presented.statement(), _WIDTH)
    # Privacy and proof are those of all periods, where a release is one of them.
    whole = plan if plan.horizon is None else plan.horizon
    spent = "This release spent" if whole is plan else "All periods together spend"
    for sentence in words.not_counted_sentences(release):
        lines += textwrap.wrap(sentence, _WIDTH)
    lines += [
        "",
        *_accuracy(plan),
        *_privacy(whole, spent, release),
        *_proof(whole),
    ]
    return "\n".join(lines)


# What stands in the place of the answers of a release in blocks.
_IN_BLOCKS = (
    "Its answers are too many to be shown. They are in a folder of Parquet files if it was published so; in "
    "Python, load_release(FOLDER).answer(Marginal(...)) gives those of one table, with their intervals."
)


def _heading(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def _size(plan: Plan) -> list[str]:
    """How much was asked of how large a table."""
    n_batches, n = len(plan.workload.blocks), plan.workload.shape[1]
    batches = "1 query" if n_batches == 1 else f"{n_batches:,} queries"
    lines = [f"Asked in {batches}, over a table of {counted(n, 'cell')}."]
    if plan.horizon is not None and plan.period is not None:
        labels = period_labels(plan.horizon)
        lines.append(
            f"All that is due by {printable(labels[plan.period])}, of {len(labels):,} periods "
            f"({printable(str(plan.over))}) that were paid for at once."
        )
    return [*lines, ""]


def _answers(block: QueryBlock, answers: Array, ends: tuple[Array, Array] | None) -> list[str]:
    """The first answers with their intervals; to the nearest count where errors are not known."""
    n_shown = len(answers) if len(answers) <= _MAX_SHOWN else _FIRST_SHOWN
    labels = escaped([printable(block.labels[j]) for j in range(n_shown)])
    width = max(map(len, labels))
    if ends is None:
        figures = [number(answers[j], 0) for j in range(n_shown)]
        intervals = [""] * n_shown
    else:
        lower, upper = ends
        decimals = decimals_for((upper - lower) / 2)
        figures = [number(answers[j], decimals) for j in range(n_shown)]
        pairs = [outward(lower[j], upper[j], decimals) for j in range(n_shown)]
        low_width, high_width = (max(map(len, column)) for column in zip(*pairs, strict=True))
        intervals = [f"   {LEVEL:.0%} in [{low:>{low_width}}, {high:>{high_width}}]" for low, high in pairs]
    wide = max(map(len, figures))
    lines = [printable(block.name)]
    for label, answer, interval in zip(labels, figures, intervals, strict=True):
        lines.append(f"  {label:<{width}}  {answer:>{wide}}{interval}")
    if n_shown < len(answers):
        lines.append(_left_out(block, len(answers) - n_shown))
    return [*lines, ""]


def ratio_figures(release: Release, name: str) -> list[tuple[str, str, str]]:
    """Label, estimate and interval of each ratio of one query; or why it is not determined, as its interval.

    Shares are in per cent. Ends are rounded outwards: what is shown holds the truth as often as it says.
    """
    found = release.ratio_columns(level=LEVEL)
    if release.presented is not None:
        found = release.presented.presented(found, is_rounded=False)
    marks = found.get("reliability", [RELIABLE] * len(found["query"]))
    here = [j for j, query in enumerate(found["query"]) if query == name]
    ratio = release.plan.workload.ratio(name)
    is_share = ratio is not None and ratio.query.kind == "share"
    scale, unit = (100.0, "%") if is_share else (1.0, "")
    estimate = scale * found["estimate"][here]
    shown = []
    if "lower" not in found:
        figures = [f"{value:,.4g}{unit}" if math.isfinite(value) else "–" for value in estimate]
        return [(found["label"][j], text, found["note"][j]) for j, text in zip(here, figures, strict=True)]
    lower, upper = scale * found["lower"][here], scale * found["upper"][here]
    decimals = decimals_for((upper - lower) / 2)
    for place, j in enumerate(here):
        if found["note"][j] or marks[j] == SUPPRESSED:
            shown.append((found["label"][j], "–", found["note"][j] or marks[j]))
            continue
        low, high = outward(lower[place], upper[place], decimals)
        interval = f"{LEVEL:.0%} in [{low}{unit}, {high}{unit}]" + (marks[j] and f", {marks[j]}")
        shown.append((found["label"][j], f"{number(estimate[place], decimals)}{unit}", interval))
    return shown


def presented_figures(
    release: Release, block: QueryBlock, rows: slice, ends: tuple[Array, Array] | None, *, most: int
) -> list[tuple[str, str, str]]:
    """Label, number and interval of the first answers of a batch, as they are presented; "–" for none."""
    assert release.presented is not None
    columns: dict[str, Any] = {"answer": release.answers[rows]}
    if ends is not None:
        columns |= {"stderr": release.plan.known_stderr()[rows], "lower": ends[0], "upper": ends[1]}
    found = release.presented.presented(columns, is_rounded=True)
    marks = found.get("reliability", [RELIABLE] * block.n_rows)
    half = np.zeros(0) if ends is None else (ends[1] - ends[0]) / 2
    base = release.presented.round_to
    decimals = (0 if ends is None else decimals_for(half)) if base is None else _decimals_of(base)
    shown = []
    for j in range(min(most, block.n_rows)):
        if marks[j] == SUPPRESSED:
            shown.append((block.labels[j], "–", marks[j]))
            continue
        interval = ""
        if ends is not None:
            low, high = outward(found["lower"][j], found["upper"][j], decimals)
            interval = f"{LEVEL:.0%} in [{low}, {high}]"
        said = ", ".join(text for text in (interval, marks[j]) if text)
        shown.append((block.labels[j], number(found["answer"][j], decimals), said))
    return shown


def _decimals_of(base: float) -> int:
    """The decimals that multiples of a base have."""
    exponent = Decimal(repr(float(base))).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _ratios(release: Release) -> list[str]:
    """The first ratios of each query, with their intervals."""
    lines: list[str] = []
    for ratio in release.plan.workload.ratios:
        lines += _listed(ratio.name, ratio_figures(release, ratio.name), len(ratio.labels))
    return lines


def _listed(name: str, rows: list[tuple[str, str, str]], n_rows: int) -> list[str]:
    """The first rows of label, figure and interval under a name."""
    n_shown = n_rows if n_rows <= _MAX_SHOWN else _FIRST_SHOWN
    labels = escaped([printable(label) for label, _, _ in rows[:n_shown]])
    width, wide = max(map(len, labels)), max(len(figure) for _, figure, _ in rows[:n_shown])
    lines = [printable(name)]
    for label, (_, figure, interval) in zip(labels, rows, strict=False):
        lines.append(f"  {label:<{width}}  {figure:>{wide}}   {interval}".rstrip())
    if n_shown < n_rows:
        lines.append(f"  … and {n_rows - n_shown:,} more, in release[{name!r}]")
    return [*lines, ""]


def _left_out(block: QueryBlock, n_more: int) -> str:
    """Where the answers are that are not shown, at a shell and in Python."""
    return f"  … and {n_more:,} more, in the file of answers and in release[{block.name!r}]"


def _accuracy(plan: Plan) -> list[str]:
    lines = ["Standard errors"]
    if plan.spreads is None:
        return [
            *lines,
            f"  not known: what method {printable(plan.method)} measures depends on the data, and so do its",
            "  errors. Answers may be biased; leastnoise.compare(data=...) simulates it on public data.",
            "",
        ]
    width = max(len(printable(name)) for name in plan.workload.names)
    for block, spread in zip(plan.workload.blocks, plan.spreads, strict=True):
        asked = printable(words.target_with_stderr(block))
        low, high = f"{spread.low:,.4g}", f"{spread.high:,.4g}"
        shown = low if low == high else f"median {spread.median:,.4g}, from {low} to {high}"
        lines.append(
            f"  {printable(block.name):<{width}}  {shown} ({counted(block.n_rows, 'count')})"
            f"{asked and f', target {asked}'}"
        )
    kept = words.targets_kept(plan)
    if kept is not None:
        lines.append(f"  {kept}")
    return [*lines, ""]


def _privacy(
    plan: Plan, spends: str, release: Release | None = None, *, by_person: bool = False
) -> list[str]:
    is_truncated = by_person or None if release is None else release.is_truncated
    lines = [
        *textwrap.wrap(f"{words.promise(plan, release, by_person=by_person)}.", _WIDTH),
        words.spent(plan, spends, words.spent_together(plan, release)),
        *textwrap.wrap(words.covered(release) or "", _WIDTH),
    ]
    warning = words.large_delta(plan)
    if warning is not None:
        lines.append(warning)
    if is_truncated or plan.privacy.records_per_person > 1:
        lines += textwrap.wrap(f"Who is protected: {words.who_is_protected(plan, is_truncated)}", _WIDTH)
    lines.append("Repeating it, or releasing anything else about the same people, adds to this.")
    return ["Privacy", *(f"  {line}" for line in lines), ""]


def _proof(plan: Plan) -> list[str]:
    found = f"method {printable(plan.method)}: {printable(plan.note)}."
    if plan.tried:
        found += f" Tried: {printable(trials_to_text(plan.tried))}."
    if plan.strategy is None:
        lines = [
            found,
            "Nothing is proved about its accuracy. A plan of another method states its errors and a bound.",
        ]
    else:
        lines = [
            found,
            f"The search {ending_to_text(plan.ended)}.",
            f"{words.reached(plan)}.",
            words.bound(plan),
            words.verdict(plan),
            "From a shell, `leastnoise audit PLAN` rechecks a plan that `leastnoise design` saved.",
            "Recheck it yourself: leastnoise.certify(plan.workload, plan).",
        ]
    return ["How good this is", *(f"  {line}" for line in lines)]
