"""What a publisher says about a publication: its title, source, period, unit, contact, licence and date.

Nothing of it is computed, and nothing is invented: what nobody said stays empty, and `missing` lists it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.notebook import NotebookValue

# Characters of one entry: a page of text.
_MAX_TEXT = 5_000


@dataclass(frozen=True, kw_only=True)
class Publication(NotebookValue):
    """What a publisher says about a publication; None for what was not said.

    Attributes:
        title: what the publication is called.
        publisher: who publishes it.
        source: where the records come from.
        period: the time that they are about.
        unit: what is counted, as in "persons" or "hospital stays".
        contact: whom to ask.
        licence: under which terms it may be used.
        date: the day of publication, as in "2026-03-15".

    Example:
        >>> Publication(title="Population by age", date="2026-03-15").missing()
        ('publisher', 'source', 'period', 'unit', 'contact', 'licence')
    """

    title: str | None = None
    publisher: str | None = None
    source: str | None = None
    period: str | None = None
    unit: str | None = None
    contact: str | None = None
    licence: str | None = None
    date: str | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            if not isinstance(value, str) or not value.strip() or len(value) > _MAX_TEXT:
                wanted = f"be a text of at most {_MAX_TEXT:,} characters"
                raise InputError.must(name, wanted, given=value if isinstance(value, str) else type(value))
        if self.date is not None and not _is_day(self.date):
            raise InputError.must("date", "be a day, as in '2026-03-15'", given=self.date)

    def to_dict(self) -> dict[str, str]:
        """What was said, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def missing(self) -> tuple[str, ...]:
        """What was not said."""
        return tuple(name for name, value in vars(self).items() if value is None)


PUBLICATION_KEYS = tuple(field.name for field in fields(Publication))


def publication_from_plain(plain: Mapping[str, Any]) -> Publication:
    """The publication that a specification describes.

    Raises:
        InputError: naming the entry and what must hold.
    """
    for name in plain:
        if name not in PUBLICATION_KEYS:
            raise InputError.unknown("entry", name, PUBLICATION_KEYS)
    # TOML knows dates; written without quotes they mean the same.
    is_day = type(plain.get("date")) is datetime.date
    return Publication(**(dict(plain) | ({"date": plain["date"].isoformat()} if is_day else {})))


def _is_day(text: str) -> bool:
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
