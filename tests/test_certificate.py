"""Certificates, recomputed here by singular values; tampered plans must not keep theirs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from leastnoise.bounds import Certificate, Witness, cell_bound, certificate, certify, nuclear_norm
from leastnoise.bounds.nuclear_norm import nuclear_norm_below, total_variance_bound, trace_root_below
from leastnoise.core.errors import DesignError
from leastnoise.planning import design
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    Objective,
    Prefix,
    Schema,
    Total,
    TotalVariance,
    Workload,
    assemble,
)
from leastnoise.strategy import Strategy
from support import refuses
from tolerances import ROUNDING, SOLVER

# trace K^½ loses half the digits of directions 1e-14 below the strongest.
SQUARED = 1e-9


@dataclasses.dataclass(frozen=True)
class Bare:
    """What certify looks at, without any of the checks a Plan makes."""

    strategy: Strategy
    privacy: Goal
    witness: Witness
    tol: float = SOLVER
    claim: Any = "stopped"
    objective: Objective = TotalVariance()  # noqa: RUF009 - a frozen value
    has_goal: bool = True
    used: Any = None


def bare(plan: Any, **changes: Any) -> Bare:
    parts = {field.name: getattr(plan, field.name) for field in dataclasses.fields(Bare)}
    return Bare(**(parts | changes))


def workloads() -> list[Workload]:
    rng = np.random.default_rng(1)
    schema = Schema(a=range(5), b=range(3))
    return [
        assemble([Prefix("a"), Marginal("b", weight=3), Total(weight=0.25)], schema),
        assemble([Prefix("a") * Marginal("b")], schema),
        assemble([AllRanges("a")], Schema(a=range(12))),
        Workload.from_matrix([[1]]),
        Workload.from_matrix([[0.0, -2.5, 1.0]]),
        Workload.from_matrix(rng.normal(size=(4, 9)), weights=rng.uniform(0.01, 5, 4)),
        Workload.from_matrix(rng.normal(size=(30, 3)) @ rng.normal(size=(3, 8))),
        Workload.from_matrix(rng.integers(-2, 3, (9, 6)), weights=10.0 ** rng.uniform(-4, 4, 9)),
        Workload.from_matrix(np.ones((6, 4))),
    ]


def geometric_variance(epsilon: float) -> float:
    """The variance of P(x) ∝ exp(−ε|x|) on the integers, summed up."""
    x = np.arange(-int(60 / epsilon) - 60, int(60 / epsilon) + 61)
    p = np.exp(-epsilon * np.abs(x))
    return float((p * x**2).sum() / p.sum())


def agrees(found: Certificate, workload: Workload, plan: Any) -> bool:
    """Both numbers from the dense workload, the integers and q, by singular values."""
    W = workload.dense() * np.sqrt(workload.weights)[:, None]
    strategy, q = plan.strategy, found.witness.q
    if isinstance(q, tuple):
        # Weights of the attributes in their order here; one for all values of one that is never asked.
        sizes = workload.schema.shape
        q = reduce(np.kron, [np.broadcast_to(own, (n,)) for own, n in zip(q, sizes, strict=True)])
    A = strategy.dense().astype(float)
    achieved = strategy.noise_variance * np.linalg.norm(W @ np.linalg.pinv(A, rcond=1e-11)) ** 2
    F = np.linalg.svd(W * np.sqrt(q), compute_uv=False).sum()
    if strategy.noise == "laplace":
        unit = geometric_variance(float(plan.privacy.epsilon_per_record))
    else:
        unit = 1 / float(plan.privacy.mu_squared)
    bound = unit * F**2 / q.sum()
    return bool(
        abs(found.achieved / achieved - 1) < SQUARED
        and bound * (1 - 1e-6) <= found.lower_bound <= bound * (1 + ROUNDING)
        and found.lower_bound <= found.achieved
    )


@pytest.mark.thorough
@pytest.mark.parametrize("workload", workloads(), ids=repr)
@pytest.mark.parametrize(
    "goal", [GDP(1), ApproxDP(0.5, 1e-9, records_per_person=3), ZCDP(20), PureDP(2)], ids=str
)
def test_certificates_agree_with_singular_values(workload: Workload, goal: Goal) -> None:
    plan = design(workload, goal)
    found = certify(workload, plan)
    assert agrees(found, workload, plan)
    if goal.noise == "gaussian":
        assert found.status == "optimal"
        assert found.lower_bound <= found.achieved <= (1 + found.gap) * found.lower_bound * (1 + ROUNDING)
        assert 0 <= found.gap <= SOLVER
    else:
        assert found.status == "heuristic" or found.gap <= SOLVER
    for other in (found.achieved * 0.999, found.achieved * 1.001):
        assert not agrees(dataclasses.replace(found, achieved=other), workload, plan)
    for other in (found.lower_bound * 0.999, found.lower_bound * 1.001):
        assert not agrees(dataclasses.replace(found, lower_bound=other), workload, plan)


def test_random_plans_lie_above_their_bounds() -> None:
    rng = np.random.default_rng(2)
    for _ in range(120):
        m, n = rng.integers(1, 9, 2)
        W = rng.integers(-2, 3, (m, n)) * rng.integers(0, 2, (m, n))
        workload = Workload.from_matrix(W)
        rows = np.vstack([W, rng.integers(-1, 2, (2, n))])
        scale = 2**20
        plan = Bare(
            Strategy(rows << 20, scale=scale, noise="gaussian"),
            GDP(Fraction(int((rows**2).sum(axis=0).max()) + 1)),
            Witness(None, rng.exponential(size=n) * rng.integers(0, 2, n)),
        )
        found = certify(workload, plan)
        assert 0 <= found.lower_bound <= found.achieved


# Tampering -----------------------------------------------------------------------------------

WORKLOAD = assemble([Prefix("a")], Schema(a=range(8)))
LIGHT = Workload.from_matrix([[1, 1, 1], [1, 0, 0]], weights=[1, 1e-14])


def test_half_the_noise_is_refused() -> None:
    plan = design(WORKLOAD, GDP(1))
    for scale in (plan.strategy.scale // 2, plan.strategy.scale - 1):
        less = Strategy(plan.strategy.entries, scale=scale, noise="gaussian")
        with refuses(DesignError, "privacy", ..., "spends more than its privacy goal allows"):
            certify(WORKLOAD, bare(plan, strategy=less))
    with refuses(DesignError, "privacy", ..., "spends more than its privacy goal allows"):
        certify(WORKLOAD, bare(plan, privacy=GDP(0.999999)))
    with refuses(DesignError, "privacy", ..., "spends more than its privacy goal allows"):
        certify(WORKLOAD, bare(plan, privacy=PureDP(1)))
    with refuses(DesignError, "neighbours", "replace-one"):
        certify(WORKLOAD, bare(plan, privacy=GDP(1, neighbours="replace-one")))


@pytest.mark.parametrize("workload", [WORKLOAD, LIGHT, *workloads()[:3]], ids=repr)
def test_a_removed_row_is_refused(workload: Workload) -> None:
    """The row of a light query used to vanish behind the heavy ones."""
    plan = design(WORKLOAD, GDP(1)) if workload is WORKLOAD else design(workload, GDP(1), method="identity")
    assert certify(workload, plan).achieved > 0
    for drop in (0, -1):
        rows = np.delete(plan.strategy.entries, drop, axis=0)
        if workload is LIGHT:
            rows = np.ones((1, 3), dtype=int)
        fewer = Strategy(rows, scale=plan.strategy.scale, noise="gaussian")
        with refuses(DesignError, "strategy", ..., "does not span the queries; it was made for"):
            certify(workload, bare(plan, strategy=fewer))


def test_a_changed_entry_changes_the_certificate() -> None:
    plan = design(WORKLOAD, GDP(1))
    rows = plan.strategy.entries.copy()
    rows[0, 0] //= 2
    found = certify(
        WORKLOAD, bare(plan, strategy=Strategy(rows, scale=plan.strategy.scale, noise="gaussian"))
    )
    assert found.achieved > plan.certificate.achieved * (1 + 100 * SOLVER)
    assert found.status == "stopped"


@pytest.mark.parametrize(
    ("q", "words"),
    [
        (np.full(8, -1.0), "finite weights, zero or more"),
        (np.array([1.0] * 7 + [-1e-300]), "finite weights, zero or more"),
        (np.full(8, np.nan), "finite weights, zero or more"),
        (np.full(8, np.inf), "finite weights, zero or more"),
        (np.ones(7), "certify the workload that the plan was designed for"),
        (np.ones((8, 1)), "certify the workload that the plan was designed for"),
        (np.array(1.0), "certify the workload that the plan was designed for"),
    ],
)
def test_witnesses_that_prove_nothing_are_refused(q: Any, words: str) -> None:
    with refuses(DesignError, "witness", ..., words):
        certify(WORKLOAD, bare(design(WORKLOAD, GDP(1)), witness=Witness(None, q)))


def test_another_workload_is_refused() -> None:
    other = assemble([Prefix("a")], Schema(a=range(9)))
    with refuses(DesignError, "workload", 9, "the plan is for 8 cells, the workload has 9; certify"):
        certify(other, design(WORKLOAD, GDP(1)))


def test_no_witness_raises_the_bound_above_the_optimum() -> None:
    plan = design(WORKLOAD, GDP(1))
    best = plan.certificate
    rng = np.random.default_rng(3)
    tries = [plan.witness.q * factor for factor in (1e-300, 1e-9, 1e9, 1e300)]
    tries += [10.0 ** rng.uniform(-300, 300, 8) for _ in range(50)]
    tries += [rng.exponential(size=8) * rng.integers(0, 2, 8) for _ in range(50)]
    for q in tries:
        found = certify(WORKLOAD, bare(plan, witness=Witness(None, q)))
        assert found.lower_bound <= best.achieved
        assert found.status == ("optimal" if found.gap <= SOLVER else "stopped")
    for factor in (1e-300, 1e300):
        found = certify(WORKLOAD, bare(plan, witness=Witness(None, plan.witness.q * factor)))
        assert found.lower_bound == pytest.approx(best.lower_bound, rel=ROUNDING)


def test_a_witness_of_zeros_never_makes_a_plan_optimal() -> None:
    """With a bound of 0 the gap is absolute; a tiny total variance used to pass for optimal."""
    plan = design(WORKLOAD, GDP(1e9))
    found = certify(WORKLOAD, bare(plan, witness=Witness(None, np.zeros(8))))
    assert 0 < found.achieved < SOLVER
    assert found.lower_bound == 0 and found.status == "stopped" and found.gap == found.achieved


def test_numbers_beyond_floats_are_refused() -> None:
    workload = Workload.from_matrix(np.eye(2) * 1e99, weights=1e200)
    with refuses(DesignError, "workload", ..., "too large for floats; scale weights or rows"):
        design(workload, GDP(1)).certificate


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_extreme_weights_only_change_the_unit(unit: float) -> None:
    once = design(WORKLOAD, GDP(1)).certificate
    found = design(Workload.from_matrix(WORKLOAD.dense(), weights=unit), GDP(1)).certificate
    assert found.status == "optimal"
    assert found.achieved / unit == pytest.approx(once.achieved, rel=SOLVER)


def test_the_text_names_both_sides() -> None:
    found = Certificate(2.0, 1.6, "stopped", Witness(None, np.ones(1)), "total variance")
    assert (
        str(found) == "stopped: total variance 2, and no Gaussian noise can have less than 1.6 (gap 2.5e-01)"
    )
    assert found.gap == pytest.approx(0.25, rel=ROUNDING)
    assert dataclasses.replace(found, lower_bound=-1.0).gap == 3


# The nuclear norm ----------------------------------------------------------------------------


def matrices() -> list[Any]:
    rng = np.random.default_rng(4)
    found = [np.zeros((2, 2)), np.ones((3, 3)), np.eye(1), 1e-150 * np.eye(3), np.diag([1.0, 0.0, 1e-20])]
    for _ in range(150):
        m, n = rng.integers(1, 30, 2)
        k = int(rng.integers(1, min(m, n) + 1))
        left = np.linalg.qr(rng.normal(size=(m, k)))[0]
        right = np.linalg.qr(rng.normal(size=(n, k)))[0]
        found.append((left * 10.0 ** (-rng.choice([0, 3, 6, 9, 14]) * rng.random(k))) @ right.T)
    return found


def is_below(bound: float, N: Any) -> bool:
    return bound <= float(np.linalg.svd(N, compute_uv=False).sum()) * (1 + ROUNDING)


def test_the_bound_is_below_the_nuclear_norm_and_close() -> None:
    for N in matrices():
        values = np.linalg.svd(N, compute_uv=False)
        truth = float(values.sum())
        for K in (N.T @ N, N @ N.T):
            bound = trace_root_below(K)
            # Directions whose squares are below 1e-14 n of the largest are left out, and those
            # just above are known to a digit or two.
            left_out = 2 * len(values) * np.sqrt(1e-14 * len(K)) * values.max()
            assert is_below(bound, N) and bound >= truth - left_out
            assert truth == 0 or not is_below(bound * 1.0001, N)


def test_singular_vectors_keep_every_digit() -> None:
    for N in matrices():
        truth = float(np.linalg.svd(N, compute_uv=False).sum())
        bound = nuclear_norm_below(N)
        assert is_below(bound, N) and bound >= truth * (1 - ROUNDING)


@pytest.mark.thorough
def test_poor_singular_vectors_weaken_the_bound_and_never_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = scipy.linalg.svd
    rng = np.random.default_rng(7)

    def perturbed(N: Any, size: float, inflate: float) -> Any:
        U, s, Vt = honest(N, full_matrices=False)
        return inflate * (U + size * rng.normal(size=U.shape)), s, Vt + size * rng.normal(size=Vt.shape)

    naive = []
    for size, inflate in ((1e-9, 1.0), (1e-3, 1.0), (0.3, 1.0), (0.0, 4.0), (0.0, 0.01), (1e-2, 1.5)):
        monkeypatch.setattr(
            scipy.linalg,
            "svd",
            lambda N, size=size, inflate=inflate, **_: perturbed(N, size, inflate),
        )
        for N in matrices():
            assert is_below(nuclear_norm_below(N), N)
            U, _, Vt = scipy.linalg.svd(N, full_matrices=False)
            naive.append(is_below(float(np.vdot(U.T @ N, Vt)), N))
    assert not all(naive), "trusting the singular vectors would have been noticed"
    monkeypatch.setattr(scipy.linalg, "svd", lambda N, **_: (N * np.nan, 0, N * np.nan))
    assert nuclear_norm_below(np.eye(2)) == 0


@pytest.mark.thorough
def test_a_poor_eigensolver_weakens_the_bound_and_never_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = scipy.linalg.eigh
    rng = np.random.default_rng(5)

    def perturbed(K: Any, size: float, inflate: float) -> Any:
        values, vectors = honest(K)
        return values * inflate, vectors + size * rng.normal(size=vectors.shape)

    naive = []
    for size, inflate in ((1e-9, 1.0), (1e-3, 1.0), (0.3, 1.0), (0.0, 4.0), (0.0, 0.01), (1e-2, 1.5)):
        monkeypatch.setattr(
            scipy.linalg, "eigh", lambda K, size=size, inflate=inflate, **_: perturbed(K, size, inflate)
        )
        for N in matrices():
            assert is_below(trace_root_below(N.T @ N), N)
            naive.append(is_below(np.sqrt(np.maximum(scipy.linalg.eigh(N.T @ N)[0], 0)).sum(), N))
    assert not all(naive), "trusting the eigenvalues would have been noticed"


@pytest.mark.parametrize("junk", [np.nan, 0.0, -1.0])
def test_a_broken_eigensolver_proves_nothing(monkeypatch: pytest.MonkeyPatch, junk: float) -> None:
    monkeypatch.setattr(scipy.linalg, "eigh", lambda K, **_: (np.full(len(K), junk), np.full(K.shape, junk)))
    assert trace_root_below(np.eye(3)) == 0


@pytest.mark.parametrize("entries", [0, 2**20])
def test_the_bound_by_either_route(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    monkeypatch.setattr(nuclear_norm, "_SVD_ENTRIES", entries)
    rng = np.random.default_rng(6)
    for m in (2, 9):
        W = rng.normal(size=(m, 5))
        q = rng.exponential(size=5)
        truth = np.linalg.svd(W * np.sqrt(q), compute_uv=False).sum() ** 2 / q.sum()
        for unit in (1e-90, 1.0, 1e90):
            found = total_variance_bound(Workload.from_matrix(W * unit), q)
            assert found == pytest.approx(truth * unit**2, rel=SQUARED)
        assert total_variance_bound(Workload.from_matrix(W * 0), q) == 0


@pytest.mark.parametrize("entries", [0, 2**20])
def test_certificates_by_either_route(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    monkeypatch.setattr(nuclear_norm, "_SVD_ENTRIES", entries)
    for workload in workloads():
        plan = design(workload, GDP(1))
        assert agrees(certify(workload, plan), workload, plan)


def test_the_solver_is_not_asked() -> None:
    def imported(source: str) -> set[str]:
        names = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        return names

    source = inspect.getsource(certificate)
    sources = source + inspect.getsource(cell_bound) + inspect.getsource(nuclear_norm)
    assert not [name for name in imported(sources) if "solver" in name or "planning" in name]
    assert [
        name for name in imported(source + "\nfrom leastnoise.solver import Progress") if "solver" in name
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 20.0])
def test_no_pure_plan_is_called_optimal_and_geometric_noise_does_not_beat_the_bound(epsilon: float) -> None:
    """The bound once took the variance of continuous noise; geometric noise has half of it at ε = 3."""
    workload = assemble([Marginal("a")], Schema(a=range(4)))
    found = design(workload, PureDP(epsilon)).certificate
    assert found.status == "heuristic"
    assert found.among == "Laplace"
    assert found.lower_bound <= 4 * geometric_variance(epsilon) * (1 + ROUNDING)
    assert epsilon < 1 or 4 * geometric_variance(epsilon) < 4 * 2 / epsilon**2 * 0.95
