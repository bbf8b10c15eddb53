"""A picture of a report page, taken from a run of the demo in Chromium: python docs/page_picture.py [FOLDER].

Writes page.png to docs/pictures, or to FOLDER. The noise is drawn anew, so the counts differ from run to run.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import leastnoise as ln  # noqa: E402
from driven_browser import DrivenBrowser  # noqa: E402
from leastnoise.app.demo import draw_people, publication, write_people  # noqa: E402
from leastnoise.core.errors import UnrecordedSpending  # noqa: E402

SAID = ln.Publication(
    title="Population of the town",
    publisher="Town statistical office",
    source="Register of residents (invented)",
    unit="residents",
    date="2026-03-15",
)


def take(folder: Path) -> None:
    """Publish the town of the demo and take a picture of the head of its page."""
    folder.mkdir(exist_ok=True)
    spec = publication()
    with tempfile.TemporaryDirectory() as place, DrivenBrowser() as browser:
        people = write_people(draw_people(200_000, np.random.default_rng(1)), Path(place) / "people.csv")
        with warnings.catch_warnings():
            # Nobody who was invented needs a record of what was spent.
            warnings.simplefilter("ignore", UnrecordedSpending)
            release = ln.measure(ln.design(spec.workload, spec.privacy), people)
        path = ln.summarize(release, SAID).to_html(Path(place) / "report.html")
        page = browser.page()
        page.call("Page.enable")
        page.call("Page.navigate", url=path.as_uri())
        page.wait("document.querySelector('footer, main section:last-child')")
        page.wait("document.readyState === 'complete'")
        page.size(1000, 1500)
        (folder / "page.png").write_bytes(page.picture())


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures")
