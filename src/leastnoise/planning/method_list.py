"""The list of methods. A new family is one file and one line here.

`design` with method="auto" takes the first that accepts the workload and the
privacy goal, except under pure privacy, where no method is optimal and the best of
several is taken and refined, see `laplace_search`. Those that depend on the data are taken only
when named.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from leastnoise.core.errors import MethodError
from leastnoise.planning.families.attribute_sets import DATACUBE, FOURIER
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.eigen import EIGEN, PRINCIPAL, SEPARATION
from leastnoise.planning.families.fixed_rows import HIERARCHICAL, IDENTITY, WAVELET, WORKLOAD
from leastnoise.planning.families.marginals import MARGINALS
from leastnoise.planning.families.merged import n_directions
from leastnoise.planning.families.product import PRODUCT
from leastnoise.planning.families.residuals import RESIDUALS
from leastnoise.planning.families.weighted_basis import WEIGHTED_BASIS
from leastnoise.planning.method import Method, Request
from leastnoise.planning.p_identity.family import P_IDENTITY

# Cells. Up to this number a matrix is quickly found, and easier to look at than blocks of products.
SMALL = 512

# Queries or cells, whichever are fewer. Up to this number the certified optimum over all noise is worth the
# minute that it takes.
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

# The papers' own algorithms: the name of each method, its module, and what it is called there. A module is
# loaded when somebody asks for its method, or when none of ours can serve.
PAPERS: tuple[tuple[str, str, str], ...] = (
    ("lowrank", "leastnoise.papers.lowrank", "LOWRANK"),
    ("smoothing", "leastnoise.papers.smoothing", "SMOOTHING"),
    ("coa", "leastnoise.papers.coa", "COA"),
    ("coa-homotopy", "leastnoise.papers.coa", "COA_HOMOTOPY"),
    ("sdp", "leastnoise.papers.sdp", "SDP"),
    ("smii", "leastnoise.papers.smii", "SMII"),
    ("dawa", "leastnoise.papers.dawa", "DAWA"),
    ("mwem", "leastnoise.papers.mwem", "MWEM"),
)


def all_methods() -> tuple[Method, ...]:
    """Every method, the papers' own after ours."""
    return (*METHODS, *_paper_methods())


def _paper_methods() -> Iterator[Method]:
    return (_loaded(module, attribute) for _, module, attribute in PAPERS)


def _loaded(module: str, attribute: str) -> Method:
    method: Method = getattr(import_module(module), attribute)
    return method


def in_order(request: Request) -> Iterator[Method]:
    """Every method, those that method="auto" should try first before the others.

    Products and cross tables have their exact optimum attribute by attribute, which is much quicker than the
    dense one from a few hundred cells on. Other unions of products are within a percent or so of the
    optimum, and are taken where the dense one would take long, or could not be held. The papers' own methods
    are loaded when it is their turn.
    """
    m, n = request.workload.shape
    if n <= SMALL:
        # Last, so that of equally good plans the one with a matrix is taken.
        last = (PRODUCT, MARGINALS, RESIDUALS)
        yield from (method for method in METHODS if method not in last)
        yield from _paper_methods()
        yield from last
        return
    if request.privacy.relation.replaces and n_directions(request)[1] <= DENSE_BY_DEFAULT:
        # Where records are replaced, only the dense optimum is one.
        first: tuple[Method, ...] = (DENSE,)
        yield from first
    else:
        yield from (PRODUCT, MARGINALS)
        # The dense optimum works in what the queries span: few of them are quick over many cells, and so are
        # many that tell few cells apart.
        is_narrow = min(m, n) <= DENSE_BY_DEFAULT or n_directions(request)[1] <= DENSE_BY_DEFAULT
        yield from (DENSE, RESIDUALS) if is_narrow else (RESIDUALS,)
        first = (PRODUCT, MARGINALS, DENSE, RESIDUALS) if is_narrow else (PRODUCT, MARGINALS, RESIDUALS)
    yield from (method for method in METHODS if method not in first)
    yield from _paper_methods()


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        MethodError: for an unknown name, listing those there are.
    """
    for method in METHODS:
        if method.name == name:
            return method
    for own, module, attribute in PAPERS:
        if own == name:
            return _loaded(module, attribute)
    known = [method.name for method in METHODS] + [own for own, _, _ in PAPERS]
    raise MethodError(f"there is no method {name!r}; there are {', '.join(known)}")
