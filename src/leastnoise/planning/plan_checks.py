"""What holds of every plan, wherever it comes from: designed, loaded or put together by hand.

Its fields are looked at one by one, then together. The last check is whether the plan answers what its
labels say. A certificate speaks of numbers, not of labels: it does not change when answers are permuted. So
every plan measures a handful of invented records without noise, answers a sample of its queries from that,
and compares each answer with what its label says, record by record (`query.queries.meaning`). Most records
are drawn so that they count in some query of the sample: in a table of a million cells a record drawn blindly
would count in none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from leastnoise.bounds import PartsWitness, ProductWitness, Status, Witness
from leastnoise.core.errors import DesignError, PrivacyError
from leastnoise.core.printable import printable
from leastnoise.core.progress import ENDINGS
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method import OUTCOMES, Trial
from leastnoise.planning.method_list import method_named
from leastnoise.privacy import GAUSSIAN, CellCosts, Goal
from leastnoise.query import CELL, Cell, InventedRecords, Objective, RowMeaning, Targets, Workload, check_time
from leastnoise.strategy import Measured, is_within, spare_of

if TYPE_CHECKING:
    from leastnoise.planning.plan import Plan


_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_plan(plan: Plan) -> None:
    """Return if a plan keeps its goal and claims no more than it may.

    Guarantee:
        No record spends more than the goal allows, in every cell together with the earlier plans; the
        sensitivity is that of the integers that are measured, compared in rationals.

    Raises:
        DesignError: if its parts do not fit one another.
        PrivacyError: if it spends more than its goal, or more than the earlier plans leave.
    """
    check_fields(plan)
    if plan.strategy is None and plan.mechanism is not None:
        _check_after(plan)
        _check_mechanism(plan, plan.mechanism)
    elif plan.strategy is not None and plan.mechanism is None:
        _check_after(plan)
        _check_strategy(plan, plan.strategy)
    else:
        raise DesignError(
            "a plan holds either a strategy or a mechanism that depends on the data", field="strategy"
        )


def _check_mechanism(plan: Plan, mechanism: Mechanism) -> None:
    if mechanism.goal != plan.privacy or mechanism.spent > plan.privacy.budget:
        raise PrivacyError(
            "the mechanism spends more than the privacy goal allows", field="privacy", given=str(plan.privacy)
        )
    if plan.claim != "data-dependent" or not plan.has_goal:
        raise DesignError(
            "a plan that depends on the data can claim nothing about accuracy",
            field="claim",
            given=plan.claim,
        )


def _check_strategy(plan: Plan, strategy: Measured) -> None:
    if plan.claim == "data-dependent":
        raise DesignError("a plan with a strategy does not depend on the data", field="strategy")
    if plan.claim == "optimal":
        raise DesignError(
            'claim "stopped" or "heuristic"; whether a plan is optimal is for its certificate to say',
            field="claim",
            given=plan.claim,
        )
    if strategy.n_cells != plan.workload.shape[1]:
        raise DesignError(
            f"the strategy measures {strategy.n_cells:,} cells; this workload has {plan.workload.shape[1]:,}",
            field="strategy",
            given=strategy.n_cells,
        )
    if strategy.neighbours != plan.privacy.neighbours:
        raise PrivacyError(
            f"the noise was scaled for {strategy.neighbours} neighbours, the goal is for "
            f"{plan.privacy.neighbours}",
            field="neighbours",
            given=str(plan.privacy.neighbours),
            remedy="call design() with this goal",
        )
    if strategy.noise != plan.privacy.noise:
        raise PrivacyError(
            f"{strategy.noise} noise cannot meet the goal {plan.privacy}",
            field="privacy",
            given=str(plan.privacy),
        )
    spare = None if plan.used is None else spare_of(plan.privacy, plan.used)
    if not is_within(strategy, plan.privacy, spare):
        together = "" if spare is None else " together with the earlier plans"
        raise PrivacyError(
            f"the strategy{together} spends more than the privacy goal allows",
            field="privacy",
            given=str(plan.privacy),
        )
    if not plan.has_goal and not isinstance(plan.objective, Targets):
        raise PrivacyError(
            f"a plan for {plan.objective!r} needs a privacy goal that was asked for",
            field="privacy",
            given=str(plan.privacy),
        )
    # What it cannot answer at all is for the certificate to say, which names the query.
    if strategy.can_answer_all(plan.workload):
        check_labels(plan.workload, strategy)
        if plan.over is not None and plan.horizon is None:
            _check_in_time(plan, strategy)


def _check_in_time(plan: Plan, strategy: Measured) -> None:
    """Return if every query can be answered from the rows that end by the period in which it is due."""
    over = plan.over
    assert over is not None
    check_time(plan.workload, over)
    is_added = plan.privacy.relation.adds_by_cell and not plan.after
    if plan.privacy.noise != GAUSSIAN or not is_added:
        raise DesignError(
            "a plan that is published period by period has Gaussian noise, is for records added or removed, "
            "and comes after no other",
            field="over",
        )
    if not strategy.answers_in_time(plan.workload, over):
        raise DesignError(
            "the rows of the plan are not in the order of time: some query would need one that is measured "
            "after it is due",
            field="over",
        )


def _check_after(plan: Plan) -> None:
    """Return if what a plan says of earlier ones is whole, and they can be added up with it."""
    if (plan.used is None) != (not plan.after):
        raise PrivacyError(
            "a plan after others needs both their digests and what they have used", field="after"
        )
    if plan.used is None:
        return
    if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in plan.after):
        raise PrivacyError(
            "earlier plans are named by their digests, 64 hexadecimal digits each", field="after"
        )
    is_summed = plan.privacy.noise == GAUSSIAN and plan.privacy.relation.adds_by_cell
    if not (is_summed and plan.has_goal) or plan.mechanism is not None:
        raise PrivacyError(
            "plans add up cell by cell for Gaussian noise within a goal, and where records are added or "
            "removed; ",
            Remedy("design this plan without ", Argument("after")),
            field="after",
        )
    if len(plan.used) != plan.workload.shape[1]:
        raise PrivacyError(
            f"the earlier plans are about {len(plan.used):,} cells, this one about "
            f"{plan.workload.shape[1]:,}; plans are designed after others about the same cells only",
            field="after",
            given=len(plan.used),
        )


_CLAIMS: tuple[Status, ...] = get_args(Status)

# The fields that hold values of this library, and what they may be.
_KINDS: dict[str, tuple[type, ...]] = {
    "workload": (Workload,),
    "privacy": (Goal,),
    "objective": (Objective,),
    "strategy": (Measured, type(None)),
    "witness": (Witness, ProductWitness, PartsWitness),
    "mechanism": (Mechanism, type(None)),
    "used": (CellCosts, type(None)),
    "has_goal": (bool,),
    "note": (str,),
    "method": (str,),
}


def check_fields(plan: Plan) -> None:
    """Return if every field of a plan is of its kind, its method known, and its claim one there is.

    Raises:
        DesignError: naming the field and what it must be.
        MethodError: for a method that there is not.
    """
    for name, kinds in _KINDS.items():
        if not isinstance(getattr(plan, name), kinds):
            wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise _wrong(plan, name, wanted)
    method_named(plan.method)
    if not isinstance(plan.claim, str) or plan.claim not in _CLAIMS:
        raise _wrong(plan, "claim", f"one of {', '.join(_CLAIMS)}")
    if plan.ended is not None and (not isinstance(plan.ended, str) or plan.ended not in ENDINGS):
        raise _wrong(plan, "ended", f"one of {', '.join(ENDINGS)}, or None where it was not recorded")
    if isinstance(plan.tol, bool) or not isinstance(plan.tol, (int, float)) or not 0 < plan.tol < math.inf:
        raise _wrong(plan, "tol", "a positive, finite number")
    if not isinstance(plan.options, Mapping) or not all(isinstance(name, str) for name in plan.options):
        raise _wrong(plan, "options", "a mapping from names to values")
    if not isinstance(plan.after, tuple) or not all(isinstance(digest, str) for digest in plan.after):
        raise _wrong(plan, "after", "a tuple of digests, 64 hexadecimal digits each")
    if plan.over is not None and not isinstance(plan.over, str):
        raise _wrong(plan, "over", "the name of an attribute, or None")
    if not isinstance(plan.tried, tuple) or not all(map(_is_trial, plan.tried)):
        raise _wrong(plan, "tried", f"a tuple of Trial, the outcome of each one of {', '.join(OUTCOMES)}")


def _is_trial(value: Any) -> bool:
    """Whether a value is a trial whose fields are of their kinds."""
    if not isinstance(value, Trial) or not all(isinstance(word, str) for word in (value.name, value.reason)):
        return False
    achieved = value.achieved
    is_number = achieved is None or (isinstance(achieved, float) and 0 <= achieved < math.inf)
    return is_number and isinstance(value.outcome, str) and value.outcome in OUTCOMES


def _wrong(plan: Plan, name: str, wanted: str) -> DesignError:
    given: Any = getattr(plan, name)
    shown = repr(given) if isinstance(given, (str, int, float, type(None))) else type(given).__name__
    return DesignError(
        f"the {name} of a plan must be {wanted}, got {shown}; design() makes plans that fit",
        field=name,
        given=shown,
    )


# Queries that are looked at in each batch.
QUERIES_PER_BATCH = 6

# Queries that are looked at in all.
MAX_QUERIES = 48

# Records that are invented besides one for every query of the sample.
MORE_RECORDS = 8

# How often a record may be repeated. Different numbers of repetitions tell records apart.
MAX_REPETITIONS = 1_000

# What floating-point reconstruction may lose, beside the size of the coefficients times the counts.
ROUNDING = 1e-6


def check_labels(workload: Workload, strategy: Measured) -> None:
    """Return if a sample of queries is answered as their labels say.

    Raises:
        DesignError: naming a query that is not.
    """
    # Drawn in the same way each time, so that a refusal can be looked into.
    rng = np.random.default_rng([number % 2**63 for number in workload.shape])
    sample = _sample(workload, rng)
    records = _invented(workload, [row for _, row in sample], rng)
    answers = strategy.noiseless_answers(workload, records, [j for j, _ in sample])
    for (j, row), answer in zip(sample, answers.tolist(), strict=True):
        label = workload.labels[j]
        if label != row.label:
            raise _refusal(f"row {j:,} is called {label!r} and asks for {row.label!r}")
        truth, size = records.truth(row)
        if not abs(answer - truth) <= ROUNDING * max(size, 1.0):
            raise _refusal(
                f"{label!r} counts {truth:.6g} of some invented records, and {answer:.6g} came out"
            )


def _refusal(what: str) -> DesignError:
    return DesignError(
        f"the plan would publish wrong answers: {printable(what)}. This is a fault of leastnoise, not of the "
        'request; nothing was spent. Try another method, such as method="dense", and report it.',
        field="strategy",
    )


def _sample(workload: Workload, rng: np.random.Generator) -> list[tuple[int, RowMeaning]]:
    """Some queries by number, and what each says: of every batch, unless there are too many batches."""
    blocks = list(enumerate(workload.blocks))
    if len(blocks) > MAX_QUERIES:
        blocks = [blocks[i] for i in sorted(rng.permutation(len(blocks))[:MAX_QUERIES].tolist())]
    each = min(QUERIES_PER_BATCH, MAX_QUERIES // len(blocks))
    first = [0]
    for block in workload.blocks:
        first.append(first[-1] + block.n_rows)
    found = []
    for number, block in blocks:
        meaning = block.meaning(workload.schema)
        starts = meaning.starts
        if starts[-1] != block.n_rows:
            raise _refusal(f"{block.name!r} has {block.n_rows:,} rows and asks for {starts[-1]:,}")
        for i in _some_rows(starts, each, rng):
            found.append((first[number] + i, meaning.row(i, starts)))
    return found


def _some_rows(starts: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """Rows of a query: all if there are few; else a table at random, then a row of it."""
    if starts[-1] <= count:
        return list(range(starts[-1]))
    chosen = set()
    for table in rng.integers(len(starts) - 1, size=count).tolist():
        n_rows = starts[table + 1] - starts[table]
        # By a share: a table may have more rows than a 64-bit integer holds.
        chosen.add(starts[table] + int(rng.random() * n_rows))
    return sorted(chosen)


def _invented(workload: Workload, rows: Sequence[RowMeaning], rng: np.random.Generator) -> InventedRecords:
    schema = workload.schema
    if schema is None:
        sizes = {CELL: workload.shape[1]}
    else:
        sizes = dict(zip(schema.names, schema.shape, strict=True))
    cells: list[Cell] = []
    for row in [*rows, *([None] * MORE_RECORDS)]:
        shares = rng.random(len(sizes)).tolist()
        anywhere = {name: int(share * n) for share, (name, n) in zip(shares, sizes.items(), strict=True)}
        cells.append(anywhere if row is None else anywhere | dict(row.example(rng)))
    times = rng.integers(1, MAX_REPETITIONS, size=len(cells)).tolist()
    return InventedRecords(sizes, tuple(cells), tuple(times))
