"""Codes, labels and parents from public files; labels are shown, codes are counted."""

from __future__ import annotations

import csv
import io
import json
import random

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.specification import load_spec, parse_spec
from leastnoise.core.errors import QueryError, SchemaError, SpecError, UnrecordedSpending
from leastnoise.planning import load_plan

REGIONS = "code,label,parent\nN,North,\nS,South,\nN1,Uptown,N\nN2,Hill,N\nS1,Old Town,S\n"

SPEC = """
[schema]
region = {{ codes = "{file}"{more} }}
sex = ["F", "M"]
[privacy]
epsilon = 1.0
[[query]]
kind = "marginal"
attributes = ["region"]
name = "regions"
"""


def _drawn(rng):
    """A random tree of codes: rows (code, label, parent), and the leaves in order with their paths."""
    rows, inside = [], {}
    n = rng.randint(1, 12)
    for i in range(n):
        parent = rng.choice([row[0] for row in rows]) if rows and rng.random() < 0.6 else ""
        label = rng.choice(["", "same", f"name, {i}", f'"{i}" ä', f"L{i}"])
        code = f"{i:02d}" if rng.random() < 0.5 else f"c{i}"
        rows.append((code, label, parent))
        inside.setdefault(parent, []).append(code)

    def leaves(code, path):
        if code not in inside:
            return [(*path, code)]
        return [found for inner in inside[code] for found in leaves(inner, (*path, code))]

    return rows, [path for root in inside[""] for path in leaves(root, ())]


def _called(rows):
    labels = [label for code, label, _ in rows if label and label != code]
    return {
        code: code
        if not label or label == code
        else f"{label} ({code})"
        if labels.count(label) > 1
        else label
        for code, label, _ in rows
    }


def _written(rows, names, separator):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()


def test_random_code_lists_are_read_as_they_were_drawn(tmp_path):
    rng = random.Random(5)
    for _ in range(300):
        rows, paths = _drawn(rng)
        called = _called(rows)
        names = rng.choice([("code", "label", "parent"), ("id", "name", "part of")])
        if rng.random() < 0.5:
            file = tmp_path / "codes.csv"
            text = _written(rows, names, rng.choice([",", ";", "\t", "|"]))
            file.write_bytes((b"\xef\xbb\xbf" if rng.random() < 0.5 else b"") + text.encode())
        else:
            file = tmp_path / "codes.json"
            nothing = rng.choice(["", None])
            plain = [dict(zip(names, (c, b or nothing, p or nothing), strict=True)) for c, b, p in rows]
            file.write_text(json.dumps(plain))
        found = ln.Hierarchy.from_file(file, code=names[0], label=names[1], parent=names[2])
        assert found.values == tuple(path[-1] for path in paths)
        assert [found.label(i) for i in range(found.size)] == [called[path[-1]] for path in paths]
        for depth, level in enumerate(found.levels):
            reached = list(dict.fromkeys(path[: depth + 1] for path in paths if len(path) > depth))
            assert level.labels == tuple(called[path[-1]] for path in reached)
        flat = ln.Categories.from_file(file, code=names[0], label=names[1], other="elsewhere")
        assert [flat.label(i) for i in range(flat.n_values)] == [called[row[0]] for row in rows]
        assert [flat.place(row[0]) for row in rows] == list(range(len(rows)))
        schema = ln.Schema(a=found, b=flat)
        assert ln.Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True))) == schema


def test_labels_are_shown_and_codes_are_counted(tmp_path):
    (tmp_path / "regions.csv").write_text(REGIONS)
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(file="regions.csv", more=', other = "elsewhere"'))
    people = tmp_path / "people.csv"
    people.write_text("region,sex\n" + "N1,F\nN2,M\nS1,F\nUptown,M\n" * 3)
    asked = load_spec(spec)
    assert list(asked.workload.labels) == [
        "region Uptown",
        "region Hill",
        "region Old Town",
        "region elsewhere",
    ]
    # The specification, read back, needs no file.
    assert parse_spec(asked.to_toml()).schema == asked.schema
    counts = ln.vectorize(str(people), asked.schema)
    plan = ln.design(asked.workload, ln.PureDP(epsilon=1000.0))
    with pytest.warns(UnrecordedSpending):
        answers = ln.measure(plan, counts).answers
    assert [round(float(answer)) for answer in answers] == [3, 3, 3, 3]
    plan.save(tmp_path / "a.plan")
    (tmp_path / "regions.csv").unlink()
    assert load_plan(tmp_path / "a.plan").workload.schema == asked.schema


def test_conditions_are_about_codes():
    region = ln.Hierarchy.from_parents({"a": "N", "b": "N", "c": "S"}, labels={"N": "North", "a": "Abo"})
    assert region.matching("region", "==", "N").tolist() == [True, True, False]
    with pytest.raises(QueryError):
        region.matching("region", "==", "North")


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ({"1": "2"}, "2"),  # called like another code
        ({"3": "three"}, "3"),  # of no value
        ({"1": "x (2)", "2": "x"}, None),
        ({"1": ""}, dict),
        (["one"], list),
    ],
)
def test_labels_that_mislead_are_refused(labels, given):
    if given is None:
        assert ln.Categories(["1", "2"], labels=labels).label(0) == "x (2)"
        return
    with pytest.raises(SchemaError) as caught:
        ln.Categories(["1", "2"], labels=labels)
    assert caught.value.field == "labels"
    assert caught.value.given == given


def test_shared_labels_never_become_another_label():
    with pytest.raises(SchemaError) as caught:
        ln.Categories(["1", "2", "3"], labels={"1": "x", "2": "x", "3": "x (1)"})
    assert caught.value.field == "labels"
    assert ln.Categories(["1", "2"], labels={"1": "x", "2": "x"}).label(0) == "x (1)"
    with pytest.raises(SchemaError):
        ln.Categories(["1"], labels={"1": "rest"}, other="rest")


@pytest.mark.parametrize(
    "content",
    [
        "code,label\nsecret,a\nsecret,b\n",
        "code,label\nsecret\n",
        "code,label\n,secret\n",
        'code,label\nsecret,"b\n',
        "name,label\nsecret,b\n",
        "",
    ],
)
def test_a_file_that_is_no_code_list_is_refused_without_its_content(tmp_path, content):
    (tmp_path / "codes.csv").write_text(content)
    with pytest.raises(SchemaError) as caught:
        ln.Categories.from_file(tmp_path / "codes.csv")
    assert caught.value.field is not None
    assert "secret" not in str(caught.value)


def test_a_specification_names_the_line_of_a_code_list_that_is_missing(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(file="none.csv", more=""))
    with pytest.raises(SpecError, match=r"spec\.toml:3: .*none\.csv") as caught:
        load_spec(spec)
    assert caught.value.field == "schema.region.codes"
    (tmp_path / "none.csv").write_text(REGIONS)
    spec.write_text(SPEC.format(file="none.csv", more=', label = "title"'))
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    assert caught.value.field == "schema.region.label"


CODEBOOK = """column,code,label,parent
sex,1,female,
sex,2,male,
age,0-115,,
region,01,North,
region,02,South,
nobody,1,one,
"""


def _drafted(tmp_path, *options):
    out = tmp_path / "draft.toml"
    told = CliRunner().invoke(app, ["init", *map(str, options), "--out", str(out), "--yes", "--force"])
    assert told.exit_code == 0, told.output
    return out.read_text()


def test_init_takes_values_from_a_codebook(tmp_path):
    (tmp_path / "book.csv").write_text(CODEBOOK)
    (tmp_path / "people.csv").write_text("sex,age,region,town_id\n1,2,01,7\n")
    text = _drafted(tmp_path, tmp_path / "people.csv", "--codebook", tmp_path / "book.csv")
    schema = parse_spec(text).schema
    assert schema.to_dict() == {
        "sex": {"categories": ["1", "2"], "labels": {"1": "female", "2": "male"}},
        "age": {"range": [0, 116, 1]},
        "region": {"categories": ["01", "02"], "labels": {"01": "North", "02": "South"}},
    }
    chosen = _drafted(
        tmp_path, tmp_path / "people.csv", "--codebook", tmp_path / "book.csv", "--columns", "age, sex"
    )
    assert parse_spec(chosen).schema.names == ("sex", "age")
    named = _drafted(tmp_path, tmp_path / "people.csv", "--columns", "town_id")
    assert "town_id = [" in named
    wrong = CliRunner().invoke(app, ["init", str(tmp_path / "people.csv"), "--columns", "agee", "--yes"])
    assert wrong.exit_code == 1


def test_init_writes_no_value_that_a_column_cannot_hold_by_its_type(tmp_path):
    import duckdb

    (tmp_path / "book.csv").write_text("column,code\na,x\nb,01\nb,02\nc,1\nc,2\nd,x\ne,true\n")
    people = tmp_path / "people.parquet"
    with duckdb.connect() as engine:
        engine.execute(
            "COPY (SELECT 1::INTEGER a, 1::INTEGER b, 1.0::DOUBLE c, DATE '2026-01-01' d, true e) "
            f"TO '{people}' (FORMAT PARQUET)"
        )
    text = _drafted(tmp_path, people, "--codebook", tmp_path / "book.csv")
    assert 'a = { range = ["<fill in>"' in text
    assert 'b = { categories = ["01", "02"], clean = { digits = 2 } }' in text
    assert 'c = { categories = ["1", "2"] }' in text
    assert 'd = { periods = ["<fill in>"' in text
    assert 'e = { categories = ["true"] }' in text
    schema = ln.Schema.from_dict({"b": {"categories": ["01", "02"], "clean": {"digits": 2}}})
    assert ln.vectorize(str(people), schema).counts("b").tolist() == [1, 0]
