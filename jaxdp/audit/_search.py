"""The best events of every ordered pair of inputs, and the bounds that they prove."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._events import Event, Statistic, candidates, learn
from ._intervals import lower_limit, upper_limit
from ._report import PairFinding, short
from ._samples import Samples


def find_events(
    groups: Mapping[str, Sequence[Samples]], inputs: Sequence[Any], delta: float, error: float
) -> tuple[PairFinding, ...]:
    """The best event of each ordered pair of inputs, the largest bound first.

    Args:
      groups: samples of each input, by what is put before the names of their statistics.
      inputs: the inputs, as they are shown.
      delta: the claimed delta.
      error: the chance that any of the limits is wrong, by Bonferroni: of two limits for each
        statistic and each order of a pair.
    """
    pairs = []
    for i, j in itertools.combinations(range(len(inputs)), 2):
        minus = f"{short(inputs[i])} minus {short(inputs[j])}"
        tried = [
            statistic
            for prefix, samples in groups.items()
            for statistic in candidates(samples[i], samples[j], i, j, minus, prefix)
        ]
        pairs.append((i, j, tried))
    level = log_level(sum(2 * len(tried) for _, _, tried in pairs), error)
    findings = [
        found
        for i, j, tried in pairs
        for found in _compare(tried, (inputs[i], inputs[j]), delta, level)
    ]
    return tuple(sorted(findings, key=lambda pair: -pair.epsilon_lower))


def log_level(num_tests: int, error: float) -> float:
    """Minus the logarithm of the chance of error of each limit, two for each test."""
    return math.log(2 * num_tests / error)


def _compare(
    tried: Sequence[Statistic], inputs: tuple[Any, Any], delta: float, level: float
) -> tuple[PairFinding, PairFinding]:
    """The findings for the two inputs in this order and in the other."""
    half = min(len(values) for values in tried[0].values) // 2
    learnt = [learn(statistic, half, delta, level) for statistic in tried]
    return (
        _best(tried, [events[0] for events in learnt], 0, half, inputs, delta, level),
        _best(tried, [events[1] for events in learnt], 1, half, inputs[::-1], delta, level),
    )


def _best(
    tried: Sequence[Statistic],
    events: Sequence[Event],
    side: int,
    half: int,
    inputs: tuple[Any, Any],
    delta: float,
    level: float,
) -> PairFinding:
    """The event with the largest bound, from the samples that were not searched."""
    fresh = [[statistic.values[s][half:] for s in (side, 1 - side)] for statistic in tried]
    sizes = np.array([len(fresh[0][0]), len(fresh[0][1])])
    counts = np.array([[e.count(v) for v in pair] for e, pair in zip(events, fresh, strict=True)])
    return finding(events, counts, sizes, inputs, delta, level)


def finding(
    events: Sequence[Event],
    counts: np.ndarray,
    sizes: Sequence[int] | np.ndarray,
    inputs: tuple[Any, Any],
    delta: float,
    level: float,
) -> PairFinding:
    """The event of the largest bound.

    Args:
      events: chosen without looking at the counts.
      counts: int[events, 2], reports of each of the two inputs in the event.
      sizes: reports of each of the two inputs.
      inputs: the two.
      delta: the claimed delta.
      level: minus the logarithm of the chance of error of each limit.
    """
    lower = lower_limit(counts[:, 0], sizes[0], level)
    upper = upper_limit(counts[:, 1], sizes[1], level)
    # Where delta leaves nothing the logarithm is about −690, and the bound 0 below.
    bounds = np.log(np.maximum(lower - delta, 1e-300) / upper)
    best = int(bounds.argmax())
    bound = max(float(bounds[best]), 0.0)
    return PairFinding(
        value=inputs[0],
        other=inputs[1],
        epsilon_lower=bound,
        event=str(events[best]) if bound else "none found",
        probability=float(counts[best, 0] / sizes[0]),
        other_probability=float(counts[best, 1] / sizes[1]),
        lower=float(lower[best]),
        upper=float(upper[best]),
    )
