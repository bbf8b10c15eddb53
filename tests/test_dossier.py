"""What a publisher says, and the files beside the answers, read back by other readers."""

from __future__ import annotations

import csv
import json
import random
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import InputError, SpecError, UnrecordedSpending
from leastnoise.report.dossier.facts import claim_of
from leastnoise.report.dossier.registry import blanks_of, registry_entry, to_yaml
from leastnoise.report.dossier.writing import FILES
from support import extra

jsonschema = extra("jsonschema")
yaml = extra("yaml")

SAID = ln.Publication(
    title="People <b>by</b> sex",
    publisher="Office of *Counts*",
    source="register of residents",
    period="2026",
    unit="persons",
    contact="info@example.org",
    licence="CC BY 4.0",
    date="2026-03-15",
)

# What the registry's schema asks of an entry: its keys, and the words that some of them are chosen from.
_TEXT = {"type": "string"}
_SHAPE = {
    "basic": {
        "name": _TEXT,
        "data_curators": {"type": "array", "items": _TEXT, "minItems": 1},
        "intended_use": _TEXT,
        "data_product_type": {"enum": ["Summary statistics"]},
        "data_product_region": _TEXT,
        "description": _TEXT,
        "publication_date": {"type": "string", "format": "date"},
    },
    "dp_variant": {
        "variant_name": {"enum": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]},
        "data_domain": _TEXT,
        "unprotected_quantities": _TEXT,
    },
    "privacy_loss": {
        "privacy_unit": _TEXT,
        "privacy_unit_details": _TEXT,
        "privacy_parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: {"type": "number"} for key in ("epsilon", "delta", "rho")},
        },
        "privacy_parameters_details": _TEXT,
    },
    "deployment_model": {
        "model_name": {"enum": ["Central"]},
        "actors": _TEXT,
        "release_type": {"enum": ["One release", "Many releases"]},
        "release_type_details": _TEXT,
        "access_type": {"enum": ["Non-interactive"]},
    },
    "accounting": {"post_processing": _TEXT, "composition": _TEXT},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": _TEXT,
        "mechanisms": _TEXT,
        "justification": _TEXT,
    },
    "administrative": {
        "sources": _TEXT,
        "registry_authors": {"type": "array", "items": _TEXT, "minItems": 1},
    },
}


def _object(properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


REGISTRY = _object(
    {
        "url_slug": _TEXT,
        "status": {"const": "Draft"},
        "tier": {"enum": [1, 2, 3]},
        "deployment": _object({key: _object(inner) for key, inner in _SHAPE.items()}),
    }
)
VALIDATOR = jsonschema.Draft7Validator(REGISTRY, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)

GOALS = [
    ln.PureDP(epsilon=1),
    ln.ApproxDP(epsilon=1, delta=1e-6),
    ln.ZCDP(rho=0.5),
    ln.GDP(mu=1),
    ln.ApproxDP(epsilon=0.5, delta=1e-9, neighbours="replace-one"),
    ln.PureDP(epsilon=2, records_per_person=3),
]


def _release(goal, names=("sex", "a, b"), **measured):
    schema = ln.Schema({names[0]: ("F", "M", "=1+1", "_T x"), names[1]: range(3)})
    queries = [ln.Total(name="all"), ln.Marginal(names[0]), ln.Marginal(*names)]
    plan = ln.design(ln.assemble(queries, schema), goal, method="identity")
    rng = np.random.default_rng(3)
    with pytest.warns(UnrecordedSpending):
        return ln.measure(plan, rng.integers(0, 50, schema.n_cells), **measured)


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_all_files_are_read_back_by_other_readers(goal, tmp_path):
    from csvw import CSVW
    from pysdmx.io import read_sdmx

    release = _release(goal)
    found = ln.write_dossier(release, tmp_path / "out", SAID)
    assert sorted(path.name for path in found.folder.iterdir()) == sorted(FILES)
    told = CSVW(str(found.folder / "answers.csv-metadata.json"), validate=True)
    assert told.is_valid
    rows = [row for table in told.tables for row in table]
    assert [float(row["answer"]) for row in rows] == pytest.approx(release.answers.tolist(), rel=1e-14)
    assert [row["sex"] for row in rows[1:5]] == ["F", "M", "'=1+1", "_T x"]
    (data,) = (one.data for one in read_sdmx(found.folder / "answers-sdmx.csv").data)
    assert [float(value) for value in data["OBS_VALUE"]] == pytest.approx(release.answers.tolist(), rel=1e-14)
    assert data["SEX"].tolist()[:5] == ["_T", "F", "M", "'=1+1", "_T x"]
    assert data["a_b".upper()].tolist()[:5] == ["_T"] * 5
    assert not data.duplicated(["QUERY", "CELL"]).any()
    entry = yaml.safe_load((found.folder / "opendp_registry.yaml").read_text())
    assert list(VALIDATOR.iter_errors(entry)) == []
    assert entry == registry_entry(release, SAID)


def test_parameters_are_never_below_what_was_spent():
    for goal in GOALS:
        release = _release(goal)
        claim, spent = claim_of(release), release.spent_per_person
        if goal.noise.is_pure:
            assert claim.parameters["epsilon"] >= spent
        elif "rho" in claim.parameters:
            assert 2 * claim.parameters["rho"] >= spent
        else:
            plan_epsilon = release.plan.epsilon(delta=claim.parameters["delta"])
            assert claim.parameters["epsilon"] >= plan_epsilon * (1 - 1e-12)
        assert set(claim.parameters) <= {"epsilon", "delta", "rho"}


def test_what_nobody_said_is_blank_and_listed(tmp_path):
    release = _release(ln.PureDP(epsilon=1))
    found = ln.write_dossier(release, tmp_path / "out")
    listed = (found.folder / "to-complete.md").read_text()
    entry = yaml.safe_load((found.folder / "opendp_registry.yaml").read_text())
    for name in ("title", "publisher", "source", "period", "unit", "contact", "licence", "date"):
        assert f"[publication] {name}" in found.to_complete
    for place in blanks_of(entry):
        assert place in listed
    (error,) = VALIDATOR.iter_errors(entry)
    assert list(error.path) == ["deployment", "basic", "publication_date"]
    assert (found.folder / "claims.md").read_text().count("To be completed by a person") == 4
    with pytest.raises(InputError) as caught:
        ln.write_dossier(release, tmp_path / "out")
    assert caught.value.field == "folder"
    ln.write_dossier(release, tmp_path / "out", force=True)


def test_texts_of_the_publisher_are_no_markup(tmp_path):
    release = _release(ln.PureDP(epsilon=1))
    found = ln.write_dossier(release, tmp_path / "out", SAID)
    page = (found.folder / "page.html").read_text()
    assert "People &lt;b&gt;by&lt;/b&gt; sex" in page
    assert "<b>by" not in page
    assert "info@example.org" in page
    claims = (found.folder / "claims.md").read_text()
    assert r"Office of \*Counts\*" in claims
    assert "<b>" not in claims.replace(r"\<b\>", "")
    assert "publisher  Office of *Counts*" in ln.summarize(release, SAID).text()


def test_yaml_of_random_texts_is_read_back(tmp_path):
    rng = random.Random(9)
    letters = "aB1 :#-?&*!|>'\"%@`\\{}[],\n\t\r\x07\x7f\x85\u2028ä日😀"
    for _ in range(200):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(0, 12)))
        number = rng.choice([1, 2.5, 1e-6, 1e-300, 12345678901234567, 1e22, rng.random()])
        plain = {"a": text, "b": {"c": [text, "x"], "d": number}}
        assert yaml.safe_load(to_yaml(plain)) == plain


@pytest.mark.thorough
def test_a_specification_says_what_is_published(tmp_path):
    text = """
[schema]
sex = ["F", "M"]
[privacy]
epsilon = 1.0
[[query]]
kind = "total"
[publication]
title = "People"
date = 2026-03-15
"""
    spec = parse_spec(text)
    assert spec.publication == ln.Publication(title="People", date="2026-03-15")
    assert parse_spec(spec.to_toml()).publication == spec.publication
    for wrong, field in (("date = 'spring'", "date"), ("title = 5", "title"), ("colour = 'red'", "")):
        with pytest.raises(SpecError) as caught:
            parse_spec(re.sub("date = .*", "", text).replace('title = "People"', wrong))
        assert caught.value.field.startswith(f"publication.{field}")
    (tmp_path / "spec.toml").write_text(text)
    (tmp_path / "people.csv").write_text("sex\nF\nM\n")
    command = ["publish", str(tmp_path / "spec.toml"), "--data", str(tmp_path / "people.csv")]
    told = CliRunner().invoke(app, [*command, "--dossier", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "title  People" in told.output
    assert "[publication] contact" in told.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    again = CliRunner().invoke(
        app, [*command, "--out", str(tmp_path / "b.csv"), "--dossier", str(tmp_path / "out")]
    )
    assert again.exit_code == 1
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.thorough
def test_columns_of_any_name_are_described(tmp_path):
    from csvw import CSVW

    release = _release(ln.GDP(mu=1), names=("日本", "lower_95"))
    found = ln.write_dossier(release, tmp_path / "out")
    plain = json.loads((found.folder / "answers.csv-metadata.json").read_text())
    names = [column["name"] for column in plain["tableSchema"]["columns"]]
    assert len({name.casefold() for name in names}) == len(names)
    with (found.folder / "answers.csv").open(newline="", encoding="utf-8") as file:
        assert [column["titles"] for column in plain["tableSchema"]["columns"]] == next(csv.reader(file))
    assert CSVW(str(found.folder / "answers.csv-metadata.json"), validate=True).is_valid


@pytest.mark.thorough
def test_measuring_records_in_no_cell_is_part_of_the_claim_where_it_costs(tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("sex\n" + "F\nM\nx\n" * 9)
    goal = ln.ApproxDP(epsilon=1, delta=1e-6, neighbours="replace-one")
    schema = ln.Schema(sex=("F", "M"))
    plan = ln.design(ln.assemble([ln.Marginal("sex")], schema), goal, method="identity")
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, ln.vectorize(str(people), schema), not_counted=True)
    claim = claim_of(release)
    assert release.spent_per_person > plan.spent_per_person
    assert claim.parameters["epsilon"] > 1
    assert "adds to this" in claim.details
    # Text and page showed what the plan alone spends.
    (shown,) = re.findall(r"that is epsilon = ([0-9.]+)\.", ln.summarize(release).text())
    assert float(shown) >= claim.parameters["epsilon"]
    page = ln.summarize(release).html()
    (shown,) = re.findall(r"<dt>ε per person \(δ = 1e-06\)</dt><dd>([0-9.]+)</dd>", page)
    assert float(shown) >= claim.parameters["epsilon"]
    assert "adds to it" in page
    assert "adds to it" in " ".join(ln.summarize(release).text().split())
    alone = ln.summarize(plan)
    assert "adds to it" not in alone.text() + alone.html()
