"""Prints what the hot programs, compiled for accelerators, take of their budgets.

`python -m tests.aot` compiles all of them for an H200 and for a TPU, `python -m tests.aot cuda KRR`
for an H200 those whose names hold "KRR".
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"  # or jax looks for the accelerators whose compilers it finds

from tests.aot import _device, _hot

ROW = "{:24}{:>9}{:>7}{:>7}{:>6}{:>6}{:>6}{:>6}{:>6}{:>6}{:>8}{:>7}"
HEAD = ("users", "blocks", "loops?", "loop", "out", "cond", "host", "atom", "coll", "MiB", "s")


def main(words: list[str]) -> None:
    """Prints a table for each platform."""
    platforms = [p for p in _device.PLATFORMS if p in words] or _device.PLATFORMS
    names = [w for w in words if w not in _device.PLATFORMS] or [""]
    for platform in platforms:
        if reason := _device.missing(platform):
            print(platform, reason)
            continue
        print(ROW.format(platform, *HEAD))
        for program in _hot.PROGRAMS:
            if any(name in program for name in names):
                print(_row(program, platform), flush=True)


def _row(program: str, platform: str) -> str:
    m = _hot.measured(program, platform)
    blocks, rest = f"{m.blocks:.2f}", (f"{m.mebibytes:.1f}", f"{m.seconds:.1f}")
    numbers = (m.kernels, m.outside, m.conditionals, m.host, m.atomics, m.collectives)
    return ROW.format(program, m.users, blocks, m.unknown, *numbers, *rest)


if __name__ == "__main__":
    main(sys.argv[1:])
