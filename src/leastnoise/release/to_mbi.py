"""A release in the terms of mbi (private-pgm), which fits a graphical model and draws synthetic tables.

mbi takes measurements q(μ) + noise of cross tables μ, each with the standard deviation of its noise, and
looks for the distribution that explains them best. A release is made of such measurements:

    a block of `structured`          k ⊗ M_a, of the cross table of the axes that it measures
    a weighted table of `tables`     k times the cross table itself
    the rows of `strategy`           A, of the table of all cells
    products with a weight each      k_i ⊗ T_a[i_a, :] of all i together, of the table of all cells
    the rows of `combined_rows`      C·B, of the table of all cells added up by kind of cell

Each is handed over once, with its own noise, and nothing that was made from it: the answers of a release
follow from one another, and mbi would take them as independent. Numbers and noise are divided by k Π u_a,
u_a the largest entry of M_a (n for n I − 11ᵀ), so that they count records with weights of at most one,
whatever grid of integers was measured.

All this is post-processing of what was released and costs no privacy. So are the fit and the tables drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.errors import QueryError, TooLargeError, WorkloadError
from leastnoise.core.extras import missing_package, require
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.planning import Plan
from leastnoise.query import Schema, Total
from leastnoise.strategy import AxisForm, MeasuredPart

# Rows over all cells make mbi hold all cells in one factor; with more than this it is of no use.
MAX_CELLS = 10**6


class _Released(Protocol):
    """What is looked at of a release."""

    @property
    def plan(self) -> Plan: ...
    @property
    def held_measurements(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class ForMbi:
    """What mbi's estimators take.

    Attributes:
        domain: an `mbi.Domain`: the attributes of the schema in their order, and how many values each has.
            Value number i of an attribute is ``schema[name].label(i)``.
        measurements: `mbi.LinearMeasurement`, all that was measured.
        estimated_total: how many records there are, as the release estimates it; None where it does not tell.
    """

    domain: Any
    measurements: list[Any]
    estimated_total: float | None

    @property
    def total(self) -> float:
        """How many records a fitted model has: pass it as ``known_total``; at least 1, as mbi needs.

        Without ``known_total`` mbi adds up measured cross tables where there are some and
        otherwise takes 1, without a word.

        Raises:
            QueryError: where the release does not tell how many records there are.
        """
        if self.estimated_total is None:
            raise QueryError(
                "this release does not tell how many records there are",
                field="known_total",
                given=None,
                remedy="pass known_total= where that is public, or add Total() to the workload and call "
                "design() again",
            )
        return max(1.0, self.estimated_total)


def to_mbi(release: _Released) -> ForMbi:
    """The measurements of a release, its domain and its number of records, for mbi to fit a model to.

        import jax; jax.config.update("jax_enable_x64", True)   # before mbi is imported: see its own advice
        import mbi

        given = to_mbi(release)
        estimator = mbi.estimation.MirrorDescent()
        model = estimator.estimate(given.domain, given.measurements, known_total=given.total)
        model.synthetic_data()

    mbi's loss is that of Gaussian noise. Measurements with Laplace noise come with its standard deviation,
    and the fit is then one of weighted least squares, not of greatest likelihood.

    Guarantee:
        Costs no privacy: computed from what was already released.

    Raises:
        MissingExtraError: if mbi 2 is not installed.
        MethodError: where the plan depends on the data, and there are no linear measurements.
        WorkloadError: if the plan has no schema.
        TooLargeError: if rows over more than 10⁶ cells were measured, or over too many kinds of them.
    """
    return ForMbi(domain_for_mbi(release), measurements_for_mbi(release), _estimated_total(release))


def domain_for_mbi(release: _Released) -> Any:
    """The `mbi.Domain` of a release: the attributes of its schema, those with a single value too.

    Raises:
        MissingExtraError, WorkloadError: as `to_mbi`.
    """
    mbi = _imported()
    schema = _schema(release)
    return mbi.Domain(schema.names, schema.shape)


def measurements_for_mbi(release: _Released) -> list[Any]:
    """What was measured, as a list of `mbi.LinearMeasurement`, one for each block.

    The information is that of the release, no more and no less: with Q the queries of the list as matrices
    over all cells, z their noisy values and s their standard deviations, Σ QᵀQ/s² = AᵀA/ν and
    Σ Qᵀz/s² = Aᵀy/ν, ν the variance of the noise on each measured integer.

    Raises:
        MissingExtraError, MethodError, WorkloadError, TooLargeError: as `to_mbi`.
    """
    mbi = _imported()
    strategy, schema = release.plan.fixed_strategy(), _schema(release)
    noise = math.sqrt(strategy.noise_variance)
    found, start = [], 0
    for part in strategy.parts():
        clique = schema.names if part.axes is None else tuple(chain.from_iterable(part.axes))
        k = part.multipliers
        # Rows over all cells make mbi hold these in one factor.
        if part.axes is None or not isinstance(k, int):
            _require_few_cells(strategy.n_cells)
        largest = k if isinstance(k, int) else int(k.max())
        # In whole numbers: both sides of the quotients may be wider than a float is precise.
        divisor = largest * math.prod(_unit(form) for form in part.forms)
        query = _query(part, largest, mbi)
        is_one = isinstance(k, int)
        size = math.prod(form.n_rows for form in part.forms) if is_one else int(np.count_nonzero(k))
        y = release.held_measurements[start : start + size]
        start += size
        values = np.array([int(value) / divisor for value in y])
        found.append(mbi.LinearMeasurement(values, clique, stddev=noise / divisor, query=query))
    return found


def _query(part: MeasuredPart, largest: int, mbi: Any) -> Any:
    """What is measured of a cross table, in units in which no coefficient exceeds one."""
    if part.cells is not None:
        return KindsQuery(part.forms, part.cells)
    if not isinstance(part.multipliers, int):
        measured = np.flatnonzero(part.multipliers)
        shares = (part.multipliers[measured] / largest).astype(float)
        return JointQuery(part.forms, measured.tobytes(), shares.tobytes())
    # Where the table itself was measured, mbi knows that it can add it up.
    is_plain = all(form.kind == "identity" for form in part.forms)
    return mbi.DatavectorQuery() if is_plain else BlockQuery(part.forms)


def _require_few_cells(n_cells: int) -> None:
    if n_cells > MAX_CELLS:
        raise TooLargeError(
            f"the plan measures rows over all of {in_figures(n_cells)} cells, which mbi would hold as one "
            f"table; at most {MAX_CELLS:,} are handed over",
            field="plan",
            given=n_cells,
            remedy="try design() with method='residuals'",
        )


@dataclass(frozen=True)
class JointQuery:
    """diag(k) ⊗ T_a/u_a of the table of all cells: a query that JAX can trace.

    Attributes:
        measured, shares: which products are measured, and k of each over the largest, as bytes of int64 and
            float64, by which queries are compared.
    """

    forms: tuple[AxisForm, ...]
    measured: bytes
    shares: bytes

    def __call__(self, factor: Any) -> Any:
        """What is measured of an `mbi.Factor` over all attributes, in the order of the axes."""
        values = BlockQuery(self.forms)(factor)
        return values[np.frombuffer(self.measured, dtype=np.int64)] * np.frombuffer(self.shares)

    def op_norm_sq(self) -> float:
        """A bound on ‖q(μ)‖²/‖μ‖², from which mbi takes the lengths of its steps: no share exceeds one."""
        return BlockQuery(self.forms).op_norm_sq()


@dataclass(frozen=True)
class KindsQuery:
    """M/u of the table of all cells, of which those that are measured alike are added up first.

    Attributes:
        forms: M, over the kinds of cells.
        cells: which cell is of which kind; equal queries have the same object.
    """

    forms: tuple[AxisForm, ...]
    cells: Cells

    def __call__(self, factor: Any) -> Any:
        """What is measured of an `mbi.Factor` over all attributes, in the order of the schema."""
        import jax.numpy as jnp

        values = factor.values.reshape(-1)[np.flatnonzero(self.cells.used)]
        if self.cells.signs is not None:
            values = values * self.cells.signs.astype(float)
        kinds = jnp.zeros(len(self.cells.first), dtype=values.dtype).at[self.cells.kind].add(values)
        return _scaled(self.forms[0]).matrix @ kinds

    def op_norm_sq(self) -> float:
        """A bound on ‖q(μ)‖²/‖μ‖²: n cells added up have at most n times the sum of their squares."""
        return _scaled(self.forms[0]).norm_squared * float(self.cells.counts.max(initial=1))


@dataclass(frozen=True)
class BlockQuery:
    """⊗ M_a/u_a of a cross table, the last axis fastest: a query that JAX can trace.

    Queries are equal where their forms are the same objects, so two releases of one structured plan share
    what JAX compiled.
    """

    forms: tuple[AxisForm, ...]

    def __call__(self, factor: Any) -> Any:
        """What is measured of an `mbi.Factor` over the block's attributes, in their order."""
        import jax.numpy as jnp

        # Attributes that are tied together are one axis.
        values = factor.values.reshape([form.size for form in self.forms])
        for position, form in enumerate(self.forms):
            if form.kind == "centred":
                values = values - values.mean(axis=position, keepdims=True)
            elif form.kind != "identity":
                values = jnp.moveaxis(
                    jnp.tensordot(_scaled(form).matrix, values, axes=(1, position)), 0, position
                )
        return values.reshape(-1)

    def op_norm_sq(self) -> float:
        """The largest ‖q(μ)‖²/‖μ‖², from which mbi takes the lengths of its steps.

        Without it mbi would look for that number by repeated multiplication of the uniform table, of
        which residuals see nothing.
        """
        # I − 11ᵀ/n takes away and the identity keeps: both have norm 1.
        return math.prod(_scaled(form).norm_squared for form in self.forms if form.rows is not None)


class _ScaledForm:
    """M_a/u_a in floating point."""

    def __init__(self, form: AxisForm) -> None:
        assert form.rows is not None
        self.matrix = np.asarray((form.rows / _unit(form)).astype(float))
        self.matrix.setflags(write=False)

    @cached_property
    def norm_squared(self) -> float:
        """The largest eigenvalue of the smaller of its two Gram matrices."""
        from scipy import linalg

        r, n = self.matrix.shape
        gram = self.matrix @ self.matrix.T if r < n else self.matrix.T @ self.matrix
        last = len(gram) - 1
        return float(linalg.eigh(gram, eigvals_only=True, subset_by_index=[last, last])[0])


# Blocks share the forms of their axes, and a matrix may be large.
_SCALED: WeakKeyDictionary[AxisForm, _ScaledForm] = WeakKeyDictionary()


def _scaled(form: AxisForm) -> _ScaledForm:
    if form not in _SCALED:
        _SCALED[form] = _ScaledForm(form)
    return _SCALED[form]


def _unit(form: AxisForm) -> int:
    """What the integers of an axis are divided by."""
    if form.rows is None:
        # n I − 11ᵀ, divided by n, takes the mean away.
        return form.size if form.kind == "centred" else 1
    return max(int(form.rows.max(initial=0)), -int(form.rows.min(initial=0))) or 1


def _estimated_total(release: _Released) -> float | None:
    """The answer to Total(); None where the plan does not determine it."""
    try:
        asked = release.plan.asked(Total())
    except QueryError:
        return None
    return float(release.plan.fixed_strategy().answers_of(asked, release.held_measurements)[0])


def _schema(release: _Released) -> Schema:
    schema = release.plan.workload.schema
    if schema is None:
        raise WorkloadError(
            "mbi needs attributes, and this plan was made from a matrix without a schema",
            field="schema",
            given=None,
            remedy="give a schema to Workload.from_matrix()",
        )
    return schema


def _imported() -> Any:
    """The package mbi, version 2 or later."""
    why = "handing a release to mbi"
    mbi = require("mbi", extra="mbi", why=why)
    # Earlier versions have other estimators, and queries without norms.
    if not hasattr(mbi, "DatavectorQuery"):
        raise missing_package("mbi", extra="mbi", why=why)
    return mbi
