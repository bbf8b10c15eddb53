"""The command line as its users meet it: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import ast
import contextlib
import csv
import inspect
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

import golden_cli
import leastnoise
from leastnoise.app.cli import main as program
from leastnoise.app.cli.main import app
from leastnoise.core.errors import UnrecordedSpending
from support import REFUSAL_CODES

# Lines of one function: what fits on a screen.
MOST_LINES = 60

COMMANDS = (
    "demo",
    "init",
    "plan",
    "publish",
    "design",
    "release",
    "report",
    "explain",
    "tradeoff",
    "compare",
    "methods",
    "ledger",
    "audit",
    "reproduce",
    "completion",
)
CANARY = "canary7316"
WROTE = (
    "wrote town-answers.csv\nwrote town-answers.release (load_release() reads it back)\n"
    "wrote town-answers.html (open it in a browser)\n"
)

SPEC = golden_cli.SPEC + 'name      = "ages"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a specification and a table, and nothing in the environment that asks for colour."""
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "town.toml").write_text(SPEC)
    rows = "".join(f"{i % 4},{'FM'[i % 3 == 0]}\n" for i in range(500))
    (tmp_path / "people.csv").write_text(f"age,sex\n{rows}")
    return tmp_path


def run(*arguments: str, columns: int = 80) -> Any:
    """The result of a command, its standard error apart from its output."""
    return CliRunner(env={"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}).invoke(
        app, list(arguments)
    )


def succeed(*arguments: str, columns: int = 80) -> str:
    result = run(*arguments, columns=columns)
    assert result.exit_code == 0, result.output
    assert result.exception is None
    return str(result.stdout)


def refuse(*arguments: str) -> str:
    """The one line on standard error with which a command refuses."""
    result = run(*arguments)
    assert result.exit_code in REFUSAL_CODES, result.output
    assert isinstance(result.exception, SystemExit)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("designed in")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert "Traceback" not in result.output
    assert CANARY not in result.output
    return lines[0]


def shell(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A real process."""
    line = [sys.executable, "-c", "from leastnoise.app.cli.main import main; main()", *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(
        line, capture_output=True, text=True, env=environment, timeout=100, **{"encoding": "utf-8", **options}
    )


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------- help


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [60, 80, 160])
def test_every_command_explains_itself(command: str, columns: int, folder: Path) -> None:
    text = succeed(command, "--help", columns=columns)
    assert "Usage:" in text
    assert "--help" in text
    assert max(map(len, text.splitlines())) <= columns
    # Square brackets in a help text are taken for markup and vanish: "with ,  and []".
    assert " , " not in text
    assert "[]" not in text
    assert "\x1b" not in text


def test_without_arguments_comes_the_help(folder: Path) -> None:
    text = run().output
    assert "Usage:" in text
    assert all(command in text for command in COMMANDS)


def test_version() -> None:
    assert succeed("--version") == f"leastnoise {leastnoise.__version__}\n"


def test_methods_are_listed() -> None:
    text = succeed("methods")
    assert re.search(r"^dense +the certified optimum", text, re.MULTILINE)
    assert "option branching = 2" in text


def test_unknown_commands_and_options_are_refused(folder: Path) -> None:
    for arguments in (["desing", "town.toml"], ["design"], ["release", "x.plan"], ["demo", "--seed", "-1"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    for people in ("0", "100000000000"):
        assert run("demo", "--people", people).exit_code == 2
    assert files(folder) == {"town.toml", "people.csv"}


# ---------------------------------------------------------------- the demo


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """What one real run of the demo wrote and said, piped at 80 columns."""
    folder = tmp_path_factory.mktemp("demo")
    done = shell("demo", "--people", "2000", "--out", "my town", cwd=folder, env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.thorough
def test_demo_writes_what_it_lists(town: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = town
    listed = re.findall(r"^  (\w+\.\w+) ", done.stdout.split("Written to my town:")[1], re.MULTILINE)
    assert sorted(listed) == sorted(files(folder / "my town"))
    release = leastnoise.load_release(folder / "my town" / "answers.release")
    assert leastnoise.load_plan(folder / "my town" / "town.plan").certificate.status == "optimal"
    with (folder / "my town" / "answers.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["query"] != "not counted"]
    answers = [float(row["answer"]) for row in rows]
    assert answers == pytest.approx(release.answers.tolist())
    said = leastnoise.app.specification.load_spec(folder / "my town" / "town.toml").publication
    assert said is not None and said.publisher is not None and said.date is not None
    summary = (folder / "my town" / "summary.txt").read_text("utf-8")
    assert summary == f"{leastnoise.summarize(release, said)}\n"


def test_demo_shows_table_cost_proof_and_place(town: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = town
    text = done.stdout
    assert "2,000 invented people publishes 189 counts in 7 tables" in text
    assert re.search(r"^ Riverside +-?\d+ ± \d+ +-?\d+ ± \d+ *$", text, re.MULTILINE)
    assert re.search(
        r"^ income distribution by region +11.4 +23.5 \(2.1×\) +100.0 \(8.8×\) *$", text, re.MULTILINE
    )
    assert "no Gaussian noise shaped to these" in text
    assert "optimum" in text
    assert re.search(r"invented we may look: 1\d\d of the 189 intervals", text)
    parts = ["as published", "each cell", "Proof:", "may look", "Written to", "Next,"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert max(map(len, text.split("Next,")[0].splitlines())) <= 80
    # A command is one line, to be copied, and its paths are quoted.
    program = "(leastnoise|python -m leastnoise)"
    assert re.search(rf"\n  {program} publish 'my town/town.toml' --data 'my town/people.csv'\n", text)


def test_piped_output_holds_no_control_sequence(town: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = town
    for text in (done.stdout, done.stderr):
        assert all(c.isprintable() or c == "\n" for c in text)
    # A busy machine takes longer than the time after which signs of life are given.
    assert re.fullmatch(r"(designing.* s so far\)\n)*designed in \d+\.\d s\n", done.stderr)


@pytest.mark.thorough
def test_a_folder_with_an_awkward_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names like these used to be changed on the way to the terminal, and long ones broken in the middle."""
    smaller(monkeypatch)
    name = f":smile: {'long' * 20} $x"
    text = succeed("demo", "--people", "50", "--out", name, columns=60)
    assert f"\nWritten to {name}:\n" in text
    assert f" explain '{name}/town.toml'\n" in text
    assert (folder / name / "answers.csv").exists()


def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publication that is designed at once."""
    from leastnoise.app.demo import publication
    from leastnoise.app.specification import Spec

    def few(*, epsilon: float) -> Spec:
        whole = publication(epsilon=epsilon)
        asked = [q for q in whole.queries if q.name in ("sex by region", "life stages by education")]
        return Spec(whole.schema, tuple(asked), whole.privacy)

    monkeypatch.setattr("leastnoise.app.demo.publication", few)


# ---------------------------------------------------------------- the walk


def test_design_then_release(folder: Path) -> None:
    text = succeed("design", "town.toml")
    assert "wrote town.plan" in text
    assert "optimal" in text
    plan = leastnoise.load_plan(folder / "town.plan")
    result = run("release", "town.plan", "--data", "people.csv")
    assert result.exit_code == 0
    assert result.stdout == WROTE
    assert re.fullmatch(
        r"warning: no ledger records this release: it spends \(1, 1e-06\)-DP.*\n", result.stderr
    )
    release = leastnoise.load_release(folder / "town-answers.release")
    assert release.plan.workload.digest == plan.workload.digest
    with (folder / "town-answers.csv").open(newline="", encoding="utf-8") as file:
        *rows, last = csv.DictReader(file)
    assert last["query"] == "not counted"
    assert [row["label"] for row in rows] == list(plan.workload.labels)
    assert [float(row["answer"]) for row in rows] == pytest.approx(release.answers.tolist())
    assert files(folder) == {
        "town.toml",
        "people.csv",
        "town.plan",
        "town-answers.csv",
        "town-answers.release",
        "town-answers.html",
    }


@pytest.mark.thorough
def test_names_are_chosen_with_out(folder: Path) -> None:
    assert "wrote other.plan" in succeed("design", "town.toml", "-o", "other.plan")
    assert "wrote a.csv" in succeed("release", "other.plan", "--data", "people.csv", "--out", "a.csv")
    assert "wrote b.csv" in succeed("publish", "town.toml", "--data", "people.csv", "-o", "b.csv")
    assert {"other.plan", "a.csv", "a.release", "b.csv", "b.release"} < files(folder)


@pytest.mark.thorough
def test_publish_does_the_whole_walk(folder: Path) -> None:
    result = run("publish", "town.toml", "--data", "peop*.csv")
    assert result.exit_code == 0
    release = leastnoise.load_release(folder / "town-answers.release")
    assert result.stdout == (f"{leastnoise.summarize(release)}\n\n{WROTE}")
    assert "designed in" in result.stderr
    assert "warning: no ledger" in result.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_explain_a_specification_and_a_plan(columns: int, folder: Path) -> None:
    (folder / "upper.TOML").write_text(SPEC)
    succeed("design", "town.toml")
    texts = [succeed("explain", name, columns=columns) for name in ("town.toml", "town.plan", "upper.TOML")]
    # What a specification approves covers its columns too, so a saved plan shows no digest of it.
    approved = re.compile(r"digest [0-9a-f]{64}\n\(--approved .*\)\n\n")
    assert approved.sub("", texts[0]) == texts[1] == approved.sub("", texts[2])
    assert "not measured yet" in texts[0] and approved.search(texts[0]) and not approved.search(texts[1])
    table = texts[1].split("Recheck it yourself")[1]
    assert re.search(r"^ age x sex +[\d.]+ +[\d.]+ \([\d.]+×\) +[\d.]+ \([\d.]+×\) *$", table, re.MULTILINE)
    assert "total variance" in table
    assert max(map(len, table.splitlines())) <= columns


@pytest.mark.thorough
def test_compare(folder: Path) -> None:
    text = succeed("compare", "town.toml", "--method", "identity", "--method", "dense")
    assert re.search(r"^dense .*\n^identity ", text, re.MULTILINE)
    assert "hierarchical" not in text
    assert "hierarchical" in succeed("compare", "town.toml", "--time-limit", "60")


def with_targets(stderr: float, *, goal: bool) -> str:
    text = SPEC.replace('name      = "ages"', f'name      = "ages"\nstderr    = {stderr}')
    before, _, after = text.partition("[privacy]")
    return text if goal else before + after[after.index("[[query]]") :]


@pytest.mark.thorough
def test_targets_without_privacy_walk_too(folder: Path) -> None:
    (folder / "town.toml").write_text(
        with_targets(5, goal=False).replace('"marginal"', '"marginal"\nstderr = 8')
    )
    text = succeed("design", "town.toml")
    assert "objective    targets" in text and "mu squared" in text
    assert re.search(r"^  targets      met by every query$", text, re.MULTILINE)
    assert re.search(r"ages +\S+.*, target 5 ", text)
    for command in ("explain", "compare"):
        assert "mu squared" in succeed(command, "town.toml").lower()
    assert "largest, in targets" in succeed("explain", "town.toml")
    assert "Targets: met by every query" in succeed("publish", "town.toml", "--data", "people.csv")


@pytest.mark.thorough
def test_targets_within_a_goal(folder: Path) -> None:
    (folder / "town.toml").write_text(with_targets(60, goal=True))
    text = succeed("design", "town.toml")
    assert "objective    total variance within targets" in text and "met by every query" in text
    (folder / "town.toml").write_text(with_targets(0.5, goal=True))
    line = refuse("design", "town.toml", "--force")
    assert line.startswith("error: these targets cannot be met with Gaussian noise within (1, 1e-06)-DP")
    assert "The most is asked by 'ages'." in line
    assert re.search(r"multiply every stderr and within of the specification by at least [\d.]+", line)
    assert re.search(r"or raise epsilon to [\d.]+", line) and "Laplace" in line
    assert files(folder) == {"town.toml", "people.csv", "town.plan"}
    factor = with_targets(0.5, goal=True) + '\n[design]\nobjective = "targets"\n'
    (folder / "town.toml").write_text(factor.replace('"marginal"', '"marginal"\nstderr = 8'))
    text = succeed("design", "town.toml", "--force")
    assert re.search(r"missed; every standard error is within \S+ times its target", text)
    assert "squared factor" in succeed("compare", "town.toml")


class _Watched:
    """What a terminal would have shown while a plan was sought."""

    lines: ClassVar[list[str]] = []

    def update(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("stderr", [None, 60.0])
def test_a_terminal_shows_the_gap_shrink(
    stderr: float | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def spinner(what: str) -> Iterator[Callable[[str], None]]:
        yield _Watched().update

    monkeypatch.setattr("leastnoise.app.cli.terminal.spinner", spinner)
    (folder / "town.toml").write_text(SPEC if stderr is None else with_targets(stderr, goal=True))
    _Watched.lines.clear()
    succeed("design", "town.toml")
    pattern = re.compile(r"designing(?: by \w+)?: step (\d+), gap to the optimum (\S+)")
    shown = [pattern.fullmatch(line) for line in _Watched.lines]
    assert len(shown) > 2 and all(shown)
    gaps = [float(match[2]) for match in shown if match]
    assert gaps[-1] < 1e-5 < gaps[0]


@pytest.mark.thorough
def test_pure_privacy_walks_too(folder: Path) -> None:
    (folder / "pure.toml").write_text(SPEC.replace("delta   = 1e-6", ""))
    assert "ε-differential privacy with ε = 1" in succeed("publish", "pure.toml", "--data", "people.csv")
    assert "total variance" in succeed("explain", "pure.toml")


@pytest.mark.thorough
def test_what_is_said_of_no_delta_is_what_leaving_it_out_gives(folder: Path) -> None:
    """It was the best of other plans than those that design makes, and was said unasked."""
    for settings in ("", '\n[design]\nmethod = "hierarchical"\n'):
        (folder / "town.toml").write_text(SPEC + settings)
        assert "ithout delta" not in succeed("explain", "town.toml", "--most", "0")
        text = " ".join(succeed("explain", "town.toml", "--most", "0", "--without-delta").split())
        told = re.search(r"ithout delta: total variance ([\d,.]+) by (\S+),", text)
        assert told is not None, text
        (folder / "pure.toml").write_text((SPEC + settings).replace("delta   = 1e-6", ""))
        succeed("design", "pure.toml", "--force")
        plan = leastnoise.load_plan(folder / "pure.plan")
        assert (f"{plan.certificate.achieved:,.6g}", plan.method) == (told[1], told[2])
    assert "has a delta to leave out" in refuse("explain", "pure.toml", "--without-delta")


def test_settings_of_the_specification_are_used(folder: Path) -> None:
    (folder / "town.toml").write_text(
        SPEC + '\n[design]\nmethod = "hierarchical"\noptions = { branching = 4 }\ntol = 0.1\n'
    )
    succeed("design", "town.toml", "--time-limit", "30")
    plan = leastnoise.load_plan(folder / "town.plan")
    assert (plan.method, plan.options, plan.tol) == ("hierarchical", {"branching": 4}, 0.1)


NASTY = '[bold]x[/bold] [red] :smile: \x1b[31m "q" \u202e'


@pytest.mark.thorough
def test_names_are_shown_as_they_are(folder: Path) -> None:
    """Names come from a file that somebody else may have written."""
    schema = leastnoise.Schema(**{"[i]a": (NASTY, "b"), "sex": ("F", "M")})
    from leastnoise.app.specification import Spec

    spec = Spec(schema, (leastnoise.Marginal("[i]a", "sex", name=NASTY),), leastnoise.GDP(1))
    (folder / "town.toml").write_text(spec.to_toml(), encoding="utf-8")
    (folder / "people.csv").write_text("[i]a,sex\nb,F\n")
    literal = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in NASTY)
    for arguments in (
        ["design", "town.toml"],
        ["explain", "town.plan"],
        ["compare", "town.toml"],
        ["publish", "town.toml", "--data", "people.csv"],
    ):
        text = succeed(*arguments, columns=160)
        assert all(c.isprintable() or c == "\n" for c in text)
        assert literal in text or arguments[0] == "compare"
    (folder / "town.toml").write_text(SPEC.replace('"prefix"', '"\\u001b[31m\\nerror: x"'))
    assert refuse("design", "town.toml").count("error: ") == 2


# ---------------------------------------------------------------- refusals


def broken(change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda folder: (folder / "town.toml").write_text(change(SPEC)) and None


def tampered(folder: Path) -> None:
    succeed("design", "town.toml")
    content = bytearray((folder / "town.plan").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "town.plan").write_bytes(content)


def planned(folder: Path) -> None:
    succeed("design", "town.toml")


def other_column(folder: Path) -> None:
    planned(folder)
    (folder / "people.csv").write_text(f"age,gender\n{CANARY},{CANARY}\n")


def broken_table(folder: Path) -> None:
    planned(folder)
    (folder / "people.parquet").write_bytes(b"PAR1" + CANARY.encode() * 9 + b"PAR1")


def nothing(folder: Path) -> None:
    pass


REFUSALS: list[tuple[Callable[[Path], None], list[str], str]] = [
    (nothing, ["design", "none.toml"], r"there is no file 'none\.toml'"),
    (nothing, ["publish", "none.toml", "--data", "people.csv"], r"there is no file 'none\.toml'"),
    (nothing, ["explain", "none.plan"], r"there is no file 'none\.plan'"),
    (nothing, ["design", "."], "cannot be read: Is a directory"),
    (
        broken(lambda text: text + "[[\n"),
        ["design", "town.toml"],
        r"town\.toml:\d+: this is not TOML: .*line 18",
    ),
    (
        broken(lambda text: text.replace("1.0", "0")),
        ["explain", "town.toml"],
        r"town\.toml:\d+: \[privacy\]: epsilon",
    ),
    (
        broken(lambda text: text + '[design]\nmethod = "best"'),
        ["design", "town.toml"],
        "there is no method 'best'; there are dense, ",
    ),
    (
        broken(lambda text: text + "[design]\ntol = '0'"),
        ["publish", "town.toml", "--data", "people.csv"],
        r"town\.toml:\d+: \[design\]: tol must be a positive number",
    ),
    (
        broken(lambda text: text.replace("delta", 'neighbours = "replace-two"\ndelta')),
        ["design", "town.toml"],
        "'replace-two'",
    ),
    (nothing, ["compare", "town.toml", "--method", "best"], "there is no method 'best'"),
    (nothing, ["design", "town.toml", "--time-limit", "-1"], "error: --time-limit must be a positive number"),
    (nothing, ["demo", "--epsilon", "0"], "epsilon must be positive"),
    (nothing, ["demo", "--epsilon", "nan"], "epsilon must be finite"),
    (
        tampered,
        ["release", "town.plan", "--data", "people.csv"],
        r"'town\.plan' (was altered|cannot be read)",
    ),
    (tampered, ["explain", "town.plan"], r"'town\.plan' (was altered|cannot be read)"),
    (nothing, ["release", "people.csv", "--data", "people.csv"], "it is damaged or not a leastnoise file"),
    (planned, ["release", "town.plan", "--data", "none.csv"], r"there is no file 'none\.csv'"),
    (planned, ["release", "town.plan", "--data", "none*.csv"], r"there is no file 'none\*\.csv'"),
    (nothing, ["publish", "town.toml", "--data", "none.csv"], r"there is no file 'none\.csv'"),
    (
        other_column,
        ["release", "town.plan", "--data", "people.csv"],
        "exactly one column named 'sex'.* it has none",
    ),
    (broken_table, ["release", "town.plan", "--data", "people.parquet"], "cannot be read as Parquet"),
    (planned, ["release", "town.plan", "--data", "people.csv", "-o", "no/a.csv"], "there is no folder 'no'"),
    (nothing, ["publish", "town.toml", "--data", "people.csv", "-o", "no/a.csv"], "there is no folder 'no'"),
    (nothing, ["design", "town.toml", "-o", "no/a.plan"], "there is no folder 'no' to write 'a.plan' to"),
    (nothing, ["design", "town.toml", "-o", "people.csv/a.plan"], "there is no folder 'people.csv'"),
    (nothing, ["design", "town.toml", "-o", "."], "'.' cannot be written; choose another place with --out"),
    (nothing, ["publish", "town.toml", "--data", "people.csv", "-o", "."], "'.' cannot be written"),
    (nothing, ["publish", "town.toml", "--data", "people.csv", "-o", "/"], "'/' cannot be written"),
    (nothing, ["publish", ".", "--data", "people.csv"], "cannot be read: Is a directory"),
    (nothing, ["demo", "--people", "9", "--out", "[red]x"], r"must not hold \* \? or \[, got '.*/\[red\]x'"),
    (nothing, ["demo", "--people", "9", "--out", "people.csv"], r"people\.csv: File exists"),
    (nothing, ["demo", "--people", "9", "--out", "people.csv/x"], r"people\.csv/x: Not a directory"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("prepare", "arguments", "words"), REFUSALS, ids=[" ".join(arguments) for _, arguments, _ in REFUSALS]
)
def test_refusals_take_one_line(
    prepare: Callable[[Path], None],
    arguments: list[str],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smaller(monkeypatch)
    prepare(folder)
    before = files(folder)
    assert re.search(words, refuse(*arguments))
    assert files(folder) == before


def forbidden(*arguments: Any, **options: Any) -> None:
    raise AssertionError("nothing may be designed or measured here")


@pytest.mark.thorough
def test_the_table_is_never_replaced_by_its_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """people.toml with people.csv used to overwrite the private table with the noisy answers."""
    succeed("design", "town.toml")
    (folder / "people.toml").write_text(SPEC)
    secret = (folder / "people.csv").read_text()
    succeed("publish", "people.toml", "--data", "people.csv")
    assert (folder / "people.csv").read_text() == secret
    (folder / "link.csv").symlink_to("people.csv")
    monkeypatch.setattr("leastnoise.measure", forbidden)
    monkeypatch.setattr("leastnoise.planning", forbidden)
    for arguments in (
        ["release", "town.plan", "--data", "people.csv", "--out", "people.csv"],
        ["publish", "town.toml", "--data", "./people.csv", "--out", "people.csv"],
        ["publish", "town.toml", "--data", "peo*.csv", "--out", "people.csv"],
        ["publish", "town.toml", "--data", "people.csv", "--out", "link.csv"],
        ["publish", "town.toml", "--data", "people.csv", "--out", "town.toml"],
        ["release", "town.plan", "--data", "people.csv", "--out", "town.plan"],
        ["design", "town.toml", "--out", "town.toml"],
    ):
        assert "would replace what is read; choose another --out" in refuse(*arguments)
    told = refuse("release", "town.plan", "--data", "people.csv", "--out", "x.release")
    assert "--out is for the answers; x.release is kept for the release" in told
    assert (folder / "people.csv").read_text() == secret


def test_nothing_is_spent_when_the_answers_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder used to be looked at after measuring, so that the answers paid for were lost."""
    succeed("design", "town.toml")
    monkeypatch.setattr("leastnoise.measure", forbidden)
    refuse("release", "town.plan", "--data", "people.csv", "--out", "no/a.csv")
    monkeypatch.setattr("os.access", lambda path, mode, **options: mode != os.W_OK)
    assert "'town-answers.csv' cannot be written" in refuse("release", "town.plan", "--data", "people.csv")


@pytest.mark.thorough
def test_release_is_another_name_of_measure(folder: Path) -> None:
    succeed("design", "town.toml")
    for name in ("measure", "release"):
        succeed(name, "town.plan", "--data", "people.csv", "--out", f"{name}.csv")
    assert {"measure.csv", "measure.release", "release.csv", "release.release"} < files(folder)
    shown = succeed("--help")
    assert re.search(r"^\W+measure ", shown, re.M) and not re.search(r"^\W+release ", shown, re.M)


def test_answers_are_saved_before_anything_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*arguments: Any, **options: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("leastnoise.app.cli.publish_commands.say", closed)
    assert run("publish", "town.toml", "--data", "people.csv").exit_code == 141
    assert {"town-answers.csv", "town-answers.release"} < files(folder)


def test_a_link_or_a_device_is_not_replaced(folder: Path) -> None:
    """Files are replaced whole: --out /dev/stdout would have put a file in its place."""
    (folder / "gone.csv").symlink_to("elsewhere.csv")
    os.mkfifo(folder / "pipe.csv")
    for name in ("gone.csv", "pipe.csv"):
        told = refuse("publish", "town.toml", "--data", "people.csv", "--out", name)
        assert f"'{name}' cannot be written" in told


def test_one_file_is_kept_if_the_other_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device", "town-answers.csv")

    monkeypatch.setattr("leastnoise.app.cli.outputs.write_answers", full)
    result = run("publish", "town.toml", "--data", "people.csv")
    assert result.exit_code == 1
    assert result.stderr.endswith("error: town-answers.csv: No space left on device\n")
    assert leastnoise.load_release(folder / "town-answers.release").answers.shape == (12,)


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (PermissionError(13, "Permission denied", "town.plan"), "error: town.plan: Permission denied"),
        (OSError(28, "No space left on device"), "error: a file: No space left on device"),
        (OSError(), "error: a file: OSError"),
        (MemoryError(), "error: there is not enough memory for this"),
        (leastnoise.LeastnoiseError("one\n two\x1b[3m"), r"error: one two\x1b[3m"),
    ],
    ids=repr,
)
def test_failures_of_the_system_take_one_line(
    raised: Exception, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise raised

    monkeypatch.setattr("leastnoise.planning.plan.Plan.save", fail)
    assert refuse("design", "town.toml") == words


def test_other_warnings_are_not_passed_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that warns about a column may quote its values."""
    import warnings

    succeed("design", "town.toml")
    true_measure = leastnoise.measure

    def noisy(plan: Any, data: Any, **options: Any) -> Any:
        warnings.warn(f"mixed types: {CANARY}", UserWarning, stacklevel=1)
        return true_measure(plan, data, **options)

    monkeypatch.setattr("leastnoise.measure", noisy)
    result = run("release", "town.plan", "--data", "people.csv")
    assert result.exit_code == 0
    assert CANARY not in result.output
    assert result.stderr.count("warning: ") == 1
    assert UnrecordedSpending.__name__ not in result.stderr


# ---------------------------------------------------------------- interruptions and real shells


@pytest.mark.parametrize(
    "arguments",
    [
        ["design", "town.toml"],
        ["publish", "town.toml", "--data", "people.csv"],
        ["demo"],
        ["explain", "town.toml"],
    ],
    ids=str,
)
def test_an_interruption_writes_nothing(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo used to say so with the people already on disk."""

    def interrupted(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("leastnoise.design", interrupted)
    monkeypatch.setattr("leastnoise.app.demo.design", interrupted)
    result = run(*arguments)
    assert result.exit_code == 130
    # What cannot spend need not say that it has not.
    assert result.stderr == "interrupted" + "; nothing was spent" * (arguments[0] == "publish") + "\n"
    assert files(folder) == {"town.toml", "people.csv"}


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are not sent there")
def test_an_interruption_after_paying_says_where_the_answers_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between paying and storing is heard once the answers are stored, and they can be had again."""
    succeed("ledger", "create", "budget.db", "--dataset", "town", "--epsilon", "9", "--delta", "1e-5")
    room = sys.modules["leastnoise.release.measuring"]

    noisy = room._noisy

    def interrupted(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return noisy(*given)

    monkeypatch.setattr(room, "_noisy", interrupted)
    asked = ("publish", "town.toml", "--data", "people.csv", "--ledger", "budget.db")
    # Programs that were started in the background ignore Ctrl-C; other packages leave handlers behind.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    result = run(*asked)
    signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    found = re.search(r"release (\w+) is paid for and stored; .*--release-id", result.stderr)
    assert found is not None and not (folder / "town-answers.csv").exists()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    before = leastnoise.Ledger(folder / "budget.db").remaining
    succeed(*asked, "--release-id", found[1])
    assert leastnoise.Ledger(folder / "budget.db").remaining == before
    assert (folder / "town-answers.csv").exists()


@pytest.mark.thorough
def test_an_interrupted_process_ends_in_one_line(folder: Path) -> None:
    # Where the tests run in the background of a script, Ctrl-C is ignored unless asked for.
    line = (
        "import signal, time, leastnoise, leastnoise.app.cli.main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(*given, **options):\n"
        "    print('started', flush=True); time.sleep(60)\n"
        "leastnoise.design = slow\n"
        "leastnoise.app.cli.main.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", line, "design", "town.toml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told == "interrupted\n"
    assert files(folder) == {"town.toml", "people.csv"}


@pytest.mark.thorough
def test_a_refusal_in_a_real_shell(folder: Path) -> None:
    done = shell("publish", "none.toml", "--data", "people.csv")
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "error: there is no file 'none.toml'\n")
    usage = shell("--help")
    assert usage.returncode == 0
    assert "Usage: leastnoise [OPTIONS] COMMAND" in usage.stdout


@pytest.mark.thorough
def test_a_terminal_without_greek_letters_gets_question_marks(folder: Path) -> None:
    """ε and ± used to stop the output where the encoding has none."""
    done = shell(
        *("publish", "town.toml", "--data", "people.csv"),
        env={"PYTHONIOENCODING": "latin-1"},
        encoding="latin-1",
    )
    assert done.returncode == 0, done.stderr
    assert "? = 1" in done.stdout
    assert {"town-answers.csv", "town-answers.release"} < files(folder)


@pytest.mark.thorough
def test_a_second_release_is_refused_unless_forced(folder: Path) -> None:
    """Publishing twice used to replace the first release without a word."""
    succeed("publish", "town.toml", "--data", "people.csv")
    before = (folder / "town-answers.csv").read_bytes()
    assert "spends privacy again" in refuse("publish", "town.toml", "--data", "people.csv")
    assert (folder / "town-answers.csv").read_bytes() == before
    succeed("publish", "town.toml", "--data", "people.csv", "--force")
    assert (folder / "town-answers.csv").read_bytes() != before


@pytest.mark.thorough
def test_answers_go_to_files_of_a_known_kind_only(folder: Path) -> None:
    told = refuse("publish", "town.toml", "--data", "people.csv", "--out", "x.docx")
    assert ".csv, .parquet, .json, .xlsx, got" in told
    assert not (folder / "x.docx").exists() and not (folder / "x.release").exists()
    for name in ("a.json", "b.parquet"):
        succeed("publish", "town.toml", "--data", "people.csv", "--out", name)
        assert (folder / name).stat().st_size and (folder / name).with_suffix(".html").exists()


def test_a_file_of_the_wrong_kind_is_named(folder: Path) -> None:
    succeed("design", "town.toml")
    succeed("release", "town.plan", "--data", "people.csv")
    assert "saved plan or release" in refuse("compare", "town.plan")
    assert "goes to `leastnoise design`" in refuse("release", "town.toml", "--data", "people.csv")
    assert "it is a release; read it with load_release()" in refuse("explain", "town-answers.release")


def test_persons_are_named_by_their_column(folder: Path) -> None:
    """Five hundred records of one person, two of which may count; the noise is far below the others."""
    spec = SPEC.replace("delta", "records_per_person = 2\ndelta").replace("epsilon = 1", "epsilon = 100")
    (folder / "town.toml").write_text(spec)
    rows = "".join(f"{i % 4},{'FM'[i % 3 == 0]},me\n" for i in range(500))
    (folder / "people.csv").write_text(f"age,sex,who\n{rows}")
    succeed("publish", "town.toml", "--data", "people.csv", "--person", "who")
    release = leastnoise.load_release(folder / "town-answers.release")
    assert abs(release["age x sex"]["answer"].sum() - 2) < 25
    assert release.is_truncated is True
    told = refuse("publish", "town.toml", "--data", "people.csv", "--person", "whom", "--force")
    assert (
        "exactly one column named 'whom', with exactly this spelling; it has none; 'who' is there for 'whom'"
        in told
    )
    assert "schema" not in told


TRUST = "warning: records_per_person = 2 is not enforced, because no column identifies the person"


def several_records(folder: Path, *, person: str | None) -> None:
    """Five hundred records of one person; the specification lets two count, and may say whose they are."""
    named = "" if person is None else f'person = "{person}"\n'
    spec = SPEC.replace("delta", f"records_per_person = 2\n{named}delta").replace(
        "epsilon = 1", "epsilon = 100"
    )
    (folder / "town.toml").write_text(spec)
    rows = "".join(f"{i % 4},{'FM'[i % 3 == 0]},me,{i}\n" for i in range(500))
    (folder / "people.csv").write_text(f"age,sex,who,row\n{rows}")


@pytest.mark.thorough
def test_the_person_of_the_specification_is_used_unless_another_is_named(folder: Path) -> None:
    several_records(folder, person="who")
    done = run("publish", "town.toml", "--data", "people.csv")
    assert done.exit_code == 0 and TRUST not in done.stderr
    release = leastnoise.load_release(folder / "town-answers.release")
    assert release.is_truncated is True and abs(release["age x sex"]["answer"].sum() - 2) < 25
    succeed("publish", "town.toml", "--data", "people.csv", "--person", "row", "--force")
    release = leastnoise.load_release(folder / "town-answers.release")
    assert abs(release["age x sex"]["answer"].sum() - 500) < 25
    several_records(folder, person="Who")
    told = refuse("publish", "town.toml", "--data", "people.csv", "--force")
    assert "named 'Who'" in told and told.endswith("; 'who' is there for 'Who'")
    assert refuse("check", "town.toml", "--data", "people.csv").endswith("; 'who' is there for 'Who'")


@pytest.mark.thorough
def test_records_on_trust_are_said_before_anything_is_paid(folder: Path) -> None:
    """It used to publish and pay without a word where the column was forgotten."""
    several_records(folder, person=None)
    limit = ("--epsilon", "500", "--delta", "1e-5", "--records-per-person", "2")
    succeed("ledger", "create", "b.db", "--dataset", "t", *limit)
    arguments = ("--data", "people.csv", "--ledger", "b.db", "--release-id", "first", "--force")
    told = run("publish", "town.toml", *arguments).stderr.splitlines()
    warned = [line for line in told if line.startswith(TRUST)]
    assert len(warned) == 1 and told.index(warned[0]) == 0, "before the design, in one line"
    assert warned[0].endswith('; name it in the specification, as in person = "patient_id", or with --person')
    assert leastnoise.load_release(folder / "town-answers.release").is_truncated is False
    assert TRUST not in run("publish", "town.toml", *arguments).stderr, "it is paid for, and costs nothing"
    succeed("design", "town.toml")
    told = run("release", "town.plan", "--data", "people.csv", "--force").stderr
    assert told.startswith(TRUST) and told.splitlines()[0].endswith("; name the column with --person")
    told = run("release", "town.plan", "--data", "people.csv", "--person", "who", "--force").stderr
    assert TRUST not in told
    (folder / "town.toml").write_text(SPEC)
    assert "on trust" not in run("publish", "town.toml", "--data", "people.csv", "--force").stderr


def test_columns_spelled_otherwise_are_named_by_publish_and_release(folder: Path) -> None:
    succeed("design", "town.toml")
    (folder / "people.csv").write_text("Age,sex\n1,F\n")
    for command in (["publish", "town.toml"], ["release", "town.plan"]):
        assert refuse(*command, "--data", "people.csv").endswith("it has none; 'Age' is there for 'age'")
    (folder / "people.csv").write_text(f"{CANARY},sex\n1,F\n")
    assert refuse("publish", "town.toml", "--data", "people.csv").endswith("; it has none")


@pytest.mark.parametrize("name", program.COMMANDS)
def test_the_list_of_commands_shows_what_each_says_of_itself(name: str) -> None:
    """The list is shown without loading the commands, so their first lines stand there a second time."""
    file, first = program.COMMANDS[name]
    found = getattr(import_module(f"leastnoise.app.cli.{file}"), name)
    own = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert " ".join(own.split("\n\n")[0].split()) == first


def test_a_look_at_the_help_loads_no_numbers() -> None:
    code = (
        "import sys; from leastnoise.app.cli.main import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_importing_the_package_loads_nothing_until_a_name_is_used() -> None:
    code = (
        "import sys, leastnoise as ln\n"
        "assert 'numpy' not in sys.modules\n"
        "assert all(getattr(ln, name) is getattr(ln, name) for name in ln.__all__)\n"
        "assert not hasattr(ln, 'nothing_of_this_name')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_function_of_the_command_line_is_longer_than_a_screen() -> None:
    """`publish` had grown to 79 lines."""
    folder = Path(inspect.getfile(program)).parent
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                n_lines = (node.end_lineno or 0) - node.lineno + 1
                assert n_lines <= MOST_LINES, (path.name, node.name, n_lines)
