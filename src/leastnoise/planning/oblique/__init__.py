"""Oblique residuals: noise of little total variance for a union of products, whatever the number of cells.

Every axis is split into a total and residual rows that vanish on a centre g, chosen for what is asked of it;
blocks of residual rows of some axes, the others added up, are measured independently of one another:

    variance of a product = Σ_blocks 1/x_b Π (ρ or h of every axis that it mentions)

    block_layout      which blocks there are, and which centres and residual rows they need
    axis_split        how one axis is split best
    total_variance    total variance as a function of a few numbers for every axis
    centre_search     goes through the axes until nothing falls any more
    splitting         the search as a whole: orders of the axes, and what each is split by
    row_variances     variances of single queries
    largest_variance  the least largest variance
    within_caps       the least total within caps, from there
    tied_axes         small axes put together where a split of each would waste too much
    proposal          the split in integers, as blocks that can be measured
    dual_union        F and its slopes for one union of products
    dual_search       weights that prove how good it is

The family holds the optimum for one attribute, for single products and for cross tables.
"""
