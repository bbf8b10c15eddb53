"""The audit audited, and what an outsider could look for: patterns in bits, branches, canaries, floats.

Statistical checks have false-alarm rates of at most CHANCE where they judge the library, and 1e-4 where
they are the audit itself, whose bits are seeded here so that a run repeats.
"""

from __future__ import annotations

import inspect
import io
import logging
import math
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise import release
from leastnoise.app.cli.main import app
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import InputError, MethodError
from leastnoise.core.operators import arranged
from leastnoise.data import (
    counting,
    frames,
    handle,
    limiting,
    spark,
    table_cover,
    written_text,
)
from leastnoise.planning import Plan
from leastnoise.privacy import Ledger
from leastnoise.release import counts, measuring, noise, not_counted
from leastnoise.report import audit, auditing, worst_pair
from leastnoise.report.auditing import AuditReport, detection_power
from leastnoise.strategy import AxisForm, Strategy
from leastnoise.strategy.structured.axis_tables import covering_sets
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.tables import WeightedTables
from support import refuses
from test_leaks import everything_in, float_uses, numbers_in
from test_statistics import SeededBits
from tolerances import CHANCE

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"), area=("n", "s", "w"))
WIDE = ln.Schema(**{f"a{i}": range(4) for i in range(20)})


@lru_cache
def plan_named(name: str) -> Plan:
    ages = ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], ln.Schema(age=range(6), sex=("F", "M")))
    pairs = ln.assemble([ln.Cube("age", "sex", "area", order=2)], SCHEMA)
    sums = ln.assemble([ln.Prefix("age") * ln.Marginal("area"), ln.Prefix("age")], SCHEMA)
    many = ln.assemble([ln.Cube(*WIDE.names, order=2)], WIDE)
    return {
        "dense": lambda: ln.design(ages, ln.ApproxDP(epsilon=1, delta=1e-6)),
        "dense replaced": lambda: ln.design(ages, ln.GDP(1, neighbours="replace-one")),
        "people with records": lambda: ln.design(ages, ln.ZCDP(1, records_per_person=3)),
        "hierarchical": lambda: ln.design(ages, ln.PureDP(1), method="hierarchical"),
        "cells": lambda: ln.design(ages, ln.PureDP(2, neighbours="replace-one"), method="identity"),
        "residuals": lambda: ln.design(sums, ln.GDP(1), method="residuals"),
        "marginals": lambda: ln.design(pairs, ln.GDP(1), method="marginals"),
        "marginals replaced": lambda: ln.design(
            pairs, ln.GDP(1, neighbours="replace-one"), method="marginals"
        ),
        "tables": lambda: ln.design(pairs, ln.PureDP(1), method="marginals"),
        "10^12 cells": lambda: ln.design(many, ln.ZCDP(0.5)),
    }[name]()


NAMES = (
    "dense",
    "dense replaced",
    "people with records",
    "hierarchical",
    "cells",
    "residuals",
    "marginals",
    "marginals replaced",
    "tables",
    "10^12 cells",
)


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
    seeds = iter(range(1000 * seed, 1000 * seed + 1000))
    monkeypatch.setattr(auditing, "SystemBits", lambda: SeededBits(next(seeds)))


def with_less_noise(monkeypatch: pytest.MonkeyPatch, percent: int = 95) -> None:
    """A planted twin: the samplers are told a scale that is too small, where a smaller one there is."""
    for name in ("rounded_gaussian", "discrete_laplace"):
        draw = getattr(noise, name)

        def less(scale: int, size: int, bits: Any, draw: Any = draw) -> Any:
            return draw(max(scale * percent // 100, 1), size, bits)

        monkeypatch.setattr(measuring, name, less)


# ------------------------------------------------------------------ what the audit says


def test_the_plans_are_of_every_kind() -> None:
    kinds = {name: type(plan_named(name).strategy) for name in NAMES}
    assert (
        kinds["dense"] is Strategy and kinds["residuals"] is Structured and kinds["tables"] is WeightedTables
    )
    assert plan_named("10^12 cells").workload.shape[1] == 4**20


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_keeps_what_it_says_and_with_less_noise_is_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded(monkeypatch)
    monkeypatch.setattr(auditing, "_MAX_INTEGERS", 2**18)
    found = audit(plan_named(name))
    assert found.keeps_its_word, str(found)
    assert found.verdict == "keeps what it says"
    # The bound is near what is said: it is no bound that nothing could fail.
    assert 0.93 * found.said < found.at_least <= found.said
    assert found.power > 0.95
    with_less_noise(monkeypatch)
    twin = audit(plan_named(name))
    assert twin.at_least > twin.said
    assert twin.verdict == "spends more than it says"
    assert "told apart better" in str(twin)


@pytest.mark.parametrize("name", ["dense", "dense replaced", "hierarchical", "cells", "marginals", "tables"])
def test_the_worst_pair_of_records_costs_what_the_sensitivity_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded(monkeypatch)
    found = audit(plan_named(name), draws=100)
    assert found.pair is not None and found.pair.is_worst
    assert found.pair.cost == found.sensitivity
    plan = plan_named(name)
    # The twin's sensitivity is one less than that of its integers.
    broken = plan.fixed_strategy().with_scale(plan.fixed_strategy().scale)
    monkeypatch.setattr(type(broken), "sensitivity", property(lambda self: found.sensitivity - 1))
    twin = audit(replace(plan, strategy=broken), draws=100)
    assert not twin.keeps_its_word and "changes more than the sensitivity" in str(twin)


@pytest.mark.thorough
def test_without_listing_every_cell_the_worst_is_found_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch)
    monkeypatch.setattr(worst_pair, "_MAX_CELLS", 1)
    for name in NAMES:
        found = audit(plan_named(name), draws=100)
        assert found.pair is not None and not found.pair.is_worst
        if plan_named(name).privacy.neighbours == "add-remove" or name == "dense replaced":
            assert found.pair.cost == found.sensitivity, name
        assert found.pair.cost <= found.sensitivity


def test_inner_products_of_wide_columns_do_not_wrap() -> None:
    """Products of 53-bit rows wrapped int64: a plan said μ² = 1 and spent 1.15."""
    schema = ln.Schema(a=range(64), b=("x", "y", "z"))
    queries = [ln.Ranges("a", [(0, 62)]) * ln.Marginal("b"), ln.Sum("a") * ln.Marginal("b"), ln.Sum("a")]
    goal = ln.GDP(1, neighbours="replace-one")
    plan = ln.design(ln.assemble(queries, schema), goal, method="residuals")
    found = audit(plan, draws=100)
    assert found.pair is not None and found.pair.is_worst
    assert found.pair.cost <= found.sensitivity


def test_the_bound_holds_for_one_person_with_several_records() -> None:
    found = ln.audit(plan_named("people with records"), draws=200)
    assert found.budget == plan_named("people with records").privacy.budget
    assert found.spent <= found.budget


@pytest.mark.parametrize("apart", [2.2, 3.1, 4.3])
def test_gaussian_power_is_at_least_95_percent_with_the_usual_draws(apart: float) -> None:
    assert detection_power("gaussian", apart, auditing.USUAL_DRAWS["gaussian"]) >= 0.95
    # Right noise is accused at most once in ten thousand, and nearly as often: nothing is given away.
    assert 0.8e-4 < detection_power("gaussian", apart, auditing.USUAL_DRAWS["gaussian"], share=1.0) <= 1e-4


@pytest.mark.parametrize("apart", [1.7, 2.4, 4.0])
def test_laplace_power_is_at_least_95_percent_with_the_usual_draws(apart: float) -> None:
    assert detection_power("laplace", apart, auditing.USUAL_DRAWS["laplace"]) >= 0.95
    assert detection_power("laplace", apart, auditing.USUAL_DRAWS["laplace"], share=1.0) <= 1e-4


def test_any_spending_up_to_the_stated_one_has_a_group_of_enough_power() -> None:
    for kind, most in (("gaussian", 4.3), ("laplace", 4.0)):
        for said in np.geomspace(1e-6, most, 200):
            apart = said * auditing._group(float(said), kind)
            assert detection_power(kind, apart, auditing.USUAL_DRAWS[kind]) >= 0.95


@pytest.mark.thorough
def test_the_power_is_that_of_many_audits() -> None:
    """Guesses drawn from the law that they have, 400 audits: the share that accuses is as computed."""
    rng, runs, apart = np.random.default_rng(1), 400, 3.0
    for kind, draws in (("gaussian", 6_000), ("laplace", 30_000)):
        accused = 0
        for _ in range(runs):
            if kind == "gaussian":
                none = 0.95 * rng.standard_normal(draws)
                some = apart + 0.95 * rng.standard_normal(draws)
                accused += auditing._gaussian_bound(none, some, apart, 1e-4) > apart
            else:
                none = 0.95 * rng.laplace(size=draws)
                some = apart + 0.95 * rng.laplace(size=draws)
                accused += auditing._laplace_bound(none, some, apart, 1e-4) > apart
        power = detection_power(kind, apart, draws)
        if kind == "gaussian":
            low, high = stats.binom.ppf([CHANCE / 2, 1 - CHANCE / 2], runs, power)
            assert low <= accused <= high
        else:
            assert accused >= stats.binom.ppf(CHANCE, runs, power)


def test_the_limits_on_a_probability_are_those_of_the_binomial() -> None:
    for hits, n in ((3, 50), (49, 50), (700, 1000), (0, 10)):
        assert stats.binom.cdf(hits, n, auditing._most_likely(hits, n, 1e-4)) == pytest.approx(1e-4)
    assert auditing._most_likely(50, 50, 1e-4) == 1.0
    most = auditing._most_hits(1000, 0.3, 1e-4)
    assert stats.binom.cdf(most, 1000, 0.3) < 1e-4 <= stats.binom.cdf(most + 1, 1000, 0.3)
    assert auditing._most_hits(10, 1e-9, 1e-4) == -1


def test_unequal_probabilities_have_lighter_tails_than_equal_ones() -> None:
    """What pooling two tables rests on, by convolution: few hits are rarer than with the mean probability."""
    n = 40
    for one, other in ((0.05, 0.3), (0.2, 0.21), (0.01, 0.5)):
        total = np.convolve(stats.binom.pmf(range(n + 1), n, one), stats.binom.pmf(range(n + 1), n, other))
        mean = n * (one + other)
        hits = np.arange(math.floor(mean))
        pooled = stats.binom.cdf(hits, 2 * n, (one + other) / 2)
        assert (np.cumsum(total)[: len(hits)] <= pooled * (1 + 1e-9)).all()


def test_what_depends_on_nobody_spends_nothing() -> None:
    plan = ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.GDP(1))
    found = audit(plan)
    assert found.keeps_its_word and found.pair is None and found.draws == 0
    assert "nothing is measured that depends on anybody" in str(found)


def test_refusals() -> None:
    plan = plan_named("dense")
    with refuses(InputError, "plan", str):
        audit("town.plan")  # type: ignore[arg-type]
    for wrong in (0, -3, 1.5, True, 10**9):
        with refuses(InputError, "draws"):
            audit(plan, draws=wrong)  # type: ignore[arg-type]
    for level in (0.5, 1.0, math.nan, "0.9"):
        with refuses(InputError, "level"):
            audit(plan, level=level)  # type: ignore[arg-type]
    schema = ln.Schema(a=range(8))
    adaptive = ln.design(ln.assemble([ln.Prefix("a")], schema), ln.PureDP(1), method="mwem")
    with refuses(MethodError, "plan", "mwem"):
        audit(adaptive)


def test_the_shell_says_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch)
    path = plan_named("dense").save(tmp_path / "town.plan")
    done = CliRunner().invoke(app, ["audit", str(path), "--draws", "4000"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("The plan keeps what it says: ")
    assert "4,000 simulated releases of each of two tables" in done.stdout
    with_less_noise(monkeypatch, 50)
    done = CliRunner().invoke(app, ["audit", str(path), "--draws", "4000"])
    assert done.exit_code == 1
    assert done.stdout.startswith("The plan spends more than it says: ")
    missing = CliRunner().invoke(app, ["audit", str(tmp_path / "nowhere.plan")])
    assert missing.exit_code == 4 and missing.stderr.startswith("error: ")


def test_a_claim_that_is_too_low_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins that spend more than their goal, in μ² and in δ, past the checks of a plan."""
    plan = plan_named("dense")
    monkeypatch.setattr(Plan, "__post_init__", lambda self: None)
    twin = replace(plan, strategy=plan.fixed_strategy().with_scale(plan.fixed_strategy().scale - 1))
    found: AuditReport = audit(twin, draws=100)
    assert any("more than the goal allows" in fault for fault in found.faults)
    assert any("δ of this noise is larger" in fault for fault in found.faults)
    assert any("no certificate" in fault for fault in found.faults) and found.certificate is None


# ------------------------------------------------------------------ patterns in the bits


PATTERN_MODULI = (2, 4, 8, 16, 64, 3, 5, 7)


def patterns(values: Sequence[Any]) -> Counter[tuple[str, int]]:
    """What the digits of released values show whatever their size: residues and powers of two in them.

    A value is an integer on its grid; a float is one on the grid of its last binary digit.
    """
    found: Counter[tuple[str, int]] = Counter()
    for value in values:
        numerator, denominator = value.as_integer_ratio()
        for modulus in PATTERN_MODULI:
            found[f"mod {modulus}", numerator % modulus] += 1
        found["grid", denominator.bit_length()] += 1
        found["twos", (numerator & -numerator).bit_length()] += 1
    return found


def distinguishing(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[str, int]]:
    """Patterns that come more often with one table than with the other; CHANCE for all of them together.

    Given how often a pattern came in both, the share of the first is binomial with 1/2.
    """
    assert len(one) == len(other)
    counts = patterns(one), patterns(other)
    every = sorted({*counts[0], *counts[1]})
    found = []
    for pattern in every:
        a, b = counts[0][pattern], counts[1][pattern]
        if 2 * stats.binom.cdf(min(a, b), a + b, 0.5) < CHANCE / len(every):
            found.append(pattern)
    return found


def float_release(count: int, n: int, seed: int) -> list[float]:
    """A planted twin: noise in floats, as textbooks draw it."""
    return (count + 5.0 * np.random.default_rng(seed).standard_normal(n)).tolist()


def bit_patterns(n: int) -> dict[str, list[tuple[str, int]]]:
    """Distinguishing patterns in n releases of the same count from neighbouring tables, by mechanism."""
    found = {}
    for goal, method in ((ln.GDP(0.2), "identity"), (ln.PureDP(0.2), "identity")):
        plan = ln.design(ln.Workload.from_matrix([[1]]), goal, method=method)
        strategy = plan.fixed_strategy()
        released = []
        for seed, count in enumerate((0, 1)):
            truth = release.measured(plan, np.array([count]), ZeroBits())
            assert len(truth) == 1
            exactly = strategy.exact_answers(lambda _, count=count: [np.array([count])])
            repeated = auditing._Repeated(strategy.noise, strategy.scale, n)
            y = release.with_noise(repeated, np.repeat(exactly, n), SeededBits(seed))  # type: ignore[arg-type]
            assert math.gcd(*(int(v) - int(y[0]) for v in y[:1000])) == 1
            released.append(y.tolist())
        found[strategy.noise] = distinguishing(*released)
    found["floats"] = distinguishing(float_release(0, n, 1), float_release(1, n, 2))
    return found


class ZeroBits:
    """A fixed stream, for what is asked only to see that it runs."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)

    def bits(self, n: int) -> int:
        return int.from_bytes(self.rng.bytes((n + 7) // 8), "little") >> (-n % 8)


@pytest.mark.thorough
def test_no_pattern_of_bits_tells_neighbours_apart_and_floats_do() -> None:
    found = bit_patterns(20_000)
    assert found["gaussian"] == [] and found["laplace"] == []
    # A float carries the grid on which its noise was rounded.
    assert any(kind == "grid" for kind, _ in found["floats"])


# ------------------------------------------------------------------ record and replay


def lines_run(step: Callable[[], Any], *left_out: Callable[..., Any]) -> list[tuple[str, int]]:
    """The lines of this project that a step runs, in order, but for those of some functions."""
    codes = {function.__code__ for function in left_out}
    run: list[tuple[str, int]] = []
    ours = (str(Path(ln.__file__).parent), str(Path(__file__).parent))

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ours) or frame.f_code in codes:
            return None
        if event == "line":
            run.append((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return run


def neighbouring_counts(plan: Plan) -> Iterator[np.ndarray]:
    n = plan.workload.shape[1]
    rng = np.random.default_rng(3)
    some = rng.integers(0, 5, n)
    yield some
    for cell in (0, n // 2, n - 1):
        yield some + np.eye(n, dtype=np.int64)[cell]
    yield np.zeros(n, dtype=np.int64)
    yield rng.integers(0, 2**40, n)


def traces_of(plan: Plan, *, warm: bool = True) -> list[list[tuple[str, int]]]:
    """The lines run from counts to noisy integers, with the same bits, for neighbouring and other counts."""
    if warm:  # what is worked out once and kept is not worked out again
        release.measured(plan, next(neighbouring_counts(plan)), SeededBits(5))

    def measure(counts: np.ndarray) -> None:
        tables_of = release.count_tables(plan.workload, counts, 1)
        measuring._noisy(plan, measuring._read(plan, tables_of), SeededBits(5))

    return [lines_run(lambda counts=counts: measure(counts)) for counts in neighbouring_counts(plan)]


LISTED = tuple(name for name in NAMES if name != "10^12 cells")


@pytest.mark.parametrize("name", LISTED)
def test_nothing_branches_on_the_counts(name: str) -> None:
    first, *others = traces_of(plan_named(name))
    assert len(first) > 50
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["dense", "residuals", "tables"])
def test_a_branch_on_a_count_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def skips_zeros(strategy: Any, integers: Any, bits: Any) -> Any:
        draw = noise.discrete_laplace if strategy.noise == "laplace" else noise.rounded_gaussian
        drawn = np.array(draw(strategy.scale, strategy.n_measured, bits), dtype=object)
        if not integers[0]:
            return drawn
        return integers + drawn

    monkeypatch.setattr(measuring, "with_noise", skips_zeros)
    first, *others = traces_of(plan_named(name))
    assert any(other != first for other in others)


def reading_traces(name: str, held: str) -> list[list[tuple[str, int]]]:
    """The lines that read a table, one with a record less, one with values nobody declared, a small one.

    Records come in batches, so that the number of lines tells how many thousands of records there are, as the
    time does; an empty table has no batch.
    Where pandas holds text as Python objects, `_text` reads value after value, as many lines as records; it
    is left out here and has a test of its own.
    """
    plan = plan_named(name)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(0, 6, 50).astype(str),
            "sex": rng.choice(["F", "M"], 50),
            "area": rng.choice(["n", "s"], 50),
        }
    )
    # Numbers written in other ways than plain ones are read one by one, which docs/limits.md says.
    odd = pd.DataFrame({"age": ["99", "-7"], "sex": ["?", ""], "area": ["n", "nowhere"]})
    # What the plan works out once and keeps is worked out before the first trace.
    measuring._read(plan, release.count_tables(plan.workload, ln.vectorize(table, SCHEMA), 1))
    found = []
    for source in (table, table.iloc[1:], pd.concat([table, odd]), table.iloc[:20]):
        data = ln.vectorize(source.astype(object) if held == "objects" else source, SCHEMA)
        found.append(
            lines_run(
                lambda data=data: measuring._read(plan, release.count_tables(plan.workload, data, 1)),
                written_text.written,
            )
        )
    return found


# As Python objects, and as pandas holds text by itself: with pyarrow as Arrow does, else as objects too.
HELD = ("objects", "text")


@pytest.mark.thorough
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("name", ["marginals", "tables"])
def test_reading_a_table_does_not_branch_on_its_records(name: str, held: str) -> None:
    first, *others = reading_traces(name, held)
    assert len(first) > 100
    assert all(other == first for other in others)


def test_reading_one_text_does_not_branch_on_it() -> None:
    texts = ["F", "M", "?", "", "99", "-1e9", "x" * 5000, "\0", "nan", "None"]
    first, *others = [lines_run(lambda text=text: written_text.written(text)) for text in texts]
    assert len(first) > 1
    assert all(other == first for other in others)
    # What is not ASCII takes another way, and is noticed.
    assert lines_run(lambda: written_text.written("\u00e9")) != first


def test_a_branch_on_a_record_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    as_text = written_text.text_array

    def looks(values: Any, mark: str = ".") -> Any:
        if "nowhere" in list(values):
            return as_text(list(values), mark)
        return as_text(values, mark)

    monkeypatch.setattr(frames, "text_array", looks)
    first, *others = reading_traces("marginals", "objects")
    assert any(other != first for other in others)


# ------------------------------------------------------------------ canaries


CANARY = "CANARYville"
MARKED = ln.Schema(town=("a", "b", "c"), kind=range(4), sex=("F", "M"))
TRUE = {(0, 0, 0): 86_753, (1, 2, 1): 30_901, (2, 3, 0): 51_817}
SECRETS = sorted({*TRUE.values(), sum(TRUE.values()), 12_347})


def marked_table() -> pd.DataFrame:
    parts = [
        pd.DataFrame({"town": ["abc"[t]] * n, "kind": [k] * n, "sex": ["FM"[s]] * n})
        for (t, k, s), n in TRUE.items()
    ]
    parts.append(pd.DataFrame({"town": [CANARY] * 12_347, "kind": [1] * 12_347, "sex": ["F"] * 12_347}))
    return pd.concat(parts, ignore_index=True)


def told(text: str) -> list[Any]:
    return sorted(set(SECRETS) & numbers_in(text)) + [CANARY] * (CANARY in text)


def told_by_bytes(content: bytes) -> list[Any]:
    """Secrets in a file: as text, as machine integers, and within archives that it is or holds."""
    found: list[Any] = [CANARY] if CANARY.encode() in content else []
    found += [n for n in SECRETS if str(n).encode() in content and n in numbers_in(content.decode("latin-1"))]
    found += [n for n in SECRETS if np.int64(n).tobytes() in content]
    at = content.find(b"PK\x03\x04")
    while at >= 0:
        try:
            with zipfile.ZipFile(io.BytesIO(content[at:])) as archive:
                for name in archive.namelist():
                    found += told_by_bytes(archive.read(name))
            break
        except zipfile.BadZipFile:
            at = content.find(b"PK\x03\x04", at + 1)
    return found


def walk(folder: Path, plan: Plan, table: Any) -> tuple[list[str], list[Path]]:
    """Everything said and written from a table to a stored release, its replay and its exports."""
    ledger = Ledger(folder / "town.ledger", dataset="town", limit=plan.privacy)
    data = ln.vectorize(table, MARKED)
    given = ln.measure(plan, data, ledger=ledger, release_id="first")
    again = ln.measure(plan, data, ledger=ledger, release_id="first")
    assert given.measurements.tolist() == again.measurements.tolist()
    texts = [repr(data), repr(given), str(given), repr(plan), str(plan), repr(plan.strategy), repr(ledger)]
    texts += [str(ln.summarize(given)), str(ledger.verify()), repr(ledger.entries), str(ledger.rows)]
    texts += [given.to_frame().to_csv(), given[plan.workload.names[0]].to_csv()]
    texts += [
        str(given.estimates.tolist()),
        str(given.measurements.tolist()),
        str(audit(plan, draws=100)),
    ]
    for failing in (
        lambda: ln.measure(plan, data, ledger=ledger, release_id="second"),
        lambda: ln.measure(plan, ln.vectorize(table.rename(columns={"sex": "s"}), MARKED), ledger=ledger),
        lambda: ln.measure(plan, table["kind"].to_numpy(), ledger=ledger),
        lambda: ln.measure(plan_named("marginals"), data, ledger=ledger),
    ):
        with pytest.raises(ln.LeastnoiseError) as caught:
            failing()
        texts.append(everything_in(caught.value))
    ledger.export(folder / "town.csv")
    given.save(folder / "town.release")
    plan.save(folder / "town.plan")
    return texts, sorted(folder.iterdir())


def marked_plan(kind: str) -> Plan:
    queries = [ln.Cube("town", "kind", "sex", order=2), ln.Marginal("town", "kind", "sex")]
    goal = {"marginals": ln.GDP(1e-12), "tables": ln.PureDP(1e-12)}[kind]
    plan = ln.design(ln.assemble(queries, MARKED), goal, method="marginals")
    assert isinstance(plan.strategy, WeightedTables if kind == "tables" else Structured)
    # Noise of this size hits a true number with a chance below 1e-9 for all that is written.
    assert plan.stderr is not None and (plan.stderr > 1e11).all()
    return plan


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["marginals", "tables"])
def test_a_structured_release_from_a_ledger_tells_nothing_true(
    kind: str, tmp_path: Path, capfd: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "out").mkdir()
    texts, files = walk(tmp_path / "out", marked_plan(kind), marked_table())
    out, err = capfd.readouterr()
    for text in (*texts, out, err, caplog.text):
        assert told(text) == []
    assert {path.name for path in files} == {"town.ledger", "town.csv", "town.release", "town.plan"}
    for path in files:
        assert told_by_bytes(path.read_bytes()) == []
    assert list((tmp_path / "scratch").iterdir()) == []


def test_without_noise_files_and_texts_would_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge judged."""
    for name in ("rounded_gaussian", "discrete_laplace"):
        monkeypatch.setattr(measuring, name, lambda scale, size, bits: [0] * size)
    texts, _ = walk(tmp_path, marked_plan("tables"), marked_table())
    assert sum(bool(told(text)) for text in texts) >= 3
    assert told_by_bytes(b"..." + np.int64(86_753).tobytes()) == [86_753]
    assert told_by_bytes(b'{"n": 30901}') == [30_901]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.json", CANARY)
    assert told_by_bytes(b"before" + packed.getvalue()) != []


SPEC = """
[schema]
town = ["a", "b", "c"]
kind = { range = [0, 4] }
sex = ["F", "M"]

[privacy]
mu = 1e-12

[[query]]
kind = "marginal"
attributes = ["town", "kind"]
"""


@pytest.mark.thorough
def test_the_shell_tells_nothing_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    Path("town.toml").write_text(SPEC)
    marked_table().to_csv("people.csv", index=False)
    said = []
    for arguments in (
        ["ledger", "create", "town.ledger", "--dataset", "town", "--mu", "1e-12"],
        ["publish", "town.toml", "--data", "people.csv", "--ledger", "town.ledger", "--release-id", "r1"],
        ["publish", "town.toml", "--data", "people.csv", "--ledger", "town.ledger", "--out", "b.csv"],
        ["publish", "town.toml", "--data", "nowhere.csv"],
        ["ledger", "show", "town.ledger"],
        ["ledger", "verify", "town.ledger"],
        ["ledger", "export", "town.ledger", "--out", "rows.jsonl"],
        ["design", "town.toml"],
        ["explain", "town.plan"],
        ["audit", "town.plan", "--draws", "100"],
    ):
        done = CliRunner().invoke(app, arguments)
        said.append((arguments[0], done.exit_code, done.stdout + done.stderr))
    assert [code for _, code, _ in said] == [0, 0, 9, 1, 0, 0, 0, 0, 0, 0], said
    for _, _, text in said:
        assert told(text) == []
    written = {path.name for path in tmp_path.iterdir()} - {"people.csv", "scratch"}
    assert {"town-answers.csv", "town-answers.release", "town.ledger", "rows.jsonl"} <= written
    for name in written:
        assert told_by_bytes((tmp_path / name).read_bytes()) == []
    assert list(scratch.iterdir()) == []


# ------------------------------------------------------------------ integers all the way


# Beside those of test_leaks: every function between the engine's answer and the measured integers.
PATH = [
    handle.Data.tables,
    handle.Data.counted,
    counts.TableCounter.__call__,
    not_counted.NotCountedRow.multiplied,
    measuring.noise_for,
    table_cover.summed,
    arranged,
    handle.Data._read,
    counting.Tally.add,
    counting.add_cells,
    counting.placed_batches,
    limiting.limited,
    counting.CountedTables.add,
    counting.CountedTables._add_up,
    counting.CountedTables._add_block,
    counting.CountedTables.table,
    spark.SparkTable._counts,
    spark._counts_of_columns,
    spark._counts_of_cells,
    release.measured,
    release.counts_of,
    Structured.block_forms,
    Structured._measured_blocks,
    Structured._measured_rows,
    Structured.measured_form,
    WeightedTables.measured_form,
    Structured.require_measurable,
    covering_sets,
    AxisForm.entries,
]


@pytest.mark.parametrize("step", PATH, ids=lambda step: step.__qualname__)
def test_no_float_lies_between_a_table_and_its_integers(step: Any) -> None:
    assert float_uses(inspect.getsource(step)) == []


# Called on the way and known to hold no number that follows from the counts.
BESIDE = {
    "leastnoise.data": "all of it: watched below as it runs",
    "leastnoise.query.schema": "what was declared",
    "leastnoise.query.products": "what was declared",
    "leastnoise.query.query_blocks": "what was declared",
    "leastnoise.query.workload": "what was declared",
    "leastnoise.planning.plan": "what was designed",
    "leastnoise.strategy.measured": "what was designed",
}


def values_seen(step: Callable[[], Any]) -> tuple[set[str], list[str]]:
    """Functions of the library that a step runs, and where a value of theirs is a float."""
    functions: set[str] = set()
    floats: list[str] = []
    root = str(Path(ln.__file__).parent)

    def trace(frame: Any, event: str, value: Any) -> Any:
        name = frame.f_globals.get("__name__", "")
        if not frame.f_code.co_filename.startswith(root) and not name.startswith("test_audit"):
            return None
        if event == "call":
            functions.add(f"{name}.{frame.f_code.co_qualname if sys.version_info >= (3, 11) else ''}")
        if event == "return":
            for label, held in (*frame.f_locals.items(), ("return", value)):
                if is_float(held):
                    floats.append(f"{name}.{frame.f_code.co_name}: {label}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return functions, floats


def is_float(held: Any) -> bool:
    """Whether a value, or an entry of a list, an array or an object array, is a float."""
    if isinstance(held, np.ndarray):
        return held.dtype.kind in "fc" or (held.dtype == object and any(map(is_float, held.ravel()[:200])))
    if isinstance(held, list | tuple) and len(held):
        return any(map(is_float, held[:200]))
    return isinstance(held, float | np.floating)


# Locals that are floats and do not follow from counts: the clock of a progress report.
CLOCKS = {"leastnoise.data.scan_progress"}


@pytest.mark.parametrize("name", LISTED)
def test_every_value_on_the_path_is_an_integer(name: str) -> None:
    plan = plan_named(name)
    counts = np.arange(plan.workload.shape[1]) % 3
    release.measured(plan, counts, SeededBits(1))
    functions, floats = values_seen(lambda: release.measured(plan, counts, SeededBits(1)))
    assert floats == []
    # Whatever runs is on a list whose source was read for floats.
    listed = {f"{step.__module__}.{step.__qualname__}" for step in (*leaks_path(), *PATH) if callable(step)}
    modules = {step.__name__ for step in leaks_path() if inspect.ismodule(step)}
    for function in functions:
        inner = function.split(".<locals>")[0]
        known = inner in listed or any(function.startswith(f"{m}.") for m in (*modules, *BESIDE))
        assert known or is_plain(function), function


def leaks_path() -> list[Any]:
    import test_leaks

    return test_leaks.PATH


def is_plain(function: str) -> bool:
    """Short helpers that hold sizes and sets of axes; their source is read here."""
    name = function.rpartition(".")[2]
    names = {
        "whole", "is_simple", "n_measured", "block_shapes", "n_rows", "is_split", "size", "n_cells",
        "_rank", "<genexpr>", "<listcomp>", "<dictcomp>", "<lambda>", "<setcomp>", "names", "shape", "bits",
    }  # fmt: skip
    return name in names


@pytest.mark.parametrize("name", ["marginals", "tables"])
def test_every_value_between_a_table_and_its_integers_is_one(name: str) -> None:
    plan = plan_named(name)
    table = pd.DataFrame({"age": [1, 2, 2], "sex": ["F", "M", "F"], "area": ["n", "n", "s"]})
    data = ln.vectorize(table, SCHEMA)
    _, floats = values_seen(lambda: measuring._read(plan, release.count_tables(plan.workload, data, 1)))
    assert [where for where in floats if where.split(":")[0].rpartition(".")[0] not in CLOCKS] == []


def test_a_float_on_the_way_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    product = exact.matrix_times_counts
    monkeypatch.setattr(exact, "matrix_times_counts", lambda A, x: through_floats(product, A, x))
    _, floats = values_seen(lambda: release.measured(plan_named("dense"), np.arange(12), SeededBits(1)))
    assert floats != []


def through_floats(product: Any, A: Any, x: Any) -> Any:
    as_floats = product(A, x).astype(float)
    return as_floats.astype(object).astype(np.int64).astype(object)
