"""Axes: where numbers are drawn, and which of them are named."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Axis:
    """Maps numbers to places in a chart.

    Attributes:
      low: the number at `start`.
      high: the number at `end`.
      start: a place.
      end: a place.
      log: whether the scale is one of logarithms.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = True

    def at(self, number: float) -> float:
        """The place of a number."""
        share = (self._scaled(number) - self._scaled(self.low)) / (
            self._scaled(self.high) - self._scaled(self.low)
        )
        return self.start + share * (self.end - self.start)

    def _scaled(self, number: float) -> float:
        return math.log(number) if self.log else number

    def ticks(self) -> list[float]:
        """Round numbers on the axis, at most about seven."""
        return ticks(self.low, self.high, log=self.log)

    def to_json(self) -> list[float]:
        """The ends of the axis, and their places."""
        return [self.low, self.high, self.start, self.end]


def ticks(low: float, high: float, *, log: bool = False, most: int = 7) -> list[float]:
    """Round numbers in an interval.

    Args:
      low: the lower end, > 0 for a scale of logarithms.
      high: the upper end, above the lower one.
      log: whether the numbers are for a scale of logarithms: powers of ten, with their multiples by
        2 and 5, or by 3, where there is room.
      most: how many numbers, about.

    Returns:
      The numbers, ascending.

    Example:
      >>> from jaxdp import figures
      >>> figures.ticks(0.03, 2.0, log=True)
      [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    """
    if not log:
        return _even(low, high, most)
    found: list[float] = []
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [m * 10.0**d for d in decades for m in steps]
        found = [x for x in found if low <= x * (1 + 1e-9) and x <= high * (1 + 1e-9)]
        if len(found) <= most:
            # Within less than a decade even steps are as good.
            return found if len(found) > 2 else _even(low, high, most)
    return found[:: -(-len(found) // most)]


def _even(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / (most - 2)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def short(number: float) -> str:
    """A number in few characters: 5k, 3M, 0.001.

    Args:
      number: at least 0.

    Example:
      >>> from jaxdp import figures
      >>> figures.short(0.05), figures.short(2e6)
      ('0.05', '2M')
    """
    if number >= 1e3:
        power = min(int(math.log10(number * (1 + 1e-12)) // 3), 4)
        return f"{number / 1000.0**power:.3g}{' kMGT'[power]}"
    return f"{number:.4f}".rstrip("0").rstrip(".") if 1e-4 <= number < 1 else f"{number:.4g}"
