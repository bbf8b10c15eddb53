"""Queries measured as they are asked, each answered by its own measurement alone.

A query that is asked twice is measured twice, and its two answers differ by their noise. One that counts
nothing is not measured: its answer is 0. Queries that were not asked are answered by least squares over all
measurements, as from any other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, Matrix, require_room
from leastnoise.privacy import ADD_REMOVE, Goal
from leastnoise.query import Workload, due_by
from leastnoise.strategy.grid import grid_bits_of_integers, grown
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.proposal import Proposal

# The place of a query that counts nothing, and of one that is not measured.
_NOTHING = -1
_ABSENT = -2


class RowsAsAsked(Strategy):
    """The rows of a workload but those of zeros, times 2^bits, in the order in which they are asked.

    Attributes:
        bits: every answer is its measurement over 2^bits.
        names: of the batches of queries.
        places: for every batch, where its queries are measured; −1 where a query counts nothing.
    """

    bits: int
    names: tuple[str, ...]
    places: tuple[Array, ...]

    def __init__(
        self, workload: Workload, *, bits: int, scale: int, noise: str, neighbours: str = ADD_REMOVE
    ) -> None:
        rows = workload.operator.dense(np.int64)
        counts = rows.any(axis=1)
        kept = rows[counts] if counts.any() else rows[:1]
        super().__init__(grown(kept, bits), scale=scale, noise=noise, neighbours=neighbours)
        places = np.where(counts, np.cumsum(counts) - 1, _NOTHING)
        names = tuple(workload.names)
        self._keep(bits=bits, names=names, places=tuple(places[workload.rows_of(name)] for name in names))

    @property
    def is_consistent(self) -> bool:
        """Never: every query is answered from its own measurement alone."""
        return False

    @cached_property
    def _own_places(self) -> dict[str, Array]:
        return dict(zip(self.names, self.places, strict=True))

    @cached_property
    def _place_of_row(self) -> dict[bytes, int]:
        """Where each different row is measured first."""
        found: dict[bytes, int] = {}
        for place, row in enumerate(self._floats):
            found.setdefault(row.tobytes(), place)
        return found

    def places_of(self, workload: Workload) -> Array:
        """Where each query is measured, (m,): those of a batch by its name, others by their row."""
        rows = np.ldexp(workload.operator.dense(float), self.bits) + 0.0
        found = []
        for name in workload.names:
            here = rows[workload.rows_of(name)]
            own = self._own_places.get(name)
            if own is not None and self._are(here, own):
                found.append(own)
            else:
                found.append(np.array([self._place(row) for row in here], dtype=np.intp))
        return np.concatenate(found)

    def _are(self, rows: Array, places: Array) -> bool:
        """Whether these rows are the ones measured there."""
        if len(rows) != len(places):
            return False
        measured = np.where((places >= 0)[:, None], self._floats[np.maximum(places, 0)], 0.0)
        return bool((rows == measured).all())

    def _place(self, row: Array) -> int:
        return self._place_of_row.get(row.tobytes(), _ABSENT) if row.any() else _NOTHING

    @property
    def _gain(self) -> float:
        return math.ldexp(1.0, -self.bits)

    def gains_of(self, workload: Workload, index: Array) -> Array:
        places = self.places_of(workload)[index]
        gains = np.zeros((len(index), self.shape[0]))
        measured = np.flatnonzero(places >= 0)
        gains[measured, places[measured]] = self._gain
        absent = np.flatnonzero(places == _ABSENT)
        if len(absent):
            gains[absent] = workload.operator.rows(index[absent]) @ self.pseudo_inverse
        return gains

    def variances_of(self, workload: Workload) -> Array:
        places = self.places_of(workload)
        variances = np.where(places >= 0, self.noise_variance * self._gain**2, 0.0)
        absent = np.flatnonzero(places == _ABSENT)
        if len(absent):
            variances[absent] = self.variances(Matrix(workload.operator.rows(absent)))
        return variances

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        gains = [self.gains_of(asked, np.arange(asked.shape[0])) for asked in (left, right)]
        return np.asarray(self.noise_variance * (gains[0] @ gains[1].T))

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        return float(workload.per_query(weights, "the weights") @ self.variances_of(workload))

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return self._answered(workload, lambda: self.estimates(measurements), measurements.astype(float))

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        return lambda noise: self._answered(workload, lambda: self.pseudo_inverse @ noise, noise)

    def _answered(self, workload: Workload, cells: Callable[[], Array], measured: Array) -> Array:
        """Answers from noisy integers or noise; cells are worked out where a query is not measured."""
        places = self.places_of(workload)
        answers = measured[np.maximum(places, 0)] * self._gain
        answers[places < 0] = 0.0
        absent = np.flatnonzero(places == _ABSENT)
        if len(absent):
            answers[absent] = workload.operator.rows(absent) @ cells()
        return np.asarray(answers)

    def through(self, workload: Workload, over: str, period: int) -> Strategy:
        """The queries that are due by then, as they are asked."""
        ended, due = super().through(workload, over, period), due_by(workload, over, period)
        # Where only queries of zeros are due, nothing is measured.
        if due is None or ended.n_measured == 0:
            return ended
        asked = RowsAsAsked(
            due, bits=self.bits, scale=self.scale, noise=self.noise, neighbours=self.neighbours
        )
        if not np.array_equal(asked.entries, ended.entries):
            raise DesignError("the queries that are due are not the rows measured by then", field="over")
        return asked

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        # The rows are those of the plan's own queries.
        return {"kind": "queries", "bits": self.bits}, {}

    def __repr__(self) -> str:
        return super().__repr__().replace("Strategy(", "RowsAsAsked(", 1)


@dataclass(frozen=True, eq=False)
class QueryProposal(Proposal[RowsAsAsked]):
    """Every query of a workload with whole coefficients, as it is asked."""

    workload: Workload

    def in_integers(self, goal: Goal, tol: float) -> RowsAsAsked:
        bits = grid_bits_of_integers(self.workload.operator.dense(np.int64), goal, tol)
        return RowsAsAsked(self.workload, bits=bits, scale=1, noise=goal.noise, neighbours=goal.neighbours)
