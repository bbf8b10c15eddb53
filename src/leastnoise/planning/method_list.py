"""The list of methods. A new family is one file and one line here.

`design` with method="auto" takes the first that accepts the workload and the
privacy goal, except under pure privacy, where no method is optimal and the best of
several is taken and refined, see `laplace_search`. Those that depend on the data are taken only
when named.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from leastnoise.core.errors import MethodError
from leastnoise.planning.families.attribute_sets import DATACUBE, FOURIER
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.eigen import EIGEN, PRINCIPAL, SEPARATION
from leastnoise.planning.families.fixed_rows import HIERARCHICAL, IDENTITY, WAVELET, WORKLOAD
from leastnoise.planning.families.marginals import MARGINALS
from leastnoise.planning.families.product import PRODUCT
from leastnoise.planning.families.residuals import RESIDUALS
from leastnoise.planning.families.weighted_basis import WEIGHTED_BASIS
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method import Found, Method, Request
from leastnoise.planning.p_identity.family import P_IDENTITY

# Up to so many cells a matrix is quickly found, and easier to look at than blocks of products.
SMALL = 512

# Up to so many queries or cells, the certified optimum over all noise is worth the minute that it takes.
DENSE_BY_DEFAULT = 2_048

METHODS: tuple[Method, ...] = (
    DENSE,
    PRODUCT,
    MARGINALS,
    RESIDUALS,
    P_IDENTITY,
    IDENTITY,
    WORKLOAD,
    HIERARCHICAL,
    WAVELET,
    FOURIER,
    DATACUBE,
    EIGEN,
    SEPARATION,
    PRINCIPAL,
    WEIGHTED_BASIS,
)

# The papers' own algorithms, by module and name: loaded when somebody asks for them.
PAPERS: tuple[tuple[str, str], ...] = (
    ("leastnoise.papers.lowrank", "LOWRANK"),
    ("leastnoise.papers.smoothing", "SMOOTHING"),
    ("leastnoise.papers.coa", "COA"),
    ("leastnoise.papers.coa", "COA_HOMOTOPY"),
    ("leastnoise.papers.sdp", "SDP"),
    ("leastnoise.papers.smii", "SMII"),
    ("leastnoise.papers.dawa", "DAWA"),
    ("leastnoise.papers.mwem", "MWEM"),
)

__all__ = [
    "METHODS",
    "PAPERS",
    "Found",
    "Mechanism",
    "Method",
    "Request",
    "all_methods",
    "in_order",
    "method_named",
]


def all_methods() -> tuple[Method, ...]:
    """Every method, the papers' own after ours."""
    return METHODS + tuple(getattr(import_module(module), name) for module, name in PAPERS)


def in_order(methods: Sequence[Method], request: Request) -> list[Method]:
    """The methods, those that method="auto" should try first before the others.

    Products and cross tables have their exact optimum attribute by attribute, which is much quicker than the
    dense one from a few hundred cells on. Other unions of products are within a percent or so of the
    optimum, and are taken where the dense one would take long, or could not be held.
    """
    m, n = request.workload.shape
    if n <= SMALL:
        # Last, so that of equally good plans the one with a matrix is taken.
        return sorted(methods, key=lambda method: method in (PRODUCT, MARGINALS, RESIDUALS))
    if request.privacy.relation.replaces and n <= DENSE_BY_DEFAULT:
        # Where records are replaced, only the dense optimum is one.
        first = [DENSE]
    elif min(m, n) <= DENSE_BY_DEFAULT:
        # The dense optimum works in what the queries span: few of them are quick over many cells.
        first = [PRODUCT, MARGINALS, DENSE, RESIDUALS]
    else:
        first = [PRODUCT, MARGINALS, RESIDUALS]
    rank = {id(method): place for place, method in enumerate(first)}
    return sorted(methods, key=lambda method: rank.get(id(method), len(first)))


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        MethodError: for an unknown name, listing those there are.
    """
    methods = all_methods()
    for method in methods:
        if method.name == name:
            return method
    raise MethodError(f"there is no method {name!r}; there are {', '.join(m.name for m in methods)}")
