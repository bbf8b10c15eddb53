"""Redistricting tables modelled on US Public Law 94-171: voting age, ethnicity, race, kind of housing.

States draw districts from these counts, so adults by ethnicity and race matter most. This example requests
tables P1 to P5, which count people, for one county with 2,016 cells. The official P3 and P4 cover only
adults; the example asks for both age groups, since subtracting adults from P1 and P2 gives minors anyway. It
leaves out table H1, which counts dwellings. No public table has all these columns, so the example invents the
county and compares the answers with the truth at the end.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

import leastnoise as ln
from leastnoise.report import drivers

RACES = ("White", "Black", "American Indian", "Asian", "Pacific", "Other")
SETS = [" + ".join(chosen) for size in range(1, 7) for chosen in combinations(RACES, size)]
HOUSING = ("household", "prison", "youth detention", "nursing home", "other institution")
HOUSING += ("college", "barracks", "other quarters")
SCHEMA = ln.Schema(age=("below 18", "18 and over"), hispanic=("no", "yes"), race=SETS, housing=HOUSING)
DELTA = 1e-10


def invent_people(n_people: int, rng: np.random.Generator) -> pd.DataFrame:
    """A county where race depends on ethnicity, and age on housing."""
    hispanic = rng.random(n_people) < 0.18
    one = np.where(hispanic, 5, rng.choice(6, n_people, p=[0.66, 0.2, 0.02, 0.08, 0.01, 0.03]))
    one = np.where(hispanic & (rng.random(n_people) < 0.5), 0, one)
    further = rng.random((n_people, 6)) < np.array([0.02, 0.01, 0.01, 0.008, 0.001, 0.005])
    further[np.arange(n_people), one] = True
    names = np.array([" + ".join(np.compress(row, RACES)) for row in further])
    housing = rng.choice(HOUSING, n_people, p=[0.975, 0.005, 0.0005, 0.005, 0.0005, 0.01, 0.002, 0.002])
    adult = (rng.random(n_people) < 0.77) | np.isin(
        housing, ["prison", "nursing home", "college", "barracks"]
    )
    age = np.where(adult & (housing != "youth detention"), "18 and over", "below 18")
    ethnicity = np.where(hispanic, "yes", "no")
    return pd.DataFrame({"age": age, "hispanic": ethnicity, "race": names, "housing": housing})


def main() -> None:
    """Request the tables with targets, see what drives the cost, publish, check."""
    workload = ln.assemble(
        [
            ln.Marginal("age", name="voting age", stderr=10),
            ln.Marginal("race", name="P1 race", stderr=30),
            ln.Marginal("hispanic", "race", name="P2 ethnicity by race", stderr=30),
            ln.Marginal("age", "race", name="P3 race by age", stderr=20),
            ln.Marginal("age", "hispanic", "race", name="P4 ethnicity by race by age", stderr=20),
            ln.Marginal("housing", name="P5 kind of housing", stderr=30),
        ],
        SCHEMA,
    )
    plan = ln.design(workload)
    found = drivers(plan, delta=DELTA)
    print(found)

    people = invent_people(60_000, np.random.default_rng(94))
    data = ln.vectorize(people, SCHEMA)
    release = ln.measure(plan, data)
    adults = release["P4 ethnicity by race by age"].xs("18 and over")
    print("\nadults of one race  not Hispanic       Hispanic")
    for race in RACES:
        rows = (adults.loc[(hispanic, race)] for hispanic in SCHEMA["hispanic"].values)
        shown = [f"{row['answer']:>8,.0f} ± {row['upper'] - row['answer']:.0f}" for row in rows]
        print(f"{race:<18} {shown[0]:>13} {shown[1]:>14}")

    # The noise actually drawn meets every target, and no Gaussian noise can do so at a lower privacy loss.
    targets = np.concatenate([np.full(block.n_rows, block.query.target) for block in workload.blocks])
    assert (plan.stderr <= targets).all()
    assert plan.certificate.status == "optimal"
    # Relaxing the largest cost driver lowers the cost. `drivers` designed the relaxed plan to measure this.
    first = found.drivers[0]
    assert first.is_binding
    assert first.changes[0].after < first.changes[0].before
    # The tables are consistent: P4 summed over ethnicity is P3, and P3 summed over ages is P1.
    by_age = release["P3 race by age"]["answer"]
    summed = release["P4 ethnicity by race by age"]["answer"].unstack("hispanic", sort=False).sum(axis=1)
    assert np.allclose(summed, by_age)
    assert np.allclose(by_age.unstack("age", sort=False).sum(axis=1), release["P1 race"]["answer"])
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    truth = workload.operator.apply(data.vector())
    assert truth[:2].sum() == len(people)  # the schema leaves nobody out
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
