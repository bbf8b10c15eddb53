"""Several requests designed one after another, or at once where that is quicker, within one time limit."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, LeastnoiseError
from leastnoise.core.progress import Progress, gap_to_text
from leastnoise.core.resources import SMALL_FOR_THREADS, threads_for_matrices_of
from leastnoise.planning import Plan, Request, design, method_named
from leastnoise.privacy import Goal, LeastLoss
from leastnoise.query import Workload
from leastnoise.report.driver_table import Change


@dataclass(frozen=True)
class Turn:
    """Progress of `compare`, `drivers` or `tradeoff`.

    Attributes:
        subject: what is being designed; for `compare` the name of a method.
        number: the number of this design, from 1.
        n_turns: how many designs there will be.
        seconds: the time since the first one began.
        gap: the gap to the optimum, where it is known; None when a design begins.
    """

    subject: str
    number: int
    n_turns: int
    seconds: float
    gap: float | None = None


def turn_to_line(what: str) -> Callable[[Turn], tuple[str, float | None]]:
    """What a progress bar says of a turn, and which share of them is over."""

    def line(turn: Turn) -> tuple[str, float | None]:
        said = f"{what}: {turn.subject}, {turn.number} of {turn.n_turns}{gap_to_text(turn.gap)}"
        return said, (turn.number - 1) / turn.n_turns

    return line


class OutOfTime(DesignError):
    """Raised instead of a design for which no time is left."""


class _Ended(Exception):
    """Raised inside a design whose result is no longer needed."""


class DesignSeries:
    """Designs of one kind within one time limit, which they share fairly; it reports progress."""

    def __init__(
        self, time_limit: float | None, progress: Callable[[Turn], None] | None, n_designs: int = 1
    ) -> None:
        self.deadline = Deadline.after(time_limit)
        self.progress = progress
        self.n_designs = n_designs
        self.n_begun = 0
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    def expect(self, n_more: int) -> None:
        """Say how many designs there will be from now on."""
        self.n_designs = self.n_begun + n_more

    def begin(self, subject: str) -> tuple[Turn, Callable[[Progress], None]]:
        """Begin the next turn; gives it, and what tells the steps of its design."""
        with self._lock:
            self.n_begun += 1
            number, n_turns = self.n_begun, max(self.n_designs, self.n_begun)
        turn = Turn(subject, number, n_turns, self.deadline.elapsed)

        def tell(gap: float | None) -> None:
            if self._is_over.is_set():
                raise _Ended
            if self.progress is not None:
                with self._lock:
                    self.progress(replace(turn, seconds=self.deadline.elapsed, gap=gap))

        tell(None)
        return turn, lambda step: tell(None if math.isinf(step.gap) else step.gap)

    def end(self) -> None:
        """Let the designs that run end at their next step."""
        self._is_over.set()

    def plan(
        self,
        subject: str,
        workload: Workload,
        goal: Goal | LeastLoss | None,
        *,
        at_once: int = 1,
        least_share: float = 0.0,
        **settings: Any,
    ) -> Plan:
        """The plan for one request, with its part of the time that is left.

        Args:
            at_once: how many are designed at the same time.
            least_share: of all the time, what this one has however late it begins.
            settings: the other arguments of `design`.

        Raises:
            OutOfTime: if no time is left for it.
        """
        turn, tell = self.begin(subject)
        if self.deadline.is_past and not least_share:
            raise OutOfTime(f"the time limit was reached before {subject}; give more time")
        limit = self.deadline.share_of_rest(min(at_once / (turn.n_turns - turn.number + 1), 1.0)).left
        if limit is not None:
            limit = max(limit, self.deadline.part(least_share).ends - self.deadline.began)
        return design(workload, goal, time_limit=limit, progress=tell, **settings)


@dataclass(frozen=True, eq=False)
class Job:
    """One request to design again, and what to make of the plan.

    Attributes:
        batch: the number of the batch that it is about.
    """

    batch: int
    subject: str
    how: str
    workload: Workload
    read: Callable[[Plan], Change]


class Redesigns:
    """Variants of the workload of one plan, designed like it."""

    def __init__(
        self, plan: Plan, method: str, after: Sequence[Plan], backend: str, series: DesignSeries
    ) -> None:
        self.plan, self.method, self.after, self.backend = plan, method, after, backend
        self.series = series

    def as_it_is(self) -> Plan | None:
        """The plan that is found for the request as it is; None where none is found in the time there is."""
        try:
            return self._design("the plan as it is", self.plan.workload)
        except DesignError:
            return None

    def run(self, jobs: Sequence[Job], workers: int | None) -> list[Change | str]:
        """What came of every job, in their order; a text where nothing did."""
        at_once = min(self._workers(workers), len(jobs))
        if at_once <= 1:
            return [self._result(job) for job in jobs]
        # Small matrices: one BLAS thread for each. Limited from outside, because designs that end at
        # different times would put back each other's limits.
        with threads_for_matrices_of(0), ThreadPoolExecutor(at_once) as pool:
            waiting: list[Future[Change | str]] = [pool.submit(self._result, job, at_once) for job in jobs]
            try:
                for done in as_completed(waiting):
                    done.result()
            except BaseException:
                # Ctrl-C, or what a callback raised: those that run end at their next step.
                self.series.end()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
            return [one.result() for one in waiting]

    def _workers(self, workers: int | None) -> int:
        if workers is not None:
            return workers
        if self.backend != "numpy":
            return 1
        asked = Request(self.plan.workload, self.plan.privacy, objective=self.plan.objective)
        known = method_named(self.plan.method)
        is_small = known.matrix_size(asked) < SMALL_FOR_THREADS
        return (os.cpu_count() or 1) if is_small else 1

    def _result(self, job: Job, at_once: int = 1) -> Change | str:
        """What came of one job, or why nothing did."""
        try:
            return job.read(self._design(job.subject, job.workload, at_once))
        except OutOfTime:
            return f"{job.how} was not tried: the time limit was reached before its turn; give more time"
        except LeastnoiseError as error:
            return f"{job.how} failed: {error}"

    def _design(self, subject: str, workload: Workload, at_once: int = 1) -> Plan:
        return self.series.plan(
            subject,
            workload,
            self.plan.asked_privacy,
            at_once=at_once,
            objective=self.plan.objective,
            method=self.method,
            options=dict(self.plan.options) if self.method != "auto" else None,
            after=self.after,
            tol=self.plan.tol,
            backend=self.backend,
        )
