"""Blocks of products against the matrix that they stand for, written out."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError, PlanFileError, QueryError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.query import Axis, Workload, products_of, workload_of_query
from leastnoise.strategy import (
    AxisForm,
    BlockProposal,
    Strategy,
    centred_form,
    identity_form,
    strategy_from_parts,
)
from leastnoise.strategy.structured import accuracy
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.tables import WeightedTables
from support import refuses

SIZES = (3, 2, 4)
SCHEMA = ln.Schema(a=range(3), b=("x", "y"), c=range(4))
AXES = tuple(Axis((name,), (size,), (i,)) for i, (name, size) in enumerate(zip("abc", SIZES, strict=True)))
EVERYTHING = [
    ln.Total(),
    ln.Marginal("c", "a"),
    ln.Prefix("c") * ln.Marginal("b"),
    ln.Where("a >= 1 and c < 2"),
    ln.Cube("a", "b", "c", order=2, name="cube"),
    ln.Sum("c"),
]


def workload(*queries: ln.Query) -> Workload:
    return ln.assemble(queries or EVERYTHING, SCHEMA)


def split_form(size: int, seed: int) -> AxisForm:
    """Random residuals that do not see a random centre."""
    rng = np.random.default_rng(seed)
    g = rng.integers(1, 5, size)
    basis = np.array(
        [g[0] * np.eye(size, dtype=int)[i] - g[i] * np.eye(size, dtype=int)[0] for i in range(1, size)]
    )
    return AxisForm(
        "split", size, rng.integers(-3, 4, (size, size - 1)) @ basis + 7 * np.vstack([basis, basis[:1]]), g
    )


def whole_form(size: int, seed: int) -> AxisForm:
    rng = np.random.default_rng(seed)
    return AxisForm("whole", size, np.triu(rng.integers(-3, 4, (size, size))) + 5 * np.eye(size, dtype=int))


def every_set(axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(a for i, a in enumerate(axes) if mask >> i & 1) for mask in range(2 ** len(axes))]


CASES: dict[str, tuple[type[Structured], list[AxisForm]]] = {
    "centred": (Structured, [centred_form(n) for n in SIZES]),
    "split": (Structured, [split_form(n, n) for n in SIZES]),
    "mixed": (Structured, [split_form(3, 1), centred_form(2), split_form(4, 2)]),
    "one whole": (Structured, [whole_form(3, 1), centred_form(2), split_form(4, 2)]),
    "plain and whole": (Structured, [identity_form(3), whole_form(2, 1), whole_form(4, 7)]),
    "tables": (WeightedTables, [centred_form(n) for n in SIZES]),
}


def made(name: str, **changes: Any) -> Structured:
    kind, forms = CASES[name]
    split = tuple(a for a, form in enumerate(forms) if form.is_split)
    blocks = [ProductBlock(s, (0,) * len(s), 3 + 2 * i) for i, s in enumerate(every_set(split))]
    given = {"scale": 1000, "noise": "gaussian"} | changes
    return kind(AXES, [[form] for form in forms], blocks, **given)


def matrix_of(strategy: Structured) -> Array:
    """What is measured, as integer rows over all cells, from the definition."""
    rows = []
    for block in strategy.blocks:
        measured, factors = strategy.block_forms(block), []
        for a, axis in enumerate(strategy.axes):
            n = axis.size
            if a not in measured:
                factors.append(np.ones((1, n), dtype=int))
            elif measured[a].rows is not None:
                factors.append(measured[a].rows)
            elif measured[a].kind == "identity" or isinstance(strategy, WeightedTables):
                factors.append(np.eye(n, dtype=int))
            else:
                factors.append(n * np.eye(n, dtype=int) - 1)
        rows.append(block.multiplier * reduce(np.kron, factors))
    return np.vstack(rows)


def dense(strategy: Structured) -> Strategy:
    return Strategy(
        matrix_of(strategy), scale=strategy.scale, noise=strategy.noise, neighbours=strategy.neighbours
    )


def counts_of(x: Array) -> Any:
    def ask(subsets: Any) -> list[Array]:
        table = x.reshape(SIZES)
        names = list("abc")
        found = []
        for subset in subsets:
            kept = [n for n in names if n in subset]
            summed = table.sum(axis=tuple(i for i, n in enumerate(names) if n not in subset))
            found.append(np.asarray(summed).reshape([SIZES[names.index(n)] for n in kept]))
        return found

    return ask


@pytest.mark.parametrize("name", CASES)
def test_measures_what_its_matrix_measures(name: str) -> None:
    strategy = made(name)
    x = np.random.default_rng(3).integers(0, 2**40, np.prod(SIZES))
    A = matrix_of(strategy)
    assert strategy.exact_answers(counts_of(x)).tolist() == (A.astype(object) @ x.astype(object)).tolist()
    wide = x.astype(object) << 40
    assert strategy.exact_answers(counts_of(wide)).tolist() == (A.astype(object) @ wide).tolist()
    assert strategy.shape == A.shape
    assert (strategy.dense() == A).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_sensitivity_is_that_of_its_matrix(name: str, noise: Any) -> None:
    strategy = made(name, noise=noise)
    reference = dense(strategy)
    assert strategy.sensitivity == reference.sensitivity
    assert strategy.spent_per_cell == reference.spent_per_cell
    replaced = made(name, noise=noise, neighbours="replace-one")
    assert replaced.sensitivity >= dense(replaced).sensitivity
    assert replaced.sensitivity <= 4 * reference.sensitivity


def test_tables_know_what_replacing_a_record_costs() -> None:
    for noise in ("gaussian", "laplace"):
        replaced = made("tables", noise=noise, neighbours="replace-one")
        assert replaced.sensitivity == dense(replaced).sensitivity


@pytest.mark.parametrize("name", CASES)
def test_the_largest_share_needs_no_median(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All variances were sorted for it: seconds beyond a time limit, where ten million queries differ."""
    strategy, asked = made(name), workload()
    caps = [np.array([1.0 + i]) for i in range(len(EVERYTHING))]
    monkeypatch.delattr(accuracy, "_median")
    expected = dense(strategy).largest_share(asked, caps)
    assert strategy.largest_share(asked, caps) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_accuracy_is_that_of_its_matrix(name: str, noise: Any) -> None:
    strategy, asked = made(name, noise=noise), workload()
    reference = dense(strategy)
    variances = reference.variances_of(asked)
    assert strategy.variances_of(asked) == pytest.approx(variances, rel=1e-9)
    spread = strategy.spreads(asked)
    for ours, theirs in zip(spread, reference.spreads(asked), strict=True):
        assert (ours.low, ours.high, ours.mean_square) == pytest.approx(
            (theirs.low, theirs.high, theirs.mean_square), rel=1e-9
        )
    weights = [np.array([1.0 + i]) for i in range(len(EVERYTHING))]
    assert strategy.total_variance(asked, weights) == pytest.approx(
        reference.total_variance(asked, weights), rel=1e-9
    )
    assert strategy.largest_share(asked, weights) == pytest.approx(
        reference.largest_share(asked, weights), rel=1e-9
    )
    ragged = [np.linspace(1, 2, block.n_rows) for block in asked.blocks]
    assert strategy.total_variance(asked, ragged) == pytest.approx(
        reference.total_variance(asked, ragged), rel=1e-9
    )
    assert strategy.largest_share(asked, ragged) == pytest.approx(
        reference.largest_share(asked, ragged), rel=1e-9
    )
    left, right = workload(*EVERYTHING[:3]), workload(*EVERYTHING[2:])
    ours, theirs = strategy.covariances_of(left, right), reference.covariances_of(left, right)
    assert ours == pytest.approx(theirs, abs=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_its_matrix(name: str) -> None:
    strategy, asked = made(name), workload()
    reference = dense(strategy)
    y = np.random.default_rng(1).integers(-(10**6), 10**6, strategy.n_measured).astype(object)
    theirs = reference.answers_of(asked, y)
    assert strategy.answers_of(asked, y) == pytest.approx(theirs, abs=1e-9 * np.abs(theirs).max())
    noise = np.random.default_rng(2).standard_normal((strategy.n_measured, 3))
    errors = reference.error_map(asked)(noise)
    assert strategy.error_map(asked)(noise) == pytest.approx(errors, abs=1e-9 * np.abs(errors).max())
    cells = strategy.estimates(y)
    assert asked.operator.apply(cells) == pytest.approx(theirs, abs=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("name", CASES)
def test_laplace_intervals_are_those_of_its_matrix(name: str) -> None:
    strategy = made(name, noise="laplace", scale=2**30)
    asked = workload(*EVERYTHING[:4])
    theirs = dense(strategy).laplace_half_widths(asked, 0.05)
    # Either is above the exact quantile by less than 0.1 %.
    assert strategy.laplace_half_widths(asked, 0.05) == pytest.approx(theirs, rel=2e-3)


def test_noise_comes_back_without_bias() -> None:
    for name in CASES:
        strategy, asked = made(name), workload()
        x = np.random.default_rng(5).integers(0, 1000, np.prod(SIZES))
        y = strategy.exact_answers(counts_of(x))
        truth = asked.operator.apply(x.astype(float))
        assert strategy.answers_of(asked, y) == pytest.approx(truth, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("fault", ["centre", "block", "scale"])
def test_a_broken_twin_is_noticed(fault: str) -> None:
    """What the comparisons above rest on fails where a strategy is not what it says."""
    if fault == "centre":
        with refuses(DesignError, "centre", ..., "must not see its centre"):
            AxisForm("split", 3, np.array([[1, -1, 0], [0, 1, -1]]), np.array([1, 2, 1]))
        return
    strategy = made("mixed")
    x = np.arange(np.prod(SIZES))
    twin = made("mixed")
    if fault == "block":
        first, *others = twin.blocks
        vars(twin)["blocks"] = (first._replace(multiplier=first.multiplier + 1), *others)
        assert twin.exact_answers(counts_of(x)).tolist() != strategy.exact_answers(counts_of(x)).tolist()
    else:
        with pytest.raises(AttributeError, match="does not change"):
            twin.scale = 1
        assert made("mixed", scale=999).spent > strategy.spent


@pytest.mark.thorough
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", CASES)
def test_another_scale_is_as_if_it_were_made_anew(name: str, noise: str) -> None:
    """What is kept from one scale to the next depends on the integers alone."""
    asked = workload()

    def told(strategy: Any) -> list[Any]:
        numbers = [strategy.variances_of(asked), strategy.covariances_of(asked, asked)]
        numbers += [strategy.laplace_half_widths(asked, 0.1), strategy.spreads(asked)]
        return [*(np.asarray(part).tolist() for part in numbers), strategy.spent, strategy.spent_per_cell]

    for make in (lambda scale: made(name, scale=scale, noise=noise), of_rows(name, noise)):
        used = make(7)
        before = told(used)
        assert told(used.with_scale(5_000)) == told(make(5_000)) != before
        assert told(used) == before
        with refuses(DesignError, "scale", 0):
            used.with_scale(0)


def of_rows(name: str, noise: str) -> Any:
    rows = matrix_of(made(name))
    return lambda scale: Strategy(rows, scale=scale, noise=noise)


def simple(
    forms: list[AxisForm | None], sets: list[tuple[int, ...]], axes: tuple[Axis, ...] = AXES
) -> Structured:
    blocks = [ProductBlock(s, (0,) * len(s), 1 + i) for i, s in enumerate(sets)]
    return Structured(axes, [[f] if f else [] for f in forms], blocks, scale=9, noise="gaussian")


def test_what_is_not_measured_is_refused() -> None:
    forms = [centred_form(n) for n in SIZES]
    only_singles = simple(forms, [(), (0,), (1,)])
    assert only_singles.can_answer_all(workload(ln.Marginal("a"), ln.Marginal("b")))
    asked = workload(ln.Total(), ln.Marginal("a", "b"))
    assert only_singles.first_unanswerable(asked) == 1
    assert not dense(only_singles).can_answer_all(asked)
    assert not only_singles.can_answer_all(workload(ln.Marginal("c")))
    tied = workload_of_query(ln.Where("a == 1 or b == 'x'"), SCHEMA)
    assert only_singles.first_unanswerable(tied) == 0
    some_rows = AxisForm("split", 4, np.array([[1, 1, -1, -1]]), np.ones(4, dtype=int))
    halves = simple([None, None, some_rows], [(), (2,)])
    assert halves.can_answer_all(workload(ln.Where("c < 2"), ln.Total()))
    assert not halves.can_answer_all(workload(ln.Where("c < 1")))
    assert not halves.can_answer_all(workload(ln.Marginal("a")))
    total = simple(forms, [()])
    assert total.can_answer_all(workload(ln.Total(), ln.Where("a >= 0")))
    assert not total.can_answer_all(workload(ln.Where("a >= 1")))


@pytest.mark.parametrize("method", ["residuals", "product"])
def test_the_total_of_a_part_is_not_taken_for_that_of_everyone(method: str) -> None:
    """A release of those above zero answered Total() with their number, as if it were everyone's."""
    schema = ln.Schema(a=range(3), b=range(2))
    plan = ln.design(ln.assemble([ln.Where("a > 0") * ln.Marginal("b")], schema), ln.GDP(1), method=method)
    for query in (ln.Total(), ln.Marginal("b"), ln.Where("b == 1")):
        with pytest.raises(QueryError):
            plan.variance(query)
    assert len(plan.variance(ln.Where("a > 0 and b == 1"))) == 1


def test_blocks_that_make_no_sense_are_refused() -> None:
    forms = [[centred_form(n)] for n in SIZES]
    for blocks in (
        [ProductBlock((0,), (0,), 1), ProductBlock((0,), (0,), 2)],
        [ProductBlock((1, 0), (0, 0), 1)],
        [ProductBlock((5,), (0,), 1)],
        [ProductBlock((0,), (1,), 1)],
        [ProductBlock((0,), (), 1)],
        [ProductBlock((), (), 0)],
        [ProductBlock((), (), True)],
        [],
    ):
        with pytest.raises(DesignError):
            Structured(AXES, forms, blocks, scale=9, noise="gaussian")
    everyone = [ProductBlock((), (), 1)]
    with refuses(DesignError, "forms", ..., "values"):
        Structured(AXES, forms[::-1], everyone, scale=9, noise="gaussian")
    with refuses(DesignError, "forms", ..., "in none"):
        Structured(AXES, [[identity_form(3), *forms[0]], *forms[1:]], everyone, scale=9, noise="gaussian")
    several = [[identity_form(3)] * 2, *forms[1:]]
    for whole in ((2,), (-1,), (0, 0)):
        with refuses(DesignError, "blocks"):
            Structured(AXES, several, [ProductBlock((), (), 1, whole)], scale=9, noise="gaussian")
    with refuses(DesignError, "forms", ..., "order"):
        Structured(AXES, forms, everyone, scale=9, noise="gaussian", order=(0, 1))
    with refuses(DesignError, "centres", ..., "centre"):
        Structured(AXES, forms, everyone, scale=9, noise="gaussian", centres={(0, ()): 3})
    with refuses(DesignError, "strategy", ..., "plain counts"):
        WeightedTables(AXES, [[identity_form(3)], [], []], everyone, scale=9, noise="laplace")


def several_forms() -> Structured:
    """Axis c is split about one centre where a is added up, and about another beside residuals of a."""
    first, second = split_form(4, 2), split_form(4, 9)
    assert not first.has_centre_of(second)
    twice = AxisForm("split", 4, np.vstack([second.rows, 3 * second.rows[:1]]), second.g)
    blocks = [
        ProductBlock((), (), 5),
        ProductBlock((0,), (0,), 4),
        ProductBlock((1,), (0,), 3),
        ProductBlock((2,), (0,), 7),
        ProductBlock((0, 1), (0, 0), 2),
        ProductBlock((0, 2), (0, 1), 3),
        ProductBlock((0, 2), (0, 2), 1),
        ProductBlock((1, 2), (0, 0), 6),
        ProductBlock((0, 1, 2), (0, 0, 1), 2),
    ]
    forms = [[split_form(3, 4)], [centred_form(2)], [first, second, twice]]
    centres = {(2, (0,)): 1, (2, (0, 1)): 1}
    return Structured(AXES, forms, blocks, scale=1000, noise="gaussian", centres=centres)


def test_the_centre_of_an_axis_may_depend_on_its_history() -> None:
    strategy, asked = several_forms(), workload()
    assert strategy.can_answer_all(asked)
    x = np.random.default_rng(5).integers(0, 1000, np.prod(SIZES))
    y = strategy.exact_answers(counts_of(x))
    A = matrix_of(strategy)
    assert y.tolist() == (A.astype(object) @ x.astype(object)).tolist()
    assert strategy.answers_of(asked, y) == pytest.approx(
        asked.operator.apply(x.astype(float)), rel=1e-9, abs=1e-6
    )
    # Answers are linear in what is measured; their variances are sums of squares of that.
    gains = strategy.error_map(asked)(np.eye(strategy.n_measured))
    expected = strategy.noise_variance * (gains**2).sum(axis=1)
    assert strategy.variances_of(asked) == pytest.approx(expected, rel=1e-9)
    assert strategy.covariances_of(asked, asked) == pytest.approx(
        strategy.noise_variance * gains @ gains.T, abs=1e-9 * expected.max()
    )
    weights = [np.array([1.0 + i]) for i in range(len(EVERYTHING))]
    rows = np.concatenate([np.full(b.n_rows, w[0]) for b, w in zip(asked.blocks, weights, strict=True)])
    assert strategy.total_variance(asked, weights) == pytest.approx(rows @ expected, rel=1e-9)
    # Of two blocks that hold the same residuals the better one is taken: not all that both know together.
    one = dense(strategy).variances_of(asked)
    assert (expected >= one * (1 - 1e-9)).all()
    assert expected.sum() < 1.3 * one.sum()
    again = read_again(*strategy.to_parts())
    assert again.variances_of(asked) == pytest.approx(expected, rel=1e-12)
    assert strategy.sensitivity >= dense(strategy).sensitivity


def test_residuals_of_another_centre_are_refused() -> None:
    strategy = several_forms()
    with refuses(DesignError, "strategy", ..., "another centre"):
        Structured(AXES, strategy.forms, strategy.blocks, scale=9, noise="gaussian", centres={(2, (0,)): 1})


def read_again(plain: Any, arrays: Any) -> Any:
    workload = ln.assemble([ln.Total()], ln.Schema(a=range(2)))
    how: dict[str, Any] = {"scale": 1000, "noise": "gaussian", "neighbours": "add-remove"}
    return strategy_from_parts({"structure": plain}, arrays, workload, **how)


@pytest.mark.parametrize("name", CASES)
def test_files_give_the_same_strategy_back(name: str) -> None:
    strategy = made(name)
    plain, arrays = strategy.to_parts()
    again = read_again(plain, arrays)
    assert type(again) is type(strategy)
    assert (matrix_of(again) == matrix_of(strategy)).all()


def test_files_are_not_trusted() -> None:
    plain, arrays = made("mixed").to_parts()

    def read(plain: Any = plain, **changes: Any) -> Any:
        given = {**arrays, **changes}
        return read_again(plain, given)

    with refuses(PlanFileError, "strategy", ..., "kind"):
        read({**plain, "kind": "other"})
    g = exact.to_limbs(exact.from_limbs(arrays["axis0_0_g"]) + np.array([0, 1, 0]))
    with refuses(PlanFileError, "strategy", ..., "centre"):
        read(axis0_0_g=g)
    with refuses(PlanFileError, "blocks", ..., "not sets of axes"):
        read(block_sizes=arrays["block_sizes"][:-1])
    with pytest.raises(DesignError):
        read(block_axes=arrays["block_axes"] + 7)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["gaussian", "laplace"]))
def test_integer_blocks_keep_the_goal(seed: int, noise: str) -> None:
    rng = np.random.default_rng(seed)
    forms = [split_form(n, seed + n) if rng.random() < 0.5 else centred_form(n) for n in SIZES]
    blocks = every_set((0, 1, 2))
    goal = (
        ln.GDP(float(10 ** rng.uniform(-3, 2)))
        if noise == "gaussian"
        else ln.PureDP(10 ** rng.uniform(-3, 2))
    )
    shares = 10 ** rng.uniform(-4, 0, len(blocks))
    listed = tuple((s, (0,) * len(s)) for s in blocks)
    proposal = BlockProposal(AXES, tuple((form,) for form in forms), listed, shares)
    strategy = proposal.measured_within(goal, tol=1e-6)
    assert strategy.spent <= goal.budget
    assert float(strategy.spent / goal.budget) == pytest.approx(1, rel=1e-6)
    # Each block costs its share.
    power = 2 if noise == "gaussian" else 1
    for block, share in zip(strategy.blocks, shares, strict=True):
        costs = [forms[a].largest_cost(power) for a in block.axes]
        cost = block.multiplier**power * np.prod(costs, dtype=object)
        part = float(Fraction(int(cost), strategy.sensitivity))
        assert part == pytest.approx(share / shares.sum(), rel=1e-6)
    # A twin with the next smaller scale does not keep the goal, or is no integer.
    if strategy.scale > 1:
        assert strategy.with_scale(strategy.scale - 1).spent > goal.budget


def test_a_huge_domain_is_never_listed() -> None:
    schema = ln.Schema(**{f"a{i}": range(10) for i in range(30)})
    asked = ln.assemble([ln.Cube(*schema.names, order=1)], schema)
    products = products_of(asked)
    assert products is not None
    assert products.n_cells == 10**30
    strategy = simple([centred_form(10)] * 30, sorted(set(products.sets)), products.axes)
    assert strategy.n_cells == 10**30
    assert strategy.can_answer_all(asked)
    for listed in (lambda: strategy.spent_per_cell, lambda: strategy.estimates(np.zeros(301, dtype=object))):
        with pytest.raises(TooLargeError):
            listed()


def test_axes_that_conditions_tie_are_one() -> None:
    asked = workload(ln.Where("a == 1 or c == 2"), ln.Marginal("c", "b"), ln.Marginal("a", "b", "c"))
    products = products_of(asked)
    assert products is not None
    assert [axis.names for axis in products.axes] == [("a", "c"), ("b",)]
    strategy = simple([split_form(12, 1), centred_form(2)], every_set((0, 1)), products.axes)
    # Cells in the order of the schema, where b stands between a and c.
    A = matrix_of(strategy).reshape(-1, 3, 4, 2).transpose(0, 1, 3, 2).reshape(-1, 24)
    assert (strategy.dense() == A).all()
    written = Strategy(A, scale=9, noise="gaussian")
    assert strategy.variances_of(asked) == pytest.approx(written.variances_of(asked), rel=1e-9)
    assert strategy.spent_per_cell == written.spent_per_cell
    y = np.arange(len(A)).astype(object)
    assert asked.operator.apply(strategy.estimates(y)) == pytest.approx(
        written.answers_of(asked, y), abs=1e-9
    )
