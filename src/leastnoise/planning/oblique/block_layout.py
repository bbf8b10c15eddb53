"""Which blocks are measured for a union of products, and which residual rows and centres each one needs.

Axes are split one after the other, in a fixed order. A block is a set s of axes: it holds residual rows of
those, and adds up the others. For an axis a,

    a centre g belongs to every sort of history, the axes of s before a: it says what is residual (r·g = 0)
    a part P belongs to a centre and to what the block's products ask: it says how residual rows are measured

Two different sets differ at some first axis, where one has residual rows and the other the total, for the
same centre. So the noise of different sets is independent whatever happens on later axes, and products that
mention a and b may have another split of b than those that mention b alone. Therefore axes of which several
kinds of rows are asked come last. Products that ask very different rows of the same set may get blocks of
their own, each with its residual rows: what one product asks is then taken from its own block alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Literal, NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.oblique.total_variance import Entries
from leastnoise.query import AxisSet, Lattice, Products

# summed: no product mentions the axis. identity, whole: all products ask the same of it, and it is measured
# as it is. centred: only plain counts are asked, so that g is uniform and P the rest. residual: all others.
Form = Literal["summed", "identity", "whole", "centred", "residual"]

# Kinds of rows of one axis that are told apart when histories are; a 64-bit integer holds no more.
_MAX_BITS = 60

# Centres of an axis at most; beyond, one serves all. Each is an array of the size of the axis squared.
_MAX_CENTRES = 16

# Parts of an axis at most; beyond, each centre has one. Each is an array of the size of the axis squared.
_MAX_PARTS = 32


class Centre(NamedTuple):
    """A g of one axis, and the kinds of rows asked of the axis where it holds."""

    axis: int
    kinds: tuple[int, ...]


class ResidualPart(NamedTuple):
    """A P of one axis: the place of its centre, and the kinds of rows that are answered from it."""

    axis: int
    centre: int
    kinds: tuple[int, ...]


class BlockPiece(NamedTuple):
    """What a product gets from one block.

    Attributes:
        block: its place.
        parts: for every axis of the block that the product mentions, rising, the place of the part.
        centres: for every other axis that the product mentions, rising, the place of the centre.
    """

    block: int
    parts: tuple[int, ...]
    centres: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Mention:
    """Products of as many axes in the same order, with one choice of some of them.

    Attributes:
        product: their places, (count,).
        axes, kinds: their axes in the order of splitting and what is asked of each, (count, size).
        chosen: which of the `size` columns are in the set.
        subset: its place in the lattice, (count,).
        history: for every column, the place of the set of the chosen axes before it, (count, size).
    """

    product: Array
    axes: Array
    kinds: Array
    chosen: tuple[int, ...]
    subset: Array
    history: Array


def forms_of(products: Products) -> tuple[Form, ...]:
    """How every axis is measured."""
    flat = np.fromiter(chain.from_iterable(products.sets), dtype=np.int64)
    mentioned = np.bincount(flat, minlength=len(products.axes))
    found: list[Form] = []
    for axis, kinds in enumerate(products.kinds):
        if not kinds:
            found.append("summed")
        elif len(kinds) == 1 and mentioned[axis] == len(products.terms):
            found.append("identity" if kinds[0].is_identity else "whole")
        else:
            found.append("centred" if all(kind.is_identity for kind in kinds) else "residual")
    return tuple(found)


class BlockLayout:
    """The blocks of a union of products, and where each product finds what it asks.

    Args:
        order: all axes, in the order in which they are split.
        separated: sets of axes whose products get a block for each choice of kinds.

    Attributes:
        centres, parts: all of them.
    """

    def __init__(
        self,
        products: Products,
        forms: Sequence[Form],
        order: Sequence[int],
        separated: Collection[AxisSet] = (),
    ) -> None:
        self.products, self.forms, self.order = products, tuple(forms), tuple(order)
        self.separated = frozenset(separated)
        self._sets = [term.places for term in products.terms]
        self._kinds = [term.kinds for term in products.terms]
        if "identity" in forms or "whole" in forms:
            split = [form in ("centred", "residual") for form in forms]
            self._kinds = [
                tuple(k for a, k in zip(term.places, term.kinds, strict=True) if split[a])
                for term in products.terms
            ]
            self._sets = [tuple(a for a in places if split[a]) for places in self._sets]
        self._lattice = Lattice(self._sets, len(order))
        self._mentions = self._listed()
        self._block, self._more_blocks = self._numbered()
        self.centres: list[Centre] = []
        self.parts: list[ResidualPart] = []
        # For every mention and column the place of a part where the axis is in the block, else of a centre.
        self._where: list[Array] = []
        self._place_centred()
        for axis, form in enumerate(forms):
            if form == "residual":
                self._place(axis)

    @property
    def n_blocks(self) -> int:
        """How many there are."""
        return self._lattice.n_subsets + len(self._more_blocks)

    @cached_property
    def axes(self) -> tuple[AxisSet, ...]:
        """For every block, the axes of which it holds residual rows, rising."""
        return self._lattice.subsets + tuple(self._more_blocks)

    def _listed(self) -> list[_Mention]:
        rank = np.empty(len(self.order), dtype=np.int64)
        rank[list(self.order)] = np.arange(len(self.order))
        found = []
        for members, axes in self._lattice.groups:
            kinds = np.array([self._kinds[j] for j in members], dtype=np.int64).reshape(axes.shape)
            for sorting, rows in _same_order(rank[axes]):
                found += self._mentions_of(members[rows], axes[rows][:, sorting], kinds[rows][:, sorting])
        return found

    def _mentions_of(self, members: Array, axes: Array, kinds: Array) -> list[_Mention]:
        size = axes.shape[1]
        number = {
            chosen: self._lattice.number(np.sort(axes[:, list(chosen)], axis=1))
            for count in range(size + 1)
            for chosen in combinations(range(size), count)
        }
        found = []
        for chosen, subset in number.items():
            before = [number[tuple(p for p in chosen if p < place)] for place in range(size)]
            history = np.stack(before, axis=1) if size else np.zeros((len(members), 0), dtype=np.int64)
            found.append(_Mention(members, axes, kinds, chosen, subset, history))
        return found

    def _numbered(self) -> tuple[list[Array], list[AxisSet]]:
        """For every mention its blocks, and the sets of blocks beyond one for each set."""
        if not self.separated:
            return [mention.subset for mention in self._mentions], []
        subsets = self._lattice.subsets
        number = {subset: place for place, subset in enumerate(subsets)}
        apart = np.zeros(len(subsets), dtype=bool)
        apart[[number[subset] for subset in self.separated]] = True
        known: dict[tuple[int, tuple[int, ...]], int] = {}
        has_block: set[int] = set()
        more: list[AxisSet] = []
        found = []
        for mention in self._mentions:
            chosen = list(mention.chosen)
            block = mention.subset.copy()
            for row in np.flatnonzero(apart[block]):
                subset = int(block[row])
                rising = np.argsort(mention.axes[row, chosen])
                key = (subset, tuple(mention.kinds[row, chosen][rising].tolist()))
                if key not in known:
                    # The first choice of kinds keeps the place of the set.
                    known[key] = len(subsets) + len(more) if subset in has_block else subset
                    if subset in has_block:
                        more.append(subsets[subset])
                    has_block.add(subset)
                block[row] = known[key]
            found.append(block)
        return found, more

    def _place_centred(self) -> None:
        """Give a centre and a part to each axis of which only plain counts are asked, all at once."""
        number = np.zeros(len(self.order), dtype=np.int64)
        for axis, form in enumerate(self.forms):
            if form == "centred":
                number[axis] = len(self.centres)
                self.centres.append(Centre(axis, (0,)))
                self.parts.append(ResidualPart(axis, int(number[axis]), (0,)))
        self._where = [number[mention.axes] for mention in self._mentions]

    def _place(self, axis: int) -> None:
        """Find the centres and parts of one axis, and who uses them."""
        uses = []
        for number, mention in enumerate(self._mentions):
            rows, columns = np.nonzero(mention.axes == axis)
            for column in np.unique(columns):
                uses.append((number, int(column), rows[columns == column]))
        centre_keys = self._kinds_asked(axis)
        if len(np.unique(centre_keys)) > _MAX_CENTRES:
            centre_keys[:] = 0
        block_keys = np.zeros(self.n_blocks, dtype=np.int64)
        for number, column, rows in uses:
            if column in self._mentions[number].chosen:
                bits = _bit(self._mentions[number].kinds[rows, column])
                np.bitwise_or.at(block_keys, self._block[number][rows], bits)
        keys = []
        for number, column, rows in uses:
            centre = centre_keys[self._mentions[number].history[rows, column]]
            inside = column in self._mentions[number].chosen
            keys.append((centre, block_keys[self._block[number][rows]] if inside else None))
        self._number_centres(axis, uses, keys)

    def _number_centres(
        self,
        axis: int,
        uses: list[tuple[int, int, Array]],
        keys: list[tuple[Array, Array | None]],
    ) -> None:
        kinds = [self._mentions[number].kinds[rows, column] for number, column, rows in uses]
        known = np.unique(np.concatenate([centre for centre, _ in keys]))
        first = len(self.centres)
        of_use = [np.searchsorted(known, centre) for centre, _ in keys]
        for place in range(len(known)):
            asked = [k[at == place] for k, at in zip(kinds, of_use, strict=True)]
            self.centres.append(Centre(axis, tuple(np.unique(np.concatenate(asked)).tolist())))
        pairs = [
            np.stack([at, part], axis=1)
            for at, (_, part) in zip(of_use, keys, strict=True)
            if part is not None
        ]
        combined = np.unique(np.concatenate(pairs), axis=0)
        if len(combined) > _MAX_PARTS:
            combined = np.stack([np.arange(len(known)), np.zeros(len(known), dtype=np.int64)], axis=1)
            keys = [(centre, None if part is None else 0 * part) for centre, part in keys]
        first_part = len(self.parts)
        members: list[list[Array]] = [[] for _ in combined]
        for (number, column, rows), at, (_, part), k in zip(uses, of_use, keys, kinds, strict=True):
            if part is None:
                self._where[number][rows, column] = first + at
                continue
            which = np.zeros(len(rows), dtype=np.int64)
            for place, (c, p) in enumerate(combined):
                mine = (at == c) & (part == p)
                which[mine] = place
                members[place].append(k[mine])
            self._where[number][rows, column] = first_part + which
        for (c, _), asked in zip(combined, members, strict=True):
            of_part = tuple(np.unique(np.concatenate(asked)).tolist()) if asked else ()
            self.parts.append(ResidualPart(axis, first + int(c), of_part))

    def _kinds_asked(self, axis: int) -> Array:
        """For every set s, as bits, what the products that mention all of s ask of the axis, (n_subsets,).

        The lowest bit says that some of them do not mention it.
        """
        found = np.zeros(self._lattice.n_subsets, dtype=np.int64)
        for mention in self._mentions:
            at = mention.axes == axis
            np.bitwise_or.at(found, mention.subset[~at.any(axis=1)], 1)
            rows, columns = np.nonzero(at)
            np.bitwise_or.at(found, mention.subset[rows], _bit(mention.kinds[rows, columns]))
        return found

    def entries(self, first_of_centre: Array, first_of_part: Array) -> list[Entries]:
        """Every product with every block, and the places of its numbers: that of kind 0, and the kind."""
        return [
            Entries(mention.product, mention.axes, first + mention.kinds, block)
            for mention, block, first in self._with_first(first_of_centre, first_of_part)
        ]

    def row_entries(
        self, terms: Array, index: Array, first_of_centre: Array, first_of_part: Array, first_row: Array
    ) -> list[Entries]:
        """The same for some rows of the products.

        Args:
            terms: the product of every row, rising, (N,).
            index: its rows of the kinds of each axis that is split, axes rising, (N, largest size).
            first_row: for every axis and kind, the place of the kind's first row, (n_axes, largest number).
        """
        starts = np.searchsorted(terms, np.arange(len(self._sets) + 1))
        counts = np.diff(starts)
        found = []
        for mention, block, first in self._with_first(first_of_centre, first_of_part):
            times = counts[mention.product]
            repeated = np.repeat(np.arange(len(times)), times)
            # The rows of one product follow one another.
            offset = np.arange(len(repeated)) - np.repeat(np.cumsum(times) - times, times)
            rows = starts[mention.product][repeated] + offset
            size = mention.axes.shape[1]
            rising = (
                np.argsort(np.argsort(mention.axes[0])) if size and len(mention.axes) else np.arange(size)
            )
            of_kind = first + first_row[mention.axes, mention.kinds]
            places = of_kind[repeated] + index[rows][:, rising]
            found.append(Entries(rows, mention.axes[repeated], places, block[repeated]))
        return found

    def _with_first(
        self, first_of_centre: Array, first_of_part: Array
    ) -> Iterator[tuple[_Mention, Array, Array]]:
        """Mentions with their blocks, and the first place of the numbers of every axis, (count, size)."""
        for mention, block, where in zip(self._mentions, self._block, self._where, strict=True):
            inside = np.zeros(mention.axes.shape[1], dtype=bool)
            inside[list(mention.chosen)] = True
            first = np.empty(where.shape, dtype=np.int64)
            first[:, inside] = first_of_part[where[:, inside]]
            first[:, ~inside] = first_of_centre[where[:, ~inside]]
            yield mention, block, first

    def pieces(self, term: int) -> list[BlockPiece]:
        """What one product gets from which block."""
        found = []
        for number, row in self._rows_of[term]:
            mention, where = self._mentions[number], self._where[number]
            rising = np.argsort(mention.axes[row]).tolist()
            parts = tuple(int(where[row, p]) for p in rising if p in mention.chosen)
            centres = tuple(int(where[row, p]) for p in rising if p not in mention.chosen)
            found.append(BlockPiece(int(self._block[number][row]), parts, centres))
        return found

    @cached_property
    def n_pieces(self) -> Array:
        """From how many blocks each product gets something, (products,)."""
        listed = np.concatenate([mention.product for mention in self._mentions])
        return np.bincount(listed, minlength=len(self._sets))

    @cached_property
    def _rows_of(self) -> list[list[tuple[int, int]]]:
        """For every product, where it is listed."""
        found: list[list[tuple[int, int]]] = [[] for _ in self._sets]
        for number, mention in enumerate(self._mentions):
            for row, product in enumerate(map(int, mention.product)):
                found[product].append((number, row))
        return found

    def parts_of_blocks(self) -> list[tuple[int, ...]]:
        """For every block, the parts of its axes, axes rising."""
        found: list[tuple[int, ...]] = [()] * self.n_blocks
        for mention, block, where in zip(self._mentions, self._block, self._where, strict=True):
            chosen = np.array(mention.chosen, dtype=np.int64)
            rising = np.argsort(mention.axes[:, chosen], axis=1)
            parts = np.take_along_axis(where[:, chosen], rising, axis=1)
            for number, own in zip(block.tolist(), parts.tolist(), strict=True):
                found[number] = tuple(own)
        return found

    def centres_of_histories(self, axis: int) -> dict[AxisSet, int]:
        """For every set of axes before one that some product mentions with it, the place of its centre."""
        subsets = self._lattice.subsets
        found: dict[AxisSet, int] = {}
        for mention, where in zip(self._mentions, self._where, strict=True):
            for column in range(mention.axes.shape[1]):
                rows = np.flatnonzero(mention.axes[:, column] == axis)
                for row in rows.tolist():
                    place = int(where[row, column])
                    centre = self.parts[place].centre if column in mention.chosen else place
                    found[subsets[int(mention.history[row, column])]] = centre
        return found

    def mixed_blocks(self) -> dict[int, list[tuple[int, tuple[int, ...], BlockPiece]]]:
        """Blocks from which products take different kinds: for each, its products, their kinds and pieces."""
        asked: dict[int, set[tuple[int, ...]]] = {}
        rows: dict[int, list[tuple[int, int]]] = {}
        several = np.array([len(kinds) > 1 for kinds in self.products.kinds])
        for number, mention in enumerate(self._mentions):
            if not mention.chosen:
                continue
            chosen = list(mention.chosen)
            for row in np.flatnonzero(several[mention.axes[:, chosen]].any(axis=1)):
                block = int(self._block[number][row])
                rising = np.argsort(mention.axes[row, chosen])
                kinds = tuple(mention.kinds[row, chosen][rising].tolist())
                asked.setdefault(block, set()).add(kinds)
                rows.setdefault(block, []).append((number, int(row)))
        found = {}
        for block, kinds_of_block in asked.items():
            if len(kinds_of_block) > 1:
                found[block] = [self._described(number, row) for number, row in rows[block]]
        return found

    def _described(self, number: int, row: int) -> tuple[int, tuple[int, ...], BlockPiece]:
        mention, where = self._mentions[number], self._where[number]
        rising = np.argsort(mention.axes[row]).tolist()
        inside = [p for p in rising if p in mention.chosen]
        outside = [p for p in rising if p not in mention.chosen]
        piece = BlockPiece(
            int(self._block[number][row]),
            tuple(int(where[row, p]) for p in inside),
            tuple(int(where[row, p]) for p in outside),
        )
        return int(mention.product[row]), tuple(mention.kinds[row, inside + outside].tolist()), piece


def _bit(kinds: Array) -> Array:
    return np.left_shift(np.int64(1), np.minimum(kinds + 1, _MAX_BITS))


def _same_order(ranks: Array) -> list[tuple[list[int], Array]]:
    """The ways in which rows of numbers are sorted, and which rows are sorted so."""
    if ranks.shape[1] < 2:
        return [(list(range(ranks.shape[1])), np.arange(len(ranks)))]
    sortings = np.argsort(ranks, axis=1)
    if (sortings == np.arange(ranks.shape[1])).all():
        return [(list(range(ranks.shape[1])), np.arange(len(ranks)))]
    ways, way = np.unique(sortings, axis=0, return_inverse=True)
    return [(ways[i].tolist(), np.flatnonzero(way.reshape(-1) == i)) for i in range(len(ways))]
