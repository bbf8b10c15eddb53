"""Variances of single queries under a split.

A query of product j is a row of the kind of every axis that j mentions. Its variance is linear in z = 1/x:

    v = Σ_blocks z_b Π_{a in b} ρ_{a,row} Π_{other a} h_{a,row}  =  (A z)                                 (1)

Many rows are alike, or smaller than another in every number: only the leading ones are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.decompositions import pseudo_inverse
from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.operators import MAX_ENTRIES, Array, squared_rows
from leastnoise.core.resources import seconds_for, seconds_to_text
from leastnoise.planning.oblique.axis_split import Oblique
from leastnoise.planning.oblique.splitting import Split
from leastnoise.planning.oblique.total_variance import BlockSums
from leastnoise.query import Products

# Rows are taken as equal, and none as larger than another, up to this share of the largest.
_EQUAL = 1e-9

# Operations, as `resources` counts them, for one query and one block of the matrix of (1): 0.23 to 0.36 µs
# each for 12 to 63 million of them, where a core does 50 operations in a nanosecond.
_ENTRY_WORK = 18_000.0


@dataclass(frozen=True, eq=False)
class RowTables:
    """What single rows of every kind contribute.

    Attributes:
        h: for every centre and kind of its axis (w·g)² of every row, (n_rows,); None where not asked.
        rho: for every part and kind of its axis w P^# wᵀ of every row; None where not answered from it.
        whole: for every axis that is measured whole, the variance of every row; None for others.
    """

    h: tuple[tuple[Array | None, ...], ...]
    rho: tuple[tuple[Array | None, ...], ...]
    whole: tuple[Array | None, ...]


def row_tables(split: Split) -> RowTables:
    """h of every row at every centre, and ρ for every part."""
    products = split.products
    h = []
    for place, centre in enumerate(split.centres):
        asked = split.blocks.centres[place].kinds
        size = products.axes[centre.axis].size
        of_kinds: list[Array | None] = []
        for k, kind in enumerate(products.kinds[centre.axis]):
            if k not in asked:
                of_kinds.append(None)
            elif centre.g is None:
                of_kinds.append(np.full(kind.n_rows, 1 / size**2))
            else:
                of_kinds.append(kind.operator.apply(centre.g) ** 2)
        h.append(tuple(of_kinds))
    rho = []
    for part in split.parts:
        size = products.axes[part.axis].size
        gain = None if part.root is None else gain_of(part.root)
        of_kinds = []
        for k, kind in enumerate(products.kinds[part.axis]):
            if k not in part.kinds:
                of_kinds.append(None)
            elif gain is None:
                of_kinds.append(np.full(kind.n_rows, (1 - 1 / size) ** 2))
            else:
                of_kinds.append(squared_rows(kind.operator, gain))
        rho.append(tuple(of_kinds))
    whole: list[Array | None] = []
    for axis, of_axis in enumerate(split.axes):
        if of_axis.form == "identity":
            whole.append(np.ones(products.axes[axis].size))
        elif of_axis.root is not None:
            whole.append(squared_rows(products.kinds[axis][0].operator, pseudo_inverse(of_axis.root)))
        else:
            whole.append(None)
    return RowTables(tuple(h), tuple(rho), tuple(whole))


def gain_of(root: Array) -> Array:
    """G, (n, r), with C G = I and 1ᵀG = 0, for residual rows C, (r, n)."""
    n = root.shape[1]
    return Oblique.from_root(np.vstack([np.ones((1, n)), root]), np.ones(n)).gain


@dataclass(frozen=True, eq=False)
class LeadingRows:
    """Single queries of which some have the largest variances whatever x is.

    Attributes:
        terms, rows: for each its product, rising, and its row, the last axis fastest.
        matrix: A of (1), SciPy sparse (queries, blocks), no row of it empty.
    """

    terms: Array
    rows: Array
    matrix: Any


class RowsTakeTooLong(DesignError):
    """Single queries were to be told apart, and that could not end in time."""


def leading_rows(split: Split, counted: Array, *, most_seconds: float = math.inf) -> LeadingRows:
    """The leading queries of some products; those of nothing but zeros have no noise, and are left out.

    Args:
        counted: for every product, whether it is looked at.
        most_seconds: how long it may take.

    Raises:
        TooLargeError: if there are too many.
        RowsTakeTooLong: if it would take longer; told before it begins.
    """
    tables = row_tables(split)
    deadline = Deadline.after(None if math.isinf(most_seconds) else most_seconds)
    chosen = [(j, rows) for j, rows in _leading_by_product(split, tables, deadline) if counted[j]]
    _require_time(split, chosen, most_seconds)
    A = variance_matrix(split, tables, chosen)
    noisy = np.flatnonzero(A.sum(axis=1) > 0)
    terms = np.repeat([j for j, _ in chosen], [len(rows) for _, rows in chosen])
    return LeadingRows(terms[noisy], np.concatenate([rows for _, rows in chosen])[noisy], A[noisy])


def _require_time(split: Split, chosen: Sequence[tuple[int, Array]], most_seconds: float) -> None:
    if math.isinf(most_seconds):
        return
    seconds = seconds_for(_ENTRY_WORK * sum(len(rows) * int(split.blocks.n_pieces[j]) for j, rows in chosen))
    if seconds > most_seconds:
        raise RowsTakeTooLong(
            f"{sum(len(rows) for _, rows in chosen):,} queries differ in their variance; to find the largest "
            f"takes about {seconds_to_text(seconds)}, and the time limit leaves "
            f"{seconds_to_text(most_seconds)} for it. "
            "Give it more time, ask for fewer queries, or for the total variance without targets"
        )


def _leading_by_product(
    split: Split, tables: RowTables, deadline: Deadline = NEVER
) -> list[tuple[int, Array]]:
    """For every product, rows of which one has its largest variance whatever x is.

    A row of a kind that no block serves better than another row can be left out; so can all but one of equal
    rows. Rows are numbered with the last axis fastest (`ProductTerm.in_workload_order` has the other order).

    Raises:
        TooLargeError: if there are too many.
        RowsTakeTooLong: if the deadline comes first.
    """
    found = []
    known: dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], Array] = {}
    n_rows = 0
    for j, term in enumerate(split.products.terms):
        if deadline.is_past:
            raise RowsTakeTooLong(
                f"{len(split.products.terms):,} tables are too many to tell their queries apart in "
                f"{seconds_to_text(deadline.ends - deadline.began)}, all that the time limit leaves for it. "
                "Give it more time, ask for fewer queries, or for the total variance without targets"
            )
        pieces = split.pieces(j)
        chosen = []
        for axis, kind in zip(term.places, term.kinds, strict=True):
            parts = sorted({p for piece in pieces for p in piece.parts if split.parts[p].axis == axis})
            centres = sorted({c for piece in pieces for c in piece.centres if split.centres[c].axis == axis})
            key = (axis, kind, tuple(parts), tuple(centres))
            if key not in known:
                whole = tables.whole[axis]
                columns = [tables.rho[p][kind] for p in parts] + [tables.h[c][kind] for c in centres]
                given = [column for column in [whole, *columns] if column is not None]
                known[key] = _undominated(np.stack(given, axis=1))
            chosen.append(known[key])
        shape = [split.products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True)]
        count = int(np.prod([len(rows) for rows in chosen], dtype=object))
        n_rows += count
        if n_rows > MAX_ENTRIES // 64:
            raise TooLargeError(
                f"more than {n_rows:,} queries could have the largest variance; ask for fewer, or for the "
                "total variance",
                field="workload",
            )
        grids = np.meshgrid(*chosen, indexing="ij") if chosen else []
        flat = (
            np.ravel_multi_index([grid.reshape(-1) for grid in grids], shape) if chosen else np.zeros(1, int)
        )
        found.append((j, np.asarray(flat, dtype=np.int64).reshape(-1)))
    return found


def _undominated(numbers: Array) -> Array:
    """Places of rows that no other row exceeds or equals in every column, one of equals; rising."""
    scale = np.maximum(numbers.max(axis=0), np.finfo(float).tiny)
    grid = np.rint(numbers / scale / _EQUAL)
    _, first = np.unique(grid, axis=0, return_index=True)
    order = first[np.argsort(-grid[first].sum(axis=1), kind="stable")]
    kept: list[int] = []
    front = np.zeros((0, grid.shape[1]))
    for place in order:
        if len(front) and (front >= grid[place]).all(axis=1).any():
            continue
        kept.append(int(place))
        front = np.vstack([front, grid[place]])
    return np.sort(np.array(kept, dtype=np.int64))


def variance_matrix(split: Split, tables: RowTables, chosen: Sequence[tuple[int, Array]]) -> Any:
    """A of (1) for some rows of some products, (rows, blocks), SciPy sparse.

    Args:
        chosen: products, rising, and rows of each numbered with the last axis fastest.
    """
    blocks, products = split.blocks, split.products
    layout = RowLayout(products)
    sizes = [layout.n_slots[centre.axis] for centre in split.centres]
    sizes += [layout.n_slots[part.axis] for part in split.parts]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    numbers = np.full(int(first[-1]), np.nan)
    axes = [centre.axis for centre in split.centres] + [part.axis for part in split.parts]
    for place, (axis, of_kinds) in enumerate(zip(axes, [*tables.h, *tables.rho], strict=True)):
        for k, values in enumerate(of_kinds):
            if values is not None:
                at = int(first[place]) + int(layout.first_row[axis, k])
                numbers[at : at + len(values)] = values
    terms, index, factor = layout.indexed(split, tables, chosen)
    n = len(split.centres)
    entries = blocks.row_entries(terms, index, first[:n], first[n:-1], layout.first_row)
    A = BlockSums(entries, np.ones(len(terms)), numbers, blocks.n_blocks).matrix()
    return A if (factor == 1).all() else A * factor[:, None]


def totals_of(split: Split) -> Any:
    """What each block adds to the sum of the variances of every product, sparse (products, blocks)."""
    from scipy import sparse

    entries: list[tuple[int, int, float]] = []
    for j, term in enumerate(split.products.terms):
        kinds = dict(zip(term.places, term.kinds, strict=True))
        whole = math.prod(split.axes[a].cost for a in term.places)
        for piece in split.pieces(j):
            inside = [float(split.parts[p].rho[kinds[split.parts[p].axis]]) for p in piece.parts]
            outside = [float(split.centres[c].h[kinds[split.centres[c].axis]]) for c in piece.centres]
            entries.append((j, piece.block, whole * math.prod(inside) * math.prod(outside)))
    rows, columns, values = zip(*entries, strict=True)
    return sparse.csr_array((values, (rows, columns)), shape=(len(split.products.terms), len(split.x)))


class RowLayout:
    """Where the rows of the kinds of every axis stand when they are numbered through."""

    def __init__(self, products: Products) -> None:
        most = max((len(kinds) for kinds in products.kinds), default=0)
        self.first_row = np.zeros((len(products.axes), most + 1), dtype=np.int64)
        for axis, kinds in enumerate(products.kinds):
            ends = np.cumsum([kind.n_rows for kind in kinds])
            self.first_row[axis, 1 : len(kinds) + 1] = ends
        self.n_slots = [int(self.first_row[axis, len(kinds)]) for axis, kinds in enumerate(products.kinds)]

    def indexed(
        self, split: Split, tables: RowTables, chosen: Sequence[tuple[int, Array]]
    ) -> tuple[Array, Array, Array]:
        """For every chosen row its product, its rows on the split axes, and its variance on whole ones."""
        products = split.products
        is_split = [of_axis.form in ("centred", "residual") for of_axis in split.axes]
        # Of all products, chosen or not: places of their axes are looked up together.
        size = max((sum(is_split[a] for a in term.places) for term in products.terms), default=0)
        terms, index, factor = [], [], []
        for j, rows in chosen:
            term = products.terms[j]
            shape = [products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True)]
            places = np.unravel_index(rows, shape) if shape else ()
            own = np.zeros((len(rows), size), dtype=np.int64)
            value = np.ones(len(rows))
            column = 0
            for axis, at in zip(term.places, places, strict=True):
                whole = tables.whole[axis]
                if is_split[axis]:
                    own[:, column] = at
                    column += 1
                elif whole is not None:
                    value *= whole[at]
            terms.append(np.full(len(rows), j, dtype=np.int64))
            index.append(own)
            factor.append(value)
        return np.concatenate(terms), np.concatenate(index), np.concatenate(factor)
