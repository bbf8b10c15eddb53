"""Optional packages: each is imported in one way, and its error names the extra that installs it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leastnoise.core.errors import MissingExtraError
from leastnoise.core.extras import missing_package, require
from leastnoise.core.remedies import Argument
from leastnoise.data.connections import ENGINES, requirement_of

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "leastnoise"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

# What pip calls a package, where Python calls it otherwise.
DISTRIBUTIONS = {"ibis": "ibis-framework", "vl_convert": "vl-convert-python"}

# Where a missing package has another way round it, or an error of its own is made of it.
OTHER_WAYS = {
    "core/extras.py",
    "core/resources.py",
    "data/addresses.py",
    "data/connections.py",
    "data/text_files.py",
}


def asked() -> list[tuple[str, str, str | None]]:
    """Every package that the sources require: the file, the package and its extra."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in (
                "require",
                "missing_package",
            ):
                continue
            given = {word.arg: word.value for word in node.keywords}
            first, extra = node.args[0], given.get("extra")
            if isinstance(first, ast.Constant) and isinstance(extra, ast.Constant):
                found.append((str(path.relative_to(SOURCES)), first.value, extra.value))
    return found


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=,! ]", one)[0] for one in requirements}


def test_the_extra_that_an_error_names_installs_the_package() -> None:
    core = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    calls = asked()
    assert len(calls) >= 12
    for path, package, extra in calls:
        listed = names_of(core if extra is None else EXTRAS[extra])
        top = package.split(".")[0]
        # Never a room of this package, which would go round the order of the rooms.
        assert DISTRIBUTIONS.get(top, top) in listed and top != "leastnoise", (path, package, extra)
    for engine in ENGINES:
        requirement = requirement_of(engine)
        name, extra = requirement.rstrip("]").split("[")
        assert (name == "leastnoise" and extra in EXTRAS) or (name == "ibis-framework" and extra == engine)


def test_packages_are_imported_in_one_way() -> None:
    """Some 16 places had the same six lines, and messages that named extras in six ways."""
    for path in SOURCES.rglob("*.py"):
        own = path.relative_to(SOURCES).as_posix()
        text = path.read_text("utf-8")
        if own not in OTHER_WAYS:
            assert not re.search(r"except \(?(ImportError|ModuleNotFoundError)", text), own
        if own != "core/extras.py":
            assert "MissingExtraError(" not in text or own in OTHER_WAYS | {
                "core/backend.py",
                "core/errors.py",
                "papers/reproductions/writing.py",
            }, own


def test_an_error_says_what_needs_the_package_and_how_to_install_it() -> None:
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package", extra="plan", why="the planner", field="plan")
    assert str(caught.value) == "the planner needs no_such_package: pip install 'leastnoise[plan]'"
    assert caught.value.field == "plan" and str(caught.value.remedy) == "pip install 'leastnoise[plan]'"
    assert str(missing_package("duckdb", why="this")) == "this needs DuckDB: pip install duckdb"
    other = missing_package("x", requirement="ibis-framework[mysql]", why=Argument("backend", "cuda"))
    assert str(other) == "backend='cuda' needs x: pip install 'ibis-framework[mysql]'" and other.field == "x"
    assert require("json", extra=None, why="this").loads("1") == 1


# What needs each extra, as a script that fails where it is missing.
NEEDED = {
    "polars": "release.to_polars()",
    "excel": "from leastnoise.report import write_answers; write_answers(release, 'x.xlsx')",
    "charts": "release.plot().save('x.png')",
    "torch": "ln.design(workload, goal, backend='torch')",
    "mbi": "release.to_mbi()",
    "plan": "from leastnoise.app.planner.server import serve; serve(Path('x.toml'))",
    "postgres": "ln.Ledger('postgresql://localhost/x?ledger=y', dataset='z', limit=goal)",
}
# What the extras bring; each is hidden, as in an environment of the core alone.
BROUGHT = "polars xlsxwriter openpyxl altair vl_convert torch mbi starlette uvicorn tomlkit psycopg ibis"

SCRIPT = """
import sys, warnings
from pathlib import Path
for name in {hidden!r}.split():
    sys.modules[name] = None
warnings.simplefilter("ignore")
import numpy as np
import leastnoise as ln
schema = ln.Schema(sex=("F", "M"))
workload, goal = ln.assemble([ln.Marginal("sex")], schema), ln.GDP(1)
release = ln.measure(ln.design(workload, goal), np.array([3, 4]))
for extra, line in {needed!r}.items():
    try:
        exec(line)
    except ImportError as error:
        print(extra, "|", type(error).__name__, "|", error)
    else:
        print(extra, "| nothing was missed |")
"""


@pytest.mark.thorough
def test_every_extra_is_named_where_it_is_missing(tmp_path: Path) -> None:
    line: list[Any] = [sys.executable, "-c", SCRIPT.format(hidden=BROUGHT, needed=NEEDED)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=True)
    told = dict(text.split(" | ", 1) for text in done.stdout.splitlines())
    assert set(told) == set(NEEDED), done.stdout
    for extra, text in told.items():
        assert text.startswith("MissingExtraError") and f"pip install 'leastnoise[{extra}]'" in text, text
