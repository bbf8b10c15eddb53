"""Running, resuming, judging and writing reproductions, whatever paper they are of."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import json
import math
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.core.errors import InputError, MethodError
from leastnoise.papers.reproductions import catalogue as names
from leastnoise.papers.reproductions import printed as printed_numbers
from leastnoise.papers.reproductions import running
from leastnoise.papers.reproductions.cache import key_of, source_digest
from leastnoise.papers.reproductions.command import duration, listing, progress_to_text, summarise
from leastnoise.papers.reproductions.page import read_records, write_pages
from leastnoise.papers.reproductions.printed import Printed, PrintedNumber, errata, printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import NOTE, Row, cell
from leastnoise.papers.reproductions.running import Outcome, RunProgress, run
from leastnoise.papers.reproductions.verdicts import Cause, Check, number, statement, verdict_of
from leastnoise.papers.reproductions.writing import as_markdown, as_text, pivot, to_text, with_printed, write
from support import extra, refuses

NAME = "made-up/table-1"
OTHER_NAME = "made-up/table-2"
CALLS: list[int] = []


def squares(setting: Setting, n: int) -> Iterator[Row]:
    CALLS.append(n)
    yield {"n": n, "method": "ours", "value": n**2 / 4}
    yield {"n": n, "method": "theirs", "value": n**2 / 2}


def cut_off(setting: Setting, n: int) -> Iterator[Row]:
    yield {"n": n, "method": "ours", "value": n**2 / 4}
    yield {"n": n, "method": "theirs", "value": n**2 / 2, "is_cut": True}


def refused(setting: Setting, n: int) -> Iterator[Row]:
    raise MethodError("this method cannot")


def mistaken(setting: Setting, n: int) -> Iterator[Row]:
    raise ZeroDivisionError("a mistake of ours")


def checks(known: Printed, rows: Sequence[Row]) -> list[Check]:
    return [
        number("two", "2.0", cell(rows, "value", n=2, method="theirs")),
        number("two, ours", "2.0", cell(rows, "value", n=2, method="ours"), is_lower_better=True),
        number("nine", "40.5", cell(rows, "value", n=9, method="theirs")),
    ]


def made_up(tasks: Any = None) -> Reproduction:
    return Reproduction(
        NAME,
        "halves of squares",
        tasks or (lambda setting: [Task(squares, {"n": n}) for n in (2, 3)]),
        checks,
        Drawing("n", "value", "method"),
        ("One stated choice.",),
    )


@pytest.fixture(autouse=True)
def with_made_up_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    numbers = (PrintedNumber({"n": 2, "method": "theirs"}, "2.0"),)
    made_up = Printed("page 7, table 1", numbers, {})
    everything = {**printed_numbers._all(), NAME: made_up, OTHER_NAME: made_up}
    monkeypatch.setattr(printed_numbers, "_all", lambda: everything)


def outcome(tmp_path: Path, tasks: Any = None, **options: Any) -> Outcome:
    (found,) = run([made_up(tasks)], Setting("quick"), folder=tmp_path / "cache", **options)
    return found


# Verdicts


@pytest.mark.parametrize(
    ("ours", "options", "verdict"),
    [
        (1.30, {}, "reached"),
        (1.305, {}, "reached"),
        (1.3051, {}, "differs"),
        (1.2949, {}, "differs"),
        (1.2949, {"is_lower_better": True}, "better"),
        (1.3051, {"is_lower_better": True}, "differs"),
        (1.36, {"slack": 0.05}, "reached"),
        (1.38, {"slack": 0.05}, "differs"),
        (None, {}, "not run"),
        (math.nan, {}, "not run"),
    ],
)
def test_a_number_is_reached_within_half_its_last_printed_digit(
    ours: Any, options: Any, verdict: str
) -> None:
    assert number("claim", "1.30", ours, **options).verdict == verdict


@given(st.decimals(-1000, 1000, places=3))
def test_every_printed_number_reaches_itself(value: Any) -> None:
    assert number("claim", str(value), float(value)).verdict == "reached"
    assert number("claim", str(value), float(value) + 0.00051).verdict == "differs"


def test_what_came_out_is_shown_with_one_digit_more() -> None:
    assert number("claim", "1.30", 1.30512).ours == "1.305"
    assert number("claim", "1,024", 1030.26).ours == "1,030.3"


def test_a_statement_holds_or_not() -> None:
    assert statement("claim", True, "so").verdict == "reached"
    assert statement("claim", False, "not so", why="because").why == "because"
    assert statement("claim", None, "–").verdict == "not run"
    assert statement("claim", True, "so", is_better=True).verdict == "better"


def test_one_check_that_differs_is_enough() -> None:
    made = {verdict: Check("", "", "", verdict) for verdict in ("reached", "better", "differs", "not run")}
    assert verdict_of(made.values()) == "differs"
    assert verdict_of([made["reached"], made["better"], made["not run"]]) == "better"
    assert verdict_of([made["reached"], made["not run"]]) == "reached"
    assert verdict_of([]) == "not run"


# Running


def test_rows_come_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    assert [row["n"] for row in found.rows] == [2, 2, 3, 3]
    assert [check.verdict for check in found.checks] == ["reached", "better", "not run"]
    assert found.verdict == "better"


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    stopped = run([made_up()], Setting("quick"), folder=tmp_path / "cache", progress=_stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        list(stopped)
    assert CALLS == [2]
    again = outcome(tmp_path)
    assert CALLS == [2, 3]
    assert [row["n"] for row in again.rows] == [2, 2, 3, 3]
    outcome(tmp_path)
    assert CALLS == [2, 3]
    outcome(tmp_path, is_fresh=True)
    assert CALLS == [2, 3, 2, 3]


def _stop_after_one(progress: RunProgress) -> None:
    raise KeyboardInterrupt


def test_other_arguments_settings_or_sources_compute_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, quick = Task(squares, {"n": 2}), Setting("quick")
    known = key_of(task, quick)
    assert known == key_of(Task(squares, {"n": 2}), Setting("quick"))
    others = [
        key_of(Task(squares, {"n": 3}), quick),
        key_of(Task(refused, {"n": 2}), quick),
        key_of(task, Setting("full")),
        key_of(task, Setting("quick", time_limit=1.0)),
        key_of(task, Setting("quick", data=tmp_path)),
    ]
    monkeypatch.setattr("leastnoise.papers.reproductions.cache.source_digest", lambda work: "edited")
    others.append(key_of(task, quick))
    assert known not in others and len(set(others)) == len(others)


# Three versions of a module of the room: as it is, and with one line edited.
SOURCE = """
from functools import cache, partial
FACTOR = 2
def unused(): return 1
def double(x): return FACTOR * x
@cache
def kept(x): return double(x)
TABLE = {"a": partial(kept, 3)}
class Holder:
    def get(self): return TABLE["a"]()
def work(setting): return [Holder().get() for _ in range(2)]
def check(rows): return rows == 1
"""


def digest_of(source: str, tmp_path: Path) -> str:
    """The digest of `work` in a module of this source, as if it stood in the papers' room."""
    path = tmp_path / f"edited_{len(list(tmp_path.iterdir()))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"leastnoise.papers.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        return source_digest(module.work)
    finally:
        del sys.modules[spec.name]


def test_only_the_source_that_computes_counts(tmp_path: Path) -> None:
    """Whoever edits a check must not wait hours for rows that stay as they are."""
    known = digest_of(SOURCE, tmp_path)
    for before, after in (("rows == 1", "rows == 2"), ("return 1", "return 2")):
        assert digest_of(SOURCE.replace(before, after), tmp_path) == known
    for before, after in (("= 2", "= 3"), ("kept, 3", "kept, 4"), ("* x", "+ x"), ("range(2)", "range(3)")):
        assert digest_of(SOURCE.replace(before, after), tmp_path) != known


PRINT_DIGESTS = """
from leastnoise.papers.reproductions.cache import source_digest
from leastnoise.papers.reproductions.catalogue import catalogue
from leastnoise.papers.reproductions.reproduction import Setting
works = {task.work for found in catalogue() for task in found.tasks(Setting("quick"))}
print(*sorted(f"{work.__qualname__} {source_digest(work)}" for work in works), sep="\\n")
"""


@pytest.mark.thorough
def test_another_process_has_the_same_digests() -> None:
    """Of every function that computes rows: an address or the order of a set in one would end resuming."""
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    told = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS], env=environment, capture_output=True, text=True, check=True
    )
    works = {task.work for found in names.catalogue() for task in found.tasks(Setting("quick"))}
    here = {f"{work.__qualname__} {source_digest(work)}" for work in works}
    assert set(told.stdout.splitlines()) == here and len(here) == len(works)


def test_a_torn_file_is_computed_again(tmp_path: Path) -> None:
    outcome(tmp_path)
    path = tmp_path / "cache" / f"{key_of(Task(squares, {'n': 3}), Setting('quick'))}.json"
    path.write_text(path.read_text()[:-20])
    CALLS.clear()
    assert [row["n"] for row in outcome(tmp_path).rows] == [2, 2, 3, 3]
    assert CALLS == [3]


@pytest.mark.thorough
def test_time_that_is_over_begins_no_task_and_keeps_nothing(tmp_path: Path) -> None:
    found = outcome(tmp_path, budget=0.0)
    assert not CALLS and {check.verdict for check in found.checks} == {"not run"}
    assert all("run the same command again" in str(row[NOTE]) for row in found.rows)
    assert not list(tmp_path.iterdir())
    assert outcome(tmp_path, jobs=2, budget=0.0).rows == found.rows


def test_a_task_of_two_reproductions_is_computed_once(tmp_path: Path) -> None:
    twice = [made_up(), dataclasses.replace(made_up(), name=OTHER_NAME)]
    found = list(run(twice, Setting("quick"), folder=tmp_path))
    assert CALLS == [2, 3]
    assert found[0].rows == found[1].rows


def test_what_a_method_refuses_is_a_row_that_says_so(tmp_path: Path) -> None:
    found = outcome(tmp_path, lambda setting: [Task(refused, {"n": 2})])
    assert found.rows == ({"n": 2, NOTE: "not run: this method cannot"},)
    assert found.verdict == "not run"
    assert "this method cannot" in to_text(found)


def test_a_mistake_costs_no_other_point_and_is_told(tmp_path: Path) -> None:
    tasks = [Task(mistaken, {"n": 1}), Task(squares, {"n": 2})]
    running_ = run([made_up(lambda setting: tasks)], Setting("quick"), folder=tmp_path)
    found = next(running_)
    assert [row.get("value") for row in found.rows] == [None, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="made-up/table-1, n 1: ZeroDivisionError"):
        next(running_)


def test_points_of_many_cells_wait_for_a_gpu(tmp_path: Path) -> None:
    found = outcome(tmp_path, lambda setting: [Task(squares, {"n": 2}, n_cells=8192)])
    assert not CALLS
    assert found.rows[0][NOTE] == "not run: 8,192 cells need a GPU; give --backend cuda"
    assert not list(tmp_path.iterdir())


def test_one_task_at_a_time_has_the_gpu() -> None:
    """Others go on beside it; without a GPU all processes are for all tasks."""
    tasks = {
        "a": Task(squares, {"n": 0}),
        "b": Task(squares, {"n": 1}, n_cells=8192),
        "c": Task(squares, {"n": 2}, may_use_gpu=True),
        "d": Task(squares, {"n": 3}),
    }
    with_gpu, without = Setting("full", "cuda"), Setting("full")
    divided = [(n, list(part)) for n, part in running._divided(tasks, with_gpu, 3)]
    assert divided == [(1, ["b", "c"]), (2, ["a", "d"])]
    assert [(n, list(part)) for n, part in running._divided(tasks, without, 3)] == [(3, list("abcd"))]


@pytest.mark.thorough
def test_several_processes_give_the_same(tmp_path: Path) -> None:
    alone = outcome(tmp_path / "alone")
    together = outcome(tmp_path / "together", jobs=2)
    assert together.rows == alone.rows
    with refuses(InputError, "jobs", 0):
        outcome(tmp_path, jobs=0)


POOL = """
import os, time
from leastnoise.papers.reproductions.running import _pool
if __name__ == "__main__":
    pool = _pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600).result()
"""


@pytest.mark.thorough
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Those of a run that was killed went on computing, for nobody."""
    script = tmp_path / "pool.py"
    script.write_text(POOL, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline().strip().isdigit()
        parent.kill()
        # Its output ends when the last process that holds it has ended.
        ended, _, _ = select.select([parent.stdout], [], [], 60)
        assert ended and not parent.stdout.read()


def test_progress_says_what_is_left(tmp_path: Path) -> None:
    seen: list[RunProgress] = []
    outcome(tmp_path, progress=seen.append)
    assert [progress.n_done for progress in seen] == [1, 2]
    assert seen[-1].seconds_left == 0
    assert "2 of 2 tasks" in progress_to_text(seen[-1])
    assert [duration(s) for s in (12, 600, 7200)] == ["12 s", "10 min", "2.0 h"]


# Writing


def test_printed_numbers_stand_beside_ours(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    rows = with_printed(found.rows, found.reproduction.printed, found.reproduction.drawing)
    head, body = pivot(rows, found.reproduction.drawing)
    assert head == ["n", "ours", "theirs"]
    assert body == [["2", "1", "2 (2)"], ["3", "2.25", "4.5"]]
    assert "2 (2)" in as_text(head, body)
    assert as_markdown(head, body).splitlines()[2] == "| 2 | 1 | 2 (2) |"


def test_bars_of_one_kind_are_one_column() -> None:
    rows = [{"method": "ours", "value": 1.0}, {"method": "theirs", "value": 2.0}]
    assert pivot(rows, Drawing("method", "value", "method")) == (
        ["method", "value"],
        [["ours", "1"], ["theirs", "2"]],
    )


def test_a_row_without_a_series_is_its_methods_own(tmp_path: Path) -> None:
    rows = [{"n": 1, "basis": "wavelet", "method": "eigen", "value": 1.0}, {"method": "ours", "value": 2.0}]
    assert pivot(rows, Drawing("n", "value", "basis")) == (
        ["n", "wavelet", "ours"],
        [["1", "1", ""], ["–", "", "2"]],
    )


@pytest.mark.thorough
def test_files_hold_rows_pictures_and_verdict(tmp_path: Path) -> None:
    extra("altair")
    found = outcome(tmp_path)
    paths = write(found, tmp_path)
    assert sorted(path.suffix for path in paths) == [".csv", ".html", ".json", ".svg"]
    with (tmp_path / "made-up" / "table-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {"n": "2", "method": "theirs", "value": "2.0", "printed": "2.0"}
    judged = json.loads((tmp_path / "made-up" / "table-1.json").read_text())
    assert judged["verdict"] == "better" and len(judged["checks"]) == 3
    page = (tmp_path / "made-up" / "table-1.html").read_text()
    assert "<td>two, ours</td>" in page and "<td>2 (2)</td>" in page
    svg = (tmp_path / "made-up" / "table-1.svg").read_text()
    assert svg.startswith("<svg") and "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", svg)


def test_a_search_that_was_cut_off_is_marked_and_judged_in_no_check(tmp_path: Path) -> None:
    """Tables showed the errors of searches that time had ended, and checks were reached or differed by "
    "them."""
    finished = outcome(tmp_path, lambda setting: [Task(squares, {"n": 2}), Task(squares, {"n": 9})])
    assert finished.checks[2].verdict == "reached"
    found = outcome(tmp_path, lambda setting: [Task(squares, {"n": 2}), Task(cut_off, {"n": 9})])
    assert [check.verdict for check in found.checks] == ["reached", "better", "not run"]
    assert found.checks[2].why == "cut off by our time limit: theirs at n 9"
    assert pivot(found.rows, found.reproduction.drawing)[1] == [["2", "1", "2"], ["9", "20.25", "40.5†"]]
    assert "† cut off by our time limit" in to_text(found)


def paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *found: Outcome) -> Path:
    """The folder of pages of some outcomes, without their pictures."""
    monkeypatch.setattr("leastnoise.papers.reproductions.page.PAPERS", {"made-up": "Made up"})
    monkeypatch.setattr("leastnoise.papers.reproductions.writing._pictures", lambda *given: [])
    for one in found:
        write(one, tmp_path)
    write_pages(found, tmp_path, tmp_path / "docs")
    return tmp_path / "docs"


def test_a_page_sets_printed_and_ours_side_by_side_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = paged(tmp_path, monkeypatch, outcome(tmp_path))
    text = (docs / "made-up" / "table-1.md").read_text()
    assert "Of 3 checks: 1 reached, 1 better, 1 not run." in text
    first, table = text.index("| two | 2.0 | 2.00 | reached |"), text.index("<details")
    assert first < text.index("table-1.svg") < table
    assert "squares" in text, "every number leads to its function"
    index = (docs / "index.md").read_text()
    assert "| [Made up](made-up.md) | 1 | 1 | 1 | 0 | 0 | 1 |" in index


def test_running_one_name_again_leaves_the_pages_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = outcome(tmp_path)
    other = dataclasses.replace(first, reproduction=dataclasses.replace(first.reproduction, name=OTHER_NAME))
    docs = paged(tmp_path, monkeypatch, first)
    before = (docs / "made-up" / "table-1.md").read_bytes()
    paged(tmp_path, monkeypatch, other)
    assert (docs / "made-up" / "table-1.md").read_bytes() == before
    assert "| all | 2 | 2 | 2 | 0 | 0 | 2 |" in (docs / "index.md").read_text()
    assert summarise(docs).splitlines()[-1].split() == ["all", "2", "2", "2", "0", "0", "2"]
    with refuses(InputError, "out", ..., "there are no results"):
        summarise(tmp_path / "nowhere")


def test_errata_lead_to_reproductions() -> None:
    known = {reproduction.name for reproduction in names.catalogue()}
    seen = {f"{erratum.paper}/{erratum.seen_in}" for erratum in errata() if erratum.seen_in}
    assert seen and seen <= known


def test_differences_stand_under_their_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slip = Cause("a slip", tested="run without it, the number is reached")
    unknown = Cause("it is lower", tried="two other draws")
    found = dataclasses.replace(
        outcome(tmp_path),
        checks=(
            Check("claim 0", "1", "0", "differs", "by one", slip),
            Check("claim 1", "1", "3", "differs", "", unknown),
            Check("claim 2", "1", "2", "differs", "", slip),
        ),
    )
    docs = paged(tmp_path, monkeypatch, found)
    told = (docs / "made-up" / "table-1.md").read_text()
    under = told.partition("**A slip.** Tested: run without it, the number is reached.")[2]
    assert under.partition("**")[0].split("\n")[2:4] == ["- claim 0: by one", "- claim 2"]
    assert "**It is lower.** No cause found. Tried: two other draws." in told
    assert "- A slip (2)." in (docs / "index.md").read_text()
    assert "| 0 | 0 | 2 | 1 | 0 |" in (docs / "index.md").read_text()


# The catalogue


def test_every_reproduction_has_its_printed_page_and_a_function() -> None:
    found = names.catalogue()
    assert len({entry.name for entry in found}) == len(found) >= 45
    for entry in found:
        assert entry.printed.page
        assert entry.paper in names.PAPERS
        assert entry.title and not entry.title.endswith(".")
        for size in ("quick", "full"):
            tasks = entry.tasks(Setting(size))  # type: ignore[arg-type]
            assert tasks
            keys = [json.dumps([p.work.__qualname__, sorted(p.arguments.items())]) for p in tasks]
            assert len(set(keys)) == len(keys), entry.name


def test_checks_without_rows_are_not_run() -> None:
    for entry in names.catalogue():
        assert {check.verdict for check in entry.checks(())} == {"not run"}, entry.name


def test_everything_printed_belongs_to_a_reproduction() -> None:
    known = {entry.name for entry in names.catalogue()}
    assert set(printed_numbers._all()) - {NAME, OTHER_NAME} == known
    assert all(entry.limits.keys() <= entry.says.keys() for entry in printed_numbers._all().values())


def test_names_are_found_and_mistyped_ones_helped() -> None:
    assert len(names.named(["all"])) == len(names.catalogue())
    assert {entry.paper for entry in names.named(["coa"])} == {"coa"}
    assert names.named(["fitness-for-use/table-2"])[0].name == "fitness-for-use/table-2"
    with refuses(InputError, "name", ..., "did you mean 'fitness-for-use/table-2'?"):
        names.named(["fitness-for-us/table-2"])
    with refuses(InputError, "name", ..., "nothing printed is known"):
        printed("nowhere/table-1")


def test_estimates_are_what_was_measured() -> None:
    """The list promised 9 s for what took 0.4 s, and 12 s for 60: estimates hold within a factor of two."""
    folder = Path(__file__).parents[1] / "docs" / "reproductions"
    for record in read_records(folder):
        found = names.named([str(record["name"])])[0]
        assert names._timings()[found.name].keys() == {"quick", "full"}
        told, measured = names.recorded_seconds(found, record["size"]), record["seconds"]
        assert told / 2 - 1 <= measured <= 2 * told + 1, found.name


def test_every_published_difference_has_a_cause_and_every_gain_its_evidence() -> None:
    records = read_records(Path(__file__).parents[1] / "docs" / "reproductions")
    assert len(records) >= 50
    for record in records:
        for check in record["checks"]:
            if check["verdict"] == "differs":
                assert check["cause"] and (check["cause"]["tested"] or check["cause"]["tried"]), record[
                    "name"
                ]
            if check["verdict"] == "better":
                assert check["evidence"] in ("certified", "exact", "simulated"), record["name"]


def test_the_list_names_all() -> None:
    text = listing()
    assert all(entry.name in text for entry in names.catalogue())
