"""What is approved is what is measured: the digest covers everything that changes what one person can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli import approval
from leastnoise.app.cli.main import app
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.app.specification.toml_text import key_text, value_text
from leastnoise.planning import Plan

BASE: dict[str, Any] = {
    "schema": {"age": {"range": [0, 4]}, "sex": ["F", "M"]},
    "data": {"separator": ";"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "records_per_person": 2, "person": "id"},
    "query": [{"kind": "marginal", "attributes": ["age", "sex"]}, {"kind": "total"}],
    "design": {"tol": 1e-6},
    "not_counted": {},
    "presentation": {},
    "publication": {},
}
# Another value for every key of every table, as a file writes it; a callable changes the whole content.
OTHERS: dict[str, Any] = {
    "format": 1,
    "schema": {"age": {"range": [0, 4]}, "sex": ["M", "F"]},
    "data.separator": "\t",
    "data.quote": "'",
    "data.encoding": "cp1252",
    "data.sheet": "people",
    "data.clean": {"trim": True},
    "privacy.epsilon": 0.5,
    "privacy.delta": 1e-7,
    "privacy.rho": lambda content: content.update(privacy={"rho": 0.1}),
    "privacy.mu": lambda content: content.update(privacy={"mu": 0.1}),
    "privacy.neighbours": "replace-one",
    "privacy.records_per_person": 3,
    "privacy.calibration": "classic",
    "privacy.person": "household",
    "privacy.person_unknown": ["n/a"],
    "query": [{"kind": "marginal", "attributes": ["age", "sex"]}],
    "design.objective": "max-variance",
    "design.relative_to": lambda content: content.update(
        design={"objective": "total-variance", "relative_to": "uniform"}
    ),
    "design.method": "identity",
    "design.options": lambda content: content.update(
        design={"method": "hierarchical", "options": {"branching": 4}}
    ),
    "design.over": lambda content: content.update(design={"over": "age"}),
    "design.tol": 1e-3,
    "design.time_limit": 1000.0,
    "design.backend": "numpy",
    "design.accept_gap": 0.5,
    "not_counted.measure": False,
    "not_counted.most": 0.5,
    "presentation.round_to": 5,
    "presentation.flag_above": "20%",
    "presentation.suppress_above": "50%",
    "publication.title": "People",
    "publication.publisher": "Town",
    "publication.source": "Register",
    "publication.period": "2026",
    "publication.unit": "residents",
    "publication.contact": "town@example.org",
    "publication.licence": "CC0",
    "publication.date": "2026-11-19",
}
# The keys that may change without a new approval. `approval.HARMLESS` says why.
HARMLESS_KEYS = {
    "format",
    "design.time_limit",
    "design.backend",
    "design.accept_gap",
    "not_counted.most",
    *(key for key in OTHERS if key.startswith(("presentation.", "publication."))),
}


def with_other(key: str) -> dict[str, Any]:
    content = deepcopy(BASE)
    other, (table, _, name) = OTHERS[key], key.partition(".")
    if callable(other):
        other(content)
    elif name:
        content[table][name] = other
    else:
        content[table] = other
    return content


def toml_of(content: Mapping[str, Any]) -> str:
    lines = [f"format = {content['format']}"] if "format" in content else []
    for table, values in content.items():
        for one in values if table == "query" else [values] if isinstance(values, dict) and values else []:
            lines.append("[[query]]" if table == "query" else f"[{table}]")
            lines += [f"{key_text(name)} = {value_text(value)}" for name, value in one.items()]
    return "\n".join(lines) + "\n"


@cache
def approved(text: str) -> tuple[Plan, Spec]:
    spec = parse_spec(text)
    return ln.design(spec.workload, spec.asked_privacy, **spec.design_settings()), spec


def unbound(digest: Callable[[Plan, Spec], str]) -> set[str]:
    """The keys of a specification that may be changed without another digest."""
    usual = digest(*approved(toml_of(BASE)))
    return {key for key in OTHERS if digest(*approved(toml_of(with_other(key)))) == usual}


def described() -> Iterator[str]:
    """Every key of a specification, by its published description; schema and queries as a whole."""
    text = resources.files("leastnoise.app.specification").joinpath("spec.schema.json").read_text("utf-8")
    for table, about in json.loads(text)["properties"].items():
        kinds = [about, *about.get("anyOf", ()), *about.get("oneOf", ())]
        keys = {key for kind in kinds for key in kind.get("properties", ())}
        yield from (
            (f"{table}.{key}" for key in keys) if keys and table not in ("schema", "query") else [table]
        )


def test_every_key_of_a_specification_is_bound_or_harmless() -> None:
    assert set(described()) == set(OTHERS)
    assert unbound(approval.approval_digest) == HARMLESS_KEYS


def test_a_digest_of_the_plan_alone_binds_too_little() -> None:
    """The twin: what was approved before."""
    free = unbound(lambda plan, asked: plan.digest) - HARMLESS_KEYS
    assert {"privacy.person", "privacy.person_unknown", "not_counted.measure", "data.encoding"} <= free


def leaves(asked: Any, within: str = "") -> Iterator[str]:
    for field in fields(asked):
        value, place = getattr(asked, field.name), f"{within}{field.name}"
        if is_dataclass(value) and place not in approval.HARMLESS:
            yield from leaves(value, f"{place}.")
        else:
            yield place


def test_every_field_of_the_description_is_covered_or_named_with_a_reason() -> None:
    _, asked = approved(toml_of(BASE))
    covered = {place for place, _ in approval.covered_fields(asked)}
    assert covered | set(approval.HARMLESS) == set(leaves(asked)) and not covered & set(approval.HARMLESS)
    assert all(len(reason) > 20 for reason in approval.HARMLESS.values())


@dataclass(frozen=True, eq=False)
class Later(Spec):
    """A specification as a later version may have it."""

    households: str = "none"


def test_a_field_that_is_added_later_is_covered_until_it_is_named_as_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, asked = approved(toml_of(BASE))
    later = Later(**{field.name: getattr(asked, field.name) for field in fields(asked)})
    other = replace(later, households="by address")
    assert approval.approval_digest(plan, later) != approval.approval_digest(plan, other)
    monkeypatch.setitem(approval.HARMLESS, "households", "for this test")
    assert approval.approval_digest(plan, later) == approval.approval_digest(plan, other)


# ------------------------------------------------------------------------ from the shell


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id;household;age;sex\n1;1;2;F\n1;1;3;M\n2;1;1;F\n", encoding="utf-8")
    Path("spec.toml").write_text(toml_of(BASE), encoding="utf-8")
    return tmp_path


def told(line: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, [*line.split(), "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_what_options_and_files_change_is_refused_before_the_table_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = told("design spec.toml")[1]["result"]
    digest = result["approval"]
    assert told("explain spec.toml")[1]["result"]["approval"] == digest
    publish = f"publish spec.toml --data people.csv --approved {digest} --force"
    measure = f"measure spec.plan --data people.csv --approved {digest} --force --separator ;"
    with monkeypatch.context() as patch:
        patch.setattr("leastnoise.app.cli.publish_commands.vectorize", lambda *_, **__: pytest.fail("opened"))
        for line in (
            f"{publish} --person household",
            f"{publish} --no-not-counted",
            f"{measure}",
            f"{measure} --person household",
            f"{measure} --person id --person-unknown 0",
            f"{measure} --person id --encoding cp1252",
            f"{measure} --person id --quote '",
            f"measure spec.plan --data people.csv --approved {digest} --person id",
            f"publish spec.toml --data people.csv --approved {result['plan']['digest']}",
        ):
            status, said = told(line)
            assert (status, said["error"]["field"]) == (4, "approved"), line
        assert "only the plan was approved" in said["error"]["message"]
    for line in (f"{publish} --person id", f"{publish} --most-not-counted 0.9", f"{measure} --person id"):
        status, said = told(line)
        assert status == 0, said


def test_placeholders_are_ids_and_have_no_order(folder: Path) -> None:
    content = deepcopy(BASE)
    content["privacy"]["person_unknown"] = ["n/a", 0]
    Path("spec.toml").write_text(toml_of(content), encoding="utf-8")
    digest = told("design spec.toml")[1]["result"]["approval"]
    line = f"measure spec.plan --data people.csv --approved {digest} --separator ; --person id"
    assert told(f"{line} --person-unknown 0 --person-unknown n/a")[0] == 0
    assert told(f"{line} --person-unknown 0 --force")[0] == 4
