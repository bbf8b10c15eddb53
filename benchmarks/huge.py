"""Very many counts: all tables of up to three attributes, measured in blocks and written as Parquet files.

    OMP_NUM_THREADS=1 python benchmarks/huge.py [--attributes 100] [--records 1000000] [--folder FOLDER]

Every attribute has ten values, drawn at random. Processor seconds of each step, the peak of memory, and the
answers of one table against the counts, in standard errors: their mean square should be near one. The full
size writes 5 GB.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import leastnoise as ln
from leastnoise.report import write_answer_files


def main() -> None:
    """Print one line for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attributes", type=int, default=100)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the files go; by default they are removed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        run(given.folder or Path(made), given.attributes, given.records)


def run(folder: Path, n_attributes: int, n_records: int) -> None:
    """Design, measure and write everything below a folder."""
    names = [f"a{k:02d}" for k in range(n_attributes)]
    schema = ln.Schema(**{name: range(10) for name in names})
    table = folder / "people.parquet"
    columns = ", ".join(f"floor(random() * 10)::TINYINT AS {name}" for name in names)
    duckdb.execute(f"COPY (SELECT {columns} FROM range({n_records})) TO '{table}'")
    last = time.process_time()

    def lap(step: str) -> None:
        nonlocal last
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{step:<40} {time.process_time() - last:>7.1f} s   peak {peak:.2f} GB", flush=True)
        last = time.process_time()

    workload = ln.assemble([ln.Cube(*names, order=3)], schema)
    plan = ln.design(workload, ln.ApproxDP(epsilon=1, delta=1e-6))
    lap(f"design of {workload.shape[0]:,} counts")
    ledger = ln.Ledger(folder / "spent.ledger", dataset="people", limit=ln.ApproxDP(epsilon=3, delta=1e-5))
    steps = [""]

    def show(progress: ln.release.BlockProgress) -> None:
        if progress.step != steps[-1]:
            if steps[-1]:
                lap(steps[-1])
            steps.append(progress.step)

    release = ln.measure(
        plan, str(table), ledger=ledger, release_id="one", into=folder / "blocks", progress=show
    )
    lap(steps[-1])
    write_answer_files(release, folder / "answers")
    lap("writing Parquet")
    found = release.answer(ln.Marginal(*names[:3]))
    counts = ln.vectorize(str(table), schema).counts(*names[:3]).ravel()
    errors = (found["answer"].to_numpy() - counts) / found["stderr"].to_numpy()
    print(f"mean square of {errors.size:,} errors in standard errors: {np.mean(errors**2):.3f}")


if __name__ == "__main__":
    main()
