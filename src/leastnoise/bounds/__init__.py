"""Lower bounds that hold for any witness, whatever method found it and however it was rounded.

    nuclear_norm      sums of singular values, from matrices; no decomposition is trusted for them
    union_axes        one axis of a union of products, in a basis that starts with its weights
    union_directions  nuclear norms of a union over some directions of every axis
    union_questions   what a union asks of every axis, without what needs no bound
    union_rotations   nuclear norms of a union by one rotation of every axis
    union_norm        nuclear norms of unions of products at any scale
    apart             weights of pairs of records by the attributes in which they differ
    absolute_error    sums of standard errors, in place of variances
    absolute_unions   the same for unions of products, by rotations
    cell_bound        dual weights of cells, or of pairs of them, and the bound they give
    product_bound     dual weights of product form, and the bound they give
    parts_bound       dual weights of parts of the queries, over cells that are listed
    certificate       how good a plan is, proved from both sides

Certificates rest on these alone.
"""

from leastnoise.bounds.absolute_unions import MAX_ENTRIES as MAX_ABSOLUTE_ENTRIES
from leastnoise.bounds.absolute_unions import n_entries as n_absolute_entries
from leastnoise.bounds.apart import apart_loads
from leastnoise.bounds.cell_bound import Witness, are_pairs
from leastnoise.bounds.certificate import (
    MOST_OPTIMAL,
    AnyWitness,
    Certificate,
    Status,
    certify,
    largest_share,
    proves_infeasible,
)
from leastnoise.bounds.parts_bound import PartsWitness, ProvedPart, parts_witness_from_parts
from leastnoise.bounds.product_bound import (
    ProductWitness,
    allowed,
    per_term,
    product_witness_from_parts,
    with_row_weights,
    with_weighted_terms,
)
from leastnoise.bounds.union_axes import AxisRoots, dense_axis, plain_axis, root_below
from leastnoise.bounds.union_directions import AskedKinds, Directions, ResolventBlocks
from leastnoise.bounds.union_norm import union_bound, union_bound_work, whole_axis_work
from leastnoise.bounds.union_rotations import UnionRotations

__all__ = [
    "MAX_ABSOLUTE_ENTRIES",
    "MOST_OPTIMAL",
    "AnyWitness",
    "AskedKinds",
    "AxisRoots",
    "Certificate",
    "Directions",
    "PartsWitness",
    "ProductWitness",
    "ProvedPart",
    "ResolventBlocks",
    "Status",
    "UnionRotations",
    "Witness",
    "allowed",
    "apart_loads",
    "are_pairs",
    "certify",
    "dense_axis",
    "largest_share",
    "n_absolute_entries",
    "parts_witness_from_parts",
    "per_term",
    "plain_axis",
    "product_witness_from_parts",
    "proves_infeasible",
    "root_below",
    "union_bound",
    "union_bound_work",
    "whole_axis_work",
    "with_row_weights",
    "with_weighted_terms",
]
