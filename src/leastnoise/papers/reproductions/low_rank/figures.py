"""Figures 4 to 9 of the low-rank paper: error against the number of cells, of queries, and the rank.

The quick size has every mechanism at a sixteenth of the paper's m and n; those that need no search
are also there at the paper's own sizes, and so is the bound where a claim needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from leastnoise.papers.reproductions.low_rank.claims import (
    ALL_ROWS,
    checks_4,
    checks_5,
    checks_6,
    checks_7,
    checks_8,
    checks_9,
)
from leastnoise.papers.reproductions.low_rank.low_rank_tasks import (
    CELLS,
    GPU_SECONDS,
    QUERIES,
    RATIO,
    SEED,
    SHARE,
    SHARES,
    SHRINK,
    M,
    N,
    mechanism,
    rank_of,
    search_seconds,
    searching_on,
)
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Plain

_QUICK_SHARES = (0.1, 0.3, 0.5, 0.7, 1.0)

# AMM takes n³ per step: the quick size ends where 200 of them take seconds.
_MAX_QUICK_AMM_CELLS = 256

# Beyond, `design` has noise on cells and fixed bases for Laplace noise, and no search.
_MAX_PLANNED_CELLS = 4_096

# LRM with as many rows as cells is tried for at most this many cells,
_MAX_ALL_ROWS_CELLS = 64

# and for at most this many times the rank.
_MAX_RANKS = 8

# Draws of the smaller workloads in the full size.
_DRAWS = 5
QUICK = ("LM", "WM", "HM", "NOQ")
SEARCHED = ("LRM", "leastnoise", "bound")

# What to compute -----------------------------------------------------------------------------


def _seconds(setting: Setting, method: str, m: int, n: int, s: int) -> float:
    """An estimate for one draw on one core, from runs of 16 to 256 queries over 64 to 1,024 cells."""
    if method == "LRM":
        return search_seconds(setting, RATIO * (s or min(m, n)), n)
    if method == ALL_ROWS:
        return search_seconds(setting, n, n)
    if method == "AMM":
        on_gpu = searching_on(setting, n, n) == "cuda"
        return GPU_SECONDS if on_gpu else 0.2 + 60 * (n / 1024) ** 3
    if method == "leastnoise":
        return 0.2 + 15 * (n / 1024) ** 1.5
    if method == "bound":
        return 0.05 + 6 * (m / 256) * n / 8192
    return 0.05 + 0.5 * min(n / 1024, 1) ** 3 + 0.2 * n / 8192


def _task(
    setting: Setting, method: str, workload: str, m: int, n: int, s: int, shrink: int, draws: int
) -> Task:
    arguments: dict[str, Plain] = {
        "workload": workload,
        "m": m,
        "n": n,
        "s": s,
        "shrink": shrink,
        "seed": SEED,
        "draws": draws,
        "method": method,
    }
    # The others decompose no larger matrix than one of as many rows as queries, or of 4,096 cells.
    n_cells = n if method in ("LRM", "AMM") else 0
    rows = {"LRM": RATIO * (s or min(m, n)), ALL_ROWS: n, "AMM": n}.get(method, 0)
    on_gpu = searching_on(setting, rows, n) == "cuda"
    return Task(mechanism, arguments, draws * _seconds(setting, method, m, n, s), n_cells, on_gpu)


_Place = tuple[int, int, float]


def _tasks(
    setting: Setting,
    workload: str,
    places: Sequence[_Place],
    *,
    with_matrix_mechanism: bool = False,
    with_all_rows: bool = False,
    proved: Sequence[_Place] = (),
    searched_too: Sequence[_Place] = (),
) -> Iterator[Task]:
    """Points for places (m, n, share of the rank), all given at the paper's own sizes.

    Args:
        with_all_rows: whether LRM is also tried with as many rows as cells, where those are few.
        proved: where the quick size too works out the bound at the paper's own size.
        searched_too: where it runs every mechanism there.
    """
    searched = SEARCHED + (("AMM",) if with_matrix_mechanism else ())
    for m, n, share in places:
        small = m // SHRINK, n // SHRINK
        s, draws = rank_of(workload, *small, share), 1 if setting.is_quick else _DRAWS
        is_small = small[1] <= min(_MAX_ALL_ROWS_CELLS, _MAX_RANKS * s)
        all_rows = (ALL_ROWS,) if with_all_rows and is_small else ()
        for method in QUICK + searched + all_rows:
            if not setting.is_quick or method != "AMM" or small[1] <= _MAX_QUICK_AMM_CELLS:
                yield _task(setting, method, workload, *small, s, SHRINK, draws)
        if not setting.is_quick or (m, n, share) in searched_too:
            methods = QUICK + searched
        else:
            methods = (*QUICK, "bound") if (m, n, share) in proved else QUICK
        for method in methods:
            if method != "leastnoise" or n <= _MAX_PLANNED_CELLS:
                yield _task(setting, method, workload, m, n, rank_of(workload, m, n, share), 1, 1)


def figure_4(setting: Setting) -> Sequence[Task]:
    """WDiscrete, 256 queries over 128 to 8,192 cells."""
    places = [(M, n, SHARE) for n in CELLS]
    return list(_tasks(setting, "WDiscrete", places, with_matrix_mechanism=True, searched_too=places[:1]))


def figure_5(setting: Setting) -> Sequence[Task]:
    """WRange, 256 queries over 128 to 8,192 cells."""
    return list(_tasks(setting, "WRange", [(M, n, SHARE) for n in CELLS], with_matrix_mechanism=True))


def figure_6(setting: Setting) -> Sequence[Task]:
    """WRelated of rank 128 at most, 256 queries over 128 to 8,192 cells."""
    places = [(M, n, SHARE) for n in CELLS]
    return list(
        _tasks(
            setting,
            "WRelated",
            places,
            with_matrix_mechanism=True,
            with_all_rows=True,
            proved=places[-1:],
        )
    )


def figure_7(setting: Setting) -> Sequence[Task]:
    """WRange, 64 to 1,024 queries over 1,024 cells."""
    return list(_tasks(setting, "WRange", [(m, N, SHARE) for m in QUERIES]))


def figure_8(setting: Setting) -> Sequence[Task]:
    """WRelated, 64 to 1,024 queries over 1,024 cells, its rank half as many."""
    places = [(m, N, SHARE) for m in QUERIES]
    return list(_tasks(setting, "WRelated", places, with_all_rows=True, proved=places[:3]))


def figure_9(setting: Setting) -> Sequence[Task]:
    """WRelated, 256 queries over 1,024 cells, its rank a tenth of them to all of them."""
    places = [(M, N, share) for share in (_QUICK_SHARES if setting.is_quick else SHARES)]
    return list(_tasks(setting, "WRelated", places, proved=places[:1]))


_NOTES = (
    "Errors are expected squared errors per query at epsilon 0.1, computed exactly, not sampled; the "
    "paper averages 20 runs of noise on data, which do not affect the error.",
    "LM is noise on every cell: only that is linear in n, as the text says of all mechanisms but LRM. NOQ, "
    "noise on every query, is shown beside it.",
    "LRM answers without bias: what W − BL misses is added to L before it is measured; gamma 0.01, r 1.2 "
    "times the rank, as in Table 1.",
    "WM and HM are followed by least squares. Above 1,024 cells both come from Haar coefficients of the "
    "queries: the wavelets are eigenvectors of their Gram matrices.",
    "leastnoise is the plan that design() chooses, up to 4,096 cells; beyond, it has no search for Laplace "
    "noise.",
    "The bound is proved for all Laplace noise on all rows through L2 sensitivity; it is weak for L1.",
    "LRM, n rows: with as many rows as cells, up to 64, to see whether it finds noise on every cell.",
    "The quick size divides m and n by 16 for mechanisms that search, and what is said of LRM is about that "
    "size; the others are there at the paper's own sizes too. The full size has both.",
)


def _drawing(x: str, panel: str, x_title: str) -> Drawing:
    return Drawing(
        x,
        "error",
        "method",
        panel,
        "xy",
        x_title,
        "average squared error per query",
        names={"leastnoise": "ours"},
    )


def _figure(number: int, title: str, tasks: object, checks: object, drawing: Drawing) -> Reproduction:
    return Reproduction(f"low-rank/figure-{number}", title, tasks, checks, drawing, _NOTES)  # type: ignore[arg-type]


_by_cells = partial(_drawing, "n", "m", "cells n")
_by_queries = partial(_drawing, "m", "n", "queries m")

FIGURES = (
    _figure(4, "error by number of cells, WDiscrete", figure_4, checks_4, _by_cells()),
    _figure(5, "error by number of cells, WRange", figure_5, checks_5, _by_cells()),
    _figure(6, "error by number of cells, WRelated", figure_6, checks_6, _by_cells()),
    _figure(7, "error by number of queries, WRange", figure_7, checks_7, _by_queries()),
    _figure(8, "error by number of queries, WRelated", figure_8, checks_8, _by_queries()),
    _figure(9, "error by rank, WRelated", figure_9, checks_9, _drawing("s", "n", "rank s")),
)
