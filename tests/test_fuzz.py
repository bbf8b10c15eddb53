"""Whatever is typed, loaded or damaged: refused by an error of the library, or answered rightly.

LEASTNOISE_FUZZ sets how many inputs are tried in all; `make audit` tries 100,000, a usual run some 2,000.
LEASTNOISE_EXPLORE=1 tries new ones.
"""

from __future__ import annotations

import copy
import json
import math
import os
import string
import tempfile
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import LeastnoiseError
from leastnoise.planning import Plan, plan_from_parts
from leastnoise.privacy import Charge, Ledger
from leastnoise.privacy.ledger import sqlite_file as file
from leastnoise.privacy.ledger.history import History
from leastnoise.privacy.ledger.rows import NOTHING, Row, sealed
from leastnoise.query import Attribute, Axis
from leastnoise.release import count_tables, measuring
from leastnoise.release import release_file as reading
from leastnoise.strategy import AxisForm, Strategy
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from ledger_stress import TABLE, charge_of, new_ledger
from planted_bugs import brute_force

INPUTS = int(os.environ.get("LEASTNOISE_FUZZ", "2000"))


def tries(share: float) -> Callable[[Any], Any]:
    """So many of all inputs; the shares of this file add up to one."""
    SHARES.append(share)
    return settings(
        max_examples=max(1, math.ceil(share * INPUTS)),
        suppress_health_check=list(HealthCheck),
        database=None,
    )


SHARES: list[float] = []

# ------------------------------------------------------------------ odd values

ODD_NUMBERS = st.sampled_from(
    [
        0,
        -1,
        1,
        2,
        7,
        10**6,
        2**31,
        2**63,
        -(2**63),
        10**30,
        0.5,
        -0.0,
        1e-300,
        1e300,
        math.nan,
        math.inf,
        True,
    ]
)
ODD_TEXTS = st.sampled_from(
    ["", " ", "a", "age", "é", "\0", "\u202e", "=1+1", "1/3", "0/0", "1e9", "NaN", "x" * 300]
)
ODD = st.recursive(
    st.one_of(
        ODD_NUMBERS, ODD_TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(ODD_TEXTS, inner, max_size=3), st.tuples(inner, inner)
    ),
    max_leaves=8,
)


def spliced(draw: Any, text: str, pieces: list[str]) -> str:
    """A text with a few places cut out, doubled or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(["", text[start:end] * 2, *pieces])) + text[end:]
    return text


# ------------------------------------------------------------------ specifications

SPEC = """
[schema]
age = { range = [0, 5] }
sex = ["F", "M"]
income = { bins = [0, 10, 20.5] }

[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "add-remove"

[[query]]
kind = "marginal"
attributes = ["age", "sex"]
weight = 2

[[query]]
kind = "prefix"
attribute = "age"
stderr = 50

[[query]]
kind = "where"
condition = "age >= 2 and sex == 'F'"
"""
SPEC_PIECES = [
    *[
        "=",
        "[",
        "]",
        "{",
        "}",
        '"',
        "'",
        "\n",
        "nan",
        "inf",
        "-1",
        "1e400",
        "true",
        "[[query]]",
        "range",
        "[privacy]",
        "delta",
        "weight",
        "neighbours",
        "é",
        "0.5",
    ],
    'kind = "cube"',
    'kind = "total"',
    "order = 2",
    "rho = 1",
    "mu = 1",
    "[0, 10000000000]",
    "[5, 0]",
    "within = [1, 2]",
    "records_per_person = 0",
    "\\u0000",
    "hierarchy",
]


@st.composite
def spec_texts(draw: Any) -> str:
    return spliced(draw, SPEC, SPEC_PIECES)


@tries(0.1)
@given(spec_texts())
def test_specifications(text: str) -> None:
    with suppress(LeastnoiseError):
        spec = parse_spec(text)
        assert spec.workload.shape[1] == math.prod(spec.schema.shape)
        assert spec.privacy is None or spec.privacy.budget > 0


def test_the_specification_to_be_changed_is_one() -> None:
    assert parse_spec(SPEC).workload.shape == (10 + 5 + 1, 20)


# ------------------------------------------------------------------ schemas

ATTRIBUTES: dict[str, Callable[..., Any]] = {
    "plain": lambda value: value,
    "integers": lambda *values: ln.Integers(*values),
    "bins": lambda *values: ln.Bins(*values),
    "categories": lambda *values: ln.Categories(*values),
    "hierarchy": lambda *values: ln.Hierarchy(*values),
}
RANGES = st.builds(range, st.integers(-9, 9), st.integers(-9, 30), st.sampled_from([1, 2, 3, -1]))
ATTRIBUTE_VALUES = st.one_of(
    RANGES,
    st.lists(ODD_TEXTS, max_size=5),
    st.lists(st.floats(-5, 5), max_size=5),
    st.lists(st.integers(-5, 5), max_size=5),
    ODD,
)


@pytest.mark.thorough
@tries(0.1)
@given(st.sampled_from(sorted(ATTRIBUTES)), ATTRIBUTE_VALUES, ODD_TEXTS, ODD)
def test_schemas(kind: str, values: Any, name: str, asked: Any) -> None:
    with suppress(LeastnoiseError):
        schema = ln.Schema(**{name: ATTRIBUTES[kind](values), "other": range(2)})
        attribute: Attribute = schema[name]
        assert schema.shape == (attribute.size, 2)
        if attribute.size < 1000:
            assert all(isinstance(attribute.label(i), str) for i in range(attribute.size))
        # A record falls into one cell or none, whatever its value.
        if isinstance(asked, str | int | float | None):
            place = attribute.place(asked)
            assert place is None or 0 <= place < attribute.size
        again = ln.Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
        assert again == schema


# ------------------------------------------------------------------ conditions

PEOPLE = ln.Schema(age=range(6), sex=("F", "M"), area=("n", "s", "and"))
CELLS = [(a, s, r) for a in range(6) for s in ("F", "M") for r in ("n", "s", "and")]
AREAS, SEXES = st.sampled_from(["n", "s", "and"]), st.sampled_from(["F", "M"])


@st.composite
def conditions(draw: Any, depth: int = 3) -> tuple[str, Callable[[int, str, str], bool]]:
    """A condition as it is written, and what it means in Python."""
    kinds = ["age", "chain", "between", "text", "in", *(["not", "join"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "age":
        sign = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "=", "<>"]))
        n = draw(st.integers(-1, 7))
        return f"age {sign} {n}", lambda a, s, r: compare(a, sign, n)
    if kind == "chain":
        low, high = draw(st.integers(-1, 5)), draw(st.integers(0, 7))
        return f"{low} <= age < {high}", lambda a, s, r: low <= a < high
    if kind == "between":
        low, high = draw(st.integers(-1, 5)), draw(st.integers(0, 7))
        return f"age between {low} and {high}", lambda a, s, r: low <= a <= high
    if kind == "text":
        value, sign = draw(AREAS), draw(st.sampled_from(["==", "!="]))
        return f"area {sign} '{value}'", lambda a, s, r: compare(r, sign, value)
    if kind == "in":
        values, negated = draw(st.lists(SEXES, min_size=1, max_size=3)), draw(st.booleans())
        listed = ", ".join(f'"{v}"' for v in values)
        return f"sex {'not ' * negated}in ({listed})", lambda a, s, r: (s in values) != negated
    first, meant = draw(conditions(depth=depth - 1))
    if kind == "not":
        return f"not ({first})", lambda a, s, r: not meant(a, s, r)
    second, also = draw(conditions(depth=depth - 1))
    if draw(st.booleans()):
        return f"({first}) and ({second})", lambda a, s, r: meant(a, s, r) and also(a, s, r)
    return f"({first}) or ({second})", lambda a, s, r: meant(a, s, r) or also(a, s, r)


def compare(left: Any, sign: str, right: Any) -> bool:
    return {
        "==": left == right, "=": left == right, "!=": left != right, "<>": left != right,
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
    }[sign]  # fmt: skip


@pytest.mark.thorough
@tries(0.1)
@given(conditions())
def test_conditions_mean_what_they_say(condition: tuple[str, Callable[[int, str, str], bool]]) -> None:
    text, meant = condition
    row = ln.assemble([ln.Where(text)], PEOPLE).dense()[0]
    assert row.tolist() == [float(meant(*cell)) for cell in CELLS]


CONDITION_PIECES = ["and", "(", ")", "'", "`", "not", "in", ",", "<", "=", "1e999", "é", "\x00", "()", "--1"]


@st.composite
def condition_texts(draw: Any) -> str:
    text, _ = draw(conditions())
    return spliced(draw, text, CONDITION_PIECES)


@tries(0.05)
@given(st.one_of(condition_texts(), st.text(string.printable, max_size=30)))
def test_conditions_that_are_damaged(text: str) -> None:
    with suppress(LeastnoiseError):
        row = ln.assemble([ln.Where(text)], PEOPLE).dense()[0]
        assert set(row.tolist()) <= {0.0, 1.0}


# ------------------------------------------------------------------ matrices and counts

ENTRIES = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.sampled_from([1e-300, 1e300]),
)


@tries(0.1)
@given(
    st.lists(st.lists(ENTRIES, max_size=4), max_size=4),
    st.sampled_from([None, "i8", "u1", "f4", "O", "c16", "U3"]),
)
def test_matrices(rows: list[list[Any]], dtype: str | None) -> None:
    matrix: Any = rows
    if dtype is not None:
        try:
            with np.errstate(all="ignore"):
                matrix = np.array(rows, dtype=dtype)
        except (ValueError, OverflowError, TypeError):
            return
    with suppress(LeastnoiseError):
        workload = ln.Workload.from_matrix(matrix)
        dense = workload.dense()
        assert np.isfinite(dense).all()
        assert dense.tolist() == np.array(matrix, dtype=object).astype(float).tolist()


@tries(0.05)
@given(
    st.lists(st.lists(st.integers(-(2**66), 2**66), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(0, 2**66), min_size=3, max_size=3),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from(["add-remove", "replace-one"]),
)
def test_integers_and_sensitivities(A: Any, x: Any, kind: Any, neighbours: Any) -> None:
    strategy = Strategy(np.array(A, dtype=object), scale=1, noise=kind, neighbours=neighbours)
    power = 2 if kind == "gaussian" else 1
    assert strategy.sensitivity == brute_force(A, power, replaced=neighbours == "replace-one")
    expected = [sum(a * c for a, c in zip(row, x, strict=True)) for row in A]
    assert strategy.answers(np.array(x, dtype=object)).tolist() == expected
    assert exact.from_limbs(exact.to_limbs(np.array(A, dtype=object))).tolist() == A


WIDE = st.sampled_from([2, 2**20, 2**31, 2**40, 2**61, 2**70])


@st.composite
def axis_forms(draw: Any, size: int) -> AxisForm:
    kind = draw(st.sampled_from(["whole", "identity", "centred"]))
    if kind != "whole":
        return AxisForm(kind, size)
    most = draw(WIDE)
    entries = st.lists(st.integers(-most, most), min_size=size, max_size=size)
    return AxisForm("whole", size, np.array(draw(st.lists(entries, min_size=1, max_size=3)), dtype=object))


@tries(0.05)
@given(
    axis_forms(3),
    axis_forms(2),
    st.integers(1, 2**40),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from(["add-remove", "replace-one"]),
)
def test_structured_sensitivities(one: Any, other: Any, multiplier: int, kind: Any, neighbours: Any) -> None:
    """No pair of records changes more than a structured strategy says, by brute force on its matrix."""
    split = [a for a, form in enumerate((one, other)) if form.is_split]
    sets = [(), *((a,) for a in split), *([tuple(split)] if len(split) > 1 else [])]
    held = [ProductBlock(axes, (0,) * len(axes), multiplier + i) for i, axes in enumerate(sets)]
    axes = [Axis(("a",), (3,), (0,)), Axis(("b",), (2,), (1,))]
    strategy = Structured(axes, [[one], [other]], held, scale=1, noise=kind, neighbours=neighbours)
    power = 2 if kind == "gaussian" else 1
    worst = brute_force(strategy.dense(), power, replaced=neighbours == "replace-one")
    if neighbours == "add-remove":
        assert strategy.sensitivity == worst
    assert strategy.sensitivity >= worst


COUNTS = st.one_of(
    st.lists(st.integers(-1, 2**70), max_size=5),
    st.lists(ENTRIES, max_size=5),
    st.lists(st.lists(ENTRIES)),
    ODD,
)


@tries(0.05)
@given(COUNTS)
def test_counts(counts: Any) -> None:
    plan = plan_named("dense")
    with suppress(LeastnoiseError):
        tables = count_tables(plan.workload, counts, 1)
        assert [int(count) for count in tables(None)[0]] == np.array(counts, dtype=object).ravel().tolist()


# ------------------------------------------------------------------ plan and release files


@lru_cache
def plan_named(name: str) -> Plan:
    schema = ln.Schema(a=range(2), b=range(2))
    queries = [ln.Marginal("a", "b"), ln.Marginal("a"), ln.Total()]
    workload = ln.assemble(queries, schema)
    return {
        "dense": lambda: ln.design(workload, ln.GDP(1)),
        "replaced": lambda: ln.design(workload, ln.GDP(1, neighbours="replace-one")),
        "laplace": lambda: ln.design(workload, ln.PureDP(1), method="identity"),
        "marginals": lambda: ln.design(workload, ln.GDP(1), method="marginals"),
        "tables": lambda: ln.design(workload, ln.PureDP(1), method="marginals"),
        "residuals": lambda: ln.design(
            ln.assemble([ln.Prefix("a") * ln.Marginal("b"), ln.Prefix("a")], schema),
            ln.GDP(1),
            method="residuals",
        ),
    }[name]()


PLANS = ("dense", "replaced", "laplace", "marginals", "tables", "residuals")


def changed(draw: Any, content: Any) -> Any:
    """JSON with one value somewhere replaced, removed or added."""
    content = copy.deepcopy(content)
    at = content
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return content
        key = draw(st.sampled_from(keys))
        inner = at[key]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 3)):
            at = inner
            continue
        what = draw(st.integers(0, 5))
        if what == 0:
            del at[key]
        elif what == 1 and isinstance(inner, int | float) and not isinstance(inner, bool):
            at[key] = inner + draw(st.sampled_from([1, -1, 0.5, 2**64]))
        elif what == 2 and isinstance(inner, str) and inner.isdigit():
            at[key] = str(max(0, int(inner) + draw(st.sampled_from([-1, 1, -(2**20), 2**20]))))
        elif what == 3 and isinstance(at, dict):
            at[draw(ODD_TEXTS)] = draw(ODD)
        else:
            at[key] = draw(ODD)
        return content


def changed_arrays(draw: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    arrays = {name: array.copy() for name, array in arrays.items()}
    name = draw(st.sampled_from(sorted(arrays)))
    what = draw(st.integers(0, 4))
    if what == 0:
        del arrays[name]
    elif what == 1:
        arrays[name] = arrays[name].astype(draw(st.sampled_from(["f8", "i4", "u1", "?"])))
    elif what == 2:
        arrays[name] = arrays[name][:-1]
    elif arrays[name].size:
        flat = arrays[name].reshape(-1)
        with np.errstate(all="ignore"):
            by = draw(st.sampled_from([1, -1, 2**40, -(2**62)]))
            place = draw(st.integers(0, flat.size - 1))
            flat[place] = (flat[place] + np.array(by).astype(flat.dtype)) if flat.dtype != bool else False
    return arrays


@st.composite
def plan_parts(draw: Any) -> tuple[Any, Any]:
    content, arrays = plan_named(draw(st.sampled_from(PLANS))).to_parts()
    content = json.loads(json.dumps(content))
    if draw(st.booleans()):
        return changed(draw, content), arrays
    return content, changed_arrays(draw, arrays)


@pytest.mark.thorough
@tries(0.15)
@given(plan_parts())
def test_plan_files_that_were_changed(parts: tuple[Any, Any]) -> None:
    """A plan with another content is refused, or keeps the goal that it names: by brute force."""
    content, arrays = parts
    with suppress(LeastnoiseError):
        plan = plan_from_parts(content, arrays, "a.plan")
        if plan.strategy is None:
            return
        assert plan.strategy.shape[1] <= 64
        power = 2 if plan.strategy.noise == "gaussian" else 1
        worst = brute_force(plan.strategy.dense(), power, replaced=plan.privacy.neighbours == "replace-one")
        assert Fraction(worst, plan.strategy.scale**power) <= plan.privacy.budget
        assert (plan.strategy.noise == "laplace") == isinstance(plan.privacy, ln.PureDP)


@lru_cache
def release_bytes(name: str) -> bytes:
    plan = plan_named(name)
    n = plan.workload.shape[1]
    y = measuring.measured(plan, np.arange(n), measuring.SystemBits())
    return ln.Release(plan, y).to_bytes()


@pytest.mark.thorough
@tries(0.05)
@given(st.sampled_from(PLANS), st.data())
def test_release_files_that_were_changed(name: str, data: Any) -> None:
    content, arrays = container.from_bytes(release_bytes(name), "release", "a.release")
    if data.draw(st.booleans()):
        content = changed(data.draw, content)
    else:
        arrays = changed_arrays(data.draw, arrays)
    with suppress(LeastnoiseError):
        found = reading.release_from_parts(content, arrays, "a.release")
        assert all(type(value) is int for value in found.measurements)
        if found.plan.strategy is not None:
            assert len(found.measurements) == found.plan.strategy.n_measured


@pytest.mark.thorough
@tries(0.1)
@given(st.sampled_from(PLANS), st.data())
def test_bytes_that_were_flipped(name: str, data: Any) -> None:
    """A file with other bytes is refused, or reads as what was written: no other content has its digest."""
    whole = bytearray(release_bytes(name))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        what = data.draw(st.integers(0, 3))
        if what == 0:
            del whole[at:]
            whole += b"\0"
        elif what == 1:
            whole[at:at] = data.draw(st.binary(max_size=8))
        else:
            whole[at] ^= data.draw(st.integers(1, 255))
    right = container.from_bytes(release_bytes(name), "release", "a.release")
    with suppress(LeastnoiseError):
        content, arrays = container.from_bytes(bytes(whole), "release", "a.release")
        assert content == right[0]
        assert {k: v.tolist() for k, v in arrays.items()} == {k: v.tolist() for k, v in right[1].items()}


# ------------------------------------------------------------------ ledgers


@lru_cache
def ledger_rows() -> tuple[Row, ...]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = new_ledger(Path(folder) / "a.ledger", 3)
        for i in range(3):
            after = ["plan 0"] if i else []
            entry = ledger.spend(charge_of(f"plan {i}"), f"r{i}", after=after, table=TABLE)
            if i < 2:
                ledger.store(entry, b"answers")
        with file.LedgerFile(ledger.path).transaction(writes=False, timeout=1, aftermath="") as log:
            return tuple(log.rows_from(None))


@lru_cache
def ledger_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        ledger = new_ledger(Path(folder) / "a.ledger", 9)
        for i in range(3):
            ledger.store(ledger.spend(charge_of(f"plan {i}"), f"r{i}", table=TABLE), b"answers")
        return ledger.path.read_bytes()


@pytest.mark.thorough
@tries(0.08)
@given(st.data())
def test_rows_of_a_ledger_that_were_changed_and_sealed_anew(data: Any) -> None:
    """Whoever can write the file can seal any row; what makes no sense is refused, and sums are right."""
    rows = list(ledger_rows())
    at = data.draw(st.integers(0, len(rows) - 1))
    contents = [json.loads(row.content) for row in rows]
    contents[at] = changed(data.draw, contents[at])
    before, history = NOTHING, None
    with suppress(LeastnoiseError):
        for number, (row, content) in enumerate(zip(rows, contents, strict=True)):
            try:
                new = sealed(before, number, row.kind, content, row.profile)
            except (ValueError, TypeError):  # what JSON does not hold cannot be in a file
                return
            before = new.digest
            if history is None:
                history = History(new)
            else:
                history.add(new)
        assert history is not None
        # Whatever could be read: of each group its largest cell, and all else by its worst case.
        together: dict[Any, list[Charge]] = {}
        for entry in history.entries:
            is_alone = entry.group is None or not entry.charge.adds_by_cell
            key = entry.release_id if is_alone else (entry.group, entry.charge.noise)
            together.setdefault(key, []).append(entry.charge)
        total = Fraction(0)
        for members in together.values():
            costs = [member.per_cell or [member.worst] for member in members]
            total += max(map(sum, zip(*costs, strict=True))) * members[0].weight
        assert history.tally.mu_squared + history.tally.epsilon == total


@tries(0.02)
@given(st.data())
def test_files_of_ledgers_that_were_changed(data: Any) -> None:
    whole = bytearray(ledger_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        if data.draw(st.integers(0, 9)):
            whole[at] ^= data.draw(st.integers(1, 255))
        else:
            del whole[at:]
            whole += b"\0"
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder) / "a.ledger"
        path.write_bytes(whole)
        path.chmod(0o600)
        with suppress(LeastnoiseError):
            ledger = Ledger(path, dataset="people")
            ledger.verify()
            assert [entry.release_id for entry in ledger.entries] == ["r0", "r1", "r2"]
            assert ledger.remaining.mu_squared == Fraction(6, 49)


# ------------------------------------------------------------------ the fuzzers themselves


def test_the_shares_add_up() -> None:
    assert sum(SHARES) == pytest.approx(1)


def test_a_wrong_answer_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that believes files: the fuzzer of plan files finds one that spends too much."""
    monkeypatch.setattr(Plan, "__post_init__", lambda self: None)
    content, arrays = plan_named("dense").to_parts()
    content = json.loads(json.dumps(content)) | {"scale": str(int(content["scale"]) - 2**20)}
    check = test_plan_files_that_were_changed.hypothesis.inner_test  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        check((content, arrays))
