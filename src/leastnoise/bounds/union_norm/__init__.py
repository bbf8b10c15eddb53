"""Lower bounds on the nuclear norm of a union of products, at any scale.

    F(w, q) = ‖ diag(√w) W diag(√q) ‖_*  =  trace K^½,   K = Σ_j w_j ⊗_a K_{j,a},   q = ⊗_a q_a

K_{j,a} = diag(e_a) V_{j,a} diag(e_a) with e_a = √q_a where product j asks rows with Gram matrix V_{j,a} of
axis a, and e_a e_aᵀ where it does not mention the axis. K has as many rows as there are cells, and nobody
can hold it. In this order:

    axes.py         of every axis only the directions near e_a mix products that mention it with others
    axis_questions.py    axes that all products ask alike multiply F by a norm of their own, and go
    few_directions.py        what a few directions of the axes ask together is decomposed,
    resolvent.py    or, where that is too much, inverted by blocks
    truncation.py         axes are cut after some directions, which lowers F, mostly by less than 1 in 1,000
    bound.py        where e_a is an eigenvector, as for plain counts under equal weights, nothing mixes:
                    many such axes are one number for every set of them

Nothing lowers F where one axis or one product is asked, for marginals under equal weights, and where at most
1,500 combinations of directions count.
"""

from leastnoise.bounds.union_norm.bound import union_bound, union_norm_below

__all__ = ["union_bound", "union_norm_below"]
