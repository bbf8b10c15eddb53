"""Queries in groups: each group at its optimum over its own classes of cells, and the budget divided.

Sixty conditions over nine attributes fall into some 10⁸ classes of cells, and every twenty of them into a few
thousand. Groups are put together two by two while their classes stay few; whatever is no condition is a group
of its own, served by the methods for tables. With T_g the total variance of a group that has the whole
budget, shares x_g ∝ √T_g have the least total, (Σ_g √T_g)², and shares x_g ∝ L_g the least largest variance.

The bound is one over a few thousand listed cells for all conditions together, and that of each other group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from leastnoise.bounds import AnyWitness, PartsWitness, ProductWitness, ProvedPart, Witness, largest_share
from leastnoise.core.deadline import LEAST_TIME, Deadline
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.fixed_rows import IDENTITY, WORKLOAD
from leastnoise.planning.families.plain import PLAIN, at_least
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Cases, Query, TotalVariance, Where, Workload, classes_of, over_values, part_of
from leastnoise.strategy import Measured, OverClasses, SideProposal

# Conditions that are put in a group before any classes are counted.
_FIRST = 6

# Classes of cells of a group, at most, and states that are looked at to count them.
_MAX_CLASSES = 4_000
_MAX_STATES = 2.0**25

# The same where there are two seconds or less for everything.
_QUICK_CLASSES = 600

# Cells, at most, over which the bound for all conditions is worked out.
_MAX_LISTED = 3_000

# Random cells among them, for each condition.
_DRAWN = 24

# Of the time left, the share for putting groups together, and then for designing them.
_GROUPING = 0.2
_DESIGNING = 0.6

# The least share of the budget beside the largest.
_LEAST_SHARE = 1e-6


def _refuses(request: Request) -> str | None:
    workload, objective = request.workload, request.objective
    if workload.schema is None or request.classes is not None:
        return "it is for conditions over attributes"
    if isinstance(objective, TotalVariance) and objective.relative_to is not None:
        return "weights relative to a prior are about all cells"
    if not _conditions(workload):
        return "it is for conditions over attributes, and there are none"
    return None


def _conditions(workload: Workload) -> list[str]:
    """The batches that are conditions."""
    return [block.name for block in workload.blocks if isinstance(block.query, Where | Cases)]


@dataclass(frozen=True, eq=False)
class _Designed:
    """What is measured for some batches with the whole goal, and what it comes to.

    Attributes:
        cost: the total variance, or the sum of absolute errors.
        largest: the largest variance over its cap; 0 without caps.
        proof: of the batches alone; None for conditions, which are proved together.
    """

    names: tuple[str, ...]
    measured: Measured
    cost: float
    largest: float
    ended: Ended
    proof: ProvedPart | None = None


def _find(request: Request) -> SearchResult:
    deadline = Deadline.after(request.time_limit)
    workload = request.workload
    conditions = _conditions(workload)
    others = [name for name in workload.names if name not in set(conditions)]
    groups = _grouped(workload, conditions, request, deadline)
    designing = deadline.part(_DESIGNING)
    designed = [
        _over_classes(request, names, _share_of(designing, len(groups) - place))
        for place, names in enumerate(groups)
    ]
    if others:
        designed.append(_of_tables(request, others, deadline))
    shares = _shares(request, designed)
    proposal = SideProposal(tuple((one.measured, one.names) for one in designed), shares)
    proofs = [one.proof for one in designed if one.proof is not None]
    listed, how = _over_listed_cells(request, groups, deadline)
    witness = PartsWitness((*proofs, *([] if listed is None else [listed])))
    note = f"{len(designed)} groups of queries, each by itself, the budget divided; {how}"
    ended = worst_ending([one.ended for one in designed])
    return SearchResult(proposal, witness, "stopped", note, "exhausted" if ended == "converged" else ended)


def _share_of(deadline: Deadline, n_left: int) -> float | None:
    """The seconds that one of some groups may take."""
    left = deadline.left
    return None if left is None else max(left / max(n_left, 1), LEAST_TIME)


# Groups ---------------------------------------------------------------------------------------------------


def _grouped(
    workload: Workload, conditions: Sequence[str], request: Request, deadline: Deadline
) -> list[tuple[str, ...]]:
    """The conditions in groups of few classes: those of like attributes first, then two by two."""
    attributes = {block.name: _attributes(block.query) for block in workload.blocks}
    until = deadline.part(_GROUPING)
    is_quick = deadline.left is not None and deadline.left <= 2.0
    most = _QUICK_CLASSES if is_quick else _MAX_CLASSES
    ordered = sorted(conditions, key=lambda name: (sorted(attributes[name]), name))
    groups = [tuple(ordered[start : start + _FIRST]) for start in range(0, len(ordered), _FIRST)]
    groups = [part for group in groups for part in _split(workload, group, most)]
    tried: set[frozenset[str]] = set()
    while not until.is_past:
        best = None
        for one, other in combinations(groups, 2):
            together = (*one, *other)
            if frozenset(together) in tried:
                continue
            mine, theirs = (frozenset().union(*map(attributes.__getitem__, own)) for own in (one, other))
            rank = (len(mine | theirs), len(together), one, other)
            if best is None or rank < best[0]:
                best = rank, one, other
        if best is None:
            break
        _, one, other = best
        tried.add(frozenset((*one, *other)))
        if _n_classes(workload, (*one, *other), most) is not None:
            groups = [group for group in groups if group not in (one, other)] + [(*one, *other)]
    return groups


def _attributes(query: Query) -> frozenset[str]:
    """The attributes that a condition, or one of several cases, mentions."""
    if isinstance(query, Where):
        return frozenset(query.parsed.attributes)
    return (
        frozenset(name for one in query.parsed for name in one.attributes)
        if isinstance(query, Cases)
        else frozenset()
    )


def _n_classes(workload: Workload, names: Sequence[str], most: int) -> int | None:
    """How many classes some batches have; None where they are more than this."""
    found = classes_of(part_of(workload, names), most_states=min(_MAX_STATES, 2.0**14 * most))
    return None if found is None or found.n > most else found.n


def _split(workload: Workload, names: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    """A group in halves until each has few classes."""
    if len(names) == 1 or _n_classes(workload, names, most) is not None:
        return [names]
    middle = len(names) // 2
    return [part for half in (names[:middle], names[middle:]) for part in _split(workload, half, most)]


# What each measures ---------------------------------------------------------------------------------------


def _over_classes(request: Request, names: tuple[str, ...], seconds: float | None) -> _Designed:
    """What is measured of the classes of some conditions."""
    asked = part_of(request.workload, names)
    classes = classes_of(asked)
    over = None if classes is None else classes.reduced(asked)
    if classes is None or over is None:
        raise DesignError(
            "a condition has too many classes of cells, or counts no cell",
            field="workload",
            given=names[0],
            remedy="leave it out, or declare its attributes coarser",
        )
    reduced = replace(
        request,
        workload=over,
        time_limit=seconds,
        patience=None,
        progress=None,
        options={},
        is_promised=False,
    )
    failed: DesignError | None = None
    # Without a search, noise on the queries; weights and targets may be missing in a part of the whole.
    total = replace(reduced, objective=TotalVariance())
    for method, own in ((DENSE, reduced), (PLAIN, total), (WORKLOAD, total), (IDENTITY, total)):
        if own.unfit(method) is not None:
            continue
        try:
            found = method.find(own)
            assert isinstance(found, SearchResult)
            inner = found.proposal.measured_within(request.privacy, tol=request.tol)
        except DesignError as error:
            failed = failed or error
            continue
        return _Designed(names, OverClasses(inner, classes), *_worth(request, over, inner), found.ended)
    raise failed or DesignError("no method serves a group of conditions", field="workload", given=names)


def _of_tables(request: Request, names: Sequence[str], deadline: Deadline) -> _Designed:
    """What is measured for the queries that are no conditions, by the methods for tables."""
    # A part of the queries is a request of its own, for all the methods that there are.
    from leastnoise.planning.choice import best_plan

    asked = part_of(request.workload, names)
    plan = best_plan(replace(request, workload=asked, time_limit=deadline.left, options={}, progress=None))
    measured, worth = plan.fixed_strategy(), _worth(request, asked, plan.fixed_strategy())
    proof = _proof_of(asked, plan.witness)
    return _Designed(tuple(names), measured, *worth, plan.ended or "converged", proof)


def _proof_of(asked: Workload, witness: AnyWitness) -> ProvedPart | None:
    """The proof of a plan for some batches, over cells that are listed unless it has product form."""
    names, n = tuple(asked.names), asked.shape[1]
    if isinstance(witness, ProductWitness):
        return ProvedPart(names, witness, None)
    if not isinstance(witness, Witness) or witness.pairs is not None or len(witness.q) != n:
        return None
    assert asked.schema is not None
    used = np.flatnonzero(witness.q)
    values = np.stack(np.unravel_index(used, asked.schema.shape))
    return ProvedPart(names, Witness(witness.p, witness.q[used]), values)


def _worth(request: Request, asked: Workload, measured: Measured) -> tuple[float, float]:
    """The sum that is to be least, and the largest variance over its cap."""
    objective = request.objective
    caps = objective.batch_caps(asked)
    largest = 0.0 if caps is None else largest_share(asked, measured, caps)
    if objective.kind == "absolute":
        return measured.total_stderr(asked, objective.batch_weights(asked)), largest
    return measured.total_variance(asked, objective.batch_weights(asked)), largest


def _shares(request: Request, designed: Sequence[_Designed]) -> Array:
    """The shares of the budget, of sum 1, that are best for the objective."""
    cost, largest = (np.array([getattr(one, what) for one in designed]) for what in ("cost", "largest"))
    kind, is_gaussian = request.objective.kind, request.privacy.noise == GAUSSIAN
    if kind == "largest":
        # Variances fall as 1/x; under Laplace noise as 1/x².
        shares = largest if is_gaussian else np.sqrt(largest)
    elif kind == "absolute":
        shares = cost ** (2 / 3)
    elif not is_gaussian:
        shares = np.cbrt(cost)
    elif kind == "total-within-caps" and largest.sum() < 1:
        return at_least(largest, np.maximum(cost, _LEAST_SHARE * cost.max(initial=1e-300)))
    else:
        shares = np.sqrt(cost) if kind == "total" else largest
    return np.asarray(np.maximum(shares, _LEAST_SHARE * shares.max(initial=1e-300)))


# The bound ------------------------------------------------------------------------------------------------


def _over_listed_cells(
    request: Request, groups: Sequence[tuple[str, ...]], deadline: Deadline
) -> tuple[ProvedPart | None, str]:
    """Weights of some cells that prove a bound for all conditions together."""
    names = tuple(name for group in groups for name in group)
    asked = part_of(request.workload, names)
    values = _listed_cells(asked, groups)
    over = over_values(asked, values)
    table = np.stack([values[name] for name in asked.schema.names]) if asked.schema is not None else None
    listed = replace(
        request,
        workload=over,
        time_limit=None if deadline.left is None else max(deadline.left, LEAST_TIME),
        patience=None,
        progress=None,
        options={},
        tol=max(request.tol, 1e-3),
        is_promised=False,
    )
    if listed.unfit(DENSE) is None:
        try:
            found = DENSE.find(listed)
        except DesignError:
            found = None
        if isinstance(found, SearchResult) and isinstance(found.q, np.ndarray) and found.pairs is None:
            p = None if found.p is None else np.asarray(found.p)
            part = ProvedPart(names, Witness(p, found.q), table)
            return part, f"proved over {over.shape[1]:,} listed cells"
    weights = (over.operator.column_norms(1) > 0).astype(float)
    part = ProvedPart(names, Witness(None, weights), table)
    return part, f"proved over {over.shape[1]:,} listed cells of equal weight"


def _listed_cells(workload: Workload, groups: Sequence[tuple[str, ...]]) -> dict[str, Array]:
    """Cells by the numbers of their values: one of each of some classes of every group, and random ones."""
    schema = workload.schema
    assert schema is not None
    generator = np.random.default_rng(0)
    m = workload.shape[0]
    count = min(_MAX_LISTED, max(_DRAWN * m, 200))
    values = {name: generator.integers(0, schema[name].size, size=count) for name in schema.names}
    columns = np.asarray(over_values(workload, values).operator.dense())
    _, first = np.unique(columns, axis=1, return_index=True)
    return {name: own[np.sort(first)] for name, own in values.items()}


GROUPS = Method(
    "groups",
    "conditions in groups, each at its optimum over its own classes of cells, the budget divided",
    _refuses,
    _find,
    is_only_named=True,
    takes_absolute=True,
)
