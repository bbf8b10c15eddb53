"""Every page and public name, and the order of the modules. Examples have a file of their own."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import leastnoise
from leastnoise.app.demo import draw_people, write_people
from leastnoise.app.specification import parse_spec
from leastnoise.app.specification.json_schema import json_schema
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.papers.reproductions import printed
from leastnoise.planning import Request, all_methods, plan_by
from leastnoise.planning import method_list as strategies
from leastnoise.privacy import NEIGHBOURS
from leastnoise.query import QUERY_KINDS, query_from_dict
from support import extra

PACKAGE = Path(leastnoise.__file__).parent
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# One thread each: two BLAS threads on a busy machine wait for one another.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}


# ------------------------------------------------------------------ the order of the modules


def layers(package: Path) -> list[str]:
    """The rooms of layers.txt, top first."""
    lines = (package / "layers.txt").read_text(encoding="utf-8").splitlines()
    return [room for line in lines if (room := line.partition("#")[0].strip())]


def room_of(path: Path, package: Path) -> str:
    """The room that a file belongs to: a module, or the whole of a package; "" for the package itself."""
    first = path.relative_to(package).parts[0]
    return "" if first in ("__init__.py", "__main__.py") else first.removesuffix(".py")


# Files that call the papers' room by name, when asked: for a method of theirs, or for a reproduction; and the
# one that imports optional packages, which are others' (tests/test_extras.py).
BY_NAME = ("planning/method_list.py", "app/cli/demo_commands.py", "core/extras.py")

# Values whose `plot()` and `_repr_html_` call the room of reports by name, when asked.
SHOWN = ("planning/plan.py", "release/release.py")


def imported_rooms(path: Path, package: Path) -> Iterator[str]:
    """Every room that a file imports anywhere in it; "" where the package as a whole is imported."""
    by_name = {package / name for name in (*BY_NAME, *SHOWN)}
    parents = [package.name, *path.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # Of "from package import x", x may be a room or a name of the package itself.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == package.name else [base]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "__import__",
            "import_module",
            "importlib.import_module",
        ):
            begins = re.match(r"\(f?'([\w.]+)\.[\w{]", ast.unparse(node).removeprefix(ast.unparse(node.func)))
            made = f"{package.name}.<a name made at run time>"
            # Of a name made at run time, a room that it begins with is known.
            names = [] if path in by_name else [begins[1] if begins and "." in begins[1] else made]
        for name in names:
            top, _, rest = name.partition(".")
            if top == package.name:
                room = rest.partition(".")[0]
                is_module = (package / f"{room}.py").exists() or (package / room / "__init__.py").exists()
                yield room if is_module or room.startswith("<") else ""


def misplaced(package: Path) -> list[str]:
    """What breaks the rule: a module imports only modules above it, and every module is listed."""
    rooms = layers(package)
    rank = {room: place for place, room in enumerate(rooms)}
    files = sorted(package.rglob("*.py"))
    found = {room_of(path, package) for path in files} - {""}
    faults = [f"{room} is not listed" for room in sorted(found - set(rooms))]
    faults += [f"{room} is listed but does not exist" for room in rooms if room not in found]
    # Importing the package runs __init__, which imports rooms down to this place.
    whole = max((rank.get(room, 0) for room in imported_rooms(package / "__init__.py", package)), default=-1)
    for path in files:
        room = room_of(path, package)
        if room not in rank:
            continue
        for other in imported_rooms(path, package):
            place = whole if other == "" else rank.get(other, len(rooms))
            # The last room that __init__ imports may import the package: a circle would fail at once.
            if place > rank[room]:
                faults.append(f"{path.relative_to(package)} imports {other or 'the package'}")
    return faults


@pytest.mark.thorough
def test_modules_import_only_modules_above_them() -> None:
    assert misplaced(PACKAGE) == []


def test_certificate_imports_nothing_from_the_solver() -> None:
    rooms = layers(PACKAGE)
    for file in ("certificate.py", "cell_bound.py", "product_bound.py"):
        assert "solver" not in set(imported_rooms(PACKAGE / "bounds" / file, PACKAGE))
    assert rooms.index("bounds") < rooms.index("solver")


def test_code_that_chooses_noise_cannot_import_code_that_reads_people() -> None:
    rooms = layers(PACKAGE)
    assert rooms.index("planning") < rooms.index("data")


def fake_package(folder: Path, files: dict[str, str]) -> Path:
    """A tiny package with the rooms top, middle (a folder) and bottom, some files replaced."""
    package = folder / "fake"
    (package / "middle").mkdir(parents=True)
    content = {
        "layers.txt": "top\nmiddle  # a folder\nbottom\n",
        "__init__.py": "from fake.middle import part\n",
        "top.py": "import numpy\n",
        "middle/__init__.py": "from fake.middle.part import x\n",
        "middle/part.py": "from fake import top\nfrom .other import y\nx = 1\n",
        "middle/other.py": "from ..top import z\ny = 2\n",
        "bottom.py": "import fake\nfrom fake import version\nfrom . import middle\n",
    }
    for name, text in (content | files).items():
        (package / name).write_text(text, encoding="utf-8")
    return package


def test_a_package_in_order_has_no_faults(tmp_path: Path) -> None:
    assert misplaced(fake_package(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("top.py", "import fake.bottom\n", "top.py imports bottom"),
        ("top.py", "import fake.middle.part as p\n", "top.py imports middle"),
        ("top.py", "from fake import bottom\n", "top.py imports bottom"),
        ("top.py", "from fake.middle.part import x\n", "top.py imports middle"),
        ("top.py", "from . import bottom\n", "top.py imports bottom"),
        ("top.py", "from .middle import part\n", "top.py imports middle"),
        ("top.py", "def f():\n    from fake.bottom import g\n", "top.py imports bottom"),
        (
            "top.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fake.bottom\n",
            "top.py imports bottom",
        ),
        ("top.py", "import fake\n", "top.py imports the package"),
        ("top.py", "from fake import version\n", "top.py imports the package"),
        ("top.py", "import importlib\nimportlib.import_module('fake.bottom')\n", "run time"),
        ("middle/other.py", "from ..bottom import g\n", "other.py imports bottom"),
        ("middle/other.py", "from .. import bottom\n", "other.py imports bottom"),
        ("extra.py", "", "extra is not listed"),
        ("layers.txt", "top\nmiddle\nbottom\ngone\n", "gone is listed but does not exist"),
        ("layers.txt", "middle\ntop\nbottom\n", "part.py imports top"),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, name: str, text: str, fault: str) -> None:
    faults = misplaced(fake_package(tmp_path, {name: text}))
    assert any(fault in found for found in faults), faults


# ------------------------------------------------------------------ secret randomness in one room

SECRET_MODULES = {"random", "secrets", "uuid", "ssl"}
SECRET_NAMES = {"urandom", "getrandom", "SystemRandom", "token_bytes"}


def randomness(source: str) -> list[str]:
    """Where a source draws chance other than from an explicit NumPy generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in SECRET_MODULES]
            found += [a.name for a in node.names if a.name == "numpy.random"]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = {alias.name for alias in node.names}
            if module.partition(".")[0] in SECRET_MODULES or module.startswith("numpy.random"):
                found.append(module)
            if module == "numpy" and "random" in names:
                found.append("numpy.random")
            found += sorted(names & SECRET_NAMES)
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            if node.attr in SECRET_NAMES or re.fullmatch(r"torch\.(rand\w*|normal|bernoulli)", whole):
                found.append(whole)
            if re.fullmatch(r"(np|numpy)\.random\.(?!Generator$|default_rng$)\w+", whole):
                found.append(whole)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng") and not node.args:
            found.append("default_rng() without a seed")
        elif isinstance(node, ast.Constant) and node.value in ("/dev/urandom", "/dev/random"):
            found.append(node.value)
    return found


@pytest.mark.thorough
def test_only_noise_draws_secret_randomness() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        found = randomness(path.read_text(encoding="utf-8"))
        assert found == (["os.urandom"] if path == PACKAGE / "core" / "random_bits.py" else []), path


@pytest.mark.parametrize(
    "planted",
    [
        "import os\nos.urandom(8)",
        "def f():\n    from os import urandom as u",
        "import os as o\no.getrandom(8)",
        "import secrets",
        "import random as r",
        "from random import gauss",
        "from secrets import randbits",
        "import numpy as np\nnp.random.normal(3)",
        "import numpy as np\nrng = np.random.default_rng()",
        "from numpy.random import default_rng",
        "from numpy import random",
        "import numpy.random as r",
        "open('/dev/urandom')",
        "import torch\ntorch.randn(3)",
    ],
)
def test_planted_randomness_is_caught(planted: str) -> None:
    assert randomness(planted)


def test_an_explicit_generator_is_allowed() -> None:
    assert randomness("def f(rng: np.random.Generator):\n    g = rng or np.random.default_rng(0)") == []


# ------------------------------------------------------------------ pages


class Fence(NamedTuple):
    """A block of code on a page."""

    language: str
    line: int
    text: str
    is_run: bool


def fences(page: Path) -> list[Fence]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.M)) % 2 == 0, f"{page.name} leaves a block open"
    found = []
    for match in re.finditer(r"^( *)```(\w+)\n(.*?)^\1```$", text, re.M | re.S):
        before = text[: match.start()].rstrip()
        skipped = re.search(r"<!-- not run: \S[^>]*-->$", before)
        line = text.count("\n", 0, match.start(3))
        found.append(Fence(match[2], line, match[3], skipped is None))
    return found


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Parquet file that pages take for granted."""
    import duckdb

    folder = tmp_path_factory.mktemp("people")
    write_people(draw_people(2_000, np.random.default_rng(3)), folder / "people.csv")
    target = folder / "people.parquet"
    duckdb.read_csv(str(folder / "people.csv")).write_parquet(str(target))
    return target


@pytest.fixture
def own_registers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a page registers is known on that page alone."""
    monkeypatch.setattr(strategies, "_ADDED", dict(strategies._ADDED))
    kinds = dict(QUERY_KINDS)
    yield
    for kind in set(QUERY_KINDS) - set(kinds):
        del QUERY_KINDS[kind]


@pytest.mark.thorough
@pytest.mark.usefixtures("own_registers")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(
    page: Path, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.parquet").write_bytes(people.read_bytes())
    blocks = fences(page)
    namespace: dict[str, object] = {"__name__": page.stem}
    whole_specs = [block.text for block in blocks if block.language == "toml" and is_whole(block.text)]
    for number, block in enumerate(blocks):
        if block.language == "python" and block.is_run:
            printed = run_python(page, block, namespace)
            shown = blocks[number + 1] if number + 1 < len(blocks) else None
            if shown is not None and shown.language == "text" and "…" not in shown.text:
                assert lasting(printed) == lasting(shown.text), f"{page.name}:{shown.line} is out of date"
        elif block.language == "toml":
            check_toml(block.text, whole_specs)
        elif block.language == "sh" and block.is_run:
            run_shell(block.text)
        else:
            assert block.language in ("python", "sh", "text"), f"{page.name}:{block.line}"


def run_python(page: Path, block: Fence, namespace: dict[str, object]) -> str:
    code = compile("\n" * block.line + block.text, str(page), "exec")
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as printed:
        warnings.simplefilter("ignore", UnrecordedSpending)
        exec(code, namespace)
    return printed.getvalue()


def lasting(output: str) -> str:
    """What a run prints on any machine: gaps and steps depend on the last digits of its arithmetic."""
    return re.sub(r"gap [-+\d.e]+|\d+ steps", "", output).strip()


def is_whole(text: str) -> bool:
    return {"schema", "privacy", "query"} <= set(tomllib.loads(text))


def tables(text: str) -> dict[str, str]:
    """The text of each table of a specification, by its name."""
    parts: dict[str, str] = {}
    for part in re.split(r"^(?=\[)", text, flags=re.M):
        if part.startswith("["):
            name = re.split(r"[.\]]", part.lstrip("["))[0]
            parts[name] = parts.get(name, "") + part
    return parts


def check_toml(text: str, whole_specs: list[str]) -> None:
    """Parse a specification; a part of one is put in place of that part of the page's first."""
    if is_whole(text):
        parse_spec(text)
        name = re.match(r"# (\w+\.toml)\n", text)
        assert name is not None, "a whole specification begins with its file name, as # town.toml"
        Path(name[1]).write_text(text, encoding="utf-8")
        return
    part = tables(text)
    assert part, "a part of a specification holds a table"
    if "schema" in part:
        part.setdefault("query", '[[query]]\nkind = "total"\n')
    parse_spec("\n".join((tables(whole_specs[0]) | part).values()))


def run_shell(text: str) -> None:
    """Run the lines that call leastnoise; others (make, pip) are for the reader."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in ("make", "pip"):
            continue
        assert words[0] == "leastnoise", line
        command = [sys.executable, "-c", "from leastnoise.app.cli.main import main; main()", *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
        # `check` has a status of its own where too many records would be left out.
        right = (0, 3) if words[1] == "check" else (0,)
        assert done.returncode in right, f"{line}\n{done.stderr}"


@pytest.mark.thorough
def test_the_checks_of_pages_catch_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: slow -->\n```python\n1 / 0\n```\n\n```python\nx = 1\n```\n", encoding="utf-8"
    )
    assert [(block.line, block.is_run) for block in fences(page)] == [(2, False), (6, True)]
    with pytest.raises(NameError):
        run_python(page, Fence("python", 0, "print(absent)\n", True), {})
    whole = '# a.toml\n[schema]\na = ["x"]\n[privacy]\nmu = 1\n[[query]]\nkind = "total"\n'
    check_toml(whole, [])
    assert (tmp_path / "a.toml").read_text(encoding="utf-8") == whole
    check_toml("[privacy]\nrho = 0.1\n", [whole])
    for wrong in ('[[query]]\nkind = "absent"\n', "[privacy]\nsigma = 1\n", '[schema]\na = "x"\n'):
        with pytest.raises(leastnoise.LeastnoiseError):
            check_toml(wrong, [whole])
    with pytest.raises(AssertionError, match="there is no file"):
        run_shell("leastnoise explain absent.toml")


OUTSIDE = re.compile(
    r"pypi\.org|pythonhosted|npmjs|jsdelivr|unpkg|cdnjs|googleapis|gstatic|mathjax|anaconda\.org|"
    r"(?<![\w.])/(root|home|work)/|<script|<link|<img|!\[[^\]]*\]\(https?:",
    re.I,
)


def test_pages_and_their_configuration_fetch_nothing() -> None:
    assert not re.search(r"https?:|//", (ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    for path in [ROOT / "docs" / "conf.py", ROOT / "CHANGELOG.md", *PAGES, *EXAMPLES]:
        assert not OUTSIDE.search(path.read_text(encoding="utf-8")), path
    for planted in (
        "https://cdn.jsdelivr.net/x.js",
        "see /" + "home/someone/x",
        "![logo](https://x.org/a.png)",
    ):
        assert OUTSIDE.search(planted)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# ------------------------------------------------------------------ names


def test_the_version_stands_in_one_place_and_is_cited() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited is not None and cited[1] == leastnoise.__version__
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_tab_offers_public_names_alone() -> None:
    """`ln.<Tab>` used to offer every room, and names that were only imported."""
    assert dir(leastnoise) == sorted([*leastnoise.__all__, "__version__"])
    assert all(hasattr(leastnoise, name) for name in dir(leastnoise))


def test_the_reference_holds_every_public_name_in_order() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. auto(?:class|function|exception):: leastnoise\.(\w+)$", text, re.M)
    assert shown == leastnoise.__all__
    assert ".. automodule:: leastnoise.core.errors" in text


def modules() -> list[ModuleType]:
    """Every module of the package; the one that needs PyTorch only where that is installed."""
    found = [leastnoise]
    for info in pkgutil.walk_packages(leastnoise.__path__, "leastnoise."):
        try:
            found.append(importlib.import_module(info.name))
        except ModuleNotFoundError as error:
            if error.name != "torch" or os.environ.get("LEASTNOISE_ALL_EXTRAS"):
                raise
    return found


def undocumented(module: ModuleType) -> Iterator[str]:
    """Public names of a module without a docstring; a method may inherit that of what it overrides."""
    if not module.__doc__:
        yield module.__name__
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            # A dataclass without a docstring gets its signature as one.
            if not value.__doc__ or value.__doc__.startswith(f"{name}("):
                yield f"{module.__name__}.{name}"
            for member, found in vars(value).items():
                is_method = inspect.isroutine(found) or hasattr(found, "__get__")
                is_described = any(getattr(vars(base).get(member), "__doc__", None) for base in value.__mro__)
                if is_method and not member.startswith("_") and not is_described:
                    yield f"{module.__name__}.{name}.{member}"
        elif inspect.isfunction(value) and not value.__doc__:
            yield f"{module.__name__}.{name}"


def test_every_public_name_is_known_to_type_checkers() -> None:
    """Names load when they are used, so the imports that a type checker reads are a list of their own."""
    tree = ast.parse(Path(leastnoise.__file__).read_text(encoding="utf-8"))
    read = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(read) == sorted([*leastnoise.__all__, "import_module", "TYPE_CHECKING", "Any"])


def test_every_public_name_has_a_docstring() -> None:
    assert all(inspect.getdoc(getattr(leastnoise, name)) for name in leastnoise.__all__)
    assert [name for module in modules() for name in undocumented(module)] == []


def test_a_missing_docstring_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        '"""A module."""\nfrom dataclasses import dataclass\ndef f(): pass\n'
        '@dataclass\nclass D:\n    x: int\nclass A:\n    """A."""\n    @property\n    def p(self): pass\n'
        'class B(A):\n    """B."""\n    def q(self):\n        """Q."""\nclass C(B):\n    """C."""\n'
        "    def q(self): pass\n"
    )
    (tmp_path / "planted_module.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    planted = importlib.import_module("planted_module")
    monkeypatch.delitem(sys.modules, "planted_module")
    missing = [name.removeprefix("planted_module.") for name in undocumented(planted)]
    assert missing == ["f", "D", "A.p"]


@pytest.mark.thorough
def test_doctests() -> None:
    results = [doctest.testmod(module) for module in modules()]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 10


# ------------------------------------------------------------------ what an import needs

HEAVY = (
    "scipy",
    "pandas",
    "duckdb",
    "typer",
    "rich",
    "torch",
    "polars",
    "pyarrow",
    "sqlglot",
    "altair",
    "jinja2",
)


def run_without(blocked: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter where some packages cannot be imported."""
    guard = (
        "import sys\n"
        "class Guard:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {blocked!r}:\n"
        "            raise ModuleNotFoundError(f'{name} is blocked', name=name)\n"
        "sys.meta_path.insert(0, Guard())\n"
    )
    command = [sys.executable, "-c", guard + code]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)


@pytest.mark.thorough
def test_importing_loads_nothing_heavy() -> None:
    done = run_without((), f"import leastnoise\nprint([m for m in {HEAVY!r} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.thorough
def test_importing_needs_numpy_alone() -> None:
    code = "import leastnoise as ln\nprint(ln.assemble([ln.Prefix('a')], ln.Schema(a=range(5))).shape)"
    done = run_without(HEAVY, code)
    assert done.stdout.strip() == "(5, 5)", done.stderr
    without_numpy = run_without(("numpy",), "import leastnoise; leastnoise.Schema")
    assert "numpy is blocked" in without_numpy.stderr


@pytest.mark.thorough
def test_designing_and_measuring_counts_need_no_engine_and_no_frames() -> None:
    code = (
        "import leastnoise as ln\n"
        "w = ln.assemble([ln.Prefix('a')], ln.Schema(a=range(5)))\n"
        "release = ln.measure(ln.design(w, ln.GDP(1)), [1, 2, 3, 4, 5])\n"
        "assert release.plan.certificate.status == 'optimal'\n"
        "print(len(release.answers), str(ln.summarize(release)).count('95%'))\n"
    )
    done = run_without([module for module in HEAVY if module not in ("scipy", "pyarrow")], code)
    assert done.stdout.strip() == "5 6", done.stderr


def test_there_are_pages() -> None:
    assert {page.stem for page in PAGES} >= {"README", "index", "limits", "mathematics", "reference", "spec"}


@pytest.mark.thorough
def test_the_pictures_of_ideas_are_drawn_from_runs() -> None:
    """Each picture that the script draws is shown on the page, and none is left over."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        pictures = importlib.import_module("pictures")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    names = {picture.__name__ for picture in pictures.PICTURES}
    text = "".join(
        (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("concepts.md", "ratios.md")
    )
    shown = set(re.findall(r"\(pictures/(\w+)\.svg\)", text))
    assert shown == names | {"walk"} == {path.stem for path in (ROOT / "docs/pictures").glob("*.svg")}
    for picture in pictures.PICTURES:
        assert pictures.drawn(picture).startswith("<svg")


def test_the_comparison_on_the_start_page_holds_every_method() -> None:
    text = (ROOT / "docs/index.md").read_text()
    table = text[text.index("method                    total variance") :].split("```")[0]
    named = {line.split(",")[0].split()[0] for line in table.splitlines()[1:]}
    missing = {method.name for method in all_methods()} - named
    assert not missing, "make the table again: leastnoise compare town.toml"


def recipe(heading: str) -> str:
    """The Python code below a heading of CONTRIBUTING."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return str(code)


def run_in(module: str, heading: str) -> dict[str, Any]:
    """The names that a recipe's code defines, where the guide puts it."""
    names = {**vars(importlib.import_module(module)), "np": np, "ln": leastnoise}
    exec(compile(recipe(heading), heading, "exec"), names)
    return names


def test_the_recipe_for_a_query_works() -> None:
    names = run_in("leastnoise.query.queries.one_attribute", "Add a query")
    suffix = leastnoise.assemble([names["Suffix"]("a")], leastnoise.Schema(a=range(3)))
    assert suffix.dense().tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert list(suffix.labels) == ["a >= 0", "a >= 1", "a >= 2"]
    leastnoise.design(suffix, leastnoise.GDP(1))


def test_a_query_class_is_all_that_files_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one line in the list of kinds, plans and specifications know it."""
    suffix = run_in("leastnoise.query.queries.one_attribute", "Add a query")["Suffix"]
    monkeypatch.setitem(QUERY_KINDS, suffix.kind, suffix)
    query = suffix("a", name="n", stderr=3)
    assert query_from_dict(query.to_dict()) == query
    kinds = json_schema()["$defs"]["kind"]["anyOf"]
    (shape,) = (one for one in kinds if one["properties"]["kind"]["const"] == "suffix")
    assert set(shape["required"]) == {"kind"} and {"required": ["attribute"]} in shape["oneOf"]
    text = "[schema]\na = [1, 2]\n[privacy]\nmu = 1\n[[query]]\nkind = 'suffix'\nattribute = 'a'\n"
    spec = parse_spec(text)
    assert isinstance(spec.queries[0], suffix)


def test_the_recipe_for_a_family_works(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec(compile(recipe("Add a strategy family"), "adjacent_sums.py", "exec"), names)
    family = names["ADJACENT_SUMS"]
    schema = leastnoise.Schema(a=range(5), b=("x", "y"))
    workload = leastnoise.assemble([leastnoise.AllRanges("a") * leastnoise.Marginal("b")], schema)
    monkeypatch.setattr(strategies, "METHODS", (*strategies.METHODS, family))
    plan = plan_by(family, Request(workload, leastnoise.GDP(1)))
    best = leastnoise.design(workload, leastnoise.GDP(1)).certificate
    assert plan.certificate.status == "heuristic" and plan.certificate.lower_bound <= best.achieved
    assert best.lower_bound < plan.certificate.achieved < 2 * best.achieved


def test_the_recipe_for_an_engine_works() -> None:
    ibis, polars = extra("ibis"), extra("polars")
    made = run_in("leastnoise.data.engines", "Add a query engine")["ClickHouseTable"]
    people = polars.DataFrame({"sex": ["F", "M", "F"], "age": [1, 2, 3]})
    table = made(ibis.polars.connect({"people": people}).table("people"))
    data = leastnoise.vectorize(table, leastnoise.Schema(sex=("F", "M")))
    assert data.vector().tolist() == [2, 1]


def test_the_recipe_for_a_neighbouring_relation_works(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = run_in("leastnoise.privacy.neighbours", "Add a neighbouring relation")["IN_ONE_CELL"]
    monkeypatch.setitem(NEIGHBOURS, relation, relation)
    workload = leastnoise.assemble([leastnoise.Marginal("a")], leastnoise.Schema(a=range(3)))
    one = leastnoise.design(workload, leastnoise.GDP(1))
    three = leastnoise.design(workload, leastnoise.GDP(1, neighbours="in-one-cell"))
    assert three.stderr == pytest.approx(3 * one.stderr, rel=1e-6)
    assert "up to 3 records, all in one cell" in str(three.privacy)


def test_the_recipe_for_a_chart_works() -> None:
    names = run_in("leastnoise.report.charts.accuracy_charts", "Add a chart")
    queries = [leastnoise.Marginal("a"), leastnoise.Total()]
    workload = leastnoise.assemble(queries, leastnoise.Schema(a=range(3)))
    picture = names["largest_errors"](leastnoise.design(workload, leastnoise.GDP(1))).svg
    assert picture.startswith("<svg") and "total" in picture


def test_the_recipe_for_a_reproduction_works() -> None:
    module = importlib.import_module("leastnoise.papers.reproductions.adaptive.text")
    rows = importlib.import_module("leastnoise.papers.reproductions.rows")
    generators = importlib.import_module("leastnoise.query.generators")
    names = {**vars(generators), **vars(rows), **vars(module), "ln": leastnoise}
    exec(compile(recipe("Add a reproduction"), "text.py", "exec"), names)
    made = names["RANGES"]
    setting = names["Setting"]("quick")
    (entry,) = re.findall(r"```toml\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    page = tomllib.loads(entry)
    known = printed._entry(page[made.name])
    computed = [row for task in made.tasks(setting) for row in task.rows(setting)]
    assert [check.verdict for check in made.judge(known, computed)] == ["reached"]
    assert all(row[made.drawing.x] and row[made.drawing.y] for row in computed)


def test_the_search_ranks_the_guide_before_the_reproductions() -> None:
    """A search for "targets" found tables of the papers first."""
    conf = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    scorer = (ROOT / "docs" / "search_scorer.js").read_text(encoding="utf-8")
    assert 'html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))' in conf
    less = int(re.search(r'startsWith\("reproductions/"\) \? score - (\d+)', scorer)[1])  # type: ignore[index]
    best = max(int(found) for found in re.findall(r"(?:title|term): (\d+)", scorer))
    assert less > best
