"""What a plan with a δ could do without one: the best plan of pure privacy at its own ε, found quickly.

Where few counts overlap, or ε is large, Laplace noise may be less than Gaussian noise of the same ε, and it
needs no δ. So that a user can choose, the quick methods are tried with Laplace noise and judged by the plan's
own objective, from integer strategies as `design` would measure them. No bound is proved and nothing depends
on a clock: the same plan always has the same alternative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise import threads
from leastnoise.certificate import largest_share, total_variance
from leastnoise.errors import LeastnoiseError
from leastnoise.measured import Measured
from leastnoise.plan import Plan
from leastnoise.privacy import ApproxDP, PureDP
from leastnoise.products import Products, products_of
from leastnoise.strategies import METHODS, Found, Method, Request
from leastnoise.structured.blocks import MAX_MEASURED

# Up to so many cells every quick method is tried, and p-identity from a few starts: 0.4 s for the prefix
# sums of 512 cells, within a percent of what 24 starts reach in 3.3 s. With caps it takes far longer.
_ALL_CELLS, _SEARCHED_WITHIN_CAPS = 512, 256
_FEW: dict[str, Any] = {"starts": 4, "iterations": 200, "workers": 1}

# Up to so many, those that need one pseudo-inverse and no search: half a second each.
_CHEAP_CELLS = 1_024
_CHEAP = ("identity", "workload", "hierarchical", "wavelet", "fourier", "datacube")

# Up to so many, noise on every cell, whose inverse is plain.
_IDENTITY_CELLS = 4_096

# A product is sought factor by factor: a second for 64 values in all, four for 512.
_FACTORED, _FACTORED_AMONG_ALL = 512, 64

# Weights of cross tables take seconds beyond so many sets of attributes.
_WEIGHED_SETS = 4_000


@dataclass(frozen=True)
class PureAlternative:
    """The best plan of pure privacy that was found for what a plan with a δ does.

    Attributes:
        goal: the same ε, neighbours and records per person, without the δ.
        method: the name of the method that reaches it.
        achieved: what it reaches, as the plan's certificate says it of the plan.
        unit: what that number measures.
        ratio: achieved over what the plan achieves; below 1 the plan without δ is the better one.
    """

    goal: PureDP
    method: str
    achieved: float
    unit: str
    ratio: float


_KNOWN: WeakKeyDictionary[Plan, PureAlternative | None] = WeakKeyDictionary()


def best_pure(plan: Plan) -> PureAlternative | None:
    """The least objective value of quick methods under pure privacy at the plan's own ε.

    None unless the goal is an `ApproxDP` that was asked for and the plan has a strategy, and where no quick
    method serves the workload or meets targets that must be met. Worked out once for every plan.

    Guarantee:
        `achieved` is what an integer strategy has that spends no more than `goal` in exact rationals: the
        one that `design` takes for this goal and method, p-identity being asked for fewer starts than usual.
    """
    if plan not in _KNOWN:
        _KNOWN[plan] = _best_pure(plan)
    return _KNOWN[plan]


def _best_pure(plan: Plan) -> PureAlternative | None:
    given = plan.privacy
    if not isinstance(given, ApproxDP) or plan.strategy is None or not plan.has_goal:
        return None
    goal = PureDP(given.epsilon, neighbours=given.neighbours, records_per_person=given.records_per_person)
    best, least = None, math.inf
    for method, request in _attempts(Request(plan.workload, goal, objective=plan.objective)):
        achieved = _achieved(method, request)
        if achieved is not None and achieved < least:
            best, least = method.name, achieved
    if best is None:
        return None
    own = plan.certificate.achieved
    ratio = least / own if own > 0 else 1.0 if least == 0 else math.inf
    return PureAlternative(goal, best, least, plan.certificate.unit, ratio)


def _attempts(request: Request) -> Iterator[tuple[Method, Request]]:
    """The methods to try, each with its request, in the order of the list."""
    n = request.workload.shape[1]
    is_total = request.objective.kind == "total"
    for method in METHODS:
        if method.name == "p-identity":
            if n <= (_ALL_CELLS if is_total else _SEARCHED_WITHIN_CAPS):
                yield method, Request(request.workload, request.privacy, _FEW, objective=request.objective)
        elif method.name in ("product", "marginals"):
            if _is_soon_found(method.name, request):
                yield method, request
        elif method.is_quick and not method.is_data_dependent:
            most = _CHEAP_CELLS if method.name in _CHEAP else _ALL_CELLS
            if n <= (_IDENTITY_CELLS if method.name == "identity" else most):
                yield method, request


def _is_soon_found(name: str, request: Request) -> bool:
    """Whether what is sought attribute by attribute, or set by set of attributes, takes seconds at most."""
    try:
        products = products_of(request.workload)
    except LeastnoiseError:
        return False
    if products is None:
        return False
    if name == "marginals":
        return sum(2 ** len(s) for s in set(products.sets)) <= _WEIGHED_SETS
    is_small = request.workload.shape[1] <= _ALL_CELLS
    # On few cells, a single attribute is left to p-identity, which is what its factor would be.
    if is_small and len(products.axes) < 2:
        return False
    return _searched_values(products) <= (_FACTORED_AMONG_ALL if is_small else _FACTORED)


def _searched_values(products: Products) -> int:
    """Values of the attributes of which more is asked than their plain counts."""
    pairs = zip(products.sizes, products.kinds, strict=True)
    return sum(size for size, kinds in pairs if any(not kind.is_identity for kind in kinds))


def _achieved(method: Method, request: Request) -> float | None:
    """What a method's strategy reaches of the objective; None where it does not serve."""
    workload, objective = request.workload, request.objective
    try:
        if method.refuses(request) is not None:
            return None
        # A search that goes too far ends in numbers that are not finite, and is left out below.
        with threads.suited_to(workload.shape[1]), np.errstate(all="ignore"):
            found = method.find(request)
            assert isinstance(found, Found)
            strategy: Measured = found.proposal.measured_within(request.privacy, tol=request.tol)
            if strategy.n_measured > MAX_MEASURED:
                return None
            caps = objective.batch_caps(workload)
            largest = 0.0 if caps is None else largest_share(workload, strategy, caps)
            if objective.kind == "total-within-caps" and not largest <= 1:
                return None
            achieved = (
                largest if objective.kind == "largest" else total_variance(workload, strategy, objective)
            )
    except (LeastnoiseError, ArithmeticError, np.linalg.LinAlgError, MemoryError):
        # Nobody asked for this method; that it has trouble with the workload is no news.
        return None
    return achieved if math.isfinite(achieved) else None
