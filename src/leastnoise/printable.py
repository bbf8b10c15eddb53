"""Text that cannot take over a terminal or forge a line of a report."""

from __future__ import annotations


def printable(text: str) -> str:
    """One line with escape codes, line breaks and other unseen characters written out; names may hold any.

    Example:
        >>> printable("age\\x1b[2J")
        'age\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# A cell that begins with one of these, or with its full-width twin, is a formula to some spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def no_formula(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would run it, spaces before it or not.

    Example:
        >>> no_formula("=cmd()"), no_formula("  =cmd()"), no_formula("age 7")
        ("'=cmd()", "'  =cmd()", 'age 7')
    """
    # Some programs drop leading spaces of any kind on import, and see a formula then.
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


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
