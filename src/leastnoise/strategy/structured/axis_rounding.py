"""Real rows of one axis rounded to integers.

Residual rows must vanish on their centre g in integers, or blocks that are meant to be independent are not.
So g is rounded first. With integer rows b_0, b_1, … that span what is asked of the axis, and v_i = b_i·g,

    v_p b_i − v_i b_p     (p: where |v| is largest, i ≠ p)                                             (1)

span what vanishes on g, in integers. The residual rows found by an optimiser are written on (1) with an
upper triangle of coefficients, which alone is rounded to a fine dyadic grid: a nonzero diagonal, seen on the
integers, shows that no direction was lost, and the product with (1) vanishes on g whatever the optimiser did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.decompositions import triangle_of
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.strategy.axis_form import AxisForm, centred_form
from leastnoise.strategy.grid import AXIS_SHARE, PRODUCT_ROW_BITS, on_grid, triangle_on_grid

# A centre has at least this many bits. Fewer would move the residual rows.
_MIN_CENTRE_BITS = 12

# And at most this many: more mean wider rows, and slower answers.
_MAX_CENTRE_BITS = 44


def rounded_centre(g: Array, roots: Sequence[Array], *, tol: float = 1e-6) -> Array:
    """g in integers, with as few bits as keep all residual rows where they are.

    What the rows of C are changed by when they are made to vanish on the rounded g is C g 1ᵀ / Σg: far less
    than the length of their longest column.

    Args:
        g: (n,), of positive sum.
        roots: the residual rows that have this centre, each (r, n).
        tol: the relative gap to the optimum that was asked for.

    Raises:
        DesignError: if g is not finite or has no positive sum.
    """
    total = float(g.sum())
    if not np.isfinite(g).all() or total <= 0:
        raise DesignError(
            "a centre must be finite and of positive sum", field="centre", remedy="rescale the queries' rows"
        )
    exponent = math.frexp(float(np.abs(g).max()))[1]
    limit = AXIS_SHARE * tol
    for bits in range(_MIN_CENTRE_BITS, _MAX_CENTRE_BITS + 1, 2):
        whole = np.rint(np.ldexp(g, bits - exponent))
        own = float(whole.sum())
        if own > 0 and all(_moved(root, whole / own) <= limit for root in roots):
            break
    if own <= 0:
        raise DesignError(
            "the sum of a centre is lost to rounding", field="centre", remedy="rescale the queries' rows"
        )
    return whole.astype(np.int64)


def _moved(root: Array, g: Array) -> float:
    """How far columns move when rows are made to vanish on g, beside the longest."""
    if len(root) == 0:
        return 0.0
    longest = math.sqrt(float((root**2).sum(axis=0).max())) or 1.0
    return float(np.linalg.norm(root @ g)) / longest


def split_form(root: Array, g: Array, basis: Array | None = None, *, tol: float = 1e-6) -> AxisForm:
    """Residual rows in integers, beside their centre.

    An axis of which nothing but the total is asked has no residual rows; its form is the plain one of all
    values, of which no block holds any.

    Args:
        root: C, (r, n), real; any positive multiple is the same proposal.
        g: the centre in integers, (n,), on which C vanishes but for rounding.
        basis: integer rows, (r + 1, n), that span C and the total; None for all values of the axis.
        tol: the relative gap to the optimum that was asked for; rounding costs about a hundredth of it.

    Raises:
        DesignError: if the rows are not finite, or rounding would lose a direction.
    """
    if not np.isfinite(root).all():
        raise DesignError(
            "the residual rows found are not finite", field="rows", remedy="rescale the queries' rows"
        )
    centre = exact.as_integers(g)
    n = len(centre)
    spanning = np.eye(n, dtype=np.int64) if basis is None else exact.as_integers(basis)
    if len(root) != len(spanning) - 1:
        raise DesignError(
            f"{len(spanning) - 1} residual rows are needed on this basis, got {len(root)}",
            field="rows",
            given=len(root),
        )
    v = exact.product(spanning, centre[:, None])[:, 0].astype(object)
    v = v // math.gcd(*v)
    p = int(np.argmax(np.abs(v)))
    others = np.array([i for i in range(len(v)) if i != p], dtype=np.int64)
    if len(others) == 0:
        return centred_form(n)
    total = float(int(centre.astype(object).sum()))
    weights = centre.astype(float) / total
    vanishing = root - np.outer(root @ weights, np.ones(n))
    coefficients = _on_basis(vanishing, None if basis is None else spanning)[:, others]
    grid = _rounded_triangle(coefficients, tol)
    # (1), rows i ≠ p.
    kernel = int(v[p]) * spanning[others].astype(object) - np.outer(v[others], spanning[p].astype(object))
    rows = exact.product(grid, exact.as_integers(kernel))
    return AxisForm("split", n, exact.as_integers(rows), centre)


def whole_form(root: Array, basis: Array | None = None, *, tol: float = 1e-6) -> AxisForm:
    """The rows of a whole axis in integers.

    Args:
        root: (r, n), real; any positive multiple is the same proposal.
        basis: integer rows, (r, n), that span them; None for all values of the axis.
        tol: as for `split_form`.

    Raises:
        DesignError: if the rows are not finite, or rounding would lose a direction.
    """
    if not np.isfinite(root).all():
        raise DesignError("the rows found are not finite", field="rows", remedy="rescale the queries' rows")
    n = root.shape[1]
    grid = _rounded_triangle(_on_basis(root, basis), tol)
    rows = grid if basis is None else exact.product(grid, exact.as_integers(basis))
    return AxisForm("whole", n, exact.as_integers(rows))


def joint_form(coefficients: Array, basis: Array | None, *, has_total: bool) -> AxisForm:
    """The rows of one axis in integers: every row of coefficients scaled to one size, rounded, on the basis.

    Args:
        coefficients: real, (r, r) on the basis.
        basis: integer rows, (r, n); None for all values.
        has_total: whether the first row is a multiple of 1ᵀ, which it then is exactly.

    Raises:
        DesignError: if they are not finite, or rounding makes them dependent.
    """
    if not np.isfinite(coefficients).all():
        raise DesignError(
            "the rows found are not finite", field="strategy", remedy="rescale the queries' rows"
        )
    largest = np.abs(coefficients).max(axis=1, keepdims=True)
    if not largest.all():
        raise DesignError("a row found is zero", field="strategy", remedy="rescale the queries' rows")
    grid = on_grid(coefficients / largest, PRODUCT_ROW_BITS)
    rows = grid if basis is None else exact.as_integers(exact.product(grid, exact.as_integers(basis)))
    if has_total:
        rows = np.array(rows)
        # As large as the others, or the multipliers of these would be too small to round.
        rows[0] = 1 << PRODUCT_ROW_BITS
    if not exact.is_of_full_row_rank(rows):
        raise DesignError(
            "rounding would lose a direction", field="strategy", remedy="rescale the queries' rows"
        )
    return AxisForm("whole", rows.shape[1], rows)


def _on_basis(rows: Array, basis: Array | None) -> Array:
    """Coefficients of rows on a basis that spans them."""
    from scipy import linalg

    if basis is None:
        return rows
    return np.asarray(linalg.lstsq(basis.astype(float).T, rows.T)[0].T)


def _rounded_triangle(coefficients: Array, tol: float) -> Array:
    """An upper triangle of integers with about the Gram matrix of the coefficients, up to a factor."""
    k = coefficients.shape[1]
    C = triangle_of(coefficients)
    if C.shape[0] != k or not np.diag(C).all():
        raise DesignError(
            "the rows found have lost a direction", field="rows", remedy="rescale the queries' rows"
        )
    return triangle_on_grid(C, math.sqrt(float((C**2).sum(axis=0).max())), AXIS_SHARE * tol)
