"""Scans of a table, by whichever engine holds it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from leastnoise.data import duckdb_scan as counting
from leastnoise.data import ibis_scan as engines
from leastnoise.data.people import Person
from leastnoise.data.snapshots import Scan
from leastnoise.data.sources import is_in_engine
from leastnoise.query import Schema


def scanner(
    source: Any, schema: Schema, person: Person | None, records_per_person: int | None, *, n_scans: int
) -> AbstractContextManager[Scan]:
    """A function that counts blocks of attributes in one scan; all scans see one version of the table."""
    if is_in_engine(source):
        return engines.scanner(source[1], schema, person, records_per_person, n_scans=n_scans)
    return counting.scanner(source, schema, person, records_per_person, n_scans=n_scans)


def check_source(source: Any, schema: Schema, person: Person | None) -> None:
    """Return if files or a table in an engine have each column once; only headers and types are read."""
    columns = schema.names if person is None else (*schema.names, person.column)
    if is_in_engine(source):
        engines.check_table(source[1], schema, person)
    elif isinstance(source, list):
        counting.check_columns(source, columns)
