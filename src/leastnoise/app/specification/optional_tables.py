"""What a specification may say besides schema, privacy and queries, and how any table is refused.

The tables [design], [presentation], [publication] and [not_counted]:

    [not_counted]        # optional
    measure = true       # false; or ["age", "sex"], to be told by attribute, with more noise
    most    = 0.05       # the share of all records above which `check` fails and a release warns

And code lists that [schema] names, replaced by what the file holds:

    region = { codes = "regions.csv", code = "id", label = "name", parent = "part_of", other = "elsewhere" }

The columns are "code", "label" and "parent" unless others are named. With a column of parents the attribute
is a hierarchy, else categories. A plan made from the specification holds the codes and the labels
themselves and needs no file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leastnoise.app.specification.toml_text import value_text
from leastnoise.core.errors import InputError, SchemaError, SpecError
from leastnoise.query import Categories, Hierarchy, Schema, objective_from_dict, read_code_list
from leastnoise.release import PRESENTATION_KEYS, USUAL_SHARE, Presentation, presentation_from_plain
from leastnoise.report import PUBLICATION_KEYS, Publication, publication_from_plain

DESIGN = (
    *("objective", "relative_to", "method", "options", "over", "tol", "time_limit", "backend"),
    "accept_gap",
)


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
        if name in ("tol", "time_limit", "accept_gap"):
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


CODES = "codes"
# The columns of the file that [schema] may name.
COLUMNS = ("code", "label", "parent")


def with_code_list(given: Any, folder: Path) -> Any:
    """An attribute of [schema], with its code list read where it names one.

    Args:
        folder: where files are looked for; that of the specification.

    Raises:
        SchemaError: if the file is no code list.
    """
    if not isinstance(given, dict) or CODES not in given:
        return given
    named = {key: value for key, value in given.items() if key in (CODES, *COLUMNS)}
    for key, value in named.items():
        if not isinstance(value, str) or not value:
            raise SchemaError.must(key, "be a text", given=value)
    own = {key: value for key, value in given.items() if key not in named}
    twice = sorted({"categories", "hierarchy", "labels", "range", "bins", "periods"} & own.keys())
    if twice:
        raise SchemaError.must(CODES, "stand alone: the file says which values there are", given=twice)
    found = read_code_list(folder / named.pop(CODES), **named)
    if found.parents:
        plain: dict[str, Any] = Hierarchy.from_parents(found.parents, labels=found.labels).to_dict()
    else:
        plain = Categories(found.codes, labels=found.labels).to_dict()
    return plain | own


NOT_COUNTED = "not_counted"


@dataclass(frozen=True)
class NotCountedTable:
    """What a specification says about records that match no declared value.

    Attributes:
        measure: as ``not_counted`` of `measure`; None measures it wherever that is free.
        most: the share of all records in no cell above which `check` fails and a release warns.
    """

    measure: bool | tuple[str, ...] | None = None
    most: float = USUAL_SHARE

    def to_toml(self) -> list[str]:
        """The table as lines of text, in which only what was said is written."""
        said: dict[str, Any] = {}
        if self.measure is not None:
            said["measure"] = self.measure if isinstance(self.measure, bool) else list(self.measure)
        if self.most != USUAL_SHARE:
            said["most"] = self.most
        lines = [f"{name} = {value_text(value)}" for name, value in said.items()]
        return ["", f"[{NOT_COUNTED}]", *lines] if lines else []


def not_counted_of(plain: Any, schema: Schema) -> NotCountedTable:
    """The table, read from what TOML holds; {} where it is left out.

    Raises:
        SpecError: naming the key and what must hold; its ``field`` is the key within the table.
    """
    if not isinstance(plain, dict) or not set(plain) <= {"measure", "most"}:
        raise SpecError(f"[{NOT_COUNTED}] may hold measure and most", field="", given=plain)
    measure, most = plain.get("measure"), plain.get("most", USUAL_SHARE)
    is_list = isinstance(measure, list) and _are_different_names(measure, schema)
    if measure is not None and not isinstance(measure, bool) and not is_list:
        raise SpecError(
            f"[{NOT_COUNTED}]: measure must be true, false or a list of attributes, got {measure!r}",
            field="measure",
            given=measure,
        )
    if type(most) not in (int, float) or not 0 <= most <= 1:
        raise SpecError(
            f"[{NOT_COUNTED}]: most must be a share between 0 and 1, got {most!r}", field="most", given=most
        )
    return NotCountedTable(tuple(measure) if isinstance(measure, list) else measure, float(most))


def _are_different_names(listed: Sequence[Any], schema: Schema) -> bool:
    names = [name for name in listed if isinstance(name, str) and name in schema.names]
    return len(set(names)) == len(listed)
