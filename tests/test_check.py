"""A table held against its schema: true numbers, for its owner and nobody else."""

from __future__ import annotations

import gzip
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import leastnoise
import leastnoise as ln
import leastnoise.data.schema_fit
from leastnoise.app.cli.check_command import check
from leastnoise.core.errors import DataError, DesignError, LeastnoiseError, SpecError
from leastnoise.data import ColumnFit, SchemaFit, vectorize
from leastnoise.data.schema_fit import PersonFit, fit_of
from leastnoise.query import Attribute, Bins, Categories, Integers, Schema, is_null
from leastnoise.query.schema.attribute import float_of, whole_of
from support import extra, refuses

extra("duckdb")

POLICIES: list[dict[str, Any]] = [
    {},
    {"null": "other", "outside": "drop", "other": "?"},
    {"outside": "other", "other": "?"},
    {"outside": "other", "null": "other", "other": "?"},
]
CLAMPED: list[dict[str, Any]] = [{"outside": "clamp"}, {"outside": "clamp", "null": "other", "other": "?"}]
VALUES = [
    None,
    *("0", "3", "4", "5", "5.0", "1e1", "-1", "130", "9" * 40, "-" + "9" * 40, "1e400"),
    *("34.5", "abc", " 3", "F", "f", "10", "12", "nan", "inf", "Zoë"),
]


def attributes() -> st.SearchStrategy[Attribute]:
    ends, names = st.sampled_from(POLICIES + CLAMPED), st.sampled_from(POLICIES)
    return st.one_of(
        ends.map(lambda policy: Integers(range(0, 6), **policy)),
        ends.map(lambda policy: Integers(range(0, 11, 5), **policy)),
        ends.map(lambda policy: Bins([0, 4, 10.5], **policy)),
        ends.map(lambda policy: Bins([0, 4, float("inf")], **policy)),
        names.map(lambda policy: Categories(["F", "3"], **policy)),
        names.map(lambda policy: Categories([3, 10], **policy)),
    )


def by_hand(attribute: Attribute, values: list[Any]) -> tuple[int, ...]:
    """The second route: value by value, by the rule that `Attribute.place` states."""
    found: Counter[str] = Counter()
    is_measured = isinstance(attribute, Bins)
    strict = (
        Bins(attribute.edges)
        if is_measured
        else Integers(attribute.values)
        if isinstance(attribute, Integers)
        else attribute
    )
    for value in values:
        is_out = attribute.place(value) is None
        found["out"] += is_out
        if is_null(value):
            found["missing"] += 1
        elif strict._placed(value) is None:
            read = float_of(value) if is_measured else whole_of(value)
            is_number = isinstance(attribute, (Bins, Integers))
            # 1e400 is no whole number here or in the engine, but infinity to bins.
            if is_number and read is None:
                found["unreadable"] += 1
            else:
                found["undeclared"] += 1
                found["undeclared out"] += is_out
    return tuple(found[key] for key in ("missing", "unreadable", "undeclared", "undeclared out", "out"))


def numbers(column: ColumnFit) -> tuple[int, ...]:
    own = (column.n_missing, column.n_unreadable, column.n_undeclared)
    return (*own, column.n_undeclared_left_out, column.n_left_out)


def check_by_hand(declared: list[Attribute], rows: list[tuple[Any, ...]]) -> None:
    pandas = pytest.importorskip("pandas")
    schema = Schema({f"a{k}": attribute for k, attribute in enumerate(declared)})
    table = pandas.DataFrame(rows, columns=list(schema.names), dtype=object)
    handle = vectorize(table, schema)
    fit = fit_of(handle)
    counted = [
        row
        for row in rows
        if all(schema[name].place(value) is not None for name, value in zip(schema, row, strict=True))
    ]
    assert fit.n_records == len(rows)
    assert fit.n_counted == int(handle.counts()) == len(counted)
    for k, column in enumerate(fit.columns):
        assert numbers(column) == by_hand(declared[k], [row[k] for row in rows])


@pytest.mark.thorough
@settings(max_examples=12)
@given(st.lists(attributes(), min_size=3, max_size=5), st.data())
def test_every_number_agrees_with_a_count_by_hand(declared: list[Attribute], data: st.DataObject) -> None:
    # Every value in every column, in an order of its own; and some of the rows left out.
    orders = [data.draw(st.permutations(VALUES)) for _ in declared]
    rows = list(zip(*orders, strict=True))
    check_by_hand(declared, rows[: data.draw(st.integers(0, len(rows)))])


def test_a_check_that_counts_clamped_numbers_as_declared_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: numbers looked up with the policy instead of without it."""
    request: Any = ([Integers(range(6), outside="clamp")], [("3",), ("130",)])
    check_by_hand(*request)
    monkeypatch.setattr(Attribute, "with_policies", lambda self, **_: self)
    with pytest.raises(AssertionError):
        check_by_hand(*request)


def test_a_check_that_takes_large_numbers_for_none_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: numbers read in the type that the declared ones need."""
    request: Any = ([Integers(range(6))], [("9" * 40,), ("x",)])
    check_by_hand(*request)
    closed = lambda attribute: attribute.with_policies(outside="drop")  # noqa: E731
    monkeypatch.setattr(leastnoise.data.schema_fit, "_open", closed)
    with pytest.raises(AssertionError):
        check_by_hand(*request)


# ---------------------------------------------------------------- the command

SPEC = """
[schema]
age = { range = [0, 100], outside = "clamp" }
sex = ["F", "M"]
region = { categories = ["north", "south"], other = "elsewhere", null = "other" }
[privacy]
epsilon = 1.0
delta = 1e-6
records_per_person = 2
[[query]]
kind = "total"
"""
PEOPLE = """id,age,sex,region
a,34,F,north
a,,M,south
a,130,Fcanary,north
b,old-canary,F,
b,7,F,west-canary
b,7,F,north
b,8,F,north
,9,M,south
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "people.toml").write_text(SPEC, encoding="utf-8")
    app = typer.Typer()
    app.command()(check)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_the_command_says_what_becomes_of_every_record(run: Callable[..., Any]) -> None:
    done = run("people.toml", "--data", "people.csv")
    assert done.exit_code == 3, done.output
    assert done.stdout.startswith("NOT PRIVATE. Everything below is true of real records and has no noise")
    assert "Do not publish it" in done.output
    assert done.output.split("\n\n", 1)[1] == (
        "8 records could be read\n"
        "\n"
        "age: 0–99\n"
        '  1 record without a value: left out (null = "drop"; null = "other" would count them)\n'
        "  1 record with something that is no whole number: left out\n"
        '  1 record with a number that is not declared: counted at the nearest end (outside = "clamp")\n'
        "\n"
        "sex: F, M\n"
        "  1 record with a value that is not declared: left out\n"
        "\n"
        "region: north, south\n"
        '  1 record without a value: counted in the cell "elsewhere" (null = "other")\n'
        '  1 record with a value that is not declared: counted in the cell "elsewhere" (outside = "other")\n'
        "\n"
        "3 records of 8 would be left out for one or more of these reasons, more than the 5% of "
        "[not_counted];\na release says how many, with noise\n"
        "used by no query: age, sex, region. Records without a declared value there are left out\n"
        "all the same; remove from [schema] what you do not count by\n"
        "records_per_person = 2 is not checked. Name the person's column beside it, as in\n"
        'person = "patient_id", and further records of one person are left out\n'
        "the table would not stop publish: all columns exist. No value can stop it, because that would\n"
        "reveal something about one person\n"
        "--show-values shows a few of the values that are not declared\n"
    )


@pytest.mark.thorough
def test_persons_are_held_against_the_limit(run: Callable[..., Any]) -> None:
    told = run("people.toml", "--data", "people.csv", "--person", "id").stdout
    assert "2 different persons (column id) among the records that count\n" in told
    assert "  1 record without a person: left out\n" in told
    assert "  1 with more than records_per_person = 2: 1 record beyond it left out\n" in told
    limit = "records_per_person = 2"
    assert limit in SPEC
    Path("named.toml").write_text(SPEC.replace(limit, f'{limit}\nperson = "id"'), encoding="utf-8")
    assert run("named.toml", "--data", "people.csv").stdout == told, "the file may say it as well"
    assert "persons (column region)" in run("named.toml", "--data", "people.csv", "--person", "region").output
    schema = Schema(age=Integers(range(100), outside="clamp"), sex=("F", "M"))
    data = vectorize("people.csv", schema, person="id")
    found = fit_of(data, records_per_person=2)
    assert found.person is not None
    kept = found.n_counted - found.person.n_nobody - found.person.n_cut
    assert kept == int(data.counts(records_per_person=2))


@pytest.mark.thorough
def test_values_are_shown_only_when_asked_for(run: Callable[..., Any]) -> None:
    arguments = ("people.toml", "--data", "people.csv")
    assert "canary" not in run(*arguments).output
    told = run(*arguments, "--show-values").output
    assert (
        "    'Fcanary': 1\n" in told and "    'old-canary': 1\n" in told and "    'west-canary': 1\n" in told
    )
    assert "    '130': 1\n" in told and "'34'" not in told
    Path("people.csv").write_text(
        "age,sex,region\n" + "".join(f"x{i % 7}\x1b[31m,F,north\n" for i in range(20))
    )
    told = run(*arguments, "--show-values").output
    assert told.count("    '") == 5, "the most frequent five of seven"
    assert "\x1b" not in told


def test_a_table_that_fits_is_told_so(run: Callable[..., Any]) -> None:
    Path("people.csv").write_text("age,sex,region\n3,F,north\n", encoding="utf-8")
    told = run("people.toml", "--data", "people.csv").output
    assert told.count("every record holds a declared value") == 3
    assert "every record would be counted\n" in told and "--show-values" not in told
    Path("people.csv").write_text("age,sex,region\n", encoding="utf-8")
    assert "0 records could be read" in run("people.toml", "--data", "people.csv").output


@pytest.mark.thorough
def test_every_kind_of_file_gives_the_same(run: Callable[..., Any], tmp_path: Path) -> None:
    import duckdb

    expected = run("people.toml", "--data", "people.csv").stdout
    lines = PEOPLE.splitlines(keepends=True)
    (tmp_path / "part1.csv").write_text("".join(lines[:4]), encoding="utf-8")
    (tmp_path / "part2.csv").write_text(lines[0] + "".join(lines[4:]), encoding="utf-8")
    (tmp_path / "people.tsv").write_text(PEOPLE.replace(",", "\t"), encoding="utf-8")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(PEOPLE.encode()))
    with duckdb.connect() as engine:
        engine.execute("COPY (FROM read_csv('people.csv', all_varchar=true)) TO 'people.parquet'")
    for data in ("part*.csv", "people.tsv", "people.csv.gz", "people.parquet"):
        assert run("people.toml", "--data", data).stdout == expected, data


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (("sex =", "Sex ="), ("Sex", "none")),
        (("sex =", "zzz ="), ("zzz", "none")),
    ],
)
def test_columns_that_are_missing_stop_it(
    change: tuple[str, str], refusal: tuple[Any, ...], run: Callable[..., Any]
) -> None:
    Path("people.toml").write_text(SPEC.replace(*change), encoding="utf-8")
    done = run("people.toml", "--data", "people.csv")
    assert isinstance(done.exception, DataError)
    assert done.exit_code == 1
    with refuses(DataError, *refusal):
        raise done.exception


def test_faults_of_the_specification_come_with_their_line(run: Callable[..., Any]) -> None:
    Path("people.toml").write_text(SPEC.replace('["F", "M"]', "3"), encoding="utf-8")
    refused = run("people.toml", "--data", "people.csv").exception
    assert isinstance(refused, SpecError) and str(refused).startswith("people.toml:4: [schema]: ")
    assert isinstance(run("people.toml", "--data", "none.csv").exception, LeastnoiseError)
    Path("people.toml").write_text(SPEC, encoding="utf-8")
    told = str(run("people.toml", "--data", "people.csv", "--person", "Id").exception)
    assert told.startswith("publish would stop: ") and told.endswith("; 'id' is there for 'Id'")


def test_a_query_that_lacks_a_target_is_told_before_the_table_is_read(run: Callable[..., Any]) -> None:
    """`check` found nothing to say of a specification that `explain` then refused."""
    targets = SPEC.replace("epsilon = 1.0\n", "").replace('kind = "total"', 'kind = "total"\nwithin = 20')
    Path("people.toml").write_text(targets, encoding="utf-8")
    assert "could be read" in run("people.toml", "--data", "people.csv").output
    Path("people.toml").write_text(targets + '[[query]]\nkind = "marginal"\nattributes = ["sex"]\n')
    told = run("people.toml", "--data", "none.csv").exception
    assert isinstance(told, DesignError) and "'sex' has no target" in str(told)


def test_columns_that_cannot_be_read_stop_it(run: Callable[..., Any], tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect() as engine:
        engine.execute("COPY (SELECT [1] AS age, 'F' AS sex, 'north' AS region) TO 'people.parquet'")
    refused = run("people.toml", "--data", "people.parquet").exception
    assert isinstance(refused, DataError) and "publish would stop: column 'age'" in str(refused)
    with refuses(DataError, "age", "nested"):
        vectorize("people.parquet", Schema(age=range(100), sex=("F", "M"), region=("north",))).counts()


# ---------------------------------------------------------------- what leaks


def test_nothing_is_written_or_logged(
    run: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with caplog.at_level(logging.DEBUG):
        assert run("people.toml", "--data", "people.csv", "--show-values").exit_code == 3
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    # That a specification was read, and nothing of the table.
    assert [record.getMessage() for record in caplog.records] == ["specification loaded, file people.toml"]


def test_lines_that_are_no_records_are_counted_by_reason(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leastnoise.data.csv_records.MAX_RECORD", 40)
    monkeypatch.setattr("leastnoise.app.cli.check_command.MAX_RECORD", 40)
    lines = [
        b"age,sex,region",
        b"3,F,north",
        b'4,"F,north',
        b"5",
        b"6,F,\xff",
        b"7,F," + b"x" * 40,
        b"8",
        b"",
    ]
    Path("people.csv").write_bytes(b"\n".join(lines))
    told = run("people.toml", "--data", "people.csv").output
    assert (
        "1 record could be read\n"
        "  1 record longer than 40 bytes: left out\n"
        "  1 record with a quote that is not closed before a comma, a tab or the end of the line: left out\n"
        "  1 record with text that is not UTF-8: left out\n"
        "  2 records with fewer fields than the first line: left out\n"
    ) in told
    fit = fit_of(vectorize("people.csv", Schema(sex=("F", "M"))))
    assert repr(fit.dropped) == "DroppedRecords(not private)"


def test_what_was_found_is_not_in_any_repr(run: Callable[..., Any]) -> None:
    data = vectorize("people.csv", Schema(age=range(100), sex=("F", "M")), person="id")
    fit = fit_of(data, n_examples=3)
    shown = repr((fit, *fit.columns, fit.person))
    assert shown == (
        "(SchemaFit(2 columns, not private), ColumnFit('age', not private), ColumnFit('sex', not private), "
        "PersonFit(not private))"
    )
    assert str(SchemaFit(7, 7, ())) == "SchemaFit(0 columns, not private)"
    assert str(PersonFit(1, 2, 3, 4)) == "PersonFit(not private)"


def test_an_engine_that_fails_says_nothing(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise ValueError("could not read 'old-canary'")

    monkeypatch.setattr(leastnoise.data.schema_fit, "_fit", broken)
    refused = run("people.toml", "--data", "people.csv").exception
    assert isinstance(refused, DataError) and "canary" not in str(refused)
    assert refused.__cause__ is None


@pytest.mark.thorough
def test_tables_in_another_engine_are_checked_too() -> None:
    ibis = extra("ibis")
    table = ibis.memtable({"sex": ["F", "x", None]}, schema={"sex": "string"})
    (column,) = fit_of(vectorize(table, Schema(sex=("F", "M")))).columns
    assert (column.n_missing, column.n_undeclared, column.n_left_out) == (1, 1, 2)


def test_frames_are_checked_too() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, np.nan, 2.5, 300.0]})
    (column,) = fit_of(vectorize(table, ln.Schema(age=range(100)))).columns
    assert numbers(column) == (1, 1, 1, 1, 3)


def test_an_empty_field_is_missing_and_an_empty_text_is_a_value(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('sex,age\n,1\n"",2\nF,\n', encoding="utf-8")
    sex, age = fit_of(vectorize(path, ln.Schema(sex=("F", "M"), age=range(100)))).columns
    assert (sex.n_missing, sex.n_undeclared) == (1, 1)
    assert (age.n_missing, age.n_unreadable) == (1, 0)
