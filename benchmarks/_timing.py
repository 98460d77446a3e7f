"""Interleaved timings, and what they were taken on."""

import gc
import importlib.metadata
import math
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

PACKAGES = ("jax", "jaxlib", "numpy", "numba", "multi-freq-ldpy", "pure-ldp")


def interleave(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, seconds: float = math.inf
) -> dict[str, dict[str, float]]:
    """Times candidates in turn, A B C A B C ..., so that a slow moment of the machine hits all.

    Args:
      candidates: functions by name; each returns when its work is done. Called once to warm up.
      repeats: timed calls of each.
      seconds: after which no further round begins, though one is always made.

    Returns:
      For each, seconds a call: {"median": ..., "min": ...}.
    """
    for function in candidates.values():
        function()
    taken = {name: [] for name in candidates}
    gc.collect()
    stop = time.perf_counter() + seconds
    for number in range(repeats):
        if number and time.perf_counter() > stop:
            break
        for name, function in candidates.items():
            begin = time.perf_counter()
            function()
            taken[name].append(time.perf_counter() - begin)
    return {
        name: {"median": statistics.median(times), "min": min(times)}
        for name, times in taken.items()
    }


def timed(
    call: Callable[[], Any], repeats: int = 1, first: Callable[[], Any] | None = None
) -> tuple[Any, float, float]:
    """The result of a call in jax, and how long it takes at the least.

    Args:
      call: what is timed.
      repeats: timed calls.
      first: what is called before them, to compile; None for `call` itself.

    Returns:
      The last result, and the least wall and processor seconds of a call.
    """
    jax.block_until_ready((first or call)())
    found, seconds, busy = None, [], []
    for _ in range(repeats):
        start, processor = time.perf_counter(), time.process_time()
        found = jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
        busy.append(time.process_time() - processor)
    return found, min(seconds), min(busy)


def machine() -> dict[str, Any]:
    """The processor, its cores, the device that jax computes on, and how busy the machine is."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.system(),
    }


def _cpu_model() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that take part, as far as they are installed."""
    from jaxdp import __version__

    found = {"python": platform.python_version(), "jaxdp": __version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
