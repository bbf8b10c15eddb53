"""What is asked: a schema, queries over it, and the workload that they make together.

schema       attributes, their values, and the cells these make
predicates   conditions such as "age >= 18"
queries      totals, cross tables, ranges, distributions, any linear combination
query_blocks the rows of each query of a workload, with names, weights and targets
ratio_rows   which rows of a workload each ratio is made from
workload     a batch of queries over one schema
due          when queries can be answered, where one attribute is time
lattice      sets of attributes and what lies below them
products     a workload as a union of products, attribute by attribute
product_rows the rows of all products, passed over all cells axis by axis
objective    what makes one plan better than another
spanned      whether queries without a target follow from those that have one
generators   the workloads that the papers draw or enumerate
"""

from leastnoise.query.cell_classes import (
    AnyClasses,
    CellClasses,
    SeveralClasses,
    classes_of,
    over_values,
    states_in,
)
from leastnoise.query.due import DueBy, check_time, due_by, due_of_batches, periods_of_cells
from leastnoise.query.generators import (
    workload_age_pyramid,
    workload_all_ranges,
    workload_discrete,
    workload_k_way,
    workload_k_way_ranges,
    workload_marginal,
    workload_pl94,
    workload_predicates,
    workload_prefix,
    workload_range,
    workload_related,
)
from leastnoise.query.lattice import MAX_PAIRS, AxisSet, Lattice
from leastnoise.query.objective import (
    MEAN_ABSOLUTE,
    OBJECTIVES,
    AbsoluteError,
    MaxVariance,
    Objective,
    ObjectiveKind,
    Targets,
    TotalVariance,
    default_objective,
    objective_from_dict,
)
from leastnoise.query.predicates import (
    MAX_DEPTH,
    Combination,
    ComparisonCondition,
    Condition,
    Negation,
    condition_to_text,
    independent_parts,
    satisfying,
)
from leastnoise.query.product_rows import ProductRows, UnionRows, union_rows
from leastnoise.query.products import (
    Axis,
    AxisRows,
    Products,
    ProductTerm,
    axes_from_plain,
    axes_to_plain,
    in_axis_order,
    in_schema_order,
    one_factor_each,
    products_of,
)
from leastnoise.query.queries.conditions import MAX_CASE_ENTRIES, Cases, Where, labelled_factor
from leastnoise.query.queries.cross_tables import Cube, Marginal, Total
from leastnoise.query.queries.factors import Factor, Term, term_labels, term_operator
from leastnoise.query.queries.linear import CELL, Linear
from leastnoise.query.queries.meaning import Cell, InventedRecords, RowMeaning
from leastnoise.query.queries.moments import Mean, StandardDeviation
from leastnoise.query.queries.one_attribute import AllRanges, Levels, Prefix, Ranges, Sum
from leastnoise.query.queries.over_time import Changes, Windows
from leastnoise.query.queries.query import COMMON, Query, QueryList
from leastnoise.query.queries.query_kinds import QUERY_KINDS, add_query_kind, query_from_dict
from leastnoise.query.queries.ratios import Ratio, RatioParts, RatioQuery, Share, counterpart
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import in_counts
from leastnoise.query.query_blocks import QueryBlock
from leastnoise.query.ratio_rows import RatioRows
from leastnoise.query.schema.attribute import (
    MAX_DIGITS,
    Attribute,
    Value,
    compare_numbers,
    is_null,
    text_of,
)
from leastnoise.query.schema.calendar import (
    FIRST_SECOND,
    LAST_SECOND,
    SECONDS_OF_DAY,
    UNITS,
    Unit,
    day_of,
    days_named,
    first_day,
    period_label,
    period_number,
)
from leastnoise.query.schema.cleaning import BLANKS, NORMAL_FORMS, THOUSANDS, Cleaning
from leastnoise.query.schema.code_list import CodeList, code_list_of, read_code_list, read_code_rows
from leastnoise.query.schema.hierarchy import Hierarchy
from leastnoise.query.schema.named import Categories
from leastnoise.query.schema.numeric import Bins, Integers
from leastnoise.query.schema.periods import Periods
from leastnoise.query.schema.schema import Schema
from leastnoise.query.spanned import check_spanned, first_not_spanned
from leastnoise.query.workload import Workload, assemble, part_of, workload_of_query, workload_of_rows

__all__ = [
    "BLANKS",
    "CELL",
    "COMMON",
    "FIRST_SECOND",
    "LAST_SECOND",
    "MAX_CASE_ENTRIES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_PAIRS",
    "MEAN_ABSOLUTE",
    "NORMAL_FORMS",
    "OBJECTIVES",
    "QUERY_KINDS",
    "SECONDS_OF_DAY",
    "THOUSANDS",
    "UNITS",
    "AbsoluteError",
    "AllRanges",
    "AnyClasses",
    "Attribute",
    "Axis",
    "AxisRows",
    "AxisSet",
    "Bins",
    "Cases",
    "Categories",
    "Cell",
    "CellClasses",
    "Changes",
    "Cleaning",
    "CodeList",
    "Combination",
    "ComparisonCondition",
    "Condition",
    "Cube",
    "DueBy",
    "Factor",
    "Hierarchy",
    "Integers",
    "InventedRecords",
    "Labels",
    "Lattice",
    "Levels",
    "Linear",
    "Marginal",
    "MaxVariance",
    "Mean",
    "Negation",
    "Objective",
    "ObjectiveKind",
    "Periods",
    "Prefix",
    "ProductRows",
    "ProductTerm",
    "Products",
    "Query",
    "QueryBlock",
    "QueryList",
    "Ranges",
    "Ratio",
    "RatioParts",
    "RatioQuery",
    "RatioRows",
    "RowMeaning",
    "Schema",
    "SeveralClasses",
    "Share",
    "StandardDeviation",
    "Sum",
    "Targets",
    "Term",
    "Total",
    "TotalVariance",
    "UnionRows",
    "Unit",
    "Value",
    "Where",
    "Windows",
    "Workload",
    "add_query_kind",
    "assemble",
    "axes_from_plain",
    "axes_to_plain",
    "check_spanned",
    "check_time",
    "classes_of",
    "code_list_of",
    "compare_numbers",
    "condition_to_text",
    "counterpart",
    "day_of",
    "days_named",
    "default_objective",
    "due_by",
    "due_of_batches",
    "first_day",
    "first_not_spanned",
    "in_axis_order",
    "in_counts",
    "in_schema_order",
    "independent_parts",
    "is_null",
    "labelled_factor",
    "objective_from_dict",
    "one_factor_each",
    "over_values",
    "part_of",
    "period_label",
    "period_number",
    "periods_of_cells",
    "products_of",
    "query_from_dict",
    "read_code_list",
    "read_code_rows",
    "satisfying",
    "states_in",
    "term_labels",
    "term_operator",
    "text_of",
    "union_rows",
    "workload_age_pyramid",
    "workload_all_ranges",
    "workload_discrete",
    "workload_k_way",
    "workload_k_way_ranges",
    "workload_marginal",
    "workload_of_query",
    "workload_of_rows",
    "workload_pl94",
    "workload_predicates",
    "workload_prefix",
    "workload_range",
    "workload_related",
]
