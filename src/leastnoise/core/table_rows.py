"""Rows that look at few attributes each, held as tables of those attributes.

A condition on three out of six attributes has one coefficient for each cell of its own table, a thousand
numbers, where its row over all cells has a million. With D_g the rows g of one table, (m_g, cells of the
table), and sums over all pairs of tables,

    b_iᵀ S b_i       =  Σ_{g,h} (D_gᵀ S_gh D_h)[i in table g, i in table h]        `squares`
    Σ_i q_i b_i b_iᵀ =  D_g q_gh D_hᵀ,  q_gh the weights summed over the cells
                        that tables g and h do not tell apart                      `weighted_gram`

Both work on the attributes of two tables at a time, and so cost a few additions for each cell where rows
over all cells cost k² multiplications: 0.1 s instead of 10 s for 500 conditions over a million cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.axis_sums import axis_sums, n_cells_of, spread_over_cells
from leastnoise.core.merged_cells import Cells, crossed_cells, numbered
from leastnoise.core.operators import AllOnes, Array, Kronecker, Operator, Reordered, Selected, Stack

# Numbers that all tables hold together, at most: 256 MB.
MAX_TABLE_ENTRIES = 2**25

# Rows of a table join one over more attributes if that has at most this many cells: fewer pairs of tables
# are worth more than short rows.
_SMALL_TABLE = 4_096

# Operations of matrix products that take as long as adding up what the pairs of tables give one cell: 500
# conditions over a million cells take 0.06 s a pass, of which products are a third.
_ADDING = 2_000

# Numbers of a batch of vectors over all cells that are worked on at a time.
_BATCH = 2**24


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows over the cells of one table.

    Attributes:
        places: the attributes of the table, rising.
        rows: which rows these are.
        entries: (len(rows), *sizes of these attributes), floats.
    """

    places: tuple[int, ...]
    rows: Array
    entries: Array

    def arranged(self, first: Sequence[int]) -> Array:
        """The entries as (cells of some of the attributes, cells of the others, rows)."""
        kept = [1 + self.places.index(a) for a in first]
        others = [1 + i for i, a in enumerate(self.places) if a not in first]
        n_first = math.prod(self.entries.shape[i] for i in kept)
        return self.entries.transpose(*kept, *others, 0).reshape(n_first, -1, len(self.rows))


@dataclass(frozen=True, eq=False)
class TableRows:
    """All rows of an operator, table by table.

    Attributes:
        axes: the number of values of each attribute; cells count through them, the last one fastest.
        n_rows: the number of rows in all tables.
    """

    axes: tuple[int, ...]
    tables: tuple[RowTable, ...]
    n_rows: int

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return math.prod(self.axes)

    @cached_property
    def cells(self) -> Cells:
        """The cells that differ in some attribute whose values some row tells apart."""
        return crossed_cells(self._codes)

    @cached_property
    def merged(self) -> TableRows:
        """The same rows over one cell of each kind, in the order of `cells.first`."""
        if self.cells.are_all:
            return self
        chosen = [np.unique(code, return_index=True)[1] for code in self._codes]
        tables = []
        for table in self.tables:
            entries = table.entries
            for i, a in enumerate(table.places):
                entries = np.take(entries, chosen[a], axis=1 + i)
            tables.append(RowTable(table.places, table.rows, entries))
        return TableRows(tuple(len(values) for values in chosen), tuple(tables), self.n_rows)

    def at(self, positions: Array) -> TableRows:
        """Some of the rows, in this order."""
        place = np.full(self.n_rows, -1)
        place[positions] = np.arange(len(positions))
        tables = []
        for table in self.tables:
            is_in = place[table.rows] >= 0
            if is_in.any():
                tables.append(RowTable(table.places, place[table.rows[is_in]], table.entries[is_in]))
        return TableRows(self.axes, tuple(tables), len(positions))

    @cached_property
    def _codes(self) -> list[Array]:
        """For each value of each attribute, which of its kinds it is, numbered as they come."""
        return [self._codes_of(a) for a in range(len(self.axes))]

    def _codes_of(self, a: int) -> Array:
        n = self.axes[a]
        slices = [
            np.moveaxis(table.entries, 1 + table.places.index(a), 0).reshape(n, -1)
            for table in self.tables
            if a in table.places
        ]
        # −0.0 has other bytes than 0.0, and adding it changes nothing else.
        return numbered(b"".join((own[value] + 0.0).tobytes() for own in slices) for value in range(n))

    def columns(self, index: Array) -> Array:
        """b_i for some cells, (n_rows, len(index))."""
        values = np.unravel_index(index, self.axes)
        found = np.empty((self.n_rows, len(index)))
        for table in self.tables:
            at = np.zeros(len(index), dtype=np.intp)
            for a in table.places:
                at = at * self.axes[a] + values[a]
            found[table.rows] = table.entries.reshape(len(table.rows), -1)[:, at]
        return found

    @cached_property
    def work(self) -> float:
        """Operations of one pass over all cells, as those of matrix products count."""
        multiplications = sum(
            len(g.rows) * (len(h.rows) * n_cells_of(self.axes, h.places) + n_cells_of(self.axes, union))
            for g, h, _, union in self._pairs
        )
        return 2.0 * multiplications + _ADDING * self.n_cells

    @property
    def n_terms(self) -> int:
        """How many numbers `squares` adds up for one cell, one after the other, at most."""
        return 2 * self.n_rows + len(self.tables) ** 2

    @property
    def is_quick(self) -> bool:
        """Whether such a pass takes less than one that multiplies every column by a triangle."""
        return self.work < self.n_rows**2 * self.n_cells

    def nonzero(self) -> Array:
        """For each row, a cell where it is not 0, or the first, (n_rows,)."""
        found = np.zeros(self.n_rows, dtype=np.intp)
        strides = [n_cells_of(self.axes, range(a + 1, len(self.axes))) for a in range(len(self.axes))]
        for table in self.tables:
            shape = table.entries.shape[1:]
            first = (table.entries.reshape(len(table.rows), -1) != 0).argmax(axis=1)
            values = np.unravel_index(first, shape) if shape else ()
            for a, numbers in zip(table.places, values, strict=True):
                found[table.rows] += strides[a] * numbers
        return found

    def apply(self, x: Array) -> Array:
        """Σ_i x_i b_i for every vector of x, (n_cells, c): (n_rows, c)."""
        found = np.empty((self.n_rows, x.shape[1]))
        wanted = {table.places for table in self.tables}
        step = max(1, _BATCH // self.n_cells)
        for start in range(0, x.shape[1], step):
            some = x[:, start : start + step].T
            sums = axis_sums(self.axes, some.reshape(len(some), *self.axes), wanted)
            for table in self.tables:
                own = sums[table.places].reshape(len(some), -1)
                found[table.rows, start : start + step] = table.entries.reshape(len(table.rows), -1) @ own.T
        return found

    def squares(self, S: Array) -> Array:
        """b_iᵀ S b_i for every cell, (n_cells,); S is symmetric, (n_rows, n_rows)."""
        sums: dict[tuple[int, ...], Array] = {}
        for g, h, shared, union in self._pairs:
            image = S[np.ix_(g.rows, h.rows)] @ h.entries.reshape(len(h.rows), -1)
            other = RowTable(h.places, g.rows, image.reshape(len(g.rows), *h.entries.shape[1:]))
            if g is h:
                found = (g.entries * other.entries).sum(axis=0)
            else:
                found = 2 * np.matmul(g.arranged(shared), other.arranged(shared).transpose(0, 2, 1))
                found = self._to_order(found, g, h, shared)
            sums[union] = sums[union] + found if union in sums else found
        return spread_over_cells(self.axes, sums)

    def weighted_gram(self, q: Array) -> Array:
        """Σ_i q_i b_i b_iᵀ, (n_rows, n_rows); q has one number for every cell."""
        sums = axis_sums(self.axes, q.reshape(1, *self.axes), {union for *_, union in self._pairs})
        total = np.empty((self.n_rows, self.n_rows))
        for g, h, shared, union in self._pairs:
            if g is h:
                left = g.entries.reshape(len(g.rows), -1)
                total[np.ix_(g.rows, g.rows)] = (left * sums[union].reshape(-1)) @ left.T
                continue
            weights = self._from_order(sums[union][0], g, h, shared)
            image = np.matmul(weights, h.arranged(shared)).reshape(-1, len(h.rows))
            found = g.arranged(shared).reshape(-1, len(g.rows)).T @ image
            total[np.ix_(g.rows, h.rows)] = found
            total[np.ix_(h.rows, g.rows)] = found.T
        return total

    # Pairs of tables, and sums over attributes ----------------------------------------------------

    @cached_property
    def _pairs(self) -> list[tuple[RowTable, RowTable, tuple[int, ...], tuple[int, ...]]]:
        """Every pair of tables once, the attributes that both have, and those that one of them has."""
        return [
            (
                g,
                h,
                tuple(a for a in g.places if a in h.places),
                tuple(sorted({*g.places, *h.places})),
            )
            for i, g in enumerate(self.tables)
            for h in self.tables[i:]
        ]

    def _order(self, g: RowTable, h: RowTable, shared: tuple[int, ...]) -> list[int]:
        """The attributes of two tables: shared ones, those of the first, those of the second."""
        return [
            *shared,
            *(a for a in g.places if a not in shared),
            *(a for a in h.places if a not in shared),
        ]

    def _to_order(self, values: Array, g: RowTable, h: RowTable, shared: tuple[int, ...]) -> Array:
        """Values of (shared, of the first, of the second) with one axis for every attribute, rising."""
        order = self._order(g, h, shared)
        return values.reshape([self.axes[a] for a in order]).transpose(np.argsort(order))

    def _from_order(self, values: Array, g: RowTable, h: RowTable, shared: tuple[int, ...]) -> Array:
        """The reverse of `_to_order`."""
        order = self._order(g, h, shared)
        rank = {a: i for i, a in enumerate(sorted(order))}
        n_shared = math.prod(self.axes[a] for a in shared)
        n_first = math.prod(self.axes[a] for a in g.places) // n_shared
        return values.transpose([rank[a] for a in order]).reshape(n_shared, n_first, -1)


_KNOWN: WeakKeyDictionary[Operator, TableRows | None] = WeakKeyDictionary()


def table_rows(operator: Operator) -> TableRows | None:
    """The rows of an operator as tables; None where it is no stack of products, or tables are too large."""
    if operator not in _KNOWN:
        _KNOWN[operator] = _table_rows(operator)
    return _KNOWN[operator]


def _table_rows(operator: Operator) -> TableRows | None:
    found = layouts_of(operator)
    if found is None:
        return None
    axes, layouts = found
    entries = sum(len(rows) * n_cells_of(axes, layout.places) for rows, layout, _ in layouts)
    if entries > MAX_TABLE_ENTRIES:
        return None
    tables = _joined([layout.table(rows, index) for rows, layout, index in layouts], axes)
    if sum(table.entries.size for table in tables) > MAX_TABLE_ENTRIES:
        return None
    return TableRows(axes, tables, operator.shape[0])


def layouts_of(
    operator: Operator,
) -> tuple[tuple[int, ...], list[tuple[Array, ProductLayout, Array]]] | None:
    """The sizes of the attributes of a stack, and of each part its rows in the whole, its factors, and which
    of its rows they are.

    None where some part is no product of whole attributes.
    """
    axes = _axes_of(operator)
    if axes is None:
        return None
    found = []
    for rows, part, index in _parts(operator):
        layout = ProductLayout.of(part, axes)
        if layout is None:
            return None
        found.append((rows, layout, index))
    return axes, found


def _parts(operator: Operator) -> Iterator[tuple[Array, Operator, Array]]:
    """The rows of each part of a stack, that part, and which of its rows they are."""
    whole = operator.inner if isinstance(operator, Selected) else operator
    index = operator.index if isinstance(operator, Selected) else np.arange(operator.shape[0])
    start = 0
    for part in whole.parts if isinstance(whole, Stack) else (whole,):
        rows = np.flatnonzero((index >= start) & (index < start + part.shape[0]))
        if len(rows):
            yield rows, part, index[rows] - start
        start += part.shape[0]


def _axes_of(operator: Operator) -> tuple[int, ...] | None:
    """The sizes of the attributes that parts are products over, those of one value left out."""
    found: tuple[int, ...] = ()
    for _, part, _ in _parts(operator):
        if isinstance(part, Reordered):
            own = part.axes
        elif isinstance(part, Kronecker):
            own = tuple(factor.shape[1] for factor in part.factors)
        else:
            continue
        own = tuple(n for n in own if n > 1)
        found = max(found, own, key=len)
    return found if math.prod(found) == operator.shape[1] and len(found) > 1 else None


@dataclass(frozen=True, eq=False)
class ProductLayout:
    """The factors of a product, and the attributes of each; those of a total are left out."""

    factors: tuple[Operator, ...]
    places_of: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, part: Operator, axes: tuple[int, ...]) -> ProductLayout | None:
        """None where its factors are not products of whole attributes."""
        order = list(range(len(axes)))
        if isinstance(part, Reordered):
            # Places among the attributes of more than one value.
            places = np.cumsum([n > 1 for n in part.axes]) - 1
            order = [int(places[a]) for a in part.order if part.axes[a] > 1]
            if tuple(n for n in part.axes if n > 1) != axes:
                return None
            part = part.inner
        factors = part.factors if isinstance(part, Kronecker) else (part,)
        found = []
        for factor in factors:
            own: list[int] = []
            while order and math.prod(axes[a] for a in own) < factor.shape[1]:
                own.append(order.pop(0))
            if math.prod(axes[a] for a in own) != factor.shape[1]:
                return None
            found.append(tuple(own))
        return cls(factors, tuple(found), axes) if not order else None

    @property
    def places(self) -> list[int]:
        """The attributes that the rows tell apart, in the order of the factors."""
        pairs = zip(self.factors, self.places_of, strict=True)
        return [a for factor, own in pairs if not isinstance(factor, AllOnes) for a in own]

    def rows_of_factors(self, index: Array) -> list[Array]:
        """For every factor, which of its rows some rows of the product cross."""
        chosen: list[Array] = []
        rest = index
        for factor in reversed(self.factors):
            chosen.append(rest % factor.shape[0])
            rest = rest // factor.shape[0]
        return chosen[::-1]

    def table(self, rows: Array, index: Array) -> RowTable:
        """Some rows of the product."""
        total = np.ones((len(index), 1))
        for factor, own in zip(self.factors, self.rows_of_factors(index), strict=True):
            if not isinstance(factor, AllOnes):
                total = (total[:, :, None] * factor.rows(own)[:, None, :]).reshape(len(index), -1)
        places = self.places
        entries = total.reshape(len(index), *(self.axes[a] for a in places))
        order = np.argsort(places).tolist()
        return RowTable(tuple(sorted(places)), rows, entries.transpose(0, *(1 + i for i in order)))


def _joined(parts: Sequence[RowTable], axes: tuple[int, ...]) -> tuple[RowTable, ...]:
    """One table for every set of attributes; small ones join others that have their attributes and more."""
    sets = {part.places for part in parts}
    tops = [s for s in sets if not any(set(s) < set(t) for t in sets)]
    small = sorted(s for s in tops if math.prod(axes[a] for a in s) <= _SMALL_TABLE)
    members: dict[tuple[int, ...], list[RowTable]] = {}
    n_rows = dict.fromkeys(sets, 0)
    # The larger sets first, then where the fewest rows are: pairs of tables cost the product of theirs.
    for part in sorted(parts, key=lambda part: -len(part.places)):
        above = [s for s in small if set(part.places) < set(s)]
        home = min(above, key=n_rows.__getitem__, default=part.places)
        n_rows[home] += len(part.rows)
        members.setdefault(home, []).append(part)
    found = []
    for places in sorted(members, key=lambda own: (len(own), own)):
        blocks = []
        for part in members[places]:
            shape = [axes[a] if a in part.places else 1 for a in places]
            narrow = part.entries.reshape(len(part.rows), *shape)
            blocks.append(np.broadcast_to(narrow, (len(part.rows), *(axes[a] for a in places))))
        rows = np.concatenate([part.rows for part in members[places]])
        found.append(RowTable(places, rows, np.ascontiguousarray(np.concatenate(blocks))))
    return tuple(found)
