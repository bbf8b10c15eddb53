"""How values show themselves in a notebook: nothing but what they print, escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from leastnoise.core.printable import printable


class NotebookValue:
    """A value that a notebook shows as HTML: as a table if it has rows, else as it prints itself."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_table(self.to_frame()) if hasattr(self, "to_frame") else html_text(str(self))


def html_text(text: str) -> str:
    """Lines of text as HTML."""
    lines = (escape(printable(line)) for line in text.splitlines())
    return f"<pre>{chr(10).join(lines)}</pre>"


def html_table(frame: Any) -> str:
    """A data frame as an HTML table."""
    shown = frame.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
    made: str = shown.to_html(index=False, border=0, float_format="{:,.4g}".format)
    return made
