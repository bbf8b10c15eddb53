"""What a person asks: totals, cross tables, ranges, distributions, any linear combination.

Every query is one small frozen class. Most are products: they ask something of
some attributes (each a `Factor`) and add up over all others. All take

    name=      how the answers are found in the release
    weight=    how much its variance counts in the total, 1 unless given
    stderr=    the standard error each answer must keep, or
    within=    half-width of the 95 % interval each answer must keep, or (half-width, level)

and ``a * b`` crosses two queries on different attributes.

    row_names.py     what rows are called
    factors.py       products of rows over different attributes
    query.py         what every query has, and the product of two
    targets.py       accuracy targets, in counts or in per cent of a public size
    cross_tables.py  the number of records, cross tables, cubes of them
    one_attribute.py distributions, ranges, levels of a hierarchy, sums
    over_time.py     sliding windows and changes along an ordered attribute
    conditions.py    records that satisfy a condition, or each of several
    ratios.py        shares and other ratios, made from two linear queries
    moments.py       means and standard deviations of whole numbers, overall or by group
    linear.py        any linear combinations
    meaning.py       what a row says about one record, without operators; records to check plans with
    key_shapes.py    the JSON schema of each field, for specification files
    query_kinds.py   the list of kinds, and queries read from files
"""

from leastnoise.query.queries.conditions import Cases, Where
from leastnoise.query.queries.cross_tables import Cube, Marginal, Total
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.linear import CELL, Linear
from leastnoise.query.queries.meaning import Aspect, Cell, InventedRecords, Meaning, RowMeaning
from leastnoise.query.queries.moments import Mean, StandardDeviation
from leastnoise.query.queries.one_attribute import AllRanges, Levels, Prefix, Ranges, Sum
from leastnoise.query.queries.over_time import Changes, Windows
from leastnoise.query.queries.query import Product, Query
from leastnoise.query.queries.query_kinds import QUERY_KINDS, add_query_kind, query_from_dict
from leastnoise.query.queries.ratios import Ratio, RatioParts, RatioQuery, Share
from leastnoise.query.queries.row_names import Labels

__all__ = [
    "CELL",
    "QUERY_KINDS",
    "AllRanges",
    "Aspect",
    "Cases",
    "Cell",
    "Changes",
    "Cube",
    "Factor",
    "InventedRecords",
    "Labels",
    "Levels",
    "Linear",
    "Marginal",
    "Mean",
    "Meaning",
    "Prefix",
    "Product",
    "Query",
    "Ranges",
    "Ratio",
    "RatioParts",
    "RatioQuery",
    "RowMeaning",
    "Share",
    "StandardDeviation",
    "Sum",
    "Term",
    "Total",
    "Where",
    "Windows",
    "add_query_kind",
    "query_from_dict",
]
