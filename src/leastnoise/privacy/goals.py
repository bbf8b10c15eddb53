"""Privacy goals, and what each lets a mechanism spend.

    PureDP(epsilon)             ε-differential privacy, Laplace noise
    ApproxDP(epsilon, delta)    (ε, δ)-differential privacy, Gaussian noise
    ZCDP(rho)                   zero-concentrated differential privacy, Gaussian noise
    GDP(mu)                     Gaussian differential privacy, Gaussian noise

A goal says for whom it holds: ``neighbours`` and ``records_per_person``. What it
allows is an exact rational, ``mu_squared`` or ``epsilon_per_record``, rounded
towards privacy where it has to be rounded at all. The curve behind ``ApproxDP``
is in ``gaussian_curve``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from leastnoise.core.errors import PrivacyError
from leastnoise.core.notebook import NotebookValue, html_text, unlisted
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.gaussian_curve import (
    Number,
    classic_mu_squared_of,
    exact_number,
    gaussian_delta_bounds,
    mu_squared_of,
)
from leastnoise.privacy.neighbours import Neighbours, neighbours_named
from leastnoise.privacy.noise_kinds import GAUSSIAN, LAPLACE, Noise

_CALIBRATIONS = ("exact", "classic")


@dataclass(frozen=True, repr=False)
class Goal(NotebookValue, ABC):
    """A privacy goal: how much may be spent, and for whom.

    Neighbouring tables differ in one record, or, with records_per_person=k, in up to k records of one person;
    with person=, they differ in all records of one person, of which at most k are counted (k is 1 unless
    given).

    Args:
        neighbours: whether what differs is added or removed ("add-remove") or replaced ("replace-one").
            `relation` holds what follows from it.
        records_per_person: k, the largest number of records of one person that count. The goal covers all of
            them together, so one record may spend μ²/k² or ε/k.
    """

    _unlisted = unlisted("budget budget_per_person column_budget noise relation short")

    neighbours: str = field(default="add-remove", kw_only=True)
    records_per_person: int = field(default=1, kw_only=True)

    noise: ClassVar[Noise] = GAUSSIAN
    _parameters: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for name in self._parameters:
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        neighbours_named(self.neighbours)
        k = self.records_per_person
        if isinstance(k, bool) or not hasattr(k, "__index__") or k.__index__() < 1:
            raise PrivacyError.must("records_per_person", "be a positive whole number", given=k)
        object.__setattr__(self, "records_per_person", k.__index__())

    @property
    def relation(self) -> Neighbours:
        """The neighbouring relation, with its arithmetic."""
        return neighbours_named(self.neighbours)

    @abstractmethod
    def _mu_squared(self) -> Fraction | None:
        """The μ² of everything one person contributes."""

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """The μ² that one record may spend, exactly; None for a pure goal.

        A mechanism with noise N(0, σ²) per answer meets the goal when the squared
        L2 norm of the change one record makes, divided by σ², is at most this.

        Guarantee:
            k records change the answers by at most k times as much, and the
            goal holds for μ² = k² times the returned value.
        """
        total = self._mu_squared()
        return None if total is None else total / self.noise.times(self.records_per_person)

    @property
    def epsilon_per_record(self) -> Fraction | None:
        """The ε that one record may spend, exactly; None unless the goal is pure."""
        return None

    @property
    def budget(self) -> Fraction:
        """What one record may spend, exactly: μ² for Gaussian noise, ε for Laplace."""
        allowed = self.epsilon_per_record if self.noise.is_pure else self.mu_squared
        assert allowed is not None
        return allowed

    @property
    def budget_per_person(self) -> Fraction:
        """What one person's records may spend together, exactly: μ² or ε."""
        return self.budget * self.noise.times(self.records_per_person)

    @property
    def column_budget(self) -> Fraction:
        """What a column of a strategy may spend, exactly, under the neighbouring relation's worst change."""
        return self.relation.column_budget(self.budget, self.noise)

    def to_dict(self) -> dict[str, str | int | float]:
        """The goal as text and numbers that JSON holds exactly; ``goal_from_dict`` reads it back.

        Example:
            >>> GDP(Fraction(1, 3)).to_dict()
            {'goal': 'GDP', 'mu': '1/3', 'neighbours': 'add-remove', 'records_per_person': 1}
        """
        own = {f.name: _to_json(getattr(self, f.name)) for f in fields(self)}
        shared = {name: own.pop(name) for name in ("neighbours", "records_per_person")}
        return {"goal": type(self).__name__, **own, **shared}

    @abstractmethod
    def _formula(self) -> tuple[str, str]:
        """The notion by its full name, and by a short one with its numbers."""

    def statement(self, *, by_person: bool = False) -> str:
        """The goal as one sentence, without the full stop.

        Args:
            by_person: whether a column of the table identifies the person, so that at most
                ``records_per_person`` records of each were counted. The sentence is then about all records of
                one person: one more record of the same person may displace another, which is two changes.

        Example:
            >>> print(ApproxDP(epsilon=1, delta=1e-6).statement())
            (ε, δ)-differential privacy with ε = 1, δ = 1e-06, adding or removing one record
        """
        letters = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
        numbers = ", ".join(f"{letters[name]} = {_show(getattr(self, name))}" for name in self._parameters)
        return f"{self._formula()[0]} with {numbers}, {self._between(by_person)}"

    def short(self, *, by_person: bool = False) -> str:
        """The statement in a few words.

        Args:
            by_person: as in `statement`.
        """
        return f"{self._formula()[1]}, {self._between(by_person)}"

    def _between(self, by_person: bool) -> str:
        return self.relation.statement(self.records_per_person, by_person=by_person)

    def __str__(self) -> str:
        return self.short()

    def _repr_html_(self) -> str:
        return html_text(self.statement())

    def __repr__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in sorted(fields(self), key=lambda f: bool(f.kw_only))
            if f.name in self._parameters or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class PureDP(Goal):
    """ε-differential privacy, by Laplace noise.

    Args:
        epsilon: ε, positive; a number, or a `Fraction` for an exact one.

    Example:
        >>> PureDP(1, records_per_person=3).epsilon_per_record
        Fraction(1, 3)
    """

    epsilon: Number

    noise: ClassVar[Noise] = LAPLACE
    _parameters = ("epsilon",)

    def _mu_squared(self) -> None:
        return None

    @property
    def epsilon_per_record(self) -> Fraction:
        """ε divided by the records per person: L1 sensitivity over noise scale may not exceed it."""
        return Fraction(self.epsilon) / self.records_per_person

    def _formula(self) -> tuple[str, str]:
        return "ε-differential privacy", f"{_show(self.epsilon)}-DP"


@dataclass(frozen=True, repr=False)
class ApproxDP(Goal):
    """(ε, δ)-differential privacy, by Gaussian noise.

    ``calibration="exact"`` uses the largest μ² with δ(ε; μ) ≤ δ. "classic" uses the papers' μ² = ε² / (2
    ln(2/δ)), only to reproduce their numbers.

    Args:
        epsilon: ε, positive; a number, or a `Fraction` for an exact one.
        delta: δ, between 0 and 1.
        calibration: how μ² follows from ε and δ: "exact" or "classic".

    Guarantee:
        Under either calibration δ(ε; μ) ≤ ``delta`` is proved, not approximated.

    Raises:
        PrivacyError: if an argument is out of range, or the classic formula would not satisfy (ε, δ).

    Example:
        >>> round(float(ApproxDP(epsilon=1, delta=1e-6).mu_squared), 9)
        0.056028964
    """

    epsilon: Number
    delta: Number
    calibration: str = "exact"

    _parameters = ("epsilon", "delta")

    def __post_init__(self) -> None:
        delta = exact_number("delta", self.delta)
        if delta == 0:
            remedy = Remedy("for delta = 0 use PureDP(epsilon)")
            raise PrivacyError.must("delta", "be positive", given=0, remedy=remedy)
        if not 0 < delta < 1:
            raise PrivacyError.must("delta", "lie strictly between 0 and 1", given=self.delta)
        super().__post_init__()
        if self.calibration not in _CALIBRATIONS:
            raise PrivacyError.must("calibration", 'be "exact" or "classic"', given=self.calibration)
        if self.calibration == "classic":
            upper = gaussian_delta_bounds(self._mu_squared(), self.epsilon)[1]
            if upper > Fraction(self.delta):
                raise PrivacyError(
                    f"the classic calibration does not give epsilon = {_show(self.epsilon)}, "
                    f"delta = {_show(self.delta)}: its delta is {float(upper):.3g}; ",
                    Remedy("use ", Argument("calibration", "exact")),
                    field="calibration",
                    given="classic",
                )

    def _mu_squared(self) -> Fraction:
        of = classic_mu_squared_of if self.calibration == "classic" else mu_squared_of
        return of(self.epsilon, self.delta)

    def _formula(self) -> tuple[str, str]:
        classic = " (classic calibration)" if self.calibration == "classic" else ""
        short = f"({_show(self.epsilon)}, {_show(self.delta)})-DP{classic}"
        return f"(ε, δ)-differential privacy{classic}", short


@dataclass(frozen=True, repr=False)
class ZCDP(Goal):
    """ρ-zero-concentrated differential privacy, by Gaussian noise: μ² = 2ρ.

    Args:
        rho: ρ, positive; a number, or a `Fraction` for an exact one.

    Reference:
        Bun and Steinke (2016), arXiv:1605.02065, Proposition 1.6.

    Example:
        >>> ZCDP(0.5).mu_squared
        Fraction(1, 1)
    """

    rho: Number

    _parameters = ("rho",)

    def _mu_squared(self) -> Fraction:
        return 2 * Fraction(self.rho)

    def _formula(self) -> tuple[str, str]:
        return "ρ-zero-concentrated differential privacy", f"{_show(self.rho)}-zCDP"


@dataclass(frozen=True, repr=False)
class GDP(Goal):
    """μ-Gaussian differential privacy, by Gaussian noise.

    Args:
        mu: μ, positive; a number, or a `Fraction` for an exact one.

    Example:
        >>> GDP(0.5, records_per_person=2).mu_squared
        Fraction(1, 16)
    """

    mu: Number

    _parameters = ("mu",)

    def _mu_squared(self) -> Fraction:
        return Fraction(self.mu) ** 2

    def _formula(self) -> tuple[str, str]:
        return "μ-Gaussian differential privacy", f"{_show(self.mu)}-GDP"


_GOALS: dict[str, type[Goal]] = {goal.__name__: goal for goal in (PureDP, ApproxDP, ZCDP, GDP)}


def goal_from_dict(d: Mapping[str, Any]) -> Goal:
    """The goal that ``to_dict`` wrote; what the constructor may leave out may be left out here.

    Raises:
        PrivacyError: for an unknown or missing key, or a value the goal refuses.

    Example:
        >>> goal_from_dict({"goal": "ZCDP", "rho": 0.5})
        ZCDP(rho=0.5)
    """
    values = dict(d)
    name = values.pop("goal", None)
    goal = _GOALS.get(name) if isinstance(name, str) else None
    if goal is None:
        raise PrivacyError.must("goal", f"be one of {', '.join(_GOALS)}", given=name)
    known = [f.name for f in fields(goal)]
    unknown = [repr(key) for key in values if key not in known]
    if unknown:
        raise PrivacyError(
            f"{name} does not know {', '.join(unknown)}; it takes {', '.join(known)}",
            field=name,
            given=unknown,
        )
    missing = [key for key in goal._parameters if key not in values]
    if missing:
        raise PrivacyError(f"{name} needs {', '.join(missing)}", field=name, given=missing)
    for key in goal._parameters:
        values[key] = _from_json(values[key])
    return goal(**values)


def _positive(name: str, value: Any) -> Number:
    exact = exact_number(name, value)
    if exact <= 0:
        raise PrivacyError.must(name, "be positive", given=value)
    return exact


def _show(value: Number) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _to_json(value: Any) -> Any:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else value


def _from_json(value: Any) -> Any:
    # Only what _to_json writes; Fraction() alone would also read "1e9" and " 1 ".
    # Python reads integers of up to 4300 digits from text.
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4300}/0*[1-9][0-9]{0,4000}", value, re.ASCII):
        return Fraction(value)
    return value
