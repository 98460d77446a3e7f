"""What it costs that processes share a sweep's folder and nothing else.

    python -m benchmarks.shards                # 64 processes, 10 cells each, of a second
    python -m benchmarks.shards --processes 8

Starts processes that run the same cells into one folder. A cell sleeps, so that all of them fit
on any machine: what is left is what claiming and storing a cell costs. Prints Markdown tables and
writes them to benchmarks/results/shards/.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from ._report import RESULTS, run_sections

FOLDER = RESULTS / "shards"


def shards(processes: int, cells_each: int, seconds: float):
    """One row: how busy the processes are, and what a cell costs each of them."""
    cells = processes * cells_each
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        running = []
        for index in range(processes):
            numbers = map(str, (index, processes, cells, seconds))
            command = [sys.executable, "-m", "benchmarks._shard", out, *numbers]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        while len(list(pathlib.Path(folder).glob("out-warm-*/experiment.json"))) < processes:
            time.sleep(0.1)
        time.sleep(2.0)
        pathlib.Path(f"{out}-go").touch()
        found = [json.loads(process.communicate()[0]) for process in running]
    worked = [row for row in found if row["cells"]]
    last = max(row["ended"] for row in worked)
    busy = sum(row["cells"] for row in worked) * seconds
    held = sum(last - row["began"] for row in worked)
    cpu, operations = (sum(row[key] for row in found) for key in ("cpu", "operations"))
    row = {
        "processes": processes,
        "cells": cells,
        "computed": sum(row["computed"] for row in found),
        "import jax": sum(row["jax"] for row in found),
        "seconds a cell": seconds,
        "busy after the first claim": f"{busy / held:.1%}",
        "CPU ms a cell": f"{1e3 * cpu / cells:.2g}",
        "file operations a cell": f"{operations / cells:.3g}",
    }
    print(row, flush=True)
    return row


def main() -> None:
    """Runs them, and writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--cells", type=int, default=10, help="of each process")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a cell sleeps")
    options = parser.parse_args()

    def rows():
        """Processes that share a folder; cells that sleep."""
        return [shards(options.processes, options.cells, options.seconds)]

    run_sections({"shards": rows}, ["shards"], FOLDER)


if __name__ == "__main__":
    main()
