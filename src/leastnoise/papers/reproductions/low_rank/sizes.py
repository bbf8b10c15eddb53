"""The sizes of the low-rank paper's experiments, its Table 1, and how much smaller the quick ones are."""

from __future__ import annotations

# Table 1, whose defaults are in bold. The default number of queries,
M = 256

# of cells,
N = 1024

# and the rank of WRelated, as a share of the smaller of the two.
SHARE = 0.5
CELLS = (128, 256, 512, 1024, 2048, 4096, 8192)
QUERIES = (64, 128, 256, 512, 1024)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# By how much m and n are smaller in the quick size.
SHRINK = 16

# Of the first draw of a workload.
SEED = 1


def rank_of(workload: str, m: int, n: int, share: float = SHARE) -> int:
    """The rank s that WRelated is drawn with; 0 for the other workloads, which have none."""
    return max(1, round(share * min(m, n))) if workload == "WRelated" else 0
