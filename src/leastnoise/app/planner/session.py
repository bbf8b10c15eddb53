"""The present specification, its history, what is known of it, and the plan that is kept beside it.

Several pages may be open on one session; each edit names the version that it was made on, and one that was
made on another is refused. The file is written only when somebody says so, and never over what another
program wrote there meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leastnoise.app.planner.plan_view import controls_of
from leastnoise.app.planner.spec_edits import edited
from leastnoise.app.planner.study_process import StudyRunner
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.app.specification.spec_file import MAX_BYTES
from leastnoise.core.errors import InputError, SpecError
from leastnoise.core.whole_file import check_replaceable, written_whole

# Versions that undo goes back to, at most.
_MOST_VERSIONS = 200
# Plans that are remembered, so that undo shows one at once.
_MOST_REMEMBERED = 40

_MARK = b"\xef\xbb\xbf"


class StaleEditError(InputError):
    """An edit of a version that is not the present one, or a file that changed meanwhile."""


@dataclass
class Findings:
    """What is known of one text so far.

    Attributes:
        previous: the plan before the edit, to be seen until this one is there.
        is_same_shape: whether only privacy was moved, so that the plan before gives this one exactly.
    """

    view: dict[str, Any] | None = None
    previous: dict[str, Any] | None = None
    is_same_shape: bool = False
    estimate: dict[str, Any] | None = None
    needs: dict[str, Any] | None = None
    refusal: str = ""
    error: str = ""
    plan: bytes | None = None
    job: dict[str, Any] | None = field(default_factory=lambda: {"stage": "starting", "step": 0, "gap": None})


def read_source(path: Path) -> bytes:
    """The bytes of a specification.

    Raises:
        SpecError: if it is not there, cannot be read, or is too long.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(
            f"{str(path)!r} cannot be read: {error.strerror}", field="path", given=str(path)
        ) from None
    if len(content) > MAX_BYTES:
        raise SpecError(f"a specification holds at most {MAX_BYTES:,} bytes", field="path", given=str(path))
    return content


def text_of(content: bytes, path: Path) -> str:
    """The text of a specification.

    Raises:
        SpecError: if it is no text in UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(
            f"{path.name}: a specification is text in UTF-8", field="path", given=path.name
        ) from None


class PlannerSession:
    """One specification on its way.

    Args:
        path: its file.
        ledger: the ledger beside which plans are seen, if any.
    """

    def __init__(self, path: Path, *, ledger: str | None = None) -> None:
        self.path, self.ledger = path, ledger
        self._on_disk = read_source(path)
        first = text_of(self._on_disk, path)
        self._versions: list[tuple[str, str]] = [(first, "as it was opened")]
        self._place = 0
        self._version = 1
        self._stamp = 1
        self._stamp_lock = threading.Lock()
        self._kept: tuple[str, str] = (first, "as it was opened")
        self._saved_at: float | None = None
        self._known: dict[str, Findings] = {}
        self._lock = threading.RLock()
        self._runner = StudyRunner()
        self._study()

    @property
    def text(self) -> str:
        """The present text."""
        return self._versions[self._place][0]

    # ------------------------------------------------------------------ what the page asks for

    def state(self, seen: int | None = None) -> dict[str, Any]:
        """All that a page shows; nothing but a stamp where it has seen that already."""
        with self._lock:
            is_changed = self._is_changed_on_disk()
            stamp = 2 * self._stamp + is_changed
            if seen == stamp:
                return {"stamp": stamp}
            known = self._known.get(_key(self.text), Findings(job=None))
            kept = self._known.get(_key(self._kept[0]))
            spec, fault = self._parsed()
            return {
                "stamp": stamp,
                "version": self._version,
                "name": self.path.name,
                "text": self.text,
                "fault": fault,
                "controls": None if spec is None else controls_of(self.text, spec),
                "view": known.view,
                "previous": known.previous if known.view is None else None,
                "is_same_shape": known.is_same_shape,
                "estimate": known.estimate,
                "needs": known.needs,
                "refusal": known.refusal,
                "error": known.error,
                "job": known.job,
                "has_plan": known.plan is not None,
                "is_saved": self._is_saved(),
                "saved_at": self._saved_at,
                "is_changed_on_disk": is_changed,
                "undo": self._versions[self._place][1] if self._place else None,
                "redo": self._versions[self._place + 1][1] if self._place + 1 < len(self._versions) else None,
                "kept": {
                    "label": self._kept[1],
                    "view": None if kept is None else kept.view,
                    "is_present": self._kept[0] == self.text,
                },
            }

    def edit(self, change: Mapping[str, Any], version: int) -> None:
        """Make an edit; refused where it does not give a specification, but for a whole new text.

        Raises:
            StaleEditError: if it was made on another version.
            LeastnoiseError: naming what is wrong; nothing has changed then.
        """
        with self._lock:
            self._check_version(version)
            before, text = self._known.get(_key(self.text)), edited(self.text, change)
            if change.get("edit") != "text":
                parse_spec(text, self.path.parent)
            if text == self.text:
                return
            del self._versions[self._place + 1 :]
            self._versions.append((text, _described(change)))
            del self._versions[:-_MOST_VERSIONS]
            self._place = len(self._versions) - 1
            self._moved(before, is_privacy=change.get("edit") == "privacy")

    def step(self, by: int, version: int) -> None:
        """Undo (−1) or redo (+1) one edit."""
        with self._lock:
            self._check_version(version)
            if not 0 <= self._place + by < len(self._versions):
                raise SpecError("there is nothing more to undo or redo", field="step", given=by)
            self._place += by
            self._moved()

    def keep(self) -> None:
        """Keep the present plan, to see later ones beside it."""
        with self._lock:
            self._kept = (self.text, self._versions[self._place][1])
            self._note_change()

    def cancel(self) -> None:
        """End the design that runs."""
        with self._lock:
            self._runner.cancel()
            known = self._known.get(_key(self.text))
            if known is not None and known.job is not None:
                known.job = None
                if known.view is None:
                    known.error = "You cancelled the design. Any edit, or Design again, starts another."
            self._note_change()

    def again(self) -> None:
        """Design the present text again."""
        with self._lock:
            self._known.pop(_key(self.text), None)
            self._note_change()
        self._study()

    def save(self, version: int) -> None:
        """Write the present text to the file.

        Raises:
            StaleEditError: if the file changed since it was read; it is left as it is.
        """
        with self._lock:
            self._check_version(version)
            parse_spec(self.text, self.path.parent)
            if self._is_changed_on_disk():
                raise StaleEditError(
                    f"{self.path.name} was changed by another program, and was not overwritten",
                    field="path",
                    given=self.path.name,
                    remedy="read it again (undo brings your own text back), or download yours",
                )
            mark = _MARK if self._on_disk.startswith(_MARK) else b""
            content = mark + self.text.encode("utf-8")
            check_replaceable(self.path)
            with written_whole(self.path) as new:
                new.write_bytes(content)
            self._on_disk, self._saved_at = content, time.time()
            self._note_change()

    def reload(self) -> None:
        """Take what is in the file now; the text before can be had back by undo."""
        with self._lock:
            content = read_source(self.path)
            text = text_of(content, self.path)
            self._on_disk = content
            if text != self.text:
                self._versions[self._place + 1 :] = [(text, "read from the file again")]
                self._place += 1
            self._moved()

    def plan_file(self) -> bytes | None:
        """The present plan as the bytes of a file; None before it is there."""
        with self._lock:
            known = self._known.get(_key(self.text))
            return None if known is None else known.plan

    def close(self) -> None:
        """End all processes."""
        self._runner.close()

    # ------------------------------------------------------------------ inside

    def _check_version(self, version: int) -> None:
        if version != self._version:
            raise StaleEditError(
                "the specification was changed in another window",
                field="version",
                given=version,
                remedy="look at it as it is now, and try again",
            )

    def _note_change(self) -> None:
        """Let pages see that something is new; from any thread."""
        with self._stamp_lock:
            self._stamp += 1

    def _moved(self, before: Findings | None = None, *, is_privacy: bool = False) -> None:
        """Another text is the present one; `before` is what was known of the last."""
        self._version += 1
        self._study()
        known = self._known.get(_key(self.text))
        if known is not None and before is not None:
            view = before.view or before.previous
            known.previous = view
            is_whole = before.view is not None or before.is_same_shape
            known.is_same_shape = is_privacy and is_whole and view is not None and view["is_scalable"]
        self._note_change()

    def _parsed(self) -> tuple[Spec | None, dict[str, Any] | None]:
        try:
            return parse_spec(self.text, self.path.parent), None
        except SpecError as error:
            return None, {"message": str(error), "line": error.line}

    def _study(self) -> None:
        key, text = _key(self.text), self.text
        spec, _ = self._parsed()
        if spec is None:
            self._runner.cancel()
            return
        found = self._known.get(key)
        if found is not None and found.job is None and not found.error:
            self._runner.cancel()
            return
        self._known[key] = known = Findings()
        for old in list(self._known)[: max(0, len(self._known) - _MOST_REMEMBERED)]:
            if old != _key(self._kept[0]):
                del self._known[old]
        listener = self._listener(known)
        self._runner.run(text, listener, ledger=self.ledger, beside=self.path.parent)

    def _listener(self, known: Findings) -> Callable[[dict[str, Any]], None]:
        def hear(said: dict[str, Any]) -> None:
            # Takes no lock of the session: whoever holds that may wait for this thread to end.
            kind = said["kind"]
            if kind == "progress":
                known.job = {key: said[key] for key in ("stage", "step", "gap")}
            elif kind == "estimate":
                known.estimate = said["view"]
            elif kind == "plan":
                known.view, known.refusal = said["view"], said["refusal"]
            elif kind == "needs":
                known.needs = said["view"]
            elif kind == "saved":
                known.plan = base64.b64decode(said["content"])
            elif kind == "error":
                known.error = said["message"]
            elif kind == "done":
                known.job = None
            self._note_change()

        return hear

    def _is_saved(self) -> bool:
        return self.text == text_of(self._on_disk, self.path)

    def _is_changed_on_disk(self) -> bool:
        try:
            return read_source(self.path) != self._on_disk
        except SpecError:
            return True


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_DESCRIPTIONS = {
    "text": "edit the text",
    "privacy": "move privacy",
    "people": "change who is protected",
    "need": "ask for an accuracy",
    "need-all": "ask for an accuracy",
    "example": "give an example value",
    "weight": "change a weight",
    "drop": "drop a table",
    "add": "add a table",
    "coarsen": "make an attribute coarser",
    "monthly": "publish by period",
    "all-at-once": "publish all at once",
}


def _described(change: Mapping[str, Any]) -> str:
    return _DESCRIPTIONS[str(change["edit"])]
