"""The outcomes as pages of the documentation: one for each paper, and one that draws them together."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from leastnoise.core.whole_file import written_whole
from leastnoise.papers.reproductions.catalogue import PAPERS
from leastnoise.papers.reproductions.printed import errata
from leastnoise.papers.reproductions.rows import NOTE
from leastnoise.papers.reproductions.running import Outcome
from leastnoise.papers.reproductions.verdicts import Verdict
from leastnoise.papers.reproductions.writing import as_markdown, caption, pivot, with_printed


def write_pages(outcomes: Sequence[Outcome], files: Path, folder: Path, today: datetime.date) -> list[Path]:
    """Write the pages, with the pictures and tables that `write` has put under `files`; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / "index.md": _index(outcomes, today)}
    for paper in PAPERS:
        chosen = [outcome for outcome in outcomes if outcome.reproduction.paper == paper]
        if chosen:
            pages[folder / f"{paper}.md"] = _paper(paper, chosen)
            for outcome in chosen:
                _copy(outcome, files, folder)
    for path, text in pages.items():
        with written_whole(path) as new:
            new.write_text(text, encoding="utf-8")
    return list(pages)


def _copy(outcome: Outcome, files: Path, folder: Path) -> None:
    target = folder / outcome.reproduction.paper
    target.mkdir(exist_ok=True)
    for suffix in (".csv", ".svg"):
        source = files / f"{outcome.reproduction.name}{suffix}"
        if source.exists():
            shutil.copyfile(source, target / source.name)


def _index(outcomes: Sequence[Outcome], today: datetime.date) -> str:
    machines = list(dict.fromkeys(machine for outcome in outcomes for machine in outcome.machines))
    n_of = {
        verdict: sum(check.verdict == verdict for outcome in outcomes for check in outcome.checks)
        for verdict in ("reached", "better", "differs", "not run")
    }
    shown = [paper for paper in PAPERS if any(o.reproduction.paper == paper for o in outcomes)]
    lines = [
        "# Reproductions",
        "",
        "Every table and figure of the five papers that leastnoise builds on, computed again, with the "
        "printed numbers beside ours and the certified optimum beside both. Any of them can be run:",
        "",
        "```bash",
        "leastnoise reproduce                             # the list",
        "leastnoise reproduce fitness-for-use/table-2     # one, at the paper's own size",
        "leastnoise reproduce all --quick                 # all, small, in minutes",
        "```",
        "",
        "A check is *reached* within half a unit of the last printed digit (or the spread of random draws, "
        "where the paper drew its workload), *better* where ours is lower and lower is better, and *differs* "
        "otherwise, with the reason. *Not run* is what this size or this machine does not hold.",
        "",
        f"Made on {today.isoformat()} by `leastnoise reproduce all --docs docs/reproductions --time-limit "
        f"{outcomes[0].setting.time_limit:g}`, on {'; '.join(machines)}. What could not be run at full "
        "size in the time that the machines were had for is noted, or shown at the quick size.",
        "",
        f"Of {sum(n_of.values()):,} checks {n_of['reached']:,} are reached, {n_of['better']:,} better, "
        f"{n_of['differs']:,} differ and {n_of['not run']:,} were not run.",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        *shown,
        "```",
        "",
        "| name | what it shows | verdict | checks | size | work |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for outcome in outcomes:
        found = outcome.reproduction
        n_good = sum(check.verdict in ("reached", "better") for check in outcome.checks)
        n_run = sum(check.verdict != "not run" for check in outcome.checks)
        link = f"[{found.name}]({found.paper}.md#{_anchor(found.name)})"
        lines.append(
            f"| {link} | {found.title} | {outcome.verdict} | {n_good} of {n_run} | {outcome.setting.size} | "
            f"{outcome.seconds:,.1f} s |"
        )
    lines += ["", *_listed("## Where ours is better", outcomes, "better")]
    lines += ["", *_listed("## Where the papers and we disagree", outcomes, "differs")]
    return "\n".join([*lines, "", *_errata(shown)]) + "\n"


def _errata(papers: Sequence[str]) -> Iterator[str]:
    yield "## Errata of the papers"
    yield ""
    for erratum in errata():
        if erratum.paper in papers:
            anchor = _anchor(f"{erratum.paper}/{erratum.seen_in}")
            seen = f" ([{erratum.seen_in}]({erratum.paper}.md#{anchor}))" if erratum.seen_in else ""
            yield f"- {PAPERS[erratum.paper]}, {erratum.where}: {erratum.what}{seen}."


def _listed(head: str, outcomes: Sequence[Outcome], verdict: Verdict) -> list[str]:
    """Every check of a verdict, paper by paper; those with one reason stand together under it."""
    lines = [head, ""]
    for paper in PAPERS:
        by_reason: dict[str, list[str]] = {}
        for outcome in outcomes:
            found = outcome.reproduction
            for check in outcome.checks:
                if found.paper == paper and check.verdict == verdict:
                    link = f"[{found.name.partition('/')[2]}]({paper}.md#{_anchor(found.name)})"
                    told = f"{link}, {check.claim}: printed {check.printed}, ours {check.ours}"
                    by_reason.setdefault(check.why, []).append(told)
        if by_reason:
            lines += [f"### {PAPERS[paper]}", "", *_under_reasons(by_reason), ""]
    return lines if len(lines) > 2 else [*lines, "Nowhere."]


def _under_reasons(by_reason: dict[str, list[str]]) -> Iterator[str]:
    for why, told in by_reason.items():
        if len(told) == 1 or not why:
            yield from (f"- {one}" + (f". *{_sentence(why)}*" if why else "") for one in told)
        else:
            yield f"- *{_sentence(why)}*"
            yield from (f"  - {one}" for one in told)


def _sentence(why: str) -> str:
    """The reason with a capital, unless it begins with a symbol or a name."""
    first = why.split()[0]
    return why[0].upper() + why[1:] if first.isalpha() and first.islower() and first.isascii() else why


def _paper(paper: str, outcomes: Sequence[Outcome]) -> str:
    lines = [f"# {PAPERS[paper]}", ""]
    for outcome in outcomes:
        found = outcome.reproduction
        stem = found.name.partition("/")[2]
        rows = with_printed(outcome.rows, found.printed)
        head, body = pivot(rows, found.drawing)
        lines += [
            f"## {found.name}",
            "",
            f"{found.title}. Printed in {found.printed.page}; computed by `{found.made_by}`. "
            f"Verdict: **{outcome.verdict}**, {outcome.setting.size} size. All numbers: "
            f"{{download}}`{stem}.csv <{paper}/{stem}.csv>`.",
            "",
            f"![{found.title}]({paper}/{stem}.svg)",
            "",
            f"{caption(outcome)}:",
            "",
            as_markdown(head, body) if body else "No point of this size has such a number.",
            "",
        ]
        notes = list(dict.fromkeys(str(row[NOTE]) for row in outcome.rows if row.get(NOTE)))
        lines += [f"- {note}" for note in [*notes, *found.notes]]
        lines += ["", "| check | printed | ours | verdict |", "| --- | --- | --- | --- |"]
        for check in outcome.checks:
            why = f": {check.why}" if check.why else ""
            row = (check.claim, check.printed, check.ours, f"{check.verdict}{why}")
            lines.append(f"| {' | '.join(text.replace('|', '/') for text in row)} |")
        lines.append("")
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return name.replace("/", "")
