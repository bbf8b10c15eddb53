"""Frames of a release: the same as the file of answers, with ordered categories, and by Arrow's capsules."""

from __future__ import annotations

import csv
import random
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.release import simulated
from leastnoise.report import write_answers
from support import extra

SCHEMA = ln.Schema(
    age=ln.Bins([0, 18, 65, 120]),
    sex=("F", "M"),
    hours=ln.Integers(range(8, 12), null="other", other="unknown"),
)
QUERIES = [
    ln.Marginal("age", "sex", name="both"),
    ln.Marginal("hours", name="hours"),
    ln.Prefix("age", name="up to"),
    ln.Where("age >= 18", name="grown"),
    ln.Total(name="all"),
    ln.Mean("hours", by="sex", name="mean hours"),
]


@cache
def release_of(*numbers: int) -> ln.Release:
    workload = ln.assemble([QUERIES[i] for i in numbers], SCHEMA)
    plan = ln.design(workload, ln.GDP(1), method="identity")
    rng = np.random.default_rng(1)
    return next(simulated(plan, rng.poisson(90, SCHEMA.n_cells), n_runs=1, generator=rng))


def as_text(value: object) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("seed", range(12))
def test_a_frame_is_the_file_of_answers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    release = release_of(*sorted(rng.sample(range(len(QUERIES)), rng.randint(1, len(QUERIES)))))
    frame = release.to_frame()
    with write_answers(release, tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    renamed = {"lower_95": "lower", "upper_95": "upper"}
    assert list(frame) == [renamed.get(name, name) for name in head]
    held = [[as_text(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    assert held == rows


def test_bins_are_ordered_categories_and_others_are_not() -> None:
    frame = release_of(0, 1, 4).to_frame()
    assert frame["age"].cat.ordered and list(frame["age"].cat.categories) == [
        SCHEMA["age"].label(i) for i in range(3)
    ]
    assert list(frame["hours"].cat.categories) == ["8", "9", "10", "11", "unknown"]
    assert frame["hours"].cat.ordered and not frame["sex"].cat.ordered
    # As text, "10" would come before "8".
    hours = frame.loc[frame["query"] == "hours"].sort_values("hours")["hours"]
    assert list(hours) == ["8", "9", "10", "11", "unknown"]
    assert frame.iloc[-1][["age", "sex", "hours"]].isna().all()
    # "up to 18" is no declared value, and has no place among them.
    assert not release_of(0, 2).to_frame()["age"].cat.ordered


def test_order_does_not_depend_on_the_query() -> None:
    ranges = ln.Ranges("hours", [(11, 11), (8, 8), (10, 10)], name="some")
    plan = ln.design(ln.assemble([ranges], SCHEMA), ln.GDP(1), method="identity")
    rng = np.random.default_rng(2)
    frame = next(simulated(plan, np.ones(SCHEMA.n_cells, int), n_runs=1, generator=rng)).to_frame()
    assert list(frame["hours"]) == ["11", "8", "10"]
    assert frame["hours"].cat.ordered and list(frame["hours"].cat.categories) == ["8", "10", "11"]


def test_an_attribute_called_as_a_column_of_the_file_is_kept_apart(tmp_path: Path) -> None:
    schema = ln.Schema(**{"lower_95": ("x", "y"), "note": ("p", "q")})
    plan = ln.design(ln.assemble([ln.Marginal("lower_95", "note")], schema), ln.GDP(1))
    rng = np.random.default_rng(2)
    release = next(simulated(plan, np.ones(4, int), n_runs=1, generator=rng))
    with write_answers(release, tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        head = next(csv.reader(file))
    assert head[2:4] == ["attribute_lower_95", "attribute_note"] and head[-2] == "lower_95"


def test_other_programs_take_a_release_by_arrow_capsules() -> None:
    polars, pyarrow = extra("polars"), extra("pyarrow")
    release = release_of(0, 1, 4, 5)
    frame = release.to_frame()
    table = pyarrow.table(release)
    assert table.schema.field("age").type.ordered and not table.schema.field("sex").type.ordered
    for found in (table, release.to_arrow(), release.to_polars(), polars.DataFrame(release)):
        for name in frame:
            values = found[name].to_pylist() if isinstance(found, pyarrow.Table) else found[name].to_list()
            assert [as_text(value) for value in values] == [as_text(value) for value in frame[name]]
    assert release.to_polars()["age"].dtype == polars.Enum([SCHEMA["age"].label(i) for i in range(3)])


def test_a_table_that_offers_arrow_capsules_is_data() -> None:
    pyarrow = extra("pyarrow")

    class Offers:
        """A table of somebody else's, known by one method."""

        def __init__(self, table: object) -> None:
            self._table = table

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self._table.__arrow_c_stream__(requested_schema)  # type: ignore[attr-defined]

    columns = {"age": [1, 20, 70, 70], "sex": ["F", "M", "M", None], "hours": [8, 9, None, 10]}
    plain = ln.vectorize(pd.DataFrame(columns), SCHEMA).counts("age", "hours")
    offered = ln.vectorize(Offers(pyarrow.table(columns)), SCHEMA).counts("age", "hours")
    assert plain.sum() == 3 and (plain == offered).all()


def test_a_release_is_a_collection_of_names() -> None:
    release = release_of(0, 4, 5)
    assert list(release) == ["both", "all", "mean hours: sum", "mean hours: count", "mean hours"]
    assert len(release) == 5 and "all" in release and "hours" not in release
    assert all(len(release[name]) > 0 for name in release)
