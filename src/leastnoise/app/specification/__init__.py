"""A specification: everything that is published, in one TOML file.

    lines    on which line something stands
    slips    what was probably meant by a line that is no TOML
    toml     plain values as TOML
    reading  from the file to schema, queries, privacy and objective
    schema   what the file may hold, for editors

`load_spec` reads a file.
"""

from leastnoise.app.specification.spec_file import FILL_IN, Spec, load_spec, parse_spec

__all__ = ["FILL_IN", "Spec", "load_spec", "parse_spec"]
