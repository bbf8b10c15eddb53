"""Cross tables of many attributes, each measured with a weight of its own, for Laplace noise.

A record is counted once in every cross table, so tables of the attribute sets t with weights θ_t ≥ 0 have the
L1 sensitivity Σ_t θ_t. What they tell of the residuals of a set s of attributes has precision
x_s = Σ_t k_st θ_t², and a total of variances is, per unit of noise,

    (Σ_t θ_t)² Σ_s c_s/x_s                                                                            (1)

It is not convex in θ. L-BFGS-B minimises it from each start, and the best end is kept.

Only sets below the tables that are asked have a weight; where attributes are few every set may have one, see
`crossed_tables`. With k_st = 1/Π_{a in t∖s} n_a a count of table j has the variance

    v_j = 2 (Σ_t θ_t)² Σ_{s ⊆ j} (1/x_s) Π_{a in s} (1 − 1/n_a) Π_{a in j∖s} 1/n_a²                       (2)

over ε². For the largest variance the weights of the tables are raised where the variance is largest and the
search goes on; the best found is kept.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 6.3, for strategies of weighted marginals. Residual
    subspaces: Xiao, He, Zhang and Kifer (2023), An optimal and scalable matrix mechanism for noisy marginals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.product_requests import ProductRequest, product_request, uniform
from leastnoise.planning.method import Request, SearchResult
from leastnoise.query import Lattice, Products
from leastnoise.solver import minimise_smooth
from leastnoise.strategy import BlockProposal, centred_form

# Tables whose weight is below this share of all do not pay for their noise.
NEGLIGIBLE = 1e-7


def total_and_gradient(theta: Array, known: Any, costs: Array) -> tuple[float, Array]:
    """(1) and its gradient; infinite where something asked is not measured.

    Args:
        known: k, sets by tables, a sparse matrix.
        costs: c, zero for sets that nothing is asked of.
    """
    x = known @ theta**2
    asked = costs > 0
    if (x[asked] <= 0).any():
        return math.inf, np.zeros_like(theta)
    safe = np.where(asked, x, 1.0)
    each = np.where(asked, costs / safe, 0.0)
    spread, noise = float(theta.sum()), float(each.sum())
    falling = known.T @ np.where(asked, each / safe, 0.0)
    return spread**2 * noise, 2 * spread * noise - 2 * spread**2 * theta * falling


# Sets of attributes below a table that is asked, at most: each has a weight.
MAX_SETS = 30_000

# Starts of the search in many attributes.
_STARTS = 6

# Steps of the descent from each of them, at most.
_STEPS = 2_000

# Sets of attributes. Beyond this number there are fewer starts and steps, because each takes long.
_MANY_SETS = 1_000

# Starts where there are many sets.
_FEWER_STARTS = 1

# Steps where there are many sets.
_FEWER_STEPS = 300

# Rounds for the largest variance.
_ROUNDS = 40

# The power of its share of a cap by which the weight of a product rises in each round.
_POWER = 0.7


@dataclass(frozen=True, eq=False)
class TableProblem:
    """(2) as sparse matrices.

    Attributes:
        known: 1/Π_{a in t∖s} n_a, sets s by tables t.
        asked: what 1/x_s adds to the variance of a count of each table asked, tables by sets.
    """

    lattice: Lattice
    known: Any
    asked: Any

    def variances(self, theta: Array) -> Array:
        """(2) at ε² = 2 for a count of each table asked."""
        x = self.known @ theta**2
        with np.errstate(divide="ignore"):
            return np.asarray(float(theta.sum()) ** 2 * (self.asked @ np.where(x > 0, 1 / x, math.inf)))


def table_problem(products: Products) -> TableProblem:
    """The sets below the tables that are asked, with what each tells of the others."""
    lattice = Lattice(products.sets, len(products.sizes))
    sizes = np.array(products.sizes, dtype=float)
    inside = [1 - 1 / sizes[axes] for _, axes in lattice.groups]
    outside = [1 / sizes[axes] ** 2 for _, axes in lattice.groups]
    every = Lattice(lattice.subsets, len(products.sizes))
    # Sets t by subsets s, in the same order, since all subsets are there.
    ones = [np.ones(axes.shape) for _, axes in every.groups]
    summed = [1 / sizes[axes] for _, axes in every.groups]
    known = every.matrix(ones, summed).T.tocsr()
    return TableProblem(lattice, known, lattice.matrix(inside, outside))


def refuse_many_sets(products: Products) -> str | None:
    """The reason why weights are not sought, or None."""
    n = sum(2 ** len(s) for s in set(products.sets))
    if n > 8 * MAX_SETS:
        return f"with Laplace noise it weighs up to {MAX_SETS:,} sets of attributes, there are far more"
    return None


def find(request: Request) -> SearchResult:
    """The tables to measure and their weights, for a request about cross tables and Laplace noise."""
    question = product_request(request)
    products = question.products
    problem = table_problem(products)
    theta, ended = _best_weights(request, question, problem)
    used = np.flatnonzero(theta > 0)
    subsets = problem.lattice.subsets
    mentioned = {a for s in products.sets for a in s}
    forms = tuple((centred_form(size),) if a in mentioned else () for a, size in enumerate(products.sizes))
    blocks = tuple((subsets[s], (0,) * len(subsets[s])) for s in used)
    proposal = BlockProposal(products.axes, forms, blocks, theta[used], are_tables=True)
    p = None if question.caps is None else np.where(np.isfinite(question.caps), 1 / question.caps, 0)
    note = f"{len(used):,} cross tables, each with a weight"
    return SearchResult(proposal, ProductWitness(uniform(products), p), "heuristic", note, ended)


def _best_weights(request: Request, question: ProductRequest, problem: TableProblem) -> tuple[Array, Ended]:
    """The weights of the tables, and how the search for them ended."""
    n_rows = np.array([float(term.n_rows) for term in question.products.terms])
    if request.objective.kind != "largest" or question.caps is None:
        costs = problem.asked.T @ (question.weights * n_rows)
        return _least_total(problem, costs, None, request.deadline)

    def improved(p: Array, theta: Array | None) -> Array:
        return _least_total(problem, problem.asked.T @ p, theta, request.deadline)[0]

    theta, _, ended = least_largest(improved, problem.variances, question.caps, _ROUNDS, request.deadline)
    return theta, ended


_Point = TypeVar("_Point")


def least_largest(
    improved: Callable[[Array, _Point | None], _Point],
    largest: Callable[[_Point], Array],
    caps: Array,
    rounds: int,
    deadline: Deadline,
) -> tuple[_Point, Array, Ended]:
    """The tables met with the least largest share of a cap: weights of products rise where shares are large.

    With them, the weights after the last round, and how the rounds ended.

    Args:
        improved: the tables of least total for weights of the products, from those before if there are any.
        largest: the largest variance of a query of every product.
        caps: of the products, ∞ where there is none.
        rounds: of weights, at most; with none the first tables are taken.
    """
    finite = np.isfinite(caps)
    p = np.where(finite, 1 / np.where(finite, caps, 1), 0.0)
    point = best = improved(p, None)
    least = math.inf
    for left in reversed(range(rounds)):
        v = largest(point)
        shares = np.divide(v, caps, out=np.zeros_like(v), where=finite)
        if float(shares.max()) < least:
            best, least = point, float(shares.max())
        if deadline.is_past:
            return best, p, "deadline"
        p = p * np.maximum(shares / shares.max(), 1e-9) ** _POWER
        if left:
            point = improved(p, point)
    # Nothing but their number ends the rounds.
    return best, p, "exhausted"


def _least_total(
    problem: TableProblem, costs: Array, start: Array | None, deadline: Deadline
) -> tuple[Array, Ended]:
    """θ with Σθ = 1 and the least (1) found, and how the search for it ended.

    Args:
        start: where the search begins; without one, at several, even ones first, then ever more uneven ones.
        deadline: after which the starts to come are left out.
    """
    n, scaled = len(costs), costs / (float(costs.sum()) or 1.0)
    n_starts, steps = (_FEWER_STARTS, _FEWER_STEPS) if n > _MANY_SETS else (_STARTS, _STEPS)
    generator = np.random.default_rng(0)
    starts = [generator.random(n) ** power for power in range(n_starts)] if start is None else [start]
    best, least = np.ones(n) / n, math.inf
    endings: list[Ended] = []
    for first in starts:
        if endings and deadline.is_past:
            endings.append("deadline")
            break
        found = minimise_smooth(
            lambda theta: total_and_gradient(theta, problem.known, scaled),
            np.maximum(first, NEGLIGIBLE) / first.sum(),
            tol=1e-14,
            max_steps=steps,
            max_evaluations=2 * steps,
            least=0.0,
        )
        theta = found.x / found.x.sum()
        for candidate in (np.where(theta > NEGLIGIBLE, theta, 0.0), theta):
            value = total_and_gradient(candidate, problem.known, scaled)[0]
            if value < least:
                best, least = candidate / candidate.sum(), value
        endings.append(found.ended)
    return best, worst_ending(endings)
