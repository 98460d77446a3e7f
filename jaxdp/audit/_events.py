"""Events that tell two inputs apart: learnt on one half of the samples, counted on the other."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ._samples import LARGEST, Samples, finite

MAX_SYMBOLS = 4096
MIN_COUNT = 16  # rarer symbols are taken together: their frequency ratios are noise


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number or a symbol of each report, for a pair of inputs.

    Attributes:
      name: shown in reports.
      values: float64 or int64, for the first and the second input.
    """

    name: str
    values: tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Event:
    """A set of cells of a statistic.

    Attributes:
      statistic: its name.
      cells: float64[m], the left ends of the cells of a number; or int64[m], symbols.
      chosen: bool, one for each cell (for a number m + 1, with a cell below the first end).
    """

    statistic: str
    cells: np.ndarray
    chosen: np.ndarray

    def count(self, values: np.ndarray) -> int:
        """How many of these values of the statistic are in the event."""
        return int(self.chosen[_cell(values, self.cells)].sum())

    def __str__(self) -> str:
        if np.issubdtype(self.cells.dtype, np.integer):
            listed = [str(c) for c, yes in zip(self.cells, self.chosen[:-1], strict=True) if yes]
            if self.chosen[-1]:
                listed.append("rare")
            if len(listed) > 4:
                return f"{self.statistic} among {len(listed)} of {len(self.cells)} symbols"
            return f"{self.statistic} in {{{', '.join(listed)}}}"
        edges = np.flatnonzero(np.diff(self.chosen.astype(int)))
        if len(edges) == 1:
            sign = ">=" if self.chosen[-1] else "<"
            return f"{self.statistic} {sign} {_number(float(self.cells[edges[0]]))}"
        if len(edges) == 2 and not self.chosen[0]:
            low, high = map(float, self.cells[edges])
            if high == np.nextafter(low, np.inf):
                return f"{self.statistic} = {_number(low)}"
            return f"{_number(low)} <= {self.statistic} < {_number(high)}"
        return f"{self.statistic} in {self.chosen.sum()} of {len(self.chosen)} intervals"


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < LARGEST else f"{math.copysign(math.inf, value)}"


def candidates(
    first: Samples, second: Samples, i: int, j: int, pair: str, prefix: str = ""
) -> Iterator[Statistic]:
    """Everything that is tried for a pair: the reports of inputs number i and j.

    Args:
      first: the reports of one input.
      second: those of the other.
      i: the number of the one.
      j: the number of the other.
      pair: what their difference is called.
      prefix: what statistics of several columns are called after.
    """

    def contrast(name: str, field: str) -> Iterator[Statistic]:
        tables = getattr(first, field), getattr(second, field)
        if tables[0] is not None and max(i, j) < tables[0].shape[1]:
            with np.errstate(invalid="ignore"):
                values = [finite(t[:, i] - t[:, j]) for t in tables]
            yield Statistic(f"{prefix}{name}, {pair}", (values[0], values[1]))

    yield from contrast("log density", "log_densities")
    yield from contrast("decoded", "fits")
    yield from contrast("projected", "projections")
    for kind in ("reals", "symbols"):
        columns = getattr(first, kind), getattr(second, kind)
        for name in columns[0]:
            yield Statistic(name, (columns[0][name], columns[1][name]))
    if first.fits is not None and second.fits is not None and len(first.crossed) > 1:
        # A hash is sent along with what it hides: each of its words may tell when the bucket of the
        # report is the true one, and none of them, nor the bucket, says anything alone.
        differences = [table[:, i] - table[:, j] for table in (first.fits, second.fits)]
        signs = [np.sign(values).astype(np.int64) for values in differences]
        for name in first.crossed:
            crossed = 3 * first.crossed[name] + signs[0], 3 * second.crossed[name] + signs[1]
            yield Statistic(f"{name} with decoded, {pair}", crossed)


def learn(statistic: Statistic, half: int, delta: float, log_level: float) -> tuple[Event, Event]:
    """The best event of the first `half` samples, for each of the two inputs over the other."""
    values = [v[:half] for v in statistic.values]
    cells = _cells(np.concatenate(values))
    size = len(cells) + 1
    counts = [np.bincount(_cell(v, cells), minlength=size) for v in values]
    # Half lines need no ratios of single cells, which are noisy.
    lines = [np.arange(size), np.arange(size)[::-1]]
    further = lines if np.issubdtype(cells.dtype, np.floating) else []
    found = []
    for mine, other in (counts, counts[::-1]):
        chosen = likeliest(mine, other, (half, half), further, delta, log_level)
        found.append(Event(statistic.name, cells, chosen))
    return found[0], found[1]


def likeliest(
    mine: np.ndarray,
    other: np.ndarray,
    sizes: tuple[int, int],
    orders: Sequence[np.ndarray],
    delta: float,
    log_level: float,
) -> np.ndarray:
    """The set of cells, bool[m], whose counts promise the largest bound.

    Args:
      mine: int[m], counts of the cells under the input that is to make the set likely.
      other: int[m], those under the other input.
      sizes: reports counted of each.
      orders: further orders of the cells whose first ones are tried.
      delta: the claimed delta.
      log_level: minus the logarithm of the chance of error of a limit.
    """
    # By Neyman and Pearson the best events hold the cells of the largest ratios, which half a
    # count more keeps finite.
    ratios = (mine + 0.5) / (other + 0.5)
    best, chosen = -math.inf, np.zeros(len(mine), bool)
    for order in (np.argsort(-ratios, kind="stable"), *orders):
        totals = np.cumsum(mine[order]), np.cumsum(other[order])
        scores = _scores(*totals, sizes, delta, log_level)
        if scores.max() > best:
            best, chosen = float(scores.max()), np.zeros(len(mine), bool)
            chosen[order[: scores.argmax() + 1]] = True
    return chosen


def _scores(mine, other, sizes: tuple[int, int], delta: float, log_level: float) -> np.ndarray:
    """ln((p - delta) / q) with p and q moved apart by about their confidence intervals."""
    p, q = mine / sizes[0], other / sizes[1]
    low = p - np.sqrt(2 * p * (1 - p) * log_level / sizes[0]) - delta
    high = q + np.sqrt(2 * q * (1 - q) * log_level / sizes[1]) + log_level / sizes[1]
    return np.where(low > 0, np.log(np.maximum(low, 1e-300)) - np.log(high), -np.inf)


def _cells(values: np.ndarray) -> np.ndarray:
    """The most frequent symbols, sorted; or ends of intervals, finer in the tails."""
    if np.issubdtype(values.dtype, np.integer):
        symbols, counts = np.unique(values, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_SYMBOLS]
        return np.sort(symbols[order[counts[order] >= MIN_COUNT]])
    line = np.sort(values)
    # Quantiles that are finer and finer towards both ends: ratios are largest in the tails.
    tail = 2.0 ** -np.arange(2, max(math.log2(line.size) - 2, 3), 0.5)
    levels = np.concatenate([tail, 1 - tail, np.linspace(0.05, 0.95, 19)])
    ends = np.unique(line[np.rint(levels * (line.size - 1)).astype(np.int64)])
    times = np.searchsorted(line, ends, side="right") - np.searchsorted(line, ends)
    # A number that comes up often gets a cell of its own, which ends at the next float.
    atoms = ends[times >= MIN_COUNT]
    return np.unique(np.concatenate([ends, np.nextafter(atoms, np.inf)]))


def _cell(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The index of the cell of each value; the last one for a symbol that is not listed."""
    if np.issubdtype(cells.dtype, np.floating):
        return np.searchsorted(cells, values, side="right")
    if not len(cells):
        return np.zeros(len(values), np.int64)
    place = np.minimum(np.searchsorted(cells, values), len(cells) - 1)
    return np.where(cells[place] == values, place, len(cells))
