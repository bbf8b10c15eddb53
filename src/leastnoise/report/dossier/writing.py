"""`write_dossier`: the files of a publication in one folder, and what a person must complete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leastnoise.core.errors import InputError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.whole_file import written_whole
from leastnoise.release import Release
from leastnoise.report.answers import file_columns, write_columns
from leastnoise.report.dossier.claims import HUMAN, claims_page
from leastnoise.report.dossier.csv_metadata import csv_metadata
from leastnoise.report.dossier.registry import blanks_of, registry_entry, to_yaml
from leastnoise.report.dossier.sdmx import AGENCY, sdmx_csv
from leastnoise.report.publication import Publication
from leastnoise.report.summary import summarize

# The files of a dossier.
ANSWERS = "answers.csv"
DESCRIPTOR = "answers.csv-metadata.json"
SDMX = "answers-sdmx.csv"
REGISTRY = "opendp_registry.yaml"
CLAIMS = "claims.md"
PAGE = "page.html"
TO_COMPLETE = "to-complete.md"
FILES = (ANSWERS, DESCRIPTOR, SDMX, REGISTRY, CLAIMS, PAGE, TO_COMPLETE)


@dataclass(frozen=True)
class Dossier(NotebookValue):
    """The files of a dossier.

    Attributes:
        folder: the folder that holds them.
        files: the files, in order.
        to_complete: what somebody must add before publication, each with where it belongs.
    """

    folder: Path
    files: tuple[Path, ...]
    to_complete: tuple[str, ...]


def write_dossier(
    release: Release,
    folder: str | Path,
    publication: Publication | None = None,
    *,
    level: float = 0.95,
    force: bool = False,
) -> Dossier:
    """Write the files that accompany a publication; returns their list, and what is still missing.

    The answers as CSV with a CSV-on-the-Web descriptor, as SDMX-CSV, an entry for OpenDP's registry of
    deployments, a page of claims by the factors of NIST SP 800-226, and the page for readers.

    Args:
        release: the release to publish.
        folder: where to write the files: a folder, or the name of a new one in a folder that exists.
        publication: what the publisher says about it; what is left out is listed, never invented.
        level: the confidence of the intervals, between 0 and 1.
        force: whether to replace files of an earlier dossier in the folder.

    Guarantee:
        Everything is computed from the release and ``publication``: it costs no privacy.

    Raises:
        InputError: if the folder cannot be made, or holds such files already.
    """
    if not isinstance(release, Release):
        raise InputError.must("release", "be a Release", given=type(release))
    said = Publication() if publication is None else publication
    target = check_dossier(folder, force=force)
    target.mkdir(exist_ok=True)
    # Once, for three files.
    columns = file_columns(release, level)
    write_columns(release, target / ANSWERS, columns, level=level, publication=said)
    entry = registry_entry(release, said)
    missing = _missing(said, blanks_of(entry))
    _write(target / DESCRIPTOR, csv_metadata(release, columns, target / ANSWERS, said))
    _write(target / SDMX, sdmx_csv(columns, level=level))
    _write(target / REGISTRY, to_yaml(entry))
    _write(target / CLAIMS, claims_page(release, said))
    summarize(release, said).to_html(target / PAGE)
    lines = ["# To be completed by a person", "", *(f"- {line}" for line in missing)]
    _write(target / TO_COMPLETE, "\n".join(lines) + "\n")
    return Dossier(target, tuple(target / name for name in FILES), tuple(missing))


def check_dossier(folder: str | Path, *, force: bool) -> Path:
    """The folder of a dossier, if it may be written there.

    Raises:
        InputError: otherwise.
    """
    target = Path(folder)
    if not target.parent.is_dir() or (target.exists() and not target.is_dir()):
        raise InputError.must(
            "folder", "be a folder, or the name of a new one in a folder", given=str(target)
        )
    there = [name for name in FILES if (target / name).exists()]
    if there and not force:
        raise InputError(
            f"{str(target / there[0])!r} exists",
            field="folder",
            given=str(target),
            remedy="name another folder, or replace it by force",
        )
    return target


def _write(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def _missing(said: Publication, blanks: list[str]) -> list[str]:
    """What a person must say, with the file or table that it belongs in."""
    found = [f"[publication] {name}" for name in said.missing()]
    for place in blanks:
        why = "; the registry takes no entry without it" if place.endswith("publication_date") else ""
        found.append(f"{REGISTRY}: {place}{why}")
    found += [f"{CLAIMS}: {heading}: {words}" for heading, words in HUMAN.items()]
    return [*found, f"{SDMX}: the agency in the place of {AGENCY}, and its data structure definition"]
