"""The two tables of the paper's relative errors: UCI Adult, and a stand-in for the US Census extract."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from leastnoise.core.errors import DataError
from leastnoise.core.operators import Array
from leastnoise.papers.reproductions.adaptive.adaptive_tasks import sizes_of

# Table 1 of the paper.
TABLES = {"US Census": "8x16x16", "Adult": "8x8x16x2"}
_PEOPLE = {"US Census": 15_000_000, "Adult": 32_561}

# Half the values of every attribute with more than two: what a quick run holds.
COARSE = {"US Census": "4x8x8", "Adult": "4x4x8x2"}

# Columns of adult.data, counted from 0.
_AGE = 0
_WORK = 1
_EDUCATION = 4
_INCOME = 14

# The youngest and the oldest in it.
_AGES = (17, 90)

# Seven kinds of work, and not told; those who never worked are with those who are not paid.
_WORKS = (
    "Private",
    "Self-emp-not-inc",
    "Self-emp-inc",
    "Federal-gov",
    "Local-gov",
    "State-gov",
    "Without-pay",
    "?",
)
_SEED = 2012


def counts_of(table: str, shape: str, data: Path | None) -> tuple[Array, str]:
    """Counts of the cells of a table, and where they come from.

    Args:
        shape: that of the table, or a coarser one with whole numbers of neighbours merged.
    """
    if table == "Adult" and data is not None:
        counts, source = _adult(data / "adult.data"), "adult.data"
    else:
        counts, source = _stand_in(table), "stand-in"
    return _merged(counts, sizes_of(shape)), source


def _adult(path: Path) -> Array:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            records = [[field.strip() for field in row] for row in csv.reader(file) if row]
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}", field="data", given=str(path)
        ) from None
    counts = np.zeros(sizes_of(TABLES["Adult"]), dtype=np.int64)
    youngest, oldest = _AGES
    for record in records:
        try:
            age = (int(record[_AGE]) - youngest) * 8 // (oldest - youngest + 1)
            work = _WORKS.index("Without-pay" if record[_WORK] == "Never-worked" else record[_WORK])
            counts[age, work, int(record[_EDUCATION]) - 1, int(record[_INCOME].startswith(">"))] += 1
        except (ValueError, IndexError):
            raise DataError(
                f"{path} holds a line that is not of UCI Adult", field="data", given=str(path)
            ) from None
    return counts.reshape(-1)


def _stand_in(table: str) -> Array:
    """People spread unevenly over each attribute, with some dependence between attributes."""
    generator = np.random.default_rng(_SEED)
    sizes = sizes_of(TABLES[table])
    share: Array = np.ones(1)
    for n in sizes:
        share = np.kron(share, generator.dirichlet(np.ones(n)))
    share = share * generator.lognormal(0, 1, len(share))
    return np.asarray(generator.multinomial(_PEOPLE[table], share / share.sum()))


def _merged(counts: Array, sizes: tuple[int, ...]) -> Array:
    full = counts.reshape(_shape_before(counts.size, sizes))
    return np.asarray(full.sum(axis=tuple(range(1, full.ndim, 2))).reshape(-1))


def _shape_before(n: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Each attribute as (values kept, neighbours merged)."""
    shape = next((sizes_of(s) for s in TABLES.values() if len(sizes_of(s)) == len(sizes)), (n,))
    if len(sizes) == 1:
        shape = (n,)
    return tuple(part for kept, whole in zip(sizes, shape, strict=True) for part in (kept, whole // kept))
