"""Calendar functions of SQL: DATE_TRUNC and EXTRACT of a column that is declared as periods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from sqlglot import exp

from leastnoise.core.errors import QueryError
from leastnoise.query import (
    UNITS,
    Combination,
    ComparisonCondition,
    Condition,
    Periods,
    Schema,
    Unit,
    compare_numbers,
    day_of,
    days_named,
    first_day,
    period_label,
    period_number,
)

# Functions that are EXTRACT under another name.
_NAMED_PARTS = {exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month"}
# Parts of a date that EXTRACT gives, and how many of them a year has.
_PARTS = {"year": 1, "quarter": 4, "month": 12}


@dataclass(frozen=True)
class CalendarCall:
    """A call: the start of a period (DATE_TRUNC), or a number of a date (EXTRACT), of some column.

    Attributes:
        unit: the period or the number asked for, in lower case.
        column: what it is asked of.
        is_part: whether it is EXTRACT.
    """

    unit: str
    column: Any
    is_part: bool


@dataclass(frozen=True)
class CalendarGroup:
    """One value that a call has: itself, its label, and the condition for it."""

    value: date | int
    label: str
    condition: Condition


def calendar_call(node: Any) -> CalendarCall | None:
    """The call that an expression is, or None."""
    if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)):
        return CalendarCall(_unit_name(node.args.get("unit")), _uncast(node.this), False)
    if isinstance(node, exp.Extract):
        return CalendarCall(_unit_name(node.this), _uncast(node.expression), True)
    for kind, unit in _NAMED_PARTS.items():
        if isinstance(node, kind):
            return CalendarCall(unit, _uncast(node.this), True)
    return None


def _unit_name(node: Any) -> str:
    return str(getattr(node, "name", "") or node).lower()


def _uncast(node: Any) -> Any:
    """A column that a dialect or a careful person casts to a date first."""
    node = node.unnest()
    is_date = isinstance(node, (exp.Cast, exp.TsOrDsToDate)) and isinstance(node.this.unnest(), exp.Column)
    return node.this.unnest() if is_date else node


def date_constant(node: Any) -> str | None:
    """The text of DATE '2026-03-01' or TIMESTAMP '2026-03-01 00:00:00', None for anything else."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    if not node.to.is_type("date", "timestamp", "datetime", "timestamptz"):
        return None
    text = str(node.this.name)
    return text[:10] if text[10:] in (" 00:00:00", "T00:00:00", " 00:00") else text


def groups_of_call(call: CalendarCall, name: str, schema: Schema) -> list[CalendarGroup]:
    """Every value that a call has within the declared periods, in order.

    Raises:
        QueryError: if the column is not declared as periods, the unit is another, or cuts a period in two.
    """
    periods = schema[name]
    if not isinstance(periods, Periods):
        raise QueryError.must(name, "be declared as Periods to be cut by the calendar", given=type(periods))
    known: tuple[str, ...] = tuple(_PARTS) if call.is_part else UNITS
    if call.unit not in known:
        raise QueryError.must("unit", f"be one of {', '.join(known)}", given=call.unit)
    unit: Unit = next(own for own in UNITS if own == call.unit)
    starts = periods.starts
    found: dict[int, str] = {}
    for start, stop in pairwise(starts):
        number = period_number(unit, day_of(start))
        if stop > first_day(unit, number + 1):
            wanted = f"be declared by a unit that fits into a {unit}"
            raise QueryError.must(name, wanted, given=f"Periods by {periods.by}")
        found[number] = period_label(unit, number)
    if not call.is_part:
        return [
            CalendarGroup(day_of(first_day(unit, number)), label, ComparisonCondition(name, "==", label))
            for number, label in found.items()
        ]
    grouped: dict[int, list[Condition]] = {}
    for number, label in found.items():
        value = number if unit == "year" else number % _PARTS[unit] + 1
        grouped.setdefault(value, []).append(ComparisonCondition(name, "==", label))
    return [CalendarGroup(value, str(value), _any_of(grouped[value])) for value in sorted(grouped)]


def _any_of(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else Combination("or", tuple(conditions))


def is_satisfied(group: CalendarGroup, sign: str, constant: Any) -> bool:
    """Whether the value of a group compares so with a constant.

    Raises:
        QueryError: if a date is compared with something that is none, or a number with no number.
    """
    if isinstance(group.value, int):
        if isinstance(constant, str):
            raise QueryError.must("constant", "be a number beside EXTRACT", given=constant)
        return bool(compare_numbers(sign, group.value, constant))
    days = days_named(constant)
    if days is None:
        raise QueryError.must(
            "constant", "be a date beside DATE_TRUNC, as in DATE '2026-03-01'", given=constant
        )
    return bool(compare_numbers(sign, group.value, day_of(days[0])))
