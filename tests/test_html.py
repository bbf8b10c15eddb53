"""The report as a page: well formed, alone, true to the release, and readable wherever it is opened."""

from __future__ import annotations

import base64
import csv
import dataclasses
import html
import io
import itertools
import math
import os
import re
import struct
import subprocess
import sys
import time
import warnings
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm
from typer.testing import CliRunner

import leastnoise as ln
from browser import BROWSER, dom_of, requests_of, run_browser
from leastnoise.app.cli.saved_commands import report as report_command
from leastnoise.core.errors import InputError, PlanFileError, UnrecordedSpending
from leastnoise.core.random_bits import SystemBits
from leastnoise.query import Integers, Query
from leastnoise.release import Receipt, measured
from leastnoise.release.adjustment import Adjustment
from leastnoise.report import cross_table, page, rendering
from leastnoise.report import plan_sentences as words
from leastnoise.report.baseline_noise import baselines
from leastnoise.report.charts import pictures
from leastnoise.report.figures import gap_text, share_above, with_margin
from leastnoise.strategy.structured.blocks import Structured
from tolerances import ROUNDING

SCHEMA = ln.Schema(age=range(20), sex=("F", "M"), region=("north", "south", "east"))
QUERIES = [
    ln.Total(name="everyone"),
    ln.Marginal("sex"),
    ln.Marginal("age", "sex"),
    ln.Prefix("age"),
    ln.Marginal("sex", "region", name="six"),
    ln.Ranges("age", [(0, 4), (5, 9), (10, 14), (15, 19)]) * ln.Marginal("region") * ln.Marginal("sex"),
    ln.AllRanges("age"),
    ln.Cube("sex", "region", order=(1, 2), name="tables"),
    ln.Where("age >= 18 and sex == 'F'", name="women"),
]
REGIONS = ("north", "south", "east")
GOAL = ln.GDP(0.1)
WITH_DELTA = ln.ApproxDP(epsilon=1, delta=1e-6)


def plan_of(queries=QUERIES, goal=GOAL, schema=SCHEMA, **options):
    options.setdefault("method", "identity")
    return ln.design(ln.assemble(queries, schema), goal, **options)


def release_of(plan, seed=1, **facts):
    """A release with noise of no consequence: what is tested is how it is told."""
    rng = np.random.default_rng(seed)
    n = plan.strategy.n_measured
    counts = rng.poisson(300, plan.workload.shape[1])
    if isinstance(plan.strategy, Structured):
        return ln.Release(plan, measured(plan, counts, SystemBits()), **facts)
    noise = np.array(rng.integers(-9, 10, n).tolist(), dtype=object)
    return ln.Release(plan, plan.strategy.answers(counts) + noise, **facts)


@pytest.fixture(scope="module")
def release():
    return release_of(plan_of())


# ------------------------------------------------------------------------ reading a page


class Element:
    """A node of a page: its tag, attributes, children and texts in order."""

    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.content = tag, attributes, []

    def all(self, tag, class_=None):
        """Every element below with that tag, and that class."""
        for child in self.content:
            if isinstance(child, Element):
                if child.tag == tag and (class_ is None or class_ in child.classes):
                    yield child
                yield from child.all(tag, class_)

    def walk(self):
        """Every element below, and this one."""
        yield self
        for child in self.content:
            if isinstance(child, Element):
                yield from child.walk()

    @property
    def classes(self):
        return (self.attributes.get("class") or "").split()

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.content)


class Reader(HTMLParser):
    """Reads a page into elements, and refuses what a browser would have to guess at."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), f"<{tag}> repeats an attribute"
        element = Element(tag, dict(attributes))
        self.open[-1].content.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        assert any(element.tag == "svg" for element in self.open), f"<{tag}/> outside of a picture"
        self.open[-1].content.append(Element(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].content.append(data)


def read(text):
    """The page as elements; every one of them is closed where it should be."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is never closed"
    return reader.root


def page_of(subject):
    return read(ln.summarize(subject).html())


def section(root, name):
    return next((part for part in root.all("section") if part.attributes["id"] == name), None)


ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section", "div", "span"),
    *("h1", "h2", "h3", "h4", "p", "strong", "ul", "li", "a", "dl", "dt", "dd", "pre", "code"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
    *("svg", "path", "rect", "text", "em"),
}
ATTRIBUTES = {
    *("id", "class", "lang", "charset", "http-equiv", "content", "name", "href", "scope", "tabindex", "role"),
    *("aria-label", "aria-labelledby", "aria-hidden", "viewbox", "preserveaspectratio", "style", "d"),
    *("x", "y", "width", "height", "text-anchor", "transform", "download"),
}

# The file of answers, which a page holds: nothing is loaded, and a browser saves it.
_OWN_FILE = "data:text/csv;charset=utf-8;base64,"


def faults(text):
    """What a page must not have: anything that runs, loads, or leaves a reader without a name for a thing."""
    try:
        root = read(text)
    except AssertionError as error:
        return [str(error)]
    found = []
    ids = [e.attributes["id"] for e in root.walk() if "id" in e.attributes]
    if len(set(ids)) < len(ids):
        found.append("an id is given twice")
    for e in root.walk():
        if e.tag and e.tag not in ALLOWED:
            found.append(f"<{e.tag}>")
        found += [f"{name} of <{e.tag}>" for name in e.attributes if name not in ATTRIBUTES]
        own = e.attributes.get("href", "").startswith(_OWN_FILE) and "download" in e.attributes
        if "href" in e.attributes and not own and e.attributes["href"].removeprefix("#") not in ids:
            found.append(f"a link to {e.attributes['href']}")
        if "url(" in (e.attributes.get("style") or "") or (
            e.tag == "style" and re.search(r"url\(|@import", e.text)
        ):
            found.append("a style that loads something")
        if e.tag == "svg" and not (e.attributes.get("aria-label") or e.attributes.get("aria-hidden")):
            found.append("a picture without words")
        if e.tag == "table" and not any(child.tag == "caption" for child in e.walk()):
            found.append("a table without a caption")
        if e.tag == "th" and not ("scope" in e.attributes or "aria-hidden" in e.attributes):
            found.append("a heading of nothing")
    (head,) = root.all("head")
    first = [e for e in head.content if isinstance(e, Element)][:2]
    if [e.attributes for e in first] != [
        {"charset": "utf-8"},
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        },
    ]:
        found.append("the policy does not come first")
    if next(root.all("html")).attributes.get("lang") != "en":
        found.append("no language")
    if not text.startswith("<!DOCTYPE html>\n"):
        found.append("no doctype")
    return found


# ------------------------------------------------------------------------ well formed, and alone


def test_pages_are_well_formed_and_load_nothing(release):
    for subject in (release, release.plan):
        assert faults(ln.summarize(subject).html()) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("there", "instead", "fault"),
    [
        ("</h1>", "</h1><script>1</script>", "<script>"),
        ("</h1>", '</h1><img src="https://example.com/x.png">', "<img>"),
        ("</h1>", "</h1><p>", "closes <p>"),
        ("</h1>", "", "closes <h1>"),
        ("<h1>", '<h1 onclick="x()">', "onclick of <h1>"),
        ('href="#asked"', 'href="https://example.com"', "a link to https://example.com"),
        ('id="asked"', 'id="privacy"', "an id is given twice"),
        ("* { box-sizing", "@import 'x.css'; * { box-sizing", "a style that loads"),
        ("default-src 'none'", "default-src *", "the policy"),
        ('<html lang="en">', "<html>", "no language"),
        ("<caption>", "<div>", "closes <div>"),
        (' scope="row"', "", "a heading of nothing"),
        (' role="img" aria-label=', ' role="img" id=', "a picture without words"),
    ],
)
def test_faults_of_a_page_would_be_noticed(release, there, instead, fault):
    text = ln.summarize(release).html()
    assert there in text
    assert any(fault in one for one in faults(text.replace(there, instead, 1)))


@pytest.mark.thorough
@BROWSER
def test_a_browser_asks_for_nothing(release, tmp_path):
    path = ln.summarize(release).to_html(tmp_path / "report.html")
    assert requests_of(path) == []


def first_pixel(path):
    """The colour of the upper left corner of a PNG file; the first pixel of a row is stored as it is."""
    data = path.read_bytes()
    place, packed = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += 12 + length
    return tuple(zlib.decompressobj().decompress(packed, 8)[1:4])


@pytest.mark.thorough
@BROWSER
def test_the_page_is_light_or_dark_as_its_reader_likes(release, tmp_path):
    path = ln.summarize(release).to_html(tmp_path / "report.html")
    seen = []
    for scheme in ("1", "0"):
        picture = tmp_path / f"{scheme}.png"
        run_browser(path, f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={scheme}")
        seen.append(first_pixel(picture))
    assert seen == [(0xFF, 0xFF, 0xFF), (0x14, 0x18, 0x1D)]


def in_frame(path, width, expression):
    """The whole number that an expression over a page, ``page``, gives in a frame of so many pixels.

    Its policy is lifted to look.
    """
    text = path.read_text(encoding="utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)[0]
    shown = html.escape(text.replace(policy, ""))
    measure = html.escape(f"const page = frame.contentDocument; document.title = {expression}")
    frame = (
        f'<iframe id="frame" style="width:{width}px;border:0" srcdoc="{shown}" onload="{measure}"></iframe>'
    )
    outer = path.with_name("outer.html")
    outer.write_text(f"<!DOCTYPE html><title></title>{frame}", encoding="utf-8")
    return int(re.search(r"<title>(\d+)</title>", dom_of(outer))[1])


def overflow(path, width):
    """By how much a page is wider than a frame of so many pixels."""
    return in_frame(path, width, "page.documentElement.scrollWidth") - width


def cut_off(path, width):
    """How many tables side by side are wider than their places."""
    tables = "[...page.querySelectorAll('.panels table')]"
    is_cut = "table => table.getBoundingClientRect().width > table.parentNode.clientWidth + 1"
    return in_frame(path, width, f"{tables}.filter({is_cut}).length")


@pytest.mark.thorough
@BROWSER
def test_tables_side_by_side_are_shown_whole(tmp_path):
    """Tables of six columns were cut off on a screen, and ran into one another on paper."""
    bands = tuple(f"{i}0,000 to {i}9,999" for i in range(6))
    schema = ln.Schema(place=("a", "b", "c"), band=bands, ward=tuple(f"ward {i}" for i in range(8)))
    plan = plan_of([ln.Marginal("place", "band", "ward")], schema=schema)
    path = ln.summarize(release_of(plan)).to_html(tmp_path / "report.html")
    text = path.read_text("utf-8")
    assert cut_off(path, 1000) == 0
    # As on paper: 178 mm are 673 pixels.
    path.write_text(text.replace("@media print {", "@media all {"), "utf-8")
    assert cut_off(path, 673) == 0
    narrow = "figure { display: inline-block; width: 30% !important; }"
    path.write_text(text.replace("</style>", f".panels.cross {narrow}</style>"), "utf-8")
    assert cut_off(path, 1000) > 0


@pytest.mark.thorough
@BROWSER
def test_nothing_is_wider_than_a_phone(tmp_path):
    kinds = ("w" * 400, "x", "<y>")
    schema = ln.Schema(kind=kinds, age=range(20))
    asked = [ln.Marginal("kind", name="n" * 200), ln.Marginal("kind", "age"), ln.Prefix("age")]
    path = ln.summarize(release_of(plan_of(asked, schema=schema))).to_html(tmp_path / "report.html")
    assert overflow(path, 360) == 0
    # A table that does not scroll by itself would be noticed.
    path.write_text(path.read_text("utf-8").replace(".scroll { overflow-x: auto;", ".scroll {"), "utf-8")
    assert overflow(path, 360) > 0


# ------------------------------------------------------------------------ readable


def palette(selector):
    style = next(page_of(plan_of([ln.Total()])).all("style")).text
    block = re.search(selector, style, re.DOTALL)[1]
    return dict(re.findall(r"--([\w]+): (#[0-9a-f]{6}|\d+ \d+ \d+);", block))


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def rgb(text):
    numbers = [int(text[i : i + 2], 16) for i in (1, 3, 5)] if text[0] == "#" else map(int, text.split())
    return [number / 255 for number in numbers]


@pytest.mark.parametrize(
    "selector",
    [r"^(.*?)\}", r"prefers-color-scheme: dark\) \{(.*?)\}", r"@media print \{(.*?)\}"],
    ids=["light", "dark", "paper"],
)
def test_text_stands_out_from_what_is_behind_it(selector):
    """At least 4.5 to 1, as WCAG 2 asks (1.4.3), and 3 to 1 for lines (1.4.11)."""
    colours = {name: rgb(value) for name, value in palette(selector).items()}
    for name in ("ink", "soft", "accent", "good", "care"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours[name], colours["card"]) >= 4.5, name
    for name in ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"):
        assert contrast(colours[name], colours["paper"]) >= 3, name
    # The darkest shade of a cross table is laid over its plate at 47%.
    pairs = zip(colours["heat"], colours["plate"], strict=True)
    shade = [0.47 * heat + 0.53 * plate for heat, plate in pairs]
    assert contrast(colours["on"], shade) >= 4.5
    # "darker is more" has to be true on a dark screen too: there the shades got lighter.
    steps = [
        [a * heat + (1 - a) * p for heat, p in zip(colours["heat"], colours["plate"], strict=True)]
        for a in (0, 0.2, 0.5, 1)
    ]
    assert [luminance(step) for step in steps] == sorted((luminance(step) for step in steps), reverse=True)


def test_contrast_is_that_of_the_standard():
    assert contrast([0, 0, 0], [1, 1, 1]) == pytest.approx(21, rel=ROUNDING)
    assert contrast(rgb("#777777"), rgb("#ffffff")) < 4.5 < contrast(rgb("#767676"), rgb("#ffffff"))


# ------------------------------------------------------------------------ true to the release


def number(text):
    return float(text.replace(",", ""))


def is_rounded(shown, value):
    return abs(number(shown) - value) <= 0.5


TOLD = re.compile(r"^(-?[\d,]+) \(95%: (-?[\d,]+) to (-?[\d,]+)\)$")


def is_told(text, row):
    """Whether words such as "12 (95%: 3 to 21)" are those of a row of `to_frame`."""
    found = TOLD.match(text)
    if found is None:
        return False
    ends = (number(found[2]), number(found[3])) == (math.floor(row.lower), math.ceil(row.upper))
    return ends and is_rounded(found[1], row.answer)


def is_within(text, row):
    """Whether "12 ± 9" covers the interval of a row and is not much wider."""
    answer, margin = map(number, text.split(" ± "))
    half = row.upper - row.answer
    return (
        is_rounded(text.split(" ± ")[0], row.answer)
        and half + abs(answer - row.answer) <= margin <= half + 1.5
    )


def by_batch(root):
    """Name of a batch to what is shown of it, up to the next."""
    parts, name = {}, None
    for child in section(root, "released").content:
        if isinstance(child, Element) and child.tag == "h3":
            name = child.text
            parts[name] = Element("", {})
        elif name is not None and isinstance(child, Element):
            parts[name].content.append(child)
    return parts


def table_rows(part):
    (body,) = part.all("tbody")
    return [[cell.text for cell in row.content if isinstance(cell, Element)] for row in body.all("tr")]


def disagreements(release, text):
    """Batches whose numbers on the page are not those of `release.to_frame()`."""
    frame = release.to_frame()
    shown = by_batch(read(text))
    rows = {name: list(own.itertuples()) for name, own in frame.groupby("query", sort=False)}
    wrong = []

    def check(name, *holds):
        if not all(holds):
            wrong.append(name)

    for name in ("everyone", "women"):
        (words_,) = (p.text for p in shown[name].all("p"))
        found = re.fullmatch(r"(\S+) with 95% confidence from (\S+) to (\S+)", words_)
        check(name, is_told(f"{found[1]} (95%: {found[2]} to {found[3]})", rows[name][0]))
    for name in ("sex", "six"):
        lines = table_rows(shown[name])
        check(name, len(lines) == len(rows[name]))
        for (_, answer, low, high, _), row in zip(lines, rows[name], strict=True):
            check(name, is_told(f"{answer} (95%: {low} to {high})", row))
    # Two lines, by age; below them the same as a table, age by sex.
    strips = [title.text.split("\n") for title in shown["age x sex"].all("title")]
    for age, (label, women, men) in enumerate(strips):
        own = [rows["age x sex"][2 * age + s] for s in (0, 1)]
        check("age x sex", label == str(age))
        for text_, sex, row in zip((women, men), "FM", own, strict=True):
            check("age x sex", is_told(text_.removeprefix(f"{sex}: "), row))
    for age, (label, *cells) in enumerate(table_rows(shown["age x sex"])):
        own = [rows["age x sex"][2 * age + s] for s in (0, 1)]
        check("age x sex", label == str(age), *map(is_within, cells, own))
    strips = [title.text.split("\n") for title in shown["age up to"].all("title")]
    for (label, told), row in zip(strips, rows["age up to"], strict=True):
        check("age up to", f"age {label}" == row.label, is_told(told, row))
    # Three attributes: a table of the two with the most values for each value of the third.
    name = next(name for name in shown if name.startswith("age ranges x"))
    figures = [figure for figure in shown[name].all("figure") if any(figure.all("table"))]
    check(name, [next(figure.all("figcaption")).text for figure in figures] == ["F", "M"])
    for sex, figure in zip("FM", figures, strict=True):
        for i, (ages, *cells) in enumerate(table_rows(figure)):
            own = [row for row in rows[name] if f", sex {sex}, " in row.label][3 * i : 3 * i + 3]
            labels = [f"age {ages}, sex {sex}, region {region}" for region in REGIONS]
            check(name, [row.label for row in own] == labels, *map(is_within, cells, own))
    known = {row.label: row for row in rows["age ranges"]}
    squares = [title.text.split(": ", 1) for title in shown["age ranges"].all("title")]
    check("age ranges", len(squares) == len(known) == 210)
    for label, told in squares:
        check("age ranges", is_told(told, known[f"age {label}"]))
    flat = [line for table in shown["tables"].all("table") for line in table_rows(table)]
    check("tables", len(flat) == len(rows["tables"]))
    for (_, answer, low, high, _), row in zip(flat, rows["tables"], strict=True):
        check("tables", is_told(f"{answer} (95%: {low} to {high})", row))
    return sorted(set(wrong))


def test_numbers_on_the_page_are_those_of_the_release(release):
    text = ln.summarize(release).html()
    assert list(by_batch(read(text))) == list(release.plan.workload.names)
    assert disagreements(release, text) == []


def test_numbers_of_another_release_would_be_noticed(release):
    # One more on every measurement: every batch is off by more than rounding.
    other = ln.Release(release.plan, release.measurements + release.plan.strategy.scale)
    found = disagreements(other, ln.summarize(release).html())
    assert set(found) == set(release.plan.workload.names)


def test_the_certificate_and_the_costs_are_those_of_the_plan(release):
    plan = release.plan
    root = page_of(release)
    rows = dict(line[:2] for line in table_rows(section(root, "proof")))
    certificate = ln.certify(plan.workload, plan)
    assert rows == {
        "achieved": f"{certificate.achieved:,.9g}",
        "lower bound": f"{certificate.lower_bound:,.9g}",
        "gap": gap_text(certificate.gap),
        "status": "heuristic",
        "search": plan.ended,
    }
    simple = baselines(plan)
    *lines, last = table_rows(section(root, "simple"))
    ways = (simple.per_count, simple.per_cell)
    for name, spread, each, cell, line in zip(
        plan.workload.names, plan.spreads, *(way.rms for way in ways), lines, strict=True
    ):
        ours = math.sqrt(spread.mean_square)
        assert line[0] == name
        assert [number(text.removesuffix("×")) for text in line[1:6]] == pytest.approx(
            [ours, each, each / ours, cell, cell / ours], abs=0.0501
        )
    values = [certificate.achieved, *(way.value for way in ways)]
    assert [last[0], *(number(last[i]) for i in (1, 2, 4))] == [
        "total variance",
        *(pytest.approx(value, abs=0.501) for value in values),
    ]
    errors = table_rows(section(root, "accuracy"))
    assert [line[0] for line in errors] == list(plan.workload.names)
    for line, spread in zip(errors, plan.spreads, strict=True):
        assert [number(text) for text in line[1:]] == pytest.approx(
            [spread.low, spread.median, spread.high], abs=0.0501
        )
    assert (
        plan.digest in section(root, "origin").text and plan.workload.digest in section(root, "origin").text
    )


def test_the_lines_to_recheck_it_run(release, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    release.save("FILE.release")
    release.plan.save("FILE.plan")
    for subject in (release, release.plan):
        (lines,) = (pre.text for pre in page_of(subject).all("pre"))
        exec(compile(lines, "page", "exec"), {})
        assert capsys.readouterr().out == f"{release.plan.certificate}\n"


@pytest.mark.thorough
def test_the_same_file_gives_the_same_bytes(release, tmp_path):
    saved = release.save(tmp_path / "a.release")
    mine = ln.summarize(release).to_html(tmp_path / "mine.html").read_bytes()
    code = "import sys, leastnoise as ln; ln.summarize(ln.load_release(sys.argv[1])).to_html(sys.argv[2])"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LANG": "C"}
        subprocess.run([sys.executable, "-c", code, saved, tmp_path / "theirs.html"], check=True, env=env)
        assert (tmp_path / "theirs.html").read_bytes() == mine


# ------------------------------------------------------------------------ labels that mean harm


HOSTILE = (
    "<script>alert(1)</script>",
    "</table></style></title>",
    '" onmouseover="alert(1)',
    "&lt;b&gt;&#0;",
    "\u202eabc\u2066",
    "a\nb\x00c\x1b[2J",
    "\ud800",
    "z" * 5_000,
)


def hostile_release():
    schema = ln.Schema(**{HOSTILE[0]: range(20)}, kind=HOSTILE)
    first = HOSTILE[0]
    asked = [
        ln.Marginal("kind", name=HOSTILE[1]),
        ln.Marginal(first, "kind", name=HOSTILE[2]),
        ln.Prefix(first, name=HOSTILE[4]),
        ln.AllRanges(first, name=HOSTILE[5]),
        ln.Total(name=HOSTILE[7]),
        ln.Linear(np.eye(2, 160), labels=[HOSTILE[0], HOSTILE[1]], name=HOSTILE[3]),
    ]
    receipt = Receipt("<i>people</i>", "\u202eid", "<head>")
    return release_of(plan_of(asked, schema=schema), receipt=receipt)


def test_hostile_labels_are_text():
    release = hostile_release()
    for subject in (release, release.plan):
        text = ln.summarize(subject).html()
        assert faults(text) == []
        assert all(c.isprintable() or c == "\n" for c in text)
        text.encode("utf-8")
    root = page_of(release)
    firsts = [line[0] for line in table_rows(by_batch(root)["</table></style></title>"])]
    assert firsts == [
        "<script>alert(1)</script>",
        "</table></style></title>",
        '" onmouseover="alert(1)',
        "&lt;b&gt;&#0;",
        r"\u202eabc\u2066",
        r"a\nb\x00c\x1b[2J",
        r"\ud800",
        "z" * 300 + "…",
    ]
    assert "<i>people</i>" in section(root, "origin").text and r"\u202eid" in section(root, "origin").text


def test_labels_that_are_not_escaped_would_be_noticed(monkeypatch):
    careless = rendering._environment().overlay(autoescape=False)
    monkeypatch.setattr(rendering, "_environment", lambda: careless)
    assert faults(ln.summarize(hostile_release()).html())


def test_unseen_characters_left_alone_would_be_noticed(monkeypatch):
    monkeypatch.setattr(rendering, "printable", str)
    text = ln.summarize(hostile_release()).html()
    assert "\u202e" in text


def test_a_novel_as_a_label_does_not_fill_the_page():
    schema = ln.Schema(kind=("n" * 10**6, "b", *(f"c{i}" for i in range(30))), sex=("F", "M", "X", "Y", "Z"))
    asked = [ln.Marginal("kind"), ln.Marginal("kind", "sex"), ln.Marginal("sex", name="m" * 10**6)]
    assert len(ln.summarize(release_of(plan_of(asked, schema=schema))).html()) < 200_000


# ------------------------------------------------------------------------ the picture that suits


def shown_as(query, schema, **options):
    release = release_of(plan_of([query], schema=schema, **options))
    (part,) = by_batch(page_of(release)).values()
    return release, part


def kinds_of(part):
    """What kinds of picture there are."""
    kinds = set()
    for picture in part.all("svg", "picture"):
        kinds.add("lines" if any(picture.all("path", "line")) else "map")
    kinds |= {"bars" for table in part.all("table", "bars")}
    kinds |= {"shaded" for table in part.all("table", "shaded")}
    return kinds


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        (ln.Total(), set()),
        (ln.Where("age < 3"), set()),
        (ln.Sum("age"), set()),
        (ln.Marginal("sex"), {"bars"}),
        (ln.Marginal("bin"), {"bars"}),
        (ln.Prefix("bin"), {"lines"}),
        (ln.Prefix("sex"), {"bars"}),
        (ln.Marginal("age"), {"lines"}),
        (ln.Marginal("other"), {"bars"}),
        (ln.Prefix("age") * ln.Marginal("sex"), {"lines"}),
        (ln.Prefix("age") * ln.Where("sex == 'F'"), {"lines"}),
        (ln.Prefix("age") * ln.Marginal("bin"), {"lines"}),
        (ln.Prefix("age") * ln.Marginal("letter"), {"shaded"}),
        (ln.Prefix("age") * ln.Marginal("wide"), {"map"}),
        (ln.Marginal("age", "bin"), {"shaded"}),
        (ln.Marginal("bin", "letter"), {"shaded"}),
        (ln.Marginal("age", "wide"), {"map"}),
        (ln.AllRanges("age"), {"map"}),
        (ln.Cube("sex", "bin"), {"bars", "shaded"}),
        (ln.Levels("place"), {"bars"}),
    ],
    ids=lambda value: value.title() if isinstance(value, Query) else "",
)
def test_the_picture_suits_the_question(query, kinds):
    schema = ln.Schema(
        age=range(16),
        sex=("F", "M"),
        bin=ln.Bins([0, 1, 2, 3, 4, 5, 6, 7]),
        letter=tuple("abcdefghijk"),
        other=Integers(range(30), other="unknown"),
        wide=tuple(f"w{i}" for i in range(20)),
        place=ln.Hierarchy({"n": ["n1", "n2"], "s": ["s1"]}),
    )
    names = {name for name in schema.names if name in str(query.to_dict())}
    small = ln.Schema(**{name: schema[name] for name in schema.names if name in names or name == "sex"})
    _, part = shown_as(query, small)
    assert kinds_of(part) == kinds


@pytest.mark.thorough
def test_long_lines_are_thinned_out_and_say_so():
    release, part = shown_as(ln.Prefix("x"), ln.Schema(x=range(1000)), method="hierarchical")
    strips = [title.text.split("\n") for title in part.all("title")]
    assert len(strips) == 160
    frame = release.to_frame().set_index("label")
    for label, told in strips:
        assert is_told(told, frame.loc[f"x {label}"])
    (caption,) = part.all("figcaption")
    assert "drawn: 160 of 1,000 values, evenly spaced" in caption.text
    assert len(table_rows(part)) == 1000


def test_up_to_2000_counts_are_all_listed_and_all_are_in_the_file(monkeypatch):
    """Of a list of 100 counts 40 were shown, and the others were nowhere on the page."""
    assert page._MAX_LISTED == 2_000
    monkeypatch.setattr(page, "_MAX_LISTED", 100)
    for n in (100, 101):
        schema = ln.Schema(x=tuple(f"c{i}" for i in range(n)))
        release, part = shown_as(ln.Marginal("x"), schema)
        first, *every = [table_rows(table) for table in part.all("table")]
        assert len(first) == 40 and f"The first 40 of {n:,} counts." in part.text
        assert [[line[0] for line in lines] for lines in every] == (
            [list(schema["x"].values)] if n <= 100 else []
        )
        (link,) = (e for e in page_of(release).all("a") if "download" in e.attributes)
        content = base64.b64decode(link.attributes["href"].removeprefix(_OWN_FILE)).decode("utf-8")
        listed = list(csv.DictReader(io.StringIO(content)))
        assert [row["label"] for row in listed] == list(release.plan.workload.labels)
        assert np.allclose([float(row["answer"]) for row in listed], release.answers, rtol=1e-12)


def test_of_more_counts_the_first_are_listed_table_by_table(monkeypatch):
    monkeypatch.setattr(page, "_MAX_LISTED", 100)
    _, part = shown_as(ln.Prefix("x"), ln.Schema(x=range(130)), method="hierarchical")
    assert len(table_rows(part)) == 120 and "The first 120 of 130 counts." in part.text


def test_a_square_of_a_map_is_one_count():
    """Squares were the means of several counts, named by the first of them."""
    schema = ln.Schema(x=tuple(f"x{i}" for i in range(130)), y=tuple(f"y{i}" for i in range(45)))
    release, part = shown_as(ln.Marginal("x", "y"), schema, method="marginals")
    assert "drawn: the first 60 of 130 values of x" in part.text
    frame = release.to_frame().set_index("label")
    squares = [title.text.split(": ", 1) for title in part.all("title")]
    assert [label for label, _ in squares] == [f"x{i}, y{j}" for i in range(60) for j in range(45)]
    for label, told in squares[::7]:
        x, y = label.split(", ")
        assert is_told(told, frame.loc[f"x {x}, y {y}"])


def test_three_attributes_are_small_multiples_on_one_scale():
    """A table of three attributes was one map, with two of them in every label."""
    schema = ln.Schema(
        place=("a", "b", "c"), age=range(16), sex=("F", "M"), ward=tuple(f"w{i}" for i in range(9))
    )
    release, part = shown_as(ln.Marginal("place", "age", "sex"), schema)
    (panels,) = part.all("div", "panels")
    assert [e.text for e in panels.all("figcaption")] == ["a", "b", "c"]
    charts = list(panels.all("svg", "picture"))
    # The same numbers beside the same lines in every panel.
    axes = {tuple(e.text for e in chart.all("text")) for chart in charts}
    assert len(charts) == 3 and len(axes) == 1
    frame = release.to_frame().set_index("label")
    for place, chart in zip("abc", charts, strict=True):
        for title in chart.all("title"):
            age, *told = title.text.split("\n")
            for sex, words_ in zip("FM", told, strict=True):
                row = frame.loc[f"place {place}, age {age}, sex {sex}"]
                assert words_.startswith(f"{sex}: ") and is_told(words_[3:], row)
    release, part = shown_as(ln.Marginal("place", "sex", "ward"), schema)
    assert kinds_of(part) == {"shaded"}
    tables = [table for panel in part.all("div", "panels") for table in panel.all("table")]
    # Shades are of the whole table: its largest count is the only darkest one, wherever it stands.
    darkest = [cell.text for table in tables for cell in table.all("td", "h9")]
    most = f"{round(release.answers.max()):,} "
    assert any(text.startswith(most) for text in darkest)
    assert sum(1 for table in tables if any(table.all("td", "h9"))) >= 1 and len(tables) in (2, 3)


def test_labels_of_maps_are_written_in_full():
    """ "Injuries, poisoni…" stood beside its row."""
    long = ("Injuries, poisoning and other consequences of external causes", "Neoplasms")
    schema = ln.Schema(cause=long, ward=tuple(f"w{i}" for i in range(20)))
    _, part = shown_as(ln.Marginal("cause", "ward"), schema)
    (picture,) = part.all("svg", "picture")
    texts = [e.text for e in picture.all("text")]
    assert "…" not in "".join(texts) and " ".join(texts[-4:]) == " ".join(long)
    assert texts[:20] == [f"w{i}" for i in range(20)]


def test_maps_of_ranges_are_thinned_out_and_say_so():
    release, part = shown_as(ln.AllRanges("x"), ln.Schema(x=range(70)), method="hierarchical")
    frame = release.to_frame().set_index("label")
    squares = [title.text.split(": ", 1) for title in part.all("title")]
    assert len(squares) == 40 * 41 // 2 and "drawn: 40 of 70 values" in part.text
    assert all(is_told(told, frame.loc[f"x {label}"]) for label, told in squares)


def test_answers_without_known_errors_have_no_intervals():
    schema = ln.Schema(x=range(32))
    plan = ln.design(ln.assemble([ln.Prefix("x"), ln.Total(name="all")], schema), ln.PureDP(1), method="dawa")
    counts = np.full(32, 10)
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, counts)
    text = ln.summarize(release).html()
    assert faults(text) == []
    root = read(text)
    assert "How far these answers are from the truth is not known" in section(root, "released").text
    assert "95%" not in section(root, "released").text and not list(root.all("path", "band"))
    assert "depends on the data" in section(root, "accuracy").text
    assert "Nothing is proved about its accuracy" in section(root, "proof").text
    assert section(root, "simple") is None
    assert "nothing was cut off" not in text


# ------------------------------------------------------------------------ words


def words_of(subject, name):
    return " ".join(section(page_of(subject), name).text.split())


def test_a_plan_has_no_answers(release):
    root = page_of(release.plan)
    assert section(root, "released") is None
    assert "A plan for" in next(root.all("h1")).text and "not measured yet" in next(root.all("h1")).text
    assert "Measuring it once would spend" in section(root, "privacy").text
    assert not list(root.all("svg", "picture"))
    assert len(list(root.all("svg", "row"))) == len(QUERIES) + 1


def test_privacy_is_said_in_plain_words():
    plan = plan_of([ln.Marginal("sex")], WITH_DELTA)
    told = words_of(release_of(plan), "privacy")
    for part in (
        "The promise. (ε, δ)-differential privacy with ε = 1, δ = 1e-06, adding or removing one record.",
        "This release spent mu = 0.2367",
        "Every person who has at most one record in the table.",
        "Without the record of one person, these numbers would have come out nearly as likely.",
        "Any outcome has at most e^ε = 2.71829 times the probability that it would have had otherwise",
        "is right at most 54.72% of the time about whether a certain person is in the table",
        "Repeating it, or releasing anything else about the same people, adds to this.",
    ):
        assert part in told, part
    assert "ithout delta" not in told


def test_neighbours_and_records_are_those_of_the_goal():
    asked = [ln.Marginal("sex")]
    told = words_of(plan_of(asked, ln.GDP(1, neighbours="replace-one", records_per_person=3)), "privacy")
    assert "at most 3 records in the table" in told
    assert "With up to 3 records of one person replaced by any other, the numbers would have" in told
    assert "about which of two records a certain person has" in told
    pure = words_of(plan_of(asked, ln.PureDP(2)), "privacy")
    assert "e^ε = 7.38906 times the probability that it would have had otherwise." in pure
    assert "is right at most 88.08% of the time" in pure and "pure alternative" not in pure
    careless = words_of(plan_of(asked, ln.ApproxDP(1, 0.01)), "privacy")
    assert "A delta this large may expose whole records" in careless


def exact_guess(plan):
    """Half of one plus the total variation, by integrating the difference of densities, or by counting."""
    if plan.mu is None:
        # Randomised response, which is the most that pure privacy allows.
        lie = 1 / (1 + math.exp(float(plan.spent_per_person)))
        return 0.5 + 0.5 * sum(abs(p - q) for p, q in [(1 - lie, lie), (lie, 1 - lie)]) / 2
    mu = plan.mu
    apart, _ = quad(lambda x: norm.pdf(x) - norm.pdf(x - mu), -np.inf, mu / 2, epsabs=1e-12)
    return 0.5 + 0.5 * apart


GUESSED = [ln.GDP(mu) for mu in (0.01, 0.5, 1, 4)] + [ln.PureDP(e) for e in (0.01, 1, 5)] + [WITH_DELTA]


def guesses_hold(guess):
    plans = [plan_of([ln.Marginal("sex")], goal) for goal in GUESSED]
    return all(exact_guess(plan) - 1e-9 <= guess(plan) <= exact_guess(plan) + 1.001e-4 for plan in plans)


def test_the_best_guess_is_told_and_never_too_low():
    assert guesses_hold(words.likeliest_guess)
    free = ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.GDP(1))
    assert words.likeliest_guess(free) == 0.5


def test_a_guess_rounded_down_or_of_half_the_mu_would_be_noticed():
    assert not guesses_hold(lambda plan: math.floor(words.likeliest_guess(plan) * 1e4 - 1) / 1e4)
    assert not guesses_hold(lambda plan: math.ceil(norm.cdf((plan.mu or 1) / 4) * 1e4) / 1e4)


def test_targets_are_said_to_be_met_or_missed():
    asked = [ln.Marginal("sex", stderr=100, name="easy"), ln.Prefix("age", stderr=1, name="hard"), ln.Total()]
    plan = plan_of(asked, objective=ln.TotalVariance())
    lines = table_rows(section(page_of(plan), "accuracy"))
    largest, used = plan.spreads[1].high, plan.spreads[0].high  # of a target of 100
    assert [line[4:] for line in lines] == [
        ["std. error 100", f"met, {used:.3g}% used"],
        ["std. error 1", f"{largest:.3g} times"],
        ["–", "–"],
    ]
    assert "Targets: missed; every standard error is within" in words_of(plan, "accuracy")
    assert "missed by" in next(page_of(plan).all("dl")).text
    kept = plan_of([ln.Marginal("sex", stderr=100, name="easy"), ln.Total()])
    assert "The aim was the least total variance that keeps within the targets." in words_of(kept, "asked")
    share = 100 * kept.spreads[0].high / 100
    told = f"Targets: met by every query; the closest, 'easy', uses {share:.3g}% of what it may."
    assert told in words_of(kept, "accuracy") and told in ln.summarize(kept).text()
    assert "all met" in next(page_of(kept).all("dl")).text
    rows = ln.Workload.from_matrix(np.eye(3), stderr=[1000, 1, np.inf])
    own = ln.design(rows, ln.GDP(0.1), objective=ln.TotalVariance())
    ((*_, reached),) = table_rows(section(page_of(own), "accuracy"))
    assert reached == f"{own.stderr[1]:.3g} times"


def test_categories_are_listed(release):
    """The page said "F … M" of two categories, as of a range."""
    _, attributes = section(page_of(release), "asked").all("table")
    which = {line[0]: line[3] for line in table_rows(attributes)}
    assert which == {"age": "0–19", "sex": "F, M", "region": "north, south, east"}
    many = tuple(f"Ward {i}" for i in range(1, 16))
    schema = ln.Schema(ward=many, age=ln.Bins([17, 25, 35, 65]))
    _, attributes = section(page_of(plan_of([ln.Total()], schema=schema)), "asked").all("table")
    which = {line[0]: line[3] for line in table_rows(attributes)}
    assert which == {"ward": ", ".join(many), "age": "17–24, 25–34, 35–64"}


def test_the_page_says_once_how_many_records_are_left_out(release):
    """It told how many, and then that how many there were is not known."""
    assert "how many such" not in words_of(release, "asked")
    table = {"age": [3, 99], "sex": ["F", "M"], "region": ["north", "north"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = ln.measure(release.plan, pandas.DataFrame(table))
    assert told.not_counted is not None
    assert "how many such records there are stands above" in words_of(told, "asked")


def test_sentences_can_be_quoted(release):
    """The page led with the privacy goal; what was counted stood far below."""
    (quotes,) = page_of(release).all("div", "quotes")
    told = [p.text for p in quotes.all("p")]
    rows = release.to_frame().groupby("query", sort=False).first()
    names = ["everyone", "sex", "age x sex"]
    for name, sentence in zip(names, told, strict=True):
        found = re.fullmatch(
            r"We counted (\S+) records? (in all|with .+); "
            r"the true number is within (\S+) of that, 19 times in 20, of the records counted; "
            r"how many were not was not measured\.",
            sentence,
        )
        shown, margin = (int(found[i].replace(",", "")) for i in (1, 3))
        # What is counted is whole: those whole numbers that the interval holds, and no others.
        ends = math.ceil(rows.loc[name].lower), math.floor(rows.loc[name].upper)
        assert margin == max(ends[1] - shown, shown - ends[0])
        assert found[2] == ("in all" if name == "everyone" else f"with {rows.loc[name].label}")
    said = ln.Publication(unit="residents", publisher="The town", date="2026-03-15")
    root = read(ln.summarize(release, said).html())
    assert "residents" in next(root.all("div", "quotes")).text
    assert not any(page_of(release.plan).all("div", "quotes"))


def test_no_sentence_counts_fewer_than_none_or_more_error_than_asked():
    """ "We counted -2 people" stood on a page, and "within 21" where within 20 was asked for and kept."""
    plan = plan_of([ln.Marginal("age", name="ages", within=20.0)], goal=None)
    for answer in (-7.3, 40.2):
        release = release_of(plan)
        object.__setattr__(release, "answers", np.full(len(release.answers), answer))
        (quotes,) = page_of(release).all("div", "quotes")
        (told,) = (p.text for p in quotes.all("p"))
        if answer < 0:
            assert re.fullmatch(
                r"There are at most 12 records with .+ \(the noise .+\), 19 times in 20.+", told
            )
        else:
            assert re.fullmatch(r"We counted 40 records with .+ within 20 of that, .+", told)


def test_sentences_about_sums_and_parts_of_ratios_are_not_counts():
    schema = ln.Schema(age=range(10), sex=("F", "M"))
    asked = [
        ln.Sum("age"),
        ln.Changes("age"),
        ln.Share(ln.Where("sex == 'F'"), of=ln.Total(), name="women"),
        ln.Marginal("sex") * ln.Sum("age"),
    ]
    (quotes,) = page_of(release_of(plan_of(asked, schema=schema))).all("div", "quotes")
    (told,) = (p.text for p in quotes.all("p"))
    assert re.fullmatch(
        r"We estimate \S+% \(women, .+\); the true value lies between \S+% and \S+%, 19 times in 20, of the "
        r"records counted; .+\.",
        told,
    )


def test_what_the_publisher_did_not_say_is_marked(release):
    root = page_of(release)
    said = next(e for e in root.all("dl", "origin"))
    assert [e.text for e in said.all("dd")] == ["not stated"] * 3
    assert [e.text for e in said.all("dt")] == ["publisher", "source", "date"]
    told = ln.Publication(publisher="The town", source="its register", date="2026-03-15", unit="people")
    said = next(read(ln.summarize(release, told).html()).all("dl", "origin"))
    assert [e.text for e in said.all("dd")] == ["The town", "its register", "people", "2026-03-15"]


def test_headings_follow_one_another_without_gaps(release):
    for subject in (release, release.plan):
        levels = [int(e.tag[1]) for e in page_of(subject).walk() if re.fullmatch("h[1-6]", e.tag or "")]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_ledger_is_named_or_missed(release):
    told = words_of(release, "origin")
    assert "No ledger recorded this release" in told and "leastnoise 0." in told
    receipt = Receipt("census", "first", "f" * 64)
    paid = words_of(dataclasses.replace(release, receipt=receipt), "origin")
    for part in (
        "dataset",
        "census",
        "release id",
        "first",
        "ledger head",
        "f" * 64,
        "leastnoise ledger verify",
    ):
        assert part in paid
    assert "No ledger" not in paid and "No ledger" not in words_of(release.plan, "origin")


def test_plans_after_others_say_so():
    first = plan_of([ln.Marginal("sex")], ln.GDP(1))
    later = ln.design(ln.assemble([ln.Marginal("region")], SCHEMA), ln.GDP(2), after=[first])
    told = words_of(later, "privacy")
    assert "for this plan and those before it together" in told
    assert "After 1 earlier plan; together they spend" in told


@pytest.fixture(scope="module")
def adjusted():
    """A release of small counts whose answers were raised to zero and rounded."""
    plan = plan_of()
    rng = np.random.default_rng(5)
    cells = np.maximum(rng.integers(-40, 60, plan.workload.shape[1]), 0).astype(float)
    noisy = np.array(rng.integers(-40, 60, plan.strategy.n_measured).tolist(), dtype=object)
    done = Adjustment(nonnegative=True, integer=True, cells=cells, precision=None)
    return ln.Release(plan, noisy * plan.strategy.scale // 40, adjusted=done)


def test_adjusted_answers_say_so(release, adjusted):
    told = words_of(adjusted, "released")
    assert adjusted.adjusted.statement() in told and "nothing was cut off" not in told
    assert "adjusted" not in words_of(release, "released")
    assert adjusted.adjusted.statement() in " ".join(ln.summarize(adjusted).text().split())


def test_adjusted_answers_have_intervals_that_need_not_be_centred(adjusted):
    text = ln.summarize(adjusted).html()
    assert faults(text) == [] and " ± " not in text
    frame = adjusted.to_frame()
    off = (frame.lower + frame.upper) / 2 != frame.answer
    assert off.any()
    rows = frame[frame["query"] == "age x sex"]
    cells = [cell for line in table_rows(by_batch(read(text))["age x sex"]) for cell in line[1:]]
    for cell, row in zip(cells, rows.itertuples(), strict=True):
        assert is_told(cell.replace("(", "(95%: "), row)
    table = cross_table(adjusted, "six")
    shown = [cell for column in table.columns[1:] for cell in column.cells]
    rows = frame[frame["query"] == "six"].itertuples()
    assert {cell.replace("(", "(95%: ") for cell in shown} == {
        f"{row.answer:,.0f} (95%: {math.floor(row.lower):,} to {math.ceil(row.upper):,})" for row in rows
    }


# ------------------------------------------------------------------------ numbers


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e6), st.integers(0, 6))
def test_margins_cover_what_rounding_takes(answer, half, decimals):
    shown, margin = map(number, with_margin(answer, half, decimals).split(" ± "))
    slack = 1e-9 * (abs(answer) + half)
    assert shown - margin <= answer - half + slack and answer + half - slack <= shown + margin
    assert margin <= half + 1.6 * 10.0**-decimals + slack


def test_margins_rounded_to_the_nearest_would_not_cover():
    assert with_margin(0.4, 10.4) == "0 ± 11" and 0 + round(10.4) < 0.4 + 10.4


@given(st.floats(-1e6, 1e6), st.floats(1, 1e4), st.floats(0, 2), st.integers(0, 3))
def test_a_kept_accuracy_is_never_shown_as_missed(answer, asked, missing, decimals):
    asked = float(f"{asked:.6g}")
    half = max(asked - missing, asked / 2)
    shown, margin = map(number, with_margin(answer, half, decimals, asked).split(" ± "))
    slack = 1e-9 * (abs(answer) + asked)
    assert half - slack <= margin <= asked + slack
    assert abs(shown - answer) <= 0.5 * 10.0**-decimals + slack
    # One that is missed looks missed, and covers what rounding takes as ever.
    _, wider = map(number, with_margin(answer, asked * 1.001, decimals, asked).split(" ± "))
    assert wider > asked


def test_the_page_shows_a_kept_target_as_kept():
    """876 ± 76 stood beside a target of ±75 that was met."""
    query = ln.Marginal("age", "sex", name="t", within=(75, 0.95))
    plan = ln.design(ln.assemble([query], SCHEMA))
    release = release_of(plan)
    half = float((release.interval()[1] - release.interval()[0]).max() / 2)
    assert 74.5 < half <= 75 and math.ceil(half + 0.5) == 76
    words = by_batch(page_of(release))["t"].text
    assert "± 75" in words and "± 76" not in words
    assert "about the answer before it was rounded" in words
    # Without a target it is rounded up as ever, and nothing is said.
    free = plan_of([ln.Marginal("age", "sex", name="t")], goal=plan.privacy)
    assert "before it was rounded" not in by_batch(page_of(release_of(free)))["t"].text


def test_a_gap_that_nothing_stopped_is_told_as_one():
    """The page said "stopped" of a search that went to its end."""
    plan = plan_of()
    proof = dataclasses.replace(
        plan.certificate, status="stopped", lower_bound=plan.certificate.achieved / 1.020156
    )
    hasty = dataclasses.replace(plan, ended="deadline")
    for own in (plan, hasty):
        vars(own)["certificate"] = proof
    facts = next(page_of(plan).all("dl", "facts")).text
    assert "of the best possible, proved" in facts and "within 2.02%" in facts and "stopped" not in facts
    assert "the search cut short" in next(page_of(hasty).all("dl", "facts")).text
    assert [share_above(gap) for gap in (0.25, 0.0201001, 0.5, 3.999, 25.0)] == [
        "25%",
        "2.02%",
        "50%",
        "400%",
        "2,500%",
    ]


def test_the_title_names_the_dataset_that_a_ledger_knows():
    receipt = Receipt("<b>stays</b> 2025", "first", "f" * 64)
    root = page_of(release_of(plan_of(), receipt=receipt))
    for tag in ("h1", "title"):
        assert next(root.all(tag)).text.startswith("<b>stays</b> 2025: a private release of ")
    assert not any(root.all("b"))
    assert next(page_of(release_of(plan_of())).all("h1")).text.startswith("A private release of ")


def test_a_map_says_what_its_shades_are():
    schema = ln.Schema(age=range(16), wide=tuple(f"w{i}" for i in range(20)))
    release, part = shown_as(ln.Prefix("age") * ln.Marginal("wide"), schema)
    low, high = (f"{round(v):,}" for v in (release.answers.min(), release.answers.max()))
    assert f"counts of all up to a value from {low} to {high}" in part.text


@given(st.floats(-1e12, 0), st.floats(0, 1e12))
def test_ticks_are_few_round_and_reach_the_top(low, high):
    marks = pictures.ticks(low, high)
    assert 2 <= len(marks) <= 8
    if high > low:
        step = marks[1] - marks[0]
        assert marks[-1] >= high - step * 1e-9 and marks[0] <= low + step * (1 + 1e-9)
        digits = f"{step:.6e}"
        assert digits[0] in "125" and float(digits.split("e")[0]) == int(digits[0])


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 83, ["0", "20", "40", "60", "80", "100"]),
        (-0.3, 0.7, ["-0.2", "0.0", "0.2", "0.4", "0.6", "0.8"]),
        (0, 4e6, ["0", "1 M", "2 M", "3 M", "4 M"]),
        (0, 3e10, ["0", "1e+10", "2e+10", "3e+10"]),
        (0, 2_000, ["0", "500", "1,000", "1,500", "2,000"]),
    ],
)
def test_ticks_are_written_shortly(low, high, texts):
    marks = pictures.ticks(low, high)
    assert [pictures._tick(mark, marks) for mark in marks] == texts


def test_shades_rise_from_zero_to_the_largest():
    levels = pictures.shades(np.array([[0.0, 5.0, 10.0], [np.nan, 2.4, 7.6]]))
    assert levels.tolist() == [[0, 5, 9], [-1, 2, 7]]
    assert pictures.shades(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]
    assert pictures.shades(np.array([[-10.0, 0.0, 10.0]])).tolist() == [[0, 5, 9]]


# ------------------------------------------------------------------------ any scale


def test_a_million_answers_make_a_small_page():
    schema = ln.Schema(x=range(100), y=range(100), z=range(100))
    plan = ln.design(
        ln.assemble([ln.Prefix("x") * ln.Marginal("y") * ln.Marginal("z")], schema),
        ln.GDP(1),
        method="product",
    )
    release = ln.Release(plan, np.zeros(plan.strategy.n_measured, dtype=object))
    began = time.process_time()
    text = ln.summarize(release).html()
    # 0.7 s; label by label it would take minutes.
    assert time.process_time() - began < 10
    assert len(text) < 1_000_000 and "The first 120 of 1,000,000 counts." in text


@pytest.mark.thorough
def test_many_batches_are_named_once_the_page_is_long(monkeypatch):
    schema = ln.Schema(x=range(20), y=range(20))
    asked = [ln.Marginal("x", "y", name=f"batch {i}") for i in range(250)]
    release = release_of(plan_of(asked, schema=schema, method="marginals"))
    monkeypatch.setattr(page, "_MAX_CHARACTERS", 100_000)
    text = ln.summarize(release).html()
    assert faults(text) == []
    assert len(text) < 400_000
    told = section(read(text), "released").text
    shown = len(by_batch(read(text)))
    assert 1 < shown < 10 and f"{250 - shown} further tables not shown, as the page is long enough." in told
    assert f"batch {shown}, batch {shown + 1}," in told and "…" in told
    assert text.count("The first 200 of 250 batches.") == 3


def test_cubes_of_many_tables_show_all_up_to_2000_counts():
    schema = ln.Schema(**{f"a{i}": ("x", "y") for i in range(6)})
    _, part = shown_as(ln.Cube(*schema.names, order=(2,)), schema)
    assert len(list(part.all("table"))) == 15 and "not shown" not in part.text
    assert [e.text for e in part.all("h4")][:2] == ["a0 × a1", "a0 × a2"]


# ------------------------------------------------------------------------ files and commands


def test_a_page_is_written_whole_or_not_at_all(release, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    report = ln.summarize(release)
    with monkeypatch.context() as patched:
        patched.setattr("leastnoise.report.page.page", lambda *_: "\ud800")
        with pytest.raises(UnicodeEncodeError):
            report.to_html(path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report.html"]
    assert report.to_html(str(path)) == path
    assert path.read_text("utf-8") == report.html()


APP = typer.Typer()
APP.command()(report_command)


def test_the_command_writes_a_page(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("a.release")
    release.plan.save("a.plan")
    Path("b").write_bytes(Path("a.plan").read_bytes())
    for arguments, target, subject in (
        (["a.release"], "a.html", release),
        (["a.plan", "--out", "p.htm"], "p.htm", release.plan),
        (["b"], "b.html", release.plan),
    ):
        done = CliRunner().invoke(APP, arguments)
        assert done.output == f"wrote {target}\n", done.exception
        assert Path(target).read_text("utf-8") == ln.summarize(subject).html()


def test_the_command_refuses_what_it_should(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("a.release")
    Path("junk").write_text("junk")
    Path("link.html").symlink_to("a.release")
    for arguments, kind, words_ in (
        (["none.release"], PlanFileError, "there is no file 'none.release'"),
        (["junk"], PlanFileError, "'junk' cannot be read"),
        (["a.release", "--out", "a.release"], InputError, "--out must end in .html, got 'a.release'"),
        (["a.release", "--out", "no/a.html"], InputError, "there is no folder 'no'"),
        (["a.release", "--out", "link.html"], InputError, "'link.html' cannot be written"),
    ):
        done = CliRunner().invoke(APP, arguments)
        assert isinstance(done.exception, kind) and words_ in str(done.exception)
    assert ln.load_release("a.release")


def test_the_command_replaces_no_page_unasked(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("a.release")
    Path("a.html").write_text("an older page")
    done = CliRunner().invoke(APP, ["a.release"])
    assert isinstance(done.exception, InputError)
    assert "'a.html' exists; give another --out, or --force to replace it" in str(done.exception)
    assert Path("a.html").read_text() == "an older page"
    assert CliRunner().invoke(APP, ["a.release", "--force"]).output == "wrote a.html\n"
    assert Path("a.html").read_text("utf-8") == ln.summarize(release).html()


def test_the_command_names_the_file_that_is_meant(tmp_path, monkeypatch, release):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv", "c.toml", "d.html"):
        Path(name).write_text("x")
    release.save("a.release")
    release.plan.save("c.plan")
    for name, words_ in (
        (
            "a.csv",
            "'a.csv' is a table, not a saved release or plan; .*you probably mean .*: a.release",
        ),
        ("b.csv", "`leastnoise publish` writes NAME-answers.release beside the answers: name that one"),
        ("c.toml", "'c.toml' is a specification, .*you probably mean .*: c.plan"),
        ("d.html", "'d.html' is a page, not a saved release or plan"),
    ):
        done = CliRunner().invoke(APP, [name])
        assert isinstance(done.exception, InputError) and re.search(words_, str(done.exception)), (
            done.exception
        )
    Path("c.plan").unlink()
    done = CliRunner().invoke(APP, ["c.toml"])
    assert "`leastnoise design c.toml` saves a plan" in str(done.exception)


# ------------------------------------------------------------------------ notebooks


def test_notebooks_show_values_and_escape_labels(release):
    """A notebook showed one long line of text for everything."""
    hostile = ln.Schema({HOSTILE[0]: range(3), "kind": HOSTILE[:2]})
    plan = plan_of([ln.Marginal("kind", name=HOSTILE[1])], schema=hostile)
    held = release_of(plan)
    for value in (hostile, plan.workload, plan, plan.certificate, held, ln.Publication(title=HOSTILE[0])):
        shown = value._repr_html_()
        assert "<script" not in shown and "onmouseover=" not in shown and "</title>" not in shown
        assert shown.startswith(("<pre", "<table>"))
    assert str(plan.certificate)[:20] in html.unescape(plan.certificate._repr_html_())
    table = release._repr_html_()
    assert table.count("<tr") == 11 and "everyone" in table
    framed = ln.summarize(release)._repr_html_()
    assert framed.startswith("<iframe sandbox ") and "<h1>" not in framed and "&lt;h1&gt;" in framed
