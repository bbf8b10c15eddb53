"""Answer a batch of counting queries about people with the least noise privacy allows.

import leastnoise as ln

schema   = ln.Schema(age=range(116), sex=("F", "M"))
workload = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], schema)
plan     = ln.design(workload, ln.ApproxDP(epsilon=1, delta=1e-6))
data     = ln.vectorize("people.parquet", schema)
release  = ln.measure(plan, data)
print(ln.summarize(release))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leastnoise.app.sql import queries_from_sql
    from leastnoise.bounds import Certificate, certify
    from leastnoise.core.errors import InfeasibleError, LeastnoiseError, LeastnoiseWarning
    from leastnoise.data import Data, FileFormat, vectorize
    from leastnoise.planning import Plan, design, load_plan, plan_from, register
    from leastnoise.privacy import GDP, ZCDP, ApproxDP, LeastLoss, Ledger, PureDP
    from leastnoise.query import (
        AbsoluteError,
        AllRanges,
        Bins,
        Cases,
        Categories,
        Changes,
        Cleaning,
        Cube,
        Hierarchy,
        Integers,
        Levels,
        Linear,
        Marginal,
        MaxVariance,
        Mean,
        Periods,
        Prefix,
        Ranges,
        Ratio,
        Schema,
        Share,
        StandardDeviation,
        Sum,
        Targets,
        Total,
        TotalVariance,
        Where,
        Windows,
        Workload,
        assemble,
    )
    from leastnoise.release import (
        Release,
        Stream,
        adjust,
        changes,
        load_release,
        measure,
        open_stream,
        present,
        stream_price,
    )
    from leastnoise.report import (
        Drivers,
        Publication,
        Report,
        Tradeoff,
        audit,
        compare,
        drivers,
        methods,
        summarize,
        tradeoff,
        write_dossier,
    )

__version__ = "0.1.0"

# The map of the library, in the order of the six lines above.
__all__ = [  # noqa: RUF022
    # The table: its attributes and their public values.
    "Schema",
    "Integers",
    "Periods",
    "Bins",
    "Categories",
    "Hierarchy",
    "Cleaning",
    # Queries about it, and the workload that they make.
    "Total",
    "Marginal",
    "Prefix",
    "AllRanges",
    "Ranges",
    "Windows",
    "Changes",
    "Where",
    "Cases",
    "Cube",
    "Levels",
    "Sum",
    "Mean",
    "StandardDeviation",
    "Share",
    "Ratio",
    "Linear",
    "queries_from_sql",
    "Workload",
    "assemble",
    # The privacy goal, and what to minimise.
    "PureDP",
    "ApproxDP",
    "ZCDP",
    "GDP",
    "LeastLoss",
    "TotalVariance",
    "MaxVariance",
    "AbsoluteError",
    "Targets",
    # The plan: what is measured with which noise, and the proof that little more can be had.
    "design",
    "Plan",
    "plan_from",
    "load_plan",
    "Certificate",
    "certify",
    "audit",
    # What accuracy costs, and which queries make it dear.
    "drivers",
    "Drivers",
    "tradeoff",
    "Tradeoff",
    "methods",
    "compare",
    "register",
    # The data, the budget and the one private step.
    "vectorize",
    "FileFormat",
    "Data",
    "Ledger",
    "measure",
    "Release",
    "load_release",
    "stream_price",
    "open_stream",
    "Stream",
    "adjust",
    "present",
    "changes",
    # What people read.
    "summarize",
    "Report",
    "Publication",
    "write_dossier",
    # What is refused, and what is warned of.
    "InfeasibleError",
    "LeastnoiseError",
    "LeastnoiseWarning",
]

# Where the names live, every room after those that it imports: looking further up first loads nothing more.
_ROOMS = ("core.errors", "query", "privacy", "bounds", "planning", "data", "release", "report", "app.sql")


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used: a schema needs a tenth of what the whole library takes."""
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"leastnoise.{room}")
            if name in getattr(module, "__all__", vars(module)):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'leastnoise' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names alone: what ``ln.<Tab>`` offers."""
    return [*__all__, "__version__"]
