"""Files appear whole or not at all, and never through somebody else's link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leastnoise.wholefile import written_whole


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
