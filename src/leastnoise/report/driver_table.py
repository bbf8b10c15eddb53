"""What drives the cost of a plan, as a table and in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.printable import printable
from leastnoise.report.figures import four_digits

# What cannot lower the cost by more than this share is not designed again.
NEGLIGIBLE = 1e-3

# Batches that are printed; the frame holds all.
SHOWN = 20

# What cannot lower it by more than this is nothing: plans are proved optimal to about that much.
_NOTHING = 1e-5

# A batch whose largest standard error is this close to its target binds: rounding to integers keeps
# variances to about a millionth, a search that stopped at a gap of a thousandth leaves some slack.
BINDS = 1 - 1e-3


@dataclass(frozen=True)
class Change:
    """What one relaxation would buy: two plans, each with its certificate.

    Attributes:
        subject: the batch, or the query of it, that is relaxed.
        how: what is changed, in words.
        unit: what the two numbers are.
        before: the cost of the plan as it is, or as it is when it is designed again.
        after: the cost of the plan that was designed for the changed request.
        gap: how far that plan is above the bound proved for it.
        status: what its certificate says.
        rms: the root mean square of the batch's own standard errors before and after; None where it is
            left out.
    """

    subject: str
    how: str
    unit: str
    before: float
    after: float
    gap: float
    status: str
    rms: tuple[float, float] | None = None

    @property
    def lowers_by(self) -> float:
        """The share of the cost that is saved; not positive where no better plan was found."""
        return 1 - self.after / self.before if self.before > 0 else 0.0

    def __str__(self) -> str:
        if self.lowers_by < NEGLIGIBLE and self.is_open:
            return (
                f"{self.how}: the search ended before it found a better plan, so what this saves is open; "
                f"{self.unit} stays at {four_digits(self.before)} or falls"
            )
        if self.lowers_by < NEGLIGIBLE:
            says = f"{self.how} buys nothing: {self.unit} stays at {four_digits(self.before)}"
        else:
            says = (
                f"{self.how} lowers {self.unit} from {four_digits(self.before)} to {four_digits(self.after)}"
            )
        if self.rms is not None:
            says += (
                f"; its own standard error goes from {four_digits(self.rms[0])} to {four_digits(self.rms[1])}"
            )
        return f"{says} ({_gap(self.gap) if self.status == 'optimal' else _unproved(self.gap)})"

    @property
    def is_open(self) -> bool:
        """Whether a plan better than the present one is not ruled out, though none was found."""
        return self.lowers_by < NEGLIGIBLE and self.status != "optimal" and self.gap > NEGLIGIBLE


@dataclass(frozen=True)
class TightQuery:
    """A query that presses harder than others of its batch, as this proof shares it out.

    Attributes:
        share: what it has in the cost of the whole plan.
    """

    label: str
    share: float
    stderr: float
    target: float | None


@dataclass(frozen=True)
class Driver:
    """One batch of queries: what it has in the cost, and what relaxing it would buy.

    Attributes:
        weight: how much its variances count; None where rows have their own.
        target: as it was given; "" without one.
        stderr: the largest standard error of its answers.
        used: that, as a share of what its target allows; None without a target.
        share: what it has in the cost, 0 to 1; None where no proof says it.
        most_bought: relaxing by the table's factor cannot lower what the certificate measures (μ², the
            squared factor, a variance) by more than this share, which the plan's own certificate proves;
            None where it does not speak of targets.
        tightens_to: the target can be made as narrow as this without any cost, as the plan keeps it
            already; "" where it binds.
        changes: what relaxing it buys, each designed again.
        queries: those of its queries that press hardest.
        reason: why it is not designed again; "" where it is.
        failures: what went wrong when it was designed again, a sentence each.
    """

    name: str
    n_queries: int
    weight: float | None
    target: str
    stderr: float
    used: float | None
    share: float | None
    most_bought: float | None = None
    tightens_to: str = ""
    changes: tuple[Change, ...] = ()
    queries: tuple[TightQuery, ...] = ()
    reason: str = ""
    failures: tuple[str, ...] = ()

    @property
    def is_untried(self) -> bool:
        """Whether relaxing it may buy something, but batches with larger shares were designed first."""
        return not (self.changes or self.reason or self.failures)

    @property
    def is_binding(self) -> bool:
        """Whether some of its answers are as inaccurate as they may be."""
        return self.used is not None and self.used >= BINDS


@dataclass(frozen=True)
class Drivers(NotebookValue):
    """What drives the cost of a plan, the largest share first; prints as a table and sentences.

    Attributes:
        drivers: the batches of queries, the largest share first.
        unit: the unit of the cost.
        cost: the cost of the plan.
        again: its cost when designed again, where that is less; None where its optimum is proved and nothing
            was tried.
        gap: the gap of the plan's certificate.
        status: the status of the plan's certificate.
        relax: the factor by which targets were relaxed.
        share_of: what the shares are shares of.
        by: what is relaxed, "target" or "weight".
        proved_in: the unit of the certificate, of which `most_bought` is a share.
        method: the method that designed everything again.
        unknown: why shares are not known, and what to do about it; "" where they are known.
    """

    _unlisted = unlisted("cost_to_text figures heads left_out")

    drivers: tuple[Driver, ...]
    unit: str
    cost: float
    again: float | None
    gap: float
    status: str
    relax: float
    share_of: str
    by: str
    proved_in: str
    method: str
    unknown: str = ""

    def __getitem__(self, name: str) -> Driver:
        for driver in self.drivers:
            if driver.name == name:
                return driver
        known = [repr(printable(driver.name)) for driver in self.drivers]
        raise InputError.unknown("batch", name, known)

    def _ipython_key_completions_(self) -> list[str]:
        """What Tab offers after ``drivers["``."""
        return [driver.name for driver in self.drivers]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for every batch and change."""
        import pandas as pd

        lines = []
        for driver in self.drivers:
            own = {
                "batch": driver.name,
                "queries": driver.n_queries,
                "weight": driver.weight,
                "target": driver.target or None,
                "stderr": driver.stderr,
                "used": driver.used,
                "share": driver.share,
                "is_binding": driver.is_binding,
                "most_bought": driver.most_bought,
            }
            lines += [own | asdict(change) for change in driver.changes] or [own]
        return pd.DataFrame(lines)

    def sentences(self, most: int | None = None, *, more: str = "most=") -> tuple[str, ...]:
        """What relaxing each batch would save, one sentence each.

        Args:
            most: how many batches at most; None for all.
            more: the argument or option that redesigns more of them, named in the last sentence.
        """
        says = [words for driver in self.drivers[:most] for words in _says(driver, self)]
        n_untried = sum(driver.is_untried for driver in self.drivers)
        if n_untried:
            smaller = " with smaller shares" if not self.unknown else ""
            says.append(f"Of {n_untried:,}{smaller} nothing was designed again; {more} takes more.")
        return tuple(says)

    def left_out(self, where: str = ", in .to_frame()") -> list[str]:
        """A line that says how many batches are not printed and where they are; empty if all are printed.

        Args:
            where: where to find the batches that are not printed, the end of the line.
        """
        more = len(self.drivers) - SHOWN
        smaller = " with smaller shares" if not self.unknown else ""
        return [f"… and {more:,} batches{smaller}{where}"] if more > 0 else []

    def __str__(self) -> str:
        title = "What drives the cost"
        head = [title, "=" * len(title), "", *self.cost_to_text(), ""]
        body = [*self.left_out(), "", *self.sentences(SHOWN)]
        return "\n".join([*head, *self._table(), *(f"  {line}" if line else "" for line in body)])

    __repr__ = __str__

    def cost_to_text(self) -> list[str]:
        """The cost of the plan and its gap, in words."""
        is_optimal = self.status == "optimal"
        proof = f"the optimum, proved; {_gap(self.gap)}"
        if not is_optimal:
            proof = f"{_gap(self.gap)}: the {self.proved_in} may be that share above the least there is"
        words = [f"{self.unit[0].upper()}{self.unit[1:]}: {four_digits(self.cost)} ({proof})."]
        if self.again is not None:
            words.append(
                f"That it is the optimum is not proved. Designed again, it costs {four_digits(self.again)}: "
                "searches differ by that much, and what relaxing buys must be more to count."
            )
        if self.unknown:
            words.append(self.unknown)
        elif self.drivers and not self._has_shares:
            words.append("No target binds: without them it would be the same.")
        return words

    @property
    def heads(self) -> tuple[str, ...]:
        """The headings of the columns of `figures`."""
        return (self.by, "largest std. error", *((self.share_of,) if self._has_shares else ()))

    @property
    def _has_shares(self) -> bool:
        """Whether some batch is known to have a share; `unknown` says why not, or no target binds."""
        return any(driver.share for driver in self.drivers)

    def figures(self, driver: Driver) -> tuple[str, ...]:
        """A row of the table: the batch, its target and standard error, and its share if known.

        Args:
            driver: the batch, one of `drivers`.
        """
        weight = "various" if driver.weight is None else f"{driver.weight:,.4g}"
        asked = (driver.target or "none") if self.by == "target" else weight
        error = f"{driver.stderr:,.4g}" + (" (binds)" if driver.is_binding else "")
        share = "not known" if driver.share is None else f"{100 * driver.share:.1f} %"
        return (asked, error, *((share,) if self._has_shares else ()))

    def _table(self) -> Iterator[str]:
        shown = self.drivers[:SHOWN]
        lines = [(short(driver.name), *self.figures(driver)) for driver in shown]
        heads = ("counts", *self.heads)
        first, *others = (max(len(line[i]) for line in (heads, *lines)) for i in range(len(heads)))
        for line, driver in zip((heads, *lines), (None, *shown), strict=True):
            cells = zip(line[1:], others, strict=True)
            yield f"  {line[0]:<{first}}  " + "  ".join(f"{cell:>{width}}" for cell, width in cells)
            for query in () if driver is None else driver.queries:
                own = "" if query.target is None else f", target {query.target:,.4g}"
                yield (
                    f"  {'':<{first}}    {100 * query.share:.1f} % by {short(query.label)!r}: "
                    f"{query.stderr:,.4g}{own}"
                )


def _gap(gap: float) -> str:
    return f"gap {gap:.0e}" if gap < 0.01 else f"gap {gap:.1%}" if gap < 1 else f"gap {gap:,.0%}"


def _unproved(gap: float) -> str:
    return f"{_gap(gap)}, not proved to be its optimum"


def _says(driver: Driver, table: Drivers) -> Iterator[str]:
    name = repr(short(driver.name))
    for change in driver.changes:
        yield f"{change}."
    if driver.changes:
        return
    if driver.most_bought is not None and driver.most_bought <= NEGLIGIBLE and driver.reason:
        bought = "nothing"
        if driver.most_bought >= _NOTHING:
            bought = f"at most {100 * driver.most_bought:.1g} % of the {table.proved_in}"
        tighter = f"; making it as narrow as {driver.tightens_to} costs nothing" if driver.tightens_to else ""
        yield f"Relaxing {name} buys {bought}, proved{tighter}."
    elif driver.reason:
        yield f"{name}: {driver.reason}."
    for failure in driver.failures:
        yield f"{failure}."


def short(text: str) -> str:
    """A name for a line of a table."""
    shown = printable(text)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
