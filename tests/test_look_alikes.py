"""Texts that look alike: `check` says so, messages spell them apart, and nothing is counted by looks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import QueryError
from leastnoise.core.look_alikes import escaped, look, look_alikes, told_apart


def checked(folder: Path, schema: str, table: str, *options: str) -> Any:
    spec, people = folder / "spec.toml", folder / "people.csv"
    spec.write_text(
        f"[schema]\n{schema}\n[privacy]\nepsilon = 1.0\n"
        '[[query]]\nkind = "marginal"\nattributes = ["town"]\n',
        encoding="utf-8",
    )
    people.write_text(table, encoding="utf-8")
    return CliRunner().invoke(app, ["check", str(spec), "--data", str(people), *options])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("é", "e\u0301"),
        ("한", "\u1112\u1161\u11ab"),
        ("Å", "\u212b"),
        ("a b", "a\xa0b"),
        ("Bern", "\uff22ern"),
        ("O'Hare", "O\u2019Hare"),
        ("a-b", "a\u2013b"),
        ("ab", "a\u200db"),
        ("MOCKBA", "\u041c\u041e\u0421\u041a\u0412\u0410"),
    ],
)
def test_texts_that_look_alike_are_known_and_told_apart(one: str, other: str) -> None:
    assert look(one) == look(other) and look_alikes([other, "x", one, other]) == [(other, one)]
    shown = told_apart([one, "x", other])
    assert len({text.encode("ascii") for text in shown}) == 3 and shown[1] == "'x'"
    assert escaped([one, "zoë", other])[1] == "zoë"
    assert told_apart([one]) == [repr(one)] and told_apart([one], [other]) == [ascii(one)]


def test_texts_that_differ_to_the_eye_are_left_alone() -> None:
    names = ["a", "A", "á", "à", "ä", " a", "0", "O", "Zürich", "Zurich", "", "ab", "a b"]
    assert look_alikes(names) == [] and told_apart(names) == list(map(repr, names))


def test_check_says_which_declared_values_look_alike(tmp_path: Path) -> None:
    """By the declared list alone: the table holds none of them."""
    told = checked(tmp_path, 'town = ["Zürich", "Zu\u0308rich", "Bern"]', "town\nBern\n")
    assert told.exit_code == 0, told.output
    assert "'Z\\xfcrich' and 'Zu\\u0308rich' are declared and look alike" in told.output
    assert "town: Z\\xfcrich, Zu\\u0308rich, Bern" in told.output
    silent = checked(tmp_path, 'town = ["Zürich", "Genève", "Bern"]', "town\nBern\n")
    assert "alike" not in silent.output and "town: Zürich, Genève, Bern" in silent.output


def test_check_proposes_the_normal_form_and_shows_values_only_where_it_may(tmp_path: Path) -> None:
    table = "town\nZu\u0308rich\nZu\u0308rich\nBern\n\uff22ern\nBasel\n"
    told = checked(tmp_path, 'town = ["Zürich", "Bern"]', table)
    assert 'town = { …, clean = { normalise = "NFKC" } }   # 3 records more' in told.output
    assert "u0308" not in told.output and "looks like" not in told.output
    accents = table.replace("\uff22ern\n", "")
    told = checked(tmp_path, 'town = ["Zürich", "Bern"]', accents, "--show-values")
    assert 'clean = { normalise = "NFC" } }   # 2 records more' in told.output
    hint = "looks like the declared 'Z\\xfcrich'; clean = { normalise = \"NFC\" } makes them equal"
    assert f"    'Zu\\u0308rich': 2, {hint}\n" in told.output and "    'Basel': 1\n" in told.output
    # Letters of another script have no normal form in common.
    other = "town\n\u041c\u041e\u0421\u041a\u0412\u0410\n"
    told = checked(tmp_path, 'town = ["MOCKBA"]', other, "--show-values")
    assert "looks like the declared 'MOCKBA'\n" in told.output and "\\u041c" in told.output
    assert "fixed list" not in told.output


def test_declared_cleaning_ends_the_hint(tmp_path: Path) -> None:
    clean = 'town = { categories = ["Zürich", "Bern"], clean = { normalise = "NFC" } }'
    told = checked(tmp_path, clean, "town\nZu\u0308rich\nZürich\n", "--show-values")
    assert told.exit_code == 0 and "every record would be counted" in told.output
    assert "alike" not in told.output


def test_a_condition_is_refused_in_words_that_make_sense() -> None:
    """ "must be compared with one of its values, 'é', got 'é'"."""
    schema = ln.Schema(town=("é", "b"))
    with pytest.raises(QueryError) as refused:
        ln.assemble([ln.Where("town == 'e\u0301'")], schema)
    assert "'\\xe9', 'b'" in str(refused.value)


def test_a_summary_and_a_page_spell_look_alikes_apart() -> None:
    schema = ln.Schema(town=("Zürich", "Zu\u0308rich", "Genève"))
    plan = ln.design(ln.assemble([ln.Marginal("town", name="towns")], schema), ln.GDP(1))
    with pytest.warns(ln.LeastnoiseWarning):
        report = ln.summarize(ln.measure(plan, [5, 6, 7]))
    lines = [line.split()[:2] for line in report.text().splitlines() if line.startswith("  town ")]
    assert [line[1] for line in lines] == ["Z\\xfcrich", "Zu\\u0308rich", "Genève"]
    declared = re.sub("<[^>]*>", "", report.html())
    assert "Z\\xfcrich, Zu\\u0308rich, Genève" in declared
    # Names stay what they are where programs read them.
    assert list(schema["town"].values) == ["Zürich", "Zu\u0308rich", "Genève"]
