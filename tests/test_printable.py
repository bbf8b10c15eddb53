"""Names in files: nothing that a terminal obeys, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import json
import random
import re
import sys
import tomllib
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.app.drafting.columns import columns_of
from leastnoise.app.drafting.draft import Wishes, draft_spec
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.core.printable import no_formula, no_formulas, without_controls
from leastnoise.report import tradeoff, write_answers, write_quantiles, write_tradeoff
from support import extra

# By Unicode's own list of what is ignored where it cannot be shown, and by what is white space.
IGNORED = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
IGNORED += [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0]
IGNORED += [
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]
BLANKS = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()] + [0x2800]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
UNSEEN = sorted({*IGNORED, *BLANKS, *CONTROLS})


def missed(guard: Callable[[str], str]) -> list[str]:
    """The formulas that a guard lets through."""
    texts = [f"{before}{sign}cmd()" for before in map(chr, UNSEEN) for sign in "=+-@"]
    texts += [f"\ufeff{before} {sign}1" for before in map(chr, UNSEEN[::7]) for sign in "=+-@"]
    return [text for text in texts if not guard(text).startswith("'")]


def test_formulas_are_neutralised_whatever_unseen_stands_before() -> None:
    assert len(UNSEEN) > 4_000
    assert missed(no_formula) == []
    # A guard that knows of spaces alone, as it was, lets most of them through.
    signs = ("=", "+", "-", "@", "\t", "\r", "\n")
    old = missed(lambda text: f"'{text}" if text.lstrip().startswith(signs) else text)
    assert len(old) > 10_000


def test_names_that_are_none_stay_as_they_are() -> None:
    for text in (
        "age 7",
        "",
        "\u00e9t\u00e9",
        "a=b",
        "x -1",
        "\u0645\u06cc\u200c\u062e",
        "\U0001f469\u200d\U0001f52c",
    ):
        assert no_formula(text) == text


@pytest.mark.parametrize("code", CONTROLS)
def test_controls_are_written_out(code: int) -> None:
    text = without_controls(f"a{chr(code)}b")
    assert chr(code) not in text and text.isascii() and text[0] + text[-1] == "ab"
    assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in no_formula(f"{chr(code)}=x"))


# What a spreadsheet may run at the beginning of a cell: the signs, wide, small, raised and lowered.
SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u208c\u208a\u2212"


def odd_names(seed: int, count: int) -> list[str]:
    """Names that differ: unseen characters before signs, and controls within."""
    rng = random.Random(seed)
    names: dict[str, None] = {}
    while len(names) < count:
        before = "".join(chr(rng.choice(UNSEEN)) for _ in range(rng.randrange(4)))
        sign = rng.choice([*SIGNS, *SIGNS, "a", "\t", "\r", "\n", ""])
        within = "".join(rng.choice(["x", " ", "7", chr(rng.choice(CONTROLS))]) for _ in range(4))
        names[f"{before}{sign}cmd{within}()"] = None
    return list(names)


def holds_control(text: str) -> bool:
    return any(ord(c) in CONTROLS for c in text)


def is_run(cell: str) -> bool:
    """Whether some spreadsheet runs a cell, dropping what is not seen: told without the library."""
    seen = next((c for c in cell if ord(c) not in UNSEEN), "")
    return cell[:1] in ("\t", "\r", "\n") or (seen != "" and seen in SIGNS)


def odd_release(seed: int) -> tuple[ln.Release, list[str]]:
    names = odd_names(seed, 24)
    schema = ln.Schema({names[0]: tuple(names[1:12]), names[12]: range(4), names[13]: ("u", "v")})
    asked = [ln.Marginal(names[0], name=names[14]), ln.Marginal(names[12], names[13], name=names[15])]
    asked.append(ln.Linear(np.eye(88)[:8], labels=names[16:24], name="rows"))
    plan = ln.design(ln.assemble(asked, schema), ln.GDP(1), method="identity")
    with pytest.warns(UserWarning, match="ledger"):
        return ln.measure(plan, np.arange(88)), names


def texts_in(path: Path) -> list[str]:
    """All texts that a reader of the file is given, names of columns and facts beside the rows included."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as stream:
            return [cell for row in csv.reader(stream) for cell in row]
    if path.suffix == ".json":
        held = json.loads(path.read_text(encoding="utf-8"))
        rows = held.pop("answers" if "answers" in held else "quantiles")
        return [str(x) for row in (held, *rows) for pair in row.items() for x in pair]
    if path.suffix == ".parquet":
        import duckdb

        found = duckdb.read_parquet(str(path))
        facts = duckdb.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
        held = [x.decode() for row in facts for x in row]
        return held + list(found.columns) + [str(x) for row in found.fetchall() for x in row]
    book = extra("openpyxl").load_workbook(path)
    return [str(cell.value) for sheet in book for row in sheet.iter_rows() for cell in row]


def raw_text(path: Path) -> str:
    """The file itself, and every part of it where it is an archive; without the ends of its own lines."""
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as parts:
            return "".join(parts.read(name).decode("utf-8").replace("\n", "") for name in parts.namelist())
    return path.read_bytes().decode("utf-8").replace("\r\n", "").replace("\n", "")


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".xlsx"])
def test_answers_and_quantiles_hold_no_control_and_no_formula(suffix: str, tmp_path: Path) -> None:
    """Parquet and Excel held control characters as they were, and Excel texts that an edit makes formulas."""
    if suffix == ".xlsx":
        extra("xlsxwriter")
        extra("openpyxl")
    n_names = 0
    for seed in range(12):
        release, names = odd_release(seed)
        n_names += len(names)
        written = [
            write_answers(release, tmp_path / f"a{suffix}"),
            write_quantiles(release, tmp_path / f"q{suffix}", names[12], [0.5], by=names[13]),
        ]
        for path in written:
            texts = texts_in(path)
            if suffix == ".json":
                assert path.read_bytes().isascii() and not holds_control(raw_text(path))
                continue
            assert not [text for text in texts if holds_control(text)]
            if suffix != ".parquet":
                assert not holds_control(raw_text(path))
                shown = [text for text in texts if not re.fullmatch(r"-?[0-9.e+-]+|-inf", text)]
                assert not [text for text in shown if is_run(text)]
        # JSON gives every name back as it was.
        if suffix == ".json":
            told = json.loads(written[0].read_text(encoding="utf-8"))["answers"]
            assert [row["label"] for row in told] == list(release.columns()["label"])
            assert json.loads(written[1].read_text(encoding="utf-8"))["by"] == names[13]
    assert n_names > 250


@pytest.mark.thorough
def test_pages_and_texts_hold_no_control(tmp_path: Path) -> None:
    for seed in range(4):
        release, _ = odd_release(seed)
        for subject in (release, release.plan):
            report = ln.summarize(subject)
            page = report.to_html(tmp_path / "report.html")
            assert not holds_control(raw_text(page))
            assert not holds_control(report.text().replace("\n", ""))


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", [".csv", ".svg", ".html"])
def test_tradeoffs_hold_no_control_and_no_formula(suffix: str, tmp_path: Path) -> None:
    held = []
    for names in (odd_names(7, 6), ["plain"]):
        asked = ln.assemble([ln.Marginal("a", name=name) for name in names], ln.Schema(a=range(3)))
        path = write_tradeoff(tradeoff(asked, epsilons=[1.0], delta=1e-6), tmp_path / f"t{suffix}")
        held.append([c for c in raw_text(path) if holds_control(c)])
        if suffix == ".csv":
            assert not [text for text in texts_in(path) if is_run(text)]
    assert held == [[], []]


def test_specifications_hold_no_control_and_are_read_back() -> None:
    """TOML allows C1 controls and turns of direction in its strings, and they were written as they are."""
    for seed in range(20):
        names = odd_names(seed, 16)
        schema = ln.Schema({names[0]: tuple(names[1:8]), names[8]: ("u", "v")})
        spec = Spec(schema, (ln.Marginal(names[0], name=names[9]), ln.Marginal(names[8])), ln.GDP(1))
        text = spec.to_toml()
        assert not holds_control(text.replace("\n", ""))
        assert parse_spec(text).schema == schema and tomllib.loads(text)["query"][0]["name"] == names[9]


def test_drafts_hold_no_control(tmp_path: Path) -> None:
    for seed in range(10):
        # The first line of a table ends at the first line break.
        names = [name.replace("\n", "\x85") for name in odd_names(seed, 8)]
        with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([names, ["1"] * 8])
        text = draft_spec(
            columns_of(tmp_path / "people.csv"), Wishes(), table="people\x1b.csv", spec="p.toml"
        )
        assert not holds_control(text.replace("\n", ""))


def test_ledgers_are_exported_without_formulas(tmp_path: Path) -> None:
    rows = [{"release_id": name, "charged": -1.5} for name in odd_names(3, 40)]
    for row in rows:
        told = no_formulas(row)
        assert not is_run(told["release_id"]) and not holds_control(told["release_id"])
        assert told["charged"] == -1.5
