"""Optimized channels for prefix sums: how good, and how long the search takes.

    python -m benchmarks.linear                     # k = 16, 32, 64, 128; a few minutes
    python -m benchmarks.linear --sizes 128 --steps 1000 3000

Prints a Markdown table and writes it, with the machine and the versions, to
benchmarks/results/linear/. The objective is the worst-case total variance for one user, exact for
the channel as realised in words of 32 bits.
"""

import argparse
import functools
import json
import os
import pathlib
import platform
import time

import jax
import numpy as np

from jaxdp.linear import HierarchicalQueries, OptimizedStrategy
from jaxdp.workloads import prefix

RESULTS = pathlib.Path(__file__).parent / "results" / "linear"
AUTHORS = {16: 89.9, 32: 267.0, 64: 714.0, 128: 1896.0}
"""Their code at epsilon = 1, the best of several seeds: its objective at 128 goes up to 1,994."""


def measure(size: int, steps: int, epsilon: float, seed: int) -> dict:
    """One line of the table: a search without and with compilation."""
    make = functools.partial(OptimizedStrategy, prefix(size), epsilon, seed=seed, num_steps=steps)
    seconds = []
    protocol = make()
    for spec in (make(seed=seed + 1), protocol):  # the first compiles
        wall, cpu = time.perf_counter(), time.process_time()
        spec.decoder()
        seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    found = protocol.worst_case_total_variance(1)
    tree = HierarchicalQueries(protocol.workload, epsilon).worst_case_total_variance(1)
    line = {
        "k": size,
        "reports": protocol.num_outputs,
        "steps": steps,
        "epsilon": epsilon,
        "realised epsilon": protocol.exact_epsilon(),
        "total variance": round(found, 2),
        "HierarchicalQueries": round(tree, 1),
        "first (s)": round(seconds[0][0], 1),
        "then (s)": round(seconds[1][0], 1),
        "CPU (s)": round(seconds[1][1], 1),
    }
    if epsilon == 1 and size in AUTHORS:
        line["authors' code"] = AUTHORS[size]
    return line


def markdown(report: dict) -> str:
    """The table, and what it was measured on."""
    columns = list(dict.fromkeys(name for row in report["rows"] for name in row))
    lines = [columns, ["---:"] * len(columns)]
    lines += [[str(row.get(name, "")) for name in columns] for row in report["rows"]]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    text = f"Measured on {report['machine']}, load {report['load']:.1f} before the run; {versions}."
    return text + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Measures, prints, and writes the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--steps", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS / "results.json")
    options = parser.parse_args(arguments)
    report: dict = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "load": os.getloadavg()[0],
        "versions": {
            "Python": platform.python_version(),
            "jax": jax.__version__,
            "NumPy": np.__version__,
        },
        "rows": [],
    }
    for size in options.sizes:
        for steps in options.steps:
            report["rows"].append(measure(size, steps, options.epsilon, options.seed))
            print(report["rows"][-1], flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    options.out.with_suffix(".md").write_text(markdown(report))
    print("\n" + markdown(report))


if __name__ == "__main__":
    main()
