"""Every way to name a table gives the counts of a loop over its records; what cannot be read is told."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hmac
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings

from leastnoise.core.errors import DataError
from leastnoise.data import FileFormat, fit_of, identity_of, text_files, vectorize, version_digest
from leastnoise.data.csv_records import MAX_RECORD
from leastnoise.query import Categories, Schema
from support import extra, refuses
from test_data import (
    CAREFUL,
    PEOPLE,
    Table,
    agrees,
    as_arrow,
    csv_text,
    people,
    relation,
    schemas_with_tables,
)
from test_not_counted import counts_as_by_hand, random_table

CANARY = "canary5521"


def cut(table: Table, n: int = 3) -> list[Table]:
    """The same records in several tables."""
    rows = len(next(iter(table.values()))[1])
    ends = [rows * i // n for i in range(n + 1)]
    return [
        {name: (kind, values[start:stop]) for name, (kind, values) in table.items()}
        for start, stop in itertools.pairwise(ends)
    ]


def json_text(table: Table) -> str:
    """Objects with their keys in any order, and nulls left away now and then."""
    rng = random.Random(7)
    lines = []
    for record in zip(*(values for _, values in table.values()), strict=True):
        pairs = list(zip(table, record, strict=True))
        rng.shuffle(pairs)
        kept = {name: value for name, value in pairs if value is not None or rng.random() < 0.5}
        lines.append(json.dumps(kept, ensure_ascii=rng.random() < 0.5))
    return "\n".join(lines)


def as_bz2(table: Table, folder: Path) -> Path:
    text = csv_text(table).encode()
    half = len(text) // 2
    # As parallel packers write it: two streams in one file.
    (folder / "t.csv.bz2").write_bytes(bz2.compress(text[:half]) + bz2.compress(text[half:]))
    return folder / "t.csv.bz2"


def as_zst(table: Table, folder: Path) -> Path:
    codec = extra("pyarrow").Codec("zstd")
    text = csv_text(table, "\t").encode()
    half = len(text) // 2
    packed = [codec.compress(part, asbytes=True) for part in (text[:half], text[half:]) if part]
    (folder / "t.tsv.zst").write_bytes(b"".join(packed))
    return folder / "t.tsv.zst"


def as_json(table: Table, folder: Path) -> Path:
    (folder / "t.jsonl").write_text(json_text(table), encoding="utf-8")
    return folder / "t.jsonl"


def as_packed_json(table: Table, folder: Path) -> str:
    (folder / "t.ndjson.gz").write_bytes(gzip.compress(json_text(table).encode("utf-8-sig")))
    return str(folder / "*.gz")


def as_feather(table: Table, folder: Path) -> Path:
    extra("pyarrow.feather").write_feather(as_arrow(table, folder), folder / "t.feather", chunksize=7)
    return folder / "t.feather"


def as_list(table: Table, folder: Path) -> list[Any]:
    first, second, third = cut(table)
    (folder / "b.csv").write_text(csv_text(dict(reversed(first.items()))), encoding="utf-8")
    relation(second).write_parquet(str(folder / "a.parquet"))
    return [folder / "b.csv", str(folder / "a.parquet"), as_json(third, folder)]


def as_folder(table: Table, folder: Path) -> Path:
    """As Spark leaves it, with marks of its own beside the records."""
    for i, part in enumerate(cut(table)):
        (folder / "out" / f"part={i}").mkdir(parents=True)
        relation(part).write_parquet(str(folder / "out" / f"part={i}" / f"{i}.parquet"))
    (folder / "out" / "_SUCCESS").write_bytes(b"")
    (folder / "out" / ".0.parquet.crc").write_bytes(b"crc")
    return folder / "out"


def hive(table: Table, folder: Path, write: Callable[[Table, Path], object]) -> str:
    """Folders by the values of one column of text, which the files then lack."""
    texts = [name for name, (kind, values) in table.items() if kind == "text"]
    if not texts:
        write(table, folder)
        return str(folder)
    name, n = texts[-1], len(table[texts[-1]][1])
    rest = {other: column for other, column in table.items() if other != name}
    rest = rest or {"unused": ("text", ["x"] * n)}
    for value in dict.fromkeys(table[name][1]) or [None]:
        rows = [i for i in range(n) if table[name][1][i] == value]
        named = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe="")
        inner = folder / f"{quote(name, safe='')}={named}"
        inner.mkdir()
        write({other: (kind, [v[i] for i in rows]) for other, (kind, v) in rest.items()}, inner)
    return f"{folder}/*/*"


def as_hive_parquet(table: Table, folder: Path) -> str:
    return hive(table, folder, lambda part, inner: relation(part).write_parquet(str(inner / "p.parquet")))


def as_hive_csv(table: Table, folder: Path) -> str:
    return hive(table, folder, lambda part, inner: (inner / "p.csv").write_text(csv_text(part), "utf-8"))


def as_hive_json(table: Table, folder: Path) -> str:
    return hive(table, folder, as_json)


def as_hive_feather(table: Table, folder: Path) -> str:
    return hive(table, folder, as_feather)


class Capsule:
    """A table of a library that nobody here knows."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def as_capsule(table: Table, folder: Path) -> Any:
    return Capsule(as_arrow(table, folder))


def as_reader(table: Table, folder: Path) -> Any:
    return as_arrow(table, folder).to_reader(max_chunksize=5)


FILES = [as_bz2, as_zst, as_json, as_packed_json, as_feather, as_list, as_folder]
HIVE = [as_hive_parquet, as_hive_csv, as_hive_json, as_hive_feather]
SOURCES = pytest.mark.parametrize(
    "source", [*FILES, *HIVE, as_capsule, as_reader], ids=lambda source: source.__name__
)


@pytest.mark.thorough
@SOURCES
def test_every_source_counts_as_a_loop(source: Callable[[Table, Path], Any], tmp_path: Path) -> None:
    """Counts, records in no cell and records per person; CSV and Parquet obey the same loops elsewhere."""
    agrees(people(40), PEOPLE, source)
    agrees(people(30, seed=3), CAREFUL, source)
    for seed, k in enumerate([None, 2]):
        (tmp_path / str(seed)).mkdir()
        table = random_table(seed)
        assert counts_as_by_hand(source(table, tmp_path / str(seed)), table, k)


@pytest.mark.thorough
@SOURCES
@given(drawn=schemas_with_tables())
@settings(max_examples=3, deadline=None)
def test_any_schema_and_table(source: Callable[[Table, Path], Any], drawn: tuple[Schema, Table]) -> None:
    schema, table = drawn
    agrees(table, schema, source)


# ------------------------------------------------------------------ which files, and which version of them

SMALL = Schema(x=range(3))


def digest(source: Any, schema: Schema = SMALL) -> bytes:
    found = version_digest(vectorize(source, schema), hmac.new(b"key", digestmod="sha256"))
    assert found is not None
    return found


@pytest.mark.thorough
def test_a_list_a_folder_and_a_glob_of_the_same_files_are_one_version(tmp_path: Path) -> None:
    for name, rows in {"a": "0\n1\n", "b": "2\n2\n", "c": ""}.items():
        (tmp_path / f"{name}.csv").write_text(f"x\n{rows}")
    paths = sorted(tmp_path.iterdir())
    same = [paths, paths[::-1], [str(paths[1]), paths[2], paths[0]], tmp_path, str(tmp_path / "*.csv")]
    same.append([tmp_path / "[ab].csv", tmp_path / "c.csv"])
    assert len({digest(source) for source in same}) == 1
    assert all(identity_of(source) == identity_of(str(paths[0])) for source in same)
    assert all(vectorize(source, SMALL).vector().tolist() == [1, 1, 2] for source in same)
    before = digest(tmp_path)
    (tmp_path / "b.csv").write_text("x\n2\n1\n")
    assert digest(tmp_path) != before


@pytest.mark.thorough
def test_a_file_that_moves_to_another_folder_is_another_version(tmp_path: Path) -> None:
    """The cells of its records change, and not one of its bytes."""
    schema = Schema(x=range(3), year=range(2020, 2030))
    for layout in ("csv", "parquet"):
        inner = tmp_path / layout / "year=2024"
        inner.mkdir(parents=True)
        path = inner / f"p.{layout}"
        if layout == "csv":
            path.write_text("x\n1\n")
        else:
            relation({"x": ("int", [1])}).write_parquet(str(path))
        alone = digest(path)
        before = digest(path, schema)
        assert vectorize(path, schema).counts("year").tolist() == [0] * 4 + [1] + [0] * 5
        inner.rename(inner.parent / "year=2025")
        moved = inner.parent / "year=2025" / path.name
        assert vectorize(moved, schema).counts("year").tolist() == [0] * 5 + [1] + [0] * 4
        assert digest(moved, schema) != before
        # Where the column is not asked for, or is the file's own, folders say nothing.
        assert digest(moved) == alone
    path = tmp_path / "year=2024.csv"
    path.write_text("x,year\n1,2021\n")
    assert vectorize(path, schema).counts("year").tolist() == [0, 1] + [0] * 8


def test_the_digest_of_plain_files_is_the_one_that_ledgers_hold(tmp_path: Path) -> None:
    """By its definition, written out here: bytes of ledgers written before folders could say anything."""
    (tmp_path / "year=2024").mkdir()
    paths = [tmp_path / "year=2024" / name for name in ("a.csv", "b.tsv.gz")]
    paths[0].write_text("x\n1\n")
    paths[1].write_bytes(gzip.compress(b"x\n2\n"))
    fed = b"files"
    for path, suffix in zip(paths, (b".csv", b".tsv.gz"), strict=True):
        held = path.read_bytes()
        fed += len(suffix).to_bytes(8, "big") + suffix + held + len(held).to_bytes(8, "big")
    assert digest(str(tmp_path / "*" / "*")) == hmac.new(b"key", fed, "sha256").digest()


def test_lines_of_json_that_are_no_records_are_left_out_alone(tmp_path: Path) -> None:
    deep = "[" * 100_000
    lines = [
        b'{"x": 1}',
        b'{"x": 1,',
        b"[1]",
        b'"x"',
        b"",
        b" \r",
        b'{"x": 2}\r',
        b'{"x": "\xff"}',
        f'{{"x": {deep}'.encode(),
        b'{"x": 1, "x": 2.0}',
        b'{"x": "' + b"1" * MAX_RECORD + b'"}',
        b'{"x": ' + b"9" * 5000 + b"}",
        b'{"x": [1]}',
        b'{"x": NaN}',
        b'{"x": "\\ud800"}',
        b'{"x": -0}',
    ]
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines))
    data = vectorize(tmp_path / "t.jsonl", Schema(x=Categories(["0", "1", "2"], null="other", other="?")))
    assert data.vector().tolist() == [1, 1, 2, 4]
    dropped = fit_of(data).dropped
    assert (dropped.not_json, dropped.not_utf8, dropped.too_long) == (4, 1, 1)
    # A key that nobody has is a null in every record, and no error: it could be one record's.
    assert vectorize(tmp_path / "t.jsonl", Schema(y=SMALL["x"])).counted([()]).n_rest == 8


# What may stand in front of a line: marks of every encoding, half marks, and the magic of other formats.
PREFIXES = (
    *(b"", codecs.BOM_UTF8, 2 * codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    *(codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, b"\xef\xbb", b"\xff", b"\0", b"\x1f\x8b", b"PK\x03\x04"),
    *("\ufeff".encode("utf-16-le"), 2 * "\ufeff".encode("utf-16-be"), b"+/v8", b"\x2b\x2f"),
)
ENCODED = [None, "utf-8", "utf-16-le", "utf-16-be", "cp1252"]


def odd_line(rng: random.Random, encoding: str) -> bytes:
    """A record behind a prefix, in the declared encoding or in another; without a line end."""
    record = f'{{"x": {rng.choice(["0", "1", "2", chr(34) + "é" + chr(34)])}}}'
    written = rng.choice([encoding, encoding, encoding, "utf-8", "utf-16-le", "utf-16-be"])
    prefix = rng.choice(["\ufeff", 2 * "\ufeff", "\ufffe"]).encode(
        "utf-16-le" if "16" in encoding else "utf-8"
    )
    line = rng.choice([b"", prefix, rng.choice(PREFIXES)]) + record.encode(written)
    # A file in UTF-16 consists of pairs of bytes, and so does every record of it.
    return line + b"\0" if "16" in encoding and len(line) % 2 else line


def counted_lines(lines: list[bytes], encoding: str | None, folder: Path) -> list[int]:
    end = "\n".encode(encoding or "utf-8")
    (folder / "t.jsonl").write_bytes(b"".join(line + end for line in lines))
    schema = Schema(x=Categories(["0", "1", "2"], null="other", other="?"))
    found = vectorize(folder / "t.jsonl", schema, format=FileFormat(encoding=encoding)).vector()
    return [int(count) for count in found]


def disagreeing_pairs(encoding: str | None, folder: Path, seed: int, n: int) -> int:
    """Of n pairs of files that differ by one line, how many do not differ by what that line counts alone."""
    rng = random.Random(f"{seed}{encoding}")
    wrong = 0
    for _ in range(n):
        lines = [odd_line(rng, encoding or "utf-8") for _ in range(rng.randint(1, 4))]
        at = rng.choice([0, rng.randrange(len(lines))])
        with_it, alone = (counted_lines(own, encoding, folder) for own in (lines, [lines[at]]))
        without = counted_lines(lines[:at] + lines[at + 1 :], encoding, folder)
        wrong += with_it != [a + b for a, b in zip(without, alone, strict=True)] or sum(alone) > 1
    return wrong


@pytest.mark.parametrize("encoding", ENCODED)
def test_the_first_bytes_of_a_line_decide_about_that_line_alone(encoding: str | None, tmp_path: Path) -> None:
    assert disagreeing_pairs(encoding, tmp_path, seed=1, n=50) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ENCODED)
def test_the_first_bytes_of_many_lines(encoding: str | None, tmp_path: Path) -> None:
    assert disagreeing_pairs(encoding, tmp_path, seed=2, n=300) == 0


@pytest.mark.parametrize("encoding", [None, "utf-16-le"])
def test_a_reader_that_takes_the_first_line_for_a_header_is_found(
    encoding: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a byte order mark that decides wherever it stands."""
    true = text_files.TextFile.__init__

    def wrong(self: Any, *given: Any, has_header: bool = True, **more: Any) -> None:
        true(self, *given, **more)

    monkeypatch.setattr(text_files.TextFile, "__init__", wrong)
    assert disagreeing_pairs(encoding, tmp_path, seed=1, n=50) > 0


def test_a_mark_in_front_of_lines_of_json_costs_no_record(tmp_path: Path) -> None:
    lines = [b'{"x": 0}', codecs.BOM_UTF8 + b'{"x": 1}']
    assert counted_lines(lines, None, tmp_path) == counted_lines(lines[::-1], None, tmp_path) == [1, 1, 0, 0]
    # UTF-16 is never guessed, and cannot be declared without saying which byte comes first.
    assert counted_lines([codecs.BOM_UTF16_LE + b'{"x": 0}', *lines], None, tmp_path) == [1, 1, 0, 0]
    with refuses(DataError, "encoding", "utf-16", "'utf-16-le'"):
        counted_lines(lines, "utf-16", tmp_path)


# ------------------------------------------------------------------ what cannot be read


def test_files_with_other_columns_are_named_and_nothing_of_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text(f"{CANARY}\n{CANARY}\n")
    with refuses(DataError, "x", "none", "b.csv") as caught:
        vectorize(tmp_path, SMALL)
    assert CANARY not in str(caught.value) and "a.csv" not in str(caught.value)
    relation({"x": ("int", [1])}).write_parquet(str(tmp_path / "c.parquet"))
    relation({CANARY: ("int", [1])}).write_parquet(str(tmp_path / "d.parquet"))
    with refuses(DataError, "x", "none", "d.parquet") as caught:
        vectorize(tmp_path / "*.parquet", SMALL)
    assert CANARY not in str(caught.value)


def test_folders_that_say_too_little_or_too_much_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none" / "_temporary").mkdir(parents=True)
    (tmp_path / "none" / "_temporary" / "a.csv").write_text("x\n1\n")
    with refuses(DataError, "path", ..., "holds no files"):
        vectorize(tmp_path / "none", SMALL)
    with refuses(DataError, "path", ..., "there is no file"):
        vectorize(str(tmp_path / "*.csv"), SMALL)
    with refuses(DataError, "path", ..., "there is no file"):
        vectorize([tmp_path / "none" / "_temporary" / "a.csv", tmp_path / "b.csv"], SMALL)
    both = tmp_path / "both"
    both.mkdir()
    (both / "a.csv").write_text("x\n1\n")
    (both / "a.jsonl").write_text('{"x": 1}\n')
    with refuses(DataError, "path", ..., ".csv and .jsonl", "same records twice"):
        vectorize(both, SMALL)
    with refuses(DataError, "path", ..., "each file once"):
        vectorize([both / "a.csv", both / "*.csv"], SMALL)
    (both / "a.jsonl").rename(both / "readme.md")
    with refuses(DataError, "path", str(both / "readme.md")):
        vectorize(both, SMALL)
    (both / "readme.md").unlink()
    (both / "more").symlink_to(tmp_path / "none")
    with refuses(DataError, "path", str(both / "more")):
        vectorize(both, SMALL)
    with refuses(DataError, "table", list):
        vectorize([], SMALL)


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "parquet", "feather"])
def test_damaged_files_are_named_and_nothing_is_spent(suffix: str, tmp_path: Path) -> None:
    import leastnoise as ln

    rng = random.Random(suffix)
    text = ("x\n" + "".join(f"{rng.randrange(3)}\n" for _ in range(60_000))).encode()
    make: dict[str, Callable[[], bytes]] = {
        "gz": lambda: gzip.compress(text),
        "bz2": lambda: bz2.compress(text),
        "zst": lambda: extra("pyarrow").Codec("zstd").compress(text, asbytes=True),
    }
    path = tmp_path / (f"t.csv.{suffix}" if suffix in make else f"t.{suffix}")
    if suffix == "feather":
        as_feather({"x": ("int", [1, 2] * 200)}, tmp_path)
    elif suffix == "parquet":
        relation({"x": ("int", [1] * 50)}).write_parquet(str(path))
    else:
        path.write_bytes(make[suffix]())
    whole = path.read_bytes()
    plan = ln.design(ln.assemble([ln.Marginal("x")], SMALL), ln.GDP(1))
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(2))
    broken = [whole[: len(whole) * 2 // 3], b"PK" + bytes(100)]
    if suffix != "zst":
        # All others end in a mark or a checksum.
        broken.append(whole[:-8] + bytes(8))
    for held in broken:
        path.write_bytes(held)
        with refuses(DataError, "path", str(path), "Nothing was spent"):
            ln.measure(plan, path, ledger=ledger, release_id="one")
        assert len(ledger.entries) == 0
    path.write_bytes(whole)
    ln.measure(plan, path, ledger=ledger, release_id="one")
    assert len(ledger.entries) == 1


def test_a_stream_without_a_column_is_refused_before_it_is_read(tmp_path: Path) -> None:
    reader = as_reader(people(20), tmp_path)
    with refuses(DataError, "Age", "none"):
        vectorize(reader, Schema(Age=range(3)))
    assert vectorize(reader, PEOPLE).is_held


@pytest.mark.thorough
def test_a_delta_table_is_counted_in_its_newest_version(tmp_path: Path) -> None:
    """Its files still hold the records that were deleted."""
    deltalake = extra("deltalake")
    pyarrow = extra("pyarrow")
    table = random_table(5)
    kept = as_arrow(table, tmp_path).append_column("gone", pyarrow.array([False] * 60))
    gone = as_arrow(random_table(6), tmp_path).append_column("gone", pyarrow.array([True] * 60))
    folder = str(tmp_path / "lake")
    deltalake.write_deltalake(folder, pyarrow.concat_tables([kept, gone]), partition_by=["sex"])
    deltalake.DeltaTable(folder).delete("gone = true")
    assert counts_as_by_hand(folder, table, 2)
