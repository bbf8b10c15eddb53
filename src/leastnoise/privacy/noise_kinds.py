"""The kinds of noise, each with its arithmetic: costs, scales, variances and how they compose.

    "gaussian"   N(0, σ²) rounded to whole numbers     μ² = Δ²/σ²    costs are sums of squares
    "laplace"    discrete Laplace noise of scale b     ε = Δ₁/b      costs are absolute sums

A kind is its name, the text that users and files spell, with the methods below. Whatever depends on the kind
asks it, so that a further one is one class and one entry of `NOISES` here, beside its sampler.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import PrivacyError
from leastnoise.core.operators import Array


class Noise(str, ABC):
    """A kind of noise: its name, and its arithmetic.

    Attributes:
        power: the norm that counts: 2 where costs are Σ a² (L2 norm squared), 1 where they are Σ |a|.
        symbol: the letter of what is spent.
        label: its name within a sentence.
        is_pure: whether it gives pure differential privacy, so that what is spent is an ε.
        has_normal_errors: whether errors of answers are normal, so that intervals are exact quantiles.
        sampler: the function of `release.noise` that draws it.
    """

    __slots__ = ()

    power: ClassVar[int]
    symbol: ClassVar[str]
    label: ClassVar[str]
    is_pure: ClassVar[bool]
    has_normal_errors: ClassVar[bool]
    sampler: ClassVar[str]

    def times(self, k: int) -> int:
        """How many times the cost of a change k times the change costs: k² or k."""
        return k**self.power

    def cost(self, change: Iterable[int]) -> int:
        """What a change of the measured integers costs at scale 1: Σ d² or Σ |d|, exactly."""
        return sum(abs(int(d)) ** self.power for d in change)

    @abstractmethod
    def column_costs(self, matrix: Array) -> list[int]:
        """The cost of every column of an integer matrix at scale 1, exactly."""

    def unit(self, scale: int) -> int:
        """What a cost at scale 1 is divided by to become what is spent: σ² or b."""
        return scale**self.power

    @abstractmethod
    def least_scale(self, unit: int) -> int:
        """The least positive integer scale whose `unit` is at least this."""

    @abstractmethod
    def root(self, budget: float) -> float:
        """What a budget is as a factor on the scale: μ for μ², ε for ε."""

    @abstractmethod
    def variance(self, scale: int) -> float:
        """The variance of one draw, rounding to whole numbers included."""

    @property
    def variance_power(self) -> int:
        """The power of a cost that the variance grows with, at one budget: 1 for Δ²/μ², 2 for 2(Δ₁/ε)²."""
        return 2 // self.power

    @abstractmethod
    def least_variance(self, budget: float) -> float:
        """The least variance of a row, over its squared sensitivity, of noise that spends a budget."""


class _Gaussian(Noise):
    __slots__ = ()

    power = 2
    symbol = "μ²"
    label = "Gaussian"
    is_pure = False
    has_normal_errors = True
    sampler = "rounded_gaussian"

    def column_costs(self, matrix: Array) -> list[int]:
        return exact.column_square_sums(matrix)

    def least_scale(self, unit: int) -> int:
        return math.isqrt(max(unit - 1, 0)) + 1

    def root(self, budget: float) -> float:
        return math.sqrt(budget)

    def variance(self, scale: int) -> float:
        """σ² + 1/12, up to terms of order exp(−2π²σ²), which are nothing at the scales used here."""
        return float(scale) ** 2 + 1 / 12

    def least_variance(self, budget: float) -> float:
        """1/μ²."""
        return 1 / budget


class _Laplace(Noise):
    __slots__ = ()

    power = 1
    symbol = "ε"
    label = "Laplace"
    is_pure = True
    has_normal_errors = False
    sampler = "discrete_laplace"

    def column_costs(self, matrix: Array) -> list[int]:
        return exact.column_absolute_sums(matrix)

    def least_scale(self, unit: int) -> int:
        return max(unit, 1)

    def root(self, budget: float) -> float:
        return budget

    def variance(self, scale: int) -> float:
        """2q/(1 − q)² with q = exp(−1/b), which is 1/(2 sinh²(1/(2b)))."""
        return 0.5 / math.sinh(0.5 / scale) ** 2

    def least_variance(self, budget: float) -> float:
        """The least variance per row, over Δ₁², of Laplace noise that spends ε.

        Discrete Laplace noise of scale b = Δ₁/ε has variance v(1/b), v(x) = 1/(2 sinh²(x/2)).
        x² v(x) falls as x grows and Δ₁ ≥ 1 on whole-number rows, so v(ε/Δ₁) ≥ Δ₁² v(ε). The
        continuous kind has 2Δ₁²/ε², which is more. And Δ₁ ≥ Δ, the norm of the Gaussian bound.
        """
        return 2 * math.exp(-budget) / math.expm1(-budget) ** 2


GAUSSIAN: Noise = _Gaussian("gaussian")
LAPLACE: Noise = _Laplace("laplace")

NOISES: dict[str, Noise] = {noise: noise for noise in (GAUSSIAN, LAPLACE)}


def noise_named(name: str) -> Noise:
    """The kind of noise of that name.

    Raises:
        PrivacyError: for an unknown name, listing those there are.
    """
    if not isinstance(name, str) or name not in NOISES:
        raise PrivacyError.must("noise", f"be {listed_names(NOISES)}", given=name)
    return NOISES[name]


def listed_names(names: Iterable[str]) -> str:
    """The names that may be given, in quotes.

    Example:
        >>> print(listed_names(NOISES))
        "gaussian" or "laplace"
    """
    return " or ".join(f'"{name}"' for name in names)
