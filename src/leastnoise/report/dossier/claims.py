"""The claims page: what a release guarantees and what it does not, by the factors of NIST SP 800-226.

Reference:
    Near, Darais, Lefkovitz and Howarth (2025), Guidelines for Evaluating Differential Privacy Guarantees,
    NIST SP 800-226.
"""

from __future__ import annotations

import re

from leastnoise.core.printable import printable
from leastnoise.core.progress import ending_to_text
from leastnoise.release import Release
from leastnoise.report import plan_sentences as words
from leastnoise.report.dossier.facts import (
    claim_of,
    domain_sentence,
    noise_sentence,
    unprotected_sentence,
    whole_plan,
)
from leastnoise.report.publication import Publication

TO_SAY = "**To be completed by a person.**"
# What only the publisher can say, by the heading under which it belongs.
HUMAN = {
    "Trust model": "who may see the table before noise is added, and why they may",
    "Data security and access control": "how the table, the ledger and the machine are protected",
    "Data collection": "how records were collected, on which legal basis, and how long they are kept",
    "Choice of parameters": "why these parameters are acceptable for these people",
}
_NOT_CLAIMED = (
    "Groups: what holds for everybody, or for a large group, can be learned; statistics are for that.",
    "People who are related: the promise is about the unit above, and not about a family or a household, "
    "unless that is the unit.",
    "Other releases: anything else that is published about the same people adds to the loss.",
    "Side channels: the time that drawing noise takes, a compromised machine, a restored backup of a ledger.",
    "The truth of the table: noise does not correct records that are wrong or missing.",
)


def claims_page(release: Release, publication: Publication) -> str:
    """The page, in Markdown."""
    plan, claim = whole_plan(release), claim_of(release)
    parameters = ", ".join(f"{name} = {value!r}" for name, value in claim.parameters.items())
    title = publication.title or f"A private release of {release.plan.workload.shape[0]:,} counts"
    sections: list[tuple[str, list[str]]] = [
        ("Guarantee", [f"{claim.variant}: {claim.details}", f"Parameters: {parameters}, rounded up."]),
        ("Unit of privacy", [f"{claim.unit.capitalize()}.", claim.neighbours]),
        ("Data domain", [in_markdown(domain_sentence(plan))]),
        ("Unprotected quantities", [unprotected_sentence(plan)]),
        ("Choice of parameters", [_to_say("Choice of parameters")]),
        ("Algorithm and its correctness", [noise_sentence(plan), _method(release)]),
        ("Utility", _utility(release)),
        ("Bias", _bias(release)),
        ("Composition", _composition(release)),
        ("Trust model", ["Central: whoever runs leastnoise reads the table itself.", _to_say("Trust model")]),
        ("Data security and access control", [_to_say("Data security and access control")]),
        ("Data collection", [_to_say("Data collection")]),
        ("Assumptions", _assumptions(release)),
        ("What is not claimed", [f"- {line}" for line in _NOT_CLAIMED]),
    ]
    said = [f"- {name}: {in_markdown(text)}" for name, text in publication.to_dict().items()]
    lines = [f"# {in_markdown(title)}: what is claimed", "", *said, *([""] if said else [])]
    lines.append(
        "By the factors of NIST SP 800-226. Everything that is not marked follows from the release itself."
    )
    for heading, paragraphs in sections:
        lines += ["", f"## {heading}", ""]
        between = "\n" if paragraphs and paragraphs[0].startswith("- ") else "\n\n"
        lines.append(between.join(paragraphs))
    return "\n".join(lines) + "\n"


def _to_say(heading: str) -> str:
    return f"{TO_SAY} Say {HUMAN[heading]}."


def in_markdown(text: str) -> str:
    """A text of the publisher or the schema, in which nothing is markup."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|&~-])", r"\\\1", printable(text))


def _method(release: Release) -> str:
    plan = whole_plan(release)
    if plan.strategy is None:
        return f"Method {in_markdown(plan.method)}, whose measurements depend on the data."
    return (
        f"Method {in_markdown(plan.method)}; the search {ending_to_text(plan.ended)}. {words.verdict(plan)}"
    )


def _utility(release: Release) -> list[str]:
    spreads = release.plan.spreads
    if spreads is None:
        return ["Standard errors are not known, as the method depends on the data."]
    low, high = min(s.low for s in spreads), max(s.high for s in spreads)
    ends = f"{low:,.4g} to {high:,.4g}"
    return [f"Standard errors of the noise: {ends}. Every row of the answers has its own, and an interval."]


def _bias(release: Release) -> list[str]:
    if release.plan.strategy is None:
        said = ["Answers may be biased, as the method depends on the data."]
    else:
        whom = ", of the records counted," if words.leaves_out(release) else ""
        said = [
            f"The answers as measured{whom} are unbiased: the noise has mean zero and nothing is cut off."
        ]
    if release.adjusted is not None:
        said.append(in_markdown(release.adjusted.statement()))
    if release.presented is not None:
        said.append(in_markdown(release.presented.statement()))
    if release.is_truncated:
        said.append("Records of one person beyond the limit were left out, so counts may be too low.")
    found = [in_markdown(line) for line in words.not_counted_sentences(release)]
    return [*said, *(found or ["How many records match no declared value was not measured."])]


def _composition(release: Release) -> list[str]:
    said = ["All counts of this release share the guarantee above: it is not one of each."]
    if release.receipt is None:
        return [
            *said,
            "No ledger recorded this release: what else was released about these people is not known.",
        ]
    receipt = release.receipt
    return [
        *said,
        f"A ledger recorded it as {in_markdown(receipt.release_id)} of {in_markdown(receipt.dataset)}, with "
        f"head `{receipt.head}`. It adds up everything that is released from this dataset and refuses what "
        "exceeds its limit.",
    ]


def _assumptions(release: Release) -> list[str]:
    plan = whole_plan(release)
    said = [
        "- The schema was declared from public knowledge and not from the table.",
        "- The operating system's generator gives independent random bits.",
        "- Whatever else is released about these people is recorded in the same ledger."
        if release.receipt is not None
        else "- Nothing else is released about these people: no ledger watches over it.",
    ]
    if not release.is_truncated:
        k = plan.privacy.records_per_person
        said.append(
            f"- Nobody has more than {'one record' if k == 1 else f'{k} records'}; this was not enforced."
        )
    return said
