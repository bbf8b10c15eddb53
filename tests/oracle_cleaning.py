"""What a cleaned value is, by plain loops over letters: what the tests of cleaning are held against."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pyarrow
import pyarrow.compute

from leastnoise import Bins, Categories, Cleaning, Integers, Periods
from oracle_dates import day_of_text

# Unicode's White_Space with U+FEFF, letter by letter.
BLANK = {*"\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff", *map(chr, range(0x2000, 0x200B))}
ASCII = {chr(65 + k): chr(97 + k) for k in range(26)}
GROUPS = {",": ",", ".": ".", " ": " \xa0\u2009\u202f", "'": "'’", None: ""}


def strip(text: str) -> str:
    letters = list(text)
    while letters and letters[0] in BLANK:
        letters.pop(0)
    while letters and letters[-1] in BLANK:
        letters.pop()
    return "".join(letters)


def lower(text: str) -> str:
    return "".join(ASCII.get(letter, letter) for letter in text)


def normal(text: str, form: str | None) -> str:
    """The text in a normal form, by PyArrow's tables of Unicode; the library has Python's."""
    if form is None or len(text) > 1_000:
        return text
    return str(pyarrow.compute.utf8_normalize(pyarrow.array([text]), form)[0].as_py())


def number(text: str, decimal: str, thousands: str | None) -> float | None:
    """The number that a text writes with these marks; None if it is none."""
    if decimal == "." and thousands is None:
        return plain_number(text)
    body = text[1:] if text[:1] in ("+", "-") else text
    if body in ("inf", "Inf", "infinity", "Infinity"):
        return plain_number(text)
    mantissa, power = body, ""
    for letter in "eE":
        if letter in body:
            mantissa, power = body.split(letter, 1)
            power = "e" + power
            break
    whole, mark, fraction = mantissa.partition(decimal)
    if any(not "0" <= letter <= "9" for letter in fraction):
        return None
    marks = GROUPS[thousands]
    if any(letter in marks for letter in whole):
        for letter in marks:
            whole = whole.replace(letter, "_")
        first, *rest = whole.split("_")
        if not 1 <= len(first) <= 3 or any(len(group) != 3 for group in rest):
            return None
        whole = "".join([first, *rest])
    if any(not "0" <= letter <= "9" for letter in whole):
        return None
    return plain_number(
        ("-" if text.startswith("-") else "") + whole + ("." if mark else "") + fraction + power
    )


def plain_number(text: str) -> float | None:
    if not text or any(letter not in "0123456789+-.eEinftyI" for letter in text) or "nan" in text.lower():
        return None
    if (
        text.lower().lstrip("+-") in ("inf", "infinity")
        and text.lstrip("+-")[1:] != text.lstrip("+-")[1:].lower()
    ):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def cell(value: Any, attribute: Any, clean: dict[str, Any]) -> int | None:
    """The cell of a text or null under cleaning, for attributes whose policies are all "other"."""
    other = attribute.n_values
    if value is None:
        return other
    text = strip(value) if clean.get("trim") else value
    if clean.get("trim") and not text:
        return other
    small: Callable[[str], str] = lower if clean.get("ignore_case") else str
    strip_word = strip if clean.get("trim") else str
    form = clean.get("normalise")

    def fold(word: str) -> str:
        return normal(small(strip_word(normal(strip_word(word), form))), form)

    if fold(text) in [fold(strip_word(word)) for word in clean.get("nulls", [])]:
        return other
    for word, meant in dict(clean.get("synonyms", {})).items():
        if fold(text) == fold(strip_word(word)):
            return attribute.position(meant)
    if isinstance(attribute, Categories):
        code = fold(text)
        digits = clean.get("digits", 0)
        if code and all("0" <= letter <= "9" for letter in code):
            code = "0" * max(digits - len(code), 0) + code
        named = [fold(name) for name in attribute.values]
        return named.index(code) if code in named else other
    if isinstance(attribute, Periods):
        day = _day(text, clean.get("dates", []), attribute)
        label = None if day is None else day.isoformat()[:7]
        return attribute.values.index(label) if label in attribute.values else other
    found = number(text, clean.get("decimal", "."), clean.get("thousands"))
    if found is None:
        return other
    if isinstance(attribute, Integers):
        return attribute.values.index(int(found)) if found in attribute.values else other
    inside = [
        i
        for i, (a, b) in enumerate(zip(attribute.edges, attribute.edges[1:], strict=False))
        if a <= found < b
    ]
    return inside[0] if inside else other


def _day(text: str, formats: list[str], attribute: Periods) -> date | None:
    for form in formats:
        # Python's own reader takes blanks, other digits, and "2026031" for the first of March.
        has_all_digits = form != "%Y%m%d" or len(text) == 8
        if text.isascii() and text.count(" ") == form.count(" ") and has_all_digits:
            try:
                return datetime.strptime(text, form).date()
            except ValueError:
                continue
    return day_of_text(text, attribute.by, attribute.zone)


OTHER: dict[str, Any] = {"null": "other", "outside": "other", "other": "none"}
CASES: list[tuple[Callable[[Cleaning], Any], dict[str, Any]]] = [
    (
        lambda clean: Categories(["F", "M", "É", "a b"], **OTHER, clean=clean),
        {
            "trim": True,
            "ignore_case": True,
            "nulls": ["NA", "n/a "],
            "synonyms": {"female": "F", " Man": "M"},
        },
    ),
    (lambda clean: Categories(["F", "M"], **OTHER, clean=clean), {"trim": True}),
    (lambda clean: Categories(["F", "m"], **OTHER, clean=clean), {"ignore_case": True, "nulls": [""]}),
    (
        lambda clean: Categories(["É", "e", "Å", "ﬁ", "h\u0331", "한", "a b", "m2"], **OTHER, clean=clean),
        {"normalise": "NFC", "trim": True, "nulls": ["né"], "synonyms": {"e\u0301": "É", "e\u0323": "e"}},
    ),
    (
        lambda clean: Categories(["É", "F", "fi", "H\u0331", "한", "a b", "m2"], **OTHER, clean=clean),
        {"normalise": "NFKC", "trim": True, "ignore_case": True, "nulls": ["n/a", "né"]},
    ),
    (
        lambda clean: Categories(["É", "F", "a b", "12"], **OTHER, clean=clean),
        {"normalise": "NFKC", "digits": 2},
    ),
    (
        lambda clean: Integers(range(0, 60), **OTHER, clean=clean),
        {"normalise": "NFKC", "trim": True, "nulls": ["né"], "synonyms": {"cinquième": 5}},
    ),
    (
        lambda clean: Categories(["00012", "01234", "12345"], **OTHER, clean=clean),
        {"trim": True, "digits": 5},
    ),
    (
        lambda clean: Integers(range(0, 2_000), **OTHER, clean=clean),
        {"trim": True, "thousands": ",", "nulls": ["-9", "99"], "synonyms": {"65+": 65, "none": 0}},
    ),
    (
        lambda clean: Bins([0, 0.5, 1_000, 50_000, 1e9], **OTHER, clean=clean),
        {"trim": True, "decimal": ",", "thousands": ".", "nulls": ["-"]},
    ),
    (lambda clean: Bins([0, 0.5, 1_000, 1e9], **OTHER, clean=clean), {"decimal": ","}),
    (lambda clean: Bins([0, 0.5, 1_000, 1e9], **OTHER, clean=clean), {"thousands": " ", "trim": True}),
    (
        lambda clean: Periods("2026-01", "2026-12", **OTHER, clean=clean),
        {"trim": True, "dates": ["%d.%m.%Y", "%m/%d/%Y", "%d %b %Y", "%Y%m%d"], "nulls": ["never"]},
    ),
]
_TEXTS = [
    *(
        "F",
        "f",
        "M",
        "m",
        "É",
        "é",
        "female",
        "FEMALE",
        "Man",
        "man",
        "a b",
        "A B",
        "a  b",
        "NA",
        "na",
        "n/a",
    ),
    *(
        "",
        "12",
        "012",
        "00012",
        "1234",
        "01234",
        "12345",
        "123456",
        "1234.0",
        "١٢",
        "-12",
        "65+",
        "none",
        "-9",
    ),
    *(
        "99",
        "1,234",
        "1,23",
        "12,34",
        "1,234,567",
        "1.234",
        "1.234,5",
        "1.234.567,25",
        "0,5",
        ",5",
        "5,",
        "1,5e3",
    ),
    *(
        "48.000",
        "48000",
        "48 000",
        "48\xa0000",
        "48\u202f000",
        "1 2",
        "+1,5",
        "-0",
        "1e3",
        "inf",
        "-Inf",
        "nan",
    ),
    *(
        "31.12.2026",
        "1.2.2026",
        "01.02.2026",
        "31.02.2026",
        "2/1/2026",
        "12/31/2026",
        "13/1/2026",
        "1 Mar 2026",
    ),
    *(
        "01 MAR 2026",
        "20260315",
        "2026-03-15",
        "2026-03",
        "2026031",
        "never",
        "-",
        "15 März 2026",
        "?",
        "٣.٣.٢٠٢٦",
    ),
    *(
        "E\u0301",
        "e\u0301",
        "\u212b",
        "A\u030a",
        "ﬁ",
        "FI",
        "h\u0331",
        "H\u0331",
        "ẖ",
        "\u1112\u1161\u11ab",
        "한",
    ),
    *(
        "a\xa0b",
        "Ｆ",
        "ｆ",
        "ne\u0301",
        "né",
        "NÉ",
        "5²",
        "m²",
        "１２",
        "\u037e",
        "e\u0323",
        "ẹ",
        "e\u0301\u0323",
        "cinquie\u0300me",
        "e" + 1_100 * "\u0301",
        "´",
    ),
]


def odd(rng: random.Random) -> str | None:
    """A text with odd ends, or none."""
    if rng.random() < 0.05:
        return None
    text = rng.choice(_TEXTS)
    ends = ["", "", "", " ", "\t", "\xa0", "\u3000", "\ufeff", "\n", " \r\n", "\u2028", "\u200b", "\x1c", "x"]
    return rng.choice(ends) + text + rng.choice(ends)
