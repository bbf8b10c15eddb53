"""The table [not_counted] of a specification: whether to tell how many records no cell took; when to warn.

[not_counted]        # optional
measure = true       # false; or ["age", "sex"], to be told by attribute, with more noise
most    = 0.05       # the share of all records above which `check` fails and a release warns
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leastnoise.app.specification.toml_text import value_text
from leastnoise.core.errors import SpecError
from leastnoise.query import Schema
from leastnoise.release import USUAL_SHARE

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
