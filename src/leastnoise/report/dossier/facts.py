"""What a release claims, in words and numbers that every file of its dossier shares.

Everything follows from the release and from what the publisher said; nothing else is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from leastnoise.core.directed import float_above, root_above
from leastnoise.core.printable import printable
from leastnoise.planning import Plan
from leastnoise.privacy import GDP, ZCDP, ApproxDP, PureDP, epsilon_of
from leastnoise.release import Release
from leastnoise.report import plan_sentences as words

# What a person fills in.
BLANK = ""


@dataclass(frozen=True)
class Claim:
    """The privacy that a release claims.

    Attributes:
        variant: the kind of differential privacy, as the registry of deployments names it.
        parameters: its numbers, each rounded towards more spending.
        details: the same in words, with what the numbers do not say.
        unit: whose data are protected, in a few words.
        neighbours: which tables are neighbours, precisely.
        statement: the whole promise in one sentence.
    """

    variant: str
    parameters: dict[str, float]
    details: str
    unit: str
    neighbours: str
    statement: str


def whole_plan(release: Release) -> Plan:
    """The plan that was paid for: of all periods, where a release is one of them."""
    return release.plan if release.plan.horizon is None else release.plan.horizon


def claim_of(release: Release) -> Claim:
    """The privacy that a release claims.

    Guarantee:
        The parameters hold for everything in the release, with what measuring records in no cell adds to
        it: they are those of the goal, or what was spent where that is more.
    """
    plan = whole_plan(release)
    goal, by_person = plan.privacy, bool(release.is_truncated)
    spent = spent_of(release)
    is_more = spent > goal.budget_per_person
    k = goal.records_per_person
    records = "one record" if k == 1 else f"{k:,} records"
    unit = f"one person, with at most {records}" if k > 1 else "one record"
    if by_person:
        unit = f"all records of one person, of which at most {k:,} {'is' if k == 1 else 'are'} counted"
    details = f"{goal.statement(by_person=by_person)}."
    if is_more:
        figure = float_above(spent) if goal.noise.is_pure else root_above(spent)
        letter = "epsilon" if goal.noise.is_pure else "mu"
        details += (
            f" All that was paid for comes to {letter} = {figure!r}, which the parameters account for. "
            f"{release.price.covers}"
            if release.price is not None
            else f" Measuring how many records match no declared value adds to this: together {letter} = "
            f"{figure!r} is spent, which the parameters account for."
        )
    variant, parameters = _numbers(plan, spent, is_more)
    if isinstance(goal, GDP):
        details += (
            f" The variant is Gaussian differential privacy with mu = {root_above(spent)!r}; epsilon is "
            f"stated at delta = {parameters['delta']!r}."
        )
    neighbours = goal.relation.statement(k, by_person=by_person)
    return Claim(
        variant,
        parameters,
        details,
        unit,
        f"Two tables are neighbours if one comes from the other by {neighbours}. "
        + words.who_is_protected(plan, release.is_truncated),
        goal.statement(by_person=by_person),
    )


def spent_of(release: Release) -> Fraction:
    """What everything in the release spends for one person, exactly: μ² or ε."""
    return max(whole_plan(release).spent_per_person, release.spent_per_person)


def _numbers(plan: Plan, spent: Fraction, is_more: bool) -> tuple[str, dict[str, float]]:
    """The variant and its parameters: the goal's own, or by what was spent where that is more."""
    goal = plan.privacy
    if isinstance(goal, PureDP):
        return "Pure DP", {"epsilon": float_above(spent if is_more else Fraction(goal.epsilon))}
    if isinstance(goal, ZCDP):
        return "Zero-concentrated DP", {"rho": float_above(spent / 2 if is_more else Fraction(goal.rho))}
    delta = words.shown_delta(plan)
    if isinstance(goal, ApproxDP):
        epsilon = epsilon_of(spent, delta) if is_more else float_above(Fraction(goal.epsilon))
        return "Approximate DP", {"epsilon": epsilon, "delta": float_above(Fraction(goal.delta))}
    return "Custom", {"epsilon": epsilon_of(spent, delta), "delta": delta}


def noise_sentence(plan: Plan) -> str:
    """How the noise is drawn."""
    if plan.strategy is None:
        return (
            "The method measures in stages, and what a stage measures depends on noisy results of earlier "
            "ones. All noise is drawn exactly, from the operating system's cryptographic generator."
        )
    if plan.privacy.noise.is_pure:
        law = "discrete Laplace noise on the integers"
    else:
        law = "Gaussian noise rounded to the nearest integer"
    return (
        f"Integer combinations of the counts are computed in integers, and {law} is added, drawn exactly "
        "from the operating system's cryptographic generator: no floating-point number lies between the "
        "counts and the noisy integers that are stored. The sensitivity is recomputed from the integer "
        "strategy and compared with the budget in exact rational arithmetic."
    )


def domain_sentence(plan: Plan) -> str:
    """Which tables there may be."""
    schema = plan.workload.schema
    if schema is None:
        return "Vectors of counts, one for each declared cell."
    return (
        f"Tables of records with the columns {printable(', '.join(schema.names))}. The values that count "
        "were declared in advance and are public; a record with any other value is in no cell."
    )


def unprotected_sentence(plan: Plan) -> str:
    """What is published without noise."""
    said = "None of the statistics. The schema, the queries, the plan and the size of the noise are public."
    if plan.privacy.relation.replaces:
        said += " As a record is replaced and not removed, the number of records is not protected."
    return said
