"""The ledger as people meet it in a shell: what is left, what is refused and when, what can be had again."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise
from leastnoise.cli.app import app
from leastnoise.cli.paying import _counts_anybody
from leastnoise.cli.refusals import in_options
from leastnoise.ledger import Ledger
from leastnoise.printable import no_formula
from leastnoise.spec import load_spec

SPEC = """
[schema]
age = { range = [0, 4] }
sex = ["F", "M"]

[privacy]
epsilon = 1.0
delta = 1e-6

[[query]]
kind = "marginal"
attributes = ["age", "sex"]
"""
PUBLISH = ("publish", "town.toml", "--data", "people.csv", "--ledger", "town.db")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a specification, a table and a ledger with another delta."""
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPEC)
    Path("people.csv").write_text("age,sex\n" + "3,F\n2,M\n" * 20)
    succeed("ledger", "create", "town.db", "--dataset", "town", "--epsilon", "1.5", "--delta", "1e-8")
    return tmp_path


def run(*arguments: str, columns: int = 80) -> Any:
    return CliRunner(env={"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}).invoke(
        app, list(arguments)
    )


def succeed(*arguments: str, columns: int = 80) -> str:
    result = run(*arguments, columns=columns)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def refuse(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    line = str(result.stderr).splitlines()[-1]
    assert line.startswith("error: ")
    return line


def forbidden(*arguments: Any, **options: Any) -> None:
    raise AssertionError("nothing may be designed here")


def respecified(*changes: tuple[str, str]) -> None:
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path("town.toml").write_text(text)


# ------------------------------------------------------------------ what is left, and who is refused when


def test_what_is_left_can_be_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger's epsilon at its own delta used to be all that was said, and was refused when typed."""
    assert "for one more release: at most epsilon = 1.5 with delta = 1e-08" in succeed(
        "ledger", "show", "town.db"
    )
    succeed(*PUBLISH)
    told = succeed("ledger", "show", "town.db")
    own = re.search(r"for one more release: at most epsilon = (\S+) with delta = 1e-08", told)
    like_last = re.search(r"for one like the last: at most epsilon = (\S+) with delta = 1e-06", told)
    assert own and like_last and float(like_last[1]) < float(own[1])
    asked = succeed("ledger", "show", "town.db", "--spec", "town.toml")
    assert f"for town.toml: at most epsilon = {like_last[1]} with delta = 1e-06" in asked
    with monkeypatch.context() as patched:
        patched.setattr(leastnoise, "design", forbidden)
        line = refuse(*PUBLISH, "--out", "b.csv")
        assert f"set epsilon to at most {like_last[1]} with delta = 1e-06" in line and "[privacy]" in line
        assert line.endswith("Nothing was spent.")
        respecified(("epsilon = 1.0", f"epsilon = {own[1]}"))
        assert "Nothing was spent." in refuse(*PUBLISH, "--out", "b.csv")
    respecified(("epsilon = 1.0", f"epsilon = {like_last[1]}"))
    succeed(*PUBLISH, "--out", "b.csv")
    assert len(Ledger("town.db").entries) == 2


def test_plans_for_targets_are_told_of_targets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed(*PUBLISH)
    respecified(("[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", ""), ('"marginal"', '"marginal"\nstderr = 2.0'))
    told = succeed("ledger", "show", "town.db", "--spec", "town.toml")
    assert "for town.toml: what its targets need; see: leastnoise explain town.toml" in told
    line = refuse(*PUBLISH, "--out", "b.csv")
    assert re.search(r"with standard errors \S+ times as large it would fit.*leastnoise explain", line)
    # Laplace noise is never asked for by targets alone, so that no design is needed to refuse it.
    succeed("ledger", "create", "pure.db", "--dataset", "town", "--epsilon", "1")
    monkeypatch.setattr(leastnoise, "design", forbidden)
    line = refuse("publish", "town.toml", "--data", "people.csv", "--ledger", "pure.db", "--out", "b.csv")
    assert "epsilon without delta" in line


def test_a_plan_that_may_be_cheaper_is_designed_first(folder: Path) -> None:
    """The first release leaves room in the cells of men, and the second spends in those alone."""
    women, men = ("M", "F"), ("F", "M")
    for number, (rare, often) in enumerate((women, men)):
        respecified(
            ("epsilon = 1.0", "epsilon = 1.45"),
            ("delta = 1e-6", "delta = 1e-8"),
            ('"marginal"\nattributes = ["age", "sex"]', f'"where"\ncondition = "sex == \'{often}\'"'),
        )
        assert rare != often
        succeed(*PUBLISH, "--out", f"{number}.csv")
    charged = [entry.charged for entry in Ledger("town.db").entries]
    assert charged[0] > 0 == charged[1]


def test_a_workload_of_zeros_is_not_refused_early(folder: Path) -> None:
    asked = SPEC.replace('"marginal"\nattributes = ["age", "sex"]', '"where"\ncondition = "age < 0"').replace(
        "epsilon = 1.0", "epsilon = 9.0"
    )
    Path("zeros.toml").write_text(asked)
    assert not _counts_anybody(load_spec("zeros.toml").workload)
    assert _counts_anybody(load_spec("town.toml").workload)
    succeed("publish", "zeros.toml", "--data", "people.csv", "--ledger", "town.db")
    assert Ledger("town.db").entries[0].charged == 0


# ------------------------------------------------------------------ the same release again


def test_a_stored_release_is_handed_out_without_a_design(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed(*PUBLISH, "--release-id", "spring")
    first, head = Path("town-answers.csv").read_bytes(), Ledger("town.db").head
    monkeypatch.setattr(leastnoise, "design", forbidden)
    told = succeed(*PUBLISH, "--release-id", "spring", "--out", "b.csv")
    assert Path("b.csv").read_bytes() == first and "release id spring" in told
    Path("people.csv").unlink()
    succeed("ledger", "fetch", "town.db", "spring", "--out", "c.csv")
    assert Path("c.csv").read_bytes() == first
    assert Path("c.release").exists() and Path("c.html").exists()
    assert Ledger("town.db").head == head


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (("epsilon = 1.0", "epsilon = 0.5"), r"for \(1, 1e-06\)-DP"),
        (("delta = 1e-6", "delta = 1e-7"), r"for \(1, 1e-06\)-DP"),
        (("range = [0, 4]", "range = [0, 5]"), "another schema"),
        (('["age", "sex"]\n', '["age"]\n'), "other queries"),
        (('"marginal"', '"marginal"\nstderr = 900'), "other targets"),
        (('["age", "sex"]\n', '["age", "sex"]\n[design]\nmethod = "identity"\n'), "by the method"),
        (('["age", "sex"]\n', '["age", "sex"]\n[design]\nobjective = "max-variance"\n'), "the objective"),
    ],
)
def test_another_plan_under_the_same_id_is_refused_without_a_design(
    change: tuple[str, str], difference: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed(*PUBLISH, "--release-id", "spring")
    before = Ledger("town.db").head
    respecified(change)
    monkeypatch.setattr(leastnoise, "design", forbidden)
    line = refuse(*PUBLISH, "--release-id", "spring", "--out", "b.csv")
    assert re.search(difference, line) and "use a new --release-id" in line and "ledger fetch" in line
    assert Ledger("town.db").head == before and not Path("b.csv").exists()


def test_a_plan_that_is_no_proved_optimum_is_compared_by_design(folder: Path) -> None:
    """A plan of some method, stored, must not be handed out for the best there is.

    Nor is it refused for want of budget, which asking again does not need.
    """
    by_hand = ('["age", "sex"]\n', '["age", "sex"]\n[[query]]\nkind = "prefix"\nattribute = "age"\n')
    respecified(by_hand, ("[schema]", '[design]\nmethod = "identity"\n[schema]'))
    succeed(*PUBLISH, "--release-id", "spring")
    succeed(*PUBLISH, "--release-id", "spring", "--out", "same.csv")
    assert Path("same.csv").read_bytes() == Path("town-answers.csv").read_bytes()
    respecified(by_hand)
    line = refuse(*PUBLISH, "--release-id", "spring", "--out", "b.csv")
    assert "release 'spring' is of another plan; use a new release id" in line


def test_fetching_replaces_nothing_unasked(folder: Path) -> None:
    succeed(*PUBLISH, "--release-id", "spring")
    assert "'town-answers.csv' exists. Give another --out" in refuse("ledger", "fetch", "town.db", "spring")
    succeed("ledger", "fetch", "town.db", "spring", "--out", "b.json")
    assert Path("b.json").exists() and Path("b.html").exists()
    succeed("ledger", "fetch", "town.db", "spring", "--force")
    assert "knows no release 'summer'" in refuse("ledger", "fetch", "town.db", "summer")
    assert "would replace what is read" in refuse("ledger", "fetch", "town.db", "spring", "-o", "town.db")


# ------------------------------------------------------------------ heads and ids, as they can be compared


@pytest.mark.parametrize("columns", [40, 80])
def test_ids_and_heads_are_shown_whole_and_found_again(columns: int, folder: Path) -> None:
    """The head that publish printed was nowhere to be found in what `show` printed, and ids were cut."""
    told = succeed(*PUBLISH, columns=columns)
    given = leastnoise.load_release("town-answers.release").receipt
    assert given is not None and given.head != Ledger("town.db").head
    shown = succeed("ledger", "show", "town.db", columns=columns)
    for text in (told, shown):
        for known in (given.release_id, given.head, Ledger("town.db").head):
            assert len(re.findall(rf"(?<!\w){known}(?!\w)", text)) == 1
    assert f"when it was paid for, as in the report: {given.head}" in told
    assert f"ledger head now, as `leastnoise ledger show` has it: {Ledger('town.db').head}" in told
    assert f"head     {Ledger('town.db').head}" in shown and f"paid at head {given.head}" in shown
    for head in (given.head, Ledger("town.db").head):
        assert "verified: 1 release" in succeed("ledger", "verify", "town.db", "--head", head)


# ------------------------------------------------------------------ in the words of the shell


def test_messages_name_options(folder: Path) -> None:
    given = ("publish", "town.toml", "--data", "people.csv")
    assert "error: --release-id is what a ledger knows a release by; give --ledger too" in refuse(
        *given, "--release-id", "spring"
    )
    assert "--release-id must be a text" in refuse(*PUBLISH, "--release-id", "x" * 201)
    assert "begin one with: leastnoise ledger create none.db" in refuse("ledger", "show", "none.db")
    for command in ("verify", "export"):
        out = ("--out", "x.csv") if command == "export" else ()
        assert "there is no ledger 'none.db'" in refuse("ledger", command, "none.db", *out)
    # The key of a file is no option, though it is called like one.
    Path("town.toml").write_text(f"{SPEC}[design]\ntime_limit = 0\n")
    assert "[design]: time_limit must be a positive number" in refuse("design", "town.toml")


def test_arguments_are_spelled_as_options_and_nothing_else_is() -> None:
    options = {"release_id": "--release-id", "most": "--most", "after": "--after", "ledger": "--ledger"}
    for message, expected in {
        "use a new release_id": "use a new --release-id",
        "give ledger= too": "give --ledger too",
        "the ledger: ledger=": "the ledger: --ledger",
        "the ledger most people know": "the ledger most people know",
        "most=0, or leave after= out": "--most 0, or leave --after out",
        "after=[...], in their order": "--after [...], in their order",
        "design(workload, after=[plan])": "design(workload, after=[plan])",
        "no query 'release_id' here": "no query 'release_id' here",
        'no query "most=1" here': 'no query "most=1" here',
        "the ledger's release_id": "the ledger's --release-id",
        "entry.release_id, my_release_id": "entry.release_id, my_release_id",
    }.items():
        assert in_options(message, options) == expected
        assert in_options(message, {}) == message


# ------------------------------------------------------------------ files that exist


def test_no_command_replaces_a_file_unasked(folder: Path) -> None:
    """A plan that was designed for hours, and an export, used to be replaced without a word."""
    succeed("design", "town.toml")
    before = Path("town.plan").read_bytes()
    respecified(("epsilon = 1.0", "epsilon = 2.0"))
    assert "'town.plan' exists. Give another --out, or --force" in refuse("design", "town.toml")
    assert Path("town.plan").read_bytes() == before
    succeed("design", "town.toml", "--force")
    assert Path("town.plan").read_bytes() != before
    succeed("ledger", "export", "town.db", "--out", "rows.csv")
    assert "'rows.csv' exists" in refuse("ledger", "export", "town.db", "--out", "rows.csv")
    succeed("ledger", "export", "town.db", "--out", "rows.csv", "--force")
    assert "would replace what is read" in refuse("ledger", "export", "town.db", "-o", "town.db", "--force")


FORMULAS = [
    "=cmd()",
    "+1",
    "-1",
    "@x",
    " =cmd()",
    "\t=cmd()",
    "\u00a0=cmd()",
    "\u3000+1",
    "\rx",
    "\uff1dcmd()",
]


@pytest.mark.parametrize("text", [*FORMULAS, " \uff1dcmd()"])
def test_one_guard_keeps_formulas_out(text: str) -> None:
    assert no_formula(text) == f"'{text}"


def test_exports_go_through_that_guard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed(*PUBLISH, "--release-id", " \uff1dcmd()")
    succeed("ledger", "export", "town.db", "--out", "rows.csv")
    with Path("rows.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["release_id"] for row in csv.DictReader(stream)] == ["' \uff1dcmd()"]
    assert no_formula("age -1") == "age -1" and no_formula("") == ""
