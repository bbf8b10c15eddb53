"""COA, figures 2 to 10: the error of seven methods as domain, number of queries and rank grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from leastnoise.papers.reproductions.coa.setup import (
    DRAWN_NAMES,
    ENDS_EARLY,
    IMPOSSIBLE,
    KINDS,
    LOST_RANK,
    NEAR_OPTIMUM,
    NEGLIGIBLE,
    NOTES,
    ORDER,
    OTHERS,
    PAPER_NAMES,
    RUN_ON,
    SLOW_ESM,
    STABLE,
    STAGES,
    WITHOUT_ORDER,
    claim_for_each,
    is_similar,
    ratios,
    spread,
    tasks_of,
)
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, listed
from leastnoise.papers.reproductions.verdicts import Check, statement, statement_about

METHODS = (
    "dense",
    "coa",
    RUN_ON,
    "coa-homotopy",
    "lowrank",
    "eigen",
    "smoothing",
    "wavelet",
    "hierarchical",
    "identity",
    "workload",
)

# Beyond this many cells: the weights of 4,096 eigen-queries take a core ten minutes, eleven stages of COA
# eleven times one, and matrices of trees over 8,192 cells ten minutes again.
_UP_TO = {
    RUN_ON: 512,
    "eigen": 2048,
    "coa-homotopy": 1024,
    "lowrank": 4096,
    "smoothing": 4096,
    "wavelet": 4096,
    "hierarchical": 4096,
}

# Figures 2 to 5 ------------------------------------------------------------------------------


def _domain_tasks(kind: str, setting: Setting) -> Sequence[Task]:
    # The quick size is the paper's, divided by 16.
    m = 64 if setting.is_quick else 1024
    sizes = (16, 32, 64, 128, 256) if setting.is_quick else (64, 128, 256, 512, 1024, 2048, 4096, 8192)
    return [task for n in sizes for task in tasks_of(kind, m, n, _held(n), _draws_for(setting, n))]


def _held(n: int) -> tuple[str, ...]:
    # LRM and ESM need their whole time from 1,024 cells on, so that one size between is left to the others.
    left_out = ("lowrank", "smoothing") if n == 2048 else ()
    return tuple(method for method in METHODS if n <= _UP_TO.get(method, n) and method not in left_out)


def _draws_for(setting: Setting, n: int) -> tuple[int, ...]:
    if setting.is_quick:
        return (1, 2) if n <= 64 else (1,)
    return (1, 2, 3) if n <= 128 else (1,)


def _domain_checks(kind: str, known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield from _best_and_certified(known, rows, "n")
    yield _over_gm(known, rows)
    yield _grows(known, rows)
    if kind == "WRange":
        yield from _ranges(known, rows, "n")
    yield _am_like_esm(known, rows, "n")
    yield _usually_worse(known, "am-esm-worse", rows, "n", 1.0)
    if kind == "WMarginal":
        yield from _unstable(known, rows)


def _best_and_certified(known: Printed, rows: Sequence[Row], along: str) -> Iterator[Check]:
    """What is said of COA and LRM in every figure, and of the optimum that COA is to find."""
    yield claim_for_each(
        known,
        "comparable",
        ratios(rows, "coa", "lowrank", along),
        is_similar,
        what="COA over LRM",
        cause=ENDS_EARLY,
    )
    for key, method in (("coa-best", "coa"), ("lrm-best", "lowrank")):
        yield _best(known, key, rows, method, along)
    yield _best(known, "optimum-best", rows, "dense", along)
    for key, method in (("optimal", "coa"), ("homotopy", "coa-homotopy")):
        gaps = {x: value - 1 for x, value in _over_bound(rows, method, along).items()}
        yield claim_for_each(
            known,
            key,
            gaps,
            lambda gap: gap <= NEGLIGIBLE,
            what=f"{method} above the proved lower bound by a share of",
            why=_run_on(rows, along) if method == "coa" else "",
            cause=ENDS_EARLY if method == "coa" else STAGES,
        )


def _over_bound(rows: Sequence[Row], method: str, along: str) -> dict[float, float]:
    """A method's error over the lower bound that dense proves, on the same draws."""
    bounds = [
        {**row, "error": row.get("lower_bound"), "method": "bound"}
        for row in rows
        if row.get("method") == "dense"
    ]
    return ratios([*rows, *bounds], method, "bound", along)


def _best(known: Printed, key: str, rows: Sequence[Row], method: str, along: str) -> Check:
    """Whether no other method of the paper is below this one."""
    beaten: dict[str, list[float]] = {}
    seen: dict[float, float] = {}
    for other in OTHERS:
        for x, ratio in ratios(rows, other, method, along).items():
            seen[x] = min(ratio, seen.get(x, ratio))
            if ratio < 1:
                beaten.setdefault(PAPER_NAMES[other], []).append(x)
    if not seen:
        return statement(known.says[key], None)
    ours = f"the best other method has {spread(seen)} times its error"
    if beaten:
        ours += "; below it " + ", ".join(f"{other} at {along} {listed(at)}" for other, at in beaten.items())
    why = _run_on(rows, along) if method == "coa" else ""
    cause = ENDS_EARLY if method == "coa" else LOST_RANK
    return statement(known.says[key], not beaten, ours, why=why, cause=cause)


def _run_on(rows: Sequence[Row], along: str) -> str:
    """How far COA run on, and the homotopy, are from the proved bound: what its 30 steps and θ cost."""
    shares = {
        told: {x: value - 1 for x, value in _over_bound(rows, method, along).items()}
        for told, method in (("30 steps", "coa"), ("run on", RUN_ON), ("homotopy", "coa-homotopy"))
    }
    at = set.intersection(*map(set, shares.values()))
    told = (f"{name} {spread({x: found[x] for x in at})}" for name, found in shares.items())
    return f"share above the bound at {listed(sorted(at))}: {', '.join(told)}" if at else ""


def _over_gm(known: Printed, rows: Sequence[Row]) -> Check:
    """Two orders of magnitude, at the paper's largest domains alone."""
    large = {n: ratio for n, ratio in ratios(rows, "identity", "coa", "n").items() if n >= 4096}
    best = ratios(rows, "identity", "dense", "n")
    return claim_for_each(
        known,
        "two-orders",
        large,
        lambda ratio: ratio >= ORDER**2,
        what="GM over COA",
        why=f"the certified optimum gains a factor of {max(best.values(), default=0):.3g} at most",
        cause=IMPOSSIBLE if max(best.values(), default=0) < ORDER**2 else ENDS_EARLY,
    )


def _grows(known: Printed, rows: Sequence[Row]) -> Check:
    gains = ratios(rows, "identity", "coa", "n")
    ends = [(n, gains[n]) for n in (min(gains), max(gains))] if len(gains) > 1 else []
    return statement_about(
        ends,
        known.says["grows"],
        lambda ends: ends[1][1] > ends[0][1],
        lambda ends: "GM over COA " + ", ".join(f"{gain:.3g} at n = {n:,g}" for n, gain in ends),
    )


def _ranges(known: Printed, rows: Sequence[Row], along: str) -> Iterator[Check]:
    found = ratios(rows, "hierarchical", "wavelet", along)
    yield claim_for_each(known, "wm-hm-similar", found, is_similar, what="HM over WM")
    values = [
        value
        for method in ("wavelet", "hierarchical")
        for other in ("coa", "lowrank")
        for value in ratios(rows, method, other, along).values()
    ]
    yield statement_about(
        dict(enumerate(values)),
        known.says["wm-hm-comparable"],
        lambda found: all(map(is_similar, found.values())),
        lambda found: f"WM and HM over COA and LRM {spread(found)}",
        cause=ENDS_EARLY,
    )


def _distances(rows: Sequence[Row], along: str) -> str:
    """How far AM and ESM are from the optimum, the measured reason for what is said of them."""
    found = {method: _over_bound(rows, method, along) for method in ("eigen", "smoothing")}
    told = [f"{PAPER_NAMES[method]} has {spread(values)}" for method, values in found.items() if values]
    return f"of the proved lower bound {', '.join(told)} times" if told else ""


def _am_like_esm(known: Printed, rows: Sequence[Row], along: str) -> Check:
    found = ratios(rows, "smoothing", "eigen", along)
    return claim_for_each(
        known,
        "am-esm-similar",
        found,
        is_similar,
        what="ESM over AM",
        why=_distances(rows, along),
        cause=SLOW_ESM,
    )


def _usually_worse(known: Printed, key: str, rows: Sequence[Row], along: str, factor: float) -> Check:
    """Whether AM and ESM exceed COA and LRM by a factor in more than half of the settings."""
    found = {
        f"{PAPER_NAMES[a]} over {PAPER_NAMES[b]}": list(ratios(rows, a, b, along).values())
        for a in ("eigen", "smoothing")
        for b in ("coa", "lowrank")
    }
    found = {pair: values for pair, values in found.items() if values}
    if not found:
        return statement(known.says[key], None)
    exceeded = {pair: sum(value > factor for value in values) for pair, values in found.items()}
    ours = ", ".join(f"{pair} in {exceeded[pair]} of {len(values)}" for pair, values in found.items())
    by = "" if factor == 1 else f" by more than {factor:g} times"
    holds = all(2 * exceeded[pair] > len(values) for pair, values in found.items())
    return statement(
        known.says[key], holds, f"worse{by}: {ours}", why=_distances(rows, along), cause=NEAR_OPTIMUM
    )


def _unstable(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    """Whether the distance from the optimum changes by more than a factor of two from n to n."""
    for key, method in (("am-unstable", "eigen"), ("esm-unstable", "smoothing")):
        found = _over_bound(rows, method, "n")
        yield statement_about(
            found if len(found) > 1 else {},
            known.says[key],
            lambda found: not is_similar(max(found.values()) / min(found.values())),
            lambda found, method=method: f"{PAPER_NAMES[method]} over the bound {spread(found)}",  # type: ignore[misc]
            cause=STABLE,
        )


# Figures 6 to 9 ------------------------------------------------------------------------------


def _queries_tasks(kind: str, setting: Setting) -> Sequence[Task]:
    n = 64 if setting.is_quick else 512
    sizes = (16, 64, 256, 1024) if setting.is_quick else (32, 128, 512, 2048, 8192)
    draws = (1, 2) if setting.is_quick else (1,)
    return [task for m in sizes for task in tasks_of(kind, m, n, METHODS, draws)]


def _queries_checks(kind: str, known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield from _best_and_certified(known, rows, "m")
    if kind in ("WDiscrete", "WRange"):
        yield _am_like_esm(known, rows, "m")
        yield _usually_worse(known, "am-esm-much-worse", rows, "m", 2.0)
    yield from _wm_hm_and_gm(known, rows, kind)
    if kind in ("WMarginal", "WRelated"):
        yield from _often_better(known, rows)


def _wm_hm_and_gm(known: Printed, rows: Sequence[Row], kind: str) -> Iterator[Check]:
    for key, method in (("wm-gm", "wavelet"), ("hm-gm", "hierarchical")):
        is_marginal = kind == "WMarginal"
        yield claim_for_each(
            known,
            key,
            ratios(rows, method, "identity", "m"),
            (lambda ratio: ratio > 1) if is_marginal else (lambda ratio: ratio < 1),
            what=f"{PAPER_NAMES[method]} over GM",
            cause=WITHOUT_ORDER,
        )


def _often_better(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield _am_like_esm(known, rows, "m")
    pairs = [(a, b) for a in ("eigen", "smoothing") for b in ("wavelet", "hierarchical", "identity")]
    found = [value > 1 for a, b in pairs for value in ratios(rows, b, a, "m").values()]
    yield statement_about(
        found,
        known.says["am-esm-better"],
        lambda found: 2 * sum(found) > len(found),
        lambda found: f"AM or ESM better in {sum(found)} of {len(found)} comparisons with WM, HM and GM",
    )


# Figure 10 -----------------------------------------------------------------------------------


def _rank_tasks(setting: Setting) -> Sequence[Task]:
    size = 64 if setting.is_quick else 1024
    shares = (0.1, 0.4, 0.7, 1.0)
    draws = (1, 2) if setting.is_quick else (1,)
    methods = METHODS if setting.is_quick else tuple(m for m in METHODS if m not in ("coa-homotopy", RUN_ON))
    return [p for share in shares for p in tasks_of("WRelated", size, size, methods, draws, share)]


def _rank_checks(known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    yield from _best_and_certified(known, rows, "share")
    to_optimum = {other: ratios(rows, other, "dense", "share") for other in OTHERS}
    for other, gaps in to_optimum.items():
        yield claim_for_each(
            known,
            f"order-{PAPER_NAMES[other]}",
            ratios(rows, other, "coa", "share"),
            lambda ratio: ratio >= ORDER,
            what=f"{PAPER_NAMES[other]} over COA",
            why="over the certified optimum " + ", ".join(f"{gap:.3g} at {x:g}" for x, gap in gaps.items()),
            cause=IMPOSSIBLE,
        )
    for other, gaps in to_optimum.items():
        ends = [(share, gaps[share]) for share in (min(gaps), max(gaps))] if len(gaps) > 1 else []
        shown = ", ".join(f"{gap:.3g} at {share:g}" for share, gap in ends)
        claim = known.says[f"closes-{PAPER_NAMES[other]}"]
        if ends:
            ours = f"{PAPER_NAMES[other]} over ours {shown}"
            yield statement(claim, ends[1][1] < ends[0][1], ours)
        else:
            yield statement(claim, None)


# All of them ---------------------------------------------------------------------------------

_QUICK = (
    "The quick size has the paper's numbers of cells and queries divided by 8 or 16, in the same proportion."
)
_CUT = (
    "Above 1,024 cells the homotopy is left out, above 2,048 AM, "
    "above 4,096 LRM, ESM, WM and HM, and at 2,048 LRM and ESM; ESM takes 2,000 cells at most without a GPU."
)
_DOMAIN_NOTE = "Figure {} of the KDD version too, whose text says n up to 8,192, and the full version 4,096."


def _domain(number: int, kind: str) -> Reproduction:
    return Reproduction(
        f"coa/figure-{number}",
        f"error against the number of cells n, 1,024 queries, {kind}",
        partial(_domain_tasks, kind),
        partial(_domain_checks, kind),
        Drawing(
            "n",
            "error",
            "method",
            log="xy",
            x_title="cells n",
            y_title="squared error per query",
            names=DRAWN_NAMES,
        ),
        (_DOMAIN_NOTE.format(number), *NOTES, _QUICK, _CUT),
    )


def _queries(number: int, kind: str) -> Reproduction:
    return Reproduction(
        f"coa/figure-{number}",
        f"error against the number of queries m, 512 cells, {kind}",
        partial(_queries_tasks, kind),
        partial(_queries_checks, kind),
        Drawing(
            "m",
            "error",
            "method",
            log="xy",
            x_title="queries m",
            y_title="squared error per query",
            names=DRAWN_NAMES,
        ),
        (f"Figure {number} of the KDD version too.", *NOTES, _QUICK, _CUT),
    )


ACCURACY: tuple[Reproduction, ...] = (
    *(_domain(2 + i, kind) for i, kind in enumerate(KINDS)),
    *(_queries(6 + i, kind) for i, kind in enumerate(KINDS)),
    Reproduction(
        "coa/figure-10",
        "error against the rank of WRelated, as a share of min(m, n)",
        _rank_tasks,
        _rank_checks,
        Drawing("share", "error", "method", log="y", x_title="rank s / min(m, n)", names=DRAWN_NAMES),
        (
            "Figure 10 of the KDD version too. Its panels are data sets, and the error does not depend on "
            "the data.",
            *NOTES,
            _QUICK,
            _CUT,
        ),
    ),
)
