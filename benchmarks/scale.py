"""Designs beyond what is dense: seconds, memory, gaps, and the distance from the dense optimum.

    OMP_NUM_THREADS=1 python benchmarks/scale.py [--only cubes,ordered] [--match total] [--method auto]

    cubes      cross tables of up to 100 attributes, for every objective
    ordered    five distributions and fifteen categories, all of them and their pairs
    product    prefix sums of 1,024 by prefix sums of 1,024 by fifty categories
    pairs      two attributes of that kind, against the dense optimum
    unions     small unions of products, against the dense optimum
    rows       ten million records of twenty attributes: design, measure, answers

Every line runs in a process of its own; the peak is that of the process, libraries included, by the kernel's
account. Seconds are processor time, which other work on the machine changes least; `rows` gives the clock
beside it. *Above dense* is what the plan achieves over the certified dense optimum, less one; *bound below*
is one less the plan's own lower bound over that optimum. The gap is about the sum of both.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import leastnoise as ln

GOAL = ln.GDP(1)
ROOM = 1.2  # how many times the least μ that meets all targets the goal of "within" allows


@dataclass(frozen=True)
class Problem:
    """One line: what is asked, what for, and how it is judged.

    Attributes:
        objective: "total", "largest", "targets" or "within".
        method: the one to use unless the command line names another.
        has_dense: whether the dense optimum is found beside it.
    """

    group: str
    name: str
    objective: str
    make: Callable[[], ln.Workload]
    method: str = "auto"
    has_dense: bool = False


# Problems ------------------------------------------------------------------------------------


def alike(count: int, size: int = 10) -> ln.Schema:
    """So many attributes of as many values."""
    return ln.Schema(**{f"a{i}": range(size) for i in range(count)})


def cube(count: int, order: Any) -> ln.Workload:
    """Cross tables of attributes of ten values."""
    schema = alike(count)
    return ln.assemble([ln.Cube(*schema.names, order=order)], schema)


def cube_with_targets(count: int, order: int) -> ln.Workload:
    """The same with a target for the tables of each order: larger tables may err more."""
    schema = alike(count)
    tables = [ln.Cube(*schema.names, order=(k,), stderr=float(2**k)) for k in range(1, order + 1)]
    return ln.assemble([ln.Total(stderr=1.0), *tables], schema)


def tables_with_targets(count: int, order: int) -> ln.Workload:
    """The same with a target for every single table, each another one."""
    schema = alike(count)
    tables = [s for k in range(1, order + 1) for s in combinations(schema.names, k)]
    # Spread over a factor of four, the same in every run.
    queries = [ln.Marginal(*s, stderr=2.0 * 4 ** (i * 0.6180339887 % 1)) for i, s in enumerate(tables)]
    return ln.assemble(queries, schema)


def cubes() -> Iterator[Problem]:
    """Nothing but cross tables."""
    yield Problem("cubes", "all pairs of 5 attributes of 10", "total", lambda: cube(5, (2,)))
    yield Problem("cubes", "up to 3-way, 20 attributes of 10", "total", lambda: cube(20, 3))
    for objective in ("total", "largest"):
        yield Problem("cubes", "up to 3-way, 100 attributes of 10", objective, lambda: cube(100, 3))
    for objective in ("targets", "within"):
        yield Problem(
            "cubes", "up to 3-way, 100 attributes of 10", objective, lambda: cube_with_targets(100, 3)
        )
    for objective in ("targets", "within"):
        yield Problem(
            "cubes", "a target for each of 1,350 tables", objective, lambda: tables_with_targets(20, 3)
        )


def distributions(n_ordered: int, long: int, n_plain: int, short: int) -> ln.Workload:
    """Prefix sums of ordered attributes, counts of the others, and all of them crossed in pairs."""
    ordered = {f"o{i}": range(long) for i in range(n_ordered)}
    plain = {f"c{i}": range(short) for i in range(n_plain)}
    single: list[ln.Query] = [*map(ln.Prefix, ordered), *map(ln.Marginal, plain)]
    crossed = [a * b for a, b in combinations(single, 2)]
    return ln.assemble([*single, *crossed], ln.Schema(**ordered, **plain))


def ordered() -> Iterator[Problem]:
    """The union that residuals are for."""
    for objective in ("total", "largest"):
        yield Problem(
            "ordered",
            "prefix on 5 of 100, counts of 15 of 10, 1- and 2-way",
            objective,
            lambda: distributions(5, 100, 15, 10),
        )


def one_product() -> Iterator[Problem]:
    """A single product of 52 million queries."""

    def make() -> ln.Workload:
        schema = ln.Schema(x=range(1024), y=range(1024), z=range(50))
        return ln.assemble([ln.Prefix("x") * ln.Prefix("y") * ln.Marginal("z")], schema)

    yield Problem("product", "prefix 1,024 by prefix 1,024 by 50 counts", "total", make)


AXES: dict[str, Callable[[str, int], ln.Query]] = {
    "prefix": lambda name, size: ln.Prefix(name),
    "ranges": lambda name, size: ln.AllRanges(name),
    "counts": lambda name, size: ln.Marginal(name),
    "life stages": lambda name, size: ln.Ranges(
        name, [(0, size // 4), (size // 4, size // 2), (size // 2, size)]
    ),
}


def two_attributes(left: str, m: int, right: str, n: int) -> ln.Workload:
    """Questions of two attributes, and both crossed."""
    a, b = AXES[left]("a", m), AXES[right]("b", n)
    return ln.assemble([a, b, a * b], ln.Schema(a=range(m), b=range(n)))


def pairs() -> Iterator[Problem]:
    """Two attributes at a time, small enough to be solved densely."""
    chosen = [
        ("prefix", 30, "counts", 8),
        ("prefix", 24, "prefix", 20),
        ("ranges", 20, "prefix", 16),
        ("ranges", 16, "counts", 12),
        ("ranges", 16, "ranges", 14),
        ("prefix", 60, "counts", 5),
        ("life stages", 40, "prefix", 8),
    ]
    for objective in ("total", "largest"):
        for left, m, right, n in chosen if objective == "total" else chosen[:4]:
            name = f"{left} {m} by {right} {n}, 1- and 2-way"

            def make(left: str = left, m: int = m, right: str = right, n: int = n) -> ln.Workload:
                return two_attributes(left, m, right, n)

            yield Problem("pairs", name, objective, make, "residuals", has_dense=True)


TREE = ln.Hierarchy({"north": ["n1", "n2", "n3"], "south": ["s1", "s2"]})
AGE = ln.Schema(age=range(24), sex=("F", "M"))


def small_unions() -> dict[str, tuple[ln.Schema, list[ln.Query]]]:
    """Unions of products of many shapes over a few hundred cells."""
    three = {name: ln.Prefix(name) for name in "abc"}
    found: dict[str, tuple[ln.Schema, list[ln.Query]]] = {
        "prefix 16 and prefix 12": (ln.Schema(a=range(16), b=range(12)), [ln.Prefix("a"), ln.Prefix("b")]),
        "pairs of ranges 10, counts 5, prefix 6": (
            ln.Schema(a=range(10), b=range(5), c=range(6)),
            [x * y for x, y in combinations([ln.AllRanges("a"), ln.Marginal("b"), ln.Prefix("c")], 2)],
        ),
        "prefix 6, 6, 6, 1- and 2-way": (
            ln.Schema(a=range(6), b=range(6), c=range(6)),
            [*three.values(), *(x * y for x, y in combinations(three.values(), 2))],
        ),
        "prefix 8, 8, 8, 1- and 2-way": (
            ln.Schema(a=range(8), b=range(8), c=range(8)),
            [*three.values(), *(x * y for x, y in combinations(three.values(), 2))],
        ),
        "prefix 8, 7, 6, up to 3-way": (
            ln.Schema(a=range(8), b=range(7), c=range(6)),
            [
                *three.values(),
                *(x * y for x, y in combinations(three.values(), 2)),
                three["a"] * three["b"] * three["c"],
            ],
        ),
        "age by sex, prefix age": (AGE, [ln.Marginal("age", "sex"), ln.Prefix("age")]),
        "the same, a condition and the total": (
            AGE,
            [ln.Marginal("age", "sex"), ln.Prefix("age"), ln.Where("age >= 18 and sex == 'F'"), ln.Total()],
        ),
        "regions by counts 7, prefix 7": (
            ln.Schema(place=TREE, b=range(7)),
            [ln.Levels("place") * ln.Marginal("b"), ln.Prefix("b")],
        ),
        "regions by prefix 12": (
            ln.Schema(place=TREE, b=range(12)),
            [ln.Levels("place"), ln.Prefix("b"), ln.Levels("place") * ln.Prefix("b")],
        ),
        "very unequal weights": (
            AGE,
            [ln.Marginal("age", weight=30.0), ln.Marginal("sex"), ln.Prefix("age", weight=0.01)],
        ),
        "sum and prefix by sex": (
            AGE,
            [ln.Sum("age") * ln.Marginal("sex"), ln.Prefix("age") * ln.Marginal("sex"), ln.Marginal("age")],
        ),
    }
    for k, (left, right) in enumerate(product(("counts", "prefix", "ranges"), ("prefix", "ranges"))):
        a, b = AXES[left]("a", 12), AXES[right]("b", 10)
        found[f"{left} 12 and, apart, {right} 10 by counts 3"] = (
            ln.Schema(a=range(12), b=range(10), c=range(3)),
            [a.having(weight=1.0 + k), b * ln.Marginal("c"), ln.Marginal("a", "c")],
        )
    return found


def unions() -> Iterator[Problem]:
    """The sweep: every small union for the total, and some for the largest variance."""
    cases = small_unions()
    for objective, names in (("total", list(cases)), ("largest", list(cases)[1:9:2])):
        for name in names:

            def make(name: str = name) -> ln.Workload:
                schema, queries = cases[name]
                return ln.assemble(queries, schema)

            yield Problem("unions", name, objective, make, "residuals", has_dense=True)


GROUPS: dict[str, Callable[[], Iterator[Problem]]] = {
    "cubes": cubes,
    "ordered": ordered,
    "product": one_product,
    "pairs": pairs,
    "unions": unions,
}


# Measuring -----------------------------------------------------------------------------------


def peak() -> float:
    """The most memory that this process ever held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def planned(workload: ln.Workload, objective: str, method: str) -> tuple[ln.Plan, float]:
    """The plan, and processor seconds of `design`."""
    goal: ln.Goal | None = GOAL
    given: dict[str, Any] = {"method": method}
    if objective == "largest":
        given["objective"] = ln.MaxVariance()
    elif objective == "targets":
        goal = None
    elif objective == "within":
        least = ln.design(workload, method=method).mu
        assert least is not None
        goal = ln.GDP(ROOM * least)
    started = time.process_time()
    plan = ln.design(workload, goal, **given)
    return plan, time.process_time() - started


def measured(problem: Problem, method: str | None) -> dict[str, Any]:
    """What one line says."""
    # What is loaded when first used is not what is measured.
    ln.design(cube(3, (2,)), GOAL, method="marginals")
    ln.design(two_attributes("prefix", 3, "counts", 2), GOAL, method="residuals")
    started = time.process_time()
    workload = problem.make()
    assembled = time.process_time() - started
    plan, seconds = planned(workload, problem.objective, method or problem.method)
    row = {
        "problem": problem.name,
        "objective": problem.objective,
        "queries": workload.shape[0],
        "method": plan.method,
        "achieved": plan.certificate.achieved,
        "gap": plan.certificate.gap,
        "assemble": assembled,
        "design": seconds,
        "peak": peak(),
    }
    if problem.has_dense:
        dense, theirs = planned(workload, problem.objective, "dense")
        least = dense.certificate.achieved
        row["above"] = plan.certificate.achieved / least - 1
        row["below"] = 1 - plan.certificate.lower_bound / least
        row["dense"] = theirs
    return row


HEAD = ("problem", "objective", "queries", "method", "value", "gap", "assemble s", "design s", "peak GiB")
DENSE_HEAD = ("above dense", "bound below", "dense s")


def cells(row: dict[str, Any], has_dense: bool) -> list[str]:
    """One row of the table, as text. Totals are given per query."""
    is_total = row["objective"] in ("total", "within")
    value = row["achieved"] / row["queries"] if is_total else row["achieved"]
    text = [
        row["problem"],
        row["objective"],
        f"{row['queries']:,}",
        row["method"],
        f"{value:.7g}",
        f"{row['gap']:.1e}",
        f"{row['assemble']:.2f}",
        f"{row['design']:.2f}",
        f"{row['peak']:.2f}",
    ]
    if has_dense:
        text += [*(f"{100 * row[name]:z.3f} %" for name in ("above", "below")), f"{row['dense']:.2f}"]
    return text


# Ten million records -------------------------------------------------------------------------

SIZES = (*(100,) * 2, *(20,) * 4, *(10,) * 6, *(5,) * 4, *(2,) * 4)


def people() -> ln.Schema:
    """Twenty attributes, two of them ordered and long."""
    return ln.Schema(**{f"a{k}": range(size) for k, size in enumerate(SIZES)})


def asked_of_people(kind: str) -> ln.Workload:
    """All tables of at most two attributes, or distributions crossed with everything else."""
    schema = people()
    if kind == "tables":
        return ln.assemble([ln.Cube(*schema.names, order=2)], schema)
    first, second, *others = schema.names
    single: list[ln.Query] = [ln.Prefix(first), ln.Prefix(second), *map(ln.Marginal, others)]
    crossed = [a * b for a, b in combinations(single, 2)]
    return ln.assemble([*single, *crossed], schema)


def write_people(path: Path, rows: int) -> None:
    """A Parquet file of independent attributes: hashed row numbers, the same in every run."""
    import duckdb

    columns = ", ".join(f"(hash(i, {k}) % {size})::INTEGER AS a{k}" for k, size in enumerate(SIZES))
    duckdb.execute(f"COPY (SELECT {columns} FROM range({rows}) AS r(i)) TO '{path}' (FORMAT parquet)")


def source_of(path: str, engine: str) -> Any:
    """The file itself, which DuckDB reads within the process, or a Spark table over it."""
    if engine == "duckdb":
        return path
    import ibis
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").config("spark.log.level", "OFF").getOrCreate()
    return ibis.pyspark.connect(session).read_parquet(path)


def released(path: str, kind: str, engine: str) -> dict[str, Any]:
    """Seconds of every step by the clock, and the processor seconds and peak of this process."""
    clock, spent = [time.perf_counter()], time.process_time()

    def lap() -> float:
        clock.append(time.perf_counter())
        return clock[-1] - clock[-2]

    workload = asked_of_people(kind)
    plan = ln.design(workload, ln.ApproxDP(epsilon=1, delta=1e-6))
    design = lap()
    source = source_of(path, engine)
    opened = lap()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ln.measure(plan, source)
    measure = lap()
    answers = len(release.answers)
    return {
        "queries": answers,
        "gap": plan.certificate.gap,
        "design": design,
        "open": opened,
        "measure": measure,
        "answers": lap(),
        "processor": time.process_time() - spent,
        "peak": peak(),
    }


def print_rows(arguments: argparse.Namespace) -> None:
    """The table of whole releases."""
    print(f"\n{arguments.rows:,} records of {len(SIZES)} attributes, a Parquet file; seconds by the clock\n")
    steps = ("design", "open", "measure", "answers")
    names = ("asked", "engine", "counts", "gap", *(f"{step} s" for step in steps), "processor s", "peak GiB")
    print("| " + " | ".join(names) + " |\n" + "|" + "---|" * len(names), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        write_people(path, arguments.rows)
        for engine in arguments.engines.split(","):
            for kind in ("tables", "distributions"):
                found = in_own_process("--release", str(path), kind, engine)
                if isinstance(found, str):
                    text = [kind, engine, found]
                else:
                    numbers = [f"{found[step]:.2f}" for step in steps]
                    rest = [f"{found['processor']:.2f}", f"{found['peak']:.2f}"]
                    text = [kind, engine, f"{found['queries']:,}", f"{found['gap']:.1e}", *numbers, *rest]
                print("| " + " | ".join(text) + " |", flush=True)


# Running -------------------------------------------------------------------------------------


def in_own_process(*words: str, patience: float = 1800.0) -> dict[str, Any] | str:
    """What a process of its own has measured, or why there is nothing."""
    try:
        done = subprocess.run(
            [sys.executable, __file__, *words], capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return f"killed after {patience:.0f} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print one table for every group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join([*GROUPS, "rows"]), help="groups, as in cubes,rows")
    parser.add_argument("--match", default="", help="only lines whose problem or objective holds this")
    parser.add_argument("--method", help="instead of each problem's own")
    parser.add_argument("--rows", type=int, default=10_000_000, help="records of the group rows")
    parser.add_argument("--engines", default="duckdb", help="of the group rows: duckdb, spark")
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--release", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.release:
        print(json.dumps(released(*arguments.release)))
        return
    if arguments.row:
        group, number = arguments.row
        print(json.dumps(measured(list(GROUPS[group]())[int(number)], arguments.method)))
        return
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - {*GROUPS, "rows"}:
        parser.error(f"--only knows {', '.join(GROUPS)}, rows, not {', '.join(sorted(unknown))}")
    print(
        f"`python benchmarks/scale.py {' '.join(sys.argv[1:])}`, load {os.getloadavg()[0]:.1f} at the start"
    )
    for group in (name for name in chosen if name != "rows"):
        problems = list(GROUPS[group]())
        has_dense = any(problem.has_dense for problem in problems)
        head = HEAD + (DENSE_HEAD if has_dense else ())
        print(f"\n{group}\n\n| " + " | ".join(head) + " |\n" + "|" + "---|" * len(head), flush=True)
        for number, problem in enumerate(problems):
            if arguments.match not in f"{problem.name} {problem.objective}":
                continue
            words = ["--row", group, str(number)]
            found = in_own_process(*words, *(["--method", arguments.method] if arguments.method else []))
            early = [problem.name, problem.objective, found] if isinstance(found, str) else None
            print("| " + " | ".join(early or cells(found, has_dense)) + " |", flush=True)  # type: ignore[arg-type]
    if "rows" in chosen:
        print_rows(arguments)


if __name__ == "__main__":
    main()
