"""Classes of cells that no query tells apart, found without ever listing the cells.

Thirty conditions over six attributes have 10⁸ cells and some 10⁴ different columns. First the values of an
attribute are merged that no condition tells apart. Then attributes are taken one by one: after some of them,
a class is what is left to ask of every condition, and values of the next attribute lead from class to class:

    age in {0–17, 18+}   →   after age: {minor, adult}   →   after age, sex: {minor, F adult, M adult}

for "age < 18" and "age >= 18 and sex == 'F'": a minor meets no condition on sex, so that minors are not
split. The steps are kept: they say of any record, by a look-up for each attribute, which class it is in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.operators import Array, Matrix
from leastnoise.query.predicates import Condition, comparisons, holding, independent_parts
from leastnoise.query.queries import Linear, Query, Term, Where
from leastnoise.query.schema import Schema
from leastnoise.query.workload import Workload

# Classes, at most, after any attribute.
MAX_CLASSES = 2**19

# States that are looked at, at most: of every condition, for every pair of a class and a value of the next
# attribute, over all attributes. A second of one core looks at some STATES_PER_SECOND.
MAX_STATES = 2.0**29
STATES_PER_SECOND = 2e7

# Entries of all conditions over merged values, at most.
MAX_ENTRIES = 2**26

# Cells that are numbered in 64 bits.
_MAX_NUMBERED = 2**62

# Queries, at most.
MAX_QUERIES = 4_096

# Draws of random factors before columns are taken for too alike to be told apart.
_TRIES = 3

# What stands for a condition that no value to come can meet any more.
_DEAD = -1


class AnyClasses(ABC):
    """Classes of cells, of which a record is in some or in none: what counting records of classes needs."""

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of classes."""

    @abstractmethod
    def of_codes(self, values: Mapping[str, Array] | Sequence[Array]) -> Array:
        """The class of each of some records, `n` for none, from the number of their value of each attribute.

        Guarantee:
            Elementwise: the class of a record follows from its own values.

        Args:
            values: by the name of the attribute, or in the schema's order.
        """

    @abstractmethod
    def of_cells(self, cells: Array) -> Array:
        """The class of some cells, by their numbers over all attributes, the last one fastest."""

    def counts(self, numbers: Array, times: Array | None = None) -> Array:
        """How many records each class holds, (n,), by the numbers of their classes, in whole numbers.

        Args:
            numbers: what `of_codes` found.
            times: how often each record occurs; once unless given.
        """
        if times is None:
            return np.bincount(numbers.reshape(-1), minlength=self.n + 1)[: self.n]
        found = np.zeros(self.n + 1, dtype=times.dtype)
        np.add.at(found, numbers, np.broadcast_to(times, numbers.shape))
        return found[: self.n]


@dataclass(frozen=True, eq=False)
class SeveralClasses(AnyClasses):
    """Classes of several workloads over the same attributes: a record is in at most one class of each."""

    parts: tuple[CellClasses, ...]

    @property
    def n(self) -> int:
        """The number of classes of all parts."""
        return sum(part.n for part in self.parts)

    def of_codes(self, values: Mapping[str, Array] | Sequence[Array]) -> Array:
        """A row for each part: the classes of some records, `n` for none."""
        return self._numbered([part.of_codes(values) for part in self.parts])

    def of_cells(self, cells: Array) -> Array:
        """A row for each part: the classes of some cells, `n` for none."""
        return self._numbered([part.of_cells(cells) for part in self.parts])

    def _numbered(self, rows: Sequence[Array]) -> Array:
        starts = np.cumsum([0, *(part.n for part in self.parts)])
        own = zip(self.parts, starts.tolist(), rows, strict=False)
        return np.stack([np.where(row < part.n, row + start, self.n) for part, start, row in own])

    def apart(self, counts: Array) -> list[Array]:
        """The counts of the classes of each part, from those of all."""
        return np.split(counts, np.cumsum([part.n for part in self.parts])[:-1])


@dataclass(frozen=True, eq=False)
class CellClasses(AnyClasses):
    """Which cells no query of a workload tells apart; those that none counts are in no class.

    Attributes:
        names: the attributes, in the order in which they are taken.
        sizes: how many values each has.
        codes: for each attribute the number of the merged value of each value.
        steps: for each attribute the class after it, by the class before it and the merged value.
        order: the number of each class at the end; `n` for cells that no query counts.
        first: the cell that stands for each class, by its number over all attributes in the schema's order,
            or over those that some query tells apart where all have too many cells to be numbered.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: tuple[Array, ...]
    steps: tuple[Array, ...]
    order: Array
    first: Array

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return math.prod(self.sizes)

    @property
    def n(self) -> int:
        """The number of classes."""
        return len(self.first)

    def of_codes(self, values: Mapping[str, Array] | Sequence[Array]) -> Array:
        """The class of each of some records, `n` for none, from the number of their value of each attribute.

        Guarantee:
            Elementwise: the class of a record follows from its own values.

        Args:
            values: by the name of the attribute, or in the order of `names`.
        """
        found: Array = np.zeros(1, dtype=np.int64)
        for place, (name, codes, step) in enumerate(zip(self.names, self.codes, self.steps, strict=True)):
            own = values[name] if isinstance(values, Mapping) else values[place]
            found = step[found, codes[own]]
        return np.asarray(self.order[found])

    @property
    def radices(self) -> tuple[int, ...]:
        """How many values of each attribute are numbered: those of `first`."""
        return _radices(self.sizes, self.codes)

    def of_cells(self, cells: Array) -> Array:
        """The class of some cells, by their numbers as in `first`, the last attribute fastest."""
        return self.of_codes(self.values_of(cells))

    def values_of(self, cells: Array) -> list[Array]:
        """The numbers of the values of every attribute in some cells, by their numbers as in `first`."""
        rest, values = np.asarray(cells), []
        for size in reversed(self.radices):
            values.append(rest % size)
            rest = rest // size
        return values[::-1]

    def number_of(self, place: int) -> int:
        """The number over all attributes of the cell that stands for a class, however many there are."""
        number = 0
        for size, own in zip(self.sizes, self.values_of(self.first[place : place + 1]), strict=True):
            number = number * size + int(own[0])
        return number

    def in_order_of(self, cells: Array) -> CellClasses | None:
        """The same classes, numbered like these cells, of which one is in each; None if they are others."""
        if cells.shape != (self.n,) or cells.dtype.kind != "i":
            return None
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < math.prod(self.radices):
            return None
        place = np.full(self.n + 1, self.n)
        place[self.of_cells(cells)] = np.arange(self.n)
        if (np.sort(place) != np.arange(self.n + 1)).any() or place[self.n] != self.n:
            return None
        return replace(self, order=place[self.order], first=cells)

    def reduced(self, workload: Workload) -> Workload | None:
        """The same queries over a cell of each class; None where some query tells cells of a class apart."""
        known = _REDUCED.setdefault(self, WeakKeyDictionary())
        if workload not in known:
            own = classes_of(workload)
            is_told = own is not None and _refines(self, own)
            values = dict(zip(self.names, self.values_of(self.first), strict=True))
            known[workload] = over_values(workload, values) if is_told else None
        return known[workload]


_REDUCED: WeakKeyDictionary[CellClasses, WeakKeyDictionary[Workload, Workload | None]] = WeakKeyDictionary()


def _radices(sizes: Sequence[int], codes: Sequence[Array]) -> tuple[int, ...]:
    """How many values of each attribute are numbered: of too many cells, those that are told apart."""
    if math.prod(sizes) < _MAX_NUMBERED:
        return tuple(sizes)
    return tuple(size if own.any() else 1 for size, own in zip(sizes, codes, strict=True))


def over_values(workload: Workload, values: Mapping[str, Array]) -> Workload:
    """The same queries over some of the cells, by the numbers of their values, without a schema."""
    schema = workload.schema
    assert schema is not None
    blocks = []
    for block in workload.blocks:
        if isinstance(block.query, Where):
            columns = holding(block.query.parsed, schema, values)[None, :].astype(np.int64)
        elif isinstance(block.query, Linear):
            # It has a column for each cell, so that their numbers are small.
            columns = block.operator.columns(_cells_of(schema, schema.names, values))
        else:
            columns = np.concatenate(
                [_columns_of_term(term, schema, values) for term in block.query.terms(schema)]
            )
        blocks.append(replace(block, operator=Matrix(columns)))
    return Workload(tuple(blocks), None)


def _columns_of_term(term: Term, schema: Schema, values: Mapping[str, Array]) -> Array:
    """The entries of a product of rows, (rows, cells), in the order of its labels."""
    n = len(next(iter(values.values()))) if values else 1
    found = np.ones((1, n), dtype=np.int64)
    for factor in term:
        own = factor.operator.columns(_cells_of(schema, factor.attributes, values, n))
        found = (found[:, None, :] * own[None, :, :]).reshape(-1, n)
    return found


def _cells_of(schema: Schema, names: Sequence[str], values: Mapping[str, Array], n: int = 1) -> Array:
    """The numbers of the cells of some attributes, by their values; of no attribute, the one cell n times."""
    place: Array = np.zeros(n, dtype=np.int64)
    for name in names:
        place = place * schema[name].size + values[name]
    return place


def states_in(seconds: float | None) -> float:
    """How many states are looked at in so many seconds of one core; the most there may be without a limit."""
    return MAX_STATES if seconds is None else min(MAX_STATES, seconds * STATES_PER_SECOND)


def classes_of(workload: Workload, *, most_states: float = MAX_STATES) -> CellClasses | None:
    """The classes of a workload's cells; None where they are too many, or nothing is known of attributes.

    Args:
        most_states: how many states are looked at before it is given up.
    """
    found, looked = _KNOWN.get(workload, (None, -1.0))
    if found is None and looked < most_states:
        found = _classes_of(workload, most_states)
        _KNOWN[workload] = found, most_states
    return found


# What was found for a workload, and how many states were looked at for it at most.
_KNOWN: WeakKeyDictionary[Workload, tuple[CellClasses | None, float]] = WeakKeyDictionary()


@dataclass(eq=False)
class _Part:
    """Rows over a few attributes, of a product that is zero where one of its parts is.

    Attributes:
        term: the number of the product.
        names: the attributes that are yet to come, in order.
        left: what is left to ask, one array for each state: (states, merged values of `names` ..., rows).
    """

    term: int
    names: tuple[str, ...]
    left: Array

    def take(self) -> Array:
        """The state after the next attribute, by the state before and the merged value; `_DEAD` for none."""
        n_states, n_values = self.left.shape[:2]
        after = self.left.reshape(n_states * n_values, *self.left.shape[2:])
        kinds, number = _different(after.reshape(len(after), -1))
        self.left, self.names = after[kinds], self.names[1:]
        is_dead = np.asarray(~self.left.reshape(len(self.left), -1).any(axis=1))
        step = np.where(is_dead[number], _DEAD, number).reshape(n_states, n_values)
        # What is dead stays so: the last row is that of state −1.
        return np.vstack([step, np.full((1, n_values), _DEAD)]).astype(np.int32)


def _different(rows: Array) -> tuple[Array, Array]:
    """The first of each kind of equal rows, and for each row the number of its kind, exactly."""
    packed = np.ascontiguousarray(rows)
    _, first, number = np.unique(
        packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).reshape(-1),
        return_index=True,
        return_inverse=True,
    )
    return first, number.reshape(-1)


def _classes_of(workload: Workload, most_states: float) -> CellClasses | None:
    schema = workload.schema
    if schema is None or workload.shape[0] > MAX_QUERIES:
        return None
    if any(isinstance(block.query, Linear) for block in workload.blocks):
        return None
    asked = _Asked(schema)
    for block in workload.blocks:
        if not asked.add(block.query):
            return None
    return _walked(schema, asked, most_states)


class _Asked:
    """The rows that are asked, attribute by attribute, over values that they do not tell apart."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.conditions: list[tuple[int, Condition]] = []
        self.factors: list[tuple[int, tuple[str, ...], Array]] = []
        self.n_terms, self.n_entries = 0, 0

    def add(self, query: Query) -> bool:
        """Take in a query, unless it is too large."""
        if isinstance(query, Where):
            self.conditions += [(self.n_terms, part) for part in independent_parts(query.parsed)]
            self.n_terms += 1
            return True
        for term in query.terms(self.schema):
            if not term:
                # A total counts the cells too that nothing else does.
                self.factors.append((self.n_terms, (), np.ones(1, dtype=np.int64)))
            for factor in term:
                self.n_entries += math.prod(factor.operator.shape)
                if self.n_entries > MAX_ENTRIES:
                    return False
                shape = [self.schema[name].size for name in factor.attributes]
                entries = factor.operator.dense().T.reshape(*shape, -1)
                self.factors.append((self.n_terms, factor.attributes, entries))
            self.n_terms += 1
        return True

    def merged_values(self) -> dict[str, Array]:
        """For each attribute the number of the merged value of each value."""
        told: dict[str, list[Array]] = {name: [] for name in self.schema}
        for _, part in self.conditions:
            for leaf in comparisons(part):
                matching = self.schema[leaf.attribute].matching(leaf.attribute, leaf.sign, leaf.value)
                told[leaf.attribute].append(np.asarray(matching)[:, None])
        for _, names, entries in self.factors:
            for axis, name in enumerate(names):
                values = np.moveaxis(entries, axis, 0).reshape(entries.shape[axis], -1)
                told[name].append(_different(values)[1][:, None])
        codes = {}
        for name, columns in told.items():
            size = self.schema[name].size
            signs = np.hstack(columns) if columns else np.zeros((size, 1), dtype=bool)
            codes[name] = _different(np.ascontiguousarray(signs.astype(np.int64)))[1]
        return codes

    def parts(self, first: Mapping[str, Array]) -> list[_Part] | None:
        """All rows over merged values; None where these are too many.

        Args:
            first: for each attribute a value of each merged one.
        """
        found = []
        for term, condition in self.conditions:
            names = tuple(name for name in self.schema if name in condition.attributes)
            sizes = [len(first[name]) for name in names]
            self.n_entries += math.prod(sizes)
            if self.n_entries > MAX_ENTRIES:
                return None
            values = {
                name: first[name].reshape([-1 if k == place else 1 for k in range(len(names))])
                for place, name in enumerate(names)
            }
            mask = np.broadcast_to(holding(condition, self.schema, values), sizes)
            found.append(_Part(term, names, mask.reshape(1, *sizes, 1)))
        for term, names, entries in self.factors:
            merged = entries
            for axis, name in enumerate(names):
                merged = np.take(merged, first[name], axis=axis)
            found.append(_Part(term, names, merged[None]))
        return found


def _walked(schema: Schema, asked: _Asked, most_states: float) -> CellClasses | None:
    """The classes after all attributes, one after the other."""
    codes = asked.merged_values()
    first = {name: np.unique(code, return_index=True)[1] for name, code in codes.items()}
    radices = _radices([schema[name].size for name in schema], [codes[name] for name in schema])
    parts = asked.parts(first) if math.prod(radices) < _MAX_NUMBERED else None
    if parts is None:
        return None
    together = _parts_of_products(parts)
    states = np.zeros((1, len(parts)), dtype=np.int32)
    cells = np.zeros(1, dtype=np.int64)
    steps, n_looked = [], 0.0
    for name, radix in zip(schema, radices, strict=True):
        n_values = len(first[name])
        n_looked += float(states.size * n_values)
        if n_looked > most_states:
            return None
        moves = {number: part.take() for number, part in enumerate(parts) if part.names[:1] == (name,)}
        step = _Step(states, moves, n_values, together)
        kinds, number_of = step.different()
        if len(kinds) > MAX_CLASSES:
            return None
        at = (cells[:, None] * radix + first[name]).reshape(-1)
        # The lowest cell of each class stands for it, so that classes have one order.
        lowest = np.full(len(kinds), at.max())
        np.minimum.at(lowest, number_of, at)
        states, cells = step.following(kinds), lowest
        steps.append(number_of.reshape(-1, n_values))
    kept = np.flatnonzero((states != _DEAD).any(axis=1))
    kept = kept[np.argsort(cells[kept], kind="stable")]
    if len(kept) == 0:
        return None
    order = np.full(len(states), len(kept), dtype=np.int64)
    order[kept] = np.arange(len(kept))
    sizes = tuple(schema[name].size for name in schema)
    return CellClasses(
        schema.names, sizes, tuple(codes[name] for name in schema), tuple(steps), order, cells[kept]
    )


def _parts_of_products(parts: Sequence[_Part]) -> list[list[int]]:
    """The numbers of the parts of each product that has several."""
    found: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        found.setdefault(part.term, []).append(number)
    return [own for own in found.values() if len(own) > 1]


@dataclass(frozen=True, eq=False)
class _Step:
    """What follows every class for every value of an attribute, made some rows at a time.

    Attributes:
        states: of every part in every class before.
        moves: for each part that looks at the attribute, the state after it.
        n_values: merged values of the attribute.
        together: parts of products that are zero where one of them is.
    """

    states: Array
    moves: Mapping[int, Array]
    n_values: int
    together: Sequence[Sequence[int]]

    def following(self, rows: Array) -> Array:
        """The states of all parts after some pairs of a class and a value, by the number of the pair."""
        before, values = np.divmod(rows, self.n_values)
        found = self.states[before]
        for number, move in self.moves.items():
            found[:, number] = move[found[:, number], values]
        for own in self.together:
            # Where one part of a product is zero, nothing is left to ask of the others.
            is_dead = (found[:, own] == _DEAD).any(axis=1)
            found[np.ix_(is_dead, own)] = _DEAD
        return found

    def different(self) -> tuple[Array, Array]:
        """As `_different` for all rows, by random sums of 64 bits that are then compared with every entry."""
        n = len(self.states) * self.n_values
        for seed in range(_TRIES):
            factors = np.random.default_rng(seed).integers(-(2**62), 2**62, size=self.states.shape[1])
            sums = np.empty(n, dtype=np.int64)
            for some in _chunks(n):
                sums[some] = self.following(some).astype(np.int64) @ factors
            _, first, number = np.unique(sums, return_index=True, return_inverse=True)
            number = number.reshape(-1)
            known = self.following(first)
            if all((known[number[some]] == self.following(some)).all() for some in _chunks(n)):
                return first, number
        return _different(self.following(np.arange(n)))


# Pairs of a class and a value whose states are made at a time.
_ROWS = 2**16


def _chunks(n: int) -> Iterator[Array]:
    return (np.arange(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS))


def _refines(fine: CellClasses, coarse: CellClasses) -> bool:
    """Whether cells of one class of the first are of one class of the second, those in no class included."""
    if fine.names != coarse.names or fine.sizes != coarse.sizes:
        return False
    pairs = np.zeros((1, 2), dtype=np.int64)
    for place in range(len(fine.names)):
        values = np.unique(np.column_stack([fine.codes[place], coarse.codes[place]]), axis=0)
        following = np.column_stack(
            [
                fine.steps[place][pairs[:, :1], values[:, 0]].reshape(-1),
                coarse.steps[place][pairs[:, 1:], values[:, 1]].reshape(-1),
            ]
        )
        pairs = np.unique(following, axis=0)
        if len(pairs) > MAX_CLASSES:
            return False
    ends = np.column_stack([fine.order[pairs[:, 0]], coarse.order[pairs[:, 1]]])
    ends = np.unique(ends, axis=0)
    is_none = ends[:, 0] == fine.n
    return len(np.unique(ends[:, 0])) == len(ends) and bool((ends[is_none, 1] == coarse.n).all())
