"""A table of designs: each of them, designed again, gives what it gave when the table was written.

Where a change makes designs better, write the table anew and look at the difference:
``python tests/golden_designs.py --write``.
"""

from __future__ import annotations

import os

import pytest

from golden_designs import design_named, differences, environment, table

SAID = table()

# A third of them on the light core, all of them where every extra is installed.
STRIDE = 1 if os.environ.get("LEASTNOISE_ALL_EXTRAS") else 3


@pytest.mark.parametrize("name", list(SAID["designs"])[::STRIDE])
def test_design_gives_what_it_gave(name: str) -> None:
    is_same_machine = SAID["environment"] == environment()
    then = SAID["designs"][name]
    assert differences(name, then, design_named(name), is_same_machine=is_same_machine) == []


def test_table_covers_every_method_and_both_ends() -> None:
    said = SAID["designs"]
    made = {name: then for name, then in said.items() if "refused" not in then}
    asked = [set(words) for words in zip(*(name.split("/") for name in made), strict=True)]
    assert [len(words) for words in asked] == [24, 9, 6, 23]
    assert {then["ended"] for then in made.values()} >= {"converged", "exhausted"}
    assert {then["status"] for then in made.values()} == {"optimal", "stopped", "heuristic", "data-dependent"}
    assert len(made) >= 200 and len(said) - len(made) >= 20


def test_a_design_that_differs_is_told() -> None:
    name, then = next(
        (name, then) for name, then in SAID["designs"].items() if then.get("status") == "optimal"
    )
    for changed in ({"achieved": then["achieved"] * 1.00001}, {"status": "stopped"}, {"ended": "exhausted"}):
        for is_same_machine in (True, False):
            assert differences(name, then, {**then, **changed}, is_same_machine=is_same_machine), (
                name,
                changed,
            )
    assert differences(name, then, {**then, "digest": ""}, is_same_machine=True)
    assert differences(name, then, {"refused": "MethodError"}, is_same_machine=False)
    name, then = next((name, then) for name, then in SAID["designs"].items() if name.endswith("/smoothing"))
    assert not differences(name, then, {**then, "achieved": 1.1 * then["achieved"]}, is_same_machine=False)
    assert differences(name, then, {**then, "achieved": 0.9 * then["lower_bound"]}, is_same_machine=False)
