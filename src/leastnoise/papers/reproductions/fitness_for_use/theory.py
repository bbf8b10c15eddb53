"""Figure 1, section 3.2.1 and Theorems 6 and 7 of the fitness-for-use paper: what can be done by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.fitness_for_use.mechanisms import CERTIFIED, SMII
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, cell
from leastnoise.papers.reproductions.verdicts import Cause, Check, number, statement
from leastnoise.planning import Plan, design
from leastnoise.privacy import GDP
from leastnoise.query import MaxVariance, Targets, Workload

# Only 0.2 is in the text; the figure shows several.
COSTS = (0.2, 0.5, 1.0, 2.0)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)

# Plans are rounded to integers and never spend more than asked: a part in a million less is usual.
_ROUNDED = 1e-5

# The share to which a gap of 1e-6 fixes a variance,
_SOLVED = 2e-6

# and a covariance: its root, with room.
_COVARIANCE = 1e-2

# SM-II stops at a gap of 1e-3 in √α.
_SMII_GAP = 2e-3

_PLAN = "a plan for these answers"
_FORMULA = "Theorem 1"


# Figure 1 ------------------------------------------------------------------------------------


def curve(setting: Setting, *, cost: float) -> Iterator[Row]:
    """δ for every ε, from plans of two different shapes and from the formula of Theorem 1."""
    from scipy.special import ndtr

    shapes = {_PLAN: np.eye(1, dtype=int), f"{_PLAN}, prefix sums": np.tril(np.ones((4, 4), dtype=int))}
    for method, W in shapes.items():
        plan = design(Workload.from_matrix(W), GDP(cost))
        for epsilon in EPSILONS:
            yield {"epsilon": epsilon, "method": method, "delta": plan.delta(epsilon=epsilon)}
    for epsilon in EPSILONS:
        a, b = cost / 2 - epsilon / cost, -cost / 2 - epsilon / cost
        delta = float(ndtr(a) - math.exp(epsilon) * ndtr(b))
        yield {"epsilon": epsilon, "method": _FORMULA, "delta": delta}


def figure_1_tasks(setting: Setting) -> Sequence[Task]:
    """One for every curve."""
    return [Task(curve, {"cost": cost}, seconds=0.3) for cost in COSTS]


def figure_1_checks(known: Printed, rows: Sequence[Row]) -> Sequence[Check]:
    """Whether one number fixes the curve, and a smaller one lies below."""
    says = known.says

    def delta(cost: float, epsilon: float, method: str) -> float | None:
        return cell(rows, "delta", cost=cost, epsilon=epsilon, method=method)

    rises, apart, shapes = [], [], []
    for epsilon in EPSILONS:
        deltas = [found for cost in COSTS if (found := delta(cost, epsilon, _PLAN)) is not None]
        rises += [low < high for low, high in pairwise(deltas)]
        for cost in COSTS:
            one = delta(cost, epsilon, _PLAN)
            other, by_hand = delta(cost, epsilon, f"{_PLAN}, prefix sums"), delta(cost, epsilon, _FORMULA)
            if one is not None and other is not None and by_hand is not None:
                # The formula subtracts two tails: what is left of 1e-16 is all that floats can say.
                apart.append(abs(one - by_hand) <= _ROUNDED * by_hand * (1 + 8 * epsilon / cost**2) + 1e-15)
                shapes.append(abs(one - other) <= _ROUNDED * one * (1 + 8 * epsilon / cost**2))
    return [
        statement(says["below"], _all(rises), f"{sum(rises)} of {len(rises)} neighbouring pairs rise"),
        statement(says["fixed"], _all(shapes), f"{sum(shapes)} of {len(shapes)} points agree"),
        statement(says["formula"], _all(apart), f"{sum(apart)} of {len(apart)} points agree"),
    ]


def _all(found: Sequence[bool]) -> bool | None:
    return all(found) if found else None


# Section 3.2.1 -------------------------------------------------------------------------------

MECHANISMS = {
    "M1": ((1, 1, 0), (0, 1, 1)),
    "M2": ((1, 1, 0), (0, 1, 1), (1, 0, 1)),
}


def profiles(setting: Setting, *, mechanism: str) -> Iterator[Row]:
    """Noise of variance 1 on every row, and the certified plan that costs as much: profile and variance."""
    workload = Workload.from_matrix(np.array(MECHANISMS[mechanism]))
    goal = GDP(math.sqrt(2))
    plans = {
        "independent noise": design(workload, goal, method="workload"),
        CERTIFIED: design(workload, goal, objective=MaxVariance(), method="dense"),
    }
    for method, plan in plans.items():
        for place, value in enumerate(plan.profile.tolist(), start=1):
            yield {"method": method, "about": f"cell {place}", "value": float(value)}
        variance = float(plan.known_stderr().max()) ** 2
        yield {"method": method, "about": "largest variance", "value": variance}
        if method == CERTIFIED:
            yield {"method": method, "about": "lower bound", "value": plan.certificate.lower_bound}
    if mechanism == "M1":
        yield from _free(plans["independent noise"])


def _free(plan: Plan) -> Iterator[Row]:
    """The third row of M2, asked later without spending more."""
    later = design(Workload.from_matrix(np.array(MECHANISMS["M2"][2:])), after=[plan])
    found = {
        "largest profile": float(later.spent_together),
        "largest variance": float(later.known_stderr().max()) ** 2,
    }
    for about, value in found.items():
        yield {"method": "a third query later", "about": about, "value": value}


def section_tasks(setting: Setting) -> Sequence[Task]:
    """One for each of the two mechanisms."""
    return [Task(profiles, {"mechanism": name}, seconds=0.3) for name in MECHANISMS]


def section_checks(known: Printed, rows: Sequence[Row]) -> Sequence[Check]:
    """The two profiles, and the query for free."""
    checks = []
    for entry in known.numbers:
        ours = cell(rows, "value", method="independent noise", **entry.about)
        checks.append(_near(f"{entry.about['mechanism']}, {entry.about['about']}", entry.value, ours))
    one, two = (_largest(rows, mechanism=name, method="independent noise") for name in ("M1", "M2"))
    is_same = None if one is None or two is None else abs(one / two - 1) <= _ROUNDED
    checks.append(statement(known.says["same"], is_same, f"Δ² {_shown(one)} and {_shown(two)}"))
    spent = cell(rows, "value", mechanism="M1", method="a third query later", about="largest profile")
    variance = cell(rows, "value", mechanism="M1", method="a third query later", about="largest variance")
    is_free = None
    if spent is not None and variance is not None and one is not None:
        is_free = spent <= one * (1 + _ROUNDED) and variance <= 1 + _ROUNDED
    checks.append(
        statement(known.says["free"], is_free, f"Δ² {_shown(spent)} together, variance {_shown(variance)}")
    )
    return checks


def _near(claim: str, value: str, ours: float | None) -> Check:
    """A whole number that is printed as such and meant exactly."""
    if ours is None:
        return number(claim, value, None)
    holds = abs(ours / float(value) - 1) <= _ROUNDED
    return statement(claim, holds, f"{ours:.6f}", printed=value)


def _largest(rows: Sequence[Row], **about: str) -> float | None:
    found = [cell(rows, "value", about=f"cell {i}", **about) for i in (1, 2, 3)]
    return max((value for value in found if value is not None), default=None)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.5f}"


# Theorems 6 and 7 ----------------------------------------------------------------------------

QUERIES = ((1, 1), (1, 0))
_ENTRIES = ("a", "c", "d")


def least_squares(setting: Setting, *, method: str) -> Iterator[Row]:
    """Σ of the least total variance at privacy cost 1."""
    plan = design(Workload.from_matrix(np.array(QUERIES)), GDP(1), method=method)
    yield from _covariance(plan)
    yield {"about": "objective", "value": plan.certificate.achieved}
    yield {"about": "lower bound", "value": plan.certificate.lower_bound}
    # At the cost of Theorem 7 for γ = 1, which is √(4/3).
    worst = float(plan.known_stderr().max()) ** 2 * 3 / 4
    yield {"about": "largest variance at cost √(4/3)", "value": worst}


def _covariance(plan: Plan) -> Iterator[Row]:
    W = np.array(QUERIES, dtype=float)
    strategy = plan.strategy
    assert strategy is not None
    inverse: Array = W @ np.linalg.pinv(strategy.dense().astype(float))
    Sigma = inverse @ inverse.T * float(strategy.noise_variance)
    for name, value in zip(_ENTRIES, (Sigma[0, 0], Sigma[0, 1], Sigma[1, 1]), strict=True):
        yield {"about": name, "value": float(value)}


CUT_DIGIT = Cause(
    "the printed number is truncated to two digits",
    tested="the closed form, computed here, is (1 + 1/√5)·3/4 = 1.0854, which rounds to 1.09",
)


def theorem_6_tasks(setting: Setting) -> Sequence[Task]:
    """The certified optimum, and COA's."""
    return [Task(least_squares, {"method": method}, seconds=0.2) for method in ("dense", "coa")]


def theorem_6_checks(known: Printed, rows: Sequence[Row]) -> Sequence[Check]:
    """Σ, the objective, and the largest variance beside fitness for use."""
    checks = []
    for entry in known.numbers:
        ours = cell(rows, "value", method="dense", **entry.about)
        checks.append(number(f"{entry.about['about']} (β = 1)", entry.value, ours, cause=CUT_DIGIT))
    root = math.sqrt(5)
    exact = {"a": 1 + 1 / root, "c": (1 + 1 / root) / 2, "d": 1 / 2 + 3 * root / 10}
    holds = _agree(rows, "dense", exact, _COVARIANCE)
    checks.append(statement(known.says["covariance"], holds, _listed(rows, "dense", _ENTRIES)))
    objective = (3 + root) / 2
    for method in ("dense", "coa"):
        slack = _SOLVED if method == "dense" else _COVARIANCE
        holds = _agree(rows, method, {"objective": objective}, slack)
        found = _listed(rows, method, ("objective", "lower bound"))
        checks.append(statement(f"{known.says['objective']}; {method}", holds, found))
    return checks


def equal_targets(setting: Setting, *, gamma: float, method: str) -> Iterator[Row]:
    """Σ of the least privacy cost with both variances at most γ."""
    workload = Workload.from_matrix(np.array(QUERIES), stderr=np.full(2, math.sqrt(gamma)))
    options, name = {}, method
    if method in (SMII, "IP"):
        name, options = "smii", {"optimiser": "newton-cg" if method == SMII else "interior-point"}
    plan = design(workload, objective=Targets(), method=name, options=options)
    yield from _covariance(plan)
    found = plan.certificate
    for about, value in (("Δ", math.sqrt(found.achieved)), ("lower bound", math.sqrt(found.lower_bound))):
        yield {"about": about, "value": value}


def theorem_7_tasks(setting: Setting) -> Sequence[Task]:
    """Two caps, by the certified method and by the paper's two."""
    return [
        Task(equal_targets, {"gamma": gamma, "method": method}, seconds=0.2)
        for gamma in (1.0, 4.0)
        for method in ("dense", SMII, "IP")
    ]


def theorem_7_checks(known: Printed, rows: Sequence[Row]) -> Sequence[Check]:
    """Σ and Δ for every method."""
    checks = []
    for gamma in (1.0, 4.0):
        mine = [row for row in rows if row.get("gamma") == gamma]
        exact = {"a": gamma, "c": gamma / 2, "d": gamma}
        cost = math.sqrt(4 / (3 * gamma))
        for method in ("dense", SMII, "IP"):
            slack = _SMII_GAP if method == SMII else _SOLVED
            holds = _agree(mine, method, {"Δ": cost}, slack)
            ours = _listed(mine, method, ("Δ", "lower bound"))
            checks.append(statement(f"{known.says['cost']}: γ = {gamma:g}, {method}", holds, ours))
        holds = _agree(mine, "dense", exact, _COVARIANCE)
        ours = _listed(mine, "dense", _ENTRIES)
        checks.append(statement(f"{known.says['covariance']}: γ = {gamma:g}", holds, ours))
    return checks


def _agree(rows: Sequence[Row], method: str, exact: dict[str, float], slack: float) -> bool | None:
    """Whether all of these came out within a share; None where one was not run."""
    found = {about: cell(rows, "value", method=method, about=about) for about in exact}
    if any(value is None for value in found.values()):
        return None
    return all(abs(value / exact[about] - 1) <= slack for about, value in found.items() if value is not None)


def _listed(rows: Sequence[Row], method: str, abouts: Sequence[str]) -> str:
    found = ((about, cell(rows, "value", method=method, about=about)) for about in abouts)
    return ", ".join(f"{about} {_shown(value)}" for about, value in found)


THEORY = (
    Reproduction(
        "fitness-for-use/figure-1",
        "ε and δ of Gaussian noise for several privacy costs Δ",
        figure_1_tasks,
        figure_1_checks,
        Drawing("epsilon", "delta", "cost", panel="method", log="y", x_title="ε", y_title="δ"),
        notes=("Only Δ = 0.2 is named in the text; 0.5, 1 and 2 were chosen for the other curves.",),
    ),
    Reproduction(
        "fitness-for-use/section-3-2-1",
        "Two mechanisms of the same cost, one of which leaves room for another query",
        section_tasks,
        section_checks,
        Drawing("about", "value", "method", panel="mechanism"),
        notes=("The later query is planned by design(..., after=[plan]) without a goal of its own.",),
    ),
    Reproduction(
        "fitness-for-use/theorem-6",
        "The least total variance of x₁ + x₂ and x₁",
        theorem_6_tasks,
        theorem_6_checks,
        Drawing("about", "value", "method"),
    ),
    Reproduction(
        "fitness-for-use/theorem-7",
        "The least privacy cost of x₁ + x₂ and x₁ with equal targets",
        theorem_7_tasks,
        theorem_7_checks,
        Drawing("about", "value", "method", panel="gamma"),
    ),
)
