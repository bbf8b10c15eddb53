"""Texts that look alike and are not equal: for messages, which must tell them apart.

Only hints and the spelling of messages follow from this; nothing is counted by it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

# Characters that people take for another: marks of quotation, dashes, and letters of other scripts.
_DRAWN_ALIKE = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc\u0060\u00b4",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u00ad\u2010\u2011\u2012\u2013\u2014\u2212",
    **dict(
        zip(
            "ABCEHIJKMOPSTXaceijopsxy",
            [
                *("\u0410\u0391", "\u0412\u0392", "\u0421", "\u0415\u0395", "\u041d\u0397", "\u0406\u0399"),
                *("\u0408", "\u041a\u039a", "\u041c\u039c", "\u041e\u039f", "\u0420\u03a1", "\u0405"),
                *("\u0422\u03a4", "\u0425\u03a7", "\u0430", "\u0441", "\u0435", "\u0456", "\u0458"),
                *("\u043e\u03bf", "\u0440", "\u0455", "\u0445", "\u0443"),
            ],
            strict=True,
        )
    ),
}
_DRAWN = str.maketrans({other: known for known, others in _DRAWN_ALIKE.items() for other in others})

# Characters of a text that are looked at, at most.
_MOST = 1_000


def look(text: str) -> str:
    """A text that is the same for texts that look alike: in one normal form, without unseen characters.

    Example:
        >>> look("e\\u0301") == look("\\u00e9"), look("\\u0410B") == look("AB"), look("a") == look("A")
        (True, True, False)
    """
    if text.isascii():
        return text.replace("`", "'")
    drawn = unicodedata.normalize("NFKC", text[:_MOST].translate(_DRAWN)).translate(_DRAWN)
    return "".join(c for c in drawn if unicodedata.category(c) != "Cf") + text[_MOST:]


def look_alikes(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of different texts that look alike, in order."""
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        groups.setdefault(look(text), []).append(text)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def told_apart(texts: Sequence[object], beside: Iterable[object] = ()) -> list[str]:
    """The ``repr`` of values, with escapes for what is not ASCII in texts that look like another.

    Args:
        beside: further values that stand near them.

    Example:
        >>> told_apart(["e\\u0301", "\\u00e9", "b"])
        ["'e\\\\u0301'", "'\\\\xe9'", "'b'"]
    """
    is_alike = _which_are_alike(texts, beside)
    return [ascii(value) if alike else repr(value) for value, alike in zip(texts, is_alike, strict=True)]


def escaped(texts: Sequence[str]) -> list[str]:
    """The texts without quotation marks, with escapes for what is not ASCII in those that look like another.

    Example:
        >>> escaped(["e\u0301", "\u00e9", "b"])
        ['e\\\\u0301', '\\\\xe9', 'b']
    """
    is_alike = _which_are_alike(texts, ())
    return [
        text.encode("ascii", "backslashreplace").decode() if alike else text
        for text, alike in zip(texts, is_alike, strict=True)
    ]


def _which_are_alike(values: Sequence[object], beside: Iterable[object]) -> list[bool]:
    known = {value for value in (*values, *beside) if isinstance(value, str)}
    times = Counter(map(look, known))
    return [isinstance(value, str) and times[look(value)] > 1 for value in values]
