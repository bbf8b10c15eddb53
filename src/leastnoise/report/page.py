"""The report as one self-contained HTML page.

No script, no font, no picture from elsewhere: a policy in its head forbids all of it, so that whoever reads
the page is known to nobody, and whatever a label holds, nothing runs. Everything follows from the plan or the
release: no clock, no file name, nothing of the data but what was released.

Here the figures are gathered, a dict for each section; `templates/` holds what the page says about them.
"""

from __future__ import annotations

import base64
import math
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from leastnoise.core.look_alikes import escaped
from leastnoise.core.operators import Array
from leastnoise.core.printable import counted, in_figures
from leastnoise.core.progress import ending_to_text
from leastnoise.planning import ACCEPTED_GAP, Plan, trials_to_text
from leastnoise.query import Attribute, Integers, Periods, QueryBlock
from leastnoise.release import Release
from leastnoise.report import plan_sentences as words
from leastnoise.report.answer_tables import tables_of
from leastnoise.report.answers import write_answers
from leastnoise.report.baseline_noise import Baselines, baselines
from leastnoise.report.batches import view_of
from leastnoise.report.charts.pictures import stacked_bars
from leastnoise.report.figures import at_least, figure, gap_text, share_above, times
from leastnoise.report.over_time import answer_pictures, error_pictures, left_out
from leastnoise.report.publication import PUBLICATION_KEYS, Publication
from leastnoise.report.quotable import quotable_sentences
from leastnoise.report.rendering import as_it_is, render, render_part, shortened, style_sheet
from leastnoise.report.summary import LEVEL, presented_figures, ratio_figures
from leastnoise.report.tables import aim_of

# Characters of all batches together, from which on further ones are named instead of shown.
_MAX_CHARACTERS = 1_500_000

# Batches named that way, at most.
_MAX_NAMED = 20

# Characters of the name of a dataset in the title.
_MAX_TITLE_NAME = 60

# Rows of a table that has one for every batch, or every attribute.
_MAX_ROWS = 200

# Counts up to which a page lists all of them, batch by batch; of further batches it lists the first.
_MAX_LISTED = 2_000

# Counts up to which the page holds the whole file of answers, and bytes of that file; a count takes some 100.
_MAX_IN_FILE = 20_000
_MAX_FILE_BYTES = 2_000_000

# Values of an attribute that are listed.
_MAX_VALUES = 300

# What a reader looks for on every publication, and finds marked where nobody said it.
_EXPECTED = ("publisher", "source", "date")

_STATUS_TEXT = {
    "optimal": "no noise of this kind does better, up to the gap",
    "stopped": "close to the optimum, which this method does not quite prove",
    "heuristic": "this method does not aim at the optimum",
}


def page(subject: Plan | Release, publication: Publication | None = None) -> str:
    """The report on a plan or a release, as HTML."""
    release = subject if isinstance(subject, Release) else None
    plan = subject.plan if isinstance(subject, Release) else subject
    sections = {
        "asked": _asked(plan),
        "released": None if release is None else _released(release),
        "time": _time(plan, release),
        "accuracy": _accuracy(plan),
        "privacy": _privacy(plan, release),
        "proof": _proof(plan, is_released=release is not None),
        "simple": None if plan.strategy is None else _simple(plan, baselines(plan)),
        "origin": _origin(plan, release),
    }
    return render(
        "page.html",
        title=_title(plan, release, publication),
        quotes=[] if release is None else quotable_sentences(release, publication),
        publication=_published(publication, is_released=release is not None),
        style=style_sheet("page.css"),
        promise=words.promise(plan, release),
        facts=_facts(plan, release),
        method=plan.method,
        present=[name for name, content in sections.items() if content is not None],
        **sections,
    )


# ------------------------------------------------------------------------------------ the head


def _title(plan: Plan, release: Release | None, publication: Publication | None) -> str:
    if publication is not None and publication.title is not None:
        return publication.title
    n = counted(plan.workload.shape[0], "count")
    if release is None:
        return f"A plan for {n}, not measured yet"
    if release.receipt is None:
        return f"A private release of {n}"
    return f"{shortened(release.receipt.dataset, _MAX_TITLE_NAME)}: a private release of {n}"


def _published(publication: Publication | None, *, is_released: bool) -> list[tuple[str, str]]:
    """What the publisher says, a name and a text each; "" marks what a release should say and does not."""
    said = {} if publication is None else publication.to_dict()
    expected = _EXPECTED if is_released else ()
    names = [name for name in PUBLICATION_KEYS if name != "title" and (name in said or name in expected)]
    return [(name, said.get(name, "")) for name in names]


def _facts(plan: Plan, release: Release | None) -> list[tuple[str, str]]:
    """What a reader looks for first: a name and a value each."""
    facts = [("counts", in_figures(plan.workload.shape[0]))]
    kind = "pure" if plan.mu is None else f"δ = {at_least(words.shown_delta(plan))}"
    epsilon = words.epsilon_spent(plan, words.spent_together(plan, release))
    facts.append((f"ε per person ({kind})", at_least(epsilon)))
    if plan.spreads is not None:
        low, high = figure(min(s.low for s in plan.spreads)), figure(max(s.high for s in plan.spreads))
        facts.append(("standard errors", low if low == high else f"{low} to {high}"))
    if plan.factor is not None:
        facts.append(("targets", "all met" if plan.factor <= 1 else f"missed by {at_least(plan.factor)}×"))
    return [*facts, _status(plan)]


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
    if certificate.gap > ACCEPTED_GAP:
        # Nothing to be proud of, and not to be read as if it were.
        return f"above the best possible, perhaps{cut}", f"up to {share_above(certificate.gap)}"
    return f"of the best possible, proved{cut}", f"within {share_above(certificate.gap)}"


# ------------------------------------------------------------------------------------ the sections


def _asked(plan: Plan) -> dict[str, Any]:
    """The batches of counts, and the attributes they are about."""
    workload, schema = plan.workload, plan.workload.schema
    m, n = workload.shape
    batches = [
        {
            "name": block.name,
            "kind": block.query.kind,
            "n_counts": in_figures(block.n_rows),
            "weight": _weight(block),
            "target": words.target_to_text(block) or "–",
        }
        for block in workload.blocks[:_MAX_ROWS]
    ]
    names = () if schema is None else schema.names
    attributes = [
        {
            "name": name,
            "kind": schema[name].kind,
            "size": in_figures(schema[name].size),
            "which": _which(schema[name]),
            "outside": _policy(schema[name], schema[name].outside),
            "null": _policy(schema[name], schema[name].null),
        }
        for name in names[:_MAX_ROWS]
        if schema is not None
    ]
    return {
        "counts": counted(m, "count"),
        "cells": counted(n, "cell"),
        "aim": "" if plan.strategy is None else _aim(plan),
        "batches": batches,
        "n_all_batches": len(workload.blocks),
        "n_batches": _batches(len(workload.blocks)),
        "attributes": attributes,
        "n_all_attributes": len(names),
        "n_attributes": counted(len(names), "attribute"),
    }


def _released(release: Release) -> dict[str, Any]:
    """The answers, batch by batch, until the page is long enough."""
    plan, blocks = release.plan, release.plan.workload.blocks
    ends = None if plan.strategy is None else release.interval(LEVEL)
    batches: list[Markup] = []
    start = n_listed = 0
    for block in blocks:
        if sum(map(len, batches)) > _MAX_CHARACTERS:
            break
        rows = slice(start, start + block.n_rows)
        is_listed = n_listed + block.n_rows <= _MAX_LISTED
        n_listed += block.n_rows if is_listed else 0
        batches.append(_batch(release, block, rows, ends, is_listed=is_listed))
        start = rows.stop
    others = blocks[len(batches) :]
    return {
        "file": _file(release),
        "is_all_listed": n_listed == plan.workload.shape[0],
        "warnings": list(release.warnings),
        "adjusted": "" if release.adjusted is None else release.adjusted.statement(),
        "not_counted": words.not_counted_sentences(release),
        "presented": "" if release.presented is None else release.presented.statement(),
        "is_known": ends is not None,
        "is_exact": plan.privacy.noise.has_normal_errors,
        "level": f"{LEVEL:.0%}",
        "true_count": words.true_count(release),
        "batches": batches,
        "ratios": [
            {
                "name": ratio.name,
                "rows": ratio_figures(release, ratio.name)[:_MAX_LISTED],
                "n": len(ratio.labels),
            }
            for ratio in plan.workload.ratios[:_MAX_ROWS]
        ],
        "left_out": counted(len(others), "further table") if others else "",
        "named": [block.name for block in others[:_MAX_NAMED]],
        "has_more": len(others) > _MAX_NAMED,
    }


def _file(release: Release) -> Markup:
    """The file of answers as an address that holds all of it; "" where it would be too long for a page."""
    if release.plan.workload.shape[0] > _MAX_IN_FILE:
        return as_it_is("")
    with tempfile.TemporaryDirectory() as folder:
        content = write_answers(release, Path(folder) / "answers.csv").read_bytes()
    if len(content) > _MAX_FILE_BYTES:
        return as_it_is("")
    # In base 64 no label can be read, or end the attribute.
    return as_it_is(f"data:text/csv;charset=utf-8;base64,{base64.b64encode(content).decode('ascii')}")


def _batch(
    release: Release,
    block: QueryBlock,
    rows: slice,
    ends: tuple[Array, Array] | None,
    *,
    is_listed: bool,
) -> Markup:
    if release.presented is not None:
        own = None if ends is None else (ends[0][rows], ends[1][rows])
        most = block.n_rows if is_listed else _MAX_ROWS
        listed = presented_figures(release, block, rows, own, most=most)
        return render_part("presented.html", name=block.name, rows=listed, n=block.n_rows)
    tables, n_left = tables_of(
        block,
        release.plan.workload.schema,
        release.answers[rows],
        None if ends is None else (ends[0][rows], ends[1][rows]),
        level=LEVEL,
        is_centred=release.is_centred,
        is_listed=is_listed,
    )
    return render_part(
        "batch.html",
        name=block.name,
        tables=[view_of(table) for table in tables],
        n_left=n_left,
        left=counted(n_left, "further table"),
    )


def _time(plan: Plan, release: Release | None) -> dict[str, Any] | None:
    """Answers over the periods, and their errors; None for plans that are not published period by period."""
    if plan.over is None:
        return None
    answers = [] if release is None else answer_pictures(release, LEVEL)
    return {
        "answers": answers,
        "left_out": "" if release is None or release.presented is not None else left_out(release, answers),
        "errors": error_pictures(plan),
    }


def _accuracy(plan: Plan) -> dict[str, Any]:
    """The standard errors of every batch, beside what was asked of them."""
    if plan.spreads is None:
        return {"is_known": False}
    has_targets = plan.workload.has_targets
    pairs = list(zip(plan.workload.blocks, plan.spreads, strict=True))
    batches = [
        {
            "name": block.name,
            "low": figure(spread.low),
            "median": figure(spread.median),
            "high": figure(spread.high),
            "target": words.target_to_text(block) or "–",
            "used": words.used_of(plan, block, spread.high) if has_targets else None,
        }
        for block, spread in pairs[:_MAX_ROWS]
    ]
    return {
        "is_known": True,
        "is_normal": plan.privacy.noise.has_normal_errors,
        "targets": words.targets_kept(plan),
        "are_met": plan.factor is not None and plan.factor <= 1,
        "has_targets": has_targets,
        "batches": batches,
        "n_all_batches": len(pairs),
        "n_batches": _batches(len(pairs)),
    }


def _privacy(plan: Plan, release: Release | None) -> dict[str, Any]:
    """What is promised to whom. Periods are paid for together."""
    is_released, is_truncated = release is not None, None if release is None else release.is_truncated
    spent = "This release spent" if is_released else "Measuring it once would spend"
    if plan.horizon is not None:
        plan, spent = plan.horizon, "All periods together spend"
    goal, k = plan.privacy, plan.privacy.records_per_person
    record = "all records" if is_truncated else "the record" if k == 1 else f"up to {k} records"
    change, question = goal.relation.question(record)
    delta = None if plan.mu is None else words.shown_delta(plan)
    together = words.spent_together(plan, release)
    try:
        grown = at_least(math.nextafter(math.exp(words.epsilon_spent(plan, together)), math.inf))
    except OverflowError:
        grown = "more than a float holds"
    return {
        "promise": words.promise(plan, release),
        "is_after": bool(plan.after),
        "spent": words.spent(plan, spent, together),
        "covered": words.covered(release),
        "after": [f"{line[0].upper()}{line[1:]}" for line in plan.earlier_plans_to_text()],
        "warning": words.large_delta(plan),
        "who": words.who_is_protected(plan, is_truncated),
        "change": change,
        "question": question,
        "numbers": "these numbers" if is_released else "the numbers",
        "grown": grown,
        "delta": None if delta is None else at_least(delta),
        "guess": f"{100 * words.likeliest_guess(plan, together):.4g}%",
    }


def _proof(plan: Plan, *, is_released: bool) -> dict[str, Any]:
    """The certificate; no rows where nothing is proved."""
    plan = plan if plan.horizon is None else plan.horizon
    if plan.strategy is None:
        return {"note": plan.note, "tried": trials_to_text(plan.tried), "rows": []}
    proof = plan.certificate
    rows = [
        ("achieved", f"{proof.achieved:,.9g}", proof.unit),
        ("lower bound", f"{proof.lower_bound:,.9g}", f"for any {proof.among} noise shaped to these counts"),
        ("gap", gap_text(proof.gap), "achieved over bound, less one"),
        ("status", proof.status, _status_text(plan)),
        ("search", plan.ended or "not recorded", f"the search {ending_to_text(plan.ended)}"),
    ]
    return {
        "note": plan.note,
        "tried": trials_to_text(plan.tried),
        "rows": rows,
        "reached": words.reached(plan),
        "bound": words.bound(plan),
        "verdict": words.verdict(plan),
        "is_released": is_released,
    }


def _simple(plan: Plan, simple: Baselines) -> dict[str, Any]:
    """What noise that is not shaped would have cost, under the same privacy."""
    trios = [
        (math.sqrt(spread.mean_square), per_count, per_cell)
        for spread, per_count, per_cell in zip(
            plan.spreads or (), simple.per_count.rms, simple.per_cell.rms, strict=True
        )
    ]
    shown = trios[:_MAX_ROWS]
    largest = max(value for trio in shown for value in trio if math.isfinite(value))
    aim, values = aim_of(plan, simple)
    rows = [
        {"name": name, "figures": _compared(*trio), "bars": stacked_bars(trio, largest)}
        for name, trio in zip(plan.workload.names, shown, strict=False)
    ]
    rows.append({"name": aim, "figures": _compared(*values), "bars": stacked_bars(values, max(values))})
    return {
        "rows": rows,
        "is_bound": simple.per_count.is_bound,
        "n_all_batches": len(trios),
        "n_batches": _batches(len(trios)),
    }


def _origin(plan: Plan, release: Release | None) -> dict[str, Any]:
    try:
        maker = f"leastnoise {version('leastnoise')}"
    except PackageNotFoundError:
        maker = "leastnoise, a copy that was not installed"
    return {
        "maker": maker,
        "plan_digest": plan.digest,
        "workload_digest": plan.workload.digest,
        "is_released": release is not None,
        "receipt": None if release is None else release.receipt,
    }


# ------------------------------------------------------------------------------------ pieces


def _batches(n: int) -> str:
    return "1 batch" if n == 1 else f"{n:,} batches"


def _compared(ours: float, per_count: float, per_cell: float) -> list[str]:
    """Three figures, the last two with how many times the first they are."""
    others = [text for other in (per_count, per_cell) for text in (figure(other), times(ours, other))]
    return [figure(ours), *others]


def _aim(plan: Plan) -> str:
    if plan.objective.kind == "total-within-caps":
        return "total variance that keeps within the targets"
    return plan.objective.unit(plan.workload, has_goal=plan.has_goal)


def _status_text(plan: Plan) -> str:
    if plan.certificate.status == "stopped" and plan.certificate.gap > ACCEPTED_GAP:
        return "the least possible may be lower by as much as the gap says; a longer search may come nearer"
    if plan.certificate.status == "stopped" and plan.ended not in ("converged", None):
        return "at most the gap above the optimum; a longer search may do better"
    return _STATUS_TEXT[plan.certificate.status]


def _which(attribute: Attribute) -> list[str]:
    """The values of an attribute: every category and bin, numbers from the least to the largest."""
    if isinstance(attribute, (Integers, Periods)):
        return [attribute.cells_label()]
    n = attribute.size
    more = [f"… ({n:,} values)"] if n > _MAX_VALUES else []
    return [*escaped([attribute.label(i) for i in range(min(n, _MAX_VALUES))]), *more]


def _policy(attribute: Attribute, chosen: str) -> str:
    """What becomes of a record whose value was not declared, or that has none."""
    if chosen == "other":
        return f"counted as {attribute.other}"
    return "counted at the nearest end" if chosen == "clamp" else "not counted"


def _weight(block: QueryBlock) -> str:
    low, high = f"{block.weights.min():.4g}", f"{block.weights.max():.4g}"
    return low if low == high else f"{low} to {high}"
