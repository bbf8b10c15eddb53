"""A plan: what will be measured, with how much noise, and how good that is.

A plan never sees data. Everything it says about accuracy and privacy is computed
from the integer strategy that `measure` will use. Where a method depends on the data
there is none: the plan holds the mechanism instead, and is silent about accuracy.

A plan designed after others keeps its goal together with them, in every cell and exactly:

    used_i + ‖a_i‖²/σ² ≤ μ²,   used_i = Σ_r u_i^(r) over the earlier plans, repeats included
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from leastnoise import container, exact
from leastnoise.accounting import CellCosts, Charge, shown
from leastnoise.bounds.product_bound import ProductWitness, product_witness_from_parts
from leastnoise.certificate import Certificate, Status, Witness, are_pairs, certify
from leastnoise.directed import float_above, float_below, root_above
from leastnoise.errors import (
    DesignError,
    LeastnoiseError,
    MethodError,
    NotYetError,
    PlanFileError,
    PrivacyError,
    QueryError,
)
from leastnoise.measured import Measured, Neighbours, Noise, Spread
from leastnoise.objective import Objective, Targets, TotalVariance, objective_from_dict
from leastnoise.operators import Array
from leastnoise.printable import counted, in_figures, printable
from leastnoise.privacy import ZCDP, Goal, delta_of, epsilon_of, exact_number, goal_from_dict
from leastnoise.queries import Linear, Query
from leastnoise.strategies import Mechanism, Method, Request, method_named
from leastnoise.strategy import Strategy, cell_costs, is_within, spare_of
from leastnoise.structured.parts import structured_from_parts
from leastnoise.workload import Workload, alone

FORMAT = 1

# Plans over more cells are charged by the cell that spends most.
MAX_LISTED_CELLS = 2**17

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Plan:
    """What to measure, chosen for a workload and a privacy goal.

    Where it was designed after other plans, the goal is for all of them and this one together: whoever
    lost less than most may lose as much as they did. `profile`, `mu`, `epsilon`, `delta`, `charge` and
    `spent_per_person` are about this plan alone; `spent_together` and `spare` about all of them.

    Attributes:
        method: the name of the family that was used.
        strategy: the integer rows that are measured, and the scale of their noise; None where
            what is measured depends on the data.
        witness: the dual weights behind the certificate's lower bound.
        note: how the strategy was found.
        has_goal: whether `privacy` was asked for; else it is the least that meets the targets.
        mechanism: what `measure` does where there is no strategy.
        after: digests of the plans that this one was designed after, in order.
        used: what they spend together in each cell; None without any. In a loaded plan it is what the
            file says: the ledger adds up for itself what was really released.
    """

    workload: Workload
    privacy: Goal
    objective: Objective
    method: str
    strategy: Measured | None
    witness: Witness | ProductWitness
    claim: Status
    tol: float
    note: str
    options: Mapping[str, Any] = field(default_factory=dict)
    has_goal: bool = True
    mechanism: Mechanism | None = None
    after: tuple[str, ...] = ()
    used: CellCosts | None = None

    def __post_init__(self) -> None:
        # Checked wherever a plan comes from: designed, loaded or put together by hand.
        if (self.strategy is None) == (self.mechanism is None):
            raise DesignError("a plan holds either a strategy or a mechanism that depends on the data")
        self._check_after()
        if self.mechanism is not None:
            if self.mechanism.goal != self.privacy or self.mechanism.spent > self.privacy.budget:
                raise PrivacyError("the mechanism spends more than the privacy goal allows")
            if self.claim != "data-dependent" or not self.has_goal:
                raise DesignError("a plan that depends on the data can claim nothing about accuracy")
            return
        assert self.strategy is not None
        if self.claim == "data-dependent":
            raise DesignError("a plan with a strategy does not depend on the data")
        if self.strategy.n_cells != self.workload.shape[1]:
            raise DesignError(
                f"the strategy measures {self.strategy.n_cells:,} cells, the workload has "
                f"{self.workload.shape[1]:,}"
            )
        if self.strategy.neighbours != self.privacy.neighbours:
            raise PrivacyError(
                f"the noise was scaled for {self.strategy.neighbours} neighbours, the goal is for "
                f"{self.privacy.neighbours}; call design() with this goal"
            )
        if self.strategy.noise != self.privacy.noise:
            raise PrivacyError(f"{self.strategy.noise} noise cannot serve the goal {self.privacy}")
        spare = None if self.used is None else spare_of(self.privacy, self.used)
        if not is_within(self.strategy, self.privacy, spare):
            together = "" if spare is None else " together with the earlier plans"
            raise PrivacyError(f"the strategy{together} spends more than the privacy goal allows")
        if not self.has_goal and not isinstance(self.objective, Targets):
            raise PrivacyError(f"a plan for {self.objective!r} needs a privacy goal that was asked for")

    def _check_after(self) -> None:
        if (self.used is None) != (not self.after):
            raise PrivacyError("a plan after others needs both their digests and what they have used")
        if self.used is None:
            return
        if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in self.after):
            raise PrivacyError("earlier plans are named by their digests, 64 hexadecimal digits each")
        is_summed = self.privacy.noise == "gaussian" and self.privacy.neighbours == "add-remove"
        if not (is_summed and self.has_goal) or self.mechanism is not None:
            raise PrivacyError(
                "plans add up cell by cell for Gaussian noise within a goal, and where records are added or "
                "removed; design this plan without after="
            )
        if len(self.used) != self.workload.shape[1]:
            raise PrivacyError(
                f"the earlier plans are about {len(self.used):,} cells, this one about "
                f"{self.workload.shape[1]:,}; plans are designed after others about the same cells only"
            )

    @cached_property
    def certificate(self) -> Certificate:
        """Both sides of the plan's optimality, recomputed from workload, strategy and witness."""
        return certify(self.workload, self)

    @cached_property
    def stderr(self) -> Array | None:
        """The standard error of every answer, (m,); None where it depends on the data."""
        if self.strategy is None:
            return None
        errors = np.sqrt(self.strategy.variances_of(self.workload))
        errors.setflags(write=False)
        return errors

    @cached_property
    def spreads(self) -> list[Spread] | None:
        """Standard errors of every batch of queries; None where they depend on the data."""
        return None if self.strategy is None else self.strategy.spreads(self.workload)

    def fixed_strategy(self) -> Measured:
        """The strategy, for what cannot be told without one.

        Raises:
            MethodError: where what is measured depends on the data.
        """
        if self.strategy is None:
            raise MethodError(
                f"method {self.method!r} depends on the data, so that its standard errors are not known, nor "
                'what follows from them, such as intervals; design the plan with method="auto" to have them'
            )
        return self.strategy

    def known_stderr(self) -> Array:
        """`stderr`, for what cannot be told without it.

        Raises:
            MethodError: where it depends on the data.
        """
        self.fixed_strategy()
        assert self.stderr is not None
        return self.stderr

    @property
    def spent_per_cell(self) -> list[Fraction]:
        """What a record of each cell spends, exactly: μ² (Gaussian) or ε (Laplace).

        Raises:
            TooLargeError: where there are more cells than can be listed.
        """
        if self.strategy is not None:
            return self.strategy.spent_per_cell
        assert self.mechanism is not None
        return [self.mechanism.spent] * self.workload.shape[1]

    @property
    def profile(self) -> Array:
        """What a record of each cell spends, (n,): μ² for Gaussian noise, ε for Laplace, rounded up.

        Where neighbours replace a record, the most that replacing one of this cell spends.
        """
        return np.array([float_above(spent) for spent in self.spent_per_cell])

    @property
    def spare(self) -> Array:
        """What a record of each cell could still spend within the goal, (n,), rounded down.

        Where there are earlier plans: after them and this one, within the goal for all together.
        """
        left = self.privacy.budget
        spent = self.spent_per_cell if self.used is None else self._costs_together()
        return np.array([float_below(left - cost) for cost in spent])

    def _costs_together(self) -> CellCosts:
        """What a record of each cell spends over this plan and the earlier ones."""
        own = cell_costs(self.fixed_strategy())
        return own if self.used is None else summed_costs([self.used, own])

    @cached_property
    def spent_together(self) -> Fraction:
        """μ² or ε that one person spends over this plan and those it was designed after, exactly.

        The largest sum over any cell, not the sum of the largest.
        """
        if self.used is None:
            return self.spent_per_person
        return self._costs_together().largest * self.privacy.records_per_person**2

    @cached_property
    def factor(self) -> float | None:
        """The largest standard error as a multiple of its target, rounded up; None without targets.

        At most 1 for plans that had to meet them: for targets without a privacy goal, and for the
        total variance within targets. None also where standard errors depend on the data.
        """
        if not self.workload.has_targets or self.spreads is None:
            return None
        factor = 0.0
        for block, spread in zip(self.workload.blocks, self.spreads, strict=True):
            if len(block.targets) == 1:
                largest, targets = np.array([spread.high]), block.targets
            else:
                largest, targets = self.known_stderr()[self.workload.rows_of(block.name)], block.targets
            ratios = largest / targets
            factor = max(factor, float(ratios.max()))
            # A quotient that rounds to less than the largest is less.
            for j in np.flatnonzero((ratios >= factor) & np.isfinite(targets)):
                while Fraction(factor) * Fraction(float(targets[j])) < Fraction(float(largest[j])):
                    factor = math.nextafter(factor, math.inf)
        return factor

    @cached_property
    def spent_per_person(self) -> Fraction:
        """μ² (Gaussian) or ε (Laplace) that one person spends on this plan, exactly."""
        k = self.privacy.records_per_person
        if self.strategy is None:
            assert self.mechanism is not None
            return self.mechanism.spent * k
        return self.strategy.spent * (k * k if self.strategy.noise == "gaussian" else k)

    @property
    def mu(self) -> float | None:
        """The μ of Gaussian differential privacy of this plan alone, rounded up; None for pure privacy."""
        if self.privacy.noise == "laplace":
            return None
        return root_above(self.spent_per_person)

    def epsilon(self, *, delta: float | None = None) -> float:
        """The ε that this plan alone spends at some δ, rounded up. Pure privacy needs no δ."""
        if self.privacy.noise == "laplace":
            return float_above(self.spent_per_person)
        if delta is None:
            raise PrivacyError("Gaussian noise has an epsilon for every delta; ask plan.epsilon(delta=1e-6)")
        return epsilon_of(self.spent_per_person, delta)

    def delta(self, *, epsilon: float) -> float:
        """The δ that this plan alone spends at some ε, rounded up."""
        if self.privacy.noise == "laplace":
            if exact_number("epsilon", epsilon) >= self.spent_per_person:
                return 0.0
            raise NotYetError("for Laplace noise, delta is only given at the plan's own epsilon or above")
        return delta_of(self.spent_per_person, epsilon)

    def asked(self, query: Query) -> Workload:
        """A further query as a workload of its own, checked to be answerable from this plan.

        Where what is measured depends on the data, every query is: all cells are estimated.

        Raises:
            QueryError: naming the query and what to do.
        """
        if not isinstance(query, Query):
            raise QueryError(f"a query such as Total() is needed, got {type(query).__name__}")
        schema = self.workload.schema
        is_matrix = isinstance(query, Linear) and query.matrix.shape[1] == self.workload.shape[1]
        if schema is None and not is_matrix:
            raise QueryError(
                f"this plan was made from a matrix without a schema and answers Linear rows over its "
                f"{self.workload.shape[1]:,} cells only; give a schema to Workload.from_matrix() to ask more"
            )
        workload = alone(query, schema)
        j = None if self.strategy is None else self.strategy.first_unanswerable(workload)
        if j is not None:
            raise QueryError(
                f'query {j} ("{printable(workload.labels[j])}") cannot be answered by this plan; add it to '
                "the workload and call design() again (measuring the new plan spends privacy again)"
            )
        return workload

    def variance(self, query: Query) -> Array:
        """The variance of the answers to any query in the plan's row space.

        Raises:
            QueryError: if the plan does not measure enough to answer it.
            MethodError: where it depends on the data.
        """
        return self.fixed_strategy().variances_of(self.asked(query))

    def covariance(self, query: Query, other: Query | None = None) -> Array:
        """The covariances of the answers to a query with those to another, or to itself: a dense array.

        Raises:
            QueryError: if the plan does not measure enough to answer them.
            TooLargeError: if there are too many answers.
            MethodError: where it depends on the data.
        """
        strategy, left = self.fixed_strategy(), self.asked(query)
        return strategy.covariances_of(left, left if other is None else self.asked(other))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays that `plan_from_parts` reads back."""
        content = {
            "format": FORMAT,
            "workload": self.workload.to_dict(),
            "privacy": self.privacy.to_dict(),
            **self.objective.to_dict(),
            "has_goal": self.has_goal,
            "method": self.method,
            "options": dict(self.options),
            "claim": self.claim,
            "tol": self.tol,
            "note": self.note,
            "noise": self.privacy.noise,
        }
        if self.strategy is None:
            # The mechanism follows from workload, goal and options.
            return content, {}
        content["scale"] = str(self.strategy.scale)
        structure, arrays = self.strategy.to_parts()
        if self.used is not None:
            content["after"] = list(self.after)
            arrays["used"] = exact.to_limbs(np.array(self.used.numerators, dtype=object))
            arrays["used_unit"] = exact.to_limbs(np.array([self.used.unit], dtype=object))
        if structure:
            content["structure"] = structure
        if isinstance(self.witness, ProductWitness):
            content["witness"] = "product"
            content["witness_axes"] = self.witness.axes_in_words()
            return content, {**arrays, **self.witness.to_arrays()}
        arrays["q"] = self.witness.q
        if self.witness.pairs is not None:
            arrays["pairs"] = self.witness.pairs
        if self.witness.p is not None:
            # Most queries have no weight: of half a million, a few hundred.
            arrays["p_rows"] = np.flatnonzero(self.witness.p)
            arrays["p"] = self.witness.p[arrays["p_rows"]]
        return content, arrays

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over everything that the plan holds: what a ledger knows it by."""
        return container.digest_of(*self.to_parts())

    @cached_property
    def charge(self) -> Charge:
        """What measuring the plan once costs, exactly, cell by cell where cells can be listed.

        Of this plan alone: a ledger adds it to what it holds of the earlier ones.
        """
        per_cell = self._cell_costs()
        if per_cell is not None:
            worst = per_cell.largest
        else:
            k = self.privacy.records_per_person
            worst = self.spent_per_person / (k * k if self.privacy.noise == "gaussian" else k)
        return Charge(
            noise=self.privacy.noise,
            neighbours=self.privacy.neighbours,
            records_per_person=self.privacy.records_per_person,
            worst=worst,
            per_cell=per_cell,
            cells=cells_digest(self.workload),
            plan_digest=self.digest,
        )

    def _cell_costs(self) -> CellCosts | None:
        """What a record of each cell spends; None where cells are many, or data decide what is measured."""
        if self.strategy is None or self.strategy.n_cells > MAX_LISTED_CELLS:
            return None
        return cell_costs(self.strategy)

    def save(self, path: str | Path) -> Path:
        """Write the plan to one file, which `load_plan` reads back; returns the path."""
        return container.write(path, "plan", *self.to_parts())

    def __reduce__(self) -> NoReturn:
        # A pickle runs whatever its maker wrote; plans travel as files that are checked when loaded.
        raise TypeError("plans are not pickled; use plan.save(path) and load_plan(path)")

    def __repr__(self) -> str:
        m, n = self.workload.shape
        return f"Plan({self.method}, {m:,} queries over {in_figures(n)} cells, {self.privacy})"

    def __str__(self) -> str:
        m, n = self.workload.shape
        lines = [
            f"Plan for {counted(m, 'query')} over {counted(n, 'cell')}",
            f"  privacy      {_stated(self.privacy)}",
            f"  method       {printable(self.method)}: {printable(self.note)}",
            f"  measured     {self._measured_in_words()}",
            f"  certificate  {self.certificate}",
        ]
        if self.objective != TotalVariance():
            lines.insert(2, f"  objective    {self.objective}")
        if self.after:
            lines[1] += ", for all plans together"
            lines[2:2] = [f"               {line}" for line in self.after_in_words()]
        if not self.has_goal:
            # The goal was derived, as a μ that says little to most people.
            lines.insert(2, f"               ε = {self.epsilon(delta=1e-6):.4g} at δ = 1e-06")
        if self.factor is not None:
            lines.append(f"  targets      {targets_in_words(self.factor)}")
        if self.spreads is None:
            return "\n".join(lines)
        lines.append("  expected standard errors")
        width = max(len(printable(name)) for name in self.workload.names)
        for block, spread in zip(self.workload.blocks, self.spreads, strict=True):
            asked = block.targets[np.isfinite(block.targets)]
            wanted = f", target {_in_short(asked.min(), asked.max())}" if len(asked) else ""
            lines.append(
                f"    {printable(block.name):<{width}}  {_in_short(spread.low, spread.high)}{wanted}   "
                f"({counted(block.n_rows, 'query')})"
            )
        return "\n".join(lines)

    def after_in_words(self) -> list[str]:
        """What this plan and those before it spend together, and for whom that is free; [] without any."""
        if self.used is None:
            return []
        before = self.used.largest * self.privacy.records_per_person**2
        growth = self.spent_together - before
        more = f"μ² = {shown(growth)} more than before" if growth else "nothing more than before"
        return [
            f"after {counted(len(self.after), 'earlier plan')}; together they spend μ² = "
            f"{shown(self.spent_together)} per person; in the worst case {more}",
            "in the worst case only: people in cells with slack lose protection they had",
        ]

    def _measured_in_words(self) -> str:
        if self.strategy is None:
            return "integers with laplace noise, which of them depends on the data"
        kind = "rows" if isinstance(self.strategy, Strategy) else "sums"
        return f"{self.strategy.n_measured:,} integer {kind} with {self.strategy.noise} noise"


def targets_in_words(factor: float) -> str:
    """What a plan's factor says about its targets.

    Example:
        >>> targets_in_words(0.9), targets_in_words(1.25)
        ('met by every query', 'missed; every standard error is within 1.25 times its target')
    """
    if factor <= 1:
        return "met by every query"
    shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(factor))
    return f"missed; every standard error is within {float(shown):.6g} times its target"


def _stated(goal: Goal) -> str:
    """A goal in words. One that is exactly what earlier plans spend has dozens of digits: six are shown."""
    if isinstance(goal, ZCDP) and isinstance(goal.rho, Fraction) and goal.rho.denominator > 10**6:
        goal = replace(goal, rho=float(shown(goal.rho)))
    return goal.statement()


def cells_digest(workload: Workload) -> str:
    """A digest of what the cells of a workload are: costs of different cells do not add up."""
    schema = workload.schema
    told = None if schema is None else [[name, value] for name, value in schema.to_dict().items()]
    described = json.dumps({"schema": told, "cells": str(workload.shape[1])}, sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def summed_costs(costs: Sequence[CellCosts]) -> CellCosts:
    """Σ_r u_i^(r) of every cell, exactly, over the least common unit.

    Example:
        >>> summed_costs([CellCosts((1, 2), 4), CellCosts((1, 0), 6)])[:]
        (Fraction(5, 12), Fraction(1, 2))
    """
    unit = math.lcm(*(cost.unit for cost in costs))
    scaled = [[number * (unit // cost.unit) for number in cost.numerators] for cost in costs]
    return CellCosts(tuple(map(sum, zip(*scaled, strict=True))), unit)


def _in_short(low: float, high: float) -> str:
    return f"{low:.3g}" if high <= low * 1.005 else f"{low:.3g} to {high:.3g}"


def load_plan(path: str | Path) -> Plan:
    """The plan that `Plan.save` wrote.

    Guarantee:
        The sensitivity is recomputed from the integer rows in the file and
        compared with the goal before a plan is returned, in every cell together with
        what the file says of earlier plans; the certificate is recomputed when first
        asked for. Nothing the file claims is believed; whether earlier plans were
        released, and at what cost, is for the ledger to say.

    Raises:
        PlanFileError: for anything that is not a plan, or one that does not keep its goal.
    """
    content, arrays = container.read(path, "plan")
    return plan_from_parts(content, arrays, Path(path).name)


def plan_from_parts(content: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> Plan:
    """The plan that `Plan.to_parts` took apart; `name` is the file, for messages.

    Raises:
        PlanFileError: as `load_plan`.
    """
    try:
        if content["format"] != FORMAT:
            raise PlanFileError(f"{name!r} was saved by another version of leastnoise; design it again")
        claims = ("stopped", "heuristic", "data-dependent")
        if content["noise"] not in ("gaussian", "laplace") or content["claim"] not in claims:
            raise PlanFileError(f"{name!r} is no plan that this version can read")
        workload = Workload.from_dict(content["workload"])
        privacy = goal_from_dict(content["privacy"])
        after, used = _earlier(content, arrays, name)
        if content["claim"] == "data-dependent" and after:
            raise PlanFileError(f"{name!r} comes after other plans, which its method cannot do")
        if content["claim"] == "data-dependent":
            return _data_dependent_plan(content, workload, privacy)
        scale, tol = int(content["scale"]), float(content["tol"])
        if scale < 1 or not 0 < tol < math.inf:
            raise PlanFileError(f"{name!r} holds a noise scale or tolerance that is not positive")
        if not isinstance(content.get("has_goal", True), bool):
            raise PlanFileError(f"{name!r} is no plan that this version can read")
        strategy: Measured
        witness: Witness | ProductWitness
        neighbours: Neighbours = "replace-one" if privacy.neighbours == "replace-one" else "add-remove"
        noise: Noise = content["noise"]
        if "structure" in content:
            strategy = structured_from_parts(
                content["structure"], arrays, scale=scale, noise=noise, neighbours=neighbours
            )
        else:
            rows = arrays["rows"]
            if rows.ndim != 3 or rows.dtype.kind != "i" or rows.shape[1] != workload.shape[1]:
                raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
            strategy = Strategy(exact.from_limbs(rows), scale=scale, noise=noise, neighbours=neighbours)
        if content.get("witness") == "product":
            witness = product_witness_from_parts(arrays, content["witness_axes"])
        else:
            witness = _cell_weights(arrays, workload, privacy, name)
        plan = Plan(
            workload=workload,
            privacy=privacy,
            objective=objective_from_dict(content),
            method=str(content["method"]),
            strategy=strategy,
            witness=witness,
            claim=content["claim"],
            tol=tol,
            note=str(content["note"]),
            options=dict(content["options"]),
            has_goal=content.get("has_goal", True),
            after=after,
            used=used,
        )
        if not strategy.can_answer_all(workload):
            raise PlanFileError(f"{name!r} holds a strategy that cannot answer its queries")
        must_meet = plan.objective.kind == "total-within-caps" or not plan.has_goal
        if must_meet and (plan.factor is None or plan.factor > 1):
            raise PlanFileError(f"{name!r} holds a strategy that misses its targets; design it again")
        return plan
    except PlanFileError:
        raise
    except LeastnoiseError as error:
        raise PlanFileError(f"{name!r} is no valid plan: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise PlanFileError(f"{name!r} is no valid plan: its content is not what design() writes") from None


def _earlier(
    content: Mapping[str, Any], arrays: Mapping[str, Array], name: str
) -> tuple[tuple[str, ...], CellCosts | None]:
    """The digests of earlier plans, and what they have used of every cell."""
    digests, used, unit = content.get("after", []), arrays.get("used"), arrays.get("used_unit")
    if not isinstance(digests, list) or not (bool(digests) == (used is not None) == (unit is not None)):
        raise PlanFileError(f"{name!r} tells of earlier plans in part only")
    if used is None or unit is None:
        return (), None
    if used.ndim != 2 or unit.ndim != 2 or len(unit) != 1 or {used.dtype.kind, unit.dtype.kind} != {"i"}:
        raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
    numerators = tuple(int(cost) for cost in exact.from_limbs(used))
    return tuple(digests), CellCosts(numerators, int(exact.from_limbs(unit)[0]))


def _cell_weights(arrays: Mapping[str, Array], workload: Workload, privacy: Goal, name: str) -> Witness:
    """The dual weights of cells, or of pairs of them, and of queries."""
    q, pairs = arrays["q"], arrays.get("pairs")
    n = workload.shape[1]
    fits = q.shape == (n,) if pairs is None else are_pairs(pairs, q, n)
    if not fits or not (np.isfinite(q).all() and (q >= 0).all()):
        raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
    if pairs is not None and privacy.neighbours != "replace-one":
        raise PlanFileError(f"{name!r} holds weights of pairs, which prove nothing for its goal")
    p = _query_weights(arrays, workload.shape[0])
    if p is None and not arrays.keys().isdisjoint({"p", "p_rows"}):
        raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
    return Witness(p, q.astype(float), pairs)


def _data_dependent_plan(content: Mapping[str, Any], workload: Workload, privacy: Goal) -> Plan:
    """The plan of a mechanism made anew: of a file only workload, goal, objective and options are taken.

    Raises:
        LeastnoiseError: if the method does not depend on the data, or cannot do what was asked.
    """
    objective, options = objective_from_dict(content), dict(content["options"])
    method = method_named(str(content["method"]))
    return data_dependent_plan(
        method, Request(workload, privacy, options, float(content["tol"]), objective=objective)
    )


def data_dependent_plan(method: Method, request: Request) -> Plan:
    """The plan of a method that depends on the data, for a request that it accepts.

    Raises:
        MethodError: if the method cannot do this.
    """
    method.check_options(request.options)
    reason = method.why_not(request)
    mechanism = method.find(request) if reason is None and method.is_data_dependent else None
    if not isinstance(mechanism, Mechanism):
        raise MethodError(f"method {method.name!r} cannot do this: {reason or 'it needs no data'}")
    return Plan(
        workload=request.workload,
        privacy=request.privacy,
        objective=request.objective,
        method=method.name,
        strategy=None,
        witness=Witness(None, np.zeros(request.workload.shape[1])),
        claim="data-dependent",
        tol=request.tol,
        note=mechanism.note,
        options=dict(request.options),
        mechanism=mechanism,
    )


def _query_weights(arrays: Mapping[str, Array], m: int) -> Array | None:
    """The weights of the queries, (m,), those not listed being zero; None if absent or unfit."""
    rows, values = arrays.get("p_rows"), arrays.get("p")
    if rows is None or values is None or rows.dtype.kind != "i" or values.dtype.kind != "f":
        return None
    fits = rows.ndim == 1 and rows.shape == values.shape and bool((np.diff(rows) > 0).all())
    if not fits or (len(rows) and not 0 <= rows[0] <= rows[-1] < m):
        return None
    if not (np.isfinite(values).all() and (values > 0).all()):
        return None
    p = np.zeros(m)
    p[rows] = values
    return p
