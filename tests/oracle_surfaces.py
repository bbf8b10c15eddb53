"""Part (c): wherever a release shows a number, it is the same number, under words that say the same.

What each row counts is known from part (a); here it is looked up under every label, head and column that a
reader could take it from. No order of rows is taken for granted where words say which row it is.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core.errors import LeastnoiseError, QueryError, TooLargeError
from leastnoise.report import write_answers
from oracle import GAUSSIAN_REACH, LAPLACE_REACH, Published
from oracle_cases import DATA_DEPENDENT
from oracle_labels import Reader
from oracle_queries import Described, Maker, Row, times

# Columns of a file of answers that are no attribute.
OWN = ("query", "label", "answer", "unadjusted", "stderr", "lower_95", "upper_95")
# A level at which a Gaussian interval reaches eight standard errors, and misses once in 10^15 answers.
SURE = 1 - 1.2e-15
SHARES = (0.1, 0.25, 0.5, 0.75)


def judged_surfaces(found: Published, folder: Path) -> list[str]:
    """The complaints about one release."""
    frame = found.release.to_frame()
    table = [dict(row) for row in frame.to_dict("records")]
    rng = random.Random(found.case.seed)
    complaints = _named(found, table)
    complaints += _saved(found, folder) if rng.random() < 0.3 else []
    columns = _file(found, table, folder / rng.choice(["answers.csv", "answers.csv", "answers.json"]))
    complaints += columns.complaints
    if rng.random() < 0.4:
        complaints += _page(found, table, columns.said, folder)
        complaints += _text(found, table)
    if found.case.method not in DATA_DEPENDENT:
        complaints += _asked_later(found, rng)
        complaints += _ratios_later(found, rng)
        complaints += _deviations_later(found, rng)
        complaints += _quantiles(found, rng)
    return complaints


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-7)


# -------------------------------------------------------------------------------- frames


def _blocks(table: list[dict[str, Any]]) -> dict[str, range]:
    """The rows of every query, by its name."""
    blocks: dict[str, range] = {}
    for i, row in enumerate(table):
        first = blocks[row["query"]].start if row["query"] in blocks else i
        blocks[row["query"]] = range(first, i + 1)
    return blocks


def _named(found: Published, table: list[dict[str, Any]]) -> list[str]:
    """`release["name"]` and `answer`: the numbers of `to_frame`, under an index that says what they count."""
    complaints = []
    asked = {} if found.case.route == "sql" else dict(zip(_blocks(table), found.case.queries, strict=True))
    for name, rows in _blocks(table).items():
        frames = [(f"release[{name!r}]", found.release[name])]
        if name in asked and found.case.route == "python":
            frames.append((f"answer to {name!r}", found.release.answer(asked[name].python)))
        for what, own in frames:
            if len(own) != len(rows):
                complaints.append(f"{what} has {len(own)} rows, not {len(rows)}")
                continue
            for i, index, (_, shown) in zip(rows, own.index, own.iterrows(), strict=True):
                words = index if isinstance(index, tuple) else (index,)
                for column in ("answer", "stderr", "lower", "upper"):
                    if column in shown and not _same(shown[column], table[i][column]):
                        complaints.append(
                            f"{what} has {column} {shown[column]:.9g} at {index}, to_frame has "
                            f"{table[i][column]:.9g} at {table[i]['label']!r}"
                        )
                if not _says(found, i, list(zip(own.index.names, words, strict=True)), table[i]["label"]):
                    complaints.append(f"{what}: {index} under {own.index.names} is not what it counts")
    return complaints


def _says(found: Published, i: int, pairs: list[tuple[str, str]], label: str) -> bool:
    """Whether a row's columns say what it counts."""
    if [head for head, _ in pairs] == ["query"] and pairs[0][1] == label:
        return True
    return found.rows[i] in found.reader.columns(pairs, found.phrases[i])


# -------------------------------------------------------------------------------- files


class _Columns:
    """What a file of answers says of each row: (head, words) pairs; and what is wrong with it."""

    def __init__(self) -> None:
        self.said: list[list[tuple[str, str]]] = []
        self.complaints: list[str] = []


def _file(found: Published, table: list[dict[str, Any]], path: Path) -> _Columns:
    write_answers(found.release, path)
    out = _Columns()
    if path.suffix == ".json":
        lines = json.loads(path.read_text("utf-8"))["answers"]
    else:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [{_unmarked(k): _unmarked(v) for k, v in line.items()} for line in csv.DictReader(file)]
        # Beside the answers, and none of them: how many records no cell took.
        n_beside = 0 if found.release.not_counted is None else found.release.not_counted.row.n_measured
        lines = lines[: len(lines) - n_beside]
    if len(lines) != len(table):
        out.complaints.append(f"{path.name} has {len(lines)} rows, not {len(table)}")
        return out
    for i, (line, row) in enumerate(zip(lines, table, strict=True)):
        for column, own in (("answer", "answer"), ("stderr", "stderr"), ("lower_95", "lower")):
            if own in row and not _same(float(line[column]), row[own]):
                out.complaints.append(f"{path.name} row {i}: {column} is {line[column]}, not {row[own]:.9g}")
        if (line["query"], line["label"]) != (row["query"], row["label"]):
            out.complaints.append(f"{path.name} row {i} is called {line['label']!r}, not {row['label']!r}")
        pairs = [(head, words) for head, words in line.items() if head not in OWN and words]
        out.said.append(pairs)
        # Rows of a matrix, as of a sum under a condition on itself, say nothing of attributes.
        is_own = not pairs and (row["label"] in found.phrases[i] or found.case.route == "sql")
        if not is_own and not _says(found, i, pairs, row["label"]):
            out.complaints.append(f"{path.name} row {i}: {pairs} is not what {row['label']!r} counts")
    return out


def _unmarked(text: str) -> str:
    """A text without the apostrophe that keeps a spreadsheet from running it."""
    return text[1:] if re.match(r"'\s*[=+\-@]", text) else text


def _saved(found: Published, folder: Path) -> list[str]:
    """Whether a release is the same when it was saved and read, and its plan too."""
    again = ln.load_release(found.release.save(folder / "saved.release"))
    plan = ln.load_plan(found.release.plan.save(folder / "saved.plan"))
    is_same = list(again.plan.workload.labels) == list(found.release.plan.workload.labels)
    is_same &= list(plan.workload.labels) == list(found.release.plan.workload.labels)
    is_same &= bool(np.array_equal(again.answers, found.release.answers))
    if found.release.stderr is not None:
        is_same &= np.array_equal(again.stderr, found.release.stderr)
        is_same &= np.array_equal(plan.stderr, found.release.stderr)
    return [] if is_same else ["the release is another when it was saved and read"]


# -------------------------------------------------------------------------------- the page and the text


class _Page(HTMLParser):
    """The tables of the section "released", each under its headings: (h3, h4, panel, heads, rows)."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = self.part = ""
        self.batches: list[str] = []
        self.tables: list[tuple[str, str, str, list[str], list[list[str]]]] = []
        # Of small multiples, the values that one of them is about.
        self.panel = ""
        self._is_title = False
        self.ones: list[tuple[str, str, str]] = []
        self._section = ""
        self._open: list[str] = []
        self._words: list[str] = []
        self._heads: list[str] = []
        self._cells: list[list[str]] = []
        self._is_one = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self._section = given.get("id") or ""
        if tag == "table":
            self._heads, self._cells = [], []
        if tag == "tr":
            self._cells.append([])
        self._is_one = tag == "strong" and given.get("class") == "one"
        if tag in ("h3", "h4", "th", "td", "strong", "figcaption", "p"):
            self._words = []
        if tag in ("figcaption", "p"):
            self._is_title = given.get("class") == "title"

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._section != "released":
            return
        words = "".join(self._words)
        if tag == "h3":
            self.batch, self.part, self.panel = words, "", ""
            self.batches.append(words)
        elif tag == "h4":
            self.part, self.panel = words, ""
        elif tag in ("figcaption", "p"):
            if self._is_title:
                self.panel = words
            self._is_title = False
        elif tag in ("th", "td"):
            self._cells[-1].append(words)
            self._words = []
        elif tag == "strong" and self._is_one:
            self.ones.append((self.batch, self.part, words))
        elif tag == "table":
            self.tables.append((self.batch, self.part, self.panel, self._cells[0], self._cells[1:]))


def _page(
    found: Published, table: list[dict[str, Any]], said: list[list[tuple[str, str]]], folder: Path
) -> list[str]:
    """Every number of the page is that of the row that its headings name."""
    page = _Page()
    page.feed(ln.summarize(found.release).to_html(folder / "page.html").read_text("utf-8"))
    blocks = _blocks(table)
    if page.batches != [_shown(name) for name in blocks]:
        return [f"the page shows {page.batches}, not {list(blocks)}"]
    complaints = []
    names = {_shown(name): name for name in blocks}
    for batch, _, figure in page.ones:
        own = blocks[names[batch]]
        if not any(_rounds_to(table[i]["answer"], figure) for i in own):
            complaints.append(f"the page has {figure} for {batch!r}, which is no answer of it")
    seen: dict[tuple[str, str, bool], dict[tuple[str, ...], list[int]]] = {}
    for batch, part, panel, heads, rows in page.tables:
        own = [i for i in blocks[names[batch]] if not part or _belongs(part, said[i])]
        is_cross = "answer" not in heads[1:]
        within = panel if is_cross else ""
        if (batch, part, bool(within)) not in seen:
            seen[batch, part, bool(within)] = _known(table, own, said, has_panels=bool(within))
        known = seen[batch, part, bool(within)]
        for cells in rows:
            for place in range(1, len(heads) if is_cross else 2):
                key = (heads[0], cells[0], heads[place] if is_cross else "", within)
                figure = cells[place].split(" ")[0]
                matching = known.get(key, [])
                if not any(_rounds_to(table[i]["answer"], figure) for i in matching):
                    shown = [f"{table[i]['answer']:.9g}" for i in matching]
                    complaints.append(f"the page has {figure} in {batch!r} at {key}, the answer is {shown}")
    return complaints


def _belongs(part: str, pairs: list[tuple[str, str]]) -> bool:
    """Whether a row belongs to a table of a cube, which is called by what it crosses."""
    heads = sorted(re.sub("^(attribute_)+", "", head) for head, _ in pairs)
    return sorted(part.split(" × ")) == heads or (part == "everyone" and not pairs)


def _known(
    table: list[dict[str, Any]], own: list[int], said: list[list[tuple[str, str]]], *, has_panels: bool
) -> dict[tuple[str, ...], list[int]]:
    """Rows by every way in which a table names them: what stands down, its words, those across, the panel.

    Args:
        has_panels: whether there is a table for each value of some attributes, with one of the others down.
    """
    lengths: dict[str, set[str]] = {}
    for i in own:
        for head, words in said[i]:
            lengths.setdefault(head, set()).add(words)
    known: dict[tuple[str, ...], list[int]] = {}
    for i in own:
        alone = [h for h, _ in said[i] if len(lengths[h]) == 1]
        # What has a single row is not shown; a range listed twice is.
        for hidden in (some for n in range(len(alone) + 1) for some in combinations(alone, n)):
            pairs = [(h, w) for h, w in said[i] if h not in hidden]
            pairs = [(re.sub("^(attribute_)+", "", h), w) for h, w in pairs]
            for down, across, panel in _in_panels(pairs) if has_panels else _in_one_table(pairs):
                title, words = (", ".join(p[k] for p in down) for k in (0, 1))
                beside, above = (_shown(", ".join(p[1] for p in some)) for some in (across, panel))
                known.setdefault((_shown(title), _shown(words), beside, above), []).append(i)
        known.setdefault(("count", _shown(table[i]["label"]), "", ""), []).append(i)
    return known


Pairs = list[tuple[str, str]]


def _in_one_table(pairs: Pairs) -> Iterator[tuple[Pairs, Pairs, Pairs]]:
    """What may stand down and across. A file has one order of columns, the page that of each query."""
    ways: list[tuple[Pairs, Pairs]] = [(pairs, [])]
    for place in range(len(pairs)):
        rest = pairs[:place] + pairs[place + 1 :]
        ways += [(rest, pairs[place : place + 1]), (pairs[place : place + 1], rest)]
    for down, across in ways:
        for ordered in permutations(down):
            yield list(ordered), across, []


def _in_panels(pairs: Pairs) -> Iterator[tuple[Pairs, Pairs, Pairs]]:
    """One attribute down, some across, and the others, at least one, in the title of the panel."""
    for place, down in enumerate(pairs):
        rest = pairs[:place] + pairs[place + 1 :]
        for n in range(1, len(rest)):
            for ordered in permutations(rest):
                yield [down], list(ordered[:n]), list(ordered[n:])


def _shown(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"


def _rounds_to(value: float, figure: str) -> bool:
    """Whether a number is shown as this figure: to its last digit."""
    decimals = len(figure.partition(".")[2])
    # A figure halfway between two may go either way, within what floats of this size tell apart.
    most = 0.5000001 * 10.0**-decimals + 2 * math.ulp(value)
    return abs(float(figure.replace(",", "")) - value) <= most


def _text(found: Published, table: list[dict[str, Any]]) -> list[str]:
    """Every line of the summary in text has the answer that its label names."""
    lines = ln.summarize(found.release).text().splitlines()
    complaints = []
    for name, rows in _blocks(table).items():
        start = next((i for i, line in enumerate(lines) if line == name), None)
        if start is None:
            complaints.append(f"the text does not show {name!r}")
            continue
        for i, line in zip(rows, lines[start + 1 :], strict=False):
            if line.startswith("  … and "):
                break
            label = table[i]["label"]
            figure = line[2 + len(label) :].split()[0] if line.startswith(f"  {label} ") else "nan"
            if not _rounds_to(table[i]["answer"], figure):
                complaints.append(f"the text has {line!r} where {label!r} is {table[i]['answer']:.9g}")
    return complaints


# -------------------------------------------------------------------------------- asked later


def _reach(found: Published) -> float:
    return LAPLACE_REACH if found.release.plan.privacy.noise == "laplace" else GAUSSIAN_REACH


def _asked_later(found: Published, rng: random.Random) -> list[str]:
    """A further query, if the plan can answer it, has the true answer under the right labels."""
    case = found.case
    maker = Maker(rng, case.attributes, case.probes, case.n_cells)
    complaints = []
    for _ in range(2):
        asked: Described = maker.query(0)
        try:
            own = found.release.answer(asked.python)
        except QueryError:
            continue
        rows = asked.rows(len(case.probes))
        phrases = asked.phrases | {str(asked.name): found.reader.everyone, "everyone": found.reader.everyone}
        reader = Reader(case.attributes, case.probes)
        for row, index, (_, shown) in zip(rows, own.index, own.iterrows(), strict=True):
            truth = case.truth(row)
            rounding = 1e-9 * (1 + sum(abs(a) * n for a, n in zip(row, case.counts, strict=True)))
            if not abs(shown["answer"] - truth) <= _reach(found) * shown["stderr"] + rounding:
                complaints.append(
                    f"asked later, {index} of {asked.toml} is {shown['answer']:.9g}, not {truth}"
                )
            words = index if isinstance(index, tuple) else (index,)
            readings = reader.columns(zip(own.index.names, words, strict=True), phrases)
            readings |= reader.label(words[0], phrases) if len(words) == 1 else set()
            if row not in readings:
                complaints.append(f"asked later, {index} of {asked.toml} is not what it counts")
    return complaints


def _ratios_later(found: Published, rng: random.Random) -> list[str]:
    """A mean, a share or a ratio that the plan determines is the one that is counted record by record."""
    case, complaints = found.case, []
    maker = Maker(rng, case.attributes, case.probes, case.n_cells)
    for query, above, below in _drawn_ratios(maker, rng):
        try:
            own = found.release.answer(query, level=SURE)
        except (QueryError, TooLargeError):
            continue
        for index, row, whole, (_, shown) in zip(own.index, above, below, own.iterrows(), strict=True):
            numerator, denominator = case.truth(row), case.truth(whole)
            if shown["note"]:
                continue
            if denominator == 0:
                complaints.append(f"{index} of {query} is {shown['estimate']:.9g}, divided by nobody")
                continue
            truth = numerator / denominator
            size = 1 + sum(abs(a) * n for a, n in zip(row, case.counts, strict=True))
            rounding = 1e-9 * size / abs(denominator)
            if not shown["lower"] - rounding <= truth <= shown["upper"] + rounding:
                complaints.append(f"{index} of {query} is {shown['estimate']:.9g}, not {truth:.9g}")
    return complaints


def _drawn_ratios(maker: Maker, rng: random.Random) -> list[tuple[ln.Query, list[Row], list[Row]]]:
    """Random ratios with the rows of their numerators and denominators over the probes."""
    n = len(maker.probes)
    everyone = (1.0,) * n
    asked: Described = maker.query(0)
    rows = asked.rows(n)
    part = asked.python.having(name=None, weight=1.0)
    drawn = [(ln.Ratio(part, ln.Total()), rows, [everyone] * len(rows))]
    if all(0 <= entry <= 1 for row in rows for entry in row):
        drawn.append((ln.Share(part, of=ln.Total()), rows, [everyone] * len(rows)))
    numbers = [p for p, attribute in enumerate(maker.attributes) if attribute.is_number]
    if numbers:
        place = rng.choice(numbers)
        averaged = maker.attributes[place]
        values = [value for value, is_in in zip(averaged.sums(), averaged.known(), strict=True) if is_in]
        others = [p for p in range(len(maker.attributes)) if p != place and maker.attributes[p].size <= 12]
        by = rng.sample(others, min(len(others), rng.randint(0, 2)))
        groups = maker.marginal(by).rows(n) if by else [everyone]
        sums, known = maker.along(place, averaged.sums()), maker.along(place, averaged.known())
        if len(set(values)) > 1:
            mean = ln.Mean(averaged.name, by=[maker.attributes[p].name for p in by] or None)
            drawn.append((mean, [times(group, sums) for group in groups], [times(g, known) for g in groups]))
    return drawn


def _deviations_later(found: Published, rng: random.Random) -> list[str]:
    """A standard deviation that the plan determines is the one that is computed record by record."""
    case, complaints = found.case, []
    numbers = [p for p, attribute in enumerate(case.attributes) if attribute.is_number]
    if not numbers:
        return []
    place = rng.choice(numbers)
    attribute, maker = case.attributes[place], Maker(rng, case.attributes, case.probes, case.n_cells)
    values = [value for value, is_in in zip(attribute.sums(), attribute.known(), strict=True) if is_in]
    if len(set(values)) < 2:
        return []
    others = [p for p in range(len(case.attributes)) if p != place and case.attributes[p].size <= 12]
    by = rng.sample(others, min(len(others), rng.randint(0, 1)))
    groups = maker.marginal(by).rows(len(maker.probes)) if by else [(1.0,) * len(maker.probes)]
    known, sums = maker.along(place, attribute.known()), maker.along(place, attribute.sums())
    query = ln.StandardDeviation(attribute.name, by=[case.attributes[p].name for p in by] or None)
    try:
        own = found.release.answer(query, level=SURE)
    except (QueryError, TooLargeError):
        return []
    for index, group, (_, shown) in zip(own.index, groups, own.iterrows(), strict=True):
        weights = [a * k * c for a, k, c in zip(group, known, case.counts, strict=True)]
        n = sum(weights)
        if shown["note"]:
            continue
        if n == 0:
            complaints.append(f"{index} of {query} is {shown['estimate']:.9g}, of nobody")
            continue
        mean = sum(w * v for w, v in zip(weights, sums, strict=True)) / n
        truth = math.sqrt(sum(w * (v - mean) ** 2 for w, v in zip(weights, sums, strict=True)) / n)
        rounding = 1e-6 * (max(map(abs, values)) + 1)
        if not shown["lower"] - rounding <= truth <= shown["upper"] + rounding:
            complaints.append(f"{index} of {query} is {shown['estimate']:.9g}, not {truth:.9g}")
    return complaints


def _quantiles(found: Published, rng: random.Random) -> list[str]:
    """Quantiles of nearly noiseless releases are those of the records."""
    case = found.case
    ordered = [p for p, a in enumerate(case.attributes) if a.kind in ("range", "bins")]
    if not ordered:
        return []
    place = rng.choice(ordered)
    others = [p for p in range(len(case.attributes)) if p != place]
    by = rng.choice([None, *others])
    attribute = case.attributes[place]
    named = None if by is None else case.attributes[by].name
    try:
        frame = found.release.quantiles(attribute.name, list(SHARES), by=named)
    except LeastnoiseError:
        return []
    complaints = []
    for index, shown in frame.iterrows():
        group, share = (None, index) if by is None else index
        member = _group(found, by, group)
        sums = [0.0] * len(attribute.values)
        for probe, n, inside in zip(case.probes, case.counts, member, strict=True):
            if inside and probe[place] < len(sums):
                sums[probe[place]] += n
        total = sum(sums)
        upto = np.cumsum(sums)
        # Where the share falls on a step, noise decides; where nobody is counted, nothing does.
        if total == 0 or np.abs(upto - share * total).min() < 0.5:
            continue
        truth = int(np.argmax(upto >= share * total))
        own = attribute.values[truth] if attribute.kind == "range" else attribute.values[truth][0]
        given = shown["quantile"] if attribute.kind == "range" else shown["from"]
        if given != own or not shown["lower"] <= own <= shown["upper"]:
            complaints.append(f"the {share} quantile of {attribute.name!r} in {group} is {given}, not {own}")
    return complaints


def _group(found: Published, by: int | None, words: Any) -> list[bool]:
    """Which probes belong to a group of quantiles, by its words."""
    if by is None:
        return [True] * len(found.case.probes)
    attribute = found.case.attributes[by]
    places = {str(value): i for i, value in enumerate(attribute.values)}
    if str(words) in places:
        cells = {places[str(words)]}
    else:
        (reading,) = attribute.read(str(words))
        cells = {i for i, a in enumerate(reading) if a}
    return [probe[by] in cells for probe in found.case.probes]
