"""Tables in Spark: every partition places and counts its own records, by the functions that count all others.

The functions are sent to the executors as they are here, so that these need not have this package: Python of
the same version, NumPy and PyArrow are enough. Spark reads columns and hands them on as they are stored; it
sorts the records of each person, from cells that are whole numbers by then, and adds up counts.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.arrow_values import stored
from leastnoise.data.connections import IbisTable, asked_of, known_type
from leastnoise.data.counting import Question, Tally, by_codes, placed_batches, tallied
from leastnoise.data.raw_table import BATCH_RECORDS, PAIRS, DroppedRecords, check_engine

# Settings of Spark while it is read: batches as large as elsewhere, and texts of a batch beyond 2 GiB. The
# caller's own conditions are evaluated record by record, not by statistics of files, folders and cached
# tables, which leave NaN out.
_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_RECORDS),
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.databricks.delta.stats.skipping": "false",
}
# Records that an executor sends at once, where the table itself is read.
_RECORDS_SENT = 2**13
# Sessions whose executors are known to have what they need.
_READY: WeakSet[Any] = WeakSet()

Batches = Iterable[Sequence[Any]]


class SparkTable(IbisTable):
    """A table or an expression of Ibis on Spark."""

    @property
    def _tag(self) -> str:
        """By what Spark knows the jobs of this table."""
        return f"leastnoise_{id(self)}"

    def _types(self, names: Sequence[str]) -> list[Any]:
        from pyspark.sql.pandas.types import to_arrow_type

        fields = self._frame(names).schema.fields
        return [
            known_type(name, functools.partial(to_arrow_type, field.dataType))
            for name, field in zip(names, fields, strict=True)
        ]

    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """The columns, fetched from the executors one partition after the other."""
        with self._reading():
            sent = self._frame(names).mapInArrow(_task(_sent), "held binary")
            for row in sent.toLocalIterator():
                with pa.ipc.open_stream(bytes(row[0])) as reader:
                    for batch in reader:
                        yield batch.columns

    def tally(self, question: Question) -> Tally:
        """The counts of a question; the records stay where they are.

        Guarantee:
            One reading of the table. Where records of persons are limited, those are kept that
            `leastnoise.data.limiting` keeps, in the same order.
        """
        once = self._once(question.columns)
        return asked_of(self.backend, lambda: Tally(question, self._counts(question, once)))

    def stop(self) -> None:
        """Have Spark end what it does for this table."""
        with suppress(Exception):
            # Before version 4, only sessions of Spark Connect can.
            self.backend._session.interruptTag(self._tag)

    def _counts(self, question: Question, names: Sequence[str]) -> npt.NDArray[np.int64]:
        with self._reading():
            frame = self._frame(names)
            places = [names.index(name) for name in question.columns]
            if question.limit is None:
                count = functools.partial(_counts_of_columns, question=question, places=places)
            else:
                place = functools.partial(_cells_of_columns, question=question, places=places)
                frame = _limited(frame.mapInArrow(_task(place), _cell_types(question)), question)
                count = functools.partial(_counts_of_cells, question=question)
            summed = frame.mapInArrow(_task(count), "k bigint, n bigint").groupBy("k").sum("n")
            answer = summed.toArrow() if hasattr(summed, "toArrow") else summed.toPandas()
        cells, n_records = (np.asarray(answer[name], dtype=np.int64) for name in ("k", "sum(n)"))
        counts = np.zeros(question.n_counts, dtype=np.int64)
        counts[cells] = n_records
        return counts

    def _frame(self, names: Sequence[str]) -> Any:
        """The columns under names that Spark does not read as paths, as it would a name with a point."""
        return self.backend._session.sql(self._query(names)).toDF(*(f"c{k}" for k in range(len(names))))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The session with settings for reading, whose executors have what they need."""
        session = self.backend._session
        before = {name: session.conf.get(name, None) for name in _SETTINGS}
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        with suppress(Exception):
            session.addTag(self._tag)
        try:
            _check_executors(session)
            yield
        finally:
            with suppress(Exception):
                session.removeTag(self._tag)
            # A session that was stopped meanwhile takes no settings; what stopped it is the error to raise.
            with suppress(Exception):
                for name, known in before.items():
                    if known is None:
                        session.conf.unset(name)
                    else:
                        session.conf.set(name, known)


# ------------------------------------------------------------------ what executors need


def _check_executors(session: Any) -> None:
    """Return if executors run Python with NumPy and PyArrow, and Spark judges each record by itself.

    Both are tried once; the second only where executors see the files of this machine.

    Raises:
        DataError: if not.
    """
    if session in _READY:
        return
    if not _have_packages(session):
        raise DataError(
            "the executors of this Spark session do not run Python with NumPy and PyArrow 18 or later",
            field="table",
            given="executors without Python packages",
            remedy="install both there and name that Python by the environment variable PYSPARK_PYTHON "
            "before the session starts; it must have the version of this one. Or write the table to Parquet "
            "files and count these",
        )
    if _is_local(session):
        check_engine("Spark", functools.partial(_asked_of, session))
    _READY.add(session)


def _is_local(session: Any) -> bool:
    try:
        return str(session.sparkContext.master).startswith("local")
    except Exception:
        # Spark Connect has no context.
        return False


def _asked_of(session: Any, path: str, query: str) -> list[tuple[int, int]]:
    session.read.parquet(f"file://{path}").createOrReplaceTempView(PAIRS)
    try:
        return [(row[0], row[1]) for row in session.sql(query).collect()]
    finally:
        session.catalog.dropTempView(PAIRS)


def _have_packages(session: Any) -> bool:
    def ask(batches: Any) -> Iterator[Any]:
        import numpy
        import pyarrow

        is_recent = int(pyarrow.__version__.split(".")[0]) >= 18
        n = sum(int(numpy.asarray(batch.column(0)).size) for batch in batches)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([n if is_recent else 0])], names=["n"])

    try:
        with _without_words():
            rows = session.range(8).mapInArrow(ask, "n bigint").collect()
    except Exception:
        return False
    return sum(row["n"] for row in rows) == 8


@contextmanager
def _without_words() -> Iterator[None]:
    """PySpark without a log of the error by which a probe finds that something is missing."""
    log = logging.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


# ------------------------------------------------------------------ what executors do


def _task(run: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function of a partition's record batches, for processes without this package."""
    held = _pickled(run)

    def task(batches: Any) -> Iterator[Any]:
        import pickle

        yield from pickle.loads(held)(batches)  # noqa: S301 - made here a moment ago

    return task


def _pickled(run: Callable[..., Any]) -> bytes:
    """A function with all functions and classes of this package that it calls, in one piece."""
    from pyspark import cloudpickle

    # Of all rooms, without importing what stands above this one.
    package = sys.modules[__name__.partition(".")[0]]

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        """Pickles what hides a function from cloudpickle by the function."""

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, functools.cached_property):
                # Before Python 3.12 it holds a lock.
                return functools.cached_property, (value.func,), {"attrname": value.attrname}
            if isinstance(value, functools._lru_cache_wrapper):
                again = lambda own, given: functools.lru_cache(**given)(own)  # noqa: E731
                return again, (value.__wrapped__, value.cache_parameters())
            return super().reducer_override(value)

    file = io.BytesIO()
    is_known = package.__name__ in cloudpickle.list_registry_pickle_by_value()
    if not is_known:
        cloudpickle.register_pickle_by_value(package)
    try:
        Pickler(file).dump(run)
    finally:
        if not is_known:
            cloudpickle.unregister_pickle_by_value(package)
    return file.getvalue()


def _columns(batches: Iterator[Any], places: Sequence[int]) -> Iterator[list[Any]]:
    for batch in batches:
        yield [batch.column(place) for place in places]


def _counts_of_columns(batches: Iterator[Any], question: Question, places: Sequence[int]) -> Iterator[Any]:
    yield _filled(tallied(placed_batches(_columns(batches, places), question), question))


def _filled(tally: Tally) -> Any:
    """The counts that are not zero, and where they stand."""
    filled = np.flatnonzero(tally.counts)
    return pa.RecordBatch.from_arrays([pa.array(filled), pa.array(tally.counts[filled])], names=["k", "n"])


def _cell_types(question: Question) -> str:
    """The columns of `_cells_of_columns`, as Spark declares them."""
    cells = ", ".join(f"i{k} bigint" for k in range(len(question.schema.names)))
    return f"who binary, rest boolean, {cells}"


def _cells_of_columns(batches: Iterator[Any], question: Question, places: Sequence[int]) -> Iterator[Any]:
    """Whose each record is, as bytes that no collation compares, and its cells, -1 for none."""
    sizes = [question.schema[name].size for name in question.schema.names]
    names = ["who", "rest", *(f"i{k}" for k in range(len(sizes)))]
    for placed in placed_batches(_columns(batches, places), question):
        codes = [own.astype(np.int64) for own in placed.codes]
        cells = [np.where(own == size, -1, own) for own, size in zip(codes, sizes, strict=True)]
        who = placed.who.cast(pa.large_binary()).cast(pa.binary())
        arrays = [who, pa.array(placed.is_rest), *map(pa.array, cells)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _limited(frame: Any, question: Question) -> Any:
    """At most so many records of each person, as `leastnoise.data.limiting` orders them."""
    names = question.schema.names
    cells = [f"i{k}" for k in range(len(names))]
    written = f"concat(who, cast(concat_ws(',', '', {', '.join(cells)}) AS binary))"
    time = question.earliest_by
    period = [] if time is None else [f"nullif(i{names.index(time)}, -1) NULLS LAST"]
    order = ", ".join(["rest", *period, f"md5({written})", *cells])
    rank = f"row_number() OVER (PARTITION BY who ORDER BY {order}) AS nth"
    ranked = frame.where("who IS NOT NULL").selectExpr(*cells, rank)
    most = min(question.limit or 0, 2**31 - 1)
    return ranked.where(f"nth <= {most}").select(*cells)


def _counts_of_cells(batches: Iterator[Any], question: Question) -> Iterator[Any]:
    """The counts of records from their cells, -1 for none."""
    sizes = question.schema.shape
    cells = (map(stored, batch.columns) for batch in batches)
    codes = ([np.where(x < 0, size, x) for x, size in zip(own, sizes, strict=True)] for own in cells)
    yield _filled(tallied((by_codes(own, question) for own in codes), question))


def _sent(batches: Iterator[Any]) -> Iterator[Any]:
    """Record batches as bytes of Arrow's own format, which nothing on the way reads."""
    for batch in batches:
        for first in range(0, batch.num_rows, _RECORDS_SENT):
            file = io.BytesIO()
            with pa.ipc.new_stream(file, batch.schema) as writer:
                writer.write_batch(batch.slice(first, _RECORDS_SENT))
            yield pa.RecordBatch.from_arrays([pa.array([file.getvalue()])], names=["held"])
