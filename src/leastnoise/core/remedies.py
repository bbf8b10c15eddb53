"""What an error says to do next, as values: its text is made from them at the end.

Python and the command line spell the same things differently: ``release_id=`` in one is ``--release-id`` in
the other, and a query to add to a workload is a [[query]] to add to a specification. So an error holds the
arguments that it names and its remedy as values. ``str(error)`` is the text for Python;
`leastnoise.app.cli.refusals` makes the text for the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """An argument of a public function that a message names.

    Attributes:
        name: its name in Python.
        value: what to give it; ``...`` where the message does not say.
        is_subject: whether it is the subject of its sentence, which is written without the equals sign.

    Example:
        >>> print(Argument("ledger"), Argument("most", 0), Argument("time_limit", is_subject=True))
        ledger= most=0 time_limit
    """

    name: str
    value: Any = ...
    is_subject: bool = False

    @property
    def has_value(self) -> bool:
        """Whether the message says what to give it."""
        return self.value is not ...

    def __str__(self) -> str:
        if self.is_subject:
            return self.name
        return f"{self.name}={self.value!r}" if self.has_value else f"{self.name}="


@dataclass(frozen=True)
class OnRelease:
    """An attribute or a call of the release at hand, which is a file where it is a command's.

    Example:
        >>> print(OnRelease("to_mbi()"))
        release.to_mbi()
    """

    expression: str

    def __str__(self) -> str:
        return f"release.{self.expression}"


# What a message is made of, besides at most one remedy.
Part = str | Argument | OnRelease


class Remedy:
    """What to do next: words, and the arguments among them.

    Example:
        >>> remedy = Remedy("give ", Argument("ledger"), " too")
        >>> str(remedy), remedy.arguments
        ('give ledger= too', ('ledger',))
    """

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    @property
    def parts(self) -> tuple[Part, ...]:
        """The words for Python and the arguments, in order."""
        return self._parts

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments to give, to change or to leave out."""
        return tuple(part.name for part in self.parts if isinstance(part, Argument))

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


@dataclass(frozen=True)
class AddQuery(Remedy):
    """Ask one more query: that takes a new plan, and measuring it spends privacy again.

    Attributes:
        query: the Query to add.
        expression: how it is written in Python.
    """

    query: Any
    expression: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """The words for Python."""
        return (
            f"add {self.expression} to the workload and call design() again (measuring the new plan spends "
            "privacy again)",
        )


@dataclass(frozen=True)
class RelaxTargets(Remedy):
    """Multiply all targets by a factor, or allow a larger privacy loss.

    Attributes:
        factor: the least factor that is enough, rounded up; "that" where the message has just named it.
        parameter: the parameter of the privacy goal that may be raised instead.
        value: what it must be raised to, rounded up.
    """

    factor: str
    parameter: str
    value: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """The words for Python."""
        return (
            f"multiply every stderr by at least {self.factor}, or raise {self.parameter} to {self.value}",
        )
