"""The ledger as people meet it in a shell: what is left, what is refused and when, what can be had again."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise
from leastnoise.app.cli.main import app
from leastnoise.app.cli.outputs import file_name
from leastnoise.app.cli.payment import _counts_anybody
from leastnoise.app.specification import load_spec
from leastnoise.core.errors import PlanFileError
from leastnoise.core.printable import no_formula, without_controls
from leastnoise.planning import Method, Request
from leastnoise.privacy import Ledger
from support import REFUSAL_CODES, refuses

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
    assert result.exit_code in REFUSAL_CODES, result.output
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


@pytest.mark.thorough
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
        line = refuse(*PUBLISH, "--out", "b.csv", "--release-id", "again")
        assert f"set epsilon to at most {like_last[1]} with delta = 1e-06" in line and "[privacy]" in line
        assert line.endswith("Nothing was spent.")
        respecified(("epsilon = 1.0", f"epsilon = {own[1]}"))
        assert "Nothing was spent." in refuse(*PUBLISH, "--out", "b.csv")
    respecified(("epsilon = 1.0", f"epsilon = {like_last[1]}"))
    succeed(*PUBLISH, "--out", "b.csv")
    assert len(Ledger("town.db").entries) == 2


@pytest.mark.thorough
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


@pytest.mark.thorough
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
        known = ("--same-table-as", "0") if number else ()
        succeed(*PUBLISH, "--out", f"{number}.csv", "--release-id", f"{number}", *known)
    charged = [entry.charged for entry in Ledger("town.db").entries]
    assert charged[0] > 0 == charged[1]


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_plan_that_is_no_proved_optimum_is_compared_by_design(folder: Path) -> None:
    """A plan of some method, stored, must not be handed out for the best there is.

    Nor is it refused for want of budget, which asking again does not need.
    """
    by_hand = ('["age", "sex"]\n', '["age", "sex"]\n[[query]]\nkind = "prefix"\nattribute = "age"\n')
    respecified(by_hand, ("[schema]", '[design]\nmethod = "identity"\n[schema]'))
    assert "stored already" not in succeed(*PUBLISH, "--release-id", "spring")
    assert "stored already" in succeed(*PUBLISH, "--release-id", "spring", "--out", "same.csv")
    assert Path("same.csv").read_bytes() == Path("town-answers.csv").read_bytes()
    respecified(by_hand)
    line = refuse(*PUBLISH, "--release-id", "spring", "--out", "b.csv")
    assert "release 'spring' is of another plan; use a new release id" in line


@pytest.mark.thorough
def test_fetching_replaces_nothing_unasked(folder: Path) -> None:
    succeed(*PUBLISH, "--release-id", "spring")
    succeed("ledger", "fetch", "town.db", "spring")
    assert Path("spring-answers.csv").read_bytes() == Path("town-answers.csv").read_bytes()
    assert "'spring-answers.csv' exists; give another --out" in refuse("ledger", "fetch", "town.db", "spring")
    # Sentences ran into each other here.
    line = refuse(*PUBLISH, "--release-id", "spring")
    assert "exists; a release whose id the ledger knows costs nothing; give another --out, or --force" in line
    line = refuse(*PUBLISH)
    assert "so keep the first: `leastnoise ledger show town.db` lists" in line
    assert "at no cost; give another --out" in line
    succeed("ledger", "fetch", "town.db", "spring", "--out", "b.json")
    assert Path("b.json").exists() and Path("b.html").exists()
    succeed("ledger", "fetch", "town.db", "spring", "--force")
    told = refuse("ledger", "fetch", "town.db", "summer")
    assert "has no release 'summer', only 'spring'; `leastnoise ledger show town.db` lists them" in told
    assert "ledger.entries" not in told
    assert "would replace what is read" in refuse("ledger", "fetch", "town.db", "spring", "-o", "town.db")


STORED = (
    r"release '2025' is stored already: these are its answers of \d{4}-\d\d-\d\d. The table was not read, "
)
STORED += "nothing was spent. For new answers give another --release-id\n"


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["publish", "publish pure", "release"])
def test_old_answers_are_never_taken_for_new_ones(command: str, folder: Path) -> None:
    """Another table under a known id gave last year's answers in a file of this year's name, silently."""
    if command == "publish pure":
        # No method proves an optimum for pure privacy, so that the plans themselves are compared.
        respecified(("epsilon = 1.0\ndelta = 1e-6", "epsilon = 0.25"))
    asked = list(PUBLISH)
    if command == "release":
        succeed("design", "town.toml")
        asked[:2] = ["release", "town.plan"]
    first = run(*asked, "--release-id", "2025", "--out", "y2025.csv")
    assert first.exit_code == 0 and "stored already" not in first.output
    head = Ledger("town.db").head
    Path("later.csv").write_text("age,sex\n" + "0,M\n" * 4000)
    asked[3] = "later.csv"
    again = run(*asked, "--release-id", "2025", "--out", "y2026.csv")
    assert again.exit_code == 0
    assert re.match(STORED, again.stdout), again.stdout
    assert re.search(f"^note: {STORED}", again.stderr, re.MULTILINE)
    assert Path("y2026.csv").read_bytes() == Path("y2025.csv").read_bytes()
    assert Ledger("town.db").head == head
    asked[3] = "none.csv"
    if command == "publish":
        # What is stored needs no table, whose server may be away.
        succeed(*asked, "--release-id", "2025", "--out", "y2027.csv")
        assert Path("y2027.csv").read_bytes() == Path("y2025.csv").read_bytes()
        return
    assert "none.csv" in refuse(*asked, "--release-id", "2025", "--out", "y2027.csv")
    assert not Path("y2027.csv").exists()


@pytest.mark.thorough
def test_a_plan_is_not_paid_for_twice_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another --out was all it took to pay for the same answers again."""
    respecified(("epsilon = 1.0", "epsilon = 0.2"))
    succeed(*PUBLISH, "--release-id", "readm 1")
    spent = Ledger("town.db").head
    with monkeypatch.context() as patched:
        patched.setattr(leastnoise, "design", forbidden)
        line = refuse(*PUBLISH, "--out", "b.csv")
    assert "this plan was already released as 'readm 1'; `leastnoise ledger fetch town.db 'readm 1'`" in line
    assert "--release-id NEW" in line and line.endswith("Nothing was spent.")
    assert Ledger("town.db").head == spent and not Path("b.csv").exists()
    succeed(*PUBLISH, "--release-id", "readm 2", "--out", "b.csv")
    # Another plan is nobody's business, and neither is one whose answers were lost.
    respecified(("epsilon = 1.0", "epsilon = 0.1"))
    lost = leastnoise.design(load_spec("town.toml").workload, load_spec("town.toml").privacy)
    Ledger("town.db").spend(lost.charge, "lost")
    succeed(*PUBLISH, "--out", "c.csv")
    assert len(Ledger("town.db").entries) == 4
    assert "was already released as" in refuse(*PUBLISH, "--out", "d.csv")
    # A twin that sees nothing in the ledger pays once more.
    monkeypatch.setattr("leastnoise.app.cli.payment._stored", lambda _: iter(()))
    succeed(*PUBLISH, "--out", "e.csv")
    assert len(Ledger("town.db").entries) == 5


@pytest.mark.thorough
def test_a_saved_plan_is_not_paid_for_twice_unasked(folder: Path) -> None:
    respecified(("epsilon = 1.0\ndelta = 1e-6", "epsilon = 0.25"))
    succeed("design", "town.toml")
    given = ("release", "town.plan", "--data", "people.csv", "--ledger", "town.db")
    succeed(*given)
    before = Ledger("town.db").head
    assert "this plan was already released as" in refuse(*given, "--out", "b.csv")
    # What only a design can tell is found after it, and before anything is paid.
    assert "this plan was already released as" in refuse(*PUBLISH, "--out", "b.csv")
    assert Ledger("town.db").head == before and not Path("b.csv").exists()
    succeed(*given, "--out", "b.csv", "--release-id", "anew")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("release_id", "name"),
    [("spring 2026/first", "spring-2026-first"), ("../../x", "x"), ("1.2", "1.2"), ("§§", "release")],
)
def test_fetched_answers_are_named_after_their_release(release_id: str, name: str, folder: Path) -> None:
    """They used to be named after the ledger, all of them alike."""
    succeed(*PUBLISH, "--release-id", release_id)
    succeed("ledger", "fetch", "town.db", release_id)
    for suffix in ("csv", "release", "html"):
        assert (folder / f"{name}-answers.{suffix}").exists()


def test_long_names_fit_on_a_disk(tmp_path: Path) -> None:
    for text in ("x" * 200, "𝔵" * 200):
        (tmp_path / f"{file_name(text)}-answers.release").write_bytes(b"")


# ------------------------------------------------------------------ how large a ledger


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("privacy", "limit"),
    [
        ("epsilon = 1.0\ndelta = 1e-6", "(1.455, 1e-06)-DP, adding or removing one record"),
        ("epsilon = 0.25", "0.5-DP, adding or removing one record"),
        ("rho = 0.05", "0.1-zCDP, adding or removing one record"),
        (
            'epsilon = 1.0\ndelta = 1e-6\nrecords_per_person = 3\nneighbours = "replace-one"',
            "(1.455, 1e-06)-DP, replacing up to 3 records of one person",
        ),
    ],
)
def test_a_ledger_for_so_many_releases(privacy: str, limit: str, folder: Path) -> None:
    """How large a limit two years need was left to the reader, who had to know how costs add up."""
    respecified(("epsilon = 1.0\ndelta = 1e-6", privacy))
    made = ("ledger", "create", "two.db", "--dataset", "town", "--for", "town.toml", "--times", "2")
    told = succeed(*made)
    assert f"limit {limit}: town.toml fits 2 times" in told
    assert ("this limit is pure" in told) == ("delta" not in privacy and "rho" not in privacy)
    assert ("needs records_per_person = 3" in told) == ("3" in privacy)
    asked = ("publish", "town.toml", "--data", "people.csv", "--ledger", "two.db")
    shown = ("ledger", "show", "two.db", "--spec", "town.toml")
    assert "; as it is, it fits 2 more times" in succeed(*shown)
    succeed(*asked, "--release-id", "2025", "--out", "a.csv")
    assert "; as it is, it fits 1 more time\n" in succeed(*shown)
    succeed(*asked, "--release-id", "2026", "--out", "b.csv")
    assert "; as it is, it does not fit\n" in succeed(*shown)
    before = Ledger("two.db").head
    assert "Nothing was spent." in refuse(*asked, "--release-id", "2027", "--out", "c.csv")
    assert Ledger("two.db").head == before


@pytest.mark.thorough
def test_a_ledger_for_targets_is_found_by_design(folder: Path) -> None:
    respecified(("[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", ""), ('"marginal"', '"marginal"\nstderr = 20.0'))
    made = ("ledger", "create", "two.db", "--dataset", "town", "--for", "town.toml", "--times", "2")
    assert "-GDP, adding or removing one record: town.toml fits 2 times" in succeed(*made)
    asked = ("publish", "town.toml", "--data", "people.csv", "--ledger", "two.db")
    for year in ("2025", "2026"):
        succeed(*asked, "--release-id", year, "--out", f"{year}.csv")
    assert "standard errors" in refuse(*asked, "--release-id", "2027", "--out", "2027.csv")


@pytest.mark.thorough
def test_many_times_are_counted_up_to_a_thousand(folder: Path) -> None:
    respecified(("epsilon = 1.0", "epsilon = 0.001"))
    shown = ("ledger", "show", "town.db", "--spec", "town.toml")
    assert "it fits more than 1,000 times" in succeed(*shown)
    # That one cell has spent less than another is of no help to whoever does not name the table.
    respecified(('"marginal"\nattributes = ["age", "sex"]', '"where"\ncondition = "sex == \'F\'"'))
    succeed(*PUBLISH)
    respecified(("epsilon = 1.0", "epsilon = 0.5"))
    assert re.search(r"it fits \d more time", succeed(*shown))


@pytest.mark.thorough
def test_a_limit_is_given_in_one_way(folder: Path) -> None:
    made = ("ledger", "create", "x.db", "--dataset", "town")
    for more in (("--epsilon", "1"), ("--delta", "1e-6"), ("--rho", "1"), ("--mu", "1")):
        assert f"leave out {more[0]}" in refuse(*made, "--for", "town.toml", *more)
    for more in (("--neighbours", "add-remove"), ("--records-per-person", "1")):
        assert f"leave out {more[0]}" in refuse(*made, "--for", "town.toml", *more)
    assert "name it with --for" in refuse(*made, "--times", "2")
    assert "--for SPEC.toml --times N" in refuse(*made)
    assert not Path("x.db").exists()


# ------------------------------------------------------------------ ledgers of another kind


def test_a_pure_limit_says_that_it_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a delta the limit was pure for good, which showed at the first release."""
    told = succeed("ledger", "create", "pure.db", "--dataset", "town", "--epsilon", "1")
    assert "note: this limit is pure and cannot be changed: it refuses every release with a delta" in told
    told = succeed("ledger", "create", "other.db", "--dataset", "town", "--epsilon", "1", "--delta", "1e-6")
    assert "note:" not in told
    monkeypatch.setattr(leastnoise, "design", forbidden)
    asked = ("publish", "town.toml", "--data", "people.csv", "--ledger", "pure.db")
    assert "keep a ledger whose limit has a delta" in refuse(*asked)


@pytest.mark.thorough
def test_records_per_person_of_ledger_and_specification(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan for more records than the limit's is charged for them; one for fewer is refused at once."""
    one = load_spec("town.toml")
    respecified(("delta = 1e-6", "delta = 1e-6\nrecords_per_person = 3"))
    succeed(*PUBLISH, "--out", "a.csv")
    [entry] = Ledger("town.db").entries
    assert entry.charge.records_per_person == 3 and one.privacy is not None
    assert entry.charged == entry.charge.worst * 9 <= one.privacy.budget
    made = ("ledger", "create", "three.db", "--dataset", "town", "--epsilon", "1", "--delta", "1e-6")
    assert "needs records_per_person = 3 or more" in succeed(*made, "--records-per-person", "3")
    respecified()
    assert "nothing: the limit is for people with up to 3 records" in succeed(
        "ledger", "show", "three.db", "--spec", "town.toml"
    )
    monkeypatch.setattr(leastnoise, "design", forbidden)
    line = refuse("publish", "town.toml", "--data", "people.csv", "--ledger", "three.db")
    assert "design it with records_per_person=3 (in a specification: in [privacy]" in line


@pytest.mark.thorough
def test_a_pure_release_after_a_gaussian_one_is_told_why_it_costs_more(folder: Path) -> None:
    """ε = 1.67 left, and 0.5 refused: that a pure release is converted was not said."""
    succeed("ledger", "create", "two.db", "--dataset", "town", "--epsilon", "2", "--delta", "1e-6")
    asked = ("publish", "town.toml", "--data", "people.csv", "--ledger", "two.db")
    succeed(*asked, "--out", "a.csv")
    respecified(("epsilon = 1.0\ndelta = 1e-6", "epsilon = 1.0"))
    line = refuse(*asked, "--out", "b.csv")
    assert "costs more than its epsilon after Gaussian ones" in line
    found = re.search(r"with Gaussian noise, epsilon = (\S+) with delta = 1e-06 would fit", line)
    assert found is not None
    above = f"{float(found[1]) + 0.001:.3f}"
    respecified(("epsilon = 1.0", f"epsilon = {above}"))
    assert "costs more than its epsilon" not in refuse(*asked, "--out", "b.csv")
    respecified(("epsilon = 1.0", f"epsilon = {found[1]}"))
    succeed(*asked, "--out", "b.csv")


# ------------------------------------------------------------------ other files, interruptions


def test_a_table_as_ledger_is_no_damaged_ledger(folder: Path) -> None:
    """Told to restore it, people feared for their table."""
    for command in (["ledger", "show", "people.csv"], [*PUBLISH[:-1], "people.csv"]):
        line = refuse(*command)
        assert "people.csv' is not a ledger; name the file" in line
        assert "damaged" not in line and "restore" not in line


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["report", "adjust", "quantiles", "explain"])
def test_a_ledger_is_not_read_as_a_release(command: str, folder: Path) -> None:
    """The first of the releases that it stores used to be found within the file."""
    succeed(*PUBLISH, "--release-id", "spring")
    more = ["age"] if command == "quantiles" else []
    line = refuse(command, "town.db", *more)
    assert "'town.db' is a ledger; `leastnoise ledger fetch town.db ID` hands out a release" in line
    with refuses(PlanFileError, "path", "town.db"):
        leastnoise.load_release("town.db")


@pytest.mark.thorough
@pytest.mark.parametrize("ledger", [True, False])
def test_an_interruption_says_whether_anything_was_spent(
    ledger: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    asked = PUBLISH if ledger else PUBLISH[:4]
    with monkeypatch.context() as patched:
        patched.setattr(leastnoise, "design", interrupted)
        result = run(*asked)
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was spent\n")
    # Once answers are being handed out, it is no longer said.
    with monkeypatch.context() as patched:
        patched.setattr("leastnoise.app.cli.outputs.write_answers", interrupted)
        result = run(*asked)
    assert result.exit_code == 130 and "interrupted" in result.stderr
    assert "nothing was spent" not in result.stderr


@pytest.mark.thorough
def test_an_interruption_after_paying_never_says_that_nothing_was_spent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "store", interrupted)
    result = run(*PUBLISH)
    assert result.exit_code == 130 and len(Ledger("town.db").entries) == 1
    assert "nothing was spent" not in result.stderr
    # A twin that does not note payments would say it.
    monkeypatch.setattr("leastnoise.privacy.ledger.spending.note_spending_started", lambda: None)
    respecified(("epsilon = 1.0", "epsilon = 0.1"))
    assert "nothing was spent" in run(*PUBLISH).stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [PUBLISH, ("explain", "town.toml", "--most", "0"), ("check", "town.toml", "--data", "people.csv")],
    ids=lambda command: command[0],
)
def test_a_command_assembles_its_specification_once(
    command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing with a ledger assembled the same workload again at every step, and asked a method twice."""
    n_assembled = 0
    asked = Counter[str]()
    refusal = Method.why_unfit

    def asking(method: Method, request: Request) -> str | None:
        asked[method.name] += 1
        return refusal(method, request)

    def counting(queries: Any, schema: Any) -> Any:
        nonlocal n_assembled
        n_assembled += 1
        return leastnoise.assemble(queries, schema)

    monkeypatch.setattr("leastnoise.app.specification.spec_file.assemble", counting)
    monkeypatch.setattr(Method, "why_unfit", asking)
    succeed(*command)
    assert n_assembled == 1
    assert set(asked.values()) <= {1}
    assert bool(asked) == (command[0] != "check")


# ------------------------------------------------------------------ heads and ids, as they can be compared


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [40, 80])
def test_ids_and_heads_are_shown_whole_and_found_again(columns: int, folder: Path) -> None:
    """The head that publish printed was nowhere to be found in what `show` printed, and ids were cut."""
    told = succeed(*PUBLISH, columns=columns)
    given = leastnoise.load_release("town-answers.release").receipt
    assert given is not None and given.head != Ledger("town.db").head
    shown = succeed("ledger", "show", "town.db", columns=columns)
    for text, heads in ((told, 1), (shown, 2)):
        for known in (given.release_id, Ledger("town.db").head, given.head)[: 1 + heads]:
            assert len(re.findall(rf"(?<!\w){known}(?!\w)", text)) == 1
        assert len(re.findall(r"\b[0-9a-f]{64}\b", text)) == heads
    assert f"ledger head {Ledger('town.db').head}\n  note it down elsewhere" in told
    assert "`leastnoise ledger verify town.db --head ...` proves later that nothing was removed" in told
    assert f"head     {Ledger('town.db').head}" in shown and f"paid at head {given.head}" in shown
    for head in (given.head, Ledger("town.db").head):
        assert "verified: 1 release" in succeed("ledger", "verify", "town.db", "--head", head)


# ------------------------------------------------------------------ in the words of the shell


@pytest.mark.thorough
def test_messages_name_options(folder: Path) -> None:
    given = ("publish", "town.toml", "--data", "people.csv")
    assert "error: --release-id names a release in a ledger; give --ledger too" in refuse(
        *given, "--release-id", "spring"
    )
    assert "--release-id must be a text" in refuse(*PUBLISH, "--release-id", "x" * 201)
    assert "create one with: leastnoise ledger create none.db" in refuse("ledger", "show", "none.db")
    for command in ("verify", "export"):
        out = ("--out", "x.csv") if command == "export" else ()
        assert "there is no ledger 'none.db'" in refuse("ledger", command, "none.db", *out)
    # The key of a file is no option, though it is called like one.
    Path("town.toml").write_text(f"{SPEC}[design]\ntime_limit = 0\n")
    assert "[design]: time_limit must be a positive number" in refuse("design", "town.toml")


def test_goals_and_targets_are_said_as_a_specification_holds_them(folder: Path) -> None:
    """A shell was told to try PureDP(1), which cannot be typed there, and might not have done."""
    respecified(('"marginal"', '"marginal"\nstderr = 0.001'))
    line = refuse("design", "town.toml")
    assert "multiply every stderr and within of the specification by at least" in line
    assert "This says nothing of Laplace noise" in line and "PureDP(" not in line


# ------------------------------------------------------------------ files that exist


def test_no_command_replaces_a_file_unasked(folder: Path) -> None:
    """A plan that was designed for hours, and an export, used to be replaced without a word."""
    succeed("design", "town.toml")
    before = Path("town.plan").read_bytes()
    respecified(("epsilon = 1.0", "epsilon = 2.0"))
    assert "'town.plan' exists; give another --out, or --force" in refuse("design", "town.toml")
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
    assert no_formula(text) == f"'{without_controls(text)}"


@pytest.mark.thorough
def test_exports_go_through_that_guard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed(*PUBLISH, "--release-id", " \uff1dcmd()")
    succeed("ledger", "export", "town.db", "--out", "rows.csv")
    with Path("rows.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["release_id"] for row in csv.DictReader(stream)] == ["' \uff1dcmd()"]
    assert no_formula("age -1") == "age -1" and no_formula("") == ""
