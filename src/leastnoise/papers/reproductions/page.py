"""Pages of the documentation: one for each table or figure, one for each paper, and one for all of them.

The page of a table or figure is made from its outcome. The others are made from the records of all that a
folder holds, so that running one name again leaves the rest as it is.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leastnoise.core.whole_file import written_whole
from leastnoise.papers.reproductions.catalogue import PAPERS, catalogue
from leastnoise.papers.reproductions.printed import errata
from leastnoise.papers.reproductions.rows import NOTE
from leastnoise.papers.reproductions.running import Outcome
from leastnoise.papers.reproductions.verdicts import KINDS, Check, kind_of
from leastnoise.papers.reproductions.writing import (
    as_markdown,
    as_text,
    caption,
    checks_table,
    pivot,
    with_printed,
)

# A table of more lines than this is folded.
_MAX_OPEN_LINES = 12

# What `write` has written of an outcome, as it is read back.
Record = Mapping[str, Any]


def write_pages(outcomes: Sequence[Outcome], files: Path, folder: Path) -> list[Path]:
    """Write the pages of these outcomes, and those that list everything; gives their paths.

    Args:
        files: where `write` has put pictures, tables and records.
    """
    pages: dict[Path, str] = {}
    for outcome in outcomes:
        name = outcome.reproduction.name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".csv", ".svg", ".json"):
            source = files / f"{name}{suffix}"
            if source.exists():
                shutil.copyfile(source, folder / f"{name}{suffix}")
        pages[folder / f"{name}.md"] = _page(outcome)
    records = read_records(folder)
    pages[folder / "index.md"] = _index(records)
    for paper in PAPERS:
        mine = [record for record in records if _paper_of(record) == paper]
        if mine:
            pages[folder / f"{paper}.md"] = _paper(paper, mine)
    for path, text in pages.items():
        with written_whole(path) as new:
            new.write_text(text, encoding="utf-8")
    return list(pages)


def read_records(folder: Path) -> list[Record]:
    """The records in a folder of results or of documentation, in the order of the list of names."""
    places = {found.name: place for place, found in enumerate(catalogue())}
    records: list[Record] = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*/*.json"))]
    return sorted(records, key=lambda record: places.get(str(record["name"]), len(places)))


def summary(records: Sequence[Record]) -> str:
    """How many checks of each paper were reached, better, differ, or were not run, for a terminal."""
    head, body = _counts(records)
    return as_text(head, body)


def _counts(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    body = []
    for paper, title in PAPERS.items():
        mine = [record for record in records if _paper_of(record) == paper]
        if mine:
            body.append([title, str(len(mine)), *_tally(mine)])
    return ["paper", "tables and figures", *KINDS], [*body, ["all", str(len(records)), *_tally(records)]]


def _tally(records: Iterable[Record]) -> list[str]:
    found = Counter(check["kind"] for record in records for check in record["checks"])
    return [str(found[kind]) for kind in KINDS]


def _paper_of(record: Record) -> str:
    return str(record["name"]).partition("/")[0]


# One table or figure -------------------------------------------------------------------------


def _page(outcome: Outcome) -> str:
    found = outcome.reproduction
    stem = found.name.partition("/")[2]
    tally = Counter(map(kind_of, outcome.checks))
    told = ", ".join(f"{tally[kind]} {kind}" for kind in KINDS if tally[kind])
    smaller = " **Smaller than the paper's own sizes.**" if outcome.setting.is_quick else ""
    rows = with_printed(outcome.rows, found.printed, found.drawing)
    lines = [
        f"# {found.name}",
        "",
        f"{_sentence(found.title)}. Printed in {found.printed.page}.{smaller}",
        "",
        f"Of {len(outcome.checks)} checks: {told}.",
        "",
        as_markdown(*checks_table(outcome)),
        "",
        *_reasons(outcome.checks),
        f"![{found.title}]({stem}.svg)",
        "",
    ]
    head, body = pivot(rows, found.drawing)
    table = as_markdown(head, body) if body else "This size has no such points."
    lines += _folded(f"{_sentence(caption(outcome))}", [table], is_open=len(body) <= _MAX_OPEN_LINES)
    lines += _folded("Choices where the paper is silent", [f"- {note}" for note in found.notes])
    notes = list(dict.fromkeys(str(row[NOTE]) for row in outcome.rows if row.get(NOTE)))
    lines += _folded("Notes from the methods", [f"- {note}" for note in notes])
    lines += [
        f"All numbers: {{download}}`{stem}.csv <{stem}.csv>`, computed by `{found.made_by}` in "
        f"{outcome.seconds:,.0f} s of work ({'; '.join(outcome.machines)}). Again: "
        f"`leastnoise reproduce {found.name}`.",
        "",
    ]
    return "\n".join(lines)


def _folded(title: str, content: Sequence[str], *, is_open: bool = False) -> list[str]:
    """Something long, to be opened by a click; nothing where there is none."""
    if not content:
        return []
    state = " open" if is_open else ""
    return [f"<details{state}>", f"<summary>{title}</summary>", "", *content, "", "</details>", ""]


def _reasons(checks: Sequence[Check]) -> Iterator[str]:
    """Why some differ, cause by cause; what makes others better; why others were not run."""
    causes = {check.cause: None for check in checks if check.verdict == "differs"}
    for cause in causes:
        mine = [check for check in checks if check.verdict == "differs" and check.cause == cause]
        if cause is None:
            yield "**Differs, no cause found.**"
        else:
            told = f"Tested: {cause.tested}" if cause.is_found else f"No cause found. Tried: {cause.tried}"
            yield f"**{_sentence(cause.what)}.** {told}."
        yield ""
        yield from (f"- {check.claim}" + (f": {check.why}" if check.why else "") for check in mine)
        yield ""
    for verdict, title in (("better", "Better"), ("not run", "Not run")):
        mine = [check for check in checks if check.verdict == verdict and (check.why or check.evidence)]
        if mine:
            yield f"**{title}:**"
            yield ""
            yield from (f"- {check.claim}: {check.reason}" for check in mine)
            yield ""


def _sentence(text: str) -> str:
    """A text with a capital, unless it begins with a symbol or a name."""
    first = text.split()[0]
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() and first.isascii() else text


# A paper, and all of them --------------------------------------------------------------------


def _paper(paper: str, records: Sequence[Record]) -> str:
    body = [
        [f"[{_stem(record)}]({record['name']}.md)", str(record["title"]), *_tally([record])]
        for record in records
    ]
    lines = [
        f"# {PAPERS[paper]}",
        "",
        as_markdown(["name", "what it shows", *KINDS], [*body, ["all", "", *_tally(records)]]),
        "",
        "```{toctree}",
        ":hidden:",
        *(str(record["name"]) for record in records),
        "```",
        "",
        *_causes(records, f"{paper}/"),
    ]
    found = [erratum for erratum in errata() if erratum.paper == paper]
    if found:
        lines += ["## Errata of the paper", ""]
        for erratum in found:
            seen = f" ([{erratum.seen_in}]({paper}/{erratum.seen_in}.md))" if erratum.seen_in else ""
            lines.append(f"- {erratum.where}: {erratum.what}{seen}.")
        lines.append("")
    return "\n".join(lines)


def _stem(record: Record) -> str:
    return str(record["name"]).partition("/")[2]


def _causes(records: Sequence[Record], folder: str) -> Iterator[str]:
    """Why it differs, cause by cause, each with the tables and figures where it does."""
    by_cause: dict[tuple[str, str, str], Counter[str]] = {}
    for record in records:
        for check in record["checks"]:
            if check["verdict"] == "differs":
                cause = check["cause"] or {"what": "no cause found", "tested": "", "tried": ""}
                key = cause["what"], cause["tested"], cause["tried"]
                by_cause.setdefault(key, Counter())[_stem(record)] += 1
    for title, is_tested in (("Differs, cause tested", True), ("Differs, no cause found", False)):
        chosen = {key: places for key, places in by_cause.items() if bool(key[1]) == is_tested}
        if chosen:
            yield f"## {title}"
            yield ""
            for (what, tested, tried), places in chosen.items():
                told = f"Tested: {tested}" if tested else f"Tried: {tried}" if tried else ""
                at = ", ".join(f"[{stem}]({folder}{stem}.md) ({n})" for stem, n in places.items())
                yield f"- **{_sentence(what)}.** {told}. In {at}."
            yield ""


def _index(records: Sequence[Record]) -> str:
    head, body = _counts(records)
    links = {title: f"[{title}]({paper}.md)" for paper, title in PAPERS.items()}
    body = [[links.get(line[0], line[0]), *line[1:]] for line in body]
    lines = [
        "# Reproductions",
        "",
        "Every table and figure of the five papers that leastnoise builds on, computed again: the "
        "printed numbers next to ours, and the certified optimum next to both.",
        "",
        as_markdown(head, body),
        "",
        "*Reached*: within half a unit of the last printed digit, or within the spread of random "
        "draws where the paper drew its workload at random. *Better*: lower where lower is better, "
        "shown by a proved bound, by the exact variance of a plan, or by simulation; the page says "
        "which. *Differs, cause tested*: a run has shown the cause. *Not run*: this size has no such "
        "point, or our time limit ended a search it depends on. Tables and pictures mark searches "
        "that were cut off, and no check judges them.",
        "",
        "```bash",
        "leastnoise reproduce                             # the list",
        "leastnoise reproduce fitness-for-use/table-2     # one, at the paper's own size",
        "leastnoise reproduce all --quick                 # all, small",
        "leastnoise reproduce --summary                   # the counts above, of what you have run",
        "```",
        "",
        "```{toctree}",
        ":hidden:",
        *(paper for paper in PAPERS if any(_paper_of(record) == paper for record in records)),
        "```",
        "",
        *_shortest_causes(records),
    ]
    return "\n".join(lines)


def _shortest_causes(records: Sequence[Record]) -> Iterator[str]:
    """For every paper in one line each: why it differs, most frequent first."""
    yield "## Why some differ"
    yield ""
    for paper, title in PAPERS.items():
        found: Counter[tuple[str, bool]] = Counter()
        for record in records:
            if _paper_of(record) == paper:
                for check in record["checks"]:
                    if check["cause"] and check["verdict"] == "differs":
                        found[check["cause"]["what"], bool(check["cause"]["tested"])] += 1
        if found:
            yield f"**[{title}]({paper}.md)**"
            yield ""
            for (what, is_tested), n in found.most_common():
                unknown = "" if is_tested else " *No cause found.*"
                yield f"- {_sentence(what)} ({n}).{unknown}"
            yield ""
