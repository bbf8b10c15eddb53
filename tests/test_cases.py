"""Several conditions in one query: a row each, with a label of one's own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.app.sql import queries_from_sql
from leastnoise.core.errors import QueryError, SpecError, UnrecordedSpending
from leastnoise.query import Cases, query_from_dict
from support import extra, refuses

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"), smoker=("yes", "no"))
LIFE = {"young": "age < 2", "grown": "2 <= age < 5", "old": "age >= 5"}


def test_every_row_is_the_count_of_its_condition() -> None:
    """The second route asks each condition by itself."""
    x = np.random.default_rng(3).permutation(SCHEMA.n_cells)
    cases = LIFE | {"women or smokers": "sex == 'F' or smoker == 'yes'", "nearly all": "age != 3"}
    query = Cases(cases)
    single = [int(ln.Where(words).operator(SCHEMA).apply(x).item()) for words in cases.values()]
    assert query.operator(SCHEMA).apply(x).tolist() == single
    assert list(query.labels(SCHEMA)) == list(cases)
    crossed = Cases(LIFE) * ln.Marginal("sex")
    assert crossed.operator(SCHEMA).apply(x).reshape(3, 2).sum(axis=1).tolist() == single[:3]


def test_headings_and_labels() -> None:
    query = Cases(LIFE, heading="life")
    assert list(query.labels(SCHEMA)) == ["life young", "life grown", "life old"]
    (factor,) = query.factors(SCHEMA) or [None]
    assert factor is not None and factor.title == "life" and list(factor.labels) == list(LIFE)
    (factor,) = Cases(LIFE).factors(SCHEMA) or [None]
    assert factor is not None and factor.title == "age"
    assert (query.title(), Cases(LIFE).title()) == ("life", "age cases")
    assert list(query_from_dict(json.loads(json.dumps(query.to_dict(), sort_keys=True))).labels(SCHEMA)) == [
        "life young",
        "life grown",
        "life old",
    ]
    assert query_from_dict(query.to_dict()) == query == Cases(list(LIFE.items()), "life")


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Cases({}), ("cases", {})),
        (lambda: Cases("age < 3"), ("cases", "age < 3")),
        (lambda: Cases({"a": 3}), ("cases", ("a", 3))),
        (lambda: Cases({"": "age < 3"}), ("cases", ("", "age < 3"))),
        (lambda: Cases([("a", "age < 3", "b")]), ("cases", ("a", "age < 3", "b"))),
        (lambda: Cases([("a", "age < 3"), ("a", "age > 3")]), ("cases", "a")),
        (lambda: Cases({"a": "age <"}), ("condition", "")),
        (lambda: Cases(LIFE, heading=""), ("heading", "")),
        (lambda: Cases({"a": "agee < 3"}).operator(SCHEMA), ("attribute", "agee")),
        (lambda: Cases(LIFE, heading="sex").operator(SCHEMA), ("heading", "sex")),
        (lambda: (Cases(LIFE) * ln.Prefix("age")).operator(SCHEMA), ("attribute", "age")),
        (lambda: (Cases(LIFE, "x") * Cases({"f": "sex == 'F'"}, "x")).operator(SCHEMA), ("heading", "x")),
    ],
)
def test_what_are_no_cases_is_refused(make: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(QueryError, *refusal):
        make()


def test_cases_that_no_memory_holds_are_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leastnoise.query.queries.conditions.MAX_CASE_ENTRIES", 17)
    with refuses(QueryError, "cases", 3):
        Cases(LIFE).operator(SCHEMA)
    monkeypatch.setattr("leastnoise.query.queries.conditions.MAX_CASE_ENTRIES", 18)
    assert Cases(LIFE).operator(SCHEMA).shape == (3, SCHEMA.n_cells)


SPEC = """
[schema]
age = { range = [0, 6] }
smoker = ["yes", "no"]
[privacy]
mu = 1
[[query]]
kind = "cases"
name = "by life"
heading = "life"
cases = { young = "age < 2", old = "age >= 2" }
[[query]]
sql = \"\"\"
  SELECT CASE WHEN age < 2 THEN 'young' ELSE 'old' END AS life, COUNT(*) AS smokers
  FROM people
  WHERE smoker = 'yes'
  GROUP BY life
\"\"\"
"""


def test_a_specification_holds_cases_and_sql_with_quotes() -> None:
    spec = parse_spec(SPEC)
    assert parse_spec(spec.to_toml()).queries == spec.queries
    assert [list(query.labels(spec.schema)) for query in spec.queries] == [
        ["life young", "life old"],
        ["life young, smoker == 'yes'", "life old, smoker == 'yes'"],
    ]
    with refuses(SpecError, "query[0].condition", ""):
        parse_spec(SPEC.replace(">= 2", ">="))


def test_names_that_one_sql_text_gives_differ() -> None:
    spec = SPEC.split("[[query]]")[0]
    thrice = "; ".join(["SELECT COUNT(*) FROM p"] * 3)
    found = parse_spec(f'{spec}[[query]]\nname = "x"\nsql = "{thrice}"\n').queries
    assert [query.name for query in found] == ["x: total", "x: total (2)", "x: total (3)"]


# ---------------------------------------------------------------- what comes out


def test_a_release_of_buckets_is_one_table() -> None:
    """A CASE used to become a query of its own for each group, and conditions shared one column name."""
    extra("pandas")
    sql = """
        SELECT CASE WHEN age < 2 THEN 'young' ELSE 'old' END AS life, COUNT(*) AS n
        FROM people WHERE sex = 'F' AND smoker = 'yes' GROUP BY life
    """
    (query,) = queries_from_sql(sql, SCHEMA)
    plan = ln.design(ln.assemble([query], SCHEMA), ln.GDP(1))
    x = np.arange(SCHEMA.n_cells)
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, x)
    frame = release["n"]
    assert frame.index.names == ["life", "where sex", "where smoker"]
    flat = frame.reset_index()  # which pandas refuses where two columns share a name
    assert list(flat["life"]) == ["young", "old"]
    assert set(flat["where sex"]) == {"sex == 'F'"}


def test_rows_of_buckets_are_those_of_the_database() -> None:
    """Label by label, so that no count stands in another's row."""
    duckdb = pytest.importorskip("duckdb")
    counts = np.random.default_rng(8).permutation(SCHEMA.n_cells) + 1
    sql = """
        SELECT CASE WHEN age < 2 THEN 'young' WHEN smoker = 'yes' THEN 'smoker' END AS life, sex,
               age > 3 AS late, COUNT(*) AS n
        FROM people WHERE age <> 4 OR sex = 'F' GROUP BY life, sex, late
    """
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE people (age INTEGER, sex VARCHAR, smoker VARCHAR)")
        cells = [(a, s, k) for a in range(6) for s in "FM" for k in ("yes", "no")]
        rows = [cell for cell, n in zip(cells, counts, strict=True) for _ in range(n)]
        engine.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        found = engine.execute(sql).fetchall()
    theirs = {
        f"life {life or 'none'}, late {str(late).lower()}, sex {sex}, age != 4 or sex == 'F'": n
        for life, sex, late, n in found
    }
    (query,) = queries_from_sql(sql, SCHEMA)
    ours = dict(zip(query.labels(SCHEMA), query.operator(SCHEMA).apply(counts), strict=True))
    assert {label: int(n) for label, n in ours.items() if n} == theirs
