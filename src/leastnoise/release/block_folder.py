"""A private folder of noisy integers in blocks: each on the disk before the next is drawn, none drawn twice.

A block is one file of int64 limbs. Its name holds its number and the beginning of its digest, so that two
processes never write the same file, and whoever lost the race removes only its own. What counts is the digest
that the ledger has recorded: a file that it does not know was drawn by a process that was stopped, is of no
use to anybody, and is removed; a file that it knows and that is missing or altered is an error.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import InputError, LedgerFileError
from leastnoise.core.operators import Array
from leastnoise.core.whole_file import sync_folder, written_whole
from leastnoise.strategy import StoredIntegers

# How the files of blocks end.
_SUFFIX = ".block"

# The file that tells whose folder it is.
_MARKER = "release.json"

# Blocks that are kept in memory while answers are read, at most.
_MAX_OPEN = 16


class BlockFolder:
    """Where the blocks of one release are.

    Args:
        path: the folder; made, for its owner only, where there is none.

    Raises:
        InputError: if it cannot be private to its owner.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def prepare(self) -> None:
        """Make the folder, or return if it is one that only its owner may look into.

        Raises:
            InputError: if it is not.
        """
        if not self.path.parent.is_dir():
            raise InputError(
                f"there is no folder {str(self.path.parent)!r} to make {self.path.name!r} in",
                field="into",
                given=str(self.path),
            )
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            raise InputError.must("into", "be a folder", given=str(self.path)) from None
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise InputError.must("into", "be a folder, and no link to one", given=str(self.path))
        if os.name == "posix" and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077):
            raise InputError.must(
                "into",
                "be a folder of your own that nobody else may look into",
                given=str(self.path),
                remedy=f"chmod 700 {self.path.name}, or name a folder that does not exist yet",
            )
        sync_folder(self.path.parent)

    def claim(self, dataset: str, release_id: str) -> None:
        """Note whose folder it is, or return if it is noted so.

        Raises:
            InputError: if it belongs to another release, or holds other files.
        """
        marker = self.path / _MARKER
        own = json.dumps({"dataset": dataset, "release_id": release_id}, sort_keys=True)
        if marker.exists():
            if marker.read_text(encoding="utf-8") != own:
                raise InputError.must("into", "be the folder of this release", given=str(self.path))
            return
        if any(not self._is_unfinished(found, _MARKER) for found in self.path.iterdir()):
            raise InputError.must(
                "into", "be an empty folder, or one that does not exist yet", given=str(self.path)
            )
        with written_whole(marker, is_private=True) as temporary:
            temporary.write_text(own, encoding="utf-8")

    def write(self, number: int, integers: Array) -> str:
        """The digest of a block, once its file and its name are on the disk."""
        held = io.BytesIO()
        np.lib.format.write_array(held, exact.to_limbs(integers), allow_pickle=False)
        body = held.getvalue()
        digest = hashlib.sha256(body).hexdigest()
        with written_whole(self._file(number, digest), is_private=True) as temporary:
            temporary.write_bytes(body)
        return digest

    def read(self, number: int, digest: str) -> Array:
        """The integers of a block, once its bytes are compared with its digest.

        Raises:
            LedgerFileError: if the file is missing or altered.
        """
        try:
            body = self._file(number, digest).read_bytes()
        except OSError:
            raise self._lost(number, "is missing or cannot be read") from None
        if hashlib.sha256(body).hexdigest() != digest:
            raise self._lost(number, "has been altered since it was written")
        limbs = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
        return exact.from_limbs(limbs)

    def remove(self, number: int, digest: str) -> None:
        """Remove a block that this process has written, and that the ledger did not take."""
        self._file(number, digest).unlink(missing_ok=True)

    def remove_unrecorded(self, digests: Sequence[str]) -> None:
        """Remove what a stopped process has left behind: blocks that no ledger knows, and parts of files.

        Args:
            digests: those that the ledger has recorded, by the number of the block.
        """
        known = {self._file(number, digest).name for number, digest in enumerate(digests)}
        for found in self.path.iterdir():
            is_unknown = found.name.endswith(_SUFFIX) and found.name not in known
            if is_unknown or self._is_unfinished(found, ""):
                found.unlink(missing_ok=True)

    def check(self, digests: Sequence[str], told: Callable[[int], None] = lambda number: None) -> None:
        """Return if every recorded block is there as it was written.

        Raises:
            LedgerFileError: naming the first that is not.
        """
        for number, digest in enumerate(digests):
            self.read(number, digest)
            told(number)

    def _is_unfinished(self, found: Path, name: str) -> bool:
        """Whether a process that was killed while it wrote a file, of a name that begins so, has left it."""
        return found.name.startswith(f".{name}") and found.suffix == ".part"

    def _file(self, number: int, digest: str) -> Path:
        return self.path / f"{number:06d}-{digest[:16]}{_SUFFIX}"

    def _lost(self, number: int, what: str) -> LedgerFileError:
        return LedgerFileError(
            f"block {number} of the release {what} in {str(self.path)!r}. It was drawn and recorded, and is "
            "never drawn again; what was spent stays spent",
            field="into",
            given=str(self.path),
            remedy="restore the file from a copy, or name the folder that holds it",
        )


class FolderIntegers(StoredIntegers):
    """The noisy integers in a folder of blocks, read and compared with their digests when they are needed.

    Args:
        starts: the first integer of each block, and after them how many there are.
        digests: one for each block.
    """

    def __init__(self, folder: BlockFolder, starts: Sequence[int], digests: Sequence[str]) -> None:
        self.folder, self.digests = folder, tuple(digests)
        self._starts = np.array(starts, dtype=np.int64)
        self._open: OrderedDict[int, Array] = OrderedDict()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def between(self, start: int, stop: int) -> Array:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        while first < len(self.digests) and self._starts[first] < stop:
            own = int(self._starts[first])
            parts.append(self._block(first)[max(start - own, 0) : stop - own])
            first += 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part.astype(object) for part in parts]) if parts else np.zeros(0, np.int64)

    def _block(self, number: int) -> Array:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        values = self.folder.read(number, self.digests[number])
        size = int(self._starts[number + 1] - self._starts[number])
        if values.shape != (size,):
            raise LedgerFileError(
                f"block {number} of the release does not hold what its plan measures",
                field="into",
                given=str(self.folder.path),
                remedy="restore the file from a copy",
            )
        self._open[number] = values
        while len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)
        return values
