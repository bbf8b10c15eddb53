"""What the library did and when, for logs: one line per step, and nothing that was read from a table.

The lines go to the logger ``leastnoise`` of Python's `logging`, at level INFO. Nothing is printed unless a
program asks for it, by a handler of its own or, on the command line, by ``--log`` and ``--verbose``.

    specification loaded   its queries and its goal are known
    design started         by the method that was asked for
    design ended           a plan was found: its method, and how the search ended
    plan loaded            from a file
    ledger opened          and verified
    charge checked         the release can be paid for; nothing was read yet
    answers known          the ledger has stored this release before: its answers are handed out again
    table counted          the last step that costs nothing
    charge spent           from now on the release is paid for
    noise drawn            and added
    answers stored         in the ledger; only now may they be handed out
    answers written        into files

Guarantee:
    A line holds its time, its step and values of the request: a release id, a file name, a method.
    It holds no count, no size and no value of a table, so that two tables of any size give the same lines.
    What remains is the time between two lines, which says how long a step took.
"""

from __future__ import annotations

import logging
from typing import Literal

LOGGER = logging.getLogger("leastnoise")
LOGGER.addHandler(logging.NullHandler())

Step = Literal[
    "command started",
    "specification loaded",
    "design started",
    "design ended",
    "plan loaded",
    "ledger opened",
    "charge checked",
    "answers known",
    "table counted",
    "charge spent",
    "noise drawn",
    "answers stored",
    "answers written",
    "command ended",
    "command refused",
]


def log_step(step: Step, **facts: str | int | None) -> None:
    """Log a step of the work.

    Args:
        facts: values of the request, never of the table; None is left out.
    """
    if LOGGER.isEnabledFor(logging.INFO):
        known = {name: value for name, value in facts.items() if value is not None}
        text = "".join(f", {name.replace('_', ' ')} {value}" for name, value in known.items())
        LOGGER.info("%s%s", step, text, extra={"step": step, "facts": known})
