"""How a browser is given the key of the planner: posted from a file that only its owner can read.

The arguments of a process can be read by every user of a machine, so what is handed to the browser is the
path of a private file, and that file posts the key. An address that holds the key would stay in the history
of the browser; a cookie would be sent to the servers of other users on other ports. So the page keeps the
key in the session storage of its tab, which belongs to one port, and its address is the bare `/`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from leastnoise.app.planner.planner_page import script_digest
from leastnoise.report import filled_in


def entry_page(root: str = "", key: str = "") -> str:
    """A page that posts the key to the planner.

    Args:
        root: the address of the planner; "" for the page of the planner itself.
        key: "" for the one that its tab was given before.
    """
    return filled_in(
        __package__,
        "entry.html",
        {"script": _script()},
        action=root or "/",
        key=key,
        policy=entry_policy(root or "'self'"),
    )


def entry_policy(root: str = "'self'") -> str:
    """What that page may do: run its own script, and post to the planner."""
    own = script_digest(_script())
    return f"default-src 'none'; script-src '{own}'; base-uri 'none'; form-action {root}"


def _script() -> str:
    return files(__package__).joinpath("templates", "entry.js").read_text("utf-8")


@contextmanager
def private_entry(url: str) -> Iterator[Path]:
    """A file that opens the planner at its printed address, and that no other user can read; gone afterwards.

    Guarantee:
        Its path tells nothing about the key. The folder and the file grant nothing to anybody but their owner
        from the moment on in which they exist.
    """
    root, key = url.removesuffix("/").rsplit("/", 1)
    with tempfile.TemporaryDirectory(prefix="leastnoise-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "planner.html"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(entry_page(f"{root}/", key))
        yield path
