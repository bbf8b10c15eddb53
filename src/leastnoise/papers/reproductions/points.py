"""The smallest piece of a reproduction: one computation, its rows, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Size = Literal["quick", "full"]
Plain = str | int | float | bool | None
Row = Mapping[str, Plain]

# Where a matrix of this many columns is decomposed again and again, one GPU does in minutes what two
# cores do in hours (docs/benchmarks.md).
MAX_CELLS_WITHOUT_GPU = 4096


@dataclass(frozen=True)
class Setting:
    """How a reproduction is run.

    Attributes:
        size: "quick" for all names within minutes, "full" for the papers' own sizes.
        backend: where matrices are decomposed; "cuda" for points above 4,096 cells.
        data: a folder that holds the real tables some figures used (adult.data); None for the stand-ins.
        time_limit: seconds that one method may search at one point.
    """

    size: Size
    backend: str = "numpy"
    data: Path | None = None
    time_limit: float = 600.0

    @property
    def is_quick(self) -> bool:
        """Whether minutes matter more than the papers' own sizes."""
        return self.size == "quick"

    def backend_for(self, n_cells: int) -> str:
        """The backend for a matrix of this many columns: a GPU only where it helps."""
        return self.backend if n_cells > MAX_CELLS_WITHOUT_GPU else "numpy"


@dataclass(frozen=True)
class Point:
    """One computation of a reproduction.

    Attributes:
        work: a function of a module, called as ``work(setting, **arguments)``; gives rows.
        arguments: plain values. They are what a point is known by when a run is taken up again, and
            fields that its rows begin with.
        seconds: a guess at how long it takes on one core, for the time left.
        n_cells: columns of the largest matrix that it decomposes; above 4,096 it needs a GPU.
        may_use_gpu: whether its search runs on a GPU where the setting has one, though it needs none.
    """

    work: Callable[..., Iterable[Row]]
    arguments: Mapping[str, Plain] = field(default_factory=dict)
    seconds: float = 1.0
    n_cells: int = 0
    may_use_gpu: bool = False

    def needs_gpu(self) -> bool:
        """Whether two cores cannot be expected to finish it."""
        return self.n_cells > MAX_CELLS_WITHOUT_GPU

    def uses_gpu(self, setting: Setting) -> bool:
        """Whether it will be computed on a GPU, where it must not be disturbed."""
        return setting.backend == "cuda" and (self.needs_gpu() or self.may_use_gpu)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.arguments.items()) or "the whole"
