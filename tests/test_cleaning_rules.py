"""`check` proposes cleaning from a fixed list: the rule that a column was spoilt by, with its exact gain."""

from __future__ import annotations

import csv
import io
import random
import re

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.drafting.cleaning_rules import NULL_WORDS, cleaning_proposals
from leastnoise.data import fit_of


def _spoilt(rng):
    """Attributes of every kind, how each is spoilt, and what the rule for it must hold."""
    words = ln.Categories(["North", "South"])
    codes = ln.Categories(["001", "042", "100"])
    pay = ln.Bins([0, 1_000, 50_000, 1_000_000])
    day = ln.Periods("2020-01", "2029-12", by="month")
    amount = rng.randint(1_000, 900_000)
    month, date = rng.randint(1, 12), rng.randint(13, 28)
    return {
        "trim": (words, rng.choice(["North", "South"]), lambda v: f"{v} ", {"trim": True}),
        "case": (words, rng.choice(["North", "South"]), lambda v: v.upper(), {"ignore_case": True}),
        "null": (words, "North", lambda v: rng.choice(["NA", "n/a", "?"]), "nulls"),
        "zeros": (codes, rng.choice(["001", "042"]), lambda v: v.lstrip("0"), {"digits": 3}),
        "comma": (pay, f"{amount}.5", lambda v: v.replace(".", ","), {"decimal": ","}),
        "marks": (pay, str(amount), lambda v: f"{int(v):,}", {"thousands": ","}),
        "day": (
            day,
            f"2026-{month:02d}-{date}",
            lambda v: f"{date}.{month:02d}.2026",
            {"dates": ["%d.%m.%Y"]},
        ),
        "month": (day, f"2026-{month:02d}-{date}", lambda v: f"{month}/{date}/2026", {"dates": ["%m/%d/%Y"]}),
    }


@pytest.mark.thorough
def test_the_rule_that_a_column_was_spoilt_by_is_proposed_with_its_gain(tmp_path):
    rng = random.Random(4)
    for _ in range(1):
        drawn = _spoilt(rng)
        # A mark is that of a whole column: other numbers are none.
        always = {"comma", "marks"}
        columns, rows = list(drawn), []
        for _ in range(rng.randint(3, 12)):
            again = _spoilt(rng)
            rows.append(
                [
                    again[n][2](again[n][1]) if n in always or rng.random() < 0.5 else again[n][1]
                    for n in columns
                ]
            )
        text = io.StringIO(newline="")
        csv.writer(text).writerows([columns, *rows])
        file = tmp_path / "people.csv"
        file.write_text(text.getvalue())
        schema = ln.Schema({name: drawn[name][0] for name in columns})

        def fit_with(given, file=file):
            return fit_of(ln.vectorize(str(file), given))

        found = {one.column: one for one in cleaning_proposals(schema, fit_with(schema), fit_with)}
        for j, name in enumerate(columns):
            n_spoilt = sum(schema[name].place(row[j]) is None for row in rows)
            assert (name in found) == (n_spoilt > 0), name
            if not n_spoilt:
                continue
            wanted = drawn[name][3]
            if wanted == "nulls":
                assert set(found[name].steps) == {"nulls"}
                assert set(found[name].steps["nulls"]) <= set(NULL_WORDS)
            else:
                assert found[name].steps == wanted
            assert found[name].n_more == n_spoilt


def test_no_value_of_the_table_is_proposed(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        '[schema]\nsex = ["F", "M"]\n[privacy]\nepsilon = 1.0\n'
        '[[query]]\nkind = "marginal"\nattributes = ["sex"]\n'
    )
    people = tmp_path / "people.csv"
    people.write_bytes(b"sex\n F\nf\nsecret\nM\nsecr\xe9t\n")
    told = CliRunner().invoke(app, ["check", str(spec), "--data", str(people)])
    assert told.exit_code == 3
    assert "clean = { trim = true, ignore_case = true } }   # 2 records more" in told.output
    assert 'encoding = "cp1252"   # 1 record' in told.output
    assert not re.search("secr", told.output)
    people.write_text("sex\nF\nM\n")
    told = CliRunner().invoke(app, ["check", str(spec), "--data", str(people)])
    assert told.exit_code == 0
    assert "fixed list" not in told.output
