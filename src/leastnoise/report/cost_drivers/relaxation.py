"""What is known of a plan before anything is designed again, and which changes are worth designing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.bounds import MOST_OPTIMAL
from leastnoise.core.progress import ending_to_text
from leastnoise.planning import Plan
from leastnoise.query import Block, Query, Targets, Workload, assemble
from leastnoise.report.cost_drivers.driver_table import (
    BINDS,
    NEGLIGIBLE,
    Change,
    Driver,
    Drivers,
    TightQuery,
    short,
)
from leastnoise.report.cost_drivers.pressure import (
    Pressure,
    batch_variances,
    bound_if_relaxed,
    largest_shares,
    pressure_of,
)
from leastnoise.report.cost_drivers.redesign import Job

# Shares are read from weights that prove the optimum to this gap; others say little.
_PROVED = MOST_OPTIMAL

# A query with less of the whole cost than this is not named.
_LISTED = 0.01


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
        """The requests to design again, for so many batches at most."""
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
        return self.plan.objective.kind == "total"

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
            how = f"Relaxing {name} from {block.query.target_in_words()} to {wider.target_in_words()}"
            yield self._job(b, block.name, how, _with_query(workload, b, wider))
            return
        lighter = block.query.having(weight=block.query.weight / self.relax**2)
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
            how = f"Relaxing {short(label)!r} from ±{targets[j]:,.6g} to ±{wider[j]:,.6g}"
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
        before = own.fixed_strategy().total_variance(own.workload, others)
        is_left_out = len(plan.workload.blocks) < len(weights)
        kept = [w for i, w in enumerate(others) if not (is_left_out and i == b)]
        after = plan.fixed_strategy().total_variance(plan.workload, kept)
        rms = None if is_left_out else (_rms(own, b), _rms(plan, b))
        unit = "the total variance of the others"
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
            share_of="share of variance" if self._is_total else "share of the cost",
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
            return says + "give the design more time, or judge by what giving way buys."
        if self.plan.ended == "converged":
            return says + f"method {self.plan.method} proves no more, so judge by what giving way buys."
        return says + f"its search {ending_to_text(self.plan.ended)}. Judge by what giving way buys."

    def _driver(self, b: int, results: Sequence[tuple[Job, Change | str]]) -> Driver:
        block, used = self.plan.workload.blocks[b], self.used[b]
        failed = [result for _, result in results if isinstance(result, str)]
        reason = self._why_not(b) or ". ".join(failed)
        assert self.plan.spreads is not None
        return Driver(
            name=block.name,
            n_queries=block.n_rows,
            weight=float(block.weights[0]) if (block.weights == block.weights[0]).all() else None,
            target=target_in_words(block),
            stderr=self.plan.spreads[b].high,
            used=used,
            share=self.shares[b],
            most_bought=self.most_bought[b],
            tightens_to=_narrowest(block, used),
            changes=tuple(result for _, result in results if isinstance(result, Change)),
            queries=self._queries(b),
            reason=reason,
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
    if plan.objective.kind == "total":
        return Known(plan, plan, relax, delta, None, _variance_shares(plan), _used(plan), nothing)
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


def _variance_shares(plan: Plan) -> tuple[float, ...]:
    """What each batch has in the total variance."""
    assert plan.spreads is not None
    weights = plan.objective.batch_weights(plan.workload)
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


def _narrowest(block: Block, used: float | None) -> str:
    """The target as narrow as the plan keeps it already, rounded up; "" where it binds or there is none."""
    if used is None or used >= BINDS or block.query.target is None:
        return ""
    return block.query.relaxed(math.ceil(1000 * used) / 1000).target_in_words() if used > 0 else ""


def target_in_words(block: Block) -> str:
    """What was asked of a batch, as it was given: "±75 at 95%"; "" without a target."""
    if block.query.target is not None:
        return block.query.target_in_words()
    asked = block.targets[np.isfinite(block.targets)]
    if len(asked) == 0:
        return ""
    low, high = float(asked.min()), float(asked.max())
    return f"±{low:,.6g}" if low == high else f"±{low:,.6g} to ±{high:,.6g}"


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
