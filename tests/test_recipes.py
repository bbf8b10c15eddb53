"""The recipes of docs/operations.md: their files are valid, and their commands run."""

from __future__ import annotations

import ast
import configparser
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import golden_cli
from leastnoise.app.cli.exit_codes import EXIT_CODES
from leastnoise.app.cli.main import app
from postgres_server import Server
from support import extra

RECIPES = Path(__file__).parents[1] / "docs" / "recipes"
PROGRAM = f"{shlex.quote(sys.executable)} -m leastnoise"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(golden_cli.SPEC)
    Path("people.csv").write_text("age,sex\n" + "3,F\n2,M\n" * 40)
    monkeypatch.setenv("LEASTNOISE", PROGRAM)
    return tmp_path


def sh(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", *words], capture_output=True, text=True, timeout=100)


def leastnoise(line: str) -> Any:
    """A command of a recipe, run here rather than in a process of its own."""
    words = shlex.split(line)
    assert words[0] == "leastnoise"
    return CliRunner().invoke(app, words[1:])


def test_every_recipe_is_on_the_page() -> None:
    page = (RECIPES.parent / "operations.md").read_text("utf-8")
    for path in RECIPES.iterdir():
        assert f"recipes/{path.name}" in page, path.name


def test_the_container_file() -> None:
    text = (RECIPES / "Containerfile").read_text().replace("\\\n", "")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "USER", "WORKDIR", "ENV", "VOLUME", "ENTRYPOINT", "CMD"}
    assert {line[0] for line in lines} <= known and lines[0][0] == "FROM"
    found = dict(lines)
    # A pinned version, and no host: whoever builds it says where images come from.
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim", found["FROM"])
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", found["USER"])
    assert json.loads(found["ENTRYPOINT"]) == ["leastnoise"] and json.loads(found["CMD"]) == ["--help"]
    assert "/publication/ledger" in json.loads(found["VOLUME"])
    order = [line[0] for line in lines]
    assert order.index("RUN") < order.index("USER") < order.index("ENTRYPOINT")


def test_the_units_and_the_crontab() -> None:
    for name in ("leastnoise-nightly.service", "leastnoise-nightly.timer"):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read(RECIPES / name)
        assert "Unit" in unit
        if name.endswith("service"):
            never = {int(code) for code in unit["Service"]["RestartPreventExitStatus"].split()}
            # All but: done, data unavailable, busy, interrupted and a closed pipe.
            assert never == {row.code for row in EXIT_CODES} - {0, 6, 8, 130, 141}
    lines = (RECIPES / "leastnoise.cron").read_text().splitlines()
    (job,) = (line for line in lines if re.match(r"[\d*]", line))
    fields = job.split(maxsplit=6)
    assert all(re.fullmatch(r"\d+|\*", field) for field in fields[:5]) and fields[5] == "publisher"
    # cron takes a bare % for the end of the command.
    assert not re.search(r"(?<!\\)%", job)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    names = ("leastnoise-nightly.service", "leastnoise-nightly.timer")
    for name in names:
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string((RECIPES / name).read_text())
        assert {"Unit", name.rpartition(".")[2].capitalize()} <= set(unit.sections())
        (tmp_path / name).write_text((RECIPES / name).read_text().replace("/srv/town", str(tmp_path)))
    if shutil.which("systemd-analyze") is None:
        return
    words = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line], done.stderr


@pytest.mark.thorough
def test_the_commands_of_airflow_and_dbt_run(folder: Path) -> None:
    tree = ast.parse((RECIPES / "airflow_dag.py").read_text())
    compile(tree, "airflow_dag.py", "exec")
    (commands,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
    )
    made = leastnoise("leastnoise ledger create town.ledger --dataset town --epsilon 3 --delta 1e-6")
    assert made.exit_code == 0
    assert leastnoise(commands["check"]).exit_code == 0
    done = leastnoise(commands["publish"].replace("{{ ds }}", "2026-11-17"))
    assert done.exit_code == 0 and json.loads(done.stdout)["result"]["release_id"] == "2026-11-17"
    sketch = extra("yaml").safe_load((RECIPES / "dbt_exposures.yml").read_text())
    (exposure,) = sketch["exposures"]
    assert exposure["depends_on"] == ["ref('people')"] and sketch["models"][0]["name"] == "people"
    assert leastnoise(exposure["meta"]["publish"]).exit_code == 0


@pytest.mark.thorough
@pytest.mark.xdist_group("engines")
def test_a_night_is_paid_for_once(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = server.url("nightly")
    monkeypatch.setenv("LEDGER", place)
    made = leastnoise(f"leastnoise ledger create '{place}' --dataset town --epsilon 1.2 --delta 1e-6")
    assert made.exit_code == 0, made.stderr
    night = (str(RECIPES / "nightly.sh"), "town.toml", "people.csv", "2026-11-17")
    first = sh(*night)
    assert (first.returncode, first.stdout) == (0, ""), first.stderr
    written = Path("answers-2026-11-17.csv").read_bytes()
    left = json.loads(leastnoise(f"leastnoise ledger show '{place}' --json").stdout)["result"]["left"]
    Path("people.csv").unlink()
    again = sh(*night)
    assert again.returncode == 0, again.stderr
    assert Path("answers-2026-11-17.csv").read_bytes() == written
    shown = json.loads(leastnoise(f"leastnoise ledger show '{place}' --json").stdout)["result"]
    assert shown["left"] == left and len(shown["rows"]) == 1
    steps = [json.loads(line)["step"] for line in Path("publish.jsonl").read_text().splitlines()]
    assert steps.count("charge spent") == 1 and steps.count("command ended") == 2


@pytest.mark.thorough
def test_an_approved_plan_is_measured_and_r_reads_its_answers(folder: Path) -> None:
    designed = json.loads(leastnoise("leastnoise design town.toml --json").stdout)["result"]
    script = (str(RECIPES / "approve.sh"), "town.toml", "town.plan", "people.csv")
    assert sh(*script, designed["approval"]).returncode == 0
    done = leastnoise("leastnoise publish town.toml --data people.csv --dossier dossier --out r.csv --quiet")
    assert done.exit_code == 0, done.stderr
    lines = (RECIPES / "read_answers.R").read_text()
    with open("r.csv", newline="") as file:
        columns = set(next(csv.reader(file)))
    assert set(re.findall(r"(?:answers|ages)\$(\w+)", lines)) - {"is_sure"} <= columns
    for name in re.findall(r'given\[2\], "([^"]+)"', lines):
        assert (folder / "dossier" / name).exists(), name
    assert len(lines.splitlines()) <= 10
    if shutil.which("Rscript") is not None:
        words = ["Rscript", "--vanilla", str(RECIPES / "read_answers.R"), "r.csv", "dossier"]
        read = subprocess.run(
            words, capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"}
        )
        assert read.returncode == 0 and "13 answers" in read.stdout, read.stderr
