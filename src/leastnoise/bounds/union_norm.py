"""Lower bounds on the nuclear norm of a union of products, at any scale.

    F(w, q) = ‖ diag(√w) W diag(√q) ‖_*  =  trace K^½,   K = Σ_j w_j ⊗_a K_{j,a},   q = ⊗_a q_a

K_{j,a} = diag(e_a) V_{j,a} diag(e_a) with e_a = √q_a where product j asks rows with Gram matrix V_{j,a} of
axis a, and e_a e_aᵀ where it does not mention the axis. K has as many rows as there are cells, and nobody
can hold it. In this order:

    union_axes        of every axis only the directions near e_a mix products that mention it with others
    union_questions   axes that all products ask alike multiply F by a norm of their own, and go
    union_directions  what a few directions of the axes ask together is decomposed, or, where that is too
                      much, inverted by blocks
    union_norm        axes are cut after some directions, which lowers F, mostly by less than 1 in 1,000;
                      where e_a is an eigenvector, as for plain counts under equal weights, nothing mixes:
                      many such axes are one number for every set of them
    union_rotations   the same from one rotation of every axis, where several things are asked of each value
                      by value: the larger of the two counts

Nothing lowers F where one axis or one product is asked, for marginals under equal weights, and where at most
1,500 combinations of directions count.

A nuclear norm is at least the sum of those of disjoint blocks: ‖M‖_* ≥ Σ_i ‖P_i M Q_i‖_* for orthogonal
projections P_i of its rows and Q_i of its columns. In a basis of every axis that starts with e
(`union_axes`), M has for every product the Kronecker product of the roots K^½ of what it asks, and of a row
(1, 0, 0, …) for every axis that it does not mention. Every axis is cut after some directions. Then the blocks
are

    every axis in its first directions: a matrix that is decomposed, or at least inverted;
    axis a in the others, those before it in their first directions, those after it in any: only products
    that mention a are left, which makes it the same problem with an axis less.

Rows of a product belong to the block of the same directions. It must be roots that are cut: blocks of K
itself would give Σ_i trace (P_i K P_i)^½, which is more than trace K^½, not less. A root and its diagonal
blocks have the same trace, so an axis by itself loses nothing. What is lost lies across the cuts, where
products that mention an axis meet products that do not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from leastnoise.bounds.union_axes import AxisRoots
from leastnoise.bounds.union_directions import (
    AskedKinds,
    ResolventBlocks,
    norm_by_resolvents,
    sum_of_norms_dense,
)
from leastnoise.bounds.union_questions import UnionQuestions, without_alike
from leastnoise.bounds.union_rotations import UnionRotations, rotations_work
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import MAX_PAIRS, Lattice, Products

# Cuts ----------------------------------------------------------------------------------------------------

# At most this many directions are decomposed together: about a second.
_MAX_DECOMPOSED = 1_500

# The same where there are many weights, each with a decomposition of its own.
_MAX_DECOMPOSED_OF_MANY = 250

# Floating-point operations that resolvents may take: about a second.
_MAX_OPERATIONS = 4e9

# Problems within a problem are many, so each may take this many times fewer operations.
_WORK_RATIO = 20

# But at least this many operations.
_MIN_OPERATIONS = 1e8

# At most this many different weights have resolvents of their own, whatever they take.
_FEW_WEIGHTS = 4

# Columns of weights that agree to this many decimal digits are one.
_DIGITS = 12

# A cut that leaves out no more than this share of the squares of a root loses nothing.
_NO_LOSS = 1e-28


def sum_of_norms(
    axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds], weights: Array, work: float
) -> float:
    """A lower bound on Σ_c F(w_c), over the columns w_c of the weights, (terms, columns), by cuts.

    Args:
        work: about how many operations may be spent on the first block; infinite where nothing is to be cut.
    """
    axes, terms, weights = _simplified(axes, terms, weights)
    if not weights.size:
        return 0.0
    if not axes:
        return math.fsum(np.sqrt(weights[0]))
    weights = _distinct(weights)
    blocks = ResolventBlocks([tuple(a for a, _ in term) for term in terms])
    kept, by_resolvents = _cuts(axes, terms, weights, blocks, work)
    first: dict[int, AxisRoots] = {}
    others: dict[int, Array] = {}
    for a, axis in axes.items():
        first[a], others[a] = axis.cut(int(kept[a]))
    if by_resolvents:
        total = [norm_by_resolvents(first, terms, w) for w in weights.T]
    else:
        total = [sum_of_norms_dense(first, terms, weights, is_exact=math.isinf(work))]
    anywhere = dict(axes)
    for a, roots in others.items():
        del anywhere[a]
        if len(roots):
            around = {**{b: first[b] for b in axes if b not in anywhere and b != a}, **anywhere}
            total.append(_within(around, terms, weights, a, roots, max(_MIN_OPERATIONS, work / _WORK_RATIO)))
    return math.fsum(total)


def _within(
    axes: Mapping[int, AxisRoots],
    terms: Sequence[AskedKinds],
    weights: Array,
    a: int,
    roots: Array,
    work: float,
) -> float:
    """The sum over products that mention axis a, where its kinds have these roots, (directions, kinds)."""
    places = [t for t, term in enumerate(terms) if any(axis == a for axis, _ in term)]
    kinds = [next(kind for axis, kind in terms[t] if axis == a) for t in places]
    without = [tuple(part for part in terms[t] if part[0] != a) for t in places]
    if len(set(kinds)) == 1:
        # All directions have the same problem but for its size.
        roots = roots.sum(axis=0, keepdims=True)
    spread = weights[places][:, :, None] * (roots.T[kinds] ** 2)[:, None, :]
    return sum_of_norms(axes, without, spread.reshape(len(places), -1), work)


def _simplified(
    axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds], weights: Array
) -> tuple[dict[int, AxisRoots], list[AskedKinds], Array]:
    """The same problem: products that ask the same added up, axes left out that all products ask alike."""
    mentioned: dict[int, Counter[int]] = {}
    for term in terms:
        for a, kind in term:
            mentioned.setdefault(a, Counter())[kind] += 1
    for a, counts in list(mentioned.items()):
        if len(counts) == 1 and counts.total() == len(terms):
            del mentioned[a]
            (kind,) = counts
            weights = weights * axes[a].norms[kind] ** 2
    number: dict[AskedKinds, int] = {}
    places = [
        number.setdefault(tuple(part for part in term if part[0] in mentioned), len(number)) for term in terms
    ]
    added = np.zeros((len(number), weights.shape[1]))
    np.add.at(added, places, weights)
    return {a: axes[a] for a in sorted(mentioned)}, list(number), added[:, added.any(axis=0)]


def _distinct(weights: Array) -> Array:
    """Fewer columns with no larger a sum of norms: those that are multiples of one another as one."""
    with np.errstate(divide="ignore"):
        shapes = np.round(np.log(weights / weights.sum(axis=0)), _DIGITS)
    _, first, group = np.unique(shapes, axis=1, return_index=True, return_inverse=True)
    # F(c w) = √c F(w), and F grows with every weight.
    reference = weights[:, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(reference[:, group] > 0, weights / reference[:, group], math.inf).min(axis=0)
    return reference * np.bincount(group, np.sqrt(ratios)) ** 2


def _cuts(
    axes: Mapping[int, AxisRoots],
    terms: Sequence[AskedKinds],
    weights: Array,
    blocks: ResolventBlocks,
    work: float,
) -> tuple[Array, bool]:
    """After how many directions every axis is cut, and whether resolvents take what is left.

    Wherever a cut loses most, one direction is added, as long as that is not too much.
    """
    n_columns = weights.shape[1]
    whole = np.ones(max(axes) + 1)
    for a, axis in axes.items():
        whole[a] = axis.size
    is_first = n_columns == 1 and work >= _MAX_OPERATIONS
    most = _MAX_DECOMPOSED if is_first or math.isinf(work) else _MAX_DECOMPOSED_OF_MANY
    if blocks.count(whole) <= most:
        return whole, False
    each = work / n_columns
    by_resolvents = n_columns <= _FEW_WEIGHTS or blocks.work(whole) <= each

    def fits(sizes: Array) -> bool:
        return blocks.work(sizes) <= each if by_resolvents else blocks.count(sizes) <= most

    if fits(whole):
        return whole, by_resolvents
    share = dict.fromkeys(axes, 0.0)
    for term, weight in zip(terms, weights.mean(axis=1).tolist(), strict=True):
        strength = math.sqrt(weight) * math.prod(axes[a].norms[kind] for a, kind in term)
        for a, _ in term:
            share[a] += strength
    kept = np.ones_like(whole)
    loss = {a: share[a] * axis.across[0] for a, axis in axes.items() if axis.size > 1}
    while loss:
        a = max(loss, key=loss.__getitem__)
        kept[a] += 1
        size = int(kept[a])
        if axes[a].across[size - 2] <= _NO_LOSS or not fits(kept):
            kept[a] -= 1
            del loss[a]
        elif size == axes[a].size:
            del loss[a]
        else:
            loss[a] = share[a] * axes[a].across[size - 1]
    return kept, by_resolvents


# The bound itself ----------------------------------------------------------------------------------------

# Operations, as `core.resources` counts them, for each direction cubed where all are decomposed together:
# 0.39 s for 660 directions, where a core does 50 operations in a nanosecond.
_WORK_PER_CUBE = 60.0

# The same where axes are cut: 0.9 to 1.5 s for 500 to 4,500 tables over 6 to 30 attributes, five of them of
# 100 values, and no more than 1.6 s in 140 random unions.
_WORK_WITH_CUTS = 8e10


def union_bound_work(products: Products) -> float:
    """About how many operations `union_bound` takes, at most, where values of plain axes weigh alike."""
    if products.are_marginals:
        return 0.0
    # Axes of plain counts, and axes that all products ask alike, are a number each.
    asked = [frozenset(zip(term.places, term.kinds, strict=True)) for term in products.terms]
    alike = {a for a, _ in frozenset.intersection(*asked)}
    alike |= {a for a, kinds in enumerate(products.kinds) if all(kind.is_identity for kind in kinds)}
    sets = {tuple(a for a in own if a not in alike) for own in products.sets}
    sizes = np.array(products.sizes, dtype=float)
    rotated = _rotation_work(products, asked)
    if any(math.prod(sizes[list(own)]) > _MAX_DECOMPOSED for own in sets):
        return _WORK_WITH_CUTS + rotated
    directions = ResolventBlocks(list(sets)).count(sizes)
    return min(_WORK_PER_CUBE * directions**3, _WORK_WITH_CUTS) + rotated


def whole_axis_work(size: int, n_sets: int) -> float:
    """Operations of decomposing an axis whole for every set of others; none where axes are split instead."""
    return _WORK_PER_CUBE * float(size) ** 3 * n_sets if size > _MAX_DECOMPOSED else 0.0


def _rotation_work(products: Products, asked: Sequence[frozenset[tuple[int, int]]]) -> float:
    """About how many operations `_by_rotations` takes, at most, for the kinds that products ask of axes."""
    alike = {a for a, _ in frozenset.intersection(*asked)}
    places = [a for a, kinds in enumerate(products.kinds) if kinds and a not in alike]
    sizes = [products.sizes[a] for a in places]
    n_products = len(set(asked))
    if not _may_rotate(sizes, n_products):
        return 0.0
    sets = {tuple(a for a in own if a in places) for own in products.sets}
    if ResolventBlocks(list(sets)).count(np.array(products.sizes, dtype=float)) <= _MAX_DECOMPOSED:
        return 0.0
    return rotations_work(sizes, [len(products.kinds[a]) for a in places], n_products)


def union_norm_below(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    row_weights: Mapping[tuple[int, int], Array] | None = None,
) -> float:
    """A lower bound on F(w, q) = ‖ diag(√w) W diag(√q) ‖_*.

    It is F itself, but for rounding, where one axis or one product is asked, for marginals under equal
    weights, where more than plain counts under equal weights is asked of one axis only, and where those
    combinations of values that products tell apart are at most 1,500. Axes that all products ask alike lose
    nothing.

    Args:
        weights: w, one of every product; zeros are allowed.
        q: weights of the values of every axis; zeros are allowed.
        row_weights: for (axis, kind) the weights of that kind's rows, whose Gram matrix is then
            Wᵀ diag(·) W; all are 1 unless given.

    Guarantee:
        The bound holds up to floating-point rounding of a few matrix products, like those of `nuclear_norm`.
        Where matrices have to be inverted, what rounding may add is taken off.

    Raises:
        DesignError: if the weights do not fit the products.
        TooLargeError: if a product crosses too many axes to list their subsets.
    """
    norm, totals = _norm_and_totals(products, weights, q, row_weights or {})
    return norm * math.exp(math.fsum(0.5 * math.log(total) for total in totals)) if norm > 0 else 0.0


def union_bound(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    row_weights: Mapping[tuple[int, int], Array] | None = None,
    deadline: Deadline = NEVER,
) -> float:
    """F(w, q)²/Π_a Σq_a, with F from `union_norm_below`.

    Args:
        deadline: when rotations that would raise it are left as they are. A certificate's bound has none, so
            that it is the same each time.

    Guarantee:
        At privacy profile 1, no Gaussian noise has less total variance, up to rounding as there.
    """
    norm, _ = _norm_and_totals(products, weights, q, row_weights or {}, deadline)
    return norm * norm


def _checked(
    products: Products, weights: Array, q: Sequence[Array], row_weights: Mapping[tuple[int, int], Array]
) -> list[Array]:
    """The weights of the axes as floats, after checking that all fit."""
    if weights.shape != (len(products.terms),) or len(q) != len(products.axes):
        raise DesignError(
            f"a bound on {len(products.terms):,} products of {len(products.axes)} attributes needs a weight "
            f"of each product and weights of each attribute's values, got {weights.size:,} and {len(q)}",
            field="weights",
            given=weights.size,
        )
    floats = [np.asarray(of_axis, dtype=float) for of_axis in q]
    for place, (axis, of_axis) in enumerate(zip(products.axes, floats, strict=True)):
        if of_axis.shape != (axis.size,):
            raise DesignError(
                f"the weights of {' and '.join(axis.names)} must be {axis.size:,} numbers, "
                f"got {of_axis.size:,}",
                field="weights",
                given=of_axis.size,
            )
        for kind, block in enumerate(products.kinds[place]):
            given = row_weights.get((place, kind))
            if given is not None and np.shape(given) != (block.n_rows,):
                raise DesignError(
                    f"a block of {block.n_rows:,} queries of {' and '.join(axis.names)} needs a weight of "
                    f"each, got {np.size(given):,}",
                    field="weights",
                    given=np.size(given),
                )
    for numbers in (weights, *floats, *row_weights.values()):
        if not (np.isfinite(numbers).all() and (np.asarray(numbers) >= 0).all()):
            raise DesignError("the weights behind a bound must be finite, zero or more", field="weights")
    return floats


def _norm_and_totals(
    products: Products,
    weights: Array,
    q: Sequence[Array],
    row_weights: Mapping[tuple[int, int], Array],
    deadline: Deadline = NEVER,
) -> tuple[float, list[float]]:
    """A lower bound on F for q that add up to 1 on every axis, and what they add up to."""
    weights = np.asarray(weights, dtype=float)
    q = _checked(products, weights, q, row_weights)
    totals = [math.fsum(of_axis) for of_axis in q]
    unit = float(weights.max(initial=0))
    if unit <= 0 or min(totals, default=1.0) <= 0:
        return 0.0, totals
    norm = _of_marginals(products, weights / unit, q) if not row_weights else None
    if norm is None:
        terms: dict[AskedKinds, float] = {}
        for term, weight in zip(products.terms, weights.tolist(), strict=True):
            if weight > 0:
                asked = tuple(zip(term.places, term.kinds, strict=True))
                terms[asked] = terms.get(asked, 0.0) + weight / unit
        alike, rest = without_alike(UnionQuestions(products, q, row_weights, terms))
        norm = alike * max(_of_split_axes(rest), _by_rotations(rest, deadline))
    return norm * math.sqrt(unit), totals


def _of_marginals(products: Products, weights: Array, q: Sequence[Array]) -> float | None:
    """F in closed form for marginals under equal weights; None for anything else.

    For every set s of axes K has the eigenvalue Σ_{t ⊇ s} w_t Π_{a in t∖s} 1/n_a, over Π_{a in s} n_a, and
    Π_{a in s} (n_a − 1) times. Values whose weight is zero do not count.
    """
    counted = [of_axis[of_axis > 0] for of_axis in q]
    are_equal = all((of_axis == of_axis[0]).all() for of_axis in counted)
    if not (products.are_marginals and are_equal) or sum(2 ** len(s) for s in products.sets) > MAX_PAIRS:
        return None
    sizes = np.array([float(len(of_axis)) for of_axis in counted])
    lattice = Lattice(products.sets, len(sizes))
    inside = [np.ones(axes.shape) for _, axes in lattice.groups]
    outside = [1 / sizes[axes] for _, axes in lattice.groups]
    eigenvalues = weights @ lattice.matrix(inside, outside)
    return math.fsum(np.sqrt(eigenvalues) * lattice.product_over((sizes - 1) / np.sqrt(sizes)))


# Combinations of values, at most, over which axes are rotated: some arrays of as many numbers are held.
_MAX_ROTATED = 2**21

# Values of an axis, at most, that is rotated: a singular value decomposition each time.
_MAX_ROTATED_SIZE = 640

# Numbers of kinds and combinations, multiplied, at most.
_MAX_ROTATED_WORK = 2**26


def _may_rotate(sizes: Collection[int], n_products: int) -> bool:
    """Whether axes of these sizes are few and small enough to be rotated."""
    count = math.prod(sizes)
    is_large = count > _MAX_ROTATED or max(sizes, default=0) > _MAX_ROTATED_SIZE
    return bool(sizes) and not is_large and count * n_products <= _MAX_ROTATED_WORK


def _by_rotations(questions: UnionQuestions, deadline: Deadline) -> float:
    """The bound of `union_rotations`; 0 where it would take long, or where `_of_split_axes` is exact."""
    sizes = questions.sizes
    if not _may_rotate(sizes.values(), len(questions.terms)) or questions.are_few(_MAX_DECOMPOSED):
        return 0.0
    places = {a: {kind: number for number, kind in enumerate(own)} for a, own in questions.mixtures.items()}
    asked = [
        [places[a].get(dict(term).get(a, -1), len(places[a])) for a in sizes] for term in questions.terms
    ]
    weights = np.array(list(questions.terms.values()))
    # From equal weights, under which what is asked of an axis often commutes: from the weights themselves
    # the rotations ended 4 % lower on strips over 64 by 64 cells.
    union = UnionRotations(asked, weights, [questions.roots(a, with_equal_weights=True) for a in sizes])
    union.change_factors([questions.roots(a) for a in sizes])
    return union.climb(deadline)


def _of_split_axes(questions: UnionQuestions) -> float:
    """The bound on what is asked of axes in different ways."""
    from scipy import sparse

    axes: dict[int, AxisRoots] = {}
    slack = 1.0
    names: dict[tuple[int, int], tuple[int, int]] = {}
    # An axis with more values than are split is decomposed whole, for every set of the others.
    whole = questions.large_axis(_MAX_DECOMPOSED)
    for a, mixtures in questions.mixtures.items():
        names |= {(a, kind): (a, place) for place, kind in enumerate(mixtures)}
        if a != whole:
            axes[a], kept = questions.split(a)
            slack *= math.sqrt(kept) / axes[a].stretch
    terms = [tuple(names[part] for part in asked) for asked in questions.terms]
    weights = np.array(list(questions.terms.values()))
    # Axes where e is by itself: one number for it, one for all else, and no cut that loses anything.
    simple = {a for a, axis in axes.items() if len(axis.roots) == 1 and axis.across[0] <= _NO_LOSS}
    n_axes = max(questions.mixtures, default=0) + 1
    lattice = Lattice([tuple(a for a, _ in term if a in simple) for term in terms], n_axes)
    at_e, others = np.ones(lattice.n_axes), np.ones(lattice.n_axes)
    for a in simple:
        at_e[a] = axes[a].roots[0][0, 0]
        others[a] = max(float(axes[a].norms[0]) - at_e[a], 0.0)
    inside = [np.ones(group.shape) for _, group in lattice.groups]
    per_set = lattice.matrix(inside, [at_e[group] ** 2 for _, group in lattice.groups])
    general = [tuple(part for part in term if part[0] not in simple) for term in terms]
    asked = list(dict.fromkeys(general))
    number = {term: place for place, term in enumerate(asked)}
    sums = sparse.csr_array(
        (weights, (np.array([number[term] for term in general]), np.arange(len(terms)))),
        (len(asked), len(terms)),
    )
    # Column r: what is asked of the other axes by all products that mention the simple axes of set r.
    columns = sparse.csc_array(sums @ per_set)
    scale = lattice.product_over(others) ** 2
    if whole is not None:
        return slack * _sum_over_whole_axis(questions, whole, asked, columns.toarray() * scale)
    work = math.inf if questions.are_few(_MAX_DECOMPOSED) else _MAX_OPERATIONS
    return slack * _sum_over_sets(axes, asked, columns, scale, work)


def _sum_over_whole_axis(
    questions: UnionQuestions, a: int, asked: Sequence[AskedKinds], weights: Array
) -> float:
    """Σ_r F of column r of weights, (asked, sets), where nothing but kinds of one axis is asked."""
    kinds = list(questions.mixtures[a])
    total = []
    for column in _distinct(weights[:, weights.any(axis=0)]).T.tolist():
        own: dict[int, float] = {}
        at_total = 0.0
        for term, weight in zip(asked, column, strict=True):
            if term:
                own[kinds[term[0][1]]] = weight
            else:
                at_total = weight
        total.append(questions.norm_of_kinds(a, own, at_total))
    return math.fsum(total)


def _sum_over_sets(
    axes: dict[int, AxisRoots], asked: list[AskedKinds], columns: Any, scale: Array, work: float
) -> float:
    """Σ_r F of column r times its scale, those that ask the same products together."""
    columns.sort_indices()
    starts, rows = columns.indptr, columns.indices
    data = columns.data * np.repeat(scale, np.diff(starts))
    # Sets that leave nothing to ask of the other axes are most of them.
    is_last = (np.diff(starts) == 1) & (rows[np.minimum(starts[:-1], len(rows) - 1)] == _place(asked, ()))
    total = [math.fsum(np.sqrt(data[starts[:-1][is_last]]))]
    alike: dict[bytes, list[int]] = {}
    for r in np.flatnonzero(~is_last & (scale > 0)).tolist():
        alike.setdefault(rows[starts[r] : starts[r + 1]].tobytes(), []).append(r)
    for same in alike.values():
        terms = [asked[row] for row in rows[starts[same[0]] : starts[same[0] + 1]]]
        weights = np.stack([data[starts[r] : starts[r + 1]] for r in same], axis=1)
        # The first set is the empty one, which all products have in common: it may take as much as all.
        total.append(sum_of_norms(axes, terms, weights, work if same[0] == 0 else work / len(alike)))
    return math.fsum(total)


def _place(asked: list[AskedKinds], term: AskedKinds) -> int:
    return asked.index(term) if term in asked else -1
