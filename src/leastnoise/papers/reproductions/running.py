"""Run reproductions: point by point, in parallel, resumable, with the time left."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from leastnoise.core.errors import InputError, LeastnoiseError
from leastnoise.papers.reproductions.reproduction import Point, Reproduction, Setting
from leastnoise.papers.reproductions.rows import Row
from leastnoise.papers.reproductions.store import Finished, Store
from leastnoise.papers.reproductions.verdicts import Check, Verdict, verdict_of

# A point that could not be run says so in this column instead of numbers.
NOTE = "note"

_OUT_OF_TIME = "not run: the time given was over; the same command goes on"

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Stand:
    """Where a run stands: the point that was finished last, how many are, seconds gone and left."""

    name: str
    point: str
    n_done: int
    n_points: int
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Outcome:
    """What came of a reproduction.

    Attributes:
        seconds: of computing, added up over its points.
        machines: on what its points were computed.
    """

    reproduction: Reproduction
    setting: Setting
    rows: tuple[Row, ...]
    checks: tuple[Check, ...]
    seconds: float
    machines: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Reached, better or differs; one check that differs is enough."""
        return verdict_of(self.checks)


@dataclass
class _Job:
    """The points of one reproduction, and what they gave so far."""

    reproduction: Reproduction
    store: Store
    points: list[Point]
    finished: dict[int, Finished]

    def waiting(self) -> Iterator[tuple[_Job, int]]:
        return ((self, i) for i in range(len(self.points)) if i not in self.finished)

    def outcome(self) -> Outcome:
        done = [self.finished[i] for i in range(len(self.points))]
        rows = tuple(row for entry in done for row in entry.rows)
        checks = tuple(self.reproduction.checks(rows))
        machines = tuple(dict.fromkeys(entry.machine for entry in done))
        seconds = sum(entry.seconds for entry in done)
        return Outcome(self.reproduction, self.store.setting, rows, checks, seconds, machines)


def run(
    reproductions: Sequence[Reproduction],
    setting: Setting,
    *,
    folder: Path,
    jobs: int = 1,
    is_fresh: bool = False,
    budget: float = math.inf,
    progress: Callable[[Stand], None] | None = None,
) -> Iterator[Outcome]:
    """The outcomes, each as soon as all its points are there.

    Finished points are kept under `folder`: a run that was interrupted goes on where it stopped.

    Args:
        jobs: processes that compute side by side, each with one thread; one of them for what needs a GPU.
        is_fresh: whether to compute again what an earlier run has finished.
        budget: seconds after which no further point is begun; those left out are noted, and not kept.

    Raises:
        InputError: if `jobs` is not positive.
        RuntimeError: after everything else is done, if a point failed for a reason that is ours.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    waiting: list[tuple[_Job, int]] = []
    started = []
    for reproduction in reproductions:
        store = Store(folder, reproduction.name, setting)
        if is_fresh:
            store.forget()
        points = list(reproduction.points(setting))
        known = {i: found for i, point in enumerate(points) if (found := store.find(point)) is not None}
        job = _Job(reproduction, store, points, known)
        started.append(job)
        waiting += job.waiting()
    yield from (job.outcome() for job in started if len(job.finished) == len(job.points))
    yield from _computed(waiting, setting, jobs, budget, progress)


def _computed(
    waiting: list[tuple[_Job, int]],
    setting: Setting,
    jobs: int,
    budget: float,
    progress: Callable[[Stand], None] | None,
) -> Iterator[Outcome]:
    began = time.monotonic()
    n_points = len(waiting)
    guess_left = sum(job.points[i].seconds for job, i in waiting)
    guess_done = work_done = 0.0
    failures: list[str] = []
    for n_done, (job, i, finished, failure) in enumerate(
        _in_turn(waiting, setting, jobs, began + budget), start=1
    ):
        point = job.points[i]
        job.finished[i] = finished
        if failure is not None:
            failures.append(f"{job.reproduction.name}, {point}: {failure}")
        guess_left -= point.seconds
        guess_done += point.seconds
        work_done += finished.seconds
        if progress is not None:
            left = guess_left * (work_done / guess_done if guess_done else 1.0) / jobs
            gone = time.monotonic() - began
            progress(Stand(job.reproduction.name, str(point), n_done, n_points, gone, max(0.0, left)))
        if len(job.finished) == len(job.points):
            yield job.outcome()
    if failures:
        raise RuntimeError(
            f"{len(failures)} points failed and are computed again next time: {'; '.join(failures)}"
        )


_Turn = tuple[_Job, int, Finished, str | None]


def _in_turn(
    waiting: list[tuple[_Job, int]], setting: Setting, jobs: int, deadline: float
) -> Iterator[_Turn]:
    """Every waiting point, computed; those that may be kept are kept before they are handed on."""
    can_run = []
    for job, i in waiting:
        reason = _why_not(job.points[i], setting)
        if reason is None:
            can_run.append((job, i))
        else:
            yield job, i, _noted(job.points[i], reason), None
    turns = _one_by_one if jobs == 1 else _side_by_side
    yield from turns(can_run, setting, jobs, deadline)


def _one_by_one(
    waiting: list[tuple[_Job, int]], setting: Setting, jobs: int, deadline: float
) -> Iterator[_Turn]:
    for job, i in _ordered(waiting, deadline):
        if time.monotonic() >= deadline:
            yield job, i, _noted(job.points[i], _OUT_OF_TIME), None
        else:
            yield _kept(job, i, partial(_compute, job.points[i], setting))


def _side_by_side(
    waiting: list[tuple[_Job, int]], setting: Setting, jobs: int, deadline: float
) -> Iterator[_Turn]:
    lanes = _Lanes(_ordered(waiting, deadline), setting)
    with _one_thread_each(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running: dict[Future[Finished], tuple[_Job, int]] = {}
        try:
            while lanes or running:
                while len(running) < jobs and time.monotonic() < deadline:
                    turn = lanes.next_beside(running.values())
                    if turn is None:
                        break
                    job, i = turn
                    running[pool.submit(_compute, job.points[i], setting)] = turn
                if time.monotonic() >= deadline:
                    for job, i in lanes.emptied():
                        yield job, i, _noted(job.points[i], _OUT_OF_TIME), None
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ready:
                    job, i = running.pop(future)
                    yield _kept(job, i, future.result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Lanes:
    """Points in their order, those for the GPU in a lane of their own.

    One of these runs at a time: two would share the device, and each would seem slower than it is.
    """

    def __init__(self, ordered: list[tuple[_Job, int]], setting: Setting) -> None:
        self._setting = setting
        self._for_gpu = deque(turn for turn in ordered if self._is_for_gpu(turn))
        self._others = deque(turn for turn in ordered if not self._is_for_gpu(turn))

    def __bool__(self) -> bool:
        return bool(self._for_gpu or self._others)

    def next_beside(self, running: Collection[tuple[_Job, int]]) -> tuple[_Job, int] | None:
        """The point to begin while others run; None where all that is left must wait for them."""
        if self._for_gpu and not any(map(self._is_for_gpu, running)):
            return self._for_gpu.popleft()
        return self._others.popleft() if self._others else None

    def emptied(self) -> list[tuple[_Job, int]]:
        """All that was not begun, and will not be."""
        left = [*self._for_gpu, *self._others]
        self._for_gpu.clear()
        self._others.clear()
        return left

    def _is_for_gpu(self, turn: tuple[_Job, int]) -> bool:
        job, i = turn
        return job.points[i].uses_gpu(self._setting)


def _ordered(waiting: list[tuple[_Job, int]], deadline: float) -> list[tuple[_Job, int]]:
    """The longest first, so that nobody waits for one of them at the end.

    Where time is given, the shortest: as many as possible are there when it is over.
    """
    sign = -1 if math.isinf(deadline) else 1
    return sorted(waiting, key=lambda turn: sign * turn[0].points[turn[1]].seconds)


def _kept(job: _Job, i: int, compute: Callable[[], Finished]) -> _Turn:
    point = job.points[i]
    try:
        finished = compute()
    except Exception as error:  # a mistake in one point must not cost hours of others
        words = f"{type(error).__name__}: {error}"
        return job, i, _noted(point, f"failed: {words}"), words
    job.store.keep(point, finished)
    return job, i, finished, None


def _why_not(point: Point, setting: Setting) -> str | None:
    """Why a point is not tried here; it is not kept, so that it can be run elsewhere."""
    if point.needs_gpu() and setting.backend == "numpy":
        return f"not run: {point.n_cells:,} cells need a GPU; give --backend cuda"
    return None


def _noted(point: Point, note: str) -> Finished:
    return Finished(({**point.arguments, NOTE: note},), 0.0, machine())


def _compute(point: Point, setting: Setting) -> Finished:
    began = time.perf_counter()
    try:
        rows = tuple(dict(row) for row in point.work(setting, **point.arguments))
    except (LeastnoiseError, MemoryError) as error:
        # What a method refuses, or memory cannot hold, is a result: it is stated in the table.
        rows = ({**point.arguments, NOTE: f"not run: {error}"},)
    where = machine() + (f", {_gpu()}" if point.uses_gpu(setting) else "")
    return Finished(rows, time.perf_counter() - began, where)


def machine() -> str:
    """Cores, system and Python, in words that name no machine."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"


def _gpu() -> str:
    import torch

    return str(torch.cuda.get_device_name())


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started within use one thread each for linear algebra."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
