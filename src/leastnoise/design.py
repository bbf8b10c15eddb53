"""Choose the noise: `design` one plan, or `compare` what every method would give."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leastnoise import threads
from leastnoise.certificate import Witness
from leastnoise.errors import InputError, LeastnoiseError, MethodError, NotYetError
from leastnoise.objective import Objective, default_objective
from leastnoise.plan import Plan
from leastnoise.privacy import ApproxDP, Goal, PureDP
from leastnoise.progress import Progress
from leastnoise.solver import BACKENDS
from leastnoise.strategies import METHODS, Method, Request, method_named
from leastnoise.strategy import integer_strategy
from leastnoise.workload import Workload


def design(
    workload: Workload,
    privacy: Goal | None = None,
    *,
    objective: Objective | None = None,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    after: Sequence[Plan] = (),
    tol: float = 1e-6,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """The plan with the least noise for a workload and a privacy goal. Never sees data.

    Args:
        objective: what accurate means; total variance unless given.
        method: "auto", or a name from `methods()`.
        options: what the method understands; `methods()` lists them.
        tol: the relative gap to the proven optimum at which the search may stop.
        time_limit: seconds; the best plan so far is returned with its honest gap.
        backend: "numpy", "torch" or "cuda".
        progress: called with a `Progress` after every step.

    Raises:
        MethodError: if the method cannot serve the request; the message names those that can.
    """
    request = _checked_request(workload, privacy, options, after, tol, time_limit, backend, progress)
    chosen_objective = default_objective(workload, objective)
    if method != "auto":
        return _plan_by(method_named(method), request, chosen_objective)
    willing = [candidate for candidate in METHODS if candidate.refuses(request) is None]
    if not willing:
        raise _nobody(request)
    if request.privacy.noise == "gaussian":
        return _plan_by(willing[0], request, chosen_objective)
    plans = [_plan_by(candidate, request, chosen_objective) for candidate in willing]
    return min(plans, key=lambda plan: plan.certificate.achieved)


def _checked_request(
    workload: Workload,
    privacy: Goal | None,
    options: Mapping[str, Any] | None,
    after: Sequence[Plan],
    tol: float,
    time_limit: float | None,
    backend: str,
    progress: Callable[[Progress], None] | None,
) -> Request:
    if not isinstance(workload, Workload):
        raise InputError(f"design() needs a Workload from assemble(), got {type(workload).__name__}")
    if privacy is None:
        raise InputError(
            "design() needs a privacy goal, as in design(workload, ApproxDP(epsilon=1, delta=1e-6)); "
            "deriving it from targets is not available yet"
        )
    if not isinstance(privacy, Goal):
        raise InputError(f"privacy must be PureDP, ApproxDP, ZCDP or GDP, got {type(privacy).__name__}")
    if after:
        raise NotYetError("after= is not available yet; design one plan for all queries")
    for name, number in (("tol", tol), ("time_limit", time_limit)):
        if number is not None and not isinstance(number, (int, float)):
            raise InputError(f"{name} must be a number, got {type(number).__name__}")
    if not 0 < tol < math.inf:
        raise InputError(f"tol must be a positive number, got {tol!r}")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    return Request(workload, privacy, dict(options or {}), tol, time_limit, backend, progress)


def _plan_by(method: Method, request: Request, objective: Objective) -> Plan:
    method.check_options(request.options)
    reason = method.refuses(request)
    if reason is not None:
        able = [m.name for m in METHODS if m.refuses(request) is None]
        can = f"; {', '.join(able)} can" if able else "; no method can"
        raise MethodError(f"method {method.name!r} cannot do this: {reason}{can}")
    with threads.suited_to(request.workload.shape[1]):
        found = method.find(request)
    plan = Plan(
        workload=request.workload,
        privacy=request.privacy,
        objective=objective,
        method=method.name,
        strategy=integer_strategy(found.proposal, request.privacy),
        witness=Witness(None, found.q, found.pairs),
        claim=found.claim,
        tol=request.tol,
        note=found.note,
        options=dict(request.options),
    )
    # The proof belongs to the plan, and finds a strategy that cannot answer what was asked.
    plan.certificate  # noqa: B018
    return plan


def _nobody(request: Request) -> MethodError:
    reasons = [f"{method.name}: {method.refuses(request)}" for method in METHODS]
    return MethodError("no method can serve this workload. " + "; ".join(reasons))


@dataclass(frozen=True)
class MethodTable:
    """Every method, what it is for and its options; prints as a table."""

    methods: tuple[Method, ...]

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = []
        for method in self.methods:
            lines.append(f"{method.name:<{width}}  {method.summary}")
            for name, (default, meaning) in method.options.items():
                lines.append(f"{'':<{width}}    option {name} = {default!r}: {meaning}")
        return "\n".join(lines)

    __repr__ = __str__


def methods() -> MethodTable:
    """Every method that `design` knows."""
    return MethodTable(METHODS)


# Marks a contender that does with the epsilon alone what the goal allows with a delta.
_NO_DELTA = ", no delta"


@dataclass(frozen=True)
class Contender:
    """One method's result in a comparison: its total variance, gap and time, or why it was left out."""

    method: str
    achieved: float | None
    gap: float | None
    rms_stderr: float | None
    seconds: float
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """What every method would give for one workload and goal, best first; prints as a table."""

    contenders: tuple[Contender, ...]
    lower_bound: float
    among: str = "Gaussian"

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([vars(contender) for contender in self.contenders])

    def __str__(self) -> str:
        width = max(len(contender.method) for contender in self.contenders)
        head = f"{'method':<{width}}  {'total variance':>14}  {'above the bound':>15}"
        lines = [head + f"  {'rms std. error':>14}  {'seconds':>7}"]
        for c in self.contenders:
            if c.achieved is None:
                lines.append(f"{c.method:<{width}}  left out: {c.reason}")
            else:
                above = "–" if c.gap is None else "optimal" if c.gap <= 1e-6 else f"{100 * c.gap:.2f} %"
                lines.append(
                    f"{c.method:<{width}}  {c.achieved:>14.6g}  {above:>15}  {c.rms_stderr:>14.4g}  "
                    f"{c.seconds:>7.2f}"
                )
        if any(c.method.endswith(_NO_DELTA) for c in self.contenders):
            lines.append(
                "Rows without delta: Laplace noise of the same epsilon, which the bound does not cover."
            )
        lines.append(
            f"No {self.among} noise within this goal has a total variance below {self.lower_bound:.6g}."
        )
        return "\n".join(lines)

    __repr__ = __str__


def compare(
    workload: Workload,
    privacy: Goal,
    *,
    methods: Sequence[str] | None = None,
    objective: Objective | None = None,
    time_limit: float | None = None,
    data: object = None,
) -> Comparison:
    """What each method would give, and how far each is above the proven bound.

    Args:
        methods: names to try; all that there are unless given.
        time_limit: seconds for each method.
        data: public data for data-dependent methods; none is available yet.
    """
    if data is not None:
        raise NotYetError("data= serves data-dependent methods, and none is available yet")
    request = _checked_request(workload, privacy, None, (), 1e-6, time_limit, "numpy", None)
    chosen_objective = default_objective(workload, objective)
    chosen = METHODS if methods is None else tuple(method_named(name) for name in methods)
    plans: list[tuple[Plan, float]] = []
    left_out = []
    for method in chosen:
        started = time.monotonic()
        try:
            plan = _plan_by(method, request, chosen_objective)
            plans.append((plan, time.monotonic() - started))
        except LeastnoiseError as error:
            reason = method.refuses(request) or str(error)
            left_out.append(Contender(method.name, None, None, None, 0.0, reason))
    # Every method's dual weights bound all of them; the best bound counts.
    best = max((plan.certificate.lower_bound for plan, _ in plans), default=0.0)
    plans += _pure_plans(chosen, request, chosen_objective)
    total_weight = float(workload.weights.sum())
    ranked = sorted(plans, key=lambda entry: entry[0].certificate.achieved)
    contenders = []
    for plan, seconds in ranked:
        achieved = plan.certificate.achieved
        is_asked = plan.privacy is privacy
        # The bound is about the noise of the goal itself; a pure bound is too loose to call anything optimal.
        gap = (achieved / best - 1 if best > 0 else 0.0) if is_asked else None
        name = plan.method if is_asked else f"{plan.method}{_NO_DELTA}"
        contenders.append(Contender(name, achieved, gap, math.sqrt(achieved / total_weight), seconds))
    among = "Laplace" if request.privacy.noise == "laplace" else "Gaussian"
    return Comparison((*contenders, *left_out), best, among)


def _pure_plans(chosen: Sequence[Method], request: Request, objective: Objective) -> list[tuple[Plan, float]]:
    """What the methods give at the same ε with Laplace noise, for a goal that also allows a δ."""
    goal = request.privacy
    if not isinstance(goal, ApproxDP):
        return []
    pure = PureDP(goal.epsilon, neighbours=goal.neighbours, records_per_person=goal.records_per_person)
    stricter = replace(request, privacy=pure)
    plans = []
    for method in chosen:
        started = time.monotonic()
        try:
            plan = _plan_by(method, stricter, objective)
        except LeastnoiseError:
            continue  # an aside that nobody asked for; the rows of the goal itself say what was left out
        plans.append((plan, time.monotonic() - started))
    return plans
