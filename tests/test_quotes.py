"""Sentences to quote: true of the table they are about, whatever was left out of it, and in whole people."""

from __future__ import annotations

import html
import random
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import leastnoise as ln

TOWN = ln.Schema(sex=("F", "M"))
WHOLE = ln.Schema(sex=ln.Categories(("F", "M"), outside="other", null="other", other="?"))


def released(
    schema: ln.Schema, table: Any, goal: Any = None, *, person: str | None = None, **how: Any
) -> Any:
    queries = [
        ln.Total(name="everyone"),
        ln.Marginal("sex"),
        ln.Share(ln.Where("sex == 'F'"), of=ln.Total(), name="women"),
    ]
    plan = ln.design(ln.assemble(queries, schema), goal or ln.GDP(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ln.measure(plan, ln.vectorize(table, schema, person=person), **how)


def quotes(release: ln.Release, publication: ln.Publication | None = None) -> list[str]:
    """The sentences at the head of the page, as a reader copies them."""
    page = ln.summarize(release, publication).html()
    (group,) = re.findall(r'<div class="quotes".*?</div>', page, re.S)
    return [html.unescape(text) for text in re.findall(r"<p>(.*?)</p>", group, re.S)]


def frame(n_left_out: int) -> pandas.DataFrame:
    return pandas.DataFrame(
        {"sex": ["F", "M"] * 9_000 + ["x"] * n_left_out, "id": range(18_000 + n_left_out)}
    )


def test_every_sentence_says_that_records_were_left_out_and_how_many() -> None:
    """ "We counted 18,000 residents in all; the true number is within 4 of that", of 19,409."""
    release = released(TOWN, frame(1_409))
    told = quotes(release, ln.Publication(unit="residents"))
    assert len(told) == 3 and all("residents" in sentence for sentence in told[:2])
    for sentence in told:
        found = re.search(r"of the records counted; about (\S+) ± (\d+), (\S+)%, were not\.$", sentence)
        assert found is not None, sentence
        assert abs(int(found[1].replace(",", "")) - 1_409) <= 30 and found[3] in ("7.2", "7.3", "7.1")
        assert int(found[2]) < 10


def test_a_table_of_declared_values_alone_leaves_at_most_a_few_out() -> None:
    plan = released(TOWN, frame(0)).plan
    for _ in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = quotes(ln.measure(plan, frame(0)))
        # In about one release of forty, noise looks like a few records.
        end = r"of the records counted; (at most \d+|about \d+ ± \d+, 0\.\d%,) were not\.$"
        assert all(re.search(end, sentence) for sentence in told), told


def test_where_every_record_has_a_cell_nothing_is_added() -> None:
    for sentence in quotes(released(WHOLE, frame(500))):
        assert sentence.endswith(("19 times in 20.", "determined.")) and "counted;" not in sentence


def test_where_records_were_limited_every_sentence_says_so() -> None:
    """Counts of at most k records of each person were quoted as the true number of records."""
    table = pandas.concat([frame(1_000)] * 3)
    for k, most in ((1, "at most one of each person"), (2, "at most 2 of each person")):
        release = released(TOWN, table, ln.GDP(1, records_per_person=k), person="id")
        for sentence in quotes(release):
            assert f", of the records counted, {most}; about " in sentence
            # Further records of a person are in neither number.
            assert sentence.endswith(", matched no declared value.")
    whole = released(WHOLE, table, ln.GDP(1, records_per_person=2), person="id")
    assert all("at most 2 of each person" in sentence for sentence in quotes(whole))


def test_what_was_not_measured_is_not_said_to_be_known() -> None:
    silent = [
        released(TOWN, frame(900), not_counted=False),
        released(TOWN, frame(900), ln.GDP(1, neighbours="replace-one")),
    ]
    for release in silent:
        ends = {sentence.split(", of the records ")[1] for sentence in quotes(release)}
        assert ends == {"counted; how many were not was not measured."}
    # A file of an earlier version does not say whether people were limited.
    old = replace(released(TOWN, frame(900)), is_truncated=None)
    assert all(sentence.endswith("matched no declared value.") for sentence in quotes(old))


def test_negative_and_small_numbers_of_records_left_out_are_whole() -> None:
    release = released(TOWN, frame(0))
    assert release.not_counted is not None
    row = release.not_counted.row
    for n, said in ((-40, "at most 0"), (-1, "at most "), (500, "about 500 ± ")):
        found = replace(release, not_counted=replace(release.not_counted, measured=(n * row.factor,)))
        assert all(said in sentence for sentence in quotes(found))
        (line,) = found.not_counted.statements()
        assert line.startswith(said.capitalize()) and "-" not in line


@pytest.mark.parametrize("mu", [0.3, 3.0, 30.0])
def test_people_are_whole_and_the_sentence_says_what_the_interval_says(mu: float) -> None:
    """ "14,316.5 records": a digit more, as a target was kept. It holds as often as the interval."""
    chance = random.Random(1)
    queries = [ln.Marginal("sex", within=(7.3 / mu, 0.95))]
    plan = ln.design(ln.assemble(queries, TOWN), ln.GDP(mu))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ln.measure(plan, frame(3))
    for _ in range(60):
        truth = chance.randrange(0, 50)
        answers = truth + np.array([chance.gauss(0, float(plan.stderr[0])) for _ in range(2)])
        one = replace(release)
        object.__setattr__(one, "answers", answers)
        low, high = (float(ends[0]) for ends in one.interval(0.95))
        (told,) = quotes(one)
        said = told.split(", 19 times")[0].split("; how")[0]
        numbers = [int(text.replace(",", "")) for text in re.findall(r"(?<![\w.])[\d,]*\d(?![\w.]*\d)", said)]
        assert "." not in said
        if said.startswith("There are at most"):
            holds = truth <= numbers[0]
        elif "lies between" in said:
            holds = numbers[1] <= truth <= numbers[2]
        else:
            margin = numbers[1] if len(numbers) > 1 else 0
            holds = abs(truth - numbers[0]) <= margin
            assert margin <= (high - low) / 2 + 1
        assert holds or not low <= truth <= high, (told, truth, low, high)


def test_a_picture_and_the_claims_say_it_too(tmp_path: Path) -> None:
    release = released(TOWN, frame(1_409))
    said = r"of the records counted; about \S+ ± \d+, 7\.\d%, were not"
    picture = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", release.plot().svg))
    assert re.search(f"Answers are {said}", html.unescape(picture))
    ln.write_dossier(release, tmp_path / "dossier")
    claims = (tmp_path / "dossier" / "claims.md").read_text(encoding="utf-8")
    assert "as measured, of the records counted, are unbiased" in claims
    assert "matched no declared value" in claims
    whole = released(WHOLE, frame(5))
    assert "records counted" not in whole.plot().svg
    assert "records counted" not in ln.summarize(whole).text()
