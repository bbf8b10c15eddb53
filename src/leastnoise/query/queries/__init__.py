"""What a person asks: totals, cross tables, ranges, distributions, any linear combination.

Every query is one small frozen class. Most are products: they ask something of
some attributes (each a `Factor`) and add up over all others. All take

    name=      how the answers are found in the release
    weight=    how much its variance counts in the total, 1 unless given
    stderr=    the standard error each answer must keep, or
    within=    (half-width, level): the interval each answer must keep

and ``a * b`` crosses two queries on different attributes.

    meaning.py  what a row says about one record, told without operators
    invented_records.py  invented records, counted one by one
    key_shapes.py  what the keys of a query may hold in a file
    query.py     what every query has, products, labels
    counts.py   totals, cross tables, distributions, ranges, hierarchies, sums
    where.py    conditions
    cases.py    several conditions, a row each
    linear.py   any linear combinations
    plain_values.py    queries as plain values, for files
"""

from leastnoise.query.queries.cases import Cases
from leastnoise.query.queries.counts import AllRanges, Cube, Levels, Marginal, Prefix, Ranges, Sum, Total
from leastnoise.query.queries.invented_records import InventedRecords
from leastnoise.query.queries.linear import CELL, Linear
from leastnoise.query.queries.meaning import Cell, Meaning, RowMeaning
from leastnoise.query.queries.plain_values import QUERY_KINDS, query_from_dict
from leastnoise.query.queries.query import Factor, Labels, Product, Query, Term
from leastnoise.query.queries.where import Where

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
