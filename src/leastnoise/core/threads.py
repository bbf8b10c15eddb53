"""How many threads linear algebra may use.

On matrices of a few hundred rows a second BLAS thread gains little, and where
another process keeps a core busy it costs dearly, because threads wait for each
other at every step: designing prefix sums of 256 cells beside one busy core took
5 s with two threads and 0.25 s with one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# From this size on, a second thread earns its keep.
SMALL = 512


@contextmanager
def for_matrices_of(size: int) -> Iterator[None]:
    """One BLAS thread while matrices have fewer than SMALL rows; the user's own setting otherwise."""
    if size >= SMALL:
        yield
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
