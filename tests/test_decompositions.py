"""Dense work goes to the device that searches, and nothing that is promised is trusted to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds.nuclear_norm import total_variance_bound, trace_root_below
from leastnoise.core.backend import NumpyBackend, load_backend
from leastnoise.core.decompositions import (
    computed_on,
    eigh,
    has_full_rank,
    pseudo_inverse,
    singular_values,
    svd,
    triangle_inverse,
    triangle_inverse_norm,
    triangle_of,
)
from leastnoise.core.errors import DesignError
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


class CountingBackend(NumpyBackend):
    """NumPy as if it were a device, noting what it decomposes."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def eigh(self, symmetric: Array, *, may_overwrite: bool = False) -> tuple[Array, Array]:
        self.seen.append(len(symmetric))
        return super().eigh(symmetric)


def test_large_matrices_go_elsewhere_and_only_within() -> None:
    device = CountingBackend()
    with computed_on(device):
        eigh(symmetric(511))
        eigh(symmetric(512))
    assert device.seen == [512]
    with pytest.raises(ZeroDivisionError), computed_on(device):
        raise ZeroDivisionError
    eigh(symmetric(512))
    assert device.seen == [512]


class FailingBackend(NumpyBackend):
    """A device that is out of memory."""

    def matrix(self, values: Array) -> Array:
        raise RuntimeError("CUDA out of memory.\nTried to allocate a lot")


def test_a_device_that_fails_is_stood_in_for_and_named() -> None:
    A = symmetric(512)
    with (
        computed_on(FailingBackend()),
        pytest.warns(RuntimeWarning, match=r"512 rows, and SciPy does: CUDA out of memory\.$"),
    ):
        values, _ = eigh(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=1e-9)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_triangles_and_products_agree_with_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "torch":
        extra("torch")
    monkeypatch.setattr("leastnoise.core.decompositions._SMALL", 1)
    generator = np.random.default_rng(3)
    for k in (1, 2, 7, 40):
        rows = generator.standard_normal((k + 3, k))
        with computed_on(load_backend(name)):
            C = triangle_of(rows)
            inverse, norm = triangle_inverse(C), triangle_inverse_norm(C)
        assert not np.tril(C, -1).any()
        np.testing.assert_allclose(C.T @ C, rows.T @ rows, atol=1e-12 * k)
        np.testing.assert_allclose(inverse @ C, np.eye(k), atol=1e-8)
        assert not np.tril(inverse, -1).any()
        assert norm == pytest.approx(float(np.linalg.norm(np.linalg.inv(C))), rel=1e-9)


def test_what_is_below_a_triangle_is_not_read() -> None:
    C = np.triu(symmetric(30)) + 30 * np.eye(30)
    dirty = C + np.tril(np.full((30, 30), np.nan), -1)
    np.testing.assert_allclose(triangle_inverse(dirty) @ C, np.eye(30), atol=1e-12)


class _Inexact(np.ndarray[Any, Any]):
    """An array whose products are a millionth too large in one entry, in float32, or not numbers."""

    kind = "entry"

    def __matmul__(self, other: Any) -> Any:
        exact = np.asarray(self) @ np.asarray(other)
        if self.kind == "float32":
            exact = (np.asarray(self).astype(np.float32) @ np.asarray(other).astype(np.float32)).astype(float)
        elif self.kind == "nan":
            exact[3, 5] = np.nan
        else:
            exact[3, 5] += 1e-6 * float(np.linalg.norm(exact))
        return exact.view(type(self))


class InexactBackend(NumpyBackend):
    """A device whose products are wrong."""

    def __init__(self, kind: str) -> None:
        self._array = type("_Wrong", (_Inexact,), {"kind": kind})

    def matrix(self, values: Array) -> Array:
        return np.asarray(values, dtype=float).view(self._array)

    def eigh(self, symmetric: Array, *, may_overwrite: bool = False) -> tuple[Array, Array]:
        values, vectors = super().eigh(np.asarray(symmetric))
        return values, vectors.view(self._array)

    def numpy(self, values: Array) -> Array:
        return np.asarray(values)


@pytest.mark.parametrize("kind", ["entry", "float32", "nan"])
def test_a_proof_takes_no_wrong_product_of_a_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound rests on two products: a device that errs in them must not raise it."""
    monkeypatch.setattr("leastnoise.core.decompositions._SMALL", 1)
    K = symmetric(60)
    honest = trace_root_below(K)
    with (
        computed_on(InexactBackend(kind)),
        pytest.warns(RuntimeWarning, match="60 rows, and SciPy does: its product is wrong"),
    ):
        assert trace_root_below(K) == honest


def test_a_device_proves_what_the_processor_does(monkeypatch: pytest.MonkeyPatch, recwarn: Any) -> None:
    monkeypatch.setattr("leastnoise.core.decompositions._SMALL", 1)
    extra("torch")
    generator = np.random.default_rng(6)
    for n, rank in ((1, 1), (5, 5), (40, 40), (40, 7), (130, 129)):
        A = generator.standard_normal((n, rank)) * np.logspace(0, -6, rank)
        K = A @ A.T
        for device in (NumpyBackend(), load_backend("torch")):
            with computed_on(device):
                found = trace_root_below(K)
            assert found == pytest.approx(trace_root_below(K), rel=1e-8)
            assert found <= float(np.linalg.svd(A, compute_uv=False).sum()) * (1 + 1e-12)
    assert not [w for w in recwarn if "SciPy does" in str(w.message)]


@pytest.mark.thorough
def test_a_device_takes_part_in_a_design_and_the_proof_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("torch")
    from leastnoise.core.backend import TorchBackend

    sizes: list[int] = []
    own = TorchBackend.eigh

    def counted(self: Any, A: Any, **options: Any) -> Any:
        sizes.append(A.shape[-1])
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
        class Erring(NumpyBackend):
            def eigh(self, A: Array, *, may_overwrite: bool = False) -> tuple[Array, Array]:
                values, vectors = np.linalg.eigh(A)
                rng = np.random.default_rng(1)
                wrong = vectors + by / 50 * rng.standard_normal((520, 520))
                return values * (1 + by * rng.random(520)), wrong

        with computed_on(Erring()):
            return total_variance_bound(workload, q)

    bounds = [erring(by) for by in (1e-9, 1e-6, 1e-3, 1.0)]
    assert all(bound <= honest * (1 + 1e-12) for bound in bounds)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > 0.999 * honest
    assert bounds[-1] < 0.9 * honest


def failing(*_: Any, **more: Any) -> Any:
    """In place of divide and conquer: what it does once in a while."""
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.fixture
def quick_routine_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import linalg

    whole = linalg.svd

    def svd_by_steps(*given: Any, **more: Any) -> Any:
        return whole(*given, **more) if more.get("lapack_driver") == "gesvd" else failing()

    monkeypatch.setattr(linalg, "svd", svd_by_steps)
    for name in ("svd", "pinv", "matrix_rank"):
        monkeypatch.setattr(np.linalg, name, failing)


def nearly_singular(rng: np.random.Generator) -> Array:
    """A matrix with directions that are missing, or 1e-4 to 1e-14 of the strongest."""
    m, n = rng.integers(1, 12, 2)
    rank = int(rng.integers(0, min(m, n) + 1))
    strengths = 10.0 ** -rng.choice([0.0, 4.0, 9.0, 14.0], rank)
    return np.asarray((rng.standard_normal((m, rank)) * strengths) @ rng.standard_normal((rank, n)))


@pytest.mark.usefixtures("quick_routine_fails")
def test_singular_values_come_another_way_where_the_quick_one_fails() -> None:
    """\"SVD did not converge\" ended a design of 3,780 cells."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        A = nearly_singular(rng)
        size = float(np.abs(A).max())
        U, d, Vt = svd(A)
        assert (d >= 0).all() and (np.diff(d) <= 0).all()
        assert (U * d) @ Vt == pytest.approx(A, rel=0, abs=1e-13 * size)
        for Q in (U.T @ U, Vt @ Vt.T):
            assert pytest.approx(np.eye(len(d)), rel=0, abs=1e-13) == Q
        assert singular_values(A) == pytest.approx(d, rel=0, abs=1e-13 * size)
        assert has_full_rank(A) == (len(A) >= A.shape[1] and bool(d[-1] > max(A.shape) * 2.0**-52 * d[0]))
        inverse = pseudo_inverse(A)
        # A A⁺ A = A holds as far as rounding and the size of A⁺ allow.
        assert A @ inverse @ A == pytest.approx(
            A, rel=0, abs=1e-12 * max(size, size**2 * np.abs(inverse).max())
        )


@pytest.mark.parametrize("privacy", [ln.PureDP(1), ln.GDP(1)])
def test_designs_of_dependent_queries_are_the_same_another_way(
    privacy: Any, request: pytest.FixtureRequest
) -> None:
    rng = np.random.default_rng(1)
    workload = Workload.from_matrix(rng.integers(-2, 3, (9, 3)) @ rng.integers(-2, 3, (3, 7)))
    expected = ln.design(workload, privacy, method="workload").certificate
    request.getfixturevalue("quick_routine_fails")
    found = ln.design(workload, privacy, method="workload").certificate
    assert found.achieved == pytest.approx(expected.achieved, rel=1e-9)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-9)
    assert ln.design(workload, privacy).certificate.achieved <= expected.achieved * (1 + 1e-9)


def test_a_matrix_without_singular_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import linalg

    monkeypatch.setattr(linalg, "svd", failing)
    with pytest.raises(DesignError) as refused:
        svd(np.eye(3))
    assert (refused.value.field, refused.value.given) == ("strategy", (3, 3))
