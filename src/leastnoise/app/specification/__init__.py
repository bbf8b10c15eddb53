"""A specification: everything that is published, in one TOML file.

    toml_text          values as TOML, the line on which something stands, and what was probably meant
    not_counted_table  the table [not_counted]: records that match no declared value
    optional_tables    the tables [design] and [presentation], and how any table is refused
    codes              code lists that [schema] names
    spec_file          from the file to schema, queries, privacy and objective
    json_schema        what the file may hold, for editors

`load_spec` reads a file.
"""

from leastnoise.app.specification.spec_file import FILL_IN, Spec, load_spec, parse_spec

__all__ = ["FILL_IN", "Spec", "load_spec", "parse_spec"]
