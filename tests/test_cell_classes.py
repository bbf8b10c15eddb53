"""Cells that no query tells apart, merged before anything else: classes, plans and releases over them."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.core import container
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.query import cell_classes, classes_of
from leastnoise.release import adjust
from tolerances import SOLVER

GOAL = ln.ApproxDP(epsilon=1, delta=1e-6)

# So little noise that a rounded answer is the true one.
LOUD = ln.GDP(1e6)


def atom(rng: random.Random, schema: ln.Schema) -> str:
    """A comparison, range or set on one attribute."""
    name = rng.choice(schema.names)
    n = schema[name].size
    low = rng.randrange(n)
    high = rng.randrange(low, n)
    values = ", ".join(map(str, sorted(rng.sample(range(n), min(3, n)))))
    return rng.choice(
        [f"{name} >= {low}", f"{name} between {low} and {high}", f"{name} in ({values})", f"{name} != {low}"]
    )


def condition(rng: random.Random, schema: ln.Schema) -> str:
    """Comparisons joined by and, or, not."""
    parts = [atom(rng, schema) for _ in range(rng.randint(1, 4))]
    if len(parts) > 2 and rng.random() < 0.4:
        return f"not ({parts[0]} or {parts[1]}) and {' and '.join(parts[2:])}"
    return f" {rng.choice(['and', 'or'])} ".join(parts)


def conditions(rng: random.Random, schema: ln.Schema, count: int) -> list[Any]:
    return [ln.Where(text) for text in dict.fromkeys(condition(rng, schema) for _ in range(count))]


def drawn(seed: int, sizes: tuple[int, int], count: int, n_attributes: int) -> ln.Workload:
    rng = random.Random(seed)
    schema = ln.Schema(**{f"a{k}": range(rng.randint(*sizes)) for k in range(n_attributes)})
    queries = conditions(rng, schema, count)
    if seed % 3 == 1:
        queries.append(ln.Cases({"low": "a0 < 2", "both": "a0 >= 1 and a1 == 0"}))
    if seed % 3 == 2:
        queries.append(ln.Where("a0 >= 1") * ln.Prefix("a1"))
    if seed % 2:
        queries.append(ln.Total())
    return ln.assemble(queries, schema)


def test_a_total_counts_the_cells_that_no_condition_does() -> None:
    """Nothing tells its cells apart; a plan for conditions beside it was refused, as it counted too few."""
    schema = ln.Schema({name: range(60) for name in "abcdef"})
    queries = [ln.Where("a >= 30 and b < 35"), ln.Where("c >= 20 or d < 5"), ln.Total()]
    plan = ln.design(ln.assemble(queries, schema), ln.GDP(1e5))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({name: rng.integers(0, 60, 400) for name in schema})
    with pytest.warns(ln.LeastnoiseWarning):
        release = ln.measure(plan, frame)
    truth = [len(frame.query("a >= 30 and b < 35")), len(frame.query("c >= 20 or d < 5")), len(frame)]
    np.testing.assert_allclose(release.answers, truth, atol=0.1)
    assert release["total"]["answer"].iloc[0] == pytest.approx(len(frame), abs=0.1)


@pytest.mark.parametrize("seed", range(12))
def test_classes_are_the_different_columns(seed: int) -> None:
    """Compared with the columns written out: as many, the same partition, and in none those of zeros."""
    workload = drawn(seed, (2, 7), 6, 4)
    classes = classes_of(workload)
    W = workload.dense()
    counted = W.any(axis=0)
    if classes is None:
        assert not counted.any()
        return
    of_cells = classes.of_cells(np.arange(W.shape[1]))
    assert (counted == (of_cells < classes.n)).all()
    assert classes.n == len(np.unique(W[:, counted], axis=1).T)
    assert (W[:, counted] == W[:, classes.first[of_cells[counted]]]).all()
    reduced = classes.reduced(workload)
    assert reduced is not None and (reduced.dense() == W[:, classes.first]).all()
    counts = classes.counts(of_cells)
    assert counts.sum() == counted.sum() and (counts > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_collisions_of_sums_are_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random sums that collide cost time, and give no wrong result."""
    expected = classes_of(drawn(seed, (2, 7), 6, 4))

    class Zeros:
        def integers(self, *_: Any, size: int) -> np.ndarray:
            return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(cell_classes.np.random, "default_rng", lambda seed: Zeros())
    found = classes_of(drawn(seed, (2, 7), 6, 4))
    assert found is not None and expected is not None and (found.first == expected.first).all()


LARGE = ln.Schema(age=range(90), region=range(40), sector=range(30), hours=range(50))
QUERIES = [
    ln.Where("age >= 18 and region < 10"),
    ln.Where("age >= 65 or hours >= 40"),
    ln.Where("sector == 3 and hours >= 20 and age >= 30"),
    ln.Where("region >= 30 and sector >= 15"),
    ln.Where("age >= 18"),
    ln.Where("hours >= 40 and sector == 3"),
]
BATCH = ln.assemble(QUERIES, LARGE)


def test_a_plan_over_millions_of_cells_is_the_optimum_over_their_classes() -> None:
    """5.4 million cells have nineteen different columns: no plan, or one of hundreds of times the least."""
    plan = ln.design(BATCH, GOAL)
    classes = classes_of(BATCH)
    assert classes is not None and classes.n < 100 and plan.strategy.n_cells == LARGE.n_cells
    edges = {"age": [0, 18, 30, 65], "region": [0, 10, 30], "sector": [0, 3, 4, 15], "hours": [0, 20, 40]}
    grid = pd.DataFrame(product(*edges.values()), columns=list(edges))
    rows = np.array([grid.eval(query.condition).to_numpy(dtype=int) for query in QUERIES])
    columns = np.unique(rows, axis=1)
    best = ln.design(ln.Workload.from_matrix(columns), GOAL, method="dense").certificate.achieved
    assert plan.certificate.achieved == pytest.approx(best, rel=SOLVER)
    assert plan.certificate.gap <= SOLVER and plan.certificate.status == "optimal"
    again = ln.certify(BATCH, plan)
    assert again.lower_bound == pytest.approx(plan.certificate.lower_bound, rel=SOLVER)


@pytest.mark.parametrize(
    ("goal", "objective"),
    [
        (ln.PureDP(1), None),
        (ln.GDP(1, neighbours="replace-one"), None),
        (ln.ZCDP(0.5), ln.MaxVariance()),
        (ln.GDP(1), ln.AbsoluteError()),
    ],
    ids=str,
)
def test_other_goals_and_objectives_are_served_too(goal: Any, objective: Any) -> None:
    """Laplace noise, replaced records and other objectives know nothing of classes."""
    plan = ln.design(BATCH, goal, objective=objective, time_limit=5)
    assert plan.strategy.spent <= goal.budget
    assert ln.certify(BATCH, plan).achieved == pytest.approx(plan.certificate.achieved, rel=SOLVER)


def test_targets_are_met_over_classes() -> None:
    """Within a goal, and at the least cost."""
    asked = ln.assemble([query.having(stderr=12 + i) for i, query in enumerate(QUERIES)], LARGE)
    for goal in (GOAL, None):
        plan = ln.design(asked, goal)
        assert plan.factor is not None and plan.factor <= 1 and plan.certificate.gap <= SOLVER


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(0, LARGE[name].size + 2, n) for name in LARGE.names})


def truth(table: pd.DataFrame) -> list[int]:
    """The counts, by pandas; records with a value that is not declared are in no cell."""
    declared = table[np.logical_and.reduce([table[name] < LARGE[name].size for name in LARGE.names])]
    return [int(declared.eval(query.condition).sum()) for query in QUERIES]


def test_a_release_counts_records_by_class(tmp_path: Path) -> None:
    """From a frame and a file, in memory and by way of files; what is not declared is in no class."""
    plan = ln.design(BATCH, LOUD)
    table = people(5_000, 1)
    table.to_csv(tmp_path / "people.csv", index=False)
    plan.save(tmp_path / "batch.plan")
    loaded = ln.load_plan(tmp_path / "batch.plan")
    assert loaded.digest == plan.digest
    for own, source in ((plan, table), (loaded, tmp_path / "people.csv")):
        with pytest.warns(UnrecordedSpending):
            release = ln.measure(own, source)
        assert np.rint(release.answers).astype(int).tolist() == truth(table)
    assert release.not_counted is not None
    release.save(tmp_path / "batch.release")
    assert (ln.load_release(tmp_path / "batch.release").answers == release.answers).all()
    assert "Standard errors" in ln.summarize(release).text()
    ln.summarize(release).to_html(tmp_path / "page.html")


def test_what_the_classes_tell_can_be_asked_afterwards() -> None:
    """A union of two conditions follows from them; a new one tells cells of a class apart, and is refused."""
    plan = ln.design(BATCH, LOUD)
    table = people(2_000, 2)
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, table)
    known = release.answer(ln.Where("hours >= 40 and sector == 3"))
    assert round(float(known["answer"].iloc[0])) == truth(table)[5]
    with pytest.raises(ln.LeastnoiseError):
        release.answer(ln.Where("age >= 19"))
    with pytest.raises(ln.LeastnoiseError):
        release.answer(ln.Marginal("age"))


def test_a_release_over_classes_is_adjusted() -> None:
    """Cells of one class have equal shares, and answers follow from cells that are no less than zero."""
    schema = ln.Schema(age=range(60), hours=range(70), sector=range(6))
    batch = ln.assemble(
        [ln.Where("age >= 18 and hours >= 40"), ln.Where("age < 18"), ln.Where("sector == 3 and age >= 18")],
        schema,
    )
    plan = ln.design(batch, LOUD)
    assert "classes" in plan.to_parts()[1]
    rng = np.random.default_rng(6)
    table = pd.DataFrame({name: rng.integers(0, schema[name].size, 3_000) for name in schema.names})
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, table)
    adjusted = adjust(release)
    assert adjusted.estimates.shape == (60 * 70 * 6,) and adjusted.estimates.min() >= 0
    truth = [int(table.eval(query.query.condition).sum()) for query in batch.blocks]
    np.testing.assert_allclose(adjusted.answers, truth, atol=0.1)
    np.testing.assert_allclose(batch.operator.apply(release.estimates), release.answers, rtol=1e-9)


@pytest.mark.thorough
def test_methods_are_compared_over_classes() -> None:
    """Where a method takes no millions of cells, it takes their classes."""
    table = ln.compare(BATCH, GOAL, methods=["dense", "plain", "eigen"])
    achieved = {contender.method: contender.achieved for contender in table.contenders}
    assert None not in achieved.values()
    assert achieved["dense"] == pytest.approx(ln.design(BATCH, GOAL).certificate.achieved, rel=SOLVER)


def test_a_ledger_charges_it_and_an_audit_passes(tmp_path: Path) -> None:
    """The charge is the worst of all classes, exactly."""
    plan = ln.design(BATCH, GOAL)
    assert plan.charge.worst == plan.strategy.spent and plan.charge.per_cell is None
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.ApproxDP(2, 1e-5))
    release = ln.measure(plan, people(100, 3), ledger=ledger)
    assert release.answers.shape == (6,) and len(ledger.entries) == 1


def test_a_file_with_other_classes_is_refused(tmp_path: Path) -> None:
    """The classes follow from the queries; a file that says otherwise is no plan."""
    plan = ln.design(BATCH, GOAL)
    content, arrays = plan.to_parts()
    for wrong in (arrays["classes"][::-1][:-1], np.zeros_like(arrays["classes"]), arrays["classes"] + 10**9):
        container.write(tmp_path / "wrong.plan", "plan", content, {**arrays, "classes": wrong})
        with pytest.raises(ln.LeastnoiseError):
            ln.load_plan(tmp_path / "wrong.plan")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_conditions_over_billions_of_cells(seed: int) -> None:
    """At the optimum of the merged columns wherever there are at most 20,000 of them."""
    workload = drawn(3 * seed, (4, 60), 12, 6)
    classes = classes_of(workload)
    plan = ln.design(workload, GOAL, time_limit=10)
    assert classes is None or classes.n > 20_000 or plan.certificate.gap <= SOLVER
