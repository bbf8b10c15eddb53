"""Draws of exact noise per second, and a whole release of the demo's town.

python benchmarks/release.py
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import leastnoise as ln
from leastnoise.app.demo import draw_people, publication
from leastnoise.core.random_bits import SystemBits
from leastnoise.release.noise import discrete_laplace, rounded_gaussian


def main() -> None:
    """Print two tables."""
    bits = SystemBits()
    size = 200_000
    print(f"{'noise':<18} {'scale':>8} {'draws a second':>15}")
    for name, draw in (("rounded Gaussian", rounded_gaussian), ("discrete Laplace", discrete_laplace)):
        for exponent in (10, 30, 45, 80):
            draw(2**exponent, 1000, bits)
            started = time.perf_counter()
            draw(2**exponent, size, bits)
            print(f"{name:<18} {f'2^{exponent}':>8} {size / (time.perf_counter() - started):>15,.0f}")
    spec = publication()
    started = time.perf_counter()
    plan = ln.design(spec.workload, spec.privacy)
    designed = time.perf_counter()
    people = draw_people(200_000, np.random.default_rng(0))
    drawn = time.perf_counter()
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ln.measure(plan, pd.DataFrame(people))
    measured = time.perf_counter()
    release.interval(simultaneous=True)
    ended = time.perf_counter()
    print(f"\nthe demo's town, {spec.workload!r}")
    print(
        f"  design {designed - started:.2f} s, measure {measured - drawn:.2f} s, "
        f"simultaneous intervals {ended - measured:.2f} s"
    )


if __name__ == "__main__":
    main()
