"""Who gets into the planner: the browser that the command opens, and nobody who can only list processes."""

from __future__ import annotations

import html
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

import pytest

from support import extra
from test_planner import TEXT

extra("tomlkit")
extra("starlette")
extra("uvicorn")
pytestmark = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="lists processes in /proc")

# What stands for a browser: it says that it runs, and stays until it is ended.
BROWSER = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(sys.argv[2]); time.sleep(600)"
MAIN = "from leastnoise.app.cli.main import main; main()"
# Broken twins: the address itself as the argument, and a file that others can read.
ADDRESS_AS_ARGUMENT = """
import contextlib, types
import leastnoise.app.cli.plan_command as command
command.private_entry = lambda url: contextlib.nullcontext(types.SimpleNamespace(as_uri=lambda: url))
"""
FILE_FOR_EVERYBODY = """
import contextlib, os, pathlib
import leastnoise.app.cli.plan_command as command
private = command.private_entry
@contextlib.contextmanager
def for_everybody(url):
    with private(url) as path:
        os.chmod(path.parent, 0o755)
        os.chmod(path, 0o644)
        yield path
command.private_entry = for_everybody
"""


@dataclass(frozen=True)
class Running:
    """A planner as a person runs it, its browser, and where its temporary files are."""

    process: int
    printed: str
    opened: str
    scratch: Path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may read, unlike pytest's own, so that only the planner's own care counts."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextmanager
def running(folder: Path, code: str = MAIN) -> Iterator[Running]:
    path, told, scratch = folder / "people.toml", folder / "told", folder / "scratch"
    path.write_text(TEXT, encoding="utf-8")
    scratch.mkdir()
    browser = folder / "browser.py"
    browser.write_text(BROWSER, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", code, "plan", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)}
        | {"BROWSER": f"{sys.executable} {browser} {told} %s &", "DISPLAY": ""},
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().split()[-1]
        ends = time.monotonic() + 60
        while not told.exists() or not told.read_text():
            assert time.monotonic() < ends and process.poll() is None, "no browser was started"
            time.sleep(0.02)
        yield Running(process.pid, printed, told.read_text(), scratch)
    finally:
        for one in children(process.pid):
            if str(browser) in command_line(one):
                os.kill(one, 9)
        process.terminate()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(one) for task in tasks for one in task.read_text().split()]


def command_line(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")


def asked(root: str, what: str, body: str | None = None) -> tuple[int, str]:
    place = urlsplit(root)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    kind = {"content-type": "application/x-www-form-urlencoded", "origin": "null"}
    try:
        connection.request("GET" if body is None else "POST", what, body, {} if body is None else kind)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def form_of(page: str) -> tuple[str, str]:
    """Where an entry page posts to, and the key that it posts."""
    found = re.search(r'action="([^"]*)".*?name="key" value="([^"]*)"', page, re.DOTALL)
    assert found is not None
    return html.unescape(found[1]), html.unescape(found[2])


def read_by_another_user(path: str) -> str:
    """What a file holds for a user who neither owns it nor is of its group; "" where it may not be read."""
    if os.getuid() == 0:
        return subprocess.run(["cat", path], user=65534, group=65534, capture_output=True, text=True).stdout
    holds = Path(path).stat().st_mode & 0o4 and all(one.stat().st_mode & 0o1 for one in Path(path).parents)
    return Path(path).read_text("utf-8") if holds else ""


def attacked(planner: Running) -> list[str]:
    """What somebody reaches who knows the command lines of all processes, and tries all that they hold."""
    words = [w for one in (planner.process, *children(planner.process)) for w in command_line(one)]
    assert planner.opened in words
    root = "http://" + urlsplit(planner.printed).netloc
    addresses = [urlsplit(word).path for word in words if word.startswith("http://")]
    read = [read_by_another_user(unquote(urlsplit(w).path)) for w in words if w.startswith("file://")]
    keys = [form_of(page)[1] for page in read if page]
    keys += [key for word in words for key in re.findall(r"[0-9a-f]{32}", word)]
    tried = [(what, None) for what in ("/", *addresses, *(f"/{key}/text" for key in keys))]
    found = [asked(root, *one) for one in tried]
    found += [asked(root, "/", urlencode({"key": key})) for key in ("", "0" * 32, *keys)]
    return [text for status, text in found if status == 200 and "agreed in May" in text]


def test_who_lists_processes_does_not_get_in_and_the_browser_does(folder: Path) -> None:
    with running(folder) as planner:
        assert attacked(planner) == []
        # The browser was given a private file, and gets in with what it holds.
        path = Path(unquote(urlsplit(planner.opened).path))
        assert planner.opened.startswith("file://") and planner.scratch in path.parents
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        root, key = form_of(path.read_text("utf-8"))
        status, page = asked(root, "/", urlencode({"key": key}))
        assert status == 200 and "agreed in May" in page and f'"base": "/{key}/"' in page
        assert asked(root, f"/{key}/text") == (200, TEXT)
        # The printed address works as often as somebody opens it by hand.
        place = urlsplit(planner.printed)
        for _ in range(2):
            status, page = asked(planner.printed, place.path)
            assert status == 200 and "agreed in May" in page
        # What the tab reads when it is loaded again tells nothing to whoever has no key.
        status, again = asked(root, "/")
        assert status == 200 and form_of(again) == ("/", "") and key not in again
        assert asked(root, "/", urlencode({"key": key + "0"}))[0] == 404
        assert asked(root, "/", "key=" + "0" * 2000)[0] == 404
    assert list(planner.scratch.iterdir()) == []


@pytest.mark.parametrize("twin", [ADDRESS_AS_ARGUMENT, FILE_FOR_EVERYBODY], ids=["address", "open file"])
def test_the_attack_reaches_a_planner_that_is_not_careful(folder: Path, twin: str) -> None:
    with running(folder, twin + MAIN) as planner:
        assert attacked(planner)
