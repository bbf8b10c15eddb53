"""Part (b): at ordinary noise, errors have the variance that is claimed, query by query.

Most errors are drawn quickly: noise of the library's own samplers, many releases at once, through the
strategy's map from noise to answers. That this map is the one that releases go through is checked on releases
made by hand, and some go through `measure` itself.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import leastnoise as ln
from leastnoise.core.errors import LeastnoiseError, UnrecordedSpending
from leastnoise.release import Release
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from leastnoise.release.simulation import RepeatableBits
from oracle import published
from oracle_cases import DATA_DEPENDENT, Case, Refused, designed, handed_over, measured

# Releases drawn at once, fewer where many integers are measured; and those by `measure`.
MOST_QUICK = 3_000
FEWEST_QUICK = 500
MOST_INTEGERS = 120_000
REAL = 24
# Noise that is followed by hand through a release, draw by draw.
FOLLOWED = 3
# The false-alarm rate of one case. Two hundred of them in `make test-all` raise one in a million runs.
CHANCE = 5e-9
LEVEL = 0.9
# The fourth moment of one Laplace variable over its squared variance; a sum of several has less.
LAPLACE_KURTOSIS = 6.0


def judged_noise(case: Case, folder: Path, rng: np.random.Generator) -> list[str]:
    """The complaints about one case."""
    if case.method in DATA_DEPENDENT:
        raise Refused("its errors depend on the data")
    try:
        plan = designed(case)
        release = measured(case, plan, folder)
    except LeastnoiseError as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    found = published(case, release)
    if found.complaints:
        return found.complaints
    truth = np.array(found.truths)
    claimed = np.array(release.stderr)
    noise = _noise(plan, rng)
    errors = plan.fixed_strategy().error_map(plan.workload)(noise.astype(float))
    complaints = _followed(case, plan, folder, noise, errors, truth, claimed)
    # One in four chances for each of four questions.
    share = CHANCE / 4
    complaints += _variances(plan, errors, claimed, share)
    real = _real(case, plan, folder, release) - truth[:, None]
    complaints += _variances(plan, real, claimed, share)
    half = (np.subtract(*reversed(release.interval(LEVEL)))) / 2
    complaints += _coverage(plan, errors, half, share, "interval")
    every = (np.subtract(*reversed(release.interval(LEVEL, simultaneous=True)))) / 2
    together = (np.abs(errors) <= every[:, None] * (1 + 1e-9)).all(axis=0)
    n = int(together.sum())
    if stats.binom.cdf(n, len(together), LEVEL) < share:
        complaints.append(f"simultaneous intervals hold {n} times of {len(together)}, not {LEVEL:.0%}")
    return complaints


def _noise(plan: Any, rng: np.random.Generator) -> Any:
    """The integers that many releases would add, one column each."""
    own = plan.fixed_strategy()
    draw = discrete_laplace if own.noise == "laplace" else rounded_gaussian
    n_runs = min(MOST_QUICK, max(FEWEST_QUICK, MOST_INTEGERS // own.n_measured))
    values = draw(own.scale, own.n_measured * n_runs, RepeatableBits(rng))
    return np.array(values, dtype=object).reshape(own.n_measured, n_runs)


def _followed(
    case: Case, plan: Any, folder: Path, noise: Any, errors: Any, truth: Any, claimed: Any
) -> list[str]:
    """Whether releases with noise put in by hand err as the quick way says."""
    own = plan.fixed_strategy()
    quiet = _read(case, plan, folder)
    complaints = []
    for column in range(FOLLOWED):
        off = Release(plan, quiet + noise[:, column]).answers - truth
        allowed = 1e-6 * claimed + 1e-7 * (1 + np.abs(truth))
        worst = int(np.argmax(np.abs(off - errors[:, column]) - allowed))
        if not abs(off[worst] - errors[worst, column]) <= allowed[worst]:
            complaints.append(
                f"row {worst} errs by {off[worst]:.6g}, and by {errors[worst, column]:.6g} where errors are "
                f"simulated; {own.n_measured} measured"
            )
            break
    return complaints


def _read(case: Case, plan: Any, folder: Path) -> Any:
    """What the strategy measures of the records, before noise: a release whose noise is taken off again."""
    from leastnoise.release import count_tables

    tables = count_tables(plan.workload, handed_over(case, plan, folder), plan.privacy.records_per_person)
    return plan.fixed_strategy().exact_answers(tables)


def _real(case: Case, plan: Any, folder: Path, first: Any) -> Any:
    """Answers of several releases by `measure`, one column each."""
    source = handed_over(case, plan, folder)
    if case.kind_of_source != "vector" and not case.has_person:
        source = ln.vectorize(source, plan.workload.schema)
    found = [first.answers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        n = REAL if case.kind_of_source == "vector" else 3
        found += [ln.measure(plan, source).answers for _ in range(n - 1)]
    return np.array(found).T


def _variances(plan: Any, errors: Any, claimed: Any, chance: float) -> list[str]:
    """Each query's mean squared error beside its claimed variance."""
    n_runs = errors.shape[1]
    exact = claimed <= 1e-12 * (1 + claimed.max(initial=0))
    complaints = []
    if (np.abs(errors[exact]) > 1e-6 * (1 + claimed.max(initial=0))).any():
        complaints.append("an answer without noise, as is claimed, has some")
    if exact.all():
        return complaints
    ratio = (errors[~exact] ** 2).sum(axis=1) / claimed[~exact] ** 2
    # A sum of squares of Laplace noise spreads as one of fewer Gaussian ones does.
    share = 2 / (LAPLACE_KURTOSIS - 1) if plan.privacy.noise == "laplace" else 1.0
    if share < 1 and n_runs < FEWEST_QUICK:
        return complaints
    each = chance / ratio.size / 2
    low, high = stats.chi2.ppf(each, share * n_runs), stats.chi2.isf(each, share * n_runs)
    for i in np.flatnonzero((share * ratio < low) | (share * ratio > high))[:3]:
        row = int(np.flatnonzero(~exact)[i])
        complaints.append(
            f"row {row} ({plan.workload.labels[row]!r}): variance over {n_runs} releases is "
            f"{ratio[i] / n_runs:.3g} times what is claimed"
        )
    return complaints


def _coverage(plan: Any, errors: Any, half: Any, chance: float, what: str) -> list[str]:
    """How often each query's interval holds the truth: as often as said, more often for Laplace noise."""
    n_runs = errors.shape[1]
    is_random = half > 0
    held = (np.abs(errors[is_random]) <= half[is_random, None]).sum(axis=1)
    each = chance / max(1, held.size) / 2
    low = stats.binom.ppf(each, n_runs, LEVEL)
    high = n_runs if plan.privacy.noise == "laplace" else stats.binom.isf(each, n_runs, LEVEL)
    wrong = np.flatnonzero((held < low) | (held > high))
    rows = np.flatnonzero(is_random)[wrong]
    return [
        f"row {rows[j]} ({plan.workload.labels[int(rows[j])]!r}): its {LEVEL:.0%} {what} holds "
        f"{held[i] / n_runs:.1%} of {n_runs} times"
        for j, i in enumerate(wrong[:3])
    ]
