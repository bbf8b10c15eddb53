"""From random schemas, queries and tables to published numbers, against a loop over records."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.query import Query, Schema
from leastnoise.release import measuring
from test_data import Table, as_csv, as_pandas, as_parquet, schemas_with_tables
from test_queries import cell_by_cell, queries


def brute_force(asked: list[Query], schema: Schema, table: Table) -> list[int]:
    """Every answer by looking at every record: its cell by the schema's own words, then each row."""
    counts: dict[tuple[int, ...], int] = {}
    columns = [table[name][1] for name in schema.names]
    for record in zip(*columns, strict=True):
        cell = tuple(schema[name].place(value) for name, value in zip(schema.names, record, strict=True))
        if None not in cell:
            counts[cell] = counts.get(cell, 0) + 1  # type: ignore[index,arg-type]
    x = np.zeros(schema.shape, dtype=object)
    for place, count in counts.items():
        x[place] = count
    answers: list[int] = []
    for query in asked:
        rows, _ = cell_by_cell(query, schema)
        answers += [sum(a * int(c) for a, c in zip(row, x.ravel(), strict=True)) for row in rows]
    return answers


def published(asked: list[Query], schema: Schema, source: Any) -> ln.Release:
    plan = ln.design(ln.assemble(asked, schema), ln.ApproxDP(epsilon=1, delta=1e-6))
    with pytest.warns(UnrecordedSpending):
        return ln.measure(plan, ln.vectorize(source, schema))


@pytest.mark.parametrize("write", [as_csv, as_parquet, as_pandas], ids=lambda write: write.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=schemas_with_tables(), data=st.data())
def test_without_noise_the_published_numbers_are_the_truth(
    write: Any, monkeypatch: pytest.MonkeyPatch, drawn: tuple[Schema, Table], data: st.DataObject
) -> None:
    monkeypatch.setattr(measuring, "rounded_gaussian", lambda scale, size, bits: [0] * size)
    schema, table = drawn
    # Values of 10^30 cannot be added up beside counts in floats; such sums are refused, elsewhere.
    assume(schema.n_cells <= 300)
    assume(all(abs(v) < 10**6 for name in schema for v in schema[name].numbers() or []))
    asked = [data.draw(queries(schema)).having(name=f"q{i}") for i in range(data.draw(st.integers(1, 3)))]
    with tempfile.TemporaryDirectory() as folder:
        given_release = published(asked, schema, write(table, Path(folder)))
    truth = np.array(brute_force(asked, schema, table), dtype=float)
    size = 1 + np.abs(truth).max(initial=0)
    assert np.abs(given_release.answers - truth).max(initial=0) <= 1e-6 * size
    if truth.any():
        # The same check notices a record counted twice.
        assert np.abs(given_release.answers - 2 * truth).max() > 1e-6 * size
