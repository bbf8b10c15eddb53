"""What a table is declared to hold: attributes, their values, and the cells these make.

A schema is public. It is written down by the publisher and never read from the
data, because a value that appears only when somebody has it would reveal that person.

    Schema(age=range(116), sex=("F", "M"), income=Bins([0, 10_000, 50_000]))

A record belongs to one cell: one value of every attribute, the last attribute
fastest. A record with an undeclared or missing value is dropped unless a
policy says otherwise; how many were is published with noise only.

    attribute.py   what all kinds share: cells, labels, policies; which text stands for which number
    cleaning.py    what is done to the text of a value before it is placed
    numeric.py     whole numbers, and intervals of a measured number
    code_list.py   codes, labels and parents from a public file
    named.py       names, and categories
    hierarchy.py   regions within regions
    calendar.py    days, weeks, months, quarters and years; which text is a date
    periods.py     consecutive periods of time
    schema.py      the schema
"""

from leastnoise.query.schema.attribute import Attribute, Value
from leastnoise.query.schema.cleaning import Cleaning
from leastnoise.query.schema.code_list import CodeList, read_code_list
from leastnoise.query.schema.hierarchy import Hierarchy, Level
from leastnoise.query.schema.named import Categories
from leastnoise.query.schema.numeric import Bins, Integers
from leastnoise.query.schema.periods import Periods
from leastnoise.query.schema.schema import Schema

__all__ = [
    "Attribute",
    "Bins",
    "Categories",
    "Cleaning",
    "CodeList",
    "Hierarchy",
    "Integers",
    "Level",
    "Periods",
    "Schema",
    "Value",
    "read_code_list",
]
