"""Draw a synthetic table from a private release: measure two-way tables, then fit a model to them with mbi.

The example invents its people, so it can compare the synthetic table with the truth at the end.
Needs mbi: pip install 'leastnoise[mbi]'
"""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd

import leastnoise as ln

# Set both before importing mbi: double precision for the counts, and no compilation cache on disk.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

import mbi  # noqa: E402

SCHEMA = ln.Schema(
    age=ln.Bins([0, 18, 30, 45, 65, 80, 120]),
    sex=("F", "M"),
    region=("north", "east", "south", "west"),
    school=("none", "primary", "secondary", "higher"),
    work=("none", "part time", "full time"),
    income=range(5),
)
# Pairs known to be correlated. mbi assumes that the rest is conditionally independent given these.
PAIRS = [
    ("age", "sex"),
    ("age", "school"),
    ("age", "work"),
    ("sex", "work"),
    ("region", "school"),
    ("school", "work"),
    ("school", "income"),
    ("work", "income"),
]


def invent_people(n_people: int, rng: np.random.Generator) -> pd.DataFrame:
    """People whose schooling, work and income depend on age, sex and region, and on one another."""
    age = rng.gamma(3.5, 12.0, n_people).clip(0, 119).round(1)
    sex = rng.choice(["F", "M"], n_people, p=[0.51, 0.49])
    region = rng.choice(["north", "east", "south", "west"], n_people, p=[0.4, 0.3, 0.2, 0.1])
    schooling = (age >= 12) * (1 + (age >= 16) * (rng.random(n_people) < 0.8))
    schooling += (schooling == 2) * (age >= 22) * (rng.random(n_people) < 0.25 + 0.2 * (region == "north"))
    may_work = (age >= 16) & (age < 67) & (rng.random(n_people) < 0.6 + 0.1 * schooling)
    part_time = rng.random(n_people) < np.where(sex == "F", 0.4, 0.15)
    work = np.where(may_work, np.where(part_time, "part time", "full time"), "none")
    level = schooling * 0.7 + 1.5 * (work == "full time") + 0.5 * (work == "part time") - 0.5
    income = (level + rng.normal(0, 0.6, n_people)).round().clip(0, 4).astype(int)
    school = np.array(["none", "primary", "secondary", "higher"])[schooling]
    facts = {"age": age, "sex": sex, "region": region, "school": school, "work": work, "income": income}
    return pd.DataFrame(facts)


def shares(tables: dict[tuple[str, ...], np.ndarray]) -> dict[tuple[str, ...], np.ndarray]:
    """Tables as shares of their totals."""
    return {names: table / table.sum() for names, table in tables.items()}


def main() -> None:
    """Measure two-way tables, fit the model, draw a table of the estimated size, compare with the truth."""
    people = invent_people(50_000, np.random.default_rng(5))
    workload = ln.assemble([ln.Marginal(*pair) for pair in PAIRS], SCHEMA)
    # Zero-concentrated differential privacy, as census offices use it: the costs of releases add up, and
    # it is a natural fit for Gaussian noise.
    plan = ln.design(workload, ln.ZCDP(0.03), method="residuals")
    data = ln.vectorize(people, SCHEMA)
    release = ln.measure(plan, data)
    print(plan.certificate)

    # From here on, only the comparison at the end looks at the data.
    given = release.to_mbi()
    estimator = mbi.estimation.MirrorDescent()
    model = estimator.estimate(given.domain, given.measurements, known_total=given.total, tol=1e-6)
    drawn = model.synthetic_data(rows=round(given.total))
    table = pd.DataFrame(
        {name: [SCHEMA[name].label(code) for code in codes] for name, codes in drawn.data.items()},
        columns=SCHEMA.names,
    )
    print(table.head(5).to_string(index=False))

    unasked = [("age", "income"), ("school", "work", "income")]
    asked = [*PAIRS, *unasked]
    truth = shares(dict(zip(asked, data.tables(asked), strict=True)))
    found = shares({names: np.asarray(drawn.project(names).values) for names in asked})
    # Total variation distance: the share of people who would have to change cells.
    moved = {names: float(np.abs(found[names] - truth[names]).sum() / 2) for names in asked}
    for names in asked:
        remark = ", though never measured" if names in unasked else ""
        print(f"{' x '.join(names):<24} {moved[names]:>6.2%} of people in the wrong cell{remark}")

    assert len(table) == round(given.total)
    assert abs(given.total - len(people)) < 7 * release.answer(ln.Total())["stderr"].iloc[0]
    for a, b in PAIRS:
        # Expected share of people moved by the noise, and by drawing people independently. For a standard
        # normal z, E|z| = √(2/π); a person who moves changes two cells, hence the division by 2.
        noise = np.sqrt(2 / np.pi * plan.variance(ln.Marginal(a, b))).sum() / 2 / len(people)
        drawing = np.sqrt(2 / np.pi * truth[a, b] / len(people)).sum() / 2
        assert moved[a, b] < 2 * (noise + drawing), (a, b)
    # The table also reproduces correlations: independent columns with the true shares are far worse.
    apart = {
        (a, b): np.abs(np.outer(truth[a, b].sum(axis=1), truth[a, b].sum(axis=0)) - truth[a, b]).sum() / 2
        for a, b in PAIRS
    }
    assert sum(moved[pair] for pair in PAIRS) < sum(apart.values()) / 10


if __name__ == "__main__":
    main()
