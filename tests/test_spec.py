"""Specification files: every kind and goal, the way back, and every refusal by its words."""

from __future__ import annotations

import copy
import datetime
import json
import math
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leastnoise.app.specification.toml_text
from leastnoise.app.specification.json_schema import FILE, schema_text
from leastnoise.app.specification.spec_file import FILL_IN, MAX_BYTES, Spec, load_spec, parse_spec
from leastnoise.app.specification.toml_text import Lines
from leastnoise.core.errors import SpecError
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.query import (
    AllRanges,
    Bins,
    Categories,
    Linear,
    Marginal,
    MaxVariance,
    Objective,
    Prefix,
    Query,
    Ranges,
    Schema,
    Targets,
    Total,
    TotalVariance,
    Where,
)
from support import refuses

examples = settings(deadline=None, derandomize=True, max_examples=100)

TEXT = """
[schema]
age    = { range = [0, 6] }
sex    = ["F", "M"]
income = { bins = [0, 1.5, 9] }

[privacy]
epsilon = 1.0
delta   = 1e-6
"""


def asking(*queries: str) -> str:
    return TEXT + "".join(f"\n[[query]]\n{query}\n" for query in queries or ['kind = "total"'])


# ---------------------------------------------------------------- what a file means


def test_the_example_of_the_module_is_a_specification() -> None:
    import leastnoise.app.specification.spec_file

    assert leastnoise.app.specification.spec_file.__doc__ is not None
    lines = leastnoise.app.specification.spec_file.__doc__.splitlines()
    spec = parse_spec("\n".join(line[4:] for line in lines if line.startswith("    ")))
    assert spec.schema == Schema(age=range(116), sex=("F", "M"), income=Bins([0, 10_000, 20_000, 50_000]))
    assert spec.queries == (Marginal("age", "sex"), Prefix("age", name="age distribution"))
    assert spec.privacy == ApproxDP(epsilon=1, delta=1e-6)
    assert spec.design == {"method": "auto", "tol": 1e-6, "accept_gap": 0.05}
    assert "accept_gap" not in spec.design_settings() and spec.accept_gap == 0.05


def test_the_version_of_the_format_is_written_and_may_be_left_out() -> None:
    """Files had none: a later version could not have told what an old file means."""
    old = parse_spec(asking())
    assert parse_spec("format = 1\n" + asking()).to_toml() == old.to_toml()
    assert old.to_toml().startswith("format = 1\n")


def test_every_way_to_declare_an_attribute() -> None:
    text = """
    query = [{ kind = "total" }]
    privacy = { mu = 1 }
    [schema]
    a = ["x", "y"]
    b = { categories = [3, 1], other = "rest" }
    c = { range = [4] }
    d = { range = [2, 9, 3] }
    e = { bins = [0, 0.5, 2e3] }
    "with space.dot" = ["z"]
    """
    assert parse_spec(text).schema == Schema(
        a=("x", "y"),
        b=Categories([3, 1], other="rest"),
        c=range(4),
        d=range(2, 9, 3),
        e=Bins([0, 0.5, 2000]),
        **{"with space.dot": ("z",)},
    )


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ('kind = "total"', Total()),
        ('kind = "total"\nname = "all"\nweight = 2\nstderr = 5', Total(name="all", weight=2, stderr=5)),
        ('kind = "total"\nwithin = [100, 0.95]', Total(within=(100, 0.95))),
        ('kind = "marginal"\nattributes = ["sex", "age"]', Marginal("sex", "age")),
        ('kind = "prefix"\nattribute = "age"', Prefix("age")),
        ('kind = "all-ranges"\nattribute = "income"', AllRanges("income")),
        ('kind = "ranges"\nattribute = "age"\nranges = [[0, 2], [3, 5]]', Ranges("age", [(0, 2), (3, 5)])),
        ('kind = "ranges"\nattribute = "income"\nranges = [[0, 9]]', Ranges("income", [(0, 9)])),
        ('kind = "ranges"\nattribute = "sex"\nranges = [["F", "M"]]', Ranges("sex", [("F", "M")])),
        (
            'kind = "product"\nleft = { kind = "prefix", attribute = "age" }\n'
            'right = { kind = "marginal", attributes = ["sex"] }\nname = "both"',
            (Prefix("age") * Marginal("sex")).having(name="both"),
        ),
        (
            f'kind = "linear"\nmatrix = [{[1] * 24}, {[0.5] * 24}]\nlabels = ["a", "b"]',
            Linear([[1] * 24, [0.5] * 24], ["a", "b"]),
        ),
    ],
)
def test_every_kind_of_query(text: str, query: Query) -> None:
    (read,) = parse_spec(asking(text)).queries
    assert read == query
    assert read.target == query.target


def test_a_sparse_matrix_is_given_by_its_entries() -> None:
    (query,) = parse_spec(
        asking(
            'kind = "linear"\nmatrix = { shape = [2, 24], rows = [0, 1], columns = [3, 4], values = [1, -2] }'
        )
    ).queries
    rows = np.zeros((2, 24))
    rows[0, 3], rows[1, 4] = 1, -2
    assert isinstance(query, Linear)
    assert query.matrix.dense().tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("epsilon = 1", PureDP(1)),
        ("epsilon = 0.1\ndelta = 1e-9", ApproxDP(0.1, 1e-9)),
        ('epsilon = "1/3"\ndelta = "1/1000000"', ApproxDP(Fraction(1, 3), Fraction(1, 10**6))),
        ("rho = 0.5", ZCDP(0.5)),
        ('mu = "2/3"', GDP(Fraction(2, 3))),
        ("mu = 1\nrecords_per_person = 3", GDP(1, records_per_person=3)),
        ('rho = 1\nneighbours = "replace-one"', ZCDP(1, neighbours="replace-one")),
        (
            'epsilon = 0.5\ndelta = 1e-6\ncalibration = "classic"',
            ApproxDP(0.5, 1e-6, calibration="classic"),
        ),
    ],
)
def test_every_goal(text: str, goal: Goal) -> None:
    head, tail = asking().split("[privacy]")
    spec = parse_spec(f"{head}[privacy]\n{text}\n[[query]]{tail.split('[[query]]')[1]}")
    assert spec.privacy == goal
    assert parse_spec(spec.to_toml()).privacy == goal


def test_calibration_survives_being_written() -> None:
    """It used to be left out, so that a classic goal came back as an exact one with other noise."""
    goal = ApproxDP(0.5, 1e-6, calibration="classic")
    again = parse_spec(Spec(Schema(a=("x",)), (Total(),), goal).to_toml()).privacy
    assert again == goal
    assert again.mu_squared == goal.mu_squared


def test_fractions_survive_being_written() -> None:
    """A goal of a third was written as text that could not be read back."""
    goal = ApproxDP(Fraction(1, 3), Fraction(1, 7 * 10**6), records_per_person=2)
    assert parse_spec(Spec(Schema(a=("x",)), (Total(),), goal).to_toml()).privacy == goal


def test_the_design_table_is_kept() -> None:
    text = asking() + (
        '\n[design]\nmethod = "hierarchical"\noptions = { branching = 4 }\ntol = 1e-3\ntime_limit = 9\n'
        'backend = "numpy"\n'
    )
    settings = {
        "method": "hierarchical",
        "options": {"branching": 4},
        "tol": 1e-3,
        "time_limit": 9,
        "backend": "numpy",
    }
    spec = parse_spec(text)
    assert spec.design == settings
    assert parse_spec(spec.to_toml()).design == settings
    assert parse_spec(asking()).design == {}


def test_numpy_numbers_and_none_in_settings_are_written_plainly() -> None:
    """NumPy's floats used to be written as np.float64(…), which is no TOML."""
    made = {"tol": np.float64(1e-3), "time_limit": None, "options": {"branching": 3}}
    spec = Spec(Schema(a=("x",)), (Total(),), GDP(1), made)
    assert parse_spec(spec.to_toml()).design == {"tol": 1e-3, "options": {"branching": 3}}


# ---------------------------------------------------------------- there and back

AWKWARD = st.sampled_from(
    [" ", ".", "a.b", '"', "'", '"""', "\\", "\\u0041", "=", "#", "[x]", "\n", "\r\n", "\t", "\0", "\x1b[31m"]
    + ["\x7f", "\x85", "\u2028", "é", "日本", "😀", "\u202e", "true", "1", "-", "_", "[bold]", "null"]
)
NAMES = AWKWARD | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def attributes(draw: st.DrawFn) -> Any:
    kind = draw(st.integers(0, 4))
    if kind == 0:
        start, size, step = draw(
            st.tuples(st.integers(-(10**9), 10**9), st.integers(1, 4), st.integers(1, 3))
        )
        return range(start, start + size * step, step)
    if kind == 1:
        return tuple(draw(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=3, unique=True)))
    if kind == 2:
        numbers = st.floats(-1e300, 1e300) | st.integers(-(10**40), 10**40)
        edges = draw(st.lists(numbers, min_size=2, max_size=4, unique_by=float))
        return Bins(sorted(edges))
    values = draw(st.lists(NAMES | st.just(""), min_size=1, max_size=3, unique=True))
    return Categories(values, "other " + draw(NAMES)) if kind == 3 else values


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    names = draw(st.lists(NAMES | st.just(""), min_size=1, max_size=3, unique=True))
    schema = Schema(**{name: draw(attributes()) for name in names})
    first, last = names[0], names[-1]
    values = schema[first]
    ends = (
        (values.edges[0], values.edges[-1])
        if isinstance(values, Bins)
        else (values.values[0], values.values[-1])
    )
    kinds: list[Query] = [
        Total(),
        Marginal(*names),
        Prefix(last),
        AllRanges(first),
        Ranges(first, [ends]),
        Linear(np.arange(2 * schema.n_cells).reshape(2, -1) / 3, ["=a", draw(NAMES)]),
    ]
    if len(names) > 1:
        kinds.append(Prefix(first) * Marginal(last))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    called = draw(st.lists(NAMES, min_size=len(chosen), max_size=len(chosen), unique=True))
    target = draw(st.sampled_from([{}, {"stderr": 0.1}, {"within": (3, 0.95)}]))
    weight = draw(st.floats(1e-9, 1e9))
    asked = [
        query.having(name=name, weight=weight, **target) for query, name in zip(chosen, called, strict=True)
    ]
    number = st.floats(1e-9, 10) | st.fractions(Fraction(1, 10**6), 5)
    goal = draw(
        st.one_of(
            st.builds(PureDP, number, records_per_person=st.integers(1, 9)),
            st.builds(ZCDP, number, neighbours=st.sampled_from(["add-remove", "replace-one"])),
            st.builds(GDP, number),
            st.just(ApproxDP(1, 1e-6)),
        )
    )
    settings = draw(st.sampled_from([{}, {"tol": 1e-4, "options": {"a b": [1]}}]))
    return Spec(schema, tuple(asked), goal, settings, draw(st.none() | NAMES))


@pytest.mark.thorough
@examples
@given(specs())
def test_what_is_written_is_read_back(spec: Spec) -> None:
    text = spec.to_toml()
    again = parse_spec(text.encode().decode())
    assert again.schema == spec.schema
    assert again.queries == spec.queries
    assert again.privacy == spec.privacy
    assert again.design == spec.design
    assert again.person == spec.person
    assert again.workload.digest == spec.workload.digest
    assert again.to_toml() == text


QUERY = '[[query]]\nkind = "total"\n'
NO_GOAL = TEXT.partition("[privacy]")[0]
TARGET = '[[query]]\nkind = "total"\nstderr = 5\n'


def test_a_goal_may_be_left_out_where_there_are_targets() -> None:
    for query in (TARGET, TARGET.replace("stderr = 5", "within = [9, 0.9]")):
        spec = parse_spec(NO_GOAL + QUERY + query)
        assert spec.privacy is None and spec.workload.has_targets
        again = parse_spec(spec.to_toml())
        assert again.privacy is None and again.queries == spec.queries
    assert "[privacy]" not in spec.to_toml()
    asked = parse_spec(NO_GOAL + TARGET + '[design]\nobjective = "targets"')
    assert asked.design_settings() == {"objective": Targets()}


def test_the_person_is_named_beside_how_many_records_count() -> None:
    named = TEXT.replace("1e-6", '1e-6\nrecords_per_person = 3\nperson = "patient id"') + QUERY
    spec = parse_spec(named)
    assert (spec.person, spec.records_per_person) == ("patient id", 3)
    assert spec.privacy == ApproxDP(1.0, 1e-6, records_per_person=3), "a goal knows no columns"
    assert (parse_spec(TEXT + QUERY).person, parse_spec(TEXT + QUERY).records_per_person) == (None, 1)


def test_a_person_may_be_named_where_targets_take_the_place_of_a_goal() -> None:
    alone = '[privacy]\nperson = "id"\n'
    for more in ("", "records_per_person = 1\n", 'neighbours = "add-remove"\n'):
        spec = parse_spec(NO_GOAL + alone + more + TARGET)
        assert (spec.privacy, spec.person, spec.records_per_person) == (None, "id", 1)
    again = parse_spec(spec.to_toml())
    assert (again.privacy, again.person) == (None, "id")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("epsilon = 1,0", "; write a decimal point, as in 1.0"),
        ("epsilon = -0,5   # too little", "; write a decimal point, as in -0.5"),
        ("a = { bins = [0, 75, infinity] }", "; infinity is written inf"),
        ("a = { bins = [0, 75, Inf] }", "; infinity is written inf"),
        ("a = [0,\n  75,\n  ∞]", "; infinity is written inf"),
        ("within=(100, 0.95)", "; a list stands in square brackets, as in [100, 0.95]"),
        ("ranges = [\n  (0, 17)]", "; a list stands in square brackets, as in [100, 0.95]"),
        ("a = True", "; true and false are written in small letters"),
        ("delta = 10^-6", "; a power of ten is written as in 1e-6"),
        ("sex = [F, M]", '; text stands in quotes, as in "F"'),
        ("kind = total", '; text stands in quotes, as in "F"'),
        ("a = { range = [0, 5], null = other }", '; text stands in quotes, as in "F"'),
        # Where nothing is known, nothing is said: texts and comments are somebody's own.
        ("a = [0 1]", ""),
        ('a = "(3) 1,0 infinity" x', ""),
        ("a = [0 1] # infinity", ""),
        ("[[query]", ""),
    ],
)
def test_slips_that_are_no_toml_are_told_how_to_write_it(line: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_spec(f"[schema]\n{line}\n")
    at = 2 + line.count("\n")
    assert re.fullmatch(
        rf"line {at}: this is not TOML: .* \(at line {at}, column \d+\){re.escape(words)}", str(refused.value)
    )


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ('objective = "total-variance"', TotalVariance()),
        ('objective = "max-variance"', MaxVariance()),
        ('objective = "targets"', Targets()),
        ('objective = "total-variance-within-targets"', TotalVariance(within_targets=True)),
        ('objective = "total-variance"\nrelative_to = "uniform"', TotalVariance(relative_to="uniform")),
        (
            'relative_to = "uniform"\nobjective = "total-variance-within-targets"',
            TotalVariance(within_targets=True, relative_to="uniform"),
        ),
    ],
)
def test_every_objective(text: str, objective: Objective) -> None:
    spec = parse_spec(TEXT + TARGET + f"[design]\ntol = 1e-4\n{text}")
    assert spec.design_settings() == {"tol": 1e-4, "objective": objective}
    assert parse_spec(spec.to_toml()).design == spec.design


def test_text_outside_unicode_cannot_be_written() -> None:
    """A lone surrogate used to reach the file and fail there."""
    with refuses(SpecError, "value", "a\udc80"):
        Spec(Schema(a=("a\udc80",)), (Total(),), GDP(1)).to_toml()
    with refuses(SpecError, "value", set):
        Spec(Schema(a=("x",)), (Total(),), GDP(1), {"options": {1, 2}}).to_toml()


# ---------------------------------------------------------------- refusals


def test_the_json_schema_in_the_package_is_up_to_date() -> None:
    """It was looked at by the tests of another command only."""
    assert FILE.read_text(encoding="utf-8") == schema_text(), (
        "run: python -m leastnoise.app.specification.json_schema"
    )


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("[schema\n", ("toml", None, "line 1")),
        ("a = 1\n\nb = = 2", ("toml", None, "line 3")),
        ("a = " + "1" * 5000, ("toml", None)),
        ("a = " + "[" * 5000, ("toml", None)),
        ("format = 2\n" + asking() + "\n[extra]\nx = 1", ("format", 2)),
        ("format = 0\n" + asking(), ("format", 0)),
        ("format = true\n" + asking(), ("format", True)),
        ("format = '1'\n" + asking(), ("format", "1")),
        (asking() + "\n[extra]\nx = 1", ("extra", None)),
        (asking() + "\n[queries]", ("queries", None)),
        ("", ("schema", None)),
        ("schema = 3\n", ("schema", None)),
        ("[schema]\n[privacy]\nmu = 1\n" + QUERY, ("schema", None)),
        ("[schema]\na = ['x']\n" + QUERY, ("privacy", None)),
        ("[schema]\na = ['x']\n[privacy]\n" + TARGET, ("privacy", None)),
        ("[schema]\na = ['x']\n" + QUERY + "[design]\nobjective='targets'", ("privacy", None)),
        (NO_GOAL + TARGET + "[design]\nobjective = 'max-variance'", ("design.objective", "max-variance")),
        (asking() + "[design]\nobjective = 'least'", ("design.objective", "least")),
        (asking() + "[design]\nrelative_to = 'uniform'", ("design.relative_to", "uniform")),
        (
            asking() + "[design]\nobjective = 'total-variance'\nrelative_to = [1, 2]",
            ("design.relative_to", [1, 2]),
        ),
        (
            asking() + "[design]\nobjective = 'targets'\nrelative_to = 'uniform'",
            ("design.objective.relative_to", "targets"),
        ),
        (TEXT, ("query", None)),
        (TEXT + "[query]\nkind = 'total'", ("query", None, "double brackets")),
        ("query = [1]\n" + TEXT, ("query", None)),
        ("query = []\n" + TEXT, ("query", None)),
        (TEXT.replace("[0, 6]", "[6, 0]") + QUERY, ("schema.age.range", range(6, 0))),
        (TEXT.replace("[0, 6]", "[0, 0.5]") + QUERY, ("schema.age.range", [0, 0.5])),
        (TEXT.replace('"M"', '"F"') + QUERY, ("schema.sex.categories", "F")),
        (TEXT.replace("range", "rang") + QUERY, ("schema.age", ["rang"])),
        (TEXT.replace("range", "surprise = 1, range") + QUERY, ("schema.age", ["range", "surprise"])),
        (TEXT.replace("[0, 1.5, 9]", "[0, 9, 1.5]") + QUERY, ("schema.income.edges", (9, 1.5))),
        (TEXT.replace("epsilon", "epsillon") + QUERY, ("privacy", ["delta", "epsillon"])),
        (TEXT.replace("delta", "rho") + QUERY, ("privacy", ["epsilon", "rho"])),
        (TEXT.replace("1e-6", "1e-6\nsurprise = 1") + QUERY, ("privacy", ["delta", "epsilon", "surprise"])),
        (TEXT.replace("1e-6", "1e-6\ngoal = 'GDP'") + QUERY, ("privacy", ["delta", "epsilon", "goal"])),
        (TEXT.replace("1e-6", "1") + QUERY, ("privacy.delta", 1)),
        (TEXT.replace("1e-6", "0") + QUERY, ("privacy.delta", 0)),
        (TEXT.replace("1.0", "-1.0") + QUERY, ("privacy.epsilon", -1.0)),
        (TEXT.replace("1.0", "nan") + QUERY, ("privacy.epsilon", math.nan)),
        (TEXT.replace("1.0", "true") + QUERY, ("privacy.epsilon", True)),
        (TEXT.replace("1.0", "'one'") + QUERY, ("privacy.epsilon", "one")),
        (TEXT.replace("1e-6", "1e-6\nneighbours = 'all'") + QUERY, ("privacy.neighbours", "all")),
        (TEXT.replace("1e-6", "1e-6\nrecords_per_person = 1.5") + QUERY, ("privacy.records_per_person", 1.5)),
        (TEXT.replace("1e-6", "1e-6\ncalibration = 'mine'") + QUERY, ("privacy.calibration", "mine")),
        (TEXT.replace("1e-6", "1e-6\nperson = 3") + QUERY, ("privacy.person", 3)),
        (TEXT.replace("1e-6", "1e-6\nperson = ''") + QUERY, ("privacy.person", "")),
        (NO_GOAL + "[privacy]\nperson = 'id'\n" + QUERY, ("privacy", ["person"])),
        (NO_GOAL + "[privacy]\nrecords_per_person = true\n" + TARGET, ("privacy.records_per_person", True)),
        (asking('kind = "total"', 'kind = "tottal"'), ("query[1].kind", "tottal")),
        (asking('name = "x"'), ("query[0].kind", None)),
        (asking('kind = "total"\nnmae = "x"'), ("query[0].query", ["nmae"])),
        (asking('kind = "marginal"\nattribute = 3'), ("query[0].query", ["attribute"])),
        (asking('kind = "marginal"\nattributes = "age"'), ("query[0].attributes", "age")),
        (asking('kind = "prefix"\nattribute = "agge"'), ("query[0].attribute", "agge")),
        (asking('kind = "total"\nweight = -1'), ("query[0].weight", -1)),
        (asking('kind = "total"\nstderr = 1\nwithin = [1, 0.5]'), ("query[0].stderr", 1)),
        (asking('kind = "ranges"\nattribute = "age"\nranges = [[9, 99]]'), ("query[0].ranges", (9, 99))),
        (asking('kind = "linear"\nmatrix = [[1, 2]]'), ("query[0].matrix", 2)),
        (asking('kind = "linear"\nmatrix = { shape = [1, 24] }'), ("query[0].matrix", dict)),
        (asking('kind = "total"\nname = "x"', 'kind = "total"\nname = "x"'), ("query[1]", "x")),
        (asking('kind = "total"\nweight = 0'), ("query.weight", 0)),
        (asking() + "[design]\nmethods = 'dense'", ("design.methods", "dense")),
        (asking() + "[design]\nmethod = 3", ("design.method", 3)),
        (asking() + "[design]\nbackend = []", ("design.backend", [])),
        (asking() + "[design]\noptions = 3", ("design.options", 3)),
        (asking() + "[design]\ntol = '1e-6'", ("design.tol", "1e-6")),
        (asking() + "[design]\ntol = true", ("design.tol", True)),
        (asking() + "[design]\ntol = 0", ("design.tol", 0)),
        (asking() + "[design]\ntol = nan", ("design.tol", math.nan)),
        (asking() + "[design]\ntime_limit = inf", ("design.time_limit", float("inf"))),
        (asking() + "[design]\ntime_limit = -2", ("design.time_limit", -2)),
        ("design = 3\n" + asking(), ("design", None)),
        (TEXT.replace("[0, 6]", f"[0, 0x{'f' * 5000}]") + QUERY, ("schema.age.range[1]", int)),
        (
            asking(
                'kind = "linear"\nmatrix = { shape = [1, 24], rows = [0], columns = [0], values = [inf] }'
            ).replace("rows = [0]", f"rows = [{2**70}]"),
            ("query[0].matrix", dict),
        ),
        (f"{TEXT}\n[[query]]\n{'left.' * 3000}kind = 'total'\n", ("query[0].kind", None)),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_refusals_say_where_and_what_must_hold(text: str, refusal: tuple[Any, ...]) -> None:
    with refuses(SpecError, *refusal):
        parse_spec(text)


@pytest.mark.thorough
def test_products_nested_without_end_are_refused() -> None:
    """Dotted keys nest without brackets, so that only our own reading ran out of stack."""

    def nested(depth: int) -> str:
        sides = (f"{'left.' * k}kind = 'product'\n{'left.' * k}right.kind = 'total'\n" for k in range(depth))
        return f"{TEXT}\n[[query]]\n{''.join(sides)}{'left.' * depth}kind = 'total'\n"

    parse_spec(nested(200))
    for depth in (201, 600):
        with refuses(SpecError, "query[0].query", 201):
            parse_spec(nested(depth))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with refuses(SpecError, "path"):
        load_spec(tmp_path / "none.toml")
    with refuses(SpecError, "path"):
        load_spec(tmp_path)
    path = tmp_path / "town.toml"
    path.write_bytes(asking().encode() + b"\n# \xff\n")
    with refuses(SpecError, "path", "town.toml", "specification is"):
        load_spec(path)
    path.write_text("[schema\n")
    with refuses(SpecError, "toml", None, "line 1"):
        load_spec(path)
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with refuses(SpecError, "path", "town.toml", "16,777,216"):
        load_spec(path)


def test_a_device_without_end_is_refused() -> None:
    """Its size is zero, and reading it used to go on until memory was full."""
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")
    with refuses(SpecError, "path", "zero"):
        load_spec("/dev/zero")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_files_as_windows_writes_them(mark: bytes, end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "town.toml"
    path.write_bytes(mark + asking().encode().replace(b"\n", end))
    assert load_spec(str(path)).queries == (Total(),)


# ---------------------------------------------------------------- anything in any place

VALID: dict[str, Any] = {
    "schema": {
        "age": {"range": [0, 6]},
        "sex": ["F", "M"],
        "income": {"bins": [0, 1.5]},
        "region": {"categories": ["a"], "other": "z"},
    },
    "privacy": {
        "epsilon": 1.0,
        "delta": 1e-6,
        "neighbours": "add-remove",
        "records_per_person": 2,
        "person": "id",
    },
    "query": [
        {"kind": "total", "name": "n", "weight": 2.0},
        {"kind": "marginal", "attributes": ["age", "sex"]},
        {"kind": "prefix", "attribute": "age", "stderr": 5.0},
        {"kind": "all-ranges", "attribute": "age", "within": [10, 0.9]},
        {"kind": "ranges", "attribute": "income", "ranges": [[0, 1.5]]},
        {"kind": "ranges", "attribute": "age", "ranges": [[0, 3]], "name": "q"},
        {
            "kind": "product",
            "left": {"kind": "prefix", "attribute": "age"},
            "right": {"kind": "marginal", "attributes": ["sex"]},
        },
        {"kind": "linear", "matrix": [[1] * 24], "labels": ["x"]},
        {"kind": "linear", "matrix": {"shape": [1, 24], "rows": [0], "columns": [5], "values": [2]}},
    ],
    "design": {"method": "auto", "options": {"a": 1}, "tol": 1e-6, "time_limit": 5, "backend": "numpy"},
}

WRONG: list[Any] = [
    *(True, 0, -1, 2**64, 10**400, 16**5000, 0.5, math.nan, math.inf, "", "x", "1/0", "\0\U0001f600"),
    *([], [[]], [1, "x"], [[1, 2], [3]], [16**5000], {}, {"surprise": 1}, {"kind": "total"}),
    *({"range": [0, 2**70]}, {"bins": [0, 16**5000]}, {"shape": [2**70, 24], "rows": [0], "values": [1]}),
    {"shape": [2**70, 24], "rows": [0], "columns": [0], "values": [1]},
    {"shape": [1, 24], "rows": ["x"], "columns": [[0]], "values": {}},
    *(datetime.date(2026, 1, 1), datetime.time(3, 4), [datetime.datetime(2026, 1, 1, 3)]),
]


def as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return hex(value) if value > 0 else str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_toml(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def written(content: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {as_toml(value)}" for key, value in content.items())


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*above, key))


def changed(place: tuple[Any, ...], how: Any) -> str:
    content = copy.deepcopy(VALID)
    at: Any = content
    for key in place[:-1]:
        at = at[key]
    if how == "left out":
        del at[place[-1]]
    elif how == "with one more key":
        at[place[-1]]["surprise"] = 1
    else:
        at[place[-1]] = how
    return written(content)


def survives(text: str) -> bool:
    try:
        parse_spec(text)
    except SpecError as error:
        told = str(error)
    else:
        return True
    assert len(told) < 1000
    return False


# Of a row of a matrix and the like, the first entry is enough.
PLACES = [place for place in places(VALID) if all(key == 0 or isinstance(key, str) for key in place[3:])]


def test_the_specification_to_be_broken_is_whole() -> None:
    assert parse_spec(written(VALID)).workload.shape[1] == 24
    assert len(PLACES) > 50


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_only_our_own_error_comes_out_whatever_is_in_the_file(place: tuple[Any, ...]) -> None:
    accepted = [wrong for wrong in WRONG if survives(changed(place, wrong))]
    # Some are right by chance, a name "x" or a weight of 0.5; what an option may be, only its method knows.
    assert len(accepted) < len(WRONG) / 2 or "options" in place
    survives(changed(place, "left out"))
    at: Any = VALID
    for key in place:
        at = at[key]
    if isinstance(at, dict) and place[-1] not in ("schema", "options", "matrix"):
        assert not survives(changed(place, "with one more key"))


# ---------------------------------------------------------------- lines

LINED = '''# a comment [schema]
[schema]               # line 2
age = { range = [0, 6] }
notes = [
  "[privacy]",         # no header: it stands in a list
  \'\'\'
[[query]]
epsilon = 1
\'\'\', """
sex = \\"""
""", "#",
]
"quoted \\u0041.b" = ["x"]

[privacy]
epsilon = 1.0

[[query]]              # line 18
kind = "total"
[[query]]
kind = "product"
left.kind = "prefix"
left.attribute = "age"
[query.right]
kind = "marginal"
attributes = ["notes"]
name = """
[design]
tol = 1
"""
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("schema",), 2),
        (("schema", "age"), 3),
        (("schema", "age", "range", 1), 3),
        (("schema", "notes"), 4),
        (("schema", "quoted A.b"), 13),
        (("schema", "absent"), 2),
        (("privacy",), 15),
        (("privacy", "epsilon"), 16),
        (("query", 0), 18),
        (("query", 0, "kind"), 19),
        (("query", 1), 20),
        (("query", 1, "left"), 22),
        (("query", 1, "left", "attribute"), 23),
        (("query", 1, "right"), 24),
        (("query", 1, "right", "kind"), 25),
        (("design",), None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_tables_and_keys(place: tuple[str | int, ...], line: int | None, end: str) -> None:
    text = LINED.replace("\n", end)
    assert tomllib.loads(text)["query"][1]["right"]["attributes"] == ["notes"]
    assert Lines(text).of(*place) == line


@pytest.mark.thorough
@examples
@given(specs())
def test_a_key_is_not_there_before_its_line(spec: Spec) -> None:
    """A second route: without its line and what follows, the text is still TOML and does not hold the key."""
    text = spec.to_toml()
    lines, found = text.split("\n"), Lines(text)
    places: list[tuple[Any, ...]] = [("schema", name) for name in spec.schema]
    places += [("query", number) for number in range(len(spec.queries))] + [("privacy",), ("design",)]
    for place in places:
        line = found.of(*place)
        if place == ("design",) and not spec.design:
            assert line is None
            continue
        assert line is not None
        before = tomllib.loads("\n".join(lines[: line - 1]))
        until = tomllib.loads("\n".join(lines[:line]))
        for content, is_there in ((before, False), (until, True)):
            at: Any = content
            for key in place:
                is_inside = key < len(at) if isinstance(at, list) else key in at
                at = at[key] if is_inside else {}
            assert is_inside == is_there


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (asking('kind = "total"', 'kind = "tottal"'), ("query[1].kind", "tottal", "line 14")),
        (TEXT.replace("[0, 1.5, 9]", "[0, 9, 1.5]") + QUERY, ("schema.income.edges", (9, 1.5), "line 5")),
        (TEXT.replace("1e-6", "2") + QUERY, ("privacy.delta", 2, "line 9")),
        (TEXT.replace("delta", "dleta") + QUERY, ("privacy", ["dleta", "epsilon"], "line 7")),
        (asking() + "\n[design]\nmethod = 'dense'\ntol = 0\n", ("design.tol", 0, "line 16")),
        (asking() + "\n[extra]\nx = 1\n", ("extra", None, "line 14")),
        (asking('kind = "total"\nname = "x"', 'kind = "total"\nname = "x"'), ("query[1]", "x", "line 15")),
        ("a = 1\n\nb = = 2", ("toml", None, "line 3")),
        ("", ("schema", None)),
        (TEXT.replace("[0, 6]", f"[0, 0x{'f' * 5000}]") + QUERY, ("schema.age.range[1]", int, "line 3")),
    ],
)
def test_refusals_name_the_line(text: str, refusal: tuple[Any, ...], tmp_path: Path) -> None:
    with refuses(SpecError, *refusal) as refused:
        parse_spec(text)
    (tmp_path / "town.toml").write_text(text, encoding="utf-8")
    with refuses(SpecError, *refusal[:2]) as in_file:
        load_spec(tmp_path / "town.toml")
    message = str(refused.value)
    is_placed = message.startswith("line ")
    where = f"town.toml:{message.removeprefix('line ')}" if is_placed else f"town.toml: {message}"
    assert str(in_file.value) == where


def test_places_to_be_filled_in_are_named() -> None:
    text = TEXT.replace('["F", "M"]', f'["{FILL_IN}"]').replace("[0, 6]", f'["{FILL_IN}", "{FILL_IN}"]')
    with refuses(SpecError, "schema.age.range[0]", "<fill in>", "line 3"):
        parse_spec(text + QUERY)
    with refuses(SpecError, "schema.sex[0]", "<fill in>", "line 4"):
        parse_spec(text.replace(f'["{FILL_IN}", "{FILL_IN}"]', "[0, 6]") + QUERY)
    # Categories that merely look like a question are categories.
    assert parse_spec(TEXT.replace('"M"', '"?"') + QUERY).schema["sex"] == Categories(["F", "?"])


# ---------------------------------------------------------------- SQL


def test_a_query_may_be_written_in_sql() -> None:
    sql = "sql = 'SELECT sex, COUNT(*) AS n FROM people WHERE age < 3 GROUP BY sex'"
    (query,) = parse_spec(asking(sql)).queries
    assert query == (Where("age < 3") * Marginal("sex")).having(name="n")
    (query,) = parse_spec(asking(f"{sql}\nname = 'children'\nweight = 2\nwithin = [100, 0.95]")).queries
    assert (query.name, query.weight, query.within) == ("children", 2.0, (100.0, 0.95))
    spec = parse_spec(NO_GOAL + f"[[query]]\n{sql}\nstderr = 5\n")
    assert spec.privacy is None and spec.workload.has_targets
    assert parse_spec(spec.to_toml()).queries == spec.queries


def test_one_sql_text_may_ask_several_queries() -> None:
    sql = '''sql = """
    SELECT COUNT(*) AS everyone, COUNT(*) FILTER (WHERE sex = 'F') AS women FROM people;
    SELECT age, COUNT(*) FROM people GROUP BY age
    """
    stderr = 4'''
    queries = parse_spec(asking(sql)).queries
    assert queries == (
        Total(name="everyone", stderr=4),
        Where("sex == 'F'", name="women", stderr=4),
        Marginal("age", stderr=4),
    )
    named = parse_spec(asking(f"{sql}\nname = 'town'")).queries
    assert [query.name for query in named] == ["town: everyone", "town: women", "town: age"]


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("sql = 'SELECT MAX(age) FROM t'", ("query[0].sql", "age", "line 11", "line 1, column 12")),
        ("sql = 3", ("query[0].sql", int)),
        ("sql = 'SELECT COUNT(*) FROM t'\nkind = 'total'", ("query[0].sql", ["kind"])),
        ("sql = 'SELECT COUNT(*) FROM t'\nstderr = -1", ("query[0].stderr", -1)),
        ("sql = 'SELECT COUNT(*), SUM(age) FROM t'\nname = ''", ("query[0].name", "")),
        ("sql = 'SELECT COUNT(*) FROM t'\nnmae = 'x'", ("query[0].sql", ["nmae"])),
    ],
)
def test_refused_sql_names_the_query(query: str, refusal: tuple[Any, ...]) -> None:
    with refuses(SpecError, *refusal):
        parse_spec(asking(query))


def test_a_finder_of_lines_that_reads_strings_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin takes what stands in a string for a header."""
    monkeypatch.setattr(leastnoise.app.specification.toml_text, "_HIDING", re.compile(r"#[^\n]*"))
    monkeypatch.setattr(leastnoise.app.specification.toml_text, "_PLAIN", re.compile(r"[^#\[\]{}\n]+"))
    assert Lines(LINED).of("design") == 28
