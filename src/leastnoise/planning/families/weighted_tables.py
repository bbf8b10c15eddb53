"""Cross tables with the best weights, for Laplace noise, over any number of attributes.

Tables t below those that are asked, with weights θ_t ≥ 0, have the L1 sensitivity Σ_t θ_t. What is known of
the residuals of a set s has precision x_s = Σ_{t ⊇ s} θ_t²/Π_{a in t∖s} n_a; a count of table j the variance

    v_j = 2 (Σ_t θ_t)² Σ_{s ⊆ j} (1/x_s) Π_{a in s} (1 − 1/n_a) Π_{a in j∖s} 1/n_a²                       (1)

over ε². A total of (1) is not convex in θ; `table_weights` minimises it from several starts, with one weight
for every set whatever the number of cells. For the largest variance the weights of the tables are raised
where the variance is largest and the search goes on; the best found is kept.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 6.3, for strategies of weighted marginals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.families.product_requests import Asked, asked, uniform
from leastnoise.planning.families.table_weights import NEGLIGIBLE, least_total, uneven_starts
from leastnoise.planning.method import Found, Request
from leastnoise.query import Lattice, Products
from leastnoise.strategy import BlockProposal, centred_form

# One weight for every set of attributes below a table that is asked: so many at most.
MAX_SETS = 30_000

# Starts and steps of the search, and how many where there are more sets than the last number.
_STARTS, _STEPS = 6, 2_000
_FEWER_STARTS, _FEWER_STEPS, _MANY_SETS = 1, 300, 1_000

# Rounds for the largest variance, and how fast weights of tables rise in each.
_ROUNDS, _POWER = 40, 0.7


@dataclass(frozen=True, eq=False)
class _Problem:
    """(1) as sparse matrices.

    Attributes:
        known: 1/Π_{a in t∖s} n_a, sets s by tables t.
        asked: what 1/x_s adds to the variance of a count of each table asked, tables by sets.
    """

    lattice: Lattice
    known: Any
    asked: Any

    def variances(self, theta: Array) -> Array:
        """(1) at ε² = 2 for a count of each table asked."""
        x = self.known @ theta**2
        with np.errstate(divide="ignore"):
            return np.asarray(float(theta.sum()) ** 2 * (self.asked @ np.where(x > 0, 1 / x, math.inf)))


def _problem(products: Products) -> _Problem:
    lattice = Lattice(products.sets, len(products.sizes))
    sizes = np.array(products.sizes, dtype=float)
    inside = [1 - 1 / sizes[axes] for _, axes in lattice.groups]
    outside = [1 / sizes[axes] ** 2 for _, axes in lattice.groups]
    every = Lattice(lattice.subsets, len(products.sizes))
    # Sets t by subsets s, in the same order, since all subsets are there.
    ones = [np.ones(axes.shape) for _, axes in every.groups]
    summed = [1 / sizes[axes] for _, axes in every.groups]
    known = every.matrix(ones, summed).T.tocsr()
    return _Problem(lattice, known, lattice.matrix(inside, outside))


def refuse_many_sets(products: Products) -> str | None:
    """The reason why weights are not sought, or None."""
    n = sum(2 ** len(s) for s in set(products.sets))
    if n > 8 * MAX_SETS:
        return f"with Laplace noise it weighs up to {MAX_SETS:,} sets of attributes, there are far more"
    return None


def find(request: Request) -> Found:
    """The tables to measure and their weights, for a request about cross tables and Laplace noise."""
    question = asked(request)
    products = question.products
    problem = _problem(products)
    theta, ended = _best_weights(request, question, problem)
    used = np.flatnonzero(theta > 0)
    subsets = problem.lattice.subsets
    mentioned = {a for s in products.sets for a in s}
    forms = tuple((centred_form(size),) if a in mentioned else () for a, size in enumerate(products.sizes))
    blocks = tuple((subsets[s], (0,) * len(subsets[s])) for s in used)
    proposal = BlockProposal(products.axes, forms, blocks, theta[used], are_tables=True)
    p = None if question.caps is None else np.where(np.isfinite(question.caps), 1 / question.caps, 0)
    note = f"{len(used):,} cross tables, each with a weight"
    return Found(proposal, ProductWitness(uniform(products), p), "heuristic", note, ended)


def _best_weights(request: Request, question: Asked, problem: _Problem) -> tuple[Array, Ended]:
    """The weights of the tables, and how the search for them ended."""
    n_rows = np.array([float(term.n_rows) for term in question.products.terms])
    if request.objective.kind != "largest" or question.caps is None:
        costs = problem.asked.T @ (question.weights * n_rows)
        return _least_total(problem, costs, None, request.deadline)
    finite = np.isfinite(question.caps)
    p = np.where(finite, 1 / np.where(finite, question.caps, 1), 0)
    best, least, theta = None, math.inf, None
    # Nothing but their number ends the rounds.
    ended: Ended = "exhausted"
    for _ in range(_ROUNDS):
        theta, of_round = _least_total(problem, problem.asked.T @ p, theta, request.deadline)
        v = problem.variances(theta)
        shares = np.divide(v, question.caps, out=np.zeros_like(v), where=finite)
        if float(shares.max()) < least:
            best, least = theta, float(shares.max())
        if of_round == "deadline" or request.deadline.is_past:
            ended = "deadline"
            break
        p = p * np.maximum(shares / shares.max(), 1e-9) ** _POWER
    assert best is not None
    return best, ended


def _least_total(
    problem: _Problem, costs: Array, start: Array | None, deadline: Deadline
) -> tuple[Array, Ended]:
    """The weights with the least total, sought from a start or, without one, from several; how that ended."""
    n = len(costs)
    n_starts, steps = (_FEWER_STARTS, _FEWER_STEPS) if n > _MANY_SETS else (_STARTS, _STEPS)
    starts = uneven_starts(n, n_starts) if start is None else [start]
    raised = (np.maximum(first, NEGLIGIBLE) / first.sum() for first in starts)
    theta, _, ended = least_total(problem.known, costs, raised, steps=steps, deadline=deadline)
    return theta, ended
