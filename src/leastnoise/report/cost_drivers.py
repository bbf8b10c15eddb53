"""Which requests drive the cost of a plan, and what relaxing each would buy.

Shares come from the weights that prove the plan's optimum (see `pressure`). What relaxing buys is never
extrapolated from them: the relaxed request is designed again, by the same method, and both numbers are of
plans with a certificate. The share is a slope; a target that is relaxed to twice its width stops binding
somewhere on the way, where another one takes its place. Where a plan is not proved to be close to the
optimum, it is designed again unchanged as well, so that a better search is not taken for what relaxing buys.

    targets               a target is made wider by a factor; the cost is ε, or the factor on all targets
    total within targets  the same; the cost is the total variance
    largest variance      the weight of a batch is divided by the factor squared
    total variance        the same; and the batch is left out. The cost is the total variance of the others
    absolute error        the weight is divided by the factor itself; the batch is left out. The cost is the
                          total absolute error of the others

    pressure.py      how hard each target presses, from the proof
    redesign.py      designing the changed requests again
    driver_table.py  what comes of it, for people
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.bounds import MOST_OPTIMAL
from leastnoise.core.errors import InputError, PrivacyError
from leastnoise.core.operators import Array
from leastnoise.core.printable import counted
from leastnoise.core.progress import ending_to_text
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning import Plan
from leastnoise.privacy import ApproxDP
from leastnoise.query import MEAN_ABSOLUTE, Objective, Query, QueryBlock, Targets, Workload, assemble
from leastnoise.report.driver_table import (
    BINDS,
    NEGLIGIBLE,
    Change,
    Driver,
    Drivers,
    TightQuery,
    short,
)
from leastnoise.report.plan_sentences import target_to_text
from leastnoise.report.pressure import (
    Pressure,
    batch_variances,
    bound_if_relaxed,
    largest_shares,
    pressure_of,
)
from leastnoise.report.redesign import DesignSeries, Job, Redesigns, Turn, turn_to_line

# Shares are read from weights that prove the optimum to this gap; others say little.
_PROVED = MOST_OPTIMAL

# A query with less of the whole cost than this is not named.
_LISTED = 0.01

# The δ at which ε is stated where the plan's goal names none.
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
    progress: Told[Turn] = None,
) -> Drivers:
    """Which batches of queries drive the cost of a plan, and what relaxing each would save.

    Args:
        plan: the plan whose cost is explained.
        relax: the factor by which a target is widened, or a standard error may grow.
        most: the largest number of batches to redesign, those with the largest shares first.
        delta: the δ at which ε is stated where targets were given without a goal; 1e-6 by default.
        after: the plans that the plan was designed after, if any.
        time_limit: seconds for everything. A search that runs out of time returns the best it has found, with
            its gap. None for no limit.
        backend: "numpy", "torch" or "cuda".
        workers: the number of threads; by default one per core where matrices are small.
        progress: called with a `Turn` when a design begins and after each of its steps, by one thread at a
            time. An exception that it raises ends everything. By default a notebook
            shows a bar if this takes more than a second; ``False`` for none.

    Guarantee:
        Every cost is that of a plan with a certificate, for the request changed as described. `most_bought`
        follows from the plan's own certificate.

    Raises:
        InputError: if an argument is not what it must be.
        MethodError: where the plan depends on the data, so that its errors are not known.
        PrivacyError: if the plan was designed after other plans than these.
    """
    if not isinstance(plan, Plan):
        raise InputError.must("plan", "be a Plan from design()", given=type(plan))
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
    method = "auto" if plan.privacy.noise.is_pure else plan.method
    known = known_of(plan, relax, _delta(plan, delta))
    jobs = known.jobs(most)
    if jobs:
        _check_after(plan, after)
    is_compared = bool(jobs) and plan.certificate.gap > NEGLIGIBLE
    with progress_shown(progress, "designing changes", turn_to_line("designing changes")) as tell:
        series = DesignSeries(time_limit, tell, len(jobs) + is_compared)
        redesigns = Redesigns(plan, method, after, backend, series)
        again = redesigns.as_it_is() if is_compared else None
        if again is not None and again.certificate.achieved < plan.certificate.achieved:
            known = replace(known, reference=again)
            jobs = known.jobs(most)
        return known.table(jobs, redesigns.run(jobs, workers), method, again)


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


# ------------------------------------------------------------ what is known, and what to design again


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a plan before anything is designed again; new costs are held against `reference`."""

    plan: Plan
    reference: Plan
    relax: float
    delta: float
    pressure: Pressure | None
    shares: tuple[float | None, ...]
    used: tuple[float | None, ...]
    most_bought: tuple[float | None, ...]

    @property
    def order(self) -> list[int]:
        """The batches, largest share first."""
        known = [-1.0 if share is None else share for share in self.shares]
        return sorted(range(len(known)), key=lambda b: -known[b])

    def jobs(self, most: int) -> list[Job]:
        """The requests to design again, for at most `most` batches."""
        chosen = [b for b in self.order if self._why_not(b) == ""][:most]
        return [job for b in chosen for job in self._jobs_of(b)]

    def _why_not(self, b: int) -> str:
        """Why a batch is not designed again; "" where it is."""
        block, bought = self.plan.workload.blocks[b], self.most_bought[b]
        has_target = bool(np.isfinite(block.targets).any())
        if self._is_total and len(self.plan.workload.blocks) == 1:
            return "there is no other batch to gain by it"
        if not self._is_total and self._kind_of_cap == "target" and not has_target:
            return "it has no target to relax"
        if self._kind_of_cap == "weight" and not self._is_total and not block.weights.any():
            return "its weight is zero, and nothing depends on it"
        if bought is not None and bought <= NEGLIGIBLE:
            return "relaxing it cannot lower the cost"
        if self.plan.workload.schema is None and not self._has_rows(b):
            return "no row of the matrix presses harder than the others, to be relaxed on its own"
        if self._is_total and not block.weights.any():
            return "its weight is zero, and nothing depends on it"
        return ""

    def _has_rows(self, b: int) -> bool:
        if self.pressure is None or self._kind_of_cap != "target":
            return False
        return bool(self.pressure.batches[b].rows)

    @property
    def _is_total(self) -> bool:
        return self.plan.objective.kind in ("total", "absolute")

    @property
    def _kind_of_cap(self) -> str:
        is_of_targets = isinstance(self.plan.objective, Targets)
        return "target" if is_of_targets or self.plan.objective.kind == "total-within-caps" else "weight"

    def _jobs_of(self, b: int) -> Iterator[Job]:
        workload = self.plan.workload
        block = workload.blocks[b]
        name = repr(short(block.name))
        if workload.schema is None:
            yield from self._jobs_of_rows(b)
            return
        if self._kind_of_cap == "target":
            wider = block.query.relaxed(self.relax)
            how = f"Relaxing {name} from {block.query.target_to_text()} to {wider.target_to_text()}"
            yield self._job(b, block.name, how, _with_query(workload, b, wider))
            return
        # A weight multiplies the variance; under the absolute error, the standard error.
        less = self.relax if self.plan.objective.kind == "absolute" else self.relax**2
        lighter = block.query.having(weight=block.query.weight / less)
        how = f"Lowering the weight of {name} from {block.query.weight:.4g} to {lighter.weight:.4g}"
        changed = _with_query(workload, b, lighter)
        if not self._is_total:
            yield self._job(b, block.name, how, changed)
            return
        yield Job(b, block.name, how, changed, lambda plan: self._others(plan, b, block.name, how))
        left = f"Leaving {name} out"
        without = _with_query(workload, b, None)
        yield Job(b, block.name, left, without, lambda plan: self._others(plan, b, block.name, left))

    def _jobs_of_rows(self, b: int) -> Iterator[Job]:
        """The rows of a matrix that press hardest, one by one: all of them together are the whole request."""
        block = self.plan.workload.blocks[b]
        assert self.pressure is not None
        targets = np.broadcast_to(block.targets, (block.n_rows,))
        for j, _ in self.pressure.batches[b].rows:
            wider = np.array(targets)
            wider[j] *= self.relax
            label = block.labels[j]
            how = f"Relaxing {short(label)!r} from std. error {targets[j]:,.6g} to {wider[j]:,.6g}"
            changed = Workload((replace(block, targets=wider),), None)
            yield self._job(b, label, how, changed)

    def _job(self, b: int, subject: str, how: str, workload: Workload) -> Job:
        def read(plan: Plan) -> Change:
            (unit, after), before = _cost(plan, self.delta), _cost(self.reference, self.delta)[1]
            proof = plan.certificate
            return Change(subject, how, unit, before, after, proof.gap, proof.status)

        return Job(b, subject, how, workload, read)

    def _others(self, plan: Plan, b: int, subject: str, how: str) -> Change:
        """What the other batches have, in the weights that they had."""
        own, proof = self.reference, plan.certificate
        weights = own.objective.batch_weights(own.workload)
        others = [0 * w if i == b else w for i, w in enumerate(weights)]
        before = _total(own, others)
        is_left_out = len(plan.workload.blocks) < len(weights)
        kept = [w for i, w in enumerate(others) if not (is_left_out and i == b)]
        after = _total(plan, kept)
        rms = None if is_left_out else (_rms(own, b), _rms(plan, b))
        unit = f"the {own.certificate.unit} of the others"
        return Change(subject, how, unit, before, after, proof.gap, proof.status, rms)

    def table(
        self, jobs: Sequence[Job], results: Sequence[Change | str], method: str, again: Plan | None
    ) -> Drivers:
        """Everything that is known once the requests were designed; a text says why one was not."""
        unit, cost = _cost(self.plan, self.delta)
        proof = self.plan.certificate
        pairs = list(zip(jobs, results, strict=True))
        return Drivers(
            drivers=tuple(self._driver(b, [(j, r) for j, r in pairs if j.batch == b]) for b in self.order),
            unit=unit,
            cost=cost,
            again=None if again is None else _cost(self.reference, self.delta)[1],
            gap=proof.gap,
            status=proof.status,
            relax=self.relax,
            share_of=_share_of(self.plan.objective),
            by=self._kind_of_cap,
            proved_in=proof.unit,
            method=method,
            unknown=self._why_unknown() if None in self.shares else "",
        )

    def _why_unknown(self) -> str:
        """Why shares are not known, and what to do about it."""
        proof = self.plan.certificate
        proved = f"proved to {proof.gap:.1%}" if proof.gap < 1 else "far from proved"
        says = (
            f"Shares of the cost are not known: they are read off the proof that a plan is the optimum, and "
            f"this one is {proved}, where {_PROVED:.0%} is needed; "
        )
        if self.plan.ended in ("deadline", "interrupted"):
            return says + "give the design more time, or judge by what relaxing buys."
        if self.plan.ended == "converged":
            return says + f"method {self.plan.method} proves no more, so judge by what relaxing buys."
        return says + f"its search {ending_to_text(self.plan.ended)}. Judge by what relaxing buys."

    def _driver(self, b: int, results: Sequence[tuple[Job, Change | str]]) -> Driver:
        block, used = self.plan.workload.blocks[b], self.used[b]
        failed = [result for _, result in results if isinstance(result, str)]
        assert self.plan.spreads is not None
        return Driver(
            name=block.name,
            n_queries=block.n_rows,
            weight=float(block.weights[0]) if (block.weights == block.weights[0]).all() else None,
            target=target_to_text(block),
            stderr=self.plan.spreads[b].high,
            used=used,
            share=self.shares[b],
            most_bought=self.most_bought[b],
            tightens_to=_narrowest(block, used),
            changes=tuple(result for _, result in results if isinstance(result, Change)),
            queries=self._queries(b),
            reason=self._why_not(b),
            failures=tuple(failed),
        )

    def _queries(self, b: int) -> tuple[TightQuery, ...]:
        if self.pressure is None or self.shares[b] is None:
            return ()
        block, whole = self.plan.workload.blocks[b], self.pressure.whole
        hardest = self.pressure.batches[b].rows
        if not hardest or self.pressure.batches[b].total <= NEGLIGIBLE * whole:
            return ()
        errors = np.sqrt(batch_variances(self.plan, block.name))
        targets = np.broadcast_to(block.targets, (block.n_rows,))
        return tuple(
            TightQuery(
                block.labels[j],
                own / whole,
                float(errors[j]),
                float(targets[j]) if self._kind_of_cap == "target" else None,
            )
            for j, own in hardest
            if own >= _LISTED * whole
        )


def known_of(plan: Plan, relax: float, delta: float) -> Known:
    """What the plan and its certificate say of every batch."""
    n_batches = len(plan.workload.blocks)
    nothing: tuple[None, ...] = (None,) * n_batches
    if plan.objective.kind in ("total", "absolute"):
        return Known(plan, plan, relax, delta, None, _total_shares(plan), _used(plan), nothing)
    pressure = pressure_of(plan)
    if pressure is None and plan.certificate.gap <= _PROVED:
        # A proof without any weight on a target: none of them presses.
        shares: tuple[float | None, ...] = (0.0,) * n_batches
        return Known(plan, plan, relax, delta, None, shares, _used(plan), (plan.certificate.gap,) * n_batches)
    if pressure is None:
        return Known(plan, plan, relax, delta, None, nothing, _used(plan), nothing)
    achieved = plan.certificate.achieved
    bought = tuple(
        1 - bound_if_relaxed(plan, pressure, b, relax) / achieved if achieved > 0 else 0.0
        for b in range(n_batches)
    )
    is_known = plan.certificate.gap <= _PROVED
    return Known(
        plan, plan, relax, delta, pressure, pressure.shares if is_known else nothing, _used(plan), bought
    )


def _share_of(objective: Objective) -> str:
    """What the column of shares is called."""
    names = {"total": "share of variance", "absolute": "share of absolute error"}
    return names.get(objective.kind, "share of the cost")


def _total(plan: Plan, weights: Sequence[Array]) -> float:
    """The total variance of a plan's answers, or their total absolute error, for weights of the batches."""
    strategy = plan.fixed_strategy()
    if plan.objective.kind == "absolute":
        return MEAN_ABSOLUTE * strategy.total_stderr(plan.workload, weights)
    return strategy.total_variance(plan.workload, weights)


def _total_shares(plan: Plan) -> tuple[float, ...]:
    """What each batch has in the total variance, or in the total absolute error."""
    assert plan.spreads is not None
    weights = plan.objective.batch_weights(plan.workload)
    if plan.objective.kind == "absolute":
        strategy = plan.fixed_strategy()
        own = [
            strategy.total_stderr(plan.workload.only(block.name), [w])
            for block, w in zip(plan.workload.blocks, weights, strict=True)
        ]
    else:
        own = [
            block.n_rows * float(w[0]) * spread.mean_square
            if len(w) == 1
            else math.fsum(w * batch_variances(plan, block.name))
            for block, spread, w in zip(plan.workload.blocks, plan.spreads, weights, strict=True)
        ]
    whole = math.fsum(own)
    return tuple(part / whole if whole > 0 else 0.0 for part in own)


def _used(plan: Plan) -> tuple[float | None, ...]:
    """max_j √(v_j/c_j) of every batch; with targets and a goal in units of the factor on all of them."""
    caps = plan.objective.batch_caps(plan.workload)
    if caps is None:
        return (None,) * len(plan.workload.blocks)
    shares = largest_shares(plan, caps)
    is_scaled = plan.objective.kind == "largest" and plan.has_goal
    whole = max((share for share in shares if share is not None), default=1.0) if is_scaled else 1.0
    return tuple(None if share is None else math.sqrt(share / (whole or 1.0)) for share in shares)


def _narrowest(block: QueryBlock, used: float | None) -> str:
    """The target as narrow as the plan keeps it already, rounded up; "" where it binds or there is none."""
    if used is None or used >= BINDS or block.query.target is None:
        return ""
    return block.query.relaxed(math.ceil(1000 * used) / 1000).target_to_text() if used > 0 else ""


def _rms(plan: Plan, b: int) -> float:
    assert plan.spreads is not None
    return math.sqrt(plan.spreads[b].mean_square)


def _cost(plan: Plan, delta: float) -> tuple[str, float]:
    """What a plan costs, and in which unit."""
    if not plan.has_goal:
        return f"epsilon (at delta = {delta:g})", plan.epsilon(delta=delta)
    if isinstance(plan.objective, Targets):
        return "the factor on all targets", math.sqrt(plan.certificate.achieved)
    return f"the {plan.certificate.unit}", plan.certificate.achieved


def _with_query(workload: Workload, b: int, query: Query | None) -> Workload:
    """The same workload with another query in the place of one, or without it; batches keep their names."""
    assert workload.schema is not None
    named = [block.query.having(name=block.name) for block in workload.blocks]
    named[b : b + 1] = [] if query is None else [query.having(name=workload.blocks[b].name)]
    return assemble(named, workload.schema)
