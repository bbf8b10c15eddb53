"""Counting SQL as queries: an analyst's SELECT statements, answered with noise.

    queries_from_sql("SELECT age, sex, COUNT(*) FROM people WHERE age >= 18 GROUP BY age, sex", schema)

The statements are parsed and never run. They mean what they would mean on the table
after the schema's policies: each value is in its declared cell, and records that the
schema drops are gone. One difference from a database remains: empty groups are part of
the answer, because leaving them out would reveal that nobody is in them.

    conditions.py      positions in the text; WHERE, FILTER and CASE as conditions
    unsupported.py     what cannot be asked, and what to ask instead
    statements.py      what each statement counts, under which condition, grouped by what
    condition_text.py  conditions as short text
    to_queries.py      groups of attributes that conditions join, and queries for them
"""

from __future__ import annotations

from leastnoise.core.errors import SqlError
from leastnoise.core.extras import require
from leastnoise.query import Query, QueryList, Schema

__all__ = ["queries_from_sql"]


def queries_from_sql(sql: str, schema: Schema) -> list[Query]:
    """The queries that the statements ask for, in order.

    Supported are COUNT(*), COUNT_IF, SUM and AVG of a whole-number attribute, and a count or sum divided
    by another, of one table, with WHERE and FILTER, GROUP BY attributes, CASE or comparisons, CUBE,
    ROLLUP, GROUPING SETS, UNION ALL, and several statements separated by semicolons. The alias of a count,
    ``AS "age by sex"``, is the name of its query. Every cross table is one query; the groups of
    a CASE are its rows, named by their THEN.

    Args:
        sql: one or more SELECT statements; never run, so untrusted text is safe.
        schema: the table's declaration; every column must be one of its attributes.

    Raises:
        SqlError: for anything else, with its line and column and what to write instead.

    Example:
        >>> schema = Schema(age=range(116), sex=("F", "M"))
        >>> (query,) = queries_from_sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", schema)
        >>> query.name, list(query.labels(schema))
        ('n', ['sex F', 'sex M'])
    """
    if not isinstance(sql, str):
        raise SqlError.must("sql", "be a text", given=type(sql))
    if not isinstance(schema, Schema):
        raise SqlError.must("schema", "be a Schema", given=type(schema))
    require("sqlglot", extra=None, why="a query in SQL")
    # Imported here, so that `import leastnoise` needs only NumPy and SciPy.
    from leastnoise.app.sql.statements import read_statements
    from leastnoise.app.sql.to_queries import MAX_QUERIES, Namer, queries_for

    namer = Namer()
    queries = QueryList()
    for asked in read_statements(sql, schema):
        queries += queries_for(asked, schema, namer)
        if len(queries) > MAX_QUERIES:
            raise asked.error(f"the text asks for more than {MAX_QUERIES:,} queries", "split it")
    return queries
