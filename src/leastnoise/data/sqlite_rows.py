"""A table of an SQLite file: its values are read one by one, for its columns promise no type."""

# ruff: noqa: S608 - identifiers are quoted here.

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from leastnoise.data.columns import column_places
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.data.written_text import TEXT, text_columns

# The rows that are handed on at once.
_ROWS = 10_000


class SqliteTable(RawTable):
    """A table of an SQLite file, which is opened for reading only; one query sees one version of it."""

    kind = "leastnoise SqliteTable"

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name

    @property
    def columns(self) -> list[str]:
        """The names of its columns; none if there is no such table."""
        with self._opened() as engine:
            return [row[1] for row in engine.execute(f"PRAGMA table_xinfo({_quoted(self.name)})").fetchall()]

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        return [(TEXT,) for _ in column_places(self.columns, names)]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        columns = self.columns
        chosen = ", ".join(_quoted(columns[place]) for place in column_places(columns, names))
        with self._opened() as engine:
            found = engine.execute(f"SELECT {chosen} FROM {_quoted(self.name)}")
            while rows := found.fetchmany(_ROWS):
                # A blob is no text.
                plain = [[None if isinstance(value, bytes) else value for value in row] for row in rows]
                yield text_columns(plain, marks)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # Batches may be asked for by another thread than the first.
        engine = sqlite3.connect(f"file:{quote(self.path)}?mode=ro", uri=True, check_same_thread=False)
        # Text that is not UTF-8 must not stop it.
        engine.text_factory = _text
        try:
            yield engine
        finally:
            engine.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(stored: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return stored.decode()
    return None
