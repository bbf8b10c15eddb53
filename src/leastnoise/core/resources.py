"""Memory, time and threads of linear algebra, settled before it starts.

A decomposition cannot be interrupted and a process that runs out of memory is killed, so both are estimated
first. Every method says what it needs (`Needs`), in bytes and in floating-point operations; `why_too_much` is
the one place that compares them with what there is.

An estimate counts operations in products of two n by n matrices, 2n³ each, as measured on one core with
OpenBLAS at 512 to 1,536 rows: an eigendecomposition takes 5 to 6 of them, a singular value decomposition 12,
a QR decomposition 4, an inverse 2, a triangular inverse 1. How fast this machine multiplies is measured at
first use.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from leastnoise.core.errors import InputError

# Gigabytes that a design may hold, by the user's own word.
MEMORY_VARIABLE = "LEASTNOISE_MEMORY"

# Bytes that a design holds at most unless MEMORY_VARIABLE says otherwise: what a laptop of 8 GB can spare.
# Fixed, so that the same request gives the same plan on every machine that has as much.
DEFAULT_MEMORY = 6e9

# Of what the system says is available, the share that is taken at most.
_AVAILABLE_SHARE = 0.9

# Bytes that Python, NumPy and SciPy hold before anything is designed.
_INTERPRETER = 0.25e9

# A time limit may be exceeded by this share of it, ...
LATE_SHARE = 0.2

# ... and by this many seconds: what the documentation promises.
LATE_SECONDS = 2.0

# Steps that a search takes as a rule: on 1,024 to 2,048 cells 3 to 5 for a total, 7 to 14 with caps.
USUAL_STEPS = 8

# Rows of the matrices with which the speed of matrix products is measured. Larger ones are up to a third
# faster.
_PROBE_ROWS = 512

# Products that are timed. The fastest counts: promises are for quiet cores.
_PROBES = 5

# Rows from which a second BLAS thread earns its keep.
SMALL_FOR_THREADS = 512


@dataclass(frozen=True)
class Needs:
    """What a method takes for one request, at most.

    Attributes:
        memory: bytes of arrays held at once.
        first: operations before its search can end for the first time.
        step: operations between two looks at the clock.
        last: operations after its search: rounding to whole numbers and the proof.
        steps: how many steps it takes as a rule.
    """

    memory: float = 0.0
    first: float = 0.0
    step: float = 0.0
    last: float = 0.0
    steps: float = USUAL_STEPS

    @property
    def operations(self) -> float:
        """What it takes as a rule, from the beginning to the proof."""
        return self.first + self.steps * self.step + self.last

    @property
    def least_seconds(self) -> float:
        """How long it takes at least, however short its time limit."""
        return seconds_for(self.first + self.last)

    def searching(self, seconds: float) -> float:
        """Seconds that these leave for the search, a step and what comes after it set aside."""
        return max(seconds - seconds_for(self.step + self.last), 0.0)


NOTHING = Needs()


def matrices(count: float, rows: float, columns: float) -> float:
    """Bytes of `count` (rows, columns) arrays of 8-byte numbers."""
    return 8.0 * count * rows * columns


def products(count: float, rows: float, columns: float) -> float:
    """Operations of `count` products of (rows, rows) with (rows, columns) matrices."""
    return 2.0 * count * rows * rows * columns


def memory_limit() -> float:
    """Bytes that a design may hold: those of MEMORY_VARIABLE, else DEFAULT_MEMORY or what is available.

    Raises:
        InputError: if the variable is not a positive number of gigabytes.
    """
    given = os.environ.get(MEMORY_VARIABLE)
    if given is None:
        return min(DEFAULT_MEMORY, _AVAILABLE_SHARE * available_memory())
    try:
        gigabytes = float(given)
    except ValueError:
        gigabytes = math.nan
    if not 0 < gigabytes < math.inf:
        raise InputError.must(MEMORY_VARIABLE, "be a positive number of gigabytes", given=given)
    return gigabytes * 1e9


def available_memory() -> float:
    """Bytes that the system can give to this process; infinite where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return math.inf


@cache
def operations_per_second() -> float:
    """Floating-point operations of a matrix product per second on this machine, measured once.

    Each product counts by the clock or by the time of this process, whichever is less: where others hold the
    cores the clock makes the machine look 20 times slower than it is, and several threads add up their times.
    """
    matrix = np.full((_PROBE_ROWS, _PROBE_ROWS), 0.5)
    matrix @ matrix  # the first one also starts threads
    fastest = math.inf
    for _ in range(_PROBES):
        started, worked = time.perf_counter(), time.process_time()
        matrix @ matrix
        fastest = min(fastest, time.process_time() - worked, time.perf_counter() - started)
    return products(1, _PROBE_ROWS, _PROBE_ROWS) / max(fastest, 1e-9)


def seconds_for(operations: float) -> float:
    """How long these operations take."""
    return operations / operations_per_second() if operations else 0.0


def why_too_much(needed: Needs, time_limit: float | None, overdue: float = 0.0) -> str | None:
    """A sentence on what is needed and what there is, where the first is more; None where it is not.

    Args:
        time_limit: seconds, if there is a limit; it may be exceeded by LATE_SHARE and LATE_SECONDS.
        overdue: seconds by which it is exceeded already.
    """
    if not (needed.memory or needed.first or needed.last):
        return None
    limit = memory_limit()
    if needed.memory and needed.memory + _INTERPRETER > limit:
        return (
            f"it needs about {gigabytes_to_text(needed.memory + _INTERPRETER)} of memory, and "
            f"{gigabytes_to_text(limit)} may be used ({MEMORY_VARIABLE} sets how many)"
        )
    if time_limit is None:
        return None
    if needed.least_seconds > (1 + LATE_SHARE) * time_limit + LATE_SECONDS - overdue:
        return (
            f"it takes about {seconds_to_text(needed.least_seconds)} whatever its time limit, which is "
            f"{time_limit:g} s"
        )
    return None


def gigabytes_to_text(amount: float) -> str:
    """Bytes for people.

    Example:
        >>> gigabytes_to_text(29.3e9), gigabytes_to_text(4.4e9), gigabytes_to_text(2e7)
        ('29 GB', '4.4 GB', '0.02 GB')
    """
    return f"{amount / 1e9:,.2g} GB" if amount < 1e10 else f"{amount / 1e9:,.0f} GB"


def seconds_to_text(seconds: float) -> str:
    """Seconds for people.

    Example:
        >>> seconds_to_text(3), seconds_to_text(95), seconds_to_text(2400), seconds_to_text(40000)
        ('3 s', '95 s', '40 minutes', '11 hours')
    """
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"


@contextmanager
def threads_for_matrices_of(size: int) -> Iterator[None]:
    """One BLAS thread while matrices have few rows; the user's own setting from SMALL_FOR_THREADS rows on.

    On matrices of a few hundred rows a second thread gains little, and where another process keeps a core
    busy it costs dearly, because threads wait for each other at every step: designing prefix sums of 256
    cells beside one busy core took 5 s with two threads and 0.25 s with one.
    """
    if size >= SMALL_FOR_THREADS:
        yield
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
