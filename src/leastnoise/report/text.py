"""The summary as plain text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from leastnoise.alternatives import best_pure
from leastnoise.errors import InputError
from leastnoise.objective import TotalVariance
from leastnoise.operators import Array
from leastnoise.plan import Plan, targets_in_words
from leastnoise.printable import counted, printable
from leastnoise.privacy import ApproxDP
from leastnoise.release import Release
from leastnoise.workload import Block

# A batch with up to this many answers is shown whole; of a longer one, the first few.
_SHOWN_WHOLE = 12
_SHOWN_FIRST = 6

# Below this, answers to real-weighted queries are better read from release.to_frame().
_MOST_DECIMALS = 12

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Report:
    """A summary of a plan or a release; prints itself."""

    subject: Plan | Release

    def text(self) -> str:
        """The summary as plain text."""
        if isinstance(self.subject, Release):
            return _release_text(self.subject)
        return _plan_text(self.subject)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Report({self.subject!r})"


def summarize(subject: Release | Plan) -> Report:
    """A report on a release or a plan: print it, or take `.text()`."""
    if not isinstance(subject, (Plan, Release)):
        raise InputError(f"summarize() takes a Plan or a Release, got {type(subject).__name__}")
    return Report(subject)


def _plan_text(plan: Plan) -> str:
    return "\n".join(
        [
            *_heading(f"A plan for {counted(plan.workload.shape[0], 'count')}, not measured yet"),
            *_accuracy(plan),
            *_privacy(plan, "Measuring it once would spend"),
            *_proof(plan),
        ]
    )


def _release_text(release: Release) -> str:
    plan = release.plan
    lines = _heading(f"A private release of {counted(plan.workload.shape[0], 'count')}")
    lower, upper = (None, None) if plan.strategy is None else release.interval(LEVEL)
    start = 0
    for block in plan.workload.blocks:
        rows = slice(start, start + block.n_rows)
        if lower is None or upper is None:
            lines += _bare_answers(block, release.answers[rows])
        else:
            lines += _answers(block, release.answers[rows], lower[rows], upper[rows])
        start += block.n_rows
    exact = "exact" if plan.privacy.noise == "gaussian" else "on the safe side"
    if lower is not None:
        lines += [
            f"Each interval holds the true count with probability {LEVEL:.0%} ({exact});",
            "release.interval(simultaneous=True) gives wider ones that hold all at once.",
        ]
    lines += [
        "Answers can be negative or fractional: nothing was cut off, and only this text rounds them.",
        "",
        *_accuracy(plan),
        *_privacy(plan, "This release spent"),
        *_proof(plan),
    ]
    return "\n".join(lines)


def _heading(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def _answers(block: Block, answers: Array, lower: Array, upper: Array) -> list[str]:
    shown = len(answers) if len(answers) <= _SHOWN_WHOLE else _SHOWN_FIRST
    labels = [printable(block.labels[j]) for j in range(shown)]
    width = max(len(label) for label in labels)
    decimals = _decimals((upper - lower) / 2)
    unit = 10.0**-decimals
    # Ends are rounded outwards, so that what is printed holds the truth as often as it says.
    figures = [
        (
            _number(answers[j], decimals),
            _number(math.floor(lower[j] / unit) * unit, decimals),
            _number(math.ceil(upper[j] / unit) * unit, decimals),
        )
        for j in range(shown)
    ]
    widths = [max(len(row[i]) for row in figures) for i in range(3)]
    lines = [printable(block.name)]
    for label, (answer, low, high) in zip(labels, figures, strict=True):
        lines.append(
            f"  {label:<{width}}  {answer:>{widths[0]}}   "
            f"{LEVEL:.0%} in [{low:>{widths[1]}}, {high:>{widths[2]}}]"
        )
    if shown < len(answers):
        lines.append(f"  … and {len(answers) - shown:,} more, in release[{block.name!r}]")
    return [*lines, ""]


def _bare_answers(block: Block, answers: Array) -> list[str]:
    """Answers whose errors are not known, to the nearest count."""
    shown = len(answers) if len(answers) <= _SHOWN_WHOLE else _SHOWN_FIRST
    labels = [printable(block.labels[j]) for j in range(shown)]
    figures = [_number(answers[j], 0) for j in range(shown)]
    width, wide = max(map(len, labels)), max(map(len, figures))
    lines = [printable(block.name)]
    lines += [f"  {label:<{width}}  {figure:>{wide}}" for label, figure in zip(labels, figures, strict=True)]
    if shown < len(answers):
        lines.append(f"  … and {len(answers) - shown:,} more, in release[{block.name!r}]")
    return [*lines, ""]


def _decimals(half_widths: Array) -> int:
    """Decimals whose last place is a third of the narrowest half-width or less; none as a rule."""
    narrow = half_widths[half_widths > 0].min(initial=math.inf)
    return min(max(0, 1 - math.floor(math.log10(3 * narrow))), _MOST_DECIMALS) if narrow < math.inf else 0


def _number(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


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
        lines.append(
            f"  {printable(block.name):<{width}}  median {spread.median:,.4g}, from {spread.low:,.4g} to "
            f"{spread.high:,.4g} ({counted(block.n_rows, 'count')}){_target(block)}"
        )
    if plan.factor is not None:
        lines.append(f"  Targets: {targets_in_words(plan.factor)}.")
    return [*lines, ""]


def _target(block: Block) -> str:
    asked = block.targets[np.isfinite(block.targets)]
    if len(asked) == 0:
        return ""
    low, high = f"{asked.min():,.4g}", f"{asked.max():,.4g}"
    return f", target {low}" if low == high else f", targets from {low} to {high}"


def _privacy(plan: Plan, spends: str) -> list[str]:
    lines = ["Privacy", f"  {plan.privacy.statement()}."]
    if plan.mu is None:
        lines.append(f"  {spends} epsilon = {_at_least(plan.epsilon())} (pure).")
    else:
        delta = float(plan.privacy.delta) if isinstance(plan.privacy, ApproxDP) else 1e-6
        lines.append(
            f"  {spends} mu = {_at_least(plan.mu)} in Gaussian terms; at delta = {_at_least(delta)} that is "
            f"epsilon = {_at_least(plan.epsilon(delta=delta))}."
        )
    if isinstance(plan.privacy, ApproxDP) and plan.privacy.delta > 1e-3:
        lines.append("  A delta this large may expose whole records; keep it far below one over the people.")
    lines += [
        "  Repeating it, or releasing anything else about the same people, adds to this.",
        "",
    ]
    return lines


def _at_least(spent: float) -> str:
    """Six digits of what was spent, rounded up: a report never claims less."""
    shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(spent))
    return f"{float(shown):.6g}"


def _proof(plan: Plan) -> list[str]:
    certificate = plan.certificate
    if plan.strategy is None:
        return [
            "How good this is",
            f"  method {printable(plan.method)}: {printable(plan.note)}.",
            "  Nothing is proved about its accuracy. A plan of another method states its errors and a bound.",
        ]
    kind = "Gaussian" if plan.privacy.noise == "gaussian" else "Laplace"
    under = "under the same privacy" if plan.has_goal else "and meet the targets"
    lines = [
        "How good this is",
        f"  method {printable(plan.method)}: {printable(plan.note)}.",
        f"  {_reached(plan)}.",
        f"  No {kind} noise shaped to these counts can have less than {certificate.lower_bound:,.6g} "
        f"{under}.",
    ]
    if certificate.status == "optimal":
        lines.append(f"  Gap {certificate.gap:.1e}: this is the optimum, proved.")
    elif certificate.status == "stopped":
        lines.append(f"  Gap {certificate.gap:.1e}: the search stopped early; a longer one may do better.")
    else:
        lines.append(f"  Gap {certificate.gap:.1%}: this method does not aim at the optimum.")
    lines += _without_delta(plan)
    lines.append("  Recheck it yourself: leastnoise.certify(plan.workload, plan).")
    return lines


def _without_delta(plan: Plan) -> list[str]:
    """What the best plan of pure privacy would have, so that a user of a delta can choose."""
    if not isinstance(plan.privacy, ApproxDP) or not plan.has_goal:
        return []
    pure = best_pure(plan)
    if pure is None:
        lacks = "meets these targets" if plan.objective.kind == "total-within-caps" else "serves these counts"
        return [f"  Without delta no quick method {lacks}."]
    is_factor = pure.unit == "squared factor"
    reached = f"{math.sqrt(pure.achieved):,.6g} times the targets" if is_factor else ""
    reached = reached or f"{pure.unit} {pure.achieved:,.6g}"
    has = f"{reached} by {pure.method}, {pure.ratio:,.3g} times this plan's"
    if is_factor:
        has = f"{reached} by {pure.method}, {math.sqrt(pure.ratio):,.3g} times as much as this plan"
    if pure.ratio < 1:
        return [
            f"  Better without delta: {has}.",
            f"  Take design() with {pure.goal!r} instead: less noise, and no delta.",
        ]
    return [f"  Without delta: {has}; design() with", f"  {pure.goal!r} searches further."]


def _reached(plan: Plan) -> str:
    """What the certificate's number is, in words."""
    achieved, unit = plan.certificate.achieved, plan.certificate.unit
    shown = f"{unit.capitalize()} {achieved:,.6g}"
    if unit == "mu squared":
        return f"{shown} per record, the least that was found to meet the targets"
    if unit == "squared factor":
        return f"{shown}: standard errors are at most {math.sqrt(achieved):,.6g} times their targets"
    if plan.objective.kind == "largest":
        return (
            f"{shown} (a standard error of {math.sqrt(achieved):,.6g})"
            if unit == "largest variance"
            else shown
        )
    if plan.objective in (TotalVariance(), TotalVariance(within_targets=True)):
        return f"{shown} ({achieved / plan.workload.shape[0]:,.6g} per count)"
    return f"T{str(plan.objective)[1:]}: {achieved:,.6g}"
