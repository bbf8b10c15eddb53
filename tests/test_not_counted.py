"""How many records no declared cell took: the right number, noise within the budget, and where it stands."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import random
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import leastnoise as ln
from joint_audit import told_apart
from leastnoise.core import container
from leastnoise.core.errors import (
    InputError,
    LeastnoiseError,
    LedgerMismatchError,
    PlanFileError,
    RecordsNotCounted,
)
from leastnoise.data import vectorize
from leastnoise.privacy import CellCosts, Charge, Goal, noise_named
from leastnoise.privacy.accounting import Tally, charge_from_parts, tally_of
from leastnoise.release import NotCounted, measured, with_noise, within_cost
from leastnoise.report import write_answers
from test_data import Table, as_csv, as_pandas, as_parquet
from test_statistics import SeededBits

SCHEMA = ln.Schema(
    age=ln.Integers(range(4), null="other", other="?"),
    sex=("F", "M"),
    income=ln.Bins([0, 10, 20], outside="clamp"),
)
NAMES = SCHEMA.names


def random_table(seed: int, n: int = 60) -> Table:
    """Records of which some have no cell, by one attribute or several, and some are of nobody."""
    chance = random.Random(seed)
    return {
        "age": ("text", [chance.choice(["0", "1", "3", "7", "x", None]) for _ in range(n)]),
        "sex": ("text", [chance.choice(["F", "M", " M", None]) for _ in range(n)]),
        "income": ("text", [chance.choice(["-3", "5", "99", "5,5", None]) for _ in range(n)]),
        "id": ("text", [chance.choice([None, "n/a", *"abcde"]) for _ in range(n)]),
    }


def by_hand(table: Table, schema: ln.Schema, k: int | None) -> tuple[Any, int, list[int]]:
    """Counts, records in no cell, and those by attribute, by loops over records; at most k of a person."""
    columns = {name: values for name, (_, values) in table.items()}
    records = []
    for i in range(len(columns["id"])):
        cells = tuple(schema[name].place(columns[name][i]) for name in schema.names)
        records.append((columns["id"][i], cells))
    if k is not None:
        kept = []
        for who in {who for who, _ in records} - {None, "n/a"}:
            own = [cells for other, cells in records if other == who]
            keyed = []
            for cells in own:
                text = ",".join(str(-1 if cell is None else cell) for cell in cells)
                keyed.append((None in cells, hashlib.md5(f"{who},{text}".encode()).hexdigest(), text, cells))
            kept += [(who, cells) for *_, cells in sorted(keyed)[:k]]
        records = kept
    counts = np.zeros(schema.shape, dtype=int)
    rest = [cells for _, cells in records if None in cells]
    for _, cells in records:
        if None not in cells:
            counts[cells] += 1
    return counts, len(rest), [sum(cells[j] is None for cells in rest) for j in range(len(schema.names))]


def counts_as_by_hand(source: Any, table: Table, k: int | None) -> bool:
    who = {} if k is None else {"person": "id", "person_unknown": ["n/a"]}
    data = vectorize(source, SCHEMA, **who)
    found = data.counted([NAMES, ("sex",), ()], NAMES, records_per_person=k)
    counts, n_rest, n_left_out = by_hand(table, SCHEMA, k)
    sums = [counts, counts.sum(axis=(0, 2)), counts.sum()]
    same = all(np.array_equal(mine, theirs) for mine, theirs in zip(found.tables, sums, strict=True))
    return same and found.n_rest == n_rest and list(found.n_left_out) == n_left_out


@pytest.mark.thorough
@pytest.mark.parametrize("k", [None, 1, 2])
def test_files_and_frames_count_as_loops_over_records(k: int | None, tmp_path: Path) -> None:
    for seed in range(3):
        table = random_table(seed)
        for source in (as_csv, as_parquet, as_pandas):
            assert counts_as_by_hand(source(table, tmp_path), table, k), source


def test_lines_that_are_no_records_are_in_neither_number(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b'age,sex,income\n0,F,5\n1,M\n2,F,5\n0,X,5\n0,"F,5\n1,\xff,5\n')
    found = vectorize(path, SCHEMA).counted([()])
    assert (int(found.tables[0]), found.n_rest) == (2, 1)


def test_records_without_a_cell_displace_none_and_are_bounded(tmp_path: Path) -> None:
    """One person with a thousand records that match nothing adds k of them, and loses no other."""
    rows = [("p", "M", 0)] + [("p", "x", i) for i in range(1000)]
    frame = pandas.DataFrame(rows, columns=["id", "sex", "n"])
    data = vectorize(frame, ln.Schema(sex=("F", "M")), person="id")
    for k, expected in ((1, (1, 0)), (3, (1, 2))):
        found = data.counted([()], records_per_person=k)
        assert (int(found.tables[0]), found.n_rest) == expected


def test_counts_show_nothing_by_themselves() -> None:
    data = vectorize(pandas.DataFrame({"sex": ["F", "x"]}), ln.Schema(sex=("F", "M")))
    assert "1" not in repr(data.counted([("sex",)])).replace("1 tables", "")


# ------------------------------------------------------------------ the price

GOALS = (
    ln.GDP(1),
    ln.GDP(30),
    ln.PureDP(Fraction(1, 3)),
    ln.PureDP(1, records_per_person=3),
    ln.ApproxDP(0.1, 1e-9),
)
SMALL = ln.Schema(age=range(4), sex=("F", "M"))
BATCH = [ln.Marginal("age", "sex"), ln.Prefix("age")]


@cache
def plan_of(goal: Any, method: str = "auto") -> ln.Plan:
    return ln.design(ln.assemble(BATCH, SMALL), goal, method=method)


def released(plan: ln.Plan, source: Any, **options: Any) -> ln.Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ln.measure(plan, source, **options)


FRAME = pandas.DataFrame({"age": [0, 1, 2, 3, 9] * 80, "sex": ["F", "M", " M", "F", "F"] * 80})


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("attributes", [(), ("age", "sex")])
def test_no_cell_costs_at_most_what_the_dearest_cell_does(goal: Any, attributes: tuple[str, ...]) -> None:
    """The combined strategy in integers: its worst column is that of the plan alone, and not dearer."""
    plan = plan_of(goal, "identity")
    row = within_cost(plan.privacy.noise, plan.charge.worst, attributes)
    own, power = plan.fixed_strategy(), plan.privacy.noise.power
    rows = len(attributes) + 1
    # Over one scale: rows of the plan times the scale of the number, and the other way round.
    A = np.array(own.dense(), dtype=object) * row.scale
    joined = np.block(
        [
            [A, np.zeros((len(A), 1), dtype=object)],
            [
                np.zeros((rows, A.shape[1]), dtype=object),
                np.full((rows, 1), row.factor * own.scale, dtype=object),
            ],
        ]
    )
    costs = [sum(abs(int(a)) ** power for a in column) for column in joined.T]
    unit = (own.scale * row.scale) ** power
    assert Fraction(max(costs), unit) == plan.charge.worst
    assert plan.charge.worst * Fraction(999, 1000) <= row.cost <= plan.charge.worst
    assert plan.charge.with_no_cell(row.cost).per_person == plan.charge.per_person


def test_a_ledger_charges_what_the_plan_alone_costs(tmp_path: Path) -> None:
    plan = plan_of(ln.GDP(1), "identity")
    path = as_csv({"age": ("text", ["0", "9"] * 30), "sex": ("text", ["F"] * 60)}, tmp_path)
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(1))
    release = ln.measure(plan, path, ledger=ledger, release_id="first")
    (entry,) = ledger.entries
    assert entry.charged == plan.charge.worst == entry.charge.per_cell.largest
    assert 0 < entry.charge.no_cell == release.not_counted.row.cost <= entry.charge.worst
    ledger.verify()
    again = ln.measure(plan, path, ledger=ledger, release_id="first")
    assert again.not_counted == release.not_counted and len(ledger.entries) == 1
    assert ln.Ledger(tmp_path / "town.ledger").entries[0].charge == entry.charge


def test_a_second_release_of_one_table_tells_it_only_if_asked_and_then_pays(tmp_path: Path) -> None:
    """The cell "none" adds up like every other, and here stays below them."""
    path = as_csv({"age": ("text", ["0", "9"] * 30), "sex": ("text", ["F"] * 60)}, tmp_path)
    first, second = plan_of(ln.GDP(1), "identity"), plan_of(ln.GDP(Fraction(1, 2)), "identity")
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(4))
    ln.measure(first, path, ledger=ledger, release_id="first", not_counted=False)
    assert ln.measure(second, path, ledger=ledger, same_table_as="first").not_counted is None
    asked = ln.measure(second, path, ledger=ledger, same_table_as="first", not_counted=True)
    assert asked.not_counted is not None
    none, free, paid = ledger.entries
    assert none.charge.no_cell == free.charge.no_cell == 0 < paid.charge.no_cell
    # The dearest cell has three releases behind it, "none" only the last.
    assert paid.charged == second.charge.worst


def test_sums_of_a_group_count_no_cell_as_one_more() -> None:
    """By an oracle that holds "no cell" as a cell at the end."""
    chance = random.Random(3)
    for _ in range(200):
        k = chance.choice([1, 3])
        noise = chance.choice(["gaussian", "laplace"])
        tally, sums, total = Tally(), [Fraction(0)] * 4, Fraction(0)
        for number in range(chance.randint(1, 4)):
            costs = [Fraction(chance.randint(0, 5), 7) for _ in range(4)]
            cells = CellCosts.of(costs[:3])
            charge = Charge(noise, "add-remove", k, cells.largest, cells, "c", f"p{number}")
            charge = charge.with_no_cell(costs[3])
            assert charge.worst == max(costs)
            assert charge_from_parts(*charge.to_parts()) == charge
            sums = [a + b for a, b in zip(sums, costs, strict=True)]
            total += max(costs)
            tally = tally.plus(charge, group="town")
        times = k**2 if noise == "gaussian" else k
        found = tally.mu_squared if noise == "gaussian" else tally.epsilon
        assert found == times * max(sums)
        assert tally.slack(noise, "town") == max(sums) - min(sums[:3])


def test_a_charge_from_before_reads_and_writes_as_it_did() -> None:
    cells = CellCosts((1, 2), 4)
    charge = Charge("gaussian", "add-remove", 1, cells.largest, cells, "c", "p")
    content, packed = charge.to_parts()
    assert "no_cell" not in content and charge_from_parts(content, packed) == charge
    for wrong in ("0/1", "3/4", "x", None):
        with pytest.raises(LeastnoiseError):
            charge_from_parts({**content, "no_cell": wrong}, packed)


def test_replacing_a_record_pays_for_it_and_only_if_asked(tmp_path: Path) -> None:
    plan = plan_of(ln.GDP(1, neighbours="replace-one"), "identity")
    assert released(plan, FRAME).not_counted is None
    found = released(plan, FRAME, not_counted=True)
    cost = found.not_counted.row.cost
    # A record that moves from the dearest cell to none changes both.
    A = np.array(plan.fixed_strategy().dense(), dtype=object)
    moved = max(sum(int(a) ** 2 for a in column) for column in A.T)
    own = Fraction(moved, plan.fixed_strategy().scale ** 2) + cost
    assert own <= found.spent_per_person == plan.spent_per_person + cost
    assert "not free" in str(ln.summarize(found))
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(2, neighbours="replace-one"))
    ln.measure(plan, FRAME, ledger=ledger, not_counted=True)
    assert ledger.entries[0].charged == found.spent_per_person
    assert tally_of([ledger.entries[0].charge]).mu_squared == found.spent_per_person


# ------------------------------------------------------------------ the noise


def test_the_number_and_its_interval_are_right() -> None:
    """10,000 draws of each kind: the mean, the standard error, and how often intervals hold the number."""
    for noise, room in (
        ("gaussian", Fraction(1, 9)),
        ("laplace", Fraction(1, 5)),
        ("laplace", Fraction(7, 3)),
    ):
        row = within_cost(noise_named(noise), room)
        truth = 41
        many = with_noise(_Many(row, 10_000), row.multiplied([truth] * 10_000), SeededBits(7))
        found = [NotCounted(row, (int(value),)) for value in many]
        errors = np.array([one.estimate - truth for one in found])
        stderr = found[0].stderr
        # Five standard errors of a mean, of a variance (kurtosis up to 6) and of a share.
        assert abs(errors.mean()) < 5 * stderr / 100
        assert abs(errors.var() / stderr**2 - 1) < 5 * math.sqrt(5 / 10_000)
        held = np.mean([one.interval(0.9)[0] <= truth <= one.interval(0.9)[1] for one in found])
        assert held > 0.9 - 5 * math.sqrt(0.09 / 10_000)
        if noise == "gaussian":
            assert held < 0.9 + 5 * math.sqrt(0.09 / 10_000)


class _Many:
    """A row measured many times, for `with_noise`."""

    def __init__(self, row: Any, n: int) -> None:
        self.noise, self.scale, self.n_measured = row.noise, row.scale, n


@pytest.mark.parametrize("method", ["identity", "dense", "marginals", "residuals", "joint"])
def test_every_kind_of_strategy_has_it(method: str) -> None:
    queries = BATCH if method in ("identity", "dense") else [ln.Marginal("age"), ln.Marginal("age", "sex")]
    plan = ln.design(ln.assemble(queries, SMALL), ln.GDP(100), method=method)
    release = released(plan, FRAME)
    assert abs(release.not_counted.estimate - 160) < 1
    assert len(release.answers) == plan.workload.shape[0]
    assert abs(release.n_counted - 240) < 1


@pytest.mark.parametrize(("goal", "method"), [(ln.PureDP(50), "dawa"), (ln.GDP(50), "buckets")])
def test_a_plan_that_depends_on_the_data_has_it_too(goal: Goal, method: str) -> None:
    ages = ln.Schema(age=range(4))
    plan = ln.design(ln.assemble([ln.Prefix("age")], ages), goal, method=method)
    release = released(plan, FRAME)
    assert abs(release.not_counted.estimate - 80) < 10 and release.not_counted.row.cost <= goal.budget


def test_by_attribute_it_is_told_with_more_noise() -> None:
    plan = plan_of(ln.GDP(100), "identity")
    release = released(plan, FRAME, not_counted=["sex", "age"])
    numbers = release.not_counted.by_attribute
    assert list(numbers) == ["sex", "age"]
    assert [round(number.estimate) for number in numbers.values()] == [80, 80]
    alone = released(plan, FRAME).not_counted
    assert release.not_counted.stderr == pytest.approx(math.sqrt(3) * alone.stderr, rel=1e-3)


# ------------------------------------------------------------------ where it is off, and refusals


def test_where_nothing_can_be_left_out_there_is_none() -> None:
    plan = plan_of(ln.GDP(1), "identity")
    assert released(plan, [1] * 8).not_counted is None
    with pytest.raises(InputError) as refused:
        ln.measure(plan, [1] * 8, not_counted=True)
    assert refused.value.field == "not_counted"
    assert released(plan, FRAME, not_counted=False).not_counted is None
    nothing = ln.design(ln.assemble([ln.Where("age < 0")], SMALL), ln.GDP(1))
    assert released(nothing, FRAME).not_counted is None


@pytest.mark.parametrize("wrong", ["age", ["age", "age"], ["income"], [1], 3])
def test_what_is_no_attribute_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError) as refused:
        ln.measure(plan_of(ln.GDP(1), "identity"), FRAME, not_counted=wrong)
    assert refused.value.field == "not_counted"


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "x", True, math.nan])
def test_a_share_lies_between_none_and_all(wrong: Any) -> None:
    with pytest.raises(InputError) as refused:
        ln.measure(plan_of(ln.GDP(1), "identity"), FRAME, most_not_counted=wrong)
    assert refused.value.field == "most_not_counted"


def test_a_plan_designed_after_others_leaves_it_to_the_first(tmp_path: Path) -> None:
    first = ln.design(ln.assemble([ln.Where("age < 2")], SMALL), ln.GDP(1), method="dense")
    then = ln.design(ln.assemble([ln.Where("age >= 2")], SMALL), ln.GDP(1), method="dense", after=[first])
    path = as_csv({"age": ("text", ["0", "9"] * 30), "sex": ("text", ["F"] * 60)}, tmp_path)
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(1))
    assert ln.measure(first, path, ledger=ledger).not_counted is not None
    with pytest.raises((InputError, LedgerMismatchError)):
        ln.measure(then, path, ledger=ledger, not_counted=True)
    assert ln.measure(then, path, ledger=ledger).not_counted is None


# ------------------------------------------------------------------ what is kept and shown


def test_a_release_keeps_it_and_a_forged_one_is_refused(tmp_path: Path) -> None:
    release = released(plan_of(ln.GDP(1), "identity"), FRAME, not_counted=["age"], most_not_counted=0.01)
    path = release.save(tmp_path / "a.release")
    assert ln.load_release(path).not_counted == release.not_counted
    assert ln.adjust(release).not_counted == release.not_counted
    content, arrays = container.read(path, "release")
    said = content["not_counted"]
    for change in (
        {"scale": str(int(said["scale"]) - 1)},  # less noise than the goal asks
        {"factor": 0},
        {"factor": 2**70},
        {"attributes": ["age", "sex"]},
        {"attributes": ["other"]},
        {"most": 2},
        {"scale": "x"},
        {"scale": 7},
        {"further": 1},
    ):
        forged = {**content, "not_counted": {**said, **change}}
        with pytest.raises(PlanFileError):
            ln.load_release(container.write(tmp_path / "b.release", "release", forged, arrays))
    del content["not_counted"]
    older = container.write(tmp_path / "c.release", "release", content, arrays)
    assert ln.load_release(older).not_counted is None


def test_it_stands_beside_the_answers_in_every_file(tmp_path: Path) -> None:
    release = released(plan_of(ln.GDP(1), "identity"), FRAME, not_counted=["age"])
    path = write_answers(release, tmp_path / "a.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(release.answers) + 2 and len(release.to_frame()) == len(release.answers)
    assert [row["query"] for row in rows[-2:]] == ["not counted"] * 2
    low, high = release.not_counted.interval()
    ends = [float(rows[-2][name]) for name in ("answer", "lower_95", "upper_95")]
    assert ends == pytest.approx([release.not_counted.estimate, low, high], rel=1e-12)
    found = json.loads(write_answers(release, tmp_path / "a.json").read_text())
    assert found["not_counted"][0]["answer"] == release.not_counted.estimate
    assert found["warnings"] == list(release.warnings) and len(found["answers"]) == len(release.answers)


def test_a_release_warns_above_the_declared_share_and_not_below(tmp_path: Path) -> None:
    """A CSV with a blank after every comma was published as noise around zero, and nothing said so."""
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "0, F\n1, M\n" * 500)
    plan = plan_of(ln.GDP(1), "identity")
    release = released(plan, path)
    (sentence,) = release.warnings
    assert "1,00" in sentence or "99" in sentence
    assert sentence in str(release)
    assert f"WARNING: {sentence}"[:60] in str(ln.summarize(release))
    page = ln.summarize(release).html()
    assert 'class="care">Warning: about' in page
    assert released(plan, FRAME, most_not_counted=0.6).warnings == ()
    assert released(plan, FRAME, most_not_counted=0.2).warnings


def left_out(seen: Any) -> list[str]:
    return [str(one.message) for one in seen if one.category is RecordsNotCounted]


def test_measure_warns_by_the_released_number_and_points_at_the_call(tmp_path: Path) -> None:
    """In Python, 99.8% of a table could be missing in silence."""
    plan = plan_of(ln.GDP(1), "identity")
    table = pandas.DataFrame({"age": [0] * 2 + [9] * 998, "sex": ["F"] * 1000})
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(1))
    with pytest.warns(ln.LeastnoiseWarning) as seen:
        release = ln.measure(plan, table, ledger=ledger, release_id="first")
    (said,) = left_out(seen)
    (sentence,) = release.warnings
    assert said.startswith(sentence) and "leastnoise check" in said
    (warned,) = seen
    assert warned.filename == __file__
    # What is stored is handed out with the same words, whatever the table holds by now.
    with pytest.warns(RecordsNotCounted) as again:
        ln.measure(plan, FRAME.iloc[:4], ledger=ledger, release_id="first")
    assert left_out(again) == [said]


def test_measure_warns_of_no_more_than_was_expected() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ln.measure(plan_of(ln.GDP(1), "identity"), FRAME, most_not_counted=0.6)
        ln.measure(plan_of(ln.GDP(1), "identity"), FRAME, not_counted=False)
        ln.measure(plan_of(ln.GDP(1), "identity"), [1] * 8)
    assert left_out(seen) == []


def test_the_warning_rests_on_the_noisy_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables with the same noisy numbers: one warning, though only one of them has records left out."""
    plan = plan_of(ln.GDP(1), "identity")
    noisy = released(plan, FRAME)
    monkeypatch.setattr("leastnoise.release.measuring._released", lambda *_, **__: noisy)
    with pytest.warns(ln.LeastnoiseWarning) as seen:
        ln.measure(plan, pandas.DataFrame({"age": [0, 1], "sex": ["F", "M"]}))
    assert left_out(seen)[0].startswith(noisy.warnings[0])


@pytest.mark.thorough
def test_noise_alone_warns_of_nothing() -> None:
    """Of an empty table; one false alarm in a million each."""
    plan = plan_of(ln.GDP(1), "identity")
    empty = FRAME.iloc[:0]
    assert not any(released(plan, empty).warnings for _ in range(20))


# ------------------------------------------------------------------ telling two tables apart


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [ln.GDP(1), ln.PureDP(1)], ids=str)
@pytest.mark.parametrize("value", ["x", "F"], ids=["in no cell", "in a cell"])
def test_the_joint_output_keeps_the_promise(goal: Any, value: str) -> None:
    """The best test between tables that differ by all records of some persons sees no more than promised."""
    assert told_apart(goal, value) <= 1


def test_answers_do_not_depend_on_records_without_a_cell() -> None:
    """With the same bits, further records that match nothing change no noisy integer of the plan."""
    plan = plan_of(ln.GDP(1), "identity")
    some, more = FRAME, pandas.concat([FRAME, pandas.DataFrame({"age": [77] * 50, "sex": ["F"] * 50})])
    drawn = [measured(plan, vectorize(t, SMALL).vector(), SeededBits(4)).tolist() for t in (some, more)]
    assert drawn[0] == drawn[1]
