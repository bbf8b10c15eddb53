"""A small language for conditions on attributes, parsed and never evaluated as Python.

    age >= 18 and sex == 'F'
    18 <= age < 65 or region in ('North', 'South')
    not (age between 5 and 17)
    `years lived here` > 10

Comparisons are ==, !=, <, <=, >, >= (also = and <>), chained as in mathematics;
`in` and `not in` take a list, `between` includes both ends. Names that are no plain
words stand in backquotes, text in either kind of quotes (doubled inside to mean
itself). A condition is true or false of a value, so it must not cut through a bin:
on bins only < and >= at an edge are possible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import MAX_ENTRIES, Array
from leastnoise.query.schema import Schema, Value

# Nesting beyond this is no condition that a person wrote.
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>==|!=|<>|<=|>=|[=<>(),+-])
    )""",
    re.VERBOSE,
)
_WORDS = {"and", "or", "not", "in", "between"}
_COMPARISONS = {"==": "==", "=": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class ComparisonCondition:
    """An attribute compared with one value."""

    attribute: str
    sign: str
    value: Value

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes mentioned."""
        return frozenset({self.attribute})

    def mask(self, schema: Schema, axes: tuple[str, ...]) -> Array:
        """Which values satisfy it, as booleans broadcastable over the axes."""
        matching = schema[self.attribute].matching(self.attribute, self.sign, self.value)
        return _along(matching, axes, self.attribute)


@dataclass(frozen=True)
class Negation:
    """What does not satisfy a condition."""

    inner: Condition

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes mentioned."""
        return self.inner.attributes

    def mask(self, schema: Schema, axes: tuple[str, ...]) -> Array:
        """Which values satisfy it, as booleans broadcastable over the axes."""
        return ~self.inner.mask(schema, axes)


@dataclass(frozen=True)
class Combination:
    """Several conditions, all of which ("and") or one of which ("or") must hold."""

    word: str
    parts: tuple[Condition, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes mentioned."""
        return frozenset().union(*(part.attributes for part in self.parts))

    def mask(self, schema: Schema, axes: tuple[str, ...]) -> Array:
        """Which values satisfy it, as booleans broadcastable over the axes."""
        join: Callable[[Array, Array], Array] = np.logical_and if self.word == "and" else np.logical_or
        result = self.parts[0].mask(schema, axes)
        for part in self.parts[1:]:
            result = join(result, part.mask(schema, axes))
        return result


Condition = ComparisonCondition | Negation | Combination


def independent_parts(condition: Condition) -> list[Condition]:
    """Conditions on disjoint sets of attributes that must all hold: as many as there are.

    A condition on age and one on sex make a product and never a table of both.
    """
    parts = [condition]
    if isinstance(condition, Combination) and condition.word == "and":
        parts = list(condition.parts)
    merged: list[list[Condition]] = []
    for part in parts:
        touching = [group for group in merged if any(part.attributes & other.attributes for other in group)]
        merged = [group for group in merged if group not in touching]
        merged.append([*(one for group in touching for one in group), part])
    return [group[0] if len(group) == 1 else Combination("and", tuple(group)) for group in merged]


def comparisons(condition: Condition) -> Iterator[ComparisonCondition]:
    """The comparisons of which a condition is made."""
    if isinstance(condition, ComparisonCondition):
        yield condition
    else:
        inner = (condition.inner,) if isinstance(condition, Negation) else condition.parts
        for part in inner:
            yield from comparisons(part)


def holding(condition: Condition, schema: Schema, values: Mapping[str, Array]) -> Array:
    """Whether a condition holds for some combinations of values, from the number of each attribute's value.

    Args:
        values: by the attribute's name; their shapes are broadcast.
    """
    if isinstance(condition, ComparisonCondition):
        matching = schema[condition.attribute].matching(condition.attribute, condition.sign, condition.value)
        return np.asarray(np.asarray(matching)[values[condition.attribute]])
    if isinstance(condition, Negation):
        return np.asarray(~holding(condition.inner, schema, values))
    join = np.logical_and if condition.word == "and" else np.logical_or
    result = holding(condition.parts[0], schema, values)
    for part in condition.parts[1:]:
        result = join(result, holding(part, schema, values))
    return np.asarray(result)


def satisfying(condition: Condition, schema: Schema) -> tuple[tuple[str, ...], Array]:
    """The attributes mentioned, in schema order, and a boolean array over their values.

    Raises:
        QueryError: as `checked_axes`.
    """
    axes = checked_axes(condition, schema)
    return axes, np.broadcast_to(condition.mask(schema, axes), tuple(schema[name].size for name in axes))


def checked_axes(condition: Condition, schema: Schema) -> tuple[str, ...]:
    """The attributes that a condition mentions, in schema order, once it is known to make sense.

    Raises:
        QueryError: for an attribute that the schema does not declare, a value it cannot
            be compared with, or more combinations than are built.
    """
    unknown = condition.attributes - set(schema.names)
    if unknown:
        raise QueryError.unknown("attribute", sorted(unknown)[0], schema.names)
    axes = tuple(name for name in schema if name in condition.attributes)
    shape = tuple(schema[name].size for name in axes)
    if math.prod(shape) > MAX_ENTRIES:
        raise QueryError(
            f"a condition that ties {', '.join(axes)} together needs {math.prod(shape):,} combinations; "
            f"at most {MAX_ENTRIES:,} are built",
            field="condition",
            given=axes,
            remedy="join conditions on different attributes with 'and'",
        )
    for leaf in comparisons(condition):
        schema[leaf.attribute].matching(leaf.attribute, leaf.sign, leaf.value)
    return axes


def condition_to_text(condition: Condition) -> str:
    """The condition as text that `parse` reads back.

    Example:
        >>> condition_to_text(parse("18<=age and not sex='F'"))
        "age >= 18 and not sex == 'F'"
    """
    if isinstance(condition, ComparisonCondition):
        name = condition.attribute
        if not re.fullmatch(r"[^\W\d]\w*", name) or name.lower() in _WORDS:
            name = "`" + name.replace("`", "``") + "`"
        value = condition.value
        shown = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
        return f"{name} {condition.sign} {shown}"
    if isinstance(condition, Negation):
        inner = condition_to_text(condition.inner)
        return f"not ({inner})" if isinstance(condition.inner, Combination) else f"not {inner}"
    return f" {condition.word} ".join(
        f"({condition_to_text(part)})" if isinstance(part, Combination) else condition_to_text(part)
        for part in condition.parts
    )


def parse(text: str) -> Condition:
    """The condition written in a text.

    Raises:
        QueryError: pointing at what was not understood.

    Example:
        >>> parse("age >= 18")
        ComparisonCondition(attribute='age', sign='>=', value=18)
    """
    if not isinstance(text, str):
        raise QueryError.must("condition", "be a text such as 'age >= 18'", given=type(text))
    reader = _ConditionParser(text)
    condition = reader.alternatives(0)
    reader.expect_end()
    return condition


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


class _ConditionParser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[_Token]:
        tokens = []
        position = 0
        while self._text[position:].strip():
            found = _TOKEN.match(self._text, position)
            if found is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                raise self._error(start, "unexpected text")
            kind = str(found.lastgroup)
            word, start = found.group(kind), found.start(kind)
            if kind == "word" and word.lower() in _WORDS:
                kind, word = "keyword", word.lower()
            tokens.append(_Token(kind, word, start))
            position = found.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    def _error(self, position: int, what: str) -> QueryError:
        where = f"{what} at character {position + 1} of the condition"
        return QueryError(f"{where} {self._text!r}", field="condition", given=self._text[position:])

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, kind: str, *texts: str) -> _Token | None:
        token = self._token
        if token.kind != kind or (texts and token.text not in texts):
            return None
        self._next += 1
        return token

    def _need(self, kind: str, text: str) -> None:
        if self._take(kind, text) is None:
            raise self._error(self._token.start, f"{text!r} is expected")

    def expect_end(self) -> None:
        """Return if everything was read."""
        if self._token.kind != "end":
            raise self._error(self._token.start, f"{self._token.text!r} is not expected")

    def alternatives(self, depth: int) -> Condition:
        """Conditions joined by "or"."""
        return self._joined("or", lambda: self._joined("and", lambda: self._single(depth)))

    def _joined(self, word: str, read: Callable[[], Condition]) -> Condition:
        parts = [read()]
        while self._take("keyword", word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Combination(word, tuple(parts))

    def _single(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise self._error(self._token.start, "the condition is nested too deeply")
        if self._take("keyword", "not"):
            return Negation(self._single(depth + 1))
        if self._take("sign", "("):
            inner = self.alternatives(depth + 1)
            self._need("sign", ")")
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        start = self._token.start
        left = self._operand()
        is_negated = self._take("keyword", "not") is not None
        if self._take("keyword", "in"):
            found: Condition = self._membership(self._named(left, start))
            return Negation(found) if is_negated else found
        if self._take("keyword", "between"):
            attribute = self._named(left, start)
            low = self._value()
            self._need("keyword", "and")
            high = self._value()
            ends = (ComparisonCondition(attribute, ">=", low), ComparisonCondition(attribute, "<=", high))
            found = Combination("and", ends)
            return Negation(found) if is_negated else found
        if is_negated:
            raise self._error(self._token.start, "'in' or 'between' is expected")
        return self._chain(left)

    def _chain(self, left: Any) -> Condition:
        """Comparisons such as 18 <= age < 65: each sign between its two neighbours."""
        parts: list[Condition] = []
        while sign := self._take("sign", *_COMPARISONS):
            right_start = self._token.start
            right = self._operand()
            parts.append(self._pair(left, _COMPARISONS[sign.text], right, right_start))
            left = right
        if not parts:
            raise self._error(self._token.start, "a comparison such as >= 18 is expected")
        return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))

    def _pair(self, left: Any, sign: str, right: Any, position: int) -> ComparisonCondition:
        if isinstance(left, _Name) == isinstance(right, _Name):
            raise self._error(position, "an attribute must be compared with a value; rewrite the comparison")
        if isinstance(left, _Name):
            return ComparisonCondition(left.name, sign, right)
        return ComparisonCondition(right.name, _MIRRORED[sign], left)

    def _membership(self, attribute: str) -> Condition:
        self._need("sign", "(")
        values = [self._value()]
        while self._take("sign", ","):
            if self._token.text == ")":
                break
            values.append(self._value())
        self._need("sign", ")")
        parts = tuple(ComparisonCondition(attribute, "==", value) for value in values)
        return parts[0] if len(parts) == 1 else Combination("or", parts)

    def _named(self, operand: Any, position: int) -> str:
        if not isinstance(operand, _Name):
            raise self._error(position, "an attribute is expected")
        return operand.name

    def _operand(self) -> Any:
        if token := self._take("word"):
            return _Name(token.text)
        if token := self._take("quoted"):
            return _Name(token.text[1:-1].replace("``", "`"))
        return self._value()

    def _value(self) -> Value:
        sign = self._take("sign", "-", "+")
        if token := self._take("number"):
            number = _number(token.text)
            return -number if sign is not None and sign.text == "-" else number
        if sign is None and (token := self._take("text")):
            mark = token.text[0]
            return token.text[1:-1].replace(mark * 2, mark)
        raise self._error(self._token.start, "a number or a quoted text is expected")


@dataclass(frozen=True)
class _Name:
    name: str


def _number(text: str) -> int | float:
    plain = text.replace("_", "")
    return int(plain) if plain.isdigit() else float(plain)


def _along(values: Array, axes: tuple[str, ...], attribute: str) -> Array:
    shape = [1] * len(axes)
    shape[axes.index(attribute)] = len(values)
    return values.reshape(shape)
