"""Drafts of specifications: names and types of the table alone, and something to fill in."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import leastnoise.app.drafting.columns
from leastnoise.app.cli.init_command import init
from leastnoise.app.drafting.columns import Column, columns_of
from leastnoise.app.drafting.draft import TABLES, Wishes, draft_spec
from leastnoise.app.drafting.questions import ask_wishes
from leastnoise.app.specification.json_schema import json_schema, keys_of
from leastnoise.app.specification.optional_tables import DESIGN
from leastnoise.app.specification.privacy_table import FURTHER, GOALS, PERSON
from leastnoise.app.specification.spec_file import FILL_IN, Spec, load_spec, parse_spec
from leastnoise.core.errors import DataError, LeastnoiseError, SpecError
from leastnoise.privacy import ApproxDP, LeastLoss, PureDP
from leastnoise.query import COMMON, QUERY_KINDS, Cube, Marginal, Query, Schema, Total
from leastnoise.query.queries.key_shapes import key
from support import extra, refuses
from test_spec import NAMES, NO_GOAL, QUERY, TARGET, TEXT, VALID, asking, examples, specs, written

jsonschema = extra("jsonschema")

COLUMNS = [
    Column("age", "whole"),
    Column("sex", "named"),
    Column("income", "measured"),
    Column("smokes", "truth"),
    Column("woke", "time"),
    Column("blob", "unusable"),
]


def drafted(columns: list[Column], wishes: Wishes | None = None) -> str:
    return draft_spec(columns, wishes or Wishes(), spec="people.toml", table="people.csv")


def filled(text: str) -> str:
    """A draft as somebody would fill it in, each place with the first example that stands above it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if FILL_IN not in line or line.startswith("#"):
            continue
        key = line.split(" = ")[0]
        above = number - 1
        while lines[above - 1].startswith("#   "):
            above -= 1
        lines[number] = re.sub(r"   .*", "", lines[above].removeprefix("#   "))
        assert lines[number].startswith(f"{key} = ")
    return "\n".join(lines)


# ---------------------------------------------------------------- names and types


def write_csv(path: Path, records: list[tuple[Any, ...]]) -> Path:
    rows = ["id,age,sex,income"] + [",".join(map(str, record)) for record in records]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, records: list[tuple[Any, ...]]) -> Path:
    import duckdb

    with duckdb.connect() as engine:
        engine.execute(
            "CREATE TABLE t (id BIGINT, age INTEGER, sex VARCHAR, income DOUBLE, ok BOOLEAN, day DATE)"
        )
        for id_, age, sex, income in records:
            engine.execute(
                "INSERT INTO t VALUES (?, ?, ?, ?, true, DATE '2020-01-01')", [id_, age, sex, income]
            )
        engine.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    return path


ONE = [(1, 34, "F", 1000.0), (2, 7, "M", 20.5)]
OTHERS: list[list[tuple[Any, ...]]] = [
    [],
    [(9, -1, "Zebra", 1e9)],
    [(i, i % 90, "F" if i % 2 else "rare disease", i / 7) for i in range(500)],
]


@pytest.mark.thorough
@pytest.mark.parametrize("write", [write_csv, write_parquet])
@pytest.mark.parametrize("others", OTHERS, ids=["empty", "one", "many"])
def test_other_records_give_the_same_draft_to_the_byte(
    write: Callable[[Path, Any], Path], others: Any, tmp_path: Path
) -> None:
    suffix = "csv" if write is write_csv else "parquet"
    texts = []
    for folder, records in (("a", ONE), ("b", others)):
        (tmp_path / folder).mkdir()
        columns = columns_of(write(tmp_path / folder / f"people.{suffix}", records))
        texts.append(drafted(columns).encode())
    assert texts[0] == texts[1]
    assert b"Zebra" not in texts[1] and b"disease" not in texts[1]


def test_a_draft_that_looks_at_records_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: types guessed from the values of a CSV file."""
    import pandas

    def guessed(path: str, format: object) -> list[Column]:
        types = pandas.read_csv(path).dtypes
        return [Column(str(name), "whole" if "int" in str(kind) else "named") for name, kind in types.items()]

    monkeypatch.setattr(leastnoise.app.drafting.columns, "_of_text", guessed)
    with pytest.raises(AssertionError):
        test_other_records_give_the_same_draft_to_the_byte(write_csv, [("x", "old", "F", "?")], tmp_path)


def test_only_the_first_line_of_a_text_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b'\xef\xbb\xbfage,"a, b",\r\n' + b'\xff\x00"broken\n' * 3)
    assert columns_of(path) == [Column("age", ""), Column("a, b", "")]
    (tmp_path / "people.tsv").write_text("age\tsex\n")
    assert columns_of(tmp_path / "people.t*v") == [Column("age", ""), Column("sex", "")]
    path.write_text('"one, with a comma"\n')
    assert columns_of(path) == [Column("one, with a comma", "")]
    (tmp_path / "people.tsv").write_text("age,sex\n")
    with refuses(DataError, "header", None):
        columns_of(tmp_path / "people.tsv")


def test_types_of_parquet_are_what_the_file_states(tmp_path: Path) -> None:
    found = {column.name: column.kind for column in columns_of(write_parquet(tmp_path / "p.parquet", ONE))}
    expected = {
        "id": "whole",
        "age": "whole",
        "sex": "named",
        "income": "measured",
        "ok": "truth",
        "day": "date",
    }
    assert found == expected


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"", ("header", "none")),
        (b"34,1,Ann\n", ("header", "mostly numbers, as in a record")),
        (b"age,sex,age\n", ("header", "some twice")),
        (b'age,"Ann\nmore",x\n', ("header", "an open quotation")),
        (b"age,na\xefve\n", ("header", "a longer line, or other bytes")),
        (b"a" * 2**20 + b",b\n", ("header", "a longer line, or other bytes")),
        (b"age," + b"x" * 200_000 + b"\n", ("table", "Error")),
        (b"Ann;age;sex\n", ("header", None)),
        (b"Ann\tage\n", ("header", None)),
    ],
)
def test_first_lines_that_are_no_names_are_refused_unseen(
    content: bytes, refusal: tuple[Any, ...], tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    with refuses(DataError, *refusal) as refused:
        columns_of(tmp_path / "people.csv")
    assert "Ann" not in str(refused.value) and refused.value.__context__ is None


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    with refuses(DataError, "path"):
        columns_of(tmp_path / "none.csv")
    (tmp_path / "p.parquet").write_bytes(b"PAR1 no")
    with refuses(DataError, "path", str(tmp_path / "p.parquet")):
        columns_of(tmp_path / "p.parquet")


# ---------------------------------------------------------------- the draft


def test_a_draft_names_the_first_line_to_fill_in_and_parses_once_filled() -> None:
    text = drafted(COLUMNS)
    first = next(n for n, line in enumerate(text.split("\n"), start=1) if line.startswith("age = "))
    with refuses(SpecError, "schema.age.range[0]", "<fill in>", f"line {first}: ", "2 more"):
        parse_spec(text)
    spec = parse_spec(filled(text))
    assert spec.schema.names == ("age", "sex", "income", "smokes")
    assert spec.schema["smokes"].size == 2
    assert spec.privacy == ApproxDP(1, 1e-6)
    assert spec.queries == (Total(name="everyone"), *(Marginal(name) for name in spec.schema))
    assert "# woke contains times of day and is left out" in text
    assert "# blob contains neither text nor numbers" in text
    assert "a codebook, a law, a register" in text


@pytest.mark.parametrize("kind", ["", "named", "whole", "measured"])
def test_every_example_in_a_comment_is_a_declaration(kind: str) -> None:
    text = drafted([Column("my column", kind)])
    shown = re.findall(r'^#   ("my column" = .*?)   ', text, re.M)
    assert len(shown) >= 1 + (kind != "measured")
    for line in shown:
        Schema.from_dict(tomllib.loads(line))


@pytest.mark.parametrize("tables", TABLES)
def test_what_is_published(tables: str) -> None:
    spec = parse_spec(filled(drafted(COLUMNS, Wishes(tables=tables))))
    names = spec.schema.names
    assert (
        spec.queries[1:]
        == {
            "each": tuple(Marginal(name) for name in names),
            "pairs": (Cube(*names, order=(1, 2)),),
            "all": (Marginal(*names),),
        }[tables]
    )


def test_persons_targets_and_pure_privacy() -> None:
    text = drafted(COLUMNS, Wishes(person="sex", records_per_person=3, left_out=frozenset({"income"})))
    spec = parse_spec(filled(text))
    assert spec.schema.names == ("age", "smokes")
    assert spec.privacy == ApproxDP(1, 1e-6, records_per_person=3)
    assert spec.person == "sex" and "# sex identifies the person and is not published." in text
    assert "--person" not in text, "the file says it, so that nobody can forget it"
    assert parse_spec(filled(drafted(COLUMNS, Wishes(delta=0.0, epsilon=0.5)))).privacy == PureDP(0.5)
    aimed = parse_spec(filled(drafted(COLUMNS, Wishes(stderr=20))))
    assert aimed.privacy is None and {query.target for query in aimed.queries} == {20.0}
    both = parse_spec(filled(drafted(COLUMNS, Wishes(stderr=20, person="sex", records_per_person=2))))
    assert both.privacy is None
    assert both.asked_privacy == LeastLoss(delta=1e-6, records_per_person=2)
    once = parse_spec(filled(drafted(COLUMNS, Wishes(stderr=20, person="sex", records_per_person=1))))
    assert (once.privacy, once.person, once.records_per_person) == (None, "sex", 1)
    with refuses(SpecError, "columns", None):
        drafted([Column("woke", "time")])
    dated = drafted([Column("born", "date"), Column("seen", "moment")])
    found = parse_spec(dated.replace(f'zone = "{FILL_IN}"', 'zone = "UTC"').replace(FILL_IN, "2026-03"))
    assert found.schema.to_dict()["seen"] == {"periods": ["2026-03", "2026-03"], "by": "month", "zone": "UTC"}


def test_columns_that_tell_records_apart_are_no_attributes() -> None:
    columns = [Column("patient_id", "whole"), Column("age", "whole")]
    text = drafted(columns)
    assert "# patient_id looks like an identifier, by its name, and is left out" in text
    assert '# as in  records_per_person = 3, and the column:  person = "patient_id"\n' in text
    spec = parse_spec(filled(text))
    assert spec.schema.names == ("age",)
    assert [query.title() for query in spec.queries] == ["total", "age"]
    assert list(tomllib.loads(drafted(columns, Wishes(named=frozenset({"patient_id"}))))["schema"]) == [
        "patient_id",
        "age",
    ]
    with refuses(SpecError, "columns", None):
        drafted(columns[:1])


def test_examples_in_comments_can_be_taken_out_of_them() -> None:
    """Policies and targets are shown once; without the sign of a comment they are a specification."""
    lines = filled(drafted([Column("age", "whole")])).split("\n")
    assert sum("[[query]]" in line for line in lines) == 4
    # Below the heading of the queries every example is whole; above it they declare one column several times.
    start = next(i for i, line in enumerate(lines) if line.startswith("# What is published"))
    text = "\n".join([*lines[:start], *(line.removeprefix("#   ") for line in lines[start:])])
    spec = parse_spec(text)
    assert [query.target for query in spec.queries] == [20.0, None, None, None]
    assert [query.name for query in spec.queries] == ["by age", "n", "everyone", None]
    policies = [line.removeprefix("#   ") for line in lines if re.match(r"#   (region|age   ) =", line)]
    assert len(policies) == 3
    for line in policies:
        Schema.from_dict(tomllib.loads(line))
    order = ["leastnoise check", "leastnoise explain", "leastnoise ledger", "leastnoise publish"]
    told = [line for line in lines if re.match(r"#   leastnoise (?!init)", line)]
    assert [" ".join(line.split()[1:3]) for line in told] == order
    assert any("Delete columns that you do not want to count by" in line for line in lines)


@examples
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique=True), st.sampled_from(["", "named", "whole", "measured"])
)
def test_names_of_columns_cannot_break_out_of_a_draft(names: list[str], kind: str) -> None:
    # What looks like an identifier is published because it is named.
    text = drafted([Column(name, kind) for name in names], Wishes(named=frozenset(names)))
    content = tomllib.loads(text)
    assert set(content) == {"format", "schema", "privacy", "query"}
    assert list(content["schema"]) == names
    assert content["privacy"] == {"epsilon": 1.0, "delta": 1e-6}
    assert len(content["query"]) == 1 + len(names)


# ---------------------------------------------------------------- questions


def answering(*answers: str) -> tuple[Callable[[str, str], str], list[str]]:
    """Somebody at a terminal; the empty answer takes the default."""
    waiting, questions = list(answers), []

    def ask(question: str, default: str) -> str:
        questions.append(question)
        return waiting.pop(0) or default

    return ask, questions


UNTYPED = [Column("id", ""), Column("age", ""), Column("sex", "")]


def test_defaults_are_what_nobody_asked_would_get() -> None:
    told: list[str] = []
    ask, questions = answering(*[""] * 8)
    assert ask_wishes(UNTYPED, ask, told.append) == Wishes()
    assert len(questions) == 8
    assert told[1] == "  id: looks like an identifier, by its name, and is left out unless you name it"


def test_answers_become_wishes() -> None:
    ask, _ = answering("y", "id", "4", "age", "w", "2", "none", "0.5", "0")
    wishes = ask_wishes(UNTYPED, ask, lambda text: None)
    assert wishes == Wishes({"age": "whole"}, frozenset({"sex"}), "id", 4, "pairs", 0.5, 0.0, None)
    ask, _ = answering("n", "age, sex", "m", "categories", "3", "25")
    wishes = ask_wishes(UNTYPED, ask, lambda text: None)
    assert wishes == Wishes({"age": "measured", "sex": "named"}, tables="all", stderr=25.0)
    ask, _ = answering("n", "id, age", "c", "w", "1", "25")
    wishes = ask_wishes(UNTYPED, ask, lambda text: None)
    assert (wishes.left_out, wishes.named) == ({"sex"}, {"id"})
    assert list(tomllib.loads(drafted(UNTYPED, wishes))["schema"]) == ["id", "age"]
    ask, questions = answering("y", "", "2", "", "", "", "", "", "", "")
    assert ask_wishes([*UNTYPED[1:], UNTYPED[0]], ask, lambda text: None).person == "id"
    ask, questions = answering(*[""] * 6)
    ask_wishes([Column("age", "whole")], ask, lambda text: None)
    assert not any("ategories" in question for question in questions)


def test_a_question_is_asked_again_until_it_is_understood() -> None:
    told: list[str] = []
    wrong = ["maybe", "y", "nobody", "id", "0", "3", "agee", " , ", "age", "x", "w", "4", "a", "1"]
    ask, _ = answering(*wrong, "none", "-1", "inf", "2", "one", "1", "1e-9")
    wishes = ask_wishes(UNTYPED, ask, told.append)
    assert (wishes.person, wishes.records_per_person, wishes.epsilon, wishes.delta) == ("id", 3, 2.0, 1e-9)
    assert len(told) == 2 + 12
    assert "  there is no column 'agee'; did you mean 'age'?" in told
    assert "  there is no column 'nobody'; names are spelled as in the table" in told


# ---------------------------------------------------------------- the command


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "people.csv", ONE)
    app = typer.Typer()
    app.command()(init)
    return lambda *arguments, **options: CliRunner().invoke(app, list(arguments), **options)


def test_the_command_writes_a_draft(run: Callable[..., Any], tmp_path: Path) -> None:
    done = run("people.csv")
    assert done.exit_code == 0, done.output
    assert done.output == (
        'wrote people.toml\nfill in 3 places marked "<fill in>", and delete columns that you do not want '
        "to count by, with the queries that use them\nnext steps:\n"
        "  leastnoise check people.toml --data people.csv   # does the table fit? For its owner only\n"
        "  leastnoise explain people.toml   # expected accuracy, and what drives it; reads no data\n"
        "  leastnoise ledger create people.ledger --dataset people --for people.toml --times 2   # once: a "
        "budget for two releases; or give --epsilon and --delta\n"
        "  leastnoise publish people.toml --data people.csv --ledger people.ledger\n"
    )
    text = (tmp_path / "people.toml").read_text(encoding="utf-8")
    assert text == drafted(columns_of("people.csv"))
    with refuses(SpecError, "schema.age[0]", "<fill in>"):
        load_spec("people.toml")
    refused = run("people.csv").exception
    assert isinstance(refused, LeastnoiseError) and "--force to replace it" in str(refused)
    assert run("people.csv", "--force", "--yes").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "people.toml"}


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import leastnoise.app.cli.init_command

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    # The runner puts its own stream in place of the terminal's; this one says what a terminal would.
    monkeypatch.setattr(leastnoise.app.cli.init_command, "sys", type("System", (), {"stdin": Terminal}))


def test_a_single_place_is_one_place(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("age\n3\n", encoding="utf-8")
    assert "\nfill in 1 place marked " in run("one.csv").output


def test_the_commands_that_follow_are_those_there_are(run: Callable[..., Any]) -> None:
    """They are copied into a shell: each command must have its options; k is that of the file."""
    from typer import Context
    from typer.main import get_command

    from leastnoise.app.cli.main import app

    told = run("people.csv", "--person", "id", "--records-per-person", "3").output
    lines = [line.split("#")[0].split()[1:] for line in told.splitlines() if line.startswith("  leastnoise ")]
    assert [line[0] for line in lines] == ["check", "explain", "ledger", "publish"]
    for words in lines:
        command: Any = get_command(app)
        while words and hasattr(command, "commands"):
            _, command, words[:] = command.resolve_command(Context(command), words)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
    assert lines[2][-4:] == ["--for", "people.toml", "--times", "2"]
    assert not any("--person" in line for line in lines)
    assert lines[3][-2:] == ["--ledger", lines[2][0]]


def test_how_many_records_count_is_never_a_default(
    run: Callable[..., Any], at_terminal: None, tmp_path: Path
) -> None:
    """A draft for one record of each person used to be written unasked, and dropped a third of the stays."""
    done = run("people.csv", "--person", "id", input="\n0\n3\n")
    assert done.exit_code == 0, done.output
    content = tomllib.loads((tmp_path / "people.toml").read_text(encoding="utf-8"))["privacy"]
    assert (content["records_per_person"], content["person"]) == (3, "id")
    refused = run("people.csv", "--person", "id", "--yes", "--force").exception
    assert isinstance(refused, LeastnoiseError)
    assert str(refused).startswith(
        "--person needs --records-per-person, how many records of one person count"
    )
    said = run("people.csv", "--person", "id", "--records-per-person", "1", "--yes", "--force")
    assert said.exit_code == 0 and "records_per_person = 1\n" in (tmp_path / "people.toml").read_text()
    ask, _ = answering("y", "id", "", "2", "", "", "", "", "", "", "")
    told: list[str] = []
    assert ask_wishes(UNTYPED, ask, told.append).records_per_person == 2
    assert "  please type a whole number, 1 or more" in told


def test_the_command_asks_at_a_terminal(run: Callable[..., Any], at_terminal: None) -> None:
    done = run("people.csv", "--out", "asked.toml", input="n\nage\nw\n1\n30\n")
    assert done.exit_code == 0, done.output
    spec = parse_spec(filled(Path("asked.toml").read_text(encoding="utf-8")))
    assert spec.schema.names == ("age",) and spec.privacy is None
    assert run("people.csv", "--out", "asked.toml", "--yes", "--force").exit_code == 0
    assert list(tomllib.loads(Path("asked.toml").read_text(encoding="utf-8"))["schema"]) == [
        "age",
        "sex",
        "income",
    ]
    done = run("people.csv", "--out", "asked.toml", "--force", "--person", "id", "--records-per-person", "3")
    assert done.exit_code == 0, done.output
    text = Path("asked.toml").read_text(encoding="utf-8")
    assert 'records_per_person = 3\nperson = "id"\n' in text
    assert "# id identifies the person and is not published." in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name the table, as in: leastnoise init people.csv"),
        (
            ["none.csv"],
            "there is no file 'none.csv'; name a table by the path, the folder or a glob of .csv, ",
        ),
        (["people.csv", "-o", "people.txt"], "ends in .toml"),
        (["people.csv", "--person", "ID"], "--person: there is no column 'ID'; did you mean 'id'?"),
        (["people.csv", "--person", "zzz"], "no column 'zzz'; names are spelled as in the table"),
        (["people.csv", "--records-per-person", "2"], "--records-per-person needs --person"),
        (["people.csv", "--person", "id"], "--person needs --records-per-person"),
        (["people.csv", "-o", "none/people.toml"], "there is no folder"),
    ],
)
def test_the_command_refuses_by_words(arguments: list[str], words: str, run: Callable[..., Any]) -> None:
    refused = run(*arguments).exception
    assert isinstance(refused, LeastnoiseError) and words in str(refused)
    assert "LazyFrame" not in str(refused), "nobody has one in a shell"


# ---------------------------------------------------------------- the schema for editors

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
DOCS = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


def test_the_command_prints_the_schema(run: Callable[..., Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json.loads(run("--schema").output) == json_schema()


def test_the_schema_names_every_key_and_kind() -> None:
    schema = json_schema()
    kinds = {each["properties"]["kind"]["const"]: each for each in schema["$defs"]["kind"]["anyOf"]}
    assert set(kinds) == set(QUERY_KINDS)
    for kind, cls in QUERY_KINDS.items():
        either = {"attribute", "attributes"}
        names = {"kind", *keys_of(cls), *(either if either & {*keys_of(cls)} else ())}
        assert set(kinds[kind]["properties"]) == names >= set(COMMON)
        # A key without a shape would be completed and never checked.
        assert all(shape for shape in kinds[kind]["properties"].values()), kind
    assert set(schema["properties"]["design"]["properties"]) == set(DESIGN)
    assert all(schema["properties"]["design"]["properties"].values())
    goals = [set(goal["required"]) for goal in schema["properties"]["privacy"]["anyOf"]]
    assert goals == [*(set(numbers) for numbers in GOALS), set()]
    assert all(
        {*FURTHER, PERSON} <= set(goal["properties"]) and all(goal["properties"].values())
        for goal in schema["properties"]["privacy"]["anyOf"]
    )


def test_a_new_class_of_queries_is_in_the_schema_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Every(Query):
        step: int = field(metadata=key({"type": "integer", "minimum": 2}))
        first: int | None = field(default=None, metadata=key({"type": "integer"}, written="start"))
        kind: ClassVar[str] = "every"

    monkeypatch.setitem(QUERY_KINDS, "every", Every)
    check = jsonschema.Draft202012Validator(json_schema())
    spec: dict[str, Any] = {"schema": {"age": ["a", "b"]}, "privacy": {"epsilon": 1}}
    asked: dict[str, Any] = {"kind": "every", "step": 2, "name": "x"}
    for change, is_valid in (
        ({}, True),
        ({"start": 1}, True),
        ({"step": 1}, False),
        ({"first": 1}, False),
        ({"within": [5, 2]}, False),
    ):
        assert check.is_valid(spec | {"query": [asked | change]}) == is_valid, change
    assert not check.is_valid(spec | {"query": [{"kind": "every"}]})


def accepts(text: str) -> bool:
    return VALIDATOR.is_valid(tomllib.loads(text))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_the_schema_accepts_what_the_pages_show(page: Path) -> None:
    for text in re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        content = tomllib.loads(text)
        # A part of a file is put in place of that part of a whole one.
        whole = {"privacy": {"mu": 1}, "query": [{"kind": "total"}], "schema": {"a": ["x"]}} | content
        assert VALIDATOR.is_valid(whole), f"{page.name}: {text}"


@pytest.mark.thorough
@examples
@given(specs())
def test_the_schema_accepts_every_specification_that_is_written(spec: Spec) -> None:
    assert accepts(spec.to_toml())


@pytest.mark.parametrize(
    "text",
    [
        written(VALID),
        asking("sql = 'SELECT COUNT(*) FROM t'\nstderr = 3"),
        asking('kind = "levels"\nattribute = "region"', 'kind = "where"\ncondition = "age > 3"'),
        asking('kind = "cube"\nattributes = ["age"]\norder = [0, 1]', 'kind = "sum"\nattribute = "age"'),
        asking('kind = "marginal"\nattribute = "age"', 'kind = "prefix"\nattributes = ["age"]'),
        asking(
            'kind = "total"\nexpected = 1000\nstderr = "5%"',
            'kind = "total"\nexpected = 9\nwithin = ["5%", 0.9]',
            'kind = "marginal"\nattributes = ["sex"]\nexpected = [9, 12]\nwithin = ["5%", 0.9]',
        ),
        asking(
            'kind = "cases"\nheading = "life"\ncases = { young = "age < 3", old = "age >= 3" }',
            'kind = "cases"\ncases = [["young", "age < 3"]]',
        ),
        NO_GOAL + TARGET,
        NO_GOAL + "[privacy]\ndelta = 1e-6\nrecords_per_person = 3\n" + TARGET,
        NO_GOAL + "[privacy]\nneighbours = 'replace-one'\n" + TARGET.replace("stderr = 5", "within = 5"),
        NO_GOAL + '[privacy]\nperson = "who"\n' + TARGET,
        NO_GOAL + '[privacy]\nrecords_per_person = 1\nneighbours = "add-remove"\n' + TARGET,
        TEXT.replace("1e-6", "1e-6\nrecords_per_person = 3\nperson = 'who'") + QUERY,
        filled(drafted(COLUMNS)),
        filled(drafted(COLUMNS, Wishes(stderr=20, person="sex", records_per_person=1))),
        TEXT.replace("[0, 6]", '[0, 6], outside = "clamp", null = "other", other = "?"') + QUERY,
        "[schema]\nr = { hierarchy = { North = ['a'], South = { Coast = ['b'] } } }\n[privacy]\nrho = '1/3'\n"
        + QUERY,
    ],
)
def test_the_schema_accepts(text: str) -> None:
    assert accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        asking() + "\n[extra]\nx = 1",
        QUERY,
        TEXT,
        "query = []\n" + TEXT,
        "query = [1]\n" + TEXT,
        "[schema]\n[privacy]\nmu = 1\n" + QUERY,
        NO_GOAL + QUERY,
        TEXT.replace("range", "rang") + QUERY,
        TEXT.replace("[0, 6]", "[0, 0.5]") + QUERY,
        TEXT.replace("[0, 6]", '[0, 6], outside = "other side"') + QUERY,
        TEXT.replace('"M"', '"F"') + QUERY,
        TEXT.replace('"M"', "3") + QUERY,
        TEXT.replace("[0, 1.5, 9]", "[0]") + QUERY,
        TEXT.replace("epsilon", "epsillon") + QUERY,
        TEXT.replace("delta", "rho") + QUERY,
        TEXT.replace("1.0", "-1.0") + QUERY,
        TEXT.replace("1.0", "'one'") + QUERY,
        TEXT.replace("1e-6", "1e-6\nneighbours = 'all'") + QUERY,
        TEXT.replace("1e-6", "1e-6\nrecords_per_person = 0") + QUERY,
        TEXT.replace("1e-6", "1e-6\nperson = 3") + QUERY,
        TEXT.replace("1e-6", "1e-6\nperson = ''") + QUERY,
        NO_GOAL + "[privacy]\nperson = 'who'\n" + QUERY,
        NO_GOAL + "[privacy]\ndelta = 1e-6\n" + QUERY,
        NO_GOAL + "[privacy]\ndelta = 0\n" + TARGET,
        NO_GOAL + "[privacy]\ncalibration = 'classic'\n" + TARGET,
        NO_GOAL + "[privacy]\n" + TARGET,
        asking('kind = "tottal"'),
        asking('name = "x"'),
        asking('kind = "total"\nnmae = "x"'),
        asking('kind = "marginal"\nattribute = 3'),
        asking('kind = "marginal"\nattribute = "age"\nattributes = ["age"]'),
        asking('kind = "prefix"\nattributes = ["age", "sex"]'),
        asking('kind = "marginal"\nattributes = "age"'),
        asking('kind = "total"\nweight = -1'),
        asking('kind = "total"\nstderr = 1\nwithin = [1, 0.5]'),
        asking('kind = "total"\nstderr = "five"'),
        asking('kind = "total"\nwithin = [100, 95]'),
        asking("sql = 3"),
        asking('kind = "cases"\ncases = {}'),
        asking('kind = "cases"\ncases = { young = 3 }'),
        asking('kind = "total"\nexpected = []\nstderr = "5%"'),
        asking('kind = "total"\nexpected = [-1]\nstderr = "5%"'),
        asking("sql = 'SELECT COUNT(*) FROM t'\nkind = 'total'"),
        asking('kind = "product"\nleft = { kind = "total" }'),
        asking() + "[design]\nmethods = 'dense'",
        asking() + "[design]\ntol = 0",
        asking() + "[design]\nobjective = 'least'",
        drafted([Column("age", "whole")]),
        drafted([Column("income", "measured")]),
    ],
)
def test_the_schema_rejects_what_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_spec(text)
    assert not accepts(text)
