"""Strategies made of products, for domains that no matrix holds.

A module imports only modules that stand above it here:

    axis_form     how one axis is measured
    integer_axis  one axis rounded to integers
    layout        which blocks there are, and whether they fit the axes
    sensitivity   what one record can change, exactly
    counting      from counts to the integers of blocks, exactly
    view          a workload seen from such a strategy
    answers       from noisy blocks to answers
    accuracy      how accurate answers are
    blocks        the strategy: independent blocks, each a product over the axes
    tables        the special case of weighted cross tables
    parts         both, read back from files
    proposal      from shares of a budget to blocks in integers
"""
