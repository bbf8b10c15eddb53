"""The ledger under many processes, kill -9 and flipped bytes; `make audit` runs the same at full size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("ledger_stress.py")


def run(*arguments: str | int) -> dict[str, Any]:
    """One run in a process of its own, which forks: not in this one, which may have threads."""
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == found["right"]
    return found


@pytest.mark.thorough
def test_processes_spend_exactly_the_limit() -> None:
    found = run("contend", "--processes", 4, "--spends", 25)
    assert found["right"], found
    assert (found["passed"], found["refused"]) == (100, 20)
    assert (found["overspent"], found["lost"], found["unasked"]) == (0, 0, 0)


@pytest.mark.thorough
def test_killed_processes_leave_nothing_unpaid() -> None:
    found = run("kill", "--kills", 24)
    assert found["right"], found
    assert found["killed"] >= 12
    # Every step in turn is a place to be killed at, so each of these is reached.
    assert set(found["states"]) == {"nothing spent", "spent", "stored", "handed out"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("order", "fault"),
    [("pays_afterwards", "unpaid"), ("stores_afterwards", "unstored"), ("repeats_noise", "repeated")],
)
def test_planted_twins_are_caught(order: str, fault: str) -> None:
    found = run("kill", "--kills", 12, "--order", order)
    assert not found["right"]
    assert found[fault] > 0


@pytest.mark.thorough
def test_a_flipped_byte_is_refused_or_without_effect() -> None:
    found = run("flip", "--step", 97)
    assert found["right"], found
    assert found["detected"] > 50
    assert found["harmless"] > 50


@pytest.mark.thorough
def test_a_file_that_may_not_be_written_to_is_found_out_before_data_is_read() -> None:
    found = run("without-rights")
    assert found["right"], found
    for kind in ("file", "folder"):
        for step in ("check", "spend"):
            assert "is read-only for this user. Nothing was spent" in found[kind][step]
