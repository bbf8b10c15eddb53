"""The whole walk on invented people: what `leastnoise demo` does and shows."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.app.population import draw_people, publication, write_people
from leastnoise.core.errors import InputError, UnrecordedSpending
from leastnoise.core.progress import ending_to_text
from leastnoise.data import vectorize
from leastnoise.planning import Plan, design
from leastnoise.release import Release, measure
from leastnoise.report import cost_table, cross_table, summarize, write_answers


def run_demo(
    folder: Path,
    *,
    n_people: int,
    epsilon: float,
    seed: int,
    designing: Callable[[], AbstractContextManager[Any]],
) -> Release:
    """Invent a town, publish its statistics, print what came out and where it was written."""
    from rich.console import Console

    if glob.has_magic(str(folder.absolute())):
        raise InputError(f"the folder's name must not hold * ? or [, got {str(folder.absolute())!r}")
    console = Console(highlight=False, markup=False, emoji=False)
    spec = publication(epsilon=epsilon)
    assert spec.privacy is not None
    workload = spec.workload
    console.print(
        f"A town of {n_people:,} invented people publishes {workload.shape[0]} counts in "
        f"{len(workload.names)} tables.\nPrivacy: {spec.privacy.statement()}.\n"
    )
    # Choosing the noise needs no people, so they are invented afterwards.
    with designing() as progress:
        plan = design(workload, spec.privacy, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "town.toml").write_text(spec.to_toml(), encoding="utf-8")
    plan.save(folder / "town.plan")
    people = write_people(draw_people(n_people, np.random.default_rng(seed)), folder / "people.csv")
    with warnings.catch_warnings():
        # Nobody who was invented needs a record of what was spent.
        warnings.simplefilter("ignore", UnrecordedSpending)
        release = measure(plan, vectorize(people, spec.schema))
    release.save(folder / "answers.release")
    write_answers(release, folder / "answers.csv")
    report = summarize(release)
    (folder / "summary.txt").write_text(report.text() + "\n", encoding="utf-8")
    page = report.to_html(folder / "report.html")

    console.print("Two of the tables, as published:\n")
    for name in ("sex by region", "life stages by education"):
        console.print(cross_table(release, name), "")
    console.print("The same privacy bought in simpler ways would have cost this much accuracy:\n")
    console.print(cost_table(plan), "")
    console.print(_proof(plan) + "\n")
    console.print(_looked_up(release, people) + "\n")
    # Not broken at the edge of the terminal: a path or a command is there to be copied.
    console.print(f"Written to {folder}:", soft_wrap=True)
    for name, what in _FILES.items():
        console.print(f"  {name:<16} {what}")
    console.print(f"\nTo see it all, open this in a browser:\n  {page}", soft_wrap=True)
    _say_what_is_next(console, folder)
    return release


def _say_what_is_next(console: Any, folder: Path) -> None:
    console.print("\nNext, with this town or with files of your own:")
    town, table = (shlex.quote(str(folder / name)) for name in ("town.toml", "people.csv"))
    program = "leastnoise" if shutil.which("leastnoise") else shlex.quote(os.path.relpath(sys.argv[0]))
    for command in (
        f"check {town} --data {table}",
        f"explain {town}",
        f"compare {town}",
        f"publish {town} --data {table}",
    ):
        console.print(f"  {program} {command}", soft_wrap=True)


_FILES = {
    "people.csv": "the invented people: what a publisher keeps secret",
    "town.toml": "what to publish: schema, queries, privacy",
    "town.plan": "the noise chosen, with its proof; saw no data",
    "answers.csv": "the published counts with standard errors and intervals",
    "answers.release": "the same for Python: leastnoise.load_release()",
    "summary.txt": "the release in words",
    "report.html": "the same as a page with pictures, for any browser",
}


def _proof(plan: Plan) -> str:
    certificate = plan.certificate
    found = {"optimal": "this is the optimum", "stopped": f"the search {ending_to_text(plan.ended)}"}
    return (
        f"Proof: the total variance is {certificate.achieved:,.9g}, and no Gaussian noise shaped to these "
        f"counts can have less than {certificate.lower_bound:,.9g} under the same privacy. Gap "
        f"{certificate.gap:.1e}: {found.get(certificate.status, certificate.status)}."
    )


def _looked_up(release: Release, people: Path) -> str:
    """How many intervals hold the truth, which only an invented town may tell."""
    schema = release.plan.workload.schema
    assert schema is not None
    truth = release.plan.workload.operator.apply(vectorize(people, schema).vector())
    lower, upper = release.interval(0.95)
    inside = int(((lower <= truth) & (truth <= upper)).sum())
    return (
        f"Because these people are invented we may look: {inside} of the {len(truth)} intervals hold the "
        "true count. 95% do on average; they miss together, so one release may have more or fewer."
    )
