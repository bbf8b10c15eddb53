"""What a method is: a name, what it accepts, its options, and how it finds a strategy.

Anything may be given as an option, arrays and numbers beyond all floats included; none of it is
compared, hashed or printed before its type is known.
"""

from __future__ import annotations

import math
import reprlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from leastnoise.bounds import PartsWitness, ProductWitness, Status
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import MAX_ENTRIES, Array
from leastnoise.core.printable import in_figures
from leastnoise.core.progress import Ended, Progress
from leastnoise.core.resources import NOTHING, Needs, matrices, products, why_too_much
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.patience import Patience
from leastnoise.privacy import GAUSSIAN, CellCosts, Goal, LeastLoss
from leastnoise.query import CellClasses, Objective, TotalVariance, Workload
from leastnoise.strategy import Measured, Proposal, spare_of


@dataclass(frozen=True, eq=False)
class Request:
    """What `design` asks of a method.

    Where the objective is of the kind "largest", only the shape of the noise matters;
    if no privacy goal was given either (`has_goal`), `privacy` allows μ² = 1 for one record, and `least` says
    for whom the least loss is sought. Where earlier plans have used part of
    the goal, `after` are their digests and `used` is what they spend together in each cell. `over` names the
    attribute that is time, where rows are to be measured period by period.
    The time limit counts from `began`, when the request was made; `is_promised` says whether somebody asked
    for it. A limit that `design` sets by itself only ends searches, and refuses nobody. `known` is the
    objective of the best plan that other methods have found, in the unit of the certificate: a search that
    stays far above it may end early. `term_weights` are weights of the workload's products, one for each,
    that take the place of the objective's. `patience` says when a small gap is enough; None for a search that
    goes on to the end. Where the workload was reduced to classes of cells, `whole` is the workload itself.
    """

    workload: Workload
    privacy: Goal
    options: Mapping[str, Any] = field(default_factory=dict)
    tol: float = 1e-6
    time_limit: float | None = None
    backend: str = "numpy"
    progress: Callable[[Progress], None] | None = None
    objective: Objective = TotalVariance()  # noqa: RUF009 - a frozen value
    after: tuple[str, ...] = ()
    used: CellCosts | None = None
    over: str | None = None
    is_promised: bool = True
    known: float | None = None
    term_weights: Array | None = None
    least: LeastLoss = LeastLoss()  # noqa: RUF009 - a frozen value
    patience: Patience | None = None
    classes: CellClasses | None = None
    whole: Workload | None = None
    has_goal: bool = True
    began: float = field(default_factory=lambda: time.monotonic(), init=False)
    _unfit: dict[str, str | None] = field(default_factory=dict, init=False, repr=False)
    _needs: dict[str, Needs] = field(default_factory=dict, init=False, repr=False)

    @property
    def deadline(self) -> Deadline:
        """When the search must end with what it has."""
        return Deadline.after(self.time_limit, began=self.began)

    @cached_property
    def spare(self) -> CellCosts | None:
        """What earlier plans have left to a record of each cell, exactly; None where there are none."""
        return None if self.used is None else spare_of(self.privacy, self.used)

    def unfit(self, method: Method) -> str | None:
        """Why a method cannot serve whatever the memory and the time, or None; each is asked once."""
        if method.name not in self._unfit:
            self._unfit[method.name] = method.why_unfit(self)
        return self._unfit[method.name]

    def needs(self, method: Method) -> Needs:
        """The memory and time that a method takes which is not unfit; each is asked once."""
        if method.name not in self._needs:
            self._needs[method.name] = method.needs(self)
        return self._needs[method.name]

    def too_much(self, method: Method, time_limit: float | None = None, overdue: float = 0.0) -> str | None:
        """What a method takes, where that is more memory or time than there is; else None.

        Args:
            time_limit: seconds that it would have of a limit that somebody set; all of them unless given.
            overdue: seconds that have passed since that limit.
        """
        promised = self.time_limit if self.is_promised else None
        if promised is not None and time_limit is not None:
            promised = round(time_limit, 2)
        return why_too_much(self.needs(method), promised, overdue)

    def why_not(self, method: Method) -> str | None:
        """Why a method cannot serve, or None."""
        return self.unfit(method) or self.too_much(method)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a method answers: a proposal, dual weights for the bound, what it claims and how its search ended.

    The weights q are those of the cells, or of the `pairs` listed (see `Witness`), or of product form. The
    weights p are those of the queries, (m,), for objectives with caps; where a method
    has none to offer, `design` takes equal ones. The note says how the proposal was found, and leaves it to
    `ended` to say how that ended; a search of several parts ends like the worst of them. Where targets are
    tight, a little more noise costs much: `grid_tol` is then the gap for which the grid of whole numbers is
    made, below the one asked for.
    """

    proposal: Proposal[Measured]
    q: Array | ProductWitness | PartsWitness
    claim: Status
    note: str
    ended: Ended
    pairs: Array | None = None
    p: Array | None = None
    grid_tol: float = math.inf


# What came of a method: its plan was taken, or beaten; it misses the targets, failed, had no time left, takes
# more memory or time than there is, or takes so long that it is tried only within a time limit.
Outcome = Literal["kept", "beaten", "misses-targets", "failed", "no-time", "too-much", "too-long"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Trial:
    """What came of one method, or of one way to refine rows, that was tried for a plan or left out.

    Attributes:
        name: the method; or how rows were refined.
        achieved: the objective of its plan, in the unit of the certificate; None without a plan.
        reason: what it takes, where that is too much; else empty.
    """

    name: str
    outcome: Outcome
    achieved: float | None = None
    reason: str = ""


def _nothing(_: Request) -> Needs:
    """Next to no memory and time."""
    return NOTHING


def _n_cells(request: Request) -> int:
    """As many rows as there are cells."""
    return request.workload.shape[1]


@dataclass(frozen=True)
class Method:
    """A way to choose what to measure.

    Attributes:
        summary: one line for people.
        options: option name to (default, what it means).
        refuses: the reason why a request cannot be served, or None; `why_unfit` looks at earlier plans first.
        find: the search itself; where a method is data-dependent, the mechanism that `measure` runs.
        is_quick: whether it takes seconds at most at every size that it accepts. Others search for
            long and stop at a time limit; under pure privacy method="auto" takes few of them.
        is_data_dependent: whether what it measures depends on the data. It is used only when named.
        is_only_named: whether it is used only when named for another reason: some method is never worse.
        matrix_size: how many rows its matrices have, which says how many threads pay; all cells as a rule.
        takes_spare: whether it plans within what earlier plans have left of each cell.
        takes_periods: whether its rows can be put in the order of time.
        takes_absolute: whether it plans for absolute errors, or measures the same whatever the objective.
        variants: options that make another method of it, by what to call that; `compare` tries each one
            where the method itself can serve.
        needs: the memory and time it takes, by which `Request.too_much` refuses before anything is allocated.
            Methods that never hold a matrix over all cells may leave it out.
    """

    name: str
    summary: str
    refuses: Callable[[Request], str | None]
    find: Callable[[Request], SearchResult | Mechanism]
    options: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    is_quick: bool = True
    is_data_dependent: bool = False
    is_only_named: bool = False
    matrix_size: Callable[[Request], int] = _n_cells
    takes_spare: bool = False
    takes_periods: bool = False
    takes_absolute: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: Callable[[Request], Needs] = _nothing

    def why_unfit(self, request: Request) -> str | None:
        """The reason why it cannot serve a request whatever the memory and the time, or None."""
        if request.spare is not None and not self.takes_spare:
            return "it gives every cell the same budget, and after= leaves each cell its own"
        if request.over is not None and not self.takes_periods:
            return "its rows cannot be put in the order of time, as over= asks"
        if request.objective.kind == "absolute" and not self.takes_absolute:
            return "it plans for variances, not for absolute errors"
        if request.objective.kind == "absolute" and request.privacy.noise != GAUSSIAN:
            return "absolute errors are known for Gaussian noise only, which pure privacy does not allow"
        return self.refuses(request)

    def option(self, request: Request, name: str) -> Any:
        """The option's value, or its default."""
        return request.options.get(name, self.options[name][0])

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Return if every option is known.

        Raises:
            MethodError: naming the options there are.
        """
        unknown = set(options) - set(self.options)
        if unknown:
            known = ", ".join(self.options) or "none"
            named = ", ".join(sorted(map(str, unknown)))
            raise MethodError(
                f"method {self.name!r} has no option {named}; its options: {known}",
                field="options",
                given=named,
            )


def dense_needs(
    *,
    held: float,
    first: float,
    step: float,
    rounded: float | Callable[[Request], float] | None = 1.0,
    spans: bool = False,
) -> Callable[[Request], Needs]:
    """The needs of a method whose matrices have n columns, and k rows if it works in what the queries span.

    Args:
        held: how many such matrices its search holds at once, measured with tracemalloc at 600 cells.
        first: how many products of them it takes before it can first end, measured at 1,000 cells.
        step: and between two looks at the clock.
        rounded: rows of the strategy per row of those matrices, or what says how many; None where those are
            the queries themselves.
        spans: whether k is the rank of the queries; else it is n.
    """

    def needs(request: Request) -> Needs:
        m, n = request.workload.shape
        k = min(m, n)
        if spans and k == n:
            k = min(request.workload.operator.basis().shape[0], n)
        k = k if spans else n
        if rounded is None:
            per_row = max(m / max(k, 1), 1.0)
        else:
            per_row = rounded(request) if callable(rounded) else rounded
        after = _AFTER_HELD * per_row
        if request.privacy.relation.replaces:
            after = max(after, _PAIRS_HELD * per_row)
        # Queries other than ranges and the like are multiplied out: for their Gram matrix, before and after
        # the search, and for their variances.
        each = 0.0 if request.workload.operator.is_quick or m <= n else 2.0 * m * n * n
        on_device = request.backend != "numpy"
        return Needs(
            memory=matrices(after if on_device else max(held * max(per_row, 1), after), k, n),
            first=0.0 if on_device else products(first, k, n) + each,
            step=0.0 if on_device else products(step, k, n),
            last=rounding_work(request, per_row * k, k) + 2 * each,
        )

    return needs


def rounding_work(request: Request, rows: float, k: int) -> float:
    """Operations of rounding and proving this many rows over all cells, whose rank is k."""
    n = request.workload.shape[1]
    pairs = pairs_work(rows, n, request.privacy.noise.is_pure) if request.privacy.relation.replaces else 0.0
    return products(_AFTER_PRODUCTS * rows / max(k, 1), k, n) + pairs


def pairs_work(rows: float, n: int, is_pure: bool) -> float:
    """Operations of comparing all pairs of n columns of this many rows, exactly."""
    return n * n * (_PER_PAIR + (_PER_ABSOLUTE if is_pure else _PER_SQUARE) * rows)


# Matrices held at once by rounding and proof, beyond 1,024 cells, and products that they take.
_AFTER_HELD = 9.0
_AFTER_PRODUCTS = 16.0

# Matrices held where the columns of a strategy are compared in pairs, exactly.
_PAIRS_HELD = 18.0

# Operations for every pair, whose digits are added up and compared: 15 ns where a product runs at 46 Gflop/s.
_PER_PAIR = 700.0

# Operations for every row of a pair where squares are added up, in limbs: 4 to 7 at 1,000 to 3,000 columns.
_PER_SQUARE = 7.0

# The same where absolute values are, entry by entry: 31 to 39 where products are slow, up to three times as
# many where they are fast.
_PER_ABSOLUTE = 100.0


def uniform_weights(workload: Workload) -> Array:
    """Equal weight for every cell that some query counts: the singular value bound.

    Reference:
        Li and Miklau, adaptive mechanism: with q uniform, the dual bound is theirs.
    """
    return (workload.operator.column_norms(1) > 0).astype(float)


def heuristic(
    request: Request,
    proposal: Proposal[Measured],
    note: str,
    ended: Ended = "converged",
    p: Array | None = None,
) -> SearchResult:
    """What a method answers that has no dual weights of its own: the bound is that of equal ones."""
    return SearchResult(proposal, uniform_weights(request.workload), "heuristic", note, ended, p=p)


def refuse_many_cells(n: int, most: int) -> str | None:
    """The reason why a method that works on at most `most` cells cannot serve, or None."""
    return f"it works on at most {most:,} cells; this workload has {in_figures(n)}" if n > most else None


def refuse_large(rows: int, n: int) -> str | None:
    """The reason why a dense (rows, n) strategy is not built, or None."""
    if rows * n > MAX_ENTRIES // 8:
        size = f"{in_figures(rows)} rows over {in_figures(n)} cells"
        return f"it would measure {size}, too many for a matrix in memory"
    return None


def cells_per_attribute(workload: Workload) -> tuple[int, ...]:
    """The number of values of each attribute; all cells in a row where there is no schema."""
    return workload.schema.shape if workload.schema is not None else (workload.shape[1],)


def shown(value: Any) -> str:
    """An option's value as an error quotes it: short, whatever was given."""
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"a whole number of {value.bit_length():,} bits"
    if value is None or isinstance(value, (bool, int, float, str)):
        return reprlib.repr(value)
    return f"a value of type {type(value).__name__}"


def choice_option(name: str, value: Any, allowed: Iterable[str]) -> str:
    """The option as one of some words.

    Raises:
        MethodError: for anything else, naming them.
    """
    words = tuple(allowed)
    if not is_one_of(value, words):
        raise MethodError(
            f"{name} must be one of {', '.join(words)}, got {shown(value)}", field=name, given=value
        )
    return str(value)


def is_one_of(value: Any, allowed: Iterable[str]) -> bool:
    """Whether an option is one of some words; arrays and lists, which do not compare as such, are not."""
    return isinstance(value, str) and value in tuple(allowed)


def flag_option(name: str, value: Any) -> bool:
    """The option as a truth value.

    Raises:
        MethodError: unless it is True or False itself.
    """
    if not isinstance(value, bool):
        raise MethodError(f"{name} must be True or False, got {shown(value)}", field=name, given=value)
    return value


def positive_option(name: str, value: Any, *, least: float = 1e-100, most: float = 1e100) -> float:
    """The option as a float.

    Raises:
        MethodError: unless it is a positive number within the limits.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise MethodError(f"{name} must be a positive number, got {shown(value)}", field=name, given=value)
    if not least <= value <= most:
        raise MethodError(
            f"{name} must be a number from {least:g} to {most:g}, got {shown(value)}", field=name, given=value
        )
    return float(value)


def whole_option(name: str, value: Any, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """The option as an integer.

    Raises:
        MethodError: unless it is a whole number within the limits.
    """
    if type(value) is not int or value < least:
        raise MethodError(
            f"{name} must be a whole number, {least} or more, got {shown(value)}", field=name, given=value
        )
    if value > most:
        raise MethodError(f"{name} must be at most {most:,}, got {shown(value)}", field=name, given=value)
    return value
