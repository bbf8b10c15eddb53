"""Which releases a new one is added to cell by cell: decided by the request and the log alone.

No table is looked at here, so that the price of a request says nothing about any. What is decided is
confirmed later, by `Ledger.spend`.
"""

from __future__ import annotations

from collections.abc import Sequence

from leastnoise.core.errors import LedgerMismatchError
from leastnoise.core.printable import counted
from leastnoise.core.remedies import Argument, Part, Remedy
from leastnoise.privacy.accounting import Charge
from leastnoise.privacy.ledger.history import Entry, History
from leastnoise.privacy.ledger.table_identity import CountedTable, is_held

NOTHING_SPENT = "Nothing was spent."

_SAME_TABLE_AS = Argument("same_table_as")
_LEAVE_OUT = Remedy("leave out ", _SAME_TABLE_AS, ", which adds the plan's worst case")


def base_of(
    history: History, charge: Charge, after: Sequence[str], table: CountedTable | None
) -> Entry | None:
    """The release whose group a new one joins; None for one that is added with its worst case.

    Args:
        after: digests of the plans that the plan was designed after: releases of all of them must be in the
            group, each as often as it is named.

    Raises:
        LedgerMismatchError: if the request names a release that it cannot be added to, saying why.
    """
    asked = None if table is None else table.same_as
    if asked is None and not after:
        return None
    base = _after(history, after) if asked is None else _named(history, asked, after)
    _check_terms(base, charge)
    _check_confirmable(base, table)
    return base


def _named(history: History, release_id: str, after: Sequence[str]) -> Entry:
    base = history.entry(release_id)
    if base is None:
        raise _refused(
            Argument("same_table_as", is_subject=True),
            f" names {release_id!r}, and this ledger has no such release; ",
            Remedy("`leastnoise ledger show` lists them"),
        )
    missing = history.missing(after, base.group)
    if missing:
        raise _refused(
            f"the plan was designed after others, of which {len(missing)} were not released about the table "
            f"of {release_id!r} ({missing[0]!r}); ",
            Remedy("measure those first, with this ledger and ", Argument("same_table_as", release_id)),
        )
    return base


def _after(history: History, after: Sequence[str]) -> Entry:
    """The release that began the one group in which all of some plans were released."""
    missing = history.missing(after)
    if missing:
        raise _refused(
            f"the plan was designed after others, of which {len(missing)} were not released from this "
            f"ledger ({missing[0]!r}); measure those first, with this ledger"
        )
    groups = [group for group in history.groups if not history.missing(after, group)]
    if len(groups) == 1:
        found = history.entry(groups[0])
        assert found is not None
        return found
    if groups:
        raise _refused(
            f"the plans that this one was designed after were released about {len(groups)} tables; ",
            Remedy("say which table is meant, for example ", Argument("same_table_as", groups[-1])),
        )
    raise _refused(
        "the plans that this one was designed after were released, but not about one confirmed version of "
        "one table, so that their costs do not add up cell by cell; ",
        Remedy(
            "measure each of them after the first with ",
            _SAME_TABLE_AS,
            ", then this one, or design it for a goal of its own",
        ),
    )


def _check_terms(base: Entry, charge: Charge) -> None:
    """Refuse charges that never add up cell by cell, whatever the table."""
    name = base.release_id
    if not charge.adds_by_cell or not base.charge.adds_by_cell:
        which = "this plan" if not charge.adds_by_cell else f"release {name!r}"
        raise _refused(
            f"what {which} spends does not add up cell by cell: its cells are too many, its noise depends on "
            "the data, or a record is replaced; ",
            _LEAVE_OUT,
        )
    if charge.cells != base.charge.cells:
        raise _refused(
            f"release {name!r} has other cells: another schema, policy or number of cells; ",
            _LEAVE_OUT,
        )
    if charge.records_per_person != base.charge.records_per_person:
        raise _refused(
            f"release {name!r} counts {counted(base.charge.records_per_person, 'record')} per person, this "
            f"plan {charge.records_per_person:,}; ",
            _LEAVE_OUT,
        )


def _check_confirmable(base: Entry, table: CountedTable | None) -> None:
    """Refuse a table of which nothing could show that it is the one of an earlier release."""
    name, recorded = base.release_id, base.table
    if recorded is None:
        raise _refused(
            f"release {name!r} was recorded by an earlier leastnoise, which did not note the version of its "
            "table; ",
            _LEAVE_OUT,
        )
    if recorded.by is None:
        raise _refused(
            f"the table of release {name!r} was read from a source that can change: an engine, or a "
            "frame that was not given as the Data of vectorize(). Nothing can confirm that it is the "
            "same now; ",
            _LEAVE_OUT,
        )
    if table is None or table.by != recorded.by:
        how = {
            "digest": "from files or as a vector of counts",
            "held": "from memory, as one Data object of vectorize()",
        }[recorded.by]
        raise _refused(
            f"the table of release {name!r} was given {how}; only the same can confirm that it has not "
            "changed. Give it that way again, or ",
            _LEAVE_OUT,
        )
    for rule in sorted({*table.rules, *recorded.rules}):
        mine, theirs = table.rules.get(rule, "nothing"), recorded.rules.get(rule, "nothing")
        if mine != theirs:
            raise _refused(
                f"release {name!r} counted its table by another rule: {rule} was {theirs} and is now "
                f"{mine}; make them equal, or ",
                _LEAVE_OUT,
            )
    if table.by == "held" and not is_held(base.head, table):
        raise _refused(
            f"the table of release {name!r} was held in memory by another object or process, and nothing "
            "can confirm that this one is the same; call vectorize() once and measure every plan on that "
            "Data, in one process, or keep the table in a file. Otherwise ",
            _LEAVE_OUT,
        )


def _refused(*reason: Part | Remedy) -> LedgerMismatchError:
    return LedgerMismatchError(*reason, f". {NOTHING_SPENT}", field="same_table_as")
