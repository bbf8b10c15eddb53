"""Counting a table: every source agrees with a loop over its records, and no failure tells on them."""

from __future__ import annotations

import gzip
import io
import itertools
import logging
import math
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.core.errors import DataError, SchemaError, TooLargeError
from leastnoise.data import Data, counts_from_vector, is_count_vector, vectorize
from leastnoise.query import Bins, Categories, Hierarchy, Integers, Schema
from support import extra, refuses

# A table in plain Python: for each column its type and its values.
Table = dict[str, tuple[str, list[Any]]]

ENGINE = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE"}
PANDAS = {"text": "object", "int": "Int64", "float": "float64"}


# ------------------------------------------------------------------ the slow route


def brute_force(table: Table, schema: Schema) -> np.ndarray:
    x = np.zeros(schema.shape, dtype=np.int64)
    columns = [table[name][1] for name in schema.names]
    for record in zip(*columns, strict=True):
        cell = tuple(schema[name].place(value) for name, value in zip(schema.names, record, strict=True))
        if None not in cell:
            x[cell] += 1
    return x


# ------------------------------------------------------------------ one table, many sources


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def csv_text(table: Table, delimiter: str = ",") -> str:
    """Every value in quotes, a null as an empty field."""
    lines = [delimiter.join(quoted(name) for name in table)]
    for record in zip(*(values for _, values in table.values()), strict=True):
        fields = [
            "" if v is None or v != v else quoted(v if isinstance(v, str) else _spelled(v)) for v in record
        ]
        lines.append(delimiter.join(fields))
    return "\n".join(lines) + "\n"


def _spelled(value: Any) -> str:
    """A whole float without its point: for text categories, a file holds text and nothing else."""
    is_whole = isinstance(value, float) and abs(value) < 2**53 and value == int(value)
    return repr(int(value)) if is_whole else repr(value)


def relation(table: Table) -> Any:
    connection = duckdb.connect()
    columns = [
        f"unnest($v{k}::{ENGINE[kind]}[]) AS {quoted(name)}"
        for k, (name, (kind, _)) in enumerate(table.items())
    ]
    values = {f"v{k}": values for k, (_, values) in enumerate(table.values())}
    connection.execute(f"CREATE TABLE given AS SELECT {', '.join(columns)}", values)
    return connection.table("given")


def as_csv(table: Table, folder: Path) -> Path:
    (folder / "t.csv").write_text(csv_text(table), encoding="utf-8")
    return folder / "t.csv"


def as_tsv(table: Table, folder: Path) -> str:
    (folder / "t.tsv").write_text(csv_text(table, "\t"), encoding="utf-8")
    return str(folder / "t.tsv")


def as_gzip(table: Table, folder: Path) -> Path:
    (folder / "t.csv.gz").write_bytes(gzip.compress(csv_text(table).encode()))
    return folder / "t.csv.gz"


def as_parquet(table: Table, folder: Path) -> Path:
    relation(table).write_parquet(str(folder / "t.parquet"))
    return folder / "t.parquet"


def as_parts(table: Table, folder: Path) -> str:
    """Two CSV files with their columns in different orders, and a Parquet file."""
    n = len(next(iter(table.values()))[1])
    cuts = [0, n // 3, n // 2, n]
    for i, (start, stop) in enumerate(itertools.pairwise(cuts)):
        part = {name: (kind, values[start:stop]) for name, (kind, values) in table.items()}
        if i == 2:
            relation(part).write_parquet(str(folder / "part2.pq"))
        else:
            ordered = part if i == 0 else dict(reversed(part.items()))
            (folder / f"part{i}.csv").write_text(csv_text(ordered), encoding="utf-8")
    return str(folder / "part*")


def as_pandas(table: Table, folder: Path) -> Any:
    series = {name: pandas.Series(values, dtype=PANDAS[kind]) for name, (kind, values) in table.items()}
    return pandas.DataFrame(series)


def as_polars(table: Table, folder: Path) -> Any:
    polars = extra("polars")
    kinds = {"text": polars.String, "int": polars.Int64, "float": polars.Float64}
    return polars.DataFrame({n: polars.Series(n, v, dtype=kinds[kind]) for n, (kind, v) in table.items()})


def as_lazy(table: Table, folder: Path) -> Any:
    return as_polars(table, folder).lazy()


def as_arrow(table: Table, folder: Path) -> Any:
    pyarrow = extra("pyarrow")
    kinds = {"text": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    return pyarrow.table({name: pyarrow.array(values, kinds[kind]) for name, (kind, values) in table.items()})


def as_batch(table: Table, folder: Path) -> Any:
    return extra("pyarrow").RecordBatch.from_struct_array(
        as_arrow(table, folder).to_struct_array().combine_chunks()
    )


def as_dataset(table: Table, folder: Path) -> Any:
    return extra("pyarrow.dataset").dataset(as_arrow(table, folder))


def as_relation(table: Table, folder: Path) -> Any:
    return relation(table)


def as_ibis(table: Table, folder: Path) -> Any:
    ibis = extra("ibis")
    connection = duckdb.connect()
    columns = relation(table).to_arrow_table() if table else None
    connection.register("given", columns)
    with warnings.catch_warnings():
        # ibis 12 asks DuckDB 2.0 for the columns by a deprecated call.
        warnings.simplefilter("ignore", DeprecationWarning)
        return ibis.duckdb.from_connection(connection).table("given")


PLAIN = [as_csv, as_tsv, as_gzip, as_parquet, as_parts, as_pandas, as_relation]
EXTRAS = [as_polars, as_lazy, as_arrow, as_batch, as_dataset, as_ibis]
SOURCES = pytest.mark.parametrize("source", PLAIN + EXTRAS, ids=lambda source: source.__name__)


def agrees(table: Table, schema: Schema, source: Callable[[Table, Path], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = vectorize(source(table, Path(folder)), schema)
        expected = brute_force(table, schema)
        found = data.vector()
        assert found.dtype == np.int64
        assert found.tolist() == expected.ravel().tolist()
        first = data.counts(schema.names[-1])
        assert first.tolist() == expected.sum(axis=tuple(range(expected.ndim - 1))).tolist()


# ------------------------------------------------------------------ agreement

PEOPLE = Schema(
    age=range(0, 90, 2),
    sex=("F", "M"),
    region=Categories(["north", "south;", 'we"st', "o'er"], other="elsewhere"),
    income=Bins([0, 10, 20.5, 1000]),
)


CAREFUL = Schema(
    age=Integers(range(0, 90, 3), outside="clamp", null="other", other="no age"),
    sex=Categories(("F", "M"), outside="drop", null="other", other="not said"),
    region=Hierarchy({"land": {"up": ["north"], "down": ["south;"]}, "west": ['we"st']}, other="at sea"),
    income=Bins([-math.inf, 0, 10, 20.5, math.inf], null="other", outside="drop", other="not said"),
)


def people(n: int = 400, seed: int = 1) -> Table:
    chance = random.Random(seed)
    return {
        "unused": ("text", ["x"] * n),
        "income": (
            "float",
            [chance.choice([None, math.nan, -1.0, 0.0, 9.5, 10.0, 20.5, 1000.0]) for _ in range(n)],
        ),
        "region": (
            "text",
            [chance.choice(["north", "south;", 'we"st', "o'er", "mars", "", None]) for _ in range(n)],
        ),
        "age": ("int", [chance.choice([None, -2, *range(95)]) for _ in range(n)]),
        "sex": ("text", [chance.choice(["F", "M", "M", "F ", " F", "f", "Ｆ", "", None]) for _ in range(n)]),
    }


@pytest.mark.thorough
@SOURCES
def test_every_source_agrees_with_a_loop(source: Callable[[Table, Path], Any]) -> None:
    agrees(people(), PEOPLE, source)
    agrees(people(seed=3), CAREFUL, source)


@pytest.mark.thorough
@SOURCES
def test_ages_as_floats_with_nulls_count_like_integers(source: Callable[[Table, Path], Any]) -> None:
    table = people()
    table["age"] = ("float", [None if age is None else float(age) for age in table["age"][1]])
    table["age"][1][:5] = [1e300, math.inf, 4.5, math.nan, -1e300]
    agrees(table, PEOPLE, source)
    agrees(table, CAREFUL, source)


@pytest.mark.thorough
@SOURCES
def test_empty_table_keeps_every_cell(source: Callable[[Table, Path], Any], tmp_path: Path) -> None:
    for schema in (PEOPLE, CAREFUL):
        data = vectorize(source(people(0), tmp_path), schema)
        assert data.vector().tolist() == [0] * schema.n_cells
        assert data.counts() == 0


@pytest.mark.thorough
def test_row_order_does_not_matter(tmp_path: Path) -> None:
    table = people(3000)
    order = list(range(3000))
    random.Random(2).shuffle(order)
    shuffled = {name: (kind, [values[i] for i in order]) for name, (kind, values) in table.items()}
    x = brute_force(table, PEOPLE).ravel().tolist()
    for source in (as_csv, as_parquet, as_pandas, as_relation):
        assert vectorize(source(shuffled, tmp_path), PEOPLE).vector().tolist() == x


NAMES = st.text(alphabet="aA\"';$%^ .é{}?*\\-\t", max_size=6)
WORDS = st.sampled_from(
    ["F", "f", "F ", "Ｆ", "", "é", "e\u0301", "'; DROP TABLE source; --", 'a"b', "$1", "18", "1"]
)
TEXTS = WORDS | st.sampled_from(
    ["18.0", "1.8e1", "+18", " 18", "18.5", "1_8", "0x12", "nan", "inf", "true", ".5", "1e999"]
)
INTEGERS = st.integers(-5, 25) | st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1])
NUMBERS = st.sampled_from(
    [-0.0, 1.0, 2.5, 18.0, 1e300, 2.0**53, math.nan, math.inf, -math.inf, math.nextafter(2, 3)]
)


@st.composite
def policies(draw: st.DrawFn, has_ends: bool) -> dict[str, Any]:
    outside = draw(st.sampled_from([None, "drop", "other", *(["clamp"] if has_ends else [])]))
    null = draw(st.sampled_from(["drop", "other"]))
    given_policies: dict[str, Any] = {"null": null} | ({} if outside is None else {"outside": outside})
    if "other" in (outside, null):
        given_policies["other"] = "the rest"
    return given_policies


@st.composite
def trees(draw: st.DrawFn, leaves: Sequence[Any]) -> Any:
    """The leaves in order, cut into regions of uneven depth."""
    if len(leaves) < 2 or draw(st.booleans()):
        return list(leaves)
    cut = draw(st.integers(1, len(leaves) - 1))
    return [{"left": draw(trees(leaves[:cut]))}, {"right": draw(trees(leaves[cut:]))}]


@st.composite
def attributes(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from([Integers, Categories, Hierarchy, Bins]))
    chosen = draw(policies(kind in (Integers, Bins)))
    if kind is Integers:
        start, n, step = draw(st.tuples(INTEGERS, st.integers(1, 9), st.integers(1, 3)))
        return Integers(range(start, start + n * step, step), **chosen)
    if kind is Bins:
        ends = st.sampled_from([-math.inf, math.inf])
        edges = st.floats(-30, 30) | st.integers(-30, 30) | ends
        return Bins(sorted(draw(st.lists(edges, min_size=2, max_size=7, unique=True))), **chosen)
    leaves = draw(st.sampled_from([WORDS, INTEGERS]).flatmap(lambda v: st.lists(v, min_size=1, unique=True)))
    if kind is Hierarchy:
        return Hierarchy(draw(trees(leaves)), **chosen)
    return Categories(leaves, **chosen)


@st.composite
def schemas_with_tables(draw: st.DrawFn) -> tuple[Schema, Table]:
    n = draw(st.integers(0, 12))
    names = [f"{k}{name}" for k, name in enumerate(draw(st.lists(NAMES, min_size=1, max_size=3)))]
    schema = Schema(**{name: draw(attributes()) for name in names})
    values = {"text": TEXTS, "int": INTEGERS, "float": NUMBERS}
    table: Table = {}
    for name in draw(st.permutations(names)):
        kind = draw(st.sampled_from(sorted(values)))
        column = st.lists(st.none() | values[kind], min_size=n, max_size=n)
        table[name] = (kind, draw(column))
    return schema, table


@pytest.mark.thorough
@pytest.mark.parametrize("source", [as_csv, as_parquet, as_pandas, as_relation], ids=lambda s: s.__name__)
@given(drawn=schemas_with_tables())
@settings(max_examples=40, deadline=None)
def test_any_schema_and_table(source: Callable[[Table, Path], Any], drawn: tuple[Schema, Table]) -> None:
    schema, table = drawn
    agrees(table, schema, source)


@pytest.mark.thorough
@pytest.mark.parametrize("source", [as_polars, as_arrow, as_ibis], ids=lambda s: s.__name__)
@given(drawn=schemas_with_tables())
@settings(max_examples=25, deadline=None)
def test_any_schema_and_frame(source: Callable[[Table, Path], Any], drawn: tuple[Schema, Table]) -> None:
    schema, table = drawn
    agrees(table, schema, source)


# ------------------------------------------------------------------ values


def counted(attribute: Any, values: Sequence[Any], dtype: Any = "object") -> list[int]:
    table = pandas.DataFrame({"a": pandas.Series(values, dtype=dtype)})
    return vectorize(table, Schema(a=attribute)).vector().tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("n_bins", [1, 2, 3, 4, 5, 8, 9, 100])
def test_bins_hold_their_lower_edge_and_not_their_upper(n_bins: int) -> None:
    edges = [0.1 * i - 1 for i in range(n_bins + 1)]
    values = [
        f(edge)
        for edge in edges
        for f in (float, lambda e: math.nextafter(e, 9), lambda e: math.nextafter(e, -9))
    ]
    bins = Bins(edges)
    expected = np.bincount(
        [i for i in map(bins.position, values) if i is not None], minlength=n_bins
    ).tolist()
    assert expected == [3] * n_bins
    assert counted(bins, values, "float64") == expected
    assert counted(bins, [repr(value) for value in values]) == expected


def test_integer_edges_that_no_float_holds() -> None:
    edge = 2**53 + 1
    assert counted(Bins([0, edge, 2**60]), [float(2**53), float(2**53 + 2)], "float64") == [1, 1]
    far = [-math.inf, -sys.float_info.max, 0.0, sys.float_info.max, math.inf]
    assert counted(Bins([-(10**400), 0, 10**400]), far, "float64") == [1, 2]


@pytest.mark.parametrize("low", [2**53, 2**62 - 2, 2**63 - 3, -(2**63), 2**64 - 3, 2**100])
def test_neighbours_among_large_integers_stay_apart(low: int) -> None:
    inside = range(low, low + 6)
    texts = [str(value) for value in inside]
    assert counted(inside, texts) == [1] * 6
    assert counted(Categories(list(inside)), [*texts, str(low - 1), f"{low + 2}.0", f"{low}.5"]) == [
        1,
        1,
        2,
        1,
        1,
        1,
    ]
    for dtype in ("int64", "uint64"):
        whole = [value for value in inside if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max]
        values = whole + [int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)]
        expected = [values.count(value) for value in inside]
        assert counted(inside, values, dtype) == expected
        assert counted(Categories(list(inside)), values, dtype) == expected


def test_range_over_nearly_all_integers() -> None:
    """The difference of two declared numbers does not fit 64 bits."""
    whole = range(-(2**63), 2**63 - 1, 2**61)
    assert counted(whole, [-(2**63), 0, 1, 2**63 - 1, 2**62], "int64") == [1, 0, 0, 0, 1, 0, 1, 0]
    assert counted(range(2**126, 2**126 + 2), ["1", str(2**126), f"{2**126 + 1}.0"]) == [1, 1]


def test_decimals_are_exact() -> None:
    source = duckdb.connect().sql("SELECT unnest([1.00, 1.50, 2.00, NULL]::DECIMAL(18,2)[]) AS a")
    assert vectorize(source, Schema(a=range(4))).vector().tolist() == [0, 1, 1, 0]
    assert vectorize(source, Schema(a=Bins([0, 1, 1.5, 2]))).vector().tolist() == [0, 1, 1]


def test_text_is_never_normalised() -> None:
    look_alikes = [
        "\u00e9",
        "e\u0301",
        "\u00c5",
        "\u212b",
        "\u017f",
        "s",
        "S",
        "\uff53",
        "s ",
        " s",
        "s\u200b",
        "s\n",
    ]
    assert counted(["\u00e9", "s"], look_alikes) == [1, 1]
    assert counted(look_alikes, look_alikes) == [1] * len(look_alikes)


def test_other_columns_are_written_out_for_text_categories() -> None:
    assert counted(["1", "2"], [1, 2, 2], "int64") == [1, 2]
    assert counted(["1", "1.0"], [1, math.nan], "float64") == [1, 0]
    assert counted(["1.5", "-3", "0"], [1.5, -3, -0.0], "float64") == [1, 1, 1]
    assert counted(["true", "false", "True"], [True, False, True], "bool") == [2, 1, 0]
    assert counted(["true", "false", "True"], [True, None, False, "True"]) == [1, 1, 1]
    assert counted(range(2), [True, False], "bool") == [0, 0]


@pytest.mark.thorough
def test_one_record_does_not_change_how_others_are_read() -> None:
    """A null among integers would make floats of them, and "1.0" of "1"."""
    for values in ([1, 2, 2], [1, 2, 2, None], [1, 2, 2, "x"]):
        assert counted(["1", "2"], values) == [1, 2]
        assert counted(["1", "2"], values, "category") == [1, 2]
        assert counted(range(1, 3), values, "category") == [1, 2]
    # pandas.read_csv makes floats of whole numbers as soon as one field is empty.
    assert counted(["1", "2"], [1, 2, 2, math.nan], "float64") == counted(["1", "2"], [1, 2, 2], "int64")
    # A type guessed from the first values of an object column would make "1.0" of thousands of "1".
    assert counted(["1", "1.5"], [1] * 3000 + [1.5], "object") == [3000, 1]


def test_categorical_columns_are_text() -> None:
    values = ["b", "a", None, "b", "c"]
    assert counted(["a", "b"], values, "category") == [1, 2]
    polars = extra("polars")
    for dtype in (polars.Categorical, polars.Enum(["c", "b", "a"])):
        frame = polars.DataFrame({"a": polars.Series(values, dtype=dtype)})
        assert vectorize(frame, Schema(a=("a", "b"))).vector().tolist() == [1, 2]
    pyarrow = extra("pyarrow")
    table = pyarrow.table({"a": pyarrow.array(values).dictionary_encode()})
    assert vectorize(table, Schema(a=("a", "b"))).vector().tolist() == [1, 2]


def test_other_takes_every_value_but_null() -> None:
    assert counted(Categories(["a"], other="o"), ["a", "o", "z", "", None]) == [1, 3]
    assert counted(Categories([1], other="o"), ["1", "1.0", "x", "1.5", None]) == [2, 2]
    assert counted(Categories([1], other="o"), [1, math.nan, math.inf, 1.5], "float64") == [1, 2]


@pytest.mark.thorough
def test_a_policy_decides_where_undeclared_values_go() -> None:
    texts = ["1", "3", "-7", "9" * 60, "-" + "9" * 60, "0" * 60 + "2", "2.5", "1e3", "1e999", "x", "", None]
    for outside, null, expected in [
        ("drop", "drop", [0, 1, 1, 1, 0]),
        ("clamp", "drop", [2, 1, 1, 3, 0]),
        ("clamp", "other", [2, 1, 1, 3, 1]),
        ("other", "drop", [0, 1, 1, 1, 8]),
        ("other", "other", [0, 1, 1, 1, 9]),
    ]:
        other = "o" if "other" in (outside, null) else None
        values = Integers(range(4), outside=outside, null=null, other=other)
        assert counted(values, texts) == expected[: values.size]
        assert (
            counted(Bins([0, 1, 2, 3, 4], outside=outside, null=null, other=other), ["x", "0.5", None])[0]
            == 1
        )
    far = [-math.inf, -1e300, 2.5, 1e300, math.inf, math.nan]
    assert counted(Integers(range(4), outside="clamp"), far, "float64") == [1, 0, 0, 1]
    assert counted(Bins([0, 1, 3], outside="clamp"), far, "float64") == [2, 3]
    assert counted(Bins([-math.inf, 1, 3]), far, "float64") == [2, 1]
    assert counted(Bins([0, 1, 2, math.inf], null="other", other="o"), far, "float64") == [0, 0, 3, 3]
    wide = [0, 2**64 - 1, 2**63]
    assert counted(Integers(range(4), outside="clamp"), wide, "uint64") == [1, 0, 0, 2]
    # With a step, only what is beyond the ends is clamped.
    assert counted(Integers(range(0, 10, 4), outside="clamp"), [-1, 3, 4, 9, 11], "int64") == [1, 1, 2]


def test_thousands_of_categories() -> None:
    names = [f"region {i}" for i in range(5000)]
    found = counted(names, [*names, *names[::2], "region 5000"])
    assert found == [2 - i % 2 for i in range(5000)]


@pytest.mark.thorough
def test_columns_that_differ_in_case_or_look_like_patterns(tmp_path: Path) -> None:
    table: Table = {name: ("text", [name]) for name in ("Age", "age", "^.*$", "*", "a.b")}
    for name in table:
        for source in (as_csv, as_pandas, as_polars, as_lazy, as_arrow, as_dataset):
            data = vectorize(source(table, tmp_path), Schema(**{name: ("Age", "age", "^.*$", "*", "a.b")}))
            assert data.vector().tolist() == [int(name == other) for other in table]


# ------------------------------------------------------------------ questions


def test_counts_are_sums_of_the_vector() -> None:
    data = vectorize(as_pandas(people(), Path()), PEOPLE)
    x = data.vector().reshape(PEOPLE.shape)
    assert data.counts("sex", "age").tolist() == x.sum(axis=(2, 3)).T.tolist()
    assert data.counts("income").tolist() == x.sum(axis=(0, 1, 2)).tolist()
    total = data.counts()
    assert total.shape == () and total == x.sum()


def test_a_question_too_large_is_refused_and_a_small_one_is_not() -> None:
    wide = Schema(**{f"a{k}": range(100) for k in range(10)})
    data = vectorize(pandas.DataFrame({f"a{k}": [7] for k in range(10)}), wide)
    with refuses(TooLargeError, "tables", ("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9")):
        data.vector()
    assert data.counts("a3", "a1")[7, 7] == 1


def test_unknown_and_repeated_attributes_are_refused() -> None:
    data = vectorize(pandas.DataFrame({"a": [1]}), Schema(a=range(3)))
    with refuses(SchemaError, "attribute", "b"):
        data.counts("b")
    with refuses(DataError, "attributes", ("a", "a")):
        data.counts("a", "a")


def test_a_handle_does_not_change_and_is_reused() -> None:
    schema = Schema(a=range(3))
    data = vectorize(pandas.DataFrame({"a": [1]}), schema)
    assert vectorize(data, Schema(a=range(3))) is data
    with refuses(DataError, "schema", ..., "on the table itself"):
        vectorize(data, Schema(a=range(4)))
    with pytest.raises(AttributeError):
        data.schema = Schema(b=range(2))  # type: ignore[misc]


def test_the_table_of_the_caller_is_left_alone() -> None:
    table = pandas.DataFrame({"a": pandas.Series([True, None, 1], dtype=object), "b": [1, 2, 3]})
    before = table.copy(deep=True)
    vectorize(table, Schema(a=("true", "1"), b=range(5))).vector()
    pandas.testing.assert_frame_equal(table, before)


# ------------------------------------------------------------------ text files


def csv_counts(content: bytes, folder: Path, name: str = "t.csv") -> list[int]:
    (folder / name).write_bytes(content)
    return vectorize(folder / name, Schema(x=range(1, 5), y=("a", "b"))).counts("x").tolist()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "content",
    [
        b"x,y\n1,a\n2,b\n",
        b"x,y\r\n1,a\r\n2,b\r\n",
        b"\xef\xbb\xbfx,y\n1,a\n2,b",
        b'"x","y"\n"1","a"\n"2","b"\n',
        b"y,z,x\na,,1\nb,c,2\n",
        b"x,y\n1,a\r\n\n2,b\n",  # mixed line ends, an empty line
        b"x,y\n1,a\n3\n2,b\n",  # a field missing
        b"x,y\n1,a,more\n2,b\n",  # a field too many
        b"x,y\n1,a\n3,\xff\n2,b\n",  # not UTF-8
        b'x,y\n1,a\n3,c"a"\n2,b\n',  # a stray quote
        b"x,y\n1,a\n3,c\rd\n2,b\n",  # a stray carriage return
        b'x,y\n1,a\n3,"c\n4,a"\n2,b\n',  # a line break inside quotes
        b"x,y\n1,a\n,a\n3,\n2,b\n",
    ],
)
def test_csv_reads_the_same_two_records(content: bytes, tmp_path: Path) -> None:
    assert csv_counts(content, tmp_path) == [1, 1, 0, 0]
    assert csv_counts(gzip.compress(content), tmp_path, "t.CSV.gz") == [1, 1, 0, 0]


def test_delimiter_is_declared_by_the_suffix(tmp_path: Path) -> None:
    assert csv_counts(b"x\ty\n1\ta\n", tmp_path, "t.tsv") == [1, 0, 0, 0]
    with refuses(DataError, "x", "none"):
        csv_counts(b"", tmp_path)


@pytest.mark.parametrize(
    ("content", "name", "separator"),
    [(b"x;y\n1;a\n", "t.csv", "a comma"), (b"x\ty\n", "t.csv", "a comma"), (b"x,y\n", "t.tsv", "a tab")],
)
def test_a_header_of_one_field_hints_at_the_separator(
    content: bytes, name: str, separator: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content.replace(b"y", CANARY.encode()))
    words = f"it has none. The header holds one field; is the separator {separator}\\?"
    with pytest.raises(DataError, match=words) as caught:
        vectorize(tmp_path / name, Schema(x=range(3)))
    assert CANARY not in str(caught.value)
    (tmp_path / name).write_bytes(b"y\n1\n")
    with refuses(DataError, "x", "none"):
        vectorize(tmp_path / name, Schema(x=range(3)))


def test_empty_field_is_null_and_quoted_empty_text_is_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('x,y\n1,\n1,""\n1,NULL\n')
    data = vectorize(tmp_path / "t.csv", Schema(y=("", "NULL")))
    assert data.vector().tolist() == [1, 1]


def test_types_are_not_guessed_from_the_first_lines(tmp_path: Path) -> None:
    lines = ["x,y"] + ["1,a"] * 30_000 + ["one,a", "2.5,a", "2,b"]
    assert csv_counts("\n".join(lines).encode(), tmp_path) == [30_000, 1, 0, 0]


@pytest.mark.thorough
def test_quoted_line_breaks_survive_chunks(tmp_path: Path) -> None:
    """A scan in parallel loses records where a quoted line break meets the border of two chunks."""
    block = "".join(f'{i % 4 + 1},"{"z" * (i % 50)}\n{i}, ""q""",a\n' for i in range(2000))
    (tmp_path / "t.csv").write_text("x,note,y\n" + block * 500)
    assert (tmp_path / "t.csv").stat().st_size > 34_000_000  # one buffer holds 32 MB
    data = vectorize(tmp_path / "t.csv", Schema(x=range(1, 5), y=("a", "b")))
    assert data.counts("x").tolist() == [250_000] * 4


def test_parquet_parts_of_different_types_do_not_round(tmp_path: Path) -> None:
    for name, column in {"a": "1::INTEGER", "b": "1.5::DOUBLE", "c": "'2'"}.items():
        duckdb.connect().sql(f"SELECT {column} AS x").write_parquet(str(tmp_path / f"{name}.parquet"))
    assert vectorize(tmp_path / "*.parquet", Schema(x=range(4))).vector().tolist() == [0, 1, 1, 0]


# ------------------------------------------------------------------ refusals


def test_refusals_say_what_is_accepted(tmp_path: Path) -> None:
    schema = Schema(x=range(3))
    (tmp_path / "t.ods").write_bytes(b"")
    (tmp_path / "t[1].csv").write_text("x\n1\n")
    (tmp_path / "d.parquet").mkdir()
    with refuses(DataError, "path", ..., "must end in .csv, .csv.gz"):
        vectorize(tmp_path / "t.ods", schema)
    with refuses(DataError, "path", ..., "there is no file"):
        vectorize(tmp_path / "none.csv", schema)
    with refuses(DataError, "path", "https://example.org/t.csv"):
        vectorize("https://ann:secret@example.org/t.csv?key=secret", schema)
    with refuses(DataError, "path"):
        vectorize(tmp_path / "d.parquet", schema)
    with refuses(DataError, "path"):
        vectorize(tmp_path / "t[1].csv", schema)
    with refuses(DataError, "table", dict):
        vectorize({"x": [1]}, schema)
    with refuses(DataError, "schema", dict):
        vectorize(tmp_path, {"x": range(3)})  # type: ignore[arg-type]


@pytest.mark.thorough
@SOURCES
def test_missing_column_is_named_and_the_others_are_not(source: Any, tmp_path: Path) -> None:
    table = source(people(5), tmp_path)
    with refuses(DataError, "Age", "none") as caught:
        vectorize(table, Schema(Age=range(3))).vector()
    assert "region" not in str(caught.value)


@pytest.mark.parametrize("source", [as_csv, as_gzip, as_parquet, as_parts], ids=lambda s: s.__name__)
def test_a_file_without_a_column_is_refused_before_anything_is_counted(source: Any, tmp_path: Path) -> None:
    table = source(people(5), tmp_path)
    with refuses(DataError, "Age", "none"):
        vectorize(table, Schema(Age=range(3)))
    with refuses(DataError, "id", "none"):
        vectorize(table, Schema(age=range(3)), person="id")


def test_repeated_column_is_refused() -> None:
    table = pandas.DataFrame([[1, 2]], columns=["x", "x"])
    with refuses(DataError, "x", "several"):
        vectorize(table, Schema(x=range(3))).vector()


# ------------------------------------------------------------------ leaks

CANARY = "canary7316"
NUMBER_CANARY = 731_600_417


def failures(folder: Path) -> Iterator[Any]:
    """Sources that hold the canary and cannot be read, or fail on the way."""
    content = as_parquet({"x": ("text", [CANARY] * 50)}, folder).read_bytes()
    for name, broken in {
        "cut": content[: len(content) // 2],
        "magic": b"PAR1" + CANARY.encode() * 9 + b"PAR1",
        "page": content[:4] + b"\xff" * 20 + content[24:],
    }.items():
        (folder / f"{name}.parquet").write_bytes(broken)
        yield folder / f"{name}.parquet"
    (folder / "bad.csv.gz").write_bytes(CANARY.encode())
    yield folder / "bad.csv.gz"
    (folder / "bad.csv").write_bytes(b"\xff" + CANARY.encode())
    yield folder / "bad.csv"
    yield duckdb.connect().sql(f"SELECT CAST('{CANARY}' AS INTEGER) AS x")
    yield duckdb.connect().sql(f"SELECT error('{CANARY}' || range) AS x FROM range(3)")
    yield pandas.DataFrame({"x": pandas.to_timedelta([NUMBER_CANARY])})
    yield pandas.DataFrame({"y": [CANARY]})


@pytest.mark.thorough
def test_no_failure_tells_on_the_table(tmp_path: Path, caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    for source in failures(tmp_path):
        # The canary lies between a and z, so that no statistics let the engine skip it.
        with pytest.raises(DataError) as caught:
            vectorize(source, Schema(x=("a", "z"))).vector()
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert caught.value.__context__ is None and caught.value.__cause__ is None
        assert CANARY not in told and str(NUMBER_CANARY) not in told
    printed = "".join(capfd.readouterr()) + caplog.text
    assert CANARY not in printed


def test_failure_names_the_step_and_what_to_check() -> None:
    data = vectorize(duckdb.connect().sql(f"SELECT CAST('{CANARY}' AS INTEGER) AS x"), Schema(x=range(3)))
    with refuses(DataError, "table", "ConversionException", "reason is withheld"):
        data.vector()


def test_a_panic_of_polars_is_withheld() -> None:
    """Polars stops at a decimal that its type excludes, with an error that is no Exception."""
    polars = extra("polars")
    beyond = pyarrow.array([None], pyarrow.decimal128(38, 0))
    held = pyarrow.Array.from_buffers(beyond.type, 1, [None, pyarrow.py_buffer(b"\0" * 15 + b"\x80")])
    frame = polars.from_arrow(pyarrow.table({"v": held}))
    # One record by itself, which polars holds as a constant.
    frame = polars.concat([frame, frame])[0:1]
    with refuses(DataError, "table", "PanicException", "reason is withheld"):
        vectorize(frame, Schema(v=range(2))).vector()


def test_repr_shows_schema_and_kind_only(tmp_path: Path) -> None:
    table = {"x": ("text", [CANARY] * 731)}
    schema = Schema(x=("a", "b"))
    assert repr(vectorize(as_csv(table, tmp_path), schema)) == "Data(files, Schema(x: a, b; 2 cells))"
    frame = vectorize(as_pandas(table, tmp_path), schema)
    assert str(frame) == repr(frame) == "Data(pandas DataFrame, Schema(x: a, b; 2 cells))"
    assert "duckdb" in repr(vectorize(relation(table), schema))


def test_counting_leaves_no_file_behind(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    vectorize(as_parquet(people(), tmp_path), PEOPLE).vector()
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.thorough
def test_names_and_values_are_never_run_as_sql(tmp_path: Path) -> None:
    target = tmp_path / "made.csv"
    attack = f"\"'; COPY (SELECT 1) TO '{target}'; --"
    table: Table = {attack: ("text", [attack, "b", None])}
    for source in [*PLAIN, *EXTRAS]:
        found = vectorize(
            source(table, tmp_path), Schema(**{attack: Categories([attack], other=attack + "!")})
        )
        assert found.vector().tolist() == [1, 1]
        for leftover in tmp_path.glob("part*"):
            leftover.unlink()
    assert not target.exists()


@pytest.mark.thorough
def test_importing_the_package_imports_no_engine() -> None:
    """Design and reproductions run where only NumPy and SciPy are; the room itself needs PyArrow."""
    engines = "print({'duckdb', 'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    line = f"import sys, leastnoise; {engines}; import leastnoise.data; {engines}"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "{'pyarrow'}"]


# ------------------------------------------------------------------ count vectors


@pytest.mark.parametrize(
    "given_counts",
    [
        [3, 0, 1, 2],
        (3, 0, 1, 2),
        np.array([[3, 0], [1, 2]]),
        np.array([3, 0, 1, 2], dtype=np.uint8),
        [[3, 0], [1, 2]],
    ],
)
def test_count_vectors_become_int64(given_counts: Any) -> None:
    x = counts_from_vector(given_counts, 4, (2, 2))
    assert x.dtype == np.int64 and x.tolist() == [3, 0, 1, 2]
    assert is_count_vector(given_counts)


@pytest.mark.parametrize("shape", [(3, 2), (6, 1), (1, 6), (2, 3, 1)], ids=str)
def test_counts_in_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """A transposed table once went through, with every count in the wrong cell."""
    with refuses(
        DataError, "counts", np.ndarray, "a plain list of 6 numbers, or an array of 2 x 3, in the order"
    ):
        counts_from_vector(np.ones(shape, dtype=int), 6, (2, 3))
    with refuses(DataError, "counts", np.ndarray, "a plain list of 6 numbers, in the order of the schema"):
        counts_from_vector(np.ones(shape, dtype=int), 6)


def test_counts_beyond_64_bits_stay_exact() -> None:
    for big in ([2**70 + 1, 0], np.array([2**70 + 1, 0], dtype=object)):
        x = counts_from_vector(big, 2)
        assert x.dtype == object and x.tolist() == [2**70 + 1, 0]
    x = counts_from_vector(np.array([2**64 - 1, 1], dtype=np.uint64), 2)
    assert x.tolist() == [2**64 - 1, 1] and type(x[0]) is int
    assert counts_from_vector([2**63 - 1], 1).dtype == np.int64


def test_count_vector_is_a_copy() -> None:
    given_counts = np.array([1, 2])
    x = counts_from_vector(given_counts, 2)
    given_counts[0] = 9
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given_counts", "refusal"),
    [
        ([1.0, 731.0], ("counts", list, "numbers")),
        (np.array([1.0, 731.0]), ("counts", np.ndarray, "integer")),
        ([1, 731.5], ("counts", list, "whole numbers")),
        ([1, None], ("counts", list, "whole numbers")),
        (["1", "731"], ("counts", list, "whole numbers")),
        ([True, False], ("counts", list, "whole numbers")),
        (np.array([True, False]), ("counts", np.ndarray, "whole numbers")),
        (np.array([1, 731j]), ("counts", np.ndarray, "whole numbers")),
        ([1, -731], ("counts", None, "must not be negative")),
        (np.array([1, -731]), ("counts", None, "must not be negative")),
        ([1, -(2**70)], ("counts", None, "must not be negative")),
        ([1, 731, 7], ("counts", list, "for every cell, 2 in all")),
        ([[1, 731], [7]], ("counts", list, "whole numbers")),
        (np.ma.array([1, 731], mask=[False, True]), ("counts", ..., "a plain array, got MaskedArray")),
        ({1: 731}, ("counts", dict)),
    ],
)
def test_bad_counts_are_refused_without_a_value(given_counts: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(DataError, *refusal) as caught:
        counts_from_vector(given_counts, 2)
    assert "731" not in str(caught.value) and "1180591620717411303424" not in str(caught.value)
    assert caught.value.__context__ is None


def test_vectors_are_told_from_tables() -> None:
    assert is_count_vector([1, 2]) and is_count_vector((1.5,)) and is_count_vector(np.zeros(3))
    for table in (
        "t.csv",
        Path("t.csv"),
        ["a.csv", "b.csv"],
        pandas.DataFrame({"x": [1]}),
        {"x": 1},
        io.StringIO(),
    ):
        assert not is_count_vector(table)
    assert not is_count_vector(vectorize(pandas.DataFrame({"x": [1]}), Schema(x=range(2))))


def test_data_is_what_vectorize_returns() -> None:
    data = vectorize(pandas.DataFrame({"x": [1]}), Schema(x=Integers(range(2))))
    assert isinstance(data, Data) and data.schema == Schema(x=range(2))


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet", "*.csv"])
def test_a_name_that_no_file_can_have_names_no_file(suffix: str) -> None:
    with refuses(DataError, "path"):
        vectorize("x" * 5_000 + suffix, Schema(a=range(2)))
