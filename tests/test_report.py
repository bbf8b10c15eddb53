"""What a reader finds in a summary: the answers, how sure they are, what was spent, how good it is."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import InputError
from leastnoise.planning import all_methods
from leastnoise.report import cost_table, cross_table, figures
from leastnoise.report import plan_sentences as report_words
from leastnoise.report import summary as report_summary
from leastnoise.report.pure_alternative import design_without_delta
from leastnoise.strategy.structured import accuracy
from leastnoise.strategy.structured.blocks import Structured
from support import refuses
from tolerances import ROUNDING

SCHEMA = ln.Schema(age=range(20), sex=("F", "M"))
QUERIES = [ln.Total(name="everyone"), ln.Marginal("sex"), ln.Prefix("age")]
LINE = re.compile(
    r"^  (?P<label>.*?)  +(?P<answer>-?[\d,.]+)   95% in \[ *(?P<low>-?[\d,.]+), *(?P<high>-?[\d,.]+)\]$"
)


def plan_of(goal=None, queries=QUERIES, **options):
    return ln.design(ln.assemble(queries, SCHEMA), goal or ln.ApproxDP(epsilon=1, delta=1e-6), **options)


def release_of(plan, x=None):
    """A release that happens to have drawn no noise at all."""
    counts = np.arange(plan.workload.shape[1]) if x is None else np.asarray(x)
    return ln.Release(plan, plan.strategy.answers(counts))


def number(text):
    return float(text.replace(",", ""))


def shown(text):
    """Label to (answer, low, high) of every answer line."""
    found = (LINE.match(line) for line in text.splitlines())
    return {m["label"].strip(): tuple(number(m[k]) for k in ("answer", "low", "high")) for m in found if m}


# ------------------------------------------------------------------------ what is there


def test_a_release_shows_answers_with_their_intervals():
    release = release_of(plan_of())
    text = ln.summarize(release).text()
    lines = shown(text)
    lower, upper = release.interval(0.95)
    assert list(lines)[:3] == ["everyone", "sex F", "sex M"]
    assert len(lines) == 1 + 2 + 6
    for j, (answer, low, high) in enumerate(lines.values()):
        assert answer == pytest.approx(release.answers[j], abs=0.5)
        assert (low, high) == (math.floor(lower[j]), math.ceil(upper[j]))
    for words in (
        "A private release of 23 counts\n==============================\n",
        "\neveryone\n  everyone  780   95% in [",
        "Each interval holds the true count of the records counted with probability 95% (exact);",
        "release.interval(simultaneous=True) gives wider ones",
        "Answers can be negative or fractional: nothing was cut off",
        "(ε, δ)-differential privacy with ε = 1, δ = 1e-06, adding or removing one record.",
        "This release spent mu = 0.236705 in Gaussian terms; at delta = 1e-06 that is epsilon = 1.",
        "Repeating it, or releasing anything else about the same people, adds to this.",
        "method dense: Newton's method on the dual",
        "No Gaussian noise shaped to these counts can have less than",
        ": this is the optimum, proved.",
        "Recheck it yourself: leastnoise.certify(plan.workload, plan).",
    ):
        assert words in text, words


def test_a_plan_shows_no_answers():
    plan = plan_of()
    text = ln.summarize(plan).text()
    assert shown(text) == {} and "Each interval" not in text
    for words in (
        "A plan for 23 counts, not measured yet",
        "Measuring it once would spend mu = ",
        "  everyone   ",
        "(20 counts)",
        "Recheck it yourself",
    ):
        assert words in text, words
    median = float(np.median(plan.stderr[3:]))
    assert f"  age up to  median {median:,.4g}, from " in text


def test_figures_of_the_proof_are_those_of_the_certificate():
    plan = plan_of()
    text = ln.summarize(plan).text()
    certificate = ln.certify(plan.workload, plan)
    assert f"Total variance {certificate.achieved:,.6g} ({certificate.achieved / 23:,.6g} per count)." in text
    assert f"less than {certificate.lower_bound:,.6g} under the same privacy" in text
    assert f"Gap {certificate.gap:.1e}: this is the optimum, proved." in text


AIMED = [ln.Prefix("age", stderr=20), ln.Marginal("age"), ln.Total(name="everyone", stderr=8)]


@pytest.mark.parametrize(
    ("goal", "objective", "words"),
    [
        (ln.GDP(1), ln.MaxVariance(), r"Largest variance \S+ \(a standard error of \S+\)\."),
        (
            ln.GDP(1),
            ln.Targets(),
            r"Squared factor \S+: standard errors are at most \S+ times their targets\.",
        ),
        (ln.GDP(1), None, r"Total variance \S+ \(\S+ per count\)\."),
        (
            ln.GDP(1),
            ln.TotalVariance(relative_to="uniform"),
            r"Total variance, relative to uniform counts: \S+\.",
        ),
    ],
)
def test_every_objective_is_said_in_words(goal, objective, words):
    plan = plan_of(goal, AIMED, objective=objective, method="identity")
    text = ln.summarize(plan).text()
    assert re.search(words, text), text
    assert f"less than {plan.certificate.lower_bound:,.6g} under the same privacy" in text
    assert "  age up to  median" in text and "(20 counts), target std. error 20\n" in text
    pairs = zip(plan.workload.blocks, plan.spreads, strict=True)
    shares = [spread.high / float(block.targets[0]) for block, spread in pairs]
    closest = int(np.argmax(shares))
    kept = f"the closest, {plan.workload.names[closest]!r}, uses {100 * shares[closest]:.3g}% of what it may"
    assert f"  Targets: met by every query; {kept}.\n" in text
    assert text.count("target ") == 2


def test_targets_without_a_goal_are_said_in_words():
    plan = ln.design(ln.assemble(AIMED, SCHEMA), method="identity")
    text = ln.summarize(plan).text()
    achieved, bound = plan.certificate.achieved, plan.certificate.lower_bound
    assert f"Mu squared {achieved:,.6g} per record, the least that was found to meet the targets." in text
    assert f"can have less than {bound:,.6g} and meet the targets." in text
    missed = plan_of(ln.GDP(0.1), AIMED, objective=ln.Targets(), method="identity")
    words = r"Targets: missed; every standard error is within (\S+) times its target\."
    (within,) = re.findall(words, ln.summarize(missed).text())
    assert missed.factor <= float(within) <= missed.factor * (1 + 1e-5)


def test_weighted_largest_variances_are_called_so():
    heavy = [ln.Prefix("age", weight=2), ln.Total()]
    text = ln.summarize(plan_of(ln.GDP(1), heavy, objective=ln.MaxVariance(), method="identity")).text()
    assert re.search(r"Largest weighted variance \S+\.\n", text)


def test_a_summary_designs_nothing(monkeypatch):
    """Every summary of a plan with a delta searched for one without: seconds, for what nobody had asked."""
    plan = plan_of(queries=[ln.Marginal("sex", stderr=50)])
    measured = release_of(plan)

    def refuse(*_, **__):
        raise AssertionError("a summary designs nothing")

    for method in all_methods():
        monkeypatch.setitem(vars(method), "find", refuse)
    for subject in (plan, measured):
        assert "ithout delta" not in ln.summarize(subject).text()


def test_pure_privacy_and_its_intervals_are_described_as_such():
    text = ln.summarize(release_of(plan_of(ln.PureDP(1), method="hierarchical"))).text()
    for words in (
        "with probability 95% (on the safe side);",
        "ε-differential privacy with ε = 1, adding or removing one record.",
        "This release spent epsilon = 1 (pure).",
        "No Laplace noise shaped to these counts",
    ):
        assert words in text, words
    assert "mu =" not in text


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (ln.GDP(2), "μ-Gaussian differential privacy with μ = 2, adding"),
        (ln.ZCDP(0.5), "ρ-zero-concentrated differential privacy with ρ = 0.5, adding"),
        (ln.GDP(2, records_per_person=3), "adding or removing up to 3 records of one person."),
    ],
    ids=str,
)
def test_every_goal_is_said_in_words_with_an_epsilon(goal, words):
    text = ln.summarize(plan_of(goal)).text()
    assert words in text
    assert re.search(
        r"spend mu = [12](\.\d+)? in Gaussian terms; at delta = 1e-06 that is epsilon = \d", text
    )


def test_heuristic_and_stopped_plans_say_so():
    heuristic = plan_of(method="identity")
    text = ln.summarize(heuristic).text()
    assert f"Gap {heuristic.certificate.gap:.1%}: this method does not aim at the optimum." in text
    stopped = plan_of(tol=1e-15)
    assert stopped.certificate.status == "stopped"
    text = ln.summarize(stopped).text()
    # It went as far as floats allow: more time would do nothing.
    gap = f"Gap {stopped.certificate.gap:.1e}"
    assert f"{gap}: at most that share above the optimum; method {stopped.method} proves no more." in text
    assert "The search converged." in text
    assert "may do better" not in ln.summarize(stopped).html()
    hasty = plan_of(time_limit=1e-9)
    assert hasty.certificate.status == "stopped"
    for told in (ln.summarize(hasty).text(), ln.summarize(hasty).html()):
        assert "he search ended at its time limit; with more time it may do better" in told
        assert "proves no more" not in told
    for wrong in (heuristic, stopped):
        assert "this is the optimum" not in ln.summarize(wrong).text()


# ------------------------------------------------------------------------ claims rounded


def claims_enough(plan):
    """Whether the printed μ and ε are at least what one person spends, exactly."""
    text = ln.summarize(plan).text()
    mu = re.search(r"spend mu = (\S+) in", text)
    epsilon = re.search(r"epsilon = (\S+?)[.]?( \(pure\)[.])?$", text, re.MULTILINE)
    if mu is None:
        return Fraction(epsilon[1]) >= plan.spent_per_person
    delta = float(re.search(r"at delta = (\S+) that", text)[1])
    return Fraction(mu[1]) ** 2 >= plan.spent_per_person and float(epsilon[1]) >= plan.epsilon(delta=delta)


GOALS = [
    *(ln.GDP(mu) for mu in (0.1234567, 1 / 3, 1, 7.77777777, 1e-7)),
    *(ln.ZCDP(rho) for rho in (1e-9, 0.123456789)),
    *(ln.PureDP(epsilon) for epsilon in (Fraction(1, 3), 0.7654321, 12.3456749)),
    ln.ApproxDP(epsilon=0.7654321, delta=1e-7),
]


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_printed_spending_is_never_rounded_down(goal):
    """Six digits rounded to the nearest used to claim less than was spent, half of the time."""
    assert claims_enough(plan_of(goal, method="identity"))


def test_rounding_to_the_nearest_would_be_noticed(monkeypatch):
    monkeypatch.setattr(report_words, "at_least", lambda spent: f"{spent:.6g}")
    assert not all(claims_enough(plan_of(goal, method="identity")) for goal in GOALS)


def is_outward(release):
    """Whether each printed interval holds the one of the release and is close to it."""
    lower, upper = release.interval(0.95)
    lines = list(shown(ln.summarize(release).text()).values())
    slack = 0.17 * (upper - lower)  # the last decimal is a third of half of it at most
    return all(
        low <= lo <= low + room and high - room <= up <= high
        for (_, low, high), lo, up, room in zip(lines, lower, upper, slack, strict=True)
    )


@pytest.mark.parametrize("factor", [1, 0.3, 0.004, 1e-6, 1000, 123456.789])
def test_printed_intervals_hold_the_true_ones_and_show_their_digits(factor):
    """Answers of real-weighted queries used to be printed as 0 in [-0, 0]."""
    matrix = factor * np.vander(np.arange(1, 5), 40, increasing=True).clip(0, 5)
    plan = plan_of(queries=[ln.Linear(matrix)])
    assert is_outward(release_of(plan, np.full(40, 3)))


def test_rounding_ends_to_the_nearest_would_be_noticed(monkeypatch):
    releases = [release_of(plan_of(ln.GDP(mu), queries=[ln.Marginal("sex")])) for mu in (0.45, 0.38)]
    assert all(is_outward(release) for release in releases)
    monkeypatch.setattr(figures.math, "ceil", round)
    assert not all(is_outward(release) for release in releases)


def test_nothing_is_shown_as_minus_zero():
    plan = plan_of(ln.GDP(1), queries=[ln.Total()])
    y = plan.strategy.answers(np.zeros(40, dtype=np.int64)) - 3
    text = ln.summarize(ln.Release(plan, y)).text()
    assert shown(text)["everyone"][0] == 0
    assert not re.search(r"-0(\.0+)?(?![\d.])", text)


# ----------------------------------------------------------------------- long and short


def test_targets_are_told_as_they_were_asked():
    schema = ln.Schema(age=range(3), sex=("F", "M"))
    asked = [
        ln.Marginal("age", name="a", within=(75, 0.95)),
        ln.Marginal("sex", name="b", stderr=50),
        ln.Total(name="c", expected=1000, stderr="5%"),
    ]
    text = ln.summarize(ln.design(ln.assemble(asked, schema), ln.GDP(1))).text()
    assert "(3 counts), target ±75 at 95%, as std. error 38.27\n" in text
    assert "(2 counts), target std. error 50\n" in text
    assert "(1 count), target std. error 5% of 1,000, that is 50\n" in text


def test_long_batches_are_cut_with_a_pointer():
    schema = ln.Schema(age=range(13), sex=("F", "M"))
    plan = ln.design(ln.assemble([ln.Marginal("age"), ln.Prefix("age", name="it's")], schema), ln.GDP(1))
    lines = ln.summarize(release_of(plan)).text().splitlines()
    assert "  … and 7 more, in the file of answers and in release['age']" in lines
    assert """  … and 7 more, in the file of answers and in release["it's"]""" in lines
    assert sum(LINE.match(line) is not None for line in lines) == 12


def test_batches_of_up_to_twelve_are_shown_whole():
    plan = ln.design(ln.assemble([ln.Marginal("age")], ln.Schema(age=range(12))), ln.GDP(1))
    text = ln.summarize(release_of(plan)).text()
    assert len(shown(text)) == 12 and " more, in " not in text


def test_one_is_a_count_and_two_are_counts():
    one = ln.summarize(release_of(plan_of(queries=[ln.Total()]))).text()
    assert "A private release of 1 count\n" in one and "(1 count)" in one
    two = ln.summarize(plan_of(queries=[ln.Marginal("sex")])).text()
    assert "A plan for 2 counts, not measured yet\n" in two and "(2 counts)" in two


def test_thousands_are_set_apart():
    text = ln.summarize(release_of(plan_of(queries=[ln.Total()]), np.full(40, 10**6))).text()
    assert "  everyone  40,000,000   95% in [39,999,9" in text


def test_zero_workloads_have_a_report():
    plan = ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.GDP(1))
    text = ln.summarize(release_of(plan)).text()
    assert "  row 0  0   95% in [0, 0]" in text
    assert "This release spent mu = 0 in Gaussian terms; at delta = 1e-06 that is epsilon = 0." in text


# ------------------------------------------------------------------------ hostile labels


HOSTILE = (
    "<script>alert(1)</script>",
    "[bold]x[/bold]",
    "=cmd()",
    "{0}%s",
    "a\nspent mu = 0",
    "\x1b[2Jy",
    "\u202eabc",
)


def is_harmless(text):
    """Whether a terminal shows the text as it is: no control characters, no line forged by a label."""
    lines = text.splitlines()
    return all(line.isprintable() for line in lines) and not any(
        line.startswith("spent mu") for line in lines
    )


def test_markup_and_control_characters_in_labels_are_harmless():
    """A line break in a category used to start a line of its own in the report."""
    schema = ln.Schema(kind=HOSTILE)
    plan = ln.design(ln.assemble([ln.Marginal("kind", name="b\nspent mu = 0")], schema), ln.GDP(1))
    text = ln.summarize(release_of(plan)).text()
    assert is_harmless(text) and is_harmless(ln.summarize(plan).text())
    for words in ("kind <script>alert(1)</script> ", "kind [bold]x[/bold] ", "kind =cmd() ", "kind {0}%s "):
        assert words in text
    assert r"kind a\nspent mu = 0" in text and r"\x1b[2Jy" in text and r"\u202eabc" in text
    assert len(shown(text)) == len(HOSTILE)


def test_control_characters_left_alone_would_be_noticed(monkeypatch):
    monkeypatch.setattr(report_summary, "printable", str)
    schema = ln.Schema(kind=HOSTILE)
    plan = ln.design(ln.assemble([ln.Marginal("kind")], schema), ln.GDP(1))
    assert not is_harmless(ln.summarize(release_of(plan)).text())


# ------------------------------------------------------------------------------ the value


def test_a_report_prints_itself():
    plan = plan_of()
    report = ln.summarize(plan)
    assert str(report) == report.text()
    assert repr(report) == f"Report({plan!r})"
    assert isinstance(report, ln.Report) and report.subject is plan


@pytest.mark.parametrize("subject", [None, "plan", 3, SCHEMA], ids=str)
def test_only_plans_and_releases_are_summarised(subject):
    with refuses(InputError, "subject"):
        ln.summarize(subject)


# ------------------------------------------------------------------------------ any scale


FORTY = ln.Schema(**{f"a{i}": range(10) for i in range(40)})
CUBE = ln.Cube(*FORTY.names, order=2)


def test_no_report_on_a_plan_lists_its_queries(monkeypatch):
    """Standard errors of 162 million counts used to be listed for three lines of text."""

    def listed(*_):
        raise AssertionError("one number for every query")

    monkeypatch.setattr(accuracy, "variances", listed)
    for name in ("weights", "targets"):
        monkeypatch.setattr(ln.Workload, name, property(listed))
    asked = ln.assemble([CUBE, ln.Total(weight=2)], FORTY)
    plan = ln.design(asked, ln.ApproxDP(1, 1e-6), method="marginals")
    text = ln.summarize(plan).text()
    assert "A plan for 78,402 counts, not measured yet" in text
    assert "A plan for 78,402 counts, not measured yet" in ln.summarize(plan).html()
    assert cost_table(plan).row_count == 3
    table = ln.compare(asked, ln.ApproxDP(1, 1e-6), methods=["marginals"])
    mean = math.fsum(s.mean_square * n for s, n in zip(plan.spreads, (78_401, 2), strict=True)) / 78_403
    assert table.contenders[0].rms_stderr == pytest.approx(math.sqrt(mean), rel=ROUNDING)
    with pytest.raises(AssertionError, match="one number for every query"):
        _ = plan.stderr


@pytest.mark.thorough
def test_a_million_answers_are_summarised_at_once():
    schema = ln.Schema(x=range(100), y=range(100), z=range(100))
    asked = ln.assemble([ln.Prefix("x") * ln.Marginal("y") * ln.Marginal("z")], schema)
    for goal in (ln.GDP(1), ln.PureDP(1)):
        plan = ln.design(asked, goal, method="product")
        release = ln.Release(plan, np.zeros(plan.strategy.n_measured, dtype=object))
        began = time.process_time()
        text = ln.summarize(release).text()
        # 0.3 s; interval by interval it would take minutes.
        assert time.process_time() - began < 10
        assert "A private release of 1,000,000 counts" in text and "… and 999,994 more" in text


def test_a_structured_release_has_cross_tables():
    plan = ln.design(ln.assemble([CUBE, ln.Marginal("a3", "a7", name="pair")], FORTY), ln.GDP(1))
    assert isinstance(plan.strategy, Structured)
    release = ln.Release(plan, np.zeros(plan.strategy.n_measured, dtype=object))
    half = math.ceil(1.959964 * float(plan.stderr[-1]) + 0.5)
    table = cross_table(release, "pair")
    assert table.row_count == 10
    assert {cell for column in table.columns[1:] for cell in column.cells} == {f"0 ± {half}"}


# ------------------------------------------------------------------------ reading a plan designs nothing


class Searched(Exception):
    """Raised on entering a function that designs or solves."""


@contextlib.contextmanager
def no_search():
    """Raises `Searched` on entering a function of the solver, or of planning beyond the plan itself."""
    rooms = Path(ln.__file__).parent

    def forbid(frame, event, argument):
        if event != "call" or frame.f_code.co_name in ("<module>", "__getattr__"):
            return
        file = Path(frame.f_code.co_filename)
        # plan.py, plan_text.py and the like hold the plan itself.
        is_search = file.is_relative_to(rooms / "planning") and not file.name.startswith("plan")
        if is_search or file.is_relative_to(rooms / "solver"):
            raise Searched(f"{file.name}: {frame.f_code.co_name}")

    sys.setprofile(forbid)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.thorough
def test_summaries_do_not_search(tmp_path):
    """Printing took 5.3 s beside a design of 2.3 s, as it designed what pure privacy would cost."""
    for neighbours in ("add-remove", "replace-one"):
        for goal in (ln.ApproxDP(1, 1e-6, neighbours=neighbours), ln.PureDP(1, neighbours=neighbours)):
            targets = [ln.Marginal("sex", stderr=500), ln.Prefix("age", within=(2_000, 0.95))]
            for queries in (QUERIES, targets):
                plan = plan_of(goal, queries, method="identity")
                release = release_of(plan)
                with no_search():
                    for text in (str(plan), repr(plan), str(ln.summarize(plan)), plan.certificate):
                        assert text
                    assert "A private release" in str(ln.summarize(release)) and str(release)
                    for subject in (plan, release):
                        assert ln.summarize(subject).to_html(tmp_path / "page.html").exists()


def test_a_search_would_be_noticed():
    plan = plan_of(method="identity")
    with pytest.raises(Searched), no_search():
        design_without_delta(plan)
