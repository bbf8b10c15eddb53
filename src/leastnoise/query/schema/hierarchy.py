"""Regions within regions: categories that lie in a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query.schema.attribute import Mask, Value, is_null, listed, plain
from leastnoise.query.schema.code_list import CODE, PARENT, read_code_list
from leastnoise.query.schema.named import Named, checked_names

# Levels of a hierarchy. Deeper trees are refused with a message, before Python's recursion limit is reached.
_MAX_DEPTH = 100


class Node(NamedTuple):
    """A region: its name, and the regions and values in it."""

    name: str
    children: tuple[Node | Value, ...]


@dataclass(frozen=True, eq=False)
class Level:
    """The regions of one depth.

    Attributes:
        labels: what people call each region.
        groups: the region of each cell, (size,), or -1 where a cell ends above this level.
    """

    labels: tuple[str, ...]
    groups: npt.NDArray[np.int64]


@dataclass(frozen=True, init=False, repr=False)
class Hierarchy(Named):
    """Regions within regions: the values are the leaves of a tree, in order of appearance.

    Args:
        tree: a dict maps the name of each region to what is in it; a list holds the values in a region, and
            may hold dicts too, for regions next to values. Depths may differ. Values are all text or all
            whole numbers, and each appears once.
        outside: where undeclared values go: "drop" leaves the record out, "other" counts it in the other
            cell. By default "other" where there is such a cell, else "drop".
        null: where nulls and NaN go: "drop" leaves the record out, "other" counts it in the other cell.
        other: the label of one more cell, next to the outermost regions, for undeclared values, nulls or
            both; None for no such cell.
        clean: what is done to the text of a value before it is placed: a `Cleaning`, or a dict of its
            arguments. None for nothing.
        labels: a dict of labels, for values and regions that are codes; answers show the labels. None for
            none.

    Example:
        >>> regions = Hierarchy({"North": {"Uptown": ["a", "b"], "Hill": ["c"]}, "South": ["d", "e"]})
        >>> regions.values
        ('a', 'b', 'c', 'd', 'e')
        >>> [level.labels for level in regions.levels]
        [('North', 'South'), ('Uptown', 'Hill', 'd', 'e'), ('a', 'b', 'c')]
    """

    children: tuple[Node | Value, ...]

    kind: ClassVar[str] = "hierarchy"

    def __init__(
        self,
        tree: Mapping[Any, Any] | Sequence[Any],
        *,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
        labels: Mapping[Any, str] | None = None,
    ) -> None:
        object.__setattr__(self, "children", _children(tree, ()))
        leaves = [path[-1] for path in _leaf_paths(self.children)]
        object.__setattr__(self, "values", checked_names(leaves, "tree"))
        self._set_labels(labels, {str(name) for path in _leaf_paths(self.children) for name in path})
        self._set_policies(outside, null, other, clean)

    @classmethod
    def from_parents(
        cls,
        parents: Mapping[Any, Any],
        *,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
        labels: Mapping[Any, str] | None = None,
    ) -> Hierarchy:
        """The hierarchy given by the parent of each name.

        A name whose parent is None, and a parent that is not itself a key, is an outermost region; a name
        that is nobody's parent is a value. Each region comes where it, or anything in it, is first listed.

        Args:
            parents: the parent of every name, in a dict; None for an outermost region.
            outside, null, other, clean, labels: as for `Hierarchy`.

        Example:
            >>> Hierarchy.from_parents({"a": "Uptown", "b": "Uptown", "Uptown": "North"}).values
            ('a', 'b')
        """
        if not isinstance(parents, Mapping):
            raise SchemaError.must("parents", "be a dict of name to parent", given=type(parents))
        tree = _tree_of(parents.items())
        return cls(tree, outside=outside, null=null, other=other, clean=clean, labels=labels)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        child: str,
        parent: str,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
        labels: Mapping[Any, str] | None = None,
    ) -> Hierarchy:
        """The hierarchy in a public table of names and their parents, a null parent for an outermost region.

        Args:
            table: a pandas, polars or Arrow table, or a dict of lists. It is read immediately and becomes
                public: use a register of regions, never the private table.
            child: the column of names, each in one row.
            parent: the column with the parent of each name.
            outside, null, other, clean, labels: as for `Hierarchy`.

        Example:
            >>> table = {"id": ["a", "b", "North"], "parent_id": ["North", "North", None]}
            >>> Hierarchy.from_table(table, child="id", parent="parent_id").values
            ('a', 'b')
        """
        names, parents = (_column(table, column) for column in (child, parent))
        if len(names) != len(parents):
            raise SchemaError.must("parent", f"be a column as long as {child!r}", given=parent)
        tree = _tree_of(zip(names, parents, strict=True))
        return cls(tree, outside=outside, null=null, other=other, clean=clean, labels=labels)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        code: str = CODE,
        label: str | None = None,
        parent: str = PARENT,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
    ) -> Hierarchy:
        """The hierarchy in a code list: a public CSV or JSON file of codes, their labels and their parents.

        An outermost region has no parent. The file is read immediately and becomes part of the schema: use a
        register or a classification, never the private table.

        Args:
            path: the CSV or JSON file.
            code: the name of the column of codes.
            label: the name of the column of labels; by default "label", if there is such a column.
            parent: the name of the column with the parent of each code.
            outside, null, other, clean: as for `Hierarchy`.

        Raises:
            SchemaError: if the file is not such a list; the message names the line and quotes nothing from
                it.
        """
        found = read_code_list(path, code=code, label=label, parent=parent)
        tree = _tree_of(found.parents.items())
        return cls(tree, outside=outside, null=null, other=other, clean=clean, labels=found.labels)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The regions of every depth, from the outermost to the deepest values.

        A value that ends at one depth is a region of its own there, and -1 below it. The other cell is such a
        value at the first depth.
        """
        paths: list[tuple[Value, ...]] = list(_leaf_paths(self.children))
        if self.other is not None:
            paths.append((self.other,))
        levels = []
        for depth in range(1, max(map(len, paths)) + 1):
            # A region is known by its path: names may repeat in other branches.
            regions: dict[tuple[Value, ...], int] = {}
            groups = np.full(len(paths), -1, dtype=np.int64)
            for i, path in enumerate(paths):
                if len(path) >= depth:
                    groups[i] = regions.setdefault(path[:depth], len(regions))
            groups.setflags(write=False)
            levels.append(Level(self._level_labels(list(regions)), groups))
        return tuple(levels)

    def _level_labels(self, regions: Sequence[tuple[Value, ...]]) -> tuple[str, ...]:
        """What people call each path, or all on it where regions of one level are called the same."""
        names = [self.called(path[-1]) for path in regions]
        times = Counter(names)
        return tuple(
            " / ".join(map(self.called, path)) if times[name] > 1 else name
            for name, path in zip(names, regions, strict=True)
        )

    @cached_property
    def _regions(self) -> dict[str, list[int]]:
        """The indices of all values under the regions of each name."""
        found: dict[str, list[int]] = {}
        for i, path in enumerate(_leaf_paths(self.children)):
            for name in dict.fromkeys(map(str, path[:-1])):
                found.setdefault(name, []).append(i)
        return found

    def _names(self, text: str) -> bool:
        return super()._names(text) or any(text in (name, self.called(name)) for name in self._regions)

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        if sign not in ("==", "!="):
            raise QueryError.must(name, "be compared by == or !=, as regions have no order", given=sign)
        is_name = isinstance(value, (str, int)) and not isinstance(value, bool)
        chosen = list(self._regions.get(str(value), [])) if is_name else []
        leaf = self._position(value)
        if leaf is not None:
            chosen.append(leaf)
        if not chosen:
            names = f"{listed(list(self._regions), value)}, or values, {listed(self.values, value)}"
            wanted = f"be compared with one of its regions, {names}"
            raise QueryError.must(name, wanted, given=value, remedy=self._or_other())
        mask = np.zeros(self.n_values, dtype=bool)
        mask[chosen] = True
        return mask if sign == "==" else ~mask

    def _values_to_plain(self) -> list[Any]:
        # A dict for each region alone: files are written with sorted keys, and the order of cells must last.
        return [_to_plain(child) for child in self.children]


def _children(tree: Any, path: tuple[str, ...]) -> tuple[Node | Value, ...]:
    """What lies in a region, from its dict or list."""
    where = path[-1] if path else "tree"
    if len(path) >= _MAX_DEPTH:
        raise SchemaError.must("tree", f"have at most {_MAX_DEPTH} levels", given=_MAX_DEPTH + 1)
    if isinstance(tree, Mapping):
        parts: list[Any] = [tree]
    elif isinstance(tree, (list, tuple)):
        parts = list(tree)
    else:
        wanted = "be a dict of regions or a list of values"
        raise SchemaError.must(
            where, f"{wanted}, as in {{'North': ['a', 'b'], 'South': ['c']}}", given=type(tree)
        )
    children: list[Node | Value] = []
    for part in parts:
        if not isinstance(part, Mapping):
            children.append(plain(part))
            continue
        for key, inner in part.items():
            name = plain(key)
            if not isinstance(name, (str, int)) or isinstance(name, bool):
                raise SchemaError.must("tree", "name regions by texts", given=name)
            children.append(Node(str(name), _children(inner, (*path, str(name)))))
    if not children:
        raise SchemaError.must(where, "hold at least one value", given=tree)
    names = [child.name for child in children if isinstance(child, Node)]
    seen: set[str] = {str(child) for child in children if not isinstance(child, Node)} if names else set()
    for name in names:
        if name in seen:
            raise SchemaError.must(where, "not hold a name twice", given=name)
        seen.add(name)
    return tuple(children)


def _leaf_paths(
    children: tuple[Node | Value, ...], path: tuple[Value, ...] = ()
) -> Iterable[tuple[Value, ...]]:
    for child in children:
        if isinstance(child, Node):
            yield from _leaf_paths(child.children, (*path, child.name))
        else:
            yield (*path, child)


def _to_plain(child: Node | Value) -> Any:
    if not isinstance(child, Node):
        return child
    return {child.name: [_to_plain(inner) for inner in child.children]}


def _column(table: Any, name: str) -> list[Any]:
    """The values of one column of a public table."""
    try:
        column = table[name]
        column = column.tolist() if hasattr(column, "tolist") else column
        column = column.to_pylist() if hasattr(column, "to_pylist") else column
        column = column.to_list() if hasattr(column, "to_list") else column
    except Exception:
        raise SchemaError.must("table", "have the column", given=name) from None
    if not isinstance(column, (list, tuple)):
        raise SchemaError.must(
            "table", "be a pandas, polars or Arrow table or a dict of lists", given=type(table)
        )
    return list(column)


def _name(value: Any) -> Any:
    """A name in a table; whole numbers become floats where a column also holds nulls."""
    value = plain(value)
    if is_null(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise SchemaError.must("tree", "hold texts or whole numbers as names", given=value)
    return value


def _tree_of(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The nested lists and dicts in which every child lies in its parent."""
    parent_of: dict[Any, Any] = {}
    inside: dict[Any, list[Any]] = {}
    for given_child, given_parent in pairs:
        child, parent = _name(given_child), _name(given_parent)
        if child is None:
            raise SchemaError.must("tree", "hold a name in every row", given=None)
        if child in parent_of:
            again = "is listed twice" if parent_of[child] == parent else "has two parents"
            raise SchemaError(f"{child!r} {again}; each name lies in one region", field="tree", given=child)
        parent_of[child] = parent
        if parent is not None:
            inside.setdefault(parent, []).append(child)
    if not parent_of:
        raise SchemaError.must("tree", "hold at least one value", given={})
    has_roots = any(parent is None for parent in parent_of.values())
    for child, parent in parent_of.items():
        if parent is not None and parent not in parent_of and has_roots:
            raise SchemaError(
                f"{parent!r}, the parent of {child!r}, is missing",
                field="tree",
                given=parent,
                remedy="list it too, with no parent if it is an outermost region",
            )
    roots = {
        child if parent is None else parent
        for child, parent in parent_of.items()
        if parent is None or parent not in parent_of
    }
    order: list[Any] = []
    waiting = list(roots)
    while waiting:
        order.append(waiting.pop())
        waiting.extend(inside.get(order[-1], ()))
    reached = set(order)
    lost = next((child for child in parent_of if child not in reached), None)
    if lost is not None:
        raise SchemaError.must("tree", "have no cycles", given=lost)
    # From the innermost outwards, without recursion. Regions keep the order in which they, or
    # anything in them, are first listed.
    listed_at = {child: i for i, child in enumerate(parent_of)}
    built: dict[Any, Any] = {}
    for name in reversed(order):
        inner = sorted(inside.get(name, ()), key=listed_at.__getitem__)
        listed_at[name] = min([listed_at.get(name, len(parent_of)), *(listed_at[child] for child in inner)])
        built[name] = {name: [built[child] for child in inner]} if inner else name
    return [built[root] for root in sorted(roots, key=listed_at.__getitem__)]
