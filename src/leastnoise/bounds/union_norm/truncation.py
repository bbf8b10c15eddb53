"""The nuclear norm of a union of products over many directions, from those over few.

A nuclear norm is at least the sum of those of disjoint blocks: ‖M‖_* ≥ Σ_i ‖P_i M Q_i‖_* for orthogonal
projections P_i of its rows and Q_i of its columns. In a basis of every axis that starts with e (`axes`), M
has for every product the Kronecker product of the roots K^½ of what it asks, and of a row (1, 0, 0, …) for
every axis that it does not mention. Every axis is cut after some directions. Then the blocks are

    every axis in its first directions: a matrix that is decomposed (`dense`), or at least inverted
    (`resolvent`);
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
from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.bounds.union_norm.axes import SplitAxis
from leastnoise.bounds.union_norm.few_directions import Asked, sum_of_norms_dense
from leastnoise.bounds.union_norm.resolvent import Blocks, norm_by_resolvents
from leastnoise.core.operators import Array

# Directions that are decomposed together at most, and where weights differ; then the operations that
# resolvents may take, about a second.
MOST_TOGETHER, _MOST_OF_MANY, MOST_WORK = 1_500, 250, 4e9

# Problems within a problem are many, so each may take this many times less, but always so much.
_FEWER, _LEAST_WORK = 20, 1e8

# So many different weights are worth resolvents of their own, whatever they take.
_FEW = 4

# Columns of weights that agree to so many digits are one.
_DIGITS = 12

# A cut that leaves out no more than this share of the squares of a root loses nothing.
NOTHING = 1e-28


def sum_of_norms(axes: Mapping[int, SplitAxis], terms: Sequence[Asked], weights: Array, work: float) -> float:
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
    blocks = Blocks([tuple(a for a, _ in term) for term in terms])
    kept, by_resolvents = _cuts(axes, terms, weights, blocks, work)
    first: dict[int, SplitAxis] = {}
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
            total.append(_within(around, terms, weights, a, roots, max(_LEAST_WORK, work / _FEWER)))
    return math.fsum(total)


def _within(
    axes: Mapping[int, SplitAxis], terms: Sequence[Asked], weights: Array, a: int, roots: Array, work: float
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
    axes: Mapping[int, SplitAxis], terms: Sequence[Asked], weights: Array
) -> tuple[dict[int, SplitAxis], list[Asked], Array]:
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
    number: dict[Asked, int] = {}
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
    axes: Mapping[int, SplitAxis], terms: Sequence[Asked], weights: Array, blocks: Blocks, work: float
) -> tuple[Array, bool]:
    """After how many directions every axis is cut, and whether resolvents take what is left.

    Wherever a cut loses most, one direction is added, as long as that is not too much.
    """
    n_columns = weights.shape[1]
    whole = np.ones(max(axes) + 1)
    for a, axis in axes.items():
        whole[a] = axis.size
    is_first = n_columns == 1 and work >= MOST_WORK
    most = MOST_TOGETHER if is_first or math.isinf(work) else _MOST_OF_MANY
    if blocks.count(whole) <= most:
        return whole, False
    each = work / n_columns
    by_resolvents = n_columns <= _FEW or blocks.work(whole) <= each

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
        if axes[a].across[size - 2] <= NOTHING or not fits(kept):
            kept[a] -= 1
            del loss[a]
        elif size == axes[a].size:
            del loss[a]
        else:
            loss[a] = share[a] * axes[a].across[size - 1]
    return kept, by_resolvents
