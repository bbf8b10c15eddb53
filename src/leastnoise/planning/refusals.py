"""Why there is no plan: targets that no noise can meet, with the proof, or methods that cannot serve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from leastnoise.bounds import ProductWitness, Witness, allowed, proves_infeasible
from leastnoise.core.directed import root_above
from leastnoise.core.errors import DesignError, InfeasibleError, MethodError
from leastnoise.core.printable import printable
from leastnoise.core.remedies import Argument, RelaxTargets, Remedy
from leastnoise.planning.method import Method, Request
from leastnoise.privacy import GDP, ZCDP, ApproxDP, CellCosts, Goal, PureDP, epsilon_of
from leastnoise.query import Targets, Workload, products_of


class MissesTargets(MethodError):
    """A method's plan does not meet the targets; another method's may.

    Attributes:
        factor: by which it misses them.
    """

    method: str
    factor: float

    @property
    def misses(self) -> str:
        """By how much it misses them, as text."""
        return f"misses the targets by a factor of {rounded_up(self.factor)}"


def misses_targets(method: str, factor: float, goal: Goal) -> MissesTargets:
    """The error of a method whose plan misses the targets by this factor."""
    error = MissesTargets(
        f"method {method!r} misses the targets by a factor of {rounded_up(factor)}; another may meet them. "
        "To take this one, ",
        RelaxTargets("that", *raised(goal, factor)),
        field="stderr",
        given=factor,
    )
    error.method, error.factor = method, factor
    return error


def closest_of(missed: Sequence[MissesTargets]) -> MethodError:
    """The error where every method misses the targets: which comes closest, and how to take it."""
    closest = min(missed, key=lambda error: error.factor)
    assert closest.remedy is not None
    return MethodError(
        f"no method meets the targets; the closest, {closest.method!r}, {closest.misses}. To take it, ",
        closest.remedy,
        field="stderr",
    )


def nobody_can(methods: Sequence[Method], request: Request) -> MethodError:
    """The error where no method takes a request, with the reason of each."""
    if request.over is not None:
        # Of the many methods that know no periods there is nothing more to say.
        methods = [method for method in methods if method.takes_periods]
    is_absolute = request.objective.kind == "absolute"
    if is_absolute:
        methods = [method for method in methods if method.takes_absolute]
    by_name = "it depends on the data and is taken only when named"
    too_much = {
        method.name: reason
        for method in methods
        if request.unfit(method) is None and (reason := request.too_much(method)) is not None
    }
    others = [
        f"{method.name}: {request.unfit(method) or by_name}"
        for method in methods
        if method.name not in too_much
    ]
    if not too_much and request.over is not None:
        return MethodError(
            f"no method can plan this workload period by period. {'; '.join(others)}. ",
            Remedy(
                "ask attributes other than time by Marginal alone, or declare attributes coarser",
            ),
            field="over",
            given=request.over,
        )
    if not too_much and is_absolute:
        return MethodError(
            f"no method can plan this workload for absolute errors. {'; '.join(others)}. ",
            Remedy("ask for ", Argument("objective", "TotalVariance()"), ", or declare attributes coarser"),
            field="objective",
            given=request.objective,
        )
    if not too_much:
        return MethodError("no method can plan this workload. " + "; ".join(others), field="workload")
    takes = "; ".join(f"{name}: {reason}" for name, reason in too_much.items())
    return MethodError(
        f"this workload takes too much. {takes}. Declare its attributes coarser, or allow more. The other "
        f"methods do not apply. {'; '.join(others)}",
        field="workload",
    )


# Batches of queries that a message names at most.
_NAMED = 3

# A batch with a smaller share of the proof is not named.
_LEAST_SHARE = 0.01


def infeasible(
    workload: Workload,
    goal: Goal,
    witness: Witness | ProductWitness,
    factor: float,
    *,
    spare: CellCosts | None = None,
    most_left: float = 0.0,
    is_late: bool = False,
) -> InfeasibleError:
    """The error that says, and proves, that no noise meets the workload's targets within a goal.

    Args:
        witness: dual weights whose bound exceeds 1 at the goal's budget.
        factor: a common factor on the standard errors at which a plan was found.
        spare: what earlier plans leave to a record of each cell; None where there are none.
        most_left: the most that they leave in any cell that is asked about, μ².
        is_late: whether it was the time limit that ended the search for a plan.

    Raises:
        DesignError: if the weights prove nothing; then it is open whether the targets can be met.
    """
    factor = math.nextafter(factor, math.inf)
    more, limit = factor, f"within {goal}"
    if spare is not None:
        # With a budget larger by (f² − 1) max τ, every cell has at least f² times what it had.
        more = math.sqrt(1 + (factor**2 - 1) * most_left / float(goal.budget)) * (1 + 1e-12)
        limit = f"with what the earlier plans leave of {goal}"
    remedy = RelaxTargets(rounded_up(factor), *raised(goal, more))
    if not proves_infeasible(workload, goal, witness, spare=spare):
        later = "; or give it more time: the limit ended the search before a plan was found"
        raise DesignError(
            f"it is open whether these targets can be met {limit}: neither a plan nor a proof that "
            "there is none was found; ",
            remedy,
            later if is_late else "",
            field="stderr",
        )
    # With a δ, Laplace noise of the same ε is allowed too, which the proof leaves open.
    is_open = spare is None and isinstance(goal, ApproxDP)
    if spare is None:
        limit = f"with {goal.noise.label} noise {limit}. The most is asked by {_heaviest(workload, witness)}"
    return InfeasibleError(
        f"these targets cannot be met {limit}. To make it possible, ",
        remedy,
        ". This says nothing of Laplace noise, which needs no delta" if is_open else "",
        witness=witness,
        factor=factor,
        mu=_mu(goal, more),
        curve=_epsilon,
    )


def raised(goal: Goal, factor: float) -> tuple[str, str]:
    """The parameter of a goal, and what to raise it to for standard errors smaller by a factor, rounded up.

    Example:
        >>> raised(ZCDP(0.5), 2.0)
        ('rho', '2')
    """
    if isinstance(goal, ApproxDP):
        mu = _mu(goal, factor)
        if goal.calibration == "classic":
            epsilon = mu * math.sqrt(2 * math.log(2 / float(goal.delta)))
        else:
            epsilon = _epsilon(mu, float(goal.delta))
        return "epsilon", rounded_up(epsilon)
    if isinstance(goal, PureDP):
        return "epsilon", rounded_up(float(goal.epsilon) * factor)
    if isinstance(goal, ZCDP):
        return "rho", rounded_up(_mu(goal, factor) ** 2 / 2)
    assert isinstance(goal, GDP)
    return "mu", rounded_up(_mu(goal, factor))


def _mu(goal: Goal, factor: float) -> float:
    """The μ of one person at which standard errors are smaller by a factor, rounded up."""
    if goal.mu_squared is None:
        return math.inf
    return root_above(goal.mu_squared * goal.records_per_person**2 * Fraction(factor) ** 2)


def _epsilon(mu: float, delta: float) -> float:
    return epsilon_of(Fraction(mu) ** 2, delta)


def rounded_up(value: float) -> str:
    """Four digits, rounded up, so that following the advice is enough."""
    if not 0 < value < math.inf:
        return f"{value}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    steps = math.ceil(value / unit)
    shown = f"{steps * unit:.4g}"
    return shown if float(shown) >= value else f"{(steps + 1) * unit:.4g}"


def _heaviest(workload: Workload, witness: Witness | ProductWitness) -> str:
    """The names of the batches with the largest shares of the proof, Σ p_j c_j."""
    assert witness.p is not None
    caps = Targets().batch_caps(workload)
    if isinstance(witness, ProductWitness):
        products = products_of(workload, witness.axes)
        assert products is not None
        shares = [0.0] * len(workload.blocks)
        of_terms = allowed(witness.p, caps, products, witness.rows)
        for term, share in zip(products.terms, of_terms.tolist(), strict=True):
            shares[term.block] += share
    else:
        c, counted = workload.per_query(caps, "the caps"), witness.p > 0
        each = np.where(counted, witness.p * np.where(counted, c, 0), 0)
        shares = [float(each[workload.rows_of(name)].sum()) for name in workload.names]
    ranked = sorted(zip(shares, workload.names, strict=True), key=lambda one: -one[0])[:_NAMED]
    least = _LEAST_SHARE * math.fsum(shares)
    *others, last = [repr(printable(name)) for share, name in ranked if share >= least]
    return f"{', '.join(others)} and {last}" if others else last
