"""What a page of another room takes from the report: its style, and templates that escape.

Jinja2 is imported when a page is made: `import leastnoise` does without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def style_text(name: str) -> str:
    """A style sheet of the report, as text."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def filled_in(package: str, template: str, /, own: Mapping[str, str], **context: Any) -> str:
    """A template of a package, filled in and escaped.

    Args:
        own: texts of the package that hold no label, as scripts and styles, printed as they are.
    """
    from leastnoise.report.rendering import as_it_is, template_environment

    printed = {name: as_it_is(text) for name, text in own.items()}
    return template_environment(package).get_template(template).render(**context, **printed)
