"""Random requests: a schema, records, queries, a method, an objective and a privacy goal, each from one seed.

The truth is counted here, record by record, before anything is handed to the library.
"""

from __future__ import annotations

import csv
import json
import math
import random
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import UnrecordedSpending
from oracle_attributes import NAMES, Attribute, drawn_attribute
from oracle_conditions import Cell
from oracle_queries import Described, Maker, Row, having

METHODS = [method.name for method in ln.methods().methods]
# Those whose answers depend on the data are biased: only their shapes and labels are judged.
DATA_DEPENDENT = ("dawa", "mwem", "buckets")
# Seconds a design may take by a slow method, or over more cells than these. Others have no limit: under one,
# "residuals" does not tie axes together, which reorders them.
TIME_LIMIT = 1.0
MOST_UNLIMITED = 36
SLOW = ("sdp", "smii", "smoothing", "lowrank", "p-identity")
# Cells that a schema may have, as a rule; other cells and a large attribute add to them.
ROOMS = (12, 24, 24, 60, 60, 120, 250)
N_ATTRIBUTES = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6)
# The column that says whose record is whose.
PERSON = "person id"


# Here, because `oracle` is a module of its own where it is run as a script, with an error of its own.
class Refused(Exception):
    """The library refused the request by an error of its own."""


@dataclass(frozen=True)
class Case:
    """One request and its truth.

    Attributes:
        counts: how many records each probe has, zero for those that are there for their labels.
        rows: what each published row counts, over the probes.
        source: a vector of counts, or records as (columns, rows).
        goal: a privacy goal by its name, with its numbers; None where targets take its place.
        route: "python", "toml" or "sql".
    """

    seed: str
    attributes: tuple[Attribute, ...]
    probes: tuple[Cell, ...]
    counts: tuple[int, ...]
    queries: tuple[Described, ...]
    source: Any
    kind_of_source: str
    goal: tuple[str, dict[str, Any]] | None
    method: str
    objective: str | None
    route: str
    is_quiet: bool

    @property
    def n_cells(self) -> int:
        return math.prod(attribute.size for attribute in self.attributes)

    @property
    def time_limit(self) -> float | None:
        is_slow = self.method in SLOW or (self.goal is not None and self.goal[0] == "PureDP")
        return TIME_LIMIT if is_slow or self.n_cells > MOST_UNLIMITED else None

    @property
    def has_person(self) -> bool:
        return self.kind_of_source != "vector" and PERSON in self.source[0]

    def truth(self, row: Row) -> float:
        return sum(a * n for a, n in zip(row, self.counts, strict=True))

    def __str__(self) -> str:
        asked = [query.sql or query.toml for query in self.queries]
        declared = {a.name: a.plain() for a in self.attributes}
        how = f"{self.method}, {self.objective}, {self.goal}, {self.route}, {self.kind_of_source}"
        return f"{how}\n    schema {declared}\n    asked {asked}"


# -------------------------------------------------------------------------------- drawing


def drawn(seed: int, number: int, *, is_quiet: bool = True) -> Case:
    """Case `number` of a seed; quiet ones are released nearly without noise."""
    name = f"{seed}:{number}"
    rng = random.Random(f"{name}:{'quiet' if is_quiet else 'noisy'}")
    goal = _goal(rng, is_quiet)
    is_large = goal[0] != "PureDP" and rng.random() < 0.04
    # Unions of products are where axes, factors and rows are put into other orders.
    is_crossed = goal[0] != "PureDP" and rng.random() < 0.3
    # Intervals of Laplace noise are dear: pure cases are small.
    room = rng.choice([6, 12, 24, 48] if goal[0] == "PureDP" else [18, 24, 36, 250] if is_crossed else ROOMS)
    attributes = _attributes(rng, is_large, room, rng.choice([3, 3, 4] if is_crossed else N_ATTRIBUTES))
    n_cells = math.prod(attribute.size for attribute in attributes)
    cells = _cells(rng, attributes, n_cells)
    kind = rng.choice(["vector"] * 6 + ["frame", "frame", "csv"])
    # In a file of one column, a line that holds nothing would be no record.
    if n_cells > 20_000 or (kind == "csv" and len(attributes) == 1):
        kind = "frame"
    source: Any
    if kind == "vector":
        numbers = rng.sample(range(10 if is_quiet else 0, 100_000), len(cells))
        counted = dict(zip(cells, numbers, strict=True))
    else:
        source, counted = _records(rng, attributes, cells, goal)
    extra = [_cell(rng, attributes) for _ in range(12)]
    probes = tuple(dict.fromkeys([*cells, *extra]))
    counts = tuple(counted.get(probe, 0) for probe in probes)
    method = _method(rng, goal[0], n_cells)
    if is_crossed and rng.random() < 0.7:
        method = rng.choice(["residuals", "residuals", "joint"])
    style = "crossed" if is_crossed else "any"
    if method in ("marginals", "datacube", "fourier") and rng.random() < 0.9:
        style = "tables"
    maker = Maker(rng, attributes, probes, n_cells, style)
    if kind == "vector":
        source = [0] * n_cells
        for cell, n in counted.items():
            source[maker.index_of(cell)] = n
    route = rng.choice(["python"] * 5 + ["toml", "toml", *([] if is_crossed else ["sql", "sql"])])
    n_queries = rng.choice([2, 2, 3] if is_crossed else [1, 1, 2, 2, 3, 3, 4, 5])
    if is_large:
        n_queries = min(n_queries, 3)
    if method == "product":
        n_queries = 1
    make = maker.statement if route == "sql" else maker.query
    queries = [make(i) for i in range(n_queries)]
    if goal[0] != "PureDP" and route != "sql" and rng.random() < 0.2:
        queries = [_with_target(rng, query, is_quiet) if rng.random() < 0.7 else query for query in queries]
    has_targets = any(set(query.toml) & {"stderr", "within"} for query in queries)
    if method in ("residuals", "joint") and any(query.toml.get("kind") == "linear" for query in queries):
        method = "dense"
    objectives = [None, None, None, "max-variance", "total-variance", "absolute-error"]
    objective = rng.choice(objectives) if not is_large else None
    if has_targets:
        objective = rng.choice([None, None, "targets", "total-variance", "total-variance-within-targets"])
    has_goal = not (has_targets and objective in (None, "targets") and not goal[1].keys() & FURTHER)
    return Case(
        name,
        attributes,
        probes,
        counts,
        tuple(queries),
        source,
        kind,
        goal if has_goal or rng.random() < 0.7 else None,
        method,
        objective,
        route,
        is_quiet,
    )


FURTHER = {"neighbours", "records_per_person"}


def _attributes(rng: random.Random, is_large: bool, room: int, n: int) -> tuple[Attribute, ...]:
    names = rng.sample(NAMES, n)
    sizes = []
    for _ in names:
        size = rng.choice([1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8])
        sizes.append(max(1, min(size, room)))
        room //= sizes[-1]
    rng.shuffle(sizes)
    if is_large:
        sizes[rng.randrange(n)] = rng.choice([rng.randint(130, 230), rng.randint(520, 640)])
    return tuple(drawn_attribute(rng, name, size) for name, size in zip(names, sizes, strict=True))


def _cell(rng: random.Random, attributes: tuple[Attribute, ...]) -> Cell:
    return tuple(rng.randrange(attribute.size) for attribute in attributes)


def _cells(rng: random.Random, attributes: tuple[Attribute, ...], n_cells: int) -> list[Cell]:
    """The cells that hold records: all of a small schema, some of a large one."""
    found: list[Cell] = [()]
    if n_cells <= 40:
        for attribute in attributes:
            found = [(*cell, i) for cell in found for i in range(attribute.size)]
        return found
    return list(dict.fromkeys(_cell(rng, attributes) for _ in range(40)))


def _records(
    rng: random.Random, attributes: tuple[Attribute, ...], cells: list[Cell], goal: tuple[str, dict[str, Any]]
) -> tuple[tuple[list[str], list[list[Any]]], dict[Cell, int]]:
    """A table with records of these cells and some that do not count; and how many count in each."""
    is_text = rng.random() < 0.5
    most = goal[1].get("records_per_person", 1)
    numbers = rng.sample(range(1, 3 * len(cells) + 40), len(cells))
    rows: list[list[Any]] = []
    counted = dict(zip(cells, numbers, strict=True))
    for cell, n in counted.items():
        rows += [[a.raw(rng, i) for a, i in zip(attributes, cell, strict=True)] for _ in range(n)]
    for attribute_place in range(len(attributes)):
        for _ in range(rng.randint(0, 3)):
            row = [a.raw(rng, i) for a, i in zip(attributes, _cell(rng, attributes), strict=True)]
            try:
                row[attribute_place] = attributes[attribute_place].stray(rng)
            except LookupError:
                break
            rows.append(row)
    columns = [attribute.name for attribute in attributes]
    if most > 1 and rng.random() < 0.8:
        columns, rows, counted = _with_people(rng, columns, rows, counted, attributes, most)
    rng.shuffle(rows)
    for place in range(len(columns)):
        own = {type(row[place]) for row in rows}
        # A column of several types holds text, as a file does; a null is no text.
        if is_text or not (own <= {int} or own <= {str} or own <= {int, float}):
            for row in rows:
                row[place] = None if row[place] is None else str(row[place])
    return (columns, rows), counted


def _with_people(
    rng: random.Random,
    columns: list[str],
    rows: list[list[Any]],
    counted: dict[Cell, int],
    attributes: tuple[Attribute, ...],
    most: int,
) -> tuple[list[str], list[list[Any]], dict[Cell, int]]:
    """The same records, each somebody's; and people with too many, all alike, of which `most` count."""
    people: list[Any] = []
    while len(people) < len(rows):
        people += [f"p{len(people)}"] * rng.randint(1, most)
    found = [[*row, person] for row, person in zip(rows, people, strict=False)]
    counted = dict(counted)
    for cell in rng.sample(sorted(counted), min(3, len(counted))):
        row = [a.raw(rng, i) for a, i in zip(attributes, cell, strict=True)]
        found += [[*row, f"too many {cell}"]] * (most + rng.randint(1, 3))
        found += [[*row, None]] * rng.randint(0, 2)
        counted[cell] += most
    return [*columns, PERSON], [list(row) for row in found], counted


def _goal(rng: random.Random, is_quiet: bool) -> tuple[str, dict[str, Any]]:
    name = rng.choice(["GDP"] * 5 + ["ApproxDP", "ZCDP", "PureDP", "PureDP"])
    numbers: dict[str, Any] = {
        "GDP": {"mu": 1e5 if is_quiet else rng.choice([0.5, 1, 2])},
        "ApproxDP": {"epsilon": 1e8 if is_quiet else 1.0, "delta": 0.01 if is_quiet else 1e-6},
        "ZCDP": {"rho": 5e9 if is_quiet else 0.125},
        "PureDP": {"epsilon": 1e5 if is_quiet else 1.0},
    }[name]
    if rng.random() < 0.2:
        numbers = numbers | {"neighbours": "replace-one"}
    if rng.random() < 0.2:
        numbers = numbers | {"records_per_person": rng.choice([2, 3])}
    return name, numbers


def _with_target(rng: random.Random, query: Described, is_quiet: bool) -> Described:
    size = rng.choice([1e-3, 3e-3, 1e-2]) if is_quiet else rng.choice([10.0, 40.0, 100.0])
    way = rng.randrange(4)
    if way == 0:
        return having(query, within=(2 * size, 0.95))
    if way == 1:
        return having(query, expected=100 * size, stderr="1%")
    if way == 2:
        sizes = [100 * size * rng.choice([1, 2]) for _ in range(query.n_rows)]
        return having(query, expected=sizes, stderr="1%")
    return having(query, stderr=size)


def _method(rng: random.Random, goal: str, n_cells: int) -> str:
    if goal == "PureDP":
        named = ["p-identity", "identity", "workload", "hierarchical", "wavelet", "fourier", "datacube"]
        named += ["weighted-basis", "lowrank", "product", "marginals", *DATA_DEPENDENT]
        return "auto" if rng.random() < 0.05 else rng.choice(named)
    if n_cells > 300:
        return rng.choice(["auto", "auto", "residuals", "residuals", "product", "marginals", "identity"])
    if rng.random() < 0.35:
        return "auto"
    if rng.random() < 0.35:
        return "residuals"
    named = [name for name in METHODS if name not in (*DATA_DEPENDENT, *SLOW)]
    return rng.choice(SLOW) if rng.random() < 0.04 else rng.choice([*named, "product", "marginals"])


# -------------------------------------------------------------------------------- handing over


def designed(case: Case) -> Any:
    """The plan, by the case's route."""
    goal = None if case.goal is None else getattr(ln, case.goal[0])(**case.goal[1])
    objectives: dict[str | None, Any] = {
        None: None,
        "absolute-error": ln.AbsoluteError(),
        "max-variance": ln.MaxVariance(),
        "total-variance": ln.TotalVariance(),
        "total-variance-within-targets": ln.TotalVariance(within_targets=True),
        "targets": ln.Targets(),
    }
    if case.route == "toml":
        spec = parse_spec(specification(case))
        return ln.design(spec.workload, spec.privacy, **spec.design_settings())
    schema = ln.Schema({attribute.name: attribute.declared() for attribute in case.attributes})
    if case.route == "sql":
        queries = ln.queries_from_sql(";\n".join(str(query.sql) for query in case.queries), schema)
    else:
        queries = [query.python for query in case.queries]
    workload = ln.assemble(queries, schema)
    objective = objectives[case.objective]
    return ln.design(workload, goal, objective=objective, method=case.method, time_limit=case.time_limit)


def measured(case: Case, plan: Any, folder: Path) -> ln.Release:
    """A release of the case's records, by the one private step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(plan, handed_over(case, plan, folder))


def handed_over(case: Case, plan: Any, folder: Path) -> Any:
    """The records, as the library takes them."""
    if case.kind_of_source == "vector":
        return list(case.source)
    columns, rows = case.source
    source: Any = written_csv(case, folder)
    if case.kind_of_source == "frame":
        import pandas as pd

        source = pd.DataFrame({name: [row[i] for row in rows] for i, name in enumerate(columns)})
    if case.has_person:
        return ln.vectorize(source, plan.workload.schema, person=PERSON)
    return source


def written_csv(case: Case, folder: Path) -> Path:
    """The records as a file."""
    columns, rows = case.source
    path = folder / "records.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(["" if value is None else value for value in row] for row in rows)
    return path


def specification(case: Case) -> str:
    """The request as a specification file."""
    lines = ["[schema]"]
    lines += [f"{json.dumps(a.name, ensure_ascii=False)} = {_toml(a.plain())}" for a in case.attributes]
    if case.goal is not None:
        lines += ["", "[privacy]"] + [f"{key} = {_toml(value)}" for key, value in case.goal[1].items()]
        lines += [f'person = "{PERSON}"'] if case.has_person else []
    for query in case.queries:
        lines += ["", "[[query]]"] + [f"{key} = {_toml(value)}" for key, value in query.toml.items()]
    lines += ["", "[design]", f"method = {_toml(case.method)}"]
    lines += [f"time_limit = {case.time_limit}"] if case.time_limit else []
    lines += [f"objective = {_toml(case.objective)}"] if case.objective else []
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{json.dumps(key, ensure_ascii=False)} = {_toml(own)}" for key, own in value.items())
        return "{ " + ", ".join(inside) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def expected_rows(case: Case) -> list[Row]:
    """What every published row counts, where rows come in the order asked."""
    return [row for query in case.queries for row in query.rows(len(case.probes))]


def multiset(rows: list[Row]) -> Counter[Row]:
    """Rows without an order, those that count nobody left out."""
    return Counter(row for row in rows if any(row))
