"""The whole walk on invented people: what `leastnoise demo` does and shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.data import vectorize
from leastnoise.design import design
from leastnoise.population import draw_people, publication, write_people
from leastnoise.release import Release, measure
from leastnoise.report import summarize, write_answers
from leastnoise.report.tables import cost_table, cross_table


def run_demo(
    folder: Path,
    *,
    n_people: int,
    epsilon: float,
    seed: int,
    designing: Callable[[], AbstractContextManager[Any]],
    measuring: Callable[[], AbstractContextManager[Any]],
) -> Release:
    """Invent a town, publish its statistics, print what came out and where it was written."""
    from rich.console import Console

    console = Console(highlight=False)
    spec = publication(epsilon=epsilon)
    workload = spec.workload
    folder.mkdir(parents=True, exist_ok=True)
    people = write_people(draw_people(n_people, np.random.default_rng(seed)), folder / "people.csv")
    (folder / "town.toml").write_text(spec.to_toml(), encoding="utf-8")
    console.print(
        f"[bold]A town of {n_people:,} invented people[/bold] wants to publish {workload.shape[0]} counts: "
        f"{', '.join(workload.names)}."
    )
    console.print(f"Privacy: {spec.privacy.statement()}.\n")
    with designing() as progress:
        plan = design(workload, spec.privacy, progress=progress)
    plan.save(folder / "town.plan")
    with measuring():
        release = measure(plan, vectorize(people, spec.schema))
    release.save(folder / "town.release")
    write_answers(release, folder / "answers.csv")
    (folder / "summary.txt").write_text(summarize(release).text() + "\n", encoding="utf-8")

    console.print()
    console.print(cross_table(release, "sex by region"))
    console.print(cross_table(release, "age pyramid"))
    console.print(cost_table(plan))
    certificate = plan.certificate
    console.print(
        f"\n[bold]Proof.[/bold] The total variance is {certificate.achieved:,.6g}. No Gaussian noise with "
        f"this privacy can go below {certificate.lower_bound:,.6g}: the plan is {certificate.status}, "
        f"gap {certificate.gap:.1e}."
    )
    console.print(_looked_up(release, people))
    console.print(f"\nWritten to [bold]{folder}[/bold]:")
    for name, what in _FILES.items():
        console.print(f"  {name:<14} {what}")
    console.print("\nNext, with a table of your own:")
    console.print(f"  leastnoise explain {folder / 'town.toml'}")
    console.print(f"  leastnoise compare {folder / 'town.toml'}")
    console.print(f"  leastnoise publish {folder / 'town.toml'} --data {folder / 'people.csv'}")
    return release


_FILES = {
    "people.csv": "the invented people: what a publisher keeps secret",
    "town.toml": "what to publish: schema, queries, privacy",
    "town.plan": "the noise chosen, with its proof; saw no data",
    "answers.csv": "the published counts with standard errors and intervals",
    "town.release": "the same for Python: leastnoise.load_release()",
    "summary.txt": "the release in words",
}


def _looked_up(release: Release, people: Path) -> str:
    """How many intervals hold the truth, which only an invented town may tell."""
    schema = release.plan.workload.schema
    assert schema is not None
    truth = release.plan.workload.operator.apply(vectorize(people, schema).vector())
    lower, upper = release.interval(0.95)
    inside = int(((lower <= truth) & (truth <= upper)).sum())
    return (
        f"Because these people are invented we may look: {inside} of {len(truth)} intervals at 95% hold "
        "the true count."
    )
