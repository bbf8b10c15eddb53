"""The [privacy] table of a specification: the goal, and whose record is whose."""

from __future__ import annotations

from typing import Any

from leastnoise.app.specification.optional_tables import SpecRefusal
from leastnoise.core.errors import InputError
from leastnoise.privacy import ADD_REMOVE, GDP, ZCDP, ApproxDP, Goal, PureDP, goal_from_dict

GOALS: dict[frozenset[str], type[Goal]] = {
    frozenset({"epsilon"}): PureDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"rho"}): ZCDP,
    frozenset({"mu"}): GDP,
}
# What a goal may hold besides its numbers, written only where it is not the default.
FURTHER = {"neighbours": str(ADD_REMOVE), "records_per_person": 1, "calibration": "exact"}
# What may stand beside a goal, or alone where targets take its place, and is no part of it.
PERSON = "person"
PERSON_UNKNOWN = "person_unknown"


def is_without_numbers(plain: dict[str, Any]) -> bool:
    """Whether the table names no budget."""
    return set(plain) <= {*FURTHER, PERSON, PERSON_UNKNOWN}


def check_without_numbers(plain: dict[str, Any]) -> None:
    """Refuse what only a goal can say: `design` finds the least μ for one record, added or removed."""
    for name, default in FURTHER.items():
        if plain.get(name, default) != default or isinstance(plain.get(name), bool):
            raise SpecRefusal(
                f"[privacy]: {name} = {plain[name]!r} needs a budget beside it; give an epsilon and a delta "
                "too, and leastnoise tradeoff says the least epsilon that meets the targets, to be put there",
                "privacy",
                name,
                given=plain[name],
            )


def person_of(plain: dict[str, Any]) -> tuple[str | None, tuple[str | int, ...]]:
    """The person's column, and the ids in it that stand for nobody in particular."""
    person = plain.get(PERSON)
    if PERSON in plain and (not isinstance(person, str) or not person):
        words = f"[privacy]: person must be the name of a column, in quotes, got {person!r}"
        raise SpecRefusal(words, "privacy", PERSON, given=person)
    unknown = plain.get(PERSON_UNKNOWN, [])
    is_list = isinstance(unknown, list) and all(type(one) in (str, int) for one in unknown)
    if not is_list or (unknown and person is None):
        words = (
            "[privacy]: person_unknown lists ids of the column that person names, as in "
            f'person = "patient_id" and person_unknown = ["unknown", 0]; got {unknown!r}'
        )
        raise SpecRefusal(words, "privacy", PERSON_UNKNOWN, given=unknown)
    return person, tuple(unknown)


def goal_of(given: dict[str, Any]) -> Goal:
    """The goal that the table names."""
    plain = {name: value for name, value in given.items() if name not in (PERSON, PERSON_UNKNOWN)}
    goal = GOALS.get(frozenset(plain) - set(FURTHER))
    if goal is None:
        raise SpecRefusal(
            "[privacy] must hold epsilon and delta, or epsilon, rho or mu alone (and may hold "
            "neighbours, records_per_person, person and person_unknown); it holds "
            f"{', '.join(map(repr, given))}",
            "privacy",
            given=sorted(given),
        )
    for name, value in plain.items():
        if name != "neighbours" and isinstance(value, str) and "/" not in value and name != "calibration":
            words = f"[privacy]: {name} must be a number, written without quotes, got {value!r}"
            raise SpecRefusal(words, "privacy", name, given=value)
    try:
        return goal_from_dict({"goal": goal.__name__, **plain})
    except InputError as error:
        place = () if error.field is None else (error.field,)
        raise SpecRefusal.of("[privacy]", error, "privacy", *place) from None
