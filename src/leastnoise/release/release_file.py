"""A release from a file or a ledger, neither of which is believed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import (
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    PlanFileError,
    PrivacyError,
)
from leastnoise.core.operators import Array
from leastnoise.planning import plan_from_parts
from leastnoise.privacy import Entry, Goal, Ledger, goal_from_dict
from leastnoise.release.adjustment import adjustment_from_parts
from leastnoise.release.block_measuring import load_blocks
from leastnoise.release.not_counted import not_counted_from_parts
from leastnoise.release.presentation import Presentation, presentation_from_plain
from leastnoise.release.release import Receipt, Release
from leastnoise.release.stream_price import stream_price_from_parts

# What streams are called in a ledger: their rule, and the kind of what is stored.
STREAM = "stream"


def load_release(path: str | Path) -> Release:
    """The release that `Release.save` wrote; its plan is checked as `load_plan` does.

    For a folder, the release in blocks that was measured into it.

    Args:
        path: the file of the release, or the folder of a release in blocks.
    """
    if Path(path).is_dir():
        return load_blocks(path)
    name = Path(path).name
    return release_from_parts(*container.read(path, "release"), name)


def stored_release(ledger: Ledger, release_id: str) -> Release:
    """The release that a ledger has stored under an id. Costs nothing, and needs neither data nor plan.

    Streams have a release for each period: `load_stream` gives them.

    Raises:
        LedgerMismatchError: if the ledger knows no release of that id.
        AlreadySpentError: if it was paid for and its answers never stored.
        LedgerFileError: if what is stored is not a release of the plan that was paid for.
        PlanFileError: if it is a stream, or no release.
    """
    found = ledger.fetch(release_id)
    if found is None:
        raise LedgerMismatchError(
            f"the ledger {ledger.name!r} has no release {release_id!r}",
            field="release_id",
            given=release_id,
            remedy="`leastnoise ledger show`, or ledger.entries in Python, lists those it does",
        )
    entry, body = found
    if is_stream(entry):
        raise PlanFileError(
            f"{release_id!r} is a stream, which has a release for each period",
            field="release_id",
            given=release_id,
            remedy="take one of load_stream(ledger, stream_id).releases",
        )
    release = release_from_parts(*container.from_bytes(body, "release", release_id), release_id)
    receipt = Receipt(ledger.dataset, release_id, entry.head)
    if release.plan.digest != entry.charge.plan_digest or release.receipt != receipt:
        raise LedgerFileError(
            f"what is stored as release {release_id!r} is not what was paid for",
            field="release_id",
            given=release_id,
            remedy="restore the file",
        )
    return release


def is_stream(entry: Entry) -> bool:
    """Whether what a ledger was paid for is a stream."""
    return entry.table is not None and STREAM in entry.table.rules


def stored_goal(ledger: Ledger, release_id: str) -> Goal | None:
    """The goal that a stored release was designed for, without reading the rest of it.

    None where it followed from targets or other plans, or what is stored was made by something else.

    Raises:
        AlreadySpentError: if the release was paid for and its answers never stored.
    """
    found = ledger.fetch(release_id)
    try:
        content = {} if found is None else container.from_bytes(found[1], "release", release_id)[0]
    except PlanFileError:
        return None
    plan = content.get("plan")
    if not isinstance(plan, dict) or not plan.get("has_goal") or plan.get("after"):
        return None
    privacy = plan.get("privacy")
    try:
        return goal_from_dict(privacy) if isinstance(privacy, dict) else None
    except PrivacyError:
        return None


def release_from_parts(content: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> Release:
    """The release of plain values and arrays that `Release.save` wrote, once they are checked.

    Args:
        name: what errors call it: a file, or the id of a release.

    Raises:
        PlanFileError: if they are not those of a release, or its measurements do not fit its plan.
    """
    if not isinstance(content.get("plan"), dict) or "measurements" not in arrays:
        raise PlanFileError.must("path", "be a saved release", given=name)
    plan = plan_from_parts(content["plan"], arrays, name)
    limbs = arrays["measurements"]
    if limbs.ndim != 2 or limbs.dtype.kind != "i" or not limbs.size:
        raise PlanFileError(f"{name!r} holds measurements that do not fit its plan", field="path", given=name)
    measurements = exact.from_limbs(limbs).astype(object)
    if plan.mechanism is not None:
        fits = plan.mechanism.fits(measurements)
    else:
        fits = len(measurements) == plan.fixed_strategy().n_measured
    if not fits:
        raise PlanFileError(f"{name!r} holds measurements that do not fit its plan", field="path", given=name)
    adjusted = adjustment_from_parts(content.get("adjusted"), arrays, plan.workload.shape[1], name)
    is_truncated = content.get("is_truncated")
    if not isinstance(is_truncated, bool | None):
        raise PlanFileError(
            f"{name!r} does not say whether records of one person were left out", field="path", given=name
        )
    not_counted = not_counted_from_parts(content.get("not_counted"), arrays, plan, name)
    receipt, shown = _receipt(content.get("receipt"), name), _presentation(content.get("presented"), name)
    price = stream_price_from_parts(content.get("price"), plan, name)
    return Release(plan, measurements, receipt, adjusted, is_truncated, not_counted, shown, price)


def _presentation(plain: Any, name: str) -> Presentation | None:
    try:
        return None if plain is None else presentation_from_plain(dict(plain))
    except (InputError, TypeError, ValueError):
        raise PlanFileError(
            f"{name!r} describes how its answers are shown in an unknown way", field="path", given=name
        ) from None


def _receipt(plain: Any, name: str) -> Receipt | None:
    if plain is None:
        return None
    fields = ("dataset", "release_id", "head")
    if not isinstance(plain, dict) or sorted(plain) != sorted(fields):
        raise PlanFileError(f"{name!r} holds a receipt that no ledger gave", field="path", given=name)
    if not all(isinstance(plain[field], str) for field in fields):
        raise PlanFileError(f"{name!r} holds a receipt that no ledger gave", field="path", given=name)
    return Receipt(**plain)
