"""Families of strategies, and what several of them share.

    dense             the certified optimum, over matrices
    dense_capped      the same where variances have caps
    few_queries       the same for few queries over many cells
    row_space         the same for products whose rows are few
    product           the certified optimum for one product, attribute by attribute
    marginals         the certified optimum for cross tables
    residuals         unions of products, by the search in `oblique`
    optimum           the certified optimum of unions of products with a shared axis
    residual_proofs   weights that prove how good these are
    joint             unions of products that cross ordered attributes, by the search in `joint`
    union_absolute    absolute errors of unions, by weights of products
    fixed_rows        every cell, every query, a tree, wavelets
    attribute_sets    Fourier queries and data cubes
    eigen             the adaptive mechanism: weights for eigenvectors, and two quicker variants
    weighted_basis    weights for the rows of a fixed basis
    crossed_tables    tables of p-identity rows, for unions of products and Laplace noise
    crossed_plans     those tables in whole numbers, also for the largest variance
    weighted_tables   weights for cross tables of many attributes, for Laplace noise
    laplace_factor    one attribute under Laplace noise
    bases             integer bases of each attribute
    product_requests  what methods for products share
    proposals         from the matrices that a search ends with to what can be measured

A new family is one file here and one line in `method_list`.
"""
