"""A table of an SQLite file: its values are read one by one, for its columns promise no type."""

# ruff: noqa: S608 - identifiers are quoted here.

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from leastnoise.data.arrow_stream import TextStream
from leastnoise.data.columns import column_places
from leastnoise.data.csv_blocks import TextColumn
from leastnoise.data.text_records import text_columns

# The rows that are handed on at once.
_ROWS = 10_000


class SqliteTable(NamedTuple):
    """A table of an SQLite file, which is opened for reading only."""

    path: str
    name: str

    @property
    def columns(self) -> list[str]:
        """The names of its columns; none if there is no such table."""
        with self._opened() as engine:
            return [row[1] for row in engine.execute(f"PRAGMA table_xinfo({_quoted(self.name)})").fetchall()]

    def stream(self, names: Sequence[str], marks: Sequence[str]) -> TextStream:
        """The named columns as text, from one query, which sees one version."""
        return TextStream(len(names), lambda: self._blocks(names, marks))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # The embedded engine reads by a thread of its own, and by one at a time.
        engine = sqlite3.connect(f"file:{quote(self.path)}?mode=ro", uri=True, check_same_thread=False)
        # Text that is not UTF-8 must not stop it.
        engine.text_factory = _text
        try:
            yield engine
        finally:
            engine.close()

    def _blocks(self, names: Sequence[str], marks: Sequence[str]) -> Generator[list[TextColumn], None, None]:
        columns = self.columns
        chosen = ", ".join(_quoted(columns[place]) for place in column_places(columns, names))
        with self._opened() as engine:
            found = engine.execute(f"SELECT {chosen} FROM {_quoted(self.name)}")
            while rows := found.fetchmany(_ROWS):
                # A blob is no text.
                plain = [[None if isinstance(value, bytes) else value for value in row] for row in rows]
                yield text_columns(plain, marks)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(stored: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return stored.decode()
    return None


def open_sqlite(table: SqliteTable, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    """What the embedded engine reads of a table."""
    column_places(table.columns, names)
    return table.stream(names, [*marks, *["."] * (len(names) - len(marks))])
