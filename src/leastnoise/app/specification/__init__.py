"""A specification: everything that is published, in one TOML file.

    toml_text          values as TOML, the line on which something stands, and what was probably meant
    optional_tables    tables and code lists that may be left out, and how any table is refused
    privacy_table      the [privacy] table: the goal, and whose record is whose
    spec_file          from the file to schema, queries, privacy and objective
    json_schema        what the file may hold, for editors

`load_spec` reads a file.
"""

from leastnoise.app.specification.spec_file import FILL_IN, Spec, load_spec, parse_spec

__all__ = ["FILL_IN", "Spec", "load_spec", "parse_spec"]
