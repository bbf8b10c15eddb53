"""A plan: what will be measured, with how much noise, and what follows from it about privacy and accuracy.

A plan never sees data. Everything it says about accuracy and privacy is computed
from the integer strategy that `measure` will use. Where a method depends on the data
there is none: the plan holds the mechanism instead, and is silent about accuracy.

A plan designed after others keeps its goal together with them, in every cell and exactly:

    used_i + ‖a_i‖²/σ² ≤ μ²,   used_i = Σ_r u_i^(r) over the earlier plans, repeats included

`plan_checks` says what holds of every plan, `plan_text` how people read one, `plan_parts` what its file
holds, `plan_file` how one is loaded.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from leastnoise.bounds import AnyWitness, Certificate, Status, certify
from leastnoise.core import container
from leastnoise.core.directed import float_above, float_below, root_above
from leastnoise.core.errors import MethodError, NotYetError, PrivacyError, QueryError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures, printable
from leastnoise.core.progress import Ended
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method import Trial
from leastnoise.planning.plan_checks import check_fields, check_plan
from leastnoise.planning.plan_parts import parts_of
from leastnoise.planning.plan_text import earlier_plans_to_text, plan_to_text
from leastnoise.privacy import (
    CellCosts,
    Charge,
    Goal,
    LeastLoss,
    delta_of,
    epsilon_of,
    exact_number,
    least_loss_of,
)
from leastnoise.query import Linear, Objective, Query, Workload, workload_of_query
from leastnoise.strategy import Measured, Spread, cell_costs


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


# Plans over more cells are charged by the cell that spends most.
MAX_LISTED_CELLS = 2**17


@dataclass(frozen=True, eq=False)
class Plan(NotebookValue):
    """What to measure, chosen for a workload and a privacy goal.

    Where it was designed after other plans, the goal is for all of them and this one together: records in
    cells that lost little so far may lose as much as the others. `profile`, `mu`, `epsilon`, `delta`,
    `charge` and `spent_per_person` are about this plan alone; `spent_together` and `spare` about all of them.

    Attributes:
        workload: the queries that it answers.
        privacy: the privacy goal that it keeps.
        objective: what it minimises.
        method: the name of the method that found it.
        strategy: the integer rows that are measured, and the scale of their noise; None where
            what is measured depends on the data.
        witness: the dual weights behind the certificate's lower bound.
        claim: the certificate's status where the optimum is not proved: "stopped", "heuristic" or
            "data-dependent".
        tol: the relative gap up to which the certificate says "optimal".
        note: how the strategy was found.
        options: the options of the method.
        has_goal: whether a privacy goal was given; otherwise `privacy` is the least that meets the targets.
        mechanism: what `measure` does where there is no strategy; None otherwise.
        after: digests of the plans that this one was designed after, in order.
        used: what those plans spend together in each cell; None without any. In a loaded plan this is what
            the file says: the ledger itself adds up what was really released.
        ended: how the search for the strategy ended: "converged", "exhausted" (at its limit of steps) or
            "deadline" (at its time limit); None where that was not recorded.
        tried: the methods that were tried or skipped, in order, with what each achieved; empty where there
            was only one.
        over: the time attribute, where the rows can be measured period by period; otherwise None.
        horizon: the plan of all periods, where this one is the part due by one of them; otherwise None.
        period: the number of that period; None without `horizon`.
    """

    _unlisted = unlisted(
        "asked asked_privacy claim earlier_plans_to_text fixed_strategy known_stderr spent_per_cell "
        "spreads to_parts with_trials with_witness"
    )

    workload: Workload
    privacy: Goal
    objective: Objective
    method: str
    strategy: Measured | None
    witness: AnyWitness
    claim: Status
    tol: float
    note: str
    options: Mapping[str, Any] = field(default_factory=dict)
    has_goal: bool = True
    mechanism: Mechanism | None = None
    after: tuple[str, ...] = ()
    used: CellCosts | None = None
    ended: Ended | None = None
    tried: tuple[Trial, ...] = ()
    over: str | None = None
    horizon: Plan | None = None
    period: int | None = None

    def __post_init__(self) -> None:
        check_plan(self)

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate, recomputed from workload, strategy and witness.

        For the part that is due by one period, the certificate of the plan of all periods.
        """
        return certify(self.workload, self) if self.horizon is None else self.horizon.certificate

    def with_trials(self, tried: tuple[Trial, ...], ended: Ended | None) -> Plan:
        """The same plan with another list of trials and another `ended`.

        Args:
            tried: the methods that were tried or left out, in order.
            ended: how the whole search ended, as in `ended`.
        """
        listed = self._with(tried=tried, ended=ended)
        object.__setattr__(listed, "certificate", self.certificate)
        return listed

    def with_witness(self, witness: AnyWitness, claim: Status | None = None) -> Plan:
        """The same plan with other dual weights, such as those of another plan for the same request.

        Args:
            witness: the dual weights, from which its certificate is worked out.
            claim: another claim; the same unless given.
        """
        return self._with(witness=witness, claim=self.claim if claim is None else claim)

    def _with(self, **changes: Any) -> Plan:
        """The same plan with other fields that its strategy does not depend on.

        That was checked when the plan was made: checking it again took longer than `design` may.
        """
        changed = object.__new__(Plan)
        for each in fields(self):
            object.__setattr__(changed, each.name, changes.get(each.name, getattr(self, each.name)))
        check_fields(changed)
        return changed

    @cached_property
    def stderr(self) -> Array | None:
        """The standard error of every answer, (m,); None where it depends on the data."""
        if self.strategy is None:
            return None
        errors = np.sqrt(self.strategy.variances_of(self.workload))
        errors.setflags(write=False)
        return errors

    @cached_property
    def distance(self) -> float | None:
        """How far the answered queries are from the ones asked; None where it depends on the data.

        The largest difference of two coefficients, relative to the largest coefficient w of the query: the
        bias of an answer is at most this times w times the number of records. It is 0 for whole-number
        coefficients and wherever all cells are measured; other queries are measured through a rounded basis.
        """
        return None if self.strategy is None else self.strategy.distance_of(self.workload)

    @cached_property
    def spreads(self) -> list[Spread] | None:
        """Standard errors of every batch of queries; None where they depend on the data."""
        return None if self.strategy is None else self.strategy.spreads(self.workload)

    def fixed_strategy(self) -> Measured:
        """The strategy, where it does not depend on the data.

        Raises:
            MethodError: where what is measured depends on the data.
        """
        if self.strategy is None:
            raise MethodError(
                f"method {self.method!r} depends on the data, so that its standard errors are not known, "
                "nor what follows from them, such as intervals",
                field="method",
                given=self.method,
                remedy='design the plan with method="auto" to have them',
            )
        return self.strategy

    def known_stderr(self) -> Array:
        """`stderr`, where it does not depend on the data.

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

        With replace-one neighbours, the most that replacing a record of this cell spends.
        """
        return np.array([float_above(spent) for spent in self.spent_per_cell])

    @property
    def spare(self) -> Array:
        """What a record of each cell could still spend within the goal, (n,), rounded down.

        Where there are earlier plans: what they and this one leave of the common goal.
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

        The largest sum over any one cell, not the sum of the largest.
        """
        if self.used is None:
            return self.spent_per_person
        return self._costs_together().largest * self.privacy.records_per_person**2

    @cached_property
    def factor(self) -> float | None:
        """The largest standard error as a multiple of its target, rounded up; None without targets.

        At most 1 for plans that had to meet their targets: those without a privacy goal, and those for total
        variance within targets. None also where standard errors depend on the data.
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
            return self.mechanism.spent * self.privacy.noise.times(k)
        return self.strategy.spent * self.strategy.noise.times(k)

    @property
    def asked_privacy(self) -> Goal | LeastLoss:
        """The `privacy` argument of `design`: the goal, or the `LeastLoss`."""
        return self.privacy if self.has_goal else least_loss_of(self.privacy)

    @property
    def mu(self) -> float | None:
        """The μ of Gaussian differential privacy of this plan alone, rounded up; None for pure privacy."""
        if self.privacy.noise.is_pure:
            return None
        return root_above(self.spent_per_person)

    def epsilon(self, *, delta: float | None = None) -> float:
        """The ε that this plan alone spends at some δ, rounded up. Pure privacy needs no δ.

        Args:
            delta: δ, between 0 and 1; left out for pure privacy.
        """
        if self.privacy.noise.is_pure:
            return float_above(self.spent_per_person)
        if delta is None:
            raise PrivacyError(
                "Gaussian noise has an epsilon for every delta",
                field="delta",
                remedy="ask plan.epsilon(delta=1e-6)",
            )
        return epsilon_of(self.spent_per_person, delta)

    def delta(self, *, epsilon: float) -> float:
        """The δ that this plan alone spends at some ε, rounded up.

        Args:
            epsilon: ε, zero or more.
        """
        if self.privacy.noise.is_pure:
            if exact_number("epsilon", epsilon) >= self.spent_per_person:
                return 0.0
            raise NotYetError(
                "for Laplace noise, delta is only given at the plan's own epsilon or above",
                field="epsilon",
                given=epsilon,
            )
        return delta_of(self.spent_per_person, epsilon)

    def asked(self, query: Query) -> Workload:
        """A further query as a workload of its own, if this plan can answer it.

        Where what is measured depends on the data, it can answer every query: all cells are estimated.

        Args:
            query: any query over the plan's schema.

        Raises:
            QueryError: if it cannot; the message names the query and says what to do.
        """
        if not isinstance(query, Query):
            raise QueryError.must("query", "be a query such as Total()", given=type(query))
        schema = self.workload.schema
        is_matrix = isinstance(query, Linear) and query.matrix.shape[1] == self.workload.shape[1]
        if schema is None and not is_matrix:
            raise QueryError(
                f"this plan was made from a matrix without a schema and answers Linear rows over its "
                f"{self.workload.shape[1]:,} cells only",
                field="query",
                given=type(query),
                remedy="give a schema to Workload.from_matrix() to ask more",
            )
        workload = workload_of_query(query, schema)
        j = None if self.strategy is None else self.strategy.first_unanswerable(workload)
        if j is not None:
            label = printable(workload.labels[j])
            raise QueryError(
                f'query {j} ("{label}") cannot be answered by this plan',
                field="query",
                given=label,
                remedy="add it to the workload and call design() again (measuring the new plan spends "
                "privacy again)",
            )
        return workload

    def variance(self, query: Query) -> Array:
        """The variance of the answers to any query in the plan's row space.

        Args:
            query: any query over the plan's schema; it need not be in the workload.

        Raises:
            QueryError: if the plan does not measure enough to answer it.
            MethodError: where it depends on the data.
        """
        return self.fixed_strategy().variances_of(self.asked(query))

    def covariance(self, query: Query, other: Query | None = None) -> Array:
        """The covariances of the answers to a query with those to another, or to itself: a dense array.

        Args:
            query: any query over the plan's schema.
            other: the other query; None for the covariances of the first one's own answers.

        Raises:
            QueryError: if the plan does not measure enough to answer them.
            TooLargeError: if there are too many answers.
            MethodError: where it depends on the data.
        """
        strategy, left = self.fixed_strategy(), self.asked(query)
        return strategy.covariances_of(left, left if other is None else self.asked(other))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays that `plan_from_parts` reads back."""
        return parts_of(self)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over everything that the plan holds; ledgers identify the plan by it.

        It identifies the plan, not the request. The same request gives the same digest on the same machine,
        with the same library versions and one thread for linear algebra, unless a time limit ended the search
        (`ended` is "deadline"); saving and loading never change it.
        """
        return container.digest_of(*self.to_parts())

    @cached_property
    def charge(self) -> Charge:
        """What measuring the plan once costs, exactly, cell by cell where cells can be listed.

        The cost of this plan alone: a ledger adds it to the earlier ones.
        """
        per_cell = self._cell_costs()
        if per_cell is not None:
            worst = per_cell.largest
        else:
            k = self.privacy.records_per_person
            worst = self.spent_per_person / self.privacy.noise.times(k)
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

    def plot(self) -> Any:
        """A picture of the standard errors of every query beside those of plain noise, and of the targets.

        Plain noise of the same privacy: on each count as it is asked, and on each cell, added up. What lies
        between is what it is worth to plan the batch together. A notebook shows it by itself, and
        ``.save("plan.svg")`` writes it to a file.

        Raises:
            MethodError: where the plan depends on the data, so that its errors are not known.
        """
        # By name, when asked: the room of reports comes after this one.
        return import_module("leastnoise.report.plots").plot_plan(self)

    def save(self, path: str | Path) -> Path:
        """Write the plan to one file, which `load_plan` reads back; returns the path.

        Args:
            path: the file to write; an existing one is replaced.
        """
        return container.write(path, "plan", *self.to_parts())

    def __iter__(self) -> Iterator[str]:
        """The names of the queries, ratios last, as a release of the plan has them."""
        return iter(self.workload)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self.workload)

    def __reduce__(self) -> NoReturn:
        # A pickle runs whatever its maker wrote; plans travel as files that are checked when loaded.
        raise TypeError("plans are not pickled; use plan.save(path) and load_plan(path)")

    def __repr__(self) -> str:
        m, n = self.workload.shape
        return f"Plan({self.method}, {m:,} queries over {in_figures(n)} cells, {self.privacy})"

    def __str__(self) -> str:
        return plan_to_text(self)

    def earlier_plans_to_text(self) -> list[str]:
        """What this plan and the earlier ones spend together, and for whom that is free; [] without any."""
        return earlier_plans_to_text(self)
