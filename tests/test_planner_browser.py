"""The planner in a real Chromium: every control, and what only a browser can tell."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import leastnoise as ln
from browser import BROWSER
from driven_browser import DrivenBrowser, DrivenPage
from leastnoise.app.planner import private_entry, static_page
from leastnoise.app.specification import parse_spec
from leastnoise.privacy import epsilon_of
from support import extra
from test_planner import HOSTILE, TEXT, hostile_text

extra("uvicorn")
pytestmark = [BROWSER, pytest.mark.thorough, pytest.mark.xdist_group("planner")]

# The slider is exact: what doubles lose, and the rounding of a strategy to integers.
EXACT = 1e-9


@pytest.fixture(scope="module")
def browser() -> Iterator[DrivenBrowser]:
    with DrivenBrowser() as driven:
        yield driven


@contextmanager
def planner(path: Path, *options: str, ended_by: int = signal.SIGTERM) -> Iterator[str]:
    """The address of a planner, run as a person runs it; ended by a signal it leaves nothing behind."""
    code = "from leastnoise.app.cli.main import main; main()"
    scratch = path.parent / "scratch"
    scratch.mkdir()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, "plan", str(path), "--no-open", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
        begun = [
            int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ]
    finally:
        process.send_signal(ended_by)
        process.wait()
        process.stdout.close()
    # Folders used to be left by every planner that was ended, and its processes went on.
    assert [one.name for one in scratch.iterdir()] == []
    while any(Path(f"/proc/{one}").exists() for one in begun):
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """One planner for all tests that bring their own specification, which it reads again."""
    path = tmp_path_factory.mktemp("shared") / "people.toml"
    path.write_text(TEXT, encoding="utf-8")
    with planner(path) as url:
        yield path, url


def settle(page: DrivenPage) -> None:
    page.wait("state.job === null && (state.view || state.error || state.fault) && !moved")


def change(page: DrivenPage, act: Callable[[], None]) -> dict[str, Any]:
    """What the specification holds after something was done on the page, and designed."""
    before = page.eval("state.version")
    act()
    page.wait(f"state.version > {before}")
    settle(page)
    return tomllib.loads(page.eval("state.text"))


@pytest.fixture
def page(browser: DrivenBrowser, shared: tuple[Path, str]) -> Iterator[DrivenPage]:
    """A page on the shared planner."""
    tab = browser.page()
    tab.open(shared[1])
    yield tab
    tab.call("Page.navigate", url="about:blank")


@pytest.fixture
def path(shared: tuple[Path, str]) -> Path:
    """The file of the shared planner."""
    return shared[0]


def read(page: DrivenPage, path: Path, text: str = TEXT) -> None:
    """Have the planner read another specification from its file."""
    path.write_text(text, encoding="utf-8")
    before = page.eval("state.version")
    page.eval("act('reload').then(() => 1)")
    page.wait(f"state.version > {before}")
    settle(page)


# ------------------------------------------------------------------------ every control


def test_every_control_edits_the_specification(page: DrivenPage, path: Path) -> None:
    read(page, path)
    page.eval("act('keep').then(() => 1)")
    existing = set(page.eval(CONTROLS))
    used = walk_privacy(page) | walk_tables(page) | walk_what_if(page) | walk_file(page, path)
    existing |= set(page.eval(CONTROLS))
    assert existing - used <= {"cancel", "reload", "again"}, existing - used


CONTROLS = "[...document.querySelectorAll('button, select, input, textarea')].map(e => e.id || e.name)"


def walk_privacy(page: DrivenPage) -> set[str]:
    wide = page.eval("Z * state.view.tables[0].high")
    page.eval("document.getElementById('slider').focus()")
    found = change(page, lambda: page.key("ArrowRight", 39))
    assert found["privacy"]["epsilon"] > 1.0
    assert page.eval("Z * state.view.tables[0].high") < wide
    assert change(page, lambda: page.type("#goal-epsilon", "2.5"))["privacy"]["epsilon"] == 2.5
    assert change(page, lambda: page.type("#goal-delta", "1e-7"))["privacy"]["delta"] == 1e-7
    found = change(page, lambda: page.choose("#goal-kind", "rho"))["privacy"]
    mu = float(ln.ApproxDP(2.5, 1e-7).mu_squared) ** 0.5
    assert found["rho"] == pytest.approx(mu**2 / 2, rel=1e-3) and set(found) == {"rho"}
    found = change(page, lambda: page.choose("#goal-kind", "mu"))["privacy"]
    assert found["mu"] == pytest.approx(mu, rel=1e-3)
    found = change(page, lambda: page.choose("#goal-kind", "pure"))["privacy"]
    assert set(found) == {"epsilon"} and page.eval("state.view.is_pure")
    found = change(page, lambda: page.choose("#goal-kind", "epsilon"))["privacy"]
    assert set(found) == {"epsilon", "delta"}
    page.type("#goal-epsilon", "-3")
    page.wait("document.getElementById('said').textContent.includes('positive')")
    found = change(page, lambda: page.type("#goal-epsilon", "1"))
    assert found["privacy"]["epsilon"] == 1 and "# agreed in May" in page.eval("state.text")
    assert "right at most" in page.text("#risk") and "coin is right 50%" in page.text("#risk")
    return {"slider", "goal-kind", "goal-epsilon", "goal-delta", "goal-rho", "goal-mu"}


def walk_tables(page: DrivenPage) -> set[str]:
    page.choose("#ask-which", "age")
    page.choose("#ask-level", "0.95")
    found = change(page, lambda: page.type("#ask-width", "50"))
    assert [one.get("within") for one in found["query"]] == [None, [50, 0.95], [50, 0.95]]
    page.wait("document.getElementById('least')")
    assert page.text("#least").startswith("ε = ") and "driven by" in page.text("#needs")
    # The least leaves nothing of what was not asked for unsaid, and both ways are offered.
    page.wait("state.needs.is_complete")
    assert page.eval("state.needs.unasked.length") == 0 or "everyone" in page.text("#unasked")
    found = change(page, lambda: page.click("#use-least"))
    assert page.text("#least") == f"ε = {found['privacy']['epsilon']}" and not page.text("#refusal")
    assert page.eval("state.view.tables.every(t => t.target === null || t.high <= t.target)")
    found = change(page, lambda: page.type("#need-1", "3"))
    assert found["query"][1]["within"] == [3, 0.95] and "missed" in page.text("#ready")
    assert "✗ missed" in page.text("table.plans") and page.text("#refusal")
    change(page, lambda: page.click("#undo"))
    page.choose("#ask-which", "")
    found = change(page, lambda: page.click("#ask-clear"))
    assert all("within" not in one for one in found["query"])
    page.type("#ask-width", "many")
    page.wait("document.getElementById('said').textContent.includes('such as 50')")
    found = change(page, lambda: page.type("#example-0", "7,000"))
    assert found["query"][0]["expected"] == 7000
    assert "(invented)" not in page.text("table.plans tbody tr:first-child")
    for number in (1, 2):
        assert "(invented)" in page.text(f"table.plans tbody tr:nth-child({number + 1})")
    assert change(page, lambda: page.type("#weight-2", "4"))["query"][2]["weight"] == 4
    page.click("#open-1")
    page.wait("document.querySelectorAll('.celllist li').length === 24")
    assert page.text(".celllist li").startswith("age 0, sex F")
    page.click("#open-1")
    page.wait("!document.querySelector('.celllist')")
    page.click("#open-0")
    page.click("#open-2")
    found = change(page, lambda: page.click("#drop-0"))
    assert [one["name"] for one in found["query"]] == ["age by sex", "age distribution"]
    assert "kept:" in page.text("table.plans thead").lower()
    assert page.text("#change").startswith("You dropped everyone. Lost: everyone, 1 count.")
    assert "Lost: everyone, 1 count." in page.text("#price")
    assert page.text("tr.dropped").split("\n")[:2] == ["everyone", "1 count, dropped"]
    change(page, lambda: page.click("#take-back"))
    assert not page.text("#change") and not page.text("tr.dropped")
    change(page, lambda: page.click("#redo"))
    numbered = {f"{name}-{i}" for name in ("need", "example", "weight", "drop", "open") for i in range(5)}
    asking = {"ask-which", "ask-level", "ask-width", "ask-set", "ask-clear", "use-least", "use-higher"}
    return numbered | asking | {"take-back"}


def walk_what_if(page: DrivenPage) -> set[str]:
    page.eval("document.querySelectorAll('[name=cross]:not([value=age])').forEach(e => e.click())")
    page.choose("#coarsen-by", "5")
    # What is ticked and chosen used to be lost whenever the page was drawn again.
    page.eval("draw()")
    assert page.eval("document.querySelectorAll('[name=cross]:checked').length") == 2
    assert page.text("#coarsen-note") == "3 values instead of 12."
    found = change(page, lambda: page.click("#add-table"))
    assert found["query"][-1] == {"kind": "marginal", "attributes": ["sex", "region"]}
    assert page.text("#change").startswith("You added the table sex by region. New: ")
    assert "4 counts within ± " in page.text("#change") and "± is " in page.text("#change")
    assert page.eval("document.querySelectorAll('[name=cross]:checked').length") == 0
    assert "sex and region stay as declared" in page.text("#fixed")
    page.choose("#coarsen-which", "age")
    page.choose("#coarsen-by", "5")
    found = change(page, lambda: page.click("#coarsen"))
    assert found["schema"]["age"] == {"bins": [0, 5, 10, 12]}
    assert page.eval("state.view.tables[0].n_rows") == 6
    assert "age by sex has 6 counts instead of 24." in page.text("#change")
    found = change(page, lambda: page.choose("#neighbours", "replace-one"))
    assert found["privacy"]["neighbours"] == "replace-one"
    assert change(page, lambda: page.type("#records", "2"))["privacy"]["records_per_person"] == 2
    change(page, lambda: page.click("#undo"))
    found = change(page, lambda: page.click("#undo"))
    assert "neighbours" not in found["privacy"]
    found = change(page, lambda: page.click("#redo"))
    assert found["privacy"]["neighbours"] == "replace-one"
    change(page, lambda: page.click("#undo"))
    page.type("#month-first", "2026-01")
    page.type("#month-last", "2026-03")
    found = change(page, lambda: page.click("#monthly"))
    assert found["design"]["over"] == "month" and not page.eval("state.error"), page.text("#error")
    found = change(page, lambda: page.click("#all-at-once"))
    assert "over" not in found["design"]
    return {
        *("cross", "add-table", "coarsen", "coarsen-which", "coarsen-by", "neighbours", "records", "undo"),
        *("redo", "month-first", "month-last", "monthly", "all-at-once"),
    }


def walk_file(page: DrivenPage, path: Path) -> set[str]:
    page.click("#keep")
    page.wait("state.kept.is_present")
    page.wait("document.getElementById('said').textContent.startsWith('Kept. ')")
    text = page.eval("state.text") + "\n# one more comment\n"
    page.eval(f"document.getElementById('text').value = {json.dumps(text)}")
    change(page, lambda: page.click("#apply"))
    assert path.read_text("utf-8") == TEXT
    page.click("#save")
    page.wait("state.is_saved")
    assert path.read_text("utf-8") == text and "saved to people.toml at " in page.text("#saved")
    page.wait("state.has_plan")
    caught = (
        "globalThis.got = []; h = (old => (...a) => { const n = old(...a); "
        "if (a[0] === 'a') { n.click = () => got.push(n.download); } return n; })(h)"
    )
    page.eval(caught)
    page.click("#get-text")
    page.click("#get-plan")
    page.click("#get-page")
    page.wait("got.length === 3")
    assert sorted(page.eval("got")) == ["people-plan.html", "people.plan", "people.toml"]
    held = page.eval("fetch('page').then(a => a.text())")
    assert held.startswith("<!DOCTYPE html>") and "connect-src &#39;none&#39;" in held
    size = page.eval("fetch('plan').then(a => a.arrayBuffer()).then(b => b.byteLength)")
    assert size > 100
    page.eval("window.print = () => { globalThis.printed = true; }")
    page.click("#print")
    assert page.eval("printed")
    return {"keep", "text", "apply", "save", "get-text", "get-plan", "get-page", "print"}


# ------------------------------------------------------------------------ exact, instant, alone


def test_the_curve_in_the_page_is_the_curve(browser: DrivenBrowser, tmp_path: Path) -> None:
    """200 random pairs: μ within 1e-10 of the proved one, and ε from it."""
    page = static(browser, tmp_path)
    rng = np.random.default_rng(1)
    pairs = [[float(10 ** rng.uniform(-2, 1.3)), float(10 ** rng.uniform(-12, -2))] for _ in range(200)]
    found = page.eval(f"{json.dumps(pairs)}.map(([e, d]) => [muOf(e, d), epsilonOf(muOf(e, d), d)])")
    for (epsilon, delta), (mu, again) in zip(pairs, found, strict=True):
        exact = ln.ApproxDP(epsilon, delta).mu_squared
        assert mu == pytest.approx(float(exact) ** 0.5, rel=1e-10)
        assert again == pytest.approx(epsilon_of(exact, delta), rel=1e-9)


def static(browser: DrivenBrowser, tmp_path: Path, text: str = TEXT) -> DrivenPage:
    path = tmp_path / "people.toml"
    path.write_text(text, encoding="utf-8")
    target = tmp_path / "plan.html"
    target.write_text(static_page(path), encoding="utf-8")
    page = browser.page()
    page.open(target.as_uri())
    return page


def test_privacy_moved_in_the_static_file_agrees_with_design(browser: DrivenBrowser, tmp_path: Path) -> None:
    page = static(browser, tmp_path)
    workload = parse_spec(TEXT).workload
    for goal in (
        ln.ApproxDP(0.05, 1e-6),
        ln.ApproxDP(7.3, 1e-9),
        ln.ApproxDP(1, 0.01),
        ln.ZCDP(0.4),
        ln.GDP(2),
    ):
        numbers = {k: v for k, v in goal.to_dict().items() if k in ("epsilon", "delta", "rho", "mu")}
        page.eval(f"(moved = {json.dumps(numbers)}, draw())")
        shown = page.eval("state.view.tables.flatMap(t => t.errors.map(e => e * scale()))")
        assert np.abs(np.array(shown) / ln.design(workload, goal).stderr - 1).max() <= EXACT
        assert "You have moved privacy from there" in page.text("#promise")
    page.click("#back")
    page.wait("moved === null")
    assert page.text("#promise").startswith("The promise: ")
    page.eval("document.getElementById('slider').focus()")
    page.key("ArrowLeft", 37)
    assert page.eval("moved.epsilon") < 1 and "follows the slider exactly" in page.text("#exactness")
    # While the slider had the focus the promise stayed that of the plan.
    promise = "document.getElementById('promise').textContent"
    page.wait(f"!waiting && {promise}.includes('You have moved privacy from there')")
    assert page.text("#planned").startswith("Planned: ε = 1 at δ = 1e-6.")
    assert page.eval("document.activeElement.id") == "slider"
    page.click("#back")
    page.wait("moved === null && !document.getElementById('planned')")


def test_the_static_file_offers_nothing_that_needs_a_server(browser: DrivenBrowser, tmp_path: Path) -> None:
    page = static(browser, tmp_path)
    assert set(page.eval(CONTROLS)) == {
        *("print", "slider", "goal-kind", "goal-epsilon", "goal-delta", "open-0", "open-1", "open-2")
    }
    page.call("Network.enable")
    page.eval("fetch('http://127.0.0.1:1/').catch(e => globalThis.refused = String(e))")
    page.wait("globalThis.refused")


# ------------------------------------------------------------------------ two windows, faults, the file


def test_two_windows_show_one_plan(page: DrivenPage, path: Path, shared: tuple[Path, str]) -> None:
    read(page, path)
    with DrivenBrowser() as other:
        pages = [page, other.page()]
        pages[1].open(shared[1])
        settle(pages[1])
        change(pages[0], lambda: pages[0].type("#goal-epsilon", "3"))
        pages[1].wait("state.text.includes('epsilon = 3')")
        settle(pages[1])
        assert pages[1].text("#main-number") == pages[0].text("#main-number")
        # An edit that was made on a version before is refused, and what is there now is shown.
        pages[1].eval("state.version = 1")
        pages[1].eval("edit({edit: 'weight', table: 0, weight: 5})")
        pages[1].wait("document.getElementById('said').textContent.includes('another window')")
        assert "weight" not in pages[1].eval("state.text")


def test_a_design_that_fails_says_why_and_what_to_do(page: DrivenPage, path: Path) -> None:
    read(page, path, TEXT.replace("tol = 1e-6", 'method = "absent"'))
    assert "absent" in page.text("#error") and page.text(".pill") == "no plan"
    before = page.eval("state.stamp")
    page.click("#again")
    page.wait(f"state.stamp > {before} && state.job === null")
    assert "absent" in page.text("#error")
    text = page.eval("state.text").replace('method = "absent"', "tol = 1e-6")
    page.eval(f"document.getElementById('text').value = {json.dumps(text)}")
    change(page, lambda: page.click("#apply"))
    assert not page.text("#error") and page.text("#proof")


def test_an_error_in_the_specification_is_shown_at_its_line(page: DrivenPage, path: Path) -> None:
    read(page, path, TEXT.replace('"prefix"', '"prefx"'))
    assert "in line 23" in page.text("#fault")
    assert page.text("#fault mark").strip().startswith("23")
    assert page.eval("document.getElementById('save').disabled")
    text = page.eval("state.text").replace('"prefx"', '"prefix"')
    page.eval(f"document.getElementById('text').value = {json.dumps(text)}")
    change(page, lambda: page.click("#apply"))
    assert not page.text("#fault") and page.text("#proof")


def test_a_file_changed_meanwhile_is_noticed_and_not_overwritten(page: DrivenPage, path: Path) -> None:
    read(page, path)
    change(page, lambda: page.type("#goal-epsilon", "3"))
    theirs = TEXT.replace("epsilon = 1.0", "epsilon = 0.2")
    path.write_text(theirs, encoding="utf-8")
    page.wait("state.is_changed_on_disk")
    page.click("#save")
    page.wait("document.getElementById('said').textContent.includes('not overwritten')")
    assert path.read_text("utf-8") == theirs
    found = change(page, lambda: page.click("#reload"))
    assert found["privacy"]["epsilon"] == 0.2 and not page.text("#changed")
    assert change(page, lambda: page.click("#undo"))["privacy"]["epsilon"] == 3
    page.click("#save")
    page.wait("state.is_saved")
    assert "epsilon = 3" in path.read_text("utf-8")


def test_a_long_design_shows_an_estimate_and_can_be_cancelled(browser: DrivenBrowser, tmp_path: Path) -> None:
    slow = TEXT.replace("[0, 12]", "[0, 700]").replace("tol = 1e-6", 'tol = 1e-12\nmethod = "dense"')
    path = tmp_path / "people.toml"
    path.write_text(slow.replace('kind      = "prefix"', 'kind      = "all-ranges"'), encoding="utf-8")
    # Killed in the middle of a design, it leaves no process at work.
    with planner(path, ended_by=signal.SIGKILL) as url:
        page = browser.page()
        page.open(url)
        page.wait("state.estimate && !state.view")
        page.wait("document.getElementById('estimate')")
        assert "estimate" in page.text("#estimate").lower() and page.text("table.plans")
        assert page.text("#bar").endswith("designing …")
        page.click("#cancel")
        page.wait("state.job === null")
        assert "cancelled" in page.text("#error")
        # A new edit supersedes it.
        page.eval(f"document.getElementById('text').value = {json.dumps(TEXT)}")
        change(page, lambda: page.click("#apply"))
        assert page.text("#proof")
        page.click("#undo")
        page.wait("state.job && state.estimate")


def test_a_ledger_says_what_is_left_and_how_often_the_plan_fits(
    browser: DrivenBrowser, tmp_path: Path
) -> None:
    path, ledger = tmp_path / "people.toml", tmp_path / "budget.db"
    path.write_text(TEXT, encoding="utf-8")
    ln.Ledger(ledger, dataset="town", limit=ln.ApproxDP(3, 1e-6))
    with planner(path, "--ledger", str(ledger)) as url:
        page = browser.page()
        page.open(url)
        settle(page)
        assert "'town'" in page.text("#budget") and "fits 7 times" in page.text("#budget"), page.text(
            "#budget"
        )


# ------------------------------------------------------------------------ strangers


def test_names_stay_text(browser: DrivenBrowser, page: DrivenPage, path: Path, tmp_path: Path) -> None:
    read(page, path, hostile_text())
    check_names(page)
    page.eval("state.view.tables.forEach(t => opened.add(t.name)), draw()")
    check_names(page)
    check_names(static(browser, tmp_path, hostile_text()))


def check_names(page: DrivenPage) -> None:
    assert page.eval("document.title") == "Plan for people.toml – leastnoise"
    shown = page.eval(
        "[...document.querySelectorAll('.plans [aria-expanded]')].map(e => e.textContent.slice(2))"
    )
    assert shown == list(HOSTILE)
    assert page.eval("document.querySelectorAll('#app :is(img, script, style, b, iframe)').length") == 0
    assert page.eval("document.querySelectorAll('[onfocus], [onerror], [onclick], [onload]').length") == 0


def asked(url: str, method: str, what: str, body: str | None = None, **headers: str) -> int:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, what, body, given)
        return connection.getresponse().status
    finally:
        connection.close()


def test_other_origins_hosts_and_tokens_are_refused(
    browser: DrivenBrowser, page: DrivenPage, path: Path, tmp_path: Path
) -> None:
    read(page, path)
    version = page.eval("state.version")
    edit = json.dumps({"version": version, "change": {"edit": "weight", "table": 0, "weight": 9}})
    url = page.eval("location.href")
    place = urlsplit(url)
    own = {"origin": f"http://{place.netloc}", "content_type": "application/json"}
    assert asked(url, "GET", place.path) == 200
    assert asked(url, "GET", place.path, host="evil.example") == 403
    assert asked(url, "GET", place.path, host=f"evil.example:{place.port}") == 403
    assert asked(url, "GET", "/0/") == 404 and asked(url, "GET", "/0/state") == 404
    # The way in asks for the key, and foreign pages and hosts do not even get there.
    assert asked(url, "POST", "/", "key=0") == 404 and asked(url, "GET", "/", host="evil.example") == 403
    key = f"key={place.path.strip('/')}"
    assert asked(url, "POST", "/", key, origin="http://evil.example") == 403
    assert asked(url, "POST", "/", key, origin="null") == 200
    assert asked(url, "POST", f"{place.path}edit", edit, **own | {"origin": "http://evil.example"}) == 403
    assert asked(url, "POST", f"{place.path}edit", edit, content_type="application/json") == 403
    assert asked(url, "POST", f"{place.path}edit", edit, **own | {"content_type": "text/plain"}) == 403
    assert asked(url, "POST", f"{place.path}edit", "[" * 10, **own) == 400
    # A page of another origin in the same browser, which knows even the token.
    stranger = browser.page()
    evil = tmp_path / "evil.html"
    evil.write_text("<body data-ready=1>", encoding="utf-8")
    stranger.open(evil.as_uri())
    send = f"fetch('{url}edit', {{method: 'POST', mode: 'no-cors', body: {edit!r}}}).then(() => 1, () => 1)"
    stranger.eval(send)
    found = f"fetch('{url}state').then(a => a.text(), e => 'refused')"
    assert stranger.eval(found) == "refused"
    assert page.eval("fetch('text').then(a => a.text())") == TEXT
    assert asked(url, "POST", f"{place.path}edit", edit, **own) == 200


def history(profile: str) -> str:
    """All addresses and titles in the history of a browser that has ended."""
    with closing(sqlite3.connect(f"file:{profile}/Default/History?mode=ro", uri=True)) as held:
        return "\n".join(" ".join(map(str, row)) for row in held.execute("SELECT url, title FROM urls"))


def test_a_browser_that_was_given_the_private_file_works_and_remembers_no_key(
    shared: tuple[Path, str],
) -> None:
    path, url = shared
    key = urlsplit(url).path.strip("/")
    with private_entry(url) as entry, DrivenBrowser() as own:
        tab = own.page()
        tab.open(entry.as_uri())
        read(tab, path)
        assert tab.eval("location.href") == f"http://{urlsplit(url).netloc}/"
        assert change(tab, lambda: tab.type("#goal-epsilon", "3"))["privacy"]["epsilon"] == 3
        # Read again it asks nothing, shows the same, and still edits.
        tab.eval("globalThis.isFromBefore = true")
        tab.call("Page.reload")
        tab.wait("!globalThis.isFromBefore && document.body && document.body.dataset.ready")
        settle(tab)
        assert "epsilon = 3" in tab.eval("state.text")
        assert change(tab, lambda: tab.type("#goal-epsilon", "2"))["privacy"]["epsilon"] == 2
        assert tab.eval("fetch(base + 'plan').then(a => a.status)") == 200
        # Another tab that only knows the address has no key, and is told what to do.
        stranger = own.page()
        stranger.call("Page.navigate", url=f"http://{urlsplit(url).netloc}/")
        stranger.wait("document.body && document.body.innerText.includes('leastnoise plan')")
        own.end()
        held = history(own.profile)
        assert f"http://{urlsplit(url).netloc}/" in held and key not in held
    assert not entry.exists()


def test_the_history_is_where_an_address_opened_by_hand_is_found(shared: tuple[Path, str]) -> None:
    """The twin of the test above: what it looks for is there where the browser was given the address."""
    with DrivenBrowser() as own:
        own.page().open(shared[1])
        own.end()
        assert urlsplit(shared[1]).path.strip("/") in history(own.profile)


# ------------------------------------------------------------------------ for everybody


def test_it_is_read_on_a_phone_in_the_dark_on_paper_and_aloud(page: DrivenPage, path: Path) -> None:
    read(page, path)
    change(page, lambda: page.type("#need-1", "50"))
    unnamed = (
        "[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length && "
        "!e.getAttribute('aria-label')).map(e => e.id)"
    )
    assert page.eval(unnamed) == []
    assert page.eval("[...document.querySelectorAll('button')].every(e => (e.textContent || '').trim())")
    assert page.eval("[...document.querySelectorAll('section')].every(e => e.querySelector('h2'))")
    reached = set()
    page.eval("document.activeElement.blur()")
    for _ in range(60):
        page.key("Tab", 9)
        reached.add(page.eval("document.activeElement.id || document.activeElement.name"))
    enabled = page.eval(CONTROLS.replace(".map", ".filter(e => !e.disabled).map"))
    assert set(enabled) <= reached, set(enabled) - reached
    for width in (320, 400, 768):
        page.size(width, 800, is_phone=True)
        assert page.eval("document.documentElement.scrollWidth <= window.innerWidth"), width
    page.size(1280, 900)
    page.media(dark=True)
    assert page.eval("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    page.media(kind="print")
    assert page.eval("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    visible = (
        "[...document.querySelectorAll('button, textarea')]"
        ".filter(e => e.offsetParent && !e.closest('th')).length"
    )
    assert page.eval(visible) == 0
    assert "age distribution" in page.text("table.plans") and page.text("#proof") and page.text("#risk")
    page.media()
