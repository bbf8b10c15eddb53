"""Every exception and every warning of the library.

    LeastnoiseError
    ├── InputError (also ValueError)      something given does not hold
    │   ├── SchemaError                   an attribute, its values or its policy
    │   ├── QueryError                    a query, its weight or its target
    │   ├── WorkloadError                 a matrix or a batch of queries
    │   ├── PrivacyError                  a privacy goal
    │   ├── DataError                     a table or a count vector
    │   │   └── DataUnavailableError      it cannot be reached now: a lost connection, a locked file
    │   ├── PlanFileError                 a saved plan that cannot be trusted
    │   ├── SqlError                      SQL that asks for more than counts and sums; says where
    │   └── SpecError                     a specification file
    ├── DesignError                       no plan can be made as asked
    │   ├── MethodError                   this method cannot; the message names those that can
    │   └── InfeasibleError               no noise can meet these targets; holds the proof
    ├── LedgerError                       the record of the budget refuses; the message says what was spent
    │   ├── LedgerFileError               it is damaged, altered, rolled back, read-only or has no room
    │   ├── LedgerBusyError               others held it for too long
    │   ├── LedgerMismatchError           it is for another dataset, limit, plan or notion of neighbours
    │   ├── OverBudgetError               too little is left; the message says how much
    │   ├── AlreadySpentError             this release was paid for and never stored; it has no answers
    │   └── UnstoredError                 paid for and not stored yet; its store() goes on
    ├── NotYetError (also NotImplementedError)   a promised feature this version does not have
    ├── TooLargeError (also MemoryError)  estimated first, refused before allocating
    ├── RandomnessError (also OSError)    the system's generator failed; nothing is released
    └── MissingExtraError (also ImportError)     an optional package; the message has the line to type

    LeastnoiseWarning (also UserWarning)  stops nothing
    ├── RecordsNotCounted                 more records than expected are in none of the answers
    ├── UnrecordedSpending                a release without a ledger
    ├── StoringDelayed                    a release that is paid for and waits to be stored
    └── SharedEnds                        listed ranges that share an end

A message says what must hold, what was given, and what to do next. It never
holds a value read from a private table.

`LeastnoiseError.field`, ``.given`` and ``.remedy`` hold this as values. Text is made from them at the end,
for Python or for the command line; no program has to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn, Self

from leastnoise.core.remedies import Argument, Part, Remedy

__all__ = [
    "AlreadySpentError",
    "DataError",
    "DataUnavailableError",
    "DesignError",
    "InfeasibleError",
    "InputError",
    "LeastnoiseError",
    "LeastnoiseWarning",
    "LedgerBusyError",
    "LedgerError",
    "LedgerFileError",
    "LedgerMismatchError",
    "MethodError",
    "MissingExtraError",
    "NotYetError",
    "OverBudgetError",
    "PlanFileError",
    "PrivacyError",
    "QueryError",
    "RandomnessError",
    "RecordsNotCounted",
    "SchemaError",
    "SpecError",
    "SqlError",
    "StoringDelayed",
    "TooLargeError",
    "UnrecordedSpending",
    "UnstoredError",
    "WorkloadError",
]


class LeastnoiseError(Exception):
    """Anything this library raises on purpose.

    A message is made of parts: text, the arguments that it names, and at most one remedy.

    Attributes:
        *message: the parts of the message: text, names of arguments, and at most one remedy.
        field: the argument, or the key of a file, that the error is about; None where there is no single one.
        given: what was given for it, or its type. Never anything read from a table.
        remedy: what to do next; None where nothing is known.

    Example:
        >>> error = InputError.must("time_limit", "be a positive number of seconds", given=-1)
        >>> str(error), error.field, error.given
        ('time_limit must be a positive number of seconds, got -1', 'time_limit', -1)
    """

    def __init__(
        self,
        *message: Part | Remedy,
        field: str | None = None,
        given: object = None,
        remedy: Remedy | str | None = None,
    ) -> None:
        super().__init__(*message, *_as_parts(remedy))
        self.field = field
        self.given = given

    @classmethod
    def must(cls, field: str, requirement: str, *, given: object, remedy: Remedy | str | None = None) -> Self:
        """The error for an argument that is not what it must be.

        Args:
            field: the argument, or the key of a file.
            requirement: what it must be or do, after "must".
            given: what was given instead; its type where the value is long, or may be private.
            remedy: what to do next; None where nothing is known.
        """
        subject = Argument(field, is_subject=True)
        shown = given.__name__ if isinstance(given, type) else repr(given)
        message = f" must {requirement}, got {shown}"
        return cls(subject, message, *_as_parts(remedy), field=field, given=given)

    @classmethod
    def unknown(cls, field: str, given: object, known: Iterable[str]) -> Self:
        """The error for a name that does not exist.

        Args:
            field: what kind of name it is, such as "attribute".
            given: the name that was given.
            known: the names that there are.

        Example:
            >>> str(InputError.unknown("attribute", "agge", ("age", "sex")))
            "there is no attribute 'agge'; there are age, sex"
        """
        message = f"there is no {field} {given!r}; there are {', '.join(known)}"
        return cls(message, field=field, given=given)

    @classmethod
    def at(cls, place: str, error: LeastnoiseError, *, field: str | None = None) -> Self:
        """Another error, with its place in front.

        Args:
            place: where the error was found, such as "query 3".
            error: the error to repeat.
            field: the argument or key at that place, if it has another name there; None for the error's own.
        """
        return cls(f"{place}: ", *error.args, field=field or error.field, given=error.given)

    @property
    def remedy(self) -> Remedy | None:
        """What to do next."""
        return next((part for part in self.args if isinstance(part, Remedy)), None)

    def __str__(self) -> str:
        return "".join(map(str, self.args))


def _as_parts(remedy: Remedy | str | None) -> tuple[Part | Remedy, ...]:
    """A remedy as the end of a message."""
    if remedy is None:
        return ()
    return "; ", Remedy(remedy) if isinstance(remedy, str) else remedy


class InputError(LeastnoiseError, ValueError):
    """Something given to the library is not valid."""


class SchemaError(InputError):
    """An invalid attribute, value or policy of a schema."""


class QueryError(InputError):
    """An invalid query, weight or target."""


class WorkloadError(InputError):
    """An invalid matrix or batch of queries."""


class PrivacyError(InputError):
    """An invalid privacy goal, or one that protects nobody."""


class DataError(InputError):
    """A table or a count vector that cannot be used; the message never holds a value read from it."""


class DataUnavailableError(DataError):
    """A table that cannot be reached now: a lost connection, or a locked file. Nothing is spent."""


class PlanFileError(InputError):
    """A saved plan that cannot be trusted."""


class SpecError(InputError):
    """An invalid specification file.

    Attributes:
        line: the line of its text that the error is about, from 1; None where there is no single one.
    """

    line: int | None = None

    def at_line(self, line: int | None) -> Self:
        """The same error with the number of a line.

        Args:
            line: the number of the line, from 1; None for no single one.
        """
        self.line = line
        return self


class SqlError(InputError):
    """SQL that asks for more than counts and sums; the message says where, and what is possible."""


class DesignError(LeastnoiseError):
    """No plan can meet the request."""


class MethodError(DesignError):
    """A method that cannot serve the request; the message names those that can."""


class InfeasibleError(DesignError):
    """Targets that no noise can meet within the privacy goal, and the proof of it.

    Attributes:
        witness: the dual weights (p, q) that prove it; `leastnoise.bounds.certificate.proves_infeasible`
            rechecks them.
        factor: a factor on all targets that makes them feasible, rounded up; the proof rules out factors
            smaller than this by more than the tolerance of the design.
        mu: the μ of Gaussian differential privacy that would meet the targets as they are, for
            everything one person contributes, rounded up.
        curve: the function of μ and δ that returns ε, for `epsilon`.
    """

    def __init__(
        self,
        *message: Part | Remedy,
        witness: Any,
        factor: float,
        mu: float,
        curve: Callable[[float, float], float],
    ) -> None:
        super().__init__(*message, field="stderr")
        self.witness = witness
        self.factor = factor
        self.mu = mu
        self._curve = curve

    def epsilon(self, *, delta: float) -> float:
        """The ε that would meet the targets at some δ, rounded up.

        Args:
            delta: δ, between 0 and 1.
        """
        return self._curve(self.mu, delta)

    def __reduce__(self) -> tuple[Any, ...]:
        # As it is raised in one process it must arrive in another.
        facts = {"witness": self.witness, "factor": self.factor, "mu": self.mu, "curve": self._curve}
        return partial(InfeasibleError, **facts), self.args


class LedgerError(LeastnoiseError):
    """The ledger refuses; the message says whether anything was spent."""


class LedgerFileError(LedgerError):
    """A ledger that is damaged, modified, rolled back, read-only, or out of disk space."""


class LedgerBusyError(LedgerError):
    """A ledger that others held for too long; nothing was spent."""


class LedgerMismatchError(LedgerError):
    """A ledger for another dataset, limit, plan or neighbouring relation; nothing was spent."""


class OverBudgetError(LedgerError):
    """Too little is left for a release; nothing was spent.

    Attributes:
        message: the text of the error.
        remaining: what is left, as `Ledger.remaining` gives it.
    """

    def __init__(self, message: str, *, remaining: Any) -> None:
        super().__init__(message, field="limit", given=remaining)
        self.remaining = remaining

    def __reduce__(self) -> tuple[Any, ...]:
        # As it is raised in one process it must arrive in another.
        return partial(OverBudgetError, remaining=self.remaining), self.args


class AlreadySpentError(LedgerError):
    """A release that was paid for and never stored: it has no answers, and its id is used up."""


class UnstoredError(LedgerError):
    """A release that is paid for, and whose answers could not be stored yet: they are kept here, in memory.

    Only `store` returns them, once they are stored. When this error is discarded they are lost, and the
    release has to be paid for again under another id.

    Attributes:
        message: the text of the error.
        release_id: what the ledger knows the release by.
        store: the function that `store` calls.
    """

    def __init__(self, message: str, *, release_id: str, store: Callable[[], Any]) -> None:
        super().__init__(message, field="release_id", given=release_id)
        self.release_id = release_id
        self._store = store

    def store(self) -> Any:
        """Try again until it succeeds or Ctrl-C stops it; returns the `Release` once its answers are stored.

        Raises:
            UnstoredError: if it was stopped again.
        """
        return self._store()

    def __reduce__(self) -> NoReturn:
        raise TypeError("the answers of a release that is not stored do not leave this process")


class NotYetError(LeastnoiseError, NotImplementedError):
    """A feature that this version does not have."""


class TooLargeError(LeastnoiseError, MemoryError):
    """An array that would not fit, refused before it is allocated."""


class RandomnessError(LeastnoiseError, OSError):
    """The system's random generator failed; nothing is released and the budget stays spent."""


class MissingExtraError(LeastnoiseError, ImportError):
    """An optional package that is not installed."""


class LeastnoiseWarning(UserWarning):
    """What the library warns of; it stops nothing, and the classes below say what it is about."""


class RecordsNotCounted(LeastnoiseWarning):
    """A release in which more than the expected share of all records is in none of the answers.

    Judged by the noisy number that was released, never by the true one.
    """


class StoringDelayed(LeastnoiseWarning):
    """A release that is paid for and cannot be stored yet; it is tried again."""


class UnrecordedSpending(LeastnoiseWarning):
    """A release that no ledger has recorded."""


class SharedEnds(LeastnoiseWarning):
    """Listed ranges that share an end, so that its records are counted in both."""


class LargeGap(LeastnoiseWarning):
    """A plan that may be further above the least possible noise than its owner accepts."""
