"""What a notebook shows of a value, what Tab offers after it, and the bar while something takes long."""

from __future__ import annotations

import html
import inspect
import re
import sys
import threading
import time
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core import progress_bar
from leastnoise.core.errors import InputError, UnrecordedSpending
from leastnoise.core.notebook import NotebookValue
from support import extra, refuses

HOSTILE = "<script>alert('x')</script>\u202e"
ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------ values


def queries() -> list[Any]:
    """One of every kind, with names that would run if they could."""
    town = ln.Marginal(HOSTILE)
    return [
        ln.Total(name=HOSTILE),
        ln.Marginal(HOSTILE, "sex", stderr=50),
        ln.Prefix("age", within=(30, 0.9), weight=2),
        ln.AllRanges("age"),
        ln.Ranges("age", [(0, 1), (2, 3)]),
        ln.Windows("age", 2),
        ln.Changes("age", lag=2),
        ln.Where("age >= 1 and sex == 'F'", expected=200, stderr="5%"),
        ln.Cases({HOSTILE: "age < 2", "b": "age > 2"}, heading="life"),
        ln.Cube("age", "sex", order=(1,)),
        ln.Levels("region"),
        ln.Sum("age"),
        ln.Mean("age", by="sex", bounds=(0, 3)),
        ln.StandardDeviation("age"),
        ln.Share(town, of=ln.Total(), guess=0.3),
        ln.Ratio(ln.Sum("age"), ln.Total()),
        ln.Linear([[1, 2]], [HOSTILE], name="n"),
        town * ln.Prefix("age"),
        (town * (ln.Marginal("sex") * ln.Marginal("age"))).having(name="all", stderr=3),
    ]


@cache
def values() -> dict[str, Any]:
    schema = ln.Schema({HOSTILE: ("Ash", HOSTILE, "Birk"), "sex": ("F", "M"), "age": range(4)})
    asked = [ln.Marginal(HOSTILE, "sex", name=HOSTILE), ln.Prefix("age"), ln.Total()]
    workload = ln.assemble([*asked, ln.Share(ln.Marginal("sex"), of=ln.Total(), name="shares")], schema)
    goal = ln.ApproxDP(epsilon=1, delta=1e-6)
    plan = ln.design(workload, goal)
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, np.arange(24) * 50)
    attributes = [
        ln.Integers(range(4)),
        ln.Bins([0, 5, 9]),
        ln.Categories(["a", HOSTILE]),
        ln.Periods("2026-01", "2026-03"),
        ln.Hierarchy({HOSTILE: ["b", "c"]}),
    ]
    return {
        "schema": schema,
        **{f"attribute {a.kind}": a for a in attributes},
        "cleaning": ln.Cleaning(trim=True, nulls=("<b>",)),
        **{f"query {number}": query for number, query in enumerate(queries())},
        "queries": ln.queries_from_sql("SELECT sex, COUNT(*) FROM t GROUP BY sex", schema),
        "workload": workload,
        "pure": ln.PureDP(1),
        "approx": goal,
        "zcdp": ln.ZCDP(0.1, records_per_person=3),
        "gdp": ln.GDP(1),
        "least": ln.LeastLoss(delta=1e-6),
        "total": ln.TotalVariance(),
        "largest": ln.MaxVariance(),
        "targets": ln.Targets(),
        "plan": plan,
        "certificate": plan.certificate,
        "audit": ln.audit(plan, draws=100),
        "drivers": ln.drivers(plan, most=1),
        "tradeoff": ln.tradeoff(workload, goal, epsilons=[1, 2]),
        "methods": ln.methods(),
        "comparison": ln.compare(workload, goal, methods=["identity", "dawa"]),
        "format": ln.FileFormat(encoding="cp1252"),
        "release": release,
        "adjusted": ln.adjust(release),
        "presented": ln.present(release, round_to=5, flag_above="1%"),
        "picture": release.plot(HOSTILE),
        "report": ln.summarize(release),
        "publication": ln.Publication(title=HOSTILE),
    }


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, Any]:
    """What is kept in files: a ledger, a stream, its price, data."""
    pandas = pytest.importorskip("pandas")
    schema = ln.Schema({"month": ln.Periods("2026-01", "2026-03"), HOSTILE: ("F", "M")})
    plan = ln.design(ln.assemble([ln.Marginal("month", HOSTILE)], schema), ln.GDP(1), over="month")
    ledger = ln.Ledger(tmp_path / "budget.db", dataset=HOSTILE[:-1], limit=ln.GDP(3))
    table = pandas.DataFrame({"month": ["2026-01"] * 7, HOSTILE: ["M"] * 7})
    return {
        "ledger": ledger,
        "remaining": ledger.remaining,
        "verification": ledger.verify(),
        "stream": ln.open_stream(plan, ledger),
        "price": ln.stream_price(plan, revisions=1),
        "data": ln.vectorize(table, schema),
    }


def check_shown(value: Any) -> str:
    shown: str = value._repr_html_()
    assert shown and "\u202e" not in shown
    assert not re.search(r"<(?!/?(pre|table|thead|tbody|tr|th|td|p|img|iframe|div)\b)", shown), shown
    assert not re.search(r"<\w+[^>]*\son\w+=", shown)
    return shown


def test_a_value_shows_itself_and_runs_nothing() -> None:
    for value in values().values():
        check_shown(value)


def test_what_is_kept_shows_itself_and_nothing_true_about_the_table(kept: dict[str, Any]) -> None:
    for value in kept.values():
        check_shown(value)
    assert "7" not in html.unescape(kept["data"]._repr_html_())


def test_a_value_that_is_not_escaped_would_be_noticed() -> None:
    class Careless:
        def _repr_html_(self) -> str:
            return f"<pre>{HOSTILE}</pre>"

    with pytest.raises(AssertionError):
        check_shown(Careless())


def test_every_public_class_shows_itself() -> None:
    plain = {"InfeasibleError", "LeastnoiseError", "LeastnoiseWarning"}
    classes = {name for name in ln.__all__ if inspect.isclass(getattr(ln, name))} - plain
    assert {name for name in classes if not hasattr(getattr(ln, name), "_repr_html_")} == set()


def test_a_release_shows_its_answers() -> None:
    release = values()["release"]
    shown = release._repr_html_()
    assert "Birk" in shown and "&lt;script&gt;" in shown
    assert shown.count("<tr") == 1 + 10 and "5 more: release.to_frame()" in shown
    rows = re.findall(r"<tr>(.*?)</tr>", shown)[1:]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    numbers = [[float(text.replace(",", "")) for text in row[2:]] for row in cells]
    lower, upper = release.interval()
    for j, (answer, stderr, low, high) in enumerate(numbers):
        assert answer == pytest.approx(release.answers[j], abs=0.5)
        assert stderr == pytest.approx(release.stderr[j], rel=1e-3)
        assert low <= lower[j] and high >= upper[j] and high - low <= upper[j] - lower[j] + 2


def test_a_report_shows_its_page_in_a_frame_that_runs_nothing() -> None:
    shown = values()["report"]._repr_html_()
    assert shown.startswith("<iframe sandbox ") and "&lt;html" in shown


@pytest.mark.parametrize("number", range(len(queries())))
def test_a_query_prints_the_call_that_makes_it(number: int) -> None:
    query = queries()[number]
    if isinstance(query, ln.Linear):
        assert repr(query) == f"Linear(Matrix(1 x 2), labels=[{HOSTILE!r}], name='n')"
        return
    assert eval(repr(query), {name: getattr(ln, name) for name in ln.__all__}) == query


def test_names_of_queries_are_what_values_hold() -> None:
    names = [HOSTILE, "age up to", "total", "shares: part", "shares"]
    for name in ("workload", "plan", "release"):
        value = values()[name]
        assert sorted(value) == sorted(names) and len(value) == len(names)
        assert "shares" in value and "absent" not in value and bool(value)
    assert all(len(values()["release"][name]) for name in values()["release"])
    with refuses(ln.core.errors.WorkloadError, "queries"):
        ln.assemble(values()["workload"], values()["schema"])


# ------------------------------------------------------------------ names and arguments


# Callables with arguments that have no names of their own, and why.
UNNAMED = {
    "Schema": "attributes are called as the table calls its columns",
    "Marginal": "any number of attributes",
    "Cube": "any number of attributes",
    "Data.counts": "any number of attributes",
    "InfeasibleError": "parts of a message",
    "LeastnoiseError": "parts of a message",
}


def unnamed() -> Iterator[str]:
    """Public callables with *args or **kwargs."""
    for name in ln.__all__:
        value = getattr(ln, name)
        if inspect.isclass(value) and issubclass(value, Warning):
            continue  # it has the arguments of every warning
        found = {name: value}
        if inspect.isclass(value) and not issubclass(value, Exception):
            members = inspect.getmembers(value, callable)
            found |= {f"{name}.{own}": member for own, member in members if not own.startswith("_")}
        for path, one in found.items():
            kinds = {parameter.kind for parameter in inspect.signature(one).parameters.values()}
            if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
                yield path


def test_arguments_have_names() -> None:
    """`query.having(**changes)` told nobody what may be changed."""
    assert set(unnamed()) == set(UNNAMED)


def documented() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.thorough
def test_tab_offers_what_the_documentation_names(kept: dict[str, Any]) -> None:
    text, undocumented = documented(), set[str]()
    for value in [*values().values(), *kept.values()]:
        if not isinstance(value, NotebookValue):
            continue
        offered = dir(value)
        assert offered == [name for name in offered if inspect.getattr_static(value, name, ...) is not ...]
        docs = text + "\n".join(
            inspect.getdoc(part) or "" for base in type(value).__mro__ for part in (base, base.__init__)
        )
        # The reference lists everything that has a docstring (tests/test_reference.py).
        missing = [
            name
            for name in offered
            if not re.search(rf"\b{name}\b", docs) and not inspect.getdoc(getattr(type(value), name, None))
        ]
        undocumented |= {f"{type(value).__name__}.{name}" for name in missing}
        assert not [name for name in offered if name.startswith("_")]
    assert not undocumented, sorted(undocumented)


def test_names_that_are_not_offered_still_work() -> None:
    plan = values()["plan"]
    assert "to_parts" not in dir(plan) and plan.to_parts()
    assert {"plot", "stderr", "save"} <= set(dir(plan))


def test_keys_are_offered() -> None:
    assert values()["release"]._ipython_key_completions_() == list(values()["release"])
    assert values()["schema"]._ipython_key_completions_() == [HOSTILE, "sex", "age"]


# ------------------------------------------------------------------ the progress bar


class FakeNotebook:
    """As much of IPython as the bar uses, and everything that it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.package = types.ModuleType("IPython")
        self.package.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        self.display = types.ModuleType("IPython.display")
        self.display.display = self._display  # type: ignore[attr-defined]

    def _display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        self.shown.append(content["text/html"])
        return types.SimpleNamespace(update=lambda new, raw: self.shown.append(new["text/html"]))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeNotebook:
    fake = FakeNotebook()
    monkeypatch.setitem(sys.modules, "IPython", fake.package)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    monkeypatch.setattr(progress_bar, "FIRST_SHOWN", 0.02)
    monkeypatch.setattr(progress_bar, "PAUSE", 0.01)
    return fake


def work(progress: Any, seconds: float) -> None:
    with progress_bar.progress_shown(
        progress, "working", lambda step: (f"step {step} of <b>", step / 4)
    ) as tell:
        for step in (1, 2, 3):
            if tell is not None:
                tell(step)
            time.sleep(seconds / 3)


def test_a_notebook_shows_a_bar_and_then_how_long_it_took(notebook: FakeNotebook) -> None:
    work(None, 0.2)
    *before, last = notebook.shown
    assert len(before) >= 2 and all("<progress" in text and "&lt;b&gt;" in text for text in before)
    assert 'value="0.7500"' in before[-1]
    assert re.fullmatch(r"<div>working took \d\.\d s</div>", last)


def test_quick_work_and_silent_work_show_nothing(
    notebook: FakeNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(False, 0.1)
    monkeypatch.setattr(progress_bar, "FIRST_SHOWN", 1.0)
    work(None, 0.01)
    # In a thread of its own nothing is shown either: the planner's server may run in a notebook.
    monkeypatch.setattr(progress_bar, "FIRST_SHOWN", 0.01)
    thread = threading.Thread(target=work, args=(None, 0.1))
    thread.start()
    thread.join()
    assert notebook.shown == []


def test_a_callback_takes_the_place_of_the_bar(notebook: FakeNotebook) -> None:
    steps: list[int] = []
    work(steps.append, 0.1)
    assert steps == [1, 2, 3] and notebook.shown == []
    with refuses(InputError, "progress", True):
        work(True, 0)


def test_what_is_interrupted_says_so_and_leaves_no_thread(notebook: FakeNotebook) -> None:
    def failing() -> None:
        with progress_bar.progress_shown(None, "working", lambda step: ("", None)):
            time.sleep(0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert "working stopped after" in notebook.shown[-1]
    assert not [thread for thread in threading.enumerate() if thread.name == "progress-bar"]


def test_one_bar_at_a_time(notebook: FakeNotebook) -> None:
    with progress_bar.progress_shown(None, "outer", lambda step: ("", None)):
        work(None, 0.1)
    assert notebook.shown and not any("working" in text or "step" in text for text in notebook.shown)


def test_without_a_kernel_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, notebook: FakeNotebook) -> None:
    monkeypatch.setattr(notebook.package, "get_ipython", lambda: None)
    work(None, 0.1)
    monkeypatch.delitem(sys.modules, "IPython")
    work(None, 0.05)
    assert notebook.shown == []


def test_long_functions_show_a_bar(notebook: FakeNotebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them by a step that takes longer than the pause."""
    monkeypatch.setattr(progress_bar, "FIRST_SHOWN", 0.0)
    workload, goal = values()["workload"], values()["approx"]
    plan, release = values()["plan"], values()["release"]

    def measured() -> None:
        with pytest.warns(UnrecordedSpending):
            ln.measure(plan, np.arange(24))

    calls: dict[str, Any] = {
        "designing": lambda: ln.design(workload, goal),
        "comparing methods": lambda: ln.compare(workload, goal, methods=["identity"]),
        "designing changes": lambda: ln.drivers(plan, most=1),
        "adjusting": lambda: ln.adjust(release, integer=True),
        "measuring": measured,
    }
    for what, call in calls.items():
        notebook.shown.clear()
        call()
        assert notebook.shown and what in notebook.shown[-1] and "took" in notebook.shown[-1]


# ------------------------------------------------------------------ a real one


@pytest.mark.thorough
def test_a_kernel_shows_values_bars_and_names() -> None:
    nbformat, nbclient = extra("nbformat"), extra("nbclient")
    extra("ipykernel")
    cells = [
        "import numpy as np, leastnoise as ln, time, warnings\n"
        "from leastnoise.core import progress_bar\n"
        "progress_bar.FIRST_SHOWN = 0.0\n"
        "warnings.simplefilter('ignore')\n"
        "workload = ln.assemble([ln.AllRanges('age'), ln.Marginal('sex')],\n"
        "    ln.Schema(age=range(40), sex=('F', 'M')))",
        "plan = ln.design(workload, ln.GDP(1))",
        "release = ln.measure(plan, np.arange(80), progress=False); release",
        "release.plot('sex')",
        "from IPython.core.completer import provisionalcompleter\n"
        "def tab(text):\n"
        "    with provisionalcompleter():\n"
        "        found = get_ipython().Completer.completions(text, len(text))\n"
        "        return sorted({one.text.strip('.') for one in found})\n"
        "print(tab('release.'), tab('ln.design(workload, pri'), tab('release[\\''))",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3").execute()
    _, designed, shown, drawn, offered = [cell.outputs for cell in made.cells]
    assert "designing took" in designed[0].data["text/html"]
    assert "<table>" in shown[0].data["text/html"]
    assert drawn[0].data["text/html"].startswith("<img ")
    assert {"text/html", "image/svg+xml", "text/plain"} <= set(drawn[0].data)
    text = offered[0].text
    assert "'to_frame'" in text and "'plot'" in text and "'__init__'" not in text
    assert "'privacy='" in text and "sex" in text
