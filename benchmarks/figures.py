"""The figures of docs/benchmarks.md that take less than a minute each: measured again, and compared.

    OMP_NUM_THREADS=1 python benchmarks/figures.py [--match unions]     measure, and say what differs
    OMP_NUM_THREADS=1 python benchmarks/figures.py --write              measure, and keep it

What is kept is in tests/golden/figures.json: of the table that each command prints, the columns that do not
depend on the speed of the machine. Two values agree if they differ by at most 1e-5 of themselves. A gap may
grow up to the gap that design() asks for, a distance from the dense optimum by 0.01 percentage points.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "tests" / "golden" / "figures.json"

COMMANDS = (
    "solver.py --only p1 --sizes 256 --time-limit 1",
    "scale.py --only cubes --method marginals",
    "scale.py --only product",
    "scale.py --only ordered --match total",
    "scale.py --only pairs",
    "scale.py --only unions",
    "pure.py --sizes 1",
    "pure.py --largest 64",
)

# Columns that name a line, and columns that hold a figure of it; the first of each name is ours.
NAMES = ("problem", "workload", "n", "objective", "queries", "method")
FIGURES = ("value", "gap", "above dense", "bound below")

# Certified optima are found to 1e-6; searches for pure privacy print six digits.
SAME_VALUE = 1e-5
# The gap that design() asks for by default.
ASKED_GAP = 1e-6
# In percent of the dense optimum.
SAME_DISTANCE = 0.01

Figures = dict[str, dict[str, str]]


def measured(command: str) -> Figures:
    """The figures of the table that a command prints, by the names of its lines."""
    words = shlex.split(command)
    run = subprocess.run(
        [sys.executable, str(HERE / words[0]), *words[1:]], capture_output=True, text=True, check=True
    )
    found: Figures = {}
    head: list[str] = []
    for line in run.stdout.splitlines():
        cells = [
            cell.strip()
            for cell in (line.strip("| ").split("|") if line.startswith("|") else re.split("  +", line))
        ]
        if cells[0] in ("problem", "workload"):
            head = cells
        elif head and len(cells) == len(head) and set(cells[0]) != {"-"}:
            said = dict(zip(reversed(head), reversed(cells), strict=True))
            name = ", ".join(said[key] for key in NAMES if key in said)
            found[name] = {key: said[key] for key in FIGURES if said.get(key, "–") != "–"}
    return found


def differences(then: Figures, now: Figures) -> list[str]:
    """What differs, a line each."""
    found = [f"{name}: only {'then' if name in then else 'now'}" for name in then.keys() ^ now.keys()]
    for name in (name for name in then if name in now):
        for key in FIGURES:
            old, new = then[name].get(key), now[name].get(key)
            if old != new and not (old and new and _agrees(key, _number(old), _number(new))):
                found.append(f"{name}: {key} {old} then, {new} now")
    return found


def _number(text: str) -> float:
    return float(text.removesuffix("%").replace(",", ""))


def _agrees(key: str, old: float, new: float) -> bool:
    if key == "gap":
        return new <= max(1.05 * old, ASKED_GAP)
    if key in ("above dense", "bound below"):
        return new <= old + SAME_DISTANCE
    return abs(new - old) <= SAME_VALUE * abs(old)


def main() -> None:
    """Measure, and compare or keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--match", default="", help="only commands that hold this")
    parser.add_argument("--write", action="store_true", help="keep what is measured")
    asked = parser.parse_args()
    kept: dict[str, Figures] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    is_different = False
    for command in (command for command in COMMANDS if asked.match in command):
        started = time.perf_counter()
        now = measured(command)
        print(f"{command}: {len(now)} lines, {time.perf_counter() - started:.0f} s", flush=True)
        found = [] if asked.write else differences(kept.get(command, {}), now)
        for line in found:
            print(f"    {line}", flush=True)
        is_different |= bool(found)
        if asked.write:
            kept[command] = now
            KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    sys.exit(is_different)


if __name__ == "__main__":
    main()
