"""What was released: noisy integers, and everything that may be read from them.

All of it is post-processing, done in floating point from the noisy integers alone, and costs no privacy
however often it is done.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import QueryError, RecordsNotCounted
from leastnoise.core.extras import require
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.planning import Plan
from leastnoise.query import Labels, Prefix, Query, Total, Workload, due_by, workload_of_query
from leastnoise.release.adjustment import Adjustment, interval_ends
from leastnoise.release.answer_columns import columns_of_counts, columns_of_query, columns_of_ratios
from leastnoise.release.answer_table import answer_table, shaped_frame, to_arrow, to_pandas, to_polars
from leastnoise.release.intervals import half_widths
from leastnoise.release.not_counted import NotCounted
from leastnoise.release.presentation import Presentation
from leastnoise.release.quantiles import quantile_table
from leastnoise.release.stream_price import StreamPrice
from leastnoise.release.to_mbi import ForMbi, to_mbi
from leastnoise.strategy import StoredIntegers


@dataclass(frozen=True)
class Receipt:
    """Where a ledger recorded a release.

    Attributes:
        dataset: the name of the people it is about.
        release_id: what the release is known by; asking for it again gives the same answers.
        head: the digest over all rows of the ledger after the payment. Whoever notes it can check later, with
            ``ledger.verify(head=...)``, that none of them is missing.
    """

    dataset: str
    release_id: str
    head: str


@dataclass(frozen=True, eq=False)
class Release(NotebookValue):
    """Noisy measurements of one plan, and everything that follows from them.

    Attributes:
        plan: the plan that was measured.
        measurements: the noisy integers y = A x + noise, as Python integers; everything that was released.
            Where the plan depends on the data, what its mechanism released. For a release in blocks, an
            object that reads them from their folder; ``numpy.asarray`` gives those that memory holds.
        receipt: where a ledger recorded it; None without a ledger.
        adjusted: what `adjust` did to the answers; None where they are as measured.
        is_truncated: whether at most the goal's ``records_per_person`` records of each person were counted,
            because the data identified the person. False where the table was used as it was, and the
            publisher promises that nobody has more. None where a file of an earlier version does not say.
        not_counted: the number of records in no cell, with noise and interval; None where it was not
            measured.
        presented: how tables, files, texts and pages show the answers; None where they show them as measured.
        price: what the whole stream was charged, for a period of a stream that costs more than its plan
            spends: records may change, or people return. None otherwise.
    """

    _unlisted = unlisted(
        "answers_to columns columns_of held_measurements is_centred is_in_blocks n_counted "
        "ratio_columns to_bytes"
    )

    plan: Plan
    measurements: Array | StoredIntegers
    receipt: Receipt | None = None
    adjusted: Adjustment | None = None
    is_truncated: bool | None = None
    not_counted: NotCounted | None = None
    presented: Presentation | None = None
    price: StreamPrice | None = None

    def __post_init__(self) -> None:
        if isinstance(self.measurements, np.ndarray):
            _read_only(self.measurements)

    @property
    def is_in_blocks(self) -> bool:
        """Whether its noisy integers are on disk, and read when an answer needs them."""
        return isinstance(self.measurements, StoredIntegers)

    @property
    def held_measurements(self) -> Array:
        """The noisy integers in memory.

        Raises:
            TooLargeError: for a release in blocks that memory does not hold.
        """
        return np.asarray(self.measurements, dtype=object)

    @cached_property
    def estimates(self) -> Array:
        """The least-squares estimate of every cell that the plan determines, (n,).

        Where the plan depends on the data, its mechanism's estimate of every cell. Where the release is
        adjusted, the cells that all its answers are sums of.
        """
        if self.adjusted is not None:
            return self.adjusted.cells
        if self.plan.mechanism is not None:
            return _read_only(self.plan.mechanism.estimates(self.held_measurements))
        return _read_only(self.plan.fixed_strategy().estimates(self.held_measurements))

    @cached_property
    def answers(self) -> Array:
        """The answer to every query of the workload, (m,): consistent with one another.

        They are unbiased, unless the plan depends on the data or the answers were adjusted. Where method
        "residuals" measures the same attributes in several blocks, each answer comes from the block that
        serves it best, and sums of one may differ from another by their noise; ``adjust(release,
        nonnegative=False)`` makes them agree, unbiased.
        """
        return _read_only(self.answers_to(self.plan.workload))

    @cached_property
    def unadjusted(self) -> Release:
        """The release as it was measured."""
        return self if self.adjusted is None else replace(self, adjusted=None)

    @cached_property
    def unrounded(self) -> Release:
        """The release without the effects of `present`: nothing rounded, flagged or suppressed."""
        return self if self.presented is None else replace(self, presented=None)

    def answers_to(self, workload: Workload) -> Array:
        """The answers to a workload that the plan can answer, (m,).

        Args:
            workload: the queries, m of them, over the plan's schema.
        """
        if self.plan.strategy is None or self.adjusted is not None:
            return workload.operator.apply(self.estimates)
        if isinstance(self.measurements, StoredIntegers):
            return self.plan.strategy.stored_answers(workload, self.measurements)
        return self.plan.strategy.answers_of(workload, self.measurements)

    @property
    def stderr(self) -> Array | None:
        """The standard error of every answer, (m,); None where it depends on the data.

        For an adjusted release, that of its unadjusted answers: adjusted ones usually err less where counts
        are small, but nobody knows by how much without the data.
        """
        return self.plan.stderr

    @cached_property
    def n_counted(self) -> float | None:
        """An estimate of the number of records in some cell; None where the plan does not determine it."""
        if self.plan.strategy is None:
            return float(self.unadjusted.estimates.sum())
        schema = self.plan.workload.schema
        if schema is None:
            return None
        total = workload_of_query(Total(), schema)
        if not self.plan.strategy.can_answer_all(total):
            return None
        return float(self.unadjusted.answers_to(total)[0])

    @cached_property
    def _n_so_far(self) -> float | None:
        """An estimate of the number of records in the periods so far; None where it is not determined."""
        plan = self.plan
        if plan.horizon is None or plan.period is None or plan.over is None or plan.workload.schema is None:
            return None
        running = due_by(workload_of_query(Prefix(plan.over), plan.workload.schema), plan.over, plan.period)
        if running is None or not plan.fixed_strategy().can_answer_all(running):
            return None
        return float(self.unadjusted.answers_to(running)[-1])

    @property
    def spent_per_person(self) -> Fraction:
        """μ² (Gaussian) or ε (Laplace) that the release spends for one person, exactly.

        What the plan spends and, with replace-one neighbours, what measuring `not_counted` adds. The release
        of a period spends what was charged for all periods together.
        """
        plan = self.plan if self.plan.horizon is None else self.plan.horizon
        if self.price is not None:
            return self.price.per_record * plan.privacy.noise.times(plan.privacy.records_per_person)
        if self.not_counted is None or not plan.privacy.relation.replaces:
            return plan.spent_per_person
        times = plan.privacy.noise.times(plan.privacy.records_per_person)
        return plan.spent_per_person + self.not_counted.row.cost * times

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readers of the answers must know first, one sentence each; computed from the release alone.

        `measure` warns of them with `leastnoise.core.errors.RecordsNotCounted`. Where the plan does not
        determine how many records are in some cell, no share is known and nothing is said. In a stream the
        share is that beside the records of the periods so far.
        """
        # Few tables need the number of records counted, which takes long in a large plan.
        if self.not_counted is None or not self.not_counted.exceeds(0.0):
            return ()
        n_counted = self._n_so_far if self.n_counted is None else self.n_counted
        if n_counted is None or not self.not_counted.exceeds(n_counted):
            return ()
        if self.n_counted is None:
            return (
                f"{self.not_counted.total} matched no declared value, beside about "
                f"{max(round(n_counted), 0):,} in the periods so far: they are in none of the answers",
            )
        share = self.not_counted.estimate / (self.not_counted.estimate + max(n_counted, 0.0))
        return (
            f"{self.not_counted.total} matched no declared value ({share:.1%} of all): "
            "they are in none of the answers",
        )

    @property
    def is_centred(self) -> bool:
        """Whether every answer is the midpoint of its interval."""
        return self.adjusted is None or self.adjusted.centred

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False, generator: np.random.Generator | None = None
    ) -> tuple[Array, Array]:
        """The lower and the upper ends of intervals that contain each true answer with probability `level`.

        With ``simultaneous=True`` they contain all true answers at once with that probability. For Gaussian
        noise a single interval is exact, and a simultaneous one comes from simulating the known covariance,
        rounded to the safe side by about a third of a percentage point. For Laplace noise both are
        conservative.

        For an adjusted release they are the intervals of the unadjusted answers, cut to what is possible: to
        zero or more, and to whole numbers. A true count is always possible, so the coverage stays the same;
        an adjusted answer may lie outside. Where answers were only made to agree, Gaussian intervals are
        around them.

        Args:
            level: the confidence, between 0 and 1.
            simultaneous: whether all intervals hold at once with that probability, rather than each by
                itself.
            generator: for the simulation; a fixed one by default, so that the same release always gives the
                same interval. It never touches the data.

        Raises:
            MethodError: where the plan depends on the data, so that errors are not known.
        """
        plan = self.plan
        half = half_widths(
            plan.workload, plan.fixed_strategy(), plan.known_stderr(), level, simultaneous, generator
        )
        return interval_ends(self.adjusted, plan.workload, self.unadjusted.answers, half)

    def answer(self, query: Query, *, level: float = 0.95) -> Any:
        """A pandas frame of answers to any further query that the plan determines, or to a ratio of two.

        Costs no privacy: it is computed from what was already released. Where the plan
        depends on the data, any query is answered, without standard errors.

        Args:
            query: any query over the plan's schema.
            level: the confidence of the intervals, between 0 and 1.

        Raises:
            QueryError: if the plan did not measure enough to answer it.
        """
        return self._frame(*self.columns_of(query, level))

    def __getitem__(self, name: str) -> Any:
        """A pandas frame with the answers of one query, indexed by its attributes.

        For a mean, share or ratio: the estimate, its standard error to first order, both ends of its 95%
        interval, and a note where it is not determined.

        Args:
            name: the name of a query of the workload.
        """
        if name not in self:
            raise QueryError.unknown("query", name, map(repr, self))
        return self._frame(*self.columns_of(name, 0.95))

    def __iter__(self) -> Iterator[str]:
        """The names of the queries, ratios last: what ``release[name]`` takes."""
        return iter(self.plan.workload)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self.plan.workload)

    def __bool__(self) -> bool:
        return True

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab offers after ``release["``."""
        return list(self)

    def ratios(self, *, level: float = 0.95) -> Any:
        """A pandas frame with one row per ratio: query, label, estimate, standard error, interval, note.

        Each interval contains the true ratio with probability `level`: exactly for Gaussian noise, at least
        for Laplace noise. A ratio whose denominator is too small for its noise is not determined: its numbers
        are NaN and the note says why. The interval is left out where the plan depends on the data.

        Args:
            level: the confidence of the intervals, between 0 and 1.
        """
        import pandas as pd

        columns = self.ratio_columns(level=level)
        if self.presented is not None:
            columns = self.presented.presented(columns, is_rounded=False)
        return self._marked(pd.DataFrame(columns))

    def ratio_columns(self, *, level: float = 0.95) -> dict[str, Any]:
        """The columns of `ratios` by name, one entry per ratio.

        Args:
            level: the confidence of the intervals, between 0 and 1.
        """
        return columns_of_ratios(self, level)

    def columns_of(self, query: str | Query, level: float) -> tuple[Query, Labels, dict[str, Any]]:
        """How one query is shaped, what its rows are called, and its columns as they are presented.

        Args:
            query: the name of one of the workload's, or any other in the plan's row space.
            level: the coverage of the intervals, such as 0.95.

        Raises:
            QueryError: if the plan did not measure enough to answer it.
        """
        return columns_of_query(self, query, level)

    def _frame(self, query: Query, labels: Labels, columns: dict[str, Any]) -> Any:
        return self._marked(shaped_frame(query, labels, self.plan.workload.schema, columns))

    def to_frame(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """A pandas frame with one row per query: batch, label, attributes, answer, standard error, interval.

        The same as the file of answers: a column for every attribute that the queries mention, missing where
        a row sums over all of its values; declared values of an ordered attribute are ordered categories.
        Ratios follow the counts, and then there is a column "note". Standard errors and intervals are left
        out where the plan depends on the data. An adjusted release has one more column, "unadjusted", the
        answers that standard errors and intervals refer to; ``frame.attrs["adjusted"]`` says so.

        Args:
            level, simultaneous: as in `interval`.
        """
        return self._marked(to_pandas(answer_table(self, level=level, simultaneous=simultaneous)))

    def to_polars(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """`to_frame` as a Polars frame. Needs the extra "polars".

        Args:
            level, simultaneous: as in `interval`.

        Raises:
            MissingExtraError: if Polars is not installed.
        """
        polars = require("polars", extra="polars", why="a Polars frame")
        return to_polars(answer_table(self, level=level, simultaneous=simultaneous), polars)

    def to_arrow(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """`to_frame` as an Arrow table; its metadata say if it is adjusted.

        Args:
            level, simultaneous: as in `interval`.

        Raises:
            MissingExtraError: if PyArrow is not installed.
        """
        pyarrow = require("pyarrow", extra=None, why="an Arrow table")
        table = to_arrow(answer_table(self, level=level, simultaneous=simultaneous), pyarrow)
        return table.replace_schema_metadata(self._remarks() or None)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """`to_arrow` by the Arrow PyCapsule interface: ``polars.DataFrame(release)`` and others take it.

        Raises:
            MissingExtraError: if PyArrow is not installed.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def columns(self, *, level: float = 0.95, simultaneous: bool = False) -> dict[str, Any]:
        """The counts with their errors as columns by name, one entry each, without attributes.

        Args:
            level, simultaneous: as in `interval`.
        """
        return columns_of_counts(self, level, simultaneous)

    def _remarks(self) -> dict[str, str]:
        """What was done to the answers after they were measured, a sentence or two each."""
        done = {"adjusted": self.adjusted, "presented": self.presented}
        return {name: how.statement() for name, how in done.items() if how is not None}

    def _marked(self, frame: Any) -> Any:
        frame.attrs |= self._remarks()
        return frame

    def quantiles(
        self, attribute: str, levels: Sequence[float], *, level: float = 0.95, by: str | None = None
    ) -> Any:
        """A pandas frame of quantiles of an ordered attribute, with intervals that contain the true ones.

        The q-quantile is the smallest declared value v such that at least a share q of the records has v or
        less. Each interval contains its true quantile with probability `level` or more;
        `leastnoise.release.quantiles` says why. For an adjusted release the estimates are from its answers,
        and the intervals from the measurements.

        Args:
            attribute: an attribute declared as a range, or as Bins, whose quantiles are bins.
            levels: shares between 0 and 1, such as [0.25, 0.5, 0.75].
            level: the confidence of the intervals, between 0 and 1.
            by: a further attribute, for quantiles of the records with each of its values; None for all
                records.

        Raises:
            QueryError: if the attribute has no order, or the plan does not determine its distribution.
            MethodError: where the plan depends on the data, so that errors are not known.
        """
        own, unadjusted = self.answers_to, self.unadjusted.answers_to
        return quantile_table(self.plan, own, unadjusted, attribute, levels, level, by)

    def plot(self, query: str | Query | None = None, *, level: float = 0.95) -> Any:
        """A picture of the answers with their intervals: bars, a line within its band, or a shaded table.

        A notebook shows it by itself, ``.save("ages.svg")`` writes it to a file, and no extra is needed. As
        the report page chooses it: bars for a few counts, a line for an ordered attribute, shades for two
        attributes, small multiples for more.

        Args:
            query: the name of one query, as ``release[name]`` takes it, or any query that ``answer`` takes;
                all of the release, up to 8 of them, unless given.
            level: the probability with which each interval holds the true count.

        Raises:
            QueryError: if there is no query of that name, or the plan does not answer it.
        """
        # By name, when asked: the room of reports comes after this one.
        return import_module("leastnoise.report.plots").plot_release(self, query, level)

    def save(self, path: str | Path) -> Path:
        """Write plan and measurements to one file, which `load_release` reads back.

        Args:
            path: the file to write; an existing one is replaced.
        """
        return container.write(path, "release", *self._to_parts())

    def to_bytes(self) -> bytes:
        """The bytes that `save` would write."""
        return container.to_bytes("release", *self._to_parts())

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        content, arrays = self.plan.to_parts()
        receipt = None if self.receipt is None else asdict(self.receipt)
        arrays = {**arrays, "measurements": exact.to_limbs(self.held_measurements)}
        parts: dict[str, Any] = {"plan": content, "receipt": receipt}
        if self.is_truncated is not None:
            parts["is_truncated"] = self.is_truncated
        if self.not_counted is not None:
            parts["not_counted"], arrays["not_counted"] = self.not_counted.to_parts()
        if self.adjusted is not None:
            parts["adjusted"], cells = self.adjusted.to_parts()
            arrays |= cells
        if self.presented is not None:
            parts["presented"] = self.presented.to_dict()
        if self.price is not None:
            parts["price"] = self.price.to_parts()
        return parts, arrays

    def to_mbi(self) -> ForMbi:
        """The measurements in the terms of the package mbi, to fit a model and draw a synthetic table.

        Hands over every noisy integer with its noise, so that covariances are exact. Set
        ``jax.config.update("jax_enable_x64", True)`` before importing mbi. Needs the extra "mbi".
        """
        return to_mbi(self)

    def _repr_html_(self) -> str:
        return str(import_module("leastnoise.report.release_html").release_html(self))

    def __repr__(self) -> str:
        m, n = self.plan.workload.shape
        adjusted = "" if self.adjusted is None else f", adjusted: {self.adjusted.kinds}"
        promise = self.plan.privacy.short(by_person=bool(self.is_truncated))
        shown = "" if self.presented is None else f", {self.presented.kinds}"
        return f"Release({m:,} answers over {in_figures(n)} cells, {promise}{adjusted}{shown})"

    def __str__(self) -> str:
        first = self.plan.workload.names[0]
        warned = "".join(f"\nWarning: {sentence}" for sentence in self.warnings)
        return f"{self!r}; see summarize(release), release.to_frame() or release[{first!r}]{warned}"


def warn_of_rest(release: Release, *, stacklevel: int) -> None:
    """Warn where more than the declared share of all records is in no cell, by the noisy number.

    Args:
        stacklevel: as that of `warnings.warn`, counted from here.
    """
    for sentence in release.warnings:
        warnings.warn(
            f"{sentence}; `leastnoise check`, for the table's owner alone, says in which columns",
            RecordsNotCounted,
            stacklevel=stacklevel,
        )


def _read_only(values: Array) -> Array:
    values.setflags(write=False)
    return values
