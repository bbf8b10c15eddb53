"""Methods tried one after another for one request: the best plan is kept, and says what each achieved.

Plans are compared by what they achieve, exactly: the objective that their certificates state. A plan that is
proved to be the optimum, but for a hair, ends the trying.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from leastnoise.core.deadline import LEAST_TIME
from leastnoise.core.errors import DesignError, InfeasibleError
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.planning.families.plain import PLAIN
from leastnoise.planning.method import Method, Outcome, Request, Trial
from leastnoise.planning.method_list import all_methods
from leastnoise.planning.one_method import attempt
from leastnoise.planning.plan import Plan
from leastnoise.planning.refusals import MissesTargets, closest_of, nobody_can

# Of the time left, what a method may take where others come after it that may be better.
SHARE = 0.5

# Plans whose objective differs by less than this share are equally good.
_SAME = 1e-9

# Bounds that differ by less than this share are equally good.
_SAME_BOUND = 1e-7

# A plan within this share of its lower bound ends the trying: standard errors within 0.005 % of the optimum.
_OPTIMAL = 1e-4

# The same for a plan by `dense`, which searched all noise: no other method gains more than its gap. Of a
# gap of 0.24 % over tables of random products, the plan had 0.09, and weights of product form the rest.
_NEAR_OPTIMAL = 5e-3


class Trials:
    """What was tried so far for a request: a list, with the plan of each, or why there is none."""

    def __init__(self, request: Request) -> None:
        self.request, self.deadline = request, request.deadline
        self._listed: list[tuple[Trial, Plan | DesignError | None]] = []
        self._n_told = 0

    @property
    def plans(self) -> list[Plan]:
        """All plans that were found."""
        return [found for _, found in self._listed if isinstance(found, Plan)]

    @property
    def failed(self) -> list[DesignError]:
        """Why attempts found no plan, or one that misses the targets."""
        return [found for _, found in self._listed if isinstance(found, DesignError)]

    @property
    def missed(self) -> list[MissesTargets]:
        """How far plans were from the targets that miss them."""
        return [error for error in self.failed if isinstance(error, MissesTargets)]

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
        return any(trial.name != PLAIN.name for trial, _ in self._listed)

    def result_of(self, turns: Iterable[Callable[[], None]]) -> Plan:
        """The best plan after some turns, of which each tries something; none is taken that can gain nothing.

        Raises:
            DesignError: as `best`.
        """
        left = iter(turns)
        while not self.is_settled and (turn := next(left, None)) is not None:
            turn()
        return self.result()

    def run_plain(self) -> None:
        """Have plain noise for a first plan, or in place of a worse one; else nothing is said of it."""
        request = self.request
        if request.unfit(PLAIN) is not None or not request.options.keys() <= PLAIN.options.keys():
            return
        try:
            plan = attempt(PLAIN, request, request.needs(PLAIN))
        except DesignError:
            # It misses the targets, or its coefficients cannot be rounded: that is for the methods to say.
            return
        if self.plans:
            best = self.best()
            if plan.certificate.achieved >= best.certificate.achieved:
                return
            # Whether a longer search would reach the optimum is for the search to say that came this far.
            plan = plan.with_witness(plan.witness, best.claim)
        self._keep(PLAIN.name, "beaten", plan)
        self.tell()

    def run(
        self,
        method: Method,
        share: float,
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Try one method, if there is time for it or no plan yet.

        Args:
            share: of the time left that it may take.
            name: what a plan calls it; its own unless given.
            options: with which it is tried; those of the request unless given.

        Raises:
            InfeasibleError: if it proves that no noise meets the targets, and none was found that does.
        """
        request, name = self.request, name or method.name
        if (self.plans or self.missed) and self.left <= 0:
            self.leave_out(name, "no-time")
            return
        seconds = max(share * self.left, LEAST_TIME)
        too_much = request.too_much(method, seconds, self.overdue)
        if too_much is not None and seconds < self.left:
            # Not in its part of the time, but perhaps in all that is left.
            seconds = self.left
            too_much = request.too_much(method, seconds, self.overdue)
        if too_much is not None:
            self.leave_out(name, "too-much", too_much)
            return
        # With Laplace noise no bound is tight, and a search minimises something else than what its plan has.
        knows_gap = not request.privacy.noise.is_pure
        given = replace(
            request,
            options=request.options if options is None else options,
            time_limit=None if math.isinf(seconds) else seconds,
            progress=partial(self.tell, knows_gap=knows_gap),
            is_promised=request.time_limit is not None,
            known=min((plan.certificate.achieved for plan in self.plans), default=None),
        )
        self.judge(name, partial(attempt, method, given, request.needs(method)))
        if not knows_gap:
            self.tell()

    def judge(self, name: str, make: Callable[[], Plan | None]) -> None:
        """Take note of the plan that is made, if any, or of why there is none.

        Raises:
            InfeasibleError: if no noise meets the targets, and no plan was found that does.
        """
        try:
            plan = make()
        except DesignError as error:
            if isinstance(error, InfeasibleError) and not self.plans:
                raise
            self._keep(name, "misses-targets" if isinstance(error, MissesTargets) else "failed", error)
        else:
            if plan is not None:
                self._keep(name, "beaten", plan)

    def leave_out(self, name: str, outcome: Outcome, reason: str = "") -> None:
        """Take note of a method that is not tried; with more time or memory it may do better."""
        self._keep(name, outcome, reason=reason)

    def _keep(
        self, name: str, outcome: Outcome, found: Plan | DesignError | None = None, reason: str = ""
    ) -> None:
        achieved = found.certificate.achieved if isinstance(found, Plan) else None
        self._listed.append((Trial(name, outcome, achieved, reason), found))

    @property
    def ended(self) -> Ended:
        """How all attempts together ended.

        What is left out by the clock, or by what memory is free, ends it at the deadline: the same request
        may have another plan the next time.
        """
        endings = [plan.ended for plan in self.plans if plan.ended is not None]
        is_late = any(trial.outcome in ("no-time", "too-much") for trial, _ in self._listed)
        return worst_ending([*endings, "deadline"] if is_late else endings)

    def has_tried(self, name: str) -> bool:
        """Whether a method was tried or left out."""
        return any(trial.name == name for trial, _ in self._listed)

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
            if self.missed:
                raise closest_of(self.missed)
            raise self.failed[0] if self.failed else nobody_can(all_methods(), self.request)
        best, *others = self.plans
        for plan in others:
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
        if unweighted is not None and all(plan.method == PLAIN.name for plan in self.plans):
            # Plain noise would answer a query of no weight too; how well is for whoever asked to say.
            raise unweighted
        best = self.best()
        if len(self._listed) == 1:
            # Plain noise alone: nothing that searches serves.
            return best if self.has_searched or self.is_settled else best.with_trials((), "exhausted")
        proof = max(self.plans, key=lambda plan: plan.certificate.lower_bound)
        is_better = proof.certificate.lower_bound > best.certificate.lower_bound * (1 + _SAME_BOUND)
        proved = best.with_witness(proof.witness) if is_better else best
        tried = tuple(
            replace(trial, outcome="kept") if found is best else trial for trial, found in self._listed
        )
        # What could not be tried, or was cut short, might have been better; not than the optimum.
        if self.is_settled:
            ended = best.ended
        else:
            # Plain noise ends at once, and the search for something better has ended without it.
            ended = worst_ending([self.ended, "exhausted"]) if best.method == PLAIN.name else self.ended
        return proved.with_trials(tried, ended)
