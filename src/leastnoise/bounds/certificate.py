"""How close a plan is to the optimum, proved from both sides without asking the solver.

For weights w, caps c, and any dual weights p ≥ 0 of the queries and q ≥ 0 of the cells,
no Gaussian noise of privacy profile at most μ² answers the workload W with less than

    total variance               F(w, q)² / (μ² Σ_i q_i)
    largest v_j/c_j              F(p, q)² / (μ² Σ_i q_i Σ_j p_j c_j)                (1)
    total variance within caps   F(w + p, q)² / (μ² Σ_i q_i) − Σ_j p_j c_j
    total absolute error         √(2/π) (Σ_j (w_j |b_j|)^{2/3})^{3/2} / (μ² Σ_i q_i)^½

    F(p, q) = ‖ diag(√p) W diag(√q) ‖_*

with b_j the derivative of F by √p_j, see `absolute_error`.
Where earlier plans have used part of the budget, cell i has τ_i = μ² − used_i left, and
Σ_i q_i τ_i takes the place of μ² Σ_i q_i.

The plan's own number follows from its integer strategy. The middle line, with the
targets squared for c, is also the least μ² that meets them all, times 1/μ²: where it
exceeds 1, they cannot be met. Where neighbours
replace a record, weights may stand on pairs of cells as well: the same bounds hold
with W D for W, D having a column e_i − e_j for every pair. The pair of a cell and no
cell at all has the column e_i, so weights of cells alone prove a bound there too. Everything
is recomputed here from the workload, the strategy, p and q; the solver is not asked.

How the nuclear norm F is bounded without trusting a decomposition is in `nuclear_norm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from leastnoise.bounds.cell_bound import Witness, checked_witness, dual_bound
from leastnoise.bounds.parts_bound import PartsWitness
from leastnoise.bounds.product_bound import ProductWitness, checked_product_witness, product_dual_bound
from leastnoise.core.errors import DesignError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.operators import Array
from leastnoise.privacy import GAUSSIAN, CellCosts, Goal
from leastnoise.query import MEAN_ABSOLUTE, Objective, Targets, Workload
from leastnoise.strategy import Measured, is_within, spare_of

# Dual weights of any kind.
AnyWitness = Witness | ProductWitness | PartsWitness

Status = Literal["optimal", "stopped", "heuristic", "data-dependent"]

# A plan further than this from its bound is not called optimal, whatever gap was asked for.
MOST_OPTIMAL = 1e-2

# Rounding of the two sides stays below this relative amount; more is a fault and raises an error.
_DISAGREEMENT = 1e-6

# A bound that exceeds another number by less than this may do so by rounding.
_CERTAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Certificate(NotebookValue):
    """A proof of how close a plan is to the optimum.

    Attributes:
        achieved: what the plan achieves.
        lower_bound: what no noise of the kind `among` can undercut under the same privacy.
        status: "optimal" (the gap asked for was reached), "stopped" (the solver ended
            early), "heuristic" (the method does not aim at the optimum), "data-dependent" (its
            error depends on the data: both numbers are NaN, as nothing is known of either).
        witness: the dual weights (p, q) behind the bound.
        unit: what the two numbers measure.
        among: the kind of noise that the bound covers, "Gaussian" or "Laplace".
    """

    achieved: float
    lower_bound: float
    status: Status
    witness: AnyWitness
    unit: str
    among: str = "Gaussian"

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1; the difference itself where the bound is not positive."""
        if self.lower_bound > 0:
            return self.achieved / self.lower_bound - 1
        return self.achieved - self.lower_bound

    def __str__(self) -> str:
        if self.status == "data-dependent":
            return "data-dependent: what the error will be depends on the data, and no bound is proved for it"
        return (
            f"{self.status}: {self.unit} {self.achieved:.6g}, and no {self.among} noise can have less than "
            f"{self.lower_bound:.6g} (gap {self.gap:.1e})"
        )


class _Spends(Protocol):
    @property
    def spent(self) -> Fraction: ...


class _PlanLike(Protocol):
    @property
    def strategy(self) -> Measured | None: ...
    @property
    def mechanism(self) -> _Spends | None: ...
    @property
    def privacy(self) -> Goal: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def has_goal(self) -> bool: ...
    @property
    def witness(self) -> AnyWitness: ...
    @property
    def tol(self) -> float: ...
    @property
    def claim(self) -> Status: ...
    @property
    def used(self) -> CellCosts | None: ...


def certify(workload: Workload, plan: _PlanLike) -> Certificate:
    """The certificate of a plan for a workload, recomputed from scratch.

    Args:
        workload: the queries that the plan must answer, usually ``plan.workload``.
        plan: the plan; only its strategy, goal, objective, tolerance and witness are used.

    Guarantee:
        `lower_bound` holds for every Gaussian noise within the plan's privacy goal, and
        within what earlier plans have left of it in every cell, up to floating-point
        rounding of a few matrix products. For pure privacy it
        holds for Laplace noise of one scale on any rows, and on whole-number rows
        also for discrete Laplace noise; it is loose, so no such plan is called
        optimal. `achieved` is what the integer strategy that `measure` uses has:
        its weighted total variance, its largest variance over the caps, the weighted sum of
        its expected absolute errors, or, for
        targets without a goal, the μ² that all records of a person spend. Of a plan that depends on
        the data only the budget is checked; nothing is claimed about its accuracy.

    Raises:
        DesignError: if the strategy cannot answer the workload, spends more than
            its goal or misses targets it must meet, or the witness does not fit.
    """
    strategy, objective = plan.strategy, plan.objective
    if strategy is None:
        return _data_dependent(workload, plan)
    spare = _checked_spare(workload, plan, strategy)
    unit_variance = _unit_variance(plan.privacy) if plan.has_goal else _change(plan.privacy)
    # Cells that no query tells apart may share their weight in the bound, and do in the strategy.
    workload, strategy = _merged(workload, strategy)
    witness, lower_bound, size = _proved(
        workload, objective, plan.privacy, plan.witness, spare, unit_variance=unit_variance
    )
    # After the bound, which needs more room than what is kept of the strategy from here on.
    achieved = _achieved(workload, plan, strategy)
    _require_agreement(achieved, lower_bound, size, objective.unit(workload))
    if not plan.has_goal:
        records = float(plan.privacy.noise.times(plan.privacy.records_per_person))
        achieved, lower_bound = records * achieved, records * lower_bound
    # Where both sides meet, rounding may leave the bound above; then neither is known better.
    achieved = max(achieved, lower_bound)
    is_near = achieved <= (1 + min(plan.tol, MOST_OPTIMAL)) * lower_bound
    is_optimal = is_near and strategy.noise == GAUSSIAN
    status: Status = "optimal" if is_optimal else plan.claim
    unit = objective.unit(workload, has_goal=plan.has_goal)
    return Certificate(achieved, lower_bound, status, witness, unit, strategy.noise.label)


def _merged(workload: Workload, strategy: Measured) -> tuple[Workload, Measured]:
    """The queries over cells that a strategy tells apart, found anew from the queries, and what is measured.

    Raises:
        DesignError: if some query tells cells apart that it does not.
    """
    found = strategy.merged(workload)
    if found is None:
        raise DesignError(
            "the strategy measures classes of cells that the queries tell apart",
            field="strategy",
            remedy="certify the workload that the plan was designed for",
        )
    return found


def _data_dependent(workload: Workload, plan: _PlanLike) -> Certificate:
    if plan.mechanism is None or plan.mechanism.spent > plan.privacy.budget:
        raise DesignError(
            "the mechanism spends more than its privacy goal allows", field="privacy", given=str(plan.privacy)
        )
    unit = plan.objective.unit(workload, has_goal=plan.has_goal)
    proves_nothing = Witness(None, np.zeros(workload.shape[1]))
    return Certificate(math.nan, math.nan, "data-dependent", proves_nothing, unit, plan.privacy.noise.label)


def _checked_spare(workload: Workload, plan: _PlanLike, strategy: Measured) -> CellCosts | None:
    """What earlier plans have left to every cell, after checking that the strategy keeps to it and its goal.

    Raises:
        DesignError: if it does not, or is for other cells or neighbours.
    """
    n = workload.shape[1]
    if strategy.n_cells != n:
        raise DesignError(
            f"the plan is for {strategy.n_cells:,} cells, the workload has {n:,}",
            field="workload",
            given=n,
            remedy="certify the workload that the plan was designed for",
        )
    if strategy.neighbours != plan.privacy.neighbours:
        raise DesignError(
            f"the noise was scaled for {strategy.neighbours} neighbours, the goal is for "
            f"{plan.privacy.neighbours}",
            field="neighbours",
            given=str(plan.privacy.neighbours),
            remedy="design the plan again",
        )
    spare = _spare(plan, n)
    if strategy.noise != plan.privacy.noise or not is_within(strategy, plan.privacy, spare):
        raise DesignError(
            "the strategy spends more than its privacy goal allows", field="privacy", given=str(plan.privacy)
        )
    return spare


def _require_agreement(achieved: float, lower_bound: float, size: float, what: str) -> None:
    """Return if both sides are finite and contradict each other by no more than rounding."""
    if not (math.isfinite(achieved) and math.isfinite(lower_bound)):
        raise DesignError(
            f"the {what} is too large for floats", field="workload", remedy="scale weights or rows down"
        )
    if achieved < lower_bound - size * _DISAGREEMENT:
        raise DesignError(
            "the two sides of the certificate contradict each other by more than rounding",
            field="workload",
            remedy="bring the sizes of the queries or their weights closer together",
        )


def _spare(plan: _PlanLike, n: int) -> CellCosts | None:
    """What earlier plans have left to every cell, if there are any.

    Raises:
        DesignError: if that is not known for a plan of this kind.
    """
    if plan.used is None:
        return None
    goal = plan.privacy
    if goal.noise != GAUSSIAN or not goal.relation.adds_by_cell or not plan.has_goal:
        raise DesignError(
            "what cells have left after earlier plans is known for Gaussian noise within a goal, and "
            "where records are added or removed",
            field="after",
            remedy="design the plan again",
        )
    if len(plan.used) != n:
        raise DesignError(
            f"the earlier plans are about {len(plan.used):,} cells, the workload has {n:,}",
            field="workload",
            given=n,
            remedy="certify the workload that the plan was designed for",
        )
    return spare_of(plan.privacy, plan.used)


def _unit_variance(goal: Goal) -> float:
    """The least variance of a row over its squared sensitivity: 1/μ² for Gaussian noise."""
    return goal.noise.least_variance(float(goal.column_budget))


def _change(goal: Goal) -> float:
    """What the largest change of a cell spends, over what its column does: 1 where it is one record."""
    return float(goal.relation.change_cost(1, goal.noise))


def _unit_variance_within(spare: CellCosts, q: Array) -> float:
    """Σ_i q_i / Σ_i q_i τ_i, which takes the place of 1/μ² where cells have different budgets τ."""
    tau = np.array([left / spare.unit for left in spare.numerators])
    q = q / (float(q.max(initial=0)) or 1.0)
    allowed = math.fsum(q * tau)
    return math.fsum(q) / allowed if allowed > 0 else 0.0


def _refuse_product_form(spare: CellCosts | None) -> None:
    if spare is not None:
        raise DesignError(
            "after earlier plans every cell has its own budget, and the bound takes a weight for "
            "every cell, not weights of product form",
            field="witness",
            remedy="design the plan again",
        )


def _proved(
    workload: Workload,
    objective: Objective,
    goal: Goal,
    witness: AnyWitness,
    spare: CellCosts | None,
    *,
    unit_variance: float,
) -> tuple[AnyWitness, float, float]:
    """The weights as they were used, the line of (1) that they prove, and the size of its numbers."""
    if isinstance(witness, PartsWitness):
        _refuse_product_form(spare)
        witness.check(workload)
        proved = [
            _proved(part.workload(workload), objective, goal, part.witness, None, unit_variance=unit_variance)
            for part in witness.parts
        ]
        bounds, sizes = [max(bound, 0.0) for _, bound, _ in proved], [size for _, _, size in proved]
        if objective.kind == "largest":
            return witness, max(bounds, default=0.0), max(sizes, default=0.0)
        return witness, math.fsum(bounds), math.fsum(sizes)
    if isinstance(witness, ProductWitness):
        _refuse_product_form(spare)
        if witness.apart is not None and not goal.relation.replaces:
            raise DesignError(
                "weights of pairs prove nothing where a record is added or removed", field="witness"
            )
        of_products = checked_product_witness(witness, workload, objective)
        return (
            of_products,
            *product_dual_bound(workload, objective, of_products, unit_variance=unit_variance),
        )
    fitting = checked_witness(witness, workload, goal, objective.caps(workload), objective.kind)
    if spare is not None:
        unit_variance = _change(goal) * _unit_variance_within(spare, fitting.q)
    return fitting, *dual_bound(workload, objective, fitting, unit_variance=unit_variance)


def _achieved(workload: Workload, plan: _PlanLike, strategy: Measured) -> float:
    """What the plan itself reaches, in the unit of its objective."""
    objective = plan.objective
    if objective.kind == "absolute":
        return total_absolute_error(workload, strategy, objective)
    caps = objective.batch_caps(workload)
    if caps is None:
        return total_variance(workload, strategy, objective)
    largest = largest_share(workload, strategy, caps)
    if (objective.kind == "total-within-caps" or not plan.has_goal) and largest > 1:
        raise DesignError(
            f"the plan misses its targets by a factor of {math.sqrt(largest):.9g}",
            field="stderr",
            remedy="design it again",
        )
    if objective.kind == "total-within-caps":
        return total_variance(workload, strategy, objective)
    return largest if plan.has_goal else float(strategy.spent)


def largest_share(workload: Workload, strategy: Measured, caps: Sequence[Array]) -> float:
    """max_j v_j/c_j, the largest variance of a strategy's answers as a share of its cap.

    Args:
        caps: as `Objective.batch_caps` gives them.

    Raises:
        DesignError: if some query is outside what the strategy measures.
    """
    _require_span(workload, strategy)
    return strategy.largest_share(workload, caps)


def total_variance(workload: Workload, strategy: Measured, objective: Objective) -> float:
    """Σ_j w_j v_j, the weighted total variance of a strategy's answers.

    Raises:
        DesignError: if some query is outside what the strategy measures.
    """
    _require_span(workload, strategy)
    return strategy.total_variance(workload, objective.batch_weights(workload))


def total_absolute_error(workload: Workload, strategy: Measured, objective: Objective) -> float:
    """√(2/π) Σ_j w_j √v_j, the weighted sum of the expected absolute errors of a strategy's answers.

    Raises:
        DesignError: if some query is outside what the strategy measures, or the noise is not Gaussian: of
            other noise the expected absolute error does not follow from the variance.
    """
    if strategy.noise != GAUSSIAN:
        raise DesignError(
            "the expected absolute error is known for Gaussian noise only",
            field="objective",
            given=objective,
            remedy="certify the plan for TotalVariance()",
        )
    _require_span(workload, strategy)
    return MEAN_ABSOLUTE * strategy.total_stderr(workload, objective.batch_weights(workload))


def proves_infeasible(
    workload: Workload,
    goal: Goal,
    witness: AnyWitness,
    *,
    spare: CellCosts | None = None,
) -> bool:
    """Whether dual weights prove that no noise meets the workload's targets within a goal.

    The lower bound at the goal's budget is on the largest variance divided by its squared target; where it
    exceeds 1, every noise misses some target.

    Args:
        workload: the queries, with their targets.
        goal: the privacy goal.
        witness: the dual weights (p, q).
        spare: what a record of each cell may spend, where earlier plans have used part of the goal.

    Raises:
        DesignError: if the weights do not fit the workload or the goal.
    """
    return targets_bound(workload, goal, witness, spare=spare) > 1 + _CERTAIN


def targets_bound(
    workload: Workload,
    goal: Goal,
    witness: AnyWitness,
    *,
    spare: CellCosts | None = None,
) -> float:
    """What no noise within the goal can undercut: the largest variance over its squared target."""
    return _proved(workload, Targets(), goal, witness, spare, unit_variance=_unit_variance(goal))[1]


def _require_span(workload: Workload, strategy: Measured) -> None:
    # Row by row, whatever their weights: a light query must not get lost behind heavy ones.
    if not strategy.can_answer_all(workload):
        raise DesignError(
            "the strategy does not span the queries; it was made for another workload", field="strategy"
        )
