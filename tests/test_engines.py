"""The same counts in every engine, to the last record: DuckDB, Spark and PostgreSQL as they really run."""

from __future__ import annotations

import atexit
import decimal
import functools
import itertools
import json
import logging
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pytest
from hypothesis import given, settings

from leastnoise.core.errors import (
    DataError,
    DataUnavailableError,
    LeastnoiseError,
    MissingExtraError,
    SchemaError,
    TooLargeError,
)
from leastnoise.data import Data, engines, vectorize
from leastnoise.data import spark as spark_room
from leastnoise.data import table_cover as blocks
from leastnoise.data.counting import Question
from leastnoise.data.people import Person
from leastnoise.data.postgres import PostgresTable
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.query import Bins, Categories, Cleaning, Hierarchy, Integers, Periods, Schema
from oracle_cleaning import CASES, cell, odd
from oracle_dates import ZONES, Case, day_of_moment, day_of_text, odd_text
from postgres_server import Server, missing
from support import extra, refuses
from test_data import CAREFUL, PEOPLE, Table, brute_force, people, schemas_with_tables
from test_not_counted import counts_as_by_hand, random_table
from test_person import earliest, until, visits

pytestmark = [
    # One worker starts Spark and PostgreSQL, and only one.
    pytest.mark.xdist_group("engines"),
    # PySpark leaves sockets to the garbage collector, and calls what pandas 3 deprecates.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(ibis|pyspark).*"),
]

CANARY = "canary7316"
# A table in plain Python: for each column its type and its values, as in test_data, with more types.
KINDS = {
    "text": {"duckdb": "VARCHAR", "postgres": "text", "pyspark": "STRING"},
    "int": {"duckdb": "BIGINT", "postgres": "bigint", "pyspark": "BIGINT"},
    "small": {"duckdb": "SMALLINT", "postgres": "smallint", "pyspark": "SMALLINT"},
    "float": {"duckdb": "DOUBLE", "postgres": "double precision", "pyspark": "DOUBLE"},
    "single": {"duckdb": "FLOAT", "postgres": "real", "pyspark": "FLOAT"},
    "decimal": {"duckdb": "DECIMAL(20, 2)", "postgres": "numeric(20, 2)", "pyspark": "DECIMAL(20, 2)"},
    "wide": {"duckdb": "DECIMAL(38, 0)", "postgres": "numeric(38, 0)", "pyspark": "DECIMAL(38, 0)"},
    "bool": {"duckdb": "BOOLEAN", "postgres": "boolean", "pyspark": "BOOLEAN"},
    "date": {"duckdb": "DATE", "postgres": "date", "pyspark": "DATE"},
    "timestamp": {"duckdb": "TIMESTAMP", "postgres": "timestamp", "pyspark": "TIMESTAMP_NTZ"},
    "moment": {"duckdb": "TIMESTAMPTZ", "postgres": "timestamptz", "pyspark": "TIMESTAMP"},
}


# ------------------------------------------------------------------ engines, started here


@pytest.fixture(scope="session")
def postgres(server: Server) -> Any:
    return server.connect()


@pytest.fixture(scope="session")
def embedded() -> Any:
    return extra("ibis").duckdb.connect()


@pytest.fixture(params=["duckdb", "pyspark", "postgres"])
def engine(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn, as Ibis connects to it."""
    fixture = {"duckdb": "embedded", "pyspark": "spark", "postgres": "postgres"}[request.param]
    return request.getfixturevalue(fixture)


# ------------------------------------------------------------------ one table in many engines

fresh = (f"t{i}" for i in itertools.count())


def quoted(name: str, sign: str = '"') -> str:
    return sign + name.replace(sign, 2 * sign) + sign


def relation(table: Table) -> Any:
    """The table in the embedded engine, without Ibis."""
    connection = duckdb.connect()
    columns = [
        f"unnest($v{k}::VARCHAR[])::{KINDS[kind]['duckdb']} AS {quoted(name)}"
        for k, (name, (kind, _)) in enumerate(table.items())
    ]
    values = {f"v{k}": [_written(v) for v in given] for k, (_, given) in enumerate(table.values())}
    connection.execute(f"CREATE TABLE given AS SELECT {', '.join(columns)}", values)
    return connection.table("given")


def _written(value: Any) -> str | None:
    return None if value is None else repr(value) if isinstance(value, float) else str(value)


def loaded(engine: Any, table: Table) -> Any:
    """The table in an engine, as an Ibis table."""
    name = next(fresh)
    if engine.name == "postgres":
        columns = ", ".join(f"{quoted(c)} {KINDS[kind]['postgres']}" for c, (kind, _) in table.items())
        rows = list(zip(*(values for _, values in table.values()), strict=True))
        with engine.con.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE {name} ({columns})")
            if rows:
                cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(table))})", rows)
        engine.con.commit()
    elif engine.name == "pyspark":
        folder = Path(tempfile.mkdtemp(prefix="leastnoise-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        relation(table).write_parquet(str(folder / "t.parquet"))
        frame = engine._session.read.parquet(str(folder))
        casts = [f"CAST({quoted(c, '`')} AS {KINDS[kind]['pyspark']})" for c, (kind, _) in table.items()]
        chosen = [f"{cast} AS {quoted(column, '`')}" for cast, column in zip(casts, table, strict=True)]
        frame.selectExpr(*chosen).createOrReplaceTempView(name)
    else:
        engine.con.register(f"source_{name}", relation(table).to_arrow_table())
        engine.con.execute(f"CREATE TEMP TABLE {name} AS FROM source_{name}")
        engine.con.unregister(f"source_{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return engine.table(name)


def agrees(engine: Any, table: Table, schema: Schema) -> None:
    """The engine, the embedded engine and a loop over the records say the same."""
    expected = brute_force(table, schema)
    assert vectorize(relation(table), schema).vector().tolist() == expected.ravel().tolist()
    found = vectorize(loaded(engine, table), schema).vector()
    assert found.dtype == np.int64
    assert found.tolist() == expected.ravel().tolist()


@pytest.mark.thorough
def test_people_are_counted_alike(engine: Any) -> None:
    for schema in (PEOPLE, CAREFUL):
        agrees(engine, people(), schema)
        agrees(engine, people(0), schema)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_periods_are_counted_alike(engine: Any, seed: int) -> None:
    """Texts, dates, timestamps, moments and numbers, each by what the standard library says of it."""
    rng = random.Random(seed)
    case = Case(rng)
    texts = [rng.choice([None, odd_text(rng)]) for _ in range(400)]
    days = case.days(rng, 400)
    times = [
        None if day is None else datetime(day.year, day.month, day.day, rng.choice([0, 23]), 59, 59, 999_999)
        for day in days
    ]
    # With a day to spare for any zone.
    moments = [
        time if time is None or not 2 < time.year < 9998 else time.replace(tzinfo=UTC) for time in times
    ]
    moments = [moment if moment is None or moment.tzinfo else None for moment in moments]
    zoned = Case(rng)
    zoned.zone = rng.choice(ZONES[1:])
    zoned.periods = Periods(zoned.first, zoned.last, zoned.by, zone=zoned.zone, **zoned.policies)
    years = [rng.choice([None, 2024, 2025, 2026, 25, -2024, 20_250_101]) for _ in range(400)]
    whole = Periods("2024", "2026", by="year", other="?", null="other")
    held: Table = {
        "t": ("text", texts),
        "d": ("date", days),
        "s": ("timestamp", times),
        "m": ("moment", moments),
        "i": ("int", years),
        "f": ("float", [None if year is None else year + rng.choice([0.0, 0.5]) for year in years]),
        "w": ("wide", [None if year is None else Decimal(year) for year in years]),
    }
    table = loaded(engine, held)
    expected = {
        "t": (case.periods, case.counts(texts, day_of_text)),
        "d": (case.periods, case.counts(days, lambda day, by, zone: day)),
        "s": (case.periods, case.counts(times, lambda time, by, zone: time.date())),
        "m": (zoned.periods, zoned.counts(moments, day_of_moment)),
    }
    for name in "ifw":
        placed = [whole.place(value) for value in held[name][1]]
        expected[name] = (whole, [placed.count(i) for i in range(whole.size)])
    assert expected["i"][1] == [
        years.count(2024),
        years.count(2025),
        years.count(2026),
        400 - sum(expected["i"][1][:3]),
    ]
    for name, (periods, counts) in expected.items():
        assert vectorize(table, Schema({name: periods})).vector().tolist() == counts, name


@pytest.mark.thorough
def test_texts_and_numbers_are_cleaned_alike(engine: Any) -> None:
    """Every case of cleaning, by plain loops over letters; and words for numbers that are no text."""
    rng = random.Random(5)
    texts = [odd(rng) for _ in range(500)]
    made = {f"a{k}": (make(Cleaning(**clean)), clean) for k, (make, clean) in enumerate(CASES)}
    whole = [rng.choice([None, 0, 7, 12, 99, 1234, -9]) for _ in texts]
    held: Table = dict.fromkeys(made, ("text", texts))
    held |= {"i": ("int", whole), "f": ("float", [None if n is None else float(n) for n in whole])}
    table = loaded(engine, held)
    for name, (attribute, clean) in made.items():
        placed = [cell(text, attribute, clean) for text in texts]
        counts = [placed.count(i) for i in range(attribute.size)]
        assert vectorize(table, Schema({name: attribute})).vector().tolist() == counts, name
    words = {"nulls": ["99"], "synonyms": {"7": "x", "-9": "x"}}
    codes = Categories(["00012", "01234", "x"], clean={"digits": 5, **words})
    ages = Integers(
        range(10), null="other", outside="drop", other="?", clean={"nulls": ["99"], "synonyms": {"12": 9}}
    )
    for name in "if":
        found = vectorize(table, Schema({name: codes})).vector().tolist()
        assert found == [whole.count(12), whole.count(1234), whole.count(7) + whole.count(-9)]
        expected = [
            whole.count(0),
            *[0] * 6,
            whole.count(7),
            0,
            whole.count(12),
            whole.count(99) + whole.count(None),
        ]
        assert vectorize(table, Schema({name: ages})).vector().tolist() == expected


@pytest.mark.thorough
def test_dates_beyond_the_calendar_fail_nowhere(embedded: Any, postgres: Any) -> None:
    """Infinite dates, and those before the year 1 or after 9999, are no dates: they are never clamped."""
    rows = "('infinity'), ('-infinity'), ('0044-03-15 BC'), ('12026-03-15'), ('2026-03-15'), (NULL)"
    periods = Periods("2026-01", "2026-12", outside="clamp", null="other", other="none", zone="UTC")
    for kind in ("date", "timestamp", "timestamptz"):
        for connected in (embedded, postgres):
            name = next(fresh)
            execute = connected.con.execute
            bc = rows if connected is postgres else rows.replace("0044-03-15 BC", "0044-03-15 (BC)")
            execute(f"CREATE TEMP TABLE {name} (d {kind})")
            execute(f"INSERT INTO {name} SELECT CAST(x AS {kind}) FROM (VALUES {bc}) AS t(x)")
            if connected is postgres:
                connected.con.commit()
            found = vectorize(connected.table(name), Schema(d=periods)).vector()
            assert found.tolist() == [0, 0, 1, *[0] * 9, 1]
            if connected is embedded:
                relation = connected.con.table(name)
                assert vectorize(relation, Schema(d=periods)).vector().tolist() == found.tolist()


NUMBER_TEXTS = [
    *("18", "18.0", "1.8e1", "+18", "-0", "0018", "18.", ".5", "5.e-1", "18e0", "180E-1", "2e1"),
    *(" 18", "18 ", "18\n", "\n18", "18\r\n", "1_8", "0x12", "18.5", "nan", "NaN", "inf", "-Infinity"),
    *("+inf", "INF", "1e999", "-1e999", "1e-999", "-1e-400", "1e400000", "1e-400000", "0e99999999", ""),
    *("9" * 17, "9" * 18, "9" * 19, "1" + "0" * 18, "-" + "9" * 60, "0" * 60 + "7", "1e18", "1e17", "1e20"),
    *("100000000000000000000", "1.7976931348623158e308", "1.7976931348623159e308", "2.5e-324", "2.4e-324"),
    *("5e-324", "0.1", "0.1000000000000000055511151231257827021181583404541015625", "9007199254740993", "７"),
    *(
        "1e5",
        "1e05",
        "1e+5",
        "1E5",
        "1e",
        "e5",
        ".",
        "+",
        "-",
        "--1",
        "1.2.3",
        "Infinityx",
        "١٨",
        "true",
        None,
    ),
]
FLOATS = [
    *(0.0, -0.0, 1.0, 18.0, 18.5, 0.1, math.nextafter(18, 19), 1e17, 1e18, 1e20, 2.0**53, 2.0**62, 2.0**63),
    *(-(2.0**63), 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, None, 1e16, 1e-5, 123456789.25),
]
WHOLE = [None, 0, 1, -1, 18, 2**53 + 1, 10**18, -(10**18), 2**63 - 1, -(2**63), 7, 100]
DECIMALS = [Decimal(text) for text in ("0.00", "18.00", "18.50", "-1.00", "0.10", "999999999999999999.99")]
SCHEMAS = {
    "range": range(0, 40, 2),
    "clamped": Integers(range(-3, 19, 3), outside="clamp", null="other", other="?"),
    "other": Integers(range(5, 20), outside="other", null="drop", other="?"),
    "far": Integers(range(2**63 - 3, 2**63 + 3), outside="other", other="?"),
    "numbers": Categories([18, 0, -1, 10**20, 2**53 + 1, -(2**63), 7, 10**18, 10**17, 999999999999999999]),
    "texts": Categories(
        [
            "18",
            "18.0",
            "0",
            "0.1",
            "inf",
            "-inf",
            "1e+16",
            "1e-05",
            "true",
            "18.00",
            "0.10",
            "",
            "18\n",
            "nan",
        ],
        null="other",
        other="?",
    ),
    "bins": Bins([-5, 0, 0.1, 18, 18.5, 2**53 + 1, 1e300]),
    "open bins": Bins([-math.inf, 0, 1, math.inf], null="other", outside="drop", other="?"),
    "clamped bins": Bins([0, 0.1, 18], outside="clamp"),
    "tree": Hierarchy({"few": ["0", "1"], "many": {"teens": ["18"], "rest": ["2024-02-29"]}}, other="?"),
}
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "text": ("text", [*NUMBER_TEXTS, *["18"] * 2]),
    "float": ("float", FLOATS),
    "int": ("int", WHOLE),
    "small": ("small", [None, 0, 1, 18, -1, 32767]),
    "decimal": ("decimal", [None, *DECIMALS, -DECIMALS[-1]]),
    "wide": ("wide", [None, 0, 18, -1, 10**20, 10**37, 10**18, 2**63 - 1, 2**63 + 1]),
    "bool": ("bool", [True, False, None, True]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("column", COLUMNS)
def test_every_value_is_placed_alike(engine: Any, column: str) -> None:
    """One column under all schemas at once; each of its records counts in its own cell of each."""
    kind, values = COLUMNS[column]
    table: Table = {"row": ("int", list(range(len(values)))), column: (kind, values)}
    source = loaded(engine, table)
    native = relation(table)
    # Narrow integers and truth values go the way of other types, and need not try everything in Spark.
    is_brief = engine.name == "pyspark" and column in ("small", "bool")
    for attribute in [SCHEMAS[name] for name in (("range", "texts", "bins") if is_brief else SCHEMAS)]:
        schema = Schema(**{"row": range(len(values)), column: attribute})
        expected = brute_force(table, schema).ravel().tolist()
        assert vectorize(native, schema).vector().tolist() == expected, attribute
        assert vectorize(source, schema).vector().tolist() == expected, attribute


def test_single_floats_are_written_out_shortest(engine: Any) -> None:
    values = [None, 0.0, 0.1, 0.5, 1e10, 16777216.0, 1e-5, math.inf, math.nan]
    table: Table = {"x": ("single", values)}
    schema = Schema(x=Categories(["0.1", "0.5", "10000000000", "16777216", "1e-05", "inf"], other="?"))
    native = vectorize(relation(table), schema).vector()
    assert native.tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert vectorize(loaded(engine, table), schema).vector().tolist() == native.tolist()


@pytest.mark.thorough
def test_dates_are_their_text(engine: Any) -> None:
    days = [date(2024, 2, 29), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None]
    table: Table = {"day": ("date", days)}
    for declared in (["2024-02-29", "0001-01-01", "2024-2-29", "2023-02-29"], ["9999-12-31", "x"]):
        agrees(engine, table, Schema(day=Categories(declared, null="other", other="?", outside="drop")))


def test_a_name_may_hold_any_sign(engine: Any) -> None:
    """Spark reads a point as the way to a part of a record."""
    for name in ("a.b", "0.", "a b", "a`b", 'a"b', "a'b", "c1"):
        agrees(engine, {name: ("int", [0, 1, 1])}, Schema({name: range(2)}))


LOOK_ALIKES = [
    "F",
    "f",
    "F ",
    " F",
    "Ｆ",
    "é",
    "e\u0301",
    "ss",
    "ß",
    "ﬁ",
    "fi",
    "",
    "I",
    "ı",
    "i",
    "'",
    '"',
    "\\",
]


@pytest.mark.thorough
def test_text_is_compared_by_its_bytes(engine: Any) -> None:
    table: Table = {"x": ("text", LOOK_ALIKES * 2)}
    agrees(engine, table, Schema(x=LOOK_ALIKES))
    agrees(engine, table, Schema(x=Categories(["f", "é", "ß", "I"], other="?")))


def collated(engine: Any) -> Any:
    """A column that compares without regard to case, with F, f and G in it, and two persons p and P."""
    values = "(VALUES ('F', 'p'), ('f', 'P'), ('G', 'p'))"
    if engine.name == "postgres":
        engine.raw_sql(
            "CREATE COLLATION IF NOT EXISTS blind (provider = icu, locale = 'und-u-ks-level2', "
            "deterministic = false)"
        ).close()
        sql = f"SELECT a COLLATE blind AS x, b COLLATE blind AS id FROM {values} AS t(a, b)"
    elif engine.name == "pyspark":
        sql = f"SELECT collate(a, 'UTF8_LCASE') AS x, collate(b, 'UTF8_LCASE') AS id FROM {values} AS t(a, b)"
        engine._session.sql(sql).createOrReplaceTempView("collated")
        return engine.table("collated")
    else:
        sql = f"SELECT a COLLATE nocase AS x, b COLLATE nocase AS id FROM {values} AS t(a, b)"
    return engine.sql(sql, schema={"x": "string", "id": "string"})


def check_collations(engine: Any) -> None:
    data = vectorize(collated(engine), Schema(x=("F", "f", "g")), person="id")
    assert data.vector().tolist() == [1, 1, 0]
    assert data.vector(records_per_person=1).sum() == 2


def test_no_collation_is_noticed(engine: Any) -> None:
    check_collations(engine)


def test_an_engine_that_folds_text_is_noticed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = extra("pyarrow.compute")

    def fold(columns: Any) -> Iterator[list[Any]]:
        for own in columns:
            yield [compute.utf8_lower(column) if "string" in str(column.type) else column for column in own]

    # What is sent to executors must call nothing of the tests.
    def columns_of(batches: Any, places: Any) -> Any:
        return fold([batch.column(place) for place in places] for batch in batches)

    monkeypatch.setattr(spark_room, "_columns", columns_of)
    for table in (engines.DuckTable, PostgresTable):
        own = table.batches
        monkeypatch.setattr(table, "batches", lambda *given, own=own: fold(own(*given)))
    with pytest.raises(AssertionError):
        check_collations(engine)


@pytest.mark.thorough
@pytest.mark.parametrize("n_examples", [25])
def test_any_table_is_counted_alike(engine: Any, n_examples: int) -> None:
    n_examples = 10 if engine.name == "pyspark" else n_examples

    @given(drawn=schemas_with_tables())
    @settings(max_examples=n_examples, deadline=None, database=None)
    def check(drawn: tuple[Schema, Table]) -> None:
        schema, table = drawn
        agrees(engine, table, schema)

    check()


# ------------------------------------------------------------------ many tables

SMALL = Schema(a=range(4), b=("x", "y"), c=Bins([0, 1, 5, 9]), d=Categories(["u"], other="?"), e=range(3))


def records(n: int = 300, seed: int = 4) -> Table:
    chance = random.Random(seed)
    return {
        "id": ("text", [chance.choice([None, "", "p,1", *"abcdefgh"]) for _ in range(n)]),
        "a": ("int", [chance.choice([None, -1, 0, 1, 2, 3, 4]) for _ in range(n)]),
        "b": ("text", [chance.choice(["x", "y", "x", "y", "z"]) for _ in range(n)]),
        "c": ("float", [chance.choice([-0.5, 0.0, 0.99, 3.0, 8.5, math.nan]) for _ in range(n)]),
        "d": ("text", [chance.choice(["u", "v", None]) for _ in range(n)]),
        "e": ("int", [chance.randrange(3) for _ in range(n)]),
    }


ALL_SUBSETS = [subset for order in range(6) for subset in itertools.permutations(SMALL.names, min(order, 3))][
    :80
] + [("e", "d", "c", "b", "a"), (), ("a",), ("a",)]


def check_tables(data: Data, x: np.ndarray, k: int | None = None) -> None:
    """Every table is the sum of the full one over what it leaves out, axes in the order asked."""
    tables = data.tables(ALL_SUBSETS, records_per_person=k)
    assert len(tables) == len(ALL_SUBSETS)
    for subset, table in zip(ALL_SUBSETS, tables, strict=True):
        letters = {name: chr(97 + i) for i, name in enumerate(data.schema.names)}
        rule = "".join(letters.values()) + "->" + "".join(letters[name] for name in subset)
        assert table.dtype == np.int64 and table.flags.c_contiguous and table.flags.writeable
        assert table.shape == tuple(data.schema[name].size for name in subset)
        assert np.array_equal(table, np.einsum(rule, x))


@pytest.mark.thorough
def test_many_tables_agree_with_one(engine: Any) -> None:
    source = loaded(engine, records())
    check_tables(vectorize(source, SMALL), brute_force(records(), SMALL))
    own = vectorize(relation(records()), SMALL, person="id").counts(*SMALL.names, records_per_person=2)
    check_tables(vectorize(source, SMALL, person="id"), own, 2)


def test_many_tables_of_the_embedded_engine() -> None:
    for n in (300, 0):
        source = relation(records(n))
        check_tables(vectorize(source, SMALL), brute_force(records(n), SMALL))
        data = vectorize(source, SMALL, person="id")
        check_tables(data, data.counts(*SMALL.names, records_per_person=3), 3)


@pytest.mark.parametrize("fault", ["axes", "cells", "block"])
def test_a_wrong_sum_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = blocks.summed

    def broken(x: np.ndarray, block: Any, subset: Any, schema: Schema) -> np.ndarray:
        if fault == "axes":
            return own(x, block, tuple(sorted(subset)), schema).reshape([schema[n].size for n in subset])
        return own(x[::-1] if fault == "cells" else np.roll(x, 1), block, subset, schema)

    monkeypatch.setattr("leastnoise.data.counting.summed", broken)
    with pytest.raises(AssertionError):
        check_tables(vectorize(relation(records()), SMALL), brute_force(records(), SMALL))


@pytest.mark.thorough
def test_blocks_hold_every_table_within_their_limits() -> None:
    wide = Schema(**{f"a{k:02d}": range(10) for k in range(20)})
    pairs = list(itertools.combinations(wide.names, 2))
    triples = list(itertools.combinations(wide.names, 3))
    uneven = Schema(a=range(1000), b=range(300), c=range(7), d=range(2), e=range(70_000))
    for schema, asked in [
        (wide, pairs),
        (wide, triples),
        (wide, [()]),
        (wide, [*pairs, (), ("a01",), tuple(wide.names[:6])]),
        (uneven, [s for r in range(4) for s in itertools.combinations(uneven.names, r)]),
    ]:
        planned = blocks.covering_blocks(asked, schema)
        held = [set(block) for block in planned]
        for subset in asked:
            assert any(set(subset) <= block for block in held)
        largest = {math.prod(schema[name].size for name in subset) for subset in asked}
        sizes = [math.prod(schema[name].size for name in block) for block in planned]
        assert all(size <= blocks.MERGED_CELLS or size in largest for size in sizes)
    # Pairs of 20 attributes lie in 40 blocks of four, where 35 is the least known.
    assert len(blocks.covering_blocks(pairs, wide)) == 40
    assert blocks.covering_blocks([], wide) == []


def test_many_tables_are_planned_without_a_walk_over_all_of_them() -> None:
    """The pairs of 100 attributes took 27.9 s: every attribute of every block looked at every table left."""
    wide = Schema(**{f"a{k:02d}": range(10) for k in range(60)})
    pairs = list(itertools.combinations(wide.names, 2))
    n_calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal n_calls
        n_calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        blocks.covering_blocks(pairs, wide)
    finally:
        sys.setprofile(before)
    # About 150 calls for each table; the walk made 1,300.
    assert n_calls < 300 * len(pairs)


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_lie_in_blocks_within_their_limits(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 12)
    schema = Schema(**{f"a{k}": range(rng.choice([1, 2, 2, 3, 10, 20, 300])) for k in range(n)})
    asked = [tuple(rng.sample(schema.names, rng.randint(0, min(n, 4)))) for _ in range(rng.randint(1, 60))]
    planned = blocks.covering_blocks(asked, schema)
    assert len(set(planned)) == len(planned)
    holders = blocks.first_holders(asked, planned)
    for place, subset in enumerate(asked):
        first = next(block for block in planned if set(subset) <= set(block))
        assert [block for block in planned if place in holders[block]] == [first]
    largest = max(math.prod(schema[name].size for name in subset) for subset in asked)
    for block in planned:
        assert math.prod(schema[name].size for name in block) <= max(blocks.MERGED_CELLS, largest)


@pytest.mark.thorough
@pytest.mark.parametrize("k", [None, 2])
def test_spark_reads_and_adds_up_and_no_more(k: int | None, spark: Any) -> None:
    """Its plan has no expression on a value of the table: columns, what Python does with them, and sums."""
    table = random_table(7)
    source = loaded(spark, table)
    plans: list[str] = []
    frames = type(spark._session.range(1))
    own = frames.toArrow

    def read(frame: Any) -> Any:
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return own(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "toArrow", read)
        assert counts_as_by_hand(source, table, k)
    assert len(plans) == 1 and plans[0].count("InArrow") == (1 if k is None else 2)
    assert not any(word in plans[0] for word in ("Generate", "Expand", "Join", "CASE"))
    assert ("Window" in plans[0]) == (k is not None)


@pytest.mark.thorough
def test_executors_without_python_are_refused_with_the_remedy(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark._session
    data = vectorize(loaded(spark, {"x": ("int", [1])}), Schema(x=range(3)))
    assert data.vector().tolist() == [0, 1, 0]
    monkeypatch.setattr(spark_room, "_READY", set())
    monkeypatch.setattr(session.sparkContext, "pythonExec", "/there/is/no/python")
    with refuses(DataError, "table", ..., "NumPy and PyArrow", "PYSPARK_PYTHON"):
        data.vector()


UNPICKLED = """
import pickle, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "leastnoise":
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
run = pickle.loads(open(sys.argv[1], "rb").read())
import pyarrow
batch = pyarrow.record_batch({"a": ["1", " 2", None, "x"], "m": ["2026-03-01", "2026-03", "2027-01-01", "?"]})
print([column.to_pylist() for column in next(run(iter([batch]))).columns])
assert not any(name.startswith("leastnoise") for name in sys.modules)
"""


def test_what_executors_run_needs_nothing_of_this_package(tmp_path: Path) -> None:
    extra("pyspark")
    schema = Schema(
        a=Integers(range(3), null="other", other="?", clean={"trim": True}),
        m=Periods("2026-01", "2026-04", zone="Europe/Berlin", outside="other", other="none"),
    )
    question = Question(schema, (("a", "m"),), ("a",), Person("a"))
    run = functools.partial(spark_room._counts_of_columns, question=question, places=[0, 1])
    (tmp_path / "run").write_bytes(spark_room._pickled(run))
    command = [sys.executable, "-c", UNPICKLED, str(tmp_path / "run")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    # The last two records are in the other cells of both.
    assert done.stdout.strip() == str([[7, 12, 19], [1, 1, 2]])


CLUSTER = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import ibis
from pyspark.sql import SparkSession
from leastnoise import Schema, vectorize
builder = SparkSession.builder.master("local-cluster[2,1,600]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
engine = ibis.pyspark.connect(session)
data = vectorize(engine.read_parquet(sys.argv[2]), Schema(a=range(4), b=("x", "y")), person="a")
asked = [("a", "b"), ("b",)]
n_workers = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
limited = data.tables([("a",)], records_per_person=2)[0].tolist()
print(json.dumps([[x.tolist() for x in data.tables(asked)], limited, n_workers]))
session.stop()
"""


@pytest.mark.thorough
def test_a_cluster_of_two_workers_counts_the_same(tmp_path: Path) -> None:
    """Standalone mode: a master and two workers, whose executors are processes without this package."""
    extra("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("no Java here, which Spark needs; on Debian: apt-get install openjdk-17-jre-headless")
    rows = [(k % 5, "xyz"[k % 3]) for k in range(60)]
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        frame = pandas.DataFrame(rows[part::3], columns=["a", "b"])
        frame.to_parquet(data / f"part{part}.parquet")
    # A package of this name that cannot be imported stands before any other.
    (tmp_path / "none" / "leastnoise").mkdir(parents=True)
    (tmp_path / "none" / "leastnoise" / "__init__.py").write_text("raise ImportError('not on executors')")
    given = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.log.level": "OFF",
        "spark.executorEnv.PYTHONPATH": str(tmp_path / "none"),
    }
    command = [sys.executable, "-c", CLUSTER, json.dumps(given), str(data)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    tables, limited, n_workers = json.loads(done.stdout.strip().splitlines()[-1])
    expected = np.zeros((4, 2), dtype=int)
    for a, b in rows:
        if a < 4 and b in "xy":
            expected[a, "xy".index(b)] += 1
    assert limited == [2, 2, 2, 2] and n_workers == 2
    assert tables == [expected.tolist(), expected.sum(axis=0).tolist()]


class Untouched(RawTable):
    """A table that nobody may read."""

    def types(self, names: Any) -> list[tuple[Any, ...]]:
        return [(extra("pyarrow").int64(),) for _ in names]

    def batches(self, *given: Any) -> Any:
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("subsets", "error", "refusal"),
    [
        ([("a", "nobody")], SchemaError, ("attribute", "nobody")),
        ([("b",), ("a", "b", "a")], DataError, ("attributes", ("a", "b", "a"))),
        (["ab"], DataError, ("tables", "ab")),
        ([3], DataError, ("tables", 3)),
        ([("a", 3)], DataError, ("attributes", int)),
        ([("a", ["b"])], DataError, ("attributes", list)),
    ],
)
def test_a_table_that_cannot_be_is_refused_before_anything_is_read(
    subsets: Any, error: type[LeastnoiseError], refusal: tuple[Any, ...]
) -> None:
    data = vectorize(Untouched(), SMALL)
    with refuses(error, *refusal):
        data.tables(subsets)
    with refuses(DataError, "records_per_person", 0):
        data.tables([("a",)], records_per_person=0)


def test_tables_too_large_together_are_refused_before_anything_is_read() -> None:
    wide = Schema(**{name: range(30_000) for name in "abcde"})
    data = vectorize(Untouched(), wide)
    with refuses(TooLargeError, "tables", 2, "the largest holds 900,000,000; ask for fewer tables at a time"):
        data.tables([("a", "b"), ("c",)])


@pytest.mark.parametrize("engine", ["duckdb", "postgres"], indirect=True)
def test_one_count_sees_one_version(engine: Any, request: pytest.FixtureRequest) -> None:
    """Somebody changes all records, and not their number, when the first of them have been read.

    What files become while Spark reads them, nothing here decides.
    """
    n = 300_000
    execute = engine.con.execute
    execute("CREATE TABLE versions (a INTEGER)")
    execute(f"INSERT INTO versions SELECT 0 FROM generate_series(1, {n})")
    other: Any = engine.con.cursor()
    if engine.name == "postgres":
        engine.con.commit()
        other = request.getfixturevalue("server").connect().con
    found = 0
    for (column,) in engines.table_of_ibis(engine.table("versions")).batches(["a"], ["."], DroppedRecords()):
        if not found:
            other.execute("UPDATE versions SET a = 1")
        assert not any(column.unique().to_pylist())
        found += len(column)
    assert found == n
    assert vectorize(engine.table("versions"), Schema(a=range(2))).vector().tolist() == [0, n]
    execute("DROP TABLE versions")


# ------------------------------------------------------------------ people


def kept(engine: Any, table: Table, schema: Schema, k: int) -> list[list[int]]:
    """The counts in the engine and in the embedded one."""
    sources = (loaded(engine, table), relation(table))
    return [vectorize(s, schema, person="id").vector(records_per_person=k).tolist() for s in sources]


PERSONS = {
    "text": ["7", "7", "7.0", " 7", "", None, "é", "e\u0301", "a,0", "A", "a"] * 4,
    "int": [7, 7, 7, -7, 0, None, 2**63 - 1, -(2**63)] * 4,
    "float": [7.0, 7.0, -7.0, 7.5, -7.5, 0.0, -0.0, None, math.nan, math.inf, 1e300, 2.0**60, 5e-324] * 4,
    "decimal": [Decimal(text) for text in ("7.00", "7.00", "7.50", "-7.00", "0.00", "0.10")] * 4,
    "wide": [7, 7, 10**30, None, -7] * 4,
    "bool": [True, False, None, True] * 4,
    "small": [7, 7, None, 8] * 4,
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PERSONS)
def test_the_same_records_of_a_person_stay(engine: Any, kind: str) -> None:
    n = len(PERSONS[kind])
    table: Table = {"id": (kind, PERSONS[kind]), "x": ("int", [i * 7 % n for i in range(n)])}
    for k in (1, 2):
        there, here = kept(engine, table, Schema(x=range(n)), k)
        assert there == here
        assert 0 < sum(here) < n


@pytest.mark.thorough
def test_later_records_displace_no_earlier_ones_of_a_person(engine: Any) -> None:
    """The counts up to a period are those of the table that ends with it, in every engine."""
    table, schema = visits(seed=3), Schema(sex=("F", "M"), day=range(6))

    def counts(source: Any) -> np.ndarray:
        data = vectorize(source, schema, person="id")
        return data.counted([("day", "sex")], records_per_person=2, earliest_by="day").tables[0]

    whole = counts(loaded(engine, table))
    assert np.array_equal(whole, earliest(table, 2))
    for day in range(6):
        assert np.array_equal(counts(loaded(engine, until(table, day)))[: day + 1], whole[: day + 1])


@pytest.mark.thorough
def test_a_whole_number_is_one_person_in_any_column(engine: Any) -> None:
    """Which of the records stays depends on the person's number, not on its type."""
    found = []
    for kind, seven in {"text": "7", "int": 7, "float": 7.0, "decimal": Decimal("7.00"), "wide": 7}.items():
        table: Table = {"id": (kind, [seven] * 50), "x": ("int", list(range(50)))}
        found += kept(engine, table, Schema(x=range(50)), 3)
    assert all(one == found[0] for one in found) and sum(found[0]) == 3


@pytest.mark.thorough
def test_placeholders_and_ids_that_fall_together_are_nobodys(engine: Any) -> None:
    columns: dict[str, tuple[str, list[Any]]] = {
        "a": ("text", ["unknown", "unknown ", "0", "7", "7.0", "Unknown", None]),
        "b": ("float", [0.0, -0.0, 2.0**53, 2.0**53 - 1, 0.5, 1e300, math.inf]),
        "c": ("int", [0, 0, 7, 7, 8, 9, None]),
    }
    expected = {"a": 3, "b": 1, "c": 3}
    for name, column in columns.items():
        table: Table = {"id": column, "x": ("int", list(range(7)))}
        found = [
            vectorize(source, Schema(x=range(7)), person="id", person_unknown=["unknown", 0])
            .vector(records_per_person=1)
            .tolist()
            for source in (loaded(engine, table), relation(table))
        ]
        assert found[0] == found[1]
        assert sum(found[0]) == expected[name]


# ------------------------------------------------------------------ what each engine is peculiar in


@pytest.mark.thorough
def test_large_domains(engine: Any) -> None:
    chance = random.Random(6)
    names = [f"region {i}" for i in range(1500)]
    edges = sorted(chance.uniform(-50, 50) for _ in range(400))
    values = [
        value for edge in edges[::40] for value in (edge, math.nextafter(edge, 99), math.nextafter(edge, -99))
    ]
    table: Table = {
        "r": ("text", [*names[:: len(names) // len(values)]][: len(values)]),
        "x": ("float", values),
    }
    data, native = vectorize(loaded(engine, table), Schema(r=names, x=Bins(edges))), relation(table)
    expected = vectorize(native, data.schema).tables([("r",), ("x",)])
    assert expected[0].sum() == expected[1].sum() > 20
    for found, own in zip(data.tables([("r",), ("x",)]), expected, strict=True):
        assert np.array_equal(found, own)


def test_spark_without_ansi_counts_the_same(spark: Any) -> None:
    """Then casts that overflow give nulls, and small decimals are written with exponents."""
    session = spark._session
    before = session.conf.get("spark.sql.ansi.enabled")
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for column in ("text", "decimal"):
            kind, values = COLUMNS[column]
            table: Table = {column: (kind, values)}
            source = loaded(spark, table)
            for name in ("clamped", "numbers", "texts", "open bins"):
                schema = Schema(**{column: SCHEMAS[name]})
                expected = brute_force(table, schema).ravel().tolist()
                assert vectorize(source, schema).vector().tolist() == expected
    finally:
        session.conf.set("spark.sql.ansi.enabled", before)


def test_postgres_numerics_without_a_scale(postgres: Any) -> None:
    """They may be NaN or infinite, and beyond any float."""
    texts = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1.5",
        "1.50",
        "18",
        "18.000",
        "1e400",
        "-1e400",
        "1e-400",
        "7e30",
    ]
    with postgres.con.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE numerics (x numeric)")
        cursor.executemany("INSERT INTO numerics VALUES (%s::numeric)", [(text,) for text in [*texts, None]])
    postgres.con.commit()
    values = [*(Decimal(text) for text in texts), None]
    # Equal numbers have one text, the shortest.
    shortest = [v if v is None or not v.is_finite() else Decimal(f"{v.normalize():f}") for v in values]
    table: Table = {"x": ("decimal", shortest)}
    for attribute in [
        Integers(range(10, 20), outside="clamp", null="other", other="?"),
        Categories([18, 7 * 10**30], other="?"),
        Categories(["1.5", "18", "18.000"], outside="drop", null="other", other="?"),
        Bins([-math.inf, 0, 1, 2, 1e300, math.inf], null="other", outside="drop", other="?"),
    ]:
        schema = Schema(x=attribute)
        with decimal.localcontext(prec=1000):
            expected = brute_force(table, schema).tolist()
        assert vectorize(postgres.table("numerics"), schema).vector().tolist() == expected


# A usual value of each of PostgreSQL's own types, and values that are odd for it.
POSTGRES_TYPES: dict[str, tuple[str, list[str]]] = {
    "oid": ("18", ["4294967295", "0"]),
    '"char"': ("'1'", ["''", "'\\377'"]),
    "name": ("'18'", ["''", "repeat('x', 63)"]),
    "char(4)": ("'18'", ["''", "'1   '"]),
    "date": ("'2020-01-01'", ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'"]),
    "timestamp": ("'2020-01-01'", ["'infinity'", "'-infinity'", "'294276-12-31'"]),
    "timestamptz": ("'2020-01-01'", ["'infinity'", "'4713-01-01 BC'"]),
    "time": ("'12:00'", ["'24:00'"]),
    "interval": ("'1 day'", ["'178000000 years'"]),
    "numeric": ("18", ["'NaN'", "'Infinity'", "1e1000", "1e-1000"]),
    "real": ("18", ["'NaN'", "'Infinity'", "1e38", "1e-44"]),
    "money": ("18", ["'92233720368547758.07'"]),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
    "boolean": ("true", ["false"]),
    "bytea": ("'a'", ["'\\xff'"]),
    "json": ("'1'", ["'null'", "'[1]'"]),
    "jsonb": ("'1'", ["'null'"]),
    "inet": ("'10.0.0.1'", ["'::1'"]),
    "bit(3)": ("B'101'", ["B'000'"]),
    "integer[]": ("'{1}'", ["'{}'", "'{NULL}'"]),
    "point": ("'(1,2)'", ["'(NaN,Infinity)'"]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", POSTGRES_TYPES)
def test_no_value_of_a_postgres_type_decides_whether_it_can_be_counted(kind: str, postgres: Any) -> None:
    usual, odd = POSTGRES_TYPES[kind]
    attributes = {
        "names": Categories(["18", "1"], null="other", other="?"),
        "numbers": Integers(range(20), null="other", outside="other", other="?"),
        "bins": Bins([0, 18, 19]),
    }

    def outcome(values: list[str], attribute: Any) -> Any:
        rows = ", ".join(f"({value}::{kind})" for value in values)
        postgres.con.execute(f"CREATE TABLE odd (x {kind})")
        try:
            postgres.con.execute(f"INSERT INTO odd VALUES {rows}")
            counted = vectorize(postgres.table("odd"), Schema(x=attribute)).vector()
            by_person = vectorize(postgres.table("odd"), Schema(x=attribute), person="x")
            return int(counted.sum()), int(by_person.vector(records_per_person=1).sum())
        except DataError as error:
            return str(error)
        finally:
            postgres.con.execute("DROP TABLE odd")

    for attribute in attributes.values():
        plain = outcome([usual], attribute)
        for value in (*odd, "NULL"):
            found = outcome([usual, value], attribute)
            if isinstance(plain, str):
                assert found == plain  # refused for its type, whatever it holds
            else:
                assert isinstance(found, tuple) and plain[0] <= found[0] <= plain[0] + 1


# Odd values of each kind; with three attributes a kind, 108,000 values are placed in every engine.
N_ODD = 12_000


def odd_columns(n: int) -> dict[str, tuple[str, list[Any]]]:
    """Texts, floats and whole numbers that nobody would write: for each kind its type and n values."""
    rng = random.Random(17)
    letters = "0123456789+-.eE_ ,'\n\raéß１٣\u2028\U0001f600"
    return {
        "texts": ("text", ["".join(rng.choices(letters, k=rng.choice([1, 2, 3, 8]))) for _ in range(n)]),
        # Any bits, and halves near the cells.
        "floats": (
            "float",
            [
                rng.choice([struct.unpack("d", rng.randbytes(8))[0], rng.randrange(-9, 19) / 2])
                for _ in range(n)
            ],
        ),
        "whole": ("int", [rng.getrandbits(64) - 2**63 >> rng.choice([0, 20, 50, 60]) for _ in range(n)]),
    }


@pytest.mark.thorough
def test_random_odd_values_have_their_cells(engine: Any) -> None:
    """Each value in each engine as by the rules in Python.

    Every record has a number of its own, so that no two values placed wrongly make up for each other; and
    one query counts all, which Spark needs as long for as for two hundred values.
    """
    attributes = {
        "names": Categories(["a", "1", "é", "1.5"], null="other", outside="other", other="none"),
        "range": Integers(range(-2, 8), null="other", outside="other", other="none"),
        "bins": Bins([-10.0, 0, 1, 1e6], null="other", outside="other", other="none"),
    }
    asked = {f"{kind} {name}": (kind, name) for kind in odd_columns(0) for name in attributes}
    columns = odd_columns(N_ODD)
    table: Table = {"row": ("int", list(range(N_ODD)))}
    table |= {column: columns[kind] for column, (kind, _) in asked.items()}
    own = {column: attributes[name] for column, (_, name) in asked.items()}
    schema = Schema({"row": range(N_ODD)} | own)
    found = vectorize(loaded(engine, table), schema).tables([("row", column) for column in asked])
    n_placed = 0
    for (column, (kind, name)), counts in zip(asked.items(), found, strict=True):
        placed = [int(attributes[name].place(value) or 0) for value in columns[kind][1]]
        shape = (N_ODD, attributes[name].size)
        expected = np.zeros(shape, dtype=np.int64)
        expected[np.arange(N_ODD), placed] = 1
        wrong = np.flatnonzero((counts.reshape(shape) != expected).any(axis=1))
        assert wrong.size == 0, (column, [columns[kind][1][i] for i in wrong[:5]])
        assert len(set(placed)) > 1, column
        n_placed += len(placed)
    assert n_placed == 9 * N_ODD >= 100_000


def test_postgres_types_of_text(postgres: Any, server: Server) -> None:
    postgres.raw_sql(
        "CREATE TYPE pg_temp.mood AS ENUM ('sad', 'glad'); "
        "CREATE TEMP TABLE moods (m mood, c char(6), v varchar(6), u uuid); "
        "INSERT INTO moods VALUES ('sad', 'sad', 'sad', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'), "
        "('glad', 'glad', 'glad', NULL)"
    ).close()
    table = postgres.sql(
        "SELECT * FROM moods", schema={"m": "string", "c": "string", "v": "string", "u": "uuid"}
    )
    for column in "mcv":
        assert vectorize(table, Schema(**{column: ("glad", "sad")})).vector().tolist() == [1, 1]
    uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert vectorize(table, Schema(u=(uuid, uuid.upper()))).vector().tolist() == [1, 0]
    # In another encoding, text still is its characters, and persons keep the same records.
    with server.connect().con as plain:
        plain.autocommit = True
        plain.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = server.connect("latin")
    people_there: Table = {"id": ("text", ["é", "é", "ü"] * 5), "x": ("text", ["é", "e", "É"] * 5)}
    there, here = kept(latin, people_there, Schema(x=("é", "É", "e")), 2)
    assert there == here and sum(here) == 4


# ------------------------------------------------------------------ engines that are not here


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["athena", "bigquery", "databricks", "snowflake", "trino"])
def test_warehouses_are_read_as_ibis_reads_them(
    name: str, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cannot run here; another engine answers in their name, by what Ibis offers of every one."""
    table, schema = people(), CAREFUL
    source = loaded(postgres, table)
    monkeypatch.setattr(type(postgres), "name", name)
    data = vectorize(source, schema)
    assert type(data.table) is engines.WarehouseTable
    assert data.vector().tolist() == brute_force(table, schema).ravel().tolist()


@pytest.mark.thorough
def test_records_in_no_cell_are_those_of_loops_over_records(engine: Any) -> None:
    for seed, k in itertools.product(range(2), (None, 1, 2)):
        table = random_table(seed)
        assert counts_as_by_hand(loaded(engine, table), table, k)


def test_a_user_of_postgres_who_may_read_and_no_more_gets_the_same_counts(server: Server) -> None:
    """And the connection is as it was, within a transaction of the caller's too."""
    engine = server.connect()
    table = random_table(8)
    source = loaded(engine, table)
    engine.con.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    engine.con.execute("DROP ROLE IF EXISTS reader")
    engine.con.execute("CREATE ROLE reader")
    engine.con.execute(f"GRANT SELECT ON {source.get_name()} TO reader")
    engine.con.execute("SET ROLE reader")
    engine.con.execute("SET DateStyle = 'SQL, DMY'")
    engine.con.execute("SET TimeZone = 'Asia/Tokyo'")
    engine.con.commit()
    shown = "SELECT name, setting FROM pg_settings ORDER BY name"
    try:
        engine.con.execute("BEGIN")
        before = engine.con.execute(shown).fetchall()
        assert engine.con.info.transaction_status.name == "INTRANS"
        assert counts_as_by_hand(source, table, 2)
        assert engine.con.execute(shown).fetchall() == before
        assert engine.con.info.transaction_status.name == "INTRANS"
        engine.con.rollback()
        assert counts_as_by_hand(source, table, 2)
        assert engine.con.info.transaction_status.name == "IDLE"
        assert engine.con.execute(shown).fetchall() == before
    finally:
        engine.con.rollback()
        engine.con.execute("RESET ROLE")
        engine.con.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")
        engine.con.execute(f"DROP TABLE {source.get_name()}")
        engine.con.commit()


# ------------------------------------------------------------------ what crosses the wire


def test_only_counts_come_back_from_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 2_000
    table: Table = {
        "id": ("text", [f"{CANARY}{i}" for i in range(n)]),
        "a": ("int", [i % 4 for i in range(n)]),
    }
    source = loaded(spark, table)
    frames, seen = type(spark._session.range(1)), []
    own = frames.toArrow
    monkeypatch.setattr(frames, "toArrow", lambda frame: (seen.append(own(frame)), seen[-1])[1])
    for method in ("collect", "toPandas", "toLocalIterator", "take"):
        monkeypatch.setattr(frames, method, lambda *given: pytest.fail("the table itself was fetched"))
    data = vectorize(source, Schema(a=range(4)), person="id")
    assert data.tables([("a",), ()], records_per_person=1)[0].tolist() == [n // 4] * 4
    assert [(answer.num_rows, [str(kind) for kind in answer.schema.types]) for answer in seen] == [
        (4, ["int64", "int64"])
    ]


def test_one_reading_counts_many_tables(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = loaded(engine, records())
    data = vectorize(source, SMALL, person="id")
    own, readings = type(data.table)._counts if engine.name == "pyspark" else type(data.table).batches, []
    method = "_counts" if engine.name == "pyspark" else "batches"
    monkeypatch.setattr(type(data.table), method, lambda *given: (readings.append(1), own(*given))[1])
    data.tables(list(itertools.combinations(SMALL.names, 2)), records_per_person=2)
    assert len(readings) == 1


# ------------------------------------------------------------------ refusals and failures

REFUSED = {
    "ARRAY[1, 2]": ("nested", "array<int64>", "lists or records"),
    "CAST(NULL AS bytea)": ("bytes", "binary", "bytes or lengths of time"),
    "CAST(NULL AS json)": ("object", "json", "lists or records"),
    "CAST(NULL AS interval)": ("length", "interval", "bytes or lengths of time"),
    "CURRENT_DATE": ("day", "date", "dates or times"),
    "CAST(CURRENT_DATE AS timestamp)": ("moment", "timestamp", "dates or times"),
}


@pytest.mark.parametrize("value", REFUSED)
def test_types_that_no_schema_means_are_refused_before_counting(
    value: str, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    column, kind, words = REFUSED[value]
    table = postgres.sql(f'SELECT {value} AS "{column}"', schema={column: kind})
    monkeypatch.setattr(PostgresTable, "_read", lambda *given: pytest.fail("something was read"))
    for attribute in (range(3), Bins([0, 1])):
        with pytest.raises(DataError, match=f"column '{column}', which the schema declares as .* {words}"):
            vectorize(table, Schema(**{column: attribute}))
    if column not in ("day", "moment"):
        with pytest.raises(DataError, match=f"column '{column}'"):
            vectorize(table, Schema(**{column: ("x",)}))
        with pytest.raises(DataError, match=f"column '{column}'"):
            vectorize(
                postgres.sql(f'SELECT 1 AS x, {value} AS "{column}"', schema={"x": "int64", column: kind}),
                Schema(x=range(2)),
                person=column,
            )


def test_the_embedded_engine_refuses_the_same_types() -> None:
    for value, words in {
        "[1]": "lists",
        "{'a': 1}": "lists",
        "'x'::BLOB": "bytes",
        "DATE '2020-01-01'": "dates",
    }.items():
        source = duckdb.connect().sql(f"SELECT {value} AS x")
        with pytest.raises(
            DataError, match=f"column 'x', which the schema declares as numbers, holds {words}"
        ):
            vectorize(source, Schema(x=range(3))).vector()
    source = duckdb.connect().sql("SELECT [1] AS id, 1 AS x")
    with refuses(DataError, "id", "nested"):
        vectorize(source, Schema(x=range(3)), person="id").vector(records_per_person=1)


def test_an_engine_that_is_not_known_is_refused() -> None:
    ibis = extra("ibis")
    table = ibis.sqlite.connect().create_table("t", schema=ibis.schema({"x": "int64"}))
    with refuses(DataError, "table", "sqlite"):
        vectorize(table, Schema(x=range(3)))


def test_polars_tables_of_ibis_are_read_in_this_process() -> None:
    ibis, polars = extra("ibis"), extra("polars")
    table = ibis.polars.connect({"t": polars.DataFrame({"x": [1, 2, 2, None]})}).table("t")
    assert vectorize(table, Schema(x=range(3))).vector().tolist() == [0, 1, 2]


def test_a_package_that_is_missing_is_named(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Any:
        raise ImportError("no", name="pyarrow_hotfix")

    data = vectorize(loaded(embedded, {"x": ("int", [1])}), Schema(x=range(3)))
    monkeypatch.setattr(engines, "reader_of", fail)
    with refuses(
        MissingExtraError, "pyarrow_hotfix", None, "pyarrow_hotfix: pip install 'ibis-framework[duckdb]'"
    ):
        data.vector()


def tells_nothing_but_the_loss(data: Data, caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.INFO)
    with refuses(DataUnavailableError, "connection", ..., "is lost. Nothing was spent") as caught:
        data.tables([("x",)])
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert CANARY not in told + caplog.text + "".join(capfd.readouterr())


def test_a_connection_lost_half_way_leaves_nothing(server: Server, caplog: Any, capfd: Any) -> None:
    connection = server.connect()
    number = connection.con.info.backend_pid
    slow = connection.sql(
        f"SELECT '{CANARY}' || pg_sleep(30)::text AS x FROM generate_series(1, 3)", schema={"x": "string"}
    )
    data = vectorize(slow, Schema(x=("a", "b")))

    def cut() -> None:
        time.sleep(0.5)
        with server.connect().con as other:
            other.execute("SELECT pg_terminate_backend(%s)", [number])

    cutter = threading.Thread(target=cut)
    cutter.start()
    tells_nothing_but_the_loss(data, caplog, capfd)
    cutter.join()


@pytest.mark.thorough
def test_a_count_that_is_cancelled_stops_the_engine(server: Server) -> None:
    class Enough(Exception):
        pass

    def impatient(state: Any) -> None:
        if state.seconds > 0.3:
            raise Enough

    connection = server.connect()
    slow = connection.sql("SELECT pg_sleep(30)::text AS x", schema={"x": "string"})
    with pytest.raises(Enough):
        vectorize(slow, Schema(x=("a",))).tables([("x",)], progress=impatient)
    with server.connect().con as other:
        query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid = %s"
        deadline = time.monotonic() + 10
        while other.execute(query, [connection.con.info.backend_pid]).fetchone() != (0,):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    slow = duckdb.connect().sql("SELECT a.range % 7 AS x FROM range(1000000) a, range(100000) b")
    with pytest.raises(Enough):
        vectorize(slow, Schema(x=range(3))).tables([("x",)], progress=impatient)


def test_progress_tells_the_time_and_nothing_else() -> None:
    asked = [("a", "b"), ("c",), ("d", "e"), ("a", "e"), ()]
    seen: list[Any] = []
    data = vectorize(relation(records()), SMALL)
    watched = data.tables(asked, progress=seen.append)
    assert len(seen) >= 2 and all(list(vars(state)) == ["seconds"] for state in seen)
    assert all(0 <= a.seconds <= b.seconds for a, b in itertools.pairwise(seen))
    for found, own in zip(watched, data.tables(asked), strict=True):
        assert np.array_equal(found, own)


def test_a_spark_session_stopped_half_way_leaves_nothing(spark: Any, caplog: Any, capfd: Any) -> None:
    """Last in this file: the session is gone afterwards."""
    data = vectorize(loaded(spark, {"x": ("text", [CANARY, "a"])}), Schema(x=("a", "b")))
    assert data.vector().tolist() == [1, 0]
    spark._session.stop()
    tells_nothing_but_the_loss(data, caplog, capfd)
    # The same handle goes on with the session that is active then; a view of the old one is gone.
    held = data.table._table.get_name()
    session = extra("pyspark.sql").SparkSession.builder.master("local[2]").getOrCreate()
    session.createDataFrame([("b",)], "x string").createOrReplaceTempView(held)
    assert data.vector().tolist() == [0, 1]
    session.stop()


def test_one_record_does_not_move_those_that_are_no_number(tmp_path):
    """DuckDB dropped comparisons that a file's statistics, without NaN, made superfluous."""
    import pyarrow
    import pyarrow.parquet

    incomes = [5.0 * k for k in range(700)] + [math.nan] * 300
    schema = Schema(v=Bins([0, 2000, 4000]))
    found = []
    for k, more in enumerate(([], [5000.0])):
        path = tmp_path / f"{k}.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"v": incomes + more}), path)
        found.append(vectorize(path, schema).vector().tolist())
    assert found == [[400, 300], [400, 300]]
