"""A report on a plan or a release: as text, or as one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leastnoise.core.errors import InputError
from leastnoise.core.whole_file import written_whole
from leastnoise.planning import Plan
from leastnoise.release import Release
from leastnoise.report.text import plan_text, release_text


@dataclass(frozen=True, eq=False)
class Report:
    """A summary of a plan or a release; prints itself."""

    subject: Plan | Release

    def text(self) -> str:
        """The summary as plain text."""
        if isinstance(self.subject, Release):
            return release_text(self.subject)
        return plan_text(self.subject)

    def html(self) -> str:
        """The summary as one HTML page: no script, nothing loaded from anywhere."""
        # Here, so that importing the library stays quick: most of its users draw no page.
        from leastnoise.report.page import page

        return page(self.subject)

    def to_html(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all; returns the path.

        The page holds tables and pictures, fits screens and paper, light and dark, and asks nothing of
        the outside. It follows from the plan or the release alone: the same file, read back, gives the
        same bytes.
        """
        target = Path(path)
        content = self.html()
        with written_whole(target) as temporary:
            temporary.write_bytes(content.encode("utf-8"))
        return target

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Report({self.subject!r})"


def summarize(subject: Release | Plan) -> Report:
    """A report on a release or a plan: print it, or take `.text()` or `.to_html(path)`."""
    if not isinstance(subject, (Plan, Release)):
        raise InputError(f"summarize() takes a Plan or a Release, got {type(subject).__name__}")
    return Report(subject)
