"""Noise on every query as it is asked, then least squares to make the answers agree."""

from __future__ import annotations

import numpy as np

from leastnoise.planning.method import Found, Method, Request, dense_needs, refuse_large, uniform_weights
from leastnoise.strategy import RealStrategy


def _refuses(request: Request) -> str | None:
    W = request.workload.operator
    too_large = refuse_large(*W.shape)
    if too_large is not None:
        return too_large
    if not W.is_integer or W.largest >= 2**30:
        return "it measures the queries themselves, whose coefficients must be whole numbers below 2^30"
    return None


def _find(request: Request) -> Found:
    rows = request.workload.operator.dense(np.int64)
    # A query asked twice is measured once, a query of nothing never.
    rows = np.unique(rows[rows.any(axis=1)], axis=0)
    if len(rows) == 0:
        rows = np.zeros((1, request.workload.shape[1]), dtype=np.int64)
    return Found(
        RealStrategy(rows),
        uniform_weights(request.workload),
        "heuristic",
        f"noise on each of {len(rows):,} different queries",
        "converged",
    )


WORKLOAD = Method(
    "workload",
    "noise on every query, then least squares",
    _refuses,
    _find,
    needs=dense_needs(held=4.2, first=3, step=0, rounded=None, spans=True),
)
