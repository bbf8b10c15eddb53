"""Signs of life: what long work says where no terminal watches, and what quick work does not."""

from __future__ import annotations

import math
import re
import threading
import time
from typing import Any

import pytest
import typer

from leastnoise.app.cli import terminal
from leastnoise.app.cli.terminal import designing, gap_to_text, spinner
from leastnoise.core.progress import Progress


def tellers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "signs-of-life"]


def lines_within(seconds: float, capsys: pytest.CaptureFixture[str], what: str = "counting") -> list[str]:
    with spinner(what) as update:
        update(f"{what}: \x1b[31msecond\x1b[0m step")
        time.sleep(seconds)
    assert not tellers()
    out, err = capsys.readouterr()
    assert out == ""
    return list(err.splitlines())


def test_long_work_says_so_in_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "FIRST_LINE", 0.02)
    lines = lines_within(0.5, capsys)
    # At 0.02, 0.06, 0.14 and 0.3 s; without growing pauses there would be 25.
    assert 1 <= len(lines) <= 5
    for line in lines:
        assert re.fullmatch(r"counting: \S*second\S* step \(\d+ s so far\)", line), line
        assert line.isprintable()


def test_pauses_stop_growing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "FIRST_LINE", 0.01)
    monkeypatch.setattr(terminal, "LONGEST_PAUSE", 0.02)
    # Pauses that double without end would leave 6.
    assert len(lines_within(0.6, capsys)) > 7


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal.FIRST_LINE >= 5
    assert lines_within(0.05, capsys) == []


def test_what_fails_leaves_no_thread_behind() -> None:
    def fail() -> None:
        with spinner("failing"):
            assert len(tellers()) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not tellers()


def test_work_goes_on_when_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(terminal, "FIRST_LINE", 0.01)
    monkeypatch.setattr(typer, "echo", closed)
    with spinner("reading"):
        time.sleep(0.1)
        assert not tellers()


def test_a_gap_that_is_not_known_is_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "FIRST_LINE", 0.05)
    with designing() as show:
        show(Progress(3, 0.25, 1.0))
        time.sleep(0.1)
        show(Progress(4, float("inf"), 1.0))
        time.sleep(0.15)
    err = capsys.readouterr().err
    assert "designing: step 3, gap to the optimum 2.5e-01 (" in err
    assert "designing: step 4 (" in err and "inf" not in err


def test_a_gap_that_is_not_known_yet_is_not_shown() -> None:
    """explain and tradeoff had shown an infinite one."""
    assert gap_to_text(None) == gap_to_text(math.inf) == gap_to_text(math.nan) == ""
    assert gap_to_text(0.0123) == ", gap to the optimum 1.2e-02"
