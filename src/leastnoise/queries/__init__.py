"""What a person asks: totals, cross tables, ranges, distributions, any linear combination.

Every query is one small frozen class. Most are products: they ask something of
some attributes (each a `Factor`) and add up over all others. All take

    name=      how the answers are found in the release
    weight=    how much its variance counts in the total, 1 unless given
    stderr=    the standard error each answer must keep, or
    within=    (half-width, level): the interval each answer must keep

and ``a * b`` crosses two queries on different attributes.

    meaning.py  what a row says about one record, told without operators
    records.py  invented records, counted one by one
    base.py     what every query has, products, labels
    counts.py   totals, cross tables, distributions, ranges, hierarchies, sums
    where.py    conditions
    cases.py    several conditions, a row each
    linear.py   any linear combinations
    plain.py    queries as plain values, for files
"""

from leastnoise.queries.base import Factor, Labels, Product, Query, Term
from leastnoise.queries.cases import Cases
from leastnoise.queries.counts import AllRanges, Cube, Levels, Marginal, Prefix, Ranges, Sum, Total
from leastnoise.queries.linear import CELL, Linear
from leastnoise.queries.meaning import Cell, Meaning, RowMeaning
from leastnoise.queries.plain import QUERY_KINDS, query_from_dict
from leastnoise.queries.records import InventedRecords
from leastnoise.queries.where import Where

__all__ = [
    "CELL",
    "QUERY_KINDS",
    "AllRanges",
    "Cases",
    "Cell",
    "Cube",
    "Factor",
    "InventedRecords",
    "Labels",
    "Levels",
    "Linear",
    "Marginal",
    "Meaning",
    "Prefix",
    "Product",
    "Query",
    "Ranges",
    "RowMeaning",
    "Sum",
    "Term",
    "Total",
    "Where",
    "query_from_dict",
]
