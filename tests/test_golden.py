"""Plans, releases and ledgers in every format written so far.

The files under ``golden/files`` were written by the versions of the time. ``expected.json`` beside them holds
what that version said of its own files. Every file must be read and verify, and say today what it said then.
Plans of the first three formats had no digest; theirs is what the reader of today computes.

The files are never written again: a new format gets a new folder. Where today differs on purpose, the
changelog says why, and a list below says where.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from tolerances import ROUNDING

FILES = Path(__file__).parent / "golden" / "files"
FORMATS = sorted(folder.name for folder in FILES.iterdir())

# Formats whose plans do not say how their search ended.
WITHOUT_ENDING = ("1-0.1.0", "2-policies", "3-caps", "4-structured", "5-adjusted")

# Formats that published some answers of method residuals in the order of other rows.
PERMUTED = [(name, "residuals-permuted") for name in ("4-structured", "5-adjusted")]

# Formats that made intervals of sums under Laplace noise too wide.
WIDER = [(name, "pure") for name in ("1-0.1.0", "2-policies")]

# Cross tables under replace-one whose sensitivity was bounded; it is exact now, and smaller.
TIGHTER = [(name, "marginals-replace") for name in ("4-structured", "5-adjusted", "6-ended", "7-tables")]

# A ledger of the first layout that added releases cell by cell without knowing that they share a table.
SUMMED = [("5-adjusted", "disjoint")]


@cache
def expected(name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((FILES / name / "expected.json").read_text())
    return said


def files(suffix: str) -> list[tuple[str, str]]:
    return [(name, path.stem) for name in FORMATS for path in sorted((FILES / name).glob(f"*.{suffix}"))]


PLANS, RELEASES, LEDGERS = files("plan"), files("release"), files("ledger")


def is_close(found: Any, then: Any) -> bool:
    """Whether numbers are those of the time (written with thirteen digits; unknown ones are NaN)."""
    return bool(np.allclose(found, then, rtol=ROUNDING, atol=ROUNDING, equal_nan=True))


def half_open(label: str) -> str:
    """A label as all formats so far wrote it: the one bin between two whole numbers was half-open."""
    return label.replace("income 0–999", "income [0, 1,000)")


def check_plan(
    plan: ln.Plan, said: dict[str, Any], *, are_rows_permuted: bool = False, is_tighter: bool = False
) -> None:
    """Hold a plan that was read to what was said of it when it was written."""
    recomputed = ln.certify(plan.workload, plan)
    for certificate in (plan.certificate, recomputed):
        assert certificate.status == said["status"]
        assert is_close(certificate.achieved, float(said["achieved"]))
        assert is_close(certificate.lower_bound, float(said["lower_bound"]))
    labels = [half_open(str(label)) for label in plan.workload.labels]
    assert hashlib.sha256(json.dumps(labels).encode()).hexdigest() == said["labels"]
    assert (plan.method, plan.claim, plan.note) == (said["method"], said["claim"], said["note"])
    assert plan.privacy.to_dict() == said["privacy"]
    assert plan.digest == said["digest"]
    assert plan.ended == said.get("ended")
    assert plan.mu < said["mu"] if is_tighter else plan.mu == said["mu"]
    assert plan.factor is None if said.get("factor") is None else is_close(plan.factor, said["factor"])
    if said["stderr"] is None:
        assert plan.stderr is None
    elif are_rows_permuted:
        assert not is_close(plan.stderr, said["stderr"])
        assert is_close(sorted(plan.stderr), sorted(said["stderr"]))
    else:
        assert is_close(plan.stderr, said["stderr"])


def test_every_format_is_there() -> None:
    assert [name.partition("-")[0] for name in FORMATS] == ["1", "2", "3", "4", "5", "6", "7"]
    for name in FORMATS:
        said = expected(name)
        written = {path.name for path in (FILES / name).iterdir()} - {"expected.json"}
        assert {f"{stem}.release" for stem in said["releases"]} <= written
        assert {f"{stem}.ledger" for stem in said["ledgers"]} <= written
        assert {Path(file).stem for file in written if file.endswith(".plan")} <= said["plans"].keys()


@pytest.mark.parametrize(("name", "stem"), PLANS)
def test_plan_reads_as_it_was_written(name: str, stem: str, tmp_path: Path) -> None:
    plan = ln.load_plan(FILES / name / f"{stem}.plan")
    check_plan(plan, expected(name)["plans"][stem])
    if name in WITHOUT_ENDING:
        assert plan.ended is None
    again = ln.load_plan(plan.save(tmp_path / "again.plan"))
    assert again.digest == plan.digest


@pytest.mark.parametrize(("name", "stem"), RELEASES)
def test_release_reads_as_it_was_written(name: str, stem: str) -> None:
    release, said = ln.load_release(FILES / name / f"{stem}.release"), expected(name)["releases"][stem]
    of_plan = expected(name)["plans"].get(stem.removesuffix("-adjusted"))
    if of_plan is not None:
        check_plan(
            release.plan,
            of_plan,
            are_rows_permuted=(name, stem) in PERMUTED,
            is_tighter=(name, stem) in TIGHTER,
        )
    if (name, stem) in PERMUTED:
        # Its noise is some millionths, so that the answers themselves say which row is whose.
        assert (
            np.abs(release.answers - said["true"]).max()
            < 0.01
            < np.abs(release.answers - said["answers"]).max()
        )
    else:
        assert is_close(release.answers, said["answers"])
    if "interval" in said:
        lower, upper = release.interval(level=0.9)
        then_lower, then_upper = said["interval"]
        if (name, stem) in WIDER:
            width, then_width = upper - lower, np.subtract(then_upper, then_lower)
            assert (width <= then_width * (1 + ROUNDING)).all() and (width < 0.9 * then_width).any()
        else:
            assert is_close(lower, then_lower) and is_close(upper, then_upper)
    if stem.endswith("-adjusted"):
        check_adjustment(release, said)
    else:
        assert release.adjusted is None


def check_adjustment(release: ln.Release, said: dict[str, Any]) -> None:
    adjusted = release.adjusted
    assert adjusted is not None
    assert (adjusted.nonnegative, adjusted.integer) == (said["nonnegative"], said["integer"])
    if "ended" in said or "stopped" in said:
        # The fifth format says "stopped" of an adjustment that its time limit ended.
        assert adjusted.ended == said.get("ended", "deadline" if said.get("stopped") else "converged")


@pytest.mark.parametrize(("name", "stem"), LEDGERS)
def test_ledger_verifies(name: str, stem: str, tmp_path: Path) -> None:
    said = expected(name)["ledgers"][stem]
    ledger = ln.Ledger(shutil.copy(FILES / name / f"{stem}.ledger", tmp_path))
    verified = ledger.verify(said["head"])
    assert (ledger.dataset, ledger.planned, ledger.head) == (said["dataset"], said["planned"], said["head"])
    assert ledger.limit.to_dict() == said["limit"]
    assert verified.n_entries == len(said["entries"])
    assert verified.n_stored == len(said["answers"])
    for entry, then in zip(ledger.entries, said["entries"], strict=True):
        assert (entry.release_id, entry.at, entry.head) == (then["release_id"], then["at"], then["head"])
        assert (entry.is_stored, entry.charge.noise) == (then["is_stored"], then["noise"])
        assert (entry.charge.plan_digest, list(entry.after)) == (then["plan"], then["after"])
    if (name, stem) in SUMMED:
        # Two releases of disjoint cells were charged as one; today nothing confirms that they share a table.
        assert [entry.charged for entry in ledger.entries] == [1, 1]
        assert [then["charged"] for then in said["entries"]] == ["1", "0"]
        assert ledger.remaining.mu_squared == 0
    else:
        assert [str(entry.charged) for entry in ledger.entries] == [
            then["charged"] for then in said["entries"]
        ]
        for kind, left in said["remaining"].items():
            found = getattr(ledger.remaining, kind)
            assert found == (None if left is None else Fraction(left))


@pytest.mark.parametrize(("name", "stem"), LEDGERS)
def test_ledger_hands_out_its_answers_and_pays_on(name: str, stem: str, tmp_path: Path) -> None:
    said = expected(name)["ledgers"][stem]
    ledger = ln.Ledger(shutil.copy(FILES / name / f"{stem}.ledger", tmp_path))
    for release_id, answers in said["answers"].items():
        _, body = ledger.fetch(release_id)
        (tmp_path / "stored.release").write_bytes(body)
        release = ln.load_release(tmp_path / "stored.release")
        assert is_close(release.answers, answers)
        assert release.receipt.release_id == release_id
    before = ledger.verify(said["head"]).n_entries
    limit = said["limit"]
    fits = {"neighbours": limit["neighbours"], "records_per_person": limit["records_per_person"]}
    goal = ln.PureDP(0.01, **fits) if limit["goal"] == "PureDP" else ln.GDP(0.01, **fits)
    plan = ln.design(ln.Workload.from_matrix(np.eye(2, dtype=int)), goal)
    if (name, stem) in SUMMED:
        with pytest.raises(ln.LeastnoiseError):
            ln.measure(plan, np.array([3, 4]), ledger=ledger, release_id="one more")
        assert ledger.verify(said["head"]).n_entries == before
    else:
        ln.measure(plan, np.array([3, 4]), ledger=ledger, release_id="one more")
        assert ln.Ledger(ledger.path).verify(said["head"]).n_entries == before + 1
