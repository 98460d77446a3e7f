"""What it costs that processes share a sweep's folder and nothing else.

    python -m benchmarks.shards                # five minutes
    python -m benchmarks.shards --only shards --processes 8

Starts processes that run the same cells into one folder. A cell sleeps, so that all of them fit
on any machine: what is left is what claiming and storing a cell costs. Then the folder of many
cells is read. Prints Markdown tables and writes them to benchmarks/results/shards/.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from ._report import RESULTS, Rows, run_sections
from ._timing import machine

FOLDER = RESULTS / "shards"
MANY, SHORT = 10_000, 0.05
"""Cells, and seconds that each of them sleeps."""


def shards(folder: str, processes: int, cells: int, seconds: float) -> dict[str, object]:
    """One row: how busy the processes are, and what a cell costs each of them."""
    out, here = f"{folder}/out", _here()
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
        "on": here,
    }
    print(row, flush=True)
    return row


def readers(folder: str) -> Rows:
    """What commands take that read the folder."""
    out = f"{folder}/out"
    commands = {
        "status": ["status", out],
        "show": ["show", out, "--where", "number == 7"],
        "report": ["report", out],
    }
    rows = []
    for name, arguments in commands.items():
        program = "import sys; from jaxdp.sweep.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", _USAGE, sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        seconds, kilobytes = json.loads(done.stdout)
        rows.append(
            {
                "command": f"jaxdp {name}",
                "CPU seconds": f"{seconds:.1f}",
                "MB of memory": f"{kilobytes / 1024:.0f}",
                "on": _here(),
            }
        )
    return rows


_USAGE = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""Runs a command from a small process: a child's peak of memory begins with its parent's."""


def _here() -> str:
    """The machine and its load, since sections are measured at different times."""
    found = machine()
    return f"{found['cpu']}, load {found['load_before']:.1f}"


def main() -> None:
    """Runs them, and writes the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--cells", type=int, default=10, help="of each process")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a cell sleeps")
    parser.add_argument("--only", choices=["shards", "many"])
    options = parser.parse_args()
    read: Rows = []

    def few() -> Rows:
        """Processes that share a folder; cells that sleep."""
        cells = options.processes * options.cells
        with tempfile.TemporaryDirectory() as folder:
            return [shards(folder, options.processes, cells, options.seconds)]

    def many() -> Rows:
        """Many short cells."""
        with tempfile.TemporaryDirectory() as folder:
            rows = [shards(folder, 16, MANY, SHORT)]
            read.extend(readers(folder))
        return rows

    def reading() -> Rows:
        """What commands take that read their folder."""
        return read

    sections = {"shards": few, "many": many, "reading": reading}
    chosen = {"shards": ["shards"], "many": ["many", "reading"]}.get(options.only, list(sections))
    run_sections(sections, chosen, FOLDER)


if __name__ == "__main__":
    main()
