"""Prefix sums on one device: how long the certified optimum takes, and where the time goes.

    PYTHONPATH=src python benchmarks/cuda.py [--sizes 2048,8192] [--backend cuda] [--tol 1e-8]

Needs NumPy, SciPy, PyTorch and this package's source, nothing else. The factor of the Gram
matrix is made on the device, timed apart, and stays there. One product is an n-by-n float64 matrix
product timed in this run. The last column checks the bound by singular values of the queries
themselves, up to --check cells.

With --design the whole of `design` is timed instead: the search, rounding to integers, the inverse and the
proof. With --recheck the proof of each plan is then worked out again on the processor alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core.backend import Backend
from leastnoise.core.operators import Array
from leastnoise.core.progress import Progress
from leastnoise.solver import least_total, load_backend


class Timed:
    """A backend that adds up the time of its decompositions."""

    def __init__(self, inner: Backend, wait: Any) -> None:
        self._inner, self._wait = inner, wait
        self.seconds, self.count = 0.0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def eigh(self, symmetric: Any, **how: Any) -> tuple[Any, Any]:
        """The inner backend's, timed."""
        self._wait()
        started = time.perf_counter()
        answer = self._inner.eigh(symmetric, **how)
        self._wait()
        self.seconds += time.perf_counter() - started
        self.count += symmetric.shape[-1] == self.size
        return answer

    size = 0


def prefix_factor(n: int, device: Backend) -> Any:
    """R with RᵀR = n − max(i, j), the Gram matrix of prefix sums: the Cholesky factor, on the device."""
    position = device.matrix(np.arange(n, dtype=float))
    larger = (position[:, None] + position[None, :] + abs(position[:, None] - position[None, :])) / 2
    lower = device.cholesky(n - larger)
    if lower is None:
        raise SystemExit(f"the Gram matrix of {n} prefix sums is not definite in float64")
    return lower.T


def seconds_of_product(n: int, device: Backend, wait: Any) -> float:
    """The median time of an n-by-n product on the device."""
    A = device.matrix(np.random.default_rng(0).standard_normal(n))[:, None] * device.matrix(np.ones(n))
    times = []
    for _ in range(5):
        wait()
        started = time.perf_counter()
        A @ A
        wait()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def bound_by_singular_values(n: int, q: Array) -> float:
    """F²/Σq from the singular values of diag(√q) under the prefix sums themselves."""
    F = float(np.linalg.svd(np.tril(np.ones((n, n))) * np.sqrt(q), compute_uv=False).sum())
    return F * F / float(q.sum())


def seconds_of_search(n: int, device: Backend, tol: float) -> float:
    """How long the search takes, from the factor of orthogonal rows that `design` starts from."""
    position = np.arange(n, dtype=float)
    squares, U = device.eigh(device.matrix(n - np.maximum.outer(position, position)))
    R = (U * device.matrix(np.sqrt(device.numpy(squares)))).T
    return least_total(R, tol=tol, backend=device).seconds


def whole_designs(sizes: list[int], backend: str, tol: float, *, rechecks: bool) -> None:
    """How long `design` takes, beside the search alone, and whether the processor proves the same."""
    goal = ln.ZCDP(rho=0.5)
    print(f"{'n':>6} {'search s':>8} {'design s':>8} {'ratio':>5} {'gap':>8}  recheck s, bound")
    for n in [_WARMING, *sizes]:  # the first call of every library costs seconds of its own
        workload = ln.assemble([ln.Prefix("a")], ln.Schema(a=range(n)))
        search = seconds_of_search(n, load_backend(backend), tol / 2)  # what `dense` leaves to the search
        started = time.perf_counter()
        plan = ln.design(workload, goal, tol=tol, backend=backend)
        whole = time.perf_counter() - started
        if n == _WARMING:
            continue
        found, checked = plan.certificate, ""
        if rechecks:
            started = time.perf_counter()
            again = ln.certify(workload, plan)
            seconds = time.perf_counter() - started
            checked = f"{seconds:.1f} s, {again.lower_bound / found.lower_bound - 1:+.1e}"
        print(
            f"{n:>6} {search:>8.2f} {whole:>8.2f} {whole / search:>5.2f} {found.gap:>8.1e}  {checked}",
            flush=True,
        )


# Cells of a design that is not timed.
_WARMING = 640


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="1024,2048,4096,8192")
    parser.add_argument("--backend", default="cuda", choices=("numpy", "torch", "cuda"))
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--check", type=int, default=2048)
    parser.add_argument("--design", action="store_true")
    parser.add_argument("--recheck", action="store_true")
    arguments = parser.parse_args()
    if arguments.design:
        sizes = [int(size) for size in arguments.sizes.split(",")]
        whole_designs(sizes, arguments.backend, arguments.tol, rechecks=arguments.recheck)
        return
    is_cuda = arguments.backend == "cuda"

    def wait() -> None:
        if is_cuda:
            torch.cuda.synchronize()

    if is_cuda:
        import torch
    print(
        f"{'n':>6} {'factor s':>8} {'steps':>5} {'gap':>8} {'seconds':>8} {'products':>8} {'eigh':>4} "
        f"{'eigh s':>7} {'peak GiB':>8} {'n×n':>5}  bound checked"
    )
    device = Timed(load_backend(arguments.backend), wait)
    # The first call of every library costs seconds of its own.
    least_total(prefix_factor(256, device), tol=1e-6, backend=device)
    for n in (int(size) for size in arguments.sizes.split(",")):
        product = seconds_of_product(n, device, wait)
        wait()
        started = time.perf_counter()
        R = prefix_factor(n, device)
        wait()
        factor = time.perf_counter() - started
        device.seconds, device.count, device.size = 0.0, 0, n
        if is_cuda:
            torch.cuda.reset_peak_memory_stats()
        seen: list[Progress] = []
        found = least_total(R, tol=arguments.tol, backend=device, progress=seen.append)
        peak = torch.cuda.max_memory_allocated() if is_cuda else 0
        checked = ""
        if n <= arguments.check:
            checked = f"{found.lower_bound / bound_by_singular_values(n, found.q) - 1:+.1e}"
        print(
            f"{n:>6} {factor:>8.2f} {found.steps:>5} {found.gap:>8.1e} {found.seconds:>8.2f} "
            f"{found.seconds / product:>8.0f} {device.count:>4} {device.seconds:>7.2f} "
            f"{peak / 2**30:>8.2f} {peak / (8 * n * n):>5.1f}  {checked}"
        )
        print(" " * 6, "gap after each step:", ", ".join(f"{p.gap:.0e} {p.seconds:.2f}s" for p in seen))


if __name__ == "__main__":
    main()
