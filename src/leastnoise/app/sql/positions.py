"""Where in a text of SQL something stands, for messages that point at it."""

from __future__ import annotations

from typing import Any

from leastnoise.core.errors import SqlError


class Text:
    """A text of SQL, and errors that name a place in it."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def error(self, node: Any, message: str) -> SqlError:
        """The refusal of a parsed expression, with the line and column where it begins."""
        while node is not None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            if starts:
                return self.error_at(min(starts), message)
            node = node.parent  # NULL and a few others have no place of their own
        return SqlError(message)

    def error_at(self, start: int, message: str) -> SqlError:
        """The refusal of what begins at a character of the text."""
        line = self.sql.count("\n", 0, start) + 1
        column = start - self.sql.rfind("\n", 0, start)
        return SqlError(f"line {line}, column {column}: {message}")

    def shown(self, node: Any) -> str:
        """An expression in the words of the text, short enough for a message."""
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return "this expression"
        first, last = min(place["start"] for place in places), max(place["end"] for place in places)
        words = " ".join(self.sql[first : last + 1].split())
        # Parentheses are no part of any expression in them: COUNT(*) ends with the star.
        words += ")" * (words.count("(") - words.count(")"))
        return words if len(words) <= 60 else f"{words[:57]}…"
