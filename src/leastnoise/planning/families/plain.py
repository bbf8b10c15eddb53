"""Plain noise, the plan that is there at once: on values, on cross tables of values, or on the queries.

It is what people add without a search, with the budget divided as well as that can be done in closed form. A
plan that loses to it is never returned.

**Tables of values.** Each product asks something of a cross table of the attributes that it mentions, and the
residuals of these tables are measured value by value. With x_s the share of the budget of a set s of axes,

    Σ_j w_j v_j = Σ_s c_s/x_s,    c_s = Σ_{j ⊇ s} w_j Π_{a in s} (1 − 1/n_a) E_ja Π_{a in j∖s} M_ja/n_a

where E_ja is what the rows of product j have on axis a beside their means, a sum of squares, and M_ja what
the means have. The least total has x_s ∝ √c_s. A table measured alone with precision t answers a row r of its
products with variance ‖r‖²/t, so that t ≥ ‖r‖²/cap meets a target; no share is less than such tables have.

**Queries.** Noise on each query, with a precision of its own where targets ask for it; or on every cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leastnoise.bounds import ProductWitness, Status
from leastnoise.core.operators import Array
from leastnoise.planning.families.product_requests import (
    ProductRequest,
    product_request,
    refuse_unstructured,
    uniform,
)
from leastnoise.planning.method import Method, Request, SearchResult, uniform_weights
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import AxisSet, Products
from leastnoise.strategy import ROUNDING, BlockProposal, Measured, Proposal, RealStrategy, centred_form

# Sets of axes, at most: each is a block.
MAX_SETS = 4_096

# Coefficients of all queries, at most, where these are measured: 64 MB, and a second or two.
MAX_COEFFICIENTS = 2**22

# Cells, at most, where every cell is measured and attributes are not looked at.
MAX_CELLS = 2_048

# Values of an axis, at most, whose rows are looked at: the coefficients of all ranges over more take seconds.
MAX_VALUES = 2_048

# Bits of the multipliers of queries.
_BITS = 26


@dataclass(frozen=True, eq=False)
class _Option:
    """One way to add plain noise, and what it comes to at profile 1."""

    proposal: Proposal[Measured]
    total: float
    largest: float
    what: str


def _refuses(request: Request) -> str | None:
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if _why_no_tables(request) is None or _has_few_coefficients(request) or _has_few_cells(request):
        return None
    return (
        "it looks at attributes of at most 2,048 values and at few sets of them, or at few queries or cells"
    )


def _why_no_tables(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    products = product_request(request).products
    largest = max((products.sizes[a] for a, kinds in enumerate(products.kinds) if kinds), default=1)
    if sum(2 ** len(s) for s in set(products.sets)) > MAX_SETS or largest > MAX_VALUES:
        return "it has many sets of attributes, or an attribute of many values"
    return None


def _has_few_coefficients(request: Request) -> bool:
    operator = request.workload.operator
    is_small = math.prod(operator.shape) <= MAX_COEFFICIENTS
    return is_small and operator.is_integer and operator.largest < 2**30


def _has_few_cells(request: Request) -> bool:
    return request.workload.shape[1] <= MAX_CELLS


def _find(request: Request) -> SearchResult:
    options: list[_Option] = []
    q: Array | ProductWitness
    if _why_no_tables(request) is None:
        question = product_request(request)
        options.append(_tables(request, question))
        q = ProductWitness(uniform(question.products), None)
    else:
        q = uniform_weights(request.workload)
    # What floats do not hold is refused where plans are weighed, in words.
    with np.errstate(over="ignore"):
        if _has_few_coefficients(request):
            options.append(_queries(request))
        if _has_few_cells(request):
            options.append(_cells(request))
    best = min(options, key=lambda one: _rank(one, request))
    kind: Status = "heuristic" if request.privacy.relation.replaces else "stopped"
    return SearchResult(best.proposal, q, kind, f"plain noise on {best.what}", "converged")


def _rank(option: _Option, request: Request) -> tuple[float, float]:
    """Options that meet the targets first, then by what is minimised."""
    if request.objective.kind == "largest":
        return option.largest, option.total
    misses = max(option.largest, 1.0) if request.objective.kind == "total-within-caps" else 1.0
    return misses, option.total


# Tables of values -----------------------------------------------------------------------------------------


def _tables(request: Request, question: ProductRequest) -> _Option:
    products = question.products
    sets = _sets_below(products.sets)
    energies = _energies(products)
    costs = _costs(products, energies, question.weights, sets)
    needed, largest = np.zeros(len(sets)), math.inf
    if question.caps is not None:
        caps = question.caps * (1 - ROUNDING)
        if request.objective.kind == "total-within-caps":
            caps = caps * float(request.privacy.column_budget)
        needed, largest = _needed_by_targets(products, energies, caps, sets)
    shares = at_least(needed, costs) if largest < 1 or question.caps is None else needed / needed.sum()
    # A set that counts for nothing is measured all the same where a query without weight needs it.
    shares = np.where(shares > 0, shares, _LEAST_SHARE * float(shares.max(initial=1.0)))
    shares = shares / shares.sum()
    mentioned = {a for s in products.sets for a in s}
    forms = tuple((centred_form(n),) if a in mentioned else () for a, n in enumerate(products.sizes))
    blocks = tuple((s, (0,) * len(s)) for s in sets)
    total = float((costs / shares).sum())
    return _Option(BlockProposal(products.axes, forms, blocks, shares), total, largest, "tables of values")


# The share of the budget of a set that no query with a weight or a target needs.
_LEAST_SHARE = 1e-6


def _sets_below(tables: tuple[AxisSet, ...]) -> list[AxisSet]:
    found = {
        part for own in set(tables) for count in range(len(own) + 1) for part in combinations(own, count)
    }
    return sorted(found, key=lambda part: (len(part), part))


_Energies = list[list[tuple[float, float, float]]]


def _energies(products: Products) -> _Energies:
    """For every axis and kind: (E, M, the largest squared length of a row)."""
    found = []
    for n, kinds in zip(products.sizes, products.kinds, strict=True):
        own = []
        for kind in kinds:
            if kind.is_identity:
                own.append((n - 1.0, 1.0, 1.0))
                continue
            lengths = kind.operator.row_norms() ** 2
            sums = kind.operator.apply(np.ones(n))
            mean = float(sums @ sums) / n
            own.append((max(float(lengths.sum()) - mean, 0.0), mean, float(lengths.max(initial=0.0))))
        found.append(own)
    return found


def _costs(products: Products, energies: _Energies, weights: Array, sets: list[AxisSet]) -> Array:
    """c_s for every set."""
    place = {s: i for i, s in enumerate(sets)}
    sizes = products.sizes
    found = np.zeros(len(sets))
    for term, weight in zip(products.terms, weights.tolist(), strict=True):
        if weight <= 0:
            continue
        for s in _sets_below((term.places,)):
            cost = weight
            for a, kind in zip(term.places, term.kinds, strict=True):
                spread, mean, _ = energies[a][kind]
                # The residuals of one axis cost (1 − 1/n) where a total costs 1/n of all its values.
                cost *= spread * (1 - 1 / sizes[a]) if a in s else mean / sizes[a]
            found[place[s]] += cost
    return found


def _needed_by_targets(
    products: Products, energies: _Energies, caps: Array, sets: list[AxisSet]
) -> tuple[Array, float]:
    """Shares of all sets that meet every cap at profile 1, and what they add up to."""
    place = {s: i for i, s in enumerate(sets)}
    least: dict[AxisSet, float] = {}
    for term, cap in zip(products.terms, caps.tolist(), strict=True):
        if math.isfinite(cap):
            longest = math.prod(energies[a][k][2] for a, k in zip(term.places, term.kinds, strict=True))
            least[term.places] = max(least.get(term.places, 0.0), longest / cap)
    needed = np.zeros(len(sets))
    for table, precision in least.items():
        for s in _sets_below((table,)):
            # What a table says of the residuals of s, whose columns are so long beside its own.
            inside = math.prod(1 - 1 / products.sizes[a] for a in s)
            outside = math.prod(1 / products.sizes[a] for a in table if a not in s)
            needed[place[s]] += precision * inside * outside
    return needed, float(needed.sum())


def at_least(needed: Array, costs: Array) -> Array:
    """Shares x ≥ needed that add up to 1 with the least Σ c/x: max(needed, λ √c)."""
    free = np.flatnonzero(costs > 0)
    if len(free) == 0:
        return needed
    roots = np.sqrt(costs[free])
    # The more is needed beside √c, the sooner a set is held at that: λ lies between two such ratios.
    ratios = needed[free] / roots
    order = np.argsort(ratios)
    sorted_needs = needed[free][order]
    held = np.delete(needed, free).sum() + sorted_needs.sum() - np.cumsum(sorted_needs)
    levels = (1 - held) / np.cumsum(roots[order])
    following = np.append(ratios[order][1:], np.inf)
    level = levels[np.argmax(levels <= following)]
    found = needed.copy()
    found[free] = np.maximum(needed[free], level * roots)
    return found


# Queries, and cells ---------------------------------------------------------------------------------------


def _queries(request: Request) -> _Option:
    rows = request.workload.operator.dense(np.int64)
    w, caps = request.objective.weights(request.workload), _caps(request)
    counts = np.asarray(rows.any(axis=1))
    if not counts.any():
        counts = np.arange(len(rows)) == 0
    rows, w = rows[counts], w[counts]
    least = np.zeros(len(rows)) if caps is None else 1 / caps[counts]
    squares = rows.astype(float) ** 2
    largest = float((least @ squares).max(initial=0.0))
    if caps is None or largest >= 1 or request.objective.kind == "largest":
        precision = least if caps is not None and least.any() else np.ones(len(rows))
        precision = np.where(precision > 0, precision, _LEAST_SHARE * precision.max())
    else:
        # What the targets leave, equally.
        spent, equal = least @ squares, squares.sum(axis=0)
        more = float(np.min((1 - spent[equal > 0]) / equal[equal > 0], initial=np.inf))
        precision = least + more
    precision = precision / max(float((precision @ squares).max()), 1e-300)
    total = float((w / precision).sum())
    what = f"each of {len(rows):,} queries"
    if np.ptp(precision) == 0:
        return _Option(RealStrategy(rows), total, largest, what)
    multipliers = np.rint(np.sqrt(precision / precision.max()) * 2.0**_BITS).astype(np.int64)
    return _Option(RealStrategy(np.diag(multipliers), rows), total, largest, what)


def _cells(request: Request) -> _Option:
    n = request.workload.shape[1]
    lengths = request.workload.operator.row_norms() ** 2
    w, caps = request.objective.weights(request.workload), _caps(request)
    largest = math.inf if caps is None else float((lengths / caps).max(initial=0.0))
    return _Option(RealStrategy(np.eye(n, dtype=np.int64)), float(w @ lengths), largest, "every cell")


def _caps(request: Request) -> Array | None:
    """The caps at profile 1; None where there are none."""
    caps = request.objective.caps(request.workload)
    if caps is None or request.objective.kind == "largest":
        return caps
    return caps * float(request.privacy.column_budget) * (1 - ROUNDING)


PLAIN = Method(
    "plain",
    "plain noise on tables of values, on the queries or on the cells, the budget divided by a closed form",
    _refuses,
    _find,
    takes_absolute=True,
)
