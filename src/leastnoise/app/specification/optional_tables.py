"""The optional tables [design], [presentation] and [publication], and how any table is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from leastnoise.core.errors import InputError, SpecError
from leastnoise.query import objective_from_dict
from leastnoise.release import PRESENTATION_KEYS, Presentation, presentation_from_plain
from leastnoise.report import PUBLICATION_KEYS, Publication, publication_from_plain

DESIGN = ("objective", "relative_to", "method", "options", "over", "tol", "time_limit", "backend")


class SpecRefusal(SpecError):
    """What is wrong with a specification, and the table or key that holds it."""

    def __init__(self, message: str, *place: str | int, given: object = None) -> None:
        super().__init__(message, field=key_of(place), given=given)
        self.place = place

    @classmethod
    def of(cls, table: str, error: InputError, *place: str | int) -> SpecRefusal:
        """An error of what a table describes, which becomes one of the table."""
        refusal = cls(f"{table}: {error}", *place, given=error.given)
        inner = "" if error.field is None else error.field.removeprefix(str(place[-1])).removeprefix(".")
        refusal.field = f"{refusal.field}.{inner}" if inner else refusal.field
        return refusal


def key_of(place: Sequence[str | int]) -> str:
    """The key at a place, as "privacy.epsilon" or "query[0]"."""
    keys = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return "".join(keys).removeprefix(".")


def design_table(plain: Any) -> dict[str, Any]:
    """The [design] table; whether a method or a backend of that name exists, `design` says."""
    if not isinstance(plain, dict):
        raise SpecRefusal("[design] must be a table", "design")
    for name, value in plain.items():
        if name not in DESIGN:
            words = f"[design] does not know {name!r}; it may hold {', '.join(DESIGN)}"
            raise SpecRefusal(words, "design", name, given=value)
        if name in ("objective", "method", "over", "backend") and not isinstance(value, str):
            raise SpecRefusal(f"[design]: {name} must be a text, got {value!r}", "design", name, given=value)
        if name == "options" and not isinstance(value, dict):
            words = f"[design]: options must be a table, as in {{ branching = 4 }}, got {value!r}"
            raise SpecRefusal(words, "design", name, given=value)
        if name in ("tol", "time_limit"):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf:
                raise SpecRefusal(
                    f"[design]: {name} must be a positive number, got {value!r}", "design", name, given=value
                )
        if name == "relative_to" and (value != "uniform" or "objective" not in plain):
            raise SpecRefusal(
                '[design]: relative_to must be "uniform", beside an objective = "total-variance"; another '
                "prior is given in Python, to TotalVariance(relative_to=...)",
                "design",
                name,
                given=value,
            )
        if name == "objective":
            try:
                objective_from_dict(plain)
            except InputError as error:
                raise SpecRefusal.of("[design]", error, "design", name) from None
    return plain


def presentation_table(plain: Any) -> Presentation | None:
    """The [presentation] table."""
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise SpecRefusal("[presentation] must be a table", "presentation")
    try:
        return presentation_from_plain(plain)
    except InputError as error:
        place = (error.field,) if error.field in PRESENTATION_KEYS else ()
        raise SpecRefusal.of("[presentation]", error, "presentation", *place) from None


def publication_table(plain: Any) -> Publication | None:
    """The [publication] table: what the publisher says."""
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise SpecRefusal("[publication] must be a table", "publication")
    try:
        return publication_from_plain(plain)
    except InputError as error:
        place = (error.field,) if error.field in PUBLICATION_KEYS else ()
        raise SpecRefusal.of("[publication]", error, "publication", *place) from None
