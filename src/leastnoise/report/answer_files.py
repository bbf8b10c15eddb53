"""Answers as a folder of Parquet files: as many as no memory holds, written some at a time.

    FOLDER/part-00000.parquet, part-00001.parquet, …   about two million answers each, by row groups
    FOLDER/about.json                                  what has to be known about them
    FOLDER/summary.txt                                 the same for people, on one page

Every file has the same columns: query, attribute_1, value_1, attribute_2, value_2, …, answer, stderr, and
both ends of the interval. Rows are in the order of the workload, so that the row groups of a table lie
together and readers skip the others by their statistics:

    SELECT * FROM 'FOLDER/*.parquet' WHERE attribute_1 = 'age' AND attribute_2 = 'sex' AND attribute_3 IS NULL
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.whole_file import sync_folder, umask, written_whole
from leastnoise.release import Release, answer_pieces, interval_columns
from leastnoise.report.answers import answers_writer, not_counted_facts
from leastnoise.report.publication import Publication
from leastnoise.report.summary import summarize

# How the files of a folder of answers are called.
_PART = "part-{:05d}.parquet"


def check_answer_folder(path: str | Path) -> None:
    """Return if a folder of answers can be written there: nothing is there yet, or an empty folder.

    Raises:
        InputError: if not.
    """
    target = Path(path)
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(
            f"{str(target.parent)!r} is not a folder that {target.name!r} can be written to",
            field="out",
            given=str(target),
        )
    is_free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if target.is_symlink() or not is_free:
        raise InputError(
            f"{str(target)!r} exists and is not empty",
            field="out",
            given=str(target),
            remedy="name a folder that does not exist yet",
        )


def write_answer_files(
    release: Release,
    path: str | Path,
    *,
    level: float = 0.95,
    publication: Publication | None = None,
    progress: Callable[[int], object] | None = None,
) -> Path:
    """Write all answers of a release into a new folder of Parquet files; returns the folder.

    All or nothing: the folder is there once everything in it is. About a hundred bytes of memory are used for
    each answer of one file, and the release is read from its blocks as it is needed.

    Args:
        progress: called with the number of answers written, after each file.

    Raises:
        InputError: if something is there already.
        NotYetError: if the release is not one that is read in pieces; see `answer_pieces`.
    """
    target = Path(path)
    check_answer_folder(target)
    write = answers_writer(Path(_PART))
    renamed = interval_columns(level)
    facts = _facts(release, level, publication)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        done = 0
        names: list[str] = []
        for number, columns in enumerate(answer_pieces(release, level=level)):
            names.append(_PART.format(number))
            named = {renamed.get(name, name): values for name, values in columns.items()}
            with written_whole(temporary / names[-1]) as file:
                write(file, named, facts, "answers")
            done += len(columns["answer"])
            if progress is not None:
                progress(done)
        about = {**facts, "n_answers": done, "files": names, "columns": list(named)}
        _write_text(temporary / "about.json", json.dumps(about, indent=2) + "\n")
        _write_text(temporary / "summary.txt", summarize(release, publication).text() + "\n")
        temporary.chmod(0o777 & ~umask())
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(target.parent)
    return target


def _facts(release: Release, level: float, publication: Publication | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "privacy": str(release.plan.privacy),
        "level": level,
        "not_counted": not_counted_facts(release, level),
        "warnings": list(release.warnings),
    }
    if release.receipt is not None:
        facts["release_id"] = release.receipt.release_id
    if publication is not None:
        facts |= publication.to_dict()
    return facts


def _write_text(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
