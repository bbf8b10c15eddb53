"""Pictures of the planner, taken from a run in Chromium: python docs/planner_pictures.py [FOLDER].

Writes planner.png (a wide screen) and planner-phone.png to docs/pictures, or to FOLDER.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from driven_browser import DrivenBrowser, DrivenPage  # noqa: E402
from leastnoise.app.planner import serve  # noqa: E402

TOWN = """# What the town publishes every year.
[schema]
age    = { range = [0, 100] }   # years
sex    = ["F", "M"]
region = ["Centre", "Harbour", "North"]

[privacy]
epsilon = 0.3    # a first proposal
delta   = 1e-6

[[query]]
kind     = "total"
name     = "everyone"
expected = 200000

[[query]]
kind       = "marginal"
attributes = ["age", "sex"]
name       = "age by sex"
expected   = 1000

[[query]]
kind      = "prefix"
attribute = "age"
name      = "age distribution"
expected  = 100000

[[query]]
kind       = "marginal"
attributes = ["sex", "region"]
name       = "sex by region"
"""


def settled(page: DrivenPage) -> None:
    """Wait until nothing is being designed."""
    page.wait("document.querySelector('#ready')")


def take(folder: Path) -> None:
    """Use the planner as a person would, and take its pictures."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, DrivenBrowser() as browser:
        spec = Path(place) / "town.toml"
        spec.write_text(TOWN, encoding="utf-8")
        addresses: list[str] = []
        is_up = threading.Event()

        def opened(url: str) -> None:
            addresses.append(url)
            is_up.set()

        threading.Thread(target=lambda: serve(spec, opened=opened), daemon=True).start()
        is_up.wait()
        page = browser.page()
        page.open(addresses[0])
        settled(page)
        page.choose("#ask-which", "age")
        page.type("#ask-width", "50")
        page.wait("document.querySelector('#needs')")
        settled(page)
        page.size(1180, 1290)
        page.eval("document.activeElement.blur(); window.scrollTo(0, 0)")
        (folder / "planner.png").write_bytes(page.picture())
        page.size(400, 860, is_phone=True)
        (folder / "planner-phone.png").write_bytes(page.picture())


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures")
