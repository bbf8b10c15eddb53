"""Tables of p-identity rows with weights, for Laplace noise on unions of products at any scale.

Along every axis that is asked for more than plain counts the rows are those of a p-identity strategy,
A_a = [I; Θ_a] diag(1/s_a) with columns of L1 norm 1, and along others every value. Tables of the sets t of
axes, θ_t ⊗_{a in t} A_a ⊗_{a not in t} 1ᵀ, then have the L1 sensitivity Σ_t θ_t. With Y_a = (A_aᵀA_a)⁻¹ and
λ_a = 1ᵀY_a1, all their Gram matrices are diagonal in the coordinates A_a x: 11ᵀ is λ_a times a projection. So
with Gram matrices V_{j,a} of what product j asks, per unit of noise, the total variance of least squares is

    (Σ_t θ_t)² Σ_r C_r/x_r ,     x_r = Σ_{t ⊇ r} θ_t² Π_{a in t} 1/λ_a ,                                   (1)
    C_r = Σ_j w_j Π_{a in r} ρ_{j,a} Π_{a not in r} h_{j,a} ,
    h_{j,a} = 1ᵀY_aV_{j,a}Y_a1/λ_a² ,   ρ_{j,a} = trace(V_{j,a}Y_a)/λ_a − h_{j,a}   (1 and 0 for the total)

over all sets r of axes: one product of p-identity strategies is θ on the set of all axes alone, weighted
cross tables are Θ = 0. L-BFGS-B moves all weights together, the gradient by Y_a standing for the Gram matrix
of `objective_function`. What is measured is `strategy.structured.tables`, in whole numbers.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, sections 5 and 6, for products of p-identity strategies, unions of
    them and weighted marginals, which this family joins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.product_requests import ProductRequest
from leastnoise.planning.families.weighted_tables import NEGLIGIBLE
from leastnoise.planning.p_identity.coarse_to_fine import FLAT, MOST, Effort, search, tents
from leastnoise.planning.p_identity.objective_function import (
    Problem,
    covariance_of,
    problem_of_gram,
    total_and_gradient,
)
from leastnoise.query import Products
from leastnoise.solver import minimise_smooth

# Axes at most: every set of them has a weight, 4,096 of them.
MAX_AXES = 12

# Values of an axis that is asked for more than plain counts, at most: its Gram matrices are held.
MAX_AXIS = 2_048

# Bits to which rows are rounded, which moves a total by about 1e-8.
_BITS = 26

# Values for each sum beside the values of an axis.
_VALUES_PER_SUM = 9.0

# Starts of the search of one axis alone, for the Gram matrix of all that is asked of it.
_AXIS_STARTS = 8

# Steps of that search.
_AXIS_STEPS = 300

# Steps from every start before the best go on.
_FIRST_STEPS = 60

# Starts that go on.
_KEPT_STARTS = 3

# Steps of those that go on.
_STEPS = 1_000

# Steps from a point that is good for nearly the same problem.
_IMPROVED_STEPS = 100

# Operations of all steps of one start that goes on, some seconds: beyond it there are fewer steps.
_OPERATIONS = 1e11

# Starts with ever more uneven weights of the tables, for each kind of rows.
_UNEVEN_STARTS = 6

# The weight of products that have none, beside the largest.
_LEAST_WEIGHT = 1e-9

# Starts with some of the tables, drawn at random, for each kind of rows.
_CHOSEN_STARTS = 8

# The same where every axis is measured value by value.
PLAIN_STARTS = 60

# Weights of tables that a start leaves out, so that they can come back.
_FAINT = 1e-2


@dataclass(frozen=True, eq=False)
class CrossedProblem:
    """(1) for a union of products.

    Attributes:
        grams: for every axis with rows of its own, the Gram matrices of its kinds; None for plain counts.
        sizes: the values of every axis.
        terms: for every product its kind along each axis, −1 for the total.
        weights: w, (products,).
    """

    grams: tuple[tuple[Array, ...] | None, ...]
    sizes: tuple[int, ...]
    terms: Array
    weights: Array

    @property
    def n_axes(self) -> int:
        """How many axes there are."""
        return len(self.sizes)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The axes that have rows of their own."""
        return tuple(a for a, grams in enumerate(self.grams) if grams is not None)

    def numbers(self, thetas: Sequence[Array | None]) -> list[_AxisNumbers]:
        """λ, h and ρ of every axis for Θᵀ of those that have rows."""
        found = []
        for grams, size, theta in zip(self.grams, self.sizes, thetas, strict=True):
            if grams is None:
                # Y = I: trace V = n and 1ᵀV1 = n for plain counts.
                found.append(_AxisNumbers(float(size), np.array([float(size)]), np.array([float(size)])))
                continue
            assert theta is not None
            Y = covariance_of(theta)
            ones = Y.sum(axis=1)
            images = [V @ ones for V in grams]
            found.append(
                _AxisNumbers(
                    float(ones.sum()),
                    np.array([float(np.vdot(V, Y)) for V in grams]),
                    np.array([float(ones @ image) for image in images]),
                    tuple(images),
                )
            )
        return found


@dataclass(frozen=True, eq=False)
class _AxisNumbers:
    """Of one axis: λ = 1ᵀY1, and of every kind trace VY, 1ᵀYVY1 and the vector VY1."""

    total: float
    traces: Array
    centres: Array
    images: tuple[Array, ...] = ()

    @property
    def parts(self) -> Array:
        """h and ρ of every kind, and of the total in the last row, (kinds + 1, 2)."""
        h = self.centres / self.total**2
        return np.vstack([np.column_stack([h, self.traces / self.total - h]), [1.0, 0.0]])


def crossed_problem(question: ProductRequest) -> CrossedProblem:
    """The problem (1) of a request about products."""
    products = question.products
    grams: list[tuple[Array, ...] | None] = []
    for kinds in products.kinds:
        is_plain = all(kind.is_identity for kind in kinds)
        grams.append(None if is_plain else tuple(np.asarray(kind.gram, dtype=float) for kind in kinds))
    terms = np.full((len(products.terms), len(products.axes)), -1)
    for number, term in enumerate(products.terms):
        terms[number, list(term.places)] = term.kinds
    # What has no weight must be answered all the same.
    weights = np.maximum(question.weights, _LEAST_WEIGHT * float(question.weights.max()))
    return CrossedProblem(tuple(grams), products.sizes, terms, weights)


def refuse_crossed(products: Products) -> str | None:
    """The reason why tables of rows are not sought, or None."""
    if not products.axes:
        return "it weighs tables of attributes, and none of them tells records apart"
    if len(products.axes) > MAX_AXES:
        return f"it weighs tables of at most {MAX_AXES} attributes; this schema has {len(products.axes)}"
    return refuse_long_axes(products)


def refuse_long_axes(products: Products) -> str | None:
    """The reason why rows of single axes are not sought, whose Gram matrices are inverted, or None."""
    for axis, kinds in zip(products.axes, products.kinds, strict=True):
        if axis.size > MAX_AXIS and not all(kind.is_identity for kind in kinds):
            named = " and ".join(axis.names)
            return f"it searches rows over at most {MAX_AXIS:,} values; {named} has {axis.size:,}"
    return None


def _applied(factors: Sequence[Array], tensor: Array) -> Array:
    """⊗ of 2-by-2 matrices, or of others in the place of some, applied to a tensor of shape (2, …, 2)."""
    for position, factor in enumerate(factors):
        tensor = np.moveaxis(np.tensordot(factor, tensor, axes=(1, position)), 0, position)
    return tensor


def total_of_tables(
    problem: CrossedProblem, thetas: Sequence[Array | None], weights: Array
) -> tuple[float, Array, list[Array | None]]:
    """(1) and its gradients by the weights θ, a tensor of shape (2, …, 2), and by every Θᵀ.

    An index of 1 stands for an axis in t, or in r. Infinite where something that is asked is not measured.
    """
    numbers = problem.numbers(thetas)
    spread = float(weights.sum())
    squares = weights**2
    known = [np.array([[1.0, 1 / own.total], [0.0, 1 / own.total]]) for own in numbers]
    x = _applied(known, squares)
    parts = [own.parts[problem.terms[:, a]] for a, own in enumerate(numbers)]
    costs = _costs(problem.weights, parts)
    nothing: list[Array | None] = [None if theta is None else np.zeros_like(theta) for theta in thetas]
    if not np.isfinite(x).all() or (x[costs > 0] <= 0).any():
        return math.inf, np.zeros_like(weights), nothing
    gains = np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)
    noise = float((costs * gains).sum())
    falling = -costs * gains**2
    by_weights = 2 * spread * noise + spread**2 * 2 * weights * _applied([K.T for K in known], falling)
    for a in problem.free:
        own, theta, grams = numbers[a], thetas[a], problem.grams[a]
        assert theta is not None
        assert grams is not None
        moved = [*known[:a], np.array([[0.0, 1.0], [0.0, 1.0]]), *known[a + 1 :]]
        by_inverse = float((falling * _applied(moved, squares)).sum())
        by_parts = np.zeros((len(grams) + 1, 2))
        np.add.at(by_parts, problem.terms[:, a], problem.weights[:, None] * _beside(gains, parts, a))
        by_gram = _by_covariance(own, grams, by_parts[:-1], by_inverse)
        linear = Problem(by_gram.__matmul__, np.diag(by_gram), 1.0)
        nothing[a] = spread**2 * total_and_gradient(linear, theta)[1]
    return spread**2 * noise, by_weights, nothing


def _costs(weights: Array, parts: Sequence[Array]) -> Array:
    """C of (1), a tensor: Σ_j w_j ⊗_a (h, ρ)."""
    rows = weights[:, None]
    for own in parts[:-1]:
        rows = (rows[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
    return np.asarray((rows.T @ parts[-1]).reshape((2,) * len(parts)))


def _beside(gains: Array, parts: Sequence[Array], place: int) -> Array:
    """Σ over the indices of all other axes of gains times (h, ρ) of each product, (products, 2)."""
    front = np.moveaxis(gains, place, 0).reshape(2, -1)
    others = [own for a, own in enumerate(parts) if a != place]
    rows = np.ones((len(parts[0]), 1))
    for own in others:
        rows = (rows[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
    return np.asarray(rows @ front.T)


def _by_covariance(own: _AxisNumbers, grams: Sequence[Array], by_parts: Array, by_inverse: float) -> Array:
    """The derivative of Σ C/x by Y, a symmetric matrix, from those by h and ρ of every kind and by 1/λ."""
    t, b, total = own.traces, own.centres, own.total
    by_h, by_rho = by_parts[:, 0], by_parts[:, 1]
    by_trace, by_centre = by_rho / total, (by_h - by_rho) / total**2
    by_total = float((-2 * (by_h - by_rho) * b / total**3 - by_rho * t / total**2).sum())
    by_total -= by_inverse / total**2
    found = np.full((len(own.images[0]),) * 2, by_total)
    for V, image, trace, centre in zip(grams, own.images, by_trace.tolist(), by_centre.tolist(), strict=True):
        found += trace * V + centre * (image[:, None] + image)
    return found


@dataclass(frozen=True, eq=False)
class CrossedPoint:
    """Weights of tables, Θᵀ of every axis that has rows, the total (1), and how the search ended."""

    weights: Array
    thetas: list[Array | None]
    total: float
    ended: Ended = "converged"


class _Descent:
    """The weights of tables and all Θ as one vector."""

    def __init__(self, problem: CrossedProblem, start: CrossedPoint) -> None:
        self.problem = problem
        self.shapes = [None if theta is None else theta.shape for theta in start.thetas]
        sizes = [start.weights.size, *(math.prod(shape) for shape in self.shapes if shape is not None)]
        self.ends = np.concatenate([[0], np.cumsum(sizes)]).tolist()

    def packed(self, weights: Array, thetas: Sequence[Array | None]) -> Array:
        """All of it in one vector."""
        parts = [weights.reshape(-1), *(theta.reshape(-1) for theta in thetas if theta is not None)]
        return np.concatenate(parts)

    def unpacked(self, x: Array) -> tuple[Array, list[Array | None]]:
        """The tensor of weights and every Θᵀ."""
        parts = iter([x[start:end] for start, end in pairwise(self.ends)])
        weights = next(parts).reshape((2,) * self.problem.n_axes)
        return weights, [None if shape is None else next(parts).reshape(shape) for shape in self.shapes]

    def follow(self, start: CrossedPoint, steps: int, deadline: Deadline) -> CrossedPoint:
        """The best point met from a start, of a total of weights of 1."""
        unit = start.total if math.isfinite(start.total) else 1.0
        # (1) does not depend on the unit of the weights, the length of the first step does: with weights of
        # about 1 it does not end where all but few of them are zero.
        scale = start.weights.size

        def evaluate(x: Array) -> tuple[float, Array]:
            weights, thetas = self.unpacked(x)
            value, by_weights, by_thetas = total_of_tables(self.problem, thetas, weights)
            if not math.isfinite(value):
                return math.inf, np.zeros_like(x)
            return value / unit, self.packed(by_weights, by_thetas) / unit

        found = minimise_smooth(
            evaluate,
            self.packed(scale * start.weights, start.thetas),
            tol=FLAT,
            max_steps=steps,
            max_evaluations=2 * steps + 20,
            least=0.0,
            most=MOST,
            deadline=deadline,
        )
        weights, thetas = self.unpacked(found.x)
        return _point(self.problem, weights, thetas, found.ended)


def _point(
    problem: CrossedProblem, weights: Array, thetas: list[Array | None], ended: Ended = "converged"
) -> CrossedPoint:
    """A point with Σθ = 1; tables of next to no weight are left out where nothing is lost."""
    weights = weights / weights.sum()
    kept = np.where(weights > NEGLIGIBLE, weights, 0.0)
    kept = kept / kept.sum()
    totals = [total_of_tables(problem, thetas, own)[0] for own in (kept, weights)]
    if totals[0] <= totals[1] * (1 + FLAT):
        return CrossedPoint(kept, thetas, totals[0], ended)
    return CrossedPoint(weights, thetas, totals[1], ended)


def improve_tables(problem: CrossedProblem, point: CrossedPoint, deadline: Deadline) -> CrossedPoint:
    """Where the search ends from a point that is good for nearly the same problem."""
    start = _point(problem, point.weights, point.thetas)
    return _Descent(problem, start).follow(start, min(_IMPROVED_STEPS, _steps(problem, start)), deadline)


def search_tables(
    problem: CrossedProblem,
    *,
    seed: int = 0,
    deadline: Deadline = NEVER,
    plain_starts: int = PLAIN_STARTS,
) -> CrossedPoint:
    """The best weighted tables of rows found. The same seed gives the same tables, unless time ends it.

    Args:
        plain_starts: with tables drawn at random, where every axis is measured value by value.
    """
    generator = np.random.default_rng(seed)
    points: list[CrossedPoint] = []
    ended: list[Ended] = []
    for start in _starts(problem, generator, deadline, plain_starts):
        if points and deadline.is_past:
            ended.append("deadline")
            break
        steps = _FIRST_STEPS if problem.free else _STEPS
        points.append(_Descent(problem, start).follow(start, steps, deadline))
    points.sort(key=lambda point: point.total)
    best = points[0]
    for point in points[:_KEPT_STARTS]:
        if deadline.is_past:
            ended.append("deadline")
            break
        end = _Descent(problem, point).follow(point, _steps(problem, point), deadline)
        ended.append(end.ended)
        best = min(best, end, key=lambda one: one.total)
    return CrossedPoint(best.weights, best.thetas, best.total, worst_ending(ended))


def _steps(problem: CrossedProblem, point: CrossedPoint) -> int:
    """Steps of a start that goes on: fewer where each takes long."""
    of_axes = sum(6.0 * len(theta) ** 2 * theta.shape[1] for theta in point.thetas if theta is not None)
    of_sets = 4.0 * len(problem.terms) * 2.0**problem.n_axes * max(len(problem.free), 1)
    return max(1, min(_STEPS, round(_OPERATIONS / (of_axes + of_sets))))


def _starts(
    problem: CrossedProblem, generator: np.random.Generator, deadline: Deadline, plain_starts: int
) -> Iterator[CrossedPoint]:
    """Rows of several kinds along the axes, each with several weights of the tables."""
    shape = (2,) * problem.n_axes
    whole, asked = np.full(shape, _FAINT), np.full(shape, _FAINT)
    whole[(1,) * problem.n_axes] = 1.0
    for term in problem.terms:
        asked[tuple((term >= 0).astype(int))] = 1.0
    first = [_faint_rows(problem, generator), _tent_rows(problem, generator)]
    if problem.free:
        first.append(_searched_rows(problem, generator, deadline))
    else:
        first = first[:1]
    for thetas in first:
        yield _point(problem, whole, thetas)
        yield _point(problem, asked, thetas)
        for power in range(_UNEVEN_STARTS):
            yield _point(problem, generator.random(shape) ** power, thetas)
        # Which tables end with a weight depends on where a search begins; without rows it takes little.
        for _ in range(_CHOSEN_STARTS if problem.free else plain_starts):
            chosen = generator.random(shape) < generator.random()
            yield _point(problem, np.where(chosen, 1.0, _FAINT), thetas)


def _n_sums(size: int) -> int:
    return max(1, min(size, round(size / _VALUES_PER_SUM)))


def _faint_rows(problem: CrossedProblem, generator: np.random.Generator) -> list[Array | None]:
    """Next to no sums: nearly every value alone."""
    return [
        None if grams is None else _FAINT * generator.random((size, _n_sums(size)))
        for grams, size in zip(problem.grams, problem.sizes, strict=True)
    ]


def _tent_rows(problem: CrossedProblem, generator: np.random.Generator) -> list[Array | None]:
    """Sums of neighbouring values."""
    return [
        None if grams is None else tents(size, [_n_sums(size)], generator)
        for grams, size in zip(problem.grams, problem.sizes, strict=True)
    ]


def _searched_rows(
    problem: CrossedProblem, generator: np.random.Generator, deadline: Deadline
) -> list[Array | None]:
    """Along each axis what is best for all that is asked of it, with noise on every value of the others."""
    numbers = [_AxisNumbers(float(n), np.array([float(n)]), np.array([float(n)])) for n in problem.sizes]
    for a in problem.free:
        grams = problem.grams[a]
        assert grams is not None
        traces = [float(np.trace(V)) for V in grams]
        numbers[a] = _AxisNumbers(float(problem.sizes[a]), np.array(traces), np.array(traces))
    found: list[Array | None] = [None] * problem.n_axes
    for a in problem.free:
        grams, size = problem.grams[a], problem.sizes[a]
        assert grams is not None
        shares = problem.weights.astype(float)
        for b, own in enumerate(numbers):
            if b != a:
                shares = shares * np.append(own.traces, own.total)[problem.terms[:, b]]
        shares = shares / shares.max()
        V = np.full((size, size), float(shares[problem.terms[:, a] < 0].sum()))
        for k, gram in enumerate(grams):
            V = V + float(shares[problem.terms[:, a] == k].sum()) * gram
        effort = Effort(None, _AXIS_STARTS, _AXIS_STEPS, deadline.share_of_rest(0.25))
        found[a] = search(problem_of_gram(V), effort, generator).theta + 0.0
    return found


def on_grid(A: Array) -> Array:
    """Rows of columns with an L1 norm of 1 in multiples of 2^−26, the columns all the same exactly.

    What rounding adds to a column or takes from it, its largest entry makes good.
    """
    rows = np.rint(np.ldexp(A, _BITS)).astype(np.int64)
    places = np.arange(rows.shape[1])
    largest = np.abs(rows).argmax(axis=0)
    excess = np.abs(rows).sum(axis=0) - 2**_BITS
    rows[largest, places] -= np.sign(rows[largest, places]) * excess
    return np.asarray(rows[np.abs(rows).max(axis=1) > 0])
