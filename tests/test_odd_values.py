"""Whatever a value is, it has a cell or none: reading never warns and never fails because of one."""

from __future__ import annotations

import math
import random
import struct
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from leastnoise import Bins, Categories, Integers, Schema, vectorize
from support import extra, refuses

# Every value that is not declared has the last cell, null or not.
OTHER: dict[str, Any] = {"null": "other", "outside": "other", "other": "none"}
KINDS = {
    "names": Categories(["a", "1", "true", "é", "1.5"], **OTHER),
    "range": Integers(range(-2, 8), **OTHER),
    "numbers": Categories([1, 2, 10**20], **OTHER),
    "bins": Bins([-10.0, 0, 1, 1e6], **OTHER),
}


class Unwritable:
    def __str__(self) -> str:
        raise RuntimeError("no value is to be seen")


FIXED = [
    *(None, math.nan, np.float64("nan"), pandas.NA, pandas.NaT, np.datetime64("NaT"), Decimal("NaN")),
    *(Decimal("sNaN"), Decimal("-Infinity"), Decimal("1e9999"), math.inf, -math.inf, -0.0, 1e308),
    *("\ud800", "a\udcff", "\0", "", "1" * 5000, "1e999999999", "1e-999999999", "0x1", "\u0661", "１"),
    *(10**5000, -(10**5000), 2**64, np.uint64(2**64 - 1), np.int8(1), np.float16(1), np.longdouble("1e4000")),
    *(b"a", b"\xff", bytearray(b"a"), memoryview(b"a"), True, np.bool_(False), 1 + 2j),
    *(date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), time(1), timedelta(days=999999999)),
    *(pandas.Timestamp("2020-01-01", tz="UTC"), pandas.Period("2020-01"), pandas.Interval(0, 1)),
    *(
        uuid.UUID(int=0),
        [1, 2],
        {"a": 1},
        (1,),
        {1},
        object(),
        Unwritable(),
        np.array([1, 2]),
        range(3),
        type,
    ),
]
# Random odd values for each attribute and kind of table.
N_ODD = 3_000
LETTERS = "0123456789+-.eE_ ,\"'\n\r\0aéß１\u0661\u2028\ud800\udcff\U0001f600"


def odd_text(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.choice([1, 2, 3, 8])))


def odd_value(rng: random.Random) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(FIXED)
    if kind == 1:
        return odd_text(rng)
    if kind == 2:
        return struct.unpack("d", rng.randbytes(8))[0]
    if kind == 3:
        return rng.choice([-1, 1]) * rng.getrandbits(rng.choice([1, 3, 53, 64, 200])) ** rng.choice(
            [1, 1, 90]
        )
    if kind == 4:
        return Decimal((rng.randrange(2), tuple(rng.randrange(10) for _ in range(3)), rng.randrange(-9, 9)))
    return rng.randbytes(rng.choice([1, 3]))


def expected_of(attribute: Any, values: list[Any]) -> list[int]:
    """Counts by placing one value after the other; what no text can tell is not declared."""
    cells = [0] * attribute.size
    for value in values:
        try:
            str(value).encode()
            place = attribute.place(value)
        except Exception:
            place = attribute.n_values
        cells[place] += 1
    return cells


def as_objects(values: list[Any], folder: Path) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pandas.DataFrame({"x": pandas.Series(column, dtype=object)})


def as_strings(values: list[Any], folder: Path) -> Any:
    return pandas.DataFrame({"x": pandas.array(values, dtype=pandas.StringDtype("python"))})


def as_arrow(values: list[Any], folder: Path) -> Any:
    pyarrow = extra("pyarrow")
    stored = pyarrow.array([v.encode("utf-8", "surrogatepass") for v in values], type=pyarrow.binary())
    return pyarrow.table({"x": stored.view(pyarrow.string())})


def as_parquet(values: list[Any], folder: Path) -> Any:
    extra("pyarrow.parquet").write_table(as_arrow(values, folder), folder / "t.parquet")
    return folder / "t.parquet"


def as_polars(values: list[Any], folder: Path) -> Any:
    # It cannot hold what is not UTF-8.
    return extra("polars").DataFrame({"x": [None if set(v) & set("\ud800\udcff") else v for v in values]})


def as_ibis(values: list[Any], folder: Path) -> Any:
    return extra("ibis").memtable(as_polars(values, folder).to_arrow())


def check_odd_values(made: Callable[[list[Any], Path], Any], kind: str, odd: list[Any], folder: Path) -> None:
    attribute = KINDS[kind]
    found = vectorize(made(odd, folder), Schema(x=attribute)).vector().tolist()
    assert found == expected_of(attribute, odd)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_odd_objects_have_their_cells(kind: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    check_odd_values(as_objects, kind, [*FIXED, *(odd_value(rng) for _ in range(N_ODD))], tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("value", FIXED, ids=lambda value: type(value).__name__)
def test_one_odd_value_changes_one_count_at_most(value: Any, tmp_path: Path) -> None:
    usual = ["a", "1", 1, 2.0, None]
    schema = Schema(x=KINDS["range"])
    change = (
        vectorize(as_objects([*usual, value], tmp_path), schema).vector()
        - vectorize(as_objects(usual, tmp_path), schema).vector()
    )
    assert np.abs(change).sum() == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    "made", [as_strings, as_arrow, as_parquet, as_polars, as_ibis], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("kind", KINDS)
def test_odd_texts_have_their_cells(made: Any, kind: str, tmp_path: Path) -> None:
    rng = random.Random(2)
    texts = ["a", "\ud800", "1" * 5000, "é", *(odd_text(rng) for _ in range(N_ODD))]
    check_odd_values(made, kind, texts, tmp_path)


def test_a_value_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leastnoise.data.written_text.is_text", lambda value: True)
    with refuses(Exception, "table", "UnicodeEncodeError"):
        check_odd_values(as_objects, "names", ["\ud800"], tmp_path)


def test_decimals_are_their_digits_whatever_their_exponent() -> None:
    """As `Attribute.place` says of one; none takes the memory that its digits would."""
    texts = ("1E+3", "1E+9999", "-1E+999999999", "1E-999999999", "0E+999999", "1.50")
    frame = pandas.DataFrame({"v": pandas.Series(list(map(Decimal, texts)), dtype=object)})
    clamped = Integers(range(999, 1002), outside="clamp")
    assert vectorize(frame, Schema(v=clamped)).vector().tolist() == [2, 1, 1]
    assert vectorize(frame, Schema(v=["1000", "1.50", "0"])).vector().tolist() == [1, 1, 1]
