"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leastnoise.errors import InputError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A new file beside the target, which takes the target's place once everything is written.

    Its name cannot be foreseen, so nobody can put a link in its way. If the writing
    fails, the target stays as it was and the new file is removed.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp lets only the owner read
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_folder(path: Path) -> None:
    """Return if there is a folder to write a file of that name to.

    Raises:
        InputError: naming the folder.
    """
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")


def check_replaceable(path: Path) -> None:
    """Return if a file may take the place: one replaced whole would end a link or a device.

    Raises:
        InputError: if something else than a plain file is there.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{str(path)!r} cannot be written; choose another place with --out")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
