"""The synthetic town: plausible, reproducible, and wholly inside what it publishes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas
import pytest

from leastnoise.app.demo import EDUCATION, REGIONS, draw_people, publication, write_people
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import InputError, PrivacyError
from leastnoise.data import vectorize
from leastnoise.planning import design
from leastnoise.privacy import ApproxDP
from support import refuses

N = 40_000
PEOPLE = draw_people(N, np.random.default_rng(1))
# Five standard errors of a share of a half: a fixed draw, so nothing here is left to chance.
SLACK = 5 * 0.5 / np.sqrt(N)


def share(condition: np.ndarray) -> float:
    return float(np.mean(condition))


def test_columns_are_those_of_the_schema() -> None:
    assert tuple(PEOPLE) == publication().schema.names
    assert {len(column) for column in PEOPLE.values()} == {N}


def test_women_live_longer() -> None:
    women, age = PEOPLE["sex"] == "F", PEOPLE["age"]
    assert set(PEOPLE["sex"]) == {"F", "M"}
    assert 0.487 - SLACK < share(women) < 0.52
    assert share(women[age < 40]) < 0.5 < share(women[age >= 70]) < 0.62


def test_regions_keep_their_order_of_size() -> None:
    found = {name: share(PEOPLE["region"] == name) for name in REGIONS}
    assert sum(found.values()) == pytest.approx(1)
    assert sorted(found, key=found.__getitem__) == ["Hills", "Riverside", "Harbour", "Centre"]
    assert found["Centre"] == pytest.approx(0.41, abs=0.02)
    ages = {name: PEOPLE["age"][PEOPLE["region"] == name].mean() for name in REGIONS}
    assert min(ages, key=ages.__getitem__) == "Centre"
    assert max(ages, key=ages.__getitem__) == "Hills"


def test_ages_run_from_birth_to_99_and_thin_out() -> None:
    age = PEOPLE["age"]
    assert (age.min(), age.max()) == (0, 99)
    assert 0.15 < share(age < 18) < 0.25
    assert 0.12 < share(age >= 65) < 0.25
    assert share(age >= 90) < 0.02
    assert 38 < np.median(age) < 48


def test_education_fits_the_age() -> None:
    age, education = PEOPLE["age"], PEOPLE["education"]
    assert set(education) == set(EDUCATION)
    assert ((education == "none yet") == (age < 16)).all()
    assert set(education[age < 18]) == {"none yet", "school"}
    young, old = (
        share(education[chosen] == "university") for chosen in ((age >= 30) & (age < 40), age >= 75)
    )
    assert young > 2 * old


def test_incomes_rise_with_education_and_fall_at_retirement() -> None:
    age, income, education = PEOPLE["age"], PEOPLE["income"], PEOPLE["education"]
    assert (income[age < 16] == 0).all()
    assert income.min() == 0
    assert income.max() < 1_000_000
    assert (income % 100 == 0).all()
    working = (age >= 30) & (age < 60) & (income > 0)
    medians = [np.median(income[working & (education == level)]) for level in EDUCATION[1:]]
    assert medians == sorted(medians)
    assert 20_000 < medians[0] < medians[-1] < 60_000
    assert np.median(income[age >= 70]) < 0.8 * np.median(income[working])


def test_the_generator_decides_who_lives_there() -> None:
    again, other = (draw_people(500, np.random.default_rng(seed)) for seed in (1, 2))
    same = draw_people(500, np.random.default_rng(1))
    assert all((again[name] == same[name]).all() for name in again)
    assert any((again[name] != other[name]).any() for name in again)


def test_nobody_falls_outside_the_publication() -> None:
    schema = publication().schema
    data = vectorize(pandas.DataFrame(PEOPLE), schema)
    assert int(data.vector().sum()) == N
    assert data.counts("sex").tolist() == [(PEOPLE["sex"] == sex).sum() for sex in ("F", "M")]
    first = [schema[name].position(PEOPLE[name][0].item()) for name in schema]
    assert None not in first


def test_written_people_are_counted_alike(tmp_path: Path) -> None:
    few = {name: column[:300] for name, column in PEOPLE.items()}
    path = write_people(few, tmp_path / "people.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(PEOPLE)
    assert len(rows) == 301
    schema = publication().schema
    from_file = vectorize(path, schema).vector()
    assert from_file.tolist() == vectorize(pandas.DataFrame(few), schema).vector().tolist()
    assert from_file.sum() == 300


def test_an_empty_town_is_a_town(tmp_path: Path) -> None:
    nobody = draw_people(0, np.random.default_rng(1))
    assert {len(column) for column in nobody.values()} == {0}
    path = write_people(nobody, tmp_path / "people.csv")
    assert vectorize(path, publication().schema).vector().sum() == 0
    with refuses(InputError, "n_people", -1):
        draw_people(-1, np.random.default_rng(1))


@pytest.mark.thorough
def test_publication_is_designed_to_the_optimum() -> None:
    spec = publication()
    assert spec.workload.names == (
        "everyone",
        "sex by region",
        "age pyramid",
        "age distribution by region",
        "life stages by education",
        "income distribution by region",
        "income by education",
    )
    assert spec.workload.shape == (189, 3840)
    assert spec.privacy == ApproxDP(epsilon=1, delta=1e-6)
    plan = design(spec.workload, spec.privacy)
    assert plan.certificate.status == "optimal"
    assert plan.certificate.lower_bound <= plan.certificate.achieved
    assert plan.epsilon(delta=1e-6) <= 1


def test_publication_survives_being_written() -> None:
    spec = publication(epsilon=0.5, delta=1e-7)
    again = parse_spec(spec.to_toml())
    assert again.workload.digest == spec.workload.digest
    assert again.privacy == spec.privacy == ApproxDP(epsilon=0.5, delta=1e-7)
    with refuses(PrivacyError, "epsilon", 0):
        publication(epsilon=0)
