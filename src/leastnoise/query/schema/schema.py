"""The schema: attributes by name, and the cells they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leastnoise.core.errors import SchemaError
from leastnoise.core.notebook import MAX_ROWS, NotebookValue, html_rows, more_rows
from leastnoise.core.printable import in_figures
from leastnoise.query.schema.attribute import Attribute
from leastnoise.query.schema.cleaning import Cleaning, cleaning_from
from leastnoise.query.schema.hierarchy import Hierarchy
from leastnoise.query.schema.named import Categories, Named
from leastnoise.query.schema.numeric import Bins, Integers
from leastnoise.query.schema.periods import Periods

_POLICIES = {"outside", "null", "other", "clean"}
# What else an attribute of a kind may say.
_FURTHER = {"periods": {"by", "zone"}, "categories": {"labels"}, "hierarchy": {"labels"}}


class Schema(NotebookValue):
    """The declared attributes of a table, in order.

    Args:
        named: the attributes in a dict, for names that Python cannot use as keywords, such as
            ``Schema({"years lived here": range(100)})``; None for none.
        **attributes: the attributes by name. Each is a `range` of whole numbers, a sequence of categories, or
            an `Integers`, `Periods`, `Bins`, `Categories` or `Hierarchy`.

    Example:
        >>> Schema(age=range(116), sex=("F", "M"))
        Schema(age: 0–115; sex: F, M; 232 cells)
    """

    __slots__ = ("_attributes", "_shape")
    _attributes: dict[str, Attribute]
    _shape: tuple[int, ...]

    def __init__(self, named: Mapping[str, Any] | None = None, /, **attributes: Any) -> None:
        # A mapping serves names that are no Python words: Schema({"years lived here": range(100)}).
        if named is not None and not isinstance(named, Mapping):
            raise SchemaError.must(
                "schema", "be given by name, as in Schema(sex=('F', 'M'))", given=type(named)
            )
        attributes = {**(named or {}), **attributes}
        _check_names(attributes)
        if not attributes:
            raise SchemaError.must(
                "schema", "have at least one attribute, as in Schema(sex=('F', 'M'))", given={}
            )
        declared = {name: _declared(name, given) for name, given in attributes.items()}
        object.__setattr__(self, "_attributes", declared)
        object.__setattr__(self, "_shape", tuple(attribute.size for attribute in declared.values()))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a schema cannot be changed; make another")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a schema cannot be changed; make another")

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_dict, (self.to_dict(),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(self._attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells of each attribute."""
        return self._shape

    @property
    def n_cells(self) -> int:
        """The number of cells: all combinations of values."""
        return math.prod(self.shape)

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self._attributes[name]
        except KeyError:
            raise SchemaError.unknown("attribute", name, self.names) from None

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab offers after ``schema["``."""
        return list(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self._attributes.items()) == list(other._attributes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._attributes.items()))

    def _repr_html_(self) -> str:
        shown = list(self._attributes.items())[:MAX_ROWS]
        rows = [[name, a.kind, in_figures(a.size), a.cells_label()] for name, a in shown]
        more = more_rows(len(self._attributes), "attributes")
        notes = [*more, f"{in_figures(self.n_cells)} cells"]
        return html_rows(["attribute", "kind", "cells", "values"], rows, notes)

    def __repr__(self) -> str:
        parts = [f"{name}: {a.cells_label()}" for name, a in self._attributes.items()]
        return f"Schema({'; '.join(parts)}; {in_figures(self.n_cells)} cells)"

    def cleaned(self, clean: Cleaning | Mapping[str, Any]) -> Schema:
        """This schema with one cleaning for every attribute that has none of its own.

        Each attribute takes the steps that make sense for its kind: decimal marks for numbers, date formats
        for periods.

        Args:
            clean: a `Cleaning`, or a dict of its arguments.

        Example:
            >>> Schema(sex=("F", "M")).cleaned({"trim": True})["sex"].place(" F")
            0
        """
        common = cleaning_from(clean)
        if common is None:
            return self
        if common.synonyms or common.digits:
            raise SchemaError.must("clean", "leave synonyms and digits to single attributes", given=common)
        found = {}
        for name, attribute in self._attributes.items():
            steps = [step for step in (*attribute.any_steps, *attribute.own_steps) if step != "digits"]
            if isinstance(attribute, Named) and attribute.is_text:
                steps = list(attribute.any_steps)
            own = common.only(steps)
            plain = attribute.to_dict()
            if attribute.clean is None and own != Cleaning():
                plain["clean"] = own.to_dict()
            found[name] = plain
        return Schema.from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back, attributes in order."""
        return {name: attribute.to_dict() for name, attribute in self._attributes.items()}

    @classmethod
    def from_dict(cls, attributes: dict[str, Any]) -> Schema:
        """The schema that `to_dict` wrote, or a specification file's [schema] table.

        Each attribute is ``{range = [start, stop]}``, ``{bins = [...]}``, ``{categories = [...]}``,
        ``{hierarchy = ...}`` or ``{periods = [first, last], by = "month"}``, with its policies ``outside``,
        ``null`` and ``other`` if it has any, or simply a list of categories.

        Args:
            attributes: the attributes by name.
        """
        _check_names(attributes)
        return cls({name: _from_plain(name, given) for name, given in attributes.items()})


def _check_names(attributes: Mapping[Any, Any]) -> None:
    for name in attributes:
        if not isinstance(name, str):
            raise SchemaError.must("schema", "name attributes by texts", given=name)


def _from_plain(name: str, given: Any) -> Any:
    if isinstance(given, list):
        return given
    if not isinstance(given, dict):
        raise SchemaError.must(name, "be a list or a table", given=type(given))
    kinds = [key for key in _KINDS if key in given]
    known = {*kinds, *_POLICIES, *(_FURTHER.get(kinds[0], ()) if kinds else ())}
    if len(kinds) != 1 or set(given) - known or not _is_written(kinds[0], given):
        raise SchemaError(
            f"attribute {name!r} must be {{range = [start, stop]}}, {{bins = [edges]}}, {{categories = "
            "[values]}, {hierarchy = regions} or {periods = [first, last], by = 'month'}, with outside, null "
            f"and other if wanted, got the keys {sorted(given)}",
            field=name,
            given=sorted(given),
        )
    try:
        further = {key: value for key, value in given.items() if key != kinds[0]}
        return _KINDS[kinds[0]](given[kinds[0]], **further)
    except SchemaError as error:
        raise SchemaError.at(f"attribute {name!r}", error, field=f"{name}.{error.field}") from None


def _is_written(kind: str, given: dict[str, Any]) -> bool:
    return isinstance(given[kind], list) or (kind == "hierarchy" and isinstance(given[kind], dict))


def _integers(bounds: list[Any], **policies: Any) -> Integers:
    if not 1 <= len(bounds) <= 3 or not all(type(bound) is int for bound in bounds):
        raise SchemaError.must("range", "be [start, stop] in whole numbers", given=bounds)
    if len(bounds) == 3 and bounds[2] < 1:
        raise SchemaError.must("range", "have a step of 1 or more", given=bounds)
    return Integers(range(*bounds), **policies)


def _periods(ends: list[Any], **further: Any) -> Periods:
    if len(ends) != 2:
        raise SchemaError.must("periods", 'be [first, last], as in ["2026-01", "2026-12"]', given=ends)
    return Periods(*ends, **further)


_KINDS: dict[str, Callable[..., Attribute]] = {
    "range": _integers,
    "bins": Bins,
    "categories": Categories,
    "hierarchy": Hierarchy,
    "periods": _periods,
}


def _declared(name: str, given: Any) -> Attribute:
    try:
        if isinstance(given, Attribute):
            return given
        if isinstance(given, range):
            return Integers(given)
        if isinstance(given, (list, tuple)):
            return Categories(given)
    except SchemaError as error:
        raise SchemaError.at(f"attribute {name!r}", error, field=f"{name}.{error.field}") from None
    raise SchemaError(
        f"attribute {name!r} must be declared as a range, a list of categories, Hierarchy(tree), "
        f"Bins(edges) or Periods(first, last), got {type(given).__name__}. The values are public "
        "knowledge and are never read from the table",
        field=name,
        given=type(given),
        remedy=f"write them out, as in Schema({name}=range(116)) or Schema({name}=('F', 'M'))",
    )
