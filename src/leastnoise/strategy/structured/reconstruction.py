"""From noisy blocks to answers, and how the noise enters them: products of small matrices, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from leastnoise.core.operators import Array, require_room
from leastnoise.query import InventedRecords, ProductTerm
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.view import ComponentPart, View

# What is known of every component, by its number.
Components = Sequence[Array] | Mapping[int, Array]


def components_of(blocks: Sequence[ProductBlock], shapes: Sequence[tuple[int, ...]], y: Array) -> list[Array]:
    """The noisy blocks divided by their multipliers, each (rows of its axes..., draws)."""
    parts, start = [], 0
    for shape, block in zip(shapes, blocks, strict=True):
        if block.weights is not None:
            # Rows that are not measured have no part in any answer.
            parts.append(_placed(block.weights, y))
            continue
        size, k = math.prod(shape), block.multiplier
        part = y[start : start + size]
        # A quotient of Python integers is correctly rounded, however wide they are.
        values = (part / k).astype(float) if y.dtype == object else part / float(k)
        parts.append(values.reshape(*shape, y.shape[1]))
        start += size
    return parts


def _placed(weights: Array, y: Array) -> Array:
    """y/k of every tuple of rows, (r_1, …, r_d, draws); 0 where it is not measured."""
    measured = np.flatnonzero(weights)
    k = weights.reshape(-1)[measured].astype(object if y.dtype == object else float)
    values = np.zeros((weights.size, y.shape[1]))
    values[measured] = (y / k[:, None]).astype(float)
    return values.reshape(*weights.shape, y.shape[1])


def noiseless_rows(
    view: View, asked: Sequence[tuple[ProductTerm, int]], records: InventedRecords
) -> list[float]:
    """What some rows of products, in the order of their labels, answer where just some records were measured.

    Each record enters as a product over the axes, so that nothing of the size of a block is made. What an
    axis measures of the records is worked out once for all rows: six rows over 1,200 by 600 values take
    0.2 s, and took 1.1 s each on its own.
    """
    measured: dict[tuple[int, AxisForm], Array] = {}

    def measured_by(a: int, form: AxisForm) -> Array:
        if (a, form) not in measured:
            names = view.strategy.axes[a].names
            units = np.zeros((form.size, len(records.cells)), dtype=np.int64)
            for number, cell in enumerate(records.cells):
                units[records.number(cell, names), number] = 1
            measured[a, form] = form.answers(units).astype(float)
        return measured[a, form]

    return [_noiseless_row(view, term, row, records, measured_by) for term, row in asked]


def _noiseless_row(
    view: View,
    term: ProductTerm,
    row: int,
    records: InventedRecords,
    measured_by: Callable[[int, AxisForm], Array],
) -> float:
    kinds = dict(zip(term.places, term.kinds, strict=True))
    rows = {
        a: view.products.kinds[a][kinds[a]].operator.rows([of_axis])
        for a, of_axis in zip(term.places, term.axis_rows(row), strict=True)
    }
    total = 0.0
    for piece in view.pieces(term):
        parts = np.array(records.times, dtype=float)
        for a, form in piece.inside.items():
            gain = form.gain(rows[a]) if a in kinds else form.total_gain()[None, :]
            parts *= (gain @ measured_by(a, form))[0]
        for a, form in piece.outside.items():
            parts *= float(form.centre_of(rows[a])[0])
        total += float(parts.sum())
    return total


def term_values(view: View, term: ProductTerm, components: Components) -> Array:
    """⊗ w_a G_a ⊗ w_a·g_a/1ᵀg_a over all rows of a product, added up over its blocks."""
    total: Array = np.zeros((1,) * (len(term.places) + 1))
    for piece in view.pieces(term):
        total = total + _expanded(view, term, piece, components[piece.component])
    return total


def _expanded(view: View, term: ProductTerm, piece: ComponentPart, values: Array) -> Array:
    """One block's part in the answers to a product: axes of the product, in order, then draws."""
    kinds = dict(zip(term.places, term.kinds, strict=True))
    position = 0
    for a, form in piece.inside.items():
        if a in kinds:
            values = _contract(view.gain(a, form, kinds[a]), values, position)
            position += 1
        else:
            # Whole axes that the product does not mention are added up: (1ᵀG) y.
            values = np.tensordot(form.total_gain(), values, axes=(0, position))
    for position, a in enumerate(term.places):
        if a in piece.outside:
            values = np.expand_dims(values, position)
            centre = view.centre(a, piece.outside[a], kinds[a])
            values = values * _along(centre, position, values.ndim)
    return values


def term_covariances(view: View, one: ProductTerm, other_view: View, other: ProductTerm) -> Array:
    """The covariances of the answers to two products, rows with the last axis fastest."""
    mine = {piece.component: piece for piece in view.pieces(one)}
    total = np.zeros((one.n_rows, other.n_rows))
    kinds = [dict(zip(term.places, term.kinds, strict=True)) for term in (one, other)]
    for piece in other_view.pieces(other):
        if piece.component not in mine:
            continue
        part = np.full((1, 1), view.strategy.component_variances[piece.component])
        for a in sorted({*one.places, *other.places, *view.strategy.whole}):
            rows = _rows_of(view, a, kinds[0].get(a)), _rows_of(other_view, a, kinds[1].get(a))
            if a in piece.inside:
                gains = [piece.inside[a].gain(W) for W in rows]
                factor = gains[0] @ gains[1].T
            else:
                # An axis that one of them does not mention is added up there, whatever its centre.
                forms = mine[piece.component].outside.get(a), piece.outside.get(a)
                one_form, other_form = (f or forms[1 - i] for i, f in enumerate(forms))
                assert one_form is not None
                assert other_form is not None
                factor = np.outer(one_form.centre_of(rows[0]), other_form.centre_of(rows[1]))
            part = np.kron(part, factor)
        total += part
    return total


def weighted_covariances(
    view: View, one: ProductTerm, other_view: View, other: ProductTerm, values: Array
) -> Array:
    """The same where every tuple of rows has a variance of its own, (r_1, …, r_d)."""
    n = values.ndim
    kinds = [dict(zip(term.places, term.kinds, strict=True)) for term in (one, other)]
    for a in range(n):
        pair = view.matrix(a, kinds[0].get(a)), other_view.matrix(a, kinds[1].get(a))
        require_room(len(pair[0]) * len(pair[1]), values.size, "the covariances")
        # The first axis is the next one to go; pairs of rows are put last.
        values = np.tensordot(values, pair[0][:, None, :] * pair[1][None, :, :], axes=(0, 2))
    values = values.transpose([*range(0, 2 * n, 2), *range(1, 2 * n, 2)])
    return np.asarray(values.reshape(math.prod(values.shape[:n]), -1))


def gain_norms(blocks: Sequence[ProductBlock], view: View, term: ProductTerm) -> tuple[Array, Array, Array]:
    """Bounds on Σ|g|, Σg² and max|g|, g being how the measured integers enter each row of a product."""
    kinds = dict(zip(term.places, term.kinds, strict=True))
    shape = (1,) * len(term.places)
    norms: list[Array] = [np.zeros(shape) for _ in range(3)]
    for piece in view.pieces(term):
        k = float(blocks[piece.component].multiplier)
        part: list[Array] = [np.full(shape, 1 / k), np.full(shape, 1 / k**2), np.full(shape, 1 / k)]
        for a, form in piece.inside.items():
            gain = view.gain_norms(a, form, kinds.get(a))
            for i in range(3):
                own = gain[i] if a not in kinds else view.shaped(gain[i], a, term)
                part[i] = part[i] * own
        for a, form in piece.outside.items():
            centre = view.shaped(np.abs(view.centre(a, form, kinds[a])), a, term)
            part = [part[0] * centre, part[1] * centre**2, part[2] * centre]
        norms = [norms[0] + part[0], norms[1] + part[1], np.maximum(norms[2], part[2])]
    return norms[0], norms[1], norms[2]


def gains(
    blocks: Sequence[ProductBlock],
    shapes: Sequence[tuple[int, ...]],
    view: View,
    term: ProductTerm,
    shown: tuple[int, ...],
) -> Iterator[Array]:
    """How every measured integer enters the first rows of a product, some rows at a time."""
    n_measured = sum(math.prod(shape) for shape in shapes)
    require_room(1, n_measured, "the noise of one answer")
    kinds = dict(zip(term.places, term.kinds, strict=True))
    mine = {piece.component: piece for piece in view.pieces(term)}
    step = max(1, 2**22 // n_measured)
    rows = math.prod(shown)
    for start in range(0, rows, step):
        n = min(step, rows - start)
        index = np.unravel_index(np.arange(start, start + n), shown) if shown else ()
        at = dict(zip(term.places, index, strict=True))
        parts = []
        for number, (block, shape) in enumerate(zip(blocks, shapes, strict=True)):
            if number not in mine:
                parts.append(np.zeros((n, math.prod(shape))))
                continue
            part = np.full((n, 1), 1 / block.multiplier)
            for a, form in mine[number].outside.items():
                part = part * form.centre_of(view.rows(a, kinds[a], at[a]))[:, None]
            for a, form in mine[number].inside.items():
                if a in kinds:
                    gain = form.gain(view.rows(a, kinds[a], at[a]))
                else:
                    gain = np.broadcast_to(form.total_gain(), (n, form.n_rows))
                part = (part[:, :, None] * gain[:, None, :]).reshape(n, -1)
            parts.append(part)
        yield np.concatenate(parts, axis=1)


def _rows_of(view: View, place: int, kind: int | None) -> Array:
    """The rows of a kind, or the one row that adds all values up."""
    if kind is None:
        return np.ones((1, view.products.axes[place].size))
    return view.products.kinds[place][kind].operator.dense()


def _along(numbers: Array, position: int, n_axes: int) -> Array:
    """A list of numbers as an array that varies along one of several axes."""
    return numbers.reshape([-1 if i == position else 1 for i in range(n_axes)])


def _contract(gain: Any, values: Array, position: int) -> Array:
    """A matrix applied along one axis of an array, or what stands for one."""
    if callable(gain):
        return np.asarray(gain(values, position))
    return np.moveaxis(np.tensordot(gain, values, axes=(1, position)), 0, position)
