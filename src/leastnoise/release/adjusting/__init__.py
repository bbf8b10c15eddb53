"""Answers that add up, are not negative, or are whole numbers: post-processing of a release.

All answers are added up from one table of cells, so that they are consistent whatever is asked:

    adjust_progress.py  the deadline, the progress and the ending of an adjustment
    reduced_sums.py     the sums over cells that measured rows or cross tables depend on
    information.py      what the measurements say about the cells
    least_squares.py    the cells that explain the measurements best, whatever their signs
    interior.py         the best cells x ≥ 0 by an interior-point method, where few sums are measured
    nonnegative.py      the same by an active set of faces, with a proof of how close they are
    entropy.py          cells x > 0 drawn towards independent attributes, at the estimated least error
    rounding.py         whole numbers near them

Only the noisy measurements are looked at, never the data, so that it costs no privacy. It makes answers about
sparse tables more accurate and biased: counts of zero can only err upwards. What holds of the unadjusted
answers, standard errors and intervals, is kept and said to be theirs (`leastnoise.release.adjustment`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise.core.errors import InputError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.core.remedies import Argument, OnRelease, Remedy
from leastnoise.release.adjusting.adjust_progress import AdjustProgress, AdjustWatch, require_time_limit
from leastnoise.release.adjusting.entropy import EntropyFit, drawn_directions, entropy_cells
from leastnoise.release.adjusting.information import (
    Information,
    information_of,
    require_cells,
)
from leastnoise.release.adjusting.least_squares import least_squares_cells
from leastnoise.release.adjusting.nonnegative import (
    PRECISION,
    NonnegativeFit,
    nearest_nonnegative,
    nearest_of_total,
)
from leastnoise.release.adjusting.rounding import rounded
from leastnoise.release.adjustment import FITS, NEAR_ENOUGH, Adjustment, Fit
from leastnoise.release.release import Release

__all__ = ["AdjustProgress", "adjust"]

# Answers that may be further from the best ones than this, in standard errors, are not handed out unasked:
# after a minute, pairs of three attributes of a hundred values had 8 times the squared error of the release.
_FARTHEST = 1.0


def adjust(
    release: Release,
    nonnegative: bool = True,
    integer: bool = False,
    *,
    fit: Fit | None = None,
    progress: Told[AdjustProgress] = None,
    time_limit: float | None = None,
) -> Release:
    """The release with answers that agree and are possible counts, marked as adjusted.

    With ``nonnegative`` the answers are sums of cells x ≥ 0 with as many records as estimated, or none where
    the estimate is negative. ``fit="least squares"`` takes the cells that minimise Σ (y − A x)², y being all
    measurements. ``fit="entropy"`` shrinks them towards a table of independent attributes by as much as
    lowers the estimated error (`leastnoise.release.adjusting.entropy`), so that less noise is taken for
    structure. By default it is entropy, and least squares where the measurements do not determine the number
    of records or where rounding ends the search of the other. Either is found to a hundredth of each answer's
    standard error, which is proved (``release.adjusted.precision``; a larger number there means that the
    search ended early). With ``integer``, cells are rounded to whole numbers: the total becomes the nearest
    whole number, and counts of the first attribute of the schema, of its first two, and so on, move by at
    most one.

    ``stderr`` stays that of the unadjusted answers, ``release.unadjusted``. ``interval`` stays theirs too,
    cut to what is possible, with the same coverage of the true counts; adjusted answers may lie outside it.
    Answers are biased: upwards where the true counts are small, downwards elsewhere. Queries with real or
    negative weights are answered from the same cells and need be neither whole numbers nor positive.

    With ``nonnegative=False`` alone, answers are made to agree and stay unbiased: they come from the cells
    that minimise Σ (y − A x)², whatever their signs. Where the answers agree already, which is always but for
    method "residuals" with several blocks of the same attributes, the release is returned unchanged. Their
    standard errors are at most ``stderr``; with Gaussian noise ``interval`` is around them.

    Where the plan depends on the data, the cells are those nearest to its mechanism's estimates, all weighted
    equally.

    ``release.adjusted.ended`` says how the search ended: "converged"; "exhausted" where further steps gained
    nothing; "deadline"; or "interrupted", by Ctrl-C, which returns the best cells so far, non-negative and
    rounded as requested. ``release.adjusted.precision`` says how far from the best their answers may be.

    Args:
        release: the release to adjust; it stays as it is.
        nonnegative: whether no cell may be negative.
        integer: whether cells are rounded to whole numbers.
        fit: "entropy" or "least squares"; None for entropy wherever the number of records is measured.
        progress: called with an `AdjustProgress` after every step of the search. By default a notebook
            shows a bar if this takes more than a second; ``False`` for none.
        time_limit: seconds, after which the best cells so far are used; checked between steps. By default
            300, after which cells are used only if they are good enough; ``math.inf`` for no limit.

    Guarantee:
        Post-processing of what was released: costs no privacy.

    Raises:
        InputError: if an argument is not one of these, or the release was adjusted in another way.
        TooLargeError: if there are more cells than one vector may hold; or if the search ended more than one
            standard error from the best answers, without a ``time_limit`` and without Ctrl-C.
    """
    _check_arguments(release, nonnegative=nonnegative, integer=integer, fit=fit, time_limit=time_limit)
    if release.adjusted is not None or not (nonnegative or integer or _may_disagree(release)):
        return release
    require_cells(release.plan.workload.shape[1])
    with progress_shown(progress, "adjusting", lambda step: (f"adjusting: step {step.step:,}", None)) as tell:
        watch = AdjustWatch(tell, time_limit)
        return replace(release, adjusted=_adjustment(release, bool(nonnegative), bool(integer), fit, watch))


def _check_arguments(
    release: Release, *, nonnegative: bool, integer: bool, fit: Fit | None, time_limit: float | None
) -> None:
    """Return if they are as `adjust` says, and the release is not adjusted, or in this way."""
    if not isinstance(release, Release):
        raise InputError.must("release", "be a Release from measure()", given=type(release))
    for name, given in {"nonnegative": nonnegative, "integer": integer}.items():
        if not isinstance(given, (bool, np.bool_)):
            raise InputError.must(name, "be True or False", given=given)
    if fit is not None and fit not in FITS:
        raise InputError.must("fit", f"be one of {', '.join(map(repr, FITS))}, or None", given=fit)
    if fit == "entropy" and not nonnegative:
        raise InputError.must("fit", "be 'least squares' or None where cells may be negative", given=fit)
    require_time_limit(time_limit)
    done = release.adjusted
    if done is None:
        return
    if (done.nonnegative, done.integer) != (nonnegative, integer) or fit not in (None, done.fit):
        asked = "" if fit is None else f", fit={fit!r}"
        raise InputError(
            f"this release is adjusted already ({done.kinds}, by {done.fit})",
            field="release",
            given=done.kinds,
            remedy="adjust what was measured instead, as in adjust(release.unadjusted, "
            f"nonnegative={bool(nonnegative)}, integer={bool(integer)}{asked})",
        )


def _adjustment(
    release: Release, nonnegative: bool, integer: bool, fit: Fit | None, watch: AdjustWatch
) -> Adjustment:
    """Cells of the kinds asked for, and how near they are to the best."""
    information = None if release.plan.strategy is None else information_of(release.plan)
    chosen = _possible_fit(release, information, nonnegative, fit)
    cells, precision, ended = _cells(release, information, nonnegative, chosen, fit is None, watch)
    if chosen == "entropy" and fit is None and ended == "exhausted":
        # Rounding ended Newton's steps, as where few cells hold billions of records.
        chosen = "least squares"
        cells, precision, ended = _cells(release, information, nonnegative, chosen, False, watch)
    if integer:
        schema = release.plan.workload.schema
        shape = (len(cells),) if schema is None else schema.shape
        cells, rounding_ended = rounded(cells, shape, information, watch)
        ended = worst_ending([ended, rounding_ended])
    return Adjustment(
        nonnegative=nonnegative,
        integer=integer,
        # A negative zero would be printed as −0.
        cells=cells + 0.0,
        precision=precision,
        ended=ended,
        centred=not (nonnegative or integer) and _err_no_more(release, precision),
        fit=chosen,
    )


def _possible_fit(
    release: Release, information: Information | None, nonnegative: bool, fit: Fit | None
) -> Fit:
    """The fit asked for; entropy where none is, the number of records is measured, and cells are x ≥ 0."""
    if fit == "least squares" or not nonnegative:
        return "least squares"
    total = None if information is None else information.total_row()
    if total is not None and total.is_of_all:
        return "entropy"
    if fit is None:
        return "least squares"
    raise InputError(
        "entropy compares tables of one number of records, which this release does not tell",
        field="fit",
        given=fit,
        remedy='take fit="least squares", or add Total() to the queries of the next plan',
    )


def _err_no_more(release: Release, precision: float | None) -> bool:
    """Whether intervals may be moved to least-squares answers: those of Gaussian noise, found well enough."""
    is_normal = release.plan.fixed_strategy().noise.has_normal_errors
    return is_normal and precision is not None and precision <= NEAR_ENOUGH


def _may_disagree(release: Release) -> bool:
    """Whether answers come from several measurements of the same, and not all from the same cells."""
    strategy = release.plan.strategy
    return strategy is not None and not strategy.is_consistent


def _cells(
    release: Release,
    information: Information | None,
    nonnegative: bool,
    fit: Fit,
    may_end_far: bool,
    watch: AdjustWatch,
) -> tuple[Array, float | None, Ended]:
    """Real cells, how near they are to the best, and how the search ended."""
    if information is None:
        estimates = np.asarray(release.estimates, dtype=float)
        if not nonnegative:
            return estimates, None, "converged"
        nearest = nearest_of_total(estimates, float(estimates.sum()), np.zeros_like(estimates))
        return nearest, None, "converged"
    estimates = information.estimates(release.held_measurements)
    if not nonnegative and not _may_disagree(release):
        return estimates, 0.0, "converged"
    if not nonnegative and information.are_of_least_squares:
        return estimates, 0.0, "converged"
    linear = information.linear(estimates, release.held_measurements)
    if not nonnegative:
        assert information.products is not None
        return least_squares_cells(information.products, estimates, linear, watch)
    found = _nonnegative_cells(release, information, estimates, linear, fit, watch)
    is_asked = watch.has_limit or found.ended == "interrupted" or (may_end_far and found.ended == "exhausted")
    if found.precision > _FARTHEST and not is_asked:
        raise TooLargeError(
            f"the search among {information.n_cells:,} cells ended where answers may be "
            f"{found.precision:.2g} standard errors from the best, and could be worse than the "
            "unadjusted ones: many tables explain what was measured equally well. ",
            Remedy(
                "Ask for the table of all attributes too in the plan, or for fewer attributes; take ",
                OnRelease("to_mbi()"),
                " to fit a synthetic table; or accept what is found within a ",
                Argument("time_limit"),
                ", and look at ",
                OnRelease("adjusted.precision"),
            ),
            field="time_limit",
        )
    return found.cells, found.precision, found.ended


def _nonnegative_cells(
    release: Release,
    information: Information,
    estimates: Array,
    linear: Array,
    fit: Fit,
    watch: AdjustWatch,
) -> NonnegativeFit | EntropyFit:
    """Cells x ≥ 0 by one fit or the other; none but zeros have a total of zero."""
    if fit == "least squares" or not float(estimates.sum()) > 0:
        return nearest_nonnegative(information, estimates, linear, precision=PRECISION, watch=watch)
    strategy = release.plan.fixed_strategy()
    directions = drawn_directions(information, strategy.noise_variance, len(release.measurements))
    schema = release.plan.workload.schema
    shape = (len(estimates),) if schema is None else schema.shape
    return entropy_cells(information, estimates, linear, shape, directions, watch=watch)
