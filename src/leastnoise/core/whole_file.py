"""Files that are written whole or not at all, and are on the disk once they are written."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leastnoise.core.errors import InputError

# How a system says that a folder cannot be synced at all: some network disks, folders that may be written to
# and not read. Files there are complete, and as safe as that disk keeps them.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


@contextmanager
def written_whole(path: str | Path, *, is_private: bool = False) -> Iterator[Path]:
    """A new file beside the target, which takes the target's place once everything is written.

    Its name cannot be foreseen, so nobody can place a link there first. If the writing
    fails, the target stays as it was and the new file is removed.

    Args:
        is_private: whether only the owner may read the file, as it is while it is written.

    Guarantee:
        The content is on the disk before the name is, and the name before this ends, as far as the disk
        itself keeps what it is given: a power cut leaves the old file or the whole new one.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _finish(temporary, is_private=is_private)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    try:
        sync_folder(target.parent)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _finish(path: Path, *, is_private: bool) -> None:
    """Give a written file the rights of any new one, unless it is private, and put it on the disk."""
    # Opened before its rights change, which may take writing away; Windows syncs only what may be written.
    handle = os.open(path, os.O_RDWR)
    try:
        if not is_private:
            path.chmod(0o666 & ~umask())  # mkstemp lets only the owner read
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk; Windows does so by itself.

    Raises:
        OSError: if that fails.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_folder(path: Path) -> None:
    """Return if there is a folder to write a file of that name to.

    Raises:
        InputError: naming the folder.
    """
    if not path.parent.is_dir():
        raise InputError(
            f"there is no folder {str(path.parent)!r} to write {path.name!r} to",
            field="path",
            given=str(path),
        )


def check_replaceable(path: Path) -> None:
    """Return if a file may take the place: one replaced whole would end a link or a device.

    Raises:
        InputError: if something else than a plain file is there.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(
            f"{str(path)!r} cannot be written",
            field="path",
            given=str(path),
            remedy="choose another place with --out",
        )


def umask() -> int:
    """The rights that new files and folders do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
