"""Records per person: which ones stay is a matter between a person and a fixed hash."""

from __future__ import annotations

import hashlib
import html
import math
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.core import container
from leastnoise.core.errors import DataError, PlanFileError, SchemaError, UnrecordedSpending
from leastnoise.data import vectorize
from leastnoise.query import Bins, Categories, Integers, Schema
from leastnoise.release import counts_of
from leastnoise.release.release_file import stored_release
from leastnoise.report import page
from leastnoise.report.plan_sentences import who_is_protected
from support import refuses
from test_data import EXTRAS, PLAIN, SOURCES, Table, as_csv, as_pandas, as_parquet, as_parts

SCHEMA = Schema(
    age=Integers(range(0, 90, 30), outside="clamp"),
    sex=Categories(("F", "M"), null="other", other="not said"),
)
Record = tuple[Any, Any, Any]
Rule = Callable[[list[Record], int], np.ndarray]


def counted(plan: Any, source: Any) -> Any:
    return counts_of(plan.workload, source, plan.privacy.records_per_person)


def records(n: int = 200, seed: int = 5) -> list[Record]:
    """Persons with one to many records, some that no cell takes, some of nobody."""
    chance = random.Random(seed)
    who = [None, *(f"p{int(chance.expovariate(0.1))}" for _ in range(n)), "", " p1", "p1,0", 'o"p']
    ages = [None, 0, 29, 30, 31, 60, 500, -3]
    return [(chance.choice(who), chance.choice(ages), chance.choice(["F", "M", "x", None])) for _ in range(n)]


def table_of(rows: list[Record]) -> Table:
    person, age, sex = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return {"sex": ("text", sex), "id": ("text", person), "age": ("int", age)}


def placed(rows: list[Record]) -> list[tuple[str, tuple[int, ...]]]:
    """Person and cell of every record that counts at all."""
    found = []
    for person, age, sex in rows:
        cell = (SCHEMA["age"].place(age), SCHEMA["sex"].place(sex))
        if person is not None and None not in cell:
            found.append((person, cell))
    return found


def kept_by_hash(rows: list[Record], k: int) -> np.ndarray:
    """The documented rule in a loop."""
    own: dict[str, list[tuple[int, ...]]] = {}
    for person, cell in placed(rows):
        own.setdefault(person, []).append(cell)
    x = np.zeros(SCHEMA.shape, dtype=np.int64)
    for person, cells in own.items():

        def order(cell: tuple[int, ...], person: str = person) -> str:
            return hashlib.md5(",".join([person, *map(str, cell)]).encode()).hexdigest()

        for cell in sorted(cells, key=order)[:k]:
            x[cell] += 1
    return x.ravel()


def kept_in_row_order(rows: list[Record], k: int) -> np.ndarray:
    """A broken twin: the first k records as they come."""
    seen: dict[str, int] = {}
    x = np.zeros(SCHEMA.shape, dtype=np.int64)
    for person, cell in placed(rows):
        seen[person] = seen.get(person, 0) + 1
        x[cell] += seen[person] <= k
    return x.ravel()


def kept_by_hash_of_the_cell_count(rows: list[Record], k: int) -> np.ndarray:
    """A broken twin: the k cells of a person that are rarest among everybody."""
    everyone = [cell for _, cell in placed(rows)]
    own: dict[str, list[tuple[int, ...]]] = {}
    for person, cell in placed(rows):
        own.setdefault(person, []).append(cell)
    x = np.zeros(SCHEMA.shape, dtype=np.int64)
    for cells in own.values():
        for cell in sorted(cells, key=lambda cell: (everyone.count(cell), cell))[:k]:
            x[cell] += 1
    return x.ravel()


def kept_without_a_limit(rows: list[Record], k: int) -> np.ndarray:
    """A broken twin: everything."""
    return kept_in_row_order(rows, len(rows))


def kept_by_engine(rows: list[Record], k: int) -> np.ndarray:
    data = vectorize(as_pandas(table_of(rows), Path()), SCHEMA, person="id")
    return data.vector(records_per_person=k)


def obeys(rule: Rule, rows: list[Record], k: int, chance: random.Random) -> bool:
    """Whether order does not matter, and each person adds the same at most k, whoever else is there."""
    x = rule(rows, k)
    shuffled = chance.sample(rows, len(rows))
    if not np.array_equal(rule(shuffled, k), x):
        return False
    persons = {row[0] for row in rows} - {None}
    for person in sorted(persons)[:12]:
        alone = rule([row for row in rows if row[0] == person], k)
        without = rule([row for row in rows if row[0] != person], k)
        if not np.array_equal(x - without, alone) or np.abs(alone).sum() > k:
            return False
    return True


# ------------------------------------------------------------------ the guarantee


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_person_changes_the_counts_by_at_most_k(k: int) -> None:
    assert obeys(kept_by_engine, records(), k, random.Random(k))
    assert obeys(kept_by_hash, records(), k, random.Random(k))


@pytest.mark.parametrize("twin", [kept_in_row_order, kept_by_hash_of_the_cell_count, kept_without_a_limit])
def test_broken_truncation_is_noticed(twin: Rule) -> None:
    assert not obeys(twin, records(), 2, random.Random(2))


@pytest.mark.thorough
@SOURCES
def test_every_source_keeps_the_same_records(source: Callable[[Table, Path], Any]) -> None:
    """Row order, chunks, types of column and engine make no difference."""
    rows = records(300, seed=8)
    with tempfile.TemporaryDirectory() as folder:
        data = vectorize(source(table_of(rows), Path(folder)), SCHEMA, person="id")
        for k in (1, 3, 10**30):
            x = data.vector(records_per_person=k)
            assert x.tolist() == kept_by_hash(rows, k).tolist()
            assert (
                data.counts("sex", records_per_person=k).tolist() == x.reshape(SCHEMA.shape).sum(0).tolist()
            )


rows_of_few = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b", "", "a,0", "é"]),
        st.sampled_from([None, 1, 40, 99]),
        st.sampled_from(["F", "M", None]),
    ),
    max_size=14,
)


@pytest.mark.thorough
@given(rows=rows_of_few, k=st.integers(1, 4), parts=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_table_is_cut_as_documented(rows: list[Record], k: int, parts: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = (as_parts if parts else as_pandas)(table_of(rows), Path(folder))
        found = vectorize(source, SCHEMA, person="id").vector(records_per_person=k)
    assert found.tolist() == kept_by_hash(rows, k).tolist()


# ------------------------------------------------------------------ the earliest periods first

VISITS = Schema(sex=("F", "M"), day=range(6))


def visits(n: int = 60, seed: int = 0) -> Table:
    """Few persons with many records each over six days; some records no cell takes, some are nobody's."""
    chance = random.Random(seed)
    return {
        "sex": ("text", [chance.choice(["F", "M", "F", "M", "x", None]) for _ in range(n)]),
        "id": ("text", [chance.choice([None, "a", "b", "c", "d", "e", "a,0"]) for _ in range(n)]),
        "day": ("int", [chance.choice([None, 9, *range(6), *range(6)]) for _ in range(n)]),
    }


def earliest(table: Table, k: int) -> np.ndarray:
    """The documented rule in a loop: by day, and by the hash of person and cell within each; (6, 2)."""
    own: dict[str, list[tuple[int, str, tuple[int, int]]]] = {}
    for sex, person, day in zip(*(table[name][1] for name in ("sex", "id", "day")), strict=True):
        if person is not None and sex in ("F", "M") and day in range(6):
            cell = ("FM".index(sex), day)
            digest = hashlib.md5(",".join([person, *map(str, cell)]).encode()).hexdigest()
            own.setdefault(person, []).append((day, digest, cell))
    x = np.zeros((6, 2), dtype=np.int64)
    for kept in own.values():
        for _, _, (sex, day) in sorted(kept)[:k]:
            x[day, sex] += 1
    return x


def by_day(source: Any, k: int, earliest_by: str | None = "day") -> np.ndarray:
    data = vectorize(source, VISITS, person="id")
    return data.counted([("day", "sex")], records_per_person=k, earliest_by=earliest_by).tables[0]


def until(table: Table, day: int) -> Table:
    rows = [i for i, own in enumerate(table["day"][1]) if own is not None and own <= day]
    return {name: (kind, [own[i] for i in rows]) for name, (kind, own) in table.items()}


def keeps_the_past(table: Table, k: int, earliest_by: str | None) -> bool:
    """Whether the counts up to each day are those of the table that ends with it."""
    whole = by_day(as_pandas(table, Path()), k, earliest_by)
    return all(
        np.array_equal(
            by_day(as_pandas(until(table, day), Path()), k, earliest_by)[: day + 1], whole[: day + 1]
        )
        for day in range(6)
    )


@pytest.mark.parametrize("seed", range(4))
def test_later_records_displace_no_earlier_ones(seed: int) -> None:
    k = 1 + seed % 3
    assert keeps_the_past(visits(seed=seed), k, "day")
    assert np.array_equal(by_day(as_pandas(visits(seed=seed), Path()), k), earliest(visits(seed=seed), k))


def test_an_order_without_periods_is_noticed() -> None:
    assert not all(keeps_the_past(visits(seed=seed), 2, None) for seed in range(2))


@pytest.mark.thorough
@SOURCES
def test_every_source_keeps_the_earliest_records(source: Callable[[Table, Path], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for k in (1, 3):
            assert np.array_equal(
                by_day(source(visits(seed=7), Path(folder)), k), earliest(visits(seed=7), k)
            )


def test_only_a_declared_attribute_is_time() -> None:
    data = vectorize(as_pandas(visits(), Path()), VISITS, person="id")
    with refuses(SchemaError, "attribute", "week"):
        data.counted([()], records_per_person=1, earliest_by="week")


def test_records_that_no_cell_takes_use_up_nothing() -> None:
    table = pandas.DataFrame({"id": [1] * 9 + [2], "x": [7] * 8 + [1, 2]})
    data = vectorize(table, Schema(x=range(3)), person="id")
    assert data.vector(records_per_person=1).tolist() == [0, 1, 1]


def test_records_of_nobody_are_dropped_only_where_people_are_told_apart() -> None:
    table = pandas.DataFrame({"id": [None, math.nan, 1.0, 1.0], "x": [0, 0, 1, 1]})
    data = vectorize(table, Schema(x=range(2)), person="id")
    assert data.vector(records_per_person=1).tolist() == [0, 1]
    assert data.vector().tolist() == [2, 2]


def test_a_whole_number_is_one_person_however_it_is_stored(tmp_path: Path) -> None:
    as_csv({"id": ("text", ["7", "8"]), "x": ("int", [0, 1])}, tmp_path).rename(tmp_path / "a.csv")
    as_parquet({"id": ("float", [7.0, None]), "x": ("int", [0, 1])}, tmp_path).rename(tmp_path / "b.parquet")
    as_parquet({"id": ("int", [7, 8]), "x": ("int", [0, 1])}, tmp_path).rename(tmp_path / "c.parquet")
    data = vectorize(tmp_path / "*", Schema(x=range(2)), person="id")
    assert data.vector(records_per_person=1).tolist() == [1, 1]
    assert data.vector().tolist() == [3, 3]


@pytest.mark.thorough
def test_the_person_may_also_be_an_attribute() -> None:
    """A polars LazyFrame used to refuse the same column twice."""
    table: Table = {"id": ("text", ["a", "a", "b"])}
    for source in [*PLAIN, *EXTRAS]:
        with tempfile.TemporaryDirectory() as folder:
            data = vectorize(source(table, Path(folder)), Schema(id=("a", "b")), person="id")
            assert data.vector(records_per_person=1).tolist() == [1, 1]


def test_an_empty_table_keeps_every_cell() -> None:
    assert kept_by_engine([], 2).tolist() == [0] * SCHEMA.n_cells


def test_more_cells_than_an_integer_holds() -> None:
    wide = Schema(**{f"a{k}": Bins(range(101)) for k in range(12)})
    table = pandas.DataFrame({"id": [1, 1, 1, 2], **{f"a{k}": [7, 7, 8, 9] for k in range(12)}})
    data = vectorize(table, wide, person="id")
    assert data.counts(records_per_person=2) == 3
    assert data.counts("a3", records_per_person=3)[7:10].tolist() == [2, 1, 1]


# ------------------------------------------------------------------ measuring


def test_measuring_keeps_what_the_plan_promises() -> None:
    table = as_pandas(table_of(records()), Path())
    workload = ln.assemble([ln.Marginal("age", "sex")], SCHEMA)
    for k in (1, 3):
        plan = ln.design(workload, ln.GDP(1, records_per_person=k))
        data = vectorize(table, SCHEMA, person="id")
        assert counted(plan, data).tolist() == kept_by_hash(records(), k).tolist()
        # Without a person, the number is what the publisher declares about the table.
        whole = vectorize(table, SCHEMA).vector().tolist()
        assert counted(plan, table).tolist() == counted(plan, vectorize(table, SCHEMA)).tolist() == whole


# ------------------------------------------------------------------ what a release says of it


def released(source: Any, k: int, **options: Any) -> ln.Release:
    plan = ln.design(ln.assemble([ln.Marginal("sex")], SCHEMA), ln.GDP(1, records_per_person=k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(plan, source, **options)


@pytest.mark.thorough
def test_a_release_knows_whether_records_were_left_out(tmp_path: Path) -> None:
    table = as_pandas(table_of(records()), Path())
    ledger = ln.Ledger(tmp_path / "a.db", dataset="a", limit=ln.GDP(9, records_per_person=3))
    for source, expected in (
        (vectorize(table, SCHEMA, person="id"), True),
        (vectorize(table, SCHEMA), False),
        (table, False),
        (vectorize(table, SCHEMA).vector(), False),
    ):
        release = released(source, 3)
        assert release.is_truncated is expected
        assert ln.load_release(release.save(tmp_path / "a.release")).is_truncated is expected
        paid = released(source, 3, ledger=ledger)
        assert paid.receipt is not None and paid.is_truncated is expected
        assert stored_release(ledger, paid.receipt.release_id).is_truncated is expected
        assert ln.adjust(release).is_truncated is expected


def test_it_says_what_was_chosen_and_nothing_of_the_records() -> None:
    """Somebody with too many records changes nothing: else the release would tell that there is one."""
    few = [("a", 1, "F"), ("b", 2, "M")]
    for rows in (few, few * 9, []):
        table = as_pandas(table_of(rows), Path())
        assert released(vectorize(table, SCHEMA, person="id"), 1).is_truncated is True
        assert released(vectorize(table, SCHEMA), 1).is_truncated is False


def test_files_of_earlier_versions_do_not_say_and_lies_are_refused(tmp_path: Path) -> None:
    release = released(as_pandas(table_of(records()), Path()), 3)
    content, arrays = release._to_parts()
    assert content.pop("is_truncated") is False
    older = ln.load_release(container.write(tmp_path / "old", "release", content, arrays))
    assert older.is_truncated is None
    assert "is_truncated" not in older._to_parts()[0]
    for wrong in (1, "yes", [True]):
        path = container.write(tmp_path / "bad", "release", {**content, "is_truncated": wrong}, arrays)
        with refuses(PlanFileError, "path", "bad"):
            ln.load_release(path)


@pytest.mark.parametrize(
    ("k", "is_truncated", "words"),
    [
        (3, True, "Every person, however many records they have: at most 3 records of each are counted, so"),
        (1, True, "Every person, however many records they have: at most one record of each is counted, so"),
        (3, False, "Every person who has at most 3 records in the table. If somebody has more, the promise"),
        (3, None, "Every person who has at most 3 records in the table. If somebody has more, the promise"),
        (1, None, "Every person who has at most one record in the table."),
    ],
)
def test_who_is_protected_is_said_as_it_is(k: int, is_truncated: bool | None, words: str) -> None:
    plan = ln.design(ln.assemble([ln.Marginal("sex")], SCHEMA), ln.GDP(1, records_per_person=k))
    said = who_is_protected(plan, is_truncated)
    assert said.startswith(words)
    assert ("weaker" in said) != ("counts may be too low" in said)
    zeros = np.array([0] * plan.fixed_strategy().n_measured, dtype=object)
    release = ln.Release(plan, zeros, is_truncated=is_truncated)
    assert said in str(page._privacy(plan, release))


@pytest.mark.parametrize("person", ["id", None])
def test_the_page_says_who_is_protected(person: str | None) -> None:
    """It used to say that more records weaken the promise where further records had been left out."""
    data = vectorize(as_pandas(table_of(records()), Path()), SCHEMA, person=person)
    release = released(data, 3)
    page = html.unescape(ln.summarize(release).html())
    assert who_is_protected(release.plan, person is not None) in page
    assert who_is_protected(release.plan, person is None) not in page


# ------------------------------------------------------------------ refusals


def test_refusals() -> None:
    table = pandas.DataFrame({"id": [1], "x": [0]})
    schema = Schema(x=range(2))
    with refuses(DataError, "person", None, "source, schema, person='id'"):
        vectorize(table, schema).vector(records_per_person=1)
    data = vectorize(table, schema, person="id")
    for k in (0, -1, 1.5, True, "2"):
        with refuses(DataError, "records_per_person"):
            data.counts("x", records_per_person=k)  # type: ignore[arg-type]
    with refuses(DataError, "person", int):
        vectorize(table, schema, person=3)  # type: ignore[arg-type]
    with refuses(DataError, "who", "none"):
        vectorize(table, schema, person="who").vector(records_per_person=1)
    assert vectorize(data, schema) is vectorize(data, schema, person="id") is data
    with refuses(DataError, "person", "x"):
        vectorize(data, schema, person="x")


def test_a_handle_shows_the_name_of_the_column_only() -> None:
    data = vectorize(pandas.DataFrame({"id": ["canary"], "x": [0]}), Schema(x=range(2)), person="id")
    assert repr(data) == "Data(pandas DataFrame, Schema(x: 0–1; 2 cells), person='id')"
    assert data.person == "id"


# ------------------------------------------------------------------ ids that cannot be told apart


def _kept_of(ids: object, k: int, **options: object) -> list[int]:
    """Which of the records, one in each cell, are counted."""
    n = len(ids)  # type: ignore[arg-type]
    table = pandas.DataFrame({"id": ids, "x": range(n)})
    data = vectorize(table, Schema(x=range(n)), person="id", **options)  # type: ignore[arg-type]
    return data.vector(records_per_person=k).tolist()


def test_floats_that_fall_together_are_nobodys() -> None:
    """Ids beyond 2^63, and fractions below 2^-62, were one person: one more could change 2k counts."""
    ids = [2.0**63, 2.0**64, 1e300, 5e-324, 1e-200, 0.1, 0.2, math.inf, 2.0**53, 2.0**53 - 1, -7.0, 7.0]
    assert _kept_of(np.array(ids), 1) == [0] * 9 + [1, 1, 1]


def test_single_precision_is_exact_for_smaller_numbers_only() -> None:
    """16,777,217 has become 16,777,216 before anybody could look."""
    ids = np.array([2.0**24 - 1, 2.0**24, 2.0**24 + 2, 3], dtype=np.float32)
    assert _kept_of(ids, 1) == [1, 0, 0, 1]


def test_whole_floats_written_as_text_are_the_same_person() -> None:
    """pandas writes "7.0" into one file and "7" into another, where an id was missing in the first."""
    found = _kept_of(np.array(["7", "7.0", "7.00", "07.0", "1234567890123456.0"], dtype=object), 1)
    assert sum(found[:2]) == 1 and found[2:] == [1, 1, 1]


def test_placeholders_belong_to_nobody() -> None:
    """Shared by many, an id such as "unknown" was one person: its records displaced one another."""
    ids = np.array(["unknown", "unknown", "a", "0", "0.0", "n/a"], dtype=object)
    assert _kept_of(ids, 1, person_unknown=["unknown", 0]) == [0, 0, 1, 0, 0, 1]
    assert _kept_of([0, 0, 7], 1, person_unknown=[0.0]) == [0, 0, 1]
    for wrong in ("unknown", 3, [1.5], [None]):
        with refuses(DataError, "person_unknown", ..., "person_unknown"):
            _kept_of([0, 1], 1, person_unknown=wrong)
    with refuses(DataError, "person_unknown", None, "name it too"):
        vectorize(pandas.DataFrame({"x": [0]}), Schema(x=range(1)), person_unknown=[0])


@pytest.mark.thorough
def test_ids_are_told_apart_as_by_a_loop_over_records() -> None:
    """Random odd ids, the rules once more in Python: whoever stays is the same."""
    rng = random.Random(11)
    pool = [0.0, -0.0, 1.0, 1.5, -3.0, 2.0**52, 2.0**53, 2.0**60, 1e308, math.nan, math.inf, 1e-300]
    for _ in range(40):
        ids = [rng.choice(pool) for _ in range(25)]
        exact = [str(int(x)) if math.isfinite(x) and x == int(x) and abs(x) < 2**53 else None for x in ids]
        found = _kept_of(np.array(ids), 1)
        assert sum(found) == len({one for one in exact if one is not None})
        assert all(one is not None for one, n in zip(exact, found, strict=True) if n)


@pytest.mark.thorough
def test_with_a_person_the_promise_is_about_all_records_of_one_person(tmp_path: Path) -> None:
    """One more record of somebody who is cut can swap two cells: an exact loss of 2 for a claimed 1."""
    few = vectorize(pandas.DataFrame({"id": ["a"], "x": [0]}), Schema(x=range(20)), person="id")
    swaps = [
        vectorize(pandas.DataFrame({"id": ["a", "a"], "x": [0, x]}), few.schema, person="id")
        for x in range(20)
    ]
    before = few.vector(records_per_person=1)
    assert max(np.abs(swap.vector(records_per_person=1) - before).sum() for swap in swaps) == 2
    plan = ln.design(ln.assemble([ln.Marginal("x")], few.schema), ln.GDP(1))
    with pytest.warns(UnrecordedSpending, match="all records of one person"):
        release = ln.measure(plan, few)
    page = tmp_path / "page.html"
    ln.summarize(release).to_html(page)
    for text in (repr(release), str(ln.summarize(release)), page.read_text()):
        flat = " ".join(text.split())
        assert "adding or removing all records of one person, of which one is counted" in flat
        assert "removing one record" not in flat
