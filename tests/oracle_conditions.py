"""Conditions as the oracle describes them: drawn, written in two languages, and judged record by record.

A condition is one of

    ("is", place, sign, value)     the attribute at this place of the schema, compared with a value
    ("not", condition)
    ("and", [conditions]), ("or", [conditions])

`read_condition` reads the words that a release publishes, by the rules of docs/queries.md.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import Any

from oracle_attributes import Attribute

Condition = tuple[Any, ...]
Cell = tuple[int, ...]

MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def is_true(condition: Condition, attributes: Sequence[Attribute], cell: Cell) -> bool:
    """Whether a record of this cell satisfies it."""
    word = condition[0]
    if word == "is":
        _, place, sign, value = condition
        return attributes[place].holds(cell[place], sign, value)
    if word == "not":
        return not is_true(condition[1], attributes, cell)
    each = (is_true(part, attributes, cell) for part in condition[1])
    return all(each) if word == "and" else any(each)


def places_of(condition: Condition) -> set[int]:
    """Where the attributes stand that it mentions."""
    if condition[0] == "is":
        return {condition[1]}
    inner = [condition[1]] if condition[0] == "not" else condition[1]
    return set().union(*map(places_of, inner))


# -------------------------------------------------------------------------------- drawing


def drawn_condition(
    rng: random.Random, attributes: Sequence[Attribute], places: Sequence[int], depth: int = 0
) -> Condition:
    """A condition that mentions these places and no others, each at least once."""
    if len(places) > 1:
        cut = rng.randint(1, len(places) - 1)
        parts = [drawn_condition(rng, attributes, some, depth + 1) for some in (places[:cut], places[cut:])]
        found: Condition = (rng.choice(["and", "and", "or"]), parts)
    elif depth < 3 and rng.random() < 0.25:
        parts = [drawn_condition(rng, attributes, places, depth + 1) for _ in range(rng.randint(2, 3))]
        found = (rng.choice(["and", "or"]), parts)
    else:
        found = _comparison(rng, attributes[places[0]], places[0])
    return ("not", found) if rng.random() < 0.15 else found


def _comparison(rng: random.Random, attribute: Attribute, place: int) -> Condition:
    if attribute.other is not None and rng.random() < 0.2:
        return ("is", place, rng.choice(["==", "!="]), attribute.other)
    if attribute.kind == "bins":
        finite = [edge for edge in attribute.edges if abs(edge) < math.inf]
        if finite:
            return ("is", place, rng.choice(["<", ">="]), rng.choice(finite))
        return ("is", place, "<", 0) if attribute.other is None else ("is", place, "!=", attribute.other)
    value = rng.choice(attribute.values)
    if attribute.kind == "hierarchy":
        regions = [name for path in attribute.paths for name in path[:-1]]
        return ("is", place, rng.choice(["==", "!="]), rng.choice([value, *regions]))
    if attribute.is_number:
        return ("is", place, rng.choice(list(MIRRORED)), value)
    return ("is", place, rng.choice(["==", "!="]), value)


# -------------------------------------------------------------------------------- writing


def in_words(condition: Condition, attributes: Sequence[Attribute], rng: random.Random) -> str:
    """The condition in the library's own language, in one of the ways that it may be written."""
    word = condition[0]
    if word == "is":
        _, place, sign, value = condition
        name = attributes[place].name
        is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in _KEYWORDS
        shown = name if is_plain and rng.random() < 0.8 else "`" + name.replace("`", "``") + "`"
        written = _value(value, rng)
        if sign == "==" and rng.random() < 0.2:
            return f"{shown} in ({written}, {written})"
        if sign == "!=" and rng.random() < 0.2:
            return f"{shown} not in ({written})"
        if rng.random() < 0.15:
            return f"{written} {MIRRORED[sign]} {shown}"
        sign = {"==": rng.choice(["==", "="]), "!=": rng.choice(["!=", "<>"])}.get(sign, sign)
        return f"{shown} {sign} {written}"
    if word == "not":
        return f"not ({in_words(condition[1], attributes, rng)})"
    parts = [in_words(part, attributes, rng) for part in condition[1]]
    return f" {word} ".join(f"({part})" for part in parts)


def in_sql(condition: Condition, attributes: Sequence[Attribute]) -> str:
    """The condition in SQL."""
    word = condition[0]
    if word == "is":
        _, place, sign, value = condition
        shown = {"==": "=", "!=": "<>"}.get(sign, sign)
        return f"{sql_name(attributes[place].name)} {shown} {sql_value(value)}"
    if word == "not":
        return f"NOT ({in_sql(condition[1], attributes)})"
    return f" {word.upper()} ".join(f"({in_sql(part, attributes)})" for part in condition[1])


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_value(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _value(value: Any, rng: random.Random) -> str:
    if isinstance(value, str):
        mark = rng.choice("'\"")
        return mark + value.replace(mark, mark * 2) + mark
    return repr(value)


# -------------------------------------------------------------------------------- reading

_KEYWORDS = {"and", "or", "not", "in", "between"}
_PIECE = re.compile(
    r"\s*(?:(?P<value>-?\d[\d.]*(?:e[+-]?\d+)?|'(?:[^']|'')*')|(?P<sign>==|!=|<=|>=|<|>)|(?P<mark>[()])"
    r"|`(?P<quoted>(?:[^`]|``)*)`|(?P<word>[^\W\d]\w*))"
)


def read_condition(words: str, places: dict[str, int]) -> Condition | None:
    """The condition that published words state; None where they state none.

    Args:
        places: where each attribute stands, by its name.
    """
    pieces: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        found = _PIECE.match(words, at)
        if found is None:
            return None
        kind = str(found.lastgroup)
        text = found[kind]
        if kind == "word" and text in ("and", "or", "not"):
            kind = "joint"
        pieces.append((kind, text))
        at = found.end()
    try:
        condition, rest = _any_of(pieces, places)
    except (IndexError, KeyError, ValueError):
        return None
    return None if rest else condition


Pieces = list[tuple[str, str]]


def _any_of(pieces: Pieces, places: dict[str, int]) -> tuple[Condition, Pieces]:
    return _chain(pieces, places, "or", lambda p: _chain(p, places, "and", lambda q: _single(q, places)))


def _chain(pieces: Pieces, places: dict[str, int], word: str, read: Any) -> tuple[Condition, Pieces]:
    parts = []
    while True:
        part, pieces = read(pieces)
        parts.append(part)
        if not pieces or pieces[0] != ("joint", word):
            return (parts[0] if len(parts) == 1 else (word, parts)), pieces
        pieces = pieces[1:]


def _single(pieces: Pieces, places: dict[str, int]) -> tuple[Condition, Pieces]:
    kind, text = pieces[0]
    if (kind, text) == ("joint", "not"):
        inner, rest = _single(pieces[1:], places)
        return ("not", inner), rest
    if (kind, text) == ("mark", "("):
        inner, rest = _any_of(pieces[1:], places)
        if rest[0] != ("mark", ")"):
            raise ValueError
        return inner, rest[1:]
    if kind not in ("word", "quoted"):
        raise ValueError
    name = text.replace("``", "`") if kind == "quoted" else text
    (sign_kind, sign), (value_kind, value) = pieces[1], pieces[2]
    if sign_kind != "sign" or value_kind != "value":
        raise ValueError
    read: Any = value[1:-1].replace("''", "'") if value[0] == "'" else float(value)
    return ("is", places[name], sign, read), pieces[3:]
