"""Declared cleaning: the same cell for a value in Python and on every engine, and right by plain loops."""

from __future__ import annotations

import random
import time
import unicodedata
from pathlib import Path
from typing import Any

import pandas
import pytest

from leastnoise import (
    GDP,
    Bins,
    Categories,
    Cleaning,
    Integers,
    Marginal,
    Periods,
    Schema,
    assemble,
    design,
    vectorize,
)
from leastnoise.app.specification import load_spec
from leastnoise.core.errors import SchemaError
from leastnoise.data import fit_of, identity_of
from oracle_cleaning import CASES, cell, odd
from support import extra, refuses

KEPT = 400


@pytest.mark.parametrize("number", range(len(CASES)))
def test_texts_are_cleaned_alike(number: int, tmp_path: Path) -> None:
    make, clean = CASES[number]
    attribute = make(Cleaning(**clean))
    rng = random.Random(number)
    texts = [odd(rng) for _ in range(KEPT)]
    expected = [cell(text, attribute, clean) for text in texts]
    assert [attribute.place(text) for text in texts] == expected
    counts = [expected.count(i) for i in range(attribute.size)]
    schema = Schema(a=attribute)
    pyarrow = extra("pyarrow")
    frame = pandas.DataFrame({"a": pandas.Series(texts, dtype=object)})
    lines = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in texts]
    (tmp_path / "t.csv").write_bytes(("a,b\r\n" + "".join(f"{line},1\r\n" for line in lines)).encode())
    sources = [frame, pyarrow.table({"a": pyarrow.array(texts, pyarrow.string())}), tmp_path / "t.csv"]
    for source in sources:
        assert vectorize(source, schema).vector().tolist() == counts
    assert Schema.from_dict(schema.to_dict()) == schema


def test_numbers_and_codes_that_are_no_text_are_cleaned_too() -> None:
    codes = Categories(["00012", "01234", "x"], clean={"digits": 5, "nulls": ["99"], "synonyms": {"7": "x"}})
    table = pandas.DataFrame({"a": [12, 1234, 99, 7, 5]})
    for frame in (table, table.astype(float), table.astype(object), table.astype("Int16")):
        assert vectorize(frame, Schema(a=codes)).vector().tolist() == [1, 1, 1]
    assert [codes.place(value) for value in (12, 12.0, 99, 7, 5)] == [0, 0, None, 2, None]
    ages = Integers(
        range(10), null="other", outside="drop", other="?", clean={"nulls": ["-9"], "synonyms": {"77": 9}}
    )
    table = pandas.DataFrame({"a": [1, -9, 77, 78]})
    for frame in (table, table.astype(float), table.astype(object)):
        assert vectorize(frame, Schema(a=ages)).vector().tolist() == [0, 1, *[0] * 7, 1, 1]


def test_numbers_among_texts_keep_their_value() -> None:
    """A column of text and of numbers, as spreadsheets have it: 4.125 is no thousands."""
    bins = Bins([0, 10, 5_000], clean={"decimal": ",", "thousands": "."})
    table = pandas.DataFrame({"a": pandas.Series([4.125, "4.125", "4,125", 7, "7"], dtype=object)})
    assert vectorize(table, Schema(a=bins)).vector().tolist() == [4, 1]
    assert [bins.place(value) for value in table["a"]] == [0, 1, 0, 0, 0]


def test_blanks_after_commas_are_counted_once_trimming_is_declared(tmp_path: Path) -> None:
    """A file with a blank after every comma published nonsense: nothing in it was a declared value."""
    (tmp_path / "t.csv").write_text("age, sex, job\n30, F, nurse\n41, M, clerk\n41, F, clerk\n")
    schema = Schema({"age": range(100), " sex": ("F", "M"), " job": ("nurse", "clerk")})
    assert vectorize(tmp_path / "t.csv", schema).counts(" sex").tolist() == [0, 0]
    assert vectorize(tmp_path / "t.csv", schema.cleaned({"trim": True})).counts(" sex").tolist() == [2, 1]


def test_one_cleaning_for_all_attributes() -> None:
    schema = Schema(
        sex=("F", "M"),
        pay=Bins([0, 1]),
        day=Periods("2026", "2026"),
        own=Categories(["a"], clean={"nulls": ["b"]}),
    )
    cleaned = schema.cleaned({"trim": True, "decimal": ",", "dates": ["%d.%m.%Y"]})
    assert [cleaned[name].clean for name in schema] == [
        Cleaning(trim=True),
        Cleaning(trim=True, decimal=","),
        Cleaning(trim=True, dates=("%d.%m.%Y",)),
        Cleaning(nulls=("b",)),
    ]
    with refuses(SchemaError, "clean"):
        schema.cleaned({"digits": 3})


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Cleaning(trim=1), "trim"),  # type: ignore[arg-type]
        (lambda: Cleaning(normalise="NFD"), "normalise"),
        (lambda: Cleaning(normalise=True), "normalise"),  # type: ignore[arg-type]
        (lambda: Categories(["é", "e\u0301"], clean={"normalise": "NFC"}), "normalise"),
        (lambda: Categories(["fi", "ﬁ"], clean={"normalise": "NFKC", "ignore_case": True}), "normalise"),
        (lambda: Categories(["É", "F", "f"], clean={"normalise": "NFC", "ignore_case": True}), "ignore_case"),
        (lambda: Categories(["é"], clean={"normalise": "NFC", "nulls": ["e\u0301"]}), "clean"),
        (lambda: Cleaning(nulls="NA"), "nulls"),  # type: ignore[arg-type]
        (lambda: Cleaning(decimal=";"), "decimal"),
        (lambda: Cleaning(thousands="x"), "thousands"),
        (lambda: Cleaning(decimal=",", thousands=","), "thousands"),
        (lambda: Cleaning(digits=0), "digits"),
        (lambda: Cleaning(dates=("%Y-%d-%m",)), "dates"),
        (lambda: Cleaning(dates=("%d.%m.",)), "dates"),
        (lambda: Categories(["F"], clean={"trims": True}), "cleaning"),
        (lambda: Categories(["F"], clean={"decimal": ","}), "clean"),
        (lambda: Categories([" F"], clean={"trim": True}), "clean"),
        (lambda: Categories(["F", "f"], clean={"ignore_case": True}), "ignore_case"),
        (lambda: Categories(["F"], clean={"nulls": ["F"]}), "clean"),
        (lambda: Categories(["F"], clean={"synonyms": {"f": "X"}}), "synonyms"),
        (lambda: Categories(["F"], "o", clean={"synonyms": {"f": "o"}}), "synonyms"),
        (lambda: Integers(range(3), clean={"synonyms": {"a": 1}, "nulls": ["a"]}), "nulls"),
        (lambda: Integers(range(3), clean={"digits": 3}), "clean"),
        (lambda: Periods("2026", "2027", clean={"thousands": ","}), "clean"),
        (lambda: Bins([0, 1], clean="trim"), "clean"),
    ],
)
def test_cleaning_that_cannot_be_meant_is_refused(make: Any, field: str) -> None:
    with refuses(SchemaError, field):
        make()


def test_text_that_looks_equal_is_made_equal_where_that_is_declared(tmp_path: Path) -> None:
    """A file from a Mac had its accents as characters of their own: every record of Zürich was left out."""
    (tmp_path / "t.csv").write_text("town\nZu\u0308rich\nZürich\nBern\nＢern\n", encoding="utf-8")
    counts = {}
    for form in (None, "NFC", "NFKC"):
        # The declared value may be in either form.
        for name in ("Zürich", "Zu\u0308rich"):
            town = Categories(["Bern", name], clean={} if form is None else {"normalise": form})
            counts[form, name] = vectorize(tmp_path / "t.csv", Schema(town=town)).counts("town").tolist()
            assert town.label(1) == name
    assert counts[None, "Zürich"] == counts[None, "Zu\u0308rich"] == [1, 1]
    assert counts["NFC", "Zürich"] == counts["NFC", "Zu\u0308rich"] == [1, 2]
    assert counts["NFKC", "Zürich"] == counts["NFKC", "Zu\u0308rich"] == [2, 2]


def test_numbers_and_dates_are_read_as_they_are_written_in_every_normal_form() -> None:
    """NFKC writes 5² as 52."""
    clean = {"normalise": "NFKC", "trim": True}
    assert Integers(range(60), clean=clean).place("5²") is None
    assert Bins([0, 60], clean=clean).place("１２") is None
    assert Periods("2026", "2026", clean=clean).place("２０２６") is None
    assert Categories([5, 52], clean=clean).place("5²") is None


def test_one_long_field_takes_no_quadratic_time() -> None:
    """Python sorts a run of accents by insertion: one field of 2 MB would stop a table for minutes."""
    long = "e" + "\u0301\u0323" * 500_000
    town = Categories(["é"], other="?", clean={"normalise": "NFC"})
    start = time.process_time()
    assert town.place(long) == 1
    assert vectorize(pandas.DataFrame({"t": [long, "e\u0301"]}), Schema(t=town)).vector().tolist() == [1, 1]
    # Reading and hashing such a text takes hundredths of a second, sorting it minutes.
    assert time.process_time() - start < 10


def test_a_normal_form_is_part_of_the_schema_and_of_what_a_ledger_compares(tmp_path: Path) -> None:
    steps = {"trim": True}, {"trim": True, "normalise": "NFC"}
    plain, normal = (Schema(t=Categories(["é"], clean=clean)) for clean in steps)
    assert normal.to_dict()["t"]["clean"] == {"trim": True, "normalise": "NFC"}
    assert Schema.from_dict(normal.to_dict()) == normal != plain
    plans = [design(assemble([Marginal("t")], schema), GDP(1)) for schema in (plain, normal)]
    assert plans[0].digest != plans[1].digest
    assert f"Unicode {unicodedata.unidata_version}" in identity_of("t.csv").rules["reading"]
    (tmp_path / "spec.toml").write_text(
        '[schema]\nt = { categories = ["é"], clean = { normalise = "NFC" } }\n[privacy]\nepsilon = 1\n'
        '[[query]]\nkind = "marginal"\nattributes = ["t"]\n',
        encoding="utf-8",
    )
    assert load_spec(tmp_path / "spec.toml").schema["t"].clean == Cleaning(normalise="NFC")


def test_schemas_without_cleaning_are_written_as_before() -> None:
    schema = Schema(age=range(5), sex=Categories(["F", "M"], clean=Cleaning()))
    assert schema.to_dict() == {"age": {"range": [0, 5, 1]}, "sex": {"categories": ["F", "M"]}}


def test_check_reads_cleaned_numbers_and_dates() -> None:
    """The check of a table once read numbers and dates as if no cleaning were declared."""
    schema = Schema(
        pay=Bins([0, 50_000], clean={"decimal": ",", "thousands": "."}),
        n=Integers(range(5_000), clean={"thousands": ","}),
        day=Periods("2026", "2026", clean={"dates": ["%d.%m.%Y"]}),
    )
    table = pandas.DataFrame({"pay": ["48.000,5"], "n": ["1,234"], "day": ["31.12.2026"]})
    assert fit_of(vectorize(table, schema)).n_counted == 1
    assert [column.n_unreadable for column in fit_of(vectorize(table, schema)).columns] == [0, 0, 0]
