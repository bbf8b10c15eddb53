"""Plain values as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leastnoise.core.errors import SpecError
from leastnoise.core.printable import replace_controls


def key_text(name: str) -> str:
    """A key, in quotes where it needs them."""
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else value_text(name)


def value_text(value: Any) -> str:
    """A plain value on one line.

    Raises:
        SpecError: for what TOML cannot hold.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value))  # NumPy's floats are floats, but show themselves as np.float64(…)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_text(k)} = {value_text(v)}" for k, v in value.items()) + " }"
    raise SpecError(f"a specification cannot hold {type(value).__name__}")


def _quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise SpecError(f"a specification is text in UTF-8, which cannot hold {text!r}")
    # TOML allows most controls as they are; a terminal that shows the file would obey them.
    shown = replace_controls("".join(escapes.get(c, c) for c in text), lambda c: f"\\u{ord(c):04X}")
    return f'"{shown}"'
