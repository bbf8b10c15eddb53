"""What an office does to numbers before it prints them: rounding, reliability marks, suppression.

All of it is post-processing of what was released. The measurements stay in the release, and
``release.unrounded`` is the release as it was before. Tables, files, texts and pages show the presented
numbers.

*Coefficient of variation.* The standard error of a number divided by its size, |answer|. It is estimated from
the noisy answer. A number that is zero has none, and counts as above every limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.core.errors import InputError, MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import Plan

if TYPE_CHECKING:
    from leastnoise.release.release import Release

# What the column "reliability" says of a number; "" where nothing is to be said.
RELIABLE = ""
UNRELIABLE = "unreliable"
SUPPRESSED = "suppressed"

# The keys of a presentation, in files and in specifications.
PRESENTATION_KEYS = ("round_to", "flag_above", "suppress_above")

# Bases of rounding up to which multiples of them are exact floats with counts of 2^40 people.
_MAX_BASE = 2.0**40


@dataclass(frozen=True)
class Presentation:
    """How numbers are shown.

    Attributes:
        round_to: counts and sums are shown as the nearest multiple of this; None as they are. Ends of
            intervals are rounded outwards, so that they hold the truth as often as before.
        flag_above: a coefficient of variation; numbers above it are marked "unreliable".
        suppress_above: a coefficient of variation; numbers above it are left out and marked "suppressed".
    """

    round_to: float | None = None
    flag_above: float | None = None
    suppress_above: float | None = None

    def __post_init__(self) -> None:
        if self.round_to is not None and not (_is_number(self.round_to) and 0 < self.round_to <= _MAX_BASE):
            raise InputError.must("round_to", "be a positive number, as in 5", given=self.round_to)
        for name in ("flag_above", "suppress_above"):
            given = getattr(self, name)
            if given is not None and not (_is_number(given) and given > 0):
                raise InputError.must(name, 'be a positive share, as in 0.2 or "20%"', given=given)
        if self.round_to is None and self.flag_above is None and self.suppress_above is None:
            raise InputError(
                "nothing is asked for: counts can be rounded, unreliable numbers marked or left out",
                field="round_to",
                remedy="give a base such as 5, or a coefficient of variation such as 20%",
            )
        if (self.flag_above or 0.0) >= (math.inf if self.suppress_above is None else self.suppress_above):
            raise InputError.must(
                "flag_above", "be smaller than suppress_above", given=(self.flag_above, self.suppress_above)
            )

    @property
    def has_limit(self) -> bool:
        """Whether standard errors must be known."""
        return self.flag_above is not None or self.suppress_above is not None

    def check(self, plan: Plan) -> None:
        """Return if answers of a plan can be shown so.

        Raises:
            MethodError: if there is a limit and the plan depends on the data.
        """
        if self.has_limit and plan.strategy is None:
            raise MethodError(
                f"method {plan.method!r} depends on the data: coefficients of variation are not known",
                field="flag_above",
                given=plan.method,
                remedy="round only, or design the plan with another method",
            )

    @property
    def kinds(self) -> str:
        """In a few words: "rounded to 5, flagged above 20%"."""
        kinds = [] if self.round_to is None else [f"rounded to {self.round_to:g}"]
        kinds += [] if self.flag_above is None else [f"flagged above {self.flag_above:.4g}"]
        kinds += [] if self.suppress_above is None else [f"suppressed above {self.suppress_above:.4g}"]
        return ", ".join(kinds)

    def statement(self) -> str:
        """What a reader has to know."""
        parts = []
        if self.round_to is not None:
            parts.append(
                f"Answers that are counts or sums are rounded to multiples of {self.round_to:g} and may not "
                "add up; ends of intervals are rounded outwards."
            )
        if self.flag_above is not None:
            parts.append(
                f"Numbers whose estimated coefficient of variation is above {100 * self.flag_above:.4g}% are "
                "marked unreliable."
            )
        if self.suppress_above is not None:
            parts.append(
                f"Those above {100 * self.suppress_above:.4g}% are left out."
                if self.flag_above is not None
                else f"Numbers whose estimated coefficient of variation is above "
                f"{100 * self.suppress_above:.4g}% are left out."
            )
        return " ".join([*parts, "The release keeps the numbers as they were measured."])

    def marks(self, answers: Array, stderr: Array | None) -> list[str]:
        """What is said of each number, from its answer and standard error; a missing one has no mark."""
        if stderr is None or not self.has_limit:
            return [RELIABLE] * len(answers)
        with np.errstate(divide="ignore", invalid="ignore"):
            variation = np.where(answers == 0, np.inf, stderr / np.abs(answers))
        flag = math.inf if self.flag_above is None else self.flag_above
        suppress = math.inf if self.suppress_above is None else self.suppress_above
        return [
            SUPPRESSED if value > suppress else UNRELIABLE if value > flag else RELIABLE
            for value in variation
        ]

    def presented(self, columns: Mapping[str, Any], is_rounded: bool) -> dict[str, Any]:
        """Columns of answers as they are shown, with one more, "reliability", where there is a limit.

        Args:
            columns: with "answer" or "estimate", and with "stderr", "lower" and "upper" where they are known.
            is_rounded: whether the numbers are counts and sums, which are rounded; ratios are not.
        """
        found = dict(columns)
        shown = "answer" if "answer" in found else "estimate"
        marks = self.marks(found[shown], found.get("stderr"))
        if self.round_to is not None and is_rounded:
            base = float(self.round_to)
            found[shown] = np.floor(found[shown] / base + 0.5) * base
            if "lower" in found:
                found |= {"lower": np.floor(found["lower"] / base) * base}
                found |= {"upper": np.ceil(found["upper"] / base) * base}
            # Numbers as they were would tell what was rounded.
            found.pop("unadjusted", None)
        is_left_out = np.array([mark == SUPPRESSED for mark in marks], dtype=bool)
        for name in (shown, "unadjusted", "lower", "upper"):
            if name in found:
                found[name] = np.where(is_left_out, np.nan, found[name])
        return found | {"reliability": marks} if self.has_limit else found

    def to_dict(self) -> dict[str, float]:
        """Plain values that ``Presentation(**plain)`` reads back."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def present(
    release: Release,
    *,
    round_to: float | None = None,
    flag_above: float | str | None = None,
    suppress_above: float | str | None = None,
) -> Release:
    """The same release, rounded, flagged and suppressed for publication. Costs no privacy.

    ``present(release, round_to=5, flag_above="20%", suppress_above="50%")`` rounds counts to multiples of 5,
    flags numbers with a coefficient of variation above 20 % as unreliable and suppresses those above 50 %.
    Frames, files, texts and pages show this and say so; `answers`, `interval` and ``release.unrounded`` stay
    as they are.

    Args:
        release: the release to show; it stays as it is.
        round_to: counts and sums are shown as the nearest multiple of this; None leaves them as they are.
            Ends of intervals are rounded outwards.
        flag_above: numbers with a larger coefficient of variation are marked "unreliable": 0.2, or "20%".
            None marks none.
        suppress_above: numbers with a larger coefficient of variation are left out and marked "suppressed";
            None leaves none out.

    Raises:
        InputError: if nothing is asked for, or a limit is not positive.
        MethodError: if a limit is given and the plan depends on the data, so that errors are not known.
    """
    chosen = {"round_to": round_to, "flag_above": flag_above, "suppress_above": suppress_above}
    return presented(release, presentation_from_plain(chosen))


def presented(release: Release, chosen: Presentation) -> Release:
    """The release shown by a presentation.

    Raises:
        MethodError: if it has a limit and errors are not known.
    """
    chosen.check(release.plan)
    return replace(release, presented=chosen)


def presentation_from_plain(plain: Mapping[str, Any]) -> Presentation:
    """The presentation that a file or a specification describes.

    Raises:
        InputError: if it is none.
    """
    unknown = sorted(set(plain) - set(PRESENTATION_KEYS))
    if unknown:
        raise InputError.unknown("presentation", unknown[0], PRESENTATION_KEYS)
    return Presentation(
        plain.get("round_to"),
        _to_share(plain.get("flag_above")),
        _to_share(plain.get("suppress_above")),
    )


def _is_number(given: object) -> bool:
    is_real = isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool)
    return is_real and math.isfinite(given)  # type: ignore[arg-type]


def _to_share(given: Any) -> Any:
    """The share that a text such as "20%" stands for; everything else as it is."""
    if isinstance(given, str) and given.strip().endswith("%"):
        try:
            return float(given.strip()[:-1]) / 100
        except ValueError:
            return given
    return given
