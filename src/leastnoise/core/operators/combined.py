"""Operators made of operators: products, stacks, weighted rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators.base import Array, Operator, require_room
from leastnoise.core.operators.cells import Identity


def kronecker(matrices: Sequence[Array]) -> Array:
    """The Kronecker product of matrices, the last one fastest; (1, 1) for none.

    NumPy's own takes 0.1 ms however small they are, ten times as long.
    """
    total: Array = np.ones((1, 1), dtype=np.int64)
    for matrix in matrices:
        rows, columns = total.shape[0] * matrix.shape[0], total.shape[1] * matrix.shape[1]
        total = (total[:, None, :, None] * matrix[None, :, None, :]).reshape(rows, columns)
    return total


class Kronecker(Operator):
    """A product W₁ ⊗ … ⊗ W_r, one factor per attribute, the last attribute fastest."""

    def __init__(self, factors: Sequence[Operator]) -> None:
        if not factors:
            raise WorkloadError.must("factors", "hold at least one operator", given=())
        self.factors = tuple(factors)
        self.shape = (
            math.prod(f.shape[0] for f in self.factors),
            math.prod(f.shape[1] for f in self.factors),
        )

    @property
    def is_integer(self) -> bool:
        return all(f.is_integer for f in self.factors)

    @property
    def largest(self) -> float:
        return math.prod(f.largest for f in self.factors)

    def apply(self, x: Array) -> Array:
        return self._along_axes(x, [f.apply for f in self.factors], 1)

    def adjoint(self, y: Array) -> Array:
        return self._along_axes(y, [f.adjoint for f in self.factors], 0)

    def _along_axes(self, x: Array, steps: Sequence[Any], axis_of_shape: int) -> Array:
        # Three axes at a time, (done, this one, still to do): a schema may have more
        # attributes than NumPy has axes.
        done, left = 1, x.size
        tensor = x
        for factor, step in zip(self.factors, steps, strict=True):
            size, after = factor.shape[axis_of_shape], factor.shape[1 - axis_of_shape]
            left //= size
            front = tensor.reshape(done, size, left).transpose(1, 0, 2).reshape(size, done * left)
            tensor = step(front).reshape(after, done, left).transpose(1, 0, 2)
            done *= after
        return tensor.reshape(done, *x.shape[1:])

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        return kronecker([factor._dense(wanted) for factor in self.factors]).astype(wanted, copy=False)

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        if len(self.factors) == 1:
            return self.factors[0].gram()
        return kronecker([np.ones((1, 1)), *(factor.gram() for factor in self.factors)])

    def weighted_gram(self, weights: Array) -> Array:
        # The reverse of `quadratic`: one attribute at a time, the longest list of queries first.
        require_room(self.shape[1], self.shape[1] * math.prod(weights.shape[1:]), "the Gram matrix")
        factors = [f for f in self.factors if f.shape != (1, 1)]
        unit = math.prod(float(f.dense()[0, 0]) ** 2 for f in self.factors if f.shape == (1, 1))
        r = len(factors)
        tail = weights.shape[1:]
        tensor = unit * weights.reshape(*[f.shape[0] for f in factors], -1)
        axes = [(a, "query") for a in range(r)] + [(-1, "tail")]
        for a in sorted(range(r), key=lambda a: factors[a].shape[1] ** 2 / factors[a].shape[0]):
            i = axes.index((a, "query"))
            front = np.moveaxis(tensor, i, 0)
            rest = [axis for axis in axes if axis[0] != a]
            result = factors[a].weighted_gram(front.reshape(front.shape[0], -1))
            tensor = result.reshape(*result.shape[:2], *front.shape[1:])
            axes = [(a, "row"), (a, "column"), *rest]
        order = [axes.index((a, "row")) for a in range(r)] + [axes.index((a, "column")) for a in range(r)]
        n = self.shape[1]
        return tensor.transpose([*order, axes.index((-1, "tail"))]).reshape(n, n, *tail)

    @property
    def is_quick(self) -> bool:
        return all(factor.is_quick for factor in self.factors)

    def rows(self, index: Sequence[int] | Array) -> Array:
        rest = np.asarray(index, dtype=np.intp)
        require_room(len(rest), self.shape[1], "the rows")
        where = []
        for factor in reversed(self.factors):
            where.append(rest % factor.shape[0])
            rest = rest // factor.shape[0]
        if rest.any():
            raise IndexError(f"row numbers must lie between 0 and {self.shape[0] - 1}")
        total = np.ones((len(rest), 1))
        for factor, positions in zip(self.factors, reversed(where), strict=True):
            block = factor.rows(positions)
            width = total.shape[1] * block.shape[1]
            total = (total[:, :, None] * block[:, None, :]).reshape(len(total), width)
        return total

    def columns(self, index: Sequence[int] | Array) -> Array:
        rest = np.asarray(index, dtype=np.intp)
        require_room(self.shape[0], len(rest), "the columns")
        where = []
        for factor in reversed(self.factors):
            where.append(rest % factor.shape[1])
            rest = rest // factor.shape[1]
        total = np.ones((1, len(rest)))
        for factor, positions in zip(self.factors, reversed(where), strict=True):
            # Few different columns of a factor make many of the product.
            different, place = np.unique(positions, return_inverse=True)
            block = factor.columns(different)[:, place]
            height = len(total) * len(block)
            total = (total[:, None, :] * block[None, :, :]).reshape(height, len(rest))
        return total

    def row_norms(self) -> Array:
        total: Array = np.ones(1)
        for factor in self.factors:
            total = np.kron(total, factor.row_norms())
        return total

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        total: Array = np.ones(1)
        for factor in self.factors:
            total = np.kron(total, factor.column_norms(order))
        return total

    def quadratic(self, Y: Array) -> Array:
        # Contract one attribute at a time; the one that shrinks most goes first,
        # so that a long list of queries is multiplied out last.
        # An attribute with one value is a number, and no axis: NumPy has 64 of them.
        factors = [f for f in self.factors if f.shape != (1, 1)]
        unit = math.prod(float(f.dense()[0, 0]) ** 2 for f in self.factors if f.shape == (1, 1))
        r = len(factors)
        sizes = [f.shape[1] for f in factors]
        tail = Y.shape[2:]
        tensor = unit * Y.reshape(*sizes, *sizes, -1)
        axes = [(a, "row") for a in range(r)] + [(a, "column") for a in range(r)] + [(-1, "tail")]
        for a in sorted(range(r), key=lambda a: factors[a].shape[0] / sizes[a] ** 2):
            i, j = axes.index((a, "row")), axes.index((a, "column"))
            front = np.moveaxis(tensor, (i, j), (0, 1))
            rest = [axis for axis in axes if axis[0] != a]
            result = factors[a].quadratic(front.reshape(front.shape[0], front.shape[1], -1))
            tensor = result.reshape(result.shape[0], *front.shape[2:])
            axes = [(a, "done"), *rest]
        order = [axes.index((a, "done")) for a in range(r)] + [axes.index((-1, "tail"))]
        return tensor.transpose(order).reshape(-1, *tail)

    def basis(self) -> Operator:
        return Kronecker([f.basis() for f in self.factors])


class Stack(Operator):
    """Several operators over the same cells, one below the other."""

    def __init__(self, parts: Sequence[Operator]) -> None:
        if not parts:
            raise WorkloadError.must("parts", "hold at least one operator", given=())
        if len({part.shape[1] for part in parts}) > 1:
            raise WorkloadError.must("parts", "have equal numbers of cells", given=list(parts))
        self.parts = tuple(parts)
        self.shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])

    @property
    def is_integer(self) -> bool:
        return all(part.is_integer for part in self.parts)

    @property
    def largest(self) -> float:
        return max(part.largest for part in self.parts)

    @cached_property
    def _starts(self) -> Array:
        starts = list(accumulate((part.shape[0] for part in self.parts), initial=0))
        # Python integers where int64 would wrap.
        return np.array(starts, dtype=np.int64 if starts[-1] < 2**62 else object)

    def apply(self, x: Array) -> Array:
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: Array) -> Array:
        pieces = [
            part.adjoint(y[start : start + part.shape[0]])
            for part, start in zip(self.parts, self._starts[:-1], strict=True)
        ]
        return np.asarray(sum(pieces[1:], start=pieces[0]))

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        # The adjoint of an identity would multiply every part with the rows of all others.
        result = np.empty(self.shape, dtype=wanted)
        for part, start in zip(self.parts, self._starts[:-1], strict=True):
            result[start : start + part.shape[0]] = part._dense(wanted)
        return result

    def gram(self) -> Array:
        total = self.parts[0].gram()
        for part in self.parts[1:]:
            total = total + part.gram()
        return total

    def weighted_gram(self, weights: Array) -> Array:
        pieces = zip(self.parts, self._starts[:-1], self._starts[1:], strict=True)
        return np.asarray(sum(part.weighted_gram(weights[start:end]) for part, start, end in pieces))

    @property
    def is_quick(self) -> bool:
        return all(part.is_quick for part in self.parts)

    def rows(self, index: Sequence[int] | Array) -> Array:
        positions = np.asarray(index, dtype=np.intp)
        require_room(len(positions), self.shape[1], "the rows")
        owner = np.searchsorted(self._starts, positions, side="right") - 1
        result = np.empty((len(positions), self.shape[1]))
        for number in np.unique(owner):
            mine = owner == number
            result[mine] = self.parts[number].rows(positions[mine] - self._starts[number])
        return result

    def columns(self, index: Sequence[int] | Array) -> Array:
        return np.concatenate([part.columns(index) for part in self.parts])

    def row_norms(self) -> Array:
        return np.concatenate([part.row_norms() for part in self.parts])

    def column_norms(self, order: int = 2) -> Array:
        # One part at a time: hundreds of conditions over a million cells would be gigabytes together.
        self._check_order(order)
        total = np.zeros(self.shape[1])
        for part in self.parts:
            norms = part.column_norms(order)
            total += norms if order == 1 else norms**2
        return total if order == 1 else np.sqrt(total)

    def quadratic(self, Y: Array) -> Array:
        return np.concatenate([part.quadratic(Y) for part in self.parts])

    def squared_products(self, gain: Array) -> Array:
        return np.concatenate([part.squared_products(gain) for part in self.parts])

    def basis(self) -> Operator:
        bases = [part.basis() for part in self.parts]
        # One part that spans everything makes the others redundant.
        for candidate in bases:
            if is_whole_space(candidate):
                return Identity(self.shape[1])
        return Stack(bases)


class RowScaled(Operator):
    """An operator whose row j is multiplied by factors[j]."""

    def __init__(self, inner: Operator, factors: Array) -> None:
        self.inner = inner
        self.factors = np.array(factors, dtype=float)
        if self.factors.shape != (inner.shape[0],):
            raise WorkloadError.must(
                "factors", f"be as many as the {inner.shape[0]} rows", given=self.factors.shape
            )
        self.shape = inner.shape

    @property
    def is_integer(self) -> bool:
        return False

    @property
    def largest(self) -> float:
        return self.inner.largest * float(np.abs(self.factors).max(initial=0))

    def apply(self, x: Array) -> Array:
        return _times_rows(self.factors, self.inner.apply(x))

    def adjoint(self, y: Array) -> Array:
        return self.inner.adjoint(_times_rows(self.factors, y))

    def rows(self, index: Sequence[int] | Array) -> Array:
        return _times_rows(self.factors[np.asarray(index, dtype=np.intp)], self.inner.rows(index))

    def gram(self) -> Array:
        return self.inner.weighted_gram(self.factors**2)

    def weighted_gram(self, weights: Array) -> Array:
        return self.inner.weighted_gram(_times_rows(self.factors**2, weights))

    @property
    def is_quick(self) -> bool:
        return self.inner.is_quick

    def quadratic(self, Y: Array) -> Array:
        return _times_rows(self.factors**2, self.inner.quadratic(Y))

    def squared_products(self, gain: Array) -> Array:
        return _times_rows(self.factors**2, self.inner.squared_products(gain))


def is_whole_space(operator: Operator) -> bool:
    """Whether the operator is the identity, or a product of identities."""
    if isinstance(operator, Kronecker):
        return all(is_whole_space(factor) for factor in operator.factors)
    return isinstance(operator, Identity)


def _times_rows(factors: Array, x: Array) -> Array:
    return factors.reshape(-1, *[1] * (x.ndim - 1)) * x


class EveryLevel(Stack):
    """The levels of a hierarchy, one below the other; every leaf is a group of its own in one of them."""

    def basis(self) -> Operator:
        return Identity(self.shape[1])
