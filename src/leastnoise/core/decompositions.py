"""Eigendecompositions before and after a search, on the device that searches.

Nothing rests on their accuracy: what factors a workload is judged by the proof, and the proof takes any
matrix for the eigenvectors (`bounds.nuclear_norm`). At 8,192 cells a GPU decomposes in a second what one
core takes minutes for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from leastnoise.core.operators import Array

# Eigenvalues, rising, and eigenvectors as columns; the argument is left as it is.
Decompose = Callable[[Array], tuple[Array, Array]]

# Below this many rows the way to a device takes longer than the decomposition.
_SMALL = 512

_by: ContextVar[Decompose | None] = ContextVar("decompose", default=None)


@contextmanager
def decomposed_by(decompose: Decompose | None) -> Iterator[None]:
    """Within, `eigh` hands its larger matrices to this function; None for SciPy."""
    before = _by.set(decompose)
    try:
        yield
    finally:
        _by.reset(before)


def eigh(symmetric: Array, *, overwrites: bool = False) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors as columns.

    Args:
        overwrites: whether the argument may be overwritten.
    """
    from scipy import linalg

    decompose = _by.get()
    if decompose is not None and len(symmetric) >= _SMALL:
        try:
            return decompose(symmetric)
        except RuntimeError as error:  # a device that is out of memory must not cost a search that is done
            reason = str(error).partition("\n")[0]
            told = f"the device could not decompose {len(symmetric):,} rows, and SciPy does: {reason}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
    # Symmetric, so its transpose is the same matrix in the order that LAPACK overwrites.
    values, vectors = linalg.eigh(symmetric.T, overwrite_a=overwrites, driver="evd")
    return values, vectors
