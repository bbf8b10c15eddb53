"""leastnoise beside what a user can install today: error and time, in one run.

    pip install -e '.[peers]'          # in an environment of its own: jax-privacy brings JAX
    python benchmarks/peers.py         # about half an hour on two cores; --quick takes two minutes
    python benchmarks/peers.py --hdmm hdmm/src --only 'strips 32²,prefix 256'

Every contender runs in a process of its own, once on one core and once on all of them. Error is the
variance per query at profile 1 (Gaussian noise of μ = 1), or the largest variance where that is sought; the
bound beside it is proved by leastnoise and holds for every contender that adds Gaussian noise to linear
measurements. Seconds are those of the contender's own call, its compilation included, imports not.

    jax-privacy   matrix_factorization.dense.optimize, as its documentation calls it
    cvxpy-scs     the semidefinite program, solved by SCS at its default tolerance
    opendp-tree   binary tree, noise on every node, OpenDP's own consistency step; simulated
    mbi           equal Gaussian noise on every marginal, mirror descent; simulated on a made-up table
    hdmm          its templates for Gaussian noise, the best of three draws; its code is not installed from a
                  registry and has another licence, so it is run from the path given
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

N_RUNS = 200
SEED = 2026

WORKLOADS = {
    "prefix 64, largest": ("prefix", 64, "largest"),
    "prefix 256": ("prefix", 256, "total"),
    "prefix 256, largest": ("prefix", 256, "largest"),
    "prefix 1024": ("prefix", 1024, "total"),
    "all ranges 256": ("ranges", 256, "total"),
    "strips 32²": ("strips", 32, "total"),
    "strips 64²": ("strips", 64, "total"),
    "2-way marginals, 5 of 10": ("marginals", 10, "total"),
}
QUICK = ("prefix 64, largest", "prefix 256", "2-way marginals, 5 of 10")


def matrix_of(kind: str, n: int) -> Any:
    """A workload as rows; for all ranges, rows with the same Gram matrix and the number of queries."""
    if kind == "prefix":
        return np.tril(np.ones((n, n))), n
    if kind == "strips":
        prefix, cells = np.tril(np.ones((n, n))), np.eye(n)
        return np.vstack([np.kron(prefix, cells), np.kron(cells, prefix)]), 2 * n * n
    i, j = np.indices((n, n))
    gram = (np.minimum(i, j) + 1.0) * (n - np.maximum(i, j))
    return np.linalg.cholesky(gram).T, n * (n + 1) // 2


def leastnoise(kind: str, n: int, goal: str) -> dict[str, Any]:
    import leastnoise as ln

    if kind == "marginals":
        schema = ln.Schema(**{f"a{k}": range(n) for k in range(5)})
        asked = [ln.Cube(*schema.names, order=(2,))]
    elif kind == "strips":
        schema = ln.Schema(x=range(n), y=range(n))
        asked = [ln.Prefix("x") * ln.Marginal("y"), ln.Marginal("x") * ln.Prefix("y")]
    else:
        schema = ln.Schema(x=range(n))
        asked = [ln.Prefix("x") if kind == "prefix" else ln.AllRanges("x")]
    workload = ln.assemble(asked, schema)
    objective = ln.MaxVariance() if goal == "largest" else ln.TotalVariance()
    began = time.perf_counter()
    found = ln.design(workload, ln.GDP(mu=1), objective=objective).certificate
    seconds = time.perf_counter() - began
    m = 1 if goal == "largest" else workload.shape[0]
    return {"error": found.achieved / m, "bound": found.lower_bound / m, "seconds": seconds}


def jax_privacy(kind: str, n: int, goal: str) -> dict[str, Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import dense

    A, m = matrix_of(kind, n)
    began = time.perf_counter()
    reduction = jnp.max if goal == "largest" else jnp.mean
    C = np.asarray(dense.optimize(n, A=jnp.asarray(A), reduction_fn=reduction))
    seconds = time.perf_counter() - began
    return {"error": error_of(A, C, m, goal), "seconds": seconds}


def error_of(A: Any, C: Any, m: int, goal: str) -> float:
    """The variance per query of a strategy with its largest column norm 1, computed here, not by a peer."""
    sensitivity = np.square(C).sum(axis=0).max()
    variances = np.square(np.linalg.lstsq(C.T, A.T, rcond=None)[0]).sum(axis=0) * sensitivity
    return float(variances.max() if goal == "largest" else variances.sum() / m)


def cvxpy_scs(kind: str, n: int, goal: str) -> dict[str, Any]:
    import cvxpy

    A, m = matrix_of(kind, n)
    X = cvxpy.Variable((n, n), PSD=True)
    if goal == "largest":
        cost = cvxpy.max(cvxpy.hstack([cvxpy.matrix_frac(row, X) for row in A]))
    else:
        cost = cvxpy.matrix_frac(A.T, X)
    began = time.perf_counter()
    problem = cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.diag(X) <= 1])
    problem.solve(solver="SCS")
    seconds = time.perf_counter() - began
    values, vectors = np.linalg.eigh(X.value)
    C = (vectors * np.sqrt(np.maximum(values, 0))).T
    return {"error": error_of(A, C, m, goal), "seconds": seconds, "note": problem.status}


def opendp_tree(kind: str, n: int, goal: str) -> dict[str, Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    dp.set_default_int_type("i64")  # 32 bits unless asked
    n_levels = n.bit_length()
    # One person is in one node of each level, so σ² is the number of levels at μ = 1.
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    began = time.perf_counter()
    tree = dp.t.make_b_ary_tree(*space, leaf_count=n, branching_factor=2)
    noisy = dp.m.make_gaussian(tree.output_domain, dp.l2_distance(T="f64"), scale=math.sqrt(n_levels))
    consistent = dp.t.make_consistent_b_ary_tree(2, TIA="i64")
    counts = [100] * n
    nodes = tree(counts)
    squares = 0.0
    for _ in range(N_RUNS):
        errors = np.cumsum(np.asarray(consistent(noisy(nodes))) - 100.0)
        if kind == "prefix":
            squares += float(np.square(errors).mean())
        else:
            starts = np.concatenate([[0.0], errors])
            pairs = np.square(starts[:, None] - starts[None, :])
            squares += float(pairs[np.triu_indices(n + 1, 1)].mean())
    seconds = time.perf_counter() - began
    return {"error": squares / N_RUNS, "seconds": seconds / N_RUNS, "note": f"mean of {N_RUNS} releases"}


def mbi(kind: str, n: int, goal: str) -> dict[str, Any]:
    import itertools

    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi

    generator = np.random.default_rng(SEED)
    names = [f"a{k}" for k in range(5)]
    table = generator.integers(n, size=(100_000, 5))
    pairs = list(itertools.combinations(range(5), 2))
    domain = mbi.Domain(names, [n] * 5)
    sigma = math.sqrt(len(pairs))  # one person is in one cell of each marginal
    truth = {pair: np.histogramdd(table[:, pair], bins=(range(n + 1),) * 2)[0] for pair in pairs}
    measured = [
        mbi.LinearMeasurement(
            (counts + generator.normal(0, sigma, counts.shape)).flatten(),
            tuple(names[k] for k in pair),
            sigma,
        )
        for pair, counts in truth.items()
    ]
    began = time.perf_counter()
    model = mbi.estimation.MirrorDescent().estimate(domain, measured)
    errors = [
        np.square(np.asarray(model.project(tuple(names[k] for k in pair)).datavector()) - counts.flatten())
        for pair, counts in truth.items()
    ]
    seconds = time.perf_counter() - began
    return {"error": float(np.mean(errors)), "seconds": seconds, "note": "one table, one draw, non-negative"}


def hdmm(kind: str, n: int, goal: str) -> dict[str, Any]:
    from hdmm import matrix, templates, workload

    def plainly(operator: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return abs(operator) if ufunc is np.absolute else operator.__rmul__(inputs[0])

    # Newer versions of SciPy refuse functions of NumPy on what HDMM derives its matrices from.
    matrix.EkteloMatrix.__array_ufunc__ = plainly
    if kind == "marginals":
        asked: Any = workload.DimKMarginals([n] * 5, 2)
        m = 10 * n * n
    elif kind == "strips":
        prefix, cells = workload.Prefix(n), matrix.Identity(n)
        asked = matrix.VStack([matrix.Kronecker([prefix, cells]), matrix.Kronecker([cells, prefix])])
        m = 2 * n * n
    else:
        asked = workload.Prefix(n) if kind == "prefix" else workload.AllRange(n)
        m = asked.shape[0]
    np.random.seed(SEED)  # noqa: NPY002, it draws its own seeds from these numbers
    errors, seconds = [], 0.0
    for _ in range(_DRAWS if kind in ("marginals", "strips") else 1):
        began = time.perf_counter()
        if kind == "marginals":
            template = templates.Marginals([n] * 5, approx=True)
        elif kind == "strips":
            template = templates.BestHD([n, n], 2, approx=True)
        else:
            template = templates.OPT0(n, approx=True)
        claimed = template.optimize(asked)
        seconds += time.perf_counter() - began
        if kind == "marginals":  # a hundred thousand cells are not written out
            errors.append(claimed / m)
        else:
            G = template.strategy().gram().dense_matrix()
            G = np.asarray(G.todense() if hasattr(G, "todense") else G)
            errors.append(error_of_gram(asked.gram().dense_matrix(), G, m))
    note = f"best of {len(errors)}, worst {max(errors):.6f}"
    return {"error": min(errors), "seconds": seconds, "note": note}


# How often HDMM starts from other random numbers.
_DRAWS = 3


def error_of_gram(V: Any, G: Any, m: int) -> float:
    """The variance per query of a strategy with Gram matrix G, its largest column norm 1."""
    return float(np.vdot(V, np.linalg.pinv(G, hermitian=True)) * G.diagonal().max() / m)


Contender = Callable[[str, int, str], dict[str, Any]]

CONTENDERS: dict[str, Contender] = {
    "leastnoise": leastnoise,
    "jax-privacy": jax_privacy,
    "cvxpy-scs": cvxpy_scs,
    "opendp-tree": opendp_tree,
    "mbi": mbi,
    "hdmm": hdmm,
}


def why_not(contender: str, kind: str, n: int, goal: str) -> str | None:
    """Why a contender has no turn at a workload."""
    if contender == "hdmm":
        return "made for the total alone" if goal == "largest" else None
    if kind == "strips" and contender != "leastnoise":
        return "no crossed axes"
    if (contender == "mbi") != (kind == "marginals") and contender != "leastnoise":
        return "marginals alone" if contender == "mbi" else "no matrix that large"
    if contender == "opendp-tree" and goal == "largest":
        return "made for no objective"
    # SCS needs memory and time like the square of the number of entries of a matrix.
    if contender == "cvxpy-scs" and n > (64 if goal == "largest" else 256):
        return "hours, by its own growth"
    return None


def measured(
    contender: str, workload: str, n_cores: int | None, limit: float, path: str | None
) -> dict[str, Any]:
    """What one contender gives, in a process of its own, where HDMM's code is at the path."""
    command = [sys.executable, __file__, "--one", contender, workload]
    command += [] if n_cores is None else ["--cores", str(n_cores)]
    command += [] if path is None else ["--hdmm", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"note": f"over {limit:.0f} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no words"]
        return {"note": last[0][:90]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three workloads, one minute for each contender")
    parser.add_argument(
        "--limit", type=float, help="seconds for one contender; 300 unless given, 60 with --quick"
    )
    parser.add_argument("--one", nargs=2, metavar=("CONTENDER", "WORKLOAD"), help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--hdmm", metavar="PATH", help="the folder that holds HDMM's package")
    parser.add_argument("--only", help="workloads, by name, separated by commas")
    given = parser.parse_args()
    if given.hdmm:
        sys.path.insert(0, given.hdmm)
    if given.one:
        if given.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
        print(json.dumps(CONTENDERS[given.one[0]](*WORKLOADS[given.one[1]])))
        return
    limit = given.limit or (60.0 if given.quick else 300.0)
    print(f"{'workload':<26}{'contender':<14}{'error':>12}{'above bound':>13}{'one core':>11}{'all':>9}")
    chosen = given.only.split(",") if given.only else QUICK if given.quick else WORKLOADS
    for workload in chosen:
        bound = None
        for contender in CONTENDERS:
            if contender == "hdmm" and not given.hdmm:
                continue
            why = why_not(contender, *WORKLOADS[workload])
            if why is not None:
                print(f"{workload:<26}{contender:<14}  – {why}")
                continue
            one = measured(contender, workload, 1, limit, given.hdmm)
            whole = measured(contender, workload, None, limit, given.hdmm)
            bound = one.get("bound", bound)
            error = one.get("error", whole.get("error"))
            shown = "–" if error is None else f"{error:.6f}"
            above = "–" if error is None or bound is None else f"{100 * (error / bound - 1):.4f} %"
            times = [f"{r['seconds']:.2f} s" if "seconds" in r else "–" for r in (one, whole)]
            note = one.get("note") or whole.get("note") or ""
            line = f"{workload:<26}{contender:<14}{shown:>12}{above:>13}{times[0]:>11}{times[1]:>9}  {note}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
