"""What one report tells of a person: odds, and the channel."""

import dataclasses
import math
from typing import Any

import numpy as np

from .._contract import Spec, round_of
from ..randomizers import Randomizer, SupportOracle

_MOST_BINS, _MOST_REPORTS = 10, 16  # of a channel whose entries are drawn
_BARS = 48  # into which many numbers are gathered


@dataclasses.dataclass(frozen=True, eq=False)
class Channel:
    """The exact law of a report.

    Attributes:
      inputs: names of the rows.
      reports: names of the columns, or the two ends of an axis where they are many.
      probabilities: float64[rows, columns].
    """

    inputs: tuple[str, ...]
    reports: tuple[str, ...]
    probabilities: np.ndarray

    @property
    def is_table(self) -> bool:
        """Whether each column is one report."""
        return len(self.reports) == self.probabilities.shape[1]


def posterior(prior: float, epsilon: float) -> tuple[float, float]:
    """The least and the largest probability of a guess after a report, from that before it.

    A report changes the odds of any two values of a person by a factor from e**-epsilon to
    e**epsilon.
    """

    def after(log_ratio: float) -> float:
        return prior / (prior + (1 - prior) * math.exp(-log_ratio))

    return after(-epsilon), after(epsilon)


def randomizer_of(spec: Any) -> Randomizer[Any] | None:
    """The randomizer whose reports a protocol's users send; None where it holds no single one."""
    while isinstance(spec, Spec) and not isinstance(spec, Randomizer):
        holder: Any = spec
        held = [getattr(holder, field.name) for field in dataclasses.fields(holder)]
        # A randomizer that follows from fields is a property, which protocols call by this name.
        held.append(getattr(holder, "randomizer", None))
        spec = next((each for each in held if isinstance(each, Spec)), None)
    return spec


def support_of(randomizer: Randomizer[Any]) -> tuple[float, float] | None:
    """How often a report holds a person's value, and another one; None where it holds none."""
    if not isinstance(randomizer, SupportOracle):
        return None
    user, other = randomizer.probabilities()
    return float(user), float(other)


def channel_of(randomizer: Randomizer[Any], offset: float) -> Channel | None:
    """The law of the reports of a few inputs; None where these or the reports are too many.

    Args:
      randomizer: whose.
      offset: what is added to inputs that are no bins, to name them.
    """
    params = round_of(randomizer.built)
    assert params is not None, "a randomizer is of one round"
    bins = params.num_bins
    rows = None if bins is not None and bins > _MOST_BINS else randomizer.channel()
    if not rows:
        return None
    table = np.array([[float(p) for p in row] for row in rows])
    held, number = randomizer.reports(), table.shape[1]
    if bins is None:
        values = np.ravel(randomizer.extreme_inputs())
        if len(values) != len(table):
            return None
        order = np.argsort(values)
        table, inputs = table[order], tuple(f"{x + offset:g}" for x in values[order])
    else:
        inputs = tuple(map(str, range(bins)))
    if number <= _MOST_REPORTS:
        names = range(number) if held is None else held
        return Channel(inputs, tuple(_name(x) for x in names), table)
    if bins is not None or held is None or held.ndim != 1:
        return None
    ends = np.linspace(0, number, _BARS + 1).astype(int)
    gathered = np.add.reduceat(table, ends[:-1], axis=1)
    return Channel(inputs, (f"{held[0]:g}", f"{held[-1]:g}"), gathered / np.diff(ends))


def _name(report: Any) -> str:
    return ", ".join(f"{x:g}" for x in np.ravel(report))
