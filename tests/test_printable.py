"""Names in files: nothing that a terminal obeys, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import leastnoise as ln
from leastnoise.printable import no_formula, without_controls
from leastnoise.report import write_answers

# By Unicode's own list of what is ignored where it cannot be shown, and by what is white space.
IGNORED = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
IGNORED += [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0]
IGNORED += [
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]
BLANKS = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()] + [0x2800]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
UNSEEN = sorted({*IGNORED, *BLANKS, *CONTROLS})


def missed(guard: Callable[[str], str]) -> list[str]:
    """The formulas that a guard lets through."""
    texts = [f"{before}{sign}cmd()" for before in map(chr, UNSEEN) for sign in "=+-@"]
    texts += [f"\ufeff{before} {sign}1" for before in map(chr, UNSEEN[::7]) for sign in "=+-@"]
    return [text for text in texts if not guard(text).startswith("'")]


def test_formulas_are_neutralised_whatever_unseen_stands_before() -> None:
    assert len(UNSEEN) > 4_000
    assert missed(no_formula) == []
    # A guard that knows of spaces alone, as it was, lets most of them through.
    signs = ("=", "+", "-", "@", "\t", "\r", "\n")
    old = missed(lambda text: f"'{text}" if text.lstrip().startswith(signs) else text)
    assert len(old) > 10_000


def test_names_that_are_none_stay_as_they_are() -> None:
    for text in (
        "age 7",
        "",
        "\u00e9t\u00e9",
        "a=b",
        "x -1",
        "\u0645\u06cc\u200c\u062e",
        "\U0001f469\u200d\U0001f52c",
    ):
        assert no_formula(text) == text


@pytest.mark.parametrize("code", CONTROLS)
def test_controls_are_written_out(code: int) -> None:
    text = without_controls(f"a{chr(code)}b")
    assert chr(code) not in text and text.isascii() and text[0] + text[-1] == "ab"
    assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in no_formula(f"{chr(code)}=x"))


def test_answers_hold_no_control_and_no_formula(tmp_path: Path) -> None:
    kinds = ("\x1b[2Jred", "\u200b=cmd()", "two\nlines", "\u202eabc", "plain")
    schema = ln.Schema(kind=kinds)
    plan = ln.design(
        ln.assemble([ln.Marginal("kind", name="\u00ad@kinds\x07")], schema), ln.GDP(1), method="identity"
    )
    with pytest.warns(UserWarning, match="ledger"):
        release = ln.measure(plan, [1, 2, 3, 4, 5])
    path = write_answers(release, tmp_path / "answers.csv")
    text = path.read_bytes().decode("utf-8")
    assert not [c for c in text.replace("\r\n", "") if ord(c) in CONTROLS]
    with path.open(encoding="utf-8", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert "'\u200b=cmd()" in cells and "two\\nlines" in cells and "'\u00ad@kinds\\x07" in cells
