"""Edges of bins as an engine compares them."""

from __future__ import annotations

import math
import sys


def least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if edge == -math.inf:
        return edge
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
