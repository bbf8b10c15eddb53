"""A headless Chromium, for what only a browser can tell of a page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Visible where it is skipped; where every extra is required, the missing program is a failure.
BROWSER = pytest.mark.skipif(
    _PROGRAM is None and not os.environ.get("LEASTNOISE_ALL_EXTRAS"),
    reason="needs Chromium: apt-get install chromium",
)

# Its own errands (updates, sync) would be taken for requests of the page.
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    # No name leads anywhere, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def run_browser(page: Path, *options: str) -> str:
    """What Chromium prints when it opens a file with some options."""
    assert _PROGRAM is not None, "Chromium is required: apt-get install chromium"
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [_PROGRAM, *_QUIET, f"--user-data-dir={profile}", *options, page.resolve().as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return done.stdout


def dom_of(page: Path, *options: str) -> str:
    """The page as it stands after its scripts have run."""
    return run_browser(page, "--virtual-time-budget=5000", "--dump-dom", *options)


def requests_of(page: Path) -> list[str]:
    """The addresses beyond its own file that a page asked for."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "net.json"
        run_browser(page, "--virtual-time-budget=5000", "--dump-dom", f"--log-net-log={log}")
        logged = json.loads(log.read_text(encoding="utf-8"))
    started = (event.get("params", {}) for event in logged["events"])
    # Chromium's own errands have no origin that asked for them; a page has one, if an opaque one.
    asked = {one["url"] for one in started if one.get("initiator", "not an origin") != "not an origin"}
    return sorted(url for url in asked if not url.startswith(("file:", "data:")))
