"""The planner without a browser: edits of the text, what the page shows, and what the server refuses."""

from __future__ import annotations

import html
import json
import math
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.planner import planner_page, server
from leastnoise.app.planner.first_estimates import first_estimates
from leastnoise.app.planner.plan_view import controls_of, goal_for, loss_of, plan_view, query_tables
from leastnoise.app.planner.spec_edits import EDITS, coarser, edited
from leastnoise.app.planner.studies import study
from leastnoise.app.specification import load_spec, parse_spec
from leastnoise.app.specification.toml_text import value_text
from leastnoise.core.errors import LeastnoiseError, MissingExtraError, SpecError
from support import extra, refuses

extra("tomlkit")
extra("starlette")

TEXT = """# What the town publishes.
[schema]
age    = { range = [0, 12] }   # years
sex    = ["F", "M"]
region = ["Centre", "North"]

[privacy]
epsilon = 1.0    # agreed in May
delta   = 1e-6

# everybody
[[query]]
kind = "total"
name = "everyone"

# the pyramid
[[query]]
kind       = "marginal"
attributes = ["age", "sex"]   # both
name       = "age by sex"

# how old
[[query]]
kind      = "prefix"
attribute = "age"
name      = "age distribution"

[design]
tol = 1e-6   # enough
"""

# Names that try to leave the page, the script, the attribute, the line or the reading direction.
HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "<script>document.title='broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "<svg onload=document.title='broken'>",
    '" onfocus="document.title=\'broken\'" autofocus="',
    "' onclick='document.title=1",
    "<!-- <script>",
    "-->",
    "]]>",
    "&lt;b&gt;",
    "&#60;script&#62;",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "${document.title='broken'}",
    "`${1}`",
    "javascript:document.title='broken'",
    "\\u003cscript\\u003e",
    "</style><style>body{display:none}</style>",
    "</textarea><b>",
    "</title><b>",
    "__proto__",
    "constructor",
    "\u202edesrever",
    "\u2028line",
    "a" * 5000,
    "=cmd()",
    "\x07bell",
    "🏳️‍🌈 ñ 中文",
)


def hostile_text() -> str:
    """A specification whose names of attributes, values and tables are all hostile."""
    values = ", ".join(map(value_text, HOSTILE))
    spec_lines = ["[schema]", f'"<b>a</b>" = [{values}]', "[privacy]", "mu = 1"]
    for name in HOSTILE:
        spec_lines += ["[[query]]", 'kind = "marginal"', 'attributes = ["<b>a</b>"]']
        spec_lines += [f"name = {value_text(name)}"]
    return "\n".join(spec_lines) + "\n"


def comments(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.split("\n") if "#" in line]


def edit(kind: str, **values: Any) -> str:
    return edited(TEXT, {"edit": kind, **values})


# ------------------------------------------------------------------------ edits

CASES: list[tuple[dict[str, Any], Any]] = [
    (
        {"edit": "privacy", "numbers": {"epsilon": 0.5, "delta": 1e-6}},
        lambda p: p["privacy"]["epsilon"] == 0.5,
    ),
    ({"edit": "privacy", "numbers": {"rho": 0.25}}, lambda p: p["privacy"] == {"rho": 0.25}),
    ({"edit": "privacy", "numbers": {"epsilon": 2}}, lambda p: p["privacy"] == {"epsilon": 2}),
    ({"edit": "people", "neighbours": "replace-one"}, lambda p: p["privacy"]["neighbours"] == "replace-one"),
    ({"edit": "people", "records_per_person": 3}, lambda p: p["privacy"]["records_per_person"] == 3),
    ({"edit": "need", "table": 1, "within": 50}, lambda p: p["query"][1]["within"] == [50, 0.95]),
    (
        {"edit": "need-all", "tables": [1, 2], "within": 30, "level": 0.9},
        lambda p: [q.get("within") for q in p["query"]] == [None, [30, 0.9], [30, 0.9]],
    ),
    ({"edit": "example", "table": 0, "expected": 7000}, lambda p: p["query"][0]["expected"] == 7000),
    ({"edit": "weight", "table": 2, "weight": 2.5}, lambda p: p["query"][2]["weight"] == 2.5),
    (
        {"edit": "add", "attributes": ["sex", "region"]},
        lambda p: p["query"][3]["attributes"] == ["sex", "region"],
    ),
    ({"edit": "add", "attributes": []}, lambda p: p["query"][3] == {"kind": "total"}),
    (
        {"edit": "coarsen", "attribute": "age", "by": 5},
        lambda p: p["schema"]["age"] == {"bins": [0, 5, 10, 12]},
    ),
    (
        {"edit": "monthly", "first": "2026-01", "last": "2026-03"},
        lambda p: (
            p["design"]["over"] == "month"
            and p["query"][1]["attributes"] == ["age", "sex", "month"]
            and p["query"][2]["kind"] == "product"
        ),
    ),
]


@pytest.mark.parametrize(
    ("change", "holds"), CASES, ids=lambda one: str(one.get("edit")) if isinstance(one, dict) else ""
)
def test_an_edit_does_what_it_says_and_keeps_every_comment(change: dict[str, Any], holds: Any) -> None:
    text = edited(TEXT, change)
    assert holds(tomllib.loads(text)), text
    assert set(comments(TEXT)) - {" years"} <= set(comments(text)), text
    # The same code as for files: an edit that the page offers is a specification.
    parse_spec(text)


def test_a_dropped_query_takes_its_own_comment_and_no_other() -> None:
    text = edit("drop", table=1)
    assert [q["name"] for q in tomllib.loads(text)["query"]] == ["everyone", "age distribution"]
    assert comments(TEXT)[:3] == comments(text)[:3] and " how old" in comments(text)
    assert " the pyramid" not in comments(text) and " enough" in comments(text)
    last = edit("drop", table=2)
    assert [q["name"] for q in tomllib.loads(last)["query"]] == ["everyone", "age by sex"]
    assert tomllib.loads(last)["design"] == {"tol": 1e-6}


def test_what_is_asked_twice_is_replaced_and_what_is_taken_back_is_gone() -> None:
    asked = edited(edit("need", table=0, within=9), {"edit": "need", "table": 0, "within": "5%"})
    assert tomllib.loads(asked)["query"][0]["within"] == ["5%", 0.95]
    none = edited(asked, {"edit": "need", "table": 0, "within": None})
    assert none == TEXT
    assert edited(edit("weight", table=0, weight=3), {"edit": "weight", "table": 0, "weight": 1}) == TEXT
    monthly = edit("monthly", first="2026-01", last="2026-02")
    assert "over" not in tomllib.loads(edited(monthly, {"edit": "all-at-once"})).get("design", {})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"edit": "burn"}, "edit"),
        ({"edit": "weight"}, "edit"),
        ({"edit": "weight", "table": 9, "weight": 1}, "table"),
        ({"edit": "weight", "table": True, "weight": 1}, "table"),
        ({"edit": "weight", "table": 0, "weight": math.nan}, "weight"),
        ({"edit": "weight", "table": 0, "weight": "2"}, "weight"),
        ({"edit": "coarsen", "attribute": "sex", "by": 2}, "attribute"),
        ({"edit": "add", "attributes": "age"}, "attributes"),
        ({"edit": "need-all", "tables": [], "within": 5}, "tables"),
        ({"edit": "text", "text": 5}, "text"),
    ],
)
def test_an_edit_that_means_nothing_is_refused(change: dict[str, Any], field: str) -> None:
    with refuses(SpecError, field):
        edited(TEXT, change)


@pytest.mark.thorough
def test_random_edits_keep_a_specification_or_are_refused() -> None:
    """Of 300 random edits, one after another, those that are not refused keep comments."""
    rng = np.random.default_rng(26)
    text, n_done = TEXT, 0
    for _ in range(300):
        kind = EDITS[1 + rng.integers(len(EDITS) - 1)]
        plain = tomllib.loads(text)
        names = list(plain["schema"])
        change: dict[str, Any] = {
            "edit": kind,
            "table": int(rng.integers(len(plain["query"]) + 1)),
            "tables": [0],
            "numbers": [{"epsilon": 2, "delta": 1e-6}, {"mu": 0.5}, {"rho": 1}][rng.integers(3)],
            "within": [None, 20, 3.5][rng.integers(3)],
            "expected": [None, 100][rng.integers(2)],
            "weight": float(rng.integers(4)),
            "attributes": [n for n in names if rng.random() < 0.4],
            "attribute": names[rng.integers(len(names))],
            "by": int(rng.integers(2, 6)),
            "records_per_person": int(rng.integers(1, 4)),
            "first": "2026-01",
            "last": "2026-03",
        }
        try:
            after = edited(text, change)
            parse_spec(after)
        except LeastnoiseError:
            continue
        assert set(comments(text)) >= set(comments(after)) or kind == "text"
        text, n_done = after, n_done + 1
    assert n_done > 100


def test_whatever_a_page_sends_is_an_edit_or_a_refusal() -> None:
    """Of 500 random requests none ends in anything but a text or an error of the library."""
    rng = np.random.default_rng(3)
    pool: list[Any] = [
        None,
        True,
        0,
        1,
        -1,
        2.5,
        math.inf,
        "",
        "age",
        "5%",
        [],
        ["age"],
        [0, 9],
        {},
        {"mu": 1},
    ]
    keys = (
        "table tables within level expected weight attributes attribute by numbers neighbours text first last"
    )
    texts = (TEXT, TEXT.replace("[schema]", "[schema"), "", "query = 1", "[schema]\n[query]\n", "x = [[1]]\n")
    for _ in range(500):
        change = {key: pool[rng.integers(len(pool))] for key in keys.split() if rng.random() < 0.7}
        try:
            after = edited(
                texts[rng.integers(len(texts))], {"edit": EDITS[rng.integers(len(EDITS))], **change}
            )
        except LeastnoiseError:
            continue
        assert isinstance(after, str)


def test_line_ends_stay_as_they_are() -> None:
    text = TEXT.replace("\n", "\r\n")
    for change in ({"edit": "weight", "table": 0, "weight": 2}, {"edit": "add", "attributes": ["sex"]}):
        after = edited(text, change)
        assert after.count("\r\n") == after.count("\n") > text.count("\n")
        assert after.replace("\r\n", "\n") == edited(TEXT, change)


def test_coarser_values_cover_the_same_and_are_fewer() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        low, size, factor = int(rng.integers(-9, 9)), int(rng.integers(2, 60)), int(rng.integers(2, 12))
        found = coarser({"range": [low, low + size]}, factor)
        assert found is not None
        edges = found["bins"]
        assert edges == sorted(set(edges)) and (edges[0], edges[-1]) == (low, low + size)
        assert len(edges) - 1 == -(-size // factor)
    assert coarser(["F", "M"], 2) is None and coarser({"range": [0, 10, 2]}, 2) is None


REGIONS = {"North": {"Hill": ["a", "b"], "Vale": ["c"]}, "South": ["d", "e"]}


def test_a_hierarchy_is_cut_at_a_level_and_its_labels_with_it() -> None:
    plain = {"hierarchy": REGIONS, "outside": "other", "labels": {"a": "Aston", "North": "The north"}}
    one = {"hierarchy": ["North", "South"], "outside": "other", "labels": {"North": "The north"}}
    assert coarser(plain, 1) == one and coarser(plain, 3) is None
    two = coarser(plain, 2)
    assert two is not None and two["hierarchy"] == [{"North": ["Hill", "Vale"]}, {"South": ["d", "e"]}]
    text = TEXT.replace('["Centre", "North"]', value_text({"hierarchy": REGIONS}))
    text += '\n[[query]]\nkind = "levels"\nattribute = "region"\n'
    for level, size in ((1, 2), (2, 4)):
        cut = parse_spec(edited(text, {"edit": "coarsen", "attribute": "region", "by": level}))
        assert cut.schema["region"].size == size
    offered = controls_of(text, parse_spec(text))["attributes"][2]["coarser"]
    assert [one["n_values"] for one in offered] == [2, 4]


# ------------------------------------------------------------------------ what the page shows


def test_the_view_says_what_the_plan_says() -> None:
    spec = parse_spec(edit("need", table=1, within=50))
    plan = ln.design(spec.workload, spec.privacy)
    view = plan_view(plan, spec, edit("need", table=1, within=50))
    assert [one.table for one in view.tables] == [0, 1, 2]
    assert view.tables[1].within == 50 and view.tables[1].attributes == ("age", "sex")
    assert plan.stderr is not None
    rows = plan.stderr[plan.workload.rows_of("age by sex")]
    assert view.tables[1].errors == pytest.approx(rows, rel=1e-15) and view.tables[1].high == rows.max()
    assert view.loss == pytest.approx(float(plan.privacy.budget_per_person) ** 0.5)
    json.dumps(controls_of(TEXT, spec), allow_nan=False)


def test_sql_that_asks_for_several_tables_belongs_to_one_query_of_the_file() -> None:
    sql = "SELECT sex, COUNT(*) FROM p GROUP BY sex; SELECT COUNT(*) FROM p WHERE age < 5"
    text = f"{TEXT}\n[[query]]\nsql = '{sql}'\n"
    spec = parse_spec(text)
    assert query_tables(text, spec) == [0, 1, 2, *[3] * (len(spec.queries) - 3)]
    assert len(spec.queries) > 4


@pytest.mark.parametrize(
    "goal",
    [ln.ApproxDP(1, 1e-6), ln.PureDP(0.7), ln.ZCDP(0.1), ln.GDP(0.3)],
    ids=lambda goal: type(goal).__name__,
)
def test_a_goal_for_a_loss_has_at_least_that_loss(goal: Any) -> None:
    rng = np.random.default_rng(7)
    for loss in np.exp(rng.uniform(-4, 1.5, 20)):
        found = type(goal)(**goal_for(float(loss), goal))
        assert loss <= loss_of(found) <= loss * 1.01


@pytest.mark.thorough
def test_the_least_privacy_meets_every_accuracy_and_less_does_not() -> None:
    """What the page calls the least is checked by designing at it, and a little below it."""
    text = edited(TEXT, {"edit": "need-all", "tables": [1, 2], "within": 20})
    said = [one for one in study(text, lambda progress: None) if one["kind"] == "needs"]
    least = said[-1]["view"]["goal"]
    asked = [query for query in parse_spec(text).queries if query.target is not None]
    workload = ln.assemble(asked, parse_spec(text).schema)
    assert ln.design(workload, ln.ApproxDP(**least)).factor <= 1
    with pytest.raises(ln.InfeasibleError):
        ln.design(workload, ln.ApproxDP(least["epsilon"] * 0.999, least["delta"]))
    assert {one["name"] for one in said[-1]["view"]["drivers"]} == {"age by sex", "age distribution"}


def test_too_little_privacy_loss_shows_what_is_possible_and_what_it_takes() -> None:
    text = edited(TEXT, {"edit": "need-all", "tables": [0, 1, 2], "within": 2})
    said = {one["kind"]: one for one in study(text, lambda progress: None)}
    assert said["plan"]["refusal"] and said["plan"]["view"]["misses_targets"]
    assert said["needs"]["view"]["goal"]["epsilon"] > 1


@pytest.mark.thorough
def test_tables_of_which_nothing_was_asked_are_named_beside_the_least() -> None:
    """At the least privacy loss they had 20 times the noise that they need, without a word."""
    text = edited(TEXT, {"edit": "need", "table": 2, "within": 20})
    said = [one["view"] for one in study(text, lambda progress: None) if one["kind"] == "needs"]
    assert said[0]["is_estimate"] and not said[1]["is_estimate"]
    assert said[0]["loss"] >= said[1]["loss"]
    assert [one["name"] for one in said[1]["unasked"]] == ["everyone", "age by sex"]
    known = said[-1]
    assert [one["name"] for one in known["unasked"]] == ["age by sex"]
    spec = parse_spec(text)
    for numbers, key in ((known["goal"], "high"), (known["higher"], "higher")):
        plan = ln.design(spec.workload, ln.ApproxDP(**numbers))
        assert plan.spreads is not None
        assert known["unasked"][0][key] == pytest.approx(plan.spreads[1].high, rel=0.02)
    assert known["unasked"][0]["higher"] < known["unasked"][0]["high"] / 2


@pytest.mark.thorough
def test_long_running_totals_are_estimated_from_coarser_values() -> None:
    """The simple estimate of a running total over thousands of values is many times too large."""
    text = edit("need", table=2, within=50).replace("[0, 12]", "[0, 400]").replace("tol = 1e-6", "tol = 1e-3")
    spec = parse_spec(text)
    estimates = [one["view"] for one in first_estimates(spec, text, ".") if one["kind"] == "estimate"]
    assert [one["source"] for one in estimates] == ["simpler noise", "a plan with age in groups of 4"]
    rough, near = (one["tables"][2]["high"] for one in estimates)
    assert near < rough / 3


def test_powers_are_written_one_way_and_running_totals_by_their_first() -> None:
    spec = parse_spec(
        TEXT.replace('name      = "age distribution"', "expected = [9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]")
    )
    plan = ln.design(spec.workload, spec.privacy)
    view = plan_view(plan, spec, TEXT)
    assert "δ = 1e-6" in view.promise
    assert [one.is_running for one in view.tables] == [False, False, True] and view.tables[2].expected == 9


def test_an_error_knows_its_line() -> None:
    for text, line in ((TEXT.replace('"prefix"', '"prefx"'), 23), ("[schema\n", 1)):
        with pytest.raises(SpecError) as caught:
            parse_spec(text)
        assert caught.value.line == line


# ------------------------------------------------------------------------ the page and the server


def test_hostile_names_never_become_markup(tmp_path: Path) -> None:
    path = tmp_path / "hostile.toml"
    path.write_text(hostile_text(), encoding="utf-8")
    assert len(load_spec(path).queries) == len(HOSTILE) == 28
    page = planner_page.render_page({"name": HOSTILE[0], "text": path.read_text("utf-8")}, is_static=True)
    begin = page.index('id="state">') + len('id="state">')
    held = page[begin : page.index("</script>", begin)]
    assert not set("<>&") & set(held)
    assert json.loads(held)["text"] == path.read_text("utf-8")
    assert page.count("</script>") == 2 and "<img" not in page


def test_a_static_page_is_small_alone_and_holds_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(TEXT, encoding="utf-8")
    page = html.unescape(planner_page.static_page(path))
    assert len(page.encode()) < planner_page.MAX_PAGE
    assert (
        "connect-src 'none'" in page
        and "src=" not in page
        and "http:" not in page.replace("http://www.w3.org", "")
    )


def request(**changes: Any) -> Any:
    headers = {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80", "content-type": "application/json"}
    headers |= {name.replace("_", "-"): value for name, value in changes.pop("headers", {}).items()}
    kept = {name: value for name, value in headers.items() if value is not None}
    return SimpleNamespace(
        headers=kept, method=changes.get("method", "POST"), path_params={"token": changes.get("token", "t")}
    )


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, None),
        ({"method": "GET", "headers": {"origin": None}}, None),
        ({"headers": {"host": "evil.example"}}, 403),
        ({"headers": {"host": "127.0.0.1:81"}}, 403),
        ({"headers": {"host": None}}, 403),
        ({"headers": {"origin": "http://evil.example"}}, 403),
        ({"headers": {"origin": "null"}}, 403),
        ({"headers": {"origin": None}}, 403),
        ({"headers": {"content_type": "text/plain"}}, 403),
        ({"headers": {"sec_fetch_site": "cross-site"}}, 403),
        ({"method": "GET", "headers": {"origin": "https://evil.example"}}, 403),
        ({"token": "x"}, 404),
        ({"token": ""}, 404),
    ],
)
def test_requests_of_others_are_refused(changes: dict[str, Any], status: int | None) -> None:
    hosts = {"127.0.0.1:80"}
    refused = server._refused(request(**changes), "t", hosts, {f"http://{host}" for host in hosts})
    assert (refused and refused[0]) == status


# ------------------------------------------------------------------------ the command


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["plan", *words])


def test_the_command_writes_a_page_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    path, target = tmp_path / "people.toml", tmp_path / "plan.html"
    path.write_text(TEXT, encoding="utf-8")
    done = run(str(path), "--static", str(target))
    assert done.exit_code == 0 and "open it in a browser" in done.output
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    target.write_text("mine", encoding="utf-8")
    assert run(str(path), "--static", str(target)).exit_code == 1 and target.read_text("utf-8") == "mine"
    assert run(str(path), "--static", str(path), "--force").exit_code == 1 and path.read_text("utf-8") == TEXT
    assert run(str(path), "--static", str(target), "--force").exit_code == 0
    path.write_text(TEXT.replace('"total"', '"totl"'), encoding="utf-8")
    wrong = run(str(path), "--static", str(target), "--force")
    assert wrong.exit_code == 4 and "people.toml:12" in wrong.output


def test_a_planner_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    with refuses(MissingExtraError, "plan", None, "pip install 'leastnoise[plan]'"):
        server.serve(Path("people.toml"))
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with refuses(MissingExtraError, "plan"):
        edit("weight", table=0, weight=2)


def test_a_ledger_that_is_not_there_is_refused_before_anything_is_designed(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(TEXT, encoding="utf-8")
    done = run(str(path), "--ledger", str(tmp_path / "absent.db"))
    assert done.exit_code == 1 and "there is no ledger" in done.output
