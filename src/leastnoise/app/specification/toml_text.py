"""TOML as text: values written out, the line on which something stands, and what was probably meant.

The standard reader tells neither the line of a key nor what to write instead.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
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
    raise SpecError(f"a specification cannot hold {type(value).__name__}", field="value", given=type(value))


def _quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise SpecError(
            f"a specification is text in UTF-8, which cannot hold {text!r}", field="value", given=text
        )
    # TOML allows most controls as they are; a terminal that shows the file would obey them.
    shown = replace_controls("".join(escapes.get(c, c) for c in text), lambda c: f"\\u{ord(c):04X}")
    return f'"{shown}"'


Path = tuple[str | int, ...]

# Whatever can hide a bracket, a hash or a line break: strings of four kinds, comments.
_HIDING = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}'''
    r"""|\'\'\'.*?\'{3,5}"""
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*""",
    re.DOTALL,
)
_PLAIN = re.compile(r"""[^"'#\[\]{}\n]+""")
_MAX_DEPTH = 8
_KEY_PART = re.compile(r"""\s*("(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)\s*""")


class Lines:
    """Where the tables and keys of a valid TOML text stand.

    Example:
        >>> lines = Lines("[schema]\\nage = [1,\\n2]\\n\\n[[query]]\\nkind = 'total'\\n[[query]]\\n")
        >>> lines.of("schema", "age"), lines.of("query", 1), lines.of("query", 0, "kind"), lines.of("design")
        (2, 7, 6, None)
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        # How many tables each [[header]] has started so far.
        self._counts: dict[Path, int] = {}
        table: Path = ()
        for line, kind, keys in _statements(text):
            if kind == "key":
                self._note((*table, *keys), line)
                continue
            table = self._numbered(keys[:-1]) + keys[-1:]
            if kind == "list":
                self._counts[table] = self._counts.get(table, 0) + 1
                table = (*table, self._counts[table] - 1)
            else:
                table = self._numbered(keys)
            self._note(table, line)

    def of(self, *path: str | int) -> int | None:
        """The line of a table or key, counted from 1, or of the innermost around it that has one."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def _note(self, path: Path, line: int) -> None:
        # Nothing that is asked for lies deeper, and keys may be thousands of parts long.
        for end in range(1, min(len(path), _MAX_DEPTH) + 1):
            self._lines.setdefault(path[:end], line)

    def _numbered(self, keys: Path) -> Path:
        """A path through lists of tables, of which the last one so far is meant."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path


def _statements(text: str) -> Iterator[tuple[int, str, Path]]:
    """The line of every header and key, whether it is a "table", a "list" or a "key", and its parts."""
    position = 0
    line, counted = 1, 0
    while position < len(text):
        start = position
        line, counted = line + text.count("\n", counted, start), start
        while position < len(text) and text[position] in " \t\r\n":
            position += 1
        line, counted = line + text.count("\n", counted, position), position
        if position == len(text):
            return
        if text[position] != "#":
            kind = "list" if text.startswith("[[", position) else "table" if text[position] == "[" else "key"
            keys = _keys(text, position + {"list": 2, "table": 1, "key": 0}[kind])
            if keys:
                yield line, kind, keys
        position = _end(text, position)


def _keys(text: str, position: int) -> Path:
    """The parts of a dotted key."""
    parts: list[str] = []
    while found := _KEY_PART.match(text, position):
        written = found[1]
        parts.append(written if written[0] not in "\"'" else tomllib.loads(f"k = {written}")["k"])
        position = found.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(parts)


def _end(text: str, position: int) -> int:
    """Where the statement that begins here ends: the first line break outside strings and brackets."""
    depth = 0
    while position < len(text):
        skipped = _PLAIN.match(text, position) or _HIDING.match(text, position)
        if skipped is not None:
            position = skipped.end()
            continue
        character = text[position]
        depth += (character in "[{") - (character in "]}")
        position += 1
        if character == "\n" and depth <= 0:
            break
    return position


# Quoted texts and comments may hold anything.
_ASIDE = re.compile(r"""\"(?:\\.|[^"\\])*"|'[^']*'|\#.*""")
# What was written, and how TOML writes it; the first that matches is suggested.
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
