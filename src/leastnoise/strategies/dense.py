"""The certified optimum, for workloads whose cells fit in a dense matrix.

Works in the row space of the queries: an integer basis B of it, the weighted Gram
matrix V factored as RᵀR, Newton's method on the dual, and the strategy found
written as C·B with C upper triangular.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.errors import DesignError
from leastnoise.operators import Array
from leastnoise.rowspace import factor_gram, integer_basis
from leastnoise.solver import minimise_total_variance
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategy import RealStrategy

# n-by-n work beyond this many cells takes hours on a laptop.
MAX_CELLS = 20_000


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if request.privacy.noise != "gaussian":
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if n > MAX_CELLS:
        return f"it holds at most {MAX_CELLS:,} cells, the workload has {n:,}"
    return None


def _find(request: Request) -> Found:
    workload = request.workload
    basis = integer_basis(workload)
    R = factor_gram(workload, rank=basis.rank)
    used = np.asarray(workload.operator.column_norms(1) > 0)
    if not used.any():
        return Found(
            RealStrategy(np.zeros((1, R.shape[1]), dtype=np.int64)),
            np.zeros(R.shape[1]),
            "heuristic",
            "every query is zero",
        )
    # Neither the noise nor the dual weights depend on the unit; squares of this one stay within floats.
    R = R / np.abs(R).max()
    # Cells that no query tells apart share one dual weight.
    columns, inverse, counts = _distinct_columns(R, used)
    solution = minimise_total_variance(
        R[:, columns],
        tol=request.tol / 2,  # the other half is left for rounding to integers
        time_limit=request.time_limit,
        backend=request.backend,
        progress=request.progress,
    )
    q = np.zeros(R.shape[1])
    q[used] = (solution.q / counts)[inverse]
    root = np.zeros(R.shape)
    root[:, used] = solution.root[:, inverse]
    how = "Newton's method on the dual"
    return Found(
        RealStrategy(_triangle(root, basis.rows), basis.rows),
        q,
        "stopped",
        f"{how}, {solution.steps} steps" + ("" if solution.has_converged else ", stopped early"),
    )


def _distinct_columns(R: Array, used: Array) -> tuple[Array, Array, Array]:
    """Positions of one column of each kind, for each used column its kind, and their numbers."""
    where = np.flatnonzero(used)
    # Cells in the same queries have columns equal up to rounding: compare on a coarse grid,
    # each direction on its own, so that weak ones still tell cells apart.
    scale = np.abs(R).max(axis=1, keepdims=True)
    coarse = np.rint(R[:, where] / scale * 2.0**30)
    _, first, inverse, counts = np.unique(
        coarse, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return where[first], inverse.reshape(-1), counts


def _triangle(root: Array, basis: Array | None) -> Array:
    """The upper triangular C, (k, k), with CᵀC equal to the precision of root on the basis."""
    from scipy import linalg

    coefficients = root
    if basis is not None:
        # root = coefficients · basis exactly, because both span the same rows.
        coefficients = linalg.lstsq(basis.astype(float).T, root.T)[0].T
    C = linalg.qr(coefficients, mode="r", check_finite=False)[0][: coefficients.shape[1]]
    if C.shape[0] != C.shape[1] or not math.isfinite(float(np.abs(C).max(initial=0))):
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    return np.asarray(np.triu(C))


DENSE = Method(
    "dense",
    f"the certified optimum for Gaussian noise, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
)
