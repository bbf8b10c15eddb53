"""A table as it is stored: raw columns, some records at a time. Nothing here judges a value.

Whatever holds a table (files, frames, databases, engines) reads it and no more: which cell a value belongs
to is decided by `leastnoise.data.placing`, one batch of raw columns at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

# Records of a batch, about: their columns stay in the caches of a processor while they are placed.
BATCH_RECORDS = 2**16


@dataclass(repr=False)
class DroppedRecords:
    """How many records were left out before anything was counted, by reason. True numbers, for the owner.

    Attributes:
        too_long: records of more than MAX_RECORD bytes.
        unclosed: lines with a quote that does not close.
        not_utf8: records that hold something else than UTF-8.
        too_few: records with fewer fields than the header.
        not_json: lines of JSON that are no object.
    """

    too_long: int = 0
    unclosed: int = 0
    not_utf8: int = 0
    too_few: int = 0
    not_json: int = 0

    def __repr__(self) -> str:
        return "DroppedRecords(not private)"


class RawTable(ABC):
    """A table that can be read as raw columns.

    Attributes:
        kind: where the records are, as messages name it.
        is_held: whether they are in memory and cannot change while this exists.
    """

    kind: ClassVar[str] = "table"
    is_held: bool = False

    @abstractmethod
    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The Arrow types that each of these columns is read as; reads no record.

        A column may have several: in files of different types, or folders that give what files lack.

        Raises:
            DataError: unless every name is that of exactly one column (`leastnoise.data.columns`).
        """

    @abstractmethod
    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """These columns as Arrow arrays of one length, some records at a time, from one version of the table.

        Args:
            names: the columns, in the order of the arrays; a name may stand twice.
            marks: of each column the decimal mark that numbers are written out with where a column of
                values of any type is read as text.
            dropped: where to count what is left out before it is a record.

        Guarantee:
            Every array holds the stored values as they are. No value stops or changes the reading of
            another: what a type cannot hold is a null.
        """

    def stop(self) -> None:  # noqa: B027 - most tables wait for nothing
        """End what `batches` waits for, which then fails; may be called from another thread."""
