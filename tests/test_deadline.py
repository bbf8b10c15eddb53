"""Time limits of structured designs: the search ends with what it has, and what it has holds."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core import deadline as deadline_module
from leastnoise.core.deadline import NEVER, Deadline, Watch
from leastnoise.core.errors import DesignError
from leastnoise.core.progress import Progress
from leastnoise.planning import Request
from leastnoise.planning.families import residuals, shared_products
from leastnoise.planning.oblique import axis_split as oblique_axis
from leastnoise.planning.oblique import row_variances as rows
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.planning.oblique.tied_axes import tied_where_useful
from leastnoise.query import products_of
from support import refuses
from tolerances import ROUNDING

SCHEMA = ln.Schema(age=range(9), pay=range(7), sex=("F", "M"))


def asked(**target: Any) -> ln.Workload:
    queries = [
        ln.Cube("age", "pay", "sex", order=2),
        ln.Prefix("age"),
        ln.Prefix("pay") * ln.Marginal("sex"),
        ln.Where("age >= 4 and sex == 'F' and pay < 3"),
    ]
    return ln.assemble([query.having(**target) for query in queries], SCHEMA)


class Clock:
    """A clock that moves by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def without_a_shared_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small unions take the way of large ones."""
    monkeypatch.setattr(shared_products, "MAX_KINDS", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(deadline_module, "time", SimpleNamespace(monotonic=own.monotonic))
    return own


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The time limits of all one-axis problems that are solved."""
    limits: list[float | None] = []
    solve = oblique_axis.least_total

    def counted(*args: Any, time_limit: float | None = None, **options: Any) -> Any:
        limits.append(time_limit)
        return solve(*args, time_limit=time_limit, **options)

    monkeypatch.setattr(oblique_axis, "least_total", counted)
    return limits


# ---------------------------------------------------------------- the deadline


def test_a_deadline_counts_from_where_it_began(clock: Clock) -> None:
    end = Deadline.after(10.0)  # began at 1
    assert end == Deadline(11.0, 1.0)
    assert end.left == 9.0 and not end.is_past  # read at 2 and 3
    assert end.part(0.4) == Deadline(5.0, 1.0)
    assert end.part(0.4).part(0.5) == Deadline(3.0, 1.0)
    assert end.before(4.0) == Deadline(7.0, 1.0)
    assert end.before(100.0) == Deadline(1.0 + 10.0 / 4, 1.0)
    clock.now = 11.0
    assert end.is_past and 0 < (end.left or 0) < 1e-6


def test_no_deadline_is_never_past() -> None:
    never = Deadline.after(None)
    for one in (never, NEVER, never.part(0.1), never.before(5.0)):
        assert one.ends == math.inf and not one.is_past and one.left is None


def test_a_share_of_the_rest_begins_now(clock: Clock) -> None:
    end = Deadline.after(10.0)  # began at 1
    assert end.elapsed == 1.0  # read at 2
    assert end.share_of_rest(0.5) == Deadline(7.0, 3.0)
    assert NEVER.share_of_rest(0.5) is NEVER


def test_a_watch_counts_steps_and_seconds_over_all_parts(clock: Clock) -> None:
    told: list[Progress] = []
    watch = Watch.starting(10.0, told.append)  # began at 1
    watch.tell(2, 0.5)
    watch.steps += 3
    watch.tell(1, 0.25)
    assert told == [Progress(2, 0.5, 1.0), Progress(4, 0.25, 2.0)]
    Watch(watch.deadline).tell(1, 0.1)  # nobody listens, and the clock is not read
    assert watch.seconds == 3.0


def test_a_request_counts_from_when_it_was_made() -> None:
    request = Request(asked(), ln.GDP(1), time_limit=5.0)
    assert request.deadline == Deadline(request.began + 5.0, request.began)
    assert Request(asked(), ln.GDP(1)).deadline.left is None


# ---------------------------------------------------------------- the search


@pytest.mark.thorough
def test_a_late_search_solves_every_axis_once(solved: list[float | None]) -> None:
    products = products_of(asked())
    assert products is not None
    weights = [1.0] * len(products.terms)
    whole = split_products(products, weights)
    n_whole = len(solved)
    solved.clear()
    late = split_products(products, weights, deadline=Deadline.after(0.0))
    # One first place for every centre that is not uniform, and nothing else.
    assert len(solved) == sum(centre.g is not None for centre in late.centres) < n_whole / 4
    assert all(limit is not None and limit < 1e-6 for limit in solved)
    assert late.sweeps == 0
    assert whole.total <= late.total * (1 + ROUNDING)


def test_no_pair_is_tied_once_it_is_late(solved: list[float | None]) -> None:
    products = products_of(
        ln.assemble([ln.Sum("age") * ln.Marginal("sex"), ln.Marginal("age", "sex")], SCHEMA)
    )
    assert products is not None
    weights = [1.0, 1.0]
    tied_where_useful(products, weights)
    n_whole = len(solved)
    solved.clear()
    assert tied_where_useful(products, weights, deadline=Deadline.after(0.0)) is products
    assert len(solved) < n_whole / 2


OBJECTIVES: dict[str, dict[str, Any]] = {
    "total": {"workload": asked()},
    "largest": {"workload": asked(), "objective": ln.MaxVariance()},
    "within": {"workload": asked(stderr=4.5)},
}


def check_stopped(plan: ln.Plan, whole: ln.Plan) -> None:
    """What a plan that was stopped must still keep, beside the certified optimum."""
    again = ln.certify(plan.workload, plan)
    assert again.status == "stopped"
    assert again.lower_bound <= whole.certificate.achieved * (1 + ROUNDING)
    assert again.achieved >= whole.certificate.lower_bound * (1 - ROUNDING)
    assert plan.spent_per_person <= plan.privacy.budget
    assert plan.factor is None or plan.objective.kind != "total-within-caps" or plan.factor <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("limit", [1e-9, 0.1])
@pytest.mark.usefixtures("without_a_shared_axis")
def test_a_stopped_plan_holds(kind: str, limit: float) -> None:
    given = dict(OBJECTIVES[kind])
    workload = given.pop("workload")
    whole = ln.design(workload, ln.GDP(1), method="dense", **given)
    assert whole.certificate.status == "optimal"
    plan = ln.design(workload, ln.GDP(1), method="residuals", time_limit=limit, **given)
    check_stopped(plan, whole)
    assert limit > 1e-9 or plan.ended == "deadline"


@pytest.mark.thorough
def test_targets_that_are_hard_to_keep_are_kept_at_any_moment(clock: Clock) -> None:
    """A plan that ended at its caps missed them by a hair once it was rounded to integers."""
    workload = asked(stderr=1.0)
    least = ln.design(workload, method="residuals").mu
    assert least is not None
    goal = ln.GDP(1.2 * least)
    factors = []
    # On this clock every look at it is a second, so that every run ends somewhere else.
    for limit in (2000.0, 4000.0, 8000.0):
        clock.now = time.monotonic()
        with suppress(DesignError):
            factors.append(ln.design(workload, goal, method="residuals", time_limit=limit).factor)
    assert len(factors) >= 2
    # Caps bind, and a ten-millionth of a standard error is left for rounding.
    assert all(factor is not None and 0.99 < factor <= 1 - 1e-7 for factor in factors)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["auto", "dense", "residuals"])
def test_within_targets_a_stopped_search_says_to_give_more_time(method: str) -> None:
    """The dense optimum did not say that it was the time limit that left the question open."""
    workload = asked(stderr=1.0)
    least = ln.design(workload, method="dense").mu
    assert least is not None
    with refuses(DesignError, "stderr", ..., "open whether", "; or give it more time"):
        ln.design(workload, ln.GDP(1.001 * least), method=method, time_limit=1e-9)


@pytest.mark.thorough
def test_within_targets_no_time_gives_a_plan_that_meets_them_or_an_error_that_says_so() -> None:
    rng = np.random.default_rng(3)
    outcomes = set()
    for _ in range(12):
        schema = ln.Schema(age=range(int(rng.integers(2, 9))), sex=("F", "M"))
        queries = (ln.Prefix("age"), ln.Cube("age", "sex", order=2), ln.Marginal("sex"))
        goal = ln.GDP(1)
        unit = ln.assemble([q.having(stderr=1.0) for q in queries], schema)
        common = ln.design(unit, goal, objective=ln.Targets()).factor
        assert common is not None
        stderr = common * float(rng.choice([1.001, 1.05, 2.0]))
        workload = ln.assemble([q.having(stderr=stderr) for q in queries], schema)
        said = ""
        try:
            plan = ln.design(workload, goal, time_limit=1e-9)
            assert plan.factor is not None and plan.factor <= 1
        except DesignError as error:
            said = str(error)
        outcomes.add("open" if "; or give it more time" in said else said)
    assert outcomes == {"open", ""}


def test_a_product_shares_the_time_among_its_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    from leastnoise.planning.families import product

    limits = []
    found = product.DENSE.find

    def find(request: Request) -> Any:
        limits.append(request.time_limit)
        return found(request)

    monkeypatch.setattr(product, "DENSE", SimpleNamespace(find=find))
    workload = ln.assemble([ln.Prefix("age") * ln.Prefix("pay") * ln.Marginal("sex")], SCHEMA)
    whole = ln.design(workload, ln.GDP(1), method="product")
    assert limits == [None, None]
    limits.clear()
    began = time.monotonic()
    ln.design(workload, ln.GDP(1), method="product", time_limit=1000.0)
    passed = time.monotonic() - began
    # Three quarters are for the search: half of that for the first, then all of what is left.
    assert 375 - passed <= limits[0] <= 375 and 750 - passed <= limits[1] <= 750
    hasty = ln.design(workload, ln.GDP(1), method="product", time_limit=1e-9)
    check_stopped(hasty, whole)
    assert hasty.ended == "deadline" and whole.ended == "converged"


def test_cross_tables_stop_at_the_limit() -> None:
    workload = ln.assemble(
        [ln.Cube("age", "pay", "sex", order=2, stderr=30.0), ln.Marginal("age", stderr=7.0)], SCHEMA
    )
    whole = ln.design(workload, objective=ln.Targets(), method="marginals")
    plan = ln.design(workload, objective=ln.Targets(), method="marginals", time_limit=1e-9)
    again = ln.certify(workload, plan)
    assert again.lower_bound <= whole.certificate.achieved * (1 + ROUNDING)
    assert again.achieved > whole.certificate.achieved
    assert again.status == "stopped" and plan.factor is not None and plan.factor <= 1
    assert plan.ended == "deadline" and whole.ended == "converged"


@pytest.mark.usefixtures("without_a_shared_axis")
def test_progress_tells_no_gap_that_is_not_the_plans() -> None:
    """Steps over shares of the budget told a gap of 1e-8 where the plan's own was a tenth."""
    seen: list[Any] = []
    ln.design(
        asked(),
        ln.GDP(1),
        objective=ln.MaxVariance(),
        method="residuals",
        time_limit=0.3,
        progress=seen.append,
    )
    assert seen and all(step.gap == math.inf and step.seconds >= 0 for step in seen)


@pytest.mark.thorough
def test_laplace_noise_is_sought_no_longer_than_asked() -> None:
    """Quick methods are left out too where a limit is set and over, and one plan is there."""
    workload = ln.assemble([ln.Prefix("a"), ln.Marginal("a")], ln.Schema(a=range(32)))
    stopped = ln.design(workload, ln.PureDP(1), time_limit=1e-9)
    assert sum(trial.outcome == "no-time" for trial in stopped.tried) >= 3
    assert stopped.ended == "deadline"
    assert ln.certify(workload, stopped).achieved == stopped.certificate.achieved
    free = ln.design(workload, ln.PureDP(1))
    assert ("hierarchical", "no-time") not in [(trial.name, trial.outcome) for trial in free.tried]
    assert free.certificate.achieved < stopped.certificate.achieved


WITHIN = ln.TotalVariance(within_targets=True)


@pytest.mark.thorough
@pytest.mark.usefixtures("without_a_shared_axis")
def test_queries_that_cannot_be_told_apart_in_time_are_refused_with_the_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Telling eight million queries apart took 30 s of a time limit of one."""
    monkeypatch.setattr(rows, "_ENTRY_WORK", 1e12)
    # The number is told before anything is made.
    made = rows.variance_matrix
    monkeypatch.delattr(rows, "variance_matrix")
    with pytest.raises(DesignError, match=r"queries differ .* takes about .* the time limit leaves"):
        ln.design(asked(stderr=9.0), ln.GDP(1), objective=WITHIN, method="residuals", time_limit=1)
    monkeypatch.setattr(rows, "variance_matrix", made, raising=False)
    # Without a limit nothing is refused for time.
    plan = ln.design(asked(stderr=9.0), ln.GDP(1), objective=WITHIN, method="residuals")
    assert plan.factor <= 1


@pytest.mark.thorough
@pytest.mark.usefixtures("without_a_shared_axis")
def test_a_plan_within_targets_is_kept_where_a_better_one_would_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = asked(stderr=7.0)
    free = ln.design(workload, ln.GDP(1), objective=WITHIN, method="residuals")
    leading, calls = residuals.leading_rows, []

    def once(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) > 1:
            raise rows.RowsTakeTooLong("too long")
        return leading(*arguments, **options)

    monkeypatch.setattr(residuals, "leading_rows", once)
    plan = ln.design(workload, ln.GDP(1), objective=WITHIN, method="residuals", time_limit=60)
    assert len(calls) == 2 and plan.ended == "deadline"
    assert plan.factor <= 1 and plan.certificate.achieved >= free.certificate.achieved * (1 - ROUNDING)
