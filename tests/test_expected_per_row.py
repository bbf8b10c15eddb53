"""Relative targets of counts that differ in size: one public size for each row of a query."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import QueryError, SpecError
from leastnoise.query import query_from_dict
from support import refuses
from tolerances import ROUNDING, SOLVER

SCHEMA = ln.Schema(region=("n", "s", "w"), sex=("F", "M"))
SIZES = [20_000, 500, 60]


def test_each_row_has_its_share() -> None:
    query = ln.Marginal("region", expected=SIZES, stderr="5%")
    assert query.targets(SCHEMA).tolist() == [1_000, 25, 3]
    within = ln.Marginal("region", expected=np.array(SIZES), within=("10%", 0.95))
    assert within.targets(SCHEMA) == pytest.approx(np.array(SIZES) / 10 / norm.isf(0.025), rel=ROUNDING)
    # Whoever looks at one number for the whole query sees the strictest.
    assert query.target == 3
    # In counts all rows are alike, whatever is expected of them.
    assert ln.Marginal("region", expected=SIZES, stderr=7).targets(SCHEMA).tolist() == [7]
    assert ln.Marginal("region", expected=SIZES).targets(SCHEMA).tolist() == [np.inf]
    assert query.target_to_text() == "std. error 5% of 60 to 20,000"
    assert query.relaxed(2).targets(SCHEMA).tolist() == [2_000, 50, 6]
    assert ln.Marginal("region", expected=[70] * 3, stderr="5%").target_to_text() == "std. error 5% of 70"


def test_sizes_go_by_the_labels_of_a_cross_table() -> None:
    query = ln.Marginal("region", "sex", expected=range(100, 700, 100), stderr="1%")
    labels = list(query.labels(SCHEMA))
    assert dict(zip(labels, query.targets(SCHEMA), strict=True))["region s, sex M"] == 4


@pytest.mark.parametrize("sizes", [[1, 2], [1, 2, 3, 4]])
def test_a_wrong_number_of_sizes_is_refused(sizes: list[int]) -> None:
    query = ln.Marginal("region", expected=sizes, stderr="5%")
    rows = "'region n', 'region s', 'region w'"
    with refuses(QueryError, "expected", len(sizes), rows):
        query.targets(SCHEMA)
    with refuses(QueryError, "expected", len(sizes), rows):
        ln.assemble([query], SCHEMA)


def test_sizes_are_saved(tmp_path: Any) -> None:
    query = ln.Marginal("region", expected=SIZES, stderr="5%")
    assert query_from_dict(json.loads(json.dumps(query.to_dict()))) == query
    assert query != query.having(expected=[20_000, 500, 61])
    plan = ln.design(ln.assemble([query], SCHEMA))
    again = ln.load_plan(plan.save(tmp_path / "a.plan"))
    assert again.digest == plan.digest
    assert again.workload.targets.tolist() == [1_000, 25, 3]


def test_a_design_meets_every_row_and_pays_for_no_more() -> None:
    """One by one and as a list the request is the same, and so is its price."""
    sizes = SIZES[::-1]
    listed = ln.assemble([ln.Prefix("region", expected=sizes, stderr="5%")], SCHEMA)
    upto = ["region == 'n'", "region != 'w'", "region in ('n', 's', 'w')"]
    single = ln.assemble(
        [ln.Where(words, expected=size, stderr="5%") for words, size in zip(upto, sizes, strict=True)], SCHEMA
    )
    assert listed.targets.tolist() == single.targets.tolist() == [3, 25, 1_000]
    one, other = ln.design(listed), ln.design(single)
    assert one.mu == pytest.approx(other.mu, rel=SOLVER)
    assert one.mu is not None
    assert one.stderr is not None
    assert (one.stderr <= [3, 25, 1_000]).all()
    proved = ln.certify(listed, one)
    assert proved.status == "optimal"
    assert proved.lower_bound <= proved.achieved <= (1 + proved.gap) * proved.lower_bound * (1 + ROUNDING)
    # The twin that takes the strictest size for all rows pays for what nobody asked.
    twin = ln.design(ln.assemble([ln.Prefix("region", expected=min(sizes), stderr="5%")], SCHEMA))
    assert twin.mu is not None
    assert twin.certificate.lower_bound > one.certificate.achieved


def test_methods_for_products_do_not_take_the_first_size_for_all() -> None:
    """They know one target for each batch; a request with several must go to another, or be refused."""
    schema = ln.Schema({f"a{i}": range(2) for i in range(4)})
    sizes = np.full(16, 1_000.0)
    sizes[-1] = 10
    workload = ln.assemble([ln.Marginal(*schema.names, expected=sizes, stderr="10%")], schema)
    plan = ln.design(workload)
    assert plan.stderr is not None
    assert (plan.stderr <= workload.targets * (1 + ROUNDING)).all()
    for method in ("product", "marginals", "residuals"):
        with refuses(ln.LeastnoiseError, "method", ..., "one target for each batch"):
            ln.design(workload, method=method)


SPEC = """
[schema]
region = ["n", "s", "w"]
[[query]]
kind = "marginal"
attributes = ["region"]
expected = [20000, 500, 60]
stderr = "5%"
"""


def test_a_specification_holds_a_list() -> None:
    spec = parse_spec(SPEC)
    assert parse_spec(spec.to_toml()).queries == spec.queries
    assert spec.queries[0].targets(spec.schema).tolist() == [1_000, 25, 3]
    with refuses(SpecError, "query[0].expected", 2):
        parse_spec(SPEC.replace(", 60]", "]"))
    with refuses(SpecError, "query[0].expected[2]", -60):
        parse_spec(SPEC.replace(", 60]", ", -60]"))
