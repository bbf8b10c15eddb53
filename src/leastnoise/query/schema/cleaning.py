"""Declared cleaning: what is done to the text of one value before it is placed, the same for every record.

Nothing is guessed from the table, and no record is looked at to clean another. The steps, in order:

    trim           blanks at both ends are removed: the characters of Unicode's White_Space, and U+FEFF. What
                   is empty then is a null.
    normalise      text that Unicode writes in several ways is compared in one of its normal forms, NFC or
                   NFKC, where nulls, synonyms and categories are compared: the letter é is one character or
                   an e and an accent. Numbers and dates are read as they are written: 5² is not 52.
    ignore_case    A to Z equal a to z where nulls, synonyms and categories are compared; no other letters
                   change, because languages do not agree on theirs.
    nulls          words that mean that there is no value
    synonyms       words that mean a declared value
    digits         digits alone, fewer than these, get zeros in front: 1234 is the code 01234
    decimal,       a number is read with these marks and with no others: "48.000,5" is 48000.5 if they are
    thousands      "," and "."; thousands stand in groups of three, or are not marked at all
    dates          further forms of dates, such as "%d.%m.%Y"

Values that are no text, such as the numbers in a Parquet file, are compared with nulls and synonyms as they
are written out, get zeros in front where codes are declared, and are else taken as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from leastnoise.core.errors import SchemaError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.query.schema.calendar import form_of

# Unicode's White_Space, and the byte order mark, which files that were joined hold in their middle.
BLANKS = (
    "".join(map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]))
    + "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SMALL = CAPITALS.lower()
_TO_SMALL = str.maketrans(CAPITALS, SMALL)

# The characters that a declared mark between thousands stands for.
THOUSANDS = {
    ",": ",",
    ".": ".",
    "'": "'\u2019",
    "_": "_",
    " ": " \u00a0\u2009\u202f",
}
_MAX_DIGITS = 100

# What text may be compared in; both leave ASCII as it is.
NORMAL_FORMS = ("NFC", "NFKC")
# Characters of a text that is normalised, at most; longer ones are compared as they are. Long runs of accents
# take quadratic time: 1,000 of them half a millisecond, 20,000 a fifth of a second.
MAX_NORMALISED = 1_000


@dataclass(frozen=True)
class Cleaning(NotebookValue):
    """What is done to the text of a value before it is placed.

    Args:
        trim: whether to remove blanks at both ends; a text that is then empty is a null.
        ignore_case: whether A to Z equal a to z. Other letters are compared as they are.
        nulls: words that stand for a missing value, as in ``["NA", "."]``.
        synonyms: words that stand for a declared value, as in ``{"female": "F", "65+": 65}``.
        digits: the length of a code: shorter ones are padded with leading zeros. None for no padding.
        decimal: the decimal mark, "." or ",".
        thousands: the thousands separator: one of , . ' _ and a blank (which stands for narrow and no-break
            spaces too). With None, a text with such a mark is not a number.
        dates: date formats to read in addition to ISO 8601, as in ``["%d.%m.%Y"]``.
        normalise: "NFC" makes text equal that Unicode calls the same, as é in one character or two; "NFKC"
            also what is the same but for its style, as wide letters, ligatures and no-break spaces. Done
            where nulls, synonyms and categories are compared, to texts of at most 1,000 characters. None
            compares characters as they are.

    Example:
        >>> from leastnoise import Categories
        >>> clean = Cleaning(trim=True, ignore_case=True, synonyms={"female": "F"})
        >>> sex = Categories(["F", "M"], clean=clean)
        >>> [sex.place(value) for value in (" f", "Female ", "X")]
        [0, 0, None]
    """

    _unlisted = unlisted("code folded has_marks marked_number number only trimmed")

    trim: bool = False
    ignore_case: bool = False
    nulls: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, Any], ...] = ()
    digits: int | None = None
    decimal: str = "."
    thousands: str | None = None
    dates: tuple[str, ...] = ()
    normalise: str | None = None

    def __post_init__(self) -> None:
        for name in ("trim", "ignore_case"):
            if not isinstance(getattr(self, name), bool):
                raise SchemaError.must(name, "be true or false", given=getattr(self, name))
        if self.normalise not in (None, *NORMAL_FORMS):
            raise SchemaError.must("normalise", "be 'NFC' or 'NFKC'", given=self.normalise)
        for name in ("nulls", "dates"):
            given = getattr(self, name)
            if (
                isinstance(given, str)
                or not isinstance(given, Sequence)
                or not all(type(w) is str for w in given)
            ):
                raise SchemaError.must(name, "be a list of texts", given=given)
            object.__setattr__(self, name, tuple(given))
        given = self.synonyms
        pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
        if not all(isinstance(pair, tuple) and len(pair) == 2 and type(pair[0]) is str for pair in pairs):
            raise SchemaError.must("synonyms", "say of texts which declared value they mean", given=given)
        for word in (*self.nulls, *(word for word, _ in pairs)):
            if not word.isprintable() and word.strip(BLANKS):
                raise SchemaError.must("clean", "name words of printable characters", given=word)
        # In one order, so that equal cleaning has one digest.
        object.__setattr__(self, "synonyms", tuple(sorted(pairs, key=lambda pair: pair[0])))
        if self.digits is not None and (type(self.digits) is not int or not 1 <= self.digits <= _MAX_DIGITS):
            raise SchemaError.must("digits", f"be a whole number from 1 to {_MAX_DIGITS}", given=self.digits)
        if self.decimal not in (".", ","):
            raise SchemaError.must("decimal", "be '.' or ','", given=self.decimal)
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise SchemaError.must("thousands", f"be one of {list(THOUSANDS)}", given=self.thousands)
        if self.thousands == self.decimal:
            raise SchemaError.must("thousands", "differ from the decimal mark", given=self.thousands)
        for form in self.dates:
            form_of(form)

    # ---------------------------------------------------------------- the steps

    def trimmed(self, text: str) -> str:
        """The text without the blanks at its ends, if `trim` is set.

        Args:
            text: the text of one value.
        """
        return text.strip(BLANKS) if self.trim else text

    def folded(self, text: str) -> str:
        """The text in the form in which it is compared.

        Args:
            text: the text of one value.
        """
        text = self.trimmed(text)
        if self.normalise is not None:
            # Blanks that a normal form puts at the ends are removed too.
            text = self.trimmed(self._normal(text))
        if not self.ignore_case:
            return text
        text = text.translate(_TO_SMALL)
        # A small letter and an accent may be one character where the capital and the accent are two.
        return text if self.normalise is None else self._normal(text)

    def _normal(self, text: str) -> str:
        if text.isascii() or len(text) > MAX_NORMALISED:
            return text
        return unicodedata.normalize("NFC" if self.normalise == "NFC" else "NFKC", text)

    def code(self, text: str) -> str:
        """The text in the form in which it is compared, with leading zeros if it is a code.

        Args:
            text: the text of one value.
        """
        return text.zfill(self.digits) if self.digits and re.fullmatch("[0-9]+", text) else text

    @property
    def has_marks(self) -> bool:
        """Whether numbers have a decimal comma or a thousands separator."""
        return self.decimal != "." or self.thousands is not None

    @property
    def marked_number(self) -> str:
        """The regular expression of a number with the declared marks."""
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = f"([0-9]+|[0-9]{{1,3}}([{THOUSANDS[self.thousands]}][0-9]{{3}})+)"
        finite = f"({whole}([{self.decimal}][0-9]*)?|[{self.decimal}][0-9]+)([eE][+-]?[0-9]+)?"
        return f"[+-]?({finite}|[Ii]nf(inity)?)"

    def number(self, text: str) -> str | None:
        """A number rewritten without the declared marks; None if the text is not a number.

        Args:
            text: the text of one value.
        """
        if not self.has_marks:
            return text
        if not re.fullmatch(self.marked_number, text):
            return None
        for mark in THOUSANDS.get(self.thousands or "", ""):
            text = text.replace(mark, "")
        return text.replace(self.decimal, ".")

    # ---------------------------------------------------------------- as others hold it

    def to_dict(self) -> dict[str, Any]:
        """The arguments that differ from their defaults, as plain values."""
        plain: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        if self.synonyms:
            plain["synonyms"] = dict(self.synonyms)
        return plain

    def __repr__(self) -> str:
        return f"Cleaning({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def only(self, names: Sequence[str]) -> Cleaning:
        """A cleaning with only these steps.

        Args:
            names: the arguments of `Cleaning` to keep, such as ``["trim", "nulls"]``.
        """
        return Cleaning(**{name: getattr(self, name) for name in names})


def cleaning_from(given: Any) -> Cleaning | None:
    """The cleaning that is declared by a `Cleaning`, or by a dict of its arguments; None for none."""
    if given is None or isinstance(given, Cleaning):
        return None if given == Cleaning() else given
    if not isinstance(given, Mapping):
        raise SchemaError.must("clean", "be a Cleaning, or a table of its settings", given=type(given))
    unknown = sorted(set(map(str, given)) - {field.name for field in fields(Cleaning)})
    if unknown:
        raise SchemaError.unknown("cleaning", unknown[0], [field.name for field in fields(Cleaning)])
    return cleaning_from(Cleaning(**given))
