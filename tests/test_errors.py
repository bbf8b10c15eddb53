"""What an error holds besides its text: what it is about, what was given, and what to do."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import leastnoise
from leastnoise.app.cli.refusals import shell_text
from leastnoise.core import errors
from leastnoise.core.errors import InfeasibleError, InputError, LeastnoiseError
from leastnoise.core.remedies import Argument, RelaxTargets, Remedy


def test_arguments_are_spelled_as_options_and_nothing_else_is() -> None:
    options = {"release_id": "--release-id", "most": "--most", "after": "--after", "ledger": "--ledger"}
    subject = Argument("release_id", is_subject=True)
    for parts, python, shell in (
        ((subject, " must be a text"), "release_id must be a text", "--release-id must be a text"),
        (("give ", Argument("ledger"), " too"), "give ledger= too", "give --ledger too"),
        (
            (Argument("most", 0), " or ", Argument("after", "a b")),
            "most=0 or after='a b'",
            "--most 0 or --after 'a b'",
        ),
        (
            ("no query 'release_id' or most=1",),
            "no query 'release_id' or most=1",
            "no query 'release_id' or most=1",
        ),
        ((Remedy("leave ", Argument("after"), " out"),), "leave after= out", "leave --after out"),
        ((Argument("tol"), " stays"), "tol= stays", "tol= stays"),
    ):
        error = InputError(*parts)
        assert (str(error), shell_text(error, {}), shell_text(error, options)) == (python, python, shell)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), shell_text(again, options)) == (python, shell)


def test_an_error_says_what_it_is_about_without_its_text() -> None:
    """Programs had to look for words in messages."""
    matrix = leastnoise.Workload.from_matrix([[1, 0], [0, 1]])
    plan = leastnoise.design(matrix, leastnoise.GDP(1))
    with pytest.raises(InputError) as refused:
        leastnoise.measure(plan, [1, 2], release_id="spring")
    error = refused.value
    assert (error.field, error.given) == ("release_id", "spring")
    assert error.remedy is not None and error.remedy.arguments == ("ledger",)
    for make, field, given in (
        (lambda: leastnoise.PureDP(-1), "epsilon", -1),
        (lambda: leastnoise.ApproxDP(1, 2), "delta", 2),
        (lambda: leastnoise.ZCDP("x"), "rho", "x"),
        (lambda: leastnoise.GDP(1, neighbours="all"), "neighbours", "all"),
        (lambda: leastnoise.design(matrix, leastnoise.GDP(1), time_limit=0), "time_limit", 0),
        (lambda: leastnoise.design(matrix, leastnoise.GDP(1), backend="abacus"), "backend", "abacus"),
        (lambda: leastnoise.drivers(plan, relax=1), "relax", 1),
    ):
        with pytest.raises(LeastnoiseError) as refused:
            make()
        assert (refused.value.field, refused.value.given) == (field, given)


def test_an_error_about_a_table_holds_its_type_alone() -> None:
    plan = leastnoise.design(leastnoise.Workload.from_matrix([[1, 0]]), leastnoise.GDP(1))
    with pytest.raises(LeastnoiseError) as refused:
        leastnoise.measure(plan, {7, 8})
    assert refused.value.given in (None, set)


def test_a_proof_that_targets_cannot_be_met_arrives_in_another_process() -> None:
    error = InfeasibleError(
        "no. ", RelaxTargets("2", "rho", "3"), witness=None, factor=2.0, mu=1.0, curve=max
    )
    assert str(error) == "no. multiply every stderr by at least 2, or raise rho to 3"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.remedy == error.remedy and again.factor == 2.0


def test_whole_messages_are_kept_as_examples_of_tone() -> None:
    """Elsewhere, tests look at fields; a change of wording is looked at here and in the fault catalogue."""
    schema = leastnoise.Schema(age=range(100), sex=("F", "M"))
    workload = leastnoise.assemble([leastnoise.Total()], schema)
    plan = leastnoise.design(workload, leastnoise.GDP(1))
    for make, text in (
        (lambda: leastnoise.Bins([0, 18, 18]), "edges must increase, got (18, 18)"),
        (lambda: schema["agge"], "there is no attribute 'agge'; there are age, sex"),
        (
            lambda: leastnoise.Schema(sex="FM"),
            "attribute 'sex' must be declared as a range, a list of categories, Hierarchy(tree), "
            "Bins(edges) or Periods(first, last), got str. The values are public knowledge and are never "
            "read from the table; write them out, as in Schema(sex=range(116)) or Schema(sex=('F', 'M'))",
        ),
        (
            lambda: leastnoise.Total(stderr="5"),
            "stderr must be a positive, finite number, got '5'; or a share of expected=, such as '5%'",
        ),
        (
            lambda: leastnoise.queries_from_sql("SELECT COUNT(*) FROM t HAVING COUNT(*) > 3", schema),
            "line 1, column 31: HAVING would choose rows by their true counts; leave it out and choose among "
            "the answers",
        ),
        (
            lambda: leastnoise.vectorize("none.csv", schema),
            "there is no file 'none.csv'; name a table by the path, the folder or a glob of .csv, .tsv, "
            ".jsonl (also .gz, .bz2 or .zst of these), .parquet, .feather or .xlsx files",
        ),
        (lambda: leastnoise.measure("town.plan", [1]), "plan must be a Plan from design(), got str"),
        (lambda: leastnoise.summarize(3), "subject must be a Plan or a Release, got int"),
        (
            lambda: leastnoise.ApproxDP(1, 0),
            "delta must be positive, got 0; for delta = 0 use PureDP(epsilon)",
        ),
        (
            lambda: plan.variance(leastnoise.Marginal("sex")),
            'query 0 ("sex F") cannot be answered by this plan; add it to the workload and call design() '
            "again (measuring the new plan spends privacy again)",
        ),
    ):
        with pytest.raises(LeastnoiseError) as refused:
            make()
        assert str(refused.value) == text
        assert refused.value.field is not None


def test_an_error_keeps_what_it_is_about_where_a_place_is_put_before_it() -> None:
    with pytest.raises(LeastnoiseError) as refused:
        leastnoise.Schema(age=range(100), sex=("F", "F"))
    error = refused.value
    assert (error.field, error.given) == ("sex.categories", "F")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.field, again.given) == (str(error), error.field, error.given)


# These set their field themselves, or are about the targets as a whole.
WITH_THEIR_OWN = ("InfeasibleError", "OverBudgetError", "UnstoredError")


def test_every_error_names_what_it_is_about() -> None:
    """Of 246 raises in planning, strategy, bounds, solver and papers a program could only read the text."""
    package = Path(leastnoise.__file__).parent
    kinds = {name for name in errors.__all__ if issubclass(getattr(errors, name), LeastnoiseError)}
    silent = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name == "core/errors.py":
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        for call in calls:
            kind = call.func.id if isinstance(call.func, ast.Name) else None
            has_field = any(given.arg in ("field", None) for given in call.keywords)
            if kind in kinds and kind not in WITH_THEIR_OWN and not has_field:
                silent.append(f"{name}:{call.lineno}")
    assert silent == []
