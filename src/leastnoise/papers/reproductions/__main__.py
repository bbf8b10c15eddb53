"""`python -m leastnoise.papers.reproductions`: `leastnoise reproduce` where Typer is not installed.

GPU servers often hold NumPy, SciPy and PyTorch and nothing else.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from leastnoise.core.errors import LeastnoiseError
from leastnoise.papers.reproductions.command import listing, progress_to_text, reproduce, summarise
from leastnoise.papers.reproductions.reproduction import Setting
from leastnoise.papers.reproductions.running import RunProgress


def main() -> int:
    """Read the arguments, run, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m leastnoise.papers.reproductions", description=__doc__)
    parser.add_argument("names", nargs="*", help="names, papers or all; without any, the list")
    parser.add_argument("--quick", action="store_true", help="small sizes, in minutes")
    parser.add_argument(
        "--out", type=Path, default=Path("reproductions"), help="the folder for what it writes"
    )
    parser.add_argument("--data", type=Path, help="a folder that holds adult.data")
    parser.add_argument("--backend", default="numpy", help="cuda for tasks above 4,096 cells")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--fresh", action="store_true", help="compute again what is already there")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=600.0,
        help="seconds for one method at one task",
    )
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which nothing is begun")
    parser.add_argument("--summary", action="store_true", help="counts of verdicts in --docs, or --out")
    parser.add_argument("--docs", type=Path, help="also write the pages of the documentation here")
    given = parser.parse_args()

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def tell(progress: RunProgress) -> None:
        sys.stderr.write(progress_to_text(progress) + "\n")

    try:
        if given.summary:
            say(summarise(given.docs or given.out))
            return 0
    except LeastnoiseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if not given.names:
        say(listing())
        return 0
    setting = Setting("quick" if given.quick else "full", given.backend, given.data, given.time_limit)
    try:
        reproduce(
            given.names,
            setting,
            out=given.out,
            jobs=given.jobs,
            is_fresh=given.fresh,
            budget=given.budget,
            docs=given.docs,
            say=say,
            progress=tell,
        )
    except LeastnoiseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on where this one stopped\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
