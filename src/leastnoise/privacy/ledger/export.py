"""A ledger as plain rows, for people and for other programs; never a stored answer."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leastnoise.core.directed import float_above
from leastnoise.core.errors import InputError
from leastnoise.core.printable import no_formulas
from leastnoise.core.whole_file import written_whole
from leastnoise.privacy.ledger.history import Entry


def rows_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """One row of plain values for every release, in order."""
    return [_row(entry) for entry in entries]


def write_rows(rows: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Write the rows of `rows_of` to a .csv or .jsonl file; returns its path.

    Raises:
        InputError: if the name ends otherwise.
    """
    target = Path(path)
    format = target.suffix.lower().removeprefix(".")
    if format not in ("csv", "jsonl"):
        raise InputError.must("path", "end in .csv or .jsonl", given=target.name)
    with written_whole(target) as temporary:
        temporary.write_bytes(rows_text(rows, format).encode("utf-8"))
    return target


def rows_text(rows: Sequence[Mapping[str, Any]], format: str) -> str:
    """The rows of `rows_of` as the text of a file, "csv" or "jsonl"."""
    if format == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, _COLUMNS)
    writer.writeheader()
    writer.writerows(map(no_formulas, rows))
    return stream.getvalue()


_COLUMNS = (
    "number",
    "at",
    "release_id",
    "noise",
    "unit",
    "charged",
    "charged_exactly",
    "by_itself_exactly",
    "neighbours",
    "records_per_person",
    "plan",
    "cells",
    "after",
    "table",
    "group",
    "stored",
    "bytes",
    "head",
)


def _row(entry: Entry) -> dict[str, Any]:
    charge = entry.charge
    values = (
        entry.number,
        entry.at,
        entry.release_id,
        charge.noise,
        charge.noise_kind.symbol,
        float_above(entry.charged),
        str(entry.charged),
        str(charge.per_person),
        charge.neighbours,
        charge.records_per_person,
        charge.plan_digest,
        charge.cells,
        " ".join(entry.after),
        None if entry.table is None else entry.table.label,
        entry.group,
        entry.is_stored,
        entry.stored.size if entry.stored is not None else None,
        entry.head,
    )
    return dict(zip(_COLUMNS, values, strict=True))
