"""The list of methods. A new family is one file and one line here.

`design` with method="auto" takes the first that accepts the workload and the
privacy goal, except under pure privacy, where no method is optimal and the best
of all that accept is taken.
"""

from __future__ import annotations

from leastnoise.errors import MethodError
from leastnoise.strategies.dense import DENSE
from leastnoise.strategies.hierarchical import HIERARCHICAL
from leastnoise.strategies.identity import IDENTITY
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategies.wavelet import WAVELET
from leastnoise.strategies.workload import WORKLOAD

METHODS: tuple[Method, ...] = (
    DENSE,
    IDENTITY,
    WORKLOAD,
    HIERARCHICAL,
    WAVELET,
)

__all__ = ["METHODS", "Found", "Method", "Request", "method_named"]


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        MethodError: for an unknown name, listing those there are.
    """
    for method in METHODS:
        if method.name == name:
            return method
    raise MethodError(f"there is no method {name!r}; there are {', '.join(m.name for m in METHODS)}")
