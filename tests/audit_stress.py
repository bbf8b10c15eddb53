"""Everything that is checked lightly in every run, at full size: `make audit`.

Prints a table of figures and exits with 1 if any of them is wrong. Each line can be run alone:

    python tests/audit_stress.py power bits

Two processes side by side on two cores took 5 minutes, the fuzzers 4 of them; the ledgers in PostgreSQL come
to as much again. Of 560 kills some 540 land.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

# What a line of the table holds: what was done, how often, what came out, and whether that is right.
Line = tuple[str, str, bool]


def stress(*arguments: str) -> Line:
    """One run of the ledger's own stress test."""
    command = [sys.executable, str(HERE / "ledger_stress.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        return " ".join(arguments), done.stderr.strip()[-200:], False
    found: dict[str, Any] = json.loads(done.stdout)
    is_right = bool(found.pop("right")) and done.returncode == 0
    return f"ledger: {' '.join(arguments)}", ", ".join(f"{k} {v}" for k, v in found.items()), is_right


def shared(*arguments: str) -> Line:
    """The same on a ledger in PostgreSQL, if there is a server and a driver for it."""
    from postgres_server import server_programs

    is_there = server_programs() is not None and importlib.util.find_spec("psycopg") is not None
    if is_there or os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        return stress(*arguments, "--ledger", "start")
    return f"ledger: {' '.join(arguments)}", "NOT RUN: needs a PostgreSQL server and psycopg", True


def power(runs: int = 100) -> list[Line]:
    """How often noise of 0.95 of its scale is noticed, and how often right noise is accused."""
    import pytest

    from leastnoise.report import audit
    from test_audit import plan_named, with_less_noise

    lines = []
    for name in ("dense", "hierarchical", "tables"):
        accused = sum(not audit(plan_named(name)).keeps_its_word for _ in range(runs))
        with pytest.MonkeyPatch.context() as patch:
            with_less_noise(patch)
            noticed = sum(not audit(plan_named(name)).keeps_its_word for _ in range(runs))
        # Twice a rate of 1e-4 in a hundred runs has a chance of 5e-5.
        is_right = noticed >= 0.95 * runs and accused <= 1
        figures = f"noise of 0.95 noticed {noticed} of {runs} times, right noise accused {accused} of {runs}"
        lines.append((f"audit: {name}", figures, is_right))
    return lines


def bits(n: int = 1_000_000) -> list[Line]:
    """Patterns of bits in many releases of the same count from neighbouring tables."""
    from test_audit import bit_patterns

    found = bit_patterns(n)
    told = {name: len(patterns) for name, patterns in found.items()}
    is_right = told["gaussian"] == told["laplace"] == 0 and told["floats"] > 0
    return [(f"bits: {n:,} releases each", f"distinguishing patterns {told}", is_right)]


def fuzz(inputs: int = 100_000) -> list[Line]:
    """The fuzzers, with new inputs in every run."""
    return [
        tried(f"fuzz: {inputs:,} inputs", "test_fuzz.py", LEASTNOISE_FUZZ=str(inputs), LEASTNOISE_EXPLORE="1")
    ]


def bugs() -> list[Line]:
    """The planted bugs, each of which must be noticed."""
    from planted_bugs import BUGS

    return [tried(f"planted bugs: {len(BUGS)}", "test_planted_bugs.py")]


def tried(what: str, *files: str, **environment: str) -> Line:
    """Tests that attack, each of which must be withstood."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *(str(HERE / file) for file in files)],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        env=os.environ | environment,
    )
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    if done.returncode:
        sys.stderr.write(done.stdout[-6000:])
    return what, last, done.returncode == 0


def attacks() -> list[Line]:
    """What an audit from outside once broke, tried again."""
    return [
        tried("wrong labels: permuted, transposed, stale", "test_self_check.py", "test_products.py"),
        tried("overspending by what is summed by cell", "test_same_table.py"),
        tried("two versions of a table in one release", "test_one_version.py"),
        tried("hostile records in CSV files", "test_csv_records.py"),
        tried("ids that fall together, records that swap", "test_person.py"),
        tried("paid and not stored", "test_paid_release.py"),
        tried(
            "odd values, placed one by one",
            "test_odd_values.py",
            "test_engines.py::test_random_odd_values_have_their_cells",
        ),
        tried("formulas and control characters in names", "test_printable.py"),
    ]


def oracle(seconds: int = 120) -> list[Line]:
    """Random releases compared with records counted one by one, new ones in every run."""
    lines = []
    seed = str(time.time_ns() % 2**31)
    for part in "bc":
        asked = ["--seconds", str(seconds // 2), "--part", part, "--seed", seed]
        command = [sys.executable, str(HERE / "oracle.py"), *asked]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
        told = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
        figures = told[-1] if told else done.stderr[-200:]
        lines.append((f"oracle, part {part}", figures, bool(told) and figures.endswith(" 0 wrong")))
    return lines


WORK: dict[str, Callable[[], list[Line]]] = {
    "bugs": bugs,
    "bits": bits,
    "power": power,
    "contend": lambda: [stress("contend", "--processes", "32", "--spends", "200")],
    "kill": lambda: [stress("kill", "--kills", "560")],
    "crowd": lambda: [shared("crowd", "--processes", "32", "--kills", "500")],
    "move": lambda: [shared("move", "--kills", "200")],
    "shared": lambda: [shared("contend", "--processes", "32", "--spends", "50")],
    "flip": lambda: [stress("flip", "--step", "1")],
    "attacks": attacks,
    "oracle": oracle,
    "fuzz": fuzz,
}


def main() -> None:
    is_right = True
    print(f"{'':4} {'what':44} {'seconds':>8}  figures")
    for name in sys.argv[1:] or WORK:
        began = time.monotonic()
        lines = WORK[name]()
        for what, figures, holds in lines:
            is_right = is_right and holds
            seconds = (time.monotonic() - began) / len(lines)
            print(f"{'ok' if holds else 'BAD':4} {what:44} {seconds:8.1f}  {figures}", flush=True)
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
