"""Standard deviations, and values pulled into bounds: against loops over records and the definition."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, norm

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import QueryError, WorkloadError
from leastnoise.query.queries import query_from_dict
from leastnoise.release import simulated
from leastnoise.release.deviations import MEAN_SHARE, DeviationErrors, deviation_intervals
from leastnoise.release.ratios import RatioErrors
from tolerances import CHANCE

SCHEMA = ln.Schema(
    hours=ln.Integers(range(-1, 42), outside="clamp", null="other", other="unknown"),
    sex=("F", "M"),
    job=("a", "b", "c"),
)
# So much budget that noise moves numbers by less than TINY.
NO_NOISE = ln.ZCDP(rho=10**12)
TINY = 1e-3


@cache
def plan_of_many():
    queries = [
        ln.StandardDeviation("hours", name="all"),
        ln.StandardDeviation("hours", by=("sex", "job"), bounds=(0, 40), clamped=True, name="by both"),
        ln.StandardDeviation("hours", among=ln.Where("sex == 'F'"), centre=7, guess=4, name="women"),
        ln.Mean("hours", by="job", bounds=(0, 40), clamped=True, name="mean"),
        ln.Mean("hours", bounds=(5, 10), name="narrow"),
    ]
    return ln.design(ln.assemble(queries, SCHEMA), NO_NOISE)


def records(seed: int, n: int = 300) -> list[tuple[int | None, str, str]]:
    """Hours of all sizes, a few of them beyond the declared range, and some missing."""
    rng = np.random.default_rng(seed)
    return [
        (
            None if rng.random() < 0.1 else int(rng.integers(-6, 60)),
            "FM"[rng.integers(2)],
            "abc"[rng.integers(3)],
        )
        for _ in range(n)
    ]


def deviation(values: list[int]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def pulled(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        ("csv", 0),
        *(pytest.param(e, s, marks=pytest.mark.thorough) for e in ("pandas", "csv") for s in (1, 2)),
    ],
)
def test_deviations_and_clamped_values_agree_with_loops_over_records(engine, seed, tmp_path):
    pandas = pytest.importorskip("pandas")
    people = records(seed)
    table = pandas.DataFrame(people, columns=["hours", "sex", "job"]).astype({"hours": "Int64"})
    if engine == "csv":
        table.to_csv(tmp_path / "t.csv", index=False)
    release = ln.measure(plan_of_many(), tmp_path / "t.csv" if engine == "csv" else table)
    known = [(value, sex, job) for value, sex, job in people if value is not None]
    everyone = [pulled(value, -1, 41) for value, _, _ in known]
    assert release["all"]["estimate"].iloc[0] == pytest.approx(deviation(everyone), abs=TINY)
    women = [pulled(value, -1, 41) for value, sex, _ in known if sex == "F"]
    assert release["women"]["estimate"].iloc[0] == pytest.approx(deviation(women), abs=TINY)
    narrow = [pulled(value, 5, 10) for value, _, _ in known]
    assert release["narrow"]["estimate"].iloc[0] == pytest.approx(sum(narrow) / len(narrow), abs=TINY)
    for job in "abc":
        own = [value for value, _, j in known if j == job]
        mean = sum(pulled(value, 0, 40) for value in own) / len(own)
        assert release["mean"].loc[job, "estimate"] == pytest.approx(mean, abs=TINY)
        n_beyond = sum(value < 0 or value > 40 for value in own)
        counted = release["mean: clamped"]["answer"].xs(job, level="job").iloc[0]
        assert counted == pytest.approx(n_beyond, abs=TINY)
        for sex in "FM":
            inside = [pulled(value, 0, 40) for value, s, j in known if (s, j) == (sex, job)]
            found = release["by both"].loc[(sex, job)]
            assert found["estimate"] == pytest.approx(deviation(inside), abs=TINY)
            assert found["lower"] <= found["estimate"] <= found["upper"]


# ---------------------------------------------------------------- intervals


def drawn_errors(truth: np.ndarray, root: np.ndarray, n: int, rng: np.random.Generator) -> DeviationErrors:
    """n noisy triples of sum of squares, sum and count, with the covariance root @ root.T."""
    a2, a1, b = (truth + rng.standard_normal((n, 3)) @ root.T).T
    C, ones = root @ root.T, np.ones(n)
    return DeviationErrors(
        RatioErrors(a2, b, C[0, 0] * ones, C[0, 2] * ones, C[2, 2] * ones),
        RatioErrors(a1, b, C[1, 1] * ones, C[1, 2] * ones, C[2, 2] * ones),
        C[0, 1] * ones,
    )


def case(rng: np.random.Generator, size: float) -> tuple[np.ndarray, np.ndarray, float]:
    """A true triple whose count is `size` standard errors, the root of a covariance, and the deviation."""
    root = np.diag([1.0, 1.0, 1.0]) + 0.4 * rng.uniform(-1, 1, (3, 3))
    n = size * float(np.linalg.norm(root[2]))
    t = rng.uniform(-0.7, 0.7)
    s2 = rng.uniform(0, 1 - t**2)
    return np.array([n * (s2 + t**2), n * t, n]), root, math.sqrt(s2)


def test_the_projection_is_that_of_the_joint_set():
    """Against the definition, with the 3 by 3 covariance, on a grid of means: 60 random releases."""
    rng = np.random.default_rng(0)
    level, n_checked = 0.9, 0
    z1, z2 = (-norm.ppf(share * (1 - level) / 2) for share in (MEAN_SHARE, 1 - MEAN_SHARE))
    for _ in range(60):
        truth, root, _ = case(rng, rng.uniform(5, 30))
        errors = drawn_errors(truth, root, 1, rng)
        found = deviation_intervals(errors, level, means=(-1, 1), largest=1.0)
        if found.reasons[0]:
            continue
        C = root @ root.T
        y = np.array([errors.squares.numerator[0], errors.sums.numerator[0], errors.squares.denominator[0]])

        def agrees(rows, z, y=y, C=C):
            return (rows @ y) ** 2 <= z**2 * ((rows @ C) * rows).sum(axis=1)

        t = np.linspace(-1, 1, 1601)
        t = t[agrees(np.stack([0 * t, 1 + 0 * t, -t], axis=1), z1)]

        def holds(s, t=t, agrees=agrees):
            return agrees(np.stack([1 + 0 * t, -2 * t, t**2 - s**2], axis=1), z2).any()

        for end, sign in ((found.lower[0], -1), (found.upper[0], 1)):
            if 0.02 < end < 0.98:
                assert not holds(end + sign * 0.01) and holds(end - sign * 0.01)
                n_checked += 1
    assert n_checked > 30


@pytest.mark.parametrize("size", [3, 5, pytest.param(12, marks=pytest.mark.thorough)])
def test_intervals_hold_as_often_as_they_say(size):
    """4,000 draws of each of four cases; "not determined" covers. Noise larger by a half is noticed."""
    rng = np.random.default_rng(int(10 * size))
    n, most = 4_000, binom.isf(CHANCE, 4_000, 0.05)
    n_missed_twin = 0
    for _ in range(4):
        truth, root, s = case(rng, size)
        found = deviation_intervals(drawn_errors(truth, root, n, rng), 0.95, means=(-1, 1), largest=1.0)
        is_small = np.array([reason != "" for reason in found.reasons])
        missed = ~is_small & ~((found.lower <= s) & (s <= found.upper))
        assert missed.sum() <= most
        noisier = drawn_errors(truth, 1.5 * root, n, rng)
        claimed = drawn_errors(truth, root, n, rng)
        twin = DeviationErrors(
            RatioErrors(
                noisier.squares.numerator,
                noisier.squares.denominator,
                claimed.squares.var_numerator,
                claimed.squares.covariance,
                claimed.squares.var_denominator,
            ),
            RatioErrors(
                noisier.sums.numerator,
                noisier.squares.denominator,
                claimed.sums.var_numerator,
                claimed.sums.covariance,
                claimed.sums.var_denominator,
            ),
            claimed.covariance,
        )
        wrong = deviation_intervals(twin, 0.95, means=(-1, 1), largest=1.0)
        held = (wrong.lower <= s) & (s <= wrong.upper)
        n_missed_twin += int((np.isfinite(wrong.lower) & ~held).sum())
    assert size < 12 or n_missed_twin > 4 * most


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param(ln.ZCDP(rho=0.05), id="gaussian"),
        pytest.param(ln.PureDP(epsilon=2), id="laplace", marks=pytest.mark.thorough),
    ],
)
def test_intervals_of_simulated_releases_hold(privacy):
    schema = ln.Schema(v=range(5), sex=("F", "M"))
    counts = np.array([40, 10, 60, 30, 80, 20, 30, 50, 90, 20])
    values = np.repeat(np.arange(5), 2)
    plan = ln.design(ln.assemble([ln.StandardDeviation("v", by="sex", name="s")], schema), privacy)
    truth = [math.sqrt(np.cov(values[k::2], fweights=counts[k::2], ddof=0)) for k in (0, 1)]
    missed = n_shown = 0
    for release in simulated(plan, counts, n_runs=20, generator=np.random.default_rng(2)):
        found = release.ratio_columns()
        shown = found["note"][0] == ""
        n_shown += shown
        missed += shown and not found["lower"][0] <= truth[0] <= found["upper"][0]
    assert missed <= binom.isf(CHANCE, 20, 0.05)
    assert n_shown > 10


def test_few_records_are_not_determined():
    schema = ln.Schema(v=range(5), sex=("F", "M"))
    plan = ln.design(ln.assemble([ln.StandardDeviation("v", by="sex", name="s")], schema), ln.ZCDP(rho=0.5))
    counts = np.array([400, 0, 0, 0, 300, 0, 0, 0, 100, 0])
    frame = next(simulated(plan, counts, n_runs=1, generator=np.random.default_rng(0)))["s"]
    assert frame.loc["F", "note"] == "" and 0 < frame.loc["F", "stderr"] < 0.1
    assert frame.loc["M", "note"].startswith("not determined") and math.isnan(frame.loc["M", "estimate"])


# ---------------------------------------------------------------- files and refusals


def test_workloads_with_deviations_are_read_back():
    workload = plan_of_many().workload
    plain = json.loads(json.dumps(workload.to_dict()))
    again = ln.Workload.from_dict(plain)
    assert (again.digest, again.names) == (workload.digest, workload.names)
    assert [ratio.further for ratio in again.ratios] == [ratio.further for ratio in workload.ratios]
    assert again.ratios[1].further == ("by both: sum", "by both: clamped")
    for ratio in workload.ratios:
        assert query_from_dict(json.loads(json.dumps(ratio.query.to_dict()))) == ratio.query
    plain["ratios"][1]["further"][0] = plain["ratios"][1]["further"][1]
    with pytest.raises(WorkloadError) as caught:
        ln.Workload.from_dict(plain)
    assert caught.value.field == "further"


def test_queries_without_the_new_keys_are_written_as_before():
    assert ln.Mean("hours", by="sex").to_dict() == {"kind": "mean", "attribute": "hours", "by": ["sex"]}
    assert ln.Sum("hours", centre=2).to_dict() == {"kind": "sum", "attribute": "hours", "centre": 2.0}


def test_a_specification_asks_for_deviations_and_clamped_values():
    text = """
[schema]
hours = { range = [-1, 42], outside = "clamp" }
sex = ["F", "M"]

[privacy]
rho = 0.5

[[query]]
kind = "standard-deviation"
attribute = "hours"
by = ["sex"]
bounds = [0, 40]
clamped = true
centre = 20
name = "spread"
"""
    spec = parse_spec(text)
    roles = ("sum of squares", "count", "sum", "clamped")
    assert spec.workload.names == tuple(f"spread: {role}" for role in roles)
    assert parse_spec(spec.to_toml()).workload.digest == spec.workload.digest


def test_changes_of_deviations_hold_the_truth():
    plan = plan_of_many()
    shape = plan.workload.schema.shape
    rng = np.random.default_rng(1)
    counts = [rng.poisson(5, shape).reshape(-1) for _ in range(2)]
    first, second = (next(simulated(plan, x, n_runs=1, generator=rng)) for x in counts)
    frame = ln.changes(first, second, "all")
    expected = second["all"]["estimate"].iloc[0] - first["all"]["estimate"].iloc[0]
    assert frame["change"].iloc[0] == pytest.approx(expected, abs=1e-9)
    assert frame["lower"].iloc[0] <= expected <= frame["upper"].iloc[0]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ln.Mean("hours", clamped=True), "clamped"),
        (lambda: ln.Mean("hours", bounds=(4, 4)), "bounds"),
        (lambda: ln.Mean("hours", bounds=(0, 1.5)), "bounds"),
        (lambda: ln.Sum("hours", power=3), "power"),
        (lambda: ln.assemble([ln.Mean("hours", bounds=(-2, 40))], SCHEMA), "bounds"),
        (lambda: ln.assemble([ln.Mean("hours", bounds=(-1, 40), clamped=True)], SCHEMA), "clamped"),
        (lambda: ln.StandardDeviation("hours", stderr=1, expected=10), "stderr"),
        (lambda: ln.assemble([ln.StandardDeviation("hours", guess=50)], SCHEMA), "guess"),
        (lambda: ln.assemble([ln.StandardDeviation("hours", centre=99)], SCHEMA), "centre"),
        (lambda: ln.assemble([ln.StandardDeviation("sex")], SCHEMA), "attribute"),
    ],
)
def test_refusals(make, field):
    with pytest.raises(QueryError) as caught:
        make()
    assert caught.value.field == field
