"""Elements of a page, escaped by construction.

A text becomes markup only here: whatever is put into an element and is not already `Markup` is escaped,
with unseen characters written out, so that no label can end an element, turn the reading direction or forge
a line.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from leastnoise.core.printable import printable

# Elements that have no content and no end.
_VOID = frozenset(("meta", "br"))

# A label may be a novel; a table shows its beginning.
_LONGEST = 300


class Markup(str):
    """Text that is part of a page as it is."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """A text as a page shows it, cut where it is very long.

    Example:
        >>> print(escaped("<b>"))
        &lt;b&gt;
    """
    if isinstance(text, Markup):
        return text
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return Markup(html.escape(printable(shown)))


def element(name: str, /, *content: str, **attributes: str | None) -> Markup:
    """An element with its content; attributes are spelled as in Python and left out where None.

    Example:
        >>> print(element("td", "a < b", class_="number", aria_label="less"))
        <td class="number" aria-label="less">a &lt; b</td>
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(escaped(part) for part in content)
    return Markup(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{inner}</{name}>")


def joined(*parts: str, by: str = "\n") -> Markup:
    """Parts of a page, one after the other; empty ones are left out."""
    return Markup(by.join(escaped(part) for part in parts if part))


def paragraph(text: str, class_: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", text, class_=class_)


def table(caption: str, heads: Sequence[Markup], rows: Sequence[Markup], class_: str | None = None) -> Markup:
    """A table in a frame that scrolls where it is wider than the screen.

    The frame is reached by the keyboard, so that it can be scrolled without a pointer; the caption is for
    those who hear the page.
    """
    content = (
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", joined(*rows)),
    )
    return element(
        "div",
        element("table", *content, class_=class_),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"table: {caption}",
    )


def code(text: str) -> Markup:
    """Lines of code, as they are."""
    return element("pre", element("code", Markup("\n".join(escaped(line) for line in text.split("\n")))))


def shortened(text: str, length: int) -> str:
    """A text that is no longer than so many characters, with an ellipsis where it was cut."""
    shown = printable(text[: length + 1])
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"
