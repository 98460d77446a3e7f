"""`python -m benchmarks.draws`: CPU time of an exact draw, by workers, in step, and of NumPy.

The first two are the ways of `jaxdp.random._rejection`, which make the same draws. CPU seconds, of
all threads, since what else runs on the machine lengthens them little.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.random import _binomial, _hypergeometric
from jaxdp.random._rejection import Law, draw_by_workers, draw_in_step

from . import _report, _timing

LANES = (1000, 2**18)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the JSON and a table beside it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draws", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each candidate")
    parser.add_argument("--quick", action="store_true", help="few lanes: does it run at all?")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file")
    options = parser.parse_args(arguments)
    rows = [
        row
        for number in ((300,) if options.quick else LANES)
        for row in measure(number, 1 if options.quick else options.repeats)
    ]
    results = {
        "benchmark": "draws",
        "date": _report.today(),
        "machine": _timing.machine(),
        "versions": _timing.versions(),
        "cpu_nanoseconds_a_draw": rows,
    }
    print(table(rows))
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(table(rows))


def laws(number: int) -> dict[str, tuple[Law, Callable[[], Any]]]:
    """By name, the law of each lane, in float64, and NumPy's draws of it."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.5, number)
    good, bad = (rng.integers(10**3, 10**6, number) for _ in range(2))
    rarer, total = np.minimum(good, bad), good + bad
    found: dict[str, tuple[Law, Callable[[], Any]]] = {}
    for name, n in {
        "binomial, n = 10^6": np.full(number, 10**6),
        "binomial, n = 10^12": np.full(number, 10**12),
        "binomial, n from 1 to 20": rng.integers(1, 21, number),
        "binomial, n from 1 to 1,000": rng.integers(1, 1001, number),
    }.items():
        law = _binomial.Law(jnp.asarray(n, jnp.float64), jnp.asarray(p))
        found[name] = law, functools.partial(rng.binomial, n, p)
    law = _hypergeometric.Law(*(jnp.asarray(x, jnp.float64) for x in (total, rarer, total // 3)))
    draws = functools.partial(rng.hypergeometric, rarer, total - rarer, total // 3)
    found["hypergeometric, 10^3 to 10^6 of each kind"] = law, draws
    return found


def measure(number: int, repeats: int) -> list[dict[str, Any]]:
    """A row for each law: nanoseconds of a draw of an array of so many."""
    rows = []
    with jax.enable_x64(True):
        keys = tuple(jax.random.key_data(jax.random.key(0)))
        index = jnp.arange(number, dtype=jnp.uint32)
        for name, (law, numpy) in laws(number).items():
            ways = {
                "workers": functools.partial(jax.jit(draw_by_workers), keys, index, law),
                "in step": functools.partial(jax.jit(draw_in_step), keys, index, law),
                "NumPy": numpy,
            }
            same = np.array_equal(ways["workers"](), ways["in step"]())
            row = {"law": name, "lanes": number, "same": same}
            rows.append(row | _least(ways, number, repeats))
    return rows


def _least(ways: dict[str, Callable[[], Any]], number: int, repeats: int) -> dict[str, float]:
    """The least CPU nanoseconds of a draw; the candidates run in turn, small arrays many times."""
    least = dict.fromkeys(ways, float("inf"))
    calls = max(LANES) // number if repeats > 1 else 1
    for _ in range(repeats):
        for name, way in ways.items():
            again = functools.partial(_many, way, calls)
            _, _, seconds = _timing.timed(again, first=lambda: None)
            least[name] = min(least[name], seconds / (calls * number) * 1e9)
    return {name: round(nanoseconds, 1) for name, nanoseconds in least.items()}


def _many(way: Callable[[], Any], calls: int) -> Any:
    for _ in range(calls - 1):
        jax.block_until_ready(way())
    return way()


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| law | lanes | workers | in step | NumPy | in step / workers |", "|---" * 6 + "|"]
    for row in rows:
        gain = row["in step"] / row["workers"]
        lines.append(
            f"| {row['law']} | {row['lanes']:,} | {row['workers']:.0f} | {row['in step']:.0f} "
            f"| {row['NumPy']:.0f} | {gain:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
