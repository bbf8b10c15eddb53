"""What may be added up cell by cell: only what is confirmed to be about one version of one table.

Each attack counts people one by one: what the person who lost most has lost is worked out from the tables and
the strategies themselves, and must be within what the ledger says was spent.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import pickle
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import (
    DataError,
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    OverBudgetError,
)
from leastnoise.data import identity_of, version_digest
from leastnoise.privacy import CellCosts, Charge, CountedTable, Ledger
from leastnoise.privacy.ledger import rows
from leastnoise.privacy.ledger import table_identity as tables
from leastnoise.privacy.ledger.sqlite_log import SCHEMAS
from leastnoise.release import measuring
from leastnoise.strategy import Strategy
from ledger_stress import TABLE, charge_of
from support import extra, refuses

SCHEMA = ln.Schema(sex=("F", "M"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(1))


def about_cell(cell: int, n: int = 2, *, schema: ln.Schema | None = None, mu: Any = 1, k: int = 1) -> ln.Plan:
    """A plan that spends all of a goal in one cell, and nothing in the others."""
    row = np.zeros((1, n), dtype=int)
    row[0, cell] = 1
    plan = ln.design(
        ln.Workload.from_matrix(row, schema=schema), ln.GDP(mu, records_per_person=k), method="workload"
    )
    scale = 2**20
    strategy = Strategy(row * (Fraction(mu) / k * scale).__floor__(), scale=scale, noise="gaussian")
    return replace(plan, strategy=strategy)


def spent(ledger: Ledger) -> Fraction:
    """What the ledger says that one person has spent, μ²."""
    left = ledger.remaining.mu_squared
    assert left is not None
    return ln.GDP(1).budget - left


def released(ledger: Ledger, plans_and_sources: Sequence[tuple[ln.Plan, Any]]) -> list[int]:
    """The releases that the ledger let through; nothing says that they are about one table."""
    passed = []
    for i, (plan, source) in enumerate(plans_and_sources):
        try:
            ln.measure(plan, source, ledger=ledger, release_id=f"r{i}")
            passed.append(i)
        except OverBudgetError:
            pass
    return passed


# ------------------------------------------------------------------ what equal cells used to let through


def test_histograms_by_bare_matrix_do_not_share_their_cells(ledger: Ledger) -> None:
    """Eight attributes, each a matrix of width two: somebody may be in the dear cell of each."""
    dear = [about_cell(i % 2) for i in range(8)]
    passed = released(ledger, [(plan, [5, 5 + i]) for i, plan in enumerate(dear)])
    # Person p has the value i % 2 of attribute i, and so has paid μ² = 1 for every release.
    assert len(passed) == 1 and spent(ledger) == 1


@pytest.mark.thorough
def test_tables_with_one_schema_do_not_share_their_cells(ledger: Ledger, tmp_path: Path) -> None:
    """64 tables with one schema, somebody in all of them: as a woman in one, as a man in the next."""
    quarter = [about_cell(i % 2, schema=SCHEMA, mu=Fraction(1, 2)) for i in range(2)]
    files = []
    for i in range(64):
        path = tmp_path / f"table {i}.csv"
        path.write_text("sex\n" + ("F\n" if i % 2 == 0 else "M\n") + "F\nM\n" * i)
        files.append(path)
    passed = released(ledger, [(quarter[i % 2], path) for i, path in enumerate(files)])
    assert len(passed) == 4 and spent(ledger) == 1


@pytest.mark.thorough
def test_two_person_columns_keep_other_records(tmp_path: Path, ledger: Ledger) -> None:
    """Of one table, ``person="mother"`` keeps a record in one cell, and ``person="child"`` one in another."""
    pandas = extra("pandas")
    table = pandas.DataFrame({"sex": ["F", "M"], "mother": ["x", "x"], "child": ["a", "b"]})
    by_mother, by_child = (ln.vectorize(table, SCHEMA, person=name) for name in ("mother", "child"))
    kept = by_mother.vector(records_per_person=1)
    assert kept.sum() == 1 and by_child.vector(records_per_person=1).tolist() == [1, 1]
    # All records of "x" are both rows: one in the cell kept by mother, and one in the other cell by child.
    first, second = (about_cell(cell, schema=SCHEMA) for cell in (int(kept.argmax()), int(kept.argmin())))
    assert released(ledger, [(first, by_mother), (second, by_child)]) == [0]
    with refuses(
        LedgerMismatchError, "same_table_as", None, "another rule: person was 'mother' and is now 'child'"
    ):
        ln.measure(second, by_child, ledger=ledger, same_table_as="r0")
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    files = Ledger(tmp_path / "files.ledger", dataset="town", limit=ln.GDP(1))
    ln.measure(first, ln.vectorize(path, SCHEMA, person="mother"), ledger=files, release_id="a")
    for source in (path, ln.vectorize(path, SCHEMA, person="child")):
        with refuses(
            LedgerMismatchError, "same_table_as", None, "another rule: person was 'mother' and is now"
        ):
            ln.measure(second, source, ledger=files, same_table_as="a")
    assert spent(ledger) == spent(files) == 1


def test_two_bounds_of_records_keep_other_records(tmp_path: Path) -> None:
    pandas = extra("pandas")
    ledger = Ledger(tmp_path / "a.ledger", dataset="town", limit=ln.GDP(2))
    data = ln.vectorize(pandas.DataFrame({"sex": ["F", "M"], "id": [7, 7]}), SCHEMA, person="id")
    once = data.vector(records_per_person=1)
    assert data.vector(records_per_person=2).tolist() == [1, 1] and once.sum() == 1
    one = about_cell(int(once.argmax()), schema=SCHEMA)
    two = about_cell(int(once.argmin()), schema=SCHEMA, k=2)
    ln.measure(one, data, ledger=ledger, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "counts 1 record per person, this plan 2"):
        ln.measure(two, data, ledger=ledger, same_table_as="a")
    ln.measure(two, data, ledger=ledger)
    assert [entry.charged for entry in ledger.entries] == [1, 1]


@pytest.mark.thorough
def test_filtered_tables_are_other_tables(ledger: Ledger, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    whole.write_text("sex,age\nF,1\nM,2\n")
    part.write_text("sex,age\nM,2\n")
    ln.measure(about_cell(0, schema=SCHEMA), whole, ledger=ledger, release_id="a")
    with refuses(
        LedgerMismatchError,
        "same_table_as",
        None,
        "it has changed, or is another. Nothing was spent",
    ):
        ln.measure(about_cell(1, schema=SCHEMA), part, ledger=ledger, same_table_as="a")
    pandas = extra("pandas")
    frame = pandas.read_csv(whole)
    all_of_it, some_of_it = (ln.vectorize(f, SCHEMA) for f in (frame, frame[frame.age > 1]))
    held = Ledger(tmp_path / "held.ledger", dataset="town", limit=ln.GDP(1))
    ln.measure(about_cell(0, schema=SCHEMA), all_of_it, ledger=held, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "held in memory by another object"):
        ln.measure(about_cell(1, schema=SCHEMA), some_of_it, ledger=held, same_table_as="a")
    assert spent(ledger) == spent(held) == 1 and len(ledger.entries) == len(held.entries) == 1


def test_other_policies_are_other_cells(ledger: Ledger, tmp_path: Path) -> None:
    """A value outside is dropped by one policy and counted at the end by another."""
    path = tmp_path / "people.csv"
    path.write_text("age\n0\n1\n5\n")
    drop, clamp = (ln.Schema(age=ln.Integers(range(2), outside=policy)) for policy in ("drop", "clamp"))
    ln.measure(about_cell(0, schema=drop), path, ledger=ledger, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "another schema, policy or number of cells"):
        ln.measure(about_cell(1, schema=clamp), path, ledger=ledger, same_table_as="a")
    with pytest.raises(OverBudgetError):
        ln.measure(about_cell(1, schema=clamp), path, ledger=ledger)


def test_a_version_that_moved_people_is_another_table(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("sex\nF\n")
    ln.measure(about_cell(0, schema=SCHEMA), path, ledger=ledger, release_id="a")
    path.write_text("sex\nM\n")
    with refuses(LedgerMismatchError, "same_table_as", None, "is not the one that release 'a' measured"):
        ln.measure(about_cell(1, schema=SCHEMA), path, ledger=ledger, same_table_as="a")
    assert len(ledger.entries) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_nobody_ever_loses_more_than_the_ledger_says(seed: int, tmp_path: Path) -> None:
    """Random tables that change, random plans and random claims, against people counted one by one."""
    draw = np.random.default_rng(seed)
    ledger = Ledger(tmp_path / "a.ledger", dataset="town", limit=ln.GDP(100))
    cells = draw.integers(0, 2, (3, 4))  # of three tables: the cell of each of four people
    loss = np.full(4, Fraction(0), dtype=object)
    named: list[str] = []
    base = about_cell(0, schema=SCHEMA, mu=2)
    for i in range(8):
        which = int(draw.integers(3))
        if draw.random() < 0.3:
            cells[which] = draw.integers(0, 2, 4)
        path = tmp_path / f"{which}.csv"
        path.write_text("sex\n" + "".join("FM"[cell] + "\n" for cell in cells[which]))
        mu = [Fraction(int(draw.integers(1, 5)), 4) for _ in range(2)]
        row = np.array([[int(mu[0] * 2**10), 0], [0, int(mu[1] * 2**10)]])
        plan = replace(base, strategy=Strategy(row, scale=2**10, noise="gaussian"))
        same = draw.choice(named) if named and draw.random() < 0.7 else None
        try:
            ln.measure(plan, path, ledger=ledger, release_id=f"r{i}", same_table_as=same)
        except LedgerMismatchError:
            continue
        named.append(f"r{i}")
        loss += np.array([mu[cell] ** 2 for cell in cells[which]], dtype=object)
    left = ledger.remaining.mu_squared
    assert left is not None
    assert max(loss) <= 100**2 - left


# ------------------------------------------------------------------ what is confirmed


def test_files_are_confirmed_by_their_bytes(ledger: Ledger, tmp_path: Path) -> None:
    first, second = (about_cell(cell, schema=SCHEMA) for cell in (0, 1))
    path, elsewhere = tmp_path / "people.csv", tmp_path / "copy.csv"
    for name in (path, elsewhere):
        name.write_text("sex\nF\nM\nM\n")
    ln.measure(first, path, ledger=ledger, release_id="a", table="town, January")
    ln.measure(second, elsewhere, ledger=Ledger(ledger.path), release_id="b", same_table_as="a")
    assert [entry.charged for entry in ledger.entries] == [1, 0]
    assert [entry.group for entry in ledger.entries] == ["a", "a"]
    assert spent(ledger) == 1 and ledger.verify().n_stored == 2
    assert [row["table"] for row in ledger.rows] == ["town, January", None]


def test_vectors_are_confirmed_by_their_counts(ledger: Ledger) -> None:
    first, second = about_cell(0), about_cell(1)
    ln.measure(first, [3, 4], ledger=ledger, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "it has changed, or is another"):
        ln.measure(second, [3, 5], ledger=ledger, same_table_as="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "number of cells"):
        ln.measure(about_cell(1, n=3), [3, 4, 0], ledger=ledger, same_table_as="a")
    ln.measure(second, np.array([3, 4], dtype=np.uint8), ledger=ledger, same_table_as="a")
    assert spent(ledger) == 1 and len(ledger.entries) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_held_by_their_handle(ledger: Ledger, library: str) -> None:
    first, second = (about_cell(cell, schema=SCHEMA) for cell in (0, 1))
    module = extra(library)
    frame = (module.table if library == "pyarrow" else module.DataFrame)({"sex": ["F", "M", "M"]})
    data = ln.vectorize(frame, SCHEMA)
    ln.measure(first, data, ledger=ledger, release_id="a")
    for other in (ln.vectorize(frame, SCHEMA), copy.copy(data)):
        with refuses(LedgerMismatchError, "same_table_as", None, "another object or process"):
            ln.measure(second, other, ledger=ledger, same_table_as="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "was given from memory"):
        ln.measure(second, frame, ledger=ledger, same_table_as="a")
    # What its owner does to the frame does not reach the handle.
    if library == "pandas":
        frame.loc[0, "sex"] = "M"
        frame["sex"] = "F"
    elif library == "polars":
        frame[0, "sex"] = "M"
        frame.replace_column(0, module.Series("sex", ["F"] * 3))
    assert data.vector().tolist() == [1, 2]
    ln.measure(second, data, ledger=Ledger(ledger.path), same_table_as="a")
    assert [entry.charged for entry in ledger.entries] == [1, 0]


def test_what_nothing_holds_is_never_confirmed(ledger: Ledger) -> None:
    polars = extra("polars")
    frame = polars.DataFrame({"sex": ["F", "M"]})
    first, second = (about_cell(cell, schema=SCHEMA, mu=Fraction(1, 2)) for cell in (0, 1))
    for i, source in enumerate((frame, ln.vectorize(frame.lazy(), SCHEMA))):
        ln.measure(first, source, ledger=ledger, release_id=f"r{i}")
        with refuses(LedgerMismatchError, "same_table_as", None, "from a source that can change"):
            ln.measure(second, source, ledger=ledger, same_table_as=f"r{i}")
    assert spent(ledger) == Fraction(1, 2)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_engines_are_never_confirmed(ledger: Ledger) -> None:
    ibis = extra("ibis")
    table = ibis.duckdb.connect().create_table("people", schema={"sex": "string"})
    data = ln.vectorize(table, SCHEMA)
    assert identity_of(data).by is None and not data.is_held
    ln.measure(about_cell(0, schema=SCHEMA), data, ledger=ledger, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "an engine"):
        ln.measure(about_cell(1, schema=SCHEMA), data, ledger=ledger, same_table_as="a")


def test_a_file_that_changes_while_it_is_counted_costs_nothing(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("sex\nF\n")
    right = measuring._read

    def meanwhile(*given: Any) -> Any:
        path.write_text("sex\nM\n")
        return right(*given)

    monkeypatch.setattr(measuring, "_read", meanwhile)
    with refuses(DataError, "data", None, "changed while it was counted", "Nothing was spent"):
        ln.measure(about_cell(0, schema=SCHEMA), path, ledger=ledger)
    assert ledger.entries == ()


def test_the_digest_tells_files_apart_that_run_together(ledger: Ledger, tmp_path: Path) -> None:
    """The same bytes cut into files otherwise are other tables, and so are those read as another format."""
    once, found = "sex\nF\n", set()
    for number, parts in enumerate(([once, once * 2], [once * 2, once], [once * 3])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for i, part in enumerate(parts):
            (folder / f"{i}.csv").write_text(part)
        files = list(folder.iterdir())
        found.add(version_digest(ln.vectorize(files, SCHEMA), ledger.new_digest()))
    other = tmp_path / "0.tsv"
    other.write_text(once * 3)
    found.add(version_digest(ln.vectorize(other, SCHEMA), ledger.new_digest()))
    assert len(found) == 4
    vectors = ([1, 23], [12, 3], [1, 2, 3], [123])
    assert len({version_digest(np.array(x), ledger.new_digest()) for x in vectors}) == len(vectors)


# ------------------------------------------------------------------ the price does not depend on the table


@pytest.mark.thorough
def test_the_price_is_fixed_before_the_table_is_read(ledger: Ledger, tmp_path: Path) -> None:
    """Whatever the table turns out to be, a request costs the same or is refused."""
    first, second = (about_cell(cell, schema=SCHEMA, mu=Fraction(1, 2)) for cell in (0, 1))
    path = tmp_path / "people.csv"
    path.write_text("sex\nF\nM\n")
    ln.measure(first, path, ledger=ledger, release_id="a")
    # The very same file, and nothing said: the worst case all the same.
    ln.measure(second, path, ledger=ledger, release_id="b")
    assert ledger.entries[1].charged == Fraction(1, 4) and ledger.entries[1].group == "b"
    for same in ("a", "b"):
        path.write_text("sex\nM\nM\n")
        with pytest.raises(LedgerMismatchError):
            ln.measure(second, path, ledger=ledger, same_table_as=same)
    assert spent(ledger) == Fraction(1, 2)


def test_a_request_that_cannot_be_confirmed_reads_nothing(ledger: Ledger) -> None:
    first, second = about_cell(0, schema=SCHEMA), about_cell(1, schema=SCHEMA)
    ln.measure(first, [1, 2], ledger=ledger, release_id="a")
    for source, same in (("no such file.csv", "a"), ([1, 2], "absent")):
        with pytest.raises(LedgerMismatchError):
            ln.measure(second, source, ledger=ledger, same_table_as=same)
    replaced = ln.design(ln.Workload.from_matrix(np.eye(2, dtype=int)), ln.GDP(1, neighbours="replace-one"))
    other = Ledger(ledger.path.with_name("b"), dataset="b", limit=ln.GDP(2, neighbours="replace-one"))
    ln.measure(replaced, [1, 2], ledger=other, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "a record is replaced"):
        ln.measure(replaced, [1, 2], ledger=other, same_table_as="a")
    with refuses(InputError, "same_table_as", None, "are for a ledger"):
        ln.measure(first, [1, 2], same_table_as="a")
    with refuses(InputError, "table", None, "are for a ledger"):
        ln.measure(first, [1, 2], table="town")
    for label in ("", "a\nb", 3):
        with refuses(InputError, "table", None, "what people call it"):
            ln.measure(first, [1, 2], ledger=ledger, table=label)  # type: ignore[arg-type]


def test_a_label_is_shown_and_not_believed(ledger: Ledger) -> None:
    first, second = (about_cell(cell, schema=SCHEMA, mu=Fraction(1, 2)) for cell in (0, 1))
    for i, plan in enumerate((first, second)):
        ln.measure(plan, [1, 2], ledger=ledger, release_id=f"r{i}", table="town 2026")
    assert spent(ledger) == Fraction(1, 2) and [row["table"] for row in ledger.rows] == ["town 2026"] * 2


def test_plans_after_others_need_their_table(tmp_path: Path) -> None:
    first = about_cell(0, schema=SCHEMA)
    second = ln.design(ln.assemble([ln.Where("sex == 'M'")], SCHEMA), after=[first])
    ledger = Ledger(tmp_path / "a.ledger", dataset="town", limit=ln.GDP(1))
    ln.measure(first, [1, 2], ledger=ledger, release_id="a")
    with refuses(LedgerMismatchError, "same_table_as", None, "it has changed, or is another"):
        ln.measure(second, [2, 1], ledger=ledger)
    with refuses(LedgerMismatchError, "same_table_as", None, "was given from files or as a vector"):
        ln.measure(second, ln.vectorize(extra("pandas").DataFrame({"sex": []}), SCHEMA), ledger=ledger)
    ln.measure(second, [1, 2], ledger=ledger, release_id="b")
    assert [entry.charged for entry in ledger.entries] == [1, 0]
    assert ledger.entries[1].table is not None and ledger.entries[1].table.same_as == "a"


# ------------------------------------------------------------------ what is private stays so


def test_key_digest_and_nonce_are_nowhere_but_in_their_tables(ledger: Ledger, tmp_path: Path) -> None:
    given = ln.measure(about_cell(0, schema=SCHEMA), [1, 2], ledger=ledger, release_id="a")
    with closing(sqlite3.connect(ledger.path)) as connection:
        secrets = [*connection.execute("SELECT key FROM secret").fetchone()]
        secrets += connection.execute("SELECT nonce, digest FROM versions").fetchone()
        log = repr(connection.execute("SELECT * FROM log").fetchall()).encode()
    assert len(secrets) == 3 and all(len(secret) == 32 for secret in secrets)
    shown = b"".join(
        [
            log,
            repr((ledger, ledger.entries, ledger.rows, ledger.new_digest(), vars(ledger))).encode(),
            pickle.dumps(ledger.entries),
            ledger.export(tmp_path / "x.csv").read_bytes(),
            ledger.export(tmp_path / "x.jsonl").read_bytes(),
            given.to_bytes(),
            CliRunner().invoke(app, ["ledger", "show", str(ledger.path)]).output.encode(),
        ]
    )
    for secret in secrets:
        for spelled in (secret, secret.hex().encode(), repr(secret)[2:-1].encode()):
            assert spelled not in shown
    [entry] = ledger.entries
    assert entry.table is not None
    # Without the nonce, not even who knows the key and the table can tell what is committed to.
    digest = version_digest(np.array([1, 2]), ledger.new_digest())
    assert digest == secrets[2]
    assert entry.table.commitment == tables.commitment(tables.Version(secrets[1], secrets[2]))
    assert entry.table.commitment not in {hashlib.sha256(d).hexdigest() for d in secrets}


def test_two_ledgers_have_two_keys_and_two_releases_two_nonces(tmp_path: Path) -> None:
    books = [Ledger(tmp_path / name, dataset="town", limit=ln.GDP(3)) for name in "ab"]
    for book, i in itertools.product(books, range(2)):
        ln.measure(about_cell(0), [1, 2], ledger=book, release_id=f"r{i}")
    said = [entry.table.commitment for book in books for entry in book.entries if entry.table]
    assert len(set(said)) == 4
    assert len({version_digest(np.array([1]), book.new_digest()) for book in books}) == 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE versions SET digest = zeroblob(32)", ("version", "town.ledger")),
        ("UPDATE versions SET nonce = zeroblob(32)", ("version", "town.ledger")),
        ("UPDATE versions SET nonce = 'text'", ("version", "town.ledger")),
        ("DELETE FROM versions", ("version", "town.ledger")),
        ("INSERT INTO versions SELECT 77, nonce, digest FROM versions", ("version", "town.ledger")),
        ("UPDATE secret SET key = zeroblob(32)", ("key", None, "private key is missing or altered")),
        ("DELETE FROM secret", ("key", None, "private key is missing or altered")),
    ],
)
def test_private_tables_that_were_altered_confirm_nothing(
    ledger: Ledger, statement: str, refusal: tuple[Any, ...]
) -> None:
    from test_ledger import edit

    ln.measure(about_cell(0), [1, 2], ledger=ledger, release_id="a")
    edit(ledger.path, (statement,))
    with refuses(LedgerFileError, *refusal):
        Ledger(ledger.path).verify()
    if not statement.startswith("INSERT"):
        with pytest.raises(LedgerFileError):
            ln.measure(about_cell(1), [1, 2], ledger=ledger, same_table_as="a")
    assert len(ledger.entries) == 1


def test_a_row_that_claims_another_group_is_refused(ledger: Ledger) -> None:
    from test_ledger import rehashed

    ledger.spend(charge_of("p"), "a", table=replace(TABLE, rules={"person": "'id'"}))
    ledger.spend(charge_of("q"), "b", table=TABLE)
    whole = ledger.path.read_bytes()
    for change in ({"same_as": "absent"}, {"same_as": "a"}, {"same_as": "b"}, {"by": None}, {"rules": []}):
        ledger.path.write_bytes(whole)
        rehashed(ledger.path, lambda content, change=change: content["table"].update(change), 2)  # type: ignore[misc]
        with refuses(LedgerFileError, "row", 2):
            Ledger(ledger.path)


# ------------------------------------------------------------------ ledgers of the first format


def old_ledger(path: Path, limit: Any, charges: Sequence[Charge], body: bytes = b"noisy") -> Path:
    """A file as the first version wrote it, each release stored."""
    opening = {"format": 1, "dataset": "town", "limit": limit.to_dict(), "planned": False, "at": "2025"}
    log = [rows.sealed(rows.NOTHING, 0, "open", opening, None)]
    for i, charge in enumerate(charges):
        content, profile = charge.to_parts()
        said: dict[str, Any] = {"release_id": f"r{i}", "after": [], "at": "2025", "charge": content}
        log.append(rows.sealed(log[-1].digest, len(log), "spend", said, profile))
        stored = {"release_id": f"r{i}", "spend": len(log) - 1, "size": len(body), "at": "2025"}
        stored["sha256"] = hashlib.sha256(body).hexdigest()
        log.append(rows.sealed(log[-1].digest, len(log), "store", stored, None))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in ("page_size = 4096", "application_id = 0x6C6E6C67", "user_version = 1"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN")
        for statement in SCHEMAS[1].values():
            connection.execute(statement)
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", log)
        spends = [(row.number, body) for row in log if row.kind == "spend"]
        connection.executemany("INSERT INTO answers VALUES (?, ?)", spends)
        connection.execute("COMMIT")
    path.chmod(0o600)
    return path


def costing(*numerators: int, plan: str = "plan") -> Charge:
    costs = CellCosts(numerators, 4)
    return Charge("gaussian", "add-remove", 1, costs.largest, costs, "cells", plan)


def test_an_old_ledger_adds_worst_cases_and_goes_on(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "old.ledger", ln.GDP(1), [costing(1, 0), costing(0, 2)])
    before = path.read_bytes()
    ledger = Ledger(path, dataset="town")
    assert ledger.remaining.mu_squared == Fraction(1, 4) and ledger.verify().n_stored == 2
    assert ledger.check(costing(1, 0), "r0") == b"noisy"
    with refuses(LedgerMismatchError, "same_table_as", None, "recorded by an earlier leastnoise"):
        ledger.spend(costing(1, 1), "new", table=replace(TABLE, same_as="r0"))
    with refuses(LedgerMismatchError, "same_table_as", None, "not about one confirmed version"):
        ledger.spend(costing(1, 1), "new", after=["plan"], table=TABLE)
    with pytest.raises(OverBudgetError):
        ledger.spend(costing(2, 2), "new", table=TABLE)
    # Nothing above has changed the file, so that the version that wrote it still reads it.
    assert path.read_bytes() == before
    heads = [entry.head for entry in ledger.entries]
    ledger.store(ledger.spend(costing(1, 0), "new", table=TABLE), b"x")
    assert ledger.spend(costing(0, 1), "free", table=replace(TABLE, same_as="new")).charged == 0
    again = Ledger(path)
    assert again.remaining.mu_squared == 0
    assert [entry.group for entry in again.entries] == [None, None, "new", "new"]
    for head in heads:
        again.verify(head=head)
    # The key was made when it was needed first.
    assert again.new_digest().digest() == ledger.new_digest().digest()


def test_an_old_ledger_whose_worst_cases_exceed_the_limit_serves_and_takes_nothing_new(
    tmp_path: Path,
) -> None:
    path = old_ledger(tmp_path / "old.ledger", ln.GDP(1), [costing(4, 0), costing(0, 4)])
    ledger = Ledger(path, dataset="town")
    assert ledger.remaining.mu_squared == 0 and ledger.verify().n_stored == 2
    assert [ledger.check(costing(4, 0), name) for name in ("r0", "r1")] == [b"noisy"] * 2
    fetched = ledger.fetch("r1")
    assert fetched is not None and fetched[1] == b"noisy"
    for charge in (costing(1, 0), costing(0, 0)):
        for step in (ledger.check, ledger.spend):
            with refuses(OverBudgetError, "limit", ..., "takes no new release.", "Stored answers are still"):
                step(charge, "new", table=TABLE)
    with refuses(OverBudgetError, "limit", ..., "takes no new release"):
        ledger.check_goal(ln.GDP(1))
    shown = CliRunner().invoke(app, ["ledger", "show", str(path)])
    assert shown.exit_code == 0 and "left     μ = 0 of 1" in shown.output


def test_an_old_ledger_beyond_its_limit_by_its_own_rule_is_refused(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "old.ledger", ln.GDP(1), [costing(4, 0), costing(1, 0)])
    with refuses(LedgerFileError, "limit", "old.ledger"):
        Ledger(path)


def test_rows_of_the_first_format_do_not_come_after_newer_ones(tmp_path: Path, ledger: Ledger) -> None:
    ledger.spend(charge_of(), "a")
    [entry] = ledger.entries
    content, profile = charge_of("q").to_parts()
    said = {"release_id": "b", "after": [], "at": "2025", "charge": content}
    row = rows.sealed(entry.head, 2, "spend", said, profile)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)
    with refuses(LedgerFileError, "row", 2):
        Ledger(ledger.path)


# ------------------------------------------------------------------ the present state, and the shell


def test_a_ledger_prints_the_present_state(ledger: Ledger) -> None:
    Ledger(ledger.path).spend(charge_of(), "elsewhere")
    assert "1 release," in repr(ledger) and "1 release," in str(ledger)


SPEC = (
    '[schema]\nsex = {{ categories = ["F", "M"] }}\n[privacy]\nmu = 1\n'
    '[[query]]\nkind = "where"\ncondition = "sex == \'{}\'"\n'
)


@pytest.mark.thorough
def test_the_same_table_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("sex\n" + "F\nM\n" * 20)
    for letter in "FM":
        Path(f"{letter}.toml").write_text(SPEC.format(letter))

    def run(*words: str, ok: bool = True) -> str:
        done = CliRunner().invoke(app, words)
        assert (done.exit_code == 0) == ok, done.output
        return re.sub(r"\s+", " ", done.output)

    paid = ("--data", "people.csv", "--ledger", "b.db")
    run("ledger", "create", "b.db", "--dataset", "d", "--mu", "1")
    run("publish", "F.toml", *paid, "--release-id", "women", "--table", "town, May")
    refused = run("publish", "M.toml", *paid, "--release-id", "men", ok=False)
    assert "Nothing was spent" in refused
    named = ("--release-id", "men", "--same-table-as")
    assert "has no release 'may', only 'women'" in run("publish", "M.toml", *paid, *named, "may", ok=False)
    told = run("publish", "M.toml", "--data", "people.csv", "--same-table-as", "women", ok=False)
    assert "give --ledger too" in told
    whole = Path("people.csv").read_text()
    Path("people.csv").write_text(whole + "F\n")
    changed = run("publish", "M.toml", *paid, *named, "women", ok=False)
    assert "it has changed, or is another. Nothing was spent. Without --same-table-as" in changed
    Path("people.csv").write_text(whole)
    run("publish", "M.toml", *paid, *named, "women")
    shown = run("ledger", "show", "b.db")
    assert "table 'town, May', as it was called" in shown
    assert "added cell by cell to women: the same table, confirmed" in shown
    run("ledger", "export", "b.db", "-o", "rows.jsonl")
    lines = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [line["group"] for line in lines] == ["women", "women"]


def test_arguments_of_a_table_that_make_no_sense() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: CountedTable(by="trust"),
        lambda: CountedTable(rules={"person": ""}),
        lambda: CountedTable(by="digest", version=b"short"),
        lambda: CountedTable(by="held"),
        lambda: CountedTable(held=object()),
        lambda: CountedTable(same_as=""),
    ]
    for make in wrong:
        with pytest.raises(InputError):
            make()
