"""COA, Lemmas 5 to 10 and Theorems 2 and 3, on random workloads.

λ₁ is the least eigenvalue and λₙ the largest, as in the paper's appendix. Points X have a diagonal of ones
and F(X) ≤ F(X⁰); V = WᵀW + θ mean(diag WᵀW) I with θ = 1e-3, as in the listing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting
from leastnoise.papers.reproductions.rows import Row
from leastnoise.papers.reproductions.tallies import n_trials, statement_reproduction, tally

# Rounding of a few products of matrices of this size.
_ROUNDING = 1 + 1e-9

# σ of section 4.2.
_SIGMA = 0.25

# θ of the listing.
_THETA = 1e-3

# Steps end where they gain less than this share of F: the square of the rounding of X.
_CONVERGED = 1e-30

# Gaps below this share of F are rounding.
_SEEN = 1e-24

# Steps at most.
_MAX_STEPS = 300

# Conjugate gradients of a direction of the listing.
_LISTING_CG = 5

# A step that is halved more often gains nothing but rounding.
_MAX_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class _Instance:
    """V, a point X, a start X⁰ with F(X) ≤ F(X⁰), and the constants of Lemmas 6 to 9."""

    V: Array
    X: Array
    start: Array

    @cached_property
    def inverse(self) -> Array:
        return np.linalg.inv(self.X)

    @cached_property
    def minus_G(self) -> Array:
        return np.asarray(self.inverse @ self.V @ self.inverse)

    @cached_property
    def of_V(self) -> Array:
        return np.linalg.eigvalsh(self.V)

    @cached_property
    def C1(self) -> float:
        n = len(self.V)
        return float(1 / (_value(self.start, self.V) / self.of_V[0] - 1 + 1 / n))

    @property
    def C2(self) -> float:
        return float(len(self.V))

    @property
    def C3(self) -> float:
        return float(self.of_V[0]) / self.C2**3

    @property
    def C4(self) -> float:
        return float(self.of_V[-1]) / self.C1**3

    @property
    def C(self) -> float:
        return 6 * self.C2**3 / math.sqrt(np.trace(self.V)) / (2**1.5 * self.C1**3)

    def gain(self, D: Array, alpha: float) -> tuple[float, float]:
        """F(X + αD) − F(X) without cancellation, and the least eigenvalue of I + αX^−½DX^−½."""
        values, vectors = np.linalg.eigh(self.X)
        root = vectors / np.sqrt(values) @ vectors.T
        e, Q = np.linalg.eigh(root @ D @ root)
        weights = np.einsum("ai,ab,bi->i", Q, root @ self.V @ root, Q)
        return float(-alpha * (weights * e / (1 + alpha * e)).sum()), float((1 + alpha * e).min())


def _value(X: Array, V: Array) -> float:
    return float(np.trace(np.linalg.solve(X, V)))


def _gram(rng: np.random.Generator, n: int) -> Array:
    W = rng.integers(-1, 2, (n + 2, n)).astype(float)
    V = W.T @ W + np.diag(rng.random(n) < 0.5)
    if not V.any():
        V = np.eye(n)
    return V + _THETA * float(np.mean(np.diag(V))) * np.eye(n)


def _correlation(rng: np.random.Generator, n: int) -> Array:
    A = rng.standard_normal((n + 2, n))
    X = A.T @ A
    return np.asarray(X / np.sqrt(np.outer(np.diag(X), np.diag(X))))


def _drawn(rng: np.random.Generator, n: int) -> _Instance:
    V = _gram(rng, n)
    one, other = sorted((_correlation(rng, n), np.eye(n)), key=lambda X: _value(X, V))
    return _Instance(V, one, other)


def _instances(setting: Setting, n: int) -> Iterator[tuple[np.random.Generator, _Instance]]:
    rng = np.random.default_rng([n, 5])
    for _ in range(n_trials(setting)):
        yield rng, _drawn(rng, n)


def _zero_diagonal(rng: np.random.Generator, n: int) -> Array:
    D = rng.standard_normal((n, n))
    D = D + D.T
    return np.asarray(D - np.diag(np.diag(D)))


def newton_direction(X: Array, V: Array) -> Array:
    """The exact D of Program (14): zero diagonal, minimises ⟨G, D⟩ + ½ ⟨D, H(D)⟩."""
    n = len(X)
    a, b = np.triu_indices(n, 1)
    inverse = np.linalg.inv(X)
    P = inverse @ V @ inverse
    # ⟨E, X⁻¹ D P + P D X⁻¹⟩ for the symmetric units of two pairs.
    H = np.zeros((len(a), len(a)))
    for left, right in ((inverse, P), (P, inverse)):
        H += left[np.ix_(a, a)] * right[np.ix_(b, b)] + left[np.ix_(a, b)] * right[np.ix_(b, a)]
        H += left[np.ix_(b, a)] * right[np.ix_(a, b)] + left[np.ix_(b, b)] * right[np.ix_(a, a)]
    D = np.zeros((n, n))
    D[a, b] = D[b, a] = np.linalg.solve(H, 2 * P[a, b])
    return D


def listing_direction(X: Array, V: Array) -> Array:
    """About the same D, by the five conjugate gradients of the listing."""
    inverse = np.linalg.inv(X)
    P = inverse @ V @ inverse
    R = P - np.diag(np.diag(P))
    D, along, squares = 0 * R, R, float((R * R).sum())
    for _ in range(_LISTING_CG):
        if squares == 0:
            break
        image = inverse @ along @ P + P @ along @ inverse
        image -= np.diag(np.diag(image))
        step = squares / float((along * image).sum())
        D, R = D + step * along, R - step * image
        last, squares = squares, float((R * R).sum())
        along = R + squares / last * along
    return D


def gaps_to_optimum(V: Array, direction: Callable[[Array, Array], Array]) -> tuple[Array, list[float]]:
    """The minimiser by steps from X = I, halved until they gain as in (16), and F − F* before every step.

    The gaps are sums of what the steps gain, each found without cancellation, and so known far below the
    rounding of F.
    """
    X = np.eye(len(V))
    gains: list[float] = []
    for _ in range(_MAX_STEPS):
        here = _Instance(V, X, X)
        D = direction(X, V)
        slope = -float((here.minus_G * D).sum())
        for halvings in range(_MAX_HALVINGS):
            gain, least = here.gain(D, 0.5**halvings)
            if least > 0 and gain <= 0.5**halvings * _SIGMA * slope:
                break
        else:
            break
        X = X + 0.5**halvings * D
        gains.append(-gain)
        if -gain <= _CONVERGED * _value(X, V):
            break
    return X, np.cumsum(gains[::-1])[::-1].tolist()


def lemma_5(setting: Setting, *, n: int) -> Iterator[Row]:
    """F where a feasible diagonal below 1 is raised to 1, over F before."""
    shares = []
    for rng, drawn in _instances(setting, n):
        scale = np.sqrt(rng.uniform(0.1, 1, n))
        X = drawn.X * np.outer(scale, scale)
        raised = X + np.diag(1 - np.diag(X))
        shares.append(_value(raised, drawn.V) / _value(X, drawn.V))
    yield tally("equality", n, shares)


def lemma_6(setting: Setting, *, n: int) -> Iterator[Row]:
    """C₁ over the least eigenvalue of X, and its largest over C₂."""
    found = [(drawn, np.linalg.eigvalsh(drawn.X)) for _, drawn in _instances(setting, n)]
    yield tally("below", n, (drawn.C1 / x[0] / _ROUNDING for drawn, x in found))
    yield tally("above", n, (x[-1] / drawn.C2 / _ROUNDING for drawn, x in found))


def lemma_7(setting: Setting, *, n: int) -> Iterator[Row]:
    """Eigenvalues of the Hessian and of the gradient beside C₃ to C₆."""
    hessian, gradient, negative = [], [], []
    for _, drawn in _instances(setting, n):
        P, inverse = drawn.minus_G, drawn.inverse
        h = np.linalg.eigvalsh(np.kron(P, inverse) + np.kron(inverse, P))
        hessian.append(max(drawn.C3 / h[0], h[-1] / drawn.C4) / _ROUNDING)
        p = np.linalg.eigvalsh(P)
        C5, C6 = drawn.of_V[0] / drawn.C2**2, drawn.of_V[-1] / drawn.C1**2
        negative.append(max(C5 / p[0], p[-1] / C6) / _ROUNDING)
        # G = −P is negative definite: no positive C₅ lies below it.
        gradient.append(math.inf if -p[-1] < C5 else float(-p[0] / C6))
    yield tally("hessian", n, hessian)
    yield tally("gradient", n, gradient)
    yield tally("negative", n, negative)


def lemma_8(setting: Setting, *, n: int) -> Iterator[Row]:
    """|h‴| over C (h″)^1.5 along random lines of zero diagonal, and along Newton's."""
    shares = []
    for rng, drawn in _instances(setting, n):
        for D in (_zero_diagonal(rng, n), newton_direction(drawn.X, drawn.V)):
            Y = drawn.inverse
            step = Y @ D
            second = 2 * float(np.trace(step @ step @ Y @ drawn.V))
            third = 6 * abs(float(np.trace(step @ step @ step @ Y @ drawn.V)))
            if second > 0:
                shares.append(third / (drawn.C * second**1.5))
    yield tally("concordant", n, shares)


# A slope below this share of F is that of the optimum, where no direction is left.
_AT_OPTIMUM = 1e-20


def lemma_9(setting: Setting, *, n: int) -> Iterator[Row]:
    """At α just below the constant, along exact directions: both conditions of the line search."""
    definite, decrease = [], []
    for _, drawn in _instances(setting, n):
        D = newton_direction(drawn.X, drawn.V)
        C7 = 2 * drawn.of_V[-1] / (drawn.C1**2 * drawn.C3)
        C8 = 2 * (1 - _SIGMA) * drawn.C3 / drawn.C4
        alpha = 0.999 * min(1.0, drawn.C1 / C7, C8)
        gain, least = drawn.gain(D, alpha)
        definite.append(1 - least)
        slope = -float((drawn.minus_G * D).sum())
        if -slope > _AT_OPTIMUM * float(np.trace(drawn.V)):
            decrease.append(alpha * _SIGMA * slope / gain if gain < 0 else math.inf)
    yield tally("definite", n, definite)
    yield tally("decrease", n, decrease)


# How far from the optimum the full step of Lemma 10 is tried, as the length of Newton's direction.
_NEAR = (1e-3, 1e-5)


def lemma_10(setting: Setting, *, n: int) -> Iterator[Row]:
    """σ⟨G, D⟩ over what the full exact step gains, near the optimum."""
    shares = []
    for rng, drawn in _instances(setting, n):
        best, _ = gaps_to_optimum(drawn.V, newton_direction)
        E = _zero_diagonal(rng, n)
        for length in _NEAR:
            here = _Instance(drawn.V, best + length / np.linalg.norm(E) * E, drawn.start)
            if np.linalg.eigvalsh(here.X)[0] <= 0:
                continue
            D = newton_direction(here.X, drawn.V)
            gain, least = here.gain(D, 1.0)
            slope = -float((here.minus_G * D).sum())
            shares.append(_SIGMA * slope / gain if gain < 0 < least else math.inf)
    yield tally("full", n, shares)


def _both(V: Array) -> Iterator[tuple[str, list[float]]]:
    """The gaps above rounding, with exact directions and with those of the listing."""
    for claim, direction in (("exact", newton_direction), ("printed", listing_direction)):
        _, gaps = gaps_to_optimum(V, direction)
        yield claim, [gap for gap in gaps if gap > _SEEN * float(np.trace(V))]


def theorem_2(setting: Setting, *, n: int) -> Iterator[Row]:
    """The largest share of the gap F − F* that a step leaves."""
    shares: dict[str, list[float]] = {"exact": [], "printed": []}
    for _, drawn in _instances(setting, n):
        for claim, gaps in _both(drawn.V):
            shares[claim].append(max((after / before for before, after in pairwise(gaps)), default=0.0))
    for claim, found in shares.items():
        yield tally(claim, n, found)


# The order of convergence that counts as quadratic: 2 but for the steps before the last ones.
_QUADRATIC = 1.7


def theorem_3(setting: Setting, *, n: int) -> Iterator[Row]:
    """1.7 over the order log(g₃/g₂)/log(g₂/g₁) of the last three gaps."""
    shares: dict[str, list[float]] = {"exact": [], "printed": []}
    for _, drawn in _instances(setting, n):
        for claim, gaps in _both(drawn.V):
            if len(gaps) >= 3:
                first, second, third = gaps[-3:]
                shares[claim].append(_QUADRATIC * math.log(second / first) / math.log(third / second))
    for claim, found in shares.items():
        yield tally(claim, n, found)


_SIZES = {2: 0.1, 4: 0.1, 6: 0.2}
_INSTANCES = (
    "W has n + 2 rows of −1, 0 and 1; X is a random correlation matrix or the identity, X⁰ the other of the "
    "two, whichever has the larger F."
)

STATEMENTS: tuple[Reproduction, ...] = (
    statement_reproduction(
        "coa/lemma-5",
        "a diagonal of ones loses nothing",
        lemma_5,
        _SIZES,
        "Checked: raising any feasible diagonal to 1 lowers F, from which the lemma follows. " + _INSTANCES,
    ),
    statement_reproduction(
        "coa/lemma-6", "bounds on the eigenvalues of X", lemma_6, _SIZES, "Checked as printed. " + _INSTANCES
    ),
    statement_reproduction(
        "coa/lemma-7",
        "bounds on the eigenvalues of Hessian and gradient",
        lemma_7,
        {1: 0.1, 2: 0.1, 4: 0.3},
        "All eigenvalues of the (n², n²) Hessian are computed. " + _INSTANCES,
        why={
            "hessian": "H has two terms, each up to λₙ(V)/λ₁³(X): C₄ lacks a factor of 2, which shows where "
            "C₁ is tight, as for one cell",
            "gradient": "G is negative definite; the printed bounds are those of −G",
        },
    ),
    statement_reproduction(
        "coa/lemma-8",
        "self-concordance",
        lemma_8,
        _SIZES,
        "Checked along random lines and Newton's, at points X: samples, not all lines. " + _INSTANCES,
    ),
    statement_reproduction(
        "coa/lemma-9",
        "a step that the line search takes",
        lemma_9,
        _SIZES,
        "At 0.999 of the constant, σ = 0.25, exact directions; F(X + αD) − F(X) is computed without "
        "cancellation, because α can be as small as 1e-15. " + _INSTANCES,
    ),
    statement_reproduction(
        "coa/lemma-10",
        "the full step near the optimum",
        lemma_10,
        _SIZES,
        "The lemma's own distances lie below rounding (1e-15 and less). We check distances of 1e-3 and "
        "1e-5, far outside them, so the result is stronger than the lemma. " + _INSTANCES,
    ),
    statement_reproduction(
        "coa/theorem-2",
        "linear convergence",
        theorem_2,
        {2: 0.2, 4: 0.3, 8: 0.6},
        "Every step must reduce F − F*. Gaps are sums of the decreases per "
        "step, down to 1e-24 of F; the rate of the proof is not computed, and the listing's stopping rule "
        "is left out. " + _INSTANCES,
    ),
    statement_reproduction(
        "coa/theorem-3",
        "quadratic convergence near the optimum",
        theorem_3,
        {4: 0.3, 8: 0.6, 12: 2.0},
        "The order of convergence of F − F* over the last three steps above rounding must be 1.7 or more; "
        "gaps are sums of the decreases per step, down to 1e-24 of F. " + _INSTANCES,
        why={
            "printed": "the listing takes five conjugate gradient steps, so its directions are inexact and "
            "convergence is linear"
        },
    ),
)
