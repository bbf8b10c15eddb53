"""Charts as files: what is in them, that labels stay labels, and that nothing is asked of the outside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from browser import BROWSER, dom_of, requests_of
from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.report import to_page, to_svg
from support import extra, refuses

HOSTILE = "</script><script>document.title='taken'</script>"


def chart_of(labels=("a", "b"), **data):
    alt = extra("altair")
    extra("vl_convert")
    rows = [{"label": label, "count": 3 + i} for i, label in enumerate(labels)]
    return (
        alt.Chart(alt.Data(**(data or {"values": rows})))
        .mark_bar()
        .encode(x="count:Q", y="label:N", tooltip=["label:N", "count:Q"])
    )


class Page(HTMLParser):
    """The scripts of a page with their attributes, and everything that names an address."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.addresses, self.policy, self._open = [], [], None, False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.addresses += [value for key, value in attrs if key in ("src", "href", "action", "srcset")]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag == "script":
            self.scripts.append([given, ""])
        self._open = tag == "script"

    def handle_endtag(self, tag):
        self._open = False

    def handle_data(self, data):
        if self._open:
            self.scripts[-1][1] += data


@pytest.mark.thorough
def test_a_picture_is_one_element_with_its_labels_and_nothing_to_load():
    svg = to_svg(chart_of(("women", "<b>&men")))
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"women", "<b>&men"} <= texts
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", svg)


@pytest.mark.thorough
def test_a_page_brings_its_script_along_and_allows_no_other():
    page = Page(to_page(chart_of(), title="Ages & sexes"))
    (_, spec), (given, script) = page.scripts
    assert given == {} and page.addresses == []
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert page.policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}' 'unsafe-eval';" in page.policy
    assert "http" not in page.policy and "script-src 'unsafe-inline'" not in page.policy
    assert "$schema" not in json.loads(spec)
    assert len(script) > 500_000


@pytest.mark.thorough
def test_a_label_does_not_end_the_script_that_it_stands_in():
    text = to_page(chart_of((HOSTILE, "<!--", "\u2028")), title=HOSTILE)
    page = Page(text)
    assert len(page.scripts) == 2
    rows = json.loads(page.scripts[0][1])["data"]["values"]
    assert [row["label"] for row in rows] == [HOSTILE, "<!--", "\u2028"]
    # What vl-convert itself would have written, so that the check is known to notice.
    vl_convert = extra("vl_convert")
    theirs = Page(vl_convert.vegalite_to_html(chart_of((HOSTILE,)).to_dict(), bundle=True))
    assert len(theirs.scripts) > 2


def test_data_from_elsewhere_are_refused():
    for make in (to_svg, lambda chart: to_page(chart, title="x")):
        with refuses(InputError, "chart", "https://example.com/a.csv"):
            make(chart_of(url="https://example.com/a.csv"))
    alt = extra("altair")
    inner = chart_of() & chart_of(url="elsewhere.csv")
    with refuses(InputError, "chart", "elsewhere.csv"):
        to_svg(inner)
    pictures = alt.Chart(alt.Data(values=[{"u": "https://example.com/x.png"}])).mark_image().encode(url="u:N")
    with refuses(InputError, "chart", None, "pictures from elsewhere"):
        to_svg(pictures)
    # A column may be called url; its values are no addresses to load.
    assert "<svg" in to_svg(
        alt.Chart(alt.Data(values=[{"url": "b", "data": 1}])).mark_bar().encode(y="url:N")
    )


@pytest.mark.thorough
def test_more_rows_than_altair_likes_are_drawn():
    assert to_svg(chart_of([f"c{i % 7}" for i in range(6_000)])).startswith("<svg")


def test_what_is_no_chart_is_refused():
    for make in (to_svg, lambda chart: to_page(chart, title="x")):
        extra("altair")
        extra("vl_convert")
        with refuses(InputError, "chart", dict):
            make({"mark": "bar"})


@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_packages_the_line_to_type_is_given(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with refuses(MissingExtraError, "altair", None, "pip install 'leastnoise"):
        to_svg(None)


@pytest.mark.thorough
def test_importing_the_library_does_not_import_charts():
    code = (
        "import sys, leastnoise, leastnoise.report.charts.chart_files; "
        "assert not {'altair', 'vl_convert', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.thorough
@BROWSER
def test_a_browser_draws_the_page_and_asks_for_nothing(tmp_path):
    path = tmp_path / "chart.html"
    path.write_text(to_page(chart_of(("women", HOSTILE)), title="a title"), encoding="utf-8")
    drawn = dom_of(path)
    assert "<title>a title</title>" in drawn
    assert re.search(r"<svg[^>]*class=\"marks\"", drawn) and ">women</text>" in drawn
    assert requests_of(path) == []


@pytest.mark.thorough
@BROWSER
def test_a_page_that_loads_something_would_be_noticed(tmp_path):
    path = tmp_path / "chart.html"
    path.write_text('<!DOCTYPE html><img src="http://127.0.0.1:9/x.png">', encoding="utf-8")
    assert requests_of(path) == ["http://127.0.0.1:9/x.png"]
