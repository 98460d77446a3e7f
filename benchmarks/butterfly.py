"""`python -m benchmarks.butterfly`: exact Hadamard tallies of 1.3·10^11 users, and their draws.

Pin it to one core (`taskset -c 0`) to judge the aims, which are set for one.
"""

import argparse
import functools
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.random import Count, binomial
from jaxdp.randomizers._butterfly import butterfly
from jaxdp.randomizers._hadamard_bit import HadamardBit
from jaxdp.randomizers._hadamard_halving import halve
from jaxdp.randomizers._hadamard_response import HadamardResponse

from . import _report, _timing

USERS = 130_000_000_000
EPSILON = 1.0
AIM_SECONDS = 1.0
CELLS = (20, 1000, 500_000, 10**12)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.butterfly", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each candidate")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file")
    options = parser.parse_args(arguments)
    results = measure(8 if options.quick else 18, 1 if options.quick else options.repeats)
    text = json.dumps(results, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def measure(log2_reports: int, repeats: int) -> dict[str, Any]:
    """Seconds a trial for K = 2**log2_reports, and nanoseconds of a draw.

    Args:
      log2_reports: log2 of K, 4 or more.
      repeats: timed runs of each candidate.

    Returns:
      A dict of plain values, the JSON.
    """
    size = 2**log2_reports
    trials = _timing.interleave(tallies(size), repeats)
    general = jax.jit(lambda key, n: binomial(key, n, 0.5))
    draws = {}
    for cell in CELLS:
        times = _timing.interleave(draws_of(cell, 2 * size, general), repeats)
        draws[cell] = {name: time["min"] / (2 * size) * 1e9 for name, time in times.items()}
    slowest = max(time["min"] for time in trials.values())
    return {
        "benchmark": "butterfly",
        "date": _report.today(),
        "machine": _timing.machine(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "versions": _timing.versions(),
        "settings": {"users": USERS, "epsilon": EPSILON, "reports": size, "repeats": repeats},
        "seconds_a_trial": trials,
        "nanoseconds_a_draw": draws,
        "aim_seconds": AIM_SECONDS,
        "met": slowest < AIM_SECONDS,
    }


def tallies(size: int) -> dict[str, Callable[[], Any]]:
    """One trial of each mechanism with `size` rows, inside jit, up to the tally on the host."""
    specs = {
        "HadamardResponse": HadamardResponse(size - 1, EPSILON, num_blocks=1),
        "HadamardBit": HadamardBit(size, EPSILON),
    }
    key, found = jax.random.key(1), {}
    for name, spec in specs.items():
        weights = np.random.default_rng(0).zipf(1.5, spec.num_values).astype(np.float64)
        counts = np.floor(USERS * weights / weights.sum()).astype(np.int64)
        counts[0] += USERS - counts.sum()
        sample = jax.jit(spec.build().sample_tally)
        found[name] = functools.partial(_run, sample, key, Count.of(counts))
    with jax.enable_x64(True):
        uniform = jnp.full((1, 2, size), float(USERS // (2 * size)))
        alone = jax.jit(functools.partial(butterfly, forced=True))
    found["butterfly alone"] = functools.partial(_run_in_float64, alone, key, uniform)
    return found


def draws_of(cell: int, number: int, general: Callable) -> dict[str, Callable[[], Any]]:
    """Draws of Binomial(cell, 1/2): ours, the general ones, and NumPy's."""
    key, rng = jax.random.key(2), np.random.default_rng(2)
    with jax.enable_x64(True):
        users = jnp.full(number, float(cell))
    many = np.full(number, cell, np.int64)
    return {
        "halve": functools.partial(_run_in_float64, jax.jit(halve), key, users),
        "jaxdp.random.binomial": functools.partial(_run, general, key, Count.of(many)),
        "NumPy": lambda: rng.binomial(many, 0.5),
    }


def _run(function, *arguments):
    return jax.block_until_ready(function(*arguments))


def _run_in_float64(function, *arguments):
    with jax.enable_x64(True):
        return _run(function, *arguments)


if __name__ == "__main__":
    main()
