"""Pairs of tables that differ in one record, or in all records of one person: what one of them can change.

    python tests/neighbours.py --seconds 60 --seed 7 [--pairs 1000] [--sources parquet,csv]
    python tests/neighbours.py --case 7:31                  one case again, in full

Draws a table of columns of any type, attributes that place them, a source that holds them, and some records
more. Of the table and its neighbours, each with one of these records (or one person's) more:

(a) all are counted, or none, with the same refusal, which the table without any record gets too: what is
    refused depends on declared types, not on values
(b) counts differ by one in one cell at most; with a person and k records of each, by k in all
(c) none raises a warning that another does not
(d) where the documentation says how values are read, the counts are those of a loop over the records: what
    is wrong in both tables is wrong, too

Knows the library by `Schema`, the attributes and `vectorize` alone. What is wrong is made smaller before it
is shown: records and columns are taken away as long as it stays wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.core.errors import LeastnoiseError, SchemaError
from neighbours_cells import UNCLEAR, cells
from neighbours_files import Line, Table, Unwritable
from neighbours_sources import ENGINES, SERVED, SOURCES, hash_of, written
from neighbours_values import Form, attribute, shown
from postgres_server import started
from spark_session import spark_here

# Cells that are compared one by one; of larger schemas the table of each attribute is.
MOST_CELLS = 4_000
# Tries to make what is wrong smaller.
MOST_TRIES = 40
Record = tuple[Any, ...] | Line


@dataclass(frozen=True)
class Case:
    """A table and the records that its neighbours have more.

    Attributes:
        names, forms: the columns; those of the schema, and last the person's, if there is one.
        base: its records.
        groups: for each neighbour the records that it has more.
        k: how many records of each person count; None without a person.
    """

    name: str
    source: str
    schema: ln.Schema
    names: list[str]
    forms: list[Form]
    base: list[Record]
    groups: list[list[Record]]
    k: int | None = None
    unknown: tuple[str, ...] = ()

    @property
    def subsets(self) -> list[tuple[str, ...]]:
        """The tables that are counted."""
        names = self.schema.names
        return [names] if self.schema.n_cells <= MOST_CELLS else [*((name,) for name in names), ()]

    def tables(self) -> Iterator[list[Record]]:
        """The records of the table and of each neighbour; the new ones stand first, last or anywhere."""
        yield self.base
        for group in self.groups:
            records = list(self.base)
            rng = random.Random(f"{self.name} {hash_of(group)}")
            for record in group:
                records.insert(rng.choice([0, len(records), rng.randint(0, len(records))]), record)
            yield records

    def __str__(self) -> str:
        columns = ", ".join(
            f"{name} {form.label}".strip() for name, form in zip(self.names, self.forms, strict=True)
        )
        declared = "; ".join(f"{name} = {self.schema[name]!r}" for name in self.schema.names)
        person = (
            "" if self.k is None else f"; person={self.names[-1]!r}, {self.k} of each, unknown {self.unknown}"
        )
        return f"[{self.name}] {self.source}: {columns}; {declared}{person}"

    def shown(self, records: Sequence[Record]) -> str:
        """Records for a person to read."""
        texts = [
            repr(record.stored[:60])
            if isinstance(record, Line)
            else " | ".join(form.shown(raw) for form, raw in zip(self.forms, record, strict=True))
            for record in records
        ]
        return "; ".join(texts[:8]) + (f"; and {len(texts) - 8} more" if len(texts) > 8 else "") or "nothing"


# ------------------------------------------------------------------ what is counted


@dataclass(frozen=True)
class Counted:
    """What became of one table: its counts, or its refusal, and the warnings on the way."""

    tables: tuple[Any, ...] = ()
    refusal: str = ""
    warned: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.refusal or " ".join(map(_shown_counts, self.tables))


def _shown_counts(table: Any) -> str:
    flat = table.ravel().tolist()
    return str(flat) if len(flat) <= 12 else str({i: n for i, n in enumerate(flat) if n}) + f" of {len(flat)}"


Count = Callable[[Case, list[Record], Path], Counted]


def counted(case: Case, records: list[Record], folder: Path) -> Counted:
    """What the library says of a table.

    Raises:
        Unwritable: if the source cannot hold the values.
    """
    # Row groups, quotes and the like are those of the case, not of its records.
    table = Table(case.names, case.forms, records)
    source = written(case.source, table, folder, random.Random(case.name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, refusal = _asked(case, source)
    about_code = (ResourceWarning, DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    said = [f"{w.category.__name__}: {w.message}" for w in caught if not issubclass(w.category, about_code)]
    # Where a table was written is no part of what is said of it.
    place = str(source) if isinstance(source, (str, Path)) else "\0"
    return Counted(found, refusal.replace(place, "the table"), frozenset(said))


def _asked(case: Case, source: Any) -> tuple[tuple[Any, ...], str]:
    person = {} if case.k is None else {"person": case.names[-1], "person_unknown": case.unknown}
    try:
        data = ln.vectorize(source, case.schema, **person)
        if len(case.subsets) == 1:
            return (data.vector(records_per_person=case.k),), ""
        return tuple(data.tables(case.subsets, records_per_person=case.k)), ""
    except Exception as error:
        return (), f"{type(error).__name__}: {error}"


# ------------------------------------------------------------------ by hand


def by_hand(case: Case, records: list[Record], folder: Path | None = None) -> Counted | None:
    """The counts by a loop over the records; None where the documentation leaves something open.

    With a person, only where no one has more records than count: which of them stay is not told.
    """
    placed = placements(case, records)
    if placed is None:
        return None
    if case.k is not None:
        times = Counter(who for who, _ in placed)
        if any(number > case.k for number in times.values()):
            return None
    tables = []
    for subset in case.subsets:
        x = np.zeros([case.schema[name].size for name in subset], dtype=np.int64)
        for _, cell in placed:
            x[tuple(cell[case.schema.names.index(name)] for name in subset)] += 1
        tables.append(x.ravel() if len(case.subsets) == 1 else x)
    return Counted(tuple(tables))


def placements(case: Case, records: Sequence[Record]) -> list[tuple[Any, tuple[int, ...]]] | None:
    """Whose each record is that counts, and in which cell; None where something is open."""
    placed = []
    for record in records:
        if isinstance(record, Line):
            if record.is_record is None:
                return None
            continue
        own = [
            cells(case.schema[name], form.read(raw))
            for name, form, raw in zip(case.schema.names, case.forms, record, strict=False)
        ]
        who = None if case.k is None else case.forms[-1].id(record[-1])
        if (case.k is not None and who is None) or who in case.unknown or frozenset([None]) in own:
            continue
        if who is UNCLEAR or any(found is None or len(found) > 1 for found in own):
            return None
        placed.append((who, tuple(next(iter(found)) for found in own if found)))
    return placed  # type: ignore[return-value]


# ------------------------------------------------------------------ what is wrong


@dataclass(frozen=True)
class Fault:
    """What is wrong: "refused", "moved", "warned" or "miscounted", and the case, made small."""

    kind: str
    case: Case
    what: str

    def __str__(self) -> str:
        more = "" if not self.case.groups else f"\n    and more: {self.case.shown(self.case.groups[0])}"
        return (
            f"{self.kind}: {self.case}\n    records: {self.case.shown(self.case.base)}{more}\n    {self.what}"
        )


def faults(case: Case, count: Count = counted, *, is_by_hand: bool = True) -> list[Fault]:
    """What is wrong with a case, at most one fault of each kind.

    Args:
        count: what counts a table; the library by default.
        is_by_hand: whether to compare with a loop over the records as well.

    Raises:
        Unwritable: if the source cannot hold the values.
    """
    with tempfile.TemporaryDirectory(prefix="neighbours-") as name:
        folder = Path(name)
        tables = list(case.tables())
        found = [count(case, records, folder) for records in tables]
        wrong: dict[str, Fault] = {}

        def add(kind: str, j: int, what: str) -> None:
            groups = [case.groups[j - 1]] if j else []
            base = tables[0] if kind != "miscounted" else tables[j]
            own = replace(case, base=base, groups=[] if kind == "miscounted" else groups)
            wrong.setdefault(kind, Fault(kind, own, what[:600]))

        if found[0].refusal and tables[0]:
            none = count(case, [], folder)
            if none.refusal != found[0].refusal:
                own = replace(case, base=[], groups=[tables[0]])
                wrong["refused"] = Fault("refused", own, f"{none} without any record, and {found[0]}"[:600])
        for j, (records, own) in enumerate(zip(tables, found, strict=True)):
            if own.refusal != found[0].refusal:
                add("refused", j, f"{found[0]} and {own}")
            elif own.warned != found[0].warned:
                add("warned", j, f"{sorted(found[0].warned)} and {sorted(own.warned)}")
            elif any(
                np.abs(a - b).sum() > (case.k or 1) for a, b in zip(found[0].tables, own.tables, strict=True)
            ):
                add("moved", j, f"{found[0]} and {own}")
            if is_by_hand and not own.refusal:
                what = _against_hand(case, records, own)
                if what:
                    add("miscounted", j, what)
        return list(wrong.values())


def _against_hand(case: Case, records: list[Record], own: Counted) -> str:
    """How the counts differ from those of a loop over the records; "" if they do not."""
    expected = by_hand(case, records)
    if expected is not None:
        is_same = all(np.array_equal(a, b) for a, b in zip(expected.tables, own.tables, strict=True))
        return "" if is_same else f"{own}, by hand {expected}"
    placed = None if case.k is None else placements(case, records)
    if placed is None or case.k is None:
        return ""
    # Which records of a person stay is not told; how many do, and where they may lie, is.
    n = sum(min(case.k, number) for number in Counter(who for who, _ in placed).values())
    first, subset = own.tables[0], case.subsets[0]
    if int(first.sum()) != n:
        return f"{int(first.sum())} records count, by hand {n}"
    places = [case.schema.names.index(name) for name in subset]
    most = np.zeros([case.schema[name].size for name in subset], dtype=np.int64)
    for (_, cell), number in Counter((who, tuple(cell[p] for p in places)) for who, cell in placed).items():
        most[cell] += min(case.k, number)
    return (
        "" if (first <= most.reshape(first.shape)).all() else f"{own}, by hand at most {_shown_counts(most)}"
    )


def smaller(fault: Fault, count: Count = counted) -> Fault:
    """The same fault with less around it: fewer records, then fewer columns."""
    is_by_hand, n_tries = fault.kind == "miscounted", 0

    def tried(case: Case) -> Fault | None:
        nonlocal n_tries
        n_tries += 1
        if n_tries > MOST_TRIES:
            return None
        try:
            found = faults(case, count, is_by_hand=is_by_hand)
        except (Unwritable, LeastnoiseError):
            return None
        return next((one for one in found if one.kind == fault.kind), None)

    is_smaller = True
    while is_smaller and n_tries <= MOST_TRIES:
        is_smaller = False
        for case in _with_less(fault.case):
            found = tried(case)
            if found is not None:
                fault, is_smaller = found, True
                break
    return fault


def _with_less(case: Case) -> Iterator[Case]:
    n = len(case.base)
    for start in range(0, n, max(1, n // 2)):
        yield replace(case, base=[*case.base[:start], *case.base[start + max(1, n // 2) :]])
    for gone in range(len(case.schema.names) if len(case.schema.names) > 1 else 0):
        yield _without_column(case, gone)
    for i in range(n):
        yield replace(case, base=[*case.base[:i], *case.base[i + 1 :]])
    group = case.groups[0] if case.groups else []
    for i in range(len(group) if len(group) > 1 else 0):
        yield replace(case, groups=[[*group[:i], *group[i + 1 :]]])


def _without_column(case: Case, gone: int) -> Case:
    def without(some: Sequence[Any]) -> list[Any]:
        return [one for i, one in enumerate(some) if i != gone]

    def cut(records: Sequence[Record]) -> list[Record]:
        return [record if isinstance(record, Line) else tuple(without(record)) for record in records]

    return replace(
        case,
        schema=ln.Schema({name: case.schema[name] for name in without(case.schema.names)}),
        names=without(case.names),
        forms=without(case.forms),
        base=cut(case.base),
        groups=list(map(cut, case.groups)),
    )


# ------------------------------------------------------------------ random cases


def drawn(name: str, sources: Sequence[str], n_groups: int = 4) -> Case:
    """A random case; the same for the same name and sources."""
    rng = random.Random(name)
    source = rng.choice(sources)
    kind = SOURCES[source]
    forms = [kind.forms(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    schema = None
    while schema is None:
        try:
            schema = ln.Schema({f"v{k}": attribute(rng, _hint(rng, form)) for k, form in enumerate(forms)})
        except SchemaError:
            continue
    odd = rng.choice([0, 0.2, 0.5])
    # One or two odd values in the table, for many would hide what another changes; of floats often NaN.
    few = [
        form.odd[:1] if rng.random() < 0.3 else rng.choices(form.odd, k=rng.randint(1, 2)) for form in forms
    ]

    def values(chance: float, is_any: bool = True) -> tuple[Any, ...]:
        return tuple(
            form.draw(rng, odd=chance, among=() if is_any else own)
            for form, own in zip(forms, few, strict=True)
        )

    base: list[Record] = [values(odd, is_any=False) for _ in range(rng.randint(0, 12))]
    groups: list[list[Record]] = [[values(0.85)] for _ in range(n_groups)]
    if kind.lines and rng.random() < 0.4:
        groups[0] = [rng.choice(kind.lines)]
        base += rng.choices(kind.lines, k=rng.randint(0, 1))
    case = Case(name, source, schema, [*schema.names], forms, base, groups)
    return _with_people(case, rng, values) if rng.random() < 0.25 else case


def _hint(rng: random.Random, form: Form) -> str:
    # Columns of text and of any objects hold what any attribute can read.
    return rng.choice(["text", "text", "whole", "number", "time"]) if form.hint == "text" else form.hint


def _with_people(case: Case, rng: random.Random, values: Callable[[float], tuple[Any, ...]]) -> Case:
    """The case with a column of ids: neighbours have one person more, with several records."""
    form = SOURCES[case.source].forms(rng)
    pool = {shown(raw): raw for raw in (form.draw(rng, odd=0.5) for _ in range(16))}.values()
    # What is one person is told by the documented rules; where they leave it open, by what is stored.
    whose: dict[Any, list[Any]] = {}
    for raw in pool:
        who = form.id(raw)
        whose.setdefault(f"? {shown(raw)}" if who is UNCLEAR else who, []).append(raw)
    ids = list(whose)
    rng.shuffle(ids)
    cut = max(1, len(ids) // 2)
    inside, new = ids[:cut], ids[cut:]
    known = [who for who in ids if isinstance(who, str) and not who.startswith("? ") and who.isprintable()]
    unknown = tuple(rng.sample(known, 1)) if known and rng.random() < 0.4 else ()
    base = [
        record if isinstance(record, Line) else (*record, rng.choice(whose[rng.choice(inside)]))
        for record in case.base
        for _ in range(1 if isinstance(record, Line) else rng.randint(1, 3))
    ]
    groups = [
        [(*values(0.6), rng.choice(whose[who])) for _ in range(rng.randint(1, 4))]
        for who in (rng.choice(new or [None]) for _ in case.groups)
        if who in whose
    ]
    return replace(
        case,
        names=[*case.names, "who"],
        forms=[*case.forms, form],
        base=base,
        groups=groups,
        k=rng.randint(1, 3),
        unknown=unknown,
    )


@dataclass
class Found:
    """What many cases have shown: pairs that were compared, those checked by hand, and what is wrong."""

    n_pairs: int = 0
    n_by_hand: int = 0
    n_refused: int = 0
    n_unwritten: int = 0
    by_source: Counter[str] | None = None
    wrong: list[Fault] | None = None


def judged(
    names: Iterator[str] | Sequence[str],
    sources: Sequence[str],
    *,
    until: Callable[[Found], bool] = lambda found: False,
    count: Count = counted,
    is_by_hand: bool = True,
) -> Found:
    """Case after case of these names."""
    found = Found(by_source=Counter(), wrong=[])
    assert found.by_source is not None and found.wrong is not None
    for name in names:
        case = drawn(name, sources)
        refused = []

        def noted(case: Case, records: list[Record], folder: Path, refused: list[str] = refused) -> Counted:
            own = count(case, records, folder)
            refused.append(own.refusal)
            return own

        try:
            found.wrong += faults(case, noted, is_by_hand=is_by_hand)
            found.n_pairs += len(case.groups)
            found.by_source[case.source] += len(case.groups)
            found.n_refused += bool(refused[0]) * len(case.groups)
            found.n_by_hand += sum(by_hand(case, records) is not None for records in list(case.tables())[1:])
        except Unwritable:
            found.n_unwritten += 1
        if until(found):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Pairs of tables that differ in one record.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="a new one by default")
    parser.add_argument("--pairs", type=int, default=None, help="at most this many")
    parser.add_argument(
        "--sources", default=None, help="separated by commas; postgres and spark when asked for"
    )
    parser.add_argument("--case", default=None, help="SEED:NUMBER, as it is printed")
    parser.add_argument("--show", type=int, default=10, help="how many faults are made small and shown")
    asked = parser.parse_args()
    here = [name for name, source in SOURCES.items() if source.is_here() and name not in SERVED]
    sources = here if asked.sources is None else asked.sources.split(",")
    seed = int.from_bytes(os.urandom(4), "little") if asked.seed is None else asked.seed
    names = (f"{seed}:{i}" for i in range(10**9)) if asked.case is None else [asked.case]
    enough = asked.pairs or 10**12
    with served(sources):
        start = time.monotonic()
        found = judged(
            names,
            sources,
            until=lambda found: found.n_pairs >= enough or time.monotonic() - start > asked.seconds,
        )
        found_small = [str(smaller(fault)) for fault in (found.wrong or [])[: asked.show]]
    assert found.by_source is not None and found.wrong is not None
    print(
        f"{found.n_pairs} pairs, {found.n_by_hand} of them by hand too, {found.n_refused} refused, "
        f"{found.n_unwritten} cases not to be written, {len(found.wrong)} wrong (seed {seed})"
    )
    for name, number in sorted(found.by_source.items()):
        own = Counter(fault.kind for fault in found.wrong if fault.case.source == name)
        print(f"  {name:12} {number:6} pairs  {', '.join(f'{n} {kind}' for kind, n in own.items())}")
    print("\n".join(found_small))


@contextmanager
def served(sources: Sequence[str]) -> Iterator[None]:
    """The servers that some sources need, for as long as they do."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "postgres" in sources:
            ENGINES["postgres"] = stack.enter_context(started()).connect()
        if "spark" in sources:
            ENGINES["spark"] = stack.enter_context(spark_here(folder / "warehouse"))
            ENGINES["folder"] = folder
        yield


if __name__ == "__main__":
    main()
