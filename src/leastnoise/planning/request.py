"""What `design` was asked, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.progress import Progress
from leastnoise.planning.earlier_plans import check_spare, goal_spent, used_before
from leastnoise.planning.method import Request
from leastnoise.planning.plan import Plan
from leastnoise.privacy import GDP, Goal
from leastnoise.query import Objective, Targets, Workload, check_spanned, default_objective
from leastnoise.solver import BACKENDS, load_backend


def checked_request(
    workload: Workload,
    privacy: Goal | None,
    objective: Objective | None,
    options: Mapping[str, Any] | None,
    after: Sequence[Plan],
    tol: float,
    time_limit: float | None,
    backend: str,
    progress: Callable[[Progress], None] | None,
) -> Request:
    """What `design` was asked, after checking that it means something.

    Raises:
        InputError: naming what does not.
    """
    if not isinstance(workload, Workload):
        raise InputError(f"design() needs a Workload from assemble(), got {type(workload).__name__}")
    if privacy is not None and not isinstance(privacy, Goal):
        raise InputError.must("privacy", "be PureDP, ApproxDP, ZCDP or GDP", given=type(privacy))
    for name, number in (("tol", tol), ("time_limit", time_limit)):
        if number is not None and (not isinstance(number, (int, float)) or isinstance(number, bool)):
            raise InputError.must(name, "be a number", given=type(number))
    if not 0 < tol < math.inf:
        raise InputError.must("tol", "be a positive number", given=tol)
    if time_limit is not None and not time_limit > 0:
        raise InputError.must("time_limit", "be a positive number of seconds", given=time_limit)
    if backend not in BACKENDS:
        raise InputError.must("backend", f"be one of {', '.join(BACKENDS)}", given=backend)
    if backend != "numpy":
        load_backend(backend)  # one that is missing is told before anything is searched for
    used = used_before(after, workload, privacy)
    if used is not None and privacy is None:
        privacy = goal_spent(used, after[0].privacy.records_per_person)
    chosen = default_objective(workload, objective, has_goal=privacy is not None)
    if privacy is None and not isinstance(chosen, Targets):
        raise InputError(
            "design() needs a privacy goal, as in design(workload, ApproxDP(epsilon=1, delta=1e-6)), or "
            "targets that say how much accuracy is enough, as in Total(stderr=50), and no other objective"
        )
    check_spanned(workload, chosen)
    # Without a goal only the shape of the noise is sought, at any budget.
    goal = GDP(1) if privacy is None else privacy
    request = Request(
        workload=workload,
        privacy=goal,
        options=dict(options or {}),
        tol=tol,
        time_limit=time_limit,
        backend=backend,
        progress=progress,
        objective=chosen,
        after=tuple(plan.digest for plan in after),
        used=used,
    )
    if request.spare is not None:
        check_spare(workload, goal, request.spare)
    return request
