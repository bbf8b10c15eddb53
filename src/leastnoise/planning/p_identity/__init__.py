"""Identity with a few rows more: strategies for pure privacy, found by search.

objective_function  total variance and its gradient, for weights on a few rows
coarse_to_fine      descents from several starts
family              the family, as `design` knows it; targets and the largest variance
"""
