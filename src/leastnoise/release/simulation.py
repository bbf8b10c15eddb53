"""What a plan gives on public data, drawn again and again from an explicit generator: never a release.

Whoever knows the generator's seed can take the noise away again, so nothing private may come here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning import Plan
from leastnoise.release.measuring import measured
from leastnoise.release.release import Release


class RepeatableBits:
    """Bits from an explicit generator, for simulations on public data."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def bits(self, n: int) -> int:
        """An integer in [0, 2^n)."""
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.generator.bytes(n_bytes), "little") >> (8 * n_bytes - n)


def simulated(plan: Plan, counts: Array, *, n_runs: int, generator: np.random.Generator) -> Iterator[Release]:
    """As many releases of a plan on public counts, (n,), as asked for; the same for the same generator."""
    bits = RepeatableBits(generator)
    for _ in range(n_runs):
        yield Release(plan, measured(plan, counts, bits))
