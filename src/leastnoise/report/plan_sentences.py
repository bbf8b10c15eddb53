"""What is said of a plan, whether as text or as a page."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from leastnoise.core.directed import float_above, root_above
from leastnoise.core.printable import printable
from leastnoise.planning import Plan, targets_to_text
from leastnoise.privacy import ApproxDP, epsilon_of
from leastnoise.query import AbsoluteError, QueryBlock, TotalVariance
from leastnoise.release import Release
from leastnoise.report.figures import at_least, gap_text

# What is usual in talks about (ε, δ), for goals that have no δ of their own.
_USUAL_DELTA = 1e-6

_LARGE_DELTA = 1e-3

# A target is met with nothing to spare from this share of it on.
_JUST_MET = 0.9995


def target_to_text(block: QueryBlock) -> str:
    """What was asked of a batch, as it was given: "std. error 40", "±75 at 95%"; "" without a target."""
    if block.query.target is not None:
        return block.query.target_to_text()
    asked = block.targets[np.isfinite(block.targets)]
    if len(asked) == 0:
        return ""
    low, high = f"{asked.min():,.6g}", f"{asked.max():,.6g}"
    return f"std. error {low}" if low == high else f"std. error {low} to {high}"


def target_with_stderr(block: QueryBlock) -> str:
    """The same, and what that is as a standard error where it was given otherwise."""
    asked = target_to_text(block)
    stderr = block.targets[np.isfinite(block.targets)]
    if len(stderr) == 0 or (block.query.within is None and not isinstance(block.query.stderr, str)):
        return asked
    low, high = f"{stderr.min():,.4g}", f"{stderr.max():,.4g}"
    as_stderr = low if low == high else f"{low} to {high}"
    return f"{asked}, {'that is' if block.query.within is None else 'as std. error'} {as_stderr}"


def used_of(plan: Plan, block: QueryBlock, largest: float) -> float | None:
    """The largest standard error of a batch as a share of its target, row by row; None without one.

    Args:
        largest: its largest standard error, which decides where all rows have one target.
    """
    if not np.isfinite(block.targets).any():
        return None
    if len(block.targets) == 1:
        return largest / float(block.targets[0])
    return float((plan.known_stderr()[plan.workload.rows_of(block.name)] / block.targets).max())


def targets_kept(plan: Plan) -> str | None:
    """Whether every target is met, and by how much, in a sentence; None where none was given."""
    if plan.factor is None or plan.spreads is None:
        return None
    said = f"Targets: {targets_to_text(plan.factor)}"
    if plan.factor > 1:
        return f"{said}."
    pairs = zip(plan.workload.blocks, plan.spreads, strict=True)
    used = [(used_of(plan, block, spread.high) or 0.0, block.name) for block, spread in pairs]
    most, name = max(used, key=lambda pair: pair[0])
    if most >= _JUST_MET:
        return f"{said}, with nothing to spare in {printable(name)!r}."
    return f"{said}; the closest, {printable(name)!r}, uses {100 * most:.3g}% of what it may."


def shown_delta(plan: Plan) -> float:
    """The δ at which ε is stated: the goal's own, or a usual one."""
    return float(plan.privacy.delta) if isinstance(plan.privacy, ApproxDP) else _USUAL_DELTA


def spent_together(plan: Plan, release: Release | None) -> Fraction:
    """What a plan spends for one person, μ² or ε, with what its release measured beside it.

    Of a period of a stream, what was charged for all periods.
    """
    if release is None:
        return plan.spent_per_person
    return max(plan.spent_per_person, release.spent_per_person)


def epsilon_spent(plan: Plan, together: Fraction) -> float:
    """The ε of what was spent, at the δ that is shown, rounded up."""
    return float_above(together) if plan.mu is None else epsilon_of(together, shown_delta(plan))


def promise(plan: Plan, release: Release | None, *, by_person: bool = False) -> str:
    """The promise in one sentence without the full stop; where more was spent than it says, that too.

    Args:
        by_person: of a plan, whether it is known that a column of the table will identify the person.
    """
    said = plan.privacy.statement(by_person=by_person if release is None else bool(release.is_truncated))
    together = spent_together(plan, release)
    if release is not None and release.price is not None and together > plan.privacy.budget_per_person:
        said += (
            ", for people who come once and whose records never change; all that was paid for comes to mu = "
            f"{at_least(root_above(together))}"
        )
    elif together > plan.privacy.budget_per_person:
        said += ", for the answers; the number of records that matched no declared value adds to it"
    return said


def spent(plan: Plan, spends: str, together: Fraction | None = None) -> str:
    """What measuring a plan costs one person, rounded up; `spends` is how the sentence begins.

    Args:
        together: μ² or ε with what was measured beside the plan.
    """
    whole = plan.spent_per_person if together is None else together
    epsilon = at_least(epsilon_spent(plan, whole))
    if plan.mu is None:
        return f"{spends} epsilon = {epsilon} (pure)."
    return (
        f"{spends} mu = {at_least(root_above(whole))} in Gaussian terms; at delta = "
        f"{at_least(shown_delta(plan))} that is epsilon = {epsilon}."
    )


def covered(release: Release | None) -> str | None:
    """What a stream was paid for beyond records that never change, in a sentence; None where nothing is."""
    return None if release is None or release.price is None else printable(release.price.covers)


def not_counted_sentences(release: Release) -> list[str]:
    """How many records are in no cell, and what it cost where it was not free; [] where not measured."""
    if release.not_counted is None:
        return []
    lines = [printable(line) for line in release.not_counted.statements()]
    together = release.spent_per_person
    if release.plan.privacy.relation.replaces and together > release.plan.spent_per_person:
        pure = release.plan.privacy.noise.is_pure
        figure = float_above(together) if pure else root_above(together)
        lines.append(
            "Where a record is replaced this number is not free: the whole release spent "
            f"{'epsilon' if pure else 'mu'} = {at_least(figure)}, more than its answers alone."
        )
    return lines


def leaves_out(release: Release) -> bool:
    """Whether records of the table may be in none of the answers: in no cell, or further ones of a person."""
    schema = release.plan.workload.schema
    if release.is_truncated or schema is None:
        return bool(release.is_truncated)
    has_every_cell = all(schema[name].outside == schema[name].null == "other" for name in schema.names)
    return release.is_truncated is None or not has_every_cell


def true_count(release: Release) -> str:
    """What an interval holds: the true count, of those records that were counted."""
    return "true count of the records counted" if leaves_out(release) else "true count"


def of_the_counted(release: Release) -> str:
    """How a sentence to quote ends that is true of the records counted alone; "" where all of them are.

    Says how many were not counted, by the noisy number that was released.

    Example: ", of the records counted; about 1,409 ± 22, 7.2%, were not".
    """
    if not leaves_out(release):
        return ""
    k = release.plan.privacy.records_per_person
    most = f", at most {'one' if k == 1 else f'{k:,}'} of each person" if release.is_truncated else ""
    found = release.not_counted
    if found is None:
        return f", of the records counted{most}; how many were not was not measured"
    # Further records of a person are not in the number.
    were_not = "were not" if release.is_truncated is False else "matched no declared value"
    share, n_counted = "", release.n_counted
    if n_counted is not None and found.interval()[0] > 0:
        share = f", {found.estimate / (found.estimate + max(n_counted, 0.0)):.1%},"
    return f", of the records counted{most}; {found.total.amount}{share} {were_not}"


def who_is_protected(plan: Plan, is_truncated: bool | None) -> str:
    """To whom the promise is made, which depends on whether somebody's further records were left out.

    Args:
        is_truncated: that of the release; None for a plan, and where it is not known: the careful words.
    """
    k = plan.privacy.records_per_person
    most = "one record" if k == 1 else f"{k} records"
    if is_truncated:
        are = "is" if k == 1 else "are"
        return (
            f"Every person, however many records they have: at most {most} of each {are} counted, so counts "
            "may be too low, by an amount that no interval accounts for."
        )
    return (
        f"Every person who has at most {most} in the table. If somebody has more, the promise to them is "
        "weaker."
    )


def large_delta(plan: Plan) -> str | None:
    """A warning where δ is too large to protect anybody."""
    if isinstance(plan.privacy, ApproxDP) and plan.privacy.delta > _LARGE_DELTA:
        return "A delta this large may expose whole records; keep it far below one over the people."
    return None


def noise_kind(plan: Plan) -> str:
    """What the noise is called."""
    return plan.privacy.noise.label


def reached(plan: Plan) -> str:
    """What the certificate's number is, in words."""
    achieved, unit = plan.certificate.achieved, plan.certificate.unit
    shown = f"{unit.capitalize()} {achieved:,.6g}"
    if unit == "mu squared":
        return f"{shown} per record, the least that was found to meet the targets"
    if unit == "squared factor":
        return f"{shown}: standard errors are at most {math.sqrt(achieved):,.6g} times their targets"
    if plan.objective.kind == "largest":
        return (
            f"{shown} (a standard error of {math.sqrt(achieved):,.6g})"
            if unit == "largest variance"
            else shown
        )
    if plan.objective in (TotalVariance(), TotalVariance(within_targets=True), AbsoluteError()):
        return f"{shown} ({achieved / plan.workload.shape[0]:,.6g} per count)"
    return f"T{str(plan.objective)[1:]}: {achieved:,.6g}"


def bound(plan: Plan) -> str:
    """What no noise can undercut."""
    under = "under the same privacy" if plan.has_goal else "and meet the targets"
    return (
        f"No {noise_kind(plan)} noise shaped to these counts can have less than "
        f"{plan.certificate.lower_bound:,.6g} {under}."
    )


def verdict(plan: Plan) -> str:
    """How far a plan is from that bound, and why."""
    certificate = plan.certificate
    if certificate.status == "optimal":
        return f"Gap {certificate.gap:.1e}: this is the optimum, proved."
    if certificate.status == "stopped":
        more = {"converged": f"; method {plan.method} proves no more", None: ""}
        proves = more.get(plan.ended, "; a longer search may do better")
        return f"Gap {gap_text(certificate.gap)}: at most that share above the optimum{proves}."
    return f"Gap {certificate.gap:.1%}: this method does not aim at the optimum."


def likeliest_guess(plan: Plan, together: Fraction | None = None) -> float:
    """The largest chance to guess right between two neighbouring tables, rounded up.

    Before seeing the release both are as likely. The best guess is then right with probability
    (1 + TV)/2, TV the total variation between the two releases, which is at most

        2 Φ(μ/2) − 1          for μ-Gaussian privacy: that of N(0, 1) and N(μ, 1)
        (e^ε − 1)/(e^ε + 1)   for pure privacy: that of randomised response

    Args:
        together: μ² or ε with what was measured beside the plan; what it spends alone by default.

    Guarantee:
        Never below the bound for what is spent; four digits.

    Reference:
        Dong, Roth and Su (2022), arXiv:1905.02383, Section 2; Kairouz, Oh and Viswanath (2015),
        arXiv:1311.0776, Theorem 1.
    """
    whole = plan.spent_per_person if together is None else together
    if whole == 0:
        return 0.5
    if plan.mu is None:
        right = 1 / (1 + math.exp(-float_above(whole)))
    else:
        right = math.erfc(-root_above(whole) / math.sqrt(8)) / 2
    # What is added is more than floats lose, so that the digits never round down.
    return min(math.ceil(right * 1e4 + 1e-9) / 1e4, 1.0)
