"""A table of designs, drawn over queries, methods, objectives, goals and neighbours: what each of them gave.

    python tests/golden_designs.py --write      design them all, and write golden/designs.json
    python tests/golden_designs.py              design them all, and say what differs from the table

A design is known by the four words that it is made from, such as "prefix/GDP/largest/dense": the table itself
says what was asked. None has a time limit: what is found does not depend on the clock.
"""

from __future__ import annotations

import itertools
import json
import platform
import random
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info

import leastnoise as ln
from tolerances import SOLVER

TABLE = Path(__file__).parent / "golden" / "designs.json"

# How many designs are drawn for each method, and how many refusals in all.
DESIGNS_OF_A_METHOD = 8
DESIGNS_OF_AUTO = 40
DESIGNS_FOR_TARGETS = 24
REFUSALS = 30

# Searches that are not convex, or that end where steps gain no more: with another BLAS they end elsewhere.
SEARCHES = ("residuals", "p-identity", "lowrank", "smoothing", "coa", "coa-homotopy", "smii")
VALUES = ["achieved", "lower_bound"]

TOWN = ln.Schema(age=range(6), sex=("F", "M"))
THREE = ln.Schema(age=range(3), sex=("F", "M"), region=("N", "E", "S", "W"))
LINE = ln.Schema(x=range(16))
KINDS = ln.Schema(
    income=ln.Bins([float("-inf"), 0, 1000, float("inf")]),
    place=ln.Hierarchy({"north": ["a", "b"], "south": ["c"]}),
    job=ln.Categories(("x", "y"), other="else"),
)
SQL = "SELECT sex, COUNT(*) FROM people WHERE age >= 2 GROUP BY sex"


def _random(rows: int, cells: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(-1, 3, (rows, cells))


def _capped(queries: list[Any], schema: ln.Schema) -> ln.Workload:
    """The queries with targets that differ: 6, 9, 12 ..."""
    return ln.assemble([query.having(stderr=6.0 + 3 * i) for i, query in enumerate(queries)], schema)


_TABLES = [ln.Marginal("age", "region"), ln.Marginal("sex", "region"), ln.Marginal("age")]
_UNION = [
    ln.Prefix("age"),
    ln.Marginal("sex") * ln.Marginal("region"),
    ln.Prefix("age") * ln.Marginal("region"),
]

WORKLOADS: dict[str, Callable[[], ln.Workload]] = {
    "total": lambda: ln.assemble([ln.Total()], TOWN),
    "marginal": lambda: ln.assemble([ln.Marginal("age", "sex")], TOWN),
    "tables": lambda: ln.assemble(_TABLES, THREE),
    "prefix": lambda: ln.assemble([ln.Prefix("x")], LINE),
    "ranges": lambda: ln.assemble([ln.AllRanges("x")], LINE),
    "some-ranges": lambda: ln.assemble([ln.Ranges("x", [(0, 3), (2, 9), (8, 15), (5, 6)])], LINE),
    "where": lambda: ln.assemble([ln.Where("age >= 2 and sex == 'F'"), ln.Where("age < 4")], TOWN),
    "cases": lambda: ln.assemble([ln.Cases({"minor": "age < 2", "rest": "age >= 2"}), ln.Total()], TOWN),
    "cube": lambda: ln.assemble([ln.Cube("age", "sex", "region", order=2)], THREE),
    "levels": lambda: ln.assemble([ln.Levels("place"), ln.Marginal("job", "place")], KINDS),
    "kinds": lambda: ln.assemble([ln.Marginal("income"), ln.Levels("place") * ln.Marginal("job")], KINDS),
    "sum": lambda: ln.assemble([ln.Sum("age"), ln.Marginal("sex")], TOWN),
    "product": lambda: ln.assemble([ln.Prefix("age") * ln.Marginal("region")], THREE),
    "union": lambda: ln.assemble(_UNION, THREE),
    "sql": lambda: ln.assemble(ln.queries_from_sql(SQL, TOWN), TOWN),
    "weights": lambda: ln.assemble([ln.Prefix("age", weight=5.0), ln.Marginal("sex", weight=0.5)], TOWN),
    "matrix": lambda: ln.Workload.from_matrix(_random(9, 7)),
    "wide": lambda: ln.Workload.from_matrix(_random(4, 11)),
    "fractions": lambda: ln.Workload.from_matrix(_random(8, 6) / 8 + 0.125),
    "uneven": lambda: ln.Workload.from_matrix(
        np.tril(np.ones((12, 12), dtype=int)), weights=np.arange(1.0, 13) ** 3
    ),
    "capped-prefix": lambda: _capped([ln.Prefix("age"), ln.Marginal("age", "sex")], TOWN),
    "capped-tables": lambda: _capped(_TABLES, THREE),
    "capped-union": lambda: _capped(_UNION, THREE),
    "capped-matrix": lambda: ln.Workload.from_matrix(_random(9, 7), stderr=np.linspace(5, 25, 9)),
}

GOALS: dict[str, ln.PureDP | ln.ApproxDP | ln.ZCDP | ln.GDP | None] = {
    "none": None,
    "GDP": ln.GDP(1),
    "ZCDP": ln.ZCDP(0.5),
    "ApproxDP": ln.ApproxDP(1, 1e-6),
    "GDP-large": ln.GDP(4),
    "PureDP": ln.PureDP(1),
    "GDP-three-records": ln.GDP(1, records_per_person=3),
    "GDP-replace": ln.GDP(1, neighbours="replace-one"),
    "PureDP-replace": ln.PureDP(1, neighbours="replace-one"),
}

OBJECTIVES: dict[str, ln.TotalVariance | ln.MaxVariance | ln.Targets | None] = {
    "default": None,
    "total": ln.TotalVariance(),
    "relative": ln.TotalVariance(relative_to="uniform"),
    "within": ln.TotalVariance(within_targets=True),
    "largest": ln.MaxVariance(),
    "targets": ln.Targets(),
}

# All but sdp, which needs an extra.
METHODS = (
    *("auto", "dense", "product", "marginals", "residuals", "p-identity", "identity", "workload"),
    *("hierarchical", "wavelet", "fourier", "datacube", "eigen", "eigen-separation", "principal-vectors"),
    *("weighted-basis", "lowrank", "smoothing", "coa", "coa-homotopy", "smii", "dawa", "mwem"),
)


def design_named(name: str) -> dict[str, Any]:
    """What a design gives, or the kind of error that refuses it."""
    workload, goal, objective, method = name.split("/")
    try:
        plan = ln.design(WORKLOADS[workload](), GOALS[goal], objective=OBJECTIVES[objective], method=method)
    except ln.LeastnoiseError as error:
        return {"refused": type(error).__name__}
    certificate = plan.certificate
    numbers = {"achieved": certificate.achieved, "lower_bound": certificate.lower_bound}
    return {
        **{name: value if np.isfinite(value) else str(value) for name, value in numbers.items()},
        "status": certificate.status,
        "method": plan.method,
        "ended": plan.ended,
        "digest": plan.digest,
    }


def drawn() -> dict[str, dict[str, Any]]:
    """Names at random, always the same, with what each of them gives."""
    found: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        names = ["/".join(words) for words in itertools.product(WORKLOADS, GOALS, OBJECTIVES, [method])]
        _draw(found, names, DESIGNS_OF_AUTO if method == "auto" else DESIGNS_OF_A_METHOD)
    # Few draws fit targets.
    asked = [("none", "default"), ("none", "targets"), ("GDP-large", "within"), ("GDP-large", "default")]
    capped = [name for name in WORKLOADS if name.startswith("capped")]
    names = ["/".join((w, *words, method)) for w in capped for words in asked for method in METHODS]
    _draw(found, [name for name in names if name not in found], DESIGNS_FOR_TARGETS)
    return found


def _draw(found: dict[str, dict[str, Any]], names: list[str], n_wanted: int) -> None:
    """Add so many designs of these names, and what was refused on the way."""
    random.Random(f"{len(found)} designs").shuffle(names)
    for name in names:
        said = design_named(name)
        n_refused = sum("refused" in then for then in found.values())
        # Every other time, so that refusals are not those of the first methods only.
        if "refused" not in said or (n_refused < REFUSALS and len(found) % 2):
            found[name] = said
        n_wanted -= "refused" not in said
        if not n_wanted:
            return


@cache
def environment() -> dict[str, Any]:
    """What the last bits of a design depend on: libraries, processor and number of threads."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "processor": _processor(),
        "blas": sorted(
            " ".join(str(pool.get(key)) for key in ("internal_api", "version", "architecture", "num_threads"))
            for pool in threadpool_info()
            # Not those that other packages bring along.
            if pool["user_api"] == "blas"
            and any(f"{name}.libs" in pool["filepath"] for name in ("numpy", "scipy"))
        ),
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    names = (
        [line for line in facts.read_text().splitlines() if "model name" in line] if facts.exists() else []
    )
    return names[0].partition(":")[2].strip() if names else platform.machine()


def table() -> dict[str, Any]:
    """The table as it was written."""
    said: dict[str, Any] = json.loads(TABLE.read_text())
    return said


def write() -> None:
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(said)}" for name, said in drawn().items())
    where = json.dumps(environment(), indent=1).replace("\n", "\n ")
    TABLE.write_text(f'{{\n "environment": {where},\n "designs": {{\n{rows}\n }}\n}}\n')


def differences(name: str, then: dict[str, Any], now: dict[str, Any], *, is_same_machine: bool) -> list[str]:
    """What of a design differs from the table: to the last bit on the machine that wrote it.

    Another BLAS rounds otherwise, so that elsewhere digests differ. Optima and fixed strategies have the same
    values there; a search without a proof of its optimum may end in another one, and must only be possible
    beside the first: a lower bound is below whatever is achieved. The same holds where a clock has ended a
    search.
    """
    is_same_machine = is_same_machine and now.get("ended") != "deadline"
    if "refused" in then or "refused" in now or is_same_machine:
        keys = [key for key in then | now if then.get(key) != now.get(key)]
    elif (then["method"] in SEARCHES or name.endswith("/auto")) and then["status"] != "optimal":
        keys = (
            []
            if max(then["lower_bound"], now["lower_bound"]) <= min(then["achieved"], now["achieved"])
            else VALUES
        )
    else:
        exactly = ("status", "method", "ended") if then["status"] == "optimal" else ("status", "method")
        keys = [key for key in exactly if then[key] != now[key]]
        keys += [
            key
            for key in VALUES
            if not np.isclose(float(now[key]), float(then[key]), rtol=SOLVER, atol=0, equal_nan=True)
        ]
    return [f"{key}: {then.get(key)} then, {now.get(key)} now" for key in keys]


def main() -> None:
    """Write the table, or compare with it."""
    if sys.argv[1:] == ["--write"]:
        write()
        return
    said = table()
    is_same_machine = said["environment"] == environment()
    n_different = 0
    for name, then in said["designs"].items():
        found = differences(name, then, design_named(name), is_same_machine=is_same_machine)
        n_different += bool(found)
        for line in found:
            print(f"{name}  {line}")
    where = "the machine that wrote them" if is_same_machine else "another machine"
    print(f"{n_different} of {len(said['designs'])} designs differ, on {where}; {time.process_time():.0f} s")


if __name__ == "__main__":
    main()
