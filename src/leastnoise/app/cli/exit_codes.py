"""The exit status of every command: one table, by the class of the error and never by its text.

0, 1 and 2 are what every program and Typer use. The others are small numbers, which schedulers list easily
(``RestartPreventExitStatus=``, ``skip_on_exit_code=``). They collide with nothing: shells keep 126 to 165 for
commands that cannot run and for signals, systemd 200 to 245, and 64 to 78 mean other things in sysexits.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from leastnoise.core.errors import (
    AlreadySpentError,
    DataError,
    DesignError,
    LedgerBusyError,
    LedgerError,
    OverBudgetError,
    PlanFileError,
    PrivacyError,
    QueryError,
    RandomnessError,
    SchemaError,
    SpecError,
    SqlError,
    UnstoredError,
    WorkloadError,
)


@dataclass(frozen=True)
class ExitCode:
    """An exit status.

    Attributes:
        code: the number.
        meaning: what it says, in a few words.
        advice: what a scheduler does about it.
        errors: the errors that end with it, and all that derive from them unless another row has those.
    """

    code: int
    meaning: str
    advice: str
    errors: tuple[type[BaseException], ...] = ()


DONE = ExitCode(0, "done", "go on; a retry under a stored release id ends so too")
REFUSED = ExitCode(1, "refused", "read the message: any error that has no number of its own", (Exception,))
USAGE = ExitCode(2, "usage", "correct the command line")
LEFT_OUT = ExitCode(3, "too many left out", "only `check`: a larger share of the records than [not_counted]")
INVALID = ExitCode(
    4,
    "invalid specification",
    "correct the specification or design the plan again; a retry ends the same way",
    (
        SpecError,
        SchemaError,
        QueryError,
        WorkloadError,
        PrivacyError,
        SqlError,
        PlanFileError,
        DesignError,
    ),
)
OVER_BUDGET = ExitCode(
    5, "over budget", "stop the schedule: nothing was spent, and no retry will fit", (OverBudgetError,)
)
NO_DATA = ExitCode(6, "data unavailable", "retry when the table is there: nothing was spent", (DataError,))
LOST = ExitCode(
    7,
    "spent and lost",
    "call a person: the budget is spent and there are no answers; a new release id pays again",
    (AlreadySpentError, UnstoredError, RandomnessError),
)
BUSY = ExitCode(8, "busy", "retry later: others held the ledger, nothing was spent", (LedgerBusyError,))
LEDGER = ExitCode(
    9,
    "ledger refused",
    "call a person: the ledger is damaged, out of reach, or of other data or another plan",
    (LedgerError,),
)
INTERRUPTED = ExitCode(
    130,
    "interrupted",
    "retry under the same release id, which is free where it was paid for",
    (KeyboardInterrupt,),
)
CLOSED_PIPE = ExitCode(
    141, "closed pipe", "nothing: whoever read the output stopped reading", (BrokenPipeError,)
)

EXIT_CODES = (
    DONE,
    REFUSED,
    USAGE,
    LEFT_OUT,
    INVALID,
    OVER_BUDGET,
    NO_DATA,
    LOST,
    BUSY,
    LEDGER,
    INTERRUPTED,
    CLOSED_PIPE,
)

_BY_ERROR = {error: row for row in EXIT_CODES for error in row.errors}


def exit_code_of(error: type[BaseException]) -> ExitCode:
    """The row of a class of errors: its own, or that of the nearest class that it derives from.

    Example:
        >>> from leastnoise.core.errors import InputError, OverBudgetError
        >>> exit_code_of(OverBudgetError).code, exit_code_of(InputError).code
        (5, 1)
    """
    return next(_BY_ERROR[kind] for kind in error.__mro__ if kind in _BY_ERROR)


def epilog() -> str:
    """What the help of every command says at its end."""
    return "Exit status: " + ", ".join(f"{row.code} {row.meaning}" for row in EXIT_CODES) + "."
