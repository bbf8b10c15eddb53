"""Plans kept between commands, so that `publish` uses the plan that `explain` or `design` made.

A plan is kept under a digest of the whole request: version of leastnoise, schema, queries, targets, privacy,
objective, method, options, tolerance, time limit. It holds nothing of any table. The folder is that of this
user and of nobody else (0700):

    Linux      $XDG_CACHE_HOME/leastnoise/plans, by default ~/.cache/leastnoise/plans
    macOS      ~/Library/Caches/leastnoise/plans
    Windows    %LOCALAPPDATA%\\leastnoise\\plans

LEASTNOISE_PLAN_CACHE names another folder, or is "off". A kept plan is read as any plan file is: its
sensitivity is compared with its goal in exact arithmetic and its certificate is recomputed. Then it is
compared with the request; the name of the file proves nothing. Where it does not pass, the command says so
and designs the plan.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import leastnoise
from leastnoise.app.cli.terminal import note
from leastnoise.app.specification import Spec
from leastnoise.core.errors import LeastnoiseError
from leastnoise.planning import Plan, load_plan
from leastnoise.query import Objective, default_objective

NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="design again, and do not keep the plan for the next command"),
]

# The environment variable that names another folder, or switches the cache off.
PLACE = "LEASTNOISE_PLAN_CACHE"
OFF = "off"
# Plans that are kept; the oldest is removed when there are more.
MAX_PLANS = 20
# Bytes of one plan that is kept: a larger one takes long to read back, and plans are not worth a full disk.
MAX_PLAN_BYTES = 64 * 2**20


def kept_plan(spec: Spec, time_limit: float | None) -> Plan | None:
    """The plan that was designed for the same request, checked; None where there is none.

    A plan that was designed without a time limit serves where one is given: reading it takes no search.
    """
    folder = cache_folder()
    if folder is None:
        return None
    for limit in dict.fromkeys((time_limit, None)):
        path = folder / f"{request_digest(spec, limit)}.plan"
        if not path.is_file() or path.is_symlink():
            continue
        try:
            _check_private(folder)
            plan = load_plan(path)
            plan.certificate  # noqa: B018 - both sides recomputed before anybody relies on it
            different = difference(plan, spec) or _other_settings(plan, spec)
        except (LeastnoiseError, OSError) as error:
            different = str(error)
        if different is None:
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            note(f"using the plan designed at {at:%Y-%m-%d %H:%M:%S} UTC; --no-cache designs it again")
            return plan
        note(f"the kept plan {str(path)!r} is not used: {different}")
    return None


def keep_plan(plan: Plan, spec: Spec, time_limit: float | None) -> None:
    """Keep a plan for the next command; where that fails, say so and go on."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_private(folder)
        path = plan.save(folder / f"{request_digest(spec, time_limit)}.plan")
        if path.stat().st_size > MAX_PLAN_BYTES:
            path.unlink()
        for old in sorted(_plans_in(folder), key=lambda kept: kept.stat().st_mtime)[:-MAX_PLANS]:
            old.unlink(missing_ok=True)
    except (LeastnoiseError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        note(f"the plan is not kept for the next command: {reason}; {PLACE}={OFF} switches this off")


def cache_folder() -> Path | None:
    """Where plans are kept; None where that is switched off, or no home is known."""
    given = os.environ.get(PLACE, "")
    if given == OFF:
        return None
    if given:
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local or home / "AppData" / "Local") / "leastnoise" / "plans"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "leastnoise" / "plans"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "leastnoise" / "plans"


def request_digest(spec: Spec, time_limit: float | None) -> str:
    """A SHA-256 over everything that `design` is asked."""
    settings = spec.design_settings()
    request = {
        "leastnoise": leastnoise.__version__,
        "workload": spec.workload.digest,
        "privacy": spec.asked_privacy.to_dict(),
        "objective": _objective(spec).to_dict(),
        "time_limit": time_limit,
        **{name: settings.get(name) for name in ("method", "options", "over", "tol", "backend")},
    }
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()


def difference(plan: Plan, spec: Spec) -> str | None:
    """How a plan surely differs from one for a specification; None if no difference is found."""
    settings = spec.design_settings()
    if plan.workload.digest != spec.workload.digest:
        return "for other queries, another schema or other targets"
    if plan.after:
        return "designed after others"
    if plan.asked_privacy != spec.asked_privacy:
        return f"for {plan.asked_privacy}" if plan.has_goal else "without a goal"
    if plan.objective != _objective(spec):
        return f"for the objective {plan.objective}"
    if settings.get("method", "auto") not in ("auto", plan.method):
        return f"by the method {plan.method}"
    return None


def _other_settings(plan: Plan, spec: Spec) -> str | None:
    """The first setting of the search by which a plan differs; "auto" chooses options by itself."""
    settings = spec.design_settings()
    asked = {"tol": settings.get("tol", 1e-6), "over": settings.get("over")}
    if settings.get("method", "auto") != "auto":
        asked["options"] = settings.get("options", {})
    for name, value in asked.items():
        if getattr(plan, name) != value:
            return f"with another {name}"
    return None


def _objective(spec: Spec) -> Objective:
    given = spec.design_settings().get("objective")
    return default_objective(spec.workload, given, has_goal=spec.privacy is not None)


def _plans_in(folder: Path) -> Iterator[Path]:
    """The files that this room wrote: nothing else in the folder is ever removed."""
    return (path for path in folder.glob("*.plan") if len(path.stem) == 64 and path.is_file())


def _check_private(folder: Path) -> None:
    """Return if nobody else may write to the folder; its rights are narrowed where they are wider.

    Raises:
        OSError: if it belongs to somebody else, or is a link.
    """
    if os.name != "posix":
        return  # A Windows profile is its user's own.
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(0, f"{str(folder)!r} is not a folder of yours")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
