"""The plan of a method that depends on the data: a mechanism, and nothing claimed about accuracy."""

from __future__ import annotations

import numpy as np

from leastnoise.bounds import Witness
from leastnoise.core.errors import MethodError
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method import Method, Request
from leastnoise.planning.plan.plan import Plan


def data_dependent_plan(method: Method, request: Request) -> Plan:
    """The plan of a method that depends on the data, for a request that it accepts.

    Raises:
        MethodError: if the method cannot do this.
    """
    method.check_options(request.options)
    reason = method.why_not(request)
    mechanism = method.find(request) if reason is None and method.is_data_dependent else None
    if not isinstance(mechanism, Mechanism):
        raise MethodError(f"method {method.name!r} cannot do this: {reason or 'it needs no data'}")
    return Plan(
        workload=request.workload,
        privacy=request.privacy,
        objective=request.objective,
        method=method.name,
        strategy=None,
        witness=Witness(None, np.zeros(request.workload.shape[1])),
        claim="data-dependent",
        tol=request.tol,
        note=mechanism.note,
        options=dict(request.options),
        mechanism=mechanism,
        # Nothing is searched for before there are data.
        ended="converged",
    )
