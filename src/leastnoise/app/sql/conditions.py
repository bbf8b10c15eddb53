"""Positions in a text of SQL, and its conditions: WHERE, FILTER and CASE."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlglot import exp

from leastnoise.app.sql.calendar_calls import calendar_call, date_constant, groups_of_call, is_satisfied
from leastnoise.core.errors import InputError, SqlError
from leastnoise.query import (
    MAX_DEPTH,
    Bins,
    Combination,
    ComparisonCondition,
    Condition,
    Integers,
    Negation,
    Periods,
    Schema,
    Value,
)


class Text:
    """A text of SQL, for errors that name a line and column in it."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def error(self, node: Any, message: str, remedy: str | None = None) -> SqlError:
        """The refusal of a parsed expression, with the line and column where it begins."""
        place = self.place(node)
        where = "" if place is None else f"{place}: "
        return SqlError(f"{where}{message}", field="sql", given=self.shown(node), remedy=remedy)

    def place(self, node: Any) -> str | None:
        """The line and column where a parsed expression begins, if that is known."""
        while node is not None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            if starts:
                return self.place_at(min(starts))
            node = node.parent  # NULL and a few others have no place of their own
        return None

    def place_at(self, start: int) -> str:
        """The line and column of a character of the text."""
        line = self.sql.count("\n", 0, start) + 1
        return f"line {line}, column {start - self.sql.rfind(chr(10), 0, start)}"

    def shown(self, node: Any) -> str:
        """An expression as it is written in the text, cut to fit in a message."""
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return "this expression"
        first, last = min(place["start"] for place in places), max(place["end"] for place in places)
        words = " ".join(self.sql[first : last + 1].split())
        # sqlglot gives closing parentheses no position: COUNT(*) ends at the star.
        words += ")" * (words.count("(") - words.count(")"))
        return words if len(words) <= 60 else f"{words[:57]}…"


# More than any list of municipalities; each costs a pass over its attribute.
MAX_COMPARISONS = 10_000
# A number longer than this is none that a table holds, and Python would not read some of them.
_MAX_DIGITS = 300

_SIGNS = {exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONDITIONS = (*_SIGNS, exp.In, exp.Between, exp.And, exp.Or, exp.Not)
_SUBQUERY = ("subqueries are not supported", "compare attributes with constants")
_PATTERNS = (exp.Like, exp.ILike, exp.SimilarTo, exp.RegexpLike, exp.RegexpFullMatch, exp.Glob)


@dataclass(frozen=True)
class Buckets:
    """Groups made by conditions that exclude each other: the branches of a CASE.

    Attributes:
        branches: the label of each group and its condition; every record is in exactly one.
        title: what the expression is called in SELECT, or None.
    """

    branches: tuple[tuple[str, Condition], ...]
    title: str | None = field(default=None, compare=False)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes in the conditions."""
        return frozenset().union(*(condition.attributes for _, condition in self.branches))


class Conditions:
    """Reads the conditions of one text over one schema."""

    def __init__(self, text: Text, schema: Schema) -> None:
        self._text = text
        self._schema = schema
        self._n_comparisons = 0

    def only(self, node: Any, *known: str) -> None:
        """Refuse a node with parts other than these, which would be ignored otherwise."""
        for key, value in node.args.items():
            if value and key not in known:
                raise self._text.error(
                    node, f"{self._text.shown(node)!r} is not supported here", f"leave {key} out"
                )

    def attribute(self, column: Any, tables: Iterable[str] = ()) -> str:
        """The attribute that a column names; case does not matter unless the name is quoted."""
        self.only(column, "this", "table")
        identifier, table = column.this, column.args.get("table")
        if isinstance(identifier, exp.Star):
            raise self._text.error(column, "* stands for all columns", "name those that are grouped by")
        if table is not None and table.name.lower() not in {name.lower() for name in tables}:
            raise self._text.error(column, f"{table.name!r} is not the table asked about", "leave it out")
        name: str = identifier.name
        if name in self._schema:
            return name
        alike = [known for known in self._schema if known.lower() == name.lower()]
        if len(alike) == 1 and not identifier.args.get("quoted"):
            return alike[0]
        close = alike or difflib.get_close_matches(name, self._schema.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {_listed(self._schema.names)}"
        raise self._text.error(column, f"the schema declares no attribute {name!r}", hint)

    def is_condition(self, node: Any) -> bool:
        """Whether an expression is a condition."""
        return isinstance(node.unnest(), _CONDITIONS)

    def condition(self, node: Any, tables: Iterable[str], depth: int = 0) -> Condition:
        """The condition that an expression stands for."""
        if depth > MAX_DEPTH:
            raise self._text.error(node, "the condition is nested too deeply")
        node = node.unnest()
        if isinstance(node, (exp.And, exp.Or)):
            # sqlglot nests a chain of a thousand ANDs a thousand deep, to the left.
            word = "and" if isinstance(node, exp.And) else "or"
            parts = [self.condition(part, tables, depth + 1) for part in _chain(node)]
            return joined(word, parts)
        if isinstance(node, exp.Not):
            return negated(self.condition(node.this, tables, depth + 1))
        if isinstance(node, exp.In):
            if node.args.get("query") is not None:
                raise self._text.error(node, *_SUBQUERY)
            self.only(node, "this", "expressions")
            return joined(
                "or", [self._comparison(node, node.this, "==", value, tables) for value in node.expressions]
            )
        if isinstance(node, exp.Between):
            self.only(node, "this", "low", "high")
            ends = (("low", ">="), ("high", "<="))
            return joined(
                "and", [self._comparison(node, node.this, sign, node.args[end], tables) for end, sign in ends]
            )
        sign = _SIGNS.get(type(node))
        if sign is None:
            raise self._text.error(node, *self._no_condition(node))
        left, right = node.this.unnest(), node.expression.unnest()
        if _is_subject(left) == _is_subject(right):
            raise self._text.error(
                node,
                f"{self._text.shown(node)!r} must compare an attribute with a constant, as in age >= 18"
                + ("; put text in single quotes, like 'this'" if isinstance(left, exp.Column) else ""),
            )
        if _is_subject(left):
            return self._comparison(node, left, sign, right, tables)
        return self._comparison(node, right, _MIRRORED[sign], left, tables)

    def _comparison(
        self, whole: Any, subject: Any, sign: str, constant: Any, tables: Iterable[str]
    ) -> Condition:
        """An attribute, or a calendar function of one, compared with a constant."""
        call = calendar_call(subject.unnest())
        if call is None:
            attribute = self._column(subject, whole, tables)
            return self._compared(whole, attribute, sign, self.constant(constant))
        value = self.constant(constant)
        groups = self.calendar_groups(subject.unnest(), tables)
        try:
            held = [condition for _, condition, is_held in groups if is_held(sign, value)]
        except InputError as error:
            raise self._text.error(whole, str(error)) from None
        if not held:
            raise self._text.error(whole, "no declared period satisfies this", "write a declared one")
        return joined("or", held)

    def calendar_groups(
        self, node: Any, tables: Iterable[str]
    ) -> list[tuple[str, Condition, Callable[[str, Value], bool]]]:
        """Label, condition and comparison of every value that a calendar function has."""
        call = calendar_call(node)
        assert call is not None
        name = self._column(call.column, node, tables)
        try:
            found = groups_of_call(call, name, self._schema)
        except InputError as error:
            raise self._text.error(node, str(error)) from None
        return [(group.label, group.condition, partial(is_satisfied, group)) for group in found]

    def truncated_attribute(self, node: Any, tables: Iterable[str]) -> str | None:
        """The attribute of a DATE_TRUNC to the very unit that it is declared by; None for anything else."""
        call = calendar_call(node)
        if call is None or call.is_part or not isinstance(call.column, exp.Column):
            return None
        name = self.attribute(call.column, tables)
        declared = self._schema[name]
        return name if isinstance(declared, Periods) and declared.by == call.unit else None

    def buckets(self, node: Any, tables: Iterable[str], title: str | None) -> Buckets:
        """The groups of a CASE, an IF or a comparison."""
        node = node.unnest()
        if self.is_condition(node):
            holds = self.condition(node, tables)
            return Buckets((("true", holds), ("false", negated(holds))), title)
        if calendar_call(node) is not None:
            groups = self.calendar_groups(node, tables)
            return Buckets(tuple((label, condition) for label, condition, _ in groups), title)
        # Keyed by value and not by label: null differs from the text 'none', and 1.0 equals 1.
        grouped: dict[Value | None, list[Condition]] = {}
        for value, condition in self.cases(node, tables):
            grouped.setdefault(self._group(value), []).append(condition)
        labels = ["none" if group is None else str(group) or "''" for group in grouped]
        for label in labels:
            if labels.count(label) > 1:
                raise self._text.error(
                    node,
                    f"two groups would be called {label}; rename one of them"
                    + (", as in ELSE 'other'" if None in grouped and label == "none" else ""),
                )
        conditions = (joined("or", parts) for parts in grouped.values())
        return Buckets(tuple(zip(labels, conditions, strict=True)), title)

    def cases(self, node: Any, tables: Iterable[str]) -> list[tuple[Any, Condition]]:
        """Each result of a CASE or IF (None for null), with its exact condition."""
        if isinstance(node, exp.Case):
            self.only(node, "this", "ifs", "default")
            branches, default = node.args["ifs"], node.args.get("default")
        else:
            branches, default = [node], node.args.get("false")
        subject = node.this if isinstance(node, exp.Case) else None
        found: list[tuple[Any, Condition]] = []
        before: list[Condition] = []
        for branch in branches:
            self.only(branch, "this", "true", *(["false"] if branch is node else []))
            if subject is None:
                holds = self.condition(branch.this, tables)
            else:
                attribute = self._column(subject, node, tables)
                holds = self._compared(branch, attribute, "==", self.constant(branch.this))
            found.append((branch.args["true"].unnest(), joined("and", [*map(negated, before), holds])))
            before.append(holds)
        rest = None if default is None else default.unnest()
        return [*found, (rest, joined("and", [negated(holds) for holds in before]))]

    def constant(self, node: Any) -> Value:
        """The value of a constant expression."""
        node = node.unnest()
        written = date_constant(node)
        if written is not None:
            return written
        if isinstance(node, exp.Literal):
            return node.name if node.is_string else self._number(node, node.name)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            return -self._number(node, node.this.name)
        if isinstance(node, exp.Boolean):
            return "true" if node.this else "false"  # as truth values are written in tables
        if isinstance(node, exp.Null):
            raise self._text.error(
                node, "no record has a null once the schema's policies are applied", "leave NULL out"
            )
        if isinstance(node, exp.Column):
            raise self._text.error(
                node,
                f"a constant is needed, not the column {self._text.shown(node)!r}",
                "put text in single quotes, like 'this'",
            )
        raise self._text.error(
            node,
            f"{self._text.shown(node)!r} is not a plain number or a quoted text",
            "work it out and write that",
        )

    def _no_condition(self, node: Any) -> tuple[str, str | None]:
        """Why an expression is no condition, and what to write instead."""
        words = self._text.shown(node)
        if isinstance(node, exp.Is):
            return (
                "no record has a null once the schema's policies are applied: they are left out, or counted "
                "in the other cell",
                'ask for that cell, as in sex = \'unknown\' for a schema with null="other", other="unknown"',
            )
        if isinstance(node, _PATTERNS):
            return (
                "patterns are not supported",
                "list the declared values, as in region IN ('North', 'South')",
            )
        if node.find(exp.Select) is not None:
            return _SUBQUERY
        if isinstance(node, exp.Column):
            return "an attribute alone is not a condition", f"compare it, as in {words} = 'yes'"
        return (
            f"{words!r} does not compare an attribute with a constant",
            "write a comparison, as in age >= 18",
        )

    def _number(self, node: Any, text: str) -> int | float:
        if len(text) <= _MAX_DIGITS:
            try:
                number: int | float = int(text) if text.isdigit() else float(text)
                if abs(number) <= 1.7e308:
                    return number
            except ValueError:
                pass
        raise self._text.error(node, "this number cannot be read", "write one that a table could hold")

    def _group(self, node: Any) -> Value | None:
        """The constant of a branch; None for null."""
        if node is None or isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Column):
            raise self._text.error(node, "CASE must give constants, such as THEN 'child', and not a column")
        return self.constant(node)

    def _column(self, node: Any, whole: Any, tables: Iterable[str]) -> str:
        node = node.unnest()
        if not isinstance(node, exp.Column):
            raise self._text.error(
                whole,
                f"{self._text.shown(node)!r} is not an attribute",
                "only an attribute itself can be compared",
            )
        return self.attribute(node, tables)

    def _compared(self, node: Any, attribute: str, sign: str, value: Value) -> ComparisonCondition:
        self._n_comparisons += 1
        if self._n_comparisons > MAX_COMPARISONS:
            raise self._text.error(
                node, f"the text holds more than {MAX_COMPARISONS:,} comparisons", "split it"
            )
        declared = self._schema[attribute]
        try:
            declared.matching(attribute, sign, value)
        except InputError as error:
            raise self._text.error(node, str(error)) from None
        if isinstance(declared, (Integers, Bins)) and not isinstance(value, str):
            self._check_within(node, attribute, sign, value)
        return ComparisonCondition(attribute, sign, value)

    def _check_within(self, node: Any, attribute: str, sign: str, value: int | float) -> None:
        """Refuse numbers outside the declared range, where a table may hold anything."""
        declared = self._schema[attribute]
        label = declared.values_label()
        if isinstance(declared, Bins):
            is_within = declared.edges[0] <= value <= declared.edges[-1]
        elif sign in ("==", "!="):
            assert isinstance(declared, Integers)
            is_within = value in declared.values
        else:
            assert isinstance(declared, Integers)
            is_within = declared.values[0] - 1 <= value <= declared.values[-1] + 1
        if not is_within:
            raise self._text.error(
                node,
                f"{attribute!r} is declared as {label}, and {value!r} is none of it",
                "write a declared value",
            )


def _is_subject(node: Any) -> bool:
    """Whether an expression is what a condition speaks of: an attribute, or a calendar function."""
    return isinstance(node, exp.Column) or calendar_call(node) is not None


def joined(word: str, parts: Sequence[Condition]) -> Condition:
    """Conditions joined by "and" or "or", without nesting the same word."""
    flat: list[Condition] = []
    for part in parts:
        flat += part.parts if isinstance(part, Combination) and part.word == word else (part,)
    return flat[0] if len(flat) == 1 else Combination(word, tuple(flat))


def negated(condition: Condition) -> Condition:
    """The negation of a condition, without double negation."""
    return condition.inner if isinstance(condition, Negation) else Negation(condition)


def _chain(node: Any) -> list[Any]:
    """The parts of a chain joined by one word, in order."""
    parts = []
    current = node
    while type(current) is type(node):
        parts.append(current.expression)
        current = current.this
    return [current, *reversed(parts)]


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(map(repr, known[:12])) + (", …" if len(known) > 12 else "")
