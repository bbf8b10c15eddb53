"""Dual weights of product form: those under which the bound of a union of products is nearly the largest.

Any weights q = ⊗_a q_a prove the bound F(w, q)²/ΠΣq_a of `union_norm`; the best of this form are looked for
here. With e_a = √q_a, |e_a| = 1, and K = E V E over all cells,

    F = trace K^½,    ∂F/∂e_a(i) = m_a(i)/e_a(i),    m_a(i) = Σ of (K^½)_cc over cells with value i        (1)

and Σ_i m_a(i) = F, so the best weights are q_a = m_a. F is concave in the q of every axis, and in e it grows
as evenly as it can (for plain counts it is linear), so a quasi-Newton method over e needs few steps: some
twenty for what q ← m does in hundreds.

As in `union_norm`, axes of which only plain counts are asked have equal weights, and are numbers; of the
others only those combinations of directions count that some product mentions together. Where these are few,
(1) is exact, for all axes at once. Else one axis after the other moves: the others are cut after a few
directions that hold e, and what lies beyond is as if it were diagonal. The bound itself is the judge.

A module imports only modules that stand above it here:

    problems    products and their weights, and few problems that stand for many
    union       F and m of (1) for one union of products
    cuts        what is left to one axis where the others are cut
    search      goes through the axes until the bound hardly grows
"""

from leastnoise.planning.oblique.dual.weight_search import dual_weights

__all__ = ["dual_weights"]
