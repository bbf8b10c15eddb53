"""How one axis is measured: an integer matrix over its values, and what undoes it.

    whole      M, part of every block; G = M⁺
    identity   M = I, part of every block; no matrix is held
    split      M with M g = 0 for an integer vector g: residuals beside the total 1ᵀ. G is the inverse of
               M on vectors of sum zero, so that 1ᵀG = 0 and G M = I − g 1ᵀ/(1ᵀg) on what M measures
    centred    M = n I − 11ᵀ and g = 1: split, for values without an order; no matrix is held
    crossed    M of full rank, measured as it is in some blocks, and the total 1ᵀ in others (`tables`). With
               Y = (MᵀM)⁻¹ and g = Y1/(1ᵀY1), G = (I − g 1ᵀ) M⁺ takes the residuals out of M x, and the noise
               of 1ᵀM⁺ M x, the total, is not correlated with theirs: G (1ᵀM⁺)ᵀ = Y1 − g 1ᵀY1 = 0

Costs of columns and answers are exact integers; G is floating point, as all that comes after the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.decompositions import full_rank_inverse, svd, triangle_inverse
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.merged_cells import row_blocks
from leastnoise.core.numerical_rank import WHOLE_TOL, is_within_reach, largest_share
from leastnoise.core.operators import Array, Operator, squared_rows
from leastnoise.core.resources import threads_for_matrices_of

FormKind = Literal["whole", "identity", "split", "centred", "crossed"]

# Directions this much weaker than the strongest are taken as not measured.
_RANK_TOL = 1e-11

# Entries from which it is worth a millisecond to decide how many threads multiply them.
_WORTH_DECIDING = 2**18

# M⁺M differs from the identity by no more than this where M has full rank.
_FULL_TOL = 1e-6


class AxisForm:
    """One axis of a structured strategy.

    Args:
        rows: M, integers, (r, n); None for "identity" and "centred".
        g: integers, (n,), for "split".

    Raises:
        DesignError: if they do not fit, or M g is not zero, exactly.
    """

    def __init__(self, kind: FormKind, size: int, rows: Array | None = None, g: Array | None = None) -> None:
        if kind not in get_args(FormKind) or type(size) is not int or size < 1:
            raise DesignError(
                f"an axis of {size!r} values cannot be measured as {kind!r}", field="kind", given=kind
            )
        self.kind: FormKind = kind
        self.size = size
        self.rows = None if rows is None else exact.as_integers(rows)
        self.g = None if g is None else exact.as_integers(g)
        has_rows = kind in ("whole", "split", "crossed")
        if has_rows != (self.rows is not None) or (kind == "split") != (self.g is not None):
            raise DesignError(f"an axis measured as {kind!r} holds other arrays", field="kind", given=kind)
        if self.rows is not None:
            if self.rows.ndim != 2 or self.rows.shape[1] != size:
                raise DesignError(f"the rows of an axis must have {size:,} columns", field="rows")
            self.rows.setflags(write=False)
        if self.g is not None and self.rows is not None:
            if self.g.shape != (size,) or int(self.g.astype(object).sum()) == 0:
                raise DesignError(
                    "the centre of an axis must be one integer per value, of sum other than zero",
                    field="centre",
                )
            if exact.product(self.rows, self.g.reshape(-1, 1)).any():
                raise DesignError("the residuals of an axis must not see its centre", field="centre")
            self.g.setflags(write=False)

    @property
    def is_split(self) -> bool:
        """Whether it is added up in some blocks."""
        return self.kind in ("split", "centred", "crossed")

    def has_centre_of(self, other: AxisForm) -> bool:
        """Whether two split forms have the same centre, exactly."""
        if "crossed" in (self.kind, other.kind):
            return self is other
        if self.g is None or other.g is None:
            return self.kind == other.kind == "centred"
        return np.array_equal(self.g, other.g)

    @property
    def n_rows(self) -> int:
        """How many integers it has in a block."""
        return self.size if self.rows is None else self.rows.shape[0]

    # Exact ------------------------------------------------------------------------------------------

    def costs(self, power: int) -> list[int]:
        """Σ a² (power 2) or Σ |a| (power 1) of every column."""
        if self.rows is None:
            return [self._plain_cost(power)] * self.size
        return self._square_sums if power == 2 else self._absolute_sums

    @cached_property
    def _square_sums(self) -> list[int]:
        assert self.rows is not None
        return exact.column_square_sums(self.rows)

    @cached_property
    def _absolute_sums(self) -> list[int]:
        assert self.rows is not None
        return exact.column_absolute_sums(self.rows)

    def largest_cost(self, power: int) -> int:
        """The largest of `costs`."""
        return self._plain_cost(power) if self.rows is None else max(self.costs(power))

    def _plain_cost(self, power: int) -> int:
        n = self.size
        if self.kind == "identity":
            return 1
        # n − 1 once and −1 in the other rows.
        return n * (n - 1) if power == 2 else 2 * (n - 1)

    @property
    def is_alike(self) -> bool:
        """Whether all columns have one length, and all pairs of them one inner product."""
        return self.rows is None

    def inner_products(self) -> tuple[int, int]:
        """The least and the largest inner product of two columns, a column with itself included."""
        if self.rows is None:
            least = 0 if self.kind == "identity" else -self.size
            return (least if self.size > 1 else self._plain_cost(2)), self._plain_cost(2)
        products = exact.product(self.rows.T, self.rows)
        return int(products.min()), int(products.max())

    def entries(self) -> Array:
        """M in Python integers."""
        if self.rows is not None:
            return self.rows.astype(object)
        identity = np.array([[int(i == j) for j in range(self.size)] for i in range(self.size)], dtype=object)
        return identity if self.kind == "identity" else self.size * identity - 1

    def answers(self, counts: Array) -> Array:
        """M x for every column x of an integer array, (n, c), exactly.

        Where M is held, in Python integers and with work that does not depend on the counts. Else in the
        type of the counts, whose sums the caller knows to fit.
        """
        if self.kind == "identity":
            return counts
        if self.rows is None:
            return self.size * counts - counts.sum(axis=0)
        if counts.dtype == object:
            return np.asarray(self.rows.astype(object) @ counts)
        return exact.matrix_times_counts(self.rows, counts)

    # Floating point ---------------------------------------------------------------------------------

    @cached_property
    def share(self) -> Array | None:
        """g/(1ᵀg), (n,); None where all its entries are equal."""
        if self.kind == "crossed":
            # Y1 = M⁺ (1ᵀM⁺)ᵀ.
            share = self._least_squares @ self.total_estimate
            return np.asarray(share / share.sum())
        if self.g is None:
            return None
        total = int(self.g.astype(object).sum())
        return np.array([int(value) / total for value in self.g.tolist()])

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        """M⁺, (n, r), and the rank of M, for an axis that holds a matrix."""
        assert self.rows is not None
        M = self._in_units
        G, rank = inverse_and_rank(self.rows, M)
        if self.kind == "crossed" and np.abs(G @ M - np.eye(self.size)).max() > _FULL_TOL:
            raise DesignError(
                "rows beside which an axis is added up must tell all of its values apart", field="rows"
            )
        return G / self._unit, rank

    @property
    def _least_squares(self) -> Array:
        return self._inverse_and_rank[0]

    @cached_property
    def total_estimate(self) -> Array:
        """1ᵀM⁺, (r,): how the total of an axis follows from what is measured of it, as it is."""
        return np.asarray(self._least_squares.sum(axis=0))

    @cached_property
    def measured(self) -> AxisForm:
        """What a table of this axis measures as it is: every value, or the rows of a crossed axis."""
        if self.kind == "crossed":
            return AxisForm("whole", self.size, self.rows)
        return identity_form(self.size)

    @cached_property
    def inverse(self) -> Array:
        """G as an (n, r) array, for an axis that holds a matrix."""
        G, share = self._least_squares, self.share
        # M⁺ is an inverse up to multiples of g, which M does not see; sums of zero say which of them.
        return np.asarray(G if share is None else G - np.outer(share, G.sum(axis=0)))

    @cached_property
    def is_full_rank(self) -> bool:
        """Whether every value follows from M, and from the total too where the axis is split."""
        if self.rows is None:
            return True
        r, n = self.rows.shape
        rank = n - 1 if self.kind == "split" else n
        if r < rank:
            return False
        # A triangle of integers is judged by its diagonal, exactly.
        is_triangle = exact.is_full_triangle(self.rows) or exact.is_full_triangle(self.rows.T)
        return is_triangle or self._inverse_and_rank[1] == rank

    @cached_property
    def _unit(self) -> float:
        """The largest entry of M, 1 where all are zero."""
        assert self.rows is not None
        return float(max(self.rows.max(initial=0), -self.rows.min(initial=0))) or 1.0

    @cached_property
    def _in_units(self) -> Array:
        """M over its largest entry."""
        assert self.rows is not None
        return self.rows.astype(float) / self._unit

    def gain_of(self, operator: Operator) -> Array:
        """W G for the rows W of an operator."""
        if self.kind == "identity":
            return operator.dense()
        if self.kind == "centred":
            W = operator.dense()
            return (W - W.mean(axis=1, keepdims=True)) / self.size
        return operator.apply(self.inverse)

    def gain(self, W: Array) -> Array:
        """W G for rows given as an array, (j, n)."""
        if self.kind == "identity":
            return W
        if self.kind == "centred":
            return np.asarray((W - W.mean(axis=1, keepdims=True)) / self.size)
        return np.asarray(W @ self.inverse)

    def apply_inverse(self, values: Array, position: int) -> Array:
        """G applied along one axis of an array."""
        if self.kind == "identity":
            return values
        if self.kind == "centred":
            return np.asarray((values - values.mean(axis=position, keepdims=True)) / self.size)
        return np.moveaxis(np.tensordot(self.inverse, values, axes=(1, position)), 0, position)

    def total_gain(self) -> Array:
        """1ᵀG, (r,): zero for a split axis."""
        if self.is_split:
            return np.zeros(self.n_rows)
        return np.ones(self.size) if self.rows is None else self.inverse.sum(axis=0)

    def row_gains(self, operator: Operator) -> Array:
        """‖w G‖² for every row w of an operator."""
        n = self.size
        if self.rows is not None:
            return squared_rows(operator, self.inverse)
        squares = operator.row_norms() ** 2
        if self.kind == "identity":
            return squares
        # ‖w − mean‖² = Σw² − (Σw)²/n; rows of few and of many ones lose no digits that count.
        sums = operator.apply(np.ones(n))
        return np.asarray(np.maximum(squares - sums**2 / n, 0.0) / n**2)

    def centre(self, operator: Operator) -> Array:
        """w·g/(1ᵀg) for every row w of an operator, on a split axis."""
        share = np.full(self.size, 1 / self.size) if self.share is None else self.share
        return operator.apply(share)

    def centre_of(self, W: Array) -> Array:
        """w·g/(1ᵀg) for rows given as an array."""
        return np.asarray(W.mean(axis=1) if self.share is None else W @ self.share)

    def spans(self, operator: Operator) -> bool:
        """Whether every row of an operator follows from what is measured, and the total of a split axis."""
        return all(is_within_reach(left, W).all() for left, W in self._left_over(operator.basis()))

    def distance_of(self, operator: Operator) -> float:
        """The largest coefficient that does not follow, beside the largest of its row; 0 for none."""
        asked = operator.basis() if operator.is_integer else operator
        distance = max((largest_share(left, W) for left, W in self._left_over(asked)), default=0.0)
        return 0.0 if operator.is_integer and distance <= WHOLE_TOL else distance

    def _left_over(self, operator: Operator) -> Iterator[tuple[Array, Array]]:
        """What does not follow from what is measured, and the rows that it is a part of, block by block."""
        if not self.is_full_rank:
            for _, W in row_blocks(operator):
                yield self.left_over(W), W

    def left_over(self, W: Array) -> Array:
        """What of rows, (j, n), does not follow from the rows measured, and the total of a split axis."""
        M, G, left = self._in_units, self.inverse * self._unit, W
        # Once more on what is left: the first pass is as far off as M is ill-conditioned.
        for _ in range(2):
            total = 0.0 if self.share is None else (left @ self.share)[:, None]
            left = left - (left @ G) @ M - total
        return np.asarray(left)

    # Files ------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays that `form_from_parts` reads back."""
        arrays = {}
        if self.rows is not None:
            arrays["rows"] = exact.to_limbs(self.rows)
        if self.g is not None:
            arrays["g"] = exact.to_limbs(self.g)
        return {"kind": self.kind, "size": self.size}, arrays


def inverse_and_rank(rows: Array, M: Array) -> tuple[Array, int]:
    """M⁺, (n, r), of integer rows in floats, in any unit, and their rank.

    Directions below _RANK_TOL of the strongest are taken as not measured.
    """
    r, n = rows.shape
    if r == n and np.count_nonzero(M) == np.count_nonzero(np.diag(M)) == n:
        return np.diag(1 / np.diag(M)), n
    # A triangle of integers is judged by its diagonal, exactly.
    if exact.is_full_triangle(rows):
        return triangle_inverse(M), n
    if exact.is_full_triangle(rows.T):
        return triangle_inverse(M.T).T, n
    if not M.any():
        return np.zeros((n, r)), 0
    with threads_for_rows(r, n):
        quick = full_rank_inverse(M)
    if quick is not None:
        return quick, min(r, n)
    U, s, Vt = svd(M)
    kept = s > _RANK_TOL * s[0]
    return np.asarray((Vt[kept].T / s[kept]) @ U[:, kept].T), int(kept.sum())


def threads_for_rows(r: int, n: int) -> AbstractContextManager[None]:
    """One thread for few rows over many cells, which wait for each other more than they compute."""
    return threads_for_matrices_of(r) if r * n >= _WORTH_DECIDING else nullcontext()


def form_from_parts(plain: Any, arrays: Mapping[str, Array]) -> AxisForm:
    """The form that `AxisForm.to_parts` took apart; M g = 0 is checked again.

    Raises:
        PlanFileError: if it is none.
    """
    rows, g = arrays.get("rows"), arrays.get("g")
    for limbs, n_axes in ((rows, 3), (g, 2)):
        if limbs is not None and (limbs.ndim != n_axes or limbs.dtype.kind != "i" or not limbs.size):
            raise PlanFileError("the file holds an axis whose arrays are not integers", field="strategy")
    try:
        return AxisForm(
            plain["kind"],
            plain["size"],
            None if rows is None else exact.from_limbs(rows),
            None if g is None else exact.from_limbs(g),
        )
    except DesignError as error:
        raise PlanFileError(
            f"the file holds an axis that cannot be measured: {error}", field="strategy"
        ) from None


def identity_form(size: int) -> AxisForm:
    """Plain counts of every value, in every block."""
    return AxisForm("identity", size)


def centred_form(size: int) -> AxisForm:
    """Values without an order, split into their total and deviations from the mean."""
    return AxisForm("centred", size)
