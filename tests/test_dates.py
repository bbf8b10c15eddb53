"""Periods: every value counts on the day that the standard library says, whatever holds it."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from leastnoise import (
    ApproxDP,
    Marginal,
    Periods,
    Prefix,
    Ranges,
    Schema,
    Where,
    assemble,
    design,
    measure,
    queries_from_sql,
    vectorize,
)
from leastnoise.core.errors import DataError, QueryError, SchemaError, SqlError
from oracle_dates import Case, cells, day_of_moment, day_of_text, labels, odd_text
from support import extra, refuses

pytestmark = pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")


def counted(table: Any, periods: Periods) -> list[int]:
    return vectorize(table, Schema(d=periods)).vector().tolist()


def arrow(values: list[Any], kind: Any) -> Any:
    pyarrow = extra("pyarrow")
    return pyarrow.table({"d": pyarrow.array(values, kind)})


@pytest.mark.parametrize("seed", range(3))
def test_texts_count_on_their_day(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = Case(rng)
    texts = [rng.choice([None, *(odd_text(rng) for _ in range(20))]) for _ in range(300)]
    assert [case.periods.place(text) for text in texts] == cells(texts, case, day_of_text)
    expected = case.counts(texts, day_of_text)
    pyarrow = extra("pyarrow")
    assert counted(pandas.DataFrame({"d": pandas.Series(texts, dtype=object)}), case.periods) == expected
    assert counted(arrow(texts, pyarrow.string()), case.periods) == expected
    lines = ["" if text is None else '"' + text + '"' for text in texts]
    (tmp_path / "t.csv").write_text("d,e\n" + "".join(f"{line},1\n" for line in lines), newline="")
    assert counted(tmp_path / "t.csv", case.periods) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_dates_and_timestamps_count_on_their_day(seed: int) -> None:
    pyarrow, polars = extra("pyarrow"), extra("polars")
    rng = random.Random(seed)
    case = Case(rng)
    days = case.days(rng, 200)
    expected = case.counts(days, lambda day, by, zone: day)
    assert [case.periods.place(day) for day in days] == cells(days, case, lambda day, by, zone: day)
    assert counted(arrow(days, pyarrow.date32()), case.periods) == expected
    assert counted(polars.DataFrame({"d": days}, schema={"d": polars.Date}), case.periods) == expected
    assert counted(pandas.DataFrame({"d": pandas.Series(days, dtype=object)}), case.periods) == expected
    moments = [
        None if day is None else datetime(day.year, day.month, day.day, rng.choice([0, 23]), 59, 59, 999_999)
        for day in days
    ]
    for unit in ("s", "ms", "us", "ns"):
        # Nanoseconds reach from 1677 to 2262.
        own = [m if m is None or unit != "ns" or 1700 < m.year < 2200 else None for m in moments]
        held = np.array([None if m is None else m for m in own], dtype="datetime64[us]").astype(
            f"datetime64[{unit}]"
        )
        if unit == "ns":
            held = held + np.timedelta64(999, "ns")
        table = arrow(held, pyarrow.timestamp(unit))
        assert counted(table, case.periods) == case.counts(own, lambda m, by, zone: m.date())
        placed = [case.periods.place(moment) for moment in held]
        assert placed == cells(own, case, lambda m, by, zone: m.date())


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo"])
def test_moments_count_on_the_day_of_their_zone(zone: str) -> None:
    """St. John's changed its clocks a minute after midnight, Sao Paulo at midnight; Apia left a day out."""
    pyarrow = extra("pyarrow")
    rng = random.Random(zone)
    case = Case(rng)
    case.first, case.last, case.zone, case.by = date(2010, 3, 1), date(2012, 2, 29), zone, "day"
    case.periods = Periods(case.first, case.last, "day", zone=zone, **case.policies)
    start = int(datetime(2010, 2, 27, tzinfo=UTC).timestamp())
    seconds = [start + 900 * k + rng.choice([0, 59, 60, 899]) for k in range(0, 71_000, 3)]
    moments = [datetime.fromtimestamp(second, tz=UTC) for second in seconds]
    expected = case.counts(moments, day_of_moment)
    assert counted(arrow(moments, pyarrow.timestamp("us", "UTC")), case.periods) == expected
    some = rng.sample(moments, 200)
    assert [case.periods.place(moment) for moment in some] == cells(some, case, day_of_moment)


def test_moments_need_a_declared_zone() -> None:
    pyarrow = extra("pyarrow")
    table = arrow([datetime(2026, 3, 1, tzinfo=UTC)], pyarrow.timestamp("us", "UTC"))
    with refuses(DataError, "d", "zoned"):
        counted(table, Periods("2026-01", "2026-12"))
    assert Periods("2026-01", "2026-12").place("2026-03-01T00:00:00Z") is None
    with refuses(SchemaError, "zone", "Europe/Nowhere"):
        Periods("2026-01", "2026-12", zone="Europe/Nowhere")


def test_numbers_are_years_where_years_are_declared() -> None:
    years = Periods("2024", "2026", by="year")
    table = pandas.DataFrame({"d": [2024, 2026, 2026, 26, 20260101]})
    assert counted(table, years) == [1, 0, 2]
    assert counted(table.astype(float), years) == [1, 0, 2]
    assert [years.place(value) for value in (2024, 2026.0, 2026.5, True, "2026.0")] == [
        0,
        2,
        None,
        None,
        None,
    ]


def test_times_of_day_and_lists_are_refused() -> None:
    pyarrow = extra("pyarrow")
    with refuses(DataError, "d", "time"):
        counted(arrow([None], pyarrow.time64("us")), Periods("2026-01", "2026-12"))
    with refuses(DataError, "d", "date"):
        vectorize(arrow([None], pyarrow.date32()), Schema(d=range(5))).vector()


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        ("day", "2025-12-29"),
        ("week", "2026-W01"),
        ("month", "2025-12"),
        ("quarter", "2025-Q4"),
        ("year", "2025"),
    ],
)
def test_labels(by: str, shown: str) -> None:
    periods = Periods(date(2025, 12, 29), date(2027, 1, 3), by=by)
    assert periods.label(0) == shown
    expected = labels(by, date(2025, 12, 29), date(2027, 1, 3))
    assert [periods.label(i) for i in range(periods.size)] == expected == list(periods.values)
    schema = Schema(d=periods)
    assert Schema.from_dict(schema.to_dict()) == schema
    assert periods.prefix_label(1) == f"up to {expected[1]}"


def test_declarations_are_checked() -> None:
    for given, field in (
        ({"first": "2026-13"}, "first"),
        ({"last": "soon"}, "last"),
        ({"last": "2025-12"}, "last"),
        ({"by": "hour"}, "by"),
        ({"other": "2026-03", "outside": "other"}, "other"),
    ):
        with refuses(SchemaError, field):
            Periods(**({"first": "2026-01", "last": "2026-12"} | given))
    with refuses(SchemaError, "d.periods"):
        Schema.from_dict({"d": {"periods": ["2026-01"], "by": "month"}})


def test_conditions_name_days_months_and_years() -> None:
    schema = Schema(d=Periods("2025-01", "2026-12"))

    def months(text: str) -> list[int]:
        return np.flatnonzero(assemble([Where(text)], schema).dense()[0]).tolist()

    assert months("d == '2025'") == list(range(12))
    assert months("d >= '2026-03-01' and d < '2026-06'") == [14, 15, 16]
    assert months("d <= '2025-02-28'") == [0, 1]
    assert months("d > '2026-10'") == [22, 23]
    assert months("d in ('2025-Q1', '2026-12')") == [0, 1, 2, 23]
    for cut in (
        "d >= '2026-03-15'",
        "d <= '2026-03-30'",
        "d == '2026-03-01'",
        "d > '2025-W30'",
        "d == 'soon'",
    ):
        with pytest.raises(QueryError):
            months(cut)
    spans = assemble([Ranges("d", [("2025-11", "2026-02"), ("2026", "2026")])], schema).dense()
    assert [np.flatnonzero(row).tolist() for row in spans] == [list(range(10, 14)), list(range(12, 24))]


def test_running_totals_and_quantiles() -> None:
    schema = Schema(d=Periods("2026-01", "2026-12"), sex=("F", "M"))
    plan = design(assemble([Prefix("d"), Marginal("d", "sex")], schema), ApproxDP(1e4, 1e-6))
    counts = np.zeros((12, 2), dtype=int)
    counts[[2, 5, 7], [0, 1, 1]] = 100_000, 150_000, 100_000
    release = measure(plan, counts.ravel().tolist())
    found = release.quantiles("d", [0.1, 0.5, 0.9])
    assert found["quantile"].tolist() == ["2026-03", "2026-06", "2026-08"]
    assert found["lower"].tolist() == ["2026-03", "2026-06", "2026-08"]
    assert str(plan.workload.labels[2]) == "d up to 2026-03"


def test_sql_names_dates_and_groups_by_the_calendar() -> None:
    schema = Schema(d=Periods("2025-01-01", "2026-12-31", by="day"), sex=("F", "M"))

    def rows(sql: str) -> Any:
        return assemble(queries_from_sql(sql, schema), schema)

    days = [date.fromordinal(date(2025, 1, 1).toordinal() + k) for k in range(730)]
    by_month = rows("SELECT date_trunc('month', d) AS month, COUNT(*) FROM t GROUP BY 1")
    expected = [[day.isoformat()[:7] == m for day in days] for m in labels("month", days[0], days[-1])]
    assert by_month.dense().reshape(24, 730, 2)[:, :, 0].astype(bool).tolist() == expected
    assert by_month.labels[2] == "month 2025-03"
    by_year = rows(
        "SELECT extract(year FROM d) AS y, COUNT(*) FROM t WHERE d >= DATE '2025-07-01' GROUP BY y"
    )
    assert by_year.dense().sum(axis=1).tolist() == [2 * 184, 2 * 365]
    spring = rows("SELECT COUNT(*) FROM t WHERE d BETWEEN '2026-03-01' AND '2026-05-31' AND sex = 'F'")
    assert spring.dense().sum() == 92
    january = rows("SELECT COUNT(*) FROM t WHERE extract(month FROM d) = 1")
    assert january.dense().sum() == 2 * 62
    march = rows("SELECT COUNT(*) FROM t WHERE date_trunc('month', d) = DATE '2026-03-01'")
    assert march.dense().sum() == 2 * 31
    weekday = "SELECT date_trunc('hour', d), COUNT(*) FROM t GROUP BY 1"
    with pytest.raises(SqlError):
        rows(weekday)
    months = Schema(d=Periods("2025-01", "2026-12"))
    with pytest.raises(SqlError):
        queries_from_sql("SELECT date_trunc('week', d), COUNT(*) FROM t GROUP BY 1", months)
    found = queries_from_sql("SELECT date_trunc('month', d), COUNT(*) FROM t GROUP BY 1", months)
    assert assemble(found, months).dense().tolist() == np.eye(24).tolist()
