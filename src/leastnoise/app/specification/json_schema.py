"""What a specification file may hold, as a JSON schema for editors.

`spec.schema.json` beside this file is its text; write it again with

    python -m leastnoise.app.specification.json_schema

after a new kind of query, setting or goal. Each class of queries declares the shapes of its keys
(`leastnoise.query.queries.key_shapes`); the names of the other tables and keys are those that
`leastnoise.app.specification.spec_file` reads by. The schema knows shapes and not meanings: whether an
attribute exists or edges increase, only reading the file tells.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from leastnoise.app.specification.optional_tables import CODES, COLUMNS, DESIGN, NOT_COUNTED
from leastnoise.app.specification.privacy_table import FURTHER, GOALS, PERSON, PERSON_UNKNOWN
from leastnoise.app.specification.spec_file import FORMAT_KEY, FORMAT_VERSION
from leastnoise.data import ENCODINGS
from leastnoise.privacy import NEIGHBOURS
from leastnoise.query import COMMON, NORMAL_FORMS, OBJECTIVES, QUERY_KINDS, THOUSANDS, UNITS, Query
from leastnoise.release import PRESENTATION_KEYS
from leastnoise.report import PUBLICATION_KEYS

FILE = Path(__file__).with_name("spec.schema.json")

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
_NUMBERS: Json = {"type": "array", "items": {"type": "number"}}
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}


def _table(properties: dict[str, Json], *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_NUMBER_OR_FRACTION: Json = {"anyOf": [_POSITIVE, {"type": "string", "pattern": "^[^/]+/[^/]+$"}]}
_GOAL_KEYS: dict[str, Json] = {
    "neighbours": {"enum": list(NEIGHBOURS)},
    "records_per_person": {
        "type": "integer",
        "minimum": 1,
        "description": "how many records of one person count at most; 1 unless given",
    },
    "calibration": {"enum": ["exact", "classic"]},
}
_PERSON: dict[str, Json] = {
    PERSON: {"type": "string", "minLength": 1, "description": "the column that names the person"},
    PERSON_UNKNOWN: {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "description": "ids in that column that stand for nobody in particular; their records are left out",
    },
}
_DESIGN_KEYS: dict[str, Json] = {
    "objective": {"enum": list(OBJECTIVES)},
    "relative_to": {"const": "uniform"},
    "method": _TEXT | {"description": "`leastnoise methods` lists them"},
    "options": {"type": "object"},
    "over": _TEXT | {"description": "the attribute that is time, for `publish --period`"},
    "tol": _POSITIVE,
    "time_limit": _POSITIVE | {"description": "seconds"},
    "backend": _TEXT,
    "accept_gap": _POSITIVE
    | {"description": "the gap to the proven optimum above which commands warn; 0.05 unless given"},
}
_NOT_COUNTED_KEYS: dict[str, Json] = {
    "measure": {
        "anyOf": [{"type": "boolean"}, {"type": "array", "items": _TEXT, "uniqueItems": True}],
        "description": "whether to measure how many records match no declared value, or for which attributes",
    },
    "most": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "the share of such records above which `check` fails and a release warns; 0.05 unless "
        "given",
    },
}
_SHARE: Json = {"anyOf": [_POSITIVE, {"type": "string", "pattern": "%\\s*$"}]}
_PRESENTATION: dict[str, Json] = {
    "round_to": _POSITIVE | {"description": "counts and sums are shown as multiples of this"},
    "flag_above": _SHARE | {"description": "coefficient of variation above which a number is unreliable"},
    "suppress_above": _SHARE | {"description": "coefficient of variation above which it is left out"},
}
_POLICIES: dict[str, Json] = {
    "outside": {"enum": ["drop", "clamp", "other"]},
    "null": {"enum": ["drop", "other"]},
    "other": _TEXT | {"description": "the label of one more cell"},
    "clean": _table(
        {
            "trim": {"type": "boolean", "description": "remove blanks at both ends; nothing left is a null"},
            "normalise": {
                "enum": list(NORMAL_FORMS),
                "description": "the normal form of Unicode in which text is compared",
            },
            "ignore_case": {"type": "boolean", "description": "A to Z equal a to z"},
            "nulls": _TEXTS | {"description": "words that mean that there is no value"},
            "synonyms": {"type": "object", "description": "words that mean a declared value"},
            "digits": {"type": "integer", "minimum": 1, "description": "codes get zeros in front"},
            "decimal": {"enum": [".", ","]},
            "thousands": {"enum": list(THOUSANDS)},
            "dates": _TEXTS | {"description": "forms of dates, as in %d.%m.%Y"},
        }
    ),
}
_DATA_KEYS: dict[str, Json] = {
    "separator": _TEXT | {"minLength": 1, "maxLength": 1, "description": "the character between fields"},
    "quote": {"enum": ['"', "'", ""], "description": "the character around fields; empty for none"},
    "encoding": {"enum": list(ENCODINGS)},
    "sheet": _TEXT | {"minLength": 1, "description": "the sheet of an Excel file"},
    "clean": _POLICIES["clean"] | {"description": "for attributes without cleaning of their own"},
}
_NAMES: Json = {
    "type": "array",
    "minItems": 1,
    "uniqueItems": True,
    "anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}],
}
_LABELS: Json = {
    "type": "object",
    "additionalProperties": {"type": "string", "minLength": 1},
    "description": "what people call the values, where these are codes",
}
_DATE: Json = {"type": ["string", "integer"], "description": "as in 2026-03-15, 2026-W11, 2026-03 or 2026"}
# What an attribute of a kind may say besides its values and policies.
_BESIDES: dict[str, dict[str, Json]] = {
    "periods": {
        "by": {"enum": list(UNITS)},
        "zone": _TEXT | {"description": "the time zone whose days count, as in Europe/Berlin"},
    },
    "categories": {"labels": _LABELS},
    "hierarchy": {"labels": _LABELS},
    CODES: {key: _TEXT | {"minLength": 1, "description": "a column of the code list"} for key in COLUMNS},
}
_ATTRIBUTES: dict[str, Json] = {
    "range": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    "bins": _NUMBERS | {"minItems": 2},
    "categories": _NAMES,
    "hierarchy": {"type": ["object", "array"], "minProperties": 1, "minItems": 1},
    "periods": {"type": "array", "items": _DATE, "minItems": 2, "maxItems": 2},
    CODES: _TEXT | {"minLength": 1, "description": "a CSV or JSON file of codes, labels and parents"},
}


def keys_of(kind: type[Query]) -> dict[str, Field[Any]]:
    """The fields of a class of queries, by the keys that files hold them under."""
    return {field.metadata["written"] or field.name: field for field in fields(kind)}


def json_schema() -> Json:
    """The schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "leastnoise specification",
        "type": "object",
        "properties": {
            FORMAT_KEY: {"const": FORMAT_VERSION, "description": "the version of this file's format"},
            "schema": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"$ref": "#/$defs/attribute"},
                "description": "the columns that count, each with its public values",
            },
            "data": _table(_DATA_KEYS) | {"description": "how the table's files are written"},
            "privacy": {"anyOf": [*_goals(), _without_numbers()]},
            "query": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/query"}},
            "design": _table({key: _DESIGN_KEYS.get(key, {}) for key in DESIGN}),
            NOT_COUNTED: _table(_NOT_COUNTED_KEYS),
            "presentation": _table({key: _PRESENTATION[key] for key in PRESENTATION_KEYS})
            | {"minProperties": 1},
            "publication": _table(dict.fromkeys(PUBLICATION_KEYS, _TEXT | {"minLength": 1}))
            | {"description": "what the publisher says; a date is a day, as in 2026-03-15"},
        },
        "required": ["schema", "query"],
        "additionalProperties": False,
        # Targets may take the place of a goal.
        "anyOf": [
            {"properties": {"privacy": {"anyOf": _goals()}}, "required": ["privacy"]},
            {
                "properties": {
                    "query": {"contains": {"anyOf": [{"required": [key]} for key in ("stderr", "within")]}}
                }
            },
        ],
        "$defs": {
            "attribute": {"anyOf": [_NAMES, *(_attribute(key) for key in _ATTRIBUTES)]},
            "kind": {"anyOf": [_query(kind, cls) for kind, cls in QUERY_KINDS.items()]},
            "query": {"anyOf": [{"$ref": "#/$defs/kind"}, _asked_in_sql()]},
        },
    }


def schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _goals() -> list[Json]:
    return [_goal(numbers) for numbers in GOALS]


def _goal(numbers: frozenset[str]) -> Json:
    ordered = sorted(numbers, reverse=True)  # epsilon before delta
    further = {key: _GOAL_KEYS.get(key, {}) for key in FURTHER} | _PERSON
    return _table(dict.fromkeys(ordered, _NUMBER_OR_FRACTION) | further, *ordered)


def _without_numbers() -> Json:
    """What may be said where targets take the place of a goal."""
    further = {key: _GOAL_KEYS.get(key, {}) for key in FURTHER} | {"calibration": {"const": "exact"}}
    least = {"delta": _NUMBER_OR_FRACTION | {"description": "the least epsilon that meets the targets"}}
    return _table(least | further | _PERSON) | {"minProperties": 1}


def _attribute(key: str) -> Json:
    return _table({key: _ATTRIBUTES[key]} | _BESIDES.get(key, {}) | _POLICIES, key)


def _common() -> dict[str, Json]:
    return {key: field.metadata["shape"] for key, field in keys_of(Query).items()}


# One attribute may be written either way: what a kind calls it, the other name, and its shape.
_EITHER_NUMBER: list[tuple[str, str, Json]] = [
    ("attributes", "attribute", _TEXT),
    ("attribute", "attributes", {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1}),
]


def _query(kind: str, cls: type[Query]) -> Json:
    own = {key: field for key, field in keys_of(cls).items() if key not in COMMON}
    shapes = {key: field.metadata["shape"] for key, field in own.items()}
    needed = [key for key, field in own.items() if field.default is MISSING or field.default == ()]
    properties = {"kind": {"const": kind}} | shapes | _common()
    rules: Json = {"not": {"required": ["stderr", "within"]}}
    for name, other, shape in _EITHER_NUMBER:
        if name in own:
            properties[other] = shape
            if name in needed:
                needed.remove(name)
                rules["oneOf"] = [{"required": [name]}, {"required": [other]}]
    return _table(properties, "kind", *needed) | rules


def _asked_in_sql() -> Json:
    properties = {"sql": _TEXT | {"description": "SELECT …, COUNT(*) FROM people …"}} | _common()
    return _table(properties, "sql") | {"not": {"required": ["stderr", "within"]}}


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
