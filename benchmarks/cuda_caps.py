"""The least largest variance of random ranges on one device: steps, gap, time and products.

    PYTHONPATH=src python benchmarks/cuda_caps.py [--sizes 512,1024,2048] [--backend cuda] [--tol 1e-6]

Twice as many ranges as cells, with equal caps and with caps drawn between 1 and 10. Needs NumPy,
SciPy, PyTorch and this package's source, nothing else. One product is a d-by-d float64 matrix
product timed in this run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import linalg

from leastnoise.core.operators import Array, SomeRanges
from leastnoise.solver import CappedBlock, ImplicitRows, Run, least_profile, load_backend


def random_ranges(d: int, generator: np.random.Generator) -> SomeRanges:
    """2d ranges with uniform ends."""
    ends = np.sort(generator.integers(0, d, (2 * d, 2)), axis=1)
    return SomeRanges(d, ends[:, 0], ends[:, 1])


def row_basis(operator: SomeRanges) -> Array:
    """An orthonormal basis (d, k) of what the ranges reach."""
    _, values, vectors = linalg.svd(operator.dense(), full_matrices=False)
    return np.asarray(vectors[values > 1e-10 * values[0]].T)


def seconds_of_product(d: int, backend: str) -> float:
    """The median time of a d-by-d product, the copy of one number back included."""
    device = load_backend(backend)
    A = device.matrix(np.random.default_rng(0).standard_normal((d, d)))
    times = []
    for _ in range(7):
        started = time.perf_counter()
        float((A @ A)[0, 0])
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="512,1024,2048")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--tol", type=float, default=1e-6)
    arguments = parser.parse_args()
    print("| d | m | rank | caps | steps | gap | seconds | products |")
    print("|---|---|---|---|---|---|---|---|")
    for d in (int(size) for size in arguments.sizes.split(",")):
        generator = np.random.default_rng(0)
        operator = random_ranges(d, generator)
        Q = row_basis(operator)
        product = seconds_of_product(d, arguments.backend)
        for name, caps in (("equal", np.ones(2 * d)), ("1 to 10", generator.uniform(1, 10, 2 * d))):
            rows = ImplicitRows(operator, Q, load_backend(arguments.backend))
            found = least_profile(
                [CappedBlock(rows, Q.T)], caps, Run(arguments.tol, backend=arguments.backend)
            )
            print(
                f"| {d} | {2 * d} | {Q.shape[1]} | {name} | {found.steps} | {found.gap:.1e} | "
                f"{found.seconds:.2f} | {found.seconds / product:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
