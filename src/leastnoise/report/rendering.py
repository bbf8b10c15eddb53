"""HTML from the templates of this room, escaped by construction.

Jinja2 escapes whatever a template prints (autoescape). Before that, `shown` writes out control characters and
cuts very long texts, so that no label can end an element, turn the reading direction, forge a line or fill
the page. `Markup`, which is printed as it is, is made in two cases only: from the output of another template,
and from text of this package that shows no label, as the style sheet, or a file in base 64.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leastnoise.core.printable import printable

# Characters of one text on a page: a label may be a novel, of which the page shows the beginning.
_MAX_SHOWN = 300


def render(template: str, /, **context: Any) -> str:
    """A template of this room filled in; a name that it does not get is an error."""
    return _environment().get_template(template).render(context)


def render_part(template: str, /, **context: Any) -> Markup:
    """The same, to be put into another template as it is."""
    return Markup(render(template, **context))  # noqa: S704 - escaped there


def style_sheet(name: str) -> Markup:
    """A style sheet of this room, to be put into a page as it is."""
    return as_it_is(files(__package__).joinpath("templates", name).read_text("utf-8"))


def as_it_is(text: str) -> Markup:
    """A text that a template prints without escaping; for scripts and styles that hold no label."""
    return Markup(text)  # noqa: S704 - the caller vouches for it


def shown(value: Any) -> Any:
    """A text as a page shows it, before escaping: no control characters, and cut where it is very long."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return printable(value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…")


def shortened(text: str, length: int) -> str:
    """A text of at most `length` characters, with an ellipsis where it was cut."""
    whole = printable(text[: length + 1])
    return whole if len(whole) <= length else f"{whole[: length - 1]}…"


def _environment() -> Environment:
    return template_environment(__package__)


@cache
def template_environment(package: str) -> Environment:
    """Fills in the templates of a package, escaped by construction."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
