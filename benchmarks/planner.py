"""Processor seconds until the planner shows something: python benchmarks/planner.py

For each specification the time of the first estimate, of the nearer one where there is one, and of the plan.
"""

from __future__ import annotations

import time
from typing import Any

from leastnoise.app.planner.studies import study

TABLES = {
    "total": 'kind = "total"',
    "age by sex": 'kind = "marginal"\nattributes = ["age", "sex"]',
    "age": 'kind = "marginal"\nattributes = ["age"]',
    "running total": 'kind = "prefix"\nattribute = "age"',
    "running total ± 50": 'kind = "prefix"\nattribute = "age"\nwithin = [50, 0.95]',
}
# Ages, tables, and whether the plan is waited for: the last takes minutes, and its estimates are what counts.
CASES = (
    (250, ("total", "age by sex"), True),
    (250, ("total", "age by sex", "running total"), True),
    (2500, ("total", "age by sex", "age"), True),
    (2500, ("total", "age", "running total ± 50"), False),
)


def specification(ages: int, tables: tuple[str, ...]) -> str:
    """A specification of some tables over ages and two sexes."""
    head = (
        f'[schema]\nage = {{ range = [0, {ages}] }}\nsex = ["F", "M"]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n'
    )
    return head + "".join(f"[[query]]\n{TABLES[name]}\n" for name in tables)


def main() -> None:
    """Print one line per thing that is told."""
    for ages, tables, is_whole in CASES:
        started = time.process_time()
        for said in study(specification(ages, tables), lambda progress: None):
            view: dict[str, Any] = said.get("view", {})
            spent = time.process_time() - started
            print(f"{2 * ages:,} cells, {', '.join(tables)}: {said['kind']} after {spent:.2f} s", flush=True)
            is_near = said["kind"] == "estimate" and view["source"] != "simpler noise"
            if said["kind"] == "plan" or (not is_whole and is_near):
                break


if __name__ == "__main__":
    main()
