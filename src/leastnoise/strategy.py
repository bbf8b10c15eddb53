"""The integer strategy that is really measured, and how a real-valued one becomes it.

An optimiser works in floating point and is not trusted. It hands over real
coefficients C on an integer basis B of the queries' row space. Here C is rounded
to integers on a fine grid, the strategy A = C·B is multiplied out exactly, its
sensitivity is taken from the integers, and the noise scale is the least integer
that the budget allows, compared in rationals:

    y = A x + noise,   Δ²/σ² ≤ μ²  (Gaussian)   or   Δ₁/b ≤ ε  (Laplace)

From then on only A and its scale count. Standard errors, profile, certificate
and reconstruction are computed from them, so a wrong optimiser can cost
accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from leastnoise import exact
from leastnoise.errors import DesignError, TooLargeError
from leastnoise.operators import Array, Operator
from leastnoise.privacy import Goal

Noise = Literal["gaussian", "laplace"]

# A published strategy beyond this many entries is left implicit.
MAX_DENSE_STRATEGY = 10**7

# Rounding may change the noise by about this relative amount; the gap asked by
# default is a hundred times larger.
GRID_TOLERANCE = 1e-8

# With σ (or b) at least 2^14 grid steps, the variance 1/12 of rounding the
# noise to the grid is below 4e-10 of it.
LEAST_SCALE_BITS = 14

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


class Strategy(Operator):
    """Integer rows and the integer scale of the noise added to each of their answers."""

    def __init__(self, rows: Array, *, scale: int, noise: Noise) -> None:
        self.entries = exact.as_integers(rows)
        self.entries.setflags(write=False)
        self.shape = (self.entries.shape[0], self.entries.shape[1])
        self.scale = scale
        self.noise: Noise = noise

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

    def dense(self, dtype: npt.DTypeLike = np.float64) -> Array:
        """The integer rows as an array; refused above ten million entries."""
        if self.entries.size > MAX_DENSE_STRATEGY:
            raise TooLargeError(
                f"the strategy has {self.shape[0]:,} x {self.shape[1]:,} entries; at most "
                f"{MAX_DENSE_STRATEGY:,} are written out. Use apply(), adjoint() or rows()."
            )
        return self.entries.astype(dtype)

    @cached_property
    def _floats(self) -> Array:
        return self.entries.astype(float)

    def answers(self, counts: Array) -> Array:
        """A x in exact integers, for int64 or Python-integer counts."""
        return exact.matrix_times_counts(self.entries, counts)

    @cached_property
    def column_costs(self) -> tuple[int, ...]:
        """What a record of each cell adds, exactly: Σ a² (Gaussian) or Σ |a| (Laplace)."""
        if self.noise == "gaussian":
            return tuple(exact.column_square_sums(self.entries))
        return tuple(exact.column_absolute_sums(self.entries))

    @property
    def sensitivity(self) -> int:
        """Δ² (Gaussian) or Δ₁ (Laplace): the largest effect of one record, exactly."""
        return max(self.column_costs)

    @property
    def spent(self) -> Fraction:
        """μ² = Δ²/σ² (Gaussian) or ε = Δ₁/b (Laplace) per record, exactly."""
        return Fraction(self.sensitivity, self._unit)

    @property
    def profile(self) -> Array:
        """What a record of each cell spends, (n,): μ² (Gaussian) or ε (Laplace), rounded up."""
        return np.array([_float_above(Fraction(cost, self._unit)) for cost in self.column_costs])

    @property
    def _unit(self) -> int:
        return self.scale**2 if self.noise == "gaussian" else self.scale

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each row, rounding to the grid included.

        Gaussian: σ² + 1/12, up to terms of order exp(−2π²σ²), which are nothing
        at the scales used here. Laplace on the integers with scale b:
        2q/(1 − q)², q = exp(−1/b), which is 1/(2 sinh²(1/(2b))).
        """
        if self.noise == "gaussian":
            return float(self.scale) ** 2 + 1 / 12
        return 0.5 / math.sinh(0.5 / self.scale) ** 2

    @cached_property
    def pseudo_inverse(self) -> Array:
        """A⁺ as a float (n, r) array: noisy row answers to estimated cells."""
        from scipy import linalg

        A = self._floats
        r, n = self.shape
        if r == n and not np.tril(A, -1).any() and np.diag(A).all():
            return np.asarray(linalg.solve_triangular(A, np.eye(n)))
        U, s, Vt = linalg.svd(A, full_matrices=False)
        kept = s > _RANK_TOL * s[0] if s.size else s > 0
        return np.asarray((Vt[kept].T / s[kept]) @ U[:, kept].T)

    @cached_property
    def covariance(self) -> Array:
        """The (n, n) covariance of the estimated cells, in counts squared."""
        return self.noise_variance * (self.pseudo_inverse @ self.pseudo_inverse.T)

    def spans(self, rows: Array) -> Array:
        """Which of the given rows (j, n) this strategy can answer without bias, as booleans (j,)."""
        if self.shape[0] >= self.shape[1] and self._is_full_rank:
            return np.ones(len(rows), dtype=bool)
        left_over = rows - (rows @ self.pseudo_inverse) @ self._floats
        scale = np.abs(rows).max(axis=1, initial=0)
        return np.abs(left_over).max(axis=1, initial=0) <= 1e-7 * np.maximum(scale, 1e-300)

    @cached_property
    def _is_full_rank(self) -> bool:
        return bool(np.linalg.matrix_rank(self.pseudo_inverse) == self.shape[1])

    def __repr__(self) -> str:
        r, n = self.shape
        return f"Strategy({r:,} integer rows over {n:,} cells, {self.noise} noise of scale {self.scale:,})"


def integer_strategy(proposal: RealStrategy, goal: Goal) -> Strategy:
    """The integer strategy that measures a proposal within a privacy goal.

    Guarantee:
        spent ≤ the goal's budget per record, compared in exact rationals, with
        the sensitivity taken from the integer rows that are measured. Nothing
        about the proposal is trusted.

    Raises:
        DesignError: if the proposal is not finite, or rounding would lose a direction.
    """
    C = np.asarray(proposal.coefficients)
    if not np.isfinite(C.astype(float)).all():
        raise DesignError("the strategy found is not finite; rescale the workload's rows")
    if C.dtype.kind == "i":
        scaled = C.astype(object) << _grid_bits_of_integers(C, goal)
    else:
        scaled = _rounded(C, proposal.basis, goal)
    rows = exact.as_integers(scaled)
    if proposal.basis is not None:
        rows = exact.as_integers(exact.product(rows, exact.as_integers(proposal.basis)))
    return _scaled_to(goal, rows)


def _scaled_to(goal: Goal, rows: Array) -> Strategy:
    """Integer rows with the least integer scale that the goal allows."""
    noise: Noise = "laplace" if goal.noise == "laplace" else "gaussian"
    bare = Strategy(rows, scale=1, noise=noise)
    budget = goal.epsilon_per_record if noise == "laplace" else goal.mu_squared
    assert budget is not None
    # Integers a/b with a, b > 0: the least s with s·budget ≥ Δ is ⌈Δ/budget⌉.
    least = -(-bare.sensitivity * budget.denominator // budget.numerator)
    scale = least if noise == "laplace" else math.isqrt(max(least - 1, 0)) + 1
    strategy = Strategy(rows, scale=max(scale, 1), noise=noise)
    if strategy.spent > budget:
        raise DesignError("the noise scale does not keep the budget; this is a fault of leastnoise")
    return strategy


def _rounded(C: Array, basis: Array | None, goal: Goal) -> Array:
    """The coefficients on a dyadic grid fine enough that rounding costs about GRID_TOLERANCE.

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
    normal = C / largest_column
    if not np.diag(normal).all():
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    # Rounding errors E are spread over ±½ step: the relative change of the noise
    # is about ‖E C⁻¹‖_F = step · √(k/12) · ‖C⁻¹‖_F.
    inverse = linalg.solve_triangular(normal, np.eye(k))
    spread = math.sqrt(k / 12) * float(np.linalg.norm(inverse))
    bits = max(math.ceil(math.log2(max(spread, 1.0) / GRID_TOLERANCE)), _bits_for_scale(goal))
    real = np.rint(np.ldexp(normal, min(bits, 900)))
    grid = real.astype(np.int64) if bits < exact.SAFE_BITS else np.vectorize(int, otypes=[object])(real)
    if not grid.diagonal().all():
        raise DesignError("rounding would lose a direction; rescale the workload's rows")
    return np.asarray(grid)


def _grid_bits_of_integers(C: Array, goal: Goal) -> int:
    # Integer rows need no rounding; the factor only makes the grid of the noise fine.
    return max(_bits_for_scale(goal), 30 - exact.bit_length(C))


def _bits_for_scale(goal: Goal) -> int:
    """Bits of Δ that leave the noise at least LEAST_SCALE_BITS wide, whatever the budget."""
    budget = goal.epsilon_per_record if goal.noise == "laplace" else goal.mu_squared
    assert budget is not None
    magnitude = budget.numerator.bit_length() - budget.denominator.bit_length() + 1
    root = magnitude if goal.noise == "laplace" else -(-magnitude // 2)
    return max(20, LEAST_SCALE_BITS + root)


def _float_above(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
