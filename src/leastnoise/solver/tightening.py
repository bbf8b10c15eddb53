"""Noise near the optimum within caps, moved until the constraints that have weights hold with equality.

Where caps leave hardly any room, weights are so large beside the total that rounding in the search, some
1e-11 of a variance, costs more than the gap asked for. With Σ = RᵀR, queries g_j = R l_j/√c_j and columns
a_i = R^{−T} b_i, the constraints say that no h = g_j or a_i is longer than 1. A small symmetric E changes
R to (I + E/2) R, and so

    ‖g_j‖² by g_jᵀ E g_j ,   ‖a_i‖² by −a_iᵀ E a_i .

Sought is E = −Σ_c s_c x_c h_c h_cᵀ over the constraints with weights, s = 1 for queries and −1 for columns,
that takes away what they deviate from 1 by: a symmetric system (s_c s_d (h_cᵀ h_d)²) x = deviation.
Corrections need few digits, so that they are as exact as the lengths are. What is measured in several blocks
has an R and an E for each, and squared lengths that are sums over them; x is one for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.operators import Array

# Corrections, at most; each leaves the square of what the last one did, and rounding.
_TURNS = 8

# Constraints take part if their weight is at least this share of the largest. Where caps leave a millionth of
# room, weights of 1e-6 of the largest still cost more than the gap when they stay off their constraints.
# Which of the small ones belong to constraints that bind shows only when it is tried.
SHARES = (1e-6, 1e-8, 1e-9, 1e-10, 1e-12)

# Directions of the system below this share of the strongest are nothing but rounding.
_WEAK = 1e-16

# Lengths aimed for are below 1 by this much, about what rounding changes.
_BELOW = 4e-15

# Corrections larger than this lead away from what the search found.
_LARGEST = 1e-3


def tightened(
    roots: Sequence[Array], queries: Sequence[Array], columns: Sequence[Array], weights: Array, share: float
) -> list[Array] | None:
    """Roots moved so that constraints with weights hold with equality; None where they are too far from it.

    Args:
        roots: of the covariance of every block, (k, k).
        queries: l_j/√c_j in every block, (k, m), whose variances are to be at most 1 together.
        columns: R^{−T} b_i in every block, (k, n), of length at most 1 together.
        weights: of queries and columns, (m + n,).
        share: of the largest weight, what a constraint needs to take part.
    """
    from scipy import linalg

    m = queries[0].shape[1]
    counts = np.flatnonzero(weights >= share * weights.max(initial=0))
    signs = np.where(counts < m, 1.0, -1.0)
    moved = list(roots)
    sides = [np.hstack([R @ own, beta]) for R, own, beta in zip(roots, queries, columns, strict=True)]
    for _ in range(_TURNS):
        chosen = [h[:, counts] for h in sides]
        deviation = np.asarray(sum((own**2).sum(axis=0) for own in chosen)) - (1 - _BELOW)
        if np.abs(deviation).max(initial=0) <= _BELOW:
            break
        system = np.outer(signs, signs) * sum((own.T @ own) ** 2 for own in chosen)
        values, vectors = linalg.eigh(system)
        is_strong = values > _WEAK * values[-1]
        x = vectors[:, is_strong] @ ((vectors[:, is_strong].T @ deviation) / values[is_strong])
        for number, (own, h) in enumerate(zip(chosen, sides, strict=True)):
            E = -(own * (signs * x)) @ own.T
            if not np.abs(E).max(initial=0) <= _LARGEST:
                return None
            half = np.eye(len(h)) + E / 2
            moved[number] = half @ moved[number]
            h[:, :m] = half @ h[:, :m]
            try:
                h[:, m:] = linalg.solve(half, h[:, m:], assume_a="sym")
            except linalg.LinAlgError:
                return None
    return moved
