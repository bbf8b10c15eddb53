"""Nothing true gets out: a table with recognisable counts and values goes through everything.

The plans below add noise of a standard deviation above 5e11 to every answer, so a
printed number is within one of a true count with a chance below 2e-12. Some ten
thousand numbers are compared, whole, with at most a dozen true ones: a false alarm
comes less than once in a million runs.
"""

from __future__ import annotations

import ast
import inspect
import io
import logging
import re
import textwrap
import traceback
import warnings
import zipfile
from decimal import Decimal

import duckdb
import numpy as np
import pytest

import leastnoise as ln
from leastnoise import data as data_module
from leastnoise import strategy
from leastnoise.core import exact_integers as exact
from leastnoise.core import random_bits
from leastnoise.core.errors import LeastnoiseError, UnrecordedSpending
from leastnoise.core.random_bits import SystemBits
from leastnoise.release import counts, measuring, noise
from leastnoise.strategy import axis_form
from leastnoise.strategy.structured import blocks, integer_blocks, tables

SCHEMA = ln.Schema(age=range(4), sex=("F", "M"))
LARGEST = 7_310_533
N_WITHOUT_AGE = 12_345
OUTSIDE = "CANARY-outside-the-schema"
COUNTS = [LARGEST, 48_611, 0, 90_017, 0, 31_337, 65_539, 0]
WORKLOAD = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age"), ln.Total()], SCHEMA)
TRUE_ANSWERS = sorted({int(a) for a in WORKLOAD.dense() @ COUNTS} - {0})
GOALS = [ln.GDP(1e-12), ln.PureDP(1e-12)]


@pytest.fixture(scope="module")
def table():
    """People by the counts above, some of a category nobody declared and some of no age."""
    connection = duckdb.connect()
    cells = [(age, sex) for age in range(4) for sex in ("F", "M")]
    parts = [
        f"SELECT {age} AS age, '{sex}' AS sex FROM range({count})"
        for (age, sex), count in zip(cells, COUNTS, strict=True)
    ]
    parts += [f"SELECT 1, '{OUTSIDE}' FROM range({LARGEST})", f"SELECT NULL, 'F' FROM range({N_WITHOUT_AGE})"]
    connection.execute(f"CREATE TABLE people AS {' UNION ALL '.join(parts)}")
    return connection.table("people")


# --------------------------------------------------------------------------- the judge


NUMBER = re.compile(r"(?<![\d.])\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")


def numbers_in(text):
    """The numbers in a text to the nearest whole one, in whatever notation they are written."""
    return {round(Decimal(re.sub("[,_]", "", token))) for token in NUMBER.findall(text)}


def told(text):
    """What of the true numbers and values a text gives away."""
    return sorted({*TRUE_ANSWERS, N_WITHOUT_AGE} & numbers_in(text)) + [
        word for word in ("CANARY",) if word in text
    ]


def told_by_file(path, plan):
    """What the unpacked members of a file give away, as text or as eight-byte integers.

    The true answers of the strategy itself are looked for as well: they are what the
    measurements would be without noise.
    """
    found = []
    measured_truth = exact.to_limbs(plan.strategy.answers(np.array(COUNTS)))
    patterns = {value: np.int64(value).tobytes() for value in TRUE_ANSWERS}
    patterns |= {f"row {r}": limbs.tobytes() for r, limbs in enumerate(measured_truth) if limbs.any()}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            found += told(content.decode("latin-1")) if name.endswith(".json") else []
            found += [name for name, pattern in patterns.items() if pattern in content]
            if name == "measurements.npy":
                y = exact.from_limbs(np.load(io.BytesIO(content), allow_pickle=False))
                found += told(" ".join(map(str, y.tolist())))
    return found


def everything_in(error):
    """An exception, its notes, arguments and all it came from, suppressed or not."""
    texts = ["".join(traceback.format_exception(error))]
    seen = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        texts += [str(current), repr(current), repr(current.args), *getattr(current, "__notes__", [])]
        waiting += [current.__cause__, current.__context__]
    return "\n".join(texts)


def said_by_frame(frame):
    return frame.to_csv() + frame.to_string()


def all_that_is_said(plan, source, folder):
    """Every text the library makes on the way from a table to a saved release, and the files."""
    texts = [repr(source), str(source)] if isinstance(source, ln.Data) else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = ln.measure(plan, source)
        texts += [str(warning.message) for warning in caught] + [repr(w.message) for w in caught]
        assert [w.category for w in caught] == [UnrecordedSpending]
    texts += [repr(given), str(given), repr(plan), str(plan), repr(plan.strategy)]
    texts += [str(ln.summarize(given)), repr(ln.summarize(given)), str(ln.summarize(plan))]
    texts += [said_by_frame(given[name]) for name in plan.workload.names]
    texts += [said_by_frame(given.to_frame(simultaneous=True))]
    texts += [said_by_frame(given.answer(ln.Ranges("age", [(0, 1), (2, 3)])))]
    texts += [str(given.answers.tolist()), str(given.estimates.tolist()), str(given.measurements.tolist())]
    texts += [str(end.tolist()) for end in given.interval(0.9)]
    files = [given.save(folder / "a.release"), plan.save(folder / "a.plan")]
    texts += [str(ln.load_release(files[0]))]
    return texts, files


def plan_for(goal):
    plan = ln.design(WORKLOAD, goal)
    assert (plan.stderr > 5e11).all()
    return plan


# ------------------------------------------------------------------- a release that works


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("route", ["table", "vector", "file"])
def test_a_release_tells_nothing_true(goal, route, table, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    plan = plan_for(goal)
    (tmp_path / "out").mkdir()
    if route == "table":
        source = ln.vectorize(table, SCHEMA)
    elif route == "vector":
        source = np.array(COUNTS)
    else:
        table.filter("age > 0 OR age IS NULL").write_parquet(str(tmp_path / "people.parquet"))
        source = ln.vectorize(tmp_path / "people.parquet", SCHEMA)
    texts, files = all_that_is_said(plan, source, tmp_path / "out")
    out, err = capfd.readouterr()
    for text in [*texts, out, err, caplog.text]:
        assert told(text) == []
    for path in files:
        assert told_by_file(path, plan) == []
    assert sorted((tmp_path / "out").iterdir()) == sorted(files), "no temporary file is left behind"


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_without_noise_everything_would_tell(goal, table, tmp_path, monkeypatch):
    """The judge judged: the same walk with the noise switched off."""
    for name in ("rounded_gaussian", "discrete_laplace"):
        monkeypatch.setattr(measuring, name, lambda scale, size, bits: [0] * size)
    plan = plan_for(goal)
    texts, files = all_that_is_said(plan, ln.vectorize(table, SCHEMA), tmp_path)
    telling = [text for text in texts if told(text)]
    assert len(telling) >= 6
    assert told_by_file(files[0], plan) != []
    assert told_by_file(files[1], plan) == []


@pytest.mark.thorough
def test_a_dropped_value_looks_like_an_absent_one(table, tmp_path):
    """Not even the number of records left out is told; the data handle shows the schema only."""
    data = ln.vectorize(table, SCHEMA)
    without = ln.vectorize(table.filter("sex IN ('F', 'M') AND age IS NOT NULL"), SCHEMA)
    assert repr(data) == repr(without) and str(data) == str(without)
    assert data.vector().tolist() == without.vector().tolist() == COUNTS


# ---------------------------------------------------------------------- provoked failures


def failing_generator(monkeypatch):
    def urandom(n):
        raise OSError("no device")

    monkeypatch.setattr(random_bits.os, "urandom", urandom)


def damaged_parquet(table, folder):
    path = folder / "people.parquet"
    table.limit(10).project(f"1 AS age, '{OUTSIDE}' AS sex").write_parquet(str(path))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"\xff" * 40 + content[len(content) // 2 + 40 :])
    return path


def unreadable_csv(folder):
    """Text where a number is declared, bytes that are no UTF-8, a quote never closed."""
    path = folder / "people.csv"
    path.write_bytes(b'age,sex\n"7310533","' + OUTSIDE.encode() + b'"\n\xff\xfe,F\n"1,' + OUTSIDE.encode())
    return path


def failures(table, folder, monkeypatch):
    """Name to something that fails, with the truth within reach of its message."""
    plan = plan_for(GOALS[0])
    given = ln.Release(
        plan,
        measuring.with_noise(plan.strategy, plan.strategy.answers(np.array(COUNTS)), SystemBits()),
    )
    small = ln.design(ln.assemble([ln.Total()], SCHEMA), GOALS[0])
    small_release = ln.Release(
        small,
        measuring.with_noise(small.strategy, small.strategy.answers(np.array(COUNTS)), SystemBits()),
    )
    broken = table.project("age, sex AS gender")
    failing = table.filter("sex LIKE 'CAN%'").project("CAST(sex AS INTEGER) AS age, sex")
    listed = table.project(f"[age] AS age, {{'a': '{OUTSIDE}'}} AS sex").limit(3)
    return {
        "short vector": lambda: ln.measure(plan, COUNTS[:-1]),
        "long vector": lambda: ln.measure(plan, [*COUNTS, LARGEST]),
        "negative counts": lambda: ln.measure(plan, [-count for count in COUNTS]),
        "fractional counts": lambda: ln.measure(plan, [count + 0.5 for count in COUNTS]),
        "counts as text": lambda: ln.measure(plan, [str(count) for count in COUNTS]),
        "ragged counts": lambda: ln.measure(plan, [COUNTS, COUNTS[:2]]),
        "counts of objects": lambda: ln.measure(plan, np.array([*COUNTS[:-1], OUTSIDE], dtype=object)),
        "masked counts": lambda: ln.measure(plan, np.ma.masked_array(COUNTS)),
        "counts in a dict": lambda: ln.measure(plan, {OUTSIDE: COUNTS}),
        "missing column": lambda: ln.measure(plan, broken),
        "nested column": lambda: ln.measure(plan, listed) and given["no such name"],
        "other schema": lambda: ln.measure(plan, ln.vectorize(table, ln.Schema(age=range(9)))),
        "closed table": lambda: ln.measure(plan, closed_table()),
        "failing engine": lambda: ln.measure(plan, failing),
        "damaged parquet": lambda: ln.measure(plan, damaged_parquet(table, folder)),
        "unreadable csv": lambda: ln.measure(plan, unreadable_csv(folder)) and given["no such name"],
        "missing file": lambda: ln.measure(plan, folder / "nowhere.parquet"),
        "unknown name": lambda: given["no such name"],
        "unanswerable query": lambda: small_release.answer(ln.Marginal("age")),
        "level": lambda: given.interval(95),
        "query of another kind": lambda: given.answer(LARGEST),
        "no folder to save in": lambda: given.save(folder / "nowhere" / "a.release"),
        "failing generator": lambda: failing_generator(monkeypatch) or ln.measure(plan, COUNTS),
        "warning made an error": lambda: strictly(ln.measure, plan, COUNTS),
    }


def closed_table():
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT 1 AS age, '{OUTSIDE}' AS sex")
    connection.close()
    return relation


def strictly(step, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return step(*args)


NAMES = [
    "short vector",
    "long vector",
    "negative counts",
    "fractional counts",
    "counts as text",
    "ragged counts",
    "counts of objects",
    "masked counts",
    "counts in a dict",
    "missing column",
    "nested column",
    "other schema",
    "closed table",
    "failing engine",
    "damaged parquet",
    "unreadable csv",
    "missing file",
    "unknown name",
    "unanswerable query",
    "level",
    "query of another kind",
    "no folder to save in",
    "failing generator",
    "warning made an error",
]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
@pytest.mark.parametrize("name", NAMES)
def test_no_failure_tells_anything_true(name, table, tmp_path, capfd, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    fail = failures(table, tmp_path, monkeypatch)[name]
    with pytest.raises((LeastnoiseError, FileNotFoundError, UnrecordedSpending)) as caught:
        fail()
    monkeypatch.undo()
    out, err = capfd.readouterr()
    for text in (everything_in(caught.value), out, err, caplog.text):
        assert told(text) == []


def test_every_failure_is_tried(table, tmp_path, monkeypatch):
    assert list(failures(table, tmp_path, monkeypatch)) == NAMES


def test_the_words_of_the_engine_would_be_noticed(table, tmp_path, monkeypatch):
    """With its messages let through as they come, the engine quotes what it could not read."""
    fail = failures(table, tmp_path, monkeypatch)["failing engine"]
    monkeypatch.setattr(data_module.handle, "withheld", lambda step, run: run())
    with pytest.raises(duckdb.Error) as caught:
        fail()
    assert told(everything_in(caught.value)) == ["CANARY"]


def test_a_hidden_cause_would_be_noticed():
    def fail():
        try:
            raise ValueError(f"{LARGEST:,} people")
        except ValueError:
            raise LeastnoiseError("something failed") from None

    with pytest.raises(LeastnoiseError) as caught:
        fail()
    assert told(str(caught.value)) == []
    assert told(everything_in(caught.value)) == [LARGEST]


@pytest.mark.parametrize(
    "text", ["7310533", "7,310,533 people", "(7310533.0, 1)", "7310532.99999", "7.310533e+06", "7_310_533"]
)
def test_a_count_is_recognised_however_it_is_written(text):
    assert told(text) == [LARGEST]


def test_longer_numbers_and_fractions_are_no_counts():
    assert told("17310533 or 73105330 or 0.7310533 or 1.7310533e9") == []
    assert told(f"value {OUTSIDE}") == ["CANARY"]


# ------------------------------------------------------------- no float before the noise


FLOAT_NAMES = {
    "float",
    "sqrt",
    "exp",
    "log",
    "divide",
    "true_divide",
    "mean",
    "random",
    "cmath",
    "rint",
}


def float_uses(source):
    """What in a piece of source could make a float: literals, true division, conversions."""
    found = []
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.append(repr(node.value))
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            found.append("/")
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "math":
            found += [] if node.attr in {"prod", "isqrt"} else [node.attr]
        if isinstance(node, ast.Name) and node.id in FLOAT_NAMES:
            found.append(node.id)
        if isinstance(node, ast.Attribute) and (node.attr in FLOAT_NAMES or node.attr.startswith("float")):
            found.append(node.attr)
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in {"float", "f8", "d"}
        ):
            found.append(node.value)
    return found


PATH = [
    counts.count_tables,
    counts.tables_of_vector,
    data_module.summed,
    measuring._noisy,
    measuring.with_noise,
    measuring._read,
    strategy.Strategy.answers,
    strategy.Strategy.exact_answers,
    blocks.Structured.exact_answers,
    blocks.Structured._block_answers,
    integer_blocks,
    tables.WeightedTables._block_answers,
    axis_form.AxisForm.answers,
    data_module.counts_from_vector,
    data_module.Data.counts,
    data_module.Data.vector,
    exact,
    random_bits,
    noise,
]


@pytest.mark.parametrize("step", PATH, ids=lambda step: getattr(step, "__qualname__", step.__name__))
def test_no_float_lies_between_the_counts_and_the_measurements(step):
    assert float_uses(inspect.getsource(step)) == []


@pytest.mark.parametrize(
    "broken",
    [
        "y = 0.5 + x",
        "y = A @ x / 2",
        "y /= 2",
        "y = float(x)",
        "y = x.astype(float)",
        "y = x.astype(np.float64)",
        "y = x.astype('float')",
        "y = np.sqrt(x)",
        "y = np.rint(x)",
        "y = math.ldexp(x, 3)",
    ],
)
def test_a_float_on_the_path_would_be_noticed(broken):
    assert float_uses(broken)


def test_types_stay_integers_on_the_path(monkeypatch):
    """What the source cannot show: the arrays themselves, as they pass."""
    seen = []
    product = exact.matrix_times_counts

    def watch(matrix, counts):
        result = product(matrix, counts)
        seen.extend([matrix.dtype.kind, counts.dtype.kind, {type(value) for value in result}])
        return result

    monkeypatch.setattr(exact, "matrix_times_counts", watch)
    plan = plan_for(GOALS[0])
    with pytest.warns(UnrecordedSpending):
        given = ln.measure(plan, COUNTS)
    assert seen[0] in "iO" and seen[1] in "iO" and seen[2] == {int}
    assert {type(value) for value in given.measurements} == {int}
