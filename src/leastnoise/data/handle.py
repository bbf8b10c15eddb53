"""`vectorize` and the lazy handle it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError, TooLargeError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.operators import MAX_ENTRIES
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.data.columns import check_types, decimal_mark
from leastnoise.data.connections import withheld
from leastnoise.data.counting import MAX_HELD_CELLS, CountedTables, Question, check_held, placed_batches
from leastnoise.data.file_names import FileFormat
from leastnoise.data.limiting import limited
from leastnoise.data.people import Person, checked_person
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.data.scan_progress import ScanProgress, ScanWatch
from leastnoise.data.sources import opened_table
from leastnoise.data.spark import SparkTable
from leastnoise.data.table_cover import Subset, covering_blocks, n_cells
from leastnoise.query import AnyClasses, Schema


@dataclass(frozen=True, eq=False)
class Data(NotebookValue):
    """A table and its schema: a handle that counts on demand and shows no values.

    Attributes:
        schema: the declared attributes.
        kind: where the records are.
        table: what hands over their raw columns.
        who: the column that identifies the person, and the ids in it that identify nobody; None without one.
        is_held: whether the records are in memory and cannot change while this handle exists.
        format: how its files are written, where it is read from files.
    """

    _unlisted = unlisted("counted batches table")

    schema: Schema
    kind: str
    table: RawTable = field(repr=False)
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
        """The counts of many cross tables, from one reading of the table.

        Small tables are counted together as sums of larger ones.

        Args:
            subsets: the attributes of each table, as in ``[("age", "sex"), ("age",), ()]``;
                ``()`` asks for the number of records in the schema's cells.
            records_per_person: as in `counts`.
            progress: called with a `ScanProgress` about twice a second meanwhile; an exception that it raises
                ends the count.

        Guarantee:
            That of `counts`, for each table; and every table is a sum of the same cells of
            the same records, so that any two agree wherever they overlap.

        Raises:
            SchemaError: if the schema declares no such attribute.
            DataError: if a table is not named by attributes, each once, the source cannot
                be read, or ``records_per_person`` is asked of data
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
        asked = [self._checked_subset(subset) for subset in subsets]
        self._check_size(asked)
        return self.counted(asked, records_per_person=records_per_person, progress=progress).tables

    def counted(
        self,
        subsets: Iterable[Iterable[str]],
        left_out_by: Sequence[str] = (),
        *,
        records_per_person: int | None = None,
        earliest_by: str | None = None,
        classes: AnyClasses | None = None,
        progress: Callable[[ScanProgress], object] | None = None,
    ) -> CountedTables:
        """What `tables` gives, held together, and the number of records in no cell: true, to be kept secret.

        The table is read once, however many tables are asked for.

        Args:
            subsets, records_per_person, progress: as in `tables`.
            left_out_by: attributes for which to count, too, how many of these records each leaves out.
            earliest_by: the time attribute, to keep the earliest records of each person: in the order of its
                values, and in hash order within each.
            classes: classes of cells whose records are counted, too; a record is in one of them or none.

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
        flags = self._checked_subset(left_out_by)
        check_held([n_cells(subset, self.schema) for subset in asked])
        if records_per_person is not None:
            self._check_truncation(records_per_person)
        if earliest_by is not None:
            self._checked_subset([earliest_by])
        person = None if records_per_person is None else self.who
        # Without a table, only the records in no cell are counted.
        blocks = tuple(covering_blocks(asked, self.schema))
        question = Question(self.schema, blocks, flags, person, records_per_person, earliest_by, classes)
        found = CountedTables(asked, question)
        watch = ScanWatch(progress)
        watch.stop = self.table.stop
        watch.run(lambda: withheld("counting the table", lambda: self._read(question, found, watch)))
        return found

    def _read(self, question: Question, found: CountedTables, watch: ScanWatch) -> None:
        """Count the table: here, or where its parts are."""
        if isinstance(self.table, SparkTable) and sum(question.sizes) <= MAX_HELD_CELLS:
            found.hold(self.table.tally(question))
            return
        records = placed_batches(self.batches(question, watch, DroppedRecords()), question)
        found.add(records if question.limit is None else limited(records, question))

    def batches(self, question: Question, watch: ScanWatch, dropped: DroppedRecords) -> Iterator[list[Any]]:
        """The raw columns of a question, some records at a time, until somebody stops the count.

        Args:
            question: what is counted.
            watch: who may stop it.
            dropped: where to count what is no record.
        """
        marks = [decimal_mark(self.schema[name]) for name in self.schema]
        marks += [] if question.person is None else ["."]
        for columns in self.table.batches(question.columns, marks, dropped):
            watch.check()
            yield columns

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
        """Refuse what would not fit."""
        sizes = [n_cells(subset, self.schema) for subset in asked]
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
    table = opened_table(source, columns, declared)
    check_types(schema, who, withheld("opening the table", lambda: table.types(columns)))
    return Data(schema, table.kind, table, who, table.is_held, declared)


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
