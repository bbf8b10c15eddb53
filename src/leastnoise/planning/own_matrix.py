"""A strategy matrix of one's own, judged like any other: sensitivity, standard errors, certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from leastnoise.bounds import Witness
from leastnoise.core.errors import DesignError, InputError, LeastnoiseError, WorkloadError
from leastnoise.core.numerical_rank import SPAN_TOL
from leastnoise.core.operators import Array, from_entries, require_room
from leastnoise.core.printable import printable
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.fixed_rows import OWN
from leastnoise.planning.families.proposals import from_rows
from leastnoise.planning.method import Request, SearchResult, uniform_weights
from leastnoise.planning.one_method import attempt, plan_of
from leastnoise.planning.plan import Plan
from leastnoise.planning.request import checked_request
from leastnoise.privacy import Goal
from leastnoise.query import Objective, Workload
from leastnoise.strategy import RealStrategy, integer_basis

# Whole numbers below this are measured as they are.
_LARGEST = 2**30

# The gap of the search whose dual weights prove the lower bound, and the operations that it may take: more
# would not change what a comparison says.
_TOL = 1e-3
_MOST_OPERATIONS = 1e11


def plan_from(workload: Workload, A: Any, privacy: Goal, *, objective: Objective | None = None) -> Plan:
    """The plan that measures the rows of a matrix, with the least noise that the goal allows.

    Its sensitivity is that of the whole numbers that are measured, exactly, and its standard errors are
    those of least squares over them. Its certificate compares it with the least that any noise can have.

    Args:
        workload: the queries to answer, from `assemble` or `Workload.from_matrix`.
        A: the rows to measure, (k, n), an array or a SciPy sparse matrix: one column for each cell, the last
            attribute fastest. Whole numbers below 2^30 are measured as they are. Others are rounded to a grid
            that changes the noise by less than a millionth, such that every query can still be answered. Any
            multiple of A is the same plan.
        privacy: the privacy goal, which decides between Gaussian and Laplace noise.
        objective: what the certificate is about, as for `design`.

    Raises:
        InputError: if A is not a matrix of finite numbers with a column for each cell.
        DesignError: if some query is no combination of the rows; the message names it.

    Example:
        >>> import numpy as np
        >>> from leastnoise.privacy import GDP
        >>> running_sums = Workload.from_matrix(np.tril(np.ones((8, 8), dtype=int)))
        >>> mine = plan_from(running_sums, np.eye(8, dtype=int), GDP(1))
        >>> mine.stderr.round(3).tolist()
        [1.0, 1.414, 1.732, 2.0, 2.236, 2.449, 2.646, 2.828]
    """
    if not isinstance(privacy, Goal):
        raise InputError.must("privacy", "be PureDP, ApproxDP, ZCDP or GDP", given=type(privacy))
    request = checked_request(workload, privacy, objective, None, (), None, None, None, "numpy", None)
    rows = _checked_rows(A, workload)
    _require_answers(rows, workload)
    is_whole = rows.dtype.kind == "i" and float(np.abs(rows).max(initial=0)) < _LARGEST
    proposal = RealStrategy(rows) if is_whole else from_rows(rows.astype(float), integer_basis(workload))
    proof = _dual_weights(request)
    note = f"{len(rows):,} rows of a matrix that was given"
    # Nothing is searched for.
    found = SearchResult(proposal, proof.q, "heuristic", note, "converged", proof.pairs, proof.p)
    return plan_of(OWN.name, {}, request, found)


def _checked_rows(A: Any, workload: Workload) -> Array:
    """The rows as a dense matrix, whole numbers where all are."""
    n = workload.shape[1]
    try:
        operator = from_entries(A)
    except WorkloadError as error:
        raise InputError(f"the strategy matrix: {error}", field="A", given=type(A)) from None
    k = operator.shape[0]
    if k == 0 or operator.shape[1] != n:
        raise InputError.must("A", f"have a column for each of the {n:,} cells", given=operator.shape)
    require_room(k, n, "the strategy matrix")
    rows = operator.dense(np.int64) if operator.is_integer and operator.largest < 2**62 else operator.dense()
    if not rows.any():
        raise InputError.must("A", "hold a number other than zero", given=operator.shape)
    return rows


def _require_answers(rows: Array, workload: Workload) -> None:
    """Return if every query is a combination of the rows.

    Raises:
        DesignError: naming the first that is not.
    """
    from scipy import linalg

    real = rows / max(float(np.abs(rows).max()), 1e-300)
    inside = linalg.orth(real.T)
    for number, block in enumerate(workload.blocks):
        asked = block.operator.dense()
        left = asked - (asked @ inside) @ inside.T
        lengths = np.maximum(np.linalg.norm(asked, axis=1), 1e-300)
        missing = np.flatnonzero(np.linalg.norm(left, axis=1) > SPAN_TOL * lengths * np.sqrt(len(real)))
        if len(missing):
            label = printable(workload.blocks[number].labels[int(missing[0])])
            raise DesignError(
                f"no combination of the rows of A is {label!r} of {printable(block.name)!r}",
                field="A",
                remedy="add rows, such as the query itself",
            )


def _dual_weights(request: Request) -> Witness:
    """Weights that prove a lower bound: those of the optimum where it is found soon, else equal ones."""
    if request.unfit(DENSE) is None and request.needs(DENSE).operations <= _MOST_OPERATIONS:
        try:
            best = attempt(DENSE, replace(request, tol=_TOL, patience=None), request.needs(DENSE))
        except LeastnoiseError:
            return Witness(None, uniform_weights(request.workload))
        if isinstance(best.witness, Witness):
            return best.witness
    return Witness(None, uniform_weights(request.workload))
