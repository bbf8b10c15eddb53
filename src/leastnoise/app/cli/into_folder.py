"""Releases of more counts than memory holds: measured into a private folder, written as Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.facts import release_facts
from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import Outputs, say_warnings
from leastnoise.app.cli.payment import Payment
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.core.errors import InputError, NotYetError
from leastnoise.release import BlockProgress, Release
from leastnoise.report import Publication, check_answer_folder, summarize, write_answer_files

Into = Annotated[
    Path | None,
    typer.Option(
        "--into",
        help="for more counts than memory holds: a private folder in which they are measured block by block; "
        "--out is then a folder of Parquet files. The same command with the same --release-id goes on after "
        "an interruption. Needs --ledger",
    ),
]


def answer_folder(source: Path, out: Path | None, into: Path, payer: Payment) -> Path:
    """Where the Parquet files go, checked before anything is measured.

    Raises:
        InputError: if something is there already, or there is no ledger to record the blocks.
    """
    if payer.ledger is None:
        raise InputError(
            "--into keeps the digests of its blocks in a ledger", field="ledger", remedy="give --ledger too"
        )
    folder = out or source.with_name(f"{source.stem}-answers")
    if folder.absolute() == into.absolute():
        raise InputError(
            "--out is for the answers, --into for the blocks that they are read from",
            field="out",
            given=str(folder),
            remedy="name two folders",
        )
    check_answer_folder(folder)
    return folder


def refuse_with_into(**given: Any) -> None:
    """Refuse what is not written for releases in blocks yet.

    Raises:
        NotYetError: naming the first that was given.
    """
    for name, value in given.items():
        if value is not None:
            raise NotYetError(
                f"{name} is not available for releases in blocks (--into)",
                field=name,
                remedy="leave it out, or ask for fewer counts without --into",
            )


def block_arguments(into: Path | None, update: Any) -> Mapping[str, Any]:
    """What `measure` is told about blocks; nothing without a folder."""
    if into is None:
        return {}

    def show(progress: BlockProgress) -> None:
        step = {"counting": "counting the table", "comparing": "comparing blocks"}.get(progress.step)
        update(f"{step or 'drawing noise'}: {progress.done:,} of {progress.of:,} blocks done")

    return {"into": into, "progress": show}


def hand_out_files(
    result: Release, folder: Path, into: Path, payer: Payment, publication: Publication | None = None
) -> Facts:
    """Write a release in blocks as Parquet files, and say what is in them, where they are and what was paid.

    Nothing is lost if this is interrupted: the release is complete, and the same command writes it again.
    """
    n = result.plan.workload.shape[0]
    with spinner("writing the answers") as update:
        write_answer_files(
            result,
            folder,
            publication=publication,
            progress=lambda done: update(f"writing the answers: {done:,} of {n:,}"),
        )
    say(f"{summarize(result, publication)}\n")
    say_warnings(result)
    say(f"wrote {folder} (Parquet files, about.json and summary.txt)")
    payer.say_receipt(result)
    # Of so many counts there is no page; the summary is what readers open first.
    outputs = Outputs(folder, into, folder / "summary.txt")
    return {**release_facts(result, outputs, payer.ledger), "dossier": None, "stream": None}
