"""What each way of adding noise would cost, for the distribution of an attribute with 256 values.

Under Gaussian differential privacy with μ = 1, the variance of an answer is the
paper number: the error per query at sensitivity 1 and unit noise.
"""

from __future__ import annotations

import leastnoise as ln


def main() -> None:
    """Compare all methods, and print their cost beside the bound that none can undercut."""
    workload = ln.assemble([ln.Prefix("value")], ln.Schema(value=range(256)))
    comparison = ln.compare(workload, ln.GDP(1))
    print(comparison)

    by_method = {contender.method: contender for contender in comparison.contenders}
    dense, tree = by_method["dense"], by_method["hierarchical"]
    assert dense.achieved is not None
    assert tree.achieved is not None
    print(f"\nper query: {dense.achieved / 256:.4f} for the optimum, {tree.achieved / 256:.2f} for a tree")

    assert comparison.lower_bound <= dense.achieved <= (1 + 1e-6) * comparison.lower_bound
    assert min(by_method.values(), key=lambda c: c.achieved or 0) is dense
    assert round(dense.achieved / 256, 4) == 6.3727


if __name__ == "__main__":
    main()
