"""Strategies made of products, for domains that no matrix holds.

A module imports only modules that stand above it here:

    axis_rounding    real rows of one axis rounded to integers
    axis_tables      cross tables over sets of axes
    integer_blocks   which blocks there are, what one record changes in them, and what they measure, exactly
    view             a workload as a structured strategy sees it
    gram             what blocks say about all cells
    reconstruction   from noisy blocks to answers
    accuracy         how accurate answers are
    blocks           the strategy: independent blocks, each a product over the axes
    tables           weighted tables of some axes, plain or of rows of full rank
    construction     both, from shares of a budget
"""
