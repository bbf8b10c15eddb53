"""macOS and Windows, as far as Linux can act them: modules and calls of POSIX are hidden."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "leastnoise"

# Modules and calls that Windows has not. macOS has all of them but sched_getaffinity.
HIDDEN = """
import os, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "syslog"):
    sys.modules[name] = None
for name in ("fork", "getuid", "geteuid", "getgid", "sched_getaffinity", "getpgid", "killpg", "sysconf"):
    if hasattr(os, name):
        delattr(os, name)
"""

EVERY_MODULE = """
import importlib, pkgutil
import leastnoise
failed = []
for found in pkgutil.walk_packages(leastnoise.__path__, "leastnoise."):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except leastnoise.LeastnoiseError:
        pass  # an optional package
    except ModuleNotFoundError as error:
        if error.name in {posix!r}:
            failed.append((found.name, str(error)))
print("failed", failed)
"""

# Neither posix, so that what is done there alone is left out, nor nt, which pathlib takes at its word.
A_WALK = """
import numpy, pandas, sqlite3, tempfile, warnings
import leastnoise as ln
from leastnoise.app.cli import plan_cache
os.name = "elsewhere"
schema = ln.Schema(sex=("F", "M"), age=range(4))
plan = ln.design(ln.assemble([ln.Marginal("sex", "age")], schema), ln.GDP(1), time_limit=20)
plan.save("a.plan")
ledger = ln.Ledger("a.db", dataset="people", limit=ln.GDP(2))
people = pandas.DataFrame({"sex": ["F", "M"] * 5, "age": [0, 1, 2, 3, 0] * 2})
people.to_csv("people.csv", index=False)
release = ln.measure(ln.load_plan("a.plan"), "people.csv", ledger=ledger, release_id="one")
release.save("a.release")
again = ln.measure(plan, "people.csv", ledger=ln.Ledger("a.db"), release_id="one")
assert (again.answers == release.answers).all() and len(ln.Ledger("a.db").entries) == 1
ln.summarize(ln.load_release("a.release")).to_html("a.html")
os.environ.pop("LEASTNOISE_PLAN_CACHE", None)
sys.platform, os.environ["LOCALAPPDATA"] = "win32", os.getcwd()
print("kept in", plan_cache.cache_folder())
"""


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + script], capture_output=True, text=True, cwd=folder, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_every_module_is_imported_without_modules_of_posix(tmp_path: Path) -> None:
    posix = ("fcntl", "resource", "termios", "pwd", "grp", "pty", "syslog")
    assert run(EVERY_MODULE.replace("{posix!r}", repr(posix)), tmp_path).strip().endswith("failed []")


@pytest.mark.thorough
def test_a_walk_without_calls_of_posix(tmp_path: Path) -> None:
    out = run(A_WALK, tmp_path)
    assert str(tmp_path) in out and {"a.plan", "a.db", "a.release", "a.html"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_calls_of_posix_are_asked_for_first() -> None:
    """Each is beside a question whether the system has it."""
    asks = re.compile(r"os\.name|hasattr\(os|sys\.platform|except (\(?OSError|AttributeError)")
    calls = r"os\.(gete?uid|fork|sched_\w+|getpgid|killpg|sysconf)\("
    posix = re.compile(rf"{calls}|\bimport (fcntl|resource|pwd)\b")
    for path in SOURCES.rglob("*.py"):
        text = path.read_text("utf-8")
        if posix.search(text):
            assert asks.search(text), path


def test_text_files_name_their_encoding() -> None:
    """Windows reads and writes text in a code page unless told otherwise."""
    opens = re.compile(r"(?<![\w.])open\([^()]*\)|\.(?:open|read_text|write_text)\((?:[^()]|\([^()]*\))*\)")
    binary = re.compile(r"[\"'][rwax]\+?b\+?[\"']|[\"'][rwa]b")
    for path in SOURCES.rglob("*.py"):
        for found in opens.findall(path.read_text("utf-8")):
            if found.startswith((".read_text", ".write_text", "open(")) and not binary.search(found):
                assert re.search(r"encoding=|utf-8|rule\.clean", found), f"{path}: {found}"
