"""Does a plan answer what its labels say? Held against the queries' own descriptions, on invented records.

A certificate speaks of numbers, not of labels: it does not change when answers are permuted. So every plan
measures a handful of invented records without noise, answers a sample of its queries from that, and compares
each answer with what its label says, record by record (`query.queries.meaning`). Most records are drawn
so that they count in some query of the sample: in a table of a million cells a record drawn blindly would
count in none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.printable import printable
from leastnoise.query import CELL, Cell, InventedRecords, RowMeaning, Workload
from leastnoise.strategy import Measured

# Queries that are looked at in each batch.
QUERIES_PER_BATCH = 6

# Queries that are looked at in all.
MAX_QUERIES = 48

# Records that are invented besides one for every query of the sample.
MORE_RECORDS = 8

# How often a record may be repeated. Different numbers of repetitions tell records apart.
MAX_REPETITIONS = 1_000

# What floating-point reconstruction may lose, beside the size of the coefficients times the counts.
ROUNDING = 1e-6


def check_labels(workload: Workload, strategy: Measured) -> None:
    """Return if a sample of queries is answered as their labels say.

    Raises:
        DesignError: naming a query that is not.
    """
    # Drawn in the same way each time, so that a refusal can be looked into.
    rng = np.random.default_rng([number % 2**63 for number in workload.shape])
    sample = _sample(workload, rng)
    records = _invented(workload, [row for _, row in sample], rng)
    answers = strategy.noiseless_answers(workload, records, [j for j, _ in sample])
    for (j, row), answer in zip(sample, answers.tolist(), strict=True):
        label = workload.labels[j]
        if label != row.label:
            raise _refusal(f"row {j:,} is called {label!r} and asks for {row.label!r}")
        truth, size = records.truth(row)
        if not abs(answer - truth) <= ROUNDING * max(size, 1.0):
            raise _refusal(
                f"{label!r} counts {truth:.6g} of some invented records, and {answer:.6g} came out"
            )


def _refusal(what: str) -> DesignError:
    return DesignError(
        f"the plan would publish wrong answers: {printable(what)}. This is a fault of leastnoise, not of the "
        'request; nothing was spent. Try another method, such as method="dense", and report it.'
    )


def _sample(workload: Workload, rng: np.random.Generator) -> list[tuple[int, RowMeaning]]:
    """Some queries by number, and what each says: of every batch, unless there are too many batches."""
    blocks = list(enumerate(workload.blocks))
    if len(blocks) > MAX_QUERIES:
        blocks = [blocks[i] for i in sorted(rng.permutation(len(blocks))[:MAX_QUERIES].tolist())]
    each = min(QUERIES_PER_BATCH, MAX_QUERIES // len(blocks))
    first = [0]
    for block in workload.blocks:
        first.append(first[-1] + block.n_rows)
    found = []
    for number, block in blocks:
        meaning = block.meaning(workload.schema)
        starts = meaning.starts
        if starts[-1] != block.n_rows:
            raise _refusal(f"{block.name!r} has {block.n_rows:,} rows and asks for {starts[-1]:,}")
        for i in _some_rows(starts, each, rng):
            found.append((first[number] + i, meaning.row(i, starts)))
    return found


def _some_rows(starts: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """Rows of a query: all if there are few; else a table at random, then a row of it."""
    if starts[-1] <= count:
        return list(range(starts[-1]))
    chosen = set()
    for table in rng.integers(len(starts) - 1, size=count).tolist():
        n_rows = starts[table + 1] - starts[table]
        # By a share: a table may have more rows than a 64-bit integer holds.
        chosen.add(starts[table] + int(rng.random() * n_rows))
    return sorted(chosen)


def _invented(workload: Workload, rows: Sequence[RowMeaning], rng: np.random.Generator) -> InventedRecords:
    schema = workload.schema
    if schema is None:
        sizes = {CELL: workload.shape[1]}
    else:
        sizes = dict(zip(schema.names, schema.shape, strict=True))
    cells: list[Cell] = []
    for row in [*rows, *([None] * MORE_RECORDS)]:
        shares = rng.random(len(sizes)).tolist()
        anywhere = {name: int(share * n) for share, (name, n) in zip(shares, sizes.items(), strict=True)}
        cells.append(anywhere if row is None else anywhere | dict(row.example(rng)))
    times = rng.integers(1, MAX_REPETITIONS, size=len(cells)).tolist()
    return InventedRecords(sizes, tuple(cells), tuple(times))
