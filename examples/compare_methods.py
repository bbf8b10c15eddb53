"""Compare the error of every method on one workload: the distribution of an attribute with 256 values.

Under Gaussian differential privacy with μ = 1, the variance per query is the number that
papers report: the error per query at sensitivity 1 and unit noise. Under pure differential
privacy two more methods compete, whose error depends on the data. `compare` simulates it,
which is safe on public data only; this example uses invented counts.
"""

from __future__ import annotations

import numpy as np

import leastnoise as ln


def main() -> None:
    """Compare all methods, and print their total variance next to the lower bound."""
    workload = ln.assemble([ln.Prefix("value")], ln.Schema(value=range(256)))
    comparison = ln.compare(workload, ln.GDP(1), time_limit=2)
    print(comparison)

    by_method = {contender.method: contender for contender in comparison.contenders}
    dense, tree = by_method["dense"], by_method["hierarchical"]
    assert dense.achieved is not None
    assert tree.achieved is not None
    print(f"\nper query: {dense.achieved / 256:.4f} for the optimum, {tree.achieved / 256:.2f} for a tree\n")

    assert comparison.lower_bound <= dense.achieved <= (1 + 1e-6) * comparison.lower_bound
    costs = [contender.achieved for contender in comparison.contenders if contender.achieved is not None]
    assert min(costs) >= comparison.lower_bound
    assert round(dense.achieved / 256, 4) == 6.3727

    # DAWA merges neighbouring values with similar counts: it wins on equal counts, not on alternating ones.
    names = ["wavelet", "hierarchical", "dawa"]
    alike, alternating = np.full(256, 100), np.tile([0, 2000], 128)
    for counts in (alike, alternating):
        simulated = ln.compare(workload, ln.PureDP(0.1), methods=names, data=counts)
        print(f"counts {counts[0]:,}, {counts[1]:,}, {counts[2]:,}, …\n{simulated}\n")
        (first, *_) = simulated.contenders
        assert (first.method == "dawa") == (counts is alike)


if __name__ == "__main__":
    main()
