"""Every planted bug is noticed, and nothing is noticed where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leastnoise.core.errors import LeastnoiseError
from planted_bugs import BUGS, CHECKS, Bug, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_checks_hold(check: Check, tmp_path: Path) -> None:
    assert check(tmp_path)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bugs_are_noticed(bug: Bug, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        try:
            is_right = bug.noticed_by(tmp_path)
        except LeastnoiseError:
            # The library itself has refused what the bug leads to.
            is_right = False
    assert not is_right


def test_there_are_enough_and_each_is_guarded_by_a_test_that_exists() -> None:
    assert len(BUGS) >= 30
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        file, _, name = bug.seen_by.partition("::")
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name}\(", text, re.M), bug.seen_by
