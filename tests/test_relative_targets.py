"""Targets in per cent of a public size."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import leastnoise as ln
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import QueryError, SpecError
from leastnoise.query import Query, query_from_dict
from support import refuses
from tolerances import ROUNDING, SOLVER

EVERY_KIND: list[Query] = [
    ln.Total(),
    ln.Marginal("a"),
    ln.Cube("a", "b", order=1),
    ln.Prefix("a"),
    ln.AllRanges("a"),
    ln.Ranges("a", [(0, 1)]),
    ln.Where("a >= 1"),
    ln.Prefix("a") * ln.Marginal("b"),
    ln.Linear([[1, 2]], ["x"]),
]


def test_a_share_is_taken_of_the_expected_size() -> None:
    assert ln.Marginal("region", expected=20_000, stderr="5%").target == 1_000
    target = ln.Total(expected=2_000, within=("10%", 0.95)).target
    assert target == pytest.approx(200 / norm.isf(0.025), rel=ROUNDING)
    # In counts everything is as it was, whatever is expected.
    assert ln.Total(stderr=50).target == ln.Total(stderr=50, expected=7).target == 50
    assert ln.Total(expected=7).target is None


@pytest.mark.parametrize("query", EVERY_KIND, ids=lambda query: query.kind)
def test_every_kind_takes_shares_and_is_saved_with_them(query: Query) -> None:
    for target in ({"stderr": "2.5%"}, {"within": ("10 %", 0.9)}):
        changed = query.having(expected=400, **target)
        assert type(changed) is type(query)
        again = query_from_dict(json.loads(json.dumps(changed.to_dict())))
        assert again == changed
        assert again.target == changed.target
        assert repr(again) == repr(changed)
        assert "expected=400.0" in repr(changed)
        assert changed.having(expected=None, stderr=None, within=None) == query
        assert changed.having(stderr=3).target == 3
        assert changed.having(expected=800).target == 2 * changed.target  # type: ignore[operator]
    with refuses(QueryError, "expected", None):
        query.having(stderr="5%")


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e9), st.sampled_from(["{}%", " {} % "]))
def test_a_share_keeps_its_digits(percent: float, expected: float, form: str) -> None:
    text = np.format_float_positional(percent)
    query = ln.Total(expected=expected, stderr=form.format(text))
    assert query.target == pytest.approx(percent / 100 * expected, rel=ROUNDING)
    assert query == ln.Total(expected=expected, stderr=f"{text}%")
    assert query_from_dict(query.to_dict()) == query


@pytest.mark.parametrize("written", ["5%", "5 %", " 5% ", "5.0%", "05%", "5.%", "5.000 %"])
def test_one_share_has_one_spelling(written: str) -> None:
    query = ln.Total(expected=100, stderr=written)
    assert query.stderr == "5%"
    assert query.to_dict() == {"kind": "total", "stderr": "5%", "expected": 100.0}


@pytest.mark.parametrize(
    ("common", "refusal"),
    [
        ({"stderr": "5%"}, ("expected", None, "stderr='5%' is a share")),
        ({"within": ("5%", 0.9)}, ("expected", None, "within=('5%', 0.9) is a share")),
        ({"stderr": "0%"}, ("stderr", "0%")),
        ({"stderr": "-5%"}, ("stderr", "-5%")),
        ({"stderr": "%"}, ("stderr", "%")),
        ({"stderr": "1e3%"}, ("stderr", "1e3%")),
        ({"stderr": "nan%"}, ("stderr", "nan%")),
        ({"stderr": "٥%"}, ("stderr", "٥%")),
        ({"stderr": "5%%"}, ("stderr", "5%%")),
        ({"within": ("x%", 0.9)}, ("within", "x%")),
        ({"stderr": "5"}, ("stderr", "5", "a share of expected=")),
        ({"within": ("5%", 0.9, 1), "expected": 5}, ("within", ("5%", 0.9, 1))),
        ({"within": ("5%", 2), "expected": 5}, ("within", ("5%", 2))),
        ({"within": ("5%", None), "expected": 5}, ("within", ("5%", None))),
        ({"expected": 0}, ("expected", 0)),
        ({"expected": -1}, ("expected", -1)),
        ({"expected": math.inf}, ("expected", float("inf"))),
        ({"expected": math.nan}, ("expected", math.nan)),
        ({"expected": "5"}, ("expected", "5", "for rows of different sizes give a list")),
        ({"expected": True}, ("expected", True)),
        ({"expected": {"a": 5}}, ("expected", {"a": 5})),
        ({"expected": []}, ("expected", ())),
        ({"expected": [1, -2]}, ("expected[1]", -2)),
        ({"expected": [1, 0, 3]}, ("expected[1]", 0)),
        ({"expected": [1, True]}, ("expected[1]", True)),
        ({"expected": [math.nan]}, ("expected[0]", math.nan)),
        ({"expected": [[1, 2], [3, 4]]}, ("expected[0]", list)),
        ({"expected": np.ones((2, 2))}, ("expected[0]", np.ndarray)),
        ({"expected": 1e308, "stderr": "100000000000%"}, ("stderr", "100000000000%")),
        ({"expected": 1e-308, "stderr": "0.00000000000000001%"}, ("stderr", "0.00000000000000001%")),
    ],
)
def test_what_is_no_share_is_refused(common: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    for make in (lambda: ln.Total(**common), lambda: ln.Marginal("a", **common)):
        with refuses(QueryError, *refusal):
            make()


def test_targets_tell_themselves_and_can_be_relaxed() -> None:
    cases = [
        (ln.Total(), "", ""),
        (ln.Total(stderr=1500), "std. error 1,500", "std. error 3,000"),
        (ln.Total(stderr=2.5e7), "std. error 2.5e+07", "std. error 5e+07"),
        (ln.Total(within=(100, 0.95)), "±100 at 95%", "±200 at 95%"),
        (ln.Total(expected=20_000, stderr="5%"), "std. error 5% of 20,000", "std. error 10% of 20,000"),
        # ± is at 95 % alone.
        (
            ln.Total(expected=200, within=("0.1%", 0.5)),
            "within 0.1% of 200 at 50%",
            "within 0.2% of 200 at 50%",
        ),
    ]
    for query, words, relaxed in cases:
        assert query.target_to_text() == words
        wider = query.relaxed(2)
        assert wider.target_to_text() == relaxed
        if query.target is not None:
            assert wider.target == pytest.approx(2 * query.target, rel=ROUNDING)


SPEC = """
[schema]
region = ["n", "s"]
[[query]]
kind = "marginal"
attributes = ["region"]
expected = 20000
TARGET
"""


@pytest.mark.parametrize(
    ("target", "stderr"), [('stderr = "5%"', 1000), ('within = ["10%", 0.95]', 2000 / norm.isf(0.025))]
)
def test_a_specification_holds_shares(target: str, stderr: float) -> None:
    spec = parse_spec(SPEC.replace("TARGET", target))
    again = parse_spec(spec.to_toml())
    assert again.queries == spec.queries
    plan = ln.design(again.workload)
    assert plan.factor is not None
    assert plan.factor <= 1
    assert plan.stderr is not None
    assert plan.stderr.max() == pytest.approx(stderr, rel=SOLVER)
    with refuses(SpecError, "query[0].expected", None):
        parse_spec(SPEC.replace("TARGET", target).replace("expected = 20000", ""))


def test_a_saved_plan_keeps_its_shares(tmp_path: Any) -> None:
    schema = ln.Schema(a=range(3), b=range(2))
    query = ln.Marginal("a", expected=50, stderr="4%")
    plan = ln.design(ln.assemble([query], schema))
    again = ln.load_plan(plan.save(tmp_path / "a.plan"))
    assert again.workload.blocks[0].query == query
    assert again.digest == plan.digest
    # The share and the same number of counts are different requests for the same noise.
    in_counts = ln.design(ln.assemble([query.having(stderr=2, expected=None)], schema))
    assert in_counts.digest != plan.digest
    assert in_counts.mu == plan.mu
