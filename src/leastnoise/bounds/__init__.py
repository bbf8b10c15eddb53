"""Lower bounds that hold whoever found the witness, and whatever rounding did to it.

    nuclear_norm   sums of singular values, from matrices; no decomposition is trusted for them
    union_norm     the same for unions of products, at any scale
    product_bound  dual weights of product form, and the bound they give

Certificates rest on these alone.
"""
