"""A plan: what will be measured, with how much noise, and how good that is.

A plan never sees data. Everything it says about accuracy and privacy is computed
from the integer strategy that `measure` will use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from leastnoise import container, exact
from leastnoise.certificate import Certificate, Status, Witness, are_pairs, certify
from leastnoise.errors import (
    DesignError,
    LeastnoiseError,
    NotYetError,
    PlanFileError,
    PrivacyError,
    QueryError,
)
from leastnoise.objective import Objective, objective_named
from leastnoise.operators import Array, Operator
from leastnoise.printable import counted, printable
from leastnoise.privacy import Goal, delta_of, epsilon_of, exact_number, goal_from_dict
from leastnoise.queries import Labels, Linear, Query
from leastnoise.strategy import Neighbours, Strategy
from leastnoise.workload import Workload

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Plan:
    """What to measure, chosen for a workload and a privacy goal.

    Attributes:
        method: the name of the family that was used.
        strategy: the integer rows that are measured, and the scale of their noise.
        witness: the dual weights behind the certificate's lower bound.
        note: how the strategy was found.
    """

    workload: Workload
    privacy: Goal
    objective: Objective
    method: str
    strategy: Strategy
    witness: Witness
    claim: Status
    tol: float
    note: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Checked wherever a plan comes from: designed, loaded or put together by hand.
        if self.strategy.shape[1] != self.workload.shape[1]:
            raise DesignError(
                f"the strategy measures {self.strategy.shape[1]:,} cells, the workload has "
                f"{self.workload.shape[1]:,}"
            )
        if self.strategy.neighbours != self.privacy.neighbours:
            raise PrivacyError(
                f"the noise was scaled for {self.strategy.neighbours} neighbours, the goal is for "
                f"{self.privacy.neighbours}; call design() with this goal"
            )
        if self.strategy.noise != self.privacy.noise:
            raise PrivacyError(f"{self.strategy.noise} noise cannot serve the goal {self.privacy}")
        if self.strategy.spent > self.privacy.budget:
            raise PrivacyError("the strategy spends more than the privacy goal allows")

    @cached_property
    def certificate(self) -> Certificate:
        """Both sides of the plan's optimality, recomputed from workload, strategy and witness."""
        return certify(self.workload, self)

    @cached_property
    def stderr(self) -> Array:
        """The standard error of every answer, (m,)."""
        errors = np.sqrt(self.strategy.variances(self.workload.operator))
        errors.setflags(write=False)
        return errors

    @property
    def profile(self) -> Array:
        """What a record of each cell spends, (n,): μ² for Gaussian noise, ε for Laplace.

        Where neighbours replace a record, the most that replacing one of this cell spends.
        """
        return self.strategy.profile

    @property
    def spare(self) -> Array:
        """What a record of each cell could still spend within the goal, (n,), rounded down."""
        return np.array([_float_below(self.privacy.budget - spent) for spent in self.strategy.spent_per_cell])

    @property
    def factor(self) -> None:
        """The common factor on the targets; None, as the plan was not designed for targets."""
        return None

    @cached_property
    def spent_per_person(self) -> Fraction:
        """μ² (Gaussian) or ε (Laplace) that one person spends, exactly."""
        k = self.privacy.records_per_person
        return self.strategy.spent * (k * k if self.strategy.noise == "gaussian" else k)

    @property
    def mu(self) -> float | None:
        """The μ of Gaussian differential privacy, rounded up; None for pure privacy."""
        if self.strategy.noise == "laplace":
            return None
        mu = math.sqrt(self.spent_per_person)
        while Fraction(mu) ** 2 < self.spent_per_person:
            mu = math.nextafter(mu, math.inf)
        return mu

    def epsilon(self, *, delta: float | None = None) -> float:
        """The ε spent at some δ, rounded up. Pure privacy needs no δ."""
        if self.strategy.noise == "laplace":
            epsilon = float(self.spent_per_person)
            exact_enough = Fraction(epsilon) >= self.spent_per_person
            return epsilon if exact_enough else math.nextafter(epsilon, math.inf)
        if delta is None:
            raise PrivacyError("Gaussian noise has an epsilon for every delta; ask plan.epsilon(delta=1e-6)")
        return epsilon_of(self.spent_per_person, delta)

    def delta(self, *, epsilon: float) -> float:
        """The δ spent at some ε, rounded up."""
        if self.strategy.noise == "laplace":
            if exact_number("epsilon", epsilon) >= self.spent_per_person:
                return 0.0
            raise NotYetError("for Laplace noise, delta is only given at the plan's own epsilon or above")
        return delta_of(self.spent_per_person, epsilon)

    def rows_for(self, query: Query) -> tuple[Operator, Labels]:
        """The rows of a further query and their labels, checked to be answerable from this plan.

        Raises:
            QueryError: naming the query and what to do.
        """
        if not isinstance(query, Query):
            raise QueryError(f"a query such as Total() is needed, got {type(query).__name__}")
        schema = self.workload.schema
        if schema is not None:
            operator, labels = query.operator(schema), query.labels(schema)
        elif isinstance(query, Linear) and query.matrix.shape[1] == self.workload.shape[1]:
            operator, labels = query.matrix, query.own_labels()
        else:
            raise QueryError(
                f"this plan was made from a matrix without a schema and answers Linear rows over its "
                f"{self.workload.shape[1]:,} cells only; give a schema to Workload.from_matrix() to ask more"
            )
        step = max(1, 2**22 // operator.shape[1])
        for start in range(0, operator.shape[0], step):
            index = np.arange(start, min(start + step, operator.shape[0]))
            answerable = self.strategy.spans(operator.rows(index))
            if not answerable.all():
                j = start + int(np.argmin(answerable))
                raise QueryError(
                    f'query {j} ("{printable(labels[j])}") cannot be answered by this plan; add it to the '
                    "workload and call design() again (measuring the new plan spends privacy again)"
                )
        return operator, labels

    def variance(self, query: Query) -> Array:
        """The variance of the answers to any query in the plan's row space."""
        return self.strategy.variances(self.rows_for(query)[0])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays that `plan_from_parts` reads back."""
        content = {
            "format": FORMAT,
            "workload": self.workload.to_dict(),
            "privacy": self.privacy.to_dict(),
            "objective": self.objective.name,
            "method": self.method,
            "options": dict(self.options),
            "claim": self.claim,
            "tol": self.tol,
            "note": self.note,
            "noise": self.strategy.noise,
            "scale": str(self.strategy.scale),
        }
        arrays = {"rows": exact.to_limbs(self.strategy.entries), "q": self.witness.q}
        if self.witness.pairs is not None:
            arrays["pairs"] = self.witness.pairs
        return content, arrays

    def save(self, path: str | Path) -> Path:
        """Write the plan to one file, which `load_plan` reads back; returns the path."""
        return container.write(path, "plan", *self.to_parts())

    def __reduce__(self) -> NoReturn:
        # A pickle runs whatever its maker wrote; plans travel as files that are checked when loaded.
        raise TypeError("plans are not pickled; use plan.save(path) and load_plan(path)")

    def __repr__(self) -> str:
        m, n = self.workload.shape
        return f"Plan({self.method}, {m:,} queries over {n:,} cells, {self.privacy})"

    def __str__(self) -> str:
        m, n = self.workload.shape
        lines = [
            f"Plan for {counted(m, 'query')} over {counted(n, 'cell')}",
            f"  privacy      {self.privacy.statement()}",
            f"  method       {printable(self.method)}: {printable(self.note)}",
            f"  measured     {self.strategy.shape[0]:,} integer rows with {self.strategy.noise} noise",
            f"  certificate  {self.certificate}",
            "  expected standard errors",
        ]
        width = max(len(printable(name)) for name in self.workload.names)
        for name in self.workload.names:
            errors = self.stderr[self.workload.rows_of(name)]
            low, high = errors.min(), errors.max()
            spread = f"{low:.3g}" if high <= low * 1.005 else f"{low:.3g} to {high:.3g}"
            lines.append(f"    {printable(name):<{width}}  {spread}   ({counted(len(errors), 'query')})")
        return "\n".join(lines)


def load_plan(path: str | Path) -> Plan:
    """The plan that `Plan.save` wrote.

    Guarantee:
        The sensitivity is recomputed from the integer rows in the file and
        compared with the goal before a plan is returned; the certificate is
        recomputed when first asked for. Nothing the file claims is believed.

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
        known = content["noise"] in ("gaussian", "laplace") and content["claim"] in ("stopped", "heuristic")
        if not known:
            raise PlanFileError(f"{name!r} is no plan that this version can read")
        workload = Workload.from_dict(content["workload"])
        privacy = goal_from_dict(content["privacy"])
        rows, q, pairs = arrays["rows"], arrays["q"], arrays.get("pairs")
        n = workload.shape[1]
        fits = q.shape == (n,) if pairs is None else are_pairs(pairs, q, n)
        if rows.ndim != 3 or rows.dtype.kind != "i" or not fits:
            raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
        if pairs is not None and privacy.neighbours != "replace-one":
            raise PlanFileError(f"{name!r} holds weights of pairs, which prove nothing for its goal")
        if rows.shape[1] != workload.shape[1] or not (np.isfinite(q).all() and (q >= 0).all()):
            raise PlanFileError(f"{name!r} holds arrays that do not fit its workload")
        scale, tol = int(content["scale"]), float(content["tol"])
        if scale < 1 or not 0 < tol < math.inf:
            raise PlanFileError(f"{name!r} holds a noise scale or tolerance that is not positive")
        neighbours: Neighbours = "replace-one" if privacy.neighbours == "replace-one" else "add-remove"
        strategy = Strategy(
            exact.from_limbs(rows), scale=scale, noise=content["noise"], neighbours=neighbours
        )
        plan = Plan(
            workload=workload,
            privacy=privacy,
            objective=objective_named(content["objective"]),
            method=str(content["method"]),
            strategy=strategy,
            witness=Witness(None, q.astype(float), pairs),
            claim=content["claim"],
            tol=tol,
            note=str(content["note"]),
            options=dict(content["options"]),
        )
        if not plan.strategy.can_answer(workload.operator):
            raise PlanFileError(f"{name!r} holds a strategy that cannot answer its queries")
        return plan
    except PlanFileError:
        raise
    except LeastnoiseError as error:
        raise PlanFileError(f"{name!r} is no valid plan: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise PlanFileError(f"{name!r} is no valid plan: its content is not what design() writes") from None


def _float_below(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, -math.inf)
