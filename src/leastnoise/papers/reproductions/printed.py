"""What the papers print: numbers and claims, each with its page, in printed.toml; errata in errata.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.papers.reproductions.rows import Plain


@dataclass(frozen=True)
class PrintedNumber:
    """One number of a table: what it is about, and how it stands there."""

    about: Mapping[str, Plain]
    value: str

    def is_about(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of ours is about the same."""
        return all(name in row and row[name] == wanted for name, wanted in self.about.items())


@dataclass(frozen=True)
class Printed:
    """What a paper prints in one table or figure, and says about it.

    Attributes:
        numbers: the numbers of a table.
        says: claims of the text, in our words.
        limits: the numbers that claims speak of, by the same keys.
        of: the column of our rows that the numbers are of; empty for the one that is drawn.
    """

    page: str
    numbers: tuple[PrintedNumber, ...]
    says: Mapping[str, str]
    limits: Mapping[str, float] = field(default_factory=dict)
    of: str = ""

    def number(self, **about: Plain) -> str:
        """The printed number about exactly this."""
        found = [entry.value for entry in self.numbers if entry.about == about]
        if len(found) != 1:
            raise InputError(f"{len(found)} printed numbers are about {about}", field="about", given=about)
        return found[0]


def printed(name: str) -> Printed:
    """What the paper prints under a name such as "fitness-for-use/table-2"."""
    found = _all().get(name)
    if found is None:
        raise InputError(f"nothing printed is known about {name!r}", field="name", given=name)
    return found


@dataclass(frozen=True)
class Erratum:
    """Something wrong in a paper.

    Attributes:
        paper: as in the names of reproductions.
        where: the place in the paper.
        what: what is wrong, and what is taken instead.
        seen_in: the reproduction that shows it, without its paper; empty where none does.
    """

    paper: str
    where: str
    what: str
    seen_in: str = ""


@cache
def errata() -> tuple[Erratum, ...]:
    """The errata of all papers."""
    return tuple(Erratum(**entry) for entry in _read("errata.toml")["errata"])


@cache
def _all() -> dict[str, Printed]:
    return {name: _entry(entry) for name, entry in _read("printed.toml").items()}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _entry(plain: Mapping[str, Any]) -> Printed:
    numbers = tuple(
        PrintedNumber({k: v for k, v in record.items() if k != "printed"}, record["printed"])
        for record in plain.get("numbers", ())
    )
    return Printed(
        plain["page"], numbers, plain.get("says", {}), plain.get("limits", {}), plain.get("of", "")
    )
