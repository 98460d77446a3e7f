"""What a sweep compiles, and what its cells take: programs are shared, cells are small.

    python -m benchmarks.sweeps                 # two minutes
    python -m benchmarks.sweeps --only mechanisms

Every row is that of a process of its own without a cache of compiled programs. Prints Markdown
tables and writes them to benchmarks/results/sweeps/.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

from jaxdp import randomizers, sweep
from jaxdp.sweep import experiments

from . import _timing
from ._report import RESULTS, Rows, run_sections

FOLDER = RESULTS / "sweeps"

VALUES, TRIALS = 223, 100
MECHANISMS = (
    "KRR",
    "SubsetSelection",
    "HadamardResponse",
    "HadamardBit",
    "UnaryEncoding, optimal",
    "UnaryEncoding, symmetric",
)
AXES = {"epsilon": [0.5, 1.0, 2.0, 4.0], "n": [1_000, 10_000, 100_000]}

CELLS_AIM = 25.0
"""CPU seconds that the 72 cells of all mechanisms may take."""

PROGRAMS_AIM = 9
"""Programs that simulate the 54 cells of the main job."""


def cells(names: tuple[str, ...] = MECHANISMS) -> list[sweep.Simulation]:
    """A cell for each mechanism, epsilon and number of users, whose shares are those of Zipf."""
    weights = 1 / np.arange(1, VALUES + 1)
    found = []
    for point in sweep.grid(mechanism={n: randomizers.FREQUENCY_ORACLES[n] for n in names}, **AXES):
        counts = np.floor(point.n * weights / weights.sum()).astype(np.int64)
        counts[0] += point.n - counts.sum()
        found.append(
            sweep.Simulation(
                protocol=point.mechanism(VALUES, point.epsilon),
                data=sweep.HistogramData(counts),
                num_trials=TRIALS,
                labels=point.labels,
            )
        )
    return found


def mechanisms() -> Rows:
    """CPU seconds of 12 cells, 4 epsilons and 3 numbers of users, and of the same ones again."""
    rows = [_row(name, [name], "") for name in MECHANISMS]
    return [*rows, _row("all", list(MECHANISMS), f"{CELLS_AIM:g}")]


def main_job() -> Rows:
    """CPU seconds of the 54 cells of `jaxdp run kendall-flights`, without its table and figure."""
    return [_row("kendall-flights", ["kendall-flights"], f"{PROGRAMS_AIM} programs that simulate")]


def _row(name: str, names: list[str], aim: str) -> dict[str, str]:
    command = [sys.executable, "-m", "benchmarks.sweeps", "--measure", *names]
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    programs = collections.Counter(found["programs"])
    simulate, estimate = (programs.pop(f"jit({n}_trials)", 0) for n in ("_play", "_finish"))
    return {
        "cells of": name,
        "cells": str(found["cells"]),
        "programs that simulate": str(simulate),
        "that estimate": str(estimate),
        "other": str(programs.total()),
        "CPU seconds": f"{found['cpu']:.1f}",
        "again": f"{found['again']:.2f}",
        "aim": aim,
    }


def measure(names: list[str]) -> dict[str, Any]:
    """What the cells of some mechanisms, or of an experiment, compile and take, twice."""
    if names[0] in MECHANISMS:
        grid = cells(tuple(names))
    else:
        experiment = experiments()[names[0]]
        grid = experiment.cells(experiment.settings)
    took = []
    with _timing.compilations() as compiled:
        for _ in range(2):
            began = time.process_time()
            for cell in grid:
                cell.rows()
            took.append(time.process_time() - began)
    return {
        "cells": len(grid),
        "programs": compiled.names,
        "cpu": took[0],
        "again": took[1],
    }


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sections = {"mechanisms": mechanisms, "main_job": main_job}
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.measure:
        print(json.dumps(measure(parsed.measure)))
    else:
        run_sections(sections, parsed.only, FOLDER)


if __name__ == "__main__":
    main()
