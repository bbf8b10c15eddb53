"""Commands as schedulers meet them: exit status, JSON, logs, pipes, completion, approved plans."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import golden_cli
from leastnoise.app.cli.exit_codes import EXIT_CODES, exit_code_of
from leastnoise.app.cli.main import COMMANDS, app
from leastnoise.core import errors
from leastnoise.core.steps import Step
from support import extra

# The exit status of every error, written down a second time: schedulers rely on these numbers.
STATUS = {
    "AlreadySpentError": 7,
    "DataError": 6,
    "DesignError": 4,
    "InfeasibleError": 4,
    "InputError": 1,
    "LeastnoiseError": 1,
    "LedgerBusyError": 8,
    "LedgerError": 9,
    "LedgerFileError": 9,
    "LedgerMismatchError": 9,
    "MethodError": 4,
    "MissingExtraError": 1,
    "NotYetError": 1,
    "OverBudgetError": 5,
    "PlanFileError": 4,
    "PrivacyError": 4,
    "QueryError": 4,
    "RandomnessError": 7,
    "SchemaError": 4,
    "SpecError": 4,
    "SqlError": 4,
    "TooLargeError": 1,
    "UnstoredError": 7,
    "WorkloadError": 4,
}
CANARY = "canary7316"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in golden_cli.FILES.items():
        Path(name).write_text(text)
    return tmp_path


def run(line: str) -> Any:
    return CliRunner().invoke(app, line.split())


def told(line: str, status: int = 0) -> dict[str, Any]:
    """The object that a command writes with --json, which is all that it writes to standard output."""
    done = run(f"{line} --json")
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == status and done.stdout.count("\n") == 1
    return found


def test_every_error_has_its_exit_status() -> None:
    kinds = {name: getattr(errors, name) for name in errors.__all__}
    found = {
        name: exit_code_of(kind).code
        for name, kind in kinds.items()
        if issubclass(kind, errors.LeastnoiseError)
    }
    assert {name: found[name] for name in STATUS} == STATUS
    # A new error ends as the one that it derives from.
    assert all(1 <= code <= 9 for code in found.values())


def test_exit_statuses_are_told_once_each_and_stay_out_of_what_shells_use() -> None:
    codes = [row.code for row in EXIT_CODES]
    assert len(set(codes)) == len(codes)
    assert [code for code in codes if code > 63] == [128 + signal.SIGINT, 128 + signal.SIGPIPE]
    page = (Path(__file__).parents[1] / "docs" / "operations.md").read_text("utf-8")
    for row in EXIT_CODES:
        assert f"| {row.code} | {row.meaning} |" in page


def test_help_tells_the_exit_status() -> None:
    for line in ("--help", "methods --help", "ledger show --help"):
        text = " ".join(run(line).output.split())
        assert "5 over budget" in text and "130 interrupted" in text


@pytest.mark.thorough
def test_every_command_writes_what_the_schema_says(folder: Path) -> None:
    jsonschema = extra("jsonschema")
    schema = json.loads(
        resources.files("leastnoise.app.cli").joinpath("output.schema.json").read_text("utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).validate
    lines = {
        "demo --people 50 --out town": 0,
        "init people.csv --yes": 0,
        "init --schema": 0,
        "check person.toml --data people.csv": 3,
        "plan spec.toml --static plan.html": 0,
        "design pure.toml --out pure.plan": 0,
        "design spec.toml": 0,
        "ledger create town.ledger --dataset town --epsilon 3 --delta 1e-6": 0,
        "publish spec.toml --data people.csv --ledger town.ledger --release-id a --plan spec.plan": 0,
        "measure spec.plan --data people.csv --out b.csv": 0,
        "release spec.plan --data people.csv --out c.csv": 0,
        "report spec.plan": 0,
        "adjust b.release": 0,
        "present b.release --round-to 5": 0,
        "quantiles b.release age --by sex": 0,
        "explain spec.plan --most 0": 0,
        "tradeoff spec.toml --epsilon 1": 0,
        "compare spec.toml --method identity": 0,
        "methods": 0,
        "audit pure.plan --draws 500": 0,
        "reproduce": 0,
        "completion bash": 0,
        "ledger show town.ledger": 0,
        "ledger fetch town.ledger a --out d.csv": 0,
        "ledger verify town.ledger": 0,
        "ledger export town.ledger": 0,
        "ledger export town.ledger --out rows.csv": 0,
        "ledger grants postgresql://host/database?ledger=town analysts": 0,
        "ledger move town.ledger town.ledger": 1,
        "design missing.toml": 4,
        "design kind.toml": 4,
        "design infeasible.toml": 4,
        "publish spec.toml --data missing.csv --force": 6,
        "publish spec.toml --nonsense": 2,
        "nonsense": 2,
        "report spec.plan --out -": 1,
    }
    seen = set()
    for line, status in lines.items():
        found = told(line, status)
        check(found)
        if status in (0, 3):
            seen.add(found["command"])
        else:
            assert found["error"]["exit_code"] == status and found["error"]["message"]
    named = {name for name in COMMANDS if name != "ledger"}
    named |= {f"ledger {name}" for name in golden_cli.LEDGER_COMMANDS}
    assert named - seen == {"ledger move"}, "it needs a server: tests/test_recipes.py"
    known = {row["if"]["properties"]["command"]["const"] for row in schema["allOf"]}
    assert known == named | {"release"}
    with pytest.raises(jsonschema.ValidationError):
        check({**found, "format": 2})


def test_an_error_in_json_says_what_to_do(folder: Path) -> None:
    assert run("ledger create t.ledger --dataset town --epsilon 0.1 --delta 1e-6 --quiet").output == ""
    error = told("publish spec.toml --data people.csv --ledger t.ledger", 5)["error"]
    assert (error["class"], error["field"], error["meaning"]) == ("OverBudgetError", "limit", "over budget")
    assert "Nothing was spent" in error["message"] and "nothing was spent" in error["advice"]
    error = told("design broken.toml", 4)["error"]
    assert error["class"] == "SpecError" and isinstance(error["line"], int)


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "", text)


@pytest.mark.thorough
def test_a_log_holds_nothing_of_the_table(folder: Path) -> None:
    """Two tables of other sizes and values give the same lines, at every level and in both forms."""
    assert run("design spec.toml --quiet").exit_code == 0
    odd = "age,sex,who\n" + f"3,F,{CANARY}\n" * 7319 + f"{CANARY},X,{CANARY}\n" * 1371
    Path("odd.csv").write_text(odd)
    logs = []
    for table in ("people.csv", "odd.csv"):
        run("ledger create t.ledger --dataset town --epsilon 3 --delta 1e-6").exit_code
        done = run(
            f"measure spec.plan --data {table} --ledger t.ledger --release-id a --log steps.jsonl --verbose "
            "--quiet"
        )
        assert done.exit_code == 0 and done.stdout == "", done.output
        verbose = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
        assert run(f"check person.toml --data {table} --show-values --log steps.log").exit_code == 3
        logs.append((Path("steps.jsonl").read_text(), Path("steps.log").read_text(), "\n".join(verbose)))
        for name in ("steps.jsonl", "steps.log", "t.ledger", *map(str, Path(".").glob("spec-answers*"))):
            Path(name).unlink()
    assert [without_times(text) for text in logs[0]] == [without_times(text) for text in logs[1]]
    for text in logs[1]:
        assert CANARY not in text and not re.search(r"7319|7,319|8690|1371", text)
    steps = [json.loads(line)["step"] for line in logs[1][0].splitlines()]
    assert set(steps) <= set(Step.__args__)  # type: ignore[attr-defined]
    order = ["charge checked", "table counted", "charge spent", "noise drawn", "answers stored"]
    assert [step for step in steps if step in order] == order


def test_a_log_that_cannot_be_written_is_refused(folder: Path) -> None:
    done = run("methods --log nowhere/steps.log")
    assert done.exit_code == 1 and "nowhere/steps.log" in done.stderr


def process(line: str, **options: Any) -> Any:
    code = "from leastnoise.app.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.thorough
def test_a_closed_pipe_ends_quietly(folder: Path) -> None:
    """It used to end with 1, and with 120 and a traceback where the text was short."""
    started = process("methods")
    started.stdout.close()
    with started.stderr as said:
        assert (started.wait(60), said.read()) == (128 + signal.SIGPIPE, "")


@pytest.mark.thorough
def test_what_stops_a_service_is_heard_as_an_interruption(folder: Path) -> None:
    """SIGTERM used to kill the process wherever it was, a paid release half stored."""
    line = (
        "import signal, time, leastnoise, leastnoise.app.cli.main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(*given, **options):\n"
        "    print('started', flush=True); time.sleep(60)\n"
        "leastnoise.design = slow\n"
        "leastnoise.app.cli.main.main()\n"
    )
    words = [sys.executable, "-c", line, "design", "spec.toml"]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdout.readline() == "started\n"
    time.sleep(0.1)
    started.send_signal(signal.SIGTERM)
    assert (started.communicate(timeout=30)[1], started.returncode) == ("interrupted\n", 130)


def test_export_and_report_go_to_standard_output(folder: Path) -> None:
    run("ledger create t.ledger --dataset town --epsilon 1 --delta 1e-6")
    assert run("ledger export t.ledger --out rows.csv").exit_code == 0
    piped = run("ledger export t.ledger --quiet")
    # The runner of tests reads every end of a line as one character, as `read_text` does.
    assert piped.stdout == Path("rows.csv").read_text() and piped.stderr == ""
    assert run("ledger export t.ledger --format jsonl").stdout == ""
    run("design spec.toml")
    page = run("report spec.plan --out -")
    assert run("report spec.plan").exit_code == 0
    assert page.stdout == Path("spec.html").read_text("utf-8") and page.stderr == ""


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_options(folder: Path) -> None:
    program = folder / "bin" / "leastnoise"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m leastnoise "$@"\n')
    program.chmod(0o755)
    script = (
        "source <(leastnoise completion bash)\ncomplete -p leastnoise\n"
        'for words in "pub" "publish --appr"; do\n'
        "COMP_WORDS=(leastnoise $words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        '_leastnoise_completion leastnoise; echo "${COMPREPLY[@]}"; done'
    )
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["publish", "--approved"] and done.stderr == ""
    assert "-o default" in done.stdout


# What zsh would offer, by the function that the script defines.
IN_ZSH = """
compdef() { }
_arguments() { print -r -- "$@" }
source complete.zsh
words=(leastnoise pub); CURRENT=2; _leastnoise_completion
words=(leastnoise publish --appr); CURRENT=3; _leastnoise_completion
"""


@pytest.mark.thorough
def test_zsh_and_fish_complete_commands_and_options(folder: Path) -> None:
    """As far as these shells are installed."""
    program = folder / "bin" / "leastnoise"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m leastnoise "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}

    def typed_in(*command: str) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for shell in ("zsh", "fish"):
        Path(f"complete.{shell}").write_text(run(f"completion {shell}").stdout)
        assert "_LEASTNOISE_COMPLETE" in Path(f"complete.{shell}").read_text()
    if shutil.which("fish") is not None:
        for words, found in (("pub", "publish"), ("publish --appr", "--approved")):
            said = typed_in("fish", "-c", f"source complete.fish; complete -C 'leastnoise {words}'")
            assert said.split()[0] == found
    if shutil.which("zsh") is not None:
        said = typed_in("zsh", "-f", "-c", IN_ZSH)
        assert "publish" in said.splitlines()[0] and "--approved" in said.splitlines()[1]


def test_only_an_approved_plan_is_measured_and_no_table_is_opened_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = told("design spec.toml")["result"]
    digest, other = result["approval"], "0" * 64

    def opened(*given: Any, **options: Any) -> Any:
        raise AssertionError("a table was opened")

    with monkeypatch.context() as patch:
        patch.setattr("leastnoise.app.cli.publish_commands.vectorize", opened)
        patch.setattr("leastnoise.app.cli.publish_commands.table_source", opened)
        for line in (
            f"measure spec.plan --data people.csv --approved {other}",
            f"measure spec.plan --data people.csv --approved {digest[:12]}",
            f"publish spec.toml --data people.csv --plan spec.plan --approved {other}",
            f"publish spec.toml --data people.csv --approved {other}",
            f"publish pure.toml --data people.csv --plan spec.plan --approved {digest}",
        ):
            error = told(line, 4)["error"]
            assert error["class"] == "PlanFileError" and error["field"] in ("approved", "plan"), line
    altered = bytearray(Path("spec.plan").read_bytes())
    altered[len(altered) // 2] ^= 1
    Path("altered.plan").write_bytes(altered)
    assert run(f"measure altered.plan --data people.csv --approved {digest}").exit_code == 4
    assert not list(folder.glob("*-answers*"))
    found = told(f"publish spec.toml --data people.csv --plan spec.plan --approved {digest}")
    assert found["result"]["plan"]["digest"] == result["plan"]["digest"]
