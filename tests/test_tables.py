"""Baselines against brute force, the CSV file, and tables that show names as they are."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import QueryError, UnrecordedSpending
from leastnoise.planning import Plan, design
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.query import (
    AllRanges,
    Bins,
    Cube,
    Linear,
    Marginal,
    MaxVariance,
    Prefix,
    Query,
    Ranges,
    Schema,
    Targets,
    Total,
    TotalVariance,
    Workload,
    assemble,
)
from leastnoise.release import Release, measure
from leastnoise.report import cost_table, cross_table, write_answers
from leastnoise.report.baseline_noise import baselines
from support import refuses
from tolerances import ROUNDING

# The module, which a function of the same name hides in its package.
baseline_noise = sys.modules["leastnoise.report.baseline_noise"]

SCHEMA = Schema(age=range(5), sex=("M", "F"), income=Bins([0, 1, 10]))


def measured(plan: Plan, counts: Any = None) -> Release:
    x = np.arange(plan.workload.shape[1]) if counts is None else counts
    with pytest.warns(UnrecordedSpending):
        return measure(plan, x)


def shown(table: Any, width: int = 200) -> str:
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(table)
    return out.getvalue()


# ---------------------------------------------------------------- baselines


@pytest.mark.thorough
@pytest.mark.parametrize(
    "queries",
    [
        [Total()],
        [Marginal("age", "sex"), Prefix("age", weight=3)],
        [AllRanges("age") * Marginal("sex"), Total(weight=0)],
        [Linear(np.linspace(-1, 2, 40).reshape(2, 20)), Marginal("income")],
        [Marginal("age"), Marginal("age")],
    ],
    ids=lambda queries: queries[0].title(),
)
@pytest.mark.parametrize(
    "goal",
    [
        GDP(0.5),
        ZCDP(2, records_per_person=3),
        ApproxDP(1, 1e-6),
        PureDP(0.7),
        PureDP(2, records_per_person=4),
    ],
    ids=str,
)
def test_baselines_by_brute_force(queries: list[Query], goal: Goal) -> None:
    plan = design(assemble(queries, SCHEMA), goal)
    W = plan.workload.dense()
    k = goal.records_per_person
    if isinstance(goal, PureDP):
        # Laplace noise of scale Δ₁/ε has variance 2 (Δ₁/ε)²; one person moves k records.
        def spread(A: np.ndarray) -> float:
            return math.sqrt(2) * k * np.abs(A).sum(axis=0).max() / float(goal.epsilon)
    else:
        assert goal.mu_squared is not None
        mu = k * math.sqrt(goal.mu_squared)

        def spread(A: np.ndarray) -> float:
            return k * np.linalg.norm(A, axis=0).max() / mu

    found = baselines(plan)
    cells = np.eye(W.shape[1])
    each_cell = np.diag(W @ (spread(cells) ** 2 * cells) @ W.T)
    for way, variances in ((found.per_count, np.full(len(W), spread(W) ** 2)), (found.per_cell, each_cell)):
        parts = [variances[plan.workload.rows_of(name)] for name in plan.workload.names]
        assert way.rms == pytest.approx([math.sqrt(part.mean()) for part in parts], rel=ROUNDING)
        assert way.value == pytest.approx(plan.objective.value(plan.workload, variances), rel=ROUNDING)
        assert not way.is_bound


def test_the_optimum_is_no_worse_than_the_simple_ways() -> None:
    plan = design(assemble([Marginal("age", "sex"), Prefix("age"), Total(weight=5)], SCHEMA), GDP(1))
    simple = baselines(plan)
    least = min(simple.per_count.value, simple.per_cell.value)
    assert plan.certificate.achieved <= least * (1 + plan.certificate.gap)


MIXED = [
    [Prefix("age") * Marginal("sex"), AllRanges("age"), Ranges("age", [(3, 4)]), Total(weight=0.5)],
    [Marginal("income", "age", stderr=3), Prefix("age", stderr=2), Total(stderr=9)],
    [Marginal("age", weight=3), AllRanges("age") * Prefix("income")],
]


def dense_twin(workload: Workload, goal: Goal, objective: Any) -> Plan:
    """The same rows as one matrix, which is no union of products."""
    matrix = Workload.from_matrix(
        workload.dense(), weights=workload.weights, stderr=workload.targets if workload.has_targets else None
    )
    return design(matrix, goal, method="identity", objective=objective)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(MIXED)))
@pytest.mark.parametrize(
    "objective", [TotalVariance(), MaxVariance(), Targets(), TotalVariance(relative_to="uniform")], ids=str
)
@pytest.mark.parametrize("goal", [GDP(0.5), PureDP(2), PureDP(1, neighbours="replace-one")], ids=str)
def test_products_cost_what_their_matrix_costs(number: int, objective: Any, goal: Goal) -> None:
    workload = assemble(MIXED[number], SCHEMA)
    if objective == Targets() and not workload.has_targets:
        objective = TotalVariance()
    found = baselines(design(workload, goal, method="identity", objective=objective))
    other = baselines(dense_twin(workload, goal, objective))
    sizes = [block.n_rows for block in workload.blocks]
    for way, slow in ((found.per_count, other.per_count), (found.per_cell, other.per_cell)):
        assert way.value == pytest.approx(slow.value, rel=ROUNDING)
        assert math.sqrt(np.average(np.square(way.rms), weights=sizes)) == pytest.approx(
            slow.rms[0], rel=ROUNDING
        )
        assert not way.is_bound


def test_a_bound_is_above_and_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = assemble(MIXED[0], SCHEMA)
    for goal in (GDP(1), PureDP(1), GDP(1, neighbours="replace-one"), PureDP(1, neighbours="replace-one")):
        plan = design(workload, goal, method="identity")
        exact = baselines(plan).per_count
        with monkeypatch.context() as patched:
            patched.setattr(baseline_noise, "_MAX_VISITED", 0)
            patched.setattr(baseline_noise, "_MAX_PAIRED_CELLS", 0)
            bound = baselines(plan).per_count
            assert bound.is_bound and not exact.is_bound
            assert bound.value > exact.value * (1 + ROUNDING)
            assert "each count, at most" in shown(cost_table(plan))
        assert "at most" not in shown(cost_table(plan))


def test_cross_tables_need_no_pairs_of_cells_where_records_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page of a plan for a cube of 4,096 cells took a second, nearly all of it for all pairs of cells."""
    workload = assemble([Marginal("age", "sex"), Marginal("income"), Total()], SCHEMA)
    for goal in (GDP(1, neighbours="replace-one"), PureDP(1, neighbours="replace-one")):
        plan = design(workload, goal, method="identity")
        pairs = baselines(dense_twin(workload, goal, plan.objective)).per_count
        with monkeypatch.context() as patched:
            patched.delattr(baseline_noise, "_largest_difference")
            factored = baselines(plan).per_count
        assert not factored.is_bound
        assert factored.value == pytest.approx(pairs.value, rel=ROUNDING)


def test_taking_any_value_for_the_largest_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefix sums count the first value most, later ranges the last: no value is the largest for both."""
    plan = design(assemble(MIXED[0], SCHEMA), GDP(1), method="identity")
    right = baselines(plan).per_count.value
    monkeypatch.setattr(baseline_noise, "_have_common_peak", lambda of_axis: True)
    assert baselines(plan).per_count.value > right * (1 + ROUNDING)


def test_tables_of_any_scale_have_costs() -> None:
    schema = Schema(**{f"a{i}": range(10) for i in range(40)})
    plan = design(assemble([Cube(*schema.names, order=2)], schema), GDP(1))
    simple = baselines(plan)
    # A record is counted once in each of 1 + 40 + 780 tables; a count of two values adds up 10^38 cells.
    assert simple.per_count.rms == pytest.approx((math.sqrt(821),), rel=ROUNDING)
    rows = 10.0**40 + 40 * 10 * 10.0**39 + 780 * 100 * 10.0**38
    assert simple.per_cell.value == pytest.approx(rows, rel=ROUNDING)
    text = shown(cost_table(plan))
    assert "cube of 40 attributes" in text and "×)" in text
    assert max(map(len, text.splitlines())) <= 100


def test_more_cells_than_floats_reach_have_costs() -> None:
    schema = Schema(**{f"a{i}": range(10) for i in range(320)})
    plan = design(assemble([Marginal("a0"), Marginal("a1")], schema), GDP(1), method="marginals")
    assert baselines(plan).per_cell.value == math.inf
    assert "inf" in shown(cost_table(plan))


# ---------------------------------------------------------------- CSV


def read_back(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_numbers_parse_back(tmp_path: Path) -> None:
    plan = design(assemble([Marginal("age", "sex"), Total(name="all")], SCHEMA), GDP(1))
    release = measured(plan)
    path = write_answers(release, tmp_path / "a.csv", level=0.9)
    assert path == tmp_path / "a.csv"
    head, *rows = read_back(path)
    assert head == ["query", "label", "age", "sex", "answer", "stderr", "lower_90", "upper_90"]
    assert [row[0] for row in rows] == ["age x sex"] * 10 + ["all"]
    assert [row[1] for row in rows] == list(plan.workload.labels)
    figures = np.array([[float(cell) for cell in row[4:]] for row in rows])
    expected = np.column_stack([release.answers, release.stderr, *release.interval(0.9)])
    assert figures == pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)
    assert list(tmp_path.iterdir()) == [path]


def test_large_counts_keep_their_units(tmp_path: Path) -> None:
    """Ten digits used to round a count of 10^12 to hundreds, far beyond its standard error."""
    plan = design(assemble([Total()], Schema(a=("x",))), GDP(1))
    release = measured(plan, [2**40 - 1])
    (_, row) = read_back(write_answers(release, tmp_path / "a.csv"))
    assert abs(float(row[2]) - release.answers[0]) <= 0.5


FORMULAS = [
    "=cmd()",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\n=x",
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
]


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_formulas_become_text(text: str, tmp_path: Path) -> None:
    queries = [Linear([[1, 1]], labels=[text], name=text), Total(name=f"a{text}")]
    release = measured(design(assemble(queries, Schema(a=("x", "y"))), GDP(1)))
    _, first, second = read_back(write_answers(release, tmp_path / "a.csv"))
    # Control characters are written out.
    written = text.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
    assert first[:2] == [f"'{written}"] * 2
    assert second[0] == f"a{written}"


def test_an_attribute_cannot_begin_a_formula(tmp_path: Path) -> None:
    schema = Schema(**{"=1+1": ("=2", '"x", y')})
    release = measured(design(assemble([Marginal("=1+1")], schema), GDP(1)))
    _, first, second = read_back(write_answers(release, tmp_path / "a.csv"))
    assert (first[0], first[1], second[1]) == ("'=1+1", "'=1+1 =2", '\'=1+1 "x", y')


def test_labels_outside_unicode_are_written_out(tmp_path: Path) -> None:
    """A lone surrogate used to stop the writing after the privacy was spent."""
    release = measured(design(assemble([Marginal("a")], Schema(a=("x\udc80",))), GDP(1)))
    assert read_back(write_answers(release, tmp_path / "a.csv"))[1][1] == "a x\\udc80"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = measured(design(assemble([Marginal("a")], Schema(a=("x", "y"))), GDP(1)))
    path = tmp_path / "a.csv"
    path.write_text("before")

    def broken(text: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leastnoise.report.answers.no_formula", broken)
    with pytest.raises(OSError, match="No space left"):
        write_answers(release, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- tables


def test_cross_table_follows_the_schema() -> None:
    schema = Schema(region=("south", "north", "east"), sex=("M", "F"))
    release = measured(design(assemble([Marginal("sex", "region", name="t")], schema), GDP(1)))
    lines = shown(cross_table(release, "t")).splitlines()
    assert lines[0].split() == ["t", "(±", "at", "95%)"]
    assert lines[1].split() == ["region", "M", "F"]
    assert [line.split()[0] for line in lines[3:]] == ["south", "north", "east"]
    answers = [re.findall(r"(-?[\d,]+) ± (\d+)", line) for line in lines[3:]]
    assert [[int(answer) for answer, _ in row] for row in answers] == np.round(
        release.answers.reshape(3, 2)
    ).astype(int).tolist()


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_what_cross_table_shows_covers_the_interval(level: float) -> None:
    """The level used to be in the title only; and 22.4 was shown as 22, which covers less than it says.

    A ± at other levels than 95% would have a second meaning: they have their intervals beside them.
    """
    release = measured(design(assemble([Marginal("age", "sex", name="t")], SCHEMA), ApproxDP(1, 1e-6)))
    text = shown(cross_table(release, "t", level=level))
    assert f"({'±' if level == 0.95 else 'intervals'} at {100 * level:g}%)" in text
    assert ("±" in text) == (level == 0.95)
    lower, upper = release.interval(level)
    pairs = re.findall(r"(\S+) ± (\S+)", text)
    found = [(float(answer) - float(margin), float(answer) + float(margin)) for answer, margin in pairs]
    found += [(float(low), float(high)) for low, high in re.findall(r"\((\S+) to (\S+)\)", text)]
    assert len(found) == 10
    for (least, most), low, high in zip(found, lower, upper, strict=True):
        assert least <= low and high <= most
        assert most - least <= high - low + 3


def test_cross_table_of_a_product_and_of_repeated_ranges() -> None:
    """Looking answers up by label used to fail where two ranges share a label."""
    repeated = Ranges("age", [(0, 2), (0, 2), (3, 4)]) * Marginal("sex")
    release = measured(design(assemble([repeated.having(name="t")], SCHEMA), GDP(1)))
    lines = shown(cross_table(release, "t")).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["0–2", "0–2", "3–4"]
    assert lines[3] == lines[4]


def test_cross_table_refuses_other_shapes() -> None:
    plan = design(
        assemble([Total(name="n"), Marginal("age", name="a"), Linear([[1] * 20], name="l")], SCHEMA), GDP(1)
    )
    release = measured(plan)
    for name, attributes in (("n", 0), ("a", 1), ("l", 0)):
        with refuses(QueryError, "name", ..., f"two attributes, query '{name}' has {attributes}"):
            cross_table(release, name)
    with refuses(QueryError, "query", "x"):
        cross_table(release, "x")


def test_cost_table_holds_what_it_says() -> None:
    plan = design(assemble([Marginal("age", "sex", name="cells"), Total(name="all")], SCHEMA), GDP(0.1))
    simple = baselines(plan)
    lines = shown(cost_table(plan)).splitlines()
    (row,) = (line.split() for line in lines if line.strip().startswith("cells"))
    assert plan.stderr is not None
    ours = math.sqrt(np.mean(plan.stderr[:10] ** 2))
    count, cell = simple.per_count.rms[0], simple.per_cell.rms[0]
    assert row[1:] == [
        f"{ours:.1f}",
        f"{count:.1f}",
        f"({count / ours:.1f}×)",
        f"{cell:.1f}",
        f"({cell / ours:.1f}×)",
    ]
    assert lines[-1].split()[:2] == ["total", "variance"]
    assert float(lines[-1].split()[2].replace(",", "")) == pytest.approx(plan.certificate.achieved, abs=0.5)


def test_cost_table_of_nothing_and_of_little() -> None:
    """Queries that are all zero cost nothing, and used to be divided by."""
    nothing = design(Workload.from_matrix(np.zeros((2, 3))), GDP(1))
    assert shown(cost_table(nothing)).splitlines()[-1].split()[2:] == ["0.0", "0.0", "0.0"]
    little = design(Workload.from_matrix(1e-4 * np.eye(3)), GDP(1))
    assert "0.0001" in shown(cost_table(little))


def test_tables_fit_the_terminal() -> None:
    names = ["income distribution by region", "everyone"]
    plan = design(assemble([Marginal("age", name=names[0]), Total(name=names[1])], SCHEMA), GDP(1e-2))
    wide, usual, narrow = (shown(cost_table(plan), width) for width in (200, 80, 60))
    assert names[0] in usual
    for text, width in ((wide, 200), (usual, 80), (narrow, 60)):
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        assert re.findall(r"[\d,.]+", narrow) == re.findall(r"[\d,.]+", text)


NASTY = ["[bold]x[/bold]", "[red]", "[/]", ":smile:", "a\x1b[31mb", "two\nlines", "\u202eright", "[link=x]y"]


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_names_are_shown_as_they_are(nasty: str) -> None:
    """A title used to be read as markup, and escape codes reached the terminal."""
    schema = Schema(**{nasty: (nasty, "other"), "b": (nasty + "2", "other")})
    plan = design(assemble([Marginal(nasty, "b", name=nasty)], schema), GDP(1))
    literal = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in nasty)
    cross = shown(cross_table(measured(plan), nasty))
    assert cross.count(literal) == 4  # the title, the attribute, a row and a column
    assert literal in shown(cost_table(plan))
    for text in (cross, shown(cost_table(plan))):
        assert all(c.isprintable() or c == "\n" for c in text)
