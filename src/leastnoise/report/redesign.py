"""Several requests designed again, at once where that is quicker, each like the plan that they vary."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from leastnoise.core import threads
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, LeastnoiseError
from leastnoise.core.progress import Progress
from leastnoise.planning import Plan, Request, design, method_named
from leastnoise.query import Workload
from leastnoise.report.driver_table import Change


@dataclass(frozen=True)
class Redesign:
    """Where `drivers` stands.

    Attributes:
        subject: what is being designed again.
        number: which of them it is, from 1.
        n_redesigns: how many there will be.
        seconds: since it began.
        gap: to the optimum of this one; None when its turn begins.
    """

    subject: str
    number: int
    n_redesigns: int
    seconds: float
    gap: float | None = None


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


class _Late(DesignError):
    """Raised instead of a design for which no time is left."""


class _Ended(Exception):
    """Raised inside a design once nobody waits for it any more."""


class Runner:
    """Designs the jobs again, several at once, and tells where it stands."""

    def __init__(
        self,
        plan: Plan,
        method: str,
        after: Sequence[Plan],
        time_limit: float | None,
        backend: str,
        progress: Callable[[Redesign], None] | None,
        n_jobs: int,
    ) -> None:
        self.plan, self.method, self.after, self.backend = plan, method, after, backend
        self.progress, self.n_jobs = progress, n_jobs
        self.n_before = 0
        self.deadline = Deadline.after(time_limit)
        self.is_over = threading.Event()
        self.telling = threading.Lock()

    def as_it_is(self) -> Plan | None:
        """The plan that is found for the request as it is; None where none is found in the time there is."""
        self.n_before = 1
        try:
            return self._design("the plan as it is", self.plan.workload, 1, 1)
        except DesignError:
            return None

    def run(self, jobs: Sequence[Job], workers: int | None) -> list[Change | str]:
        """What came of every job, in their order; a text where nothing did."""
        at_once, first = min(self._workers(workers), len(jobs)), 1 + self.n_before
        if at_once <= 1:
            return [self._result(job, number, 1) for number, job in enumerate(jobs, first)]
        # Small matrices: one BLAS thread for each. Limited from outside, because designs that end at
        # different times would put back each other's limits.
        with threads.for_matrices_of(0), ThreadPoolExecutor(at_once) as pool:
            waiting: list[Future[Change | str]] = [
                pool.submit(self._result, job, number, at_once) for number, job in enumerate(jobs, first)
            ]
            try:
                for done in as_completed(waiting):
                    done.result()
            except BaseException:
                # Ctrl-C, or what a callback raised: those that run end at their next step.
                self.is_over.set()
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
        is_small = known.matrix_size(asked) < threads.SMALL
        return (os.cpu_count() or 1) if is_small else 1

    def _result(self, job: Job, number: int, at_once: int) -> Change | str:
        """What came of one job, or why nothing did."""
        try:
            return job.read(self._design(job.subject, job.workload, number, at_once))
        except _Late:
            return f"{job.how} was not tried: the time limit was reached before its turn; give more time"
        except LeastnoiseError as error:
            return f"{job.how} failed: {error}"

    def _design(self, subject: str, workload: Workload, number: int, at_once: int) -> Plan:
        self._tell(subject, number, None)
        if self.deadline.is_past:
            raise _Late
        # What is left, shared fairly among those that still have to be designed.
        limit = self.deadline.share_of_rest(min(at_once / (self.n_jobs - number + 1), 1.0)).left

        def tell(step: Progress) -> None:
            self._tell(subject, number, step.gap if math.isfinite(step.gap) else None)

        return design(
            workload,
            self.plan.privacy if self.plan.has_goal else None,
            objective=self.plan.objective,
            method=self.method,
            options=dict(self.plan.options) if self.method != "auto" else None,
            after=self.after,
            tol=self.plan.tol,
            time_limit=limit,
            backend=self.backend,
            progress=tell,
        )

    def _tell(self, subject: str, number: int, gap: float | None) -> None:
        if self.is_over.is_set():
            raise _Ended
        if self.progress is not None:
            passed = self.deadline.elapsed
            with self.telling:
                self.progress(Redesign(subject, number, self.n_jobs, passed, gap))
