"""Answer a batch of counting queries about people with the least noise privacy allows.

import leastnoise as ln

schema   = ln.Schema(age=range(116), sex=("F", "M"))
workload = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], schema)
plan     = ln.design(workload, ln.ApproxDP(epsilon=1, delta=1e-6))
data     = ln.vectorize("people.parquet", schema)
release  = ln.measure(plan, data)
print(ln.summarize(release))
"""

from leastnoise.app.sql import queries_from_sql
from leastnoise.bounds.certificate import Certificate, certify
from leastnoise.core.errors import InfeasibleError, LeastnoiseError
from leastnoise.data import Data, vectorize
from leastnoise.planning.choice import design
from leastnoise.planning.plan import Plan, load_plan
from leastnoise.privacy.goals import GDP, ZCDP, ApproxDP, PureDP
from leastnoise.privacy.ledger import Ledger
from leastnoise.query.objective import MaxVariance, Targets, TotalVariance
from leastnoise.query.queries import (
    AllRanges,
    Cases,
    Cube,
    Levels,
    Linear,
    Marginal,
    Prefix,
    Ranges,
    Sum,
    Total,
    Where,
)
from leastnoise.query.schema import Bins, Categories, Hierarchy, Integers, Schema
from leastnoise.query.workload import Workload, assemble
from leastnoise.release import Release, load_release, measure
from leastnoise.release.adjusting import adjust
from leastnoise.report import Report, summarize
from leastnoise.report.comparison import compare, methods
from leastnoise.report.cost_drivers import Drivers, drivers
from leastnoise.report.trade_off import Tradeoff, tradeoff

__version__ = "0.1.0"

# In the order of the six lines above.
__all__ = [  # noqa: RUF022
    "Schema",
    "Integers",
    "Bins",
    "Categories",
    "Hierarchy",
    "Total",
    "Marginal",
    "Prefix",
    "AllRanges",
    "Ranges",
    "Where",
    "Cases",
    "Cube",
    "Levels",
    "Sum",
    "Linear",
    "queries_from_sql",
    "Workload",
    "assemble",
    "PureDP",
    "ApproxDP",
    "ZCDP",
    "GDP",
    "TotalVariance",
    "MaxVariance",
    "Targets",
    "design",
    "Plan",
    "load_plan",
    "Certificate",
    "certify",
    "drivers",
    "Drivers",
    "tradeoff",
    "Tradeoff",
    "methods",
    "compare",
    "vectorize",
    "Data",
    "Ledger",
    "measure",
    "Release",
    "load_release",
    "adjust",
    "summarize",
    "Report",
    "InfeasibleError",
    "LeastnoiseError",
]
