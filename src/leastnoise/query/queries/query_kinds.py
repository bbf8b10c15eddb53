"""The kinds of query that plan and specification files know, and queries read from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from leastnoise.core.errors import QueryError
from leastnoise.query.queries.conditions import Cases, Where
from leastnoise.query.queries.cross_tables import Cube, Marginal, Total
from leastnoise.query.queries.key_shapes import QUERY
from leastnoise.query.queries.linear import Linear
from leastnoise.query.queries.moments import Mean, StandardDeviation
from leastnoise.query.queries.one_attribute import AllRanges, Levels, Prefix, Ranges, Sum
from leastnoise.query.queries.over_time import Changes, Windows
from leastnoise.query.queries.query import COMMON, Product, Query
from leastnoise.query.queries.ratios import Ratio, Share

QUERY_KINDS: dict[str, type[Query]] = {
    cls.kind: cls
    for cls in (
        Total,
        Marginal,
        Cube,
        Prefix,
        AllRanges,
        Ranges,
        Windows,
        Changes,
        Levels,
        Sum,
        Where,
        Cases,
        Product,
        Linear,
        Mean,
        StandardDeviation,
        Share,
        Ratio,
    )
}


def add_query_kind(kind: type[Query]) -> None:
    """Let plan and specification files hold queries of a class from outside the package.

    Raises:
        QueryError: if it has no kind of its own.
    """
    name = getattr(kind, "kind", None)
    if not isinstance(name, str) or not name:
        raise QueryError.must("kind", 'be a text, as in kind: ClassVar[str] = "suffix"', given=name)
    known = QUERY_KINDS.get(name)
    # The same class again, as a notebook defines it when a cell is run twice, takes the place of the first.
    if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise QueryError.must("kind", "differ from those that there are", given=name)
    QUERY_KINDS[name] = kind


# Queries within queries: far more than attributes are ever crossed, far fewer than fill Python's stack.
MAX_NESTED = 200


def query_from_dict(plain: dict[str, Any]) -> Query:
    """The query that `to_dict` wrote, or one [[query]] table of a specification file."""
    return _read(plain, 0)


def _take_either_number(given: dict[str, Any], own: Collection[str]) -> None:
    """Let one attribute be written "attribute" or, as a list of one, "attributes", whichever a kind has."""
    if "attribute" in given and "attributes" in given:
        both = ["attribute", "attributes"]
        raise QueryError.must("query", "hold attribute or attributes, not both", given=both)
    if "attributes" in own and "attributes" not in given and isinstance(given.get("attribute"), str):
        given["attributes"] = [given.pop("attribute")]
    several = given.get("attributes")
    if "attribute" in own and "attribute" not in given and isinstance(several, list) and len(several) == 1:
        given["attribute"] = given.pop("attributes")[0]


def _read(plain: dict[str, Any], depth: int) -> Query:
    if not isinstance(plain, dict):
        raise QueryError.must("query", "be a table with its kind", given=type(plain))
    given = dict(plain)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in QUERY_KINDS:
        raise QueryError.must("kind", f"be one of {', '.join(QUERY_KINDS)}", given=kind)
    if depth > MAX_NESTED:
        raise QueryError.must(
            "query", f"not be nested more than {MAX_NESTED} deep", given=depth, remedy="use fewer products"
        )
    if isinstance(given.get("within"), list):
        given["within"] = tuple(given["within"])
    own = {f.metadata["written"] or f.name: f for f in fields(QUERY_KINDS[kind]) if not f.kw_only}
    _take_either_number(given, own)
    for key, field in own.items():
        if field.metadata["shape"] == QUERY and (key in given or field.default is MISSING):
            given[key] = _read(given.get(key, {}), depth + 1)
    try:
        return QUERY_KINDS[kind].from_plain(given)
    except TypeError:
        raise QueryError.must(
            "query",
            f"have the keys of a {kind} query, {', '.join([*own, *COMMON])}",
            given=sorted(set(plain) - {"kind"}),
        ) from None
