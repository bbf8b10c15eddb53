"""What the cells of a workload are, and what their records spend over several plans."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

from leastnoise.privacy import CellCosts
from leastnoise.query import Workload


def cells_digest(workload: Workload) -> str:
    """A digest of what the cells of a workload are: costs of different cells do not add up."""
    schema = workload.schema
    told = None if schema is None else [[name, value] for name, value in schema.to_dict().items()]
    described = json.dumps({"schema": told, "cells": str(workload.shape[1])}, sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def summed_costs(costs: Sequence[CellCosts]) -> CellCosts:
    """Σ_r u_i^(r) of every cell, exactly, over the least common unit.

    Example:
        >>> summed_costs([CellCosts((1, 2), 4), CellCosts((1, 0), 6)])[:]
        (Fraction(5, 12), Fraction(1, 2))
    """
    unit = math.lcm(*(cost.unit for cost in costs))
    scaled = [[number * (unit // cost.unit) for number in cost.numerators] for cost in costs]
    return CellCosts(tuple(map(sum, zip(*scaled, strict=True))), unit)
