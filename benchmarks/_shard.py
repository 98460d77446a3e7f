"""One of the processes of `benchmarks.shards`: `OUT INDEX PROCESSES CELLS SECONDS`."""

import json
import os
import sys
import time
from typing import Any

import pyarrow.parquet  # noqa: F401  # a process loads it once

from jaxdp import sweep

from ._nap import BEGINS, Nap

OPERATIONS = {"open", "os.listdir", "os.scandir", "os.link", "os.rename", "os.remove", "os.mkdir"}


def main() -> None:
    """Waits until all processes are there, runs the cells, and prints what it took as JSON."""
    out = sys.argv[1]
    index, processes, cells = map(int, sys.argv[2:5])
    seconds = float(sys.argv[5])
    grid = [Nap(i, seconds) for i in range(cells)]
    sweep.run([Nap(index, 0.0)], f"{out}-warm-{index}")
    BEGINS.clear()
    while not os.path.exists(f"{out}-go"):
        time.sleep(0.01)
    operations = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal operations
        paths = (x for x in arguments[:2] if isinstance(x, str | os.PathLike))
        operations += event in OPERATIONS and any(out in str(path) for path in paths)

    sys.addaudithook(count)
    busy = time.process_time()
    found = sweep.run(grid, out, shard=(index, processes))
    row = {
        "cells": len(BEGINS),
        "began": min(BEGINS, default=0.0),
        "ended": max(BEGINS, default=0.0) + seconds,
        "cpu": time.process_time() - busy,
        "operations": operations,
        "computed": found.computed,
        "jax": "jax" in sys.modules,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
