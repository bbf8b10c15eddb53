"""An age pyramid with voting-age targets: state how accurate each count must be, get the least epsilon.

Elections need accurate counts of people under 18 and of people 18 and over; counts up to each single year of
age may be rougher. No public table of real people covers all ages, so this example invents its people and
compares the answers with the truth at the end.
The workload follows Xiao et al. (2021), "Optimizing Fitness-for-Use", section 7.5.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import numpy as np

import leastnoise as ln
from leastnoise.app.demo import draw_people, write_people

NARROW, WIDE = 25, 80  # standard errors, in people
DELTA = 1e-6
BAR = 500  # people per character


def main() -> None:
    """Set the targets, find the least epsilon, publish, draw the pyramid, check."""
    schema = ln.Schema(age=range(116), sex=("F", "M"))
    voting_age = ln.Ranges("age", [(0, 17), (18, 115)])
    workload = ln.assemble(
        [
            voting_age.having(name="voting age", stderr=NARROW),
            (voting_age * ln.Marginal("sex")).having(name="voting age by sex", stderr=NARROW),
            ln.Prefix("age", name="up to an age", stderr=WIDE),
            (ln.Prefix("age") * ln.Marginal("sex")).having(name="up to an age by sex", stderr=WIDE),
        ],
        schema,
    )
    plan = ln.design(workload)  # no privacy goal: find the least privacy loss that meets every target
    # For comparison: independent noise on each count, as large as its target allows. For each cell, μ² is
    # the sum of 1/target² over the counts that include it.
    targets = np.repeat([NARROW, WIDE], [2 + 4, 116 + 232])
    each_mu = np.sqrt((workload.dense() ** 2 / targets[:, None] ** 2).sum(axis=0).max())
    each = ln.design(ln.assemble([ln.Total()], schema), ln.GDP(each_mu))

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "people.parquet"
        write_people(draw_people(100_000, np.random.default_rng(7)), Path(folder) / "people.csv")
        duckdb.read_csv(str(Path(folder) / "people.csv")).write_parquet(str(table))
        release = ln.measure(plan, table)
        truth = workload.operator.apply(ln.vectorize(table, schema).vector())

    bands = ln.Ranges("age", [(low, low + 4) for low in range(0, 100, 5)], name="band")
    pyramid = release.answer(bands * ln.Marginal("sex"))["answer"].unstack("sex", sort=False)
    for low, (_, row) in zip(range(95, -1, -5), pyramid[::-1].iterrows(), strict=True):
        women, men = ("#" * max(0, round(row[sex] / BAR)) for sex in ("F", "M"))
        print(f"{women:>12} {low:>3}–{low + 4:<3} {men}")
    print()
    for ages, row in release["voting age"].iterrows():
        print(f"{ages:<10} {row['answer']:>9,.0f} ± {row['upper'] - row['answer']:.0f} (95% interval)")
    spent, apart = plan.epsilon(delta=DELTA), each.epsilon(delta=DELTA)
    print(f"\nLeast epsilon for all targets: {spent:.3f} at delta = {DELTA:g}; no Gaussian noise meets")
    print(f"them with less. Independent Gaussian noise on each of the {len(truth)} counts needs {apart:.3f}.")
    print(plan.certificate)

    # The noise actually drawn meets every target, and the certificate proves that epsilon is minimal.
    assert (plan.stderr <= targets).all()
    assert plan.certificate.status == "optimal"
    assert spent < apart / 2
    # Women and men up to an age add up to everyone up to that age.
    by_sex = release["up to an age by sex"]["answer"].unstack("sex", sort=False)
    assert np.allclose(by_sex.sum(axis=1).to_numpy(), release["up to an age"]["answer"].to_numpy())
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
