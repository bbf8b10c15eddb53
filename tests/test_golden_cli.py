"""What the command line says and the public names are: as they are kept in ``golden``.

Where a change of words is meant, write the files anew and read the difference:
``python tests/golden_cli.py --write``.
"""

from __future__ import annotations

import os

import pytest

from golden_cli import ALL, GOLDEN, now, path_of, without_numbers
from golden_designs import environment, table

# The slowest wait for the tests with every extra.
SLOW = () if os.environ.get("LEASTNOISE_ALL_EXTRAS") else ("demo", "audit")


@pytest.mark.parametrize("name", [name for name in ALL if name not in SLOW])
def test_words_are_as_they_were(name: str) -> None:
    text, then = now(name), path_of(name).read_text()
    if table()["environment"] != environment():
        # Another BLAS rounds otherwise, and steps, gaps and last digits are printed.
        text, then = without_numbers(text), without_numbers(then)
    assert text == then


def test_every_file_is_compared() -> None:
    assert {path.name for path in (GOLDEN / "cli").iterdir()} == {path_of(name).name for name in ALL} - {
        "names.txt"
    }
