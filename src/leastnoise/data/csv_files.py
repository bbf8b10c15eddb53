"""CSV files as the embedded engine reads them: columns of text, in a stream of blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from leastnoise.data.arrow_stream import TextStream
from leastnoise.data.column_names import column_places
from leastnoise.data.csv_blocks import Dropped, TextColumn
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.text_files import TextFile


class CsvFile(NamedTuple):
    """A file, the sign between its fields, and its compression: "gzip" or "none"."""

    path: str
    separator: str
    compression: str


class CsvFiles:
    """The named columns of some files, one file after the other, read anew for every scan.

    Args:
        seen: called with every stored byte of the files once per scan, in order: for a digest of what
            the scan has read.

    Attributes:
        files: the files.
        stream: what an engine reads; its columns are c0, c1, … in the order of the names.
        dropped: what the scan under way, or the last one, has left out so far.
    """

    def __init__(
        self, files: Sequence[CsvFile], names: Sequence[str], seen: Callable[[bytes], object] | None = None
    ) -> None:
        self.files = files
        self._names = names
        self._seen = seen
        self.dropped = Dropped()
        self.stream = TextStream(len(names), self._blocks)

    def _blocks(self) -> Generator[list[TextColumn], None, None]:
        self.dropped = Dropped()
        for path, separator, compression in self.files:
            with TextFile(path, compression, self._seen) as file:
                reader = CsvReader(file, separator, self.dropped)
                yield from reader.blocks(column_places(reader.header, self._names, separator))


def header_of(file: CsvFile) -> list[str]:
    """The fields of the first record of a file.

    Raises:
        DataError: if it is too long or does not close a quote.
    """
    with TextFile(file.path, file.compression) as opened:
        return CsvReader(opened, file.separator, Dropped()).header
