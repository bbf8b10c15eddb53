"""Queries as the oracle describes them: drawn at random, each with its meaning row by row.

A query is made of units on different attributes, crossed in any order. A unit knows three things that are
written apart from one another: the library's query, the table of a specification file, and the rows that
docs/queries.md promises. A row is a coefficient for every probe, which is a cell of the schema.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from typing import Any

import leastnoise as ln
from oracle_attributes import Attribute
from oracle_attributes import Row as OfCells
from oracle_conditions import Cell, Condition, drawn_condition, in_sql, in_words, is_true, sql_name

# Coefficients of one row at every probe.
Row = tuple[float, ...]
# The rows of one factor, and the place of its first attribute, by which factors are put in order.
Factor = tuple[int, list[Row]]

# A query with more rows is not drawn again and again, but left out.
MOST_ROWS = 240


@dataclass(frozen=True)
class Described:
    """One query: as the library takes it, and as the oracle means it.

    Attributes:
        python: the query; None where it is asked in SQL.
        toml: its table in a specification file.
        terms: factors crossed, for each table that lies below the others.
        phrases: words that stand in labels for rows of the oracle's own making.
        places: where its attributes stand.
        sql: the statement, where it is asked so.
        where: the condition of that statement, of which labels need not speak.
    """

    python: Any
    toml: dict[str, Any]
    terms: list[list[Factor]]
    places: tuple[int, ...]
    phrases: dict[str, Row] = field(default_factory=dict)
    name: str | None = None
    sql: str | None = None
    where: Row | None = None

    @property
    def n_rows(self) -> int:
        return sum(_product(len(rows) for _, rows in term) for term in self.terms)

    def rows(self, n_probes: int) -> list[Row]:
        """What every row counts, in the order of the schema, the last factor fastest."""
        found: list[Row] = []
        for term in self.terms:
            crossed: list[Row] = [(1.0,) * n_probes]
            for _, rows in sorted(term, key=lambda factor: factor[0]):
                crossed = [times(one, row) for one in crossed for row in rows]
            found += crossed
        return found


def times(one: Row, other: Row) -> Row:
    return tuple(a * b for a, b in zip(one, other, strict=True))


def _product(numbers: Iterable[int]) -> int:
    return reduce(lambda a, b: a * b, numbers, 1)


@dataclass
class Maker:
    """Draws queries over some attributes, with rows over some probes.

    Attributes:
        style: "tables" for cross tables only, "crossed" for products of several attributes only, "any".
    """

    rng: random.Random
    attributes: Sequence[Attribute]
    probes: Sequence[Cell]
    n_cells: int
    style: str = "any"

    def query(self, number: int) -> Described:
        """A random query over random attributes, with a name, a weight or neither."""
        rng = self.rng
        if rng.random() < 0.04:
            return self.named(self._total(), number)
        if self.n_cells <= 60 and self.style == "any" and rng.random() < 0.06:
            return self.named(self._linear(), number)
        most = min(len(self.attributes), rng.choice([1, 1, 2, 2, 3, 4, 6]))
        fewest, single = 1, 0.65
        if self.style == "crossed":
            most = fewest = min(len(self.attributes), rng.choice([2, 2, 3]))
            single = 0.95
        while True:
            places = rng.sample(range(len(self.attributes)), rng.randint(fewest, most))
            units = []
            while places:
                n = 1 if rng.random() < single else rng.randint(1, len(places))
                units.append(self._unit(places[:n]))
                places = places[n:]
            if rng.random() < 0.03:
                units.append(self._total())
            rng.shuffle(units)
            found = self._crossed(units)
            if found.n_rows <= MOST_ROWS:
                return self.named(found, number)

    def named(self, found: Described, number: int) -> Described:
        rng = self.rng
        common: dict[str, Any] = {}
        if rng.random() < 0.6:
            common["name"] = rng.choice([f"q{number}", f"q {number}: so, etc.", f"Nr. {number} ü"])
        if rng.random() < 0.5:
            common["weight"] = round(10 ** rng.uniform(-1, 1), 3)
        return having(found, **common)

    # ---------------------------------------------------------------- units

    def _unit(self, places: list[int]) -> Described:
        rng = self.rng
        if self.style == "tables":
            return rng.choice([self.marginal, self.marginal, self._cube])(places)
        if len(places) > 1:
            return rng.choice([self.marginal, self.marginal, self._cube, self._where, self._cases])(places)
        attribute = self.attributes[places[0]]
        makers = [self.marginal, self._prefix, self._ranges, self._where, self._cases, self._cube]
        if attribute.size > MOST_ROWS:
            makers = [self._ranges, self._where, self._cases]
        if len(attribute.values) <= 8:
            makers += [self._all_ranges] * 2
        if attribute.kind == "hierarchy":
            makers += [self._levels] * 3
        if attribute.is_number:
            makers.append(self._sum)
        return rng.choice(makers)(places)

    def along(self, place: int, row: OfCells) -> Row:
        return tuple(row[probe[place]] for probe in self.probes)

    def _one(self, place: int, rows: Iterable[OfCells]) -> list[list[Factor]]:
        return [[(place, [self.along(place, row) for row in rows])]]

    def _each(self, place: int) -> Factor:
        attribute = self.attributes[place]
        return place, [self.along(place, attribute.one(i)) for i in range(attribute.size)]

    def _total(self) -> Described:
        return Described(ln.Total(), {"kind": "total"}, [[]], ())

    def marginal(self, places: list[int]) -> Described:
        names = [self.attributes[place].name for place in places]
        plain = {"kind": "marginal", "attributes": names}
        return Described(ln.Marginal(*names), plain, [[self._each(p) for p in places]], tuple(places))

    def _cube(self, places: list[int]) -> Described:
        names = [self.attributes[place].name for place in places]
        plain: dict[str, Any] = {"kind": "cube", "attributes": names}
        order: Any = None
        sizes = list(range(len(places) + 1))
        if self.rng.random() < 0.6:
            order = self.rng.choice([self.rng.randint(0, len(places)), self.rng.sample(sizes, 1)])
            sizes = order if isinstance(order, list) else sizes[: order + 1]
            plain["order"] = order
        # In schema order, tables of fewer attributes first.
        terms = [
            [self._each(place) for place in some]
            for size in sorted(sizes)
            for some in combinations(sorted(places), size)
        ]
        return Described(ln.Cube(*names, order=order), plain, terms, tuple(places))

    def _prefix(self, places: list[int]) -> Described:
        (place,) = places
        attribute = self.attributes[place]
        rows = [attribute.span(0, last) for last in range(len(attribute.values))]
        plain = {"kind": "prefix", "attribute": attribute.name}
        return Described(ln.Prefix(attribute.name), plain, self._one(place, rows), (place,))

    def _all_ranges(self, places: list[int]) -> Described:
        (place,) = places
        attribute, n = self.attributes[place], len(self.attributes[place].values)
        rows = [attribute.span(first, last) for first in range(n) for last in range(first, n)]
        plain = {"kind": "all-ranges", "attribute": attribute.name}
        return Described(ln.AllRanges(attribute.name), plain, self._one(place, rows), (place,))

    def _ranges(self, places: list[int]) -> Described:
        (place,) = places
        attribute, n = self.attributes[place], len(self.attributes[place].values)
        spans = [
            tuple(sorted((self.rng.randrange(n), self.rng.randrange(n))))
            for _ in range(self.rng.randint(1, 4))
        ]
        pairs = [(attribute.values[a], attribute.values[b]) for a, b in spans]
        if attribute.kind == "bins":
            pairs = [(low, high) for (low, _), (_, high) in pairs]
        plain = {"kind": "ranges", "attribute": attribute.name, "ranges": [list(pair) for pair in pairs]}
        rows = self._one(place, [attribute.span(a, b) for a, b in spans])
        return Described(ln.Ranges(attribute.name, pairs), plain, rows, (place,))

    def _levels(self, places: list[int]) -> Described:
        (place,) = places
        attribute = self.attributes[place]
        plain = {"kind": "levels", "attribute": attribute.name}
        return Described(ln.Levels(attribute.name), plain, self._one(place, attribute.levels()), (place,))

    def _sum(self, places: list[int]) -> Described:
        (place,) = places
        attribute = self.attributes[place]
        plain = {"kind": "sum", "attribute": attribute.name}
        return Described(ln.Sum(attribute.name), plain, self._one(place, [attribute.sums()]), (place,))

    def true_of(self, condition: Condition) -> Row:
        return tuple(float(is_true(condition, self.attributes, probe)) for probe in self.probes)

    def _where(self, places: list[int]) -> Described:
        condition = drawn_condition(self.rng, self.attributes, places)
        words = in_words(condition, self.attributes, self.rng)
        terms = [[(min(places), [self.true_of(condition)])]]
        return Described(ln.Where(words), {"kind": "where", "condition": words}, terms, tuple(places))

    def _cases(self, places: list[int]) -> Described:
        conditions = [
            drawn_condition(self.rng, self.attributes, places) for _ in range(self.rng.randint(1, 4))
        ]
        mark = self.rng.randrange(10**6)
        labels = [f"case {mark}.{i}" for i in range(len(conditions))]
        words = [in_words(condition, self.attributes, self.rng) for condition in conditions]
        heading = f"group {mark}" if self.rng.random() < 0.5 else None
        rows = [self.true_of(condition) for condition in conditions]
        plain: dict[str, Any] = {"kind": "cases", "cases": dict(zip(labels, words, strict=True))}
        if heading is not None:
            plain["heading"] = heading
        head = "" if heading is None else f"{heading} "
        phrases = {f"{head}{label}": row for label, row in zip(labels, rows, strict=True)}
        query = ln.Cases(dict(zip(labels, words, strict=True)), heading)
        return Described(query, plain, [[(min(places), rows)]], tuple(places), phrases)

    def _linear(self) -> Described:
        m = self.rng.randint(1, 3)
        matrix = [[self.rng.choice([0, 0, 1, -1, 2]) for _ in range(self.n_cells)] for _ in range(m)]
        if not all(any(row) for row in matrix):
            matrix[0][0] = matrix[-1][-1] = matrix[m // 2][0] = 1
        if self.rng.random() < 0.3:
            matrix = [[a * self.rng.choice([0.5, 1, 1.25]) for a in row] for row in matrix]
        mark = self.rng.randrange(10**6)
        labels = [f"contrast {mark}.{i}" for i in range(m)]
        rows = [tuple(float(row[self.index_of(probe)]) for probe in self.probes) for row in matrix]
        plain = {"kind": "linear", "matrix": matrix, "labels": labels}
        phrases = dict(zip(labels, rows, strict=True))
        everywhere = tuple(range(len(self.attributes)))
        return Described(ln.Linear(matrix, labels), plain, [[(0, rows)]], everywhere, phrases)

    def index_of(self, cell: Cell) -> int:
        """The place of a cell in a vector of all, the last attribute fastest."""
        index = 0
        for place, attribute in zip(cell, self.attributes, strict=True):
            index = index * attribute.size + place
        return index

    def _crossed(self, units: list[Described]) -> Described:
        found = units[0]
        for unit in units[1:]:
            left, right = (found, unit) if self.rng.random() < 0.5 else (unit, found)
            found = Described(
                left.python * right.python,
                {"kind": "product", "left": left.toml, "right": right.toml},
                [[*one, *other] for one in left.terms for other in right.terms],
                (*left.places, *right.places),
                left.phrases | right.phrases,
            )
        return found

    # ---------------------------------------------------------------- SQL

    def statement(self, number: int) -> Described:
        """One counting statement: grouped, under a condition, in buckets, a cube or a sum."""
        while True:
            found = self._statement(number)
            if found.n_rows <= MOST_ROWS:
                return found

    def _statement(self, number: int) -> Described:
        rng = self.rng
        places = rng.sample(range(len(self.attributes)), rng.randint(1, min(len(self.attributes), 3)))
        n_grouped = rng.randint(0, len(places))
        grouped, others = places[:n_grouped], places[n_grouped:]
        condition = None
        if others and rng.random() < 0.8:
            # Sometimes about what is grouped by as well.
            about = [*others, *(rng.sample(grouped, 1) if grouped and rng.random() < 0.3 else [])]
            condition = drawn_condition(rng, self.attributes, about)
        numbers = [
            p for p in range(len(self.attributes)) if self.attributes[p].is_number and p not in grouped
        ]
        summed = rng.choice(numbers) if numbers and rng.random() < 0.25 else None
        names = [sql_name(self.attributes[place].name) for place in grouped]
        factors = [self._each(place) for place in grouped]
        columns, keys, phrases = list(names), list(names), {}
        case_places = [p for p in others if condition is None] if not summed else []
        if case_places and rng.random() < 0.6:
            title, text, factor, phrases = self._buckets(case_places[:1])
            columns, keys, factors = [*columns, f"{text} AS {title}"], [*keys, title], [*factors, factor]
        is_cube = len(keys) > 0 and not phrases and rng.random() < 0.25
        name = f"s{number}"
        counted = "COUNT(*)" if summed is None else f"SUM({sql_name(self.attributes[summed].name)})"
        sql = f"SELECT {', '.join([*columns, f'{counted} AS {name}'])} FROM people"
        where = (1.0,) * len(self.probes) if condition is None else self.true_of(condition)
        if condition is not None:
            sql += f" WHERE {in_sql(condition, self.attributes)}"
        if keys:
            sql += f" GROUP BY {'CUBE ' if is_cube else ''}({', '.join(keys)})"
        counts = where
        if summed is not None:
            counts = times(where, self.along(summed, self.attributes[summed].sums()))
        sets = [some for size in range(len(factors) + 1) for some in combinations(factors, size)]
        chosen = sets if is_cube else [tuple(factors)]
        terms = [[*some, (10**6, [counts])] for some in chosen]
        return Described(None, {"sql": sql}, terms, tuple(places), phrases, name, sql, where)

    def _buckets(self, places: list[int]) -> tuple[str, str, Factor, dict[str, Row]]:
        conditions = [
            drawn_condition(self.rng, self.attributes, places) for _ in range(self.rng.randint(1, 2))
        ]
        mark = self.rng.randrange(10**6)
        title, text, taken = f"life{mark}", "CASE", [0.0] * len(self.probes)
        rows: list[Row] = []
        for i, condition in enumerate(conditions):
            text += f" WHEN {in_sql(condition, self.attributes)} THEN 'is {i}'"
            rows.append(tuple(a * (1 - b) for a, b in zip(self.true_of(condition), taken, strict=True)))
            taken = [max(a, b) for a, b in zip(taken, rows[-1], strict=True)]
        rows.append(tuple(1 - a for a in taken))
        labels = [*(f"is {i}" for i in range(len(conditions))), "else"]
        phrases = {f"{title} {label}": row for label, row in zip(labels, rows, strict=True)}
        return title, f"{text} ELSE 'else' END", (min(places), rows), phrases


def having(found: Described, **common: Any) -> Described:
    """The same with a name, a weight or a target, in all of its forms."""
    python = None if found.python is None else found.python.having(**common)
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in common.items()}
    return replace(found, python=python, toml=found.toml | plain, name=common.get("name", found.name))
