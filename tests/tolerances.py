"""The tolerances of the tests, each with its reason."""

# Two closed forms of the same number, or two orders of the same sum, in float64
# at sizes of a few hundred: some hundred roundings of 1e-16.
ROUNDING = 1e-11

# What a certificate claims by default: design(tol=1e-6).
SOLVER = 1e-6

# Iterative semidefinite solvers used as judges stop at about this relative accuracy.
JUDGE = 1e-4

# The false-alarm rate of a statistical test: at most one in a million runs.
CHANCE = 1e-6


def printed(digits: int) -> float:
    """Half a unit of the last printed decimal."""
    return 0.5 * 10.0**-digits
