"""Lemmas and theorems of the papers as reproductions: each check has a wrong twin that must fail it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leastnoise.papers.reproductions.adaptive.adaptive_statements import error_of_weights
from leastnoise.papers.reproductions.catalogue import catalogue
from leastnoise.papers.reproductions.coa.coa_statements import (
    _drawn,
    gaps_to_optimum,
    listing_direction,
    newton_direction,
)
from leastnoise.papers.reproductions.fitness_for_use.fitness_statements import curve, summed_delta
from leastnoise.papers.reproductions.low_rank.low_rank_statements import (
    error_of,
    simulated_share,
    volume_of_projection,
)
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting
from leastnoise.papers.reproductions.tallies import DRAWING, tally, tally_checks
from tolerances import ROUNDING

QUICK = Setting("quick")
STATEMENTS = [found for found in catalogue() if found.drawing is DRAWING]

# What does not hold as printed, by name and claim.
WRONG = {
    ("coa/lemma-7", "gradient"),
    ("coa/lemma-7", "hessian"),
    ("coa/theorem-3", "printed"),
    ("low-rank/lemma-3", "printed"),
    ("low-rank/lemma-4", "wide"),
    ("low-rank/lemma-4", "total"),
    ("low-rank/theorem-2", "printed"),
    ("low-rank/theorem-4", "optimum"),
    ("fitness-for-use/theorem-12", "printed"),
}


def test_a_tally_counts_what_held_and_what_is_no_number_did_not() -> None:
    row = tally("x", 3, [0.5, 1.0, 1.5, math.nan, math.inf])
    assert (row["trials"], row["held"], row["largest share"]) == (5, 2, 1e9)
    assert tally("x", 3, np.array([0.0, 0.25]))["largest share"] == 0.25
    (name,) = (found for found in STATEMENTS if found.name == "coa/lemma-5")
    good, bad = ([tally("equality", 2, [0.5, share])] for share in (0.9, 1.1))
    assert [check.verdict for check in tally_checks({}, name.printed, good)] == ["reached"]
    assert [check.verdict for check in tally_checks({}, name.printed, bad)] == ["differs"]
    assert [check.verdict for check in tally_checks({}, name.printed, [])] == ["not run"]


@pytest.mark.thorough
@pytest.mark.parametrize("found", STATEMENTS, ids=lambda found: str(found.name))
def test_every_claim_of_a_statement_is_judged_and_those_that_fail_are_known(found: Reproduction) -> None:
    tasks = found.tasks(QUICK)
    rows = [row for task in (tasks[0], tasks[-1]) for row in task.rows(QUICK)]
    for claim in found.printed.says:
        about = [row for row in rows if row["claim"] == claim]
        assert about and all(row["trials"] > 0 for row in about), claim  # type: ignore[operator]
        held = all(row["held"] == row["trials"] for row in about)
        assert held != ((found.name, claim) in WRONG), claim
    for check in found.checks(rows):
        assert check.verdict in ("reached", "better", "differs")
        assert check.verdict != "differs" or check.why != "no cause found", check.claim


def test_there_are_names_for_all_statements() -> None:
    assert len(STATEMENTS) == 27
    assert {name for name, _ in WRONG} <= {found.name for found in STATEMENTS}


def test_newtons_direction_is_the_least_of_the_model_and_its_gain_that_of_f() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 5):
        drawn = _drawn(rng, n)
        D = newton_direction(drawn.X, drawn.V)
        assert not np.diag(D).any()

        def model(D: np.ndarray, drawn: object = drawn) -> float:
            step = drawn.inverse @ D  # type: ignore[attr-defined]
            bend = np.trace(step @ step @ drawn.inverse @ drawn.V)  # type: ignore[attr-defined]
            return float(-(drawn.minus_G * D).sum() + bend)  # type: ignore[attr-defined]

        for _ in range(5):
            E = rng.standard_normal((n, n))
            E = E + E.T - 2 * np.diag(np.diag(E))
            assert model(D) <= model(D + 1e-3 * E)
        alpha = 1e-2 / (1 + np.abs(D).max())
        value = [np.trace(np.linalg.solve(X, drawn.V)) for X in (drawn.X, drawn.X + alpha * D)]
        assert drawn.gain(D, alpha)[0] == pytest.approx(value[1] - value[0], rel=1e-6)


def test_exact_directions_are_ahead_of_those_of_the_listing_at_the_same_optimum() -> None:
    drawn = _drawn(np.random.default_rng(2), 7)
    (one, exact), (other, five) = (
        gaps_to_optimum(drawn.V, find) for find in (newton_direction, listing_direction)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert exact[5] < 1e-3 * five[5]
    assert all(np.diff(five) <= 0), "F never rises"


def test_lemma_1_without_its_factor_is_told_from_it() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        B, L = rng.standard_normal((4, 3)), rng.standard_normal((3, 6))
        assert simulated_share(rng, B, L, error_of(B, L)) <= 1
        assert simulated_share(rng, B, L, error_of(B, L) / 2) > 1


def test_the_curve_of_another_cost_is_told_from_it() -> None:
    rng = np.random.default_rng(4)
    A, change = rng.standard_normal((3, 2)), np.array([0.7, -0.4])
    Sigma = A.T @ A
    Delta = math.sqrt(change @ np.linalg.solve(Sigma, change))
    found = summed_delta(change, Sigma, Delta / 2)
    assert found == pytest.approx(curve(Delta, Delta / 2), abs=1e-5)
    alone = math.sqrt(float((change**2 / np.diag(Sigma)).sum()))
    assert abs(found - curve(alone, Delta / 2)) > 1e-4, "as if answers were not correlated"


def test_volumes_of_projected_balls() -> None:
    assert volume_of_projection(np.eye(3)) == pytest.approx(8 / 6, rel=ROUNDING)
    assert volume_of_projection(np.full((1, 4), 0.5)) == 1.0
    turned = np.array([[1, 1], [1, -1]]) / math.sqrt(2)
    assert volume_of_projection(turned) == pytest.approx(2, rel=1e-9)


def test_the_error_of_weights_is_that_of_the_matrix_mechanism() -> None:
    W, Q = np.tril(np.ones((3, 3))), np.eye(3)
    weights = np.array([1.0, 2.0, 4.0])
    assert error_of_weights(W, Q, weights) == pytest.approx(16 * (3 + 2 / 4 + 1 / 16), rel=ROUNDING)
