"""The page: a template, its own style and script, and what it is about as JSON.

Names reach the page only as JSON, in which <, > and & are written out, and the script puts them there as text
nodes: whatever a name holds, nothing of it is markup. A policy forbids all that is not the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from leastnoise.app.planner.plan_view import controls_of
from leastnoise.app.planner.studies import study
from leastnoise.app.specification import load_spec
from leastnoise.core.errors import TooLargeError
from leastnoise.report import filled_in, style_text

# Bytes of a page, at most.
MAX_PAGE = 1_000_000
# The parts of the script, in the order in which they build on each other.
_SCRIPTS = ("page_parts.js", "curve.js", "privacy.js", "accuracy.js", "what_if.js", "planner.js")


@dataclass(frozen=True)
class PageScript:
    """The style and the script of the page, and what a policy knows them by."""

    style: str
    script: str

    @property
    def policy(self) -> str:
        """What the page may load and do: its own style and script, and requests to its own server."""
        own_style, own_script = script_digest(self.style), script_digest(self.script)
        return (
            f"default-src 'none'; style-src '{own_style}'; script-src '{own_script}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )


def page_script() -> PageScript:
    """The style and the script, read from the package."""
    folder = files(__package__).joinpath("templates")
    style, *scripts = (folder.joinpath(name).read_text("utf-8") for name in ("planner.css", *_SCRIPTS))
    return PageScript(f"{style_text('page.css')}\n{style}", "\n".join(scripts))


def script_digest(text: str) -> str:
    """What a policy knows a script or a style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def render_page(state: dict[str, Any], *, is_static: bool) -> str:
    """The page with its first state."""
    own = page_script()
    policy = own.policy.replace("; frame-ancestors 'none'", "")
    if is_static:
        policy = policy.replace("connect-src 'self'", "connect-src 'none'")
    written = json.dumps({**state, "is_static": is_static}, ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    own_texts = {"style": own.style, "script": own.script, "state": written}
    title = f"Plan for {state['name']}"
    return filled_in(__package__, "planner.html", own_texts, title=title, policy=policy)


def static_page(
    path: Path, *, ledger: str | None = None, tell: Callable[[dict[str, Any]], None] = lambda said: None
) -> str:
    """One self-contained page on a specification, in which privacy can be moved and all else read.

    Raises:
        LeastnoiseError: if the specification is none, or no plan can be made of it.
    """
    spec = load_spec(path)
    text = path.read_text("utf-8-sig")
    state: dict[str, Any] = {
        "name": path.name,
        "text": text,
        "controls": controls_of(text, spec),
        **dict.fromkeys(("view", "needs", "refusal")),
    }
    for said in study(text, tell, ledger=ledger, beside=path.parent):
        if said["kind"] == "plan":
            state["view"], state["refusal"] = said["view"], said["refusal"]
        elif said["kind"] == "needs":
            state["needs"] = said["view"]
    return page_to_pass_on(state)


def page_to_pass_on(state: dict[str, Any]) -> str:
    """One self-contained page of a state that has a plan.

    Raises:
        TooLargeError: if it would be larger than a page may be.
    """
    shown: dict[str, Any] = {
        **dict.fromkeys(("estimate", "job", "fault", "kept", "undo", "redo")),
        "error": "",
        "version": 0,
        **{key: state[key] for key in ("name", "text", "controls", "view", "needs", "refusal")},
    }
    page = render_page(shown, is_static=True)
    if len(page.encode()) > MAX_PAGE:
        tables = [{**table, "labels": (), "errors": ()} for table in shown["view"]["tables"]]
        page = render_page({**shown, "view": {**shown["view"], "tables": tables}}, is_static=True)
    if len(page.encode()) > MAX_PAGE:
        raise TooLargeError(
            f"the page would take {len(page.encode()):,} bytes; the limit is {MAX_PAGE:,}",
            field="static",
            given=shown["name"],
        )
    return page
