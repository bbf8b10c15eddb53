"""How many records no declared cell took: measured beside the plan, and noisy like its answers.

A record is in one cell of the schema or in none. So "none" is one cell more, disjoint from all others, and
the number of its records is measured by a row of its own. With the strategy A of the plan, both scaled to
noise of size one, what is released is

    [ A  0 ] ( x  )                               x_0: the records that some attribute has no cell for
    [ 0  B ] ( x_0)  + noise,      B = (K/s) 1                                                        (1)

Adding or removing a record changes x by one unit vector or x_0 by one, never both: the columns of (1) are
those of A, and one more of cost (K/s)² (Gaussian) or K/s (Laplace). K and s are chosen such that it is at
most the largest cost of A's columns. Then the whole release spends what the plan alone spends, exactly
(parallel composition), whatever the plan measures: a fixed strategy of any kind, or stages that depend on
the data. The k records of one person change (1) by at most k times the largest column, "none" included,
because truncation keeps at most k records of a person, those without a cell included.

Where a record is replaced, it may move from a cell to none and changes both; the costs add up then. So it is
measured only if asked for, and the charge is dearer by its cost.

In a stream of T periods the number is measured in each, of the table as it is then. A record in no cell is in
at most T of these rows and in no row of A, so that it spends at most T (K/s)²: each row gets 1/T of the cost,
and is noisier by √T.

Asked for by attribute, B has one row more for each attribute: of the records in no cell, how many that
attribute has no cell for. A record that all of them leave out changes every row, so that the cost is shared:
each number is noisier by a factor of √(1 + attributes) or 1 + attributes, and the answers of the plan still
cost nothing more.

Reference:
    McSherry (2009), Privacy integrated queries, Theorem 4 (parallel composition).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import InputError, PlanFileError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.operators import Array
from leastnoise.data import is_count_vector
from leastnoise.planning import Plan, period_labels
from leastnoise.privacy import Noise

# The share of all records above which a release warns that they are in no cell.
USUAL_SHARE = 0.05

# The part of the plan's own cost that the number costs on top where a record is replaced: a tenth makes the
# noise of the number about three times that of one count, and the release a tenth dearer.
REPLACED_COST = Fraction(1, 10)

# The grid is refined until the noise spans this many of its steps: rounding then adds less than 1e-10 of its
# variance, and a scale rounded up to a whole number less than 1e-4.
_LEAST_SCALE = 2**16

# The confidence of the interval by whose lower end a release warns.
_SURE = 1 - 2e-6

# Steps of the grid of one count that a file may claim.
_MOST_STEPS = 2**64


@dataclass(frozen=True)
class NotCountedRow:
    """How the number of records in no cell will be measured: fixed before data is read.

    Attributes:
        noise: its kind, that of the plan.
        factor: K, what counts are multiplied by.
        scale: s, the scale of the noise on the multiplied counts.
        attributes: those that are asked about one by one.
        most: the share of all records above which the release warns.
    """

    noise: Noise
    factor: int
    scale: int
    attributes: tuple[str, ...] = ()
    most: float = USUAL_SHARE

    @property
    def n_measured(self) -> int:
        """How many integers are measured."""
        return 1 + len(self.attributes)

    @property
    def cost(self) -> Fraction:
        """What a record in no cell spends at most, exactly: μ² or ε."""
        return Fraction(self.n_measured * self.noise.times(self.factor), self.noise.unit(self.scale))

    def multiplied(self, numbers: Sequence[int]) -> Array:
        """What is measured of these true numbers, without noise."""
        return np.array([self.factor * int(number) for number in numbers], dtype=object)


def row_for(
    plan: Plan,
    source: Any,
    asked: bool | Sequence[str] | None,
    most: float,
    *,
    same_table_as: str | None = None,
    n_times: int = 1,
) -> NotCountedRow | None:
    """How a release will measure its records in no cell; None where it will not.

    Args:
        asked: True, False, names of attributes to be told apart, or None to measure it wherever it is
            free: under add-remove neighbours, from a table, unless an earlier release about the same table
            has told the number.
        most: the share of all records above which the release warns.
        n_times: how often it is measured at most. A record in no cell may be in every one of these numbers,
            which share the cost.

    Raises:
        InputError: if it is asked for where it cannot be measured, or an attribute is not of the schema.
    """
    if isinstance(most, bool) or not isinstance(most, (int, float)) or not 0 <= most <= 1:
        raise InputError.must("most_not_counted", "be a share between 0 and 1", given=most)
    attributes = () if asked is None or isinstance(asked, (bool, np.bool_)) else _checked(plan, asked)
    if asked is not None and not asked and not attributes:
        return None
    impossible = _why_not(plan, source)
    if impossible is not None:
        if asked is None:
            return None
        raise InputError(
            f"how many records are in no cell cannot be measured: {impossible}", field="not_counted"
        )
    replaces = plan.privacy.relation.replaces
    if asked is None and (replaces or same_table_as is not None):
        return None
    room = plan.charge.worst * (REPLACED_COST if replaces else 1)
    return within_cost(plan.privacy.noise, room / n_times, attributes, float(most))


def _why_not(plan: Plan, source: Any) -> str | None:
    if plan.workload.schema is None or is_count_vector(source):
        return "counts are given one by one, so that no record is left out of them"
    if plan.after:
        return (
            "the plan was designed after others and keeps its goal only together with them; the first "
            "release about the table tells the number"
        )
    if not plan.charge.worst:
        return "the plan measures nothing that depends on anybody, and spends nothing"
    return None


def _checked(plan: Plan, asked: object) -> tuple[str, ...]:
    names = () if plan.workload.schema is None else plan.workload.schema.names
    is_list = isinstance(asked, Sequence) and not isinstance(asked, (str, bytes))
    listed = tuple(asked) if is_list else ()  # type: ignore[arg-type]
    if not is_list or len(set(map(str, listed))) < len(listed) or not set(listed) <= set(names):
        raise InputError.must(
            "not_counted", "be True, False or a list of different attributes of the schema", given=asked
        )
    return listed


def within_cost(
    noise: Noise, room: Fraction, attributes: tuple[str, ...] = (), most: float = USUAL_SHARE
) -> NotCountedRow:
    """The row of least noise whose cost is at most this, among grids of 1, 2, 4, … steps per count.

    Guarantee:
        `NotCountedRow.cost` is at most ``room``, in exact arithmetic.
    """
    share = room / (1 + len(attributes))
    rows: list[NotCountedRow] = []
    factor = 1
    while not rows or (rows[-1].scale < _LEAST_SCALE and factor < _MOST_STEPS):
        # The least scale with factor^power / scale^power <= share.
        scale = noise.least_scale(math.ceil(noise.times(factor) / share))
        rows.append(NotCountedRow(noise, factor, scale, attributes, most))
        factor *= 2
    best = min(rows, key=lambda row: row.noise.variance(row.scale) / row.factor**2)
    assert best.cost <= room, "a scale that was rounded the wrong way"
    return best


@dataclass(frozen=True)
class NoisyNumber(NotebookValue):
    """One noisy number of records.

    Attributes:
        measured: K times the number, with noise of scale s, as it was released.
        row: K, s and the kind of noise.
    """

    measured: int
    row: NotCountedRow = field(repr=False)

    @property
    def estimate(self) -> float:
        """The number of records, unbiased; it may be negative or fractional, like every answer."""
        return self.measured / self.row.factor

    @property
    def stderr(self) -> float:
        """The standard error of the estimate."""
        return math.sqrt(self.row.noise.variance(self.row.scale)) / self.row.factor

    def half_width(self, level: float = 0.95) -> float:
        """Half the width of the interval that holds the true number with probability ``level``."""
        if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
            raise InputError.must("level", "lie between 0 and 1, as in 0.95", given=level)
        if self.row.noise.has_normal_errors:
            return -NormalDist().inv_cdf((1 - level) / 2) * self.stderr
        # P(|X| > t) = 2 q^(t+1)/(1 + q), q = exp(-1/s): the least whole t at which it is at most 1 - level.
        q = math.exp(-1 / self.row.scale)
        steps = math.ceil(self.row.scale * math.log(2 / ((1 + q) * (1 - level)))) - 1
        return max(steps, 0) / self.row.factor

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Lower and upper end that hold the true number with probability ``level``."""
        half = self.half_width(level)
        return self.estimate - half, self.estimate + half

    @property
    def amount(self) -> str:
        """The number and its 95% interval, in whole records and never fewer than none.

        Example: "about 1,409 ± 22", or "at most 25" where there may be none.
        """
        low, high = self.interval()
        if low <= 0:
            return f"at most {max(math.floor(high), 0):,}"
        # The true number is whole: rounding the half-width up makes up for rounding the estimate.
        return f"about {round(self.estimate):,} ± {math.ceil(self.half_width()):,}"

    def __str__(self) -> str:
        return f"{self.amount} records"


@dataclass(frozen=True)
class NotCounted(NotebookValue):
    """How many records no declared cell took, with noise, and of them those that single attributes left out.

    Attributes:
        row: how it was measured.
        measured: the noisy integers that were released: of all records in no cell, then by attribute.
    """

    row: NotCountedRow
    measured: tuple[int, ...]

    @property
    def total(self) -> NoisyNumber:
        """Of all attributes together."""
        return NoisyNumber(self.measured[0], self.row)

    @property
    def estimate(self) -> float:
        """How many records no cell took: unbiased, so that it may be negative or fractional."""
        return self.total.estimate

    @property
    def stderr(self) -> float:
        """The standard error of the estimate."""
        return self.total.stderr

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Lower and upper end that hold the true number with probability ``level``."""
        return self.total.interval(level)

    @property
    def by_attribute(self) -> dict[str, NoisyNumber]:
        """Of the attributes that were asked about: how many of these records each has no cell for.

        A record that several of them leave out is in several of these numbers.
        """
        pairs = zip(self.row.attributes, self.measured[1:], strict=True)
        return {name: NoisyNumber(measured, self.row) for name, measured in pairs}

    def exceeds(self, n_counted: float) -> bool:
        """Whether surely more than the declared share of all records is in no cell.

        Judged by a lower end that is above the true number with a chance of one in a million: noise alone
        makes no warning.

        Args:
            n_counted: an estimate of how many records are in some cell.
        """
        low = self.interval(_SURE)[0]
        return low > 0 and low > self.row.most * (low + max(n_counted, 0.0))

    def statements(self) -> list[str]:
        """The numbers in words, a sentence each, for reports."""
        lines = [f"{self.total} matched no declared value and are in none of the answers (95% interval)."]
        lines[0] = lines[0][0].upper() + lines[0][1:]
        for name, number in self.by_attribute.items():
            lines.append(f"Of these, {number} have no declared value of {name!r}.")
        return lines

    def to_parts(self) -> tuple[dict[str, Any], Array]:
        """Plain values and an array that `not_counted_from_parts` reads back."""
        row = self.row
        content = {
            "factor": row.factor,
            "scale": str(row.scale),
            "attributes": list(row.attributes),
            "most": row.most,
        }
        return content, exact.to_limbs(np.array(self.measured, dtype=object))

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"NotCounted(estimate={self.estimate:.1f}, 95% in [{low:.1f}, {high:.1f}])"


def not_counted_from_parts(
    content: Any, arrays: Mapping[str, Array], plan: Plan, name: str
) -> NotCounted | None:
    """What `NotCounted.to_parts` wrote into a release, once it is checked against the release's plan.

    Args:
        name: what errors call the file.

    Raises:
        PlanFileError: if it was written by something else, or claims less noise than the plan's goal asks.
    """
    if content is None:
        return None
    wrong = PlanFileError(
        f"{name!r} holds a number of records not counted that does not fit its plan", field="path", given=name
    )
    limbs, schema = arrays.get("not_counted"), plan.workload.schema
    if not isinstance(content, dict) or set(content) != {"factor", "scale", "attributes", "most"}:
        raise wrong
    factor, scale, attributes, most = (content[key] for key in ("factor", "scale", "attributes", "most"))
    is_scaled = type(factor) is int and 1 <= factor <= _MOST_STEPS and isinstance(scale, str)
    is_listed = isinstance(attributes, list) and len(set(map(str, attributes))) == len(attributes)
    is_share = type(most) in (int, float) and 0 <= most <= 1
    if not (is_scaled and scale.isascii() and scale.isdigit() and len(scale) <= 4000):
        raise wrong
    if schema is None or not is_listed or not is_share or not set(attributes) <= set(schema.names):
        raise wrong
    if limbs is None or limbs.ndim != 2 or limbs.dtype.kind != "i" or not limbs.size or not int(scale):
        raise wrong
    row = NotCountedRow(plan.privacy.noise, factor, int(scale), tuple(attributes), float(most))
    measured = tuple(int(value) for value in exact.from_limbs(limbs).astype(object))
    # Not believed: what is claimed of the noise must be within what the plan spends for one record.
    # Of a stream, each of its periods may have told the number.
    whole, n_times = (plan, 1) if plan.horizon is None else (plan.horizon, len(period_labels(plan.horizon)))
    worst = whole.spent_per_person / plan.privacy.noise.times(plan.privacy.records_per_person)
    if len(measured) != row.n_measured or row.cost * n_times > worst:
        raise wrong
    return NotCounted(row, measured)
