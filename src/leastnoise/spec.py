"""One TOML file that says what to publish, and the values it stands for.

    [schema]
    age    = { range = [0, 116] }                # 0 to 115
    sex    = ["F", "M"]
    income = { bins = [0, 10000, 20000, 50000] } # [0, 10000), [10000, 20000), …

    [privacy]
    epsilon = 1.0
    delta   = 1e-6       # leave out for pure privacy; or give rho, or mu, alone; "1/3" is exact

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

A query may hold a target, stderr = 50 or within = [100, 0.95]. Where some do, [privacy] may be
left out: the plan then spends the least that meets them.

Kinds are total, marginal, cube, prefix, all-ranges, ranges, levels, sum, where, product
and linear. An attribute may also be a hierarchy, and say what becomes of other values.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leastnoise.errors import InputError, SpecError
from leastnoise.objective import objective_from_dict
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP, goal_from_dict
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
# What a goal may hold besides its numbers, written only where it is not the default.
_FURTHER = {"neighbours": "add-remove", "records_per_person": 1, "calibration": "exact"}
_DESIGN = ("objective", "relative_to", "method", "options", "tol", "time_limit", "backend")


@dataclass(frozen=True, eq=False)
class Spec:
    """What to publish: a schema, queries, a privacy goal, and settings for `design`.

    The goal is None where the queries have targets and the least privacy loss is sought.
    """

    schema: Schema
    queries: tuple[Query, ...]
    privacy: Goal | None
    design: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The queries, assembled."""
        return assemble(self.queries, self.schema)

    def design_settings(self) -> dict[str, Any]:
        """What the [design] table asks, as keyword arguments of `design`."""
        settings = dict(self.design)
        if "objective" in settings:
            settings["objective"] = objective_from_dict(settings)
            settings.pop("relative_to", None)
        return settings

    def to_toml(self) -> str:
        """The specification as text that `parse_spec` reads back."""
        lines = ["[schema]"]
        lines += [f"{_key(name)} = {_toml(value)}" for name, value in self.schema.to_dict().items()]
        goal = {} if self.privacy is None else self.privacy.to_dict()
        lines += ["", "[privacy]"] if goal else []
        for name, value in goal.items():
            if name != "goal" and value != _FURTHER.get(name):
                lines.append(f"{name} = {_toml(value)}")
        for query in self.queries:
            lines += ["", "[[query]]"]
            lines += [f"{_key(name)} = {_toml(value)}" for name, value in query.to_dict().items()]
        settings = {name: value for name, value in self.design.items() if value is not None}
        if settings:
            lines += ["", "[design]"]
            lines += [f"{_key(name)} = {_toml(value)}" for name, value in settings.items()]
        return "\n".join(lines) + "\n"


def load_spec(path: str | Path) -> Spec:
    """The specification in a TOML file.

    Raises:
        SpecError: naming the file, the table and what must hold.
    """
    source = Path(path)
    try:
        # Read up to the limit and not by the size the file claims: a device claims none.
        with source.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(f"there is no file {str(source)!r}") from None
    except OSError as error:
        raise SpecError(f"{str(source)!r} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise SpecError(f"{source.name}: a specification holds at most {MAX_BYTES:,} bytes")
    try:
        # Some editors put a byte order mark first, which TOML does not know.
        return parse_spec(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        is_saved = content.startswith(b"PK")
        hint = "; this is a saved plan or release, for `leastnoise release` or `explain`" if is_saved else ""
        raise SpecError(f"{source.name}: a specification is text in UTF-8{hint}") from None
    except SpecError as error:
        raise SpecError(f"{source.name}: {error}") from None


def parse_spec(text: str) -> Spec:
    """The specification in a TOML text.

    Raises:
        SpecError: saying what must hold.
    """
    try:
        content = tomllib.loads(text)
    except (RecursionError, ValueError) as error:  # a number of 5,000 digits is a plain ValueError
        hint = "; write [[query]] in double brackets before each query" if "('query',)" in str(error) else ""
        raise SpecError(f"this is not TOML: {error}{hint}") from None
    _check_numbers(content)
    try:
        return _read(content)
    except RecursionError:
        raise SpecError("a specification's tables must not be nested that deeply") from None


def _check_numbers(content: dict[str, Any]) -> None:
    """Refuse whole numbers that no float comes near; Python would not even print some of them."""
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            raise SpecError(f"a whole number must lie within ±{sys.float_info.max:.1e}")


def _read(content: dict[str, Any]) -> Spec:
    unknown = sorted(set(content) - {"schema", "privacy", "query", "design"})
    if unknown:
        raise SpecError(f"unknown table {unknown[0]!r}; there are [schema], [privacy], [[query]], [design]")
    for table in ("schema", "privacy"):
        is_left_out = table == "privacy" and table not in content and _has_targets(content)
        if not is_left_out and (not isinstance(content.get(table), dict) or not content[table]):
            raise SpecError(f"a [{table}] table is needed")
    queries = content.get("query")
    if isinstance(queries, dict):
        raise SpecError("queries come in a list: write [[query]] in double brackets before each")
    if not isinstance(queries, list) or not queries or not all(isinstance(q, dict) for q in queries):
        raise SpecError("at least one [[query]] is needed")
    try:
        schema = Schema.from_dict(content["schema"])
    except InputError as error:
        raise SpecError(f"[schema]: {error}") from None
    asked = tuple(_query(number, query, schema) for number, query in enumerate(queries, start=1))
    goal = _goal(content["privacy"]) if "privacy" in content else None
    spec = Spec(schema, asked, goal, _settings(content.get("design", {})))
    if goal is None and spec.design.get("objective", "targets") != "targets":
        raise SpecError(f"a [privacy] table is needed for objective = {spec.design['objective']!r}")
    try:
        spec.workload  # noqa: B018 - assembled once here, so that a name given twice is found at once
    except InputError as error:
        raise SpecError(f"[[query]]: {error}") from None
    return spec


def _has_targets(content: dict[str, Any]) -> bool:
    queries = content.get("query")
    return isinstance(queries, list) and any(
        isinstance(query, dict) and not query.keys().isdisjoint({"stderr", "within"}) for query in queries
    )


def _query(number: int, plain: dict[str, Any], schema: Schema) -> Query:
    try:
        query = query_from_dict(plain)
        query.operator(schema)  # so that a wrong attribute is found here, with the query's number
        return query
    except InputError as error:
        raise SpecError(f"[[query]] number {number}: {error}") from None
    except OverflowError:
        raise SpecError(f"[[query]] number {number}: its matrix holds numbers beyond 64 bits") from None


def _goal(plain: dict[str, Any]) -> Goal:
    goal = _GOALS.get(frozenset(plain) - set(_FURTHER))
    if goal is None:
        raise SpecError(
            "[privacy] must hold epsilon and delta, or epsilon, rho or mu alone (and may hold "
            f"neighbours and records_per_person); it holds {', '.join(map(repr, plain))}"
        )
    for name, value in plain.items():
        if name != "neighbours" and isinstance(value, str) and "/" not in value and name != "calibration":
            raise SpecError(f"[privacy]: {name} must be a number, written without quotes, got {value!r}")
    try:
        return goal_from_dict({"goal": goal.__name__, **plain})
    except InputError as error:
        raise SpecError(f"[privacy]: {error}") from None


def _settings(plain: Any) -> dict[str, Any]:
    """The [design] table; whether a method or a backend of that name exists, `design` says."""
    if not isinstance(plain, dict):
        raise SpecError("[design] must be a table")
    for name, value in plain.items():
        if name not in _DESIGN:
            raise SpecError(f"[design] does not know {name!r}; it may hold {', '.join(_DESIGN)}")
        if name in ("objective", "method", "backend") and not isinstance(value, str):
            raise SpecError(f"[design]: {name} must be a text, got {value!r}")
        if name == "options" and not isinstance(value, dict):
            raise SpecError(f"[design]: options must be a table, as in {{ branching = 4 }}, got {value!r}")
        if name in ("tol", "time_limit"):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf:
                raise SpecError(f"[design]: {name} must be a positive number, got {value!r}")
        if name == "relative_to" and (value != "uniform" or "objective" not in plain):
            raise SpecError(
                '[design]: relative_to must be "uniform", beside an objective = "total-variance"; another '
                "prior is given in Python, to TotalVariance(relative_to=...)"
            )
        if name == "objective":
            try:
                objective_from_dict(plain)
            except InputError as error:
                raise SpecError(f"[design]: {error}") from None
    return plain


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _toml(name)


def _toml(value: Any) -> str:
    """A plain value as inline TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value))  # NumPy's floats are floats, but show themselves as np.float64(…)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    raise SpecError(f"a specification cannot hold {type(value).__name__}")


def _quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise SpecError(f"a specification is text in UTF-8, which cannot hold {text!r}")
    shown = "".join(escapes.get(c) or (c if c >= " " and c != "\x7f" else f"\\u{ord(c):04X}") for c in text)
    return f'"{shown}"'
