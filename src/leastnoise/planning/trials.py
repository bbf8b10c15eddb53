"""Methods tried one after another for one request: the best plan is kept, and says what each achieved.

Plans are compared by what they achieve, exactly: the objective that their certificates state. A plan that is
proved to be the optimum, but for a hair, ends the trying.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from leastnoise.core.deadline import LEAST_TIME, Deadline
from leastnoise.core.errors import DesignError, InfeasibleError
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.planning.families.plain import PLAIN
from leastnoise.planning.method import Method, Outcome, Reasons, Request, Trial
from leastnoise.planning.method_list import all_methods
from leastnoise.planning.one_method import plan_from_search
from leastnoise.planning.plan import Plan
from leastnoise.planning.refusals import MissesTargets, closest_of, nobody_can

# Plans whose objective differs by less than this share are equally good.
_SAME = 1e-9

# Bounds that differ by less than this share are equally good.
_SAME_BOUND = 1e-7

# A plan within this share of its lower bound ends the trying: standard errors within 0.005 % of the optimum.
_OPTIMAL = 1e-4

# The same for a plan by `dense`, which searched all noise: no other method gains more than its gap. Of a
# gap of 0.24 % over tables of random products, the plan had 0.09, and weights of product form the rest.
_NEAR_OPTIMAL = 5e-3


@dataclass(frozen=True)
class Attempt:
    """One method with the options with which it is tried.

    Attributes:
        name: what a plan calls it.
        share: of the time left that it may take.
        is_quick: whether it is tried however late it is, where nobody set a time limit.
        least_seconds: without which it is not begun, because it cannot be stopped.
        own_seconds: that it may take though no time is left.
        knows_gap: whether the gap that it tells on the way is that of its plan.
    """

    name: str
    method: Method
    options: Mapping[str, Any]
    share: float = 1.0
    is_quick: bool = True
    least_seconds: float = 0.0
    own_seconds: float = LEAST_TIME
    knows_gap: bool = False

    def seconds(self, left: float) -> float:
        """Seconds that it may take of those left for all."""
        return max(self.share * left, self.own_seconds)


@dataclass(eq=False)
class Trials:
    """What was tried so far, and what came of it.

    Attributes:
        reasons: what methods answer to the request.
        deadline: when the time is up.
        plans: all that were found.
        endings: how each attempt ended; one that was left out for want of time ended at the deadline.
        failed: why attempts found no plan.
    """

    reasons: Reasons
    has_goal: bool
    deadline: Deadline
    plans: list[Plan] = field(default_factory=list)
    endings: list[Ended] = field(default_factory=list)
    failed: list[DesignError] = field(default_factory=list)
    _missed: list[MissesTargets] = field(default_factory=list)
    _listed: list[tuple[str, Outcome, Plan | None, str]] = field(default_factory=list)
    _n_told: int = 0
    _n_plain: int = 0

    @property
    def request(self) -> Request:
        """What is asked."""
        return self.reasons.request

    @property
    def left(self) -> float:
        """Seconds until the time is up, 0 from then on."""
        left = self.deadline.left
        return math.inf if left is None else 0.0 if self.deadline.is_past else left

    @property
    def overdue(self) -> float:
        """Seconds since the time was up, 0 until then."""
        return max(time.monotonic() - self.deadline.ends, 0.0)

    @property
    def has_any(self) -> bool:
        """Whether there is a plan at all, though it may miss the targets."""
        return bool(self.plans or self._missed)

    @property
    def has_only_missed(self) -> bool:
        """Whether there is a plan that misses the targets, and none that meets them."""
        return bool(self._missed) and not self.plans

    @property
    def is_settled(self) -> bool:
        """Whether nothing can be much better than the best plan so far."""
        is_near = any(plan.method == "dense" and plan.certificate.gap <= _NEAR_OPTIMAL for plan in self.plans)
        return is_near or self.gap <= max(_OPTIMAL, self.request.tol)

    @property
    def gap(self) -> float:
        """How far the best plan may be above the best bound, whichever method proved it."""
        if not self.plans:
            return math.inf
        achieved = min(plan.certificate.achieved for plan in self.plans)
        bound = max(plan.certificate.lower_bound for plan in self.plans)
        return max(achieved / bound - 1, 0.0) if bound > 0 else math.inf if achieved > 0 else 0.0

    @property
    def has_searched(self) -> bool:
        """Whether a method other than plain noise was tried, whatever came of it."""
        return len(self._listed) > self._n_plain or bool(self._missed or self.failed)

    def run_plain(self) -> None:
        """Have plain noise for a first plan, or in place of a worse one; else nothing is said of it."""
        method = PLAIN
        if self.reasons.unfit(method) is not None or not self.request.options.keys() <= method.options.keys():
            return
        try:
            plan = plan_from_search(method, self.request, self.has_goal, self.reasons.needs(method))
        except DesignError:
            # It misses the targets, or its coefficients cannot be rounded: that is for the methods to say.
            return
        if self.plans:
            best = self.best()
            if plan.certificate.achieved >= best.certificate.achieved:
                return
            # Whether a longer search would reach the optimum is for the search to say that came this far.
            plan = plan.with_witness(plan.witness, best.claim)
        self.plans.append(plan)
        self._listed.append((method.name, "beaten", plan, ""))
        self._n_plain += 1
        self.tell()

    def run(self, attempt: Attempt) -> None:
        """Try one method, if there is time for it or no plan yet.

        Raises:
            InfeasibleError: if it proves that no noise meets the targets, and none was found that does.
        """
        is_limited = not attempt.is_quick or self.request.time_limit is not None
        if is_limited and self.has_any and self.left <= attempt.least_seconds:
            self.leave_out(attempt.name, "no-time")
            return
        method, seconds = attempt.method, attempt.seconds(self.left)
        too_much = self.reasons.too_much(method, seconds, self.overdue)
        if too_much is not None and seconds < self.left:
            # Not in its part of the time, but perhaps in all that is left.
            seconds = max(self.left, LEAST_TIME)
            too_much = self.reasons.too_much(method, seconds, self.overdue)
        if too_much is not None:
            self.leave_out(attempt.name, "too-much", too_much)
            return
        given = replace(
            self.request,
            options=attempt.options,
            time_limit=None if math.isinf(seconds) else seconds,
            progress=partial(self.tell, knows_gap=attempt.knows_gap),
            is_promised=self.request.time_limit is not None,
            known=min((plan.certificate.achieved for plan in self.plans), default=None),
        )
        needs = self.reasons.needs(method)
        self.judge(attempt.name, partial(plan_from_search, method, given, self.has_goal, needs))
        if not attempt.knows_gap:
            self.tell()

    def judge(self, name: str, make: Callable[[], Plan | None]) -> None:
        """Take note of the plan that is made, if any, or of why there is none.

        Raises:
            InfeasibleError: if no noise meets the targets, and no plan was found that does.
        """
        try:
            plan = make()
        except MissesTargets as error:
            self._missed.append(error)
            self._listed.append((name, "misses-targets", None, ""))
        except DesignError as error:
            if isinstance(error, InfeasibleError) and not self.plans:
                raise
            self.failed.append(error)
            self._listed.append((name, "failed", None, ""))
        else:
            if plan is not None:
                self.plans.append(plan)
                self._listed.append((name, "beaten", plan, ""))
                self.endings.extend([] if plan.ended is None else [plan.ended])

    def leave_out(self, name: str, outcome: Outcome, reason: str = "") -> None:
        """Take note of a method that is not tried; with more time or memory it may do better."""
        self._listed.append((name, outcome, None, reason))
        if outcome != "too-long":
            # By the clock, or by what memory is free: the same request may have another plan the next time.
            self.endings.append("deadline")

    def has_tried(self, name: str) -> bool:
        """Whether a method was tried or left out."""
        return any(listed == name for listed, *_ in self._listed)

    def tell(self, step: Progress | None = None, *, knows_gap: bool = False) -> None:
        """Report a step, and the gap of the best plan, to whoever asked for progress."""
        if self.request.progress is not None:
            self._n_told += 1
            gap = min(self.gap, step.gap if step is not None and knows_gap else math.inf)
            part = "" if step is None else step.part
            self.request.progress(Progress(self._n_told, gap, self.deadline.elapsed, part))

    def best(self) -> Plan:
        """The best plan so far; of those that are equal but for rounding, the first.

        Raises:
            MethodError: if no method meets the targets, or all take too much.
            DesignError: the first method's, if none found a plan.
        """
        if not self.plans:
            if self._missed:
                raise closest_of(self._missed)
            raise self.failed[0] if self.failed else nobody_can(all_methods(), self.reasons)
        best = self.plans[0]
        for plan in self.plans[1:]:
            if plan.certificate.achieved < best.certificate.achieved * (1 - _SAME):
                best = plan
        return best

    def result(self) -> Plan:
        """The best plan, which lists what was tried if that is more than one thing, and how it all ended.

        It has the best bound that any of them proved.

        Raises:
            DesignError: as `best`.
        """
        unweighted = next((error for error in self.failed if error.field == "weight"), None)
        if unweighted is not None and len(self.plans) == self._n_plain:
            # Plain noise would answer a query of no weight too; how well is for whoever asked to say.
            raise unweighted
        best = self.best()
        if len(self._listed) == 1:
            # Plain noise alone: nothing that searches serves.
            return best.with_trials((), "exhausted") if self._n_plain and not self.is_settled else best
        proof = max(self.plans, key=lambda plan: plan.certificate.lower_bound)
        is_better = proof.certificate.lower_bound > best.certificate.lower_bound * (1 + _SAME_BOUND)
        proved = best.with_witness(proof.witness) if is_better else best
        tried = tuple(
            Trial(name, outcome, reason=reason)
            if plan is None
            else Trial(name, "kept" if plan is best else "beaten", plan.certificate.achieved)
            for name, outcome, plan, reason in self._listed
        )
        # What could not be tried, or was cut short, might have been better; not than the optimum.
        if self.is_settled:
            ended = best.ended
        else:
            # Plain noise ends at once, and the search for something better has ended without it.
            ended = worst_ending([*self.endings, "exhausted"] if best.method == PLAIN.name else self.endings)
        return proved.with_trials(tried, ended)
