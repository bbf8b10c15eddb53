"""Run reproductions in a pool of processes, with a cache from which an interrupted run goes on."""

from __future__ import annotations

import math
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path

from leastnoise.core.errors import InputError, LeastnoiseError
from leastnoise.papers.reproductions.cache import TaskResult, key_of, read_result, write_result
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import NOTE, Row
from leastnoise.papers.reproductions.verdicts import Check, Verdict, verdict_of

# Each of these limits the threads of one library for linear algebra.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Tasks = Mapping[str, Task]


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: the task that was finished last, how many are, seconds gone and left."""

    name: str
    task: str
    n_done: int
    n_tasks: int
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Outcome:
    """What came of a reproduction.

    Attributes:
        seconds: of computing, added up over its tasks.
        machines: on what its tasks were computed.
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


def run(
    reproductions: Sequence[Reproduction],
    setting: Setting,
    *,
    folder: Path,
    jobs: int = 1,
    is_fresh: bool = False,
    budget: float = math.inf,
    progress: Callable[[RunProgress], None] | None = None,
) -> Iterator[Outcome]:
    """The outcomes, each as soon as the results of all its tasks are there.

    Results are kept under `folder`: a run that was interrupted goes on where it stopped.

    Args:
        jobs: processes that compute side by side, each with one thread; one of them for what uses a GPU.
        is_fresh: whether to compute again what an earlier run has finished.
        budget: seconds after which no further task is begun; those left out are noted, and not kept.

    Raises:
        InputError: if `jobs` is not positive.
        RuntimeError: after everything else is done, if a task failed for a reason that is ours.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}", field="jobs", given=jobs)
    tasks = {
        found.name: {key_of(task, setting): task for task in found.tasks(setting)} for found in reproductions
    }
    everything = {key: task for of_one in tasks.values() for key, task in of_one.items()}
    if is_fresh:
        for key in everything:
            (folder / f"{key}.json").unlink(missing_ok=True)
    known = {key: read_result(folder / f"{key}.json") for key in everything}
    results = {key: result for key, result in known.items() if result is not None}
    waiting = {key: task for key, task in everything.items() if key not in results}
    unfinished = list(reproductions)

    def complete() -> Iterator[Outcome]:
        for reproduction in [found for found in unfinished if tasks[found.name].keys() <= results.keys()]:
            unfinished.remove(reproduction)
            yield _outcome(reproduction, setting, [results[key] for key in tasks[reproduction.name]])

    yield from complete()
    failures: list[str] = []
    meter = _Meter({key: name for name, of_one in tasks.items() for key in of_one}, waiting, jobs, progress)
    for key, compute in _in_turn(waiting, setting, jobs, time.time() + budget):
        try:
            results[key] = compute()
        except Exception as error:  # a mistake in one task must not cost hours of others
            reason = f"{type(error).__name__}: {error}"
            results[key] = _left_out(waiting[key], f"failed: {reason}")
            failures.append(f"{meter.name_of(key)}, {waiting[key]}: {reason}")
        if results[key].is_kept:
            write_result(folder / f"{key}.json", results[key])
        meter.count(key, results[key].seconds)
        yield from complete()
    if failures:
        raise RuntimeError(
            f"{len(failures)} tasks failed and are computed again next time: {'; '.join(failures)}"
        )


def _outcome(reproduction: Reproduction, setting: Setting, results: Sequence[TaskResult]) -> Outcome:
    rows = tuple(row for result in results for row in result.rows)
    machines = tuple(dict.fromkeys(result.machine for result in results))
    seconds = sum(result.seconds for result in results)
    return Outcome(reproduction, setting, rows, reproduction.checks(rows), seconds, machines)


class _Meter:
    """Counts finished tasks, and tells how long the others will take by how long these took."""

    def __init__(
        self,
        names: Mapping[str, str],
        waiting: Tasks,
        jobs: int,
        progress: Callable[[RunProgress], None] | None,
    ) -> None:
        self._names, self._waiting, self._jobs, self._progress = names, waiting, jobs, progress
        self._began = time.monotonic()
        self._n_done = 0
        self._guess_done = 0.0
        self._guess_left = sum(task.seconds for task in waiting.values())
        self._work_done = 0.0

    def name_of(self, key: str) -> str:
        """The reproduction that a task is of."""
        return self._names[key]

    def count(self, key: str, seconds: float) -> None:
        """One more task is finished, after seconds of computing."""
        task = self._waiting[key]
        self._n_done += 1
        self._guess_done += task.seconds
        self._guess_left -= task.seconds
        self._work_done += seconds
        if self._progress is not None:
            pace = self._work_done / self._guess_done if self._guess_done else 1.0
            left = max(0.0, self._guess_left * pace / self._jobs)
            gone = time.monotonic() - self._began
            self._progress(
                RunProgress(self.name_of(key), str(task), self._n_done, len(self._waiting), gone, left)
            )


# Computing -----------------------------------------------------------------------------------


def _in_turn(
    waiting: Tasks, setting: Setting, jobs: int, deadline: float
) -> Iterator[tuple[str, Callable[[], TaskResult]]]:
    """Every waiting task by its key, with the function that gives its result."""
    # The longest first, so that nobody waits for one of them at the end; where time is given, the
    # shortest: as many as possible are there when it is over.
    sign = -1 if math.isinf(deadline) else 1
    ordered = dict(sorted(waiting.items(), key=lambda item: sign * item[1].seconds))
    if jobs == 1:
        yield from ((key, partial(_compute, task, setting, deadline)) for key, task in ordered.items())
        return
    with _one_thread_each(), ExitStack() as stack:
        futures: dict[Future[TaskResult], str] = {}
        for n_processes, tasks in _divided(ordered, setting, jobs):
            pool = _pool(n_processes)
            stack.callback(pool.shutdown, cancel_futures=True)
            futures |= {pool.submit(_compute, task, setting, deadline): key for key, task in tasks.items()}
        yield from ((futures[future], future.result) for future in as_completed(futures))


def _pool(n_processes: int) -> ProcessPoolExecutor:
    """A pool of processes that end with this one, even if it is killed."""
    return ProcessPoolExecutor(n_processes, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this process as soon as the one that started it has ended: nobody would read its results."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _divided(tasks: Tasks, setting: Setting, jobs: int) -> list[tuple[int, Tasks]]:
    """Numbers of processes, and the tasks for them; those that use the GPU have one process of their own.

    Two of these at a time would share the device, and each would seem slower than it is.
    """
    on_gpu = {key: task for key, task in tasks.items() if task.uses_gpu(setting)}
    others = {key: task for key, task in tasks.items() if key not in on_gpu}
    return [(1, on_gpu), (jobs - 1, others)] if on_gpu else [(jobs, others)]


def _compute(task: Task, setting: Setting, deadline: float) -> TaskResult:
    """The result of a task; one that this machine or the time left does not hold can be run elsewhere."""
    if task.needs_gpu() and setting.backend == "numpy":
        return _left_out(task, f"not run: {task.n_cells:,} cells need a GPU; give --backend cuda")
    if time.time() >= deadline:
        return _left_out(task, "not run: the time given was over; run the same command again to go on")
    # Another process may hold the core, but not this one's time. What a GPU does is on no such clock.
    clock = time.perf_counter if task.uses_gpu(setting) else time.process_time
    began = clock()
    try:
        rows = tuple(task.rows(setting))
    except (LeastnoiseError, MemoryError) as error:
        # What a method refuses, or memory cannot hold, is a result: it is stated in the table.
        rows = ({**task.arguments, NOTE: f"not run: {error}"},)
    where = machine() + (f", {_gpu()}" if task.uses_gpu(setting) else "")
    return TaskResult(rows, clock() - began, where)


def _left_out(task: Task, note: str) -> TaskResult:
    return TaskResult(({**task.arguments, NOTE: note},), 0.0, machine(), is_kept=False)


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
