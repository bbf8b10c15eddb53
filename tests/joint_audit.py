"""Telling two tables apart by everything that a release holds: answers and records in no cell together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas

import leastnoise as ln
from leastnoise.data import vectorize
from leastnoise.release import measuring, row_for
from leastnoise.report import auditing
from test_statistics import SeededBits

SCHEMA = ln.Schema(sex=("F", "M"))
DRAWS = 1_500


def told_apart(goal: Any, value: str) -> float:
    """A lower bound on what one person spends, over what is promised: above 1 the promise is broken.

    The two tables differ by three persons with forty records each, of this value; the goal lets one of them
    count. The statistic is the likelihood ratio of the noise as it should be; a false alarm has a chance of
    one in a million.
    """
    plan = ln.design(ln.assemble([ln.Marginal("sex")], SCHEMA), goal, method="identity")
    base = [("a", "F"), ("b", "x"), ("c", "M")]
    persons = [(f"p{i // 40}", value) for i in range(120)]
    reads, rows = [], []
    for records in (base, base + persons):
        frame = pandas.DataFrame(records, columns=["id", "sex"])
        data = vectorize(frame, SCHEMA, person="id")
        rows.append(row_for(plan, data, None, 0.05, same_table_as=None))
        reads.append(measuring._read_with_rest(plan, data, rows[-1]))
    row, own = rows[0], plan.fixed_strategy()
    assert row is not None
    scales = np.array([own.scale] * own.n_measured + [row.scale] * row.n_measured, dtype=float)
    none, some = (np.concatenate([read.integers, read.rest]).astype(float) / scales for read in reads)
    change = some - none
    # The row that tells most, for Laplace; the direction of the change, for Gaussian noise.
    is_pure = own.noise.is_pure
    size = np.abs(change).max() if is_pure else np.linalg.norm(change)
    direction = (np.abs(change) == size).astype(float) if is_pure else change / size
    statistics = []
    for seed, read in enumerate(reads):
        found = []
        for i in range(DRAWS):
            release = measuring._released(plan, read, row, SeededBits(7919 * seed + i), is_truncated=True)
            y = np.concatenate([release.measurements, np.array(release.not_counted.measured, dtype=object)])
            found.append((y.astype(float) / scales - none) @ direction)
        statistics.append(np.array(found))
    bound = auditing._laplace_bound if is_pure else auditing._gaussian_bound
    return bound(statistics[0], statistics[1], float(change @ direction), 1e-6) / 3
