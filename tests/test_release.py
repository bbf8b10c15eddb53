"""The private step and what may be read from it: exact integers, right frames, honest refusals."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import leastnoise as ln
from leastnoise import release
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import (
    DataError,
    InputError,
    PlanFileError,
    QueryError,
    RandomnessError,
    UnrecordedSpending,
)
from leastnoise.query import QUERY_KINDS
from leastnoise.release import measuring
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from support import refuses
from tolerances import ROUNDING

SCHEMA = ln.Schema(age=range(5), sex=ln.Hierarchy({"all": ["F", "M"]}), income=ln.Bins([0, 10, 20, 50]))
SIZES = (5, 2, 3)
N = 30
SEX = ("F", "M")
INCOME = ("0–9", "10–19", "20–49")


class SeededBits:
    """Repeatable bits from an explicit numpy generator."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def bits(self, n):
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.rng.bytes(n_bytes), "little") >> (8 * n_bytes - n)


def measured(plan, source):
    """A release of a plan, its one line of warning expected."""
    with pytest.warns(UnrecordedSpending):
        return ln.measure(plan, source)


@pytest.fixture
def no_noise(monkeypatch):
    """Both samplers give zeros, so that a release is the truth."""
    for name in ("rounded_gaussian", "discrete_laplace"):
        monkeypatch.setattr(measuring, name, lambda scale, size, bits: [0] * size)


# ------------------------------------------------------------------ the opening example


def test_six_lines_on_a_parquet_file(tmp_path):
    """The example of the package's own docstring, on people made up here."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(0, 116, 5000), "sex": rng.choice(["F", "M", "?"], 5000)})
    import duckdb

    duckdb.from_df(people).write_parquet(str(tmp_path / "people.parquet"))

    schema = ln.Schema(age=range(116), sex=("F", "M"))
    workload = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], schema)
    plan = ln.design(workload, ln.ApproxDP(epsilon=1, delta=1e-6))
    data = ln.vectorize(tmp_path / "people.parquet", schema)
    with pytest.warns(UnrecordedSpending):
        given = ln.measure(plan, data)
    text = str(ln.summarize(given))

    known = people[people.sex != "?"]
    truth = [((known.age == age) & (known.sex == sex)).sum() for age in range(116) for sex in ("F", "M")]
    truth += [(known.age <= age).sum() for age in range(116)]
    # 348 errors at once: beyond 7 standard errors with chance 1e-9.
    assert (np.abs(given.answers - truth) < 7 * given.stderr).all()
    assert not (np.abs(given.answers - np.roll(truth, 40)) < 7 * given.stderr).all()
    assert "A private release of 348 counts" in text
    assert given["age up to"].loc["up to 115", "answer"] == pytest.approx(len(known), abs=7 * plan.stderr[-1])


@pytest.mark.parametrize("kind", ["path", "pandas", "data", "vector", "list", "array of cells"])
def test_every_source_gives_the_same_counts(kind, tmp_path, no_noise):
    cells = list(itertools.product(range(5), SEX, (5, 15, 30)))
    records = [cell for j, cell in enumerate(cells) for _ in range(j % 4)]
    table = pd.DataFrame(records, columns=["age", "sex", "income"])
    table.to_csv(tmp_path / "people.csv", index=False)
    x = np.array([j % 4 for j in range(N)])
    source = {
        "path": str(tmp_path / "people.csv"),
        "pandas": table,
        "data": ln.vectorize(table, SCHEMA),
        "vector": x,
        "list": x.tolist(),
        "array of cells": x.reshape(SIZES),
    }[kind]
    plan = ln.design(ln.assemble([ln.Marginal("age", "sex", "income")], SCHEMA), ln.GDP(1))
    assert measured(plan, source).answers == pytest.approx(x, abs=ROUNDING * x.sum())


# --------------------------------------------------------------------------- exactness


def true_answers(strategy, x):
    """A x by loops over Python integers."""
    return [sum(int(a) * int(c) for a, c in zip(row, x, strict=True)) for row in strategy.entries.tolist()]


def is_exact(measurements, strategy, x, noise):
    """Whether every measurement is the true integer plus its draw of noise, to the last digit."""
    expected = [truth + drawn for truth, drawn in zip(true_answers(strategy, x), noise, strict=True)]
    return [int(y) for y in measurements] == expected


@pytest.mark.thorough
@pytest.mark.parametrize(
    "goal", [ln.GDP(1), ln.PureDP(1), ln.GDP(10**9), ln.ZCDP(1e-12), ln.PureDP(10**20)], ids=str
)
@pytest.mark.parametrize("largest", [0, 10**6, 2**62, 2**63 - 1, 2**63, 10**30])
def test_measurements_are_exact_integers(goal, largest):
    plan = ln.design(ln.Workload.from_matrix(np.tri(6, dtype=int)), goal)
    x = [largest, max(largest - 1, 0), 0, 1, largest // 3, largest]
    draw = discrete_laplace if goal.noise == "laplace" else rounded_gaussian
    noise = draw(plan.strategy.scale, plan.strategy.shape[0], SeededBits(7))
    counts = release.counts_of(plan.workload, x, 1)
    y = release.with_noise(plan.strategy, plan.strategy.answers(counts), SeededBits(7))
    assert y.dtype == object and all(type(value) is int for value in y)
    assert is_exact(y, plan.strategy, x, noise)
    # Broken twins: one float on the way, one wrap at 64 bits, one step of noise too much.
    if largest >= 2**62:
        through_float = [int(v) for v in plan.strategy.entries.astype(float) @ np.array(x, dtype=float)]
        assert not is_exact(
            [a + b for a, b in zip(through_float, noise, strict=True)], plan.strategy, x, noise
        )
        wrapped = [(int(v) + 2**63) % 2**64 - 2**63 for v in y]
        assert not is_exact(wrapped, plan.strategy, x, noise)
    assert not is_exact([*y[:-1], y[-1] + 1], plan.strategy, x, noise)


def test_public_step_is_exact_beyond_64_bits(monkeypatch):
    noise = []

    def watch(scale, size, bits):
        noise.extend(rounded_gaussian(scale, size, bits))
        return list(noise)

    monkeypatch.setattr(measuring, "rounded_gaussian", watch)
    plan = ln.design(ln.Workload.from_matrix(np.tri(4, dtype=int)), ln.GDP(1))
    for x in ([2**62 - 1] * 4, [2**63 + 5, 0, 10**25, 1], np.array([2**64 - 1] * 4, dtype=np.uint64)):
        noise.clear()
        assert is_exact(measured(plan, x).measurements, plan.strategy, x, noise)


def test_large_entries_and_large_counts_meet_exactly():
    """Rows of 2^61 times counts of 2^62: each fits int64, their product does not."""
    W = np.array([[2**29 + 1, 1], [1, 2**29 - 1]])
    plan = ln.design(ln.Workload.from_matrix(W), ln.GDP(1), method="workload")
    x = [2**62 + 1, 2**62 - 1]
    noise = rounded_gaussian(plan.strategy.scale, 2, SeededBits(1))
    y = release.with_noise(
        plan.strategy, plan.strategy.answers(release.counts_of(plan.workload, x, 1)), SeededBits(1)
    )
    assert is_exact(y, plan.strategy, x, noise)


# -------------------------------------------------------------- answers without any noise


KINDS = [
    ln.Total(),
    ln.Marginal("age"),
    ln.Marginal("income", "age"),
    ln.Marginal("age", "sex", "income"),
    ln.Prefix("income"),
    ln.AllRanges("age"),
    ln.Ranges("age", [(1, 3), (0, 4), (1, 3)]),
    ln.Windows("age", 2),
    ln.Windows("age", 2) * ln.Marginal("sex"),
    ln.Changes("age", 2),
    ln.Prefix("age") * ln.Marginal("sex"),
    ln.Cube("age", "sex", order=1),
    ln.Levels("sex"),
    ln.Sum("age"),
    ln.Sum("age") * ln.Marginal("income"),
    ln.Where("age >= 1 and sex == 'F'"),
    ln.Where("age >= 2 or income < 20"),
    ln.Cases({"few": "age < 2", "women or more": "age >= 2 or sex == 'F'"}, heading="group"),
    ln.Linear(np.random.default_rng(3).integers(-3, 4, (4, N)), labels=["a", "b", "c", "d"]),
    ln.Linear(np.random.default_rng(4).normal(size=(3, N))),
]


def test_every_kind_of_query_is_tried_here():
    assert {query.kind for query in KINDS} == {kind for kind, cls in QUERY_KINDS.items() if cls.is_linear}


def is_right(given, W, x):
    """Whether noiseless answers are W x, up to float64 rounding through the reconstruction."""
    size = np.abs(W).max() * np.abs(x).sum()
    return bool((np.abs(given - W @ x) <= 1e-9 * size).all())


@pytest.mark.thorough
@pytest.mark.parametrize("query", KINDS, ids=lambda query: query.title())
@pytest.mark.parametrize(
    ("goal", "method"),
    [
        (ln.GDP(1), "auto"),
        (ln.GDP(1), "identity"),
        (ln.ZCDP(0.1), "hierarchical"),
        (ln.PureDP(1), "auto"),
        (ln.PureDP(0.5), "wavelet"),
    ],
    ids=str,
)
def test_answers_without_noise_are_the_truth(query, goal, method, no_noise):
    workload = ln.assemble([query], SCHEMA)
    x = np.random.default_rng(1).integers(0, 1000, N)
    given = measured(ln.design(workload, goal, method=method), x)
    assert is_right(given.answers, workload.dense(), x)
    x[7] += 5
    moved = workload.dense()[:, 7].any()
    assert moved and not is_right(given.answers, workload.dense(), x)


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [ln.GDP(1), ln.PureDP(1)], ids=str)
def test_low_rank_matrices_without_noise_are_the_truth(goal, no_noise):
    rng = np.random.default_rng(5)
    W = rng.integers(-2, 3, (9, 3)) @ rng.integers(0, 3, (3, 12))
    x = rng.integers(0, 100, 12)
    given = measured(ln.design(ln.Workload.from_matrix(W), goal), x)
    assert is_right(given.answers, W, x)
    assert not is_right(given.answers + 1, W, x)


def test_zero_rows_answer_zero_and_cost_nothing():
    given = measured(ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.GDP(1)), [10**6, 5, 5])
    assert given.answers.tolist() == [0, 0] and given.plan.mu == 0
    lower, upper = given.interval(simultaneous=True)
    assert lower.tolist() == upper.tolist() == [0, 0]


def test_equal_queries_get_equal_answers():
    W = np.array([[1, 2, 0], [1, 2, 0], [0, 1, 1]])
    given = measured(ln.design(ln.Workload.from_matrix(W), ln.GDP(1)), [5, 6, 7])
    assert given.answers[0] == pytest.approx(given.answers[1], rel=ROUNDING)


# --------------------------------------------------------------------------- randomness


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [ln.GDP(1), ln.PureDP(1)], ids=str)
def test_two_releases_differ(goal):
    plan = ln.design(ln.Workload.from_matrix(np.tri(5)), goal)
    x = np.arange(5)
    first, second = measured(plan, x), measured(plan, x)
    # Five draws of scale 2^14 or more agree with a chance below 1e-15.
    assert (first.measurements != second.measurements).any()


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [ln.GDP(1), ln.PureDP(1)], ids=str)
@pytest.mark.parametrize("fault", ["fails", "short"])
def test_a_failing_generator_releases_nothing(goal, fault, monkeypatch):
    def urandom(n):
        if fault == "fails":
            raise OSError("no device")
        return b"\0" * (n // 2)

    plan = ln.design(ln.Workload.from_matrix(np.tri(5)), goal)
    monkeypatch.setattr(os, "urandom", urandom)
    given = None
    with pytest.warns(UnrecordedSpending), refuses(RandomnessError, "generator", ..., "random generator"):
        given = ln.measure(plan, np.arange(5))
    assert given is None


def test_no_seed_can_be_given():
    plan = ln.design(ln.Workload.from_matrix(np.eye(2)), ln.GDP(1))
    for name in ("seed", "bits", "generator", "rng"):
        with pytest.raises(TypeError, match=name):
            ln.measure(plan, [1, 2], **{name: 1})


# ------------------------------------------------------------------------------ warning


def test_warning_is_one_line_without_data_and_points_here():
    plan = ln.design(ln.Workload.from_matrix(np.eye(2)), ln.ApproxDP(epsilon=1, delta=1e-6))
    with pytest.warns(UnrecordedSpending) as seen:
        ln.measure(plan, [7_310_533, 4_242_424])
    (warning,) = seen
    text = str(warning.message)
    assert text == (
        "no ledger records this release: it spends (1, 1e-06)-DP, adding or removing one record, and so "
        "does every repetition"
    )
    assert warning.filename == __file__


def test_a_warning_made_an_error_comes_before_any_noise(monkeypatch):
    drawn = []
    monkeypatch.setattr(measuring, "rounded_gaussian", lambda *args: drawn.append(args))
    plan = ln.design(ln.Workload.from_matrix(np.eye(2)), ln.GDP(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnrecordedSpending):
            ln.measure(plan, [1, 2])
    assert drawn == []


# ----------------------------------------------------------------------------- refusals


def schema_plan():
    return ln.design(ln.assemble([ln.Total()], SCHEMA), ln.GDP(1))


def refused(error, words, plan, source, **options):
    """The refusal, before any warning of spending."""
    with pytest.raises(error, match=words):  # a warning would be an error of another kind
        ln.measure(plan, source, **options)


@pytest.mark.parametrize(
    "plan", [None, "plan.ln", ln.GDP(1), object()], ids=lambda given: type(given).__name__
)
def test_plan_must_be_one(plan):
    refused(InputError, r"plan must be a Plan from design\(\), got", plan, [1])


def test_data_of_another_schema_is_refused():
    frame = pd.DataFrame({"age": [1], "sex": ["F"], "income": [5]})
    data = ln.vectorize(frame, ln.Schema(age=range(6), sex=("F", "M")))
    refused(DataError, "vectorized with another schema than the plan's", schema_plan(), data)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([1] * (N - 1), "given for every cell, 30 in all"),
        ([1] * (N + 1), "given for every cell, 30 in all"),
        ([], "given for every cell, 30 in all"),
        ([-1] + [0] * (N - 1), "counts must not be negative"),
        ([-(10**30)] + [0] * (N - 1), "counts must not be negative"),
        ([0.5] * N, "whole numbers of an integer type"),
        (np.ones(N), "whole numbers of an integer type"),
        (np.full(N, np.nan), "whole numbers of an integer type"),
        (np.ones(N, dtype=bool), "whole numbers of an integer type"),
        (np.ones(N, dtype=complex), "whole numbers of an integer type"),
        (np.ma.masked_array([1] * N), "counts must be a list, a tuple or a plain array, got MaskedArray"),
        (["1"] * N, "table must be"),
        (None, "table must be"),
        (7, "table must be"),
        ({"age": [1]}, "table must be"),
        ("nowhere.csv", "there is no file"),
    ],
    ids=str,
)
def test_counts_that_are_none_are_refused(counts, words):
    refused(DataError, words, schema_plan(), counts)


def test_a_matrix_plan_needs_a_vector():
    plan = ln.design(ln.Workload.from_matrix(np.eye(3)), ln.GDP(1))
    words = "data must be a vector of 3 integer counts for a plan without a schema"
    for source in ("people.csv", pd.DataFrame({"age": [1]}), None, ["a", "b", "c"]):
        refused(DataError, words, plan, source)


def test_a_table_without_the_columns_is_refused():
    refused(
        DataError, "exactly one column named 'sex'", schema_plan(), pd.DataFrame({"age": [1], "income": [5]})
    )


# ------------------------------------------------------------------------------- frames


def expected_frame(query, x):
    """Index and true answers of a query by loops over the cells."""
    cells = list(itertools.product(range(5), range(2), range(3)))

    def count(test):
        return sum(int(c) for cell, c in zip(cells, x, strict=True) if test(*cell))

    if query == ln.Total():
        return [("everyone",)], ["query"], [count(lambda a, s, i: True)]
    if query == ln.Marginal("income", "age"):
        index = [(str(a), INCOME[i]) for a in range(5) for i in range(3)]
        answers = [count(lambda a, s, i, A=A, J=J: (a, i) == (A, J)) for A in range(5) for J in range(3)]
        return index, ["age", "income"], answers
    if query == ln.Prefix("income"):
        answers = [count(lambda a, s, i, J=J: i <= J) for J in range(3)]
        return [("below 10",), ("below 20",), ("below 50",)], ["income"], answers
    if query == ln.AllRanges("age"):
        spans = list(itertools.combinations_with_replacement(range(5), 2))
        labels = {(f"{lo}–{hi}" if lo < hi else str(lo),): (lo, hi) for lo, hi in spans}
        answers = [count(lambda a, s, i, lo=lo, hi=hi: lo <= a <= hi) for lo, hi in labels.values()]
        return list(labels), ["age"], answers
    if query == ln.Ranges("age", [(3, 4), (0, 3), (3, 4)]):
        pairs = [(3, 4), (0, 3), (3, 4)]
        answers = [count(lambda a, s, i, lo=lo, hi=hi: lo <= a <= hi) for lo, hi in pairs]
        return [(f"{lo}–{hi}",) for lo, hi in pairs], ["age"], answers
    assert query == ln.Marginal("sex") * ln.Prefix("age")
    index = [(f"up to {A}", SEX[S]) for A in range(5) for S in range(2)]
    answers = [count(lambda a, s, i, A=A, S=S: a <= A and s == S) for A in range(5) for S in range(2)]
    return index, ["age", "sex"], answers


SHAPED = [
    ln.Total(),
    ln.Marginal("income", "age"),
    ln.Prefix("income"),
    ln.AllRanges("age"),
    ln.Ranges("age", [(3, 4), (0, 3), (3, 4)]),
    ln.Marginal("sex") * ln.Prefix("age"),
]


def is_frame_right(frame, query, x, level):
    """Whether a noiseless frame has the index, names and values found by brute force."""
    index, names, answers = expected_frame(query, x)
    found = [key if isinstance(key, tuple) else (key,) for key in frame.index]
    z = stats.norm.ppf((1 + level) / 2)
    return (
        found == index
        and list(frame.index.names) == names
        and list(frame.columns) == ["answer", "stderr", "lower", "upper"]
        and bool(np.allclose(frame["answer"], answers, rtol=0, atol=1e-8 * sum(x)))
        and bool((frame["stderr"] > 0).all())
        and bool(np.allclose(frame["upper"] - frame["answer"], z * frame["stderr"], rtol=1e-9))
        and bool(np.allclose(frame["answer"] - frame["lower"], z * frame["stderr"], rtol=1e-9))
    )


@pytest.mark.parametrize("query", SHAPED, ids=lambda query: query.title())
def test_frames_are_shaped_like_their_query(query, no_noise):
    x = np.random.default_rng(2).integers(0, 50, N)
    workload = ln.assemble([ln.Marginal("age", "sex", "income"), query.having(name="asked")], SCHEMA)
    given = measured(ln.design(workload, ln.GDP(1)), x)
    assert is_frame_right(given["asked"].rename(index={"asked": "everyone"}), query, x, 0.95)
    assert is_frame_right(given.answer(query), query, x, 0.95)
    assert is_frame_right(given.answer(query, level=0.5), query, x, 0.5)
    frame = given["asked"]
    assert np.allclose(frame["stderr"], given.stderr[N:], rtol=1e-9)
    assert not is_frame_right(frame.rename_axis(["x"] * frame.index.nlevels), query, x, 0.95)
    assert not is_frame_right(frame.assign(answer=frame["answer"] + 1), query, x, 0.95)
    if len(frame) > 1:
        assert not is_frame_right(frame.assign(answer=np.roll(frame["answer"], 1)), query, x, 0.95)


def test_rows_keep_the_order_of_the_query(no_noise):
    """Labels sort as text, "10" before "2"; a frame must not."""
    schema = ln.Schema(age=range(12))
    given = measured(ln.design(ln.assemble([ln.Marginal("age")], schema), ln.GDP(1)), np.arange(12))
    assert given["age"].index.tolist() == [str(age) for age in range(12)]
    assert given["age"]["answer"].round().tolist() == list(range(12))


def test_linear_queries_are_indexed_by_their_labels(no_noise):
    matrix = np.eye(N)[:2]
    queries = [ln.Linear(matrix, labels=["first", "second"], name="named"), ln.Linear(matrix, name="bare")]
    given = measured(ln.design(ln.assemble(queries, SCHEMA), ln.GDP(1)), np.arange(N) + 5)
    assert given["named"].index.tolist() == ["first", "second"]
    assert given["bare"].index.tolist() == ["row 0", "row 1"]
    assert given["bare"]["answer"].round(6).tolist() == [5, 6]
    assert given.answer(ln.Linear(matrix[1:], labels=["x"])).loc["x", "answer"] == pytest.approx(6)


@pytest.mark.thorough
def test_a_matrix_release_answers_by_name(no_noise):
    workload = ln.Workload.from_matrix(np.tri(3), labels=["a", "b", "c"])
    given = measured(ln.design(workload, ln.PureDP(1)), [1, 2, 3])
    assert given["rows"]["answer"].round(6).to_dict() == {"a": 1, "b": 3, "c": 6}
    with refuses(QueryError, "query", ..., "made from a matrix without a schema"):
        given.answer(ln.Total())


def test_further_answers_have_the_standard_error_of_the_covariance():
    given = measured(ln.design(ln.assemble([ln.Prefix("age")], SCHEMA), ln.GDP(1)), np.arange(N))
    frame = given.answer(ln.Ranges("age", [(2, 3)]))
    row = np.repeat([0, 0, 1, 1, 0], 6)
    assert frame["answer"].iloc[0] == pytest.approx(given.answers[3] - given.answers[1])
    truth = np.sqrt(row @ given.plan.strategy.covariance @ row)
    assert frame["stderr"].iloc[0] == pytest.approx(truth, rel=1e-9)


def test_a_query_outside_the_row_space_is_named():
    given = measured(ln.design(ln.assemble([ln.Prefix("age")], SCHEMA), ln.GDP(1)), np.arange(N))
    words = r'query 1 \("sex M"\) cannot be answered by this plan; add it to the workload and call design'
    with pytest.raises(QueryError, match=words):
        given.answer(ln.Linear(np.vstack([np.ones(N), np.tile([0, 0, 0, 1, 1, 1], 5)]), ["all", "sex M"]))
    with refuses(QueryError, "query", "sex F"):
        given.answer(ln.Marginal("sex"))


@pytest.mark.parametrize("query", ["age", None, 3, ln.Total, [ln.Total()]], ids=str)
def test_answer_takes_a_query(query):
    given = measured(schema_plan(), [1] * N)
    with refuses(QueryError, "query"):
        given.answer(query)


def test_an_unknown_name_lists_those_there_are():
    given = measured(schema_plan(), [1] * N)
    for name in ("income", 0, None):
        with refuses(QueryError, "query", ..., "there are 'total'"):
            given[name]


def test_to_frame_has_one_row_per_query():
    workload = ln.assemble([ln.Total(name="all"), ln.Marginal("sex", name="sexes")], SCHEMA)
    given = measured(ln.design(workload, ln.GDP(1)), np.arange(N))
    frame = given.to_frame()
    assert frame.columns.tolist() == ["query", "label", "sex", "answer", "stderr", "lower", "upper"]
    assert frame["query"].tolist() == ["all", "sexes", "sexes"]
    assert frame["label"].tolist() == ["all", "sex F", "sex M"]
    assert np.array_equal(frame["answer"], given.answers)
    for options in ({"level": 0.5}, {"level": 0.5, "simultaneous": True}):
        lower, upper = given.interval(**options)
        shown = given.to_frame(**options)
        assert np.array_equal(shown["lower"], lower) and np.array_equal(shown["upper"], upper)
    assert (given.to_frame(simultaneous=True)["upper"] > frame["upper"]).all()


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, np.nan, "0.9", None, True])
def test_level_is_checked_everywhere(level):
    given = measured(schema_plan(), [1] * N)
    for ask in (
        lambda: given.interval(level),
        lambda: given.interval(level, simultaneous=True),
        lambda: given.to_frame(level=level),
        lambda: given.answer(ln.Total(), level=level),
    ):
        with refuses(InputError, "level", ..., "level must lie between 0 and 1"):
            ask()


def test_what_was_released_cannot_be_changed_by_accident():
    """Sorting the answers in place used to change every frame made afterwards."""
    given = measured(schema_plan(), [1] * N)
    for values in (given.measurements, given.estimates, given.answers):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
    with pytest.raises(AttributeError):
        given.measurements = np.zeros(1)


def test_text_of_a_release_shows_how_to_go_on():
    given = measured(schema_plan(), [1] * N)
    assert repr(given) == "Release(1 answers over 30 cells, 1-GDP, adding or removing one record)"
    assert str(given) == f"{given!r}; see summarize(release), release.to_frame() or release['total']"


# -------------------------------------------------------------------------------- files


def small_release(goal=None, counts=(5, 6, 7)):
    return measured(ln.design(ln.Workload.from_matrix(np.tri(3)), goal or ln.GDP(1)), list(counts))


def is_same(first, second):
    """Whether two releases hold the same measurements of the same plan."""
    return (
        first.measurements.tolist() == second.measurements.tolist()
        and first.plan.strategy.entries.tolist() == second.plan.strategy.entries.tolist()
        and first.plan.strategy.scale == second.plan.strategy.scale
        and first.plan.workload.digest == second.plan.workload.digest
        and first.plan.privacy == second.plan.privacy
    )


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [ln.GDP(1), ln.PureDP(0.5), ln.GDP(10**9)], ids=str)
@pytest.mark.parametrize("largest", [0, 10, 2**62, 2**63, 10**40])
def test_a_saved_release_is_read_back_whole(goal, largest, tmp_path):
    given = small_release(goal, (largest, 0, largest // 3))
    path = given.save(tmp_path / "a.release")
    loaded = ln.load_release(path)
    assert is_same(loaded, given)
    assert all(type(y) is int for y in loaded.measurements)
    assert np.array_equal(loaded.answers, given.answers) and np.array_equal(loaded.stderr, given.stderr)
    assert sorted(tmp_path.iterdir()) == [path]
    assert not is_same(small_release(goal, (largest, 0, largest // 3)), given)


def test_a_saved_release_keeps_its_frames(tmp_path):
    queries = [ln.Prefix("age") * ln.Marginal("sex"), ln.Linear(np.eye(N)[:2], name="two")]
    given = measured(ln.design(ln.assemble(queries, SCHEMA), ln.ZCDP(0.5)), np.arange(N))
    loaded = ln.load_release(given.save(tmp_path / "a.release"))
    for name in given.plan.workload.names:
        pd.testing.assert_frame_equal(loaded[name], given[name])
    pd.testing.assert_frame_equal(loaded.to_frame(), given.to_frame())


def changed_bytes(data):
    """Every single-byte change, one per position, then every seventh truncation."""
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :]
    yield from (data[:length] for length in range(0, len(data), 7))


def changes_that_pass(given, path):
    """How many damaged copies of a file were read as something else than what was saved."""
    data = given.save(path).read_bytes()
    passed = 0
    for damaged in changed_bytes(data):
        path.write_bytes(damaged)
        with contextlib.suppress(PlanFileError):
            passed += not is_same(ln.load_release(path), given)
    return passed


@pytest.mark.thorough
def test_damaged_files_are_refused(tmp_path):
    """A zip archive has unused bytes, such as dates; a change there changes nothing that is read."""
    assert changes_that_pass(small_release(), tmp_path / "a.release") == 0


def test_altered_measurements_are_noticed_by_the_digest(tmp_path, monkeypatch):
    given = small_release()
    path = given.save(tmp_path / "a.release")
    with zipfile.ZipFile(path) as archive:
        kept = json.loads(archive.read("head.json"))["digest"]
    content, arrays = given.plan.to_parts()
    other = {**arrays, "measurements": exact.to_limbs(given.measurements) + 1}
    with monkeypatch.context() as patched:
        # Written as an editor of the archive would leave it, the digest being that of the original.
        patched.setattr(container, "_digest", lambda *args: kept)
        container.write(path, "release", {"plan": content}, other)
        assert not is_same(ln.load_release(path), given), "without the digest, the change passes"
    with refuses(PlanFileError, "path", "a.release", "has been modified or damaged since it was saved"):
        ln.load_release(path)


@pytest.mark.parametrize(
    "measurements",
    [
        np.zeros((2, 1), dtype=np.int64),
        np.zeros((4, 1), dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros((3, 0), dtype=np.int64),
        np.zeros((3, 1, 1), dtype=np.int64),
        np.zeros((3, 1)),
    ],
    ids=lambda array: f"{array.shape} {array.dtype}",
)
def test_measurements_that_do_not_fit_are_refused(measurements, tmp_path):
    content, arrays = small_release().plan.to_parts()
    path = tmp_path / "a.release"
    container.write(path, "release", {"plan": content}, {**arrays, "measurements": measurements})
    with refuses(
        PlanFileError, "path", "a.release", "'a.release' holds measurements that do not fit its plan"
    ):
        ln.load_release(path)


def test_files_of_another_kind_are_refused(tmp_path):
    given = small_release()
    plan_file = given.plan.save(tmp_path / "a.plan")
    with refuses(PlanFileError, "path", "a.plan"):
        ln.load_release(plan_file)
    with refuses(PlanFileError, "path", "a.release", "'a.release' is not a saved plan"):
        ln.load_plan(given.save(tmp_path / "a.release"))
    content, arrays = given.plan.to_parts()
    for parts in (({"plan": content}, arrays), ({"plan": 3}, {**arrays, "measurements": arrays["rows"]})):
        with refuses(PlanFileError, "path", "b"):
            ln.load_release(container.write(tmp_path / "b", "release", *parts))
    with refuses(PlanFileError, "path", ..., "there is no file"):
        ln.load_release(tmp_path / "missing")
    (tmp_path / "text").write_text("not a zip archive")
    with refuses(PlanFileError, "path", "text"):
        ln.load_release(tmp_path / "text")


def test_a_file_whose_plan_overspends_is_refused(tmp_path):
    """The digest is right, the noise scale is not: the sensitivity is taken again on loading."""
    given = small_release()
    content, arrays = given.plan.to_parts()
    content["scale"] = str(given.plan.strategy.scale * 99 // 100)
    arrays = {**arrays, "measurements": exact.to_limbs(given.measurements)}
    path = container.write(tmp_path / "a", "release", {"plan": content}, arrays)
    with refuses(PlanFileError, "plan", "a", "spends more than the privacy goal allows"):
        ln.load_release(path)


def test_a_plan_without_a_schema_answers_rows_only():
    W = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    plan = ln.design(ln.Workload.from_matrix(W), ln.GDP(1))
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, [5, 6, 7])
    frame = release.answer(ln.Linear([[1, 1, 1]], labels=["everyone"]))
    assert list(frame.index) == ["everyone"]
    assert frame["answer"].iloc[0] == pytest.approx(release.estimates.sum(), rel=ROUNDING)
    with refuses(QueryError, "query", ..., "answers Linear rows over its 3 cells only"):
        release.answer(ln.Total())
