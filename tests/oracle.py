"""The oracle: random releases judged by somebody who knows nothing of the library's algebra.

    python tests/oracle.py --seconds 600 --seed 7 [--part a|b|c]     try new cases, print what is wrong
    python tests/oracle.py --case 7:31 [--part b]                    one case again, in full

(a) Nearly noiseless releases equal the truth, which is counted record by record, and every label says what
    is counted.
(b) At ordinary noise, errors have the variance that is claimed, query by query, and intervals hold as often
    as they say.
(c) `release["name"]`, `answer`, `to_frame`, the file of answers, the page, the text and `quantiles` show the
    same number under the same label, and a saved release is the same release.

A request that the library refuses is counted and not blamed. Anything else that stops it is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.core.errors import LargeGap, LeastnoiseError, RecordsNotCounted, SharedEnds
from oracle_cases import (
    DATA_DEPENDENT,
    Case,
    Refused,
    designed,
    drawn,
    expected_rows,
    measured,
    multiset,
)
from oracle_labels import Reader
from oracle_queries import Row

# Standard errors that an answer may be off. Gaussian errors exceed theirs once in 10^15 answers, and so do
# Laplace errors, whose tails are heavier.
GAUSSIAN_REACH = 8.0
LAPLACE_REACH = 25.0
# A reach beyond this tells no permutation from the truth: neighbouring counts differ by 1 or more.
SHARPEST = 0.3
# Rounding in floating point, as a share of what was added up.
ROUNDING = 1e-9
# Complaints shown of one case.
MOST_SHOWN = 3


@dataclass
class Judged:
    """What became of one case: its complaints, and whether its noise was too wide to tell."""

    case: Case
    complaints: list[str] = field(default_factory=list)
    is_blunt: bool = False


@dataclass
class Published:
    """A release and what the oracle found each of its rows to count.

    Attributes:
        rows: over the probes, in the order of the release.
        phrases: for each row, the words that its query may use.
    """

    case: Case
    release: Any
    rows: list[Row]
    phrases: list[dict[str, Row]]
    reader: Reader
    complaints: list[str]

    @property
    def truths(self) -> list[float]:
        return [self.case.truth(row) for row in self.rows]


# -------------------------------------------------------------------------------- (a)


def judged_answers(case: Case, folder: Path) -> tuple[Judged, Published | None]:
    """Part (a) of one case."""
    try:
        release = measured(case, designed(case), folder)
    except LeastnoiseError as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    found = published(case, release)
    judged = Judged(case, found.complaints)
    if found.complaints or case.method in DATA_DEPENDENT:
        return judged, found
    stderr = release.stderr
    reach = LAPLACE_REACH if release.plan.privacy.noise == "laplace" else GAUSSIAN_REACH
    for i, row in enumerate(found.rows):
        truth, answer = case.truth(row), float(release.answers[i])
        rounding = ROUNDING * (1 + sum(abs(a) * n for a, n in zip(row, case.counts, strict=True)))
        judged.is_blunt |= bool(reach * stderr[i] > SHARPEST * max(1.0, *map(abs, row)))
        if not abs(answer - truth) <= reach * stderr[i] + rounding:
            label = release.plan.workload.labels[i]
            judged.complaints.append(
                f"row {i} ({label!r}) is {answer:.6g}, the truth is {truth:.6g}, "
                f"{abs(answer - truth) / max(stderr[i], 1e-300):.3g} standard errors off"
            )
    return judged, found


def published(case: Case, release: Any) -> Published:
    """The rows of a release, each read from its label and held against what was asked."""
    frame = release.to_frame()
    labels, names = frame["label"].tolist(), frame["query"].tolist()
    reader = Reader(case.attributes, case.probes)
    match = _in_any_order if case.route == "sql" else _in_order
    found = Published(case, release, [], [], reader, [])
    match(found, labels, names)
    if not found.complaints and len(found.rows) != len(release.answers):
        found.complaints.append(f"{len(release.answers)} answers for {len(found.rows)} rows")
    return found


def _in_order(found: Published, labels: list[str], names: list[str]) -> None:
    """Rows come query by query, in the order that the documentation gives them."""
    case = found.case
    if (n := len(expected_rows(case))) != len(labels):
        found.complaints.append(f"{len(labels)} labels for {n} rows")
        return
    start = 0
    for query in case.queries:
        rows = query.rows(len(case.probes))
        own = names[start : start + len(rows)]
        if len(set(own)) != 1 or (query.name is not None and own[0] != query.name):
            found.complaints.append(f"query {query.name!r} is published as {sorted(set(own))}")
        phrases = query.phrases | {own[0]: found.reader.everyone, "everyone": found.reader.everyone}
        for label, row in zip(labels[start:], rows, strict=False):
            if row not in found.reader.label(label, phrases):
                found.complaints.append(
                    f"row {len(found.rows)} of {own[0]!r}: {label!r} is not what it counts"
                )
            found.rows.append(row)
            found.phrases.append(phrases)
        start += len(rows)


def _in_any_order(found: Published, labels: list[str], names: list[str]) -> None:
    """Statements are answered group by group, and every label tells the condition of the statement, too."""
    case = found.case
    for query in case.queries:
        wanted = multiset(query.rows(len(case.probes)))
        assert query.name is not None and query.where is not None
        own: dict[int, tuple[str, set[Row], dict[str, Row]]] = {}
        for label, name in zip(labels, names, strict=True):
            if name != query.name and not name.startswith((f"{query.name}: ", f"{query.name} (")):
                continue
            phrases = query.phrases | {name: found.reader.everyone, "everyone": found.reader.everyone}
            readings = found.reader.label(label, phrases)
            own[len(own)] = (label, {row for row in readings if row in wanted or not any(row)}, phrases)
        chosen = _matched({i: readings for i, (_, readings, _) in own.items()}, wanted)
        if len(chosen) < len(own):
            label = next(label for i, (label, _, _) in own.items() if i not in chosen)
            found.complaints.append(f"{label!r} of {query.name!r} is none of what was asked, or twice")
            return
        wanted.subtract(chosen.values())
        found.rows += [chosen[i] for i in own]
        found.phrases += [phrases for _, _, phrases in own.values()]
        if any(n > 0 for row, n in wanted.items() if any(row)):
            found.complaints.append(f"{query.name!r} lacks {sum(n > 0 for n in wanted.values())} rows")


def _matched(readings: dict[int, set[Row]], wanted: Counter[Row]) -> dict[int, Row]:
    """A row for each label among its readings, none oftener than it is wanted: as many labels as possible.

    Words may have several readings ("F to M" is a range or a value), so a label gives way to another that
    has no other reading. Rows that count nobody are free, and taken where nothing else is left.
    """
    taken: dict[Row, list[int]] = {}

    def place(i: int, seen: set[Row]) -> bool:
        for row in [row for row in readings[i] if any(row) and row not in seen]:
            seen.add(row)
            own = taken.setdefault(row, [])
            if len(own) < wanted[row]:
                own.append(i)
                return True
            for other in list(own):
                if place(other, seen):
                    own[own.index(other)] = i
                    return True
        return False

    for i in readings:
        place(i, set())
    found = {i: row for row, labels in taken.items() for i in labels}
    nobody = {i: row for i, rows in readings.items() for row in rows if i not in found and not any(row)}
    return found | nobody


# -------------------------------------------------------------------------------- running


def run_case(seed: int, number: int, part: str) -> Judged:
    """One case by one part; `Refused` where the library refuses it."""
    from oracle_noise import judged_noise
    from oracle_surfaces import judged_surfaces

    case = drawn(seed, number, is_quiet=part != "b")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        # Ranges that are drawn may share their ends, and each counts them.
        warnings.simplefilter("ignore", SharedEnds)
        warnings.simplefilter("ignore", LargeGap)
        warnings.simplefilter("ignore", RecordsNotCounted)
        try:
            if part == "b":
                return Judged(case, judged_noise(case, Path(folder), np.random.default_rng([seed, number])))
            judged, found = judged_answers(case, Path(folder))
            if part == "c" and found is not None and not judged.complaints:
                judged.complaints += judged_surfaces(found, Path(folder))
            return judged
        except Refused:
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error} at {Path(where.filename).name}:{where.lineno}"
            return Judged(case, [what])


@dataclass
class Tally:
    """How many cases were tried, refused by the library, too noisy to tell, and wrong."""

    tried: int = 0
    refused: int = 0
    blunt: int = 0
    wrong: list[tuple[str, Judged]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int, number: int, part: str) -> Judged | None:
        self.tried += 1
        try:
            judged = run_case(seed, number, part)
        except Refused as error:
            self.refused += 1
            self.reasons[str(error)[:60]] += 1
            return None
        self.blunt += judged.is_blunt
        if judged.complaints:
            self.wrong.append((f"{seed}:{number}", judged))
        return judged

    def __str__(self) -> str:
        told = f"{self.tried} tried, {self.refused} refused, {self.blunt} too noisy to tell"
        return f"{told}, {len(self.wrong)} wrong"


def report(place: str, judged: Judged) -> str:
    shown = "\n    ".join(judged.complaints[:MOST_SHOWN])
    return f"--case {place}: {len(judged.complaints)} complaints\n    {shown}\n    {judged.case}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=10**9, help="at most so many")
    parser.add_argument("--part", choices="abc", default="c", help="c includes a")
    parser.add_argument("--case", help="SEED:NUMBER, one case again")
    given = parser.parse_args()
    tally = Tally()
    if given.case:
        seed, number = map(int, given.case.split(":"))
        judged = tally.run(seed, number, given.part)
        print(drawn(seed, number, is_quiet=given.part != "b"))
        print(*(judged.complaints if judged else tally.reasons), sep="\n")
        print(tally)
        return
    start, number = time.monotonic(), given.first
    while time.monotonic() - start < given.seconds and tally.tried < given.cases:
        began = len(tally.wrong)
        tally.run(given.seed, number, given.part)
        for place, judged in tally.wrong[began:]:
            print(report(place, judged), flush=True)
        number += 1
    print(f"seed {given.seed}, part {given.part}, cases {given.first} to {number - 1}: {tally}")
    for reason, n in tally.reasons.most_common(12):
        print(f"  {n:>5} refused: {reason}")


if __name__ == "__main__":
    main()
