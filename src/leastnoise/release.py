"""Measure a plan on data: the one private step, and what may be read from it.

`measure` goes check, read, spend, draw, store, hand out. Between the counts and
the stored noisy integers there are only integers: y = A x + noise, or the stages
of a mechanism that depends on the data. Everything after that is post-processing,
done in floating point from y alone, and costs no privacy however often it is done.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise import container, exact
from leastnoise.adjustment import Adjustment, adjustment_from_parts
from leastnoise.data import Data, counts_from_vector, is_count_vector, vectorize
from leastnoise.errors import (
    DataError,
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    MissingExtraError,
    PlanFileError,
    UnrecordedSpending,
)
from leastnoise.interruption import finished_first
from leastnoise.intervals import half_widths
from leastnoise.ledger import Ledger
from leastnoise.measured import CountTables, Measured
from leastnoise.noise import RandomBits, SystemBits, discrete_laplace, rounded_gaussian
from leastnoise.operators import Array
from leastnoise.plan import Plan, plan_from_parts
from leastnoise.printable import in_figures
from leastnoise.privacy import Goal, goal_from_dict
from leastnoise.quantiles import quantile_table
from leastnoise.queries import Labels, Query
from leastnoise.schema import Schema
from leastnoise.structured.blocks import Structured
from leastnoise.to_mbi import ForMbi, to_mbi
from leastnoise.workload import Workload


@dataclass(frozen=True)
class Receipt:
    """Where a ledger recorded a release.

    Attributes:
        dataset: the name of the people it is about.
        release_id: what the release is known by; asking for it again gives the same answers.
        head: the digest over all rows of the ledger when it was paid for. Whoever notes it can tell later,
            with ``ledger.verify(head=...)``, whether any of them is gone.
    """

    dataset: str
    release_id: str
    head: str


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy measurements of one plan, and everything that follows from them.

    Attributes:
        plan: what was measured.
        measurements: the noisy integers y = A x + noise, as Python integers; all that was released.
            Where the plan depends on the data, what its mechanism released.
        receipt: where a ledger recorded it; None for a release without one.
        adjusted: what `adjust` did to the answers afterwards; None where they are as measured.
    """

    plan: Plan
    measurements: Array
    receipt: Receipt | None = None
    adjusted: Adjustment | None = None

    def __post_init__(self) -> None:
        _read_only(self.measurements)

    @cached_property
    def estimates(self) -> Array:
        """The least-squares estimate of every cell that the plan determines, (n,).

        Where the plan depends on the data, its mechanism's estimate of every cell. Where the release
        is adjusted, the cells that all its answers are added up from.
        """
        if self.adjusted is not None:
            return self.adjusted.cells
        if self.plan.mechanism is not None:
            return _read_only(self.plan.mechanism.estimates(self.measurements))
        return _read_only(self.plan.fixed_strategy().estimates(self.measurements))

    @cached_property
    def answers(self) -> Array:
        """The answer to every query of the workload, (m,): consistent with one another.

        And unbiased, unless the plan depends on the data or the answers were adjusted. Where method
        "residuals" measures an attribute in several forms, each answer comes from the form that serves it
        best, and sums of one may differ from another by their noise; `adjust` makes them agree.
        """
        return _read_only(self._answers_to(self.plan.workload))

    @cached_property
    def unadjusted(self) -> Release:
        """The release as it was measured."""
        return self if self.adjusted is None else replace(self, adjusted=None)

    def _answers_to(self, workload: Workload) -> Array:
        if self.plan.strategy is None or self.adjusted is not None:
            return workload.operator.apply(self.estimates)
        return self.plan.strategy.answers_of(workload, self.measurements)

    @property
    def stderr(self) -> Array | None:
        """The standard error of every answer, (m,); None where it depends on the data.

        Of an adjusted release, that of its unadjusted answers: adjusted ones err less as a rule where
        counts are small, and nobody knows by how much without the data.
        """
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

        Of an adjusted release they are those of the unadjusted answers, cut down to what is possible: to
        zero or more, and to whole numbers. A true count is always possible, so they hold it as often as
        they say; an adjusted answer may lie outside.

        Args:
            generator: for the simulation; a fixed one unless given, so that the
                same release always gives the same interval. It touches no data.

        Raises:
            MethodError: where the plan depends on the data, so that errors are not known.
        """
        plan = self.plan
        half = half_widths(
            plan.workload, plan.fixed_strategy(), plan.known_stderr(), level, simultaneous, generator
        )
        return self._ends(plan.workload, self.unadjusted.answers, half)

    def _ends(self, workload: Workload, unadjusted: Array, half: Array) -> tuple[Array, Array]:
        lower, upper = unadjusted - half, unadjusted + half
        if self.adjusted is None:
            return lower, upper
        return self.adjusted.possible(workload, lower, upper)

    def answer(self, query: Query, *, level: float = 0.95) -> Any:
        """A pandas frame of answers to any further query in the plan's row space.

        Costs no privacy: it is computed from what was already released. Where the plan
        depends on the data, any query is answered, without standard errors.

        Raises:
            QueryError: if the plan did not measure enough to answer it.
        """
        return self._table(self.plan.asked(query), level)

    def __getitem__(self, name: str) -> Any:
        """A pandas frame with the answers of one named query, indexed as the query is shaped."""
        return self._table(self.plan.workload.only(name), 0.95)

    def _table(self, workload: Workload, level: float) -> Any:
        """A pandas frame with the answers of a workload of one query, indexed as the query is shaped."""
        (block,) = workload.blocks
        columns = {"answer": self._answers_to(workload)}
        if self.plan.strategy is not None:
            stderr = np.sqrt(self.plan.strategy.variances_of(workload))
            half = half_widths(workload, self.plan.strategy, stderr, level, False, None)
            unadjusted = self.unadjusted._answers_to(workload)
            lower, upper = self._ends(workload, unadjusted, half)
            if self.adjusted is not None:
                columns["unadjusted"] = unadjusted
            columns |= {"stderr": stderr, "lower": lower, "upper": upper}
        return self._frame(block.query, block.labels, columns)

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
        return self._marked(pd.DataFrame(columns, index=index))

    def to_frame(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """A pandas frame with one row per query: batch, label, answer, standard error, interval.

        The last two are left out where the plan depends on the data. An adjusted release has one column more,
        "unadjusted", the answers that standard errors and intervals are about; ``frame.attrs["adjusted"]``
        says so.
        """
        import pandas as pd

        return self._marked(pd.DataFrame(self.columns(level=level, simultaneous=simultaneous)))

    def to_polars(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """`to_frame` as a Polars frame. Needs the extra "polars".

        Raises:
            MissingExtraError: if Polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise MissingExtraError("a Polars frame needs Polars: pip install 'leastnoise[polars]'") from None
        return polars.DataFrame(in_unicode(self.columns(level=level, simultaneous=simultaneous)))

    def to_arrow(self, *, level: float = 0.95, simultaneous: bool = False) -> Any:
        """`to_frame` as an Arrow table; of an adjusted release its metadata say so. Needs the extra "arrow".

        Raises:
            MissingExtraError: if PyArrow is not installed.
        """
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError("an Arrow table needs PyArrow: pip install 'leastnoise[arrow]'") from None
        table = pyarrow.table(in_unicode(self.columns(level=level, simultaneous=simultaneous)))
        said = {} if self.adjusted is None else {"adjusted": self.adjusted.statement()}
        return table.replace_schema_metadata(said or None)

    def columns(self, *, level: float = 0.95, simultaneous: bool = False) -> dict[str, Any]:
        """The columns of `to_frame` by name, one entry for each query: what all tables are made of."""
        workload = self.plan.workload
        columns: dict[str, Any] = {
            "query": [block.name for block in workload.blocks for _ in range(block.n_rows)],
            "label": list(workload.labels),
            "answer": self.answers,
        }
        if self.adjusted is not None:
            columns["unadjusted"] = self.unadjusted.answers
        if self.plan.strategy is not None:
            lower, upper = self.interval(level, simultaneous=simultaneous)
            columns |= {"stderr": self.plan.known_stderr(), "lower": lower, "upper": upper}
        return columns

    def _marked(self, frame: Any) -> Any:
        if self.adjusted is not None:
            frame.attrs["adjusted"] = self.adjusted.statement()
        return frame

    def quantiles(
        self, attribute: str, levels: Sequence[float], *, level: float = 0.95, by: str | None = None
    ) -> Any:
        """A pandas frame of quantiles of an ordered attribute, with intervals that hold the true ones.

        The q-quantile is the least declared value v such that at least a share q of the records has v or
        less. Each interval holds its true quantile with probability `level` or more; `leastnoise.quantiles`
        has the reason. Of an adjusted release the estimates are those of its answers, and the intervals
        those of what was measured.

        Args:
            attribute: declared as a range, or as Bins, whose quantiles are bins.
            levels: shares between 0 and 1, such as [0.25, 0.5, 0.75].
            by: a further attribute: quantiles of the records of each of its values.

        Raises:
            QueryError: if the attribute has no order, or the plan does not determine its distribution.
            MethodError: where the plan depends on the data, so that errors are not known.
        """
        own, unadjusted = self._answers_to, self.unadjusted._answers_to
        return quantile_table(self.plan, own, unadjusted, attribute, levels, level, by)

    def save(self, path: str | Path) -> Path:
        """Write plan and measurements to one file, which `load_release` reads back."""
        return container.write(path, "release", *self._to_parts())

    def to_bytes(self) -> bytes:
        """The bytes that `save` would write."""
        return container.to_bytes("release", *self._to_parts())

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        content, arrays = self.plan.to_parts()
        receipt = None if self.receipt is None else asdict(self.receipt)
        arrays = {**arrays, "measurements": exact.to_limbs(self.measurements)}
        parts: dict[str, Any] = {"plan": content, "receipt": receipt}
        if self.adjusted is not None:
            parts["adjusted"], cells = self.adjusted.to_parts()
            arrays |= cells
        return parts, arrays

    def to_mbi(self) -> ForMbi:
        """What was released, in the terms of the package mbi: to fit a model and draw a synthetic table.

        Every noisy integer is handed over with its noise, so that covariances are as they are. Set
        ``jax.config.update("jax_enable_x64", True)`` before importing mbi. Needs the extra "mbi".
        """
        return to_mbi(self)

    def __repr__(self) -> str:
        m, n = self.plan.workload.shape
        adjusted = "" if self.adjusted is None else f", adjusted: {self.adjusted.kinds}"
        return f"Release({m:,} answers over {in_figures(n)} cells, {self.plan.privacy}{adjusted})"

    def __str__(self) -> str:
        first = self.plan.workload.names[0]
        return f"{self!r}; see summarize(release), release.to_frame() or release[{first!r}]"


def load_release(path: str | Path) -> Release:
    """The release that `Release.save` wrote; its plan is checked as `load_plan` does."""
    name = Path(path).name
    return _release_from_parts(*container.read(path, "release"), name)


def _release_from_parts(content: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> Release:
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
        fits = len(measurements) == plan.fixed_strategy().n_measured
    if not fits:
        raise PlanFileError(f"{name!r} holds measurements that do not fit its plan")
    adjusted = adjustment_from_parts(content.get("adjusted"), arrays, plan.workload.shape[1], name)
    return Release(plan, measurements, _receipt(content.get("receipt"), name), adjusted)


def _receipt(plain: Any, name: str) -> Receipt | None:
    if plain is None:
        return None
    fields = ("dataset", "release_id", "head")
    if not isinstance(plain, dict) or sorted(plain) != sorted(fields):
        raise PlanFileError(f"{name!r} holds a receipt that no ledger gave")
    if not all(isinstance(plain[field], str) for field in fields):
        raise PlanFileError(f"{name!r} holds a receipt that no ledger gave")
    return Receipt(**plain)


def measure(
    plan: Plan, source: Any, *, ledger: Ledger | None = None, release_id: str | None = None
) -> Release:
    """The noisy answers of a plan on a table: the one step that spends privacy.

    Args:
        source: what `vectorize` takes, its `Data`, or a vector of integer counts. `Data`
            with a ``person`` is cut down to the goal's ``records_per_person`` of each
            person; anything else is taken as it is, and that nobody has more
            records is then the publisher's promise.
        ledger: the budget that pays for it; without one, a line of warning. The order is: check, read
            the counts, spend, draw noise, store the answers, hand them out. A failure while reading costs
            nothing; one after spending may waste budget, and never gives an answer that was not paid for.
        release_id: what the release is known by in the ledger; a fresh one unless given. Asking again for
            one whose answers are stored gives the same answers and costs nothing.

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
        LedgerError: if the ledger cannot pay for it, or cannot be relied on; nothing is spent.
        RandomnessError: if the system's generator fails; nothing is released, and what was spent stays so.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"measure() needs a Plan from design(), got {type(plan).__name__}")
    if isinstance(plan.strategy, Structured):
        plan.strategy.require_measurable()
    if ledger is not None:
        return _measured_with(ledger, plan, source, release_id)
    if plan.after:
        raise InputError(
            "this plan was designed after others, and is within its goal only together with them; name the "
            "ledger that holds their releases: ledger="
        )
    if release_id is not None:
        raise InputError("release_id= is what a ledger knows a release by; give ledger= too, or leave it out")
    read = _read(plan, count_tables(plan.workload, source, plan.privacy.records_per_person))
    warnings.warn(
        f"no ledger records this release: it spends {plan.privacy}, and so does every repetition",
        UnrecordedSpending,
        stacklevel=2,
    )
    return Release(plan, _noisy(plan, read, SystemBits()))


def _measured_with(ledger: Ledger, plan: Plan, source: Any, release_id: str | None) -> Release:
    """Check, read, spend, draw, store, hand out."""
    if not isinstance(ledger, Ledger):
        raise InputError(f"ledger must be a Ledger, got {type(ledger).__name__}")
    chosen = f"{SystemBits().bits(128):032x}" if release_id is None else release_id
    charge = plan.charge
    # What was not given cannot be given smaller.
    goal = plan.privacy if plan.has_goal and not plan.after else None
    stored = ledger.check(charge, chosen, plan.after, expected_bytes=_bytes_of(plan), goal=goal)
    if stored is not None:
        return _release_from_parts(*container.from_bytes(stored, "release", chosen), chosen)
    read = _read(plan, count_tables(plan.workload, source, plan.privacy.records_per_person))
    # Whoever interrupts here would have paid for answers that nobody has.
    with finished_first():
        entry = ledger.spend(charge, chosen, plan.after, goal=goal)
        receipt = Receipt(ledger.dataset, chosen, entry.head)
        release = Release(plan, _noisy(plan, read, SystemBits()), receipt)
        ledger.store(entry, release.to_bytes())
    return release


def stored_release(ledger: Ledger, release_id: str) -> Release:
    """The release that a ledger has stored under an id. Costs nothing, and needs neither data nor plan.

    Raises:
        LedgerMismatchError: if the ledger knows no release of that id.
        AlreadySpentError: if it was paid for and its answers never stored.
        LedgerFileError: if what is stored is not a release of the plan that was paid for.
    """
    found = ledger.fetch(release_id)
    if found is None:
        raise LedgerMismatchError(
            f"the ledger {ledger.path.name!r} knows no release {release_id!r}; ledger.entries lists those it "
            "does, and so does `leastnoise ledger show`"
        )
    entry, body = found
    release = _release_from_parts(*container.from_bytes(body, "release", release_id), release_id)
    receipt = Receipt(ledger.dataset, release_id, entry.head)
    if release.plan.digest != entry.charge.plan_digest or release.receipt != receipt:
        raise LedgerFileError(
            f"what is stored as release {release_id!r} is not what was paid for; restore the file"
        )
    return release


def stored_goal(ledger: Ledger, release_id: str) -> Goal | None:
    """The goal that a stored release was designed for, without reading the rest of it.

    None where it followed from targets or other plans, or what is stored was made by something else.

    Raises:
        AlreadySpentError: if the release was paid for and its answers never stored.
    """
    found = ledger.fetch(release_id)
    try:
        content = {} if found is None else container.from_bytes(found[1], "release", release_id)[0]
    except PlanFileError:
        return None
    plan = content.get("plan", {})
    return goal_from_dict(plan["privacy"]) if plan.get("has_goal") and not plan.get("after") else None


def _bytes_of(plan: Plan) -> int:
    """About how large a release of a plan is, for the room it needs."""
    content, arrays = plan.to_parts()
    n = 1 if plan.strategy is None else plan.strategy.n_measured
    return len(json.dumps(content)) + sum(array.nbytes for array in arrays.values()) + 16 * n + 2**16


def measured(plan: Plan, counts: Array, bits: RandomBits) -> Array:
    """What a plan releases about counts, (n,), with noise from these bits: the private step itself."""
    return _noisy(plan, _read(plan, _tables_of_vector(plan.workload, counts)), bits)


def _read(plan: Plan, tables: CountTables) -> Array:
    """All that is needed of the table, in whole numbers: what a strategy measures, or the counts."""
    if plan.mechanism is not None:
        return tables(None)[0].reshape(-1)
    return plan.fixed_strategy().exact_answers(tables)


def _noisy(plan: Plan, read: Array, bits: RandomBits) -> Array:
    """What was read with noise, in Python integers, one independent draw per integer."""
    if plan.mechanism is not None:
        return plan.mechanism.measure(read, lambda scale, size: discrete_laplace(scale, size, bits))
    return with_noise(plan.fixed_strategy(), read, bits)


def with_noise(strategy: Measured, integers: Array, bits: RandomBits) -> Array:
    """What a strategy measures, in Python integers, with its noise: one independent draw for each."""
    draw = discrete_laplace if strategy.noise == "laplace" else rounded_gaussian
    return integers + np.array(draw(strategy.scale, strategy.n_measured, bits), dtype=object)


def in_unicode(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns whose texts hold Unicode only; what is none is written out, as \\udc80."""
    return {
        name: [text.encode("utf-8", "backslashreplace").decode() for text in values]
        if name in ("query", "label")
        else values
        for name, values in columns.items()
    }


def _read_only(values: Array) -> Array:
    values.setflags(write=False)
    return values


def count_tables(workload: Workload, source: Any, records_per_person: int) -> CountTables:
    """How the counts of a workload's attributes are asked, from whatever `measure` takes.

    Raises:
        DataError: if the source does not fit the workload.
    """
    n, schema = workload.shape[1], workload.schema
    if is_count_vector(source):
        return _tables_of_vector(
            workload, counts_from_vector(source, n, None if schema is None else schema.shape)
        )
    if schema is None:
        raise DataError(f"a plan made from a matrix without a schema needs a vector of {n:,} integer counts")
    if isinstance(source, Data) and source.schema != schema:
        raise DataError("the data was vectorized with another schema than the plan's; vectorize it again")
    data = vectorize(source, schema)
    # Without a person, records_per_person is what the publisher declares about the table.
    most = None if data.person is None else records_per_person

    def ask(subsets: Sequence[tuple[str, ...]] | None) -> Sequence[Array]:
        if subsets is None:
            return [data.vector(records_per_person=most)]
        return data.tables(subsets, records_per_person=most)

    return ask


def counts_of(workload: Workload, source: Any, records_per_person: int) -> Array:
    """The counts of all cells of a workload, (n,), from whatever `measure` takes.

    Raises:
        DataError: if the source does not fit the workload.
    """
    return count_tables(workload, source, records_per_person)(None)[0]


def _tables_of_vector(workload: Workload, counts: Array) -> CountTables:
    """Cross tables by adding up counts of all cells."""
    schema = workload.schema

    def ask(subsets: Sequence[tuple[str, ...]] | None) -> Sequence[Array]:
        if subsets is None or schema is None:
            return [counts]
        # In Python integers where int64 sums could wrap, whatever the counts are.
        wide = counts.astype(object)
        return [_summed(wide, schema, names) for names in subsets]

    return ask


def _summed(counts: Array, schema: Schema, names: tuple[str, ...]) -> Array:
    """The table of some attributes, in the order named, from counts of all cells."""
    # One attribute at a time, as (before, this one, after): a schema may have more than NumPy has axes.
    table, before = counts, 1
    for name, size in zip(schema.names, schema.shape, strict=True):
        table = table.reshape(before, size, -1)
        if name in names:
            before *= size
        else:
            table = table.sum(axis=1)
    kept = [name for name in schema.names if name in names]
    shaped = table.reshape([schema[name].size for name in kept])
    return np.asarray(shaped.transpose([kept.index(name) for name in names]))
