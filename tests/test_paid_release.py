"""Releases that a ledger pays for: check, read, spend, draw, store, hand out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli.app import app
from leastnoise.errors import (
    AlreadySpentError,
    DataError,
    InputError,
    LedgerError,
    LedgerMismatchError,
    OverBudgetError,
    PlanFileError,
    RandomnessError,
)
from leastnoise.release import measuring, reading

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"))
COUNTS = np.arange(12)


def plan_of(goal: Any = None) -> ln.Plan:
    asked = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], SCHEMA)
    return ln.design(asked, goal or ln.GDP(1))


@pytest.fixture
def ledger(tmp_path: Path) -> ln.Ledger:
    return ln.Ledger(tmp_path / "budget.db", dataset="town", limit=ln.GDP(2))


def test_a_release_is_paid_for_stored_and_handed_out(ledger: ln.Ledger, tmp_path: Path) -> None:
    plan = plan_of()
    given = ln.measure(plan, COUNTS, ledger=ledger, release_id="first")
    (entry,) = ledger.entries
    assert entry.release_id == "first" and entry.stored is not None
    assert entry.charge.plan_digest == plan.digest
    assert given.receipt is not None
    assert given.receipt.head == entry.head
    again = ln.load_release(given.save(tmp_path / "a.release"))
    assert again.receipt == given.receipt
    ledger.verify(head=given.receipt.head)


def test_asking_again_costs_nothing_and_reads_nothing(ledger: ln.Ledger) -> None:
    plan = plan_of()
    first = ln.measure(plan, COUNTS, ledger=ledger, release_id="first")
    left = ledger.remaining.mu_squared
    again = ln.measure(plan, "no such file.csv", ledger=ledger, release_id="first")
    assert (again.measurements == first.measurements).all()
    assert ledger.remaining.mu_squared == left
    fresh = ln.measure(plan, COUNTS, ledger=ledger)
    assert (fresh.measurements != first.measurements).any()
    assert fresh.receipt is not None and fresh.receipt.release_id != "first"
    with pytest.raises(LedgerMismatchError):
        ln.measure(plan_of(ln.GDP(0.5)), COUNTS, ledger=ledger, release_id="first")


def test_what_the_budget_does_not_hold_is_refused_before_data_is_read(ledger: ln.Ledger) -> None:
    for _ in range(4):
        ln.measure(plan_of(), COUNTS, ledger=ledger)
    with pytest.raises(OverBudgetError):
        ln.measure(plan_of(), "no such file.csv", ledger=ledger)
    assert len(ledger.entries) == 4


def test_a_table_that_cannot_be_read_costs_nothing(ledger: ln.Ledger) -> None:
    with pytest.raises(DataError):
        ln.measure(plan_of(), "no such file.csv", ledger=ledger)
    with pytest.raises(DataError):
        ln.measure(plan_of(), [1, 2, 3], ledger=ledger)
    assert ledger.entries == ()


def test_a_generator_that_fails_leaves_the_budget_spent(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RandomnessError("no randomness")

    monkeypatch.setattr(measuring, "rounded_gaussian", fails)
    with pytest.raises(RandomnessError):
        ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="broken")
    monkeypatch.undo()
    (entry,) = ledger.entries
    assert entry.stored is None
    with pytest.raises(AlreadySpentError):
        ln.measure(plan_of(), COUNTS, ledger=ledger, release_id="broken")


def test_noise_is_drawn_after_spending_and_handed_out_after_storing(
    ledger: ln.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watched(name: str, do: Any) -> Any:
        def act(*args: Any, **given: Any) -> Any:
            seen.append(name)
            return do(*args, **given)

        return act

    for name in ("check", "spend", "store"):
        monkeypatch.setattr(ln.Ledger, name, watched(name, getattr(ln.Ledger, name)))
    monkeypatch.setattr(measuring, "_read", watched("read", measuring._read))
    monkeypatch.setattr(measuring, "rounded_gaussian", watched("draw", measuring.rounded_gaussian))
    ln.measure(plan_of(), COUNTS, ledger=ledger)
    assert seen == ["check", "read", "spend", "draw", "store"]


def test_structured_plans_are_paid_for_by_their_worst_cell(tmp_path: Path) -> None:
    schema = ln.Schema(**{f"a{i}": range(10) for i in range(30)})
    plan = ln.design(ln.assemble([ln.Cube(*schema.names, order=1)], schema), ln.GDP(1))
    assert plan.charge.per_cell is None
    assert plan.charge.worst == plan.strategy.spent if plan.strategy else False
    book = ln.Ledger(tmp_path / "b.db", dataset="wide", limit=ln.GDP(1.2))
    import pandas

    table = pandas.DataFrame({name: np.arange(20) % 10 for name in schema.names})
    given = ln.measure(plan, table, ledger=book)
    assert given.receipt is not None
    with pytest.raises(OverBudgetError):
        ln.measure(plan, table, ledger=book)


def test_arguments_that_make_no_sense(ledger: ln.Ledger, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ledger="):
        ln.measure(plan_of(), COUNTS, release_id="first")
    with pytest.raises(InputError, match="must be a Ledger"):
        ln.measure(plan_of(), COUNTS, ledger="budget.db")  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        ln.measure(plan_of(ln.GDP(1, neighbours="replace-one")), COUNTS, ledger=ledger)
    given = ln.measure(plan_of(), COUNTS, ledger=ledger)
    content, arrays = given._to_parts()
    with pytest.raises(PlanFileError, match="receipt"):
        reading.release_from_parts({**content, "receipt": {"head": 7}}, arrays, "x")


def test_the_ledger_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,sex\n" + "3,F\n2,M\n" * 20)
    Path("ask.toml").write_text(
        '[schema]\nage = { bins = [0, 1, 2, 3, 4, 5] }\nsex = { categories = ["F", "M"] }\n'
        "[privacy]\nepsilon = 1\ndelta = 1e-6\n"
        '[[query]]\nkind = "marginal"\nattributes = ["age", "sex"]\n'
    )

    def run(*words: str, ok: bool = True) -> str:
        done = CliRunner().invoke(app, words)
        assert (done.exit_code == 0) == ok, done.output
        return done.output

    missing = run("publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", ok=False)
    assert "leastnoise ledger create b.db" in missing
    begun = run("ledger", "create", "b.db", "--dataset", "d", "--epsilon", "1.5", "--delta", "1e-6")
    assert "left: ε = 1.5" in begun
    assert "is begun once" in run("ledger", "create", "b.db", "--dataset", "d", "--mu", "1", ok=False)
    assert "nothing was released yet" in run("ledger", "show", "b.db")
    done = run("publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", "--release-id", "spring")
    assert "release id spring" in done
    first = Path("ask-answers.csv").read_text()
    run(
        "publish", "ask.toml", "--data", "people.csv", "--ledger", "b.db", "--release-id", "spring", "--force"
    )
    assert Path("ask-answers.csv").read_text() == first
    assert "spring" in run("ledger", "show", "b.db")
    assert "1 of them stored" in run("ledger", "verify", "b.db")
    assert "head" in run("ledger", "verify", "b.db", "--head", "0" * 64, ok=False)
    run("ledger", "export", "b.db", "-o", "rows.csv")
    assert "spring" in Path("rows.csv").read_text()
    refused = run("ledger", "create", "c.db", "--dataset", "d", "--rho", "1", "--mu", "1", ok=False)
    assert "--epsilon" in refused
