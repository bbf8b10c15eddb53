"""Hierarchies: leaves, levels, and the tables they are made from."""

from __future__ import annotations

import json
import math
import tomllib
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query import Hierarchy, Schema
from support import extra, refuses

TREE = {"North": {"Uptown": ["a", "b"], "Hill": ["c"]}, "South": ["d", "e"]}
PARENTS = {
    "a": "Uptown",
    "b": "Uptown",
    "c": "Hill",
    "d": "South",
    "e": "South",
    "Uptown": "North",
    "Hill": "North",
}


def uneven(other: str | None = None) -> Hierarchy:
    return Hierarchy(
        ["island", {"North": [{"Hill": ["a"]}, "b"]}, {"South": {"Hill": ["c", "d"]}}], other=other
    )


@st.composite
def trees(draw: st.DrawFn) -> list[Any]:
    """A list of leaves 0, 1, 2, … and single regions, of any shape."""
    counter = iter(range(10**6))

    def grow(depth: int) -> list[Any]:
        children: list[Any] = []
        for k in range(draw(st.integers(1, 3))):
            if depth < 3 and draw(st.booleans()):
                children.append({f"r{k}": grow(depth + 1)})
            else:
                children.append(next(counter))
        return children

    return grow(0)


def paths(tree: list[Any], above: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for child in tree:
        if isinstance(child, dict):
            ((name, inner),) = child.items()
            found += paths(inner, (*above, name))
        else:
            found.append((*above, child))
    return found


# ------------------------------------------------------------------ leaves and levels


def test_leaves_are_the_values_in_order_of_appearance() -> None:
    regions = Hierarchy(TREE)
    assert regions.values == ("a", "b", "c", "d", "e")
    assert regions.size == regions.n_values == 5
    assert [regions.label(i) for i in range(5)] == list("abcde")
    assert regions.span_label(1, 3) == "b to d" and regions.prefix_label(2) == "up to c"
    assert regions.position("c") == 2 and regions.position("North") is None
    assert regions.span("b", "d") == (1, 3) and regions.span("d", "b") is None
    assert regions.numbers() is None
    assert repr(Schema(region=regions)) == "Schema(region: a, b, c, d, e; 5 cells)"


def test_levels_run_from_the_outermost_to_the_leaves() -> None:
    first, second, third = Hierarchy(TREE).levels
    assert (first.labels, first.groups.tolist()) == (("North", "South"), [0, 0, 0, 1, 1])
    assert (second.labels, second.groups.tolist()) == (("Uptown", "Hill", "d", "e"), [0, 0, 1, 2, 3])
    assert (third.labels, third.groups.tolist()) == (("a", "b", "c"), [0, 1, 2, -1, -1])
    with pytest.raises(ValueError, match="read-only"):
        first.groups[0] = 1


def test_a_shallow_leaf_is_not_repeated_below_and_the_other_cell_is_one() -> None:
    first, second, third = uneven(other="abroad").levels
    assert (first.labels, first.groups.tolist()) == (
        ("island", "North", "South", "abroad"),
        [0, 1, 1, 2, 2, 3],
    )
    # Two regions share the name Hill: the way to them tells them apart.
    assert second.labels == ("North / Hill", "b", "South / Hill")
    assert second.groups.tolist() == [-1, 0, 1, 2, 2, -1]
    assert (third.labels, third.groups.tolist()) == (("a", "c", "d"), [-1, 0, -1, 1, 2, -1])


@settings(deadline=None, derandomize=True)
@given(trees(), st.sampled_from([None, "elsewhere"]))
def test_levels_are_what_the_ways_to_the_leaves_say(tree: list[Any], other: str | None) -> None:
    regions = Hierarchy(tree, other=other)
    ways = paths(tree) + ([] if other is None else [(other,)])
    assert regions.values == tuple(way[-1] for way in paths(tree))
    assert len(regions.levels) == max(map(len, ways))
    as_itself = np.zeros(regions.size, dtype=int)
    for depth, level in enumerate(regions.levels, start=1):
        assert level.groups.shape == (regions.size,)
        assert set(level.groups.tolist()) - {-1} == set(range(len(level.labels)))
        assert len(set(level.labels)) == len(level.labels)
        for i, way in enumerate(ways):
            assert (level.groups[i] == -1) == (len(way) < depth)
            as_itself[i] += len(way) == depth
            for j, beside in enumerate(ways):
                if len(way) >= depth and len(beside) >= depth:
                    assert (level.groups[i] == level.groups[j]) == (way[:depth] == beside[:depth])
    assert as_itself.tolist() == [1] * regions.size


# ------------------------------------------------------------------ comparing


@settings(deadline=None, derandomize=True)
@given(trees(), st.sampled_from([None, "elsewhere"]))
def test_a_name_matches_all_leaves_under_it(tree: list[Any], other: str | None) -> None:
    regions = Hierarchy(tree, other=other)
    ways = paths(tree)
    for name in {name for way in ways for name in way}:
        expected = [name in way for way in ways]
        equal = regions.matching("region", "==", name)
        assert equal.dtype == bool and equal.shape == (regions.size,)
        assert equal.tolist() == expected + [False] * (other is not None)
        assert regions.matching("region", "!=", name).tolist() == [not e for e in equal.tolist()]


def test_matching_by_name_and_by_number() -> None:
    assert uneven().matching("r", "==", "Hill").tolist() == [False, True, False, True, True]
    assert uneven("abroad").matching("r", "==", "abroad").tolist() == [False] * 5 + [True]
    # Codes: a region written 1 or "1", leaves as whole numbers.
    codes = Hierarchy({1: [11, 12], "2": [21]})
    for one in (1, "1", np.int64(1)):
        assert codes.matching("r", "==", one).tolist() == [True, True, False]
    assert codes.matching("r", "!=", 21).tolist() == [True, True, False]
    same = Hierarchy({"Berlin": ["Berlin", "Potsdam"], "Bremen": ["Bremen"]})
    assert same.matching("r", "==", "Berlin").tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("sign", "value", "refusal"),
    [
        ("<", "North", ("r", "<")),
        (">=", "a", ("r", ">=")),
        ("==", "Moon", ("r", "Moon")),
        ("!=", 3, ("r", 3)),
        ("==", None, ("r", None)),
        ("==", ["a"], ("r", ["a"])),
        ("~", "a", ("condition", "~")),
    ],
)
def test_comparisons_are_refused(sign: str, value: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(QueryError, *refusal):
        Hierarchy(TREE).matching("r", sign, value)


# ------------------------------------------------------------------ other ways to write it


def test_parents_make_the_same_tree() -> None:
    by_parents = Hierarchy.from_parents(PARENTS)
    assert by_parents == Hierarchy(TREE)
    told = Hierarchy.from_parents({**PARENTS, "North": None, "South": None}, other="x", null="other")
    assert told == Hierarchy(TREE, other="x", null="other")
    shuffled = Hierarchy.from_parents(
        {"South": None, "b": "Hill", "North": None, "Hill": "North", "a": "South"}
    )
    assert shuffled == Hierarchy({"South": ["a"], "North": {"Hill": ["b"]}})
    alone = Hierarchy.from_parents({"island": None, "a": "North", "North": None})
    assert alone == Hierarchy(["island", {"North": ["a"]}])
    chain = Hierarchy.from_parents({k: k + 1 for k in range(60)})
    assert chain.values == (0,) and len(chain.levels) == 61


@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "pyarrow"])
def test_a_public_table_makes_the_same_tree(library: str) -> None:
    texts = {"id": [*PARENTS, "North", "South"], "parent_id": [*PARENTS.values(), None, None]}
    numbers = {"id": [11, 12, 21, 1, 2], "parent_id": [1, 1, 2, None, None]}

    def table(columns: dict[str, list[Any]]) -> Any:
        if library == "dict":
            return columns
        if library == "pandas":
            return pandas.DataFrame(columns)
        return extra(library).DataFrame(columns) if library == "polars" else extra(library).table(columns)

    assert Hierarchy.from_table(table(texts), child="id", parent="parent_id") == Hierarchy(TREE)
    codes = Hierarchy.from_table(table(numbers), child="id", parent="parent_id", other="?")
    assert codes == Hierarchy({1: [11, 12], 2: [21]}, other="?")
    with refuses(SchemaError, "table", "up"):
        Hierarchy.from_table(table(texts), child="id", parent="up")


@pytest.mark.parametrize(
    ("columns", "refusal"),
    [
        ({"c": ["a", "a"], "p": ["X", "Y"]}, ("tree", "a", "parents")),
        ({"c": ["a", "a"], "p": ["X", "X"]}, ("tree", "a", "listed")),
        ({"c": ["a", None], "p": ["X", None]}, ("tree", None)),
        ({"c": ["a", "X"], "p": ["Y", None]}, ("tree", "Y")),
        ({"c": ["a", "X", "Y"], "p": ["X", "Y", "X"]}, ("tree", "a", "cycles")),
        ({"c": ["a"], "p": ["a"]}, ("tree", "a", "cycles")),
        ({"c": ["b", "x", "y"], "p": ["R", "y", "x"]}, ("tree", "x")),
        ({"c": [], "p": []}, ("tree", {})),
        ({"c": ["a"], "p": []}, ("parent", "p")),
        ({"c": [1.5], "p": ["X"]}, ("tree", 1.5, "numbers")),
        ({"c": [True], "p": ["X"]}, ("tree", True, "numbers")),
        ({"c": "ab", "p": ["X"]}, ("table", dict)),
        ({"c": ["a", 1], "p": ["X", "X"]}, ("tree", ["int", "str"])),
    ],
)
def test_tables_are_refused(columns: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        Hierarchy.from_table(columns, child="c", parent="p")


def test_parents_are_given_in_a_dict() -> None:
    with refuses(SchemaError, "parents", list):
        Hierarchy.from_parents([("a", "X")])  # type: ignore[arg-type]
    with refuses(SchemaError, "tree", 101):
        Hierarchy.from_parents({k: k + 1 for k in range(150)})


# ------------------------------------------------------------------ files


@settings(deadline=None, derandomize=True)
@given(trees(), st.sampled_from([{}, {"other": "x"}, {"other": "x", "null": "other", "outside": "drop"}]))
def test_a_hierarchy_survives_being_written(tree: list[Any], policies: dict[str, str]) -> None:
    schema = Schema(region=Hierarchy(tree, **policies))
    for sort_keys in (False, True):
        again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=sort_keys)))
        assert again == schema and hash(again) == hash(schema)
        assert again["region"].values == schema["region"].values  # type: ignore[union-attr]


def test_the_order_of_regions_survives_sorted_keys() -> None:
    """Plans are written with sorted keys; a dict of regions would come back in another order of cells."""
    schema = Schema(region=Hierarchy({"z": ["a", "b"], "y": ["c"]}))
    assert schema != Schema(region=Hierarchy({"y": ["c"], "z": ["a", "b"]}))
    written = json.dumps(schema.to_dict(), sort_keys=True)
    assert written != json.dumps(
        Schema(region=Hierarchy({"y": ["c"], "z": ["a", "b"]})).to_dict(), sort_keys=True
    )
    assert Schema.from_dict(json.loads(written)) == schema


def test_a_hierarchy_in_toml() -> None:
    text = """
    [region]
    other = "abroad"
    [region.hierarchy]
    South = ["d", "e"]
    [region.hierarchy.North]
    Uptown = ["a", "b"]
    Hill = ["c"]
    """
    read = Schema.from_dict(tomllib.loads(text))["region"]
    assert read == Hierarchy({"South": ["d", "e"], "North": TREE["North"]}, other="abroad")


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("tree", "refusal"),
    [
        ("ab", ("tree", str)),
        ({"North": "ab"}, ("North", str)),
        ({"North": None}, ("North", type(None))),
        ({}, ("tree", {})),
        ({"North": {"Hill": []}}, ("Hill", [])),
        ({"North": ["a"], "South": ["a"]}, ("tree", "a", "differ")),
        ({"North": ["a", 1]}, ("tree", ["int", "str"])),
        ({"North": [1.5]}, ("tree", ["float"])),
        ({"North": [["a"]]}, ("tree", ["list"])),
        ({"North": [None]}, ("tree", ["NoneType"])),
        ({1.5: ["a"]}, ("tree", 1.5, "regions")),
        ({True: ["a"]}, ("tree", True, "regions")),
        ([{"North": ["a"]}, {"North": ["b"]}], ("tree", "North")),
        ({"X": ["a", {"a": ["b"]}]}, ("X", "a")),
    ],
)
def test_trees_are_refused(tree: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(SchemaError, *refusal):
        Hierarchy(tree)


@pytest.mark.parametrize("other", ["a", "Uptown", "North"])
def test_the_other_cell_needs_a_name_of_its_own(other: str) -> None:
    with refuses(SchemaError, "other", other):
        Hierarchy(TREE, other=other)


def test_places() -> None:
    regions = Hierarchy(TREE, other="x", null="other")
    raw = ["a", "e", "North", "x", "", None, math.nan]
    assert [regions.place(value) for value in raw] == [0, 4, 5, 5, 5, 5, 5]
    assert [Hierarchy(TREE).place(value) for value in raw] == [0, 4] + [None] * 5
