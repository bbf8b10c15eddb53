"""What tables of Ibis share on every engine: columns by name, each read once, and connections made again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.columns import column_places
from leastnoise.data.connections import asked_of, read_from
from leastnoise.data.raw_table import DroppedRecords, RawTable

# A type that stands for all of lists and records: no schema means them.
NESTED = pa.list_(pa.null())


class IbisTable(RawTable):
    """A table or an expression of Ibis.

    Attributes:
        backend: its connection.
    """

    kind = "ibis Table"

    def __init__(self, table: Any) -> None:
        self._table = table
        self.backend = table.get_backend()

    @abstractmethod
    def _types(self, names: Sequence[str]) -> list[Any]:
        """The Arrow type of each of some different columns."""

    @abstractmethod
    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """What `batches` yields, of different columns."""

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`; the engine is asked for its types, and for no record."""
        kinds, once = self._table.schema(), self._once(names)
        found = dict(zip(once, asked_of(self.backend, lambda: self._types(once)), strict=True))
        # Ibis hands out JSON as text.
        return [(NESTED if kinds[name].is_json() else found[name],) for name in names]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`; the connection must not be used for anything else meanwhile."""
        once = self._once(names)
        places = [once.index(name) for name in names]
        own = dict(reversed(list(zip(names, marks, strict=False))))
        marks = [own.get(name, ".") for name in once]
        for columns in read_from(self.backend, lambda: self._read(once, marks, dropped)):
            yield [columns[place] for place in places]

    def _once(self, names: Sequence[str]) -> list[str]:
        """The names of columns that are there, each once: the person may also be an attribute."""
        column_places(self._table.columns, names)
        return list(dict.fromkeys(names))

    def _query(self, names: Sequence[str]) -> str:
        """SQL for some columns."""
        # Tables that Ibis holds in memory become known to the engine before.
        self.backend._run_pre_execute_hooks(self._table)
        return str(self.backend.compile(self._table.select(*names)))


def unknown_type(name: str) -> DataError:
    """The error of a column of which no type is known here."""
    return DataError(
        f"column {name!r} holds values of a type that is not known here",
        field=name,
        given="unknown",
        remedy="make a plain column of it in the table, or declare another",
    )
