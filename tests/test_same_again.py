"""The same request gives the same plan, digest included, whatever process and hash seed it is made in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import leastnoise as ln
from leastnoise.core.resources import SMALL_FOR_THREADS
from leastnoise.planning import one_method
from leastnoise.planning.p_identity import coarse_to_fine as searches

# Small requests of every kind of search, none of them with a time limit.
REQUESTS = """
import json, sys, warnings
import numpy as np
import leastnoise as ln
warnings.simplefilter("ignore")
ages = ln.assemble([ln.Prefix("a"), ln.Marginal("a")], ln.Schema(a=range(12)))
caps = ln.assemble([ln.Prefix("a", stderr=3.0), ln.Marginal("a", stderr=2.0)], ln.Schema(a=range(12)))
schema = ln.Schema(b=range(3), a=range(4), c=("x", "y"))
union = ln.assemble([ln.Prefix("a"), ln.Prefix("b") * ln.Marginal("c"), ln.Marginal("a", "c")], schema)
tables = ln.assemble([ln.Marginal("a", "b"), ln.Marginal("c")], schema)
one = ln.assemble([ln.Prefix("a") * ln.Prefix("b")], schema)
gauss, pure, largest = ln.GDP(1), ln.PureDP(1), ln.MaxVariance()
found = {}
for name, workload, goal, objective, options in (
    ("dense", ages, gauss, None, {}),
    ("dense", ages, gauss, largest, {}),
    ("dense", caps, None, None, {}),
    ("dense", ages, ln.GDP(1, neighbours="replace-one"), None, {}),
    ("product", one, gauss, None, {}),
    ("product", one, pure, None, {}),
    ("marginals", tables, gauss, None, {}),
    ("marginals", tables, pure, None, {}),
    ("residuals", union, gauss, None, {}),
    ("eigen", ages, gauss, None, {}),
    ("weighted-basis", ages, pure, None, {}),
    ("coa", ages, gauss, None, {}),
    ("lowrank", ages, gauss, None, {}),
    ("smoothing", ages, gauss, None, {}),
    ("smii", ages, gauss, largest, {}),
    ("p-identity", ages, pure, None, {"starts": 4}),
    ("p-identity", ages, pure, None, {"starts": 4, "workers": 2}),
    ("datacube", tables, gauss, None, {}),
    ("fourier", tables, gauss, None, {}),
    ("dawa", ages, pure, None, {}),
):
    plan = ln.design(workload, goal, objective=objective, method=name, options=options)
    assert plan.ended != "deadline", (name, plan.note)
    found[f"{name} {goal} {objective} {options}"] = plan.digest
print(json.dumps(found))
"""


def digests(seed: str) -> dict[str, str]:
    source = Path(ln.__file__).parents[1]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)}
    ran = subprocess.run(
        [sys.executable, "-c", REQUESTS], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, str] = json.loads(ran.stdout)
    return found


@pytest.mark.thorough
def test_the_same_request_has_the_same_digest() -> None:
    first = digests("1")
    assert len(first) == len(set(first)) >= 20
    assert digests("2") == first


def test_few_cells_are_rounded_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the search had one thread; rounding to integers had as many as there were."""
    seen: dict[int, list[int]] = {}
    whole = one_method.plan_of

    def counted(*given: Any) -> Any:
        n = given[2].workload.shape[1]
        seen[n] = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        return whole(*given)

    monkeypatch.setattr(one_method, "plan_of", counted)
    with threadpool_limits(limits=2, user_api="blas"):
        for n in (SMALL_FOR_THREADS - 1, SMALL_FOR_THREADS):
            workload = ln.Workload.from_matrix(np.ones((1, n), dtype=int))
            ln.design(workload, ln.GDP(1), method="workload")
    assert max(seen[SMALL_FOR_THREADS - 1]) == 1 and max(seen[SMALL_FOR_THREADS]) == 2


def test_few_queries_over_many_cells_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dense` was given all threads for 66 rows over 16,464 cells: beside busy cores, 12 s and not 1 s."""
    seen: list[int] = []
    whole = one_method.plan_of

    def counted(*given: Any) -> Any:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return whole(*given)

    monkeypatch.setattr(one_method, "plan_of", counted)
    with threadpool_limits(limits=2, user_api="blas"):
        schema = ln.Schema(a=range(SMALL_FOR_THREADS), b=("x", "y"))
        ln.design(ln.assemble([ln.Marginal("b"), ln.Total()], schema), ln.GDP(1), method="dense")
    assert seen and max(seen) == 1


@pytest.mark.thorough
def test_loading_a_library_is_not_counted_as_searching() -> None:
    """SciPy was loaded within the time of the first start, which then was cut short, or not, by chance."""
    check = (
        "import sys, numpy as np\n"
        "from leastnoise.planning.p_identity import coarse_to_fine as searches\n"
        "from leastnoise.planning.p_identity.objective_function import problem_of_gram\n"
        "assert 'scipy.optimize' not in sys.modules\n"
        "loaded = []\n"
        "find = searches._StartSearch.find\n"
        "def told(self, generator):\n"
        "    loaded.append('scipy.optimize' in sys.modules)\n"
        "    return find(self, generator)\n"
        "searches._StartSearch.find = told\n"
        "effort = searches.Effort(None, 2, 10)\n"
        "searches.search(problem_of_gram(np.eye(6)), effort, np.random.default_rng(0))\n"
        "assert loaded == [True]\n"
    )
    source = Path(searches.__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    ran = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
