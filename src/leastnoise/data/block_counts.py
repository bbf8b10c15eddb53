"""How many records each cell of some blocks holds, from columns of cell numbers, by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Cells of all blocks of a scan, at most, that are counted so. Every batch of records walks over all of them,
# and beyond eight cells for each of its records an engine's hash tables are quicker.
MAX_COUNTED_CELLS = 2**20


def cell_counter() -> Callable[[Sequence[npt.NDArray[Any]], Sequence[int], int], npt.NDArray[np.int64]]:
    """A function that counts the records in every cell of one block, whole numbers only.

    Its arguments are the cells of the records, one column for each attribute of the block, the last one
    fastest, how many cells each column has, and how many records there are.

    Guarantee:
        That of `block_counter`.
    """

    def count(
        columns: Sequence[npt.NDArray[Any]], sizes: Sequence[int], n_records: int
    ) -> npt.NDArray[np.int64]:
        n_cells = 1
        for size in sizes:
            n_cells *= size
        # Narrow numbers are quicker, and every partial sum is below the number of cells.
        kind: Any = np.uint16 if n_cells < 2**16 else np.int64
        code: npt.NDArray[np.int64] = np.zeros(n_records, dtype=kind)
        for place, (column, size) in enumerate(zip(columns, sizes, strict=True)):
            if place:
                code *= size
            np.add(code, column, out=code, casting="unsafe")
        return np.bincount(code, minlength=n_cells)

    return count


def block_counter(
    blocks: Sequence[Sequence[int]], sizes: Sequence[int]
) -> Callable[[Sequence[npt.NDArray[Any]], npt.NDArray[Any]], npt.NDArray[np.int64]]:
    """A function that counts the cells of all blocks in some records, whole numbers only.

    Its arguments are the cells of the records, one column for each attribute, and whether each record has
    no cell in some attribute (then its cells mean nothing). It gives the counts of the first block, then
    how many records have no cell, then the same of the next block, and so on.

    Args:
        blocks: the places of each block's columns, the last one fastest.
        sizes: how many cells each column has.

    Guarantee:
        Nothing of this package is called by it: a process without the package can run it, with NumPy alone.
    """
    own_blocks, own_sizes = [tuple(block) for block in blocks], list(sizes)
    count_cells = cell_counter()

    def count(columns: Sequence[npt.NDArray[Any]], is_rest: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        is_kept = is_rest == 0
        n_rest = len(is_kept) - int(np.count_nonzero(is_kept))
        # Also where every record has cells: what runs does not depend on whether one has none.
        columns = [column[is_kept] for column in columns]
        counted: list[Any] = [[]]
        for block in own_blocks:
            own = [own_sizes[k] for k in block]
            counted += [count_cells([columns[k] for k in block], own, len(is_kept) - n_rest), [n_rest]]
        return np.concatenate([np.asarray(part, dtype=np.int64) for part in counted])

    return count
