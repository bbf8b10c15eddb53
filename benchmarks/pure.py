"""Pure privacy on thirteen shapes of workloads at three sizes each, and HDMM beside it.

    OMP_NUM_THREADS=1 python benchmarks/pure.py                       # all sizes: some minutes
    OMP_NUM_THREADS=1 python benchmarks/pure.py --sizes 1 --only windows ema
    OMP_NUM_THREADS=1 python benchmarks/pure.py --hdmm PATH           # PATH holds the package `hdmm`
    OMP_NUM_THREADS=1 python benchmarks/pure.py --random 10 --seed 7  # workloads drawn at random instead

The error is the total variance at ε = 1 in units of 2/ε², that is Δ₁² trace(WᵀW (AᵀA)⁺) for the integer rows
that a plan measures. HDMM's is what its own templates report, the least of 25 starts of each: p-identity with
n/16 and with n/8 sums, Kronecker products of them, unions of those, and marginals. Its code (AGPL) is neither
copied nor installed here; clone it and give the path (with NumPy 2 its matrix.py needs `abs(self)` for
`np.abs(self)`). Times are processor seconds of one core, of one design each and of
all starts of HDMM together. `--largest` is about the largest variance of prefix sums instead, `--joint` about
the rows that `joint` finds for Gaussian noise, weighed for Laplace noise.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.planning import Request
from leastnoise.planning.families.weighted_basis import WeightTurns
from leastnoise.planning.refinement import refine, total_of

# Starts of every template of HDMM, as its authors run it; fewer where one takes long.
STARTS = 25

# Seconds after which no further start of a template of HDMM is taken.
LONG = 30.0

# Rows of an attribute in one product: a matrix, "I" for every value, "T" for their total.
Factor = np.ndarray | str


@dataclass(frozen=True, eq=False)
class Case:
    """A workload: products of rows over attributes, each with a weight; one attribute is a matrix.

    Attributes:
        sizes: values of each attribute.
        products: the weight of every product, and its rows along each attribute.
        workload: the same for leastnoise.
    """

    name: str
    sizes: tuple[int, ...]
    products: tuple[tuple[float, tuple[Factor, ...]], ...]
    workload: ln.Workload

    @property
    def are_marginals(self) -> bool:
        """Whether every product is a cross table."""
        return all(isinstance(rows, str) for _, factors in self.products for rows in factors)


def _matrix(name: str, W: np.ndarray) -> Case:
    return Case(name, (W.shape[1],), ((1.0, (W,)),), ln.Workload.from_matrix(W))


def _union(name: str, sizes: Sequence[int], products: Sequence[tuple[float, Sequence[Factor]]]) -> Case:
    """Products over attributes a0, a1, …, of rows that `Linear` takes as they are."""
    schema = ln.Schema(**{f"a{k}": range(n) for k, n in enumerate(sizes)})
    queries = []
    for number, (weight, factors) in enumerate(products):
        query: Any = None
        for k, rows in enumerate(factors):
            if isinstance(rows, str) and rows == "T":
                continue
            own = ln.Marginal(f"a{k}") if isinstance(rows, str) else _along(f"a{k}", rows)
            query = own if query is None else query * own
        query = ln.Total() if query is None else query
        queries.append(query.having(name=f"p{number}", weight=weight))
    workload = ln.assemble(queries, schema)
    return Case(name, tuple(sizes), tuple((w, tuple(f)) for w, f in products), workload)


def _along(attribute: str, rows: np.ndarray) -> Any:
    """Rows over one attribute: prefix sums, all ranges, or a list of ranges."""
    n = rows.shape[1]
    if rows.shape == (n, n) and np.array_equal(rows, prefix(n)):
        return ln.Prefix(attribute)
    if len(rows) == n * (n + 1) // 2 and np.array_equal(rows, all_ranges(n)):
        return ln.AllRanges(attribute)
    ends = [(int(np.flatnonzero(row)[0]), int(np.flatnonzero(row)[-1])) for row in rows]
    return ln.Ranges(attribute, ends)


def prefix(n: int) -> np.ndarray:
    """All sums from the first value on."""
    return np.tril(np.ones((n, n)))


def all_ranges(n: int) -> np.ndarray:
    """All sums of consecutive values."""
    low, high = np.triu_indices(n)
    place = np.arange(n)
    return ((low[:, None] <= place) & (place <= high[:, None])).astype(float)


def windows(n: int, width: int) -> np.ndarray:
    """All sums of so many consecutive values."""
    start, place = np.arange(n - width + 1)[:, None], np.arange(n)
    return ((start <= place) & (place < start + width)).astype(float)


def bins(n: int, widths: Sequence[int]) -> np.ndarray:
    """Consecutive bins of every width, the last of each perhaps narrower."""
    place = np.arange(n)
    return np.vstack(
        [(place // width == np.arange(-(-n // width))[:, None]).astype(float) for width in widths]
    )


def _average(n: int, share: float) -> np.ndarray:
    """Exponential moving averages: row i weighs value j by share (1 − share)^(i − j)."""
    back = np.subtract.outer(np.arange(n), np.arange(n))
    return np.where(back >= 0, share * (1 - share) ** np.maximum(back, 0), 0.0)


def _few(n: int, count: int, seed: int) -> np.ndarray:
    ends = np.sort(np.random.default_rng(seed).integers(0, n, (count, 2)), axis=1)
    place = np.arange(n)
    return ((ends[:, :1] <= place) & (place <= ends[:, 1:])).astype(float)


def _low_rank(n: int, rank: int, m: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((m, rank)) @ generator.standard_normal((rank, n))


def _ways(sizes: Sequence[int], order: int, weights: Callable[[int], float]) -> list[Any]:
    places = range(len(sizes))
    sets = list(combinations(places, order))
    return [(weights(number), ["I" if k in own else "T" for k in places]) for number, own in enumerate(sets)]


def _tables_and_sums(sizes: Sequence[int]) -> list[Any]:
    """All pairs of attributes, and running sums along the first for every value of the second."""
    return [*_ways(sizes, 2, lambda _: 1.0), (1.0, [prefix(sizes[0]), "I", *["T"] * (len(sizes) - 2)])]


def _grid(n: int) -> list[Any]:
    return [(1.0, [prefix(n), "I"]), (1.0, ["I", prefix(n)])]


SHAPES: dict[str, Sequence[Callable[[], Case]]] = {
    "prefix": [lambda n=n: _matrix(f"prefix {n}", prefix(n)) for n in (64, 256, 1024)],
    "ranges": [
        lambda n=n: Case(
            f"all ranges {n}",
            (n,),
            ((1.0, (all_ranges(n),)),),
            ln.assemble([ln.AllRanges("a")], ln.Schema(a=range(n))),
        )
        for n in (64, 256, 512)
    ],
    "windows": [
        lambda n=n, w=w: _matrix(f"windows of {w} over {n}", windows(n, w))
        for n, w in ((64, 8), (256, 16), (512, 20))
    ],
    "calendar": [
        lambda n=n: _matrix(f"days, weeks, months, quarters over {n}", bins(n, (1, 7, 30, 91)))
        for n in (91, 182, 365)
    ],
    "ema": [lambda n=n: _matrix(f"moving averages over {n}", _average(n, 0.1)) for n in (64, 256, 512)],
    "rectangles": [
        lambda n=n: _union(f"rectangles {n}²", (n, n), [(1.0, [all_ranges(n)] * 2)]) for n in (8, 16, 48)
    ],
    "grid": [lambda n=n: _union(f"strips both ways {n}²", (n, n), _grid(n)) for n in (8, 16, 32)],
    "marginals": [
        lambda s=s: _union(f"pairs of {'×'.join(map(str, s))}", s, _ways(s, 2, lambda _: 1.0))
        for s in ((5, 4, 3), (8, 6, 5, 4), (10,) * 5)
    ],
    "weighted": [
        lambda s=s: _union(
            f"weighted pairs of {'×'.join(map(str, s))}", s, _ways(s, 2, lambda j: 1.0 + j * j)
        )
        for s in ((6, 5, 4), (9, 7, 6, 10), (12, 10, 8, 6, 4))
    ],
    "low rank": [
        lambda n=n, r=r, m=m: _matrix(f"rank {r}, {m} queries over {n}", _low_rank(n, r, m, 1))
        for n, r, m in ((32, 4, 32), (128, 8, 64), (512, 8, 256))
    ],
    "few ranges": [
        lambda n=n, m=m: _matrix(f"{m} ranges over {n}", _few(n, m, 2))
        for n, m in ((64, 10), (256, 20), (1024, 30))
    ],
    "hierarchy": [
        lambda n=n, b=b: _matrix(f"levels by {b} over {n}", bins(n, [b**k for k in range(20) if b**k <= n]))
        for n, b in ((64, 4), (256, 2), (729, 3))
    ],
    "tables": [
        lambda s=s: _union(f"pairs and running sums {'×'.join(map(str, s))}", s, _tables_and_sums(s))
        for s in ((20, 4, 3), (50, 8, 5, 4), (100, 20, 10, 10))
    ],
}


def random_cases(count: int, seed: int) -> Iterator[Case]:
    """Workloads of shapes and sizes drawn at random."""
    generator = np.random.default_rng(seed)

    def whole(low: int, high: int) -> int:
        return int(generator.integers(low, high + 1))

    def ranges(n: int) -> np.ndarray:
        return [prefix(n), windows(n, whole(1, n)), _few(n, whole(2, 2 * n), whole(0, 999)), all_ranges(n)][
            whole(0, 3)
        ]

    for number in range(count):
        kind = whole(0, 5)
        if kind == 0:
            n = whole(40, 400)
            yield _matrix(f"{number}: windows over {n}", windows(n, whole(2, n // 2)))
        elif kind == 1:
            n = whole(40, 400)
            yield _matrix(f"{number}: bins over {n}", bins(n, sorted({whole(1, n // 2) for _ in range(3)})))
        elif kind == 2:
            n = whole(40, 300)
            yield _matrix(f"{number}: random ranges over {n}", _few(n, whole(5, 2 * n), number))
        elif kind == 3:
            n, rank = whole(20, 200), whole(2, 12)
            yield _matrix(f"{number}: rank {rank} over {n}", _low_rank(n, rank, whole(rank, 2 * n), number))
        else:
            sizes = [whole(2, 16 if kind == 4 else 40) for _ in range(whole(2, 4))]
            terms = [
                (
                    float(whole(1, 5)),
                    [["I", "T", "T", ranges(n)][whole(0, 3)] for n in sizes],
                )
                for _ in range(whole(2, 5))
            ]
            distinct = {
                tuple(rows if isinstance(rows, str) else rows.tobytes() for rows in own): (weight, own)
                for weight, own in terms
            }
            yield _union(f"{number}: union over {'×'.join(map(str, sizes))}", sizes, list(distinct.values()))


def ours(case: Case, **more: Any) -> tuple[float, float, str]:
    """What a plan achieves per unit of noise, processor seconds, and the method that found it."""
    started = time.process_time()
    plan = ln.design(case.workload, ln.PureDP(1), **more)
    return plan.certificate.achieved / 2, time.process_time() - started, plan.method


def theirs(case: Case) -> tuple[float, float, str]:
    """The least error of HDMM's templates, processor seconds of all of them, and which it was."""
    from hdmm import matrix, templates, workload

    def rows(factor: Factor, n: int) -> Any:
        if isinstance(factor, str):
            return workload.Identity(n) if factor == "I" else workload.Total(n)
        return matrix.EkteloMatrix(factor)

    started = time.process_time()
    best, least = "", np.inf
    # The weight of a single product, which templates for products do not take.
    unit = 1.0
    if len(case.sizes) == 1:
        (n,) = case.sizes
        W = case.products[0][1][0]
        assert not isinstance(W, str)
        asked: Any = workload.ExplicitGram(W.T @ W)
        made: dict[str, Callable[[], Any]] = {
            f"n/{ratio}": lambda ratio=ratio: templates.PIdentity(max(n // ratio, 1), n) for ratio in (16, 8)
        }
        starts = STARTS
    else:
        parts = [
            np.sqrt(weight)
            * matrix.Kronecker([rows(factor, n) for factor, n in zip(factors, case.sizes, strict=True)])
            for weight, factors in case.products
        ]
        asked = matrix.VStack(parts) if len(parts) > 1 else parts[0].base
        unit = case.products[0][0] if len(parts) == 1 else 1.0
        made = {"Kronecker": lambda: templates.DefaultKron(case.sizes)}
        starts = STARTS
        if case.are_marginals:
            made["marginals"] = lambda: templates.Marginals(case.sizes)
    for name, make in made.items():
        began = time.process_time()
        for number in range(starts):
            np.random.seed(number)  # noqa: NPY002 - HDMM draws from it
            if time.process_time() - began > LONG and number:
                break
            loss = unit * float(make().optimize(asked))
            if loss < least:
                best, least = name, loss
    if len(case.sizes) > 1 and len(case.products) > 1:
        for number in range(5):
            np.random.seed(number)  # noqa: NPY002 - HDMM draws from it
            errors = [
                weight
                * float(
                    templates.DefaultKron(case.sizes).optimize(
                        matrix.Kronecker([rows(f, n) for f, n in zip(factors, case.sizes, strict=True)])
                    )
                )
                for weight, factors in case.products
            ]
            loss = float(sum(error ** (1 / 3) for error in errors) ** 3)
            if loss < least:
                best, least = "union", loss
    return least, time.process_time() - started, best


def _largest(sizes: Sequence[int]) -> None:
    print(f"{'workload':<30}  {'method':<12}  {'value':>9}  {'s':>6}")
    for n in sizes:
        case = _matrix(f"prefix {n}, largest variance", prefix(n))
        for method in ("p-identity", "auto"):
            largest, seconds, _ = ours(case, objective=ln.MaxVariance(), method=method)
            print(f"{case.name:<30}  {method:<12}  {largest:>9.4f}  {seconds:>6.2f}", flush=True)


def _total(V: np.ndarray, A: np.ndarray) -> float:
    """Δ₁² trace V (AᵀA)⁺."""
    return float(np.abs(A).sum(axis=0).max()) ** 2 * float(np.vdot(V, np.linalg.pinv(A.T @ A)))


def _joint(cases: Iterator[Case]) -> None:
    """Rows of products over free axis bases under Laplace noise: as they are, weighed, and refined."""
    print(f"{'workload':<34}  {'as they are':>12}  {'weighed':>12}  {'refined':>12}  {'design':>12}")
    for case in cases:
        workload = case.workload
        A = ln.design(workload, ln.GDP(1), method="joint").strategy.dense().astype(float)
        V = workload.weighted_gram(ln.TotalVariance().weights(workload))
        x = WeightTurns(Request(workload, ln.PureDP(1)), A / np.abs(A).max()).find().x
        weighed = (x[:, None] * A)[x > 0]
        found = refine(total_of(V * (len(V) / np.trace(V))), weighed, 150)
        totals = [_total(V, A), _total(V, weighed), np.nan if found is None else _total(V, found.rows)]
        shown = "  ".join(f"{total:>12.6g}" for total in (*totals, ours(case)[0]))
        print(f"{case.name:<34}  {shown}", flush=True)


def _compare(cases: Iterator[Case], is_beside: bool) -> None:
    print(
        f"{'workload':<46}  {'cells':>9}  {'value':>12}  {'s':>6}  {'method':<13}"
        + (f"  {'HDMM':>12}  {'s':>6}  {'template':<11}  {'ratio':>7}" if is_beside else "")
    )
    worst = 0.0
    for case in cases:
        error, seconds, method = ours(case)
        line = f"{case.name:<46}  {np.prod(case.sizes):>9}  {error:>12.6g}  {seconds:>6.1f}  {method:<13}"
        if is_beside:
            other, other_seconds, template = theirs(case)
            worst = max(worst, error / other)
            line += f"  {other:>12.6g}  {other_seconds:>6.1f}  {template:<11}  {error / other:>7.4f}"
        print(line, flush=True)
    if is_beside:
        print(f"largest ratio: {worst:.4f}")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SHAPES), default=list(SHAPES), help="shapes")
    parser.add_argument("--sizes", type=int, nargs="+", choices=(1, 2, 3), default=[1, 2, 3], help="which")
    parser.add_argument("--hdmm", metavar="PATH", help="folders with HDMM and what it imports, by colons")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N workloads drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--largest", type=int, nargs="+", metavar="N", help="largest variance of prefix sums")
    parser.add_argument("--joint", action="store_true", help="rows of `joint` under Laplace noise")
    arguments = parser.parse_args()
    if arguments.hdmm:
        sys.path.extend(arguments.hdmm.split(":"))
    # What is loaded when first used is not what is measured.
    ours(_matrix("prefix 16", prefix(16)))
    if arguments.largest:
        _largest(arguments.largest)
        return
    if arguments.random:
        cases = random_cases(arguments.random, arguments.seed)
    else:
        cases = (SHAPES[shape][size - 1]() for size in arguments.sizes for shape in arguments.only)
    if arguments.joint:
        _joint(cases)
        return
    _compare(cases, bool(arguments.hdmm))


def two_way_marginals() -> float:
    """The error per query of all pairs of five attributes of ten values, found without a matrix."""
    schema = ln.Schema(**{f"a{i}": range(10) for i in range(5)})
    asked = ln.assemble([ln.Cube(*schema.names, order=(2,))], schema)
    return ln.design(asked, ln.PureDP(math.sqrt(2)), method="marginals").certificate.achieved / 1000


if __name__ == "__main__":
    main()
