"""Cells drawn towards independent attributes: minimiser and choice of τ by second routes, accuracy, files."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import leastnoise as ln
from leastnoise.core.errors import InputError, PlanFileError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.release import Release, load_release, simulated
from leastnoise.release.adjusting import entropy
from leastnoise.release.adjusting.entropy import PRECISION, EntropyFit, drawn_directions, entropy_cells
from leastnoise.release.adjusting.information import information_of
from leastnoise.release.adjustment import adjustment_from_parts
from support import refuses
from tolerances import ROUNDING

SHAPE = (4, 3, 2, 2)
SCHEMA = ln.Schema(age=range(4), region=("n", "e", "s"), sex=("F", "M"), job=("no", "yes"))
QUERIES = {
    "pairs": [ln.Cube(*SCHEMA.names, order=2)],
    "ranges": [ln.Prefix("age") * ln.Marginal("region"), ln.Marginal("sex", "job")],
    "conditions": [ln.Where("age < 2 or region == 'n'"), ln.Marginal("age", "sex"), ln.Marginal("region")],
}
CASES = [
    ("pairs", ln.GDP(1), "marginals"),
    ("ranges", ln.GDP(1), "residuals"),
    ("ranges", ln.PureDP(1), "auto"),
    ("conditions", ln.GDP(1), "residuals"),
    ("pairs", ln.GDP(1), "dense"),
]


@functools.cache
def plan_of(case: int) -> ln.Plan:
    queries, privacy, method = CASES[case]
    return ln.design(ln.assemble(QUERIES[queries], SCHEMA), privacy, method=method)


def random_counts(seed: int, n: int = 48) -> Array:
    """Skewed, sparse or even, and of very different sizes."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(0.5, 5)
    shares = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0, 10.0])))
    return rng.multinomial(int(size), shares)


def release_of(case: int, seed: int) -> Release:
    generator = np.random.default_rng(seed)
    return next(iter(simulated(plan_of(case), random_counts(seed), n_runs=1, generator=generator)))


def fitted(release: Release) -> tuple[EntropyFit, Array, Array, Array]:
    """The fit, A and y in units of the noise, and the estimates."""
    information = information_of(release.plan)
    strategy = release.plan.fixed_strategy()
    x_hat = information.estimates(release.measurements)
    linear = information.linear(x_hat, release.measurements)
    directions = drawn_directions(information, strategy.noise_variance, len(release.measurements))
    fit = entropy_cells(information, x_hat, linear, SHAPE, directions)
    unit = math.sqrt(strategy.noise_variance)
    return fit, strategy.dense().astype(float) / unit, release.measurements.astype(float) / unit, x_hat


def independent_table(release: Release, x_hat: Array) -> Array:
    """x₀ once more, from four one-way counts, by the truncated normal distribution of SciPy."""
    from scipy import stats

    information = information_of(release.plan)
    directions = drawn_directions(
        information, release.plan.fixed_strategy().noise_variance, len(release.measurements)
    )
    parts = []
    for a in range(4):
        others = tuple(i for i in range(4) if i != a)
        m = x_hat.reshape(SHAPE).sum(axis=others)
        s = math.sqrt(np.mean([d.reshape(SHAPE).sum(axis=others) ** 2 for d in directions.cells]))
        mean = stats.truncnorm.mean(-m / s, np.inf, loc=m, scale=s)
        parts.append(mean / mean.sum())
    return np.asarray(x_hat.sum() * np.einsum("a,b,c,d->abcd", *parts).reshape(-1))


def value(x: Array, A: Array, y: Array, start: Array, tau: float) -> float:
    """What (1) minimises."""
    left = A @ x - y
    held = x > 0
    return float(0.5 * left @ left + tau * x[held] @ np.log(x[held] / start[held]))


def minimiser(A: Array, y: Array, start: Array, tau: float) -> Array:
    """Of (1), by a quasi-Newton method over logarithms of shares: no duals, no Newton steps."""
    total = start.sum()

    def cells(z: Array) -> Array:
        e = np.exp(z - z.max()) * start
        return np.asarray(total * e / e.sum())

    def both(z: Array) -> tuple[float, Array]:
        x = cells(z)
        g = A.T @ (A @ x - y) + tau * np.log(x / start)
        return value(x, A, y, start, tau), x * (g - g @ x / total)

    z = np.zeros(len(start))
    for _ in range(5):
        z = optimize.minimize(both, z, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 0}).x
    return cells(z)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_the_fit_is_the_minimiser(seed: int) -> None:
    release = release_of(seed % len(CASES), seed)
    if not release.estimates.sum() > 0:
        return
    fit, A, y, x_hat = fitted(release)
    assert fit.ended == "converged" and fit.precision <= PRECISION and fit.cells.min() >= 0
    assert fit.cells.sum() == pytest.approx(x_hat.sum(), rel=ROUNDING)
    start = independent_table(release, x_hat)
    judge = minimiser(A, y, start, fit.strength)
    # (1) grows by at least half of the squared distance from its minimiser: what the judge gains bounds it.
    gained = value(fit.cells, A, y, start, fit.strength) - value(judge, A, y, start, fit.strength)
    assert gained <= fit.precision**2
    # Where it is good itself, the judge stands nearby; over logarithms it is slow where counts differ much.
    if gained > -1e-6:
        assert np.linalg.norm(A @ (fit.cells - judge)) <= fit.precision + 5e-3


@pytest.mark.parametrize("seed", range(10))
def test_both_bounds_hold_at_any_cells(seed: int) -> None:
    """(3) and (4) at points that no search would visit, with any vector d."""
    release = release_of(0, seed)
    fit, A, y, x_hat = fitted(release)
    information = information_of(release.plan)
    linear = information.linear(x_hat, release.measurements)
    directions = drawn_directions(information, release.plan.fixed_strategy().noise_variance, len(y))
    search = entropy._EntropySearch(information, x_hat, linear, SHAPE, directions, entropy.AdjustWatch())
    rng = np.random.default_rng(seed)
    forgetful = []
    for _ in range(10):
        tau = fit.strength
        x = x_hat.sum() * rng.dirichlet(np.full(48, rng.choice([0.5, 5.0])))
        x = (1 - (share := rng.random() ** 3)) * fit.cells + share * x
        g = information.times(x - x_hat) + linear
        far = float(np.linalg.norm(A @ (x - fit.cells))) - fit.precision
        assert far <= search._distance(np.log(x), x, g, tau)
        right = -(g + tau * (np.log(x) - search.log_start))
        d = search._solved(x, tau, right, 0.1) * rng.random()
        assert far <= search._refined(x, tau, right, d)[1] * (1 + ROUNDING)
        # A twin that takes d as the whole way forgets what is left of the gradient.
        forgetful.append(far <= math.sqrt(float(d @ information.times(d))))
    assert not all(forgetful)


@pytest.mark.thorough
@pytest.mark.parametrize("case", range(2))
def test_the_derivative_is_that_of_the_whole_fit(case: int) -> None:
    """x₀, T and all: against differences of fits to measurements moved along the directions."""
    release = release_of(case, 3)
    information = information_of(release.plan)
    variance = release.plan.fixed_strategy().noise_variance
    y = release.measurements.astype(float)
    directions = drawn_directions(information, variance, len(y))
    rng = np.random.default_rng(0)
    tau, step, pulled, tried = 0.1, 1e-3, 0.0, []

    def search_at(moved: Array) -> Any:
        x_hat = information.estimates(moved)
        linear = information.linear(x_hat, moved)
        search = entropy._EntropySearch(information, x_hat, linear, SHAPE, directions, entropy.AdjustWatch())
        search.best = search._point(search.log_start, np.exp(search.log_start) - x_hat, tau)
        search._settle(tau, search.best, 1e-7)
        return search

    here = search_at(y)
    for pull in directions.pulls:
        e = math.sqrt(variance) * rng.standard_normal(len(y))
        change = (search_at(y + step * e).best.x - search_at(y - step * e).best.x) / (2 * step)
        pulled += float(pull @ change)
        tried.append(here.best.h)
    square = float(here.best.h @ (here.best.g + here.linear))
    assert here._risk(tau, here.best) == pytest.approx(
        square + 2 * pulled / len(tried), abs=0.01 * 2 * abs(pulled) / len(tried)
    )


def squared_errors(plan: ln.Plan, counts: Array, n_runs: int) -> Array:
    """Of the release, of least squares and of entropy, (3,)."""
    truth = plan.workload.operator.apply(counts.astype(float))
    total = np.zeros(3)
    for release in simulated(plan, counts, n_runs=n_runs, generator=np.random.default_rng(0)):
        least = ln.adjust(release, fit="least squares")
        total += [((r.answers - truth) ** 2).sum() for r in (release, least, ln.adjust(release))]
    return total


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["nearly independent", "zero-inflated"])
def test_answers_come_out_nearer_than_by_least_squares_or_as_near(kind: str) -> None:
    """Attributes that are nearly independent, and a table of zeros and twenties where nothing is.

    The ratios to least squares are 0.785 and 1.011 in these runs of fixed noise; the second
    table has nothing to gain, and must not lose more than a fiftieth.
    """
    rng = np.random.default_rng(1)
    shape = (5, 4, 3, 2)
    schema = ln.Schema({name: range(n) for name, n in zip("abcd", shape, strict=True)})
    plan = ln.design(ln.assemble([ln.Cube(*"abcd", order=3)], schema), ln.GDP(0.5))
    n = math.prod(shape)
    if kind == "zero-inflated":
        counts = rng.poisson(20, n) * (rng.random(n) < 0.2)
        limit = 1.02
    else:
        shares = np.einsum("a,b,c,d->abcd", *(rng.dirichlet(np.ones(k)) for k in shape)).reshape(-1)
        shares = shares * rng.gamma(10, size=n)
        counts = rng.multinomial(2_000, shares / shares.sum())
        limit = 0.8
    raw, least, drawn = squared_errors(plan, counts, 20)
    assert drawn < limit * least and drawn < raw


def test_the_same_release_gives_the_same_answers() -> None:
    release = release_of(0, 1)
    assert (ln.adjust(release).answers == ln.adjust(release).answers).all()
    assert ln.adjust(release).adjusted.fit == "entropy"


def test_where_steps_lead_nowhere_least_squares_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    release = release_of(0, 1)
    monkeypatch.setattr(entropy, "_MAX_NEWTON", 0)
    adjusted = ln.adjust(release).adjusted
    assert adjusted.fit == "least squares" and adjusted.precision <= PRECISION
    # Asked for by name it says how far from the minimiser it is, or is refused.
    with refuses(TooLargeError, "time_limit"):
        ln.adjust(release, fit="entropy")
    assert ln.adjust(release, fit="entropy", time_limit=600).adjusted.ended == "exhausted"


def test_without_a_number_of_records_least_squares_is_taken() -> None:
    plan = ln.design(ln.Workload.from_matrix(np.array([[1, -1, 0], [0, 1, -1]])), ln.GDP(1))
    release = next(iter(simulated(plan, np.array([1, 2, 3]), n_runs=1, generator=np.random.default_rng(0))))
    assert ln.adjust(release).adjusted.fit == "least squares"
    with refuses(InputError, field="fit", given="entropy"):
        ln.adjust(release, fit="entropy")


def test_no_records_at_all_stay_none() -> None:
    generator = np.random.default_rng(0)
    for release in simulated(plan_of(0), np.zeros(48, dtype=np.int64), n_runs=8, generator=generator):
        adjusted = ln.adjust(release)
        total = float(release.estimates.sum())
        assert adjusted.estimates.sum() == pytest.approx(max(total, 0.0), abs=1e-9)


@pytest.mark.parametrize("fit", ["entropy", "least squares"])
def test_a_file_says_how_cells_were_fitted(fit: Any, tmp_path: Any) -> None:
    adjusted = ln.adjust(release_of(0, 1), fit=fit, integer=True)
    adjusted.save(tmp_path / "a.release")
    again = load_release(tmp_path / "a.release")
    assert again.adjusted.fit == fit and ("independent" in again.adjusted.statement()) == (fit == "entropy")
    # Adjusted again, in the same way or in no particular one, it stays; in the other way it is refused.
    assert ln.adjust(again, integer=True) is again and ln.adjust(again, fit=fit, integer=True) is again
    other = "least squares" if fit == "entropy" else "entropy"
    with refuses(InputError, field="release"):
        ln.adjust(again, fit=other, integer=True)


def test_cells_of_another_fit_are_not_read() -> None:
    plain, arrays = ln.adjust(release_of(0, 1)).adjusted.to_parts()
    assert plain["fit"] == "entropy"
    for wrong in ({"fit": "other"}, {"fit": ["entropy"]}, {"nonnegative": False}):
        with refuses(PlanFileError, "path"):
            adjustment_from_parts(plain | wrong, arrays, 48, "a.release")


@pytest.mark.parametrize("named", [{"fit": "maximum"}, {"fit": "entropy", "nonnegative": False}, {"fit": 1}])
def test_an_unknown_fit_is_refused(named: dict[str, Any]) -> None:
    with refuses(InputError, field="fit"):
        ln.adjust(release_of(0, 1), **named)


def test_a_deadline_hands_out_possible_cells() -> None:
    release = release_of(0, 1)
    hurried = ln.adjust(release, time_limit=1e-9)
    assert hurried.adjusted.ended == "deadline" and hurried.estimates.min() >= 0
    assert hurried.adjusted.precision > PRECISION
    assert hurried.estimates.sum() == pytest.approx(release.estimates.sum(), rel=ROUNDING)
