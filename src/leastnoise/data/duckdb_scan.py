"""One scan by the embedded engine: from values to cells, and how many records each cell holds."""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError
from leastnoise.core.extras import require
from leastnoise.data.columns import check_kind
from leastnoise.data.connections import STATISTICS
from leastnoise.data.duckdb_cleaning import code, folded, is_null_word, is_text, read_text, with_synonyms
from leastnoise.data.duckdb_counts import Counting, counted
from leastnoise.data.duckdb_dates import day_sql
from leastnoise.data.file_format import FolderValues
from leastnoise.data.people import WHOLE_BELOW, WHOLE_FLOAT_TEXT, Person
from leastnoise.data.placement import CleaningRule, Edges, OneOf, Placement, Steps, decimal_mark, placement_of
from leastnoise.data.scan_progress import ScanWatch
from leastnoise.data.snapshots import CHANGED, Scan, digest_of_files
from leastnoise.data.sources import TablePart, check_files, column_types, file_parts
from leastnoise.data.table_cover import Block
from leastnoise.data.text_records import CsvFiles
from leastnoise.query import EXPONENT_TEXT, NUMBER_TEXT, WHOLE_TEXT, Schema

# The engine of one question: no files but the table's, no extensions, and object columns of pandas as text
# instead of a guess from their first values. Joins keep the declared values, never the table, in memory.
# Statistics of a table are never used: those of a Parquet file leave NaN out, and a comparison that they make
# superfluous was dropped, so that one record out of range moved all NaN records from one cell to another.
_SETTINGS = (
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "enable_progress_bar=false",
    "pandas_analyze_sample=0",
    f"disabled_optimizers='join_order,build_side_probe_side,{STATISTICS}'",
    "enable_external_access=false",
    "lock_configuration=true",
)

# What the engine may hold in memory while it limits the records of each person; the rest is written into a
# private folder that goes with the question. Two million records of twenty attributes took a peak of
# 0.92 GiB before, and 0.43 now.
PERSON_MEMORY = "512MB"

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
# Beyond every declared number and every difference of two, yet within 128 bits.
_HUGE = f"{2**126}::HUGEINT"


@contextmanager
def scanner(
    source: Any,
    schema: Schema,
    person: Person | None,
    records_per_person: int | None,
    *,
    n_scans: int,
    earliest_by: str | None = None,
    counting: Counting | None = None,
) -> Iterator[Scan]:
    """A function that counts blocks of attributes in one scan of a table, up to `n_scans` times.

    Args:
        counting: what counts the blocks of one scan; `counted` by default.

    Guarantee:
        All scans see the same version of the table. Files are read again by each: where their bytes have
        changed in between, the count ends with a `DataError`. Anything else that may change is read
        once and held in the engine.
    """
    count = counted if counting is None else counting
    who = None if records_per_person is None else person
    # With a person, the records that count are read once and held; else files are read again by every scan.
    is_again = n_scans > 1 and who is None
    before = digest_of_files(source) if isinstance(source, list) and is_again else None
    is_read_once = not isinstance(source, list) and is_again
    spill = nullcontext() if who is None else _private_folder()
    with (
        spill as folder,
        opened(source, schema, who, is_read_once=is_read_once, spill=folder) as (
            engine,
            query,
            parameters,
            _,
        ),
    ):
        query = _coded(with_cells(engine, schema, query, parameters), schema, who)
        if who is None:
            yield lambda blocks, watch: count(engine, query, parameters, schema, blocks, watch)
        else:
            parameters["most"] = min(records_per_person or 0, 2**62)
            time = None if earliest_by is None else schema.names.index(earliest_by)
            held = f"CREATE TEMP TABLE kept AS {_truncated(query, len(schema.names), time)}"
            is_held: list[bool] = []

            def scan(blocks: Sequence[Block], watch: ScanWatch) -> list[npt.NDArray[np.int64]]:
                if not is_held:
                    watch.attach(stop=engine.interrupt)
                    engine.execute(held, parameters)
                    is_held.append(True)
                return count(engine, "SELECT * FROM kept", {}, schema, blocks, watch)

            yield scan
    if before is not None and digest_of_files(source) != before:
        raise DataError(CHANGED, field="table")


def _coded(query: str, schema: Schema, person: Person | None) -> str:
    """The query with the cells as narrow whole numbers, ``rest`` for `cell_number`, and ``who``, alone."""
    columns = []
    for k, name in enumerate(schema.names):
        size = schema[name].size
        kind = "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"
        columns.append(f"CAST(i{k} AS {kind}) AS i{k}")
    is_placed = " AND ".join(f"i{k} IS NOT NULL" for k in range(len(schema.names)))
    columns.append(f"CAST(CASE WHEN {is_placed} THEN 0 ELSE 1 END AS UTINYINT) AS rest")
    return f"SELECT {', '.join(columns)}{'' if person is None else ', who'} FROM ({query})"


@contextmanager
def _private_folder() -> Iterator[str]:
    """A folder that only this user may look into, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="leastnoise-") as folder:
        yield folder


class OpenedTable(NamedTuple):
    """An engine, a query for the records as the schema reads them, its parameters, and the CSV files."""

    engine: Any
    query: str
    parameters: dict[str, Any]
    texts: CsvFiles


@contextmanager
def opened(
    source: Any,
    schema: Schema,
    person: Person | None,
    *,
    as_written: bool = False,
    is_read_once: bool = False,
    spill: str | None = None,
) -> Iterator[OpenedTable]:
    """A table, opened for queries.

    The query has columns v0, v1, … with values of the attributes' types, null where a record has none that
    can be read so, p0, p1, … which tell whether there is any value, and ``who``, with a person.

    Args:
        as_written: with columns t0, t1, … too, the values as text.
        is_read_once: whether a table that is no file is copied into the engine, so that all queries see the
            same version of it.
        spill: a folder for what does not fit into PERSON_MEMORY; None lets nothing be written.
    """
    names = schema.names
    rules = [placement_of(schema[name]) for name in names]
    columns = names if person is None else (*names, person.column)
    with _engine(source, spill) as engine:
        parts, texts = _parts(engine, source, columns, list(map(decimal_mark, rules)), is_read_once)
        parameters: dict[str, Any] = {f"files{p}": part.files for p, part in enumerate(parts) if part.files}
        selected = []
        for part in parts:
            read = [(_checked(*column), column[1]) for column in part.columns]
            part = part._replace(columns=part.columns if part.table == "texts" else read)
            for name, rule, (_, kind) in zip(names, rules, part.columns, strict=False):
                has_zone = rule.dates is not None and rule.dates.offsets is not None
                check_kind(name, rule.kind, _family(kind), has_zone=has_zone)
            pairs = list(enumerate(zip(rules, part.columns, strict=False)))
            # Nothing that touches a value may throw: whether it does would tell about a record.
            values = [f"TRY({_value(rule, *column)}) AS v{k}" for k, (rule, column) in pairs]
            present = [f"{_is_there(rule, *column)} AS p{k}" for k, (rule, column) in pairs]
            written = [f"CAST({column} AS VARCHAR) AS t{k}" for k, (_, (column, _)) in pairs]
            who = []
            if person is not None:
                check_kind(person.column, None, _family(part.columns[-1][1]))
                who = [f"{_person(*part.columns[-1])} AS who"]
                parameters["unknown"] = list(person.unknown)
            chosen = [*values, *present, *(written if as_written else []), *who]
            selected.append(f"SELECT {', '.join(chosen)} FROM {part.table}")
        try:
            yield OpenedTable(engine, " UNION ALL ".join(selected), parameters, texts)
        except Exception:
            # The engine knows only that a stream has failed.
            if texts.stream.failure is not None:
                raise texts.stream.failure from None
            raise


def _parts(
    engine: Any, source: Any, columns: Sequence[str], marks: list[str], is_read_once: bool
) -> tuple[list[TablePart], CsvFiles]:
    """The parts of a table, which the engine now knows, and its files of text."""
    if isinstance(source, list):
        return file_parts(engine, source, columns, marks)
    opener, table = source
    engine.register("source", opener(table, columns, marks))
    name = "source"
    if is_read_once:
        name = "held"
        engine.execute("CREATE TEMP TABLE held AS SELECT * FROM source")
    return [TablePart(name, [], column_types(engine, name))], CsvFiles([], columns)


def _checked(column: str, kind: str) -> str:
    """SQL for a column of text without what is not UTF-8, which files and Arrow may hold: null."""
    return f"TRY(decode(encode({column})))" if kind == "VARCHAR" else column


def check_columns(files: list[str], columns: Sequence[str]) -> dict[str, FolderValues]:
    """Look for each of these columns in every file; returned is what folders give, see `check_files`."""
    with _engine(files) as engine:
        return check_files(engine, files, columns)


@contextmanager
def _engine(source: Any, spill: str | None = None) -> Iterator[Any]:
    """An engine that may open the files of a source and nothing else, but for a folder to spill into."""
    duckdb = require("duckdb", extra=None, why="counting a table")
    with duckdb.connect(":memory:") as engine:
        engine.execute(
            "SET allowed_paths = $files", {"files": list(source) if isinstance(source, list) else []}
        )
        if spill is None:
            engine.execute("SET temp_directory = ''")
        else:
            engine.execute("SET temp_directory = $folder", {"folder": spill})
            engine.execute(f"SET memory_limit = '{PERSON_MEMORY}'")
        for setting in _SETTINGS:
            engine.execute(f"SET {setting}")
        yield engine


def _truncated(query: str, n_attributes: int, time: int | None = None) -> str:
    """The query with at most ``$most`` records of each person, the earliest ones where one attribute is time.

    Guarantee:
        Which of a person's records stay depends on that person's records alone: those
        in a cell come first, all in the order of a fixed hash of person and cell, and
        records that tie have the same cell, or none in the same attributes. So one
        person more or less changes the counts by at most ``$most`` in all, "no cell"
        included, and those that no cell takes never displace one that has a cell.
        With time, the order of its values comes before the hash: a record never
        displaces one of an earlier period.
    """
    cell = "concat_ws(',', " + ", ".join(f"coalesce(i{k}::BIGINT, -1)" for k in range(n_attributes)) + ")"
    period = "" if time is None else f"i{time}, "
    order = f"rest, {period}md5(concat_ws(',', who, {cell})), {cell}"
    rank = f"row_number() OVER (PARTITION BY who ORDER BY {order})"
    ranked = f"SELECT *, {rank} AS nth FROM ({query}) WHERE who IS NOT NULL"
    return f"SELECT * EXCLUDE (who, nth) FROM ({ranked}) WHERE nth <= $most"


def _engine_type(rule: Placement) -> str:
    """The engine's type for the values of an attribute; integers leave room for a difference of two."""
    if rule.kind != "whole":
        return {"text": "VARCHAR", "number": "DOUBLE", "day": "BIGINT"}[rule.kind]
    search = rule.search
    assert not isinstance(search, Edges)
    numbers = search.values if isinstance(search, OneOf) else (search.low, search.high)
    bound = max(abs(int(number)) for number in numbers)
    if bound >= 2**125:
        raise DataError.must(
            "range", "hold whole numbers below 2^125 to be counted in a table", given="2^125 or more"
        )
    return "BIGINT" if bound < 2**62 else "HUGEINT"


def _present(column: str, kind: str) -> str:
    """SQL that tells whether a column holds a value: neither null nor NaN."""
    return f"({column} IS NOT NULL" + (f" AND NOT isnan({column}))" if kind in _FLOATS else ")")


def _is_there(rule: Placement, column: str, kind: str) -> str:
    """SQL that tells whether a column holds a value that does not mean that there is none."""
    if rule.clean is None:
        return _present(column, kind)
    is_null = is_null_word(rule.clean, _compared_text(rule.clean, column, kind), kind)
    return f"({_present(column, kind)} AND NOT {is_null})"


def _compared_text(clean: CleaningRule, column: str, kind: str) -> str:
    """SQL for a value as text, as words of cleaning are compared with it; null if there is none."""
    text = f"CAST({column} AS VARCHAR)" if is_text(kind) else _written_out(column, kind)
    return folded(clean, text)


def _value(rule: Placement, column: str, kind: str) -> str:
    """SQL for a column's value in the type of the attribute, cleaned; null where it has none."""
    if rule.clean is None:
        return _read(rule, column, kind)
    compared = _compared_text(rule.clean, column, kind)
    value = _read(rule, column, kind)
    if is_text(kind):
        value = _read(rule, f"({read_text(rule.clean, f'CAST({column} AS VARCHAR)', rule.kind)})", "VARCHAR")
    elif rule.kind == "text":
        value = code(rule.clean, compared)
    return with_synonyms(rule.clean, compared, value, _engine_type(rule))


def _read(rule: Placement, column: str, kind: str) -> str:
    """SQL for a column's value in the type of the attribute; null where it has none."""
    if rule.dates is not None:
        return day_sql(rule.dates, column, kind)
    text, wanted = f"CAST({column} AS VARCHAR)", _engine_type(rule)
    if wanted == "VARCHAR":
        return _written_out(column, kind)
    if wanted == "DOUBLE":
        # Wide integers and decimals go through text, which the engine rounds correctly.
        if kind in _INTEGERS | _FLOATS:
            return f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN regexp_full_match({text}, '{NUMBER_TEXT}') THEN TRY_CAST({text} AS DOUBLE) END"
    # Where numbers are clamped, one too large for the type still counts, at an end.
    beyond = "NULL"
    if isinstance(rule.search, Steps) and rule.search.is_clamped:
        wanted, beyond = "HUGEINT", f"CASE WHEN {{}} THEN -{_HUGE} ELSE {_HUGE} END"
    if kind in _INTEGERS:
        return f"TRY_CAST({column} AS {wanted})"
    if kind in _FLOATS:
        return _whole(f"CAST({column} AS DOUBLE)", wanted, beyond)
    # A number that is written back as the same text needs no pattern: a scan takes a tenth less time so.
    number = f"TRY_CAST({text} AS {wanted})"
    digits = f"TRY_CAST(split_part({text}, '.', 1) AS {wanted})"
    is_negative = f"starts_with({text}, '-')"
    return (
        f"CASE WHEN CAST({number} AS VARCHAR) = {text} THEN {number} "
        f"WHEN regexp_full_match({text}, '{WHOLE_TEXT}') "
        f"THEN coalesce({digits}, {beyond.format(is_negative)}) "
        f"WHEN regexp_full_match({text}, '{EXPONENT_TEXT}') "
        f"THEN {_whole(f'TRY_CAST({text} AS DOUBLE)', wanted, beyond)} END"
    )


def _whole(number: str, wanted: str, beyond: str) -> str:
    """SQL for a float as a whole number; null if it is none."""
    # A cast of 1.5 to an integer would round; NaN is above every bound for the engine.
    limit = f"2::DOUBLE ** {62 if wanted == 'BIGINT' else 125}"
    return (
        f"CASE WHEN {number} = trunc({number}) AND abs({number}) < 'inf'::DOUBLE THEN "
        f"CASE WHEN abs({number}) < {limit} THEN TRY_CAST({number} AS {wanted}) "
        f"ELSE {beyond.format(f'{number} < 0')} END END"
    )


def _written_out(column: str, kind: str) -> str:
    """SQL for a value as text, as categories compare it; null if there is none.

    Guarantee:
        7.0 is "7": other programs make a column of whole numbers into one of floats as
        soon as one record has none, and that must not change how the others count.
    """
    text = f"CAST({column} AS VARCHAR)"
    if kind in _FLOATS:
        is_whole = f"{column} = trunc({column}) AND abs({column}) < 2::DOUBLE ** 53"
        # NaN is a whole number to this comparison where both branches are computed for all records.
        text = f"CASE WHEN {is_whole} THEN CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR) ELSE {text} END"
    return f"CASE WHEN {_present(column, kind)} THEN {text} END"


def _person(column: str, kind: str) -> str:
    """SQL for whose record it is, as text; null if nobody's. See `leastnoise.data.people`."""
    text = f"CAST({column} AS VARCHAR)"
    if kind in _FLOATS:
        x = f"CAST({column} AS DOUBLE)"
        limit = WHOLE_BELOW["float32" if kind == "FLOAT" else "float64"]
        # By way of integers, where minus zero is zero.
        is_exact = f"{x} = trunc({x}) AND abs({x}) < {float(limit)!r}"
        text = f"CASE WHEN {is_exact} THEN CAST(TRY_CAST({x} AS BIGINT) AS VARCHAR) END"
    elif kind.startswith("DECIMAL"):
        text = f"CASE WHEN {column} = trunc({column}) THEN CAST(trunc({column}) AS VARCHAR) ELSE {text} END"
    elif kind not in _INTEGERS:
        is_whole = f"regexp_full_match({text}, '{WHOLE_FLOAT_TEXT}')"
        text = f"CASE WHEN {is_whole} THEN left({text}, -2) ELSE {text} END"
    is_known = f"{_present(column, kind)} AND NOT list_contains($unknown::VARCHAR[], {text})"
    return f"CASE WHEN {is_known} THEN {text} END"


def _family(kind: str) -> str:
    """The family of an engine's type, as `check_kind` knows it."""
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
        return "nested"
    if kind in ("BLOB", "BIT", "INTERVAL") or kind.startswith("GEOMETRY"):
        return "bytes"
    if kind == "TIMESTAMP WITH TIME ZONE":
        return "zoned"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return "date"
    return "time" if kind.startswith("TIME") else "plain"


def with_cells(engine: Any, schema: Schema, query: str, parameters: dict[str, Any], first: int = 0) -> str:
    """The query with the cell of every attribute by its policies, or null, as columns from i{first} on."""
    for k, name in enumerate(schema, start=first):
        query = _placed(engine, placement_of(schema[name]), k, query, parameters)
    return query


def _placed(engine: Any, rule: Placement, k: int, query: str, parameters: dict[str, Any]) -> str:
    """The query with one more column ``i{k}``: the cell of value ``v{k}``, or null."""
    query = with_index(engine, rule, k, query, parameters)
    outside, null = ("NULL" if cell is None else str(cell) for cell in (rule.outside, rule.null))
    index = f"CASE WHEN p{k} THEN coalesce(i{k}, {outside}::BIGINT) ELSE {null}::BIGINT END"
    return f"SELECT * REPLACE ({index} AS i{k}) FROM ({query})"


def with_index(engine: Any, rule: Placement, k: int, query: str, parameters: dict[str, Any]) -> str:
    """The query with one more column ``i{k}``: the index of ``v{k}`` among the declared values, or null."""
    if isinstance(rule.search, Edges):
        return _in_bins(rule.search, k, query, parameters)
    if isinstance(rule.search, Steps):
        return _in_steps(rule.search, k, query, parameters)
    return _in_list(engine, rule.search, _engine_type(rule), k, query)


def _in_list(engine: Any, search: OneOf, kind: str, k: int, query: str) -> str:
    declared = f"SELECT unnest($texts::VARCHAR[])::{kind} AS value"
    engine.execute(
        f"CREATE TEMP TABLE declared{k} AS {declared}, unnest(range(len($texts))) AS i",
        {"texts": [str(value) for value in search.values]},
    )
    joined = f"({query}) t LEFT JOIN declared{k} ON v{k} = declared{k}.value"
    return f"SELECT t.*, declared{k}.i AS i{k} FROM {joined}"


def _in_steps(search: Steps, k: int, query: str, parameters: dict[str, Any]) -> str:
    parameters |= {f"low{k}": search.low, f"high{k}": search.high, f"step{k}": search.step}
    if search.is_floored:
        parameters[f"high{k}"] = search.high + search.step - 1
    # Cut to the range first, so that the difference cannot overflow.
    if search.is_clamped:
        inside = f"CASE WHEN v{k} < $low{k} THEN $low{k} WHEN v{k} > $high{k} THEN $high{k} ELSE v{k} END"
    else:
        inside = f"CASE WHEN v{k} BETWEEN $low{k} AND $high{k} THEN v{k} END"
    query = f"SELECT * REPLACE ({inside} AS v{k}) FROM ({query})"
    index = f"(v{k} - $low{k}) // $step{k}"
    if not search.is_floored:
        index = f"CASE WHEN (v{k} - $low{k}) % $step{k} = 0 THEN {index} END"
    return f"SELECT *, CAST({index} AS BIGINT) AS i{k} FROM ({query})"


def _in_bins(search: Edges, k: int, query: str, parameters: dict[str, Any]) -> str:
    # Binary search, one projection per bit: 1,000 bins over 10 million rows take
    # 1.1 s on two cores, where a tree of CASE took 17 s and an ASOF join sorts the table.
    edges = search.edges
    n_bits = (search.n_bins - 1).bit_length()
    if n_bits:
        # No number reaches a NaN, not even infinity.
        padding = [math.nan] * (2**n_bits - search.n_bins)
        parameters[f"edges{k}"] = [*edges[:-1], *padding]
    if search.is_clamped:
        # The search leaves what is below every edge in the first bin, and what is above in the last.
        inside = f"v{k} IS NOT NULL"
    else:
        parameters |= {f"start{k}": edges[0], f"end{k}": edges[-1]}
        inside = f"v{k} >= $start{k} AND v{k} {'<=' if search.is_end_inside else '<'} $end{k}"
    query = f"SELECT *, CASE WHEN {inside} THEN 0::BIGINT END AS i{k} FROM ({query})"
    for step in (2**bit for bit in reversed(range(n_bits))):
        further = f"CASE WHEN v{k} >= $edges{k}[i{k} + {step + 1}] THEN {step} ELSE 0 END"
        query = f"SELECT * REPLACE (i{k} + {further} AS i{k}) FROM ({query})"
    return query
