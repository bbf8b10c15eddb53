"""One record changes one count at most, whatever it is and whoever else is in the table.

Random pairs of tables that differ in one record, or in one person's, are drawn by `neighbours`; those that
broke once stand here by name. What counts wrongly on purpose must be found out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
import neighbours_sources as sources
from neighbours import Case, Count, Counted, Fault, Found, Record, faults, judged, placements, smaller
from neighbours_files import JSON_FORM, SHEET_FORM, Cell, Json, Line
from neighbours_sources import SERVED, SOURCES, Source
from neighbours_values import OTHER, Form, arrow_form
from support import extra

# Cases in each source, of four pairs each; connections are slow to open.
QUICK = 5
THOROUGH = 40
SLOW = ("duckdb", "ibis", "xlsx")
# Fewer cases than these tell nothing of shares.
FEW = 10
HERE = [name for name in SOURCES if name not in SERVED]


def said(found: Sequence[Fault]) -> str:
    """The first fault, made small, and the others by their cases."""
    return "\n".join([str(smaller(found[0])), *(f"{fault.kind}: {fault.case}" for fault in found[1:])])


def check_pairs(source: str, seed: str, n_cases: int) -> Found:
    """Random pairs in one source, none of them wrong, and most of them counted and checked by hand."""
    for module in SOURCES[source].modules:
        extra(module)
    found = judged([f"{seed}:{i}" for i in range(n_cases)], [source])
    assert not found.wrong, f"{len(found.wrong)} wrong\n{said(found.wrong)}"
    # A writer that is always refused would find nothing wrong.
    if n_cases >= FEW:
        assert found.n_refused <= 0.6 * found.n_pairs
        assert found.n_by_hand >= 0.25 * found.n_pairs
    return found


@pytest.mark.parametrize("source", HERE)
def test_one_record_more_changes_one_count_at_most(source: str) -> None:
    check_pairs(source, "quick", 1 if source in SLOW else QUICK)


@pytest.mark.thorough
@pytest.mark.parametrize("source", HERE)
def test_one_record_more_changes_one_count_at_most_in_many_tables(source: str) -> None:
    check_pairs(source, "thorough", THOROUGH)


@pytest.mark.thorough
@pytest.mark.xdist_group("engines")
def test_one_record_more_changes_one_count_at_most_in_postgres(server: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sources.ENGINES, "postgres", server.connect())
    check_pairs("postgres", "thorough", 20)


@pytest.mark.thorough
@pytest.mark.xdist_group("engines")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(ibis|pyspark).*")
def test_one_record_more_changes_one_count_at_most_in_spark(
    spark: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setitem(sources.ENGINES, "spark", spark)
    monkeypatch.setitem(sources.ENGINES, "folder", tmp_path)
    check_pairs("spark", "thorough", 6)


# ------------------------------------------------------------------ pairs that broke once


def bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def pair(source: str, form: Form, attribute: Any, base: Sequence[Any], *more: Any) -> Case:
    """A table of one column, and neighbours that each have one of these values more."""
    return Case(
        "named",
        source,
        ln.Schema(v=attribute),
        ["v"],
        [form],
        [(raw,) for raw in base],
        [[(raw,)] for raw in more],
    )


def together(source: str, form: Form, attribute: Any, base: Sequence[Any], odd: Sequence[Any]) -> Case:
    """A table that holds all odd values, and one neighbour: quick where one value stops a table."""
    return pair(source, form, attribute, [*base, *odd], base[0])


def check_named(case: Case) -> None:
    for module in SOURCES[case.source].modules:
        extra(module)
    found = faults(case)
    assert not found, "\n".join(map(str, found))


FLOAT = arrow_form("float64")
_INCOMES = [*map(bits, (0.0, 500.0, 1999.0, 2000.0, 3999.0)), *[bits(math.nan)] * 3]


@pytest.mark.parametrize(
    "attribute",
    [
        ln.Bins([0, 2000, 4000]),
        ln.Bins([0, 2000, 4000], outside="clamp"),
        ln.Bins([0, 2000, 4000], null="other", other="?"),
        ln.Integers(range(4001), outside="clamp", null="other", other="?"),
        ln.Categories(["0", "500"], null="other", outside="other", other="?"),
    ],
    ids=lambda attribute: f"{attribute.kind}-{attribute.outside}-{attribute.null}",
)
def test_nan_counts_as_nan_whoever_else_is_there(attribute: Any) -> None:
    """A file's statistics leave NaN out: an engine dropped the comparison, and 3,000 NaN were in a bin."""
    check_named(pair("parquet", FLOAT, attribute, _INCOMES, *map(bits, (5000.0, -1.0))))


ENGINES = [
    pytest.param(name, marks=pytest.mark.thorough) for name in ("feather", "polars", "relation", "ibis")
]


@pytest.mark.parametrize("source", ["arrow", "parquet", *ENGINES])
def test_nan_is_no_period(source: str) -> None:
    periods = ln.Periods("2020", "2026", by="year", **OTHER)
    odd = list(map(bits, (math.nan, math.inf, 1e300, 2020.5)))
    check_named(pair(source, FLOAT, periods, [bits(2020.0)], *odd))


ENDS = [2**63 - 1, -(2**63), 1 - 2**63, 2**63 - 10**6, 9_223_372_036_854_775_000, -9_223_372_036_854_770_000]


@pytest.mark.parametrize("zone", ["", ", UTC", ", +05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("source", ["arrow", pytest.param("feather", marks=pytest.mark.thorough)])
def test_moments_at_the_ends_of_64_bits_are_in_no_period(source: str, unit: str, zone: str) -> None:
    """The last years of 64 bits, with a zone, and seconds beyond the range of microseconds."""
    periods = ln.Periods("2020-01", "2026-12", zone="Europe/Berlin" if zone else None, **OTHER)
    form = arrow_form(f"timestamp[{unit}{zone}]")
    check_named(together(source, form, periods, form.usual, ENDS))


@pytest.mark.parametrize("zone", ["", ", UTC"])
def test_moments_at_the_ends_of_64_bits_are_in_no_period_of_files(zone: str) -> None:
    periods = ln.Periods("1677-09", "1677-10", zone="UTC" if zone else None, **OTHER)
    for source in ("parquet", "pandas"):
        for unit in ("us", "ns"):
            form = arrow_form(f"timestamp[{unit}{zone}]")
            if source == "pandas":
                form = sources._time_form(unit, "UTC" if zone else None)
            check_named(together(source, form, periods, form.usual, ENDS))


@pytest.mark.parametrize("name", ["time32[s]", "time32[ms]", "time64[us]", "time64[ns]"])
@pytest.mark.parametrize(
    "source", ["arrow", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("feather", "parquet"))]
)
def test_a_time_of_day_outside_24_hours_is_a_value(source: str, name: str) -> None:
    form = arrow_form(name)
    check_named(together(source, form, ln.Categories(["x"], **OTHER), form.usual, form.odd))
    person = ln.Schema(v=ln.Integers(range(3)))
    # Parquet has no times in seconds: those beyond its milliseconds are others before anybody reads them.
    told = (
        form.odd
        if (source, name) != ("parquet", "time32[s]")
        else [v for v in form.odd if abs(v) < 2**31 // 1000]
    )
    records: list[Record] = [(1, form.usual[0]), *((2, raw) for raw in told)]
    groups: list[list[Record]] = [[(0, form.usual[1]), (2, form.usual[1])]]
    check_named(Case("named", source, person, ["v", "who"], [arrow_form("int8"), form], records, groups, k=1))


@pytest.mark.parametrize("encoding", ["dictionary", "words", "runs"])
@pytest.mark.parametrize(
    "name", ["string", "large_string", "float64", "timestamp[us, UTC]", "date32", "uint64"]
)
def test_columns_of_few_values_are_columns(name: str, encoding: str) -> None:
    """Entries that no record has, nulls among them, text that is none: any failed the whole table."""
    form = arrow_form(name, encoding)
    attribute = {
        "string": ln.Categories(("a", "b"), **OTHER),
        "large_string": ln.Categories(("a", "b"), **OTHER),
    }.get(name, ln.Periods("2020", "2026", by="year", zone="UTC", **OTHER))
    check_named(together("arrow", form, attribute, [*form.usual[:3], None], form.odd))


@pytest.mark.parametrize(
    "name", ["decimal128(18,2)", "decimal128(38,0)", "decimal128(38,38)", "decimal128(5,0)"]
)
def test_decimals_with_more_digits_than_declared_are_values(name: str) -> None:
    form = arrow_form(name)
    check_named(together("arrow", form, ln.Bins([0, 2000, 4000], **OTHER), form.usual[:1], form.odd))


@pytest.mark.parametrize(
    "lines",
    [
        [b"\xff\xfe"],
        [b"\xfe\xff"],
        [b"\xef\xbb\xbf"],
        [b'\xef\xbb\xbf{"v": "a"}'],
        [b"\xff\xfe{\x00}\x00", b"\xff\xfe"],
    ],
    ids=repr,
)
def test_the_first_line_of_a_file_without_header_is_a_record(lines: list[bytes]) -> None:
    a = (Json('"a"', "a"),)
    stored = [Line(line, None if line[:3] == b"\xef\xbb\xbf" else False) for line in lines]
    case = Case(
        "named", "jsonl", ln.Schema(v=ln.Categories(("a",))), ["v"], [JSON_FORM], [*stored, a, a, a], [[a]]
    )
    names = (f"named {k}" for k in range(1000))
    # The neighbour whose first line is another.
    check_named(
        next(own for own in (replace(case, name=name) for name in names) if list(own.tables())[1][0] == a)
    )


CELLS = [cell for cell in SHEET_FORM.odd if not isinstance(cell.reading, str)]


def test_cells_of_a_sheet_that_cannot_be_read_are_values() -> None:
    check_named(
        together("xlsx", SHEET_FORM, ln.Categories(("a", "2020"), **OTHER), SHEET_FORM.usual[:1], CELLS)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_a_cell_of_a_sheet_that_cannot_be_read_is_a_value(cell: Cell) -> None:
    check_named(pair("xlsx", SHEET_FORM, ln.Categories(("a", "2020"), **OTHER), SHEET_FORM.usual[:1], cell))


# ------------------------------------------------------------------ what must be found out

SIMPLE = ["float64", "float64", "int64", "float32", "string", "date32"]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> str:
    """A source that is never written: what counts it is a stand-in."""
    form = lambda rng: arrow_form(rng.choice(SIMPLE))  # noqa: E731
    monkeypatch.setitem(SOURCES, "plain", Source(form, lambda table, folder, rng: None))
    return "plain"


def honest(case: Case, records: list[Record], folder: Path) -> Counted:
    """Each record by its own values; the least cells of each person. What is left open has no cell."""
    kept: dict[Any, list[tuple[int, ...]]] = {}
    for i, record in enumerate(records):
        assert isinstance(record, tuple)
        placed = placements(case, [record])
        for who, cell in placed or ():
            kept.setdefault(i if case.k is None else who, []).append(cell)
    tables = [
        np.zeros([case.schema[name].size for name in subset], dtype=np.int64) for subset in case.subsets
    ]
    for cell in (cell for own in kept.values() for cell in sorted(own)[: case.k]):
        for x, subset in zip(tables, case.subsets, strict=True):
            x[tuple(cell[case.schema.names.index(name)] for name in subset)] += 1
    return Counted(tuple(x.ravel() if len(tables) == 1 else x for x in tables))


def numbers(form: Form, records: list[Record], k: int) -> list[float]:
    read = [form.read(record[k]) for record in records if isinstance(record, tuple)]
    return [value for value in read if isinstance(value, float) and math.isfinite(value)]


def seen_through(changed: Callable[[Case, int, list[Record]], Callable[[Any], Any]]) -> Count:
    """A count that changes what values are: from a case, a column and all records to a change of one."""

    def count(case: Case, records: list[Record], folder: Path) -> Counted:
        forms = list(case.forms)
        for k in range(len(case.schema.names)):
            change, form = changed(case, k, records), case.forms[k]
            forms[k] = replace(form, reading=lambda raw, form=form, change=change: change(form.reading(raw)))
        return honest(replace(case, forms=forms), records, folder)

    return count


def from_the_least(case: Case, k: int, records: list[Record]) -> Callable[[Any], Any]:
    """Places numbers by their distance to the least of the column, if that is below zero."""
    low = min([0.0, *numbers(case.forms[k], records, k)])
    return lambda value: value - low if isinstance(value, float) else value


def by_statistics(case: Case, k: int, records: list[Record]) -> Callable[[Any], Any]:
    """Drops the comparison with the last edge where statistics, which leave NaN out, say that it holds."""
    attribute = case.schema[case.schema.names[k]]
    if not isinstance(attribute, ln.Bins) or any(
        n >= attribute.edges[-1] for n in numbers(case.forms[k], records, k)
    ):
        return lambda value: value
    last = attribute.edges[-2]
    return lambda value: float(last) if isinstance(value, float) and math.isnan(value) else value


def nan_is_zero(case: Case, k: int, records: list[Record]) -> Callable[[Any], Any]:
    """Wrong for every record alike: neighbours tell nothing of it."""
    return lambda value: 0.0 if isinstance(value, float) and math.isnan(value) else value


def throwing(case: Case, records: list[Record], folder: Path) -> Counted:
    """A conversion that fails for one value."""
    for record in records:
        for form, raw in zip(case.forms, record, strict=True):  # type: ignore[arg-type]
            if form.read(raw) in (math.inf, -math.inf, 2**63 - 1):
                return Counted(refusal="DataError: counting the table failed")
    return honest(case, records, folder)


def warning(case: Case, records: list[Record], folder: Path) -> Counted:
    """Speaks of values beyond all numbers."""
    found = throwing(case, records, folder)
    is_odd = bool(found.refusal)
    return replace(
        honest(case, records, folder), warned=frozenset(["RuntimeWarning: overflow"] if is_odd else [])
    )


def unlimited(case: Case, records: list[Record], folder: Path) -> Counted:
    """Counts all records of everybody."""
    return honest(replace(case, k=case.k and 10**6), records, folder)


def test_a_count_of_each_record_by_itself_is_found_right(plain: str) -> None:
    found = judged([f"honest:{i}" for i in range(150)], [plain], count=honest)
    assert not found.wrong and found.n_pairs > 400 and found.n_by_hand > 0.6 * found.n_pairs


@pytest.mark.parametrize(
    ("count", "kind", "is_by_hand"),
    [
        (seen_through(from_the_least), "moved", False),
        (seen_through(by_statistics), "moved", False),
        (throwing, "refused", False),
        (warning, "warned", False),
        (unlimited, "moved", False),
        (seen_through(nan_is_zero), "miscounted", True),
    ],
    ids=["least", "statistics", "throwing", "warning", "unlimited", "alike"],
)
def test_what_lets_a_record_have_a_say_is_found_out(
    plain: str, count: Count, kind: str, is_by_hand: bool
) -> None:
    found = judged(
        (f"twins:{i}" for i in range(2_000)),
        [plain],
        count=count,
        is_by_hand=is_by_hand,
        until=lambda found: bool(found.wrong),
    )
    assert found.wrong is not None and {fault.kind for fault in found.wrong} == {kind}
    # And it is shown with no more than it takes.
    shown = smaller(found.wrong[0], count)
    assert len(shown.case.base) <= len(found.wrong[0].case.base) and len(shown.case.schema.names) == 1


def test_a_table_that_is_always_refused_for_a_value_is_found_out(plain: str) -> None:
    """Both neighbours hold the value, so only the table without any record tells."""
    inf = bits(math.inf)
    case = pair(plain, FLOAT, ln.Bins([0, 1]), [inf], bits(0.0))
    assert [fault.kind for fault in faults(case, throwing)] == ["refused"]


def test_a_reader_that_throws_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself, in which one value stops a table."""
    own = ln.vectorize

    class Broken:
        def __init__(self, source: Any, schema: Any, **more: Any) -> None:
            self._data, self._records = own(source, schema, **more), source.num_rows

        def vector(self, **more: Any) -> Any:
            if self._records % 2:
                raise ZeroDivisionError
            return self._data.vector(**more)

    monkeypatch.setattr(ln, "vectorize", Broken)
    case = pair("arrow", FLOAT, ln.Bins([0, 1]), [bits(0.0)] * 2, bits(0.5))
    assert [fault.kind for fault in faults(case)] == ["refused"]
