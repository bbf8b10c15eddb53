"""Declared cleaning in Ibis expressions."""

from __future__ import annotations

from collections.abc import Sequence

from leastnoise.data.dialects import Dialect, Expression
from leastnoise.data.placement import CleaningRule, ValueKind
from leastnoise.query import CAPITALS, SMALL, THOUSANDS


def trimmed(rule: CleaningRule, text: Expression, dialect: Dialect) -> Expression:
    """A text without blanks at its ends, if they are to be removed."""
    return dialect.trim(text) if rule.steps.trim else text


def folded(rule: CleaningRule, text: Expression) -> Expression:
    """A trimmed text as it is compared."""
    return text.translate(CAPITALS, SMALL) if rule.steps.ignore_case else text


def is_one_of(text: Expression, words: Sequence[str], dialect: Dialect) -> Expression:
    """Whether a text is one of some words, compared as bytes."""
    import ibis

    own = dialect.bytes_of(text)
    return ibis.or_(*(own == dialect.from_hex(ibis.literal(word.encode().hex())) for word in words))


def meant(rule: CleaningRule, text: Expression, dialect: Dialect) -> Expression:
    """The index of the declared value that a text means as a synonym, or null."""
    import ibis

    cases = [(is_one_of(text, [word], dialect), ibis.literal(i, "int64")) for word, i, _ in rule.synonyms]
    return ibis.cases(*cases, else_=ibis.null("int64"))


def read_text(rule: CleaningRule, text: Expression, wanted: ValueKind) -> Expression:
    """The text that a value is read from, of a trimmed one."""
    import ibis

    if wanted == "text":
        return code(rule, folded(rule, text))
    if wanted == "day" or not rule.steps.has_marks:
        return text
    plain = text
    for mark in THOUSANDS.get(rule.steps.thousands or "", ""):
        plain = plain.replace(mark, "")
    plain = plain.replace(rule.steps.decimal, ".")
    # Any other letter is in no number; "$" in a pattern may allow a line break after it.
    marks = THOUSANDS.get(rule.steps.thousands or "", "")
    is_number = ~text.re_search(f"[^0-9{marks}{rule.steps.decimal}eEinftyI+-]")
    is_number = is_number & text.re_search(f"^({rule.steps.marked_number})$")
    return is_number.ifelse(plain, ibis.literal("?"))


def code(rule: CleaningRule, text: Expression) -> Expression:
    """A text with zeros in front, if it is a code that is too short."""
    n_digits = rule.steps.digits
    if n_digits is None:
        return text
    is_short = ~text.re_search("[^0-9]") & (text.length() < n_digits) & (text.length() > 0)
    return is_short.ifelse(text.lpad(n_digits, "0"), text)
