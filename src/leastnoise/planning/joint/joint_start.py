"""Bases to start from: rows that see few values each, so that weights can shape the profile locally.

From rows spread over all values, as eigenvectors are, the search ends 1 to 6 % higher on strips: no choice
of ω then changes the profile of a few cells.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core.decompositions import pseudo_inverse
from leastnoise.core.operators import Array
from leastnoise.planning.joint.joint_problem import JointAxis, JointProblem
from leastnoise.planning.oblique.splitting import Split

# The standard deviation of what is added to every entry of a basis. Without it the search would stay among
# bases as symmetric as the first; 0.02 to 0.2 ended within 0.03 % of one another on strips over 64 by 64.
_NOISE = 0.05


def unit_start(problem: JointProblem, rng: np.random.Generator) -> list[Array]:
    """The basis of what is asked as it is, and a little noise."""
    return _for_groups(problem, rng, lambda axis: np.eye(axis.rank))


def eigen_start(problem: JointProblem) -> list[Array]:
    """Eigenvectors of a mixture of all that is asked of an axis.

    Where the Gram matrices of an axis commute, as those of a tree's levels and of the identity do, these
    diagonalise all of them and, with equal weights of the cells, are the optimum itself.
    """
    found: list[Array] = []
    for a, axis in enumerate(problem.axes):
        if problem.groups[a] < a:
            found.append(found[problem.groups[a]])
            continue
        # In coordinates where every cell counts alike: B Bᵀ becomes the identity.
        size, turn = np.linalg.eigh(axis.columns @ axis.columns.T)
        whiten = turn / np.sqrt(np.maximum(size, size[-1] * 1e-12))
        # Shares that no two kinds have in a ratio of small numbers, so that few eigenvalues fall together.
        mixture = np.zeros((axis.rank, axis.rank))
        for kind, V in enumerate(axis.grams):
            mixture += (1 + np.sqrt(2 + kind)) * V / (float(np.trace(V)) or 1.0)
        vectors = np.linalg.eigh(whiten.T @ mixture @ whiten)[1]
        C = (whiten @ vectors).T
        found.append(pinned(problem, a, C))
    return found


def haar_start(problem: JointProblem, rng: np.random.Generator) -> list[Array]:
    """Haar's wavelets: 1ᵀ, and differences of neighbouring intervals."""

    def coefficients(axis: JointAxis) -> Array:
        # Projected on what is asked; the noise makes up for directions that this loses.
        return haar(axis.columns.shape[1]) @ pseudo_inverse(axis.columns)

    def square(axis: JointAxis) -> Array:
        if axis.basis is None:
            return haar(axis.rank)
        found = coefficients(axis)
        chosen = _independent(found)
        return found[chosen]

    return _for_groups(problem, rng, square)


def residual_start(problem: JointProblem, split: Split) -> list[Array] | None:
    """The rows of a plan by residuals: 1ᵀ, and of every axis the residual rows that answer most kinds.

    With ω constant on blocks these bases are that plan, where it has one centre and one part per axis. Where
    it has more, as other centres after other axes, no basis of one axis holds them all.

    Returns:
        C of every axis; None where the rows do not span what is asked.
    """
    shares = np.zeros(len(split.parts))
    for parts, x in zip(split.blocks.parts_of_blocks(), split.x, strict=True):
        shares[list(parts)] += x
    found: list[Array] = []
    for a, axis in enumerate(problem.axes):
        if problem.groups[a] < a:
            found.append(found[problem.groups[a]])
            continue
        rows = _residual_rows(split, a, shares)
        C = rows[:, _first_of_each_kind(axis)] @ pseudo_inverse(axis.columns)
        C = C[_independent(C)]
        if len(C) < axis.rank:
            return None
        if problem.pinned[a]:
            # The same but for rounding.
            C[0] = axis.total
        found.append(C)
    return found


def _residual_rows(split: Split, a: int, shares: Array) -> Array:
    """Rows of one axis over all its values, those that should be kept first."""
    size = split.products.sizes[a]
    ones = np.ones((1, size))
    form, root = split.axes[a].form, split.axes[a].root
    if form == "summed":
        return ones
    if form == "identity":
        return np.eye(size)
    if form == "whole":
        assert root is not None
        return root
    if form == "centred":
        return np.vstack([ones, haar(size)[1:]])
    parts = [place for place, part in enumerate(split.parts) if part.axis == a]
    parts.sort(key=lambda place: (-len(split.parts[place].kinds), -shares[place]))
    roots = [root for place in parts if (root := split.parts[place].root) is not None]
    return np.vstack([ones, *roots])


def _first_of_each_kind(axis: JointAxis) -> Array:
    """A value for every column of an axis."""
    return np.unique(axis.kind_of_value, return_index=True)[1]


def _independent(rows: Array) -> Array:
    """As many independent rows as there are columns, the first ones first."""
    kept: list[int] = []
    basis = np.zeros((0, rows.shape[1]))
    for number, row in enumerate(rows):
        left = row - (row @ basis.T) @ basis
        left = left - (left @ basis.T) @ basis
        size = float(np.linalg.norm(left))
        if size > _DEPENDENT * max(float(np.linalg.norm(row)), 1e-300):
            kept.append(number)
            basis = np.vstack([basis, left / size])
        if len(kept) == rows.shape[1]:
            break
    return np.array(kept, dtype=np.intp)


# A row that differs from what others span by less than this share of its length adds no direction.
_DEPENDENT = 1e-6


def haar(n: int) -> Array:
    """An orthogonal (n, n) matrix of Haar's wavelets, the constant first; intervals of odd length are cut
    in unequal halves."""
    rows = [np.full(n, 1 / np.sqrt(n))]
    waiting = [(0, n)]
    while waiting:
        low, high = waiting.pop(0)
        if high - low < 2:
            continue
        middle = (low + high) // 2
        row = np.zeros(n)
        left, right = middle - low, high - middle
        row[low:middle] = np.sqrt(right / (left * (left + right)))
        row[middle:high] = -np.sqrt(left / (right * (left + right)))
        rows.append(row)
        waiting += [(low, middle), (middle, high)]
    return np.array(rows)


def _for_groups(problem: JointProblem, rng: np.random.Generator, made: object) -> list[Array]:
    """A basis for every axis, the same for axes that share theirs."""
    assert callable(made)
    found: list[Array] = []
    for a, axis in enumerate(problem.axes):
        if problem.groups[a] < a:
            found.append(found[problem.groups[a]])
            continue
        C = np.asarray(made(axis))
        C = C + _NOISE * rng.standard_normal(C.shape) * np.abs(C).max(axis=1, keepdims=True)
        found.append(pinned(problem, a, C))
    return found


def pinned(problem: JointProblem, a: int, C: Array) -> Array:
    """A basis whose first row is 1ᵀ where the axis is pinned: of the rows, the one most like it goes."""
    axis = problem.axes[a]
    if not problem.pinned[a]:
        return C
    assert axis.total is not None
    # 1ᵀ = c C: the row with the largest part in it may be replaced.
    part = np.linalg.solve(C.T, axis.total)
    out = int(np.argmax(np.abs(part) * np.linalg.norm(C, axis=1)))
    return np.vstack([axis.total, np.delete(C, out, axis=0)])
