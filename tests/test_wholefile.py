"""Files appear whole or not at all, never through somebody else's link, and are on the disk then."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core import container
from leastnoise.core import whole_file as wholefile
from leastnoise.core.whole_file import written_whole


def test_a_file_takes_its_place_once_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "plan"
    target.write_text("old")
    with written_whole(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert temporary.parent == tmp_path
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def interrupted(target: Path) -> None:
    with written_whole(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "plan"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_names_cannot_be_foreseen(tmp_path: Path) -> None:
    """The name once held the process number only, so that a link could wait for it."""
    names = set()
    for _ in range(5):
        with written_whole(tmp_path / "plan") as temporary:
            names.add(temporary.name)
    assert len(names) == 5
    assert not any(str(os.getpid()) == name.split(".")[2] for name in names)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    (tmp_path / "plan").symlink_to(secret)
    with written_whole(tmp_path / "plan") as temporary:
        temporary.write_text("new")
    assert secret.read_text() == "untouched"
    assert not (tmp_path / "plan").is_symlink()


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with written_whole(tmp_path / "plan") as temporary:
        temporary.write_text("")
    mode = stat.S_IMODE((tmp_path / "plan").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


# ------------------------------------------------------------------------------------ on the disk


def steps_of(write: Callable[[Path], Any], target: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and renamed, in order: a file with the bytes it holds then, a folder, a name."""
    steps: list[str] = []
    sync, take_place = os.fsync, os.replace

    def recorded_sync(handle: int) -> None:
        facts = os.fstat(handle)
        steps.append("folder" if stat.S_ISDIR(facts.st_mode) else f"file of {facts.st_size} bytes")
        if stat.S_ISDIR(facts.st_mode):
            assert os.path.samestat(facts, os.stat(target.parent))
        sync(handle)

    def recorded_replace(source: Any, to: Any) -> None:
        steps.append("name")
        take_place(source, to)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", recorded_sync)
        patch.setattr(os, "replace", recorded_replace)
        write(target)
    return steps


def write_text(target: Path) -> None:
    with written_whole(target) as temporary:
        temporary.write_text("whole")


def is_safe(steps: list[str], size: int) -> bool:
    """All bytes first, then the name, then the folder that holds it."""
    return steps == [f"file of {size} bytes", "name", "folder"]


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems")
def test_content_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was synced: a power cut after a release was written could leave an empty file."""
    assert is_safe(steps_of(write_text, tmp_path / "a", monkeypatch), 5)

    def write_container(target: Path) -> None:
        container.write(target, "plan", {"a": 1}, {"b": np.arange(1000)})

    steps = steps_of(write_container, tmp_path / "b", monkeypatch)
    assert is_safe(steps, (tmp_path / "b").stat().st_size)


def twin_that_renames_first(target: Path) -> None:
    temporary = target.with_suffix(".part")
    temporary.write_text("whole")
    os.replace(temporary, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    wholefile.sync_folder(target.parent)


def twin_that_syncs_before_writing(target: Path) -> None:
    temporary = target.with_suffix(".part")
    with temporary.open("w") as file:
        file.write("whole")
        os.fsync(file.fileno())
    os.replace(temporary, target)
    wholefile.sync_folder(target.parent)


def twin_that_forgets_the_folder(target: Path) -> None:
    temporary = target.with_suffix(".part")
    with temporary.open("w") as file:
        file.write("whole")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, target)


@pytest.mark.parametrize(
    "twin", [twin_that_renames_first, twin_that_syncs_before_writing, twin_that_forgets_the_folder]
)
def test_writers_that_do_not_are_found_out(
    twin: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_safe(steps_of(twin, tmp_path / "a", monkeypatch), 5)


def failing_sync(number: int, *, of_folders: bool) -> Callable[[int], None]:
    def sync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) == of_folders:
            raise OSError(number, os.strerror(number))

    return sync


def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", failing_sync(errno.EIO, of_folders=False))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_text(target)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems")
def test_a_folder_that_fails_is_told_and_one_that_cannot_be_synced_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "plan"
    monkeypatch.setattr(os, "fsync", failing_sync(errno.EINVAL, of_folders=True))
    write_text(target)
    assert target.read_text() == "whole"
    monkeypatch.setattr(os, "fsync", failing_sync(errno.EIO, of_folders=True))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_text(target)
    assert list(tmp_path.iterdir()) == [target]
