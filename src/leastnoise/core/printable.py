"""Text that cannot take over a terminal or forge a line of a report."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any


def printable(text: str) -> str:
    """One line with escape codes, line breaks and other unseen characters written out; names may hold any.

    Example:
        >>> printable("age\\x1b[2J")
        'age\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# A cell that begins with one of these, in its plain, wide, small or raised form, is a formula to some
# spreadsheet; the last is the minus sign of mathematics.
_SIGNS = frozenset("=+-@\u2212")

# White space that some spreadsheets drop on import, or that ends the cell before.
_BREAKS = ("\t", "\r", "\n")

# Letters and symbols that show nothing: fillers of Hangul, and the blank of Braille.
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"

# Control characters, separators of lines and paragraphs, and marks that turn the direction of what follows,
# by which a line can be made to read otherwise than it is.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def no_formula(text: str) -> str:
    """The text as a cell of a spreadsheet: an apostrophe before what it would run, and no controls.

    Whatever unseen characters stand before it: some programs drop them on import, and see a formula then.

    Example:
        >>> no_formula("=cmd()"), no_formula("\\ufeff =cmd()"), no_formula("age 7")
        ("'=cmd()", "'\\ufeff =cmd()", 'age 7')
    """
    seen = next((c for c in text if not _is_unseen(c)), "")
    is_formula = text.startswith(_BREAKS) or unicodedata.normalize("NFKC", seen)[:1] in _SIGNS
    return f"'{without_controls(text)}" if is_formula else without_controls(text)


def no_formulas(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a spreadsheet whose texts are no formulas; its numbers may begin with a minus."""
    return {name: no_formula(value) if isinstance(value, str) else value for name, value in row.items()}


def without_controls(text: str) -> str:
    """The text with control characters, line breaks and turns of direction written out.

    Letters are kept that need a joiner to be spelled, unlike in `printable`.

    Example:
        >>> without_controls("age\\x1b[2J")
        'age\\\\x1b[2J'
    """
    return replace_controls(text, lambda c: ascii(c)[1:-1])


def replace_controls(text: str, written: Callable[[str], str]) -> str:
    """The text with each character that `without_controls` writes out written in another way."""
    return _CONTROL.sub(lambda found: written(found[0]), text)


def _is_unseen(c: str) -> bool:
    """Whether a character shows nothing of its own: controls, formats, spaces, marks on what comes before."""
    return unicodedata.category(c)[0] in "CZM" or c in _BLANK


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the singular or the plural.

    Example:
        >>> counted(1, "count"), counted(2048, "count")
        ('1 count', '2,048 counts')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{in_figures(number)} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def in_figures(number: int) -> str:
    """A number as people read it: with commas, and as a power of ten where those would fill a line.

    Example:
        >>> in_figures(1048576), in_figures(10**40), in_figures(2**64)
        ('1,048,576', '1.00e40', '1.84e19')
    """
    if number < 10**15:
        return f"{number:,}"
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"
