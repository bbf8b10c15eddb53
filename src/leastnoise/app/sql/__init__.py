"""Counting SQL as queries: what an analyst would run on the table, asked with noise instead.

    queries_from_sql("SELECT age, sex, COUNT(*) FROM people WHERE age >= 18 GROUP BY age, sex", schema)

The statements are parsed and never run. They are understood as if run on the table
after the schema's policies: values stand in their declared cells, and records that
the schema leaves out are gone. One difference from a database remains: groups that
happen to be empty are part of the answer, because leaving them out would tell.

    conditions.py      positions in the text, and WHERE, FILTER and CASE
    statements.py      statements, taken apart: what is counted, of whom, by what
    condition_text.py  conditions as short text
    to_queries.py      attributes that belong together, the groups that they make, and queries for them
"""

from __future__ import annotations

from leastnoise.core.errors import MissingExtraError, SqlError
from leastnoise.query import Query, Schema

__all__ = ["queries_from_sql"]


def queries_from_sql(sql: str, schema: Schema) -> list[Query]:
    """The queries that some counting SQL asks, in order.

    Understood are COUNT(*), COUNT_IF and SUM of a whole-number attribute, of one table, with
    WHERE and FILTER, GROUP BY attributes, CASE or comparisons, CUBE, ROLLUP, GROUPING SETS,
    UNION ALL, and several statements divided by semicolons. What a count is called,
    ``AS "age by sex"``, becomes the name of its query; every cross table is one query, and the groups of
    a CASE are its rows, called what THEN says.

    Args:
        sql: one or more SELECT statements; text from strangers is safe, it is never run.
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
    try:
        # Here and not above, so that `import leastnoise` also runs where only NumPy and SciPy are.
        from leastnoise.app.sql.statements import read_statements
        from leastnoise.app.sql.to_queries import MAX_QUERIES, Namer, queries_for
    except ModuleNotFoundError:
        raise MissingExtraError(
            "SQL is parsed by sqlglot; install it with: pip install sqlglot", field="sqlglot"
        ) from None
    namer = Namer()
    queries: list[Query] = []
    for asked in read_statements(sql, schema):
        queries += queries_for(asked, schema, namer)
        if len(queries) > MAX_QUERIES:
            raise asked.error(f"the text asks more than {MAX_QUERIES:,} queries", "divide it")
    return queries
