"""Any linear combinations of the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import Operator, SparseMatrix, from_entries
from leastnoise.query.queries.factors import Term
from leastnoise.query.queries.key_shapes import COUNTS, NUMBERS, TEXT, key
from leastnoise.query.queries.meaning import Aspect, Cell, Meaning, Table
from leastnoise.query.queries.query import COMMON, Common, Query, set_common, to_plain
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import CountOrShare, Expected, WithinTarget
from leastnoise.query.schema import Schema

# What a record's cell is called where no schema names its values.
CELL = "cell"

_SPARSE = {
    "type": "object",
    "properties": {"shape": COUNTS, "rows": COUNTS, "columns": COUNTS, "values": NUMBERS},
    "required": ["shape", "rows", "columns", "values"],
    "additionalProperties": False,
}
_MATRIX = {"anyOf": [{"type": "array", "items": {"anyOf": [NUMBERS, {"type": "number"}]}}, _SPARSE]}


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Query):
    """Any linear combinations of the cells, one row each: an array or a SciPy sparse matrix.

    Args:
        matrix: the coefficients, (m, n), one column for each cell of the schema, the last attribute fastest.
        labels: the name of each row; row numbers by default.
    """

    matrix: Any = field(metadata=key(_MATRIX))
    row_labels: Sequence[str] | None = field(
        default=None, metadata=key({"type": "array", "items": TEXT}, written="labels")
    )
    kind: ClassVar[str] = "linear"

    def __init__(
        self,
        matrix: Any,
        labels: Sequence[str] | None = None,
        *,
        name: str | None = None,
        weight: float = 1.0,
        stderr: CountOrShare | None = None,
        within: WithinTarget | CountOrShare | None = None,
        expected: Expected | None = None,
    ) -> None:
        set_common(self, Common(name, weight, stderr, within, expected))
        # The operator is made here, so that a later change of the caller's array changes nothing.
        object.__setattr__(self, "matrix", from_entries(matrix))
        given = None if labels is None else tuple(labels)
        object.__setattr__(self, "row_labels", given)
        if given is not None and (
            isinstance(labels, str) or not all(isinstance(text, str) for text in given)
        ):
            raise QueryError.must("labels", "be a list of texts, one per row", given=type(given))
        if given is not None and len(given) != self.matrix.shape[0]:
            raise QueryError.must(
                "labels", f"be as many as the {self.matrix.shape[0]} rows", given=len(given)
            )
        self.__post_init__()

    @classmethod
    def from_plain(cls, given: dict[str, Any]) -> Query:
        if isinstance(given.get("matrix"), dict):
            given = given | {"matrix": sparse_from_plain(given["matrix"])}
        return cls(**given)

    def _own_arguments(self) -> list[str]:
        labels = [] if self.row_labels is None else [f"labels={list(self.row_labels)!r}"]
        return [repr(self.matrix), *labels]

    def _with_common(self, common: dict[str, Any]) -> Query:
        other = object.__new__(Linear)
        set_common(other, Common(**common))
        object.__setattr__(other, "matrix", self.matrix)
        object.__setattr__(other, "row_labels", self.row_labels)
        other.__post_init__()
        return other

    def __eq__(self, other: object) -> bool:
        # Without this, the comparison inherited from Query would look at name, weight and target only.
        return isinstance(other, Linear) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.row_labels, self.name, self.weight, self.target))

    def factors(self, schema: Schema) -> Term | None:
        return None

    def operator(self, schema: Schema) -> Operator:
        if self.matrix.shape[1] != schema.n_cells:
            raise QueryError.must(
                "matrix",
                f"have one column for each of the schema's {schema.n_cells:,} cells",
                given=self.matrix.shape[1],
            )
        return self.matrix

    def labels(self, schema: Schema) -> Labels:
        return self.own_labels()

    def tables(self, schema: Schema) -> Sequence[Table]:
        return [(self._aspect(dict(zip(schema.names, schema.shape, strict=True))),)]

    def own_meaning(self) -> Meaning:
        """What every row counts of one record where no schema names the cells: a record is in `CELL`."""
        return Meaning([(self._aspect({CELL: self.matrix.shape[1]}),)], "")

    def _aspect(self, sizes: Mapping[str, int]) -> Aspect:
        """Coefficients one by one; cells are numbered with the last attribute fastest."""
        labels = self.own_labels()
        # A row is written out once for all records that are checked against it.
        row = lru_cache(maxsize=1)(lambda j: self.matrix.rows([j])[0])

        def adds(j: int, cell: Cell) -> float:
            number = 0
            for name, size in sizes.items():
                number = number * size + cell[name]
            return float(row(j)[number])

        def example(j: int, rng: np.random.Generator) -> Cell:
            counted = np.flatnonzero(row(j))
            number = int(rng.choice(counted)) if len(counted) else 0
            cell: dict[str, int] = {}
            for name, size in reversed(list(sizes.items())):
                number, cell[name] = divmod(number, size)
            return cell

        return Aspect(tuple(sizes), self.matrix.shape[0], labels.__getitem__, adds, example)

    def own_labels(self) -> Labels:
        """The labels, or row numbers where none are given."""
        given = self.row_labels
        return Labels(self.matrix.shape[0], lambda j: f"row {j}" if given is None else given[j])

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": self.kind, "matrix": plain_matrix(self.matrix)}
        if self.row_labels is not None:
            plain["labels"] = list(self.row_labels)
        return plain | {
            name: to_plain(getattr(self, name))
            for name, default in COMMON.items()
            if getattr(self, name) != default
        }


def plain_matrix(matrix: Operator) -> Any:
    """Nested lists, or for a sparse matrix its entries by row and column."""
    if isinstance(matrix, SparseMatrix):
        entries = matrix.entries.tocoo()
        return {
            "shape": list(matrix.shape),
            "rows": entries.row.tolist(),
            "columns": entries.col.tolist(),
            "values": entries.data.tolist(),
        }
    return matrix.dense(np.int64 if matrix.is_integer else np.float64).tolist()


def sparse_from_plain(plain: dict[str, Any]) -> Any:
    """The SciPy matrix that `plain_matrix` took apart."""
    from scipy.sparse import coo_array

    try:
        places = tuple(np.array(plain[name]) for name in ("rows", "columns"))
        if any(place.size and place.dtype.kind != "i" for place in places):
            raise TypeError
        return coo_array((np.array(plain["values"]), places), shape=tuple(plain["shape"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise QueryError.must(
            "matrix", "be a table of shape, rows, columns and values", given=type(plain)
        ) from None
