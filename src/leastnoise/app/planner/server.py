"""The page on the loopback address, for whoever has its token.

only 127.0.0.1 listens                 nobody else on the network reaches it
a token of 128 random bits in the path nobody else on the machine guesses it
a browser posts the token to /         neither its arguments nor its history hold it (`entry`)
the Host header is checked             a name that is made to lead here (DNS rebinding) is refused
Origin is checked on every change      no page of another origin acts in a reader's name
a policy with the script's own digest  nothing else runs, whatever a name holds
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leastnoise.app.planner.entry import entry_page, entry_policy
from leastnoise.app.planner.planner_page import page_script, page_to_pass_on, render_page
from leastnoise.app.planner.session import PlannerSession, StaleEditError
from leastnoise.app.planner.spec_edits import planner_package
from leastnoise.app.specification.spec_file import MAX_BYTES
from leastnoise.core.errors import LeastnoiseError
from leastnoise.core.printable import printable
from leastnoise.core.random_bits import SystemBits

_TOKEN_BITS = 128
_HOST = "127.0.0.1"
# Bytes of a request: a specification as JSON, every character written out.
_MAX_REQUEST = 6 * MAX_BYTES
# Bytes of a request that brings the token.
_MAX_ENTRY = 1_000
_NOT_THIS_HOST = b"this address is for pages on this machine only"
_NOTHING_HERE = b"there is nothing here; use the address that leastnoise plan printed"

Answer = tuple[int, str, bytes]


def serve(
    path: Path, *, ledger: str | None = None, port: int = 0, opened: Callable[[str], None] = lambda url: None
) -> None:
    """Serve the page of a specification until somebody stops it.

    Args:
        port: 0 takes one that is free.
        opened: called with the address once the page is there.

    Raises:
        MissingExtraError: without the packages of the extra.
        LeastnoiseError: if the file is no text.
    """
    _, _, uvicorn = map(planner_package, ("starlette", "tomlkit", "uvicorn"))
    session = PlannerSession(path, ledger=ledger)
    try:
        with socket.create_server((_HOST, port)) as listening:
            own_port = listening.getsockname()[1]
            token = f"{SystemBits().bits(_TOKEN_BITS):032x}"
            opened(f"http://{_HOST}:{own_port}/{token}/")
            config = uvicorn.Config(
                planner_app(session, token, own_port),
                log_level="critical",
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
            )
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        session.close()


def planner_app(session: PlannerSession, token: str, port: int) -> Any:
    """The server's application: every answer to every request."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    hosts = {f"{_HOST}:{port}", f"localhost:{port}"}
    origins = {f"http://{host}" for host in hosts}
    policy = page_script().policy

    async def answer(request: Request) -> Response:
        refused = _refused(request, token, hosts, origins)
        if refused is not None:
            return respond(*refused)
        body = await content(request, _MAX_REQUEST)
        if body is None:
            return respond(413, "text/plain", b"too long")
        what, seen = request.path_params["what"], request.query_params.get("seen")
        if request.method == "POST":
            return respond(*await run_in_threadpool(_change, session, what, body))
        return respond(*await run_in_threadpool(_read, session, what, seen))

    async def enter(request: Request) -> Response:
        refused = _refused_entry(request, hosts, origins)
        if refused is not None:
            return respond(*refused)
        if request.method != "POST":
            return respond(200, "text/html", entry_page().encode(), entry_policy())
        body = await content(request, _MAX_ENTRY) or b""
        if not hmac.compare_digest(body, b"key=" + token.encode()):
            return respond(404, "text/plain", _NOTHING_HERE)
        page = await run_in_threadpool(_page, session, f"/{token}/")
        return respond(200, "text/html", page)

    async def content(request: Request, most: int) -> bytes | None:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > most:
                return None
        return body

    def respond(status: int, kind: str, content: bytes, allowed: str = policy) -> Response:
        headers = {
            "content-security-policy": allowed,
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }
        return Response(content, status, headers=headers, media_type=kind)

    routes = [
        Route("/", enter, methods=["GET", "POST"]),
        Route("/{token}/{what:path}", answer, methods=["GET", "POST"]),
    ]
    return Starlette(routes=routes)


def _refused(request: Any, token: str, hosts: set[str], origins: set[str]) -> Answer | None:
    """Why a request is not answered; None where it is."""
    headers = request.headers
    if headers.get("host") not in hosts:
        return 403, "text/plain", _NOT_THIS_HOST
    origin = headers.get("origin")
    is_foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    if (origin is not None and origin not in origins) or (is_foreign and request.method != "GET"):
        return 403, "text/plain", b"requests of other pages are refused"
    if request.method == "POST" and (
        origin is None or headers.get("content-type", "").partition(";")[0] != "application/json"
    ):
        return 403, "text/plain", b"changes come from the page itself"
    if not hmac.compare_digest(request.path_params["token"].encode(), token.encode()):
        return 404, "text/plain", _NOTHING_HERE
    return None


def _refused_entry(request: Any, hosts: set[str], origins: set[str]) -> Answer | None:
    """Why a request for the way in is not answered; a private file has no origin, and says so."""
    if request.headers.get("host") not in hosts:
        return 403, "text/plain", _NOT_THIS_HOST
    if request.headers.get("origin", "null") not in {*origins, "null"}:
        return 403, "text/plain", b"requests of other pages are refused"
    return None


def _page(session: PlannerSession, base: str = "") -> bytes:
    """The page; `base` is where it finds its server, "" where its own address says so."""
    return render_page({**session.state(), "base": base}, is_static=False).encode()


def _read(session: PlannerSession, what: str, seen: str | None) -> Answer:
    """What a page reads."""
    if what == "":
        return 200, "text/html", _page(session)
    if what == "state":
        known = int(seen) if seen is not None and seen.isascii() and seen.isdigit() else None
        return _json(200, session.state(known))
    if what == "text":
        return 200, "text/plain", session.text.encode("utf-8", "replace")
    if what == "page":
        state = session.state()
        if state["view"] is not None:
            try:
                return 200, "application/octet-stream", page_to_pass_on(state).encode()
            except LeastnoiseError as error:
                return 422, "text/plain", printable(str(error)).encode()
    if what == "plan":
        plan = session.plan_file()
        if plan is not None:
            return 200, "application/octet-stream", plan
    return 404, "text/plain", b"there is nothing here"


def _change(session: PlannerSession, what: str, body: bytes) -> Answer:
    """What a page changes; the answer is the new state, or why nothing changed."""
    try:
        asked = json.loads(body or b"{}")
        version = asked.get("version") if isinstance(asked, dict) else None
    except (ValueError, RecursionError):
        return _json(400, {"message": "the request is no JSON"})
    if not isinstance(asked, dict) or type(version) is not int:
        return _json(400, {"message": "the request names no version"})
    change = asked.get("change", {})
    if not isinstance(change, dict):
        return _json(400, {"message": "the request holds no edit"})
    actions: dict[str, Callable[[], None]] = {
        "edit": lambda: session.edit(change, version),
        "undo": lambda: session.step(-1, version),
        "redo": lambda: session.step(1, version),
        "keep": session.keep,
        "cancel": session.cancel,
        "again": session.again,
        "save": lambda: session.save(version),
        "reload": session.reload,
    }
    action = actions.get(what)
    if action is None:
        return _json(404, {"message": "there is no such action"})
    try:
        action()
    except StaleEditError as error:
        return _json(409, {"message": printable(str(error)), "state": session.state()})
    except LeastnoiseError as error:
        return _json(422, {"message": printable(str(error)), "field": error.field})
    except OSError as error:
        return _json(422, {"message": f"the file cannot be written: {error.strerror}"})
    return _json(200, session.state())


def _json(status: int, content: dict[str, Any]) -> Answer:
    return status, "application/json", json.dumps(content, allow_nan=False).encode()
