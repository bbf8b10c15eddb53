"""Real-valued queries that are nearly dependent: solved, and answered within the distance that is stated.

Truths are counted with fractions, bounds come from NumPy's singular values, variances from its least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.numerical_rank import RANK_TOL, SPAN_TOL
from leastnoise.core.operators import Matrix
from leastnoise.strategy import AxisForm
from tolerances import ROUNDING, SOLVER

pytestmark = pytest.mark.filterwarnings("ignore:no ledger records this release")

# Next to no noise: standard errors of a ten-thousandth.
NEARLY_NOISELESS = ln.GDP(1e4)

# No answer errs by more standard errors than this, but for one in 10^14.
STANDARD_ERRORS = 8

# What putting an answer together from floats may cost, beside coefficients times records: some hundred
# roundings of strategies whose directions are up to 1e5 apart.
FLOATS = 1e-13


def band(n: int, width: int, draw: Callable[[], float]) -> Any:
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(i, min(n, i + width)):
            W[i, j] = draw()
    return W


def kernel(n: int, width: float, power: int) -> Any:
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / width
    return np.exp(-(apart**power) / power)


def families(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    found = {f"band {w} uniform": band(n, w, rng.uniform) for w in (2, 5, 9)}
    found |= {f"band {w} normal": band(n, w, rng.normal) for w in (2, 5, 9)}
    found |= {f"gaussian {w}": kernel(n, w, 2) for w in (0.5, 2, 4, 8, 16)}
    found |= {f"exponential {w}": kernel(n, w, 1) for w in (0.5, 16)}
    found["hilbert"] = 1 / (1.0 + np.add.outer(np.arange(n), np.arange(n)))
    for digits in range(4, 15):
        rows = rng.normal(size=(n // 3, n))
        found[f"apart 1e-{digits}"] = np.vstack([rows, rows + 10.0**-digits * rng.normal(size=rows.shape)])
    for digits in range(6, 13):
        rows = rng.normal(size=(n + 5, 3)) @ rng.normal(size=(3, n))
        found[f"low rank, noise 1e-{digits}"] = rows + 10.0**-digits * rng.normal(size=rows.shape)
    found["rows of many sizes"] = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-7, 8, (n, 1))
    return found


SMALL = families(16)
REQUESTS = [
    ("auto", None),
    ("dense", None),
    ("eigen", None),
    ("identity", None),
    ("lowrank", None),
    ("auto", ln.MaxVariance()),
    ("dense", ln.MaxVariance()),
]


def designed(W: Any, method: str, objective: Any) -> ln.Plan:
    options = {"max_iterations": 3} if method == "lowrank" else {}
    return ln.design(
        ln.Workload.from_matrix(W), NEARLY_NOISELESS, objective=objective, method=method, options=options
    )


def bias(plan: ln.Plan, W: Any, most: int = 10**9) -> tuple[Any, Any, Any]:
    """How far nearly noiseless answers are from the truth, what noise explains, and what one unit is."""
    x = np.random.default_rng(1).integers(0, most, W.shape[1])
    truth = [float(sum(Fraction(w) * int(c) for w, c in zip(row, x, strict=True))) for row in W]
    answers = ln.measure(plan, x).answers
    return np.abs(answers - truth), STANDARD_ERRORS * plan.stderr, np.abs(W).max(axis=1) * float(x.sum())


def check_answers(plan: ln.Plan, W: Any) -> None:
    """Nearly noiseless answers are within the stated distance times the counts."""
    assert plan.distance is not None and 0 <= plan.distance <= np.sqrt(W.shape[1]) * SPAN_TOL
    apart, noise, unit = bias(plan, W)
    assert (apart <= noise + (plan.distance + FLOATS) * unit).all()


def check_certificate(plan: ln.Plan, W: Any) -> None:
    """Both sides again, with nothing but NumPy."""
    given = plan.certificate
    A, sigma = plan.strategy.dense().astype(float), plan.strategy.scale  # type: ignore[union-attr]
    gains = np.linalg.lstsq(A.T, W.T, rcond=1e-13)[0] * sigma
    variances = (gains**2).sum(axis=0)
    p, q = plan.witness.p, plan.witness.q  # type: ignore[union-attr]
    is_total = plan.objective.kind == "total"
    achieved = float(variances.sum() if is_total else variances.max())
    rows = np.ones(len(W)) if is_total or p is None else p
    norm = np.linalg.svd(np.sqrt(rows)[:, None] * W * np.sqrt(q), compute_uv=False).sum()
    bound = float(norm / q.sum() * norm / (1.0 if is_total else rows.sum())) / 1e8
    assert given.achieved == pytest.approx(achieved, rel=SOLVER)
    assert given.lower_bound <= bound * (1 + ROUNDING) and given.lower_bound <= given.achieved
    assert given.achieved >= bound * (1 - SOLVER)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "objective"), REQUESTS, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_nearly_dependent_queries_are_solved(name: str, method: str, objective: Any) -> None:
    """Two places counted their rank differently, and what they disagreed about was refused."""
    W = SMALL[name]
    plan = designed(W, method, objective)
    check_answers(plan, W)
    check_certificate(plan, W)
    if method in ("auto", "dense"):
        assert plan.certificate.status == "optimal"


def test_answers_are_put_together_to_their_last_digits() -> None:
    """Cells are known to few digits where the rows' directions are far apart; answers to most."""
    rng = np.random.default_rng([32, 1])
    bands = [band(32, width, draw) for width in range(2, 10) for draw in (rng.uniform, rng.normal)]
    for W in (bands[9], bands[13]):
        plan = designed(W, "dense", ln.MaxVariance())
        assert np.linalg.cond(plan.strategy.dense().astype(float)) > 1e5  # type: ignore[union-attr]
        check_answers(plan, W)


@pytest.mark.parametrize(
    ("W", "most"),
    [
        (kernel(256, 8, 2), 1.000001),
        (band(256, 5, np.random.default_rng(0).normal), 4.5955),
    ],
    ids=["gaussian 8", "band 5"],
)
def test_at_256_cells(W: Any, most: float) -> None:
    """Refused before; HDMM reached these mean variances, on a band of its own."""
    plan = ln.design(ln.Workload.from_matrix(W), ln.GDP(1))
    assert plan.certificate.status == "optimal" and plan.certificate.achieved / 256 < most


def test_the_distance_is_needed_and_not_overdone() -> None:
    """Without it, some answers are further from the truth than noise explains."""
    for name in ("low rank, noise 1e-11", "gaussian 16", "apart 1e-11"):
        plan = designed(SMALL[name], "dense", None)
        apart, noise, unit = bias(plan, SMALL[name])
        assert plan.distance is not None and (apart > noise + FLOATS * unit).any()
        # One cell at a time, the largest bias is the distance itself.
        A = plan.strategy.dense().astype(float)  # type: ignore[union-attr]
        Q = np.linalg.qr(A.T)[0]
        left = SMALL[name] - (SMALL[name] @ Q) @ Q.T
        largest = (np.abs(left).max(axis=1) / np.abs(SMALL[name]).max(axis=1)).max()
        assert plan.distance == pytest.approx(largest, rel=0.01)


def test_the_distance_is_said_and_kept(tmp_path: Path) -> None:
    W = SMALL["low rank, noise 1e-11"]
    plan = designed(W, "dense", None)
    assert plan.distance is not None and RANK_TOL / 100 < plan.distance < SPAN_TOL
    shown = next(line for line in str(plan).splitlines() if "answered" in line)
    stated = float(shown.split("at most ")[1].split()[0])
    assert plan.distance <= stated <= plan.distance * 1.11
    assert ln.load_plan(plan.save(tmp_path / "plan")).distance == plan.distance


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["auto", "dense", "eigen", "workload", "identity", "lowrank"])
def test_whole_coefficients_are_answered_as_they_are(method: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        m, n, k = rng.integers(2, 9, size=3)
        W = rng.integers(-3, 4, (m, k)) @ rng.integers(-2, 3, (k, n))
        plan = designed(W, method, None)
        assert plan.distance == 0 and "answered" not in str(plan)
        if W.any():
            apart, noise, unit = bias(plan, W)
            assert (apart <= noise + FLOATS * unit).all()


def test_whole_coefficients_that_count_as_one_are_not_passed_off_as_exact() -> None:
    plan = designed(np.array([[2**40, 1, 0], [2**40, 0, 1]]), "dense", None)
    assert plan.distance == pytest.approx(2.0**-40, rel=0.6) and "answered" in str(plan)


def test_fractions_that_floats_hold_are_answered_as_they_are() -> None:
    W = np.array([[0.5, 0.25, 0.0, 0.0], [0.0, 0.75, 2.0, 0.0], [0.5, 1.0, 2.0, 0.0]])
    plan = designed(W, "dense", None)
    assert plan.distance is not None and plan.distance <= FLOATS
    entries = plan.strategy.dense()  # type: ignore[union-attr]
    # In the exact span of the rows: what vanishes on them vanishes on what is measured.
    assert (entries @ np.array([2, -4, Fraction(3, 2), 0])).tolist() == [0] * len(entries)


def test_the_distance_of_a_structured_plan() -> None:
    """Each axis has its own; those of a product's axes add up."""
    schema = ln.Schema(a=range(40), b=range(50), c=range(60))
    asked = [ln.Prefix("a") * ln.Marginal("b"), ln.AllRanges("c"), ln.Total()]
    for method in ("residuals", "product", "marginals"):
        queries = asked[:1] if method == "product" else [ln.Cube("a", "b", "c", order=2)]
        plan = ln.design(ln.assemble(queries, schema), ln.GDP(1), method=method)
        assert plan.distance == 0 and "answered" not in str(plan)
    form = AxisForm("whole", 3, np.array([[2**40, 0, 1], [0, 2**40, 0]], dtype=np.int64))
    assert form.distance_of(Matrix([[1.0, 0.0, 0.0]])) == pytest.approx(2.0**-40)
    assert form.distance_of(Matrix([[1.0, 3.0, 2.0**-40]])) <= FLOATS
    assert form.spans(Matrix([[1.0, 0.0, 0.0]])) and not form.spans(Matrix([[1.0, 0.0, 1.0]]))


def test_what_depends_on_the_data_has_no_distance() -> None:
    plan = ln.design(ln.Workload.from_matrix(np.eye(4)), ln.PureDP(1), method="dawa")
    assert plan.distance is None and "answered" not in str(plan)
