"""Attributes as the oracle describes them: their values, which record has which, and what words say of them.

Written from docs/schema.md and docs/queries.md alone. Nothing here asks the library anything: a cell is a
place in the declared order, the other cell the last, and every question about it is answered by looking at
the value.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import leastnoise as ln

# Coefficients of one row: a number for each cell of an attribute.
Row = tuple[float, ...]

NAMES = (
    *"abcdefgxyz",
    "A",
    "age",
    "sex",
    "Größe",
    "years lived here",
    "and",
    "in",
    "not",
    "order",
    "select",
    "group",
    "label",
    "answer",
    "query",
    "x, y",
    "it's",
    "日本",
    "up to",
    "count_1",
    "where a",
)
TEXTS = (
    *"FMNSTUV",
    "x y",
    "1",
    "02",
    "O'Neill",
    "ä",
    "a, b",
    "sum",
    "true",
    "=1+1",
    "-5",
    "<b>",
    'say "so"',
    "up to F",
    "F to M",
)
REGIONS = ("North", "South", "Coast", "Hills", "West", "F region")


@dataclass(frozen=True)
class Attribute:
    """One attribute: what it is called, its values in order, and what becomes of all others.

    Attributes:
        kind: "range", "categories", "bins" or "hierarchy".
        values: whole numbers, names, or pairs (low, high) of bins.
        tree: of a hierarchy, its values and (region, inside) pairs, nested.
        is_bare: whether it is declared without its class, as a range or a tuple.
    """

    name: str
    kind: str
    values: tuple[Any, ...]
    outside: str = "drop"
    null: str = "drop"
    other: str | None = None
    tree: tuple[Any, ...] = ()
    is_bare: bool = False

    @property
    def size(self) -> int:
        return len(self.values) + (self.other is not None)

    @property
    def is_number(self) -> bool:
        return self.kind in ("range", "categories") and isinstance(self.values[0], int)

    # ---------------------------------------------------------------- declared to the library

    def declared(self) -> Any:
        if self.is_bare:
            return range(self.values[0], self.values[-1] + 1) if self.kind == "range" else self.values
        policies: dict[str, Any] = {"outside": self.outside, "null": self.null, "other": self.other}
        if self.kind == "range":
            return ln.Integers(self._range, **policies)
        if self.kind == "bins":
            return ln.Bins(self.edges, **policies)
        if self.kind == "hierarchy":
            return ln.Hierarchy(_nested(self.tree), **policies)
        return ln.Categories(list(self.values), **policies)

    def plain(self) -> Any:
        """As a specification file holds it."""
        if self.is_bare and self.kind == "categories":
            return list(self.values)
        own: dict[str, Any] = {"categories": list(self.values)}
        if self.kind == "range":
            own = {"range": [self._range.start, self._range.stop, self._range.step]}
        elif self.kind == "bins":
            own = {"bins": self.edges}
        elif self.kind == "hierarchy":
            own = {"hierarchy": _nested(self.tree)}
        policies = {"outside": self.outside, "null": self.null, "other": self.other}
        return own | {} if self.is_bare else own | {k: v for k, v in policies.items() if v is not None}

    @property
    def _range(self) -> range:
        step = self.values[1] - self.values[0] if len(self.values) > 1 else 1
        return range(self.values[0], self.values[-1] + 1, step)

    @property
    def edges(self) -> list[float]:
        return [low for low, _ in self.values] + [self.values[-1][1]]

    @cached_property
    def paths(self) -> list[tuple[Any, ...]]:
        """The regions that each value of a hierarchy lies in, outermost first, and the value itself."""
        return list(_paths(self.tree))

    # ---------------------------------------------------------------- records

    def raw(self, rng: random.Random, cell: int) -> Any:
        """A value that a record of this cell may hold in a table."""
        if cell == len(self.values):
            ways = [self._undeclared] if self.outside == "other" else []
            ways += [_nothing] if self.null == "other" else []
            return rng.choice(ways)(rng)
        is_clamped = self.outside == "clamp" and rng.random() < 0.3
        if self.kind == "bins":
            low, high = self.values[cell]
            if is_clamped and cell == 0 and low > -math.inf:
                return low - 7
            if is_clamped and cell == len(self.values) - 1 and high < math.inf:
                return high + 7
            if low == -math.inf and high == math.inf:
                return rng.choice([0, -3.5, 12])
            low, high = (high - 40 if low == -math.inf else low), (low + 40 if high == math.inf else high)
            return rng.choice([low, low + (high - low) / 2, low + (high - low) * 0.75])
        if self.kind == "range" and is_clamped:
            if cell == 0:
                return self.values[0] - rng.randint(1, 9)
            if cell == len(self.values) - 1:
                return self.values[-1] + rng.randint(1, 9)
        return self.values[cell]

    def stray(self, rng: random.Random) -> Any:
        """A value that leaves its record out; a `LookupError` where every value counts."""
        found = [self._undeclared] if self.outside == "drop" else []
        if self.outside == "clamp":
            found = [_no_number]
        if self.null == "drop":
            found.append(_nothing)
        if not found:
            raise LookupError("every value counts")
        return rng.choice(found)(rng)

    def _undeclared(self, rng: random.Random) -> Any:
        if self.kind == "range":
            return rng.choice([self.values[-1] + 5, self.values[0] - 1, self.values[0] + 0.5, "n/a"])
        if self.kind == "bins":
            ends = [e + d for e, d in ((self.edges[0], -1), (self.edges[-1], 0)) if abs(e) < math.inf]
            return rng.choice([*ends, "n/a"])
        return rng.choice([987654, -1]) if isinstance(self.values[0], int) else rng.choice(["zzz", " F", "f"])

    # ---------------------------------------------------------------- what is true of a cell

    def holds(self, cell: int, sign: str, value: Any) -> bool:
        """Whether a record of this cell satisfies ``attribute sign value``."""
        if cell == len(self.values):
            return (value == self.other) == (sign == "==") if sign in ("==", "!=") else False
        own = self.values[cell]
        if self.kind == "bins":
            return (
                {"<": own[1] <= value, ">=": own[0] >= value}[sign] if value != self.other else sign == "!="
            )
        if self.kind == "hierarchy":
            return (value in (own, *self.paths[cell][:-1])) == (sign == "==")
        if sign in ("==", "!="):
            return bool(own == value) == (sign == "==")
        return bool({"<": own < value, "<=": own <= value, ">": own > value, ">=": own >= value}[sign])

    def one(self, *cells: int) -> Row:
        row = [0.0] * self.size
        for cell in cells:
            row[cell] = 1.0
        return tuple(row)

    def span(self, first: int, last: int) -> Row:
        return self.one(*range(first, last + 1))

    def sums(self) -> Row:
        return tuple(float(v) for v in self.values) + (0.0,) * (self.other is not None)

    def known(self) -> Row:
        """1 for every declared value, 0 for the other cell."""
        return (1.0,) * len(self.values) + (0.0,) * (self.other is not None)

    def levels(self) -> list[Row]:
        """One row for every region of every depth, outermost first, in order of appearance."""
        paths = [*self.paths, *([(self.other,)] if self.other is not None else [])]
        rows = []
        for depth in range(1, max(map(len, paths)) + 1):
            regions = list(dict.fromkeys(path[:depth] for path in paths if len(path) >= depth))
            rows += [self.one(*(i for i, p in enumerate(paths) if p[:depth] == r)) for r in regions]
        return rows

    # ---------------------------------------------------------------- what words say

    def read(self, words: str) -> list[Row]:
        """Everything that these words may say of the attribute, after its name."""
        found = []
        if words == "sum" and self.is_number:
            found.append(self.sums())
        if self.other is not None and words == self.other:
            found.append(self.one(len(self.values)))
        if self.kind == "bins":
            found += self._read_bins(words)
        elif self.kind == "range":
            if m := re.fullmatch(r"(-?\d+)(?:–(-?\d+))?", words):
                found += self._between(int(m[1]), int(m[2] or m[1]))
            if m := re.fullmatch(r"up to (-?\d+)", words):
                found += self._between(-math.inf, int(m[1]))
        else:
            found += self._read_names(words)
        return list(dict.fromkeys(found))

    def _between(self, low: float, high: float) -> list[Row]:
        ends = {low, high} - {-math.inf}
        within = [i for i, v in enumerate(self.values) if low <= v <= high]
        return [self.one(*within)] if ends <= set(self.values) else []

    def _read_names(self, words: str) -> list[Row]:
        places = {str(v): i for i, v in enumerate(self.values)}
        found = [self.one(places[words])] if words in places else []
        if words.startswith("up to ") and words[6:] in places:
            found.append(self.span(0, places[words[6:]]))
        for cut in re.finditer(" to ", words):
            first, last = places.get(words[: cut.start()]), places.get(words[cut.end() :])
            if first is not None and last is not None:
                found.append(self.span(first, last))
        ways = (
            {path[:d] for path in self.paths for d in range(1, len(path))} if self.kind == "hierarchy" else ()
        )
        for way in ways:
            if words in (str(way[-1]), " / ".join(map(str, way))):
                found.append(self.one(*(i for i, p in enumerate(self.paths) if p[: len(way)] == way)))
        full = [i for i, p in enumerate(self.paths) if " / ".join(map(str, p)) == words] if ways else []
        return found + [self.one(i) for i in full]

    def _read_bins(self, words: str) -> list[Row]:
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", words)
        number = r"(-?[\d.]+(?:e[+-]?\d+)?)"
        if plain == "any number":
            return [self.span(0, len(self.values) - 1)]
        if m := re.fullmatch(rf"\[{number}, {number}\)", plain):
            low, high = float(m[1]), float(m[2])
        elif m := re.fullmatch(r"(-?\d+)–(-?\d+)", plain):
            low, high = int(m[1]), int(m[2]) + 1
        elif m := re.fullmatch(rf"below {number}", plain):
            low, high = -math.inf, float(m[1])
        elif m := re.fullmatch(rf"{number} or more", plain):
            low, high = float(m[1]), math.inf
        else:
            return []
        within = [i for i, (a, b) in enumerate(self.values) if a >= low and b <= high]
        return [self.one(*within)] if {low, high} - {-math.inf, math.inf} <= set(self.edges) else []


def drawn_attribute(rng: random.Random, name: str, size: int) -> Attribute:
    """An attribute of so many declared values, of any kind."""
    kind = rng.choice(["range", "range", "categories", "categories", "numbers", "bins", "hierarchy"])
    if size > 40:
        kind = rng.choice(["range", "bins"])
    policies = _policies(rng, kind)
    if kind == "range":
        start, step = rng.choice([0, 0, 1, -3, 17, 1998]), rng.choice([1, 1, 1, 5])
        values: tuple[Any, ...] = tuple(range(start, start + size * step, step))
        is_bare = not policies and step == 1 and rng.random() < 0.7
        return Attribute(name, "range", values, is_bare=is_bare, **policies)
    if kind == "bins":
        edges = sorted(rng.sample([-2.5, 0, 0.25, 1, 5, 10, 18, 65, 1000, 12500, 50_000], min(size + 1, 11)))
        if size + 1 > 11:
            edges = list(range(size + 1))
        edges[0] = -math.inf if rng.random() < 0.3 else edges[0]
        edges[-1] = math.inf if rng.random() < 0.3 else edges[-1]
        return Attribute(name, "bins", tuple(pairwise(edges)), **policies)
    if kind == "numbers":
        numbers = tuple(rng.sample([0, 1, 2, 3, 7, 9, -4, 12, 100], size))
        return Attribute(name, "categories", numbers, is_bare=not policies, **policies)
    texts = rng.sample(TEXTS, size)
    if kind == "categories":
        is_bare = not policies and rng.random() < 0.7
        return Attribute(name, "categories", tuple(texts), is_bare=is_bare, **policies)
    tree = _tree(rng, texts, list(REGIONS), 0)
    leaves = tuple(path[-1] for path in _paths(tree))
    return Attribute(name, "hierarchy", leaves, tree=tree, **policies)


def _policies(rng: random.Random, kind: str) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if rng.random() < 0.6:
        return chosen
    if kind in ("range", "bins") and rng.random() < 0.4:
        chosen["outside"] = "clamp"
    if rng.random() < 0.6:
        chosen["other"] = rng.choice(["unknown", "not stated", "Other", "n, a"])
        chosen.setdefault("outside", rng.choice(["drop", "other", "other"]))
        chosen["null"] = rng.choice(["drop", "other"]) if chosen["outside"] == "other" else "other"
    return chosen


def _tree(rng: random.Random, leaves: list[str], regions: list[str], depth: int) -> tuple[Any, ...]:
    """The leaves, some of them in regions; names of regions may return in other branches."""
    if depth > 2 or (depth and rng.random() < 0.3):
        return tuple(leaves)
    parts: list[Any] = []
    rest, free = list(leaves), rng.sample(regions, len(regions))
    while rest:
        n = rng.randint(1, len(rest))
        some, rest = rest[:n], rest[n:]
        if free and rng.random() < 0.8:
            parts.append((free.pop(), _tree(rng, some, regions, depth + 1)))
        else:
            parts += some
    return tuple(parts)


def _paths(tree: tuple[Any, ...], above: tuple[Any, ...] = ()) -> Any:
    for part in tree:
        if isinstance(part, tuple):
            yield from _paths(part[1], (*above, part[0]))
        else:
            yield (*above, part)


def _nested(tree: tuple[Any, ...]) -> Any:
    """Dicts of regions where there are regions only, lists where there are values too."""
    if all(isinstance(part, tuple) for part in tree):
        return {name: _nested(inside) for name, inside in tree}
    return [{part[0]: _nested(part[1])} if isinstance(part, tuple) else part for part in tree]


def _nothing(rng: random.Random) -> None:
    return None


def _no_number(rng: random.Random) -> str:
    return "n/a"
