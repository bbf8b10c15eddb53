"""Every method side by side: what each would give, and how far that is from the proven bound.

Plans are made without data. Methods that depend on the data have no error to state, so theirs is
simulated, and only on data that the caller declares public: the simulation draws from a fixed seed
and is no release.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from leastnoise.core.errors import InputError, LeastnoiseError, MethodError
from leastnoise.core.notebook import NotebookValue, html_rows
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress, ending_to_text
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.planning import (
    Method,
    Plan,
    Request,
    all_methods,
    attempt,
    checked_request,
    method_named,
    over_classes,
    plan_from,
)
from leastnoise.privacy import ApproxDP, Goal, LeastLoss
from leastnoise.query import Objective, Workload
from leastnoise.release import counts_of, simulated
from leastnoise.report.charts.picture import Picture
from leastnoise.report.pure_alternative import without_delta
from leastnoise.report.redesign import DesignSeries, Turn, turn_to_line

# Seconds that a method may take where the caller sets no limit.
TIME_LIMIT = 10.0

# Runs of a simulation: its total is then known to about a tenth.
N_RUNS = 20
_SEED = 20140627

# What stands beside the seconds of a method that did not converge.
_MARKS: dict[Ended | None, str] = {"deadline": "*", "exhausted": "+"}

# What follows the name of a method that is tried without the delta of the goal.
_NO_DELTA = ", no delta"


@dataclass(frozen=True)
class MethodTable(NotebookValue):
    """Every method, what it is for and its options; prints as a table."""

    methods: tuple[Method, ...]

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = []
        for method in self.methods:
            lines.append(f"{method.name:<{width}}  {method.summary}")
            for name, (default, meaning) in method.options.items():
                lines.append(f"{'':<{width}}    option {name} = {default!r}: {meaning}")
        return "\n".join(lines)

    __repr__ = __str__


def methods() -> MethodTable:
    """Every method that `design` knows."""
    return MethodTable(all_methods())


@dataclass(frozen=True)
class Contender:
    """One method's result in a comparison, or why it was left out.

    Attributes:
        method: the name of the method.
        achieved: what its plan achieves, in the unit of the comparison.
        gap: how far that is above the best bound proved by any method; None where no bound was proved, or it
            does not cover this noise.
        rms_stderr: the root mean square of the standard errors, with the queries' weights.
        seconds: how long it took.
        reason: why it was left out; None where it was not.
        factor: the largest standard error as a multiple of its target; None without targets.
        ended: how its search ended, as in `Plan.ended`; None where the method was left out.
        is_simulated: whether ``achieved`` is a mean squared error over some runs on public data, bias
            included, rather than a known variance.
        is_without_delta: whether it uses the goal's ε alone, where the goal allows a δ.
    """

    method: str
    achieved: float | None
    gap: float | None
    rms_stderr: float | None
    seconds: float
    reason: str | None = None
    factor: float | None = None
    ended: Ended | None = None
    is_simulated: bool = False
    is_without_delta: bool = False

    @property
    def kind(self) -> str:
        """How sure its result is, in a word or two."""
        if self.is_simulated:
            return "simulated"
        if self.gap is None:
            return "without delta" if self.is_without_delta else "no bound"
        return "optimal" if self.gap <= 1e-6 else "not optimal"


@dataclass(frozen=True)
class MethodComparison(NotebookValue):
    """What every method achieves for one workload and goal, best first; prints as a table.

    Args:
        contenders: the methods, best first; those that were left out come last.
        lower_bound: the largest lower bound that any method proved.
        among: the kind of noise that the bound covers, "Gaussian" or "Laplace".
        unit: the unit of the bound and of what methods achieve.
        time_limit: seconds that each method had.
    """

    contenders: tuple[Contender, ...]
    lower_bound: float
    among: str = "Gaussian"
    unit: str = "total variance"
    time_limit: float = TIME_LIMIT

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(contender) for contender in self.contenders])

    def plot(self) -> Picture:
        """The table as a picture: a dot for every method, a line for the bound."""
        from leastnoise.report.charts.accuracy_charts import comparison_picture

        return comparison_picture(self)

    def _repr_html_(self) -> str:
        has_targets = any(c.factor is not None for c in self.contenders)
        heads = ["method", self.unit, "above the bound", "rms std. error", *["of its target"] * has_targets]
        placed = [c for c in self.contenders if c.achieved is not None]
        rows = [
            [
                c.method,
                f"{c.achieved:,.6g}",
                _above(c),
                f"{c.rms_stderr:,.4g}",
                *(["–" if c.factor is None else f"{c.factor:.4g}"] if has_targets else []),
                f"{c.seconds:.2f}{_MARKS.get(c.ended, '')}",
            ]
            for c in placed
        ]
        left = [f"{c.method} left out: {c.reason}" for c in self.contenders if c.achieved is None]
        return html_rows([*heads, "seconds"], rows, [*left, *self._footnotes()])

    def __str__(self) -> str:
        width = max(len(contender.method) for contender in self.contenders)
        wide = max(14, len(self.unit))
        has_targets = any(c.factor is not None for c in self.contenders)
        head = f"{'method':<{width}}  {self.unit:>{wide}}  {'above the bound':>15}  {'rms std. error':>14}"
        lines = [head + ("  of its target" if has_targets else "") + f"  {'seconds':>7}"]
        for c in self.contenders:
            if c.achieved is None:
                lines.append(f"{c.method:<{width}}  left out: {c.reason}")
            else:
                factor = (
                    "" if not has_targets else f"  {'–':>13}" if c.factor is None else f"  {c.factor:>13.4g}"
                )
                figures = f"{c.achieved:>{wide}.6g}  {_above(c):>15}  {c.rms_stderr:>14.4g}{factor}"
                mark = _MARKS.get(c.ended, "")
                lines.append(f"{c.method:<{width}}  {figures}  {c.seconds:>7.2f}{mark}")
        return "\n".join([*lines, *self._footnotes()])

    def _footnotes(self) -> Iterator[str]:
        if any(c.ended == "deadline" for c in self.contenders):
            yield f"* ended at the time limit of {self.time_limit:g} s; with more time it may do better."
        if any(c.ended == "exhausted" for c in self.contenders):
            yield f"+ {ending_to_text('exhausted')}."
        if any(c.is_without_delta for c in self.contenders):
            yield "Rows without delta: Laplace noise of the same epsilon, which the bound does not cover."
        if any(c.is_simulated for c in self.contenders):
            yield (
                f"Simulated: mean squared error over {N_RUNS} runs on the data given. It depends on the "
                "data, and the bound does not cover it."
            )
        if all(c.achieved is None for c in self.contenders):
            yield "No method could serve; what is said of each tells what to change."
            return
        if self._lacks_bound():
            yield "No bound was proved, so it is open how far these are from the least there can be."
            return
        where = "that meets the targets" if self.unit == "mu squared" else "within this goal"
        yield f"No {self.among} noise {where} has a {self.unit} below {self.lower_bound:.6g}."

    def _lacks_bound(self) -> bool:
        """Whether something is achieved and nothing proved; where nothing is asked, 0 is the optimum."""
        return self.lower_bound <= 0 and any(c.achieved for c in self.contenders)

    __repr__ = __str__


def _above(contender: Contender) -> str:
    if contender.is_simulated:
        return "simulated"
    if contender.gap is None:
        return "–"
    return "optimal" if contender.gap <= 1e-6 else f"{100 * contender.gap:.2f} %"


def compare(
    workload: Workload,
    privacy: Goal | LeastLoss | None,
    *,
    methods: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
    objective: Objective | None = None,
    over: str | None = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    backend: str = "numpy",
    data: Any = None,
    others: Mapping[str, Any] | None = None,
    progress: Told[Turn] = None,
) -> MethodComparison:
    """What each method achieves, and how far it is above the proven lower bound.

    For a goal with a ``delta``, the methods are also tried with Laplace noise of the same ``epsilon``; by
    default only the quick ones.

    Args:
        workload: the queries, from `assemble`.
        privacy: the goal; `LeastLoss` or None where targets are to be met at the least cost.
        methods: the names of methods to try; all by default. A name with options, as in ``("hierarchical",
            {"branching": 4})``, is a row of its own.
        objective: what to minimise, as for `design`.
        over: the time attribute, as for `design`.
        tol: the relative gap to the proven optimum at which a search may stop.
        time_limit: seconds for each method, 10 by default. A search that takes longer returns the best it has
            found, and the table marks it.
        backend: "numpy", "torch" or "cuda".
        data: public data, whatever `measure` takes, on which methods that depend on the data are
            simulated. Never private data: the noise is drawn from a fixed seed, and the errors shown
            are those on this table.
        others: strategy matrices of your own by name, as in ``{"mine": A}``: each is a row like a method, by
            `plan_from`. They need a goal.
        progress: called with a `Turn` when a method begins and after each step that it reports. By
            default a notebook shows a bar if this takes more than a second; ``False`` for none.

    Raises:
        InputError: if ``methods`` is empty, or `design` would not take the request.
        MethodError: if a method does not exist.
    """
    limit = TIME_LIMIT if time_limit is None else time_limit
    request = checked_request(workload, privacy, objective, None, (), over, tol, limit, backend, None)
    chosen = _chosen(methods)
    k = 1 if privacy is None else privacy.records_per_person
    counts = None if data is None else counts_of(workload, data, k)
    aside = without_delta(privacy) if isinstance(privacy, ApproxDP) else None
    theirs = _checked_others(others, has_goal=request.has_goal)
    asides = [
        (m, own)
        for m, own in chosen
        if aside is not None and (m.is_quick or m.is_data_dependent or methods is not None)
    ]
    with progress_shown(progress, "comparing methods", turn_to_line("comparing methods")) as tell:
        series = DesignSeries(None, tell, len(chosen) + len(theirs) + len(asides))
        placed, left_out, best = _tried(chosen, request, series, counts)
        for name, A in theirs.items():
            contender, bound = _of_matrix(name, A, request, series)
            (left_out if contender.achieved is None else placed).append(contender)
            best = max(best, bound)
        if aside is not None:
            placed += _asides(asides, replace(request, privacy=aside), series, counts)
    ranked = sorted((_with_gap(c, best) for c in placed), key=lambda c: c.achieved or 0.0)
    unit = request.objective.unit(workload, has_goal=request.has_goal)
    return MethodComparison((*ranked, *left_out), best, request.privacy.noise.label, unit, limit)


def _checked_others(others: Mapping[str, Any] | None, *, has_goal: bool) -> Mapping[str, Any]:
    """Matrices by name.

    Raises:
        InputError: if they are no mapping from names, a name is a method's, or there is no goal.
    """
    if others is None:
        return {}
    if not isinstance(others, Mapping) or not all(isinstance(name, str) and name for name in others):
        raise InputError.must("others", 'be matrices by name, as in {"mine": A}', given=type(others))
    taken = [name for name in others if name in {method.name for method in all_methods()}]
    if taken:
        raise InputError.must("others", "have names that no method has", given=taken[0])
    if others and not has_goal:
        raise InputError(
            "a matrix of your own is compared at a privacy goal", field="others", remedy="give a goal"
        )
    return others


def _of_matrix(name: str, A: Any, request: Request, series: DesignSeries) -> tuple[Contender, float]:
    """What a matrix of somebody's own achieves, and its plan's bound; why not, where it cannot serve."""
    series.begin(name)
    began = time.monotonic()
    try:
        plan = plan_from(request.workload, A, request.privacy, objective=request.objective)
    except LeastnoiseError as error:
        return Contender(name, None, None, None, 0.0, str(error)), 0.0
    contender, bound = _known(plan, name)
    return replace(contender, seconds=time.monotonic() - began), bound


# A method, with options of its own where some were given.
_Choice = tuple[Method, Mapping[str, Any] | None]


def _tried(
    chosen: Sequence[_Choice], request: Request, series: DesignSeries, counts: Any
) -> tuple[list[Contender], list[Contender], float]:
    """What each method gave, those that could not serve, and the largest of the bounds."""
    placed: list[Contender] = []
    left_out: list[Contender] = []
    bounds = [0.0]
    for method, own in chosen:
        _, tell = series.begin(method.name)
        try:
            found = _contenders(method, own, request, tell, counts)
        except LeastnoiseError as error:
            reason = getattr(error, "misses", str(error))
            left_out.append(Contender(_named(method, own), None, None, None, 0.0, reason))
        else:
            placed += [contender for contender, _ in found]
            bounds += [bound for _, bound in found]
    return placed, left_out, max(bounds)


def _chosen(names: Sequence[str | tuple[str, Mapping[str, Any]]] | None) -> tuple[_Choice, ...]:
    """The methods of these names, with their options; all that there are unless given."""
    if names is None:
        return tuple((method, None) for method in all_methods())
    if len(names) == 0:
        raise InputError.must("methods", "name at least one method, or be left out for all of them", given=[])
    found: list[_Choice] = []
    for given in names:
        name, own = (given, None) if isinstance(given, str) else given
        method = method_named(name)
        if own is not None:
            # A misspelt option is refused before anything is designed.
            method.check_options(own)
        found.append((method, own))
    return tuple(found)


def _named(method: Method, options: Mapping[str, Any] | None) -> str:
    """A method with its options, as in "hierarchical, branching = 4"."""
    return ", ".join([method.name, *(f"{name} = {value}" for name, value in (options or {}).items())])


def _asides(
    methods: Sequence[_Choice], request: Request, series: DesignSeries, counts: Array | None
) -> list[Contender]:
    """What methods give without the delta of the goal; one that fails is left out without a reason."""
    found = []
    for method, own in methods:
        _, tell = series.begin(method.name)
        with suppress(LeastnoiseError):
            placed = _contenders(method, own, request, tell, counts)
            # The bound is about the noise of the goal itself.
            found += [
                replace(c, method=f"{c.method}{_NO_DELTA}", gap=None, is_without_delta=True)
                for c, _ in placed
            ]
    return found


def _contenders(
    method: Method,
    own: Mapping[str, Any] | None,
    request: Request,
    progress: Callable[[Progress], None],
    counts: Array | None,
) -> list[tuple[Contender, float]]:
    """What a method and its variants give, each with the bound that it proves.

    Raises:
        LeastnoiseError: if it gives nothing, or depends on data and there are none.
    """
    reason = request.why_not(method)
    if reason is not None:
        # Of many cells, those that no query tells apart may be few enough.
        reduced = over_classes(request, method)
        if reduced is not request:
            request = reduced
            reason = request.why_not(method)
    if reason is not None:
        raise MethodError(reason, field="method", given=method.name)
    # Where a method serves, so do its variants.
    tried = {f"{method.name}, {variant}": options for variant, options in method.variants.items()}
    tried = {method.name: request.options, **tried} if own is None else {_named(method, own): own}
    found = []
    for name, options in tried.items():
        began = time.monotonic()
        asked = replace(request, options=options, progress=progress)
        plan = attempt(method, asked, request.needs(method))
        if plan.mechanism is None:
            contender, bound = _known(plan, name)
        elif counts is None:
            raise MethodError("its error depends on the data; give public data= to simulate it", field="data")
        else:
            contender, bound = _simulated(plan, counts, name), 0.0
        found.append((replace(contender, seconds=time.monotonic() - began), bound))
    return found


def _known(plan: Plan, name: str) -> tuple[Contender, float]:
    """What a plan achieves, and the bound that it proves; its gap is known when every method had its turn."""
    proof = plan.certificate
    contender = Contender(
        name, proof.achieved, math.nan, _rms_stderr(plan), 0.0, factor=plan.factor, ended=plan.ended
    )
    return contender, proof.lower_bound


def _simulated(plan: Plan, counts: Array, name: str) -> Contender:
    """What the plan of a data-dependent method achieves on public data."""
    workload = plan.workload
    truth = workload.operator.apply(counts.astype(float))
    squares = np.zeros(workload.shape[0])
    for release in simulated(plan, counts, n_runs=N_RUNS, generator=np.random.default_rng(_SEED)):
        squares += (release.answers - truth) ** 2
    squares /= N_RUNS
    achieved = plan.objective.value(workload, squares)
    return Contender(
        name, achieved, None, _root_mean(workload, squares), 0.0, ended=plan.ended, is_simulated=True
    )


def _with_gap(contender: Contender, best: float) -> Contender:
    """A contender with its gap to the best bound: the dual weights of each method bound them all."""
    if contender.gap is None or contender.achieved is None:
        return contender
    if best > 0:
        return replace(contender, gap=contender.achieved / best - 1)
    return replace(contender, gap=None if contender.achieved > 0 else 0.0)


def _root_mean(workload: Workload, variances: Array) -> float:
    """The root of the mean variance, each counted by its query's weight."""
    w = workload.weights
    return math.sqrt(float(np.average(variances, weights=w / w.max())))


def _rms_stderr(plan: Plan) -> float:
    """The same for a plan's own variances, batch by batch, however many queries there are."""
    workload = plan.workload
    largest = max(float(block.weights.max()) for block in workload.blocks)
    weights = [block.weights / largest for block in workload.blocks]
    pairs = zip(weights, workload.blocks, strict=True)
    counted = math.fsum(float(w.sum()) * (block.n_rows // len(w)) for w, block in pairs)
    return math.sqrt(plan.fixed_strategy().total_variance(workload, weights) / counted)
