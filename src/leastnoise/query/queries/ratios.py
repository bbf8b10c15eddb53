"""Means, shares and other ratios: each is made from two linear queries of the batch.

A ratio a/b is not linear. `assemble` asks for its numerator and its denominator, and a release divides the
answers, with an interval from their joint error. For a mean the numerator is Σ(v − centre): with the centre
in the middle of the declared range, one person changes it by half the width of the range only, where Σv
would change by the largest value. The mean is centre + Σ(v − centre)/n.

*Weights.* To first order the variance of a mean at the value g is Var(Σ(v − g))/n². A mean therefore weighs
Σ(v − g) by 1/R², with g the guess (the middle of the range without one) and R the farthest that a value lies
from g, and the count by a third of 1: E(θ − g)² = R²/3 for a true mean anywhere in the range with equal
probability. Even weights would be 1/R² and 1. A plan that minimises V_e + κ V_b has a V_e that never rises as
κ falls, so the split is never worse at the guess than an even one.

*Targets.* With a public guess b of the denominator, ``expected=``, a standard error t of the ratio becomes
two linear targets, by sd(â − θ b̂) ≤ sd(â) + |θ| sd(b̂) to first order: of t b/2 for the numerator and
t b/(2 |θ|) for the denominator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from leastnoise.core.errors import QueryError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.key_shapes import QUERY, key
from leastnoise.query.queries.meaning import Table
from leastnoise.query.queries.query import Query
from leastnoise.query.queries.targets import is_percent, times, to_float
from leastnoise.query.schema import Schema

# The weight of a denominator beside that of its numerator without a guess: E θ² for θ uniform on [0, 1].
WEIGHT_WITHOUT_GUESS = 1 / 3

# The least weight of a denominator beside that of its numerator, so that every plan measures it.
LEAST_WEIGHT = 0.01

# Entries of the rows of a share that are compared one by one with those of the whole.
MAX_COMPARED = 2**22

_GUESS = "a public guess of the ratio, never taken from the data"


@dataclass(frozen=True, eq=False)
class RatioParts:
    """What one ratio query is made from.

    Attributes:
        numerator: a linear query, one row for each ratio.
        denominator: a linear query.
        rows: which row of the denominator belongs to each ratio, (k,).
        shown_as: the linear query whose rows and factors name the ratios.
        shift: what is added to each quotient.
        possible: the least and the largest value of a ratio.
        positive: whether the denominators are counts.
        further: linear queries that are measured beside them, each with its role.
        means: of a standard deviation what the mean less the centre can be; the numerator is then a sum of
            squares, and the first of `further` the sum. None for ratios.
    """

    numerator: Query
    denominator: Query
    rows: Array
    shown_as: Query
    shift: float
    possible: tuple[float, float]
    positive: bool
    further: tuple[tuple[str, Query], ...] = ()
    means: tuple[float, float] | None = None

    @property
    def is_deviation(self) -> bool:
        """Whether the root of a variance is meant."""
        return self.means is not None


@dataclass(frozen=True, repr=False)
class RatioQuery(Query):
    """What means, shares and other ratios have in common.

    Args:
        guess: a public guess of the ratio, which sets the weight of the denominator; never taken from the
            data.
    """

    guess: float | None = field(default=None, kw_only=True, metadata=key({"type": "number"}, _GUESS))
    is_linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check_unit()
        super().__post_init__()
        guess = None if self.guess is None else to_float(self.guess)
        if self.guess is not None and (guess is None or not math.isfinite(guess)):
            raise QueryError.must("guess", "be a finite number that is public", given=self.guess)
        object.__setattr__(self, "guess", guess)
        if self.target is None:
            return
        if self.expected is None:
            raise QueryError(
                "a target of a ratio needs a guess of its denominator",
                field="expected",
                remedy="say how large the denominators are expected to be, from public knowledge and not "
                "from the data: expected=20_000, in a specification expected = 20000",
            )

    def _check_unit(self) -> None:
        """Before shares of an expected count are asked for, which a ratio has none of."""
        half_width = self.within[0] if isinstance(self.within, (tuple, list)) and self.within else self.within
        for name, given in (("stderr", self.stderr), ("within", half_width)):
            if is_percent(given):
                raise QueryError.must(
                    name,
                    "be in the unit of the ratio, not in per cent",
                    given=given,
                    remedy="five percentage points of a share are 0.05",
                )

    def parts(self, schema: Schema) -> RatioParts:
        """The linear queries that the ratios are made from, with their weights and targets.

        Args:
            schema: the schema that the query is asked over.
        """
        raise NotImplementedError

    def check(self, schema: Schema) -> None:
        parts = self.parts(schema)
        parts.numerator.check(schema)
        parts.denominator.check(schema)
        for _, query in parts.further:
            query.check(schema)

    def terms(self, schema: Schema) -> NoReturn:
        raise QueryError(
            f"a {self.kind} is a ratio, not a count",
            field="query",
            given=self.kind,
            remedy="give it to assemble(), which asks for its numerator and its denominator",
        )

    def tables(self, schema: Schema) -> Sequence[Table]:
        self.terms(schema)

    def _targets_of_parts(self, largest: float) -> tuple[dict[str, Any], dict[str, Any]]:
        """The targets of numerator and denominator, where ratios are at most `largest` from the shift."""
        if self.target is None:
            return {}, {}
        # A share of the expected denominator: t b, for each row where several are expected.
        per_unit = [self.target / 2, self.target / (2 * largest)]
        first, second = ({"stderr": times("100%", t), "expected": self.expected} for t in per_unit)
        return first, second


@dataclass(frozen=True, repr=False)
class Share(RatioQuery):
    """The share of each count of one query in a count of another, from 0 to 1.

    The counts of `of` are matched by their attributes: ``Share(Marginal("sex", "job"), of=Marginal("sex"))``
    gives, for each sex, the share of each job. Every record counted in a part must be counted in its whole.

    Args:
        part: the query whose counts are the numerators.
        of: the query whose counts are the denominators.
        guess: a public guess of the share, from 0 to 1, which sets the weight of the denominator; never taken
            from the data.
    """

    part: Query = field(metadata=key(QUERY))
    of: Query = field(metadata=key(QUERY))
    kind: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_linear("part", self.part)
        require_linear("of", self.of)
        if self.guess is not None and not 0 <= self.guess <= 1:
            raise QueryError.must("guess", "lie between 0 and 1", given=self.guess)

    def parts(self, schema: Schema) -> RatioParts:
        rows = matched_rows(self.part, self.of, schema)
        _check_inside(self.part, self.of, rows, schema)
        of_part, of_whole = self._targets_of_parts(1.0)
        weight = WEIGHT_WITHOUT_GUESS if self.guess is None else max(self.guess**2, LEAST_WEIGHT)
        return RatioParts(
            numerator=self.part.having(weight=self.weight, name=None, **of_part),
            denominator=self.of.having(weight=self.weight * weight, name=None, **of_whole),
            rows=rows,
            shown_as=self.part,
            shift=0.0,
            possible=(0.0, 1.0),
            positive=True,
        )

    def title(self) -> str:
        return f"share of {self.part.name or self.part.title()} in {self.of.name or self.of.title()}"


@dataclass(frozen=True, repr=False)
class Ratio(RatioQuery):
    """Each answer of one query divided by an answer of another; denominators are matched as in `Share`.

    Args:
        numerator: the query whose answers are divided.
        denominator: the query whose answers divide them.
        guess: a public guess of the ratio, which sets the weight of the denominator; never taken from the
            data.
    """

    numerator: Query = field(metadata=key(QUERY))
    denominator: Query = field(metadata=key(QUERY))
    kind: ClassVar[str] = "ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_linear("numerator", self.numerator)
        require_linear("denominator", self.denominator)
        if self.target is not None and not self.guess:
            raise QueryError(
                "a target of a ratio needs a guess of the ratio",
                field="guess",
                given=self.guess,
                remedy="say how large it is expected to be, from public knowledge: guess=0.3",
            )

    def parts(self, schema: Schema) -> RatioParts:
        of_numerator, of_denominator = self._targets_of_parts(abs(self.guess or 1.0))
        weight = 1.0 if self.guess is None else max(self.guess**2, LEAST_WEIGHT)
        return RatioParts(
            numerator=self.numerator.having(weight=self.weight, name=None, **of_numerator),
            denominator=self.denominator.having(weight=self.weight * weight, name=None, **of_denominator),
            rows=matched_rows(self.numerator, self.denominator, schema),
            shown_as=self.numerator,
            shift=0.0,
            possible=(-math.inf, math.inf),
            positive=False,
        )

    def title(self) -> str:
        over = self.denominator.name or self.denominator.title()
        return f"{self.numerator.name or self.numerator.title()} / {over}"


def require_linear(name: str, given: object) -> None:
    """Return if something is a linear query without a weight or a target of its own."""
    if not isinstance(given, Query) or not given.is_linear:
        raise QueryError.must(name, "be a query such as Total(), and no ratio", given=type(given))
    if given.target is not None or given.weight != 1.0:
        raise QueryError.must(name, "leave weights and targets to the ratio", given=given.target)


def matched_rows(numerator: Query, denominator: Query, schema: Schema) -> Array:
    """For each row of the numerator, the row of the denominator that it is divided by.

    A single row divides all. Products are matched factor by factor: a factor of the denominator with several
    rows must be one of the numerator's, with the same attributes and labels. Rows without factors are matched
    in order.

    Raises:
        QueryError: if they cannot be matched.
    """
    n_rows, n_below = (query.labels(schema).length for query in (numerator, denominator))
    if n_below == 1:
        return np.zeros(n_rows, dtype=np.int64)
    above, below = numerator.factors(schema), denominator.factors(schema)
    if above is None or below is None:
        if n_rows == n_below:
            return np.arange(n_rows)
    elif all(len(factor.labels) == 1 or counterpart(factor, above) is not None for factor in below):
        places = np.indices([len(factor.labels) for factor in above]).reshape(len(above), -1)
        chosen = np.zeros(n_rows, dtype=np.int64)
        for factor in below:
            j = counterpart(factor, above)
            own = places[j] if j is not None and len(factor.labels) > 1 else 0
            chosen = chosen * len(factor.labels) + own
        return chosen
    raise QueryError(
        f"{n_rows:,} numerators cannot be matched with {n_below:,} denominators",
        field="denominator",
        given=n_below,
        remedy="let the denominator have one row, or group both by the same attributes",
    )


def counterpart(factor: Factor, above: Term) -> int | None:
    """The number of the factor with the same attributes and labels."""
    for j, other in enumerate(above):
        if other.attributes == factor.attributes and list(other.labels) == list(factor.labels):
            return j
    return None


def _check_inside(part: Query, whole: Query, rows: Array, schema: Schema) -> None:
    """Return if every record counts in a part at most as in its whole, and in neither below zero.

    Raises:
        QueryError: if not.
        TooLargeError: if there are too many entries to compare, and no factors that show it.
    """
    if _is_inside_by_factors(part, whole, schema):
        return
    if len(rows) * schema.n_cells > MAX_COMPARED:
        raise TooLargeError(
            "whether every part of the share lies in its whole takes too many comparisons",
            field="of",
            given=len(rows) * schema.n_cells,
            remedy="use Ratio, which need not lie between 0 and 1",
        )
    of_part = part.operator(schema).dense()
    of_whole = whole.operator(schema).dense()[rows]
    if (of_part < 0).any() or (of_part > of_whole).any():
        raise QueryError(
            "some records count in a part of the share and not in its whole",
            field="of",
            given=whole.title(),
            remedy="let `of` count all records that the parts count, or use Ratio",
        )


def _is_inside_by_factors(part: Query, whole: Query, schema: Schema) -> bool:
    """Whether the factors alone show it: each of the whole is one of the part's, the others count 0 or 1."""
    above, below = part.factors(schema), whole.factors(schema)
    if above is None or below is None:
        return False
    for factor in [*above, *below]:
        if math.prod(factor.operator.shape) > MAX_COMPARED:
            return False
    shared = set()
    for factor in below:
        j = counterpart(factor, above)
        if j is None or (above[j].operator.dense() != factor.operator.dense()).any():
            return False
        shared.add(j)
    for j, factor in enumerate(above):
        entries = factor.operator.dense()
        if (entries < 0).any() or (j not in shared and (entries > 1).any()):
            return False
    return True
