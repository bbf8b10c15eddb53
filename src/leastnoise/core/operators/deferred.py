"""An operator that is built on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.operators.base import Array, Operator


class Deferred(Operator):
    """An operator of known shape, made when first used.

    Args:
        make: makes it; its shape must be the one given.
    """

    def __init__(self, shape: tuple[int, int], make: Callable[[], Operator]) -> None:
        self.shape = shape
        self._make = make

    @cached_property
    def made(self) -> Operator:
        """The operator itself."""
        return self._make()

    @property
    def is_integer(self) -> bool:
        return self.made.is_integer

    @property
    def largest(self) -> float:
        return self.made.largest

    def apply(self, x: Array) -> Array:
        return self.made.apply(x)

    def adjoint(self, y: Array) -> Array:
        return self.made.adjoint(y)

    def gram(self) -> Array:
        return self.made.gram()

    def weighted_gram(self, weights: Array) -> Array:
        return self.made.weighted_gram(weights)

    @property
    def is_quick(self) -> bool:
        return self.made.is_quick

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        return self.made._dense(wanted)

    def rows(self, index: Sequence[int] | Array) -> Array:
        return self.made.rows(index)

    def columns(self, index: Sequence[int] | Array) -> Array:
        return self.made.columns(index)

    def column_norms(self, order: int = 2) -> Array:
        return self.made.column_norms(order)

    def row_norms(self) -> Array:
        return self.made.row_norms()

    def quadratic(self, Y: Array) -> Array:
        return self.made.quadratic(Y)

    def squared_products(self, gain: Array) -> Array:
        return self.made.squared_products(gain)

    def basis(self) -> Operator:
        return self.made.basis()
