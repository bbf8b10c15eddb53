"""The descriptor of a CSV file of answers, as CSV on the Web has it.

Reference:
    W3C (2015), Metadata Vocabulary for Tabular Data.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.release import Release
from leastnoise.report.dossier.facts import claim_of
from leastnoise.report.publication import Publication

_DESCRIPTIONS = {
    "query": "the batch that the row belongs to",
    "label": "what the row counts",
    "answer": "the noisy answer, as measured or post-processed",
    "unadjusted": "the answer before it was adjusted",
    "stderr": "the standard error of the noise",
    "lower": "the lower end of the interval",
    "upper": "the upper end of the interval",
    "note": "what has to be known about the row",
}
# Dublin Core's names for what a publisher says.
_TERMS = {
    "title": "dc:title",
    "publisher": "dc:publisher",
    "source": "dc:source",
    "period": "dc:temporal",
    "contact": "dcat:contactPoint",
    "licence": "dc:license",
    "date": "dc:issued",
}


def csv_metadata(
    release: Release, columns: Mapping[str, Any], answers: Path, publication: Publication
) -> str:
    """The text of ``NAME.csv-metadata.json`` for a CSV file of answers that was written already.

    Args:
        columns: what the file was made from.
        answers: the file.
    """
    with answers.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    names = identifiers(header)
    described = [
        _column(title, name, own, values)
        for title, name, (own, values) in zip(header, names, columns.items(), strict=True)
    ]
    said = {_TERMS[name]: text for name, text in publication.to_dict().items() if name in _TERMS}
    unit = [] if publication.unit is None else [f"Counted are {publication.unit}."]
    plain: dict[str, Any] = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": answers.name,
        **said,
        "dc:description": " ".join([*unit, claim_of(release).details]),
        "dialect": {"header": True, "encoding": "utf-8"},
        "tableSchema": {"columns": described},
    }
    return json.dumps(plain, indent=2, ensure_ascii=True) + "\n"


def _column(title: str, name: str, own: str, values: Any) -> dict[str, Any]:
    # An open end of an interval is written "inf", which is no number of XML Schema.
    is_number = isinstance(values, np.ndarray) and not np.isinf(values).any()
    described = {"name": name, "titles": title, "datatype": "number" if is_number else "string"}
    words = _DESCRIPTIONS.get(own)
    return described if words is None else described | {"dc:description": words}


def identifiers(titles: list[str]) -> list[str]:
    """Titles as names of letters, digits and underscores that begin with a letter, all different."""
    found: list[str] = []
    for title in titles:
        name = re.sub(r"[^A-Za-z0-9]+", "_", title).strip("_") or "column"
        name = name if name[0].isalpha() else f"c_{name}"
        own, number = name, 1
        while own.casefold() in {other.casefold() for other in found}:
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found
