"""What accuracy costs in privacy: standard errors for a range of ε, and where targets are met.

Little has to be designed. Let v be the variances that some noise gives within a budget μ² (or, for Laplace
noise, ε²); noise √t times as large gives t v within the budget divided by t. So what is best for one budget
is best for all, with errors that fall as 1/μ, wherever the objective does not name a number of its own:

    total variance, largest variance, absolute error   designed once, scaled
    targets                            designed once; the factor on all targets falls as 1/μ

The total variance within targets does name numbers, and is designed again for every ε, but for two ends:

    below the ε that meets the targets at all    the noise that misses them by the least common factor
    where the least total variance meets them    that one, scaled: nothing within the targets can have less

    trade_off_table.py   the table, and its files
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError, LeastnoiseError
from leastnoise.core.printable import counted, printable
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning import Plan
from leastnoise.privacy import ApproxDP, Goal, LeastLoss, PureDP, epsilon_of
from leastnoise.query import Objective, Targets, TotalVariance, Workload, default_objective
from leastnoise.report.baseline_noise import Baselines, baselines
from leastnoise.report.figures import enough, too_little
from leastnoise.report.plan_sentences import target_with_stderr
from leastnoise.report.pressure import largest_shares
from leastnoise.report.redesign import DesignSeries, Turn, turn_to_line
from leastnoise.report.trade_off_table import (
    AskedBatch,
    BatchAccuracy,
    How,
    Needed,
    Tradeoff,
    TradeoffPoint,
    write_tradeoff,
)

__all__ = ["AskedBatch", "BatchAccuracy", "Needed", "Tradeoff", "TradeoffPoint", "tradeoff", "write_tradeoff"]

# What most releases lie between, in steps of about a factor of 2.
EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0, 4.0)

# The δ where none is given.
DELTA = 1e-6

# Up to this gap the least ε that meets the targets is called proved.
_PROVED = 1e-3

# The share of the time limit that the design for the goal's own ε has, however late it begins.
_OWN_SHARE = 0.1

# A target is kept up to the rounding of a product of two floats.
_ROUNDING = 1e-12


def tradeoff(
    workload: Workload,
    privacy: Goal | LeastLoss | None = None,
    *,
    epsilons: Sequence[float] | None = None,
    factors: Sequence[float] = FACTORS,
    delta: float | None = None,
    objective: Objective | None = None,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    over: str | None = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Told[Turn] = None,
) -> Tradeoff:
    """Standard errors of every batch for a range of ε, next to those of unshaped noise.

    Args:
        workload: the queries, from `assemble`.
        privacy: a goal, or a `LeastLoss`, whose δ, neighbours and records per person are kept while ε varies;
            its own ε is one of the points. `PureDP` gives Laplace noise. None for add-remove neighbours and
            one record per person.
        epsilons: the values of ε; by default a range from 0.1 to 10.
        factors: factors on all targets; the result has the ε that each needs.
        delta: the δ, where the goal has none; 1e-6 by default.
        objective: what to minimise, as for `design`.
        method: as for `design`; so are ``options``, ``over``, ``tol`` and ``backend``.
        options: options of the method.
        over: the time attribute, as for `design`.
        tol: the relative gap to the proven optimum at which a search may stop.
        backend: "numpy", "torch" or "cuda".
        time_limit: seconds for everything, shared among the designs; the goal's own ε comes first. A search
            that runs out of time reports its gap, and the notes list what there was no time for. None for no
            limit.
        progress: called with a `Turn` when a design begins and after every step of it. By default a notebook
            shows a bar if this takes more than a second; ``False`` for none.

    Guarantee:
        A point that is scaled from a plan has the same gap to the optimum as that plan, up to the rounding of
        strategies to integers, which stays below ``tol``.

    Raises:
        InputError: if an argument is not what it must be.
        MethodError: if the method depends on the data, so that its errors are not known.
    """
    _check_arguments(workload, time_limit)
    goal, asked = _goal(privacy, delta)
    wanted = _numbers("epsilons", EPSILONS if epsilons is None else epsilons)
    wanted_factors = _numbers("factors", factors)
    chosen = default_objective(workload, objective, has_goal=isinstance(privacy, Goal))
    settings = {"method": method, "options": options, "over": over, "tol": tol, "backend": backend}
    every = sorted({*wanted, *([] if asked is None else [asked])})
    with progress_shown(progress, "designing", turn_to_line("designing")) as tell:
        curve = _Curve(workload, goal, chosen, DesignSeries(time_limit, tell), settings, len(every))
        return _table(curve, every, asked, wanted_factors)


def _check_arguments(workload: Workload, time_limit: float | None) -> None:
    if not isinstance(workload, Workload):
        raise InputError.must("workload", "be a Workload from assemble()", given=type(workload))
    if time_limit is not None and not (isinstance(time_limit, (int, float)) and time_limit > 0):
        raise InputError.must("time_limit", "be a positive number of seconds", given=time_limit)


def _table(curve: _Curve, every: Sequence[float], asked: float | None, factors: Sequence[float]) -> Tradeoff:
    """The trade-off at every ε, and the ε that each factor on the targets needs."""
    goal = curve.goal
    points = [replace(point, is_asked=point.epsilon == asked) for point in curve.points(every, asked)]
    least = curve.needed_budget()
    needed = [_needed(goal, least, factor) for factor in factors] if least else []
    return Tradeoff(
        points=tuple(points),
        asked=tuple(curve.asked(b) for b in range(len(curve.workload.blocks))),
        needed=tuple(needed),
        delta=float(goal.delta) if isinstance(goal, ApproxDP) else None,
        what=str(curve.objective),
        neighbours=goal.statement().rpartition(", ")[2],
        notes=(*curve.notes(), *(["* the goal that was given"] if asked is not None else [])),
    )


def _goal(privacy: Goal | LeastLoss | None, delta: float | None) -> tuple[ApproxDP | PureDP, float | None]:
    """The goal whose ε varies, and the ε that was asked for."""
    if privacy is not None and not isinstance(privacy, (Goal, LeastLoss)):
        raise InputError.must("privacy", "be PureDP, ApproxDP, ZCDP, GDP or LeastLoss", given=type(privacy))
    names_delta = isinstance(privacy, LeastLoss) and privacy.delta is not None
    if isinstance(privacy, (ApproxDP, PureDP)) or names_delta:
        if delta is not None:
            raise InputError(
                f"the goal {privacy!r} says already which delta to keep; ",
                Remedy("leave ", Argument("delta"), " out"),
                field="delta",
                given=delta,
            )
        if isinstance(privacy, (ApproxDP, PureDP)):
            return privacy, float(privacy.epsilon)
    at = DELTA if delta is None else delta
    if not isinstance(privacy, Goal):
        return (privacy or LeastLoss()).goal_at(1.0, at), None
    k = privacy.records_per_person
    epsilon = epsilon_of(privacy.budget_per_person, at)
    goal = ApproxDP(epsilon, at, neighbours=privacy.neighbours, records_per_person=k)
    return goal, epsilon


def _numbers(what: str, given: Iterable[float]) -> list[float]:
    try:
        values = [float(value) for value in given]
    except (TypeError, ValueError, OverflowError):
        raise InputError.must(what, "be a list of positive numbers", given=given) from None
    if not values or not all(0 < value < math.inf for value in values):
        raise InputError.must(what, "be a list of positive numbers", given=given)
    return sorted(set(values))


class _Curve:
    """What can be had at every ε, from as few designs as theory allows."""

    def __init__(
        self,
        workload: Workload,
        goal: ApproxDP | PureDP,
        objective: Objective,
        series: DesignSeries,
        settings: Mapping[str, Any],
        n_points: int,
    ) -> None:
        self.workload, self.goal, self.objective = workload, goal, objective
        self.series, self.settings = series, settings
        self.is_within = objective.kind == "total-within-caps"
        self.least_total: _ScaledPlan | None = None
        self.n_designed = 0
        self.failures: list[str] = []
        self.too_late: list[float] = []
        if not self.is_within:
            self.base = _ScaledPlan(self._plan(goal, objective, f"the {objective}"))
            return
        # As many as there may be: what turns out not to be designed leaves its time to the others.
        series.expect(2 + n_points)
        self.base = _ScaledPlan(self._plan(goal, Targets(), "the least that meets the targets"))
        assert isinstance(objective, TotalVariance)
        try:
            least = TotalVariance(relative_to=objective.relative_to)
            self.least_total = _ScaledPlan(self._plan(goal, least, "the least total variance"))
        except LeastnoiseError:
            # A query of weight zero may be outside what the total asks; then every ε is designed.
            self.least_total = None

    def _plan(self, goal: Goal, objective: Objective, subject: str, *, is_own: bool = False) -> Plan:
        """A plan that states its errors; one for the goal's own ε is never left out for lack of time."""
        share = _OWN_SHARE if is_own else 0.0
        plan = self.series.plan(
            subject, self.workload, goal, least_share=share, objective=objective, **self.settings
        )
        plan.fixed_strategy()
        return plan

    def points(self, epsilons: Sequence[float], asked: float | None) -> list[TradeoffPoint]:
        goals = [(epsilon, replace(self.goal, epsilon=epsilon)) for epsilon in epsilons]
        if not self.is_within:
            return [self.base.point(epsilon, goal, "scaled") for epsilon, goal in goals]
        self.series.expect(sum(self._is_between(goal) for _, goal in goals))
        # The goal's own first, as what comes last may be too late; false sorts before true.
        in_turn = sorted(goals, key=lambda pair: pair[0] != asked)
        found = [self._within(epsilon, goal, is_own=epsilon == asked) for epsilon, goal in in_turn]
        return sorted(found, key=lambda point: point.epsilon)

    def _is_between(self, goal: Goal) -> bool:
        """Whether a goal meets the targets, and they still press."""
        if self.base.factor(goal) > 1:
            return False
        return self.least_total is None or self.least_total.factor(goal) > 1

    def _within(self, epsilon: float, goal: Goal, *, is_own: bool) -> TradeoffPoint:
        if self.base.factor(goal) > 1:
            return self.base.point(epsilon, goal, "missed")
        if not self._is_between(goal):
            assert self.least_total is not None
            return self.least_total.point(epsilon, goal, "scaled")
        # This close to the least ε, or this late, the plan for the targets alone is all there is.
        instead = replace(self.base.point(epsilon, goal, "scaled"), gap=math.nan, status="stopped")
        if self.series.deadline.is_past and not is_own:
            self.too_late.append(epsilon)
            return instead
        try:
            plan = self._plan(goal, self.objective, f"epsilon = {epsilon:.4g}", is_own=is_own)
        except LeastnoiseError as error:
            self.failures.append(f"At epsilon = {epsilon:.4g} the targets alone were planned for: {error}")
            return instead
        self.n_designed += 1
        return _ScaledPlan(plan).point(epsilon, goal, "designed")

    def needed_budget(self) -> float | None:
        """The budget of a record at which all targets are just met; None where the plan aims at none."""
        if self.is_within or isinstance(self.objective, Targets):
            return self.base.budget * self.base.largest_factor**self.base.power
        return None

    def asked(self, b: int) -> AskedBatch:
        block = self.workload.blocks[b]
        factor = self.base.factors[b]
        targets = block.targets[np.isfinite(block.targets)]
        met_from = None
        if factor is not None:
            met_from = _epsilon_at(self.goal, self.base.budget * factor**self.base.power)
        stderr = float(targets.min()) if len(targets) else None
        return AskedBatch(block.name, block.n_rows, printable(target_with_stderr(block)), stderr, met_from)

    def notes(self) -> list[str]:
        """What was designed, what was scaled, and why that is right."""
        notes = []
        if self.base.simple.per_count.is_bound:
            notes.append("What noise on each count would have is not known exactly here: it is at most that.")
        errors = "1/epsilon" if self.goal.noise.is_pure else "1/mu"
        proof = self.base.plan.certificate
        if not self.is_within:
            is_best = proof.status == "optimal"
            shape = "the best shape of the noise is the same" if is_best else "the shape of the noise is kept"
            once = (
                f"Designed once ({_proof(proof.status, proof.gap)}): {shape} for every epsilon, and standard"
            )
            return [*notes, f"{once} errors fall as {errors}."]
        first = _epsilon_at(self.goal, self.needed_budget() or 0.0)
        is_proved = proof.gap <= _PROVED
        none = (
            f"no {proof.among} noise meets the targets" if is_proved else "no plan was found that meets them"
        )
        notes.append(
            f"Below epsilon = {too_little(first)} {none}; what is shown misses them by the least factor."
        )
        if self.n_designed:
            each = counted(self.n_designed, "design")
            notes.append(f"Above it targets bind, and every epsilon has a design of its own ({each}).")
        if self.least_total is not None:
            least = self.least_total
            last = _epsilon_at(self.goal, least.budget * least.largest_factor**self.base.power)
            notes.append(
                f"From epsilon = {enough(last)} on the least total variance meets all targets by itself: one "
                "design, scaled."
            )
        if self.too_late:
            late = ", ".join(f"{epsilon:.4g}" for epsilon in self.too_late)
            notes.append(
                f"The time limit was reached before epsilon = {late}: there the targets alone were planned "
                "for. Give more time, or fewer epsilons."
            )
        return [*notes, *self.failures]


class _ScaledPlan:
    """A plan, and what the same noise gives within another budget."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.power = plan.privacy.noise.power
        self.budget = float(plan.privacy.budget)
        self.simple: Baselines = baselines(plan)
        self.factors = _factors(plan)

    @property
    def largest_factor(self) -> float:
        """The largest standard error as a multiple of its target, at the plan's own goal."""
        return max((factor for factor in self.factors if factor is not None), default=0.0)

    def growth(self, goal: Goal) -> float:
        """What standard errors are multiplied with within another goal."""
        ratio = self.budget / float(goal.budget)
        return goal.noise.root(ratio)

    def factor(self, goal: Goal) -> float:
        """The largest standard error as a multiple of its target."""
        return _kept(self.growth(goal) * self.largest_factor)

    def point(self, epsilon: float, goal: Goal, how: How) -> TradeoffPoint:
        grown, proof, simple = self.growth(goal), self.plan.certificate, self.simple
        assert self.plan.spreads is not None
        batches = tuple(
            BatchAccuracy(
                block.name,
                grown * math.sqrt(spread.mean_square),
                grown * spread.high,
                None if own is None else _kept(grown * own),
                grown * simple.per_count.rms[b],
                grown * simple.per_cell.rms[b],
            )
            for b, (block, spread, own) in enumerate(
                zip(self.plan.workload.blocks, self.plan.spreads, self.factors, strict=True)
            )
        )
        factor = self.factor(goal) if self.plan.workload.has_targets else None
        mu = None if goal.noise.is_pure else math.sqrt(goal.budget) * goal.records_per_person
        return TradeoffPoint(epsilon, mu, how, factor, proof.gap, proof.status, batches)


def _kept(factor: float) -> float:
    """The factor, without what rounding has put on top of 1."""
    return 1.0 if 1 < factor <= 1 + _ROUNDING else factor


def _factors(plan: Plan) -> list[float | None]:
    """max_j √v_j/target_j of every batch; None where it has no target."""
    shares = largest_shares(plan, [block.targets**2 for block in plan.workload.blocks])
    return [None if share is None else math.sqrt(share) for share in shares]


def _needed(goal: ApproxDP | PureDP, least: float, factor: float) -> Needed:
    power = 1 if isinstance(goal, PureDP) else 2
    budget = least / factor**power
    mu = None if isinstance(goal, PureDP) else math.sqrt(budget) * goal.records_per_person
    return Needed(factor, mu, _epsilon_at(goal, budget))


def _epsilon_at(goal: ApproxDP | PureDP, budget: float) -> float:
    """The ε that a person spends where a record spends a budget, at the goal's δ."""
    k = goal.records_per_person
    if isinstance(goal, PureDP):
        return budget * k
    if budget == 0:
        return 0.0
    if goal.calibration == "classic":
        return math.sqrt(budget) * k * math.sqrt(2 * math.log(2 / float(goal.delta)))
    return epsilon_of(Fraction(budget) * k * k, goal.delta)


def _proof(status: str, gap: float) -> str:
    return f"the optimum, proved; gap {gap:.0e}" if status == "optimal" else f"{status}; gap {gap:.1e}"
