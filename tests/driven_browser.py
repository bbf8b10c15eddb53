"""A headless Chromium that is driven: pages opened, controls used, pictures taken.

By the DevTools protocol over two pipes (--remote-debugging-pipe): no port, no further package.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import time
from typing import Any

from browser import _PROGRAM, _QUIET

# Seconds for a page to become what a test waits for; reached only where it never does.
_PATIENCE = 60.0


class DrivenPage:
    """One tab of a driven browser."""

    def __init__(self, browser: DrivenBrowser, session: str) -> None:
        self.browser, self.session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the tab answers to a command."""
        return self.browser.call(method, self.session, **parameters)

    def eval(self, code: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds."""
        ends = time.monotonic() + _PATIENCE
        while not self.eval(f"Boolean({condition})"):
            assert time.monotonic() < ends, f"never became true: {condition}\n{self.text('body')[:3000]}"
            time.sleep(0.05)

    def open(self, url: str) -> None:
        """Load a page and wait until its script has drawn it."""
        self.call("Page.enable")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.body && document.body.dataset.ready")

    def text(self, selector: str) -> str:
        """The text that an element shows; "" where there is none."""
        return str(self.eval(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''"))

    def click(self, selector: str) -> None:
        """Click an element with the mouse, in its middle."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        box = self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def key(self, name: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text
            )

    def type(self, selector: str, text: str) -> None:
        """Replace what is in a field by typing, and press Enter."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.eval(f"((e) => {{ e.focus(); e.select(); }})(document.querySelector({json.dumps(selector)}))")
        self.call("Input.insertText", text=text)
        self.key("Enter", 13)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a list."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
        )

    def size(self, width: int, height: int, *, is_phone: bool = False) -> None:
        """Give the window a size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if is_phone else 1,
            mobile=is_phone,
        )

    def media(self, *, dark: bool = False, kind: str = "") -> None:
        """Show the page as on a dark screen, or as printed."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])


class DrivenBrowser:
    """A Chromium of its own, to be used in a with statement."""

    def __enter__(self) -> DrivenBrowser:
        assert _PROGRAM is not None, "Chromium is required: apt-get install chromium"
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_in, self._write = os.pipe()
        self._read, write_out = os.pipe()
        quiet = [one for one in _QUIET if not one.startswith("--host-resolver")]
        program = [
            _PROGRAM,
            *quiet,
            f"--user-data-dir={self._profile.name}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        shell = f'exec 3<&{read_in} 4>&{write_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *program],
            pass_fds=(read_in, write_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_in)
        os.close(write_out)
        self._number, self._held = 0, b""
        self.events: list[dict[str, Any]] = []
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    @property
    def profile(self) -> str:
        """The folder of what it remembers."""
        return self._profile.name

    def end(self) -> None:
        """Have it write down what it remembers, and end."""
        self.call("Browser.close")
        self._process.wait()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command; events on the way are kept."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            asked["sessionId"] = session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return dict(said["result"])
            self.events.append(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser ended"
            self._held += part
        message, _, self._held = self._held.partition(b"\0")
        return dict(json.loads(message))

    def page(self) -> DrivenPage:
        """A new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = DrivenPage(self, session)
        page.call("Runtime.enable")
        page.size(1280, 900)
        return page
