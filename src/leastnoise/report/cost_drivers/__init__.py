"""Which requests drive the cost of a plan, and what giving way on each would buy.

Shares come from the weights that prove the plan's optimum (see `pressure`). What giving way buys is never
extrapolated from them: the relaxed request is designed again, by the same method, and both numbers are of
plans with a certificate. The share is a slope; a target that is let go by half stops mattering somewhere on
the way, where another one takes its place. Where a plan is not proved to be close to the optimum, it is
designed again unchanged as well, so that a better search is not taken for what giving way buys.

    targets               a target is made wider by a factor; the cost is ε, or the factor on all targets
    total within targets  the same; the cost is the total variance
    largest variance      the weight of a batch is divided by the factor squared
    total variance        the same; and the batch is left out. The cost is the total variance of the others

    pressure.py     how hard each target presses, from the proof
    relaxation.py   which changes are worth designing, and what is told of each
    redesign.py     designing them
    driver_table.py        what comes of it, for people
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from leastnoise.core.errors import InputError, PrivacyError
from leastnoise.core.printable import counted
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning import Plan
from leastnoise.privacy import ApproxDP
from leastnoise.report.cost_drivers.driver_table import NEGLIGIBLE, Change, Driver, Drivers, TightQuery
from leastnoise.report.cost_drivers.redesign import Redesign, Runner
from leastnoise.report.cost_drivers.relaxation import known_of

__all__ = ["Change", "Driver", "Drivers", "Redesign", "TightQuery", "drivers"]

# The δ at which ε is told where the plan's goal names none.
DELTA = 1e-6


def drivers(
    plan: Plan,
    *,
    relax: float = 2.0,
    most: int = 12,
    delta: float | None = None,
    after: Sequence[Plan] = (),
    time_limit: float | None = None,
    backend: str = "numpy",
    workers: int | None = None,
    progress: Callable[[Redesign], None] | None = None,
) -> Drivers:
    """Which batches of queries drive the cost of a plan, and what giving way on each would buy.

    Args:
        relax: the factor by which a target is made wider, or a standard error may grow.
        most: how many batches are designed again at most, those with the largest shares first.
        delta: at which ε is told where targets were given without a goal; 1e-6 unless given.
        after: the plans that the plan was designed after, if it was.
        time_limit: seconds for all of it. A search that runs out of time gives the best it has found, and
            its gap is told.
        backend: "numpy", "torch" or "cuda".
        workers: threads that share the work; as many as there are cores where matrices are small.
        progress: called with a `Redesign` when one begins and after every step of it, by one thread at a
            time. What it raises ends the whole.

    Guarantee:
        Every cost is that of a plan with a certificate, for a request that differs as told. `most_bought`
        follows from the plan's own certificate.

    Raises:
        InputError: if an argument is not what it must be.
        MethodError: where the plan depends on the data, so that nothing is known of its errors.
        PrivacyError: if the plan was designed after others and these are not they.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"drivers() takes a plan from design(), got {type(plan).__name__}")
    if not _is_number(relax) or not 1 < relax < math.inf:
        raise InputError.must("relax", "be a number above 1, as 2 for twice as wide", given=relax)
    if type(most) is not int or most < 0:
        raise InputError.must("most", "be a whole number, zero or more", given=most)
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InputError.must("workers", "be a positive whole number", given=workers)
    if time_limit is not None and (not _is_number(time_limit) or not time_limit > 0):
        raise InputError.must("time_limit", "be a positive number of seconds", given=time_limit)
    plan.fixed_strategy()
    # Laplace plans are the best of several searches, and no one method finds them.
    method = plan.method if plan.privacy.noise == "gaussian" else "auto"
    known = known_of(plan, relax, _delta(plan, delta))
    jobs = known.jobs(most)
    if jobs:
        _check_after(plan, after)
    is_compared = bool(jobs) and plan.certificate.gap > NEGLIGIBLE
    runner = Runner(plan, method, after, time_limit, backend, progress, len(jobs) + is_compared)
    again = runner.as_it_is() if is_compared else None
    if again is not None and again.certificate.achieved < plan.certificate.achieved:
        known = replace(known, reference=again)
        jobs = known.jobs(most)
    return known.table(jobs, runner.run(jobs, workers), method, again)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _delta(plan: Plan, delta: float | None) -> float:
    if delta is not None:
        return delta
    return float(plan.privacy.delta) if isinstance(plan.privacy, ApproxDP) else DELTA


def _check_after(plan: Plan, after: Sequence[Plan]) -> None:
    given = [earlier.digest if isinstance(earlier, Plan) else None for earlier in after]
    if given != list(plan.after):
        if not plan.after:
            remedy = Remedy("leave ", Argument("after"), " out")
            raise PrivacyError("this plan was designed after no other; ", remedy, field="after")
        raise PrivacyError(
            f"this plan was designed after {counted(len(plan.after), 'plan')}, which its new designs must "
            "come after too: ",
            Remedy("give them, in their order, with ", Argument("after")),
            field="after",
        )
