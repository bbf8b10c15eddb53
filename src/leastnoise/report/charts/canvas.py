"""Where everything of a picture stands: texts, rectangles, paths, and pictures of the page within it.

A canvas only collects; `templates/picture.svg` draws it. Positions are in pixels, from the upper left corner.
The width of a text is estimated, as nothing here knows the reader's fonts: a little too wide as a rule.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from leastnoise.core.printable import printable
from leastnoise.report.charts.picture import Picture
from leastnoise.report.charts.pictures import LineChart, ShadedMap
from leastnoise.report.rendering import shortened

# Width of a character of a text of 12 pixels, and of one of 15, in bold.
CHARACTER = 6.6
_LARGE_CHARACTER = 8.8

# Height of a line of text.
LINE = 18

# Room around everything.
MARGIN = 16

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class CanvasText:
    """A text, its place and its class in the style of the picture."""

    x: float
    y: float
    text: str
    kind: str
    anchor: Anchor

    shape = "text"


@dataclass(frozen=True)
class CanvasBox:
    """A rectangle; its title shows where the pointer rests."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""

    shape = "box"


@dataclass(frozen=True)
class CanvasPath:
    """A line, or several."""

    d: str
    kind: str

    shape = "path"


@dataclass(frozen=True)
class CanvasGroup:
    """A picture of the page with its upper left corner at a place."""

    x: float
    y: float
    picture: LineChart | ShadedMap

    shape = "group"


Mark = CanvasText | CanvasBox | CanvasPath | CanvasGroup


@dataclass
class Canvas:
    """Collects what is drawn, from above to below; `y` is where there is room for the next."""

    width: float = 640.0
    y: float = float(MARGIN)
    marks: list[Mark] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: str, kind: str = "soft", anchor: Anchor = "start", most: int = 300
    ) -> None:
        """A text whose line stands at y; cut where it has more than that many characters."""
        self.marks.append(CanvasText(x, y, shortened(text, most), kind, anchor))

    def box(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        """A rectangle."""
        self.marks.append(CanvasBox(x, y, max(width, 0.0), height, kind, title))

    def path(self, d: str, kind: str) -> None:
        """A line, as SVG writes it."""
        self.marks.append(CanvasPath(d, kind))

    def picture(self, own: LineChart | ShadedMap, x: float, y: float) -> None:
        """A picture of the page."""
        self.marks.append(CanvasGroup(x, y, own))
        self.widen(x + own.width)

    def to_picture(self, title: str) -> Picture:
        """What was drawn, as a picture."""
        return Picture(title, round(self.width), round(self.y + MARGIN), tuple(self.marks))

    def widen(self, right: float) -> None:
        """Make room up to there."""
        self.width = max(self.width, right + MARGIN)

    def heading(self, text: str, *, large: bool = False) -> None:
        """A line in bold below all that was drawn."""
        most = int((self.width - 2 * MARGIN) / (_LARGE_CHARACTER if large else CHARACTER * 1.1))
        for line in wrapped(text, most, 3):
            self.y += LINE + (4 if large else 0)
            self.text(MARGIN, self.y - 5, line, "large" if large else "strong")

    def paragraph(self, text: str) -> None:
        """Lines of small text below all that was drawn."""
        for line in wrapped(text, int((self.width - 2 * MARGIN) / CHARACTER), 12):
            self.y += LINE
            self.text(MARGIN, self.y - 5, line)

    def scale_texts(self, places: Sequence[tuple[float, str]], y: float) -> None:
        """Numbers along an axis, from left to right; one that would touch the one before is left out."""
        end = -math.inf
        for x, text in places:
            half = text_width(text) / 2
            if x - half > end + 4:
                self.text(x, y, text, anchor="middle")
                end = x + half

    def legend(self, names: Sequence[str], kind: str = "line") -> None:
        """Which line or bar is which, in as many lines as it takes."""
        x = float(MARGIN)
        self.y += LINE
        for number, name in enumerate(names, start=1):
            shown = shortened(name, 48)
            room = 34 + text_width(shown) + 18
            if x > MARGIN and x + room > self.width:
                x = float(MARGIN)
                self.y += LINE
            if kind == "line":
                self.path(f"M{x:.1f} {self.y - 9:.1f}h26", f"line s{number}")
            else:
                self.box(x + 8, self.y - 15, 12, 12, f"{kind} s{number}")
            self.text(x + 34, self.y - 5, shown, "plain")
            x += room

    def shade_scale(self) -> None:
        """Which shade is more."""
        self.y += LINE
        self.text(MARGIN, self.y - 5, "less")
        left = MARGIN + text_width("less") + 8
        self.box(left, self.y - 15, 160, 12, "plate")
        for shade in range(10):
            self.box(left + 16 * shade, self.y - 15, 16, 12, f"h{shade}")
        self.text(left + 168, self.y - 5, "more")


def text_width(text: str) -> float:
    """About how wide a text of 12 pixels is."""
    return CHARACTER * len(text)


def wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in lines of at most that many characters, and at most that many lines."""
    lines = textwrap.wrap(printable(text), max(width, 20)) or [""]
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: max(width, 20) - 1]}…"]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis: 1, 2 and 5 times powers of ten, or powers alone if many.

    The first is at most `low`, the last at least `high`.

    Example:
        >>> log_ticks(0.3, 7)
        [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
        >>> log_ticks(1, 1e6)
        [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    step = max(1, (last - first) // 8)
    marks = [float(f"{factor}e{power}") for power in range(first, last + 1, step) for factor in factors]
    if marks[-1] < high:
        marks.append(float(f"1e{last + step}"))
    start = max((i for i, mark in enumerate(marks) if mark <= low * (1 + 1e-9)), default=0)
    end = min((i for i, mark in enumerate(marks) if mark >= high * (1 - 1e-9)), default=len(marks) - 1)
    return marks[start : max(end, start + 1) + 1]
