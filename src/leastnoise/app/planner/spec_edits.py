"""Changes of a specification's text. Comments, blank lines and the order of keys stay as they are.

Every edit gives a new text; whether that is a specification, `parse_spec` says, as for any other file.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from leastnoise.app.specification.toml_text import Lines, key_text, value_text
from leastnoise.core.errors import LeastnoiseError, SpecError
from leastnoise.core.extras import require

# The numbers of a goal, of which a new goal replaces all.
_NUMBERS = ("epsilon", "delta", "rho", "mu")
# The units of periods, finest first.
_UNITS = ("day", "week", "month", "quarter", "year")
# What the planner calls the attribute that it adds to publish monthly.
_MONTH = "month"


def edited(text: str, edit: Mapping[str, Any]) -> str:
    """The text after one edit, such as {"edit": "weight", "table": 0, "weight": 2}.

    Raises:
        SpecError: if there is no such edit, or what it needs is missing.
    """
    kind = edit.get("edit")
    change = _EDITS.get(kind) if isinstance(kind, str) else None
    if change is None:
        raise SpecError.must("edit", f"be one of {', '.join(_EDITS)}", given=kind)
    # Browsers give texts with plain line ends; a file that has others keeps them.
    is_crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    plain = text.replace("\r\n", "\n") if is_crlf else text
    try:
        if kind != "text":
            tomllib.loads(plain)
        after = change(plain, {key: value for key, value in edit.items() if key != "edit"})
        return after.replace("\r\n", "\n").replace("\n", "\r\n") if is_crlf else after
    except LeastnoiseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(
            f"the edit {kind!r} is incomplete or not valid: {error}", field="edit", given=kind
        ) from None


def planner_package(name: str) -> Any:
    """A package of the planner.

    Raises:
        MissingExtraError: if it is not installed.
    """
    return require(name, extra="plan", why="the planner", field="plan")


def _document(text: str) -> Any:
    """The text as a document that keeps its comments."""
    tomlkit = planner_package("tomlkit")
    try:
        return tomlkit.parse(text)
    except ValueError as error:
        raise SpecError(f"fix the text first: {error}", field="toml") from None


def _query(document: Any, number: Any) -> Any:
    queries = document.get("query")
    if not isinstance(queries, list) or type(number) is not int or not 0 <= number < len(queries):
        raise SpecError(f"there is no [[query]] number {number}", field="table", given=number)
    return queries[number]


def _table(document: Any, name: str) -> Any:
    """A table of the document, which is added at its end where there is none."""
    import tomlkit

    if name not in document:
        document.add(tomlkit.nl())
        document.add(name, tomlkit.table())
    return document[name]


def _number(value: Any, name: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SpecError.must(name, "be a number", given=value)
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else float(value)


def _put(table: Any, key: str, value: Any) -> None:
    """Set a key, or leave it out where the value is None."""
    if value is not None:
        table[key] = value
    elif key in table:
        del table[key]


def _whole(text: str, given: Mapping[str, Any]) -> str:
    if not isinstance(given["text"], str) or any("\ud800" <= c <= "\udfff" for c in given["text"]):
        raise SpecError.must("text", "be a text in UTF-8", given=type(given["text"]))
    return str(given["text"])


def _privacy(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    table = _table(document, "privacy")
    numbers = {name: _number(value, name) for name, value in given["numbers"].items() if name in _NUMBERS}
    said = [table[name].trivia.comment for name in _NUMBERS if name in table and name not in numbers]
    for name in _NUMBERS:
        if numbers.get(name) != table.get(name):
            is_new = name in numbers and name not in table
            _put(table, name, numbers.get(name))
            if is_new and said and said[0]:
                # What was said of the number before is said of the one in its place.
                table[name].comment(said.pop(0))
    if "delta" not in numbers:
        _put(table, "calibration", None)
    return str(document.as_string())


def _people(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    table = _table(document, "privacy")
    if "neighbours" in given:
        _put(table, "neighbours", None if given["neighbours"] == "add-remove" else str(given["neighbours"]))
    if "records_per_person" in given:
        k = _number(given["records_per_person"], "records_per_person")
        _put(table, "records_per_person", None if k == 1 else k)
    return str(document.as_string())


def _need(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    _ask(_query(document, given["table"]), given)
    return str(document.as_string())


def _need_all(text: str, given: Mapping[str, Any]) -> str:
    """The same accuracy for all tables, or for all that use an attribute."""
    document = _document(text)
    tables = given["tables"]
    if not isinstance(tables, list) or not tables:
        raise SpecError("no table uses that attribute", field="tables", given=tables)
    for number in tables:
        _ask(_query(document, number), given)
    return str(document.as_string())


def _ask(query: Any, given: Mapping[str, Any]) -> None:
    wanted, level = given["within"], given.get("level", 0.95)
    _put(query, "stderr", None)
    if wanted is None:
        _put(query, "within", None)
        return
    size = str(wanted) if isinstance(wanted, str) else _number(wanted, "within")
    _put(query, "within", [size, _number(level, "level")])


def _example(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    value = given["expected"]
    _put(_query(document, given["table"]), "expected", None if value is None else _number(value, "expected"))
    return str(document.as_string())


def _weight(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    weight = _number(given["weight"], "weight")
    _put(_query(document, given["table"]), "weight", None if weight == 1 else weight)
    return str(document.as_string())


def _drop(text: str, given: Mapping[str, Any]) -> str:
    """The text without one query: its lines, and the comment directly above it."""
    number = given["table"]
    _query(tomllib.loads(text), number)
    places, lines = Lines(text), text.split("\n")
    start = places.of("query", number)
    assert start is not None
    first = _first_of_comment(lines, start - 1)
    after = [at for at in range(start, len(lines)) if lines[at].lstrip().startswith("[")]
    # A table within the query, as [query.left], is part of it.
    ends = [at for at in after if not lines[at].replace(" ", "").replace("[", "").startswith("query.")]
    last = _first_of_comment(lines, ends[0]) if ends else len(lines)
    return "\n".join([*lines[:first], *lines[last:]])


def _first_of_comment(lines: list[str], at: int) -> int:
    """Where the comment begins that stands directly above a line."""
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    return at


def _add(text: str, given: Mapping[str, Any]) -> str:
    attributes = given["attributes"]
    if not isinstance(attributes, list) or not all(isinstance(one, str) for one in attributes):
        raise SpecError.must("attributes", "be a list of names", given=attributes)
    query: dict[str, Any] = (
        {"kind": "marginal", "attributes": attributes} if attributes else {"kind": "total"}
    )
    lines = [f"{key_text(key)} = {value_text(value)}" for key, value in query.items()]
    return "\n".join([text.rstrip("\n"), "", "[[query]]", *lines, ""])


def _coarsen(text: str, given: Mapping[str, Any]) -> str:
    """An attribute with coarser values: numbers in groups, fewer bins, longer periods, a level of regions."""
    name, factor = given["attribute"], given["by"]
    document = _document(text)
    plain = tomllib.loads(text)["schema"].get(name)
    coarse = coarser(plain, factor)
    if coarse is None:
        raise SpecError(f"{name!r} cannot be made coarser", field="attribute", given=name)
    document["schema"][name] = _inline(coarse)
    return str(document.as_string())


def coarser(plain: Any, factor: Any) -> dict[str, Any] | None:
    """An attribute as a file holds it, `factor` values in one; None where that is not known.

    For a hierarchy `factor` is the level, 1 the outermost, whose regions become the values.

    Example:
        >>> coarser({"range": [0, 12]}, 5), coarser({"bins": [0, 1, 2, 3]}, 2)
        ({'bins': [0, 5, 10, 12]}, {'bins': [0, 2, 3]})
        >>> coarser({"periods": ["2026-01", "2026-12"], "by": "month"}, 3)["by"]
        'quarter'
    """
    if type(factor) is not int or factor < 1 or not isinstance(plain, dict):
        return None
    if "hierarchy" in plain:
        return _to_level(plain, factor)
    if factor < 2:
        return None
    kept = {key: value for key, value in plain.items() if key not in ("range", "bins", "periods", "by")}
    if "range" in plain:
        values = range(*plain["range"])
        if values.step != 1 or len(values) < 2:
            return None
        return {"bins": [*values[::factor], values.stop], **kept}
    if "bins" in plain and len(plain["bins"]) > 2:
        edges = plain["bins"]
        chosen = edges[::factor]
        return {"bins": chosen if chosen[-1] == edges[-1] else [*chosen, edges[-1]], **kept}
    unit = plain.get("by")
    if "periods" in plain and unit in _UNITS[:-1]:
        # Periods are given by the dates within them, so that a longer one has the same ends.
        return {"periods": plain["periods"], "by": _UNITS[max(_UNITS.index(unit) + 1, 3)], **kept}
    return None


def _to_level(plain: Mapping[str, Any], level: int) -> dict[str, Any] | None:
    """A hierarchy whose values are the regions of a level; None where it has no more levels than that."""
    tree = plain["hierarchy"]
    if not isinstance(tree, (dict, list)) or level >= depth_of(tree):
        return None
    cut = _cut(tree, level)
    names = set(level_names(tree, level)) | {name for k in range(1, level) for name in level_names(tree, k)}
    labels = {name: text for name, text in plain.get("labels", {}).items() if name in names}
    kept = {key: value for key, value in plain.items() if key not in ("hierarchy", "labels")}
    return {"hierarchy": cut, **kept, **({"labels": labels} if labels else {})}


def _children(tree: Any) -> list[tuple[str, Any]]:
    """The names directly in a tree as a file holds it, each with what is in it; None for a value."""
    if isinstance(tree, dict):
        return [(str(name), inside) for name, inside in tree.items()]
    return [
        pair for one in tree for pair in (_children(one) if isinstance(one, dict) else [(str(one), None)])
    ]


def depth_of(tree: Any) -> int:
    """The levels of a hierarchy as a file holds it; a list of values has one."""
    return 1 + max((depth_of(inside) for _, inside in _children(tree) if inside is not None), default=0)


def level_names(tree: Any, level: int) -> list[str]:
    """The values of a hierarchy that is cut at a level: its regions, and values that end above it."""
    names = []
    for name, inside in _children(tree):
        names += [name] if inside is None or level == 1 else level_names(inside, level - 1)
    return names


def _cut(tree: Any, level: int) -> list[Any]:
    """The tree without what lies below a level."""
    return [
        name if inside is None or level == 1 else {name: _cut(inside, level - 1)}
        for name, inside in _children(tree)
    ]


def _monthly(text: str, given: Mapping[str, Any]) -> str:
    """Publish every table month by month, or by the periods of an attribute that is there already."""
    document = _document(text)
    name = given.get("attribute") or _MONTH
    if name not in document["schema"]:
        periods = [str(given["first"]), str(given["last"])]
        document["schema"][name] = _inline({"periods": periods, "by": "month"})
    for plain, query in zip(tomllib.loads(text)["query"], document["query"], strict=True):
        _by_period(query, plain, name)
    _table(document, "design")["over"] = name
    return str(document.as_string())


def _by_period(query: Any, plain: Mapping[str, Any], name: str) -> None:
    """One query for each period instead of for all of them together."""
    if name in repr(plain.get("attributes", plain.get("attribute", plain))):
        return
    if plain.get("kind") == "total":
        query["kind"], query["attributes"] = "marginal", [name]
    elif plain.get("kind") == "marginal":
        query["attributes"].append(name)
    elif "sql" not in plain and plain.get("kind") != "linear":
        common = ("name", "weight", "stderr", "within", "expected")
        left = {key: value for key, value in plain.items() if key not in common}
        for key in left:
            del query[key]
        query["kind"] = "product"
        query["left"] = _inline(left)
        query["right"] = _inline({"kind": "marginal", "attributes": [name]})


def _all_at_once(text: str, given: Mapping[str, Any]) -> str:
    document = _document(text)
    _put(_table(document, "design"), "over", None)
    if not document["design"]:
        del document["design"]
    return str(document.as_string())


def _inline(plain: Mapping[str, Any]) -> Any:
    import tomlkit

    return tomlkit.parse(f"x = {value_text(plain)}")["x"]


_EDITS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "text": _whole,
    "privacy": _privacy,
    "people": _people,
    "need": _need,
    "need-all": _need_all,
    "example": _example,
    "weight": _weight,
    "drop": _drop,
    "add": _add,
    "coarsen": _coarsen,
    "monthly": _monthly,
    "all-at-once": _all_at_once,
}
EDITS = tuple(_EDITS)
