"""`vectorize` and the lazy handle it makes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.data.counting import ask
from leastnoise.data.sources import ACCEPTED, OPENERS, files_named
from leastnoise.data.withheld import withheld
from leastnoise.errors import DataError, NotYetError, TooLargeError
from leastnoise.operators import MAX_ENTRIES
from leastnoise.schema import Schema


@dataclass(frozen=True, eq=False)
class Data:
    """A table and its schema: a handle that counts when asked, and shows nothing by itself."""

    schema: Schema
    kind: str
    _source: Any = field(repr=False)

    def counts(self, *attributes: str) -> npt.NDArray[np.int64]:
        """How many records hold each combination of values of these attributes, zeros included.

        The shape is the sizes of the attributes in the order asked; without any,
        the answer is the number of records in the schema's cells. A record counts
        only if all attributes of the schema place it, so that every answer is the
        sum of `vector` over the attributes left out.

        Guarantee:
            Adding or removing one record changes one entry by one, or none.

        Raises:
            SchemaError: if the schema declares no such attribute.
            DataError: if an attribute is named twice or the table cannot be read.
            TooLargeError: above MAX_ENTRIES combinations, before anything is read.
        """
        shape = tuple(self.schema[name].size for name in attributes)
        if len(set(attributes)) < len(attributes):
            raise DataError(f"each attribute may be named once, got {', '.join(attributes)}")
        if math.prod(shape) > MAX_ENTRIES:
            raise TooLargeError(
                f"counts over {', '.join(attributes)} would hold {math.prod(shape):,} cells; at most "
                f"{MAX_ENTRIES:,} are built. Ask for fewer attributes or declare coarser ones."
            )
        cells, n_records = withheld("counting the table", lambda: ask(self._source, self.schema, attributes))
        x = np.zeros(math.prod(shape), dtype=np.int64)
        x[cells] = n_records
        return x.reshape(shape)

    def vector(self) -> npt.NDArray[np.int64]:
        """The counts of all cells, shape (n,), the last attribute fastest."""
        return self.counts(*self.schema.names).ravel()

    def __repr__(self) -> str:
        return f"Data({self.kind}, {self.schema!r})"


def vectorize(source: Any, schema: Schema, *, person: str | None = None) -> Data:
    """A lazy handle on a table, which counts its records in the cells of a schema.

    Args:
        source: a path or glob of CSV, TSV or Parquet files, a pandas or polars
            DataFrame, a polars LazyFrame, a pyarrow Table, RecordBatch or
            Dataset, or a DuckDB relation. It must not change while in use.
        schema: the declared attributes; each must be the exact name of a column.
        person: the column that names the person; not available yet.

    Raises:
        DataError: if the source is of another kind, or there is no such file.
        NotYetError: if ``person`` is given.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"sex": ["F", "M", "F", None]})
        >>> vectorize(table, Schema(sex=("F", "M"))).vector()
        array([2, 1])
    """
    if not isinstance(schema, Schema):
        raise DataError(f"schema must be a Schema, got {type(schema).__name__}")
    if person is not None:
        raise NotYetError(
            "truncation to a number of records per person is not available yet; leave out person= "
            "and give a table with one record per person"
        )
    if isinstance(source, Data):
        if source.schema != schema:
            raise DataError(
                f"this data was made with {source.schema!r}, not with {schema!r}; call vectorize() on the "
                "table itself with the schema of the plan"
            )
        return source
    if isinstance(source, (str, Path)):
        return Data(schema, "files", files_named(source))
    for base in type(source).__mro__:
        library = base.__module__.lstrip("_").partition(".")[0]
        if (library, base.__name__) in OPENERS:
            return Data(schema, f"{library} {base.__name__}", (OPENERS[library, base.__name__], source))
    raise DataError(f"a table must be {ACCEPTED}; got {type(source).__name__}")
