"""Cleaning that would let more records count, chosen from a fixed list: never a value that a table holds.

Each rule is tried by counting again with it. So a proposal is one of the rules below, for one column, with
the number of records that would be read by it. That number is true: it is for the owner of the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leastnoise.core.errors import SchemaError
from leastnoise.data import ColumnFit, SchemaFit
from leastnoise.query import NORMAL_FORMS, Attribute, Schema

Steps = Mapping[str, Any]

# Words that statistical programs and spreadsheets write where there is no value.
NULL_WORDS = (
    "",
    "NA",
    "N/A",
    "n/a",
    "NaN",
    "nan",
    "NULL",
    "null",
    "None",
    "none",
    "-",
    "--",
    ".",
    "?",
    "#N/A",
)
_TRIM: tuple[Steps, ...] = ({"trim": True},)
_CASE: tuple[Steps, ...] = ({"ignore_case": True},)
_NULLS: tuple[Steps, ...] = ({"nulls": list(NULL_WORDS)},)
# Of rules that read as many records the first is proposed: 48,000 is forty-eight thousand wherever every
# number with a comma has three digits after it.
_MARKS: tuple[Steps, ...] = (
    {"thousands": ","},
    {"decimal": ","},
    {"thousands": " "},
    {"thousands": "'"},
    {"decimal": ",", "thousands": "."},
    {"decimal": ",", "thousands": " "},
)
_DATES: tuple[Steps, ...] = tuple(
    {"dates": [form]} for form in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d")
)
# Of each family one rule at most is proposed for a column, on top of those before.
_FAMILIES: tuple[tuple[Steps, ...], ...] = (_CASE, _NULLS, _MARKS, _DATES)


@dataclass(frozen=True)
class CleaningProposal:
    """Cleaning for one column.

    Attributes:
        column: its name.
        steps: the steps of `Cleaning`, with those that are declared already.
        n_more: how many more records have a declared value, or are known to have none. Not private.
    """

    column: str
    steps: Steps
    n_more: int


def cleaning_proposals(
    schema: Schema, fit: SchemaFit, fit_with: Callable[[Schema], SchemaFit]
) -> Iterator[CleaningProposal]:
    """Rules from the fixed list that would let more records count, at most one proposal for each column.

    Args:
        fit: how the table keeps to the schema as it is.
        fit_with: how it keeps to another schema, of one column.
    """
    for column in fit.columns:
        steps = left = None
        attribute, trouble = schema[column.name], _trouble(column)
        for best, found in _chosen(column.name, attribute, trouble, fit_with):
            steps, left = best, found
        if steps is not None and left is not None:
            yield CleaningProposal(column.name, steps, trouble - left)


def _chosen(
    name: str, attribute: Attribute, left: int, fit_with: Callable[[Schema], SchemaFit]
) -> Iterator[tuple[Steps, int]]:
    """The steps after each family that helps, and how many records are still not read."""
    declared = _declared(attribute)
    steps: Steps = declared
    for family in (_TRIM, _forms(attribute), *_FAMILIES, _digits(attribute)):
        tried: list[tuple[int, Steps]] = []
        for rule in family:
            schema = _cleaned(name, attribute, _with(steps, rule, attribute))
            if left and schema is not None and not set(rule) & set(declared):
                # Alone: a column's own numbers do not depend on others, and one column is read quickly.
                (found,) = fit_with(schema).columns
                tried.append((_trouble(found), _with(steps, rule, attribute)))
        # Of several that read as many records the first.
        least, best = min(tried, key=lambda pair: pair[0], default=(left, steps))
        if least < left:
            left, steps = least, best
            yield steps, left


def _trouble(column: ColumnFit) -> int:
    return column.n_unreadable + column.n_undeclared


def _declared(attribute: Attribute) -> dict[str, Any]:
    return {} if attribute.clean is None else attribute.clean.to_dict()


def _forms(attribute: Attribute) -> tuple[Steps, ...]:
    """Normal forms of Unicode, for names that are text: of ASCII alone NFC makes nothing."""
    values: Any = getattr(attribute, "values", ())
    if attribute.kind not in ("categories", "hierarchy") or not isinstance(values[0], str):
        return ()
    return tuple(
        {"normalise": form}
        for form in NORMAL_FORMS
        if form != "NFC" or not all(value.isascii() for value in values)
    )


def _digits(attribute: Attribute) -> tuple[Steps, ...]:
    """Codes of digits, all as long as each other, whose zeros in front may be lost."""
    values: Any = getattr(attribute, "values", ())
    if attribute.kind not in ("categories", "hierarchy") or not isinstance(values[0], str):
        return ()
    lengths = {len(value) for value in values}
    is_code = len(lengths) == 1 and all(value.isascii() and value.isdecimal() for value in values)
    return ({"digits": len(values[0])},) if is_code else ()


def _with(steps: Steps, rule: Steps, attribute: Attribute) -> Steps:
    """The steps with a rule; of words that mean nothing those alone that are no declared value."""
    if "nulls" not in rule:
        return {**steps, **rule}
    named = getattr(attribute, "values", ()) if attribute.kind in ("categories", "hierarchy") else ()
    folded = {str(value).casefold().strip() for value in named}
    return {**steps, "nulls": [word for word in rule["nulls"] if word.casefold() not in folded]}


def _cleaned(name: str, attribute: Attribute, steps: Steps) -> Schema | None:
    """A schema of this attribute alone with other cleaning; None if its values allow no such."""
    try:
        return Schema.from_dict({name: attribute.to_dict() | {"clean": dict(steps)}})
    except SchemaError:
        return None
