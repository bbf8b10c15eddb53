"""Memory and time, estimated before anything is allocated: refusals with their numbers, and time kept."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds.union_norm import union_bound_work
from leastnoise.core import deadline as deadline_module
from leastnoise.core import resources
from leastnoise.core.deadline import LEAST_TIME, Deadline
from leastnoise.core.errors import InputError, MethodError
from leastnoise.core.resources import Needs
from leastnoise.papers.low_rank_rounds import low_rank, random_start
from leastnoise.papers.unit_balls import L2Ball
from leastnoise.planning import Request, checked_request, method_named, plan_by
from leastnoise.planning.oblique import dual_search
from leastnoise.planning.oblique.largest_variance import alternate
from leastnoise.planning.oblique.row_variances import RowsTakeTooLong
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.query import Query, products_of
from support import refuses

# A machine that multiplies a thousand times slower than any.
SLOW = 1e6


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates as on a slow machine, without waiting for one."""
    monkeypatch.setattr(resources, "operations_per_second", lambda: SLOW)


@pytest.fixture(autouse=True)
def enough_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 8 GB to spare, whatever this one has."""
    monkeypatch.delenv(resources.MEMORY_VARIABLE, raising=False)
    monkeypatch.setattr(resources, "available_memory", lambda: 8e9)


def prefix(n: int, **target: Any) -> ln.Workload:
    return ln.assemble([ln.Prefix("a").having(**target)], ln.Schema(a=range(n)))


def ask(
    workload: ln.Workload, goal: Any, *, time_limit: float | None = None, objective: Any = None
) -> Request:
    return checked_request(workload, goal, objective, None, (), None, 1e-6, time_limit, "numpy", None)


# ---------------------------------------------------------------- what there is


def test_memory_is_the_users_word_else_six_gigabytes_or_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resources.memory_limit() == 6e9
    monkeypatch.setattr(resources, "available_memory", lambda: 2e9)
    assert resources.memory_limit() == pytest.approx(1.8e9)
    monkeypatch.setenv(resources.MEMORY_VARIABLE, "32")
    assert resources.memory_limit() == 32e9


@pytest.mark.parametrize("given", ["", "6GB", "-1", "0", "nan", "inf"])
def test_memory_is_a_positive_number_of_gigabytes(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resources.MEMORY_VARIABLE, given)
    with refuses(InputError, "LEASTNOISE_MEMORY"):
        resources.memory_limit()


def test_speed_is_measured_once() -> None:
    first = resources.operations_per_second()
    assert 1e6 < first < 1e15 and resources.operations_per_second() == first


def test_a_busy_machine_does_not_look_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 14 processes on two cores the speed by the clock alone was a twentieth of what it is."""
    clocks = SimpleNamespace(
        perf_counter=partial(next, count(0, 1.0)), process_time=partial(next, count(0, 0.001))
    )
    monkeypatch.setattr(resources, "time", clocks)
    assert resources.operations_per_second.__wrapped__() == pytest.approx(2 * 512**3 / 0.001)


# ---------------------------------------------------------------- refused with the number

RANGES = ln.assemble([ln.AllRanges("a")], ln.Schema(a=range(20_000)))


@pytest.mark.parametrize(
    ("method", "workload", "goal", "says"),
    [
        ("auto", prefix(20_000), ln.GDP(1), "dense: it needs about 29 GB of memory, and 6 GB may be used"),
        ("auto", RANGES, ln.GDP(1), "dense: it needs about 29 GB of memory, and 6 GB may be used"),
        ("dense", RANGES, ln.GDP(1), "it needs about 29 GB of memory, and 6 GB may be used"),
        ("dense", prefix(9_000), ln.GDP(1, neighbours="replace-one"), "it needs about 12 GB of memory"),
        ("coa", prefix(9_500), ln.GDP(1), "it needs about 8.9 GB of memory, and 6 GB may be used"),
        ("lowrank", prefix(10_000), ln.PureDP(1), "it needs about 8.9 GB of memory, and 6 GB may be used"),
    ],
)
def test_too_much_memory_is_refused_before_it_is_allocated(
    method: str, workload: ln.Workload, goal: Any, says: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MethodError, match="LEASTNOISE_MEMORY") as refused:
            ln.design(workload, goal, method=method)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert says in str(refused.value)


TIMED = [
    ("dense", ln.GDP(1), "16 s"),
    ("eigen", ln.GDP(1), "13 s"),
    ("coa", ln.GDP(1), "15 s"),
    ("smoothing", ln.GDP(1), "18 s"),
    ("lowrank", ln.PureDP(1), "27 s"),
    ("p-identity", ln.PureDP(1), "11 s"),
    ("identity", ln.GDP(1), "8.9 s"),
    ("identity", ln.GDP(1, neighbours="replace-one"), "14 s"),
]


@pytest.mark.parametrize(("name", "goal", "seconds"), TIMED)
def test_what_cannot_end_in_time_is_refused_before_it_begins(
    name: str, goal: Any, seconds: str, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decomposition cannot be interrupted: limits of 20 s used to end after minutes."""
    unable = replace(method_named(name), find=lambda _: pytest.fail("the search began"))
    with refuses(
        MethodError, "method", ..., f"it takes about {seconds} whatever its time limit, which is 3 s"
    ):
        plan_by(unable, ask(prefix(64), goal, time_limit=3))


def test_a_limit_may_be_exceeded_by_a_fifth_and_two_seconds(slow: None) -> None:
    needs = Needs(first=8e6, last=6e6)
    assert resources.why_too_much(needs, 10.0) is None
    assert resources.why_too_much(needs, 9.9) is not None
    assert resources.why_too_much(needs, None) is None


def test_without_a_time_limit_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request gives the same plan: the machine's speed counts only where a limit was given."""
    monkeypatch.setattr(resources, "operations_per_second", lambda: pytest.fail("the speed was asked"))
    assert ln.design(prefix(8), ln.GDP(1)).certificate.status == "optimal"


# ---------------------------------------------------------------- the time that is left to search


class Stopped:
    """A clock that stands still."""

    @staticmethod
    def monotonic() -> float:
        return 5.0


def test_rounding_and_proof_are_set_aside_before_the_search_begins(
    slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float | None] = []

    def find(request: Request) -> Any:
        told.append(request.time_limit)
        return method_named("identity").find(request)

    monkeypatch.setattr(deadline_module, "time", Stopped)
    method = replace(
        method_named("identity"), find=find, needs=lambda _: Needs(first=1e6, step=7e6, last=30e6)
    )
    for limit in (100.0, 38.0, 30.0, None):
        asked = ask(prefix(8), ln.GDP(1), time_limit=limit)
        object.__setattr__(asked, "began", 5.0)
        plan_by(method, asked)
    assert told == [pytest.approx(63.0), pytest.approx(1.0), LEAST_TIME, None]


def test_a_round_of_the_low_rank_mechanism_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is up to 250 steps: at 1,000 cells a limit of 10 s ended after 30."""
    moments = iter(range(10**6))
    monkeypatch.setattr(deadline_module, "time", SimpleNamespace(monotonic=lambda: float(next(moments))))
    steps = []
    project = L2Ball.project
    monkeypatch.setattr(L2Ball, "project", lambda ball, rows: steps.append(1) or project(ball, rows))
    W = np.tri(24)
    low_rank(W, random_start(30, 24, 2, np.random.default_rng(0)), norm=2, max_iterations=1, time_limit=9.0)
    assert 1 <= len(steps) <= 20


def test_auto_takes_a_cheaper_method_and_says_so(slow: None) -> None:
    plan = ln.design(prefix(64), ln.GDP(1), time_limit=10)
    (dense,) = (trial for trial in plan.tried if trial.name == "dense")
    assert dense.outcome == "too-much"
    assert dense.reason == "it takes about 16 s whatever its time limit, which is 10 s"
    found = {trial.name: trial.achieved for trial in plan.tried if trial.achieved is not None}
    assert {"wavelet", "eigen", "identity"} <= set(found)
    assert found[plan.method] == min(found.values()) == plan.certificate.achieved
    assert plan.ended == "deadline"


def test_auto_says_what_each_method_takes_where_none_can_end(slow: None) -> None:
    """There is a plan all the same, of plain noise, and it says that more time may give a better one."""
    plan = ln.design(prefix(64), ln.GDP(1), time_limit=1)
    assert (plan.method, plan.ended) == ("plain", "deadline")
    reasons = {trial.name: trial.reason for trial in plan.tried if trial.outcome == "too-much"}
    assert reasons["dense"].startswith("it takes about 16 s")
    assert plan.certificate.status == "stopped" and plan.certificate.gap > 0.05


def test_with_laplace_noise_methods_that_cannot_end_are_left_out(slow: None) -> None:
    plan = ln.design(prefix(48), ln.PureDP(1), time_limit=3.0)
    assert "too-much" in {trial.outcome for trial in plan.tried} and plan.ended == "deadline"
    with refuses(MethodError, "workload", ..., "this workload takes too much") as refused:
        ln.design(prefix(64), ln.PureDP(1), time_limit=1.0)
    assert "wavelet: it takes about 8.9 s whatever its time limit, which is 1 s" in str(refused.value)


@pytest.mark.thorough
def test_with_laplace_noise_nothing_is_left_out_for_time_where_nobody_set_a_limit(slow: None) -> None:
    """A limit that "auto" sets by itself ends searches; it must not refuse what always came back."""
    plan = ln.design(prefix(48), ln.PureDP(1), options={"iterations": 2})
    assert "too-much" not in {trial.outcome for trial in plan.tried}


# ---------------------------------------------------------------- estimates against measurements

REPLACED = ln.GDP(1, neighbours="replace-one")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "goal", "objective"),
    [
        ("dense", ln.GDP(1), None),
        ("dense", REPLACED, None),
        ("product", ln.GDP(1), None),
        ("dense", ln.GDP(1), ln.MaxVariance()),
        ("eigen", ln.GDP(1), None),
        ("coa", ln.GDP(1), None),
        ("smoothing", ln.GDP(1), None),
        ("lowrank", ln.PureDP(1), None),
        ("p-identity", ln.PureDP(1), None),
        ("hierarchical", ln.GDP(1), None),
        ("weighted-basis", ln.GDP(1), None),
    ],
)
def test_memory_is_estimated_within_a_factor_of_two(name: str, goal: Any, objective: Any) -> None:
    method = method_named(name)
    n, few = (600, 520) if name == "product" else (300, 8)
    plan_by(method, ask(prefix(few), goal, objective=objective, time_limit=LEAST_TIME))  # imports
    request = ask(prefix(n), goal, objective=objective, time_limit=LEAST_TIME)
    estimate = method.needs(request).memory
    tracemalloc.start()
    try:
        plan_by(method, request)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held / 2 < estimate < 2 * held


def test_further_conditions_on_an_axis_take_next_to_nothing() -> None:
    method, schema = method_named("residuals"), ln.Schema(a=range(60), b=range(3))
    conditions = [ln.Where(f"a >= {bound}") for bound in range(5, 55)]
    few, many = (
        method.needs(ask(ln.assemble([ln.Prefix("a"), ln.Marginal("b"), *more], schema), ln.GDP(1)))
        for more in ([], conditions)
    )
    assert few.memory <= many.memory < 2 * few.memory
    assert few.first <= many.first < 2 * few.first


# ---------------------------------------------------------------- methods for sets of attributes


@pytest.mark.parametrize("name", ["fourier", "datacube"])
def test_sets_of_attributes_say_what_they_take(name: str, slow: None) -> None:
    """Neither said anything, and a cube over 8 attributes of 4 values took 53 s within a limit of 8."""
    schema = ln.Schema({f"a{i}": range(4) for i in range(8)})
    cube = ln.assemble([ln.Cube(*schema.names, order=2)], schema)
    request = ask(cube, ln.PureDP(1), time_limit=8)
    reason = resources.why_too_much(method_named(name).needs(request), 8)
    assert reason is not None
    assert "whatever its time limit, which is 8 s" in reason


@pytest.mark.parametrize("name", ["fourier", "datacube"])
def test_sets_of_attributes_hold_no_more_than_they_say(name: str) -> None:
    schema = ln.Schema({f"a{i}": range(3) for i in range(6)})
    cube = ln.assemble([ln.Cube(*schema.names, order=2)], schema)
    request = ask(cube, ln.PureDP(1))
    method = method_named(name)
    # What is imported at first use is no part of it.
    plan_by(method, request)
    tracemalloc.start()
    plan_by(method, ask(cube, ln.PureDP(1)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= method.needs(request).memory


# ---------------------------------------------------------------- residuals


def unlike_tables() -> ln.Workload:
    """Running sums of three attributes beside all their tables: the bound cuts axes."""
    schema = ln.Schema(a=range(40), b=range(40), c=range(40), d=range(3))
    return ln.assemble([*map(ln.Prefix, "abc"), ln.Cube(*"abcd", order=3)], schema)


def test_a_bound_that_takes_too_long_is_not_begun_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for weights judged its start, whatever that took, and the certificate judged it again."""
    products = products_of(unlike_tables())
    assert products is not None
    judged: list[int] = []
    monkeypatch.setattr(dual_search, "union_bound", lambda *_: judged.append(1) or 1.0)
    monkeypatch.setattr(dual_search, "seconds_for", lambda _: 60.0, raising=False)
    start = [np.full(size, 1 / size) for size in products.sizes]
    weights = np.ones(len(products.terms))
    q, ended = dual_search.dual_weights(products, weights, start=start, deadline=Deadline.after(100))
    assert ended == "deadline"
    assert not judged
    assert all(np.allclose(own, given) for own, given in zip(q, start, strict=True))
    dual_search.dual_weights(products, weights, start=start, rounds=0, deadline=Deadline.after(1000))
    assert judged


def test_the_work_of_a_bound_grows_with_what_is_decomposed() -> None:
    def work(*queries: Query) -> float:
        products = products_of(ln.assemble(list(queries), ln.Schema(a=range(20), b=range(20), c=range(20))))
        assert products is not None
        return union_bound_work(products)

    assert work(ln.Cube("a", "b", "c", order=2)) == 0
    few = work(ln.Prefix("a"), ln.Prefix("b"))
    more = work(ln.Prefix("a"), ln.Prefix("b"), ln.Prefix("a") * ln.Prefix("b"))
    most = work(ln.Prefix("a"), ln.Prefix("b"), ln.Prefix("a") * ln.Prefix("b") * ln.Prefix("c"))
    assert 0 < few < more < most
    # All ask the same of a, which is a number then.
    assert work(ln.Prefix("a")) == work(ln.Prefix("a") * ln.Marginal("b"), ln.Prefix("a")) < few


def test_the_work_of_a_bound_counts_rotations() -> None:
    """The estimate left rotations out, which may take seconds: time limits were exceeded."""
    from leastnoise.bounds import union_norm

    products = products_of(unlike_tables())
    assert products is not None
    assert union_bound_work(products) > union_norm._WORK_WITH_CUTS
    # Where directions are few enough to be decomposed together, nothing is rotated.
    few = products_of(ln.assemble([ln.Prefix("a"), ln.Prefix("b")], ln.Schema(a=range(20), b=range(20))))
    assert few is not None
    assert union_bound_work(few) < union_norm._WORK_WITH_CUTS


def test_single_queries_are_not_told_apart_beyond_the_time() -> None:
    """Every round for the largest variance told all queries apart, however long that took."""
    products = products_of(unlike_tables())
    assert products is not None
    caps = np.ones(len(products.terms))
    with pytest.raises(RowsTakeTooLong):
        alternate(products, caps, lambda A, _: SimpleNamespace(x=np.ones(A.shape[1])), row_seconds=lambda: 0)


def test_blocks_are_counted_without_being_listed() -> None:
    products = products_of(unlike_tables())
    assert products is not None
    split = split_products(products, np.ones(len(products.terms)), deadline=Deadline.after(LEAST_TIME))
    listed = [len(split.pieces(j)) for j in range(len(products.terms))]
    assert split.blocks.n_pieces.tolist() == listed
