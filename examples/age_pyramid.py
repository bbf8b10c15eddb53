"""An age pyramid, published privately from a Parquet file, and drawn in the terminal.

The people are invented here, so that at the end the truth may be looked up.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import numpy as np

import leastnoise as ln
from leastnoise.population import draw_people, write_people

BAR = 500  # people per character


def main() -> None:
    """Invent people, publish the pyramid and the age distribution, draw, check."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "people.parquet"
        write_people(draw_people(100_000, np.random.default_rng(7)), Path(folder) / "people.csv")
        duckdb.read_csv(str(Path(folder) / "people.csv")).write_parquet(str(table))

        schema = ln.Schema(age=ln.Bins(range(0, 105, 5)), sex=("F", "M"))
        workload = ln.assemble(
            [ln.Marginal("age", "sex", name="pyramid"), ln.Prefix("age", name="younger than")], schema
        )
        plan = ln.design(workload, ln.ApproxDP(epsilon=0.5, delta=1e-6))
        release = ln.measure(plan, table)
        truth = workload.operator.apply(ln.vectorize(table, schema).vector())

    pyramid = release["pyramid"]["answer"].unstack("sex", sort=False)
    for age, row in pyramid[::-1].iterrows():
        women, men = ("#" * max(0, round(row[sex] / BAR)) for sex in ("F", "M"))
        print(f"{women:>12} {age:>9} {men}")
    print(f"standard errors {plan.stderr.min():.1f} to {plan.stderr.max():.1f}; {plan.certificate}")

    # The two tables agree: women and men up to an age are all who are younger.
    younger = release["younger than"]["answer"].to_numpy()
    assert np.allclose(np.cumsum(pyramid.sum(axis=1)), younger)
    # A Gaussian error beyond seven standard errors has a chance of 3e-12.
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
