"""Random releases held against records counted in a loop: no wrong answer, no wrong label, no wrong claim.

LEASTNOISE_ORACLE_SEED draws other cases. A failure names its case; see it again in full with
``python tests/oracle.py --case SEED:NUMBER --part a`` (or b, or c).
"""

from __future__ import annotations

import csv
import importlib
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from leastnoise.app.cli.main import app
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.planning import plan_checks as checks
from leastnoise.query.queries import query as base
from leastnoise.release import count_tables, measuring
from leastnoise.report import batch_pictures, batches
from leastnoise.strategy import Strategy
from leastnoise.strategy.structured.blocks import Structured
from oracle import LAPLACE_REACH, Tally, report
from oracle_cases import DATA_DEPENDENT, drawn, expected_rows, specification, written_csv
from oracle_labels import Reader

IS_FULL = bool(os.environ.get("LEASTNOISE_ALL_EXTRAS"))
SEED = int(os.environ.get("LEASTNOISE_ORACLE_SEED", "18"))
# Chunks that workers share, and the cases of each.
CHUNKS, AT_ONCE = (80, 25) if IS_FULL else (8, 25)
NOISY_CHUNKS, NOISY_AT_ONCE = (20, 10) if IS_FULL else (3, 4)
# Chunks of three publications each by the command line.
SHELL_CHUNKS = 10 if IS_FULL else 2
# Of the cases drawn, the most that the library may refuse: beyond, the oracle would judge little.
MOST_REFUSED = 0.4
# ... and how many more in one chunk: some one in four is refused, of ten rarely more than six.
SPREAD_REFUSED = 3


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nearly_noiseless_releases_are_the_truth_wherever_they_are_shown(chunk: int) -> None:
    """Every other chunk looks at the answers alone, which is quicker."""
    _judge(chunk, AT_ONCE, "ca"[chunk % 2])


@pytest.mark.parametrize("chunk", range(NOISY_CHUNKS))
def test_errors_have_the_variance_that_is_claimed(chunk: int) -> None:
    _judge(chunk, NOISY_AT_ONCE, "b")


@pytest.mark.parametrize("chunk", range(SHELL_CHUNKS))
def test_what_a_shell_publishes_is_the_truth(chunk: int, tmp_path: Path) -> None:
    """From a specification and a file of records to a file of answers, by the command line alone."""
    n_published = 0
    for number in range(100 * chunk, 100 * (chunk + 1)):
        case = drawn(SEED, number)
        is_wanted = case.kind_of_source != "vector" and case.route != "sql" and len(case.attributes) > 1
        if n_published == 3 or not is_wanted or case.n_cells > 60 or case.method in DATA_DEPENDENT:
            continue
        (tmp_path / "spec.toml").write_text(specification(case), encoding="utf-8")
        data, out = written_csv(case, tmp_path), tmp_path / f"{number}.csv"
        given = ["publish", str(tmp_path / "spec.toml"), "--data", str(data), "-o", str(out)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnrecordedSpending)
            result = CliRunner().invoke(app, given)
        if result.exit_code:
            assert isinstance(result.exception, SystemExit), (number, result.exception)
            continue
        n_published += 1
        with out.open(newline="", encoding="utf-8") as file:
            # The last row is no answer: how many records no cell took.
            lines = [line for line in csv.DictReader(file) if line["query"] != "not counted"]
        rows = expected_rows(case)
        phrases = {name: row for query in case.queries for name, row in query.phrases.items()}
        reader = Reader(case.attributes, case.probes)
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows, strict=True):
            label = line["label"].removeprefix("'") if line["label"].startswith("'") else line["label"]
            everyone = {line["query"]: reader.everyone, "everyone": reader.everyone}
            assert row in reader.label(label, phrases | everyone), (number, label)
            allowed = LAPLACE_REACH * float(line["stderr"]) + 1e-6
            assert abs(float(line["answer"]) - case.truth(row)) <= allowed, (number, label)
    assert n_published


def _judge(chunk: int, at_once: int, part: str) -> None:
    tally = Tally()
    for number in range(chunk * at_once, (chunk + 1) * at_once):
        tally.run(SEED, number, part)
    assert not tally.wrong, "\n".join(report(*found) for found in tally.wrong)
    assert tally.refused <= MOST_REFUSED * tally.tried + SPREAD_REFUSED, tally.reasons
    assert tally.blunt <= 0.1 * tally.tried


# -------------------------------------------------------------------------------- planted bugs


@dataclass(frozen=True)
class Bug:
    """A mistake that somebody could make, the part of the oracle that notices it, and its first case."""

    name: str
    part: str
    first: int
    plant: Callable[[pytest.MonkeyPatch], None]


def _swaps_axes(patch: pytest.MonkeyPatch) -> None:
    """Counts of two attributes with as many values each are handed over in the other's order."""

    def swapped(workload: Any, source: Any, most: int, left_out_by: tuple[str, ...] = ()) -> Any:
        schema = workload.schema
        if isinstance(source, list) and len(schema.shape) > 1 and schema.shape[0] == schema.shape[1]:
            source = np.array(source).reshape(schema.shape).swapaxes(0, 1).reshape(-1)
        return count_tables(workload, source, most, left_out_by)

    patch.setattr(measuring, "count_tables", swapped)


def _permutes_rows(patch: pytest.MonkeyPatch) -> None:
    """The first two answers of every workload are exchanged."""

    def change(own: Any) -> Any:
        def answers_of(self: Any, workload: Any, measurements: Any) -> Any:
            answers = own(self, workload, measurements).copy()
            answers[:2] = answers[:2][::-1].copy()
            return answers

        return answers_of

    _unchecked(patch)
    for kind in (Strategy, Structured):
        patch.setattr(kind, "answers_of", change(kind.answers_of))


def _transposes_factors(patch: pytest.MonkeyPatch) -> None:
    """Rows of a product come with the first factor fastest."""

    own = Structured._labelled_values

    def transposed(strategy: Any, view: Any, term: Any, known: Any, draws: int) -> Any:
        values = own(strategy, view, term, known, draws).reshape(*term.factor_rows, draws)
        order = [*reversed(range(len(term.factor_rows))), len(term.factor_rows)]
        return values.transpose(order).reshape(-1, draws)

    _unchecked(patch)
    patch.setattr(Structured, "_labelled_values", transposed)


def _keeps_labels_of_another_row(patch: pytest.MonkeyPatch) -> None:
    """Labels lag one row behind."""
    own = base.term_labels

    def stale(term: Any, of_everyone: str) -> Any:
        labels = own(term, of_everyone)
        return base.Labels(labels.length, lambda i: labels[(i or labels.length) - 1])

    _unchecked(patch)
    patch.setattr(base, "term_labels", stale)


def _reorders_stderr(patch: pytest.MonkeyPatch) -> None:
    """Standard errors come in the reverse order of their queries."""

    def change(own: Any) -> Any:
        return lambda self, workload: own(self, workload)[::-1].copy()

    for kind in (Strategy, Structured):
        patch.setattr(kind, "variances_of", change(kind.variances_of))


def _shifts_columns(patch: pytest.MonkeyPatch) -> None:
    """The columns of attributes in frames and files of answers lag one row behind."""
    # By its full name: the room has a function of the same name.
    table = importlib.import_module("leastnoise.release.answer_table")
    own = table.attribute_columns

    def shifted(workload: Any, taken: Any) -> Any:
        return {
            name: replace(texts, codes=np.roll(texts.codes, 1))
            for name, texts in own(workload, taken).items()
        }

    patch.setattr(table, "attribute_columns", shifted)


def _shuffles_the_page(patch: pytest.MonkeyPatch) -> None:
    """The page names combinations of values with the first factor fastest."""
    own = batches.row_names
    patch.setattr(batches, "row_names", lambda factors: own(tuple(reversed(factors))))


def _swaps_panels(patch: pytest.MonkeyPatch) -> None:
    """Every small multiple stands under the title of the next."""
    own = batch_pictures.row_names

    def next_name(factors: Any) -> Any:
        n = math.prod(factor.labels.length for factor in factors)
        return lambda i: own(factors)((i + 1) % n)

    patch.setattr(batch_pictures, "row_names", next_name)


def _unchecked(patch: pytest.MonkeyPatch) -> None:
    """Plans do not hold themselves against their labels: the oracle is to notice by itself."""
    patch.setattr(checks, "check_labels", lambda *given, **options: None)


BUGS = [
    Bug("swapped axis", "a", 28, _swaps_axes),
    Bug("permuted row", "a", 0, _permutes_rows),
    Bug("transposed factor", "a", 2, _transposes_factors),
    Bug("stale label", "a", 0, _keeps_labels_of_another_row),
    Bug("wrong stderr order", "b", 1, _reorders_stderr),
    Bug("shifted columns", "c", 0, _shifts_columns),
    Bug("shuffled page", "c", 12, _shuffles_the_page),
    Bug("swapped panels", "c", 7, _swaps_panels),
]
# Cases tried with a bug planted, at most.
MOST_TRIED = 60


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_noticed(bug: Bug) -> None:
    tally = Tally()
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        for number in range(bug.first, bug.first + MOST_TRIED):
            tally.run(18, number, bug.part)
            if tally.wrong:
                break
    assert tally.wrong, f"{bug.name}: {tally}"
    # By judging it, not by falling over it.
    assert not any("Error: " in complaint for _, judged in tally.wrong for complaint in judged.complaints)
