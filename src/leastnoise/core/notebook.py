"""How values show themselves in a notebook: what they print, escaped, and the names that Tab offers.

No colours of our own: text and tables take those of the notebook, light or dark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import ClassVar

from leastnoise.core.printable import printable

# Characters of one cell of a table; a label may be a novel.
_MAX_CELL = 300

# A number, with its unit or mark, or a dash in the place of one.
_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]\d+)?( ?%|[*+])?|–|")


class NotebookValue:
    """A value that a notebook shows as HTML: as it prints itself, or as a table of its own.

    Attributes:
        _unlisted: names that other rooms of the package use, and that completion does not offer.
    """

    __slots__ = ()

    _unlisted: ClassVar[frozenset[str]] = frozenset()

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def __dir__(self) -> list[str]:
        """The documented names alone: what Tab offers after ``value.``."""
        unlisted = {name for base in type(self).__mro__ for name in vars(base).get("_unlisted", ())}
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name not in unlisted)


def unlisted(names: str) -> frozenset[str]:
    """Names that completion leaves out, from one text."""
    return frozenset(names.split())


def _cut(text: str) -> str:
    return printable(text) if len(text) <= _MAX_CELL else f"{printable(text[:_MAX_CELL])}…"


def html_text(text: str) -> str:
    """Lines of text as HTML."""
    lines = (escape(printable(line)) for line in text.splitlines())
    # Some notebooks set preformatted text in the font of prose, and columns no longer line up.
    return f'<pre style="font-family:monospace">{chr(10).join(lines)}</pre>'


# Rows of a table that stands for a whole value; the note below it says how many more there are.
MAX_ROWS = 40


def more_rows(n: int, what: str) -> list[str]:
    """What is said below a table that shows the first of n; nothing where it shows all."""
    return [f"… and {n - MAX_ROWS:,} more {what}"] if n > MAX_ROWS else []


def html_rows(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Rows of text as an HTML table, columns of numbers to the right and others to the left; then notes.

    Example:
        >>> html_rows(["a"], [["<b>"]])
        '<table><thead><tr><th style="text-align:left">a</th></tr></thead><tbody><tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """  # noqa: E501

    columns = zip(*rows, strict=True) if rows else ([] for _ in heads)
    sides = ["right" if all(map(_NUMBER.fullmatch, column)) else "left" for column in columns]

    def line(tag: str, cells: Sequence[str]) -> str:
        made = [
            f'<{tag} style="text-align:{side}">{escape(_cut(cell))}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    below = "".join(f"<p>{escape(printable(note))}</p>" for note in notes)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>{below}"
