"""A kind of query or a method from outside the package, known by its name from then on."""

from __future__ import annotations

from typing import TypeVar

from leastnoise.core.errors import InputError
from leastnoise.planning.method import Method
from leastnoise.planning.method_list import add_method
from leastnoise.query import Query, add_query_kind

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
        InputError: if it is neither, or another has the name.
    """
    if isinstance(addition, Method):
        add_method(addition)
    elif isinstance(addition, type) and issubclass(addition, Query):
        add_query_kind(addition)
    else:
        raise InputError.must(
            "addition", "be a class of queries or a Method, such as register(Suffix)", given=type(addition)
        )
    return addition
