"""Run notebooks and save what their cells print and show, without Jupyter: python refresh.py NOTEBOOK ...

Every code cell runs in order in one namespace, as a kernel would run it. What it prints becomes a stream, and
the value of its last line is shown as Jupyter shows it: a picture, a table or text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def shown(value: Any) -> dict[str, str]:
    """How a value presents itself, by media type."""
    described = repr(value)
    # An address in memory says nothing to a reader and differs from run to run.
    bundle = {} if " at 0x" in described else {"text/plain": described}
    rich = getattr(value, "_repr_mimebundle_", None)
    if rich is not None:
        offered = rich()
        bundle |= offered[0] if isinstance(offered, tuple) else offered
    for media_type, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        present = getattr(value, method, None)
        text = None if media_type in bundle or present is None else present()
        if text is not None:
            bundle[media_type] = text
    return bundle


def run_cell(source: str, namespace: dict[str, Any], name: str, count: int) -> list[dict[str, Any]]:
    """The outputs of one cell, in the form that notebooks keep them."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            assert isinstance(last, ast.Expr)
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        data = {media_type: _lines(text) for media_type, text in sorted(shown(value).items())}
        result = {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def refreshed(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """A notebook with all outputs made anew."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] == "code":
            count += 1
            outputs = run_cell("".join(cell["source"]), namespace, f"{name}, cell {number}", count)
            cell = cell | {"execution_count": count, "outputs": outputs}
        cells.append(cell)
    return notebook | {"cells": cells}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Refresh the notebooks that were named."""
    for path in map(Path, sys.argv[1:]):
        notebook = refreshed(json.loads(path.read_text(encoding="utf-8")), path.name)
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
