"""Declared cleaning as SQL of the embedded engine."""

from __future__ import annotations

from leastnoise.data.placement import CleaningRule, ValueKind
from leastnoise.query import BLANKS, CAPITALS, SMALL, THOUSANDS


def is_text(kind: str) -> bool:
    """Whether a column of this type holds text, which all steps of cleaning are for."""
    return kind == "VARCHAR" or kind.startswith("ENUM")


def literal(text: str) -> str:
    """SQL for a declared text, which the engine never parses: its bytes."""
    return f"decode(unhex('{text.encode().hex()}'))"


def trimmed(rule: CleaningRule, text: str) -> str:
    """SQL for a text without blanks at its ends, if they are to be removed."""
    return f"trim({text}, {literal(BLANKS)})" if rule.steps.trim else text


def folded(rule: CleaningRule, text: str) -> str:
    """SQL for a text as it is compared."""
    text = trimmed(rule, text)
    return f"translate({text}, '{CAPITALS}', '{SMALL}')" if rule.steps.ignore_case else text


def is_null_word(rule: CleaningRule, compared: str, kind: str) -> str:
    """SQL that tells whether a value that is there means that there is none."""
    found = [f"{compared} = {literal(word)}" for word in rule.nulls]
    found += [f"{compared} = ''"] if rule.steps.trim and is_text(kind) else []
    return f"coalesce({' OR '.join(found)}, false)" if found else "false"


def read_text(rule: CleaningRule, text: str, wanted: ValueKind) -> str:
    """SQL for the text that a value is read from, of text that is there."""
    if wanted == "text":
        return code(rule, folded(rule, text))
    text = trimmed(rule, text)
    if wanted == "day" or not rule.steps.has_marks:
        return text
    plain = text
    for mark in THOUSANDS.get(rule.steps.thousands or "", ""):
        plain = f"replace({plain}, {literal(mark)}, '')"
    plain = f"replace({plain}, '{rule.steps.decimal}', '.')"
    pattern = rule.steps.marked_number.replace("'", "''")
    return f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {plain} ELSE '?' END"


def code(rule: CleaningRule, text: str) -> str:
    """SQL for a text with zeros in front, if it is a code that is too short."""
    n_digits = rule.steps.digits
    if n_digits is None:
        return text
    is_short = f"regexp_full_match({text}, '[0-9]+') AND length({text}) < {n_digits}"
    return f"CASE WHEN {is_short} THEN lpad({text}, {n_digits}, '0') ELSE {text} END"


def with_synonyms(rule: CleaningRule, compared: str, value: str, kind: str) -> str:
    """SQL for a value, or for the declared one that a word means.

    Args:
        compared: the text of the value as it is compared.
        kind: the engine's type of the value.
    """
    if not rule.synonyms:
        return value
    meant = [
        f"WHEN {compared} = {literal(word)} THEN CAST({literal(str(own))} AS {kind})"
        for word, _, own in rule.synonyms
    ]
    return f"CASE {' '.join(meant)} ELSE {value} END"
