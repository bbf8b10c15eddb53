"""Results that were already computed: one JSON file for each task, named by a digest.

The digest is of the arguments, of the settings that matter, and of the source that computes the rows: whoever
edits a function computes anew what it gave, and whoever edits a check computes nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from leastnoise.core.whole_file import written_whole
from leastnoise.papers.reproductions.reproduction import Setting, Task
from leastnoise.papers.reproductions.rows import Row

# The room whose functions a digest follows; the rest of the package has tests of its own.
_ROOM = __name__.rpartition(".reproductions.")[0]


@dataclass(frozen=True)
class TaskResult:
    """What one task gave, how long it took, and on what.

    Attributes:
        is_kept: whether it goes to the cache; what was not run here can be run elsewhere, or later.
    """

    rows: tuple[Row, ...]
    seconds: float
    machine: str
    is_kept: bool = True


def read_result(path: Path) -> TaskResult | None:
    """The result in a file; None where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return TaskResult(tuple(found["rows"]), found["seconds"], found["machine"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_result(path: Path, result: TaskResult) -> None:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"seconds": round(result.seconds, 3), "machine": result.machine, "rows": result.rows}
    with written_whole(path) as new:
        new.write_text(json.dumps(plain, ensure_ascii=False) + "\n", encoding="utf-8")


def key_of(task: Task, setting: Setting) -> str:
    """A digest of all that the rows of a task depend on."""
    parts = (
        task.work.__module__,
        task.work.__qualname__,
        sorted(task.arguments.items()),
        setting.size,
        setting.data is not None,
        setting.time_limit,
        source_digest(task.work),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def source_digest(work: Callable[..., Any]) -> str:
    """A digest of a function's source, and of the functions, classes and constants of the room it uses."""
    sources: dict[Any, str] = {}
    constants: set[str] = set()
    waiting: list[Any] = [work]
    while waiting:
        value = inspect.unwrap(waiting.pop())
        is_ours = isinstance(value, FunctionType | type) and value.__module__.startswith(_ROOM)
        if not is_ours or value in sources:
            continue
        sources[value] = inspect.getsource(value)
        functions = vars(value).values() if isinstance(value, type) else (value,)
        for function in functions:
            if isinstance(function, FunctionType):
                for name in _names(function.__code__):
                    for part in _parts(function.__globals__.get(name)):
                        if callable(part):
                            waiting.append(part)
                        elif isinstance(part, str | int | float) or is_dataclass(part):
                            constants.add(f"{name} = {part!r}")
    return hashlib.sha256("\n".join([*sorted(sources.values()), *sorted(constants)]).encode()).hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function looks up, those of functions within it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _parts(value: Any) -> Iterator[Any]:
    """What a table or a list consists of, or a function with some of its arguments given."""
    if isinstance(value, partial):
        yield from _parts((value.func, value.args, value.keywords))
    elif isinstance(value, Mapping):
        yield from _parts(tuple(value.items()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value
