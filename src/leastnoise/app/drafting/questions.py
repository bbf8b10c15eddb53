"""The questions that `leastnoise init` asks before it drafts a specification."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from leastnoise.app.drafting.columns import Column, closest_name, is_identifier
from leastnoise.app.drafting.draft import KINDS, TABLES, Wishes
from leastnoise.core.printable import printable

T = TypeVar("T")

# Takes a question and its default ("" for none) and returns the answer.
Ask = Callable[[str, str], str]
Say = Callable[[str], None]

_LETTERS = {"c": "named", "w": "whole", "m": "measured", "t": "truth", "d": "date"}


def ask_wishes(columns: Sequence[Column], ask: Ask, say: Say) -> Wishes:
    """The answers of a user at a terminal; repeats each question until its answer is valid."""
    names = [column.name for column in columns]
    say(f"Columns: {', '.join(map(printable, names))}")
    several = _asked(ask, say, "Can one person have several records? y or n", "n", _yes)
    person, records = None, 1
    if several:
        likely = next(filter(is_identifier, names), names[0])
        person = _asked(
            ask, say, "Which column identifies the person?", likely, lambda text: column_named(text, names)
        )
        records = ask_records(ask, say)
    rest = [name for name in names if name != person]
    telling = [name for name in rest if is_identifier(name)]
    if telling:
        say(
            f"  {', '.join(map(printable, telling))}: looks like an identifier, by its name, and is left out "
            "unless you name it"
        )
    chosen = _asked(
        ask,
        say,
        "Which columns are published? Names separated by commas, or all",
        "all",
        lambda t: _columns(t, rest),
    )
    kinds = {}
    for column in columns:
        if column.name in chosen and not column.kind:
            question = (
                f"{printable(column.name)}: c(ategories), w(hole), m(easured), t(rue or false), d(ates) "
                "or ? for later"
            )
            kinds[column.name] = _asked(ask, say, question, "?", _kind)
    numbered = dict(enumerate(TABLES, start=1))
    listed = ", ".join(f"{number} {TABLES[key]}" for number, key in numbered.items())
    tables = _asked(ask, say, f"What is published? {listed}", "1", lambda text: _numbered(text, numbered))
    question = "Which standard error must every count have at most? A number, or none to set epsilon"
    stderr = _asked(ask, say, question, "none", _stderr)
    epsilon, delta = 1.0, 1e-6
    if stderr is None:
        epsilon = _asked(ask, say, "epsilon", "1.0", _positive)
        delta = _asked(ask, say, "delta, 0 for pure privacy", "1e-6", _chance)
    left_out = frozenset(name for name in rest if name not in chosen and name not in telling)
    named = frozenset(name for name in chosen if name in telling)
    known = {name: kind for name, kind in kinds.items() if kind}
    return Wishes(known, left_out, person, records, tables, epsilon, delta, stderr, named)


def ask_records(ask: Ask, say: Say) -> int:
    """How many records of one person count at most; without a default, which could drop records silently."""
    say("  Records of one person beyond this number are left out; the noise grows with it.")
    return _asked(ask, say, "How many records of one person count at most?", "", _whole)


def _asked(ask: Ask, say: Say, question: str, default: str, read: Callable[[str], T]) -> T:
    while True:
        try:
            return read(ask(question, default).strip())
        except ValueError as error:
            say(f"  {error}")


def _yes(text: str) -> bool:
    if text.lower() in ("y", "yes"):
        return True
    if text.lower() in ("n", "no"):
        return False
    raise ValueError("please type y or n")


def column_named(text: str, names: Sequence[str]) -> str:
    """The column of that name.

    Raises:
        ValueError: if there is none, with the name that was probably meant.
    """
    if text not in names:
        close = closest_name(text, names)
        hint = "names are spelled as in the table" if close is None else f"did you mean {close!r}?"
        raise ValueError(f"there is no column {text!r}; {hint}")
    return text


def _columns(text: str, names: Sequence[str]) -> list[str]:
    if text == "all":
        return [name for name in names if not is_identifier(name)]
    chosen = [column_named(part.strip(), names) for part in text.split(",") if part.strip()]
    if not chosen:
        raise ValueError("please name at least one")
    return chosen


def _kind(text: str) -> str:
    if text == "?":
        return ""
    if text.lower() not in (*_LETTERS, *KINDS.values()):
        raise ValueError("please type c, w, m, t, d or ?")
    return _LETTERS[text[0].lower()]


def _numbered(text: str, numbered: dict[int, str]) -> str:
    if not text.isdecimal() or int(text[:9]) not in numbered:
        raise ValueError(f"please type a number from 1 to {len(numbered)}")
    return numbered[int(text)]


def _whole(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) < 10**6:
        raise ValueError("please type a whole number, 1 or more")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("please type a positive number")
    return number


def _chance(text: str) -> float:
    if text in ("0", "0.0"):
        return 0.0
    number = _positive(text)
    if number >= 1:
        raise ValueError("please type a number below 1")
    return number


def _stderr(text: str) -> float | None:
    return None if text.lower() in ("none", "") else _positive(text)
