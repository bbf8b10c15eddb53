"""How values show themselves in a notebook: what they print, escaped, and the names that Tab offers.

No colours of our own: text and tables take those of the notebook, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, ClassVar

from leastnoise.core.printable import printable

# Characters of one cell of a table; a label may be a novel.
_MAX_CELL = 300


class NotebookValue:
    """A value that a notebook shows as HTML: as a table if it has rows, else as it prints itself.

    Attributes:
        _unlisted: names that other rooms of the package use, and that completion does not offer.
    """

    __slots__ = ()

    _unlisted: ClassVar[frozenset[str]] = frozenset()

    def _repr_html_(self) -> str:
        return html_table(self.to_frame()) if hasattr(self, "to_frame") else html_text(str(self))

    def __dir__(self) -> list[str]:
        """The documented names alone: what Tab offers after ``value.``."""
        unlisted = {name for base in type(self).__mro__ for name in vars(base).get("_unlisted", ())}
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name not in unlisted)


def unlisted(names: str) -> frozenset[str]:
    """Names that completion leaves out, from one text."""
    return frozenset(names.split())


def html_text(text: str) -> str:
    """Lines of text as HTML."""
    lines = (escape(printable(line)) for line in text.splitlines())
    return f"<pre>{chr(10).join(lines)}</pre>"


def html_table(frame: Any) -> str:
    """A data frame as an HTML table."""
    shown = frame.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
    made: str = shown.to_html(index=False, border=0, float_format="{:,.4g}".format)
    return made


def html_rows(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Rows of text as an HTML table, the first column to the left and numbers to the right; then notes.

    Example:
        >>> html_rows(["a"], [["<b>"]])
        '<table><thead><tr><th style="text-align:left">a</th></tr></thead><tbody><tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """  # noqa: E501

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ["left", *("right" for _ in cells[1:])]
        made = [
            f'<{tag} style="text-align:{side}">{escape(printable(cell[:_MAX_CELL]))}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    below = "".join(f"<p>{escape(printable(note))}</p>" for note in notes)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>{below}"
