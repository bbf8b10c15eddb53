"""Cells that Spark's executors find by NumPy, value by value against what the attribute says of each."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.data import arrow_cells, spark_counts
from leastnoise.data.arrow_cells import ALREADY_PLACED, arrow_placing, column_placer
from leastnoise.data.placement import placement_of
from leastnoise.query import Attribute, Bins, Categories, Hierarchy, Integers, Periods, Schema
from support import extra

FLOATS = [0.0, -0.0, 0.1, 17.999999999999996, 18.0, 5e-324, 1.7e308, math.inf, -math.inf, math.nan, -1.5]
WHOLE = [0, 1, -1, 7, 18, 127, -128, 32767, 2**31 - 1, 2**53 + 1, 10**18, 2**63 - 1, -(2**63)]
TEXTS = [
    "F",
    "f",
    "F ",
    "Ｆ",
    "é",
    "e\u0301",
    "",
    "ß",
    "ss",
    "'",
    "\\",
    "x" * 3000,
    "FF",
    "\x00",
    "F\x00",
    "18",
]
POLICIES = [{}, {"outside": "drop", "null": "other", "other": "?"}, {"outside": "other", "other": "?"}]
CLAMPED = [{"outside": "clamp"}, {"outside": "clamp", "null": "other", "other": "?"}]


def attributes(rng: random.Random, kind: str) -> Attribute:
    """An attribute with random policies that NumPy places in columns of this kind."""
    policies: dict[str, Any] = rng.choice(POLICIES)
    if kind == "text":
        chosen = rng.sample(TEXTS, rng.randint(1, 6))
        if rng.random() < 0.3:
            return Hierarchy({"all": chosen})
        return Categories(chosen, **policies)
    if kind != "float" and rng.random() < 0.4:
        policies = rng.choice([policies, *CLAMPED])
        low, step = rng.choice([-200, -5, 0, 17]), rng.choice([1, 1, 3, 10])
        return Integers(range(low, low + step * rng.randint(1, 30), step), **policies)
    if kind != "float" and rng.random() < 0.5:
        return Categories(sorted(rng.sample([*WHOLE, 10**20], 5)), **policies)
    edges = sorted(rng.sample([-math.inf, -1e300, -1.0, 0.0, 0.1, 7.0, 18.0, 2.0**53, 1e300, math.inf], 4))
    return Bins(edges, **rng.choice([policies, *CLAMPED]))


def columns(rng: random.Random, kind: str) -> tuple[str, list[Any]]:
    """The Arrow type of a column and its values, nulls among them."""
    if kind == "text":
        return "binary", [rng.choice([None, *TEXTS]) for _ in range(60)]
    if kind == "float":
        name = rng.choice(["float32", "float64"])
        narrow = [float(np.float32(x)) if abs(x) < 1e30 or not math.isfinite(x) else 1e30 for x in FLOATS]
        own = [float(np.float32(x)) for x in narrow] if name == "float32" else FLOATS
        return name, [rng.choice([None, *own]) for _ in range(60)]
    name, bits = rng.choice([("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64)])
    own = [n for n in [*WHOLE, *range(-10, 40)] if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)]
    return name, [rng.choice([None, *own]) for _ in range(60)]


def differing(seed: int, place: Any) -> int:
    """How many of the values of a random column are not placed where their attribute says."""
    pyarrow, ibis = extra("pyarrow"), extra("ibis")
    rng = random.Random(seed)
    kind = rng.choice(["text", "float", "whole"])
    attribute = attributes(rng, kind)
    name, values = columns(rng, kind)
    dtype = ibis.dtype({"binary": "string"}.get(name, name))
    placing = arrow_placing(placement_of(attribute), dtype)
    assert placing is not None
    sent = [value.encode() if isinstance(value, str) else value for value in values]
    if name == "binary":
        # What `stored_column` sends of a long text.
        longest = max(len(text) for text in placing[1][1])
        sent = [None if text is None else text[: longest + 1] for text in sent]
        assert arrow_cells.stored_column("`i`", placing).endswith(f", 1, {longest + 1})")
    found = place(pyarrow.array(sent, type=name), placing)
    expected = [-1 if (cell := attribute.place(value)) is None else cell for value in values]
    return int(np.count_nonzero(found != np.array(expected)))


def test_values_are_placed_as_their_attribute_says() -> None:
    place = column_placer()
    assert [seed for seed in range(300) if differing(seed, place)] == []


@pytest.mark.parametrize("fault", ["null", "shifted", "end"])
def test_a_wrong_placement_is_noticed(fault: str) -> None:
    own = column_placer()

    def broken(column: Any, placing: Any) -> Any:
        way, given, outside, null = placing
        if fault == "null":
            return own(column, (way, given, outside, outside))
        if fault == "end" and way == "bins":
            return own(column, (way, (given[0], given[1], not given[2]), outside, null))
        return own(column, placing) + (fault == "shifted")

    assert sum(differing(seed, broken) for seed in range(60)) > 0


def test_what_engines_write_out_or_clean_is_left_to_them() -> None:
    ibis = extra("ibis")
    for attribute, kind in [
        (Integers(range(10)), "string"),
        (Integers(range(10)), "float64"),
        (Categories(["1", "2"]), "int64"),
        (Categories(["a"]), "uuid"),
        (Categories(["a"], clean={"trim": True}), "string"),
        (Bins([0, 1]), "decimal(10, 2)"),
        (Bins([0, 1]), "string"),
        (Periods("2026-01", "2026-12"), "date"),
        (Integers(range(10**18, 10**18 + 3)), "int64"),
    ]:
        assert arrow_placing(placement_of(attribute), ibis.dtype(kind)) is None


def test_cells_that_sql_found_stay_as_they_are() -> None:
    pyarrow = extra("pyarrow")
    column = pyarrow.array([3, None, 0], type="int32")
    assert column_placer()(column, ALREADY_PLACED).tolist() == [3, -1, 0]


ALONE = """
import pickle, sys
sys.modules["leastnoise"] = None
import pyarrow
from pyspark import cloudpickle
task = pickle.load(open(sys.argv[1], "rb"))
columns = [pyarrow.array([1, None, 9, 1]), pyarrow.array([b"x", b"y", b"x", b"x"])]
batch = pyarrow.RecordBatch.from_arrays(columns, names=["i0", "i1"])
(found,) = task([batch])
print(dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist())))
"""


@pytest.mark.thorough
def test_executors_need_not_have_this_package(tmp_path: Path) -> None:
    ibis = extra("ibis")
    cloudpickle = extra("pyspark.cloudpickle")
    schema = Schema(a=Integers(range(3)), b=("x", "y"))
    types = [ibis.dtype("int64"), ibis.dtype("string")]
    placings = [arrow_placing(placement_of(schema[n]), t) for n, t in zip("ab", types, strict=True)]
    assert None not in placings
    task = spark_counts._task(schema, [("a", "b")], placings)
    (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    command = [sys.executable, "-c", ALONE, str(tmp_path / "task")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Cell 2 is (1, "x"), cell 6 is "no cell", and 7 the number of records.
    assert done.stdout.strip() == "{2: 2, 6: 2, 7: 4}"
