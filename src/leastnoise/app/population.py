"""A synthetic town, realistic enough to publish: 200,000 people who never lived.

Regions of unequal size, an age pyramid with a post-war bulge, women living longer,
education that depends on the generation, and incomes that rise with education and
fall at retirement. Everything comes from one explicit generator.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leastnoise.app.specification import Spec
from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.privacy import ApproxDP
from leastnoise.query import Bins, Marginal, Prefix, Query, Ranges, Schema, Total

REGIONS = ("Centre", "Harbour", "Hills", "Riverside")
_REGION_SHARES = (0.41, 0.27, 0.12, 0.20)
EDUCATION = ("none yet", "school", "apprenticeship", "university")


def draw_people(n_people: int, generator: np.random.Generator) -> dict[str, Array]:
    """Columns region, age, sex, education and income of that many invented people."""
    if n_people < 0:
        raise InputError(f"the number of people must be zero or more, got {n_people}")
    age = _ages(n_people, generator)
    # Boys are born slightly more often; women live longer.
    share_female = np.clip(0.487 + 0.0022 * np.maximum(age - 50, 0), 0, 0.8)
    sex = np.where(generator.random(n_people) < share_female, "F", "M")
    # The centre is young, the hills are old.
    pull = np.array(_REGION_SHARES) * np.exp(np.outer((age - 40) / 100, [-0.9, 0.0, 1.1, 0.3]))
    region = _pick(pull, generator)
    education = _education(age, generator)
    income = _incomes(age, education, generator)
    return {
        "region": np.array(REGIONS)[region],
        "age": age,
        "sex": sex,
        "education": np.array(EDUCATION)[education],
        "income": income,
    }


def publication(*, epsilon: float = 1.0, delta: float = 1e-6) -> Spec:
    """What the town's statistical office publishes: a schema, tables and a privacy goal."""
    schema = Schema(
        region=REGIONS,
        age=Bins(range(0, 105, 5)),
        sex=("F", "M"),
        education=EDUCATION,
        income=Bins([0, 10_000, 20_000, 30_000, 50_000, 80_000, 1_000_000]),
    )
    queries: tuple[Query, ...] = (
        Total(name="everyone"),
        Marginal("region", "sex", name="sex by region"),
        Marginal("age", "sex", name="age pyramid"),
        Prefix("age", name="age distribution") * Marginal("region"),
        Ranges("age", [(0, 20), (20, 65), (65, 100)], name="life stages") * Marginal("education"),
        Prefix("income", name="income distribution") * Marginal("region"),
        Marginal("education", "income", name="income by education"),
    )
    named = tuple(query.having(name=query.name or query.title().replace(" x ", " by ")) for query in queries)
    return Spec(schema, named, ApproxDP(epsilon=epsilon, delta=delta))


def write_people(people: dict[str, Array], path: str | Path) -> Path:
    """Write the columns as a CSV file; returns the path."""
    import csv

    target = Path(path)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(people)
        writer.writerows(zip(*(column.tolist() for column in people.values()), strict=True))
    return target


def _ages(n_people: int, generator: np.random.Generator) -> Array:
    years = np.arange(100)
    births = 1.0 + 0.35 * np.exp(-(((years - 58) / 11) ** 2)) + 0.15 * np.exp(-(((years - 32) / 8) ** 2))
    # Gompertz mortality: the risk of dying doubles about every eight years.
    survival = np.exp(-np.cumsum(3e-5 * np.exp(0.095 * years)))
    shares = births * survival
    return generator.choice(years, size=n_people, p=shares / shares.sum())


def _education(age: Array, generator: np.random.Generator) -> Array:
    grown = age >= 18
    born_late = np.clip((75 - age) / 50, 0, 1)
    weights = np.column_stack(
        [np.zeros(len(age)), 0.55 - 0.30 * born_late, np.full(len(age), 0.35), 0.10 + 0.30 * born_late]
    )
    drawn = _pick(np.maximum(weights, 0), generator)
    student = (age >= 18) & (age < 25) & (generator.random(len(age)) < 0.5)
    return np.where(grown, np.where(student, 1, drawn), np.where(age >= 16, 1, 0))


def _incomes(age: Array, education: Array, generator: np.random.Generator) -> Array:
    typical = np.array([0.0, 26_000.0, 34_000.0, 47_000.0])[education]
    career = np.clip((age - 16) / 30, 0, 1) * 0.5 + 0.6
    retired = np.where(age >= 66, 0.55, 1.0)
    spread = np.exp(0.45 * generator.standard_normal(len(age)) - 0.1)
    earns = (age >= 16) & (generator.random(len(age)) < np.where(age >= 66, 0.97, 0.83))
    income = np.where(earns, typical * career * retired * spread, 0)
    return np.minimum(np.rint(income / 100) * 100, 999_900).astype(np.int64)


def _pick(weights: Array, generator: np.random.Generator) -> Array:
    """One column index per row, with chances in proportion to the row's weights."""
    cumulative = np.cumsum(weights, axis=1)
    marks = generator.random(len(weights)) * cumulative[:, -1]
    return np.minimum((cumulative <= marks[:, None]).sum(axis=1), weights.shape[1] - 1)
