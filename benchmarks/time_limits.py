"""How late a design is: process seconds beyond `time_limit`, for every method, rounding and proof included.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/time_limits.py --limits 1 3 10
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/time_limits.py --random 1 100

With --random SEED N the cases are N random workloads of 2 to 12 attributes, each with a random goal and
objective; a method that is named beside it is asked, else "auto".

The promise is 2 s and a fifth of the limit, on quiet cores. So that busy ones give the same figures, the
clock of the library is that of the process: what another process has of the core does not count. Every case
runs in a fork of its own, which ends at six times its limit and a minute. Exits with 1 if any is late.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

# Before the library is imported, which keeps some of these by name.
time.monotonic = time.process_time
time.perf_counter = time.process_time

import numpy as np  # noqa: E402

import leastnoise as ln  # noqa: E402
from leastnoise.core.errors import LeastnoiseError  # noqa: E402
from leastnoise.core.resources import LATE_SECONDS, LATE_SHARE, operations_per_second  # noqa: E402
from leastnoise.planning import all_methods  # noqa: E402
from leastnoise.query import Query  # noqa: E402

GAUSS, ONE, PURE = ln.GDP(1), ln.GDP(1, neighbours="replace-one"), ln.PureDP(1)
LARGEST, TARGETS, WITHIN = ln.MaxVariance(), ln.Targets(), ln.TotalVariance(within_targets=True)
CELLS = (100, 400, 1200)


def prefix(n: int) -> ln.Workload:
    """All prefix sums over n values."""
    return ln.assemble([ln.Prefix("a")], ln.Schema(a=range(n)))


def random_rows(n: int, **target: Any) -> ln.Workload:
    """A matrix of 1.5 n rows of random zeros and ones."""
    rng = np.random.default_rng(n)
    return ln.Workload.from_matrix(rng.integers(0, 2, (n + n // 2, n)), **target)


def union(n: int, **target: Any) -> ln.Workload:
    """Cross tables and ranges over four attributes whose cells grow with n."""
    side = max(2, round(n**0.5))
    schema = ln.Schema(a=range(side), b=range(side // 2 + 2), c=range(7), d=("x", "y"))
    asked = [
        ln.Cube("a", "b", "c", "d", order=2),
        ln.Prefix("a") * ln.Prefix("c"),
        ln.Prefix("b") * ln.Marginal("d"),
        ln.Where("a >= 1 and c < 3"),
    ]
    return ln.assemble([query.having(**target) for query in asked], schema)


def product(n: int) -> ln.Workload:
    """Ranges over three attributes, crossed."""
    return ln.assemble(
        [ln.Prefix("a") * ln.Prefix("b") * ln.AllRanges("c")],
        ln.Schema(a=range(n), b=range(n // 2), c=range(12)),
    )


def cube(n: int, **target: Any) -> ln.Workload:
    """All tables of three attributes out of n / 40."""
    schema = ln.Schema({f"a{i}": range(2 + i % 4) for i in range(max(4, n // 40))})
    return ln.assemble([ln.Cube(*schema.names, order=3).having(**target)], schema)


def many_tables(n: int, **target: Any) -> ln.Workload:
    """Distributions of five attributes and all tables of up to three out of n / 40."""
    sizes = [100 if i < 5 else 2 + i % 9 for i in range(max(6, n // 40))]
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)})
    asked = [*(ln.Prefix(name) for name in schema.names[:5]), ln.Cube(*schema.names, order=3)]
    asked.append(ln.Prefix("a0") * ln.Marginal("a5"))
    return ln.assemble([query.having(**target) for query in asked], schema)


def binary(n: int) -> ln.Workload:
    """All tables of two attributes of two values each, about n cells."""
    schema = ln.Schema({f"a{i}": ("u", "v") for i in range(max(3, round(np.log2(n))))})
    return ln.assemble([ln.Cube(*schema.names, order=2)], schema)


# Workload, goal and objective for each method; those that are not here have the first line.
USUAL = [("prefix", prefix, GAUSS, None), ("random", random_rows, GAUSS, None)]
WITH_TARGETS = ("random", lambda n: random_rows(n, stderr=5.0 * n**0.5))
OWN: dict[str, list[tuple[str, Callable[[int], ln.Workload], Any, Any]]] = {
    "auto": [
        *USUAL,
        ("random, pure", random_rows, PURE, None),
        ("prefix, pure", prefix, PURE, None),
        ("union", union, GAUSS, LARGEST),
        ("cube, pure", cube, PURE, None),
    ],
    "dense": [
        *USUAL,
        ("random, one replaced", random_rows, ONE, None),
        ("prefix, one replaced", prefix, ONE, None),
        ("random, largest", random_rows, GAUSS, LARGEST),
        ("prefix, largest", prefix, GAUSS, LARGEST),
        ("random, targets", WITH_TARGETS[1], GAUSS, TARGETS),
        ("random, within", WITH_TARGETS[1], GAUSS, WITHIN),
    ],
    "product": [("product", product, GAUSS, None), ("product, largest", product, GAUSS, LARGEST)],
    "marginals": [
        ("cube", cube, GAUSS, None),
        ("cube, largest", cube, GAUSS, LARGEST),
        ("cube, targets", lambda n: cube(n, stderr=9.0 * n), GAUSS, TARGETS),
        ("cube, pure", cube, PURE, None),
    ],
    "residuals": [
        ("union", union, GAUSS, None),
        ("union, largest", union, GAUSS, LARGEST),
        ("union, targets", lambda n: union(n, stderr=30.0), GAUSS, TARGETS),
        ("union, within", lambda n: union(n, stderr=90.0), GAUSS, WITHIN),
        ("many tables", many_tables, GAUSS, None),
        ("many tables, largest", many_tables, GAUSS, LARGEST),
        ("many tables, targets", lambda n: many_tables(n, stderr=500.0), GAUSS, TARGETS),
        ("many tables, within", lambda n: many_tables(n, stderr=3e3), GAUSS, WITHIN),
    ],
    "p-identity": [
        ("prefix, pure", prefix, PURE, None),
        ("random, pure", random_rows, PURE, None),
        ("prefix, pure, largest", prefix, PURE, LARGEST),
    ],
    "weighted-basis": [*USUAL, ("random, pure", random_rows, PURE, None)],
    "lowrank": [*USUAL, ("random, pure", random_rows, PURE, None)],
    "smii": [("prefix", prefix, GAUSS, LARGEST), ("random", random_rows, GAUSS, LARGEST)],
    "fourier": [("binary", binary, GAUSS, None)],
    "datacube": [("binary", binary, GAUSS, None)],
    "dawa": [("prefix, pure", prefix, PURE, None)],
    "mwem": [("prefix, pure", prefix, PURE, None)],
}


# Values of a random attribute: each size about as likely as any other.
SIZES = (2, 2, 3, 4, 5, 7, 10, 16, 24, 50, 100, 200)


def random_query(rng: np.random.Generator, sizes: dict[str, int]) -> Query:
    """A table, running sums, ranges, a condition or a crossing of some of them."""
    names = [str(name) for name in rng.permutation(list(sizes))]
    one = names[0]
    last = sizes[one] - 1
    kind = int(rng.integers(8))
    if kind == 0:
        return ln.Marginal(*names[: int(rng.integers(1, min(3, len(names)) + 1))])
    if kind == 1:
        return ln.Cube(*names, order=int(rng.integers(1, min(3, len(names)) + 1)))
    if kind == 2:
        return ln.Prefix(one)
    if kind == 3:
        return ln.AllRanges(one) if last < 100 else ln.Prefix(one)
    if kind == 4:
        ends = np.sort(rng.integers(0, last + 1, (5, 2)), axis=1)
        return ln.Ranges(one, [(int(low), int(high)) for low, high in np.unique(ends, axis=0)])
    if kind == 5:
        return ln.Where(f"{one} >= {last // 2} and {names[1]} < {sizes[names[1]] - 1}")
    if kind == 6:
        return ln.Prefix(one) * ln.Prefix(names[1])
    return ln.Prefix(one) * ln.Marginal(*names[1 : int(rng.integers(2, min(3, len(names)) + 1))])


# Cells at most under pure privacy, and attributes where a first draw has more: nearly all larger requests
# are refused at once, which says nothing about time.
PURE_CELLS = 50_000
PURE_ATTRIBUTES = 6


def random_queries(rng: np.random.Generator, n: int) -> tuple[dict[str, int], list[Query]]:
    """The sizes of n attributes, and queries about them."""
    sizes = {f"a{i}": int(rng.choice(SIZES)) for i in range(n)}
    asked = [random_query(rng, sizes) for _ in range(int(rng.integers(1, 8)))]
    if rng.integers(4) == 0:
        asked.append(ln.Total())
    return sizes, asked


def random_case(seed: int) -> tuple[ln.Workload, Any, Any]:
    """A workload, a goal and an objective."""
    rng = np.random.default_rng(seed)
    sizes, asked = random_queries(rng, int(rng.integers(2, 13)))
    goal = (GAUSS, PURE, ONE)[int(rng.choice(3, p=(0.5, 0.35, 0.15)))]
    while goal is PURE and math.prod(sizes.values()) > PURE_CELLS:
        sizes, asked = random_queries(rng, int(rng.integers(2, PURE_ATTRIBUTES + 1)))
    objective = (None, LARGEST, TARGETS, WITHIN)[int(rng.integers(4))]
    target = {} if objective in (None, LARGEST) else {"stderr": float(rng.choice((100.0, 1e3, 1e4)))}
    weighted = [query.having(weight=float(rng.integers(1, 4)), **target) for query in asked]
    schema = ln.Schema({name: range(size) for name, size in sizes.items()})
    return ln.assemble(weighted, schema), goal, objective


# A workload, a goal and an objective, made when they are needed.
Make = Callable[[], tuple[ln.Workload, Any, Any]]


def cases(methods: list[str]) -> Iterator[tuple[str, str, int, Make]]:
    """Method, name, size and request of each case."""
    for method in methods:
        for name, made, goal, objective in OWN.get(method, USUAL):
            for n in CELLS:
                yield method, name, n, partial(_request, made, n, goal, objective)


def _request(
    made: Callable[[int], ln.Workload], n: int, goal: Any, objective: Any
) -> tuple[ln.Workload, Any, Any]:
    return made(n), goal, objective


def random_cases(methods: list[str], seed: int, number: int) -> Iterator[tuple[str, str, int, Make]]:
    """The same for random workloads; their seed is their size."""
    for own in range(seed, seed + number):
        for method in methods:
            yield method, "random", own, partial(random_case, own)


def outcome(method: str, make: Make, limit: float) -> tuple[float, str]:
    """How long the design took, and how it ended, in a few words."""
    workload, goal, objective = make()
    began = time.process_time()
    try:
        plan = ln.design(workload, goal, objective=objective, method=method, time_limit=limit)
    except LeastnoiseError as error:
        seconds = time.process_time() - began
        return seconds, f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    seconds = time.process_time() - began
    told = plan.certificate
    return seconds, f"{plan.method}, {'' if told is None else f'{told.status}, gap {told.gap:.2g}'}"


def in_fork(limit: float, run: Callable[[], tuple[float, str]]) -> tuple[float, str]:
    """What a step says in a process of its own: its seconds and its words."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        most = int(6 * limit + 60)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        try:
            seconds, words = run()
        except BaseException as error:  # told, as nobody else can
            seconds, words = float("nan"), f"FAILED {error!r}"
        os.write(writes, f"{seconds}\n{words}".encode()[:4000])
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    if not said:
        return 6 * limit + 60, "ENDED from outside"
    first, _, words = said.partition("\n")
    return float(first), words


def main() -> int:
    """Run what was asked for and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument(
        "--random", type=int, nargs=2, metavar=("SEED", "N"), help="N random workloads instead of the list"
    )
    parser.add_argument(
        "--late-only", action="store_true", help="print nothing but the late ones and the sum"
    )
    asked = parser.parse_args()
    operations_per_second()
    if asked.random:
        chosen = random_cases(asked.methods or ["auto"], *asked.random)
    else:
        chosen = cases(asked.methods or ["auto", *(m.name for m in all_methods())])
    n_cases, late, latest = 0, 0, -math.inf
    for method, name, n, make in chosen:
        for limit in asked.limits:
            seconds, words = in_fork(limit, partial(outcome, method, make, limit))
            beyond = seconds - limit
            is_late = not beyond <= LATE_SECONDS + LATE_SHARE * limit
            n_cases, late = n_cases + 1, late + is_late
            latest = max(latest, beyond - LATE_SHARE * limit)
            if is_late or not asked.late_only:
                mark = "LATE" if is_late else "    "
                print(f"{mark} {method:18} {name:24} {n:5} limit {limit:4g} took {seconds:7.2f}  {words}")
                sys.stdout.flush()
    print(f"{n_cases} designs, {late} late; the latest {latest:.2f} s beyond its limit and a fifth")
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
