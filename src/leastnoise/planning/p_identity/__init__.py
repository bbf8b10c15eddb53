"""Identity with a few rows more: strategies for pure privacy, found by search.

    problem  total variance and its gradient, for weights on a few rows
    search   descents from several starts
    caps     the same for targets and for the largest variance
    method   the family, as `design` knows it

`pure` goes on from what is found here, with signs.
"""
