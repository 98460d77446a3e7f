"""What the benchmarks of the operations share."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation and what it is measured against, on the same arguments.

    Attributes:
      arguments: the name of the argument spec.
      items: how many of `unit` the arguments hold.
      unit: what the time is divided by, in the singular.
      ours: runs the operation, and returns when it is done.
      baseline: the other way to the same result.
      against: the name of the baseline.
    """

    arguments: str
    items: int
    unit: str
    ours: Callable[[], Any]
    baseline: Callable[[], Any]
    against: str


def timed(function: Callable[..., Any], *arguments: object) -> Callable[[], Any]:
    """The call of a jitted function, until its results are there."""
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def report(operation: str, cases: Iterable[Case], repeats: int = 10) -> None:
    """Prints nanoseconds an item, ours and the baseline's, the least of several runs in turn."""
    print(f"{operation:20s} {'items':>10s} {'ours ns':>10s} {'other ns':>10s} {'ratio':>6s}")
    for case in cases:
        best = {case.ours: float("inf"), case.baseline: float("inf")}
        for function in best:
            function()
        for _ in range(repeats):
            for function in best:
                begin = time.perf_counter()
                function()
                best[function] = min(best[function], time.perf_counter() - begin)
        ours, other = (seconds / case.items * 1e9 for seconds in best.values())
        line = (
            f"{case.arguments:20s} {case.items:10d} {ours:10.2f} {other:10.2f} {other / ours:6.2f}"
        )
        print(f"{line}  per {case.unit}, against {case.against}")
