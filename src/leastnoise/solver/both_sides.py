"""Few directions and very many columns, most of them nearly tight: passes over all, both sides in turn.

Where hundreds of random conditions meet a million cells, most profiles are within a few per cent of the
largest at the optimum, so that no small working set of columns stands for all. Every step then passes over
all columns r_i, for a Gram matrix K(q) = Σ q_i r_i r_iᵀ and for profiles u_i = ‖M r_i‖².

    weights   q ← q ∘ u^1.5 raises the bound F(q)²/Σq, F = trace K^½. Anderson's acceleration, in logarithms,
              gains as much in 80 steps as the plain iteration in many hundreds; a step that lowers the bound
              is replaced by a plain one.
    noise     the noise of weights near the optimum exceeds profiles by far more than their bound is low. So
              the precision P = AᵀLᵀLA is sought by itself, from the best noise so far (L = I), as the
              minimum of the smooth log trace(P⁻¹) + (1/β) log Σ u_i^β, by L-BFGS over triangles L, β rising.

On 100 conditions that tell apart 48,114 cells the gap was 1.2 % after 30 steps, 0.25 % after 75, 0.1 % after
140 and 0.07 % after 208 (the plain iteration: 1 % after 200).

Each side is measured against the other: what is achieved is trace(P⁻¹) max u, for any P.

Reference:
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.capped import Run
from leastnoise.solver.column_generation import ColumnSource, generate_columns
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.fixed_point import Move, accelerated
from leastnoise.solver.optimum import Optimum

# Steps of the weights before the first search for noise, and after each.
_STEPS = 30

# The power of the profile by which a step multiplies weights.
_POWER = 1.5

# Steps that the acceleration looks back on.
_DEPTH = 8

# A step may lower the bound by this share without being replaced.
_FALL = 1e-4

# Logarithms of weights keep this distance from the largest.
_LEAST_LOG = -40.0

# What is added to the share of a weight of the largest, where moves of logarithms are compared.
_LIGHT = 1e-4

# Singular values of past moves below this share of the largest are left out.
_RCOND = 1e-8

# β of one search for noise after the other: log(10⁶)/β is what the smooth maximum is too high by at most.
_SHARPNESS = (1e3, 1e4, 3e4, 1e5, 3e5)

# Steps of L-BFGS for each β, and how many it looks back on.
_NOISE_STEPS = 35
_NOISE_DEPTH = 10

# Weights below this share of their mean are left out of the proof.
_NEGLIGIBLE = 1e-5

# Columns that join a working set in the first round, for each direction.
_JOINING = 64

# Where at most this share of a working set is new, it starts with the weights of the last one.
_MOSTLY_KNOWN = 0.7

# The weight of a new column, of the median of those that have weights.
_NEWCOMER = 0.1

# Eigenvalues below this share of the largest are taken for rounding.
_WEAK = 1e-14

# Columns of a working set that are multiplied at a time.
_BLOCK = 2**14


class ColumnPasses(Protocol):
    """Columns r_i in k coordinates, (k, d), of rank k, that are only passed over."""

    @property
    def shape(self) -> tuple[int, int]:
        """(k, d): directions and columns."""

    def gram(self, q: Array) -> Array:
        """Σ q_i r_i r_iᵀ, (k, k)."""

    def prices(self, M: Array) -> Array:
        """‖M r_i‖² for every column, (d,); M is (k, k)."""


class _Sides:
    """The best weights and the best noise so far."""

    def __init__(self, columns: ColumnPasses, run: Run) -> None:
        self.columns, self.run = columns, run
        self.device: Backend = load_backend(run.backend)
        self.M = np.zeros((0, 0))
        self.q = np.zeros(0)
        self.achieved, self.lower_bound = math.inf, 1.0
        self.steps = 0

    @property
    def gap(self) -> float:
        return self.achieved / self.lower_bound - 1

    def take(self, M: Array, achieved: float) -> None:
        """Keep noise whose largest profile is 1, if it is the best."""
        if achieved < self.achieved:
            self.M, self.achieved = M, achieved

    @property
    def is_enough(self) -> bool:
        """Whether the gap asked for is reached, or the time is up."""
        return self.gap <= self.run.tol or self.run.is_late

    def count_step(self) -> None:
        """Tell of a step."""
        self.steps += 1
        self.run.watch.tell(self.steps, self.gap)

    def evaluate(self, q: Array) -> tuple[float, Array]:
        """The bound that weights prove, and the profile of their noise, of mean 1 under q."""
        q = q / q.sum()
        values, vectors = self.device.eigh(self.device.matrix(self.columns.gram(q)))
        values, vectors = self.device.numpy(values), self.device.numpy(vectors)
        values = np.maximum(values, _WEAK * values[-1])
        F = float(np.sqrt(values).sum())
        M = (vectors / (values**0.25 * math.sqrt(F))).T
        u = self.columns.prices(M)
        largest = float(u.max())
        if len(self.q) == 0 or self.lower_bound < F * F:
            self.q, self.lower_bound = q, F * F
        self.take(M / math.sqrt(largest), F * F * largest)
        return F * F, u


class _Weights:
    """The weights' side: an accelerated fixed point, which goes on where it was left."""

    def __init__(self, sides: _Sides, start: Array) -> None:
        self._sides = sides
        self._x = self._plain = np.log(start)
        self._past: list[Move] = []
        self._bound = 0.0

    def climb(self, n_steps: int) -> None:
        """Take this many steps, or fewer where both sides are near enough; the very first in any case."""
        for _ in range(n_steps):
            if self._sides.steps and self._sides.is_enough:
                return
            bound, u = self._sides.evaluate(_weights(self._x))
            if bound < self._bound * (1 - _FALL):
                self._past, self._x = [], self._plain
                bound, u = self._sides.evaluate(_weights(self._x))
            self._bound = bound
            self._plain = self._x + _POWER * np.log(np.maximum(u, math.exp(_LEAST_LOG)))
            self._past = [*self._past[-_DEPTH + 1 :], Move(self._x, self._plain)]
            following = self._accelerated()
            self._x = np.maximum(following, following.max() + _LEAST_LOG)
            self._sides.count_step()

    def _accelerated(self) -> Array:
        """Where the last steps lead to together."""
        return accelerated(self._past, rcond=_RCOND, scale=np.sqrt(_weights(self._x) + _LIGHT))


def _weights(x: Array) -> Array:
    return np.asarray(np.exp(x - x.max()))


def least_total_over_all(columns: ColumnPasses, run: Run, *, start: Array | None = None) -> Optimum:
    """The noise of least total variance with profile at most 1, by passes over all columns.

    As `column_generation.generated_total`, for a gap of about 1e-3.

    Args:
        start: positive weights to begin with, (d,); equal ones unless given.
    """
    sides = _Sides(columns, run)
    weights = _Weights(sides, np.ones(columns.shape[1]) if start is None else start)
    weights.climb(_STEPS)
    for beta in _SHARPNESS:
        if not sides.is_enough:
            _sharpen(sides, beta)
            weights.climb(_STEPS)
    ended: Ended = "converged" if sides.gap <= run.tol else "exhausted"
    if ended == "exhausted" and run.is_late:
        ended = "deadline"
    return Optimum(
        [sides.M],
        np.where(sides.q > _NEGLIGIBLE * sides.q.mean(), sides.q, 0.0),
        sides.achieved,
        sides.lower_bound,
        sides.gap <= run.tol,
        sides.steps,
        run.watch.seconds,
        ended,
        "accelerated weights and smoothed noise in turn",
    )


def generated_from_both_sides(columns: ColumnSource, run: Run) -> Optimum:
    """The same by passes over working sets of columns, as `column_generation.generated_total`.

    Working sets are large from the start: a pass over them costs little beside the rounds that it saves.
    """

    def solve(working: Array, start: Array | None, aim: float) -> Optimum:
        if start is not None:
            start = np.maximum(start, _NEWCOMER * float(np.median(start[start > 0])))
        own = replace(run, tol=aim, watch=Watch(run.watch.deadline))
        return least_total_over_all(_SinglePrecision.of(columns, working), own, start=start)

    return generate_columns(columns, solve, run, joining=_JOINING, mostly_known=_MOSTLY_KNOWN)


@dataclass(frozen=True, eq=False)
class _SinglePrecision:
    """Columns held in single precision: seven digits are enough for gaps of 1e-4."""

    entries: Array  # (k, d)

    @classmethod
    def of(cls, columns: ColumnSource, index: Array) -> _SinglePrecision:
        """Some columns of a source, without ever holding more of them than one block in double precision."""
        entries = np.empty((columns.shape[0], len(index)), dtype=np.float32)
        for start in range(0, len(index), _BLOCK):
            entries[:, start : start + _BLOCK] = columns.take(index[start : start + _BLOCK])
        return cls(entries)

    @property
    def shape(self) -> tuple[int, int]:
        return self.entries.shape[0], self.entries.shape[1]

    def gram(self, q: Array) -> Array:
        root = np.sqrt(q).astype(np.float32)
        total = np.zeros((len(self.entries),) * 2)
        for some in self._blocks():
            scaled = self.entries[:, some] * root[some]
            total += scaled @ scaled.T
        return total

    def prices(self, M: Array) -> Array:
        root = M.astype(np.float32)
        found = np.empty(self.shape[1])
        for some in self._blocks():
            image = root @ self.entries[:, some]
            found[some] = np.einsum("ki,ki->i", image, image)
        return found

    def _blocks(self) -> list[slice]:
        return [slice(start, start + _BLOCK) for start in range(0, self.shape[1], _BLOCK)]


def _sharpen(sides: _Sides, beta: float) -> None:
    """Search for better noise, from the best so far, with profiles weighed by their power β."""
    from scipy import linalg

    A = sides.M
    k = len(A)
    inverse = linalg.inv(A)
    V = inverse.T @ inverse
    lower = np.tril_indices(k)

    def value(x: Array) -> tuple[float, Array]:
        L = np.zeros((k, k))
        L[lower] = x
        u = sides.columns.prices(L @ A)
        largest = float(u.max())
        powers = (u / largest) ** (beta - 1)
        total = float(powers @ u) / largest
        # P⁻¹ = A⁻¹ H A⁻ᵀ.
        L_inverse = linalg.solve_triangular(L, np.eye(k), lower=True)
        H = L_inverse @ L_inverse.T
        trace = float((H * V).sum())
        sides.take(L @ A / math.sqrt(largest), trace * largest)
        sides.count_step()
        if sides.is_enough:
            raise StopDescent
        G = A @ sides.columns.gram(powers / (largest * total)) @ A.T
        slope = 2 * (L @ G) - 2 * (L_inverse.T @ V @ H) / trace
        return math.log(trace * largest) + math.log(total) / beta, slope[lower]

    minimise_smooth(
        value,
        np.eye(k)[lower],
        tol=0.0,
        max_steps=_NOISE_STEPS,
        max_evaluations=_NOISE_STEPS + 10,
        n_pairs=_NOISE_DEPTH,
    )
