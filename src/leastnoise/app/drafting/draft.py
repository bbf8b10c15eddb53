"""A draft of a specification, with comments that say what belongs in each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leastnoise.app.drafting.codebook import fitting
from leastnoise.app.drafting.columns import Column, is_identifier
from leastnoise.app.specification import FILL_IN
from leastnoise.app.specification.spec_file import FORMAT_KEY, FORMAT_VERSION
from leastnoise.app.specification.toml_text import key_text, value_text
from leastnoise.core.errors import SpecError
from leastnoise.core.printable import printable
from leastnoise.data import FileFormat

# What a column may be declared as, and what that is called.
KINDS = {
    "named": "categories",
    "whole": "whole numbers",
    "measured": "measured numbers",
    "truth": "true or false",
    "date": "dates",
}
# Which cross tables are published, and what that is called.
TABLES = {
    "each": "each column by itself",
    "pairs": "every pair of columns",
    "all": "one table of all columns",
}

_HEAD = """\
# {spec}: what to publish from {table}
#
# Written from the names and types of the columns only; no value of the table was read. Do not list a
# value here because you saw it in the table: a category that is listed because one person has it reveals
# that person, whatever noise is added. Take ranges and categories from public sources:
# a codebook, a law, a register, an earlier publication.
#
# To do: replace every "{mark}". Delete columns that you do not want to count by, such as record numbers,
# names or free text, with the queries that use them. Then
{commands}
#
# Editors check this file as you type if you put  #:schema ./spec.schema.json  in its first line, after
#   leastnoise init --schema > spec.schema.json
"""

_POLICIES = """\
# A record with a value that is not listed, or with a missing one (in a CSV file, an empty field), is left
# out; a release says how many, with noise. To count such records, write for example
#   region = { categories = ["north", "south"], other = "elsewhere" }   # others in a cell of their own
#   region = { categories = ["north", "south"], other = "unknown", null = "other" }   # and missing ones
#   age    = { range = [0, 100], outside = "clamp" }   # 130 counts as 99
"""

# The delta of a draft that asks for standard errors.
_DELTA = 1e-6

_EXAMPLES = {
    "named": ('["north", "south"]', "all values to count; others are left out"),
    "more named": ('{ categories = ["north", "south"], other = "elsewhere" }', "or with a cell for the rest"),
    "whole": ("{ range = [0, 116] }", "0, 1, … 115: the first value, and the last plus one"),
    "clamped": ('{ range = [0, 100], outside = "clamp" }', "or with 130 counted as 99"),
    "measured": ("{ bins = [0, 18, 65, inf] }", "0–17, 18–64, 65 or more"),
    "date": ('{ periods = ["2026-01", "2026-12"], by = "month" }', "or by day, week, quarter or year"),
    "moment": (
        '{ periods = ["2026-01", "2026-12"], by = "month", zone = "Europe/Berlin" }',
        "the zone whose days count",
    ),
}
_SHOWN = {
    "": ("named", "whole", "measured", "date"),
    "named": ("named", "more named"),
    "whole": ("whole", "clamped", "measured"),
    "measured": ("measured",),
    "date": ("date",),
    "moment": ("moment",),
}
_BLANK = {
    "": f'["{FILL_IN}"]',
    "named": f'["{FILL_IN}"]',
    "whole": f'{{ range = ["{FILL_IN}", "{FILL_IN}"] }}',
    "measured": f'{{ bins = ["{FILL_IN}"] }}',
    "truth": '["false", "true"]',
    # A file of text may hold True, TRUE or true.
    "written truth": '{ categories = ["false", "true"], clean = { ignore_case = true } }',
    "date": f'{{ periods = ["{FILL_IN}", "{FILL_IN}"], by = "month" }}',
    "moment": f'{{ periods = ["{FILL_IN}", "{FILL_IN}"], by = "month", zone = "{FILL_IN}" }}',
}


@dataclass(frozen=True)
class Wishes:
    """What a publisher answered; everything by default.

    Attributes:
        kinds: what a column is, where its type does not say so.
        left_out: columns that are not published.
        person: the column that names the person, where one may have several records.
        records_per_person: how many at most.
        tables: "each", "pairs" or "all".
        named: columns to publish although they look like identifiers of records.
        declared: what a codebook says of columns, as [schema] holds it.
        stderr: the standard error that every count must keep; the privacy goal is left out then.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    person: str | None = None
    records_per_person: int = 1
    tables: str = "each"
    epsilon: float = 1.0
    delta: float = 1e-6
    stderr: float | None = None
    named: frozenset[str] = frozenset()
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def draft_spec(
    columns: Sequence[Column],
    wishes: Wishes,
    *,
    spec: str,
    table: str,
    format: FileFormat | None = None,
) -> str:
    """The text of a specification file, with marks where the publisher must fill something in.

    Args:
        spec: the name of the file.
        table: the name of the table.
        format: how its files are written.

    Guarantee:
        It depends on names and types of columns, and on what was answered; on no record.

    Raises:
        SpecError: if no column is left.
    """
    names = [column.name for column in columns if _is_published(column, wishes)]
    if not names:
        raise SpecError(
            "a specification needs at least one column of text, numbers, dates or truth values that is no "
            "identifier",
            field="columns",
        )
    commands = "\n".join(f"#   {command}" for command in next_commands(wishes, spec=spec, table=table))
    head = _HEAD.format(spec=printable(spec), table=printable(table), mark=FILL_IN, commands=commands)
    declared = filter(None, (_declared(column, wishes) for column in columns))
    parts = [
        head,
        f"{FORMAT_KEY} = {FORMAT_VERSION}\n",
        *_data(format or FileFormat()),
        _POLICIES + "[schema]\n",
        *declared,
        *_privacy(wishes),
        *_queries(names, wishes),
    ]
    return "\n".join(parts)


def _data(format: FileFormat) -> list[str]:
    """How files are written, where it is not the usual, and how text is cleaned, as a comment."""
    words = [
        "# Blanks around values, a decimal comma, words for missing values are declared for all columns by",
        "#   [data]",
        '#   clean = { trim = true, decimal = ",", thousands = ".", nulls = ["NA"], dates = ["%d.%m.%Y"] }',
        '# and normalise = "NFC" makes accented letters equal, whether they are one character or two.',
    ]
    plain = {name: value or "" for name, value in format.to_dict().items()}
    lines = ["[data]", *(f"{name} = {value_text(value)}" for name, value in plain.items())] if plain else []
    return ["\n".join([*words, *lines]) + "\n"]


def next_commands(wishes: Wishes, *, spec: str, table: str) -> list[str]:
    """The commands to run once a draft is filled in, in order, with comments."""
    name = Path(spec).stem
    shell, data = in_shell(spec), in_shell(table)
    ledger = in_shell(str(Path(spec).with_suffix(".ledger")))
    return [
        f"leastnoise check {shell} --data {data}   # does the table fit? For its owner only",
        f"leastnoise explain {shell}   # expected accuracy, and what drives it; reads no data",
        f"leastnoise ledger create {ledger} --dataset {in_shell(name)} --for {shell} --times 2   "
        "# once: a budget for two releases; or give --epsilon and --delta",
        f"leastnoise publish {shell} --data {data} --ledger {ledger}",
    ]


def _is_published(column: Column, wishes: Wishes) -> bool:
    kind = wishes.kinds.get(column.name) or column.kind
    is_left_out = column.name in wishes.left_out or column.name == wishes.person
    return kind in _BLANK and not is_left_out and not _tells_apart(column, wishes)


def _tells_apart(column: Column, wishes: Wishes) -> bool:
    return is_identifier(column.name) and column.name not in wishes.named


def _declared(column: Column, wishes: Wishes) -> str:
    """The lines that declare a column, or why it is not declared."""
    name, kind = column.name, wishes.kinds.get(column.name) or column.kind
    shown, key = printable(name), key_text(name)
    if name in wishes.left_out:
        return ""
    if name == wishes.person:
        return f"# {shown} identifies the person and is not published.\n"
    if _tells_apart(column, wishes):
        return (
            f"# {shown} looks like an identifier, by its name, and is left out.\n"
            "# If it identifies a person who can have several records, write in [privacy] how many count,\n"
            f"# as in  records_per_person = 3, and the column:  person = {value_text(name)}\n"
            f'# If it is an attribute to count by, declare it:  {key} = ["a", "b"]\n'
        )
    if kind == "time":
        return (
            f"# {shown} contains times of day and is left out. To publish it, add a column of hours to the\n"
            "# table, and declare that.\n"
        )
    if kind not in _BLANK:
        return f"# {shown} contains neither text nor numbers and is left out.\n"
    listed = fitting(wishes.declared[name], column.kind) if name in wishes.declared else None
    if listed is not None:
        return f"# {shown}: as the codebook lists it.\n{key} = {value_text(listed)}\n"
    doubt = f"# The codebook lists values that {shown} cannot hold, by its type.\n"
    doubt = doubt if name in wishes.declared else ""
    if kind == "truth":
        return (
            f"{doubt}# {shown}: true or false.\n{key} = {_BLANK[kind if column.kind else 'written truth']}\n"
        )
    asked = "categories, whole numbers, measured numbers or dates? Write one of"
    if kind:
        asked = f"{KINDS.get(kind, 'moments in time')}. Write"
    examples = [_EXAMPLES[example] for example in _SHOWN[kind]]
    width = max(len(text) for text, _ in examples)
    lines = [f"#   {key} = {text:<{width}}   # {words}" for text, words in examples]
    return doubt + "\n".join([f"# {shown}: {asked}, for example", *lines, f"{key} = {_BLANK[kind]}\n"])


def _privacy(wishes: Wishes) -> list[str]:
    if wishes.stderr is not None:
        return [
            "# delta alone: the plan has the least epsilon, at this delta, that meets every standard error\n"
            "# below, and says what it is. To set a budget yourself, write an epsilon beside it, as in\n"
            "# epsilon = 1.0.\n"
            + "\n".join(["[privacy]", f"delta = {value_text(wishes.delta or _DELTA)}", *_several(wishes)])
            + "\n"
        ]
    delta = [f"delta = {value_text(wishes.delta)}"] if wishes.delta else []
    return [
        "# The privacy budget of all queries together. epsilon = 1 is common; a smaller one means more\n"
        "# privacy and more noise. delta is what the promise may fall short by: keep it far below one over\n"
        "# the number of people. Without delta privacy is pure, which needs more noise where a person is in\n"
        "# many of the counts, and sometimes less; `leastnoise explain --without-delta` compares both.\n"
        + "\n".join(["[privacy]", f"epsilon = {value_text(wishes.epsilon)}", *delta, *_several(wishes)])
        + "\n"
    ]


def _several(wishes: Wishes) -> list[str]:
    """How many records of one person count, and whose they are."""
    if wishes.person is None:
        return []
    return [
        "# At most this many records of each person count; further ones are left out, and the noise grows",
        "# with the number. `leastnoise check` tells the owner of the table how many are left out.",
        f"records_per_person = {wishes.records_per_person}",
        f"person = {value_text(wishes.person)}",
    ]


def _queries(names: Sequence[str], wishes: Wishes) -> list[str]:
    target = [] if wishes.stderr is None else [f"stderr = {value_text(wishes.stderr)}"]
    listed = value_text(list(names))
    asked: list[list[str]] = [['kind = "total"', 'name = "everyone"']]
    if wishes.tables == "pairs" and len(names) > 1:
        asked.append(['kind = "cube"', f"attributes = {listed}", "order = [1, 2]"])
    elif wishes.tables == "all":
        asked.append(['kind = "marginal"', f"attributes = {listed}"])
    else:
        asked += [['kind = "marginal"', f"attributes = {value_text([name])}"] for name in names]
    column = _sql_name(names[0])
    words = [
        "# What is published. A query can have a name, a weight, and a target for each of its counts: a",
        "# standard error, or the half-width and the level of an interval. Or SQL instead of a kind:",
        "#   [[query]]",
        '#   kind = "marginal"',
        f"#   attributes = {value_text([names[0]])}",
        f"#   name = {value_text(f'by {names[0]}')}",
        "#   stderr = 20   # or within = 40: a 95% interval of ±40",
        "#   [[query]]",
        f'#   sql = """SELECT {column}, COUNT(*) AS n FROM people GROUP BY {column}"""\n',  # noqa: S608 - to be read
    ]
    return ["\n".join(words), *("\n".join(["[[query]]", *lines, *target]) + "\n" for lines in asked)]


def _sql_name(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else '"' + printable(name).replace('"', '""') + '"'


def in_shell(text: str) -> str:
    """A word of a command line, quoted if necessary."""
    shown = printable(text)
    is_plain = all(c.isalnum() or c in "._-/" for c in shown)
    return shown if is_plain else "'" + shown.replace("'", "'\\''") + "'"
