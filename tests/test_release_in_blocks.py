"""Releases of more integers than memory holds: drawn block by block, interrupted anywhere, read in pieces."""

from __future__ import annotations

import functools
import itertools
import json
import os
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import (
    AlreadySpentError,
    DataError,
    InputError,
    LedgerBusyError,
    LedgerError,
    LedgerFileError,
    LedgerMismatchError,
    NotYetError,
    PlanFileError,
    TooLargeError,
)
from leastnoise.data import counting, vectorize
from leastnoise.planning import choice
from leastnoise.planning.families import dense
from leastnoise.privacy import Ledger
from leastnoise.release import answer_pieces, block_measuring, measuring
from leastnoise.release.block_folder import BlockFolder
from leastnoise.report import write_answer_files
from support import refuses

# Every release is a scan, a ledger and several files: half a second each.
pytestmark = pytest.mark.thorough

SIZES = (3, 2, 4, 2)
SCHEMA = ln.Schema(**{f"a{i}": range(size) for i, size in enumerate(SIZES)})
PER_BLOCK = 12


@functools.cache
def plan_of(order: int = 2) -> ln.Plan:
    asked = ln.assemble([ln.Cube(*SCHEMA.names, order=order)], SCHEMA)
    return ln.design(asked, ln.GDP(1), method="marginals")


def records(n: int, seed: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    # One value of the first attribute is not declared: its records are in no cell.
    return [tuple(int(rng.integers(0, s + (i == 0))) for i, s in enumerate(sizes)) for _ in range(n)]


def write_table(path: Path, rows: list[tuple[int, ...]]) -> Path:
    head = ",".join(f"a{i}" for i in range(len(rows[0])))
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(block_measuring, "INTEGERS_PER_BLOCK", PER_BLOCK)
    return tmp_path


def ledger_in(folder: Path) -> Ledger:
    return Ledger(folder / "town.ledger", dataset="town", limit=ln.GDP(3))


def measured(folder: Path, table: Path, ledger: Ledger | None = None, **options: Any) -> ln.Release:
    ledger = ledger_in(folder) if ledger is None else ledger
    into = options.pop("into", folder / "blocks")
    plan = options.pop("plan", None) or plan_of()
    return ln.measure(plan, table, ledger=ledger, release_id="first", into=into, **options)


# ------------------------------------------------------------------------------------ right answers


def counted_by_loop(
    rows: list[tuple[int, ...]], sizes: tuple[int, ...], places: tuple[int, ...]
) -> list[int]:
    """How many records hold each combination of values, by a loop; records outside of any value count not."""
    inside = [row for row in rows if all(value < size for value, size in zip(row, sizes, strict=True))]
    found = Counter(tuple(row[a] for a in places) for row in inside)
    return [found[cell] for cell in itertools.product(*(range(sizes[a]) for a in places))]


def test_without_noise_every_answer_is_the_count_of_a_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "noise_for", lambda own, n, bits: np.array([0] * n, dtype=object))
    rng = np.random.default_rng(7)
    for case in range(6):
        sizes = tuple(int(n) for n in rng.integers(1 + (case != 2), 5, size=rng.integers(2, 5)))
        schema = ln.Schema(**{f"a{i}": range(size) for i, size in enumerate(sizes)})
        queries: list[ln.Query] = [ln.Cube(*schema.names, order=min(len(sizes), 3))]
        if case % 2:
            queries.append(ln.Prefix("a1") * ln.Marginal("a0"))
        plan = ln.design(
            ln.assemble(queries, schema), ln.GDP(1), method="residuals" if case % 2 else "marginals"
        )
        rows = records(60, case, sizes)
        own = folder / str(case)
        own.mkdir()
        release = measured(own, write_table(own / "t.csv", rows), plan=plan)
        found: dict[tuple[str, ...], list[float]] = {}
        for piece in answer_pieces(release, rows=40):
            k = sum(name.startswith("attribute_") for name in piece)
            names = zip(*(piece[f"attribute_{i + 1}"].or_else(None) for i in range(k)), strict=True)
            values = zip(*(piece[f"value_{i + 1}"].or_else(None) for i in range(k)), strict=True)
            for query, name, value, answer in zip(
                piece["query"].or_else(None), names, values, piece["answer"], strict=True
            ):
                known = tuple(text for text in name if text is not None)
                assert value[len(known) :] == (None,) * (k - len(known))
                found.setdefault((str(query), *known), []).append(float(answer))
        cubes = [key[1:] for key in found if "cube" in key[0]]
        assert len(cubes) == sum(
            1 for n in range(min(len(sizes), 3) + 1) for _ in itertools.combinations(sizes, n)
        )
        for key, answers in found.items():
            places = tuple(int(name[1:]) for name in key[1:] if name in schema.names)
            if "cube" in key[0]:
                assert np.allclose(answers, counted_by_loop(rows, sizes, places), atol=1e-6), key
        if case % 2:
            table = np.array(counted_by_loop(rows, sizes, (0, 1))).reshape(sizes[:2]).cumsum(axis=1)
            (shown,) = [answers for key, answers in found.items() if "cube" not in key[0]]
            assert np.allclose(sorted(shown), sorted(table.ravel()), atol=1e-6)
        assert release.not_counted is not None
        assert release.not_counted.estimate == sum(row[0] >= sizes[0] for row in rows)


def test_answers_are_those_of_the_ordinary_route(folder: Path) -> None:
    release = measured(folder, write_table(folder / "t.csv", records(200, 1)))
    plan, held = release.plan, np.asarray(release.measurements)
    assert held.dtype == object and len(held) == plan.fixed_strategy().n_measured
    expected = plan.fixed_strategy().answers_of(plan.workload, held)
    assert np.allclose(release.answers, expected, rtol=1e-12, atol=1e-9)
    pieces = list(answer_pieces(release, rows=15))
    assert len(pieces) > 3
    for name, whole in {"answer": expected, "stderr": plan.stderr, "lower": release.interval()[0]}.items():
        assert np.allclose(np.concatenate([piece[name] for piece in pieces]), whole)
    again = ln.load_release(folder / "blocks")
    query = ln.Marginal("a0", "a2")
    assert again.answer(query).equals(release.answer(query))
    assert again.receipt == release.receipt and again.not_counted == release.not_counted
    # A whole file can be made of one that memory holds.
    assert np.array_equal(ln.load_release(release.save(folder / "r.release")).held_measurements, held)
    assert "too many to be shown" in ln.summarize(release).text()


def test_noise_has_the_variance_that_the_plan_states(folder: Path) -> None:
    """48,000 integers: the sum of squares leaves ±3.4 % of its mean once in a million; 8 % are found."""
    sizes = (30, 40, 40)
    schema = ln.Schema(**{f"a{i}": range(size) for i, size in enumerate(sizes)})
    plan = ln.design(ln.assemble([ln.Cube(*schema.names, order=3)], schema), ln.GDP(1), method="marginals")
    rows = records(50, 3, sizes)
    release = measured(folder, write_table(folder / "t.csv", rows), plan=plan)
    data = vectorize(folder / "t.csv", schema)
    truth = plan.fixed_strategy().exact_answers(lambda names: data.tables(names or [schema.names]))
    z = (np.asarray(release.measurements) - truth).astype(float) / np.sqrt(
        plan.fixed_strategy().noise_variance
    )
    spread = 4.9 * np.sqrt(2 / len(z))

    def is_right(values: Any) -> bool:
        return bool(abs(np.mean(values**2) - 1) < spread)

    assert len(z) > 48_000 and is_right(z) and not is_right(1.04 * z)


def test_very_many_tables_are_counted_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    import pandas as pd

    frame = pd.DataFrame({f"a{i}": rng.integers(0, size + 1, 400) for i, size in enumerate(SIZES)})
    frame["who"] = rng.integers(0, 90, 400)
    subsets = [*itertools.combinations(SCHEMA.names, 3), ("a2", "a0"), ("a1",), ()]
    for person, most in ((None, None), ("who", 2)):
        data = vectorize(frame, SCHEMA, person=person)
        usual = data.counted(subsets, ["a3", "a0"], records_per_person=most)
        with monkeypatch.context() as patch:
            patch.setattr(counting, "MAX_HELD_CELLS", 0)
            held = data.counted(subsets, ["a3", "a0"], records_per_person=most)
        assert all(np.array_equal(held.table(s), t) for s, t in zip(subsets, usual.tables, strict=True))
        assert held.rest == (usual.n_rest, *usual.n_left_out)
        assert "not private" in repr(held)


# ------------------------------------------------------------------------------------ interruptions


class Killed(BaseException):
    """A process that ends here: nothing catches it."""


# Every step of a release, before and after it: (where, what, before or after it has happened).
STEPS = [
    (owner, name, when)
    for owner, name in (
        (Ledger, "spend"),
        (Ledger, "store"),
        (BlockFolder, "claim"),
        (BlockFolder, "write"),
        (Ledger, "store_part"),
        (BlockFolder, "remove_unrecorded"),
    )
    for when in ("before", "after")
]


@contextmanager
def killed_at(owner: Any, name: str, when: str, turn: int) -> Iterator[list[int]]:
    """The process ends before or after some call of a step; gives how often it was called."""
    usual, calls = getattr(owner, name), [0]

    def step(self: Any, *arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == turn and when == "before":
            raise Killed
        result = usual(self, *arguments, **options)
        if calls[0] == turn and when == "after":
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, step)
        yield calls


def resumes_after_a_kill(folder: Path, owner: Any, name: str, when: str, turn: int) -> bool:
    """Whether the step came up; checks that what was recorded before is kept, and paid for once."""
    folder.mkdir()
    table = write_table(folder / "t.csv", records(100, 2))
    ledger = ledger_in(folder)
    with killed_at(owner, name, when, turn) as calls:
        with suppress(Killed):
            measured(folder, table, ledger)
        if calls[0] < turn:
            return False
    before = block_measuring._recorded(ledger, "first") if ledger.entries else ()
    release = measured(folder, table, ledger_in(folder))
    after = block_measuring._recorded(ledger, "first")
    assert after[: len(before)] == before, "a block was drawn again"
    assert release.measurements.digests == after  # type: ignore[union-attr]
    layout = block_measuring.layout_of(block_measuring.divisible_strategy(plan_of()), PER_BLOCK)
    assert len(after) == layout.n_files > 3
    (entry,) = ledger.entries
    assert entry.is_stored and ledger.remaining == ledger_in(folder).remaining
    # Everything in the folder is of the release.
    kept = [path.name for path in (folder / "blocks").iterdir() if path.suffix == ".block"]
    assert len(kept) == layout.n_files and not list((folder / "blocks").glob("*.part"))
    # Asked for again it is the same, and its table is not needed.
    table.write_text("a0,a1,a2,a3\n0,0,0,0\n")
    again = measured(folder, table, ledger)
    assert np.array_equal(np.asarray(again.measurements), np.asarray(release.measurements))
    ledger.verify(entry.head)
    return True


@pytest.mark.parametrize(("owner", "name", "when"), STEPS, ids=lambda part: getattr(part, "__name__", part))
def test_a_release_goes_on_wherever_it_was_killed(folder: Path, owner: Any, name: str, when: str) -> None:
    is_repeated = name in ("write", "store_part")
    for turn in (1, 3) if is_repeated else (1,):
        assert resumes_after_a_kill(folder / str(turn), owner, name, when, turn)


def test_a_ledger_that_forgets_blocks_is_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above: drawing recorded blocks again does not pass it."""
    usual = block_measuring._recorded
    asked: list[int] = []

    def forgets(ledger: Ledger, release_id: str) -> tuple[str, ...]:
        asked.append(1)
        # The second question is that of the process that goes on.
        return () if len(asked) == 2 else usual(ledger, release_id)

    monkeypatch.setattr(block_measuring, "_recorded", forgets)
    # The ledger itself refuses a second draw of a block.
    with pytest.raises(LedgerBusyError):
        resumes_after_a_kill(folder / "a", BlockFolder, "write", "before", 3)
    asked.clear()
    monkeypatch.setattr(Ledger, "store_part", _always_stored(Ledger.store_part))
    with pytest.raises((AssertionError, LedgerError)):
        resumes_after_a_kill(folder / "b", BlockFolder, "write", "before", 3)


def _always_stored(usual: Callable[..., bool]) -> Callable[..., bool]:
    def store_part(self: Ledger, entry: Any, period: str, answers: bytes, *, n_before: int) -> bool:
        return (
            usual(self, entry, f"{period} {os.urandom(4).hex()}", answers, n_before=len(entry.parts)) or True
        )

    return store_part


def interrupted(folder: Path, table: Path, turn: int = 3) -> Ledger:
    ledger = ledger_in(folder)
    with killed_at(Ledger, "store_part", "after", turn), pytest.raises(Killed):
        measured(folder, table, ledger)
    return ledger


def test_missing_blocks_are_drawn_only_from_the_same_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = records(100, 2)
    table = write_table(folder / "t.csv", rows)
    ledger = interrupted(folder, table)
    write_table(table, [*rows, rows[0]])
    with refuses(AlreadySpentError, "data", ..., "3 of its", "stays spent"):
        measured(folder, table, ledger)
    assert len(block_measuring._recorded(ledger, "first")) == 3
    # The twin: without the comparison it would have gone on.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "is_same_table", lambda *_: True)
        patch.setattr(Ledger, "store_part", lambda *_, **__: pytest.fail("would have drawn a block"))
        with pytest.raises(pytest.fail.Exception):
            measured(folder, table, ledger)
    # Other rules for the same bytes are another table, too.
    other = vectorize(write_table(table, rows), SCHEMA, person="a3")
    with refuses(AlreadySpentError, "data"):
        measured(folder, other, ledger)  # type: ignore[arg-type]
    assert measured(folder, table, ledger).n_counted is not None
    monkeypatch.undo()


def test_a_frame_goes_on_in_the_process_that_holds_it(folder: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(records(50, 4), columns=list(SCHEMA.names))
    data = vectorize(frame, SCHEMA)
    with refuses(DataError, "data", ..., "confirm"):
        measured(folder, frame)  # type: ignore[arg-type]
    ledger = interrupted(folder, data)  # type: ignore[arg-type]
    with refuses(AlreadySpentError, "data"):
        measured(folder, vectorize(frame, SCHEMA), ledger)  # type: ignore[arg-type]
    assert measured(folder, data, ledger).is_in_blocks  # type: ignore[arg-type]


@pytest.mark.parametrize("harm", ["missing", "altered", "replaced"])
def test_a_block_that_is_lost_is_refused_and_never_drawn_again(folder: Path, harm: str) -> None:
    table = write_table(folder / "t.csv", records(100, 2))
    ledger = interrupted(folder, table)
    blocks = sorted((folder / "blocks").glob("*.block"))
    body = blocks[1].read_bytes()
    if harm == "missing":
        blocks[1].unlink()
    else:
        blocks[1].write_bytes(
            body[:-1] + bytes([body[-1] ^ 1]) if harm == "altered" else blocks[0].read_bytes()
        )
    with refuses(LedgerFileError, "into", ..., "block 1", "never drawn again"):
        measured(folder, table, ledger)
    assert len(block_measuring._recorded(ledger, "first")) == 3
    with refuses(LedgerFileError, "into"):
        measured(folder, table, ledger, into=folder / "elsewhere")
    # Restored, it goes on; and a reader of the whole release notices the same.
    blocks[1].write_bytes(body)
    measured(folder, table, ledger)
    again = ln.load_release(folder / "blocks")
    blocks[1].unlink()
    with refuses(LedgerFileError, "into", ..., "block 1"):
        np.asarray(again.measurements)


def test_two_processes_never_draw_the_same_block(folder: Path) -> None:
    table = write_table(folder / "t.csv", records(100, 2))
    ledger = interrupted(folder, table)
    usual, calls = BlockFolder.write, [0]

    def write(self: BlockFolder, number: int, integers: Any) -> str:
        digest = usual(self, number, integers)
        calls[0] += 1
        if calls[0] == 1:
            # Another process comes first.
            measured(folder, table, ledger_in(folder))
        return digest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockFolder, "write", write)
        with refuses(LedgerBusyError, "release_id"):
            measured(folder, table, ledger)
    known = set(block_measuring._recorded(ledger, "first"))
    assert len(list((folder / "blocks").glob("*.block"))) == len(known)
    assert measured(folder, table, ledger).measurements.digests  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------ refusals


def test_the_folder_is_private_and_of_one_release(folder: Path) -> None:
    table = write_table(folder / "t.csv", records(20, 2))
    open_to_all = folder / "open"
    open_to_all.mkdir(mode=0o755)
    with refuses(InputError, "into", ..., "nobody else"):
        measured(folder, table, into=open_to_all)
    full = folder / "full"
    full.mkdir(mode=0o700)
    (full / "mine.txt").write_text("kept")
    with refuses(InputError, "into", ..., "empty"):
        measured(folder, table, into=full)
    link = folder / "link"
    link.symlink_to(full)
    with refuses(InputError, "into"):
        measured(folder, table, into=link)
    with refuses(InputError, "into"):
        measured(folder, table, into=folder / "no" / "such")
    assert not ledger_in(folder).entries
    measured(folder, table)
    blocks = folder / "blocks"
    assert stat.S_IMODE(blocks.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in blocks.iterdir()} == {0o600}
    other = Ledger(folder / "other.ledger", dataset="other", limit=ln.GDP(9))
    with refuses(InputError, "into", ..., "of this release"):
        ln.measure(plan_of(), table, ledger=other, release_id="second", into=blocks)


def test_what_cannot_be_measured_in_blocks_is_refused_before_anything_is_spent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(folder / "t.csv", records(20, 2))
    with refuses(InputError, "ledger"):
        ln.measure(plan_of(), table, into=folder / "blocks")
    pure = ln.design(plan_of().workload, ln.PureDP(1), method="identity")
    with refuses(NotYetError, "into"):
        ledger = Ledger(folder / "pure.ledger", dataset="town", limit=ln.PureDP(3))
        measured(folder, table, ledger, plan=pure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_measuring, "MAX_STRATEGY_BLOCK", 3)
        with refuses(TooLargeError, "workload", 12):
            measured(folder, table)
    monkeypatch.setattr("leastnoise.strategy.measured.MAX_MEASURED", 5)
    with refuses(TooLargeError, "workload", ..., "into="):
        ln.measure(plan_of(), table, ledger=ledger_in(folder), release_id="whole")
    assert not ledger_in(folder).entries


def test_a_whole_release_and_one_in_blocks_do_not_pass_for_each_other(folder: Path) -> None:
    table = write_table(folder / "t.csv", records(20, 2))
    ledger = ledger_in(folder)
    ln.measure(plan_of(), table, ledger=ledger, release_id="first")
    with refuses(LedgerMismatchError, "release_id"):
        measured(folder, table, ledger)
    other = Ledger(folder / "other.ledger", dataset="town", limit=ln.GDP(9))
    ln.measure(plan_of(), table, ledger=other, release_id="first", into=folder / "blocks")
    with refuses(PlanFileError, "path", ..., "in blocks"):
        ln.measure(plan_of(), table, ledger=other, release_id="first")
    with refuses(NotYetError, "subject"):
        ln.summarize(ln.load_release(folder / "blocks")).html()


@pytest.mark.parametrize("method", ["dense", "queries", "joint", "few queries", "classes", "groups"])
def test_plans_of_every_kind_are_measured_into_a_folder(
    method: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, only blocks of products were."""
    monkeypatch.setattr(measuring, "noise_for", lambda own, n, bits: np.array([0] * n, dtype=object))
    queries: list[ln.Query] = [ln.Marginal("a0", "a1"), ln.Prefix("a2") * ln.Marginal("a3"), ln.Total()]
    if method == "classes":
        monkeypatch.setattr(choice, "_MANY_CELLS", 10)
    if method == "few queries":
        monkeypatch.setattr(dense, "MAX_CELLS", 10)
        monkeypatch.setattr(dense, "MAX_ROW_ENTRIES", 10)
    if method in ("few queries", "classes"):
        # Marginals with values of two attributes are products, for which there are other methods.
        queries = [ln.Where(f"a0 <= {i} or a2 >= {i + 1}", name=f"q{i}") for i in range(3)]
    if method == "groups":
        # Classes of cells beside cross tables.
        queries += [ln.Where(f"a0 <= {i} or a2 >= {i + 1}", name=f"q{i}") for i in range(3)]
    plan = ln.design(
        ln.assemble(queries, SCHEMA),
        ln.GDP(1),
        method="dense" if method in ("few queries", "classes") else method,
    )
    assert ("classes" in plan.to_parts()[1]) == (method == "classes")
    rows = records(60, 5)
    release = measured(folder, write_table(folder / "t.csv", rows), plan=plan)
    assert release.is_in_blocks
    truth = plan.workload.dense() @ np.array(counted_by_loop(rows, SIZES, (0, 1, 2, 3)))
    np.testing.assert_allclose(release.answers, truth, rtol=0, atol=1e-6 * 60)
    again = ln.load_release(folder / "blocks")
    assert np.array_equal(again.answers, release.answers)
    pieces = list(answer_pieces(again, rows=2))
    assert len(pieces) > 1
    np.testing.assert_allclose(np.concatenate([piece["answer"] for piece in pieces]), truth, atol=1e-4)
    # A plan is one block unless it can be divided: joint ones along their first axis.
    n_files = len(list((folder / "blocks").glob("*.block")))
    assert n_files > 1 if method == "joint" else n_files == 1


# ------------------------------------------------------------------------------------ files


SPEC = """
[schema]
a0 = { range = [0, 3] }
a1 = { range = [0, 2] }
a2 = { range = [0, 4] }
a3 = { range = [0, 2] }

[privacy]
epsilon = 1.0
delta = 1e-6

[design]
method = "marginals"

[[query]]
kind = "cube"
attributes = ["a0", "a1", "a2", "a3"]
order = 2
"""


def test_publishing_into_a_folder_writes_parquet_files_and_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    monkeypatch.chdir(folder)
    Path("town.toml").write_text(SPEC)
    write_table(Path("people.csv"), records(100, 2))
    runner = CliRunner()

    def run(*words: str, code: int = 0) -> str:
        result = runner.invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    run("ledger", "create", "town.db", "--dataset", "town", "--epsilon", "1.5", "--delta", "1e-8")
    publish = ("publish", "town.toml", "--data", "people.csv", "--into", "blocks")
    assert "--ledger" in run(*publish, code=1)
    publish = (*publish, "--ledger", "town.db", "--release-id", "spring")
    with killed_at(Ledger, "store_part", "before", 2), pytest.raises(Killed):
        runner.invoke(app, list(publish))
    said = run(*publish)
    assert "wrote town-answers" in said and "too many to be shown" in said and "release id spring" in said
    rows = duckdb.sql(
        "SELECT * FROM 'town-answers/*.parquet' WHERE attribute_1 = 'a0' AND attribute_2 = 'a2' ORDER BY ALL"
    ).df()
    expected = ln.load_release("blocks").answer(ln.Marginal("a0", "a2"))
    assert np.allclose(rows["answer"], expected["answer"]) and np.allclose(
        rows["upper_95"], expected["upper"]
    )
    about = json.loads(Path("town-answers/about.json").read_text())
    assert (
        about["n_answers"]
        == plan_of().workload.shape[0]
        == sum(
            duckdb.sql(f"SELECT count(*) FROM 'town-answers/{name}'").fetchall()[0][0]
            for name in about["files"]
        )
    )
    assert "town-answers" in run(*publish, code=1)
    again = run(*publish, "--out", "again")
    assert "wrote again" in again and len(Ledger("town.db").entries) == 1
    run("ledger", "verify", "town.db")
    assert "in blocks" in run("ledger", "fetch", "town.db", "spring", code=4)


def test_answers_are_written_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = measured(folder, write_table(folder / "t.csv", records(20, 2)))
    out = folder / "out"

    def stops(_: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        write_answer_files(release, out, progress=stops)
    assert not out.exists() and not list(folder.glob(".out*"))
    write_answer_files(release, out)
    with refuses(InputError, "out", str(out)):
        write_answer_files(release, out)
    with refuses(NotYetError, "release"):
        write_answer_files(ln.adjust(release), folder / "adjusted")


# ------------------------------------------------------------------------------------ killed processes


def killed(*options: str) -> tuple[int, dict[str, int]]:
    """The exit code of the script that kills processes, and what it counted."""
    script = Path(__file__).with_name("block_stress.py")
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, {
        name: int(count) for name, count in (part.rsplit(" ", 1) for part in done.stdout.split(", "))
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_processes_killed_at_any_moment_leave_nothing_unpaid_or_drawn_twice() -> None:
    """A killed process left half of a marker, and the next one refused the folder for holding other files."""
    code, found = killed("--kills", "20", "--seed", "3")
    assert code == 0 and found["killed"] >= 20 and found["completed"] == found["releases"] > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_blocks_handed_out_before_they_are_recorded_are_found_out() -> None:
    """The twin of the test above."""
    code, found = killed("--kills", "1", "--seed", "3", "--twin")
    assert code == 1 and found["different"] > 0
