"""Nested regions, conditions and all two-way tables in one workload, for people with several visits.

The example invents its table, so it can compare the answers with the truth at the end.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import leastnoise as ln

REGIONS = {
    "North": {"Coast": ["Abo", "Bex", "Cray"], "Hills": ["Dale", "Esk"]},
    "South": {"Plain": ["Fenn", "Gorse"], "Delta": ["Hythe", "Isle"]},
}
VISITS = 2  # maximum number of visits counted per person


def invent_visits(n_people: int, rng: np.random.Generator) -> pd.DataFrame:
    """One row per clinic visit; some people have more than `VISITS` visits, some do not state their sex."""
    towns = ["Abo", "Bex", "Cray", "Dale", "Esk", "Fenn", "Gorse", "Hythe", "Isle", "abroad"]
    people = pd.DataFrame(
        {
            "person": np.arange(n_people),
            "town": rng.choice(towns, n_people, p=[0.2, 0.1, 0.1, 0.1, 0.05, 0.15, 0.1, 0.1, 0.05, 0.05]),
            "age": rng.gamma(4.0, 11.0, n_people).round(1),
            "sex": rng.choice(["F", "M", None], n_people, p=[0.5, 0.48, 0.02]),
        }
    )
    return people.loc[people.index.repeat(1 + rng.poisson(0.6, n_people))]


def main() -> None:
    """Declare the schema, assemble the workload, design, measure, print the regions, check."""
    visits = invent_visits(30_000, np.random.default_rng(11))
    schema = ln.Schema(
        town=ln.Hierarchy(REGIONS, other="elsewhere"),
        age=ln.Bins([0, 18, 40, 65, float("inf")]),
        sex=ln.Categories(["F", "M"], null="other", outside="drop", other="not stated"),
    )
    workload = ln.assemble(
        [
            ln.Levels("town", name="regions"),
            ln.Cube("town", "age", "sex", order=2, name="tables"),
            ln.Where("town == 'North' and age >= 65", name="old in the North"),
            ln.Where("town == 'Coast' or age < 18", name="coast or young"),
            ln.Levels("town") * ln.Where("age >= 65 and sex == 'F'", name="old women"),
        ],
        schema,
    )
    # Zero-concentrated differential privacy, as census offices use it: the costs of releases add up, and
    # it is a natural fit for Gaussian noise.
    plan = ln.design(workload, ln.ZCDP(0.03, records_per_person=VISITS))
    data = ln.vectorize(visits, schema, person="person")
    release = ln.measure(plan, data)

    regions = release["regions"]
    for region, row in regions.iterrows():
        print(f"{region:<10} {row['answer']:>9,.0f} ± {row['upper'] - row['answer']:.0f}")
    old = release["old in the North"]
    print(f"65 and over in the North: {old['answer'].iloc[0]:,.0f} ± {1.96 * old['stderr'].iloc[0]:.0f}")
    print(plan.certificate)

    # Regions add up: Coast and Hills to the North, and the towns of the Coast to the Coast.
    answer = regions["answer"]
    assert np.isclose(answer["Coast"] + answer["Hills"], answer["North"])
    assert np.isclose(answer[["Abo", "Bex", "Cray"]].sum(), answer["Coast"])
    # The top-level regions add up to the overall total.
    everyone = release.answer(ln.Total())["answer"].iloc[0]
    assert np.isclose(answer[["North", "South", "elsewhere"]].sum(), everyone)
    assert plan.certificate.status == "optimal"
    # Each person contributes at least one visit and at most as many as the privacy goal allows.
    kept = data.vector(records_per_person=VISITS)
    assert kept.sum() == visits.groupby("person").size().clip(upper=VISITS).sum() < len(visits)
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    truth = workload.operator.apply(kept)
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
