"""How the pages are built. Nothing is fetched: no fonts, no scripts, no formulas drawn elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from leastnoise import __version__

project = "leastnoise"
author = "the leastnoise authors"
project_copyright = "the leastnoise authors; Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"leastnoise {__version__}"
html_copy_source = False
html_show_sourcelink = False
# Pages of the guide before the reproductions.
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))

default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantee", "Reference"]
napoleon_attr_annotations = False

_HEADINGS = ("Args:", "Attributes:", "Guarantee:", "Raises:", "Returns:", "Reference:", "Example:")


def _keep_formulas(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Show an indented formula or drawing as it stands in the source, not as a quotation."""
    kept: list[str] = []
    heading = block = example = False
    for line in lines:
        is_indented = line.startswith("    ")
        if line and not is_indented:
            heading, block, example = line in _HEADINGS, False, line == "Example:"
        if is_indented and not heading and not block:
            kept += [".. code-block:: text", ""]
            block = True
        # |x| would be a substitution, and a * of a formula the start of emphasis.
        as_it_is = is_indented and (example or not heading)
        kept.append(line if as_it_is else re.sub(r"(?<!`)([|*])(?!`)", r"\\\1", line))
    # An empty comment first keeps "one thing: another" of a property from being read as a type.
    lines[:] = ["..", "", *kept] if what == "property" else kept


def setup(app: Any) -> None:
    """Run before the docstring sections are formatted."""
    app.connect("autodoc-process-docstring", _keep_formulas, priority=100)
