"""What a specification file may hold, as a JSON schema for editors.

`spec.schema.json` beside this file is its text; write it again with

    python -m leastnoise.app.specification.json_schema

after a new kind of query, setting or goal. The names of tables and keys are those
that `leastnoise.app.specification.spec_file` reads by. The schema knows shapes and not meanings: whether an
attribute exists or edges increase, only reading the file tells.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from leastnoise.app.specification.spec_file import DESIGN, FURTHER, GOALS, PERSON, PERSON_UNKNOWN
from leastnoise.query import COMMON, OBJECTIVES, QUERY_KINDS, Query

FILE = Path(__file__).with_name("spec.schema.json")

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
_POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
_SIZE: Json = {"anyOf": [_POSITIVE, {"type": "string", "pattern": "%\\s*$"}]}
_NUMBERS: Json = {"type": "array", "items": {"type": "number"}}
_COUNTS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_SOME_COUNTS: Json = _COUNTS | {"minItems": 1, "uniqueItems": True}
_ENDS: Json = {"type": "array", "minItems": 2, "maxItems": 2}
_SIDE: Json = {"$ref": "#/$defs/kind"}
_SPARSE: Json = {
    "type": "object",
    "properties": {"shape": _COUNTS, "rows": _COUNTS, "columns": _COUNTS, "values": _NUMBERS},
    "required": ["shape", "rows", "columns", "values"],
    "additionalProperties": False,
}

# The shape of each key; one that is not listed may hold anything.
_QUERY_KEYS: dict[str, Json] = {
    "name": {"type": "string", "minLength": 1, "description": "under which the answers are found"},
    "weight": {"type": "number", "minimum": 0, "description": "how much its variance counts; 1 unless given"},
    "stderr": _SIZE | {"description": "the standard error each answer must keep"},
    "within": {
        "type": "array",
        "prefixItems": [_SIZE, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}],
        "minItems": 2,
        "maxItems": 2,
        "description": "half-width and level of the interval each answer must keep, as [100, 0.95]",
    },
    "expected": {
        "anyOf": [_POSITIVE, {"type": "array", "items": _POSITIVE, "minItems": 1}],
        "description": "a public size, for targets in per cent; or a list, one for each row",
    },
    "attributes": _TEXTS | {"description": "names of attributes of the schema"},
    "attribute": _TEXT | {"description": "an attribute of the schema"},
    "order": {"anyOf": [{"type": "integer", "minimum": 0}, _SOME_COUNTS]},
    "ranges": {"type": "array", "items": _ENDS, "minItems": 1},
    "condition": _TEXT | {"description": "such as age >= 18 and sex == 'F'"},
    "cases": {
        "anyOf": [
            {"type": "object", "additionalProperties": _TEXT, "minProperties": 1},
            {"type": "array", "items": _ENDS | {"items": _TEXT}, "minItems": 1},
        ],
        "description": 'conditions by label, such as { minor = "age < 18", adult = "age >= 18" }',
    },
    "heading": {"type": "string", "minLength": 1, "description": "what heads the column of the cases"},
    "left": _SIDE,
    "right": _SIDE,
    "matrix": {"anyOf": [{"type": "array", "items": {"anyOf": [_NUMBERS, {"type": "number"}]}}, _SPARSE]},
    "labels": {"type": "array", "items": _TEXT},
}
_OPTIONAL = {"order", "labels", "heading"}
# Where a key of a file is called otherwise in Python.
_WRITTEN = {"row_labels": "labels"}

_NUMBER_OR_FRACTION: Json = {"anyOf": [_POSITIVE, {"type": "string", "pattern": "^[^/]+/[^/]+$"}]}
_GOAL_KEYS: dict[str, Json] = {
    "neighbours": {"enum": ["add-remove", "replace-one"]},
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
    "tol": _POSITIVE,
    "time_limit": _POSITIVE | {"description": "seconds"},
    "backend": _TEXT,
}
_POLICIES: dict[str, Json] = {
    "outside": {"enum": ["drop", "clamp", "other"]},
    "null": {"enum": ["drop", "other"]},
    "other": _TEXT | {"description": "the label of one more cell"},
}
_NAMES: Json = {
    "type": "array",
    "minItems": 1,
    "uniqueItems": True,
    "anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}],
}
_ATTRIBUTES: dict[str, Json] = {
    "range": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    "bins": _NUMBERS | {"minItems": 2},
    "categories": _NAMES,
    "hierarchy": {"type": ["object", "array"], "minProperties": 1, "minItems": 1},
}


def own_keys(kind: type[Query]) -> list[str]:
    """The keys that a kind of query has besides those of all."""
    names = [field.name for field in fields(kind) if not field.kw_only and field.name not in COMMON]
    return [_WRITTEN.get(name, name) for name in names]


def json_schema() -> Json:
    """The schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "leastnoise specification",
        "type": "object",
        "properties": {
            "schema": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"$ref": "#/$defs/attribute"},
                "description": "the columns that count, each with its public values",
            },
            "privacy": {"anyOf": [*_goals(), _without_numbers()]},
            "query": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/query"}},
            "design": _table({key: _DESIGN_KEYS.get(key, {}) for key in DESIGN}),
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


def _table(properties: dict[str, Json], *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _goals() -> list[Json]:
    return [_goal(numbers) for numbers in GOALS]


def _goal(numbers: frozenset[str]) -> Json:
    ordered = sorted(numbers, reverse=True)  # epsilon before delta
    further = {key: _GOAL_KEYS.get(key, {}) for key in FURTHER} | _PERSON
    return _table(dict.fromkeys(ordered, _NUMBER_OR_FRACTION) | further, *ordered)


def _without_numbers() -> Json:
    """What may be said where targets take the place of a goal: for one record, added or removed."""
    defaults = {key: {"const": default} for key, default in FURTHER.items()}
    return _table(defaults | _PERSON) | {"minProperties": 1}


def _attribute(key: str) -> Json:
    return _table({key: _ATTRIBUTES[key]} | _POLICIES, key)


def _common() -> dict[str, Json]:
    return {key: _QUERY_KEYS.get(key, {}) for key in COMMON}


def _query(kind: str, cls: type[Query]) -> Json:
    own = own_keys(cls)
    properties = {"kind": {"const": kind}} | {key: _QUERY_KEYS.get(key, {}) for key in own} | _common()
    needed = [key for key in own if key not in _OPTIONAL]
    return _table(properties, "kind", *needed) | {"not": {"required": ["stderr", "within"]}}


def _asked_in_sql() -> Json:
    properties = {"sql": _TEXT | {"description": "SELECT …, COUNT(*) FROM people …"}} | _common()
    return _table(properties, "sql") | {"not": {"required": ["stderr", "within"]}}


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
