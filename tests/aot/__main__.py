"""Prints what the hot programs, compiled for accelerators, take of their budgets.

`python -m tests.aot` compiles all of them for an H200 and for a TPU, `python -m tests.aot cuda KRR`
for an H200 those whose names hold "KRR".
"""

import dataclasses
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"  # or jax looks for the accelerators whose compilers it finds

from tests.aot import _budgets, _device, _hot

WIDTHS = (9, 8, 3, 6, 5, 5, 5, 5, 8, 7)
HEAD = ("users", "blocks", "?", "loop", "out", "cond", "atom", "coll", "MiB", "s")


def main(words: list[str]) -> None:
    """Prints a table for each platform, with two lines for each program."""
    platforms = [p for p in _device.PLATFORMS if p in words] or _device.PLATFORMS
    names = [w for w in words if w not in _device.PLATFORMS] or [""]
    for platform in platforms:
        if reason := _device.missing(platform):
            print(f"{platform}: {reason}")
            continue
        print(_row(platform, HEAD))
        for program, budget in _budgets.BUDGETS[platform].items():
            if any(name in program for name in names):
                measured = _hot.measured(program, platform)
                missed = ", ".join(_budgets.exceeded(measured, budget))
                print(_row(program, _cells(measured)), missed and f"  not kept: {missed}")
                print(_row("  budget", _cells(budget)), flush=True)


def _cells(numbers: _hot.Measured) -> tuple[str, ...]:
    values = dataclasses.astuple(numbers)
    return tuple(f"{v:.1f}" if isinstance(v, float) else str(v) for v in values)


def _row(name: str, cells: tuple[str, ...]) -> str:
    numbers = (f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
    return f"{name:24}" + "".join(numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
