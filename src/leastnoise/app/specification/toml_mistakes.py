"""What somebody probably meant who wrote a line that TOML cannot read."""

from __future__ import annotations

import re

# Quoted texts and comments are somebody's own words.
_ASIDE = re.compile(r"""\"(?:\\.|[^"\\])*"|'[^']*'|\#.*""")
# What was written, and how TOML writes it; the first that is found is told.
_SLIPS = (
    (re.compile(r"=\s*[+-]?\d+,\d+\s*$"), "write a decimal point, as in {point}"),
    (re.compile(r"\b(?:[iI]nfinity|INFINITY|I(?:nf|NF))\b|∞"), "infinity is written inf"),
    (re.compile(r"=\s*\(|\(\s*[\d.]"), "a list stands in square brackets, as in [100, 0.95]"),
    (re.compile(r"[=\[,]\s*(?:True|False)\b"), "true and false are written in small letters"),
    (re.compile(r"\d\s*(?:\^|\*\*)"), "a power of ten is written as in 1e-6"),
    (
        re.compile(r"[=\[,]\s*(?!(?:true|false|inf|nan)\b)[^\W\d]\w*\s*(?=[,\]}]|$)"),
        'text stands in quotes, as in "F"',
    ),
)


def slip_in(line: str) -> str:
    """What to write instead, to put after a message about this line; "" where nothing is known.

    Example:
        >>> slip_in("epsilon = 1,0"), slip_in("within = (100, 0.95)"), slip_in("age = [")
        ('; write a decimal point, as in 1.0', '; a list stands in square brackets, as in [100, 0.95]', '')
    """
    plain = _ASIDE.sub(lambda aside: "" if aside[0].startswith("#") else '""', line).strip()
    if plain.startswith("["):
        return ""
    for pattern, words in _SLIPS:
        found = pattern.search(plain)
        if found is not None:
            return "; " + words.format(point=found[0].lstrip("= \t").replace(",", "."))
    return ""
