"""Values as a notebook shows them: nothing but what they print, escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from leastnoise.core.printable import printable
from leastnoise.release import Release
from leastnoise.report.summary import Report

# Answers of a release that a notebook shows.
_MAX_ANSWERS = 10

# Height of the frame that shows a report, in pixels.
_FRAME_HEIGHT = 600


def notebook_html(value: Any) -> str:
    """A value as HTML: a report as its page in a frame, tables as tables, others as they print themselves."""
    if isinstance(value, Report):
        # The frame may run nothing, and the page has no script.
        return (
            f'<iframe sandbox title="report" style="width:100%;height:{_FRAME_HEIGHT}px;border:0" '
            f'srcdoc="{escape(value.html())}"></iframe>'
        )
    if isinstance(value, Release):
        return f"{_text(repr(value))}{_table(value.to_frame().head(_MAX_ANSWERS))}"
    # What has rows shows them as a table.
    return _table(value.to_frame()) if hasattr(value, "to_frame") else _text(str(value))


def _text(text: str) -> str:
    lines = (escape(printable(line)) for line in text.splitlines())
    return f"<pre>{chr(10).join(lines)}</pre>"


def _table(frame: Any) -> str:
    shown = frame.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
    made: str = shown.to_html(index=False, border=0, float_format="{:,.4g}".format)
    return made
