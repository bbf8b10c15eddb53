"""`leastnoise demo`: invents a town, publishes its statistics, and shows the result.

The town has regions of unequal size, an age pyramid with a post-war bulge, women living longer, education
that depends on the generation, and incomes that rise with education and fall at retirement. Everything comes
from one explicit generator.
"""

from __future__ import annotations

import datetime
import glob
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.app.specification import Spec
from leastnoise.core.errors import InputError, UnrecordedSpending
from leastnoise.core.operators import Array
from leastnoise.core.progress import ending_to_text
from leastnoise.data import vectorize
from leastnoise.planning import Plan, design
from leastnoise.privacy import ApproxDP
from leastnoise.query import Bins, Marginal, Prefix, Query, Ranges, Schema, Total
from leastnoise.release import Release, measure
from leastnoise.report import Publication, cost_table, cross_table, summarize, write_answers

REGIONS = ("Centre", "Harbour", "Hills", "Riverside")
_REGION_SHARES = (0.41, 0.27, 0.12, 0.20)
EDUCATION = ("none yet", "school", "apprenticeship", "university")


def draw_people(n_people: int, generator: np.random.Generator) -> dict[str, Array]:
    """Columns region, age, sex, education and income of that many invented people."""
    if n_people < 0:
        raise InputError.must("n_people", "be zero or more", given=n_people)
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


def run_demo(
    folder: Path,
    *,
    n_people: int,
    epsilon: float,
    seed: int,
    designing: Callable[[], AbstractContextManager[Any]],
) -> Release:
    """Invent a town, publish its statistics, print what came out and where it was written."""
    from rich.console import Console

    if glob.has_magic(str(folder.absolute())):
        raise InputError.must("folder", "not hold * ? or [", given=str(folder.absolute()))
    console = Console(highlight=False, markup=False, emoji=False)
    spec = replace(publication(epsilon=epsilon), publication=_stated())
    assert spec.privacy is not None
    workload = spec.workload
    console.print(
        f"A town of {n_people:,} invented people publishes {workload.shape[0]} counts in "
        f"{len(workload.names)} tables.\nPrivacy: {spec.privacy.statement()}.\n"
    )
    # Choosing the noise needs no people, so they are invented afterwards.
    with designing() as progress:
        plan = design(workload, spec.privacy, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "town.toml").write_text(spec.to_toml(), encoding="utf-8")
    plan.save(folder / "town.plan")
    people = write_people(draw_people(n_people, np.random.default_rng(seed)), folder / "people.csv")
    with warnings.catch_warnings():
        # Nobody who was invented needs a record of what was spent.
        warnings.simplefilter("ignore", UnrecordedSpending)
        release = measure(plan, vectorize(people, spec.schema))
    release.save(folder / "answers.release")
    write_answers(release, folder / "answers.csv")
    report = summarize(release, spec.publication)
    (folder / "summary.txt").write_text(report.text() + "\n", encoding="utf-8")
    page = report.to_html(folder / "report.html")

    console.print("Two of the tables, as published:\n")
    for name in ("sex by region", "life stages by education"):
        console.print(cross_table(release, name), "")
    console.print("The same privacy bought in simpler ways would have cost this much accuracy:\n")
    console.print(cost_table(plan), "")
    console.print(_proof(plan) + "\n")
    console.print(_looked_up(release, people) + "\n")
    # Not broken at the edge of the terminal: a path or a command is there to be copied.
    console.print(f"Written to {folder}:", soft_wrap=True)
    for name, what in DEMO_FILES.items():
        console.print(f"  {name:<16} {what}")
    console.print(f"\nTo see it all, open this in a browser:\n  {page}", soft_wrap=True)
    _say_what_is_next(console, folder)
    return release


def _stated() -> Publication:
    """What the town's statistical office says about its publication."""
    return Publication(
        title="Population of the town",
        publisher="Town statistical office (invented)",
        source="Register of residents (invented)",
        unit="residents",
        date=datetime.date.today().isoformat(),
    )


def _program() -> str:
    """How to call this program again from the folder where it runs."""
    if shutil.which("leastnoise"):
        return "leastnoise"
    called = Path(sys.argv[0])
    if called.name in ("__main__.py", "-c"):
        return "python -m leastnoise"
    try:
        return shlex.quote(os.path.relpath(called))
    except ValueError:
        # Windows has no relative path from one drive to another.
        return shlex.quote(str(called))


def _say_what_is_next(console: Any, folder: Path) -> None:
    console.print("\nNext, with this town or with files of your own:")
    town, table = (shlex.quote(str(folder / name)) for name in ("town.toml", "people.csv"))
    program = _program()
    for command in (
        f"check {town} --data {table}",
        f"explain {town}",
        f"compare {town}",
        f"publish {town} --data {table}",
    ):
        console.print(f"  {program} {command}", soft_wrap=True)


DEMO_FILES = {
    "people.csv": "the invented people: what a publisher keeps secret",
    "town.toml": "what to publish: schema, queries, privacy",
    "town.plan": "the noise chosen, with its proof; saw no data",
    "answers.csv": "the published counts with standard errors and intervals",
    "answers.release": "the same for Python: leastnoise.load_release()",
    "summary.txt": "the release in words",
    "report.html": "the same as a page with pictures, for any browser",
}


def _proof(plan: Plan) -> str:
    certificate = plan.certificate
    found = {"optimal": "this is the optimum", "stopped": f"the search {ending_to_text(plan.ended)}"}
    return (
        f"Proof: the total variance is {certificate.achieved:,.9g}, and no Gaussian noise shaped to these "
        f"counts can have less than {certificate.lower_bound:,.9g} under the same privacy. Gap "
        f"{certificate.gap:.1e}: {found.get(certificate.status, certificate.status)}."
    )


def _looked_up(release: Release, people: Path) -> str:
    """How many intervals hold the truth, which only an invented town may tell."""
    schema = release.plan.workload.schema
    assert schema is not None
    truth = release.plan.workload.operator.apply(vectorize(people, schema).vector())
    lower, upper = release.interval(0.95)
    inside = int(((lower <= truth) & (truth <= upper)).sum())
    return (
        f"Because these people are invented we may look: {inside} of the {len(truth)} intervals hold the "
        "true count. 95% do on average; they miss together, so one release may have more or fewer."
    )
