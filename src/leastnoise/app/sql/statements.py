"""What each statement counts, under which condition, grouped by what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from leastnoise.app.sql.calendar_calls import calendar_call
from leastnoise.app.sql.conditions import Buckets, Conditions, Text, joined
from leastnoise.app.sql.unsupported import CLAUSES, DISTINCT, INSTEAD, Refusal
from leastnoise.core.errors import SqlError
from leastnoise.query import Condition, Schema

MAX_CHARACTERS = 2_000_000
# CUBE of 12 attributes. Each is a cross table of its own that people would have to read.
MAX_TABLES = 4096

Key = str | Buckets


@dataclass(frozen=True)
class CountRequest:
    """One count or sum of a statement.

    Attributes:
        sum_of: the attribute of a sum; None for a count.
        condition: which records count; None for all.
        sets: the sets of keys it is grouped by, one cross table each.
        columns: the keys in SELECT, in that order.
        name: its alias, or None.
        mean_of: the attribute of a mean; the request is then the count of the records that enter.
        over: what it is divided by, in a ratio.
    """

    sum_of: str | None
    condition: Condition | None
    sets: tuple[frozenset[Key], ...]
    columns: tuple[Key, ...]
    name: str | None
    text: Text
    node: Any
    mean_of: str | None = None
    over: CountRequest | None = None

    def error(self, message: str, remedy: str | None = None) -> SqlError:
        """The error of this count, with its line and column."""
        return self.text.error(self.node, message, remedy)


def read_statements(sql: str, schema: Schema) -> Iterator[CountRequest]:
    """Every count and sum of a text, in order.

    Raises:
        SqlError: with the line and column of what is not supported.
    """
    text = Text(sql)
    reader = _StatementReader(text, schema)
    try:
        selects = [select for statement in _parsed(text) for select in reader.selects(statement)]
        if not selects:
            raise SqlError(
                "the text holds no statement",
                field="sql",
                given=text.sql,
                remedy="write one, such as SELECT COUNT(*) FROM people",
            )
        for select in selects:
            yield from reader.read(select)
    except RecursionError:
        raise SqlError(
            "the SQL is nested too deeply", field="sql", remedy="write it with fewer parentheses"
        ) from None


def _parsed(text: Text) -> list[Any]:
    """The statements of a text."""
    if len(text.sql) > MAX_CHARACTERS:
        raise SqlError.must(
            "sql", f"hold at most {MAX_CHARACTERS:,} characters", given=len(text.sql), remedy="split it"
        )
    try:
        _check_beginnings(text, sqlglot.tokenize(text.sql, read="duckdb"))
        found = sqlglot.parse(text.sql, read="duckdb")
    except SqlError:
        raise
    except TokenError:
        raise SqlError(
            "this SQL cannot be parsed", field="sql", remedy="is a quotation or a comment left open?"
        ) from None
    except ParseError as error:
        places = [place for place in error.errors if place.get("line")]
        if not places:
            raise SqlError("this SQL cannot be parsed", field="sql") from None
        # The parser gives the end of the token that it did not expect.
        line, end, word = (places[0].get(key) for key in ("line", "col", "highlight"))
        near = f" near {word[:40]!r}" if word else ""
        column = max(1, end - len(word or "") + 1)
        raise SqlError(
            f"line {line}, column {column}: this SQL cannot be parsed{near}", field="sql", given=word
        ) from None
    except (SqlglotError, ValueError):  # for example an escape of a character that does not exist
        raise SqlError("this SQL cannot be parsed", field="sql") from None
    return [
        statement for statement in found if statement is not None and not isinstance(statement, exp.Semicolon)
    ]


def _check_beginnings(text: Text, tokens: list[Any]) -> None:
    """Refuse other statements before they are parsed: sqlglot logs a line about those it does not know."""
    before = "SEMICOLON"
    for token in tokens:
        kind = token.token_type.name
        if before == "SEMICOLON" and kind not in ("SELECT", "L_PAREN", "WITH", "FROM", "SEMICOLON"):
            word = token.text[:20]
            where = text.place_at(token.start)
            raise SqlError(
                f"{where}: a statement begins with SELECT, not with {word!r}", field="sql", given=word
            )
        before = kind


class _StatementReader:
    """Reads SELECT statements over one schema and one table."""

    def __init__(self, text: Text, schema: Schema) -> None:
        self._text = text
        self._schema = schema
        self._conditions = Conditions(text, schema)
        self._table: tuple[str, ...] | None = None
        self._tables: tuple[str, ...] = ()

    def selects(self, statement: Any) -> list[Any]:
        """The SELECT statements of a UNION ALL."""
        parts = []
        current = statement
        while True:
            if isinstance(current, exp.Subquery):
                self._check_clauses(current, "this")
                current = current.this
            elif isinstance(current, exp.Union):
                if current.args.get("distinct"):
                    raise self._text.error(
                        current.expression,
                        "UNION would drop equal counts",
                        "write UNION ALL, or two statements",
                    )
                self._check_clauses(current, "this", "expression")
                parts.append(current.expression)
                current = current.this
            else:
                break
        if parts:
            return [select for part in [current, *reversed(parts)] for select in self.selects(part)]
        if not isinstance(current, exp.Select):
            raise self._text.error(
                current, f"only SELECT and UNION ALL are supported, not {type(current).__name__.upper()}"
            )
        return [current]

    def read(self, select: Any) -> Iterator[CountRequest]:
        """The counts and sums of one SELECT."""
        self._check_clauses(select, "expressions", "from_", "where", "group")
        self._tables = self._names_of_table(select)
        where = select.args.get("where")
        condition = None if where is None else self._conditions.condition(where.this, self._tables)
        counted: list[Any] = []
        columns: list[Any] = []
        for item in select.expressions:
            (counted if _is_aggregate(item) else columns).append(item)
        titled = [(item.alias or None, item, self._key(item, ())) for item in columns]
        sets = self._sets(select.args.get("group"), select.expressions, titled)
        grouped = frozenset().union(*sets)
        for _, item, key in titled:
            if key not in grouped:
                raise self._text.error(
                    item, f"{self._text.shown(item)!r} must stand in GROUP BY, or in COUNT or SUM"
                )
        if not counted:
            raise self._text.error(select, "nothing is counted", "add COUNT(*) or SUM(attribute)")
        for item in counted:
            yield self._asked(item, condition, sets, tuple(key for _, _, key in titled))

    # ---------------------------------------------------------------- FROM

    def _check_clauses(self, node: Any, *known: str) -> None:
        for key, value in node.args.items():
            if value and key not in known:
                clause = key.strip("_").upper()
                reason = CLAUSES.get(key, (f"{clause} is not supported", "leave it out"))
                place = value[0] if isinstance(value, list) else value
                raise self._text.error(place if hasattr(place, "walk") else node, *reason)

    def _names_of_table(self, select: Any) -> tuple[str, ...]:
        """The names that may qualify a column."""
        source = select.args.get("from_")
        if source is None:
            raise self._text.error(select, "FROM is needed, with the name of the table")
        table = source.this
        if isinstance(table, exp.Subquery):
            raise self._text.error(table, "subqueries are not supported", "ask about the table itself")
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise self._text.error(table, "FROM must name one table, as in FROM people")
        for key, value in table.args.items():
            if value and key not in ("this", "db", "catalog", "alias"):
                reason = CLAUSES.get(key, (f"{key} is not supported after a table", "leave it out"))
                raise self._text.error(table, *reason)
        alias = table.args.get("alias")
        if alias is not None:
            self._conditions.only(alias, "this")
        name = tuple(part.name.lower() for part in table.parts)
        if self._table is not None and name != self._table:
            raise self._text.error(
                table, f"a schema describes one table, and {'.'.join(self._table)!r} was asked about before"
            )
        self._table = name
        return (table.name,) if alias is None else (alias.name,)

    # ---------------------------------------------------------------- GROUP BY

    def _key(self, item: Any, titled: tuple[tuple[str | None, Any, Key], ...] | list[Any]) -> Key:
        """The key of an expression in GROUP BY: an attribute, or the groups of a CASE."""
        title = item.alias or None if isinstance(item, exp.Alias) else None
        node = item.unalias().unnest()
        if isinstance(node, exp.Column):
            return self._named_key(node, titled)
        whole = self._conditions.truncated_attribute(node, self._tables)
        if whole is not None:
            return whole
        is_sorted = isinstance(node, (exp.Case, exp.If)) or self._conditions.is_condition(node)
        is_sorted = is_sorted or calendar_call(node) is not None
        if not is_sorted:
            raise self._text.error(node, *self._instead(node))
        found = self._conditions.buckets(node, self._tables, title)
        if title is not None and any(title.lower() == name.lower() for name in self._schema):
            raise self._text.error(
                item, f"{title!r} is also an attribute", "call the expression something else"
            )
        # Repeated in GROUP BY, an expression keeps its alias from SELECT.
        known = [key for _, _, key in titled if key == found]
        return known[0] if known else found

    def _named_key(self, column: Any, titled: Any) -> Key:
        name, is_quoted = column.name, bool(column.this.args.get("quoted"))
        if not column.args.get("table"):
            for title, _, key in titled:
                is_same = title == name or (
                    not is_quoted and title is not None and title.lower() == name.lower()
                )
                if is_same and name in self._schema and key != name:
                    raise self._text.error(
                        column, f"{name!r} is an attribute and also the name of another column", "rename that"
                    )
                if is_same:
                    return key
        return self._conditions.attribute(column, self._tables)

    def _sets(self, group: Any, items: list[Any], titled: list[Any]) -> tuple[frozenset[Key], ...]:
        """The grouping sets of GROUP BY, each once."""
        if group is None:
            return (frozenset(),)
        self._conditions.only(group, "expressions", "all")
        if group.args.get("all"):
            return (frozenset(key for _, _, key in titled),)
        sets: list[frozenset[Key]] = [frozenset()]
        for element in group.expressions:
            further = self._element_sets(element, items, titled)
            if len(sets) * len(further) > MAX_TABLES:
                raise self._too_many(element, len(sets) * len(further))
            sets = [one | other for one in sets for other in further]
        return tuple(dict.fromkeys(sets))

    def _element_sets(self, element: Any, items: list[Any], titled: list[Any]) -> list[frozenset[Key]]:
        if isinstance(element, (exp.Cube, exp.Rollup)):
            self._conditions.only(element, "expressions")
            parts = [self._together(part, items, titled) for part in element.expressions]
            n_sets = 2 ** len(parts) if isinstance(element, exp.Cube) else len(parts) + 1
            if n_sets > MAX_TABLES:
                raise self._too_many(element, n_sets)
            if isinstance(element, exp.Rollup):
                return [frozenset().union(*parts[:size]) for size in range(len(parts), -1, -1)]
            sizes = range(len(parts), -1, -1)
            return [frozenset().union(*some) for size in sizes for some in combinations(parts, size)]
        if isinstance(element, exp.GroupingSets):
            self._conditions.only(element, "expressions")
            return [one for part in element.expressions for one in self._element_sets(part, items, titled)]
        return [self._together(element, items, titled)]

    def _together(self, element: Any, items: list[Any], titled: list[Any]) -> frozenset[Key]:
        """The keys of one element: an expression, its position in SELECT, or several in parentheses."""
        if isinstance(element, exp.Tuple):
            return frozenset().union(*(self._together(part, items, titled) for part in element.expressions))
        node = element.unnest()
        if isinstance(node, exp.Tuple):
            return self._together(node, items, titled)
        if not isinstance(node, exp.Literal) or node.is_string:
            return frozenset({self._key(node, titled)})
        number = self._conditions.constant(node)
        if not isinstance(number, int) or not 1 <= number <= len(items):
            raise self._text.error(
                node, f"GROUP BY {node.name[:20]} is not a position in SELECT, which has {len(items)}"
            )
        chosen = items[number - 1]
        for _, item, key in titled:
            if item is chosen:
                return frozenset({key})
        raise self._text.error(node, f"position {number} of SELECT is a count, which nothing is grouped by")

    def _too_many(self, element: Any, number: int) -> SqlError:
        shown = f"{number:,}" if number < 10**12 else f"2 to the power of {round(math.log2(number))}"
        return self._text.error(
            element,
            f"this asks for {shown} cross tables",
            f"at most {MAX_TABLES:,} are asked at once. List those that will be published in "
            "GROUPING SETS, or ask Cube(*attributes, order=3) in Python",
        )

    # ---------------------------------------------------------------- SELECT

    def _asked(
        self,
        item: Any,
        condition: Condition | None,
        sets: tuple[frozenset[Key], ...],
        columns: tuple[Key, ...],
    ) -> CountRequest:
        node = item.unalias().unnest()
        if isinstance(node, exp.Div) and _is_aggregate(node.left) and _is_aggregate(node.right):
            parts = [
                self._asked(_divided(part), condition, sets, columns) for part in (node.left, node.right)
            ]
            for part in parts:
                if part.over is not None or part.mean_of is not None:
                    raise self._text.error(
                        item, "a ratio divides counts or sums", "ask for one ratio at a time"
                    )
            return replace(parts[0], over=parts[1], name=item.alias or None, node=item)
        conditions = [] if condition is None else [condition]
        if isinstance(node, exp.Filter):
            conditions.append(self._conditions.condition(node.expression.this, self._tables))
            node = node.this
        sum_of = None
        if isinstance(node, exp.CountIf):
            self._conditions.only(node, "this")
            conditions.append(self._conditions.condition(node.this, self._tables))
        elif isinstance(node, exp.Count):
            conditions += self._counted(node)
        elif isinstance(node, exp.Sum):
            sum_of, further = self._summed(node)
            conditions += further
        elif isinstance(node, exp.Avg):
            sum_of = self._averaged(node)
        else:
            raise self._text.error(item, *self._instead(node))
        whom = joined("and", conditions) if conditions else None
        asked = CountRequest(sum_of, whom, sets, columns, item.alias or None, self._text, item)
        if isinstance(node, exp.Avg):
            return replace(asked, sum_of=None, mean_of=self._summable(asked))
        return asked if sum_of is None else replace(asked, sum_of=self._summable(asked))

    def _counted(self, node: Any) -> list[Condition]:
        self._conditions.only(node, "this", "big_int")
        inside = node.this
        if isinstance(inside, exp.Distinct):
            raise self._text.error(node, *DISTINCT)
        if isinstance(inside, exp.Star) or (isinstance(inside, exp.Literal) and inside.name):
            self._conditions.only(inside, "this", "is_string")
            return []
        if not isinstance(inside, (exp.Case, exp.If)):
            raise self._text.error(
                node,
                "records are counted with COUNT(*)",
                "what is null was left out by the schema's policies",
            )
        held = []
        for value, holds in self._conditions.cases(inside, self._tables):
            if value is not None and not isinstance(value, exp.Null):
                if not isinstance(value, exp.Literal):
                    raise self._text.error(value, "COUNT(CASE …) must give constants, such as THEN 1")
                if value.name == "0":
                    raise self._text.error(value, "COUNT counts zeros too", "leave out ELSE 0, or write SUM")
                held.append(holds)
        if not held:
            raise self._text.error(node, "this counts nothing", "write THEN 1 for those to be counted")
        return [joined("or", held)]

    def _summed(self, node: Any) -> tuple[str | None, list[Condition]]:
        """The attribute of a SUM, None for SUM(1), and its condition."""
        self._conditions.only(node, "this")
        inside = node.this.unnest()
        if isinstance(inside, exp.Distinct):
            raise self._text.error(node, *DISTINCT)
        if isinstance(inside, exp.Column):
            return self._conditions.attribute(inside, self._tables), []
        if isinstance(inside, exp.Literal) and not inside.is_string and inside.name == "1":
            return None, []
        if not isinstance(inside, (exp.Case, exp.If)):
            raise self._text.error(
                node,
                "SUM adds up an attribute, or ones and zeros, as in SUM(CASE WHEN age < 18 THEN 1 ELSE 0 "
                f"END), not {self._text.shown(inside)!r}",
                "combine the answers afterwards",
            )
        wanted: dict[str | None, list[Condition]] = {}
        for value, holds in self._conditions.cases(inside, self._tables):
            if isinstance(value, exp.Column):
                wanted.setdefault(self._conditions.attribute(value, self._tables), []).append(holds)
            elif isinstance(value, exp.Literal) and not value.is_string and value.name == "1":
                wanted.setdefault(None, []).append(holds)
            elif (
                value is not None
                and not isinstance(value, exp.Null)
                and self._conditions.constant(value) != 0
            ):
                raise self._text.error(
                    value, "SUM(CASE …) adds up ones or an attribute, and zeros", "nothing else"
                )
        if len(wanted) != 1:
            raise self._text.error(
                node, "SUM(CASE …) adds up ones, or one attribute", "ask for each by its own SUM"
            )
        ((attribute, held),) = wanted.items()
        return attribute, [joined("or", held)]

    def _averaged(self, node: Any) -> str:
        """The attribute of an AVG."""
        self._conditions.only(node, "this")
        inside = node.this.unnest()
        if isinstance(inside, exp.Distinct):
            raise self._text.error(node, *DISTINCT)
        if not isinstance(inside, exp.Column):
            raise self._text.error(
                node,
                f"AVG takes an attribute, not {self._text.shown(inside)!r}",
                "for a share write COUNT(*) FILTER (WHERE …) / COUNT(*)",
            )
        return self._conditions.attribute(inside, self._tables)

    def _summable(self, asked: CountRequest) -> str:
        assert asked.sum_of is not None
        numbers = self._schema[asked.sum_of].numbers()
        if numbers is not None and max(map(abs, numbers)) >= 2**63:
            raise asked.error(f"{asked.sum_of!r} holds numbers beyond 64 bits, which are not added up")
        if numbers is None:
            raise asked.error(
                "SUM and AVG need whole numbers, declared as a range or as numbered categories, and "
                f"{asked.sum_of!r} has none",
                "count it with GROUP BY and weigh the counts",
            )
        return asked.sum_of

    def _instead(self, node: Any) -> Refusal:
        """Why an expression cannot be asked for, and what can."""
        for part in node.walk():
            for kind, reason in INSTEAD.items():
                if isinstance(part, kind) and (part is node or kind not in (exp.Literal, exp.Star)):
                    return reason
        words = self._text.shown(node)
        if node.find(exp.AggFunc) is not None or isinstance(node, exp.Binary):
            return (
                f"{words!r} is computed from counts or values",
                "ask for counts, and compute from the answers",
            )
        return f"{words!r} is not supported", "ask for COUNT(*), SUM(attribute), attributes or CASE"


def _divided(part: Any) -> Any:
    """A side of a quotient without what makes SQL divide fractions: * 1.0, CAST and NULLIF(…, 0)."""
    while True:
        part = part.unnest()
        if isinstance(part, exp.Cast) or (isinstance(part, exp.Nullif) and _is_number(part.expression, 0)):
            part = part.this
        elif isinstance(part, exp.Mul) and _is_number(part.right, 1):
            part = part.left
        elif isinstance(part, exp.Mul) and _is_number(part.left, 1):
            part = part.right
        else:
            return part


def _is_number(node: Any, wanted: int) -> bool:
    """Whether an expression is a number, however it is written."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return False
    try:
        return float(node.name) == wanted
    except ValueError:
        return False


def _is_aggregate(item: Any) -> bool:
    """Whether a column of SELECT is an aggregate, supported or not."""
    return any(isinstance(part, (exp.AggFunc, exp.Window, exp.Filter)) for part in item.walk())
