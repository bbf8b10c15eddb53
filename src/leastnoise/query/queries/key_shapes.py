"""What the keys of a query may hold in a file, as pieces of a JSON schema.

A query class declares the shape of each field beside the field, ``field(metadata=key(TEXT, "..."))``. The
schema of specification files is made from these, so that a new class is in it without another edit.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
NAME: Json = {"type": "string", "minLength": 1}
NAMES: Json = {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}
NUMBERS: Json = {"type": "array", "items": {"type": "number"}}
COUNTS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}}
POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
PAIR: Json = {"type": "array", "minItems": 2, "maxItems": 2}
# A number of counts, or a share of an expected size in per cent.
SIZE: Json = {"anyOf": [POSITIVE, {"type": "string", "pattern": "%\\s*$"}]}
# Any kind of query; the schema of specifications defines it.
QUERY: Json = {"$ref": "#/$defs/kind"}


def key(shape: Json, description: str = "", *, written: str = "") -> Json:
    """The metadata of a field that files hold.

    Args:
        shape: a JSON schema of what it may hold.
        description: what an editor shows.
        written: the key in a file, where it is not the name of the field.
    """
    return {"shape": shape | ({"description": description} if description else {}), "written": written}
