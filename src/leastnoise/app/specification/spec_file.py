"""One TOML file that says what to publish, and the values it stands for.

    format = 1           # of this file; may be left out

    [schema]
    age    = { range = [0, 116] }                # 0 to 115
    sex    = ["F", "M"]
    income = { bins = [0, 10000, 20000, 50000] } # 0–9999, 10000–19999, …

    [privacy]
    epsilon = 1.0
    delta   = 1e-6       # leave out for pure privacy; or give rho, or mu, alone; "1/3" is exact

    [[query]]
    kind       = "marginal"
    attributes = ["age", "sex"]

    [[query]]
    kind      = "prefix"
    attribute = "age"
    name      = "age distribution"

    [design]             # optional
    method = "auto"
    tol    = 1e-6
    accept_gap = 0.05    # how far the plan may be from the proven optimum before commands warn

    [not_counted]        # optional: how many records match no declared value; see not_counted_table.py
    most   = 0.05

    [publication]        # optional: title, publisher, source, period, unit, contact, licence, date
    title  = "Population by age"

    [presentation]       # optional: how the answers are shown
    round_to       = 5
    flag_above     = "20%"   # coefficient of variation above which a number is marked unreliable
    suppress_above = "50%"   # and above which it is left out

Files that are not written with commas in UTF-8, and text that is to be cleaned before it counts, are
described in [data]: separator = ";", quote, encoding = "cp1252", sheet = "people" of an Excel file, and
clean = { trim = true, decimal = "," } for all attributes that declare no cleaning of their own.

Where a person may have several records, [privacy] says how many count at most and whose they are:
records_per_person = 3, and person = "patient_id", a column of the table. Ids in it that stand for nobody in
particular are listed beside it: person_unknown = ["unknown", 0].

A query may hold a target, stderr = 50 or within = [100, 0.95]. Where some do, [privacy] may be
left out, or hold a delta alone: the plan then spends the least that meets them, at this delta.

An attribute may name a code list, a public file: region = { codes = "regions.csv" } (see codes.py).

Kinds are total, marginal, cube, prefix, all-ranges, ranges, levels, sum, where, cases, product
and linear; instead of a kind, a query may hold sql = "SELECT …". An attribute may also be a
hierarchy, and say what becomes of other values.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from leastnoise.app.specification.optional_tables import (
    NOT_COUNTED,
    NotCountedTable,
    SpecRefusal,
    design_table,
    not_counted_of,
    presentation_table,
    publication_table,
    with_code_list,
)
from leastnoise.app.specification.privacy_table import (
    FURTHER,
    PERSON,
    PERSON_UNKNOWN,
    person_of,
    privacy_of,
)
from leastnoise.app.specification.toml_text import Lines, key_text, slip_in, value_text
from leastnoise.app.sql import queries_from_sql
from leastnoise.core.errors import InputError, SpecError
from leastnoise.core.steps import log_step
from leastnoise.data import FileFormat
from leastnoise.planning import ACCEPTED_GAP
from leastnoise.privacy import Goal, LeastLoss
from leastnoise.query import COMMON, Query, Schema, Workload, assemble, objective_from_dict, query_from_dict
from leastnoise.release import Presentation
from leastnoise.report import Publication

MAX_BYTES = 16 * 2**20
# The version of the file's format: what a file may hold and what it means. A file that names none is of 1.
FORMAT_VERSION = 1
FORMAT_KEY = "format"
# What `leastnoise init` writes where only a person knows what belongs there.
FILL_IN = "<fill in>"

# How files are written, and what is done to the text in them.
DATA = "data"
FORMAT = ("separator", "quote", "encoding", "sheet")
CLEAN = "clean"


@dataclass(frozen=True, eq=False)
class Spec:
    """What to publish: a schema, queries, a privacy goal, and settings for `design`.

    The goal is None where the queries have targets and the least privacy loss is sought.

    Attributes:
        person: the column that names the person, for `vectorize`: at most ``records_per_person`` records of
            each then count. None where nothing says whose record is whose.
        person_unknown: ids in that column that stand for nobody in particular.
        not_counted: whether to tell how many records match no declared value, and when to warn.
        format: how the table's files are written.
        presentation: how the answers are shown; None where they are shown as measured.
        publication: what the publisher says about the publication; None for nothing.
        least: for whom the least loss is sought, and at which δ it is stated, where there is no goal.
    """

    schema: Schema
    queries: tuple[Query, ...]
    privacy: Goal | None
    design: Mapping[str, Any] = field(default_factory=dict)
    person: str | None = None
    person_unknown: tuple[str | int, ...] = ()
    not_counted: NotCountedTable = field(default_factory=NotCountedTable)
    format: FileFormat = field(default_factory=FileFormat)
    presentation: Presentation | None = None
    publication: Publication | None = None
    least: LeastLoss = LeastLoss()  # noqa: RUF009 - a frozen value

    @property
    def asked_privacy(self) -> Goal | LeastLoss:
        """What `design` is given: the goal, or for whom the least loss is sought."""
        return self.least if self.privacy is None else self.privacy

    @property
    def records_per_person(self) -> int:
        """How many records of one person the promise is for."""
        return self.asked_privacy.records_per_person

    @cached_property
    def workload(self) -> Workload:
        """The queries, assembled once."""
        return assemble(self.queries, self.schema)

    @property
    def accept_gap(self) -> float:
        """The gap of the plan above which commands warn."""
        return float(self.design.get("accept_gap", ACCEPTED_GAP))

    def design_settings(self) -> dict[str, Any]:
        """What the [design] table asks, as keyword arguments of `design`."""
        settings = {name: value for name, value in self.design.items() if name != "accept_gap"}
        if "objective" in settings:
            settings["objective"] = objective_from_dict(settings)
            settings.pop("relative_to", None)
        return settings

    def to_toml(self) -> str:
        """The specification as text that `parse_spec` reads back."""
        lines = [f"{FORMAT_KEY} = {FORMAT_VERSION}", "", "[schema]"]
        lines += [f"{key_text(name)} = {value_text(value)}" for name, value in self.schema.to_dict().items()]
        if self.format != FileFormat():
            lines += ["", f"[{DATA}]"]
            plain = {name: value or "" for name, value in self.format.to_dict().items()}
            lines += [f"{name} = {value_text(value)}" for name, value in plain.items()]
        goal = self.asked_privacy.to_dict()
        is_said = self.privacy is not None or self.least != LeastLoss()
        lines += ["", "[privacy]"] if is_said or self.person is not None else []
        for name, value in goal.items():
            if name != "goal" and value != FURTHER.get(name):
                lines.append(f"{name} = {value_text(value)}")
        lines += [] if self.person is None else [f"{PERSON} = {value_text(self.person)}"]
        lines += (
            [f"{PERSON_UNKNOWN} = {value_text(list(self.person_unknown))}"] if self.person_unknown else []
        )
        for query in self.queries:
            lines += ["", "[[query]]"]
            lines += [f"{key_text(name)} = {value_text(value)}" for name, value in query.to_dict().items()]
        settings = {name: value for name, value in self.design.items() if value is not None}
        if settings:
            lines += ["", "[design]"]
            lines += [f"{key_text(name)} = {value_text(value)}" for name, value in settings.items()]
        lines += self.not_counted.to_toml()
        if self.presentation is not None:
            lines += ["", "[presentation]"]
            lines += [f"{name} = {value_text(value)}" for name, value in self.presentation.to_dict().items()]
        if self.publication is not None:
            lines += ["", "[publication]"]
            lines += [f"{name} = {value_text(value)}" for name, value in self.publication.to_dict().items()]
        return "\n".join(lines) + "\n"


def load_spec(path: str | Path) -> Spec:
    """The specification in a TOML file.

    Args:
        path: the TOML file.

    Raises:
        SpecError: if it is not valid; the message names the file, the line or table, and what must hold.
    """
    source = Path(path)
    try:
        # Read up to the limit and not by the size the file claims: a device claims none.
        with source.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(f"there is no file {str(source)!r}", field="path", given=str(source)) from None
    except OSError as error:
        raise SpecError(
            f"{str(source)!r} cannot be read: {error.strerror}", field="path", given=str(source)
        ) from None
    if len(content) > MAX_BYTES:
        raise SpecError(
            f"{source.name}: a specification holds at most {MAX_BYTES:,} bytes",
            field="path",
            given=source.name,
        )
    try:
        # Some editors put a byte order mark first, which TOML does not know.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_saved = content.startswith(b"PK")
        hint = "; this is a saved plan or release, for `leastnoise measure` or `explain`" if is_saved else ""
        raise SpecError(
            f"{source.name}: a specification is text in UTF-8{hint}", field="path", given=source.name
        ) from None
    spec = _parse(
        text, lambda line: f"{source.name}: " if line is None else f"{source.name}:{line}: ", source.parent
    )
    log_step("specification loaded", file=source.name)
    return spec


def parse_spec(text: str, folder: str | Path = ".") -> Spec:
    """The specification in a TOML text.

    Args:
        text: the TOML text.
        folder: the folder of the code lists that it names.

    Raises:
        SpecError: if it is not valid; the message names the line and what must hold.
    """
    return _parse(text, lambda line: "" if line is None else f"line {line}: ", Path(folder))


def _parse(text: str, where: Callable[[int | None], str], folder: Path) -> Spec:
    """The specification in a text; a refusal begins with where it stands."""
    try:
        content = tomllib.loads(text)
    except (RecursionError, ValueError) as error:  # a number of 5,000 digits is a plain ValueError
        is_table = re.search(r"^\s*\[\s*query\s*\]", text, re.MULTILINE) is not None
        hint = "; write [[query]] in double brackets before each query" if is_table else ""
        line = _line_of(error)
        slip = "" if line is None else slip_in(text.split("\n")[line - 1])
        words = f"{where(line)}this is not TOML: {error}{hint}{slip}"
        raise SpecError(words, field="toml").at_line(line) from None
    try:
        # First: of a newer format everything else may look wrong.
        _check_format(content)
        _check_values(content)
        return _read(content, folder)
    except SpecRefusal as refusal:
        # Looked for only now: a file that is right needs no lines.
        line = Lines(text).of(*refusal.place) if refusal.place else None
        found = SpecError(f"{where(line)}{refusal}", field=refusal.field, given=refusal.given)
        raise found.at_line(line) from None
    except RecursionError:
        raise SpecError(
            f"{where(None)}a specification's tables must not be nested that deeply", field="toml"
        ) from None


def _line_of(error: Exception) -> int | None:
    """The line that Python's TOML reader names: by its attribute, or before Python 3.14 only by its text."""
    line = getattr(error, "lineno", None)
    if line is not None:
        return int(line)
    found = re.search(r"\(at line (\d+), column \d+\)", str(error))
    return None if found is None else int(found[1])


def _check_format(content: dict[str, Any]) -> None:
    """Refuse a file that a newer version of leastnoise may mean otherwise than this one would read it."""
    given = content.get(FORMAT_KEY, FORMAT_VERSION)
    if type(given) is not int or given < 1:
        words = f"format must be {FORMAT_VERSION}, the version of this file's format, got {given!r}"
        raise SpecRefusal(words, FORMAT_KEY, given=given)
    if given > FORMAT_VERSION:
        raise SpecRefusal(
            f"this file has format = {given}, which a newer leastnoise writes; this version reads format = "
            f"{FORMAT_VERSION}. Upgrade leastnoise (pip install --upgrade leastnoise)",
            FORMAT_KEY,
            given=given,
        )


def _check_values(content: dict[str, Any]) -> None:
    """Refuse places still to be filled in, and whole numbers that no float comes near.

    Python would not even print some of those.
    """
    unfilled = []
    for place, value in _values(content):
        if value == FILL_IN:
            unfilled.append(place)
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            raise SpecRefusal(f"a whole number must lie within ±{sys.float_info.max:.1e}", *place, given=int)
    # A range has two ends: they are one thing to fill in.
    wanted = list(dict.fromkeys(place[:2] for place in unfilled))
    if wanted:
        table, *names = wanted[0]
        name = f" {names[0]}" if names and isinstance(names[0], str) else ""
        more = f"; {len(wanted) - 1} more after it" if len(wanted) > 1 else ""
        raise SpecRefusal(
            f"[{table}]{name} is still to be filled in: put what is public knowledge in the place of "
            f'"{FILL_IN}", as the comment above it says, or delete it{more}',
            *unfilled[0],
            given=FILL_IN,
        )


def _values(content: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that is no table or list, with its place, in the order of the text."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), content)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, (dict, list)):
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            # A thousand keys within each other must not make a thousand long places.
            deeper = [((*place, key) if len(place) < 8 else place, item) for key, item in inside]
            waiting.extend(reversed(deeper))
        else:
            yield place, value


def _read(content: dict[str, Any], folder: Path) -> Spec:
    tables = ("schema", DATA, "privacy", "query", "design", NOT_COUNTED, "presentation", "publication")
    unknown = sorted(set(content) - {FORMAT_KEY, *tables})
    if unknown:
        words = f"there are {', '.join(f'[{n}]' if n != 'query' else '[[query]]' for n in tables)}"
        raise SpecRefusal(f"unknown table {unknown[0]!r}; {words}", unknown[0])
    for table in ("schema", "privacy"):
        is_left_out = table == "privacy" and table not in content and _has_targets(content)
        if not is_left_out and (not isinstance(content.get(table), dict) or not content[table]):
            raise SpecRefusal(f"a [{table}] table is needed", table)
    queries = content.get("query")
    if isinstance(queries, dict):
        raise SpecRefusal("queries come in a list: write [[query]] in double brackets before each", "query")
    if not isinstance(queries, list) or not queries or not all(isinstance(q, dict) for q in queries):
        raise SpecRefusal("at least one [[query]] is needed", "query")
    schema, format = _data(content.get(DATA, {}), _schema(content["schema"], folder))
    asked: list[Query] = []
    taken: set[str] = set()
    for number, plain in enumerate(queries):
        for query in _queries(number, plain, schema):
            if query.name is not None and query.name in taken:
                words = f"query names must differ, {query.name!r} is given twice"
                raise SpecRefusal(
                    f"[[query]] number {number + 1}: {words}", "query", number, given=query.name
                )
            taken |= {query.name} if query.name is not None else set()
            asked.append(query)
    privacy = content.get("privacy", {})
    goal, least = privacy_of(privacy, has_targets=_has_targets(content))
    settings, person = design_table(content.get("design", {})), person_of(privacy)
    rest, shown = _not_counted(content, schema), presentation_table(content.get("presentation"))
    said = publication_table(content.get("publication"))
    spec = Spec(schema, tuple(asked), goal, settings, *person, rest, format, shown, said, least)
    if goal is None and spec.design.get("objective", "targets") != "targets":
        words = f"objective = {spec.design['objective']!r} needs a budget in [privacy], as epsilon and delta"
        raise SpecRefusal(words, "design", "objective", given=spec.design["objective"])
    try:
        spec.workload  # noqa: B018 - assembled once here, so that weights far apart are found at once
    except InputError as error:
        raise SpecRefusal.of("[[query]]", error, "query") from None
    return spec


def _schema(plain: dict[str, Any], folder: Path) -> Schema:
    found = {}
    for name, given in plain.items():
        try:
            found[name] = with_code_list(given, folder)
            Schema.from_dict({name: found[name]})
        except InputError as error:
            raise SpecRefusal.of("[schema]", error, "schema", name) from None
    return Schema.from_dict(found)


def _not_counted(content: dict[str, Any], schema: Schema) -> NotCountedTable:
    try:
        return not_counted_of(content.get(NOT_COUNTED, {}), schema)
    except SpecError as error:
        place = (NOT_COUNTED, error.field) if error.field else (NOT_COUNTED,)
        raise SpecRefusal(str(error), *place, given=error.given) from None


def _data(plain: Any, schema: Schema) -> tuple[Schema, FileFormat]:
    """The [data] table: the schema with its cleaning, and how files are written."""
    if not isinstance(plain, dict):
        raise SpecRefusal("[data] must be a table", DATA)
    for name in plain:
        if name not in (*FORMAT, CLEAN):
            words = f"[data] does not know {name!r}; it may hold {', '.join((*FORMAT, CLEAN))}"
            raise SpecRefusal(words, DATA, name, given=plain[name])
    try:
        given = {name: value for name, value in plain.items() if name != CLEAN}
        if given.get("quote") == "":
            given["quote"] = None
        return schema.cleaned(plain.get(CLEAN, {})), FileFormat(**given)
    except InputError as error:
        raise SpecRefusal.of("[data]", error, DATA) from None


def _has_targets(content: dict[str, Any]) -> bool:
    queries = content.get("query")
    return isinstance(queries, list) and any(
        isinstance(query, dict) and not query.keys().isdisjoint({"stderr", "within"}) for query in queries
    )


def _queries(number: int, plain: dict[str, Any], schema: Schema) -> list[Query]:
    """What one [[query]] table asks: one query, or those of its SQL."""
    try:
        found = _from_sql(plain, schema) if "sql" in plain else [query_from_dict(plain)]
        for query in found:
            # So that a wrong attribute or a wrong number of sizes is found here, with the query's number.
            query.check(schema)
        return found
    except InputError as error:
        raise SpecRefusal.of(f"[[query]] number {number + 1}", error, "query", number) from None
    except OverflowError:
        words = f"[[query]] number {number + 1}: its matrix holds numbers beyond 64 bits"
        raise SpecRefusal(words, "query", number) from None


def _from_sql(plain: dict[str, Any], schema: Schema) -> list[Query]:
    """The queries of some SQL, each with the weight and the target that are given beside it."""
    common = {key: value for key, value in plain.items() if key != "sql"}
    unknown = sorted(set(common) - set(COMMON))
    if unknown:
        raise SpecError.must("sql", f"stand with no keys but {', '.join(COMMON)}", given=unknown)
    found = queries_from_sql(plain["sql"], schema)
    name = common.pop("name", None)
    if name is not None and len(found) == 1:
        return [found[0].having(name=name, **common)]
    if name is not None and (not isinstance(name, str) or not name):
        raise SpecError.must("name", "be a non-empty text", given=name)
    if name is None:
        return [query.having(**common) for query in found]
    names: list[str] = []
    for query in found:
        wanted = own = f"{name}: {query.name or query.title()}"
        while own in names:
            own = f"{wanted} ({2 + sum(other.startswith(f'{wanted} (') for other in names)})"
        names.append(own)
    return [query.having(name=own, **common) for query, own in zip(found, names, strict=True)]
