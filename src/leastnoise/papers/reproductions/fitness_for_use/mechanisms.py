"""What each mechanism of the fitness-for-use paper costs where every query has a target.

The cost is α = Δ² = max_j v_j / c_j, with v the variances at profile 1 and c the caps: the least
squared privacy cost at which a mechanism meets all targets. The paper prints each cost divided by that of
SM-II; here it is divided by the certified optimum as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.reproduction import Setting
from leastnoise.papers.reproductions.rows import IS_CUT, Plain, Row
from leastnoise.papers.reproductions.verdicts import Check, statement_about
from leastnoise.planning import Plan, design
from leastnoise.privacy import GDP
from leastnoise.query import Linear, Targets, TotalVariance, Workload

GM = "GM"
ON_QUERIES = "noise on queries"
HM = "HM"
CA = "CA"
SMII = "SM-II"
LEAST_TOTAL = "least total, certified"
CERTIFIED = "certified"

# SM-II counts as being at the optimum where its ratio would be printed as 1.00.
_PRINTED_AS_ONE = 5e-3

Columns = dict[str, Plain]


def with_caps(W: Array, caps: Array) -> Workload:
    """Rows of whole numbers, each with a cap on its variance."""
    return Workload.from_matrix(np.asarray(W), stderr=np.sqrt(caps))


def certified(workload: Workload, setting: Setting, method: str = "dense") -> Plan:
    """The plan that meets all targets at the least cost, with the proof."""
    backend = setting.backend_for(workload.shape[1])
    return design(workload, objective=Targets(), method=method, backend=backend)


def optimum(workload: Workload, setting: Setting, method: str = "dense") -> Columns:
    """Its row: what it costs, and what no noise can cost less than."""
    found = certified(workload, setting, method).certificate
    return {"method": CERTIFIED, "cost": found.achieved, "lower_bound": found.lower_bound, "ratio": 1.0}


def noise_on(method: str, workload: Workload) -> float:
    """The cost of independent noise on cells ("identity") or on queries ("workload")."""
    return design(workload, GDP(1), objective=Targets(), method=method).certificate.achieved


def least_total(method: str, workload: Workload, setting: Setting) -> float:
    """The cost of a plan made for the total variance of all queries, each counting as much."""
    plan = design(
        workload, GDP(1), objective=TotalVariance(), method=method, time_limit=setting.search_seconds
    )
    return largest_share(np.square(plan.known_stderr()), workload)


def largest_share(variances: Array, workload: Workload) -> float:
    """max_j v_j / c_j."""
    return float((variances / workload.targets**2).max())


def on_tree(rows: Array, workload: Workload, W: Array | None = None) -> float:
    """The cost of noise on a tree, then least squares; W where its cells stand in another order.

    Equal rows are measured once; no tree of the tables has any.
    """
    plan = design(Workload.from_matrix(rows), GDP(1), method="workload")
    return largest_share(plan.variance(Linear(workload.dense() if W is None else W)), workload)


def smii(workload: Workload, setting: Setting, *, basis: str, **options: Plain) -> Plan:
    """The plan of the printed algorithm, from Q = I as in section 7."""
    return design(
        workload,
        objective=Targets(),
        method="smii",
        options={"basis": basis, "start": "cells", **options},
        time_limit=setting.search_seconds,
    )


def smii_columns(plan: Plan, least: float) -> Columns:
    """The row of a plan by SM-II, beside the certified cost."""
    found = plan.certificate
    return {
        "method": SMII,
        "cost": found.achieved,
        "lower_bound": found.lower_bound,
        "ratio": found.achieved / least,
        IS_CUT: plan.ended == "deadline",
        "how": plan.note,
    }


def on_both_scales(
    costs: Mapping[str, float], least: float, reached: float | None = None
) -> Iterator[Columns]:
    """Rows of costs, each beside the certified one and, where SM-II was run, beside what it reached."""
    for method, cost in costs.items():
        beside = {} if reached is None else {"ratio_to_smii": cost / reached}
        yield {"method": method, "cost": cost, "ratio": cost / least, **beside}


def beside_the_optimum(claim: str, rows: Sequence[Row]) -> Check:
    """Whether SM-II ends at the certified optimum, from its own rows."""
    return statement_about(
        [float(row["ratio"] or math.nan) for row in rows],
        claim,
        lambda ratios: max(ratios) - 1 <= _PRINTED_AS_ONE,
        lambda ratios: f"{max(ratios):.4f} times the optimum",
        printed="1.00",
        is_better=lambda ratios: max(ratios) - 1 > _PRINTED_AS_ONE,
        why="the certified plan meets the same targets at a lower cost; NTTOL is 1e-4 here",
        evidence="certified",
    )


# The paper's trees ---------------------------------------------------------------------------


def branching(n: int, *, least_height: int) -> int:
    """The number of branches b of least (b − 1)h³ − 2(b + 1)h²/3, h = ⌈log_b n⌉ at least as given.

    Reference:
        Qardaji, Yang and Li (2013), Understanding hierarchical methods for differentially private
        histograms: the mean variance of all ranges without consistency.
    """

    def spread(b: int) -> float:
        h = height(n, b)
        return (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3

    return min((b for b in range(2, n + 1) if height(n, b) >= least_height), key=spread)


def height(n: int, b: int) -> int:
    """⌈log_b n⌉, in whole numbers."""
    levels, reach = 0, 1
    while reach < n:
        levels, reach = levels + 1, reach * b
    return levels


def tree(n: int, b: int) -> Array:
    """Cells, blocks of b, of b², … from the left, and the total: the last block of a level may be short."""
    rows = []
    size = 1
    while True:
        for low in range(0, n, size):
            row = np.zeros(n, dtype=np.int64)
            row[low : low + size] = 1
            rows.append(row)
        if size >= n:
            return np.array(rows)
        size *= b


# Of random draws -----------------------------------------------------------------------------


def spread_of(draws: list[float]) -> float:
    """How far one more draw may lie from the mean of these: half of the 99 % prediction interval."""
    from scipy import stats

    k = len(draws)
    if k < 2:
        return 0.0
    return float(stats.t.ppf(0.995, k - 1) * np.std(draws, ddof=1) * math.sqrt(1 + 1 / k))
