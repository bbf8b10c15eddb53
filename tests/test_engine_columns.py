"""Raw columns of engines: the values that are stored, as the engine itself tells them in another way."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from leastnoise.core.errors import DataError
from leastnoise.data import engines, vectorize
from leastnoise.data import postgres as reading
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.query import Schema
from postgres_server import Server
from support import extra, refuses

pytestmark = [
    pytest.mark.xdist_group("engines"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]


def read(table: RawTable, names: Sequence[str], marks: Sequence[str] = ()) -> list[list[Any]]:
    """The values of the columns, times as the numbers that are stored."""
    dropped = DroppedRecords()
    types = table.types(names)
    found: list[list[Any]] = [[] for _ in names]
    for batch in table.batches(names, marks or ["."] * len(names), dropped):
        for values, column, kinds in zip(found, batch, types, strict=True):
            assert column.type in kinds
            is_time = pa.types.is_temporal(column.type)
            values += (column.view(f"int{column.type.bit_width}") if is_time else column).to_pylist()
    assert vars(dropped) == vars(DroppedRecords())
    return found


# ------------------------------------------------------------------ PostgreSQL

# Moments as microseconds since 2000, as PostgreSQL counts them: its own ends, and those of the calendar.
ENDS = (-211_813_488_000_000_000, 9_223_371_331_199_999_999, 0, -1, -63_082_281_600_000_000)


def moments(rng: random.Random, n: int) -> list[int]:
    """Microseconds since 2000: at the ends, within some days of them, and anywhere between."""
    found = list(ENDS)
    for _ in range(n):
        near = rng.choice(ENDS) + rng.choice([1, 10**6, 86_400 * 10**6, 366 * 86_400 * 10**6]) * rng.randint(
            -9, 9
        )
        found += [
            min(max(m, ENDS[0]), ENDS[1])
            for m in (near, rng.randint(*ENDS[:2]), rng.randint(-(2**60), 2**58))
        ]
    return found


def moments_differ(server: Server, seed: int) -> int:
    """How many moments come back as another number than the server tells when it is asked for the number."""
    given = moments(random.Random(seed), 300)
    backend = server.connect()
    execute = backend.con.execute
    execute("CREATE TEMP TABLE moments (k integer, t timestamp, z timestamptz, d date, s time)")
    for k, moment in enumerate(given):
        day, rest = divmod(moment, 86_400 * 10**6)
        exact = "DATE '2000-01-01' + %s + make_interval(secs => %s::numeric / 1000000)"
        time = "TIME '00:00' + (%s || ' us')::interval"
        values = f"(%s, {exact}, ({exact})::timestamptz, DATE '2000-01-01' + %s, {time})"
        execute(f"INSERT INTO moments VALUES {values}", [k, day, rest, day, rest, day, rest])
    told = execute(
        "SELECT extract(epoch FROM t) * 1000000, extract(epoch FROM z) * 1000000, "
        "d - DATE '1970-01-01', extract(epoch FROM s) * 1000000 FROM moments ORDER BY k"
    ).fetchall()
    k, *found = read(engines.table_of_ibis(backend.table("moments")), ["k", "t", "z", "d", "s"])
    backend.con.close()
    wrong = 0
    for place, row in zip(k, zip(*found, strict=True), strict=True):
        own = [min(int(number), 2**63 - 1) for number in told[place]]
        wrong += list(row) != own
    return wrong


@pytest.mark.parametrize("seed", range(2))
def test_moments_of_postgres_are_the_numbers_that_it_tells(server: Server, seed: int) -> None:
    assert moments_differ(server, seed) == 0


@pytest.mark.parametrize("fault", ["centuries", "before", "fraction"])
def test_a_wrong_calendar_is_noticed(fault: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    days, odd = reading._days, reading._odd_moment
    if fault == "centuries":
        monkeypatch.setattr(reading, "_days", lambda y, m, d: days(y, m, d) - (y - (m <= 2)) // 400)
    elif fault == "before":
        monkeypatch.setattr(reading, "_odd_moment", lambda text: odd(text.removesuffix(" BC")))
    else:
        monkeypatch.setattr(
            reading, "_ODD_MOMENT", reading.re.compile(reading._ODD_MOMENT.pattern.replace("1,6", "1,5"))
        )
    assert moments_differ(server, 1) > 0


def test_infinity_and_times_at_the_end_of_a_day_are_numbers_too(server: Server) -> None:
    backend = server.connect()
    backend.con.execute("CREATE TEMP TABLE ends (t timestamp, z timestamptz, d date, s time)")
    for sign in ("", "-"):
        backend.con.execute(
            f"INSERT INTO ends VALUES ('{sign}infinity', '{sign}infinity', '{sign}infinity', '24:00')"
        )
    backend.con.execute("INSERT INTO ends VALUES (NULL, NULL, NULL, NULL)")
    assert read(engines.table_of_ibis(backend.table("ends")), ["t", "z", "d", "s"]) == [
        [2**63 - 1, -(2**63), None],
        [2**63 - 1, -(2**63), None],
        [2**31 - 1, -(2**31), None],
        [86_400_000_000, 86_400_000_000, None],
    ]
    backend.con.close()


def test_numbers_of_postgres_come_back_to_the_last_bit(server: Server) -> None:
    rng = random.Random(4)
    n = 3_000
    whole = [rng.getrandbits(64) - 2**63 >> rng.choice([0, 20, 50, 60]) for _ in range(n)]
    floats = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(n)]
    floats[:6] = [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1]
    single = [struct.unpack("f", rng.randbytes(4))[0] for _ in range(n)]
    fixed = [Decimal(rng.randint(-(10**19), 10**19)).scaleb(-2) for _ in range(n)]
    wide = [Decimal(rng.randint(-(10**59), 10**59)).scaleb(-3) for _ in range(n)]
    free = [Decimal(rng.randint(-(10**20), 10**20)).scaleb(rng.randint(-30, 30)) for _ in range(n)]
    backend = server.connect()
    backend.con.execute(
        "CREATE TEMP TABLE numbers (i bigint, f double precision, s real, d numeric(20, 2), "
        "w numeric(70, 3), n numeric)"
    )
    with backend.con.cursor() as cursor, cursor.copy("COPY numbers FROM STDIN") as copy:
        for row in zip(whole, floats, single, fixed, wide, free, strict=True):
            copy.write_row(row)
    table = engines.table_of_ibis(backend.table("numbers"))
    found = read(table, list("ifsdwni"), [".", ".", ".", ".", ".", ",", "."])
    assert found[0] == found[6] == whole and found[3] == fixed and found[4] == wide
    for own, values in ((floats, found[1]), (single, found[2])):
        width = "float64" if own is floats else "float32"
        ours, theirs = np.array(own, dtype=width), np.array(values, dtype=width)
        assert np.array_equal(np.isnan(ours), np.isnan(theirs))
        is_number = ~np.isnan(ours)
        assert ours[is_number].tobytes() == theirs[is_number].tobytes()
    assert [Decimal(text.replace(",", ".")) for text in found[5]] == free
    assert not any("." in text or ("," in text and text[-1] in "0,") for text in found[5])
    backend.con.close()


def test_text_of_any_encoding_comes_as_utf8_and_no_letter_stops_it(server: Server) -> None:
    with server.plain() as plain:
        plain.execute("CREATE DATABASE windows ENCODING 'WIN1252' LOCALE 'C' TEMPLATE template0")
    backend = server.connect("windows")
    # Byte 0x81 is no letter there, and the server cannot turn it into UTF-8.
    backend.con.execute("CREATE TEMP TABLE t AS SELECT 1 AS k, 'é€' AS x UNION SELECT 2, chr(129) || 'a,\"'")
    before = backend.con.info.encoding
    k, x = read(engines.table_of_ibis(backend.table("t")), ["k", "x"])
    assert dict(zip(k, x, strict=True)) == {1: "é€", 2: '�a,"'}
    assert backend.con.info.encoding == before
    backend.con.close()


def test_text_comes_back_whatever_signs_it_holds(server: Server) -> None:
    rng = random.Random(6)
    texts = ["", "\\.", '"', ",", "\n", "\r\n", "NULL", "\\N", " ", "é", "\U0001f600", None]
    texts += ["".join(rng.choices(',"\n\r\\.N aé', k=rng.randint(0, 6))) for _ in range(2_000)]
    backend = server.connect()
    backend.con.execute("CREATE TEMP TABLE texts (k integer, x text, c char(8))")
    with backend.con.cursor() as cursor, cursor.copy("COPY texts FROM STDIN") as copy:
        for row in enumerate(texts):
            copy.write_row((*row, row[1]))
    table = engines.table_of_ibis(backend.table("texts"))
    assert read(table, ["x"]) == [texts]
    unpadded = [text if text is None else text.rstrip(" ") for text in texts]
    assert read(table, ["c", "k", "x"]) == [unpadded, list(range(len(texts))), texts]
    backend.con.close()


# ------------------------------------------------------------------ DuckDB

DUCKDB_TYPES: dict[str, list[tuple[str, Any]]] = {
    "TIMESTAMP": [
        ("'infinity'", 2**63 - 1),
        ("'-infinity'", 1 - 2**63),
        ("'1969-12-31 23:59:59.999999'", -1),
    ],
    "TIMESTAMP_NS": [("'2262-04-11 23:47:16.854775806'", 2**63 - 2)],
    "TIMESTAMP_S": [("'294247-01-10 04:00:54'", 9_223_372_036_854)],
    "TIMESTAMPTZ": [("'294247-01-10 04:00:54.775806+00'", 2**63 - 2)],
    "DATE": [("'infinity'", 2**31 - 1), ("'5881580-07-10'", 2**31 - 2)],
    "TIME": [("'24:00:00'", 86_400_000_000)],
    "TIMETZ": [("'12:00:00+15:59:59'", "12:00:00+15:59:59")],
    "HUGEINT": [("'170141183460469231731687303715884105727'", str(2**127 - 1)), ("'-7'", "-7")],
    "UHUGEINT": [("'340282366920938463463374607431768211455'", str(2**128 - 1))],
    "UBIGINT": [("'18446744073709551615'", 2**64 - 1)],
    "DECIMAL(38, 10)": [
        ("'-9999999999999999999999999999.9999999999'", Decimal("-9999999999999999999999999999.9999999999"))
    ],
    "UUID": [("'00000000-0000-0000-0000-00000000000A'", "00000000-0000-0000-0000-00000000000a")],
    "ENUM('a', 'b')": [("'b'", "b")],
    "VARCHAR": [("'é'", "é"), ("''", "")],
}


@pytest.mark.parametrize("kind", DUCKDB_TYPES)
@pytest.mark.parametrize("place", ["relation", "ibis"])
def test_values_of_duckdb_come_as_they_are(kind: str, place: str) -> None:
    values = DUCKDB_TYPES[kind]
    rows = ", ".join(f"({k}, {value})" for k, (value, _) in enumerate([*values, ("NULL", None)]))
    query = f'SELECT k, CAST(x AS {kind}) AS "x y" FROM (VALUES {rows}) AS t(k, x) ORDER BY k'
    if place == "relation":
        table: RawTable = engines.DuckRelation(duckdb.connect().sql(query))
    else:
        backend = extra("ibis").duckdb.connect()
        backend.con.execute(f"CREATE TABLE t AS {query}").fetchall()
        table = engines.table_of_ibis(backend.table("t"))
    expected = [*(value for _, value in values), None]
    assert read(table, ["x y", "k", "x y"]) == [expected, list(range(len(expected))), expected]


# Expressions of the caller's over a file whose statistics leave NaN out: y says where each record belongs.
EXPRESSIONS = {
    "computed": "SELECT CASE WHEN x < 5 THEN 'in' ELSE 'out' END AS y FROM {}",
    "dropped": "SELECT 'in' AS y FROM {} WHERE x < 5 UNION ALL SELECT 'out' AS y FROM {} WHERE x > 5",
    "negated": "SELECT 'out' AS y FROM {} WHERE NOT (x <= 5)",
    "joined": "SELECT y FROM {} AS t, (SELECT 'out' AS y, 1 AS one) AS u WHERE x > 5 AND one = 1",
}


def evaluated(place: str, path: Path, expression: str) -> Any:
    """What is computed from a file, by an engine that has an optimiser."""
    if place == "polars":
        polars = extra("polars")
        return polars.SQLContext(t=polars.scan_parquet(path)).execute(expression.replace("{}", "t"))
    if place == "relation":
        return duckdb.connect().sql(expression.replace("{}", f"'{path}'"))
    engine = extra("ibis").duckdb.connect()
    engine.con.execute(f"CREATE VIEW judged AS {expression.replace('{}', repr(str(path)))}").fetchall()
    return engine.table("judged")


def moved_by_one_record(place: str, folder: Path, expression: str) -> int:
    """How many counts one record changes that belongs into one cell."""
    schema, found = Schema(y=("in", "out")), []
    for n_more in (0, 1):
        numbers = [k % 4 + 0.5 for k in range(100)] + [math.nan] * 50 + [99.0] * n_more
        pyarrow.parquet.write_table(pa.table({"x": numbers}), folder / f"{n_more}.parquet")
        found.append(vectorize(evaluated(place, folder / f"{n_more}.parquet", expression), schema).vector())
    return int(np.abs(found[1] - found[0]).sum())


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=list(EXPRESSIONS))
@pytest.mark.parametrize("place", ["relation", "ibis", "polars"])
def test_no_statistics_judge_while_an_engine_is_read(place: str, expression: str, tmp_path: Path) -> None:
    """Comparisons were dropped, and whole files passed over, by statistics that leave NaN out."""
    assert moved_by_one_record(place, tmp_path, expression) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=list(EXPRESSIONS))
@pytest.mark.parametrize("is_cached", [False, True])
def test_no_statistics_judge_while_spark_is_read(
    is_cached: bool, expression: str, spark: Any, tmp_path: Path
) -> None:
    schema, found = Schema(y=("in", "out")), []
    for n_more in (0, 1):
        numbers = [k % 4 + 0.5 for k in range(100)] + [math.nan] * 50 + [99.0] * n_more
        path = str(tmp_path / f"{n_more}.parquet")
        pyarrow.parquet.write_table(pa.table({"x": numbers}), path)
        frame = spark._session.read.parquet(path)
        frame = frame.cache() if is_cached else frame
        frame.createOrReplaceTempView("raw")
        spark._session.sql(expression.replace("{}", "raw")).createOrReplaceTempView("judged")
        found.append(vectorize(spark.table("judged"), schema).vector())
        frame.unpersist()
    assert np.abs(found[1] - found[0]).sum() == 1


@pytest.mark.parametrize("on", ["statistics_propagation", "filter_pushdown"])
def test_an_optimiser_that_is_switched_on_again_is_found_out(
    on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_HARMLESS", engines._HARMLESS | {on})
    engines.check_duckdb.cache_clear()
    with refuses(DataError, "table", "DuckDB"):
        moved_by_one_record("relation", tmp_path, EXPRESSIONS["computed"])
    # And without the probe one record would move others.
    monkeypatch.setattr(engines, "check_duckdb", lambda: None)
    assert max(moved_by_one_record("relation", tmp_path, one) for one in EXPRESSIONS.values()) > 1


@pytest.mark.parametrize(
    "view",
    [
        "SELECT a.k FROM a, b WHERE a.k = b.k",
        "SELECT a.k FROM a, b WHERE a.k = b.k AND w IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND v > 0",
        "SELECT * FROM (SELECT a.k, b.k AS other FROM a CROSS JOIN b) WHERE k = other",
        "SELECT a.k FROM a LEFT JOIN c ON w = c.k, b WHERE a.k = b.k",
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b, c WHERE a.k = b.k AND v = c.k)",
    ],
    ids=["comma", "list", "projection", "left", "exists"],
)
def test_a_join_in_a_view_is_no_cross_product(view: str) -> None:
    """What would be billions of pairs of records takes no longer than a join, with most optimisers off."""
    engine = duckdb.connect()
    engine.execute("CREATE TABLE a AS SELECT range AS k, range % 10 AS w FROM range(200_000)").fetchall()
    engine.execute("CREATE TABLE b AS SELECT range AS k, range % 7 AS v FROM range(200_000)").fetchall()
    engine.execute("CREATE TABLE c AS SELECT range AS k FROM range(200_000)").fetchall()
    with engines.settings_for_reading(engine.execute):
        plan = engine.execute(f"EXPLAIN {view}").fetchall()[0][1]
    assert "Hash Join" in plan and "Cross Product" not in plan and "Nested Loop" not in plan


def test_a_connection_of_duckdb_is_left_as_it_was() -> None:
    engine = duckdb.connect()
    engine.execute("SET disabled_optimizers = 'join_order'").fetchall()
    shown = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    before = engine.execute(shown).fetchall()
    relation = engine.sql("SELECT range AS x FROM range(200000)")
    table = engines.DuckRelation(relation)
    assert len(read(table, ["x"])[0]) == 200_000
    assert engine.execute(shown).fetchall() == before
    # Somebody who stops half way, too.
    batches = table.batches(["x"], ["."], DroppedRecords())
    next(batches)
    batches.close()
    assert engine.execute(shown).fetchall() == before
    assert engine.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
    engine.execute("SET lock_configuration = true").fetchall()
    with refuses(DataError, "table", "a locked configuration"):
        list(table.batches(["x"], ["."], DroppedRecords()))
