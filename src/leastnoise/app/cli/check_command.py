"""A table checked against its schema, for the owner of the table, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from leastnoise.app.cli.data_option import DataFile, TableSource, table_source
from leastnoise.app.cli.design_commands import SpecFile
from leastnoise.app.cli.exit_codes import LEFT_OUT
from leastnoise.app.cli.invocation import Ended, Facts
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.app.drafting.cleaning_rules import CleaningProposal, cleaning_proposals
from leastnoise.app.drafting.columns import closest_name, columns_of
from leastnoise.app.specification import Spec, load_spec
from leastnoise.app.specification.toml_text import key_text, value_text
from leastnoise.core.errors import DataError
from leastnoise.core.look_alikes import look, look_alikes, told_apart
from leastnoise.data import MAX_RECORD, ColumnFit, DroppedRecords, FileFormat, SchemaFit, fit_of, vectorize
from leastnoise.privacy import Goal
from leastnoise.query import (
    NORMAL_FORMS,
    Attribute,
    Categories,
    Cleaning,
    Hierarchy,
    Linear,
    Schema,
    check_spanned,
    default_objective,
)

_WARNING = """\
NOT PRIVATE. Everything below is true of real records and has no noise: it is for the owner of the table
alone. Do not publish it, store it or pass it on. What you change in the specification because of it becomes
public with the specification: list what a codebook, a law or a register says, never a value because it is
shown here."""
_N_SHOWN = 5


def check(
    spec: SpecFile,
    data: DataFile,
    person: Annotated[
        str | None,
        typer.Option("--person", help="the column that names the person; overrides the specification"),
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="also show a few values that are not declared")
    ] = False,
) -> Facts:
    """Check a table against its schema. NOT private: for the owner of the table only. Writes nothing."""
    asked = load_spec(spec)
    _check_targets(asked)
    limit = asked.records_per_person
    unknown = asked.person_unknown if person in (None, asked.person) else ()
    person = asked.person if person is None else person
    source = table_source(data)
    try:
        table = vectorize(source, asked.schema, person=person, person_unknown=unknown, format=asked.format)
        with spinner("checking"):
            fit = fit_of(table, records_per_person=limit, n_examples=_N_SHOWN if show_values else 0)
            proposals = list(
                cleaning_proposals(
                    asked.schema, fit, lambda schema: fit_of(vectorize(source, schema, format=asked.format))
                )
            )
    except DataError as error:
        hint = similar_columns(source, asked.schema, person, asked.format)
        raise type(error)(
            "publish would stop: ", *error.args, hint, field=error.field, given=error.given
        ) from None
    say(f"{_WARNING}\n")
    say("\n".join(_lines(fit, asked, person, limit, show_values)))
    for line in _proposal_lines(fit, asked, proposals):
        say(line)
    facts = _facts(fit, asked, proposals)
    if _exceeds(fit, asked):
        raise Ended(LEFT_OUT.code, facts)
    return facts


def _check_targets(asked: Spec) -> None:
    """Return if every query that needs a target or a weight has one, as `design` will ask."""
    objective = asked.design_settings().get("objective")
    has_goal = isinstance(asked.asked_privacy, Goal)
    check_spanned(asked.workload, default_objective(asked.workload, objective, has_goal=has_goal))


def _facts(fit: SchemaFit, asked: Spec, proposals: Sequence[CleaningProposal]) -> Facts:
    """The same numbers for a program of the owner: true ones, without noise."""
    numbers = ("name", "n_missing", "n_unreadable", "n_undeclared", "n_undeclared_left_out", "n_left_out")
    return {
        "not_private": _WARNING.replace("\n", " "),
        "n_records": fit.n_records,
        "n_counted": fit.n_counted,
        "is_over_declared_share": _exceeds(fit, asked),
        "columns": [{name: getattr(column, name) for name in numbers} for column in fit.columns],
        "person": None if fit.person is None else asdict(fit.person),
        "cleaning": [
            {"column": one.column, "clean": dict(one.steps), "n_more": one.n_more} for one in proposals
        ],
    }


def similar_columns(source: TableSource, schema: Schema, person: str | None, format: FileFormat) -> str:
    """The columns that are spelled almost like one that is missing; nothing else of the first line."""
    try:
        there = [column.name for column in columns_of(source, format)]
    except DataError:
        return ""
    names = [*schema, *([] if person is None else [person])]
    close = {name: closest_name(name, there) for name in names if name not in there}
    similar = [f"{own!r} is there for {name!r}" for name, own in close.items() if own is not None]
    return f"; {', '.join(similar)}" if similar else ""


def _lines(fit: SchemaFit, asked: Spec, person: str | None, limit: int, show_values: bool) -> Iterator[str]:
    yield f"{_records(fit.n_records)} could be read"
    yield from _dropped_lines(fit.dropped)
    for column in fit.columns:
        troubles = list(_troubles(column))
        yield f"\n{column.name}: {column.attribute.values_label()}"
        yield from _alike_lines(column.attribute)
        yield from troubles or ["  every record holds a declared value"]
        yield from _example_lines(column)
    yield ""
    n_out = fit.n_records - fit.n_counted
    if n_out:
        most = f", more than the {100 * asked.not_counted.most:.4g}% of [not_counted]"
        yield (
            f"{_records(n_out)} of {fit.n_records:,} would be left out for one or more of these reasons"
            f"{most if _exceeds(fit, asked) else ''};"
        )
        yield "a release says how many, with noise"
    else:
        yield "every record would be counted"
    yield from _unused_lines(asked)
    yield from _person_lines(fit, person, limit)
    yield (
        "the table would not stop publish: all columns exist. No value can stop it, because that would\n"
        "reveal something about one person"
    )
    has_values = any(c.n_unreadable or c.n_undeclared for c in fit.columns)
    if has_values and not show_values:
        yield "--show-values shows a few of the values that are not declared"


def _names(attribute: Attribute) -> tuple[str, ...]:
    """The declared values that are text."""
    values = attribute.values if isinstance(attribute, (Categories, Hierarchy)) else ()
    return tuple(value for value in values if isinstance(value, str))


def _alike_lines(attribute: Attribute) -> Iterator[str]:
    """The declared values that look alike; follows from the declared list alone."""
    for group in look_alikes(_names(attribute)):
        yield (
            f"  {' and '.join(told_apart(group))} are declared and look alike: a record counts in the one "
            "whose characters it has"
        )


def _example_lines(column: ColumnFit) -> Iterator[str]:
    """Some values that are not declared, and which of them look like one that is."""
    names, texts = _names(column.attribute), [text for text, _ in column.examples]
    by_look = {look(name): name for name in reversed(names)} if texts else {}
    alike = [by_look.get(look(text)) for text in texts]
    shown = told_apart(texts, [name for name in alike if name is not None])
    for said, name, (text, times) in zip(shown, alike, column.examples, strict=True):
        hint = "" if name is None else f", looks like the declared {name!a}{_equated(text, name)}"
        yield f"    {said}: {times:,}{hint}"


def _equated(text: str, name: str) -> str:
    """The normal form that makes a text equal to a declared one, if there is one."""
    forms = (
        form for form in NORMAL_FORMS if len({Cleaning(normalise=form).folded(t) for t in (text, name)}) == 1
    )
    form = next(forms, None)
    return "" if form is None else f'; clean = {{ normalise = "{form}" }} makes them equal'


def _proposal_lines(fit: SchemaFit, asked: Spec, proposals: Sequence[CleaningProposal]) -> Iterator[str]:
    """What could be declared, from a fixed list of rules, so that more records count."""
    n_bytes = fit.dropped.not_utf8 if asked.format.encoding is None else 0
    if not proposals and not n_bytes:
        return
    yield "\nCleaning that would let more records count, from a fixed list. Declare it where it is true of"
    yield "the whole column, whoever is in it:"
    if n_bytes:
        yield f'  [data] encoding = "cp1252"   # {_records(n_bytes)} with text that is not UTF-8'
    for proposal in proposals:
        steps = value_text(dict(proposal.steps))
        yield f"  {key_text(proposal.column)} = {{ …, clean = {steps} }}   # {_records(proposal.n_more)} more"


def _exceeds(fit: SchemaFit, asked: Spec) -> bool:
    """Whether a larger share of the records would be left out than the specification declares."""
    return fit.n_records - fit.n_counted > asked.not_counted.most * fit.n_records


def _unused_lines(asked: Spec) -> Iterator[str]:
    """The attributes that no query mentions, and that leave records out all the same."""
    queries = [block.query for block in asked.workload.blocks]
    if any(isinstance(query, Linear) for query in queries):
        return  # rows of a matrix are over all cells
    used = {
        name
        for query in queries
        for term in query.terms(asked.schema)
        for factor in term
        for name in factor.attributes
    }
    unused = [name for name in asked.schema if name not in used]
    if unused:
        yield f"used by no query: {', '.join(unused)}. Records without a declared value there are left out"
        yield "all the same; remove from [schema] what you do not count by"


def _dropped_lines(dropped: DroppedRecords) -> Iterator[str]:
    """How many lines of CSV files could not be read as records, and why."""
    reasons = {
        f"longer than {MAX_RECORD:,} bytes": dropped.too_long,
        "with a quote that is not closed before a comma, a tab or the end of the line": dropped.unclosed,
        "with text that is not UTF-8": dropped.not_utf8,
        "with fewer fields than the first line": dropped.too_few,
        "that is no JSON object": dropped.not_json,
    }
    for reason, number in reasons.items():
        if number:
            yield f"  {_records(number)} {reason}: left out"


def _troubles(column: ColumnFit) -> Iterator[str]:
    """What is not as declared, in how many records, and what happens to them."""
    attribute = column.attribute
    if column.n_missing:
        yield _trouble(column.n_missing, "without a value", _null_policy(attribute))
    if column.n_unreadable:
        wanted = "whole number" if attribute.kind == "range" else "number"
        policy = attribute.outside if attribute.outside != "clamp" else "drop"
        yield _trouble(
            column.n_unreadable, f"with something that is no {wanted}", _outside_policy(attribute, policy)
        )
    n_kept = column.n_undeclared - column.n_undeclared_left_out
    value = "a number" if attribute.has_ends else "a value"
    for number, policy in ((n_kept, attribute.outside), (column.n_undeclared_left_out, "drop")):
        if number:
            yield _trouble(number, f"with {value} that is not declared", _outside_policy(attribute, policy))


def _trouble(number: int, words: str, policy: str) -> str:
    return f"  {_records(number)} {words}: {policy}"


def _null_policy(attribute: Attribute) -> str:
    if attribute.null == "other":
        return f'counted in the cell "{attribute.other}" (null = "other")'
    return 'left out (null = "drop"; null = "other" would count them)'


def _outside_policy(attribute: Attribute, policy: str) -> str:
    return {
        "other": f'counted in the cell "{attribute.other}" (outside = "other")',
        "clamp": 'counted at the nearest end (outside = "clamp")',
        "drop": "left out",
    }[policy]


def _person_lines(fit: SchemaFit, person: str | None, limit: int) -> Iterator[str]:
    if fit.person is None:
        if limit > 1:
            yield (
                f"records_per_person = {limit} is not checked. Name the person's column beside it, as in\n"
                'person = "patient_id", and further records of one person are left out'
            )
        return
    found = fit.person
    yield f"{found.n_persons:,} different persons (column {person}) among the records that count"
    if found.n_nobody:
        yield f"  {_records(found.n_nobody)} without a person: left out"
    if found.n_over:
        yield (
            f"  {found.n_over:,} with more than records_per_person = {limit}: {_records(found.n_cut)} beyond "
            "it left out"
        )


def _records(number: int) -> str:
    return f"{number:,} record{'' if number == 1 else 's'}"
