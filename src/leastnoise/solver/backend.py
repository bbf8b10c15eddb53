"""The few matrix operations the solver needs, so that it is written once.

Matrices live where the backend puts them; vectors of one number per cell come
and go as NumPy arrays. Everything is float64: a certificate to 1e-9 has no room
for less.
"""

from __future__ import annotations

from typing import Any, Protocol

from leastnoise.errors import InputError, MissingExtraError
from leastnoise.operators import Array

BACKENDS = ("numpy", "torch", "cuda")


class Backend(Protocol):
    """What a device must be able to do. A `Matrix` is whatever array type it uses."""

    def matrix(self, values: Array) -> Any:
        """A NumPy array on the device."""

    def numpy(self, values: Any) -> Array:
        """A device array as NumPy."""

    def eigh(self, symmetric: Any) -> tuple[Any, Any]:
        """Eigenvalues, rising, and eigenvectors as columns; the argument may be overwritten."""

    def left_singular(self, matrix: Any) -> tuple[Any, Any]:
        """Singular values, rising, and left singular vectors as columns."""


def load_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        InputError: for an unknown name.
        MissingExtraError: if PyTorch is needed and not installed, or sees no CUDA device.
    """
    if name == "numpy":
        from leastnoise.solver.backend_numpy import NumpyBackend

        return NumpyBackend()
    if name not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")
    try:
        from leastnoise.solver.backend_torch import TorchBackend
    except ImportError:
        raise MissingExtraError(f"backend={name!r} needs PyTorch: pip install 'leastnoise[torch]'") from None
    return TorchBackend("cuda" if name == "cuda" else "cpu")
