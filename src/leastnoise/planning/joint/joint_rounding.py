"""The bases found, in integers, and the best weights for those."""

from __future__ import annotations

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.planning.families.proposals import on_basis
from leastnoise.planning.joint.joint_problem import JointProblem
from leastnoise.planning.joint.joint_search import JointPoint, weighted
from leastnoise.strategy import AxisForm, JointProposal, joint_form

# Bits of the largest coefficient of a row. The optimum over ω takes up what rounding moves to first order:
# 14 bits cost less than 1e-5 of the total.
_BITS = 14

# The gap to which ω is worked out for the integers.
_WEIGHTS_TOL = 1e-5


def integer_proposal(
    problem: JointProblem, point: JointPoint, *, deadline: Deadline = NEVER
) -> tuple[JointProposal, JointPoint]:
    """What is measured, and the point that it is, at profile 1."""
    forms: list[AxisForm] = []
    bases: list[Array] = []
    for a, axis in enumerate(problem.axes):
        first = problem.groups[a]
        if first < a:
            forms.append(forms[first])
            bases.append(bases[first])
            continue
        coefficients = point.bases[a] / axis.lengths
        form = joint_form(coefficients, axis.basis, bits=_BITS, has_total=problem.pinned[a])
        forms.append(form)
        assert form.rows is not None
        rows = form.rows.astype(float)
        exact = rows if axis.basis is None else on_basis(rows, axis.basis) * axis.lengths
        # In units of the largest entry; the unit of a row is a matter of ω.
        unit = np.abs(rows).max(axis=1, keepdims=True)
        bases.append(exact / unit)
    found = weighted(problem, bases, tol=_WEIGHTS_TOL, start=point.q, ended=point.ended, deadline=deadline)
    omega = found.omega
    for a, form in enumerate(forms):
        assert form.rows is not None
        unit = np.abs(form.rows.astype(float)).max(axis=1)
        omega = omega / (unit**2).reshape([-1 if b == a else 1 for b in range(len(forms))])
    return JointProposal(problem.products.axes, tuple(forms), omega), found
