"""The bases found, in integers; weights are then worked out again for those."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.families.proposals import on_basis
from leastnoise.planning.joint.joint_problem import JointProblem
from leastnoise.strategy import AxisForm, JointProposal, joint_form

# The gap to which ω is worked out for the integers.
WEIGHTS_TOL = 1e-5


def integer_bases(problem: JointProblem, bases: Sequence[Array]) -> tuple[list[AxisForm], list[Array]]:
    """The rows of every axis in integers, and C of them, every row in units of its largest entry."""
    forms: list[AxisForm] = []
    found: list[Array] = []
    for a, axis in enumerate(problem.axes):
        first = problem.groups[a]
        if first < a:
            forms.append(forms[first])
            found.append(found[first])
            continue
        form = joint_form(bases[a] / axis.lengths, axis.basis, has_total=problem.pinned[a])
        assert form.rows is not None
        rows = form.rows.astype(float)
        exact = rows if axis.basis is None else on_basis(rows, axis.basis) * axis.lengths
        forms.append(form)
        found.append(exact / _units(form)[:, None])
    return forms, found


def joint_proposal(problem: JointProblem, forms: Sequence[AxisForm], omega: Array) -> JointProposal:
    """What is measured, for weights of rows in units of their largest entries."""
    for a, form in enumerate(forms):
        omega = omega / (_units(form) ** 2).reshape([-1 if b == a else 1 for b in range(len(forms))])
    return JointProposal(problem.products.axes, tuple(forms), omega)


def _units(form: AxisForm) -> Array:
    assert form.rows is not None
    return np.asarray(np.abs(form.rows.astype(float)).max(axis=1))
