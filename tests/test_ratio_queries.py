"""Means, shares and ratios as queries: against loops over records, in files, and as rows of a batch."""

from __future__ import annotations

import csv
import json
import math
import re
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import QueryError, SpecError, SqlError, WorkloadError
from leastnoise.query.queries import query_from_dict
from leastnoise.release import simulated
from leastnoise.report import write_answers
from tolerances import CHANCE

SCHEMA = ln.Schema(
    income=ln.Integers(range(10, 21), null="other", other="unknown"),
    sex=("F", "M"),
    hours=range(4),
    job=("a", "b", "c"),
)

# So much budget that noise moves answers by less than this, in counts.
NO_NOISE = ln.ZCDP(rho=10**12)
TINY = 1e-3


def records(rng: np.random.Generator, n: int) -> list[tuple[int, ...]]:
    return [tuple(int(rng.integers(size)) for size in SCHEMA.shape) for _ in range(n)]


def counts_of(people: list[tuple[int, ...]]) -> np.ndarray:
    counts = np.zeros(SCHEMA.shape, dtype=np.int64)
    for person in people:
        counts[person] += 1
    return counts.reshape(-1)


def released(queries, people, privacy=NO_NOISE):
    return drawn(ln.design(ln.assemble(queries, SCHEMA), privacy), people)


def drawn(plan, people):
    return next(simulated(plan, counts_of(people), n_runs=1, generator=np.random.default_rng(0)))


@cache
def plan_of_many():
    queries = [
        ln.Mean("income", by=("sex", "job"), name="by both"),
        ln.Mean("income", guess=12, name="guessed"),
        ln.Mean("hours", among=ln.Where("sex == 'F'"), by="job", name="women"),
        ln.Share(ln.Marginal("job", "sex"), of=ln.Marginal("job"), name="sexes"),
        ln.Share(ln.Where("hours >= 2"), of=ln.Total(), name="long"),
        ln.Ratio(ln.Sum("hours") * ln.Marginal("sex"), ln.Marginal("sex"), name="rate"),
    ]
    return ln.design(ln.assemble(queries, SCHEMA), NO_NOISE)


@pytest.mark.parametrize("seed", range(10))
def test_ratios_agree_with_loops_over_records(seed):
    people = records(np.random.default_rng(seed), 400)
    release = drawn(plan_of_many(), people)

    def mean(values):
        return sum(values) / len(values)

    known = [(10 + v, s, h, j) for v, s, h, j in people if v < 11]
    by_both = release["by both"]
    for s, sex in enumerate("FM"):
        for j, job in enumerate("abc"):
            truth = mean([v for v, s1, _, j1 in known if (s1, j1) == (s, j)])
            assert by_both.loc[(sex, job), "estimate"] == pytest.approx(truth, abs=TINY)
            whole = [s1 for _, s1, _, j1 in people if j1 == j]
            share = release["sexes"].loc[(sex, job), "estimate"]
            assert share == pytest.approx(whole.count(s) / len(whole), abs=TINY)
        rate = mean([h for _, s1, h, _ in people if s1 == s])
        assert release["rate"]["estimate"].iloc[s] == pytest.approx(rate, abs=TINY)
    assert release["guessed"]["estimate"].iloc[0] == pytest.approx(mean([v for v, *_ in known]), abs=TINY)
    for j in range(3):
        truth = mean([h for _, s, h, j1 in people if s == 0 and j1 == j])
        assert release["women"]["estimate"].iloc[j] == pytest.approx(truth, abs=TINY)
    long = mean([h >= 2 for *_, h, _ in people])
    assert release["long"]["estimate"].iloc[0] == pytest.approx(long, abs=TINY)
    assert list(release)[-6:] == ["by both", "guessed", "women", "sexes", "long", "rate"]
    assert len(release) == len(list(release))
    assert (release.ratios()["note"] == "").all()


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param(ln.ZCDP(rho=0.02), id="gaussian"),
        # Bounds on Laplace tails are searched for in each release.
        pytest.param(ln.PureDP(epsilon=1), id="laplace", marks=pytest.mark.thorough),
    ],
)
def test_intervals_of_simulated_releases_hold_the_true_ratios(privacy):
    """Three hundred releases, with at most as many misses as 5 % give but once in a million."""
    people = records(np.random.default_rng(5), 300)
    query = ln.Mean("hours", by="sex", name="m")
    plan = ln.design(ln.assemble([query, ln.Marginal("job")], SCHEMA), privacy)
    truth = [np.mean([h for _, s1, h, _ in people if s1 == s]) for s in (0, 1)]
    missed = 0
    n_shown = 0
    for release in simulated(plan, counts_of(people), n_runs=300, generator=np.random.default_rng(2)):
        found = release.ratio_columns()
        missed += not found["lower"][0] <= truth[0] <= found["upper"][0] and found["note"][0] == ""
        n_shown += found["note"][0] == ""
    assert missed <= binom.isf(CHANCE, 300, 0.05)
    assert n_shown > 100


def test_what_is_too_small_is_not_determined():
    release = released([ln.Mean("hours", by="sex", name="m")], [(0, 0, 1, 0)] * 400, ln.ZCDP(rho=0.5))
    frame = release["m"]
    assert frame.loc["F", "note"] == "" and math.isfinite(frame.loc["F", "lower"])
    assert frame.loc["M", "note"].startswith("not determined") and math.isnan(frame.loc["M", "estimate"])


def test_rows_that_are_asked_already_are_shared():
    workload = ln.assemble(
        [ln.Marginal("sex"), ln.Mean("hours", by="sex", name="m"), ln.Mean("hours", by="sex", name="again")],
        SCHEMA,
    )
    assert workload.names == ("sex", "m: sum")
    assert [(r.numerator, r.denominator) for r in workload.ratios] == [("m: sum", "sex")] * 2
    # Σ(v − 1.5) with values 0 to 3: one person changes it by 1.5.
    assert np.abs(workload.blocks[1].operator.dense()).max() == 1.5


def test_a_workload_with_ratios_is_read_back_and_one_without_is_written_as_before():
    queries = [
        ln.Total(),
        ln.Mean("hours", by=("sex",), guess=1, stderr=0.1, expected=(200, 300)),
        ln.Share(ln.Marginal("sex"), of=ln.Total()),
    ]
    workload = ln.assemble(queries, SCHEMA)
    again = ln.Workload.from_dict(json.loads(json.dumps(workload.to_dict())))
    assert (again.digest, again.names) == (workload.digest, workload.names)
    assert [r.query for r in again.ratios] == queries[1:]
    assert [list(r.labels) for r in again.ratios] == [list(r.labels) for r in workload.ratios]
    assert set(ln.assemble([ln.Total(), ln.Sum("hours")], SCHEMA).to_dict()) == {"schema", "queries"}
    for query in queries:
        assert query_from_dict(json.loads(json.dumps(query.to_dict()))) == query


def test_a_file_that_divides_other_rows_is_refused():
    plain = ln.assemble([ln.Mean("hours", by="sex"), ln.Marginal("job")], SCHEMA).to_dict()
    plain["ratios"][0]["denominator"] = "job"
    with pytest.raises(WorkloadError) as caught:
        ln.Workload.from_dict(plain)
    assert caught.value.field == "denominator"


def test_a_release_with_ratios_is_stored_and_loaded(tmp_path):
    release = released([ln.Mean("hours", by="sex", name="m")], records(np.random.default_rng(1), 300))
    loaded = ln.load_release(release.save(tmp_path / "r.lnr"))
    assert loaded["m"].equals(release["m"])
    assert loaded.ratios().equals(release.ratios())


def test_targets_of_a_ratio_hold_to_first_order():
    """A standard error of a mean becomes two linear ones, with the guess of the denominator."""
    query = ln.Mean("hours", by="sex", name="m", stderr=0.05, expected=(500, 800))
    plan = ln.design(ln.assemble([query], SCHEMA))
    (ratio,) = plan.workload.ratios
    above, below = (plan.workload.only(name) for name in (ratio.numerator, ratio.denominator))
    expected = np.array([500, 800])
    aa, bb = plan.strategy.variances_of(above), plan.strategy.variances_of(below)
    ab = np.diag(plan.strategy.covariances_of(above, below))
    for mean in (0, 1, 1.5, 2, 3):
        theta = mean - 1.5
        assert (np.sqrt(aa - 2 * theta * ab + theta**2 * bb) / expected <= 0.05 * (1 + 1e-6)).all()


@pytest.mark.parametrize("guess", [None, 0.5, 1.0, 2.5])
def test_the_split_is_never_worse_at_the_guess_than_an_even_one(guess):
    centre = 1.5 if guess is None else guess
    reach = max(3 - centre, centre)
    privacy = ln.ZCDP(rho=0.5)
    even = ln.design(
        ln.assemble([ln.Sum("hours", centre=centre, weight=1 / reach**2), ln.Total()], SCHEMA), privacy
    )
    plan = ln.design(ln.assemble([ln.Mean("hours", guess=guess)], SCHEMA), privacy)
    at_guess = ln.Sum("hours", centre=centre)
    assert plan.variance(at_guess)[0] <= even.variance(at_guess)[0] * (1 + 1e-5)


def test_a_centred_sum_halves_the_standard_error():
    """With values from 0, Σ(v − m) alone has half the standard error of Σv alone."""
    privacy = ln.ZCDP(rho=0.5)
    schema = ln.Schema(v=range(101))
    plain, centred = (
        ln.design(ln.assemble([query], schema), privacy).stderr[0]
        for query in (ln.Sum("v"), ln.Sum("v", centre=50))
    )
    assert centred == pytest.approx(plain / 2, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ln.Mean("hours", by="hours"), "by"),
        (lambda: ln.Mean("hours", stderr=1), "expected"),
        (lambda: ln.Mean("hours", stderr="5%", expected=10), "stderr"),
        (lambda: ln.Mean("hours", guess=math.inf), "guess"),
        (lambda: ln.Share(ln.Mean("hours"), of=ln.Total()), "part"),
        (lambda: ln.Share(ln.Total(weight=2), of=ln.Total()), "part"),
        (lambda: ln.Ratio(ln.Sum("hours"), ln.Total(), stderr=1, expected=10), "guess"),
        (lambda: ln.Mean("hours") * ln.Marginal("sex"), "query"),
        (lambda: ln.assemble([ln.Mean("sex")], SCHEMA), "attribute"),
        (lambda: ln.assemble([ln.Mean("hours", guess=9)], SCHEMA), "guess"),
        (lambda: ln.assemble([ln.Share(ln.Marginal("sex"), of=ln.Marginal("job"))], SCHEMA), "denominator"),
        (lambda: ln.assemble([ln.Share(ln.Total(), of=ln.Where("sex == 'F'"))], SCHEMA), "of"),
        (lambda: ln.assemble([ln.Share(ln.Sum("hours"), of=ln.Total())], SCHEMA), "of"),
        (lambda: ln.Mean("hours").operator(SCHEMA), "query"),
    ],
)
def test_refusals(make, field):
    with pytest.raises(QueryError) as caught:
        make()
    assert caught.value.field == field


def test_further_ratios_are_answered_where_their_parts_are():
    people = records(np.random.default_rng(3), 500)
    release = released([ln.Marginal("hours", "sex")], people)
    truth = np.mean([h for _, s, h, _ in people if s == 1])
    assert release.answer(ln.Mean("hours", by="sex")).loc["M", "estimate"] == pytest.approx(truth, abs=TINY)
    with pytest.raises(QueryError):
        release.answer(ln.Mean("income"))


# ---------------------------------------------------------------- what people read


def test_reports_and_files_show_ratios(tmp_path):
    people = [(2, 0, 1, 0)] * 300 + [(2, 0, 2, 1)] * 100
    queries = [ln.Mean("hours", by="sex", name="m"), ln.Share(ln.Marginal("job"), of=ln.Total(), name="s")]
    release = released(queries, people)
    text = ln.summarize(release).text()
    assert re.search(r"^m\n  sex F +1\.2(49|50)\d* +95% in \[1\.2", text, re.M)
    assert re.search(r"^s\n  job a +7[45]\.\d+% +95% in \[7\d\.\d+%, 7\d\.\d+%\]", text, re.M)
    assert re.search(r"^  sex M +– +not determined", text, re.M)
    page = ln.summarize(release).html()
    assert "<h3>m</h3>" in page and "not determined" in page
    with write_answers(release, tmp_path / "a.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (women,) = (row for row in rows if row["query"] == "m" and row["sex"] == "F")
    (men,) = (row for row in rows if row["query"] == "m" and row["sex"] == "M")
    assert float(women["answer"]) == pytest.approx(1.25, abs=TINY) and women["note"] == ""
    assert 0 < float(women["stderr"]) < TINY
    assert men["answer"] == men["lower_95"] == "" and men["note"].startswith("not determined")
    assert len(rows) == release.plan.workload.shape[0] + 5
    for suffix in (".json", ".parquet"):
        assert write_answers(release, tmp_path / f"a{suffix}").stat().st_size > 0


def test_a_specification_asks_for_ratios():
    text = """
[schema]
hours = { range = [0, 4] }
sex = ["F", "M"]

[privacy]
rho = 0.5

[[query]]
kind = "mean"
attribute = "hours"
by = ["sex"]
name = "mean hours"

[[query]]
kind = "share"
part = { kind = "marginal", attributes = ["sex"] }
of = { kind = "total" }

[[query]]
kind = "ratio"
numerator = { kind = "sum", attribute = "hours" }
denominator = { kind = "total" }
"""
    spec = parse_spec(text)
    assert [ratio.query.kind for ratio in spec.workload.ratios] == ["mean", "share", "ratio"]
    assert parse_spec(spec.to_toml()).workload.digest == spec.workload.digest
    with pytest.raises(SpecError):
        parse_spec(text.replace('attribute = "hours"\nby', 'attribute = "sex"\nby'))


# ---------------------------------------------------------------- SQL

STATEMENTS = [
    "SELECT AVG(hours) FROM t",
    "SELECT sex, job, AVG(hours) FROM t GROUP BY sex, job",
    "SELECT job, AVG(hours) FROM t WHERE sex = 'F' GROUP BY job",
    "SELECT AVG(hours) FILTER (WHERE job = 'a' OR sex = 'M') FROM t",
    "SELECT sex, COUNT(*) FILTER (WHERE hours >= 2) / COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) FILTER (WHERE hours >= 2) * 1.0 / NULLIF(COUNT(*), 0) FROM t GROUP BY sex",
    "SELECT job, SUM(hours) / COUNT(*) FROM t WHERE hours > 0 GROUP BY job",
    "SELECT sex, SUM(hours) / COUNT_IF(job = 'b') FROM t GROUP BY sex",
    "SELECT COUNT(*) FILTER (WHERE hours >= 1) / COUNT(*) FILTER (WHERE hours <= 2) FROM t",
    "SELECT job, SUM(hours) / SUM(income) FROM t WHERE income <> 'unknown' GROUP BY job",
]


@cache
def plan_of(sql):
    return ln.design(ln.assemble(ln.queries_from_sql(sql, SCHEMA), SCHEMA), NO_NOISE)


@pytest.mark.parametrize("sql", STATEMENTS[:-1])
def test_ratios_in_sql_mean_what_a_database_says(sql):
    """DuckDB runs the statement on records; the query answers it from their counts, without noise."""
    duckdb = pytest.importorskip("duckdb")
    people = records(np.random.default_rng(4), 300)
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (sex TEXT, hours INTEGER, job TEXT)")
        engine.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", [("FM"[s], h, "abc"[j]) for _, s, h, j in people]
        )
        rows = engine.execute(f"{sql} ORDER BY ALL").fetchall()
    found = drawn(plan_of(sql), people).ratio_columns()
    assert found["estimate"] == pytest.approx([float(row[-1]) for row in rows], abs=TINY)


def test_kinds_of_ratios_in_sql():
    kinds = [ln.queries_from_sql(sql, SCHEMA)[0].kind for sql in STATEMENTS]
    assert kinds == ["mean"] * 4 + ["share"] * 2 + ["ratio"] * 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, COUNT_IF(sex = 'F') / COUNT_IF(sex = 'M') FROM t GROUP BY sex",
        "SELECT hours, SUM(hours) / COUNT(*) FROM t GROUP BY hours",
        "SELECT COUNT(*) / 2 FROM t",
        "SELECT COUNT(*) / COUNT(*) / COUNT(*) FROM t",
    ],
)
def test_ratios_in_sql_that_would_mix_groups_are_refused(sql):
    with pytest.raises(SqlError):
        ln.queries_from_sql(sql, SCHEMA)
