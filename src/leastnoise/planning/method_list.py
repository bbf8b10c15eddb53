"""The list of methods, and the order in which method="auto" tries them.

A new family is one file and one line here. Methods that depend on the data are taken only when named.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TypeVar

from leastnoise.core.errors import InputError, MethodError
from leastnoise.core.resources import operations_per_second
from leastnoise.planning.families.attribute_sets import DATACUBE, FOURIER
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.eigen import EIGEN, PRINCIPAL, SEPARATION
from leastnoise.planning.families.fixed_rows import HIERARCHICAL, IDENTITY, OWN, QUERIES, WAVELET, WORKLOAD
from leastnoise.planning.families.joint import JOINT
from leastnoise.planning.families.marginals import MARGINALS
from leastnoise.planning.families.merged import n_directions
from leastnoise.planning.families.plain import PLAIN
from leastnoise.planning.families.product import PRODUCT
from leastnoise.planning.families.residuals import RESIDUALS, has_shared_axis
from leastnoise.planning.families.weighted_basis import WEIGHTED_BASIS
from leastnoise.planning.groups import GROUPS
from leastnoise.planning.method import Method, Request
from leastnoise.planning.p_identity.family import P_IDENTITY
from leastnoise.query import Query, add_query_kind

# Cells. Up to this number a matrix is quickly found, and easier to look at than blocks of products.
SMALL = 512

# Operations. Without a time limit the certified optimum over all noise may take as many, a minute on two
# cores: for the total variance over 2,900 cells, the largest variance over 2,300.
FREE_OPERATIONS = 5e12

# The share of a time limit within which the certified optimum should be found to be tried first.
_SHARE_TO_BE_FIRST = 0.5

METHODS: tuple[Method, ...] = (
    DENSE,
    PRODUCT,
    MARGINALS,
    RESIDUALS,
    JOINT,
    PLAIN,
    GROUPS,
    P_IDENTITY,
    IDENTITY,
    WORKLOAD,
    QUERIES,
    HIERARCHICAL,
    WAVELET,
    FOURIER,
    DATACUBE,
    EIGEN,
    SEPARATION,
    PRINCIPAL,
    WEIGHTED_BASIS,
)

# Those that method="auto" may take.
_TRIED = tuple(method for method in METHODS if not method.is_only_named)

# Those that search for the optimum under Gaussian noise. The others measure fixed rows, or weigh those of a
# fixed basis, and have never been better.
SEARCHES: dict[str, Method] = {
    method.name: method for method in (DENSE, PRODUCT, MARGINALS, RESIDUALS, JOINT)
}

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
    ("buckets", "leastnoise.papers.buckets", "BUCKETS"),
)


# Methods from outside the package, by name.
_ADDED: dict[str, Method] = {}


_Addition = TypeVar("_Addition", bound=type[Query] | Method)


def register(addition: _Addition) -> _Addition:
    """The same class of queries or the same method, which is known by its name from now on.

    Plans, releases and specification files may then hold queries of the kind; `design`, `compare` and
    `methods` know the method, and "auto" tries it where none that searches for the optimum serves. Whoever
    loads such a plan registers the kind first. As a decorator it takes one line.

    Args:
        addition: a subclass of `leastnoise.query.Query` with a kind of its own, or a
            `leastnoise.planning.Method`.

    Guarantee:
        Neither can break privacy: what a method proposes is measured in whole numbers whose sensitivity is
        taken exactly, and every plan is compared with what its labels say before it is returned.

    Raises:
        InputError: if it is neither, or another kind of queries has its name.
        MethodError: if another method has its name.
    """
    if isinstance(addition, Method):
        own = [known.name for known in (*METHODS, OWN)] + [name for name, _, _ in PAPERS]
        if not addition.name or addition.name in own:
            raise MethodError.must(
                "name", "differ from those of the methods that there are", given=addition.name
            )
        _ADDED[addition.name] = addition
    elif isinstance(addition, type) and issubclass(addition, Query):
        add_query_kind(addition)
    else:
        raise InputError.must(
            "addition", "be a class of queries or a Method, such as register(Suffix)", given=type(addition)
        )
    return addition


def all_methods() -> tuple[Method, ...]:
    """Every method: ours, those that were added, the papers' own."""
    return (*METHODS, *_ADDED.values(), *_paper_methods())


def _paper_methods() -> Iterator[Method]:
    return (_loaded(module, attribute) for _, module, attribute in PAPERS)


def _loaded(module: str, attribute: str) -> Method:
    method: Method = getattr(import_module(module), attribute)
    return method


def in_order(request: Request) -> Iterator[Method]:
    """Every method, those that method="auto" should try first before the others.

    Products and cross tables have their exact optimum attribute by attribute, which is much quicker than the
    dense one from a few hundred cells on; so have unions with a shared axis. Other unions of products are
    within a percent or so of the optimum, and come before the dense one where that takes long. The papers'
    own methods are loaded when it is their turn.
    """
    n, goal = request.workload.shape[1], request.privacy
    if goal.noise.is_pure:
        # Up to SMALL products come last, so that of equally good plans the one with a matrix is taken.
        products = (PRODUCT, MARGINALS, RESIDUALS)
        first, last = ((), products) if n <= SMALL else (products, ())
        yield from first
        yield from (method for method in _TRIED if method not in first + last)
        yield from _added()
        yield from _paper_methods()
        yield from last
        return
    if n <= SMALL or (goal.relation.replaces and is_dense_soon(request)):
        # Where records are replaced, only the dense optimum is one.
        yield from SEARCHES.values()
    else:
        # Where records are replaced, cross tables have their exact optimum, and single products have not.
        yield from (MARGINALS, PRODUCT) if goal.relation.replaces else (PRODUCT, MARGINALS)
        is_dense_first = is_dense_soon(request) and not has_shared_axis(request)
        yield from (DENSE, RESIDUALS, JOINT) if is_dense_first else (RESIDUALS, JOINT, DENSE)
    # Noise on every cell or query comes after wavelets and trees; plain noise is there before anything else.
    others = [method for method in _TRIED if method.name not in SEARCHES and method is not PLAIN]
    yield from sorted(others, key=lambda method: method in (IDENTITY, WORKLOAD))
    yield from _added()
    yield from _paper_methods()


def _added() -> Iterator[Method]:
    return (method for method in _ADDED.values() if not method.is_only_named)


def is_dense_soon(request: Request) -> bool:
    """Whether the certified optimum over all noise is found in a small part of the time there is."""
    if request.unfit(DENSE) is not None:
        return False
    limit, operations = request.time_limit, request.needs(DENSE).operations
    most = FREE_OPERATIONS if limit is None else _SHARE_TO_BE_FIRST * limit * operations_per_second()
    if operations <= most:
        return True
    # It works on the cells that queries tell apart, which may be few of all.
    m, n = request.workload.shape
    k, d = n_directions(request)
    return operations * (k * k * d) / (min(m, n) ** 2 * n) <= most


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        MethodError: for an unknown name, listing those there are.
    """
    for method in (*METHODS, OWN, *_ADDED.values()):
        if method.name == name:
            return method
    for own, module, attribute in PAPERS:
        if own == name:
            return _loaded(module, attribute)
    known = [method.name for method in (*METHODS, *_ADDED.values())] + [own for own, _, _ in PAPERS]
    raise MethodError(
        f"there is no method {name!r}; there are {', '.join(known)}", field="method", given=name
    )
