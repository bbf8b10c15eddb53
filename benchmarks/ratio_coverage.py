"""How often intervals of ratios, and of differences of ratios, hold the truth, in 100,000 simulated releases.

    python benchmarks/ratio_coverage.py [--draws 100000]

Numerators and denominators have independent Gaussian errors of standard error 1, and the ratio lies between 0
and 1, as a share does. For each size of the denominator the row is that of the true ratio whose shown
intervals held least often. "Not determined" counts as covering in the third column.
"""

from __future__ import annotations

import argparse

import numpy as np

from leastnoise.release.ratios import (
    SMALL_DENOMINATOR,
    RatioErrors,
    RatioIntervals,
    difference_ends,
    ratio_intervals,
)

LEVEL = 0.95
DENOMINATORS = (0.5, 1, 2, 3, 4, 5, 6, 8, 12)
RATIOS = (0.0, 0.25, 0.5, 1.0)

# Shown intervals below which a share of them says nothing.
_LEAST_SHOWN = 20


def drawn(
    ratio: float, denominator: float, n: int, rng: np.random.Generator, *, is_cut: bool
) -> RatioIntervals:
    """The intervals of n simulated releases."""
    pair = np.array([ratio * denominator, denominator]) + rng.standard_normal((n, 2))
    ones = np.ones(n)
    errors = RatioErrors(pair[:, 0], pair[:, 1], ones, 0 * ones, ones)
    possible = (0.0, 1.0) if is_cut else (-np.inf, np.inf)
    return ratio_intervals(errors, LEVEL, possible=possible, positive=True)


def row_of(is_shown: np.ndarray, is_held: np.ndarray) -> tuple[float, float, float]:
    """The share of shown intervals that hold, of all that hold or are not shown, and of those shown."""
    among = float(is_held[is_shown].mean()) if is_shown.sum() >= _LEAST_SHOWN else 2.0
    return among, float((~is_shown | is_held).mean()), float(is_shown.mean())


def one_ratio(denominator: float, n: int, rng: np.random.Generator) -> tuple[float, float, float]:
    rows = []
    for ratio in RATIOS:
        found = drawn(ratio, denominator, n, rng, is_cut=True)
        is_shown = np.array(found.reasons) != SMALL_DENOMINATOR
        rows.append(row_of(is_shown, (found.lower <= ratio) & (ratio <= found.upper)))
    return min(rows)


def difference(denominator: float, n: int, rng: np.random.Generator) -> tuple[float, float, float]:
    rows = []
    for earlier in RATIOS:
        for later in RATIOS:
            for other in (denominator, 3 * denominator):
                first = drawn(earlier, denominator, n, rng, is_cut=False)
                second = drawn(later, other, n, rng, is_cut=False)
                lower, upper = difference_ends(
                    (first.estimate, first.lower, first.upper), (second.estimate, second.lower, second.upper)
                )
                is_shown = np.isfinite(first.estimate) & np.isfinite(second.estimate)
                rows.append(row_of(is_shown, (lower <= later - earlier) & (later - earlier <= upper)))
    return min(rows)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--draws", type=int, default=100_000)
    n = given.parse_args().draws
    rng = np.random.default_rng(11)
    for name, measured in (("a ratio", one_ratio), ("a difference of two ratios", difference)):
        print(f"\n{name}\n")
        print("| denominator, in its standard errors | shown | covered, of all | covered, of those shown |")
        print("|---|---|---|---|")
        for denominator in DENOMINATORS:
            among, of_all, shown = measured(denominator, n, rng)
            told = f"{among:.1%}" if among <= 1 else "–"
            print(f"| {denominator:g} | {shown:.2%} | {of_all:.2%} | {told} |", flush=True)


if __name__ == "__main__":
    main()
