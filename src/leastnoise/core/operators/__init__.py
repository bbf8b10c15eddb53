"""Matrices known by what they do.

A workload over a thousand ages has half a million ranges; nobody needs them as
a dense matrix. An operator answers a few questions about its matrix, and every
one has the same contract:

    shape           (m, n)
    apply(x)        W x, for x of shape (n,) or (n, c)
    adjoint(y)      Wᵀ y, for y of shape (m,) or (m, c)
    gram()          Wᵀ W as a dense (n, n) array
    dense()         W itself; refused above MAX_ENTRIES

From these five follow `rows`, `column_norms`, `quadratic` and `basis`, which a
class overrides where it knows a shorter way. `tests/laws.py` states what all of
them must obey; a new class joins by one line in its list.

    base.py       the contract, what follows from it, and array axes in another order, by their names
    cells.py      cells one by one, all together, in groups, and in intervals
    entries.py    a matrix given entry by entry, dense or sparse
    combined.py   products, stacks and weighted rows
    rearranged.py chosen rows, rows over more cells, other orders of attributes
    deferred.py   an operator that is built on first use
"""

from leastnoise.core.operators.base import (
    MAX_ENTRIES,
    MAX_MULTIPLIED,
    Array,
    Operator,
    arranged,
    column_chunks,
    require_room,
    squared_rows,
)
from leastnoise.core.operators.cells import AllOnes, CumulativeSum, EveryRange, Groups, Identity, SomeRanges
from leastnoise.core.operators.combined import (
    EveryLevel,
    Kronecker,
    RowScaled,
    Stack,
    is_whole_space,
    kronecker,
)
from leastnoise.core.operators.deferred import Deferred
from leastnoise.core.operators.entries import EXACT_FLOAT, Matrix, SparseMatrix, from_entries
from leastnoise.core.operators.rearranged import Padded, Reordered, Selected

__all__ = [
    "EXACT_FLOAT",
    "MAX_ENTRIES",
    "MAX_MULTIPLIED",
    "AllOnes",
    "Array",
    "CumulativeSum",
    "Deferred",
    "EveryLevel",
    "EveryRange",
    "Groups",
    "Identity",
    "Kronecker",
    "Matrix",
    "Operator",
    "Padded",
    "Reordered",
    "RowScaled",
    "Selected",
    "SomeRanges",
    "SparseMatrix",
    "Stack",
    "arranged",
    "column_chunks",
    "from_entries",
    "is_whole_space",
    "kronecker",
    "require_room",
    "squared_rows",
]
