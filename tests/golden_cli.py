"""What the command line says, as transcripts: every help text, the whole walk, and the typical errors.

    python tests/golden_cli.py --write       run everything, and write golden/cli/*.txt and golden/names.txt
    python tests/golden_cli.py               run everything, and say what differs

A transcript is a list of commands that run one after another in one folder. Times and digests are masked;
where a command prints noisy answers, so is every number, with the spaces that line numbers up.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

# Typer reads TERMINAL_WIDTH once, when help is first shown: before any test sets it.
import typer.rich_utils  # noqa: F401
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app

GOLDEN = Path(__file__).parent / "golden"

SPEC = """
[schema]
age = { range = [0, 4] }
sex = ["F", "M"]

[privacy]
epsilon = 1.0
delta   = 1e-6

[[query]]
kind       = "marginal"
attributes = ["age", "sex"]

[[query]]
kind      = "prefix"
attribute = "age"
"""
TARGETS = SPEC.replace("[privacy]\nepsilon = 1.0\ndelta   = 1e-6\n", "") + "stderr = 8\n"
TARGETS = TARGETS.replace('attributes = ["age", "sex"]', 'attributes = ["age", "sex"]\nwithin = [20, 0.95]')

# Files that transcripts begin with. The table has values that are not declared, nulls and repeated people,
# and is so large that no noise makes a count negative.
_AGES = (0, 1, 2, 3, 1, 2, 0, 3, 3, 1, 7, "")
PEOPLE = "age,sex,who\n" + "".join(f"{age},{'FM'[i % 2]},p{i // 2}\n" for i, age in enumerate(_AGES * 250))
FILES = {
    "spec.toml": SPEC,
    "targets.toml": TARGETS,
    "pure.toml": SPEC.replace("delta   = 1e-6\n", ""),
    "person.toml": SPEC.replace("delta   = 1e-6\n", 'delta = 1e-6\nperson = "who"\nrecords_per_person = 2\n'),
    "sql.toml": SPEC + '\n[[query]]\nsql = "SELECT sex, COUNT(*) FROM people WHERE age >= 2 GROUP BY sex"\n',
    "kind.toml": SPEC.replace('"prefix"', '"prefixes"'),
    "attribute.toml": SPEC.replace('attribute = "age"', 'attribute = "agee"'),
    "key.toml": SPEC.replace("epsilon = 1.0", "epsilom = 1.0"),
    "broken.toml": SPEC.replace("[privacy]", "[privacy"),
    "epsilon.toml": SPEC.replace("epsilon = 1.0", "epsilon = -1.0"),
    "delta.toml": SPEC.replace("delta   = 1e-6", "delta = 2"),
    "infeasible.toml": TARGETS + "\n[privacy]\nepsilon = 0.01\ndelta = 1e-6\n",
    "no-queries.toml": SPEC.partition("[[query]]")[0],
    "people.csv": PEOPLE,
    "columns.csv": "years,sex\n1,F\n",
    "empty.csv": "age,sex,who\n",
}

COMMANDS = (
    *(
        "demo",
        "init",
        "check",
        "plan",
        "publish",
        "design",
        "measure",
        "release",
        "report",
        "adjust",
        "quantiles",
        "explain",
    ),
    *("tradeoff", "compare", "methods", "audit", "reproduce", "ledger", "completion"),
)
LEDGER_COMMANDS = ("create", "show", "fetch", "verify", "export", "move", "grants")

# A command that begins with ~ prints noisy answers. `cat` and `ls` are not run by leastnoise.
TRANSCRIPTS: dict[str, list[str]] = {
    "help": ["", "--help", "--version", "unknown", *(f"{command} --help" for command in COMMANDS)],
    "help-ledger": [f"ledger {command} --help" for command in LEDGER_COMMANDS],
    "methods": ["methods"],
    "init": [
        "init people.csv --yes",
        "cat people.toml",
        "init people.csv --yes",
        "init people.csv --yes --person who --records-per-person 3 --out mine.toml",
        "cat mine.toml",
        "init missing.csv --yes",
    ],
    "check": [
        "check spec.toml --data people.csv",
        "check person.toml --data people.csv --show-values",
        "check spec.toml --data columns.csv",
        "check spec.toml --data missing.csv",
    ],
    "design": [
        "design spec.toml",
        "design spec.toml",
        "design spec.toml --force",
        "design targets.toml --out other.plan",
        "design pure.toml",
        "design person.toml",
        "design sql.toml",
        "ls",
    ],
    "release": [
        "design spec.toml",
        "~measure spec.plan --data people.csv",
        "~release spec.plan --data people.csv",
        "~cat spec-answers.csv",
        "~release spec.plan --data people.csv --force --out table.json",
        "~cat table.json",
        "release spec.plan --data columns.csv --force",
        "release spec.toml --data people.csv --force",
        "report spec.plan",
        "report spec-answers.release",
        "report table.release --out page.html",
        "report table.release --out page.html",
        "ls",
    ],
    "publish": [
        "~publish spec.toml --data people.csv",
        "~publish pure.toml --data empty.csv",
        "~publish person.toml --data people.csv",
        "~publish targets.toml --data people.csv",
        "~publish sql.toml --data people.csv",
        "ls",
    ],
    "after-release": [
        "~publish spec.toml --data people.csv",
        "~adjust spec-answers.release --integer",
        "~adjust spec-answers.release",
        "~adjust spec-answers.release --force --keep-negative",
        "~quantiles spec-answers.release age",
        "~quantiles spec-answers.release age --by sex --at 0.5 --out quantiles.csv",
        "~cat quantiles.csv",
        "quantiles spec-answers.release sex",
        "quantiles spec-answers.release income",
        "quantiles spec-answers.release age --at 2",
        "ls",
    ],
    "explain": [
        "explain targets.toml",
        "explain spec.toml",
        "explain spec.toml --without-delta",
        "explain missing.plan",
        "tradeoff spec.toml --epsilon 0.5 --epsilon 2 --out tradeoff.csv",
        "cat tradeoff.csv",
        "tradeoff targets.toml --epsilon 1",
    ],
    "compare": [
        "compare spec.toml --method dense --method identity --method hierarchical --method product",
        "compare spec.toml --method nonsense",
    ],
    "audit": ["design pure.toml", "~audit pure.plan --draws 2000", "audit missing.plan"],
    "ledger": [
        "ledger create town.ledger --dataset town --epsilon 3 --delta 1e-6",
        "ledger create town.ledger --dataset town --epsilon 3 --delta 1e-6",
        "ledger create --for spec.toml --times 2 two.ledger --dataset town",
        "ledger show town.ledger",
        "~publish spec.toml --data people.csv --ledger town.ledger --release-id first",
        "~publish spec.toml --data people.csv --ledger town.ledger --release-id first --force",
        "ledger show town.ledger --spec spec.toml",
        "ledger verify town.ledger",
        "ledger verify town.ledger --head 00ff",
        "ledger export town.ledger --out town.csv",
        "~ledger fetch town.ledger first --out fetched.csv",
        "ledger fetch town.ledger second",
        "ledger create small.ledger --dataset town --epsilon 0.1 --delta 1e-6",
        "publish spec.toml --data people.csv --ledger small.ledger --force",
        "publish pure.toml --data people.csv --ledger missing.ledger",
        "publish spec.toml --data people.csv --ledger people.csv --force",
        "ledger create bad.ledger --dataset town",
        "ledger grants postgresql://host/database?ledger=town analysts",
        "ledger move town.ledger elsewhere.ledger",
    ],
    "errors": [
        "design missing.toml",
        *(f"design {name}.toml" for name in ("kind", "attribute", "key", "broken", "epsilon", "delta")),
        *(f"design {name}.toml" for name in ("infeasible", "no-queries")),
        "design",
        "design spec.toml --nonsense",
        "design people.csv",
        "publish spec.toml",
        "publish spec.toml --data missing.csv",
        "publish spec.toml --data columns.csv",
        "publish person.toml --data columns.csv",
        "release people.csv --data people.csv",
        "report people.csv",
        "adjust spec.toml",
        "ledger show people.csv",
        "reproduce nonsense",
    ],
    "reproduce": ["reproduce"],
    "demo": ["~demo --people 500 --out town", "ls town"],
}

# What differs from run to run, in this order.
MASKS = (
    # Signs of life, which a slow machine prints more of.
    (r"(?m)^.*\(\d+ s so far\)\n", ""),
    # A search under pure privacy ends by its steps on a quick machine and by its time on a busy one.
    (
        r"ended at its (limit of steps, before it converged|time limit; with more time it may do better)",
        "<ended>",
    ),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z| UTC)?", "<time>"),
    (r"\d{4}-\d\d-\d\d", "<date>"),
    (r"(?<![\w.])(?=[0-9]*[a-f])[0-9a-f]{12,}\b", "<digest>"),
    (r"(?<![\w.])\d+(\.\d+)? (ms|s|seconds?)\b", "<duration>"),
)


def transcript(name: str) -> str:
    """The commands of a transcript, with what they say, in a folder of their own."""
    here, program = Path.cwd(), sys.argv[0]
    with tempfile.TemporaryDirectory() as folder:
        for file, text in FILES.items():
            (Path(folder) / file).write_text(text)
        os.chdir(folder)
        # The demo names the program as it was called.
        sys.argv[0] = "leastnoise"
        try:
            said = "\n".join(_said(line) for line in TRANSCRIPTS[name])
        finally:
            os.chdir(here)
            sys.argv[0] = program
    return said.replace(folder, "<folder>")


def _said(line: str) -> str:
    is_noisy, command = line.startswith("~"), line.removeprefix("~")
    words = shlex.split(command)
    out, err, code = "", "", 0
    if words[:1] == ["cat"]:
        out = Path(words[1]).read_text()
    elif words[:1] == ["ls"]:
        out = "".join(f"{path.name}\n" for path in _new_files(words))
    else:
        out, err, code = _run(words)
        command = f"leastnoise {command}".rstrip()
    said = "".join(
        f"{mark} {part}\n" for mark, text in ((" ", out), ("!", err)) for part in text.splitlines()
    )
    if words[:1] == ["compare"]:
        said = re.sub(r" \d+\.\d\d$", " <seconds>", said, flags=re.MULTILINE)
    lines = [part.rstrip() for part in masked(said, is_noisy).splitlines()]
    return "\n".join([f"$ {command}", *lines, *([f"= exit {code}"] if code else []), ""])


def _run(words: list[str]) -> tuple[str, str, int]:
    # Help is a box as wide as the terminal; other text should not be broken where numbers are longer.
    width = "100" if not words or "--help" in words else "200"
    terminal = {"COLUMNS": width, "TERM": "dumb", "NO_COLOR": "1", "LEASTNOISE_MEMORY": None}
    terminal["LEASTNOISE_PLAN_CACHE"] = "off"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner(env=terminal).invoke(app, words)
    return result.stdout, result.stderr, result.exit_code


def _new_files(words: list[str]) -> list[Path]:
    folder = Path(words[1] if len(words) > 1 else ".")
    return sorted(path for path in folder.iterdir() if path.name not in FILES)


def masked(text: str, is_noisy: bool) -> str:
    """Text without what differs from run to run."""
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return without_numbers(text) if is_noisy else text


def without_numbers(text: str) -> str:
    """Text without numbers, and without the spaces that line them up."""
    text = re.sub(r"[-−]?\d+(,\d{3})*(\.\d+)?(e[-+]?\d+)?", "#", text)
    # Of no record left out, noise makes either.
    text = re.sub(r"^(\s*)At most # records matched", r"\1About # ± # records matched", text, flags=re.M)
    text = re.sub(r"(?<=\S)  +", " ", re.sub(r"\[ +", "[", text))
    return re.sub(r"[─━—]{3,}", "———", text)


def names() -> str:
    """The public names in their order, each with its signature and, for a class, its public members."""
    lines: list[str] = []
    for name in ln.__all__:
        found = getattr(ln, name)
        lines.append(f"{name}{_signature(found)}")
        if inspect.isclass(found):
            lines += _members(found)
    return "\n".join(lines) + "\n"


def _members(found: type) -> list[str]:
    lines = []
    for name, member in sorted(inspect.getmembers(found)):
        if name.startswith("_") or name in dir(Exception):
            continue
        lines.append(f"    .{name}{_signature(member) if callable(member) else ''}")
    fields = getattr(found, "__dataclass_fields__", {})
    return sorted(
        {
            *lines,
            *(f"    .{name}" for name in fields if not name.startswith("_") and not hasattr(found, name)),
        }
    )


def _signature(found: Callable[..., object]) -> str:
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return ""
    return re.sub(r"leastnoise(\.\w+)+\.", "", text)


def path_of(name: str) -> Path:
    return GOLDEN / "names.txt" if name == "names" else GOLDEN / "cli" / f"{name}.txt"


def now(name: str) -> str:
    """What a golden file would hold if it were written now."""
    return names() if name == "names" else transcript(name)


ALL = (*TRANSCRIPTS, "names")


def main() -> None:
    """Write the golden files, or compare with them."""
    n_different = 0
    for name in ALL:
        text = now(name)
        if sys.argv[1:] == ["--write"]:
            path_of(name).write_text(text)
            continue
        then = path_of(name).read_text()
        n_different += text != then
        lines = (part.splitlines(keepends=True) for part in (then, text))
        sys.stdout.writelines(difflib.unified_diff(*lines, f"{name}, then", f"{name}, now"))
    print(f"{n_different} of {len(ALL)} differ; {time.process_time():.0f} s")


if __name__ == "__main__":
    main()
