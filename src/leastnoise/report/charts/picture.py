"""A picture that a notebook shows and a file holds: one SVG drawing, without scripts, that loads nothing.

It stands on white paper of its own, so that it reads the same in light and dark notebooks, in slides and in
print. Notebooks get it as an image: JupyterLab and GitHub remove drawings, but not images, from notebooks
that the reader has not run.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from leastnoise.core.errors import InputError
from leastnoise.core.extras import require
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.printable import printable
from leastnoise.core.whole_file import written_whole

if TYPE_CHECKING:
    from leastnoise.report.charts.canvas import Mark

# Endings of files that a picture is saved as; the last two need vl-convert.
KINDS = (".svg", ".html", ".png", ".pdf")

# Pixels of a PNG file for each of the picture.
_SCALE = 2.0


@dataclass(frozen=True, eq=False)
class Picture(NotebookValue):
    """A drawing that a notebook shows by itself; `save` writes it to a file.

    Args:
        title: what it shows.
        width: in pixels.
        height: in pixels.
        marks: what is drawn.
    """

    title: str
    width: float
    height: float
    marks: Sequence[Mark] = field(repr=False)

    _unlisted = frozenset({"marks"})

    @property
    def svg(self) -> str:
        """The drawing as one SVG element; opened by itself, it shows the value under the pointer."""
        return self._drawn(has_titles=True)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, whole or not at all; returns the path.

        Args:
            path: ends in .svg or .html; or in .png or .pdf, which need the extra "charts".

        Raises:
            InputError: for another ending.
            MissingExtraError: for .png and .pdf where vl-convert is not installed.
        """
        target = Path(path)
        kind = target.suffix.lower()
        check_file(target)
        if kind == ".svg":
            content = self.svg.encode("utf-8")
        elif kind == ".html":
            content = self._page().encode("utf-8")
        else:
            import vl_convert

            svg = self._drawn(has_titles=False)
            content = (
                vl_convert.svg_to_png(svg, scale=_SCALE) if kind == ".png" else vl_convert.svg_to_pdf(svg)
            )
        with written_whole(target) as temporary:
            temporary.write_bytes(content)
        return target

    def _page(self) -> str:
        from leastnoise.report.rendering import as_it_is, render

        return render("picture.html", title=self.title, svg=as_it_is(self.svg))

    def _drawn(self, *, has_titles: bool) -> str:
        # Here, so that importing the library does not import Jinja2.
        from leastnoise.report.rendering import render, style_sheet

        return render(
            "picture.svg",
            width=f"{self.width:g}",
            height=f"{self.height:g}",
            title=self.title,
            marks=self.marks,
            style=style_sheet("picture.css"),
            has_titles=has_titles,
        )

    def _repr_svg_(self) -> str:
        return self._drawn(has_titles=False)

    def _repr_html_(self) -> str:
        encoded = base64.b64encode(self._repr_svg_().encode("utf-8")).decode("ascii")
        return (
            f'<img alt="{escape(printable(self.title))}" width="{self.width:.0f}" '
            f'style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{encoded}">'
        )

    def __repr__(self) -> str:
        return f"Picture({printable(self.title)!r}); see picture.save('picture.svg')"


def check_file(path: str | Path, kinds: Sequence[str] = KINDS) -> None:
    """Return if a file of that name can be written; its ending is one of some kinds.

    Raises:
        InputError: naming the kinds there are, or the folder that is missing.
        MissingExtraError: for .png and .pdf where vl-convert is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in kinds:
        raise InputError.must("path", f"end in {', '.join(kinds)}", given=str(path))
    if not target.parent.is_dir():
        raise InputError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} to",
            field="path",
            given=str(path),
        )
    if target.suffix.lower() in (".png", ".pdf"):
        require("vl_convert", extra="charts", why=f"a {target.suffix.lower()} file")
