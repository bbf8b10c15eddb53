"""Our noise beside that of OpenDP, an independent exact sampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leastnoise.core.random_bits import SystemBits
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from support import extra
from tolerances import CHANCE

DRAWS = 30_000


def same_law(ours: list[int], theirs: list[int]) -> bool:
    """Whether two samples may come from one law; a right pair fails with chance CHANCE at most."""
    edges = np.unique(np.quantile(theirs, np.linspace(0, 1, 41)[1:-1]))
    table = [
        np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (ours, theirs)
    ]
    # Quantiles may lie between two whole numbers with none in between: such a bin is empty for both.
    counted = np.array(table)[:, np.sum(table, axis=0) > 0]
    return bool(stats.chi2_contingency(counted).pvalue > CHANCE)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [60, 2**31])
def test_rounded_gaussian_noise_has_the_law_of_opendps_at_this_scale(scale: int) -> None:
    # Its discrete Gaussian and a rounded one differ in variance by less than 1/12 of a step squared.
    opendp = extra("opendp.prelude")
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")
    theirs = opendp.m.make_gaussian(*space, scale=float(scale))([0] * DRAWS)
    assert same_law(rounded_gaussian(scale, DRAWS, SystemBits()), theirs)
    assert not same_law(rounded_gaussian(scale * 9 // 10, DRAWS, SystemBits()), theirs)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [7, 2**31])
def test_discrete_laplace_noise_has_the_law_of_opendps(scale: int) -> None:
    opendp = extra("opendp.prelude")
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
    theirs = opendp.m.make_laplace(*space, scale=float(scale))([0] * DRAWS)
    assert same_law(discrete_laplace(scale, DRAWS, SystemBits()), theirs)
    assert not same_law(discrete_laplace(scale * 8 // 10, DRAWS, SystemBits()), theirs)
