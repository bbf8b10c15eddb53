"""Eigendecompositions go to the device that searches, and nothing is trusted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds.nuclear_norm import total_variance_bound
from leastnoise.core.decompositions import decomposed_by, eigh
from leastnoise.core.operators import Array
from leastnoise.query import Workload
from support import extra


def symmetric(n: int) -> Array:
    A = np.random.default_rng(n).standard_normal((n, n))
    return np.asarray(A @ A.T)


def prefix_sums(n: int) -> Workload:
    return ln.assemble([ln.Prefix("x")], ln.Schema(x=range(n)))


def test_values_rise_and_vectors_rebuild() -> None:
    A = symmetric(40)
    kept = A.copy()
    values, vectors = eigh(A)
    assert (kept == A).all()
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose((vectors * values) @ vectors.T, A, atol=1e-11)


def test_large_matrices_go_elsewhere_and_only_within() -> None:
    seen: list[int] = []

    def elsewhere(A: Array) -> tuple[Array, Array]:
        seen.append(len(A))
        return np.linalg.eigh(A)

    with decomposed_by(elsewhere):
        eigh(symmetric(511))
        eigh(symmetric(512))
    assert seen == [512]
    with pytest.raises(ZeroDivisionError), decomposed_by(elsewhere):
        raise ZeroDivisionError
    eigh(symmetric(512))
    assert seen == [512]


def test_a_device_that_fails_is_stood_in_for_and_named() -> None:
    def out_of_memory(A: Array) -> tuple[Array, Array]:
        raise RuntimeError("CUDA out of memory.\nTried to allocate a lot")

    A = symmetric(512)
    with (
        decomposed_by(out_of_memory),
        pytest.warns(RuntimeWarning, match=r"512 rows, and SciPy does: CUDA out of memory\.$"),
    ):
        values, _ = eigh(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=1e-9)


@pytest.mark.thorough
def test_a_device_takes_part_in_a_design_and_the_proof_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("torch")
    from leastnoise.core.backend import TorchBackend

    sizes: list[int] = []
    own = TorchBackend.eigh

    def counted(self: Any, A: Any, **options: Any) -> Any:
        sizes.append(len(A))
        return own(self, A, **options)

    monkeypatch.setattr(TorchBackend, "eigh", counted)
    monkeypatch.setattr("leastnoise.bounds.nuclear_norm._SVD_ENTRIES", 0)
    workload = prefix_sums(520)
    here = ln.design(workload, ln.GDP(1), method="dense").certificate
    assert not sizes
    plan = ln.design(workload, ln.GDP(1), method="dense", backend="torch")
    # Once before the search, in each of its steps, and once for the proof.
    assert sizes == [520] * (int(plan.note.split()[-2]) + 2)
    assert plan.certificate.status == "optimal"
    assert plan.certificate.lower_bound == pytest.approx(here.lower_bound, rel=1e-6)


@pytest.mark.thorough
def test_a_device_that_errs_weakens_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leastnoise.bounds.nuclear_norm._SVD_ENTRIES", 0)
    workload, q = prefix_sums(520), np.ones(520)
    honest = total_variance_bound(workload, q)

    def erring(by: float) -> float:
        def decompose(A: Array) -> tuple[Array, Array]:
            values, vectors = np.linalg.eigh(A)
            rng = np.random.default_rng(1)
            return values * (1 + by * rng.random(520)), vectors + by / 50 * rng.standard_normal((520, 520))

        with decomposed_by(decompose):
            return total_variance_bound(workload, q)

    bounds = [erring(by) for by in (1e-9, 1e-6, 1e-3, 1.0)]
    assert all(bound <= honest * (1 + 1e-12) for bound in bounds)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > 0.999 * honest
    assert bounds[-1] < 0.9 * honest
