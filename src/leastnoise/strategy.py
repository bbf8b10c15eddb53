"""The integer strategy that is really measured, and how a real-valued one becomes it.

An optimiser works in floating point and is not trusted. It hands over real
coefficients C on an integer basis B of the queries' row space. Here C is rounded
to integers on a fine grid, the strategy A = C·B is multiplied out exactly, its
sensitivity is taken from the integers, and the noise scale is the least integer
that the budget allows, compared in rationals:

    y = A x + noise,   Δ²/σ² ≤ μ²  (Gaussian)   or   Δ₁/b ≤ ε  (Laplace)

Where records are added or removed, Δ is the largest norm of a column of A; where
one is replaced by another, the largest distance of two columns of [A 0], the zero
column standing for a record that is not counted.

From then on only A and its scale count. Standard errors, profile, certificate
and reconstruction are computed from them, so a wrong optimiser can cost
accuracy, never privacy.

Where earlier plans have used part of a budget μ², cell i has τ_i = μ² − Σ_r u_i^(r) left, and the
scale is the least with ‖a_i‖²/σ² ≤ τ_i in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise import exact, laplace_tails
from leastnoise.accounting import CellCosts, shown
from leastnoise.directed import float_above
from leastnoise.errors import DesignError, PrivacyError, TooLargeError
from leastnoise.measured import CountTables, Measured, Neighbours, Noise, Spread
from leastnoise.operators import Array, Operator, require_room
from leastnoise.privacy import Goal
from leastnoise.workload import Workload

# A published strategy beyond this many entries is left implicit.
MAX_DENSE_STRATEGY = 10**7

# Rounding may change the noise by about this relative amount; the gap asked by
# default is a hundred times larger.
GRID_TOLERANCE = 1e-8

# With σ (or b) at least 2^28 grid steps, rounding it up to a whole number costs
# less than 1e-8 of the variance, and rounding the noise to the grid nothing.
LEAST_SCALE_BITS = 28

# The gap those two are meant for. Where a smaller one is asked for, the grid is finer in
# proportion, up to so many bits: floats hold no strategy to more digits.
_USUAL_GAP, _MOST_FINER = 1e-6, 20

# Goals whose μ (or ε) per record is beyond 2^±120 would need variances that floats
# cannot describe.
_GOAL_BITS = 120

# A query this much outside what was measured, beside its own size, is refused: at
# 2^33 people the bias of one let through is below one count.
_SPAN_TOL = 1e-10

# Up to this many products of a query with a column of the inverse, variances are multiplied out; beyond,
# quadratic forms are used where they keep all but this share.
MAX_MULTIPLIED, _CANCELLED = 2**28, 1e-9

# The reconstruction treats directions this much weaker than the strongest as absent.
_RANK_TOL = 1e-11


@dataclass(frozen=True, eq=False)
class RealStrategy:
    """What a method proposes: rows C·B with real or already integer coefficients.

    Attributes:
        coefficients: C, (r, k); any positive multiple of it is the same proposal.
        basis: B, an integer (k, n) array, or None for the identity.
    """

    coefficients: Array
    basis: Array | None = None

    def measured_within(self, goal: Goal, *, tol: float, spare: CellCosts | None = None) -> Strategy:
        """The integer strategy that measures this within a privacy goal; see `integer_strategy`."""
        return integer_strategy(self, goal, tol=tol, spare=spare)


class Strategy(Operator, Measured):
    """Integer rows, the integer scale of the noise added to each of their answers, and against what.

    `neighbours` says what one record may do, be added or removed ("add-remove") or
    be replaced by another ("replace-one"); sensitivity, profile and what is spent follow it.
    """

    def __init__(
        self, rows: Array, *, scale: int, noise: Noise, neighbours: Neighbours = "add-remove"
    ) -> None:
        self.scale = scale
        self.noise: Noise = noise
        self.neighbours: Neighbours = neighbours
        self._check_noise()
        if np.ndim(rows) != 2 or np.shape(rows)[1] == 0:
            raise DesignError(f"a strategy needs rows over at least one cell, got shape {np.shape(rows)}")
        self.entries = exact.as_integers(rows)
        self.entries.setflags(write=False)
        self.shape = (self.entries.shape[0], self.entries.shape[1])
        self.__dict__["_is_complete"] = True

    @property
    def n_measured(self) -> int:
        return self.shape[0]

    @property
    def n_cells(self) -> int:
        return self.shape[1]

    @property
    def largest(self) -> float:
        return float(2 ** exact.bit_length(self.entries))

    def apply(self, x: Array) -> Array:
        return np.asarray(self._floats @ x)

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self._floats.T @ y)

    def gram(self) -> Array:
        return self._floats.T @ self._floats

    def rows(self, index: Sequence[int] | Array) -> Array:
        return self._floats[np.asarray(index, dtype=np.intp)]

    def dense(self, dtype: npt.DTypeLike | None = None) -> Array:
        """The integer rows as an array, exactly unless another dtype is asked; refused above 10⁷ entries."""
        if self.entries.size > MAX_DENSE_STRATEGY:
            raise TooLargeError(
                f"the strategy has {self.shape[0]:,} x {self.shape[1]:,} entries; at most "
                f"{MAX_DENSE_STRATEGY:,} are written out. Use apply(), adjoint() or rows()."
            )
        return self.entries.copy() if dtype is None else self.entries.astype(dtype)

    @cached_property
    def _floats(self) -> Array:
        return self.entries.astype(float)

    def answers(self, counts: Array) -> Array:
        """A x in exact integers, for int64 or Python-integer counts."""
        return exact.matrix_times_counts(self.entries, counts)

    @cached_property
    def column_costs(self) -> tuple[int, ...]:
        """The most that one record of each cell can change, exactly: Σ a² (Gaussian) or Σ |a| (Laplace).

        a is the cell's own column where records are added or removed; where they are
        replaced, the difference of it and another column, or its own, whichever is most.
        """
        if self.neighbours == "replace-one":
            power = 2 if self.noise == "gaussian" else 1
            return tuple(exact.largest_pair_costs(self.entries, power, _product_of_limbs))
        if self.noise == "gaussian":
            return tuple(exact.column_square_sums(self.entries))
        return tuple(exact.column_absolute_sums(self.entries))

    @property
    def sensitivity(self) -> int:
        """Δ² (Gaussian) or Δ₁ (Laplace): the largest effect of one record, exactly."""
        return max(self.column_costs)

    @property
    def profile(self) -> Array:
        """What a record of each cell spends, (n,): μ² (Gaussian) or ε (Laplace), rounded up."""
        return np.array([float_above(spent) for spent in self.spent_per_cell])

    @property
    def spent_per_cell(self) -> list[Fraction]:
        """What a record of each cell spends, exactly: μ² (Gaussian) or ε (Laplace)."""
        return [Fraction(cost, self.unit) for cost in self.column_costs]

    @property
    def pseudo_inverse(self) -> Array:
        """A⁺ as a float (n, r) array: noisy row answers to estimated cells."""
        return self._inverse_and_rank[0]

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        from scipy import linalg

        A = self._floats
        r, n = self.shape
        if r == n and np.count_nonzero(A) == np.count_nonzero(np.diag(A)) == n:
            return np.diag(1 / np.diag(A)), n
        if r == n and not np.tril(A, -1).any() and np.diag(A).all():
            return np.asarray(linalg.solve_triangular(A, np.eye(n))), n
        if not A.any():
            return np.zeros((n, r)), 0
        U, s, Vt = linalg.svd(A, full_matrices=False)
        kept = s > _RANK_TOL * s[0]
        return np.asarray((Vt[kept].T / s[kept]) @ U[:, kept].T), int(kept.sum())

    @cached_property
    def covariance(self) -> Array:
        """The (n, n) covariance of the estimated cells, in counts squared."""
        return self.noise_variance * (self.pseudo_inverse @ self.pseudo_inverse.T)

    def variances(self, operator: Operator) -> Array:
        """The variance of the answer to each row of an operator, (m,), in counts squared."""
        m, n = operator.shape
        r = self.shape[0]
        if m * r > MAX_MULTIPLIED and operator.is_quick:
            return self._variances_by_covariance(operator)
        # A sum of squares: nothing cancels, and the (n, n) covariance is not built.
        total = np.zeros(m)
        step = max(1, 2**22 // max(m, n))
        for start in range(0, r, step):
            total += (operator.apply(self.pseudo_inverse[:, start : start + step]) ** 2).sum(axis=1)
        return self.noise_variance * total

    def _variances_by_covariance(self, operator: Operator) -> Array:
        """The same for very many rows, through quadratic forms; where those lose digits, row by row.

        The form of row w is known to about n roundings of (Σ_i |w_i| √C_ii)². Rows of quick
        operators have entries of one sign.
        """
        covariance = self.covariance
        found = operator.quadratic(covariance)
        spread = operator.apply(np.sqrt(np.maximum(np.diag(covariance), 0))) ** 2
        doubtful = np.flatnonzero(operator.shape[1] * np.finfo(float).eps * spread > _CANCELLED * found)
        step = max(1, 2**22 // operator.shape[1])
        for start in range(0, len(doubtful), step):
            index = doubtful[start : start + step]
            answers = operator.rows(index) @ self.pseudo_inverse
            found[index] = self.noise_variance * (answers**2).sum(axis=1)
        return np.asarray(found)

    def spans(self, rows: Array) -> Array:
        """Which of the given rows (j, n) this strategy can answer without bias, as booleans (j,)."""
        if self._is_full_rank:
            return np.ones(len(rows), dtype=bool)
        left_over = rows - (rows @ self.pseudo_inverse) @ self._floats
        scale = np.abs(rows).max(axis=1, initial=0)
        return np.abs(left_over).max(axis=1, initial=0) <= _SPAN_TOL * np.maximum(scale, 1e-300)

    def can_answer(self, operator: Operator) -> bool:
        """Whether every row of an operator can be answered without bias."""
        if self._is_full_rank:
            return True
        spanning = operator.basis()
        step = max(1, 2**22 // spanning.shape[1])
        return all(
            self.spans(spanning.rows(np.arange(start, min(start + step, spanning.shape[0])))).all()
            for start in range(0, spanning.shape[0], step)
        )

    def can_answer_all(self, workload: Workload) -> bool:
        return self.can_answer(workload.operator)

    def first_unanswerable(self, workload: Workload) -> int | None:
        operator = workload.operator
        step = max(1, 2**22 // operator.shape[1])
        for start in range(0, operator.shape[0], step):
            answerable = self.spans(operator.rows(np.arange(start, min(start + step, operator.shape[0]))))
            if not answerable.all():
                return start + int(np.argmin(answerable))
        return None

    def variances_of(self, workload: Workload) -> Array:
        return self.variances(workload.operator)

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        gains = [workload.operator.apply(self.pseudo_inverse) for workload in (left, right)]
        return np.asarray(self.noise_variance * (gains[0] @ gains[1].T))

    def spreads(self, workload: Workload) -> list[Spread]:
        variances = self.variances_of(workload)
        parts = [variances[workload.rows_of(name)] for name in workload.names]
        return [
            Spread(
                math.sqrt(part.min()),
                float(np.median(np.sqrt(part))),
                math.sqrt(part.max()),
                float(part.mean()),
            )
            for part in parts
        ]

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        w = workload.per_query(weights, "the weights")
        # In counts, so that squares of weights and scales do not meet.
        G, unit = self.pseudo_inverse, math.sqrt(self.noise_variance)
        m = workload.shape[0]
        total = 0.0
        step = max(1, 2**22 // max(m, len(G)))
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum of squares, in which nothing cancels, unless queries are too many to multiply out.
            V = workload.weighted_gram(w) if m * G.shape[1] > MAX_MULTIPLIED else None
            for start in range(0, G.shape[1], step if V is None else len(G)):
                part = G[:, start : start + (step if V is None else len(G))] * unit
                if V is None:
                    total += float(w @ (workload.operator.apply(part) ** 2).sum(axis=1))
                else:
                    total += float(np.vdot(part, V @ part))
        return total

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        c = workload.per_query(caps, "the caps")
        with np.errstate(over="ignore"):
            return float((self.variances_of(workload) / c).max(initial=0))

    def exact_answers(self, tables: CountTables) -> Array:
        return self.answers(tables(None)[0].reshape(-1))

    def estimates(self, measurements: Array) -> Array:
        return np.asarray(self.pseudo_inverse @ measurements.astype(float))

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return workload.operator.apply(self.estimates(measurements))

    def simulated_errors(self, workload: Workload, noise: Array) -> Array:
        # Few queries over many cells: from noise to errors at once, past the cells.
        if workload.shape[0] <= self.shape[1]:
            return np.asarray(self._gains_of(workload) @ noise)
        return workload.operator.apply(self.pseudo_inverse @ noise)

    def _gains_of(self, workload: Workload) -> Array:
        # Simulated in many pieces: kept for the workload that was asked last.
        last = self.__dict__.get("_last_gains")
        if last is None or last[0] is not workload:
            last = (workload, workload.operator.apply(self.pseudo_inverse))
            self.__dict__["_last_gains"] = last
        return np.asarray(last[1])

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        operator = workload.operator
        block = max(1, 2**24 // max(self.shape))

        def gains() -> Iterator[Array]:
            for start in range(0, operator.shape[0], block):
                index = np.arange(start, min(start + block, operator.shape[0]))
                yield operator.rows(index) @ self.pseudo_inverse

        return laplace_tails.half_widths(gains, scale=self.scale, alpha=alpha)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {"rows": exact.to_limbs(self.entries)}

    @cached_property
    def _is_full_rank(self) -> bool:
        r, n = self.shape
        if r < n:
            return False
        # A triangle of integers is judged by its diagonal, exactly.
        if r == n and self.entries.diagonal().all() and not np.tril(self.entries, -1).any():
            return True
        return self._inverse_and_rank[1] == n

    def with_scale(self, scale: int) -> Strategy:
        """The same rows with another scale of the noise; what was worked out from the rows is kept."""
        other = Strategy(self.entries, scale=scale, noise=self.noise, neighbours=self.neighbours)
        # Comparing all pairs of columns again, or inverting again, would double the time.
        for name in ("column_costs", "_floats", "_inverse_and_rank", "_is_full_rank"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def __repr__(self) -> str:
        r, n = self.shape
        return f"Strategy({r:,} integer rows over {n:,} cells, {self.noise} noise of scale {self.scale:,})"


def integer_strategy(
    proposal: RealStrategy, goal: Goal, *, tol: float = _USUAL_GAP, spare: CellCosts | None = None
) -> Strategy:
    """The integer strategy that measures a proposal within a privacy goal.

    Args:
        tol: the relative gap to the optimum that was asked for; rounding costs far less.
        spare: what a record of each cell may spend, where earlier plans have used part of the goal.

    Guarantee:
        spent ≤ the goal's budget per record, or in every cell what is spare there, compared
        in exact rationals, with the sensitivity taken from the integer rows that are
        measured. Nothing about the proposal is trusted.

    Raises:
        DesignError: if the proposal is not finite, or rounding would lose a direction.
    """
    C = np.asarray(proposal.coefficients)
    if not np.isfinite(C.astype(float)).all():
        raise DesignError("the strategy found is not finite; rescale the workload's rows")
    if C.dtype.kind == "i":
        bits = _grid_bits_of_integers(C, goal, tol)
        is_wide = exact.bit_length(C) + bits > exact.SAFE_BITS
        scaled = C.astype(object if is_wide else np.int64) << bits
    else:
        scaled = _rounded(C, proposal.basis, goal, tol)
    rows = exact.as_integers(scaled)
    if proposal.basis is not None:
        rows = exact.as_integers(exact.product(rows, exact.as_integers(proposal.basis)))
    return _scaled_to(goal, rows, spare)


def _scaled_to(goal: Goal, rows: Array, spare: CellCosts | None) -> Strategy:
    """Integer rows with the least integer scale that the goal allows."""
    noise: Noise = "laplace" if goal.noise == "laplace" else "gaussian"
    # A goal takes no other neighbours than these two.
    neighbours: Neighbours = "replace-one" if goal.neighbours == "replace-one" else "add-remove"
    bare = Strategy(rows, scale=1, noise=noise, neighbours=neighbours)
    strategy = bare.with_scale(least_scale(bare, goal, spare))
    check_spent(strategy, goal, spare)
    return strategy


def spare_of(goal: Goal, used: CellCosts) -> CellCosts:
    """What a record of each cell may still spend within a goal, exactly: τ_i = μ² − used_i.

    Raises:
        PrivacyError: if some cell has used more than the goal.
    """
    budget = goal.budget
    left = tuple(budget.numerator * used.unit - budget.denominator * cost for cost in used.numerators)
    if min(left) < 0:
        k = goal.records_per_person
        raise PrivacyError(
            f"the earlier plans already spend μ² = {shown(used.largest * k * k)} per person, and the goal "
            f"{goal} allows {shown(budget * k * k)} for all plans together; give a larger goal, or none to "
            "stay within what they spend"
        )
    return CellCosts(left, budget.denominator * used.unit)


def cell_costs(strategy: Measured) -> CellCosts:
    """What a record of each cell spends, exactly, over the strategy's own unit.

    Raises:
        TooLargeError: where there are more cells than can be listed.
    """
    unit = strategy.unit
    if isinstance(strategy, Strategy):
        return CellCosts(strategy.column_costs, unit)
    return CellCosts(tuple(int(spent * unit) for spent in strategy.spent_per_cell), unit)


def is_within(strategy: Measured, goal: Goal, spare: CellCosts | None) -> bool:
    """Whether no record spends more than the goal, or than what is spare in its cell; in rationals."""
    if spare is None:
        return strategy.spent <= goal.budget
    own = cell_costs(strategy)
    pairs = zip(own.numerators, spare.numerators, strict=True)
    return all(cost * spare.unit <= left * own.unit for cost, left in pairs)


def check_spent(strategy: Measured, goal: Goal, spare: CellCosts | None) -> None:
    """Return if a scale that was chosen here keeps the budget.

    Raises:
        DesignError: if it does not, which no input can bring about.
    """
    if not is_within(strategy, goal, spare):
        raise DesignError("the noise scale does not keep the budget; this is a fault of leastnoise")


def least_scale(bare: Measured, goal: Goal, spare: CellCosts | None = None) -> int:
    """The least integer scale of the noise that keeps a goal, for integers whose sensitivity is known.

    Args:
        bare: the integers, with noise of scale 1.
        spare: what a record of each cell may spend, instead of the whole budget.

    Raises:
        DesignError: if the goal is beyond what can be planned, or a cell is measured in which nothing
            is spare.
    """
    budget = goal.budget
    power = 1 if bare.noise == "laplace" else 2
    if not Fraction(1, 2 ** (power * _GOAL_BITS)) <= budget <= 2 ** (power * _GOAL_BITS):
        raise DesignError(
            f"the goal {goal} is beyond what can be planned: epsilon or mu per record must lie between "
            f"{2.0**-_GOAL_BITS:.0e} and {2.0**_GOAL_BITS:.0e}"
        )
    # Integers a/b with a, b > 0: the least s with s·budget ≥ Δ is ⌈Δ/budget⌉.
    if spare is None:
        least = -(-bare.sensitivity * budget.denominator // budget.numerator)
    else:
        pairs = zip(cell_costs(bare).numerators, spare.numerators, strict=True)
        measured = [(cost, left) for cost, left in pairs if cost]
        if not all(left for _, left in measured):
            raise DesignError("a cell would be measured in which the earlier plans leave nothing to spend")
        least = max((-(-cost * spare.unit // left) for cost, left in measured), default=0)
    return max(least if bare.noise == "laplace" else math.isqrt(max(least - 1, 0)) + 1, 1)


def _rounded(C: Array, basis: Array | None, goal: Goal, tol: float) -> Array:
    """The coefficients on a dyadic grid fine enough that rounding costs about GRID_TOLERANCE, or tol/100.

    C must be square and upper triangular: then a nonzero diagonal, seen on the
    integers, proves that no direction was lost.
    """
    from scipy import linalg

    k = C.shape[0]
    if C.shape != (k, k) or np.tril(C, -1).any():
        raise DesignError("real coefficients must come as an upper triangular square")
    if k == 0:
        return C.astype(object)
    largest_column = np.sqrt((C**2).sum(axis=0)).max()
    if basis is not None:
        largest_column = np.sqrt(((C @ basis.astype(float)) ** 2).sum(axis=0)).max()
    normal = C / (largest_column or 1.0)
    if not np.diag(normal).all():
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    # Rounding errors E are spread over ±½ step: the relative change of the noise
    # is about ‖E C⁻¹‖_F = step · √(k/12) · ‖C⁻¹‖_F.
    inverse = linalg.solve_triangular(normal, np.eye(k))
    spread = math.sqrt(k / 12) * float(np.linalg.norm(inverse))
    bits = math.ceil(math.log2(max(spread, 1.0) / GRID_TOLERANCE)) + finer_bits(tol)
    bits = max(bits, bits_for_scale(goal, tol))
    real = np.rint(np.ldexp(normal, min(bits, 900)))
    # On an ill-conditioned basis the coefficients are far larger than the columns of C·B.
    is_wide = np.abs(real).max() >= 2.0**exact.SAFE_BITS
    grid = np.vectorize(int, otypes=[object])(real) if is_wide else real.astype(np.int64)
    if not grid.diagonal().all():
        raise DesignError("rounding would lose a direction; rescale the workload's rows")
    return np.asarray(grid)


def bits_for_scale(goal: Goal, tol: float) -> int:
    """Bits of Δ that leave the noise at least LEAST_SCALE_BITS wide, whatever the budget."""
    budget = goal.budget
    magnitude = budget.numerator.bit_length() - budget.denominator.bit_length() + 1
    root = magnitude if goal.noise == "laplace" else -(-magnitude // 2)
    return max(20, LEAST_SCALE_BITS + root) + finer_bits(tol)


def _grid_bits_of_integers(C: Array, goal: Goal, tol: float) -> int:
    # Integer rows need no rounding; the factor only makes the grid of the noise fine.
    return max(bits_for_scale(goal, tol), 30 - exact.bit_length(C))


def finer_bits(tol: float) -> int:
    """Bits by which the grid is finer than usual, for a gap smaller than usual."""
    return min(math.ceil(math.log2(max(_USUAL_GAP / tol, 1.0))), _MOST_FINER)


def _product_of_limbs(left: Array, right: Array) -> Array:
    """leftᵀ right in int64, exact where sums of absolute products stay below 2^52.

    Every partial sum is then a whole number that float64 holds, in whatever order it is
    taken: 0.025 s for 512 by 512 columns of 2,000 rows, where int64 takes 2.9 s.
    """
    return (left.T.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
