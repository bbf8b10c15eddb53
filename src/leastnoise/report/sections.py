"""The sections of the page that are about the plan, whether or not it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leastnoise.core.printable import counted, in_figures
from leastnoise.core.progress import ending_to_text
from leastnoise.planning import Plan
from leastnoise.query import Attribute, Block
from leastnoise.report import plan_sentences as words
from leastnoise.report.cost_drivers.relaxation import target_in_words
from leastnoise.report.figures import at_least, figure, times
from leastnoise.report.markup import Markup, code, element, joined, paragraph, table
from leastnoise.report.pictures import bars_of
from leastnoise.report.simple_ways import Baselines
from leastnoise.report.tables import aim_of

# Lines of a table that has one for every batch, or every attribute.
_MOST_LINES = 200

_STATUS_IN_WORDS = {
    "optimal": "no noise of this kind does better, up to the gap",
    "stopped": "close to the optimum, which this method does not quite prove",
    "heuristic": "this method does not aim at the optimum",
}


def _status_in_words(plan: Plan) -> str:
    if plan.certificate.status == "stopped" and plan.ended not in ("converged", None):
        return "at most the gap above the optimum; a longer search may do better"
    return _STATUS_IN_WORDS[plan.certificate.status]


def asked(plan: Plan) -> Markup:
    """The batches of counts, and the attributes they are about."""
    workload, schema = plan.workload, plan.workload.schema
    m, n = workload.shape
    aim = "" if plan.strategy is None else f" The aim was the least {_aim(plan)}."
    blocks = workload.blocks
    parts: list[str] = [
        paragraph(
            f"{counted(m, 'count')} in {_batches(len(blocks))}, over a table of {counted(n, 'cell')}.{aim}"
        ),
        _table(
            "the batches of counts",
            ["batch", "kind", ">counts", ">weight", "accuracy asked"],
            [
                (block.name, block.query.kind, in_figures(block.n_rows), _weight(block), _target(block))
                for block in blocks[:_MOST_LINES]
            ],
        ),
        _first(_batches(len(blocks)), len(blocks)),
    ]
    if schema is not None:
        parts += [
            paragraph(
                "Attributes and their values were declared beforehand, not read from the data. A record with "
                "a value that is not counted is in none of these counts, the total included; how many there "
                "were is not known."
            ),
            _table(
                "the attributes",
                ["attribute", "kind", ">values", "from, to", "other values", "no value"],
                [
                    (
                        name,
                        schema[name].kind,
                        in_figures(schema[name].size),
                        _value_range(schema[name]),
                        _policy(schema[name], schema[name].outside),
                        _policy(schema[name], schema[name].null),
                    )
                    for name in schema.names[:_MOST_LINES]
                ],
            ),
            _first(counted(len(schema.names), "attribute"), len(schema.names)),
        ]
    return joined(*parts)


def accuracy(plan: Plan) -> Markup:
    """The standard errors of every batch, beside what was asked of them."""
    if plan.spreads is None:
        return paragraph(
            f"Not known: what method {plan.method} measures depends on the data, and so do its errors. "
            "Answers may be biased; leastnoise.compare(data=...) simulates it on public data.",
            "care",
        )
    has_targets = plan.workload.has_targets
    rows = []
    for block, spread in list(zip(plan.workload.blocks, plan.spreads, strict=True))[:_MOST_LINES]:
        row = [block.name, *(figure(value) for value in (spread.low, spread.median, spread.high))]
        rows.append([*row, _target(block), _met(plan, block, spread.high)] if has_targets else row)
    heads = ["batch", ">least", ">median", ">largest", *(["asked", "reached"] if has_targets else [])]
    what = (
        "about two thirds of all answers lie within one of the truth, and nineteen in twenty within two."
        if plan.privacy.noise == "gaussian"
        else "the root of the mean squared distance from the truth."
    )
    parts: list[str] = [
        paragraph(f"Standard errors: {what}"),
        _table("standard errors of every batch", heads, rows),
        _first(_batches(len(plan.workload.blocks)), len(plan.workload.blocks)),
    ]
    kept = words.targets_kept(plan)
    if kept is not None:
        # Before the table: whether targets are met is what a reader looks for.
        parts.insert(0, paragraph(kept, "met" if plan.factor is not None and plan.factor <= 1 else "missed"))
    return joined(*parts)


def privacy(plan: Plan, *, is_released: bool, is_truncated: bool | None = None) -> Markup:
    """What is promised to whom, in plain words; `is_truncated` is that of the release."""
    goal, k = plan.privacy, plan.privacy.records_per_person
    record = "the record" if k == 1 else f"up to {k} records"
    if is_truncated:
        record = "all records"
    numbers = "these numbers" if is_released else "the numbers"
    if goal.neighbours == "add-remove":
        change, question = f"Without {record} of one person", "whether a certain person is in the table"
    else:
        change = f"With {record} of one person replaced by any other"
        question = "which of two records a certain person has"
    together = ", for this plan and those before it together" if plan.after else ""
    guess = f"{100 * words.likeliest_guess(plan):.4g}%"
    warning = words.large_delta(plan)
    return joined(
        _begun("The promise", f"{goal.statement(by_person=bool(is_truncated))}{together}."),
        paragraph(
            words.spent(plan, "This release spent" if is_released else "Measuring it once would spend")
        ),
        *(paragraph(f"{line[0].upper()}{line[1:]}.") for line in plan.after_in_words()),
        paragraph(warning, "care") if warning else "",
        _begun("Who is protected", words.who_is_protected(plan, is_truncated)),
        _begun(
            "What it means",
            f"{change}, {numbers} would have come out nearly as likely. {_factor_in_words(plan)}",
        ),
        _begun(
            "In a guess",
            "Somebody who knows everything else, and finds either answer as likely beforehand, is right at "
            f"most {guess} of the time about {question}, from {numbers} alone. A coin has 50%.",
        ),
        paragraph("Repeating it, or releasing anything else about the same people, adds to this."),
    )


def proof(plan: Plan, *, is_released: bool) -> Markup:
    """The certificate, and how to recheck it."""
    found = paragraph(f"Method {plan.method}: {plan.note}.")
    if plan.strategy is None:
        nothing = (
            "Nothing is proved about its accuracy. A plan of another method states its errors and a bound."
        )
        return joined(found, paragraph(nothing, "care"))
    certificate = plan.certificate
    among = f"for any {certificate.among} noise shaped to these counts"
    rows = [
        ("achieved", f"{certificate.achieved:,.9g}", certificate.unit),
        ("lower bound", f"{certificate.lower_bound:,.9g}", among),
        ("gap", f"{certificate.gap:.1e}", "achieved over bound, less one"),
        ("status", certificate.status, _status_in_words(plan)),
        ("search", plan.ended or "not recorded", f"the search {ending_to_text(plan.ended)}"),
    ]
    source = 'ln.load_release("FILE.release").plan' if is_released else 'ln.load_plan("FILE.plan")'
    return joined(
        found,
        paragraph(f"{words.reached(plan)}. {words.bound(plan)} {words.verdict(plan)}"),
        _table("the certificate", ["certificate", ">value", "meaning"], rows),
        paragraph("To recheck it, from the saved file alone:"),
        code(
            "import leastnoise as ln\n\n"
            f"plan = {source}\n"
            "# loading recomputes what one person spends, in exact arithmetic\n"
            "print(ln.certify(plan.workload, plan))\n"
            "# recomputes both sides of the proof"
        ),
    )


def simple_ways(plan: Plan, simple: Baselines) -> Markup:
    """What noise that is not shaped would have cost, under the same privacy."""
    trios = [
        (math.sqrt(spread.mean_square), per_count, per_cell)
        for spread, per_count, per_cell in zip(
            plan.spreads or (), simple.per_count.rms, simple.per_cell.rms, strict=True
        )
    ][:_MOST_LINES]
    largest = max(value for trio in trios for value in trio if math.isfinite(value))
    rows = []
    for name, trio in zip(plan.workload.names, trios, strict=False):
        rows.append([name, *_compared(*trio), bars_of(trio, largest)])
    aim, values = aim_of(plan, simple)
    rows.append([aim, *_compared(*values), bars_of(values, max(values))])
    each_count = ">each count, at most" if simple.per_count.is_bound else ">each count"
    heads = ["batch", ">this plan", each_count, ">times", ">each cell", ">times", "all three"]
    return joined(
        paragraph(
            "The same privacy without shaping the noise: noise on each count as it was asked, or on each "
            "cell of the table, added up. Root mean squares of the standard errors, and how many times as "
            "much they are; last, what the plan was chosen for."
        ),
        _table("standard errors of simpler ways", heads, rows),
        _first(_batches(len(plan.workload.blocks)), len(plan.workload.blocks)),
    )


# ------------------------------------------------------------------------------------ pieces


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table whose first column names the row; a head that begins with > has numbers below it."""
    kinds = ["number" if head.startswith(">") else None for head in heads]
    top = [
        element("th", head.removeprefix(">"), scope="col", class_=kind)
        for head, kind in zip(heads, kinds, strict=True)
    ]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    return table(caption, top, lines)


def _compared(ours: float, per_count: float, per_cell: float) -> list[str]:
    """Three figures, the last two with how many times the first they are."""
    others = [text for other in (per_count, per_cell) for text in (figure(other), times(ours, other))]
    return [figure(ours), *others]


def _first(what: str, n: int) -> Markup:
    """A word where a table was cut."""
    return paragraph(f"The first {_MOST_LINES} of {what}.", "note") if n > _MOST_LINES else Markup("")


def _batches(n: int) -> str:
    return "1 batch" if n == 1 else f"{n:,} batches"


def _aim(plan: Plan) -> str:
    if plan.objective.kind == "total-within-caps":
        return "total variance that keeps within the targets"
    return plan.objective.unit(plan.workload, has_goal=plan.has_goal)


def _value_range(attribute: Attribute) -> str:
    """The first and the last value of an attribute."""
    first, last = attribute.label(0), attribute.label(attribute.size - 1)
    return first if first == last else f"{first} … {last}"


def _policy(attribute: Attribute, chosen: str) -> str:
    """What becomes of a record whose value was not declared, or that has none."""
    if chosen == "other":
        return f"counted as {attribute.other}"
    return "counted at the nearest end" if chosen == "clamp" else "not counted"


def _weight(block: Block) -> str:
    low, high = f"{block.weights.min():.4g}", f"{block.weights.max():.4g}"
    return low if low == high else f"{low} to {high}"


def _target(block: Block) -> str:
    """What was asked of a batch: a standard error, or an interval or a share as it was asked."""
    if block.query.within is not None or isinstance(block.query.stderr, str):
        return target_in_words(block)
    return words.target_of(block).removeprefix("target ").removeprefix("targets ") or "–"


def _met(plan: Plan, block: Block, largest: float) -> Markup:
    """Whether a batch keeps its targets, row by row where it has several."""
    share = words.used_of(plan, block, largest)
    if share is None:
        return Markup("–")
    if share <= 1:
        return element("span", f"met, {100 * share:.3g}% used", class_="met")
    return element("span", f"{share:.3g} times", class_="missed")


def _begun(first: str, line: str) -> Markup:
    """A paragraph with words before it that say what it is about."""
    return element("p", element("strong", f"{first}."), " ", line)


def _factor_in_words(plan: Plan) -> str:
    """What ε and δ say about probabilities."""
    delta = None if plan.mu is None else words.shown_delta(plan)
    epsilon = plan.epsilon(delta=delta)
    try:
        grown = at_least(math.nextafter(math.exp(epsilon), math.inf))
    except OverflowError:
        grown = "more than a float holds"
    rest = "" if delta is None else f", plus δ = {at_least(delta)}"
    return (
        f"Any outcome has at most e^ε = {grown} times the probability that it would have had otherwise{rest}."
    )
