"""Queries as plain values: what plan and specification files hold."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from leastnoise.core.errors import QueryError
from leastnoise.query.queries.conditions import Cases, Where
from leastnoise.query.queries.counts import AllRanges, Cube, Levels, Marginal, Prefix, Ranges, Sum, Total
from leastnoise.query.queries.linear import Linear, sparse_from_plain
from leastnoise.query.queries.query import COMMON, Product, Query

QUERY_KINDS: dict[str, type[Query]] = {
    cls.kind: cls
    for cls in (Total, Marginal, Cube, Prefix, AllRanges, Ranges, Levels, Sum, Where, Cases, Product, Linear)
}


def query_from_dict(plain: dict[str, Any]) -> Query:
    """The query that `to_dict` wrote, or one [[query]] table of a specification file."""
    if not isinstance(plain, dict):
        raise QueryError(f"a query must be a table with its kind, got {type(plain).__name__}")
    given = dict(plain)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in QUERY_KINDS:
        raise QueryError(f"a query's kind must be one of {', '.join(QUERY_KINDS)}, got {kind!r}")
    if "within" in given:
        given["within"] = tuple(given["within"]) if isinstance(given["within"], list) else given["within"]
    try:
        if kind in ("marginal", "cube"):
            attributes = given.pop("attributes", ())
            if not isinstance(attributes, (list, tuple)):
                raise QueryError.must("attributes", "be a list of names", given=attributes)
            return (Marginal if kind == "marginal" else Cube)(*attributes, **given)
        if kind == "linear" and isinstance(given.get("matrix"), dict):
            given["matrix"] = sparse_from_plain(given["matrix"])
        if kind == "product":
            left, right = (query_from_dict(given.pop(side, {})) for side in ("left", "right"))
            return Product(left, right, **given)
        return QUERY_KINDS[kind](**given)
    except TypeError:
        allowed = {
            "marginal": ["attributes"],
            "cube": ["attributes", "order"],
            "linear": ["matrix", "labels"],
            "product": ["left", "right"],
        }
        own = allowed.get(kind) or [f.name for f in fields(QUERY_KINDS[kind]) if not f.kw_only]
        raise QueryError(
            f"a {kind} query takes {', '.join([*own, *COMMON])}; "
            f"got {', '.join(sorted(set(plain) - {'kind'})) or 'nothing'}"
        ) from None
