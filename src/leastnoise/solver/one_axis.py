"""The least largest variance where all attributes but one are asked value by value, for very many rows.

Nothing changes when the values of the other attributes are renamed, so the optimum is diagonal in their
residuals: a precision matrix X_s over the values t of the one axis for every set s of other attributes. A row
w of the axis has in product j the variance Σ_s a_js w X_s⁻¹ wᵀ, and a record with value t costs Σ_s (X_s)_tt
≤ 1. With weights p on queries, H_s = Σ_j a_js W_jᵀ diag(p_j) W_j, and weights q on values, Σ q = 1, the dual
is

    N(p, q)²,   N = Σ_s tr(S_s),   S_s = (Q^½ H_s Q^½)^½,   Q = diag(q)                                  (1)

and X_s = Q^-½ S_s Q^-½ / N costs d_t / N, d_t = Σ_s (S_s)_tt / q_t, where Σ_t q_t d_t = N. So q is the
optimum where d is constant, and the gap is max d / N − 1. For the least largest share of caps c the weights p
with Σ p c = 1 must also make v_j/c_j constant on the queries that have one. The map

    q ← q d/N,  p ← p v/(c N²)                                                                           (2)

rises in the dual; along fixed directions of a diagonal problem it is Newton's step. Anderson's acceleration
of (2), in logarithms, takes some tens of steps to a gap of 1e-7; a step that lowers the dual is replaced by a
plain one. `capped` reaches smaller gaps, and is quicker up to a thousand rows and values.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), for the fixed point of one block.
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended

# Steps that an acceleration looks back on.
_DEPTH = 10

# Steps, at most: what has not converged by then goes on for long.
MAX_STEPS = 1_000

# Steps without a smaller gap after which a search ends.
_PATIENCE = 100

# Singular values of past steps below this share of the largest are left out.
_RCOND = 1e-10

# Logarithms of weights keep this distance from the largest: smaller weights change nothing that is seen.
_LEAST_LOG = -60.0

# Eigenvalues below this share of the largest are directions that nothing asks for.
_WEAK = 1e-13


@dataclass(frozen=True, eq=False)
class OneAxisPoint:
    """The best point of a search.

    Attributes:
        q: weights of the values, (T,), of sum 1.
        p: weights of the rows of every product, of Σ p c = 1.
        roots: for every block rows R_s with R_sᵀR_s = X_s, (rows, T), the costs of values at most 1.
        steps: how many were taken.
    """

    q: Array
    p: list[Array]
    roots: Sequence[Array]
    steps: int
    ended: Ended


@dataclass(frozen=True, eq=False)
class OneAxisProblem:
    """Products over one axis and their shares in every block.

    Attributes:
        rows: W_j, (m_j, T), for every product. shares: a_js, (products, blocks). counts: how many queries of
        a product have each of its rows: one for each value of the other attributes.
    """

    rows: Sequence[Array]
    shares: Array
    counts: Array

    @property
    def used(self) -> Array:
        """The values that some row counts, (T,)."""
        return np.any([np.abs(W).max(axis=0, initial=0) > 0 for W in self.rows], axis=0)

    def matrices(self, p: Sequence[Array]) -> Array:
        """H_s of all blocks for weights of rows, (blocks, T, T)."""
        grams = np.array([(W.T * own) @ W for W, own in zip(self.rows, self._counted(p), strict=True)])
        return np.tensordot(self.shares.T, grams, axes=1)

    def _counted(self, p: Sequence[Array]) -> list[Array]:
        return [own * count for own, count in zip(p, self.counts.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """(1) at one point: N, d, and the eigenvalues and vectors of S_s."""

    N: float
    d: Array
    values: Array
    vectors: Array
    q: Array

    def roots(self, scale: float) -> Array:
        """R_s with R_sᵀR_s = Q^-½ S_s Q^-½ / scale, (blocks, T, T)."""
        scaled = np.sqrt(self.values / scale)[:, :, None] * np.swapaxes(self.vectors, 1, 2)
        return np.asarray(scaled / np.sqrt(self.q))

    def variances(self, problem: OneAxisProblem) -> list[Array]:
        """The variance of every row of every product at X_s = Q^-½ S_s Q^-½ / N."""
        largest = self.values.max(axis=1, keepdims=True)
        known = self.values > _WEAK * largest
        inverse = np.where(known, 1 / np.where(known, self.values, 1.0), 0.0)
        # Q^½ V S^-½ of every block: w times it has the square length wanted.
        gains = np.sqrt(self.q)[None, :, None] * self.vectors * np.sqrt(inverse)[:, None, :]
        found = []
        for W, share in zip(problem.rows, problem.shares, strict=True):
            blocks = np.flatnonzero(share)
            squares = ((W @ gains[blocks]) ** 2).sum(axis=2)
            found.append(self.N * (share[blocks] @ squares))
        return found


def _evaluated(H: Array, q: Array) -> _Evaluated:
    root = np.sqrt(q)
    values, vectors = np.linalg.eigh(H * root[:, None] * root)
    values = np.sqrt(np.maximum(values, 0.0))
    d = np.einsum("stk,sk,stk->t", vectors, values, vectors, optimize=True) / q
    return _Evaluated(float(values.sum()), d, values, vectors, q)


@dataclass(frozen=True, eq=False)
class _Step:
    """One step: where it is, both sides of the optimum there, and where (2) leads to."""

    x: Array
    bound: float
    achieved: float
    mapped: Array
    found: _Evaluated

    @property
    def gap(self) -> float:
        return self.achieved / self.bound - 1


def least_largest_over_one_axis(
    problem: OneAxisProblem, caps: Array, *, tol: float, watch: Watch
) -> OneAxisPoint:
    """X_s with the least largest v_j/c_j, caps (products,), ∞ where there is none, and its proof."""
    used = np.flatnonzero(problem.used)
    n = len(used)
    capped = np.flatnonzero(np.isfinite(caps)).tolist()
    sizes = [len(problem.rows[j]) for j in capped]
    cap, count = np.repeat(caps[capped], sizes), np.repeat(problem.counts[capped], sizes)
    reduced = OneAxisProblem([W[:, used] for W in problem.rows], problem.shares, problem.counts)

    def weights_of(x: Array) -> list[Array]:
        own = np.exp(np.maximum(x[n:] - x[n:].max(), _LEAST_LOG))
        own = own / float((own * cap * count).sum())
        p = [np.zeros(len(W)) for W in problem.rows]
        for j, part in zip(capped, np.split(own, np.cumsum(sizes)[:-1]), strict=True):
            p[j] = part
        return p

    def at(x: Array) -> _Step:
        found = _evaluated(reduced.matrices(weights_of(x)), _normalised(x[:n]))
        v = found.variances(reduced)
        shares = np.concatenate([v[j] for j in capped]) / cap
        over = found.d / found.N
        achieved = float(shares.max()) * float(over.max())
        mapped = x + np.concatenate([_logs(over), _logs(shares / found.N**2)])
        return _Step(x, found.N**2, achieved, mapped, found)

    best, steps, ended = _climb(at, np.zeros(n + len(cap)), tol, watch)
    return _point(problem, best, used, weights_of(best.x), steps, ended)


def _climb(at: Callable[[Array], _Step], start: Array, tol: float, watch: Watch) -> tuple[_Step, int, Ended]:
    """The point with the smallest gap, how many steps it took, and how the search ended."""
    now = best = at(start)
    past: list[_Step] = []
    since = 0
    for step in range(1, MAX_STEPS + 1):
        watch.tell(step, best.gap)
        if best.gap <= tol:
            return best, step, "converged"
        if watch.deadline.is_past:
            return best, step, "deadline"
        if since >= _PATIENCE:
            break
        past = [*past[-_DEPTH + 1 :], now]
        then = at(_accelerated(past))
        if not then.bound >= now.bound * (1 - tol):
            # A plain step rises.
            past = []
            then = at(now.mapped)
        now = then
        best, since = (now, 0) if now.gap < best.gap else (best, since + 1)
    return best, step, "exhausted"


def _accelerated(past: Sequence[_Step]) -> Array:
    """Where the last steps lead to together: the combination of them that moves least."""
    last = past[-1]
    if len(past) == 1:
        return last.mapped
    moves = np.array([one.mapped - one.x for one in past])
    changes = np.diff(moves, axis=0)
    share = np.linalg.lstsq(changes.T, moves[-1], rcond=_RCOND)[0]
    return np.asarray(last.mapped - share @ np.diff(np.array([one.mapped for one in past]), axis=0))


def _normalised(x: Array) -> Array:
    q = np.exp(np.maximum(x - x.max(), _LEAST_LOG))
    return np.asarray(q / q.sum())


def _logs(values: Array) -> Array:
    return np.log(np.maximum(values, np.exp(_LEAST_LOG)))


def _point(
    problem: OneAxisProblem, best: _Step, used: Array, p: list[Array], steps: int, ended: Ended
) -> OneAxisPoint:
    T, found = len(problem.used), best.found
    roots = np.zeros((len(found.values), len(used), T))
    roots[:, :, used] = found.roots(float(found.d.max()))
    q = np.zeros(T)
    q[used] = found.q
    return OneAxisPoint(q, p, list(roots), steps, ended)
