"""The answers as SDMX-CSV 2.0, which statistical offices exchange.

    STRUCTURE,STRUCTURE_ID,ACTION,QUERY,CELL,SEX,OBS_VALUE,STDERR,LOWER_95,UPPER_95
    dataflow,AGENCY:ANSWERS(1.0),I,marginal by sex,sex F,F,1201.5,3.2,1195.2,1207.8

Dimensions are the batch, the row in it and every attribute that queries mention; "_T" stands where a row adds
up all values of one. Their values are labels: the file comes without a data structure definition, whose
agency only a person can name.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from leastnoise.core.printable import no_formula, without_controls
from leastnoise.release import Texts, in_unicode, interval_columns
from leastnoise.report.dossier.csv_metadata import identifiers

# What stands for an agency until a person names one.
AGENCY = "AGENCY"
_FLOW = "ANSWERS(1.0)"
_ALL = "_T"
_OWN = {"query": "QUERY", "label": "CELL", "answer": "OBS_VALUE"}
# What SDMX gives a meaning of its own.
_TAKEN = ["STRUCTURE", "STRUCTURE_ID", "ACTION", "QUERY", "CELL", "OBS_VALUE", "TIME_PERIOD"]


def sdmx_csv(columns: Mapping[str, Any], *, level: float) -> str:
    """The text of an SDMX-CSV file of all answers of a release, from the columns of its file of answers."""
    ends = interval_columns(level)
    others = [name for name in columns if name not in _OWN]
    shown = [ends.get(name, name).upper() for name in others]
    names = dict(zip(others, identifiers([*_TAKEN, *shown])[len(_TAKEN) :], strict=True)) | _OWN
    # Dimensions first, then the value, then what is said about it.
    attributes = [name for name in others if isinstance(columns[name], Texts)]
    rest = [name for name in others if name not in attributes]
    order = ["query", "label", *attributes, "answer", *rest]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["STRUCTURE", "STRUCTURE_ID", "ACTION", *(names[name] for name in order)])
    for row in zip(*(_texts(columns[name]) for name in order), strict=True):
        writer.writerow(["dataflow", f"{AGENCY}:{_FLOW}", "I", *row])
    return text.getvalue()


def _texts(values: Any) -> Iterator[str | None]:
    if isinstance(values, Texts):
        return values.changed(_cell).or_else(_ALL)
    if isinstance(values, np.ndarray):
        return ("" if math.isnan(value) else f"{value:.15g}" for value in values)
    return map(_cell, values)


def _cell(text: str) -> str:
    (shown,) = in_unicode({"cell": [no_formula(without_controls(str(text)))]})["cell"]
    return str(shown)
