"""Interleaved timings, and what they were taken on."""

import contextlib
import dataclasses
import gc
import importlib.metadata
import math
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

PACKAGES = (
    "jax",
    "jaxlib",
    "jax-cuda13-plugin",
    "numpy",
    "numba",
    "multi-freq-ldpy",
    "opendp",
    "pure-ldp",
)


def interleave(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, seconds: float = math.inf
) -> dict[str, dict[str, float]]:
    """Times candidates in turn, A B C A B C ..., so that a slow moment of the machine hits all.

    As in `timeit`, no garbage is collected meanwhile.

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
    stop = time.perf_counter() + seconds
    collects = gc.isenabled()
    gc.disable()
    try:
        for number in range(repeats):
            if number and time.perf_counter() > stop:
                break
            for name, function in candidates.items():
                begin = time.perf_counter()
                function()
                taken[name].append(time.perf_counter() - begin)
    finally:
        if collects:
            gc.enable()
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


@dataclasses.dataclass
class Compiled:
    """The names of the programs that were compiled in a block, and the seconds that it took."""

    names: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def programs(self) -> int:
        """How many there were."""
        return len(self.names)

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        """Hears of an event of jax."""
        if event == "/jax/core/compile/backend_compile_duration":
            self.names.append(str(kwargs.get("fun_name", "")))
            self.seconds += duration_secs


@contextlib.contextmanager
def compilations() -> Iterator[Compiled]:
    """Counts what jax compiles in the block, which it hands over."""
    compiled = Compiled()
    jax.monitoring.register_event_duration_secs_listener(compiled)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(compiled)


def first_call(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """The result of a call, and what the call took with all compilation.

    Returns:
      The result, and {"first_s": seconds, "compile_s": of them XLA's, "programs": compiled ones}.
    """
    with compilations() as compiled:
        begin = time.perf_counter()
        found = jax.block_until_ready(call())
        seconds = time.perf_counter() - begin
    times = {"first_s": seconds, "compile_s": compiled.seconds, "programs": compiled.programs}
    return found, times


def slope(
    prepare: Callable[[int], Callable[[], Any]],
    start: int,
    most: int,
    seconds: float,
    repeats: int = 5,
) -> dict[str, Any]:
    """Seconds that one more item takes: the times of 2 N and of N items, subtracted.

    What a call takes whatever its size is in neither: checks, dispatch, the way of the result to
    the host. The least times of several calls in turn are subtracted.

    Args:
      prepare: from a number of items to the call that is timed; it returns arrays.
      start: items of the first call, which compiles.
      most: of N.
      seconds: that N items should take; N is `start` times a power of two.
      repeats: timed calls of N items, and of 2 N.

    Returns:
      {"amount": N, "seconds": an item, "whole_s": 2 N items, "same_bits": whether two calls gave
      the same, and what `first_call` gives}. Where noise makes the difference negative, "seconds"
      is `whole_s / (2 N)`, a bound, and "bound" is true.
    """
    call = prepare(start)
    found, first = first_call(call)
    begin = time.perf_counter()
    again = jax.block_until_ready(call())
    probe = time.perf_counter() - begin
    doublings = max(int(math.log2(max(seconds, 1e-9) / probe)), 0)
    amount = max(min(start << doublings, most), start)

    def timed_call(items: int) -> Callable[[], Any]:
        call = prepare(items)
        return lambda: jax.block_until_ready(call())

    times = interleave({"N": timed_call(amount), "2 N": timed_call(2 * amount)}, repeats)
    whole, more = times["2 N"]["min"], times["2 N"]["min"] - times["N"]["min"]
    row = {"amount": amount, "seconds": more / amount, "whole_s": whole, **first}
    row["same_bits"] = same_bits(found, again)
    return row if more > 0 else row | {"seconds": whole / (2 * amount), "bound": True}


def same_bits(first: Any, second: Any) -> bool:
    """Whether two pytrees of arrays hold the same bytes."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


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
