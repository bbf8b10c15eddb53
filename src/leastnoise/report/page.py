"""The report as one HTML page that stands alone.

No script, no font, no picture from elsewhere: a policy in its head forbids all of it, so that whoever reads
the page is known to nobody, and whatever a label holds, nothing runs. Everything follows from the plan or the
release: no clock, no file name, nothing of the data but what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from leastnoise.core.operators import Array
from leastnoise.core.printable import counted, in_figures
from leastnoise.planning import Plan
from leastnoise.query import Block
from leastnoise.release import Release
from leastnoise.report import plan_sentences as words
from leastnoise.report import sections
from leastnoise.report.batches import parts_of, shown
from leastnoise.report.figures import at_least, figure, share_above
from leastnoise.report.markup import Markup, element, joined, paragraph, shortened
from leastnoise.report.simple_ways import baselines
from leastnoise.report.text import LEVEL

# Batches are shown until the page has so many characters; the others are named.
_MOST_CHARACTERS = 1_500_000

# How many of them are.
_MOST_NAMED = 20

# Characters of the name of a dataset in the title.
_MOST_OF_A_NAME = 60

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(subject: Plan | Release) -> str:
    """The report on a plan or a release, as HTML."""
    release = subject if isinstance(subject, Release) else None
    plan = subject.plan if isinstance(subject, Release) else subject
    is_released = release is not None
    n = counted(plan.workload.shape[0], "count")
    title = f"A private release of {n}" if is_released else f"A plan for {n}, not measured yet"
    if release is not None and release.receipt is not None:
        title = f"{shortened(release.receipt.dataset, _MOST_OF_A_NAME)}: a private release of {n}"
    is_truncated = None if release is None else release.is_truncated
    simple = Markup("") if plan.strategy is None else sections.simple_ways(plan, baselines(plan))
    content = [
        ("asked", "What was asked", sections.asked(plan)),
        ("released", "What was released", Markup("") if release is None else _released(release)),
        ("accuracy", "How accurate it is", sections.accuracy(plan)),
        (
            "privacy",
            "What it costs in privacy",
            sections.privacy(plan, is_released=is_released, is_truncated=is_truncated),
        ),
        ("proof", "How good this is, and the proof", sections.proof(plan, is_released=is_released)),
        ("simple", "What simpler noise would have cost", simple),
        ("origin", "Where this comes from", _origin(plan, release)),
    ]
    present = [section for section in content if section[2]]
    lede = _lede(plan, is_truncated)
    top = element("header", joined(element("h1", title), lede, _facts(plan), _contents(present)))
    main = element("main", joined(*(_section(*section) for section in present)))
    body = element("body", joined(top, main))
    return f'<!DOCTYPE html>\n<html lang="en">\n{_head(title)}\n{body}\n</html>\n'


# ------------------------------------------------------------------------------------ the frame


def _head(title: str) -> Markup:
    style = files("leastnoise.report").joinpath("page.css").read_text("utf-8")
    return element(
        "head",
        joined(
            element("meta", charset="utf-8"),
            # The policy comes before whatever it is to rule; its quotes need no escaping.
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", f"{title} – leastnoise"),
            element("style", Markup(style)),
        ),
    )


def _section(name: str, title: str, content: Markup) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", joined(heading, content), id=name, aria_labelledby=f"{name}-title")


def _contents(present: Sequence[tuple[str, str, Markup]]) -> Markup:
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, _ in present]
    return element("nav", element("ul", *links), aria_label="sections")


def _lede(plan: Plan, is_truncated: bool | None) -> Markup:
    carries = "Every number carries noise, and this page says how much."
    return paragraph(f"{plan.privacy.statement(by_person=bool(is_truncated))}. {carries}", "lede")


def _facts(plan: Plan) -> Markup:
    facts = [("counts", in_figures(plan.workload.shape[0]))]
    if plan.mu is None:
        facts.append(("ε per person (pure)", at_least(plan.epsilon())))
    else:
        delta = words.shown_delta(plan)
        facts.append((f"ε per person (δ = {at_least(delta)})", at_least(plan.epsilon(delta=delta))))
    if plan.spreads is not None:
        low, high = figure(min(s.low for s in plan.spreads)), figure(max(s.high for s in plan.spreads))
        facts.append(("standard errors", low if low == high else f"{low} to {high}"))
    if plan.factor is not None:
        facts.append(("targets", "all met" if plan.factor <= 1 else f"missed by {at_least(plan.factor)}×"))
    facts.append(_status(plan))
    cells = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    return element("dl", *cells, class_="facts")


def _status(plan: Plan) -> tuple[str, str]:
    certificate = plan.certificate
    if certificate.status == "data-dependent":
        return "proof of accuracy", "none"
    if certificate.status == "optimal":
        return f"proof (gap {certificate.gap:.1e})", "optimal"
    if certificate.status == "heuristic":
        return f"proof (gap {certificate.gap:.1%})", "heuristic"
    # Nothing need have been stopped: some methods end with a gap, however long they are given.
    cut = "" if plan.ended in ("converged", None) else ", the search cut short"
    return f"of the best possible, proved{cut}", f"within {share_above(certificate.gap)}"


# ------------------------------------------------------------------------------------ what was released


def _released(release: Release) -> Markup:
    plan, blocks = release.plan, release.plan.workload.blocks
    ends = None if plan.strategy is None else release.interval(LEVEL)
    parts: list[str] = [_how_to_read(release, are_known=ends is not None)]
    start, used = 0, 0
    for place, block in enumerate(blocks):
        if used > _MOST_CHARACTERS:
            parts.append(_left_out(blocks[place:]))
            break
        rows = slice(start, start + block.n_rows)
        parts.append(_batch(release, block, rows, ends))
        start, used = rows.stop, used + len(parts[-1])
    return joined(*parts)


def _how_to_read(release: Release, *, are_known: bool) -> Markup:
    if not are_known:
        read = "How far these answers are from the truth is not known: see below."
    else:
        exact = "exactly so" if release.plan.privacy.noise == "gaussian" else "on the safe side"
        read = (
            f"Every interval holds the true count with probability {LEVEL:.0%} ({exact}), one at a time: "
            "of many, about one in twenty misses. Ends are rounded outwards."
        )
    plain = "Answers can be negative or fractional: nothing was cut off, and only this page rounds them."
    return joined(
        "" if release.adjusted is None else paragraph(release.adjusted.statement(), "care"),
        paragraph(read),
        paragraph(plain) if are_known and release.adjusted is None else "",
    )


def _batch(release: Release, block: Block, rows: slice, ends: tuple[Array, Array] | None) -> Markup:
    own = None if ends is None else (ends[0][rows], ends[1][rows])
    schema = release.plan.workload.schema
    tables, n_left = parts_of(
        block, schema, release.answers[rows], own, level=LEVEL, is_centred=release.is_centred
    )
    parts: list[str] = [element("h3", block.name)]
    for table in tables:
        if len(tables) > 1:
            parts.append(element("h4", table.name))
        parts.append(shown(table))
    if n_left:
        parts.append(paragraph(f"{counted(n_left, 'further table')} of this batch not shown.", "note"))
    return joined(*parts)


def _left_out(blocks: Sequence[Block]) -> Markup:
    named = ", ".join(block.name for block in blocks[:_MOST_NAMED])
    more = ", …" if len(blocks) > _MOST_NAMED else ""
    return joined(
        paragraph(f"{counted(len(blocks), 'further table')} not shown, as the page is long enough.", "note"),
        paragraph(f"They are in the file of answers, and in release.to_frame(): {named}{more}", "note"),
    )


# ------------------------------------------------------------------------------------ where it comes from


def _origin(plan: Plan, release: Release | None) -> Markup:
    facts = [
        ("made by", _maker()),
        ("method", plan.method),
        ("plan digest", element("code", plan.digest)),
        ("workload digest", element("code", plan.workload.digest)),
    ]
    note = Markup("")
    receipt = None if release is None else release.receipt
    if receipt is not None:
        facts += [
            ("dataset", receipt.dataset),
            ("release id", receipt.release_id),
            ("ledger head when paid for", element("code", receipt.head)),
        ]
        note = paragraph(
            "Whoever notes this head can tell later, with leastnoise ledger verify FILE --head HEAD, whether "
            "any row up to it is gone. Storing the answers adds a row, so ledger show has a later head."
        )
    elif release is not None:
        note = paragraph(
            "No ledger recorded this release: what else was released about these people is not known here.",
            "care",
        )
    cells = [part for name, value in facts for part in (element("dt", name), element("dd", value))]
    return joined(element("dl", *cells, class_="origin"), note)


def _maker() -> str:
    try:
        return f"leastnoise {version('leastnoise')}"
    except PackageNotFoundError:
        return "leastnoise, a copy that was not installed"
