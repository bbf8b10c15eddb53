"""What accurate means.

Every objective is a case of one problem over the noise, with v_j the variance of
query j, w_j its weight, c_j a cap on its variance (∞ where there is none), and the
privacy that records lose bounded by the goal:

    kind "total"               minimise  Σ_j w_j v_j
    kind "largest"             minimise  max_j v_j / c_j
    kind "total-within-caps"   minimise  Σ_j w_j v_j     subject to  v_j ≤ c_j
    kind "absolute"            minimise  √(2/π) Σ_j w_j √v_j

    TotalVariance()                       "total"
    MaxVariance()                         "largest", c_j = 1/w_j
    Targets()                             "largest", c_j = stderr_j²
    TotalVariance(within_targets=True)    "total-within-caps", c_j = stderr_j²
    AbsoluteError()                       "absolute"
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import Array
from leastnoise.query.query_blocks import check_spread
from leastnoise.query.workload import Workload

ObjectiveKind = Literal["total", "largest", "total-within-caps", "absolute"]

# E|z| of a standard normal z: what the expected absolute error of a Gaussian answer is, per standard error.
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)

# Standard errors that a target may ask for, in counts: their squares neither overflow nor vanish in float64.
_MIN_TARGET = 1e-100
_MAX_TARGET = 1e100

# Coefficients (rows times cells) computed together where a workload is visited row by row: 32 MiB.
_CHUNK_ENTRIES = 2**22


class Objective(NotebookValue, ABC):
    """What a plan minimises: its kind, and a weight and a cap for every query."""

    _unlisted = unlisted("batch_caps batch_weights caps kind name unit value weights")

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in files."""

    @property
    @abstractmethod
    def kind(self) -> ObjectiveKind:
        """Which of the four optimisation problems it is."""

    @abstractmethod
    def weights(self, workload: Workload) -> Array:
        """w, (m,): how much each variance counts; for "largest" 1/c, zero where there is no cap.

        Args:
            workload: the queries, m of them.
        """

    @abstractmethod
    def caps(self, workload: Workload) -> Array | None:
        """c, (m,): the cap on each variance, ∞ where there is none; None for "total" and
        "absolute".

        Args:
            workload: the queries, m of them.
        """

    def batch_weights(self, workload: Workload) -> list[Array]:
        """w for every batch of queries: one number where all its queries have the same, otherwise one each.

        Args:
            workload: the queries, m of them.
        """
        return [block.weights for block in workload.blocks]

    @abstractmethod
    def batch_caps(self, workload: Workload) -> list[Array] | None:
        """c for every batch of queries, as `batch_weights`; None where `caps` is.

        Args:
            workload: the queries, m of them.
        """

    @abstractmethod
    def unit(self, workload: Workload, *, has_goal: bool = True) -> str:
        """The unit of a certificate's two numbers, with or without a privacy goal.

        Args:
            workload: the queries, m of them.
            has_goal: whether a privacy goal was given.
        """

    def value(self, workload: Workload, variances: Array) -> float:
        """What is minimised, Σ_j w_j v_j, max_j v_j/c_j or √(2/π) Σ_j w_j √v_j, for given variances.

        Args:
            workload: the queries, m of them.
            variances: the variance of each answer, (m,).
        """
        if self.kind == "absolute":
            return MEAN_ABSOLUTE * math.fsum(self.weights(workload) * np.sqrt(variances))
        counted = self.weights(workload) * variances
        return math.fsum(counted) if self.kind != "largest" else float(counted.max(initial=0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `objective_from_dict` reads back."""
        return {"objective": self.name}


@dataclass(frozen=True, repr=False)
class TotalVariance(Objective):
    """Minimise the weighted sum of the variances of all answers.

    Args:
        within_targets: whether every answer must also keep its target (`stderr=` or `within=`).
        relative_to: "uniform", or a public prior π, one positive number per cell in any unit. Variances then
            count relative to the squared size of what is asked: the weight of query a is divided by Σ_i
            a_i²/π_i, with π scaled to sum 1. A query whose coefficients are all zero has no relative error
            and gets no weight. None for absolute variances.

    Example:
        >>> TotalVariance(relative_to=[3, 1])
        TotalVariance(relative_to=<a prior over 2 cells>)
    """

    within_targets: bool = False
    relative_to: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.within_targets, bool):
            raise InputError.must("within_targets", "be True or False", given=self.within_targets)
        object.__setattr__(self, "relative_to", _prior(self.relative_to))

    @property
    def name(self) -> str:
        return "total-variance-within-targets" if self.within_targets else "total-variance"

    @property
    def kind(self) -> ObjectiveKind:
        return "total-within-caps" if self.within_targets else "total"

    def weights(self, workload: Workload) -> Array:
        if self.relative_to is None:
            return workload.weights
        return _relative_weights(workload, self.relative_to)

    def caps(self, workload: Workload) -> Array | None:
        caps = self.batch_caps(workload)
        return None if caps is None else workload.per_query(caps, "the caps")

    def batch_weights(self, workload: Workload) -> list[Array]:
        if self.relative_to is None:
            return super().batch_weights(workload)
        weights = self.weights(workload)
        return [weights[workload.rows_of(block.name)] for block in workload.blocks]

    def batch_caps(self, workload: Workload) -> list[Array] | None:
        return _squared_targets(workload, self) if self.within_targets else None

    def unit(self, workload: Workload, *, has_goal: bool = True) -> str:
        return "total variance"

    def to_dict(self) -> dict[str, Any]:
        if self.relative_to is None:
            return super().to_dict()
        prior = self.relative_to if isinstance(self.relative_to, str) else list(self.relative_to)
        return {**super().to_dict(), "relative_to": prior}

    def __str__(self) -> str:
        relative = {None: "", "uniform": ", relative to uniform counts"}
        within = " within targets" if self.within_targets else ""
        is_prior = isinstance(self.relative_to, tuple)
        return f"total variance{within}" + (
            ", relative to a prior" if is_prior else relative[self.relative_to]
        )

    def __repr__(self) -> str:
        given = ["within_targets=True"] if self.within_targets else []
        if isinstance(self.relative_to, tuple):
            given.append(f"relative_to=<a prior over {len(self.relative_to):,} cells>")
        elif self.relative_to is not None:
            given.append(f"relative_to={self.relative_to!r}")
        return f"TotalVariance({', '.join(given)})"


@dataclass(frozen=True)
class MaxVariance(Objective):
    """Minimise the largest variance, each multiplied by its query's weight.

    A query of weight 0 is answered but not counted.
    """

    @property
    def name(self) -> str:
        return "max-variance"

    @property
    def kind(self) -> ObjectiveKind:
        return "largest"

    def weights(self, workload: Workload) -> Array:
        return workload.weights

    def caps(self, workload: Workload) -> Array:
        return workload.per_query(self.batch_caps(workload), "the caps")

    def batch_caps(self, workload: Workload) -> list[Array]:
        caps = []
        for block in workload.blocks:
            w = block.weights
            with np.errstate(divide="ignore", over="ignore"):
                caps.append(1 / w)
            if (np.isinf(caps[-1]) & (w > 0)).any():
                raise InputError.must(
                    "weight",
                    "be 0 or at least 1e-307 for the largest variance",
                    given=float(w[w > 0].min()),
                    remedy="scale the weights up",
                )
        return caps

    def unit(self, workload: Workload, *, has_goal: bool = True) -> str:
        are_plain = all(((b.weights == 0) | (b.weights == 1)).all() for b in workload.blocks)
        return "largest variance" if are_plain else "largest weighted variance"

    def __str__(self) -> str:
        return "largest variance"


@dataclass(frozen=True)
class AbsoluteError(Objective):
    """The least weighted sum of the expected absolute errors of all answers.

    A Gaussian answer of standard error s has the expected absolute error √(2/π) s = 0.798 s. So this is the
    least sum of standard errors, where `TotalVariance` is the least sum of their squares: queries with large
    errors count in proportion, and small tables gain where large ones would dominate a sum of squares.

    The weight of a query multiplies its absolute error; under `TotalVariance` it multiplies the variance.
    Targets are reported and not enforced, as under `MaxVariance`. For Gaussian noise only: the expected
    absolute error of a sum of Laplace noise does not follow from its standard error.
    """

    @property
    def name(self) -> str:
        return "absolute-error"

    @property
    def kind(self) -> ObjectiveKind:
        return "absolute"

    def weights(self, workload: Workload) -> Array:
        return workload.weights

    def caps(self, workload: Workload) -> None:
        return None

    def batch_caps(self, workload: Workload) -> None:
        return None

    def unit(self, workload: Workload, *, has_goal: bool = True) -> str:
        return "total absolute error"

    def __str__(self) -> str:
        return "absolute error"


@dataclass(frozen=True)
class Targets(Objective):
    """Meet the targets of all queries (`stderr=` or `within=`).

    Without a privacy goal: the least privacy loss that meets every target. With one: the smallest factor by
    which all targets must be multiplied to fit it, `plan.factor`.
    """

    @property
    def name(self) -> str:
        return "targets"

    @property
    def kind(self) -> ObjectiveKind:
        return "largest"

    def weights(self, workload: Workload) -> Array:
        return 1 / self.caps(workload)

    def caps(self, workload: Workload) -> Array:
        return workload.per_query(self.batch_caps(workload), "the caps")

    def batch_weights(self, workload: Workload) -> list[Array]:
        return [1 / caps for caps in self.batch_caps(workload)]

    def batch_caps(self, workload: Workload) -> list[Array]:
        return _squared_targets(workload, self)

    def unit(self, workload: Workload, *, has_goal: bool = True) -> str:
        return "squared factor" if has_goal else "mu squared"

    def __str__(self) -> str:
        return "targets"


def objective_from_dict(plain: Mapping[str, Any]) -> Objective:
    """The objective that `to_dict` wrote; keys of other things are left alone.

    Raises:
        InputError: for an unknown name, naming those there are.
    """
    name, relative_to = plain["objective"], plain.get("relative_to")
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise InputError.must("objective", f"be one of {', '.join(OBJECTIVES)}", given=name)
    if relative_to is None:
        return OBJECTIVES[name]
    if not name.startswith("total-variance"):
        raise InputError(
            f"relative_to goes with a total variance, not with {name!r}",
            field="relative_to",
            given=name,
            remedy="leave it out",
        )
    return TotalVariance(within_targets="within" in name, relative_to=relative_to)


def default_objective(workload: Workload, objective: Objective | None, *, has_goal: bool) -> Objective:
    """The objective asked for, or the one that the workload implies.

    Without targets total variance; with targets and a privacy goal, total variance within
    them; with targets alone, the targets.

    Raises:
        InputError: if it is not an objective, or needs targets that no query has.
    """
    if objective is None and not workload.has_targets:
        return TotalVariance()
    if objective is None:
        objective = TotalVariance(within_targets=True) if has_goal else Targets()
    if not isinstance(objective, Objective):
        raise InputError.must(
            "objective",
            "be TotalVariance(), MaxVariance(), AbsoluteError() or Targets(), with the brackets",
            given=objective,
        )
    # Found now rather than after a long search: missing targets, a prior over other cells.
    objective.batch_weights(workload)
    objective.batch_caps(workload)
    return objective


def _squared_targets(workload: Workload, objective: Objective) -> list[Array]:
    asked = np.concatenate([block.targets[np.isfinite(block.targets)] for block in workload.blocks])
    if asked.size == 0:
        raise InputError(
            f"{objective!r} needs queries with a target, as in Total(stderr=50) or Total(within=(100, 0.95))",
            field="objective",
            given=objective,
            remedy="give some, or use TotalVariance() or MaxVariance()",
        )
    if asked.min() < _MIN_TARGET or asked.max() > _MAX_TARGET:
        raise InputError.must(
            "stderr",
            f"lie between {_MIN_TARGET:.0e} and {_MAX_TARGET:.0e}",
            given=(float(asked.min()), float(asked.max())),
        )
    return [block.targets**2 for block in workload.blocks]


def _prior(given: Any) -> str | tuple[float, ...] | None:
    """ "uniform", None, or positive numbers scaled to sum 1."""
    if given is None or (isinstance(given, str) and given == "uniform"):
        return given
    wanted = 'be "uniform" or one positive, finite number for every cell'
    if isinstance(given, str):
        raise InputError.must("relative_to", wanted, given=given)
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError.must("relative_to", wanted, given=type(given)) from None
    if values.ndim != 1 or values.size == 0:
        raise InputError.must("relative_to", wanted, given=values.shape)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError.must("relative_to", wanted, given=(float(values.min()), float(values.max())))
    shares = values / values.max()
    if float(shares.min()) < 1e-100:
        raise InputError.must(
            "relative_to",
            "span at most a factor of 1e100",
            given=(float(values.min()), float(values.max())),
            remedy="bring the numbers closer together",
        )
    # What sums to 1 already stays as it is, so that a prior read back from a file is the same.
    if abs(float(values.sum()) - 1) > 1e-12:
        values = shares / math.fsum(shares)
    return tuple(values.tolist())


_RELATIVE: WeakKeyDictionary[Workload, dict[Any, Array]] = WeakKeyDictionary()


def _relative_weights(workload: Workload, prior: str | tuple[float, ...]) -> Array:
    """w_j / Σ_i a_ji²/π_i for every query, computed once for each workload."""
    known = _RELATIVE.setdefault(workload, {})
    if prior not in known:
        known[prior] = _sized_by(workload, prior)
    return known[prior]


def _sized_by(workload: Workload, prior: str | tuple[float, ...]) -> Array:
    m, n = workload.shape
    if isinstance(prior, tuple) and len(prior) != n:
        raise InputError.must(
            "relative_to", f"hold one number for each of the workload's {n:,} cells", given=len(prior)
        )
    if isinstance(prior, str) and _is_counting(workload):
        # Counts of cells: 0.01 s for the 524,800 ranges of 1,024 cells, row by row 7 s.
        squares = n * workload.operator.apply(np.ones(n))
        weights = np.divide(workload.weights, squares, out=np.zeros(m), where=squares > 0)
    else:
        weights = _sized_row_by_row(
            workload, np.full(n, n) if isinstance(prior, str) else 1 / np.array(prior)
        )
    if not np.isfinite(weights).all():
        raise InputError.must(
            "relative_to",
            "leave weights that floats can hold",
            given="weights too large for floats",
            remedy="scale the queries up",
        )
    if not (weights > 0).any():
        raise InputError(
            "relative_to leaves no query with a weight, because all coefficients are zero",
            field="relative_to",
            remedy="add other queries",
        )
    check_spread(weights)
    weights.setflags(write=False)
    return weights


def _is_counting(workload: Workload) -> bool:
    """Whether every coefficient is 0 or 1."""
    W = workload.operator
    return (
        W.is_integer
        and W.largest <= 1
        and np.array_equal(W.column_norms(1), np.asarray(W.adjoint(np.ones(W.shape[0]))))
    )


def _sized_row_by_row(workload: Workload, inverse: Array) -> Array:
    m, n = workload.shape
    weights = np.empty(m)
    step = max(1, _CHUNK_ENTRIES // n)
    for start in range(0, m, step):
        index = np.arange(start, min(start + step, m))
        rows = workload.operator.rows(index)
        size = np.abs(rows).max(axis=1, initial=0)
        # In units of the largest coefficient, so that squares stay within floats.
        unit = np.where(size > 0, size, 1)
        squares = ((rows / unit[:, None]) ** 2) @ inverse
        with np.errstate(over="ignore"):
            own = workload.weights[index] / np.where(size > 0, squares, 1) / unit / unit
        weights[index] = np.where(size > 0, own, 0)
    return weights


# The names that files use.
OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        TotalVariance(),
        MaxVariance(),
        Targets(),
        TotalVariance(within_targets=True),
        AbsoluteError(),
    )
}
