"""The API reference lists every public name, its methods and properties, and describes their arguments."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import leastnoise

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
PLANTED = "planted"


class Shown:
    """What the reference lists: functions, and classes with their members; None lists them all."""

    def __init__(self, text: str) -> None:
        self.functions: list[Callable[..., Any]] = []
        self.classes: dict[type, set[str] | None] = {}
        for match in re.finditer(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", text, re.M):
            kind, name, options = match.groups()
            if kind == "module":
                module = importlib.import_module(name)
                own = [value for value in vars(module).values() if getattr(value, "__module__", "") == name]
                self.classes |= {value: None for value in own if inspect.isclass(value)}
                continue
            module_name, _, last = name.rpartition(".")
            value = getattr(importlib.import_module(module_name), last)
            if kind == "function":
                self.functions.append(value)
                continue
            listed = re.search(r":members:(.*)", options)
            names = {one.strip() for one in listed[1].split(",") if one.strip()} if listed else set()
            names |= set(re.findall(r":special-members: (\w+)", options))
            is_all = listed is not None and not listed[1].strip()
            # A class that an automodule shows, and an autoexception too, is shown with all its members.
            self.classes.setdefault(value, None if is_all else names)

    def lists(self, owner: type, member: str) -> bool:
        """Whether a member is listed, with the class or with a base class that has it too."""
        for base in owner.__mro__:
            if member in vars(base) and base in self.classes:
                names = self.classes[base]
                if names is None or member in names:
                    return True
        return False


def described(docstring: str | None) -> set[str]:
    """The arguments that a docstring describes, below Args or Attributes."""
    found: set[str] = set()
    text = inspect.cleandoc(docstring or "")
    for section in re.finditer(r"^(?:Args|Attributes):\n((?:(?:    .*)?(?:\n|$))+)", text, re.M):
        for entry in re.finditer(r"^    ([*\w, ]+): +\S", section[1], re.M):
            found |= {name.strip().lstrip("*") for name in entry[1].split(",")}
    return found


def is_ours(owner: type) -> bool:
    return owner.__module__.partition(".")[0] in ("leastnoise", PLANTED)


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that this package defines, inherited ones included."""
    for name in dir(owner):
        home = next(base for base in owner.__mro__ if name in vars(base))
        if name.startswith("_") or not is_ours(home):
            continue
        found = inspect.getattr_static(owner, name)
        if inspect.isfunction(found) or isinstance(
            found, (property, cached_property, classmethod, staticmethod)
        ):
            yield name, found


def lacking(call: Callable[..., Any], known: set[str]) -> list[str]:
    """The arguments of a signature that are not among those described."""
    names = [name for name in inspect.signature(call).parameters if not name.startswith("_")]
    return [name for name in names if name not in known | {"self", "cls"}]


def undescribed(owner: type, shown: Shown) -> Iterator[str]:
    """Arguments of a class and its methods that no docstring in the reference describes.

    A base class counts where the reference shows it, and the class's own Args count for its methods.
    """
    bases = [base for base in owner.__mro__ if base is owner or base in shown.classes]
    of_class = {name for base in bases for name in described(base.__doc__)}
    if owner in shown.classes or not inspect.isabstract(owner):
        yield from (f"{owner.__name__}({name})" for name in lacking(owner, of_class))
    for member, found in members(owner):
        call = getattr(found, "__func__", found)
        if inspect.isfunction(call):
            docs = [vars(base)[member].__doc__ for base in owner.__mro__ if member in vars(base)]
            of_method = {name for doc in docs for name in described(doc)}
            missing = lacking(call, of_class | of_method)
            yield from (f"{owner.__name__}.{member}({name})" for name in missing)


def incomplete(shown: Shown, public: list[Any]) -> list[str]:
    """What the reference lacks: names, members without a docstring or not listed, arguments."""
    faults: list[str] = []
    for value in {id(one): one for one in [*public, *shown.classes, *shown.functions]}.values():
        if not inspect.isclass(value):
            if value not in shown.functions:
                faults.append(value.__name__)
            faults += [f"{value.__name__}({name})" for name in lacking(value, described(value.__doc__))]
            continue
        if value not in shown.classes:
            faults.append(value.__name__)
        faults += [f"{value.__name__}.{name}" for name, _ in members(value) if not shown.lists(value, name)]
        if not issubclass(value, Warning):
            faults += undescribed(value, shown)
    return faults


def test_the_reference_describes_every_argument_of_every_public_name() -> None:
    public = [getattr(leastnoise, name) for name in leastnoise.__all__]
    assert incomplete(Shown(REFERENCE.read_text(encoding="utf-8")), public) == []


SOURCE = '''"""A module."""


class Base:
    """What all have.

    Args:
        name: its name.
    """

    def __init__(self, *, name=None): ...

    def called(self, prefix):
        """What it is called.

        Args:
            prefix: what comes before it.
        """


class Thing(Base):
    """A thing.

    Args:
        size: how large it is.
    """

    def __init__(self, size, *, name=None): ...

    def called(self, prefix): ...

    @property
    def area(self):
        """Its area."""

    @classmethod
    def squared(cls, size):
        """A square."""


def grow(thing, *, by=2):
    """A larger thing.

    Args:
        thing, by: what grows, and how much.
    """
'''
PAGE = """
.. autoclass:: planted.Base
   :members:

.. autoclass:: planted.Thing
   :members: area, squared

.. autofunction:: planted.grow
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "faults"),
    [
        ("source", "", "", []),
        ("source", "        size: how", "        sizes: how", ["Thing(size)", "Thing.squared(size)"]),
        ("source", "        name: its name.", "        names: its name.", ["Base(name)", "Thing(name)"]),
        (
            "source",
            "            prefix: what",
            "            Prefix: what",
            ["Base.called(prefix)", "Thing.called(prefix)"],
        ),
        ("source", "thing, by: what", "thing: what", ["grow(by)"]),
        ("source", "def squared(cls, size)", "def squared(cls, side)", ["Thing.squared(side)"]),
        ("page", ".. autofunction:: planted.grow\n", "", ["grow"]),
        ("page", "area, squared", "squared", ["Thing.area"]),
        (
            "page",
            ".. autoclass:: planted.Base\n   :members:\n",
            "",
            ["Thing.called", "Thing(name)"],
        ),
    ],
)
def test_what_a_reference_lacks_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, faults: list[str]
) -> None:
    source, page = SOURCE, PAGE
    if file == "source":
        source = source.replace(old, new) if old else source
    else:
        page = page.replace(old, new)
    (tmp_path / f"{PLANTED}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PLANTED, raising=False)
    try:
        planted = importlib.import_module(PLANTED)
        assert sorted(incomplete(Shown(page), [planted.Thing, planted.grow])) == sorted(faults)
    finally:
        sys.modules.pop(PLANTED, None)
