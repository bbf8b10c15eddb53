"""Strategies of every kind, each made by hand over one small schema: what laws of strategies are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core.operators import Array
from leastnoise.query import Axis, classes_of, part_of
from leastnoise.strategy import AxisForm, Measured, OverClasses, Strategy, centred_form, identity_form
from leastnoise.strategy.combined_rows import combined_rows
from leastnoise.strategy.query_rows import RowsAsAsked
from leastnoise.strategy.side_by_side import Side, SideBySide
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.tables import WeightedTables

# "one" has a single value, which no axis holds; region and sex may be tied although age stands between them.
SCHEMA = ln.Schema(region=("n", "s", "w"), one=("x",), age=range(4), sex=("F", "M"))
REGION, AGE, SEX = Axis(("region",), (3,), (0,)), Axis(("age",), (4,), (2,)), Axis(("sex",), (2,), (3,))
BOTH = Axis(("region", "sex"), (3, 2), (0, 3))

# Queries over all cells. The fourth is the sum of the first two.
CONDITIONS = ln.assemble(
    [
        ln.Where("sex = 'F' and age >= 2", name="a"),
        ln.Where("sex = 'F' and age < 2", name="b"),
        ln.Where("region = 'n' or age = 0", name="c"),
        ln.Where("sex = 'F'", name="d"),
        ln.Where("region <> 's' and age <= 1", name="e"),
        ln.Total(name="all"),
    ],
    SCHEMA,
)


def random_rows(n_rows: int, size: int, seed: int) -> AxisForm:
    return AxisForm("whole", size, np.random.default_rng(seed).integers(-40, 41, (n_rows, size)))


def random_residuals(size: int, seed: int) -> AxisForm:
    """Random rows that do not see a random centre."""
    rng = np.random.default_rng(seed)
    g = rng.integers(1, 5, size)
    basis = g[0] * np.eye(size, dtype=int)[1:] - np.outer(g[1:], np.eye(size, dtype=int)[0])
    return AxisForm("split", size, rng.integers(-3, 4, (size + 1, size - 1)) @ basis, g)


def blocks_of(*axes: tuple[int, ...]) -> list[ProductBlock]:
    return [ProductBlock(own, (0,) * len(own), 3 + 2 * i) for i, own in enumerate(axes)]


def weighted_rows(
    axes: Sequence[Axis], forms: Sequence[AxisForm], multipliers: Array, **facts: Any
) -> Structured:
    """Products of rows, each with a multiplier of its own."""
    blocks = [ProductBlock((), (), 1, weights=multipliers)]
    return Structured(axes, [[form] for form in forms], blocks, **{"noise": "gaussian", **facts})


def made(name: str) -> Measured:
    """Strategies of every kind, by hand."""
    facts: dict[str, Any] = {"scale": 1000, "noise": "gaussian"}
    pairs = blocks_of((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    three, centred = (REGION, AGE, SEX), [[centred_form(n)] for n in (3, 4, 2)]
    if name == "centred":
        return Structured(three, centred, pairs, **facts)
    if name == "centred, laplace":
        return Structured(three, centred, pairs, **facts | {"noise": "laplace"})
    if name == "several forms":
        first = random_residuals(4, 2)
        assert first.rows is not None
        forms = [[centred_form(3)], [first, AxisForm("split", 4, first.rows[:2], first.g)], [centred_form(2)]]
        return Structured(three, forms, [*pairs, ProductBlock((1, 2), (1, 0), 11)], **facts)
    if name == "whole axes":
        forms = [[random_rows(5, 3, 1)], [identity_form(4)], [centred_form(2)]]
        return Structured(three, forms, blocks_of((), (2,)), **facts)
    if name == "plain":
        forms = [[identity_form(3)], [identity_form(4)], []]
        return Structured(three, forms, blocks_of(()), **facts)
    if name == "tied":
        forms = [[random_residuals(6, 3)], [centred_form(4)]]
        return Structured((BOTH, AGE), forms, blocks_of((), (0,), (1,), (0, 1)), **facts)
    if name == "tables":
        return WeightedTables(
            three, centred, blocks_of((), (1,), (0, 1), (1, 2)), **facts | {"noise": "laplace"}
        )
    if name == "joint":
        # Sums over an axis take its first row alone, so that some products of the others may be missing.
        k = np.arange(1, 25).reshape(4, 3, 2)
        k[1:, 1:, 1:][k[1:, 1:, 1:] % 3 == 0] = 0
        # And one row of the first axis has no part in anything.
        k[3] = 0
        rows = [np.vstack([np.full((1, n), 2), random_rows(n - 1, n, n).entries()]) for n in (4, 3, 2)]
        forms = [AxisForm("whole", own.shape[1], own) for own in rows]
        # Axes in another order than the attributes of the schema.
        return weighted_rows((AGE, REGION, SEX), forms, np.asarray(k), **facts)
    if name == "combined":
        C = np.triu(np.random.default_rng(6).integers(1, 9, (5, 5)).astype(object) * 3**40)
        return combined_rows(
            C, CONDITIONS, np.array([0, 1, 2, 4, 5]), neighbours="add-remove", **facts | {"scale": 3**40}
        )
    if name == "classes":
        classes = classes_of(CONDITIONS)
        assert classes is not None and classes.n < SCHEMA.n_cells
        rows = np.random.default_rng(8).integers(-9, 10, (classes.n + 2, classes.n))
        return OverClasses(Strategy(rows, **facts), classes)
    if name == "side by side":
        sides = []
        for seed, factor, names in ((9, 7, ("a", "b", "c")), (10, 3, ("d", "e", "all"))):
            classes = classes_of(part_of(CONDITIONS, names))
            assert classes is not None
            rows = np.random.default_rng(seed).integers(-9, 10, (classes.n + 1, classes.n))
            sides.append(Side(OverClasses(Strategy(rows, **facts), classes), factor, names))
        return SideBySide(sides)
    if name == "queries":
        return RowsAsAsked(CONDITIONS, bits=3, **facts)
    assert name == "dense"
    # Integers beyond 64 bits, as fine grids have them.
    rows = np.random.default_rng(4).integers(-9, 10, (30, SCHEMA.n_cells)).astype(object) * 3**50
    return Strategy(rows, scale=3**50, noise="gaussian")


PRODUCTS = ("centred", "centred, laplace", "several forms", "whole axes", "plain", "tied", "tables")
KINDS = (*PRODUCTS, "dense", "queries", "joint", "combined", "classes", "side by side")
