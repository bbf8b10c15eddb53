"""Ctrl-C while something must be finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from leastnoise.core.interruption import finished_first


@pytest.fixture(autouse=True)
def as_in_a_fresh_process() -> Iterator[None]:
    """Python's own handler: other packages, Spark among them, leave theirs behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_work(done: list[str]) -> None:
    signal.raise_signal(signal.SIGINT)
    done.append("after the signal")


def test_the_work_is_finished_and_then_the_interruption_is_heard() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), finished_first():
        interrupted_work(done)
    assert done == ["after the signal"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_it_the_work_is_cut_off() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_work(done)
    assert done == []


def test_a_handler_of_the_program_is_called_when_the_work_is_done() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with finished_first():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_within_is_not_lost() -> None:
    with pytest.raises(ZeroDivisionError), finished_first():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_go_on_as_before() -> None:
    done = []

    def work() -> None:
        with finished_first():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]
