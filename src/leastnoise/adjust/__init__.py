"""Answers that add up, are not negative, or are whole numbers: post-processing of a release.

All answers are added up from one table of cells, so that they are consistent whatever is asked:

    nonnegative.py   the cells x ≥ 0 that explain the measurements best, with a proof of how close they are
    rounding.py      whole numbers near them
    information.py   what the measurements say about the cells

Only the noisy measurements are looked at, never the data, so that it costs no privacy. It makes answers about
sparse tables more accurate and biased: counts of zero can only err upwards. What holds of the unadjusted
answers, standard errors and intervals, is kept and said to be theirs (`leastnoise.adjustment`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise.adjust.information import Information, information_of, require_cells
from leastnoise.adjust.nonnegative import PRECISION, nearest_nonnegative, nearest_of_total
from leastnoise.adjust.rounding import rounded
from leastnoise.adjustment import Adjustment
from leastnoise.errors import InputError
from leastnoise.operators import Array
from leastnoise.release import Release

__all__ = ["adjust"]


def adjust(release: Release, nonnegative: bool = True, integer: bool = False) -> Release:
    """The release with answers that add up and are possible counts, marked as adjusted.

    With ``nonnegative`` the answers are those of the cells x ≥ 0 nearest to the measurements, in the metric
    of their noise: of least Σ (y − A x)², y being all that was measured, among those with as many records as
    estimated, or none where the estimate is negative. They are found to a hundredth of each answer's
    standard error, which is proved (``release.adjusted.precision``; a larger number there says that the
    search ended before). With ``integer``, cells are rounded to whole numbers: the total becomes the nearest
    whole number, and counts of the first attribute of the schema, of its first two, and so on, move by at
    most one.

    What becomes of the rest: ``stderr`` stays that of the unadjusted answers, ``release.unadjusted``.
    ``interval`` stays theirs too, cut down to what is possible, and holds the true counts as often as before;
    adjusted answers may lie outside of it. Answers are biased: upwards where the true counts are small,
    downwards elsewhere. Queries with real or negative weights are answered from the same cells and need
    neither be whole numbers nor positive.

    Where the plan depends on the data, cells are those nearest to its mechanism's estimates, all alike.

    Guarantee:
        Post-processing of what was released: costs no privacy.

    Raises:
        InputError: if nothing is to be done, or the release was adjusted in another way.
        TooLargeError: if there are more cells than one vector may hold.
    """
    if not isinstance(release, Release):
        raise InputError(f"adjust() takes a Release from measure(), got {type(release).__name__}")
    for name, given in {"nonnegative": nonnegative, "integer": integer}.items():
        if not isinstance(given, (bool, np.bool_)):
            raise InputError(f"{name}= must be True or False, got {given!r}")
    if not (nonnegative or integer):
        raise InputError("nothing is to be adjusted; give nonnegative=True or integer=True")
    if release.adjusted is not None:
        if (release.adjusted.nonnegative, release.adjusted.integer) == (nonnegative, integer):
            return release
        raise InputError(
            f"this release is adjusted already ({release.adjusted.kinds}); adjust what was measured instead, "
            f"as in adjust(release.unadjusted, nonnegative={bool(nonnegative)}, integer={bool(integer)})"
        )
    require_cells(release.plan.workload.shape[1])
    information = None if release.plan.strategy is None else information_of(release.plan)
    cells, precision = _cells(release, information, bool(nonnegative))
    if integer:
        schema = release.plan.workload.schema
        cells = rounded(cells, len(cells) if schema is None else schema.shape[-1], information)
    # A negative zero would be printed as −0.
    return replace(release, adjusted=Adjustment(bool(nonnegative), bool(integer), cells + 0.0, precision))


def _cells(
    release: Release, information: Information | None, nonnegative: bool
) -> tuple[Array, float | None]:
    """Real cells, and how near they are to the best."""
    if information is None:
        estimates = np.asarray(release.estimates, dtype=float)
        if not nonnegative:
            return estimates, None
        return nearest_of_total(estimates, float(estimates.sum()), np.zeros_like(estimates)), None
    estimates = information.estimates(release.measurements)
    if not nonnegative:
        return estimates, 0.0
    linear = information.linear(estimates, release.measurements)
    fit = nearest_nonnegative(information, estimates, linear, precision=PRECISION)
    return fit.cells, fit.precision
