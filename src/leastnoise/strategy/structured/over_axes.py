"""Strategies that measure products over the axes, and so answer a workload product by product.

Whatever the blocks are, a product has variances along its rows, and values made of what is known of the
blocks; everything else that is asked of a strategy follows from these two.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, require_room
from leastnoise.query import Axis, Products, ProductTerm, Workload, products_of
from leastnoise.strategy.measured import AnswerPieces, Measured, Spread
from leastnoise.strategy.stored import StoredIntegers
from leastnoise.strategy.structured import accuracy
from leastnoise.strategy.structured.gram import BlockOfAxes, adjoint_applied, applied
from leastnoise.strategy.structured.view import View


class OverAxes(Measured):
    """Integers that are products over the axes.

    Attributes:
        axes: names and sizes of the attributes of each axis, all of the schema that tell records apart.
    """

    axes: tuple[Axis, ...]
    _views: WeakKeyDictionary[Workload, View]

    @abstractmethod
    def _new_view(self, products: Products) -> View:
        """A workload as this strategy sees it."""

    @abstractmethod
    def _known(self, measurements: Array) -> Any:
        """What is known of the blocks, from measured integers or noise alone, (n_measured, draws)."""

    def _known_of_stored(self, measurements: StoredIntegers) -> Any:
        """The same of integers on a disk, read when it is asked for where that is possible."""
        return self._known(np.asarray(measurements)[:, None])

    @abstractmethod
    def _term_values(self, view: View, term: ProductTerm, known: Any) -> Array:
        """The answers to one product, rows along the axes of the product and then draws, or 1 for alike."""

    @abstractmethod
    def _term_covariances(self, left: View, one: ProductTerm, right: View, other: ProductTerm) -> Array:
        """The covariances of the answers to two products, rows with the last axis fastest."""

    @abstractmethod
    def _blocks_of_axes(self) -> Sequence[BlockOfAxes]:
        """What is measured in floats, block by block."""

    def apply(self, x: Array) -> Array:
        return applied(self.axes, self._blocks_of_axes(), x)

    def adjoint(self, y: Array) -> Array:
        return adjoint_applied(self.axes, self._blocks_of_axes(), y)

    @property
    def n_cells(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    @property
    def shape(self) -> tuple[int, int]:
        """How many integers are measured, over how many cells."""
        return self.n_measured, self.n_cells

    def with_scale(self, scale: int) -> Self:
        other = super().with_scale(scale)
        # A view holds variances, which depend on the scale.
        other._keep(_views=WeakKeyDictionary())
        return other

    # What is asked ----------------------------------------------------------------------------------

    def view(self, workload: Workload, products: Products | None = None) -> View:
        """A workload seen from this strategy, looked at once.

        Raises:
            DesignError: if some query ties its axes together.
        """
        if workload not in self._views:
            products = products_of(workload, self.axes) if products is None else products
            if products is None:
                raise DesignError(
                    "the strategy cannot answer queries that tie its axes together", field="workload"
                )
            self._views[workload] = self._new_view(products)
        return self._views[workload]

    def can_answer_all(self, workload: Workload) -> bool:
        return self.first_unanswerable(workload) is None

    def first_unanswerable(self, workload: Workload) -> int | None:
        products = products_of(workload, self.axes)
        return 0 if products is None else self.view(workload, products).first_unanswerable

    def distance_of(self, workload: Workload) -> float:
        return self.view(workload).distance

    # From integers to answers -------------------------------------------------------------------------

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return self._answers(workload, measurements[:, None])[:, 0]

    def stored_answers(self, workload: Workload, measurements: StoredIntegers) -> Array:
        return self._workload_values(workload, self._known_of_stored(measurements), 1)[:, 0]

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        return partial(self._answers, workload)

    def answer_pieces(self, workload: Workload, measurements: Array | StoredIntegers) -> AnswerPieces:
        view = self.view(workload)
        if isinstance(measurements, StoredIntegers):
            known = self._known_of_stored(measurements)
        else:
            known = self._known(measurements[:, None])

        def answered(product: int, start: int, stop: int) -> tuple[Array, Array]:
            term = view.products.terms[product]
            assert (term.start, term.start + term.n_rows) == (start, stop)
            variances = np.broadcast_to(accuracy.product_variances(view, product), term.n_rows)
            return self._labelled_values(view, term, known, 1)[:, 0], variances

        return answered

    def _answers(self, workload: Workload, y: Array) -> Array:
        """Answers, (m, draws), from measured integers or noise alone, (n_measured, draws)."""
        return self._workload_values(workload, self._known(y), y.shape[1])

    def _workload_values(self, workload: Workload, known: Any, draws: int) -> Array:
        """The answers to all products of a workload, (m, draws)."""
        view, m = self.view(workload), workload.shape[0]
        require_room(m, draws, "the answers")
        result = np.empty((m, draws))
        for term in view.products.terms:
            result[term.start : term.start + term.n_rows] = self._labelled_values(view, term, known, draws)
        return result

    def _labelled_values(self, view: View, term: ProductTerm, known: Any, draws: int) -> Array:
        """The answers to one product, (n_rows, draws), in the order of its labels."""
        values = self._term_values(view, term, known)
        values = np.broadcast_to(values, (*accuracy.row_shape(view.products, term), draws))
        return term.in_workload_order(values.reshape(term.n_rows, draws))

    # Accuracy ---------------------------------------------------------------------------------------

    def variances_of(self, workload: Workload) -> Array:
        return accuracy.variances(self.view(workload), workload)

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        shape = left.shape[0], right.shape[0]
        require_room(*shape, "the covariances")
        result = np.zeros(shape)
        views = self.view(left), self.view(right)
        for one in views[0].products.terms:
            rows = slice(one.start, one.start + one.n_rows)
            for other in views[1].products.terms:
                part = self._term_covariances(views[0], one, views[1], other)
                part = other.in_workload_order(one.in_workload_order(part).T).T
                result[rows, other.start : other.start + other.n_rows] = part
        return result

    def spreads(self, workload: Workload) -> list[Spread]:
        return accuracy.spreads(self.view(workload), workload)

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        return accuracy.total_variance(self.view(workload), workload, weights)

    def total_stderr(self, workload: Workload, weights: Sequence[Array]) -> float:
        return accuracy.total_stderr(self.view(workload), workload, weights)

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        return accuracy.largest_share(self.view(workload), workload, caps)
