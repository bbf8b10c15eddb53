"""The [privacy] table of a specification: the goal, and whose record is whose.

epsilon and delta          a budget; or epsilon, rho or mu alone
delta alone                with targets: the least epsilon that meets them, at this delta
neither                    with targets: the least mu that meets them
"""

from __future__ import annotations

from typing import Any

from leastnoise.app.specification.optional_tables import SpecRefusal
from leastnoise.core.errors import InputError
from leastnoise.privacy import ADD_REMOVE, GDP, ZCDP, ApproxDP, Goal, LeastLoss, PureDP, goal_from_dict

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


def privacy_of(plain: dict[str, Any], *, has_targets: bool) -> tuple[Goal | None, LeastLoss]:
    """The goal; and where targets take its place, for whom the least loss is sought.

    Args:
        has_targets: whether some query has a target.
    """
    numbers = set(plain) - {*FURTHER, PERSON, PERSON_UNKNOWN}
    if not has_targets or not numbers <= {"delta"}:
        return _goal(plain, has_targets=has_targets), LeastLoss()
    if plain.get("calibration", "exact") != "exact":
        words = "[privacy]: calibration is for an epsilon and a delta; with targets alone leave it out"
        raise SpecRefusal(words, "privacy", "calibration", given=plain["calibration"])
    given: dict[str, Any] = {
        name: plain[name] for name in ("delta", "neighbours", "records_per_person") if name in plain
    }
    _check_unquoted(given)
    try:
        if isinstance(given.get("delta"), str):
            # An exact fraction, read as a goal reads it.
            found = goal_from_dict({"goal": "ApproxDP", "epsilon": 1, "delta": given["delta"]})
            assert isinstance(found, ApproxDP)
            given["delta"] = found.delta
        return None, LeastLoss(**given)
    except InputError as error:
        raise _refused(error) from None


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


def _goal(given: dict[str, Any], *, has_targets: bool) -> Goal:
    """The goal that the table names."""
    plain = {name: value for name, value in given.items() if name not in (PERSON, PERSON_UNKNOWN)}
    goal = GOALS.get(frozenset(plain) - set(FURTHER))
    if goal is None:
        alone = frozenset(plain) - set(FURTHER) == {"delta"} and not has_targets
        hint = (
            ". delta alone asks for the least epsilon that meets the targets, and no query has one: give a "
            "query a target, such as stderr = 50 or within = 100, or give an epsilon"
        )
        raise SpecRefusal(
            "[privacy] must hold epsilon and delta, or epsilon, rho or mu alone (and may hold "
            "neighbours, records_per_person, person and person_unknown); it holds "
            f"{', '.join(map(repr, given))}{hint if alone else ''}",
            "privacy",
            given=sorted(given),
        )
    _check_unquoted(plain)
    try:
        return goal_from_dict({"goal": goal.__name__, **plain})
    except InputError as error:
        raise _refused(error) from None


def _check_unquoted(plain: dict[str, Any]) -> None:
    """Refuse a number in quotes, unless it is a fraction."""
    for name, value in plain.items():
        if name != "neighbours" and isinstance(value, str) and "/" not in value and name != "calibration":
            words = f"[privacy]: {name} must be a number, written without quotes, got {value!r}"
            raise SpecRefusal(words, "privacy", name, given=value)


def _refused(error: InputError) -> SpecRefusal:
    place = () if error.field is None else (error.field,)
    return SpecRefusal.of("[privacy]", error, "privacy", *place)
