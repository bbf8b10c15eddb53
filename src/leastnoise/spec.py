"""One TOML file that says what to publish, and the values it stands for.

    [schema]
    age    = { range = [0, 116] }                # 0 to 115
    sex    = ["F", "M"]
    income = { bins = [0, 10000, 20000, 50000] } # [0, 10000), [10000, 20000), …

    [privacy]
    epsilon = 1.0
    delta   = 1e-6       # leave out for pure privacy; or give rho, or mu, alone

    [[query]]
    kind       = "marginal"
    attributes = ["age", "sex"]

    [[query]]
    kind      = "prefix"
    attribute = "age"
    name      = "age distribution"

    [design]             # optional
    method = "auto"
    tol    = 1e-6

Kinds are total, marginal, prefix, all-ranges, ranges, product and linear.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leastnoise.errors import InputError, SpecError
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.queries import Query, query_from_dict
from leastnoise.schema import Schema
from leastnoise.workload import Workload, assemble

MAX_BYTES = 16 * 2**20

_GOALS: dict[frozenset[str], type[Goal]] = {
    frozenset({"epsilon"}): PureDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"rho"}): ZCDP,
    frozenset({"mu"}): GDP,
}
_FOR_WHOM = {"neighbours", "records_per_person"}
_DESIGN = {"method", "options", "tol", "time_limit", "backend"}


@dataclass(frozen=True, eq=False)
class Spec:
    """What to publish: a schema, queries, a privacy goal, and settings for `design`."""

    schema: Schema
    queries: tuple[Query, ...]
    privacy: Goal
    design: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The queries, assembled."""
        return assemble(self.queries, self.schema)

    def to_toml(self) -> str:
        """The specification as text that `parse_spec` reads back."""
        lines = ["[schema]"]
        lines += [f"{_key(name)} = {_toml(value)}" for name, value in self.schema.to_dict().items()]
        lines += ["", "[privacy]"]
        for name, value in self.privacy.to_dict().items():
            if name in ("epsilon", "delta", "rho", "mu", *_FOR_WHOM):
                lines.append(f"{name} = {_toml(value)}")
        for query in self.queries:
            lines += ["", "[[query]]"]
            lines += [f"{_key(name)} = {_toml(value)}" for name, value in query.to_dict().items()]
        if self.design:
            lines += ["", "[design]"]
            lines += [f"{_key(name)} = {_toml(value)}" for name, value in self.design.items()]
        return "\n".join(lines) + "\n"


def load_spec(path: str | Path) -> Spec:
    """The specification in a TOML file.

    Raises:
        SpecError: naming the file, the table and what must hold.
    """
    source = Path(path)
    try:
        if source.stat().st_size > MAX_BYTES:
            raise SpecError(f"{source.name}: a specification holds at most {MAX_BYTES:,} bytes")
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError(f"there is no file {str(source)!r}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{source.name}: a specification is text in UTF-8") from None
    except OSError as error:
        raise SpecError(f"{str(source)!r} cannot be read: {error.strerror}") from None
    try:
        return parse_spec(text)
    except SpecError as error:
        raise SpecError(f"{source.name}: {error}") from None


def parse_spec(text: str) -> Spec:
    """The specification in a TOML text.

    Raises:
        SpecError: saying what must hold.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"this is not TOML: {error}") from None
    unknown = set(content) - {"schema", "privacy", "query", "design"}
    if unknown:
        raise SpecError(
            f"unknown table [{sorted(unknown)[0]}]; there are [schema], [privacy], [[query]], [design]"
        )
    for table in ("schema", "privacy"):
        if not isinstance(content.get(table), dict) or not content[table]:
            raise SpecError(f"a [{table}] table is needed")
    queries = content.get("query")
    if not isinstance(queries, list) or not queries or not all(isinstance(q, dict) for q in queries):
        raise SpecError("at least one [[query]] is needed")
    design = content.get("design", {})
    if not isinstance(design, dict) or set(design) - _DESIGN:
        raise SpecError(f"[design] may hold {', '.join(sorted(_DESIGN))}")
    try:
        schema = Schema.from_dict(content["schema"])
    except InputError as error:
        raise SpecError(f"[schema]: {error}") from None
    asked = tuple(_query(number, query) for number, query in enumerate(queries, start=1))
    spec = Spec(schema, asked, _goal(content["privacy"]), design)
    try:
        spec.workload  # noqa: B018 - assembled once here, so that a wrong attribute is found at once
    except InputError as error:
        raise SpecError(f"[[query]]: {error}") from None
    return spec


def _query(number: int, plain: dict[str, Any]) -> Query:
    try:
        return query_from_dict(plain)
    except InputError as error:
        raise SpecError(f"[[query]] number {number}: {error}") from None


def _goal(plain: dict[str, Any]) -> Goal:
    parameters = frozenset(plain) - _FOR_WHOM
    goal = _GOALS.get(parameters)
    if goal is None:
        raise SpecError(
            "[privacy] must hold epsilon and delta, or epsilon, rho or mu alone (and may hold "
            f"neighbours and records_per_person); it holds {', '.join(sorted(plain)) or 'nothing'}"
        )
    try:
        return goal(**plain)
    except InputError as error:
        raise SpecError(f"[privacy]: {error}") from None


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _toml(name)


def _toml(value: Any) -> str:
    """A plain value as inline TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    raise SpecError(f"a specification cannot hold {type(value).__name__}")


def _quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    shown = "".join(escapes.get(c) or (c if c >= " " and c != "\x7f" else f"\\u{ord(c):04X}") for c in text)
    return f'"{shown}"'
