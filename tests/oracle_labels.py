"""What published words say: labels, columns and headings read back as rows over the probes.

A label joins its parts by ", ", and a name or a value may hold a comma itself, so every way to take a label
apart is tried. All readings are returned; a label is wrong where none of them is what was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oracle_attributes import Attribute
from oracle_conditions import Cell, is_true, read_condition
from oracle_queries import Row, times

# What stands before the name of a column that a table of answers has already.
APART = "attribute_"


class Reader:
    """Reads words about some attributes as rows over some probes."""

    def __init__(self, attributes: Sequence[Attribute], probes: Sequence[Cell]) -> None:
        self._attributes = attributes
        self._probes = probes
        self._places = {attribute.name: place for place, attribute in enumerate(attributes)}
        self._known: dict[str, tuple[Row, ...]] = {}
        self.everyone: Row = (1.0,) * len(probes)

    def label(self, words: str, phrases: Mapping[str, Row]) -> set[Row]:
        """Every reading of a label; phrases are words of the query's own making."""
        found: set[Row] = set()

        def walk(at: int, so_far: Row) -> None:
            cut = words.find(", ", at)
            while True:
                end = len(words) if cut < 0 else cut
                for row in self._part(words[at:end], phrases):
                    if cut < 0:
                        found.add(times(so_far, row))
                    else:
                        walk(cut + 2, times(so_far, row))
                if cut < 0:
                    return
                cut = words.find(", ", cut + 1)

        walk(0, self.everyone)
        return found

    def columns(self, pairs: Iterable[tuple[str, str]], phrases: Mapping[str, Row]) -> set[Row]:
        """Every reading of a row whose columns say something each: (head, words) pairs."""
        found = {self.everyone}
        for head, words in pairs:
            said: set[Row] = set()
            heads = [head]
            while heads[-1].startswith(APART):
                heads.append(heads[-1].removeprefix(APART))
            for one in heads:
                said.update(self.label(f"{one} {words}", phrases))
            said.update(self.label(words, phrases))
            # Labels of cases and of conditions stand for themselves, under any head.
            found = {times(one, row) for one in found for row in said}
        return found

    def _part(self, words: str, phrases: Mapping[str, Row]) -> list[Row]:
        own = [phrases[words]] if words in phrases else []
        if words not in self._known:
            self._known[words] = tuple(self._readings(words))
        return [*own, *self._known[words]]

    def _readings(self, words: str) -> Iterable[Row]:
        for place, attribute in enumerate(self._attributes):
            if words.startswith(f"{attribute.name} "):
                for row in attribute.read(words[len(attribute.name) + 1 :]):
                    yield tuple(row[probe[place]] for probe in self._probes)
        condition = read_condition(words, self._places)
        if condition is not None:
            try:
                yield tuple(float(is_true(condition, self._attributes, probe)) for probe in self._probes)
            except (KeyError, TypeError):
                # Words that compare what cannot be compared, such as bins by ==, say nothing.
                return
