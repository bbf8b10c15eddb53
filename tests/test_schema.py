"""Schemas: values, positions, edges, and what is refused."""

from __future__ import annotations

import copy
import itertools
import json
import math
import operator
import pickle
import re
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.core.errors import InputError, QueryError, SchemaError, TooLargeError
from leastnoise.query import Attribute, Bins, Categories, Hierarchy, Integers, Schema
from support import extra, refuses

examples = settings(deadline=None, derandomize=True)

ranges = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(-20, 20),
    st.integers(1, 6),
    st.integers(1, 4),
)
texts = st.lists(st.text(max_size=4), min_size=1, max_size=5, unique=True)
wholes = st.lists(st.integers(), min_size=1, max_size=5, unique=True)
edges = st.lists(
    st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False)),
    min_size=2,
    max_size=6,
    unique=True,
).map(sorted)
POLICIES: list[dict[str, str]] = [
    {},
    {"outside": "clamp"},
    {"other": "else"},
    {"outside": "clamp", "null": "other", "other": "else"},
    {"outside": "drop", "null": "other", "other": "else"},
    {"outside": "other", "null": "other", "other": "else"},
]
attributes = st.one_of(
    ranges,
    st.one_of(texts, wholes).map(tuple),
    st.builds(Bins, edges),
    texts.filter(lambda values: "else" not in values).map(lambda values: Categories(values, other="else")),
    st.builds(lambda values, policy: Integers(values, **policy), ranges, st.sampled_from(POLICIES)),
    st.builds(lambda given, policy: Bins(given, **policy), edges, st.sampled_from(POLICIES)),
    edges.map(lambda given: Bins([-math.inf, *given, math.inf], other="else")),
    texts.filter(lambda values: "else" not in values).map(
        lambda values: Hierarchy({"r": values}, other="else", null="other", outside="drop")
    ),
)
names = st.text(min_size=1, max_size=5)
schemas = st.dictionaries(names, attributes, min_size=1, max_size=4).map(lambda given: Schema(**given))

# ---------------------------------------------------------------- sizes and cells


def test_cells_are_the_combinations_of_values() -> None:
    schema = Schema(age=range(116), sex=("F", "M"), income=Bins([0, 10, 50, 100]))
    assert schema.names == ("age", "sex", "income")
    assert schema.shape == (116, 2, 3)
    assert schema.n_cells == 116 * 2 * 3
    assert list(schema) == ["age", "sex", "income"]
    assert "sex" in schema
    assert "height" not in schema
    assert schema["sex"] == Categories(("F", "M"))


def test_one_cell_is_a_schema() -> None:
    schema = Schema(only=("a",))
    assert schema.n_cells == 1
    assert repr(schema) == "Schema(only: a; 1 cells)"


def test_cells_beyond_sixty_four_bits_are_counted_exactly() -> None:
    schema = Schema(**{f"a{i}": range(10) for i in range(40)})
    assert schema.n_cells == 10**40
    assert "1.00e40 cells" in repr(schema)


def test_an_attribute_may_have_any_name() -> None:
    """An attribute called self used to collide with the constructor's own argument."""
    schema = Schema(**{"self": range(2), "two words": ("a",), "class": ("b",)})
    assert schema.names == ("self", "two words", "class")
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_schema_prints_its_values() -> None:
    schema = Schema(age=range(116), sex=("F", "M"), income=Bins([0, 10_000, 50_000.5]))
    assert repr(schema) == "Schema(age: 0–115; sex: F, M; income: [0, 50,000.5); 464 cells)"


# ---------------------------------------------------------------- whole numbers


@examples
@given(ranges, st.integers(-30, 60))
def test_a_whole_number_is_found_by_looking_at_all(values: range, value: int) -> None:
    attribute = Integers(values)
    expected = next((i for i, v in enumerate(values) if v == value), None)
    for spelled in (value, float(value), np.int64(value), np.float32(value), Fraction(value)):
        assert attribute.position(spelled) == expected  # type: ignore[arg-type]
    assert attribute.size == len(list(values))


@examples
@given(ranges, st.integers(-30, 60), st.integers(-30, 60))
def test_a_span_holds_the_values_between_its_ends(values: range, low: int, high: int) -> None:
    between = [i for i, v in enumerate(values) if low <= v <= high]
    assert Integers(values).span(low, high) == ((between[0], between[-1]) if between else None)


def test_a_span_may_be_open_or_fall_between_values() -> None:
    attribute = Integers(range(0, 100, 10))
    assert attribute.span(-math.inf, math.inf) == (0, 9)
    assert attribute.span(5, math.inf) == (1, 9)
    assert attribute.span(11, 19) is None
    assert attribute.span(9.5, 30.5) == (1, 3)


NOT_NUMBERS = ["abc", "5", "nan", "", None, True, False, math.nan, np.nan, [5], b"5", 5j]


@pytest.mark.parametrize("value", [*NOT_NUMBERS, math.inf, -math.inf, 5.5, 10**400, -1, 10], ids=repr)
def test_what_is_not_declared_has_no_position_among_whole_numbers(value: Any) -> None:
    """Text used to end in a ValueError that named the value, a huge number in an OverflowError."""
    assert Integers(range(10)).position(value) is None


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_a_span_needs_numbers_for_ends(value: Any) -> None:
    """Not-a-number used to span every value, because it compares with none."""
    assert Integers(range(10)).span(value, 5) is None
    assert Integers(range(10)).span(0, value) is None
    assert Bins([0, 5, 10]).span(value, 5) is None or value is False
    assert Bins([0, 5, 10]).position(value) is None


def test_labels_of_whole_numbers() -> None:
    attribute = Integers(range(-5, 20, 5))
    assert [attribute.label(i) for i in range(attribute.size)] == ["-5", "0", "5", "10", "15"]
    assert attribute.span_label(0, 0) == "-5"
    assert attribute.span_label(1, 3) == "0–10"


def test_equal_ranges_are_written_alike() -> None:
    for first, second in ((range(0, 5, 2), range(0, 6, 2)), (range(3, 4), range(3, 9, 50))):
        assert Schema(a=first) == Schema(a=second)
        assert Schema(a=first).to_dict() == Schema(a=second).to_dict()


def test_the_largest_range() -> None:
    assert Schema(a=range(sys.maxsize)).n_cells == sys.maxsize
    with refuses(SchemaError, "a.range", range(0, 1000000000000000000000000000000)):
        Schema(a=range(10**30))
    far = Integers(range(10**30, 10**30 + 3))
    assert far.position(10**30 + 1) == 1
    assert far.label(2) == str(10**30 + 2)


# ---------------------------------------------------------------- categories


@examples
@given(st.one_of(texts, wholes), st.one_of(st.text(max_size=4), st.integers()))
def test_a_category_is_found_by_looking_at_all(values: list[Any], value: Any) -> None:
    attribute = Categories(values)
    assert attribute.position(value) == next((i for i, v in enumerate(values) if v == value), None)
    for i, v in enumerate(values):
        assert attribute.position(v) == i
        assert attribute.label(i) == str(v)


def test_categories_are_never_normalised() -> None:
    attribute = Categories(["a", "a ", "A", "ａ", "é", "e\u0301"])
    assert attribute.size == 6
    assert [attribute.position(v) for v in attribute.values] == list(range(6))
    assert attribute.position(" a") is None


def test_the_other_category_has_a_cell_of_its_own() -> None:
    attribute = Categories(("F", "M"), other="X")
    assert attribute.size == 3
    assert attribute.label(2) == "X"
    assert attribute.position("X") == 2
    assert attribute.position("Z") is None
    assert attribute.span("M", "X") == (1, 2)
    assert attribute.span_label(0, 2) == "F to X"
    assert attribute != Categories(("F", "M", "X"))


def test_a_span_of_categories_runs_in_declared_order() -> None:
    attribute = Categories(("low", "middle", "high"))
    for first, last in itertools.product(range(3), repeat=2):
        expected = (first, last) if first <= last else None
        assert attribute.span(attribute.values[first], attribute.values[last]) == expected
    assert attribute.span("low", "none") is None
    assert attribute.span_label(1, 1) == "middle"


def test_a_truth_value_is_no_whole_number() -> None:
    assert Categories((0, 1)).position(True) is None
    assert Categories((0, 1)).position(1) == 1


def test_numpy_categories_become_plain() -> None:
    attribute = Categories([np.int64(3), np.int32(5)])  # type: ignore[list-item]
    assert attribute == Categories((3, 5))
    assert [type(value) for value in attribute.values] == [int, int]
    assert [type(value) for value in Categories([np.str_("a")]).values] == [str]
    assert json.loads(json.dumps(attribute.to_dict())) == {"categories": [3, 5]}


# ---------------------------------------------------------------- bins


@pytest.mark.thorough
@examples
@given(edges, st.one_of(st.integers(-(10**20), 10**20), st.floats()))
def test_a_number_falls_in_the_interval_that_holds_it(given_edges: list[float], value: float) -> None:
    attribute = Bins(given_edges)
    pairs = list(itertools.pairwise(given_edges))
    expected = next((i for i, (low, high) in enumerate(pairs) if low <= value < high), None)
    assert attribute.position(value) == expected


@examples
@given(edges)
def test_an_edge_belongs_to_the_interval_above_it(given_edges: list[float]) -> None:
    attribute = Bins(given_edges)
    for i, edge in enumerate(given_edges[:-1]):
        assert attribute.position(edge) == i
    assert attribute.position(given_edges[-1]) is None


@pytest.mark.parametrize("edge", [1.0, 0.1, 1e-300, 1e300, -7.25])
def test_the_float_before_an_edge_belongs_below(edge: float) -> None:
    attribute = Bins([edge - abs(edge), edge, edge + abs(edge)])
    assert attribute.position(math.nextafter(edge, -math.inf)) == 0
    assert attribute.position(edge) == 1
    assert attribute.position(math.nextafter(edge, math.inf)) == 1
    assert attribute.position(math.nextafter(edge + abs(edge), -math.inf)) == 1
    assert attribute.position(edge + abs(edge)) is None
    assert attribute.position(math.nextafter(edge - abs(edge), -math.inf)) is None


def test_huge_whole_numbers_are_not_rounded_into_another_bin() -> None:
    """2^53 + 1 has no float; it used to be counted one bin too low."""
    attribute = Bins([2**53, 2**53 + 1, 2**53 + 2])
    assert [attribute.position(2**53 + i) for i in (-1, 0, 1, 2)] == [None, 0, 1, None]
    assert Bins([0, 10**400]).position(10**399) == 0
    assert Bins([0, 1.5]).position(10**400) is None


def test_a_span_of_bins_needs_two_edges() -> None:
    attribute = Bins([0, 10, 20.5, 40])
    points = [0, 5, 10, 20.5, 40]
    for low, high in itertools.product(points, repeat=2):
        ok = low in attribute.edges and high in attribute.edges and low < high
        expected = (attribute.edges.index(low), attribute.edges.index(high) - 1) if ok else None
        assert attribute.span(low, high) == expected


def test_labels_of_bins() -> None:
    attribute = Bins([0, 10_000, 50_000.5, 1e20])
    assert [attribute.label(i) for i in range(3)] == [
        "[0, 10,000)",
        "[10,000, 50,000.5)",
        "[50,000.5, 1e+20)",
    ]
    assert attribute.span_label(0, 1) == "[0, 50,000.5)"


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ([17, 25, 85], ["17–24", "25–84"]),
        ([0, 10_000, 50_000.0], ["0–9,999", "10,000–49,999"]),
        ([-math.inf, 0, 65, math.inf], ["below 0", "0–64", "65 or more"]),
        ([-10, -5, 0], ["-10–-6", "-5–-1"]),
        ([0, 1, 5], ["[0, 1)", "[1, 5)"]),
        ([0, 0.5, 10], ["[0, 0.5)", "[0.5, 10)"]),
        ([0, 10, 1e20], ["[0, 10)", "[10, 1e+20)"]),
    ],
)
def test_bins_of_whole_numbers_name_the_numbers_inside(edges: list[float], labels: list[str]) -> None:
    """They were written half-open, and a bin from 0 to 1 must not read as 0 alone."""
    bins = Bins(edges)
    assert [bins.label(i) for i in range(bins.size)] == labels
    wholes = [re.fullmatch(r"(-?[\d,]+)–(-?[\d,]+)", label) for label in labels]
    for i, found in enumerate(wholes):
        if found is not None:
            low, high = (int(end.replace(",", "")) for end in found.groups())
            inside = [v for v in (low - 1, low, high, high + 1) if bins.position(v) == i]
            assert inside == [low, high]


def test_equal_bins_are_written_alike() -> None:
    whole, floats, arrays = Bins([0, 1, 2]), Bins([0.0, 1.0, 2.0]), Bins(np.arange(3))  # type: ignore[arg-type]
    assert whole == floats == arrays
    assert hash(whole) == hash(floats) == hash(arrays)
    assert json.dumps(whole.to_dict()) == json.dumps(floats.to_dict()) == json.dumps(arrays.to_dict())
    assert repr(whole) == repr(floats) == repr(arrays)
    assert Bins(np.linspace(0, 1, 3)).edges == (0, 0.5, 1)  # type: ignore[arg-type]


def test_open_ends_hold_everything_beyond() -> None:
    attribute = Bins([-math.inf, 10, 80, math.inf], other="not said")
    assert [attribute.label(i) for i in range(4)] == ["below 10", "10–79", "80 or more", "not said"]
    assert [attribute.position(v) for v in (-math.inf, -1e308, 10, 80, 10**400, math.inf)] == [
        0,
        0,
        1,
        2,
        2,
        2,
    ]
    assert attribute.span_label(0, 1) == "below 80" and attribute.span_label(1, 2) == "10 or more"
    assert attribute.span_label(0, 2) == attribute.prefix_label(2) == "any number"
    assert attribute.span_label(1, 3) == "10 or more or not said"
    assert attribute.prefix_label(1) == "below 80" and attribute.prefix_label(3) == "any number or not said"
    assert Bins([0, 5, math.inf]).prefix_label(1) == "0 or more"
    assert attribute.span(-math.inf, 80) == (0, 1) and attribute.span(10, math.inf) == (1, 2)
    assert Bins([0, 1]).position(math.inf) is None


# ---------------------------------------------------------------- policies


def test_every_kind_takes_the_same_policies() -> None:
    made: list[Attribute] = []
    for policies in POLICIES:
        made += [Integers(range(3), **policies), Bins([0, 1, 2, 3], **policies)]
        if policies.get("outside") != "clamp":
            made += [Categories(("a", "b", "c"), **policies), Hierarchy({"r": ["a", "b", "c"]}, **policies)]
    for attribute in made:
        assert attribute.n_values == 3
        assert attribute.size == 3 + (attribute.other is not None)
        if attribute.other is not None:
            assert attribute.label(3) == "else" and attribute.position("else") == 3
        assert "else" in attribute.span_label(0, attribute.size - 1) or attribute.other is None
        assert "else" in attribute.prefix_label(attribute.size - 1) or attribute.other is None
        assert attribute.place(None) == (3 if attribute.null == "other" else None)
        assert eval(repr(attribute)) == attribute
    assert repr(Integers(range(3), outside="clamp")) == "Integers(range(0, 3), outside='clamp')"
    assert Integers(range(3)) == Schema(a=range(3))["a"]
    assert Integers(range(3), other="x").span_label(0, 3) == "0–2 or x"
    assert Integers(range(3), other="x").prefix_label(3) == "up to 2 or x"


RAW: list[Any] = [
    *(0, 1, 2, 3, -1, 7, 10**400, -(10**400), 1.0, 1.5, -0.5, math.inf, -math.inf, 1e300),
    *("1", "1.0", "1.", "+1", "1e0", "10e-1", "-1", "9" * 5000, "1e999", "1.5", ".5", "inf", "-Infinity"),
    *(
        " 1",
        "1 ",
        "x",
        "",
        "nan",
        "0x1",
        "1_0",
        True,
        False,
        np.int64(1),
        np.float32(2),
        np.True_,
        Fraction(3),
    ),
]
NUMBER_OF = {"+1": 1, "10e-1": 1, "9" * 5000: 10**400, "inf": math.inf, "-Infinity": -math.inf, "1.": 1}


def number_of(value: Any) -> float | None:
    """What a raw value stands for, decided by hand where float() would also take what the engine does not."""
    if isinstance(value, (bool, np.bool_)) or value in (" 1", "1 ", "x", "", "nan", "0x1", "1_0"):
        return None
    return NUMBER_OF.get(value, float(value)) if isinstance(value, str) else value


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@pytest.mark.parametrize("value", RAW, ids=lambda value: f"{value!r:.20}")
def test_a_raw_value_is_placed_by_policy(value: Any, policies: dict[str, str]) -> None:
    number = number_of(value)
    rest = 3 if policies.get("outside", "other" if "other" in policies else "drop") == "other" else None
    is_whole = number is not None and abs(number) < math.inf and number == int(number)
    expected = int(number) if is_whole and 0 <= number <= 2 else rest  # type: ignore[arg-type,operator]
    if is_whole and policies.get("outside") == "clamp":
        expected = min(max(int(number), 0), 2)  # type: ignore[arg-type]
    assert Integers(range(3), **policies).place(value) == expected
    expected = math.floor(number) if number is not None and 0 <= number < 3 else rest
    if number is not None and policies.get("outside") == "clamp":
        expected = 0 if number < 0 else 2 if number >= 3 else math.floor(number)
    assert Bins([0, 1, 2, 3], **policies).place(value) == expected


def test_text_is_placed_as_written() -> None:
    attribute = Categories(["1", "1.0", "true"], other="x")
    assert [attribute.place(v) for v in (1, "1", 1.0, "1.00", True, "True", "x")] == [0, 0, 0, 3, 2, 3, 3]
    assert Categories(["F"], "x", outside="drop", null="other").place("x") is None
    assert Categories([3, 1]).place("1.0") == 1
    pandas = extra("pandas")
    for null in (None, math.nan, np.nan, pandas.NA, pandas.NaT):
        assert attribute.place(null) is None
        assert Categories(["F"], "x", null="other").place(null) == 1


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Integers(range(3), outside="ignore"), ("outside", "ignore")),
        (lambda: Integers(range(3), null="clamp"), ("null", "clamp")),
        (lambda: Categories(("F",), outside="clamp"), ("outside", "clamp")),
        (lambda: Hierarchy({"r": ["F"]}, outside="clamp"), ("outside", "clamp")),
        (lambda: Bins([0, 1], outside="other"), ("other", None)),
        (lambda: Bins([0, 1], null="other"), ("other", None)),
        (lambda: Bins([0, 1], other="[0, 1)"), ("other", "[0, 1)")),
        (lambda: Integers(range(3), other="2"), ("other", "2")),
        (lambda: Categories((1, 2), other="2"), ("other", "2")),
        (lambda: Integers(range(3), other="x", outside="drop"), ("other", "x")),
        (lambda: Integers(range(3), other="x", outside="clamp"), ("other", "x")),
        (lambda: Integers([1, 2]), ("range", list)),
        (lambda: Integers(range(sys.maxsize), other="x"), ("range", range(0, 9223372036854775807))),
    ],
)
def test_policies_are_refused(make: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        make()
    assert Integers(range(3), other="3").size == 4


# ---------------------------------------------------------------- comparisons

COMPARE: dict[str, Any] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@examples
@given(
    ranges,
    wholes,
    st.integers(-30, 60) | st.floats(allow_nan=False) | st.fractions(),
    st.sampled_from(sorted(COMPARE)),
    st.sampled_from([None, "else"]),
)
def test_numbers_are_compared_one_by_one(
    values: range, listed: list[int], value: Any, sign: str, other: str | None
) -> None:
    rest = [] if other is None else [sign == "!="]
    found = Integers(values, other=other).matching("a", sign, value)
    assert found.dtype == bool
    assert found.tolist() == [COMPARE[sign](v, value) for v in values] + rest
    assert Integers(values, other=other).numbers() == list(values)
    assert Categories(listed, other=other).numbers() == listed
    if sign in ("==", "!="):
        value = listed[-1]
    found = Categories(listed, other=other).matching("a", sign, value)
    assert found.tolist() == [COMPARE[sign](v, value) for v in listed] + rest


@examples
@given(edges, st.sampled_from(["<", ">="]), st.sampled_from([None, "else"]), st.booleans())
def test_bins_are_compared_at_their_edges(
    given_edges: list[float], sign: str, other: str | None, is_open: bool
) -> None:
    given_edges = [-math.inf, *given_edges, math.inf] if is_open else given_edges
    attribute = Bins(given_edges, other=other)
    beyond = [] if is_open else [given_edges[0] - 1, given_edges[-1] + 1, math.inf, -math.inf]
    for value in [*given_edges, *beyond]:
        expected = [COMPARE[sign](low, value) for low in given_edges[:-1]] + [False] * (other is not None)
        assert attribute.matching("a", sign, value).tolist() == expected
    assert attribute.numbers() is None


@pytest.mark.parametrize(
    "attribute",
    [Integers(range(2), other="else"), Bins([0, 1, 2], other="else"), Categories(("a", "b"), other="else")],
    ids=repr,
)
def test_the_other_cell_equals_its_label_only(attribute: Attribute) -> None:
    assert attribute.matching("a", "==", "else").tolist() == [False, False, True]
    assert attribute.matching("a", "!=", "else").tolist() == [True, True, False]
    with pytest.raises(QueryError):
        attribute.matching("a", ">=", "else")


def test_names_are_compared_by_equality() -> None:
    attribute = Categories(("F", "M"), other="X")
    assert attribute.matching("sex", "==", "F").tolist() == [True, False, False]
    assert attribute.matching("sex", "!=", np.str_("F")).tolist() == [False, True, True]
    assert attribute.numbers() is None


@pytest.mark.parametrize(
    ("attribute", "sign", "value", "refusal"),
    [
        (Integers(range(3)), ">=", "18", ("a", "18")),
        (Integers(range(3), other="x"), "==", "y", ("a", "y")),
        (Integers(range(3)), "==", True, ("a", True)),
        (Integers(range(3)), "==", math.nan, ("a", math.nan)),
        (Integers(range(3)), "=", 1, ("condition", "=")),
        (Categories(("F", "M")), "==", "f", ("a", "f")),
        (Categories(("F", "M")), "<", "F", ("a", "<")),
        (Categories((1, 2)), "==", 3, ("a", 3)),
        (Categories((1, 2)), "==", "1", ("a", "1", "values,")),
        (Categories((1, 2)), "<", "1", ("a", "1", "number")),
        (Categories(list(range(50))), "==", 99, ("a", 99)),
        (Bins([0, 10, 20]), ">", 10, ("a", ">")),
        (Bins([0, 10, 20]), "==", 10, ("a", "==")),
        (Bins([0, 10, 20]), ">=", 5, ("a", 5)),
        (Bins([-math.inf, 10, math.inf]), "<", 5, ("a", 5)),
        (Bins([0, 10]), "<", "10", ("a", "10")),
        (Bins(range(99)), "<", 5.5, ("a", 5.5)),
    ],
)
def test_comparisons_are_refused(
    attribute: Attribute, sign: str, value: Any, refusal: tuple[Any, ...]
) -> None:
    with refuses(QueryError, *refusal):
        attribute.matching("a", sign, value)


def test_a_range_too_long_to_list_is_refused() -> None:
    with refuses(TooLargeError, "a", 1000000000000):
        Integers(range(10**12)).matching("a", "<", 5)
    with pytest.raises(TooLargeError):
        Integers(range(10**12)).numbers()


# ---------------------------------------------------------------- values that do not change


@examples
@given(schemas)
def test_a_schema_survives_being_written(schema: Schema) -> None:
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.names == schema.names
    assert again.to_dict() == schema.to_dict()
    assert repr(again) == repr(schema)


@pytest.mark.thorough
@examples
@given(schemas, schemas)
def test_schemas_are_equal_when_written_alike(first: Schema, second: Schema) -> None:
    assert (first == second) == (json.dumps(first.to_dict()) == json.dumps(second.to_dict()))


def test_the_order_of_attributes_and_values_matters() -> None:
    schema = Schema(a=range(2), b=("x", "y"))
    assert schema != Schema(b=("x", "y"), a=range(2))
    assert schema != Schema(a=range(2), b=("y", "x"))
    assert schema != Schema(a=range(2))
    assert schema != Schema(a=(0, 1), b=("x", "y"))
    assert schema != "schema"
    assert schema == Schema(a=range(2), b=["x", "y"])
    assert len({schema, Schema(a=range(2), b=["x", "y"])}) == 1


def test_a_schema_does_not_change() -> None:
    schema = Schema(a=range(2))
    for attempt in (
        lambda: setattr(schema, "names", ()),
        lambda: setattr(schema, "_attributes", {}),
        lambda: setattr(schema, "b", range(3)),
        lambda: delattr(schema, "_attributes"),
    ):
        with pytest.raises(AttributeError, match="a schema cannot be changed; make another"):
            attempt()
    for attribute in (schema["a"], Categories(("x",)), Bins([0, 1])):
        with pytest.raises(AttributeError, match="cannot assign to field"):
            attribute.values = ()  # type: ignore[misc, union-attr]
    values = ["x", "y"]
    listed = Schema(a=values)
    values.append("z")
    assert listed.shape == (2,)


def test_a_schema_can_be_copied() -> None:
    schema = Schema(a=range(2), b=Bins([0, 1.5]), c=Categories(("x",), other="y"))
    for again in (copy.copy(schema), copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):
        assert again == schema


def test_a_specification_may_be_short() -> None:
    written = {"sex": ["F", "M"], "age": {"range": [3]}, "year": {"range": [2000, 2003]}}
    assert Schema.from_dict(written) == Schema(sex=("F", "M"), age=range(3), year=range(2000, 2003))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("declared", "refusal"),
    [
        (("F", "M", "F"), ("a.categories", "F")),
        ((1, 2, 1), ("a.categories", 1)),
        ((), ("a.categories", [])),
        ([], ("a.categories", [])),
        (("F", 1), ("a.categories", ["int", "str"])),
        ((1.5, 2.5), ("a.categories", ["float"])),
        ((True, False), ("a.categories", ["bool"])),
        ((None, "a"), ("a.categories", ["NoneType", "str"])),
        (([1], [2]), ("a.categories", ["list"])),
        (range(0), ("a.range", range(0, 0))),
        (range(5, 0, -1), ("a.range", range(5, 0, -1))),
        (range(0, 5, -1), ("a.range", range(0, 5, -1))),
    ],
)
def test_a_list_of_values_is_refused(declared: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        Schema(a=declared)


@pytest.mark.parametrize(
    "declared",
    ["FM", b"FM", {"F", "M"}, {"F": 1}, 5, None, str, object(), np.array(["F", "M"])],
    ids=type,
)
def test_only_written_out_values_declare_an_attribute(declared: Any) -> None:
    with refuses(SchemaError, "sex", type(declared)) as caught:
        Schema(sex=declared)
    assert "never read from the table" in str(caught.value)
    assert "Schema(sex=range(116)) or Schema(sex=('F', 'M'))" in str(caught.value)


def test_a_column_of_the_table_is_no_declaration() -> None:
    column = extra("pandas").Series(["F", "M", "secret"])
    with refuses(SchemaError, "sex") as caught:
        Schema(sex=column)
    assert "secret" not in str(caught.value)
    with refuses(SchemaError, "categories") as caught:
        Categories(column)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("values", ["FM", b"FM", 5, frozenset({"F"}), np.array(["F"])], ids=repr)
def test_categories_are_written_out_in_a_list(values: Any) -> None:
    """Categories("FM") used to mean F and M."""
    with refuses(SchemaError, "categories", type(values)):
        Categories(values)


@pytest.mark.parametrize("other", ["F", 5, True, ["x"]], ids=repr)
def test_the_other_category_needs_a_name_of_its_own(other: Any) -> None:
    with refuses(SchemaError, "other"):
        Categories(("F", "M"), other=other)


@pytest.mark.parametrize(
    ("given_edges", "refusal"),
    [
        ([0], ("edges", [0])),
        ([], ("edges", [])),
        ([0, 2, 1], ("edges", (2, 1))),
        ([0, 1, 1], ("edges", (1, 1))),
        ([0, 1.0, 1], ("edges", (1, 1))),
        ([0.0, -0.0], ("edges", (0, 0))),
        ([2**53, 2.0**53], ("edges", (9007199254740992, 9007199254740992))),
        ([0, math.nan], ("edges", math.nan)),
        ([math.nan, math.nan, 1], ("edges", math.nan)),
        ([0, -math.inf], ("edges", float("-inf"))),
        ([np.float64("inf"), 0], ("edges", float("inf"))),
        ([-math.inf, -math.inf], ("edges", float("-inf"))),
        ([False, True], ("edges", False)),
        ([0, "1"], ("edges", "1")),
        ([0, None], ("edges", None)),
        ([0, 1j], ("edges", 1j)),
        ("01", ("edges", str)),
        (5, ("edges", int)),
    ],
)
def test_edges_are_refused(given_edges: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        Bins(given_edges)


@pytest.mark.parametrize(
    ("written", "refusal"),
    [
        ({}, ("schema", {})),
        ({"a": "FM"}, ("a", str)),
        ({"a": 5}, ("a", int)),
        ({"a": {}}, ("a", [])),
        ({"a": {"bin": [0, 1]}}, ("a", ["bin"])),
        ({"a": {"bins": [0, 1], "others": "x"}}, ("a", ["bins", "others"])),
        ({"a": {"other": "x"}}, ("a", ["other"])),
        ({"a": {"hierarchy": "x"}}, ("a", ["hierarchy"])),
        ({"a": {"hierarchy": {"x": []}}}, ("a.x", [])),
        ({"a": {"range": [3], "outside": "other"}}, ("a.other", None)),
        ({"a": {"bins": [0, 1], "other": 5}}, ("a.other", 5)),
        ({"a": {"range": [0, 1], "bins": [0, 1]}}, ("a", ["bins", "range"])),
        ({"a": {"range": 5}}, ("a", ["range"])),
        ({"a": {"categories": "FM"}}, ("a", ["categories"])),
        ({"a": {"range": []}}, ("a.range", [])),
        ({"a": {"range": [0, 1, 1, 1]}}, ("a.range", [0, 1, 1, 1])),
        ({"a": {"range": [0.0, 5.0]}}, ("a.range", [0.0, 5.0])),
        ({"a": {"range": [False, True]}}, ("a.range", [False, True])),
        ({"a": {"range": [0, 5, 0]}}, ("a.range", [0, 5, 0])),
        ({"a": {"range": [5, 0]}}, ("a.range", range(5, 0))),
        ({"a": {"bins": [1, 0]}}, ("a.edges", (1, 0))),
        ({"a": {"categories": ["x", 1]}}, ("a.categories", ["int", "str"])),
        ({"a": {"categories": ["x"], "other": "x"}}, ("a.other", "x")),
        ({"a": ["x", "x"]}, ("a.categories", "x")),
    ],
)
def test_a_specification_is_refused(written: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        Schema.from_dict(written)


def test_an_unknown_attribute_is_named_with_the_known_ones() -> None:
    with refuses(SchemaError, "attribute", "height"):
        Schema(age=range(3), sex=("F",))["height"]
    with pytest.raises(InputError):
        Schema()


@pytest.mark.parametrize("name", [0, None, ("a",), b"a"])
def test_files_name_attributes_by_texts(name: Any) -> None:
    with refuses(SchemaError, "schema", name):
        Schema.from_dict({name: None})
