"""Plans kept between commands: used once they are checked, and only for the request they were made for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise
from leastnoise.app.cli import plan_cache
from leastnoise.app.cli.main import app
from leastnoise.app.cli.plan_cache import MAX_PLANS, PLACE, cache_folder, request_digest
from leastnoise.app.specification import parse_spec

SPEC = """
[schema]
age = { range = [0, 3] }
sex = ["F", "M"]

[privacy]
epsilon = 1.0
delta   = 1e-6

[[query]]
kind       = "marginal"
attributes = ["age", "sex"]

[design]
method = "dense"
"""
DESIGNED = "designed in"
KEPT = "using the plan designed at"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a specification and a table; its folder of plans is not there yet."""
    monkeypatch.setenv(PLACE, str(tmp_path / "cache" / "plans"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "people.csv").write_text("age,sex\n" + "1,F\n2,M\n" * 400)
    return tmp_path


def run(line: str) -> Any:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    return result


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "plans").iterdir())


@pytest.mark.parametrize("first", ["design spec.toml", "explain spec.toml"])
def test_publish_uses_the_plan_that_was_made_before(
    first: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was explained was designed again, for minutes, and might have been another plan."""
    calls: list[object] = []
    design = leastnoise.design
    monkeypatch.setattr(leastnoise, "design", lambda *a, **k: calls.append(a) or design(*a, **k))
    assert DESIGNED in run(first).stderr
    said = run("publish spec.toml --data people.csv").stderr
    assert KEPT in said and DESIGNED not in said
    assert len(calls) == 1
    assert (
        leastnoise.load_release("spec-answers.release").plan.digest
        == leastnoise.load_plan(kept(folder)[0]).digest
    )
    assert (folder / "cache" / "plans").stat().st_mode & 0o777 == 0o700


def test_the_cache_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DESIGNED in run("design spec.toml --no-cache").stderr
    assert not (folder / "cache").exists()
    run("design spec.toml --force")
    assert DESIGNED in run("design spec.toml --force --no-cache").stderr
    monkeypatch.setenv(PLACE, "off")
    assert DESIGNED in run("design spec.toml --force").stderr
    assert cache_folder() is None


CHANGES = {
    "epsilon": ("1.0", "1.5"),
    "delta": ("1e-6", "1e-7"),
    "records": ("[[query]]", "records_per_person = 2\n[[query]]"),
    "neighbours": ("[[query]]", 'neighbours = "replace-one"\n[[query]]'),
    "schema": ('"M"]', '"M", "X"]'),
    "policy": ("[0, 3] }", '[0, 3], outside = "clamp" }'),
    "query": ('["age", "sex"]', '["age"]'),
    "target": ('["age", "sex"]', '["age", "sex"]\nstderr = 50'),
    "weight": ('["age", "sex"]', '["age", "sex"]\nweight = 2'),
    "method": ('"dense"', '"identity"'),
    "tol": ('"dense"', '"dense"\ntol = 1e-3'),
    "objective": ('"dense"', '"dense"\nobjective = "max-variance"'),
    "backend": ('"dense"', '"dense"\nbackend = "torch"'),
}


def test_every_part_of_a_request_has_its_own_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [SPEC, *(SPEC.replace(old, new, 1) for old, new in CHANGES.values())]
    digests = [request_digest(parse_spec(text), None) for text in texts]
    digests.append(request_digest(parse_spec(SPEC), 5.0))
    monkeypatch.setattr(leastnoise, "__version__", "0.0.0")
    digests.append(request_digest(parse_spec(SPEC), None))
    assert len(set(digests)) == len(CHANGES) + 3


@pytest.mark.parametrize("what", [name for name in CHANGES if name != "backend"])
def test_a_plan_of_another_request_is_not_used_whatever_its_name(what: str, folder: Path) -> None:
    """A plan with ten times the budget under the right name would be measured."""
    run("design spec.toml")
    right = kept(folder)[0]
    (folder / "other.toml").write_text(SPEC.replace(*CHANGES[what], 1))
    run("design other.toml --no-cache --out other.plan")
    shutil.copy("other.plan", right)
    said = run("design spec.toml --force").stderr
    assert "is not used" in said and DESIGNED in said
    assert leastnoise.load_plan("spec.plan").privacy == leastnoise.ApproxDP(epsilon=1.0, delta=1e-6)


def test_a_damaged_plan_is_not_used(folder: Path) -> None:
    run("design spec.toml")
    path = kept(folder)[0]
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"nonsense", whole.replace(b"head", b"haed")):
        path.write_bytes(content)
        said = run("design spec.toml --force").stderr
        assert "is not used" in said and DESIGNED in said
    assert KEPT in run("design spec.toml --force").stderr


def test_a_link_in_the_place_of_a_plan_is_not_followed(folder: Path) -> None:
    run("design spec.toml")
    path = kept(folder)[0]
    path.rename(folder / "elsewhere.plan")
    path.symlink_to(folder / "elsewhere.plan")
    assert DESIGNED in run("design spec.toml --force").stderr


def test_a_plan_without_a_time_limit_serves_within_any(folder: Path) -> None:
    run("design spec.toml")
    assert KEPT in run("design spec.toml --force --time-limit 9").stderr
    assert DESIGNED in run("design spec.toml --force --time-limit 9 --no-cache").stderr


def test_where_nothing_can_be_kept_the_command_goes_on(folder: Path) -> None:
    (folder / "cache").write_text("a file where the folder would be")
    said = run("design spec.toml").stderr
    assert "not kept" in said and DESIGNED in said


def test_rights_that_are_too_wide_are_narrowed(folder: Path) -> None:
    (folder / "cache" / "plans").mkdir(parents=True, mode=0o777)
    os.chmod(folder / "cache" / "plans", 0o777)
    run("design spec.toml")
    assert (folder / "cache" / "plans").stat().st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("design spec.toml")
    monkeypatch.setattr(plan_cache.os, "getuid", lambda: os.stat(folder).st_uid + 1)
    said = run("design spec.toml --force").stderr
    assert "not a folder of yours" in said and DESIGNED in said


def test_the_oldest_plans_are_removed_and_nothing_else(folder: Path) -> None:
    plans = folder / "cache" / "plans"
    plans.mkdir(parents=True)
    for number in range(MAX_PLANS + 3):
        path = plans / f"{number:064x}.plan"
        path.write_text("old")
        os.utime(path, (number + 1, number + 1))
    (plans / "mine.plan").write_text("of the user")
    run("design spec.toml")
    left = {path.name for path in kept(folder)}
    assert len(left) == MAX_PLANS + 1 and "mine.plan" in left
    assert f"{3:064x}.plan" not in left and f"{4:064x}.plan" in left


def test_the_folder_is_that_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACE)
    monkeypatch.setenv("HOME", "/ada")
    monkeypatch.setenv("LOCALAPPDATA", "/profile")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    found = {}
    for platform in ("linux", "darwin", "win32"):
        monkeypatch.setattr(plan_cache.sys, "platform", platform)
        found[platform] = str(cache_folder())
    assert found == {
        "linux": "/ada/.cache/leastnoise/plans",
        "darwin": "/ada/Library/Caches/leastnoise/plans",
        "win32": "/profile/leastnoise/plans",
    }
