"""The files that commands write: checked before anything is measured, replaced only with --force."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from leastnoise.app.cli.invocation import check_alone
from leastnoise.app.cli.terminal import OUTPUT, say, spinner, warn
from leastnoise.core.errors import InputError
from leastnoise.core.interruption import finished_first
from leastnoise.core.steps import log_step
from leastnoise.core.whole_file import check_folder, check_replaceable
from leastnoise.privacy import note_spending_started
from leastnoise.release import Release
from leastnoise.report import (
    Publication,
    answers_writer,
    summarize,
    write_answers,
    write_dossier,
)

Force = Annotated[bool, typer.Option("--force", help="overwrite existing files")]
AnswersFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="file for the answers: .csv, .parquet, .json or .xlsx; NAME-answers.csv by default",
    ),
]


DossierFolder = Annotated[
    Path | None,
    typer.Option(
        "--dossier",
        help="also write a folder of files for publication: descriptors, SDMX, registry entry, claims",
    ),
]


class Outputs(NamedTuple):
    """The files of a release: its answers, the release itself, and a page for readers."""

    answers: Path
    saved: Path
    page: Path


def outputs_of(
    source: Path,
    inputs: Sequence[Path],
    *,
    out: Path | None,
    force: bool,
    n_answers: int,
    again: str = "",
) -> Outputs:
    """Where the answers and the release go, checked before anything is measured.

    Args:
        source: what the files are named after unless ``out`` is given.
        inputs: what is read, and never replaced.
        again: what a second release costs, after a semicolon, if there is one already.
    """
    answers = out or source.with_name(f"{source.stem}-answers.csv")
    # "." and "/" have no name to put a suffix to, and are refused below.
    saved, page = (
        answers.with_suffix(suffix) if answers.name else answers / suffix for suffix in (".release", ".html")
    )
    check_outputs([answers, saved, page], inputs)
    answers_writer(answers, n_answers=n_answers)  # refused now rather than after the release is paid for
    for path in (answers, saved, page):
        check_new(path, force=force, again=again)
    return Outputs(answers, saved, page)


def check_outputs(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse what cannot be written, or would replace what is read."""
    if len(set(outputs)) < len(outputs):
        raise InputError(
            "--out is for the answers",
            field="out",
            given=str(outputs[0]),
            remedy=f"{outputs[0]} is kept for the release beside it",
        )
    for path in outputs:
        check_folder(path)
        if path.exists() and any(known.exists() and path.samefile(known) for known in inputs):
            raise InputError(
                f"writing {str(path)!r} would replace what is read",
                field="out",
                given=str(path),
                remedy="choose another --out",
            )
        check_replaceable(path)
        if not os.access(path.parent, os.W_OK):
            raise InputError(
                f"{str(path)!r} cannot be written",
                field="out",
                given=str(path),
                remedy="choose another place with --out",
            )


def check_new(path: Path, *, force: bool, again: str = "") -> None:
    """Refuse to replace a file that exists, unless forced to.

    Args:
        again: what replacing it would mean, after a semicolon.
    """
    if path.exists() and not force:
        remedy = "give another --out, or --force to replace it"
        raise InputError(f"{str(path)!r} exists{again}", field="out", given=str(path), remedy=remedy)


def is_stdout(path: Path) -> bool:
    """Whether a file is named that stands for standard output.

    Raises:
        InputError: with --json, whose object goes there.
    """
    if str(path) != "-":
        return False
    check_alone("out", str(path))
    return True


def write_out(text: str) -> None:
    """Write what a command was asked for to standard output, and nothing else there."""
    OUTPUT.get().write(text)


def save(result: Release, outputs: Outputs, publication: Publication | None = None) -> None:
    """Save before anything is shown: what was measured is paid for, even if the output is cut off."""
    # Without a ledger it counts as spent once the answers can be read.
    note_spending_started()
    # All three files or, where the disk is full, as many as there is room for; the release first.
    with finished_first(), spinner("writing the answers and the page"):
        result.save(outputs.saved)
        write_answers(result, outputs.answers, publication=publication)
        summarize(result, publication).to_html(outputs.page)
    log_step("answers written", file=str(outputs.answers))


def file_name(text: str) -> str:
    """A text as part of a file's name: letters, digits, dots and dashes, and not too many of them.

    Example:
        >>> file_name("spring 2026/first"), file_name("../..")
        ('spring-2026-first', 'release')
    """
    # A name has 255 bytes at most on common disks, and a letter up to four.
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:48] or "release"


def say_warnings(release: Release) -> None:
    """Say on stderr what readers of the answers must know first; it follows from what was released."""
    for sentence in release.warnings:
        warn(f"{sentence}; `leastnoise check` says in which columns")


def say_where(outputs: Outputs) -> None:
    """Name the files of a release."""
    say(f"wrote {outputs.answers}")
    say(f"wrote {outputs.saved} (load_release() reads it back)")
    say(f"wrote {outputs.page} (open it in a browser)")


def save_dossier(release: Release, folder: Path, publication: Publication | None, *, force: bool) -> None:
    """Write the dossier of a release, and say what a person must complete."""
    with finished_first(), spinner("writing the dossier"):
        found = write_dossier(release, folder, publication, force=force)
    log_step("answers written", dossier=str(folder))
    say(f"wrote {found.folder} ({len(found.files)} files for publication)")
    if found.to_complete:
        say("to be completed by a person:")
        for line in found.to_complete:
            say(f"  {line}")
