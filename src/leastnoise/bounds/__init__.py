"""Lower bounds that hold whoever found the witness, and whatever rounding did to it.

    nuclear_norm   sums of singular values, from matrices; no decomposition is trusted for them
    union_norm     the same for unions of products, at any scale
    product_bound  dual weights of product form, and the bound they give

Certificates rest on these alone.
"""

from leastnoise.bounds.certificate import (
    MOST_OPTIMAL,
    Certificate,
    Status,
    Witness,
    are_pairs,
    certify,
    largest_share,
    proves_infeasible,
)
from leastnoise.bounds.product_bound import (
    ProductWitness,
    per_term,
    product_witness_from_parts,
    with_row_weights,
)
from leastnoise.bounds.union_norm.axes import SplitAxis, dense_axis, plain_axis
from leastnoise.bounds.union_norm.bound import union_bound
from leastnoise.bounds.union_norm.few_directions import Asked, Directions
from leastnoise.bounds.union_norm.resolvent import Blocks

__all__ = [
    "MOST_OPTIMAL",
    "Asked",
    "Blocks",
    "Certificate",
    "Directions",
    "ProductWitness",
    "SplitAxis",
    "Status",
    "Witness",
    "are_pairs",
    "certify",
    "dense_axis",
    "largest_share",
    "per_term",
    "plain_axis",
    "product_witness_from_parts",
    "proves_infeasible",
    "union_bound",
    "with_row_weights",
]
