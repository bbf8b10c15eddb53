"""What one person is, in one sentence: every surface quotes it, and it is true."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.privacy import NEIGHBOURS, ONE_PERSON, Goal
from support import extra

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("limits", "concepts", "schema", "ledger"))]
DOCSTRINGS = [ln.measure, Goal, ln.Ledger]
# A text that says between which tables the promise holds.
SAYS_IT = re.compile(
    r"tables?[^.:;]{0,60} differ(?:s|ed|ing)? (?:by|in) (?:one|a single) (?:record|row)"
    r"|protects? (?:one|a single) (?:record|row)"
    r"|guarantee (?:covers|is about|protects) (?:one|a single|each|every) (?:record|row)"
)


def plain(text: str) -> str:
    """A text without the marks of code and without line breaks."""
    return re.sub(r"\s+", " ", text.replace("`", ""))


def other_promises(text: str) -> list[str]:
    """What a text says of neighbouring tables beside the sentence itself."""
    return SAYS_IT.findall(plain(text).replace(ONE_PERSON, ""))


@pytest.mark.parametrize("page", PAGES)
def test_pages_quote_the_sentence(page: str) -> None:
    assert ONE_PERSON in plain((ROOT / page).read_text("utf-8"))


@pytest.mark.parametrize("value", DOCSTRINGS)
def test_docstrings_quote_the_sentence(value: object) -> None:
    assert ONE_PERSON in plain(value.__doc__ or "")


def test_no_page_and_no_file_of_the_package_says_it_otherwise() -> None:
    texts = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("src/leastnoise/**/*.*")]
    kinds = {".md", ".py", ".js", ".html"}
    said = {path: other_promises(path.read_text("utf-8")) for path in texts if path.suffix in kinds}
    # The proofs are of one counted record, and derive what follows for a person; the other is the place.
    places = {"proofs.md", "neighbours.py"}
    assert {path.name for path, found in said.items() if found and "papers" not in path.parts} == places


def test_what_pages_said_before_is_found() -> None:
    """The twin."""
    assert other_promises("the privacy goal for any two tables that differ by one record,\nadded or removed")
    assert other_promises("By default the privacy goal protects one record.")
    assert other_promises("the guarantee covers each record, not what it implies")
    assert other_promises(
        "For tables that differ in one record (up to `records_per_person` records of\none person)"
    )
    assert not other_promises(ONE_PERSON)


# ------------------------------------------------------------------------ every surface


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("person", [None, "id"])
def test_every_surface_says_whom_the_promise_is_about(
    tmp_path: Path, neighbours: str, k: int, person: str | None
) -> None:
    goal = ln.ApproxDP(1, 1e-6, neighbours=neighbours, records_per_person=k)
    relation = {"add-remove": "adding or removing", "replace-one": "replacing"}[neighbours]
    if person is not None:
        counted = "one is counted" if k == 1 else "at most 3 are counted"
        expected = f"{relation} all records of one person, of which {counted}"
    else:
        expected = f"{relation} one record" if k == 1 else f"{relation} up to 3 records of one person"
    other = f"{relation} one record" if person is not None else "all records of one person"

    spec = tmp_path / "spec.toml"
    spec.write_text(
        '[schema]\nsex = ["F", "M"]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n'
        f'neighbours = "{neighbours}"\nrecords_per_person = {k}\n'
        + ('person = "id"\n' if person else "")
        + '[[query]]\nkind = "marginal"\nattributes = ["sex"]\n',
        encoding="utf-8",
    )
    explained = CliRunner().invoke(app, ["explain", str(spec), "--no-cache"])
    assert explained.exit_code == 0, explained.output

    pandas = extra("pandas")
    schema = ln.Schema(sex=("F", "M"))
    frame = pandas.DataFrame({"id": ["1", "1", "2"], "sex": ["F", "M", "F"]})
    plan = ln.design(ln.assemble([ln.Marginal("sex")], schema), goal)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        release = ln.measure(plan, ln.vectorize(frame, schema, person=person))
    (spent,) = [str(one.message) for one in warned if one.category is UnrecordedSpending]
    report = ln.summarize(release)
    page = report.to_html(tmp_path / "page.html").read_text("utf-8")
    shown = {"explain": explained.output, "measure": spent, "repr": repr(release), "text": report.text()}
    for name, text in {**shown, "page": page}.items():
        assert expected in plain(text), name
        assert other not in plain(text), name


# ------------------------------------------------------------------------ and it is true


def random_people(rng: random.Random) -> list[tuple[int, str]]:
    return [(rng.randrange(3), rng.choice("ab")) for _ in range(rng.randint(1, 7))]


def counts(records: list[tuple[int, str]], k: int) -> np.ndarray:
    frame = extra("pandas").DataFrame(records, columns=["id", "v"]).astype({"id": str, "v": str})
    return ln.vectorize(frame, ln.Schema(v=("a", "b")), person="id").vector(records_per_person=k)


def test_all_records_of_a_person_change_k_counts_and_one_record_may_change_two() -> None:
    """With person= a promise about one record would be false: the twin of the sentence."""
    rng = random.Random(1)
    changes_of_one_record = set()
    for _ in range(60):
        records, k = random_people(rng), rng.randint(1, 2)
        true = counts(records, k)
        for who in {person for person, _ in records}:
            rest = [one for one in records if one[0] != who]
            change = true - (counts(rest, k) if rest else 0)
            assert change.min() >= 0 and change.sum() <= k
        fewer = records[:-1]
        if fewer and k == 1:
            changes_of_one_record.add(int(np.abs(true - counts(fewer, k)).sum()))
    assert changes_of_one_record == {0, 1, 2}
