"""Measure a plan on data: the one private step, and what may be read from it.

`measure` goes check, read, spend, draw, store, hand out. Between the counts and
the stored noisy integers there are only integers: y = A x + noise, or the stages
of a mechanism that depends on the data. Everything after that is post-processing,
done in floating point from y alone, and costs no privacy however often it is done.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise import container, exact
from leastnoise.data import Data, counts_from_vector, is_count_vector, vectorize
from leastnoise.errors import (
    DataError,
    InputError,
    NotYetError,
    PlanFileError,
    UnrecordedSpending,
)
from leastnoise.intervals import half_widths
from leastnoise.noise import RandomBits, SystemBits, discrete_laplace, rounded_gaussian
from leastnoise.operators import Array
from leastnoise.plan import Plan, plan_from_parts
from leastnoise.queries import Labels, Query
from leastnoise.strategy import Strategy
from leastnoise.workload import Workload


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy measurements of one plan, and everything that follows from them.

    Attributes:
        plan: what was measured.
        measurements: the noisy integers y = A x + noise, as Python integers; all that was released.
            Where the plan depends on the data, what its mechanism released.
    """

    plan: Plan
    measurements: Array

    def __post_init__(self) -> None:
        _read_only(self.measurements)

    @cached_property
    def estimates(self) -> Array:
        """The least-squares estimate of every cell that the plan determines, (n,).

        Where the plan depends on the data, its mechanism's estimate of every cell.
        """
        if self.plan.mechanism is not None:
            return _read_only(self.plan.mechanism.estimates(self.measurements))
        return _read_only(self.plan.fixed_strategy().pseudo_inverse @ self.measurements.astype(float))

    @cached_property
    def answers(self) -> Array:
        """The answer to every query of the workload, (m,): consistent with one another.

        And unbiased, unless the plan depends on the data.
        """
        return _read_only(self.plan.workload.operator.apply(self.estimates))

    @property
    def stderr(self) -> Array | None:
        """The standard error of every answer, (m,); None where it depends on the data."""
        return self.plan.stderr

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False, generator: np.random.Generator | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper ends that hold each true answer with probability `level`.

        With ``simultaneous=True`` they hold all true answers at once with that
        probability. For Gaussian noise a single interval is exact, and a
        simultaneous one comes from simulating the known covariance, rounded to the
        safe side by about a third of a percentage point. For Laplace noise both are
        on the safe side, wider than need be.

        Args:
            generator: for the simulation; a fixed one unless given, so that the
                same release always gives the same interval. It touches no data.

        Raises:
            MethodError: where the plan depends on the data, so that errors are not known.
        """
        plan = self.plan
        half = half_widths(
            plan.workload.operator, plan.fixed_strategy(), plan.known_stderr(), level, simultaneous, generator
        )
        return self.answers - half, self.answers + half

    def answer(self, query: Query, *, level: float = 0.95) -> Any:
        """A pandas frame of answers to any further query in the plan's row space.

        Costs no privacy: it is computed from what was already released. Where the plan
        depends on the data, any query is answered, without standard errors.

        Raises:
            QueryError: if the plan did not measure enough to answer it.
        """
        operator, labels = self.plan.rows_for(query)
        answers = operator.apply(self.estimates)
        if self.plan.strategy is None:
            return self._frame(query, labels, {"answer": answers})
        stderr = np.sqrt(self.plan.strategy.variances(operator))
        half = half_widths(operator, self.plan.strategy, stderr, level, False, None)
        return self._frame(query, labels, _with_intervals(answers, stderr, half))

    def __getitem__(self, name: str) -> Any:
        """A pandas frame with the answers of one named query, indexed as the query is shaped."""
        rows = self.plan.workload.rows_of(name)
        block = next(block for block in self.plan.workload.blocks if block.name == name)
        if self.plan.strategy is None:
            return self._frame(block.query, block.labels, {"answer": self.answers[rows]})
        stderr = self.plan.known_stderr()[rows]
        half = half_widths(block.operator, self.plan.strategy, stderr, 0.95, False, None)
        return self._frame(block.query, block.labels, _with_intervals(self.answers[rows], stderr, half))

    def _frame(self, query: Query, labels: Labels, columns: dict[str, Array]) -> Any:
        import pandas as pd

        schema = self.plan.workload.schema
        factors = None if schema is None else query.factors(schema)
        if factors:
            levels: list[Sequence[str]] = [list(factor.labels) for factor in factors]
            index = pd.MultiIndex.from_product(levels, names=[factor.title for factor in factors])
            if len(factors) == 1:
                index = index.get_level_values(0)
        else:
            index = pd.Index(list(labels), name="query")
        return pd.DataFrame(columns, index=index)

    def to_frame(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """A pandas frame with one row per query: batch, label, answer, standard error, interval.

        The last two are left out where the plan depends on the data.
        """
        import pandas as pd

        workload = self.plan.workload
        columns = {
            "query": np.repeat(workload.names, [block.n_rows for block in workload.blocks]),
            "label": list(workload.labels),
            "answer": self.answers,
        }
        if self.plan.strategy is not None:
            lower, upper = self.interval(level, simultaneous=simultaneous)
            columns |= {"stderr": self.plan.known_stderr(), "lower": lower, "upper": upper}
        return pd.DataFrame(columns)

    def save(self, path: str | Path) -> Path:
        """Write plan and measurements to one file, which `load_release` reads back."""
        content, arrays = self.plan.to_parts()
        return container.write(
            path, "release", {"plan": content}, {**arrays, "measurements": exact.to_limbs(self.measurements)}
        )

    def __repr__(self) -> str:
        m, n = self.plan.workload.shape
        return f"Release({m:,} answers over {n:,} cells, {self.plan.privacy})"

    def __str__(self) -> str:
        first = self.plan.workload.names[0]
        return f"{self!r}; see summarize(release), release.to_frame() or release[{first!r}]"


def load_release(path: str | Path) -> Release:
    """The release that `Release.save` wrote; its plan is checked as `load_plan` does."""
    content, arrays = container.read(path, "release")
    name = Path(path).name
    if not isinstance(content.get("plan"), dict) or "measurements" not in arrays:
        raise PlanFileError(f"{name!r} is no saved release")
    plan = plan_from_parts(content["plan"], arrays, name)
    limbs = arrays["measurements"]
    if limbs.ndim != 2 or limbs.dtype.kind != "i" or not limbs.size:
        raise PlanFileError(f"{name!r} holds measurements that do not fit its plan")
    measurements = exact.from_limbs(limbs).astype(object)
    if plan.mechanism is not None:
        fits = plan.mechanism.fits(measurements)
    else:
        fits = len(measurements) == plan.fixed_strategy().shape[0]
    if not fits:
        raise PlanFileError(f"{name!r} holds measurements that do not fit its plan")
    return Release(plan, measurements)


def measure(plan: Plan, source: Any, *, ledger: None = None, release_id: str | None = None) -> Release:
    """The noisy answers of a plan on a table: the one step that spends privacy.

    Args:
        source: what `vectorize` takes, its `Data`, or a vector of integer counts. `Data`
            with a ``person`` is cut down to the goal's ``records_per_person`` of each
            person; anything else is taken as it is, and that nobody has more
            records is then the publisher's promise.
        ledger: not available yet; without one, a line of warning.

    Guarantee:
        For tables that differ in one record (up to `records_per_person` records of
        one person), the release satisfies the plan's privacy goal exactly: the
        strategy is an integer matrix whose sensitivity was taken in exact
        arithmetic, the counts are integers, and the noise is exactly a rounded
        Gaussian or a discrete Laplace variable from the system's generator. Where
        the plan depends on the data, the stages of its mechanism add up to the goal,
        each with a proof in its module, and they too hold to integers.

    Raises:
        DataError: if the source does not fit the plan; nothing is spent.
        RandomnessError: if the system's generator fails; nothing is released.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"measure() needs a Plan from design(), got {type(plan).__name__}")
    if ledger is not None or release_id is not None:
        raise NotYetError("ledger= and release_id= are not available yet; keep your own record of releases")
    counts = _counts(plan, source)
    warnings.warn(
        f"no ledger records this release: it spends {plan.privacy}, and so does every repetition",
        UnrecordedSpending,
        stacklevel=2,
    )
    return Release(plan, measured(plan, counts, SystemBits()))


def measured(plan: Plan, counts: Array, bits: RandomBits) -> Array:
    """What a plan releases about counts, (n,), with noise from these bits: the private step itself."""
    if plan.mechanism is not None:
        return plan.mechanism.measure(counts, lambda scale, size: discrete_laplace(scale, size, bits))
    return _noisy(plan.fixed_strategy(), counts, bits)


def _read_only(values: Array) -> Array:
    values.setflags(write=False)
    return values


def _with_intervals(answers: Array, stderr: Array, half: Array) -> dict[str, Array]:
    return {"answer": answers, "stderr": stderr, "lower": answers - half, "upper": answers + half}


def _counts(plan: Plan, source: Any) -> Array:
    return counts_of(plan.workload, source, plan.privacy.records_per_person)


def counts_of(workload: Workload, source: Any, records_per_person: int) -> Array:
    """The counts of all cells of a workload, (n,), from whatever `measure` takes.

    Raises:
        DataError: if the source does not fit the workload.
    """
    n, schema = workload.shape[1], workload.schema
    if is_count_vector(source):
        return counts_from_vector(source, n, None if schema is None else schema.shape)
    if schema is None:
        raise DataError(f"a plan made from a matrix without a schema needs a vector of {n:,} integer counts")
    if isinstance(source, Data) and source.schema != schema:
        raise DataError("the data was vectorized with another schema than the plan's; vectorize it again")
    data = vectorize(source, schema)
    if data.person is None:
        # Then records_per_person is what the publisher declares about the table.
        return data.vector()
    return data.vector(records_per_person=records_per_person)


def _noisy(strategy: Strategy, counts: Array, bits: RandomBits) -> Array:
    """A x + noise in Python integers, one independent draw per row."""
    draw = discrete_laplace if strategy.noise == "laplace" else rounded_gaussian
    noise = draw(strategy.scale, strategy.shape[0], bits)
    return strategy.answers(counts) + np.array(noise, dtype=object)
