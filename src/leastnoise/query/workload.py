"""A batch of queries over one schema, ready to be answered together.

`assemble` turns queries into blocks of rows, each an implicit operator. Nothing
dense is built until somebody needs it: all ranges over a thousand ages crossed
with a cross table assemble at once.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import QueryError, SharedEnds, WorkloadError
from leastnoise.core.merged_cells import Cells, can_compare, merged_cells
from leastnoise.core.notebook import MAX_ROWS, NotebookValue, html_rows, more_rows, unlisted
from leastnoise.core.operators import Array, Matrix, Operator, Stack, require_room
from leastnoise.core.printable import in_figures
from leastnoise.query.queries import Labels, Linear, Query, query_from_dict
from leastnoise.query.query_blocks import (
    QueryBlock,
    blocks_of,
    check_spread,
    matrix_block,
    names_of,
    read_only,
)
from leastnoise.query.ratio_rows import RatioRows, expanded, ratio_from_dict
from leastnoise.query.schema import Schema


@dataclass(frozen=True, eq=False)
class Workload(NotebookValue):
    """Every query that one plan answers, as m rows over n cells.

    Attributes:
        blocks: the rows, query by query.
        schema: the table's declaration; None where only a matrix was given.
        ratios: the means, shares and ratios that are computed from some of the rows.
    """

    _unlisted = unlisted(
        "blocks cells_up_to_sign has_targets only operator_at per_query ratio weighted_gram with_weights"
    )

    blocks: tuple[QueryBlock, ...]
    schema: Schema | None
    ratios: tuple[RatioRows, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n): queries and cells."""
        return self.operator.shape

    @cached_property
    def operator(self) -> Operator:
        """The rows as an operator; no matrix is built."""
        if len(self.blocks) == 1:
            return self.blocks[0].operator
        return Stack([block.operator for block in self.blocks])

    @cached_property
    def labels(self) -> Labels:
        """The label of each query, made when it is read."""
        starts = list(accumulate((block.n_rows for block in self.blocks), initial=0))

        def make(j: int) -> str:
            number = bisect.bisect_right(starts, j) - 1
            return self.blocks[number].labels[j - starts[number]]

        return Labels(self.shape[0], make)

    @cached_property
    def cells(self) -> Cells | None:
        """The classes of cells that no query distinguishes; None where finding them would take too long."""
        return None if not can_compare(self.operator) else merged_cells(self.operator, up_to_sign=False)

    @cached_property
    def cells_up_to_sign(self) -> Cells | None:
        """As `cells`, where queries that differ by a sign alone do not distinguish two cells."""
        return None if not can_compare(self.operator) else merged_cells(self.operator, up_to_sign=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the batches, in order."""
        return tuple(block.name for block in self.blocks)

    def rows_of(self, name: str) -> slice:
        """The rows of one batch, as a slice.

        Args:
            name: the name of the batch.
        """
        start = 0
        for block in self.blocks:
            if block.name == name:
                return slice(start, start + block.n_rows)
            start += block.n_rows
        raise QueryError.unknown("query", name, map(repr, self.names))

    def ratio(self, name: str) -> RatioRows | None:
        """The ratio of that name; None if there is none.

        Args:
            name: the name of the mean, share or ratio.
        """
        return next((ratio for ratio in self.ratios if ratio.name == name), None)

    def only(self, name: str) -> Workload:
        """The batch of that name as a workload of its own.

        Args:
            name: the name of the batch.
        """
        self.rows_of(name)
        return Workload(tuple(block for block in self.blocks if block.name == name), self.schema)

    def per_query(self, of_batches: Sequence[Array], what: str) -> Array:
        """One number for every query, (m,), from one for each batch or one for each of its queries.

        Args:
            of_batches: an array for each batch, of one number or of one for each of its queries.
            what: what the numbers are, for the message of an error.

        Raises:
            TooLargeError: if there are too many; the message says what they are.
        """
        require_room(self.shape[0], 1, what)
        pairs = zip(of_batches, self.blocks, strict=True)
        return np.concatenate([np.broadcast_to(numbers, (block.n_rows,)) for numbers, block in pairs])

    @cached_property
    def weights(self) -> Array:
        """How much the variance of each query counts, (m,)."""
        return read_only(self.per_query([block.weights for block in self.blocks], "the weights"))

    @cached_property
    def targets(self) -> Array:
        """The standard error that each query must keep, (m,); inf without a target."""
        return read_only(self.per_query([block.targets for block in self.blocks], "the targets"))

    @property
    def has_targets(self) -> bool:
        """Whether any query has a target."""
        return any(np.isfinite(block.targets).any() for block in self.blocks)

    def with_weights(self, weights: Array) -> Workload:
        """The same queries with other weights, one per query.

        Args:
            weights: the new weights, (m,), none negative.
        """
        if weights is self.weights:
            return self
        blocks = [replace(block, weights=weights[self.rows_of(block.name)]) for block in self.blocks]
        return Workload(tuple(blocks), self.schema, self.ratios)

    def operator_at(self, index: Array) -> Operator:
        """The rows at some positions, as an operator; no matrix is built for whole batches.

        Args:
            index: the positions of the queries, increasing.
        """
        if len(index) == self.shape[0]:
            return self.operator
        parts: list[Operator] = []
        start = 0
        for block in self.blocks:
            mine = index[(index >= start) & (index < start + block.n_rows)] - start
            start += block.n_rows
            if len(mine) == block.n_rows:
                parts.append(block.operator)
            elif len(mine):
                require_room(len(mine), block.operator.shape[1], "some of the queries")
                parts.append(Matrix(block.operator.rows(mine)))
        return parts[0] if len(parts) == 1 else Stack(parts)

    def dense(self) -> Array:
        """The (m, n) matrix; raises `TooLargeError` where memory would not hold it."""
        return self.operator.dense()

    def weighted_gram(self, weights: Array | None = None) -> Array:
        """V = Σ_j w_j (row j)ᵀ(row j), an (n, n) array: all that total variance depends on.

        Args:
            weights: one per query, (m,); the queries' own weights by default.
        """
        total: Array | None = None
        start = 0
        for block in self.blocks:
            own = None if weights is None else weights[start : start + block.n_rows]
            start += block.n_rows
            if own is not None and not own.any():
                continue
            part = block.weighted_gram(own)
            total = part if total is None else np.add(total, part, out=total)
        if total is None:
            require_room(self.shape[1], self.shape[1], "the Gram matrix")
            return np.zeros((self.shape[1], self.shape[1]))
        return total

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over schema, queries, weights and targets; it identifies what a plan was designed for."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back."""
        plain: dict[str, Any] = {"schema": None, "queries": [b.query.to_dict() for b in self.blocks]}
        if self.schema is not None:
            plain["schema"] = [[name, value] for name, value in self.schema.to_dict().items()]
            if self.ratios:
                plain["names"] = list(self.names)
                plain["ratios"] = [ratio.to_dict() for ratio in self.ratios]
        else:
            plain["weights"] = self.blocks[0].weights.tolist()
            plain["targets"] = [t if np.isfinite(t) else None for t in self.blocks[0].targets.tolist()]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Workload:
        """The workload that `to_dict` wrote.

        Args:
            plain: what `to_dict` returned.
        """
        queries = [query_from_dict(query) for query in plain["queries"]]
        if plain["schema"] is not None:
            schema = Schema.from_dict(dict(plain["schema"]))
            if "ratios" not in plain:
                return assemble(queries, schema)
            blocks = blocks_of(queries, plain["names"], schema)
            asked = {block.name: block.query for block in blocks}
            ratios = [
                ratio_from_dict(one, query_from_dict(one["query"]), asked, schema) for one in plain["ratios"]
            ]
            return cls(blocks, schema, tuple(ratios))
        (query,) = queries
        if not isinstance(query, Linear):
            raise WorkloadError.must("schema", "be given with queries other than one matrix", given=None)
        weights = np.array(plain["weights"], dtype=float)
        targets = np.array([np.inf if t is None else t for t in plain["targets"]])
        return cls((matrix_block(query, weights, targets),), None)

    @classmethod
    def from_matrix(
        cls,
        W: Any,
        *,
        schema: Schema | None = None,
        labels: Sequence[str] | None = None,
        weights: npt.ArrayLike | None = None,
        stderr: npt.ArrayLike | None = None,
    ) -> Workload:
        """The workload of a matrix, (m, n), dense or SciPy sparse.

        Without a schema, data must be a vector of n counts and a release answers rows only.

        Args:
            W: the coefficients, one row for each query and one column for each cell.
            schema: the schema whose cells the columns are, the last attribute fastest; None for cells without
                names.
            labels: the name of each row; row numbers by default.
            weights: one non-negative number, or one per row; 1 by default.
            stderr: the target standard error of every row, or one per row; None for no targets.
        """
        query = Linear(W, labels, name="rows")
        m, n = query.matrix.shape
        if m == 0 or n == 0:
            raise WorkloadError.must("matrix", "hold at least one query and one cell", given=(m, n))
        if schema is not None and schema.n_cells != n:
            raise WorkloadError.must(
                "matrix", f"have one column for each of the schema's {schema.n_cells:,} cells", given=(m, n)
            )
        weight = _per_row("weights", 1.0 if weights is None else weights, m)
        target = _per_row("stderr", np.inf if stderr is None else stderr, m)
        is_weight = np.isfinite(weight) & (weight >= 0)
        if not is_weight.all():
            raise WorkloadError.must(
                "weights", "be finite numbers, zero or more", given=float(weight[~is_weight][0])
            )
        if not (target > 0).all():
            raise WorkloadError.must("stderr", "be positive", given=float(target.min()))
        if schema is not None and len(weight) == 1 and len(target) == 1:
            common: dict[str, Any] = {"weight": float(weight[0])}
            if np.isfinite(target[0]):
                common["stderr"] = float(target[0])
            return assemble([query.having(**common)], schema)
        if schema is not None:
            raise WorkloadError(
                "with a schema, weights and stderr must be one number",
                field="weights",
                remedy="give different ones to several Linear queries in assemble()",
            )
        check_spread(weight)
        return cls((matrix_block(query, weight, target),), None)

    def __iter__(self) -> Iterator[str]:
        """The names of the queries, ratios last: what a release of it has answers to."""
        return iter([*self.names, *(ratio.name for ratio in self.ratios)])

    def __len__(self) -> int:
        """How many names there are; ``shape`` has the number of counts."""
        return len(self.blocks) + len(self.ratios)

    def _repr_html_(self) -> str:
        m, n = self.shape
        rows = [
            [
                block.name,
                block.query.kind,
                in_figures(block.n_rows),
                "/".join(dict.fromkeys(f"{w:,.4g}" for w in (block.weights.min(), block.weights.max()))),
                block.query.target_to_text() or "–",
            ]
            for block in self.blocks[:MAX_ROWS]
        ]
        ratios = [
            [ratio.name, ratio.query.kind, in_figures(len(ratio.labels)), "", ""] for ratio in self.ratios
        ]
        notes = [
            *more_rows(len(self.blocks), "queries"),
            f"{in_figures(m)} counts over {in_figures(n)} cells",
        ]
        heads = ["query", "kind", "counts", "weight", "target"]
        return html_rows(heads, [*rows, *ratios[:MAX_ROWS]], notes)

    def __repr__(self) -> str:
        m, n = self.shape
        what = ", ".join(self.names[:4]) + (", …" if len(self.names) > 4 else "")
        return f"Workload({m:,} queries over {in_figures(n)} cells: {what})"


# Values that a warning names one by one where listed ranges share an end.
_MAX_SHARED = 3


# Parts of workloads, so that what is known of a part is found again.
_PARTS: WeakKeyDictionary[Workload, dict[frozenset[str], Workload]] = WeakKeyDictionary()


def part_of(workload: Workload, names: Iterable[str]) -> Workload:
    """Some batches as a workload of their own, in its order; the same one each time it is asked for.

    Args:
        names: of the batches.
    """
    known, wanted = _PARTS.setdefault(workload, {}), frozenset(names)
    if wanted not in known:
        blocks = tuple(block for block in workload.blocks if block.name in wanted)
        known[wanted] = Workload(blocks, workload.schema)
    return known[wanted]


def assemble(queries: Iterable[Query], schema: Schema) -> Workload:
    """The workload of some queries over a schema, without building a matrix.

    Args:
        queries: the queries, in the order of the answers.
        schema: the schema that they are asked over.

    Example:
        >>> from leastnoise.query.queries import Marginal, Prefix
        >>> assemble([Marginal("age", "sex"), Prefix("age")], Schema(age=range(116), sex=("F", "M")))
        Workload(348 queries over 232 cells: age x sex, age up to)
    """
    if isinstance(queries, Query):
        queries = [queries]
    if isinstance(queries, Workload) or not isinstance(queries, Iterable):
        raise WorkloadError.must("queries", "be queries such as Total()", given=type(queries))
    given = list(queries)
    if not given:
        raise WorkloadError.must("queries", "hold at least one, as in assemble([Total()], schema)", given=[])
    if not isinstance(schema, Schema):
        raise WorkloadError.must("schema", "be a Schema", given=type(schema))
    for query in given:
        if not isinstance(query, Query):
            raise WorkloadError.must("queries", "be queries such as Total()", given=type(query))
    _warn_of_shared_ends(given, schema)
    if all(query.is_linear for query in given):
        return Workload(blocks_of(given, names_of(given), schema), schema)
    batch = expanded(given, names_of(given), schema)
    return Workload(blocks_of(batch.queries, batch.names, schema), schema, batch.ratios)


def _warn_of_shared_ends(queries: Sequence[Query], schema: Schema) -> None:
    """Say where listed ranges share an end, as in (0, 20), (20, 65): no overlap for bins alone."""
    found = [text for query in queries for text in query.shared_ends(schema)]
    if found:
        more = (
            f"; {len(found) - _MAX_SHARED:,} more values are in two ranges"
            if len(found) > _MAX_SHARED
            else ""
        )
        warnings.warn(
            f"{'; '.join(found[:_MAX_SHARED])}{more}. A range of values includes both of its ends. To count "
            "every record once, end each range before the next begins: (0, 19), (20, 65)",
            SharedEnds,
            stacklevel=3,
        )


def workload_of_query(query: Query, schema: Schema | None) -> Workload:
    """One query as a workload of its own, whatever its weight; without a schema it must be a Linear one."""
    weights, targets = read_only(np.ones(1)), read_only(np.array([np.inf]))
    if schema is None:
        assert isinstance(query, Linear)
        return Workload((matrix_block(query, weights, targets),), None)
    name, labels = query.name or query.title(), query.labels(schema)
    return Workload((QueryBlock(name, query, query.operator(schema), labels, weights, targets),), schema)


def workload_of_rows(operator: Operator, weights: Array | None = None) -> Workload:
    """Rows over cells that no schema names, as a workload, each with a weight."""
    block = QueryBlock(
        name="rows",
        query=Linear(np.zeros((1, 1)), name="rows"),
        operator=operator,
        labels=Labels(operator.shape[0], lambda j: f"row {j}"),
        weights=read_only(np.ones(1) if weights is None else np.array(weights, dtype=float)),
        targets=read_only(np.array([np.inf])),
    )
    return Workload((block,), None)


def _per_row(what: str, given: npt.ArrayLike, m: int) -> Array:
    try:
        values = np.array(given, dtype=float).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise WorkloadError.must(what, f"be one number or {m} of them", given=type(given)) from None
    if len(values) not in (1, m) or np.isnan(values).any():
        raise WorkloadError.must(what, f"be one number or {m} of them, none NaN", given=len(values))
    return read_only(values)
