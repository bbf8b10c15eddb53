"""One question: from values to cells, in the engine."""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from leastnoise.data.sources import Part, column_types, file_parts
from leastnoise.errors import DataError, MissingExtraError
from leastnoise.schema import Attribute, Bins, Categories, IntegerRange, Schema

# The engine of one question: no files but the table's, no extensions, nothing
# spilled to disk, and object columns of pandas as text instead of a guess from
# their first values. Joins keep the declared values, never the table, in memory.
_SETTINGS = (
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "enable_progress_bar=false",
    "temp_directory=''",
    "pandas_analyze_sample=0",
    "disabled_optimizers='join_order,build_side_probe_side'",
    "enable_external_access=false",
    "lock_configuration=true",
)

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_WHOLE_TEXT = r"[+-]?[0-9]+([.]0*)?"
_EXPONENT_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)[eE][+-]?[0-9]+"
_NUMBER_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"


def ask(source: Any, schema: Schema, asked: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The indices of the cells that hold records, and how many each holds."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("counting a table needs DuckDB; type: pip install duckdb") from None
    names = schema.names
    with duckdb.connect(":memory:") as engine:
        engine.execute("SET allowed_paths = $files", {"files": source if isinstance(source, list) else []})
        for setting in _SETTINGS:
            engine.execute(f"SET {setting}")
        if isinstance(source, list):
            parts = file_parts(engine, source, names)
        else:
            opener, table = source
            engine.register("source", opener(table, names))
            parts = [Part("source", [], column_types(engine, "source"))]
        parameters: dict[str, Any] = {f"files{p}": part.files for p, part in enumerate(parts) if part.files}
        selected = []
        for part in parts:
            pairs = list(enumerate(zip(names, part.columns, strict=True)))
            values = [f"{_value(schema[name], *column)} AS v{k}" for k, (name, column) in pairs]
            present = [f"{_present(*column)} AS p{k}" for k, (_, column) in pairs]
            selected.append(f"SELECT {', '.join(values + present)} FROM {part.table}")
        query = " UNION ALL ".join(selected)
        for k, name in enumerate(names):
            query = _placed(engine, schema[name], k, query, parameters)
        cell, size = "0", 1
        for name in reversed(asked):
            cell = f"i{names.index(name)} * {size}::BIGINT + {cell}"
            size *= schema[name].size
        is_placed = " AND ".join(f"i{k} IS NOT NULL" for k in range(len(names)))
        query = f"SELECT {cell} AS cell, count(*) AS n FROM ({query}) WHERE {is_placed} GROUP BY cell"
        answer = engine.execute(query, parameters).fetchnumpy()
    return answer["cell"], answer["n"]


def _engine_type(attribute: Attribute) -> str:
    """The engine's type for the values of an attribute; integers leave room for a difference of two."""
    if isinstance(attribute, Bins):
        return "DOUBLE"
    values = attribute.values
    if isinstance(values[0], str):
        return "VARCHAR"
    ends = (values[0], values[-1]) if isinstance(values, range) else values
    bound = max(abs(int(end)) for end in ends)
    if bound >= 2**125:
        raise DataError("whole numbers in a schema must be below 2^125 to be counted in a table")
    return "BIGINT" if bound < 2**62 else "HUGEINT"


def _present(column: str, kind: str) -> str:
    """SQL that tells whether a column holds a value: neither null nor NaN."""
    return f"({column} IS NOT NULL" + (f" AND NOT isnan({column}))" if kind in _FLOATS else ")")


def _value(attribute: Attribute, column: str, kind: str) -> str:
    """SQL for a column's value in the type of the attribute; null where it has none."""
    text, wanted = f"CAST({column} AS VARCHAR)", _engine_type(attribute)
    if wanted == "VARCHAR":
        return f"CASE WHEN {_present(column, kind)} THEN {text} END"
    if wanted == "DOUBLE":
        # Wide integers and decimals go through text, which the engine rounds correctly.
        if kind in _INTEGERS | _FLOATS:
            return f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN regexp_full_match({text}, '{_NUMBER_TEXT}') THEN TRY_CAST({text} AS DOUBLE) END"
    if kind in _INTEGERS:
        return f"TRY_CAST({column} AS {wanted})"
    # A cast of 1.5 to an integer would round; NaN is above every bound for the engine.
    limit = f"2::DOUBLE ** {62 if wanted == 'BIGINT' else 125}"
    whole = "CASE WHEN {0} = trunc({0}) AND abs({0}) < {1} THEN TRY_CAST({0} AS {2}) END"
    if kind in _FLOATS:
        return whole.format(f"CAST({column} AS DOUBLE)", limit, wanted)
    return (
        f"CASE WHEN regexp_full_match({text}, '{_WHOLE_TEXT}') "
        f"THEN TRY_CAST(split_part({text}, '.', 1) AS {wanted}) "
        f"WHEN regexp_full_match({text}, '{_EXPONENT_TEXT}') "
        f"THEN {whole.format(f'TRY_CAST({text} AS DOUBLE)', limit, wanted)} END"
    )


def _placed(engine: Any, attribute: Attribute, k: int, query: str, parameters: dict[str, Any]) -> str:
    """The query with one more column ``i{k}``: the index of value ``v{k}``, or null."""
    if isinstance(attribute, Categories):
        declared = f"SELECT unnest($texts::VARCHAR[])::{_engine_type(attribute)} AS value"
        engine.execute(
            f"CREATE TEMP TABLE declared{k} AS {declared}, unnest(range(len($texts))) AS i",
            {"texts": [str(value) for value in attribute.values]},
        )
        other = "NULL" if attribute.other is None else f"CASE WHEN p{k} THEN {len(attribute.values)} END"
        index = f"coalesce(declared{k}.i, {other})"
        return (
            f"SELECT t.*, {index} AS i{k} FROM ({query}) t LEFT JOIN declared{k} ON v{k} = declared{k}.value"
        )
    if isinstance(attribute, IntegerRange):
        values = attribute.values
        parameters |= {f"low{k}": values[0], f"high{k}": values[-1], f"step{k}": values.step}
        # Cut to the range first, so that the difference cannot overflow.
        inside = f"CASE WHEN v{k} BETWEEN $low{k} AND $high{k} THEN v{k} END"
        query = f"SELECT * REPLACE ({inside} AS v{k}) FROM ({query})"
        index = f"CASE WHEN (v{k} - $low{k}) % $step{k} = 0 THEN (v{k} - $low{k}) // $step{k} END"
        return f"SELECT *, CAST({index} AS BIGINT) AS i{k} FROM ({query})"
    # Binary search, one projection per bit: 1,000 bins over 10 million rows take
    # 1.1 s on two cores, where a tree of CASE took 17 s and an ASOF join sorts the table.
    edges = [_least_float(edge) for edge in attribute.edges]
    n_bits = (attribute.size - 1).bit_length()
    padding = [math.inf] * (2**n_bits - attribute.size)
    parameters |= {f"edges{k}": edges[:-1] + padding, f"end{k}": edges[-1]}
    inside = f"CASE WHEN v{k} >= $edges{k}[1] AND v{k} < $end{k} THEN 0::BIGINT END"
    query = f"SELECT *, {inside} AS i{k} FROM ({query})"
    for step in (2**bit for bit in reversed(range(n_bits))):
        further = f"CASE WHEN v{k} >= $edges{k}[i{k} + {step + 1}] THEN {step} ELSE 0 END"
        query = f"SELECT * REPLACE (i{k} + {further} AS i{k}) FROM ({query})"
    return query


def _least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
