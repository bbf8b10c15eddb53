"""What holds of every plan, wherever it comes from: designed, loaded or put together by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leastnoise.core.errors import DesignError, PrivacyError
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.plan.field_checks import check_fields
from leastnoise.planning.plan.self_check import check_labels
from leastnoise.query import Targets
from leastnoise.strategy import Measured, is_within, spare_of

if TYPE_CHECKING:
    from leastnoise.planning.plan.plan import Plan

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_plan(plan: Plan) -> None:
    """Return if a plan keeps its goal and claims no more than it may.

    Guarantee:
        No record spends more than the goal allows, in every cell together with the earlier plans; the
        sensitivity is that of the integers that are measured, compared in rationals.

    Raises:
        DesignError: if its parts do not fit one another.
        PrivacyError: if it spends more than its goal, or more than the earlier plans leave.
    """
    check_fields(plan)
    if plan.strategy is None and plan.mechanism is not None:
        _check_after(plan)
        _check_mechanism(plan, plan.mechanism)
    elif plan.strategy is not None and plan.mechanism is None:
        _check_after(plan)
        _check_strategy(plan, plan.strategy)
    else:
        raise DesignError("a plan holds either a strategy or a mechanism that depends on the data")


def _check_mechanism(plan: Plan, mechanism: Mechanism) -> None:
    if mechanism.goal != plan.privacy or mechanism.spent > plan.privacy.budget:
        raise PrivacyError("the mechanism spends more than the privacy goal allows")
    if plan.claim != "data-dependent" or not plan.has_goal:
        raise DesignError("a plan that depends on the data can claim nothing about accuracy")


def _check_strategy(plan: Plan, strategy: Measured) -> None:
    if plan.claim == "data-dependent":
        raise DesignError("a plan with a strategy does not depend on the data")
    if plan.claim == "optimal":
        raise DesignError(
            'claim "stopped" or "heuristic"; whether a plan is optimal is for its certificate to say'
        )
    if strategy.n_cells != plan.workload.shape[1]:
        raise DesignError(
            f"the strategy measures {strategy.n_cells:,} cells, the workload has {plan.workload.shape[1]:,}"
        )
    if strategy.neighbours != plan.privacy.neighbours:
        raise PrivacyError(
            f"the noise was scaled for {strategy.neighbours} neighbours, the goal is for "
            f"{plan.privacy.neighbours}; call design() with this goal"
        )
    if strategy.noise != plan.privacy.noise:
        raise PrivacyError(f"{strategy.noise} noise cannot serve the goal {plan.privacy}")
    spare = None if plan.used is None else spare_of(plan.privacy, plan.used)
    if not is_within(strategy, plan.privacy, spare):
        together = "" if spare is None else " together with the earlier plans"
        raise PrivacyError(f"the strategy{together} spends more than the privacy goal allows")
    if not plan.has_goal and not isinstance(plan.objective, Targets):
        raise PrivacyError(f"a plan for {plan.objective!r} needs a privacy goal that was asked for")
    # What it cannot answer at all is for the certificate to say, which names the query.
    if strategy.can_answer_all(plan.workload):
        check_labels(plan.workload, strategy)


def _check_after(plan: Plan) -> None:
    """Return if what a plan says of earlier ones is whole, and they can be added up with it."""
    if (plan.used is None) != (not plan.after):
        raise PrivacyError("a plan after others needs both their digests and what they have used")
    if plan.used is None:
        return
    if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in plan.after):
        raise PrivacyError("earlier plans are named by their digests, 64 hexadecimal digits each")
    is_summed = plan.privacy.noise == "gaussian" and plan.privacy.neighbours == "add-remove"
    if not (is_summed and plan.has_goal) or plan.mechanism is not None:
        raise PrivacyError(
            "plans add up cell by cell for Gaussian noise within a goal, and where records are added or "
            "removed; ",
            Remedy("design this plan without ", Argument("after")),
            field="after",
        )
    if len(plan.used) != plan.workload.shape[1]:
        raise PrivacyError(
            f"the earlier plans are about {len(plan.used):,} cells, this one about "
            f"{plan.workload.shape[1]:,}; plans are designed after others about the same cells only"
        )
