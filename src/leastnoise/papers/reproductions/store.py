"""Rows that were already computed, so that a run can be taken up where it stopped.

One file for each reproduction and size, one line of JSON for each finished point. A line counts only
for the same arguments, the same settings and the same source: whoever edits the function computes anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leastnoise.papers.reproductions.reproduction import Point, Setting
from leastnoise.papers.reproductions.rows import Row


@dataclass(frozen=True)
class Finished:
    """What one point gave, how long it took, and on what."""

    rows: tuple[Row, ...]
    seconds: float
    machine: str


class Store:
    """The finished points of one reproduction."""

    def __init__(self, folder: Path, name: str, setting: Setting) -> None:
        self.path = folder / f"{name.replace('/', '--')}.{setting.size}.jsonl"
        self.setting = setting
        self._lines = self._read()

    def find(self, point: Point) -> Finished | None:
        """What the point gave in an earlier run, if it is still true."""
        return self._lines.get(self._key(point))

    def keep(self, point: Point, finished: Finished) -> None:
        """Add a line; a run that is killed while writing it leaves a torn one, which is not read."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "key": self._key(point),
            "seconds": round(finished.seconds, 3),
            "machine": finished.machine,
            "rows": finished.rows,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._lines[line["key"]] = finished  # type: ignore[index]

    def forget(self) -> None:
        """Drop every line."""
        self.path.unlink(missing_ok=True)
        self._lines = {}

    def _key(self, point: Point) -> str:
        """A digest of all that the rows depend on."""
        setting = self.setting
        parts: Sequence[Any] = (
            point.work.__module__,
            point.work.__qualname__,
            sorted(point.arguments.items()),
            setting.data is not None,
            setting.time_limit,
            _source(point.work.__module__),
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _read(self) -> dict[str, Finished]:
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                found[entry["key"]] = Finished(tuple(entry["rows"]), entry["seconds"], entry["machine"])
            except (ValueError, KeyError, TypeError):
                continue
        return found


@cache
def _source(module: str) -> str:
    """A digest of the module's source, and of all that stands in its folder beside it."""
    file = sys.modules[module].__file__
    if file is None:
        return ""
    beside = sorted(Path(file).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in beside)).hexdigest()
