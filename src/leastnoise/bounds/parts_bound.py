"""Dual weights for parts of the queries, each with cells or products of its own.

Noise that answers all queries answers some of them: what a part needs at least, with the whole budget, no
noise for all undercuts. Parts that have no query in common add up, for sums over queries, and the largest
of them counts for the largest variance. Weights may also stand on a few listed cells, whatever the number of
all: a bound for tables with records in these cells alone is one for all tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from leastnoise.bounds.cell_bound import Witness
from leastnoise.bounds.product_bound import ProductWitness, product_witness_from_parts
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.operators import Array
from leastnoise.query import Workload, over_values, part_of


class ProvedPart(NamedTuple):
    """Some batches, with the weights that prove something of them.

    Attributes:
        names: the batches.
        witness: of product form, or weights of listed cells.
        values: the number of the value of every attribute in each listed cell, (attributes, cells), in the
            schema's order; None for weights of product form.
    """

    names: tuple[str, ...]
    witness: Witness | ProductWitness
    values: Array | None

    def workload(self, whole: Workload) -> Workload:
        """The batches, over the listed cells where there are any.

        Raises:
            DesignError: if the cells are none of the workload.
        """
        asked = part_of(whole, self.names)
        if self.values is None:
            return asked
        schema = asked.schema
        fits = schema is not None and self.values.dtype.kind == "i" and self.values.ndim == 2
        if schema is None or not fits or self.values.shape[0] != len(schema.shape):
            raise _unfit()
        sizes = np.array(schema.shape, dtype=object)[:, None]
        if not ((self.values >= 0) & (self.values < sizes)).all():
            raise _unfit()
        return over_values(asked, dict(zip(schema.names, self.values, strict=True)))


def _unfit() -> DesignError:
    return DesignError(
        "the witness lists cells that are none of the workload",
        field="witness",
        remedy="certify the workload that the plan was designed for",
    )


@dataclass(frozen=True, eq=False)
class PartsWitness:
    """Dual weights of parts of the queries.

    Attributes:
        parts: no two with a batch in common.
    """

    parts: tuple[ProvedPart, ...]

    @property
    def p(self) -> None:
        """Weights of all queries, which there are none of."""
        return None

    def check(self, workload: Workload) -> None:
        """Return if every part is one of the workload, and none has a batch of another.

        Raises:
            DesignError: otherwise.
        """
        names = [name for part in self.parts for name in part.names]
        if len(set(names)) < len(names) or not set(names) <= set(workload.names):
            raise DesignError(
                "the witness speaks of batches that the workload has not, or twice of one",
                field="witness",
                remedy="certify the workload that the plan was designed for",
            )

    def to_parts(self) -> tuple[list[dict[str, Any]], dict[str, Array]]:
        """Plain values and arrays from which `parts_witness_from_parts` makes it again."""
        plain: list[dict[str, Any]] = []
        arrays: dict[str, Array] = {}
        for number, (names, witness, values) in enumerate(self.parts):
            told: dict[str, Any] = {"names": list(names)}
            if isinstance(witness, ProductWitness):
                told["axes"] = witness.axes_to_plain()
                own = witness.to_arrays()
            else:
                assert values is not None
                assert witness.pairs is None
                own = {"q": witness.q, "values": values} | ({} if witness.p is None else {"p": witness.p})
            plain.append(told)
            arrays.update({f"proof{number}_{name}": array for name, array in own.items()})
        return plain, arrays


def parts_witness_from_parts(plain: Any, arrays: Mapping[str, Array]) -> PartsWitness:
    """The weights that `to_parts` took apart; whether they fit is checked when they are used.

    Raises:
        PlanFileError: if they are no weights.
    """
    parts = []
    for number, told in enumerate(plain):
        start = f"proof{number}_"
        own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
        names = tuple(told["names"])
        if "axes" in told:
            parts.append(ProvedPart(names, product_witness_from_parts(own, told["axes"]), None))
            continue
        q, values, p = own["q"], own["values"], own.get("p")
        if any(
            weights is not None and (weights.ndim != 1 or weights.dtype.kind != "f") for weights in (q, p)
        ):
            raise PlanFileError("the file holds dual weights that are not lists of numbers", field="witness")
        parts.append(ProvedPart(names, Witness(p, q), values))
    return PartsWitness(tuple(parts))
