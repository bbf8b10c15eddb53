"""`vectorize` and the lazy handle it makes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError, TooLargeError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import MAX_ENTRIES
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.data import duckdb_scan, ibis_scan
from leastnoise.data.addresses import opened_address, opened_lake
from leastnoise.data.block_counts import MAX_COUNTED_CELLS
from leastnoise.data.connections import connection_lost, is_lost, renewed, withheld
from leastnoise.data.file_format import FileFormat, TableFiles
from leastnoise.data.file_names import are_files, files_named, is_address, lake_of
from leastnoise.data.people import Person, checked_person
from leastnoise.data.scan_progress import ScanPlan, ScanProgress, ScanWatch
from leastnoise.data.snapshots import CHANGED, Scan
from leastnoise.data.sources import (
    ACCEPTED,
    OPENERS,
    is_in_engine,
    snapshot,
    table_from_capsule,
)
from leastnoise.data.table_cover import (
    MAX_BLOCKS,
    Block,
    LeftOut,
    Subset,
    TablesAndRest,
    first_holders,
    n_cells_of,
    plan_scans,
    summed,
)
from leastnoise.query import Schema

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Data(NotebookValue):
    """A table and its schema: a handle that counts on demand and shows no values.

    Attributes:
        schema: the declared attributes.
        kind: where the records are.
        who: the column that identifies the person, and the ids in it that identify nobody; None without one.
        is_held: whether the records are in memory and cannot change while this handle exists.
        format: how its files are written, where it is read from files.
    """

    _unlisted = unlisted("tables_and_rest")

    schema: Schema
    kind: str
    _source: Any = field(repr=False)
    who: Person | None = None
    is_held: bool = field(default=False, repr=False)
    format: FileFormat = field(default=FileFormat(), repr=False)

    @property
    def person(self) -> str | None:
        """The column that identifies the person, or None."""
        return None if self.who is None else self.who.column

    def counts(self, *attributes: str, records_per_person: int | None = None) -> npt.NDArray[np.int64]:
        """The number of records with each combination of values of these attributes, zeros included.

        The shape is the sizes of the attributes in the order asked; without any,
        the answer is the number of records in the schema's cells. A record counts
        only if all attributes of the schema place it, so that every answer is the
        sum of `vector` over the attributes left out.

        Args:
            *attributes: the names of the attributes, in the order of the array's axes.
            records_per_person: keep at most this many records of each person, chosen in a fixed hash order of
                that person's own records. Records in no cell come last and displace none. Records of nobody
                are dropped: those without an id, with a declared placeholder, or with an id that cannot be
                compared exactly (see `leastnoise.data.people`). Needs ``person``; None keeps all records.

        Guarantee:
            Adding or removing one record changes one entry by one, or none. With
            ``records_per_person=k``, adding or removing all records of one person
            changes the entries by at most k in all, and the counts depend neither on
            the order of the records nor on how they are stored.

        Raises:
            SchemaError: if the schema declares no such attribute.
            DataError: if an attribute is named twice, the table cannot be read, or
                ``records_per_person`` is asked of data without a person.
            TooLargeError: above MAX_ENTRIES combinations, before anything is read.
        """
        return self.tables([attributes], records_per_person=records_per_person)[0]

    def tables(
        self,
        subsets: Iterable[Iterable[str]],
        *,
        records_per_person: int | None = None,
        progress: Callable[[ScanProgress], object] | None = None,
    ) -> list[npt.NDArray[np.int64]]:
        """The counts of many cross tables, from as few scans of the table as the engine allows.

        Small tables are counted together as sums of larger ones, and as many as one
        query takes at once: all 190 pairs of 20 attributes take one scan.

        Args:
            subsets: the attributes of each table, as in ``[("age", "sex"), ("age",), ()]``;
                ``()`` asks for the number of records in the schema's cells.
            records_per_person: as in `counts`.
            progress: called with a `ScanProgress` about twice a second while the engine works; an exception
                that it raises ends the count.

        Guarantee:
            That of `counts`, for each table; and every table is a sum of the same cells of
            the same records, so that any two agree wherever they overlap.

        Raises:
            SchemaError: if the schema declares no such attribute.
            DataError: if a table is not named by attributes, each once, the source cannot
                be read or changes meanwhile, or ``records_per_person`` is asked of data
                without a person.
            TooLargeError: if the tables hold more than MAX_ENTRIES cells together, before
                anything is read.

        Example:
            >>> import pandas
            >>> table = pandas.DataFrame({"age": [0, 1, 1], "sex": ["F", "M", "F"]})
            >>> data = vectorize(table, Schema(age=range(2), sex=("F", "M")))
            >>> data.tables([("sex",), ("sex", "age"), ()])
            [array([2, 1]), array([[1, 1],
                   [0, 1]]), array(3)]
        """
        return self.tables_and_rest(subsets, records_per_person=records_per_person, progress=progress).tables

    def tables_and_rest(
        self,
        subsets: Iterable[Iterable[str]],
        left_out_by: Sequence[str] = (),
        *,
        records_per_person: int | None = None,
        earliest_by: str | None = None,
        progress: Callable[[ScanProgress], object] | None = None,
    ) -> TablesAndRest:
        """What `tables` gives, and the number of records in no cell: true numbers, to be kept secret.

        Args:
            subsets, records_per_person, progress: as in `tables`.
            left_out_by: attributes for which to count, too, how many of these records each leaves out.
            earliest_by: the time attribute, to keep the earliest records of each person: in the order of its
                values, and in hash order within each.

        Guarantee:
            That of `tables`, with "no cell" as one cell more: adding or removing one record changes one
            entry of one table by one, or `n_rest` by one and every entry of `n_left_out` by one or zero.
            With ``records_per_person=k``, records that no cell takes count towards the k of a person, after
            those that have a cell: all records of one person change at most k numbers so. Records of
            nobody, and lines of a file that are no records, are in neither. With ``earliest_by``, records
            of later periods do not change what is counted in earlier ones.

        Raises:
            SchemaError, DataError, TooLargeError: as `tables` does.
        """
        asked = [self._checked_subset(subset) for subset in subsets]
        flags = [LeftOut(name) for name in self._checked_subset(left_out_by)]
        self._check_size(asked)
        if records_per_person is not None:
            self._check_truncation(records_per_person)
        if earliest_by is not None:
            self._checked_subset([earliest_by])
        if not asked:
            return TablesAndRest([], 0, ())
        scans = self._scans(asked, flags)
        watch = ScanWatch(progress, len(scans))
        holders = first_holders(
            asked, [block for scan in scans for block in scan if isinstance(block, tuple)]
        )
        found: dict[int, npt.NDArray[np.int64]] = {}
        n_left_out: list[int] = []
        totals, rests = set(), set()
        with self._scanner(records_per_person, len(scans), earliest_by) as scan:
            for blocks in scans:
                for block, x in zip(blocks, self._scanned(scan, blocks, watch), strict=True):
                    if isinstance(block, LeftOut):
                        n_left_out.append(int(x[1]))
                        continue
                    counts = x[:-1]
                    totals.add(int(counts.sum()))
                    rests.add(int(x[-1]))
                    for place in holders[block]:
                        found[place] = summed(counts, block, asked[place], self.schema)
        # What no engine should let happen; a version held wrongly would show here first.
        if len(totals) > 1 or len(rests) > 1:
            raise DataError(CHANGED, field="table")
        return TablesAndRest([found[place] for place in range(len(asked))], rests.pop(), tuple(n_left_out))

    def scan_plan(self, subsets: Iterable[Iterable[str]]) -> ScanPlan:
        """How `tables` would count these tables; reads no record.

        Asks Spark's executors, once per session, whether they have Python, NumPy and PyArrow.

        Args:
            subsets: as in `tables`.
        """
        scans = self._scans([self._checked_subset(subset) for subset in subsets], [])
        sizes = [sum(n_cells_of(block, self.schema) for block in scan) for scan in scans]
        if (backend := self._backend) is not None:
            name, routes = backend.name, [ibis_scan.route_of(backend, n) for n in sizes]
        else:
            name, routes = "duckdb", ["numpy" if n <= MAX_COUNTED_CELLS else "sql" for n in sizes]
        return ScanPlan(name, tuple(map(len, scans)), tuple(routes))

    def _scans(self, asked: list[Subset], flags: list[LeftOut]) -> list[list[Block]]:
        scans: list[list[Block]] = [list(scan) for scan in plan_scans(asked, self.schema)]
        for flag in flags:
            if len(scans[-1]) == MAX_BLOCKS:
                scans.append([])
            scans[-1].append(flag)
        return scans

    @contextmanager
    def _scanner(
        self, records_per_person: int | None, n_scans: int, earliest_by: str | None
    ) -> Iterator[Scan]:
        """Scans that see one version of the table; what the engine says of an error is withheld."""
        given = (self._source, self.schema, self.who, records_per_person)
        held = ExitStack()
        if self._backend is not None:
            renewed(self._backend)
        opening = scanner(*given, n_scans=n_scans, earliest_by=earliest_by)
        scan = self._withheld(lambda: held.enter_context(opening))
        try:
            yield scan
        except BaseException:
            # The error at hand is the one to tell; what closing says of an engine that still works is not.
            raised = sys.exc_info()
            with suppress(Exception):
                held.__exit__(*raised)
            raise
        self._withheld(held.close)

    def _scanned(self, scan: Scan, blocks: list[Block], watch: ScanWatch) -> list[npt.NDArray[np.int64]]:
        """The counts of some blocks, from one scan of the table."""
        return watch.scan(lambda: self._withheld(lambda: scan(blocks, watch)))

    @property
    def _backend(self) -> Any:
        """The connection to the engine that the records are in; None where they are read here."""
        return self._source[1].get_backend() if is_in_engine(self._source) else None

    def _withheld(self, run: Callable[[], _T]) -> _T:
        """What ``run`` returns; if it fails, an error that tells if the connection is lost, and no more."""
        failed = None
        try:
            return withheld("counting the table", run)
        except DataError as error:
            failed = error
        if self._backend is not None and is_lost(self._backend):
            raise connection_lost(self._backend)
        raise failed

    def _checked_subset(self, subset: Iterable[str]) -> Subset:
        if isinstance(subset, str) or not isinstance(subset, Iterable):
            raise DataError.must(
                "tables", "name attributes, as in ('age', 'sex'), or ('age',) for one", given=subset
            )
        attributes = tuple(subset)
        for name in attributes:
            if not isinstance(name, str):
                raise DataError.must("attributes", "be names", given=type(name))
            self.schema[name]
        if len(set(attributes)) < len(attributes):
            raise DataError.must("attributes", "be different", given=attributes)
        return attributes

    def _check_size(self, asked: list[Subset]) -> None:
        """Refuse what would not fit; the counts in the engine are never more than those handed out."""
        sizes = [math.prod(self.schema[name].size for name in subset) for subset in asked]
        if sum(sizes) <= MAX_ENTRIES:
            return
        if len(asked) == 1:
            raise TooLargeError(
                f"counts over {', '.join(asked[0])} would hold {sizes[0]:,} cells; at most "
                f"{MAX_ENTRIES:,} are built",
                field="tables",
                given=asked[0],
                remedy="ask for fewer attributes or declare coarser ones",
            )
        raise TooLargeError(
            f"{len(asked):,} tables would hold {sum(sizes):,} cells together; at most "
            f"{MAX_ENTRIES:,} are built, the largest holds {max(sizes):,}",
            field="tables",
            given=len(asked),
            remedy="ask for fewer tables at a time, or declare coarser attributes",
        )

    def _check_truncation(self, records_per_person: object) -> None:
        is_whole = isinstance(records_per_person, (int, np.integer))
        if not is_whole or isinstance(records_per_person, bool) or records_per_person < 1:  # type: ignore[operator]
            raise DataError.must("records_per_person", "be a positive whole number", given=records_per_person)
        if self.person is None:
            raise DataError(
                Argument("records_per_person", is_subject=True),
                " needs the column that names the person; ",
                Remedy("name it, as in vectorize(source, schema, person='id')"),
                field="person",
            )

    def vector(self, *, records_per_person: int | None = None) -> npt.NDArray[np.int64]:
        """The counts of all cells, shape (n,), the last attribute fastest; see `counts`.

        Args:
            records_per_person: as in `counts`.
        """
        return self.counts(*self.schema.names, records_per_person=records_per_person).ravel()

    def __repr__(self) -> str:
        person = "" if self.who is None else f", person={self.who.column!r}"
        if self.who is not None and self.who.unknown:
            person += f", person_unknown={list(self.who.unknown)!r}"
        return f"Data({self.kind}, {self.schema!r}{person})"


def vectorize(
    source: Any,
    schema: Schema,
    *,
    person: str | None = None,
    person_unknown: Iterable[Any] = (),
    format: FileFormat | None = None,
) -> Data:
    """A lazy handle on a table that counts its records in the cells of a schema.

    Args:
        source: the path, the folder or a glob of CSV, TSV, JSON Lines, Parquet, Feather or Excel files, or a
            list of these; a pandas or polars DataFrame, a LazyFrame, a pyarrow Table, RecordBatch or
            Dataset, a DuckDB relation, an Ibis table, or anything with the method ``__arrow_c_stream__``,
            such as a RecordBatchReader, which is read once, now. It must not change while in use. A
            column that files lack is taken from their folders, as in ``year=2026/part.parquet``.
        schema: the declared attributes; each must have the exact name of a column.
        person: the column that identifies the person, for tables in which a person may have several records.
            `measure` then keeps at most the plan's ``records_per_person`` records of each. Without it, that
            number is your promise about the table, which nothing checks.
        person_unknown: ids in that column that identify nobody, as in ``["unknown", 0]``. Their records are
            left out: an id shared by many people would count as one person with thousands of records.
        format: how files are written, as in ``FileFormat(separator=";", encoding="cp1252")``.

    Raises:
        DataError: if the source is of another kind, there is no such file, or a file
            lacks a column; only the headers of files are read for that.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"sex": ["F", "M", "F", None]})
        >>> vectorize(table, Schema(sex=("F", "M"))).vector()
        array([2, 1])
        >>> visits = pandas.DataFrame({"id": [7, 7, 7, 8], "sex": ["F", "F", "F", "M"]})
        >>> vectorize(visits, Schema(sex=("F", "M")), person="id").vector(records_per_person=2)
        array([2, 1])
    """
    if not isinstance(schema, Schema):
        raise DataError.must("schema", "be a Schema", given=type(schema))
    who = checked_person(person, person_unknown)
    if format is not None and not isinstance(format, FileFormat):
        raise DataError.must("format", 'be a FileFormat, as in FileFormat(separator=";")', given=type(format))
    declared = FileFormat() if format is None else format
    if isinstance(source, Data):
        _require_made_with(source, schema, person, who)
        return source
    return _handle(source, schema, who, declared)


def _handle(source: Any, schema: Schema, who: Person | None, declared: FileFormat) -> Data:
    """The handle of `vectorize` on whatever it is that holds the table."""
    columns = schema.names if who is None else (*schema.names, who.column)
    if are_files(source):
        files = withheld("looking for the files", lambda: TableFiles(files_named(source), declared))
        taken = withheld("opening the table", lambda: duckdb_scan.check_columns(files, columns))
        return Data(schema, "files", TableFiles(files, declared, taken), who, format=declared)
    if is_address(source):
        source = withheld("opening the table", lambda: opened_address(source))
    elif (lake := lake_of(source)) is not None:
        source = withheld("opening the table", lambda: opened_lake(source, lake, columns))
    if declared != FileFormat():
        raise DataError.must("format", "be given for files only", given=type(source))
    for base in type(source).__mro__:
        library = base.__module__.lstrip("_").partition(".")[0]
        if (library, base.__name__) in OPENERS:
            return _opened(source, library, base.__name__, schema, who)
    if hasattr(type(source), "__arrow_c_stream__"):
        table = withheld("opening the table", lambda: table_from_capsule(source, columns))
        return _opened(table, "pyarrow", "Table", schema, who)
    raise DataError.must("table", f"be {ACCEPTED}", given=type(source))


def _require_made_with(data: Data, schema: Schema, person: str | None, who: Person | None) -> None:
    """Return if a handle was made with this schema, and with this person where one is named.

    Raises:
        DataError: if it was made with others.
    """
    if data.schema != schema:
        raise DataError(
            f"this data was made with {data.schema!r}, not with {schema!r}",
            field="schema",
            given=data.schema,
            remedy="call vectorize() on the table itself with the schema of the plan",
        )
    if who not in (None, data.who):
        raise DataError(
            "this data was made with ",
            Argument("person", data.person),
            f", not {person!r}, or with other ids in ",
            Argument("person_unknown", is_subject=True),
            "; ",
            Remedy("call vectorize() on the table itself"),
            field="person",
            given=person,
        )


def _opened(source: Any, library: str, name: str, schema: Schema, who: Person | None) -> Data:
    table, is_held = withheld("opening the table", lambda: snapshot(source, library, name))
    opened = (OPENERS[library, name], table)
    if is_in_engine(opened):
        withheld("opening the table", lambda: ibis_scan.check_table(table, schema, who))
    return Data(schema, f"{library} {name}", opened, who, is_held)


def scanner(
    source: Any,
    schema: Schema,
    person: Person | None,
    records_per_person: int | None,
    *,
    n_scans: int,
    earliest_by: str | None = None,
) -> AbstractContextManager[Scan]:
    """A function that counts blocks of attributes in one scan; all scans see one version of the table."""
    if is_in_engine(source):
        return ibis_scan.scanner(
            source[1], schema, person, records_per_person, n_scans=n_scans, earliest_by=earliest_by
        )
    return duckdb_scan.scanner(
        source, schema, person, records_per_person, n_scans=n_scans, earliest_by=earliest_by
    )
